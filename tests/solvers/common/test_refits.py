"""Refits: when they pay, what they release, and that they mend the length of the weights."""

import dataclasses
import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.data.scores import ScoreGradient
from dpsco.errors import AssumptionError, LedgerError, ParameterError
from dpsco.models.config import configure
from dpsco.models.plan import plan_model
from dpsco.solvers import noisy_gd
from dpsco.solvers.common import refits

BUDGET = dp.ApproxDP(1.0, 1e-6)


def problem(loss=None, label="sign", **settings):
    bounds = dp.Bounds(1.0, label=label, intercept=0.3)
    return dp.Problem(loss=loss or dp.losses.Logistic(), bounds=bounds, **settings)


def plan(share, n=4000, d=4, budget=BUDGET, of=None, **options):
    options = {"refit": share, **options}
    return dp.plan(of or problem(), n=n, d=d, budget=budget, solver="noisy_gd", options=options)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize(
    "budget", [dp.ApproxDP(1.0, 1e-6), dp.ZCDP(0.05), dp.GDP(0.3)], ids=["dp", "zcdp", "gdp"]
)
def test_both_parts_together_cost_the_budget(adjacency, budget):
    budget = dataclasses.replace(budget, adjacency=adjacency)
    fit_plan, sensitivity = plan(0.1, budget=budget), budget.adjacency.sensitivity(1.0)
    descent, refit = fit_plan.releases()
    squares = [r.count * (sensitivity * r.bound / r.sigma) ** 2 for r in (descent, refit)]
    whole = budget.mu_per_row() ** 2
    assert squares == pytest.approx([0.9 * whole, 0.1 * whole], rel=1e-5)
    amount, allowed = fit_plan.cost.against(budget)
    assert 0.9999 * allowed < amount <= allowed


def test_a_plan_says_which_clip_is_of_what():
    fit_plan = plan(0.1)
    first, second = fit_plan.enforced[-2:]
    assert first == f"a row's gradient has l2 norm at most {fit_plan.clip:g}, by clipping"
    assert "scale of scores and the intercepts has l2 norm at most 1.41421" in second
    assert plan(0.0).enforced[-1].startswith("a row's gradient has l2 norm")


def test_without_a_refit_nothing_changes():
    fit_plan = plan(0.0)
    assert (fit_plan.refit_rounds, fit_plan.total_rounds) == (0, fit_plan.rounds)
    assert fit_plan == plan(0.0, refit=0.0)
    assert len(fit_plan.releases()) == 1


def test_refit_is_refused_where_scores_mean_something_else():
    squares = problem(dp.losses.Squared(), 1.0)
    for of in (
        squares,
        problem(dp.losses.Hinge()),
        problem(domain=dp.domains.L2Ball(1.0)),
        problem(penalty=dp.losses.L2Penalty(0.1)),
    ):
        assert refits.refit_share(dp.Task(of, 10**6, 4, BUDGET)) == 0.0
        with pytest.raises(AssumptionError, match="cannot be refitted"):
            plan(0.1, of=of)
    for share in (-0.1, 1.0, math.nan):
        with pytest.raises(ParameterError):
            plan(share)


def test_it_pays_from_a_signal_on():
    def share(n, budget=BUDGET, d=4):
        return refits.refit_share(dp.Task(problem(), n, d, budget))

    least = math.ceil(2 * refits.LEAST_SIGNAL / BUDGET.mu_per_row())  # replace-one counts twice
    assert (share(least - 1), share(least)) == (0.0, refits.SHARE)
    assert share(10**6, dp.PureDP(1.0)) == 0.0
    assert share(10**6, d=300) == refits.SHARE
    assert share(10**6, d=301) == 0.0  # not measured


