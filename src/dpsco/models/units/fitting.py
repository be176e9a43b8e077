"""Fits in units that are found: noisy sums first, then the planned fit on rows in those units."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.block import Floats
from ...data.bounds import Bounds
from ...data.counts import RowCount
from ...data.histograms import ColumnHistogram, LabelHistogram, NormHistogram
from ...data.labels import Scaled
from ...data.moments import ColumnMoments, RowMoments, SquaredLengths
from ...data.queries import Query
from ...data.source import Source
from ...data.tables.table import Order, Table
from ...data.units import LARGEST, Units
from ...errors import DataError, ParameterError
from ...fit import run as api
from ...privacy.budget import Budget
from ...privacy.ledger import BudgetSpender, Ledger
from ...privacy.odometer.payment import told
from ...privacy.randomness import Randomness
from ...problem import Problem
from ...solvers.base import Progress, Result
from ..config import ModelConfig
from ..unit_rules import UnitSearch
from .planning import FitInUnits, UnitsPlan, plan_in_units
from .reading import (
    Ranges,
    column_ranges,
    column_units,
    label_ends,
    row_unit,
    row_units,
    sparse_row_units,
)


@dataclass(frozen=True)
class Found:
    """What was released before the fit: units, and a count of rows where one was planned."""

    units: Units
    count: RowCount | None = None


def find(plan: UnitsPlan, table: Table, bounds: Bounds, ledger: Ledger) -> Found:
    """Release what the plan says, and read the units off what was released.

    Args:
        plan: from `plan_units`.
        table: raw rows.
        bounds: of the fit that follows: they say how labels are read.
        ledger: open for the plan's releases.

    Raises:
        DataError: the table has another shape than the plan.
    """
    if (table.n, table.d) != (plan.n, plan.d):
        raise DataError(
            f"the plan is for {plan.n} rows of {plan.d} features, the table has {table.n} of "
            f"{table.d}."
        )
    return _Search(plan, table, bounds, ledger).run()


class _Search:
    """A search under way: what was released so far says how the next rows are read."""

    def __init__(self, plan: UnitsPlan, table: Table, bounds: Bounds, ledger: Ledger) -> None:
        self.plan, self.table, self.ledger = plan, table, ledger
        label = LabelHistogram().bounds(bounds).label if plan.search.labels else bounds.label
        norm = plan.search.feature_norm or bounds.feature_norm
        self.declared = Bounds(norm, label=label, norm=bounds.norm)
        self.centred = isinstance(bounds.label, Scaled) and bounds.label.centred
        self.units: Units | None = None  # of the features
        self.ranges: Ranges | None = None  # of the columns
        self.label: Scaled | None = None

    def run(self) -> Found:
        """Make every release of the plan."""
        count: RowCount | None = None
        source: Source | None = None
        stages = list(zip(self.plan.stages, self.plan.sigmas, strict=True))
        for place, (stage, sigma) in enumerate(stages):
            if source is None or stage.name in ("moments", "lengths"):
                source = self._source(stage.query)
            noisy = _release(source, stage.query, sigma, self.ledger)
            self._read(stage.query, noisy, sigma)
            if place == 0 and self.plan.count is not None:
                count = self.plan.count.run(source, self.ledger)
        units = Units(np.ones(1)) if self.units is None else self.units
        return Found(dataclasses.replace(units, label=self.label), count)

    def _source(self, query: Query | None) -> Source:
        """Return the rows as a query reads them; sums do not depend on their order."""
        bounds = self.declared
        if isinstance(query, (ColumnHistogram, NormHistogram)):
            bounds = query.bounds(bounds)
        if isinstance(query, NormHistogram):
            bounds = dataclasses.replace(bounds, units=self.units)
        if isinstance(query, ColumnMoments):
            assert self.units is not None  # the columns' ranges
            bounds = query.bounds(bounds, self.units)
        return self.table.bounded(bounds, order="given", copy=False)

    def _read(self, query: Query, noisy: Floats, sigma: float) -> None:
        """Read what a stage has released."""
        plan = self.plan
        n, signal = plan.n, plan.signal
        if isinstance(query, RowMoments):
            self.units = row_units(noisy, sigma, query, n=n, signal=signal)
        elif isinstance(query, SquaredLengths):
            self.units = sparse_row_units(noisy, sigma, query, n=n, signal=signal)
        elif isinstance(query, ColumnHistogram):
            sparse = plan.search.sparse
            ranges = column_ranges(query.by_column(noisy), sigma, n, sparse=sparse)
            self.ranges, self.units = ranges, ranges.units()
        elif isinstance(query, ColumnMoments):
            assert self.ranges is not None
            self.units = column_units(noisy, sigma, query, self.ranges, n=n, signal=signal)
        elif isinstance(query, NormHistogram):
            unit, scale = row_unit(noisy, sigma), np.ones(1)
            cut = LARGEST
            if self.units is not None:
                scale, cut = self.units.scale, self.units.cut
            self.units = Units(unit * scale, cut=cut / unit)
        else:
            self.label = Scaled(*label_ends(noisy, sigma, n), centred=self.centred)


def _release(source: Source, query: Any, sigma: float, ledger: Ledger) -> Any:
    """Return the noisy sum of a query over all rows."""
    return ledger.gaussian(
        source.sum(query),
        bound=query.bound,
        sigma=sigma,
        rows=(0, source.n),
        diameter=query.diameter,
    )


def execute(
    plan: FitInUnits,
    table: Table,
    ledger: Ledger,
    *,
    order: Order = "shuffled",
    randomness: Randomness | None = None,
    progress: Progress | None = None,
) -> tuple[Result, Found]:
    """Find units and fit, on an open ledger; it is closed afterwards."""
    bounds = plan.fit.problem.bounds
    answer = find(plan.units, table, bounds, ledger)
    measured = dataclasses.replace(bounds, units=answer.units)
    source = table.bounded(measured, order=order, randomness=randomness)
    return api.execute(plan.fit, source, ledger, progress=progress), answer


def run_in_units(
    plan: FitInUnits,
    data: Table | tuple[Any, ...],
    *,
    order: Order = "shuffled",
    randomness: Randomness | None = None,
    odometer: BudgetSpender | None = None,
    progress: Progress | None = None,
) -> tuple[Result, Found]:
    """Carry out a plan on private rows; arguments as in `dpsco.run`.

    The result's weights and plan are in the units that were found; its certificate covers
    everything that was released.
    """
    if not isinstance(plan, FitInUnits):
        raise ParameterError(f"this needs a plan from plan_in_units, got {type(plan).__name__}.")
    table = api.prepare(plan.fit, data, order=order, odometer=odometer, progress=progress)
    if not isinstance(table, Table):
        raise ParameterError(
            "units need raw rows: pass a table of dpsco.data or a pair (X, y). A source's rows "
            "have been clipped already."
        )
    if table.once:
        raise ParameterError(
            f"the rows of {table!r} come once, and the fit needs them: nothing can be found before "
            "it. Declare the bounds and use units='declared', or keep the rows: from_arrays, "
            "from_parquet, from_batches with a function that begins anew."
        )
    search = plan.units.search
    if table.sparse and search.features in ("rows", "columns") and not search.sparse:
        raise ParameterError(
            "the plan centres rows, and these are sparse: their zeros would not stay zeros. Make "
            "the plan with sparse=True."
        )
    randomness = Randomness.secure() if randomness is None else randomness
    notes = table.trusted(order)
    with told(odometer):
        ledger = plan.ledger(randomness=randomness, odometer=odometer, trusted=notes)
        return execute(plan, table, ledger, order=order, randomness=randomness, progress=progress)


def fit_in_units(
    problem: Problem | ModelConfig,
    data: Table | tuple[Any, ...],
    budget: Budget,
    search: UnitSearch,
    *,
    solver: str = "auto",
    calibration: str = "tight",
    options: Mapping[str, Any] | None = None,
    randomness: Randomness | None = None,
    odometer: BudgetSpender | None = None,
    progress: Progress | None = None,
) -> tuple[Result, Found]:
    """Plan with the table's public shape, then run: see `plan_in_units`, `run_in_units`."""
    table = api.as_table(data)
    if not isinstance(table, Table):
        raise ParameterError(
            "units need raw rows: pass a table of dpsco.data or a pair (X, y), got "
            f"{type(data).__name__}."
        )
    plan = plan_in_units(
        problem,
        search,
        n=table.n,
        d=table.d,
        budget=budget,
        solver=solver,
        calibration=calibration,
        options=options,
    )
    return run_in_units(plan, table, randomness=randomness, odometer=odometer, progress=progress)
