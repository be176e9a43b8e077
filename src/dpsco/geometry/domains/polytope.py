"""Polytopes by their vertices.

The nearest point is found by Wolfe's active-set method. A set of vertices, affinely independent,
carries positive weights. If another vertex lies beyond the current point as seen from the target it
joins; then the nearest point of the affine hull is sought, and vertices whose weight would turn
negative leave on the way. Each round brings the point strictly nearer, and a set never returns: the
method ends after finitely many rounds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import ParameterError
from ..norms import L2, Norm
from .base import ROUNDING, Domain, Floats, checked_norm, difference, enumerable, floats

_PAIRS = 2**30
"""Most numbers that the diameter looks at before it settles for an upper bound."""

_SAME = 1e-12
"""A point nearer to its projection than this (relative to the size) is a member."""

_FARTHEST = 1e13
"""Targets farther than this many sizes of the hull are drawn in along their ray: beyond it the
products with the vertices could no longer tell two vertices apart."""

_POSITIVE = 1e-14
"""Weights below this are none."""


class Polytope(Domain):
    """The convex hull of the rows of a matrix. It may be flat, but not a single point.

    Args:
        vertices: one per row, at most `MAX_VERTEX_ENTRIES` numbers together; repeated rows and rows
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
                f"vertices must be a matrix with one vertex per row, got shape {rows.shape}.",
                parameter="vertices",
            )
        count, d = rows.shape
        enumerable("Polytope", count, d, "Pass fewer rows, or a ball that encloses them.")
        if not np.all(np.isfinite(rows)):
            raise ParameterError("vertices must be finite.", parameter="vertices")
        if np.max(np.abs(rows)) > 1e300:
            raise ParameterError("vertices must be at most 1e300 in size.", parameter="vertices")
        middle = np.mean(rows, axis=0) if np.any(rows != rows[0]) else rows[0]
        unit = float(np.max(L2(rows - middle)))
        if not unit > 0.0:
            raise ParameterError(
                "vertices must not all be the same point: such a polytope has no interior point, "
                "not even in a subspace.",
                parameter="vertices",
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


def nearest_weights(
    vertices: Floats, offset: Floats, unit: float
) -> tuple[NDArray[np.intp], Floats]:
    """Return which rows carry the point of the hull nearest to offset / unit, and their weights."""
    target = _drawn_in(offset, unit)
    scores = vertices @ target - 0.5 * np.einsum("ij,ij->i", vertices, vertices)
    active = [int(np.argmax(scores))]
    weights = np.ones(1)
    tolerance = 16.0 * ROUNDING * (1.0 + float(L2(target)))
    for _ in range(20 * (len(vertices) + vertices.shape[1])):
        point = weights @ vertices[active]
        away = target - point
        gains = vertices @ away
        entering = int(np.argmax(gains))
        if entering in active or gains[entering] - point @ away <= tolerance:
            break
        active, weights = _settle(vertices, target, [*active, entering], np.append(weights, 0.0))
    for _ in range(2):  # refine: the set is right, the weights carry the errors of one solve
        better = weights + _affine_step(vertices[active], target, weights)
        if np.any(better < 0.0):
            break
        weights = better / np.sum(better)
    return np.array(active), weights


def _drawn_in(offset: Floats, unit: float) -> Floats:
    """Return offset / unit, no longer than the farthest target."""
    top = float(np.max(np.abs(offset)))
    if top == 0.0:
        return offset
    scaled = offset / top
    length = float(L2(scaled))
    with np.errstate(over="ignore"):
        return np.asarray(scaled * min(top / unit, _FARTHEST / length))


def _settle(
    vertices: Floats, target: Floats, active: list[int], weights: Floats
) -> tuple[list[int], Floats]:
    """Go to the nearest point of the affine hull, dropping vertices that would turn negative."""
    while True:
        step = _affine_step(vertices[active], target, weights)
        blocking = weights + step <= _POSITIVE
        if not np.any(blocking):
            weights = weights + step
            return active, weights / np.sum(weights)
        falling = blocking & (step < 0.0)
        if not np.any(falling):  # only rounding holds a weight at zero: leave it out
            falling = blocking
            share = 0.0
        else:
            share = min(1.0, float(np.min(weights[falling] / -step[falling])))
        weights = weights + share * step
        staying = ~(blocking & (weights <= _POSITIVE))
        if np.all(staying):
            staying[np.argmin(np.where(falling, weights, np.inf))] = False
        active = [index for index, stays in zip(active, staying, strict=True) if stays]
        weights = weights[staying] / np.sum(weights[staying])


def _affine_step(rows: Floats, target: Floats, weights: Floats) -> Floats:
    """Return the change of weights, of sum zero, to the nearest point of the rows' affine hull."""
    products = rows @ rows.T + 1.0  # positive definite if the rows are affinely independent
    right = np.stack([rows @ (target - weights @ rows), np.ones(len(rows))], axis=1)
    try:
        free, level = np.linalg.solve(products, right).T
    except np.linalg.LinAlgError:
        free, level = np.linalg.lstsq(products, right, rcond=None)[0].T
    return np.asarray(free - level * (np.sum(free) / np.sum(level)))
