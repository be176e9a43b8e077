"""The passes over rows: both implementations against sums in plain order, bit by bit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpsco.kernels import rescale
from dpsco.kernels.rescale import (
    as_columns,
    factors,
    prepared,
    scale,
    shrink,
    square_sums,
    use_compiled,
)

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):  # as the callers have it
        yield


def rows_of_all_sizes(n, d, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, size=(n, 1))
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1e-310, 1e-160, 1e160, 1.7e308, 1e-40]
    where = rng.random((n, d)) < 0.05
    X[where] = rng.choice(special, size=int(where.sum()))
    return X.astype(dtype)


def layouts(X):
    """The same rows, stored in every way."""
    n, d = X.shape
    wide = np.zeros((2 * n, 3 * d + 1), dtype=X.dtype)
    wide[::2, 1::3] = X
    tall = np.zeros((d, n + 5), dtype=X.dtype)
    tall[:, 3 : n + 3] = X.T
    return {
        "C": X,
        "Fortran": np.asfortranarray(X),
        "gaps": wide[::2, 1::3],
        "part of columns": tall[:, 3 : n + 3].T,
        "backwards": X[::-1].copy()[::-1],
        "swapped bytes": X.astype(X.dtype.newbyteorder()),
    }


def in_order(X):
    """The sums of squares, one column after the other."""
    total = np.zeros(len(X))
    for column in X.astype(np.float64).T:
        square = column * column
        total = total + square
    return total


def same_bits(a, b):
    """Equal in every bit, but for which NaN it is."""
    assert a.dtype == b.dtype
    integers = np.dtype(f"u{a.dtype.itemsize}")
    a, b = (np.where(np.isnan(x), np.abs(x.dtype.type(np.nan)), x) for x in (a, b))
    return np.array_equal(a.view(integers), b.view(integers))


SHAPES = [(1, 1), (1, 20), (2, 20), (3, 7), (5, 1), (17, 4), (16, 150), (50, 33), (301, 10)]


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_sums_of_squares_are_in_order_in_every_layout(n, d, dtype, compiled):
    X = rows_of_all_sizes(n, d, dtype)
    wanted = in_order(X)
    for name, rows in layouts(X).items():
        rows = prepared(rows) if compiled else rows
        found = square_sums(rows, slice(0, n), compiled=compiled)
        assert same_bits(found, wanted), name
        for part in (slice(0, 1), slice(n // 3, n), slice(n - 1, n)):
            found = square_sums(rows, part, compiled=compiled)
            assert same_bits(found, wanted[part]), (name, part)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("dtype", "stored"),
    [(np.float32, np.float32), (np.float32, np.float64), (np.float64, np.float64)],
)
@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_products_are_rounded_once(n, d, dtype, stored, share, compiled):
    X = rows_of_all_sizes(n, d, dtype)
    rng = np.random.default_rng(1)
    by = np.where(rng.random(n) < share, rng.random(n), 1.0)
    wanted = (X.astype(np.float64) * by[:, None]).astype(stored)
    for name, rows in layouts(X).items():
        rows = prepared(rows) if compiled else rows
        for part in (slice(0, n), slice(n // 3, n)):
            out = np.full((part.stop - part.start, d + 1), 7.0, dtype=stored)
            scale(rows, part, by[part], out, compiled=compiled)
            assert same_bits(out[:, :d], wanted[part]), (name, part)
            assert np.all(out[:, d] == 7.0)


def test_the_rows_given_are_not_changed(compiled):
    X = rows_of_all_sizes(40, 9)
    for rows in layouts(X).values():
        before = rows.copy()
        work = prepared(rows) if compiled else rows
        square_sums(work, slice(0, 40), compiled=compiled)
        scale(work, slice(0, 40), np.full(40, 0.5), np.empty((40, 9)), compiled=compiled)
        assert same_bits(np.ascontiguousarray(rows), np.ascontiguousarray(before))


def test_factors(compiled):
    found = np.array([0.0, 1e-300, 1.0, np.nextafter(2.0, 0), 2.0, np.nextafter(2.0, 3), 7.0])
    found = np.append(found, [1e300, np.inf, np.nan])
    keep, target = 2.0, 2.0 * (1 - 2.0**-40)
    result = factors(found, keep, target, compiled=compiled)
    assert result[:5].tolist() == [1.0] * 5
    assert result[5:8].tolist() == [target / x for x in found[5:8].tolist()]
    assert result[8] == 0.0
    assert math.isnan(result[9])
    many = np.random.default_rng(0).uniform(0, 6, 1001)
    wanted = np.array([1.0 if x <= keep else target / x for x in many.tolist()])
    assert np.array_equal(factors(many, keep, target, compiled=compiled), wanted)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("dtype", "stored"),
    [(np.float32, np.float32), (np.float32, np.float64), (np.float64, np.float64)],
)
@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_long_rows_are_shrunk_as_their_lengths_say(n, d, dtype, stored, compiled):
    X = rows_of_all_sizes(n, d, dtype)
    lengths = np.sqrt(in_order(X))
    keep = float(np.median(lengths[np.isfinite(lengths)], axis=0)) if n > 1 else 1e-3
    target = keep * (1 - 2.0**-23)
    by = np.array([1.0 if x <= keep else target / x for x in lengths])
    wanted = (X.astype(np.float64) * by[:, None]).astype(stored)
    for name, rows in layouts(X).items():
        rows = prepared(rows) if compiled else rows
        for part in (slice(0, n), slice(n // 3, n)):
            out = np.full((part.stop - part.start, d + 1), 7.0, dtype=stored)
            found = shrink(rows, part, keep, target, out, compiled=compiled)
            assert same_bits(found, lengths[part]), (name, part)
            assert same_bits(out[:, :d], wanted[part]), (name, part)
            assert np.all(out[:, d] == 7.0)


values = st.floats(-1e100, 1e100, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-100)


@settings(max_examples=60, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 12)), elements=values))
def test_the_sums_are_as_right_as_promised(X):
    d = X.shape[1]
    for found, row in zip(square_sums(X, slice(0, len(X))), X.tolist(), strict=True):
        exact = sum(Fraction(x) ** 2 for x in row)
        assert abs(Fraction(float(found)) - exact) <= exact * Fraction(d, 2**53 - d)


def test_prepared_copies_only_what_it_must():
    C, F = np.ones((6, 4)), np.asfortranarray(np.ones((6, 4), dtype=np.float32))
    assert np.shares_memory(prepared(C), C)
    assert np.shares_memory(prepared(F), F)
    assert prepared(F).T.flags.c_contiguous
    assert prepared(F[1:4]).T.flags.c_contiguous
    assert as_columns(prepared(F[1:4]))
    assert not as_columns(prepared(C[:, :2]))
    kinds = {np.float16: "f4", np.int8: "f8", np.int64: "f8", np.bool_: "f8", np.longdouble: "f8"}
    for given_type, wanted in kinds.items():
        assert prepared(np.ones((2, 2), dtype=given_type)).dtype == wanted


def test_small_jobs_do_not_ask_for_numba(monkeypatch):
    monkeypatch.delenv("DPSCO_COMPILED", raising=False)
    assert not use_compiled(1_000_000, 20)
    assert use_compiled(50_000_000, 20) == rescale.compiler.available()
    monkeypatch.setenv("DPSCO_COMPILED", "0")
    assert not use_compiled(10**12, 20)
