"""Queries: equal to clipping row by row, bounded in exact arithmetic, defined for every input."""

import math
import pickle
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
import scipy.spatial

from dpsco.data import (
    Bounds,
    Classes,
    ClippedCoordinates,
    ClippedDifference,
    ClippedGradient,
    VertexScores,
    VertexSet,
    from_arrays,
    queries,
)
from dpsco.data import source as source_module
from dpsco.data.contributions import contribution_pieces
from dpsco.data.queries import coordinate_bound, sealed
from dpsco.errors import AssumptionError, ParameterError
from dpsco.geometry.domains import Box, L1Ball, L2Ball, LInfBall, Polytope, Simplex, WholeSpace
from dpsco.geometry.norms import L1, L2, LINF, GroupNorm, Lp, WeightedLp
from dpsco.kernels.pairwise import rounding_slack
from dpsco.losses import Absolute, Hinge, Logistic, OneVersusRest, Pinball, Poisson, Squared
from dpsco.losses.per_row import PerRowLoss
from dpsco.losses.smoothing import Smoothed
from dpsco.losses.vector import Softmax, SquaredDistance, VectorLoss

NORMS = [L2, L1, LINF, Lp(1.5), Lp(3.0)]


@dataclass(frozen=True)
class Ripple(VectorLoss):
    """A loss with nothing but a gradient per row, as a user's own."""

    convex = False

    @property
    def structure(self):
        raise NotImplementedError

    def dimension(self, d):
        return d + 1

    def value(self, weights, X, y=None):
        raise NotImplementedError

    def gradients(self, weights, X, y=None):
        dense = X if isinstance(X, np.ndarray) else X.matrix().toarray()
        found = np.column_stack(
            [dense * weights[:-1] + y[:, None], np.full(len(dense), weights[-1])]
        )
        found[np.abs(dense[:, 0]) > 0.9] = np.nan
        found[np.abs(dense[:, 0]) < 0.05] = 1e200
        return found

    def constants(self, **facts):
        raise NotImplementedError


def source(n=300, d=4, *, label=2.0, sparse=False, dtype=float, seed=0, intercept=0.5, norm=L2):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2, size=(n, 1))).astype(dtype)
    X[7, 1], X[9] = np.nan, 0.0
    if label == "classes":
        y, rule = rng.integers(0, 4, size=n), Classes(0, 1, 2)
    else:
        y, rule = rng.normal(size=n) * 3.0, label
    if rule == "sign":
        y = np.sign(y)
    raw = scipy.sparse.csr_array(X) if sparse else X
    return from_arrays(raw, y).bounded(Bounds(1.0, label=rule, intercept=intercept, norm=norm))


def dense(block):
    rows = block.rows if isinstance(block.rows, np.ndarray) else block.rows.matrix().toarray()
    return rows.astype(float)


def gradients(loss, weights, block):
    """Every row's gradient, by the definition; null rows and infinite ones are zero."""
    X = dense(block)
    if isinstance(loss, VectorLoss):
        found = loss.gradients(weights, block.rows, block.labels)
    else:
        found = loss.slope(X @ weights, block.labels)[:, None] * X
    keep = block.present & np.isfinite(found).all(axis=1)
    return np.where(keep[:, None], found, 0.0)


def clipped(rows, norm, clip):
    size = np.maximum(norm(rows), 1e-300)[:, None]
    return np.where(size > clip, rows / size * clip, rows)


def exact_norm_at_most(vector, norm, bound):
    values = [abs(Fraction(float(v))) for v in vector]
    limit = Fraction(float(bound))
    if norm == LINF:
        return max(values) <= limit
    return sum(v ** int(norm.p) for v in values) <= limit ** int(norm.p)


