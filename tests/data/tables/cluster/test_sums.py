"""Sums by slices are the bits of one process, whoever sums them and however often."""

import dataclasses
import pickle

import numpy as np
import pytest

from dpsco import data, losses
from dpsco.data.counts import PresentRows
from dpsco.data.gradient_norms import GradientNorms, TrackedGradient
from dpsco.data.histograms import ColumnHistogram, LabelHistogram, NormHistogram
from dpsco.data.moments import ColumnMoments, RowMoments, SquaredLengths
from dpsco.data.queries import ClippedCoordinates, ClippedDifference, ClippedGradient, InUnits
from dpsco.data.tables.cluster.messages import QUERIES
from dpsco.data.tables.cluster.source import SumTrace, slice_leaves
from dpsco.data.transformed import TransformedGradient
from dpsco.data.units import Units
from dpsco.data.vertices import FadingScores, VertexScores
from dpsco.errors import ParameterError
from dpsco.geometry import LINF
from dpsco.geometry.domains import L1Ball

BOUNDS = data.Bounds(2.0, label="sign", intercept=1.0)
PLAIN = data.Bounds(2.0, label="sign")
W, V = np.linspace(-1.0, 1.0, 6), np.linspace(0.5, -0.25, 6)
LOSS = losses.Logistic()
GRADIENT = ClippedGradient(LOSS, W, 0.5)
SCORES = VertexScores(ClippedGradient(LOSS, W, 0.5, LINF), L1Ball(2.0))
UNITS = Units(np.linspace(1.0, 2.0, 5), np.linspace(-0.5, 0.5, 5), cut=3.0)
ASKED = [
    (GRADIENT, BOUNDS),
    (ClippedDifference(LOSS, W, V, 1.0, 0.25, 0.5), BOUNDS),
    (ClippedCoordinates(losses.Huber(0.5), W, 0.1), BOUNDS),
    (ClippedGradient(losses.Softmax(3), np.tile(W, 3), 0.5), None),
    (InUnits(GRADIENT), BOUNDS),
    (GradientNorms(LOSS, W, [0.1, 0.5, 1.0]), BOUNDS),
    (TrackedGradient(GRADIENT), BOUNDS),
    (data.ScoreGradient(LOSS, W, V, 1.0, 0.5), BOUNDS),
    (SCORES, BOUNDS),
    (FadingScores(SCORES, 0.5, 2.0), BOUNDS),
    (PresentRows(), BOUNDS),
    (NormHistogram(), NormHistogram().bounds(BOUNDS)),
    (ColumnHistogram(5), ColumnHistogram(5).bounds(BOUNDS)),
    (LabelHistogram(), LabelHistogram().bounds(data.Bounds(2.0, label=1.0))),
    (RowMoments(5, 2.0, 1.0), PLAIN),
    (SquaredLengths(5, 2.0), PLAIN),
    (ColumnMoments(5, 1.0), ColumnMoments(5, 1.0).bounds(PLAIN, UNITS)),
]


def sums(table):
    """Return sums over all rows, a range, a sample, and a sparse sample."""
    source = table.bounded(BOUNDS, order="given")
    sample = np.flatnonzero(np.random.default_rng(1).random(source.n) < 0.3)
    return [
        source.sum(GRADIENT),
        source.sum(GRADIENT, 123, 50_000),
        source.sum(GRADIENT, 5, 5),
        source.sum_at(GRADIENT, sample),
        source.sum_at(GRADIENT, sample[::500]),
        source.sum_at(GRADIENT, sample[::-1]),
    ]


@pytest.mark.parametrize("slice_rows", [None, 4096, 20_000])
@pytest.mark.parametrize("workers", ["threads:1", "threads:3"])
def test_sums_are_the_bits_of_one_process(folder, workers, slice_rows):
    expected = sums(data.from_parquet(folder, label="y"))
    with data.from_cluster(
        str(folder / "*.parquet"), label="y", cluster=workers, slice_rows=slice_rows
    ) as table:
        for answer, right in zip(sums(table), expected, strict=True):
            assert answer.tobytes() == right.tobytes()


@pytest.mark.parametrize("compiled", ["0", "1"])
def test_the_driver_decides_whether_loops_are_compiled(folder, compiled, monkeypatch):
    if compiled == "1":
        pytest.importorskip("numba")
    monkeypatch.setenv("DPSCO_COMPILED", compiled)
    expected = sums(data.from_parquet(folder, label="y"))
    with data.from_cluster(folder, label="y", cluster="threads:2", slice_rows=8192) as table:
        for answer, right in zip(sums(table), expected, strict=True):
            assert answer.tobytes() == right.tobytes()


@pytest.mark.parametrize(("query", "bounds"), ASKED, ids=lambda each: type(each).__name__)
def test_every_query_crosses(folder, query, bounds):
    if bounds is None:
        bounds = data.Bounds(2.0, label=data.Classes(-1.0, 1.0, 2.0), intercept=1.0)
    right = data.from_parquet(folder, label="y").bounded(bounds, order="given").sum(query)
    with data.from_cluster(folder, label="y", cluster="threads:2", slice_rows=16_384) as table:
        answer = table.bounded(bounds, order="given").sum(query)
    assert answer.tobytes() == right.tobytes()
    assert np.abs(right).sum() > 0.0


