"""Known numbers of the one-pass schedules, checked against independent formulas."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.solvers.common.moment_clips import Moments
from dpsco.solvers.moments import kamath_corrected_bound, published, rates


def scales(n=10_000, smoothness=2.0, strong_convexity=0.5, **more):
    values = {"n": n, "size": 10, "distance": 2.0, "noise": 4.0, "mu": 0.5, **more}
    return rates.Scales(smoothness=smoothness, strong_convexity=strong_convexity, **values)


def test_published_rounds_and_clips():
    result = published.acsa(scales(), Moments(3.0, 2.0))
    assert (result.rounds, result.clip) == (6, pytest.approx(76.2199122, rel=1e-6))
    result = published.acsa(scales(), Moments(3.0, 4.0))
    assert (result.rounds, result.clip) == (12, pytest.approx(13.8664759, rel=1e-6))
    result = published.acsa(scales(smoothness=0.0), Moments(3.0, 2.0))  # affine
    assert (result.rounds, result.clip) == (1, pytest.approx(119.290609, rel=1e-6))
    result = published.sgd(scales(), Moments(3.0, 2.0))
    assert (result.rounds, result.clip) == (138, pytest.approx(34.867926, rel=1e-6))


@pytest.mark.parametrize(
    ("n", "rounds", "clip"), [(10**5, 32, 66.6854779), (10**4, 18, 28.1170663)]
)
def test_published_fixed_points(n, rounds, clip):
    result = published.prox(scales(n), Moments(3.0, 2.0), gap=10.0)
    assert (result.rounds, result.clip) == (rounds, pytest.approx(clip, rel=1e-6))


def test_bound_of_acsa():
    square = scales().variance(6, 76.2199122, 3.0) + 0.0295198451**2
    assert scales().variance(6, 76.2199122, 3.0) == pytest.approx(0.340295783, rel=1e-6)
    eta = rates.acsa_eta(scales(), 6, square)
    assert eta == 4.0
    bound = rates.acsa_bound(scales(), 6, eta, square, 0.0295198451)
    assert bound == pytest.approx(1.00574335, rel=1e-6)


def test_affine_problems_take_one_release():
    flat = scales(smoothness=0.0)
    bias = 0.25 * 9.0 / 119.290609
    square = flat.variance(1, 119.290609, 3.0) + bias**2
    assert rates.acsa_eta(flat, 1, square) == pytest.approx(0.0547998123, rel=1e-5)


def test_best_rounds_of_acsa():
    one = scales(smoothness=1.0)
    assert rates.best_acsa_rounds(one, 10.0, 10 / 3) == 12
    square = one.variance(12, 10.0, 10 / 3)
    assert rates.acsa_eta(one, 12, square) == 2.0
    assert rates.acsa_bound(one, 12, 2.0, square) == pytest.approx(0.178391419, rel=1e-6)


def test_practical_rounds():
    assert rates.sgd_rounds(scales()) == 30
    assert rates.prox_rounds(scales(), 0.5) == 15
    assert rates.sgd_rounds(scales(n=50)) == scales(n=50).most_batches - 1


@pytest.mark.parametrize(
    ("arguments", "steps", "weights"),
    [
        (
            (6, 0.5, 1.5),
            [2 / 3] * 4 + [0.57142857, 0.5, 0.44444444],
            [0, 0, 0, 0.15652174, 0.21304348, 0.27826087, 0.35217391],
        ),
        ((2, 0.25, 2.25), [0.44444444] * 3, [0.29493088, 0.33179724, 0.37327189]),
    ],
)
def test_averaging_schedule(arguments, steps, weights):
    result = rates.averaging_schedule(*arguments)
    assert result[0] == pytest.approx(steps, abs=1e-8)
    assert result[1] == pytest.approx(weights, abs=1e-8)


def test_long_averaging_schedule():
    steps, weights = rates.averaging_schedule(20, 0.25, 2.25)
    assert steps[10:13] == pytest.approx([0.44444444, 0.42105263, 0.4], abs=1e-8)
    assert (steps[20], weights[10], weights[20]) == pytest.approx(
        (0.28571429, 0.05464665, 0.1322314), abs=1e-7
    )


@given(rounds=st.integers(1, 400), a=st.floats(1e-3, 1.0), ratio=st.floats(1.0, 500.0))
@settings(max_examples=60, deadline=None)
def test_averaging_schedules_are_sound(rounds, a, ratio):
    """Weights are a distribution, and steps never exceed 1/g or grow."""
    steps, weights = rates.averaging_schedule(rounds, a, a * ratio)
    assert len(steps) == len(weights) == rounds + 1
    assert weights.sum() == pytest.approx(1.0)
    assert weights.min() >= 0.0
    assert steps.max() <= 1.0 / (a * ratio) * (1 + 1e-12)
    assert np.all(np.diff(steps) <= 1e-15)


def test_averaging_schedule_meets_lemma_32():
    """The recursion's worst case, by iterating it: 32 g r exp(-aT/(2g)) + 36 c/(aT)."""
    for kappa in (1, 5, 20):
        g, a = kappa + 0.5, 0.5
        for rounds in (1, 10, 100, 400):
            steps, weights = rates.averaging_schedule(rounds, a, g)
            # All excess s_t = 0 but one: r_{t+1} <= (1 - a eta) r_t - b eta s + c eta^2.
            r, best = 1.0, 0.0
            for t, (step, weight) in enumerate(zip(steps, weights, strict=True)):
                room = (1 - a * step) * r + step**2
                best += weight * max(0.0, (room - 0.0) / step) * (t == rounds)
                r = room
            bound = 32 * g * math.exp(-a * rounds / (2 * g)) + 36 / (a * rounds)
            assert a * r <= bound
            assert best <= bound


def test_corrected_baseline():
    given_ = {"n": 100_000, "d": 10, "epsilon": 1.0, "condition": 10.0}
    assert kamath_corrected_bound(**given_) == pytest.approx(0.11, abs=1e-6)
    printed = kamath_corrected_bound(**given_, variant="printed")
    assert printed == pytest.approx(0.416228, abs=1e-6)
