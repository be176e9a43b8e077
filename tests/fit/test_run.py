"""plan, run, solve: what they check, in which order, and what they hand back."""

import json

import numpy as np
import pytest

import dpsco as dp
from dpsco.data.tables.table import UNCHOSEN
from dpsco.errors import AssumptionError, BudgetError, DataError, LedgerError, ParameterError
from dpsco.fit import run as api
from dpsco.solvers import registry

RNG = np.random.default_rng(2)
X = RNG.standard_normal((300, 3)) * 0.5
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
BUDGET = dp.ApproxDP(2.0, 1e-5)
PROBLEM = dp.Problem(
    loss=dp.losses.Logistic(),
    bounds=dp.Bounds(1.0, label="sign"),
    domain=dp.domains.L2Ball(5.0),
)


def make(problem=PROBLEM, n=300, d=3, budget=BUDGET, solver="noisy_gd", **more):
    return dp.plan(problem, n=n, d=d, budget=budget, solver=solver, **more)


class Untouchable(dp.data.tables.table.Table):
    """A table that fails the test when its rows are looked at."""

    def __init__(self, n=300, d=3):
        super().__init__(n, d, np.dtype(float), "number")

    def _source(self, bounds, shuffle):
        raise AssertionError("rows were touched")


# -- plan ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"problem": "logistic"}, "must be a Problem"),
        ({"budget": 1.0}, "ApproxDP"),
        ({"calibration": "loose"}, "calibration"),
        ({"solver": "none"}, "solver must be 'auto' or one of"),
        ({"solver": None}, "solver must be 'auto' or one of"),
        ({"options": {"colour": 1}}, "no option 'colour'; its options are: .*rounds"),
        ({"options": {"rounds": 0}}, "rounds"),
        ({"n": 0}, "n must be"),
        ({"d": 0}, "d must be"),
    ],
)
def test_bad_arguments_are_refused(change, words):
    with pytest.raises(ParameterError, match=words):
        make(**change)


def test_unmet_needs_name_what_applies():
    flat = dp.Problem(
        loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign", norm=dp.geometry.LINF)
    )
    with pytest.raises(AssumptionError, match=r"noisy_gd does not apply: .*l2 norm"):
        make(problem=flat)
    with pytest.raises(AssumptionError, match="pure budget"):
        make(budget=dp.PureDP(1.0))


def test_missing_calibration_names_what_has_it():
    refused = [key for key, entry in registry().items() if "paper" not in entry.calibrations]
    with pytest.raises(AssumptionError, match=r"it has calibration 'tight'.*not 'paper'"):
        make(solver=refused[0], calibration="paper")


def test_auto_takes_one_that_applies():
    made = make(solver="auto")
    entry = registry()[made.solver]
    assert entry.refusals(dp.Task(PROBLEM, 300, 3, BUDGET)) == ()
    with pytest.raises(AssumptionError):
        make(solver="auto", budget=dp.PureDP(1.0), problem=dp.Problem(
            loss=dp.losses.Sigmoid(), bounds=dp.Bounds(1.0, label="sign"),
        ))  # fmt: skip


# -- run -------------------------------------------------------------------------------------------


def test_run_hands_back_weights_and_their_cost():
    plan, seen = make(options={"rounds": 5}), []
    result = dp.run(plan, (X, Y), progress=lambda done, total: seen.append((done, total)))
    assert result.weights.shape == (3,)
    assert result.plan is plan
    assert result.trace == plan.trace()
    assert result.certificate.epsilon(1e-5) <= 2.0
    assert result.certificate.verify(cross_check=False).problems == ()
    assert not result.certificate.reproducible
    assert seen == [(k, 5) for k in range(1, 6)]


