"""Default clips: the start's gradient, less for many classes, all where noise is small."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsco as dp
from dpsco.losses import Absolute, Hinge, Logistic, OneVersusRest, Softmax, Squared
from dpsco.solvers.common.clips import (
    FARTHEST,
    cautious_clip,
    descent_clip,
    finite,
    minimiser_clip,
    residual_part,
    start_clip,
)

RECURSIVE = ("acc_srgd", "srg_sgd", "srg_online_to_batch")
SAMPLED = ("dp_sgd_gradient", "noisy_sgd_2019", "noisy_sgd_2020")
START = ("dp_sgd_single_epoch", "dp_ftrl", "acc_independent", *RECURSIVE, *SAMPLED)


def task(loss, n, d=20, *, epsilon=1.0, feature=1.0, classes=10, **settings):
    label = "sign" if loss.labels == "sign" else dp.data.Classes(*range(classes))
    bounds = dp.Bounds(feature, label=label)
    return dp.Task(dp.Problem(loss=loss, bounds=bounds, **settings), n, d, budget(epsilon))


def budget(epsilon=1.0):
    return dp.ApproxDP(epsilon, 1e-9, adjacency="zero_out")


def test_softmax_rows_are_cut_where_they_are_half_wrong():
    """1 - p_y = 1/2 gives at most sqrt(1/2), for two classes exactly the start's gradient."""
    for classes in (2, 3, 10):
        made = task(Softmax(classes), 30_000, feature=2.0, classes=classes)
        assert cautious_clip(made) == pytest.approx(2.0 * math.sqrt(0.5))
    two = task(Softmax(2), 30_000, classes=2)
    assert cautious_clip(two) == pytest.approx(two.start_gradient)
    assert task(Softmax(10), 30_000).start_gradient == pytest.approx(math.sqrt(0.9))


def test_where_noise_outweighs_the_loss_the_clip_falls_to_a_quarter_wrong():
    clips = [cautious_clip(task(Softmax(10), n)) for n in (10, 200, 400, 10**5)]
    assert clips[0] == pytest.approx(math.sqrt(2) / 4)
    assert clips[-1] == pytest.approx(math.sqrt(2) / 2)
    assert clips[0] < clips[1] < clips[2] < clips[3]
    # as the root: in between, four times the noise is half the clip
    assert clips[2] / clips[1] == pytest.approx(math.sqrt(2.0), rel=1e-6)


def test_one_versus_rest_keeps_one_wrong_class_whole():
    made = task(OneVersusRest(Hinge(), 10), 10**5)
    assert cautious_clip(made) == pytest.approx(1.0)
    assert made.lipschitz == pytest.approx(math.sqrt(10))


def test_losses_of_a_margin_are_cut_at_the_start():
    for n in (10, 10**5):
        assert cautious_clip(task(Logistic(), n)) == 0.5


@pytest.mark.parametrize("loss", [Logistic(), Softmax(10), OneVersusRest(Hinge(), 10)], ids=repr)
def test_a_large_budget_or_table_has_the_losses_own_bound(loss):
    large = task(loss, 10**7, epsilon=8.0)
    assert descent_clip(large) == large.lipschitz
    assert descent_clip(task(loss, 1000, epsilon=8.0)) < large.lipschitz


def test_the_clip_never_exceeds_the_losses_own_bound():
    ball = dp.domains.L2Ball(0.1)
    for loss in (Softmax(3), OneVersusRest(Logistic(), 3)):
        for n in (10, 10**4, 10**8):
            made = task(loss, n, classes=3, domain=ball)
            assert 0.0 < descent_clip(made) <= made.lipschitz


@given(st.floats(0.01, 0.5), st.integers(2, 8), st.integers(0, 1000))
def test_no_row_less_wrong_is_cut(wrong, classes, seed):
    """||p - e_y|| <= settled(1 - p_y) for all probabilities."""
    p = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3))
    p = np.concatenate([[1.0 - wrong], wrong * p[1:] / p[1:].sum()])
    assert np.linalg.norm(p - np.eye(classes)[0]) <= Softmax(classes).settled(wrong) * (1 + 1e-12)


def test_finite_numbers_whatever_the_noise():
    found = finite(np.array([np.nan, np.inf, -np.inf, 3.0]))
    assert found.tolist() == [0.0, FARTHEST, -FARTHEST, 3.0]


def planned(key, loss=None, *, n=2000, d=20, epsilon=1.0, calibration="tight", **options):
    made = task(Logistic() if loss is None else loss, n, d).problem
    given = {"n": n, "d": d, "solver": key, "options": options, "calibration": calibration}
    return dp.plan(made, budget=budget(epsilon), **given)


@pytest.mark.thorough
@pytest.mark.parametrize("key", START)
def test_every_solver_that_clips_cuts_logistic_rows_at_the_start(key):
    """Half of the loss's own bound, and so half of the noise for equal rounds."""
    rounds = 4 if key in ("noisy_sgd_2019", "noisy_sgd_2020") else 8
    cut, whole = planned(key, rounds=rounds), planned(key, rounds=rounds, clip=1.0)
    assert cut.clip == 0.5
    assert whole.clip == 1.0
    assert cut.sigma == pytest.approx(0.5 * whole.sigma, rel=1e-9)
    assert cut.releases()[0].bound == 0.5


