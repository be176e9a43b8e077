"""Solvers whose clip follows the gradients: plans, cost, refusals, runs, and a planted bug."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.audit import contract
from dpsco.data.gradient_norms import LIGHT, TrackedGradient, tracked_bound
from dpsco.errors import AssumptionError, BudgetError, ParameterError
from dpsco.fit.run import load_plan
from dpsco.privacy import Ledger, Randomness
from dpsco.privacy.accounting.composition import cost
from dpsco.solvers import get
from dpsco.solvers.common.clips import descent_clip
from dpsco.solvers.common.found_clip import FEW_TRACKED, low_start
from dpsco.solvers.common.moment_clips import unit_noise
from dpsco.solvers.engine import run_rounds

KEYS = ("clipped_reg_subgradient", "clipped_sgd_sc")
OTHERS = ("clipped_acsa", "clipped_prox_sgd", "localized_clipped_subgradient")
KNOWN = {"population_smoothness": 1.0, "strong_convexity": 1.0}
BUDGET = dp.ApproxDP(1.0, 1e-6)
D = 5


def problem(bound=1e6):
    return dp.Problem(
        loss=dp.losses.Squared(),
        bounds=dp.Bounds(bound, label=bound),
        domain=dp.domains.L2Ball(2.0),
    )


def make(key, n=60, budget=BUDGET, bound=1e6, **options):
    known = KNOWN if key == "clipped_sgd_sc" else {}
    options = {"clip": "tracked", **known, **options}
    return dp.plan(problem(bound), n=n, d=D, budget=budget, solver=key, options=options)


def made_up(n, factor=1.0, seed=0):
    """Rows and labels of Student's t: gradients have fewer than three moments."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(6.0, (n, D)) * math.sqrt(4.0 / 6.0)
    y = X @ np.full(D, D**-0.5) + 0.5 * rng.standard_t(3.0, n) / math.sqrt(3.0)
    return X, factor * y


def sums(plan):
    """The noisy sums of a plan: its releases without the search."""
    return [release for release in plan.releases() if release is not plan.search]


def excess(weights):
    return 0.5 * float(np.sum((weights - D**-0.5) ** 2))


# -- plans -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("n", [60, 30_000])
@pytest.mark.parametrize("key", KEYS)
def test_noise_covers_gradients_and_indicators(key, n, adjacency):
    """Each bound is sqrt(1 + weight^2/4), and all releases together cost the budget."""
    plan = make(key, n, dp.ApproxDP(1.0, 1e-6, adjacency=adjacency), rounds=20)
    assert plan.weight == LIGHT
    assert {release.bound for release in sums(plan)} == {tracked_bound(LIGHT)}
    spent = cost(plan.releases(), adjacency=plan.budget.adjacency).epsilon(1e-6)
    assert 0.98 < spent <= 1.0
    if plan.search is None:  # 2.6 % more than for gradients alone
        times = sum(release.count for release in sums(plan)) if key == KEYS[0] else 1
        alone = unit_noise(plan.task) * math.sqrt(times)
        assert sums(plan)[0].sigma == pytest.approx(alone / math.sqrt(0.95), rel=1e-5)


@pytest.mark.parametrize("key", KEYS)
def test_clips_start_at_the_median_or_far_below_the_usual_one(key):
    many, few = make(key, 30_000, rounds=20), make(key, 60, rounds=20)
    assert many.clip is None
    assert many.search.target <= 0.5 * many.search.row_count
    assert few.search is None
    assert few.clip == low_start(descent_clip(few.task), 20, few.level)
    assert few.clip < 0.3 * descent_clip(few.task)
    assert make(key, 60, rounds=20) == few  # no row was seen


@pytest.mark.parametrize("key", KEYS)
def test_certificates_speak_of_a_clip_that_the_run_finds(key):
    plan = make(key, rounds=16)
    assert plan.finds_clip
    said = dp.run(plan, made_up(60), randomness=Randomness.seeded(1)).certificate.enforced
    assert any("1.02598 times the clip that the run has found" in line for line in said)
    assert not any(f"at most {plan.clip:g}" in line for line in said)


@pytest.mark.parametrize("key", KEYS)
def test_few_rounds_are_warned_of_before_a_row_is_read(key):
    assert any("14 rounds to arrive" in line for line in make(key, rounds=14).warnings)
    assert not any("to arrive" in line for line in make(key, rounds=15).warnings)
    assert not any("to arrive" in line for line in make(key, rounds=14, clip=1.0).warnings)
    default = make(key, 30_000)
    assert sum(release.count for release in sums(default)) >= FEW_TRACKED


@pytest.mark.parametrize("key", OTHERS)
def test_other_solvers_do_not_take_the_word(key):
    with pytest.raises(ParameterError, match="clip must be one of"):
        dp.plan(problem(), n=60, d=D, budget=BUDGET, solver=key, options={"clip": "tracked"})


@pytest.mark.parametrize("key", KEYS)
def test_what_cannot_be_followed_is_refused(key):
    with pytest.raises(AssumptionError, match=r"follows an l2 clip.*oracle='l2_clip'"):
        make(key, oracle="coordinate_clip")
    if key == "clipped_reg_subgradient":
        with pytest.raises(AssumptionError, match="regularization has the unit of gradients"):
            make(key, regularization=0.5)


