"""Scores of a search: each row adds a bounded part, and a score is the one that is meant."""

import itertools
import math

import numpy as np
import pytest
from sklearn.metrics import (
    balanced_accuracy_score,
    log_loss,
    mean_pinball_loss,
    roc_auc_score,
)
from sklearn.pipeline import make_pipeline

import dpsco as dp
from dpsco.data import Bounds, Classes, Flag, Number, Schema
from dpsco.data.labels import Scaled
from dpsco.data.tables.table import from_arrays
from dpsco.estimators.search.scoring import (
    BINS,
    Scoring,
    area,
    balanced_accuracy,
    scoring_bounds,
    scoring_for,
)
from dpsco.models import LinearModel, SavedModel

RUNS = {"mean_runs": 12.0, "distribution": "poisson"}  # a run of each candidate, nearly surely
TWO = Classes("no", "yes")
THREE = Classes("a", "b", "c")
NUMBER = Scaled(-1.0, 3.0)
TWO_MODEL = LinearModel("logistic", np.array([[3.0, -1.0]]), np.array([0.5]), ("no", "yes"))
THREE_MODEL = LinearModel(
    "logistic", np.array([[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0]]), np.zeros(3), ("a", "b", "c")
)
NUMBER_MODEL = LinearModel("quantile", np.array([[2.0, 1.0]]), np.zeros(1), None, (-1.0, 3.0))


def scoring(name, quantile=None):
    if name in ("balanced_accuracy", "roc_auc"):
        classifier = dp.PrivateLogisticRegression(classes=["no", "yes"], feature_norm=1.0)
        return scoring_for(classifier, name)
    return Scoring(name, quantile=quantile)


CASES = {
    "accuracy": (scoring("accuracy"), TWO_MODEL, TWO),
    "accuracy of three": (scoring("accuracy"), THREE_MODEL, THREE),
    "log-loss": (scoring("neg_log_loss"), TWO_MODEL, TWO),
    "log-loss of three": (scoring("neg_log_loss"), THREE_MODEL, THREE),
    "balanced": (scoring("balanced_accuracy"), TWO_MODEL, TWO),
    "balanced of three": (scoring("balanced_accuracy"), THREE_MODEL, THREE),
    "area": (scoring("roc_auc"), TWO_MODEL, TWO),
    "distance": (scoring("neg_mean_absolute_error"), NUMBER_MODEL, NUMBER),
    "pinball": (scoring("neg_mean_pinball_loss", 0.9), NUMBER_MODEL, NUMBER),
}


def sums(case, X, y):
    """Return the exact sum over some rows, as a search takes it."""
    rule, model, label = case
    bounds = Bounds(1.0, label=label)
    source = from_arrays(X, y).bounded(scoring_bounds(bounds), order="given")
    return np.asarray(source.sum(rule.query(model, bounds)))


@pytest.mark.parametrize("name", CASES)
def test_no_row_adds_more_than_its_bound_and_no_two_differ_by_more(name):
    """Brute force: rows of every class and kind, among them null rows, alone and in a table."""
    rule, _, label = case = CASES[name]
    rng = np.random.default_rng(0)
    rows = [*rng.uniform(-1, 1, (12, 2)), [1e9, 0.0], [-1e9, 1e300], [0.0, 0.0], [np.nan, 1.0]]
    numbers = (-1.0, 3.0, 0.7, 99.0, np.nan)
    labels = [*label.values, "none"] if isinstance(label, Classes) else numbers
    table, names = rng.uniform(-1, 1, (6, 2)), rng.choice(np.array(labels), 6)
    pairs = list(itertools.product(rows, labels))
    single = np.array([sums(case, [row], np.array([value])) for row, value in pairs])
    base = sums(case, table, names)
    for (row, value), alone in zip(pairs[::7], single[::7], strict=True):
        whole = sums(case, [*table, row], np.array([*names, value]))
        assert whole == pytest.approx(base + alone, abs=1e-12)
    assert np.linalg.norm(single, axis=1).max() <= rule.bound
    distances = np.linalg.norm(single[:, None] - single[None], axis=2)
    diameter = 2 * rule.bound if rule.diameter is None else rule.diameter
    assert 0.9 * diameter < distances.max() <= diameter
    assert 0.0 in np.linalg.norm(single, axis=1)  # a null row adds nothing


def data(n=4000, seed=1, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.7, 0.7, (n, 2))
    if classes == 2:
        return X, np.where(3 * X[:, 0] - X[:, 1] + rng.logistic(size=n) > 1.5, "yes", "no")
    scores = X @ THREE_MODEL.coef.T + rng.gumbel(size=(n, 3))
    return X, np.array(["a", "b", "c"])[np.argmax(scores, axis=1)]


def test_without_noise_scores_are_those_of_scikit_learn():
    X, y = data()
    chance = TWO_MODEL.probabilities(X)[:, 1]
    third, words = data(classes=3)
    numbers = np.random.default_rng(2).uniform(-1, 3, len(X))
    expected = {
        "accuracy": np.mean(TWO_MODEL.predict(X) == y),
        "log-loss": -log_loss(y == "yes", chance),
        "balanced": balanced_accuracy_score(y, TWO_MODEL.predict(X)),
        "balanced of three": balanced_accuracy_score(words, THREE_MODEL.predict(third)),
        "pinball": -mean_pinball_loss(numbers, NUMBER_MODEL.predict(X), alpha=0.9),
        "area": roc_auc_score(y == "yes", chance),
    }
    for name, value in expected.items():
        rule, _, label = case = CASES[name]
        rows = third if label is THREE else X
        labels = words if label is THREE else numbers if label is NUMBER else y
        score = rule.shown(rule.order(sums(case, rows, labels)), len(rows), label)
        assert score == pytest.approx(value, abs=0.005 if name == "area" else 1e-9), name


