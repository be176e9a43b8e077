"""Sums of bounded rows in float64, and how far rounding can move two neighbouring sums apart.

The scheme and its bound stand together because one is only true of the other: an ordinary
``X.sum(axis=0)`` adds all rows one after the other, and its error grows with the square of their
number.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

SUM_LEAF = 4096
"""Rows that may be added one after the other; longer sums combine such leaves pairwise."""


class PairwiseSum:
    """A sum of leaves, combined pairwise as they come: memory for log2(leaves) vectors.

    Each leaf is the sum of up to SUM_LEAF rows. Leaves meet like the digits of a binary counter, so
    that a leaf takes part in at most ``log2(leaves) + 1`` additions.

    >>> total = PairwiseSum()
    >>> for leaf in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]):
    ...     total.add(np.array(leaf))
    >>> total.result()
    array([ 9., 12.])
    """

    def __init__(self) -> None:
        self._parts: list[NDArray[np.float64]] = []  # sums of 2^k leaves, larger k first
        self._leaves = 0

    def add(self, leaf: NDArray[np.float64]) -> None:
        """Add the sum of the next rows."""
        part = leaf
        carry = self._leaves
        while carry & 1:
            part = self._parts.pop() + part
            carry >>= 1
        self._parts.append(part)
        self._leaves += 1

    def result(self) -> NDArray[np.float64]:
        """Return the sum of all leaves so far; at least one is needed."""
        total = self._parts[-1]
        for part in reversed(self._parts[:-1]):
            total = part + total
        return np.asarray(total, dtype=np.float64)


def sum_rows(rows: ArrayLike) -> NDArray[np.float64]:
    """Return the sum over the first axis, within what :func:`rounding_slack` allows for.

    >>> sum_rows(np.ones((10_000, 2)))
    array([10000., 10000.])
    """
    values = np.asarray(rows)
    total = PairwiseSum()
    for start in range(0, max(len(values), 1), SUM_LEAF):
        total.add(values[start : start + SUM_LEAF].sum(axis=0, dtype=np.float64))
    return total.result()


def rounding_slack(rows: int) -> float:
    """Return by how much, relative to the bound, rounding can move two float64 sums of rows apart.

    With leaves of SUM_LEAF rows combined pairwise, a sum of vectors of norm <= C is off by at most
    ``(SUM_LEAF + log2(rows) + 4) u`` times ``rows * C``, u = 2^-53, on either side.
    """
    depth = min(rows, SUM_LEAF) + math.log2(rows) + 4
    return max(1e-9, 2.0**-52 * rows * depth)
