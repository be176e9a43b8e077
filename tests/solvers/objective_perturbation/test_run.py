"""Objective perturbation: published numbers, exact privacy in one dimension, utility, refusals."""

import dataclasses
import json
import math
from functools import cache

import numpy as np
import pytest
import scipy.optimize
from benchmarks.rates import instances
from scipy import stats

import dpsco as dp
from dpsco import domains, losses
from dpsco.audit import contract
from dpsco.data import Classes, from_arrays
from dpsco.errors import AssumptionError, ParameterError
from dpsco.privacy import GDP, ZCDP, ApproxDP, PureDP, Randomness, Unit
from dpsco.solvers.common.glm_objective import GlmObjective
from dpsco.solvers.objective_perturbation import published, rates, schedule
from dpsco.solvers.objective_perturbation import run as module

PLAIN, STRONG = schedule.PLAIN, schedule.STRONG
SIGN = dp.Bounds(1.0, label="sign")
LOGISTIC = dp.Problem(loss=losses.Logistic(), bounds=SIGN)
BUDGET = ApproxDP(1.0, 1e-6)


@cache
def make(problem=LOGISTIC, n=1000, d=20, budget=BUDGET, solver=PLAIN, calibration="tight", **own):
    return dp.plan(
        problem, n=n, d=d, budget=budget, solver=solver, calibration=calibration, options=own
    )


def seeded(seed=0):
    return Randomness.seeded(seed)


# -- ridge and noise -------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "ridge"), [(8000, 2.971354e-4), (32000, 7.428384e-5)])
def test_least_ridge(n, ridge):
    plan = make(n=n, ridge="c_frac", clip=1.0)
    assert plan.ridge == pytest.approx(ridge, rel=1e-6)
    assert 9.631566 <= plan.sigma <= 9.631566 * 1.008  # the output noise, and proof for the split


@pytest.mark.parametrize(
    ("n", "ridge", "feature", "budget", "sigma"),
    [
        (1000, 0.01, 1.0, ApproxDP(1.0, 1e-6), 8.936122),
        (1000, 0.01, 1.0, ApproxDP(1.0, 1e-6, adjacency="zero_out"), 4.468061),
        (10_000, 1e-3, 1.0, ApproxDP(0.5, 1e-6), 17.509258),
        (1000, 1.0, 2.0, ApproxDP(1.0, 1e-5), 2 * 7.775405),  # beta = 1, L = 2
    ],
)
def test_known_noise(n, ridge, feature, budget, sigma):
    bounds = dp.Bounds(feature, label="sign")
    problem = dp.Problem(loss=losses.Logistic(), bounds=bounds)
    plan = make(problem, n, budget=budget, ridge=ridge, clip=feature)
    assert sigma <= plan.sigma <= sigma * 1.008
    assert plan.cost.epsilon(budget.delta) <= budget.epsilon


PUBLISHED = {0.1: 434.2, 0.5: 86.8, 1.0: 43.4, 2.0: 21.7, 4.0: 10.86, 8.0: 5.43}


@pytest.mark.parametrize(
    ("epsilon", "split", "floor"), [(0.1, 85.0, 72.6), (1.0, 9.78, 8.45), (8.0, 1.48, 1.31)]
)
def test_table_of_noise(epsilon, split, floor):
    tight = make(budget=ApproxDP(epsilon, 1e-6), ridge="c_frac", clip=1.0)
    assert floor < tight.sigma < split  # nothing is split off for the output
    assert tight.sigma == pytest.approx(split, rel=0.02)


def test_published_noise():
    task = dp.Task(LOGISTIC, 1000, 20, BUDGET)
    shape = rates.shape(task, 1.0)
    none = {"ridge": None, "distance": None, "strong": False}
    for epsilon, sigma in PUBLISHED.items():
        noise = published.published(
            dataclasses.replace(task, budget=ApproxDP(epsilon, 1e-6)), shape, **none
        )
        assert noise.sigma == pytest.approx(sigma, rel=2e-3)
    plan = make(calibration="paper")  # the accountant confirms it, with room to spare
    assert plan.cost.epsilon(1e-6) < 0.65


