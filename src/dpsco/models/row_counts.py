"""How many rows counted: a small noisy release beside a fit, out of the same budget.

A row without a usable label counts for nothing, and nothing about the fit says so: a table whose
labels are written otherwise than declared would be paid for and fitted on nothing. So a small part
of the budget buys a noisy count of the rows that were there. It is planned with the fit, released
through the same ledger, and stands in the same certificate.

The price: noise of standard deviation n/50 on each number, if that costs at most 1 % of the
budget's squared mu (of rho; of a pure epsilon), and what 1 % buys otherwise. A fit's noise then
grows by 0.5 % at most (1 % where the accountant composes epsilons), and by next to nothing on large
tables. Where 1 % buys noise above n/8 the count would say nothing, and there is none.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..data.counts import FAINTEST, PresentRows, RowCount
from ..data.source import Source
from ..data.tables.table import Order, Table
from ..errors import AssumptionError, ParameterError
from ..fit import run as api
from ..privacy.accounting.calibration import calibrate
from ..privacy.accounting.composition import cost
from ..privacy.budget import Budget, PureDP
from ..privacy.certificate_text import amounts, rounded_up
from ..privacy.ledger import BudgetSpender, Ledger
from ..privacy.mechanisms import StableGammaRelease, StableGaussianRelease
from ..privacy.odometer.payment import told
from ..privacy.randomness import Randomness
from ..privacy.release import Release
from ..problem import Problem
from ..solvers.base import BasePlan, Progress, Result
from .config import ModelConfig
from .shared_budget import Preliminary, SharedPlan, plan_within, portion

SHARE = 0.01
"""The most of the budget that a count takes: of squared mu, rho, or a pure epsilon."""

PRECISE = 0.02
"""Noise of this part of the rows is exact enough: a count never pays for less."""

_THEOREM = "whatever a row holds, it adds between 0 and 1 to each number of a count"
_INSTEAD = "Leave the count out (count_rows=False), or use solver='noisy_gd'."


@dataclass(frozen=True, kw_only=True)
class CountPlan(Preliminary):
    """A count of rows, its noise and its price; made by `plan_count`."""

    subject = ("a count of rows", "needs", "is")

    noise: float  # Gaussian: standard deviation; pure: scale of the vector's noise
    query: PresentRows

    @property
    def pure(self) -> bool:
        """Whether the noise is that of a pure epsilon."""
        return isinstance(self.budget, PureDP)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise on each number."""
        # A vector of density ~ exp(-|z|/scale) in d numbers has E |z|^2 = d (d + 1) scale^2.
        return self.noise * math.sqrt(self.query.size + 1) if self.pure else self.noise

    @property
    def release(self) -> StableGaussianRelease | StableGammaRelease:
        """What is released: neighbours move it by the query's diameter, under any adjacency."""
        kind = StableGammaRelease if self.pure else StableGaussianRelease
        where = self.budget.adjacency.value
        apart = self.query.diameter * (1 + self.n * 2.0**-50)  # the parts of entries are rounded
        return kind(apart, self.noise, where, _THEOREM, rows=(0, self.n))

    def releases(self) -> tuple[Release, ...]:
        """Return what is released before the fit."""
        return (self.release,)

    @property
    def share(self) -> float:
        """The part of the budget that it takes, at most `SHARE`."""
        spent = cost(self.release, adjacency=self.budget.adjacency, unit=self.budget.unit)
        if isinstance(self.budget, PureDP):
            return spent.pure_epsilon / self.budget.epsilon
        assert spent.mu is not None
        return (spent.mu / (self.budget.mu_per_row() * self.budget.unit.rows)) ** 2

    @property
    def enforced(self) -> tuple[str, ...]:
        """What is enforced, in sentences for the certificate; and the price."""
        what = "epsilon" if self.pure else "squared mu"
        price = rounded_up(100.0 * self.share, 2)
        return (
            *self.query.enforced,
            f"the count takes {price} % of the budget's {what}, the fit has the rest",
        )

    def run(self, source: Source, ledger: Ledger) -> RowCount:
        """Release the count of a source's rows."""
        noisy = ledger.stable(source.sum(self.query), self.release)
        entries = float(noisy[1]) if self.query.slots else None
        return RowCount(float(noisy[0]), self.sigma, self.n, entries)

    def __str__(self) -> str:
        return (
            f"count of rows: {100.0 * self.share:.2g} % of {amounts(self.budget)}, noise "
            f"{self.sigma:.6g} on each number"
        )


