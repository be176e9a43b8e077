"""Models by name: which problem they state, and how its weights become a model."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsco as dp
from dpsco.errors import DataError, ParameterError
from dpsco.models import MODELS, LinearModel, configure

REGRESSIONS = [name for name, kind in MODELS.items() if not kind.classifies]


def setup_of(kind, **others):
    if MODELS[kind].shape != "l2":
        others = {"radius": 3.0, **others}
    labels = {"classes": [0, 1]} if MODELS[kind].classifies else {"label_range": (0.0, 50.0)}
    return configure(kind, feature_norm=2.0, **labels, **others)


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_states_a_problem_that_some_solver_takes(kind):
    problem = setup_of(kind).problem()
    assert dp.recommend(problem, 1000, 4, dp.ApproxDP(1.0, 1e-6)).ranked
    assert problem.bounds.feature_norm == 2.0
    if kind == "simplex":
        assert problem.bounds.intercept is None  # it would take a share of the sum
    else:
        assert problem.bounds.intercept == pytest.approx(0.6)


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    weights=st.lists(st.floats(-5, 5), min_size=3, max_size=3),
    intercept=st.booleans(),
)
def test_a_model_undoes_the_scaling_of_labels(low, width, weights, intercept):
    setup = configure(
        "linear", feature_norm=2.0, label_range=(low, low + width), intercept=intercept
    )
    rule, x = setup.bounds.label, np.array([[0.5, -1.0]])
    columns = [0.5, -1.0, 0.6] if intercept else [0.5, -1.0]
    inside = np.dot(columns, weights[: len(columns)])  # what the loss compares with scaled labels
    model = setup.model(np.array(weights[: len(columns)]))
    expected = rule.centre + rule.unit * inside
    room = 1e-9 * (abs(low) + width + abs(rule.unit * inside))
    assert model.decision(x)[0] == pytest.approx(expected, abs=room)
    assert low <= model.predict(x)[0] <= low + width


@pytest.mark.parametrize("kind", REGRESSIONS)
def test_a_loss_in_scaled_labels_ranks_weights_as_the_loss_itself(kind):
    """Penalty, radius and settings are in the label's units: scaling must not change the minimiser.

    The objective in the label's own units is unit**degree times the scaled one, for all weights.
    """
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), rng.uniform(0, 50, 50)
    setup = setup_of(kind, alpha=0.3, radius=7.0, intercept=False)
    problem, unit = setup.problem(), setup.unit
    own = {name: value * unit for name, value in MODELS[kind].settings.items()}
    own |= {n: v for n, v in MODELS[kind].settings.items() if n not in MODELS[kind].lengths}
    plain = MODELS[kind].loss(own, unit=1.0, classes=0)
    corner = math.sqrt(0.5) if kind == "simplex" else 1.0  # of radii about the centre
    assert problem.domain.radius(2) == pytest.approx(7.0 / unit * corner)

    def scaled(w):
        margins = X @ (w / unit)
        loss = problem.loss.value(margins, setup.bounds.label.encode(y)).mean()
        return loss + problem.penalty.value(w / unit)

    def original(w):
        return plain.value(X @ w, y).mean() + 0.15 * w @ w

    ratios = [original(w) / scaled(w) for w in rng.normal(size=(5, 2)) * 10]
    assert np.allclose(ratios, unit ** MODELS[kind].degree)


def test_many_classes_are_unflattened_by_class():
    setup = configure("logistic", feature_norm=1.0, classes=["a", "b", "c"])
    weights = np.arange(9.0)  # (features and intercept, classes), row by row
    model = setup.model(weights)
    assert model.coef.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert model.intercept == pytest.approx(0.3 * np.array([6.0, 7.0, 8.0]))
    assert model.predict(np.array([[1.0, 0.0]])).tolist() == ["c"]
    chances = model.probabilities(np.array([[1.0, 0.0], [800.0, 900.0]]))
    assert np.allclose(chances.sum(axis=1), 1.0)


def test_two_classes_have_one_row_that_speaks_for_the_second():
    model = configure("svc", feature_norm=1.0, classes=["no", "yes"]).model(np.array([2.0, 0.0]))
    assert model.predict(np.array([[1.0], [-1.0]])).tolist() == ["yes", "no"]
    with pytest.raises(ParameterError, match="no probabilities"):
        model.probabilities(np.ones((1, 1)))


NUMBERS = {"feature_norm": 1.0, "label_range": (0, 1)}


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("logistic", {"feature_norm": None, "classes": [0, 1]}, "never from the private rows"),
        ("logistic", {"feature_norm": 1.0}, "List every label that may occur"),
        ("logistic", {"feature_norm": 1.0, "classes": [0]}, "at least two classes"),
        ("logistic", {"feature_norm": 1.0, "classes": "ab"}, "needs classes, got 'ab'"),
        (
            "logistic",
            {"feature_norm": 1.0, "label_range": (0, 1), "classes": [0, 1]},
            "label_range is not for",
        ),
        ("linear", {"feature_norm": 1.0}, "labels outside are clipped"),
        ("linear", {"feature_norm": 1.0, "label_range": (2, 1)}, "low < high"),
        ("linear", {"feature_norm": 1.0, "label_range": 3}, "must be \\(low, high\\)"),
        (
            "linear",
            {"feature_norm": 1.0, "label_range": (0, 1), "classes": [1, 2]},
            "classes are not for",
        ),
        ("linear", {"feature_norm": -1.0, "label_range": (0, 1)}, "feature_norm"),
        ("ridge", {"feature_norm": 1.0}, "'logistic'"),
        ("quantile", {**NUMBERS, "settings": {"quantile": 2}}, "between 0 and 1"),
        ("svc", {"feature_norm": 1.0, "classes": [0, 1], "settings": {"power": 3}}, "hinge"),
        ("linear", {**NUMBERS, "settings": {"x": 3}}, "no setting"),
    ],
)
def test_what_is_missing_is_asked_for(kind, arguments, message):
    with pytest.raises(ParameterError, match=message):
        configure(kind, **arguments)


def test_a_model_refuses_other_rows_and_numbers_that_are_none():
    model = LinearModel("linear", np.ones((1, 3)), np.zeros(1))
    with pytest.raises(DataError, match="rows of 3 features"):
        model.decision(np.ones((2, 4)))
    with pytest.raises(ParameterError, match="finite"):
        LinearModel("linear", np.full((1, 3), np.nan), np.zeros(1))


def test_a_radius_that_is_missing_is_explained_in_the_models_own_terms():
    for name, words in (("lasso", "move the label"), ("simplex", "add up to")):
        with pytest.raises(ParameterError, match=words) as refusal:
            MODELS[name].domain(None, unit=1.0)
        assert "odds" not in str(refusal.value)
    with pytest.raises(ParameterError, match="odds"):
        MODELS["sparse_logistic"].domain(0.0, unit=1.0)
