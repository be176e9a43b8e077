"""Tables and sources: the one door, the order, ranges, sums of leaves, and what is refused."""

import pickle

import numpy as np
import pytest
import scipy.sparse

from dpsco.data import Bounds, Classes, ClippedGradient, MemorySource, Source, from_arrays
from dpsco.data.source import SUM_LEAF
from dpsco.errors import DataError, ParameterError
from dpsco.kernels import compiler
from dpsco.kernels.pairwise import PairwiseSum
from dpsco.losses import Logistic, Squared
from dpsco.privacy import Randomness

BOUNDS = Bounds(2.0, label="sign", intercept=1.0)


def data(n=10_000, d=3, seed=0, sparse=False, dtype=float):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    y = np.where(rng.random(n) < 0.5, -1, 1)
    X[5, 0], y[6] = np.nan, 0
    return (scipy.sparse.csr_array(X) if sparse else X), y


def dense(block):
    return block.rows if isinstance(block.rows, np.ndarray) else block.rows.matrix().toarray()


class Leafy(Source):
    """A source that has only what a subclass must write."""

    def __init__(self, whole, bounds, *, cut=None):
        super().__init__(len(whole), whole.d, bounds)
        self.whole, self.cut, self.read = whole, cut, []

    def _blocks(self, start, stop):
        stop = stop if self.cut is None else min(stop, self.cut)
        for begin in range(start, stop, SUM_LEAF):
            self.read.append(begin)
            yield self.whole[begin : min(begin + SUM_LEAF, stop)]


# -- tables ----------------------------------------------------------------------------------------


def test_a_table_shows_its_shape_and_nothing_else():
    table = from_arrays([[123.25, 1.0], [77.5, 2.0]], np.array([1, -1]))
    assert repr(table) == "<MemoryTable: 2 x 2, float64, labels: number>"
    assert (table.n, table.d, table.labels) == (2, 2, "number")
    source = table.bounded(BOUNDS)
    assert "123" not in repr(source)
    assert "2 rows of 3 columns" in repr(source)
    with pytest.raises(TypeError, match="raw rows"):
        pickle.dumps(table)
    public = {name for name in dir(table) if not name.startswith("_")}
    facts = {"n", "d", "dtype", "labels", "feature_names", "once", "origin", "shuffle", "encoded"}
    facts |= {"sparse", "sums_only", "trusted"}
    assert public == {*facts, "bounded", "check", "check_loss", "declare", "part"}


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (np.zeros(3), None, "reshape"),
        (np.zeros((2, 2, 2)), None, "two axes"),
        (np.zeros((0, 2)), None, "0 x 2"),
        (np.zeros((2, 0)), None, "2 x 0"),
        ([[1.0], [2.0, 3.0]], None, "X"),
        (np.array([["a"]]), None, "numbers"),
        (np.array([[1j]]), None, "complex"),
        (np.zeros((2, 1), dtype="M8[s]"), None, "datetime64"),
        (np.ma.masked_invalid([[1.0, np.nan]]), None, "mask"),
        (np.zeros((3, 1)), np.zeros(2), "3 rows, but y has 2"),
        (np.zeros((2, 1)), np.zeros((2, 1)), "ravel"),
        (scipy.sparse.csr_array(np.zeros((2, 2), dtype=complex)), None, "complex"),
        (scipy.sparse.csr_array(np.zeros((2, 2))), np.zeros(3), "2 rows, but y has 3"),
        (scipy.sparse.csr_array((1, 2**31)), None, "columns"),
    ],
)
def test_arrays_of_the_wrong_shape_or_type_are_refused(X, y, words):
    with pytest.raises(DataError, match=words):
        from_arrays(X, y)


def test_errors_depend_on_no_value_and_show_none():
    with pytest.raises(DataError) as caught:
        from_arrays(np.array([98765.5, None], dtype=object))
    assert "98765" not in str(caught.value)
    with pytest.raises(DataError) as caught:
        from_arrays(np.zeros((1, 1)), np.array(["secret"])).bounded(BOUNDS)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("bounds", "y"),
    [(BOUNDS, None), (Bounds(1.0), np.ones(2)), (Bounds(1.0, label=Classes("a", "b")), np.ones(2))],
)
def test_bounds_that_do_not_fit_the_table_are_refused(bounds, y):
    with pytest.raises(DataError):
        from_arrays(np.zeros((2, 1)), y).bounded(bounds)


