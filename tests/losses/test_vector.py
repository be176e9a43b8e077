"""Vector losses: complex-step gradients, eigenvalues, a search against every constant."""

from __future__ import annotations

import math
import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import ParameterError
from dpsco.kernels.rows import SparseRows
from dpsco.losses.logistic import Logistic
from dpsco.losses.vector import FULL_RANK, Softmax, SquaredDistance, Structure, VectorLoss


def sparse(X):
    """The same rows in compressed form, explicit zeros left out."""
    counts = np.concatenate([[0], np.cumsum((X != 0).sum(axis=1))])
    return SparseRows(X[X != 0], np.nonzero(X)[1].astype(np.int32), counts, X.shape[1])


def instance(rng, rows, d, classes, scale=1.0):
    X = rng.normal(size=(rows, d))
    X[rng.random(X.shape) < 0.3] = 0.0
    return X, rng.integers(0, classes, rows).astype(float), scale * rng.normal(size=d * classes)


def complex_value(weights, x, label, classes):
    """The loss by its definition, for complex weights."""
    scores = x @ weights.reshape(-1, classes)
    shift = scores.real.max()
    return np.log(np.sum(np.exp(scores - shift))) + shift - scores[int(label)]


def probabilities(scores):
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


# --- functions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "classes"), [(1, 2), (3, 2), (2, 5), (4, 3)])
def test_softmax_gradients_by_complex_step(d, classes):
    rng = np.random.default_rng(d * classes)
    loss = Softmax(classes)
    X, y, weights = instance(rng, 6, d, classes, 2.0)
    found = loss.gradients(weights, X, y)
    assert found.shape == (6, loss.dimension(d))
    for i in range(6):
        assert float(loss.value(weights, X, y)[i]) == pytest.approx(
            complex_value(weights.astype(complex), X[i], y[i], classes).real, rel=1e-13
        )
        for j in range(d * classes):
            moved = weights.astype(complex)
            moved[j] += 1e-30j
            expected = complex_value(moved, X[i], y[i], classes).imag / 1e-30
            assert found[i, j] == pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_softmax_coefficients_make_the_gradient():
    """Rank one: the sum is X^T C, the norm of a row's gradient a product of two norms."""
    rng = np.random.default_rng(0)
    loss = Softmax(4)
    X, y, weights = instance(rng, 50, 3, 4)
    c, gradients = loss.coefficients(weights, X, y), loss.gradients(weights, X, y)
    assert loss.rank_one
    assert c.shape == (50, 4)
    np.testing.assert_allclose((X.T @ c).ravel(), gradients.sum(axis=0), rtol=1e-12, atol=1e-13)
    norms = np.linalg.norm(X, axis=1) * np.linalg.norm(c, axis=1)
    np.testing.assert_allclose(np.linalg.norm(gradients, axis=1), norms, rtol=1e-12)
    expected = probabilities(X @ weights.reshape(3, 4)) - np.eye(4)[y.astype(int)]
    np.testing.assert_allclose(c, expected, atol=1e-14)


def test_softmax_keeps_digits_of_confident_rows():
    """1 - p_y = 3e-23 is not lost to the subtraction."""
    loss, X = Softmax(3), np.array([[1.0]])
    weights = np.array([50.0, -1.0, 0.5])
    c = loss.coefficients(weights, X, [0.0])[0]
    with mpmath.workdps(40):
        others = mpmath.exp(-51) + mpmath.exp(mpmath.mpf("-49.5"))
        assert c[0] == pytest.approx(float(-others / (1 + others)), rel=1e-13)
    assert float(loss.value(weights, X, [0.0])[0]) == pytest.approx(0.0, abs=1e-20)


def test_softmax_of_two_classes_is_logistic():
    rng = np.random.default_rng(1)
    X, y, weights = instance(rng, 30, 3, 2)
    margins = X @ (weights.reshape(3, 2)[:, 1] - weights.reshape(3, 2)[:, 0])
    sign = 2 * y - 1
    value = Softmax(2).value(weights, X, y)
    np.testing.assert_allclose(value, Logistic().value(margins, sign), rtol=1e-12)
    slope = Softmax(2).coefficients(weights, X, y)[:, 1]
    np.testing.assert_allclose(slope, Logistic().slope(margins, sign), rtol=1e-12)


