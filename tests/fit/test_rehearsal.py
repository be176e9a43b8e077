"""Rehearsals: what fits on rows that cost nothing lost, beside what was to be expected."""

import math

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import DataError, ParameterError
from dpsco.fit.made_up_rows import made_up_rows
from dpsco.privacy import Randomness

LABELS = ("no", "yes")


def problem(loss=None, label=None, **facts):
    label = dp.data.Classes(*LABELS) if label is None else label
    bounds = dp.Bounds(1.0, label=label, intercept=0.3)
    return dp.Problem(loss=loss or dp.losses.Logistic(), bounds=bounds, **facts)


@pytest.fixture(scope="module")
def task():
    return dp.Task(problem(), n=2_000, d=4, budget=dp.ApproxDP(1.0, 1e-6))


@pytest.fixture(scope="module")
def public():
    rng = np.random.default_rng(5)
    X = rng.uniform(-0.5, 0.5, size=(600, 4))
    y = np.where(X @ [6, -4, 2, 0] - 1 + rng.logistic(size=600) > 0, "yes", "no")
    return X, y


@pytest.fixture(scope="module")
def curve(task, public):
    return dp.rehearse(task, public, (0.03, 1.0, 300.0), public=True, repeats=4, seed=3)


def test_more_privacy_costs_more_on_real_noise(curve):
    few, usual, plenty = (point.excess for point in curve.points)
    assert few > 3 * usual
    assert plenty < 0.01  # with hardly any noise: as good as the best model without privacy


def test_points_say_what_they_rest_on(curve, task):
    forecast = dp.tradeoff(task, (0.03, 1.0, 300.0), solvers="auto")
    assert (forecast.basis, curve.basis) == ("forecast", "public rows")
    assert "band: 10th to 90th percentile of 4 fits on public rows" in str(curve)
    assert "seconds: of one fit" in str(curve)
    for point, expected in zip(curve.points, forecast.points, strict=True):
        assert (point.repeats, point.basis) == (4, "public rows")
        assert point.seconds > 0.0
        assert 0.0 <= point.low <= point.high
        assert point.attack == expected.attack  # proven, whatever was measured
        assert point.noise == expected.noise  # of the private n, not of the public rows


def test_the_constant_is_measured(curve, public):
    share = np.mean(public[1] == "yes")
    entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
    assert curve.points[0].constant == pytest.approx(entropy, abs=0.05)
    assert not curve.points[0].typical


def test_verdicts_follow_what_was_measured(curve):
    assert curve.at(0.03).verdict in ("weak", "constant", "hopeless")
    assert curve.at(300.0).verdict == "good"


