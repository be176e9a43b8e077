"""How many rounds, blocks and stages: known answers of the theorems' formulas."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsco as dp
from dpsco.errors import AssumptionError
from dpsco.solvers.weakly_convex import rates

MU = 0.23670438  # of epsilon 1, delta 1e-6


def task(n, budget=None):
    bounds, ball = dp.Bounds(1.0, label=5.0), dp.domains.L2Ball(1.0)
    problem = dp.Problem(loss=dp.losses.Huber(1.0), bounds=bounds, domain=ball)
    return dp.Task(problem, n, 5, dp.ApproxDP(1.0, 1e-6) if budget is None else budget)


@pytest.mark.parametrize(("rows", "rounds"), [(64, 11), (256, 183), (1024, 400), (4, 4)])
def test_known_rounds_of_a_strongly_convex_problem(rows, rounds):
    assert rates.worthwhile_rounds(rows, 5, rows * MU / 2, 400) == rounds


@pytest.mark.parametrize(("n", "tuned", "paper"), [(10_000, 32, 141), (100_000, 64, 447)])
def test_known_numbers_of_blocks(n, tuned, paper):
    """D 2, rho 1, L0 1, d 5: the tuned formula is 32.716 and 151.9."""
    first, second = math.sqrt(n * 2.0), 2.0 / 5.0
    assert rates.tuned_rounds(first, second, n * MU / 2) == tuned
    assert rates.published_rounds(task(n), 2.0, first, second) == paper


def test_published_numbers_need_epsilon_and_delta():
    with pytest.raises(AssumptionError, match="schedule='tuned'"):
        rates.published_rounds(task(1000, dp.ZCDP(0.1)), 2.0, 10.0, 1.0)


@given(st.integers(2, 10**6), st.integers(1, 1000), st.floats(0.1, 1e3))
def test_localisation_halves_rows_and_sharpens_fast(rows, d, multiplier):
    sizes, strengths = rates.localized(rows, d, multiplier, 2.0, 1.0)
    assert len(sizes) == len(strengths) == math.floor(math.log2(rows))
    assert sum(sizes) < rows
    assert min(sizes) >= 1
    for one, two in pairwise(strengths):
        assert two >= 16.0 * one


def test_known_localisation():
    """m 1024, d 5: eta = D/L0 sqrt(4/(11/48 m + 16 d/mu^2))."""
    sizes, strengths = rates.localized(1024, 5, 2.0 / MU, 2.0, 1.0)
    eta = 2.0 * math.sqrt(4.0 / (11 / 48 * 1024 + 16 * 5 / MU**2))
    assert sizes[:3] == (512, 256, 128)
    assert strengths[:2] == pytest.approx((2 / (eta * 512), 2 * 16 / (eta * 256)))


@given(st.integers(2, 10**6), st.floats(0.01, 10.0))
def test_reduction_uses_each_row_once(rows, curvature):
    sizes, strengths = rates.reduction(rows, 5, 8.0, 2.0, 1.0, curvature)
    assert sum(sizes) <= rows
    assert len(sizes) == len(strengths)
    assert all(0.0 < strength < math.inf for strength in strengths)


def test_reduction_starts_each_stage_from_a_shorter_distance():
    one = rates.localized(1024, 5, 8.0, 2.0, 1.0)[1]
    stages = rates.reduction(4096, 5, 8.0, 2.0, 1.0, 1.0)
    count = math.ceil(math.log2(math.log2(4096)))
    assert count == 4
    firsts = stages[1][:: len(one)]
    assert len(firsts) == 4
    assert firsts[0] == pytest.approx(one[0])
    assert list(firsts) == sorted(firsts)
    assert firsts[-1] > firsts[0]
