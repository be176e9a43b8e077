"""scikit-learn's own checks of an estimator; every exception is listed with its reason."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpsco.estimators import (
    PrivateAbsoluteRegressor,
    PrivateGridSearch,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMean,
    PrivateQuantileRegressor,
    PrivateSimplexRegressor,
    PrivateSVC,
    PrivateSVR,
)

# scikit-learn's checks fit labels of many kinds with one and the same estimator. Classes are
# declared here, never discovered, so in these tests somebody must declare what each check made up.


class Declaring:
    def fit(self, X, y):
        self._declared = None if y is None else np.unique(np.asarray(y))
        return super().fit(X, y)

    def _label_rule(self):
        return {"classes": self._declared}


class DeclaringLogisticRegression(Declaring, PrivateLogisticRegression):
    pass


class DeclaringSVC(Declaring, PrivateSVC):
    pass


PUBLIC = {"delta": 1e-6, "random_state": 0}
QUICK = {"solver": "noisy_gd", "options": {"rounds": 60}}
CLASSIFIER = {**PUBLIC, **QUICK, "feature_norm": 10.0}
REGRESSOR = {**PUBLIC, **QUICK, "feature_norm": 8.0, "label_range": (-5, 5)}
ESTIMATORS = [
    DeclaringLogisticRegression(epsilon=1000.0, **CLASSIFIER),
    DeclaringSVC(epsilon=1000.0, **CLASSIFIER),
    DeclaringLogisticRegression(epsilon=1000.0, penalty="l1", radius=3.0, **CLASSIFIER),
    PrivateLinearRegression(epsilon=1000.0, **REGRESSOR),
    PrivateLasso(epsilon=1000.0, radius=50.0, **REGRESSOR),
    PrivateSimplexRegressor(epsilon=1000.0, total=50.0, **REGRESSOR),
    PrivateHuberRegressor(epsilon=1000.0, **REGRESSOR),
    PrivateQuantileRegressor(epsilon=1000.0, **REGRESSOR),
    PrivateAbsoluteRegressor(epsilon=1000.0, **REGRESSOR),
    PrivateSVR(epsilon=1000.0, **REGRESSOR),
    PrivateMean(epsilon=1000.0, **PUBLIC, feature_norm=20.0),
    PrivateGridSearch(
        PrivateLinearRegression(**QUICK, feature_norm=8.0, label_range=(-5, 5)),
        {"alpha": [0.0, 1e-3]},
        epsilon=1000.0,
        **PUBLIC,
        mean_runs=2.0,
    ),
]

# Each of these asks `fit` for an error that depends on what a row holds. Such an error would tell
# something about the row, so the row counts as nothing instead.
ROWS = {
    "check_dtype_object": "an entry that is no number makes its row count as nothing",
    "check_estimators_nan_inf": "a number that is not finite makes its row count as nothing",
}
LABELS = {"check_supervised_y_no_nan": "a row without a usable label counts as nothing"}
CLASSES = {"check_classifiers_regression_target": "a row of an undeclared class counts as nothing"}

NUMBER = {"check_sparsify_coefficients": "sparsify is a number of weights here, and no method"}

SHARES = {"check_regressors_train": "weights of one sum, none below 0, cannot follow any label"}


def exceptions(estimator):
    found = dict(ROWS)
    if hasattr(estimator, "sparsify"):
        found |= NUMBER
    if isinstance(estimator, Declaring):
        return found | CLASSES
    if isinstance(estimator, PrivateSimplexRegressor):
        found |= SHARES
    return found | (LABELS if hasattr(estimator, "predict") else {})


@pytest.mark.thorough
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=exceptions)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
