"""Runs on workers that die, stop and answer twice, by drivers that are killed: the same bits.

Run as ``python -m benchmarks.cluster_faults local dask [--faults 50]``, or ``spark`` in the
environment of ``make spark``. A driver fits made-up rows with a checkpoint and an odometer, in a
process of its own, while faults strike at random moments:

| fault     | what happens                                                     |
|-----------|------------------------------------------------------------------|
| kill      | a worker process gets SIGKILL                                    |
| slow      | a worker process is stopped for a second and a half              |
| duplicate | a slice is sent twice, and its answers come twice                |
| driver    | the driver gets SIGKILL; it is started again, and goes on        |

A driver that gives up (workers that died before any slice was done) is started again, too. When a
run is over, its weights must be those of one process without faults, bit by bit, and the odometer
must have paid once; then the next run begins, until there were enough faults. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import numpy as np

from .cluster import FEATURES, generate

ROWS, FILES, ROUNDS = 1_000_000, 8, 12
KINDS = {"kill": 10, "slow": 3, "duplicate": 4, "driver": 3}
PAUSES = 1.5, 4.0  # seconds between two faults
STOPPED = 1.5
LOOK = 0.5  # seconds until a process that has ended is noticed
PATIENCE = 120.0  # seconds for a cluster to come up
SERVER = Path(__file__).parents[1] / "tests/data/tables/cluster/spark_server.py"
WORKERS = {"local": "spawn_main", "dask": "spawn_main", "spark": "pyspark.daemon"}
"""What the command line of a worker holds."""


# -- the driver ------------------------------------------------------------------------------------


def plan_for(rows: int):
    import dpsco as dp

    bounds = dp.Bounds(4.0, label="sign")
    problem = dp.Problem(loss=dp.losses.Logistic(), domain=dp.domains.L2Ball(5.0), bounds=bounds)
    budget, options = dp.ApproxDP(1.0, 1e-9), {"rounds": ROUNDS}
    return dp.plan(problem, n=rows, d=FEATURES, budget=budget, solver="noisy_gd", options=options)


class Twice:
    """An adapter that sends a slice twice whenever a file asks for it."""

    def __init__(self, adapter, request: Path) -> None:
        self._adapter, self._request = adapter, request

    @property
    def workers(self) -> int:
        return self._adapter.workers

    def map(self, task, slices):
        again = {}
        if self._request.exists():
            self._request.unlink()
            name = random.choice(list(slices))
            again = {name: slices[name]}
        for name, message in self._adapter.map(task, slices):
            yield name, message
            if name in again:
                yield name, message
                yield from self._adapter.map(task, again)

    def close(self) -> None:
        self._adapter.close()


def drive(folder: Path, work: Path, address: str) -> None:
    """Fit once, or go on with the fit; write the weights."""
    import dpsco as dp
    from dpsco.data.tables.cluster.adapters import adapter_of

    plan = plan_for(ROWS)
    odometer = dp.Odometer(work / "odometer", plan.budget)
    adapter = Twice(adapter_of(address), work / "duplicate")
    with dp.data.from_cluster(folder, label="y", cluster=adapter, slice_rows=1 << 15) as table:
        result = dp.run(
            plan,
            table,
            order="given",
            randomness=dp.Randomness.seeded(7),
            checkpoint=work / "checkpoint",
            odometer=odometer,
        )
    (work / "payments").write_text(str(len(odometer.entries())))
    (work / "weights").write_bytes(result.weights.tobytes())
    adapter.close()


# -- faults ----------------------------------------------------------------------------------------


def descendants(pid: int) -> Iterator[int]:
    """Yield the processes that a process has begun, and those of theirs."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            yield child
            yield from descendants(child)


def workers_of(engine: str, root: int) -> list[int]:
    """Return the workers below a process; of Spark those that its Python daemon has forked."""
    chosen = []
    for pid in descendants(root):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_text()
            parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
            above = Path(f"/proc/{parent}/cmdline").read_text()
        except OSError:
            continue
        if WORKERS[engine] in command and (engine != "spark" or WORKERS[engine] in above):
            chosen.append(pid)
    return chosen


