"""The price of rows drawn with replacement: moments, known sums, safe calibration."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsco.errors import AssumptionError
from dpsco.privacy.accounting import gaussian
from dpsco.privacy.accounting.resampling import (
    _hits,
    resampled_delta,
    resampled_delta_of,
    resampled_mu,
)
from dpsco.privacy.budget import GDP, ApproxDP


@pytest.mark.parametrize("n", [2, 5, 100, 10**6])
def test_moments_of_the_hits(n):
    hits, chances = _hits(n)
    assert chances.sum() == pytest.approx(1.0 - (1.0 - 1.0 / n) ** n, rel=1e-7)
    assert hits @ chances == pytest.approx(1.0, rel=1e-7)
    assert hits**2 @ chances == pytest.approx(2.0 - 1.0 / n, rel=1e-7)


@pytest.mark.parametrize("n", [10**4, 10**7, 10**9])
def test_chances_are_exact_where_rows_are_many(n):
    """Delta is rounded up by 1e-8: what the chances lose must stay far below."""
    with localcontext() as context:
        context.prec = 50
        rows = Decimal(n)
        chance, known = ((1 - 1 / rows).ln() * rows).exp(), []
        for k in range(1, 21):
            chance *= (rows - k + 1) / (k * (rows - 1))
            known.append(float(chance))
    assert _hits(n)[1][:20] == pytest.approx(known, rel=1e-10)


def test_one_row_is_always_drawn_once():
    assert resampled_delta(1.0, 0.3, 1) == pytest.approx(gaussian.delta(1.0, 0.3), rel=1e-6)
    assert resampled_mu(ApproxDP(1.0, 1e-6), 1) == pytest.approx(gaussian.mu(1.0, 1e-6), rel=1e-6)


def test_known_price_of_the_published_budgets():
    """(eps/(4 ln 1/delta), e^-eps delta/(8 ln 2/delta)) cost 3.2e-3 delta at n 1000, (1, 1e-6)."""
    inner = 1.0 / (4.0 * math.log(1e6)), math.exp(-1.0) * 1e-6 / (8.0 * math.log(2e6))
    assert resampled_delta_of(1.0, inner, 1000) == pytest.approx(3.2e-9, rel=0.02)


def test_groups_beyond_epsilon_are_lost():
    assert resampled_delta_of(1.0, (2.0, 1e-6), 1000) == pytest.approx(1.0 - math.exp(-1), rel=1e-3)


@given(st.floats(0.05, 4.0), st.floats(0.01, 0.5), st.sampled_from([2, 10, 1000]))
def test_delta_is_the_mixture_over_hits(epsilon, mu, n):
    by_hand = sum(
        math.comb(n, k) * (1 / n) ** k * (1 - 1 / n) ** (n - k) * gaussian.delta(epsilon, k * mu)
        for k in range(1, min(n, 40) + 1)
    )
    value = resampled_delta(epsilon, mu, n)
    assert by_hand <= value
    assert value == pytest.approx(by_hand, rel=1e-6, abs=1e-18)
    assert value <= resampled_delta(epsilon, 1.1 * mu, n)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-8), (8.0, 1e-5)])
def test_calibration_stays_within_the_budget(epsilon, delta):
    mu = resampled_mu(ApproxDP(epsilon, delta), 1000)
    assert resampled_delta(epsilon, mu, 1000) <= delta
    assert resampled_delta(epsilon, mu * 1.0001, 1000) > delta
    assert mu < 0.5 * gaussian.mu(epsilon, delta)


def test_simulated_hits_agree():
    """A thousand tables: how often row 0 is drawn, five deviations."""
    rng = np.random.default_rng(0)
    drawn = np.sum(rng.integers(0, 50, (20_000, 50)) == 0, axis=1)
    hits, chances = _hits(50)
    for k in (1, 2, 3):
        chance = chances[hits == k][0]
        assert abs(np.mean(drawn == k) - chance) < 5 * math.sqrt(chance / 20_000)


@pytest.mark.parametrize(
    "budget",
    [GDP(1.0), ApproxDP(1.0, 1e-6, adjacency="add_remove")],
    ids=["gdp", "add_remove"],
)
def test_what_is_not_accounted_for_is_refused(budget):
    with pytest.raises(AssumptionError, match=r"ApproxDP\(epsilon, delta\)|public n"):
        resampled_mu(budget, 100)