def test_models_are_refitted_unless_options_are_given():
    config = configure("logistic", feature_norm=1.0, classes=[0, 1])

    def rounds(n=20_000, **settings):
        settings = {"n": n, "d": 4, "budget": BUDGET, "solver": "noisy_gd", **settings}
        return plan_model(config, **settings).fit.refit_rounds

    assert rounds() == refits.ROUNDS
    assert rounds(n=1_000) == 0
    assert rounds(options={"rounds": 60}) == 0
    assert rounds(options={"refit": 0.2}) == refits.ROUNDS
    ridge = configure("logistic", feature_norm=1.0, classes=[0, 1], alpha=0.1)
    fit = plan_model(ridge, n=20_000, d=4, budget=BUDGET, solver="noisy_gd").fit
    assert fit.refit_rounds == 0


class Unpaid(noisy_gd.schedule.Plan):
    """Planted: the rounds of the refit are carried out, and only the descent is paid for."""

    def releases(self):
        return super().releases()[:1]


class Larger(noisy_gd.DescentStepper):
    """Planted: a refit asks for the descent's clip times ten."""

    def _scores(self):
        query = super()._scores()
        return ScoreGradient(query.loss, query.weights, query.along, query.offset, 10 * query.clip)


def test_planted_bugs_are_caught(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)) / 3, rng.choice([-1.0, 1.0], size=300)
    fit_plan = plan(0.2, n=300, rounds=3)
    unpaid = Unpaid(**{f.name: getattr(fit_plan, f.name) for f in dataclasses.fields(fit_plan)})
    assert unpaid.total_rounds == 3  # the engine's rounds are the releases: nothing runs unpaid
    solver = dp.solvers.get("noisy_gd")
    monkeypatch.setitem(
        dp.solvers.registry(), "noisy_gd", dataclasses.replace(solver, stepper=Larger)
    )
    with pytest.raises(LedgerError, match="its noise was planned for"):
        dp.run(fit_plan, (X, y), randomness=dp.Randomness.seeded(1))


def test_units_of_scores_leave_the_intercepts_out():
    task = dp.Task(problem(), 4000, 4, BUDGET)
    along = refits.unit_of_scores(task, np.array([3.0, 0.0, 4.0, 0.0, 7.0]))
    assert along[-1] == 0.0
    assert np.linalg.norm(along) == pytest.approx(math.sqrt(4) / refits.REACH)
    assert along[0] / along[2] == pytest.approx(0.75)
    assert not refits.unit_of_scores(task, np.zeros(5)).any()
    assert refits.unit_of_intercepts(task) == pytest.approx(1 / 0.3)
    bare = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(2.0, label="sign"))
    task = dp.Task(bare, 4000, 4, BUDGET)
    assert refits.unit_of_intercepts(task) == 0.0
    assert np.linalg.norm(refits.unit_of_scores(task, np.ones(4))) == pytest.approx(0.5)


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_get_the_length_that_rows_say(classes):
    """Rows of two kinds, told apart by large weights: descent that is cut short ends too early.

    Noise is negligible, so the refit must win back most of what short weights lose.
    """
    rng, n = np.random.default_rng(0), 6000
    X = rng.standard_normal((n, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    W = 12.0 * np.eye(3)[:, :classes]
    scores = X @ W + np.arange(classes)
    y = np.argmax(scores + rng.gumbel(size=(n, classes)), axis=1)
    loss = dp.losses.Softmax(classes)
    labels = dp.data.Classes(*range(classes))
    of = problem(loss, labels)

    def lost(share):
        fit_plan = plan(share, n=n, d=3, budget=dp.GDP(50.0), of=of, rounds=60, step=0.05, clip=0.5)
        weights = dp.run(fit_plan, (X, y), randomness=dp.Randomness.seeded(1)).weights
        rows = np.hstack([X, np.full((n, 1), 0.3)])
        return float(np.mean(loss.value(weights, rows, y.astype(float))))

    truth = np.vstack([W, np.arange(classes) / 0.3]).reshape(-1)
    rows = np.hstack([X, np.full((n, 1), 0.3)])
    best = float(np.mean(loss.value(truth, rows, y.astype(float))))
    before, after = lost(0.0) - best, lost(0.3) - best
    assert before > 0.09
    assert after < 0.35 * before
