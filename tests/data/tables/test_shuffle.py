"""The shuffle on disk: exactly uniform, loses nothing, leaves nothing behind."""

import gc
import itertools
import math
import os
import resource
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsco.data.bounds import Bounds
from dpsco.data.schema.encoder import TableEncoder
from dpsco.data.schema.schema import Flag, Hashed, Number, Schema, SignLabel
from dpsco.data.tables import shuffle
from dpsco.data.tables.parquet import from_parquet
from dpsco.data.tables.table import from_arrays
from dpsco.errors import DataError
from dpsco.privacy.randomness import Randomness

DENSE = np.dtype(np.float64)


def source_of(n, d=2):
    """Return rows whose first entry is their number."""
    X = np.zeros((n, d))
    X[:, 0] = np.arange(n)
    return from_arrays(X, np.arange(n)).bounded(Bounds(1e9, label=1e9), order="given")


def order_of(source):
    return source.rows().rows[:, 0].astype(int)


@pytest.mark.slow
def test_every_order_of_four_rows_is_equally_likely(tmp_path):
    """Three buckets for four rows, 6,000 shuffles, 24 orders: chi-square with 23 degrees.

    The bound 80 is exceeded with probability 3e-8; orders that favour some rows exceed it by far.
    """
    stream = Randomness.seeded(1).child("test")
    source, size = source_of(4), shuffle.record_layout(2, DENSE, None).itemsize
    counts = Counter()
    for _ in range(6_000):
        bytes_each = 4 * size // 3 + 1
        with shuffle.shuffled(source, DENSE, tmp_path, stream, bucket_bytes=bytes_each) as found:
            counts[tuple(order_of(found))] += 1
    assert set(counts) == set(itertools.permutations(range(4)))
    statistic = sum((count - 250) ** 2 / 250 for count in counts.values())
    assert statistic < 80


