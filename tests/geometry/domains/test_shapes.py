"""Simplex, box, ellipsoid, polytope, intersection and whole space: what is particular to each."""

import math

import numpy as np
import pytest

from dpsco.errors import AssumptionError, ParameterError
from dpsco.geometry.domains import (
    MAX_VERTEX_ENTRIES,
    Box,
    Ellipsoid,
    Intersection,
    L1Ball,
    L2Ball,
    LInfBall,
    LpBall,
    Polytope,
    Simplex,
    WholeSpace,
)
from dpsco.geometry.norms import L1, L2, LINF, GroupNorm, Lp, WeightedLp

# -- whole space -----------------------------------------------------------------------------------


def test_whole_space():
    space = WholeSpace()
    assert not space.bounded
    assert space.interior
    assert space.dimension is None
    assert space.project([1e300, -2.0]).tolist() == [1e300, -2.0]
    assert space.project([math.nan, math.inf]).tolist() == [0.0, np.finfo(float).max]
    assert space.centre(3).tolist() == [0.0] * 3
    assert space.radius(3) == space.max_norm(3, L1) == space.diameter(3, LINF) == math.inf
    assert space.minkowski([1.0, 2.0]) == 0.0
    assert space.vertices(3) is None
    assert space.gaussian_width(3).value == math.inf
    assert space.contains([1e300, 0.0])
    assert not space.contains([math.inf, 0.0])
    assert space == WholeSpace()
    assert space != L2Ball(1.0)
    assert repr(space) == "WholeSpace()"
    for method in (space.minimise, space.support):
        with pytest.raises(AssumptionError, match=r"bounded domain.*L2Ball"):
            method([1.0, 2.0])
    with pytest.raises(ParameterError, match="norm must be a norm"):
        space.radius(3, 2)


# -- simplex ---------------------------------------------------------------------------------------


def test_simplex_known_answers():
    assert Simplex().project([3.0, -0.5, 1.2, -2.0]).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert Simplex(2.0).project([0.5, 0.5]).tolist() == [1.0, 1.0]
    for d, width in [(1, 0.0), (2, 0.5641895835), (10, 1.5387527308), (1000, 3.2414357691)]:
        assert Simplex(2.0).gaussian_width(d).value == pytest.approx(2.0 * width, rel=1e-9)
    assert not Simplex().interior


def test_simplex_is_the_l1_ball_of_positive_points():
    rng = np.random.default_rng(0)
    x = rng.random((50, 30)) + 0.1
    assert Simplex(2.0).project(x) == pytest.approx(L1Ball(2.0).project(x), abs=1e-15)


def test_simplex_against_bisection():
    rng = np.random.default_rng(1)
    for d in (2, 5, 1000):
        x = rng.standard_normal(d) * 10.0 ** rng.uniform(-2, 2)
        low, high = np.min(x) - 1.0, np.max(x)
        for _ in range(200):
            middle = 0.5 * (low + high)
            heavy = np.sum(np.maximum(x - middle, 0.0)) > 1.0
            low, high = (middle, high) if heavy else (low, middle)
        assert Simplex().project(x) == pytest.approx(np.maximum(x - low, 0.0), abs=1e-12)


def test_simplex_sizes():
    assert Simplex(3.0).diameter(5) == pytest.approx(3.0 * math.sqrt(2.0))
    assert Simplex(3.0).diameter(5, L1) == 6.0
    assert Simplex(3.0).diameter(5, LINF) == 3.0
    assert Simplex(3.0).radius(4) == pytest.approx(3.0 * math.sqrt(0.75))
    assert Simplex(3.0).max_norm(4, Lp(1.5)) == 3.0
    assert Simplex(3.0).diameter(1) == Simplex(3.0).radius(1) == 0.0
    assert Simplex(3.0).diameter(1, WeightedLp(1.0, (2.0,))) == 0.0
    weights = tuple(np.random.default_rng(0).random(200) + 0.5)
    two = sorted(weights)[-2:]
    bound = Simplex(1.0).diameter(200, WeightedLp(2.0, weights))
    assert math.hypot(*two) <= bound <= sum(two) * (1 + 1e-12)
    exact = Simplex(1.0).diameter(100, WeightedLp(2.0, weights[:100]))
    assert exact == pytest.approx(math.hypot(*sorted(weights[:100])[-2:]))
    groups = GroupNorm(((0, 1), (2,)), 2.0, 1.0, (1.0, 3.0))
    assert Simplex(1.0).diameter(3, groups) == 4.0
    assert Simplex(2.0).max_norm(3, groups) == 6.0


