"""The count of rows that a fit buys with a small part of its budget, and what is said of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import AssumptionError, ParameterError

if TYPE_CHECKING:
    from ..data.counts import PresentRows, RowCount
    from ..data.schema.encoder import TableEncoder
    from ..data.schema.schema import Schema
    from ..data.tables.table import Table
    from ..models.row_counts import CountedPlan
    from ..solvers.base import BasePlan, Result
    from .request import Request

_LOOK = "Look with `dpsco schema check SCHEMA SAMPLE --rows --public` at a public sample."


@dataclass(frozen=True)
class Planned:
    """The plan of a fit, with a count of the rows beside it or the reason why there is none."""

    fit: BasePlan
    whole: CountedPlan | None = None
    reason: str = ""  # why the rows are not counted, where nobody asked for that

    def lines(self) -> list[str]:
        """Return what the plan says about the count."""
        if self.whole is not None:
            return [f"  {self.whole.count}; the fit leaves room for it"]
        return [f"  rows are not counted: {self.reason}"] if self.reason else []

    def run(self, table: Table, run: Callable[..., Result], **how: Any) -> tuple[Result, Any]:
        """Carry it out; ``run`` does so without a count."""
        from ..models.row_counts import run_with_count

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
        help="spend a little of the budget, 1 %% at most, on a noisy count of the rows that have a "
        "usable label (default: where that says something)",
    )


def make_planned(
    options: argparse.Namespace,
    request: Request,
    rows: int,
    encoder: TableEncoder | None,
    *,
    loaded: BasePlan | None = None,
    one_pass: bool = False,
) -> Planned:
    """Return the plan of a fit, with a count unless it is not wanted or cannot be.

    Args:
        options: of the command.
        request: what is fitted.
        rows: how many there are.
        encoder: of the rows, where there is a schema.
        loaded: a plan that was made before; the count must find room in its budget.
        one_pass: whether the rows are read once, as by a fit with a checkpoint.

    Raises:
        ParameterError: a count is asked for, and there cannot be one.
    """
    from ..models.row_counts import count_beside, plan_with_count
    from .request import make_plan

    make = partial(make_plan, options, request, rows, one_pass=one_pass)
    if options.count_rows is False:
        return Planned(loaded or make())
    count = _counter(options, rows, encoder, loaded)
    whole, reason = None, "so few rows, at this epsilon, would drown in the noise of a count"
    if one_pass:
        reason = "a fit with a checkpoint reads each row once"
    elif count is not None and loaded is None:
        whole = make(make=partial(plan_with_count, query=count))
    elif count is not None and loaded is not None:
        whole = count_beside(loaded, count)
        reason = "the plan spends its whole budget on the fit"
    if whole is not None:
        return Planned(whole.fit, whole)
    if options.count_rows:
        raise ParameterError(f"--count-rows is not possible: {reason}.")
    return Planned(loaded or make(), reason=reason)


def _counter(
    options: argparse.Namespace, rows: int, encoder: TableEncoder | None, loaded: BasePlan | None
) -> PresentRows | None:
    """Return what can be counted: entries too, rows alone, or nothing."""
    from ..data.counts import PresentRows
    from ..models.row_counts import plan_count
    from .request import budget

    whole = budget(options, rows) if loaded is None else loaded.budget
    both = [] if encoder is None else [PresentRows.encoded(encoder)]
    for query in (*both, PresentRows()):
        try:
            plan_count(whole, n=rows, query=query)
        except AssumptionError:
            continue
        return query
    return None


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
    from ..data.schema.schema import Category, Number, NumberLabel

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
