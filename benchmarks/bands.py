"""Calibrates outlooks: how much excess risk real tables measured, from the lines of bench-park.

    python -m benchmarks.bands park.jsonl [more.jsonl] [--folder FOLDER] [--write]

Reads fits by auto and the losses of the non-private model and of the constant; a file may have
shortened tables too (``--rows``). The form of `dpsco.fit.outlook` is fitted by least absolute
deviations of logarithms, every table with the same weight. The band is the 10th to 90th percentile
of what a table measured when it was left out of the fit, widened by 1 + 1/sqrt(tables), for tables
are few. What the best constant loses and what there is to learn of it are geometric means over
tables (the latter of two classes or numbers). All of it is checked twice: fitted to the half of the
tables that is for choosing and tried on the other, and fitted to all but one. The constants are
those of all tables; ``--write`` puts them into the module.
"""

from __future__ import annotations

import argparse
import math
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from dpsco.fit import outlook as module
from dpsco.fit.outlook import RESOLUTION, WEAK, Family, noise_ratio, share_lost

from .park.judge import read, task_of
from .park.tables import METRIC, Table, halves, load

FAMILIES = {"class": "CLASSES", "absolute": "BOUNDED", "squared": "SQUARED"}
CELLS, APART = 8, 1.5  # a solver's factor needs so many cells, and is told from 1 beyond this
WIDEST = 9.5  # a band of more says nothing; the middle of it is kept


@dataclass(frozen=True)
class Point:
    """One table, size, budget and method: means over splits and draws."""

    table: str
    half: str
    kind: str
    method: str
    whole: bool  # whether all of the table's rows were there
    classes: int  # 2 for numbers
    u: float
    excess: float  # in units of what zero weights lose
    constant: float  # likewise
    gap: float  # share of the constant's loss that the non-private model saves
    below: int  # fits that lose more than the constant
    fits: int

    @property
    def logged(self) -> float:
        """The logarithm of the excess; less than can be told from none counts as so much."""
        return math.log(max(self.excess, RESOLUTION))


def points(records: list[dict[str, Any]], folder: Path) -> list[Point]:
    """Return what the lines measured."""
    half_of = {name: half for half, part in halves(folder).items() for name in part}
    references: dict[tuple[Any, ...], float] = {}
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        table, rows, kind, method = (record.get(k) for k in ("table", "rows", "kind", "method"))
        loss = record.get(METRIC[kind])
        if loss is None or table not in half_of or not math.isfinite(loss):
            continue
        if method in ("constant", "not_private"):
            references[table, rows, kind, method, record["split"]] = loss
        elif method != "peer":
            groups[table, rows, kind, method, record["eps"], record["adj"]].append(record)
    results = []
    for (name, rows, kind, method, epsilon, adjacency), fits in groups.items():
        table = _table(folder, name)
        losses = []
        for fit in fits:
            where = (name, rows, kind)
            constant = references.get((*where, "constant", fit["split"]))
            best = references.get((*where, "not_private", fit["split"]))
            if constant is not None and best is not None:
                losses.append([fit[METRIC[kind]], constant, best])
        if not losses:
            continue
        task = task_of(table, kind, fits[0]["n"], epsilon, adjacency)
        array = _in_units(np.array(losses), kind, table) / task.constants.value_at_zero
        own, constants, best = array.T
        results.append(
            Point(
                name,
                half_of[name],
                kind,
                method,
                rows is None,
                max(table.classes, 2),
                noise_ratio(task),
                float(np.mean(own - best)),
                float(np.mean(constants)),
                float(1.0 - np.mean(best) / np.mean(constants)),
                int(np.sum(own > constants)),
                len(own),
            )
        )
    return results


@lru_cache(maxsize=64)
def _table(folder: Path, name: str) -> Table:
    table = load(folder / f"{name}.npz")
    return Table(name, table.X[:1], table.y[:1], table.classes, table.ends)  # without its rows


def _in_units(losses: np.ndarray, kind: str, table: Table) -> np.ndarray:
    """Return losses in the units that are minimised: labels scaled to [-1, 1], half the square."""
    if kind == "class":
        return losses
    scaled = losses / ((table.ends[1] - table.ends[0]) / 2)
    return scaled if kind == "absolute" else 0.5 * scaled**2


# -- fits ------------------------------------------------------------------------------------------


def weights_of(part: list[Point]) -> np.ndarray:
    """Return weights with the same sum for every table."""
    names = [point.table for point in part]
    return np.array([1.0 / names.count(name) for name in names])