def strike(kind: str, engine: str, driver: int, root: int, work: Path) -> bool:
    """Let a fault happen; return whether it did."""
    if kind == "driver":
        os.kill(driver, signal.SIGKILL)
        return True
    if kind == "duplicate":
        (work / "duplicate").touch()
        time.sleep(STOPPED)
        return not (work / "duplicate").exists()
    workers = workers_of(engine, root)
    if not workers:
        return False
    victim = random.choice(workers)
    try:
        os.kill(victim, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        if kind == "slow":
            time.sleep(STOPPED)
            os.kill(victim, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return True


def struck(faults: Counter[str]) -> int:
    """Return how many faults there were; a driver that gives up is a consequence."""
    return sum(faults[kind] for kind in KINDS)


def run_with_faults(
    engine: str, address: str, root: int | None, folder: Path, work: Path, most: int
) -> Counter[str]:
    """Finish one fit, with at most so many faults; return how many there were of each kind."""
    faults: Counter[str] = Counter()
    command = [sys.executable, "-m", "benchmarks.cluster_faults", "--drive", address]
    command += [str(folder), str(work)]
    while True:
        driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while driver.poll() is None:
            try:
                driver.wait(random.uniform(*PAUSES))
            except subprocess.TimeoutExpired:
                if struck(faults) < most:
                    (kind,) = random.choices(list(KINDS), list(KINDS.values()))
                    below = driver.pid if root is None else root
                    faults[kind] += strike(kind, engine, driver.pid, below, work)
        said = driver.stderr.read()
        if driver.returncode == 0:
            return faults
        if "ClusterError" in said:  # it has given up, and goes on when it is started again
            faults["given up"] += 1
        elif driver.returncode != -signal.SIGKILL:
            sys.exit(f"a driver has ended with {driver.returncode}:\n{said[-3000:]}")


# -- clusters --------------------------------------------------------------------------------------


def wait_for(port: int) -> None:
    """Wait until somebody listens on loopback."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)


def begun(command: list[str]) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)


def end(process: subprocess.Popen[bytes]) -> None:
    process.stdin.close()
    process.terminate()
    process.wait(PATIENCE)


@contextmanager
def kept(command: list[str], number: int) -> Iterator[None]:
    """Keep so many processes there, as a cluster manager does: one that ends is started again.

    Dask's nanny starts a worker again that was killed, but ends itself where the very first start
    is struck; with several workers below one command, all of them go then.
    """
    processes, over = [begun(command) for _ in range(number)], Event()

    def watch() -> None:
        while not over.wait(LOOK):
            for place, process in enumerate(processes):
                if process.poll() is not None:
                    process.stdin.close()
                    processes[place] = begun(command)

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        for process in processes:
            end(process)


@contextmanager
def started(engine: str) -> Iterator[tuple[str, int | None]]:
    """Yield the address of a cluster on loopback, and a process above its workers."""
    if engine == "local":
        yield "local:2", None
        return
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    dask, local = [sys.executable, "-m", "dask"], ["--host", "127.0.0.1", "--no-dashboard"]
    if engine == "spark":
        command, address = [sys.executable, str(SERVER), str(port)], f"sc://localhost:{port}"
    else:
        command, address = (
            [*dask, "scheduler", *local, "--port", str(port)],
            f"tcp://127.0.0.1:{port}",
        )
    server = begun(command)
    try:
        wait_for(port)
        if engine == "spark":
            yield address, server.pid
        else:
            with kept([*dask, "worker", address, *local, "--nthreads", "1"], 2):
                yield address, os.getpid()
    finally:
        end(server)


def measure(engine: str, folder: Path, expected: bytes, faults: int) -> None:
    """Run fits until there were enough faults; print what came of them."""
    totals: Counter[str] = Counter()
    begin, runs, same, payments = time.monotonic(), 0, 0, []
    with started(engine) as (address, root):
        while struck(totals) < faults:
            with tempfile.TemporaryDirectory() as place:
                work, left = Path(place), faults - struck(totals)
                totals += run_with_faults(engine, address, root, folder, work, left)
                same += (work / "weights").read_bytes() == expected
                payments.append(int((work / "payments").read_text()))
                runs += 1
    record = {"engine": engine, "faults": struck(totals), **totals, "runs": runs}
    record |= {"same bits": same, "payments": payments, "seconds": round(time.monotonic() - begin)}
    print(json.dumps(record), flush=True)
    assert same == runs
    assert payments == [1] * runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engines", nargs="*", choices=(*WORKERS, []), default=["local"])
    parser.add_argument("--faults", type=int, default=50)
    options = parser.parse_args()
    import dpsco as dp

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        generate(folder, ROWS, FILES)
        rows = dp.data.from_parquet(folder, label="y")
        alone = dp.run(plan_for(ROWS), rows, order="given", randomness=dp.Randomness.seeded(7))
        assert np.isfinite(alone.weights).all()
        for engine in options.engines:
            measure(engine, folder, alone.weights.tobytes(), options.faults)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--drive"]:
        drive(Path(sys.argv[3]), Path(sys.argv[4]), sys.argv[2])
    else:
        main()
