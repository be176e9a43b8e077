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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._validate import choice, flag, real, refusal
from ..errors import ParameterError
from ..kernels.slope import Slope, two_argument
from .base import Floats, Hoelder, LabelKind, MarginLoss, as_floats
from .guarded import Guarded, UserLoss

Scalar = Callable[[Any, Any], Any]
LabelBound = Callable[[float], float]

GRID_LABELS: dict[str, tuple[float, ...]] = {
    "sign": (-1.0, 1.0),
    "real": (-1.0, -0.3, 0.0, 0.5, 1.0),
    "count": (0.0, 1.0, 2.0, 5.0),
}
_STEP = 1e-6  # of the difference quotients, relative to max(1, |margin|)
_LOOSE = 1e-6  # agreement of a slope with difference quotients
_TIGHT = 1e-8  # agreement of a slope with a complex step
_FAR = np.array([30.0, 100.0, 800.0, 1e4, 1e8, 1e16, 1e100])
_EVERYWHERE = (
    "It must be defined for every finite margin: np.exp(np.minimum(u, 700.0)) rather than exp(u)."
)


@dataclass(frozen=True)
class Claims:
    """What a user says of a loss."""

    value: Scalar
    slope: Scalar
    slope_bound: float
    curvature_bound: float
    hoelder: Hoelder
    convex: bool
    labels: LabelKind
    value_at_zero: float | LabelBound | None
    name: str


class CustomLoss(UserLoss, MarginLoss):
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
        convex = flag("convex", convex)
        choice("labels", labels, GRID_LABELS)
        steepest = _bound("slope_bound", slope_bound)
        sharpest = _bound("curvature_bound", curvature_bound)
        if value_at_zero is not None and not callable(value_at_zero):
            value_at_zero = real("value_at_zero", value_at_zero)
        claims = Claims(
            value, slope, steepest, sharpest, _hoelder(hoelder, steepest, sharpest), convex,
            labels, value_at_zero, str(name),
        )  # fmt: skip
        kernel = Slope(two_argument(Guarded(slope, steepest)), bound=steepest)
        phi = two_argument(Guarded(value))
        self._keep(claims, convex=convex, labels=labels, _kernel=kernel, _phi=phi)
        check_claims(claims)

    _record: Claims
    _kernel: Slope
    _phi: Callable[..., Any]

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
        return np.asarray(self._phi(u, y, 0.0, 0.0), dtype=float)

    def kernel(self) -> Slope:
        """Return phi', clipped to its bound."""
        return self._kernel

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


# -- claims, compared with the loss on a public grid of margins and labels -------------------------


def grid_margins() -> Floats:
    """Return the margins: fine around 0 and 1, coarse up to 30, and each with a close neighbour."""
    fine, coarse = np.linspace(-3.0, 3.0, 97), np.array([-30.0, -12.0, -5.0, 5.0, 12.0, 30.0])
    base = np.concatenate([fine, coarse, fine[:-1] + 0.0217])
    return np.unique(np.concatenate([base, base + 1e-4]))


def check_claims(claims: Claims) -> None:
    """Refuse a loss that contradicts a claim on the grid.

    Raises:
        ParameterError: naming the claim and the margin and label at which it fails.
    """
    margins = grid_margins()
    steps = _STEP * np.maximum(1.0, np.abs(margins))
    for label in GRID_LABELS[claims.labels]:
        value = _evaluate(claims, "value", margins, label)
        slope = _evaluate(claims, "slope", margins, label)
        _check_derivative(claims, margins, label, steps, value, slope)
        _check_slopes(claims, margins, label, slope)
        _check_far(claims, label)
    _check_value_at_zero(claims)


def _evaluate(claims: Claims, which: str, margins: Floats, label: float) -> Floats:
    """Return a function's finite numbers on the grid, one by one as a loop would ask for them."""
    function = claims.value if which == "value" else claims.slope
    result = np.empty(len(margins))
    for k, margin in enumerate(margins.tolist()):
        place = f"{which} of {claims.name} at margin {margin:g}, label {label:g}"
        try:
            with np.errstate(all="ignore"):
                result[k] = float(function(margin, label))
        except Exception as error:  # the grid is public, so the cause may be shown
            raise ParameterError(
                f"{place} is no number: {type(error).__name__}. {_EVERYWHERE}"
            ) from error
        if not math.isfinite(result[k]):
            raise ParameterError(f"{place} must be finite, got {result[k]!r}. {_EVERYWHERE}")
    return result


