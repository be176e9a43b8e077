"""Solvers of heavy tails on tables: the paper's schedule, the practical default, and descent.

    python -m benchmarks.heavy_tails [--rows 20000] [--draws 2] [--epsilon 1] [--only KEY]

Tables are those of DPSCO_DATA (medical_insurance, bike_sharing, california_housing, diamonds) and
numbers with heavy tails in DPSCO_PARK. A cell is the test error over that of the best constant, the
median of some fits; above 1 a fit is worse than a constant, which is marked with ``*``. Zero
weights predict the middle of the labels' range, which may be far from the best constant. Practical
defaults fit in units that are found; the paper's schedules get the moment of the gradients at zero
weights for nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dpsco as dp

from . import tables as public
from .park.tables import load as load_park

PUBLIC = ("insurance", "bike", "california", "diamonds")
PARK = ("census2000", "cps1988", "flights", "randhie", "rwm5yr")
SMOOTH = ("noisy_gd", "acc_srgd", "clipped_acsa", "clipped_sgd_sc", "clipped_prox_sgd")
NONSMOOTH = (
    "noisy_gd",
    "clipped_reg_subgradient",
    "localized_clipped_subgradient",
    "localized_clipped_minibatch",
    "strongly_convex_localized",
)
RIDGE = 0.001  # for strong convexity, where it is needed
PAPER = ("clipped_acsa", "clipped_sgd_sc", "clipped_prox_sgd")


@dataclass(frozen=True)
class Rows:
    """Rows of norm at most 1 and labels in [-1, 1], to train on and to test on."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def rows(name: str, most: int, seed: int) -> Rows:
    """Return a table, split at random."""
    if name in PUBLIC:
        X, y = public.load(name)
        y = np.asarray(y, dtype=float)
    else:
        table = load_park(Path(os.environ["DPSCO_PARK"]) / f"{name}.npz")
        X, (low, high) = table.X, table.ends
        y = 2.0 * (table.y - low) / (high - low) - 1.0
    order = np.random.default_rng([seed, len(y)]).permutation(len(y))
    cut = min(int(0.8 * len(y)), most)
    train, test = order[:cut], order[cut : cut + 20_000]
    return Rows(name, X[train], y[train], X[test], y[test])


def error(predicted: np.ndarray, y: np.ndarray, *, smooth: bool) -> float:
    """Return the root of the mean square, or the mean absolute error, within the labels' range."""
    gap = np.clip(np.nan_to_num(predicted), -1.0, 1.0) - y
    return float(np.sqrt(np.mean(gap**2)) if smooth else np.mean(np.abs(gap)))


def practical(key: str, data: Rows, epsilon: float, *, smooth: bool, **options: object) -> float:
    """Return the error of a fit with the defaults, in units that are found."""
    kind = dp.PrivateLinearRegression if smooth else dp.PrivateAbsoluteRegressor
    ridge = RIDGE if key == "strongly_convex_localized" else 0.0
    model = kind(
        feature_norm=1.0, label_range=(-1.0, 1.0), epsilon=epsilon, delta=1e-6, solver=key,
        alpha=ridge, options=options or None,
    )  # fmt: skip
    return error(model.fit(data.X, data.y).predict(data.X_test), data.y_test, smooth=smooth)


def published(key: str, data: Rows, epsilon: float) -> float:
    """Return the error of the paper's schedule, given the second moment of the first gradients."""
    moment = float(np.sqrt(np.mean((np.linalg.norm(data.X, axis=1) * data.y) ** 2)))
    problem = dp.Problem(loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=1.0))
    options: dict[str, object] = {"schedule": "paper", "moment": moment}
    if key != "clipped_acsa":
        options["strong_convexity"] = 0.1
    budget = dp.ApproxDP(epsilon, 1e-6)
    result = dp.solve(problem, (data.X, data.y), budget, solver=key, options=options)
    return error(data.X_test @ result.weights, data.y_test, smooth=True)


def cell(fit: Callable[[Rows], float], data: list[Rows], *, smooth: bool) -> str:
    """Return the median ratio to the best constant, or why there is none."""
    ratios = []
    for each in data:
        best = np.mean(each.y) if smooth else np.median(each.y)
        constant = error(np.full(len(each.y_test), best), each.y_test, smooth=smooth)
        try:
            ratios.append(fit(each) / constant)
        except dp.errors.AssumptionError:
            return "refused"
    ratio = float(np.median(ratios))
    return f"{ratio:.3f}{'*' if ratio > 1.0 else ''}"


def lines(name: str, options: argparse.Namespace) -> dict[str, str]:
    """Return the cells of one table by solver."""
    data = [rows(name, options.rows, seed) for seed in range(options.draws)]
    results = {}
    for smooth, keys in ((True, SMOOTH), (False, NONSMOOTH)):

        def nothing(each: Rows, smooth: bool = smooth) -> float:
            return error(np.zeros(len(each.y_test)), each.y_test, smooth=smooth)

        zero = f"zero weights ({'squared' if smooth else 'absolute'})"
        results[zero] = cell(nothing, data, smooth=smooth)
        for key in keys:
            if options.only not in (None, key):
                continue
            label = f"{key} ({'squared' if smooth else 'absolute'})"

            def fit(each: Rows, key: str = key, smooth: bool = smooth) -> float:
                return practical(key, each, options.epsilon, smooth=smooth)

            results[label] = cell(fit, data, smooth=smooth)
            if key in PAPER:

                def paper(each: Rows, key: str = key) -> float:
                    return published(key, each, options.epsilon)

                results[f"{key}, paper"] = cell(paper, data, smooth=True)
    return results


def main() -> None:
    """Print a table: solvers down, tables across."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--only")
    parser.add_argument("--tables", type=lambda text: tuple(text.split(",")), default=())
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = options.tables or (*PUBLIC, *PARK)
    columns = {}
    for name in names:
        columns[name] = lines(name, options)
        print(name, columns[name], file=sys.stderr, flush=True)
    print("| solver | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for label in next(iter(columns.values())):
        print(f"| {label} | " + " | ".join(columns[name][label] for name in names) + " |")


if __name__ == "__main__":
    main()
