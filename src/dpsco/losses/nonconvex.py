"""Losses that are not convex: bounded ones that forgive outliers, and robust phase retrieval.

Each states the exact supremum of ``|phi'|`` and ``|phi''|`` and its weak convexity, the least
``rho >= 0`` with ``phi'' >= -rho``. A smooth loss is weakly convex by itself. A loss that is merely
capped, ``min(phi, c)``, is not: its slope jumps down at the cap, and no parabola makes up for that.
Hence the ramp below has its corners rounded.

The three losses of a residual ``r = margin - label`` behave like ``r^2 / 2`` near zero, so their
curvature never exceeds 1. With ``z = r / threshold`` the extreme points are

    Tukey           phi' = r (1 - z^2)^2         largest at z^2 = 1/5,  phi'' least at z^2 = 3/5
    Geman-McClure   phi' = r / (1 + z^2)^2       largest at z^2 = 1/3,  phi'' least at z^2 = 1
    Welsch          phi' = r exp(-z^2)           largest at z^2 = 1/2,  phi'' least at z^2 = 3/2
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._validate import positive
from ..errors import ParameterError
from ..kernels.slope import Slope
from .base import Floats, Hoelder, LabelKind, MarginLoss, as_floats
from .huber import ThresholdLoss
from .pieces import LARGEST

_FAR = 1e50  # scaled residuals beyond this are all alike; it keeps powers finite
_STEEPEST_BEND = math.log(2.0 + math.sqrt(3.0))  # where the sigmoid's curvature peaks


def _sigmoid_slope(margin: Any, label: Any, first: Any, second: Any) -> Any:
    away = np.exp(-np.minimum(np.abs(margin), 700.0))  # even in the margin
    return -label * away / ((1.0 + away) * (1.0 + away))


@dataclass(frozen=True)
class Sigmoid(MarginLoss):
    """1 / (1 + exp(label * margin)): a smooth stand-in for the number of mistakes.

    ``|phi'| <= 1/4`` at margin 0, ``|phi''| <= 1 / (6 sqrt 3)`` at margin log(2 + sqrt 3); the
    curvature is odd, so that is the weak convexity, too.

    >>> Sigmoid().value(0.0, 1.0)
    array(0.5)
    """

    labels: ClassVar[LabelKind] = "sign"
    convex: ClassVar[bool] = False

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi, accurate in both tails."""
        u, y = as_floats(margin, label)
        signed = u * y
        away = np.exp(-np.minimum(np.abs(signed), 700.0))
        return np.asarray(np.where(signed >= 0.0, away, 1.0) / (1.0 + away))

    def kernel(self) -> Slope:
        """Return phi'."""
        return Slope(_sigmoid_slope)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi''."""
        u, y = as_floats(margin, label)
        signed = u * y
        away = np.exp(-np.minimum(np.abs(signed), 700.0))
        return np.asarray(np.sign(signed) * away * (1.0 - away) / (1.0 + away) ** 3)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return 1/4, attained at margin 0."""
        return 0.25

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return 1 / (6 sqrt 3), or less where margins stay below log(2 + sqrt 3)."""
        if margin >= _STEEPEST_BEND:
            return 1.0 / (6.0 * math.sqrt(3.0))
        away = math.exp(-margin)
        return away * (1.0 - away) / (1.0 + away) ** 3

    def hoelder(self) -> Hoelder:
        """Return smoothness on the whole line."""
        return Hoelder(1.0, self.curvature_bound(1.0, math.inf))

    def value_at_zero(self, label: float) -> float:
        """Return 1/2."""
        return 0.5

    def weak_convexity(self) -> float:
        """Return 1 / (6 sqrt 3)."""
        return self.curvature_bound(1.0, math.inf)


def _ramp_slope(margin: Any, label: Any, first: Any, second: Any) -> Any:
    signed = np.minimum(np.maximum(margin * label, -2.0), 3.0)  # flat outside
    entered = np.minimum(np.maximum(signed / first + 0.5, 0.0), 1.0)
    left = np.minimum(np.maximum((signed - 1.0) / first + 0.5, 0.0), 1.0)
    return -label * (entered - left)


@dataclass(frozen=True)
class Ramp(MarginLoss):
    """The ramp ``min(1, max(0, 1 - label * margin))`` averaged over a window of ``width``.

    Both corners become arcs of a parabola, at most ``width / 8`` away from the ramp. The slope is a
    trapezoid: ``|phi'| <= 1``, and ``|phi''|`` is ``1 / width`` at either corner and 0 elsewhere.
    The ramp itself is not weakly convex, its corner at margin 0 points the wrong way.
    """

    width: float = 0.5
    labels: ClassVar[LabelKind] = "sign"
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        width = positive("width", self.width)
        if width > 1.0:
            raise ParameterError(
                f"width must be at most 1, the distance of the ramp's corners; got {width!r}.",
                parameter="width",
            )
        object.__setattr__(self, "width", width)

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi."""
        u, y = as_floats(margin, label)
        signed = np.clip(u * y, -2.0, 3.0)  # constant outside
        return np.asarray(1.0 - self._rise(signed) + self._rise(signed - 1.0))

    def _rise(self, signed: Floats) -> Floats:
        """Return the integral of a step from 0 to 1 spread over the window around 0."""
        part = np.clip(signed / self.width + 0.5, 0.0, 1.0)
        flat = np.maximum(signed - self.width / 2.0, 0.0)
        return np.asarray(self.width / 2.0 * part**2 + flat)

    def kernel(self) -> Slope:
        """Return phi'."""
        return Slope(_ramp_slope, self.width)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi'', 0 at the four points where it jumps."""
        u, y = as_floats(margin, label)
        half = self.width / 2.0
        inner = (np.abs(u * y - 1.0) < half).astype(float)
        return np.asarray((inner - (np.abs(u * y) < half)) / self.width)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return 1, or less where margins stay below half the width."""
        return 0.5 + min(margin / self.width, 0.5)

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return 1 / width, attained around margin 0."""
        return 1.0 / self.width

    def hoelder(self) -> Hoelder:
        """Return smoothness on the whole line."""
        return Hoelder(1.0, 1.0 / self.width)

    def value_at_zero(self, label: float) -> float:
        """Return the rounded corner's height."""
        return 1.0 - self.width / 8.0

    def weak_convexity(self) -> float:
        """Return 1 / width."""
        return 1.0 / self.width


