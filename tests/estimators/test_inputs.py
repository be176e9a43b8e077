"""What rows hold decides neither errors nor other rows, in whatever form they come."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dpsco as dp
from dpsco.estimators.inputs import training_table

N = 60
rng = np.random.default_rng(2)
X = rng.uniform(-1, 1, (N, 3))
LABELS = np.where(X[:, 0] > 0, "yes", "no")
NUMBERS = X[:, 0]


class Odd:
    def __array__(self, *args, **others):
        raise RuntimeError("secret")


ODD = [
    *("n/a", "", b"x", None, 1j, Odd(), object(), [1.0], (), range(3), np.ones(2), np.ma.masked),
    *(10**400, float("nan"), np.datetime64("now"), datetime.timedelta(1), True, "9" * 400),
]


def fitted(model, rows, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.fit(rows, labels)


def mean():
    return dp.PrivateMean(1.0, feature_norm=1.0, centre=0.5, random_state=0)


def classifier():
    quick = {"solver": "noisy_gd", "options": {"rounds": 2}, "random_state": 0}
    return dp.PrivateLogisticRegression(1.0, feature_norm=1.0, classes=["no", "yes"], **quick)


def regressor():
    quick = {"solver": "noisy_gd", "options": {"rounds": 2}, "random_state": 0}
    return dp.PrivateLinearRegression(1.0, feature_norm=1.0, label_range=(-1, 1), **quick)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_one_entry_of_a_list_decides_nothing(odd):
    rows = X.tolist()
    rows[7][1] = odd
    for labels in (LABELS.tolist(), LABELS):
        fitted(classifier(), rows, labels)
    fitted(mean(), rows, None)
    for model, given in ((classifier(), LABELS.tolist()), (regressor(), NUMBERS.tolist())):
        given[5] = odd
        fitted(model, X.tolist(), given)


def test_a_null_row_is_one_row_alone():
    rows = X.tolist()
    rows[7][1] = "n/a"
    holes = X.copy()
    holes[7, 1] = np.nan
    assert np.array_equal(
        classifier().fit(rows, LABELS).coef_, classifier().fit(holes, LABELS).coef_
    )


def test_a_wrong_column_of_a_sparse_row_stays_in_its_row():
    clean = sparse.csr_matrix(X)
    damaged = clean.copy()
    place = damaged.indptr[7] + 1
    damaged.indices[place] = 3  # beyond the width: SciPy would write into the next row
    holes = X.copy()
    holes[7] = np.nan
    expected = mean().fit(holes).mean_
    assert np.allclose(mean().fit(damaged).mean_, expected)
    damaged.indices[place] = -1
    assert np.allclose(mean().fit(damaged).mean_, expected)


def test_masked_arrays_are_refused_by_type():
    with pytest.raises(ValueError, match="mask"):
        classifier().fit(np.ma.array(X), LABELS)
    with pytest.raises(ValueError, match="mask"):
        regressor().fit(X, np.ma.array(NUMBERS))


@pytest.mark.parametrize("dtype", ["string", "category", "object"])
def test_arrays_of_pandas_are_columns_too(dtype):
    series = pd.Series(LABELS, dtype=dtype)
    expected = classifier().fit(X, LABELS).coef_
    assert np.array_equal(classifier().fit(X, series).coef_, expected)
    assert np.array_equal(classifier().fit(X, series.array).coef_, expected)
    assert np.array_equal(classifier().fit(X, series.values).coef_, expected)
    numbers = pd.Series(NUMBERS, dtype="Float64").array
    assert np.array_equal(regressor().fit(X, numbers).coef_, regressor().fit(X, NUMBERS).coef_)


def test_the_table_of_a_fit_is_what_was_given():
    table = training_table(classifier(), pd.DataFrame(X), pd.Series(LABELS))
    assert (table.n, table.d, table.labels) == (N, 3, "text")
    with pytest.raises(ValueError, match="centre must be a number, or one for each of 3"):
        dp.PrivateMean(1.0, feature_norm=1.0, centre=[0.0, 1.0]).fit(X)