@pytest.mark.thorough
def test_sources_and_tables_give_the_same():
    plan = make()

    def run(data, order="given"):
        return dp.run(plan, data, order=order, randomness=dp.Randomness.seeded(4)).weights

    table = dp.data.from_arrays(X, Y)
    source = table.bounded(PROBLEM.bounds, order="given")
    assert np.array_equal(run((X, Y)), run(table))
    assert np.array_equal(run((X, Y)), run(source))
    # The order of the rows moves a full-batch sum by rounding only.
    assert np.allclose(run((X, Y)), run(table, "shuffled"), atol=0.2)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ("rows", ParameterError, "needs a table"),
        ((X[:200], Y[:200]), DataError, "300 rows of 3 columns, the table has 200 of 3"),
        ((X[:, :2], Y), DataError, "the table has 300 of 2"),
        (Untouchable(299), DataError, "has 299 of 3"),
        (Untouchable(300, 4), DataError, "has 300 of 4"),
    ],
)
def test_other_shapes_are_refused_before_rows_are_read(data, error, words):
    with pytest.raises(error, match=words):
        dp.run(make(), data)


def test_source_with_other_bounds_is_refused():
    source = dp.data.from_arrays(X, Y).bounded(dp.Bounds(2.0, label="sign"))
    with pytest.raises(DataError, match="the plan is for Bounds"):
        dp.run(make(), source)


def test_source_with_an_intercept_counts_it():
    bounds = dp.Bounds(1.0, label="sign", intercept=1.0)
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=bounds)
    source = dp.data.from_arrays(X, Y).bounded(bounds)
    assert dp.run(make(problem), source).weights.shape == (4,)
    assert dp.solve(problem, source, BUDGET, solver="noisy_gd").plan.d == 3


def test_only_plans_are_run():
    with pytest.raises(ParameterError, match="needs a plan"):
        dp.run("noisy_gd", (X, Y))


def test_a_run_that_leaves_its_plan_returns_nothing(monkeypatch):
    import dataclasses

    plan, entry = make(), registry()["noisy_gd"]

    def lazy(plan, source, ledger, progress):
        return np.zeros(3)

    replaced = dataclasses.replace(entry, run=lazy, stepper=None)
    monkeypatch.setitem(registry(), "noisy_gd", replaced)
    with pytest.raises(LedgerError, match="planned releases were not executed"):
        dp.run(plan, (X, Y))


def test_an_odometer_pays_before_rows_are_read(tmp_path):
    odometer = dp.Odometer(tmp_path / "spent.jsonl", dp.ApproxDP(2.1, 1e-5))
    plan = make()
    dp.run(plan, (X, Y), odometer=odometer)
    with pytest.raises(BudgetError):
        dp.run(plan, Untouchable(), odometer=odometer)


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": "Secret"},
        {"data": (X,)},
        {"data": (X, np.array(["a"] * 300))},
        {"randomness": 7},
        {"progress": 7},
        {"plan": "l1 rows"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_what_is_refused_is_not_paid_for(wrong, tmp_path):
    import dataclasses

    odometer = dp.Odometer(tmp_path / "spent", dp.ApproxDP(5.0, 1e-5))
    plan, data = make(), wrong.pop("data", (X, Y))
    if wrong.pop("plan", None):
        rows = dp.Bounds(1.0, label="sign", norm=dp.geometry.LINF)
        problem = dataclasses.replace(PROBLEM, bounds=rows)
        plan = dataclasses.replace(plan, task=dataclasses.replace(plan.task, problem=problem))
    with pytest.raises((ParameterError, DataError, AssumptionError)):
        dp.run(plan, data, odometer=odometer, **wrong)
    assert odometer.entries() == []


def test_a_plan_of_another_solver_is_refused():
    import dataclasses

    with pytest.raises(ParameterError, match="dp_ftrl does not run"):
        dp.run(dataclasses.replace(make(), solver="dp_ftrl"), Untouchable())


def test_rows_do_not_warn():
    wild = X.copy()
    wild[0], wild[1], wild[2] = 1e308, np.nan, -np.inf
    assert np.all(np.isfinite(dp.run(make(), (wild, Y)).weights))


# -- solve, load_plan ------------------------------------------------------------------------------


def test_solve_is_plan_and_run():
    seeded = [dp.Randomness.seeded(9) for _ in range(2)]
    one = dp.solve(PROBLEM, (X, Y), BUDGET, solver="noisy_gd", randomness=seeded[0])
    two = dp.run(make(), (X, Y), randomness=seeded[1])
    assert np.array_equal(one.weights, two.weights)
    assert one.certificate.reproducible
    assert one.plan == make()
    with pytest.raises(ParameterError, match="needs a table"):
        dp.solve(PROBLEM, X, BUDGET)


def test_solve_refuses_before_it_reads():
    with pytest.raises(AssumptionError):
        dp.solve(PROBLEM, Untouchable(), dp.PureDP(1.0), solver="noisy_gd")


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "7", '{"solver": "none"}', '{"solver": "noisy_gd"}', '{"solver": ["x"]}'],
)
def test_texts_that_are_no_plans(text):
    with pytest.raises(ParameterError):
        dp.load_plan(text)