def fit_form(part: list[Point]) -> tuple[float, float]:
    """Return middle and power."""
    u = np.log([point.u for point in part])
    measured = np.array([point.logged for point in part])
    weights = weights_of(part) / weights_of(part).sum()

    def cost(parameters: np.ndarray) -> float:
        log_v = parameters[1] * (u - parameters[0])
        expected = np.maximum(-np.logaddexp(0.0, -log_v), math.log(RESOLUTION))
        # A slight pull to a power of 1, the theory's, where few cells tell.
        return float(weights @ np.abs(measured - expected)) + 2e-3 * (parameters[1] - 1.0) ** 2

    starts = ([-2.0, 1.2], [-1.0, 1.0], [1.0, 0.8])
    fits = [
        minimize(cost, start, method="Nelder-Mead", options={"fatol": 1e-7}) for start in starts
    ]
    middle, power = min(fits, key=lambda fit: float(fit.fun)).x
    return math.exp(middle), float(power)


def residuals(part: list[Point], middle: float, power: float) -> np.ndarray:
    """Return measured over expected excess, as logarithms."""
    family = Family(middle, power, 1.0, 1.0, 1.0, 1.0)
    expected = [math.log(max(share_lost(family, point.u), RESOLUTION)) for point in part]
    return np.array([point.logged for point in part]) - np.array(expected)


def calibrate(part: list[Point]) -> Family:
    """Return the constants of a family from some tables."""
    middle, power = fit_form(part)
    names = sorted({point.table for point in part})
    low, high = band(*left_out(part), len(names))
    constant = _typical({name: _mean(part, name, "constant") for name in names})
    learnable = _typical(
        {name: _mean(part, name, "gap") for name in names if not _many(part, name)}
    )
    return Family(middle, power, math.exp(low), math.exp(high), constant, learnable)


def _mean(part: list[Point], name: str, field: str) -> float:
    """Return the mean of a number over a table's cells: those with all rows, if there are any."""
    own = [point for point in part if point.table == name]
    whole = [point for point in own if point.whole] or own
    return float(np.mean([getattr(point, field) for point in whole]))


def _many(part: list[Point], name: str) -> bool:
    return any(point.classes > 2 for point in part if point.table == name)


def _typical(shares: Mapping[str, float]) -> float:
    """Return the geometric mean over tables; next to nothing counts as 2 %."""
    return math.exp(float(np.mean(np.log(np.maximum(list(shares.values()), 0.02)))))


def left_out(part: list[Point]) -> tuple[np.ndarray, np.ndarray]:
    """Return the residuals of each table beside a fit to all others, and their weights."""
    errors: list[float] = []
    weights: list[float] = []
    for name in sorted({point.table for point in part}):
        rest = [point for point in part if point.table != name]
        own = [point for point in part if point.table == name]
        errors += list(residuals(own, *fit_form(rest))) if rest else [0.0] * len(own)
        weights += list(weights_of(own))
    return np.array(errors), np.array(weights)


def band(errors: np.ndarray, weights: np.ndarray, tables: int) -> tuple[float, float]:
    """Return where eight of ten errors lie, wider for few tables; at most `WIDEST` wide.

    Where that is too wide, the range of the greatest width allowed that holds most of the errors.
    """
    low, high = (_quantile(errors, weights, share) for share in (0.1, 0.9))
    wider = 1.0 + 1.0 / math.sqrt(tables)
    low, high = min(low, 0.0) * wider, max(high, 0.0) * wider
    widest = math.log(WIDEST)
    if high - low <= widest:
        return low, high
    starts = np.linspace(low, high - widest, 60)
    held = [weights[(errors >= start) & (errors <= start + widest)].sum() for start in starts]
    start = float(starts[int(np.argmax(held))])
    return start, start + widest


def _quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    order = np.argsort(values)
    sums = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(sums, share * sums[-1])])


def warned(point: Point, family: Family, *, known: bool) -> bool:
    """Return whether a fit is warned of, with the constant's loss known or typical."""
    constant, learnable = family.at_stake(point.classes, point.constant if known else None)
    return share_lost(family, point.u) >= min(WEAK * learnable, constant)


def alarms(part: list[Point], family: Family, *, known: bool) -> tuple[float, float]:
    """Return the shares of fits warned of: of those below the constant, of the others.

    Whole tables and shortened ones count alike, however many there are.
    """
    return warned_shares([(point, family) for point in part], known=known)


def warned_shares(pairs: list[tuple[Point, Family]], *, known: bool) -> tuple[float, float]:
    """Return the same for tables of several families."""
    marks = np.array([warned(point, family, known=known) for point, family in pairs], dtype=float)
    whole = np.array([point.whole for point, _ in pairs])
    fits = np.array([point.fits for point, _ in pairs], dtype=float)
    below = np.array([point.below for point, _ in pairs], dtype=float)
    for kind in (whole, ~whole):
        total = max(fits[kind].sum(), 1.0)
        below[kind] /= total
        fits[kind] /= total
    others = fits - below
    return (
        float(marks @ below / max(below.sum(), 1e-12)),
        float(marks @ others / max(others.sum(), 1e-12)),
    )


def covered(part: list[Point], family: Family) -> float:
    """Return the share of cells whose excess lies within the band."""
    inside = 0
    for point in part:
        expected = share_lost(family, point.u)
        low = family.low * expected if family.low * expected >= RESOLUTION else 0.0
        inside += low <= max(point.excess, 0.0) <= max(family.high * expected, RESOLUTION)
    return inside / max(len(part), 1)


