"""Non-convex losses: derivatives against 50 digits, every constant searched for a violation."""

from __future__ import annotations

import math
import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import ParameterError
from dpsco.losses.nonconvex import GemanMcClure, PhaseRetrieval, Ramp, Sigmoid, Tukey, Welsch

ROBUST = [Tukey(0.7), Tukey(3.0), GemanMcClure(0.4), GemanMcClure(2.0), Welsch(0.9), Welsch(5.0)]
SIGN = [Sigmoid(), Ramp(), Ramp(0.1), Ramp(1.0)]
SMOOTH = ROBUST + SIGN
ALL = [*SMOOTH, PhaseRetrieval()]


def exact(loss, u, y):
    """The loss by its definition, in mpmath's numbers."""
    u, y = mpmath.mpf(u), mpmath.mpf(y)
    if isinstance(loss, Sigmoid):
        return 1 / (1 + mpmath.exp(y * u))
    if isinstance(loss, Ramp):  # the ramp's mean over the window, by pieces of its integral

        def integral(s):  # of clip(1 - s, 0, 1)
            if s <= 0:
                return s
            return s - s**2 / 2 if s <= 1 else mpmath.mpf(1) / 2

        half = mpmath.mpf(loss.width) / 2
        return (integral(y * u + half) - integral(y * u - half)) / (2 * half)
    if isinstance(loss, PhaseRetrieval):
        return abs(u**2 - y)
    c, r = mpmath.mpf(loss.threshold), u - y
    if isinstance(loss, Tukey):
        return c**2 / 6 * (1 - (1 - (r / c) ** 2) ** 3) if abs(r) < c else c**2 / 6
    if isinstance(loss, GemanMcClure):
        return c**2 / 2 * r**2 / (r**2 + c**2)
    return c**2 / 2 * (1 - mpmath.exp(-((r / c) ** 2)))


def labels_of(loss, rng, size, bound=1.0):
    if loss.labels == "sign":
        return rng.choice([-1.0, 1.0], size)
    return rng.uniform(-bound, bound, size)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_value_slope_curvature_against_many_digits(loss):
    rng = np.random.default_rng(1)
    margins = np.concatenate([rng.normal(size=40), 5 * rng.normal(size=20), [1e-9, 30.0, -30.0]])
    labels = labels_of(loss, rng, len(margins))
    with mpmath.workdps(50):
        for u, y in zip(margins.tolist(), labels.tolist(), strict=True):
            value = exact(loss, u, y)
            h = mpmath.mpf(10) ** -12
            up, down = exact(loss, u + h, y), exact(loss, u - h, y)
            assert abs(float(loss.value(u, y)) - value) <= 1e-14 * max(1, abs(value))
            first = (up - down) / (2 * h)
            assert abs(float(loss.slope(u, y)) - first) <= 1e-11 * max(1, abs(first))
            second = (up - 2 * value + down) / h**2
            assert abs(float(loss.curvature(u, y)) - second) <= 1e-9


def test_sigmoid_keeps_its_relative_accuracy_in_the_tail():
    for u in (40.0, 300.0):
        assert float(Sigmoid().value(u, 1.0)) == pytest.approx(math.exp(-u), rel=1e-14)
        assert float(Sigmoid().slope(u, 1.0)) == pytest.approx(-math.exp(-u), rel=1e-14)
        assert float(Sigmoid().value(-u, 1.0)) == 1.0


def test_small_residuals_keep_their_relative_accuracy():
    for loss in (Tukey(2.0), GemanMcClure(2.0), Welsch(2.0)):
        assert float(loss.value(1e-9, 0.0)) == pytest.approx(0.5e-18, rel=1e-14)


# --- constants ------------------------------------------------------------------------------------

CLOSED = [  # sup |phi'| / c, -inf phi''; from setting the next derivative to zero
    (Tukey, lambda: 16 / (25 * mpmath.sqrt(5)), lambda: mpmath.mpf(4) / 5),
    (GemanMcClure, lambda: 3 * mpmath.sqrt(3) / 16, lambda: mpmath.mpf(1) / 4),
    (Welsch, lambda: 1 / mpmath.sqrt(2 * mpmath.e), lambda: 2 * mpmath.exp(-1.5)),
]