def test_bounded_refuses_other_arguments():
    table = from_arrays(np.zeros((2, 1)))
    with pytest.raises(ParameterError, match="Bounds"):
        table.bounded(1.0)
    with pytest.raises(ParameterError, match="order"):
        table.bounded(Bounds(1.0), order="sorted")
    with pytest.raises(ParameterError, match="randomness"):
        table.bounded(Bounds(1.0), randomness=7)


@pytest.mark.parametrize(
    "form", ["csr_matrix", "csc_array", "coo_array", "lil_matrix", "dok_array"]
)
def test_every_sparse_format_is_read_without_making_it_dense(form):
    X, y = data(400, sparse=False)
    X[:, 1] = 0.0
    wanted = from_arrays(X, y).bounded(BOUNDS, order="given").rows()
    sparse = getattr(scipy.sparse, form)(X)
    block = from_arrays(sparse, y).bounded(BOUNDS, order="given").rows()
    np.testing.assert_allclose(dense(block), wanted.rows, rtol=1e-15)
    np.testing.assert_allclose(block.norms, wanted.norms, rtol=1e-14)
    assert np.array_equal(block.present, wanted.present)
    wide = scipy.sparse.coo_array(([5.0], ([1], [10**9])), shape=(3, 10**9 + 1))
    assert from_arrays(wide).bounded(Bounds(1.0)).d == 10**9 + 1


# -- the order -------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_the_secret_order_is_a_fresh_permutation_of_all_rows(sparse):
    X, y = data(9000, sparse=sparse)
    table = from_arrays(X, y)
    stream = table.bounded(BOUNDS, order="given").rows()
    plain = np.column_stack([dense(stream), stream.labels, stream.norms, stream.present])
    orders = []
    for _ in range(3):
        block = table.bounded(BOUNDS).rows()
        found = np.column_stack([dense(block), block.labels, block.norms, block.present])
        assert np.array_equal(found[np.lexsort(found.T)], plain[np.lexsort(plain.T)])
        assert not np.array_equal(found, plain)
        orders.append(found)
    assert not any(np.array_equal(orders[k], orders[k - 1]) for k in range(3))


def test_the_order_comes_from_the_randomness_that_was_given():
    X, y = data(5000)
    table = from_arrays(X, y)
    first = table.bounded(BOUNDS, randomness=Randomness.seeded(3)).rows()
    again = table.bounded(BOUNDS, randomness=Randomness.seeded(3)).rows()
    other = table.bounded(BOUNDS, randomness=Randomness.seeded(4)).rows()
    assert np.array_equal(first.rows, again.rows)
    assert not np.array_equal(first.rows, other.rows)
    root = Randomness.seeded(3)
    assert np.array_equal(table.bounded(BOUNDS, randomness=root).rows().rows, first.rows)
    assert not np.array_equal(table.bounded(BOUNDS, randomness=root).rows().rows, first.rows)
    order = Randomness.seeded(3).child("order of the rows").permutation(5000)
    wanted = table.bounded(BOUNDS, order="given").rows().take(order)
    assert np.array_equal(first.rows, wanted.rows)
    assert np.array_equal(first.labels, wanted.labels)


def test_stream_order_uses_no_randomness():
    root = Randomness.seeded(1)
    X, y = data(100)
    from_arrays(X, y).bounded(BOUNDS, order="given", randomness=root)
    assert np.array_equal(root.child("x").words(4), Randomness.seeded(1).child("x").words(4))


def test_the_private_copy_does_not_follow_the_caller():
    X, y = data(100)
    source = from_arrays(X, y).bounded(BOUNDS, order="given")
    before = source.rows().rows.copy()
    X[:] = 0.0
    y[:] = 0
    assert np.array_equal(source.rows().rows, before)


