"""Least noise: never over the budget, tight where it can be, refused where nothing helps."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import AssumptionError, ParameterError
from dpsco.privacy.accounting.calibration import calibrate
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.budget import GDP, ZCDP, ApproxDP, PureDP, Unit
from dpsco.privacy.lattice import SLACK
from dpsco.privacy.mechanisms import (
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    SelectionRelease,
    ShuffledRelease,
    gaussian_sigma,
    prefix_sum_sigma,
)
from dpsco.privacy.mechanisms.prefix_sum.mechanism import MECHANISMS

from ..conftest import described

KNOWN = json.loads((Path(__file__).parents[2] / "golden" / "known_answers.json").read_text())
ROWS = (0, 1000)
ONE = ApproxDP(1.0, 1e-6, adjacency="zero_out")


# --- Poisson sampling: the specifications' multipliers --------------------------------------------


def poisson_epsilon(rate, steps, noise, adjacency, pair="conjectured"):
    release = PoissonGaussianRelease(1.0, noise, rate, pair, rows=ROWS, count=steps)
    return cost(release, adjacency=adjacency).epsilon(1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("known", KNOWN["poisson_multiplier"], ids=lambda k: f"{k['steps']}")
def test_poisson_multipliers(known, adjacency):
    """Slightly more noise than the known multiplier suffices, slightly less does not."""
    rate, steps, noise = known["rate"], known["steps"], known[adjacency]
    slack = known["relative"] + 5e-4 / noise  # the printed digits
    assert poisson_epsilon(rate, steps, noise * (1 + slack), adjacency) <= known["epsilon"]
    assert poisson_epsilon(rate, steps, noise * (1 - slack), adjacency) > known["epsilon"]


@pytest.mark.parametrize("known", KNOWN["poisson_multiplier"][:2], ids=lambda k: f"{k['steps']}")
def test_proved_bound_needs_more_noise(known):
    """At the conjectured multiplier the proved bound overspends; twice the noise covers it."""
    rate, steps, noise = known["rate"], known["steps"], known["replace_one"]
    assert poisson_epsilon(rate, steps, noise, "replace_one", "proved") > 1.2
    assert poisson_epsilon(rate, steps, 2 * noise, "replace_one", "proved") <= 1.0


def test_poisson_minibatch_known_answers():
    known = KNOWN["poisson_minibatch"]
    rate, steps = known["rate"], known["steps"]
    for adjacency in ("zero_out", "replace_one"):
        noise = known[adjacency]
        assert poisson_epsilon(rate, steps, noise * 1.01, adjacency) <= 1.0
        assert poisson_epsilon(rate, steps, noise * 0.99, adjacency) > 1.0
    short = poisson_epsilon(rate, steps, known["insufficient"], "replace_one")
    assert math.isclose(short, known["insufficient_epsilon"], rel_tol=0.01)


# --- Gaussian plans: never over, tight to 1e-9 ----------------------------------------------------

units = st.integers(1, 1000).map(lambda k: Unit(k, "person"))
powers = st.floats(-3, 6).map(lambda t: 10.0**t)
deltas = st.floats(-300, math.log10(0.5)).map(lambda t: 10.0**t)
adjacencies = st.sampled_from(["replace_one", "zero_out", "add_remove"])
budgets = (
    st.builds(
        lambda e, d, a, u: ApproxDP(e, d, adjacency=a, unit=u), powers, deltas, adjacencies, units
    )
    | st.builds(lambda m, a, u: GDP(m, adjacency=a, unit=u), powers, adjacencies, units)
    | st.builds(lambda r, a, u: ZCDP(r, adjacency=a, unit=u), powers, adjacencies, units)
)


@pytest.mark.thorough
@given(
    budgets,
    st.floats(-6, 6).map(lambda t: 10.0**t),
    st.sampled_from([1, 2, 3, 1000, 10**7]),
    st.sampled_from([1, 1000, 10**12]),
)
@settings(max_examples=200, deadline=None)
def test_gaussian_plans_never_overspend(budget, bound, count, rows):
    sigma = gaussian_sigma(budget, bound=bound, rows=(0, rows), count=count)

    def spent(noise):
        release = GaussianRelease(bound, noise, rows=(0, rows), count=count)
        return cost(release, adjacency=budget.adjacency, unit=budget.unit)

    amount, allowed = spent(sigma).against(budget)
    assert amount <= allowed  # not by one unit in the last place
    assert spent(sigma).satisfies(budget)
    assert not spent(sigma * (1 - 1e-9)).satisfies(budget)


@given(st.floats(-3, 4).map(lambda t: 10.0**t), deltas)
@settings(max_examples=60, deadline=None)
def test_replace_one_takes_exactly_twice_the_noise(epsilon, delta):
    one = gaussian_sigma(ApproxDP(epsilon, delta, adjacency="zero_out"), bound=0.3, rows=ROWS)
    two = gaussian_sigma(ApproxDP(epsilon, delta, adjacency="replace_one"), bound=0.3, rows=ROWS)
    assert two == 2 * one


def test_known_gaussian_noise():
    """1/mu(1, 1e-6) = 4.22468; 32 releases sqrt(32) times that (choquette2025 7: 23.898)."""
    least = (1 + SLACK) / 0.236704380663
    assert math.isclose(gaussian_sigma(ONE, bound=1.0, rows=ROWS), least, rel_tol=2e-9)
    assert least * 0.236704380663 < 1 + 1e-6  # what the lattice costs
    assert abs(gaussian_sigma(ONE, bound=1.0, rows=ROWS, count=32) - 23.898) < 5.1e-4


@pytest.mark.parametrize("name", MECHANISMS)
def test_prefix_sum_noise(name):
    mechanism = described(name, 64)
    sigma = prefix_sum_sigma(ONE, bound=1.0, rows=ROWS, mechanism=mechanism)
    least = mechanism.column_norm * (1 + SLACK) / 0.236704380663
    assert math.isclose(sigma, least, rel_tol=2e-9)
    release = PrefixSumRelease(1.0, sigma, mechanism, rows=ROWS)
    assert cost(release, adjacency="zero_out").satisfies(ONE)


@given(budgets, st.lists(st.floats(0.1, 10), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_phases_and_passes_together(budget, shares):
    """Several sigmas proportional to one scale, on overlapping rows."""
    if budget.adjacency.value == "add_remove":
        budget = GDP(1.0)

    def build(noise):
        return [
            GaussianRelease(1.0, noise * share, rows=(10 * i, 10 * i + 15), count=i + 1)
            for i, share in enumerate(shares)
        ]

    noise = calibrate(build, budget)
    spent = cost(build(noise), adjacency=budget.adjacency, unit=budget.unit)
    less = cost(build(noise * (1 - 1e-9)), adjacency=budget.adjacency, unit=budget.unit)
    assert spent.satisfies(budget)
    assert not less.satisfies(budget)


def test_plans_that_do_not_scale_are_searched():
    """A fixed release beside a scaled one: the least noise, not the first that happens to do."""

    def build(noise):
        return [GaussianRelease(1.0, 6.0, rows=ROWS), GaussianRelease(1.0, noise, rows=ROWS)]

    noise = calibrate(build, ONE)
    expected = 1 / math.sqrt(0.236704380663**2 - 1 / 36)
    assert math.isclose(noise, expected, rel_tol=1e-5)
    assert cost(build(noise), adjacency="zero_out").satisfies(ONE)
    squared = calibrate(lambda s: GaussianRelease(1.0, s * s, rows=ROWS), ONE)
    assert math.isclose(squared, math.sqrt(1 / 0.236704380663), rel_tol=1e-5)


@pytest.mark.thorough
def test_thousand_gaussians_are_fast():
    def build(noise):
        return [GaussianRelease(1.0 + i * 1e-6, noise, rows=ROWS) for i in range(1000)]

    calibrate(build, ONE)
    start = time.process_time()
    gaussian_sigma(ONE, bound=1.0, rows=ROWS, count=1000)
    assert time.process_time() - start < 0.2  # measured: 2 ms
    start = time.process_time()
    calibrate(build, ONE)
    assert time.process_time() - start < 2.0  # a thousand different records; measured: 60 ms


# --- other plans: never over, tight to the tolerance ----------------------------------------------

OTHERS = {
    "gumbel": lambda s: SelectionRelease(1.0, s, 9, rows=ROWS, count=7),
    "laplace": lambda s: SelectionRelease(1.0, s, 9, "laplace", rows=ROWS, count=7),
    "generalized": lambda s: GeneralizedGaussianRelease(1.0, s, 3.0, rows=ROWS, count=7),
    "mixed": lambda s: [
        GaussianRelease(1.0, s, rows=ROWS),
        SelectionRelease(1.0, s, 9, rows=ROWS, count=7),
    ],
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", OTHERS)
@given(powers, deltas, st.sampled_from(["replace_one", "zero_out"]), st.sampled_from([1, 3]))
@settings(max_examples=8, deadline=None)
def test_other_plans_never_overspend(name, epsilon, delta, adjacency, rows):
    budget = ApproxDP(epsilon, delta, adjacency=adjacency, unit=Unit(rows))
    noise = calibrate(OTHERS[name], budget)

    def satisfied(scale):
        spent = cost(OTHERS[name](scale), adjacency=adjacency, unit=budget.unit)
        return spent.satisfies(budget)

    assert satisfied(noise)
    assert not satisfied(noise * (1 - 3e-6))


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    [
        lambda s: PoissonGaussianRelease(1.0, s, 0.05, rows=ROWS, count=10),
        lambda s: FixedSizeGaussianRelease(1.0, s, 50, rows=ROWS, count=10),
    ],
    ids=["poisson", "fixed"],
)
def test_sampled_plans_never_overspend(build):
    budget = ApproxDP(2.0, 1e-6, adjacency="zero_out")
    noise = calibrate(build, budget, tolerance=1e-2)
    assert cost(build(noise), adjacency="zero_out").satisfies(budget)
    assert not cost(build(noise * 0.97), adjacency="zero_out").satisfies(budget)


@pytest.mark.slow
def test_large_bounds_start_far_from_the_solution():
    """The first probe, noise 1 for a bound of 300, has no sampled accountant: still solved."""

    def build(noise):
        return PoissonGaussianRelease(300.0, noise, 0.05, rows=ROWS, count=10)

    budget = ApproxDP(2.0, 1e-6, adjacency="zero_out")
    noise = calibrate(build, budget, tolerance=1e-2)
    assert cost(build(noise), adjacency="zero_out").satisfies(budget)
    assert 0.5 < noise / 300 < 2.0


def test_shuffled_plans_never_overspend():
    def build(noise):
        return ShuffledRelease(1.0, noise, rows=(0, 10_000))

    budget = ApproxDP(0.5, 1e-6)
    noise = calibrate(build, budget, tolerance=1e-3)
    assert cost(build(noise)).satisfies(budget)
    assert not cost(build(noise * 0.997)).satisfies(budget)
    unshuffled = gaussian_sigma(budget, bound=1.0, rows=ROWS)
    assert noise < 0.3 * unshuffled


@pytest.mark.parametrize("bound", [1e-15, 1.0, 1e13])
def test_pure_budgets_buy_selections(bound):
    noise = calibrate(lambda s: SelectionRelease(bound, s, 5, rows=ROWS, count=2), PureDP(1e-3))
    assert math.isclose(noise, 2 * 2 * bound / 1e-3, rel_tol=2e-6)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "budget"),
    [
        (lambda s: GaussianRelease(1.0, s, rows=ROWS), PureDP(1.0)),
        (lambda s: GeneralizedGaussianRelease(1.0, s, 3.0, rows=ROWS), PureDP(1.0)),
        (lambda s: GeneralizedGaussianRelease(1.0, s, 3.0, rows=ROWS), GDP(1.0)),
        (lambda s: SelectionRelease(1.0, s, 3, rows=ROWS), GDP(1.0)),
        (lambda s: PoissonGaussianRelease(1.0, s, 0.1, rows=ROWS), ZCDP(1.0)),
        (OTHERS["mixed"], PureDP(1.0)),
    ],
)
def test_budgets_that_cannot_pay_are_refused(build, budget):
    with pytest.raises(AssumptionError, match=r"zCDP|ZCDP"):
        calibrate(build, budget)


def test_a_fixed_release_over_the_budget_is_refused():
    def build(noise):
        return [GaussianRelease(1.0, 4.0, rows=ROWS), GaussianRelease(1.0, noise, rows=ROWS)]

    with pytest.raises(AssumptionError, match="no amount of noise"):
        calibrate(build, ONE)


@pytest.mark.parametrize("wrong", [0.0, 1.0, -1, "x", math.nan])
def test_tolerance_is_checked(wrong):
    with pytest.raises(ParameterError, match="tolerance"):
        calibrate(OTHERS["gumbel"], ONE, tolerance=wrong)
