"""Clips that are found: known plans, what they cost, refusals, and runs on made-up rows."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import ndtr

import dpsco as dp
from dpsco.audit import contract
from dpsco.audit.planted import planted as planting
from dpsco.data.gradient_norms import LIGHT, GradientNorms, tracked_bound
from dpsco.data.queries import ClippedGradient
from dpsco.errors import AssumptionError, BudgetError
from dpsco.fit.run import load_plan
from dpsco.privacy import Ledger, Randomness
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.budget import GDP, ZCDP, ApproxDP, PureDP
from dpsco.privacy.mechanisms import (
    ClipQuantileRelease,
    GaussianRelease,
    clip_quantile,
    gaussian_sigma,
)
from dpsco.solvers import get, registry
from dpsco.solvers.common.found_clip import (
    ClipGrid,
    FoundClipStepper,
    TrackedClipStepper,
    _level,
    beside_clip,
    clip_search,
    followed,
    grid_of,
    noise_tail,
    rows_times_epsilon,
    slice_rows,
    tracking_warning,
)
from dpsco.solvers.engine import EnginePlan, run_rounds
from dpsco.task import Task

MU = 0.236704381
WAYS = ("slice", "share")


def task(n=16_000, d=10, budget=None, *, label=1.0, norm=1.0):
    budget = ApproxDP(1.0, 1e-6) if budget is None else budget
    problem = dp.Problem(loss=dp.losses.Squared(), bounds=dp.Bounds(norm, label=label))
    return Task(problem, n, d, budget)


# -- plans -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "d", "rounds", "rows", "tail", "level"),
    [
        (16_000, 10, 8, 1600, 0.00472333458, 0.9875),
        (2000, 10, 6, 200, 0.0327242219, 0.9),
        (100_000, 50, 10, 10_000, 0.00188933383, 0.998),
    ],
)
def test_known_plans(n, d, rounds, rows, tail, level):
    """The specification's, on its grid of 120 clips and at its epsilon of 1."""
    size = n // rounds
    assert math.isclose(
        noise_tail(task(n, d), rows=size, averaged=rounds) * size * rounds / n, tail, rel_tol=1e-8
    )
    grid = ClipGrid(1e-3, 30, 4)
    needed = rows_times_epsilon(tail, grid)
    assert slice_rows(n, tail, 1.0, needed) == rows
    assert math.isclose(_level(tail, rows), level, rel_tol=1e-9)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("budget", [ApproxDP(1.0, 1e-6), ApproxDP(8.0, 1e-6), ZCDP(0.05), GDP(0.3)])
def test_a_search_and_its_rounds_use_the_budget_and_no_more(way, adjacency, budget):
    budget = dataclasses.replace(budget, adjacency=adjacency)
    search = clip_search(task(budget=budget), way=way)

    def rounds(sigma):
        return GaussianRelease(1.0, sigma, rows=search.rows, count=50)

    sigma = beside_clip(budget, search.release, rounds)
    spent, allowed = cost([search.release, rounds(sigma)], adjacency=budget.adjacency).against(
        budget
    )
    assert 0.9999 * allowed <= spent <= allowed
    plain = gaussian_sigma(budget, bound=1.0, rows=(0, 16_000), count=50)
    share = (search.rows[1] - search.rows[0]) / 16_000  # noise of a mean
    assert math.isclose(search.noise, sigma / plain / share, rel_tol=1e-3)
    assert (search.rows[0] == 0) == (way == "share")
    assert search.release.rows == ((0, search.rows[0]) if way == "slice" else (0, 16_000))


def test_the_cheaper_way_is_taken():
    """A slice of a tenth costs 11 % more noise, a share of the budget 1 to 5 %."""
    for n, epsilon in ((2000, 1.0), (16_000, 1.0), (2000, 8.0)):
        both = [clip_search(task(n, budget=ApproxDP(epsilon, 1e-6)), way=way) for way in WAYS]
        best = clip_search(task(n, budget=ApproxDP(epsilon, 1e-6)))
        assert best.noise == min(each.noise for each in both)
        assert math.isclose(both[0].noise, n / (n - both[0].rows[0]))
        assert best.noise < 1.06
    assert clip_search(task(1000)).rows[0] > 0  # here a share would have to be too large


