"""Estimators whose bounds are estimated within the budget."""

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import ParameterError
from dpsco.models import SavedModel
from dpsco.models.config import config_of

N = 6000
rng = np.random.default_rng(8)
X = rng.normal(size=(N, 3))
LINE = X @ [2.0, -1.0, 0.0] + rng.normal(size=N) / 4
CLASSES = np.where(LINE > 0.3, 1, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("unit", [1e-5, 1.0, 3e6])
def test_the_unit_of_rows_does_not_matter(unit):
    model = dp.PrivateLogisticRegression(epsilon=2.0, bounds="private", classes=[0, 1])
    model.fit(unit * X, CLASSES)
    assert model.score(unit * X, CLASSES) > 0.9
    assert 1.0 * unit < model.feature_norm_ < 8.0 * unit
    certificate = model.certificate_
    assert certificate.verify().ok
    assert certificate.epsilon(1.0 / N**2) <= 2.0
    assert len(certificate.releases) > len(model.plan_.releases())  # the histogram is in it


@pytest.mark.thorough
@pytest.mark.parametrize("unit", [1e-3, 1e4])
@pytest.mark.parametrize("kind", [dp.PrivateLinearRegression, dp.PrivateAbsoluteRegressor])
def test_the_range_of_labels_is_estimated_as_well(kind, unit):
    model = kind(epsilon=2.0, bounds="private").fit(7 * X, unit * (LINE + 20))
    assert np.abs(model.coef_ * 7 / unit - [2.0, -1.0, 0.0]).max() < 0.5
    assert abs(model.intercept_ / unit - 20) < 1.0
    low, high = model.label_range_
    assert low < 17 * unit
    assert 24 * unit < high < 200 * unit
    assert model.certificate_.epsilon(1.0 / N**2) <= 2.0


@pytest.mark.thorough
def test_what_is_declared_is_not_estimated():
    model = dp.PrivateLinearRegression(epsilon=2.0, bounds="private", label_range=(-10, 10)).fit(
        X, LINE
    )
    assert not hasattr(model, "label_range_")
    assert len(model.certificate_.releases) == 1 + len(model.plan_.releases())
    other = dp.PrivateLinearRegression(epsilon=2.0, bounds="private", feature_norm=4.0).fit(X, LINE)
    assert other.feature_norm_ == 4.0
    assert model.score(X, LINE) > 0.9 < other.score(X, LINE)


def test_estimates_do_not_outlive_their_fit():
    quick = {"solver": "noisy_gd", "options": {"rounds": 2}}
    model = dp.PrivateLinearRegression(epsilon=2.0, bounds="private", **quick).fit(X, LINE)
    assert model.label_range_[0] < model.label_range_[1]
    model.set_params(bounds="declared", feature_norm=4.0, label_range=(-9, 9)).fit(X, LINE)
    assert not hasattr(model, "feature_norm_")
    assert not hasattr(model, "label_range_")


def test_the_mean():
    model = dp.PrivateMean(epsilon=1.0, bounds="private", centre=1e4).fit(1e4 + 100 * X)
    assert np.abs(model.mean_ - 1e4).max() < 30
    assert model.certificate_.epsilon(1.0 / N**2) <= 1.0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (dp.PrivateLinearRegression(bounds="private", radius=3.0), "radius is in units"),
        (dp.PrivateLinearRegression(bounds="private", scale=3.0), "scale is in units"),
        (dp.PrivateHuberRegressor(bounds="private", threshold=3.0), "threshold is in units"),
        (
            dp.PrivateLinearRegression(bounds="private", feature_norm=1.0, label_range=(0, 1)),
            "nothing to estimate",
        ),
        (dp.PrivateLinearRegression(bounds="private", bounds_share=2.0), "share"),
        (dp.PrivateLinearRegression(bounds="private", delta=0.0), "Gaussian"),
        (dp.PrivateMean(bounds="private", feature_norm=1.0), "not both"),
    ],
)
def test_refusals(model, message):
    with pytest.raises((ParameterError, ValueError), match=message):
        model.fit(X, LINE)


@pytest.mark.parametrize(
    ("kind", "name", "labels", "declared"),
    [
        (dp.PrivateLogisticRegression, "logistic", CLASSES, {"classes": [0, 1]}),
        (dp.PrivateLinearRegression, "linear", LINE, {}),
    ],
)
def test_the_plan_knows_its_model(kind, name, labels, declared, tmp_path):
    """In the unit that is to be found, as the problem of the plan is."""
    quick = {"solver": "noisy_gd", "options": {"rounds": 2}}
    model = kind(epsilon=2.0, bounds="private", alpha=0.1, **declared, **quick).fit(X, labels)
    config = config_of(model.plan_)
    assert (config.name, config.alpha, config.bounds.feature_norm) == (name, 0.1, 1.0)
    model.save(tmp_path / "model.json")
    saved = SavedModel.load(tmp_path / "model.json")
    assert config_of(saved.plan) == config
    assert np.array_equal(saved.model.coef, model.model_.coef)
