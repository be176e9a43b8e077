"""Gaussian widths: printed digits, many digits, limits where formulas meet, simulation with power.

A simulated width is accepted within 5 standard errors: false alarms below 1e-6 a test, at fixed
seeds. Each such test also rejects a width that is wrong by 10 %.
"""

from __future__ import annotations

import math
import time

import mpmath
import numpy as np
import pytest

from dpsco.errors import AssumptionError, ParameterError
from dpsco.geometry import (
    Lp,
    Width,
    box_width,
    dual_norm_bound,
    l1_ball_width,
    l2_ball_width,
    lp_ball_width,
    monte_carlo_width,
    simplex_width,
)
from dpsco.geometry.width import _mean_lq_norm

KNOWN = [  # d, l2, l1, simplex
    (10, 3.0843277598, 1.8807156938, 1.5387527308),
    (100, 9.9750316396, 2.7469576878, 2.5075936364),
    (1000, 31.6148718970, 3.4354101908, 3.2414357691),
    (2, math.sqrt(math.pi / 2), 1.1283791671, 0.5641895835),
    (1, 0.7978845608, 0.7978845608, 0.0),
]
KNOWN_LP = [  # p, d = 10, d = 100
    (1.25, 2.057207, 3.583122),
    (1.5, 2.393581, 5.394947),
    (3.0, 4.143721, 19.458984),
    (4.0, 4.850713, 27.495676),
]
DIMENSIONS = [1, 2, 3, 10, 57, 199, 200, 201, 1000, 30_000, 10**6]

# --- known answers --------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "l2", "l1", "simplex"), KNOWN)
def test_printed_digits(d, l2, l1, simplex):
    assert l2_ball_width(d).value == pytest.approx(l2, abs=6e-11)
    assert l1_ball_width(d).value == pytest.approx(l1, abs=6e-11)
    assert simplex_width(d).value == pytest.approx(simplex, abs=6e-11)
    assert box_width(np.ones(d)).value == pytest.approx(d * 0.79788456080286, rel=1e-13, abs=0)


@pytest.mark.parametrize(("p", "ten", "hundred"), KNOWN_LP)
def test_printed_digits_of_lp_balls(p, ten, hundred):
    assert lp_ball_width(10, p).value == pytest.approx(ten, abs=6e-7)
    assert lp_ball_width(100, p).value == pytest.approx(hundred, abs=6e-7)


# --- many digits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("d", DIMENSIONS)
def test_l2_against_many_digits(d):
    with mpmath.workdps(50):
        half = mpmath.mpf(d) / 2
        expected = mpmath.sqrt(2) * mpmath.gammaprod([half + 0.5], [half])
    assert l2_ball_width(d).value == pytest.approx(float(expected), rel=2e-14, abs=0)


@pytest.mark.thorough
@pytest.mark.parametrize("d", [2, 10, 1000, 10**6])
def test_largest_against_many_digits(d):
    with mpmath.workdps(25):
        edge = mpmath.sqrt(2 * mpmath.log(d))
        points = [0, edge / 2, edge, edge + 1, edge + 3, edge + 12]
        size = mpmath.quad(
            lambda t: (
                -mpmath.expm1(d * mpmath.log1p(-mpmath.erfc(t / mpmath.sqrt(2))))
                if t
                else mpmath.mpf(1)
            ),
            points,
        )
        most = mpmath.quad(
            lambda t: 1 - mpmath.ncdf(t) ** d - mpmath.ncdf(-t) ** d,
            points,
        )
    assert l1_ball_width(d).value == pytest.approx(float(size), rel=1e-12, abs=0)
    assert simplex_width(d).value == pytest.approx(float(most), rel=1e-12, abs=0)


@pytest.mark.thorough
@pytest.mark.parametrize("q", [1.01, 1.3, 2.7, 3.0, 8.0, 60.0])
def test_lq_in_the_plane_against_many_digits(q):
    """In polar coordinates: the mean length times the mean of the norm over the circle."""
    with mpmath.workdps(20):
        mean = mpmath.quad(
            lambda a: (mpmath.cos(a) ** q + mpmath.sin(a) ** q) ** (1 / mpmath.mpf(q)),
            [0, mpmath.pi / 8, mpmath.pi / 4],
        )
        expected = float(mpmath.sqrt(mpmath.pi / 2) * mean * 4 / mpmath.pi)
    assert _mean_lq_norm(q, 2) == pytest.approx(expected, rel=1e-12, abs=0)


