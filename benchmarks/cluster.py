"""What workers cost: overhead of a round, and rows per second beside one process.

Run as ``python -m benchmarks.cluster [ROWS]``; 4 million rows of 20 float32 features and a label in
eight Parquet files, in a temporary folder (set TMPDIR to choose the disk). A small round asks
workers about a file of 1,000 rows; a full round sums clipped gradients of all rows. The least time
of some rounds counts, so that other load disturbs little; workers are started, and have seen a
round, before the clock runs. The sums are compared bit by bit with those of one process.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROWS, FEATURES, FILES = 4_000_000, 20, 8
GROUP = 1 << 16
ROUNDS, SMALL = 3, 20
CLUSTERS = ("threads:1", "threads:2", "local:1", "local:2", "dask:1", "dask:2")


def generate(folder: Path, rows: int, files: int) -> None:
    """Write the files, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [*(f"x{k}" for k in range(FEATURES)), "y"]
    schema = pa.schema([(name, pa.float32()) for name in names])
    for number in range(files):
        with pq.ParquetWriter(folder / f"{number:03}.parquet", schema, use_dictionary=False) as out:
            for start in range(0, rows // files, GROUP):
                count = min(GROUP, rows // files - start)
                columns = [rng.standard_normal(count, dtype=np.float32) for _ in range(FEATURES)]
                columns.append(np.where(rng.random(count) < 0.5, -1, 1).astype(np.float32))
                out.write_table(pa.table(columns, schema=schema))


def least(action: Callable[[], object], times: int) -> float:
    """Return the least seconds that an action takes, after it was done once."""
    action()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def query(d: int):
    from dpsco.data import ClippedGradient
    from dpsco.losses import Logistic

    return ClippedGradient(Logistic(), np.zeros(d), 1.0)


def measure(folder: Path, small: Path, cluster: str | None) -> tuple[float, float, bytes, str]:
    """Return seconds of a small round and of a full one, the full sum, and bytes that travelled."""
    from dpsco.data import Bounds, from_cluster, from_parquet

    bounds, traces = Bounds(4.0, label="sign"), []

    def source(path: Path):
        if cluster is None:
            return from_parquet(path, label="y").bounded(bounds, order="given")
        table = from_cluster(path, label="y", cluster=adapter, watch=traces.append)
        return table.bounded(bounds, order="given")

    adapter = None
    if cluster is not None:
        from dpsco.data.tables.cluster.adapters import adapter_of

        adapter = adapter_of(cluster)
    try:
        few, all_rows = source(small), source(folder)
        for each in (few, all_rows):
            each.expect(10**9)
        full = least(lambda: all_rows.sum(query(FEATURES)), ROUNDS)
        bits = all_rows.sum(query(FEATURES)).tobytes()
        traffic = ""
        if traces:
            last = traces[-1]
            traffic = f"{last.slices} slices, {last.sent:,} B sent, {last.received:,} B received"
        return least(lambda: few.sum(query(FEATURES)), SMALL), full, bits, traffic
    finally:
        if adapter is not None:
            adapter.close()


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as place:
        folder, small = Path(place) / "rows", Path(place) / "small"
        for each, count, files in ((folder, rows, FILES), (small, 1000, 1)):
            each.mkdir()
            generate(each, count, files)
        _, alone, expected, _ = measure(folder, small, None)
        print(f"{rows:,} rows x {FEATURES} float32, {FILES} files, row groups of {GROUP:,}")
        heads = ("small round", "full round", "M rows/s", "beside one")
        print(" " * 12 + "".join(f"{head:>13}" for head in heads) + "  same bits")
        print(f"{'one process':<12}{'':>13}{alone:>11.2f} s{rows / alone / 1e6:>13.1f}{1:>13.2f}")
        for cluster in CLUSTERS:
            empty, full, bits, traffic = measure(folder, small, cluster)
            speed, ratio = rows / full / 1e6, alone / full
            times = f"{1e3 * empty:>10.1f} ms{full:>11.2f} s{speed:>13.1f}{ratio:>13.2f}"
            same = "yes" if bits == expected else "NO"
            print(f"{cluster:<12}{times}  {same}; {traffic}", flush=True)


if __name__ == "__main__":
    main()
