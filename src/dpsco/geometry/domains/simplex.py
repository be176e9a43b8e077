"""The simplex, and the threshold by which one projects onto it and onto the l1 ball."""

from __future__ import annotations

import math

import numpy as np

from ..._validate import positive
from ..norms import L2, Lp, Norm
from ..width import Width, simplex_width
from .base import Domain, Floats, checked_norm, enumerable, rounding_of
from .extents import unit, unit_norms

HULL = 1e-12
"""Relative distance up to which a point counts as lying on the simplex's hyperplane."""

_PAIRS = 128
"""Largest dimension in which the diameter in a general norm tries every pair of vertices."""


_PART = 1 << 14
"""Entries that are sorted at once for a first threshold."""

_NEAR = 1e-9
"""How far below a first threshold, in units of the total, entries are still looked at."""


class Simplex(Domain):
    """{w >= 0, sum of w = total} in any dimension. It is flat: it has no interior point in R^d.

    >>> Simplex().project([3.0, -0.5, 1.2, -2.0]).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """

    def __init__(self, total: float = 1.0) -> None:
        self._record(None, total=positive("total", total))

    @property
    def interior(self) -> bool:
        """False: it lies in a hyperplane."""
        return False

    @property
    def total(self) -> float:
        """The sum of the coordinates."""
        return float(self._arguments["total"])

    def centre(self, d: int) -> Floats:
        """Return the point of equal coordinates."""
        return np.full(self._size(d), self.total / d)

    def vertices(self, d: int) -> Floats:
        """Return the d vertices, ``total`` times the unit vectors."""
        instead = "Use minimise(direction): the best vertex is the least coordinate's."
        enumerable("Simplex", self._size(d), d, instead)
        return self.total * np.eye(d)

    def radius(self, d: int, norm: Norm = L2) -> float:
        """Return the largest distance from the centre: exact in every norm."""
        mean = np.full((1, self._size(d)), 1.0 / d)
        if isinstance(checked_norm(norm), Lp):
            return self.total * float(norm(np.eye(1, d) - mean)[0])
        return self.total * max(float(norm(unit(j, d) - mean[0])) for j in range(d))

    def max_norm(self, d: int, norm: Norm = L2) -> float:
        """Return the largest norm of a vertex: exact in every norm."""
        return self.total * float(np.max(unit_norms(self._size(d), checked_norm(norm))))

    def diameter(self, d: int, norm: Norm = L2) -> float:
        """Return the largest distance between vertices.

        Exact in l_p norms, and in every norm up to d = 128; beyond that, in other norms, the sum
        of the two largest norms of vertices, which is an upper bound.
        """
        size = self._size(d)
        if size == 1:
            return 0.0
        if isinstance(checked_norm(norm), Lp):
            return self.total * float(norm(np.array([1.0, -1.0])))
        if size > _PAIRS:
            return self.total * float(np.sum(np.sort(unit_norms(size, norm))[-2:]))
        units = np.eye(size)
        return self.total * max(float(np.max(norm(units - units[j]))) for j in range(size))

    def gaussian_width(self, d: int, samples: int = 4096, seed: int = 0) -> Width:
        """Return ``total`` times the mean of the largest of d normals: exact."""
        return simplex_width(self._size(d), self.total)

    def _project(self, rows: Floats) -> Floats:
        total = self.total
        off = np.abs(np.sum(np.clip(rows, -total, 2.0 * total), axis=-1) - total)
        limit = rounding_of(rows.shape[-1]) * total
        member = (off <= limit) & np.all((rows >= 0.0) & (rows <= 2.0 * total), axis=-1)
        return np.where(member[:, None], rows, simplex_projection(rows, total))

    def _minimise(self, rows: Floats) -> Floats:
        best = np.zeros_like(rows)
        best[np.arange(len(rows)), np.argmin(rows, axis=-1)] = self.total
        return best

    def _gauge(self, rows: Floats) -> Floats:
        d, total = rows.shape[-1], self.total
        largest = np.maximum(total, np.max(np.abs(rows), axis=-1))
        scaled = rows / largest[:, None]
        off = np.abs(np.sum(scaled, axis=-1) - total / largest)
        flat = off <= HULL * (np.sum(np.abs(scaled), axis=-1) + total / largest)
        gauge = np.maximum(0.0, np.max(1.0 - rows * (d / total), axis=-1)) if d > 1 else off * 0.0
        return np.asarray(np.where(flat, gauge, math.inf))


def simplex_projection(rows: Floats, total: float) -> Floats:
    """Project each row onto {w >= 0, sum = total}: subtract a threshold, cut at zero.

    With the entries in falling order u_1 >= u_2 >= ..., the threshold is
    (u_1 + ... + u_k - total) / k for the largest k at which it stays below u_k. Entries are
    measured from the largest one, so that huge ones cancel before anything is added.
    """
    with np.errstate(over="ignore"):
        projected = np.asarray(rows - np.max(rows, axis=-1, keepdims=True))
        np.maximum(projected, -total, out=projected)
    for row in projected:
        row -= _threshold(row, total)
        np.maximum(row, 0.0, out=row)
        # The threshold carries the error of a sum; one division returns the total.
        row *= total / np.sum(row)
    return projected


def _threshold(below: Floats, total: float) -> float:
    """Return the threshold of entries that are 0 at most, and 0 once.

    That of some of them is no larger, and what lies below it is left out: a row of a million
    entries is sorted in two small parts.
    """
    some = below[:: len(below) // _PART + 1]
    if len(some) < len(below):
        least = _threshold(some, total)
        below = below[below >= least - _NEAR * total]
    falling = np.sort(below)[::-1]
    thresholds = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    return float(thresholds[np.count_nonzero(falling > thresholds) - 1])
