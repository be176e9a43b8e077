"""Estimators as their users meet them: bounds, frames, pipelines, certificates, refusals."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpsco as dp
from dpsco.errors import BudgetError, ParameterError, PrivacyCostWarning
from dpsco.models import SavedModel

N = 4000
rng = np.random.default_rng(5)
X = rng.uniform(-1, 1, (N, 3))
MARGIN = X @ [4.0, -2.0, 0.0] + 1.0
CLASSES = np.where(MARGIN + rng.logistic(size=N) / 3 > 0, "yes", "no")
THREE = np.digitize(MARGIN, [-1.0, 2.0])
NUMBERS = 30 + 5 * MARGIN + rng.normal(size=N)
NORM = 3**0.5
REGRESSORS = [
    dp.PrivateLinearRegression,
    dp.PrivateHuberRegressor,
    dp.PrivateQuantileRegressor,
    dp.PrivateAbsoluteRegressor,
    dp.PrivateSVR,
]


def logistic(**others):
    return dp.PrivateLogisticRegression(
        **{"epsilon": 1.0, "feature_norm": NORM, "classes": ["no", "yes"], **others}
    )


def quick(**others):
    return logistic(solver="noisy_gd", options={"rounds": 5}, random_state=3, **others)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", REGRESSORS, ids=lambda kind: kind.__name__)
def test_regressors_recover_a_line_in_its_own_units(kind):
    model = kind(epsilon=1.0, feature_norm=NORM, label_range=(0, 70)).fit(X, NUMBERS)
    assert np.abs(model.coef_ - [20.0, -10.0, 0.0]).max() < 4.0
    assert abs(model.intercept_ - 35.0) < 2.0
    assert model.score(X, NUMBERS) > 0.95
    assert model.certificate_.verify().ok
    assert model.certificate_.epsilon(1.0 / N**2) <= 1.0


@pytest.mark.thorough
def test_a_quantile_lies_above_its_part_of_the_labels():
    model = dp.PrivateQuantileRegressor(
        epsilon=8.0, quantile=0.9, feature_norm=NORM, label_range=(0, 70)
    ).fit(X, NUMBERS)
    assert 0.87 < np.mean(model.predict(X) >= NUMBERS) < 0.95


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [dp.PrivateLogisticRegression, dp.PrivateSVC])
def test_classifiers_of_two_and_of_three_classes(kind):
    two = kind(epsilon=1.0, feature_norm=NORM, classes=["no", "yes"]).fit(X, CLASSES)
    assert two.score(X, CLASSES) > 0.88
    assert two.coef_.shape == (1, 3)
    assert two.classes_.tolist() == ["no", "yes"]
    three = kind(epsilon=1.0, feature_norm=NORM, classes=[0, 1, 2]).fit(X, THREE)
    assert three.score(X, THREE) > 0.7
    assert three.coef_.shape == (3, 3)
    assert three.certificate_.epsilon(1.0 / N**2) <= 1.0


def test_the_mean_of_rows():
    model = dp.PrivateMean(epsilon=1.0, feature_norm=2.0, centre=[0.5, 0.0, 0.0]).fit(X + 0.5)
    assert np.abs(model.mean_ - 0.5).max() < 0.05
    assert len(model.certificate_.releases) == 1
    far = dp.PrivateMean(epsilon=1.0, feature_norm=1.0).fit(np.full((N, 1), 1e6))
    assert abs(far.mean_[0] - 1.0) < 0.1  # rows are moved to the bound
    holes = np.full((N, 1), 1.0)
    holes[: N // 2] = np.nan
    assert abs(dp.PrivateMean(epsilon=1.0, feature_norm=1.0).fit(holes).mean_[0] - 0.5) < 0.1


@pytest.mark.parametrize(
    "rows",
    [
        X.tolist(),
        X.astype(np.float32),
        np.asfortranarray(X),
        sparse.csr_matrix(X),
        sparse.csc_array(X),
        pd.DataFrame(X, columns=["a", "b", "c"]),
        pl.DataFrame(X, schema=["a", "b", "c"]),
        X.astype(object),
    ],
    ids=["list", "float32", "fortran", "csr", "csc", "pandas", "polars", "objects"],
)
def test_all_kinds_of_rows_give_the_same_model(rows):
    units = "declared" if sparse.issparse(rows) else "auto"  # sparse rows have no centre
    reference = quick(units=units).fit(X, CLASSES)
    model = quick(units=units).fit(rows, CLASSES)
    assert np.allclose(model.coef_, reference.coef_, atol=1e-5)
    assert (model.predict(rows) == reference.predict(X)).mean() > 0.999
    if hasattr(rows, "columns"):  # older scikit-learn cannot read the names of newer Polars frames
        unread = np.array(["a", "b", "c"]) if isinstance(rows, pl.DataFrame) else None
        assert getattr(model, "feature_names_in_", unread).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "labels",
    [
        CLASSES.tolist(),
        CLASSES.astype(object),
        pd.Series(CLASSES),
        pd.Series(CLASSES, dtype="category"),
        pl.Series(CLASSES.tolist()),
    ],
    ids=["list", "objects", "pandas", "categories", "polars"],
)
def test_all_kinds_of_labels_give_the_same_model(labels):
    assert np.array_equal(quick().fit(X, labels).coef_, quick().fit(X, CLASSES).coef_)


def test_nothing_that_a_row_holds_raises_an_error():
    rows, labels = X.copy(), NUMBERS.copy()
    rows[0], rows[1, 1], rows[2] = np.nan, np.inf, 1e300
    labels[3], labels[4], labels[5] = np.nan, -np.inf, 1e300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = dp.PrivateLinearRegression(epsilon=1.0, feature_norm=NORM, label_range=(0, 70))
        assert model.fit(rows, labels).score(X, NUMBERS) > 0.9
    odd = CLASSES.astype(object)
    odd[0], odd[1], odd[2] = None, 5, "perhaps"
    logistic().fit(X, odd)
    with pytest.raises(ValueError, match="NaN"):  # rows to predict are the caller's own
        model.predict(rows)


@pytest.mark.thorough
def test_the_budget_is_what_was_asked_for():
    default = logistic().fit(X, CLASSES).certificate_
    assert default.budget == dp.ApproxDP(1.0, 1.0 / N**2)
    assert not default.reproducible
    other = quick(delta=1e-6, adjacency="zero_out", rows_per_person=3).fit(X, CLASSES).certificate_
    assert other.budget == dp.ApproxDP(1.0, 1e-6, adjacency="zero_out", unit=dp.Unit(3, "person"))
    assert other.epsilon(1e-6) <= 1.0
    assert other.reproducible
    pure = logistic(delta=0.0, solver="bolt_on_sgd", radius=5.0, alpha=0.1).fit(X, CLASSES)
    assert pure.certificate_.budget == dp.PureDP(1.0)


def test_a_seed_repeats_the_fit_and_no_seed_never_does():
    assert np.array_equal(quick().fit(X, CLASSES).coef_, quick().fit(X, CLASSES).coef_)
    free = quick().set_params(random_state=None)
    assert not np.array_equal(clone(free).fit(X, CLASSES).coef_, free.fit(X, CLASSES).coef_)


def test_pickle_clone_and_the_model_file(tmp_path):
    model = logistic().fit(pd.DataFrame(X, columns=["a", "b", "c"]), CLASSES)
    frame = pd.DataFrame(X[:50], columns=["a", "b", "c"])
    back = pickle.loads(pickle.dumps(model))
    assert np.array_equal(back.predict_proba(frame), model.predict_proba(frame))
    assert back.certificate_.verify().ok
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "coef_")
    model.save(tmp_path / "model.json")
    saved = SavedModel.load(tmp_path / "model.json")
    assert np.array_equal(saved.predict(frame), model.predict(frame))


def test_a_pipeline_of_public_steps():
    steps = make_pipeline(FunctionTransformer(lambda rows: rows / 2), quick(feature_norm=NORM / 2))
    assert steps.fit(X, CLASSES).score(X, CLASSES) > 0.8
    assert steps[-1].certificate_.verify().ok
    logs = logistic().fit(X, CLASSES).predict_log_proba(X[:5])
    assert np.allclose(np.exp(logs).sum(axis=1), 1.0)


def test_an_odometer_pays_and_refuses(tmp_path):
    odometer = dp.Odometer(tmp_path / "table.odometer", dp.ApproxDP(1.2, 1e-7))
    model = quick(delta=1e-7, odometer=odometer)
    model.fit(X, CLASSES)
    with pytest.raises(BudgetError, match="Nothing was recorded or released"):
        clone(model).fit(X, CLASSES)
    assert len(odometer.entries()) == 1
    by_path = quick(epsilon=0.1, delta=1e-7, odometer=str(tmp_path / "table.odometer"))
    by_path.fit(X, CLASSES)
    assert len(odometer.entries()) == 2


@pytest.mark.parametrize(
    ("model", "labels", "message"),
    [
        (
            dp.PrivateLogisticRegression(classes=[0, 1], bounds="declared"),
            THREE,
            "never from the private rows",
        ),
        (dp.PrivateLogisticRegression(feature_norm=1.0), THREE, "List every label"),
        (
            dp.PrivateLinearRegression(feature_norm=1.0, bounds="declared"),
            NUMBERS,
            "label_range=\\(low, high\\)",
        ),
        (dp.PrivateMean(bounds="declared"), None, "feature_norm"),
        (dp.PrivateMean(feature_norm=1.0, centre=[0, 1]), None, "centre"),
        (logistic(epsilon=-1.0), CLASSES, "epsilon"),
        (logistic(delta=2.0), CLASSES, "delta"),
        (logistic(adjacency="both"), CLASSES, "adjacency"),
        (logistic(rows_per_person=0), CLASSES, "rows_per_person"),
        (logistic(random_state=-1), CLASSES, "random_state"),
        (logistic(random_state=np.random.RandomState(0)), CLASSES, "random_state"),
        (logistic(solver="best"), CLASSES, "best"),
        (logistic(bounds="guess"), CLASSES, "bounds"),
        (logistic(options={"speed": 3}, solver="noisy_gd"), CLASSES, "no option 'speed'"),
    ],
)
def test_wrong_parameters_are_explained_at_fit(model, labels, message):
    arguments = (X,) if labels is None else (X, labels)
    with pytest.raises(ValueError, match=message) as caught:
        model.fit(*arguments)
    assert isinstance(caught.value, ParameterError)


def test_labels_of_another_type_are_refused_by_type():
    with pytest.raises(ValueError, match="reads strings"):
        logistic().fit(X, THREE)


def test_searches_of_scikit_learn_warn_with_the_multiplied_cost():
    search = GridSearchCV(quick(), {"alpha": [0.0, 0.1]}, cv=3, refit=False)
    with pytest.warns(PrivacyCostWarning, match="6 times.*together epsilon 6.*PrivateGridSearch"):
        search.fit(X, CLASSES)
    with pytest.warns(PrivacyCostWarning, match="4 times.*on overlapping rows: together epsilon 4"):
        cross_val_score(quick(), X, CLASSES, cv=4)
    with pytest.warns(PrivacyCostWarning, match="k fits cost k times epsilon 1"):
        cross_val_score(quick(), X[:6], CLASSES[:6], cv=LeaveOneOut())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        search.fit(X, CLASSES)
    assert len({str(warning.message) for warning in caught}) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick().fit(X, CLASSES)
