"""Sums in leaves that are combined pairwise, for which `dpsco.privacy.summation` has a bound."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

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
        part = leaf
        carry = self._leaves // leaves
        while carry & 1:
            part = self._parts.pop() + part
            carry >>= 1
        self._parts.append(part)
        self._leaves += leaves

    def result(self) -> NDArray[np.float64]:
        """Return the sum of all leaves so far; at least one is needed."""
        total = self._parts[-1]
        for part in reversed(self._parts[:-1]):
            total = part + total
        return np.asarray(total, dtype=np.float64)