LOSSES = [(Logistic(), "sign"), (Hinge(), "sign"), (Squared(), 2.0), (Pinball(0.3), 2.0)]
VECTOR_LOSSES = [
    (SquaredDistance(), 2.0),
    (Softmax(3), "classes"),
    (Ripple(), 2.0),
    (OneVersusRest(Logistic(), 3), "classes"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("loss", "label"), LOSSES + VECTOR_LOSSES)
def test_gradients_and_differences_are_those_of_the_definition(loss, label, norm, sparse):
    rows = source(label=label, sparse=sparse)
    block = rows.rows()
    size = loss.dimension(rows.d) if isinstance(loss, VectorLoss) else rows.d
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(2, size))
    one, two = gradients(loss, first, block), gradients(loss, second, block)
    for clip in (0.05, 0.6, 1e6):
        query = ClippedGradient(loss, first, clip, norm)
        assert (query.bound, query.size, query.norm) == (clip, size, norm)
        wanted = clipped(one, norm, clip).sum(axis=0)
        np.testing.assert_allclose(rows.sum(query), wanted, rtol=1e-11, atol=1e-11 * clip * rows.n)
        query = ClippedDifference(loss, first, second, 0.7, 1.9, clip, norm)
        wanted = clipped(0.7 * one - 1.9 * two, norm, clip).sum(axis=0)
        np.testing.assert_allclose(rows.sum(query), wanted, rtol=1e-11, atol=1e-11 * clip * rows.n)
        assert query.bound == clip


@pytest.mark.parametrize(
    "norm", [WeightedLp(2.0, (1.0, 3.0, 0.1, 2.0, 5.0)), GroupNorm(((0, 1), (2, 3, 4)))]
)
@pytest.mark.parametrize("loss", [Logistic(), SquaredDistance()])
def test_weighted_and_group_norms(loss, norm):
    rows = source(label="sign")
    weights = np.random.default_rng(2).normal(size=5)
    wanted = clipped(gradients(loss, weights, rows.rows()), norm, 0.3).sum(axis=0)
    query = ClippedGradient(loss, weights, 0.3, norm)
    np.testing.assert_allclose(rows.sum(query), wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("sparse", [False, True])
def test_smoothed_losses_and_those_of_a_user(sparse):
    rows = source(label="sign", sparse=sparse)
    weights = np.random.default_rng(2).normal(size=5)
    squares = PerRowLoss(lambda w, X, y: (X @ w - y)[:, None] * X, name="squares")
    for loss, same in ((Smoothed(Hinge(), 2.0), Smoothed(Hinge(), 2.0)), (squares, Squared())):
        wanted = clipped(gradients(same, weights, rows.rows()), L2, 0.3).sum(axis=0)
        found = rows.sum(ClippedGradient(loss, weights, 0.3))
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


def test_softmax_in_a_weighted_norm_is_clipped_row_by_row():
    rows = source(label="classes")
    weights = np.random.default_rng(2).normal(size=15)
    norm = WeightedLp(2.0, tuple(np.linspace(0.5, 4.0, 15)))
    wanted = clipped(gradients(Softmax(3), weights, rows.rows()), norm, 0.3).sum(axis=0)
    np.testing.assert_allclose(rows.sum(ClippedGradient(Softmax(3), weights, 0.3, norm)), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("norm", [L2, L1, LINF])
@pytest.mark.parametrize(("loss", "label"), [(Squared(), 2.0), *VECTOR_LOSSES])
def test_one_row_never_contributes_more_than_the_bound(loss, label, norm, dtype, sparse):
    rows = source(n=120, label=label, dtype=dtype, sparse=sparse)
    size = loss.dimension(rows.d) if isinstance(loss, VectorLoss) else rows.d
    rng = np.random.default_rng(3)
    for scale in (1.0, 1e8):
        first, second = rng.normal(size=(2, size)) * scale
        queries = [
            ClippedGradient(loss, first, 0.3, norm),
            ClippedDifference(loss, first, second, 1.1, 0.4, 0.3, norm),
        ]
        for query in queries:
            for k in range(rows.n):
                contribution = rows.sum(query, k, k + 1)
                # Coefficients are exact; their products with the row are rounded once, which
                # `rounding_slack` allows for.
                assert exact_norm_at_most(contribution, norm, query.bound * (1.0 + 2.0**-52))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("loss", "label"), [*LOSSES[:2], *VECTOR_LOSSES])
def test_coordinates_are_those_of_the_definition(loss, label, sparse):
    rows = source(label=label, sparse=sparse)
    size = loss.dimension(rows.d) if isinstance(loss, VectorLoss) else rows.d
    weights = np.random.default_rng(2).normal(size=size)
    plain = gradients(loss, weights, rows.rows())
    plain[~np.isfinite(plain).all(axis=1)] = 0.0
    query = ClippedCoordinates(loss, weights, 0.2)
    wanted = np.clip(plain, -0.2, 0.2)
    np.testing.assert_allclose(rows.sum(query), wanted.sum(axis=0), rtol=1e-11, atol=1e-11)
    pieces = np.concatenate(list(contribution_pieces(query, rows)))
    np.testing.assert_allclose(pieces, wanted, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("clip", [0.1, 1 / 3, 7e-60])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1_000_003])