def test_published_ridge():
    ball = dataclasses.replace(LOGISTIC, domain=domains.L2Ball(10.0))
    plan = make(ball, n=1000, calibration="paper")
    bound = plan.clip
    assert plan.ridge == pytest.approx(2 * bound / (math.sqrt(1000) * 10.0))
    small = make(ball, n=10, calibration="paper", budget=ApproxDP(0.1, 1e-6))
    assert small.ridge == pytest.approx(2 * 2 * 0.25 / (0.1 * 10))  # 2 lambda, r = 2
    assert small.output_sigma == pytest.approx(
        small.distance * math.sqrt(32 * math.log(2.5e6)) / 0.1
    )
    ridge = dataclasses.replace(ball, penalty=losses.L2Penalty(0.9))
    assert make(ridge, n=10, solver=STRONG, calibration="paper", budget=small.budget).ridge == (
        pytest.approx(10.0 / 10 - 0.9)
    )


def test_default_ridge_balances_bias_and_noise():
    plan = make(n=50_000, d=100)
    balance = rates.BALANCE * plan.sigma * 10.0 / (50_000 * plan.task.initial_distance)
    assert plan.ridge == pytest.approx(balance, rel=0.15)
    narrow = make(dataclasses.replace(LOGISTIC, domain=domains.L1Ball(5.0)), n=50_000, d=100)
    assert rates.width_factor(narrow.task) == pytest.approx(2.7469576878)
    known = dataclasses.replace(LOGISTIC, penalty=losses.L2Penalty(0.5))
    strong = make(known, n=50_000, d=100, solver=STRONG)
    assert strong.ridge == pytest.approx(plan.ridge**2 / 0.5, rel=0.3)
    assert strong.releases()[0].floor == pytest.approx(50_000 * (strong.ridge + 0.5))
    assert strong.sigma < plan.sigma


def test_penalty_counts_towards_the_floor():
    known = dataclasses.replace(LOGISTIC, penalty=losses.L2Penalty(0.01))
    plan = make(known, solver=STRONG, ridge=0.0)
    assert plan.ridge == 0.0
    same = make(ridge=0.01)
    assert plan.sigma == pytest.approx(same.sigma, rel=1e-3)


def test_everything_scales_with_the_rows():
    """Features times 100 and labels times 7: weights in proportion, nothing else changes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)) / 3
    y = np.clip(X @ [1.0, -1.0, 0.5, 0.0], -1, 1)
    found = []
    for feature, label in ((1.0, 1.0), (100.0, 7.0)):
        problem = dp.Problem(loss=losses.Squared(), bounds=dp.Bounds(feature, label=label))
        plan = make(problem, n=500, d=4, budget=ApproxDP(4.0, 1e-6))
        result = dp.run(plan, (X * feature, y * label), order="given", randomness=seeded())
        found.append(result.weights * feature / label)
        assert plan.clip == pytest.approx(feature * label)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


def test_subspace_counts_its_dimensions():
    bounds = dp.Bounds(1.0, label=Classes(0, 1, 2))
    problem = dp.Problem(loss=losses.Softmax(3), bounds=bounds)
    plan = make(problem, n=2000, d=4)
    assert (plan.shape.kind, plan.shape.rank, plan.shape.span) == ("subspace", 2, 2)
    assert plan.clip == pytest.approx(math.sqrt(2.0))
    assert plan.curvature == pytest.approx(0.5)
    assert plan.shape.scores == 3  # rounding still counts all of the classes
    release = plan.releases()[0]
    assert (release.directions, release.span, release.rank) == ("subspace", 2, 2)
    inside = make(dataclasses.replace(problem, domain=domains.L2Ball(1e-3)), n=2000, d=4)
    assert inside.clip == plan.clip  # constants of the ball do not hold for an extension


# -- privacy in one dimension, exactly -------------------------------------------------------------


def ramps(labels, clip, ridge):
    """The gradient of J for one row x = 1 and a clipped squared loss, in plain NumPy."""
    return [
        lambda w, y=y: np.clip(w - y, -clip, clip) + ridge * w  # n = 1
        for y in labels
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("labels", "sharp"), [((-90.0, 90.0), 0.15), ((-1.0, 2.0), 0.0)])
def test_privacy_loss_of_real_rows(labels, sharp):
    bounds = dp.Bounds(1.0, label=100.0)
    problem = dp.Problem(loss=losses.Squared(), bounds=bounds)
    budget = ApproxDP(1.0, 1e-3)
    plan = make(problem, n=1, d=1, budget=budget, clip=1.0, ridge="c_frac")
    references = ramps(labels, 1.0, plan.ridge)
    for label, reference in zip(
        labels, references, strict=True
    ):  # the reference is what a run minimises
        source = from_arrays([[1.0]], [label]).bounded(bounds, order="given")
        objective = module._objective(plan, source, np.zeros(1))
        for w in (-3.0, 0.4, 50.0):
            assert objective.gradient(np.array([w]))[0] == pytest.approx(reference(w), abs=1e-9)
    vector = [np.vectorize(reference) for reference in references]
    found = hockey_stick(vector, plan.sigma, 1.0)
    assert sharp * 1e-3 <= found <= 1e-3
    if sharp:  # half the noise would be noticed
        assert hockey_stick(vector, plan.sigma / 2, 1.0) > 1e-2


def hockey_stick(references, sigma, epsilon):
    """delta between the laws of two minimisers: densities N(b(w)) |b'(w)| on a grid, n = 1."""
    w = np.linspace(-12.0, 12.0, 100_001) * sigma / 0.5
    logs = []
    for reference in references:
        b = -reference(w)
        logs.append(-0.5 * (b / sigma) ** 2 + np.log(np.abs(np.gradient(b, w))) - math.log(sigma))
    p, q = (np.exp(log) / math.sqrt(2 * math.pi) for log in logs)
    assert np.sum(p) * (w[1] - w[0]) == pytest.approx(1.0, abs=1e-6)
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)) * (w[1] - w[0]))


