"""Estimators whose bounds and units are found within the budget."""

import numpy as np
import pytest
import scipy.sparse

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
    model = dp.PrivateLogisticRegression(epsilon=2.0, classes=[0, 1], random_state=3)
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
    model = kind(epsilon=2.0, random_state=3).fit(7 * X, unit * (LINE + 20))
    assert np.abs(model.coef_ * 7 / unit - [2.0, -1.0, 0.0]).max() < 0.5
    assert abs(model.intercept_ / unit - 20) < 1.0
    low, high = model.label_range_
    assert low < 17 * unit
    assert 24 * unit < high < 200 * unit
    assert model.certificate_.epsilon(1.0 / N**2) <= 2.0


@pytest.mark.thorough
def test_what_is_declared_is_not_estimated():
    model = dp.PrivateLinearRegression(epsilon=2.0, label_range=(-10, 10)).fit(X, LINE)
    assert not hasattr(model, "label_range_")
    assert len(model.certificate_.releases) == 2 + len(model.plan_.releases())
    other = dp.PrivateLinearRegression(epsilon=2.0, feature_norm=4.0).fit(X, LINE)
    assert not hasattr(other, "feature_norm_")
    assert model.score(X, LINE) > 0.9 < other.score(X, LINE)


@pytest.mark.parametrize("kind", [dp.PrivateHuberRegressor, dp.PrivateLinearRegression])
def test_declared_rows_of_unequal_columns_are_learnt_from(kind):
    raw = X * [1.0, 10.0, 3.0] + [5.0, 0.0, 50.0]
    facts = {"epsilon": 1.0, "label_range": (-10, 10), "feature_norm": 150.0, "random_state": 3}
    model = kind(**facts).fit(raw, LINE)
    assert model.score(raw, LINE) > 0.6
    assert kind(units="declared", **facts).fit(raw, LINE).score(raw, LINE) < 0.4
    assert model.certificate_.verify().ok


def test_estimates_do_not_outlive_their_fit():
    quick = {"solver": "noisy_gd", "options": {"rounds": 2}}
    model = dp.PrivateLinearRegression(epsilon=2.0, **quick).fit(X, LINE)
    assert model.label_range_[0] < model.label_range_[1]
    model.set_params(bounds="declared", feature_norm=4.0, label_range=(-9, 9)).fit(X, LINE)
    assert not hasattr(model, "feature_norm_")
    assert not hasattr(model, "label_range_")


def test_the_mean():
    model = dp.PrivateMean(epsilon=1.0, centre=1e4).fit(1e4 + 100 * X)
    assert np.abs(model.mean_ - 1e4).max() < 30
    assert model.certificate_.epsilon(1.0 / N**2) <= 1.0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (dp.PrivateLinearRegression(radius=3.0), "radius is in units"),
        (dp.PrivateLinearRegression(scale=3.0), "scale is in units"),
        (dp.PrivateHuberRegressor(threshold=3.0), "threshold is in units"),
        (dp.PrivateLinearRegression(bounds_share=2.0), "share"),
        (dp.PrivateLinearRegression(delta=0.0), "Gaussian"),
        (dp.PrivateMean(delta=0.0), "Gaussian"),
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
    model = kind(epsilon=2.0, alpha=0.1, **declared, **quick).fit(X, labels)
    config = config_of(model.plan_)
    assert (config.name, config.alpha, config.bounds.feature_norm) == (name, 0.1, 1.0)
    model.save(tmp_path / "model.json")
    saved = SavedModel.load(tmp_path / "model.json")
    assert config_of(saved.plan) == config
    assert np.array_equal(saved.model.coef, model.model_.coef)


# -- tables that tell little -----------------------------------------------------------------------


def table_of(kind, n=3000):
    """Return rows and labels that give a search nothing, or little, to find."""
    rows = np.random.default_rng(3).normal(size=(n, 3))
    labels = rows @ [2.0, -1.0, 0.0] + 5.0
    if kind == "constant columns":
        rows[:, 1:] = [7.0, 0.0]
    if kind == "one non-zero":
        rows[:] = 0.0
        rows[17, 1] = 1e6
    if kind == "one column":
        rows = rows[:, :1]
    if kind == "equal labels":
        labels[:] = 3.0
    if kind == "labels of 0":
        labels[:] = 0.0
    if kind == "null rows":
        rows[:, 0] = np.nan
    if kind == "huge":
        rows *= 1e300
        labels *= 1e300
    return rows, labels


KINDS = ["constant columns", "one non-zero", "one column", "equal labels", "labels of 0"]
KINDS += ["null rows", "huge"]


