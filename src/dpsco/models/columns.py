"""Columns that a fit shall read, chosen privately before it, within one budget.

The choice is a score test of each column: the summed gradient of the loss at the best constant
prediction, with Gaussian noise; the columns with the largest entries are chosen. Where there is an
intercept, a first and cheap sum of the same kind says what that constant is. The noise is that of
the rows' l2 length, which a model declares; choosing from noisy numbers costs nothing more.

It can pay where rows are many and most of very many columns do not matter; each that does must
move labels by itself. On text it loses: see ``docs/sparse_models.md``. It is never a default.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..data.queries import ClippedGradient
from ..data.source import Source
from ..data.tables.table import MemoryTable, Order, Table
from ..errors import AssumptionError, DataError, ParameterError
from ..fit import run as api
from ..losses import Logistic, Squared
from ..privacy.budget import Budget, PureDP
from ..privacy.certificate_text import amounts
from ..privacy.ledger import BudgetSpender, Ledger
from ..privacy.mechanisms import GaussianRelease, gaussian_sigma
from ..privacy.odometer.payment import told
from ..privacy.randomness import Randomness
from ..solvers.base import BasePlan, Progress, Result
from ..task import Task
from .config import ModelConfig
from .shared_budget import Preliminary, SharedPlan, plan_within, portion

SHARE = 0.3  # of the budget's squared mu, for the choice
CONSTANT_PART = 0.05  # of that, for the constant
MOST = 0.98  # of the label's range: where the constant may lie
ROUNDING = 1.0 + 2.0**-40  # a sum of clipped rows that is divided stays within its bound

Columns = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ColumnsPlan(Preliminary):
    """The plan of the choice; made by `plan_columns`."""

    subject = ("a choice of columns", "needs", "is")

    task: Task  # of all columns; its budget is the whole
    count: int  # how many are chosen
    share: float  # of the budget's squared mu
    clip: float  # of a row's gradient
    sigmas: tuple[float, ...]  # noise on each number of each sum: for the constant, for the choice

    @property
    def enforced(self) -> tuple[str, ...]:
        """What is enforced, in sentences for the certificate; and the price."""
        return (
            f"{self.count} of {self.task.d} columns are chosen by noisy sums over all rows, to "
            f"which a row adds a gradient of length {self.clip:g} at most",
            f"the choice takes {100.0 * self.share:.4g} % of the budget's squared mu, the fit has "
            "the rest",
        )

    def releases(self) -> tuple[GaussianRelease, ...]:
        """Return what is released before the fit."""
        return tuple(GaussianRelease(self.clip, sigma, rows=(0, self.n)) for sigma in self.sigmas)

    def choose(self, source: Source, ledger: Ledger) -> Columns:
        """Release the noisy sums, and return the columns with the largest scores, in order."""
        weights, mean = np.zeros(self.task.n_weights), 0.0
        for sigma in self.sigmas[:-1]:
            mean = self._mean(float(self._release(source, weights, mean, sigma, ledger)[-1]))
            weights[-1] = self._constant(mean)
        noisy = self._release(source, weights, mean, self.sigmas[-1], ledger)
        score = np.abs(noisy[: self.task.d])
        return np.sort(np.argsort(-score, kind="stable")[: self.count]).astype(np.int64)

    def _release(
        self, source: Source, weights: NDArray[Any], mean: float, sigma: float, ledger: Ledger
    ) -> NDArray[Any]:
        """Release the summed gradients at a constant, in units of the longest there can be.

        A constant that predicts the mean label leaves residuals up to 1 + |mean| times as large as
        at zero. Cut ones would not cancel, and common columns would look like telling ones.
        """
        longest = 1.0 + abs(mean)
        query = ClippedGradient(self.task.problem.loss, weights, self.clip * longest)
        total = source.sum(query) / (longest * ROUNDING)
        return ledger.gaussian(total, bound=self.clip, sigma=sigma, rows=(0, self.n))

    def _mean(self, total: float) -> float:
        """Return the mean label, from the intercept's entry of the gradient at zero weights."""
        column = self.task.problem.bounds.intercept
        assert column is not None
        slope = 1.0 if isinstance(self.task.problem.loss, Squared) else 0.5
        return min(max(-total / (self.n * column * slope), -MOST), MOST)

    def _constant(self, mean: float) -> float:
        """Return the intercept's weight that predicts so large a mean."""
        column = self.task.problem.bounds.intercept
        assert column is not None
        squared = isinstance(self.task.problem.loss, Squared)
        return (mean if squared else 2.0 * math.atanh(mean)) / column


@dataclass(frozen=True, kw_only=True)
class FitOnColumns(SharedPlan):
    """The choice of columns and the fit on them; made by `plan_on_columns`."""

    maker = "plan_on_columns"
    prefix = "columns, then "

    columns: ColumnsPlan
    fit: BasePlan  # of so many columns; its budget is the whole, and its noise leaves enough

    def __post_init__(self) -> None:
        first, fit = self.columns, self.fit
        self.check(
            "columns and fit",
            rows=(first.n, fit.n),
            features=(first.count, fit.d),
            budgets=(first.budget, fit.budget),
            bounds=(first.task.problem.bounds, fit.problem.bounds),
        )

    @property
    def preliminary(self) -> ColumnsPlan:
        """What is released before the fit."""
        return self.columns