# -- rows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", [MemorySource, Leafy])
def test_ranges_and_choices(kind, sparse):
    X, y = data(9500, sparse=sparse)
    whole = from_arrays(X, y).bounded(BOUNDS, order="given").rows()
    source = kind(whole, BOUNDS)
    assert (source.n, source.d, source.bounds) == (9500, 4, BOUNDS)
    all_rows = dense(whole)
    for start, stop in [(0, 9500), (0, 0), (9500, 9500), (17, 18), (4095, 4097), (100, 9000)]:
        block = source.rows(start, stop)
        assert np.array_equal(dense(block), all_rows[start:stop])
        assert np.array_equal(block.labels, whole.labels[start:stop])
        sizes = [len(leaf) for leaf in source.blocks(start, stop)]
        assert sum(sizes) == stop - start
        assert all(size == SUM_LEAF for size in sizes[:-1])
        leaves = [dense(leaf) for leaf in source.blocks(start, stop)]
        assert np.array_equal(np.concatenate([np.empty((0, 4)), *leaves]), all_rows[start:stop])
    indices = np.array([9499, 0, 4096, 4095, 0, 5])
    block = source.take(indices)
    assert np.array_equal(dense(block), all_rows[indices])
    assert np.array_equal(block.present, whole.present[indices])
    assert len(source.take([])) == 0


@pytest.mark.parametrize(
    ("start", "stop"), [(-1, 5), (0, 101), (6, 5), (0.0, 5), (0, True), ("0", 5), (101, None)]
)
def test_ranges_outside_are_refused(start, stop):
    source = from_arrays(*data(100)).bounded(BOUNDS)
    query = ClippedGradient(Logistic(), np.zeros(4), 1.0)
    for call in (source.rows, source.blocks, lambda a, b: source.sum(query, a, b)):
        with pytest.raises(ParameterError):
            call(start, stop)


@pytest.mark.parametrize("indices", [[-1], [100], [0.5], [[1]], [True], ["a"], 3])
def test_indices_outside_are_refused(indices):
    source = from_arrays(*data(100)).bounded(BOUNDS)
    with pytest.raises(ParameterError):
        source.take(indices)
    with pytest.raises(ParameterError):
        source.sum_at(ClippedGradient(Logistic(), np.zeros(4), 1.0), indices)


# -- sums ------------------------------------------------------------------------------------------


def test_a_sum_is_that_of_leaves_from_start_combined_pairwise():
    X, y = data(30_000)
    source = from_arrays(X, y).bounded(BOUNDS, order="given")
    query = ClippedGradient(Logistic(), np.array([0.3, -1.0, 2.0, 0.1]), 0.5)
    total = PairwiseSum()
    for begin in range(77, 29_001, SUM_LEAF):
        total.add(query.sum(source.rows(begin, min(begin + SUM_LEAF, 29_001))))
    found = source.sum(query, 77, 29_001)
    assert np.array_equal(found, total.result())
    assert np.array_equal(found, source.sum(query, 77, 29_001))
    assert np.array_equal(found, Leafy(source.rows(), BOUNDS).sum(query, 77, 29_001))
    assert found.dtype == np.float64


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_are_clipped_anew_are_those_of_the_copy(sparse):
    table = from_arrays(*data(10_000, sparse=sparse))
    stored, view = (table.bounded(BOUNDS, order="given", copy=copy) for copy in (True, False))
    assert (view.n, view.d) == (stored.n, stored.d)
    for start, stop in ((0, 10_000), (5, 4200)):
        first, second = stored.rows(start, stop), view.rows(start, stop)
        assert np.array_equal(dense(first), dense(second))
        for name in ("labels", "norms", "present"):
            assert np.array_equal(getattr(first, name), getattr(second, name))
    query = ClippedGradient(Logistic(), np.array([0.3, -1.0, 2.0, 0.1]), 0.5)
    np.testing.assert_allclose(stored.sum(query), view.sum(query), rtol=1e-12)
    with pytest.raises(TypeError, match="private rows"):
        pickle.dumps(view)


