"""Plans: noise by the bound that queries enforce, batches, clips that are found, bad input."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.audit import contract
from dpsco.errors import AssumptionError, ParameterError
from dpsco.privacy.mechanisms import (
    ClipQuantileRelease,
    ShuffledSequenceRelease,
)
from dpsco.privacy.mechanisms.gaussian import gaussian_sigma
from dpsco.solvers import registry
from dpsco.solvers.common.found_clip import clip_search
from dpsco.solvers.engine import Schedule

MIRROR, COORDINATES, SHUFFLED = KEYS = (
    "truncated_batched_mirror_descent",
    "heavy_tailed_coordinate_gd",
    "shuffled_truncated_mirror_descent",
)
BUDGET = dp.ApproxDP(1.0, 1e-6)
LOGISTIC = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
SQUARED = dp.Problem(loss=dp.losses.Squared(), bounds=dp.Bounds(1e3, label=1e3))


def planned(solver, n=1000, d=4, *, problem=LOGISTIC, budget=BUDGET, **options):
    return dp.plan(problem, n=n, d=d, budget=budget, solver=solver, options=options)


def test_noise_of_coordinates():
    """KAT of the specification: s = 2 tau sqrt(d T)/(n mu) on the mean."""
    plan = planned(COORDINATES, rounds=9, clip=1.0)
    assert plan.sigma / plan.n == pytest.approx(0.0506961, rel=1e-5)
    (release,) = plan.releases()
    assert (release.bound, release.count) == (plan.bound, 9)
    assert plan.bound == pytest.approx(2.0, rel=1e-12)
    half = planned(
        COORDINATES, rounds=9, clip=1.0, budget=dp.ApproxDP(1.0, 1e-6, adjacency="zero_out")
    )
    assert plan.sigma == pytest.approx(2 * half.sigma, rel=1e-6)


def test_noise_of_full_passes_and_of_batches():
    full, parts = planned(MIRROR, rounds=16, clip=1.0), None
    assert full.sigma == pytest.approx(2 * 4 / 0.2367043807, rel=1e-6)
    parts = planned(MIRROR, rounds=16, clip=1.0, batches=True)
    assert parts.sigma == pytest.approx(2 / 0.2367043807, rel=1e-6)
    # a mean of one round: batches have sqrt(T) times the noise of full passes
    ratio = parts.sigma / parts.batch_size(0) / (full.sigma / full.batch_size(0))
    assert ratio == pytest.approx(4.0 * 1000 / 1008, rel=1e-2)


@pytest.mark.parametrize("rounds", [1, 3, 7, 16, 999, 1000])
def test_no_row_enters_two_batches_and_none_is_left(rounds):
    """n/T need not be an integer; T + 1 batches of n/T rows would take some row twice."""
    plan = planned(MIRROR, rounds=rounds, batches=True)
    edges = [release.rows for release in plan.releases()]
    assert len(edges) == rounds
    assert (edges[0][0], edges[-1][1]) == (0, plan.n)
    assert all(left[1] == right[0] for left, right in itertools.pairwise(edges))
    sizes = {stop - start for start, stop in edges}
    assert max(sizes) - min(sizes) <= 1
    assert [plan.batch_size(t) for t in range(rounds)] == [b - a for a, b in edges]
    assert plan.cost.mu == pytest.approx(0.2367043807, rel=1e-6)


def test_one_batch_too_many_is_seen_by_the_accountant():
    """A planted bug: the last batch taken twice costs more than the budget."""
    plan = planned(MIRROR, rounds=16, batches=True)

    class Again(type(plan)):
        def releases(self):
            releases = super().releases()
            return (*releases, releases[-1])

    again = Again(**{f.name: getattr(plan, f.name) for f in dataclasses.fields(plan)})
    assert contract.check_cost(plan) == []
    assert contract.check_cost(again)


def test_a_coordinate_clip_charged_as_an_l2_clip_is_refused_by_the_engine():
    """A planted bug: sqrt(d) is missing in the noise."""
    plan = planned(COORDINATES, clip=1.0, rounds=4)

    class Cheap(type(plan)):
        bound = 1.0

    cheap = Cheap(**{f.name: getattr(plan, f.name) for f in dataclasses.fields(plan)})
    cheap = dataclasses.replace(cheap, sigma=plan.sigma / 2)
    data = (np.ones((1000, 4)), np.ones(1000))
    assert contract.check_cost(cheap) == []
    assert any("asks for up to 2.0" in line for line in contract.check_ledger(cheap, data))


# -- clips that are found --------------------------------------------------------------------------


def heavy(n, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(5, size=(n, 4))
    return X, X @ [1.0, -0.5, 0.0, 0.2] + rng.standard_t(3, size=n)


@pytest.mark.parametrize("solver", [MIRROR, COORDINATES])
def test_a_loss_without_a_bound_has_its_clip_found(solver):
    plan = planned(solver, n=4000, problem=SQUARED, rounds=5)
    assert plan.clip is None
    assert type(plan.releases()[0]) is ClipQuantileRelease
    assert planned(solver, n=4000, rounds=5).clip is not None  # the logistic loss has one
    assert planned(solver, n=4000, rounds=5, clip="auto").clip is None
    assert any("clip that the run has found" in line for line in plan.enforced)
    assert plan.bound == pytest.approx(1.0 if solver == MIRROR else 2.0)
    assert contract.check_plan(plan) == []
    assert contract.check_cost(plan) == []


@pytest.mark.slow
@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.parametrize("solver", [MIRROR, COORDINATES])
def test_contracts_where_the_clip_is_found(solver, batches):
    more = {"batches": True} if batches and solver == MIRROR else {}
    plan = planned(solver, n=3000, problem=SQUARED, rounds=4, budget=dp.ApproxDP(3.0, 1e-4), **more)
    assert plan.search is not None
    X, y = heavy(3000)
    first = plan.row_range[0] if plan.row_range[0] else 5
    for row in {0, first, 2999}:
        neighbours = {}
        for name, value in {"far": 1e6, "nan": np.nan, "inf": np.inf, "zero": 0.0}.items():
            other = X.copy()
            other[row] = value
            neighbours[name] = (other, y)
        label = y.copy()
        label[row] = -1e9
        neighbours["label"] = (X, label)
        assert contract.check_replay(plan, (X, y), neighbours, row=row) == []
    assert contract.check_ledger(plan, (X, y)) == []
    assert contract.check_noise(plan, (X, y), seeds=range(3)) == []


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_units_of_the_gradients_do_not_matter_where_the_clip_is_found(unit):
    """The same weights with labels and features in other units; the start is zero."""
    X, y = heavy(4000)
    bounds = dp.Bounds(100.0, label=1e3 * unit)
    problem = dp.Problem(loss=dp.losses.Squared(), bounds=bounds, scale=2.0 * unit)
    plan = planned(MIRROR, n=4000, problem=problem, rounds=60, clip="auto")
    seed = dp.Randomness.seeded(1)
    weights = dp.run(plan, (X, y * unit), order="given", randomness=seed).weights
    assert np.linalg.norm(weights / unit - [1.0, -0.5, 0.0, 0.2]) < 0.35


def test_too_few_rows_for_a_clip():
    with pytest.raises(AssumptionError, match=r"cannot be found in 300 rows.*takes \d"):
        planned(MIRROR, n=300, problem=SQUARED, clip="auto")
    plan = planned(MIRROR, n=300, problem=SQUARED)  # not asked for: the bounds of rows serve
    assert plan.clip is not None
    assert any("bounds of rows and labels" in line for line in plan.warnings)
    assert planned(MIRROR, n=300, problem=SQUARED, clip=plan.clip * 0.9).clip == plan.clip * 0.9


# -- secret order ----------------------------------------------------------------------------------


def test_noise_of_reports_in_secret_order():
    """KATs: sigma/(2 bound) at epsilon 1: 1.40833 of 1e4 rows, 1.025 of 1e5; locally 4.2247."""
    shuffled = planned(SHUFFLED, n=10_000, clip=0.5)
    assert 1.40 < shuffled.sigma < 1.40833 * 1.01
    assert planned(SHUFFLED, n=100_000, clip=0.5).sigma == pytest.approx(1.025, rel=1e-2)
    local = planned(SHUFFLED, n=10_000, clip=0.5, secret_order=False)
    assert local.sigma == pytest.approx(4.2247, rel=1e-4)
    assert shuffled.sigma <= local.sigma
    assert [type(each) for each in shuffled.releases()] == [ShuffledSequenceRelease]
    assert len(Schedule(shuffled.releases())) == shuffled.rounds


@pytest.mark.parametrize(("n", "times"), [(10_000, 33.0), (100_000, 77.0)])
def test_what_a_curator_who_is_not_trusted_costs(n, times):
    """Noise of a pass over that of a trusted curator: what the page says."""
    reports = planned(SHUFFLED, n=n, clip=1.0)
    trusted = planned(MIRROR, n=n, clip=1.0)
    assert reports.noise / trusted.noise == pytest.approx(times, rel=0.02)


@pytest.mark.parametrize(
    ("n", "epsilon"), [pytest.param(10_000, 4.0, marks=pytest.mark.slow), (60, 1.0)]
)
def test_a_secret_order_that_gains_nothing_is_refused(n, epsilon):
    with pytest.raises(AssumptionError, match="gains nothing"):
        planned(SHUFFLED, n=n, budget=dp.ApproxDP(epsilon, 1e-6))


@pytest.mark.slow
def test_reports_in_secret_order_keep_the_contracts():
    plan = planned(SHUFFLED, n=2000, budget=dp.ApproxDP(0.5, 1e-5), rounds=5)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = np.sign(X[:, 0] + 0.1)
    other = X.copy()
    other[7] = -50.0
    assert contract.check_plan(plan) == []
    assert contract.check_cost(plan) == []
    assert contract.check_replay(plan, (X, y), {"far": (other, y)}) == []
    assert contract.check_ledger(plan, (X, y)) == []
    assert contract.check_noise(plan, (X, y), seeds=range(3)) == []


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", KEYS)
def test_moments(solver):
    more = {"n": 10_000}
    plan = planned(solver, moment=2.0, **more)
    assert plan.clip == 3.0
    for options in ({"moment": 0.0}, {"moment": math.inf}, {"moment": 1.0, "clip": 1.0}):
        with pytest.raises(ParameterError, match="moment"):
            planned(solver, **more, **options)


BAD = {
    "more batches than rows": (MIRROR, {"rounds": 1001, "batches": True}, "rounds"),
    "more reports than rows": (SHUFFLED, {"n": 10_000, "rounds": 10_001}, "rounds"),
    "a tail longer than the run": (MIRROR, {"rounds": 4, "tail": 5}, "tail"),
    "p too large": (MIRROR, {"p": 3.0}, "p must lie between 1 and 2"),
    "p below one": (MIRROR, {"p": 0.5}, "p must lie between 1 and 2"),
    "another p than the ball's": (
        MIRROR,
        {"problem": dataclasses.replace(LOGISTIC, domain=dp.domains.L1Ball(2.0)), "p": 1.5},
        "that of the domain",
    ),
    "a domain without mirror steps": (
        MIRROR,
        {"problem": dataclasses.replace(LOGISTIC, domain=dp.domains.Box([-1.0] * 4, [1.0] * 4))},
        "heavy_tailed_coordinate_gd",
    ),
    "pure": (COORDINATES, {"budget": dp.PureDP(1.0)}, "delta"),
    "zCDP and a secret order": (SHUFFLED, {"budget": dp.ZCDP(0.1)}, "ApproxDP"),
    "a search among reports": (SHUFFLED, {"n": 10_000, "clip": "auto"}, "cannot find a clip"),
    "no such clip": (MIRROR, {"clip": "small"}, "clip must be"),
    "a clip to be found, and a moment": (MIRROR, {"clip": "auto", "moment": 1.0}, "moment"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_what_would_work(name):
    solver, changes, word = BAD[name]
    with pytest.raises((AssumptionError, ParameterError), match=word):
        planned(solver, **changes)


@pytest.mark.parametrize("solver", KEYS)
def test_noise_that_drowns_gradients_warns(solver):
    more = {"n": 500, "d": 100, "clip": 1.0}
    if solver == SHUFFLED:
        more["secret_order"] = False
    plan = planned(solver, **more)
    assert plan.noise > 0.1
    assert any("may be worse" in line for line in plan.warnings)
    assert not planned(solver, **{**more, "n": 10**7, "d": 4}).warnings


def test_a_plan_from_a_file_has_one_clip():
    plan = planned(MIRROR, rounds=4)
    ranges = ({"row_range": rows} for rows in ((0, 1001), (-1, 4), (5, 5)))
    for change in (*ranges, {"clip": None}, {"tail": 5}, {"step": -1.0}, {"p": 2.5}, {"rounds": 0}):
        with pytest.raises(ParameterError):
            dataclasses.replace(plan, **change)
    searched = planned(MIRROR, n=4000, problem=SQUARED, rounds=4)
    with pytest.raises(ParameterError, match="a clip, or a search"):
        dataclasses.replace(searched, clip=1.0)


def test_rows_of_the_search_that_are_read_again_cost_more_than_the_budget():
    """A planted bug: the slice that the clip was found in is used for training as well."""
    plan = planned(MIRROR, n=20_000, problem=SQUARED, rounds=4)
    if plan.row_range == (0, plan.n):
        sliced = clip_search(plan.task, way="slice")
        sigma = gaussian_sigma(BUDGET, bound=1.0, rows=sliced.rows, count=4)
        plan = dataclasses.replace(plan, search=sliced.release, row_range=sliced.rows, sigma=sigma)
    assert plan.row_range[0] > 0
    assert plan.cost.against(BUDGET)[0] <= BUDGET.epsilon
    again = dataclasses.replace(plan, row_range=(0, plan.n))
    assert again.cost.against(BUDGET)[0] > BUDGET.epsilon * 1.05


@pytest.mark.parametrize("solver", KEYS)
def test_no_default_takes_what_was_not_measured_better(solver):
    entry = registry()[solver]
    assert (entry.measured, entry.range) == (None, None)
