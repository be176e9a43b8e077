"""Noisy gradient descent: schedule, composition, convergence, scaling, refusals."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.audit import contract
from dpsco.errors import ParameterError
from dpsco.models.config import configure
from dpsco.models.plan import plan_model
from dpsco.privacy.mechanisms import gaussian_sigma
from dpsco.solvers import noisy_gd
from dpsco.solvers.common.smoothing import final_smoothing, moreau_smoothing, nonsmooth, smoothed

BUDGET = dp.ApproxDP(1.0, 1e-6)


def problem(loss=None, *, feature=1.0, label="sign", **settings_):
    loss = loss or dp.losses.Logistic()
    return dp.Problem(loss=loss, bounds=dp.Bounds(feature, label=label), **settings_)


def rows(n=4000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = np.where(X @ np.arange(1.0, d + 1) + 0.5 * rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, y


def plan(made=None, n=4000, d=4, budget=BUDGET, **options):
    return dp.plan(made or problem(), n=n, d=d, budget=budget, solver="noisy_gd", options=options)


@pytest.mark.parametrize(("adjacency", "factor"), [("zero_out", 1.0), ("replace_one", 2.0)])
def test_noise_is_that_of_exact_composition(adjacency, factor):
    budget = dp.ApproxDP(1.0, 1e-6, adjacency=adjacency)
    made = plan(budget=budget, rounds=50, clip=0.5)
    # mu(1, 1e-6) = 0.2367043807, known to ten digits
    assert made.sigma == pytest.approx(factor * 0.5 * math.sqrt(50) / 0.2367043807, rel=2e-6)
    (release,) = made.releases()
    assert (release.count, release.bound, release.rows) == (50, 0.5, (0, 4000))
    assert made.cost.epsilon(1e-6) == pytest.approx(1.0, rel=1e-9)
    assert made.cost.epsilon(1e-6) <= 1.0


def test_default_clip_is_the_largest_gradient_at_the_start():
    assert plan().clip == 0.5  # logistic: |phi'(0)| = 1/2
    assert plan(problem(dp.losses.Hinge())).clip == 1.0
    assert plan(problem(dp.losses.Huber(0.3), label=1.0)).clip == pytest.approx(0.3)
    squares = problem(dp.losses.Squared(), label=2.0, feature=3.0)
    assert plan(squares, n=10**6).clip == pytest.approx(6.0)
    away = problem(domain=dp.domains.L2Ball(1.0, centre=[3.0, 0.0, 0.0, 0.0]))
    assert plan(away, n=100).clip == pytest.approx(1 / (1 + math.exp(-3.0)))
    assert plan(n=10**7).clip == 1.0  # little noise: the loss's own bound


def test_residuals_are_cut_where_noise_rules():
    squares, budget = problem(dp.losses.Squared(), label=2.0), dp.ApproxDP(1.0, 1e-6)

    def parts(loss, label=2.0):
        whole = plan(problem(loss, label=label), n=10**7, budget=budget).clip
        return [plan(problem(loss, label=label), n=n, budget=budget).clip / whole for n in SIZES]

    SIZES = (100, 10_000, 10**6)
    signal = 10_000 * budget.mu_per_row() / 2
    between = signal / math.sqrt(4) / 1500
    assert 0.125 < between < 1
    assert parts(dp.losses.Squared()) == pytest.approx([0.125, between, 1.0])
    for loss in (dp.losses.Absolute(), dp.losses.Pinball(0.5)):
        assert parts(loss) == pytest.approx([0.25, 1.5 * between, 1.0])
    assert parts(dp.losses.Pinball(0.9)) == [1.0, 1.0, 1.0]  # a part of it would move its level
    assert parts(dp.losses.Huber(0.2)) == [1.0, 1.0, 1.0]  # its bound is on residuals already
    assert plan(squares, n=100, budget=budget, clip=0.7).clip == 0.7  # the user's


def test_integrated_time_balances_bias_and_noise():
    made = plan(problem(dp.losses.Huber(0.3), label=1.0), n=2000)
    single = made.sigma / math.sqrt(made.rounds)
    time = made.step * made.rounds / (1 - made.momentum)
    R, d = made.task.initial_distance, made.task.n_weights
    bias, noise = R**2 / (2 * time), time * d * (single / made.n) ** 2 / 2
    assert bias == pytest.approx(noise, rel=1e-9)
    assert made.step < 1 / made.task.smoothness


@pytest.mark.parametrize(("adjacency", "factor"), [("zero_out", 1.0), ("replace_one", 2.0)])
def test_time_falls_where_weights_outnumber_the_rows_above_the_noise(adjacency, factor):
    """Noise then moves a prediction by 2 (2 z/d)^(1/4), z = n mu/sensitivity, not by 2."""
    budget = dp.ApproxDP(1.0, 1e-6, adjacency=adjacency)
    z = 1000 * 0.2367043807 / factor

    def moved(d, **settings_):
        made = plan(problem(**settings_), n=1000, d=d, budget=budget)
        single = made.sigma / math.sqrt(made.rounds)
        return made.step * made.rounds / (1 - made.momentum) * single / made.n

    assert moved(100) == pytest.approx(2.0)
    for d in (1000, 4000):
        assert moved(d) == pytest.approx(2 * (2 * z / d) ** 0.25)
        assert moved(d, scale=math.sqrt(d)) == pytest.approx(1.0)  # the user's word
        assert moved(d, domain=dp.domains.L2Ball(5.0)) == pytest.approx(5 / math.sqrt(d))


def test_caution_never_lets_noise_outweigh_what_rows_teach():
    """Labels that no feature explains, in 40 times as many weights as z: log 2 and 9 % at most.

    Without caution it is a quarter more. Noise of one draw changes the mean by less than 1 %.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 4000)) / math.sqrt(4000)
    y = rng.choice([-1.0, 1.0], size=2000)
    budget = dp.ApproxDP(0.5, 1e-6)
    losses = []
    for scale in (None, 2 * math.sqrt(4000)):
        made = plan(problem(scale=scale), n=1000, d=4000, budget=budget)
        result = dp.run(made, (X[:1000], y[:1000]), randomness=dp.Randomness.seeded(1))
        losses.append(np.mean(np.logaddexp(0.0, -y[1000:] * (X[1000:] @ result.weights))))
    assert losses[0] < 1.09 * math.log(2) < 1.15 * math.log(2) < losses[1]


