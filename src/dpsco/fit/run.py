"""plan, run, solve: the path of every fit.

`plan` decides everything from public facts; `run` reads rows through a source and lets numbers
leave through a ledger that was opened with the plan's releases; `solve` does both.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import _validate
from ..data.source import Source
from ..data.tables.batches import BatchTable
from ..data.tables.table import Order, Table, from_arrays
from ..errors import AccuracyWarning, AssumptionError, DataError, ParameterError
from ..files import limits as _limits
from ..files.reading import parse_json
from ..privacy.budget import Adjacency, Budget
from ..privacy.ledger import BudgetSpender, Ledger
from ..privacy.odometer.payment import told
from ..privacy.randomness import Randomness
from ..problem import Problem
from ..solvers import get, registry
from ..solvers.base import (
    BasePlan,
    Floats,
    Progress,
    Result,
    Solver,
    check_cost,
)
from ..solvers.engine import NOTHING, carry_out, reads_once, takes_sums
from ..solvers.engine import Store as Rounds
from ..task import Task, as_task
from .checkpoint.checkpoint import Checkpoint, NoCheckpoint, sequence
from .outlook import warn
from .progress import as_progress

SHOWN = 6  # of the solvers that apply, where another one does not


def plan(
    problem: Problem | Task,
    *,
    n: int | None = None,
    d: int | None = None,
    budget: Budget | None = None,
    solver: str = "auto",
    calibration: str = "tight",
    options: Mapping[str, Any] | None = None,
    prefer: str = "accuracy",
) -> BasePlan:
    """Return everything that a fit will do, decided without data.

    Args:
        problem: a `Task`; or a `Problem`, whose task has the next arguments.
        n, d, budget, calibration: as in `Task`, if a problem is given.
        solver: a key of the registry, or "auto" for the first one of `recommend`.
        options: settings of the solver's own, such as {"rounds": 50}.
        prefer: what "auto" weighs: "accuracy", or "attack" for the least proven bound on attacks
            among solvers that are as good. See `recommend`.

    Raises:
        AssumptionError: the solver's theorem does not cover the task, or the published constants
            do not suffice.
        ParameterError: an argument is out of range.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Hinge(), bounds=dp.Bounds(1.0, label="sign"))
    >>> task = dp.Task(problem, n=10_000, d=5, budget=dp.ApproxDP(1.0, 1e-8))
    >>> plan(task, solver="noisy_gd").cost.epsilon(1e-8) <= 1.0
    True
    """
    task = as_task(problem, n=n, d=d, budget=budget, calibration=calibration)
    if solver == "auto":
        from .choose import choose

        solver = choose(task, prefer=prefer)
    chosen = get(solver)
    _check_needs(chosen, task)
    settings = _check_options(chosen, {} if options is None else options)
    return check_cost(chosen.plan(task, **settings))


def run(
    plan: BasePlan,
    data: Table | Source | tuple[Any, ...],
    *,
    order: Order = "shuffled",
    randomness: Randomness | None = None,
    odometer: BudgetSpender | None = None,
    progress: Progress | bool | None = None,
    checkpoint: str | Path | None = None,
) -> Result:
    """Carry out a plan on private rows.

    Args:
        plan: from `plan`.
        data: a table of `dpsco.data`, a pair (X, y), or a source with the plan's bounds.
        order: "shuffled" shuffles the rows of a table; "given" keeps the given order, which must
            not have been chosen by looking at the rows: the certificate lists it as trusted.
        randomness: secure by default; a seeded one marks the certificate as reproducible.
        odometer: pays for the run out of a shared budget.
        progress: True shows a bar (of tqdm, the extra ``progress``); or a function, which is
            called with (rounds done, rounds in all). Both see public numbers only.
        checkpoint: a file that brings the run over a crash. If it is not there the run begins, and
            makes it; if it is there the run goes on where it stopped, on the same rows in the same
            order; if that run was over its result is returned, with a warning. A table of files
            must be of those it was begun on, unchanged. It is secret while the run lasts.

    Raises:
        CheckpointError: the checkpoint cannot be used, is in use, or is another run's.
        DataError: the table has another shape than the plan, or other bounds.
        LedgerError: executed and planned releases differ; nothing is returned.
    """
    progress = as_progress(progress, getattr(plan, "solver", ""))
    table = prepare(plan, data, order=order, odometer=odometer, progress=progress)
    with (
        told(odometer, checkpoint),
        _store(plan, table, checkpoint, order, randomness=randomness, odometer=odometer) as store,
    ):
        if (stored := store.stored_result(stacklevel=2)) is not None:
            return stored
        ledger = store.open_ledger(trusted=table.trusted(order))
        if isinstance(table, Table):
            table = table.bounded(plan.problem.bounds, order=order, randomness=store.randomness)
        return store.finish(_weights(plan, table, ledger, progress, store), ledger)


def prepare(
    plan: BasePlan,
    data: Table | Source | tuple[Any, ...],
    *,
    order: Order = "shuffled",
    odometer: BudgetSpender | None = None,
    progress: Progress | None = None,
) -> Table | Source:
    """Return the data as a table or source; refuse all that public facts can refuse.

    No row is read, so whoever opens a ledger afterwards pays for nothing that cannot be run.
    Arguments as in `run`.
    """
    if not isinstance(plan, BasePlan):
        raise ParameterError(f"run needs a plan from dpsco.plan(...), got {type(plan).__name__}.")
    table: Table | Source = as_table(data)
    _check_plan(plan)
    _check_shape(plan, table)
    _validate.choice("order", order, ("shuffled", "given"))
    if isinstance(table, Table):
        if table.once and not reads_once(get(plan.solver), plan):
            others = (key for key, solver in registry().items() if solver.single_epoch is not None)
            raise ParameterError(
                f"the rows of {table!r} come once, and {plan.solver} needs them again. Solvers of "
                f"a single epoch: {', '.join(others)}. Or pass rows that can be read again: "
                "from_arrays, from_parquet, or from_batches with a function that begins anew."
            )
        if table.sums_only and not takes_sums(get(plan.solver), plan):
            from .choose import by_sums

            raise ParameterError(
                f"the rows of {table!r} stay with workers, which send sums, and {plan.solver} "
                f"needs the rows themselves, one after the other. Use solver="
                f"{by_sums(plan.task)!r}, the nearest that takes noisy sums; or rows of one "
                "machine: from_parquet."
            )
        table.check_loss(plan.problem.loss)
        table.check(plan.problem.bounds, order=order)
    check_helpers(odometer, progress)
    return table


def execute(
    plan: BasePlan, source: Source, ledger: Ledger, *, progress: Progress | None = None
) -> Result:
    """Carry out a plan on an open ledger, and close it.

    Args:
        plan: whose releases are due.
        source: rows within the plan's bounds.
        ledger: opened with the plan's releases, and whatever was released before.
        progress: as in `run`.

    Raises:
        DataError: the source has another shape than the plan, or other bounds.
        LedgerError: executed and planned releases differ; nothing is returned.
    """
    weights = _weights(plan, source, ledger, progress, NOTHING)
    return Result(weights, ledger.close(), plan, plan.trace())


def _weights(
    plan: BasePlan, source: Source, ledger: Ledger, progress: Progress | None, store: Rounds
) -> Floats:
    """Return the weights that the solver finds."""
    _check_shape(plan, source)
    with np.errstate(all="ignore"):  # a warning could tell something of the rows
        weights = carry_out(get(plan.solver), plan, source, ledger, progress or _silent, store)
    return np.asarray(weights, dtype=float)


def solve(
    problem: Problem,
    data: Table | Source | tuple[Any, ...],
    budget: Budget,
    *,
    solver: str = "auto",
    calibration: str = "tight",
    options: Mapping[str, Any] | None = None,
    order: Order = "shuffled",
    randomness: Randomness | None = None,
    odometer: BudgetSpender | None = None,
    progress: Progress | bool | None = None,
    checkpoint: str | Path | None = None,
) -> Result:
    """Plan with the table's public shape, then run. Arguments as in `plan` and `run`."""
    table = as_table(data)
    if not isinstance(table, (Table, Source)):
        raise ParameterError(
            f"solve needs a table of dpsco.data or a pair (X, y), got {type(data).__name__}."
        )
    d = table.d
    if isinstance(table, Source) and isinstance(problem, Problem):
        d -= problem.bounds.intercept is not None
    task = as_task(problem, n=table.n, d=d, budget=budget, calibration=calibration)
    sums = isinstance(table, Table) and table.sums_only
    if solver == "auto" and (sums or checkpoint is not None or isinstance(table, BatchTable)):
        from .choose import choose

        solver = choose(task, single_epoch=not sums, sums=sums, options=options)
    fit_plan = plan(task, solver=solver, options=options)
    if solver == "auto":
        from .choose import caution

        if reason := caution(task, fit_plan.solver):
            warnings.warn(reason, AccuracyWarning, stacklevel=2)
    warn(fit_plan, stacklevel=2)
    helpers: dict[str, Any] = {"randomness": randomness, "odometer": odometer, "progress": progress}
    return run(fit_plan, table, order=order, checkpoint=checkpoint, **helpers)