@pytest.mark.filterwarnings("ignore::dpsco.errors.AccuracyWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_tables_that_tell_little_have_a_finite_model(kind, sparse):
    rows, labels = table_of(kind)
    data = scipy.sparse.csr_array(rows) if sparse else rows
    model = dp.PrivateLinearRegression(epsilon=1.0, random_state=1).fit(data, labels)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict(np.zeros((1, rows.shape[1])))).all()
    low, high = model.label_range_
    assert low < high
    if kind == "equal labels":
        assert low <= 3.0 <= high
    classes = dp.PrivateLogisticRegression(classes=[0, 1], random_state=1)
    assert np.isfinite(classes.fit(data, labels > 0).coef_).all()


@pytest.mark.filterwarnings("ignore::dpsco.errors.AccuracyWarning")
def test_too_few_rows_have_one_length_or_a_refusal_that_says_what_would_work():
    few = dp.PrivateLogisticRegression(classes=[0, 1], random_state=1).fit(X[:400], CLASSES[:400])
    assert "too much for 400 rows" in few.units_
    assert len(np.unique(few.feature_scale_)) == 1
    with pytest.raises(dp.errors.AssumptionError, match=r"too few .*Declare the bounds"):
        dp.PrivateLogisticRegression(classes=[0, 1]).fit(X[:100], CLASSES[:100])
    declared = dp.PrivateLogisticRegression(classes=[0, 1], feature_norm=3.0, random_state=1)
    assert "so few rows" in declared.fit(X[:100], CLASSES[:100]).units_
    assert declared.feature_scale_.tolist() == [1.0, 1.0, 1.0]


def test_streams_find_units_where_they_can_begin_anew():
    parts = [(X[k : k + 1000], CLASSES[k : k + 1000].astype(float)) for k in range(0, N, 1000)]
    kind = {"classes": [0, 1], "feature_norm": 4.0, "random_state": 1}
    again = dp.PrivateLogisticRegression(**kind).fit(dp.data.from_batches(parts, n=N, d=3))
    assert "noisy sum" in again.units_
    once = dp.PrivateLogisticRegression(**kind).fit(dp.data.from_batches(iter(parts), n=N, d=3))
    assert "the rows are read once" in once.units_
    raw = dp.PrivateLogisticRegression(classes=[0, 1], random_state=1)
    assert "noisy histograms" in raw.fit(dp.data.from_batches(parts, n=N, d=3)).units_
    with pytest.raises(ParameterError, match=r"read once.* Declare the bounds"):
        raw.fit(dp.data.from_batches(iter(parts), n=N, d=3))


@pytest.mark.parametrize("units", ["auto", "declared"])
def test_a_model_file_is_tied_and_its_certificate_speaks_of_the_units(units, tmp_path):
    model = dp.PrivateLogisticRegression(
        classes=[0, 1], feature_norm=4.0, units=units, solver="noisy_gd", random_state=1
    ).fit(X, CLASSES)
    model.save(tmp_path / "model.json")
    saved = SavedModel.load(tmp_path / "model.json")
    assert saved.verify().verdict == "VALID"
    assert np.array_equal(saved.predict(X), model.predict(X))
    assert any("noisy sum" in line for line in model.certificate_.enforced) == (units == "auto")


def test_a_refit_finds_its_own_units():
    model = dp.PrivateLogisticRegression(classes=[0, 1], epsilon=2.0, random_state=1)
    first = model.fit(X, CLASSES).feature_scale_
    second = model.fit(1000.0 * X, CLASSES).feature_scale_
    assert second == pytest.approx(1000.0 * first, rel=0.5)


@pytest.mark.parametrize("declared", [{}, {"feature_norm": 12.0}])
def test_without_an_intercept_nothing_is_centred(declared):
    """Columns around 5, and a label that is their sum: a centre would have to go somewhere."""
    rng = np.random.default_rng(0)
    X = 5.0 + rng.standard_normal((20_000, 3))
    y = X @ [1.0, 2.0, 3.0]
    budget = {"epsilon": 8.0, "fit_intercept": False, "random_state": 0}
    model = dp.PrivateHuberRegressor(**budget, **declared, label_range=(0, 60)).fit(X, y)
    assert model.intercept_ == 0.0
    assert np.all(model.feature_centre_ == 0.0)
    assert model.coef_ == pytest.approx([1.0, 2.0, 3.0], abs=0.3)
    classes = dp.PrivateLogisticRegression(**budget, **declared, classes=[0, 1]).fit(X, y > 30)
    assert np.all(classes.intercept_ == 0.0)


def test_a_single_column_is_not_cut_at_its_usual_length():
    """At 3 spreads where noise is small: the slope of a sum is right to 3 %."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((50_000, 1))
    model = dp.PrivateHuberRegressor(epsilon=8.0, random_state=0).fit(X, X[:, 0])
    assert model.coef_ == pytest.approx([1.0], rel=0.03)


def test_one_unit_for_all_columns_is_warned_of_before_it_is_paid_for():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((5000, 38)), rng.choice([0, 1], 5000)
    model = dp.PrivateLogisticRegression(classes=[0, 1], epsilon=0.5, random_state=0)
    with pytest.warns(dp.errors.OutlookWarning, match="all columns are measured in one unit"):
        model.fit(X, y)
