"""What a generalized linear loss offers: four functions of (margin, label), and exact constants.

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
    curvature: float  # sup of phi'' in the margin; inf at a kink
    hessian_rank: int  # of one row's Hessian: 1
    convex: bool


class MarginLoss(ABC):
    """A loss phi(margin, label). Subclasses are frozen dataclasses of their parameters."""

    labels: ClassVar[LabelKind]
    """"sign": -1 or 1; "real": any number within the label bound; "count": 0 up to the bound."""
    convex: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The class's name, for messages and plans."""
        return type(self).__name__

    @property
    def trusted(self) -> tuple[str, ...]:
        """What a user said of the loss and nothing here can verify; empty for the catalogue."""
        return ()

    # -- functions of (margin, label), elementwise on arrays -------------------------------------

    @abstractmethod
    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi."""

    @abstractmethod
    def kernel(self) -> Slope:
        """Return phi' in the form that the compiled loops call."""

    def slope(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi', the same subgradient at a kink every time."""
        found = self.kernel()(np.asarray(margin, dtype=float), np.asarray(label, dtype=float))
        return np.asarray(found, dtype=float)

    @abstractmethod
    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi'' where it exists, and 0 at a kink."""

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Return argmin_u phi(u) + (u - margin)^2 / (2 step); convex losses only."""
        from .prox import scalar_prox

        return scalar_prox(self, margin, label, step)

    def envelope(self, smoothing: float) -> Slope:
        """Return the derivative of the Moreau envelope, in closed form where there is one."""
        kernel = self.kernel()
        return Slope(
            kernel.function, kernel.first, kernel.second, smoothing, self.slope_bound(1.0, math.inf)
        )

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
        """
        feature = positive("feature", feature)
        label = 1.0 if self.labels == "sign" else non_negative("label", label)
        margin = real("radius", radius) * feature
        hoelder = self.hoelder()
        curvature = self.curvature_bound(label, margin)
        return Constants(
            lipschitz=feature * self.slope_bound(label, margin),
            smoothness=feature**2 * curvature,
            strong_convexity=0.0,
            weak_convexity=feature**2 * self.weak_convexity(),
            hoelder=Hoelder(hoelder.alpha, hoelder.constant * feature ** (1.0 + hoelder.alpha)),
            gradient_at_zero=feature * self.slope_bound(label, 0.0),
            value_at_zero=self.value_at_zero(label),
            curvature=curvature,
            hessian_rank=1,
            convex=self.convex,
        )


def as_floats(*values: Any) -> tuple[Floats, ...]:
    """Return the values as float64 arrays."""
    return tuple(np.asarray(value, dtype=float) for value in values)