def test_plans_warn_of_many_flat_directions():
    """Between z/8 and 800 z weights, 1000 at least, unless the distance is known."""
    # z = 20,000 mu/2 = 2367
    for d, lines in ((900, 0), (1000, 1), (1_893_000, 1), (1_894_000, 0)):
        assert len(plan(n=20_000, d=d).warnings) == lines
    assert "10,000 weights share 2,367 rows above the noise" in plan(n=20_000, d=10_000).warnings[0]
    assert plan(n=100_000, d=1000).warnings == ()  # z = 11,835
    assert plan(n=100, d=10_000).warnings == ()  # caution: hardly anything is learnt, or lost
    assert plan(problem(scale=3.0), n=20_000, d=10_000).warnings == ()
    assert plan(problem(dp.losses.Absolute(), label=1.0), n=20_000, d=10_000).warnings == ()


def test_wide_tables_count_as_sparse():
    """15,000 rows of 32,768 words: rounds that cover the time, not those of dense rows."""
    budget = dp.ApproxDP(4.0, 1e-9, adjacency="zero_out")
    assert plan(n=15_000, d=10_000, budget=budget).rounds == round(1e10 / 1.5e8)
    made = plan(n=15_000, d=32_768, budget=budget)
    single = made.sigma / math.sqrt(made.rounds)
    z = 15_000 * 0.5 / single  # of a clip of 1/2
    time = 2 * (2 * z / 32_768) ** 0.25 * made.n / single
    assert 150 < made.rounds == max(round(math.sqrt(10 * time * 0.25 / 1.9)), 172)
    assert made.step * made.rounds / (1 - made.momentum) == pytest.approx(time, rel=1e-2)
    assert plan(n=15_000, d=32_768, budget=dp.ApproxDP(32.0, 1e-9)).rounds == 300
    assert plan(n=5000, d=10**6).rounds == 60  # noise of a million numbers is the work