def test_edited_plans_are_accounted_again():
    plan = make()
    record = json.loads(plan.to_json())
    record["sigma"] = plan.sigma / 2
    with pytest.raises(AssumptionError, match="would cost"):
        dp.load_plan(json.dumps(record))
    del record["sigma"]
    with pytest.raises(ParameterError, match="not a plan"):
        dp.load_plan(json.dumps(record))


@pytest.mark.parametrize(
    ("solver", "change"),
    [
        ("phased_sgd", {"loss": {"type": "Sigmoid"}}),  # not convex: steps may expand
        ("bolt_on_sgd", {"loss": {"type": "Sigmoid"}}),
        ("phased_sgd", {"penalty": {"type": "L1Penalty", "strength": 0.5, "weights": None}}),
        ("dp_sgd_output", {"bounds": {"norm": {"type": "Lp", "p": 1.0}}}),
        ("phased_erm", {"loss": {"type": "Sigmoid"}}),
        ("approx_objective_perturbation", {"loss": {"type": "Sigmoid"}}),
    ],
    ids=str,
)
def test_edited_problems_must_meet_the_needs_again(solver, change):
    record = json.loads(make(solver=solver).to_json())
    for name, value in change.items():
        problem = record["task"]["problem"]
        problem[name] = {**problem[name], **value}
    with pytest.raises(AssumptionError, match="does not apply"):
        dp.load_plan(json.dumps(record))


@pytest.mark.parametrize("solver", ["noisy_gd", "dp_sgd_single_epoch", "dp_sgd_poisson", "dp_ftrl"])
@pytest.mark.parametrize("value", ["x", None, True, [1.0], float("nan"), -1], ids=repr)
def test_no_field_takes_any_value(solver, value):
    record = json.loads(make(solver=solver).to_json())
    right = {"falling"} if value is True else {"mechanism", "model"} if value is None else set()
    for name in sorted(set(record) - right):
        with pytest.raises((ParameterError, AssumptionError)):
            dp.load_plan(json.dumps({**record, name: value}))


def test_batches_beyond_the_rows_are_no_plan():
    record = json.loads(make(solver="dp_sgd_single_epoch").to_json())
    for rounds in (0, 301, 10**30):
        with pytest.raises(ParameterError, match=r"rounds must be|more than 64 bits"):
            dp.load_plan(json.dumps({**record, "rounds": rounds}))


@pytest.mark.parametrize("solver", ["dp_sgd_single_epoch", "dp_ftrl"])
@pytest.mark.parametrize("change", [{"tail": 0}, {"tail": 301}, {"step": 0.0}], ids=str)
def test_iterates_that_no_run_has_are_no_plan(solver, change):
    record = json.loads(make(solver=solver).to_json())
    with pytest.raises(ParameterError, match=r"not a plan of dpsco: (tail|step) must be"):
        dp.load_plan(json.dumps({**record, **change}))


def test_plans_that_say_something_twice_are_no_plans():
    text = make().to_json()
    assert dp.load_plan(text) == make()
    with pytest.raises(ParameterError, match="a field is given twice"):
        dp.load_plan(text[:-1] + ', "rounds": 300}')


def test_deep_texts_are_no_plans():
    text = '{"solver": "noisy_gd", "n": ' + "[" * 100_000 + "]" * 100_000 + "}"
    with pytest.raises(ParameterError, match="not a plan"):
        dp.load_plan(text)