@pytest.mark.parametrize("loss", [Softmax(3), SquaredDistance()], ids=repr)
def test_sparse_rows_and_float32(loss):
    rng = np.random.default_rng(2)
    X, y, weights = instance(rng, 9, 4, 3)
    weights = weights[: loss.dimension(4)]
    for other in (sparse(X), sparse(X)[2:7], X.astype(np.float32)):
        part = slice(2, 7) if len(other) == 5 else slice(0, 9)
        tolerance = {"rtol": 1e-5, "atol": 1e-5} if other.dtype == np.float32 else {"rtol": 1e-13}
        args, plain = (weights, other, y[part]), (weights, X[part], y[part])
        assert loss.gradients(*args).dtype == np.float64
        np.testing.assert_allclose(loss.gradients(*args), loss.gradients(*plain), **tolerance)
        np.testing.assert_allclose(loss.value(*args), loss.value(*plain), **tolerance)


def test_softmax_hessian_product_by_differences():
    rng = np.random.default_rng(3)
    loss = Softmax(4)
    X, y, weights = instance(rng, 12, 3, 4)
    vector, h = rng.normal(size=12), 1e-5
    up = loss.gradients(weights + h * vector, X, y).sum(axis=0)
    down = loss.gradients(weights - h * vector, X, y).sum(axis=0)
    found = loss.hessian_product(weights, X, vector)
    np.testing.assert_allclose(found, (up - down) / (2 * h), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(loss.hessian_product(weights, sparse(X), vector), found, rtol=1e-12)


def test_squared_distance():
    rng = np.random.default_rng(4)
    X, w = rng.normal(size=(20, 3)), rng.normal(size=3)
    loss = SquaredDistance()
    np.testing.assert_allclose(loss.value(w, X), 0.5 * ((w - X) ** 2).sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(loss.gradients(w, X), w - X)
    np.testing.assert_allclose(loss.gradients(X.mean(axis=0), X).sum(axis=0), 0, atol=1e-13)
    assert loss.dimension(7) == 7
    with pytest.raises(NotImplementedError):
        loss.coefficients(w, X)


# --- constants ------------------------------------------------------------------------------------


def sphere(rng, count, classes, margin):
    """Scores of norm at most margin: random ones, and the directions that are worst."""
    random = rng.normal(size=(count, classes)) * rng.random((count, 1)) ** 2
    pair, against = np.zeros(classes), -np.ones(classes)
    pair[:2] = -1.0, 1.0
    against[1] = classes - 1.0
    mixed = [(1 - t) * pair + t * against for t in np.linspace(0, 1, 21)]
    scores = np.vstack([random, mixed, [-e for e in np.eye(classes)], np.eye(classes)])
    norms = np.linalg.norm(scores, axis=1, keepdims=True)
    shrink = np.where(np.arange(len(scores)) < count, rng.random(len(scores)), 1.0)[:, None]
    return scores / norms * margin * shrink


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
@pytest.mark.parametrize("margin", [0.0, 0.1, 1.0, 3.0, 30.0])
def test_softmax_bounds_hold(classes, margin):
    rng = np.random.default_rng(classes)
    loss = Softmax(classes)
    p = probabilities(sphere(rng, 2000, classes, margin))
    for label in (0, 1, classes - 1):
        norms = np.linalg.norm(p - np.eye(classes)[label], axis=1)
        assert norms.max() <= loss.coefficient_bound(margin) * (1 + 1e-14)
    assert p.max() <= loss.largest_probability(margin) * (1 + 1e-14)
    assert p.max() >= 0.99 * loss.largest_probability(margin)  # attained
    for q in p[-60:]:
        top = np.linalg.eigvalsh(np.diag(q) - np.outer(q, q))[-1]
        assert top <= min(0.5, loss.largest_probability(margin)) * (1 + 1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("classes", [3, 5])
@pytest.mark.parametrize("margin", [0.3, 1.0, 2.5])
def test_softmax_bound_is_not_far_off(classes, margin):
    """Between its exact cases the bound is proved, not tight: within 12% of a maximisation."""
    from scipy.optimize import minimize

    def negative(direction):
        s = direction / np.linalg.norm(direction) * margin
        return -np.linalg.norm(probabilities(s) - np.eye(classes)[0])

    starts = np.random.default_rng(0).normal(size=(10, classes)) - 2 * np.eye(classes)[0]
    best = max(-minimize(negative, start, method="Nelder-Mead").fun for start in starts)
    bound = Softmax(classes).coefficient_bound(margin)
    assert best <= bound <= 1.12 * best


def test_softmax_bounds_are_attained_where_said():
    for classes in (2, 3, 7):
        loss = Softmax(classes)
        X, zero = np.array([[1.0]]), np.zeros(classes)
        at_zero = np.linalg.norm(loss.coefficients(zero, X, [0.0]))
        assert at_zero == pytest.approx(math.sqrt((classes - 1) / classes), rel=1e-14)
        assert loss.coefficient_bound(0.0) == pytest.approx(at_zero, rel=1e-14)
        assert loss.coefficient_bound(math.inf) == pytest.approx(math.sqrt(2), rel=1e-15)
        far = np.zeros(classes)
        far[:2] = -40.0, 40.0
        found = np.linalg.norm(loss.coefficients(far, X, [0.0]))
        assert found == pytest.approx(math.sqrt(2), rel=1e-14)
        # the curvature bound 1/2, in the limit of two classes that share all probability
        far[:2] = 40.0, 40.0
        p = probabilities(far)
        top = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]
        assert top == pytest.approx(0.5, rel=1e-12)
    for margin in (0.2, 1.0, 4.0):  # two classes: exact for every margin
        s = margin / math.sqrt(2)
        found = np.linalg.norm(Softmax(2).coefficients([-s, s], np.array([[1.0]]), [0.0]))
        assert found == pytest.approx(Softmax(2).coefficient_bound(margin), rel=1e-14)


def test_largest_eigenvalue_search():
    """diag p - p p^T: at most 1/2 and at most max p, for probabilities of every kind."""
    rng = np.random.default_rng(9)
    for classes in (2, 3, 4, 9):
        for power in (0.05, 0.3, 1.0, 10.0):
            for p in rng.dirichlet(np.full(classes, power), 150):
                top = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))
                assert top[-1] <= min(0.5, p.max()) + 1e-12
                assert abs(top[0]) <= 1e-12  # rank at most K - 1


