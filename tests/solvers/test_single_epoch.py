"""One pass of noisy SGD and DP-FTRL: known runs, schedules, sensitivity by replay, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.losses import Absolute, Huber, L2Penalty, Logistic
from dpsco.privacy.budget import GDP, ApproxDP, PureDP
from dpsco.privacy.mechanisms.prefix_sum.mechanism import MECHANISMS, NEEDS, mechanism
from dpsco.solvers import get

KEYS = ("dp_sgd_single_epoch", "dp_ftrl")
BUDGET = ApproxDP(1.0, 1e-6)
MU = 0.236704380663
SILENT = GDP(1e12)  # noise of 2e-12 a unit of clip
X8 = np.array([[0.6, 0.8], [-1, 0], [0, 1], [0.8, -0.6], [0.6, -0.8], [0, -1], [1, 0], [-0.6, 0.8]])
Y8 = np.array([1.0, -1, 1, 1, -1, -1, 1, 1])


def logistic(radius=5.0, **more):
    return dp.Problem(
        loss=Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=dp.domains.L2Ball(radius),
        **more,
    )


def make(key, problem=None, n=8, d=2, budget=SILENT, **options):
    problem = logistic() if problem is None else problem
    return dp.plan(problem, n=n, d=d, budget=budget, solver=key, options=options)


def fit(plan, data=(X8, Y8), seed=0):
    return dp.run(plan, data, order="given", randomness=dp.Randomness.seeded(seed)).weights


# -- known runs (Choquette-Choo, Ganesh, Thakurta 2025, eight rows in four batches) ----------------


@pytest.mark.parametrize(
    ("key", "options", "expected"),
    [
        ("dp_sgd_single_epoch", {"tail": 1}, [0.493242198, 0.883921831]),
        ("dp_sgd_single_epoch", {"tail": 4}, [0.473670938, 0.522393609]),
        ("dp_ftrl", {"tail": 4}, [0.350360388, 0.301413151]),
    ],
)
def test_known_runs_without_noise(key, options, expected):
    if key == "dp_sgd_single_epoch":
        options = {"falling": False, **options}
    weights = fit(make(key, rounds=4, step=1.0, **options))
    assert np.allclose(weights, expected, rtol=0.0, atol=1e-5)


def reference(key, plan, X, y, noise):
    """The same run in plain NumPy; ``noise`` has one row a round, in units of sigma."""
    d, start, weights = X.shape[1], np.zeros(X.shape[1]), np.zeros(X.shape[1])
    prefix, kept = np.zeros(d), []
    for t in range(plan.rounds):
        size, more = len(X) // plan.rounds, len(X) % plan.rounds
        first = t * size + min(t, more)
        last = first + size + (t < more)
        margins = y[first:last] * (X[first:last] @ weights)
        slopes = -y[first:last] / (1 + np.exp(margins))
        gradients = slopes[:, None] * X[first:last]
        lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
        gradients *= np.minimum(1.0, plan.clip / np.maximum(lengths, 1e-300))
        mean = (gradients.sum(axis=0) + plan.sigma * noise[t]) / (last - first)
        if key == "dp_ftrl":
            kept.append(weights)
            prefix = prefix + mean
            weights = start - plan.step * prefix
        else:
            falls = 2 * (plan.rounds - t) / (plan.rounds + 1) if plan.falling else 1.0
            weights = weights - plan.step * falls * mean
        weights = weights * min(1.0, 5.0 / max(np.linalg.norm(weights), 1e-300))
        if key != "dp_ftrl":
            kept.append(weights)
    return np.mean(kept[-plan.tail :], axis=0)


@settings(max_examples=25, deadline=None)
@given(
    key=st.sampled_from(KEYS),
    n=st.integers(5, 30),
    rounds=st.integers(1, 5),
    tail=st.integers(1, 5),
    clip=st.floats(0.05, 1.0),
    step=st.floats(0.1, 20.0),
    seed=st.integers(0, 99),
)
def test_runs_equal_their_twin(key, n, rounds, tail, clip, step, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True)) * (1 + 1e-12)
    y = rng.choice([-1.0, 1.0], n)
    tail = min(tail, rounds)
    plan = make(key, n=n, d=3, rounds=rounds, clip=clip, step=step, tail=tail)
    expected = reference(key, plan, X, y, np.zeros((rounds, 3)))
    assert np.allclose(fit(plan, (X, y)), expected, rtol=0.0, atol=1e-5)


# -- schedules -------------------------------------------------------------------------------------


def test_batches_cover_every_row_once():
    for n, rounds in ((10, 3), (10, 10), (1000, 7), (5, 1)):
        batches = make("dp_sgd_single_epoch", n=n, rounds=rounds).batches()
        assert np.array_equal(np.concatenate([np.arange(*b) for b in batches]), np.arange(n))
        sizes = [stop - start for start, stop in batches]
        assert max(sizes) - min(sizes) <= 1
        assert sizes == sorted(sizes, reverse=True)


def test_noise_of_a_batch_is_that_of_a_single_release():
    """Parallel composition: 4.2247 for zero-out neighbours at (1, 1e-6), whatever the rounds."""
    for rounds in (1, 8):
        zero = make(
            "dp_sgd_single_epoch",
            n=80,
            rounds=rounds,
            clip=1.0,
            budget=ApproxDP(1.0, 1e-6, adjacency="zero_out"),
        )
        assert zero.sigma / zero.clip == pytest.approx(4.2247, abs=1e-4)
        both = make("dp_sgd_single_epoch", n=80, rounds=rounds, budget=BUDGET)
        assert both.sigma / both.clip == pytest.approx(2 * 4.2247, abs=2e-4)
        assert 0.999 < both.cost.epsilon(1e-6) <= 1.0


@pytest.mark.parametrize("noise", [name for name in MECHANISMS if name not in NEEDS])
def test_prefix_noise_has_the_mechanism_s_norm(noise):
    plan = make("dp_ftrl", n=100, rounds=16, budget=BUDGET, noise=noise)
    norm = mechanism(noise, rounds=16).column_norm
    assert plan.sigma == pytest.approx(2 * plan.clip * norm / MU, rel=1e-6)
    assert plan.mechanism == mechanism(noise, rounds=16)


def test_default_steps_and_rounds():
    """By hand: n = 4000, d = 20, R = G = 1, (1, 1e-6), so that sigma = 8.449."""
    bounds = dp.Bounds(1.0, label=1.3)
    problem = dp.Problem(loss=Absolute(), bounds=bounds, domain=dp.domains.L2Ball(1.0))
    sgd = make("dp_sgd_single_epoch", problem, n=4000, d=20, budget=BUDGET)
    sigma = 2 / MU
    assert sgd.rounds == round(4000 / (4 * sigma * 20)) == 6  # n G / (4 sigma d)
    spread = 1 / 20 + 6 / 4000 + 20 * (6 * sigma / 4000) ** 2
    assert sgd.step == pytest.approx(1 / math.sqrt(6 * spread), rel=1e-6)
    assert sgd.falling
    assert sgd.tail == 1
    ftrl = make("dp_ftrl", problem, n=4000, d=20, budget=BUDGET)
    worst = math.sqrt(20) * sigma * mechanism(rounds=128).error_max() * 128 / 4000
    small = 1 / math.sqrt(20)
    expected = 3 / math.sqrt(2 * 128 * small * (small + worst))
    assert ftrl.rounds == 128
    assert ftrl.step == pytest.approx(expected, rel=1e-6)
    assert ftrl.tail == 64
    assert make("dp_sgd_single_epoch", problem, n=10**6, d=20, budget=BUDGET).rounds == 64
    assert make("dp_ftrl", problem, n=7, d=20, budget=BUDGET).rounds == 7


@pytest.mark.parametrize("falling", [True, False])
def test_very_few_rounds_do_not_end_with_a_leap(falling):
    """Of a nonsmooth loss in many dimensions; a step that is asked for is taken."""
    problem = dp.Problem(loss=Absolute(), bounds=dp.Bounds(1.0, label=1.0), scale=2.0)
    given = {"n": 40_000, "d": 400, "budget": BUDGET, "falling": falling}
    for rounds in (1, 2, 5):
        plan = make("dp_sgd_single_epoch", problem, rounds=rounds, **given)
        assert plan.step_at(plan.rounds - 1) * plan.clip == pytest.approx(
            plan.task.initial_distance
        )
    usual = make("dp_sgd_single_epoch", problem, rounds=6, **given)
    assert usual.step > make("dp_sgd_single_epoch", problem, rounds=5, **given).step
    assert make("dp_sgd_single_epoch", problem, rounds=1, step=99.0, **given).step == 99.0


def test_smooth_losses_take_more_rounds_when_their_steps_are_cut():
    def rounds(loss, n):
        bounds = dp.Bounds(1.0, label=1.3)
        problem = dp.Problem(loss=loss, bounds=bounds, domain=dp.domains.L2Ball(1.0))
        return make("dp_sgd_single_epoch", problem, n=n, d=20, budget=BUDGET).rounds

    assert rounds(Huber(0.3), 4000) > 1.5 * rounds(Absolute(), 4000)
    assert rounds(Huber(0.3), 3) == rounds(Absolute(), 3) == 3
    assert rounds(Absolute(), 16_000) == 24


def test_steps_fall_linearly_to_a_mean():
    plan = make("dp_sgd_single_epoch", n=50, rounds=5, step=0.3)
    steps = [line.step for line in plan.trace()]
    assert steps == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1])
    level = make("dp_sgd_single_epoch", n=50, rounds=5, step=0.3, falling=False)
    assert [line.step for line in level.trace()] == pytest.approx([0.3] * 5)


@pytest.mark.parametrize("key", KEYS)
def test_steps_stay_below_two_over_the_smoothness(key):
    """With hardly any noise the bold step would leave a quadratic bowl."""
    plan = make(key, logistic(100.0), n=10_000, d=50, budget=GDP(50.0))
    assert plan.step == pytest.approx(8.0)
    nonsmooth = dp.Problem(
        loss=dp.losses.Hinge(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=dp.domains.L2Ball(100.0),
    )
    assert make(key, nonsmooth, n=10_000, d=50, budget=GDP(50.0)).step > 20.0


@pytest.mark.parametrize("key", KEYS)
def test_units_of_features_and_labels(key):
    def steps(feature, label):
        problem = dp.Problem(
            loss=Huber(0.3 * label),
            bounds=dp.Bounds(feature, label=1.3 * label),
            domain=dp.domains.L2Ball(label / feature),
        )
        return make(key, problem, n=4000, d=20, budget=BUDGET).step

    assert steps(10.0, 1.0) == pytest.approx(steps(1.0, 1.0) / 100)
    assert steps(1.0, 10.0) == pytest.approx(steps(1.0, 1.0))


def test_long_streams_take_the_buffered_mechanism():
    assert make("dp_ftrl", n=2**20, d=1000, rounds=2**16, budget=BUDGET).mechanism.name == "blt_cn"
    assert make("dp_ftrl", n=2**20, d=10, rounds=2**10, budget=BUDGET).mechanism == mechanism(
        rounds=2**10
    )


# -- sensitivity -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
def test_only_the_row_s_own_batch_changes(key, monkeypatch):
    """Replay on a neighbour with the same answers: one sum moves, by at most twice the clip."""
    from dpsco.data.source import MemorySource

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 2)), np.ones(40)
    other = X.copy()
    other[17] = -X[17]
    plan = make(key, n=40, rounds=8, step=0.5, budget=BUDGET, clip=0.4)
    sums, exact = {}, MemorySource.sum

    def replayed(self, query, start, stop, **more):
        found = exact(self, query, start, stop, **more)
        sums.setdefault(name, []).append(found)
        return sums["one"][len(sums[name]) - 1]  # what D gave: later iterates are the same

    monkeypatch.setattr(MemorySource, "sum", replayed)
    for name, rows in (("one", X), ("two", other)):  # noqa: B007
        fit(plan, (rows, y))
    moved = np.linalg.norm(np.array(sums["one"]) - np.array(sums["two"]), axis=1)
    assert np.flatnonzero(moved).tolist() == [3]
    assert 0.1 < moved[3] <= 0.8


# -- runs ------------------------------------------------------------------------------------------


def draw(n, d, seed):
    """Experiment E1: rows on the sphere, y = x_1 + uniform noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, X[:, 0] + rng.uniform(-0.3, 0.3, n)


