"""Files written anew in a random order: exactly uniform, all of them or none, little memory."""

import errno
import itertools
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsco as dp
from dpsco.data.schema.schema import Category, ClassLabel, Ignore, Number, Schema
from dpsco.data.tables import shuffled_files
from dpsco.data.tables.shuffled_files import shuffle_files
from dpsco.errors import DataError, ParameterError
from dpsco.privacy.randomness import Randomness

SECRET = "31337.25"


def numbered(n):
    """Return rows that know their number, of several types."""
    k = np.arange(n)
    text = pa.array([None if i % 7 == 0 else f"row {i}" for i in k])
    columns = {
        "k": k,
        "x": k.astype(np.float32),
        "text": text,
        "day": pa.array(k.astype("i4")).cast(pa.date32()),
    }
    return pa.table({**columns, "kind": pa.array([f"kind {i % 3}" for i in k]).dictionary_encode()})


def write(path, table, **options):
    pq.write_table(table, path, **options)
    return path


@pytest.fixture
def buckets(monkeypatch):
    """Return a function that makes buckets and pieces small."""

    def small(bucket, extent=64):
        monkeypatch.setattr(shuffled_files, "_BUCKET_BYTES", bucket)
        monkeypatch.setattr(shuffled_files, "_EXTENT_BYTES", extent)

    return small


def uniform(orders):
    """Return whether 24 orders of four rows are equally likely, by their chi-square statistic.

    It has 23 degrees of freedom and exceeds 80 with probability 3e-8.
    """
    expected = sum(orders.values()) / 24
    counts = [orders[order] for order in itertools.permutations(range(4))]
    return sum((count - expected) ** 2 / expected for count in counts) < 80


@pytest.mark.slow
def test_every_order_of_four_rows_is_equally_likely(tmp_path, buckets, monkeypatch):
    """2,400 shuffles through three buckets, in pieces of two rows; each order comes 100 times.

    And the test has power: a shuffle that forgets to shuffle within buckets fails.
    """
    buckets(11, extent=5)
    rows = shuffled_files._open(
        [write(tmp_path / "in.parquet", pa.table({"k": np.arange(4)}))], None
    )
    stream = Randomness.seeded(1).child("test")

    def orders():
        counts = Counter()
        for _ in range(2_400):
            with shuffled_files._Shuffle(tmp_path, rows) as shuffle:
                shuffle.fill(stream, None)
                parts = shuffle.shuffled(stream, None)
                counts[tuple(k for part in parts for k in part["k"].to_pylist())] += 1
        return counts

    assert uniform(orders())
    monkeypatch.setattr(type(stream), "permutation", lambda self, n: np.arange(n, dtype=np.int64))
    assert not uniform(orders())


