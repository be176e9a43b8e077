"""One pass over rows that come once, beside the two products that it cannot do without.

Run as ``python -m benchmarks.one_pass`` (``--small`` takes a tenth of the rows). The pass is what
solvers of one epoch do: 32 consecutive ranges of 1e7 rows of 50 float32 features, in each the sum
of clipped differences of logistic gradients at two points. Beside it stand NumPy's ``X @ w`` and
``X.T @ r`` in float32 over the same rows, with the threads that NumPy takes. Wall time; the
candidates take turns, after a pause in which NumPy's threads fall asleep, and medians are compared.

The rows come from `from_batches` in chunks that share the array's memory, and are clipped on their
way; or they are within their bounds already, in memory.

Target: the pass over an iterator in chunks of 100 000 rows, clipping included, takes at most 3
times the two products, and so does the one in memory. Small chunks, beside them, take longer.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpsco.data import Bounds, ClippedDifference, from_arrays, from_batches
from dpsco.data.source import Source
from dpsco.kernels import compiler
from dpsco.losses import Logistic

from .loops import table

ROWS, FEATURES, RANGES = 10_000_000, 50, 32
CHUNK = 100_000
ROUNDS = 5
JOB_ROWS = 10**9  # so many that compiled loops pay: they are what is measured
TARGET = 3.0
PAUSE = 0.3  # seconds; threads of a product before would take a core from the next candidate
BOUNDS = Bounds(1.0, label="sign")
PRODUCTS = "X @ w and X.T @ r"
SMALL_CHUNKS = "iterator, chunks of 10 000"


def one_pass(source: Source) -> None:
    """Take the sums of all ranges, at points that change from one to the next."""
    rng = np.random.default_rng(1)
    before = np.zeros(source.d)
    source.expect(JOB_ROWS, points=2)
    for t in range(RANGES):
        point = before + 0.1 * rng.standard_normal(source.d)
        query = ClippedDifference(Logistic(), point, before, t + 1.0, float(t), 1.0)
        ends = (t * source.n // RANGES, (t + 1) * source.n // RANGES)
        source.sum(query, *ends)
        before = point


def streamed(X: Any, y: Any, chunk: int = CHUNK) -> Source:
    """Return the rows as an iterator's."""

    def chunks() -> Iterator[tuple[Any, Any]]:
        for start in range(0, len(X), chunk):
            yield X[start : start + chunk], y[start : start + chunk]

    made = from_batches(chunks(), n=len(X), d=X.shape[1], dtype=X.dtype)
    return made.bounded(BOUNDS, order="given")


def products(X: Any) -> None:
    """Read the rows twice, as a solver without privacy would."""
    ones = np.ones(X.shape[1], dtype=X.dtype)
    X.T @ (X @ ones)


def measure(candidates: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Return the wall seconds of each round; the candidates take turns."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for action in candidates.values():
        action()  # compile, and touch the memory
    for _ in range(rounds):
        for name, action in candidates.items():
            time.sleep(PAUSE)
            started = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - started)
    return times


def report(times: dict[str, list[float]], n: int) -> bool:
    """Print nanoseconds a row, and ratios to the products; return whether the target is met."""
    met = True
    print(f"one pass, {n} x {FEATURES} float32, {RANGES} ranges: wall ns a row, {ROUNDS} rounds")
    print(f"  {'':<36}{'median':>9}{'least':>9}{'most':>9}{'ratio':>9}")
    base = statistics.median(times[PRODUCTS])
    for name, found in times.items():
        middle = statistics.median(found)
        cells = "".join(f"{1e9 * value / n:9.1f}" for value in (middle, min(found), max(found)))
        missed = middle > TARGET * base and name != SMALL_CHUNKS
        print(f"  {name:<36}{cells}{middle / base:9.2f}{' MISSED' if missed else ''}")
        met &= not missed
    return met


def main() -> int:
    """Print the table, return the exit code; the rows take 2 GB, their private copy as much."""
    if not compiler.available():
        print("The compiled loops are not available: Numba is absent or DPSCO_COMPILED=0.")
        return 0
    n = ROWS // 10 if "--small" in sys.argv else ROWS
    X, y = table(n, FEATURES, np.float32)
    times = measure(
        {
            PRODUCTS: lambda: products(X),
            "iterator, clipped on the way": lambda: one_pass(streamed(X, y)),
            SMALL_CHUNKS: lambda: one_pass(streamed(X, y, 10_000)),
        },
        ROUNDS,
    )
    inside = from_arrays(X, y).bounded(BOUNDS, order="given")
    times["in memory, clipped before"] = measure({"": lambda: one_pass(inside)}, ROUNDS)[""]
    return 0 if report(times, n) else 1


if __name__ == "__main__":
    sys.exit(main())
