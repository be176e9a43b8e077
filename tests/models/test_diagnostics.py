"""How a model errs on public rows: against scikit-learn, and with intervals that cover."""

import math

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from dpsco.models import LinearModel, measure
from dpsco.models.diagnostics import diagnose, share_interval

RNG = np.random.default_rng(0)


def logistic(rows, coef=(2.0, -1.0)):
    X = RNG.normal(size=(rows, 2))
    model = LinearModel("logistic", np.array([coef]), np.zeros(1), classes=("no", "yes"))
    labels = (X @ coef + RNG.logistic(size=rows) > 0).astype(float)
    return model, X, labels


def test_confusion_is_scikit_learns():
    model, X, labels = logistic(500)
    expected = confusion_matrix(labels, model.places(X))
    assert np.array_equal(diagnose(model, X, labels).confusion, expected)


def test_a_true_model_is_calibrated():
    """Ten bins, each within its two-sigma interval widened by half: false alarms below 1 in 30."""
    model, X, labels = logistic(5_000)
    bins = diagnose(model, X, labels).calibration
    assert len(bins) == 10
    assert sum(each.rows for each in bins) == 5_000
    for each in bins:
        assert each.low <= each.value <= each.high
        reach = 0.75 * (each.high - each.low)
        assert abs(each.predicted - each.value) < reach
    wrong = diagnose(LinearModel("logistic", 4 * model.coef, np.zeros(1), ("no", "yes")), X, labels)
    assert any(not each.low <= each.predicted <= each.high for each in wrong.calibration)


def test_standard_errors_are_those_of_repetition():
    """Of 200 samples of 400 rows: a score spreads by half of what is stated, within 25 %."""
    scores, stated = [], []
    for _ in range(200):
        model, X, labels = logistic(400)
        scores.append(measure(model, X, labels).values)
        stated.append(diagnose(model, X, labels).spread)
    for name in ("accuracy", "log-loss", "AUC"):
        spread = np.std([each[name] for each in scores])
        assert np.mean([each[name] for each in stated]) / 2 == pytest.approx(spread, rel=0.25)


def test_residuals_show_a_bias():
    X = RNG.uniform(0, 1, (2_000, 1))
    model = LinearModel("huber", np.array([[10.0]]), np.zeros(1), label_range=(0.0, 20.0))
    labels = 10.0 * X[:, 0] + np.where(X[:, 0] > 0.5, 2.0, 0.0) + RNG.normal(size=2_000)
    found = diagnose(model, X, labels)
    first, last = found.residuals[0], found.residuals[-1]
    assert first.low < 0.0 < first.high
    assert last.low < 2.0 < last.high
    assert last.low > 1.0
    assert set(found.spread) == {"MAE", "RMSE"}
    assert found.confusion == found.calibration == ()


def test_more_classes_and_models_without_odds():
    X, labels = RNG.normal(size=(90, 2)), RNG.integers(0, 3, 90).astype(float)
    many = LinearModel("logistic", RNG.normal(size=(3, 2)), np.zeros(3), ("a", "b", "c"))
    assert np.sum(diagnose(many, X, labels).confusion) == 90
    assert diagnose(many, X, labels).calibration
    margin = LinearModel("svc", np.ones((1, 2)), np.zeros(1), ("a", "b"))
    assert diagnose(margin, X, np.minimum(labels, 1.0)).calibration == ()


def test_rows_without_a_label_do_not_count():
    model, X, labels = logistic(50)
    labels[:10] = math.nan
    assert np.sum(diagnose(model, X, labels).confusion) == 40
    assert diagnose(model, X, np.full(50, math.nan)).spread == {}


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_intervals_of_shares_stay_within_and_around(share):
    low, high = share_interval(share, 30)
    assert 0.0 <= low <= share <= high <= 1.0
    assert high - low > 0.1
