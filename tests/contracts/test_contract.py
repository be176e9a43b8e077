"""What every solver must keep; parametrised over the registry by conftest.py."""

import inspect
import json
import math
from pathlib import Path

import numpy as np
import pytest

import dpsco as dp
from dpsco.audit import contract
from dpsco.data.source import Source
from dpsco.data.tables.table import Table
from dpsco.solvers import registry

DOCS = Path(__file__).parents[2] / "docs" / "solvers"


# -- the entry -------------------------------------------------------------------------------------


def test_entry_says_what_the_solver_is(solver):
    entry = registry()[solver]
    record = json.loads(json.dumps(entry.record()))
    assert record["key"] == solver == entry.key
    for name in ("summary", "paper", "reference", "setting", "rounds", "cost"):
        assert record[name].strip(), name
    assert entry.calibrations
    assert set(entry.calibrations) <= {"tight", "conjectured", "paper"}


def test_entry_has_a_page(solver):
    text = (DOCS / f"{solver}.md").read_text(encoding="utf-8")
    assert solver in text
    assert "```python" in text


def test_plan_takes_no_data(solver):
    entry = registry()[solver]
    names = [*inspect.signature(entry.plan).parameters]
    assert names[:1] == ["task"]
    assert not {"X", "y", "data", "table", "source", "rows", "labels"} & set(names)
    for parameter in list(inspect.signature(entry.plan).parameters.values())[1:]:
        assert parameter.kind is parameter.KEYWORD_ONLY, parameter
        assert not isinstance(parameter.default, (np.ndarray, Table, Source))


def test_every_solver_is_covered(solver, planned):
    kinds = {case.adjacency for case in planned(solver)}
    assert kinds == {"replace_one", "zero_out"}, "no problem of conftest.py can be planned"


# -- plans -----------------------------------------------------------------------------------------


def test_plan_is_public(case):
    assert contract.check_plan(case.plan) == []
    problem, plan = case.plan.problem, case.plan
    given = {"budget": plan.budget, "solver": case.solver, "options": case.options}
    assert dp.plan(problem, n=plan.n, d=plan.d, **given) == plan
    assert case.solver in str(case.plan)
    assert case.plan.enforced[: len(problem.bounds.enforced)] == problem.bounds.enforced


def test_cost_is_within_the_budget(case):
    assert contract.check_cost(case.plan) == []


def test_predictions_are_cheap_numbers(case):
    import time

    entry, task = registry()[case.solver], case.plan.task
    entry.risk(task)  # caches of the budget are warm
    start = time.process_time()
    risk = entry.risk(task)
    assert time.process_time() - start < 0.05
    assert math.isfinite(risk)
    assert risk > 0.0
    assert entry.gradients(task) >= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 0.9, 4.0])
def test_published_constants_are_confirmed_or_refused(solver, planned, epsilon):
    entry, case = registry()[solver], planned(solver, "replace_one")[0]
    for calibration in set(entry.calibrations) - {"tight"}:
        budget = dp.ApproxDP(epsilon, 1e-5)
        try:
            made = dp.plan(
                case.plan.problem, n=400, d=3, budget=budget, solver=solver, calibration=calibration
            )
        except dp.errors.AssumptionError:
            continue
        assert made.calibration == calibration
        assert contract.check_cost(made) == []


def test_rows_are_within_their_bounds(case):
    _, others = case.compared(0)
    assert [contract.check_rows(case.plan, data) for data in others.values()] == [[]] * len(others)


# -- runs ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_replay_on_neighbours(case):
    data, others = case.compared(0)
    assert contract.check_replay(case.plan, data, others, row=0) == []


