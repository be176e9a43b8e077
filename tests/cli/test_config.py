"""What a command line says about models, budgets and plans."""

import argparse
import json

import pytest

import dpsco as dp
from dpsco.cli import config
from dpsco.data.schema.schema import ClassLabel, NumberLabel, Schema, SignLabel
from dpsco.models import MODELS, tables

COLUMNS = (dp.data.Number("a", 0, 1), dp.data.Flag("b"))


def options(**given):
    """Return options as the parser makes them."""
    defaults = {"model": None, "feature_norm": None, "radius": None, "alpha": 0.0, "scale": None}
    defaults |= {"no_intercept": False, "setting": [], "epsilon": 1.0, "delta": None}
    defaults |= {"adjacency": "replace_one", "rows_per_person": 1, "units": None}
    defaults |= {"prefer": "accuracy"}
    return argparse.Namespace(**{**defaults, **given})


def test_the_default_model_follows_the_label():
    kinds = {
        "huber": NumberLabel("y", 0, 9),  # robust, unless squares are asked for
        "logistic": ClassLabel("y", ("a", "b")),
    }
    for kind, label in kinds.items():
        assert config.from_schema(options(), Schema(COLUMNS, label)).config.name == kind
    model = config.from_schema(options(), Schema(COLUMNS, SignLabel("y"))).config
    assert (model.name, model.classes, model.bounds.label) == ("logistic", (-1, 1), "sign")


def test_bounds_are_those_of_the_encoder():
    schema = Schema(COLUMNS, ClassLabel("y", ("a", "b", "c")))
    encoder = dp.data.TableEncoder(schema)
    found = config.from_schema(options(), schema)
    assert found.d == 2
    assert found.config.bounds.feature_norm == encoder.feature_norm
    assert found.config.bounds.label == encoder.label_rule
    assert found.config.classes == ("a", "b", "c")
    smaller = config.from_schema(options(feature_norm=0.5), schema).config.bounds
    larger = config.from_schema(options(feature_norm=50.0), schema).config.bounds
    assert (smaller.feature_norm, larger.feature_norm) == (0.5, encoder.feature_norm)
    assert config.from_schema(options(no_intercept=True), schema).config.bounds.intercept is None


def test_everything_about_the_model_arrives():
    schema = Schema(COLUMNS, NumberLabel("y", 0, 10))
    given = options(model="quantile", radius=3.0, alpha=0.5, scale=2.0, setting=[("quantile", 0.9)])
    model = config.from_schema(given, schema).config
    wanted = dp.models.configure(
        "quantile",
        feature_norm=dp.data.TableEncoder(schema).feature_norm,
        label_range=(0, 10),
        radius=3.0,
        alpha=0.5,
        scale=2.0,
        settings={"quantile": 0.9},
    )
    assert model == wanted


def test_budgets():
    assert config.budget(options(), 100) == dp.ApproxDP(1.0, 1e-4)
    assert config.budget(options(delta=1e-9), 100) == dp.ApproxDP(1.0, 1e-9)
    assert config.budget(options(delta=0.0), 1) == dp.PureDP(1.0)
    found = config.budget(options(rows_per_person=3, adjacency="zero_out"), 100)
    assert found == dp.ApproxDP(1.0, 1e-4, adjacency="zero_out", unit=dp.Unit(3, "person"))
    for given, n in ((options(epsilon=None), 100), (options(), 1), (options(), 0)):
        with pytest.raises(dp.errors.ParameterError):
            config.budget(given, n)


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("classes", [("a", "b"), ("a", "b", "c")], ids=len)
def test_a_plan_says_which_model_it_is_for(name, classes):
    """The whole configuration travels in the plan, through a file."""
    label = ClassLabel("y", classes) if MODELS[name].classifies else NumberLabel("y", 0, 9)
    schema = Schema(COLUMNS, label)
    given = options(model=name, alpha=0.25, radius=4.0, solver="noisy_gd", option=[])
    given.calibration, given.count_rows = "tight", None
    model = config.from_schema(given, schema)
    plan = config.make_plan(given, model, 5000).fit
    again = tables.model_of_plan(dp.load_plan(plan.to_json()), schema)
    assert (again.config, again.d) == (model.config, model.d)
    assert again.config.problem() == plan.problem


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda record: record.update(model=None), "does not say which model"),
        (lambda record: record["model"]["value"].update(name="forest"), "cannot be used"),
        (lambda record: record["model"]["value"].update(alpha=3.0), "not the problem of its"),
        (lambda record: record["model"]["value"].pop("scale"), "cannot be used"),
        (lambda record: record["model"]["value"].update(classes=["x", "y"]), "other labels"),
    ],
)
def test_a_plan_whose_model_is_not_its_own_is_refused(change, words):
    schema = Schema(COLUMNS, ClassLabel("y", ("a", "b")))
    given = options(solver="noisy_gd", option=[], calibration="tight", count_rows=False)
    record = json.loads(
        config.make_plan(given, config.from_schema(given, schema), 5000).fit.to_json()
    )
    change(record)
    with pytest.raises(dp.errors.DataError, match=words):
        tables.model_of_plan(dp.load_plan(json.dumps(record)), schema)


def test_messages_speak_of_flags(refused):
    facts = ["--d", 3, "--n", 1000, "--epsilon", 1]
    text = refused("plan", *facts, "--classes", 2)
    assert "--feature-norm is needed for a logistic model" in text
    assert "--schema FILE computes it" in text
    assert "bounds=" not in text
    text = refused("plan", *facts, "--feature-norm", 1, "--model", "linear")
    assert "--label-range is needed" in text
    assert "(low, high)" not in text
    # What is no flag of the command keeps its name.
    options = ["--feature-norm", 1, "--classes", 2, "--solver", "noisy_gd", "--option", "rounds=0"]
    assert ": rounds must be at least 1" in refused("plan", *facts, *options)
