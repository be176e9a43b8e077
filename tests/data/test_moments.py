"""Moments: known sums, and two facts about how far apart rows can be, by exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from dpsco.data import Bounds, from_arrays
from dpsco.data.histograms import ColumnHistogram
from dpsco.data.moments import (
    MOST_LENGTH_WEIGHT,
    MOST_SQUARES_WEIGHT,
    ColumnMoments,
    RowMoments,
    SquaredLengths,
)
from dpsco.data.units import Units
from dpsco.errors import ParameterError

RNG = np.random.default_rng(3)
QUERIES = [
    RowMoments(3, 2.0, MOST_LENGTH_WEIGHT),
    RowMoments(3, 2.0, MOST_SQUARES_WEIGHT, columns=True),
    SquaredLengths(3, 2.0),
    ColumnMoments(3, MOST_LENGTH_WEIGHT),
    ColumnHistogram(3),
]
NAMES = ["lengths", "squares", "squared lengths", "columns", "histogram"]


def bounds_of(query):
    if isinstance(query, ColumnMoments):
        return query.bounds(Bounds(1.0), Units([0.3, 1.0, 5.0], [0.1, 0.0, -2.0]))
    if isinstance(query, ColumnHistogram):
        return query.bounds(Bounds(1.0))
    return Bounds(query.feature_norm)


def contribution(query, row):
    """Return what one row adds, as fractions."""
    table = from_arrays(np.array([row]))
    total = table.bounded(bounds_of(query), order="given").sum(query)
    return [Fraction(float(value)) for value in total]


def length(vector):
    return math.sqrt(sum(value**2 for value in vector))


ENTRIES = st.one_of(
    st.floats(-3.0, 3.0),
    st.sampled_from([0.0, 1e300, -1e300, 1e-300, math.nan, math.inf, 2.0, -2.0, 1.0]),
)
ROWS = st.lists(ENTRIES, min_size=3, max_size=3)


@pytest.mark.parametrize("query", QUERIES, ids=NAMES)
@given(one=ROWS, other=ROWS)
def test_no_row_exceeds_the_bound_and_no_two_the_diameter(query, one, other):
    first, second = contribution(query, one), contribution(query, other)
    assert length(first) <= query.bound
    assert length([a - b for a, b in zip(first, second, strict=True)]) <= query.diameter


@pytest.mark.parametrize("query", QUERIES, ids=NAMES)
def test_random_neighbours_come_close_to_the_diameter(query):
    """The diameters are attained: a smaller one would be wrong."""
    farthest = 0.0
    corners = [[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0], [9.0, 9.0, 9.0], [-9.0, -9.0, -9.0]]
    rows = [*corners, [0.0] * 3, *RNG.uniform(-2, 2, size=(30, 3))]
    parts = [np.array(contribution(query, row), dtype=float) for row in rows]
    for one in parts:
        for other in parts:
            farthest = max(farthest, float(np.linalg.norm(one - other)))
    assert 0.999 * query.diameter <= farthest <= query.diameter


@pytest.mark.parametrize("weight", [1.0, MOST_LENGTH_WEIGHT])
def test_the_first_fact(weight):
    """(2 - e)^2 (1 + a^2 e^2) <= 4 for all e in [0, 2]; by more than 2.77 it is not."""
    e = np.linspace(0.0, 2.0, 100_001)
    assert np.all((2.0 - e) ** 2 * (1.0 + weight**2 * e**2) <= 4.0 + 1e-12)
    limit = (11.0 + 5.0 * math.sqrt(5.0)) / 8.0
    assert limit >= MOST_LENGTH_WEIGHT**2
    assert np.max((2.0 - e) ** 2 * (1.0 + 1.01 * limit * e**2)) > 4.0


def test_the_second_fact():
    t = np.linspace(0.0, 4.0, 100_001)
    assert np.all(t * (1.0 + MOST_SQUARES_WEIGHT**2 * (4.0 - t)) <= 4.0 + 1e-12)
    assert np.max(t * (1.0 + 1.1 * MOST_SQUARES_WEIGHT**2 * (4.0 - t))) > 4.0


def test_known_sums():
    rows = RNG.standard_normal((5000, 3))
    rows[7] = np.nan
    clipped = rows * np.minimum(1.0, 2.0 / np.linalg.norm(rows, axis=1, keepdims=True)) / 2.0
    clipped[7] = 0.0
    source = from_arrays(rows).bounded(Bounds(2.0), order="given")
    a = MOST_LENGTH_WEIGHT
    assert source.sum(RowMoments(3, 2.0, a)) == pytest.approx(
        [*clipped.sum(axis=0), a * (clipped**2).sum()], rel=1e-9
    )
    assert source.sum(RowMoments(3, 2.0, 0.5, columns=True)) == pytest.approx(
        [*clipped.sum(axis=0), *(0.5 * (clipped**2).sum(axis=0))], rel=1e-9
    )
    sparse = from_arrays(scipy.sparse.csr_array(np.nan_to_num(rows))).bounded(Bounds(2.0))
    assert sparse.sum(SquaredLengths(3, 2.0)) == pytest.approx([(clipped**2).sum()], rel=1e-9)


def test_columns_of_any_size_are_told_apart():
    query = ColumnHistogram(3)
    rows = np.array([[1e300, 3.0, 0.0], [1e300, -3.0, 2.0**-50], [1e300, 5.0, -(2.0**60)]])
    for form in (np.asarray, scipy.sparse.csr_array):
        table = from_arrays(form(rows))
        counts = query.by_column(table.bounded(query.bounds(Bounds(1.0)), order="given").sum(query))
        assert counts[0, -1] == 3.0
        assert counts[1, [38, 122, 123]].tolist() == [1.0, 1.0, 1.0]
        assert counts[2, 0] == 1.0
        zeros = 2.0 if form is np.asarray else 1.0  # which sparse rows do not store
        assert counts[2, 80] == zeros


@pytest.mark.parametrize(
    "query", [lambda: RowMoments(3, 1.0, 1.7), lambda: RowMoments(3, 1.0, 0.6, columns=True)]
)
def test_weights_without_a_proof_are_refused(query):
    with pytest.raises(ParameterError, match="weight"):
        query()


@pytest.mark.parametrize("query", QUERIES, ids=NAMES)
def test_other_rows_are_refused(query):
    source = from_arrays(np.ones((4, 2))).bounded(Bounds(7.0, intercept=1.0))
    with pytest.raises(ParameterError):
        source.sum(query)
