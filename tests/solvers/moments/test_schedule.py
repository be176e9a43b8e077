"""Plans of one pass: batches are a partition, noise is on sums, planted mistakes are seen."""

import itertools
import math
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.privacy import GaussianRelease
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.accounting.gaussian import epsilon as gaussian_epsilon
from dpsco.solvers.moments import schedule as module

KEYS = ("clipped_acsa", "clipped_sgd_sc", "clipped_prox_sgd", "noisy_gd_split_baseline")
BUDGET = dp.ApproxDP(1.0, 1e-6)
MU = 0.236704380663
SAID = {"population_smoothness": 2.0, "strong_convexity": 0.5}


def problem(radius=2.0, loss=None, **more):
    chosen = dp.losses.Squared() if loss is None else loss
    return dp.Problem(
        loss=chosen, bounds=dp.Bounds(1e6, label=1e6), domain=dp.domains.L2Ball(radius), **more
    )


def make(key, n=10_000, d=10, budget=BUDGET, instance=None, **options):
    if key != "clipped_acsa":
        options = {**SAID, **options}
    else:
        options = {"population_smoothness": 2.0, **options}
    return dp.plan(instance or problem(), n=n, d=d, budget=budget, solver=key, options=options)


# -- known numbers ---------------------------------------------------------------------------------


def test_paper_plan_of_acsa():
    plan = make("clipped_acsa", budget=dp.GDP(0.5), schedule="paper", moment=3.0)
    assert (plan.rounds, plan.batch_size(5), plan.batch_size(0)) == (6, 1666, 1667)
    assert plan.sigma / 1666 == pytest.approx(0.18300099, rel=2e-6)
    assert plan.step_of(0) == pytest.approx(0.5 / 4.0)
    assert plan.risk == pytest.approx(1.00574335, rel=1e-5)


def test_practical_plan_of_acsa():
    plan = make("clipped_acsa", budget=dp.GDP(0.5), clip=10.0, population_smoothness=1.0)
    assert (plan.rounds, plan.batch_size(11)) == (12, 833)
    assert plan.sigma / 833 == pytest.approx(0.0480192077, rel=2e-6)
    assert plan.step_of(0) == pytest.approx(0.25)


def test_paper_plan_of_sgd():
    plan = make("clipped_sgd_sc", budget=dp.GDP(0.5), schedule="paper", moment=3.0)
    assert (plan.rounds, plan.batch_size(137)) == (138, 72)  # T + 1 batches
    assert plan.sigma / 72 == pytest.approx(1.937107, rel=2e-6)


def test_paper_batches_that_outnumber_rows_are_refused():
    with pytest.raises(AssumptionError, match=r"T \+ 1 = 4,341 batches.*1,000.*clipped_acsa"):
        make(
            "clipped_sgd_sc", n=1000, budget=dp.GDP(0.5), schedule="paper", moment=3.0,
            population_smoothness=100.0, strong_convexity=1.0,
        )  # fmt: skip


@pytest.mark.parametrize(("adjacency", "noise"), [("replace_one", 0.08), ("zero_out", 0.04)])
def test_noise_of_the_mean_oracle(adjacency, noise):
    mean = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1e6))
    budget = dp.GDP(0.5, adjacency=adjacency)
    plan = dp.plan(
        mean, n=100, d=3, budget=budget, solver="l2_clip_mean_oracle", options={"clip": 2.0}
    )
    assert plan.sigma / 100 == pytest.approx(noise, rel=2e-6)


def test_a_huge_lipschitz_constant_and_small_moments():
    """The paper's Example 1: normal x and y, |w| <= 1, cut at 1e6; r_2, r_4, r_8 are at most 14."""

    def absolute(order):
        return 2 ** (order / 2) * math.gamma((order + 1) / 2) / math.sqrt(math.pi)

    def moment(k):
        """(E (|x| (|x| + |y|))^k)^(1/k), term by term."""
        terms = (math.comb(k, j) * absolute(2 * k - j) * absolute(j) for j in range(k + 1))
        return sum(terms) ** (1 / k)

    known = {2: 2.558608819, 4: 4.376823360, 8: 7.962720829}
    for k, value in known.items():
        assert moment(k) == pytest.approx(value, rel=1e-8)
        assert value <= {2: 5, 4: 8, 8: 14}[k]
    task = dp.Task(problem(radius=1.0), 10_000, 1, BUDGET)
    assert task.lipschitz >= 1e12
    plan = dp.plan(
        task, solver="clipped_acsa", options={"moment": known[2], "population_smoothness": 1.0}
    )
    assert plan.sigma / plan.batch_size(0) < 1.0  # calibrated to L it would be 1e9
    assert plan.risk < 10.0