def test_steps_never_exceed_the_curvature():
    made = plan(n=10**6, budget=dp.ApproxDP(8.0, 1e-6))
    # below 2/L, from where on damped momentum diverges on a quadratic
    assert made.step == pytest.approx((1 + made.momentum) / made.task.smoothness)
    plain = plan(n=10**6, budget=dp.ApproxDP(8.0, 1e-6), momentum=0.0)
    assert plain.step == pytest.approx(1 / made.task.smoothness)
    nonsmooth = plan(problem(dp.losses.Hinge()), n=10**6, budget=dp.ApproxDP(8.0, 1e-6))
    assert nonsmooth.smoothing == pytest.approx(5.0)
    assert plan(problem(dp.losses.Hinge()), d=400).smoothing < 1.5  # far to walk: smoother
    for t, line in enumerate(nonsmooth.trace()):
        assert line.step * nonsmooth.smoothing_at(t) <= 1 + 1e-12
    assert nonsmooth.smoothing_at(0) == nonsmooth.smoothing
    assert nonsmooth.smoothing_at(nonsmooth.rounds - 1) == pytest.approx(
        nonsmooth.smoothing * nonsmooth.smoothing_growth
    )


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9, 0.97])
def test_damped_momentum_settles_in_directions_of_any_curvature(momentum):
    """Also at the longest step: Nesterov's momentum alone would diverge from 4/3 over L on."""
    made = plan(n=10**6, budget=dp.ApproxDP(8.0, 1e-6), momentum=momentum, rounds=400)
    curvatures = made.task.smoothness * np.array([1.0, 0.5, 0.05, 0.005])
    assert made.step == pytest.approx((1 + momentum) / made.task.smoothness)
    stepper = noisy_gd.DescentStepper(made)
    stepper.weights = np.ones(made.task.n_weights)
    curvatures = np.resize(curvatures, made.task.n_weights)
    path = []
    for _ in range(200):
        stepper.step(made.n * curvatures * stepper.weights)
        stepper.round += 1
        path.append(np.abs(stepper.weights))
    assert np.all(path[-1][curvatures > 0.02 * made.task.smoothness] < 1e-3)
    assert np.max(path) < 2.0


def test_uneven_classes_do_not_make_it_swing(monkeypatch):
    """Rows that nearly all are of one class, and that lie far from the origin."""
    rng = np.random.default_rng(3)
    y = np.where(rng.random(20_000) < 0.03, 1.0, -1.0)
    X = 0.25 + 0.1 * rng.standard_normal((20_000, 12))
    X[:, 0] += 0.1 * y
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    bounds = dp.Bounds(1.0, label="sign", intercept=0.3)
    of = dp.Problem(loss=dp.losses.Logistic(), bounds=bounds)
    made = plan(of, n=len(X), d=12, budget=dp.ApproxDP(4.0, 1e-6), rounds=60, momentum=0.95)

    def losses():
        source, stepper = dp.data.from_arrays(X, y).bounded(bounds), noisy_gd.DescentStepper(made)
        for _ in range(made.rounds):
            margins = y * (X @ stepper.weights[:-1] + 0.3 * stepper.weights[-1])
            yield float(np.mean(np.logaddexp(0.0, -margins)))
            stepper.step(source.sum(stepper.query(), 0, len(X)))
            stepper.round += 1

    damped = list(losses())
    monkeypatch.setattr(noisy_gd.steps, "DAMPING", 0.0)
    monkeypatch.setattr(noisy_gd.schedule, "RISE", 0.0)
    heavy = list(losses())

    def swing(path):
        return np.sum(np.maximum(np.diff(path), 0.0))

    assert swing(damped) < 0.4 * swing(heavy)
    assert np.mean(damped[15:]) < 0.7 * np.mean(heavy[15:])
    assert damped[-1] < 0.8 * heavy[-1]


def test_more_rounds_on_small_tables():
    assert plan(n=100).rounds == 200
    assert plan(n=10**6, d=100).rounds == 100  # smooth: as many as 1e10 products allow
    assert plan(problem(dp.losses.Hinge()), n=10**7).rounds == 75  # 3e9 products
    assert plan(n=10**9).rounds == 60


def test_a_narrow_domain_averages_half_of_the_rounds_also_where_time_is_short():
    ball = problem(domain=dp.domains.L1Ball(90.0))
    budget = dp.ApproxDP(50.0, 1e-6)
    short, free = (plan(of, n=20_000, d=1000, budget=budget) for of in (ball, problem()))
    assert short.tail == short.rounds // 2
    assert free.tail == free.rounds // 4
    for made in (short, free):  # both are short of their time: steps have full length
        assert made.step == pytest.approx((1 + made.momentum) / made.task.smoothness)


