"""Rehearsals of whole models: with the units and counts that a private fit would release."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..data.tables.table import from_arrays
from ..errors import ParameterError
from ..fit.rehearsal import REPEATS, Rows, public_rows, rehearse_fits, rehearse_task
from ..fit.tradeoff import EPSILONS, Tradeoff
from ..privacy.accounting.composition import Cost
from ..privacy.randomness import Randomness
from ..solvers.base import BasePlan
from ..task import Task
from .config import INTERCEPT, ModelConfig
from .plan import ModelPlan

ModelPlanner = Callable[[Task, str], ModelPlan]


def rehearse(
    task: Any,
    table: Rows | None = None,
    epsilons: float | Iterable[float] = EPSILONS,
    *,
    public: bool = False,
    n: int | None = None,
    repeats: int = REPEATS,
    solvers: str | Iterable[str] | None = "auto",
    seed: int | None = None,
    prefer: str = "accuracy",
    base_rate: Any = None,
    label_spread: float | None = None,
) -> Tradeoff:
    """Measure a trade-off on rows that cost nothing: public ones, or made-up ones.

    Nothing is charged, and no certificate is handed out.

    Args:
        task: a `Task`; or an estimator, such as `PrivateLogisticRegression`, whose epsilon is
            replaced.
        table: public rows and labels (X, y). None for rows that are made up from the public facts
            of a task: they point in all directions, and a linear model explains about half of what
            the labels say.
        epsilons: the budgets to compare.
        public: must be True with a table: the caller states that its rows are public.
        n: for an estimator, how many rows the private table has; as many as the public one by
            default. Fits take so many rows, drawn with replacement.
        repeats: fits of each epsilon and solver.
        solvers, prefer: as in `dpsco.tradeoff`; by default only what "auto" takes is fitted.
        seed: to repeat a rehearsal; fresh randomness by default.
        base_rate, label_spread: what is public of the labels, for made-up rows; public rows say it
            themselves.

    Returns:
        A `Tradeoff` whose excess, bands, verdicts and times are measured: ``basis`` says on what.

    Raises:
        DataError: there are too few public rows, or they have another shape.
        ParameterError: an argument is out of range, or there is nothing to make rows up from.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> task = dp.Task(problem, n=1_000, d=5, budget=dp.ApproxDP(1.0, 1e-6))
    >>> rehearse(task, epsilons=1.0, repeats=2, seed=0).basis
    'made-up rows'
    """
    _check_public(table, public)
    how: dict[str, Any] = {"repeats": repeats, "solvers": solvers, "seed": seed, "prefer": prefer}
    if isinstance(task, Task):
        if n is not None:
            raise _validate.refusal("n", "is the task's own: leave it out.")
        facts = {"base_rate": base_rate, "label_spread": label_spread}
        return rehearse_task(task, table, epsilons, **how, **facts)
    return _rehearse_estimator(task, table, epsilons, n, **how)


def _check_public(table: Rows | None, public: object) -> None:
    """Refuse rows that nobody has declared public."""
    if table is not None and public is not True:
        raise ParameterError(
            "rehearse measures on the rows of the table exactly, and so needs public=True: on "
            "private rows what it says would be a release that nobody has paid for. Pass public "
            "rows, or leave the table out for made-up ones.",
            parameter="public",
        )


def _rehearse_estimator(
    estimator: Any,
    table: Rows | None,
    epsilons: float | Iterable[float],
    n: int | None,
    *,
    prefer: str,
    **how: Any,
) -> Tradeoff:
    """Return the trade-off of an estimator's fits, measured on public rows."""
    if not hasattr(estimator, "_rehearsal"):
        raise _validate.refusal(
            "task",
            f"must be a Task or a linear estimator of dpsco, got {_validate.shown(estimator)}.",
            "Of other estimators rehearse the task: dp.Task(problem, n=..., d=..., budget=...).",
        )
    if table is None:
        raise _validate.refusal(
            "table", "is needed for an estimator: public rows (X, y).", "Or rehearse a Task."
        )
    X, y = public_rows(table)
    rows = from_arrays(X, y)
    count = rows.n if n is None else _validate.integer("n", n)
    config, budget, planner = estimator._rehearsal(rows, X, y, count, prefer)
    task = Task(config.problem(), count, rows.d, budget)
    return rehearse_model(config, task, planner, (X, y), epsilons, prefer=prefer, **how)


def rehearse_model(
    config: ModelConfig,
    task: Task,
    planner: ModelPlanner,
    table: Rows | None,
    epsilons: float | Iterable[float],
    **how: Any,
) -> Tradeoff:
    """Return the trade-off of a model's fits, measured.

    Args:
        config: in whose units losses are measured.
        task: the task of that model.
        planner: makes the plan of a task's fit by a solver, or by "auto".
        table, epsilons, how: as in `rehearse_fits`.
    """
    bounds, plans = config.bounds, dict[tuple[Task, str], ModelPlan]()
    if bounds.intercept is None:  # units that are found have a centre
        bounds = replace(bounds, intercept=INTERCEPT * bounds.feature_norm)

    def plan(task: Task, key: str) -> ModelPlan:
        if (task, key) not in plans:
            plans[task, key] = planner(task, key)
        return plans[task, key]

    def costed(task: Task, key: str) -> tuple[BasePlan, Cost]:
        planned = plan(task, key)
        return planned.fit, planned.cost

    def fitter(task: Task, key: str, rows: Rows, randomness: Randomness) -> NDArray[np.float64]:
        model = plan(task, key).run(from_arrays(*rows), randomness=randomness).model
        assert bounds.intercept is not None
        return config.weights(model, bounds.intercept)

    return rehearse_fits(task, table, epsilons, costed, fitter, bounds=bounds, **how)
