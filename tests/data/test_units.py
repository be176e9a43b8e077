"""Rows in another unit: the same bits up to a power of two, and never beyond their bounds."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from dpsco.data import Bounds, ClippedGradient, Scaled, from_arrays
from dpsco.data.units import DividedSource, divided, in_units
from dpsco.errors import ParameterError
from dpsco.losses import Logistic

UNIT = Bounds(1.0, label="sign", intercept=0.5)
RNG = np.random.default_rng(5)
X = RNG.standard_normal((5000, 3)) * 10.0 ** RNG.uniform(-3, 3, size=(5000, 1))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
X[4], Y[5] = np.nan, 0.0


def bounded(unit, *, rows=X, bounds=UNIT, labels=Y):
    return from_arrays(rows, labels).bounded(in_units(bounds, unit), order="given")


def dense(block):
    return block.rows if isinstance(block.rows, np.ndarray) else block.rows.dense()


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-3, 1.0, 2.0**5, 2.0**40])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_division_is_exact(unit, dtype, sparse):
    kind = scipy.sparse.csr_array if sparse else np.asarray
    raw = bounded(unit, rows=kind((X * unit).astype(dtype)))
    same = bounded(1.0, rows=kind(X.astype(dtype))).rows()
    found = divided(raw, UNIT, unit)
    assert found.bounds == UNIT
    assert np.array_equal(dense(found.rows()), dense(same))
    assert np.array_equal(found.rows().norms, same.norms)
    assert np.array_equal(found.rows().labels, same.labels)
    assert np.array_equal(found.rows().present, same.present)
    assert not found.rows().present[4]


def test_rows_divided_as_they_are_read_are_the_same():
    raw = bounded(8.0)
    memory, streamed = divided(raw, UNIT, 8.0), DividedSource(raw, UNIT, 8.0)
    query = ClippedGradient(Logistic(), np.array([1.0, -1.0, 0.5, 0.1]), 1.0)
    assert np.array_equal(memory.sum(query), streamed.sum(query))
    some = [4999, 0, 4100, 4]
    assert np.array_equal(memory.sum_at(query, some), streamed.sum_at(query, some))
    assert np.array_equal(memory.take(some).rows, streamed.take(some).rows)
    assert streamed.d == 4
    assert streamed.n == 5000


TINY = st.floats(min_value=-(2.0**-100), max_value=2.0**-100, width=32)


@given(st.lists(TINY, min_size=2, max_size=2), st.integers(min_value=1, max_value=40))
def test_what_underflows_is_not_rounded_up(small, exponent):
    unit = 2.0**exponent
    rows = np.array([[unit, *small]], dtype=np.float32)
    bounds = Bounds(1.0)
    raw = from_arrays(rows).bounded(in_units(bounds, unit), order="given")
    (row,) = divided(raw, bounds, unit).rows().rows
    assert row.dtype == np.float32
    assert sum(Fraction(float(v)) ** 2 for v in row) <= 1
    assert all(v == 0.0 or abs(v) >= np.finfo(np.float32).tiny for v in row)


def test_null_rows_have_the_default_label_of_the_new_bounds():
    unit = Bounds(1.0, label=1.0)
    raw = Bounds(4.0, label=Scaled(8.0, 16.0, centred=False))
    rows = from_arrays(np.array([[1.0], [np.nan]]), np.array([12.0, 12.0]))
    block = divided(rows.bounded(raw, order="given"), unit, 4.0).rows()
    assert block.labels.tolist() == [0.75, 0.0]
    assert block.rows.tolist() == [[0.25], [0.0]]


@pytest.mark.parametrize("unit", [0.0, -2.0, 3.0, np.inf, np.nan])
def test_other_units_are_refused(unit):
    with pytest.raises(ParameterError, match="power of two"):
        divided(bounded(1.0), UNIT, unit)


def test_other_bounds_are_refused():
    with pytest.raises(ParameterError, match="must be within"):
        divided(bounded(4.0), UNIT, 2.0)
    wide = from_arrays(X, Y).bounded(Bounds(2.0, label=5.0))
    with pytest.raises(ParameterError, match="must be within"):
        divided(wide, Bounds(1.0, label=1.0), 2.0)
