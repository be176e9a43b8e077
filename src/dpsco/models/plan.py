"""The plan of a model's fit: of which model, in which units, by which solver, with a count or not.

`plan_model` decides all of it from public facts; `with_count` does so for a plan that was made
before, perhaps in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from .. import _validate
from ..data.counts import PresentRows, RowCount
from ..data.schema.encoder import TableEncoder
from ..data.tables.table import Order, Table
from ..data.units import Units
from ..errors import AssumptionError, ParameterError
from ..fit import run as api
from ..fit.choose import choose
from ..privacy.accounting.composition import Cost
from ..privacy.budget import Budget
from ..privacy.ledger import BudgetSpender
from ..privacy.randomness import Randomness
from ..privacy.release import Composition, Release
from ..solvers import registry
from ..solvers.base import BasePlan, Progress, Result
from ..solvers.common.loss_meter import follows_loss
from ..solvers.common.refits import refit_share
from ..solvers.noisy_gd.schedule import sparing_batches
from ..task import Task
from .config import ModelConfig, config_of
from .linear import LinearModel
from .row_counts import (
    CountedPlan,
    CountPlan,
    count_beside,
    plan_count,
    plan_with_count,
    run_with_count,
)
from .spec import MODELS
from .unit_rules import UnitSearch, label_share, rule_share, search_for_raw, search_for_rows
from .units import FitInUnits, plan_in_units, plan_units, run_in_units

UnitsChoice = Literal["auto", "declared"]

ADJUSTED = "noisy_gd"
"""The solver whose options follow from the task."""

_DROWNS = "so few rows, at this epsilon, would drown in the noise of a count"
_ROUNDS_ALONE = "a fit with a checkpoint releases nothing beside its rounds"
_NO_SOLVER = "No solver has it."
_NO_ROOM = "the plan spends its whole budget on the fit"
_ONCE = "the rows are read once, or come with a checkpoint"
_DECLARED = "this was asked for"
_IN_DECLARED = "Make the plan with units='declared'."


@dataclass(frozen=True)
class Outcome:
    """What a fit hands back: the model in the units of raw rows, and how it came about."""

    model: LinearModel
    result: Result
    count: RowCount | None = None  # of rows, where they were counted
    units: Units | None = None  # where they were found


@dataclass(frozen=True)
class ModelPlan:
    """The plan of a fit, with what is released beside it, or the reason why nothing is."""

    fit: BasePlan  # its `model` says which model it is for
    shared: CountedPlan | FitInUnits | None = None  # with a count of rows, or units
    reason: str = ""  # why the rows are not counted, unless that was asked for
    units_reason: str = ""  # why units are the declared ones

    @property
    def count(self) -> CountPlan | None:
        """The count of rows, if there is one."""
        return None if self.shared is None else self.shared.count

    def releases(self) -> tuple[Release | Composition, ...]:
        """Return everything that is released, in order: what an odometer pays for."""
        return tuple((self.fit if self.shared is None else self.shared).releases())

    @property
    def cost(self) -> Cost:
        """What all releases cost: those of the fit, and those beside it."""
        return self.fit.cost if self.shared is None else self.shared.cost

    @property
    def warning(self) -> str:
        """What to know before it is paid for: that columns share a unit which may not fit them."""
        shared = self.shared
        if not isinstance(shared, FitInUnits) or shared.units.search.features != "length":
            return ""
        if self.fit.d == 1:
            return ""
        return (
            f"all columns are measured in one unit, since {shared.units.note or 'it was asked for'}"
            ": columns that are much smaller than the largest will not count. Declare a schema, or "
            "subtract and divide by public numbers first."
        )

    @property
    def units(self) -> str:
        """In which units rows are measured, in a sentence."""
        if isinstance(self.shared, FitInUnits):
            return self.shared.units.sentence
        why = f": {self.units_reason}" if self.units_reason else ""
        return f"rows are measured in the declared units{why}"

    def run(
        self,
        table: Table,
        *,
        order: Order = "shuffled",
        randomness: Randomness | None = None,
        odometer: BudgetSpender | None = None,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
    ) -> Outcome:
        """Carry it out on private rows; arguments as in `dpsco.run`."""
        config = config_of(self.fit)
        if config is None:
            raise ParameterError("the plan does not say which model it is for.")
        how: dict[str, Any] = {"order": order, "randomness": randomness}
        how |= {"odometer": odometer, "progress": progress}
        if self.shared is None:
            result = api.run(self.fit, table, checkpoint=checkpoint, **how)
            return Outcome(config.model(result.weights), result)
        if checkpoint is not None:
            if isinstance(self.shared, CountedPlan):
                raise ParameterError(f"the rows cannot be counted: {_ROUNDS_ALONE}.")
            raise ParameterError(f"units cannot be found: {_ROUNDS_ALONE}. {_IN_DECLARED}")
        if isinstance(self.shared, CountedPlan):
            result, count = run_with_count(self.shared, table, **how)
            return Outcome(config.model(result.weights), result, count)
        result, answer = run_in_units(self.shared, table, **how)
        model = config.model(result.weights, answer.units)
        return Outcome(model, result, answer.count, answer.units)


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
    sums: bool = False,
    count_rows: bool | None = None,
    encoder: TableEncoder | None = None,
    units: UnitsChoice = "auto",
    units_share: float | None = None,
    reread: bool = True,
    sparse: bool = False,
    missing: Collection[str] = (),
    prefer: str = "accuracy",
) -> ModelPlan:
    """Return the plan of a model's fit, decided without data.

    Args:
        config: the model.
        n, d, budget, calibration, solver, options: as in `dpsco.plan`.
        single_epoch, sums, prefer: which solvers "auto" may take, as in `dpsco.fit.choose.choose`.
        count_rows: whether a little of the budget buys a count of the rows; None: if that says
            something. See `dpsco.models.row_counts`.
        encoder: of the rows; with it the count is of entries, too.
        units: "auto" finds units where that pays (`dpsco.models.unit_rules`); "declared" never.
        units_share: the part of the budget's squared mu that units take; None: by rule.
        reread: whether rows can be read before the fit reads them.
        sparse: whether rows are.
        missing: bounds that nobody declared, "features" or "labels": the model has bounds of 1 in
            their place, and they are found.

    Raises:
        AssumptionError: the solver's theorem does not cover the task, or the rows are too few to
            find what is missing.
        ParameterError: an argument is out of range, or a count is asked for that cannot be.
    """
    task, options = Task(config.problem(), n, d, budget, calibration), _options(options)
    facts: dict[str, Any] = {"units": units, "share": units_share, "reread": reread}
    search, why = _search(config, task, options, missing, sparse=sparse, **facts)
    query, reason = None, ""
    if count_rows is not False:
        query, reason = _query(budget, n, encoder, single_epoch=single_epoch)
        _check_count(count_rows, reason)
    facts = {"single_epoch": single_epoch, "sums": sums, "prefer": prefer}
    settings = partial(_settings, solver, options, facts)
    if search is not None:
        try:
            shared = _plan_in_units(config, search, task, settings, query, why)
            return ModelPlan(shared.fit, shared, reason)
        except AssumptionError as problem:
            if missing:
                raise
            why = _validate.reason(problem)  # the declared units may do
    plan = _plan_as_declared(config, task, *settings(task), query)
    return replace(plan, reason=reason, units_reason=why)


def _settings(
    solver: str, options: Mapping[str, Any], facts: Mapping[str, Any], task: Task
) -> tuple[str, Mapping[str, Any]]:
    """Return the solver and its options.

    Single epochs, sums or options decide which solver "auto" takes. Where the user leaves the
    options to us, those of noisy gradient descent follow from the task.
    """
    once, prefer = facts["single_epoch"], facts["prefer"]
    if solver == "auto" and (options or once or facts["sums"]):
        solver = _chosen(task, options, facts)
    if options or once:
        return solver, options
    ours = _adjustments(task, sums=facts["sums"])
    key = solver
    if solver == "auto" and (ours or prefer != "accuracy"):
        key = choose(task, prefer=prefer)
    if not ours or key != ADJUSTED:
        return (solver if prefer == "accuracy" else key), options
    return ADJUSTED, ours


def _adjustments(task: Task, *, sums: bool) -> dict[str, Any]:
    """Return the options of noisy gradient descent that pay for the task.

    The clip follows the loss, the scale of scores and the intercepts are refitted, or the rows are
    taken in batches. Workers would sum one batch after the other, a few at a time.
    """
    batches = 1 if sums else sparing_batches(task)
    chosen = {
        "refit": refit_share(task),
        "follow": follows_loss(task),
        "batches": batches if batches > 1 else None,
    }
    return {name: value for name, value in chosen.items() if value}


def _plan_as_declared(
    config: ModelConfig,
    task: Task,
    solver: str,
    options: Mapping[str, Any],
    query: PresentRows | None,
) -> ModelPlan:
    """Return the plan of a fit in the declared units, with a count of rows if there is a query."""
    if query is None:
        return ModelPlan(config.put_into(api.plan(task, solver=solver, options=options)))
    counted = plan_with_count(
        config,
        n=task.n,
        d=task.d,
        budget=task.budget,
        query=query,
        solver=solver,
        calibration=task.calibration,
        options=options,
    )
    return ModelPlan(counted.fit, counted)


def _options(options: Any) -> Mapping[str, Any]:
    """Return options of a solver; refuse what is no dictionary."""
    options = {} if options is None else options
    if not isinstance(options, Mapping):
        raise _validate.refusal("options", f"must be a dictionary, got {_validate.shown(options)}.")
    return options


def _plan_in_units(
    config: ModelConfig,
    search: UnitSearch,
    task: Task,
    settings: Callable[[Task], tuple[str, Mapping[str, Any]]],
    query: PresentRows | None,
    note: str,
) -> FitInUnits:
    """Return the plan of a fit in units that are to be found."""
    inside = config if search.features == "declared" else config.in_units()
    n, budget = task.n, task.budget
    solver, options = settings(replace(task, problem=inside.problem()))
    return plan_in_units(
        inside,
        search,
        n=n,
        d=task.d,
        budget=budget,
        solver=solver,
        calibration=task.calibration,
        options=options,
        count=None if query is None else plan_count(budget, n=n, query=query),
        note=note,
    )


def _search(
    config: ModelConfig,
    task: Task,
    options: Mapping[str, Any],
    missing: Collection[str],
    *,
    units: str,
    share: float | None,
    reread: bool,
    sparse: bool,
) -> tuple[UnitSearch | None, str]:
    """Return which units are found, with what must be; or None and why the declared ones serve."""
    _validate.choice("units", units, ("auto", "declared"))
    if missing and not reread:
        raise ParameterError(
            f"{' and '.join(missing)} have no declared bounds, and finding them takes a look at "
            f"the rows before the fit: {_ONCE}. Declare the bounds."
        )
    n, d, budget = task.n, task.d, task.budget
    search: UnitSearch | None
    if "features" in missing:
        # Without an intercept nothing would take up a centre, as of sparse rows.
        uncentred = sparse or config.bounds.intercept is None
        search, why = search_for_raw(
            n=n, d=d, budget=budget, units=units, sparse=uncentred, share=share
        )
    elif units == "declared":
        search, why = None, _DECLARED
    elif not reread:
        search, why = None, _ONCE
    else:
        search, why = _search_for_rows(config, task, options, sparse=sparse, share=share)
    if "labels" not in missing:
        return search, why
    part = label_share(n)
    if search is None:
        return UnitSearch(labels=True, sparse=sparse, label_share=share or part), why
    if share is not None:  # in all: split as the rules would
        part *= share / (part + rule_share(search, n))
        search = replace(search, share=share - part)
    return replace(search, labels=True, label_share=part), why


def _search_for_rows(
    config: ModelConfig,
    task: Task,
    options: Mapping[str, Any],
    *,
    sparse: bool,
    share: float | None,
) -> tuple[UnitSearch | None, str]:
    """Return what is found of declared rows; or None and why their units stay."""
    spec = MODELS[config.name]
    lengths = {"radius": config.radius, "scale": config.scale, "alpha": config.alpha or None}
    return search_for_rows(
        n=task.n,
        d=task.d,
        budget=task.budget,
        feature_norm=config.bounds.feature_norm,
        regression=not spec.classifies,
        intercept=config.bounds.intercept is not None,
        in_units=tuple(name for name, value in lengths.items() if value is not None),
        options=options,
        calibration=task.calibration,
        sparse=sparse,
        share=share,
    )


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
    config, query, reason = config_of(plan), None, ""
    search = None if config is None else config.units
    if count_rows is not False:
        query, reason = _query(plan.budget, plan.n, encoder, single_epoch=single_epoch)
        shared = None if query is None else _beside(plan, search, query)
        if shared is not None:
            return ModelPlan(plan, shared)
        reason = reason or _NO_ROOM
        _check_count(count_rows, reason)
    return ModelPlan(plan, _beside(plan, search, None), reason)


def _beside(
    plan: BasePlan, search: UnitSearch | None, query: PresentRows | None
) -> CountedPlan | FitInUnits | None:
    """Return what is released beside a plan that was made before; None if there is no room.

    Raises:
        AssumptionError: the plan is for units that are to be found, and leaves no room for that.
    """
    if search is None:
        return None if query is None else count_beside(plan, query)
    facts: dict[str, Any] = {"n": plan.n, "d": plan.d, "search": search}
    count = None if query is None else plan_count(plan.budget, n=plan.n, query=query)
    facts["norm"] = plan.problem.bounds.norm
    shared = FitInUnits(units=plan_units(plan.budget, count=count, **facts), fit=plan)
    if shared.cost.satisfies(plan.budget):
        return shared
    if query is not None:
        return None
    raise AssumptionError(
        "the plan is for rows in units that are to be found, and leaves nothing of its budget for "
        "that. Make it anew with dpsco plan."
    )


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
    """Refuse a count that is asked for and, for a reason, cannot be."""
    if count_rows and reason:
        raise _validate.refusal("count_rows", f"is not possible: {reason}.")


def _chosen(task: Task, options: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return the solver that "auto" takes; if it lacks an option, say which solvers have it."""
    key, entries = choose(task, options=options, **facts), registry()
    unknown = [name for name in options if name not in entries[key].options]
    if not unknown:
        return key
    others = [other for other, entry in entries.items() if set(options) <= set(entry.options)]
    resumable = [other for other in others if entries[other].single_epoch is not None]
    advice = f"Solvers that have it: {', '.join(resumable or others)}." if others else _NO_SOLVER
    raise ParameterError(
        f"{key} is chosen unless a solver is named, and has no option {unknown[0]!r}. {advice}"
    )
