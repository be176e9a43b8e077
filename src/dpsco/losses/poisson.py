"""The Poisson loss of a count, with the predicted rate capped so that the slope is bounded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from .._validate import positive
from ..errors import ParameterError
from ..kernels.slope import Slope
from .base import Floats, Hoelder, LabelKind, MarginLoss, as_floats
from .pieces import on_domain

_LARGEST_RATE = 1e300
_STEPS = 5  # of Newton's method; measured: the root to rounding for smoothing 1e-9 to 1e9


def poisson_slope(margin: Any, label: Any, max_rate: Any, second: Any) -> Any:
    """Return min(exp(u), max_rate) - y."""
    return np.minimum(np.exp(np.minimum(margin, 709.0)), max_rate) - label


def poisson_envelope(margin: Any, label: Any, max_rate: Any, smoothing: Any) -> Any:
    """Return min(exp(v), max_rate) - y, where v + tau exp(v) = u + tau y and tau = 1 / smoothing.

    The left side is convex and increasing in v, so that Newton's method descends to the root from
    the upper bounds v <= c and tau exp(v) <= max(c + log tau, 1), c the right side. Where c passes
    ``enough`` the rate is capped anyway.
    """
    tau = 1.0 / smoothing
    enough = np.log(max_rate) + 2.0 * (tau * max_rate) + 1.0
    c = np.minimum(margin + tau * label, enough)
    root = np.minimum(c, np.log(np.maximum(c + np.log(tau), 1.0)) - np.log(tau))
    for _ in range(_STEPS):
        t = tau * np.exp(root)
        root = root - (t + (root - c)) / (1.0 + t)
    return np.minimum(np.exp(root), max_rate) - label


@dataclass(frozen=True)
class Poisson(MarginLoss):
    """phi(u, y) = exp(u) - y u up to u = log(max_rate), continued from there by its tangent.

    Convex and smooth, with slopes in [-y, max_rate - y]; labels are counts 0 <= y <= the bound.

    >>> Poisson(10.0).constants(feature=1.0, label=4.0).lipschitz
    10.0
    """

    max_rate: float
    labels: ClassVar[LabelKind] = "count"

    def __post_init__(self) -> None:
        if (rate := positive("max_rate", self.max_rate)) > _LARGEST_RATE:
            raise ParameterError(f"Poisson needs max_rate at most 1e300, got {rate!r}.")
        object.__setattr__(self, "max_rate", rate)

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return exp(u) - y u, with exp continued by its tangent at log(max_rate)."""
        u, y = as_floats(margin, label)
        below = np.minimum(u, math.log(self.max_rate))
        with np.errstate(over="ignore"):
            tangent = (self.max_rate - y) * (u - below)
            return np.asarray((np.exp(below) - y * below) + tangent)

    def kernel(self) -> Slope:
        """Return min(exp(u), max_rate) - y."""
        return Slope(poisson_slope, self.max_rate)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return exp(u) below log(max_rate), else 0."""
        u, y = as_floats(margin, label)
        u = np.broadcast_to(u, np.broadcast_shapes(u.shape, y.shape))
        rate = np.exp(np.minimum(u, 709.0))
        return np.where(rate < self.max_rate, rate, 0.0)

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return b log b - b for b = dual + y in [0, max_rate]."""
        a, y = as_floats(dual, label)

        def inside(b: Floats) -> Floats:
            rate = np.clip(b + y, 0.0, self.max_rate)  # the sum may be rounded out of it
            return np.asarray(xlogy(rate, rate) - rate)

        return on_domain(inside, a, -y, self.max_rate - y)

    def envelope(self, smoothing: float) -> Slope:
        """Return the derivative of the Moreau envelope by a fixed number of Newton steps."""
        return Slope(poisson_envelope, self.max_rate, positive("smoothing", smoothing))

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return phi(v) + g^2 / (2 smoothing) at v = u - g / smoothing, g the envelope's slope."""
        u, y = as_floats(margin, label)
        g = self.envelope(smoothing)(u, y)
        return np.asarray(self.value(u - g / smoothing, y) + 0.5 * g * (g / smoothing))

    def slope_bound(self, label: float, margin: float) -> float:
        """Return the larger of the steepest ascent (y = 0) and descent (y = label)."""
        return max(self._rate(margin), label - self._rate(-margin))

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return min(exp(margin), max_rate), or 0 where the rate is capped throughout."""
        return self._rate(margin) if self.max_rate > self._rate(-margin) else 0.0

    def hoelder(self) -> Hoelder:
        """Return (1, max_rate)."""
        return Hoelder(1.0, self.max_rate)

    def hoelder_views(self) -> tuple[Hoelder, ...]:
        """Return (1, max_rate) and (0, max_rate)."""
        return self.hoelder(), Hoelder(0.0, self.max_rate)

    def value_at_zero(self, label: float) -> float:
        """Return the loss at u = 0, whatever the label."""
        return float(self.value(0.0, 0.0))

    def _rate(self, margin: float) -> float:
        """Return min(exp(margin), max_rate)."""
        return min(math.exp(min(margin, 709.0)), self.max_rate)
