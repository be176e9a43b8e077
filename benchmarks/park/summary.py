"""What the lines of `judge` say: one row for each kind of fit and epsilon.

A cell is a table, a kind of fit, an epsilon and an adjacency; its loss is the mean over splits and
draws. Two methods are compared by a one-sided paired t-test of their log losses over splits and
draws, at 5 %: with no difference one cell in twenty is called significantly worse.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .tables import METRIC

LEVEL = 0.05  # of the test
LEARNABLE = 0.01  # of the constant's loss: a smaller gap to the non-private model is no gap
WORST = 12  # cells that are listed

Cell = tuple[str, Any, str, float, str]  # table, rows, kind, epsilon, adjacency
Draws = dict[tuple[int, int], float]  # loss by (split, draw)


@dataclass
class Results:
    """The losses of a file."""

    cells: dict[Cell, dict[str, Draws]]
    references: dict[tuple[str, Any, str, str], dict[int, float]]  # by split
    warned: dict[tuple[Cell, int, int], bool]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], tables: Iterable[str] | None) -> Results:
        """Sort the lines, those of some tables alone if such are named."""
        names = None if tables is None else set(tables)
        cells: dict[Cell, dict[str, Draws]] = defaultdict(lambda: defaultdict(dict))
        references: dict[tuple[str, Any, str, str], dict[int, float]] = defaultdict(dict)
        warned: dict[tuple[Cell, int, int], bool] = {}
        for record in records:
            loss = record.get(METRIC[record["kind"]])
            if loss is None or (names is not None and record["table"] not in names):
                continue
            where = (record["table"], record.get("rows"), record["kind"])
            if record["method"] in ("not_private", "constant"):
                references[(*where, record["method"])][record["split"]] = loss
                continue
            cell = (*where, float(record["eps"]), record["adj"])
            place = (record["split"], record["draw"])
            cells[cell][record["method"]][place] = loss if math.isfinite(loss) else 1e9
            if record["method"] == "auto" and "warned" in record:
                warned[(cell, *place)] = record["warned"]
        return cls(dict(cells), dict(references), warned)

    def reference(self, cell: Cell, method: str, split: int) -> float:
        """Return what the constant or the non-private model loses."""
        return self.references.get((*cell[:3], method), {}).get(split, math.nan)


@dataclass(frozen=True)
class Comparison:
    """One method beside another in one cell."""

    ratio: float  # of mean losses
    worse: bool  # significantly
    better: bool


def compare(ours: Draws, other: Draws) -> Comparison | None:
    """Return how two methods compare over the splits and draws that both have."""
    from scipy.stats import t as student

    places = sorted(set(ours) & set(other))
    if not places:
        return None
    first = np.maximum([ours[place] for place in places], 1e-12)
    second = np.maximum([other[place] for place in places], 1e-12)
    logs = np.log(first / second)
    ratio = float(np.mean(first) / np.mean(second))
    if len(places) < 2 or np.ptp(logs) == 0.0:
        return Comparison(ratio, False, False)
    score = float(np.mean(logs) / (np.std(logs, ddof=1) / math.sqrt(len(logs))))
    limit = float(student.ppf(1.0 - LEVEL, len(logs) - 1))
    return Comparison(ratio, score > limit, score < -limit)


@dataclass(frozen=True)
class Row:
    """What is said of one kind of fit at one epsilon; None where a file has nothing about it."""

    kind: str
    epsilon: float
    cells: int
    before: float | None  # geometric mean of the loss over that of the reference file
    peer: float | None  # the same over that of the peer
    worse: int  # cells significantly worse than the peer
    compared: int  # cells with a peer
    below: float | None  # share of fits that lose more than the constant
    below_before: float | None  # the same in the reference file
    regret: tuple[float, float] | None  # to the best solver: median and 90th percentile, of loss
    lost: float | None  # median share of the learnable gap


HEAD = (
    "fit",
    "epsilon",
    "cells",
    "loss / before",
    "loss / peer",
    "worse than peer",
    "below constant (before)",
    "regret: median, 90 %",
    "gap lost",
)


def rows(results: Results, reference: Results | None) -> list[Row]:
    """Return the rows of the table."""
    groups: dict[tuple[str, float], list[Cell]] = defaultdict(list)
    for cell, methods in sorted(results.cells.items(), key=lambda item: str(item[0])):
        if "auto" in methods:
            groups[cell[2], cell[3]].append(cell)
    order = list(METRIC)
    keys = sorted(groups, key=lambda key: (order.index(key[0]), key[1]))
    return [_row(results, reference, *key, groups[key]) for key in keys]


def _row(
    results: Results, reference: Results | None, kind: str, epsilon: float, cells: list[Cell]
) -> Row:
    beside = [compare(results.cells[c]["auto"], results.cells[c].get("peer", {})) for c in cells]
    peers = [each for each in beside if each is not None]
    earlier = [_before(results, reference, cell) for cell in cells]
    before = [each for each in earlier if each is not None]
    regrets = [
        each for each in (_regret(results.cells[cell]) for cell in cells) if each is not None
    ]
    lost = [each for each in (_lost(results, cell) for cell in cells) if each is not None]
    return Row(
        kind,
        epsilon,
        len(cells),
        _geometric([each.ratio for each in before]),
        _geometric([each.ratio for each in peers]),
        sum(each.worse for each in peers),
        len(peers),
        _below(results, results, cells),
        None if reference is None else _below(reference, results, cells),
        (float(np.median(regrets)), float(np.quantile(regrets, 0.9))) if regrets else None,
        float(np.median(lost)) if lost else None,
    )


def _geometric(ratios: list[float]) -> float | None:
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else None


def _before(results: Results, reference: Results | None, cell: Cell) -> Comparison | None:
    if reference is None:
        return None
    return compare(results.cells[cell]["auto"], reference.cells.get(cell, {}).get("auto", {}))


def _below(results: Results, constants: Results, cells: list[Cell]) -> float | None:
    """Return the share of fits that lose more than the constant of their split."""
    worse = [
        loss > constants.reference(cell, "constant", split)
        for cell in cells
        for (split, _), loss in results.cells.get(cell, {}).get("auto", {}).items()
        if math.isfinite(constants.reference(cell, "constant", split))
    ]
    return float(np.mean(worse)) if worse else None


def _regret(methods: Mapping[str, Draws]) -> float | None:
    """Return how much more auto loses than the best solver of the cell, as a share of the loss."""
    solvers = {name: np.mean(list(d.values())) for name, d in methods.items() if name != "peer"}
    if len(solvers) < 2:
        return None
    return float(solvers["auto"] / min(solvers.values()) - 1.0)


def _lost(results: Results, cell: Cell) -> float | None:
    """Return which share of the gap between constant and non-private model auto loses."""
    draws = results.cells[cell]["auto"]
    split = [place[0] for place in draws]
    best = float(np.mean([results.reference(cell, "not_private", each) for each in split]))
    constant = float(np.mean([results.reference(cell, "constant", each) for each in split]))
    if not constant - best > LEARNABLE * constant:
        return None
    return float((np.mean(list(draws.values())) - best) / (constant - best))


def markdown(lines: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    table = [f"| {' | '.join(HEAD)} |", f"|{'---|' * len(HEAD)}"]
    for row in lines:
        below = _percent(row.below)
        if row.below_before is not None:
            below += f" ({_percent(row.below_before)})"
        entries = [
            row.kind,
            f"{row.epsilon:g}",
            str(row.cells),
            _number(row.before),
            _number(row.peer),
            f"{row.worse} of {row.compared}" if row.compared else "-",
            below,
            "-" if row.regret is None else ", ".join(map(_percent, row.regret)),
            _percent(row.lost),
        ]
        table.append(f"| {' | '.join(entries)} |")
    return "\n".join(table)


def worst(results: Results, reference: Results | None, count: int = WORST) -> list[str]:
    """Return what we lose first: to the peer, to another solver, to the reference file."""
    lines = []
    rankings: list[tuple[str, list[tuple[float, str]]]] = [
        ("against the peer (loss ratio; * significant)", []),
        ("against our own best solver (loss ratio)", []),
        ("against the reference file, significantly above 1.05", []),
    ]
    for cell, methods in results.cells.items():
        if "auto" not in methods:
            continue
        name = " ".join(str(part) for part in cell if part is not None)
        peer = compare(methods["auto"], methods.get("peer", {}))
        if peer is not None and peer.ratio > 1.0:
            rankings[0][1].append((peer.ratio, f"{name} {'*' if peer.worse else ''}"))
        regret = _regret(methods)
        if regret:
            means = {
                each: np.mean(list(d.values())) for each, d in methods.items() if each != "peer"
            }
            rankings[1][1].append((1.0 + regret, f"{name}: {min(means, key=means.get)}"))
        before = _before(results, reference, cell)
        if before is not None and before.ratio > 1.05 and before.worse:
            rankings[2][1].append((before.ratio, name))
    for title, cells in rankings:
        if cells:
            lines.append(f"what we lose first {title}: {len(cells)} cells")
            lines += [f"  {ratio:.3f} {name}" for ratio, name in sorted(cells)[: -count - 1 : -1]]
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"
