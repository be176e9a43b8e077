"""Counts of rows: what a row adds, dense and sparse, and what is said of a noisy count."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpsco.data import Bounds, Category, Flag, Number, Schema, TableEncoder, from_arrays
from dpsco.data.counts import FAINTEST, FEW, PresentRows, RowCount
from dpsco.errors import ParameterError

SCHEMA = Schema(
    (
        Number("a", 0, 10),
        Number("b", 0, 10, missing="indicator"),
        Category("c", ("x", "y")),
        Flag("f"),
    )
)


def table(**columns):
    import pyarrow as pa

    return pa.table(columns)


def encoded(sparse):
    encoder = TableEncoder(SCHEMA, sparse=sparse)
    rows = table(
        a=[1.0, None, 5.0, 3.0],  # 5 is the middle of the range
        b=[1.0, None, 2.0, None],
        c=["x", "z", "y", None],
        f=[True, None, False, True],
    )
    X, _ = encoder.encode(rows)
    return encoder, X


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [None, 0.5])
def test_entries_that_were_read_are_counted(sparse, intercept):
    encoder, X = encoded(sparse)
    assert encoder.readable == (3, (1, 2))
    source = from_arrays(X).bounded(Bounds(2.0, intercept=intercept))
    counts = source.sum(PresentRows.encoded(encoder))
    assert counts.tolist() == [4.0, pytest.approx((3 + 0 + 3 + 2) / 3)]
    assert source.sum(PresentRows()).tolist() == [4.0]


def test_a_number_in_the_middle_of_its_range_was_read():
    """Counts of words are 0 nearly everywhere: that is no sign of entries that cannot be read."""
    words = [Number("free", -1.0, 1.0), Number("win", -3.0, 3.0)]
    encoder = TableEncoder(Schema(words))
    X, _ = encoder.encode(table(free=[0.0, None], win=[0.0, 2.0]))
    counts = from_arrays(X).bounded(Bounds(2.0)).sum(PresentRows.encoded(encoder))
    assert counts.tolist() == [2.0, 1.5]
    assert np.abs(X).max() <= 1.0
    assert 0.0 < X[0, 0] < 1e-15


def test_columns_with_a_rule_for_missing_entries_do_not_show_what_was_read():
    declared = [Number("a", 0.0, 1.0, missing="indicator"), Number("b", 0.0, 1.0, missing=0.2)]
    assert PresentRows.encoded(TableEncoder(Schema(declared))) == PresentRows()


def test_a_null_row_adds_nothing():
    y = np.array([0.0, 1.0, np.nan, 7.0])
    source = from_arrays(np.ones((4, 3)), y).bounded(Bounds(1.0, label=(0.0, 5.0)))
    assert source.sum(PresentRows(3, 3)).tolist() == [3.0, 3.0]  # 7 is clipped, NaN is no label


@given(
    arrays(float, (5, 4), elements=st.floats(allow_nan=True, allow_infinity=True, width=64)),
    arrays(float, (4,), elements=st.floats(allow_nan=True, allow_infinity=True, width=64)),
    st.integers(1, 4),
    st.booleans(),
)
def test_neighbours_are_within_the_diameter(X, row, slots, compressed):
    """Of a replaced row, and of one that is left out, whatever they hold."""
    query = PresentRows(slots, 4, (1,))
    shape = scipy.sparse.csr_matrix if compressed else np.asarray
    found = []
    for last in (X[4], row, np.full(4, np.nan)):
        rows = np.vstack([X[:4], last])
        found.append(from_arrays(shape(rows)).bounded(Bounds(1.0), order="given").sum(query))
    for one in found:
        for other in found:
            assert np.linalg.norm(one - other) <= query.diameter
            assert abs(one[0] - other[0]) <= PresentRows().diameter == 1.0
    assert query.bound == query.diameter >= math.sqrt(2.0)


def test_rows_of_another_width_are_refused():
    source = from_arrays(np.ones((4, 3))).bounded(Bounds(1.0))
    with pytest.raises(ParameterError, match="rows of 5 numbers"):
        source.sum(PresentRows(2, 5))


def test_a_count_in_words():
    full = RowCount(1480.3, 12.6, 1500)
    assert str(full) == "about 1,480 of 1,500 rows counted (+- 26)"
    assert (full.nearest, full.filled, full.warning) == (1480, None, "")
    assert RowCount(-40.0, 20.0, 1500).nearest == 0
    assert RowCount(1570.0, 20.0, 1500).nearest == 1500
    cells = RowCount(1490.0, 20.0, 1500, 1350.0)
    assert str(cells).endswith("of all entries were read as declared")
    assert not cells.warning
    assert "decimal comma" in RowCount(1490.0, 20.0, 1500, 500.0).warning
    empty = RowCount(3.0, 20.0, 1500, 8.0)
    assert empty.warning.startswith("only about 3 of 1,500 rows counted")
    assert "entries" not in str(empty)


def test_a_full_and_an_empty_table_are_told_apart():
    """At the most noise that is allowed, four standard deviations lie on either side."""
    assert FEW / FAINTEST == (1 - FEW) / FAINTEST == 4.0


@pytest.mark.parametrize("entries", [None, 7.5])
def test_a_count_survives_json(entries):
    count = RowCount(1480.25, 12.5, 1500, entries)
    assert RowCount.from_json(count.to_json()) == count


@pytest.mark.parametrize(
    "change",
    [{"sigma": 0.0}, {"rows": 0}, {"rows": 1.5}, {"count": "many"}, {"entries": []}, {"more": 1}],
    ids=str,
)
def test_what_is_no_count_is_refused(change):
    record = {**RowCount(10.0, 1.0, 20).to_json(), **change}
    with pytest.raises(ParameterError):
        RowCount.from_json(record)
    with pytest.raises(ParameterError):
        RowCount.from_json([1.0, 2.0])
