"""The curve of a bounded range: against the extremal pair, high precision, and composition."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpsco.privacy.accounting import bounded_range, gaussian, pld
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.budget import Adjacency
from dpsco.privacy.mechanisms import ClipQuantileRelease, GaussianRelease, PoissonGaussianRelease

ROWS = (0, 100)
POINTS = [(0.01, 0.2), (0.1, 0.05), (1.0, 0.5), (0.3, 3.0), (5.0, 1.0), (2.0, 0.01)]


def worst_pair(epsilon, e0, shifts=4001):
    """The largest hockey stick over all pairs of two ratios e^t and e^(t - e0)."""
    t = np.linspace(0.0, e0, shifts)
    high = (np.exp(e0) - np.exp(t)) / np.expm1(e0)
    gain = np.maximum(-np.expm1(epsilon - t), 0.0) * high
    more = np.maximum(-np.expm1(epsilon - t + e0), 0.0) * (1 - high)
    return float(np.max(gain + more))


@pytest.mark.parametrize("e0", [0.01, 0.3, 1.0, 4.0, 30.0])
def test_alone_it_is_the_worst_pair(e0):
    for share in (0.0, 0.2, 0.7, 0.99):
        value = bounded_range.delta(share * e0, e0)
        assert math.isclose(value, worst_pair(share * e0, e0), rel_tol=2e-3)
        assert value >= worst_pair(share * e0, e0)
    assert bounded_range.delta(e0, e0) == 0.0


def expectation(epsilon, e0, mu):
    """E f(epsilon - L) by quadrature, f from the other direction too."""

    def f(x):
        if x >= e0:
            return mpmath.mpf(0)
        if x <= -e0:
            return 1 - mpmath.exp(x)
        return (1 - mpmath.exp((x - e0) / 2)) ** 2 / (1 - mpmath.exp(-mpmath.mpf(e0)))

    def integrand(loss):
        return f(epsilon - loss) * mpmath.npdf(loss, mpmath.mpf(mu) ** 2 / 2, mu)

    lowest = epsilon - e0  # below, f is 0
    steps = [mu * mu / 2 + mu * k for k in (-20, -10, -6, -3, -1, 0, 1, 3, 6, 10, 20)]
    steps += [lowest, epsilon, epsilon + e0, *(lowest + mu * k for k in (0.2, 1, 3, 6, 10, 20))]
    with mpmath.workdps(30):
        return float(mpmath.quad(integrand, sorted(at for at in steps if at >= lowest)))


@pytest.mark.parametrize(("e0", "mu"), POINTS)
def test_beside_gaussians_it_is_the_expectation_rounded_up(e0, mu):
    for epsilon in (0.0, 0.5 * e0 + mu, e0 + 4 * mu):
        exact = expectation(epsilon, e0, mu)
        value = bounded_range.delta(epsilon, e0, mu)
        assert exact * (1 - 1e-12) <= value <= exact * (1 + 1e-6) + 1e-300


@pytest.mark.parametrize(("e0", "mu"), POINTS)
def test_both_of_its_parts_cost_less(e0, mu):
    for epsilon in (0.1, 1.0, 3.0):
        both = bounded_range.delta(epsilon, e0, mu)
        assert both >= gaussian.delta(epsilon, mu) * (1 - 1e-9)
        assert both >= bounded_range.delta(epsilon, e0) * (1 - 1e-9)
        assert both <= gaussian.delta(max(0.0, epsilon - e0), mu) or epsilon < e0


def test_tiny_ranges_and_tiny_deltas_stay_above_the_gaussian():
    for e0 in (1e-9, 1e-6, 1e-3):
        for epsilon in (0.5, 2.0, 5.0):
            alone = gaussian.delta(epsilon, 0.2)
            assert alone <= bounded_range.delta(epsilon, e0, 0.2) <= alone * (1 + 500 * e0)


def test_gaussian_releases_beside_a_clip_are_paid_by_the_curve():
    """The Renyi route alone would cost several per cent more."""
    clip = ClipQuantileRelease(16.0, 90, 41, rows=ROWS)
    noisy = GaussianRelease(1.0, 60.0, rows=ROWS, count=50)
    both = cost([clip, noisy])
    epsilon = both.epsilon(1e-6)
    mu = cost(noisy).mu
    assert cost(noisy).epsilon(1e-6) < epsilon
    assert math.isclose(bounded_range.delta(epsilon, 2.0 / 16.0, mu), 1e-6, rel_tol=1e-6)
    renyi = min(
        both.rows[0].curve(np.array([a]))[0]
        + math.log1p(-1 / a)
        - (math.log(1e-6) + math.log(a)) / (a - 1)
        for a in np.geomspace(1.5, 1000, 400)
    )
    assert epsilon < 0.98 * renyi


def test_two_clips_on_the_same_rows_go_by_renyi():
    clip = ClipQuantileRelease(16.0, 90, 41, rows=ROWS, count=2)
    noisy = GaussianRelease(1.0, 60.0, rows=ROWS, count=50)
    one = ClipQuantileRelease(16.0, 90, 41, rows=ROWS)
    assert cost([clip, noisy]).epsilon(1e-6) > cost([one, noisy]).epsilon(1e-6)


@pytest.mark.parametrize("e0", [0.05, 1.0])
def test_its_distribution_is_its_curve(e0):
    """What sampled releases are composed with: against the closed form beside a Gaussian."""
    composed = pld.Composed(((pld.RangeLoss(e0), 1), (pld.GaussianLoss(0.3), 1)))
    for epsilon in (0.2, 0.8, 1.5):
        exact = bounded_range.delta(epsilon, e0, 0.3)
        assert exact * (1 - 1e-9) <= composed.delta(epsilon) <= exact * 1.02 + 1e-12
    alone = pld.Composed(((pld.RangeLoss(e0), 1),))
    for share in (0.0, 0.4, 0.9):
        exact = bounded_range.delta(share * e0, e0)
        assert exact * (1 - 1e-9) <= alone.delta(share * e0) <= exact * 1.02 + 1e-4 * e0


def test_samples_beside_a_clip_cost_less_than_beside_any_pure_release():
    clip = ClipQuantileRelease(10.0, 90, 41, rows=ROWS)
    sampled = PoissonGaussianRelease(1.0, 4.0, 0.02, rows=ROWS, count=200)
    both = cost([clip, sampled], adjacency="zero_out").epsilon(1e-6)
    assert cost(sampled, adjacency="zero_out").epsilon(1e-6) < both
    loss = sampled.privacy_loss(Adjacency.ZERO_OUT).pld
    any_pure = pld.Composed(((pld.PureLoss(0.2), 1), (loss, 200)))
    assert both < 0.97 * any_pure.epsilon(1e-6)
