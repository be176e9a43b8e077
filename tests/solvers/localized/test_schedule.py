"""Phases read rows of their own, noise follows from whole rounds, planted mistakes are seen."""

import itertools
import math
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.errors import AssumptionError, ParameterError
from dpsco.privacy import PoissonGaussianRelease
from dpsco.privacy.accounting.composition import cost
from dpsco.solvers.localized import schedule as module
from dpsco.solvers.sampled_sgd.noise import POISSON, Samples, noise_multiplier

LOCALIZED = "localized_clipped_subgradient"
KEYS = ("clipped_reg_subgradient", LOCALIZED, "strongly_convex_localized")
BUDGET = dp.ApproxDP(1.0, 1e-6)


def problem(radius=2.0, ridge=0.5):
    return dp.Problem(
        loss=dp.losses.Absolute(),
        bounds=dp.Bounds(1e6, label=1e6),
        domain=dp.domains.L2Ball(radius),
        penalty=dp.losses.L2Penalty(ridge) if ridge else dp.losses.NoPenalty(),
    )


def make(key, n=1000, d=10, budget=BUDGET, **options):
    return dp.plan(problem(), n=n, d=d, budget=budget, solver=key, options=options)


# -- known numbers ---------------------------------------------------------------------------------


def test_noise_of_one_phase():
    plan = make("clipped_reg_subgradient", budget=dp.GDP(1.0), clip=1.5, rounds=50)
    assert plan.sigmas[0] / 1000 == pytest.approx(0.0212132034, rel=2e-6)


def test_decoupled_plan():
    plan = make(LOCALIZED, budget=dp.GDP(0.5), moment=3.0, rounds=200)
    assert plan.sizes == (563, 250, 125, 62)
    assert plan.rounds == (200, 200, 125, 62)
    clips = [plan.clip * share for share in plan.clips]
    assert clips == pytest.approx([10.007266, 6.6685478, 4.7153754, 3.32091], rel=1e-6)
    strengths = [plan.strength(phase) for phase in plan.phases]
    assert strengths == pytest.approx([0.26502039, 2.1201631, 16.961305, 135.69044], rel=1e-6)
    noise = [sigma / size for sigma, size in zip(plan.sigmas, plan.sizes, strict=True)]
    assert noise == pytest.approx([1.0055, 1.5089201, 1.687024, 1.687024], rel=3e-6)


def test_paper_plan():
    narrow = dp.Problem(
        loss=dp.losses.Absolute(), bounds=dp.Bounds(3.0, label=1.0), domain=dp.domains.L2Ball(4.0)
    )
    plan = dp.plan(
        narrow, n=1024, d=10, budget=dp.GDP(0.5), solver=LOCALIZED,
        options={"schedule": "paper", "moment": 1.5},
    )  # fmt: skip
    assert plan.sizes == tuple(2**i for i in range(9, -1, -1))
    assert plan.sigmas[0] == pytest.approx(
        2 * plan.clip * math.sqrt(plan.rounds[0]) / 0.5, rel=2e-6
    )
    assert plan.averaging == "last"
    wider = dp.plan(
        narrow, n=1024, d=10, budget=dp.GDP(0.5), solver=LOCALIZED,
        options={"schedule": "theorem_20", "coordinate_moment": 0.2},
    )  # fmt: skip
    assert wider.moment == pytest.approx(0.2 * 2 * math.sqrt(20))
    assert wider.clip == pytest.approx(plan.clip * 4 * wider.moment / 1.5)


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "known"), [("replace_one", 11.99), ("zero_out", 6.08)])
def test_noise_of_samples(adjacency, known):
    """q = 1/32, 2048 rounds, by the pair that is checked numerically; the proved one needs more."""
    budget = dp.ApproxDP(1.0, 1e-6, adjacency=adjacency)
    noise = noise_multiplier(budget, Samples(POISSON, 32.0, 1024, 2048, "conjectured"))
    assert noise == pytest.approx(known, rel=0.01)
    assert noise_multiplier(budget, Samples(POISSON, 32.0, 1024, 2048)) >= noise * (1 - 1e-3)


# -- rows ------------------------------------------------------------------------------------------


@given(
    key=st.sampled_from(KEYS),
    n=st.sampled_from([2, 3, 7, 100, 1000, 1023, 1025]),
    epsilon=st.sampled_from([1e-3, 1.0, 1e3]),
)
@settings(max_examples=40, deadline=None)
def test_phases_are_a_partition(key, n, epsilon):
    """Each row is in exactly one phase, and sqrt(T_i) releases of it spend the budget."""
    plan = make(key, n=n, budget=dp.ApproxDP(epsilon, 1e-6), clip=1.0, rounds=16)
    rows = [phase.rows for phase in plan.phases]
    assert (rows[0][0], rows[-1][1]) == (0, n)
    assert all(one[1] == two[0] for one, two in itertools.pairwise(rows))
    for release, phase in zip(plan.releases(), plan.phases, strict=True):
        assert (release.rows, release.count) == (phase.rows, phase.rounds)
        mu = math.sqrt(release.count) * 2.0 * release.bound / release.sigma
        assert mu <= plan.budget.mu_per_row() * (1 + 1e-9)
    turns = [plan.phase_at(turn).first for turn in range(sum(plan.rounds))]
    firsts = [phase.first for phase in plan.phases for _ in range(phase.rounds)]
    assert turns == firsts