# -- rows ------------------------------------------------------------------------------------------


@given(
    key=st.sampled_from(KEYS),
    n=st.sampled_from([2, 3, 5, 7, 1000, 1023, 1025]),
    share=st.floats(0.0, 1.0),
    epsilon=st.sampled_from([1e-3, 1.0, 1e3]),
)
@settings(max_examples=60, deadline=None)
def test_batches_are_a_partition(key, n, share, epsilon):
    """Each row is in exactly one batch, sizes differ by one, and each spends mu at most."""
    rounds = max(1, round(share * n))
    plan = make(key, n=n, d=20, budget=dp.ApproxDP(epsilon, 1e-6), clip=1.0, rounds=rounds)
    batches = [release.rows for release in plan.releases()]
    assert batches[0][0] == 0
    assert batches[-1][1] == n
    assert all(one[1] == two[0] for one, two in itertools.pairwise(batches))
    sizes = [stop - start for start, stop in batches]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) == n // rounds >= 1
    assert sizes == [plan.batch_size(t) for t in range(rounds)]
    assert 2.0 * plan.bound / plan.sigma <= plan.budget.mu_per_row() * (1 + 1e-9)


@pytest.mark.parametrize("key", KEYS)
def test_plans_are_public_and_more_budget_is_less_noise(key):
    sigmas = [
        make(key, budget=dp.ApproxDP(epsilon, 1e-6), clip=3.0, rounds=9).sigma
        for epsilon in (0.1, 1.0, 8.0)
    ]
    assert sigmas == sorted(sigmas, reverse=True)
    assert make(key, clip=3.0) == make(key, clip=3.0)


def test_a_slice_for_the_clip_is_apart_from_the_batches():
    plan = make("clipped_sgd_sc", n=40_000, clip="auto")
    assert plan.clip is None
    search, *batches = plan.releases()
    start = plan.training_rows[0]
    assert search is plan.search
    assert batches[0].rows[0] == start
    assert batches[-1].rows[1] == 40_000
    assert search.rows == ((0, start) if start else (0, 40_000))
    assert plan.cost.against(BUDGET)[0] <= 1.0
    assert math.isnan(plan.risk)


# -- planted mistakes, each seen by the accountant -------------------------------------------------


def test_one_batch_too_many_is_seen():
    """T + 1 batches of n/T rows: the last one is drawn from rows that were read before."""
    plan = make("clipped_sgd_sc", n=1000, clip=3.0, rounds=11)

    def again(rows, rounds, turn):
        start = (turn % (rounds - 1)) * (1000 // (rounds - 1))
        return start, start + 1000 // (rounds - 1)

    with mock.patch.object(module, "part_of", again):
        spent = cost(plan.releases(), adjacency=BUDGET.adjacency).epsilon(1e-6)
        assert spent == pytest.approx(1.454671, rel=1e-4)
        with pytest.raises(AssumptionError, match="would cost"):
            make("clipped_sgd_sc", n=1000, clip=3.0, rounds=11)


@pytest.mark.parametrize(("n", "rounds", "known"), [(1000, 600, 1.74), (1999, 1000, 2.12)])
def test_noise_for_n_over_t_rows_is_seen(n, rounds, known):
    """sigma = 2 C T/(n mu) on a mean over floor(n/T) rows, when n/T is not whole."""
    whole = n // rounds
    sigma = 2.0 * rounds / (n * MU) * whole  # on the sum
    released = GaussianRelease(1.0, sigma, rows=(0, whole))
    spent = cost(released, adjacency=BUDGET.adjacency).epsilon(1e-6)
    assert spent == pytest.approx(gaussian_epsilon(1e-6, MU * n / rounds / whole), rel=1e-5)
    assert spent == pytest.approx(known, abs=0.01)
    right = make("clipped_acsa", n=n, clip=1.0, rounds=rounds)
    assert right.sigma == pytest.approx(2.0 / MU, rel=1e-6)  # whatever the size of a batch


def test_a_slice_that_is_trained_on_as_well_is_seen():
    plan = make("clipped_sgd_sc", n=40_000, clip="auto")
    if plan.training_rows[0] == 0:  # a share of the budget was cheaper: plan the slice
        from dpsco.solvers.common import found_clip

        slice_only = found_clip.clip_search
        with mock.patch(
            "dpsco.solvers.common.moment_clips.clip_search",
            lambda task, tail, way: slice_only(task, tail, way="slice"),
        ):
            plan = make("clipped_sgd_sc", n=40_000, clip="auto")
    assert plan.training_rows[0] > 0
    everything = property(lambda plan: (0, plan.n))
    with mock.patch.object(module.Plan, "training_rows", everything):
        spent = cost(plan.releases(), adjacency=BUDGET.adjacency).epsilon(1e-6)
    assert spent > 1.01


# -- refusals and warnings -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": 1.0, "moment": 3.0}, "order must be above 1.*clip='auto'"),
        ({"strong_convexity": 3.0}, "none is below 1"),
        ({"rounds": 10_001, "clip": 1.0}, "at most n = 10000"),
        ({"clip": "moment"}, "needs a moment"),
        ({"clip": "median"}, "clip must be one of"),
        ({"schedule": "paper"}, "made of moments"),
        ({"moment": 1.0, "coordinate_moment": 1.0}, "not both"),
        ({"oracle": "coordinate_clip", "clip": "auto"}, "finds an l2 clip"),
        ({"schedule": "fast"}, "schedule must be one of"),
    ],
)
def test_refusals_before_data(options, words):
    with pytest.raises((ParameterError, AssumptionError), match=words):
        make("clipped_sgd_sc", **options)


