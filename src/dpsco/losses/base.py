"""What a generalized linear loss offers: functions of (margin, label), and exact constants.

A row (x, y) costs ``phi(<w, x>, y)``; its gradient is ``phi'(<w, x>, y) x``, so one number and the
row's own norm say all about its size. Every loss is a frozen record of its parameters. It gives
scalar facts over margins in ``[-margin, margin]`` and labels in ``[-label, label]`` (for losses of
a sign the label is -1 or 1), and `MarginLoss.constants` turns them into facts about weights.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import non_negative, positive, real
from ..errors import AssumptionError, ParameterError
from ..kernels.slope import Slope

Floats = NDArray[np.float64]
LabelKind = Literal["sign", "real", "count"]


@dataclass(frozen=True)
class Hoelder:
    """``|phi'(u) - phi'(v)| <= constant |u - v| ** alpha``; alpha 0 is Lipschitz, 1 is smooth."""

    alpha: float
    constant: float


@dataclass(frozen=True)
class Constants:
    """Facts about ``w -> phi(<w, x>, y)`` over all admissible rows and all w in the domain.

    Lengths are Euclidean unless the bounds speak of another norm: then those of features are in
    that norm and those of weights in its dual.
    """

    lipschitz: float  # sup of the gradient's norm over the domain: G_ball
    smoothness: float  # Lipschitz constant of the gradient; inf where there is none
    strong_convexity: float  # 0 for a generalized linear loss
    weak_convexity: float  # rho >= 0 with phi + rho/2 ||w||^2 convex; inf where none exists
    hoelder: Hoelder  # in w: constant is H * feature ** (1 + alpha)
    gradient_at_zero: float  # sup of the gradient's norm at w = 0: M
    value_at_zero: float  # sup of the loss at w = 0
    curvature: float  # sup of phi'' in the margin; inf where phi' jumps
    hessian_rank: int  # of one row's Hessian: 1
    convex: bool


class AnyLoss:
    """What losses of a margin and losses of whole rows share. All of them are frozen records."""

    convex: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The class's name, for messages and plans."""
        return type(self).__name__

    @property
    def trusted(self) -> tuple[str, ...]:
        """What a user said of the loss and nothing here can verify; empty for the catalogue."""
        return ()

    def dimension(self, d: int) -> int:
        """Return the number of weights for rows of d features."""
        return d


