"""Constructors and docstrings: written in the source, complete, and alike across estimators."""

import ast
import inspect
import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import dpsco as dp
from dpsco import estimators

LINEAR = [
    dp.PrivateLogisticRegression,
    dp.PrivateSVC,
    dp.PrivateLinearRegression,
    dp.PrivateLasso,
    dp.PrivateSimplexRegressor,
    dp.PrivateHuberRegressor,
    dp.PrivateQuantileRegressor,
    dp.PrivateAbsoluteRegressor,
    dp.PrivateSVR,
]
OTHER_RADII = [(dp.PrivateLogisticRegression, "radius"), (dp.PrivateLasso, "radius")]
DECLARED = {dp.PrivateLasso, dp.PrivateSimplexRegressor}  # whose bounds are never found
FITTING = [*LINEAR, dp.PrivateMean]
ALL = [*FITTING, dp.PrivateGridSearch]
METHODS = ("fit", "predict", "predict_proba", "decision_function", "score", "save")
NAMED = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)


def sections(text):
    """The sections of a numpydoc text, each as a dictionary from names to (type, words)."""
    lines = inspect.cleandoc(text).splitlines()
    titles = [i for i, line in enumerate(lines) if i and re.fullmatch("-{4,}", line)]
    starts = [*(i - 1 for i in titles), len(lines)]
    return {lines[a]: entries(lines[a + 2 : b]) for a, b in itertools.pairwise(starts)}


def entries(lines):
    result, name = {}, None
    for line in lines:
        if line and not line[0].isspace():
            name, _, kind = line.partition(" : ")
            result[name] = (kind, [])
        elif line.strip():
            result[name][1].append(line.strip())
    return {name: (kind, " ".join(words)) for name, (kind, words) in result.items()}


def parameters(function):
    return dict(list(inspect.signature(function).parameters.items())[1:])


def test_every_estimator_is_checked():
    assert {kind.__name__ for kind in ALL} == set(estimators.__all__) - {
        "TableEncoder"
    }  # which is fit-free: test_encoder


@NAMED
def test_documented_parameters_are_those_of_the_signature_in_its_order(kind):
    documented = sections(kind.__doc__)["Parameters"]
    assert list(documented) == list(parameters(kind.__init__))
    for name, parameter in parameters(kind.__init__).items():
        declared, words = documented[name]
        assert words.endswith("."), name
        assert parameter.annotation is not parameter.empty
        if parameter.default is None:
            required = "Required" in words
            assert declared.endswith(", optional") != required, name
        elif parameter.default is not parameter.empty:
            default = repr(parameter.default).replace("'", '"')
            assert declared.endswith(f", default={default}"), name


def test_shared_parameters_have_one_type_one_default_and_one_wording():
    seen = {}
    for kind in FITTING:
        documented = sections(kind.__doc__)["Parameters"]
        for name, parameter in parameters(kind.__init__).items():
            text = documented[name]
            if kind is dp.PrivateMean and name == "feature_norm":
                text = sections(dp.PrivateSVC.__doc__)["Parameters"][name]  # from its centre
            if (kind, name) in OTHER_RADII:
                text = sections(dp.PrivateSVC.__doc__)["Parameters"][name]
            if kind in DECLARED and name in ("feature_norm", "label_range"):
                assert text[0] in ("float", "tuple of float (low, high)")
                assert "Required" in text[1]
                text = sections(dp.PrivateLinearRegression.__doc__)["Parameters"][name]
            entry = (text, str(parameter.annotation), parameter.default, parameter.kind)
            assert seen.setdefault(name, entry) == entry, (kind.__name__, name)


@pytest.mark.parametrize("kind", FITTING, ids=lambda kind: kind.__name__)
def test_what_must_be_declared_comes_first_and_nothing_is_positional(kind):
    names = list(parameters(kind.__init__))
    labels = [name for name in ("classes", "label_range") if name in names]
    budget = ["epsilon", "delta", "adjacency", "rows_per_person"]
    first = ["feature_norm", *labels, *budget]
    assert names[: len(first)] == first
    with pytest.raises(TypeError, match="positional"):
        kind(1.0)  # is it a norm, or an epsilon?