def test_the_bound_of_coordinates_holds_in_fractions_and_is_hardly_more(clip, size):
    bound = Fraction(coordinate_bound(clip, size))
    exact = size * Fraction(clip) ** 2
    assert exact <= bound**2 <= exact * (1 + Fraction(1, 2**49))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("loss", "label"), [(Squared(), 2.0), *VECTOR_LOSSES])
def test_no_coordinate_exceeds_its_clip_whatever_the_row(loss, label, sparse):
    rows = source(n=60, label=label, sparse=sparse)
    size = loss.dimension(rows.d) if isinstance(loss, VectorLoss) else rows.d
    for scale in (1.0, 1e8, 1e200):
        weights = np.random.default_rng(3).normal(size=size) * scale
        query = ClippedCoordinates(loss, weights, 0.3)
        for k in range(rows.n):
            contribution = rows.sum(query, k, k + 1)
            assert np.all(np.abs(contribution) <= 0.3)
            assert exact_norm_at_most(contribution, L2, query.bound)


def test_the_bound_of_coordinates_is_attained_from_both_sides():
    """Replacing a row moves the sum by twice the bound: zero-out would charge half of it."""
    ends = []
    for label in (-5.0, 5.0):
        block = Bounds(2.0, label=5.0).apply(np.ones((1, 4)), np.array([label]))
        ends.append(ClippedCoordinates(Squared(), np.zeros(4), 0.5).sum(block))
    bound = coordinate_bound(0.5, 4)
    assert np.linalg.norm(ends[0] - ends[1]) == pytest.approx(2 * bound, rel=1e-12)
    assert bound == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("loss", [SquaredDistance(), Ripple()])
def test_rows_that_are_clipped_one_by_one_obey_the_bound_without_rounding(loss):
    rows = source(n=200)
    weights = np.random.default_rng(3).normal(size=loss.dimension(rows.d))
    for norm in (L1, L2, LINF):
        query = ClippedGradient(loss, weights, 0.3, norm)
        for k in range(rows.n):
            assert exact_norm_at_most(rows.sum(query, k, k + 1), norm, 0.3)


@pytest.mark.parametrize(("loss", "label"), LOSSES + VECTOR_LOSSES)
def test_neighbours_are_two_bounds_apart_at_most(loss, label):
    rng = np.random.default_rng(5)
    n, d, clip = 40, 3, 0.2
    X, y = rng.normal(size=(n, d)), np.where(rng.random(n) < 0.5, -1.0, 1.0)
    rule = Classes(-1, 0, 1) if label == "classes" else label
    bounds = Bounds(1.0, label=rule, intercept=1.0)
    size = loss.dimension(d + 1) if isinstance(loss, VectorLoss) else d + 1
    first, second = rng.normal(size=(2, size)) * 3.0
    worst = 0.0
    odd = [np.full(d, 1e300), np.full(d, np.nan), np.zeros(d), -50 * X[0], np.full(d, np.inf)]
    for row in [*odd, *rng.normal(size=(30, d)) * 100]:
        other, labels = X.copy(), y.copy()
        other[17], labels[17] = row, -y[17]
        for query in (
            ClippedGradient(loss, first, clip),
            ClippedDifference(loss, first, second, 1.0, 0.5, clip),
        ):
            one = from_arrays(X, y).bounded(bounds, order="given").sum(query)
            two = from_arrays(other, labels).bounded(bounds, order="given").sum(query)
            move = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(one, two, strict=True)]
            distance = sum(m * m for m in move)
            allowed = Fraction(2.0 * query.bound) * (1 + Fraction(rounding_slack(n)))
            assert distance <= allowed**2
            worst = max(worst, math.sqrt(distance) / (2.0 * query.bound))
    assert worst > 0.45  # and some pair comes near: the bound is not an empty one


def test_null_rows_contribute_nothing():
    X = np.array([[np.nan, 1.0], [0.5, 0.5]])
    for loss in (Squared(), SquaredDistance(), Ripple()):
        size = 3 if isinstance(loss, Ripple) else 2
        query = ClippedGradient(loss, np.full(size, 3.0), 1.0)
        rows = from_arrays(X, np.ones(2)).bounded(Bounds(1.0, label=2.0), order="given")
        assert rows.sum(query, 0, 1).tolist() == [0.0] * size
        assert np.any(rows.sum(query, 1, 2))