def test_smooth_losses_get_the_rounds_that_cover_their_time():
    """T = sqrt(10 h L/1.9): the most momentum that T rounds allow, 1 - 10/T, then just suffices."""
    classes = dp.data.Classes(*range(10))
    softmax = problem(dp.losses.Softmax(10), label=classes)
    budget = dp.ApproxDP(0.5, 1e-9, adjacency="zero_out")
    made = plan(softmax, n=24_000, d=100, budget=budget)
    single = made.sigma / math.sqrt(made.rounds)
    time = made.task.initial_distance * made.n / (single * math.sqrt(made.task.n_weights))
    assert made.rounds == round(math.sqrt(10 * time * made.task.smoothness / 1.9)) > 100
    assert made.step * made.rounds / (1 - made.momentum) == pytest.approx(time, rel=1e-2)
    assert made.momentum == pytest.approx(1 - 10 / made.rounds, abs=5e-3)
    assert made.tail == made.rounds // 2
    most = plan(softmax, n=24_000, d=200, budget=dp.ApproxDP(8.0, 1e-9))
    assert most.rounds == round(1e10 / (24_000 * 2000))
    assert most.tail == most.rounds // 4  # short of its time: the last iterates are the best
    assert plan(softmax, n=10_000, d=10, budget=dp.ApproxDP(8.0, 1e-9)).rounds <= 300


@pytest.mark.parametrize(("adjacency", "factor"), [("zero_out", 1.0), ("replace_one", 2.0)])
def test_nonsmooth_losses_get_the_rounds_that_noise_justifies(adjacency, factor):
    """T = n mu/sqrt(d): envelope, descent and noise then cost the same."""
    budget = dp.ApproxDP(1.0, 1e-6, adjacency=adjacency)
    hinge = problem(dp.losses.Hinge())
    mu = 0.2367043807 / factor
    assert plan(hinge, n=8000, budget=budget).rounds == round(8000 * mu / 2)
    # 1e9 products allow 250 rounds of 40,000 x 100, fewer than the 947 or 473 of the rule
    assert plan(hinge, n=40_000, d=100, budget=budget).rounds == 250
    # and 3e9 allow 750, more than a quarter of it
    rich = dp.ApproxDP(3.0, 1e-6, adjacency=adjacency)
    dear = plan(hinge, n=40_000, d=100, budget=rich)
    single = dear.sigma / math.sqrt(dear.rounds)
    assert 250 < dear.rounds == round(40_000 / (4 * 10 * single)) < 750
    assert plan(hinge, n=80_000, d=100, budget=dp.ApproxDP(20.0, 1e-6)).rounds == 375
    assert plan(hinge, n=4000, budget=dp.ApproxDP(100.0, 1e-6)).rounds == 2000
    absolute = problem(dp.losses.Absolute(), label=1.0)
    assert plan(absolute, n=4000, budget=dp.ApproxDP(100.0, 1e-6)).rounds == 1000


def test_little_noise_sharpens_the_envelope():
    """A quarter of L0^2/(2 b) is the noise's R^2/h, unless T rounds cannot follow."""
    made = plan(problem(dp.losses.Absolute(), label=1.0), n=8000)
    R, noise = made.task.initial_distance, made.sigma / math.sqrt(made.rounds) / made.n
    end = made.smoothing_at(made.rounds - 1)
    assert end == pytest.approx(0.25 / (2 * R * noise * math.sqrt(4)))
    assert made.smoothing == pytest.approx(5.0)  # a fifth of the labels' scale at first
    short = plan(problem(dp.losses.Absolute(), label=1.0), n=8000, rounds=100)
    assert short.smoothing_at(99) == pytest.approx(100 / (2 * R))
    noisy = plan(problem(dp.losses.Absolute(), label=1.0), n=500)
    assert (noisy.rounds, noisy.smoothing_growth) == (200, 8.0)
    assert plan(problem(dp.losses.Hinge()), n=200, rounds=50).smoothing_growth == 2.0
    assert final_smoothing(dp.Task(problem(), 90, 3, BUDGET), 100, 0.1) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss",
    [
        dp.losses.Absolute(),
        dp.losses.Pinball(0.9),
        dp.losses.EpsilonInsensitive(0.02),
        dp.losses.Hinge(),
    ],
    ids=lambda value: value.name,
)
def test_nonsmooth_losses_improve_with_the_budget(loss):
    """Columns that vary little, where 200 rounds stop short of the optimum at any budget."""
    rng = np.random.default_rng(3)
    X = np.column_stack([np.full(4000, 0.9), rng.uniform(-0.05, 0.05, (4000, 3))])
    y = np.clip(X @ [0.0, 2.0, -8.0, 16.0] + 0.02 * rng.standard_normal(4000), -1.0, 1.0)
    sign = isinstance(loss, dp.losses.Hinge)
    made = problem(loss, label="sign" if sign else 1.0)
    y = np.where(y > 0, 1.0, -1.0) if sign else y

    def risk(epsilon, **options):
        budget = dp.ApproxDP(epsilon, 1e-6, adjacency="zero_out")
        draws = dp.Randomness.seeded(1)
        found = dp.solve(made, (X, y), budget, solver="noisy_gd", options=options, randomness=draws)
        return float(np.mean(loss.value(X @ found.weights, y)))

    few, some, most = risk(100.0, rounds=200), risk(5.0), risk(100.0)
    assert most < some < 0.9 * few
    assert most < 0.4 * few


