"""Time and memory of a round in a million columns: beside what nobody can leave out.

A round has to take one clipped sum and to draw the noise of its release. Both are timed beside the
whole round, in the same process: CPU seconds, the least of several. Memory is what rounds hold at
their peak beyond the table and its copy, in vectors of as many numbers as there are columns.

    python -m benchmarks.wide_rounds [--columns 1000000] [--rows 500000]

Rows have 20 entries of 1; the domain is an l1 ball. The one-pass methods read a tenth of the rows
in each round, the others all of them.
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

import dpsco as dp
from dpsco.data.queries import Query
from dpsco.data.source import Source
from dpsco.data.vertices import FadingScores, VertexScores
from dpsco.geometry import L2, LINF
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.randomness import Randomness, Stream
from dpsco.solvers import get
from dpsco.solvers.engine import Engine

BUDGET = dp.ApproxDP(1.0, 1e-6)
ENTRIES, RADIUS, ROUNDS = 20, 10.0, 10
MANY = 10**9  # rows of all sums: compiled loops serve
KEYS = {
    "noisy_gd": L2,
    "noisy_regularized_mirror_descent": L2,
    "noisy_sfw_lp": L2,
    "noisy_fw_gll": LINF,
    "poly_sfw": LINF,
}


def table(n: int, d: int, seed: int = 0) -> tuple[csr_matrix, np.ndarray]:
    """Return sparse rows and labels of -1 and 1."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, d, n * ENTRIES).astype(np.int32)
    offsets = np.arange(0, n * ENTRIES + 1, ENTRIES)
    X = csr_matrix((np.ones(n * ENTRIES), columns, offsets), shape=(n, d))
    return X, rng.choice([-1.0, 1.0], n)


def begun(
    key: str, X: csr_matrix, y: np.ndarray, source: Source | None = None
) -> tuple[Engine, Source]:
    """Return the run of a solver on an l1 ball, not yet begun, and its rows."""
    norm, (n, d) = KEYS[key], X.shape
    bounds = dp.Bounds(ENTRIES**0.5 if norm == L2 else 1.0, label="sign", norm=norm)
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=bounds, domain=dp.domains.L1Ball(RADIUS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = dp.plan(problem, n=n, d=d, budget=BUDGET, solver=key, options={"rounds": ROUNDS})
    ledger = Ledger(plan.releases(), BUDGET, randomness=Randomness.seeded(1))
    if source is None:
        source = dp.data.from_arrays(X, y).bounded(bounds, order="given")
        source.expect(MANY)
    return Engine(plan, get(key).stepper(plan), ledger), source


def timed(action: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Return the CPU time of one call, and what it returns."""
    started = time.process_time()
    result = action(*arguments)
    return time.process_time() - started, result


def cost(key: str, X: csr_matrix, y: np.ndarray) -> dict[str, float]:
    """Return least CPU seconds of the sum, of the noise and of the whole of a round."""
    engine, source = begun(key, X, y)
    stream, times = Randomness.seeded(2).child("noise"), []
    engine.step(source)  # the first one asks for less: there is no difference yet
    while not engine.finished:
        round, query = engine.next_round, engine.query()
        summed, total = timed(source.sum, query, *round.rows)
        noise, _ = timed(drawing(round.release, query), stream, scores(query, total))
        del query, total
        times.append((summed, noise, timed(engine.step, source)[0]))
    summed, noise, whole = np.min(times, axis=0)
    return {"sum": summed, "noise": noise, "round": whole, "ratio": whole / (summed + noise)}


def scores(query: Query, total: np.ndarray) -> np.ndarray:
    """Return what noise is added to: of fading rows the scores of their sum."""
    return query.scores.candidates.scores(total) if isinstance(query, FadingScores) else total


def drawing(release: Any, query: Query) -> Callable[[Stream, np.ndarray], object]:
    """Return what draws the noise of a release."""
    selects = isinstance(query, (VertexScores, FadingScores))
    drawn: Callable[[Stream, np.ndarray], object]
    drawn = release.draw_index if selects else release.draw_noisy
    return drawn


def vectors(key: str, X: csr_matrix, y: np.ndarray) -> float:
    """Return what rounds hold at most beyond the table and the run's own rows, in vectors."""
    begun(key, X, y)[0].step(begun(key, X, y)[1])  # whatever is made once is made now
    engine, source = begun(key, X, y)
    del engine  # made again, so that its own vectors are counted
    tracemalloc.start()
    engine, _ = begun(key, X, y, source)
    for _ in range(5):
        engine.step(source)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / (8 * X.shape[1])


def main() -> None:
    """Print a line for each solver."""
    os.environ.setdefault("DPSCO_COMPILED", "1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--keys", nargs="*", default=list(KEYS))
    options = parser.parse_args()
    X, y = table(options.rows, options.columns)
    for key in options.keys:
        times = cost(key, X, y)
        cells = "  ".join(f"{name} {value:.3f}" for name, value in times.items())
        print(f"{key:<34}{cells}  vectors {vectors(key, X, y):.1f}", flush=True)


if __name__ == "__main__":
    main()
