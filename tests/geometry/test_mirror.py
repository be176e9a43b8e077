"""Mirror maps: known answers, round trips, many digits, and certificates that a step is optimal.

The certificate: v minimises a convex f over a domain exactly if <f'(v), u - v> >= 0 for all members
u, and the least of these is found by linear minimisation, not by trying.
"""

from __future__ import annotations

import math

import cvxpy as cp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpsco.errors import AssumptionError, ParameterError
from dpsco.geometry import (
    L1,
    L2,
    LINF,
    Box,
    Ellipsoid,
    Entropy,
    Intersection,
    L1Ball,
    L2Ball,
    LInfBall,
    Lp,
    LpBall,
    PNormMap,
    Regularity,
    Simplex,
    WholeSpace,
    equivalence,
)

EXPONENTS = [1.0, 1.05, 1.2, 1.5, 2.0]
MAPS = [PNormMap(p, s) for p, s in [(1.05, 1.0), (1.2, 5.0), (1.5, 2.0), (1.9, 0.1), (2.0, 3.0)]]
EDGE = np.array([0.0, -0.0, 1.0, -1.0, 1e-300, -3e-310, 5e-324, 1e-20, -2.0])


def regular(p: float, d: int) -> PNormMap:
    return PNormMap.regular(Regularity(p, d))


def vector(rng, d, *, spread=2.0, zeros=0.2):
    x = rng.normal(size=d) * np.exp(spread * rng.normal(size=d))
    return x * (rng.random(d) >= zeros)


# --- known answers --------------------------------------------------------------------------------


def test_known_gradient_and_step():
    mirror, w = PNormMap(1.5, 2.0), np.array([1.0, -2.0, 0.0, 0.5])
    expected = [3.222235890, -4.556929697, 0.0, 2.278464849]
    np.testing.assert_allclose(mirror.gradient(w), expected, atol=6e-10)
    np.testing.assert_allclose(mirror.inverse(mirror.gradient(w)), w, rtol=1e-14)
    found = mirror.step(w, [0.3, -0.1, 0.2, 0.0], 1 / 0.25, extra=0.05)
    expected = [0.376844533, -1.592369867, -0.058976442, 0.478391282]
    np.testing.assert_allclose(found, expected, atol=6e-10)
    u = np.array([1.0, -2.0, 0.5])
    expected = [1.61111795, -2.27846485, 1.13923242]
    np.testing.assert_allclose(PNormMap(1.5).gradient(u), expected, atol=6e-9)
    assert Lp(1.5)(u) == pytest.approx(2.59570103, abs=6e-9)


def test_known_step_into_the_l1_ball():
    dual = np.array([1.0, -0.8, 0.3, 0.05, -0.2])
    mirror = PNormMap(3.2 / 2.2, 2.2)
    found = mirror.step(np.zeros(5), -dual, 1.0, domain=L1Ball(0.5))
    expected = [0.323272515, -0.172874977, 0.003840946, 0.0, -0.0000115616]
    np.testing.assert_allclose(found, expected, atol=6e-10)
    assert found[4] == pytest.approx(-0.0000115616, rel=1e-5, abs=0)


# --- gradient and inverse -------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("p", EXPONENTS)
@settings(max_examples=60, deadline=None)
@given(
    d=st.integers(1, 1000),
    seed=st.integers(0, 2**32),
    scale=st.sampled_from([1e-200, 1e-30, 1.0, 1e30, 1e300]),
)
def test_round_trips(p, d, seed, scale):
    mirror = regular(p, d)
    x = vector(np.random.default_rng(seed), d, spread=1.0)
    x *= scale / max(1.0, np.max(np.abs(x)))
    np.testing.assert_allclose(mirror.inverse(mirror.gradient(x)), x, rtol=1e-12)
    top = np.max(np.abs(x))
    np.testing.assert_allclose(mirror.gradient(mirror.inverse(x)), x, rtol=1e-12, atol=1e-15 * top)