def test_overflowing_gradients_count_as_zero():
    rows = from_arrays(np.array([[1.0], [1e-8]]), np.zeros(2)).bounded(
        Bounds(1.0, label=1.0), order="given"
    )
    found = rows.sum(ClippedGradient(Squared(), np.array([1e308]), 0.5))
    assert np.isfinite(found).all()
    huge = ClippedDifference(Squared(), [1e300], [1e300], 1e300, 1.0, 0.5)
    assert rows.sum(huge).tolist() == [0.0]
    softmax = from_arrays(np.ones((2, 1)), [0, 1]).bounded(Bounds(1.0, label=Classes(0, 1, 2)))
    assert np.isfinite(softmax.sum(ClippedGradient(Softmax(3), [1e308, -1e308, 1e308], 0.1))).all()


@pytest.mark.parametrize("odd", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("norm", [L2, L1, LINF])
def test_a_row_whose_coefficients_are_not_finite_counts_as_zero_or_is_clipped(odd, norm):
    class Leaky(Softmax):
        def coefficients(self, weights, X, y=None):
            found = super().coefficients(weights, X, y)
            found[0, 1] = odd
            return found

    rows = source(n=30, label="classes")
    query = ClippedGradient(Leaky(3), np.zeros(15), 0.3, norm)
    others = ClippedGradient(Softmax(3), np.zeros(15), 0.3, norm)
    left = rows.sum(query) - rows.sum(others, 1)
    assert float(norm(left)) <= 0.3 * (1 + 1e-9)
    if not np.isfinite(odd):
        np.testing.assert_allclose(left, 0.0, atol=1e-12)


def test_the_order_of_the_rows_changes_rounding_only():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(9000, 5)), rng.normal(size=9000)
    query = ClippedGradient(Absolute(), rng.normal(size=5), 0.5)
    sums = [from_arrays(X, y).bounded(Bounds(2.0, label=1.0)).sum(query) for _ in range(2)]
    np.testing.assert_allclose(*sums, atol=1e-9)


def test_queries_are_frozen_and_survive_a_pickle():
    weights = np.ones(5)
    gradient = ClippedGradient(Logistic(), weights, 0.5, LINF)
    weights[:] = 9.0
    assert gradient.weights.tolist() == [1.0] * 5
    with pytest.raises(ValueError, match="read-only"):
        gradient.weights[0] = 2.0
    with pytest.raises(AttributeError):
        gradient.clip = 2.0
    rows = source(label="sign")
    difference = ClippedDifference(Logistic(), np.ones(5), np.zeros(5), 1.0, 0.5, 0.5, LINF)
    for query in (gradient, difference, VertexScores(gradient, L1Ball(1.0))):
        copy = pickle.loads(pickle.dumps(query))
        assert np.array_equal(rows.sum(copy), rows.sum(query))
        assert copy.bound == query.bound


# -- vertices --------------------------------------------------------------------------------------

SHAPES = {
    "l1": L1Ball(2.0),
    "l1 off centre": L1Ball(2.0, centre=[5.0, -3.0, 1.0]),
    "simplex": Simplex(3.0),
    "box": Box(-1.0, 2.0),
    "cube": LInfBall(0.5),
    "polytope": Polytope([[0.0, 0.0, 9.0], [1.0, 0.0, 9.0], [0.0, 2.0, 8.0], [1.0, 1.0, 1.0]]),
}


@pytest.mark.thorough
@pytest.mark.parametrize("norm", [LINF, L2, L1])
@pytest.mark.parametrize("name", SHAPES)
def test_scores_of_vertices(name, norm):
    domain = SHAPES[name]
    rows = source(n=200, d=3, label=2.0, intercept=None, norm=LINF)
    vertices = domain.vertices(3)
    for gradient in (
        ClippedGradient(Squared(), np.array([1.0, -2.0, 0.3]), 0.25, norm),
        ClippedDifference(Squared(), np.ones(3), np.zeros(3), 1.0, 0.5, 0.25, norm),
    ):
        query = VertexScores(gradient, domain)
        scores, plain = rows.sum(query), vertices @ rows.sum(gradient)
        assert query.size == len(scores) == len(vertices)
        shift = scores - plain
        np.testing.assert_allclose(shift, shift[0], atol=1e-10)
        best = query.candidates.vertex(int(np.argmin(scores)))
        total = rows.sum(gradient)
        assert best @ total == pytest.approx(float(domain.minimise(total) @ total))
        for k, vertex in enumerate(vertices):
            assert np.array_equal(query.candidates.vertex(k), vertex)
        limit = Fraction(query.bound) * (1 + Fraction(rounding_slack(1)))
        for k in range(rows.n):
            one = [Fraction(float(s)) for s in rows.sum(query, k, k + 1)]
            assert max(one) - min(one) <= limit
            assert max(map(abs, one)) <= limit
    assert query.bound == pytest.approx(0.25 * domain.diameter(3, norm.dual), rel=1e-9)