@pytest.mark.parametrize(
    ("family", "steepest", "weakest"), CLOSED, ids=["Tukey", "GemanMcClure", "Welsch"]
)
def test_robust_constants_are_the_extrema(family, steepest, weakest):
    """Closed form, declared number and a maximisation in 40 digits agree to 1e-10."""
    loss = family(1.3)
    with mpmath.workdps(40):
        c = mpmath.mpf(1.3)

        def first(r):
            return mpmath.diff(lambda t: exact(loss, t, 0), r)

        def second(r):
            return mpmath.diff(lambda t: exact(loss, t, 0), r, 2)

        def third(r):
            return mpmath.diff(lambda t: exact(loss, t, 0), r, 3)

        start = {Tukey: (0.45, 0.77), GemanMcClure: (0.58, 1.0), Welsch: (0.71, 1.22)}[family]
        inflection = mpmath.findroot(second, start[0] * c)
        lowest = mpmath.findroot(third, start[1] * c)
        assert abs(first(inflection) - loss.slope_bound(5.0, math.inf)) < 1e-10
        assert abs(c * steepest() - loss.slope_bound(5.0, math.inf)) < 1e-14
        assert abs(-second(lowest) - loss.weak_convexity()) < 1e-10
        assert abs(weakest() - loss.weak_convexity()) < 1e-14
        assert abs(second(mpmath.mpf(0)) - loss.curvature_bound(5.0, math.inf)) < 1e-10


def test_sigmoid_constants_are_the_extrema():
    loss = Sigmoid()
    with mpmath.workdps(40):
        third = lambda s: mpmath.diff(lambda t: exact(loss, t, 1), s, 3)  # noqa: E731
        bend = mpmath.findroot(third, 1.3)
        assert abs(bend - mpmath.log(2 + mpmath.sqrt(3))) < 1e-20
        second = mpmath.diff(lambda t: exact(loss, t, 1), bend, 2)
        assert abs(second - loss.curvature_bound(1.0, math.inf)) < 1e-12
        assert abs(second - loss.weak_convexity()) < 1e-12
        assert abs(mpmath.diff(lambda t: exact(loss, t, 1), 0) + loss.slope_bound(1.0, 0.0)) < 1e-12


