"""Runs of phases: without noise they are subgradient methods; the next phase starts at the last."""

import math

import numpy as np
import pytest

import dpsco as dp

SILENT = dp.GDP(1e12)
N, D = 400, 3
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, D))
Y = X @ np.array([1.0, -0.5, 0.25]) + 0.1 * RNG.standard_normal(N)
BALL = dp.domains.L2Ball(2.0)
PROBLEM = dp.Problem(loss=dp.losses.Absolute(), bounds=dp.Bounds(1e6, label=1e6), domain=BALL)


def fit(key, problem=PROBLEM, budget=SILENT, data=(X, Y), **options):
    plan = dp.plan(
        problem, n=len(data[0]), d=D, budget=budget, solver=key, options={"clip": 50.0, **options}
    )
    seeded = dp.Randomness.seeded(0)
    return plan, dp.run(plan, data, order="given", randomness=seeded).weights


def subgradient(w, rows=(0, N)):
    part = slice(*rows)
    return X[part].T @ np.sign(X[part] @ w - Y[part]) / (rows[1] - rows[0])


def test_without_a_regularizer_it_is_projected_descent():
    plan, weights = fit("clipped_reg_subgradient", regularization=0.0, rounds=40, step=0.2)
    w, points = np.zeros(D), []
    for _ in range(40):
        points.append(w)
        w = BALL.project(w - 0.2 * subgradient(w))
    assert plan.averaging == "uniform"
    assert np.allclose(weights, np.mean(points, axis=0), atol=3e-5)


def test_paper_steps_are_level_and_end_at_the_last_point():
    plan, weights = fit(
        "clipped_reg_subgradient", schedule="paper", regularization=0.5, rounds=40, step=0.2
    )
    w = np.zeros(D)
    for _ in range(40):
        w = BALL.project(w - 0.2 * (subgradient(w) + 0.5 * w))
    assert plan.averaging == "last"
    assert np.allclose(weights, w, atol=3e-5)


def falling(w, centre, strength, rows, rounds, penalty=None):
    total, weight = np.zeros(D), 0.0
    for t in range(rounds):
        total, weight = total + (t + 2) * w, weight + t + 2
        h = 2 / (strength * (t + 1))
        point = (w + h * strength * centre - h * subgradient(w, rows)) / (1 + h * strength)
        if penalty is not None:
            point = penalty.prox(point, h / (1 + h * strength))
        w = BALL.project(point)
    return total / weight


def test_falling_steps_are_exact_on_the_regularizer():
    plan, weights = fit("clipped_reg_subgradient", regularization=0.5, rounds=30)
    assert plan.strength(plan.phases[0]) == pytest.approx(0.5)
    assert np.allclose(weights, falling(np.zeros(D), np.zeros(D), 0.5, (0, N), 30), atol=3e-5)


@pytest.mark.parametrize("penalty", [None, dp.losses.L1Penalty(0.05)])
def test_a_phase_goes_on_from_the_last_one(penalty):
    problem = PROBLEM
    if penalty is not None:
        problem = dp.Problem(
            loss=dp.losses.Absolute(), bounds=PROBLEM.bounds, domain=BALL, penalty=penalty
        )
    plan, weights = fit("localized_clipped_subgradient", problem, rounds=20)
    assert len(plan.phases) > 2
    w = np.zeros(D)
    for phase in plan.phases:
        w = falling(w, w, plan.strength(phase), phase.rows, phase.rounds, penalty)
    assert np.allclose(weights, w, atol=3e-5)


def test_one_round_is_one_step():
    _, weights = fit("clipped_reg_subgradient", regularization=0.5, rounds=1)
    point = -4.0 * subgradient(np.zeros(D)) / 3.0  # h = 4, h lambda = 2
    assert np.allclose(weights, BALL.project(point), atol=3e-5)


def test_free_weights_stay_near_their_centre():
    free = dp.Problem(loss=dp.losses.Absolute(), bounds=dp.Bounds(1.0, label=1.0))
    plan, weights = fit("localized_clipped_subgradient", free, dp.ApproxDP(0.1, 1e-6), clip=1.0)
    limit = 2.0 * plan.task.initial_distance
    assert set(plan.radii) == {limit}
    assert np.linalg.norm(weights) <= limit * len(plan.phases)


def test_a_stage_looks_less_far_than_the_one_before():
    ridge = dp.Problem(
        loss=dp.losses.Absolute(), bounds=PROBLEM.bounds, domain=BALL,
        penalty=dp.losses.L2Penalty(0.5),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20_000, D))
    labels = rows @ np.ones(D)
    plan, weights = fit(
        "strongly_convex_localized", ridge, dp.ApproxDP(2.0, 1e-6), (rows, labels), clip="auto"
    )
    for scale in (0.1, 3.0):
        distances = plan.distances(scale)
        assert len(distances) == plan.stages[-1] + 1 >= 3
        assert list(distances) == sorted(distances, reverse=True)
    assert plan.distances(3.0)[-1] > plan.distances(0.1)[-1]
    assert math.isfinite(weights.sum())
    value = [np.mean(np.abs(rows @ w - labels)) + 0.25 * w @ w for w in (weights, np.zeros(D))]
    assert value[0] < 0.8 * value[1]