def test_a_seed_repeats_it_and_none_does_not(task, public):
    how = {"epsilons": 0.03, "repeats": 1, "public": True}  # where noise is felt
    runs = [dp.rehearse(task, public, **how, seed=seed).points[0].excess for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    free = [dp.rehearse(task, public, **how).points[0].excess for _ in range(2)]
    assert free[0] != free[1]


def test_rows_are_made_up_from_public_facts(task):
    draws = Randomness.seeded(1).child("test")
    X, y = made_up_rows(task, draws, base_rate=(0.9, 0.1))
    assert X.shape == (2_000, 4)
    assert np.mean(y == "yes") == pytest.approx(0.1, abs=0.02)
    curve = dp.rehearse(task, epsilons=(0.1, 10.0), repeats=2, base_rate=0.1, seed=1)
    assert curve.basis == "made-up rows"
    assert curve.at(10.0).excess < curve.at(0.1).excess


@pytest.mark.parametrize(
    ("loss", "label", "facts"),
    [
        (dp.losses.Absolute(), dp.data.Scaled(0.0, 500.0), {"label_spread": 60.0}),
        (dp.losses.Huber(0.2), dp.data.Scaled(0.0, 500.0, centred=False), {}),
        (dp.losses.Hinge(), "sign", {"base_rate": 0.3}),
        (dp.losses.Softmax(3), dp.data.Classes("a", "b", "c"), {"base_rate": (0.5, 0.3, 0.2)}),
    ],
    ids=["absolute", "huber", "hinge", "three classes"],
)
def test_made_up_rows_suit_the_loss(loss, label, facts):
    task = dp.Task(problem(loss, label), n=1_000, d=3, budget=dp.ApproxDP(1.0, 1e-6))
    _, y = made_up_rows(task, Randomness.seeded(1).child("test"), **facts)
    if "label_spread" in facts:
        assert np.std(y) == pytest.approx(60.0, rel=0.1)
    curve = dp.rehearse(task, epsilons=50.0, repeats=1, seed=1, **facts)
    assert curve.points[0].excess < 0.3 * curve.points[0].constant


def test_a_domain_is_kept_to_by_both_models(public):
    ball = problem(domain=dp.domains.L2Ball(0.5))
    task = dp.Task(ball, n=2_000, d=4, budget=dp.ApproxDP(1.0, 1e-6))
    curve = dp.rehearse(task, public, 300.0, public=True, repeats=2, seed=1)
    assert curve.points[0].excess < 0.005


# -- estimators ------------------------------------------------------------------------------------


def test_an_estimator_pays_nothing(public, tmp_path):
    path = tmp_path / "ours.ledger"
    dp.Odometer(path, dp.ApproxDP(1.0, 1e-5))
    before = path.read_bytes()
    model = dp.PrivateLogisticRegression(classes=LABELS, epsilon=1.0, odometer=path)
    curve = dp.rehearse(model, public, (0.5, 8.0), public=True, n=5_000, repeats=2, seed=1)
    assert path.read_bytes() == before
    assert curve.task.n == 5_000
    assert curve.at(8.0).excess < 0.05
    assert not hasattr(model, "coef_")


def test_weights_are_those_of_the_model():
    for name, facts in (
        ("logistic", {"classes": LABELS}),
        ("logistic", {"classes": ("a", "b", "c")}),
        ("huber", {"label_range": (10, 50), "settings": {"threshold": 5}}),
    ):
        config = dp.models.configure(name, feature_norm=2.0, **facts)
        size = config.problem().loss.dimension(4)
        weights = np.random.default_rng(1).normal(size=size)
        again = config.weights(config.model(weights), config.bounds.intercept)
        assert again == pytest.approx(weights, rel=1e-12)


# -- refusals --------------------------------------------------------------------------------------


def test_what_is_refused(task, public):
    X, y = public
    with pytest.raises(DataError, match="at least 20 public rows"):
        dp.rehearse(task, (X[:5], y[:5]), public=True)
    with pytest.raises(DataError, match="at least 20 public rows"):
        dp.rehearse(task, (X, y[:-1]), public=True)
    with pytest.raises(DataError, match="have 3 features"):
        dp.rehearse(task, (X[:, :3], y), public=True)
    with pytest.raises(ParameterError, match=r"public rows \(X, y\)"):
        dp.rehearse(task, X, public=True)
    with pytest.raises(ParameterError, match="needs public=True"):
        dp.rehearse(task, public)
    with pytest.raises(ParameterError, match="the task's own"):
        dp.rehearse(task, public, public=True, n=10)
    with pytest.raises(ParameterError, match="is needed for an estimator"):
        dp.rehearse(dp.PrivateLogisticRegression(classes=LABELS))
    with pytest.raises(ParameterError, match="a Task or a linear estimator"):
        dp.rehearse(dp.PrivateMean(feature_norm=1.0), public, public=True)
    with pytest.raises(ParameterError, match="repeats"):
        dp.rehearse(task, public, public=True, repeats=0)
    huge = dp.Task(task.problem, n=10**8, d=4, budget=task.budget)
    with pytest.raises(ParameterError, match="holds the rows of a fit in memory"):
        dp.rehearse(huge, public, public=True)