def test_nothing_is_printed(capsys):
    api.run(make(), (X, Y))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"options": 5}, "options must be a dictionary"),
        ({"odometer": "spent.json"}, "odometer must be an Odometer"),
        ({"progress": lambda done: None}, "progress must be a function of"),
    ],
    ids=["options", "odometer", "progress"],
)
def test_helpers_of_the_wrong_kind_are_refused(arguments, words):
    import numpy as np

    made = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    rows = (np.ones((50, 2)), np.ones(50))
    with pytest.raises(dp.errors.ParameterError, match=words):
        dp.solve(made, rows, dp.ApproxDP(1.0, 1e-6), solver="noisy_gd", **arguments)


@pytest.mark.parametrize("data", [(), (1, 2, 3)], ids=["none", "three"])
def test_data_is_a_pair(data):
    made = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    with pytest.raises(dp.errors.ParameterError, match="pair"):
        dp.solve(made, data, dp.ApproxDP(1.0, 1e-6))


def test_a_recommendation_needs_a_problem_and_a_budget():
    made = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    with pytest.raises(dp.errors.ParameterError, match="budget"):
        dp.recommend(made, 10, 4, 1.0)


def test_a_secret_order_without_a_folder_is_refused_before_an_odometer_pays(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"a": np.ones(50), "y": np.ones(50)}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    table = dp.data.from_parquet(tmp_path / "rows.parquet", label="y")
    odometer = dp.Odometer(tmp_path / "odometer", dp.ApproxDP(1.0, 1e-6))
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    with pytest.raises(dp.errors.ParameterError, match="spill"):
        dp.solve(problem, table, dp.ApproxDP(0.5, 1e-7), solver="noisy_gd", odometer=odometer)
    assert odometer.entries() == []


def test_an_odometer_that_hides_the_number_of_rows_does_not_pay_for_plans(tmp_path):
    hidden = dp.ApproxDP(1.0, 1e-6, adjacency="add_remove")
    odometer = dp.Odometer(tmp_path / "odometer", hidden)
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    X, y = np.ones((50, 2)), np.ones(50)
    with pytest.raises(dp.errors.AssumptionError, match="add_remove"):
        dp.solve(problem, (X, y), dp.ApproxDP(0.1, 1e-7), solver="noisy_gd", odometer=odometer)
    assert odometer.entries() == []


def test_solve_takes_a_solver_of_one_pass_for_rows_that_come_once(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((500, 3)), np.where(rng.random(500) < 0.5, -1.0, 1.0)
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    budget = dp.ApproxDP(1.0, 1e-6)
    table = dp.data.from_batches(iter([(X[:200], y[:200]), (X[200:], y[200:])]), n=500, d=3)
    assert dp.solve(problem, table, budget, order="given").solver == "acc_srgd"
    kept = dp.solve(problem, (X, y), budget, checkpoint=tmp_path / "run.checkpoint")
    assert kept.solver == "acc_srgd"


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_certificate_says_that_the_order_of_a_stream_is_trusted(checkpoint, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100, 3)), np.where(rng.random(100) < 0.5, -1.0, 1.0)
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    options = {"rounds": 2}
    plan = dp.plan(
        problem, n=100, d=3, budget=dp.ApproxDP(1.0, 1e-6), solver="dp_ftrl", options=options
    )
    source = dp.data.from_arrays(X, y).bounded(problem.bounds, order="given")
    for name, data, order, said in (
        ("a", (X, y), "shuffled", 0),
        ("b", (X, y), "given", 1),
        ("c", dp.data.from_batches([(X, y)], n=100, d=3), "given", 1),
        ("d", source, "given", 1),  # nobody here knows who chose it
    ):
        more = {"checkpoint": tmp_path / name} if checkpoint else {}
        certificate = dp.run(plan, data, order=order, **more).certificate
        assert sum(line == UNCHOSEN for line in certificate.trusted) == said
        assert ("not chosen by looking at them" in str(certificate)) is bool(said)
        assert certificate.verify(cross_check=False).ok
    assert UNCHOSEN in dp.run(plan, source).certificate.trusted


@pytest.mark.parametrize("solver", ["noisy_gd", "dp_ftrl"])
def test_noise_beyond_every_lattice_is_refused_when_planned(solver):
    """Not when it is drawn, which is after payment."""
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    budget = dp.ApproxDP(1e-12, 1e-15)
    with pytest.raises(dp.errors.ParameterError, match="too small for float64"):
        dp.plan(problem, n=100, d=3, budget=budget, solver=solver)
