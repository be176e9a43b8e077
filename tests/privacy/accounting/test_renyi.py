"""Renyi curves against 50-digit brute force, and their conversion to (epsilon, delta)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.privacy.accounting import gaussian, renyi
from dpsco.privacy.accounting.composition import randomised_response_delta

KNOWN = json.loads((Path(__file__).parents[2] / "golden" / "known_answers.json").read_text())
ORDERS = [1 + 1e-6, 1.01, 1.5, 2.0, 7.0, 50.0, 1e3, 1e6]


# --- zCDP -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", KNOWN["zcdp_rho"], ids=lambda k: f"{k['epsilon']},{k['delta']}")
def test_known_rho(known):
    found = renyi.rho(known["epsilon"], known["delta"])
    assert math.isclose(found, known["rho"], rel_tol=known["relative"])
    assert renyi.epsilon(renyi.zcdp(found), known["delta"]) <= known["epsilon"]


@pytest.mark.parametrize("known", KNOWN["zcdp_epsilon"], ids=lambda k: str(k["rho"]))
def test_known_epsilon(known):
    found = renyi.epsilon(renyi.zcdp(known["rho"]), known["delta"])
    assert abs(found - known["epsilon"]) <= known["within"]


def best_order(rho: float, delta: float) -> mpmath.mpf:
    """The least epsilon over orders at 50 digits, by a fine search around the stationary point."""
    with mpmath.workdps(50):
        log = mpmath.log(mpmath.mpf(1) / delta)

        def bound(order):
            return rho * order + mpmath.log(1 - 1 / order) + (log - mpmath.log(order)) / (order - 1)

        low, high = mpmath.mpf(-16), mpmath.mpf(22)  # of log(order - 1)
        for _ in range(120):
            a, b = low + (high - low) / 3, high - (high - low) / 3
            if bound(1 + mpmath.exp(a)) < bound(1 + mpmath.exp(b)):
                high = b
            else:
                low = a
        return bound(1 + mpmath.exp(low))


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.5, 30.0, 1e5])
@pytest.mark.parametrize("delta", [0.1, 1e-6, 1e-300])
def test_search_over_orders(rho, delta):
    exact = max(best_order(rho, delta), 0)
    found = renyi.epsilon(renyi.zcdp(rho), delta)
    assert exact <= found <= exact * (1 + 1e-5) + 1e-12


@given(st.floats(-2, 4).map(lambda t: 10.0**t), st.floats(-100, -1).map(lambda t: 10.0**t))
@settings(max_examples=30, deadline=None)
def test_rho_never_overspends(epsilon, delta):
    rho = renyi.rho(epsilon, delta)
    assert renyi.epsilon(renyi.zcdp(rho), delta) <= epsilon
    assert renyi.epsilon(renyi.zcdp(rho * 1.001), delta) > epsilon


@pytest.mark.parametrize("mu", [0.01, 0.2367, 1.0, 20.0])
def test_conversion_is_above_the_exact_gaussian(mu):
    """A Gaussian is mu^2/2-zCDP, so its Renyi epsilon lies above the exact one; not by much."""
    exact = gaussian.epsilon(1e-6, mu)
    found = renyi.epsilon(renyi.zcdp(mu * mu / 2), 1e-6)
    assert exact < found < 1.2 * exact


# --- bounded range --------------------------------------------------------------------------------


def bounded_range_truth(order: float, e0: float) -> mpmath.mpf:
    """Maximise ln(q e^(at) + (1-q) e^(a(t-e0)))/(a-1) over t by brute force, at 50 digits."""
    with mpmath.workdps(50):
        a, e = mpmath.mpf(order), mpmath.mpf(e0)

        def moment(t):
            q = (mpmath.exp(-t) - mpmath.exp(-e)) / (1 - mpmath.exp(-e))
            return mpmath.log(q * mpmath.exp(a * t) + (1 - q) * mpmath.exp(a * (t - e))) / (a - 1)

        low, high = mpmath.mpf(0), e
        for _ in range(9):
            grid = [low + (high - low) * i / 20 for i in range(21)]
            at = max(range(21), key=lambda i: moment(grid[i]))
            low, high = grid[max(at - 1, 0)], grid[min(at + 1, 20)]
        return moment((low + high) / 2)


@pytest.mark.thorough
@pytest.mark.parametrize("e0", [1e-6, 0.9e-4, 1.1e-4, 0.01, 0.5, 3.0, 40.0, 700.0])
def test_bounded_range_curve(e0):
    """Never below the extremal law, and sharp: to 1e-8 of it, or 1e-14."""
    found = renyi.bounded_range(e0)(np.array(ORDERS))
    for order, value in zip(ORDERS, found, strict=True):
        exact = bounded_range_truth(order, e0)
        assert exact * (1 - 1e-14) <= value, (e0, order)
        if e0 > 1e-4 or order * e0 < 1e-3:
            assert value <= exact * (1 + 1e-7) + 1e-7 * e0, (e0, order)


@pytest.mark.parametrize("e0", [1e-6, 1e-4, 0.3, 5.0])
def test_bounded_range_lies_below_its_zcdp(e0):
    orders = np.array(ORDERS)
    curve = renyi.bounded_range(e0)(orders)
    assert np.all(curve <= orders * e0 * e0 / 8 * (1 + 1e-12))
    assert np.all(curve <= renyi.pure(e0)(orders) * (1 + 1e-12))


# --- pure -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("e0", [1e-6, 1e-3, 0.5, 3.0, 40.0, 700.0])
def test_pure_curve(e0):
    """Randomised response: the exact moment, at 50 digits."""
    found = renyi.pure(e0)(np.array(ORDERS))
    with mpmath.workdps(50):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(e0)))
        for order, value in zip(ORDERS, found, strict=True):
            b = (mpmath.mpf(order) - 1) * e0
            moment = p * mpmath.exp(b) + (1 - p) * mpmath.exp(-b)
            exact = mpmath.log(moment) / (mpmath.mpf(order) - 1)
            assert exact * (1 - 1e-14) <= value <= exact * (1 + 1e-7) + 2e-9 * e0, (e0, order)


# --- conversion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("curve", [renyi.zcdp(0.02), renyi.bounded_range(0.5), renyi.pure(0.5)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-30])
def test_epsilon_and_delta_are_inverse(curve, delta):
    epsilon = renyi.epsilon(curve, delta)
    if epsilon > 0:
        assert math.isclose(renyi.log_delta(curve, epsilon), math.log(delta), rel_tol=1e-5)
        assert renyi.log_delta(curve, epsilon * 0.999) > math.log(delta)


def test_composition_adds():
    orders = np.array(ORDERS)
    both = renyi.compose([(renyi.zcdp(0.1), 3), (renyi.pure(0.5), 2)])(orders)
    alone = 0.3 * orders + 2 * renyi.pure(0.5)(orders)
    np.testing.assert_allclose(both, alone, rtol=1e-15)


# --- the largest selection within (1, 1e-6) -------------------------------------------------------


def largest(spends) -> float:
    low, high = 0.0, 2.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if spends(middle) <= 1 else (low, middle)
    return low


@pytest.mark.parametrize("known", KNOWN["largest_selection_epsilon"], ids=lambda k: str(k["times"]))
def test_largest_selection(known):
    times, delta = known["times"], 1e-6

    def coin(e0):
        return times * e0 if randomised_response_delta(1.0, e0, times) > delta else 0.0

    def zcdp(e0):
        return min(times * e0, renyi.epsilon(renyi.zcdp(times * e0 * e0 / 8), delta))

    def bounded(e0):
        curve = renyi.compose([(renyi.bounded_range(e0), times)])
        return min(times * e0, renyi.epsilon(curve, delta))

    assert abs(largest(coin) - known["coin"]) <= known["within"]
    assert abs(largest(zcdp) - known["zcdp"]) <= known["within"]
    assert abs(largest(bounded) - known["bounded_range"]) <= known["within"]
