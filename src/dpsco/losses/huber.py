"""Residual losses that are quadratic near 0 and linear far away."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._validate import positive
from ..kernels.slope import Slope
from .base import Floats, Hoelder, LabelKind, MarginLoss, as_floats
from .pieces import corner, on_domain


def huber_slope(margin: Any, label: Any, threshold: Any, second: Any) -> Any:
    """Return clip(u - y, -threshold, threshold)."""
    return np.minimum(np.maximum(margin - label, -threshold), threshold)


def huber_envelope(margin: Any, label: Any, threshold: Any, stiffness: Any) -> Any:
    """Return clip(stiffness (u - y), -threshold, threshold), for a stiffness of at most 1."""
    return np.minimum(np.maximum(stiffness * (margin - label), -threshold), threshold)


def pseudo_huber_slope(margin: Any, label: Any, threshold: Any, second: Any) -> Any:
    """Return r / sqrt(1 + (r / threshold)^2), r = u - y."""
    residual = margin - label
    return threshold * (residual / np.hypot(threshold, residual))


@dataclass(frozen=True)
class ThresholdLoss(MarginLoss):
    """What losses of a residual share that are r^2 / 2 near 0, and flatter beyond a threshold."""

    threshold: float
    labels: ClassVar[LabelKind] = "real"

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return 1, attained at u = y."""
        return 1.0

    def hoelder(self) -> Hoelder:
        """Return (1, 1)."""
        return Hoelder(1.0, 1.0)

    def value_at_zero(self, label: float) -> float:
        """Return the loss of a residual as large as a label may be."""
        return float(self.value(0.0, label))


@dataclass(frozen=True)
class Huber(ThresholdLoss):
    """phi(u, y) = r^2 / 2 for |r| <= threshold, else threshold (|r| - threshold / 2); r = u - y.

    >>> Huber(1.0).value([0.5, 3.0], 0.0).tolist()
    [0.125, 2.5]
    """

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return r^2 / 2 for |r| <= threshold, else threshold (|r| - threshold / 2)."""
        u, y = as_floats(margin, label)
        return corner(np.abs(u - y), 1.0, self.threshold)

    def kernel(self) -> Slope:
        """Return clip(u - y, -threshold, threshold)."""
        return Slope(huber_slope, self.threshold, bound=self.threshold)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return 1 where |u - y| < threshold, else 0."""
        u, y = as_floats(margin, label)
        return np.where(np.abs(u - y) < self.threshold, 1.0, 0.0)

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Return the mean of margin and label with weights 1 and step, or the step of a line."""
        u, y, s = as_floats(margin, label, step)
        line = u - np.sign(u - y) * (s * self.threshold)
        near = np.abs(u - y) < self.threshold * (1.0 + s)
        return np.where(near, (u + s * y) / (1.0 + s), line)

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return dual y + dual^2 / 2 for |dual| <= threshold."""
        a, y = as_floats(dual, label)
        return on_domain(lambda b: b * (y + 0.5 * b), a, -self.threshold, self.threshold)

    def envelope(self, smoothing: float) -> Slope:
        """Return clip(r smoothing / (1 + smoothing), -threshold, threshold)."""
        stiffness = 1.0 / (1.0 + 1.0 / positive("smoothing", smoothing))
        return Slope(huber_envelope, self.threshold, stiffness, bound=self.threshold)

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return a flatter parabola that joins the lines later."""
        u, y = as_floats(margin, label)
        stiffness = 1.0 / (1.0 + 1.0 / positive("smoothing", smoothing))
        return corner(np.abs(u - y), stiffness, self.threshold)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return min(threshold, label + margin)."""
        return min(self.threshold, label + margin)

    def hoelder_views(self) -> tuple[Hoelder, ...]:
        """Return (1, 1) and (0, 2 threshold)."""
        return self.hoelder(), Hoelder(0.0, 2.0 * self.threshold)


@dataclass(frozen=True)
class PseudoHuber(ThresholdLoss):
    """phi(u, y) = threshold^2 (sqrt(1 + (r / threshold)^2) - 1), r = u - y: smooth of all orders.

    >>> float(PseudoHuber(1.0).value(0.75, 0.0))
    0.25
    """

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return threshold r^2 / (threshold + sqrt(threshold^2 + r^2)), without cancellation."""
        u, y = as_floats(margin, label)
        r = np.abs(u - y)
        with np.errstate(over="ignore"):
            return np.asarray(
                self.threshold * (r * (r / (self.threshold + np.hypot(self.threshold, r))))
            )

    def kernel(self) -> Slope:
        """Return r / sqrt(1 + (r / threshold)^2)."""
        return Slope(pseudo_huber_slope, self.threshold, bound=self.threshold)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return (1 + (r / threshold)^2)^(-3/2)."""
        u, y = as_floats(margin, label)
        return np.asarray((self.threshold / np.hypot(self.threshold, u - y)) ** 3)

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return dual y + dual^2 / (1 + sqrt(1 - (dual / threshold)^2)) for |dual| <= threshold."""
        a, y = as_floats(dual, label)

        def inside(b: Floats) -> Floats:
            x = b / self.threshold
            return np.asarray(b * (y + b / (1.0 + np.sqrt((1.0 - x) * (1.0 + x)))))

        return on_domain(inside, a, -self.threshold, self.threshold)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return the slope at a residual of label + margin, at most the threshold."""
        if (residual := label + margin) == math.inf:
            return self.threshold
        return self.threshold * (residual / math.hypot(self.threshold, residual))

    def hoelder_views(self) -> tuple[Hoelder, ...]:
        """Return (1, 1) and (0, 2 threshold)."""
        return self.hoelder(), Hoelder(0.0, 2.0 * self.threshold)