def test_scores_of_noise_alone_are_numbers():
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert 0.0 <= balanced_accuracy(rng.normal(size=6) * 50) <= 1.0
        assert 0.0 <= area(rng.normal(size=2 * BINS) * 50) <= 1.0
    assert area(-np.ones(2 * BINS)) == 0.5


def test_a_rare_class_is_what_balanced_scores_look_at():
    """Three rows of four are of one class: always saying so is half right, and no more."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, (6000, 2))
    y = np.where(X[:, 0] > 0.35, "yes", "no")
    model = dp.PrivateLogisticRegression(feature_norm=1.0, classes=["no", "yes"], solver="noisy_gd")
    for name in ("balanced_accuracy", "roc_auc"):
        search = dp.PrivateGridSearch(
            model, {"alpha": [0.0, 30.0]}, epsilon=8.0, scoring=name, random_state=1, **RUNS
        ).fit(X, y)
        if name == "balanced_accuracy":  # a strong penalty does not change how rows are ranked
            assert search.best_params_ == {"alpha": 0.0}
        assert 0.6 < search.best_score_ <= 1.0
        assert search.certificate_.verify(cross_check=False).ok
        (release,) = search.certificate_.releases
        score = release.alternatives[0][-1]
        assert (score.bound, score.diameter) == (scoring(name).bound, scoring(name).diameter)


@pytest.mark.parametrize(
    ("estimator", "name", "words"),
    [
        (
            dp.PrivateSVC(classes=[0, 1]),
            "neg_log_loss",
            "'accuracy' or 'balanced_accuracy' or 'roc",
        ),
        (dp.PrivateLogisticRegression(classes=[0, 1, 2]), "roc_auc", "or 'neg_log_loss', got"),
        (dp.PrivateHuberRegressor(), "neg_mean_pinball_loss", "'neg_mean_absolute_error'"),
        (dp.PrivateLogisticRegression(classes=[0, 1]), "roc_acu", "Did you mean 'roc_auc'?"),
        (dp.PrivateLogisticRegression(classes=[0, 1]), max, "must be made of sums"),
    ],
)
def test_scores_that_a_model_does_not_have(estimator, name, words):
    with pytest.raises(dp.errors.ParameterError) as refusal:
        scoring_for(estimator, name)
    assert words in str(refusal.value)


def test_a_quantile_is_scored_by_its_own_loss():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, (3000, 2))
    y = X[:, 0] + rng.exponential(size=3000)
    model = dp.PrivateQuantileRegressor(
        feature_norm=1.0, label_range=(-1, 5), quantile=0.8, solver="noisy_gd"
    )
    more = {"epsilon": 8.0, "scoring": "neg_mean_pinball_loss", "random_state": 0, "mean_runs": 3}
    search = dp.PrivateGridSearch(model, {"alpha": [0.0]}, **more).fit(X, y)
    true = -mean_pinball_loss(y, search.predict(X), alpha=0.8)
    assert search.best_score_ == pytest.approx(true, abs=0.1)
    with pytest.raises(dp.errors.ParameterError, match="different quantiles do not compare"):
        dp.PrivateGridSearch(model, {"quantile": [0.5, 0.9]}, **more).fit(X, y)


def test_a_search_over_a_pipeline(tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, 3000), "smokes": rng.random(3000) < 0.5})
    y = np.where(frame["age"] + 40 * frame["smokes"] > 70, "yes", "no")
    encoder = dp.TableEncoder(Schema((Number("age", 0, 100), Flag("smokes"))))
    model = dp.PrivateLogisticRegression(
        feature_norm=math.sqrt(2), classes=["no", "yes"], solver="noisy_gd"
    )
    pipeline = make_pipeline(encoder, model)
    grid = {"privatelogisticregression__alpha": [0.0, 100.0]}
    more = {"epsilon": 4.0, "random_state": 0, **RUNS}
    search = dp.PrivateGridSearch(pipeline, grid, scoring="neg_log_loss", **more).fit(frame, y)
    assert search.best_params_ == {"privatelogisticregression__alpha": 0.0}
    assert search.score(frame, y) > 0.85
    assert list(search.feature_names_in_) == ["age", "smokes"]
    search.save(tmp_path / "m.json")
    saved = SavedModel.load(tmp_path / "m.json")
    assert saved.predict(frame).tolist() == search.predict(frame).tolist()
    plain = dp.PrivateGridSearch(model, {"alpha": [0.0, 100.0]}, scoring="neg_log_loss", **more)
    plain.fit(encoder.transform(frame), y)  # the same search behind the encoder
    assert np.array_equal(plain.best_estimator_.coef_, search.best_estimator_[-1].coef_)
    with pytest.raises(dp.errors.ParameterError, match="cannot be tuned"):
        dp.PrivateGridSearch(pipeline, {"tableencoder__schema": [1]}, **more).fit(frame, y)
