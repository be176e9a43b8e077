"""The registry as text that fits a terminal, and as JSON values."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from . import get, registry
from .base import BY_NAME, NOT_CALIBRATED, Solver

WIDTH = 100  # columns of a terminal
_TITLES = ("solver, paper", "algorithm, theorems", "setting, needs", "rounds, cost")
_WIDTHS = (32, 18, 30, 14)  # and two spaces between
_GAP = "  "


def records(key: str | None = None) -> list[dict[str, Any]]:
    """Return every solver, or the one of that key, as JSON values."""
    chosen = [get(key)] if key is not None else list(registry().values())
    return [solver.record() for solver in chosen]


def lines() -> list[tuple[str, str]]:
    """Return each solver's key with what it does, in a sentence."""
    return [(solver.key, solver.summary) for solver in registry().values()]


def table() -> str:
    """Return the registry as a table, a few lines for each solver."""
    rule = _GAP.join("-" * width for width in _WIDTHS)
    lines = [_line(_TITLES), rule]
    for solver in registry().values():
        lines += [*_rows(solver), ""]
    lines.append("`dpsco solvers KEY` says more about one of them.")
    return "\n".join(lines)


def page(key: str) -> str:
    """Return all that the registry says of one solver."""
    solver = get(key)
    record = solver.record()
    lines = [f"{key}: {record['summary']}"]
    for name in ("paper", "reference", "setting", "needs", "rounds", "cost"):
        lines += _field(name, record[name])
    lines += _field("measured", solver.factors or NOT_CALIBRATED)
    lines += _field("auto", _chosen(solver))
    return "\n".join([*lines, *_field("calibration", record["calibrations"]), *_options(record)])


def _chosen(solver: Solver) -> str:
    """Return for which tasks `auto` may take the solver."""
    if solver.range is not None:
        return str(solver.range)
    if solver.single_epoch is not None and solver.single_epoch.rank is not None:
        return "where rows come once"
    return BY_NAME


def _rows(solver: Solver) -> list[str]:
    """Return the lines of one solver: each cell is wrapped, the longest says how many."""
    needs = ", ".join(need.name for need in solver.needs)
    cells = (
        [solver.key, *_wrap(solver.paper, _WIDTHS[0]), *_marks(solver)],
        _wrap(solver.reference, _WIDTHS[1]),
        [*_wrap(solver.setting, _WIDTHS[2]), *_wrap(f"needs: {needs or 'nothing'}", _WIDTHS[2])],
        [*_wrap(solver.rounds, _WIDTHS[3]), *_wrap(solver.cost, _WIDTHS[3])],
    )
    height = max(map(len, cells))
    return [_line([cell[i] if i < len(cell) else "" for cell in cells]) for i in range(height)]


def _marks(solver: Solver) -> list[str]:
    """Return what a reader of the table should know of a solver beside its formulas."""
    return [] if solver.measured is not None else [f"({NOT_CALIBRATED})"]


def _line(cells: Sequence[str]) -> str:
    """Return cells side by side."""
    pairs = zip(cells, _WIDTHS, strict=True)
    return _GAP.join(cell.ljust(width) for cell, width in pairs).rstrip()


def _wrap(text: str, width: int) -> list[str]:
    """Return a text in lines; only words that are longer than a line are broken."""
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _field(name: str, value: str | list[str]) -> list[str]:
    """Return a named value in lines."""
    text = value if isinstance(value, str) else ", ".join(value) or "nothing"
    return textwrap.wrap(
        f"{name:<13}{text}",
        WIDTH,
        initial_indent="  ",
        subsequent_indent=" " * 15,
        break_on_hyphens=False,
    )


def _options(record: dict[str, Any]) -> list[str]:
    """Return the settings of the solver's own."""
    return _field("options", record["options"] or ["none"])