def test_a_tenth_of_each_costs_what_it_is_said_to():
    """Of the rows 11.1 % more noise; of mu^2 6.0 %, where a Gaussian release would cost 5.4 %."""
    budget, rows = ApproxDP(1.0, 1e-6), (0, 16_000)
    epsilon = 2 * budget.mu_per_row() * math.sqrt(0.1)
    release = ClipQuantileRelease(2 / epsilon, 14_000, 241, rows=rows)
    sigma = beside_clip(budget, release, lambda s: GaussianRelease(1.0, s, rows=rows))
    ratio = sigma / gaussian_sigma(budget, bound=1.0, rows=rows)
    assert 1.054 < 1 / math.sqrt(0.9) < ratio < 1.061
    assert math.isclose(16_000 / 14_400, 1.111, rel_tol=1e-3)


@pytest.mark.parametrize("way", [*WAYS, "auto"])
def test_too_few_rows_are_refused_with_the_number_that_is_enough(way):
    with pytest.raises(AssumptionError, match=r"cannot be found in 300 rows") as refusal:
        clip_search(task(300), way=way)
    enough = int(str(refusal.value).split("takes ")[1].split(". Give")[0].replace(",", ""))
    tail = noise_tail(task(300))
    assert clip_search(task(enough), tail, way=way).noise < 2
    with pytest.raises(AssumptionError, match="cannot be found"):
        clip_search(task(enough - 5), tail, way=way)


def test_pure_budgets_are_refused():
    with pytest.raises(AssumptionError, match="Gaussian noise"):
        clip_search(task(budget=PureDP(1.0)))


def test_the_range_that_a_gaussian_budget_pays_for():
    """ln(Phi(mu/2)/Phi(-mu/2)) = 0.18898 for mu = 0.236704, the specification's."""
    search = clip_search(task(budget=GDP(MU)), way="slice")
    assert math.isclose(2 / search.release.scale, 0.18898, rel_tol=2e-3)
    assert 2 / search.release.scale < math.log(ndtr(MU / 2) / ndtr(-MU / 2))


def test_rows_of_the_slice_that_are_used_again_are_paid_for():
    """The planted bug: rounds on all rows at the noise of rounds on the rest."""
    budget = ApproxDP(1.0, 1e-6)
    search = clip_search(task(budget=budget), way="slice")
    sigma = beside_clip(budget, search.release, lambda s: GaussianRelease(1.0, s, rows=search.rows))
    honest = GaussianRelease(1.0, sigma, rows=search.rows)
    Ledger([search.release, honest], budget)
    reused = GaussianRelease(1.0, sigma, rows=(0, 16_000))
    with pytest.raises(BudgetError):
        Ledger([search.release, reused], budget)
    # Whoever plans such rounds gets noise that pays for both.
    both = beside_clip(budget, search.release, lambda s: GaussianRelease(1.0, s, rows=(0, 16_000)))
    assert both > 20 * sigma or both == math.inf


def test_grids_follow_the_longest_gradient_at_the_start():
    assert grid_of(task(label=1.0)).lowest == 2.0**-60
    assert grid_of(task(label=1e6)).lowest == 2.0**-40
    assert grid_of(task(label=1e6)).candidates == 241
    longest = task(label=1e6).start_gradient
    grid = ClipQuantileRelease(1.0, 1, 241, 2.0**-40, 4, rows=(0, 9)).grid
    assert longest <= grid[-1] < 4 * longest
    assert ClipGrid().candidates == 641


# -- a clip that follows ---------------------------------------------------------------------------


def test_clips_grow_fast_and_shrink_slowly():
    assert math.isclose(followed(1.0, -0.5, level=0.8), math.exp(0.8))
    assert math.isclose(followed(1.0, 0.5, level=0.8), math.exp(-0.2))
    assert followed(1.0, 0.3, level=0.8) == 1.0
    assert math.isclose(followed(1.0, -9.0, level=0.8), math.exp(0.8))
    assert math.isclose(followed(1.0, math.nan, level=0.8), 1.0)
    assert followed(1e100, -0.5, level=0.8) == 1e100


def test_the_count_costs_what_it_is_said_to():
    """2.6 % more noise on the gradient, for a share of 0.05 of mu^2."""
    budget = ApproxDP(1.0, 1e-6)
    sigma = gaussian_sigma(budget, bound=tracked_bound(), rows=(0, 1000), count=20)
    plain = gaussian_sigma(budget, bound=1.0, rows=(0, 1000), count=20)
    assert math.isclose(sigma / plain, 1 / math.sqrt(0.95), rel_tol=1e-6)
    assert math.isclose(tracked_bound() ** 2, 1 + LIGHT**2 / 4, rel_tol=1e-12)
    # sigma_b = 1/(s mu sqrt(phi)) of the specification, for the share of s rows
    mu = budget.mu_per_row() / math.sqrt(20)
    assert math.isclose(sigma / LIGHT / 1000, 1 / (1000 * mu * math.sqrt(0.05)), rel_tol=1e-5)


