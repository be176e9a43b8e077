"""What every domain promises, on one example of each, from d = 1 to 1000."""

import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dpsco.geometry.domains as domains
from dpsco.errors import ParameterError
from dpsco.geometry.domains import Intersection, Simplex
from dpsco.geometry.norms import L1, L2, LINF, GroupNorm, Lp, WeightedLp

usual = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
seeds = st.integers(0, 2**32 - 1)
sizes = st.sampled_from([1, 2, 3, 7, 20])
scales = st.sampled_from([1e-3, 0.3, 1.0, 3.0, 1e3, 1e6])


def points(example, seed, scale, count=4):
    """Points around the domain: near, far, on its surface, equal coordinates."""
    rng = np.random.default_rng(seed + 1)
    d = example.members.shape[1]
    largest = example.domain.max_norm(d)
    rows = example.members[:1] + scale * largest * rng.standard_normal((count, d)) / np.sqrt(d)
    rows[-1] = scale * largest / np.sqrt(d)
    return rows


def check_projection(example, x, y):
    domain, members = example.domain, example.members
    d = len(x)
    largest = domain.max_norm(d)
    P, Q = domain.project(x), domain.project(y)
    assert domain.contains(P, slack=1e-12)
    assert np.array_equal(domain.project(P), P)
    # Non-expansive.
    rounding = 1e-12 * (largest + np.linalg.norm(x) + np.linalg.norm(y))
    assert np.linalg.norm(P - Q) <= np.linalg.norm(x - y) + rounding
    # The angle at the projection, seen from x, is obtuse to every member: this characterises it.
    length = np.linalg.norm(x - P)
    assert np.max((members - P) @ (x - P)) <= length * (1e-11 * largest + 1e-13 * length)
    # Members stay.
    assert np.max(np.abs(domain.project(members) - members)) <= 1e-12 * largest
    inner = domain.centre(d) + 0.9 * (members[0] - domain.centre(d))
    assert np.array_equal(domain.project(inner), inner)


@pytest.mark.thorough
@usual
@given(d=sizes, seed=seeds, scale=scales)
def test_projection(build, d, seed, scale):
    example = build(d, seed)
    x, y = points(example, seed, scale)[[0, -1]]
    check_projection(example, x, y)
    check_projection(example, x, x + 1e-3 * (y - x))


@pytest.mark.thorough
@pytest.mark.parametrize("d", [100, 1000])
def test_projection_in_high_dimension(build, d):
    if d > 100 and build.kind == "ellipsoid, matrix":
        d = 200
    example = build(d, seed=d)
    for scale in (0.3, 3.0, 1e6):
        x, y = points(example, d, scale)[[0, -1]]
        check_projection(example, x, y)


def check_minimiser(example, g):
    domain, members = example.domain, example.members
    d = len(g)
    best = domain.minimise(g)
    slack = 1e-11 * np.linalg.norm(g) * domain.max_norm(d)
    assert domain.contains(best, slack=1e-12)
    assert g @ best <= np.min(members @ g) + slack
    assert domain.support(-g) == pytest.approx(-(g @ best), abs=slack)
    assert np.array_equal(domain.minimise(g), best)
    # Going further along -g from the minimiser and projecting leads nowhere better.
    beyond = domain.project(best - 10.0 * domain.max_norm(d) * g / np.linalg.norm(g))
    assert g @ beyond >= g @ best - slack
    vertices = None if isinstance(domain, Intersection) or d > 10 else domain.vertices(d)
    if vertices is not None:
        assert np.any(np.all(vertices == best, axis=1))
        assert g @ best <= np.min(vertices @ g) + slack


@pytest.mark.slow
@usual
@given(d=sizes, seed=seeds)
def test_linear_minimiser(build, d, seed):
    example = build(d, seed)
    rng = np.random.default_rng(seed)
    check_minimiser(example, rng.standard_normal(d))
    check_minimiser(example, rng.standard_normal(d) * 1e-3 + np.eye(d)[0])
    check_minimiser(example, np.ones(d))


def test_linear_minimiser_in_high_dimension(build):
    d = 200 if build.kind == "ellipsoid, matrix" else 1000
    check_minimiser(build(d, seed=3), np.random.default_rng(3).standard_normal(d))


