"""What a theorem does not cover is refused before any row is read, with something that works."""

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import AssumptionError, DataError, ParameterError
from dpsco.solvers import registry

BUDGET = dp.ApproxDP(1.0, 1e-6)
SIGN = dp.Bounds(1.0, label="sign")

ODD = {
    "not convex": dp.Problem(loss=dp.losses.Sigmoid(), bounds=SIGN, domain=dp.domains.L2Ball(2.0)),
    "nonsmooth": dp.Problem(loss=dp.losses.Hinge(), bounds=SIGN, domain=dp.domains.L2Ball(2.0)),
    "free": dp.Problem(loss=dp.losses.Logistic(), bounds=SIGN),
    "slope without bound": dp.Problem(
        loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=1.0)
    ),
    "l1 penalty": dp.Problem(
        loss=dp.losses.Logistic(), bounds=SIGN, penalty=dp.losses.L1Penalty(0.1)
    ),
    "other norm": dp.Problem(
        loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign", norm=dp.geometry.LINF)
    ),
    "polytope": dp.Problem(
        loss=dp.losses.Logistic(), bounds=SIGN, domain=dp.domains.L1Ball(2.0)
    ),
    "ball": dp.Problem(loss=dp.losses.Logistic(), bounds=SIGN, domain=dp.domains.L2Ball(2.0)),
}  # fmt: skip
BUDGETS = {
    "approx": BUDGET,
    "pure": dp.PureDP(1.0),
    "add_remove": dp.ApproxDP(1.0, 1e-6, adjacency="add_remove"),
}


class Untouchable(dp.data.tables.table.Table):
    def __init__(self, n=500, d=3):
        super().__init__(n, d, np.dtype(float), "number")

    def _source(self, bounds, shuffle):
        raise AssertionError("rows were touched")


@pytest.mark.thorough
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", ODD)
def test_refusals_come_before_rows_and_name_what_works(solver, name, budget):
    entry, problem, spend = registry()[solver], ODD[name], BUDGETS[budget]
    reasons = entry.refusals(dp.Task(problem, 500, 3, spend))
    if not reasons:
        return
    with pytest.raises(AssumptionError) as refusal:
        dp.solve(problem, Untouchable(), spend, solver=solver)
    text = str(refusal.value)
    assert text.startswith(f"{solver} does not apply: ")
    assert all(reason in text for reason in reasons)
    others = [k for k, s in registry().items() if not s.refusals(dp.Task(problem, 500, 3, spend))]
    assert ("No solver here applies" in text) == (not others)
    named = text.split("Solvers that apply:")[-1]
    assert not others or sum(other in named for other in others) >= min(len(others), 6)


def test_stability_is_not_claimed_for_losses_that_are_not_convex(solver):
    """Whoever releases a stable vector or a minimiser must refuse what is not convex."""
    entry = registry()[solver]
    problem = ODD["ball"]
    if entry.refusals(dp.Task(problem, 500, 3, BUDGET)):
        problem = ODD["free"]
    if entry.refusals(dp.Task(problem, 500, 3, BUDGET)):
        problem = dp.Problem(
            loss=dp.losses.Logistic(), bounds=SIGN, penalty=dp.losses.L2Penalty(0.1)
        )
    if entry.refusals(dp.Task(problem, 500, 3, BUDGET)):
        problem = ODD["polytope"]
    if entry.refusals(dp.Task(problem, 500, 3, BUDGET)):
        pytest.skip("it takes other problems")
    short = {"rounds": 8} if "rounds" in entry.options else {}
    made = dp.plan(problem, n=500, d=3, budget=BUDGET, solver=solver, options=short)
    kinds = {release.kind for release in made.releases()}
    rests_on_convexity = kinds & {
        "stable_gaussian", "stable_gamma", "with_replacement", "objective_perturbation",
    }  # fmt: skip
    if not rests_on_convexity:
        return
    import dataclasses

    wild = dataclasses.replace(problem, loss=dp.losses.Sigmoid())
    reasons = entry.refusals(dp.Task(wild, 500, 3, BUDGET))
    assert any("convex" in reason for reason in reasons)


def test_options_out_of_range_are_refused(solver):
    entry, problem = registry()[solver], ODD["ball"]
    if entry.refusals(dp.Task(problem, 500, 3, BUDGET)):
        problem = ODD["free"]
    if entry.refusals(dp.Task(problem, 500, 3, BUDGET)):
        problem = dp.Problem(
            loss=dp.losses.Logistic(), bounds=SIGN, penalty=dp.losses.L2Penalty(0.1)
        )
    if entry.refusals(dp.Task(problem, 500, 3, BUDGET)):
        problem = ODD["polytope"]
    numeric = {"rounds", "passes", "epochs", "clip", "step", "batch", "rate", "tail"}
    assert set(entry.options), "every solver has settings of its own"
    for name in sorted(numeric & set(entry.options)):
        for value in (-1, float("nan"), "many"):
            with pytest.raises((ParameterError, AssumptionError), match=name):
                dp.plan(problem, n=500, d=3, budget=BUDGET, solver=solver, options={name: value})


@pytest.mark.slow
def test_tables_of_another_shape_are_refused(solver, planned):
    plan = planned(solver)[0].plan
    with pytest.raises(DataError, match="Make a plan with the table's own n and d"):
        dp.run(plan, Untouchable(plan.n + 1, plan.d))


@pytest.mark.thorough
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows_are_refused_or_served(solver, planned, n):
    case = planned(solver)[0]
    try:
        made = dp.plan(
            case.plan.problem, n=n, d=3, budget=case.plan.budget, solver=solver,
            options=case.options,
        )  # fmt: skip
    except (AssumptionError, ParameterError):
        return
    weights = dp.run(made, tuple(part[:n] for part in case.data)).weights
    assert np.all(np.isfinite(weights))