def test_the_spread_is_attained():
    rows = from_arrays(np.array([[1.0, -1.0]]), np.array([-1.0])).bounded(
        Bounds(1.0, label=1.0, norm=LINF)
    )
    query = VertexScores(ClippedGradient(Squared(), np.zeros(2), 0.5, LINF), L1Ball(2.0))
    scores = rows.sum(query)
    assert query.bound == pytest.approx(2.0)  # diameter 4, clip 1/2
    assert np.ptp(scores) == pytest.approx(2.0)
    assert scores.tolist() == pytest.approx([1.0, -1.0, -1.0, 1.0])


def test_a_matrix_of_vertices_and_a_domain_are_one():
    rows = source(d=3, intercept=None)
    gradient = ClippedGradient(Squared(), np.ones(3), 0.25, LINF)
    matrix = VertexScores(gradient, L1Ball(2.0).vertices(3))
    ball = VertexScores(gradient, L1Ball(2.0))
    np.testing.assert_allclose(rows.sum(matrix), rows.sum(ball), atol=1e-11)
    assert matrix.bound == pytest.approx(ball.bound, rel=1e-9)
    given = VertexScores(gradient, VertexSet(L1Ball(2.0), 3))
    assert np.array_equal(rows.sum(given), rows.sum(ball))
    assert rows.sum(ball, 5, 5).tolist() == [0.0] * 6


def test_implicit_vertices_need_no_matrix_and_many_are_bounded_by_their_radius():
    wide = VertexSet(L1Ball(1.0), 10**6)
    assert wide.count == 2 * 10**6
    assert wide.scores(np.ones(10**6))[[0, -1]].tolist() == [1.0, -1.0]
    assert VertexSet(L1Ball(3.0), 1).count == 2
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(6000, 2))
    upper = VertexSet(cloud).diameter(L2)
    exact = scipy.spatial.distance.pdist(cloud).max()
    assert exact <= upper <= 2.0 * exact


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"weights": [1.0, math.nan]},
        {"weights": [1.0, math.inf]},
        {"weights": [[1.0, 2.0]]},
        {"weights": []},
        {"weights": "ab"},
        {"weights": ["a", "b"]},
        {"clip": 0.0},
        {"clip": math.inf},
        {"clip": -1.0},
        {"clip": math.nan},
        {"clip": 1e101},
        {"norm": 2},
        {"norm": WeightedLp(2.0, (1.0, 2.0, 3.0))},
        {"loss": "hinge"},
    ],
)
def test_gradients_refuse(change):
    arguments = {"loss": Logistic(), "weights": [1.0, 2.0], "clip": 1.0, "norm": L2, **change}
    with pytest.raises(ParameterError):
        ClippedGradient(**arguments)


@pytest.mark.parametrize(
    ("first", "second", "factors"),
    [
        ([1.0], [1.0, 2.0], (1.0, 1.0)),
        ([math.nan], [1.0], (1.0, 1.0)),
        ([1.0], [math.inf], (1.0, 1.0)),
        ([1.0], [1.0], (math.inf, 1.0)),
        ([1.0], [1.0], (1.0, math.nan)),
        ([1.0], [1.0], (1.0, "2")),
    ],
)
def test_differences_refuse(first, second, factors):
    with pytest.raises(ParameterError):
        ClippedDifference(Logistic(), first, second, *factors, 1.0)


def test_weights_of_another_length_are_refused_by_the_source():
    rows = source(label="sign")
    with pytest.raises(ParameterError, match="needs 5 weights"):
        rows.sum(ClippedGradient(Logistic(), np.ones(4), 1.0))
    with pytest.raises(ParameterError, match="needs 10 weights"):
        rows.sum(ClippedGradient(Softmax(2), np.ones(5), 1.0))
    with pytest.raises(ParameterError, match="needs 5 weights"):
        rows.sum(VertexScores(ClippedGradient(Logistic(), np.ones(4), 1.0), L1Ball(1.0)))