def excess(w, d):
    r = np.linalg.norm(w - np.eye(d)[0])
    angle = (np.arange(2000) + 0.5) * math.pi / 2000
    weight = np.sin(angle) ** (d - 2)
    t = np.abs(r * np.cos(angle))
    value = np.where(t <= 0.3, t**2 / 0.6, t - 0.15)
    return float(weight @ value / weight.sum())


@pytest.mark.thorough
@pytest.mark.parametrize(("key", "limit"), [("dp_sgd_single_epoch", 0.008), ("dp_ftrl", 0.006)])
def test_excess_on_e1(key, limit):
    """Measured before: 0.0034 +- 0.0003 and 0.0033 +- 0.0002; the zero weights have 0.0785.

    The step that the theory gives, and every iterate in the average, are far worse.
    """
    problem = dp.Problem(
        loss=Absolute(), bounds=dp.Bounds(1.0, label=1.3), domain=dp.domains.L2Ball(1.0)
    )
    plan = make(key, problem, n=4000, d=20, budget=BUDGET)
    timid = 1 / math.sqrt(plan.rounds) if key != "dp_ftrl" else plan.step / 8
    shy = make(key, problem, n=4000, d=20, budget=BUDGET, step=timid, tail=plan.rounds)
    found = [excess(fit(plan, draw(4000, 20, s), s), 20) for s in range(6)]
    worse = [excess(fit(shy, draw(4000, 20, s), s), 20) for s in range(6)]
    assert np.mean(found) < limit
    assert np.mean(worse) > 3 * np.mean(found)


