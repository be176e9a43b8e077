"""Hinge losses of a sign: functions of ``t = 1 - y u``, zero from a margin of 1 on."""

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


def hinge_slope(margin: Any, label: Any, first: Any, second: Any) -> Any:
    """Return -y where y u < 1, else 0."""
    return -label * (label * margin < 1.0)


def q_hinge_slope(margin: Any, label: Any, q: Any, second: Any) -> Any:
    """Return -q y t^(q - 1) where t = 1 - y u > 0, else 0."""
    t = 1.0 - label * margin
    size = np.power(np.minimum(np.maximum(t, 0.0), LARGEST), q - 1.0)
    return -label * ((t > 0.0) * (q * size))


def capped_slope(margin: Any, label: Any, stiffness: Any, cap: Any) -> Any:
    """Return -y clip(stiffness t, 0, cap) for t = 1 - y u."""
    # Beyond 1.25 cap / stiffness t makes no difference, and stiffness t could overflow.
    t = np.minimum(np.maximum(1.0 - label * margin, 0.0), 1.25 * (cap / stiffness))
    return -label * np.minimum(stiffness * t, cap)


class _HingeLoss(MarginLoss):
    """What losses of ``t = 1 - y u`` share, which are powers of t near t = 1."""

    labels: ClassVar[LabelKind] = "sign"

    def value_at_zero(self, label: float) -> float:
        """Return 1."""
        return 1.0


@dataclass(frozen=True)
class Hinge(_HingeLoss):
    """phi(u, y) = max(0, 1 - y u), y in {-1, 1}; at the corner the slope is 0.

    >>> Hinge().slope([0.5, 1.0, 2.0], 1.0) + 0.0
    array([-1.,  0.,  0.])
    """

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return max(0, 1 - y u)."""
        u, y = as_floats(margin, label)
        return np.asarray(np.maximum(1.0 - y * u, 0.0))

    def kernel(self) -> Slope:
        """Return -y where y u < 1, else 0."""
        return Slope(hinge_slope, bound=1.0)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return 0."""
        return np.zeros(np.broadcast_shapes(np.shape(margin), np.shape(label)))

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Move towards the corner by at most the step."""
        u, y, s = as_floats(margin, label, step)
        return np.asarray(y * np.minimum(np.maximum(y * u, 1.0), y * u + s))

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return -b for b = -y dual in [0, 1]."""
        a, y = as_floats(dual, label)
        return on_domain(np.negative, -y * a, 0.0, 1.0)

    def envelope(self, smoothing: float) -> Slope:
        """Return -y clip(smoothing t, 0, 1)."""
        return Slope(capped_slope, positive("smoothing", smoothing), 1.0, bound=1.0)

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return smoothing t^2 / 2 up to t = 1 / smoothing, then a line."""
        u, y = as_floats(margin, label)
        return corner(1.0 - y * u, positive("smoothing", smoothing), 1.0)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return 1, attained at u = 0."""
        return 1.0

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return 0 where the corner is out of reach, else inf."""
        return 0.0 if margin < 1.0 else math.inf

    def hoelder(self) -> Hoelder:
        """Return (0, 1)."""
        return Hoelder(0.0, 1.0)


@dataclass(frozen=True)
class QHinge(_HingeLoss):
    """phi(u, y) = max(0, 1 - y u)^q, y in {-1, 1}, 1 <= q <= 2.

    >>> QHinge(1.5).hoelder()
    Hoelder(alpha=0.5, constant=1.5)
    """

    q: float

    def __post_init__(self) -> None:
        if not 1.0 <= (q := real("q", self.q)) <= 2.0:
            raise ParameterError(f"QHinge needs q between 1 and 2, got {q!r}.")
        object.__setattr__(self, "q", q)

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return max(0, 1 - y u)^q."""
        u, y = as_floats(margin, label)
        with np.errstate(over="ignore"):
            return np.asarray(np.maximum(1.0 - y * u, 0.0) ** self.q)

    def kernel(self) -> Slope:
        """Return -q y t^(q - 1) where t = 1 - y u > 0, else 0."""
        return Slope(q_hinge_slope, self.q, bound=self.slope_bound(1.0, math.inf))

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return q (q - 1) t^(q - 2) where t > 0, else 0."""
        u, y = as_floats(margin, label)
        t = 1.0 - y * u
        with np.errstate(over="ignore"):
            size = np.where(t > 0.0, t, 1.0) ** (self.q - 2.0)
            return np.where(t > 0.0, self.q * (self.q - 1.0) * size, 0.0)

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return -b + (q - 1) (b / q)^(q / (q - 1)) for b = -y dual >= 0 (q = 1: b in [0, 1])."""
        a, y = as_floats(dual, label)
        if self.q == 1.0:
            return Hinge().conjugate(a, y)
        share, power = (self.q - 1.0) / self.q, 1.0 / (self.q - 1.0)
        return on_domain(lambda b: b * (share * (b / self.q) ** power - 1.0), -y * a, 0.0, math.inf)

    def envelope(self, smoothing: float) -> Slope:
        """Return -y clip(smoothing t, 0, 1) for q = 1, a line for q = 2; others are not Lipschitz.

        Raises:
            AssumptionError: 1 < q < 2.
        """
        if self.q in (1.0, 2.0):
            return (Hinge() if self.q == 1.0 else SquaredHinge()).envelope(smoothing)
        return MarginLoss.envelope(self, smoothing)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return q (1 + margin)^(q - 1)."""
        return float(self.q * (1.0 + margin) ** (self.q - 1.0))

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return q (q - 1) (1 - margin)^(q - 2), inf where t = 0 is within reach; 2 if q = 2."""
        if self.q == 2.0:
            return 2.0
        if margin >= 1.0:
            return math.inf
        return float(self.q * (self.q - 1.0) * (1.0 - margin) ** (self.q - 2.0))

    def hoelder(self) -> Hoelder:
        """Return (q - 1, q)."""
        return Hoelder(self.q - 1.0, self.q)


