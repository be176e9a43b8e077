"""Parquet and CSV files as tables: the same rows as in memory, constant memory, clear refusals."""

import datetime
import itertools
import os
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsco.data.block import join
from dpsco.data.bounds import Bounds
from dpsco.data.labels import Classes
from dpsco.data.queries import ClippedGradient
from dpsco.data.schema.encoder import TableEncoder
from dpsco.data.schema.schema import (
    Category,
    ClassLabel,
    Flag,
    Hashed,
    Ignore,
    Number,
    NumberLabel,
    Schema,
    SignLabel,
)
from dpsco.data.tables import parquet, stream
from dpsco.data.tables.csvfile import from_csv
from dpsco.data.tables.parquet import from_parquet
from dpsco.data.tables.table import from_arrays
from dpsco.errors import DataError, ParameterError
from dpsco.kernels import rescale
from dpsco.losses.logistic import Logistic

BOUNDS = Bounds(2.0, label="sign", intercept=1.0)
N, D = 21_000, 5


def make(n=N, seed=0, dtype=np.float32):
    """Return rows and signs; some rows are too long, some are not finite."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)).astype(dtype)
    X[rng.random(n) < 0.01, 2] = np.nan
    X[rng.random(n) < 0.01, 0] = np.inf
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def table_of(X, y):
    return pa.table({**{f"x{k}": X[:, k] for k in range(X.shape[1])}, "y": y})


def write(path, X, y, **options):
    pq.write_table(table_of(X, y), path, **options)
    return path


def reading():
    return [t for t in threading.enumerate() if t.name.startswith("dpsco reader")]


def same(block, other):
    np.testing.assert_array_equal(block.rows, other.rows)
    np.testing.assert_array_equal(block.labels, other.labels)
    np.testing.assert_array_equal(block.norms, other.norms)
    np.testing.assert_array_equal(block.present, other.present)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "rows.parquet"
    return write(path, *make(), row_group_size=6000)


@pytest.fixture(scope="module")
def memory():
    return from_arrays(*make()).bounded(BOUNDS, order="given")


@pytest.fixture
def small_batches(monkeypatch):
    """Read few rows at a time, so that batches, row groups and leaves end at different rows."""
    monkeypatch.setattr(stream, "_BATCH_BYTES", 20 * 1700)


# -- the same rows -------------------------------------------------------------------------------


def test_shape_and_type_come_from_the_footer(file):
    table = from_parquet(file, label="y")
    assert (table.n, table.d, table.dtype, table.labels) == (N, D, np.float32, "number")
    assert from_parquet(str(file), features=["x3", "x1"]).d == 2
    assert from_parquet(file).d == D + 1
    assert from_parquet(file).labels == "none"


@pytest.mark.parametrize("options", [{}, {"compression": "none", "use_dictionary": False}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_rows_as_in_memory(tmp_path, small_batches, options, dtype):
    X, y = make(dtype=dtype)
    path = write(tmp_path / "a.parquet", X, y, row_group_size=7001, **options)
    source = from_parquet(path, label="y").bounded(BOUNDS, order="given")
    expected = from_arrays(X, y).bounded(BOUNDS, order="given")
    assert [len(block) for block in source.blocks()] == [len(block) for block in expected.blocks()]
    found = source.rows()
    assert found.rows.dtype == dtype
    assert found.rows.flags.c_contiguous
    same(found, expected.rows())


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (0, 1),
        (5999, 6001),
        (6000, 12_000),
        (1, N),
        (4095, 4097),
        (20_999, N),
        (7, 7),
        (123, 17_890),
    ],
)
def test_any_range(file, memory, small_batches, start, stop):
    source = from_parquet(file, label="y").bounded(BOUNDS, order="given")
    same(source.rows(start, stop), memory.rows(start, stop))


def test_sums_are_the_same_bits(file, memory, small_batches):
    source = from_parquet(file, label="y").bounded(BOUNDS, order="given")
    query = ClippedGradient(Logistic(), np.linspace(-1, 1, D + 1), 0.7)
    for start, stop in ((0, N), (100, 15_000)):
        assert np.array_equal(source.sum(query, start, stop), memory.sum(query, start, stop))
    chosen = np.random.default_rng(1).permutation(N)[:50]
    same(source.take(chosen), memory.take(chosen))


def test_a_folder_is_its_files_by_name(tmp_path, small_batches):
    X, y = make()
    (tmp_path / "sub").mkdir()
    cuts = {"b.parquet": (300, 9000), "a.pq": (0, 300), "sub/c.parquet": (9000, N)}
    for name, (start, stop) in cuts.items():
        write(tmp_path / name, X[start:stop], y[start:stop], row_group_size=1111)
    write(tmp_path / "sub/empty.parquet", X[:0], y[:0])
    (tmp_path / "_notes.parquet").write_text("not a table")
    (tmp_path / ".hidden.parquet").write_text("not a table")
    (tmp_path / "readme.txt").write_text("not a table")
    source = from_parquet(tmp_path, label="y").bounded(BOUNDS, order="given")
    expected = from_arrays(X, y).bounded(BOUNDS, order="given")
    same(source.rows(), expected.rows())
    same(source.rows(250, 9500), expected.rows(250, 9500))


def test_row_groups_outside_the_range_are_not_read(tmp_path):
    X, y = make()
    path = write(tmp_path / "a.parquet", X, y, row_group_size=3000, compression="none")
    source = from_parquet(path, label="y").bounded(BOUNDS, order="given")
    expected = source.rows(9000, 12_000)
    column = pq.ParquetFile(path).metadata.row_group(2).column(0)
    before = path.stat()
    with open(path, "r+b") as damaged:  # break a page of the rows 6000 to 9000
        damaged.seek(
            column.data_page_offset
            if column.dictionary_page_offset is None
            else column.dictionary_page_offset
        )
        damaged.write(b"\xff" * 40)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    same(source.rows(9000, 12_000), expected)
    assert len(source.rows(0, 6000)) == 6000
    with pytest.raises(DataError, match=r"cannot read .*a\.parquet"):
        source.rows(8999, 9001)


class Counting:
    """Files that count the rows they decode."""

    def __init__(self, real):
        self._real, self.rows, self.stamped, self.decoded = real, real.rows, real.stamped, 0

    def batches(self, *arguments):
        for batch in self._real.batches(*arguments):
            self.decoded += len(batch)
            yield batch

    def end_row(self, stop):
        return self._real.end_row(stop)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_ranges_in_order_make_one_pass(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(stream, "_MOST_ROWS", 700)  # rows of a record batch
    X, y = make(n=9000)
    path = write(tmp_path / "a.parquet", X, y, row_group_size=2000)
    schema = Schema(
        tuple(Number(name, -9, 9) for name in pq.read_schema(path).names if name != "y"),
        label=SignLabel("y"),
    )
    encoder = TableEncoder(schema)
    if kind == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(pq.read_table(path), tmp_path / "a.csv")
        table = from_csv(tmp_path / "a.csv", encoder=encoder)
    else:
        table = from_parquet(path, encoder=encoder)
    counting = table._files = Counting(table._files)
    whole = table.bounded(BOUNDS, order="given").rows()
    source, counting.decoded = table.bounded(BOUNDS, order="given"), 0
    ends = [0, 1, 50, 699, 700, 1999, 2000, 2001, 4000, 8999, 9000]
    for start, stop in itertools.pairwise(ends):
        same(source.rows(start, stop), whole[start:stop])
    assert counting.decoded == 9000
    for start, stop in [(5, 900), (5, 900), (0, 9000), (8990, 9000), (100, 300), (300, 7000)]:
        same(source.rows(start, stop), whole[start:stop])
    source.rows(0, 300)
    one, other = source.blocks(300, 8900), source.blocks(300, 9000)  # at the same time
    head = next(one)
    same(join([*other]), whole[300:])
    same(join([head, *one]), whole[300:8900])


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_that_changes_between_two_ranges_is_refused(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(stream, "_MOST_ROWS", 700)
    X, y = make(n=9000)
    path = write(tmp_path / "a.parquet", X, y)
    if kind == "csv":
        import pyarrow.csv

        monkeypatch.setattr("dpsco.data.tables.csvfile._BLOCK", 1 << 14)
        schema = Schema(tuple(Number(name, -9, 9) for name in pq.read_schema(path).names))
        pyarrow.csv.write_csv(pq.read_table(path), tmp_path / "a.csv")
        path = tmp_path / "a.csv"
        table, bounds = from_csv(path, encoder=TableEncoder(schema)), Bounds(2.0)
    else:
        table, bounds = from_parquet(path, label="y"), BOUNDS
    source = table.bounded(bounds, order="given")
    assert len(source.rows(0, 1000)) == 1000
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataError, match=r"a\.(parquet|csv) changed"):
        source.rows(1000, 4000)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_that_changes_after_its_last_row_was_read_is_refused(tmp_path, kind):
    X, y = make(n=900)
    path = write(tmp_path / "a.parquet", X, y)
    if kind == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(pq.read_table(path), tmp_path / "a.csv")
        path = tmp_path / "a.csv"
        names = pq.read_schema(tmp_path / "a.parquet").names
        schema = Schema(tuple(Number(name, -9, 9) for name in names))
        table = from_csv(path, encoder=TableEncoder(schema))
    else:
        table = from_parquet(path, label="y")
    batches = stream.Onward(table._files, table._decoder.columns, 1 << 20).batches(0, 900)
    assert len(next(batches)) == 900  # all rows: a sum over them would be taken next
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataError, match=r"a\.(parquet|csv) changed"):
        next(batches)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None, -3], pa.int64()), [1, np.nan, -3]),
        (pa.array([True, None, False]), [1, np.nan, 0]),
        (pa.array([np.float16(1.5), None, np.float16(-2.0)], pa.float16()), [1.5, np.nan, -2]),
        (pa.array([2**60 + 1, None, 7], pa.int64()), [2.0**60, np.nan, 7]),
        (pa.array([1, None, 3]).cast(pa.decimal128(25, 2)), [1, np.nan, 3]),
    ],
)
def test_numbers_of_all_types(tmp_path, array, expected):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": array}), path)
    bounds = Bounds(1e30)
    block = from_parquet(path).bounded(bounds, order="given").rows()
    other = from_arrays(np.array(expected)[:, None]).bounded(bounds, order="given").rows()
    np.testing.assert_array_equal(block.rows, other.rows)
    assert block.present.tolist() == [True, False, True]


def test_one_long_column_makes_all_long(tmp_path):
    table = pa.table({"a": pa.array([0.1], pa.float32()), "b": pa.array([0.1], pa.float64())})
    pq.write_table(table, tmp_path / "a.parquet")
    found = from_parquet(tmp_path)
    assert found.dtype == np.float64
    rows = found.bounded(Bounds(1.0), order="given").rows().rows
    assert rows.tolist() == [[float(np.float32(0.1)), 0.1]]


def test_text_labels(tmp_path):
    path = tmp_path / "a.parquet"
    labels = ["no", "yes", None, "perhaps", "no"]
    for column in (pa.array(labels), pa.array(labels).dictionary_encode()):
        pq.write_table(pa.table({"a": np.arange(5.0), "y": column}), path)
        table = from_parquet(path, label="y")
        assert table.labels == "text"
        block = table.bounded(Bounds(9.0, label=Classes("no", "yes")), order="given").rows()
        assert block.present.tolist() == [True, True, False, False, True]
        assert block.labels[block.present].tolist() == [-1, 1, -1]
        with pytest.raises(DataError, match="numbers"):
            table.bounded(BOUNDS, order="given")


def test_a_wide_table_is_read_in_small_batches(tmp_path):
    X = np.random.default_rng(0).standard_normal((600, 700))
    pq.write_table(pa.table({f"x{k}": X[:, k] for k in range(700)}), tmp_path / "a.parquet")
    source = from_parquet(tmp_path / "a.parquet").bounded(Bounds(5.0), order="given")
    assert source._size == 1123
    same(source.rows(), from_arrays(X).bounded(Bounds(5.0), order="given").rows())


# -- encoded columns, CSV ------------------------------------------------------------------------

SCHEMA = Schema(
    (Number("age", 0, 100, "indicator"), Category("work", ("a", "b"), other=True),
     Hashed("town", 50), Flag("owner"), Ignore("id")),
    ClassLabel("y", ("no", "yes")),
)  # fmt: skip


def mixed(n=9000):
    rng = np.random.default_rng(0)
    words = np.array(["a", "b", "c", None], dtype=object)
    return pa.table({
        "id": np.arange(n),
        "age": pa.array(rng.normal(50, 30, n), mask=rng.random(n) < 0.1),
        "work": pa.array(words[rng.integers(0, 4, n)]),
        "town": pa.array([f"town {k}" for k in rng.integers(0, 300, n)]),
        "owner": rng.random(n) < 0.5,
        "y": np.array(["no", "yes", "other"])[rng.integers(0, 3, n)],
    })  # fmt: skip


@pytest.mark.parametrize("sparse", [False, True])
def test_encoded_files_as_in_memory(tmp_path, monkeypatch, sparse):
    monkeypatch.setattr(stream, "_BATCH_BYTES", 1 << 15)
    table = mixed()
    pq.write_table(table.slice(0, 4000), tmp_path / "a.parquet", row_group_size=900)
    pq.write_table(
        table.slice(4000).set_column(2, "work", table["work"].slice(4000).dictionary_encode()),
        tmp_path / "b.parquet",
    )
    encoder = TableEncoder(SCHEMA, sparse=sparse)
    bounds = encoder.bounds(feature_norm=1.2, intercept=1.0)
    found = from_parquet(tmp_path, encoder=encoder)
    assert (found.n, found.d, found.labels) == (9000, encoder.width, "number")
    block = found.bounded(bounds, order="given").rows()
    expected = from_arrays(*encoder.encode(table)).bounded(bounds, order="given").rows()
    if sparse:
        assert abs(block.rows.matrix() - expected.rows.matrix()).max() == 0
        np.testing.assert_array_equal(block.norms, expected.norms)
        np.testing.assert_array_equal(block.labels, expected.labels)
    else:
        same(block, expected)
    assert 0.6 < block.present.mean() < 0.7  # a third of the labels is not declared


def test_csv_gives_the_same_rows_as_parquet(tmp_path, monkeypatch):
    from pyarrow import csv

    from dpsco.data.tables import csvfile

    monkeypatch.setattr(csvfile, "_BLOCK", 1 << 15)
    table = mixed()
    csv.write_csv(table, tmp_path / "a.csv")
    pq.write_table(table, tmp_path / "a.parquet")
    encoder = TableEncoder(SCHEMA)
    bounds = encoder.bounds()
    one = from_csv(tmp_path / "a.csv", encoder=encoder).bounded(bounds, order="given")
    two = from_parquet(tmp_path / "a.parquet", encoder=encoder).bounded(bounds, order="given")
    same(one.rows(), two.rows())
    for start, stop in ((4000, 8111), (10, 20), (0, 1), (8999, 9000)):
        same(one.rows(start, stop), two.rows(start, stop))
    (tmp_path / "a.csv").write_text("changed")
    with pytest.raises(DataError, match=r"a\.csv changed after it was opened"):
        one.rows()


def test_csv_lines_may_be_broken_inside_quotes(tmp_path, monkeypatch):
    from dpsco.data.tables import csvfile

    monkeypatch.setattr(csvfile, "_BLOCK", 1 << 12)
    lines = ["line,\n" * (k % 20) for k in range(3000)]
    text = "\n".join(f'{k},"{entry}"' for k, entry in enumerate(lines))
    (tmp_path / "a.csv").write_text(f"k,text\n{text}\n")
    encoder = TableEncoder(Schema((Number("k", 0, 3000), Hashed("text", 3))))
    table = from_csv(tmp_path / "a.csv", encoder=encoder)
    assert table.n == 3000
    rows = table.bounded(Bounds(9.0), order="given").rows().rows
    np.testing.assert_allclose(rows[:, 0], np.arange(3000) / 1500 - 1, atol=1e-15)


def test_csv_entries_that_cannot_be_read_are_missing(tmp_path):
    path = tmp_path / "a.csv"
    entries = [
        b"1",
        b" +3 ",
        b"4e0",
        b"secret",
        b"\xff\xfe",
        b"",
        b"nan",
        b"1e999",
        b"0x1",
        b"TRUE",
    ]
    path.write_bytes(b"a,b,y\n" + b"".join(e + b',"q,\nq",' + e + b"\n" for e in entries))
    schema = Schema((Number("a", 0, 4), Category("b", ("q,\nq",))), NumberLabel("y", 0, 9))
    encoder = TableEncoder(schema)
    table = from_csv(path, encoder=encoder)
    assert table.n == 10
    block = table.bounded(encoder.bounds(), order="given").rows()
    # Clipping may take a unit in the last place from a row as long as the bound.
    np.testing.assert_allclose(block.rows[:, 1], [1, 1, 1, 0, 0, 0, 0, 0, 0, 1], rtol=1e-14)
    np.testing.assert_allclose(block.rows[block.present, 0], [-0.5, 0.5, 1, -0.5], rtol=1e-14)
    assert block.labels[block.present].tolist() == [1, 3, 4, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,y\n1,2\n3,4,secret\n", "cannot read"),
        ("a,y\n1,2\nsecret\n", "cannot read"),
        ("a,y\n", "has no rows"),
        ("", "header"),
        ("y\n1\n", "column 'a' is missing"),
        ("a,b,y\n1,2,3\n", "not declared: 'b'"),
        ("a,a,y\n1,2,3\n", "column 'a' is in the table more than once"),
    ],
)
def test_csv_refusals(tmp_path, text, words):
    path = tmp_path / "a.csv"
    path.write_text(text)
    encoder = TableEncoder(Schema((Number("a", 0, 4),), NumberLabel("y", 0, 9)))
    with pytest.raises(DataError, match=words) as refusal:
        from_csv(path, encoder=encoder)
    assert "secret" not in str(refusal.value)
    assert "a.csv" in str(refusal.value)
    with pytest.raises(DataError, match="there is no file"):
        from_csv(tmp_path / "none.csv", encoder=encoder)


# -- refusals ------------------------------------------------------------------------------------


def test_damaged_files_are_named(tmp_path, file):
    whole = file.read_bytes()
    path = tmp_path / "bad.parquet"
    for content in (b"", b"PAR1", b"a,b\n1,2\n", whole[:-1], whole[: len(whole) // 2], whole[4:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"cannot read .*bad\.parquet") as refusal:
            from_parquet(path, label="y")
        assert refusal.value.__context__ is None


def test_one_damaged_file_among_many_is_named(tmp_path, file):
    for name in "abc":
        (tmp_path / f"{name}.parquet").write_bytes(file.read_bytes())
    (tmp_path / "b.parquet").write_bytes(file.read_bytes()[:5000])
    with pytest.raises(DataError, match=r"b\.parquet"):
        from_parquet(tmp_path, label="y")


@pytest.mark.parametrize("start", [0, 100, 5000])
def test_damage_inside_is_noticed_midway(tmp_path, small_batches, start):
    """The footer is whole, a page is not: an error that names the file, while being read."""
    X, y = make()
    path = write(tmp_path / "a.parquet", X, y, row_group_size=6000, compression="snappy")
    content = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(2).column(1)
    begin = column.dictionary_page_offset or column.data_page_offset
    content[begin : begin + 200] = b"\xff" * 200
    path.write_bytes(bytes(content))
    source = from_parquet(path, label="y").bounded(BOUNDS, order="given")
    seen = []
    with pytest.raises(DataError, match=r"cannot read .*a\.parquet"):
        seen.extend(len(block) for block in source.blocks(start))
    assert not reading()


def test_a_file_that_changes_is_noticed(tmp_path):
    X, y = make()
    path = write(tmp_path / "a.parquet", X, y)
    source = from_parquet(path, label="y").bounded(BOUNDS, order="given")
    write(path, X[:500], y[:500])
    with pytest.raises(DataError, match=r"a\.parquet changed after its footer was read"):
        source.rows()
    path.unlink()
    with pytest.raises(DataError, match=r"a\.parquet is gone"):
        source.rows()


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "_BATCH_BYTES", 1)
    X, y = make()
    path = write(tmp_path / "a.parquet", X, y, row_group_size=1000)
    blocks = from_parquet(path, label="y").bounded(BOUNDS, order="given").blocks()
    next(blocks)
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataError, match=r"a\.parquet changed while it was read"):
        list(blocks)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"a": pa.array([1.0]), "y": pa.array([1])}, ["'a'", "double", "float"]),
        ({"a": pa.array(["secret"]), "y": pa.array([1])}, ["'a'", "string", "float"]),
        ({"a": pa.array([1.0], pa.float32()), "y": pa.array([1.0])}, ["'y'", "double", "int64"]),
        ({"a": pa.array([1.0], pa.float32())}, ["no column 'y'", "b.parquet"]),
        ({"b": pa.array([1.0], pa.float32()), "y": pa.array([1])}, ["no column 'a'"]),
    ],
)
def test_types_that_change_between_files_are_named(tmp_path, second, words):
    first = {"a": pa.array([1.0, 2.0], pa.float32()), "y": pa.array([1, -1])}
    pq.write_table(pa.table(first), tmp_path / "a.parquet")
    pq.write_table(pa.table(second), tmp_path / "b.parquet")
    with pytest.raises(DataError) as refusal:
        from_parquet(tmp_path, features=["a"], label="y")
    for word in [*words, "b.parquet"]:
        assert word in str(refusal.value)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["secret"]), pa.array([["secret"]]), pa.array([{"b": 1}]), pa.array([b"secret"]),
        pa.array([datetime.date(1999, 1, 1)]), pa.nulls(1),
        pa.array(["secret"]).dictionary_encode(),
    ],
)  # fmt: skip
def test_columns_that_are_no_numbers_are_refused(tmp_path, array):
    pq.write_table(pa.table({"ok": [1.0], "odd": array}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet column 'odd' must hold numbers") as refusal:
        from_parquet(tmp_path)
    assert str(array.type).partition("<")[0] in str(refusal.value)
    assert "secret" not in str(refusal.value)
    assert "1999" not in str(refusal.value)
    assert from_parquet(tmp_path, features=["ok"]).n == 1


def test_schema_mismatch_names_the_file_and_the_column(tmp_path):
    table = mixed(10)
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.set_column(1, "age", pa.array(["x"] * 10)), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet does not match.*'age' must hold numbers"):
        from_parquet(tmp_path, encoder=TableEncoder(SCHEMA))
    whole = table.set_column(1, "age", table["age"].cast(pa.int64(), safe=False))
    pq.write_table(whole, tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"'age' is int64 in .*b\.parquet, but double"):
        from_parquet(tmp_path, encoder=TableEncoder(SCHEMA))


def test_wrong_use(tmp_path, file):
    encoder = TableEncoder(Schema((Number("x0", 0, 1),), SignLabel("y")))
    with pytest.raises(ParameterError, match="not both"):
        from_parquet(file, label="y", encoder=encoder)
    with pytest.raises(ParameterError, match="list of names"):
        from_parquet(file, features="x0")
    with pytest.raises(DataError, match=r"no column 'z'.*x0, x1"):
        from_parquet(file, features=["z"])
    with pytest.raises(ParameterError, match="twice: 'x0'"):
        from_parquet(file, features=["x0", "x0"])
    with pytest.raises(ParameterError, match="twice: 'y'"):
        from_parquet(file, features=["x0", "y"], label="y")
    with pytest.raises(DataError, match="features is empty"):
        from_parquet(file, features=[])
    with pytest.raises(ParameterError, match="features must be a list"):
        from_parquet(file, features=5)
    with pytest.raises(ParameterError, match=r"encoder must be a dpsco\.data\.TableEncoder"):
        from_parquet(file, encoder=encoder.schema)
    for path in (None, 3, [file], ""):  # the empty name would be the folder one is in
        with pytest.raises(ParameterError, match="path must be"):
            from_parquet(path)
    with pytest.raises(DataError, match="no file or folder"):
        from_parquet(tmp_path / "none")
    with pytest.raises(DataError, match="no file whose name ends in"):
        from_parquet(tmp_path)
    write(tmp_path / "a.parquet", *make(0))
    with pytest.raises(DataError, match="has no rows"):
        from_parquet(tmp_path, label="y")
    with pytest.raises(ParameterError, match="spill=folder"):
        from_parquet(file, label="y").bounded(BOUNDS)


# -- the reading thread, memory ------------------------------------------------------------------


def test_a_pass_that_is_given_up_ends_its_thread(file, small_batches):
    blocks = from_parquet(file, label="y").bounded(BOUNDS, order="given").blocks()
    next(blocks)
    assert reading()
    blocks.close()
    assert not reading()


def test_errors_of_the_thread_are_raised_by_the_caller():
    def items():
        yield 1
        raise DataError("from afar")

    found = stream.in_background(items())
    assert next(found) == 1
    with pytest.raises(DataError, match="from afar"):
        next(found)
    twice = stream.in_background(k for k in stream.in_background(items()))
    assert next(twice) == 1
    with pytest.raises(DataError, match="from afar"):
        next(twice)
    assert list(stream.in_background(iter(range(50)))) == list(range(50))


@pytest.mark.parametrize("shape", [(1, 1), (4096, 3), (5000, 7), (2, 270_000)])
def test_columns_side_by_side(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    found = stream.side_by_side(list(np.asfortranarray(X).T), np.dtype(np.float64))
    assert np.array_equal(found, X)
    assert found.flags.f_contiguous


@pytest.mark.parametrize("sizes", [[5, 5], [1] * 11, [3, 4, 2, 9], [12], [], [2, 3, 5]])
def test_regroup(sizes):
    ends = np.cumsum([0, *sizes])
    parts = [
        stream.Raw(np.arange(a, b)[:, None], np.arange(a, b), None)
        for a, b in itertools.pairwise(ends)
    ]
    found = list(stream.regroup(parts, 5))
    total = int(ends[-1])
    assert all(len(raw) % 5 == 0 for raw in found[:-1])
    if found:
        assert len(found[-1]) % 5 == 0 or len(found[-1]) == total % 5
        assert np.concatenate([raw.labels for raw in found]).tolist() == list(range(total))
        assert np.concatenate([raw.rows.ravel() for raw in found]).tolist() == list(range(total))


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_streams_are_the_same_bits(tmp_path, monkeypatch, dtype):
    pytest.importorskip("numba")
    X, y = make()
    path = write(tmp_path / "a.parquet", X.astype(dtype), y, row_group_size=6000)
    table = from_parquet(path, label="y")
    source, calls = table.bounded(BOUNDS, order="given"), []
    loop = rescale._loop
    monkeypatch.setattr(rescale, "_loop", lambda *names: calls.append(names) or loop(*names))
    monkeypatch.setenv("DPSCO_COMPILED", "0")
    reference = source.rows()
    assert not calls
    monkeypatch.setenv("DPSCO_COMPILED", "1")
    same(source.rows(), reference)
    assert calls
    same(source.rows(5000, 12345), reference[5000:12345])
    same(source.rows(77, 78), reference[77:78])
    same(from_arrays(X.astype(dtype), y).bounded(BOUNDS, order="given").rows(), reference)


def test_the_size_of_the_whole_table_decides_about_compiled_passes(file, monkeypatch):
    sizes = []
    monkeypatch.setattr("dpsco.data.bounds.use_compiled", lambda *size: sizes.append(size))
    source = from_parquet(file, label="y").bounded(BOUNDS, order="given")
    source.rows(0, 10)
    assert set(sizes) == {(N, source.d - (BOUNDS.intercept is not None))}


def test_what_a_row_stores_is_public_and_decides_about_compiled_sums(tmp_path):
    table = mixed(500)
    pq.write_table(table, tmp_path / "a.parquet")
    for sparse in (False, True):
        encoder = TableEncoder(SCHEMA, sparse=sparse)
        found = from_parquet(tmp_path, encoder=encoder, spill=tmp_path)
        bounds = encoder.bounds(feature_norm=1.2, intercept=1.0)
        source = found.bounded(bounds, order="given")
        stored = encoder.slots + 1 if sparse else source.d
        assert source._entries() == stored
        with found.bounded(bounds, order="shuffled") as shuffled:
            assert shuffled._entries() == stored
    assert stored < source.d


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path):
    """One row group of a million rows (84 MB): reading it takes a fraction of that."""
    rng = np.random.default_rng(0)
    names = [f"x{k}" for k in range(20)]
    path = tmp_path / "a.parquet"
    column = pa.array(rng.standard_normal(1_000_000).astype(np.float32))
    table = pa.table(dict.fromkeys([*names, "y"], column))
    pq.write_table(table, path, row_group_size=1_000_000, use_dictionary=False, compression="none")
    assert path.stat().st_size > 80e6
    program = f"""
import resource
from dpsco.data.tables.parquet import from_parquet
from dpsco.data.bounds import Bounds
import pyarrow.parquet, numpy
source = from_parquet({str(path)!r}, label="y").bounded(Bounds(1.0, label=5.0), order="given")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
source.rows(0, 1)
before = peak()
print(sum(len(block) for block in source.blocks()), peak() - before)
"""
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    rows, growth = map(int, shown.stdout.split())
    assert rows == 1_000_000
    assert growth < 50  # MiB


def test_the_footer_reader_keeps_a_stamp(file):
    footer = parquet.read_footers(file)[0]
    assert footer.rows == N
    assert footer.groups == (6000, 6000, 6000, 3000)
    assert footer.stamp[0] == file.stat().st_size