@NAMED
def test_constructors_are_written_in_the_class_and_only_store(kind):
    tree = ast.parse(inspect.getsource(kind))
    (init,) = [
        node
        for node in tree.body[0].body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    ]
    for statement in init.body:
        names = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
        if isinstance(statement, ast.Assign):  # self.name = name
            assert ast.unparse(statement.targets[0]) == f"self.{ast.unparse(statement.value)}"
        else:  # super().__init__(name=name, ...)
            assert all(word.arg == ast.unparse(word.value) for word in statement.value.keywords)
            assert ast.unparse(statement.value.func) == "super().__init__"
        assert set(names) <= {"self", "super", *parameters(kind.__init__)}
    source = Path(inspect.getsourcefile(kind)).read_text(encoding="utf-8")
    assert "__doc__" not in source  # nor is a docstring put together when it is imported


def values_for(kind):
    """A value for each parameter that differs from its default."""
    if kind is dp.PrivateGridSearch:
        own = {"estimator": dp.PrivateSVC(feature_norm=1.0), "param_grid": {"alpha": [1.0]}}
    else:
        own = {}
    return own | {
        name: object()
        for name, parameter in parameters(kind.__init__).items()
        if parameter.default is not parameter.empty
    }


@NAMED
def test_every_parameter_is_kept_as_it_is_and_survives_a_clone(kind):
    values = values_for(kind)
    model = kind(**values)
    assert all(getattr(model, name) is value for name, value in values.items())
    assert model.get_params(deep=False) == values
    plain = {name: i for i, name in enumerate(values) if name not in ("estimator", "param_grid")}
    model.set_params(**plain)
    assert {name: clone(model).get_params()[name] for name in plain} == plain


@NAMED
def test_methods_are_typed_and_documented(kind):
    for name in METHODS:
        method = inspect.getattr_static(kind, name, None)
        if method is None:
            continue
        method = getattr(method, "fn", method)  # under available_if
        documented = sections(method.__doc__)
        assert list(documented["Parameters"]) == list(parameters(method)), name
        assert "return" in method.__annotations__, name
        assert ("Returns" in documented) == (method.__annotations__["return"] != "None"), name


X = np.random.default_rng(0).uniform(-0.5, 0.5, (4000, 3))
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
QUICK = {"solver": "noisy_gd", "options": {"rounds": 5}}


def fitted(kind):
    """Fitted estimators that together have every attribute."""
    if kind is dp.PrivateMean:
        return [kind(feature_norm=1.0).fit(X), kind(bounds="private", epsilon=9.0).fit(FRAME)]
    classes = "classes" in parameters(kind.__init__) or kind is dp.PrivateGridSearch
    y = np.where(X[:, 0] > 0, 1, 0) if classes else X[:, 0]
    label = {"classes": [0, 1]} if classes else {"label_range": (-1, 1)}
    if kind is dp.PrivateGridSearch:
        model = dp.PrivateSVC(feature_norm=1.0, **label, **QUICK)
        return [kind(model, {"alpha": [0.0, 0.1]}).fit(FRAME, y)]
    if kind in (dp.PrivateLasso, dp.PrivateSimplexRegressor):
        own = {"radius": 1.0} if kind is dp.PrivateLasso else {}
        fits = [kind(feature_norm=1.0, **label, **own, count_rows=True, **QUICK).fit(FRAME, y)]
        if own:
            fits.append(kind(feature_norm=1.0, **label, **own, select_columns=2).fit(FRAME, y))
        return fits
    estimated = {"bounds": "private", **({"classes": [0, 1]} if classes else {})}
    fits = [
        kind(feature_norm=1.0, **label, count_rows=True, **QUICK).fit(FRAME, y),
        kind(epsilon=9.0, **estimated, **QUICK).fit(X, y),
    ]
    if kind is dp.PrivateLogisticRegression:
        fits.append(kind(feature_norm=1.0, **label, select_columns=2).fit(X, y))
    return fits


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::dpsco.errors.AccuracyWarning")
@NAMED
def test_documented_attributes_are_those_that_fit_sets(kind):
    names = {name for model in fitted(kind) for name in vars(model) if name.endswith("_")}
    documented = sections(kind.__doc__)["Attributes"]
    assert set(documented) == {name for name in names if not name.startswith("_")}
    assert all(words.endswith(".") for _, words in documented.values())
    annotated = {name for base in kind.__mro__ for name in vars(base).get("__annotations__", {})}
    assert set(documented) <= annotated  # so that an editor knows their types