def test_simplex_gauge():
    simplex = Simplex(1.0)
    assert simplex.minkowski([0.5, 0.5]) == 0.0
    assert simplex.minkowski([1.5, -0.5]) == 2.0
    assert simplex.minkowski([0.5, 0.6]) == math.inf
    assert simplex.minkowski([1e300, 0.0]) == math.inf
    assert simplex.minkowski([1.0]) == 0.0
    assert simplex.minkowski([2.0]) == math.inf


def test_simplex_of_far_points_keeps_every_digit():
    # The sum of the sorted entries would have no digit left for the total.
    x = np.array([1e16, 1e16 + 2.0, -1e17])
    assert Simplex(6.0).project(x).tolist() == [2.0, 4.0, 0.0]
    assert L1Ball(6.0).project(-x[:2]).tolist() == [-2.0, -4.0]


def test_simplex_vertices():
    assert Simplex(2.0).vertices(2).tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert Simplex().minimise([1.0, -1.0, -1.0]).tolist() == [0.0, 1.0, 0.0]
    assert Simplex().vertices(1024).shape == (1024, 1024)
    with pytest.raises(ParameterError, match="vertices of Simplex with d=1025 are too many"):
        Simplex().vertices(1025)


@pytest.mark.parametrize("total", [0.0, -1.0, math.inf, math.nan, "1", [1.0]])
def test_bad_total(total):
    with pytest.raises(ParameterError, match="total must be"):
        Simplex(total)


# -- box -------------------------------------------------------------------------------------------


def test_box():
    box = Box([0.0, -1.0], 2.0)
    assert box.dimension == 2
    assert box.centre(2).tolist() == [1.0, 0.5]
    assert box.radius(2, L1) == 2.5
    assert box.diameter(2, LINF) == 3.0
    assert box.max_norm(2) == pytest.approx(math.sqrt(8.0))
    assert box.radius(2, WeightedLp(1.0, (10.0, 1.0))) == 11.5
    assert box.minimise([0.0, -1.0]).tolist() == [0.0, 2.0]
    assert box.vertices(2).tolist() == [[0, -1], [0, 2], [2, -1], [2, 2]]
    assert box.minkowski([3.0, 0.5]) == 2.0
    assert box.gaussian_width(2).value == pytest.approx(2.5 * math.sqrt(2.0 / math.pi))
    assert Box(-1, 1).dimension is None
    assert Box(-1, 1).centre(4).tolist() == [0.0] * 4
    assert Box(-1.7e308, 1.7e308).centre(1).tolist() == [0.0]
    with pytest.raises(ParameterError, match="vertices of Box with d=17 are too many"):
        Box(-1, 1).vertices(17)
    assert Box(-1, 1).vertices(16).shape == (2**16, 16)


@pytest.mark.parametrize(
    ("lower", "upper", "named"),
    [
        (1.0, 1.0, "no interior point; coordinate 0"),
        ([0.0, 0.0], [1.0, -1.0], "no interior point; coordinate 1"),
        ([0.0, 2.0], 1.0, "no interior point; coordinate 1"),
        (-math.inf, 1.0, "lower must be finite"),
        (0.0, [1.0, math.nan], "upper must be finite"),
        (0.0, math.nan, "upper must be a number"),
        ([0.0, 0.0], [1.0], "upper must have as many coordinates"),
        ("a", 1.0, "lower must be an array of numbers"),
        (0.0, [[1.0]], "upper must be a vector"),
        ([], [], "lower must be a vector"),
        (0.0, None, "upper must be an array of numbers"),
    ],
)
def test_bad_boxes(lower, upper, named):
    with pytest.raises(ParameterError, match=named):
        Box(lower, upper)


# -- ellipsoid -------------------------------------------------------------------------------------


def test_ellipsoid_of_equal_axes_is_a_ball():
    rng = np.random.default_rng(0)
    x, g, c = rng.standard_normal((3, 7))
    ball = L2Ball(0.5, c)
    matrix = 0.25 * np.eye(7)
    for same in (Ellipsoid(np.full(7, 0.5), centre=c), Ellipsoid(matrix=matrix, centre=c)):
        assert same.project(x) == pytest.approx(ball.project(x), abs=1e-14)
        assert same.minimise(g) == pytest.approx(ball.minimise(g), abs=1e-14)
        assert float(same.minkowski(x)) == pytest.approx(float(ball.minkowski(x)))
        assert same.max_norm(7) == pytest.approx(ball.max_norm(7))


