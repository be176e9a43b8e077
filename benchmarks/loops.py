"""The loops over rows: sequential steps beside C, clipped sums beside matrix-vector products.

Run as ``python -m benchmarks.loops`` (``--large`` adds 1e6 rows of 1000 features, 8 GB). Times are
CPU seconds of one thread; the candidates take turns and the least of the rounds counts. The C
reference is compiled with gcc into a temporary directory; without gcc its column is absent.

Targets: sequential steps at most 1.3 times C; a clipped sum over a batch at most 1.5 times the two
products ``X @ w`` and ``c @ X`` of that batch, in the rows' own type (for float32 rows these add in
float32, which a sum that carries a guarantee must not). The column "in cache" takes the same
products leaf by leaf, where the second one finds its rows in the cache, as our sums do.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dpsco.kernels import compiler
from dpsco.kernels.rows import SparseRows
from dpsco.kernels.sgd import sgd_pass
from dpsco.kernels.slope import Slope
from dpsco.kernels.sums import SUM_LEAF, slope_difference_sum, slope_sum

Race = dict[str, Callable[[], object]]
FLAGS = ("-O3", "-march=native", "-ffast-math", "-funroll-loops", "-shared", "-fPIC")
C_TARGET, SUM_TARGET = 1.3, 1.5
ROUNDS = 7
STEP = 0.1


def logistic(margin: Any, label: Any, first: Any, second: Any) -> Any:
    return -label / (1.0 + np.exp(np.minimum(label * margin, 700.0)))


def hinge(margin: Any, label: Any, first: Any, second: Any) -> Any:
    return -label * (label * margin < 1.0)


def race(candidates: Race, rounds: int = ROUNDS) -> dict[str, float]:
    """Return the least CPU seconds of each candidate; they take turns."""
    for action in candidates.values():
        action()  # compile, and fill the caches
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds):
        for name, action in candidates.items():
            start = time.process_time()
            action()
            best[name] = min(best[name], time.process_time() - start)
    return best


def reference(folder: str) -> Any:
    """Compile the C reference; None without gcc."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    library = Path(folder) / "reference.so"
    source = Path(__file__).with_name("reference.c")
    subprocess.run([gcc, *FLAGS, str(source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def table(n: int, d: int, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Return random rows of norm about 1 and signs; filled in parts to spare memory."""
    rng = np.random.default_rng(0)
    X = np.empty((n, d), dtype=dtype)
    for start in range(0, n, 1 << 14):
        part = X[start : start + (1 << 14)]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32) / np.sqrt(d)
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0)


def passes(c: Any, sizes: tuple[tuple[int, int], ...], rounds: int) -> None:
    """Sequential steps, float64, logistic loss, ball of radius 1."""
    print(f"sequential steps, ns a step, least of {rounds} rounds")
    print(f"  {'n':>9}{'d':>6}{'X @ w':>9}{'C':>9}{'C apart':>9}{'compiled':>10}{'x best C':>10}")
    for n, d in sizes:
        X, y = table(n, d)
        start, out = np.zeros(d), np.empty(n)
        candidates: Race = {
            "X @ w": lambda X=X, w=start, out=out: np.dot(X, w, out=out),
            "compiled": lambda X=X, y=y, w=start: steps(X, y, w),
        }
        if c is not None:
            for name, function in (("C", c.sgd_pass), ("C apart", c.sgd_pass_apart)):
                candidates[name] = lambda f=function, X=X, y=y: c_pass(f, X, y, STEP, 1.0)
            np.testing.assert_allclose(candidates["C"](), steps(X, y, start), rtol=1e-7, atol=1e-9)
        found = {name: 1e9 * best / n for name, best in race(candidates, rounds).items()}
        best_c = min(found.get("C", np.nan), found.get("C apart", np.nan))
        line = "".join(f"{found.get(k, np.nan):9.1f}" for k in ("X @ w", "C", "C apart"))
        line += f"{found['compiled']:10.1f}" + verdict(found["compiled"] / best_c, C_TARGET)
        print(f"  {n:>9}{d:>6}{line}")


def steps(X: Any, y: Any, start: Any) -> tuple[Any, Any]:
    """Take the steps with the compiled loop."""
    with compiler.implementation(compiled=True):
        return sgd_pass(X, y, Slope(logistic), start, STEP, radius=1.0)


def c_pass(function: Any, X: Any, y: Any, step: float, radius: float) -> tuple[Any, Any]:
    """Take the steps with the C reference."""
    n, d = X.shape
    weights, total = np.zeros(d), np.zeros(d)
    pointer = lambda array: ctypes.c_void_p(array.ctypes.data)  # noqa: E731
    sizes = (ctypes.c_int64(n), ctypes.c_int64(d), ctypes.c_double(step), ctypes.c_double(radius))
    function(pointer(X), pointer(y), *sizes, pointer(weights), pointer(total))
    return weights, total


def dense_sums() -> None:
    """Clipped sums over dense rows in leaves, norms known, median clip."""
    print(f"clipped sums, dense, ns a row, leaves of {SUM_LEAF}, least of {ROUNDS} rounds")
    head = ("products", "in cache", "logistic", "hinge", "two-point", "NumPy")
    print(
        f"  {'type':<9}{'d':>5}"
        + "".join(f"{name:>10}" for name in head)
        + "  logistic, hinge ratio"
    )
    for dtype in (np.float64, np.float32):
        for n, d in ((1_000_000, 10), (1_000_000, 20), (400_000, 100), (40_000, 1000)):
            X, y = table(n // SUM_LEAF * SUM_LEAF, d, dtype)
            found = race(sum_candidates(X, y, d), ROUNDS)
            report_sums(f"  {np.dtype(dtype).name:<9}{d:>5}", head, found, len(X))


def sum_candidates(X: Any, y: Any, d: int) -> Race:
    """Return the two products and the sums over all leaves of dense rows."""
    rng = np.random.default_rng(1)
    norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64)) * (1 + 1e-6)
    w, v = rng.standard_normal(d), rng.standard_normal(d)
    narrow, c = w.astype(X.dtype), rng.standard_normal(len(X)).astype(X.dtype)
    parts = [slice(start, start + SUM_LEAF) for start in range(0, len(X), SUM_LEAF)]
    clip = 0.5

    def products() -> None:
        X @ narrow
        c @ X

    def in_cache() -> None:
        for part in parts:
            X[part] @ narrow
            c[part] @ X[part]

    def one(function: Any, compiled: bool) -> None:
        with compiler.implementation(compiled=compiled):
            for part in parts:
                slope_sum(X[part], y[part], norms[part], Slope(function), w, clip)

    def two() -> None:
        with compiler.implementation(compiled=True):
            for p in parts:
                slope_difference_sum(X[p], y[p], norms[p], Slope(logistic), w, v, 1.0, 0.5, clip)

    return {
        "products": products,
        "in cache": in_cache,
        "logistic": lambda: one(logistic, True),
        "hinge": lambda: one(hinge, True),
        "two-point": two,
        "NumPy": lambda: one(logistic, False),
    }


def sparse_sums() -> None:
    """Clipped sums over sparse rows in leaves, beside SciPy's two products."""
    print("clipped sums, sparse, ns a non-zero")
    head = ("products", "in cache", "logistic", "hinge", "two-point", "NumPy")
    print(f"  {'type':<9}{'d':>8}{'nnz':>5}" + "".join(f"{name:>10}" for name in head))
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(2)
    for dtype in (np.float64, np.float32):
        for n, d, nnz in ((40 * SUM_LEAF, 10_000, 20), (20 * SUM_LEAF, 100_000, 100)):
            columns = np.sort(rng.integers(0, d, (n, nnz)).astype(np.int32), axis=1).reshape(-1)
            values = (rng.standard_normal(n * nnz) / np.sqrt(nnz)).astype(dtype)
            rows = SparseRows(values, columns, np.arange(n + 1, dtype=np.int64) * nnz, d)
            y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
            norms = np.sqrt(np.square(values.astype(float)).reshape(n, nnz).sum(axis=1)) * 1.000001
            w, v, c = (rng.standard_normal(k) for k in (d, d, n))
            narrow, short = w.astype(dtype), c.astype(dtype)
            parts = [slice(start, start + SUM_LEAF) for start in range(0, n, SUM_LEAF)]
            leaves = [csr_matrix(rows[part].matrix()) for part in parts]
            whole = csr_matrix(rows.matrix())

            def products(whole=whole, w=narrow, c=short) -> None:
                whole @ w
                whole.T @ c

            def in_cache(leaves=leaves, parts=parts, w=narrow, c=short) -> None:
                for leaf, part in zip(leaves, parts, strict=True):
                    leaf @ w
                    leaf.T @ c[part]

            def one(function, compiled, rows=rows, y=y, norms=norms, w=w, parts=parts) -> None:
                with compiler.implementation(compiled=compiled):
                    for p in parts:
                        slope_sum(rows[p], y[p], norms[p], Slope(function), w, 0.5)

            def two(rows=rows, y=y, norms=norms, w=w, v=v, parts=parts) -> None:
                with compiler.implementation(compiled=True):
                    for p in parts:
                        slope_difference_sum(
                            rows[p], y[p], norms[p], Slope(logistic), w, v, 1.0, 0.5, 0.5
                        )

            found = race(
                {
                    "products": products,
                    "in cache": in_cache,
                    "logistic": lambda one=one: one(logistic, True),
                    "hinge": lambda one=one: one(hinge, True),
                    "two-point": two,
                    "NumPy": lambda one=one: one(logistic, False),
                }
            )
            report_sums(f"  {np.dtype(dtype).name:<9}{d:>8}{nnz:>5}", head, found, n * nnz)


def report_sums(label: str, head: tuple[str, ...], found: dict[str, float], count: int) -> None:
    cells = "".join(f"{1e9 * found[name] / count:10.2f}" for name in head)
    base = found["products"]
    print(
        label + cells + "".join(verdict(found[k] / base, SUM_TARGET) for k in ("logistic", "hinge"))
    )


def verdict(ratio: float, target: float) -> str:
    return f"{ratio:8.2f}{'' if not ratio > target else ' MISSED'}"


def starts() -> None:
    """Wall time of a fresh process with an empty and with a filled cache of machine code."""
    program = (
        "import time; import numpy as np; begin = time.perf_counter();"
        "from dpsco.kernels.sgd import sgd_pass; from dpsco.kernels.sums import slope_sum;"
        "from dpsco.kernels.slope import Slope; from benchmarks.loops import logistic;"
        "X = np.ones((9, 3)); y = np.ones(9); w = np.zeros(3);"
        "from dpsco.kernels.compiler import implementation;\n"
        "with implementation(compiled={}):\n"
        "    {}; print(time.perf_counter() - begin)"
    )
    jobs = {
        "sequential pass, NumPy": ("False", "sgd_pass(X, y, Slope(logistic), w, .1)"),
        "sequential pass": ("True", "sgd_pass(X, y, Slope(logistic), w, .1)"),
        "clipped sum": ("True", "slope_sum(X, y, y, Slope(logistic), w, 1.)"),
    }
    print("first call in a fresh process, wall seconds (imports of dpsco and Numba included)")
    print(f"  {'':<24}{'cold cache':>12}{'filled cache':>14}")
    for name, (compiled, call) in jobs.items():
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            times = []
            for _ in range(4):
                found = subprocess.run(
                    [sys.executable, "-c", program.format(compiled, call)],
                    env=environment,
                    check=True,
                    capture_output=True,
                    text=True,
                )
                times.append(float(found.stdout))
        print(f"  {name:<24}{times[0]:12.2f}{min(times[1:]):14.2f}")


def main() -> None:
    """Print the tables, in a process with one BLAS thread: NumPy reads the wish when it loads."""
    one = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "MKL", "OMP")}
    if any(os.environ.get(name) != "1" for name in one):
        command = [sys.executable, "-m", "benchmarks.loops", *sys.argv[1:]]
        subprocess.run(command, env={**os.environ, **one}, check=True)
        return
    if not compiler.available():
        print("The compiled loops are not available: Numba is absent or DPSCO_COMPILED=0.")
        return
    with tempfile.TemporaryDirectory() as folder:
        c = reference(folder)
        passes(c, ((1_000_000, 10), (1_000_000, 100), (250_000, 1000)), ROUNDS)
        if "--large" in sys.argv:
            passes(c, ((1_000_000, 1000),), 3)
    dense_sums()
    sparse_sums()
    starts()


if __name__ == "__main__":
    main()
