"""The second accountant: every route, and a first value that is wrong."""

from __future__ import annotations

import math

import pytest

from dpsco.privacy.accounting import cross_check as module
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.accounting.cross_check import CrossCheck, cross_check
from dpsco.privacy.budget import Unit
from dpsco.privacy.mechanisms import (
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    ObjectivePerturbationRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    SelectionRelease,
    ShuffledRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)
from dpsco.privacy.mechanisms.prefix_sum.mechanism import PrefixMechanism

ROWS = (0, 1000)
SHARP = {
    "gaussian": GaussianRelease(1.0, 9.0, rows=ROWS, count=3),
    "prefix sums": PrefixSumRelease(1.0, 9.0, PrefixMechanism("toeplitz", 16), rows=ROWS),
    "power": PrefixSumRelease(1.0, 9.0, PrefixMechanism("power", 16, exponent=0.25), rows=ROWS),
    "blt_cn": PrefixSumRelease(1.0, 9.0, PrefixMechanism("blt_cn", 16), rows=ROWS),
    "phases": [GaussianRelease(1.0, 2.0, rows=(i, i + 1)) for i in range(3)],
    "stable": StableGaussianRelease(1.0, 9.0, "replace_one", "a theorem", rows=ROWS),
    "passes": [GaussianRelease(1.0, 9.0 + i, rows=ROWS) for i in range(4)],
    "too many to list": [GaussianRelease(1.0, 90.0 + i, rows=ROWS) for i in range(60)],
    "too many to compose": GaussianRelease(1.0, 2e3, rows=ROWS, count=200_000),
    "too small to list": GaussianRelease(1.0, 1e6, rows=ROWS, count=100_000),
}
UPPER = {
    "generalized": GeneralizedGaussianRelease(1.0, 9.0, 3.0, rows=ROWS, count=3),
    "selection": SelectionRelease(1.0, 9.0, 5, rows=ROWS, count=50),
    "mixed": [GaussianRelease(1.0, 9.0, rows=ROWS), SelectionRelease(1.0, 9.0, 5, rows=ROWS)],
    "shuffled": ShuffledRelease(1.0, 9.0, rows=ROWS),
    "stable gamma": StableGammaRelease(1.0, 9.0, "replace_one", "a theorem", rows=ROWS, count=9),
    "perturbed twice": ObjectivePerturbationRelease(
        1.0, 9.0, 0.25, 10.0, 1, "glm", 1e-9, 1e-6, rows=ROWS, count=2
    ),
    "fixed size": FixedSizeGaussianRelease(1.0, 4.0, 50, rows=ROWS, count=20),
}


@pytest.mark.parametrize("name", SHARP)
@pytest.mark.parametrize("rows", [1, 3])
def test_sharp_routes_agree(name, rows):
    opinion = cross_check(cost(SHARP[name], unit=Unit(rows)), 1e-6)
    assert opinion.route == "PLD"
    assert opinion.sharp
    assert opinion.agrees
    assert abs(opinion.second / opinion.first - 1) < 0.01
    assert "agrees with" in str(opinion)


@pytest.mark.parametrize("name", UPPER)
def test_upper_routes_agree(name):
    opinion = cross_check(cost(UPPER[name]), 1e-6)
    assert opinion.route == "RDP"
    assert not opinion.sharp
    assert opinion.agrees
    assert opinion.first <= opinion.second < 10 * opinion.first
    assert "looser upper bound" in str(opinion)


@pytest.mark.parametrize("name", ["generalized", "selection", "mixed"])
def test_upper_routes_know_the_unit(name):
    """Three rows cost nine times the rho, hence at least three times the epsilon."""
    one, three = (cross_check(cost(UPPER[name], unit=Unit(k)), 1e-6) for k in (1, 3))
    assert three.agrees
    assert three.second > 2.9 * one.second


def test_sampling_with_replacement_has_no_second_accountant():
    release = WithReplacementRelease(0.1, 0.01, 40, 1.5, "replace_one", "a theorem", rows=ROWS)
    opinion = cross_check(cost(release), 1e-6)
    assert opinion.route == "none"
    assert opinion.first > 0
    assert "no second accountant" in str(opinion)


