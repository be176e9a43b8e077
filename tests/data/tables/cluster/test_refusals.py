"""What cannot be summed is refused in words: before anything is paid for, or before its round.

No error, with all that is behind it, quotes a row: tables hold a canary, and nothing says it.
"""

import json
import os
import traceback
from functools import partial

import numpy as np
import pytest

import dpsco as dp
from dpsco.data.queries import ClippedGradient
from dpsco.data.tables.cluster import messages
from dpsco.data.tables.cluster.adapters import SCHEMES, adapter_of
from dpsco.data.tables.cluster.layout import Part, Shard, Slice, footer_digest
from dpsco.data.tables.cluster.local import LocalAdapter
from dpsco.data.tables.cluster.work import answer
from dpsco.errors import ClusterError, DataError, ParameterError
from dpsco.files.limits import JsonLimits
from dpsco.files.packing import pack, unpack

from .conftest import BOUNDS, make_plan, write_rows

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SECRET = 918273.4655
SAID = "18273"
N = 11_000


def plan(**options):
    return make_plan(n=N, **{"rounds": 3, **options})


def refused(kind, match, run, *, odometer=None):
    """Expect an error that names no row, and nothing paid for."""
    with pytest.raises(kind, match=match) as error:
        run()
    text = "".join(traceback.format_exception(error.value))
    assert SAID not in text
    if odometer is not None:
        assert not odometer.entries()


@pytest.fixture
def odometer(tmp_path):
    return dp.Odometer(tmp_path / "odometer", dp.ApproxDP(1.0, 1e-7))


@pytest.fixture
def canaries(tmp_path):
    """Rows that hold the canary everywhere."""
    place = tmp_path / "canaries"
    place.mkdir()
    for number, count in enumerate((6_000, 5_000)):
        values = np.full(count, SECRET)
        columns = {**{f"x{j}": values for j in range(5)}, "y": np.ones(count)}
        pq.write_table(pa.table(columns), place / f"part{number}.parquet", row_group_size=2_000)
    return place


def rewritten(path, change):
    """Write a file again with other rows, or columns; its time of change moves on."""
    table = change(pq.read_table(path))
    pq.write_table(table, path, row_group_size=2_000)


