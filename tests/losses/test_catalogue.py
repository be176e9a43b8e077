"""Every convex loss: value, slope and curvature against many digits, and at extremes."""

from __future__ import annotations

import warnings

import mpmath as mp
import numpy as np
import pytest

from dpsco import losses

EPS = 2.0**-52

# --- the fixed subgradient at a kink --------------------------------------------------------------

KINKS = [
    (losses.Hinge(), 1.0, 1.0, 0.0),
    (losses.Hinge(), -1.0, -1.0, 0.0),
    (losses.Hinge(), 1.0 - EPS, 1.0, -1.0),
    (losses.QHinge(1.0), 1.0, 1.0, 0.0),
    (losses.QHinge(1.0), -1.0 + EPS, -1.0, 1.0),
    (losses.QHinge(1.5), 1.0, 1.0, 0.0),
    (losses.Absolute(), 0.3, 0.3, 0.0),
    (losses.QPower(1.0), 0.3, 0.3, 0.0),
    (losses.QPower(1.5), -0.3, -0.3, 0.0),
    (losses.Pinball(0.3), 0.5, 0.5, -0.3),
    (losses.Pinball(0.3), 0.5 + EPS, 0.5, 0.7),
    (losses.EpsilonInsensitive(0.5), 1.5, 1.0, 0.0),
    (losses.EpsilonInsensitive(0.5), 0.5, 1.0, 0.0),
    (losses.EpsilonInsensitive(0.5), 1.5 + EPS, 1.0, 1.0),
    (losses.EpsilonInsensitive(0.5), 0.5 - EPS, 1.0, -1.0),
    (losses.EpsilonInsensitive(0.0), 1.0, 1.0, 0.0),
    (losses.Huber(0.7), 1.7, 1.0, 0.7),
    (losses.ModifiedHuber(), -1.0, 1.0, -4.0),
    (losses.Poisson(20.0), 5.0, 3.0, 17.0),
]


@pytest.mark.parametrize("kink", KINKS, ids=repr)
def test_slope_at_a_kink(kink):
    loss, margin, label, slope = kink
    assert float(loss.slope(margin, label)) == pytest.approx(slope, rel=1e-15, abs=0)


# --- values and slopes against many digits --------------------------------------------------------


def _sample(case, size, seed):
    rng = np.random.default_rng(seed)
    labels = case.labels(rng, size)
    return case.margins(rng, labels), labels


def test_value(case):
    margins, labels = _sample(case, 120, 1)
    found = case.loss.value(margins, labels)
    with mp.workdps(40):
        for u, y, value in zip(margins, labels, found, strict=True):
            exact = case.mp(u, y)
            # What rounding y u or u - y may cost, besides a few units in the last place.
            moved = abs(float(case.loss.slope(u, y))) * (abs(u) + abs(y)) + abs(u * y)
            assert abs(value - exact) <= EPS * (4 * abs(exact) + 2 * moved), (u, y)


def test_slope_is_the_derivative(case):
    """Central differences in 60 digits, wherever no joint is within the difference."""
    margins, labels = _sample(case, 120, 2)
    found = case.loss.slope(margins, labels)
    with mp.workdps(60):
        h = mp.mpf(10) ** -26
        for u, y, slope in zip(margins, labels, found, strict=True):
            if any(abs(u - joint) < 1e-16 * (1 + abs(joint)) for joint in case.joints(y)):
                continue
            exact = _difference(case, u, y, h) / (2 * h)
            slack = 4 * EPS * (abs(exact) + abs(y)) + 2 * EPS * abs(
                float(case.loss.curvature(u, y)) * u
            )
            assert abs(slope - exact) <= slack + 1e-20, (u, y)


def _difference(case, u, y, h):
    point, label = mp.mpf(float(u)), mp.mpf(float(y))
    return case.formula(point + h, label) - case.formula(point - h, label)


def test_curvature_is_the_second_derivative(case):
    """At generic points, again by differences in many digits; 0 at each joint of straight lines."""
    rng = np.random.default_rng(3)
    labels = case.labels(rng, 80)
    margins = rng.normal(size=80) * 3
    found = case.loss.curvature(margins, labels)
    assert found.shape == (80,)
    with mp.workdps(80):
        h = mp.mpf(10) ** -20
        for u, y, curvature in zip(margins, labels, found, strict=True):
            point, label = mp.mpf(float(u)), mp.mpf(float(y))
            ends = case.formula(point + h, label) + case.formula(point - h, label)
            exact = (ends - 2 * case.formula(point, label)) / h**2
            assert abs(curvature - exact) <= 1e-13 * abs(exact) + 1e-17, (u, y)


