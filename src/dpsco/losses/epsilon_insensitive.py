"""The absolute residual beyond a tolerated width, as in support vector regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._validate import non_negative, positive
from ..kernels.slope import Slope
from .base import Floats, Hoelder, LabelKind, MarginLoss, as_floats
from .pieces import corner, on_domain


def insensitive_slope(margin: Any, label: Any, width: Any, second: Any) -> Any:
    """Return sign(u - y) where |u - y| > width, else 0."""
    residual = margin - label
    return np.sign(residual) * (np.abs(residual) > width)


def insensitive_envelope(margin: Any, label: Any, width: Any, smoothing: Any) -> Any:
    """Return sign(u - y) clip(smoothing (|u - y| - width), 0, 1)."""
    residual = margin - label
    # Farther than 1.25 / smoothing makes no difference, and could overflow.
    excess = np.minimum(np.maximum(np.abs(residual) - width, 0.0), 1.25 / smoothing)
    return np.sign(residual) * np.minimum(smoothing * excess, 1.0)


@dataclass(frozen=True)
class EpsilonInsensitive(MarginLoss):
    """phi(u, y) = max(0, |u - y| - width); at both corners the slope is 0.

    >>> EpsilonInsensitive(0.5).value([0.0, 0.4, 2.0], 0.0).tolist()
    [0.0, 0.0, 1.5]
    """

    width: float
    labels: ClassVar[LabelKind] = "real"

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", non_negative("width", self.width))

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return max(0, |u - y| - width)."""
        u, y = as_floats(margin, label)
        return np.asarray(np.maximum(np.abs(u - y) - self.width, 0.0))

    def kernel(self) -> Slope:
        """Return sign(u - y) where |u - y| > width, else 0."""
        return Slope(insensitive_slope, self.width, bound=1.0)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return 0."""
        return np.zeros(np.broadcast_shapes(np.shape(margin), np.shape(label)))

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Move towards the tolerated interval by at most the step."""
        u, y, s = as_floats(margin, label, step)
        down = np.maximum(np.minimum(u, y + self.width), u - s)
        return np.asarray(np.minimum(np.maximum(down, y - self.width), down + s))

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return dual y + width |dual| for |dual| <= 1."""
        a, y = as_floats(dual, label)
        return on_domain(lambda b: b * y + self.width * np.abs(b), a, -1.0, 1.0)

    def envelope(self, smoothing: float) -> Slope:
        """Return sign(u - y) clip(smoothing (|u - y| - width), 0, 1)."""
        smoothing = positive("smoothing", smoothing)
        return Slope(insensitive_envelope, self.width, smoothing, bound=1.0)

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return smoothing t^2 / 2 for t = |u - y| - width up to 1 / smoothing, then a line."""
        u, y = as_floats(margin, label)
        return corner(np.abs(u - y) - self.width, positive("smoothing", smoothing), 1.0)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return 1, or 0 where the residual never exceeds the width."""
        return 1.0 if label + margin > self.width else 0.0

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return inf, or 0 where the residual never exceeds the width."""
        return math.inf if label + margin > self.width else 0.0

    def hoelder(self) -> Hoelder:
        """Return (0, 2)."""
        return Hoelder(0.0, 2.0)

    def value_at_zero(self, label: float) -> float:
        """Return max(0, label - width)."""
        return max(label - self.width, 0.0)
