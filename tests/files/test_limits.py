"""Numbers in files that would keep a reader busy, or fill the memory, are refused first."""

import json
import sqlite3
import time

import numpy as np
import pytest

import dpsco as dp
from dpsco.data import Hashed, Number, Schema, TableEncoder
from dpsco.errors import (
    AssumptionError,
    CheckpointError,
    DataError,
    DpscoError,
    OdometerError,
    ParameterError,
)
from dpsco.federated import Answer, Request
from dpsco.files import limits as _limits
from dpsco.fit.checkpoint.checkpoint import peek
from dpsco.models import SavedModel, configure
from dpsco.privacy.accounting import stability
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.mechanisms import GaussianRelease, PoissonGaussianRelease, SelectionRelease
from dpsco.privacy.mechanisms.prefix_sum.mechanism import mechanism
from dpsco.solvers import registry

BUDGET = dp.ApproxDP(2.0, 1e-5)
BALL = dp.Problem(
    loss=dp.losses.Logistic(),
    bounds=dp.Bounds(1.0, label="sign"),
    domain=dp.domains.L2Ball(5.0),
)
RIDGE = dp.Problem(
    loss=dp.losses.Logistic(),
    bounds=dp.Bounds(1.0, label="sign"),
    penalty=dp.losses.L2Penalty(0.05),
)
CROSS = dp.Problem(
    loss=dp.losses.Logistic(),
    bounds=dp.Bounds(1.0, label="sign"),
    domain=dp.domains.L1Ball(5.0),
)
FREE = dp.Problem(loss=dp.losses.Huber(0.5), bounds=dp.Bounds(2.0, label=1.5))
MEAN = dp.Problem(
    loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1.0), domain=dp.domains.L2Ball(1.0)
)
NUMBERS = ("n", "d", "rounds", "steps", "batch", "tail", "dimension")


def seconds(todo):
    started = time.process_time()
    todo()
    return time.process_time() - started


def honest(key):
    """Return a plan of a solver as JSON values."""
    # Among so few rows nobody hides.
    options = {"secret_order": False} if key == "shuffled_truncated_mirror_descent" else {}
    for problem in (BALL, RIDGE, FREE, CROSS, MEAN):
        try:
            made = dp.plan(problem, n=240, d=3, budget=BUDGET, solver=key, options=options)
        except DpscoError:
            continue
        return json.loads(made.to_json())
    raise AssertionError(key)


def changed(record, **values):
    """Return the record of a plan with other numbers, each where the record has it."""
    task = {**record["task"], **{k: v for k, v in values.items() if k in record["task"]}}
    others = {name: value for name, value in values.items() if name not in record["task"]}
    return {**record, "task": task, **others}


def outcome(text):
    """Load a plan and show it: it is one, or refused."""
    try:
        str(dp.load_plan(text))
    except DpscoError as problem:
        return problem
    return None


@pytest.mark.thorough
@pytest.mark.parametrize("key", sorted(registry()))
def test_no_number_of_a_plan_keeps_its_reader_busy(key):
    """Alone and together with rows enough for it, whatever the noise."""
    record = honest(key)
    for name in NUMBERS:
        if name not in record and name not in record["task"]:
            continue
        for value in (10**7, 10**9, 10**12, 2**62):
            for more in ({}, {"n": max(value, 240)}, {"n": max(value, 240), "sigma": 1e9}):
                numbers = changed(record, **{**more, name: value})
                if name == "rounds" and isinstance(record.get("mechanism"), dict):
                    numbers["mechanism"] = {**record["mechanism"], "rounds": value}
                text = json.dumps(numbers)
                took = seconds(lambda text=text: outcome(text))
                assert took < 2.0, (name, value, more, took)


@pytest.mark.parametrize("names", [("d",), ("rounds",), ("n", "rounds")])
def test_a_refusal_names_the_limit(names):
    record = honest("dp_sgd_single_epoch")
    assert outcome(json.dumps(record)) is None
    problem = outcome(json.dumps(changed(record, **dict.fromkeys(names, 10**9))))
    assert isinstance(problem, ParameterError)
    assert f"{names[-1]} must be at most" in str(problem)