def test_few_rounds_are_warned_of():
    assert tracking_warning(15) == ()
    assert "14 rounds" in tracking_warning(14)[0]


# -- on rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Descent(EnginePlan):
    """Gradient descent on a clip that is found, public, or follows."""

    rounds: int
    sigma: float
    clip: float | None
    search: ClipQuantileRelease | None
    rows: tuple[int, ...]
    weight: float | None = None
    level: float = 0.8

    def releases(self):
        bound = 1.0 if self.weight is None else tracked_bound(self.weight)
        if self.search is None and self.weight is None:
            bound = self.clip
        noisy = GaussianRelease(bound, self.sigma, rows=self.rows, count=self.rounds)
        return (noisy,) if self.search is None else (self.search, noisy)

    @property
    def finds_clip(self):
        return self.search is not None or self.weight is not None


class Found(FoundClipStepper):
    vectors = ("weights", "unit")

    def __init__(self, plan):
        super().__init__(plan, plan.task.start)
        self.weights = plan.task.start
        self.totals = []

    def gradient(self):
        return ClippedGradient(self.plan.problem.loss, self.weights, self.clip)

    def move(self, total):
        self.totals.append(total)
        self.weights = self.weights - 0.5 * total / (self.plan.rows[1] - self.plan.rows[0])

    def output(self):
        return self.weights


class Tracked(Found, TrackedClipStepper):
    pass


def planned(n, budget, way=None, *, label=1e9, clip=None, weight=None, rounds=10):
    facts = task(n, 3, budget, label=label, norm=2.0)
    search = None if way is None else clip_search(facts, way=way, grid=ClipGrid())
    rows = (0, n) if search is None else search.rows
    release = None if search is None else search.release
    bound = clip or 1.0 if weight is None and search is None else tracked_bound(weight or 1e-6)

    def build(sigma):
        return GaussianRelease(bound, sigma, rows=rows, count=rounds)

    sigma = beside_clip(budget, release, build)
    return Descent(
        solver="toy",
        task=facts,
        rounds=rounds,
        sigma=sigma,
        clip=clip,
        search=release,
        rows=rows,
        weight=weight,
    )


def made_up(n, factor, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) / 3
    return X, factor * (X @ np.array([1.0, -2.0, 0.5]) + 0.1 * rng.standard_t(3, size=n))


def ran(plan, data, stepper, seed=0):
    source = dp.data.from_arrays(*data).bounded(plan.problem.bounds, order="given")
    ledger = Ledger(plan.releases(), plan.budget, randomness=Randomness.seeded(seed))
    walker = stepper(plan)
    run_rounds(plan, walker, source, ledger, progress=lambda *_: None)
    ledger.close()
    return walker, source


@pytest.mark.parametrize("way", WAYS)
def test_clips_scale_with_gradients_and_are_near_their_quantile(way):
    """Labels times 1e-6, 1 and 1e6: the same clip in their units, but for a cell of the grid."""
    plan = planned(20_000, ApproxDP(1.0, 1e-6), way)
    ratios = []
    for factor in (1e-6, 1.0, 1e6):
        walker, source = ran(plan, made_up(20_000, factor), Found)
        grid = np.geomspace(1e-9, 1e9, 4000)
        counts = source.sum(GradientNorms(plan.problem.loss, np.zeros(3), grid))
        level = plan.search.target / plan.search.row_count
        quantile = grid[np.searchsorted(np.cumsum(counts), level * 20_000)]
        ratios.append(walker.clip / quantile)
    assert all(0.5 < ratio < 2.0 for ratio in ratios)
    assert max(ratios) / min(ratios) < 1.6


@pytest.mark.parametrize("way", WAYS)
def test_outliers_and_numbers_that_are_none_move_nothing(way):
    """0.5 % of labels times 1 to 1e300, infinite or NaN: the clip stays within a factor 2."""
    plan, clips = planned(20_000, ApproxDP(1.0, 1e-6), way), []
    for factor in (1.0, 1e4, 1e300, math.inf, math.nan):
        X, y = made_up(20_000, 1.0)
        y[::200] *= factor
        walker, _ = ran(plan, (X, y), Found)
        assert np.all(np.isfinite(walker.weights))
        clips.append(walker.clip)
    assert max(clips) / min(clips) <= 2.0


