"""Hard problems have the moments, means and risks that they state, and are as hard as they say."""

import math

import numpy as np
import pytest

import dpsco as dp
from dpsco import problems
from dpsco.problems.moments import rare

D, N = 40, 10_000
BUDGET = dp.ApproxDP(1.0, 1e-6)
EVERY = {
    "linear_private": problems.linear_private(N, D, BUDGET, moment=3.0, order=4.0, radius=2.0),
    "linear_statistical": problems.linear_statistical(N, D, moment=3.0, radius=2.0),
    "quadratic_private": problems.quadratic_private(N, D, BUDGET, moment=3.0),
    "quadratic_statistical": problems.quadratic_statistical(N, D, moment=3.0),
}


def test_share_of_rows_that_are_not_zero():
    assert rare(N, D, 0.125) == pytest.approx(0.00178885438, rel=1e-8)
    assert rare(2, D, 0.125) == 1.0


@pytest.mark.parametrize(("order", "known"), [(2.0, 0.06147), (4.0, 0.01524)])
def test_excess_of_zero_weights(order, known):
    hard = problems.linear_private(N, D, BUDGET, order=order)
    assert hard.trivial == pytest.approx(known, rel=1e-3)


def losses(hard, weights, data):
    loss = hard.problem.loss
    return (
        loss.value(weights, data[0]) if len(data) == 1 else loss.value(data[0] @ weights, data[1])
    )


@pytest.mark.parametrize("name", EVERY)
def test_risk_agrees_with_fresh_rows(name):
    """Risk at a random point, by 2e5 rows; five standard errors."""
    hard = EVERY[name]
    rng = np.random.default_rng(4)
    data = hard.draw(200_000, rng)
    weights = hard.problem.domain.project(rng.standard_normal(D) / 8)
    values = losses(hard, weights, data)
    error = 5.0 * values.std() / math.sqrt(len(values))
    assert hard.risk(weights) == pytest.approx(values.mean(), abs=error)
    assert np.allclose(data[0].mean(axis=0), hard.mean, atol=6 * data[0].std() / math.sqrt(200_000))


@pytest.mark.parametrize("name", EVERY)
def test_best_weights_are_best(name):
    hard = EVERY[name]
    assert hard.excess(hard.best) == pytest.approx(0.0, abs=1e-12)
    assert hard.problem.domain.contains(hard.best)
    rng = np.random.default_rng(1)
    others = hard.problem.domain.project(rng.standard_normal((50, D)))
    assert min(map(hard.excess, others)) >= 0.0


@pytest.mark.parametrize("name", EVERY)
def test_the_moment_is_bounded(name):
    """(E sup over weights of ||gradient||^k)^(1/k) <= r, with k = 4 for the first, else 2."""
    hard = EVERY[name]
    order = 4.0 if name == "linear_private" else 2.0
    X = hard.draw(200_000, 3)[0]
    lengths = np.linalg.norm(X, axis=1)
    if name.startswith("quadratic"):  # ||w - x|| <= radius + ||x||
        lengths = lengths + hard.problem.domain.radius(D)
    moment = np.mean(lengths**order) ** (1.0 / order)
    assert moment <= 3.0 * 1.03  # rare rows: the estimate itself is off by 2 %
    assert moment >= 3.0 * (0.6 if name.startswith("quadratic") else 0.97)


def test_draws_are_reproducible_and_within_the_bounds():
    hard = EVERY["linear_private"]
    X, y = hard.draw(500, 7)
    assert np.array_equal(X, hard.draw(500, 7)[0])
    assert not np.array_equal(X, hard.draw(500, 8)[0])
    block = hard.problem.bounds.apply(X, y)
    assert np.array_equal(block.rows, X)  # nothing is cut
    assert np.array_equal(block.labels, y)


def test_one_clipped_release_is_as_good_as_theory_says():
    """A ratio of 1 - 1/sqrt(3) = 0.42: noise is sqrt(2) times the signal. Far less would leak."""
    ratios = []
    hard = problems.linear_private(N, D, BUDGET)
    clip = hard.problem.bounds.feature_norm
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, _ = hard.draw(N, rng)
        noise = 2 * clip / (N * BUDGET.mu_per_row()) * rng.standard_normal(D)
        mean = X.mean(axis=0) + noise
        ratios.append(hard.excess(mean / np.linalg.norm(mean)) / hard.trivial)
    assert 0.38 < np.mean(ratios) < 0.52


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: problems.linear_private(N, 39, BUDGET), "d >= 40"),
        (lambda: problems.linear_private(N, D, BUDGET, order=1.0), "order must be above 1"),
        (lambda: problems.linear_private(N, D, BUDGET, signs=[1.0]), "signs must be 40"),
        (lambda: problems.linear_statistical(N, D, bias=101.0), "bias must be at most"),
        (lambda: problems.quadratic_statistical(N, D, choices=[2] * D), "choices must be 40"),
        (lambda: problems.linear_private(N, D, dp.PureDP(1.0)), "Gaussian"),
    ],
)
def test_refusals(call, words):
    with pytest.raises((dp.errors.ParameterError, dp.errors.AssumptionError), match=words):
        call()