def test_what_is_returned_is_new(build):
    """Nothing that is written to it reaches the points that were given, or the domain."""
    example = build(4, seed=8)
    domain, rng = example.domain, np.random.default_rng(8)
    for point in (example.members[0], rng.standard_normal(4), 1e3 * rng.standard_normal(4)):
        for ask in (domain.project, domain.minimise):
            given = point.copy()
            first = ask(given)
            again = first.copy()
            first *= -3.0
            assert np.array_equal(given, point)
            assert np.array_equal(ask(given), again)


def test_zero_direction_has_one_answer(build):
    example = build(4, seed=8)
    best = example.domain.minimise(np.zeros(4))
    assert example.domain.contains(best, slack=1e-12)
    assert np.array_equal(best, example.domain.minimise(-np.zeros(4)))
    assert float(example.domain.minkowski(best)) == pytest.approx(1.0, abs=1e-9)
    assert float(example.domain.support(np.zeros(4))) == 0.0


@pytest.mark.thorough
@usual
@given(d=sizes, seed=seeds, factor=st.floats(1e-3, 1e3))
def test_gauge(build, d, seed, factor):
    example = build(d, seed, count=5)
    domain, members = example.domain, example.members
    centre = domain.centre(d)
    assert float(domain.minkowski(centre)) <= 1e-9
    gauges = domain.minkowski(members)
    assert np.all(gauges <= 1.0 + 1e-9)
    # Homogeneous about the centre.
    gauge = float(gauges[0])
    moved = float(domain.minkowski(centre + factor * (members[0] - centre)))
    assert moved == pytest.approx(factor * gauge, rel=1e-6, abs=1e-8 * (1 + factor))
    # Scaled to gauge one it is on the surface, and just beyond it is outside.
    if gauge > 1e-3:
        surface = centre + (members[0] - centre) / gauge
        assert domain.contains(surface, slack=1e-8)
        assert not domain.contains(centre + (members[0] - centre) * (1.001 / gauge), slack=1e-8)


@pytest.mark.thorough
@usual
@given(seed=seeds, scale=scales)
def test_gauge_is_at_most_one_exactly_for_members(build, seed, scale):
    example = build(3, seed)
    domain = example.domain
    for x in points(example, seed, scale):
        if not domain.interior:
            onto = Simplex(2.5).centre(3)
            x = x - np.mean(x) + onto
        gauge = float(domain.minkowski(x))
        if abs(gauge - 1.0) > 1e-6:
            assert (gauge < 1.0) == domain.contains(x, slack=1e-12)


def norms(d, rng):
    groups = (tuple(range(0, d, 2)), tuple(range(1, d, 2)))[: 2 if d > 1 else 1]
    weights = tuple(np.exp(rng.standard_normal(d)))
    ones = tuple(np.exp(rng.standard_normal(len(groups))))
    yield from (
        L1,
        L2,
        LINF,
        Lp(1.3),
        Lp(5.0),
        WeightedLp(1.7, weights),
        WeightedLp(np.inf, weights),
    )
    yield GroupNorm(groups, 2.0, 1.0, ones)
    yield GroupNorm(groups, 1.0, np.inf, ones)


def climb(domain, norm, about, starts, rounds=6):
    """Search for the member farthest from ``about``: each round can only gain."""
    w = starts
    for _ in range(rounds):
        w = domain.minimise(-norm.dual.steepest(w - about))
    return float(np.max(norm(w - about)))


