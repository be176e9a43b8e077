"""The logistic loss log(1 + exp(-y u)) of a sign."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlog1py, xlogy

from .._validate import positive
from ..kernels.slope import Slope
from .base import Floats, Hoelder, LabelKind, MarginLoss, as_floats
from .pieces import on_domain

_STEPS = 5  # of Newton's method; measured: the root to rounding for smoothing 1e-9 to 1e9


def logistic_slope(margin: Any, label: Any, first: Any, second: Any) -> Any:
    """Return -y / (1 + exp(y u))."""
    return label / (-1.0 - np.exp(np.minimum(label * margin, 700.0)))


def logistic_envelope(margin: Any, label: Any, smoothing: Any, second: Any) -> Any:
    """Return -y p, where p = 1 / (1 + exp(s + tau p)), s = y u and tau = 1 / smoothing.

    The smaller of p and 1 - p solves the same equation with the larger of s and -(s + tau); call
    them p and s. With l = log p it reads ``l + softplus(s + tau exp(l)) = 0``, increasing and
    convex in l: Newton's method descends to the root from any upper bound, without a bracket.
    Upper bounds of p are 1 / (1 + e^s) and, because v = s + tau p >= 0 and p <= e^-v, what
    ``above`` holds of tau p.
    """
    tau = 1.0 / smoothing
    s = np.maximum(label * margin, -(label * margin + tau))
    behind = np.maximum(-s, 0.0)
    near = np.maximum(s, np.log(np.maximum(behind, 1.0)))
    above = behind + np.maximum(1.0, np.log(tau) - near)
    softplus = np.maximum(s, 0.0) + np.log1p(np.exp(-np.abs(s)))
    root = np.minimum(-softplus, np.log(above) - np.log(tau))
    for _ in range(_STEPS):
        t = tau * np.exp(root)
        tail = np.exp(-np.abs(s + t))
        excess = root + (np.maximum(s + t, 0.0) + np.log1p(tail))
        root = root - excess / (1.0 + t / (1.0 + tail))
    p = np.minimum(np.exp(root), 1.0)
    swapped = label * margin < -0.5 * tau
    return -label * (swapped + (1.0 - 2.0 * swapped) * p)


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """phi(u, y) = log(1 + exp(-y u)), y in {-1, 1}.

    >>> Logistic().constants(feature=2.0, radius=1.0).smoothness
    1.0
    """

    labels: ClassVar[LabelKind] = "sign"

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return log(1 + exp(-y u)), without overflow."""
        u, y = as_floats(margin, label)
        return np.asarray(np.logaddexp(0.0, -y * u))

    def kernel(self) -> Slope:
        """Return -y / (1 + exp(y u))."""
        return Slope(logistic_slope, bound=1.0)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return 1 / (4 cosh(u / 2)^2)."""
        u, y = as_floats(margin, label)
        tail = np.exp(-np.abs(y * u))
        return np.asarray(tail / ((1.0 + tail) * (1.0 + tail)))

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return b log b + (1 - b) log(1 - b) for b = -y dual in [0, 1]."""
        a, y = as_floats(dual, label)
        return on_domain(lambda b: xlogy(b, b) + xlog1py(1.0 - b, -b), -y * a, 0.0, 1.0)

    def envelope(self, smoothing: float) -> Slope:
        """Return the derivative of the Moreau envelope by a fixed number of Newton steps."""
        return Slope(logistic_envelope, positive("smoothing", smoothing), bound=1.0)

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return log(1 + e^-v) + p^2 / (2 smoothing) at v = y u + p / smoothing."""
        u, y = as_floats(margin, label)
        p = -y * self.envelope(smoothing)(u, y)
        return np.asarray(np.logaddexp(0.0, -(y * u + p / smoothing)) + 0.5 * p * p / smoothing)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return 1 / (1 + exp(-margin))."""
        return 1.0 / (1.0 + math.exp(-margin))

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return 1/4, attained at u = 0."""
        return 0.25

    def hoelder(self) -> Hoelder:
        """Return (1, 1/4)."""
        return Hoelder(1.0, 0.25)

    def hoelder_views(self) -> tuple[Hoelder, ...]:
        """Return (1, 1/4) and (0, 1)."""
        return self.hoelder(), Hoelder(0.0, 1.0)

    def value_at_zero(self, label: float) -> float:
        """Return log 2."""
        return math.log(2.0)