@dataclass(frozen=True)
class SquaredHinge(_HingeLoss):
    """phi(u, y) = max(0, 1 - y u)^2, y in {-1, 1}.

    >>> float(SquaredHinge().value(-1.0, 1.0))
    4.0
    """

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return max(0, 1 - y u)^2."""
        u, y = as_floats(margin, label)
        with np.errstate(over="ignore"):
            return np.asarray(np.maximum(1.0 - y * u, 0.0) ** 2)

    def kernel(self) -> Slope:
        """Return -2 y max(0, 1 - y u)."""
        return Slope(capped_slope, 2.0, LARGEST)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return 2 where y u < 1, else 0."""
        u, y = as_floats(margin, label)
        return np.where(y * u < 1.0, 2.0, 0.0)

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Shrink t = 1 - y u, where positive, by 1 / (1 + 2 step)."""
        return _shrink(*as_floats(margin, label, step))

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return b^2 / 4 - b for b = -y dual >= 0."""
        a, y = as_floats(dual, label)
        return on_domain(lambda b: b * (0.25 * b - 1.0), -y * a, 0.0, math.inf)

    def envelope(self, smoothing: float) -> Slope:
        """Return -y stiffness max(0, t), stiffness = 2 smoothing / (2 + smoothing)."""
        return Slope(capped_slope, _in_series(smoothing), LARGEST)

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return smoothing / (2 + smoothing) times the loss."""
        return np.asarray(self.value(margin, label) * (0.5 * _in_series(smoothing)))

    def slope_bound(self, label: float, margin: float) -> float:
        """Return 2 (1 + margin)."""
        return 2.0 * (1.0 + margin)

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return 2, attained at u = 0."""
        return 2.0

    def hoelder(self) -> Hoelder:
        """Return (1, 2)."""
        return Hoelder(1.0, 2.0)


@dataclass(frozen=True)
class ModifiedHuber(_HingeLoss):
    """phi(u, y) = max(0, 1 - y u)^2 where y u >= -1, and -4 y u below; y in {-1, 1}.

    >>> ModifiedHuber().value([-2.0, -1.0, 0.0], 1.0).tolist()
    [8.0, 4.0, 1.0]
    """

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return max(0, 1 - y u)^2 where y u >= -1, and -4 y u below."""
        u, y = as_floats(margin, label)
        return corner(1.0 - y * u, 2.0, 4.0)

    def kernel(self) -> Slope:
        """Return -y clip(2 (1 - y u), 0, 4)."""
        return Slope(capped_slope, 2.0, 4.0, bound=4.0)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return 2 where -1 < y u < 1, else 0."""
        u, y = as_floats(margin, label)
        return np.where(np.abs(y * u) < 1.0, 2.0, 0.0)

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Shrink t = 1 - y u by 1 / (1 + 2 step), or by the step of the line of slope 4."""
        u, y, s = as_floats(margin, label, step)
        curved = 1.0 - y * u < 2.0 * (1.0 + 2.0 * s)
        return np.where(curved, _shrink(u, y, s), u + y * (4.0 * s))

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return b^2 / 4 - b for b = -y dual in [0, 4]."""
        a, y = as_floats(dual, label)
        return on_domain(lambda b: b * (0.25 * b - 1.0), -y * a, 0.0, 4.0)

    def envelope(self, smoothing: float) -> Slope:
        """Return -y clip(stiffness t, 0, 4), stiffness = 2 smoothing / (2 + smoothing)."""
        return Slope(capped_slope, _in_series(smoothing), 4.0, bound=4.0)

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return a flatter parabola that joins the line later."""
        u, y = as_floats(margin, label)
        return corner(1.0 - y * u, _in_series(smoothing), 4.0)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return 2 min(1 + margin, 2)."""
        return 2.0 * min(1.0 + margin, 2.0)

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return 2, attained at u = 0."""
        return 2.0

    def hoelder(self) -> Hoelder:
        """Return (1, 2)."""
        return Hoelder(1.0, 2.0)

    def hoelder_views(self) -> tuple[Hoelder, ...]:
        """Return (1, 2) and (0, 4)."""
        return self.hoelder(), Hoelder(0.0, 4.0)


def _shrink(u: Floats, y: Floats, s: Floats) -> Floats:
    """Return the prox of (1 - y u)_+^2: a weighted mean of u and the corner y, short of it."""
    return np.where(y * u < 1.0, (u + 2.0 * s * y) / (1.0 + 2.0 * s), u)


def _in_series(smoothing: float) -> float:
    """Return the curvature of the Moreau envelope of t^2: two springs in series."""
    return 2.0 / (1.0 + 2.0 / positive("smoothing", smoothing))
