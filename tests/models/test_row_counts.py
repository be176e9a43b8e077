"""A count of rows beside a fit: planned before data, one certificate, within the budget."""

import dataclasses
import json
import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.audit.replay import Recording, RecordingLedger, compare
from dpsco.data import Classes, from_arrays
from dpsco.data.counts import FAINTEST, PresentRows
from dpsco.errors import (
    AccuracyWarning,
    AssumptionError,
    BudgetError,
    DpscoError,
    LedgerError,
    ParameterError,
)
from dpsco.models import SavedModel
from dpsco.models.row_counts import (
    PRECISE,
    SHARE,
    CountedPlan,
    count_beside,
    plan_count,
    plan_with_count,
    run_with_count,
)
from dpsco.privacy import certificate_text as statement
from dpsco.privacy.mechanisms import StableGammaRelease
from dpsco.privacy.release import flatten
from dpsco.solvers import registry

N, D = 1500, 4
ROWS = np.random.default_rng(0).standard_normal((N, D)) / 3
LABELS = (ROWS[:, 0] > 0).astype(float)
PROBLEM = dp.Problem(
    loss=dp.losses.Logistic(),
    domain=dp.domains.L2Ball(5.0),
    bounds=dp.Bounds(1.0, label=Classes([0, 1])),
)
BUDGETS = {
    "replace_one": dp.ApproxDP(1.0, 1 / N**2),
    "zero_out": dp.ApproxDP(1.0, 1 / N**2, adjacency="zero_out"),
    "weak": dp.ApproxDP(8.0, 1 / N**2),
    "person": dp.ApproxDP(1.0, 1 / N**2, unit=dp.Unit(3, "person")),
    "rho": dp.ZCDP(0.03),
    "mu": dp.GDP(0.25),
    "pure": dp.PureDP(4.0),
}


def counted(solver="noisy_gd", budget=BUDGETS["replace_one"], **more):
    return plan_with_count(PROBLEM, n=N, d=D, budget=budget, solver=solver, **more)