def test_the_listing_counts_the_gradients_of_the_plan():
    softmax = problem(dp.losses.Softmax(3), label=dp.data.Classes(0, 1, 2))
    for made in (problem(), softmax, problem(dp.losses.Hinge())):
        for n in (1000, 100_000):
            task = dp.Task(made, n, 4, BUDGET)
            assert noisy_gd.SOLVERS[0].gradients(task) == n * plan(made, n=n).rounds


def test_many_classes_reach_the_optimum_of_a_large_budget():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.argmax(4 * X + rng.gumbel(size=X.shape), axis=1)
    loss = dp.losses.Softmax(4)
    made = problem(loss, label=dp.data.Classes(0, 1, 2, 3))
    result = dp.solve(made, (X, y), dp.ApproxDP(1000.0, 1e-3), solver="noisy_gd")

    def risk(w):
        return float(np.mean(loss.value(w, X, y)))

    from scipy.optimize import minimize

    def slope(w):
        return loss.gradients(w, X, y).mean(axis=0)

    best = minimize(risk, np.zeros(16), jac=slope, method="L-BFGS-B").fun
    assert risk(result.weights) - best < 0.01 * (math.log(4) - best)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 100.0), st.floats(0.01, 100.0))
def test_units_do_not_matter(feature, label):
    """Features and labels in other units: the same fit in those units."""
    base = plan(problem(dp.losses.Absolute(), label=1.0))
    other = plan(problem(dp.losses.Absolute(), label=label, feature=feature))
    unit = label / feature  # of a weight
    assert other.task.initial_distance == pytest.approx(base.task.initial_distance * unit)
    assert other.clip == pytest.approx(base.clip * feature)
    assert other.step * other.clip == pytest.approx(base.step * base.clip * unit)
    assert other.smoothing * label == pytest.approx(base.smoothing)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("loss", "label"),
    [
        (dp.losses.Logistic(), "sign"),
        (dp.losses.Hinge(), "sign"),
        (dp.losses.Absolute(), 1.0),
        (dp.losses.Pinball(0.8), 1.0),
        (dp.losses.Squared(), 1.0),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_large_budget_reaches_the_optimum(loss, label):
    X, y = rows()
    y = y if label == "sign" else X @ np.array([0.4, -0.3, 0.2, 0.1]) + 0.1 * y
    made = problem(loss, label=label)
    result = dp.solve(made, (X, y), dp.ApproxDP(1000.0, 1e-3), solver="noisy_gd")

    def risk(w):
        return float(np.mean(loss.value(X @ w, y)))

    from scipy.optimize import minimize

    best = min(
        minimize(risk, start, method="Powell", options={"xtol": 1e-8, "ftol": 1e-10}).fun
        for start in (np.zeros(4), result.weights)
    )
    assert risk(result.weights) - best < 0.01 * (risk(np.zeros(4)) - best)


def test_it_learns_at_epsilon_one_and_noise_is_what_differs():
    X, y = rows(n=20_000)
    made = problem()
    first, second = (
        dp.solve(made, (X, y), BUDGET, solver="noisy_gd", randomness=dp.Randomness.seeded(seed))
        for seed in (1, 2)
    )
    again = dp.solve(made, (X, y), BUDGET, solver="noisy_gd", randomness=dp.Randomness.seeded(1))
    assert np.array_equal(first.weights, again.weights)
    assert not np.array_equal(first.weights, second.weights)
    truth = np.mean(np.sign(X @ np.arange(1.0, 5.0)) == y)
    for result in (first, second):
        assert np.mean(np.sign(X @ result.weights) == y) > truth - 0.02


def test_penalty_and_domain_are_obeyed():
    X, y = rows()
    ball = problem(domain=dp.domains.L1Ball(0.7), penalty=dp.losses.L1Penalty(0.01))
    result = dp.solve(ball, (X, y), BUDGET, solver="noisy_gd")
    assert np.abs(result.weights).sum() <= 0.7 + 1e-9
    # a penalty stronger than every gradient keeps the weights at zero, noise apart
    strong = problem(penalty=dp.losses.L1Penalty(10.0))
    still = dp.solve(strong, (X, y), dp.ApproxDP(100.0, 1e-3), solver="noisy_gd")
    assert np.array_equal(still.weights, np.zeros(4))


@pytest.mark.parametrize("penalty", [dp.losses.L2Penalty(0.3), dp.losses.L1Penalty(0.05)], ids=repr)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_momentum_leaves_the_penalty_its_weight(penalty, momentum):
    X, y = rows()
    made = problem(penalty=penalty)
    result = dp.solve(
        made,
        (X, y),
        dp.ApproxDP(1000.0, 1e-3),
        solver="noisy_gd",
        options={"momentum": momentum, "clip": 1.0},
    )

    def objective(w):
        return float(np.mean(made.loss.value(X @ w, y))) + penalty.value(w)

    from scipy.optimize import minimize

    best = minimize(objective, result.weights, method="Powell").x
    assert np.allclose(result.weights, best, atol=0.02)


def test_a_loss_that_is_not_convex_is_fine():
    X, y = rows()
    result = dp.solve(problem(dp.losses.Sigmoid()), (X, y), BUDGET, solver="noisy_gd")
    assert np.mean(np.sign(X @ result.weights) == y) > 0.7


def test_softmax_is_fine():
    X, y = rows()
    made = problem(dp.losses.Softmax(3), label=dp.data.Classes(0, 1, 2))
    result = dp.solve(made, (X, (y > 0) + (X[:, 0] > 0)), BUDGET, solver="noisy_gd")
    assert result.weights.shape == (12,)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"momentum": 1.0}, "momentum must be below 1"),
        ({"momentum": -0.1}, "momentum must be zero or positive"),
        ({"step": 0.0}, "step must be positive"),
        ({"smoothing": "x"}, "smoothing must be a number"),
        ({"clip": -1.0}, "clip must be positive"),
        ({"tail": 0}, "tail must be at least 1"),
        ({"learning_rate": 0.1}, "noisy_gd has no option 'learning_rate'"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(ParameterError, match=words):
        plan(**options)


def test_a_tampered_plan_costs_what_it_releases():
    made = plan()
    cheaper = dataclasses.replace(made, sigma=made.sigma / 2)
    with pytest.raises(dp.errors.BudgetError):
        dp.run(cheaper, rows())


def test_nonsmooth_losses_are_smoothed_and_nothing_else_is():
    hinge = dp.Task(problem(dp.losses.Hinge()), 100, 3, BUDGET)
    assert nonsmooth(hinge)
    assert moreau_smoothing(hinge) == pytest.approx(5.0)
    assert isinstance(smoothed(hinge, 5.0), dp.losses.Smoothed)
    for loss in (dp.losses.Logistic(), dp.losses.SquaredHinge()):
        task = dp.Task(problem(loss), 100, 3, BUDGET)
        assert not nonsmooth(task)
        assert moreau_smoothing(task) == 0.0
        assert smoothed(task, moreau_smoothing(task)) is loss
    assert noisy_gd.schedule.plan(dp.Task(problem(), 100, 3, BUDGET)).smoothing == 0.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("momentum", 1.0),
        ("momentum", 3.0),
        ("smoothing_growth", 0.0),
        ("step", 0.0),
        ("step", 1.7e308),
        ("room", 0.0),
        ("tail", 0),
    ],
)
def test_files_cannot_hold_numbers_without_a_schedule(field, value):
    """They are refused when the file is read, not in the middle of a run."""
    made = dp.plan(problem(dp.losses.Hinge()), n=100, d=2, budget=BUDGET, solver="noisy_gd")
    record = json.loads(made.to_json()) | {field: value}
    with pytest.raises(ParameterError, match=field):
        dp.load_plan(json.dumps(record))