def test_neighbours_move_gradients_and_volumes_as_planned():
    """Replace a row by the worst ones: n (grad J - grad J') <= 2 clip, log det ratio <= c."""
    rng = np.random.default_rng(1)
    plan = make(n=30, d=3, clip=0.4)
    X, y = rng.normal(size=(30, 3)), np.sign(rng.normal(size=30))
    rows = [np.array([1e9, 0, 0]), np.full(3, np.nan), np.array([0, 1.0, 0]), -X[0] * 50]
    c = math.log1p(plan.curvature / plan.releases()[0].floor)
    largest = 0.0
    for row in rows:
        other = X.copy()
        other[0] = row
        for label in (-1.0, 1.0):
            flipped = y.copy()
            flipped[0] = label
            pair = [
                module._objective(plan, from_arrays(a, b).bounded(SIGN, order="given"), np.zeros(3))
                for a, b in ((X, y), (other, flipped))
            ]
            for w in rng.normal(size=(5, 3)) * 20:
                gap = 30 * np.linalg.norm(pair[0].gradient(w) - pair[1].gradient(w))
                largest = max(largest, gap)
                assert gap <= 2 * plan.clip * (1 + 1e-9)
                dets = [np.linalg.slogdet(30 * one.hessian(w, 1e-7))[1] for one in pair]
                assert abs(dets[0] - dets[1]) <= c
    assert largest > 1.5 * plan.clip  # the bound is no waste


def linear_loss():
    return losses.CustomLoss(
        lambda u, y: -y * u,
        lambda u, y: -y + 0.0 * u,
        slope_bound=1.0,
        curvature_bound=1e-9,
        convex=True,
        labels="sign",
        name="linear",
    )


def test_law_of_the_tilt():
    """For a linear loss n ridge w = sum y x - b. False alarms 1e-6; power against 10 %: > 0.999."""
    problem = dp.Problem(loss=linear_loss(), bounds=SIGN)
    plan = make(problem, n=50, d=4000, ridge=0.1)
    X = np.zeros((50, 4000))
    X[:, 0] = 1.0
    weights = dp.run(plan, (X, np.ones(50)), randomness=seeded(3)).weights
    tilt = np.eye(4000)[0] * 50 - 50 * 0.1 * weights
    square = float(np.sum((tilt / plan.sigma) ** 2))
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], 4000)
    assert low <= square <= high
    assert stats.chi2.cdf(high / 1.21, 4000) < 1e-3
    assert stats.chi2.sf(low / 0.81, 4000) < 1e-3


# -- runs ------------------------------------------------------------------------------------------

HUGE = ApproxDP(50.0, 1e-3)


def reference(loss, X, y, ridge, domain=None):
    def value(w):
        return np.mean(loss.value(X @ w, y)) + 0.5 * ridge * w @ w

    return scipy.optimize.minimize(value, np.zeros(X.shape[1]), method="BFGS", tol=1e-9).x


