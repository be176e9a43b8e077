"""Balls of the l_p norms: known answers, optimality to rounding, sizes and refusals."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import ParameterError
from dpsco.geometry.domains import Box, L1Ball, L2Ball, LInfBall, LpBall
from dpsco.geometry.norms import L1, L2, LINF, Lp, Norm, WeightedLp

V = np.array([3.0, -0.5, 1.2, -2.0])
EXPONENTS = (1.01, 1.05, 1.5, 3.0, 10.0, 100.0)


def test_known_projections():
    # KAT-12 of the specification of clipped proximal steps.
    assert L1Ball(2.0).project(V).tolist() == [1.5, 0.0, 0.0, -0.5]
    expected = [1.56545415, -0.26090903, 0.62618166, -1.0436361]
    assert L2Ball(2.0).project(V) == pytest.approx(expected, rel=5e-8)
    # The prox of the l_inf norm leaves what the l1 ball takes.
    assert (V - L1Ball(2.0).project(V)).tolist() == [1.5, -0.5, 1.2, -1.5]
    soft = np.sign(V) * np.maximum(np.abs(V) - 1.0, 0.0)
    expected = [0.89087081, 0.0, 0.08908708, -0.4454354]
    assert L2Ball(1.0).project(soft) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(
    ("p", "d", "width"),
    [
        (2, 10, 3.0843277598),
        (2, 1000, 31.6148718970),
        (1, 100, 2.7469576878),
        (1, 2, 1.1283791671),
        (np.inf, 10, 7.9788456080),
        (1.25, 10, 2.057207),
        (1.5, 100, 5.394947),
        (3, 10, 4.143721),
        (4, 100, 27.495676),
        (1.7, 1, 0.7978845608),
    ],
)
def test_known_widths(p, d, width):
    found = LpBall(p, 3.0, np.ones(d)).gaussian_width(d)
    assert found.value == pytest.approx(3.0 * width, rel=3e-7)
    assert found.error == 0.0


def reference(a, radius, p):
    """The projection of a positive vector by bisection in 50 digits."""
    with mp.workdps(50):
        a, p = [mp.mpf(float(x)) / mp.mpf(radius) for x in a], mp.mpf(p)

        def parts(log_lam):
            found = []
            for v in map(mp.log, a):
                x = min(v, (v - log_lam) / (p - 1))
                for _ in range(40):
                    one, two = mp.exp(x - v), mp.exp(log_lam + (p - 1) * x - v)
                    step = mp.log(one + two) * (one + two) / (one + (p - 1) * two)
                    x -= step
                    if abs(step) < mp.mpf(10) ** -30:
                        break
                found.append(x)
            return found

        low, high = mp.mpf(-60), mp.mpf(2000)
        for _ in range(120):
            middle = (low + high) / 2
            heavy = mp.fsum(mp.exp(p * x) for x in parts(middle)) > 1
            low, high = (middle, high) if heavy else (low, middle)
        return np.array([float(radius * mp.exp(x)) for x in parts(low)])


@pytest.mark.thorough
@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize(
    ("scale", "radius"), [(1.0, 0.3), (1e200, 1.0), (1.0, 1e-200), (1e-200, 1e-203)]
)
def test_projection_to_rounding(p, scale, radius):
    rng = np.random.default_rng(int(100 * p))
    a = scale * np.array([1.0, 1.0 - 1e-9, 0.5, *rng.random(2), 1e-6])
    found = LpBall(p, radius).project(a * [1, -1, 1, -1, 1, -1])
    expected = reference(a, radius, p)
    assert np.max(np.abs(np.abs(found) - expected)) <= 2e-15 * max(1.0, 0.1 / (p - 1)) * radius
    small = expected > 1e-300
    assert np.abs(found)[small] == pytest.approx(expected[small], rel=1e-12)
    assert np.array_equal(np.sign(found[:5]), [1, -1, 1, -1, 1])


@settings(max_examples=40, deadline=None)
@given(
    p=st.sampled_from(EXPONENTS),
    d=st.sampled_from([2, 10, 300, 1000]),
    seed=st.integers(0, 2**32 - 1),
    beyond=st.sampled_from([1e-12, 1e-6, 0.1, 10.0, 1e8]),
)
def test_optimality_conditions(p, d, seed, beyond):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(d) * rng.random(d) ** rng.choice([0, 5])
    ball = LpBall(p, float(Lp(p)(x)) / (1.0 + beyond))
    w = ball.project(x)
    assert float(ball.minkowski(w)) == pytest.approx(1.0, abs=1e-13)
    # x - w is a multiple of the outward normal sign(w) |w|^(p-1).
    rest, size = x - w, np.abs(w) / ball.radius(d, Lp(p))
    seen = size > 1e-300  # below, |w|^(p-1) may still be 1e-3, but w has no digits
    normal = np.sign(x[seen]) * size[seen] ** (p - 1.0)
    factor = (rest[seen] @ normal) / (normal @ normal)
    assert factor > 0.0
    assert np.linalg.norm(rest[seen] - factor * normal) <= 1e-13 * np.linalg.norm(x)
    assert np.all(np.abs(rest[~seen]) <= 1.001 * factor * 1e-300 ** (p - 1.0))


@pytest.mark.parametrize("d", [2, 30])
def test_exponents_near_the_special_ones(d):
    rng = np.random.default_rng(d)
    x, g, c = 3.0 * rng.standard_normal((3, d))
    for p, near, tolerance in [
        (1.0, 1.0 + 1e-9, 1e-6),
        (2.0, 2.0 + 1e-12, 1e-11),
        (2.0, 2.0 - 1e-12, 1e-11),
        (np.inf, 1e10, 1e-8),
    ]:
        special, general = LpBall(p, 1.5, c), LpBall(near, 1.5, c)
        assert special.project(x) == pytest.approx(general.project(x), abs=tolerance)
        assert special.support(g) == pytest.approx(float(general.support(g)), abs=1e-7)
        assert special.minkowski(x) == pytest.approx(float(general.minkowski(x)), rel=1e-7)
        assert special.max_norm(d, L1) == pytest.approx(general.max_norm(d, L1), rel=1e-7)


@pytest.mark.parametrize("scale", [1e-3, 3.0, 1e200])
@pytest.mark.parametrize("p", [1.0 + 2.3e-16, 1.0 + 1e-12, 1e15, 1e300, 1.7e308])
def test_exponents_at_the_edge_of_the_floats(p, scale):
    x = scale * np.random.default_rng(0).standard_normal(1000)
    ball, special = LpBall(p, 1.0), (L1Ball if p < 2 else LInfBall)(1.0)
    found = ball.project(x)
    assert np.max(np.abs(found - special.project(x))) <= 1e-9
    assert np.array_equal(ball.project(found), found)
    assert float(ball.support(x)) == pytest.approx(float(special.support(x)))


def test_minimiser_by_the_formula():
    rng = np.random.default_rng(0)
    g, c = rng.standard_normal((2, 6))
    for p in EXPONENTS:
        q = p / (p - 1.0)
        step = np.sign(g) * np.abs(g) ** (q - 1.0) / np.sum(np.abs(g) ** q) ** ((q - 1.0) / q)
        expected = c - 2.0 * step
        assert LpBall(p, 2.0, c).minimise(g) == pytest.approx(expected, rel=1e-12)
    assert L2Ball(2.0, c).minimise(g) == pytest.approx(c - 2.0 * g / np.linalg.norm(g))
    assert LInfBall(2.0).minimise([1.0, -1.0, 0.0]).tolist() == [-2.0, 2.0, -2.0]
    # The first of equal coordinates wins.
    assert L1Ball(2.0).minimise([1.0, -3.0, 3.0]).tolist() == [0.0, 2.0, 0.0]
    assert L1Ball(2.0).minimise([0.0, 0.0]).tolist() == [-2.0, 0.0]


@given(
    rows=st.lists(
        st.lists(st.sampled_from([-2.0, -1.0, -0.0, 0.0, 1.0, 2.0, 1e308]), min_size=4, max_size=4),
        min_size=1,
        max_size=5,
    )
)
def test_the_first_of_the_largest_coordinates_decides(rows):
    rows = np.array(rows)
    first = np.argmax(np.abs(rows), axis=-1)
    value = L1Ball(3.0).minimise(rows)
    assert np.array_equal(np.argmax(np.abs(value), axis=-1), first)
    sides = np.where(rows[np.arange(len(rows)), first] < 0.0, 3.0, -3.0)
    assert np.array_equal(value[np.arange(len(rows)), first], sides)


@pytest.mark.parametrize("scale", [1e-4, 0.1, 10.0])
def test_long_rows_are_projected_as_if_all_of_them_were_sorted(scale):
    """The threshold of a few entries finds the others that matter; the bits are the same."""
    point = scale * np.random.default_rng(5).standard_cauchy(50_001)
    size = np.abs(point)
    below = np.maximum(size - size.max(), -2.0)
    falling = np.sort(below)[::-1]
    thresholds = (np.cumsum(falling) - 2.0) / np.arange(1, len(falling) + 1)
    parts = np.maximum(below - thresholds[np.count_nonzero(falling > thresholds) - 1], 0.0)
    parts *= 2.0 / parts.sum()
    assert np.array_equal(L1Ball(2.0).project(point), np.copysign(parts, point) + 0.0)


def test_vertices():
    found = L1Ball(2.0, [1.0, 0.0]).vertices(2)
    assert sorted(found.tolist()) == [[-1.0, 0.0], [1.0, -2.0], [1.0, 2.0], [3.0, 0.0]]
    assert LInfBall(1.0).vertices(2).tolist() == [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    assert L2Ball(1.0).vertices(2) is None
    assert LpBall(1.5, 1.0).vertices(3) is None
    assert L2Ball(1.0, [3.0]).vertices(1).tolist() == [[2.0], [4.0]]
    assert L1Ball(1.0).vertices(724).shape == (1448, 724)
    with pytest.raises(ParameterError, match="vertices of L1Ball with d=725 are too many"):
        L1Ball(1.0).vertices(725)
    with pytest.raises(ParameterError, match=r"vertices of LInfBall with d=1000 .* 2\*\*1000"):
        LInfBall(1.0).vertices(1000)


def test_cube_is_a_box():
    rng = np.random.default_rng(1)
    c, x, g = rng.standard_normal((3, 5))
    ball, box = LInfBall(0.5, c), Box(c - 0.5, c + 0.5)
    assert np.array_equal(ball.vertices(5), box.vertices(5))
    assert ball.project(x) == pytest.approx(box.project(x))
    assert ball.minimise(g) == pytest.approx(box.minimise(g))
    assert float(ball.minkowski(x)) == pytest.approx(float(box.minkowski(x)))
    weighted = WeightedLp(3.0, (1.0, 2.0, 3.0, 4.0, 5.0))
    for norm in (L1, L2, weighted):
        assert ball.radius(5, norm) == pytest.approx(box.radius(5, norm))
        assert ball.max_norm(5, norm) == pytest.approx(box.max_norm(5, norm))
    assert ball.gaussian_width(5).value == pytest.approx(box.gaussian_width(5).value)


def test_sizes_in_closed_form():
    assert LpBall(1.5, 2.0).radius(8, L2) == 2.0
    assert LpBall(3.0, 2.0).radius(8, L1) == pytest.approx(2.0 * 8 ** (2 / 3))
    assert LInfBall(2.0).diameter(9) == pytest.approx(12.0)
    assert L1Ball(2.0).diameter(9, L1) == 4.0
    assert L2Ball(2.0).radius(3) == 2.0  # exactly: the loops read it
    c = np.array([3.0, -4.0])
    assert L2Ball(2.0, c).max_norm(2) == 7.0
    assert L2Ball(2.0, c).max_norm(2, L1) == pytest.approx(7.0 + 2.0 * math.sqrt(2.0))
    assert L2Ball(2.0, c).max_norm(2, LINF) == 6.0
    assert L1Ball(2.0, c).max_norm(2) == pytest.approx(math.hypot(3.0, 6.0))  # not 5 + 2
    assert L1Ball(2.0, c).max_norm(2, WeightedLp(1.0, (9.0, 1.0))) == 9 * 5 + 4.0
    assert LInfBall(2.0, c).max_norm(2) == pytest.approx(math.hypot(5.0, 6.0))


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, np.inf])
def test_reach_is_attained_in_its_exact_cases(p):
    rng = np.random.default_rng(3)
    c = rng.standard_normal(2)
    angles = np.linspace(0.0, 2.0 * np.pi, 100_001)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    surface = c + 0.7 * circle / Lp(p)(circle)[:, None]
    exact = {1.0, math.inf, p} if p not in (1.0, np.inf) else {1.0, 1.3, 2.0, 7.0, np.inf}
    for r in exact:
        found = LpBall(p, 0.7, c).max_norm(2, Lp(r))
        assert found == pytest.approx(float(np.max(Lp(r)(surface))), rel=1e-4)


class Skewed(Norm):
    """max(|x_0 + x_1|, |x_0 - x_1| / 2, |x_2|, ...): a norm that is not one of absolute values."""

    def __call__(self, vector):
        x = np.asarray(vector, dtype=float)
        parts = [np.abs(x[..., 0] + x[..., 1]), np.abs(x[..., 0] - x[..., 1]) / 2.0]
        return np.max(np.stack([*parts, *np.abs(np.moveaxis(x[..., 2:], -1, 0))]), axis=0)

    @property
    def dual(self):
        raise NotImplementedError

    def steepest(self, direction):
        raise NotImplementedError


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, np.inf])
def test_a_norm_of_the_user_gets_upper_bounds(p):
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((20_000, 3))
    rows /= Lp(p)(rows)[:, None]
    ball = LpBall(p, 1.0)
    largest = float(np.max(Skewed()(rows)))
    assert largest <= ball.radius(3, Skewed()) <= 2.0 * largest
    assert ball.diameter(3, Skewed()) == 2.0 * ball.radius(3, Skewed())
    centre = np.array([1.0, -2.0, 0.5])
    moved = LpBall(p, 1.0, centre)
    assert float(np.max(Skewed()(rows + centre))) <= moved.max_norm(3, Skewed())


def test_same_ball_by_two_names():
    assert L2Ball(2.0) == LpBall(2.0, 2.0)
    assert hash(L2Ball(2.0)) == hash(LpBall(2, 2))
    assert L2Ball(2.0) != L1Ball(2.0)
    assert L2Ball(2.0) != L2Ball(2.0, [0.0])
    assert repr(L2Ball(2.0)) == "L2Ball(radius=2.0)"
    assert repr(LpBall(1.5, 2.0, [1.0])) == "LpBall(p=1.5, radius=2.0, centre=[1.])"
    assert L1Ball(1.0).p == 1.0


def test_the_centre_is_copied():
    centre = np.array([1.0, 2.0])
    ball = L2Ball(1.0, centre)
    centre[0] = 50.0
    assert ball.centre(2).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("radius", [0.0, -1.0, math.inf, math.nan, "1", None, [1.0], True])
@pytest.mark.parametrize("ball", [L1Ball, L2Ball, LInfBall, lambda r: LpBall(1.5, r)])
def test_bad_radius(ball, radius):
    with pytest.raises(ParameterError, match="radius must be"):
        ball(radius)


@pytest.mark.parametrize("p", [0.5, 0.0, -1.0, math.nan, "2"])
def test_bad_exponent(p):
    with pytest.raises(ParameterError, match="p must be"):
        LpBall(p, 1.0)


@pytest.mark.parametrize(
    "centre", [1.0, [], [[1.0]], [1.0, math.nan], [math.inf], ["a"], [[1.0], [1.0, 2.0]], [1j]]
)
def test_bad_centre(centre):
    with pytest.raises(ParameterError, match="centre must be"):
        L2Ball(1.0, centre)