def sigmas(plan):
    """The noise of each of a plan's releases, to compare two plans of one shape."""
    return [
        getattr(a, "sigma", None) or getattr(a, "scale", None) for a in flatten(plan.releases())
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("solver", registry())
def test_every_solver_shares_its_budget_with_a_count(solver, name):
    """Within the budget and close to it; executed equals planned; the fit's noise hardly grows."""
    if solver == "noisy_gd_split_baseline":
        pytest.skip("it splits its budget over rounds that read different rows, and spends less")
    if solver == "shuffled_truncated_mirror_descent":
        pytest.skip(
            "what a secret order hides does not compose with other releases: it spends less"
        )
    budget = BUDGETS[name]
    try:
        alone = dp.plan(PROBLEM, n=N, d=D, budget=budget, solver=solver)
    except DpscoError:
        pytest.skip("the solver does not take such a budget")
    made = counted(solver, budget)
    spent, allowed = made.cost.against(budget)
    assert 0.995 * allowed <= spent <= allowed
    if len(sigmas(alone)) == len(sigmas(made.fit)):
        ratio = sigmas(made.fit)[-1] / sigmas(alone)[-1]
        assert 1.0 <= ratio <= 1.0105
    result, found = run_with_count(made, (ROWS, LABELS), randomness=dp.Randomness.seeded(3))
    assert result.certificate.cost.satisfies(budget)
    assert result.certificate.verify(cross_check=False).ok
    assert sorted(map(str, result.certificate.releases)) == sorted(
        map(str, flatten(made.releases()))
    )
    assert abs(found.count - N) <= 5.5 * found.sigma  # of Gaussian noise 4e-8 lies beyond
    assert (found.rows, found.entries) == (N, None)
    # The plan of the fit is one of the whole budget, and finds room for the count again.
    assert made.fit.budget == budget
    again = count_beside(dp.load_plan(made.fit.to_json()))
    assert again == made
    beside = count_beside(alone)  # a coarsely calibrated plan may have room, too
    assert beside is None or beside.cost.satisfies(budget)
    if solver == "noisy_gd":
        assert beside is None


@pytest.mark.thorough
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize(("n", "loss"), [(600, "Logistic"), (5000, "Huber"), (400_000, "Hinge")])
def test_auto_counts_within_the_budget(n, loss, adjacency):
    budget = dp.ApproxDP(1.0, 1 / n**2, adjacency=adjacency)
    kinds = {"Logistic": dp.losses.Logistic(), "Huber": dp.losses.Huber(0.5)}
    problem = dp.Problem(
        loss=kinds.get(loss, dp.losses.Hinge()),
        bounds=dp.Bounds(1.0, label=(-1.0, 1.0) if loss == "Huber" else "sign"),
    )
    made = plan_with_count(problem, n=n, d=20, budget=budget)
    assert made.cost.satisfies(budget)
    assert made.fit.solver == dp.plan(problem, n=n, d=20, budget=budget).solver


@pytest.mark.parametrize("name", BUDGETS)
def test_the_price_is_what_is_said(name):
    budget = BUDGETS[name]
    small = plan_count(budget, n=N)
    assert small.share <= SHARE
    assert small.share >= 0.99 * SHARE or small.sigma == pytest.approx(PRECISE * N)
    assert isinstance(small.release, StableGammaRelease) == (name == "pure")
    large = plan_count(budget, n=10**6)
    assert large.sigma == pytest.approx(PRECISE * 10**6)
    assert large.share < 0.02 * small.share
    alone = dp.privacy.cost(small.release, adjacency=budget.adjacency, unit=budget.unit)
    if name != "pure":  # one row, or one person's rows, move the count by 1 each
        assert alone.mu == pytest.approx(budget.unit.rows / small.sigma, rel=1e-6)
    assert f"takes {statement.rounded_up(100 * small.share, 2)} % of" in small.enforced[-1]
    pair = plan_count(budget, n=N, query=PresentRows(3, 5))
    assert pair.sigma >= small.sigma
    assert pair.share <= SHARE


def test_the_adjacencies_move_a_count_alike():
    """By 1, not 2: a row that takes another's place adds 0 or 1 as well."""
    one, other = (plan_count(BUDGETS[name], n=N) for name in ("replace_one", "zero_out"))
    assert one.sigma == pytest.approx(other.sigma, rel=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["replace_one", "zero_out", "pure"])
def test_noise_of_a_count_has_the_stated_spread(name):
    """2,000 counts: the spread is within 20 % at a false-alarm rate below 1e-6."""
    made = plan_count(BUDGETS[name], n=N, query=PresentRows(D, D))
    source = from_arrays(ROWS, LABELS).bounded(PROBLEM.bounds)
    randomness = dp.Randomness.seeded(5)
    budget = dataclasses.replace(made.budget, epsilon=1e6)
    ledger = dp.Ledger(
        [dataclasses.replace(made.release, count=2000)], budget, randomness=randomness
    )
    found = [made.run(source, ledger) for _ in range(2000)]
    for values in ([a.count - N for a in found], [a.entries - N for a in found]):
        assert 0.8 < np.std(values) / made.sigma < 1.2
        assert abs(np.mean(values)) < 5.5 * made.sigma / math.sqrt(2000)


def record(made, data, script=None):
    """Run count and fit through a ledger that remembers, with the answers of ``script``."""
    ledger = RecordingLedger(
        made.releases(), made.count.budget, randomness=dp.Randomness.seeded(0)
    ).reopened(0, script)
    source = from_arrays(*data).bounded(PROBLEM.bounds, order="given")
    found = made.count.run(source, ledger)
    result = dp.fit.run.execute(made.fit, source, ledger)
    events = tuple(ledger.events)
    return Recording(made.fit, 0, result.weights, events, result.certificate, ()), found


@pytest.mark.thorough
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("solver", ["noisy_gd", "acc_srgd", "phased_sgd"])
def test_replay_on_neighbours(solver, adjacency):
    """Given the same noisy answers: same count, same weights, inputs as near as declared."""
    made = counted(solver, BUDGETS[adjacency])
    first, count = record(made, (ROWS, LABELS))
    moved = []
    for label in (np.nan, 7.0) if adjacency == "zero_out" else (np.nan, 7.0, 1.0 - LABELS[7]):
        y = LABELS.copy()
        y[7] = label
        second, again = record(made, (ROWS, y), first.events)
        assert compare(first, second) == []
        assert again == count
        moved.append(float(abs(first.events[0].inputs[0] - second.events[0].inputs[0])[0]))
    declared = made.count.release.sensitivity  # which allows for rounding
    assert max(moved) == 1.0 < declared < 1.0 + 1e-11


def test_a_plan_whose_count_was_not_run_returns_nothing():
    made = counted()
    ledger = made.ledger()
    source = from_arrays(ROWS, LABELS).bounded(PROBLEM.bounds)
    with pytest.raises(LedgerError, match="not executed"):
        dp.fit.run.execute(made.fit, source, ledger)


def test_an_odometer_pays_for_both(tmp_path):
    budget = BUDGETS["replace_one"]
    odometer = dp.Odometer(tmp_path / "a", dp.ApproxDP(1.2, budget.delta))
    run_with_count(counted(), (ROWS, LABELS), odometer=odometer)
    (entry,) = odometer.entries()
    assert set(entry.releases) == set(flatten(counted().releases()))
    with pytest.raises(BudgetError):
        run_with_count(counted(), (ROWS, LABELS), odometer=odometer)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"n": 100}, AssumptionError, "100 rows are too few.*takes [0-9]+ rows"),
        ({"budget": dp.ApproxDP(1.0, 1e-6, adjacency="add_remove")}, AssumptionError, "add_remove"),
        ({"budget": 1.0}, ParameterError, "needs a budget"),
        ({"n": 0}, ParameterError, "n must"),
    ],
    ids=str,
)
def test_what_cannot_be_counted_is_refused_before_data(change, error, words):
    facts = {"n": N, "d": D, "budget": BUDGETS["replace_one"], "solver": "noisy_gd", **change}
    with pytest.raises(error, match=words):
        plan_with_count(PROBLEM, **facts)