@pytest.mark.parametrize("key", KEYS)
def test_plans_in_files_are_checked(key):
    plan = make(key, rounds=16)
    assert load_plan(plan.to_json()) == plan
    for name, value in (("weight", -1.0), ("weight", 1e9), ("level", 1.0), ("level", 0.0)):
        with pytest.raises(ParameterError):
            dataclasses.replace(plan, **{name: value})
    with pytest.raises(ParameterError, match="l2 clip"):
        dataclasses.replace(plan, oracle=dp.plan(
            problem(), n=60, d=D, budget=BUDGET, solver=key,
            options={"oracle": "coordinate_clip", "clip": 1.0, **(KNOWN if key == KEYS[1] else {})},
        ).oracle)  # fmt: skip
    lighter = dataclasses.replace(plan, weight=2.0 * LIGHT)  # a wider bound at the same noise
    with pytest.raises(BudgetError, match="planned releases cost"):
        dp.run(lighter, made_up(60))


# -- runs ------------------------------------------------------------------------------------------


def stepper_after(plan, data):
    """The stepper of a run, without its certificate: for the clip at the end."""
    source = dp.data.from_arrays(*data).bounded(plan.problem.bounds, order="given")
    ledger = Ledger(plan.releases(), plan.budget, randomness=Randomness.seeded(3))
    stepper = get(plan.solver).stepper(plan)
    run_rounds(plan, stepper, source, ledger, progress=lambda *_: None)
    ledger.close()
    return stepper, source


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("key", KEYS)
def test_clips_follow_gradients_of_any_size(key, factor):
    """Labels times 1e-6, 1, 1e6: the clip ends near the quantile that it follows."""
    domain = dp.domains.L2Ball(2.0 * factor)
    facts = dataclasses.replace(problem(), bounds=dp.Bounds(1e3, label=1e9), domain=domain)
    known = KNOWN if key == "clipped_sgd_sc" else {}
    options = {"clip": "tracked", "rounds": 30, **known}
    plan = dp.plan(facts, n=30_000, d=D, budget=BUDGET, solver=key, options=options)
    stepper, source = stepper_after(plan, made_up(30_000, factor))
    query = dp.data.GradientNorms(
        facts.loss, stepper.output(), [stepper.clip / 2.0, 2.0 * stepper.clip, 1e30]
    )
    below, near, _ = source.sum(query) / 30_000
    assert below < plan.level < below + near


def test_low_starts_end_where_the_specification_says_and_high_ones_do_not():
    """20 batches, 32,000 rows: excess 0.0003 from a clip of 0.1, as good as none from 1,000."""
    plan = make("clipped_sgd_sc", 32_000, rounds=20)
    found = {}
    for start in (0.1, 1000.0):
        begun = dataclasses.replace(plan, clip=start, search=None)
        result = dp.run(begun, made_up(32_000), randomness=Randomness.seeded(2))
        found[start] = excess(result.weights)
    fixed = make("clipped_sgd_sc", 32_000, clip=0.1, rounds=20)
    still = excess(dp.run(fixed, made_up(32_000), randomness=Randomness.seeded(2)).weights)
    assert found[0.1] < 0.002
    assert still > 0.1  # the same clip, which stays where it is
    assert found[1000.0] > 0.05


@pytest.mark.parametrize("key", KEYS)
def test_rows_that_are_no_numbers_or_huge_move_little(key):
    """0.5 % of the labels times 1 to 1e300, infinite or NaN."""
    plan, found = make(key, 20_000, rounds=20), []
    for factor in (1.0, 1e4, 1e300, math.inf, math.nan):
        X, y = made_up(20_000)
        y[::200] *= factor
        found.append(excess(dp.run(plan, (X, y), randomness=Randomness.seeded(4)).weights))
    assert max(found) <= 1.15 * min(found)


class _StopError(Exception):
    """Ends a run half-way."""


@pytest.mark.parametrize("n", [pytest.param(60, marks=pytest.mark.thorough), 20_000])
@pytest.mark.parametrize("key", KEYS)
def test_a_run_goes_on_with_the_clip_where_it_was(key, n, tmp_path):
    plan, data = make(key, n, rounds=16), made_up(n)

    def stop(done, total):
        if done == 7:
            raise _StopError

    kept = tmp_path / "half"
    with pytest.raises(_StopError):
        dp.run(plan, data, checkpoint=kept, randomness=Randomness.seeded(4), progress=stop)
    resumed = dp.run(plan, data, checkpoint=kept)
    whole = dp.run(plan, data, checkpoint=tmp_path / "whole", randomness=Randomness.seeded(4))
    assert resumed.weights.tobytes() == whole.weights.tobytes()


# -- a planted bug ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
def test_an_indicator_that_is_not_centred_is_caught(key, monkeypatch):
    """0 or 1 in the place of -1/2 or 1/2: an emptied row moves the pair by more than its bound."""
    budget = dp.ApproxDP(4.0, 1e-4, adjacency="zero_out")
    # The gradient of the row has the length of the first clip: both parts move as far as they may.
    plan = dataclasses.replace(
        make(key, 60, budget, rounds=16, bound=2.0), clip=1.0 + 1e-9, search=None
    )
    X, y = np.zeros((60, D)), np.zeros(60)
    X[0, 0], y[0] = 1.0, 1.0
    data = (np.vstack([np.full((1, D), np.nan), X[1:]]), y)
    others = {"there": (X, y)}
    assert contract.check_replay(plan, data, others, row=0) == []
    honest = TrackedGradient.sum

    def uncentred(query, block):
        total = honest(query, block)
        total[-1] += 0.5 * np.count_nonzero(block.present)
        return total

    monkeypatch.setattr(TrackedGradient, "sum", uncentred)
    assert contract.check_replay(plan, data, others, row=0)


def test_an_indicator_for_nothing_is_caught():
    """Noise for gradients of 1 alone, beside an indicator: more than the budget."""
    plan = make("clipped_sgd_sc", 60, rounds=16)
    cheap = dataclasses.replace(plan, sigma=plan.sigma / tracked_bound(plan.weight))
    assert contract.check_cost(plan) == []
    assert contract.check_cost(cheap)
