"""Fits that are told no bound, on tables whose columns are in other units, or hold wild rows.

The tables of $DPSCO_DATA, numbers as they are in the file and text as columns of 0 and 1. Their
columns are put into four kinds of units, and the same model is fitted with `bounds="auto"`:

    U0  standardised exactly, label as it is
    U1  all columns times 1000
    U2  each column times its own 10^U(-1, 1) and moved by N(0, 1) spreads, label times 100
    U3  likewise with 10^U(-1.5, 1.5) and 3 N(0, 1) spreads

An error is the root of the mean squared error on test rows over that of their mean: 1 says nothing
was learnt. Then a part of california's training rows, labels alike, is multiplied by up to 1e300.

    python -m benchmarks.raw_units [--seeds 5] [--eps 1] [--tables bike,california] [--wild]
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import dpsco as dp

from . import tables

TABLES = {
    "bike": ("bike_sharing", "cnt", ("instant", "dteday", "casual", "registered")),
    "california": ("california_housing", "median_house_value", ()),
    "diamonds": ("diamonds", "price", ()),
    "insurance": ("medical_insurance", "charges", ()),
}
UNITS = ("U0", "U1", "U2", "U3")
WILD = (1.0, 1e2, 1e4, 1e6, 1e300)
WILD_PART = 0.005
MODELS = {"squared": dp.PrivateLinearRegression, "huber": dp.PrivateHuberRegressor}

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return complete rows, standardised, and their labels."""
    import pandas as pd

    file, target, left_out = TABLES[name]
    frame = pd.read_parquet(Path(os.environ["DPSCO_DATA"]) / f"{file}.parquet").dropna()
    y = frame[target].to_numpy(dtype=float)
    X = pd.get_dummies(frame.drop(columns=[target, *left_out])).to_numpy(dtype=float)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def in_units(X: np.ndarray, y: np.ndarray, units: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the same table in other units."""
    if units == "U0":
        return X, y
    if units == "U1":
        return 1e3 * X, y
    rng = np.random.default_rng(1000 + seed)
    decades, shift = (1.0, 1.0) if units == "U2" else (1.5, 3.0)
    factors = 10.0 ** rng.uniform(-decades, decades, X.shape[1])
    return (X + shift * rng.standard_normal(X.shape[1])) * factors, 100.0 * y


def split(X: np.ndarray, y: np.ndarray, seed: int) -> Split:
    """Return training and test rows: 80 % and 20 %."""
    order = np.random.default_rng(seed).permutation(len(X))
    cut = int(0.8 * len(X))
    return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]


def error(predicted: np.ndarray, y: np.ndarray) -> float:
    """Return the error relative to that of the mean."""
    return float(np.sqrt(np.mean((predicted - y) ** 2)) / y.std())


def private_error(rows: Split, model: str, eps: float, seed: int) -> float:
    """Return the error of a fit that is told no bound."""
    X, y, X_test, y_test = rows
    fit = MODELS[model](epsilon=eps, delta=1 / len(X) ** 2, random_state=seed).fit(X, y)
    return error(fit.predict(X_test), y_test)


def least_squares(rows: Split) -> float:
    """Return the error of least squares without privacy."""
    X, y, X_test, y_test = (np.c_[a, np.ones(len(a))] if a.ndim == 2 else a for a in rows)
    return error(X_test @ np.linalg.lstsq(X, y, rcond=None)[0], y_test)


def wild(rows: Split, factor: float, seed: int) -> Split:
    """Return the rows with a few of the training ones multiplied, labels alike."""
    X, y, X_test, y_test = rows
    chosen = np.random.default_rng(2000 + seed).random(len(X)) < WILD_PART
    X, y = X.copy(), y.copy()
    X[chosen] *= factor
    y[chosen] *= factor
    return X, y, X_test, y_test


def unit_errors(name: str, eps: float, seeds: int) -> Iterator[tuple[str, np.ndarray, float]]:
    """Yield each model's mean error in each of the units, and that of least squares."""
    X, y = load(name)
    splits = [split(X, y, seed) for seed in range(seeds)]
    best = float(np.mean([least_squares(rows) for rows in splits]))
    for model in MODELS:
        errors = [
            [
                private_error(split(*in_units(X, y, units, seed), seed), model, eps, 31 * seed + k)
                for seed in range(seeds)
            ]
            for k, units in enumerate(UNITS)
        ]
        yield model, np.mean(errors, axis=1), best


def wild_errors(eps: float, seeds: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each model's mean error on california with wild rows of each factor."""
    X, y = load("california")
    for model in MODELS:
        errors = [
            [
                private_error(wild(split(X, y, seed), factor, seed), model, eps, 31 * seed + 7)
                for seed in range(seeds)
            ]
            for factor in WILD
        ]
        yield model, np.mean(errors, axis=1)


def main(names: list[str], eps: float, seeds: int, also_wild: bool) -> None:
    """Print both tables."""
    print(f"epsilon {eps:g}, {seeds} splits; error relative to the mean of the test labels")
    print(f"{'table':<12}{'model':<9}", *(f"{units:>7}" for units in UNITS), end="")
    print(f"{'max/min':>9}{'least squares':>15}{'worst / it':>12}")
    for name in names:
        for model, errors, best in unit_errors(name, eps, seeds):
            print(f"{name:<12}{model:<9}", *(f"{each:>7.3f}" for each in errors), end="")
            print(f"{errors.max() / errors.min():>9.3f}{best:>15.3f}{errors.max() / best:>12.3f}")
    if also_wild:
        print(f"\ncalifornia, {100 * WILD_PART:g} % of the rows multiplied, labels alike")
        print(f"{'model':<9}", *(f"{factor:>8.0e}" for factor in WILD), f"{'max/min':>9}")
        for model, errors in wild_errors(eps, seeds):
            spread = errors.max() / errors.min()
            print(f"{model:<9}", *(f"{each:>8.3f}" for each in errors), f"{spread:>9.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--eps", type=float, default=1.0)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--wild", action="store_true", help="wild rows too")
    options = parser.parse_args()
    if not tables.available():
        raise SystemExit("set DPSCO_DATA to the folder of tables.")
    warnings.simplefilter("ignore")
    main(options.tables.split(","), options.eps, options.seeds, options.wild)