@pytest.mark.parametrize("mirror", MAPS, ids=repr)
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_gradient_and_potential_against_many_digits(mirror, scale):
    rng = np.random.default_rng(7)
    for d in (1, 2, 30):
        w = vector(rng, d) * scale
        w[0] = scale
        with mpmath.workdps(50):
            p, kappa = mpmath.mpf(mirror.exponent), mpmath.mpf(mirror.scale)
            sizes = [abs(mpmath.mpf(float(v))) for v in w]
            norm = mpmath.fsum(s**p for s in sizes) ** (1 / p)
            gradient = [float(kappa * norm ** (2 - p) * s ** (p - 1)) if s else 0.0 for s in sizes]
            potential = kappa / 2 * norm**2
            q = 1 / (1 - 1 / p)
            dual_norm = mpmath.fsum(s**q for s in sizes) ** (1 / q)
            inverse = [float(dual_norm ** (2 - q) * s ** (q - 1) / kappa) for s in sizes]
        np.testing.assert_allclose(mirror.gradient(w), np.copysign(gradient, w), rtol=1e-13)
        # the exponent 1.05 is not a float: its conjugate is 21 only to 1e-14
        np.testing.assert_allclose(mirror.inverse(w), np.copysign(inverse, w), rtol=1e-12, atol=0)
        if scale == 1.0:
            assert mirror.potential(w) == pytest.approx(float(potential), rel=1e-13, abs=0)


@pytest.mark.parametrize("mirror", MAPS, ids=repr)
def test_edges_of_the_floats(mirror):
    for x in (np.zeros(3), np.full(4, 1.7e308), np.full(4, 5e-324), EDGE):
        for image in (mirror.gradient(x), mirror.inverse(x)):
            assert not np.any(np.isnan(image))
            assert np.all((image == 0.0) | (np.sign(image) == np.sign(x)))
    assert not np.any(mirror.gradient(np.zeros(3)))
    assert mirror.potential(np.zeros(3)) == 0.0
    assert mirror.potential(np.full(3, 1e300)) == math.inf
    # one dimension: no power is taken of anything but 1
    for value in (-3.3, 1e-300, 1e300):
        assert mirror.gradient([value])[0] == mirror.scale * value
        assert mirror.inverse([value])[0] == 1 / mirror.scale * value
    found = mirror.inverse([math.inf, 1.0, -math.inf])
    assert found[0] == -found[2] > 1e300
    assert np.all(np.isnan(PNormMap(1.5).gradient([1.0, math.nan])))
    batch = np.random.default_rng(0).normal(size=(2, 3, 5))
    batch[1, 2] = 0.0
    rows = [mirror.gradient(x) for x in batch.reshape(-1, 5)]
    np.testing.assert_allclose(mirror.gradient(batch).reshape(-1, 5), rows, rtol=1e-15)
    assert mirror.potential(batch).shape == (2, 3)


# --- divergence -----------------------------------------------------------------------------------


def exact_bregman(mirror: PNormMap, v: np.ndarray, w: np.ndarray) -> float:
    with mpmath.workdps(120):
        p, kappa = mpmath.mpf(mirror.exponent), mpmath.mpf(mirror.scale)
        a = [mpmath.mpf(float(x)) for x in v]
        b = [mpmath.mpf(float(x)) for x in w]

        def norm(x):
            return mpmath.fsum(abs(t) ** p for t in x) ** (1 / p)

        slope = mpmath.fsum(
            mpmath.sign(t) * abs(t) ** (p - 1) * s for s, t in zip(a, b, strict=True)
        )
        n = norm(b)
        value = norm(a) ** 2 / 2 + n**2 / 2 - (n ** (2 - p) * slope if n else 0)
        return float(kappa * value)


@pytest.mark.thorough
@pytest.mark.parametrize("mirror", MAPS, ids=repr)
@pytest.mark.parametrize("distance", [0.0, 1e-15, 1e-12, 1e-8, 1e-4, 1e-2, 0.1, 0.2, 0.5, 3.0, 1e6])
def test_bregman_against_many_digits(mirror, distance):
    rng = np.random.default_rng(13)
    for d, kind in [(1, "x"), (2, "x"), (9, "x"), (9, "radial"), (9, "zeros"), (40, "x")]:
        w = vector(rng, d, spread=1.0, zeros=0.3 if kind == "zeros" else 0.0)
        h = w if kind == "radial" else vector(rng, d, spread=1.0, zeros=0.3)
        v = w + distance * h
        for scale in (1.0, 1e-100, 1e100):
            expected = exact_bregman(mirror, scale * v, scale * w)
            rounding = 1e-13 / (mirror.exponent - 1.0)
            found = mirror.bregman(scale * v, scale * w)
            if distance == 0.0:
                assert found == 0.0
                continue
            assert found == pytest.approx(expected, rel=rounding, abs=1e-300)


