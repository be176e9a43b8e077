"""One warning, with the right total, wherever scikit-learn fits clones again and again."""

import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    LeaveOneOut,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpsco as dp
from dpsco.errors import PrivacyCostWarning

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.4, 0.4, (60, 4))
y = np.where(X[:, 0] > 0, 1, 0)
Y = np.column_stack([y, 1 - y, y])
FITS = []


class Counted(dp.PrivateLogisticRegression):
    """Counts its fits."""

    def fit(self, X, y, **more):
        FITS.append(1)
        return super().fit(X, y, **more)


CLF = Counted(
    feature_norm=1.0, classes=[0, 1], delta=1e-5, epsilon=2.0, solver="noisy_gd",
    options={"rounds": 2}, units="declared", random_state=0,
)  # fmt: skip
GRID = {"alpha": [0.0, 0.1, 0.2]}
PIPE = make_pipeline(FunctionTransformer(), CLF)
CASES = {
    "grid": (lambda: GridSearchCV(CLF, GRID, cv=3).fit(X, y), 10),
    "grid without refit": (lambda: GridSearchCV(CLF, GRID, cv=3, refit=False).fit(X, y), 9),
    "random": (lambda: RandomizedSearchCV(CLF, GRID, n_iter=2, cv=2).fit(X, y), 5),
    "grid in cross-validation": (
        lambda: cross_val_score(GridSearchCV(CLF, GRID, cv=2), X, y, cv=3), 21
    ),
    "cross-validation": (lambda: cross_val_score(CLF, X, y, cv=4), 4),
    "default folds": (lambda: cross_val_score(CLF, X, y), 5),
    "a pipeline": (lambda: cross_val_predict(PIPE, X, y, cv=3), 3),
    "calibration": (lambda: CalibratedClassifierCV(CLF, cv=3).fit(X, y), 3),
    "calibration of one": (lambda: CalibratedClassifierCV(CLF, cv=3, ensemble=False).fit(X, y), 4),
    "bagging": (lambda: BaggingClassifier(CLF, n_estimators=6).fit(X, y), 6),
    "bags in folds": (
        lambda: cross_val_score(BaggingClassifier(CLF, n_estimators=3), X, y, cv=2), 6
    ),
    "elimination": (lambda: RFE(CLF, n_features_to_select=1, step=2).fit(X, y), 3),
    "half": (lambda: RFE(CLF).fit(X, y), 3),
    "one by one": (
        lambda: SequentialFeatureSelector(CLF, n_features_to_select=2, cv=2).fit(X, y), 14
    ),
    "one off at a time": (
        lambda: SequentialFeatureSelector(
            CLF, n_features_to_select=3, cv=2, direction="backward"
        ).fit(X, y), 8
    ),
    "outputs": (lambda: MultiOutputClassifier(CLF).fit(X, Y), 3),
    "chain": (lambda: ClassifierChain(CLF).fit(X, Y), 3),
    "stack": (lambda: StackingClassifier([("a", CLF), ("b", CLF)], cv=3).fit(X, y), 8),
    "stack below another": (
        lambda: StackingClassifier([("a", CLF), ("b", LogisticRegression())], CLF, cv=2).fit(X, y),
        4,
    ),
    "vote": (lambda: VotingClassifier([("a", CLF), ("b", CLF)]).fit(X, y), 2),
    "threshold": (lambda: TunedThresholdClassifierCV(CLF, cv=3).fit(X, y), 4),
    "learning curve": (
        lambda: learning_curve(CLF, X, y, cv=2, train_sizes=[0.5, 1.0]), 4
    ),
    "validation curve": (
        lambda: validation_curve(CLF, X, y, param_name="alpha", param_range=[0, 1, 2], cv=2), 6
    ),
    "permutations": (lambda: permutation_test_score(CLF, X, y, cv=2, n_permutations=3), 8),
}  # fmt: skip


def warned(call):
    FITS.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if issubclass(w.category, PrivacyCostWarning)]


@pytest.mark.parametrize("name", CASES)
def test_one_warning_with_the_right_total(name):
    call, total = CASES[name]
    (text,) = warned(call)
    assert len(FITS) == total
    assert f"{total} times, each time at epsilon 2 " in text
    assert f"together epsilon {2 * total:g}," in text


@pytest.mark.parametrize(
    "call",
    [
        lambda: cross_val_score(CLF, X[:6], [0, 1] * 3, cv=LeaveOneOut()),
        lambda: OneVsRestClassifier(CLF).fit(X, Y),
        lambda: RFECV(CLF, cv=2).fit(X, y),
        lambda: ClassifierChain(CLF, cv=2).fit(X, Y),
    ],
    ids=["one out", "rest", "RFECV", "chain"],
)
def test_totals_that_depend_on_rows_are_not_told(call):
    (text,) = warned(call)
    assert len(FITS) > 1
    assert "several times" in text
    assert "k fits cost k times epsilon 2" in text


@pytest.mark.parametrize(
    "call",
    [
        lambda: CLF.fit(X, y),
        lambda: PIPE.fit(X, y),
        lambda: SelectFromModel(CLF).fit(X, y),
        lambda: FixedThresholdClassifier(CLF).fit(X, y),
        lambda: BaggingClassifier(CLF, n_estimators=1).fit(X, y),
    ],
    ids=["alone", "pipeline", "selection", "threshold", "one bag"],
)
def test_a_single_fit_is_no_repetition(call):
    assert warned(call) == []
    assert len(FITS) == 1


def test_every_call_is_warned_of_again():
    search = GridSearchCV(CLF, GRID, cv=2)

    def twice():
        for _ in range(2):
            search.fit(X, y)

    assert len(warned(twice)) == 2


def test_means_and_threads_warn_too():
    mean = dp.PrivateMean(feature_norm=1.0, delta=1e-5, epsilon=0.5, random_state=0)
    (text,) = warned(lambda: cross_val_score(mean, X, cv=3, scoring=lambda *_: 0.0))
    assert "3 times, each time at epsilon 0.5 " in text
    regressor = dp.PrivateHuberRegressor(
        feature_norm=1.0, label_range=(0, 1), delta=1e-5, solver="noisy_gd", random_state=0
    )
    texts = warned(lambda: BaggingRegressor(regressor, n_estimators=2, n_jobs=2).fit(X, y))
    assert all("PrivateHuberRegressor" in text for text in texts)
