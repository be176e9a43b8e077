"""Gaussian closed forms: known answers, and three routes (closed form, 80 digits, PLD)."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr, ndtri

from dpsco.privacy.accounting import gaussian, pld

KNOWN = json.loads((Path(__file__).parents[2] / "golden" / "known_answers.json").read_text())

EPSILONS = [float(e) for e in np.geomspace(1e-3, 1e6, 22)]
DELTAS = [0.5, 0.1, 1e-3, 1e-5, 1e-8, 1e-12, 1e-25, 1e-60, 1e-150, 1e-300]
GRID = [(e, d) for e in EPSILONS for d in DELTAS]  # 220 settings
SLACK = 1e-10  # relative, by how much delta may be rounded up


def truth(epsilon: float, mu: float) -> mpmath.mpf:
    """Delta to 80 digits; mpmath's erfc keeps its relative accuracy in both tails."""
    with mpmath.workdps(80):
        eps, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        root = mpmath.sqrt(2)
        near, far = (eps / m - m / 2) / root, (eps / m + m / 2) / root
        return (mpmath.erfc(near) - mpmath.exp(eps) * mpmath.erfc(far)) / 2


# --- known answers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "known", KNOWN["gaussian_mu"], ids=lambda k: f"{k['epsilon']},{k['delta']}"
)
def test_known_mu(known):
    assert abs(gaussian.mu(known["epsilon"], known["delta"]) - known["mu"]) <= known["within"]


@pytest.mark.parametrize("known", KNOWN["gaussian_epsilon"], ids=lambda k: str(k["mu"]))
def test_known_epsilon(known):
    assert abs(gaussian.epsilon(known["delta"], known["mu"]) - known["epsilon"]) <= known["within"]


@pytest.mark.parametrize("known", KNOWN["gaussian_delta"], ids=lambda k: str(k["mu"]))
def test_known_delta(known):
    assert abs(gaussian.delta(known["epsilon"], known["mu"]) - known["delta"]) <= known["within"]


# --- second witness: 80 digits --------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS, ids="{:.2g}".format)
def test_mu_against_many_digits(epsilon):
    """The largest safe mu: its delta is within the budget, a hair more is not."""
    for delta in DELTAS:
        mu = gaussian.mu(epsilon, delta)
        assert truth(epsilon, mu) <= delta, (epsilon, delta)
        assert truth(epsilon, mu * (1 + 1e-9)) > delta, (epsilon, delta)


@pytest.mark.parametrize("epsilon", EPSILONS, ids="{:.2g}".format)
def test_delta_against_many_digits(epsilon):
    """Never below the truth, and above it by at most the stated slack."""
    for target in DELTAS:
        mu = gaussian.mu(epsilon, target)
        exact, found = truth(epsilon, mu), gaussian.delta(epsilon, mu)
        assert exact <= found <= exact * (1 + SLACK), (epsilon, target)


@pytest.mark.parametrize("mu", [1e-8, 1e-4, 0.01, 0.3, 0.5, 0.51, 2.0, 30.0, 1e3, 1e4])
def test_epsilon_against_many_digits(mu):
    """Never below the truth: delta at the epsilon returned is paid for, a hair less is not."""
    for delta in (0.4, *DELTAS[1:]):
        epsilon = gaussian.epsilon(delta, mu)
        assert truth(epsilon, mu) <= delta, (mu, delta)
        if epsilon > 0:
            assert truth(epsilon * (1 - 1e-8), mu) > delta, (mu, delta)


def test_delta_of_mu_at_all_sizes():
    """Both branches of Mills' ratio and the seams between them, at x from -20 to 400."""
    for mu in (1e-8, 1e-3, 0.4999, 0.5, 0.5001, 1.2499, 1.2501, 20.0, 1e3):
        for x in (-20.0, -1.0, -1e-9, 0.0, 0.3, 9.99, 24.9, 25.1, 36.0):
            epsilon = mu * (x + mu / 2)
            if epsilon >= 0:
                exact, found = truth(epsilon, mu), gaussian.delta(epsilon, mu)
                assert exact <= found <= exact * (1 + SLACK), (mu, x)


def test_log_delta_beyond_the_smallest_float():
    for epsilon, mu in [(100.0, 1.0), (1e6, 1.0), (1.0, 1e-8)]:
        with mpmath.workdps(80):
            exact = mpmath.log(truth(epsilon, mu))
        found = gaussian.log_delta(epsilon, mu)
        assert exact <= found <= exact + 1e-10 * abs(exact)
        assert gaussian.delta(epsilon, mu) == 5e-324  # positive: never "no leak at all"


# --- third witness: PLD ---------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("count", [1, 4, 100])
@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-6, 1e-10])
def test_pld_agrees(delta, count):
    """PLD rounds up: never below the closed form by more than 1e-9, and within 2e-3."""
    for epsilon in (0.02, 0.3, 1.0, 4.0, 30.0, 300.0):
        mu = gaussian.mu(epsilon, delta)
        composed = pld.Composed(((pld.GaussianLoss(mu / math.sqrt(count)), count),))
        found = composed.pld_epsilon(delta)
        assert epsilon * (1 - 1e-9) <= found <= epsilon * (1 + 2e-3), (epsilon, delta, count)


