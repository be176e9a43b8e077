"""The point of a convex hull nearest to a given one: Wolfe's active-set method.

A set of vertices, affinely independent, carries positive weights. If another vertex lies beyond
the current point as seen from the target it joins; then the nearest point of the affine hull is
sought, and vertices whose weight would turn negative leave on the way. Each round brings the
point strictly nearer, and a set never returns: the method ends after finitely many rounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..norms import L2
from .base import ROUNDING, Floats

_FARTHEST = 1e13
"""Targets farther than this many sizes of the hull are drawn in along their ray: beyond it the
products with the vertices could no longer tell two vertices apart."""

_POSITIVE = 1e-14
"""Weights below this are none."""


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
