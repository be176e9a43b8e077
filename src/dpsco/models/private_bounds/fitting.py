"""Fits whose bounds are estimated: histograms first, then the planned fit in the unit they say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...data.counts import RowCount
from ...data.histograms import NormHistogram
from ...data.source import Source
from ...data.tables.table import Order, Table
from ...data.units import divided
from ...errors import AssumptionError, DataError, ParameterError
from ...fit import run as api
from ...privacy.budget import Budget
from ...privacy.ledger import BudgetSpender, Ledger
from ...privacy.odometer.payment import told
from ...privacy.randomness import Randomness
from ...problem import Problem
from ...solvers.base import Progress, Result
from ..config import ModelConfig
from .planning import SHARE, BoundsPlan, JointPlan, plan_with_bounds
from .reading import QUANTILE, Scales, label_ends, row_unit


def estimate(plan: BoundsPlan, source: Source, ledger: Ledger) -> Scales:
    """Release the histograms, and read the bounds off what was released.

    Args:
        plan: from `plan_bounds`.
        source: rows within ``plan.bounds(...)``.
        ledger: open for the plan's releases.

    Raises:
        DataError: the source has another number of rows than the plan.
    """
    if source.n != plan.n:
        raise DataError(f"the plan is for {plan.n} rows, the source has {source.n}.")
    feature, label, counted = 1.0, None, None
    for query in plan.queries:
        noisy = ledger.gaussian(
            source.sum(query),
            bound=query.bound,
            sigma=plan.sigma,
            rows=(0, plan.n),
            diameter=query.diameter,
        )
        if counted is None and plan.counts:
            spread = plan.sigma * math.sqrt(query.size)
            counted = RowCount(math.fsum(noisy), spread, plan.n)
        if isinstance(query, NormHistogram):
            feature = row_unit(noisy, plan.sigma, plan.quantile)
        else:
            label = label_ends(noisy, plan.sigma, plan.quantile)
    return Scales(feature, label, counted)


def execute(
    plan: JointPlan,
    table: Table,
    ledger: Ledger,
    *,
    order: Order = "shuffled",
    randomness: Randomness | None = None,
    progress: Progress | None = None,
) -> tuple[Result, Scales]:
    """Release the histograms and fit, on an open ledger; it is closed afterwards."""
    unit = plan.fit.problem.bounds
    # Counts do not depend on the order, so none is drawn.
    scales = estimate(plan.bounds, table.bounded(plan.bounds.bounds(unit), order="given"), ledger)
    raw = table.bounded(scales.bounds(unit), order=order, randomness=randomness)
    source = divided(raw, unit, scales.feature)
    return api.execute(plan.fit, source, ledger, progress=progress), scales


def run_with_bounds(
    plan: JointPlan,
    data: Table | tuple[Any, ...],
    *,
    order: Order = "shuffled",
    randomness: Randomness | None = None,
    odometer: BudgetSpender | None = None,
    progress: Progress | None = None,
) -> tuple[Result, Scales]:
    """Carry out a plan on private rows; arguments as in `dpsco.run`.

    The result's weights and plan are in the unit that was found; its certificate covers histograms
    and fit.
    """
    if not isinstance(plan, JointPlan):
        raise ParameterError(f"this needs a plan from plan_with_bounds, got {type(plan).__name__}.")
    table = api.prepare(plan.fit, data, order=order, odometer=odometer, progress=progress)
    if not isinstance(table, Table):
        raise ParameterError(
            "private bounds need raw rows: pass a table of dpsco.data or a pair (X, y). A source's "
            "rows have been clipped already."
        )
    randomness = Randomness.secure() if randomness is None else randomness
    notes = table.trusted(order)
    with told(odometer):
        ledger = plan.ledger(randomness=randomness, odometer=odometer, trusted=notes)
        return execute(plan, table, ledger, order=order, randomness=randomness, progress=progress)


def fit_with_private_bounds(
    problem: Problem | ModelConfig,
    data: Table | tuple[Any, ...],
    budget: Budget,
    *,
    features: bool = True,
    labels: bool = False,
    share: float = SHARE,
    quantile: float = QUANTILE,
    solver: str = "auto",
    calibration: str = "tight",
    options: Mapping[str, Any] | None = None,
    randomness: Randomness | None = None,
    odometer: BudgetSpender | None = None,
    progress: Progress | None = None,
    count_rows: bool = False,
) -> tuple[Result, Scales]:
    """Plan with the table's public shape, then run: see `plan_with_bounds`, `run_with_bounds`.

    With ``count_rows`` histograms that are too noisy to say how many rows there were are refused.
    """
    table = api.as_table(data)
    if not isinstance(table, Table):
        raise ParameterError(
            "private bounds need raw rows: pass a table of dpsco.data or a pair (X, y), got "
            f"{type(data).__name__}."
        )
    plan = plan_with_bounds(
        problem,
        n=table.n,
        d=table.d,
        budget=budget,
        features=features,
        labels=labels,
        share=share,
        quantile=quantile,
        solver=solver,
        calibration=calibration,
        options=options,
    )
    if count_rows and not plan.bounds.counts:
        raise AssumptionError(
            f"{table.n} rows are too few to count them by a histogram with noise "
            f"{plan.bounds.sigma:.3g} on each bin. Leave the count out (count_rows=False), or "
            "raise the share of the bounds."
        )
    return run_with_bounds(plan, table, randomness=randomness, odometer=odometer, progress=progress)