@pytest.mark.thorough
@pytest.mark.parametrize("key", KEYS)
def test_more_rows_help(key):
    problem = dp.Problem(
        loss=Absolute(), bounds=dp.Bounds(1.0, label=1.3), domain=dp.domains.L2Ball(1.0)
    )
    found = []
    for n in (1000, 8000):
        plan = make(key, problem, n=n, d=10, budget=BUDGET)
        found.append(np.mean([excess(fit(plan, draw(n, 10, s), s), 10) for s in range(5)]))
    slope = math.log(found[1] / found[0]) / math.log(8)
    assert -2.3 < slope < -0.6


@pytest.mark.parametrize("key", KEYS)
def test_penalty_pulls_and_vector_losses_run(key):
    heavy = logistic(penalty=L2Penalty(100.0))
    assert np.linalg.norm(fit(make(key, heavy, rounds=4))) < 0.02
    assert np.linalg.norm(fit(make(key, rounds=4))) > 0.2
    mean = dp.Problem(
        loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1.0), domain=dp.domains.L2Ball(1.0)
    )
    rows = np.tile([0.3, -0.4], (64, 1))
    weights = fit(make(key, mean, n=64, rounds=32, step=0.5), (rows,))
    assert np.allclose(weights, [0.3, -0.4], rtol=0.0, atol=0.02)