@pytest.mark.thorough
@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Squared()], ids=["log", "square"])
def test_huge_budget_finds_the_optimum(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3)) / 4
    y = X @ [1.0, -2.0, 0.5] / 3 + 0.05 * rng.normal(size=20_000)
    label = 2.0
    if loss.labels == "sign":
        y, label = np.where(rng.random(20_000) < 1 / (1 + np.exp(-9 * y)), 1.0, -1.0), "sign"
    problem = dp.Problem(loss=loss, bounds=dp.Bounds(1.5, label=label), scale=3.0)
    result = dp.solve(problem, (X, y), HUGE, solver=PLAIN, randomness=seeded())
    rows = from_arrays(X, y).bounded(problem.bounds, order="given").rows()
    best = reference(loss, np.asarray(rows.rows), rows.labels, 0.0)
    assert np.linalg.norm(result.weights - best) <= 0.02 * np.linalg.norm(best)
    assert result.certificate.epsilon(1e-3) <= 50.0


def test_constraints_hold_and_bind():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6)) / 4
    y = np.sign(X[:, 0] + 0.1 * rng.normal(size=4000))
    ball = dataclasses.replace(LOGISTIC, domain=domains.L1Ball(2.0))
    result = dp.solve(ball, (X, y), ApproxDP(8.0, 1e-6), solver=PLAIN, randomness=seeded())
    assert np.sum(np.abs(result.weights)) == pytest.approx(2.0, abs=1e-6)
    assert result.weights[0] > 1.8


def test_ridge_pulls_to_the_centre_of_the_domain():
    """Rows of zeros: the ridge about the centre and an equal penalty about 0 meet half-way."""
    centre = np.array([3.0, -1.0])
    problem = dataclasses.replace(
        LOGISTIC, domain=domains.L2Ball(50.0, centre), penalty=losses.L2Penalty(50.0)
    )
    plan = make(problem, n=100, d=2, ridge=50.0)
    weights = dp.run(plan, (np.zeros((100, 2)), np.ones(100)), randomness=seeded()).weights
    assert np.linalg.norm(weights - centre / 2) <= 7 * plan.sigma / (100 * 100.0) < 0.1


def test_softmax_learns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2)) / 2
    y = np.argmax(X @ np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]), axis=1)
    problem = dp.Problem(loss=losses.Softmax(3), bounds=dp.Bounds(1.5, label=Classes(0, 1, 2)))
    result = dp.solve(problem, (X, y), ApproxDP(4.0, 1e-6), solver=PLAIN, randomness=seeded())
    right = np.argmax(X @ result.weights.reshape(2, 3), axis=1) == y
    assert np.mean(right) > 0.85


def test_constant_hessian_is_the_gaussian_mechanism():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) / 4
    problem = dp.Problem(loss=losses.SquaredDistance(), bounds=dp.Bounds(2.0))
    for budget in (BUDGET, GDP(0.5), ZCDP(0.1)):
        plan = make(problem, n=300, d=3, budget=budget, solver=STRONG)
        assert plan.sigma == pytest.approx(4.0 / budget.mu_per_row(), rel=1e-6)
    exact = make(problem, n=300, d=3, budget=GDP(1e9))
    weights = dp.run(exact, (X,), randomness=seeded()).weights
    np.testing.assert_allclose(weights, X.mean(axis=0), atol=1e-7)
    ridge = dataclasses.replace(problem, penalty=losses.L2Penalty(0.5))
    shrunk = make(ridge, n=300, d=3, budget=GDP(1e9))
    weights = dp.run(shrunk, (X,), randomness=seeded()).weights
    np.testing.assert_allclose(weights, X.mean(axis=0) / 1.5, atol=1e-7)


def test_linear_losses_agree_with_constant_hessians():
    """sum y x enters a linear GLM as the sum of rows enters mean estimation, same floor or not."""
    problem = dp.Problem(loss=linear_loss(), bounds=SIGN)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)) / 4, np.sign(rng.normal(size=40))
    plan = make(problem, n=40, d=3, ridge=1.0)
    source = from_arrays(X, y).bounded(SIGN, order="given")
    tilt = rng.normal(size=3)
    objective = module._objective(plan, source, tilt / 40)
    found = module.minimise(
        objective, domain=domains.WholeSpace(), start=np.zeros(3), distance=1e-8, spread=1.0
    )
    np.testing.assert_allclose(found, (X * y[:, None]).mean(axis=0) - tilt / 40, atol=1e-8)