DAMAGES = {
    "gone": (lambda path: path.unlink(), "part1.parquet is gone"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-1000]), "part1.parquet"),
    "empty": (lambda path: path.write_bytes(b""), "part1.parquet"),
    "fewer rows": (lambda path: rewritten(path, lambda t: t.slice(1)), "not the one that the run"),
    "other column": (
        lambda path: rewritten(path, lambda t: t.rename_columns([*"abcde", "y"])),
        "not the one that the run",
    ),
    "other type": (
        lambda path: rewritten(path, lambda t: t.set_column(0, "x0", t["x0"].cast("float32"))),
        "not the one that the run",
    ),
    "other values": (
        lambda path: rewritten(
            path, lambda t: t.set_column(0, "x0", pa.array(np.arange(len(t)) / 7.0))
        ),
        "not the one that the run",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_shard_that_changed_since_planning(canaries, odometer, name):
    damage, match = DAMAGES[name]
    with dp.data.from_cluster(canaries, label="y", cluster="threads:2") as table:
        damage(canaries / "part1.parquet")
        refused(
            DataError,
            match,
            lambda: dp.run(plan(), table, order="given", odometer=odometer),
            odometer=odometer,
        )


@pytest.mark.parametrize("name", ["gone", "cut", "other values"])
def test_a_shard_that_changes_on_the_way(canaries, odometer, tmp_path, name):
    """The round is not released; what was stays paid for, and the run can go on."""
    damage, match = DAMAGES[name]
    whole = (canaries / "part1.parquet").read_bytes()
    state = os.stat(canaries / "part1.parquet")

    def after(done, total):
        if done == 1:
            damage(canaries / "part1.parquet")

    keep = {"order": "given", "odometer": odometer, "checkpoint": tmp_path / "checkpoint"}
    with dp.data.from_cluster(canaries, label="y", cluster="threads:2") as table:
        refused(DataError, match, lambda: dp.run(plan(), table, progress=after, **keep))
    run = odometer.entries()[0]
    (canaries / "part1.parquet").write_bytes(whole)
    os.utime(canaries / "part1.parquet", ns=(state.st_atime_ns, state.st_mtime_ns))
    heard = []
    with dp.data.from_cluster(canaries, label="y", cluster="threads:2") as table:
        dp.run(plan(), table, progress=lambda done, total: heard.append(done), **keep)
    assert heard == [2, 3]
    assert list(odometer.entries()) == [run]


def test_no_file_counts_twice(canaries, tmp_path):
    """A pattern that finds a file twice, and a file that has two names."""
    with dp.data.from_cluster(canaries / "**" / "**" / "*.parquet", label="y") as table:
        assert table.n == N
    for link in (os.symlink, os.link):
        link(canaries / "part1.parquet", canaries / "part2.parquet")
        for rows in (canaries, canaries / "*.parquet"):
            refused(DataError, "named twice", partial(dp.data.from_cluster, rows, label="y"))
        refused(DataError, "named twice", partial(dp.data.from_parquet, canaries, label="y"))
        (canaries / "part2.parquet").unlink()


@pytest.mark.parametrize("sampled", [False, True])
def test_rows_in_another_order_under_the_same_footer(tmp_path, sampled):
    """Numbers of one type take as many bytes in any order: only the time of change tells."""
    path, values = tmp_path / "rows.parquet", np.random.default_rng(0).normal(size=9_000)
    plain = {"write_statistics": False, "use_dictionary": False, "compression": "none"}

    def write(column):
        columns = pa.table({"x": column, "y": np.sign(column)})
        pq.write_table(columns, path, **plain)

    write(values)
    digest = footer_digest(path)
    query = ClippedGradient(dp.losses.Logistic(), np.zeros(2), 1.0)
    with dp.data.from_cluster(path, label="y", cluster="threads:1") as table:
        source = table.bounded(dp.Bounds(1.0, label="sign", intercept=1.0), order="given")
        source.sum(query, 0, 4_000)
        write(values[::-1])
        assert footer_digest(path) == digest
        with pytest.raises(DataError, match=r"rows.parquet changed"):
            source.sum_at(query, [1, 8_000]) if sampled else source.sum(query, 4_000, 9_000)
        with pytest.raises(DataError, match=r"rows.parquet changed"):  # before anything is paid for
            table.check(source.bounds, order="given")


def test_files_that_do_not_fit(canaries, tmp_path):
    """Refused as `from_parquet` does, from the footers."""

    def table(path=canaries, **how):
        return dp.data.from_cluster(path, cluster="threads:1", **{"label": "y", **how})

    refused(DataError, "no file or folder", lambda: table(tmp_path / "nothing"))
    refused(DataError, "no file fits the pattern", lambda: table(str(tmp_path / "*.nothing")))
    refused(DataError, "workers read Parquet files", lambda: table(tmp_path / "rows.csv"))
    refused(DataError, "has no column 'z'", lambda: table(label="z"))
    refused(ParameterError, "path must be", lambda: table(None))
    refused(ParameterError, "not both", lambda: table(encoder=object()))
    refused(ParameterError, "slice_rows must be at least 4096", lambda: table(slice_rows=100))
    refused(ParameterError, "shuffle must be one of 'groups'", lambda: table(shuffle="rows"))
    path = canaries / "part1.parquet"
    rewritten(path, lambda t: t.set_column(0, "x0", t["x0"].cast("float32")))
    refused(DataError, "Write all files with the same types", table)
    path.write_bytes(b"PAR1 and no more")
    refused(DataError, "part1.parquet: it is not a Parquet file", table)


def test_what_no_plan_fits(canaries, odometer):
    with dp.data.from_cluster(canaries, label="y", cluster="threads:1") as table:

        def run(what, order="given"):
            return lambda: dp.run(what, table, order=order, odometer=odometer)

        refused(
            DataError, "the plan is for 9 rows", run(make_plan(n=9, rounds=2)), odometer=odometer
        )
        refused(ParameterError, "shuffle='groups'", run(plan(), "shuffled"), odometer=odometer)
        loss = dp.losses.CustomLoss(
            lambda u, y: np.log(np.cosh(u - y)),
            lambda u, y: np.tanh(u - y),
            slope_bound=1.0,
            curvature_bound=1.0,
            convex=True,
            labels="sign",
        )
        match = "custom loss' is code of your own, which is not sent"
        refused(ParameterError, match, run(plan(loss=loss)), odometer=odometer)


ADDRESSES = ["", "nowhere", "local:", "local:0", "local:x", "threads:-1", "dask:many", None, 3]


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_no_address(address):
    with pytest.raises(ParameterError, match="cluster"):
        adapter_of(address)


def test_an_address_where_nobody_answers(canaries, odometer, monkeypatch):
    pytest.importorskip("distributed")
    from dpsco.data.tables.cluster import dask

    monkeypatch.setattr(dask, "REACH", 0.5)
    for address in ("tcp://127.0.0.1:1", "dask://127.0.0.1:1"):
        with dp.data.from_cluster(canaries, label="y", cluster=address) as table:
            refused(
                ClusterError,
                "tcp://127.0.0.1:1 does not answer",
                lambda table=table: dp.run(plan(), table, order="given", odometer=odometer),
                odometer=odometer,
            )


def test_a_missing_engine_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(dp.errors.MissingExtraError, match=r"pip install 'dpsco\[dask\]'"):
        adapter_of("dask")


class Elsewhere(LocalAdapter):
    """Workers of another version, or of another Python."""

    def __init__(self, reply):
        super().__init__(1, processes=False)
        self.reply = reply

    def map(self, task, slices):
        for name, piece in slices.items():
            yield name, self.reply(task, piece)


def of_version(version):
    """Return what workers of another version do: they refuse tasks and sign with their own."""

    def reply(task, piece):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(messages, "__version__", version)
            return answer(task, piece)

    return reply


def broken(task, piece):
    """A worker whose own code fails with words that hold a row."""
    from dpsco.data.tables.cluster import work

    def fail(*_):
        raise KeyError(SECRET)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work, "_arrays", fail)
        return answer(task, piece)