def load_plan(text: str | bytes) -> BasePlan:
    """Return the plan that `BasePlan.to_json` wrote; its needs and its cost are checked again.

    Raises:
        AssumptionError: the file was changed, and the solver's theorem does not cover what it says
            now, or it costs more than its budget.
        ParameterError: this is no plan.
    """
    from ..solvers.serialization import check_types, decode

    try:
        record = parse_json(text, what="it", limits=_limits.PLAN, error=ParameterError)
        plan = get(record["solver"]).plan_type(**{k: decode(v) for k, v in record.items()})
        check_types(plan)
        _check_plan(plan)
        _ = plan.risk, plan.warnings  # numbers that no forecast can be made of are refused here
        return check_cost(plan)
    except AssumptionError as problem:
        raise AssumptionError(_validate.reason(problem, longest=1000)) from None
    except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError) as problem:
        why = f"this is not a plan of dpsco: {_validate.reason(problem, longest=1000)}"
        raise ParameterError(why) from None


def _check_plan(plan: BasePlan) -> None:
    """Refuse a plan that its solver would not have made, whoever wrote or changed it."""
    solver = get(plan.solver)
    if not isinstance(plan, solver.plan_type):
        raise ParameterError(f"{plan.solver} does not run a {type(plan).__qualname__}.")
    if not isinstance(plan.task, Task):
        raise ParameterError(f"a plan needs a Task, got {type(plan.task).__name__}.")
    _check_needs(solver, plan.task)