@pytest.mark.thorough
def test_large_honest_plans_are_read():
    large = {
        "noisy_gd": {"n": 10**9, "d": 10**4},
        "dp_sgd_single_epoch": {"n": 10**6, "d": 10, "options": {"rounds": 30_000}},
        "dp_ftrl": {"n": 10**8, "d": 1000, "options": {"rounds": 10_000}},
        "dp_sgd_output": {"n": 10**6, "d": 100},
        "approx_objective_perturbation": {"n": 10**9, "d": 10**6},
        "phased_sgd": {"n": 10**9, "d": 100},
    }
    for key, size in large.items():
        plan = dp.plan(BALL, budget=BUDGET, solver=key, **size)
        started = time.process_time()
        assert dp.load_plan(plan.to_json()) == plan
        assert time.process_time() - started < 2.0, key


def test_a_million_sampled_steps_are_accounted_for():
    release = PoissonGaussianRelease(1.0, 50.0, 0.01, rows=(0, 10**6), count=10**6)
    started = time.process_time()
    assert 1.0 < cost(release).epsilon(1e-6) < 3.0
    assert time.process_time() - started < 5.0


def test_plans_of_too_many_weights_are_refused_before_any_vector():
    with pytest.raises(ParameterError, match="d must be at most 50,000,000"):
        dp.plan(BALL, n=1000, d=10**9, budget=BUDGET, solver="noisy_gd")
    wide = dp.Problem(
        loss=dp.losses.Softmax(1000), bounds=dp.Bounds(1.0, label=dp.data.Classes(range(1000)))
    )
    with pytest.raises(ParameterError, match=r"1,000,000,000 weights .* at most 50,000,000"):
        dp.plan(wide, n=1000, d=10**6, budget=BUDGET, solver="noisy_gd")


def test_python_plans_of_too_many_rounds_are_refused():
    how = {"n": 10**9, "d": 3, "budget": BUDGET}
    for key in ("dp_sgd_single_epoch", "dp_ftrl", "noisy_gd"):
        with pytest.raises(ParameterError, match="rounds must be at most"):
            dp.plan(BALL, solver=key, options={"rounds": 10**9}, **how)


def test_plans_of_too_many_batches_are_refused_before_their_releases_are_made():
    for count in (_limits.MOST_RELEASES + 1, 10**7):
        sizes = {"n": 10**9, "rounds": count, "batches": count}
        text = json.dumps(changed(honest("noisy_gd"), **sizes, sigma=1e9))
        options = {"rounds": count, "batches": count}
        how = {"n": 10**9, "d": 3, "budget": BUDGET, "solver": "noisy_gd", "options": options}
        started = time.process_time()
        assert "batches must be at most 50,000" in str(outcome(text))
        with pytest.raises(ParameterError, match="batches must be at most 50,000"):
            dp.plan(BALL, **how)
        assert time.process_time() - started < 0.5


# -- mechanisms, releases --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("toeplitz", {"rounds": 2_000_000}),
        ("toeplitz_cn", {"rounds": 2_000_000}),
        ("power", {"rounds": 2_000_000, "exponent": 0.3}),
        ("banded", {"rounds": 1_000_000, "bands": 500_000}),
        ("bisr", {"rounds": 900_000, "bands": 900}),
    ],
)
def test_long_mechanisms_are_refused_when_they_are_made(name, sizes):
    with pytest.raises(ParameterError, match=f"a {name} sum of .* terms is too long"):
        mechanism(name, **sizes)


def test_mechanisms_without_terms_are_as_long_as_any_run():
    for name in ("tree", "tree_honaker", "blt", "blt_cn"):
        assert mechanism(name, rounds=10**7).column_norm > 0.0
        with pytest.raises(ParameterError, match="rounds must be at most 10,000,000"):
            mechanism(name, rounds=10**7 + 1)


@pytest.mark.thorough
def test_the_longest_mechanisms_take_little_time():
    for noise in (
        mechanism("toeplitz", rounds=10**6),
        mechanism("banded", rounds=10**6, bands=20_000),
        mechanism("bisr", rounds=400_000, bands=1400),
    ):
        took = seconds(lambda noise=noise: (noise.column_norm, noise.error_bound()))
        assert took < 5.0, (noise, took)


def test_a_million_coins_are_composed_in_short_time():
    release = SelectionRelease(1.0, 1e5, 10, rows=(0, 100), count=10**6)
    assert seconds(lambda: cost(release).curve([1e-3, 1e-6, 1e-9])) < 1.0