def test_whoever_announces_many_sums_decides_for_all_of_them(monkeypatch):
    monkeypatch.delenv("DPSCO_COMPILED", raising=False)
    decisions = []

    class Watched(ClippedGradient):
        def sum(self, block):
            decisions.append(compiler.use_compiled(0.0))
            return super().sum(block)

    monkeypatch.setattr(compiler, "_installed", lambda: True)
    monkeypatch.setattr("dpsco.data.queries.slope_sum", lambda *_: np.zeros(4))
    source, query = from_arrays(*data(100)).bounded(BOUNDS), Watched(Logistic(), np.ones(4), 0.5)
    for rows, points in [(10**6, 1), (10**9, 1), (10**6, 1000), (10**6, 1)]:
        source.expect(rows, points=points)
        source.sum(query)
        source.sum_at(query, [1, 2])
        assert decisions[-2:] == [rows * points > 10**8] * 2
    fresh = from_arrays(*data(100)).bounded(BOUNDS)
    fresh.sum(query)
    assert not decisions[-1]


def test_sums_of_parts_add_up_and_empty_ones_are_zero():
    source = from_arrays(*data(9000)).bounded(BOUNDS)
    query = ClippedGradient(Logistic(), np.ones(4), 0.5)
    parts = [source.sum(query, a, b) for a, b in [(0, 10), (10, 10), (10, 4500), (4500, 9000)]]
    np.testing.assert_allclose(sum(parts), source.sum(query), rtol=1e-11)
    assert parts[1].tolist() == [0.0] * 4
    assert source.sum_at(query, []).tolist() == [0.0] * 4


@pytest.mark.parametrize("kind", [MemorySource, Leafy])
def test_sums_at_chosen_rows(kind):
    whole = from_arrays(*data(9000)).bounded(BOUNDS).rows()
    source = kind(whole, BOUNDS)
    query = ClippedGradient(Logistic(), np.ones(4), 0.5)
    chosen = np.random.default_rng(0).permutation(9000)[:6000]
    np.testing.assert_allclose(
        source.sum_at(query, chosen), query.sum(whole.take(chosen)), rtol=1e-11, atol=1e-11
    )
    with pytest.raises(ParameterError, match="twice"):
        source.sum_at(query, [1, 2, 1])


def test_a_source_that_lost_rows_is_not_summed_in_silence():
    whole = from_arrays(*data(9000)).bounded(BOUNDS).rows()
    query = ClippedGradient(Logistic(), np.zeros(4), 1.0)
    with pytest.raises(DataError, match="after row 4096 are not there"):
        Leafy(whole, BOUNDS, cut=5000).sum(query)
    assert Leafy(whole, BOUNDS, cut=5000).sum(query, 0, 5000).shape == (4,)


def test_choices_read_only_the_leaves_they_need():
    source = Leafy(from_arrays(*data(30_000)).bounded(BOUNDS).rows(), BOUNDS)
    source.take([2 * SUM_LEAF + 1, 3, 7])
    assert sorted(source.read) == [0, 2 * SUM_LEAF]


def test_float32_rows_are_summed_in_float64():
    n = 100_000
    X = np.full((n, 1), 0.1, dtype=np.float32)
    source = from_arrays(X, np.full(n, -1.0)).bounded(Bounds(1.0, label=1.0))
    found = source.sum(ClippedGradient(Squared(), np.zeros(1), 10.0))
    assert source.rows().rows.dtype == np.float32
    assert found[0] == pytest.approx(n * float(np.float32(0.1)), rel=1e-13)


def test_a_sum_needs_a_query_and_a_source_stays_here():
    rows = from_arrays(np.eye(2), np.ones(2)).bounded(Bounds(1.0, label="sign"))
    for wrong in (Logistic(), np.sum, None):
        with pytest.raises(ParameterError, match="needs a query that states its bound"):
            rows.sum(wrong)
        with pytest.raises(ParameterError, match="needs a query"):
            rows.sum_at(wrong, [0])
    with pytest.raises(TypeError, match="private rows"):
        pickle.dumps(rows)


@pytest.mark.parametrize("kind", [bool, np.uint8])
def test_labels_that_are_never_minus_one_are_no_signs(kind):
    """Half of the rows would be null rows without a word; the type is public, so it can be said."""
    table = from_arrays(np.eye(2), np.array([1, 0], dtype=kind))
    with pytest.raises(DataError, match=r"never -1.*Classes"):
        table.bounded(Bounds(1.0, label="sign"))
    rows = table.bounded(Bounds(1.0, label=Classes(0, 1)), order="given").rows()
    assert rows.labels.tolist() == [1.0, -1.0]