def test_every_known_query_is_asked():
    assert {type(query) for query, _ in ASKED} >= set(QUERIES)


def test_queries_with_code_stay_here(folder):
    query = TransformedGradient(LOSS, W, 1.0, lambda gradient: gradient)
    with data.from_cluster(folder, label="y", cluster="threads:1") as table:
        source = table.bounded(BOUNDS, order="given")
        with pytest.raises(ParameterError, match="workers of a cluster do not know Transformed"):
            source.sum(query)
        for rows in (lambda: source.rows(0, 2), lambda: source.take([1])):
            with pytest.raises(ParameterError, match="stay with its workers"):
                rows()
        with pytest.raises(TypeError, match="private rows"):
            pickle.dumps(source)


def test_row_groups_are_shuffled_and_nothing_is_lost(folder):
    """Each row counts once: counts agree, and so does the sum, up to its rounding."""
    from dpsco.privacy.randomness import Randomness

    with data.from_cluster(folder, label="y", cluster="threads:2", shuffle="groups") as table:
        first, again, other = (
            table.bounded(BOUNDS, order="shuffled", randomness=Randomness.seeded(seed))
            for seed in (1, 1, 2)
        )
        given = table.bounded(BOUNDS, order="given")
        assert first.sum(PresentRows()) == given.sum(PresentRows()) == [given.n]
        np.testing.assert_allclose(first.sum(GRADIENT), given.sum(GRADIENT), rtol=1e-9)
        parts = [source.sum(GRADIENT, 0, 9_000) for source in (first, again, other, given)]
        assert parts[0].tobytes() == parts[1].tobytes()
        assert len({part.tobytes() for part in parts}) == 3
        assert any("row groups come in a random order" in s for s in table.trusted("shuffled"))
        assert table.shuffle != "shuffled"


@pytest.mark.parametrize("order", ["given", "shuffled"])
def test_who_sees_the_coins_is_said(folder, order):
    """Amplification by sampling holds against those alone who do not know which rows were drawn."""
    with data.from_cluster(folder, label="y", cluster="threads:1", shuffle="groups") as table:
        assert any("which rows are drawn" in sentence for sentence in table.trusted(order))


def test_a_watch_hears_of_each_sum(folder):
    traces, steps = [], []
    with data.from_cluster(
        folder,
        label="y",
        cluster="threads:2",
        slice_rows=8192,
        watch=traces.append,
        progress=lambda done, total: steps.append((done, total)),
    ) as table:
        table.bounded(BOUNDS, order="given").sum(GRADIENT)
    (trace,) = traces
    assert isinstance(trace, SumTrace)
    assert (trace.rows, trace.slices, trace.repeated) == (60_010, 8, 0)
    assert 0.0 <= trace.slowest <= trace.seconds
    assert trace.received > 8 * 8 * 6
    assert steps == [(k, 8) for k in range(1, 9)]


def test_a_watch_is_not_told_how_many_rows_were_drawn(folder):
    """Amplification by sampling counts on that: the size of a sample is secret.

    Whoever hears of progress is told nothing of a sample; of a range, whose size is public, all.
    """
    traces, steps = [], []
    how = {"cluster": "threads:1", "watch": traces.append}
    how["progress"] = lambda done, total: steps.append((done, total))
    with data.from_cluster(folder, label="y", **how) as table:
        source = table.bounded(BOUNDS, order="given")
        source.sum_at(GRADIENT, np.arange(0, 60_000, 7))
        assert steps == []
        source.sum(GRADIENT, 0, 20_000)
    sample, range_ = traces
    assert (sample.rows, sample.slices, sample.sent, sample.received) == (None,) * 4
    assert range_.rows == 20_000
    assert steps
    assert steps[-1] == (range_.slices, range_.slices)


def test_slices_are_powers_of_two():
    for rows, workers, group in ((10, 1, 5), (10**6, 2, 10**5), (10**9, 100, 2**20), (5000, 64, 1)):
        leaves = slice_leaves(rows, workers, group)
        assert leaves >= 1
        assert leaves & (leaves - 1) == 0
    assert slice_leaves(10**9, 100, 2**20) == 512  # several for each worker


def test_an_encoder_crosses(tmp_path):
    """Columns of any kind, a label of classes, sparse rows: as the same file read here."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    generator = np.random.default_rng(3)
    age = generator.uniform(0.0, 100.0, 9_000)
    work, label = (generator.choice(words, 9_000) for words in (["a", "b", "?"], ["no", "yes"]))
    columns = {"age": age, "work": work, "label": label}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet", row_group_size=2_500)
    kinds = (data.Number("age", 0, 100), data.Category("work", ("a", "b")))
    schema = data.Schema(kinds, data.ClassLabel("label", ("no", "yes")))
    for sparse, dtype in ((False, np.float32), (True, np.float64)):
        encoder = data.TableEncoder(schema, sparse=sparse, dtype=dtype)
        bounds = encoder.bounds(intercept=1.0)
        query = ClippedGradient(LOSS, W[:4], 0.5)
        here = data.from_parquet(tmp_path, encoder=encoder).bounded(bounds, order="given")
        with data.from_cluster(tmp_path, encoder=encoder, cluster="threads:2") as table:
            there = table.bounded(bounds, order="given")
            assert there.sum(query).tobytes() == here.sum(query).tobytes()
            assert dataclasses.replace(bounds) == there.bounds