@pytest.mark.thorough
def test_releases_beyond_counting_are_refused():
    rows = (0, 100)
    with pytest.raises(ParameterError, match="count must be at most"):
        GaussianRelease(1.0, 1.0, rows=rows, count=10**19)
    with pytest.raises(ParameterError, match=r"rows\[1\] must be at most"):
        GaussianRelease(1.0, 1.0, rows=(0, 10**16))
    many = [GaussianRelease(1.0, 1.0 + k, rows=rows) for k in range(_limits.MOST_RELEASES + 1)]
    with pytest.raises(AssumptionError, match="50,000 that are accounted for"):
        cost(many)


def test_kinds_of_rows_are_limited():
    many = [SelectionRelease(1.0, 100.0 + k, 10, rows=(k, k + 2)) for k in range(300)]
    with pytest.raises(AssumptionError, match="different kinds of rows"):
        cost(many)
    assert len(cost(many[:200]).rows) == 199


@pytest.mark.thorough
def test_passes_without_end_are_refused():
    how = {"step": 0.1, "gradient": 1.0, "drift": 0.1, "adjacency": "replace_one"}
    for ridge in (0.0, 1e-3):
        with pytest.raises(AssumptionError, match="passes takes long"):
            stability.sgd_sensitivity(n=100, passes=10**9, ridge=ridge, **how)
        assert stability.sgd_sensitivity(n=10**6, passes=50, ridge=ridge, **how) > 0.0


# -- schemas, models, messages ---------------------------------------------------------------------


def test_names_of_buckets_are_made_when_asked_for():
    wide = Schema((Hashed("town", 2**24), Number("age", 0, 100)))
    started = time.process_time()
    encoder = TableEncoder(wide)
    assert encoder.width == 2**24 + 1
    assert time.process_time() - started < 0.5
    with pytest.raises(ParameterError, match="encoded columns must be at most 50,000,000"):
        TableEncoder(Schema(tuple(Hashed(str(k), 2**24) for k in range(3))))


@pytest.mark.thorough
def test_a_schema_file_of_millions_of_categories_is_refused(tmp_path):
    path = tmp_path / "schema.json"
    values = ",".join(map(str, range(5 * 10**6)))
    path.write_text(
        f'{{"version": 1, "columns": [{{"name": "a", "kind": "category", "values": [{values}]}}]}}'
    )
    started = time.process_time()
    with pytest.raises(DataError, match="larger than 33,554,432 bytes"):
        Schema.load(path)
    assert time.process_time() - started < 1.0


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    setup = configure("logistic", feature_norm=2.0, classes=["no", "yes"])
    X, y = rng.uniform(-1, 1, (400, 3)), rng.choice(["no", "yes"], 400)
    result = dp.solve(setup.problem(), (X, y), BUDGET, solver="noisy_gd")
    return SavedModel(setup.model(result.weights), result.certificate, result.plan)


def signed(record):
    from dpsco.models import file

    content = {name: value for name, value in record.items() if name != "digest"}
    return {**content, "digest": file._digest(content)}


def test_weights_of_another_size_than_the_plan_s_are_refused(model):
    record = json.loads(json.dumps(model.to_json()))
    assert SavedModel.from_json(signed(record)).plan == model.plan
    record["coef"] = [[*record["coef"][0], 1.0]]
    with pytest.raises(DataError, match="for 4 features, but its plan is for 3"):
        SavedModel.from_json(signed(record))


@pytest.mark.parametrize("value", ["1.0", None, True, [1.0], {}])
def test_coefficients_are_numbers(model, value):
    record = json.loads(json.dumps(model.to_json()))
    record["coef"][0] = [value, value, value]
    with pytest.raises(DataError):
        SavedModel.from_json(signed(record))


def test_messages_have_limits():
    for kind in (Request, Answer):
        for text, words in (
            (f"[{'[],' * 100}1]", "20 lists"),
            (f"[{'1,' * 500}1]", "400 values"),
            ("[" * 10 + "]" * 10, "its fields are others"),
        ):
            with pytest.raises(ParameterError, match=words):
                kind.from_json(text)


