"""Predictions of linear models, in units that were found or without."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import dpsco as dp
from dpsco.data.units import Units
from dpsco.models import LinearModel, SavedModel

COEF, INTERCEPT = np.array([[2.0, -1.0]]), np.array([0.5])
CENTRE, SCALE = np.array([1.0, -1.0]), np.array([4.0, 0.5])


def model(units):
    return LinearModel("linear", COEF, INTERCEPT, None, None, units)


def test_rows_that_a_fit_would_have_seen_as_they_are_keep_their_scores():
    rng = np.random.default_rng(0)
    rows = CENTRE + SCALE * rng.uniform(-0.7, 0.7, size=(50, 2))
    units = Units(SCALE, CENTRE)
    assert np.array_equal(model(units).decision(rows), model(None).decision(rows))


def test_longer_rows_are_shortened_towards_the_centre():
    direction = np.array([0.6, 0.8])
    units = Units(SCALE, CENTRE)
    edge = float(model(None).decision((CENTRE + SCALE * direction)[None])[0])
    for length in (1.0 + 1e-12, 3.0, 1e9, 1e90):
        (score,) = model(units).decision((CENTRE + SCALE * length * direction)[None])
        assert score == pytest.approx(edge, rel=1e-9)


def test_columns_are_cut_before_rows_are_shortened():
    units = Units(SCALE, CENTRE, cut=0.5)
    (score,) = model(units).decision(CENTRE[None] + [1e200, 0.1 * SCALE[1]])
    cut = CENTRE + SCALE * [0.5, 0.1]
    assert score == pytest.approx(float(model(None).decision(cut[None])[0]))


def test_sparse_rows_are_shortened_like_dense_ones():
    rng = np.random.default_rng(1)
    dense = rng.standard_normal((30, 2)) * SCALE * rng.choice([0.1, 1.0, 50.0], size=(30, 1))
    for cut in (1e100, 0.5):
        units = Units(SCALE, cut=cut)
        assert np.any(model(units).decision(dense) != model(None).decision(dense))
        assert model(units).decision(csr_matrix(dense)) == pytest.approx(
            model(units).decision(dense)
        )


def test_sparse_rows_are_predicted_by_a_model_that_was_fitted_on_dense_ones(monkeypatch):
    rng = np.random.default_rng(6)
    dense = rng.standard_normal((30, 2)) * SCALE * rng.choice([0.0, 1.0, 50.0], size=(30, 1))
    units = Units(SCALE, CENTRE, cut=2.0)
    wanted = model(units).decision(dense)
    assert np.any(wanted != model(None).decision(dense))
    for most in (1 << 22, 14):  # in one piece, and in pieces of 7 rows
        monkeypatch.setattr("dpsco.models.linear._PIECE", most)
        assert model(units).decision(csr_matrix(dense)) == pytest.approx(wanted)


def test_units_of_other_rows_are_refused():
    with pytest.raises(dp.errors.ParameterError, match="units are for other rows"):
        model(Units(np.ones(3)))


def test_units_travel_in_the_model_file(tmp_path):
    rng = np.random.default_rng(2)
    X = 5.0 + rng.standard_normal((3000, 2))
    y = (X[:, 0] + rng.standard_normal(3000) > 5.0).astype(int)
    fitted = dp.PrivateLogisticRegression(
        feature_norm=10.0, classes=[0, 1], epsilon=4.0, random_state=0
    ).fit(X, y)
    assert fitted.model_.units is not None
    fitted.save(tmp_path / "model.json")
    loaded = SavedModel.load(tmp_path / "model.json")
    far = np.vstack([X[:5], 100.0 * X[:5]])
    assert np.array_equal(loaded.probabilities(far), fitted.predict_proba(far))
    assert np.abs(fitted.decision_function(far)).max() < np.abs(far @ fitted.coef_[0]).max()
    record = json.loads((tmp_path / "model.json").read_text())
    assert record["units"]["scale"] == fitted.model_.units.scale.tolist()


def test_declared_rows_are_not_shortened_where_labels_alone_were_found():
    rng = np.random.default_rng(4)
    X = rng.uniform(-8.0, 8.0, size=(5000, 1))
    found = dp.PrivateLinearRegression(feature_norm=8.0, epsilon=8.0, random_state=0)
    found.fit(X, 3.0 * X[:, 0])
    assert found.model_.units is None
    assert found.predict([[7.0]]) == pytest.approx([21.0], rel=0.1)


def test_a_certificate_without_the_releases_before_the_fit_is_not_tied():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((3000, 2)), rng.choice([0, 1], 3000)
    options = {"classes": [0, 1], "epsilon": 2.0, "random_state": 0, "count_rows": True}
    fitted = dp.PrivateLogisticRegression(feature_norm=4.0, **options).fit(X, y)
    saved = SavedModel(
        fitted.model_, fitted.certificate_, fitted.plan_, None, None, fitted.rows_counted_
    )
    assert saved.verify(cross_check=False).verdict == "VALID"
    releases = fitted.certificate_.releases
    for gone in (0, 1):  # units, count
        part = replace(fitted.certificate_, releases=releases[:gone] + releases[gone + 1 :])
        outcome = replace(saved, certificate=part).verify(cross_check=False)
        assert outcome.verdict == "NOT VALID"
    bare = replace(saved, model=replace(fitted.model_, units=None))
    assert "other units" in " ".join(bare.verify(cross_check=False).problems)
