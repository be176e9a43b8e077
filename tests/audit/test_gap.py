"""The Frank-Wolfe gap: exact on public rows, paid for on private ones, else refused."""

import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.audit import fw_gap
from dpsco.errors import AssumptionError, ParameterError
from dpsco.privacy import ApproxDP, PureDP, Randomness

BUDGET = ApproxDP(1.0, 1e-6)
SIGN = dp.Bounds(2.0, label="sign")


def problem(domain):
    return dp.Problem(loss=dp.losses.Sigmoid(), bounds=SIGN, domain=domain)


def table(n=200, d=3):
    rng = np.random.default_rng(3)
    return rng.uniform(-1.0, 1.0, (n, d)), rng.choice([-1.0, 1.0], n)


def gradient(weights, X, y):
    value = 1.0 / (1.0 + np.exp(y * (X @ weights)))
    return -(X * (y * value * (1.0 - value))[:, None]).mean(axis=0)


@pytest.mark.parametrize(
    ("domain", "weights", "width"),
    [
        (dp.domains.L1Ball(3.0), [1.0, 0.5, 0.0], lambda g: 3.0 * np.abs(g).max()),
        (dp.domains.L2Ball(2.0), [0.0, 0.5, 0.0], lambda g: 2.0 * np.linalg.norm(g)),
        (dp.domains.LpBall(1.5, 2.0), [0.0, 0.5, 0.0], lambda g: 2.0 * np.linalg.norm(g, 3)),
        (dp.domains.Simplex(), [0.2, 0.3, 0.5], lambda g: -g.min()),
    ],
)
def test_gaps_are_the_formulas_of_section_10(domain, weights, width):
    X, y = table()
    found = fw_gap(problem(domain), weights, (X, y), public=True)
    g = gradient(np.array(weights), X, y)
    assert found.gap == pytest.approx(float(g @ weights + width(g)), rel=1e-9)
    assert (found.noise, found.certificate) == (0.0, None)


def test_a_linear_minimiser_has_no_gap_and_its_opposite_all_of_it():
    rows = np.tile([1.0, 0.0], (5, 1))
    ball = dp.domains.L1Ball(0.5)
    mean = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1.0), domain=ball)
    assert fw_gap(mean, [0.5, 0.0], (rows,), public=True).gap == pytest.approx(0.0, abs=1e-12)
    assert fw_gap(mean, [-0.5, 0.0], (rows,), public=True).gap == pytest.approx(1.5)


def test_private_rows_are_refused_unless_somebody_pays():
    class Untouchable:
        def __getattribute__(self, name):
            raise AssertionError("rows were touched")

    rows = (Untouchable(), Untouchable())
    for given in ({}, {"public": True, "budget": BUDGET}, {"public": False}):
        with pytest.raises(AssumptionError, match="one of the two"):
            fw_gap(problem(dp.domains.L1Ball(1.0)), np.zeros(3), rows, **given)
    with pytest.raises(ParameterError, match="public"):
        fw_gap(problem(dp.domains.L1Ball(1.0)), np.zeros(3), rows, public="yes")


def test_a_paid_gap_has_a_certificate_and_its_noise():
    """Forty answers: their mean lies where the noise of that size puts it."""
    X, y = table()
    ball, weights = problem(dp.domains.L2Ball(1.0)), np.zeros(3)
    exact = gradient(weights, X, y)
    found = [
        fw_gap(ball, weights, (X, y), budget=BUDGET, randomness=Randomness.seeded(seed))
        for seed in range(40)
    ]
    sigma = found[0].noise
    # A row's gradient is at most 1/4 * 2 long, and replace-one moves a sum by twice that.
    assert sigma * len(X) == pytest.approx(1.0 / BUDGET.mu_per_row(), rel=1e-6)
    squares = [each.gap**2 for each in found]  # at the centre the gap is the length of a gradient
    expected = float(exact @ exact) + 3 * sigma**2
    deviation = math.sqrt((2 * 3 * sigma**4 + 4 * sigma**2 * float(exact @ exact)) / 40)
    assert abs(np.mean(squares) - expected) < 5.0 * deviation  # false alarm 6e-7
    assert abs(expected - float(exact @ exact) - 0.75 * sigma**2) > 5.0 * deviation  # half noise
    assert found[0].certificate.epsilon(1e-6) <= 1.0
    assert len(found[0].certificate.releases) == 1


def test_what_means_nothing_is_refused():
    X, y = table()
    with pytest.raises(AssumptionError, match="bounded domain"):
        fw_gap(problem(dp.domains.WholeSpace()), np.zeros(3), (X, y), public=True)
    with pytest.raises(ParameterError, match="weights must lie in the domain"):
        fw_gap(problem(dp.domains.L1Ball(1.0)), [2.0, 0.0, 0.0], (X, y), public=True)
    with pytest.raises(AssumptionError):
        fw_gap(problem(dp.domains.L1Ball(1.0)), np.zeros(3), (X, y), budget=PureDP(1.0))
    hidden = ApproxDP(1.0, 1e-6, adjacency="add_remove")
    with pytest.raises(AssumptionError, match="public number of rows"):
        fw_gap(problem(dp.domains.L1Ball(1.0)), np.zeros(3), (X, y), budget=hidden)
