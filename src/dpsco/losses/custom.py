"""A user's own loss, checked against what is claimed of it before any row is read.

`CustomLoss` is a function phi(margin, label) and runs through the same loops as the catalogue.
Value, slope and bounds are compared on a public grid of margins and labels; what contradicts a
claim is refused, with the grid point that shows it. A grid proves nothing beyond itself: such
claims are listed under ``trusted``. The bound on the slope is not among them, for the slope is
clipped to it wherever it is used. Clipping keeps a slope monotone if it was, and as smooth.

A loss that is no function of a margin is a `PerRowLoss`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._validate import choice, real, refusal
from ..errors import ParameterError
from ..kernels.slope import Slope, two_argument
from .base import Floats, Hoelder, LabelKind, MarginLoss, as_floats
from .claims import GRID_LABELS, Claims, LabelBound, Scalar, check_claims
from .guarded import Guarded
from .per_row import PerRowLoss

__all__ = ["CustomLoss", "PerRowLoss"]


class CustomLoss(MarginLoss):
    """A loss given by two functions of (margin, label), written for numbers or for arrays.

    Args:
        value: phi.
        slope: its derivative in the margin; where it jumps any subgradient.
        slope_bound: sup |phi'|, enforced by clipping; inf if there is none.
        curvature_bound: Lipschitz constant of phi'; inf where phi' jumps.
        hoelder: a sharper fact on phi' than the two bounds give.
        convex: whether phi' never decreases in the margin.
        labels: "sign", "real" or "count".
        value_at_zero: sup of phi(0, y) over |y| <= label, a number or a function of the label
            bound; otherwise found on a grid of labels.
        name: for messages and plans.

    Raises:
        ParameterError: a function fails on the grid or contradicts a claim there.

    >>> loss = CustomLoss(
    ...     lambda u, y: np.log(np.cosh(u - y)), lambda u, y: np.tanh(u - y),
    ...     slope_bound=1.0, curvature_bound=1.0, convex=True, labels="real", name="log-cosh")
    >>> loss.constants(feature=2.0).smoothness
    4.0
    """

    def __init__(
        self,
        value: Scalar,
        slope: Scalar,
        *,
        slope_bound: float,
        convex: bool,
        labels: LabelKind,
        curvature_bound: float = math.inf,
        hoelder: Hoelder | None = None,
        value_at_zero: float | LabelBound | None = None,
        name: str = "custom loss",
    ) -> None:
        for argument, function in (("value", value), ("slope", slope)):
            if not callable(function):
                raise refusal(argument, "must be a function of (margin, label).")
        if not isinstance(convex, bool):
            raise ParameterError(
                f"convex must be True or False, got {convex!r}.", parameter="convex"
            )
        choice("labels", labels, GRID_LABELS)
        steepest = _bound("slope_bound", slope_bound)
        sharpest = _bound("curvature_bound", curvature_bound)
        if value_at_zero is not None and not callable(value_at_zero):
            value_at_zero = real("value_at_zero", value_at_zero)
        claims = Claims(
            value, slope, steepest, sharpest, _hoelder(hoelder, steepest, sharpest), convex,
            labels, value_at_zero, str(name),
        )  # fmt: skip
        guarded = Guarded(slope, steepest)
        keep = vars(self)
        keep.update(_claims=claims, convex=convex, labels=labels)
        keep["_kernel"] = Slope(two_argument(guarded), bound=steepest)
        keep["_phi"] = two_argument(Guarded(value))
        check_claims(claims)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a loss is frozen: {name!r} cannot be set")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CustomLoss) and self._record == other._record

    def __hash__(self) -> int:
        return hash(self._record)

    def __repr__(self) -> str:
        return f"CustomLoss(name={self.name!r})"

    @property
    def _record(self) -> Claims:
        result: Claims = vars(self)["_claims"]
        return result

    @property
    def name(self) -> str:
        """The name that was given."""
        return self._record.name

    @property
    def trusted(self) -> tuple[str, ...]:
        """The claims that a grid cannot prove."""
        claims = self._record
        said = [
            f"{claims.name}: value and slope depend on one row's margin and label alone",
            f"{claims.name}: the slope is the derivative of the value",
        ]
        if claims.convex:
            said.append(f"{claims.name}: convex in the margin")
        if claims.curvature_bound < math.inf:
            said.append(f"{claims.name}: the slope is {claims.curvature_bound:g}-Lipschitz")
        if claims.hoelder != _hoelder(None, claims.slope_bound, claims.curvature_bound):
            said.append(
                f"{claims.name}: the slope is Hoelder-continuous of order {claims.hoelder.alpha:g} "
                f"with constant {claims.hoelder.constant:g}"
            )
        if claims.value_at_zero is not None or claims.labels != "sign":
            said.append(f"{claims.name}: the bound on the loss at weights 0")
        return tuple(said)

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return phi."""
        u, y = as_floats(margin, label)
        return np.asarray(vars(self)["_phi"](u, y, 0.0, 0.0), dtype=float)

    def kernel(self) -> Slope:
        """Return phi', clipped to its bound."""
        result: Slope = vars(self)["_kernel"]
        return result

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return the difference quotient of phi', and 0 where two step lengths disagree: a jump."""
        u, y = as_floats(margin, label)
        step = 1e-6 * np.maximum(1.0, np.abs(u))
        wide, narrow = (
            (self.slope(u + h, y) - self.slope(u - h, y)) / ((u + h) - (u - h))
            for h in (step, step / 2.0)
        )
        size = np.maximum(np.abs(wide), np.abs(narrow))
        agree = np.abs(wide - narrow) <= 0.05 * size + 1e-6
        most = self._record.curvature_bound
        return np.clip(np.where(agree, narrow, 0.0), -most, most)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return the bound that was given, which clipping enforces."""
        return self._record.slope_bound

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return the bound that was given."""
        return self._record.curvature_bound

    def hoelder(self) -> Hoelder:
        """Return what was given, or what follows from the two bounds."""
        return self._record.hoelder

    def value_at_zero(self, label: float) -> float:
        """Return the bound that was given, or the largest value on a grid of labels."""
        claim = self._record.value_at_zero
        if claim is not None:
            return real("value_at_zero", claim(label)) if callable(claim) else float(claim)
        kind = self._record.labels
        grid = np.linspace(0.0 if kind == "count" else -label, label, 201)
        result = self.value(0.0, [-1.0, 1.0] if kind == "sign" else grid)
        return float(np.max(result))

    def weak_convexity(self) -> float:
        """Return 0 if convex, else the bound on the curvature."""
        return 0.0 if self._record.convex else self._record.curvature_bound


def _bound(name: str, value: Any) -> float:
    """Return a bound above zero, inf where there is none."""
    if not (result := real(name, value)) > 0.0:
        raise refusal(name, f"must be positive (inf where there is none), got {result!r}.")
    return result


def _hoelder(claim: Any, slope_bound: float, curvature_bound: float) -> Hoelder:
    """Return what was given, or smoothness, or that two slopes differ by twice the bound."""
    if claim is None:
        if curvature_bound < math.inf:
            return Hoelder(1.0, curvature_bound)
        return Hoelder(0.0, 2.0 * slope_bound)
    if not isinstance(claim, Hoelder):
        raise ParameterError(
            f"hoelder must be a Hoelder(alpha, constant), got {claim!r}.", parameter="hoelder"
        )
    if not 0.0 <= real("hoelder.alpha", claim.alpha) <= 1.0:
        raise ParameterError(f"hoelder.alpha must be from 0 to 1, got {claim.alpha!r}.")
    return Hoelder(float(claim.alpha), _bound("hoelder.constant", claim.constant))