def test_delta_array_agrees_with_the_scalar():
    epsilons = np.linspace(-8, 8, 161)
    for mu in (1e-4, 1e-2, 0.5, 3.0):
        scaled = epsilons * mu
        found = gaussian.delta_array(scaled, mu)
        for epsilon, value in zip(scaled, found, strict=True):
            exact = truth(epsilon, mu)
            assert abs(value - exact) <= 1e-10 * exact + 1e-22, (mu, epsilon)


# --- properties -----------------------------------------------------------------------------------

epsilons = st.floats(-3, 6).map(lambda t: 10.0**t)
deltas = st.floats(-300, math.log10(0.5)).map(lambda t: 10.0**t)
mus = st.floats(-8, 4).map(lambda t: 10.0**t)


@given(epsilons, deltas)
@settings(max_examples=150, deadline=None)
def test_mu_never_overspends(epsilon, delta):
    mu = gaussian.mu(epsilon, delta)
    assert gaussian.epsilon(delta, mu) <= epsilon
    assert gaussian.delta(epsilon, mu) <= delta * (1 + SLACK)


@given(epsilons, deltas)
@settings(max_examples=150, deadline=None)
def test_round_trip(epsilon, delta):
    """epsilon(delta(epsilon)) = epsilon wherever delta is an ordinary float."""
    mu = gaussian.mu(epsilon, delta)
    back = gaussian.epsilon(gaussian.delta(epsilon, mu), mu)
    assert math.isclose(back, epsilon, rel_tol=1e-7)


@given(mus, deltas, st.floats(1e-6, 1.0))
@settings(max_examples=150, deadline=None)
def test_epsilon_is_monotone(mu, delta, share):
    here = gaussian.epsilon(delta, mu)
    assert gaussian.epsilon(delta, mu * (1 + share)) >= here
    assert gaussian.epsilon(delta * (1 - share / 2), mu) >= here


@pytest.mark.thorough
@given(epsilons, deltas, st.floats(1e-6, 1.0))
@settings(max_examples=150, deadline=None)
def test_mu_is_monotone(epsilon, delta, share):
    here = gaussian.mu(epsilon, delta)
    assert gaussian.mu(epsilon * (1 + share), delta) >= here
    assert gaussian.mu(epsilon, delta * (1 - share / 2)) <= here


def test_limits():
    assert gaussian.epsilon(1e-6, 0.0) == 0.0
    assert gaussian.delta(1.0, 0.0) == 0.0
    assert gaussian.epsilon(0.5, 1.0) == 0.0  # delta(0) = 0.38 is below
    assert gaussian.delta(0.0, 1e4) == 1.0


@pytest.mark.parametrize("mu", [1e140, 1e200, 1e308, math.inf])
def test_hardly_any_noise_is_no_privacy(mu):
    assert gaussian.epsilon(1e-6, mu) == math.inf
    assert gaussian.delta(1e6, mu) == 1.0


@pytest.mark.parametrize("mu", [1e-150, 1e-200, 1e-308])
def test_enormous_noise_does_not_overflow(mu):
    assert gaussian.delta(1e6, mu) == 5e-324
    assert gaussian.epsilon(1e-300, mu) <= 1e-148


def test_closed_forms_are_fast():
    start = time.process_time()
    for epsilon, delta in GRID:
        gaussian.mu(epsilon, delta)
    assert time.process_time() - start < 0.02 * len(GRID)  # measured: 1 ms each


def test_delta_of_releases_that_hide_nothing():
    assert gaussian.delta(0.0, 1e139) == 1.0
    assert gaussian.delta(5.0, 1e3) == 1.0


@pytest.mark.parametrize("e0", [1e-9, 1e-3, 0.1, 1.0, 5.0, 20.0])
def test_pure_privacy_implies_a_gaussian_parameter(e0):
    """Its two lines lie above the Gaussian trade-off; below 0.9999 of the parameter they do not."""
    mu = gaussian.of_pure(e0)
    alpha = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 2001), [1 / (1 + math.exp(e0))]])
    lines = np.maximum(np.maximum(1 - math.exp(e0) * alpha, math.exp(-e0) * (1 - alpha)), 0.0)
    tolerance = 1e-12
    assert np.all(lines >= ndtr(-ndtri(alpha) - mu) - tolerance)
    if e0 >= 1e-3:
        assert np.any(lines < ndtr(-ndtri(alpha) - 0.9999 * mu) - tolerance)


@pytest.mark.parametrize("e0", [699.0, 701.0, 5e3, 1e9])
def test_the_gaussian_parameter_of_an_epsilon_that_hides_nothing(e0):
    """log Phi(-mu/2) is at most log 1/(1 + e^e0), also where e^e0 is no float."""
    mu = gaussian.of_pure(e0)
    assert log_ndtr(-mu / 2) <= -np.logaddexp(0.0, e0)
    assert mu < 1.1 * 2.0 * math.sqrt(2.0 * e0)