def plan_count(budget: Budget, *, n: int, query: PresentRows | None = None) -> CountPlan:
    """Return the plan of the count alone; its price is said at the head of this module.

    Args:
        budget: of count and fit together.
        n: number of rows, which is public.
        query: what is counted; by default rows alone.

    Raises:
        AssumptionError: the rows are too few for a count that says something.

    >>> from dpsco.privacy.budget import ApproxDP
    >>> small, large = (plan_count(ApproxDP(1.0, 1e-6), n=n) for n in (1000, 100_000))
    >>> round(small.sigma, 2), round(small.share, 4), round(large.sigma), round(large.share, 6)
    (42.25, 0.01, 2000, 4e-06)
    """
    query = PresentRows() if query is None else query
    first = CountPlan(budget=budget, n=n, noise=1.0, query=query)
    part = portion(budget, SHARE)
    noise = calibrate(lambda s: dataclasses.replace(first, noise=s).release, part)
    plan = dataclasses.replace(first, noise=max(noise, PRECISE * n / first.sigma))
    if plan.sigma > FAINTEST * n:
        raise AssumptionError(
            f"{n} rows are too few to count them with {SHARE:.0%} of {amounts(budget)}: "
            f"noise of {plan.sigma:.3g} on a count takes {math.ceil(plan.sigma / FAINTEST)} rows. "
            "Leave the count out (count_rows=False), or raise the budget."
        )
    return plan


@dataclass(frozen=True, kw_only=True)
class CountedPlan(SharedPlan):
    """The count and the fit, under one budget; made by `plan_with_count`."""

    maker = "plan_with_count"

    count: CountPlan
    fit: BasePlan  # whose budget is the whole, of which its noise leaves enough for the count

    def __post_init__(self) -> None:
        first, fit = self.count, self.fit
        budgets = first.budget, fit.budget
        self.check("count and fit", rows=(first.n, fit.n), budgets=budgets)
        if first.query.slots and first.query.width != fit.d:
            raise ParameterError(
                f"the count is of rows of {first.query.width} numbers, the fit's rows have {fit.d}."
            )

    @property
    def preliminary(self) -> CountPlan:
        """The count."""
        return self.count

    @property
    def enforced(self) -> tuple[str, ...]:
        """What is enforced: the fit's sentences first."""
        return (*self.fit.enforced, *self.count.enforced)


def plan_with_count(
    problem: Problem | ModelConfig,
    *,
    n: int,
    d: int,
    budget: Budget,
    query: PresentRows | None = None,
    solver: str = "auto",
    calibration: str = "tight",
    options: Mapping[str, Any] | None = None,
) -> CountedPlan:
    """Return the plan of the count and of the fit, decided without data.

    Args:
        problem: what is minimised; of a model, the plan of the fit holds the record.
        budget: of everything together.
        query: as in `plan_count`.
        n, d, solver, calibration, options: as in `dpsco.plan`.

    Raises:
        AssumptionError: as in `plan_count` and `dpsco.plan`; or no accountant composes the solver's
            releases with a count.
    """
    first = plan_count(budget, n=n, query=query)

    def join(fit: BasePlan) -> CountedPlan:
        task = dataclasses.replace(fit.task, budget=budget)
        return CountedPlan(count=first, fit=dataclasses.replace(fit, task=task))

    return plan_within(
        problem,
        first.share,
        join,
        n=n,
        d=d,
        budget=budget,
        solver=solver,
        calibration=calibration,
        options=options,
        beside="a count of the rows",
        instead=_INSTEAD,
    )


def count_beside(plan: BasePlan, query: PresentRows | None = None) -> CountedPlan | None:
    """Return a plan with the count that its budget has room for; None if it has none.

    The fit of `plan_with_count` has, also after it was written to a file and read again.

    Args:
        plan: of a fit.
        query: as in `plan_count`.
    """
    try:
        counted = CountedPlan(count=plan_count(plan.budget, n=plan.n, query=query), fit=plan)
        return counted if counted.cost.satisfies(plan.budget) else None
    except AssumptionError:
        return None


def run_with_count(
    plan: CountedPlan,
    data: Table | Source | tuple[Any, ...],
    *,
    order: Order = "shuffled",
    randomness: Randomness | None = None,
    odometer: BudgetSpender | None = None,
    progress: Progress | None = None,
) -> tuple[Result, RowCount]:
    """Carry out a plan on private rows; arguments as in `dpsco.run`.

    The result's certificate covers count and fit.

    Raises:
        ParameterError: the rows come once, or this is no plan of `plan_with_count`.
    """
    if not isinstance(plan, CountedPlan):
        raise ParameterError(f"this needs a plan from plan_with_count, got {type(plan).__name__}.")
    table = api.prepare(plan.fit, data, order=order, odometer=odometer, progress=progress)
    if isinstance(table, Table) and table.once:
        raise ParameterError(
            f"the rows of {table!r} come once, and the fit needs them: they cannot be counted too. "
            "Leave the count out (count_rows=False), or keep the rows: from_arrays, from_parquet."
        )
    randomness = Randomness.secure() if randomness is None else randomness
    notes = table.trusted(order)
    with told(odometer):
        ledger = plan.ledger(randomness=randomness, odometer=odometer, trusted=notes)
        if isinstance(table, Table):
            bounds = plan.fit.problem.bounds
            table = table.bounded(bounds, order=order, randomness=randomness)
        counted = plan.count.run(table, ledger)
        return api.execute(plan.fit, table, ledger, progress=progress), counted
