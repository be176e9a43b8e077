"""A real Spark server on loopback: the bits of one process, whoever dies, and clear refusals.

These tests need PyPI's ``pyspark`` (with the server) and Java: ``make spark`` installs the first
into an environment of its own and runs them. Elsewhere they are skipped; under ``make spark`` with
``CI`` set, a missing server is a failure.
"""

import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import dpsco as dp
from dpsco import data, losses
from dpsco.cli import main
from dpsco.data.tables.cluster import messages, spark
from dpsco.errors import ClusterError, DataError, MissingExtraError, ParameterError
from dpsco.models import SavedModel
from dpsco.privacy.randomness import Randomness

from .conftest import BOUNDS, OPTIONS, make_plan

QUERY = data.ClippedGradient(losses.Logistic(), np.linspace(-1.0, 1.0, 5), 0.5)
SERVER = Path(__file__).with_name("spark_server.py")
PATIENCE = 300  # seconds for a server to come up, and for five workers to be killed


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def missing():
    """Return what a server lacks here, in words; nothing if it lacks nothing."""
    if find_spec("pyspark") is None or find_spec("pyspark.core") is None:
        return "PyPI's pyspark is not installed: run make spark"
    return "" if shutil.which("java") else "a Spark server needs Java 17: openjdk-17-jre-headless"


@pytest.fixture(scope="module")
def server():
    """Return a running server: its process, and its address."""
    if missing():
        required = os.environ.get("DPSCO_SPARK") and os.environ.get("CI")
        (pytest.fail if required else pytest.skip)(missing())
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(SERVER), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        assert "ready\n" in process.stdout, "the server has not come up"
        watchdog.cancel()
        yield process, f"sc://localhost:{port}"
        process.stdin.close()
        process.wait(PATIENCE)
    finally:
        watchdog.cancel()
        process.kill()  # where it has not ended by itself
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def adapter(server):
    adapter = spark.connect(server[1])
    yield adapter
    adapter.close()


def bits(table):
    """Return sums over all rows, a range, and a sample."""
    source = table.bounded(BOUNDS, order="given")
    sample = np.flatnonzero(np.random.default_rng(1).random(source.n) < 0.3)
    sums = source.sum(QUERY), source.sum(QUERY, 123, 50_000), source.sum_at(QUERY, sample)
    return [each.tobytes() for each in sums]


def test_sums_are_the_bits_of_one_process(folder, adapter):
    one = data.from_parquet(folder, label="y")
    assert adapter.workers == 2
    traces = []
    with data.from_cluster(folder, label="y", cluster=adapter, watch=traces.append) as table:
        assert bits(table) == bits(one)
    assert [trace.repeated for trace in traces] == [0, 0, 0]


@pytest.mark.parametrize("solver", OPTIONS)
def test_fits_are_the_bits_of_one_process(folder, adapter, solver):
    plan = make_plan(solver, **OPTIONS[solver])
    with data.from_cluster(folder, label="y", cluster=adapter) as table:
        weights = [
            dp.run(plan, rows, order="given", randomness=Randomness.seeded(3)).weights.tobytes()
            for rows in (data.from_parquet(folder, label="y"), table)
        ]
    assert weights[0] == weights[1]


def test_the_command_line_fits_predicts_and_measures(tmp_path, server, capsys):
    """With units and a count that are found there: the same model and predictions as of threads."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    generator = np.random.default_rng(4)
    age, income = (generator.uniform(0.0, most, 9_000) for most in (100.0, 10.0))
    label = np.where(age / 100.0 + income / 10.0 > 1.0, "yes", "no")
    rows = pa.table({"age": age, "income": income, "repaid": label})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=2_500)
    columns = (data.Number("age", 0, 100), data.Number("income", 0, 50))
    schema = data.Schema(columns, data.ClassLabel("repaid", ("no", "yes")))
    (tmp_path / "schema.json").write_text(schema.to_json())

    def dpsco(*words):
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    found = []
    for number, address in enumerate(("threads:2", server[1])):
        model, predictions = tmp_path / f"{number}.json", tmp_path / f"{number}.parquet"
        how = ("--schema", tmp_path / "schema.json", "--epsilon", "1", "--order", "given")
        how += ("--solver", "noisy_gd", "--option", "rounds=3", "--seed", "3", "--units", "auto")
        said = dpsco("fit", tmp_path / "*.parquet", *how, "--cluster", address, "-o", model)
        assert "rows counted" in said
        new = (tmp_path / "rows.parquet", "--cluster", address)
        dpsco("predict", model, *new, "-o", predictions)
        measured = json.loads(dpsco("evaluate", model, *new, "--epsilon", "1", "--json"))
        assert "workers read the rows" in str(measured["certificate"])
        found.append((SavedModel.load(model), pq.read_table(predictions)))
        predictions.unlink()
    (here, first), (there, second) = found
    assert here.model.units is not None
    assert here.model.units.scale.tobytes() == there.model.units.scale.tobytes()
    assert here.model.coef.tobytes() == there.model.coef.tobytes()
    assert first.num_rows == 9_000
    assert first.equals(second)


def children(pid):
    """Return the processes that a process has begun, and those of theirs, as (parent, child)."""
    result = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        for child in content(task / "children").split():
            result += [(pid, int(child)), *children(int(child))]
    return result


def content(path):
    """Return a text of /proc; nothing if its process or thread has ended since it was listed."""
    try:
        return path.read_text()
    except OSError:
        return ""


def python_workers(pid):
    """Return Spark's Python workers: children of its daemon, which is a child of Java."""
    pairs = [
        pair
        for pair in children(pid)
        if "pyspark.daemon" in content(Path(f"/proc/{pair[1]}/cmdline"))
    ]
    daemons = {child for _, child in pairs}
    return [child for parent, child in pairs if parent in daemons]


