"""Least noise for a budget: the conservative end of the bracket, checked by the accountant itself.

Every function here ends with ``cost(...).satisfies(budget)`` being true for what it returns, so a
plan that is calibrated and then recomputed never exceeds its budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ..budget import Budget
from ..release import Composition, Release
from .composition import Cost, cost

Releases = Release | Composition | Iterable[Release | Composition]


def calibrate(
    build: Callable[[float], Releases], budget: Budget, *, tolerance: float = 1e-6
) -> float:
    """Return the least noise such that ``build(noise)`` stays within the budget.

    ``build`` maps a noise scale to the planned releases; more noise must not cost more. Plans of
    Gaussian releases whose sigmas are proportional to the scale are solved in closed form, to the
    last digits; others by interpolation in a bracket, to a relative ``tolerance``.
    """
    tolerance = _validate.probability("tolerance", tolerance)
    if not isinstance(budget, Budget):
        raise ParameterError(
            f"budget must be a budget such as ApproxDP(1.0, 1e-6), got {_validate.shown(budget)}.",
            parameter="budget",
        )

    def cost_of(noise: float) -> Cost:
        return cost(build(noise), adjacency=budget.adjacency, unit=budget.unit)

    first = cost_of(1.0).mu
    second = None if first is None else cost_of(2.0).mu
    if first is not None and second is not None and math.isclose(first, 2 * second, rel_tol=1e-12):
        return _gaussian_noise(cost_of, first, budget)
    return _search(lambda noise: _usage(cost_of(noise), budget), tolerance, budget)


def _usage(spent: Cost, budget: Budget) -> float:
    """Return the share of the budget that is spent; at most 1 exactly if it is satisfied."""
    amount, allowed = spent.against(budget)
    return amount / allowed if amount > allowed else min(amount / allowed, 1.0)


def _search(usage: Callable[[float], float], tolerance: float, budget: Budget) -> float:
    """Bracket the noise that uses the whole budget, then close in from both sides."""
    low = high = 1.0
    above = below = usage(1.0)
    while above <= 1 and low > 1e-30:  # too much noise
        high, below = low, above
        low, above = low / 4, usage(low / 4)
    while below > 1:  # too little
        low, above = high, below
        high, below = 4 * high, usage(4 * high)
        if high > 1e30:
            raise AssumptionError(
                "no amount of noise brings this plan within the budget: some release cannot be "
                f"paid from {budget}. Gaussian releases need a delta, generalized Gaussian ones an "
                "(epsilon, delta) or zCDP budget, selections anything but GDP, averages over "
                "rows sampled with replacement an (epsilon, delta) budget, perturbed objectives "
                "that or a zCDP budget, with a floor such that c = rank log(1 + curvature/floor) "
                "is well below it."
            )
    while high / low > 1 + tolerance:
        for noise in _probes(low, high, above, below, tolerance):
            value = usage(noise)
            if value <= 1:
                high, below = noise, value
            else:
                low, above = noise, value
    return high


def _probes(
    low: float, high: float, above: float, below: float, tolerance: float
) -> tuple[float, ...]:
    """Return where to look next: on either side of the log-log interpolation, and the middle."""
    middle = math.sqrt(low * high)
    if not (0 < below <= 1 < above < math.inf) or high / low > 16:
        return (middle,)
    share = math.log(above) / (math.log(above) - math.log(below))
    guess = low * (high / low) ** share
    near = (guess * (1 + tolerance / 3), guess * (1 - tolerance / 3))
    return tuple(noise for noise in near if low < noise < high) or (middle,)


def _gaussian_noise(cost_of: Callable[[float], Cost], mu_at_one: float, budget: Budget) -> float:
    """Scale so that mu meets the budget, then step up by ulps until the accountant agrees."""
    noise = mu_at_one / (budget.mu_per_row() * budget.unit.rows)
    step = 2.0**-52
    while not cost_of(noise).satisfies(budget):
        noise *= 1 + step
        step *= 2
        if step > 1.0:
            raise AssumptionError("the noise of a Gaussian plan must grow with its scale.")
    return noise
