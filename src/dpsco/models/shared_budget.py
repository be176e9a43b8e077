"""A fit that shares its budget with a small release of its own: what is left, and a plan for it.

Gaussian releases add up in squared mu (for zCDP in rho), so whoever spends the part ``share`` of it
leaves sqrt(1 - share) of the mu. Other releases may cost more together than their mu suggests: the
accountant has the last word, and a fit that would not fit in is planned again with a little less.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Protocol, TypeVar

from ..errors import AssumptionError
from ..privacy.accounting import gaussian
from ..privacy.accounting.composition import Cost
from ..privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP
from ..solvers.base import BasePlan

_TRIES = 8  # plans of non-Gaussian releases, each with a little less than the one before
_SPARE = 1e-9  # of the rest, for the rounding of two calibrations
_MARGIN = 1e-4  # by which a second plan asks for less than proportion says


class Costed(Protocol):
    """Several releases with a cost."""

    @property
    def cost(self) -> Cost:
        """What they cost together."""


Joint = TypeVar("Joint", bound=Costed)


def rest(budget: Budget, share: float) -> Budget:
    """Return what is left of a budget once ``share`` of it is spent: of squared mu, or of epsilon.

    >>> round(rest(ApproxDP(1.0, 1e-8), 0.1).epsilon, 4), rest(PureDP(1.0), 0.25).epsilon < 0.75
    (0.946, True)
    """
    part = math.sqrt(1.0 - share) * (1.0 - _SPARE)
    if isinstance(budget, ApproxDP):
        mu = budget.mu_per_row() * budget.unit.rows
        return dataclasses.replace(budget, epsilon=gaussian.epsilon(budget.delta, part * mu))
    return less(budget, part if isinstance(budget, GDP) else part * part)


def less(budget: Budget, factor: float) -> Budget:
    """Return a budget of ``factor`` times the amount: epsilon, rho or mu."""
    name = {ApproxDP: "epsilon", PureDP: "epsilon", ZCDP: "rho", GDP: "mu"}[type(budget)]
    return dataclasses.replace(budget, **{name: getattr(budget, name) * factor})


def plan_within(
    budget: Budget,
    left: Budget,
    make: Callable[[Budget, str], BasePlan],
    join: Callable[[BasePlan], Joint],
    *,
    solver: str,
    beside: str,
    instead: str,
) -> Joint:
    """Return a plan that with what goes before it stays within the whole budget.

    Args:
        budget: of everything.
        left: what the fit may spend of it, see `rest`.
        make: a plan of the fit, from a budget and a solver's key.
        join: the plan of everything, from the fit's.
        solver: key, or "auto"; a second plan is the first one's solver's.
        beside, instead: for a refusal: what goes before the fit, and what else would work.

    Raises:
        AssumptionError: no plan was found, or no accountant composes the solver's releases with
            the others.
    """
    for _ in range(_TRIES):
        fit = make(left, solver)
        solver, joint = fit.solver, join(fit)
        try:
            amount, allowed = joint.cost.against(budget)
        except AssumptionError as problem:
            raise AssumptionError(
                f"{solver} cannot be combined with {beside}: {problem} {instead}"
            ) from None
        if amount <= allowed:
            return joint
        left = less(left, allowed / amount * (1.0 - _MARGIN))
    raise AssumptionError(
        f"{solver} and {beside} would cost {amount:.6g} of {allowed:.6g}, also with less for the "
        f"fit. {instead}"
    )