def unsigned(task, piece):
    """A sum as it should be, by another version."""
    head, arrays = unpack(answer(task, piece), what="it", limits=LIMITS, error=ClusterError)
    return pack({**head, "dpsco": "0.0.1"}, arrays)


LIMITS = JsonLimits(10**6)


@pytest.mark.parametrize(
    ("reply", "match"),
    [
        (of_version("9.9.9"), r"must have the same dpsco: a message is of '\d.*here is 9.9.9"),
        (unsigned, "a message is of '0.0.1'"),
        (broken, "a worker has failed with KeyError"),
        (lambda task, piece: None, "an answer is bytes, got NoneType"),
        (lambda task, piece: piece, "a message is no answer"),
    ],
)
def test_workers_that_cannot_take_part(canaries, odometer, reply, match):
    with dp.data.from_cluster(canaries, label="y", cluster=Elsewhere(reply)) as table:
        refused(
            ClusterError,
            match,
            lambda: dp.run(plan(), table, order="given", odometer=odometer),
            odometer=odometer,
        )


def edited(change):
    """Return replies whose head or arrays were changed, and packed again as a worker would."""

    def reply(task, piece):
        message = answer(task, piece)
        head, arrays = unpack(message, what="it", limits=LIMITS, error=ClusterError)
        return pack(*change(head, arrays)) if head["rows"] else message

    return reply


@pytest.mark.parametrize(
    "change",
    [
        lambda head, arrays: ({**head, "rows": head["rows"] - 1}, arrays),
        lambda head, arrays: ({**head, "slice": "0" * 32}, arrays),
        lambda head, arrays: ({**head, "task": "0" * 32}, arrays),
        lambda head, arrays: (head, [np.full_like(arrays[0], np.nan)]),
        lambda head, arrays: (head, [arrays[0].astype(np.float32)]),
        lambda head, arrays: (head, [arrays[0][None]]),
        lambda head, arrays: (head, [arrays[0][:1]]),  # which would count for every weight
        lambda head, arrays: (head, [np.append(arrays[0], 0.0)]),
        lambda head, arrays: (head, arrays * 2),
        lambda head, arrays: (head, []),
    ],
)
def test_answers_that_do_not_count(canaries, change):
    """They are asked for again, and in the end the run stops without a release."""
    workers = Elsewhere(edited(change))
    with dp.data.from_cluster(canaries, label="y", cluster=workers) as table:
        source = table.bounded(BOUNDS, order="given")
        query = dp.data.ClippedGradient(dp.losses.Logistic(), np.zeros(5), 1.0)
        refused(ClusterError, "slices have no answer that counts", lambda: source.sum(query))


# -- messages --------------------------------------------------------------------------------------


