"""Clips of solvers of moments: what a run with a clip that is found keeps, for both families."""

import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.audit import contract
from dpsco.errors import ParameterError
from dpsco.solvers.common.moment_clips import (
    Moments,
    bounds_gradients,
    chosen_clip,
    known_convexity,
    known_moments,
    noise_warning,
    unit_noise,
)

N, D = 600, 3
RNG = np.random.default_rng(3)
X = RNG.standard_t(4.0, (N, D))
Y = X @ np.array([1.0, -0.5, 0.25]) + RNG.standard_t(3.0, N)
KEYS = ("clipped_acsa", "clipped_sgd_sc", "clipped_prox_sgd", "localized_clipped_subgradient")
BUDGET = dp.ApproxDP(4.0, 1e-5)


def problem(loss=None):
    return dp.Problem(
        loss=dp.losses.Squared() if loss is None else loss,
        bounds=dp.Bounds(1e3, label=1e3),
        domain=dp.domains.L2Ball(2.0),
    )


def task(loss=None, n=N, budget=BUDGET):
    return dp.Task(problem(loss), n, D, budget)


def planned(key):
    return dp.plan(task(), solver=key, options={"clip": "auto", "rounds": 8})


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_a_run_that_finds_its_clip_keeps_the_contract(key):
    """Replay on neighbours at both ends of the rows, ledger, noise, messages, JSON."""
    plan = planned(key)
    assert contract.check_plan(plan) == []
    assert contract.check_cost(plan) == []
    assert contract.check_ledger(plan, (X, Y)) == []
    for row in (0, N - 1):
        others = {}
        for name, factor in (("huge", 1e200), ("turned", -1.0), ("missing", math.nan)):
            rows, labels = X.copy(), Y.copy()
            rows[row] *= factor
            labels[row] = -1e9
            others[name] = (rows, labels)
        assert contract.check_replay(plan, (X, Y), others, row=row) == []
    assert contract.check_noise(plan, (X, Y), seeds=range(4)) == []
    assert contract.check_messages(plan, (X, Y), others) == []


def test_numbers_moments_and_what_the_loss_says():
    choice = chosen_clip(task(), 7.0, Moments(0.0, 2.0), rows=N)
    assert (choice.clip, choice.rows, choice.length) == (7.0, (0, N), pytest.approx(7.0 / 3.0))
    by_moment = chosen_clip(task(), None, Moments(3.0, 2.0), rows=N)
    assert by_moment.clip == chosen_clip(task(), "moment", Moments(3.0, 2.0), rows=N).clip
    assert by_moment.length == 3.0
    assert chosen_clip(task(), None, Moments(0.0, 2.0), rows=N).clip is None
    bounded = chosen_clip(task(dp.losses.Absolute()), None, Moments(0.0, 2.0), rows=N)
    assert 0.0 < bounded.clip <= 1e3
    cut = chosen_clip(
        task(dp.losses.Absolute()), 2.0, Moments(0.0, 2.0), rows=N, oracle="coordinate_clip"
    )
    assert cut.clip == 2.0
    assert cut.length == pytest.approx(2.0 * math.sqrt(D) / 3.0)


def test_which_losses_bound_their_gradients():
    bounded = (dp.losses.Absolute(), dp.losses.Huber(1.0), dp.losses.Pinball(0.3))
    assert all(bounds_gradients(task(loss)) for loss in bounded)
    assert not bounds_gradients(task(dp.losses.Squared()))
    own = dp.losses.PerRowLoss(lambda w, rows, y: rows)
    assert not bounds_gradients(task(own))


def test_facts():
    assert unit_noise(task(budget=dp.GDP(0.5))) == pytest.approx(4.0)
    assert unit_noise(task(budget=dp.GDP(0.5, adjacency="zero_out"))) == pytest.approx(2.0)
    assert known_convexity(task()) == 0.0
    ridge = dp.Problem(
        loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=1.0),
        penalty=dp.losses.ElasticNet(0.1, 0.25),
    )  # fmt: skip
    assert known_convexity(dp.Task(ridge, N, D, BUDGET)) == 0.25
    assert noise_warning(0.5, 10) == ()
    assert "0.51 times the clip" in noise_warning(0.51, 10)[0]
    assert known_moments(task(), None, 3.0) == Moments(0.0, 3.0)
    for order in (1.0, 0.0, math.inf):
        with pytest.raises(ParameterError, match="order must be above 1"):
            known_moments(task(), 2.0, order)
