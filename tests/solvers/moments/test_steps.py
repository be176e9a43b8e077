"""Runs of one pass: without noise they are the textbook's methods; with noise, clips bound rows."""

import math

import numpy as np
import pytest

import dpsco as dp

SILENT = dp.GDP(1e12)
N, D = 600, 4
RNG = np.random.default_rng(11)
X = RNG.standard_normal((N, D))
Y = X @ np.array([1.0, -0.5, 0.25, 0.0]) + 0.1 * RNG.standard_normal(N)
BALL = dp.domains.L2Ball(5.0)


def fit(key, data=(X, Y), budget=SILENT, seed=0, problem=None, **options):
    instance = problem or dp.Problem(
        loss=dp.losses.Squared(), bounds=dp.Bounds(1e6, label=1e6), domain=BALL
    )
    plan = dp.plan(
        instance, n=len(data[0]), d=data[0].shape[1], budget=budget, solver=key, options=options
    )
    seeded = dp.Randomness.seeded(seed)
    return plan, dp.run(plan, data, order="given", randomness=seeded).weights


def batch_gradient(w, rows):
    start, stop = rows
    return X[start:stop].T @ (X[start:stop] @ w - Y[start:stop]) / (stop - start)


def test_sgd_is_averaged_sgd():
    plan, weights = fit(
        "clipped_sgd_sc", clip=50.0, rounds=12, population_smoothness=4.0, strong_convexity=0.5
    )
    w, average = np.zeros(D), np.zeros(D)
    steps, shares = plan.averaging
    for t in range(12):
        w = BALL.project(w - steps[t] / 4.0 * batch_gradient(w, plan.batches()[t]))
        average += shares[t] * w
    assert np.allclose(weights, average, atol=3e-5)
    assert steps[0] / 4.0 == pytest.approx(1 / 4.25)  # 1/(beta + mu/2)


def test_acsa_is_accelerated_approximation():
    plan, weights = fit("clipped_acsa", clip=50.0, rounds=10, population_smoothness=4.0)
    eta = 0.5 / plan.step_of(0)
    w = last = np.zeros(D)
    for t in range(1, 11):
        share = 2 / (t + 1)
        middle = (1 - share) * last + share * w
        w = BALL.project(w - t / (2 * eta) * batch_gradient(middle, plan.batches()[t - 1]))
        last = share * w + (1 - share) * last
    assert np.allclose(weights, last, atol=3e-5)


@pytest.mark.parametrize("penalty", [dp.losses.L1Penalty(0.3), dp.losses.NoPenalty()])
def test_prox_steps_are_proximal_sgd(penalty):
    problem = dp.Problem(
        loss=dp.losses.Squared(), bounds=dp.Bounds(1e6, label=1e6), domain=BALL, penalty=penalty
    )
    plan, weights = fit(
        "clipped_prox_sgd", problem=problem, clip=50.0, rounds=9,
        population_smoothness=4.0, strong_convexity=0.5,
    )  # fmt: skip
    w = np.zeros(D)
    for t in range(9):
        w = BALL.project(penalty.prox(w - 0.25 * batch_gradient(w, plan.batches()[t]), 0.25))
    assert np.allclose(weights, w, atol=3e-5)


def test_acsa_converges_like_one_over_rounds_squared():
    """On a noiseless quadratic, f(w_T) - f* <= 4 beta D0^2/(T (T+1))."""
    rows = np.tile(np.diag([1.0, 0.1, 0.01, 0.001]), (400, 1)) * 2.0
    labels = rows @ np.ones(4)
    beta = 1.0
    for rounds in (5, 20, 80):
        _, w = fit(
            "clipped_acsa", (rows, labels), clip=50.0, moment=1e-3, rounds=rounds,
            population_smoothness=beta,
        )  # fmt: skip
        excess = 0.5 * np.mean((rows @ (w - 1.0)) ** 2)
        assert excess <= 4 * beta * 4.0 / (rounds * (rounds + 1))


def test_the_mean_oracle_is_the_clipped_mean():
    mean = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1e6))
    _, weights = fit("l2_clip_mean_oracle", (X,), problem=mean, clip=1.5)
    lengths = np.linalg.norm(X, axis=1)
    clipped = X * np.minimum(1.0, 1.5 / lengths)[:, None]
    assert np.allclose(weights, clipped.mean(axis=0), atol=3e-5)


def test_scaling_the_loss_scales_nothing_else():
    """Loss times 4, clip times 4, smoothness times 4: the same points for the same noise."""
    outcomes = []
    for factor in (1.0, 4.0):
        loss = dp.losses.PerRowLoss(
            lambda w, rows, y, c=factor: c * (rows @ w - y)[:, None] * rows, convex=True
        )
        problem = dp.Problem(loss=loss, bounds=dp.Bounds(1e6, label=1e6), domain=BALL)
        said = {"population_smoothness": 2.0 * factor, "strong_convexity": 0.5 * factor}
        outcomes.append(
            fit(
                "clipped_sgd_sc", problem=problem, budget=dp.ApproxDP(8.0, 1e-5), clip=factor,
                rounds=8, **said,
            )[1]
        )  # fmt: skip
    assert np.allclose(*outcomes, rtol=1e-9)


def test_noise_is_drawn_at_its_size():
    """Null rows: the mean is noise alone. Chi-square with 3,000 numbers, false alarm 1e-6."""
    nothing = np.full((50, 3000), np.nan)
    mean = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1.0))
    plan, weights = fit(
        "l2_clip_mean_oracle", (nothing,), problem=mean, budget=dp.ApproxDP(1.0, 1e-6), clip=1.0
    )
    ratio = np.sum((weights * 50 / plan.sigma) ** 2) / 3000
    assert abs(ratio - 1.0) < 5.0 * math.sqrt(2 / 3000)
    assert abs(ratio * 1.1**2 - 1.0) > 5.0 * math.sqrt(2 / 3000)  # 10 % more would be seen


@pytest.mark.parametrize("size", [1.0, 1e2, 1e4, 1e6, 1e300])
def test_outliers_of_any_size_do_the_same(size):
    """0.5 % of rows and labels times 1 to 1e300: beyond the clip nothing changes any more."""
    rows, labels = X.copy(), Y.copy()
    with np.errstate(over="ignore"):
        rows[::200] *= size
        labels[::200] *= size
    budget = dp.ApproxDP(50.0, 1e-3)
    options = {"clip": 1.0, "rounds": 10, "population_smoothness": 2.0}
    _, weights = fit("clipped_acsa", (rows, labels), budget, **options)
    _, plain = fit("clipped_acsa", (X, Y), budget, **options)
    assert np.linalg.norm(weights - plain) < 0.05


def test_a_found_clip_does_not_depend_on_units():
    """Gradients times 2^20: the clip follows, and the fit of the mean with it."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4000, 3)) + 1.0
    errors = []
    for unit in (1.0, 2.0**20):
        mean = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1e12))
        _, weights = fit(
            "l2_clip_mean_oracle", (rows * unit,), problem=mean, budget=dp.ApproxDP(1.0, 1e-6),
            clip="auto",
        )  # fmt: skip
        errors.append(np.linalg.norm(weights / unit - 1.0))
    assert max(errors) < 0.3