@pytest.mark.parametrize("d", [1, 2, 10, 200])
@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e8, 1e200])
def test_ellipsoid_optimality(d, scale):
    rng = np.random.default_rng(d)
    frame = np.linalg.qr(rng.standard_normal((d, d)))[0]
    axes = 10.0 ** rng.uniform(-3, 1, d)
    matrix = (frame * axes**2) @ frame.T
    c = rng.standard_normal(d)
    direction = rng.standard_normal(d)
    for domain, turn in [
        (Ellipsoid(axes, centre=c), np.eye(d)),
        (Ellipsoid(matrix=(matrix + matrix.T) / 2, centre=c), frame),
    ]:
        x = c + scale * direction + 2.0 * turn @ (axes * (turn.T @ direction))
        w = domain.project(x)
        assert float(domain.minkowski(w)) == pytest.approx(1.0, abs=1e-8)
        # x - w points along the outward normal, matrix^-1 (w - c).
        outward = turn @ ((turn.T @ (w - c)) / axes**2)
        rest = (x - w) / np.max(np.abs(x - w))
        cosine = outward @ rest / np.linalg.norm(outward) / np.linalg.norm(rest)
        assert cosine == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize("scale", [1.5, 30.0, 1e6])
def test_ellipsoid_projection_to_rounding(scale):
    rng = np.random.default_rng(4)
    axes = rng.uniform(0.5, 2.0, 20)
    x = scale * axes * rng.standard_normal(20)
    w = Ellipsoid(axes).project(x)
    rest, outward = (x - w), w / axes**2
    rest, outward = rest / np.linalg.norm(rest), outward / np.linalg.norm(outward)
    assert np.linalg.norm(rest - outward) <= 1e-14


def test_ellipsoid_sizes():
    axes = np.array([3.0, 1.0, 0.5])
    ellipsoid = Ellipsoid(axes)
    assert ellipsoid.radius(3) == 3.0
    assert ellipsoid.radius(3, LINF) == pytest.approx(3.0)
    assert ellipsoid.radius(3, L1) == pytest.approx(np.linalg.norm(axes))
    assert ellipsoid.diameter(3, Lp(4.0)) == pytest.approx(6.0)
    turned = Ellipsoid(matrix=[[2.0, 1.0], [1.0, 2.0]], centre=[1.0, 1.0])
    assert turned.radius(2) == pytest.approx(math.sqrt(3.0))
    assert turned.radius(2, LINF) == pytest.approx(math.sqrt(2.0))
    assert turned.radius(2, L1) == pytest.approx(math.sqrt(6.0))  # attained along (1, 1)
    assert turned.max_norm(2) == pytest.approx(math.sqrt(2.0) + math.sqrt(3.0))
    angles = np.linspace(0, 2 * np.pi, 10_000)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    surface = (np.linalg.cholesky(np.array([[2.0, 1.0], [1.0, 2.0]])) @ circle).T
    for p in (1.0, 1.5, 3.0, 10.0):
        assert np.max(Lp(p)(surface)) <= turned.radius(2, Lp(p)) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "axes or matrix"),
        ({"axes": [1.0], "matrix": [[1.0]]}, "axes or matrix"),
        ({"axes": [1.0, 0.0]}, "axes must be positive.*no interior point; axis 1"),
        ({"axes": [1.0, -2.0]}, "axes must be positive"),
        ({"axes": [1.0, math.inf]}, "axes must be finite"),
        ({"axes": 2.0}, "axes must be a vector"),
        ({"matrix": [1.0, 2.0]}, "matrix must be square"),
        ({"matrix": [[1.0, 2.0]]}, "matrix must be square"),
        ({"matrix": [[1.0, 0.5], [0.4, 1.0]]}, "matrix must be symmetric"),
        ({"matrix": [[1.0, 1.0], [1.0, 1.0]]}, "matrix must be positive definite.*interior"),
        ({"matrix": [[1.0, 0.0], [0.0, -1.0]]}, "matrix must be positive definite"),
        ({"matrix": [[math.nan]]}, "matrix must be finite"),
        ({"matrix": "M"}, "matrix must be an array of numbers"),
        ({"axes": [1.0, 2.0], "centre": [1.0]}, "centre must have 2 coordinates"),
        ({"axes": [1.0], "centre": [math.nan]}, "centre must be finite"),
    ],
)
def test_bad_ellipsoids(arguments, named):
    with pytest.raises(ParameterError, match=named):
        Ellipsoid(**arguments)