@pytest.mark.parametrize("key", START)
def test_rows_are_whole_where_noise_is_small(key):
    """Far within the budget nothing is cut; recursive solvers may even take more."""
    rounds = {"rounds": 20} if key in SAMPLED else {}
    assert planned(key, n=10**6, epsilon=8.0, **rounds).clip >= 1.0
    assert planned(key, clip=0.25, n=10**6, epsilon=8.0, **rounds).clip == 0.25


@pytest.mark.thorough
@pytest.mark.parametrize("key", [*START, "noisy_gd", "dp_sgd_poisson"])
def test_every_solver_that_clips_cuts_residuals_alike(key):
    """Squared loss over the whole space: X Y at the start, an eighth of it where noise rules."""
    made = dp.Problem(loss=Squared(), bounds=dp.Bounds(2.0, label=3.0))
    given = {"d": 20, "options": {} if key == "dp_sgd_poisson" else {"rounds": 4}}
    for n, epsilon, part in ((2000, 0.5, 0.125), (20_000, 1.0, None), (10**6, 2.0, 1.0)):
        plan = dp.plan(made, solver=key, n=n, budget=budget(epsilon), **given)
        part = residual_part(plan.task) if part is None else part
        assert plan.clip == pytest.approx(6.0 * part)
        assert plan.task.gradient_bound(None) > 10.0
    assert 0.125 < residual_part(dp.Task(made, 20_000, 20, budget(1.0))) < 1.0


@pytest.mark.parametrize("key", ["noisy_sgd_2019", "noisy_sgd_2020", "acc_srgd"])
def test_published_noise_has_the_losses_own_bound(key):
    rounds = 7 if key == "acc_srgd" else 100
    assert planned(key, rounds=rounds, calibration="paper").clip == 1.0


def test_published_schedules_and_certified_moves_cut_nothing():
    ball = dp.domains.L2Ball(1.0)
    made = task(Logistic(), 2000, domain=ball).problem
    given = {"n": 2000, "d": 20, "budget": budget(), "solver": "acc_srgd"}
    lipschitz = dp.Task(made, 2000, 20, dp.ApproxDP(1.0, 1e-6)).lipschitz
    assert dp.plan(made, options={"schedule": "paper_general"}, **given).clip > lipschitz
    assert dp.plan(made, options={"certified": True}, **given).clip == 2 * lipschitz


def test_prefix_sums_of_vector_losses_bear_more_noise():
    """They are cut from 0.5 of the loss at the start on, gradients from 0.02; further from 5 on."""
    start, whole, half = math.sqrt(0.9), math.sqrt(2.0), math.sqrt(0.5)
    for n, prefix in ((10**3, start), (10**4, whole), (10**5, whole)):
        made = task(Softmax(10), n)
        assert descent_clip(made) == (whole if n == 10**5 else cautious_clip(made))
        assert descent_clip(made, prefix=True) == pytest.approx(prefix)
    drowned = task(Softmax(10), 100)
    assert descent_clip(drowned, prefix=True) == cautious_clip(drowned) < half
    assert descent_clip(task(Logistic(), 2000), prefix=True) == 0.5


def test_minimisers_are_cut_at_the_start_alone():
    """Neither residuals nor many classes are cut further: the start's gradient, or nothing."""
    numbers = dp.Problem(loss=Absolute(), bounds=dp.Bounds(1.0, label=1.0))
    small = dp.Task(numbers, 2000, 20, budget(0.1))
    assert minimiser_clip(small) == start_clip(small) == 1.0
    assert descent_clip(small) == 0.25
    for n, clip in ((2000, 0.5), (10**7, 1.0)):
        assert minimiser_clip(task(Logistic(), n)) == clip


def test_dp_ftrl_is_cut_from_a_tenth_on():
    """Between a fiftieth and a tenth of the loss at the start only the others are."""
    sizes = (2000, 10_000, 100_000)
    assert [planned("dp_ftrl", n=n).clip for n in sizes] == [0.5, 1.0, 1.0]
    assert [planned("dp_sgd_single_epoch", n=n).clip for n in sizes] == [0.5, 0.5, 1.0]


@pytest.mark.parametrize("key", ["dp_sgd_single_epoch", "acc_srgd", "acc_independent"])
def test_the_cut_pays_where_noise_matters(key):
    """Logistic rows, n = 2000, d = 20, epsilon 0.3, five draws: the mean test loss falls."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((22_000, 20))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    chance = 1 / (1 + np.exp(-8.0 * X[:, 0]))
    y = np.where(rng.random(len(X)) < chance, 1.0, -1.0)

    def loss(**options):
        plan = planned(key, epsilon=0.3, **options)
        found = []
        for seed in range(5):
            noise = dp.Randomness.seeded(seed)
            weights = dp.run(plan, (X[:2000], y[:2000]), randomness=noise).weights
            found.append(np.mean(np.logaddexp(0.0, -y[2000:] * (X[2000:] @ weights))))
        return np.mean(found)

    assert loss() < 0.99 * loss(clip=1.0)