@dataclass(frozen=True)
class _Robust(ThresholdLoss):
    """What bounded losses of a residual share: like ``r^2 / 2`` at 0, level beyond c."""

    threshold: float = 1.0  # c
    convex: ClassVar[bool] = False


def _tukey_slope(margin: Any, label: Any, first: Any, second: Any) -> Any:
    residual = np.minimum(np.maximum(margin - label, -first), first)
    inside = 1.0 - (residual / first) * (residual / first)
    return residual * inside * inside


@dataclass(frozen=True)
class Tukey(_Robust):
    """Tukey's biweight ``c^2/6 (1 - (1 - (r/c)^2)^3)`` up to ``|r| = c``, then constant.

    ``|phi'| <= 16 c / (25 sqrt 5)``, ``-4/5 <= phi'' <= 1``.
    """

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi."""
        u, y = as_floats(margin, label)
        square = (np.minimum(np.abs(u - y), self.threshold) / self.threshold) ** 2
        # 1 - (1 - t)^3 without the cancellation that would spoil small residuals
        return np.asarray(
            self.threshold * self.threshold / 6.0 * square * (3.0 - 3.0 * square + square**2)
        )

    def kernel(self) -> Slope:
        """Return phi'."""
        return Slope(_tukey_slope, self.threshold)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi''."""
        u, y = as_floats(margin, label)
        square = (np.minimum(np.abs(u - y), self.threshold) / self.threshold) ** 2
        return np.asarray((1.0 - square) * (1.0 - 5.0 * square))

    def slope_bound(self, label: float, margin: float) -> float:
        """Return 16 c / (25 sqrt 5), or less where residuals stay below c / sqrt 5."""
        return _slope_at(self, min(label + margin, self.threshold / math.sqrt(5.0)))

    def weak_convexity(self) -> float:
        """Return 4/5."""
        return 0.8


def _geman_slope(margin: Any, label: Any, first: Any, second: Any) -> Any:
    scaled = np.minimum(np.maximum(margin - label, -_FAR * first), _FAR * first) / first
    spread = 1.0 + scaled * scaled
    return first * scaled / (spread * spread)


@dataclass(frozen=True)
class GemanMcClure(_Robust):
    """``(c^2/2) r^2 / (r^2 + c^2)``: grows like ``r^2 / 2``, levels off at ``c^2 / 2``.

    ``|phi'| <= 3 sqrt 3 c / 16``, ``-1/4 <= phi'' <= 1``.
    """

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi."""
        square = _scaled_square(margin, label, self.threshold)
        return np.asarray(self.threshold * self.threshold / 2.0 * square / (1.0 + square))

    def kernel(self) -> Slope:
        """Return phi'."""
        return Slope(_geman_slope, self.threshold)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi''."""
        square = _scaled_square(margin, label, self.threshold)
        return np.asarray((1.0 - 3.0 * square) / (1.0 + square) ** 3)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return 3 sqrt 3 c / 16, or less where residuals stay below c / sqrt 3."""
        return _slope_at(self, min(label + margin, self.threshold / math.sqrt(3.0)))

    def weak_convexity(self) -> float:
        """Return 1/4."""
        return 0.25