def time(made):
    """The integrated time that a plan's steps cover, per unit of the mean gradient."""
    return made.rounds * made.step / (1 - made.momentum)


def ideal(domain, d, n=20_000, epsilon=1.0):
    made = problem(feature=math.sqrt(20.0), domain=domain)
    task = dp.Task(made, n, d, dp.ApproxDP(epsilon, 1e-6))
    single = gaussian_sigma(task.budget, bound=noisy_gd.schedule.descent_clip(task), rows=(0, n))
    return noisy_gd.rates.integrated_time(task, single), task, single


@pytest.mark.parametrize("d", [2, 300, 20_000])
def test_time_of_round_domains_is_that_of_the_square_root_of_d(d):
    for domain in (dp.domains.L2Ball(30.0), dp.domains.WholeSpace(), dp.domains.Box(-1.0, 1.0)):
        reached, task, single = ideal(domain, d)
        distance = noisy_gd.rates.caution(task) * task.initial_distance
        assert reached == distance * task.n / (single * math.sqrt(d))
        assert noisy_gd.rates.narrowness(task) == 1.0


def test_time_of_narrow_domains_goes_with_the_width_where_weights_outnumber_z():
    for d, radius in ((300, 30.0), (1000, 30.0), (20_000, 30.0), (200_000, 90.0), (20_000, 0.5)):
        ball, task, single = ideal(dp.domains.L1Ball(radius), d)
        usual = radius * task.n / (single * math.sqrt(d))
        width = dp.geometry.width.l1_ball_width(d).value
        assert noisy_gd.rates.narrowness(task) == pytest.approx(width / math.sqrt(d), rel=1e-3)
        steps = 6.0 * task.signal / width
        narrow = min(steps * 1.9 / task.smoothness, usual * math.sqrt(d) / width)
        assert ball == pytest.approx(narrow if d > task.signal else max(usual, narrow), rel=1e-3)