@pytest.mark.parametrize("q", [3.0, 4.0, 9.0])
def test_lq_in_space_against_spherical_coordinates(q):
    nodes, weights = np.polynomial.legendre.leggauss(120)
    height, angle = 0.5 * (nodes + 1), 0.25 * math.pi * (nodes + 1)
    flat = np.sqrt(1 - height**2)[:, None]
    points = [flat * np.cos(angle), flat * np.sin(angle), height[:, None] + 0 * angle]
    mean = 0.25 * weights @ sum(x**q for x in points) ** (1 / q) @ weights
    assert _mean_lq_norm(q, 3) == pytest.approx(2 * math.sqrt(2 / math.pi) * mean, rel=2e-7, abs=0)


# --- where formulas meet --------------------------------------------------------------------------


@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_lq_integral_at_its_known_points(d):
    assert _mean_lq_norm(2.0, d) == pytest.approx(l2_ball_width(d).value, rel=1e-13, abs=0)
    assert _mean_lq_norm(1.0, d) == pytest.approx(d * math.sqrt(2 / math.pi), rel=1e-13, abs=0)
    assert _mean_lq_norm(1e9, d) == pytest.approx(l1_ball_width(d).value, rel=1e-8, abs=0)


@pytest.mark.thorough
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("p", [1.0, 1 + 1e-7, 1.01, 1.05, 1.3, 1.9, 2.0, 2.1, 7.0, 1e4, math.inf])
def test_bounds_on_lp_widths(p, d):
    """Between its neighbours in p, below Jensen's bound, above the mean of one coordinate."""
    width = lp_ball_width(d, p)
    q = math.inf if p == 1.0 else 1.0 if p == math.inf else p / (p - 1)
    assert width.error == 0.0
    assert width.value <= dual_norm_bound(q, d) * (1 + 1e-12)
    assert width.value >= math.sqrt(2 / math.pi) * (1 - 1e-12)
    if q < math.inf:  # Jensen the other way: a convex norm of the mean of |g|
        assert width.value >= d ** (1 / q) * math.sqrt(2 / math.pi) * (1 - 1e-12)
    if d > 1 and p < 1e3:
        assert width.value < lp_ball_width(d, 1.001 * p).value


def test_l2_series_meets_the_gamma_function():
    values = np.array([l2_ball_width(d).value ** 2 / d for d in range(150, 260)])
    assert np.all(np.diff(values) > 0)
    assert np.max(np.abs(np.diff(values, 3))) < 1e-8


def test_jensen_bound_of_the_noise():
    assert dual_norm_bound(3.0, 50) == pytest.approx(4.305068, abs=6e-7)
    assert dual_norm_bound(math.inf, 200) == pytest.approx(
        math.sqrt(2 * math.log(400)), rel=1e-15, abs=0
    )
    assert dual_norm_bound(1.0, 7) == pytest.approx(7 * math.sqrt(2 / math.pi), rel=1e-14, abs=0)
    assert dual_norm_bound(2.0, 9) == pytest.approx(3.0, rel=1e-14, abs=0)


def test_scaling():
    assert l2_ball_width(10, 2.5).value == 2.5 * l2_ball_width(10).value
    assert l1_ball_width(10, 2.5).value == 2.5 * l1_ball_width(10).value
    assert lp_ball_width(10, 1.5, 2.5).value == 2.5 * lp_ball_width(10, 1.5).value
    assert simplex_width(10, 2.5).value == 2.5 * simplex_width(10).value
    assert box_width([1.0, 0.0, 3.0]).value == pytest.approx(
        4 * math.sqrt(2 / math.pi), rel=1e-15, abs=0
    )
    assert Width(2.0, 0.5).scaled(-3.0) == Width(6.0, 1.5)
    assert Width(2.0, 0.5).upper() == 4.5
    assert lp_ball_width(10, 1.5, 0.0).value == 0.0


def test_widths_are_fast():
    _mean_lq_norm.cache_clear()
    start = time.process_time()
    for p in (1.01, 1.5, 30.0):
        lp_ball_width(10**6, p)
    assert time.process_time() - start < 2.0


