"""Moreau envelopes: known answers, closed forms against bisection, invariants."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

from dpsco import losses
from dpsco.kernels.slope import smoothed_slope
from dpsco.losses import MarginLoss

EPS = 2.0**-52
SMOOTHINGS = [1e-3, 0.05, 0.25, 1.0, 4.0, 50.0, 1e3, 1e6]

# loss, margin, label, smoothing, slope of the envelope
KNOWN = [
    (losses.Hinge(), 0.4, 1.0, 2.0, -1.0),
    (losses.Hinge(), 0.95, 1.0, 2.0, -0.1),
    (losses.Hinge(), 1.3, 1.0, 2.0, 0.0),
    (losses.Hinge(), -0.2, -1.0, 5.0, 1.0),
    (losses.QHinge(1.0), 0.95, 1.0, 2.0, -0.1),
    (losses.Absolute(), 0.7, 0.5, 2.0, 0.4),
    (losses.Absolute(), 3.0, 0.5, 2.0, 1.0),
    (losses.QPower(1.0), 0.7, 0.5, 2.0, 0.4),
    (losses.Pinball(0.3), 0.6, 0.5, 2.0, 0.2),
    (losses.Pinball(0.3), 3.0, 0.5, 2.0, 0.7),
    (losses.Pinball(0.3), -3.0, 0.5, 2.0, -0.3),
    (losses.EpsilonInsensitive(0.5), 1.2, 0.5, 2.0, 0.4),
    (losses.EpsilonInsensitive(0.5), 0.8, 0.5, 2.0, 0.0),
    (losses.EpsilonInsensitive(0.5), -3.0, 0.5, 2.0, -1.0),
    (losses.Huber(0.7), 1.0, 0.5, 2.0, 1 / 3),
    (losses.Huber(0.7), 3.0, 0.5, 2.0, 0.7),
    (losses.Squared(), 1.0, 0.5, 2.0, 1 / 3),
    (losses.QPower(2.0), 1.0, 0.5, 2.0, 0.5),
    (losses.Logistic(), 0.0, 1.0, 1.0, -0.401058137541547),
    (losses.Logistic(), 0.0, 1.0, 100.0, -0.4987531197852631),
    (losses.Logistic(), 2.0, -1.0, 0.5, 0.6625841928288003),
    (losses.Logistic(), -1.5, 1.0, 4.0, -0.7864063737141542),
    # by hand: two springs in series, then the cap
    (losses.SquaredHinge(), 0.5, 1.0, 2.0, -0.5),
    (losses.ModifiedHuber(), 0.5, 1.0, 2.0, -0.5),
    (losses.ModifiedHuber(), -5.0, 1.0, 2.0, -4.0),
    # t + log t = 0 at the omega constant
    (losses.Poisson(20.0), 0.0, 0.0, 1.0, 0.5671432904097838),
    (losses.Poisson(0.3), 0.0, 2.0, 1.0, -1.7),
]


@pytest.mark.parametrize("row", KNOWN, ids=str)
def test_known_answers(row):
    loss, margin, label, smoothing, expected = row
    slope = loss.envelope(smoothing)
    assert slope.smoothing == 0.0  # a closed form
    assert float(slope(margin, label)) == pytest.approx(expected, rel=4e-15, abs=1e-15)


def _sample(case, smoothing, seed, size=400):
    rng = np.random.default_rng(seed)
    labels = case.labels(rng, size)
    reach = (1.0 + case.loss.slope_bound(3.0, math.inf)) / smoothing
    near = case.joint(rng, labels) + reach * rng.uniform(-2, 2, size)
    return np.where(rng.random(size) < 0.5, near, case.margins(rng, labels)), labels


def _bisection(loss, margins, labels, smoothing):
    """The first-order oracle, in the variable u - m so that the answer keeps its digits."""
    bound = loss.slope_bound(3.0, math.inf)
    low = np.full(margins.shape, -bound / smoothing)
    high = -low
    for _ in range(60):
        middle = 0.5 * (low + high)
        right = loss.slope(margins + middle, labels) + smoothing * middle > 0
        high, low = np.where(right, middle, high), np.where(right, low, middle)
    return np.clip(-smoothing * 0.5 * (low + high), -bound, bound)


def _slope(loss, margins, labels, smoothing):
    """What a solver uses: the closed form, or bisection for a loss without one."""
    slope = loss.envelope(smoothing)
    if slope.smoothing:
        assert slope.smoothing == smoothing
        assert slope.function is loss.kernel().function
        assert slope.bound == loss.slope_bound(1.0, math.inf)
        return _bisection(loss, margins, labels, smoothing)
    return np.asarray(slope(margins, labels))


def _rounding(margins, labels, smoothing):
    """What a rounded residual may do to the slope of the envelope."""
    return 8 * EPS * (1 + smoothing) * (np.abs(margins) + np.abs(labels)) + 64 * EPS


@pytest.mark.thorough
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_closed_form_equals_bisection(smoothable, smoothing):
    m, y = _sample(smoothable, smoothing, 31)
    found = _slope(smoothable.loss, m, y, smoothing)
    generic = replace(
        MarginLoss.envelope(smoothable.loss, smoothing),
        bound=smoothable.loss.slope_bound(3.0, math.inf),  # Poisson's depends on the label
    )
    for exact in (
        _bisection(smoothable.loss, m, y, smoothing),
        smoothed_slope(generic, m, y),
    ):
        assert np.all(np.abs(found - exact) <= 1e-10 + _rounding(m, y, smoothing))


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_slope_leads_to_the_prox(smoothable, smoothing):
    """g = smoothing (m - prox(m)), two independent computations."""
    m, y = _sample(smoothable, smoothing, 32)
    found = _slope(smoothable.loss, m, y, smoothing)
    nearest = smoothable.loss.prox(m, y, 1.0 / smoothing)
    lost = 4 * EPS * smoothing * (np.abs(m) + np.abs(y) + np.abs(nearest))
    assert np.all(np.abs(found - smoothing * (m - nearest)) <= 1e-12 + lost)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_slope_is_bounded_monotone_and_lipschitz(smoothable, smoothing):
    loss = smoothable.loss
    m, y = _sample(smoothable, smoothing, 33)
    other, _ = _sample(smoothable, smoothing, 34)
    g, h = (_slope(loss, at, y, smoothing) for at in (m, other))
    slack = _rounding(np.maximum(np.abs(m), np.abs(other)), y, smoothing)
    rise = (g - h) * np.sign(m - other)
    assert np.all(rise >= -slack)
    assert np.all(rise <= smoothing * np.abs(m - other) + slack)
    if loss.labels == "count":
        assert np.all((g >= -y) & (g <= loss.max_rate - y))
    else:
        assert np.all(np.abs(g) <= loss.slope_bound(1.0, math.inf))


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_value_lies_below_the_loss_and_near_it(smoothable, smoothing):
    loss = smoothable.loss
    m, y = _sample(smoothable, smoothing, 35)
    envelope, value = loss.envelope_value(m, y, smoothing), loss.value(m, y)
    bound = loss.slope_bound(3.0, math.inf)
    slack = 16 * EPS * (np.abs(value) + bound * (np.abs(m) + np.abs(y)) + bound**2 / smoothing + 1)
    assert np.all(envelope <= value + slack)
    assert np.all(value <= envelope + bound**2 / (2 * smoothing) + slack)


@pytest.mark.thorough
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_value_is_the_minimum(case, smoothing):
    """Never above phi(u) + smoothing / 2 (u - m)^2 at any u, and equal to it at the prox."""
    loss = case.loss
    rng = np.random.default_rng(36)
    y = case.labels(rng, 300)
    m = case.margins(rng, y)
    envelope = loss.envelope_value(m, y, smoothing)
    nearest = loss.prox(m, y, 1.0 / smoothing)
    # The move can be off by one last place of m.
    move = nearest - m
    lost = smoothing * np.abs(move) * 4 * EPS * (np.abs(m) + np.abs(y))
    lost = lost + smoothing * (4 * EPS * (np.abs(m) + np.abs(y))) ** 2
    at_best = loss.value(nearest, y) + smoothing / 2 * move**2
    scale = 16 * EPS * (np.abs(envelope) + np.abs(loss.value(m, y)) + np.abs(m * y) + 1)
    assert np.all(np.abs(envelope - at_best) <= scale + lost)
    for _ in range(20):
        u = nearest + rng.normal(size=300) * 10.0 ** rng.uniform(-6, 1, 300)
        assert np.all(envelope <= loss.value(u, y) + smoothing / 2 * (u - m) ** 2 + scale + lost)


@pytest.mark.thorough
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_slope_is_the_derivative_of_the_value(smoothable, smoothing):
    """A difference quotient of a convex function lies between the slopes at its ends."""
    loss = smoothable.loss
    m, y = _sample(smoothable, smoothing, 37)
    gap = np.maximum(1e-3 / smoothing, 1e-6 * (1 + np.abs(m)))
    rise = (loss.envelope_value(m + gap, y, smoothing) - loss.envelope_value(m, y, smoothing)) / gap
    size = np.abs(loss.value(m, y)) + np.abs(loss.envelope_value(m, y, smoothing)) + np.abs(m * y)
    slack = 16 * EPS * (size + 1) / gap + _rounding(m, y, smoothing) + 1e-12
    slack = slack + 16 * EPS * loss.slope_bound(3.0, math.inf) ** 2 / smoothing / gap
    assert np.all(rise >= _slope(loss, m, y, smoothing) - slack)
    assert np.all(rise <= _slope(loss, m + gap, y, smoothing) + slack)


def test_the_limit_is_the_slope(smoothable):
    """Away from joints a stiff envelope has the slope of the loss itself."""
    rng = np.random.default_rng(38)
    y = smoothable.labels(rng, 300)
    m = rng.normal(size=300) * 3
    for joint in smoothable.joints(y):
        m = np.where(np.abs(m - joint) < 1e-3, m + 3e-3, m)
    stiff = _slope(smoothable.loss, m, y, 1e10)
    assert np.allclose(stiff, smoothable.loss.slope(m, y), rtol=0, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.01, 1.0, 100.0])
def test_signs_mirror(smoothable, smoothing):
    """For losses of a sign, changing both signs changes the slope's."""
    if smoothable.loss.labels == "sign":
        m = np.linspace(-5, 5, 101)
        slope = smoothable.loss.envelope(smoothing)
        assert np.array_equal(slope(m, -1.0), -slope(-m, 1.0))
        assert np.array_equal(smoothable.loss.slope(m, -1.0), -smoothable.loss.slope(-m, 1.0))