@pytest.mark.parametrize("buckets", [1, 7, 200])
def test_large_shuffles_lose_nothing(tmp_path, monkeypatch, buckets):
    monkeypatch.setattr(shuffle, "_BUFFER_BYTES", 500)
    monkeypatch.setattr(shuffle, "_CHUNK_BYTES", 300_000)
    n, size = 30_000, shuffle.record_layout(2, DENSE, None).itemsize
    source = source_of(n)
    stream = Randomness.seeded(2).child("test")
    found = shuffle.shuffled(source, DENSE, tmp_path, stream, bucket_bytes=-(-n * size // buckets))
    whole = found.rows()
    order = whole.rows[:, 0].astype(int)
    assert sorted(order) == list(range(n))
    assert np.array_equal(whole.labels, order)  # labels, norms travel with their rows
    expected = source.take(order)
    for name in ("rows", "labels", "norms", "present"):
        assert np.array_equal(getattr(whole, name), getattr(expected, name))
    # No trace of the old order: neighbours are unrelated, halves are mixed.
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 6 / math.sqrt(n)
    assert abs(np.corrcoef(order, np.arange(n))[0, 1]) < 6 / math.sqrt(n)
    low = np.count_nonzero(order[: n // 2] < n // 2)
    assert abs(low - n / 4) < 6 * math.sqrt(n / 16)
    assert [len(block) for block in found.blocks(10, 9000)] == [4096, 4096, 798]
    assert np.array_equal(found.rows(10, 9000).rows, whole.rows[10:9000])
    chosen = [5, 29_999, 5, 0]
    assert np.array_equal(found.take(chosen).rows, whole.rows[chosen])
    found.close()


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    n = 10_000
    data = {"x": rng.standard_normal(n).astype(np.float32), "k": np.arange(n, dtype=np.float32)}
    data["x"][:50] = np.nan
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({**data, "y": np.where(rng.random(n) < 0.5, -1, 1)}), path)
    return path


def test_a_file_in_secret_order(file, tmp_path):
    bounds = Bounds(1e5, label="sign", intercept=1.0)
    table = from_parquet(file, label="y", spill=tmp_path)
    stream = table.bounded(bounds, order="given").rows()
    orders = []
    for seed in (1, 1, 2, None):
        root = None if seed is None else Randomness.seeded(seed)
        with table.bounded(bounds, order="shuffled", randomness=root) as source:
            block = source.rows()
        assert block.rows.dtype == np.float32
        assert np.count_nonzero(~block.present) == 50
        order = np.lexsort((block.labels, block.rows[:, 0], block.rows[:, 1]))
        expected = np.lexsort((stream.labels, stream.rows[:, 0], stream.rows[:, 1]))
        for name in ("rows", "labels", "norms", "present"):
            one, two = getattr(block, name)[order], getattr(stream, name)[expected]
            if name in ("rows", "norms"):
                assert np.array_equal(one, two)
            else:
                assert np.array_equal(one[50:], two[50:])
        orders.append(block.rows[:, 1].tobytes())
    assert orders[0] == orders[1]  # a seed repeats itself
    assert len(set(orders)) == 3


def test_sparse_rows(tmp_path):
    rng = np.random.default_rng(0)
    n = 9000
    table = pa.table({
        "a": pa.array(rng.normal(size=n), mask=rng.random(n) < 0.3),
        "b": [f"w{k}" for k in rng.integers(0, 500, n)],
        "c": pa.array(rng.random(n) < 0.5, mask=rng.random(n) < 0.3),
        "y": np.where(rng.random(n) < 0.9, 1, 0),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    encoder = TableEncoder(
        Schema((Number("a", -1, 1), Hashed("b", 5000), Flag("c")), SignLabel("y"))
    )
    assert encoder.sparse
    bounds = encoder.bounds(feature_norm=1.0, intercept=1.0)
    raw = from_parquet(tmp_path / "a.parquet", encoder=encoder, spill=tmp_path)
    expected = raw.bounded(bounds, order="given").rows()
    with raw.bounded(bounds, order="shuffled") as source:
        found = source.rows()
        part = source.take([3, 1])
    assert np.array_equal(part.rows.matrix().toarray(), found.rows.matrix()[[3, 1]].toarray())

    def ranked(block):
        dense = block.rows.matrix()
        weights = np.random.default_rng(1).standard_normal(dense.shape[1])
        return np.sort(dense @ weights), np.sort(block.norms), np.sort(block.labels)

    for one, two in zip(ranked(found), ranked(expected), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-13)
    assert found.rows.matrix().nnz == expected.rows.matrix().nnz
    assert not np.array_equal(found.norms, expected.norms)


@pytest.mark.thorough
def test_nothing_stays_in_the_folder(file, tmp_path):
    spill = tmp_path / "spill"
    spill.mkdir()
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    source = from_parquet(file, label="y", spill=spill).bounded(Bounds(1.0, label="sign"))
    assert os.listdir(spill) == []  # the file has no name, even while it is used
    assert source.rows(0, 10).rows.shape == (10, 2)
    source.close()
    source.close()
    with pytest.raises(DataError, match="deleted when their source was closed"):
        source.rows()
    other = from_parquet(file, label="y", spill=spill).bounded(Bounds(1.0, label="sign"))
    del other
    gc.collect()
    if before:
        assert set(os.listdir("/proc/self/fd")) == before


def test_a_source_that_fails_midway_leaves_nothing(file, tmp_path):
    table = from_parquet(file, label="y", spill=tmp_path)
    os.utime(file, ns=(1, 1))
    with pytest.raises(DataError, match="changed"):
        table.bounded(Bounds(1.0, label="sign"))
    assert os.listdir(tmp_path) == ["a.parquet"]


def test_folders_that_will_not_do(file, tmp_path, monkeypatch):
    for folder in (tmp_path / "none", file):
        with pytest.raises(DataError, match="existing folder"):
            from_parquet(file, label="y", spill=folder).bounded(Bounds(1.0, label="sign"))

    class Usage:
        free = 1000

    monkeypatch.setattr(shuffle.shutil, "disk_usage", lambda _: Usage)
    with pytest.raises(DataError, match=r"needs 500,000 bytes .* 1,000 are free"):
        from_parquet(file, label="y", spill=tmp_path).bounded(Bounds(1.0, label="sign"))


def test_a_full_disk_is_a_data_error(file, tmp_path):
    pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(DataError, match="cannot write the shuffled rows"):
            from_parquet(file, label="y", spill=tmp_path).bounded(Bounds(1.0, label="sign"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