@pytest.mark.skipif(sys.platform != "linux", reason="finds workers in /proc")
def test_killed_workers_change_nothing(folder, server, adapter):
    """A worker is killed every half second while sums are taken, five in all."""
    expected = data.from_parquet(folder, label="y").bounded(BOUNDS, order="given").sum(QUERY)
    killed, over = [], threading.Event()

    def kill():
        while not over.wait(0.5) and len(killed) < 5:
            for pid in python_workers(server[0].pid)[:1]:
                with suppress(ProcessLookupError):  # it ended by itself
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    with data.from_cluster(folder, label="y", cluster=adapter, slice_rows=4096) as table:
        source = table.bounded(BOUNDS, order="given")
        thread = threading.Thread(target=kill)
        thread.start()
        try:
            end = time.monotonic() + PATIENCE
            while len(killed) < 5 and time.monotonic() < end:
                assert source.sum(QUERY).tobytes() == expected.tobytes()
        finally:
            over.set()
            thread.join()
    assert len(killed) == 5


def test_a_shard_that_is_lost_or_another_stops_the_sum(few_rows, adapter):
    files = sorted(few_rows.iterdir())
    with data.from_cluster(few_rows, label="y", cluster=adapter) as table:
        source = table.bounded(BOUNDS, order="given")
        content, state = files[1].read_bytes(), files[1].stat()
        files[1].write_bytes(files[0].read_bytes())
        with pytest.raises(DataError, match="not the one that the run was planned for"):
            source.sum(QUERY)
        files[1].unlink()
        with pytest.raises(DataError, match=r"part1\.parquet"):
            source.sum(QUERY)
        files[1].write_bytes(content)
        os.utime(files[1], ns=(state.st_atime_ns, state.st_mtime_ns))
        source.sum(QUERY)


def test_workers_of_another_version_are_refused(few_rows, adapter, monkeypatch):
    monkeypatch.setattr(messages, "__version__", "9.9")
    table = data.from_cluster(few_rows, label="y", cluster=adapter)
    with pytest.raises(ClusterError, match="must have the same dpsco"):
        table.bounded(BOUNDS, order="given")


WITHOUT = """
import pickle, sys
sys.modules["dpsco"] = None  # as if it were not installed
import pyarrow as pa
answers = pickle.loads(sys.stdin.buffer.read())
batch = pa.RecordBatch.from_pydict({"slice": ["a"], "message": [b"m"]})
(answer,) = answers(iter([batch]))
print(answer.to_pydict())
"""


def test_a_worker_without_dpsco_says_so(adapter, monkeypatch):
    """What is sent needs nothing but Arrow to be read; an empty answer becomes an error."""
    from pyspark.cloudpickle import dumps

    sent = dumps(spark._answering(b"task"))
    assert pickle.loads(sent) is not None
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT], input=sent, capture_output=True, check=True
    )
    assert eval(run.stdout) == {"slice": ["a"], "answer": [b""]}
    monkeypatch.setattr(adapter, "_frame", lambda *_: None)
    monkeypatch.setattr(spark, "_collect", lambda _, items: items.put(("a", b"")))
    with pytest.raises(ClusterError, match="cannot import dpsco"):
        list(adapter.map(b"task", {"a": b"m"}))


def test_nobody_answers_in_time(adapter, monkeypatch):
    monkeypatch.setattr(adapter, "_patience", 0.05)
    monkeypatch.setattr(spark, "_collect", lambda *_: time.sleep(0.2))
    with pytest.raises(ClusterError, match=r"has answered for 0\.05 seconds"):
        list(adapter.map(b"task", {"a": b"m"}))


def test_where_nothing_answers(server):
    begin = time.monotonic()  # Spark's own client would try for ten minutes
    with pytest.raises(ClusterError, match="nothing answers at sc://localhost:1") as caught:
        spark.connect("sc://localhost:1/;token=hidden")
    assert "hidden" not in str(caught.value)
    for wrong in ("sc://", "sc:host", "sc://host:port"):
        with pytest.raises(ParameterError, match="names no Spark server"):
            spark.connect(wrong)
    assert time.monotonic() - begin < PATIENCE


def test_a_server_that_goes_away(folder, server, monkeypatch):
    """The last test: it ends the server, whose client would otherwise wait for ten minutes."""
    monkeypatch.setattr(spark, "_RETRIES", 1)
    adapter = spark.connect(server[1])
    with data.from_cluster(folder, label="y", cluster=adapter) as table:
        source = table.bounded(BOUNDS, order="given")
        server[0].stdin.close()
        server[0].wait(PATIENCE)
        with pytest.raises(ClusterError, match=r"nothing answers|does not do what"):
            source.sum(QUERY)


def test_without_the_client_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r"dpsco\[spark\]"):
        spark.connect("sc://localhost")