# --- simulation -----------------------------------------------------------------------------------

SETS = [
    ("l2", lambda g: Lp(2.0)(g), lambda d: l2_ball_width(d)),
    ("l1", lambda g: Lp(math.inf)(g), lambda d: l1_ball_width(d)),
    ("lp", lambda g: Lp(3.0)(g), lambda d: lp_ball_width(d, 1.5)),
    ("box", lambda g: Lp(1.0)(g), lambda d: box_width(np.ones(d))),
    ("simplex", lambda g: np.max(g, axis=-1), lambda d: simplex_width(d)),
]


@pytest.mark.parametrize(("name", "support", "exact"), SETS, ids=[s[0] for s in SETS])
@pytest.mark.parametrize("d", [2, 30, 400])
def test_simulation_agrees_and_has_power(name, support, exact, d):
    for seed in (1, 2):
        samples = 10_000 if d == 2 else 2000
        found, truth = monte_carlo_width(support, d, samples, seed=seed), exact(d).value
        allowed = 5 * found.error + 1e-12 * truth
        assert abs(found.value - truth) <= allowed
        assert abs(found.value - 1.1 * truth) > allowed
        assert abs(found.value - 0.9 * truth) > allowed


@pytest.mark.parametrize("d", [2, 30])
def test_standard_error_is_neither_too_small_nor_too_large(d):
    """Over 200 seeds the errors, in units of the stated one, have variance 1.

    The sum of their squares is chi-square with 200 degrees of freedom, up to the law of the stated
    error: it lies in [110, 320] but for 1e-6. With a stated error wrong by a factor 1.5 or 2/3 it
    would not.
    """
    truth = simplex_width(d).value
    runs = [monte_carlo_width(SETS[4][1], d, 400, seed=seed) for seed in range(200)]
    squares = sum(((run.value - truth) / run.error) ** 2 for run in runs)
    assert 110 < squares < 320
    assert not 110 < squares * 1.5**2 < 320
    assert not 110 < squares / 1.5**2 < 320


def test_simulation_cancels_the_place_of_the_set():
    d = 5
    shift = np.array([1e6, -3e5, 0.0, 2e6, 1.0])
    moved = monte_carlo_width(lambda g: np.max(g, axis=-1) + g @ shift, d, 500, seed=3)
    still = monte_carlo_width(lambda g: np.max(g, axis=-1), d, 500, seed=3)
    assert moved.value == pytest.approx(still.value, rel=1e-8, abs=0)
    assert moved.error == pytest.approx(still.error, rel=1e-6, abs=0)


def test_simulation_is_reproducible_and_uses_all_chunks():
    d = 3000  # more than one chunk: 2**20 / 3000 = 349 rows at a time
    seen = []

    def support(g):
        seen.append(len(g))
        return np.max(g, axis=-1)

    first = monte_carlo_width(support, d, 1001, seed=5)
    assert sum(seen) == 2 * 501
    assert len(seen) == 4
    assert first == monte_carlo_width(support, d, 1001, seed=5)
    assert first != monte_carlo_width(support, d, 1001, seed=6)
    assert abs(first.value - simplex_width(d).value) <= 5 * first.error


def test_simulation_refuses():
    with pytest.raises(AssumptionError, match="bounded set"):
        monte_carlo_width(lambda g: np.full(len(g), math.inf), 3)
    with pytest.raises(ParameterError, match="one number per row"):
        monte_carlo_width(lambda g: g, 3)
    with pytest.raises(ParameterError, match="samples must be at least 4"):
        monte_carlo_width(SETS[0][1], 3, 3)
    with pytest.raises(ParameterError, match="seed"):
        monte_carlo_width(SETS[0][1], 3, seed=-1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: l2_ball_width(0),
        lambda: l1_ball_width(2.0),
        lambda: lp_ball_width(3, 0.5),
        lambda: lp_ball_width(3, math.nan),
        lambda: simplex_width(3, -1.0),
        lambda: l2_ball_width(3, math.inf),
        lambda: box_width([1.0, -1.0]),
        lambda: box_width([[1.0]]),
        lambda: box_width([math.inf]),
        lambda: dual_norm_bound(0.5, 3),
    ],
)
def test_bad_arguments(call):
    with pytest.raises(ParameterError):
        call()
