"""Subsampling and shuffling against enumeration, quadrature and the specifications' numbers."""

from __future__ import annotations

import json
import math
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import log_ndtr
from scipy.stats import binom, norm

from dpsco.privacy.accounting import amplification, gaussian
from dpsco.privacy.accounting.amplification import (
    _not_pure_correction,
    clones_delta,
    sampled_delta,
    shuffled_delta,
    shuffled_epsilon,
)
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.mechanisms import FixedSizeGaussianRelease, ShuffledRelease

KNOWN = json.loads((Path(__file__).parents[2] / "golden" / "known_answers.json").read_text())

# --- sampling -------------------------------------------------------------------------------------


def wor_profile(eps: float, q: float, z: float) -> float:
    """Appendix A of wang2022, z = sigma over the distance between neighbours."""
    e = abs(eps)
    r = (math.expm1(e) + q) / q
    x = z * z * math.log(r) + 0.5
    h = q * max(norm.sf((x - 1) / z) - math.exp(math.log(r) + log_ndtr(-x / z)), 0.0)
    return h if eps >= 0 else -math.expm1(-e) + math.exp(-e) * h


@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.7])
@pytest.mark.parametrize("mu", [0.1, 1.0, 4.0])
def test_sampled_delta_against_the_specification(rate, mu):
    epsilons = np.linspace(-1.5, 1.5, 31) * mu * math.sqrt(rate)
    array = sampled_delta(epsilons, rate, mu)
    for epsilon, value in zip(epsilons, array, strict=True):
        expected = wor_profile(epsilon, rate, 1 / mu)
        assert math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-14)


@pytest.mark.parametrize("rate", [0.01, 0.5])
def test_sampled_delta_against_quadrature(rate):
    """(1-q) N(0) + q N(mu) against N(0), integrated."""
    mu = 1.3
    x = np.linspace(-12, 14, 500_001)
    for epsilon in (0.0, 0.02, 0.3, 1.5):
        first = (1 - rate) * norm.pdf(x) + rate * norm.pdf(x - mu)
        exact = trapezoid(np.maximum(first - math.exp(epsilon) * norm.pdf(x), 0.0), x)
        (found,) = sampled_delta(np.array([epsilon]), rate, mu)
        assert exact * (1 - 1e-8) <= found <= exact * (1 + 1e-7)


@pytest.mark.parametrize(
    ("epsilon", "rate", "mu", "inner"),
    [
        (0.7, 1.0, 1.3, 0.7),
        (0.0, 1e-6, 1.0, 0.0),
        (499.0, 1e-3, 40.0, 499.0 - math.log(1e-3)),
        (501.0, 1e-3, 40.0, 501.0 - math.log(1e-3)),
        (800.0, 1e-3, 40.0, 800.0 - math.log(1e-3)),  # beyond e^709: log(1 + (e^800 - 1)/q)
    ],
)
def test_sampled_delta_at_the_extremes(epsilon, rate, mu, inner):
    (found,) = sampled_delta(np.array([epsilon]), rate, mu)
    assert math.isclose(found, rate * gaussian.delta(inner, mu), rel_tol=1e-9)


def test_fixed_size_composition_known_answer():
    known = KNOWN["fixed_size_grid"]
    rows = round(1 / known["rate"])
    sigma = 2 * known["noise_over_distance"]  # replace-one: two bounds apart
    release = FixedSizeGaussianRelease(1.0, sigma, 1, rows=(0, rows), count=known["steps"])
    assert abs(cost(release).epsilon(known["delta"]) - known["epsilon"]) <= known["within"]


# --- shuffling ------------------------------------------------------------------------------------


def clones_by_enumeration(epsilon: float, reports: int, eps0: float) -> float:
    """Both laws of the dominating pair written out, outcome by outcome."""
    p, heavy = math.exp(-eps0), 1 / (1 + math.exp(-eps0))
    first: dict[tuple[int, int], float] = {}
    second: dict[tuple[int, int], float] = {}
    for c in range(reports):
        for a, y in product(range(c + 1), (0, 1)):
            mass = binom.pmf(c, reports - 1, p) * binom.pmf(a, c, 0.5) * (heavy if y else 1 - heavy)
            for law, place in ((first, (a + y, c - a + 1 - y)), (second, (a + 1 - y, c - a + y))):
                law[place] = law.get(place, 0.0) + mass
    return sum(max(first[k] - math.exp(epsilon) * second.get(k, 0.0), 0.0) for k in first)


