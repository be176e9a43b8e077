"""Maps and their steps: the exact minimiser, whatever the map; which map belongs to a domain."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.errors import AssumptionError
from dpsco.geometry.domains import Box, L1Ball, L2Ball, LpBall, Simplex, WholeSpace
from dpsco.geometry.norms import L2, LINF, Lp
from dpsco.solvers.mirror_descent.maps import exponent_of, mirror, natural_map, natural_p

D = 6


def task(domain, norm=L2, d=D):
    bounds = dp.Bounds(1.0, label="sign", norm=norm)
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=bounds, domain=domain)
    return dp.Task(problem, 1000, d, dp.ApproxDP(1.0, 1e-6))


@pytest.mark.parametrize(
    ("domain", "norm", "p", "name"),
    [
        (WholeSpace(), Lp(2.0), 2.0, "p_norm"),
        (WholeSpace(), LINF, 1.0, "p_norm"),
        (WholeSpace(), Lp(3.0), 1.5, "p_norm"),
        (WholeSpace(), Lp(1.0), 2.0, "p_norm"),
        (L2Ball(2.0), LINF, 2.0, "p_norm"),
        (L1Ball(2.0), Lp(2.0), 1.0, "entropy"),
        (LpBall(1.3, 2.0), Lp(2.0), 1.3, "p_norm"),
        (LpBall(4.0, 2.0), Lp(2.0), 2.0, "p_norm"),
        (Simplex(2.0), LINF, 1.0, "entropy"),
        (Box(-1.0, 1.0), Lp(2.0), 2.0, "p_norm"),
    ],
)
def test_what_belongs_to_a_domain(domain, norm, p, name):
    assert natural_p(task(domain, norm)) == pytest.approx(p)
    assert natural_map(domain) == name
    mirror(name, p, domain, D)  # whose step is exact there


def test_exponents_near_one():
    assert exponent_of(1.0, WholeSpace(), 200)[0] == pytest.approx(1.1042032)
    assert exponent_of(1.0, WholeSpace(), 200)[1] == pytest.approx(26.0863578)
    assert exponent_of(1.05, LpBall(1.05, 1.0), 20) == pytest.approx((1.05, 20.0))


@pytest.mark.parametrize(
    ("name", "p", "domain", "instead"),
    [
        ("entropy", 1.0, WholeSpace(), "mirror='p_norm'"),
        ("entropy", 1.0, L2Ball(1.0), "mirror='p_norm'"),
        ("p_norm", 1.0, Simplex(), "mirror='entropy'"),
        ("p_norm", 1.5, L2Ball(1.0), "p=2.0, which projects"),
        ("p_norm", 1.5, LpBall(1.2, 1.0), "p=2.0, which projects"),
    ],
)
def test_steps_without_a_closed_form_name_one_that_has(name, p, domain, instead):
    with pytest.raises(AssumptionError, match=instead):
        mirror(name, p, domain, D)


def divergence(name, v, w, radius):
    """Return the divergence of the potential, written out once more."""
    if name == "simplex":
        return radius * np.sum(v * np.log(v / w) - v + w)
    parts = []
    for x in (
        v,
        w,
    ):  # u+ and u- of least potential: u+ - u- = x, u+ + u- = s, u+ u- the same for all
        product = _product(x, radius)
        s = np.sqrt(x * x + 4.0 * product)
        parts.append(np.concatenate([(s + x) / 2, (s - x) / 2]))
    a, b = parts
    return radius * np.sum(a * np.log(a / b) - a + b)


def _product(x, radius):
    """Return the product of u+ and u-, equal for all coordinates, with sum of u = radius."""
    low, high = 0.0, radius * radius
    for _ in range(200):
        middle = 0.5 * (low + high)
        if np.sum(np.sqrt(x * x + 4.0 * middle)) > radius:
            high = middle
        else:
            low = middle
    return low


@pytest.mark.parametrize("name", ["simplex", "l1"])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_entropic_steps_beat_all_other_points(name, seed):
    """The step minimises <g, v> + D(v, w)/step over the domain."""
    rng = np.random.default_rng(seed)
    domain = Simplex(2.0) if name == "simplex" else L1Ball(2.0)
    steps = mirror("entropy", 1.0, domain, D)
    place = rng.standard_normal(D)
    gradient, length = rng.standard_normal(D), rng.uniform(0.1, 2.0)
    w = steps.weights(place)
    v = steps.weights(steps.moved(place, gradient, length, 0.0))
    assert domain.contains(v)

    def value(point):
        return float(gradient @ point) + divergence(name, point, w, 2.0) / length

    for _ in range(5):
        share = rng.uniform(0.01, 0.3)
        other = (1 - share) * v + share * steps.weights(3.0 * rng.standard_normal(D))
        assert value(v) <= value(other) + 1e-9


def test_the_l1_map_is_multiplicative_weights_of_both_signs():
    steps = mirror("entropy", 1.0, L1Ball(3.0, centre=[1.0, 0.0, -1.0]), 3)
    dual = np.array([0.3, -1.2, 0.0])
    both = np.exp(np.concatenate([dual, -dual]) / 3.0)
    both *= 3.0 / both.sum()
    expected = both[:3] - both[3:] + np.array([1.0, 0.0, -1.0])
    assert steps.weights(dual) == pytest.approx(expected, rel=1e-12)
    assert steps.spread(1.0) == pytest.approx(9.0 * math.log(6.0))
    assert steps.weights(steps.place(np.zeros(3))).tolist() == [1.0, 0.0, -1.0]


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_many_weights_are_those_of_the_formula(scale):
    """Parts that stay in the cache add up to the whole; a dual vector is not written to."""
    d, radius = 50_001, 3.0
    dual = scale * np.random.default_rng(4).standard_normal(d)
    before = dual.copy()
    with np.errstate(under="ignore"):
        high, low = (np.exp(side * dual / radius - np.abs(dual).max() / radius) for side in (1, -1))
    expected = radius * (high - low) / np.sum(high + low)
    value = mirror("entropy", 1.0, L1Ball(radius), d).weights(dual)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert np.array_equal(dual, before)


@pytest.mark.parametrize("domain", [Simplex(2.0), L1Ball(2.0)])
def test_huge_and_missing_gradients_leave_finite_weights(domain):
    steps = mirror("entropy", 1.0, domain, 3)
    place = steps.place(domain.centre(3))
    for gradient in ([1e308, -1e308, 0.0], [np.inf, np.nan, -np.inf]):
        place = steps.moved(place, np.array(gradient), 1e10, 0.0)
        weights = steps.weights(place)
        assert np.all(np.isfinite(weights))
        assert domain.contains(weights)


def test_known_step_with_a_pull():
    steps = mirror("p_norm", 1.5, WholeSpace(), 50)
    assert steps.map.scale == pytest.approx(2.0)
    w, g = np.zeros(50), np.zeros(50)
    w[:4], g[:4] = (1.0, -2.0, 0.0, 0.5), (0.3, -0.1, 0.2, 0.0)
    moved = steps.moved(w, g, 1.0 / 0.25, 0.05)  # alpha is the pull
    assert moved[:4] == pytest.approx([0.376844533, -1.592369867, -0.058976442, 0.478391282])
    slopes = steps.map.gradient
    assert (0.25 + 0.05) * slopes(moved) == pytest.approx(0.25 * slopes(w) - g, abs=1e-12)
