"""`TableEncoder` as a transformer: scikit-learn's checks, pipelines, files that are served."""

import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import dpsco as dp
from dpsco import cli
from dpsco.data import Category, ClassLabel, Date, Flag, Number, NumberLabel, Schema

SCHEMA = Schema(
    (
        Number("age", 0, 100, "indicator"),
        Date("since", "2000-01-01", "2020-12-31"),
        Category("ward", ("A", "B"), other=True),
        Flag("smokes"),
    ),
    label=ClassLabel("ill", ("yes", "no")),
)


def people(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(0, 100, n).round(1)
    ill = np.where(age + 20 * rng.normal(size=n) > 50, "yes", "no")
    return pd.DataFrame({
        "smokes": rng.random(n) < 0.3,
        "ward": rng.choice(["A", "B", "C"], n),
        "since": rng.choice(["2001-05-05", "2015-01-01", None], n),
        "age": np.where(rng.random(n) < 0.1, np.nan, age),
        "ill": ill,
    })  # fmt: skip


def pipeline(**more):
    encoder = dp.TableEncoder(SCHEMA)
    norm = encoder.feature_norm
    model = dp.PrivateLogisticRegression(
        feature_norm=norm, classes=["no", "yes"], solver="noisy_gd", random_state=0, **more
    )
    return make_pipeline(encoder, model)


class Declaring(dp.TableEncoder):
    """scikit-learn's checks make up tables of many widths: somebody must declare each of them."""

    def __init__(self, schema=None, sparse_output=None, dtype=None):
        super().__init__(schema, sparse_output=sparse_output, dtype=dtype)

    def fit(self, X, y=None):
        array = X if hasattr(X, "columns") or issparse(X) else np.asarray(X)
        names = getattr(X, "columns", [f"x{k}" for k in range(array.shape[-1])])
        self._declared = Schema(tuple(Number(name, -9, 9) for name in names) or (Flag("none"),))
        return super().fit(X, y)

    @property
    def table_encoder(self):
        known = getattr(self, "_declared", Schema((Flag("none"),)))
        return dp.data.TableEncoder(known, sparse=self.sparse_output, dtype=self.dtype or float)


EXCEPTIONS = {
    "check_estimators_nan_inf": "an entry that is no number is missing, and never an error",
    "check_transformers_unfitted_stateless": "the stand-in knows no schema before a fit",
    "check_dataframe_column_names_consistency": "columns are known by name, in any order",
}


@pytest.mark.thorough
@parametrize_with_checks([Declaring()], expected_failed_checks=lambda _: EXCEPTIONS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_fit_looks_at_no_entry_and_transform_needs_no_fit():
    frame = people(50)
    first = dp.TableEncoder(SCHEMA)
    rows = first.transform(frame)
    again = clone(first).fit(frame[:1].assign(age=99.0, ward="Z"))
    assert np.array_equal(again.transform(frame), rows)
    assert np.array_equal(
        again.transform(frame.drop(columns="ill")[["ward", "age", "since", "smokes"]]), rows
    )
    assert np.array_equal(pickle.loads(pickle.dumps(again)).transform(frame), rows)
    assert np.array_equal(again.transform(pl.from_pandas(frame)), rows)
    columns = [column.name for column in SCHEMA.columns]
    assert np.array_equal(again.transform(frame[columns].to_numpy(dtype=object)), rows)
    assert list(again.feature_names_in_) == list(frame.columns)
    assert np.linalg.norm(rows, axis=1).max() <= again.feature_norm
    assert again.classes == ("yes", "no")


def test_names_and_frames():
    encoder = dp.TableEncoder(SCHEMA).set_output(transform="pandas")
    frame = encoder.fit_transform(people(9))
    assert list(frame.columns) == list(encoder.get_feature_names_out())
    assert list(frame.columns)[:3] == ["age", "age missing", "since"]
    model = dp.PrivateLogisticRegression(classes=["no", "yes"], feature_norm=2.0, random_state=0)
    fitted = make_pipeline(encoder, model).fit(people(), people()["ill"])
    assert list(fitted[-1].feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (people(5).drop(columns="age"), "column 'age' is missing"),
        (people(5).rename(columns={"age": "SECRET"}), "column 'age' is missing"),
        (
            people(5).assign(age=pd.array(["SECRET"] * 5, dtype="string")),
            "column 'age' must hold numbers",
        ),
        (np.zeros((5, 3)), "X has 3 features, but TableEncoder is expecting 4"),
        (np.zeros(5), "Reshape your data"),
        (np.array([["SECRET", 1]]), "X has 2 features"),
    ],
)
def test_tables_that_do_not_fit(X, words):
    with pytest.raises(dp.errors.DataError, match=words):
        dp.TableEncoder(SCHEMA).fit(X)
    with pytest.raises(dp.errors.DataError, match=words):
        dp.TableEncoder(SCHEMA).transform(X)


def test_a_pipeline_is_cloned_pickled_saved_and_served(tmp_path, capsys):
    frame, fresh = people(), people(200, seed=1)
    fitted = clone(pipeline(epsilon=3.0)).fit(frame, frame["ill"])
    fitted = pickle.loads(pickle.dumps(fitted))
    assert fitted.score(fresh, fresh["ill"]) > 0.75
    path, data, out = tmp_path / "model.json", tmp_path / "fresh.csv", tmp_path / "p.csv"
    dp.save(fitted, path)
    saved = dp.models.SavedModel.load(path)
    assert saved.predict(fresh).tolist() == fitted.predict(fresh).tolist()
    assert saved.schema.label.values == ("no", "yes")
    fresh.to_csv(data, index=False)
    assert cli.main(["predict", str(path), str(data), "-o", str(out), "--keep", "age"]) == 0
    assert pd.read_csv(out)["prediction"].tolist() == fitted.predict(fresh).tolist()
    assert cli.main(["verify", "--single", str(path)]) == 0
    capsys.readouterr()
    assert cli.main(["evaluate", str(path), str(data), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["accuracy"] == pytest.approx(fitted.score(fresh, fresh["ill"]))


def test_saving_what_does_not_belong_together(tmp_path):
    frame = people()
    fitted = pipeline().fit(frame, frame["ill"])
    model = fitted[-1]
    with pytest.raises(dp.errors.DataError, match="the encoder makes rows of 1"):
        model.save(tmp_path / "m.json", encoder=dp.TableEncoder(Schema((Flag("a"),))))
    numbers = Schema(SCHEMA.columns, NumberLabel("cost", 0, 9))
    with pytest.raises(dp.errors.DataError, match="is not what the model predicts"):
        model.save(tmp_path / "m.json", encoder=dp.TableEncoder(numbers))
    scaled = make_pipeline(StandardScaler(), model)
    with pytest.raises(dp.errors.ParameterError, match="one step before the estimator"):
        dp.save(scaled, tmp_path / "m.json")
    with pytest.raises(dp.errors.ParameterError, match="save takes a linear model of dpsco"):
        dp.save(StandardScaler(), tmp_path / "m.json")
    assert not list(tmp_path.iterdir())


def test_coefficients_in_units_of_the_table_give_the_same_scores(tmp_path):
    frame = people()
    fitted = pipeline(epsilon=50.0).fit(frame, frame["ill"])
    fresh = people(100, seed=2).dropna()
    table = fitted[-1].table_coefficients(fitted[0])
    v = np.column_stack([
        fresh["age"], np.zeros(len(fresh)),
        (pd.to_datetime(fresh["since"]) - pd.Timestamp(0)).dt.days,
        *(fresh["ward"] == ward for ward in "ABC"), fresh["smokes"],
    ]).astype(float)  # fmt: skip
    assert fitted.decision_function(fresh) == pytest.approx(v @ table.coef[0] + table.intercept[0])
    dp.save(fitted, tmp_path / "m.json")
    shown = str(dp.models.SavedModel.load(tmp_path / "m.json").coefficients())
    assert shown == str(table)
    assert shown.splitlines()[1].split() == ["age", f"{table.coef[0, 0]:.6g}"]
    fitted[-1].save(tmp_path / "plain.json")
    with pytest.raises(dp.errors.DataError, match="the model has no schema"):
        dp.models.SavedModel.load(tmp_path / "plain.json").coefficients()
