"""What a command line asks for, as setups, budgets and plans."""

import argparse

import pytest

import dpsco as dp
from dpsco.cli import request
from dpsco.data.schema.schema import ClassLabel, NumberLabel, Schema, SignLabel
from dpsco.models import MODELS

COLUMNS = (dp.data.Number("a", 0, 1), dp.data.Flag("b"))


def options(**given):
    """Return options as the parser makes them."""
    found = {"model": None, "feature_norm": None, "radius": None, "alpha": 0.0, "scale": None}
    found |= {"no_intercept": False, "setting": [], "epsilon": 1.0, "delta": None}
    found |= {"adjacency": "replace_one", "rows_per_person": 1}
    return argparse.Namespace(**{**found, **given})


def test_the_default_model_follows_the_label():
    kinds = {
        "linear": NumberLabel("y", 0, 9),
        "logistic": ClassLabel("y", ("a", "b")),
    }
    for kind, label in kinds.items():
        assert request.from_schema(options(), Schema(COLUMNS, label)).setup.kind == kind
    setup = request.from_schema(options(), Schema(COLUMNS, SignLabel("y"))).setup
    assert (setup.kind, setup.classes, setup.bounds.label) == ("logistic", (-1, 1), "sign")


def test_bounds_are_those_of_the_encoder():
    schema = Schema(COLUMNS, ClassLabel("y", ("a", "b", "c")))
    encoder = dp.data.TableEncoder(schema)
    found = request.from_schema(options(), schema)
    assert found.d == 2
    assert found.setup.bounds.feature_norm == encoder.feature_norm
    assert found.setup.bounds.label == encoder.label_rule
    assert found.setup.classes == ("a", "b", "c")
    smaller = request.from_schema(options(feature_norm=0.5), schema).setup.bounds
    larger = request.from_schema(options(feature_norm=50.0), schema).setup.bounds
    assert (smaller.feature_norm, larger.feature_norm) == (0.5, encoder.feature_norm)
    assert request.from_schema(options(no_intercept=True), schema).setup.bounds.intercept is None


def test_everything_about_the_model_arrives():
    schema = Schema(COLUMNS, NumberLabel("y", 0, 10))
    given = options(model="quantile", radius=3.0, alpha=0.5, scale=2.0, setting=[("quantile", 0.9)])
    setup = request.from_schema(given, schema).setup
    wanted = dp.models.configure(
        "quantile",
        feature_norm=dp.data.TableEncoder(schema).feature_norm,
        label_range=(0, 10),
        radius=3.0,
        alpha=0.5,
        scale=2.0,
        settings={"quantile": 0.9},
    )
    assert setup == wanted


def test_budgets():
    assert request.budget(options(), 100) == dp.ApproxDP(1.0, 1e-4)
    assert request.budget(options(delta=1e-9), 100) == dp.ApproxDP(1.0, 1e-9)
    assert request.budget(options(delta=0.0), 1) == dp.PureDP(1.0)
    found = request.budget(options(rows_per_person=3, adjacency="zero_out"), 100)
    assert found == dp.ApproxDP(1.0, 1e-4, adjacency="zero_out", unit=dp.Unit(3, "person"))
    for given, n in ((options(epsilon=None), 100), (options(), 1), (options(), 0)):
        with pytest.raises(dp.errors.ParameterError):
            request.budget(given, n)


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_a_plan_remembers_its_model(kind):
    """The kind of every model is read off its plan, through a file."""
    for classes in (("a", "b"), ("a", "b", "c")):
        label = ClassLabel("y", classes) if MODELS[kind].classifies else NumberLabel("y", 0, 9)
        schema = Schema(COLUMNS, label)
        given = options(model=kind)
        asked = request.from_schema(given, schema)
        problem = asked.setup.problem()
        plan = dp.plan(problem, n=5000, d=2, budget=dp.ApproxDP(1.0, 1e-8), solver="noisy_gd")
        found = request.from_plan(dp.load_plan(plan.to_json()), schema)
        assert found.d == asked.d
        assert (found.setup.kind, found.setup.classes) == (kind, asked.setup.classes)
        assert found.setup.bounds == asked.setup.bounds


def test_powers_of_the_hinge_are_support_vectors_too():
    schema = Schema(COLUMNS, ClassLabel("y", ("a", "b")))
    for power in (1, 1.5, 2):
        asked = request.from_schema(options(model="svc", setting=[("power", power)]), schema)
        name = asked.setup.problem().loss.name
        assert request._KIND_OF[name] == "svc"


def test_messages_speak_of_flags():
    with pytest.raises(dp.errors.ParameterError) as caught:
        request._setup(options(), "logistic", None, range(2), None)
    text = str(caught.value)
    assert "needs --feature-norm" in text
    assert "--schema FILE computes it" in text
    assert "bounds=" not in text
