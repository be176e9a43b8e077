"""Deliberate privacy bugs: for every solver, a check of the contract must see each of them."""

import contextlib
import importlib

import numpy as np
import pytest

import dpsco as dp
from dpsco.audit import BUGS, contract, planted, record
from dpsco.errors import DpscoError, ParameterError
from dpsco.privacy import Adjacency, Randomness
from dpsco.solvers import registry

SELECTIONS = {"selection", "fading_selection"}
planting = importlib.import_module("dpsco.audit.planted")  # the function has the same name


def caught(check, *given, **named):
    """Return what a check says; an error of the library is a catch too."""
    try:
        return check(*given, **named)
    except DpscoError as problem:
        return [str(problem)]


def seen(bug, case):
    """Return whether the contract sees a bug in a case, by the check that is there for it."""
    if bug == "half_noise":
        plan, numbers = case.plan, 80
        if {release.kind for release in plan.releases()} <= SELECTIONS:
            # An index says something of its noise only where scores differ by about as much.
            given = {"budget": dp.ApproxDP(20.0, 1e-4), "solver": case.solver}
            plan = dp.plan(plan.problem, n=plan.n, d=plan.d, options=case.options, **given)
            numbers = 700
        drawn = len(contract.noise(record(plan, case.data)))
        assert contract.check_noise(plan, case.data, seeds=range(2)) == []
        with planted(bug, case.solver):
            return caught(contract.check_noise, plan, case.data, seeds=range(2 + numbers // drawn))
    if bug == "reused_seed":
        drawn = len(contract.noise(record(case.plan, case.data)))
        with planted(bug, case.solver):  # selections of a few candidates say little each
            return caught(contract.check_noise, case.plan, case.data, seeds=range(2 + 80 // drawn))
    if bug == "skipped_empty_batch":
        with planted(bug, case.solver):
            return caught(contract.check_ledger, case.plan, case.nothing)
    if bug == "forgotten_factor":
        return _factor_seen(case)
    if bug == "work_from_rows":
        with planted(bug, case.solver):
            return caught(contract.check_work, case.plan, *case.decided)
    if bug == "forecast_from_rows":
        with planted(bug, case.solver):
            return caught(contract.check_messages, case.plan, *case.decided)
    if bug in ("branch_on_rows", "branch_on_any"):
        with planted(bug, case.solver):
            return caught(contract.check_replay, case.plan, *case.decided, row=0)
    data, others = case.compared(0, *{"divisor_from_data": ["nan", "full"]}.get(bug, ()))
    if bug == "unclipped_row":  # large, yet small enough for the arithmetic
        X = case.data[0].copy()
        X[0] = X[0] * 1e6
        others = {"large": (X, *case.data[1:])}
    with planted(bug, case.solver):
        found = caught(contract.check_replay, case.plan, data, others, row=0)
        if not found and bug == "unclipped_row":  # a minimiser need not move far for a large row
            found = caught(contract.check_rows, case.plan, others["large"])
        return found


def _factor_seen(case):
    """Plan with the bug, at a budget that no cache has seen, and check that plan."""
    budget = dp.ApproxDP(2.9, 0.7e-4)
    with planted("forgotten_factor", case.solver):
        given = {"budget": budget, "solver": case.solver, "options": case.options}
        plan = dp.plan(case.plan.problem, n=case.plan.n, d=case.plan.d, **given)
        found = caught(contract.check_cost, plan)
        if not found:
            data, others = case.lonely
            found = caught(contract.check_replay, plan, data, others, row=0)
    return found


def harmless(bug, case):
    """Return whether a bug finds nothing to spoil: then it must change no bit of a run."""
    if bug not in ("skipped_empty_batch", "start_from_data", "divisor_from_data"):
        return False
    plan, rows = case.plan, case.nothing if bug == "skipped_empty_batch" else case.data
    if bug == "divisor_from_data":
        rows = case.compared(0, "nan")[1]["nan"]
    clean = record(plan, rows)
    with contextlib.suppress(DpscoError), planted(bug, case.solver):
        spoilt = record(plan, rows)
        pairs = zip(clean.events, spoilt.events, strict=True)
        alike = all(np.array_equal(a.inputs, b.inputs) for a, b in pairs)
        return alike and spoilt.weights.tobytes() == clean.weights.tobytes()
    return False


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_caught(solver, bug, planned):
    # A declared sensitivity is reached on some problems only, so the factor needs all of them.
    every = planned(solver, "replace_one", every=bug == "forgotten_factor")
    open_cases = [case for case in every if not harmless(bug, case)]
    if not open_cases:  # a perturbed minimiser is never an empty sum; an index has no divisor
        kinds = {release.kind for case in every for release in case.plan.releases()}
        assert bug in ("skipped_empty_batch", "divisor_from_data")
        minimised = bug == "skipped_empty_batch"
        assert kinds <= ({"objective_perturbation"} if minimised else SELECTIONS)
        return
    assert any(seen(bug, case) for case in open_cases), bug


@pytest.mark.thorough
def test_what_plants_bugs_is_harmless_itself(solver, planned):
    """Catches are due to the bug, not to what stands between a solver and its ledger."""
    case = planned(solver, "replace_one")[0]
    clean = record(case.plan, case.data).weights

    @planting._in_runs
    def nothing(run, plan, source, ledger, progress):
        return run(plan, source, planting._Between(ledger), progress)

    with nothing(solver):
        assert contract.check_ledger(case.plan, case.data) == []
        assert record(case.plan, case.data).weights.tobytes() == clean.tobytes()


def test_bugs_are_gone_after_the_block(planned):
    case = planned("noisy_gd", "replace_one")[0]
    before, entry = record(case.plan, case.data).weights, registry()["noisy_gd"]
    for bug in BUGS:
        with planted(bug, "noisy_gd"), contextlib.suppress(DpscoError):
            record(case.plan, case.data)
    assert registry()["noisy_gd"] is entry
    assert np.array_equal(record(case.plan, case.data).weights, before)
    assert Adjacency.REPLACE_ONE.factor == 2
    root = Randomness.seeded(1)
    assert root.child("a").words(1) != root.child("a").words(1)
    assert root.child("a").normals(10_000).std() > 0.9


def test_unknown_bugs_and_solvers_are_refused():
    with pytest.raises(ParameterError, match="bug must be one of"), planted("none", "noisy_gd"):
        pass
    with pytest.raises(ParameterError, match="solver must be"), planted("half_noise", "none"):
        pass


def test_every_bug_says_what_it_breaks():
    assert {bug.breaks for bug in BUGS.values()} <= {
        "replay", "ledger", "noise law", "independence", "cost", "work", "messages",
    }  # fmt: skip
    assert set(BUGS) == {
        "half_noise", "unclipped_row", "reused_seed", "divisor_from_data", "skipped_empty_batch",
        "start_from_data", "forgotten_factor", "branch_on_rows", "branch_on_any",
        "work_from_rows", "forecast_from_rows",
    }  # fmt: skip
