"""The pinball loss, whose minimiser is a conditional quantile."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._validate import positive, probability
from ..kernels.slope import Slope
from .base import Floats, Hoelder, LabelKind, MarginLoss, as_floats
from .pieces import corner, on_domain


def pinball_slope(margin: Any, label: Any, quantile: Any, second: Any) -> Any:
    """Return 1 - quantile where u > y, else -quantile."""
    return (margin > label) - quantile


def pinball_envelope(margin: Any, label: Any, quantile: Any, smoothing: Any) -> Any:
    """Return clip(smoothing (u - y), -quantile, 1 - quantile)."""
    limit = 1.25 / smoothing  # no overflow far away, and exact caps nearer by
    near = np.minimum(np.maximum(margin - label, -limit), limit)
    return np.minimum(np.maximum(smoothing * near, -quantile), 1.0 - quantile)


def blurred_slope(margin: Any, label: Any, quantile: Any, smoothing: Any) -> Any:
    """Return clip(smoothing (u - y) + 1/2 - quantile, -quantile, 1 - quantile)."""
    limit = 1.25 / smoothing
    near = np.minimum(np.maximum(margin - label, -limit), limit)
    return np.minimum(np.maximum(smoothing * near + (0.5 - quantile), -quantile), 1.0 - quantile)


@dataclass(frozen=True)
class Pinball(MarginLoss):
    """phi(u, y) = quantile (y - u)_+ + (1 - quantile) (u - y)_+; slope -quantile at the corner.

    >>> Pinball(0.9).value([0.0, 1.0], 0.5).round(3).tolist()
    [0.45, 0.05]
    """

    quantile: float
    labels: ClassVar[LabelKind] = "real"

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantile", probability("quantile", self.quantile))

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return quantile (y - u)_+ + (1 - quantile) (u - y)_+."""
        u, y = as_floats(margin, label)
        return np.asarray(np.maximum(-self.quantile * (u - y), (1.0 - self.quantile) * (u - y)))

    def kernel(self) -> Slope:
        """Return 1 - quantile where u > y, else -quantile."""
        return Slope(pinball_slope, self.quantile, bound=self._steepest())

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return 0."""
        return np.zeros(np.broadcast_shapes(np.shape(margin), np.shape(label)))

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Move towards the label by at most the step times the slope."""
        u, y, s = as_floats(margin, label, step)
        return np.asarray(
            np.minimum(np.maximum(y, u - s * (1.0 - self.quantile)), u + s * self.quantile)
        )

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return dual y for dual in [-quantile, 1 - quantile]."""
        a, y = as_floats(dual, label)
        return on_domain(lambda b: b * y, a, -self.quantile, 1.0 - self.quantile)

    def envelope(self, smoothing: float) -> Slope:
        """Return clip(smoothing (u - y), -quantile, 1 - quantile)."""
        smoothing = positive("smoothing", smoothing)
        return Slope(pinball_envelope, self.quantile, smoothing, bound=self._steepest())

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return a parabola about the label between two lines."""
        u, y = as_floats(margin, label)
        smoothing = positive("smoothing", smoothing)
        above = corner(u - y, smoothing, 1.0 - self.quantile)
        return np.asarray(above + corner(y - u, smoothing, self.quantile))

    def slope_bound(self, label: float, margin: float) -> float:
        """Return max(quantile, 1 - quantile) (the quantile if the residual is always 0)."""
        return self._steepest() if label + margin > 0.0 else self.quantile

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return inf: the corner is always within reach."""
        return math.inf

    def hoelder(self) -> Hoelder:
        """Return (0, 1)."""
        return Hoelder(0.0, 1.0)

    def value_at_zero(self, label: float) -> float:
        """Return max(quantile, 1 - quantile) label."""
        return self._steepest() * label

    def _steepest(self) -> float:
        """Return the larger of the two slopes."""
        return max(self.quantile, 1.0 - self.quantile)


@dataclass(frozen=True)
class RoundedPinball(Pinball):
    """The pinball loss averaged over residuals within 1 / (2 smoothing): smooth, and centred.

    Its slope rises from -quantile to 1 - quantile evenly about the label, so that as many labels as
    the quantile says stay below the minimiser, but for the second order of the blur. The Moreau
    envelope has the same ramp off centre, which pulls every quantile towards the median. It lies at
    most 1 / (8 smoothing) above the loss.

    >>> RoundedPinball(0.9, 2.0).slope([-1.0, 0.0, 1.0], 0.0).round(3).tolist()
    [-0.9, -0.4, 0.1]
    """

    smoothing: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "smoothing", positive("smoothing", self.smoothing))

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return the loss, and a parabola about its corner."""
        u, y = as_floats(margin, label)
        within = np.maximum(0.5 - self.smoothing * np.abs(u - y), 0.0)
        return np.asarray(super().value(u, y) + within * within / (2.0 * self.smoothing))

    def kernel(self) -> Slope:
        """Return the ramp."""
        return Slope(blurred_slope, self.quantile, self.smoothing, bound=self._steepest())

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return the smoothing on the ramp, else 0."""
        u, y = as_floats(margin, label)
        return np.asarray(self.smoothing * (2.0 * self.smoothing * np.abs(u - y) < 1.0))

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Return the point that an implicit step leads to: on the ramp, or on a line beside it."""
        u, y, s = as_floats(margin, label, step)
        product = s * self.smoothing
        ramp = y + (u - y - s * (0.5 - self.quantile)) / (1.0 + product)
        low, high = u - s * (1.0 - self.quantile), u + s * self.quantile
        return np.asarray(np.minimum(np.maximum(ramp, low), high))

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return the conjugate, a parabola for dual in [-quantile, 1 - quantile]."""
        a, y = as_floats(dual, label)

        def parabola(b: Floats) -> Floats:
            lift = b - 0.5 + self.quantile
            return np.asarray(b * y + (lift * lift - 0.25) / (2.0 * self.smoothing))

        return on_domain(parabola, a, -self.quantile, 1.0 - self.quantile)

    def envelope(self, smoothing: float) -> Slope:
        """Return the slope marked for bisection."""
        smoothing = positive("smoothing", smoothing)
        return replace(self.kernel(), smoothing=smoothing)

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return the envelope at the prox."""
        u, y = as_floats(margin, label)
        nearest = self.prox(u, y, 1.0 / positive("smoothing", smoothing))
        return np.asarray(self.value(nearest, y) + smoothing / 2.0 * (nearest - u) ** 2)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return max(quantile, 1 - quantile)."""
        return self._steepest()

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return the smoothing."""
        return self.smoothing

    def hoelder(self) -> Hoelder:
        """Return (1, smoothing)."""
        return Hoelder(1.0, self.smoothing)

    def value_at_zero(self, label: float) -> float:
        """Return the loss's bound and the most that the blur adds."""
        return super().value_at_zero(label) + 0.125 / self.smoothing
