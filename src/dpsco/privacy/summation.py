"""Sums of bounded rows in float64, and how far rounding can move two neighbouring sums apart.

The scheme and its bound stand together because one is only true of the other: an ordinary
``X.sum(axis=0)`` adds all rows one after the other, and its error grows with the square of their
number.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..kernels.pairwise import SUM_LEAF, PairwiseSum

__all__ = ["SUM_LEAF", "PairwiseSum", "rounding_slack", "sum_rows"]


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