def test_replay_wherever_the_neighbours_differ(case):
    """Also at the edge of a batch, where a row is that of the next one alone."""
    edges = sorted({line.rows[0] for line in case.plan.trace()} - {0})
    for row in (case.plan.n // 2 + 1, case.plan.n - 1, *edges[:1]):
        data, others = case.compared(row, "flip")
        assert contract.check_replay(case.plan, data, others, row=row) == []


@pytest.mark.slow
def test_replay_where_one_row_decides(case):
    data, others = case.decided
    assert contract.check_replay(case.plan, data, others, row=0) == []


def test_replay_drops_a_class(case):
    pair = case.dropped_class(0)
    if pair is None or case.adjacency == "zero_out":
        return
    assert contract.check_replay(case.plan, *pair, row=0) == []


@pytest.mark.thorough
def test_messages_do_not_depend_on_a_row(solver, planned):
    for case in planned(solver, "replace_one"):
        assert contract.check_messages(case.plan, *case.decided) == []


@pytest.mark.thorough
def test_work_does_not_depend_on_a_row(solver, planned):
    """Gradients, Hessians, passes and reads on 50 neighbours."""
    for case in planned(solver, "replace_one"):
        data, others = case.adversarial
        assert len(others) >= 50
        assert contract.check_work(case.plan, data, others) == [], case.id


def test_milestones_are_stated(solver, planned):
    for case in planned(solver):
        stated = any("public milestones" in line for line in case.plan.trusted)
        assert stated == bool(case.plan.milestones)
        if case.plan.milestones:
            assert "public milestones" in str(contract.record(case.plan, case.data).certificate)


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["approx_objective_perturbation", "phased_erm"])
@pytest.mark.parametrize("bug", ["rounds", "tries"])
def test_early_exits_are_seen(key, bug, planned, monkeypatch):
    """A minimisation that ends when it can: between its rounds, or within one."""
    from dpsco.solvers.common import minimise as module

    monkeypatch.setattr(module, "PARTS", (1,))
    if bug == "rounds":
        one_by_one = module.Effort(5, tuple(range(1, 40)))
        monkeypatch.setattr(module, "effort", lambda size, condition, rows: one_by_one)
    else:
        work = module._round

        def hasty(objective, place, model, tries):
            small = float(np.linalg.norm(place.gradient)) < 1e-8
            work(objective, place, model, 1 if small else tries)

        monkeypatch.setattr(module, "_round", hasty)
    found = []
    for case in planned(key, "replace_one"):
        found += contract.check_work(case.plan, *case.adversarial)
    assert found


def test_ledger_equals_plan(case):
    assert contract.check_ledger(case.plan, case.data) == []


def test_both_accountants_confirm_the_certificate(solver, planned):
    pytest.importorskip("dp_accounting")
    case = planned(solver)[0]
    certificate = contract.record(case.plan, case.data).certificate
    assert certificate.verify(cross_check=True).problems == ()
    epsilon, delta = case.plan.budget.epsilon, case.plan.budget.delta
    assert certificate.epsilon(delta) <= epsilon


def test_rows_that_are_all_missing_change_nothing_public(case):
    assert contract.check_ledger(case.plan, case.nothing) == []


def test_noise_has_its_size_and_is_never_shared(solver, planned):
    case = planned(solver)[0]
    drawn = len(contract.noise(contract.record(case.plan, case.data)))
    runs = max(2, math.ceil(80 / max(drawn, 1)))
    assert contract.check_noise(case.plan, case.data, seeds=range(runs)) == []


def test_secure_runs_differ_and_seeded_runs_repeat(solver, planned):
    case = planned(solver)[0]
    secure = [dp.run(case.plan, case.data) for _ in range(2)]
    assert not np.array_equal(secure[0].weights, secure[1].weights)
    assert not secure[0].certificate.reproducible
    seeded = [
        dp.run(case.plan, case.data, randomness=dp.Randomness.seeded(3)).weights for _ in range(2)
    ]
    assert np.array_equal(*seeded)
    assert secure[0].trace == case.plan.trace()
    assert secure[0].solver == case.solver


@pytest.mark.parametrize("features", [1e3, 1e-3])
def test_units_of_the_features_do_not_matter(solver, planned, features):
    """Features and their bound in other units give the same predictions."""
    case = next((c for c in planned(solver, "replace_one") if c.problem == "logistic-ball"), None)
    if case is None:
        return
    problem = dp.Problem(
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(features, label="sign"),
        domain=dp.domains.L2Ball(3.0 / features),
    )
    given = {"budget": case.plan.budget, "solver": solver, "options": case.options}
    other = dp.plan(problem, n=case.plan.n, d=case.plan.d, **given)
    X, y = case.data
    one = contract.record(case.plan, (X, y)).weights
    two = contract.record(other, (X * features, y)).weights * features
    assert np.allclose(one, two, rtol=1e-4, atol=1e-6)
