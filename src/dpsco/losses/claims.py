"""What a user says of a loss, compared with the loss on a public grid of margins and labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ParameterError
from .base import Floats, Hoelder, LabelKind

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
    k = int(np.argmax(np.abs(slope)))
    if abs(slope[k]) > claims.slope_bound * (1.0 + 1e-12):
        raise ParameterError(
            f"slope_bound of {claims.name} is {claims.slope_bound:g}, but at margin "
            f"{margins[k]:g}, label {label:g} the slope is {slope[k]:g}. Pass the true bound, or "
            "inf."
        )
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
    k = int(np.argmax(np.abs(slope)))
    if abs(slope[k]) > claims.slope_bound * (1.0 + 1e-12):
        raise ParameterError(
            f"slope_bound of {name} is {claims.slope_bound:g}, but at margin {margins[k]:g}, label "
            f"{label:g} the slope is {slope[k]:g}. Pass the true bound, or inf."
        )
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
