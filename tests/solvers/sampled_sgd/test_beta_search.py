"""The search for beta: published known answers, the figure as numbers, and where it must refuse."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import AssumptionError
from dpsco.privacy import ApproxDP, FixedSizeGaussianRelease, cost
from dpsco.solvers.sampled_sgd import beta_search
from dpsco.solvers.sampled_sgd.beta_search import (
    least_epsilon,
    published_noise,
    published_step,
    search,
)


def reference(beta, n, rounds, epsilon, delta):
    """Return sigma / G, or None: written out from Thm 11 a second time."""
    order = math.log(1 / delta) / ((1 - beta) * epsilon) + 1
    r = 3.5 * rounds * order / (beta * n * n * epsilon)
    inner = n / (order * (1 + r))
    holds = r >= 0.67 and order - 1 <= (2 / 3) * r * math.log(inner)
    return 2 * math.sqrt(r) if holds else None


KNOWN = [
    (1000, 1000, 2.0, 1e-6, 0.0045970, 7.93966, 3.47708),
    (1000, 1000, 1.0, 1e-6, 0.0038129, 14.86839, 7.38869),
    (1000, 10**6, 2.0, 1e-6, 0.4283106, 13.08306, 14.62259),
    (1000, 10**6, 4.0, 1e-6, 0.5, 7.90776, 7.44005),
    (10**4, 10**4, 1.0, 1e-8, 0.0010383, 19.43983, 5.11966),
]


@pytest.mark.parametrize(("n", "rounds", "epsilon", "delta", "beta", "order", "ratio"), KNOWN)
def test_known_answers(n, rounds, epsilon, delta, beta, order, ratio):
    found = search(n, rounds, epsilon, delta)
    assert found.beta == pytest.approx(beta, rel=1e-4)
    assert found.order == pytest.approx(order, rel=1e-5)
    assert found.multiplier == pytest.approx(ratio, rel=1e-5)


@pytest.mark.parametrize(("n", "epsilon", "delta"), [(1000, 0.5, 1e-6), (43, 3.118785, 1 / 43**2)])
def test_infeasible(n, epsilon, delta):
    assert search(n, n, epsilon, delta) is None


def test_least_noise_is_not_at_one_half():
    found = search(1000, 10**6, 4.0, 1e-6, rule="least")
    assert found.beta == pytest.approx(0.53175, rel=1e-4)
    assert found.multiplier == pytest.approx(7.42510, rel=1e-6)


def lemma_epsilon(n: int) -> float:
    """Return the epsilon from which Lemma 13 claims feasibility at T = n, delta = 1/n^2.

    The lemma is false for 18 <= n <= 43 (no beta exists at this epsilon).
    """
    root = math.pow(n, 1.0 / 3.0) - 1.0
    return (7.0 * root + 4.0 * n * math.log(n) + 7.0) / (2.0 * n * root)


# Figure 1 as numbers: the lemma's epsilon, and the smallest feasible ones for T = n and T = n^2.
FIGURE = [
    (18, 3.8811, 4.5177, 6.5405),
    (30, 3.4001, 3.6258, 5.4541),
    (44, 3.1020, 3.1007, 4.8024),
    (100, 2.5738, 2.2478, 3.7170),
    (1000, 1.5389, 0.9339, 1.9068),
    (10**4, 0.8970, 0.3786, 0.9958),
    (10**6, 0.2791, 0.0559, 0.2668),
]


@pytest.mark.parametrize(("n", "lemma", "linear", "square"), FIGURE)
def test_figure(n, lemma, linear, square):
    assert lemma_epsilon(n) == pytest.approx(lemma, abs=6e-5)
    assert least_epsilon(n, n, 1 / n**2) == pytest.approx(linear, rel=1e-3)
    assert least_epsilon(n, n * n, 1 / n**2) == pytest.approx(square, rel=1e-3)


@pytest.mark.parametrize(("n", "holds"), [(18, False), (30, False), (43, False), (44, True)])
def test_lemma_is_false_for_few_rows(n, holds):
    assert (search(n, n, lemma_epsilon(n), 1 / n**2) is not None) is holds


def test_feasible_set_of_two_intervals():
    n, rounds, epsilon, delta = 10**5, 10**10, 30.0, 1e-10
    grid = np.linspace(1e-4, 1 - 1e-4, 5001)
    holds = np.array([reference(b, n, rounds, epsilon, delta) is not None for b in grid])
    assert np.count_nonzero(np.diff(holds.astype(int)) == 1) + holds[0] == 2
    found = search(n, rounds, epsilon, delta)
    nearest = grid[holds][np.argmin(np.abs(grid[holds] - 0.5))]
    assert abs(found.beta - 0.5) <= abs(nearest - 0.5)


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(20, 10**6),
    power=st.floats(1.0, 2.0),
    epsilon=st.floats(0.05, 20.0),
    exponent=st.floats(3.0, 12.0),
)
def test_what_is_found_is_feasible_and_the_closest(n, power, epsilon, exponent):
    rounds, delta = int(n**power), 10.0**-exponent
    found = search(n, rounds, epsilon, delta)
    if found is None:
        grid = np.concatenate([np.geomspace(1e-9, 0.5, 400), np.linspace(0.5, 0.999, 200)])
        assert all(reference(b, n, rounds, epsilon, delta) is None for b in grid)
        return
    assert reference(found.beta, n, rounds, epsilon, delta) == pytest.approx(
        found.multiplier, rel=1e-9
    )
    if found.beta != 0.5:  # a little closer to 1/2 the conditions fail
        closer = found.beta + 1e-6 * (0.5 - found.beta)
        assert reference(closer, n, rounds, epsilon, delta) is None
    least = search(n, rounds, epsilon, delta, rule="least")
    assert least.multiplier <= found.multiplier * (1 + 1e-9)
    # (33) alone forces r >= 1.5 log(1/delta) / (epsilon log n), and (32) r >= 0.67
    floor = max(1.5 * math.log(1 / delta) / (epsilon * math.log(n)), 0.67)
    assert found.multiplier >= 2 * math.sqrt(floor) * (1 - 1e-9)


def test_refusal_names_the_smallest_epsilon():
    budget = ApproxDP(0.5, 1e-6)
    with pytest.raises(AssumptionError, match=r"no beta.*smallest epsilon that has one is 0\.93"):
        published_noise(budget, n=1000, rounds=1000, exact=False)


def test_exact_noise_where_no_beta_exists():
    budget = ApproxDP(0.2, 1e-5)
    assert search(50, 50, 0.2, 1e-5) is None
    sigma = published_noise(budget, n=50, rounds=50, exact=True)
    release = FixedSizeGaussianRelease(1.0, sigma, 1, rows=(0, 50), count=49)  # one fewer
    assert 0.1996 <= cost(release).epsilon(1e-5) <= 0.2


def test_published_noise_is_confirmed_and_far_too_large():
    budget = ApproxDP(1.0, 1e-6)
    sigma = published_noise(budget, n=1000, rounds=1000, exact=False)
    release = FixedSizeGaussianRelease(1.0, sigma, 1, rows=(0, 1000), count=1000)
    assert cost(release).epsilon(1e-6) == pytest.approx(0.032, abs=2e-3)


def test_half_is_a_violation_outside_the_region():
    """Ignoring (32) and (33) the noise at beta = 1/2 costs six times its epsilon."""
    lam = math.log(1e6) / 0.5 + 1
    sigma = 2 * math.sqrt(3.5 * 1000 * lam / (0.5 * 1000**2))
    assert sigma == pytest.approx(0.895, abs=1e-3)
    assert reference(0.5, 1000, 1000, 1.0, 1e-6) is None
    assert search(1000, 1000, 1.0, 1e-6).multiplier > 8 * sigma


def test_published_step():
    budget = ApproxDP(2.0, 1e-6)
    first = math.sqrt(math.log(1000) * math.log(1000 / 0.05) * math.log(20) / 1000)
    found = published_step(n=1000, size=5, rounds=1000, budget=budget, constant=2.0)
    assert found == pytest.approx(1 / (1000 * first), rel=1e-12)
    assert found > 4 * first / 1000  # as printed, (1/T) max(...) is far smaller


def test_published_step_with_much_noise():
    budget = ApproxDP(0.5, 1e-6)
    second = math.sqrt(5000 * math.log(1e6)) * math.log(20) ** 0.25 / (1000 * 0.5)
    found = published_step(n=1000, size=5000, rounds=1000, budget=budget, constant=2.0)
    assert found == pytest.approx(1 / (1000 * second), rel=1e-12)


@pytest.mark.parametrize(("n", "constant"), [(20, 1.0), (1000, 1e6)])
def test_published_step_outside_the_theorem(n, constant):
    with pytest.raises(AssumptionError, match="must lie"):
        published_step(n=n, size=5, rounds=n, budget=ApproxDP(2.0, 1e-6), constant=constant)


def test_grid_reaches_both_ends():
    grid = beta_search._grid()
    assert grid[0] <= 1e-12
    assert 1 - grid[-1] <= 2e-12
    assert np.all(np.diff(grid) > 0)