def test_softmax_hessian_of_one_row():
    """Rank classes - 1, largest eigenvalue at most half the squared feature norm."""
    rng = np.random.default_rng(10)
    loss = Softmax(4)
    X, _, weights = instance(rng, 1, 3, 4)
    hessian = np.column_stack([loss.hessian_product(weights, X, e) for e in np.eye(12)])
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-14)
    values = np.linalg.eigvalsh(hessian)
    feature, radius = np.linalg.norm(X), np.linalg.norm(weights)
    constants = loss.constants(feature=feature, radius=radius)
    assert np.sum(values > 1e-12) == constants.hessian_rank == loss.structure.rank == 3
    assert values.min() >= -1e-14
    assert values.max() <= constants.smoothness


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(2, 6),
    radius=st.sampled_from([0.0, 0.3, 2.0, 50.0]),
    feature=st.sampled_from([0.2, 1.0, 3.0]),
)
def test_softmax_constants_in_the_weights(seed, classes, radius, feature):
    rng = np.random.default_rng(seed)
    loss, d = Softmax(classes), 3
    constants = loss.constants(feature=feature, radius=radius)
    X = rng.normal(size=(5, d))
    X *= feature / np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, classes, 5).astype(float)
    points = rng.normal(size=(2, d * classes))
    points[0] += 3 * np.outer(X[0], np.eye(classes)[int(y[0])] * -1).ravel()
    points *= radius / np.linalg.norm(points, axis=1, keepdims=True)
    first, second = (loss.gradients(w, X, y) for w in points)
    assert np.linalg.norm(first, axis=1).max() <= constants.lipschitz * (1 + 1e-12)
    change = np.linalg.norm(first - second, axis=1).max()
    distance = np.linalg.norm(points[0] - points[1])
    assert change <= constants.smoothness * distance * (1 + 1e-9) + 1e-12
    assert change <= constants.hoelder.constant * distance * (1 + 1e-9) + 1e-12
    zero = np.zeros(d * classes)
    at_zero = np.linalg.norm(loss.gradients(zero, X, y), axis=1).max()
    assert at_zero == pytest.approx(constants.gradient_at_zero, rel=1e-12)
    assert loss.value(zero, X, y).max() == pytest.approx(constants.value_at_zero, rel=1e-12)
    # convex: above the tangent
    values = loss.value(points[1], X, y) - loss.value(points[0], X, y)
    assert np.all(values >= first @ (points[1] - points[0]) - 1e-9 * (1 + feature * radius))


def test_squared_distance_constants_are_attained():
    constants = SquaredDistance().constants(feature=2.0, radius=3.0)
    x, w = np.array([[2.0, 0.0]]), np.array([-3.0, 0.0])
    assert constants.lipschitz == np.linalg.norm(SquaredDistance().gradients(w, x)) == 5.0
    assert (constants.smoothness, constants.strong_convexity, constants.weak_convexity) == (1, 1, 0)
    assert constants.gradient_at_zero == 2.0
    assert constants.value_at_zero == float(SquaredDistance().value([0.0, 0.0], x)[0]) == 2.0
    assert SquaredDistance().constants(feature=1.0).lipschitz == math.inf
    assert constants.hessian_rank == FULL_RANK