@pytest.mark.parametrize(
    ("vertices", "error"),
    [
        (L2Ball(1.0), AssumptionError),
        (WholeSpace(), AssumptionError),
        (LInfBall(1.0, centre=np.zeros(3)), ParameterError),
        (np.zeros(2), ParameterError),
        (np.zeros((3, 3)), ParameterError),
        (np.zeros((1, 2)), ParameterError),
        (np.zeros((0, 2)), ParameterError),
        (np.array([[1.0, np.nan], [0.0, 0.0]]), ParameterError),
        (np.array([["a", "b"]]), ParameterError),
        (np.zeros((2**20, 2)), ParameterError),
    ],
)
def test_vertices_refuse(vertices, error):
    gradient = ClippedGradient(Logistic(), np.ones(2), 1.0, LINF)
    with pytest.raises(error):
        VertexScores(gradient, vertices)
    with pytest.raises(ParameterError, match="ClippedGradient"):
        VertexScores(np.ones(2), L1Ball(1.0))


def test_a_box_with_too_many_corners_and_a_single_vertex_are_refused():
    gradient = ClippedGradient(Logistic(), np.ones(40), 1.0, LINF)
    with pytest.raises(ParameterError, match="too many"):
        VertexScores(gradient, Box(0.0, 1.0))
    with pytest.raises(ParameterError, match="two or more"):
        VertexScores(ClippedGradient(Logistic(), np.ones(1), 1.0, LINF), Simplex())


FITTING = {
    "sign": (Logistic(), Squared(), Softmax(2), SquaredDistance()),
    3.0: (Squared(), SquaredDistance()),
    (0.0, 3.0): (Squared(), Poisson(2.0), SquaredDistance()),
    (-1.0, 3.0): (Squared(), SquaredDistance()),
    Classes("a", "b"): (Logistic(), Squared(), Softmax(2), SquaredDistance()),
    Classes("a", "b", "c"): (Softmax(3), SquaredDistance()),
    None: (SquaredDistance(),),
}


@pytest.mark.parametrize("rule", FITTING, ids=str)
def test_a_loss_is_asked_only_about_labels_that_its_constants_speak_of(rule):
    """Logistic on labels up to 50 would have gradients 50 times its Lipschitz constant."""
    y = None if rule is None else np.array(["a", "b"] if isinstance(rule, Classes) else [1.0, -1.0])
    rows = from_arrays(np.eye(2), y).bounded(Bounds(1.0, label=rule))
    for loss in (Logistic(), Squared(), Poisson(2.0), Softmax(2), Softmax(3), SquaredDistance()):
        size = loss.dimension(2) if hasattr(loss, "dimension") else 2
        query = ClippedGradient(loss, np.zeros(size), 1.0)
        if loss in FITTING[rule]:
            assert np.all(np.isfinite(rows.sum(query)))
        else:
            with pytest.raises(ParameterError, match=f"{loss.name} needs bounds with label"):
                rows.sum(query)


def test_nothing_that_a_source_hands_out_can_be_written_to():
    for X in (np.eye(3), scipy.sparse.csr_array(np.eye(3))):
        rows = from_arrays(X, np.ones(3)).bounded(Bounds(1.0, label="sign"))
        for block in (rows.rows(), next(rows.blocks()), rows.take([1, 2]), rows.rows(0, 2)):
            held = block.rows
            parts = [held] if isinstance(held, np.ndarray) else [held.values, held.columns]
            for array in (*parts, block.labels, block.norms, block.present, block.norms_in(L1)):
                with pytest.raises(ValueError, match="read-only"):
                    array[0] = 7


def test_a_subnormal_clip_factor_is_zero():
    """clip / size with one bit of precision left would exceed the bound by up to a factor 2."""
    rows = from_arrays(np.full((1, 2), 0.7), np.array(["a"])).bounded(
        Bounds(1.0, label=Classes("a", "b", "c"), norm=LINF)
    )
    for power in np.linspace(290, 308, 200):
        query = ClippedDifference(
            Softmax(3), np.zeros(6), np.ones(6), 10.0**power, 0.0, 1e-20, norm=LINF
        )
        found = [abs(Fraction(value)) for value in rows.sum(query)]
        assert max(found) <= Fraction(query.bound) * (1 + Fraction(1, 2**52))


