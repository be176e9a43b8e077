"""When an l1 ball pays: loss of sparse and l2 methods on rows whose truth is sparse, or not.

``python -m benchmarks.sparse_truth wins`` compares the default l1 fit with unconstrained descent
where ten columns matter; ``zero`` asks in every cell whether the default l1 fit or ``"auto"`` ends
worse than zero weights, or warns; ``real`` takes w8a and newsgroups from the folder that DPSCO_DATA
names; ``columns`` chooses columns first. ``--quick`` takes one seed and at most 1e5 columns; a full
``wins`` takes minutes, a full ``zero`` half an hour.

Rows have 20 ones in columns drawn with probability 1/rank (one that is hit twice counts once). Ten
of the 200 most common columns have weights of 3 and -3 in turn; labels follow the logistic model.
Losses are those of fresh rows, in units of the loss of zero weights (log 2).
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

import dpsco as dp
from dpsco.models.columns import plan_on_columns, run_on_columns
from dpsco.models.config import configure
from dpsco.privacy.randomness import Randomness

ONES, ACTIVE, COMMON, WEIGHT = 20, 10, 200, 3.0
RADIUS = ACTIVE * WEIGHT  # the right one
FRESH = 20_000


class Truth:
    """Rows with a sparse truth, for training and for testing."""

    def __init__(self, n: int, d: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.weights = np.zeros(d)
        active = rng.choice(min(COMMON, d), ACTIVE, replace=False)
        self.weights[active] = WEIGHT * np.where(np.arange(ACTIVE) % 2, 1.0, -1.0)
        self.X, self.y = self._draw(rng, n, d)
        self.fresh = self._draw(rng, FRESH, d)

    def _draw(self, rng: np.random.Generator, n: int, d: int) -> tuple[Any, np.ndarray]:
        shares = np.cumsum(1.0 / np.arange(1, d + 1))
        columns = np.searchsorted(shares / shares[-1], rng.random((n, ONES))).clip(0, d - 1)
        offsets = np.arange(0, n * ONES + 1, ONES)
        X = csr_matrix((np.ones(n * ONES), columns.ravel(), offsets), shape=(n, d))
        X.sum_duplicates()
        X.data[:] = 1.0
        odds = X @ self.weights
        return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-odds)), 1.0, -1.0)

    def loss(self, weights: np.ndarray) -> float:
        """Return the loss of fresh rows over that of zero weights."""
        return relative_loss(*self.fresh, weights)


def relative_loss(X: Any, y: np.ndarray, weights: np.ndarray, constant: float = 0.0) -> float:
    """Return the logistic loss over log 2."""
    return float(np.mean(np.logaddexp(0.0, -y * (X @ weights + constant))) / math.log(2.0))


def fit(
    X: Any, y: np.ndarray, epsilon: float, *, seed: int, domain: Any = None, **how: Any
) -> tuple[dp.Result, bool]:
    """Return a fit of the logistic loss without an intercept, and whether it warned."""
    settings = {} if domain is None else {"domain": domain}
    bounds = dp.Bounds(math.sqrt(ONES), label="sign")
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=bounds, **settings)
    budget, noise = dp.ApproxDP(epsilon, 1e-6), Randomness.seeded(seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = dp.solve(problem, (X, y), budget, randomness=noise, **how)
    return result, bool(caught)


def wins(seeds: int, most: float) -> None:
    """Print excess over the truth, in units of that of unconstrained descent."""
    print("n 20,000; excess over the truth / that of unconstrained descent: mean (range)")
    for d in (1000, 20_000, 200_000):
        for epsilon in (1.0, 4.0):
            if d > 2 * most:
                continue
            right, large, losses = [], [], []
            for seed in range(seeds):
                truth = Truth(20_000, d, seed)
                best = truth.loss(truth.weights)
                free, _ = fit(truth.X, truth.y, epsilon, seed=seed, solver="noisy_gd")
                reference = truth.loss(free.weights)
                row = [best, reference]
                for factor, into in ((1.0, right), (3.0, large)):
                    ball = dp.domains.L1Ball(factor * RADIUS)
                    result, _ = fit(
                        truth.X, truth.y, epsilon, seed=seed, domain=ball, solver="noisy_gd"
                    )
                    row.append(truth.loss(result.weights))
                    into.append((row[-1] - best) / (reference - best))
                losses.append(row)
            shown = " ".join(f"{loss:.3f}" for loss in np.mean(losses, axis=0))
            print(f"d {d:>7,} epsilon {epsilon:g}: {spread(right)}  x3 {spread(large)}  [{shown}]")


def spread(values: list[float]) -> str:
    """Return mean and range."""
    return f"{np.mean(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def zero(seeds: int, most: float) -> None:
    """Print the worst loss of each cell, and whether the worst one came with a warning."""
    print("worst loss of the seeds over that of zero weights; ! above 1.02 without a warning")
    for n in (5000, 20_000, 50_000):
        for d in (100, 1000, 10_000, 100_000, 1_000_000):
            if d > most:
                continue
            line = f"n {n:>6,} d {d:>9,}"
            for epsilon in (1.0, 4.0):
                outcomes: dict[str, list[tuple[float, bool]]] = {}
                for seed in range(seeds):
                    truth = Truth(n, d, seed)
                    for name, domain in (("l1", dp.domains.L1Ball(RADIUS)), ("auto", None)):
                        result, warned = fit(truth.X, truth.y, epsilon, seed=seed, domain=domain)
                        outcomes.setdefault(name, []).append((truth.loss(result.weights), warned))
                for name, values in outcomes.items():
                    loss, warned = max(values)
                    mark = "" if loss <= 1.02 else (" warned" if warned else " !")
                    line += f" | {name} {epsilon:g}: {loss:.3f}{mark}"
            print(line, flush=True)


def columns(seeds: int, most: float) -> None:
    """Print the loss of fits on ten and thirty columns that were chosen privately."""
    print("loss: truth | l1 ball | 10 columns first | 30 columns first")
    for n, d in ((20_000, 1000), (50_000, 10_000), (50_000, 100_000)):
        for epsilon in (1.0, 4.0):
            if d > most:
                continue
            rows = []
            for seed in range(seeds):
                truth = Truth(n, d, seed)
                ball = dp.domains.L1Ball(RADIUS)
                result, _ = fit(truth.X, truth.y, epsilon, seed=seed, domain=ball)
                every = [truth.weights, result.weights]
                every += [chosen(truth, epsilon, count, seed) for count in (ACTIVE, 3 * ACTIVE)]
                rows.append([truth.loss(weights) for weights in every])
            shown = " ".join(f"{loss:.3f}" for loss in np.mean(rows, axis=0))
            print(f"n {n:>6,} d {d:>7,} epsilon {epsilon:g}: {shown}", flush=True)


def chosen(truth: Truth, epsilon: float, count: int, seed: int) -> np.ndarray:
    """Return weights of all columns, of a fit on a few."""
    n, d = truth.X.shape
    config = configure(
        "sparse_logistic",
        feature_norm=math.sqrt(ONES),
        classes=[-1, 1],
        radius=RADIUS,
        intercept=False,
    )
    plan = plan_on_columns(config, count, n=n, d=d, budget=dp.ApproxDP(epsilon, 1e-6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = dp.data.from_arrays(truth.X, truth.y)
        result, which = run_on_columns(plan, table, randomness=Randomness.seeded(seed))
    weights = np.zeros(d)
    weights[which] = result.weights
    return weights


def real(seeds: int, most: float) -> None:
    """Print loss over that of the base rate, and AUC, of l1 methods beside l2 solvers."""
    from sklearn.metrics import roc_auc_score

    print("test loss / that of the base rate (AUC); rows of length 1 at most, means of seeds")
    for name in ("w8a", "newsgroups"):
        X, y = public(name)
        for epsilon in (1.0, 4.0):
            table: dict[str, list[tuple[float, float]]] = {}
            for seed in range(seeds):
                order = np.random.default_rng(seed).permutation(len(y))
                test, train = order[: len(y) // 5], order[len(y) // 5 :]
                rate = float(np.mean(y[test] > 0))
                base = -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate)) / math.log(2.0)
                for name_of_fit, estimator in methods(epsilon, seed).items():
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        estimator.fit(X[train], y[train])
                    scores = estimator.decision_function(X[test])
                    loss = float(np.mean(np.logaddexp(0.0, -y[test] * scores)) / math.log(2.0))
                    taken = f" ({estimator.plan_.solver})" if name_of_fit == "auto" else ""
                    area = float(roc_auc_score(y[test], scores))
                    table.setdefault(name_of_fit + taken, []).append((loss / base, area))
            for label, values in table.items():
                loss, auc = np.mean(values, axis=0)
                print(f"{name:<11} epsilon {epsilon:g}  {label:<36} {loss:.3f} ({auc:.3f})")


def methods(epsilon: float, seed: int) -> dict[str, Any]:
    """Return every method of the table of real rows."""
    common: dict[str, Any] = {"feature_norm": 1.0, "classes": [-1, 1], "epsilon": epsilon}
    common |= {"delta": 1e-6, "random_state": seed}
    kind = dp.PrivateLogisticRegression
    result = {"auto": kind(**common)}
    for solver in ("noisy_gd", "approx_objective_perturbation"):
        result[solver] = kind(solver=solver, **common)
    for radius in (30.0, 100.0, 300.0):
        result[f"l1 ball, radius {radius:g}"] = kind(penalty="l1", radius=radius, **common)
    ball = {"penalty": "l1", "radius": 100.0, **common}
    result["l1 ball 100, 30 columns first"] = kind(select_columns=30, **ball)
    return result


def public(name: str) -> tuple[Any, np.ndarray]:
    """Return rows of length 1 and labels of -1 and 1."""
    folder = Path(os.environ["DPSCO_DATA"])
    if name == "w8a":
        with np.load(folder / "w8a.npz") as file:
            values = np.ones(len(file["indices"]))
            X = csr_matrix((values, file["indices"], file["indptr"]), shape=file["shape"])
            y = file["y"].astype(float)
    else:
        with np.load(folder / "newsgroups20_hashed.npz") as file:
            values = np.log1p(file["data"].astype(float))
            X = csr_matrix((values, file["indices"], file["indptr"]), shape=file["shape"])
            computers = np.char.startswith(file["target_names"], "comp.")
            y = np.where(computers[file["y"]], 1.0, -1.0)
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(X.indptr))
    return X, y


def main() -> None:
    """Print the table that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    tables = {"wins": wins, "zero": zero, "columns": columns, "real": real}
    parser.add_argument("table", choices=tables)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed, at most 1e5 columns")
    options = parser.parse_args()
    seeds, most = (1, 1e5) if options.quick else (options.seeds, 1e6)
    tables[options.table](seeds, most)


if __name__ == "__main__":
    main()