# -- polytope --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.01, 1.0, 5.0, 1e6])
def test_polytopes_that_have_a_closed_form(scale):
    rng = np.random.default_rng(0)
    low = -rng.random(6) - 0.1
    for simple, d in [
        (Box(low, 1.0), 6),
        (L1Ball(2.0), 40),
        (Simplex(2.0), 60),
        (LInfBall(1.0), 1),
    ]:
        hull = Polytope(simple.vertices(d))
        for x in (*(scale * rng.standard_normal((3, d))), np.full(d, scale), np.zeros(d)):
            assert hull.project(x) == pytest.approx(
                simple.project(x), abs=1e-10 * (1 + scale * 1e-4)
            )
            assert x @ hull.minimise(x) == pytest.approx(x @ simple.minimise(x))
        for norm in (L1, L2, LINF):
            assert hull.diameter(d, norm) == pytest.approx(simple.diameter(d, norm))
            assert hull.max_norm(d, norm) == pytest.approx(simple.max_norm(d, norm))
        inside = simple.project(rng.standard_normal(d))
        assert float(hull.minkowski(inside)) <= 1.0 + 1e-9
        assert hull.interior == simple.interior


def test_polytope_of_many_and_repeated_vertices():
    rng = np.random.default_rng(1)
    for count, d in [(1000, 20), (60, 60), (5, 100), (2, 3)]:
        few = rng.standard_normal((count, d))
        V = np.concatenate([few, few, few[:1] * (1.0 - 1e-14)])  # some again, one nearly
        hull = Polytope(V)
        for scale in (0.1, 3.0):
            x = scale * rng.standard_normal(d)
            w = hull.project(x)
            assert np.max((V - w) @ (x - w)) <= 1e-11 * hull.max_norm(d) ** 2
            assert np.array_equal(hull.project(w), w)


def test_flat_polytope():
    segment = Polytope([[0.0, 0.0], [2.0, 2.0]])
    assert not segment.interior
    assert segment.centre(2).tolist() == [1.0, 1.0]
    assert segment.project([2.0, 0.0]) == pytest.approx([1.0, 1.0])
    assert segment.minkowski([3.0, 3.0]) == pytest.approx(2.0)
    assert segment.minkowski([1.0, 0.0]) == math.inf
    assert segment.minimise([1.0, -1.0]).tolist() == [0.0, 0.0]
    # sqrt(2) half the mean of |g| along the diagonal
    width = segment.gaussian_width(2, samples=2000, seed=1)
    assert abs(width.value - math.sqrt(2.0) * math.sqrt(2.0 / math.pi)) <= 5 * width.error


def test_polytope_diameter_beyond_the_limit_of_pairs():
    rng = np.random.default_rng(0)
    hull = Polytope(rng.standard_normal((40_000, 2)))
    assert hull.diameter(2) == 2.0 * hull.radius(2)
    rows = hull.vertices(2)
    directions = rng.standard_normal((50, 2))
    ends = hull.minimise(directions) - hull.minimise(-directions)
    assert float(np.max(L2(ends))) <= hull.diameter(2)
    assert rows.shape == (40_000, 2)