@pytest.mark.thorough
@pytest.mark.parametrize("loss", ALL, ids=repr)
@pytest.mark.parametrize("label", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("margin", [0.0, 0.02, 0.2, 1.0, 4.0, 40.0])
def test_no_violation_and_attained(loss, label, margin):
    """A fine grid finds nothing above a declared bound, and comes within 1% of it."""
    inner = min(margin, 6.0)  # where all of them have their extremes
    u = np.concatenate([np.linspace(-inner, inner, 1001), [-margin, margin]])[:, None]
    y = np.array([-1.0, 1.0]) if loss.labels == "sign" else np.linspace(-label, label, 401)
    slopes, curvatures = np.abs(loss.slope(u, y)), np.abs(loss.curvature(u, y))
    bound, bend = loss.slope_bound(label, margin), loss.curvature_bound(label, margin)
    assert slopes.max() <= bound * (1 + 1e-15)
    assert slopes.max() >= 0.99 * bound
    assert curvatures.max() <= bend * (1 + 1e-14)
    if bend < math.inf:
        assert curvatures.max() >= 0.99 * bend
    assert loss.value(0.0, y).max() <= loss.value_at_zero(label) * (1 + 1e-15)
    assert loss.value(0.0, y).max() >= 0.99 * loss.value_at_zero(label)
    assert loss.curvature(u, y).min() >= -loss.weak_convexity() * (1 + 1e-14)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_weak_convexity_is_the_least(loss):
    """With rho phi + rho/2 u^2 has an increasing slope; with 0.99 rho it has not."""
    u = np.linspace(-20, 20, 400_001)
    for y in (1.0, 0.25):
        label = 1.0 if loss.labels == "sign" else y
        slope, rho = loss.slope(u, label), loss.weak_convexity()
        assert np.diff(slope + rho * u).min() >= -1e-12
        assert np.diff(slope + 0.99 * rho * u).min() < -1e-9


@pytest.mark.thorough
@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@settings(max_examples=60, deadline=None)
@given(
    u=st.floats(-50, 50),
    v=st.floats(-50, 50),
    y=st.floats(-3, 3),
    close=st.floats(-12, 0),
)
def test_hoelder(loss, u, v, y, close):
    y = math.copysign(1.0, y) if loss.labels == "sign" else y
    v = u + 10**close * (v - u)
    found = loss.hoelder()
    assert found.alpha == 1.0
    difference = abs(float(loss.slope(u, y)) - float(loss.slope(v, y)))
    assert difference <= found.constant * abs(u - v) * (1 + 1e-9) + 1e-14


def test_ramp_is_the_ramp_with_rounded_corners():
    signed = np.linspace(-3, 4, 7001)
    plain = np.clip(1 - signed, 0, 1)
    for width in (0.01, 0.3, 1.0):
        gap = np.abs(Ramp(width).value(signed, 1.0) - plain)
        assert gap.max() == pytest.approx(width / 8, rel=1e-9)
    # a plain ramp violates any weak convexity at its upper corner: slopes drop by one at once
    steep = Ramp(1e-6).slope(np.array([-1e-6, 1e-6]), 1.0)
    assert np.diff(steep + 100.0 * np.array([-1e-6, 1e-6]))[0] < -0.99


def test_constants_scale_with_the_features():
    found = Tukey(2.0).constants(feature=3.0, label=1.0, radius=1.0)
    assert found.lipschitz == pytest.approx(3 * 2.0 * 16 / (25 * math.sqrt(5)), rel=1e-14)
    assert found.smoothness == 9.0
    assert found.weak_convexity == pytest.approx(7.2)
    assert not found.convex
    assert found.hessian_rank == 1


# --- phase retrieval ------------------------------------------------------------------------------


def test_phase_retrieval_facts():
    loss = PhaseRetrieval()
    assert loss.slope([3.0, -3.0, 1.0, -1.0], 4.0).tolist() == [6.0, -6.0, -2.0, 2.0]
    assert loss.slope([2.0, -2.0, 0.0], [4.0, 4.0, -1.0]).tolist() == [0.0, 0.0, 0.0]
    assert loss.curvature([3.0, 1.0, 2.0, 0.0], [4.0, 4.0, 4.0, -1.0]).tolist() == [2, -2, 0, 2]
    found = loss.constants(feature=2.0, label=5.0, radius=3.0)
    assert found.lipschitz == 2 * (2.0 * 6.0)  # feature * sup 2 |margin|
    assert found.weak_convexity == 8.0  # 2 R^2
    assert found.smoothness == math.inf
    assert found.gradient_at_zero == 0.0
    assert found.value_at_zero == 5.0
    assert loss.constants(feature=1.0, label=1.0).lipschitz == math.inf


@settings(max_examples=200, deadline=None)
@given(u=st.floats(-9, 9), v=st.floats(-9, 9), y=st.floats(-4, 20))
def test_phase_retrieval_lies_above_its_tangent_parabola(u, v, y):
    loss = PhaseRetrieval()
    tangent = loss.value(u, y) + loss.slope(u, y) * (v - u) - (v - u) ** 2
    assert float(loss.value(v, y)) >= float(tangent) - 1e-12 * (1 + u * u + v * v + abs(y))


# --- edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_extreme_margins_are_defined_without_warnings(loss):
    extreme = np.array([0.0, -0.0, 5e-324, 1e-160, 1e160, -1e300, 1.7e308])
    for label in (1.0, -1.0):
        slope = loss.slope(extreme, label)
        if not isinstance(loss, PhaseRetrieval):
            assert np.all(np.isfinite(slope))
            assert np.all(np.isfinite(loss.value(extreme, label)))
        else:
            assert np.all(np.isfinite(slope[:-1]))
        assert np.all(np.isfinite(loss.curvature(extreme, label)))


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_kernel_accepts_numbers_and_arrays_alike(loss):
    kernel = loss.kernel()
    margins = np.linspace(-3, 3, 31)
    one_by_one = [float(kernel(u, 1.0)) for u in margins]
    np.testing.assert_array_equal(kernel(margins, np.ones(31)), one_by_one)
    assert pickle.loads(pickle.dumps(loss)) == loss


@pytest.mark.thorough
@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_kernel_compiles(loss):
    numba = pytest.importorskip("numba")
    kernel = loss.kernel()
    compiled = numba.njit("f8(f8,f8,f8,f8)")(kernel.function)
    rng = np.random.default_rng(0)
    for u in 3 * rng.normal(size=20):
        y = float(labels_of(loss, rng, 1)[0])
        expected = float(kernel(u, y))
        found = compiled(float(u), y, kernel.first, kernel.second)
        assert found == pytest.approx(expected, rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("family", [Tukey, GemanMcClure, Welsch])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, "1", True])
def test_bad_threshold(family, bad):
    with pytest.raises(ParameterError, match="threshold"):
        family(bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, 1.5, math.inf, math.nan])
def test_bad_width(bad):
    with pytest.raises(ParameterError, match="width"):
        Ramp(bad)