def test_bounds_and_weights_that_overflow_are_refused():
    query = ClippedGradient(Logistic(), np.zeros(2), 1e100, LINF)
    with pytest.raises(ParameterError, match="overflows"):
        VertexScores(query, L1Ball(1e300))
    with pytest.raises(ParameterError, match="a weight of the norm"):
        ClippedGradient(Logistic(), np.zeros(2), 1.0, WeightedLp(2.0, (1e-210, 1.0)))


def test_sparse_softmax_forms_one_product_a_leaf(monkeypatch):
    """With one row a piece, 4096 rows of 2e5 columns would form 4096 sums of 6e5 numbers."""
    calls = []
    original = queries.outer_sum
    monkeypatch.setattr(queries, "outer_sum", lambda *a: calls.append(1) or original(*a))
    place = np.arange(50)
    X = scipy.sparse.csr_array((np.ones(50), (place, 3999 * place)), shape=(50, 200_000))
    rows = from_arrays(X, np.zeros(50)).bounded(Bounds(1.0, label=Classes(0, 1, 2)))
    rows.sum(ClippedGradient(Softmax(3), np.zeros(600_000), 1.0))
    assert len(calls) == 1


def test_a_query_says_what_it_enforces_and_trusts():
    query = ClippedGradient(Logistic(), np.zeros(2), 0.5, LINF)
    assert query.enforced == ("a row's gradient has linf norm at most 0.5, by clipping",)
    assert query.trusted == ()
    assert VertexScores(query, L1Ball(1.0)).enforced == query.enforced
    own = PerRowLoss(lambda w, X, y: X, name="mine")
    difference = ClippedDifference(own, np.zeros(2), np.ones(2), 1.0, 1.0, 2.0)
    assert "l2 norm at most 2" in difference.enforced[0]
    assert difference.trusted == own.trusted != ()


def test_rough_scores_change_no_bound_and_hardly_the_sum(monkeypatch):
    """Scores of many classes come in single precision for large tables; coefficients are clipped
    after that, so a row adds at most the clip, rows beyond the range of float32 included."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 8)), rng.integers(0, 3, 3000).astype(float)
    bounds = Bounds(2.0, label=Classes([0, 1, 2]))
    weights = 4.0 * rng.standard_normal(24)
    query = ClippedGradient(Softmax(3), weights, 0.3)
    exact = from_arrays(X, y).bounded(bounds, order="given")
    monkeypatch.setattr(source_module, "_SINGLE_NUMBERS", (1, 1 << 28))
    rough = from_arrays(X, y).bounded(bounds, order="given")
    assert exact.rows().single() is None
    assert rough.rows().single().dtype == np.float32
    assert not np.array_equal(rough.sum(query), exact.sum(query))
    np.testing.assert_allclose(rough.sum(query), exact.sum(query), atol=2e-3)
    np.testing.assert_array_equal(rough.rows(5, 9).single(), rough.rows().single()[5:9])
    for scale in (1e30, 1.0, 1e-30):
        huge = ClippedGradient(Softmax(3), scale * weights, 0.3)
        singles = [rough.sum_at(huge, [i]) for i in range(40)]
        assert max(np.linalg.norm(each) for each in singles) <= 0.3 * (1 + 1e-12)


def test_only_dense_rows_of_moderate_bounds_are_rounded(monkeypatch):
    monkeypatch.setattr(source_module, "_SINGLE_NUMBERS", (1, 1 << 28))
    X = np.ones((9, 2))
    assert from_arrays(X).bounded(Bounds(1.0)).rows().single() is not None
    for rows, norm in ((X, 1e-30), (X, 1e30), (X.astype(np.float32), 1.0)):
        assert from_arrays(rows).bounded(Bounds(norm)).rows().single() is None
    assert from_arrays(scipy.sparse.csr_array(X)).bounded(Bounds(1.0)).rows().single() is None


def test_weights_are_copied_unless_nobody_can_write_to_them():
    mine = np.ones(3)
    view = mine[:]
    view.flags.writeable = False
    kept = sealed(np.ones(3))
    for weights in (mine, view, kept):
        query = ClippedGradient(Logistic(), weights, 1.0)
        assert not query.weights.flags.writeable
        assert np.shares_memory(query.weights, weights) is (weights is kept)
