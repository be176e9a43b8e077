"""The model file: it comes back as it was, or not at all."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dpsco as dp
from dpsco.data import Category, ClassLabel, Number, Schema
from dpsco.errors import CertificateError, DataError
from dpsco.models import SavedModel, configure

SCHEMA = Schema(
    (Number("age", 0, 100), Category("job", ("a", "b"))), label=ClassLabel("ill", ("no", "yes"))
)


@pytest.fixture(scope="module")
def saved():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (400, 3)), rng.choice(["no", "yes"], 400)
    setup = configure("logistic", feature_norm=2.0, classes=["no", "yes"])
    result = dp.solve(setup.problem(), (X, y), dp.ApproxDP(1.0, 1e-6), solver="noisy_gd")
    return SavedModel(setup.model(result.weights), result.certificate, result.plan, SCHEMA)


def test_it_comes_back_as_it_was(saved, tmp_path):
    saved.save(tmp_path / "model.json")
    back = SavedModel.load(tmp_path / "model.json")
    assert back.to_json() == saved.to_json()
    assert back.plan == saved.plan
    assert back.certificate.verify().ok
    frame = pd.DataFrame({"age": [10.0, 90.0], "job": ["a", "b"]})
    assert back.predict(frame).tolist() == saved.predict(pl.from_pandas(frame)).tolist()
    assert np.allclose(back.probabilities(frame).sum(axis=1), 1.0)


def test_names_choose_the_columns_of_a_frame(saved):
    named = SavedModel(saved.model, saved.certificate, feature_names=("a", "b", "c"))
    frame = pd.DataFrame({"c": [0.3], "a": [0.1], "b": [0.2], "other": ["x"]})
    assert named.rows(frame).tolist() == [[0.1, 0.2, 0.3]]
    nameless = SavedModel(saved.model, saved.certificate)
    with pytest.raises(DataError, match="pass an array"):
        nameless.rows(frame)
    renamed = frame.rename(columns={"a": "A"})
    with pytest.raises(DataError, match="no column 'a', which the model was fitted on; it has 'c'"):
        named.predict(renamed)
    for other in ({"a": [0.1]}, renamed["A"], [0.1, 0.2, 0.3], "0.1", None):
        with pytest.raises(DataError):
            named.predict(other)


@pytest.mark.parametrize("odd", [np.nan, np.inf, None, "98765", 1j])
def test_a_row_with_a_hole_has_no_prediction(saved, odd):
    """As with the estimators: a class that is made up would look like any other."""
    model = SavedModel(saved.model, saved.certificate, feature_names=("a", "b", "c"))
    rows = [[98765.5, 0.2, 0.3], [0.1, odd, 0.3]]
    for given in (rows, np.array(rows, dtype=object), pd.DataFrame(rows, columns=list("abc"))):
        for call in (model.predict, model.probabilities):
            with pytest.raises(DataError, match="no prediction") as caught:
                call(given)
            assert "98765" not in str(caught.value)
    assert len(model.predict(rows[:1])) == 1


def change(record, path, value):
    target = record
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return record


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("coef", 0, 0), 7.0),
        (("classes",), ["yes", "no"]),
        (("certificate", "claims", "epsilon"), 0.01),
        (("table", "columns", 0, "high"), 50),
        (("digest",), "sha256:0"),
        (("schema",), "dpsco.model/9"),
    ],
)
def test_a_changed_file_is_refused(saved, tmp_path, path, value):
    record = change(json.loads(json.dumps(saved.to_json())), path, value)
    (tmp_path / "model.json").write_text(json.dumps(record))
    with pytest.raises((DataError, CertificateError), match=r"not valid|changed|no model file"):
        SavedModel.load(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("coef",), [[1.0, 2.0]]),
        (("coef",), "text"),
        (("coef", 0, 0), float("nan")),
        (("model",), "forest"),
        (("classes",), None),
        (("plan",), {"solver": "none"}),
        (("intercept",), [1.0, 2.0]),
        (("label_range",), [1.0]),
        (("coef", 0, 0), 10**400),
    ],
)
def test_a_forged_digest_does_not_help_a_file_that_makes_no_sense(saved, tmp_path, path, value):
    from dpsco.models import file

    record = change(json.loads(json.dumps(saved.to_json())), path, value)
    content = {name: item for name, item in record.items() if name != "digest"}
    try:
        record["digest"] = file._digest(content)
    except ValueError:
        record["digest"] = "none"
    (tmp_path / "model.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match=r"not valid|cannot read the model .*: it has"):
        SavedModel.load(tmp_path / "model.json")


TWICE = '{"schema": 1, "schema": 2}'


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "[" * 100_000, TWICE, '{"schema": "x"}', "\xff"]
)
def test_what_is_no_model_is_refused(tmp_path, text):
    (tmp_path / "model.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"no model file|cannot read the model .*: (it|a field)"):
        SavedModel.load(tmp_path / "model.json")
    with pytest.raises(DataError, match="cannot read"):
        SavedModel.load(tmp_path / "absent.json")