def _welsch_slope(margin: Any, label: Any, first: Any, second: Any) -> Any:
    # exp(-625) is nothing
    scaled = np.minimum(np.maximum(margin - label, -25.0 * first), 25.0 * first) / first
    return first * scaled * np.exp(-scaled * scaled)


@dataclass(frozen=True)
class Welsch(_Robust):
    """``(c^2/2) (1 - exp(-(r/c)^2))``, the loss of correntropy.

    ``|phi'| <= c / sqrt(2 e)``, ``-2 exp(-3/2) <= phi'' <= 1``.
    """

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi."""
        square = np.minimum(_scaled_square(margin, label, self.threshold), 700.0)
        return np.asarray(self.threshold * self.threshold / 2.0 * -np.expm1(-square))

    def kernel(self) -> Slope:
        """Return phi'."""
        return Slope(_welsch_slope, self.threshold)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi''."""
        square = np.minimum(_scaled_square(margin, label, self.threshold), 700.0)
        return np.asarray((1.0 - 2.0 * square) * np.exp(-square))

    def slope_bound(self, label: float, margin: float) -> float:
        """Return c / sqrt(2 e), or less where residuals stay below c / sqrt 2."""
        return _slope_at(self, min(label + margin, self.threshold / math.sqrt(2.0)))

    def weak_convexity(self) -> float:
        """Return 2 exp(-3/2)."""
        return 2.0 * math.exp(-1.5)


def _phase_slope(margin: Any, label: Any, first: Any, second: Any) -> Any:
    # the sign of margin^2 - label, without the square that could overflow
    side = np.sign(np.abs(margin) - np.sqrt(np.maximum(label, 0.0)))
    return 2.0 * np.minimum(np.maximum(margin, -LARGEST), LARGEST) * side


@dataclass(frozen=True)
class PhaseRetrieval(MarginLoss):
    """``|margin^2 - label|``: recover weights up to sign from squared measurements.

    Labels are squares, hence meant to be 0 or more, but the facts hold for all ``|y| <= label``. It
    is the larger of two parabolas, each 2-weakly convex: ``rho = 2``. Its slope grows with the
    margin, so gradients are bounded only where the weights are; where the slope jumps it is 0.
    """

    labels: ClassVar[LabelKind] = "real"
    convex: ClassVar[bool] = False

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi."""
        u, y = as_floats(margin, label)
        with np.errstate(over="ignore"):
            return np.asarray(np.abs(u * u - y))

    def kernel(self) -> Slope:
        """Return phi'."""
        return Slope(_phase_slope)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi'': 2 outside the two jumps of phi', -2 between them, 0 at them."""
        u, y = as_floats(margin, label)
        side = np.sign(np.abs(u) - np.sqrt(np.maximum(y, 0.0)))
        return np.asarray(np.where((u == 0.0) & (y <= 0.0), 2.0, 2.0 * side))

    def slope_bound(self, label: float, margin: float) -> float:
        """Return twice the largest margin: inf on the whole space."""
        return 2.0 * margin

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return inf where the margin may meet a jump of the slope, else 2."""
        return math.inf if label > 0.0 and margin > 0.0 else 2.0

    def hoelder(self) -> Hoelder:
        """Return alpha 0 with an infinite constant: on the whole line nothing holds."""
        return Hoelder(0.0, math.inf)

    def value_at_zero(self, label: float) -> float:
        """Return the label bound."""
        return label

    def weak_convexity(self) -> float:
        """Return 2."""
        return 2.0


def _scaled_square(margin: ArrayLike, label: ArrayLike, threshold: float) -> Floats:
    """Return (r / threshold)^2, held back where it would overflow."""
    u, y = as_floats(margin, label)
    return np.asarray((np.minimum(np.abs(u - y), _FAR * threshold) / threshold) ** 2)


def _slope_at(loss: MarginLoss, residual: float) -> float:
    """Return |phi'| at a residual."""
    return float(loss.slope(residual, 0.0))