@pytest.mark.parametrize("smoothing", [1e-9, 1e-6, 1e-3, 0.01, 0.1, 0.25, 1.0, 30.0, 1e3, 1e6, 1e9])
def test_logistic_to_rounding(smoothing):
    """p = 1 / (1 + exp(s + p / smoothing)) against 40 digits, at every scale of s."""
    tau = 1 / smoothing
    s = np.concatenate([np.linspace(-40, 40, 41), -tau * np.linspace(0, 1, 21)])
    s = np.concatenate([s, -tau + np.linspace(-30, 30, 31), [-745.0, -0.5 * tau, 600.0, 700.0]])
    found = -losses.Logistic().envelope(smoothing)(s, 1.0)
    with mp.workdps(40):
        for x, p in zip(s, found, strict=True):
            low, high = mp.mpf(0), mp.mpf(1)
            rate, x_mp = mp.mpf(float(smoothing)), mp.mpf(float(x))
            # Newton from our answer in 40 digits, inside [0, 1]; it is verified, not trusted.
            root = mp.mpf(float(p))
            for _ in range(4):
                tail = 1 / (1 + mp.exp(x_mp + root / rate))
                root -= (root - tail) / (1 + tail * (1 - tail) / rate)
                root = min(max(root, low), high)
            assert abs(root - 1 / (1 + mp.exp(x_mp + root / rate))) <= 1e-25
            assert abs(p - root) <= 4 * EPS * root * (2 + min(abs(x), 745)), x
            assert abs(p - root) <= 16 * EPS


def test_poisson_to_rounding():
    """Rates against the Lambert function in 40 digits."""
    loss = losses.Poisson(1e6)
    with mp.workdps(40):
        for smoothing in (1e-9, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6):
            for m in (-700.0, -30.0, -3.0, -0.1, 0.0, 1.0, 2.0, 5.0, 13.0):
                for y in (0.0, 1.0, 40.0):
                    shift = mp.mpf(m) + mp.mpf(y) / smoothing
                    if shift > 1e4:
                        continue  # the capped branch
                    rate = mp.mpf(smoothing) * mp.lambertw(mp.exp(shift) / smoothing).real
                    found = loss.envelope(smoothing)(m, y) + y
                    slack = 8 * EPS * (abs(rate) * (1 + abs(m) + y) + y)
                    assert abs(found - min(rate, 10**6)) <= slack, (smoothing, m, y)