@pytest.mark.parametrize("key", KEYS)
def test_huge_noise_is_survived(key):
    free = dp.Problem(loss=Huber(1.0), bounds=dp.Bounds(1.0, label=1.0))
    plan = make(key, free, n=8, budget=ApproxDP(1e-6, 1e-12), step=1e6)
    assert np.all(np.isfinite(fit(plan)))


@pytest.mark.parametrize("key", KEYS)
def test_progress_and_trace(key):
    plan, seen = make(key, n=9, rounds=4), []
    data = (np.vstack([X8, X8[:1]]), np.append(Y8, 1.0))
    result = dp.run(plan, data, progress=lambda *at: seen.append(at))
    assert seen == [(t + 1, 4) for t in range(4)]
    assert [line.rows for line in result.trace] == [(0, 3), (3, 5), (5, 7), (7, 9)]
    assert dp.load_plan(plan.to_json()) == plan


# -- predictions and refusals ----------------------------------------------------------------------


def test_predicted_risk():
    problem = dp.Problem(
        loss=Absolute(), bounds=dp.Bounds(1.0, label=1.3), domain=dp.domains.L2Ball(2.0)
    )
    z, n, d = 2 / MU, 10_000, 16
    sgd = make("dp_sgd_single_epoch", problem, n=n, d=d, budget=BUDGET)
    assert sgd.risk == pytest.approx(2 * math.sqrt(2 * z * 4 / n), rel=1e-6)
    ftrl = make("dp_ftrl", problem, n=n, d=d, budget=BUDGET)
    error = 1.0663 + math.log(n) / math.pi
    assert ftrl.risk == pytest.approx(2 * math.sqrt(2 / n + 2 * 4 * error * z / n), rel=1e-6)
    assert mechanism("toeplitz", rounds=1000).error_max() <= 1.0663 + math.log(1000) / math.pi


@pytest.mark.thorough
@pytest.mark.parametrize("key", KEYS)
def test_refusals(key):
    with pytest.raises(AssumptionError, match="public number of rows"):
        make(key, budget=ApproxDP(1.0, 1e-6, adjacency="add_remove"))
    with pytest.raises(AssumptionError, match="pure budget"):
        make(key, budget=PureDP(1.0))
    for options, match in (
        ({"rounds": 9}, "at most n = 8"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 4, "tail": 5}, "at most rounds = 4"),
        ({"step": 0.0}, "step"),
        ({"clip": -1.0}, "clip"),
    ):
        with pytest.raises(ParameterError, match=match):
            make(key, **options)
    with pytest.raises(AssumptionError, match="not 'paper'"):
        dp.plan(logistic(), n=8, d=2, budget=BUDGET, solver=key, calibration="paper")


def test_refusals_of_their_own_options():
    with pytest.raises(ParameterError, match="falling must be True or False"):
        make("dp_sgd_single_epoch", falling=1)
    with pytest.raises(ParameterError, match="name must be one of"):
        make("dp_ftrl", noise="white")
    assert get("dp_ftrl").options == ("rounds", "clip", "step", "tail", "noise")
    assert get("dp_sgd_single_epoch").options == ("rounds", "clip", "step", "falling", "tail")
