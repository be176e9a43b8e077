"""Clipped sums: compiled, NumPy references and plain Python; the bound in exact arithmetic."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import ParameterError
from dpsco.kernels import sums
from dpsco.kernels.clipping import coefficients, limits
from dpsco.kernels.rows import SparseRows
from dpsco.kernels.slope import Slope, two_argument
from dpsco.kernels.sums import coefficients_sum, margins, slope_difference_sum, slope_sum

TOLERANCE = 1e-12


def logistic(margin, label, first, second):
    return -label / (1.0 + np.exp(np.minimum(label * margin, 700.0)))


def cube(margin, label, first, second):
    return (margin - label) * (margin - label) * (margin - label)


def users_branches(margin, label):
    return -label if label * margin < 1.0 else 0.0


SLOPES = {
    "logistic": Slope(logistic),
    "cube": Slope(cube),
    "smoothed": Slope(logistic, smoothing=0.3, bound=1.0),
    "user": Slope(two_argument(users_branches)),
    "user, smoothed": Slope(two_argument(users_branches), smoothing=2.0, bound=1.0),
}


def sparse_rows(X: np.ndarray) -> SparseRows:
    kept = X != 0.0
    offsets = np.concatenate(([0], np.cumsum(kept.sum(axis=1)))).astype(np.int64)
    return SparseRows(X[kept], np.nonzero(kept)[1].astype(np.int32), offsets, X.shape[1])


def problem(n: int, d: int, dtype=np.float64, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)).astype(dtype)
    norms = np.linalg.norm(X.astype(np.float64), axis=1) * (1 + 1e-9)
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0), norms, rng


def plain_sum(X, y, norms, slope, points, clip):
    """One row after the other; points: (weights, factor)."""
    total = np.zeros(X.shape[1])
    for x, label, norm in zip(X.astype(np.float64), y, norms, strict=True):
        c = sum(factor * envelope(slope, float(x @ w), label) for w, factor in points)
        size = abs(c) * norm
        total += (c if size <= clip else c * clip / size) * x
    return total


def envelope(slope, margin, label):
    if slope.smoothing == 0.0:
        return float(slope(margin, label))
    low, high = -slope.bound, slope.bound
    for _ in range(80):
        middle = 0.5 * (low + high)
        if slope(margin - middle / slope.smoothing, label) > middle:
            low = middle
        else:
            high = middle
    return middle


def assert_close(found, expected, size):
    assert found.dtype == np.float64
    assert found.shape == expected.shape
    assert np.max(np.abs(found - expected), initial=0.0) <= TOLERANCE * size


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("name", SLOPES)
def test_one_and_two_points(name, form, dtype, compiled):
    X, y, norms, rng = problem(67, 13, dtype)
    w, v = rng.standard_normal((2, 13))
    rows, slope = (X if form == "dense" else sparse_rows(X)), SLOPES[name]
    for clip in (0.0, 0.4, 100.0, math.inf):
        bound = min(clip, 1e4) * 67
        found = slope_sum(rows, y, norms, slope, w, clip)
        assert_close(found, plain_sum(X, y, norms, slope, [(w, 1.0)], clip), bound)
        found = slope_difference_sum(rows, y, norms, slope, w, v, 1.5, 0.7, clip)
        points = [(w, 1.5), (v, -0.7)]
        assert_close(found, plain_sum(X, y, norms, slope, points, clip), bound)


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("n", "d"), [(0, 4), (1, 1), (1, 7), (3, 1), (6, 33), (4096, 2), (9001, 5)]
)
def test_sizes(n, d, dtype, form, compiled):
    X, y, norms, rng = problem(n, d, dtype, seed=n)
    w, c = rng.standard_normal(d), rng.standard_normal(n)
    rows = X if form == "dense" else sparse_rows(X)
    wide = X.astype(np.float64)
    assert_close(margins(rows, w), wide @ w, 10.0)
    assert_close(coefficients_sum(rows, c), c @ wide, n + 1.0)
    found = slope_sum(rows, y, norms, SLOPES["logistic"], w, 0.5)
    assert_close(found, plain_sum(X, y, norms, SLOPES["logistic"], [(w, 1.0)], 0.5), n + 1.0)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_slice_of_rows_and_read_only_arrays(form, compiled):
    X, y, norms, rng = problem(60, 5)
    w = rng.standard_normal(5)
    for array in (X, y, norms, w):
        array.flags.writeable = False
    rows = X[20:45] if form == "dense" else sparse_rows(X)[20:45]
    part = slice(20, 45)
    found = slope_sum(rows, y[part], norms[part], SLOPES["cube"], w, 1.0)
    expected = plain_sum(X[part], y[part], norms[part], SLOPES["cube"], [(w, 1.0)], 1.0)
    assert_close(found, expected, 25.0)


def test_rows_in_another_order_of_memory(compiled):
    X, y, norms, rng = problem(30, 6)
    w = rng.standard_normal(6)
    found = slope_sum(np.asfortranarray(X), y, norms, SLOPES["cube"], w, 1.0)
    np.testing.assert_array_equal(found, slope_sum(X, y, norms, SLOPES["cube"], w, 1.0))


def test_float32_rows_are_summed_in_float64(compiled):
    """A single-precision accumulator would be off by a row's whole contribution."""
    X = np.full((4096, 3), np.float32(0.1))
    found = coefficients_sum(X, np.ones(4096))
    np.testing.assert_allclose(found, 4096 * float(np.float32(0.1)), rtol=1e-15)


