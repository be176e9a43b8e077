"""Noise in weights: exact where it is said to be, about the most elsewhere, or unknown."""

import dataclasses
import time

import numpy as np
import pytest

import dpsco as dp
from dpsco.data import Number, Schema, SignLabel
from dpsco.fit.weight_noise import weight_noise
from dpsco.models import LinearModel
from dpsco.models.weights import named_weights
from dpsco.privacy import Randomness

N, D = 400, 6
BALL = dp.Problem(
    loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"), domain=dp.domains.L2Ball(50.0)
)
RNG = np.random.default_rng(1)
X = RNG.uniform(-0.4, 0.4, (N, D))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


def plan(solver, budget=None, **options):
    task = dp.Task(BALL, n=N, d=D, budget=budget or dp.ApproxDP(2.0, 1e-6))
    return dp.plan(task, solver=solver, options=options)


def spread(made, rows, runs):
    weights = [
        dp.run(made, (rows, Y), randomness=Randomness.seeded(seed)).weights for seed in range(runs)
    ]
    return float(np.std(weights, axis=0, ddof=1).mean())


@pytest.mark.parametrize("budget", [dp.ApproxDP(2.0, 1e-6), dp.PureDP(2.0)], ids=["gauss", "gamma"])
def test_noise_on_the_weights_is_exact(budget):
    """25 runs of 6 weights: the mean of their deviations lies within 3 standard errors."""
    made = dataclasses.replace(plan("bolt_on_sgd", budget), project=False)
    about = weight_noise(made)
    assert about.exact
    assert spread(made, X, 25) == pytest.approx(about.sigma, rel=0.2)


def test_a_single_step_is_exact():
    made = plan("noisy_gd", rounds=1, step=1.0, momentum=0.0)
    about = weight_noise(made)
    assert about.exact
    assert about.sigma == pytest.approx(made.sigma / N, rel=0.2)


def test_weights_that_no_row_speaks_of_keep_the_noise():
    """Empty rows reach what the plan says; rows that say something lie below."""
    made = plan("noisy_gd", rounds=20)
    about = weight_noise(made)
    assert not about.exact
    assert spread(made, np.zeros((N, D)), 30) == pytest.approx(about.sigma, rel=0.25)
    assert spread(made, 10.0 * X, 12) < 0.8 * about.sigma


def test_nobody_knows_the_noise_of_objective_perturbation():
    about = weight_noise(plan("approx_objective_perturbation"))
    assert about.sigma is None
    assert "depends on the rows" in about.sentence


def test_it_is_found_from_the_plan_alone_and_always_the_same():
    made = plan("noisy_gd", rounds=20)
    assert weight_noise(made) == weight_noise(dataclasses.replace(made))


def test_it_costs_little_and_says_so_where_it_would_not():
    assert weight_noise(plan("noisy_gd", rounds=5_000)).sigma is None


@pytest.mark.parametrize(
    ("key", "n", "d"),
    [("dp_sgd_poisson", 10**9, 5), ("noisy_gd", 10**7, 50_000), ("dp_ftrl", 10**8, 10_000)],
)
def test_large_plans_are_not_carried_out(key, n, d):
    """A file may hold any plan, and a page about it must not take minutes."""
    task = dp.Task(BALL, n=n, d=d, budget=dp.ApproxDP(2.0, 1e-12))
    if key == "dp_sgd_poisson":
        task = dataclasses.replace(task, budget=dp.ApproxDP(2.0, 1e-12, adjacency="zero_out"))
    begun = time.process_time()
    assert weight_noise(dp.plan(task, solver=key)).sigma is None
    assert time.process_time() - begun < 10


def test_noise_is_in_the_units_of_the_model():
    """A column in units a hundred times as large has a noise a hundred times smaller."""
    from dpsco.data.units import Units

    made = plan("noisy_gd", rounds=20)
    coef = np.array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    plain = LinearModel("logistic", coef, np.zeros(1), classes=(-1, 1))
    found = dataclasses.replace(plain, units=Units([1.0, 1.0, 1.0, 1.0, 1.0, 100.0]))
    noise = {each.column: each.noise for each in named_weights(plain, made).items}
    scaled = {each.column: each.noise for each in named_weights(found, made).items}
    assert scaled["column 6"] == pytest.approx(noise["column 6"] / 100)
    assert scaled["column 1"] == noise["column 1"] == weight_noise(made).sigma


def test_noise_of_numbers_is_in_the_units_of_the_label():
    rows, labels = X, 300.0 + 100.0 * X[:, 0]
    narrow = dp.PrivateHuberRegressor(feature_norm=1.0, label_range=(0, 500), solver="noisy_gd")
    model = narrow.fit(rows, labels)
    sigma = weight_noise(model.plan_).sigma
    unit = model.plan_.problem.bounds.label.unit
    scale = model.feature_scale_
    items = {each.column: each.noise for each in model.named_weights().items}
    assert items["column 2"] == pytest.approx(sigma * unit / scale[1])


def test_millions_of_weights_are_not_all_looked_at():
    coef = np.zeros((1, 2_000_000))
    coef[0, [5, 77, 1_999_999]] = -2.0, 3.0, 2.0
    weights = named_weights(LinearModel("svc", coef, np.zeros(1), classes=(-1, 1)), None)
    begun = time.process_time()
    largest = weights.largest(3)
    assert time.process_time() - begun < 2
    assert [(each.column, each.value) for each in largest] == [
        *(("column 78", 3.0), ("column 6", -2.0), ("column 2000000", 2.0)),
    ]
    assert repr(weights) == (
        "<Weights: 2,000,000, the largest column 78 3, column 6 -2, column 2000000 2>"
    )


def test_names_are_those_of_the_schema():
    schema = Schema((Number("age", 0, 100), Number("dose", 0, 1)), SignLabel("y"))
    model = LinearModel("logistic", np.array([[1.0, -3.0]]), np.zeros(1), classes=(-1, 1))
    saved = dp.models.SavedModel(model, None, schema=schema)
    assert saved.names == ("age", "dose")
    items = named_weights(model, None, saved.names).items
    assert [(each.column, each.value, each.noise) for each in items] == [
        ("dose", -3.0, None),
        ("age", 1.0, None),
    ]


def test_mean_has_exact_noise():
    model = dp.PrivateMean(feature_norm=2.0, epsilon=1.0, delta=1e-6).fit(X)
    weights = model.named_weights()
    assert weights.about.exact
    assert weights.items[0].noise == pytest.approx(model.plan_.sigma / N, rel=0.2)
