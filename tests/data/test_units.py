"""Units: rows are mapped before they are clipped, so no units can break a bound."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from dpsco.data import Bounds, Scaled, from_arrays
from dpsco.data.units import Units
from dpsco.errors import DataError, ParameterError
from dpsco.solvers.serialization import decode, encode

RNG = np.random.default_rng(5)
X = RNG.standard_normal((5000, 3)) * 10.0 ** RNG.uniform(-3, 3, size=(5000, 1))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
X[4], Y[5] = np.nan, 0.0
X[6, 1], X[7, 0] = np.inf, -np.inf
UNITS = Units([2.0, 0.5, 30.0], centre=[1.0, -4.0, 0.0], cut=3.0)
BOUNDS = Bounds(1.0, label="sign", intercept=0.5)


def dense(block):
    return block.rows if isinstance(block.rows, np.ndarray) else block.rows.dense()


def by_hand(rows, units):
    centre = 0.0 if units.centre is None else units.centre
    ends = centre - units.cut * units.scale, centre + units.cut * units.scale
    return (np.clip(rows, *ends) - centre) / units.scale


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_rows_are_cut_centred_and_scaled(dtype, layout):
    rows = np.array(X, dtype=dtype, order=layout)
    block = from_arrays(rows, Y).bounded(measured(UNITS), order="given").rows()
    wanted = Bounds(1.0, label="sign", intercept=0.5).apply(by_hand(rows.astype(float), UNITS), Y)
    fine = np.isfinite(rows).all(axis=1)
    assert np.array_equal(block.present, fine & (Y != 0))
    assert block.rows.dtype == np.float64  # mapped numbers are not rounded after they are clipped
    assert np.allclose(block.rows[fine], wanted.rows[fine], atol=1e-6)
    assert np.all(block.rows[~block.present] == 0.0)  # a centre makes no row of a null row
    assert np.all(block.labels[~block.present] == BOUNDS.default_label)


def measured(units, bounds=BOUNDS):
    return Bounds(bounds.feature_norm, bounds.label, bounds.norm, bounds.intercept, units)


NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=64)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5),
    st.tuples(st.floats(1e-90, 1e90), st.floats(1e-90, 1e90)),
    st.tuples(st.floats(-1e90, 1e90), st.floats(-1e90, 1e90)),
    st.floats(1e-3, 1e3),
)
def test_no_units_break_a_bound_or_make_a_row_of_a_null_row(rows, scale, centre, cut):
    table = from_arrays(np.array(rows))
    units = Units(scale, centre, cut=cut)
    block = table.bounded(measured(units, Bounds(1.0)), order="given").rows()
    for raw, row, present in zip(rows, block.rows, block.present, strict=True):
        assert present == bool(np.isfinite(raw).all())
        assert sum(Fraction(float(v)) ** 2 for v in row) <= 1
        assert present or not row.any()


def test_sparse_rows_are_scaled_and_keep_their_zeros():
    rng = np.random.default_rng(1)
    matrix = scipy.sparse.csr_array(np.where(rng.random((50, 6)) < 0.3, rng.random((50, 6)), 0.0))
    units = Units(np.arange(1.0, 7.0), cut=0.1)
    both = [
        from_arrays(rows).bounded(measured(units, Bounds(1.0)), order="given").rows()
        for rows in (matrix, matrix.toarray())
    ]
    assert np.allclose(dense(both[0]), both[1].rows)
    assert len(both[0].rows.values) == matrix.nnz
    with pytest.raises(DataError, match="sparse rows have no centre"):
        Units(np.ones(6), centre=np.ones(6)).apply(from_arrays(matrix)._X)


def test_a_model_in_units_predicts_as_one_of_raw_rows():
    rows = RNG.standard_normal((20, 3))
    coef, intercept = RNG.standard_normal((2, 3)), RNG.standard_normal(2)
    units = Units([2.0, 0.5, 30.0], centre=[1.0, -4.0, 0.0])
    raw, constant = units.fold(coef, intercept)
    inside = by_hand(rows, units) @ coef.T + intercept
    assert np.allclose(rows @ raw.T + constant, inside)


def test_labels_have_the_range_of_the_units():
    bounds = Bounds(1.0, label=Scaled(-1, 1), units=Units([1.0], label=Scaled(10.0, 30.0)))
    block = bounds.apply(np.ones((4, 1)), np.array([10.0, 25.0, 99.0, np.nan]))
    assert block.labels.tolist() == [-1.0, 0.5, 1.0, 0.0]
    with pytest.raises(ParameterError, match="exceed the bound"):
        Bounds(1.0, label=0.5, units=Units([1.0], label=Scaled(0.0, 1.0)))


def test_bounds_are_compared_shown_and_written_without_units():
    bounds = measured(UNITS)
    assert bounds == BOUNDS
    assert hash(bounds) == hash(BOUNDS)
    assert repr(bounds) == repr(BOUNDS)
    assert encode(bounds) == encode(BOUNDS)
    assert decode(encode(bounds)).units is None
    with pytest.raises(ParameterError, match="found at run time"):
        decode({**encode(BOUNDS), "units": 3.0})


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": [0.0]},
        {"scale": [np.nan]},
        {"scale": [1e200]},
        {"scale": [[1.0]]},
        {"scale": [1.0], "centre": [np.inf]},
        {"scale": [1.0], "cut": 0.0},
    ],
)
def test_wrong_units_are_refused(wrong):
    with pytest.raises(ParameterError):
        Units(**wrong)


def test_units_of_other_rows_are_refused():
    with pytest.raises(DataError, match="other rows than those of 3 columns"):
        Units([1.0, 2.0]).apply(X)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_in_units_obey_the_bound_in_exact_arithmetic(dtype):
    """Also rows of single precision, near the bound and far from it; norms are upper bounds."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((300, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    scale = np.array([0.3, 1.7, 0.9, 2.1, 0.4])
    raw = (rows * rng.choice([0.3, 1.0, 1.0, 4.0], size=(300, 1)) * scale + 0.1).astype(dtype)
    bounds = Bounds(1.0, units=Units(scale, centre=np.full(5, 0.1)))
    for table in (from_arrays(raw).bounded(bounds), from_arrays(raw.tolist()).bounded(bounds)):
        block = table.rows()
        for row, norm in zip(block.rows, block.norms, strict=True):
            square = sum(Fraction(float(value)) ** 2 for value in row)
            assert square <= 1
            assert square <= Fraction(float(norm)) ** 2
