"""Origins tell files from others, and from themselves after a change."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsco.data import Number, Schema, TableEncoder, from_arrays, from_batches, from_csv
from dpsco.data import from_parquet as parquet
from dpsco.data.tables.origin import difference, shareable

SCHEMA = Schema((Number("a", 0, 1), Number("b", 0, 1)))


@pytest.fixture
def path(tmp_path):
    """A Parquet file of two columns."""
    return write(tmp_path / "rows.parquet")


def write(path, rows=9):
    pq.write_table(pa.table({"a": np.arange(rows) / 10, "b": np.ones(rows)}), path)
    return path


def test_rows_of_no_file_have_none():
    assert from_arrays(np.ones((3, 2))).origin is None
    assert from_batches([np.ones((3, 2))], n=3, d=2, labels="none").origin is None


def test_a_file_is_itself_under_every_name(path, tmp_path, monkeypatch):
    first = parquet(path).origin
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.parquet").symlink_to(path)
    assert parquet("rows.parquet").origin == parquet("link.parquet").origin == first
    assert json.loads(first)["files"] == [[str(path), path.stat().st_size, path.stat().st_mtime_ns]]


def test_other_files_and_other_readings_are_told_apart(path, tmp_path):
    other = write(tmp_path / "other.parquet")
    origins = [
        parquet(path).origin,
        parquet(other).origin,
        parquet(tmp_path).origin,
        parquet(path, features=["b", "a"]).origin,
        parquet(path, features=["a"]).origin,
        parquet(path, label="b").origin,
        parquet(path, encoder=TableEncoder(SCHEMA)).origin,
        parquet(path, encoder=TableEncoder(SCHEMA, dtype=np.float32)).origin,
        parquet(path, encoder=TableEncoder(Schema((Number("a", 0, 1), Number("b", 0, 2))))).origin,
    ]
    os.utime(path, ns=(5, path.stat().st_mtime_ns + 1))
    origins.append(parquet(path).origin)
    write(path, rows=10)
    origins.append(parquet(path).origin)
    assert len(set(origins)) == len(origins)
    shared = [shareable(origin) for origin in origins]
    assert len(set(shared)) == len(shared)


def test_csv_files_have_one_too(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n0.5,1\n")
    first = from_csv(path, encoder=TableEncoder(SCHEMA)).origin
    assert from_csv(path, encoder=TableEncoder(SCHEMA)).origin == first
    path.write_text("a,b\n0.5,0.25\n")
    assert from_csv(path, encoder=TableEncoder(SCHEMA)).origin != first


def test_rows_that_were_loaded_from_a_file_can_say_so(path):
    table = from_arrays(np.ones((3, 2)), np.ones(3)).declare("sign", origin=parquet(path).origin)
    assert table.origin == parquet(path).origin
    assert table.declare("sign").origin == parquet(path).origin


def test_differences_in_words(path, tmp_path):
    one, other = parquet(path).origin, parquet(write(tmp_path / "other.parquet")).origin
    assert difference(one, other) == (
        f"it was begun on {path}, and this is {tmp_path / 'other.parquet'}"
    )
    both = parquet(tmp_path).origin
    assert difference(both, other) == f"it was begun with the file {path} too"
    assert difference(other, both) == f"it was begun without the file {path}"
    assert "same files read otherwise" in difference(one, parquet(path, label="b").origin)
    assert difference(None, one).endswith(f"and this is {path}")
    os.utime(path, ns=(0, 10**9))
    words = difference(one, parquet(path).origin)
    assert words.startswith(f"{path} has changed since it was begun (20")
    assert words.endswith("now 1970-01-01T00:00:01 UTC)")


def test_sizes_are_not_shared(path):
    size = str(path.stat().st_size)
    assert size in parquet(path).origin
    assert json.loads(shareable(parquet(path).origin))["files"][0][1] is None
    assert shareable(None) is None
