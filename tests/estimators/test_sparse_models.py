"""Lasso, simplex and l1 logistic regression: what is fitted, kept, chosen, saved and refused."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import dpsco as dp
from dpsco.errors import ParameterError
from dpsco.geometry.domains import L1Ball, Simplex

N, D = 10_000, 40
SIGNS = {"feature_norm": D**0.5, "random_state": 0}
NUMBERS = {**SIGNS, "label_range": (-3, 3)}
CLASSES = {**SIGNS, "classes": ["no", "yes"], "penalty": "l1"}


def rows(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], (n, D))
    score = 1.5 * X[:, 3] - X[:, 8] + 0.5
    return X, score, np.where(score + rng.logistic(size=n) > 0, "yes", "no")


def test_weights_are_in_units_of_labels_within_the_radius():
    X, score, _ = rows()
    model = dp.PrivateLasso(radius=3.0, **NUMBERS).fit(X, score)
    assert isinstance(model.plan_.problem.domain, L1Ball)
    assert model.plan_.problem.domain.radius(D + 1) == pytest.approx(3.0 / 3.0)  # scaled labels
    share = abs(model.intercept_) / (0.3 * D**0.5)  # the weight of the intercept's column
    assert np.abs(model.coef_).sum() + share <= 3.0 * (1 + 1e-9)
    assert model.coef_[[3, 8]] == pytest.approx([1.5, -1.0], abs=0.2)
    assert model.intercept_ == pytest.approx(0.5, abs=0.3)
    assert model.score(X, score) > 0.95


def test_shares_add_up_to_their_total():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (N, D))
    y = 10.0 * (X[:, 3] * 0.75 + X[:, 8] * 0.25)
    model = dp.PrivateSimplexRegressor(
        total=10.0, label_range=(0, 10), feature_norm=D**0.5, random_state=0, epsilon=4.0
    ).fit(X, y)
    assert isinstance(model.plan_.problem.domain, Simplex)
    assert model.coef_.sum() == pytest.approx(10.0, rel=1e-9)
    assert model.coef_.min() >= 0.0
    assert model.intercept_ == 0.0
    assert np.argmax(model.coef_) == 3


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_classes_have_probabilities_and_files(kind, tmp_path):
    X, _, y = rows()
    model = dp.PrivateLogisticRegression(radius=4.0, **CLASSES).fit(kind(X), y)
    assert model.plan_.problem.domain == L1Ball(4.0)
    assert np.abs(model.coef_).sum() <= 4.0
    assert model.score(X, y) > 0.7
    assert model.predict_proba(X[:3]).sum(axis=1) == pytest.approx(np.ones(3))
    model.save(tmp_path / "model.json")
    saved = dp.models.SavedModel.load(tmp_path / "model.json")
    assert saved.verify().ok
    assert np.array_equal(saved.probabilities(X[:9]), model.predict_proba(X[:9]))


def test_the_norm_of_a_radius_is_euclidean_unless_asked():
    X, _, y = rows(500)
    plain = {name: value for name, value in CLASSES.items() if name != "penalty"}
    model = dp.PrivateLogisticRegression(radius=4.0, **plain).fit(X, y)
    assert model.plan_.problem.domain == dp.domains.L2Ball(4.0)
    with pytest.raises(ParameterError, match="penalty"):
        dp.PrivateLogisticRegression(**{**CLASSES, "penalty": "l3"}).fit(X, y)


def test_the_largest_weights_are_kept_for_nothing(tmp_path):
    X, score, _ = rows()
    whole = dp.PrivateLasso(radius=3.0, **NUMBERS).fit(X, score)
    few = dp.PrivateLasso(radius=3.0, sparsify=2, **NUMBERS).fit(X, score)
    assert np.flatnonzero(few.coef_).tolist() == [3, 8]
    assert few.coef_[[3, 8]].tolist() == whole.coef_[[3, 8]].tolist()
    assert few.certificate_.releases == whole.certificate_.releases
    few.save(tmp_path / "model.json")
    assert dp.models.SavedModel.load(tmp_path / "model.json").verify().ok


def test_chosen_columns_are_paid_for_together_with_the_fit():
    X, score, y = rows()
    number = dp.PrivateLasso(radius=3.0, select_columns=2, **NUMBERS).fit(X, score)
    assert number.selected_columns_.tolist() == [3, 8]
    kind = dp.PrivateLogisticRegression(radius=4.0, select_columns=2, **CLASSES).fit(X, y)
    assert np.flatnonzero(kind.coef_[0]).tolist() == kind.selected_columns_.tolist() == [3, 8]
    for model in (number, kind):
        assert len(model.certificate_.releases) == 2 + len(model.plan_.releases())
        assert model.certificate_.epsilon(delta=N**-2.0) <= 1.0
        assert model.certificate_.verify().ok
        assert any("2 of 40 columns" in sentence for sentence in model.certificate_.enforced)
    again = number.set_params(select_columns=None).fit(X, score)
    assert not hasattr(again, "selected_columns_")


class Unread:
    """Rows that nobody may look at: every entry is missing, and errors must come before."""

    X, y = np.full((50, D), np.nan), np.zeros(50)


@pytest.mark.parametrize("radius", [0.0, np.inf, np.nan, None, -1.0])
def test_no_radius_is_refused_with_an_alternative(radius):
    with pytest.raises(ParameterError, match=r"radius.*without such a bound") as caught:
        dp.PrivateLasso(radius=radius, **NUMBERS).fit(Unread.X, Unread.y)
    assert caught.value.parameter == "radius"
    with pytest.raises(ParameterError, match="radius"):
        dp.PrivateLasso(radius=radius).fit(Unread.X, Unread.y)  # before the missing bounds
    with pytest.raises(ParameterError, match="radius"):
        dp.PrivateLogisticRegression(radius=radius, **CLASSES).fit(Unread.X, Unread.y)


@pytest.mark.parametrize("total", [0.0, np.inf, None])
def test_no_total_is_refused(total):
    with pytest.raises(ParameterError, match="total must be") as caught:
        dp.PrivateSimplexRegressor(total=total, **NUMBERS).fit(Unread.X, Unread.y)
    assert caught.value.parameter == "total"


@pytest.mark.parametrize("name", ["sparsify", "select_columns"])
@pytest.mark.parametrize("count", [0, D + 1, 1.5])
def test_more_columns_than_there_are_is_refused(name, count):
    with pytest.raises(ParameterError, match=name) as caught:
        dp.PrivateLasso(radius=1.0, **NUMBERS, **{name: count}).fit(Unread.X, Unread.y)
    assert caught.value.parameter == name


def test_a_radius_needs_declared_units():
    for kind, own in (
        (dp.PrivateLasso, {"radius": 1.0, "label_range": (-1, 1)}),
        (dp.PrivateLasso, {"radius": 1.0, "feature_norm": 1.0}),
        (dp.PrivateSimplexRegressor, {"label_range": (-1, 1)}),
        (dp.PrivateLogisticRegression, {"penalty": "l1", "radius": 1.0, "classes": [0, 1]}),
    ):
        with pytest.raises(ParameterError, match="must be declared"):
            kind(**own).fit(Unread.X, Unread.y)


def test_a_choice_goes_with_no_other_reading_of_the_rows(tmp_path):
    model = dp.PrivateLasso(radius=1.0, select_columns=2, count_rows=True, **NUMBERS)
    with pytest.raises(ParameterError, match="count_rows"):
        model.fit(Unread.X, Unread.y)
    with pytest.raises(ParameterError, match="checkpoint"):
        model.set_params(count_rows=False).fit(Unread.X, Unread.y, checkpoint=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_million_sparse_columns_are_planned_as_they_are():
    bounds = dp.Bounds(20**0.5, label="sign")
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=bounds, domain=dp.domains.L1Ball(30.0))
    advice = dp.recommend(problem, 20_000, 10**6, dp.ApproxDP(1.0, 1e-6))
    assert advice.best == "noisy_gd"
    assert not advice.ranked[0].worse
    free = dp.Problem(loss=dp.losses.Logistic(), bounds=bounds)
    assert dp.recommend(free, 20_000, 10**6, dp.ApproxDP(1.0, 1e-6)).ranked[0].worse


def test_too_large_a_radius_on_few_rows_warns_before_the_fit():
    X, _, y = rows(200)
    with pytest.warns(dp.errors.AccuracyWarning, match="smaller radius"):
        dp.PrivateLogisticRegression(radius=90.0, **CLASSES).fit(X, y)
    X, _, y = rows(40_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", dp.errors.AccuracyWarning)
        dp.PrivateLogisticRegression(radius=3.0, **CLASSES).fit(X, y)