def _check_needs(solver: Solver, task: Task) -> None:
    """Refuse what the solver's theorem does not cover; name solvers that do."""
    if task.initial_distance == 0.0:
        raise AssumptionError(
            f"there is nothing to fit: {task.problem.domain!r} holds a single point."
        )
    reasons, calibration = solver.refusals(task), task.calibration
    if calibration not in solver.calibrations and not reasons:
        words = ", ".join(map(repr, solver.calibrations))
        reasons = (f"it has calibration {words}, not {calibration!r}",)
    if not reasons:
        return
    others = [
        key
        for key, other in registry().items()
        if calibration in other.calibrations and not other.refusals(task)
    ]
    others.sort(key=lambda key: get(key).measured is None)  # those that are calibrated first
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    instead = f"Solvers that apply: {', '.join(others[:SHOWN])}{more}."
    instead = instead if others else "No solver here applies."
    raise AssumptionError(f"{solver.key} does not apply: {'; '.join(reasons)}. {instead}")


def as_table(data: Any) -> Any:
    """Return the table that a pair (X, y), or (X,) without labels, stands for."""
    if not isinstance(data, tuple):
        return data
    if len(data) not in (1, 2):
        raise ParameterError(
            f"data must be a pair (X, y), or (X,); got {len(data)} parts.", parameter="data"
        )
    return from_arrays(*data)