@pytest.mark.parametrize("mirror", MAPS, ids=repr)
def test_bregman_at_edges(mirror):
    assert mirror.bregman([0.0, 0.0], [0.0, 0.0]) == 0.0
    assert mirror.bregman([1.0, 2.0], [0.0, 0.0]) == pytest.approx(
        float(mirror.potential([1.0, 2.0])), rel=1e-14, abs=0
    )
    assert mirror.bregman(EDGE, EDGE[::-1]) > 0.0
    assert mirror.bregman([1.0, 5e-324], [1.0, 0.0]) >= 0.0
    assert mirror.bregman([1e300, 0.0], [0.0, 1e300]) == math.inf
    assert math.isnan(mirror.bregman([math.inf], [1.0]))
    assert math.isnan(mirror.bregman([1.0], [math.nan]))


@settings(max_examples=150, deadline=None)
@given(
    p=st.sampled_from(EXPONENTS),
    d=st.integers(1, 200),
    seed=st.integers(0, 2**32),
    distance=st.sampled_from([1e-9, 1e-3, 0.1, 1.0, 30.0]),
)
def test_strong_convexity_in_every_norm(p, d, seed, distance):
    rng, mirror = np.random.default_rng(seed), regular(p, d)
    w = vector(rng, d)
    v = w + distance * vector(rng, d)
    found = mirror.bregman(v, w)
    assert mirror.strong_convexity(Lp(p), d) == pytest.approx(1.0, rel=1e-12, abs=0)
    for norm in (Lp(p), mirror.norm, L1, L2, LINF):
        modulus = mirror.strong_convexity(norm, d)
        below = 0.5 * modulus * float(norm(v - w)) ** 2
        assert found >= below * (1 - 1e-9)


@pytest.mark.parametrize("mirror", MAPS, ids=repr)
def test_strong_convexity_is_attained(mirror):
    w, v = np.array([1.0, 1.0]), np.array([1.0 + 1e-3, 1.0 - 1e-3])
    expected = 0.5 * mirror.strong_convexity() * float(mirror.norm(v - w)) ** 2
    assert mirror.bregman(v, w) == pytest.approx(expected, rel=1e-5, abs=0)


# --- steps ----------------------------------------------------------------------------------------


def slope_at(mirror, v, w, g, step, extra, centre):
    """The gradient at v of <g, v> + D(v, w) / step + extra Phi(v - centre), potential at centre."""
    there, here = mirror.gradient(v - centre), mirror.gradient(w - centre)
    return g + (there - here) / step + extra * there


def objective(mirror, v, w, g, step, extra, centre):
    there, here = v - centre, w - centre
    return (
        g @ v
        + (mirror.potential(there) - mirror.gradient(here) @ there) / step
        + extra * mirror.potential(there)
    )


def ball_of(kind: str, mirror: PNormMap, radius: float, centre: np.ndarray) -> LpBall:
    return LpBall(1.0 if kind == "l1" else mirror.exponent, radius, centre)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["free", "own", "l1"])
@settings(max_examples=120, deadline=None)
@given(
    p=st.sampled_from(EXPONENTS),
    d=st.integers(1, 1000),
    seed=st.integers(0, 2**32),
    step=st.sampled_from([1e-3, 0.5, 30.0]),
    extra=st.sampled_from([0.0, 0.05, 4.0]),
    radius=st.sampled_from([1e-6, 0.1, 1.0, 50.0]),
)
def test_steps_are_optimal(kind, p, d, seed, step, extra, radius):
    rng, mirror = np.random.default_rng(seed), regular(p, d)
    centre = vector(rng, d) if seed % 2 else np.zeros(d)
    ball = None if kind == "free" else ball_of(kind, mirror, radius, centre)
    w, g = centre + vector(rng, d, spread=0.5), vector(rng, d, spread=1.0)
    v = mirror.step(w, g, step, domain=ball, extra=extra, centre=centre)
    # centre + u is rounded where |u| is small against the centre
    slope = slope_at(mirror, v, w, g, step, extra, centre)
    parts = max(np.max(np.abs(g)), np.max(np.abs(mirror.gradient(w - centre))) / step)
    if ball is None:
        if not np.any(centre):
            np.testing.assert_allclose(slope, 0.0, atol=1e-12 * parts)
        return
    norm = Lp(ball.p)
    assert norm(v - centre) <= radius * (1 + 1e-13) + 1e-15 * norm(centre)
    if np.any(centre):
        return
    gap = slope @ v + radius * float(norm.dual(slope))
    assert gap <= 1e-11 * parts * radius * (1 + d ** (1 / norm.dual.p))
    for u in rng.normal(size=(5, d)):
        u *= radius * rng.random() / norm(u)
        assert slope @ (u - v) >= -1e-11 * parts * radius * d


