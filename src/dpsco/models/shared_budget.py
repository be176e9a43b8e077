"""A fit that shares its budget with a small release before it: what is left, and a plan for both.

A preliminary (a count of rows, the histograms of private bounds) has a plan with its own noise;
`plan_within` plans the fit with what is left, and a `SharedPlan` holds both and opens their ledger.
Another one takes a `Preliminary` with its releases, a `SharedPlan` that names it, and a run.

Gaussian releases add up in squared mu (for zCDP in rho), so whoever spends the part ``share`` of it
leaves sqrt(1 - share) of the mu. Other releases may cost more together than their mu suggests: the
accountant has the last word, and a fit that would not fit in is planned again with a little less.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from .. import _validate
from ..errors import AssumptionError, ParameterError
from ..fit import run as api
from ..privacy.accounting import gaussian
from ..privacy.accounting.composition import Cost, cost
from ..privacy.budget import GDP, ZCDP, Adjacency, ApproxDP, Budget, PureDP
from ..privacy.ledger import BudgetSpender, Ledger
from ..privacy.randomness import Randomness
from ..privacy.release import Composition, Release
from ..problem import Problem
from ..solvers.base import BasePlan
from ..task import Task
from .config import ModelConfig

_TRIES = 8  # plans of non-Gaussian releases, each with a little less than the one before
_SPARE = 1e-9  # of the rest, for the rounding of two calibrations
_MARGIN = 1e-4  # by which a second plan asks for less than proportion says


@dataclass(frozen=True, kw_only=True)
class Preliminary(ABC):
    """The plan of what is released before a fit."""

    subject: ClassVar[tuple[str, str, str]]  # of refusals: what it is, with "needs" and "is"

    budget: Budget  # of everything, the fit included
    n: int

    def __post_init__(self) -> None:
        what, needs, is_ = self.subject
        if not isinstance(self.budget, Budget):
            raise ParameterError(
                f"{what} {needs} a budget such as ApproxDP(1.0, 1e-6), not {self.budget!r}."
            )
        object.__setattr__(self, "n", _validate.integer("n", self.n))
        if self.budget.adjacency is Adjacency.ADD_REMOVE:
            raise AssumptionError(
                f"{what} {is_} for a public number of rows, which add_remove would have to hide. "
                "Use replace_one or zero_out."
            )

    @property
    @abstractmethod
    def enforced(self) -> tuple[str, ...]:
        """What is enforced, in sentences for the certificate."""

    @abstractmethod
    def releases(self) -> tuple[Release, ...]:
        """Return what is released before the fit."""


class SharedPlan(ABC):
    """A preliminary and the fit that follows, under one budget; a subclass names its parts."""

    fit: BasePlan
    prefix: ClassVar[str] = ""  # of what an odometer calls the run, before the solver
    maker: ClassVar[str]  # the function that makes such plans

    @property
    @abstractmethod
    def preliminary(self) -> Preliminary:
        """What is released before the fit."""

    @property
    def enforced(self) -> tuple[str, ...]:
        """What is enforced, in sentences for the certificate."""
        return (*self.preliminary.enforced, *self.fit.enforced)

    def releases(self) -> tuple[Release | Composition, ...]:
        """Return every release, in order."""
        return (*self.preliminary.releases(), *self.fit.releases())

    @cached_property
    def cost(self) -> Cost:
        """What all releases cost together, by the accountant."""
        budget = self.preliminary.budget
        return cost(self.releases(), adjacency=budget.adjacency, unit=budget.unit)

    def ledger(
        self,
        *,
        randomness: Randomness | None = None,
        odometer: BudgetSpender | None = None,
        trusted: Iterable[str] = (),
    ) -> Ledger:
        """Return a ledger that is open for all releases; ``trusted`` adds to what the fit says."""
        return Ledger(
            self.releases(),
            self.preliminary.budget,
            randomness=randomness,
            enforced=self.enforced,
            trusted=(*self.fit.trusted, *trusted),
            odometer=odometer,
            label=f"{self.prefix}{self.fit.solver}",
        )

    def __str__(self) -> str:
        return f"{self.preliminary}\n{self.fit}"

    def check(self, parts: str, **pairs: tuple[Any, Any]) -> None:
        """Refuse parts that were made for different facts."""
        for name, (one, other) in pairs.items():
            if one != other:
                raise ParameterError(
                    f"{parts} have different {name}, {one} and {other}. Make the plan with "
                    f"{self.maker}."
                )


Shared = TypeVar("Shared", bound=SharedPlan)


def portion(budget: Budget, share: float) -> Budget:
    """Return the part ``share`` of a budget: of squared mu, or of a pure epsilon."""
    if isinstance(budget, PureDP):
        return less(budget, share)
    mu = budget.mu_per_row() * budget.unit.rows * math.sqrt(share)
    return GDP(mu, adjacency=budget.adjacency, unit=budget.unit)


def rest(budget: Budget, share: float) -> Budget:
    """Return what is left of a budget once ``share`` of it is spent: of squared mu, or of epsilon.

    >>> round(rest(ApproxDP(1.0, 1e-8), 0.1).epsilon, 4), rest(PureDP(1.0), 0.25).epsilon < 0.75
    (0.946, True)
    """
    if not share < 1.0:
        raise ParameterError(f"nothing is left for the fit: {share:.6g} of the budget is spent.")
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
    problem: Problem | ModelConfig,
    share: float,
    join: Callable[[BasePlan], Shared],
    *,
    n: int,
    d: int,
    budget: Budget,
    solver: str,
    calibration: str,
    options: Mapping[str, Any] | None,
    beside: str,
    instead: str,
) -> Shared:
    """Return a plan that with what goes before it stays within the whole budget.

    Args:
        problem: of the fit; of a model, the plan of the fit holds the record.
        share: the part of the budget that is spent before the fit, see `rest`.
        join: the plan of everything, from the fit's.
        budget: of everything.
        solver: key, or "auto"; a second plan is the first one's solver's.
        n, d, calibration, options: as in `dpsco.plan`.
        beside, instead: for a refusal: what goes before the fit, and what else would work.

    Raises:
        AssumptionError: no plan was found, or no accountant composes the solver's releases with
            the others.
    """
    model = problem if isinstance(problem, ModelConfig) else None
    problem = problem.problem() if isinstance(problem, ModelConfig) else problem
    task = Task(problem, n, d, budget, calibration)
    left = rest(budget, share)
    for _ in range(_TRIES):
        fit = api.plan(dataclasses.replace(task, budget=left), solver=solver, options=options)
        solver, plan = fit.solver, join(model.put_into(fit) if model else fit)
        try:
            amount, allowed = plan.cost.against(budget)
        except AssumptionError as problem:
            raise AssumptionError(
                f"{solver} cannot be combined with {beside}: {problem} {instead}"
            ) from None
        if amount <= allowed:
            return plan
        left = less(left, allowed / amount * (1.0 - _MARGIN))
    raise AssumptionError(
        f"{solver} and {beside} would cost {amount:.6g} of {allowed:.6g}, also with less for the "
        f"fit. {instead}"
    )