@pytest.mark.thorough
@usual
@given(d=st.sampled_from([1, 2, 3, 8]), seed=seeds)
def test_no_member_is_beyond_the_sizes(build, d, seed):
    meets = "and" in build.kind
    example = build(d, seed)
    domain, members = example.domain, example.members
    few, rounds = (members[:2], 2) if meets else (members[:4], 6)
    more = 1.0 + 1e-12
    rng = np.random.default_rng(seed)
    for norm in rng.permutation(np.array(list(norms(d, rng)), dtype=object))[: 1 if meets else 3]:
        radius, largest, diameter = (
            size(d, norm) for size in (domain.radius, domain.max_norm, domain.diameter)
        )
        assert climb(domain, norm, domain.centre(d), few, rounds) <= radius * more
        assert climb(domain, norm, np.zeros(d), few, rounds) <= largest * more
        assert climb(domain, norm, few[0], few, rounds) <= diameter * more
        assert float(np.max(norm(members - members[:, None]))) <= diameter * more
        assert radius <= diameter * more
        assert meets or diameter <= 2.0 * min(radius, largest) * more


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 4])
def test_sizes_are_attained_where_they_are_exact(build, d):
    if "and" in build.kind:
        pytest.skip("intersections give upper bounds")
    domain = build(d, seed=d).domain
    centre, rng = domain.centre(d), np.random.default_rng(0)
    units = np.concatenate([np.eye(d), -np.eye(d), np.ones((1, d)), rng.standard_normal((15, d))])
    starts = domain.minimise(units)
    exact_reach = not (build.kind.startswith("ellipsoid") or "moved" in build.kind)
    cornered = build.kind in ("simplex", "polytope")
    rounds = 2 if cornered else 60  # from corner to corner, or along a curve
    for norm in norms(d, rng):
        if build.kind == "ellipsoid, matrix" and norm not in (L2, LINF):
            continue
        radius = climb(domain, norm, centre, starts, rounds)
        assert radius == pytest.approx(domain.radius(d, norm), rel=1e-8)
        across = max(climb(domain, norm, w, starts, rounds) for w in starts) if cornered else 0.0
        diameter = across if cornered else 2.0 * radius  # the others are symmetric
        assert diameter == pytest.approx(domain.diameter(d, norm), rel=1e-8)
        if exact_reach:
            largest = climb(domain, norm, np.zeros(d), starts, rounds)
            assert largest == pytest.approx(domain.max_norm(d, norm), rel=1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize("d", [1, 3, 10])
def test_width_agrees_with_simulation(build, d):
    if "and" in build.kind and d > 3:
        pytest.skip("slow, and the same code as in three dimensions")
    example = build(d, seed=2 * d)
    width = example.domain.gaussian_width(d, samples=400, seed=5)
    draws = np.random.default_rng(1).standard_normal((400, d))
    supports = example.domain.support(draws) - draws @ example.domain.centre(d)
    spread = np.hypot(np.std(supports) / 20.0, width.error)
    assert abs(np.mean(supports) - width.value) <= 5.5 * spread + 1e-12
    exact = not (build.kind.startswith(("ellipsoid", "polytope")) or "and" in build.kind)
    assert (width.error <= 1e-12) == (exact or d == 1)


@pytest.mark.thorough
def test_batches_are_rows(build):
    example = build(5, seed=4)
    domain = example.domain
    rows = points(example, 4, 2.0, count=6).reshape(2, 3, 5)
    for method in (domain.project, domain.minimise):
        found = method(rows)
        assert found.shape == rows.shape
        each = [[method(row) for row in block] for block in rows]
        assert np.allclose(found, each, rtol=1e-13, atol=1e-13 * domain.max_norm(5))
    for method in (domain.minkowski, domain.support):
        each = [[float(method(row)) for row in block] for block in rows]
        assert np.allclose(method(rows), each, rtol=1e-12, atol=1e-12 * domain.max_norm(5))
    assert domain.project(rows[:0]).shape == (0, 3, 5)


def test_integers_and_single_precision_are_taken_and_left_alone(build):
    domain = build(3, seed=1).domain
    for x in (np.array([3, -4, 5]), np.array([3, -4, 5], dtype=np.float32)):
        kept = x.copy()
        found = domain.project(x)
        assert found.dtype == np.float64
        assert np.array_equal(found, domain.project([3.0, -4.0, 5.0]))
        found[:] = 0.0
        assert np.array_equal(x, kept)
    domain.centre(3)[:] = 7.0
    assert not np.array_equal(domain.centre(3), np.full(3, 7.0))


LARGE = np.finfo(float).max
WILD = [
    [LARGE, -LARGE, LARGE],
    [LARGE, LARGE, 0.0],
    [1e200, -1e200, 1e-200],
    [5e-324, 0.0, -5e-324],
    [0.0, 0.0, 0.0],
    [np.inf, -np.inf, 1.0],
    [np.nan, 1.0, np.inf],
    [np.nan, np.nan, np.nan],
]


@pytest.mark.thorough
@pytest.mark.parametrize("x", WILD, ids=str)
def test_every_value_has_a_projection_and_a_minimiser(build, x):
    domain = build(3, seed=6).domain
    x = np.array(x)
    for found in (domain.project(x), domain.minimise(x)):
        assert domain.contains(found, slack=1e-12)
    assert np.array_equal(domain.project(domain.project(x)), domain.project(x))
    assert not np.isnan(domain.minkowski(x))
    assert not np.isnan(domain.support(x))
    assert domain.contains(x) == (np.all(np.isfinite(x)) and domain.contains(x + 0.0, slack=1e-9))


def test_infinity_is_far_and_no_number_is_the_centre(build):
    domain = build(3, seed=6).domain
    centre = domain.centre(3)
    assert np.array_equal(domain.project(np.full(3, np.nan)), domain.project(centre))
    tame = domain.project([centre[0], -LARGE, 0.5])
    assert np.array_equal(domain.project([np.nan, -np.inf, 0.5]), tame)
    assert np.array_equal(domain.minimise([np.nan, 1.0, 0.5]), domain.minimise([0.0, 1.0, 0.5]))
    assert not domain.contains([np.nan, 0.0, 0.0])


def test_a_domain_is_a_frozen_value(build):
    domain, same, other = (build(3, seed=s).domain for s in (6, 6, 7))
    assert domain == same
    assert hash(domain) == hash(same)
    assert (domain == other) == (build.kind in ("L1Ball", "L2Ball", "LInfBall", "simplex"))
    assert domain != "a ball"
    copy = pickle.loads(pickle.dumps(domain))
    assert copy == domain
    x = [3.0, -1.0, 2.0]
    assert np.array_equal(copy.project(x), domain.project(x))
    assert type(domain)(**domain.arguments) == domain
    assert repr(domain).startswith(type(domain).__name__ + "(")
    with pytest.raises(AttributeError, match="frozen"):
        domain.radius = 3.0
    with pytest.raises(AttributeError, match="frozen"):
        del domain._dimension
    assert domain.bounded


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda domain: domain.project(3.0), "point must be a vector"),
        (lambda domain: domain.project(np.zeros((2, 0))), "point must be a vector"),
        (lambda domain: domain.project(["a", "b", "c"]), "point must be an array of numbers"),
        (lambda domain: domain.project([True, False, True]), "point must be an array of numbers"),
        (lambda domain: domain.project([1j, 0.0, 0.0]), "point must be an array of numbers"),
        (lambda domain: domain.project([[1.0], [1.0, 2.0]]), "point must be an array of numbers"),
        (lambda domain: domain.minimise("west"), "direction must be an array of numbers"),
        (lambda domain: domain.support(1.0), "direction must be a vector"),
        (lambda domain: domain.minkowski(None), "point must be an array of numbers"),
        (lambda domain: domain.contains(2.0), "point must be a vector"),
        (lambda domain: domain.contains([0.0, 0.0, 0.0], slack=-1.0), "slack must be zero or"),
        (lambda domain: domain.centre(0), "d must be at least 1"),
        (lambda domain: domain.centre(2.5), "d must be an integer"),
        (lambda domain: domain.vertices(0), "d must be at least 1"),
        (lambda domain: domain.radius(-1), "d must be at least 1"),
        (lambda domain: domain.max_norm("3"), "d must be an integer"),
        (lambda domain: domain.diameter(True), "d must be an integer"),
        (lambda domain: domain.gaussian_width(0), "d must be at least 1"),
        (lambda domain: domain.radius(3, 2), "norm must be a norm"),
        (lambda domain: domain.max_norm(3, "l2"), "norm must be a norm"),
        (lambda domain: domain.diameter(3, None), "norm must be a norm"),
    ],
)
def test_bad_arguments_are_named(build, call, named):
    with pytest.raises(ParameterError, match=named):
        call(build(3, seed=1).domain)


def test_another_dimension_is_refused(build):
    domain = build(3, seed=1).domain
    if domain.dimension is None:
        assert domain.centre(7).shape == (7,)
        return
    assert domain.dimension == 3
    with pytest.raises(ParameterError, match="d=4"):
        domain.centre(4)
    with pytest.raises(ParameterError, match="point must have 3 coordinates"):
        domain.project(np.zeros(4))
    with pytest.raises(ParameterError, match="direction must have 3 coordinates"):
        domain.minimise(np.zeros(2))


def test_every_class_has_an_example(builders):
    classes = {name for name in domains.__all__ if name[0].isupper() and not name.isupper()}
    rng = np.random.default_rng(0)
    shown = {type(builder(2, rng, 2).domain).__name__ for builder in builders.values()}
    assert classes - shown == {"Domain", "WholeSpace"}