def test_a_radius_that_is_too_large_takes_no_longer():
    right, large, small = (ideal(dp.domains.L1Ball(R), 20_000)[0] for R in (30.0, 90.0, 0.5))
    assert right == large > 10 * small  # little to go takes little time


@pytest.mark.parametrize(
    ("d", "epsilon", "starts"), [(20_000, 1.0, 3.0), (1000, 1.0, None), (300, 4.0, 16.0)]
)
def test_noise_is_averaged_before_it_is_projected(d, epsilon, starts):
    task = ideal(dp.domains.L1Ball(30.0), d, epsilon=epsilon)[1]
    made = noisy_gd.schedule.plan(task)
    expected = 1.6 * task.signal / d if starts is None else starts
    assert made.rounds * (1 - made.momentum) == pytest.approx(expected, rel=0.02)
    assert noisy_gd.rates.warm_up(dp.Task(problem(), 20_000, d, task.budget)) == 10.0


def test_simplices_and_polytopes_are_narrow_too():
    vertices = np.vstack([np.eye(200), -np.eye(200)])
    ball, simplex, polytope = (
        noisy_gd.rates.narrowness(ideal(domain, 200)[1])
        for domain in (dp.domains.L1Ball(1.0), dp.domains.Simplex(), dp.domains.Polytope(vertices))
    )
    assert simplex < ball < 0.3
    assert polytope == pytest.approx(ball, rel=0.05)
    point = dp.Task(problem(domain=dp.domains.Simplex()), 100, 1, BUDGET)
    assert point.radius == 0.0
    assert noisy_gd.rates.narrowness(point) == 1.0


def test_narrow_domains_go_farther_in_fewer_rounds():
    narrow, round_ = (
        plan(problem(feature=math.sqrt(20.0), domain=domain), n=20_000, d=20_000)
        for domain in (dp.domains.L1Ball(30.0), dp.domains.L2Ball(30.0))
    )
    assert narrow.rounds < round_.rounds
    assert time(narrow) > 3 * time(round_)
    assert narrow.cost.epsilon(1e-6) <= 1.0