@pytest.mark.parametrize(
    ("vertices", "named"),
    [
        ([], "vertices must be a matrix"),
        ([1.0, 2.0], "vertices must be a matrix"),
        (np.zeros((0, 3)), "vertices must be a matrix"),
        ([[1.0, 2.0]], "same point.*no interior point"),
        ([[1.0, 2.0]] * 4, "same point.*no interior point"),
        ([[1.0], [math.nan]], "vertices must be finite"),
        ([[1.0], [math.inf]], "vertices must be finite"),
        ([[1.0], [1e301]], "at most 1e300"),
        ([["a"], ["b"]], "vertices must be an array of numbers"),
        ([[1.0], [1.0, 2.0]], "vertices must be an array of numbers"),
        (np.zeros((MAX_VERTEX_ENTRIES // 4 + 1, 4)), "vertices of Polytope .* too many to enum"),
    ],
)
def test_bad_polytopes(vertices, named):
    with pytest.raises(ParameterError, match=named):
        Polytope(vertices)


# -- intersection ----------------------------------------------------------------------------------


def test_intersection_of_balls_in_a_plane():
    lens = Intersection(L2Ball(1.0), L2Ball(1.0, [1.0, 0.0]))
    tip = [0.5, math.sqrt(0.75)]
    assert lens.project([0.5, 9.0]) == pytest.approx(tip, abs=1e-12)
    assert lens.minimise([0.0, -1.0]) == pytest.approx(tip, abs=1e-6)
    assert lens.project([-3.0, 0.0]) == pytest.approx([0.0, 0.0], abs=1e-14)
    assert lens.project([5.0, 0.0]) == pytest.approx([1.0, 0.0], abs=1e-14)
    assert lens.diameter(2) == 2.0
    assert lens.max_norm(2) == 1.0
    assert lens.vertices(2) is None
    assert lens.interior
    assert not Intersection(Simplex(), L2Ball(1.0)).interior


def test_intersection_projection_is_exact():
    # Where the answer is a scaled point: a cone-like corner of the box at the ball's centre.
    rng = np.random.default_rng(2)
    corner = Intersection(Box(0.0, 10.0), L2Ball(2.0))
    for d in (1, 3, 1000):
        x = 5.0 * rng.standard_normal(d)
        positive = np.maximum(x, 0.0)
        expected = (
            positive * min(1.0, 2.0 / np.linalg.norm(positive)) if positive.any() else positive
        )
        assert corner.project(x) == pytest.approx(expected, abs=1e-14)
        assert corner.project(1e180 * x) == pytest.approx(
            positive * (2.0 / max(np.linalg.norm(positive), 1e-9)), abs=1e-13
        )


def test_intersection_with_a_face_of_minimisers():
    # The box's own minimiser is outside the ball, but others on the same face are inside.
    both = Intersection(Box(-1.0, 1.0), L2Ball(1.2))
    assert both.minimise([1.0, 0.0])[0] == -1.0
    assert both.minimise([0.0, 0.0, -1e-300])[2] == 1.0
    outer = Intersection(WholeSpace(), L2Ball(2.0, [1.0, 0.0]))
    assert outer.minimise([0.0, 3.0]) == pytest.approx([1.0, -2.0], abs=1e-12)
    assert outer.minimise([0.0, 0.0]) == pytest.approx([-1.0, 0.0])
    assert outer.project([1.0, 9.0]) == pytest.approx([1.0, 2.0])
    assert outer.minkowski([1.0, 4.0]) == pytest.approx(2.0)


def test_intersection_nested():
    inner = Intersection(LInfBall(1.0), L2Ball(1.2))
    both = Intersection(inner, L2Ball(1.2, [1.0, 0.0]))
    x = np.array([-4.0, 3.0])
    w = both.project(x)
    assert both.contains(w, 1e-12)
    assert inner.contains(w, 1e-12)
    members = both.project(2.0 * np.random.default_rng(0).standard_normal((50, 2)))
    assert np.max((members - w) @ (x - w)) <= 1e-10


def test_intersection_centre_is_inside_both():
    for domain, ball in [
        (Box(0.0, 1.0), L2Ball(0.5, [-0.4, 0.5])),
        (L1Ball(1.0), L2Ball(0.3, [0.6, 0.6])),
        (Simplex(1.0), L2Ball(0.75)),
    ]:
        both = Intersection(domain, ball)
        centre = both.centre(2)
        assert float(domain.minkowski(centre)) < 1.0
        assert float(ball.minkowski(centre)) < 1.0


def test_intersection_in_any_dimension_is_checked_when_used():
    both = Intersection(Simplex(1.0), L2Ball(0.5))
    assert both.centre(9) == pytest.approx(np.full(9, 1 / 9))
    for use in (both.centre, both.max_norm, both.diameter, both.radius, both.gaussian_width):
        with pytest.raises(ParameterError, match="no common interior point"):
            use(2)
    for use in (both.project, both.minimise, both.minkowski, both.support):
        with pytest.raises(ParameterError, match="no common interior point"):
            use([1.0, 0.0])


@pytest.mark.parametrize(
    ("domain", "ball", "named"),
    [
        (Box(0.0, 1.0), L2Ball(0.5, [-1.0, 0.0]), "ball must reach.*no common interior point"),
        (Box(0.0, 1.0), L2Ball(1.0, [-1.0, 0.0]), "no common interior point"),  # they touch
        (Simplex(), L2Ball(0.1, [1.0, 1.0]), "no common interior point"),
        (Polytope([[0.0], [1.0]]), L2Ball(0.1, [2.0]), "no common interior point"),
        (Box(0.0, [1.0, 1.0]), L2Ball(1.0, [0.0]), "ball must have domain's dimension"),
        (Box(0.0, 1.0), L1Ball(1.0), "ball must be an L2Ball"),
        (Box(0.0, 1.0), 1.0, "ball must be an L2Ball"),
        ("box", L2Ball(1.0), "domain must be a domain"),
    ],
)
def test_bad_intersections(domain, ball, named):
    with pytest.raises(ParameterError, match=named):
        Intersection(domain, ball)


def test_intersection_takes_a_ball_by_its_other_name():
    assert Intersection(Box(0, 1), LpBall(2, 1.0)) == Intersection(Box(0, 1), L2Ball(1.0))
