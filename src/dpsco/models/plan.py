"""The plan of a model's fit: of which model, by which solver, with a count of the rows or without.

`plan_model` decides all of it from public facts; `with_count` does so for a plan that was made
before, perhaps in a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _validate
from ..data.counts import PresentRows, RowCount
from ..data.schema.encoder import TableEncoder
from ..data.tables.table import Order, Table
from ..errors import AssumptionError, ParameterError
from ..fit import run as api
from ..fit.choose import choose
from ..privacy.budget import Budget
from ..privacy.ledger import BudgetSpender
from ..privacy.randomness import Randomness
from ..solvers import registry
from ..solvers.base import BasePlan, Progress, Result
from ..task import Task
from .config import ModelConfig
from .row_counts import CountedPlan, count_beside, plan_count, plan_with_count, run_with_count

_DROWNS = "so few rows, at this epsilon, would drown in the noise of a count"
_ROUNDS_ALONE = "a fit with a checkpoint releases nothing beside its rounds"
_NO_SOLVER = "No solver has it."
_NO_ROOM = "the plan spends its whole budget on the fit"


@dataclass(frozen=True)
class ModelPlan:
    """The plan of a fit, with a count of the rows beside it or the reason why there is none."""

    fit: BasePlan  # its `model` says which model it is for
    counted: CountedPlan | None = None
    reason: str = ""  # why the rows are not counted, unless that was asked for

    def run(
        self,
        table: Table,
        *,
        order: Order = "shuffled",
        randomness: Randomness | None = None,
        odometer: BudgetSpender | None = None,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
    ) -> tuple[Result, RowCount | None]:
        """Carry it out on private rows; arguments as in `dpsco.run`."""
        how: dict[str, Any] = {"order": order, "randomness": randomness}
        how |= {"odometer": odometer, "progress": progress}
        if self.counted is None:
            return api.run(self.fit, table, checkpoint=checkpoint, **how), None
        if checkpoint is not None:
            raise ParameterError(f"the rows cannot be counted: {_ROUNDS_ALONE}.")
        return run_with_count(self.counted, table, **how)


def plan_model(
    config: ModelConfig,
    *,
    n: int,
    d: int,
    budget: Budget,
    solver: str = "auto",
    calibration: str = "tight",
    options: Mapping[str, Any] | None = None,
    single_epoch: bool = False,
    count_rows: bool | None = None,
    encoder: TableEncoder | None = None,
) -> ModelPlan:
    """Return the plan of a model's fit, decided without data.

    Args:
        config: the model.
        n, d, budget, calibration: as in `Task`.
        solver, options: as in `dpsco.plan`.
        single_epoch: whether each row is read once, as by a fit with a checkpoint.
        count_rows: whether a little of the budget buys a count of the rows; None: if that says
            something. See `dpsco.models.row_counts`.
        encoder: of the rows; with it the count is of entries, too.

    Raises:
        AssumptionError: the solver's theorem does not cover the task.
        ParameterError: an argument is out of range, or a count is asked for that cannot be.
    """
    task = Task(config.problem(), n, d, budget, calibration)
    options = {} if options is None else options
    if not isinstance(options, Mapping):
        raise _validate.refusal("options", f"must be a dictionary, got {_validate.shown(options)}.")
    if solver == "auto" and (options or single_epoch):
        solver = _chosen(task, options, single_epoch=single_epoch)
    query, reason = None, ""
    if count_rows is not False:
        query, reason = _query(budget, n, encoder, single_epoch=single_epoch)
    if query is None:
        _check_count(count_rows, reason)
        plan = api.plan(task, solver=solver, options=options)
        return ModelPlan(config.put_into(plan), reason=reason)
    counted = plan_with_count(
        config,
        n=n,
        d=d,
        budget=budget,
        query=query,
        solver=solver,
        calibration=calibration,
        options=options,
    )
    return ModelPlan(counted.fit, counted)


def with_count(
    plan: BasePlan,
    *,
    single_epoch: bool = False,
    count_rows: bool | None = None,
    encoder: TableEncoder | None = None,
) -> ModelPlan:
    """Return a plan that was made before with the count that its budget has room for.

    Args:
        plan: of a fit.
        single_epoch, count_rows, encoder: as in `plan_model`.

    Raises:
        ParameterError: a count is asked for, and there is no room.
    """
    if count_rows is False:
        return ModelPlan(plan)
    query, reason = _query(plan.budget, plan.n, encoder, single_epoch=single_epoch)
    counted = None if query is None else count_beside(plan, query)
    if counted is not None:
        return ModelPlan(plan, counted)
    reason = reason or _NO_ROOM
    _check_count(count_rows, reason)
    return ModelPlan(plan, reason=reason)


def _query(
    budget: Budget, n: int, encoder: TableEncoder | None, *, single_epoch: bool
) -> tuple[PresentRows | None, str]:
    """Return what can be counted, entries too or rows alone; or None and why nothing can."""
    if single_epoch:
        return None, _ROUNDS_ALONE
    queries: Sequence[PresentRows] = (PresentRows(),)
    if encoder is not None:
        queries = (PresentRows.encoded(encoder), *queries)
    for query in queries:
        try:
            plan_count(budget, n=n, query=query)
        except AssumptionError:
            continue
        return query, ""
    return None, _DROWNS


def _check_count(count_rows: bool | None, reason: str) -> None:
    """Refuse a count that is asked for and cannot be."""
    if count_rows:
        raise _validate.refusal("count_rows", f"is not possible: {reason}.")


def _chosen(task: Task, options: Mapping[str, Any], *, single_epoch: bool) -> str:
    """Return the solver that "auto" takes; if it lacks an option, say which solvers have it."""
    key, entries = choose(task, single_epoch=single_epoch, options=options), registry()
    unknown = [name for name in options if name not in entries[key].options]
    if not unknown:
        return key
    others = [other for other, entry in entries.items() if set(options) <= set(entry.options)]
    resumable = [other for other in others if entries[other].single_epoch is not None]
    advice = f"Solvers that have it: {', '.join(resumable or others)}." if others else _NO_SOLVER
    raise ParameterError(
        f"{key} is chosen unless a solver is named, and has no option {unknown[0]!r}. {advice}"
    )