def test_pure_budgets_and_private_sizes_are_refused():
    for key in KEYS:
        with pytest.raises(AssumptionError, match="delta above 0"):
            make(key, budget=dp.PureDP(1.0), clip=1.0)
        with pytest.raises(AssumptionError, match="zero_out"):
            make(key, budget=dp.ApproxDP(1.0, 1e-6, adjacency="add_remove"), clip=1.0)


def test_too_few_rows_for_a_search_name_the_number():
    with pytest.raises(AssumptionError, match=r"it takes [\d,]+"):
        make("clipped_acsa", n=100, clip="auto")


def test_paper_needs_constants():
    loss = dp.losses.Absolute()
    with pytest.raises(AssumptionError, match="population_smoothness"):
        dp.plan(
            problem(loss=loss), n=1000, d=5, budget=BUDGET, solver="clipped_acsa",
            options={"schedule": "paper", "moment": 1.0},
        )  # fmt: skip
    with pytest.raises(AssumptionError, match="strong_convexity"):
        dp.plan(
            problem(), n=1000, d=5, budget=BUDGET, solver="clipped_sgd_sc",
            options={"schedule": "paper", "moment": 1.0},
        )  # fmt: skip


def test_noise_above_half_of_the_clip_is_a_warning():
    assert "times the clip" in make("clipped_sgd_sc", n=300, clip=1.0).warnings[0]
    assert make("clipped_sgd_sc", n=100_000, clip=1.0).warnings == ()
    cramped = make("clipped_sgd_sc", n=2000, clip=1.0, strong_convexity=0.001)
    assert any("clipped_acsa" in line for line in cramped.warnings)


def test_a_loss_without_a_bound_finds_its_clip_and_others_do_not():
    assert make("clipped_acsa", n=40_000).clip is None
    assert make("clipped_acsa", instance=problem(loss=dp.losses.Huber(1.0))).clip is not None
    by_moment = make("clipped_acsa", moment=3.0)
    assert by_moment.clip == make("clipped_acsa", moment=3.0, clip="moment").clip
    coordinates = make("clipped_acsa", coordinate_moment=1.0)
    assert coordinates.moment == pytest.approx(2 * math.sqrt(2) * math.sqrt(10))


def test_plans_in_files_are_checked():
    plan = make("clipped_sgd_sc", clip=3.0)
    text = plan.to_json()
    assert dp.load_plan(text) == plan
    for old, new in [
        ('"condition": 4.0', '"condition": 0.5'),
        ('"clip": 3.0', '"clip": null'),
        ('"order": 2.0', '"order": 1.0'),
        (f'"rounds": {plan.rounds}', '"rounds": 20000'),
    ]:
        assert old in text
        with pytest.raises(ParameterError):
            dp.load_plan(text.replace(old, new))