@pytest.mark.parametrize("kind", ["free", "own", "l1"])
@pytest.mark.parametrize("extra", [0.0, 0.6])
def test_a_centre_moves_everything(kind, extra):
    rng = np.random.default_rng(19)
    mirror, d = PNormMap(1.3, 0.8), 8
    for radius in (0.1, 1.0, 100.0):
        w, g, centre = rng.normal(size=(3, d))
        here = None if kind == "free" else ball_of(kind, mirror, radius, np.zeros(d))
        there = None if kind == "free" else ball_of(kind, mirror, radius, centre)
        still = mirror.step(w, g, 0.7, domain=here, extra=extra)
        moved = mirror.step(w + centre, g, 0.7, domain=there, extra=extra, centre=centre)
        np.testing.assert_allclose(moved, centre + still, atol=1e-13)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["free", "own", "l1"])
@pytest.mark.parametrize("p", [1.05, 1.2, 1.5])
def test_steps_against_a_general_optimiser(kind, p):
    rng = np.random.default_rng(21)
    mirror = PNormMap(p if p > 1.1 else 1.3, 1.7)
    for trial in range(4):
        d, step, extra = 5, 0.7, 0.3 * trial
        centre = 0.3 * rng.normal(size=d) * (trial % 2)
        w, g = centre + rng.normal(size=d), 2 * rng.normal(size=d)
        ball = None if kind == "free" else ball_of(kind, mirror, 0.4, centre)
        v = mirror.step(w, g, step, domain=ball, extra=extra, centre=centre)
        best = objective(mirror, v, w, g, step, extra, centre)

        def cost(u, a=(w, g, step, extra, centre)):
            return float(objective(mirror, u, *a))

        other = general_minimum(cost, kind, mirror.exponent, 0.4, centre)
        assert best <= cost(other) + 1e-7
        assert best == pytest.approx(cost(other), abs=1e-5)
        np.testing.assert_allclose(v, other, atol=1e-2)


def general_minimum(cost, kind, p, radius, centre):
    """SLSQP; into the l1 ball by positive and negative parts, so that nothing has a kink."""
    d = len(centre)
    options = {"method": "SLSQP", "options": {"ftol": 1e-15, "maxiter": 300}}
    if kind == "l1":

        def joined(parts):
            return centre + parts[:d] - parts[d:]

        rule = {"type": "ineq", "fun": lambda parts: radius - np.sum(parts)}
        bounds, points = [(0.0, None)] * (2 * d), []
        for share in (0.25, 0.05, 0.4):  # some builds of SLSQP leave the ball from some starts
            start = np.full(2 * d, share * radius / d)
            start[0] *= 1.5
            parts = minimize(
                lambda u: cost(joined(u)), start, bounds=bounds, constraints=[rule], **options
            ).x
            points += [joined(parts)] if np.sum(parts) <= radius * (1 + 1e-9) else []
        return min(points, key=cost)
    rule = {"type": "ineq", "fun": lambda u: radius - Lp(p)(u - centre)}
    return minimize(cost, centre + 0.01, constraints=[rule] if kind == "own" else [], **options).x


@pytest.mark.parametrize("p", [1.2, 1.5])
@pytest.mark.parametrize("kind", ["own", "l1"])
def test_steps_against_a_conic_solver(p, kind):
    rng = np.random.default_rng(22)
    mirror, d, step, extra = PNormMap(p, 2.0), 12, 0.5, 0.2
    w, g = rng.normal(size=(2, d))
    ball = ball_of(kind, mirror, 0.7, np.zeros(d))
    v = mirror.step(w, 4 * g, step, domain=ball, extra=extra)
    u = cp.Variable(d)
    cost = (4 * g - mirror.gradient(w) / step) @ u
    cost += (1 / step + extra) * cp.square(cp.pnorm(u, p))  # scale / 2 is 1
    problem = cp.Problem(cp.Minimize(cost), [cp.pnorm(u, ball.p) <= 0.7])
    problem.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(v, u.value, atol=2e-4)
    assert objective(mirror, v, w, 4 * g, step, extra, np.zeros(d)) <= (
        objective(mirror, u.value, w, 4 * g, step, extra, np.zeros(d)) + 1e-5
    )


