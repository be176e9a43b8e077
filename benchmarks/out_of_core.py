"""Fits on more rows than workers have memory for: the time that 1e6 rows predict, and the peak.

Run as ``python -m benchmarks.out_of_core [ROWS]``; 1e8 rows of 20 float32 features and a label, in
Parquet files of 9 GB in a temporary folder (set TMPDIR to choose the disk), which is removed. Two
worker processes may address 1 GiB each (RLIMIT_AS). A fit of three rounds is timed at 1e6 rows and
at 1e4; the line through both predicts the large one. Seconds of the clock depend on what else the
machine does, those of the processor hardly.

What a process may address is more than what it uses: allocators reserve ranges for each thread. So
workers get Arrow's plain allocator and one arena, which is slower by little.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from .cluster import FEATURES, GROUP

ROWS, FEW, BASE = 100_000_000, 10_000, 1_000_000
FILE_ROWS = 50 * GROUP
LIMIT = 1 << 30  # bytes that a worker may address
ROUNDS, WORKERS = 3, 2
FRUGAL = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def generate(folder: Path, rows: int) -> None:
    """Write files; row groups take turns among a few, which no reader notices."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    rng = np.random.default_rng(0)
    names = [*(f"x{k}" for k in range(FEATURES)), "y"]
    groups = []
    for _ in range(4):
        columns = [rng.standard_normal(GROUP, dtype=np.float32) for _ in range(FEATURES)]
        columns.append(np.where(rng.random(GROUP) < 0.5, -1, 1).astype(np.float32))
        groups.append(pa.table(columns, names=names))
    options = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    for start in range(0, rows, FILE_ROWS):
        with pq.ParquetWriter(folder / f"{start:012}.parquet", groups[0].schema, **options) as out:
            for k, begin in enumerate(range(start, min(start + FILE_ROWS, rows), GROUP)):
                out.write_table(groups[k % 4][: rows - begin])


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))


def limited_workers():
    """Return worker processes that may address so much memory."""
    from dpsco.data.tables.cluster.local import LocalAdapter

    class Limited(LocalAdapter):
        def _opened(self):
            if self._pool is None:
                context = get_context("spawn")
                self._pool = ProcessPoolExecutor(WORKERS, mp_context=context, initializer=limit)
            return self._pool

    return Limited(WORKERS, processes=True)


def fit(folder: Path, adapter) -> tuple[float, float]:
    """Return seconds of the clock, and of all processors."""
    import dpsco as dp

    bounds = dp.Bounds(4.0, label="sign")
    problem = dp.Problem(loss=dp.losses.Logistic(), domain=dp.domains.L2Ball(5.0), bounds=bounds)
    table = dp.data.from_cluster(folder, label="y", cluster=adapter)
    options = {"rounds": ROUNDS}
    budget = dp.ApproxDP(1.0, 1e-12)
    plan = dp.plan(
        problem, n=table.n, d=FEATURES, budget=budget, solver="noisy_gd", options=options
    )
    before, begin = cpu_seconds(adapter), time.perf_counter()
    dp.run(plan, table, order="given")
    return time.perf_counter() - begin, cpu_seconds(adapter) - before


def cpu_seconds(adapter) -> float:
    """Return the processor time of this process and of the workers."""
    ticks = 0
    for pid in adapter._opened()._processes:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def peak(adapter) -> float:
    """Return the largest resident memory that a worker had, in MiB."""
    lines = [
        line
        for pid in adapter._opened()._processes
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    ]
    return max(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else ROWS
    os.environ |= FRUGAL  # for the workers
    times, adapter = {}, limited_workers()
    with tempfile.TemporaryDirectory() as place:
        for n in (FEW, BASE, rows):
            begin, folder = time.perf_counter(), Path(place) / str(n)
            generate(folder, n)
            written = time.perf_counter() - begin
            fits = [fit(folder, adapter) for _ in range(3 if n < rows else 1)]
            times[n] = clock, cpu = [min(each) for each in zip(*fits, strict=True)]
            print(
                f"{n:>12,} rows: {clock:8.2f} s, {cpu:8.2f} s of processors, a worker's peak "
                f"{peak(adapter):,.0f} MiB (written in {written:.0f} s)",
                flush=True,
            )
    for what, index in (("clock", 0), ("processors", 1)):
        few, base, large = (times[n][index] for n in (FEW, BASE, rows))
        predicted = few + (base - few) * (rows - FEW) / (BASE - FEW)
        print(f"{what}: predicted {predicted:.1f} s, took {large:.1f} s: {large / predicted:.2f}")
    adapter.close()


if __name__ == "__main__":
    main()