def _check_derivative(
    claims: Claims, margins: Floats, label: float, steps: Floats, value: Floats, slope: Floats
) -> None:
    """Refuse a slope that is not between the one-sided quotients, or off the complex step."""
    up, down = margins + steps, margins - steps
    right = (_evaluate(claims, "value", up, label) - value) / (up - margins)
    left = (value - _evaluate(claims, "value", down, label)) / (margins - down)
    low, high = np.minimum(left, right), np.maximum(left, right)
    scale = np.maximum(1.0, np.abs(slope))
    rounding = 8.0 * np.finfo(float).eps * np.abs(value) / steps
    room = _LOOSE * scale + rounding
    wrong = (slope < low - room) | (slope > high + room)
    exact = _complex_step(claims.value, margins, label)
    # A complex step is believed where it lies between the quotients and these show no jump.
    reliable = (exact >= low - room) & (exact <= high + room) & (high - low <= 1e3 * room)
    wrong |= reliable & (np.abs(slope - exact) > _TIGHT * scale)
    if wrong.any():
        k = int(np.flatnonzero(wrong)[0])
        raise ParameterError(
            f"slope of {claims.name} is not the derivative of its value: at margin "
            f"{margins[k]:g}, label {label:g} it is {slope[k]:g}, while the value changes at a "
            f"rate of {(low[k] + high[k]) / 2:g}."
        )


def _complex_step(function: Any, margins: Floats, label: float) -> Floats:
    """Return Im phi(u + ih) / h, NaN where the function does not take complex numbers."""
    result = np.full(len(margins), np.nan)
    for k, margin in enumerate(margins.tolist()):
        try:
            with np.errstate(all="ignore"):
                result[k] = complex(function(complex(margin, 1e-30), label)).imag / 1e-30
        except Exception:  # many good functions know real numbers only
            return np.full(len(margins), np.nan)
    return result


def _check_far(claims: Claims, label: float) -> None:
    """Refuse a slope that fails, leaves its bound or falls where margins are large.

    Weights may grow, and a slope that were undefined there would count as 0 for such rows: the
    clipped slope would no longer belong to a convex loss, and loops could come to differ.
    """
    margins = np.concatenate([-_FAR[::-1], _FAR])
    slope = _evaluate(claims, "slope", margins, label)
    _check_bound(claims, margins, label, slope)
    fall = slope[:-1] - slope[1:]
    if claims.convex and np.any(fall > 1e-12 * np.maximum(1.0, np.abs(slope[1:]))):
        k = int(np.argmax(fall))
        raise ParameterError(
            f"{claims.name} is not convex: its slope falls from {slope[k]:g} to {slope[k + 1]:g} "
            f"between margins {margins[k]:g} and {margins[k + 1]:g}, label {label:g}. Pass "
            "convex=False."
        )


def _check_slopes(claims: Claims, margins: Floats, label: float, slope: Floats) -> None:
    """Refuse a slope beyond its bound, one that jumps or falls against the claims."""
    name, scale = claims.name, 1e-12 * max(1.0, float(np.max(np.abs(slope))))
    _check_bound(claims, margins, label, slope)
    change, distance = np.diff(slope), np.diff(margins)
    k = int(np.argmax(np.abs(change) / distance))
    if abs(change[k]) > claims.curvature_bound * distance[k] * (1.0 + 1e-9) + scale:
        raise ParameterError(
            f"curvature_bound of {name} is {claims.curvature_bound:g}, but next to margin "
            f"{margins[k]:g}, label {label:g} the slope changes at a rate of "
            f"{abs(change[k]) / distance[k]:g}. Pass the true bound, or inf."
        )
    if claims.convex and change.min() < -scale:
        k = int(np.argmin(change))
        raise ParameterError(
            f"{name} is not convex: its slope falls from {slope[k]:g} to {slope[k + 1]:g} next to "
            f"margin {margins[k]:g}, label {label:g}. Pass convex=False."
        )
    power = np.abs(margins[:, None] - margins) ** claims.hoelder.alpha
    excess = np.abs(slope[:, None] - slope) - claims.hoelder.constant * power * (1.0 + 1e-9)
    np.fill_diagonal(excess, -math.inf)
    if excess.max() > scale:
        i, j = np.unravel_index(int(np.argmax(excess)), excess.shape)
        raise ParameterError(
            f"hoelder of {name} fails between margins {margins[i]:g} and {margins[j]:g}, label "
            f"{label:g}: the slopes differ by {abs(slope[i] - slope[j]):g}."
        )


def _check_bound(claims: Claims, margins: Floats, label: float, slope: Floats) -> None:
    """Refuse a slope beyond its bound."""
    k = int(np.argmax(np.abs(slope)))
    if abs(slope[k]) > claims.slope_bound * (1.0 + 1e-12):
        raise ParameterError(
            f"slope_bound of {claims.name} is {claims.slope_bound:g}, but at margin "
            f"{margins[k]:g}, label {label:g} the slope is {slope[k]:g}. Pass the true bound, or "
            "inf."
        )


def _check_value_at_zero(claims: Claims) -> None:
    """Refuse a bound at weights 0 that a label of the grid exceeds."""
    arguments = claims.value_at_zero
    if arguments is None:
        return
    for label in GRID_LABELS[claims.labels]:
        bound = arguments(abs(label)) if callable(arguments) else arguments
        value = float(claims.value(0.0, label))
        # a plain number speaks of the plan's own label bound, known only later
        if (callable(arguments) or claims.labels == "sign") and value > bound * (1.0 + 1e-12):
            raise ParameterError(
                f"value_at_zero of {claims.name} is {bound:g}, but at label {label:g} the loss is "
                f"{value:g}."
            )
