"""Powers of the absolute residual, |u - y|^q with 1 <= q <= 2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._validate import positive, real
from ..errors import ParameterError
from ..kernels.slope import Slope
from .base import Floats, Hoelder, LabelKind, MarginLoss, as_floats
from .pieces import LARGEST, corner, on_domain
from .squared import squared_envelope


def absolute_slope(margin: Any, label: Any, first: Any, second: Any) -> Any:
    """Return sign(u - y)."""
    return np.sign(margin - label)


def absolute_envelope(margin: Any, label: Any, smoothing: Any, second: Any) -> Any:
    """Return clip(smoothing (u - y), -1, 1)."""
    limit = 1.25 / smoothing  # no overflow far away, and exactly 1 from 1 / smoothing on
    near = np.minimum(np.maximum(margin - label, -limit), limit)
    return np.minimum(np.maximum(smoothing * near, -1.0), 1.0)


def q_power_slope(margin: Any, label: Any, q: Any, second: Any) -> Any:
    """Return q sign(u - y) |u - y|^(q - 1)."""
    residual = margin - label
    return np.sign(residual) * (q * np.power(np.minimum(np.abs(residual), LARGEST), q - 1.0))


@dataclass(frozen=True)
class Absolute(MarginLoss):
    """phi(u, y) = |u - y|; at the corner the slope is 0.

    >>> Absolute().prox([0.0, 2.0], 1.5, 0.4).tolist()
    [0.4, 1.6]
    """

    labels: ClassVar[LabelKind] = "real"

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return |u - y|."""
        u, y = as_floats(margin, label)
        return np.asarray(np.abs(u - y))

    def kernel(self) -> Slope:
        """Return sign(u - y)."""
        return Slope(absolute_slope, bound=1.0)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return 0."""
        return np.zeros(np.broadcast_shapes(np.shape(margin), np.shape(label)))

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Move towards the label by at most the step."""
        u, y, s = as_floats(margin, label, step)
        return np.asarray(np.minimum(np.maximum(y, u - s), u + s))

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return dual y for |dual| <= 1."""
        a, y = as_floats(dual, label)
        return on_domain(lambda b: b * y, a, -1.0, 1.0)

    def envelope(self, smoothing: float) -> Slope:
        """Return clip(smoothing (u - y), -1, 1)."""
        return Slope(absolute_envelope, positive("smoothing", smoothing), bound=1.0)

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return the Huber loss with threshold 1 / smoothing, times smoothing."""
        u, y = as_floats(margin, label)
        return corner(np.abs(u - y), positive("smoothing", smoothing), 1.0)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return 1 (0 if the residual is always 0)."""
        return 1.0 if label + margin > 0.0 else 0.0

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return inf: the corner is always within reach."""
        return math.inf

    def hoelder(self) -> Hoelder:
        """Return (0, 2)."""
        return Hoelder(0.0, 2.0)

    def value_at_zero(self, label: float) -> float:
        """Return label."""
        return label


@dataclass(frozen=True)
class QPower(MarginLoss):
    """phi(u, y) = |u - y|^q, 1 <= q <= 2; ``QPower(2)`` is the square without the half.

    >>> QPower(2.0).constants(feature=1.0, label=3.0, radius=2.0).lipschitz
    10.0
    """

    q: float
    labels: ClassVar[LabelKind] = "real"

    def __post_init__(self) -> None:
        if not 1.0 <= (q := real("q", self.q)) <= 2.0:
            raise ParameterError(f"QPower needs q between 1 and 2, got {q!r}.")
        object.__setattr__(self, "q", q)

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return |u - y|^q."""
        u, y = as_floats(margin, label)
        with np.errstate(over="ignore"):
            return np.asarray(np.abs(u - y) ** self.q)

    def kernel(self) -> Slope:
        """Return q sign(u - y) |u - y|^(q - 1)."""
        return Slope(q_power_slope, self.q, bound=self.slope_bound(1.0, math.inf))

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return q (q - 1) |u - y|^(q - 2), and 0 at u = y unless q = 2."""
        u, y = as_floats(margin, label)
        r = np.abs(u - y)
        if self.q in (1.0, 2.0):  # here 0 times infinity, and a jump that is none
            return np.full(r.shape, 2.0 * (self.q - 1.0))
        with np.errstate(over="ignore"):
            size = np.where(r > 0.0, r, 1.0) ** (self.q - 2.0)
            return np.where(r > 0.0, self.q * (self.q - 1.0) * size, 0.0)

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return dual y + (q - 1) (|dual| / q)^(q / (q - 1)) (q = 1: dual y for |dual| <= 1)."""
        a, y = as_floats(dual, label)
        if self.q == 1.0:
            return Absolute().conjugate(a, y)
        share, power = (self.q - 1.0) / self.q, 1.0 / (self.q - 1.0)
        with np.errstate(over="ignore"):
            residual = np.sign(a) * (np.abs(a) / self.q) ** power  # where the slope is a
            return np.asarray(a * (y + share * residual))

    def envelope(self, smoothing: float) -> Slope:
        """Return clip(smoothing (u - y), -1, 1) for q = 1, a line for q = 2.

        Raises:
            AssumptionError: 1 < q < 2, where the slope is unbounded and no closed form known.
        """
        if self.q == 1.0:
            return Absolute().envelope(smoothing)
        if self.q == 2.0:
            return Slope(squared_envelope, 2.0 / (1.0 + 2.0 / positive("smoothing", smoothing)))
        return MarginLoss.envelope(self, smoothing)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return q (label + margin)^(q - 1) (0 if the residual is always 0)."""
        residual = label + margin
        return float(self.q * residual ** (self.q - 1.0)) if residual > 0.0 else 0.0

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return 2 for q = 2, else inf."""
        return 2.0 if self.q == 2.0 else math.inf

    def hoelder(self) -> Hoelder:
        """Return (q - 1, q 2^(2 - q)); pairs symmetric about the label attain it."""
        return Hoelder(self.q - 1.0, self.q * 2.0 ** (2.0 - self.q))

    def value_at_zero(self, label: float) -> float:
        """Return label^q."""
        return label**self.q if label < 1e150 else math.inf
