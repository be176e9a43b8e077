"""Default classifiers on made-up sparse rows of up to a million columns.

A row has 20 ones. Labels follow ten columns of weight 3 of either sign among the fifty most common
ones, where columns are as common as words are, 1/(rank + 10) ("words"), or ten of columns that are
equally common ("few"), which hardly any row holds where columns are many, or a coin ("none"). The
loss is that of fresh rows over the loss of zero weights, log 2: above 1, the fit is worse than
nothing. A fit is excused by a warning before anything is paid.

    python -m benchmarks.sparse_rows [--rows 5000,20000,50000] [--columns 100,...,1000000]
        [--eps 1,4] [--adj zero_out] [--truths words,few,none] [--draws 1]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import scipy.sparse as sp

import dpsco as dp

ONES, ACTIVE, WEIGHT = 20, 10, 3.0
TEST_ROWS = 5000
TRUTHS = ("words", "few", "none")
ALLOWED = 1.02


def rows(n: int, d: int, truth: str, rng: np.random.Generator) -> tuple[sp.csr_array, np.ndarray]:
    """Return rows of length 1 and classes 0 and 1."""
    if truth == "words":
        share = np.cumsum(1.0 / (np.arange(d) + 10.0))
        columns = np.searchsorted(share / share[-1], rng.random((n, ONES)))
    else:
        columns = rng.integers(0, d, (n, ONES))
    X = sp.csr_array((np.ones(n * ONES), columns.ravel(), np.arange(0, n * ONES + 1, ONES)), (n, d))
    X.sum_duplicates()
    weights = np.zeros(d)
    if truth != "none":  # of alternating sign, so that classes are balanced
        chosen = np.arange(ACTIVE) * (5 if truth == "words" else 1)
        weights[chosen] = WEIGHT * np.where(np.arange(ACTIVE) % 2, 1.0, -1.0)
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-(X @ weights)))
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1.0 / lengths) @ X), y.astype(float)


def cell(
    n: int, d: int, truth: str, eps: float, adjacency: str, seed: int
) -> tuple[float, bool, str]:
    """Return the loss over log 2, whether the plan or its outlook warned, and the solver."""
    X, y = rows(n + TEST_ROWS, d, truth, np.random.default_rng(seed))
    model = dp.PrivateLogisticRegression(
        feature_norm=1.0,
        epsilon=eps,
        delta=1 / n**2,
        adjacency=adjacency,
        classes=[0, 1],
        random_state=seed,
    )
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(X[:n], y[:n])
    right = model.predict_proba(X[n:])[np.arange(TEST_ROWS), y[n:].astype(int)]
    loss = -np.mean(np.log(np.clip(right, 1e-12, 1.0))) / np.log(2.0)
    warned = any(issubclass(each.category, dp.errors.AccuracyWarning) for each in heard)
    return float(loss), warned, model.plan_.solver


def main(
    sizes: list[int],
    widths: list[int],
    budgets: list[float],
    truths: list[str],
    adj: str,
    draws: int,
) -> None:
    """Print all cells; a star marks those above the allowed loss, an exclamation mark a warning."""
    print(f"loss over that of zero weights, {adj}, {draws} draws; !: warned; *: above {ALLOWED}")
    worst, missed = 0.0, 0
    for eps in budgets:
        for truth in truths:
            for n in sizes:
                print(f"eps {eps:<4g}{truth:<6}n {n:<8}", end="")
                for d in widths:
                    cells = [cell(n, d, truth, eps, adj, seed) for seed in range(draws)]
                    loss = float(np.mean([each[0] for each in cells]))
                    warned = all(each[1] for each in cells)
                    worst = max(worst, 0.0 if warned else loss)
                    missed += loss > ALLOWED and not warned
                    mark = ("!" if warned else "") + ("*" if loss > ALLOWED else "")
                    print(f"{loss:>9.3f}{mark:<3}", end="", flush=True)
                print()
    print(f"columns: {widths}; worst cell without a warning {worst:.3f}; missed {missed}")


def _numbers(text: str) -> list[float]:
    return [float(each) for each in text.split(",")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="5000,20000,50000")
    parser.add_argument("--columns", default="1e2,1e3,1e4,1e5,1e6")
    parser.add_argument("--eps", default="1,4")
    parser.add_argument("--adj", default="zero_out", choices=("zero_out", "replace_one"))
    parser.add_argument("--truths", default=",".join(TRUTHS))
    parser.add_argument("--draws", type=int, default=1)
    options = parser.parse_args()
    main(
        [int(each) for each in _numbers(options.rows)],
        [int(each) for each in _numbers(options.columns)],
        _numbers(options.eps),
        options.truths.split(","),
        options.adj,
        options.draws,
    )