@pytest.mark.thorough
@pytest.mark.parametrize("reports", [1, 2, 3, 8, 25])
@pytest.mark.parametrize("eps0", [1e-6, 0.1, 1.0, 3.0])
def test_clones_against_enumeration(reports, eps0):
    for share in (0.0, 0.05, 0.3, 0.8, 0.999, 1.0):
        exact = clones_by_enumeration(share * eps0, reports, eps0)
        found = clones_delta(share * eps0, reports, eps0)
        assert exact <= found * (1 + 1e-13) + 1e-14
        assert found <= exact * (1 + 2e-8) + 3e-12


def test_clones_of_one_report_are_a_coin():
    heavy = 1 / (1 + math.exp(-2.0))
    exact = heavy - math.exp(0.5) * (1 - heavy)
    assert math.isclose(clones_delta(0.5, 1, 2.0), exact, rel_tol=1e-7)
    assert clones_delta(2.0, 10, 2.0) == 0.0
    assert clones_delta(2.0, 10, 1e4) == 1.0  # e^-eps0 is no number: nobody hides


@pytest.mark.parametrize("known", KNOWN["clones_epsilon"], ids=lambda k: str(k["reports"]))
def test_clones_known_answers(known):
    low, high = known["epsilon"] - known["within"], known["epsilon"] + known["within"]
    assert clones_delta(low, known["reports"], known["eps0"]) > known["delta"]
    assert clones_delta(high, known["reports"], known["eps0"]) < known["delta"]


@pytest.mark.parametrize("reports", [10**9, 10**12])
def test_clones_of_very_many_reports(reports):
    """A central limit: C = n e^-eps0 hides Y like a Gaussian of mu = 2(2 heavy - 1)/sqrt(C).

    The logarithms of the binomial law lose digits with n; that must not make delta too small.
    """
    eps0 = 12.0
    heavy = 1 / (1 + math.exp(-eps0))
    mu = 2 * (2 * heavy - 1) / math.sqrt(reports * math.exp(-eps0))
    for epsilon in (0.0, mu, 3 * mu):
        expected = gaussian.delta(epsilon, mu)
        found = clones_delta(epsilon, reports, eps0)
        assert expected * 0.999 <= found <= expected * 1.06 + 1e-11


def break_even(reports: int, epsilon: float, delta: float) -> float:
    """The batch size of su2023 6.3, half of delta for each part of the bound."""
    low, high = epsilon, 20.0
    for _ in range(50):
        eps0 = (low + high) / 2
        low, high = (
            (eps0, high) if clones_delta(epsilon, reports, eps0) <= delta / 2 else (low, eps0)
        )
    correction = (math.exp(epsilon) + 1) * (1 + math.exp(-low) / 2) * reports
    local = gaussian.mu(low, delta / 2 / correction)
    return (local / gaussian.mu(epsilon, delta)) ** 2


@pytest.mark.parametrize(
    "known", KNOWN["shuffle_break_even"], ids=lambda k: f"{k['reports']},{k['epsilon']}"
)
def test_shuffle_break_even(known):
    reports, epsilon, delta = known["reports"], known["epsilon"], known["delta"]
    found = break_even(reports, epsilon, delta)
    assert abs(found - known["batch"]) <= known["within"]
    # The accountant splits delta in other ways, a little better or worse than in halves.
    local = math.sqrt(found) * gaussian.mu(epsilon, delta)
    assert shuffled_epsilon(delta, reports, 0.98 * local) <= epsilon
    assert shuffled_epsilon(delta, reports, 1.15 * local) > epsilon


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_reports_that_are_not_pure_pay_for_their_delta(epsilon):
    """(e^epsilon + 1)(1 + e^-eps0/2) n delta0, su2023 6.3."""
    found = _not_pure_correction(epsilon, 2.0, 1e-12, 500)
    expected = (math.exp(epsilon) + 1) * (1 + math.exp(-2.0) / 2) * 500 * 1e-12
    assert expected <= found <= expected * (1 + 1e-12)