def test_samples_are_of_a_phases_own_rows():
    plan = make("localized_clipped_minibatch", n=3000, clip=1.0, rounds=20)
    for release, phase in zip(plan.releases(), plan.phases, strict=True):
        assert isinstance(release, PoissonGaussianRelease)
        assert release.rows == phase.rows
        size = phase.rows[1] - phase.rows[0]
        assert release.rate * size == pytest.approx(phase.batch)
        assert phase.batch == max(16, math.ceil(2 * math.sqrt(size)))
    assert plan.cost.against(BUDGET)[0] <= 1.0


@pytest.mark.parametrize("key", [*KEYS, "localized_clipped_minibatch"])
def test_a_clip_is_found_beside_or_before_the_phases(key):
    plan = make(key, n=20_000, clip="auto", rounds=16)
    search, *others = plan.releases()
    assert search is plan.search
    assert plan.clip is None
    assert all(release.bound == 1.0 for release in others)
    start = plan.training_rows[0]
    assert all(release.rows[0] >= start for release in others)
    if start:
        assert search.rows == (0, start)
    if key == "localized_clipped_minibatch":
        assert start > 0  # samples are paid for apart
    assert plan.cost.against(BUDGET)[0] <= 1.0


# -- planted mistakes, each seen by the accountant -------------------------------------------------


def test_phases_that_share_rows_are_seen():
    with mock.patch.object(module, "pairwise", lambda starts: ((0, end) for end in starts[1:])):
        plan = make("clipped_reg_subgradient", clip=1.0, rounds=16)
        alone = mock.patch.object(module, "noise_of", _each_alone)
        with alone, pytest.raises(AssumptionError, match="would cost"):
            make(LOCALIZED, clip=1.0, rounds=16)
    assert plan.cost.against(BUDGET)[0] <= 1.0


def _each_alone(task, search, releases):
    """Return noise as if phases did not share rows."""
    from dpsco.privacy import gaussian_sigma

    return tuple(
        gaussian_sigma(task.budget, bound=bound, rows=rows, count=count)
        for bound, rows, count in releases
    )


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "known"), [("conjectured", 1.151), ("proved", 1.248)])
def test_printed_noise_of_remark_17_is_seen(pair, known):
    """z = 2 q sqrt(T log(1/delta))/epsilon: 1.151 is spent where 1 was promised."""
    rate, rounds = 1 / 32, 2048
    noise = 2 * rate * math.sqrt(rounds * math.log(1e6))
    assert noise == pytest.approx(10.513, abs=1e-3)
    release = PoissonGaussianRelease(1.0, noise, rate, pair, rows=(0, 1024), count=rounds)
    spent = cost(release, adjacency=BUDGET.adjacency).epsilon(1e-6)
    assert spent == pytest.approx(known, rel=0.01)
    plan = make("localized_clipped_minibatch", n=1024, clip=1.0, rounds=64)
    with (
        mock.patch.object(module, "noise_multiplier", _printed),
        pytest.raises(AssumptionError, match="would cost"),
    ):
        make("localized_clipped_minibatch", n=1024, clip=1.0, rounds=2048)
    assert plan.cost.against(BUDGET)[0] <= 1.0


def _printed(budget, samples):
    rate = samples.batch / samples.n
    return 2 * rate * math.sqrt(samples.rounds * math.log(1 / budget.delta)) / budget.epsilon


# -- refusals and warnings -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "options", "words"),
    [
        (LOCALIZED, {"schedule": "paper"}, "made of moments"),
        (LOCALIZED, {"schedule": "paper", "moment": 1.0, "rounds": 3}, "rounds must be left out"),
        (LOCALIZED, {"schedule": "paper", "moment": 1.0, "power": 0.5}, "at least 1"),
        (LOCALIZED, {"moment": 1.0, "order": 0.5}, "order must be above 1"),
        (LOCALIZED, {"clip": "moment"}, "needs a moment"),
        ("clipped_reg_subgradient", {"schedule": "paper", "clip": 1.0}, "needs a regularizer"),
        (
            "clipped_reg_subgradient",
            {"regularization": 0.5, "step": 3.0, "clip": 1.0, "schedule": "paper"},
            "at most 1/regularization",
        ),
        (
            "clipped_reg_subgradient",
            {"regularization": 0.5, "clip": "auto"},
            "give clip= as a number",
        ),
    ],
)
def test_refusals_before_data(key, options, words):
    with pytest.raises((ParameterError, AssumptionError), match=words):
        make(key, n=20_000, **options)


def test_long_published_schedules_are_refused():
    with pytest.raises(AssumptionError, match=r"noisy steps.*power=1"):
        make(LOCALIZED, n=20_000, schedule="paper", moment=1.0, power=2.0)


def test_strong_convexity_and_epsilon_are_needed():
    plain = problem(ridge=0.0)
    with pytest.raises(AssumptionError, match="L2Penalty"):
        dp.plan(plain, n=999, d=3, budget=BUDGET, solver="strongly_convex_localized")
    with pytest.raises(AssumptionError, match="noisy_gd"):
        make("localized_clipped_minibatch", budget=dp.GDP(1.0), clip=1.0)


def test_noise_above_half_of_the_clip_is_a_warning():
    assert "times the clip" in make(LOCALIZED, n=40, clip=1.0).warnings[0]
    assert make(LOCALIZED, n=60_000, clip=1.0).warnings == ()


def test_plans_in_files_are_checked():
    plan = make(LOCALIZED, n=2000, clip=3.0, rounds=16)
    text = plan.to_json()
    assert dp.load_plan(text) == plan
    for old, new in [
        ('"averaging": "falling"', '"averaging": "best"'),
        ('"rounds": [16,', '"rounds": [0,'),
        ('"sizes": [1', '"sizes": [9'),
        ('"rounds": [16,', '"rounds": ['),
    ]:
        assert old in text
        with pytest.raises(ParameterError):
            dp.load_plan(text.replace(old, new))
