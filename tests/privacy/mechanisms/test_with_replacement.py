"""Sampling with replacement: printed values, exact small cases, the law by FFT, upper bounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpsco.errors import AssumptionError, LedgerError, ParameterError
from dpsco.privacy.accounting import gaussian
from dpsco.privacy.accounting.calibration import calibrate
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.budget import ApproxDP
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.mechanisms import WithReplacementRelease, with_replacement
from dpsco.privacy.randomness import Randomness

from .conftest import FALSE_ALARM, ROWS, ZERO, accepts, composed_delta, drawn, gamma, stable


def noise(n, steps, epsilon, *, shift=2.0, drift=0.0, delta=1e-6):
    return calibrate(
        lambda s: WithReplacementRelease(
            shift, drift, steps, s, "replace_one", "test", rows=(0, n)
        ),
        ApproxDP(epsilon, delta),
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n", "steps", "epsilon", "printed", "digit"),
    [
        (1000, 1000, 0.5, 35.0, 0.1),
        (1000, 1000, 1.0, 19.29, 0.02),
        (1000, 1000, 4.0, 6.185, 0.007),
        (10000, 10000, 1.0, 19.3, 0.1),
        (10000, 50000, 1.0, 45.0, 0.1),
        (1000, 10000, 1.0, 70.94, 0.1),
    ],
)
def test_printed_noise(n, steps, epsilon, printed, digit):
    """The table of sigma/(G step), mixture of averages (smooth losses), and T3."""
    assert abs(noise(n, steps, epsilon) - printed) < digit


@pytest.mark.thorough
def test_printed_noise_with_drift():
    """Hinge loss, one pass: 95.9; a million steps: 7082 to 1 % (coarser buckets)."""
    assert abs(noise(1000, 1000, 1.0, drift=1.0) - 95.9) < 0.05
    assert 7082 < noise(1000, 10**6, 1.0, drift=1.0) < 7082 * 1.01


def exact_delta(epsilon, *, participation_shift, drift, steps, rows, sigma):
    """The expectation over all 2^steps patterns of participation."""
    total = 0.0
    for pattern in itertools.product((0, 1), repeat=steps):
        k = sum(pattern)
        weight = sum((steps - s) / steps for s, drawn in enumerate(pattern, 1) if drawn)
        chance = (1 / rows) ** k * (1 - 1 / rows) ** (steps - k)
        if weight > 0:
            moved = participation_shift * weight + 2 / 3 * drift * math.sqrt(steps)
            total += chance * gaussian.delta(epsilon, moved / sigma)
    return total


@given(
    st.integers(2, 9), st.integers(1, 7), st.floats(0.0, 3.0), st.floats(0.3, 5.0),
    st.sampled_from([0.0, 0.2]),
)  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_small_cases_are_exact(steps, rows, epsilon, sigma, drift):
    """Few steps have a bucket each, so nothing is rounded."""
    facts = {
        "participation_shift": 1.3,
        "drift": drift,
        "steps": steps,
        "rows": rows,
        "sigma": sigma,
    }
    exact = exact_delta(epsilon, **facts)
    found = with_replacement.delta(epsilon, **facts)
    assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize(("rows", "steps"), [(200, 900), (50, 700), (1000, 433)])
def test_law_agrees_with_a_transform(rows, steps):
    """The law's mean, total and shape, from characteristic functions on the exact weights."""
    values, masses, lost = with_replacement.participation_law(rows, steps)
    nothing = (1 - 1 / rows) ** (steps - 1)
    assert math.isclose(masses.sum() + nothing, 1.0, rel_tol=1e-8)
    assert 0 < lost < 1e-29
    mean = (steps - 1) / 2 / rows
    assert mean <= values @ masses <= mean * (1 + 3 / 400) + 1e-9
    weights = np.arange(steps) / steps
    for angle in (0.3, 1.0, 2.5):
        exact = np.prod(1 + (np.exp(1j * angle * weights) - 1) / rows)
        found = nothing + np.exp(1j * angle * values) @ masses
        assert abs(found - exact) < 0.008 * angle * mean + 1e-8


def test_tiny_deltas_are_not_lost():
    """Deep in the tail the mixture still bounds any single pattern that it contains."""
    a = {"participation_shift": 1.0, "drift": 0.0, "steps": 100, "rows": 100, "sigma": 5.0}
    for epsilon in (3.0, 6.0, 9.0, 12.0):
        single = 1 / 100 * (1 - 1 / 100) ** 99 * gaussian.delta(epsilon, 0.99 / 2)
        found = with_replacement.delta(epsilon, **a)
        assert single < found < 1
    assert with_replacement.delta(12.0, **a) < 1e-12


@given(st.floats(0.5, 20.0), st.floats(0.0, 4.0))
@settings(max_examples=60, deadline=None)
def test_more_noise_and_more_epsilon_cost_less(sigma, epsilon):
    a = {"participation_shift": 1.0, "drift": 0.01, "steps": 60, "rows": 30}
    one = with_replacement.delta(epsilon, **a, sigma=sigma)
    assert with_replacement.delta(epsilon, **a, sigma=1.01 * sigma) < one
    assert with_replacement.delta(epsilon + 0.01, **a, sigma=sigma) < one
    assert with_replacement.delta(epsilon, **{**a, "participation_shift": 1.01}, sigma=sigma) > one
    assert with_replacement.delta(epsilon, **{**a, "drift": 0.02}, sigma=sigma) > one
    assert with_replacement.delta(epsilon, **{**a, "steps": 66}, sigma=sigma) > one