def task_and_slice(folder):
    """Return the messages of a task, and of a slice of a file."""
    caught = []

    class Listening(LocalAdapter):
        def map(self, task, slices):
            caught.append((task, *slices.values()))
            return super().map(task, slices)

    with dp.data.from_cluster(folder, label="y", cluster=Listening(1, processes=False)) as table:
        query = dp.data.ClippedGradient(dp.losses.Logistic(), np.zeros(5), 1.0)
        table.bounded(BOUNDS, order="given").sum_at(query, np.arange(0, 11_000, 3))
    return caught[-1][:2]


def test_a_worker_answers_whatever_it_is_sent(canaries):
    """Any bytes in, an answer in words out: never an exception, never a row."""
    task, piece = task_and_slice(canaries)
    generator = np.random.default_rng(0)
    heads = [
        json.dumps({"head": head, "arrays": arrays}).encode()
        for head in ({}, [], {"message": "task"}, {"message": "slice", "protocol": 1}, None)
        for arrays in ([], [{"type": "O", "shape": [1]}], [{"type": "<f8", "shape": [10**9]}], 3)
    ]
    odd = [b"", b"x" * 100, task[:50], piece[:-1], pack({}), *heads]
    odd += [b"dpsco 1\n" + len(head).to_bytes(8, "little") + head + bytes(16) for head in heads]
    for _ in range(200):
        cut = bytearray(task if generator.random() < 0.5 else piece)
        cut[generator.integers(len(cut))] ^= 1 << int(generator.integers(8))
        odd.append(bytes(cut))
    for message in odd:
        for pair in ((task, message), (message, piece)):
            reply = answer(*pair)
            head, _ = unpack(reply, what="it", limits=LIMITS, error=ClusterError)
            assert head["message"] == "refusal"
            assert SAID not in head["text"]


def test_messages_hold_no_row_and_no_code(canaries):
    task, piece = task_and_slice(canaries)
    reply = answer(task, piece)
    for message in (task, piece, reply):
        assert np.float64(SECRET).tobytes() not in message
        assert b"pickle" not in message
        assert SAID.encode() not in message
    head, _ = unpack(task, what="it", limits=LIMITS, error=ClusterError)
    assert head["query"]["type"] == "ClippedGradient"


def test_a_task_builds_known_records_alone(canaries):
    """A name of anything else is refused, wherever it stands."""
    task, _ = task_and_slice(canaries)
    head, arrays = unpack(task, what="it", limits=LIMITS, error=ClusterError)
    for name in ("CustomLoss", "PerRowLoss", "Path", "TransformedGradient", "L2Ball", "Bounds"):
        for place in ("query", "bounds", "reading", "units"):
            changed = {**head, place: {"type": name}}
            with pytest.raises(ClusterError, match=r"workers do not know|cannot be read"):
                messages.read_task(pack(changed, arrays))


def test_a_slice_is_named_by_its_content():
    shard = Shard("/data/a.parquet", "a.parquet", 10, "00")
    other = Shard("/data/a.parquet", "a.parquet", 10, "01")
    elsewhere = Shard("/mnt/a.parquet", "a.parquet", 10, "00")
    sample = np.array([0, 2])
    slices = [
        Slice((Part(shard, 0, 4),), 1, 4),
        Slice((Part(shard, 0, 5),), 1, 5),
        Slice((Part(other, 0, 4),), 1, 4),
        Slice((Part(shard, 0, 4),), 1, 2, sample),
        Slice((Part(shard, 0, 4),), 1, 2, sample + 1),
    ]
    assert len({part.id for part in slices}) == len(slices)
    assert Slice((Part(elsewhere, 0, 4),), 1, 4).id == slices[0].id
    for part in slices:
        again = messages.read_slice(messages.pack_slice(part))
        assert again.id == part.id
        assert again.parts == part.parts


def test_every_scheme_has_its_module():
    for module in SCHEMES.values():
        assert callable(__import__(f"dpsco.data.tables.cluster.{module}", fromlist=["x"]).connect)


def test_a_larger_folder_is_another_table(tmp_path):
    """A checkpoint knows the files; new ones beside them are noticed."""
    place = write_rows(tmp_path, rows=(6_000, 5_000), group=2_000)
    with dp.data.from_cluster(place, label="y", cluster="threads:1") as table:
        before = table.origin
    assert before == dp.data.from_parquet(place, label="y").origin
    write_rows(place, rows=(100,), name="zlast")
    with dp.data.from_cluster(place, label="y", cluster="threads:1") as table:
        assert (table.n, table.origin != before) == (11_100, True)