@pytest.mark.parametrize("mu", [0.3, 0.6])
def test_shuffled_epsilon_is_paid_for(mu):
    """Some split of delta must pay for what is returned, and none for a tenth less."""
    reports, delta = 10_000, 1e-6
    found = shuffled_epsilon(delta, reports, mu)

    def least_delta(epsilon):
        def total(delta0):
            eps0 = gaussian.epsilon(delta0, mu)
            clones = clones_delta(epsilon, reports, eps0)
            return clones + (math.exp(epsilon) + 1) * (1 + math.exp(-eps0) / 2) * reports * delta0

        return min(total(delta0) for delta0 in np.geomspace(1e-14, 1e-10, 60))

    assert least_delta(found) <= delta
    assert least_delta(0.9 * found) > delta


def test_shuffled_epsilon_and_delta_are_inverse():
    epsilon = shuffled_epsilon(1e-6, 10_000, 0.5)
    assert epsilon < 0.5 * gaussian.epsilon(1e-6, 0.5)
    assert math.isclose(
        math.log(shuffled_delta(epsilon, 10_000, 0.5)), math.log(1e-6), rel_tol=1e-5
    )


@pytest.mark.parametrize("delta", [1e-300, 1e-20, 0.3])
@pytest.mark.parametrize("mu", [1e-8, 1.0, 1e4])
def test_shuffling_never_hurts(mu, delta):
    """At most what the reports cost in a known order; at least nothing."""
    found = shuffled_epsilon(delta, 1000, mu)
    assert 0.0 <= found <= gaussian.epsilon(delta, mu)


def test_shuffled_release_uses_two_bounds_for_both_adjacencies():
    """The others' reports hide any two inputs, so the local distance is 2 bounds either way."""
    release = ShuffledRelease(1.0, 4.0, rows=(0, 10_000))
    for adjacency in ("zero_out", "replace_one"):
        found = cost(release, adjacency=adjacency).epsilon(1e-6)
        assert math.isclose(found, shuffled_epsilon(1e-6, 10_000, 0.5), rel_tol=4e-6)


def test_shuffling_twice_is_not_amplified():
    twice = ShuffledRelease(1.0, 40.0, rows=(0, 10_000), count=2)
    whole = gaussian.epsilon(1e-6, math.sqrt(2) / 20)
    assert whole <= cost(twice).epsilon(1e-6) <= 1.2 * whole


@pytest.mark.thorough
@pytest.mark.parametrize("reports", [10**9, 10**15])
@pytest.mark.parametrize("mu", [1e-5, 0.1, 3.0])
def test_any_number_of_reports_is_summed_in_short_time(reports, mu):
    """A file may name any; the terms that count are as many as its root."""
    started = time.process_time()
    found = shuffled_epsilon(1e-6, reports, mu)
    assert time.process_time() - started < 2.0
    assert found <= shuffled_epsilon(1e-6, 10**6, mu)


def test_reports_beyond_counting_are_counted_as_fewer():
    most = amplification.MOST_REPORTS
    assert shuffled_epsilon(1e-6, 10**15, 0.1) == shuffled_epsilon(1e-6, most, 0.1)
    assert shuffled_delta(0.01, 10**15, 0.1) == shuffled_delta(0.01, most, 0.1)


@pytest.mark.parametrize(("reports", "eps0"), [(10**5, 1.0), (10**6, 0.5), (10**6, 4.0)])
@pytest.mark.parametrize("most", [100, 20_000])  # bounds at the ends of parts, or all masses
def test_cells_of_clones_are_a_little_above_the_exact_sum(monkeypatch, reports, eps0, most):
    epsilons = (0.1 * eps0, 0.01 * eps0, 0.003 * eps0)
    monkeypatch.setattr(amplification, "_MOST_TERMS", 10**7)
    exact = [clones_delta(epsilon, reports, eps0) for epsilon in epsilons]
    monkeypatch.setattr(amplification, "_MOST_TERMS", 100)
    monkeypatch.setattr(amplification, "_MOST_MASSES", most)
    for epsilon, value in zip(epsilons, exact, strict=True):
        found = clones_delta(epsilon, reports, eps0)
        assert value * (1 - 1e-9) <= found <= value * 1.02 + 1e-300