@pytest.mark.parametrize("bucket", [1 << 26, 30_000, 500])
def test_rows_stay_whole_and_none_is_lost(tmp_path, buckets, bucket):
    """And halves are mixed: the share of the first half's rows in it is within 6 sd of a half."""
    n = 5_000
    table = numbered(n)
    folder = tmp_path / "rows"
    folder.mkdir()
    write(folder / "a.parquet", table[:1_234], row_group_size=100)
    write(
        folder / "b.parquet", table[1_234:].select([4, 3, 2, 1, 0])
    )  # other order, and categories
    buckets(bucket)
    result = shuffle_files(folder, tmp_path / "out.parquet", randomness=Randomness.seeded(2))
    assert result == shuffled_files.ShuffledFiles(n, (tmp_path / "out.parquet",), 1 << 17)
    shuffled = pq.read_table(tmp_path / "out.parquet")
    order = shuffled["k"].to_numpy()
    assert sorted(order) == list(range(n))
    plain = table.set_column(4, "kind", table["kind"].cast(pa.string()))
    assert shuffled.equals(plain.take(order))
    assert abs(np.count_nonzero(order[: n // 2] < n // 2) - n / 4) < 6 * np.sqrt(n / 16)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 6 / np.sqrt(n)


def test_a_seed_repeats_itself_and_secure_orders_do_not(tmp_path):
    path = write(tmp_path / "in.parquet", numbered(1_000))
    roots = [Randomness.seeded(3), Randomness.seeded(3), None, None]
    orders = []
    for k, root in enumerate(roots):
        shuffle_files(path, tmp_path / f"{k}.parquet", randomness=root)
        orders.append(tuple(pq.read_table(tmp_path / f"{k}.parquet")["k"].to_pylist()))
    assert orders[0] == orders[1]
    assert len(set(orders)) == 3


def test_a_folder_gets_files_of_whole_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(shuffled_files, "_GROUP_BYTES", 4_096 * 24)
    monkeypatch.setattr(shuffled_files, "_FILE_BYTES", 24 * 9_000)
    n = 30_000
    table = pa.table({"k": np.arange(n), "x": np.ones(n), "y": np.ones(n)})
    result = shuffle_files([write(tmp_path / "in.parquet", table)], tmp_path / "out")
    assert [file.name for file in result.files] == [f"part-{k:05d}.parquet" for k in range(4)]
    assert sorted(os.listdir(tmp_path / "out")) == [file.name for file in result.files]
    footers = [pq.ParquetFile(file).metadata for file in result.files]
    sizes = [[each.row_group(k).num_rows for k in range(each.num_row_groups)] for each in footers]
    assert sizes == [[4096, 4096], [4096, 4096], [4096, 4096], [4096, 30_000 - 7 * 4096]]
    assert not any(each.row_group(0).column(0).is_stats_set for each in footers)
    assert sorted(pq.read_table(tmp_path / "out")["k"].to_pylist()) == list(range(n))
    bounds = dp.Bounds(1.0)
    assert (
        dp.data.from_parquet(tmp_path / "out", features=["x"]).bounded(bounds, order="given").n == n
    )


def test_csv_files_are_read_as_a_schema_says(tmp_path):
    schema = Schema(
        (Number("age", 0, 99), Category("job", ("nurse", "clerk"), other=True), Ignore("note")),
        label=ClassLabel("ill", ("no", "yes")),
        decimal=",",
    )
    lines = [f'"{k},5",nurse,n{k},{"yes" if k % 2 else "no"}' for k in range(50)]
    for name, part in (("a.csv", lines[:20]), ("b.csv", lines[20:])):
        (tmp_path / name).write_text("\n".join(["age,job,note,ill", *part]) + "\n")
    inputs = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(DataError, match="Pass the schema that says"):
        shuffle_files(inputs, tmp_path / "out.parquet")
    shuffle_files(inputs, tmp_path / "out.parquet", schema=schema)
    result = pq.read_table(tmp_path / "out.parquet").to_pydict()
    assert sorted(result["age"]) == [k + 0.5 for k in range(50)]
    assert list(result) == ["age", "job", "ill"]
    assert all(
        (label == "yes") == (int(age) % 2 == 1)
        for age, label in zip(result["age"], result["ill"], strict=True)
    )
    table = dp.data.from_parquet(tmp_path / "out.parquet", encoder=dp.data.TableEncoder(schema))
    assert table.n == 50


def test_what_was_shuffled_says_what_is_still_trusted(tmp_path):
    path = write(tmp_path / "in.parquet", pa.table({"x": np.ones(500), "y": np.ones(500)}))
    shuffle_files(path, tmp_path / "out.parquet")
    table = dp.data.from_parquet(tmp_path / "out.parquet", label="y")
    assert table.trusted("given") == (dp.data.source.UNCHOSEN,)


MEMORY = """
import resource, sys
import dpsco as dp
from dpsco.data.tables import shuffled_files
shuffled_files._BUCKET_BYTES = 1 << 22
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
dp.data.shuffle_files(sys.argv[1], sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """160 MB of rows through buckets of 4 MiB: 110 MiB at most, most of it Arrow's own pools."""
    n = 2_000_000
    rng = np.random.default_rng(0)
    path = write(tmp_path / "in.parquet", pa.table({f"x{k}": rng.random(n) for k in range(10)}))
    out = tmp_path / "out.parquet"
    run = [sys.executable, "-c", MEMORY, str(path), str(out)]
    grown = int(subprocess.run(run, capture_output=True, check=True, text=True).stdout)
    assert grown < 110 * 1024
    assert pq.ParquetFile(out).metadata.num_rows == n


def refused(*arguments, match, **options):
    with pytest.raises((DataError, ParameterError), match=match) as caught:
        shuffle_files(*arguments, **options)
    assert caught.value.__context__ is None or SECRET not in str(caught.value.__context__)
    assert SECRET not in str(caught.value)


def test_refusals_before_a_row_is_read(tmp_path, monkeypatch):
    table = pa.table({"x": [1.0, float(SECRET)]})
    one, out = write(tmp_path / "one.parquet", table), tmp_path / "out.parquet"
    other = write(tmp_path / "other.parquet", table.rename_columns(["z"]))
    typed = write(tmp_path / "typed.parquet", table.cast(pa.schema([("x", pa.float32())])))
    twice = write(tmp_path / "twice.parquet", pa.table([[1.0], [2.0]], names=["x", "x"]))
    empty = write(tmp_path / "empty.parquet", table[:0])
    (tmp_path / "broken.parquet").write_bytes(one.read_bytes()[:-20])
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "note").write_text("")
    before = sorted(os.listdir(tmp_path))
    refused([], out, match="names no file")
    refused(3, out, match="a path or a list of paths")
    refused(tmp_path / "none.parquet", out, match="no file or folder")
    refused([one, one], out, match="is named twice")
    refused([one, tmp_path / "taken" / ".." / "one.parquet"], out, match="is named twice")
    refused([one, other], out, match="same columns")
    refused([one, typed], out, match="'x' is float in")
    refused(twice, out, match="same name")
    refused(empty, out, match="has no rows")
    refused([tmp_path / "broken.parquet"], out, match="broken.parquet")
    refused(one, other, match="is there already")
    refused(one, tmp_path / "taken", match="is there already")
    refused(one, one, match="is there already")
    refused(one, tmp_path / "out.csv", match="as Parquet")
    refused(tmp_path / "taken", out, match="no file whose name ends")
    refused(one, out, match="existing folder", spill=tmp_path / "nowhere")
    refused(one, tmp_path / "nowhere" / "out.parquet", match="cannot write")
    refused(one, tmp_path / "nowhere" / "out", match="cannot write")
    os.rename(one, tmp_path / "taken" / "one.parquet")
    refused(tmp_path / "taken", tmp_path / "taken" / "new.parquet", match="lies in the folder")
    os.rename(tmp_path / "taken" / "one.parquet", one)
    monkeypatch.setattr(
        shuffled_files.shutil,
        "disk_usage",
        lambda folder: os.terminal_size((0, 0)) and type("D", (), {"free": 1}),
    )
    refused(one, out, match="the disk is too full: .* has 1 bytes free")
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("name", ["out.parquet", "out"])
@pytest.mark.parametrize("where", ["serialize", "read", "write"])
def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch, name, where):
    path = write(tmp_path / "in.parquet", pa.table({"x": [1.0, float(SECRET)]}))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def quoting(*_, **__):
        raise pa.ArrowInvalid(f"the value {SECRET} does not fit")

    if where == "serialize":
        monkeypatch.setattr(shuffled_files.Buckets, "append", full)
    elif where == "read":
        monkeypatch.setattr(pa.ipc, "read_record_batch", quoting)
    else:
        monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    said = "Arrow has refused them" if where == "read" else "No space left on device"
    refused(path, tmp_path / name, match=f"cannot write the rows to .*{said}")
    assert os.listdir(tmp_path) == ["in.parquet"]


KILLED = """
import os, signal, sys
import dpsco as dp

def kill(done, total):
    if done > 0.75 * total:
        os.kill(os.getpid(), signal.SIGKILL)

dp.data.shuffle_files(sys.argv[1], sys.argv[2], progress=kill)
"""


@pytest.mark.slow
def test_a_killed_shuffle_leaves_no_output_and_is_cleared_away(tmp_path):
    path = write(tmp_path / "in.parquet", numbered(1_000))
    for name in ("out.parquet", "out"):
        out = tmp_path / name
        run = subprocess.run([sys.executable, "-c", KILLED, str(path), str(out)], check=False)
        assert run.returncode == -9
        assert not out.is_file()
        shuffle_files(path, out)
        assert not [each for each in tmp_path.rglob("*") if each.name.startswith(".")]


def test_the_rows_of_the_input_stay_as_they_are(tmp_path):
    path = write(tmp_path / "in.parquet", numbered(100))
    content = path.read_bytes()
    shuffle_files(path, tmp_path / "out.parquet")
    assert path.read_bytes() == content


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_nobody_else_may_read_what_was_shuffled(tmp_path):
    """A copy of private rows is no more open than the closest of its inputs, also while written."""
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "a.parquet", numbered(100)).chmod(0o640)
    write(folder / "b.parquet", numbered(100)).chmod(0o604)
    modes = set()

    def look(done, total):
        modes.update(each.stat().st_mode & 0o777 for each in tmp_path.rglob(".*") if each.is_file())

    before = os.umask(0)
    try:
        for name in ("out.parquet", "out"):
            for each in shuffle_files(folder, tmp_path / name, progress=look).files:
                assert each.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)
    assert modes == {0o600}
