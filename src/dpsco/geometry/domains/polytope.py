"""Polytopes by their vertices."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ...errors import ParameterError
from ..norms import L2, Norm
from .base import Domain, Floats, checked_norm, difference, enumerable, floats
from .nearest import nearest_weights

_PAIRS = 2**30
"""Most numbers that the diameter looks at before it settles for an upper bound."""

_SAME = 1e-12
"""A point nearer to its projection than this (relative to the size) is a member."""


class Polytope(Domain):
    """The convex hull of the rows of a matrix. It may be flat, but not a single point.

    Args:
        vertices: one a row, at most `MAX_VERTEX_ENTRIES` numbers together; repeated rows and rows
            inside the hull of others are allowed.

    >>> Polytope([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).project([1.0, 1.0]).tolist()
    [0.5, 0.5]
    """

    _rows: Floats
    _middle: Floats
    _unit: float  # largest distance from the middle: the rows below are in this unit
    _scaled: Floats

    def __init__(self, vertices: ArrayLike) -> None:
        rows = floats("vertices", vertices)
        if rows.ndim != 2 or rows.size == 0:
            raise ParameterError(
                f"vertices must be a matrix with a vertex a row, got shape {rows.shape}."
            )
        count, d = rows.shape
        enumerable("Polytope", count, d, "Pass fewer rows, or a ball that encloses them.")
        if not np.all(np.isfinite(rows)):
            raise ParameterError("vertices must be finite.")
        if np.max(np.abs(rows)) > 1e300:
            raise ParameterError("vertices must be at most 1e300 in size.")
        middle = np.mean(rows, axis=0) if np.any(rows != rows[0]) else rows[0]
        unit = float(np.max(L2(rows - middle)))
        if not unit > 0.0:
            raise ParameterError(
                "vertices must not all be the same point: such a polytope has no interior point, "
                "not even in a subspace."
            )
        rows.flags.writeable = False
        self._record(rows.shape[1], vertices=rows)
        self._derive(_rows=rows, _middle=middle, _unit=unit, _scaled=(rows - middle) / unit)

    @property
    def interior(self) -> bool:
        """Whether the vertices span the space."""
        return bool(np.linalg.matrix_rank(self._scaled) == self._rows.shape[1])

    def centre(self, d: int) -> Floats:
        """Return the mean of the vertices."""
        self._size(d)
        return np.array(self._middle)

    def vertices(self, d: int) -> Floats:
        """Return the vertices as they were given."""
        self._size(d)
        return np.array(self._rows)

    def radius(self, d: int, norm: Norm = L2) -> float:
        """Return the largest distance of a vertex from the centre: exact."""
        self._size(d)
        return float(np.max(checked_norm(norm)(self._rows - self._middle)))

    def max_norm(self, d: int, norm: Norm = L2) -> float:
        """Return the largest norm of a vertex: exact."""
        self._size(d)
        return float(np.max(checked_norm(norm)(self._rows)))

    def diameter(self, d: int, norm: Norm = L2) -> float:
        """Return the largest distance between vertices: exact by trying all pairs.

        If the pairs hold more than 2**30 numbers: twice the radius, an upper bound.
        """
        if len(self._rows) * self._rows.size > _PAIRS:
            return 2.0 * self.radius(d, norm)
        self._size(d)
        checked_norm(norm)
        pairs = (norm(self._rows[k:] - row) for k, row in enumerate(self._rows))
        return max(float(np.max(distances)) for distances in pairs)

    def _project(self, rows: Floats) -> Floats:
        result = np.array(rows)
        for k, row in enumerate(rows):
            offset = difference(row, self._middle) / 4.0  # room to divide and to take norms
            used, weights = nearest_weights(self._scaled, offset, 0.25 * self._unit)
            nearest = weights @ self._rows[used]
            if not L2(row / 4.0 - nearest / 4.0) <= _SAME * (self._unit + L2(self._middle)):
                result[k] = nearest
        return result

    def _minimise(self, rows: Floats) -> Floats:
        top = np.max(np.abs(rows), axis=-1, keepdims=True)
        scores = (rows / np.where(top > 0.0, top, 1.0)) @ self._scaled.T
        return np.asarray(self._rows[np.argmin(scores, axis=-1)])

    def _gauge(self, rows: Floats) -> Floats:
        return np.array([self._gauge_of(difference(row, self._middle)) for row in rows])

    def _gauge_of(self, offset: Floats) -> float:
        """Return the least sum of weights >= 0 with which the vertices reach ``offset``."""
        from scipy.optimize import linprog

        top = float(np.max(np.abs(offset)))
        if top <= 1e-15 * (self._unit + float(L2(self._middle))):
            return 0.0
        answer = linprog(
            np.ones(len(self._scaled)),
            A_eq=self._scaled.T,
            b_eq=offset / top,
            bounds=(0.0, None),
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        return float(answer.fun) * (top / self._unit) if answer.status == 0 else math.inf
