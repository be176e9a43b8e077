"""The count of rows that a fit buys with a small part of its budget, and what is said of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import AssumptionError, ParameterError

if TYPE_CHECKING:
    from ..data.counts import RowCount
    from ..data.encoder import TableEncoder
    from ..data.schema import Schema
    from ..data.table import Table
    from ..plans import BasePlan, Result
    from ..privacy.budget import Budget
    from ..row_counts import CountedPlan
    from .request import Request

_LOOK = "Look with `dpsco schema check SCHEMA SAMPLE --rows --public` at a public sample."


@dataclass(frozen=True)
class Planned:
    """The plan of a fit, with a count of the rows beside it or the reason why there is none."""

    fit: BasePlan
    whole: CountedPlan | None = None
    reason: str = ""  # why the rows are not counted, where nobody asked for that

    @property
    def budget(self) -> Budget:
        """What all of it may cost."""
        return self.fit.budget if self.whole is None else self.whole.count.budget

    def run(self, table: Table, run: Callable[..., Result], **how: Any) -> tuple[Result, Any]:
        """Carry it out; ``run`` does so without a count."""
        from ..row_counts import run_with_count

        if self.whole is None:
            return run(self.fit, table, **how), None
        del how["checkpoint"]  # of which there is none, or there were no count
        return run_with_count(self.whole, table, **how)


def add_count(parser: argparse.ArgumentParser) -> None:
    """Add ``--count-rows``."""
    parser.add_argument(
        "--count-rows",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="spend a little of the budget, 1 %% at most, on a noisy count of the rows that had a "
        "usable label (default: where that says something)",
    )


def make_planned(
    options: argparse.Namespace,
    request: Request,
    rows: int,
    encoder: TableEncoder,
    loaded: BasePlan | None,
) -> Planned:
    """Return the plan of a fit, with a count unless it is not wanted or cannot be.

    Raises:
        AssumptionError: a count is asked for, and the rows are too few.
        ParameterError: a count is asked for, and the plan or the checkpoint has no room for it.
    """
    from .request import make_plan

    make = partial(make_plan, options, request, rows, one_pass=options.checkpoint is not None)
    if options.count_rows is False:
        return Planned(loaded or make())
    reason, count = "", None
    if loaded is not None:
        reason = f"the plan {options.plan} spends the whole budget on the fit"
    elif options.checkpoint is not None:
        reason = "a fit with a checkpoint reads each row once"
    else:
        count, reason = _counter(options, rows, encoder)
    if count is None:
        if options.count_rows:
            raise ParameterError(f"--count-rows is not possible: {reason}.")
        return Planned(loaded or make(), reason=reason)
    whole = make(make=count)
    return Planned(whole.fit, whole)


def _counter(
    options: argparse.Namespace, rows: int, encoder: TableEncoder
) -> tuple[Callable[..., CountedPlan] | None, str]:
    """Return what plans a fit with a count: of entries too, of rows alone, or none and why."""
    from ..data.counts import PresentRows
    from ..row_counts import plan_count, plan_with_count
    from .request import budget

    for query in (PresentRows.encoded(encoder), PresentRows()):
        try:
            plan_count(budget(options, rows), n=rows, query=query)
        except AssumptionError:
            continue
        return partial(plan_with_count, query=query), ""
    return None, "so few rows, at this epsilon, would drown in the noise of a count"


def count_lines(planned: Planned, counted: RowCount | None) -> list[str]:
    """Return what is printed about the count, for the summary."""
    if counted is not None:
        return [str(counted)]
    return [f"rows were not counted: {planned.reason}"] if planned.reason else []


def alarm(counted: RowCount | None) -> str:
    """Return the warning of a count that is far too low; it follows from released numbers."""
    return f"{counted.warning} {_LOOK}" if counted is not None and counted.warning else ""


def count_record(counted: RowCount | None) -> dict[str, Any] | None:
    """Return the count as JSON values."""
    if counted is None:
        return None
    return {**counted.to_json(), "warning": alarm(counted) or None}


def rules(schema: Schema | None) -> list[str]:
    """Return what happens to entries outside a schema, without looking whether there are any."""
    from ..data.schema import Category, Number, NumberLabel

    if schema is None:
        return []
    found = []
    if any(isinstance(column, Number) for column in schema.encoded):
        found.append(
            "numbers outside their range are clipped to it; what is missing or no number counts as "
            "the schema's entry for missing ones"
        )
    lists = [column for column in schema.encoded if isinstance(column, Category)]
    if any(column.other for column in lists):
        found.append("categories that are not declared count as other, where the schema has that")
    if not all(column.other for column in lists):
        found.append("categories that are not declared, and have no other, count as missing")
    if isinstance(schema.label, NumberLabel):
        low, high = schema.label.low, schema.label.high
        found.append(f"labels outside [{low:g}, {high:g}] are clipped; rows without one left out")
    elif schema.label is not None:
        found.append("rows whose label is missing or not declared are left out")
    return found