@pytest.mark.parametrize("buckets", [16, 57, 200])
def test_fewer_buckets_cost_more(buckets, monkeypatch):
    a = {"participation_shift": 1.0, "drift": 0.0, "steps": 1000, "rows": 300, "sigma": 6.0}
    fine = with_replacement.delta(1.0, **a)
    monkeypatch.setattr(with_replacement, "_MOST_BUCKETS", buckets)
    monkeypatch.setattr(
        with_replacement, "participation_law", with_replacement.participation_law.__wrapped__
    )
    assert fine < with_replacement.delta(1.0, **a) < fine * 1.5


def test_merged_values_cost_more(monkeypatch):
    a = {"participation_shift": 1.0, "drift": 0.0, "steps": 500, "rows": 300, "sigma": 6.0}
    fine = with_replacement.delta(1.0, **a)
    monkeypatch.setattr(with_replacement, "_FINEST", 20)
    monkeypatch.setattr(
        with_replacement, "participation_law", with_replacement.participation_law.__wrapped__
    )
    assert fine < with_replacement.delta(1.0, **a) < fine * 1.3


def test_far_too_many_steps_are_refused():
    with pytest.raises(AssumptionError, match="fixed order"):
        with_replacement.participation_law(10, 20_001)


# --- the release ----------------------------------------------------------------------------------


def test_it_happens_once_and_goes_with_gaussian_releases_only():
    single = cost(drawn(), adjacency="zero_out")
    assert (single.mu, single.rho, single.pure_epsilon) == (None, None, math.inf)
    assert 0 < single.epsilon(1e-6) < 2
    assert math.isclose(single.delta(single.epsilon(1e-6)), 1e-6, rel_tol=1e-6)
    apart = cost([drawn(), stable(rows=(0, 100))], adjacency="zero_out")
    assert apart.epsilon(1e-6) >= single.epsilon(1e-6)
    for plan in ([drawn(count=2)], [drawn(), gamma()], [drawn(), drawn(sigma=3.0)]):
        with pytest.raises(AssumptionError, match="goes with Gaussian releases, once"):
            cost(plan, adjacency="zero_out").epsilon(1e-6)
    half = cost(drawn(participation_shift=0.2, drift=0.02, sigma=4.0), adjacency="zero_out")
    assert math.isclose(half.epsilon(1e-6), single.epsilon(1e-6), rel_tol=1e-9)
    # Not drawn in one step of two, so the privacy is better than that of the worst pattern.
    worst = 0.1 * sum(range(40)) / 40 + 2 / 3 * 0.01 * math.sqrt(40)
    assert single.epsilon(1e-6) < gaussian.epsilon(1e-6, worst / 2.0)


def test_gaussian_releases_compose_with_it():
    alone, mu = cost(drawn(), adjacency="zero_out"), 0.01
    both = cost([drawn(), stable(mu, 1.0)], adjacency="zero_out")
    for epsilon in (0.0, 0.05, 0.2):
        # Given the drawn rows all is one Gaussian, so composing the mixture costs at least that.
        assert max(alone.delta(epsilon), gaussian.delta(epsilon, mu)) <= both.delta(epsilon)
        most = composed_delta(alone.delta, epsilon, mu) + gaussian.delta(epsilon, mu)
        assert both.delta(epsilon) <= most * 1.001
    never = drawn(
        steps=2, rows=(0, 10**6), participation_shift=1e-9, drift=1e-9
    )  # a row is hardly ever drawn
    seldom = cost([never, stable(0.3, 1.0, rows=(0, 10**6))], adjacency="zero_out")
    assert seldom.delta(0.5) >= gaussian.delta(0.5, 0.3)


@pytest.mark.thorough
def test_the_rows_are_secret_and_uniform_and_the_average_leaves_once():
    release = drawn(steps=5000, sigma=500.0)
    ledger = Ledger([release], ZERO, randomness=Randomness.seeded(8))
    sample = ledger.with_replacement(release)
    assert len(sample.indices) == 5000
    counts = np.bincount(sample.indices - ROWS[0], minlength=50)
    assert len(counts) == 50
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    follows = np.corrcoef(sample.indices[1:], sample.indices[:-1])[0, 1]
    assert abs(follows) < 5 / math.sqrt(5000)
    with pytest.raises(LedgerError, match="not executed"):
        Ledger([release], ZERO).close()
    noise = sample.release(np.zeros(30_000)) / 500.0
    assert accepts(noise, stats.norm.cdf)
    assert not accepts(noise / 1.1, stats.norm.cdf)
    with pytest.raises(LedgerError, match="twice"):
        sample.release(np.zeros(2))


def test_an_unreleased_average_returns_nothing():
    ledger = Ledger([drawn()], ZERO)
    with pytest.raises(ParameterError, match="WithReplacementRelease"):
        ledger.with_replacement(stable())
    ledger.with_replacement(drawn())
    with pytest.raises(LedgerError, match="sampled sum"):
        ledger.close()