def test_plan_is_a_public_record():
    strong = dataclasses.replace(LOGISTIC, penalty=losses.L2Penalty(0.01))
    for plan in (make(strong, solver=STRONG, ridge=0.0), make(calibration="paper")):
        assert dp.load_plan(plan.to_json()) == plan
        assert "within" in plan.enforced[-1]
        assert plan.total_rounds == 1
        assert 0 < plan.risk < math.inf
    seen = []
    dp.run(
        make(dp.Problem(loss=losses.SquaredDistance(), bounds=dp.Bounds(1.0)), n=5, d=2),
        (np.ones((5, 2)),),
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(1, 1)]


def test_bounds_on_rows_are_computed_and_never_read_from_a_file():
    """A row's curvature, rank and directions follow from the problem; only the clip is a choice."""
    three = dp.Problem(loss=losses.Softmax(3), bounds=dp.Bounds(1.0, label=Classes(0, 1, 2)))
    absolute = dp.Problem(loss=losses.Absolute(), bounds=dp.Bounds(1.0, label=1.0))
    for problem, change in (
        (LOGISTIC, {"ridge": 1e-5}),
        (dataclasses.replace(LOGISTIC, bounds=dp.Bounds(1.0, label="sign", intercept=1.0)), {}),
        (three, {"clip": 1e-3}),
        (absolute, {"smoothing": 1e6}),
    ):
        record = json.loads(make(problem, n=2000, d=4).to_json())
        assert not {"curvature", "rank", "span", "structure"} & set(record)
        with pytest.raises(AssumptionError, match="would cost"):
            dp.load_plan(json.dumps({**record, "sigma": 0.9 * record["sigma"], **change}))
    with pytest.raises((AssumptionError, ParameterError)):
        dp.load_plan(json.dumps({**record, "smoothing": 0.0}))


def test_huge_budgets_leave_a_minimiser_that_can_be_found():
    """Three rows, thirty weights, a hinge, a share of epsilon for which e^-30 would do as ridge."""
    bounds = dp.Bounds(100.0, label="sign")
    problem = dp.Problem(loss=losses.Hinge(), bounds=bounds, domain=domains.L2Ball(0.1))
    budget = ApproxDP(266.0, 1e-6, adjacency="zero_out")
    plan = make(problem, n=3, d=30, budget=budget, ridge="c_frac", c_frac=0.9)
    assert plan.ridge == pytest.approx(rates.FLATTEST * plan.curvature)
    assert plan.distance < 1e-4 * 0.1
    X = 100 * np.random.default_rng(1).normal(size=(3, 30))
    dp.run(plan, (X, np.ones(3)), randomness=seeded())
    with pytest.raises(AssumptionError, match="ridge of at least"):
        make(problem, n=3, d=30, budget=budget, ridge=1e-12 * plan.curvature)


def test_zero_out_needs_half_the_noise_and_units_more():
    both = make(ridge=0.01)
    zero = make(budget=ApproxDP(1.0, 1e-6, adjacency="zero_out"), ridge=0.01)
    assert zero.sigma == pytest.approx(both.sigma / 2, rel=5e-3)
    group = make(budget=ApproxDP(1.0, 1e-6, unit=Unit(2, "person")), ridge=0.01)
    assert group.sigma > 2 * both.sigma


@pytest.mark.parametrize("budget", [BUDGET, ApproxDP(8.0, 1e-8), ZCDP(0.1)], ids=["1", "8", "zcdp"])
def test_rough_noise_and_cheap_risk(budget):
    plan = make(budget=budget)
    shape = rates.shape(plan.task, None)
    assert rates.rough_sigma(budget, shape) == pytest.approx(plan.sigma, rel=0.2)
    assert schedule.risk(plan.task) == pytest.approx(plan.risk, rel=0.25)
    more = dataclasses.replace(plan.task, n=4 * plan.n)
    assert schedule.risk(more) < 0.6 * plan.risk


# -- refusals --------------------------------------------------------------------------------------