class MarginLoss(AnyLoss, ABC):
    """A loss phi(margin, label). Subclasses are frozen dataclasses of their parameters."""

    labels: ClassVar[LabelKind]
    """"sign": -1 or 1; "real": any number within the label bound; "count": 0 up to the bound."""

    # -- functions of (margin, label), elementwise on arrays -------------------------------------

    @abstractmethod
    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi."""

    @abstractmethod
    def kernel(self) -> Slope:
        """Return phi' in the form that the compiled loops call."""

    def slope(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi', where it jumps the same subgradient every time."""
        result = self.kernel()(np.asarray(margin, dtype=float), np.asarray(label, dtype=float))
        return np.asarray(result, dtype=float)

    @abstractmethod
    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi'' where it exists, and 0 elsewhere."""

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Return argmin_u phi(u) + (u - margin)^2 / (2 step).

        Raises:
            AssumptionError: phi is not convex and the step too long for a unique minimum.
        """
        from .prox import scalar_prox

        return scalar_prox(self, margin, label, step)

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi*(dual) = sup_u dual u - phi(u), which is inf outside the range of slopes.

        Raises:
            AssumptionError: no formula is known for this loss.
        """
        raise AssumptionError(
            f"a duality gap needs the conjugate of the loss in closed form; {self.name} has none. "
            "Use a convex loss of the catalogue, or a method that needs no duality gap."
        )

    def envelope(self, smoothing: float) -> Slope:
        """Return the derivative of the Moreau envelope, in closed form where there is one.

        The envelope is ``min_u phi(u) + smoothing / 2 (u - margin)^2``.

        Raises:
            AssumptionError: phi' is unbounded, or phi is so far from convex that the minimum is
                not unique.
        """
        smoothing, kernel = positive("smoothing", smoothing), self.kernel()
        bound = self.slope_bound(1.0, math.inf)
        if not math.isfinite(bound):
            raise AssumptionError(
                f"Moreau smoothing needs a loss with bounded slope; that of {self.name} is "
                "unbounded. Use a loss with a threshold, such as Huber in the place of Squared."
            )
        if smoothing <= self.weak_convexity():
            raise AssumptionError(
                f"the Moreau envelope of {self.name} needs smoothing above its weak convexity "
                f"{self.weak_convexity():g}, got {smoothing:g}."
            )
        return Slope(kernel.function, kernel.first, kernel.second, smoothing, bound)

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return the Moreau envelope ``min_u phi(u) + smoothing / 2 (u - margin)^2`` itself."""
        smoothing = positive("smoothing", smoothing)
        nearest = self.prox(margin, label, 1.0 / smoothing)
        move = nearest - np.asarray(margin, dtype=float)
        with np.errstate(over="ignore"):
            return np.asarray(self.value(nearest, label) + 0.5 * smoothing * move * move)

    # -- scalar facts ------------------------------------------------------------------------------

    @abstractmethod
    def slope_bound(self, label: float, margin: float) -> float:
        """Return sup |phi'| over |u| <= margin (may be inf) and |y| <= label."""

    @abstractmethod
    def curvature_bound(self, label: float, margin: float) -> float:
        """Return sup of |phi''|, inf if phi' jumps; 'smoothness' in the margin."""

    @abstractmethod
    def hoelder(self) -> Hoelder:
        """Return alpha and H of the derivative, on the whole line."""

    def hoelder_views(self) -> tuple[Hoelder, ...]:
        """Return every pair (alpha, H) that is known to hold, that of `hoelder` first."""
        return (self.hoelder(),)

    @abstractmethod
    def value_at_zero(self, label: float) -> float:
        """Return sup of phi(0, y) over |y| <= label."""

    def weak_convexity(self) -> float:
        """Return the least rho >= 0 with phi'' >= -rho everywhere; 0 if convex."""
        if not self.convex:
            raise NotImplementedError(f"{self.name} must state its weak convexity")
        return 0.0

    def constants(
        self, *, feature: float, label: float = 1.0, radius: float = math.inf
    ) -> Constants:
        """Return the facts that a plan needs.

        Args:
            feature: bound on a row's norm, the intercept included.
            label: bound on |y|; ignored by losses of a sign.
            radius: bound on the weights' (dual) norm over the domain; inf for the whole space.

        Raises:
            ParameterError: a bound is negative or not a number.
        """
        feature = positive("feature", feature)
        label = 1.0 if self.labels == "sign" else non_negative("label", label)
        if not (radius := real("radius", radius)) >= 0.0:
            raise ParameterError(f"radius must be zero or positive (inf allowed), got {radius!r}.")
        margin = radius * feature
        hoelder = self.hoelder()
        curvature = self.curvature_bound(label, margin)
        return Constants(
            lipschitz=feature * self.slope_bound(label, margin),
            smoothness=feature * curvature * feature,
            strong_convexity=0.0,
            weak_convexity=feature * self.weak_convexity() * feature,
            hoelder=Hoelder(hoelder.alpha, feature * (hoelder.constant * feature**hoelder.alpha)),
            gradient_at_zero=feature * self.slope_bound(label, 0.0),
            value_at_zero=self.value_at_zero(label),
            curvature=curvature,
            hessian_rank=1,
            convex=self.convex,
        )


def as_floats(*values: Any) -> tuple[Floats, ...]:
    """Return the values as float64 arrays."""
    return tuple(np.asarray(value, dtype=float) for value in values)