DOMAINS = [
    Simplex(2.0),
    Box(-0.3, [0.5, 1.0, 0.1, 0.2]),
    L1Ball(0.5),
    L2Ball(0.5, np.ones(4)),
    LInfBall(0.2),
    LpBall(3.0, 0.4),
    Ellipsoid([1.0, 0.5, 0.1, 2.0]),
    Intersection(Simplex(1.0), L2Ball(0.9)),
    WholeSpace(),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("extra", [0.0, 0.7])
def test_exponent_two_is_projected_descent(domain, extra):
    rng = np.random.default_rng(31)
    w, g, c = rng.normal(size=(3, 4))
    step, scale = 0.3, 1.5
    found = PNormMap(2.0, scale).step(w, g, step, domain=domain, extra=extra, centre=c)
    inverse_step = scale / step
    free = (inverse_step * w - g + scale * extra * c) / (inverse_step + scale * extra)
    np.testing.assert_allclose(found, domain.project(free), rtol=1e-12, atol=1e-14)
    assert domain.contains(found)


@pytest.mark.thorough
def test_composite_steps_reach_the_proximal_point():
    """Steps 1 / gamma = lam t / 2 on a quadratic plus beta / 2 ||w - c||_p^2, without noise."""
    rng = np.random.default_rng(5)
    A, c, beta = rng.normal(size=(4, 4)) / 2, rng.normal(size=4), 1.5
    target = rng.normal(size=4)
    for p in (1.3, 1.6, 2.0):
        mirror, w = PNormMap(p), c.copy()
        for t in range(1, 2000):
            g = A.T @ (A @ w - target)
            w = mirror.step(w, g, 2 / (beta * t), extra=beta, centre=c)
        slope = A.T @ (A @ w - target) + beta * mirror.gradient(w - c)
        assert np.max(np.abs(slope)) < 2e-3
        if p == 2.0:
            exact = np.linalg.solve(A.T @ A + beta * np.eye(4), A.T @ target + beta * c)
            np.testing.assert_allclose(w, exact, atol=1e-3)


# --- the l1 threshold -----------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.05, 1.2, 1.5, 1.99])
@pytest.mark.parametrize("share", [1e-14, 1e-6, 1e-2, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("size", [1e-250, 1.0, 1e250])
def test_l1_threshold_to_full_precision(p, share, size):
    """The result is inverse(soft(dual, nu)) for one nu, with l_1 norm equal to the radius."""
    rng = np.random.default_rng(17)
    mirror = PNormMap(p, 1.3)
    for d in (1, 2, 7, 1000):
        dual = size * rng.normal(size=d)
        if d == 7:
            dual = size * np.array([3.0, -3.0, 3.0, 2.999999999, 1.5, 0.0, -2.9])
        radius = share * float(L1(mirror.inverse(dual)))
        v = mirror.step(np.zeros(d), -dual, 1.0, domain=L1Ball(radius))
        assert L1(v) == pytest.approx(radius, rel=1e-14, abs=0)
        assert np.all(v * np.sign(dual) >= 0.0)
        back = np.abs(mirror.gradient(v))  # soft(dual, nu), where it is not zero
        kept = np.abs(v) > 1e-30 * radius
        excess = np.abs(dual)[kept] - back[kept]
        top = np.max(np.abs(dual))
        assert np.ptp(excess) <= 1e-14 * top
        assert np.min(excess) >= -1e-14 * top
        assert np.all(np.abs(dual)[~kept] <= np.max(excess) + 0.1 * np.max(back))


def test_l1_threshold_tells_near_ties_apart():
    mirror, dual = PNormMap(1.4, 1.3), np.array([3.0, 3.0 - 3.1e-13, 1.0])
    v = mirror.step(np.zeros(3), -dual, 1.0, domain=L1Ball(8e-13))
    back = mirror.gradient(v)
    assert v[1] > 0.1 * v[0]
    assert back[0] - back[1] == pytest.approx(dual[0] - dual[1], rel=1e-9, abs=0)


def test_l1_ball_far_below_the_gradient():
    found = PNormMap(1.4).step(np.zeros(3), [-1e308, 1e308, 1.0], 1.0, domain=L1Ball(1e-300))
    np.testing.assert_allclose(found, [5e-301, -5e-301, 0.0], rtol=1e-12)


def test_l1_step_inside_the_ball_is_free():
    mirror = PNormMap(1.4)
    w, g = np.array([0.1, -0.2, 0.0]), np.array([0.01, 0.0, 0.02])
    free = mirror.step(w, g, 1.0)
    assert np.array_equal(mirror.step(w, g, 1.0, domain=L1Ball(10.0)), free)
    assert np.array_equal(mirror.step(w, g, 1.0, domain=LpBall(1.4, 10.0)), free)
    assert np.array_equal(mirror.step(w, g, 1.0, domain=WholeSpace()), free)


# --- total steps ----------------------------------------------------------------------------------

WILD = [
    [1e308, -1e308, 1e308, 0.0],
    [math.inf, 0.0, 0.0, 0.0],
    [-math.inf, math.inf, 1.0, math.nan],
    [math.nan] * 4,
    [5e-324, 0.0, -5e-324, 1e-310],
    [0.0] * 4,
]


@pytest.mark.parametrize("g", WILD, ids=str)
@pytest.mark.parametrize("step", [1e-300, 1.0, 1e300])
@pytest.mark.parametrize("mirror", MAPS, ids=repr)
def test_wild_gradients_give_members(mirror, g, step):
    for start in (np.zeros(4), np.array([1.0, -2.0, 0.0, 1e-300]), np.array(WILD[2])):
        for ball in (LpBall(mirror.exponent, 2.0), L1Ball(2.0)):
            found = mirror.step(start, g, step, domain=ball, extra=0.1)
            assert np.all(np.isfinite(found))
            assert ball.contains(found)
        assert not np.any(np.isnan(mirror.step(start, g, step)))


def test_wild_gradients_go_where_they_point():
    mirror = PNormMap(1.3)
    for domain in (L1Ball(2.0), LpBall(1.3, 2.0)):
        found = mirror.step(np.zeros(3), [math.inf, 1.0, math.nan], 1.0, domain=domain)
        np.testing.assert_allclose(found, [-2.0, 0.0, 0.0], atol=1e-12)
        found = mirror.step(np.zeros(3), [1e308, -1e308, 0.0], 1e10, domain=domain)
        size = 1.0 if domain.p == 1.0 else 2.0 / 2 ** (1 / 1.3)
        np.testing.assert_allclose(found, [-size, size, 0.0], rtol=1e-12)
    ones = mirror.step(np.ones(3), [math.nan, 0.0, 0.0], 1.0)
    np.testing.assert_allclose(ones, 1.0, rtol=1e-13)  # not a number: no move


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [1.0, 0.5, 2.1, math.inf, math.nan, "2"])
def test_bad_exponents(exponent):
    with pytest.raises(ParameterError, match="exponent"):
        PNormMap(exponent)


def test_refusals():
    mirror, w = PNormMap(1.5), np.ones(3)
    for domain in (Simplex(), L2Ball(1.0), LpBall(1.2, 1.0), Box(0.0, 1.0)):
        with pytest.raises(AssumptionError, match="mirror step"):
            mirror.step(w, w, 1.0, domain=domain)
    with pytest.raises(AssumptionError, match="potential at the ball's centre"):
        mirror.step(w, w, 1.0, domain=L1Ball(1.0, np.ones(3)))
    with pytest.raises(AssumptionError, match="potential at the ball's centre"):
        mirror.step(w, w, 1.0, domain=L1Ball(1.0), centre=np.ones(3))
    for step in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ParameterError, match="step"):
            mirror.step(w, w, step)
        with pytest.raises(ParameterError, match="step"):
            Entropy().step(w, w, step)
    with pytest.raises(ParameterError, match="extra"):
        mirror.step(w, w, 1.0, extra=-0.1)
    with pytest.raises(ParameterError, match=r"weights \(3,\), gradient \(2,\)"):
        mirror.step(w, w[:2], 1.0)
    with pytest.raises(ParameterError, match="centre"):
        mirror.step(w, w, 1.0, centre=np.ones(2))
    with pytest.raises(ParameterError, match="one length"):
        mirror.bregman(np.ones((2, 2)), np.ones((2, 2)))
    with pytest.raises(ParameterError, match="scale"):
        PNormMap(1.5, 0.0)
    with pytest.raises(ParameterError, match="total"):
        Entropy(-1.0)
    with pytest.raises(ParameterError, match="pass d"):
        mirror.strong_convexity(L2)


# --- spread ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("d", [1, 2, 50])
def test_spread_on_balls(p, d):
    mirror, kappa = regular(p, d), Regularity(p, d).kappa
    assert mirror.spread(LpBall(p, 3.0), d) == pytest.approx(kappa / 2 * 9.0, rel=1e-12, abs=0)
    assert mirror.spread(LpBall(p, 3.0, np.ones(d)), d) == pytest.approx(
        kappa / 2 * 9.0, rel=1e-12, abs=0
    )
    largest = 3.0 * equivalence(LINF, mirror.norm, d)
    assert mirror.spread(LInfBall(3.0), d) == pytest.approx(
        kappa / 2 * largest**2, rel=1e-12, abs=0
    )
    assert mirror.spread(WholeSpace(), d) == math.inf
    rng = np.random.default_rng(1)
    points = rng.normal(size=(200, d))
    points *= 3.0 / Lp(p)(points)[:, None]
    assert np.max(mirror.potential(points)) <= mirror.spread(LpBall(p, 3.0), d) * (1 + 1e-12)


@pytest.mark.parametrize("d", [1, 2, 50])
@pytest.mark.parametrize("total", [0.3, 1.0, 7.0])
def test_spread_of_the_entropy(d, total):
    mirror = Entropy.regular(total)
    uniform, vertex = np.full(d, total / d), np.eye(d)[0] * total
    spread = mirror.spread(Simplex(total), d)
    assert spread == pytest.approx(total**2 * math.log(d), rel=1e-14, abs=0)
    assert mirror.bregman(vertex, uniform) == pytest.approx(spread, rel=1e-12, abs=1e-14)
    points = total * np.random.default_rng(2).dirichlet(np.full(d, 0.3), size=100)
    assert max(mirror.bregman(x, uniform) for x in points) <= spread * (1 + 1e-12) + 1e-14
    with pytest.raises(AssumptionError, match="Simplex"):
        mirror.spread(Simplex(2 * total), d)
    with pytest.raises(AssumptionError, match="Simplex"):
        mirror.spread(L2Ball(1.0), d)


# --- entropy --------------------------------------------------------------------------------------


def test_entropy_by_hand():
    mirror = Entropy(2.0, 3.0)
    w = np.array([0.5, 1.5, 0.0])
    assert mirror.potential(w) == pytest.approx(3 * (0.5 * math.log(0.5) + 1.5 * math.log(1.5)))
    assert mirror.gradient(w).tolist() == [
        pytest.approx(3 * (1 + math.log(0.5))),
        pytest.approx(3 * (1 + math.log(1.5))),
        -math.inf,
    ]
    np.testing.assert_allclose(mirror.inverse(mirror.gradient(w)), w, rtol=1e-14)
    found = mirror.step(w, [1.0, -1.0, 5.0], 0.6)
    expected = np.array([0.5 * math.exp(-0.2), 1.5 * math.exp(0.2), 0.0])
    np.testing.assert_allclose(found, 2 * expected / expected.sum(), rtol=1e-14)
    from_nothing = Entropy().step([0.0, 0.0], [0.3, -0.2], 1.0)
    assert np.array_equal(from_nothing, Entropy().step([1.0, 1.0], [0.3, -0.2], 1.0))
    uniform = Entropy().step([0.9, 0.1], [0.0, 0.0], 1.0, extra=1e12)
    np.testing.assert_allclose(uniform, 0.5, rtol=1e-9)


@settings(max_examples=120, deadline=None)
@given(
    d=st.integers(1, 1000),
    seed=st.integers(0, 2**32),
    step=st.sampled_from([1e-3, 0.5, 20.0]),
    extra=st.sampled_from([0.0, 0.4]),
    total=st.sampled_from([1e-3, 1.0, 40.0]),
)
def test_entropy_steps_are_optimal(d, seed, step, extra, total):
    rng, mirror = np.random.default_rng(seed), Entropy(total, 0.7)
    w = total * np.maximum(rng.dirichlet(np.ones(d)), 1e-30)
    g = rng.normal(size=d)
    v = mirror.step(w, g, step, extra=extra)
    assert np.sum(v) == pytest.approx(total, rel=1e-13, abs=0)
    assert np.all(v >= 0)
    inside = v > 1e-290
    slope = g + (mirror.gradient(v) - mirror.gradient(w)) / step + extra * mirror.gradient(v)
    # on the simplex the slope is constant, up to rounding of logarithms of size about 50
    assert np.ptp(slope[inside]) <= 1e-11 * (1 + 1 / step)
    np.testing.assert_allclose(mirror.inverse(mirror.gradient(w)), w * total / w.sum(), rtol=1e-11)


def test_entropy_step_against_a_conic_solver():
    rng = np.random.default_rng(4)
    total, step, extra, scale = 3.0, 0.8, 0.3, 1.4
    w, g = total * rng.dirichlet(np.ones(6)), rng.normal(size=6)
    found = Entropy(total, scale).step(w, g, step, extra=extra)
    v = cp.Variable(6)
    cost = g @ v + scale / step * cp.sum(cp.kl_div(v, w)) - scale * extra * cp.sum(cp.entr(v))
    cp.Problem(cp.Minimize(cost), [cp.sum(v) == total]).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(found, v.value, atol=1e-4)


@pytest.mark.parametrize("distance", [0.0, 1e-15, 1e-9, 1e-3, 0.2, 0.3, 0.9])
def test_entropy_bregman_against_many_digits(distance):
    rng = np.random.default_rng(6)
    mirror = Entropy(1.0, 2.0)
    w = rng.dirichlet(np.ones(20))
    v = w * (1 + distance * rng.uniform(-1, 1, size=20))
    with mpmath.workdps(60):
        pairs = [(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(v, w, strict=True)]
        expected = float(2 * mpmath.fsum(a * mpmath.log(a / b) - a + b for a, b in pairs))
    assert mirror.bregman(v, w) == pytest.approx(expected, rel=1e-13, abs=0)


def test_entropy_bregman_at_edges():
    mirror = Entropy()
    assert mirror.bregman([0.0, 1.0], [0.5, 0.5]) == pytest.approx(math.log(2), rel=1e-14, abs=0)
    assert mirror.bregman([0.5, 0.5], [0.0, 1.0]) == math.inf
    assert mirror.bregman([0.0, 1.0], [0.0, 1.0]) == 0.0
    assert mirror.bregman([1.0, 1e-300], [1.0, 5e-324]) >= 0.0
    assert math.isnan(mirror.bregman([math.nan, 1.0], [0.5, 0.5]))


@settings(max_examples=80, deadline=None)
@given(d=st.integers(2, 100), seed=st.integers(0, 2**32), total=st.sampled_from([0.1, 1.0, 9.0]))
def test_entropy_strong_convexity(d, seed, total):
    rng, mirror = np.random.default_rng(seed), Entropy.regular(total)
    assert mirror.strong_convexity() == 1.0
    assert Entropy(total).strong_convexity() == pytest.approx(1 / total)
    v, w = total * rng.dirichlet(np.full(d, 0.5), size=2)
    w = np.maximum(w, 1e-200)
    for norm in (L1, L2, LINF):
        below = 0.5 * mirror.strong_convexity(norm, d) * float(norm(v - w)) ** 2
        assert mirror.bregman(v, w) >= below * (1 - 1e-9)


def test_entropy_strong_convexity_is_attained():
    mirror, w, h = Entropy(2.0), np.array([1.0, 1.0]), np.array([1e-3, -1e-3])
    expected = 0.5 * mirror.strong_convexity() * float(L1(h)) ** 2
    assert mirror.bregman(w + h, w) == pytest.approx(expected, rel=1e-5, abs=0)


@pytest.mark.parametrize("g", WILD, ids=str)
@pytest.mark.parametrize("step", [1e-300, 1.0, 1e300])
def test_wild_gradients_on_the_simplex(g, step):
    starts = [[0.25] * 4, [1.0, 0.0, 0.0, 0.0], [0.0] * 4, [math.nan, 1.0, 0.0, 0.0], [1e308] * 4]
    for start in starts:
        found = Entropy(2.0).step(start, g, step, extra=0.5)
        assert np.sum(found) == pytest.approx(2.0, rel=1e-14, abs=0)
        assert np.all(found >= 0.0)
        lost = (np.array(start) == 0.0) & np.any(np.array(start) > 0.0)
        assert not np.any(found[lost])
    assert np.sum(Entropy().inverse([math.inf, 0.0])) == 1.0
    assert Entropy().inverse([-math.inf, -math.inf]).tolist() == [0.5, 0.5]