def test_a_public_clip_takes_the_same_stepper():
    plan = planned(2000, ApproxDP(1e4, 1e-2), clip=0.25)
    walker, source = ran(plan, made_up(2000, 1.0), Found)
    assert (walker.turn, walker.clip) == (10, 0.25)
    query = ClippedGradient(plan.problem.loss, np.zeros(3), 0.25)
    np.testing.assert_allclose(walker.totals[0], source.sum(query), atol=0.1)


def test_sums_come_back_in_the_units_of_the_loss():
    plan = planned(20_000, ApproxDP(100.0, 1e-2), "share")
    walker, source = ran(plan, made_up(20_000, 1e6), Found)
    query = ClippedGradient(plan.problem.loss, np.zeros(3), walker.clip)
    np.testing.assert_allclose(walker.totals[0], source.sum(query), rtol=0.02)


def test_clips_that_start_low_follow():
    """From a thousandth of the gradients up to about their quantile, in 40 rounds."""
    plan = planned(20_000, ApproxDP(4.0, 1e-6), clip=1e-3, weight=LIGHT, rounds=40)
    walker, source = ran(plan, made_up(20_000, 1.0), Tracked)
    query = GradientNorms(plan.problem.loss, walker.weights, [walker.clip / 2, walker.clip, 1e9])
    below, within, beyond = source.sum(query) / 20_000
    assert 0.7 < below + within < 0.9
    assert below < 0.8
    assert beyond > 0.1


# -- contracts -------------------------------------------------------------------------------------


@pytest.fixture
def toy():
    entry = dataclasses.replace(get("noisy_gd"), key="toy", stepper=Found, plan_type=Descent)
    registry()["toy"] = entry
    try:
        yield
    finally:
        del registry()["toy"]


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("way", WAYS)
def test_neighbours_are_replayed(toy, way, adjacency):
    plan = planned(3000, ApproxDP(2.0, 1e-6, adjacency=adjacency), way, rounds=2)
    X, y = made_up(3000, 1.0)
    X[0] = np.nan
    others = {}
    for name, row in (("long", [1e30, 0, 0]), ("usual", [0.1, 0.2, 0.3]), ("zero", [0, 0, 0])):
        others[name] = (np.vstack([[row], X[1:]]), np.append(1e300, y[1:]))
    assert contract.check_replay(plan, (X, y), others, row=0) == []
    assert contract.check_ledger(plan, (X, y)) == []
    assert contract.check_cost(plan) == []
    assert contract.check_noise(plan, (X, y), seeds=range(20)) == []


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("way", WAYS)
def test_bugs_of_the_charge_are_caught(monkeypatch, way, adjacency):
    """A clip at half its price, and a replaced row taken for an emptied one beside a clip."""
    plan = planned(3000, ApproxDP(2.0, 1e-6, adjacency=adjacency), way, rounds=2)
    with monkeypatch.context() as patched:
        patched.setattr(clip_quantile, "RANGE", 1.0)
        assert any("two tables show" in problem for problem in contract.check_cost(plan))
    with planting("forgotten_factor", "noisy_gd"):
        bug = planned(3000, ApproxDP(2.0, 1e-6, adjacency=adjacency), way, rounds=2)
        assert bool(contract.check_cost(bug)) == (adjacency == "replace_one")


class _StopError(Exception):
    """Ends a run half-way."""


@pytest.mark.usefixtures("toy")
def test_a_run_goes_on_with_the_clip_that_it_has_found(tmp_path):
    """Stopped after the search and two rounds: the same weights as in one go, and plans as JSON."""
    plan, data = planned(3000, ApproxDP(2.0, 1e-6), "share", rounds=5), made_up(3000, 1.0)
    assert load_plan(plan.to_json()) == plan

    def stop(done, total):
        if done == 3:
            raise _StopError

    checkpoint = tmp_path / "half"
    with pytest.raises(_StopError):
        dp.run(plan, data, checkpoint=checkpoint, randomness=Randomness.seeded(4), progress=stop)
    resumed = dp.run(plan, data, checkpoint=checkpoint)
    whole = dp.run(plan, data, checkpoint=tmp_path / "whole", randomness=Randomness.seeded(4))
    assert resumed.weights.tobytes() == whole.weights.tobytes()
    assert resumed.certificate.epsilon(1e-6) <= 2.0
    assert any("clip that the run has found" in line for line in resumed.certificate.enforced)
