"""How far weights are from a stationary point: exact on public rows, noisy for a budget, or no."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.audit import fw_gap, prox_stationarity
from dpsco.errors import AssumptionError, ParameterError
from dpsco.privacy import ApproxDP, PureDP, Randomness

SMALL_BUDGET = ApproxDP(1.0, 1e-6)
BUDGET = dp.ApproxDP(8.0, 1e-5)
SIGN = dp.Bounds(2.0, label="sign")


# -- the Frank-Wolfe gap ---------------------------------------------------------------------------


def sigmoid(domain):
    return dp.Problem(loss=dp.losses.Sigmoid(), bounds=SIGN, domain=domain)


def sign_table(n=200, d=3):
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
    X, y = sign_table()
    result = fw_gap(sigmoid(domain), weights, (X, y), public=True)
    g = gradient(np.array(weights), X, y)
    assert result.gap == pytest.approx(float(g @ weights + width(g)), rel=1e-9)
    assert (result.noise, result.certificate) == (0.0, None)


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
    for options in ({}, {"public": True, "budget": SMALL_BUDGET}, {"public": False}):
        with pytest.raises(AssumptionError, match="one of the two"):
            fw_gap(sigmoid(dp.domains.L1Ball(1.0)), np.zeros(3), rows, **options)
    with pytest.raises(ParameterError, match="public"):
        fw_gap(sigmoid(dp.domains.L1Ball(1.0)), np.zeros(3), rows, public="yes")


def test_a_paid_gap_has_a_certificate_and_its_noise():
    """Forty answers: their mean lies where the noise of that size puts it."""
    X, y = sign_table()
    ball, weights = sigmoid(dp.domains.L2Ball(1.0)), np.zeros(3)
    exact = gradient(weights, X, y)
    results = [
        fw_gap(ball, weights, (X, y), budget=SMALL_BUDGET, randomness=Randomness.seeded(seed))
        for seed in range(40)
    ]
    sigma = results[0].noise
    # A row's gradient is at most 1/4 * 2 long, and replace-one moves a sum by twice that.
    assert sigma * len(X) == pytest.approx(1.0 / SMALL_BUDGET.mu_per_row(), rel=1e-6)
    squares = [each.gap**2 for each in results]  # at the centre the gap is the length of a gradient
    expected = float(exact @ exact) + 3 * sigma**2
    deviation = math.sqrt((2 * 3 * sigma**4 + 4 * sigma**2 * float(exact @ exact)) / 40)
    assert abs(np.mean(squares) - expected) < 5.0 * deviation  # false alarm 6e-7
    assert abs(expected - float(exact @ exact) - 0.75 * sigma**2) > 5.0 * deviation  # half noise
    assert results[0].certificate.epsilon(1e-6) <= 1.0
    assert len(results[0].certificate.releases) == 1


def test_gaps_that_mean_nothing_are_refused():
    X, y = sign_table()
    with pytest.raises(AssumptionError, match="bounded domain"):
        fw_gap(sigmoid(dp.domains.WholeSpace()), np.zeros(3), (X, y), public=True)
    with pytest.raises(ParameterError, match="weights must lie in the domain"):
        fw_gap(sigmoid(dp.domains.L1Ball(1.0)), [2.0, 0.0, 0.0], (X, y), public=True)
    with pytest.raises(AssumptionError):
        fw_gap(sigmoid(dp.domains.L1Ball(1.0)), np.zeros(3), (X, y), budget=PureDP(1.0))


# -- the proximal point ----------------------------------------------------------------------------


def problem(loss=dp.losses.Huber(50.0), domain=dp.domains.L2Ball(3.0), label=2.0):  # noqa: B008
    return dp.Problem(loss=loss, bounds=dp.Bounds(1.0, label=label), domain=domain)


def table(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X, X @ np.array([0.8, -0.5, 0.2]) + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("said", [{}, {"public": False}, {"public": True, "budget": BUDGET}])
def test_rows_that_nobody_calls_public_are_private(said):
    """The planted bug is a fit that prints such a number."""
    with pytest.raises(AssumptionError, match="public=True"):
        prox_stationarity(problem(), np.zeros(3), table(), curvature=2.0, **said)


def test_refusals_come_before_rows():
    class Untouchable(dp.data.tables.table.Table):
        def __init__(self):
            super().__init__(10, 3, np.dtype(float), "number")

        def _source(self, bounds, shuffle):
            raise AssertionError("rows were touched")

    with pytest.raises(AssumptionError, match="no fit has paid for"):
        prox_stationarity(problem(), np.zeros(3), Untouchable(), curvature=2.0)


def test_it_is_zero_at_a_minimum_and_known_elsewhere():
    X, y = table()
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    at = prox_stationarity(problem(), best, (X, y), curvature=2.0, public=True)
    assert at.distance < 1e-3
    assert at.certificate is None
    away = prox_stationarity(problem(), np.zeros(3), (X, y), curvature=2.0, public=True)
    exact = np.linalg.solve(X.T @ X / 400 + 2.0 * np.eye(3), X.T @ y / 400)
    assert away.distance == pytest.approx(float(np.linalg.norm(exact)), rel=1e-2)
    assert away.gap == pytest.approx(2.0 * 6.0 * away.distance)


@pytest.mark.parametrize("curvature", [0.5, 0.79])
def test_too_little_curvature_has_no_unique_proximal_point(curvature):
    tukey = problem(dp.losses.Tukey(1.0))
    with pytest.raises(AssumptionError, match="not unique"):
        prox_stationarity(tukey, np.zeros(3), table(), curvature=curvature, public=True)
    with pytest.raises(AssumptionError, match="not unique"):
        prox_stationarity(tukey, np.zeros(3), table(), curvature=1.0, p=1.5, public=True)
    with pytest.raises(ParameterError, match="p must be above 1"):
        prox_stationarity(tukey, np.zeros(3), table(), curvature=9.0, p=1.0, public=True)


def test_a_penalty_is_no_part_of_it():
    ridge = dp.Problem(
        loss=dp.losses.Huber(1.0),
        bounds=dp.Bounds(1.0, label=1.0),
        penalty=dp.losses.L2Penalty(1.0),
    )
    with pytest.raises(AssumptionError, match="Leave the penalty out"):
        prox_stationarity(ridge, np.zeros(3), table(), curvature=2.0, public=True)


def test_a_budget_pays_for_a_noisy_answer():
    X, y = table(4000)
    options = {"curvature": 2.0, "randomness": dp.Randomness.seeded(1)}
    noisy = prox_stationarity(problem(), np.zeros(3), (X, y), budget=BUDGET, **options)
    exact = prox_stationarity(problem(), np.zeros(3), (X, y), curvature=2.0, public=True)
    assert noisy.distance == pytest.approx(exact.distance, abs=0.02)
    assert 7.9 < noisy.certificate.epsilon(1e-5) <= 8.0


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1), at=st.floats(-1.0, 1.0))
@settings(max_examples=15, deadline=None)
def test_the_gap_at_the_proximal_point_is_bounded(seed, at):
    """Lemma 14 on one-dimensional Tukey losses, the gap by its formula |g| r + g w."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-2.0, 2.0, 12)
    X, ball = np.ones((12, 1)), dp.domains.L2Ball(1.0)
    tukey = dp.losses.Tukey(1.0)
    one = problem(tukey, ball)
    beta = 3.0
    result = prox_stationarity(one, np.array([at]), (X, y), curvature=beta, public=True, steps=600)
    grid = np.linspace(-1.0, 1.0, 4001)
    values = tukey.value(grid[:, None], y).mean(axis=1) + 0.5 * beta * (grid - at) ** 2
    near = grid[np.argmin(values)]
    assert result.distance == pytest.approx(abs(near - at), abs=5e-3)
    slope = float(np.mean(tukey.slope(near, y)))
    gap = slope * near + abs(slope)
    assert gap <= result.gap + beta * 2.0 * 5e-3
    assert math.isfinite(result.gap)