def test_long_sums_combine_leaves_pairwise(monkeypatch, compiled):
    leaves = []

    class Spy(sums.PairwiseSum):
        def add(self, leaf):
            leaves.append(float(leaf[0]))
            super().add(leaf)

    monkeypatch.setattr(sums, "PairwiseSum", Spy)
    X = np.ones((4 * sums.SUM_LEAF + 1, 1))
    total = coefficients_sum(X, np.ones(len(X)))
    assert total[0] == len(X)
    assert leaves == [sums.SUM_LEAF] * 4 + [1]


def test_stages_do_not_change_the_sum(monkeypatch, compiled):
    X, y, norms, rng = problem(1000, 3)
    w = rng.standard_normal(3)
    whole = slope_sum(X, y, norms, SLOPES["cube"], w, 0.5)
    monkeypatch.setattr(sums, "_STAGE", 1)  # blocks of 64 rows
    staged = slope_sum(X, y, norms, SLOPES["cube"], w, 0.5)
    assert_close(staged, whole, 500.0)


# -- the bound, exactly ----------------------------------------------------------------------------

TINIEST = 5e-324
EDGES = [
    0.0, TINIEST, 3 * TINIEST, 2.0**-1023, 2.0**-1022, 2.0**-1021, 1e-300, 1e-160, 1e-17, 0.1,
    1 / 3, 0.5, 1 - 2.0**-53, 1.0, 1 + 2.0**-52, 3.0, 7.1, 1e10, 1e154, 1e160, 1e300, 2.0**1023,
    1.7976931348623157e308,
]  # fmt: skip


def assert_bounded(slopes, norms, clip, compiled):
    found = coefficients(slopes, norms, clip, compiled=compiled)
    for c, slope, norm in zip(found, slopes, norms, strict=True):
        assert math.isfinite(c)
        assert abs(Fraction(c)) * Fraction(norm) <= Fraction(clip), (slope, norm, clip)
        assert abs(c) <= abs(slope)
        assert c == 0.0 or np.sign(c) == np.sign(slope)
    return found


@pytest.mark.thorough
def test_the_bound_is_exact_on_the_edges(compiled):
    slopes, norms = (np.array(v) for v in zip(*itertools.product(EDGES, EDGES), strict=True))
    for clip in EDGES:
        assert_bounded(slopes, norms, clip, compiled)
        assert_bounded(-slopes, norms, clip, compiled)


@pytest.mark.thorough
def test_the_bound_is_exact_on_random_numbers(compiled):
    rng = np.random.default_rng(7)
    for clip in np.concatenate((rng.random(40), 10.0 ** rng.uniform(-300, 300, 40))):
        near = np.ldexp(1.0 + rng.random(200), rng.integers(-1070, 1023, 200))
        norms = np.concatenate((near, rng.random(200)))
        with np.errstate(over="ignore"):
            slopes = np.nan_to_num(clip / norms * (1 + rng.integers(-3, 4, 400) * 2.0**-52))
        assert_bounded(slopes, norms, float(clip), compiled)


