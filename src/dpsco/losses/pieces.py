"""Pieces that several losses share: the smoothed corner, and where a slope must stop growing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .base import Floats

LARGEST = 8e307
"""Residuals count as at most this much in a slope, so that twice as much is still a number."""


def corner(excess: Floats, stiffness: float, cap: float) -> Floats:
    """Return the integral of ``clip(stiffness t, 0, cap)`` from 0 to ``excess``.

    It is 0 up to 0, a parabola up to ``cap / stiffness`` and a line of slope ``cap`` from there.
    The Huber loss, the modified Huber loss and the Moreau envelope of every loss made of two or
    three straight lines are sums of such corners.

    >>> corner(np.array([-1.0, 0.5, 3.0]), 1.0, 1.0).tolist()
    [0.0, 0.125, 2.5]
    """
    with np.errstate(over="ignore"):
        above = np.maximum(excess, 0.0)
        curved = np.minimum(above, cap / stiffness)
        return np.asarray(curved * (0.5 * stiffness * curved) + cap * (above - curved))


def on_domain(
    conjugate: Callable[[Floats], Floats], dual: Floats, low: float | Floats, high: float | Floats
) -> Floats:
    """Return ``conjugate(dual)`` for duals in [low, high], and inf outside."""
    inside = (dual >= low) & (dual <= high)
    with np.errstate(over="ignore"):
        return np.where(inside, conjugate(np.clip(dual, low, high)), np.inf)
