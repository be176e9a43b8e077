"""Oracles: known constants, biases that hold and are reached, a user's own."""

import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import ParameterError
from dpsco.solvers.common.mean_oracle import (
    CoordinateClip,
    L2Clip,
    RowOracle,
    chosen_oracle,
    coordinate_lemma,
    moment_threshold,
    paper_threshold,
    tail_bias,
    tail_constant,
)


def test_sharp_constants():
    assert [tail_constant(k) for k in (2.0, 3.0, 4.0)] == pytest.approx([1 / 4, 4 / 27, 27 / 256])


@pytest.mark.parametrize(
    ("order", "noise", "clip", "bias"),
    [
        (2.0, 4.0, 9.43075072, 0.23858122),
        (2.0, 2.0, 13.33709558, 0.16870240),
        (4.0, 4.0, 4.91778870, 0.07182890),
    ],
)
def test_thresholds_of_moments(order, noise, clip, bias):
    """r = 3, s = 500, d = 10, mu = 1/2; noise 2/mu for replace-one, 1/mu for zero-out."""
    best = moment_threshold(3.0, order, rows=500, noise=noise, size=10)
    assert best == pytest.approx(clip, rel=1e-6)
    assert tail_bias(best, 3.0, order) == pytest.approx(bias, rel=1e-6)


@pytest.mark.parametrize(("order", "clip"), [(2.0, 26.67419115), (4.0, 8.94553372)])
def test_thresholds_of_the_paper(order, clip):
    assert paper_threshold(3.0, order, rows=500, mu=0.5, size=10) == pytest.approx(clip, rel=1e-6)


@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
def test_the_bias_is_reached_by_two_points(order):
    """The law on 0 and kC/(k-1): no smaller constant would do."""
    clip, height, share = 2.0, order * 2.0 / (order - 1.0), 0.01
    moment = (share * height**order) ** (1 / order)
    bias = share * (height - clip)
    assert tail_bias(clip, moment, order) == pytest.approx(bias, rel=1e-12)


@pytest.mark.parametrize("oracle", [L2Clip(), CoordinateClip()])
def test_biases_hold(oracle):
    """The mean of clipped Pareto rows is within the bias of the mean."""
    rng = np.random.default_rng(3)
    X = rng.pareto(2.5, (200_000, 4))
    moment = math.sqrt(np.mean(np.sum(X**2, axis=1)))
    bounds = dp.Bounds(1e9)
    for threshold in (1.0, 4.0, 16.0):
        query = oracle.query(dp.losses.SquaredDistance(), np.zeros(4), threshold)
        mean = -query.sum(bounds.apply(X)) / len(X)
        assert np.linalg.norm(mean - X.mean(axis=0)) <= oracle.bias(threshold, moment, 2.0)
        assert query.bound == oracle.bound(threshold, 4)


def test_moments_of_coordinates():
    assert coordinate_lemma(0.5, 16) == pytest.approx(4 * math.sqrt(2))


def test_oracles_by_name():
    assert chosen_oracle("l2_clip") == L2Clip()
    own = RowOracle(np.tanh, lambda clip, moment, order: 0.1)
    assert chosen_oracle(own) is own
    assert own.bias(1.0, 1.0, 2.0) == 0.1
    with pytest.raises(ParameterError, match="oracle must be one of"):
        chosen_oracle("median")
    with pytest.raises(ParameterError, match="RowOracle"):
        RowOracle(1.0, 2.0)
    with pytest.raises(ParameterError, match="bias"):
        RowOracle(np.tanh, lambda clip, moment, order: math.nan).bias(1.0, 1.0, 2.0)


def test_a_users_oracle_runs_and_its_bound_is_enforced():
    """A function that returns huge vectors adds no more than the clip."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    problem = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(9.0))
    own = RowOracle(lambda g: 1e9 * np.sign(g), lambda clip, moment, order: clip)
    task = dp.Task(problem, 300, 3, dp.ApproxDP(50.0, 1e-3))
    plan = dp.plan(task, solver="l2_clip_mean_oracle", options={"oracle": own, "clip": 2.0})
    weights = dp.run(plan, (X,), randomness=dp.Randomness.seeded(1)).weights
    assert np.linalg.norm(weights) <= 2.0 + 6 * plan.sigma * math.sqrt(3) / 300
    with pytest.raises(ParameterError, match="no record"):
        plan.to_json()