@settings(max_examples=150, deadline=None)
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(min_value=0.0, allow_nan=False, allow_infinity=False),
    st.floats(min_value=0.0, allow_nan=False, allow_infinity=False),
)
def test_the_bound_is_exact_for_any_finite_numbers(slope, norm, clip):
    pytest.importorskip("numba")
    for compiled in (False, True):
        found = assert_bounded(np.array([slope]), np.array([norm]), clip, compiled)
        limit = limits(np.array([norm]), clip)[0]
        assert found[0] == np.clip(slope, -limit, limit)


def test_little_is_lost_to_the_safe_side(compiled):
    """A row within its bound keeps its slope but for two units in the last place."""
    slopes, norms = np.array([0.5, 1.0, -1.0, 3.0]), np.array([2.0, 1.0, 1.0, 1.0])
    found = coefficients(slopes, norms, 1.0, compiled=compiled)
    np.testing.assert_allclose(found, [0.5, 1.0, -1.0, 1.0], rtol=3e-16)
    np.testing.assert_array_equal(coefficients(slopes, norms, 4.0, compiled=compiled), slopes)


def test_a_quotient_by_reciprocal_would_break_the_bound():
    """Why no fast-math flag may touch the clipping: clip * (1 / norm) is not clip / norm."""
    norms = np.random.default_rng(1).random(2000) + 0.5
    careless = [abs(Fraction(c)) * Fraction(n) > 1 for c, n in zip(1.0 / norms, norms, strict=True)]
    assert any(careless)


def test_non_finite_slopes_count_as_nothing(compiled):
    slopes = np.array([np.nan, np.inf, -np.inf, 1.0])
    for clip in (0.5, math.inf):
        found = coefficients(slopes, np.ones(4), clip, compiled=compiled)
        np.testing.assert_array_equal(found[:3], 0.0)
        assert found[3] == min(1.0, limits(np.ones(1), clip)[0])
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    for weights in ([1e308, 0.0], [math.inf, 0.0], [math.nan, 0.0]):
        total = slope_sum(X, np.ones(2), np.ones(2), SLOPES["cube"], np.array(weights), 0.5)
        if math.isfinite(weights[0]):  # otherwise 0 * inf spoils every margin
            assert abs(total[1]) == pytest.approx(0.5)
        assert total[0] == 0.0


def test_smoothing_keeps_the_rule_for_margins_that_are_not_finite(compiled):
    total = slope_sum(
        np.ones((1, 1)), np.ones(1), np.ones(1), SLOPES["smoothed"], np.array([np.nan]), 1.0,
    )  # fmt: skip
    assert total[0] == 0.0


def test_no_warning_tells_of_a_row(compiled):
    X = np.array([[1e300, 1e300], [1.0, 0.0]])
    norms = np.array([2e300, 1.0])
    total = slope_sum(X, np.ones(2), norms, SLOPES["cube"], np.array([1e10, 1e10]), 1.0)
    assert np.all(np.isfinite(total))


def test_who_knows_the_whole_job_decides(monkeypatch):
    monkeypatch.delenv("DPSCO_COMPILED", raising=False)
    monkeypatch.setattr("dpsco.kernels.compiler._installed", lambda: True)
    assert not sums.use_compiled(100_000, 20)
    assert sums.use_compiled(100_000_000, 20)
    assert sums.use_compiled(100_000, 20, points=1000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.ones(3)}, "labels must be a vector of length 4"),
        ({"norms": np.ones(3)}, "norms must be a vector of length 4"),
        ({"weights": np.zeros((2, 1))}, "weights must be a vector of length 2"),
        ({"clip": -1.0}, "clip must be zero or positive"),
        ({"clip": math.nan}, "clip must be a number"),
        ({"rows": np.ones((4, 2), dtype=np.float16)}, "float32 or float64"),
        ({"slope": Slope(cube, smoothing=1.0)}, "finite slope bound"),
    ],
)
def test_refusals(change, message):
    job = {
        "rows": np.ones((4, 2)),
        "labels": np.ones(4),
        "norms": np.ones(4),
        "slope": Slope(cube),
        "weights": np.zeros(2),
        "clip": 1.0,
    } | change
    with pytest.raises(ParameterError, match=message):
        slope_sum(**job)