def plan_columns(task: Task, count: int, *, share: float = SHARE) -> ColumnsPlan:
    """Return the plan of the choice alone.

    Args:
        task: of a model of all columns, with the budget of everything.
        count: how many columns are chosen.
        share: which part of the budget's squared mu that takes.

    Raises:
        AssumptionError: the budget is pure.
        ParameterError: there are not so many columns, or the loss is none of one margin.
    """
    checked_columns("select_columns", count, task.d)
    if isinstance(task.budget, PureDP):
        raise AssumptionError(
            f"columns cannot be chosen with {amounts(task.budget)}: the noise of the choice is "
            "Gaussian, which is never purely private. Leave out select_columns, or use "
            "ApproxDP(epsilon, delta)."
        )
    loss = task.problem.loss
    if not isinstance(loss, (Logistic, Squared)):
        raise ParameterError(
            "columns are chosen for two classes or for least squares, not for "
            f"{loss.name}. Leave out select_columns.",
            parameter="select_columns",
        )
    share = _validate.probability("share", share)
    clip = task.start_gradient
    parts = (CONSTANT_PART, 1.0 - CONSTANT_PART) if task.problem.bounds.intercept else (1.0,)
    sigmas = tuple(
        gaussian_sigma(portion(task.budget, share * part), bound=clip, rows=(0, task.n))
        for part in parts
    )
    facts: dict[str, Any] = {"task": task, "count": count, "share": share}
    return ColumnsPlan(budget=task.budget, n=task.n, clip=clip, sigmas=sigmas, **facts)


def checked_columns(name: str, count: Any, d: int) -> int:
    """Return a number of columns, at most as many as there are."""
    value = _validate.integer(name, count)
    if value > d:
        raise ParameterError(
            f"{name}={value} is more than the {d} columns there are. Leave out {name} for all of "
            "them.",
            parameter=name,
        )
    return value


def plan_on_columns(
    config: ModelConfig,
    count: int,
    *,
    n: int,
    d: int,
    budget: Budget,
    solver: str = "auto",
    calibration: str = "tight",
    options: Mapping[str, Any] | None = None,
    share: float = SHARE,
) -> FitOnColumns:
    """Return the plan of the choice and of the fit on what is chosen, decided without data.

    Args:
        config: the model.
        count, share: as in `plan_columns`.
        budget: of everything together.
        n, d, solver, calibration, options: as in `dpsco.plan`.

    >>> from dpsco.privacy.budget import ApproxDP
    >>> from .config import configure
    >>> config = configure("lasso", feature_norm=1.0, label_range=(0, 1), radius=2.0)
    >>> plan = plan_on_columns(config, 5, n=50_000, d=300, budget=ApproxDP(1.0, 1e-9))
    >>> plan.fit.d, plan.cost.satisfies(ApproxDP(1.0, 1e-9))
    (5, True)
    """
    first = plan_columns(Task(config.problem(), n, d, budget, calibration), count, share=share)

    def join(fit: BasePlan) -> FitOnColumns:
        task = dataclasses.replace(fit.task, budget=budget)
        return FitOnColumns(columns=first, fit=dataclasses.replace(fit, task=task))

    return plan_within(
        config,
        share,
        join,
        n=n,
        d=count,
        budget=budget,
        solver=solver,
        calibration=calibration,
        options=options,
        beside="a choice of columns",
        instead="Leave out select_columns, or use solver='noisy_gd'.",
    )


def run_on_columns(
    plan: FitOnColumns,
    table: Table,
    *,
    order: Order = "shuffled",
    randomness: Randomness | None = None,
    odometer: BudgetSpender | None = None,
    progress: Progress | None = None,
) -> tuple[Result, Columns]:
    """Carry out a plan on private rows in memory; arguments as in `dpsco.run`.

    Raises:
        DataError: the rows are not in memory, or of another shape than the plan.
    """
    if not isinstance(plan, FitOnColumns):
        raise ParameterError(f"this needs a plan from plan_on_columns, got {type(plan).__name__}.")
    if not isinstance(table, MemoryTable):
        raise DataError(
            "columns are chosen from rows in memory: pass arrays, a sparse matrix or a data frame, "
            "or leave out select_columns."
        )
    first, bounds = plan.columns, plan.fit.problem.bounds
    if (table.n, table.d) != (first.n, first.task.d):
        raise DataError(
            f"the plan is for {first.n} rows of {first.task.d} features, the table has {table.n} "
            f"of {table.d}."
        )
    table.check(bounds, order=order)
    randomness = Randomness.secure() if randomness is None else randomness
    with told(odometer):
        ledger = plan.ledger(randomness=randomness, odometer=odometer, trusted=table.trusted(order))
        # Sums do not depend on the order of the rows, which may be secret.
        chosen = first.choose(table.bounded(bounds, order="given", copy=False), ledger)
        source = table.part(chosen).bounded(bounds, order=order, randomness=randomness)
        return api.execute(plan.fit, source, ledger, progress=progress), chosen