# -- databases -------------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS {1} FROM c"
HOSTILE = {
    "endless view": ("DROP TABLE {0}", "CREATE VIEW {0} AS " + ENDLESS),
    "large view": ("DROP TABLE {0}", "CREATE VIEW {0} AS SELECT zeroblob(2000000000) AS {1}"),
    "computed": ("DROP TABLE {0}", "CREATE TABLE {0} (a, {1} AS (zeroblob(2000000000)))"),
    "trigger": ("CREATE TRIGGER t AFTER INSERT ON {0} BEGIN DELETE FROM {0}; END",),
    "check": ("DROP TABLE {0}", "CREATE TABLE {0} ({1} CHECK (length({1}) < 7))"),
}


def spoil(path, statements):
    database = sqlite3.connect(path)
    with database:
        for statement in statements:
            database.execute(statement)
    database.close()


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("table", ["about", "spends", "runs", "rounds"])
def test_an_odometer_runs_nothing_that_its_file_says(tmp_path, table, name):
    path = tmp_path / "odometer"
    dp.Odometer(path, BUDGET).spend(GaussianRelease(1.0, 50.0, rows=(0, 100)), run="0" * 32)
    column = {"about": "budget", "spends": "releases", "runs": "spend", "rounds": "digest"}[table]
    spoil(path, [each.format(table, column) for each in HOSTILE[name]])
    started = time.process_time()
    with pytest.raises(OdometerError, match="damaged, or no odometer"):
        dp.Odometer(path)
    assert time.process_time() - started < 1.0


@pytest.mark.thorough
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "table", ["about", "payment", "root", "progress", "vectors", "certificate"]
)
def test_a_checkpoint_runs_nothing_that_its_file_says(tmp_path, table, name):
    plan = dp.plan(BALL, n=60, d=3, budget=BUDGET, solver="dp_ftrl", options={"rounds": 4})
    rows = np.full((60, 3), 0.1), np.ones(60)
    path = tmp_path / "run"
    dp.run(plan, rows, checkpoint=path)
    spoil(path, [each.format(table, "x") for each in HOSTILE[name]])
    started = time.process_time()
    for todo in (lambda: peek(path), lambda: dp.run(plan, rows, checkpoint=path)):
        with pytest.raises(CheckpointError, match="damaged, or no checkpoint"):
            todo()
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE about SET budget = NULL", "got NoneType"),
        ("UPDATE about SET budget = 'null'", "a budget's kind"),
        (f"UPDATE about SET budget = '{'[' * 5000}'", "JSON"),
        (f"UPDATE about SET schema = '{'x' * 5000}'", "has schema"),
        ("UPDATE spends SET releases = NULL", "NOT NULL"),
        ("UPDATE spends SET releases = x'ff'", "spend 1 is damaged"),
        ("UPDATE spends SET releases = '{}'", "no list"),
        ("UPDATE spends SET releases = zeroblob(40000000)", "larger than"),
        ("UPDATE spends SET label = x'ff00'", "no text"),
        ("UPDATE rounds SET round = 'x'", "rounds of run"),
    ],
)
def test_damaged_odometers_are_refused_in_few_words(tmp_path, statement, words):
    path, run = tmp_path / "odometer", "0" * 32
    odometer = dp.Odometer(path, BUDGET)
    odometer.spend(GaussianRelease(1.0, 50.0, rows=(0, 100)), run=run)
    odometer.commit(run, 1, "f" * 64)
    if words == "NOT NULL":
        with pytest.raises(sqlite3.IntegrityError, match=words):
            spoil(path, [statement])
        return
    spoil(path, [statement])

    def use():
        dp.Odometer(path).entries()
        odometer.committed(run)

    with pytest.raises(OdometerError, match=words) as refusal:
        use()
    assert len(str(refusal.value)) < 500


def test_a_path_with_a_nul_is_no_odometer():
    with pytest.raises(ParameterError, match="path must be the path of a file"):
        dp.Odometer("a\0b", BUDGET)


def test_vectors_that_no_plan_has_are_not_read(tmp_path):
    plan = dp.plan(BALL, n=60, d=3, budget=BUDGET, solver="dp_ftrl", options={"rounds": 4})
    rows = np.full((60, 3), 0.1), np.ones(60)
    path = tmp_path / "run"
    dp.run(plan, rows, checkpoint=path)
    spoil(path, ["UPDATE vectors SET numbers = zeroblob(50000000), shape = '[6250000]'"])
    with pytest.raises(CheckpointError, match="more or longer vectors than its plan"):
        dp.run(plan, rows, checkpoint=path)
