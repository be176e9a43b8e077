"""What all plans share: printing, JSON, cost; results; entries of the registry."""

import dataclasses
import json
import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import AssumptionError
from dpsco.privacy import GaussianRelease
from dpsco.solvers import needs, registry
from dpsco.solvers.base import BasePlan, Result, TraceLine, check_cost

PROBLEM = dp.Problem(
    loss=dp.losses.Logistic(),
    bounds=dp.Bounds(1.0, label="sign"),
    domain=dp.domains.L2Ball(3.0),
)
BUDGET = dp.ApproxDP(1.0, 1e-6)


def make(**options):
    return dp.plan(PROBLEM, n=1000, d=4, budget=BUDGET, solver="noisy_gd", options=options)


@pytest.fixture(scope="module")
def plan():
    return make(rounds=7)


def test_plan_is_frozen(plan):
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.sigma = 0.0


def test_plan_prints_what_a_run_will_do(plan):
    shown = str(plan)
    assert shown.startswith("plan of noisy_gd: Problem(Logistic()")
    for words in ("1,000 rows of 4 features", "calibration", "rounds", "released: ", "enforced: "):
        assert words in shown
    assert f"{plan.sigma:.6g}" in shown
    assert "(its theorem in practical form; no forecast)" in shown
    assert "at most 1" in shown


def test_long_fields_are_shortened():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Long(BasePlan):
        steps: tuple[float, ...]

        def releases(self):
            return tuple(GaussianRelease(1.0, 1e3 + k, rows=(0, 10)) for k in range(9))

    made = Long(
        solver="x", task=dp.Task(PROBLEM, 10, 4, BUDGET), steps=tuple(map(float, range(50)))
    )
    assert "0, 1, 2, 3, ... (50 in all)" in str(made)
    assert "... and 3 more" in str(made)
    assert "predicted" not in str(made)  # no risk is known
    assert math.isnan(made.risk)
    assert made.trusted == ()
    assert made.enforced == PROBLEM.bounds.enforced
    for missing in (lambda: BasePlan.releases(made), lambda: BasePlan.schedule(made)):
        with pytest.raises(NotImplementedError):
            missing()


def test_trace_has_a_line_for_each_round(plan):
    assert plan.total_rounds == 7 == len(plan.trace())
    assert plan.trace()[0] == TraceLine(1, (0, 1000), plan.step, plan.sigma)
    assert [line.round for line in plan.trace()] == list(range(1, 8))


def test_cost_is_that_of_the_releases(plan):
    mu = math.sqrt(7) * 2.0 * plan.clip / plan.sigma
    assert plan.cost.mu == pytest.approx(mu, rel=1e-6)
    assert plan.cost.epsilon(1e-6) <= 1.0
    assert plan.cost.epsilon(1e-6) > 0.999


def test_cost_above_the_budget_is_refused(plan):
    assert check_cost(plan) is plan
    task = dataclasses.replace(plan.task, calibration="paper")
    cheat = dataclasses.replace(plan, sigma=plan.sigma * 0.9, task=task)
    with pytest.raises(AssumptionError, match=r"published constants .* calibration='tight'"):
        check_cost(cheat)


def test_json_keeps_everything(plan):
    again = dp.load_plan(plan.to_json())
    assert again == plan
    assert type(again) is type(plan)
    assert again.releases() == plan.releases()
    assert set(json.loads(plan.to_json())) == {f.name for f in dataclasses.fields(plan)}


def test_result_shows_its_solver(plan):
    certificate = dp.run(
        plan, (np.zeros((1000, 4)), np.ones(1000)), randomness=dp.Randomness.seeded(1)
    ).certificate
    result = Result(np.zeros(4), certificate, plan, plan.trace())
    assert result.solver == "noisy_gd"
    assert "trace" not in repr(result)


def test_entry_knows_its_options():
    entry = registry()["noisy_gd"]
    assert {"rounds", "clip", "step"} <= set(entry.options)
    assert not {"problem", "n", "d", "budget", "calibration"} & set(entry.options)


def test_entry_says_why_it_does_not_apply():
    flat = dp.Problem(
        loss=dp.losses.Hinge(), bounds=dp.Bounds(1.0, label="sign", norm=dp.geometry.LINF)
    )
    entry = dataclasses.replace(
        registry()["noisy_gd"],
        needs=(needs.EUCLIDEAN, needs.SMOOTH, needs.BOUNDED, needs.GAUSSIAN, needs.CONVEX),
    )
    reasons = entry.refusals(dp.Task(flat, 10, 2, dp.PureDP(1.0)))
    assert len(reasons) == 4
    for words in ("l2 norm", "smooth loss", "bounded domain", "pure budget"):
        assert any(words in reason for reason in reasons)
    assert entry.refusals(dp.Task(PROBLEM, 10, 2, BUDGET)) == ()


def test_record_is_json(plan):
    record = registry()["noisy_gd"].record()
    assert json.loads(json.dumps(record)) == record
    assert record["needs"] == [need.name for need in registry()["noisy_gd"].needs]


def test_a_result_prints_in_two_lines():
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    X, y = np.ones((100, 30)) / 6, np.ones(100)
    seeded = dp.Randomness.seeded(1)
    options = {"solver": "noisy_gd", "options": {"rounds": 2}}
    result = dp.solve(problem, (X, y), dp.ApproxDP(1.0, 1e-6), randomness=seeded, **options)
    lines = str(result).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("30 weights by noisy_gd, epsilon 1 at delta 1e-06, replace_one")
    assert "seed is secret" in lines[0]
