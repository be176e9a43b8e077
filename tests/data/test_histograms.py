"""Histograms: every row adds a single 1 to the right bin, or nothing, whatever it contains."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from dpsco.data import Bounds, Classes, from_arrays
from dpsco.data.histograms import HIGHEST, LOWEST, LabelHistogram, NormHistogram
from dpsco.errors import ParameterError
from dpsco.geometry.norms import L1, L2, LINF, WeightedLp

TOP = 2.0**HIGHEST
SIGNS = Bounds(1.0, label="sign")


def norm_counts(X, y=None, bounds=None):
    bounds = bounds or (Bounds(1.0) if y is None else SIGNS)
    query = NormHistogram(bounds.norm)
    table = from_arrays(X) if y is None else from_arrays(X, y)
    return table.bounded(query.bounds(bounds)).sum(query)


def label_counts(y):
    query = LabelHistogram()
    labels = np.asarray(y, dtype=float)
    rows = from_arrays(np.ones((len(labels), 1)), labels)
    return rows.bounded(query.bounds(Bounds(1.0, label=1.0))).sum(query)


def place(counts):
    (found,) = np.flatnonzero(counts)
    return int(found)


# -- lengths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [L2, L1, LINF], ids=["l2", "l1", "linf"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_counts_are_those_of_a_loop(norm, sparse, dtype):
    rng = np.random.default_rng(3)
    scales = 10.0 ** rng.uniform(-14, 14, size=(400, 1))
    X = (rng.standard_normal((400, 3)) * scales).astype(dtype)
    query, expected = NormHistogram(norm), np.zeros(NormHistogram().size)
    for row in X.astype(float):
        length = norm(row)
        expected[next((k for k, e in enumerate(query.edges) if length <= e), -1)] += 1
    raw = scipy.sparse.csr_array(X) if sparse else X
    assert np.array_equal(norm_counts(raw, bounds=Bounds(1.0, norm=norm)), expected)


def test_an_intercept_does_not_count_as_length():
    X = np.array([[3.0, 4.0], [0.0, 1e-9]])
    plain = norm_counts(X)
    for norm in (L2, WeightedLp(2.0, (1.0, 1.0, 5.0))):
        bounds = Bounds(1.0, norm=norm, intercept=0.5)
        assert np.array_equal(norm_counts(X, bounds=bounds), plain)
    assert place(norm_counts(X[:1])) == 3 - LOWEST


@pytest.mark.parametrize("exponent", [-39, -3, 0, 5, 39])
def test_normalised_rows_lie_below_their_edge(exponent):
    rng = np.random.default_rng(exponent + 100)
    X = rng.standard_normal((500, 7))
    X *= 2.0**exponent / np.linalg.norm(X, axis=1, keepdims=True)
    for rows in (X, X.astype(np.float32)):
        assert place(norm_counts(rows)) == exponent - LOWEST
    # A length that is larger by more than rounding lies above.
    assert place(norm_counts(np.full((1, 1), 2.0**exponent * (1 + 2.0**-18)))) == (
        exponent + 1 - LOWEST
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([0.0, 0.0], 0),
        ([5e-324, 0.0], 0),
        ([2.0**-41, 0.0], 0),
        ([1e308, 1e308], HIGHEST - LOWEST),
        ([-1e30, 0.0], HIGHEST - LOWEST),
        ([2.0**39.5, 0.0], HIGHEST - LOWEST),
    ],
)
def test_lengths_beyond_the_bins(row, expected):
    assert place(norm_counts(np.array([row]))) == expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_null_rows_add_nothing(bad):
    assert norm_counts(np.array([[1.0, bad]])).sum() == 0.0
    assert norm_counts(np.array([[1.0, 1.0]]), np.array([bad])).sum() == 0.0
    assert norm_counts(np.array([[1.0, 1.0]]), np.array([3.0])).sum() == 0.0  # no sign
    assert label_counts([bad]).sum() == 0.0


WILD = st.floats(allow_nan=True, allow_infinity=True, width=64)


@pytest.mark.thorough
@given(st.lists(st.tuples(WILD, WILD), min_size=1, max_size=4), st.lists(WILD, min_size=4))
def test_no_row_exceeds_the_bound(rows, labels):
    X, y = np.array(rows), np.array(labels[: len(rows)])
    found = [norm_counts(X[k : k + 1]) for k in range(len(X))]
    found += [label_counts(y[k : k + 1]) for k in range(len(y))]
    for counts in found:  # of one row each, in exact arithmetic
        assert sum(Fraction(c) ** 2 for c in counts.tolist()) <= Fraction(NormHistogram().bound)
    assert np.array_equal(norm_counts(X), sum(found[: len(X)]))


def test_many_rows_are_counted_exactly():
    X = np.repeat(np.array([[1.0], [4.0], [0.3]]), [5000, 4000, 1], axis=0)
    counts = norm_counts(X)
    assert [int(counts[k - LOWEST]) for k in (0, 2, -1)] == [5000, 4000, 1]
    assert counts.sum() == 9001


# -- labels ----------------------------------------------------------------------------------------


@given(st.floats(min_value=-(2.0**41), max_value=2.0**41))
def test_labels_lie_in_their_bin(y):
    edges, clipped = LabelHistogram().edges, min(max(y, -TOP), TOP)
    k = place(label_counts([y]))
    assert edges[k] <= clipped <= edges[k + 1]


def test_both_signs_have_the_same_bins():
    sizes = np.r_[0.0, 2.0 ** np.arange(-42, 43), 1e-13, 3.0, 1e300]
    plus, minus = label_counts(sizes), label_counts(-sizes)
    assert np.array_equal(plus, minus[::-1])
    edges = LabelHistogram().edges
    assert np.array_equal(edges, -edges[::-1])
    assert len(edges) == LabelHistogram().size + 1
    assert np.all(np.diff(edges) > 0)
    # A power of two is the end of its bin, on either side.
    assert edges[place(label_counts([1024.0])) + 1] == 1024.0
    assert edges[place(label_counts([-1024.0]))] == -1024.0


# -- what they refuse, and say ---------------------------------------------------------------------


def test_rows_within_other_bounds_are_refused():
    rows = from_arrays(np.ones((3, 2)), np.ones(3))
    for bounds in (
        Bounds(1.0, label="sign"),
        Bounds(TOP, label="sign", intercept=1.0),
        Bounds(TOP, label="sign", norm=L1),
    ):
        with pytest.raises(ParameterError, match="NormHistogram needs rows within"):
            rows.bounded(bounds).sum(NormHistogram())
    for label in ("sign", 5.0, Classes(0, 1)):
        with pytest.raises(ParameterError, match="LabelHistogram needs labels within"):
            rows.bounded(Bounds(1.0, label=label)).sum(LabelHistogram())


def test_what_they_say():
    for query in (NormHistogram(), LabelHistogram()):
        assert pickle.loads(pickle.dumps(query)) == query
        assert query.trusted == ()
        assert "adds 1 to one bin" in query.enforced[0]
    assert "linf" in NormHistogram(LINF).enforced[0]
    assert math.log2(NormHistogram().edges[0]) == LOWEST
