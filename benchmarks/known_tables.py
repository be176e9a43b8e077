"""Default fits on the public tables of `tables`: a record, and how it compares with an older one.

Log-loss of classes, root of the mean square and mean absolute error of labels within [-1, 1], on
20 % of the rows; epsilon 0.1, 1 and 8, delta 1/n^2, several splits and draws. Run it in an older
copy of the source for what is to be compared with.

    python -m benchmarks.known_tables run FILE [--splits 3] [--tables adult,bank]
    python -m benchmarks.known_tables compare OLD NEW
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import dpsco as dp

from . import tables

BUDGETS = (0.1, 1.0, 8.0)
DRAWS = {"insurance": 3, tables.DIGITS: 1}  # small tables differ by draw, large ones take long
KINDS = {"squared": dp.PrivateLinearRegression, "absolute": dp.PrivateAbsoluteRegressor}


def loss(name: str, kind: str, eps: float, split: int, draw: int) -> float:
    """Return the test loss of one fit."""
    X, y, X_test, y_test = tables.split(name, split)
    facts: dict[str, Any] = {
        "feature_norm": 1.0,
        "epsilon": eps,
        "delta": 1 / len(X) ** 2,
        "random_state": 1000 * split + draw,
    }
    if kind == "class":
        classes = sorted(set(tables.load(name)[1].tolist()))
        model = dp.PrivateLogisticRegression(classes=classes, **facts).fit(X, y)
        chances = model.predict_proba(X_test)
        right = chances[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)]
        return float(-np.mean(np.log(np.clip(right, 1e-12, 1.0))))
    fit = KINDS[kind](label_range=(-1.0, 1.0), **facts).fit(X, y)
    error = np.clip(fit.predict(X_test), -1.0, 1.0) - y_test
    if kind == "squared":
        return float(np.sqrt(np.mean(error**2)))
    return float(np.mean(np.abs(error)))


def run(path: Path, names: list[str], splits: int) -> None:
    """Write one line of JSON for each fit."""
    with path.open("w") as file:
        for name in names:
            for kind in ("class",) if tables.classes(name) else KINDS:
                for eps in BUDGETS:
                    for split in range(splits):
                        for draw in range(DRAWS.get(name, 2)):
                            value = loss(name, kind, eps, split, draw)
                            file.write(json.dumps([name, kind, eps, split, draw, value]) + "\n")
                            file.flush()


def compare(old: Path, new: Path) -> None:
    """Print the geometric mean of new over old, with its standard error over splits and draws."""
    records: list[dict[tuple[str, str, float], dict[tuple[int, int], float]]] = []
    for path in (old, new):
        cells: dict[tuple[str, str, float], dict[tuple[int, int], float]] = defaultdict(dict)
        for line in path.read_text().splitlines():
            name, kind, eps, split, draw, value, *_ = json.loads(line)
            cells[name, kind, eps][split, draw] = value
        records.append(cells)
    before, after = records
    print(f"{'table':<12}{'fit':<10}{'eps':>5}{'before':>9}{'now':>9}{'ratio':>8}{'+-':>7}")
    for cell in sorted(before.keys() & after.keys()):
        pairs = sorted(before[cell].keys() & after[cell].keys())
        logs = np.log([after[cell][pair] / before[cell][pair] for pair in pairs])
        means = [np.mean([record[cell][pair] for pair in pairs]) for record in records]
        deviation = logs.std(ddof=1) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
        print(
            f"{cell[0]:<12}{cell[1]:<10}{cell[2]:>5g}", *(f"{mean:>8.4f}" for mean in means), end=""
        )
        print(f"{math.exp(logs.mean()):>8.3f}{deviation:>7.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("file", type=Path)
    one.add_argument("--splits", type=int, default=3)
    one.add_argument("--tables", default=",".join((*tables.SPECS, tables.DIGITS)))
    two = commands.add_parser("compare")
    two.add_argument("old", type=Path)
    two.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        compare(options.old, options.new)
    elif not tables.available():
        raise SystemExit("set DPSCO_DATA to the folder of tables.")
    else:
        warnings.simplefilter("ignore")
        run(options.file, options.tables.split(","), options.splits)
