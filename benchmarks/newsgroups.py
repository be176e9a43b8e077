"""Text in 32,768 hashed columns: `auto` beside the two solvers that it could take.

Posts of $DPSCO_DATA/newsgroups20_hashed.npz, log(1 + count) of each word, rows of length 1; the
tasks are "comp.* or not", "rec.*" and "sci.*". 80 % of the posts train, delta is 1/n^2.

    python -m benchmarks.newsgroups [--splits 3] [--adj zero_out]
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import dpsco as dp

from . import tables

TASKS = ("comp", "rec", "sci")
BUDGETS = (1.0, 4.0, 16.0)
SOLVERS = ("auto", "noisy_gd", "approx_objective_perturbation")


def load() -> tuple[sp.csr_array, dict[str, np.ndarray]]:
    """Return the rows, and the classes 0 and 1 of each task."""
    path = Path(os.environ["DPSCO_DATA"]) / "newsgroups20_hashed.npz"
    with np.load(path, allow_pickle=True) as file:
        counts, names = file["data"].astype(float), [str(name) for name in file["target_names"]]
        parts = np.log1p(counts), file["indices"], file["indptr"]
        X, y = sp.csr_array(parts, shape=tuple(file["shape"])), file["y"]
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sp.csr_array(sp.diags_array(1.0 / np.maximum(lengths, 1e-12)) @ X)
    groups = {task: np.array([name.startswith(task) for name in names]) for task in TASKS}
    return X, {task: chosen[y].astype(float) for task, chosen in groups.items()}


def accuracy(
    X: sp.csr_array, y: np.ndarray, solver: str, eps: float, adjacency: str, seed: int
) -> float:
    """Return the share of test posts that a fit classes rightly."""
    order = np.random.default_rng(seed).permutation(len(y))
    n = int(0.8 * len(y))
    model = dp.PrivateLogisticRegression(
        feature_norm=1.0,
        epsilon=eps,
        delta=1 / n**2,
        adjacency=adjacency,
        classes=[0, 1],
        solver=solver,
        random_state=seed,
    )
    model.fit(X[order[:n]], y[order[:n]])
    return float(np.mean(model.predict(X[order[n:]]) == y[order[n:]]))


def main(splits: int, adjacency: str) -> None:
    """Print the mean accuracy of each."""
    X, labels = load()
    print(f"accuracy in %, {adjacency}, {splits} splits; behind: of auto to the better of the two")
    print(f"{'task':<6}{'constant':>9}{'eps':>5}", *(f"{key[:8]:>10}" for key in SOLVERS), "behind")
    for task, y in labels.items():
        for eps in BUDGETS:
            means = [
                100 * np.mean([accuracy(X, y, key, eps, adjacency, k) for k in range(splits)])
                for key in SOLVERS
            ]
            constant = 100 * max(y.mean(), 1 - y.mean())
            print(
                f"{task:<6}{constant:>9.1f}{eps:>5g}", *(f"{mean:>10.1f}" for mean in means), end=""
            )
            print(f"{max(means[1:]) - means[0]:>7.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--adj", default="zero_out", choices=("zero_out", "replace_one"))
    options = parser.parse_args()
    if not tables.available():
        raise SystemExit("set DPSCO_DATA to the folder of tables.")
    warnings.simplefilter("ignore")
    main(options.splits, options.adj)