def solver_factors(results: list[Point], families: Mapping[str, Family]) -> dict[str, float]:
    """Return how many times as much u each solver has than auto in the same cells, if many more."""
    shifts: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    for point in results:
        family = families[point.kind]
        share = min(max(point.excess, RESOLUTION), 0.98)
        log_u = math.log(share / (1.0 - share)) / family.power + math.log(family.middle)
        shifts[point.table, point.kind, point.u, point.whole][point.method] = log_u
    ratios: dict[str, list[float]] = defaultdict(list)
    for cell in shifts.values():
        for method in cell.keys() - {"auto"} if "auto" in cell else ():
            ratios[method].append(cell[method] - cell["auto"])
    factors = {
        key: round(math.exp(float(np.median(values))), 1)
        for key, values in sorted(ratios.items())
        if len(values) >= CELLS
    }
    return {key: factor for key, factor in factors.items() if factor >= APART}


# -- report ----------------------------------------------------------------------------------------


def lines_of(results: list[Point]) -> tuple[dict[str, Family], list[str]]:
    """Return the families by all tables, and how those by half of them did on the other half."""
    families, lines = {}, []
    pairs: dict[str, list[tuple[Point, Family]]] = defaultdict(list)
    for kind in METRIC:
        auto = [point for point in results if point.method == "auto" and point.kind == kind]
        choose = [point for point in auto if point.half == "choose"]
        if not choose:
            continue
        family, families[kind] = calibrate(choose), calibrate(auto)
        for point in auto:
            pairs[f"{kind} {point.half}"].append((point, family))
            pairs[f"all {point.half}"].append((point, family))
        lines.append(f"{kind}, by half of the tables: a band {family.high / family.low:.1f} wide")
        for name in sorted({point.table for point in auto}):
            own = [point for point in auto if point.table == name]
            others = calibrate([point for point in auto if point.table != name])
            pairs["all, each table left out"] += [(point, others) for point in own]
    for title, part in sorted(pairs.items(), key=lambda pair: pair[0].startswith("all")):
        for size, some in (("whole", True), ("shortened", False)):
            cells = [pair for pair in part if pair[0].whole is some]
            if cells:
                lines.append(f"{title}, {size}: {_said(cells)}")
    return families, lines


def _said(pairs: list[tuple[Point, Family]]) -> str:
    """Return how bands and warnings did, in words."""
    inside = np.mean([covered([point], family) for point, family in pairs])
    below = sum(point.below for point, _ in pairs)
    others = sum(point.fits for point, _ in pairs) - below
    rates = [warned_shares(pairs, known=known) for known in (False, True)]
    plain, fact = (f"{a:.0%} and {b:.0%}" for a, b in rates)
    return (
        f"{len(pairs)} cells, {inside:.0%} in the band; warned of {below} below the constant and "
        f"of {others} others: {plain}, with a public fact {fact}"
    )


def constants(families: Mapping[str, Family], solvers: Mapping[str, float]) -> dict[str, str]:
    """Return the lines of the module, by what they begin with."""
    text = {}
    for kind, family in families.items():
        numbers = ", ".join(f"{k}={v:.3g}" for k, v in family.__dict__.items())
        text[FAMILIES[kind]] = f"{FAMILIES[kind]} = Family({numbers})"
    if solvers:
        entries = "".join(f'    "{key}": {value:g},\n' for key, value in solvers.items())
        text["SOLVERS"] = f"SOLVERS: Mapping[str, float] = {{\n{entries}}}"
    return text


def write(text: Mapping[str, str]) -> None:
    """Put the constants into the module."""
    path = Path(str(module.__file__))
    source = path.read_text()
    for name, line in text.items():
        pattern = rf"^{name}\b.*?(?:\{{[^}}]*\}}|\))$"
        source = re.sub(pattern, lambda _, line=line: line, source, flags=re.M | re.S, count=1)
    path.write_text(source)


def main(arguments: list[str] | None = None) -> None:
    """Print the constants and how they do on the half that is for checking."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="+")
    parser.add_argument("--folder", type=Path, default=os.environ.get("DPSCO_PARK"))
    parser.add_argument("--write", action="store_true", help="put the constants into the module")
    options = parser.parse_args(arguments)
    if options.folder is None:
        parser.error("name the folder of tables with --folder, or set DPSCO_PARK")
    records = [record for path in options.file for record in read(path)]
    results = points(records, Path(options.folder))
    families, lines = lines_of(results)
    taken = {record.get("solver") for record in records if record.get("method") == "auto"}
    factors = solver_factors(results, families)
    text = constants(families, {k: v for k, v in factors.items() if k not in taken})
    print("\n".join([*text.values(), "", *lines]))
    if options.write:
        write(text)


if __name__ == "__main__":
    main()
