"""Plans: blocks of their own at the full budget, regularisers, and what is refused."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.geometry.norms import L2, LINF
from dpsco.privacy.accounting import gaussian
from dpsco.solvers.weakly_convex.schedule import PROX, STRONG, Plan, chosen_p

BUDGET = dp.ApproxDP(1.0, 1e-6)
BALL = dp.domains.L2Ball(1.0)


def tukey(domain=BALL, norm=L2, **more):
    bounds = dp.Bounds(1.0, label=3.0, norm=norm)
    return dp.Problem(loss=dp.losses.Tukey(2.0), bounds=bounds, domain=domain, **more)


RIDGE = dp.Problem(
    loss=dp.losses.Absolute(), bounds=dp.Bounds(1.0, label=3.0), penalty=dp.losses.L2Penalty(1.0)
)
TUKEY = tukey()


def make(key, problem, n=10_000, d=5, budget=BUDGET, **options):
    return dp.plan(problem, n=n, d=d, budget=budget, solver=key, options=options)


def test_known_noise_of_a_block():
    plan = make(PROX, TUKEY, n=156, blocks=1, clip=1.0)
    assert plan.rounds == (4,)
    clip = plan.clip
    assert plan.sigmas[0] / 156 / clip == pytest.approx(0.10832510, rel=1e-6)


def test_blocks_have_rows_of_their_own_and_the_full_budget():
    plan = make(PROX, TUKEY, blocks=32)
    assert len(plan.sizes) == 32
    assert set(plan.sizes[:-1]) == {312}
    assert plan.sizes[-1] == 10_000 - 31 * 312  # leftovers
    covered = np.concatenate([np.arange(*release.rows) for release in plan.releases()])
    assert np.array_equal(covered, np.arange(10_000))
    mu = gaussian.mu(1.0, 1e-6)
    for release in plan.releases():
        whole = math.sqrt(release.count) * 2.0 * release.bound / release.sigma
        assert whole == pytest.approx(mu, rel=1e-6)
    assert plan.cost.against(BUDGET)[0] == pytest.approx(1.0, rel=1e-6)


def test_noise_of_a_budget_split_over_blocks_would_be_larger():
    """What sharing the budget among the blocks would give: the plan does not."""
    plan, one = make(PROX, TUKEY, blocks=32), make(PROX, TUKEY, n=312, blocks=1)
    assert plan.sigmas[0] == one.sigmas[0]


@pytest.mark.parametrize("blocks", [1, 2, 7, 5000])
def test_any_number_of_blocks(blocks):
    plan = make(PROX, TUKEY, blocks=blocks)
    assert sum(plan.sizes) == 10_000
    assert min(plan.sizes) >= 2


def test_a_proximal_weight_is_twice_what_convexity_asks_for():
    weak = TUKEY.loss.weak_convexity()
    plan = make(PROX, TUKEY)
    assert plan.strengths[0] == pytest.approx(2 * weak)
    assert plan.curvature(0) == pytest.approx(weak)
    longer = make(PROX, TUKEY, prox_multiplier=0.25)
    assert longer.strengths[0] == pytest.approx(weak / 2)
    assert longer.curvature(0) == pytest.approx(weak / 4)
    assert longer.sigmas == plan.sigmas


def test_a_convex_loss_gets_a_weight_of_its_scale():
    logistic = dp.Problem(
        loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"), domain=BALL
    )
    plan = make(PROX, logistic)
    assert plan.strengths[0] == pytest.approx(2 * plan.clip / 2.0)


def test_strength_comes_from_the_ridge_or_balances_noise():
    plan = make(STRONG, RIDGE)
    assert (plan.strength, plan.base, plan.sizes, plan.strengths) == (0.0, 1.0, (10_000,), (0.0,))
    plain = dataclasses.replace(RIDGE, penalty=dp.losses.NoPenalty(), domain=BALL)
    few, many = (make(STRONG, plain, n=n, clip=1.0).strength for n in (10_000, 40_000))
    assert few / 4 < many < few / 2  # between 1/n, of noise, and 1/sqrt(n), of sampling


def test_both_regularisers_add_up():
    ridge = dataclasses.replace(RIDGE, domain=dp.domains.L2Ball(5.0))
    plan = make(STRONG, ridge, strength=3.0, centre=[1.0, 0.0, 2.0, 0.0, 0.0])
    assert plan.base == 4.0
    assert plan.base_centre == pytest.approx([0.75, 0.0, 1.5, 0.0, 0.0])


@pytest.mark.parametrize("mode", ["localized", "reduction"])
def test_theory_modes_use_fresh_rows(mode):
    plan = make(STRONG, RIDGE, n=4096, mode=mode)
    assert len(plan.sizes) > 5
    assert sum(plan.sizes) <= 4096
    stops = [release.rows for release in plan.releases()]
    assert all(one[1] == two[0] for one, two in pairwise(stops))
    assert plan.cost.against(BUDGET)[0] <= 1.0


@pytest.mark.parametrize(
    ("key", "options", "error", "words"),
    [
        (PROX, {"p": 2.5}, ParameterError, "p must lie between 1 and 2"),
        (PROX, {"p": 0.9}, ParameterError, "p must lie between 1 and 2"),
        (PROX, {"blocks": 0}, ParameterError, "blocks"),
        (PROX, {"blocks": 5001}, ParameterError, "two rows for each"),
        (PROX, {"prox_multiplier": 0.0}, ParameterError, "prox_multiplier"),
        (PROX, {"answer": 9, "blocks": 8}, ParameterError, "answer"),
        (PROX, {"schedule": "none"}, ParameterError, "schedule must be one of"),
        (STRONG, {"mode": "none"}, ParameterError, "mode must be one of"),
        (STRONG, {"strength": -1.0}, ParameterError, "strength"),
        (STRONG, {"strength": 0.0}, AssumptionError, "strongly convex problem is needed"),
        (STRONG, {"centre": [1.0]}, ParameterError, "centre must have 5 numbers"),
        (STRONG, {"centre": [math.nan] * 5}, ParameterError, "centre"),
        (STRONG, {"p": 1.5, "mode": "localized"}, AssumptionError, "mode='direct'"),
    ],
)
def test_options_out_of_range(key, options, error, words):
    with pytest.raises(error, match=words):
        make(key, TUKEY, **options)


def test_a_ridge_is_euclidean():
    with pytest.raises(AssumptionError, match=r"p=2\.0"):
        make(PROX, tukey(penalty=dp.losses.L2Penalty(0.1)), p=1.5)


def test_p_near_one_is_raised_and_needs_three_weights():
    task = dp.Task(TUKEY, 100, 50, BUDGET)
    least = 1.0 + 1.0 / math.log(50)
    assert chosen_p(task, 1.0) == chosen_p(task, 1.1) == pytest.approx(least)
    assert chosen_p(task, 1.5) == 1.5
    assert chosen_p(task, None) == 2.0
    sparse = dp.Task(tukey(dp.domains.L1Ball(1.0)), 100, 50, BUDGET)
    assert chosen_p(sparse, None) == 2.0
    assert chosen_p(sparse, 1.0) == pytest.approx(least)
    for d in (1, 2):
        few = dp.Task(tukey(dp.domains.L1Ball(1.0)), 100, d, BUDGET)
        assert chosen_p(few, None) == chosen_p(few, 2.0) == 2.0
        with pytest.raises(ParameterError, match=r"1 \+ 1/ln d"):
            chosen_p(few, 1.5)


UNKNOWN = dp.losses.CustomLoss(
    lambda u, y: np.minimum(np.abs(u - y), 1.0),
    lambda u, y: np.sign(u - y) * (np.abs(u - y) < 1.0),
    slope_bound=1.0, convex=False, labels="real",
)  # fmt: skip


@pytest.mark.parametrize(
    ("problem", "budget", "words"),
    [
        (dataclasses.replace(TUKEY, loss=UNKNOWN), BUDGET, "weak convexity constant"),
        (tukey(dp.domains.WholeSpace()), BUDGET, "bounded domain"),
        (TUKEY, dp.ApproxDP(1.0, 1e-6, adjacency="add_remove"), "zero_out"),
        (TUKEY, dp.PureDP(1.0), "delta above 0"),
        (tukey(penalty=dp.losses.L1Penalty(0.1)), BUDGET, "the ridge"),
    ],
    ids=["capped", "free", "add_remove", "pure", "penalty"],
)
def test_refusals(problem, budget, words):
    with pytest.raises(AssumptionError, match=words):
        make(PROX, problem, budget=budget)


@pytest.mark.parametrize("radius", [0.0, math.inf, -1.0, math.nan])
def test_radii_that_are_none_are_refused(radius):
    with pytest.raises(ParameterError, match="radius"):
        dp.domains.L2Ball(radius)


def test_rows_bounded_coordinate_by_coordinate():
    """Gradients of l_inf rows are sqrt(d) longer in l2; weak convexity is that of l_p."""
    problem = tukey(dp.domains.LpBall(1.5, 1.0), norm=LINF)
    plan = make(PROX, problem, d=16, p=1.5)
    assert plan.p == 1.5
    euclid = make(PROX, TUKEY, d=16)
    assert plan.clip == pytest.approx(4.0 * euclid.clip)
    weak = TUKEY.loss.weak_convexity() * (16 ** (1 / 3)) ** 2  # |x|_3 of 16 ones
    assert plan.weak_convexity == pytest.approx(weak)
    assert plan.strengths[0] == pytest.approx(2 * weak / 0.5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sizes", (5000, 6000)), ("sizes", ()), ("rounds", (4,)), ("rounds", (0, 4)), ("p", 1.0),
        ("strengths", (0.0, 1.0)), ("answer", 3), ("centre", (1.0,)),
    ],
)  # fmt: skip
def test_files_may_hold_anything(field, value):
    plan = make(PROX, TUKEY, blocks=2)
    assert isinstance(plan, Plan)
    with pytest.raises(ParameterError):
        dataclasses.replace(plan, **{field: value})