def per_row():
    return losses.PerRowLoss(lambda w, X, y: (X @ w)[:, None] * X, convex=True, name="mine")


@pytest.mark.parametrize(
    ("problem", "budget", "solver", "words"),
    [
        (
            dp.Problem(loss=losses.QPower(1.5), bounds=dp.Bounds(1.0, label=1.0)),
            BUDGET,
            PLAIN,
            "slope",
        ),
        (
            dp.Problem(
                loss=losses.QPower(1.5),
                bounds=dp.Bounds(1.0, label=1.0),
                domain=domains.L2Ball(1.0),  # the slope is bounded here, but not beyond
            ),
            BUDGET,
            PLAIN,
            "slope",
        ),
        (dp.Problem(loss=per_row(), bounds=SIGN), BUDGET, PLAIN, "Softmax"),
        (dataclasses.replace(LOGISTIC, penalty=losses.L1Penalty(1.0)), BUDGET, PLAIN, "ridge"),
        (
            dp.Problem(loss=losses.Welsch(1.0), bounds=dp.Bounds(1.0, label=1.0)),
            BUDGET,
            PLAIN,
            "convex",
        ),
        (LOGISTIC, GDP(1.0), PLAIN, "GDP"),
        (LOGISTIC, PureDP(1.0), PLAIN, "pure budget"),
        (LOGISTIC, ApproxDP(1.0, 1e-6, adjacency="add_remove"), PLAIN, "zero_out"),
        (LOGISTIC, BUDGET, STRONG, "L2Penalty"),
    ],
    ids=[
        "steep",
        "steep_beyond",
        "unknown",
        "penalty",
        "nonconvex",
        "gdp",
        "pure",
        "add_remove",
        "modulus",
    ],
)
def test_needs(problem, budget, solver, words):
    with pytest.raises(AssumptionError, match=words):
        make(problem, budget=budget, solver=solver)


def test_options_out_of_range():
    with pytest.raises(AssumptionError, match="ridge of at least"):
        make(ridge=1e-9)
    with pytest.raises(AssumptionError, match="ridge of at least"):
        make(ridge=0.0)
    with pytest.raises(AssumptionError, match="ridge of at least"):
        make(ridge=1e-3, calibration="paper")
    with pytest.raises(ParameterError, match="'c_frac'"):
        make(ridge="small")
    with pytest.raises(AssumptionError, match="finer than float64"):
        make(distance=1e-16)
    with pytest.raises(ParameterError, match="c_frac"):
        make(c_frac=1.5)
    softmax = dp.Problem(loss=losses.Softmax(3), bounds=dp.Bounds(1.0, label=Classes(0, 1, 2)))
    with pytest.raises(ParameterError, match="break their convexity"):
        make(softmax, clip=0.1)
    assert make(distance=1e-3).distance == 1e-3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"d": 1}, "two or more weights"),
        ({"budget": ZCDP(0.1)}, "ApproxDP"),
        ({"budget": ApproxDP(120.0, 1e-6)}, "8 log"),
        ({"problem": dp.Problem(loss=losses.SquaredDistance(), bounds=dp.Bounds(1.0))}, "margin"),
    ],
    ids=["d1", "zcdp", "epsilon", "mean"],
)
def test_published_constants_only_where_they_suffice(change, words):
    with pytest.raises(AssumptionError, match=words):
        make(**change, calibration="paper")


# -- rates -----------------------------------------------------------------------------------------


def test_small_width_experiment():
    instance = instances.u1(50, "l1")
    found = []
    for n in (2000, 8000):
        X, y = instance.draw(np.random.default_rng([5, n]), n)
        result = dp.solve(instance.problem, (X, y), BUDGET, solver=PLAIN, randomness=seeded(n))
        found.append(instance.excess(result.weights))
    assert found[0] < 0.3
    assert found[1] < 0.05


@pytest.mark.thorough
def test_mean_experiment():
    """U2, d = 1000: 5.5e-4 and 5.9e-5 in the l1 ball, 9.1e-3 without; means of 4 runs."""
    for ball, n, expected in (("l1", 2000, 5.5e-4), ("l1", 8000, 5.9e-5), ("none", 2000, 9.1e-3)):
        instance = instances.u2(1000, ball)
        plan = make(instance.problem, n=n, d=1000)
        X, _ = instance.draw(np.random.default_rng(0), n)
        runs = [dp.run(plan, (X,), randomness=seeded(k)).weights for k in range(4)]
        assert np.mean([instance.excess(w) for w in runs]) == pytest.approx(expected, rel=0.5)


