"""The proximal operator of any scalar loss, to the last bit or so, for a whole array at once.

    prox(m) = argmin_u phi(u) + (u - m)^2 / (2 step),   the root of   F(u) = u - m + step phi'(u).

F increases (with slope at least ``1 - step rho`` for a rho-weakly convex phi), so the root lies
between m and ``m - step phi'(m) / (1 - step rho)``. Newton steps that stay inside the bracket are
taken; every third step halves the *number of floats* in the bracket instead. Hence at most 200
steps end with two neighbouring floats around the root, whatever the scale of the bracket and
however steep phi' may be at the root (a corner, or |r|^(q-1) with q just above 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import AssumptionError, ParameterError
from .base import Floats, MarginLoss

Place = tuple[Floats, Floats, Floats]  # margins, labels, steps
_LARGEST = float(np.finfo(float).max)
_ROUNDS = 200  # 64 halvings, each after two Newton steps, and a few more


def scalar_prox(loss: MarginLoss, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
    """Return argmin_u phi(u) + (u - margin)^2 / (2 step), elementwise.

    It is NaN where the margin or the label is not finite.

    Raises:
        ParameterError: a step is not positive and finite.
        AssumptionError: the loss is not convex and a step reaches 1 / its weak convexity.
    """
    m, y, s = np.broadcast_arrays(*(np.asarray(v, dtype=float) for v in (margin, label, step)))
    if not bool(np.all((s > 0.0) & (s < np.inf))):
        raise ParameterError("step must be positive and finite: the length of a proximal step.")
    convexity = 1.0 - s * loss.weak_convexity()
    if not bool(np.all(convexity > 0.0)):
        raise AssumptionError(
            f"the prox of {loss.name} needs steps below 1 / its weak convexity "
            f"{loss.weak_convexity():g}; a longer one was given."
        )
    result = np.full(m.shape, np.nan)
    defined = np.isfinite(m) & np.isfinite(y)
    result[defined] = _solve(loss, m[defined], y[defined], s[defined], convexity[defined])
    return result


def _solve(loss: MarginLoss, m: Floats, y: Floats, s: Floats, convexity: Floats) -> Floats:
    """Return the roots of F for finite one-dimensional arguments."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        answer: Floats = m.copy()
        force = s * loss.slope(m, y)
        far = np.clip(m - force / convexity, -_LARGEST, _LARGEST)
        # One float of room on either side: rounding must not push the root out of the bracket.
        low = np.nextafter(np.minimum(m, far), -_LARGEST)
        high = np.nextafter(np.maximum(m, far), _LARGEST)
        trial, middle, active, open_ = m, _between(low, high), np.arange(len(m)), force != 0.0
        for turn in range(_ROUNDS):
            trial, force, middle = trial[open_], force[open_], middle[open_]
            low, high, active = low[open_], high[open_], active[open_]
            if len(active) == 0:
                break
            there = m[active], y[active], s[active]
            if turn % 3 != 2:
                middle = _newton(loss, trial, force, there, low, high, middle)
            trial, force = middle, _force(loss, middle, there)
            low = np.where(force <= 0.0, trial, low)
            high = np.where(force >= 0.0, trial, high)
            middle = _between(low, high)
            open_ = (middle > low) & (middle < high)
            answer[active] = trial  # stands only if the slope is not monotone, or NaN
            if not bool(np.all(open_)):
                done = active[~open_]
                answer[done] = _nearer(loss, low[~open_], high[~open_], (m[done], y[done], s[done]))
    return answer


def _force(loss: MarginLoss, u: Floats, there: Place) -> Floats:
    """Return F(u)."""
    m, y, s = there
    return np.asarray((u - m) + s * loss.slope(u, y))


def _nearer(loss: MarginLoss, low: Floats, high: Floats, there: Place) -> Floats:
    """Return the one of two neighbours where F is nearer to 0."""
    below, above = _force(loss, low, there), _force(loss, high, there)
    return np.where(np.abs(below) < np.abs(above), low, high)


def _newton(
    loss: MarginLoss,
    u: Floats,
    force: Floats,
    there: Place,
    low: Floats,
    high: Floats,
    middle: Floats,
) -> Floats:
    """Return a point two floats beyond Newton's, or ``middle`` if that leaves the bracket.

    Newton's method approaches from one side; going two floats too far, but not out of the bracket,
    leaves no more than three floats around the root once it is that near.
    """
    _, y, s = there
    move = -force / (1.0 + s * loss.curvature(u, y))
    beyond = u + move + 2.0 * np.sign(move) * np.spacing(np.abs(u))
    inner = np.clip(beyond, np.nextafter(low, high), np.nextafter(high, low))
    return np.where((u + move >= low) & (u + move <= high), inner, middle)


def _between(low: Floats, high: Floats) -> Floats:
    """Return the float with as many floats above ``low`` as below ``high``, or ``low``."""
    first, last = _number(low), _number(high)
    return _float((first & last) + ((first ^ last) >> 1))  # their mean, rounded down, no overflow


def _number(values: Floats) -> NDArray[np.int64]:
    """Return the floats' positions on the line of all floats: integers in the same order."""
    bits = np.ascontiguousarray(values).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _float(numbers: NDArray[Any]) -> Floats:
    """Return the floats at the given positions; the inverse of `_number`."""
    bits = np.where(numbers < 0, np.iinfo(np.int64).min - numbers, numbers)
    return np.ascontiguousarray(bits).view(np.float64)