def test_curvature_at_a_kink(case):
    """0 where phi' jumps or phi'' does not exist."""
    loss = case.loss
    for y in (-1.0, 1.0) if loss.labels == "sign" else (0.0, 1.0):
        if loss.hoelder().alpha < 1.0:
            for joint in case.joints(y):
                assert loss.curvature(joint, y) == 0.0


def test_shapes_broadcast(case):
    loss, u, y = case.loss, np.linspace(-2, 2, 5)[:, None], np.array([1.0, 1.0, 1.0])
    for found in (
        loss.value(u, y),
        loss.slope(u, y),
        loss.curvature(u, y),
        loss.prox(u, y, 0.5),
        loss.envelope_value(u, y, 2.0),
        loss.conjugate(u, y),
    ):
        assert found.shape == (5, 3)
        assert found.dtype == np.float64
    assert loss.slope(0.5, 1).shape == ()


# --- extremes: no warning, no NaN, one definition for NumPy and Numba -----------------------------

HARD = [
    0.0,
    -0.0,
    5e-324,
    1e-320,
    1e-160,
    1e-16,
    EPS,
    1e-8,
    0.1,
    0.5,
    0.7,
    1 - EPS / 2,
    1.0,
    1 + EPS,
]
HARD += [1.3, 2.0, 2.9957322735539909, 3.0, 10.0, 36.7, 40.0, 699.0, 700.0, 709.7, 710.0, 745.2]
HARD += [1e3, 1e8, 1e16, 1e100, 1e154, 1e200, 1e300, 1e307, 1e308, 1.79e308]
MARGINS = np.array(sorted({sign * value for value in HARD for sign in (-1.0, 1.0)}))


def _hard(loss):
    labels = {"sign": [-1.0, 1.0], "real": [-2.5, -1e-320, 0.0, 0.3, 1.0, 1e10]}
    chosen = np.array(labels.get(loss.labels, [0.0, 1.0, 7.0, 1e5]))
    pairs = np.meshgrid(MARGINS, chosen)
    return pairs[0].ravel(), pairs[1].ravel()


def _kernels(loss):
    """The slope and the closed forms of its envelope, across smoothings."""
    yield loss.kernel()
    if loss.name in ("QHinge", "QPower") and loss.q not in (1.0, 2.0):
        return
    for smoothing in (1e-3, 0.3, 1.0, 7.0, 1e6):
        if (slope := loss.envelope(smoothing)).smoothing == 0.0:
            yield slope


def test_extremes_are_finite_and_silent(case):
    loss = case.loss
    margins, labels = _hard(loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for slope in _kernels(loss):
            found = slope(margins, labels)
            assert np.all(np.isfinite(found))
            assert np.all(np.abs(found) <= slope.bound)
        assert not np.any(np.isnan(loss.value(margins, labels)))
        assert np.all(loss.curvature(margins, labels) >= 0.0)
        assert not np.any(np.isnan(loss.envelope_value(margins, labels, 2.0)))
        assert not np.any(np.isnan(loss.conjugate(margins, labels)))


COMPILED = {}


def _compiled(function):
    numba = pytest.importorskip("numba")
    if function not in COMPILED:
        COMPILED[function] = numba.njit("f8(f8,f8,f8,f8)")(function)
    return COMPILED[function]


@pytest.mark.thorough
def test_numba_agrees_with_numpy(case):
    """One definition, two runtimes: they agree to four units in the last place on hard inputs."""
    margins, labels = _hard(case.loss)
    for slope in _kernels(case.loss):
        scalar = _compiled(slope.function)
        ours = slope(margins, labels)
        theirs = np.array(
            [scalar(u, y, slope.first, slope.second) for u, y in zip(margins, labels, strict=True)]
        )
        size = np.abs(ours)
        if case.loss.labels == "count":  # a difference of rate and label
            size = np.maximum(size, np.abs(labels))
        if slope.function.__name__ == "logistic_envelope":  # exp of a logarithm: log p / 2 places
            size = size * np.clip(np.abs(margins) / 4, 2.0, 200.0)
        assert np.all(np.abs(ours - theirs) <= 4 * EPS * size + 5e-324)