def test_objective_is_the_clipped_one():
    source = from_arrays(np.eye(2), [1.0, -1.0]).bounded(SIGN, order="given")
    plan = make(n=2, d=2, clip=0.1)
    assert isinstance(module._objective(plan, source, np.zeros(2)), GlmObjective)
    gradient = module._objective(plan, source, np.zeros(2)).gradient(np.zeros(2))
    np.testing.assert_allclose(gradient, [-0.05, 0.05])


# -- smoothing and clips ---------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("loss", "label"),
    [(losses.Hinge(), "sign"), (losses.Absolute(), 1.0), (losses.Pinball(0.3), 1.0)],
    ids=["hinge", "absolute", "pinball"],
)
def test_nonsmooth_losses_are_smoothed(loss, label):
    problem = dp.Problem(loss=loss, bounds=dp.Bounds(1.0, label=label))
    plan = make(problem, n=4000, d=3)
    assert plan.smoothing >= 5 * (0.7 if isinstance(loss, losses.Pinball) else 1.0) - 1e-9
    assert plan.releases()[0].curvature == pytest.approx(plan.smoothing)
    sharper = make(problem, n=4_000_000, d=3)
    assert sharper.smoothing > 3 * plan.smoothing  # the gap to the loss itself vanishes with n
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 3)) / 3
    y = np.clip(X @ [0.6, -0.3, 0.1] + 0.1 * rng.normal(size=4000), -1, 1)
    y = np.where(y > 0, 1.0, -1.0) if label == "sign" else y
    weights = dp.run(plan, (X, y), randomness=seeded()).weights
    risk = [float(np.mean(loss.value(X @ w, y))) for w in (weights, np.zeros(3))]
    assert risk[0] < 0.8 * risk[1]


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.Absolute()], ids=["hinge", "absolute"])
def test_the_unit_of_features_changes_neither_smoothing_nor_prediction(loss):
    label = "sign" if loss.labels == "sign" else 1.0
    budget = ApproxDP(1.0, 1e-6)
    seen = []
    for feature in (1.0, 20.0, 1e-3):
        problem = dp.Problem(loss=loss, bounds=dp.Bounds(feature, label=label))
        task = dp.Task(problem, n=10**7, d=30, budget=budget)
        # b = L0 sqrt(0.2 epsilon n)/(10 R X), above the least of 5: L0 = 1, R X = sqrt(30)/3 or 2
        distance = (2.0 if label == "sign" else 1 / 3) * math.sqrt(30)
        assert rates.smoothing(task) == pytest.approx(math.sqrt(2e6) / (10 * distance))
        seen.append(schedule.risk(task))
    assert seen == pytest.approx([seen[0]] * 3)


def test_smoothing_needs_a_nonsmooth_loss():
    with pytest.raises(ParameterError, match="nonsmooth"):
        make(smoothing=3.0)
    hinge = dataclasses.replace(LOGISTIC, loss=losses.Hinge())
    assert make(hinge, smoothing=3.0).smoothing == 3.0


def test_slopes_are_clipped_at_the_start_where_noise_matters():
    assert make(n=1000).clip == pytest.approx(0.5)
    assert make(n=10**7).clip == pytest.approx(1.0)
    assert make(n=1000, calibration="paper").clip == pytest.approx(1.0)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Hinge()], ids=lambda loss: loss.name)
def test_work_on_a_part_of_many_rows_does_not_depend_on_a_row(loss):
    """Where the first rounds read a part of the rows: rows of it, and behind it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3)) / 3.0
    y = np.sign(X[:, 0] + 0.1 * rng.normal(size=5000))
    plan = make(dp.Problem(loss=loss, bounds=SIGN), n=5000, d=3)
    others = {}
    for place in (0, 624, 625, 4999):
        for factor, sign in ((1e9, -1.0), (0.0, 1.0), (np.nan, 1.0), (3.0, -1.0)):
            rows, labels = X.copy(), y.copy()
            rows[place] *= factor
            labels[place] *= sign
            others[f"row {place} times {factor}, label times {sign}"] = (rows, labels)
    assert contract.check_work(plan, (X, y), others) == []
