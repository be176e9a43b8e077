"""Sums of rows in leaves that are combined pairwise, and how far rounding moves two sums apart.

The scheme and its bound stand together because one is only true of the other: an ordinary
``X.sum(axis=0)`` adds all rows one after the other, and its error grows with the square of their
number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

SUM_LEAF = 4096
"""Rows that may be added one after the other; longer sums combine such leaves pairwise."""


def runs(first: int, count: int, most: int) -> Iterator[int]:
    """Yield how many leaves to combine at once, from leaf ``first`` on: powers of two, aligned.

    >>> list(runs(3, 12, 8)), list(runs(0, 9, 4))
    ([1, 4, 4, 2, 1], [4, 4, 1])
    """
    stop = first + count
    while first < stop:
        size = most
        while first % size or first + size > stop:
            size //= 2
        yield size
        first += size


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

    def add(self, leaf: NDArray[np.float64], leaves: int = 1) -> None:
        """Add the sum of the next rows.

        ``leaves`` is a power of two of which the number so far is a multiple: so many whole leaves
        (the last of all may be shorter) that were combined pairwise already. `runs` finds such.
        """
        part, own = leaf, False  # whether the part is an array of this sum's, not the caller's
        carry = self._leaves // leaves
        while carry & 1:
            part, own = _joined(self._parts.pop(), part, own=own), True
            carry >>= 1
        self._parts.append(part)
        self._leaves += leaves

    def result(self) -> NDArray[np.float64]:
        """Return the sum of all leaves so far; at least one is needed."""
        total, own = self._parts[-1], False
        for part in reversed(self._parts[:-1]):
            total, own = _joined(part, total, own=own), True
        return np.asarray(total, dtype=np.float64)


def _joined(
    left: NDArray[np.float64], right: NDArray[np.float64], *, own: bool
) -> NDArray[np.float64]:
    """Return the sum of two parts, in the place of the right one if it may be overwritten."""
    if not own:
        return left + right
    right += left
    return right


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
