"""Sparse rows: slices, SciPy's view of them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from dpsco.errors import ParameterError
from dpsco.kernels.rows import SparseRows
from dpsco.kernels.sums import margins

DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [4.0, 5.0, 6.0]])


def rows(**change) -> SparseRows:
    parts = {
        "values": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        "columns": np.array([0, 2, 1, 0, 1, 2], dtype=np.int32),
        "offsets": np.array([0, 2, 2, 3, 6], dtype=np.int64),
        "width": 3,
    }
    return SparseRows(**(parts | change))


@pytest.mark.parametrize(
    "part", [slice(0, 4), slice(1, 3), slice(2, 99), slice(3, 1), slice(-1, None)]
)
def test_slices_share_and_agree_with_scipy(part):
    cut = rows()[part]
    assert cut.shape == DENSE[part].shape
    np.testing.assert_array_equal(cut.matrix().toarray(), DENSE[part])
    cut.check()


@pytest.mark.parametrize("part", [slice(0, 4), slice(2, 4)])
def test_dense_rows(part):
    found = rows()[part].dense()
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, DENSE[part])


def test_no_value_is_shown():
    cut = rows(values=np.array([98765.0, 2.0, 3.0, 4.0, 5.0, 6.0]))[1:]
    assert repr(cut) == str(cut) == "<SparseRows: 3 rows of 3 float64 numbers>"


def test_scipy_copies_no_columns():
    whole = rows()
    assert np.shares_memory(whole.matrix().indices, whole.columns)
    assert np.shares_memory(whole.matrix().data, whole.values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.ones(6, dtype=int)}, "float32 or float64"),
        ({"columns": np.zeros(6, dtype=np.int64)}, "int32"),
        ({"offsets": np.array([0, 2, 2, 3, 6], dtype=np.int32)}, "int64"),
        ({"columns": np.zeros(5, dtype=np.int32)}, "one column for each"),
        ({"offsets": np.array([0, 7], dtype=np.int64)}, "between 0 and 6"),
        ({"offsets": np.array([-1, 6], dtype=np.int64)}, "between 0 and 6"),
        ({"offsets": np.array([], dtype=np.int64)}, "offsets"),
        ({"values": np.ones(12)[::2]}, "contiguous"),
    ],
)
def test_every_loop_refuses_arrays_that_do_not_fit(change, message):
    with pytest.raises(ParameterError, match=message):
        margins(rows(**change), np.zeros(3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 3, 2, 3, 6], dtype=np.int64)}, "do not fall"),
        ({"width": 2}, "columns from 0 to 1"),
        ({"columns": np.array([0, 2, 1, 0, 1, -1], dtype=np.int32)}, "columns from 0 to 2"),
        ({"columns": np.array([0, 2, 1, 0, 1, 1], dtype=np.int32)}, "distinct columns"),
        ({"columns": np.array([0, 2, 1, 1, 0, 1], dtype=np.int32)}, "distinct columns"),
        ({"columns": np.array([0, 0, 1, 0, 1, 2], dtype=np.int32)}, "distinct columns"),
    ],
)
def test_a_matrix_is_checked_where_it_comes_in(change, message):
    rows().check()
    with pytest.raises(ParameterError, match=message):
        rows(**change).check()


def test_columns_need_not_be_sorted_and_rows_may_be_empty():
    rows(columns=np.array([2, 0, 1, 2, 1, 0], dtype=np.int32)).check()
    offsets = np.array([0, 0, 2, 2, 2, 3, 6, 6], dtype=np.int64)
    rows(offsets=offsets).check()
    rows(offsets=offsets)[1:4].check()
    nothing = np.zeros(3, dtype=np.int64)
    rows(offsets=nothing).check()


def test_steps_are_refused():
    with pytest.raises(IndexError):
        rows()[::2]
