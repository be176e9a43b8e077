"""Arrays behind privacy loss distributions; what dp-accounting computes in slow loops, by arrays.

The results are the library's own, up to the rounding of its exponentials. Where its insides are
others than known here, its own functions are used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SPARSE = 1000  # compositions from which the library certainly leaves its sparse form
_PARTS = ("_pmf_remove", "_pmf_add")
_FIELDS = ("_probs", "_lower_loss", "_discretization", "_infinity_mass")


def dense(distribution: Any, count: int) -> Any:
    """Return a distribution in the form that ``count`` compositions need.

    To find out which one that is, the library computes size**count: for a million compositions a
    number of millions of digits, which takes seconds.
    """
    if count < _SPARSE:
        return distribution
    parts: list[Any] = [getattr(distribution, name, None) for name in _PARTS]
    if not all(hasattr(part, "to_dense_pmf") and part.size > 1 for part in parts):
        return distribution
    remove, add = parts
    return type(distribution)(remove.to_dense_pmf(), None if add is remove else add.to_dense_pmf())


def composed_points(distribution: Any, count: int, common: Any) -> int:
    """Return how many points ``count`` compositions have as the library bounds them, or 0.

    ``common`` is its module of that name. Its bounds get loose where there are very many.
    """
    sizes = []
    for part in dict.fromkeys(getattr(dense(distribution, _SPARSE), name, None) for name in _PARTS):
        probs = getattr(part, "_probs", None)
        if probs is None or count < _SPARSE:
            continue
        low, high = common.compute_self_convolve_bounds(probs, count, 1e-15)
        sizes.append(int(high - low))
    return max(sizes, default=0)


def epsilon_for_delta(distribution: Any, delta: float) -> float:
    """Return the least epsilon at ``delta``, of the worse of both directions."""
    parts: list[Any] = [getattr(distribution, name, None) for name in _PARTS]
    if not all(hasattr(part, name) for part in parts for name in _FIELDS):
        return float(distribution.get_epsilon_for_delta(delta))
    if parts[0] is parts[1]:
        parts = parts[:1]
    return max(_least_epsilon(part, delta) for part in parts)


def _least_epsilon(part: Any, delta: float) -> float:
    """Return where the hockey-stick divergence of a discrete loss falls to ``delta``.

    From the largest loss down, masses are added up until the divergence at the next loss would be
    above: there epsilon follows from the masses above it.
    """
    probs, lower, step, infinite = (getattr(part, name) for name in _FIELDS)
    if infinite > delta:
        return math.inf
    masses = np.asarray(probs, dtype=float)[::-1]
    losses = np.full(len(masses), -step)
    losses[0] = (lower + len(masses) - 1) * step
    losses = np.cumsum(losses)  # rounded as the library rounds them
    with np.errstate(all="ignore"):
        upper = np.cumsum(np.concatenate([[infinite], masses]))
        less = np.cumsum(np.concatenate([[0.0], np.exp(-losses) * masses]))
        crossed = (upper[:-1] > delta) & (less[:-1] > 0)
        crossed &= np.log((upper[:-1] - delta) / less[:-1]) >= losses
        certain = (upper[1:] >= delta) & (less[1:] == 0)  # exp(-loss) counts as nothing
    ends = [int(np.argmax(each)) if each.any() else len(masses) for each in (crossed, certain)]
    if ends[1] < ends[0]:
        return max(0.0, float(losses[ends[1]]))
    above, below = float(upper[ends[0]]), float(less[ends[0]])
    if above <= below + delta:
        return 0.0
    return math.log((above - delta) / below) if below > 0 else math.inf


def hull(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the corners of the largest convex function below points, x rising."""
    corners: list[tuple[float, float]] = []
    for c, z in zip(x.tolist(), y.tolist(), strict=True):
        while len(corners) > 1:
            (a, u), (b, v) = corners[-2:]
            if (v - u) / (b - a) < (z - v) / (c - b):
                break
            corners.pop()
        corners.append((c, z))
    return np.array([a for a, _ in corners]), np.array([u for _, u in corners])