# -- batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("adjacency", "factor"), [("zero_out", 1.0), ("replace_one", 2.0)])
def test_a_row_bears_one_sum_for_each_pass_over_the_batches(adjacency, factor):
    budget = dp.ApproxDP(1.0, 1e-6, adjacency=adjacency)
    made = plan(budget=budget, n=4003, rounds=60, batches=4, clip=0.5)
    assert made.sigma == pytest.approx(factor * 0.5 * math.sqrt(15) / 0.2367043807, rel=2e-6)
    assert made.cost.epsilon(1e-6) == pytest.approx(1.0, rel=1e-8)
    assert made.cost.epsilon(1e-6) <= 1.0
    parts = [line.rows for line in made.trace()]
    assert parts[:5] == [(0, 1001), (1001, 2002), (2002, 3003), (3003, 4003), (0, 1001)]
    assert (len(parts), made.total_rounds) == (60, 60)
    assert [made.rows_at(t) for t in range(5)] == [1001, 1001, 1001, 1000, 1001]
    whole = plan(budget=budget, n=4003, rounds=60, clip=0.5)
    assert whole.sigma == pytest.approx(2 * made.sigma)  # sqrt(4) more, and 4 times the rows


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_batches_keep_the_contract(adjacency):
    budget = dp.ApproxDP(2.0, 1e-6, adjacency=adjacency)
    made = plan(
        problem(dp.losses.Absolute(), label=1.0), n=400, budget=budget, rounds=12, batches=4
    )
    X, y = rows(400)
    for row in (0, 99, 100, 399):  # at both ends of a batch
        empty, others = X.copy(), {}
        empty[row] = np.nan
        for name, values in (("long", [1e30, 0, 0, 0]), ("usual", [0.1, 0.2, 0.3, 0.4])):
            others[name] = (X.copy(), y.copy())
            others[name][0][row], others[name][1][row] = values, 1e300
        assert contract.check_replay(made, (empty, y), others, row=row) == []
    X[0] = np.nan
    assert contract.check_ledger(made, (X, y)) == []
    assert contract.check_cost(made) == []
    assert contract.check_noise(made, (X, y), seeds=range(20)) == []


def test_batches_reach_the_same_optimum():
    """Also of rows that come sorted: momentum averages a whole pass."""
    X, _ = rows(20_000)
    y = np.clip(X @ np.array([0.5, -0.4, 0.2, 0.1]) + 0.1 * rows(20_000, 1, 1)[0][:, 0], -1, 1)
    order = np.argsort(y)
    made = problem(dp.losses.Absolute(), label=1.0)
    loss = {}
    for batches in (1, 8):
        options = {"batches": batches, "rounds": 480}
        schedule = plan(made, n=20_000, budget=dp.ApproxDP(1e3, 1e-6), **options)
        seed = dp.Randomness.seeded(3)
        result = dp.run(schedule, (X[order], y[order]), order="given", randomness=seed)
        loss[batches] = np.mean(np.abs(X @ result.weights - y))
    assert loss[8] < 1.01 * loss[1] < 0.25 * np.mean(np.abs(y))


def test_regressions_take_batches_where_noise_hardly_matters():
    def batches(loss=None, n=100_000, d=20, label=1.0, budget=BUDGET):
        made = problem(loss or dp.losses.Absolute(), label=label)
        return noisy_gd.schedule.sparing_batches(dp.Task(made, n, d, budget))

    z = 100_000 * 0.2367043807 / 2
    assert batches() == min(8, int((z / 20 / 140) ** 2)) == 8
    assert batches(dp.losses.Pinball(0.9)) == 8
    assert batches(d=30) == int((z / 30 / 140) ** 2) == 7
    assert batches(d=50) == 1  # two batches: not worth their noise
    assert batches(budget=dp.PureDP(1.0)) == 1
    assert batches(dp.losses.Huber(0.2)) == 1  # few rounds anyway
    assert batches(dp.losses.Hinge(), label="sign") == 1  # was not measured
    assert plan(problem(dp.losses.Absolute(), label=1.0), n=100_000).batches == 1  # who asks


def test_models_take_batches_unless_options_are_given():
    config = configure("absolute", feature_norm=1.0, label_range=(-1.0, 1.0))

    def batches(**settings):
        settings = {"n": 100_000, "d": 20, "budget": BUDGET, **settings}
        fit = plan_model(config, **settings).fit
        assert fit.solver == "noisy_gd"
        return fit.batches

    assert batches() == batches(solver="noisy_gd") == 8  # with the intercept 21 weights
    assert batches(n=20_000) == 1
    assert batches(options={"tail": 60}) == 1
    assert batches(sums=True) == 1  # workers hold a part of the rows each


def test_rounds_are_whole_passes_over_the_batches():
    made = plan(problem(dp.losses.Absolute(), label=1.0), n=100_000, batches=7)
    alone = plan(problem(dp.losses.Absolute(), label=1.0), n=100_000)
    assert made.rounds % 7 == 0
    assert 0 <= made.rounds - alone.rounds < 7
    with pytest.raises(ParameterError, match="multiple of batches"):
        plan(rounds=10, batches=4)
    with pytest.raises(ParameterError, match="multiple of batches"):
        plan(rounds=3, batches=4)
    with pytest.raises(ParameterError, match="batches"):
        plan(n=100, batches=101)