def check_helpers(odometer: Any, progress: Any) -> None:
    """Refuse an odometer that cannot pay and a progress that cannot be called."""
    if getattr(getattr(odometer, "budget", None), "adjacency", None) is Adjacency.ADD_REMOVE:
        raise AssumptionError(
            "the odometer's budget hides the number of rows (add_remove), which a plan makes "
            "public. Keep an odometer of replace_one or zero_out for fits."
        )
    if odometer is not None and not callable(getattr(odometer, "spend", None)):
        raise ParameterError(
            f"odometer must be an Odometer, got {_validate.shown(odometer)}.", parameter="odometer"
        )
    if progress is None:
        return
    try:
        inspect.signature(progress).bind(1, 1)
    except TypeError:
        raise ParameterError(
            f"progress must be a function of (done, total), got {_validate.shown(progress)}.",
            parameter="progress",
        ) from None
    except ValueError:  # a built-in without a signature
        return


def _store(
    plan: BasePlan,
    table: Table | Source,
    checkpoint: str | Path | None,
    order: Order,
    *,
    randomness: Randomness | None,
    odometer: BudgetSpender | None,
) -> Checkpoint | NoCheckpoint:
    """Return where the run is kept; refuse runs that could not go on after a crash."""
    if checkpoint is None:
        return NoCheckpoint(plan, randomness=randomness, odometer=odometer)
    if get(plan.solver).stepper is None:
        others = (key for key, solver in registry().items() if solver.stepper is not None)
        raise ParameterError(
            f"{plan.solver} cannot keep a checkpoint: it does not take its noisy answers round by "
            f"round, so there is nothing to keep between them. Solvers that do: "
            f"{', '.join(others)}."
        )
    if isinstance(table, Source) and order != "given":
        raise ParameterError(
            "a source has an order of its own, which a later process could not find again, and "
            "rows would count twice. Pass the table that it was made from; or, if its rows always "
            "come in the same order, say order='given'."
        )
    return Checkpoint(
        checkpoint,
        plan,
        order=sequence(table, order),
        origin=table.origin if isinstance(table, Table) else None,
        randomness=randomness,
        odometer=odometer,  # which Checkpoint checks
    )


def _check_options(solver: Solver, options: Any) -> dict[str, Any]:
    """Refuse options that the solver does not have."""
    if not isinstance(options, Mapping):
        raise ParameterError(
            f"options must be a dictionary, got {_validate.shown(options)}.", parameter="options"
        )
    known = solver.options
    unknown = sorted(set(options) - set(known))
    if unknown:
        has = ", ".join(known) if known else "none"
        raise ParameterError(f"{solver.key} has no option {unknown[0]!r}; its options are: {has}.")
    return dict(options)


def _check_shape(plan: BasePlan, table: Any) -> None:
    """Refuse a table that is not the one planned for."""
    if not isinstance(table, (Table, Source)):
        raise ParameterError(
            f"run needs a table of dpsco.data or a pair (X, y), got {type(table).__name__}."
        )
    width = plan.task.columns if isinstance(table, Source) else plan.d
    if (table.n, table.d) != (plan.n, width):
        raise DataError(
            f"the plan is for {plan.n} rows of {width} columns, the table has {table.n} of "
            f"{table.d}. Make a plan with the table's own n and d."
        )
    if isinstance(table, Source) and table.bounds != plan.problem.bounds:
        raise DataError(
            f"the plan is for {plan.problem.bounds}, but the source's rows are within "
            f"{table.bounds}."
        )


def _silent(done: int, total: int) -> None:
    """Report nothing."""