def test_poisson_is_bounded_under_zero_out_only():
    release = PoissonGaussianRelease(1.0, 2.0, 0.05, rows=ROWS, count=20)
    opinion = cross_check(cost(release, adjacency="zero_out"), 1e-6)
    assert opinion.route == "RDP"
    assert opinion.first <= opinion.second < 2 * opinion.first
    assert cross_check(cost(release), 1e-6).route == "none"


def test_nothing_to_say():
    nothing = cross_check(cost([]), 1e-6)
    assert (nothing.route, nothing.agrees) == ("none", True)
    assert str(nothing) == "no second accountant covers these releases"
    unit = cross_check(cost(UPPER["fixed size"], unit=Unit(2)), 1e-6)
    assert unit.route == "none"


@pytest.mark.parametrize("delta", [1e-10, 1e-20])
def test_no_false_alarm_where_the_grid_is_too_coarse(delta):
    """A second accountant that has nothing to say must not contradict."""
    tiny = cross_check(cost(GaussianRelease(1.0, 1e8, rows=ROWS)), delta)
    assert tiny.agrees
    long = cross_check(cost(GaussianRelease(1.0, 1e3, rows=ROWS, count=50_000)), delta)
    assert long.agrees


@pytest.mark.parametrize("name", SHARP)
@pytest.mark.parametrize("factor", [0.5, 0.97, 1.03])
def test_wrong_first_value_is_contradicted(name, factor, monkeypatch):
    """Half the cost, or 3% off in either direction, does not pass a sharp route."""
    right = module.Cost.epsilon
    monkeypatch.setattr(module.Cost, "epsilon", lambda self, delta: factor * right(self, delta))
    opinion = cross_check(cost(SHARP[name]), 1e-6)
    assert not opinion.agrees
    assert "contradicts" in str(opinion)


@pytest.mark.parametrize("name", UPPER)
def test_too_large_a_first_value_is_contradicted(name, monkeypatch):
    """An upper bound can only say that the first value is larger than it need be."""
    monkeypatch.setattr(module.Cost, "epsilon", lambda self, delta: 100.0)
    opinion = cross_check(cost(UPPER[name]), 1e-6)
    assert not opinion.agrees
    assert "contradicts" in str(opinion)


def test_one_doubtful_row_decides(monkeypatch):
    """Two groups of rows; the accountant is wrong about one of them only."""
    parts = [GaussianRelease(1.0, 4.0, rows=(0, 9)), SelectionRelease(1.0, 0.5, 3, rows=(9, 20))]
    right = module.Cost.epsilon

    def wrong(self, delta):
        value = right(self, delta)
        return value if self.mu is None else value / 2

    assert cross_check(cost(parts), 1e-6).route == "RDP"  # the dearer row speaks
    monkeypatch.setattr(module.Cost, "epsilon", wrong)
    opinion = cross_check(cost(parts), 1e-6)
    assert opinion.route == "PLD"
    assert not opinion.agrees


@pytest.mark.parametrize(
    ("first", "second", "sharp", "agrees"),
    [
        (1.0, 1.0, True, True),
        (1.0, 1.02, True, False),
        (1.0, 0.98, True, False),
        (1.0, 5.0, False, True),
        (1.0, 0.98, False, False),
        (1.0, math.inf, False, True),
        (math.nan, 1.0, True, False),
    ],
)
def test_agreement(first, second, sharp, agrees):
    assert CrossCheck("PLD", 1e-6, first, second, sharp).agrees is agrees


@pytest.mark.parametrize(
    ("first", "second", "agrees", "said"),
    [
        (1.0, 1.005, True, "agrees with 1"),
        (1.0, 0.95, True, "less than and no contradiction to 1"),  # rounded up more coarsely
        (1.0, 0.9, False, "contradicts 1"),
        (1.0, 1.02, False, "contradicts 1"),  # too small a claim is one at once
        (math.nan, 1.0, False, "contradicts nan"),
    ],
)
def test_agreement_of_two_integrations(first, second, agrees, said):
    opinion = CrossCheck(module.INTEGRATION, 1e-6, first, second, sharp=True)
    assert opinion.agrees is agrees
    assert said in str(opinion)
    assert CrossCheck("none", 1e-6, 1.0, math.inf, sharp=False, rho=(1.0, 2.0)).agrees
    off = CrossCheck(module.INTEGRATION, 1e-6, 1.0, 1.0, sharp=True, rho=(1.0, 1.02))
    assert not off.agrees