def test_parts_that_do_not_belong_together_are_refused():
    made = counted()
    other = counted(budget=BUDGETS["zero_out"])
    longer = dataclasses.replace(made.fit.task, n=N + 1)
    for fit in (other.fit, dataclasses.replace(made.fit, task=longer)):
        with pytest.raises(ParameterError, match="different"):
            CountedPlan(count=made.count, fit=fit)
    with pytest.raises(ParameterError, match="plan_with_count"):
        run_with_count(made.fit, (ROWS, LABELS))
    with pytest.raises(ParameterError, match="rows of 9 numbers"):  # before anything is paid
        counted(query=PresentRows(3, 9))


def test_rows_that_come_once_are_not_counted():
    plan = counted("acc_srgd")
    batches = dp.data.from_batches(iter([(ROWS, LABELS)]), n=N, d=D)
    with pytest.raises(ParameterError, match=r"come once.*cannot be counted"):
        run_with_count(plan, batches, order="given")


def test_chunks_that_begin_anew_are_counted_like_arrays():
    plan, outcomes = counted("acc_srgd"), []
    chunks = [(ROWS[:700], LABELS[:700]), (ROWS[700:], LABELS[700:])]
    for data in ((ROWS, LABELS), dp.data.from_batches(chunks, n=N, d=D)):
        seed = dp.Randomness.seeded(1)
        outcomes.append(run_with_count(plan, data, order="given", randomness=seed))
    (fit, count), (other, recount) = outcomes
    assert np.array_equal(fit.weights, other.weights)
    assert count == recount


def model(**more):
    return dp.PrivateLogisticRegression(epsilon=1.0, classes=["no", "yes"], **more)


WORDS = np.where(LABELS > 0, "yes", "no")


@pytest.mark.thorough
@pytest.mark.parametrize("bounds", [{"feature_norm": 1.0}, {}])
def test_an_estimator_says_how_many_rows_counted(bounds, tmp_path):
    X, y = np.vstack([ROWS, ROWS]), np.concatenate([WORDS, WORDS])
    made = model(count_rows=True, random_state=1, **bounds).fit(X, y)
    found = made.rows_counted_
    assert found.rows == 2 * N
    assert abs(found.count - 2 * N) < 5.5 * found.sigma <= 5.5 * FAINTEST * 2 * N
    assert made.certificate_.epsilon(1 / (2 * N) ** 2) <= 1.0
    made.save(tmp_path / "model.json")
    assert SavedModel.load(tmp_path / "model.json").rows_counted == found
    made.set_params(count_rows=False).fit(X, y)
    assert not hasattr(made, "rows_counted_")
    made.save(tmp_path / "model.json")
    assert "rows_counted" not in json.loads((tmp_path / "model.json").read_text())
    with pytest.warns(AccuracyWarning, match=r"only about .* of 3,000 rows"):
        model(count_rows=True, random_state=1, **bounds).fit(X, np.char.upper(y))


def test_estimators_refuse_counts_that_cannot_be(tmp_path):
    with pytest.raises(ParameterError, match="neither with a checkpoint"):
        model(count_rows=True, feature_norm=1.0).fit(ROWS, WORDS, checkpoint=tmp_path / "c")
    with pytest.raises(ParameterError, match="True or False"):
        model(count_rows="yes", feature_norm=1.0).fit(ROWS, WORDS)
    search = dp.PrivateGridSearch(model(count_rows=True, feature_norm=1.0), {"alpha": [0.0, 0.1]})
    with pytest.raises(ParameterError, match="counts no rows"):
        search.fit(ROWS, WORDS)
