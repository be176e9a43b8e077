"""Estimators over tables of `dpsco.data`: streams that are seen once, files, checkpoints."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import dpsco as dp
from dpsco.errors import AccuracyWarning, AssumptionError, DataError, ParameterError
from dpsco.models import SavedModel

N = 4000
rng = np.random.default_rng(8)
X = rng.uniform(-1, 1, (N, 3))
MARGIN = X @ [4.0, -2.0, 0.0] + 1.0
CLASSES = np.where(MARGIN + rng.logistic(size=N) / 3 > 0, "yes", "no")
NUMBERS = 30 + 5 * MARGIN + rng.normal(size=N)
NORM = 3**0.5
FEW = {"solver": "acc_srgd", "options": {"rounds": 8}, "units": "declared"}


def logistic(**others):
    settings = {"epsilon": 1.0, "feature_norm": NORM, "classes": ["no", "yes"], **others}
    return dp.PrivateLogisticRegression(**settings)


def chunks(y=CLASSES, size=300, rows=N):
    for start in range(0, rows, size):
        yield X[start : min(start + size, rows)], y[start : min(start + size, rows)]


def stream(y=CLASSES, labels="text", n=N, **how):
    return dp.data.from_batches(chunks(y, **how), n=n, d=3, labels=labels)


def test_a_stream_gives_the_model_of_its_rows_in_order():
    model = logistic(**FEW, random_state=3).fit(stream())
    same = logistic(**FEW, random_state=3).fit(X, CLASSES, order="given")
    assert np.array_equal(model.coef_, same.coef_)
    assert np.array_equal(model.intercept_, same.intercept_)
    shuffled = logistic(**FEW, random_state=3).fit(X, CLASSES)
    assert not np.array_equal(model.coef_, shuffled.coef_)


def test_what_a_stream_leaves_behind(tmp_path):
    model = logistic().fit(X, CLASSES).fit(stream())
    assert model.n_features_in_ == 3
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, CLASSES) > 0.8
    assert model.plan_.n == N
    assert dp.solvers.get(model.plan_.solver).stepper is not None  # "auto" knows one pass
    assert model.certificate_.verify().ok
    assert model.certificate_.epsilon(1.0 / N**2) <= 1.0
    assert not model.certificate_.reproducible
    assert clone(model).get_params() == model.get_params()
    back = pickle.loads(pickle.dumps(model))
    assert np.array_equal(back.predict(X), model.predict(X))
    model.save(tmp_path / "model.json")
    assert np.array_equal(SavedModel.load(tmp_path / "model.json").predict(X), model.predict(X))
    with pytest.raises(ValueError, match="3 features"):
        model.predict(X[:, :2])


def test_names_of_an_earlier_fit_are_forgotten():
    model = logistic().fit(pd.DataFrame(X, columns=["a", "b", "c"]), CLASSES)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert not hasattr(model.fit(stream()), "feature_names_in_")


def test_a_regressor_over_a_stream_keeps_the_labels_units():
    model = dp.PrivateHuberRegressor(
        epsilon=4.0, feature_norm=NORM, label_range=(0, 70), random_state=3
    )
    model.fit(stream(NUMBERS, labels="number"))
    assert model.score(X, NUMBERS) > 0.7
    assert abs(model.intercept_ - 35.0) < 5.0


def test_a_file_in_its_order_or_shuffled(tmp_path):
    path = tmp_path / "rows.parquet"
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(ill=CLASSES)
    frame.to_parquet(path)
    table = dp.data.from_parquet(path, label="ill")
    model = logistic(**FEW, random_state=3).fit(table, order="given")
    same = logistic(**FEW, random_state=3).fit(X, CLASSES, order="given")
    np.testing.assert_allclose(model.coef_, same.coef_, rtol=1e-9)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["c", "b", "a"]])
    with pytest.raises(ParameterError, match="needs a folder for the shuffled rows"):
        logistic(**FEW).fit(table)
    shuffled = dp.data.from_parquet(path, label="ill", spill=tmp_path)
    assert (
        logistic(**FEW, random_state=3).fit(shuffled).score(frame[["a", "b", "c"]], CLASSES) > 0.8
    )


def test_a_checkpoint_brings_a_fit_over_a_crash(tmp_path):
    odometer = dp.Odometer(tmp_path / "table.odometer", dp.ApproxDP(1.5, 1e-6))
    kept = tmp_path / "fit.checkpoint"

    def broken():
        for place, chunk in enumerate(chunks()):
            if place == 7:
                raise ConnectionError("the reader went away")
            yield chunk

    model = logistic(**FEW, odometer=odometer)
    with pytest.raises(ConnectionError):
        model.fit(dp.data.from_batches(broken(), n=N, d=3, labels="text"), checkpoint=kept)
    assert not hasattr(model, "coef_")
    model.fit(stream(), checkpoint=kept)  # secure noise, taken from the checkpoint
    assert len(odometer.entries()) == 1
    assert model.certificate_.verify().ok
    with pytest.warns(UserWarning, match=r"is over, since .*its stored result is returned"):
        again = clone(model).fit(stream(), checkpoint=kept)
    assert np.array_equal(again.coef_, model.coef_)
    assert len(odometer.entries()) == 1


def test_a_checkpoint_changes_no_bit(tmp_path):
    plain = logistic(**FEW, random_state=4).fit(X, CLASSES)
    kept = logistic(**FEW, random_state=4).fit(X, CLASSES, checkpoint=tmp_path / "c")
    assert np.array_equal(plain.coef_, kept.coef_)


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        (lambda: stream(n=N + 1), DataError, f"ended after {N} rows, but n = {N + 1}"),
        (lambda: stream(n=N - 1), DataError, f"goes on after row n = {N - 1}"),
        (lambda: stream(rows=10), DataError, f"ended after 10 rows, but n = {N}"),
        (
            lambda: dp.data.from_batches((rows for rows, _ in chunks()), n=N, d=3, labels="none"),
            DataError,
            "the table has no labels",
        ),
        (lambda: stream(NUMBERS, labels="number"), DataError, "reads strings"),
    ],
    ids=["short", "long", "very short", "no labels", "other labels"],
)
def test_streams_that_do_not_fit_leave_no_model(table, error, words):
    model = logistic(**FEW)
    with pytest.raises(error, match=words):
        model.fit(table())
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "certificate_")


def test_wrong_use_of_tables(tmp_path):
    with pytest.raises(ParameterError, match="labels inside, but y was given"):
        logistic().fit(stream(), CLASSES)
    with pytest.raises(ParameterError, match="requires y to be passed"):
        logistic().fit(X)
    with pytest.raises(ParameterError, match="come once, and noisy_gd"):
        logistic(solver="noisy_gd").fit(stream())
    with pytest.raises(ParameterError, match="cannot be shuffled"):
        logistic().fit(stream(), order="shuffled")
    with pytest.raises(ParameterError, match="order must be one of"):
        logistic().fit(X, CLASSES, order="sorted")
    with pytest.raises(ParameterError, match="cannot keep a checkpoint"):
        logistic(solver="approx_objective_perturbation").fit(X, CLASSES, checkpoint=tmp_path / "c")
    with pytest.raises(AssumptionError, match="add_remove"):
        logistic(adjacency="add_remove").fit(stream())
    with pytest.raises(ParameterError, match="takes a look at the rows before the fit"):
        logistic(feature_norm=None).fit(X, CLASSES, checkpoint=tmp_path / "c")
    with pytest.raises(ParameterError, match="takes a look at the rows before the fit"):
        logistic(feature_norm=None).fit(stream())
    assert list(tmp_path.iterdir()) == []
    for other in (
        dp.PrivateMean(feature_norm=1.0),
        dp.PrivateGridSearch(logistic(), {"alpha": [0.0, 0.1]}),
    ):
        with pytest.raises(ParameterError, match="fits arrays and data frames, not a table"):
            other.fit(stream(), CLASSES)
    assert not hasattr(logistic(), "partial_fit")


def test_a_refused_fit_is_not_paid_for():
    class BudgetSpender:
        budget = dp.ApproxDP(9.0, 1e-6)

        def spend(self, releases, *, label):
            pytest.fail("nothing is to be paid")

    model = logistic(solver="noisy_gd", odometer=BudgetSpender())
    with pytest.raises(ParameterError, match="come once, and noisy_gd"):
        model.fit(stream())


def test_one_row_has_no_delta_by_default():
    table = dp.data.from_batches([(X[:1], CLASSES[:1])], n=1, d=3, labels="text")
    with pytest.raises(
        ParameterError, match=r"1/n\^2 unless it is given.*n = 1 row\. .*give delta"
    ):
        logistic().fit(table)
    with pytest.warns(AccuracyWarning, match="too few rows") as said:  # nothing was used up
        model = logistic(delta=1e-6, options={"rounds": 1}).fit(table)
    assert said[0].filename == __file__
    assert model.certificate_.budget.delta == 1e-6


def test_a_mistake_in_the_first_chunk_costs_a_fit_nothing(tmp_path):
    odometer = dp.Odometer(tmp_path / "table.odometer", dp.ApproxDP(1.5, 1e-6))
    model = logistic(**FEW, odometer=odometer)
    narrow = dp.data.from_batches([(X[:, :2], CLASSES)], n=N, d=3, labels="text")
    numbers = dp.data.from_batches([(X, CLASSES)], n=N, d=3)
    for table, words in ((narrow, "chunk 0 .*2 columns"), (numbers, r"labels='text'\)")):
        with pytest.raises(DataError, match=words):
            model.fit(table)
        assert not odometer.entries()
    model.fit(stream())
    assert len(odometer.entries()) == 1