def test_structures():
    assert Softmax(5).structure == Structure("subspace", replace=8, zero_out=4, rank=4)
    assert SquaredDistance().structure.kind == "constant_hessian"
    # coefficients sum to 0, so two rows' differences over many weights span 2 (K - 1) dimensions
    rng = np.random.default_rng(0)
    loss, X = Softmax(3), rng.normal(size=(2, 9))
    spans = [loss.gradients(rng.normal(size=27), X, [0.0, 2.0]) for _ in range(60)]
    replace = np.linalg.matrix_rank([g[0] - g[1] for g in spans], tol=1e-9)
    assert replace == loss.structure.replace == 4
    assert np.linalg.matrix_rank([g[0] for g in spans], tol=1e-9) == loss.structure.zero_out == 2


# --- edges ----------------------------------------------------------------------------------------


def test_odd_rows_have_defined_answers():
    loss, weights = Softmax(3), np.array([1e200, -1e200, 0.0, 1.0, 2.0, 3.0])
    X = np.array([[1.0, 0.0], [1e200, 1.0], [np.nan, 1.0], [np.inf, 0.0], [0.0, 0.0]])
    c = loss.coefficients(weights, X, [2.0, 0.0, 1.0, 1.0, np.nan])
    np.testing.assert_array_equal(c[0], [1.0, 0.0, -1.0])
    np.testing.assert_array_equal(c[1:4], np.zeros((3, 3)))
    np.testing.assert_allclose(c[4], [-2 / 3, 1 / 3, 1 / 3])
    good = loss.coefficients(np.zeros(6), np.ones((4, 2)), [-7.0, 99.0, np.inf, 1.4])
    np.testing.assert_array_equal(np.argmin(good, axis=1), [0, 2, 2, 1])
    assert np.linalg.norm(c, axis=1).max() <= math.sqrt(2) * (1 + 1e-15)
    assert loss.coefficients(np.zeros(6), np.zeros((0, 2)), []).shape == (0, 3)
    assert loss.value(np.zeros(6), np.zeros((0, 2)), []).shape == (0,)
    assert loss.gradients(np.zeros(6), np.zeros((0, 2)), []).shape == (0, 6)


def test_coefficients_never_exceed_their_bound():
    """Over 1e5 rows, scores from tiny to huge."""
    rng = np.random.default_rng(7)
    scores = rng.normal(size=(100_000, 4)) * 10.0 ** rng.uniform(-3, 5, size=(100_000, 1))
    c = Softmax(4).coefficients(np.eye(4).ravel(), scores, rng.integers(0, 4, 100_000))
    assert np.linalg.norm(c, axis=1).max() <= math.sqrt(2) * (1 + 4e-16)


REFUSED = [
    (lambda: Softmax(1), "classes"),
    (lambda: Softmax(2.0), "classes"),
    (lambda: Softmax(3).constants(feature=0.0), "feature"),
    (lambda: Softmax(3).constants(feature=1.0, radius=-1.0), "radius"),
    (lambda: SquaredDistance().constants(feature=1.0, radius=-1.0), "radius"),
    (lambda: Softmax(3).value(np.zeros(5), np.zeros((2, 2)), [0, 1]), "6 weights"),
    (lambda: Softmax(3).value(np.zeros(6), np.zeros((2, 2)), [0]), "label"),
    (lambda: Softmax(3).value(np.zeros(6), np.zeros((2, 2))), "label"),
    (lambda: Softmax(3).value(np.zeros(6), np.zeros(2), [0]), "matrix"),
    (lambda: SquaredDistance().gradients(np.zeros(3), np.zeros((2, 2))), "2 weights"),
]


@pytest.mark.parametrize(("make", "word"), REFUSED)
def test_refusals(make, word):
    with pytest.raises(ParameterError, match=word):
        make()


def test_records():
    for loss in (Softmax(3), SquaredDistance()):
        assert isinstance(loss, VectorLoss)
        assert loss.trusted == ()
        assert pickle.loads(pickle.dumps(loss)) == loss


def test_one_overflowing_row_does_not_spoil_a_hessian():
    loss, X = Softmax(2), np.array([[1e308], [1.0]])
    found = loss.hessian_product(np.array([1e2, -1e2]), X, np.ones(2))
    assert np.isfinite(found).all()


def test_constants_overflow_to_infinity():
    for loss in (Softmax(3), SquaredDistance()):
        assert loss.constants(feature=1e200, radius=1.0).lipschitz > 0.0
