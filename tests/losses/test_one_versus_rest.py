"""One-versus-rest: sums of binary losses, their constants, records, and what solvers make of it."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.errors import ParameterError
from dpsco.kernels.rows import SparseRows
from dpsco.losses import (
    CustomLoss,
    Hinge,
    Logistic,
    OneVersusRest,
    QHinge,
    Sigmoid,
    Smoothed,
    Softmax,
    Squared,
)
from dpsco.losses.vector import Structure

INNER = [Hinge(), Logistic(), QHinge(1.5), Sigmoid(), Smoothed(Hinge(), 5.0)]


def instance(seed, rows, d, classes, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, d))
    X[rng.random(X.shape) < 0.3] = 0.0
    return X, rng.integers(0, classes, rows).astype(float), scale * rng.normal(size=d * classes)


@pytest.mark.parametrize("inner", INNER, ids=lambda loss: loss.name)
@pytest.mark.parametrize(("d", "classes"), [(1, 2), (3, 4)])
def test_it_is_the_sum_of_binary_losses(inner, d, classes):
    X, y, weights = instance(0, 20, d, classes)
    loss, W = OneVersusRest(inner, classes), weights.reshape(d, classes)
    value, gradient = np.zeros(20), np.zeros((20, d, classes))
    for k in range(classes):
        sign = np.where(y == k, 1.0, -1.0)
        value += inner.value(X @ W[:, k], sign)
        gradient[:, :, k] = inner.slope(X @ W[:, k], sign)[:, None] * X
    np.testing.assert_allclose(loss.value(weights, X, y), value, rtol=1e-12)
    found = loss.gradients(weights, X, y)
    assert found.shape == (20, loss.dimension(d))
    np.testing.assert_allclose(found, gradient.reshape(20, -1), rtol=1e-12, atol=1e-15)
    c = loss.coefficients(weights, X, y)
    np.testing.assert_allclose((X.T @ c).ravel(), found.sum(axis=0), rtol=1e-12, atol=1e-13)


def test_sparse_rows_and_float32():
    X, y, weights = instance(1, 9, 4, 3)
    counts = np.concatenate([[0], np.cumsum((X != 0).sum(axis=1))])
    rows = SparseRows(X[X != 0], np.nonzero(X)[1].astype(np.int32), counts, 4)
    loss = OneVersusRest(Logistic(), 3)
    expected = loss.gradients(weights, X, y)
    np.testing.assert_allclose(loss.gradients(weights, rows, y), expected, rtol=1e-13)
    single = loss.gradients(weights, X.astype(np.float32), y)
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    inner=st.sampled_from(INNER),
    classes=st.integers(2, 6),
    radius=st.sampled_from([0.0, 0.3, 2.0, 50.0]),
    feature=st.sampled_from([0.2, 1.0, 3.0]),
)
def test_no_row_exceeds_a_constant(seed, inner, classes, radius, feature):
    X, y, _ = instance(seed, 5, 3, classes)
    X = (X + 0.01) * feature / np.linalg.norm(X + 0.01, axis=1, keepdims=True)
    loss = OneVersusRest(inner, classes)
    constants = loss.constants(feature=feature, radius=radius)
    points = np.random.default_rng([seed, 1]).normal(size=(2, 3 * classes))
    points *= radius / np.linalg.norm(points, axis=1, keepdims=True)
    points[1] = points[0] + 10.0 ** -(seed % 4) * (points[1] - points[0])  # near and far
    first, second = (loss.gradients(w, X, y) for w in points)
    assert np.linalg.norm(first, axis=1).max() <= constants.lipschitz * (1 + 1e-12)
    change = np.linalg.norm(first - second, axis=1).max()
    distance = float(np.linalg.norm(points[0] - points[1]))
    if math.isfinite(constants.smoothness):
        assert change <= constants.smoothness * distance * (1 + 1e-9) + 1e-12
    alpha, hoelder = constants.hoelder.alpha, constants.hoelder.constant
    assert change <= hoelder * distance**alpha * (1 + 1e-9) + 1e-12
    zero = np.zeros(3 * classes)
    at_zero = np.linalg.norm(loss.gradients(zero, X, y), axis=1).max()
    assert at_zero == pytest.approx(constants.gradient_at_zero, rel=1e-12)  # attained
    value = loss.value(zero, X, y).max() / constants.value_at_zero
    assert (0.5 if isinstance(inner, Smoothed) else 1 - 1e-12) <= value <= 1 + 1e-12
    assert constants.convex == inner.convex
    if inner.convex:  # above the tangent
        values = loss.value(points[1], X, y) - loss.value(points[0], X, y)
        assert np.all(values >= first @ (points[1] - points[0]) - 1e-9 * (1 + feature * radius))


def test_constants_are_attained():
    """All slopes at their bound at once; one class with all the curvature; a shared small step."""
    hinge, classes = OneVersusRest(Hinge(), 4), 4
    facts = hinge.constants(feature=2.0)
    assert facts.lipschitz == pytest.approx(2.0 * 2.0)  # feature sqrt(classes)
    wrong = np.array([[-9.0, 9.0, 9.0, 9.0]])
    slopes = hinge.coefficients(wrong.ravel(), np.array([[1.0]]), [0.0])
    assert np.linalg.norm(slopes) == pytest.approx(2.0)
    assert facts.smoothness == math.inf
    smooth = OneVersusRest(Logistic(), classes).constants(feature=3.0)
    assert smooth.smoothness == pytest.approx(9.0 / 4.0)  # not times the classes
    assert (smooth.hessian_rank, smooth.value_at_zero) == (4, pytest.approx(4 * math.log(2)))
    # q = 3/2: every class moves by t across the hinge point, the gradient by q t^(1/2) in each
    power, t = OneVersusRest(QHinge(1.5), classes), 1e-3
    label, corner = [0.0], np.array([1.0, -1.0, -1.0, -1.0])
    inside = corner - t * np.array([1.0, -1.0, -1.0, -1.0])
    one = np.array([[1.0]])
    change = power.gradients(inside, one, label) - power.gradients(corner, one, label)
    hoelder = power.constants(feature=1.0).hoelder
    assert hoelder.alpha == 0.5
    expected = hoelder.constant * np.linalg.norm(inside - corner) ** 0.5
    assert np.linalg.norm(change) == pytest.approx(expected, rel=1e-9)


def test_structure_and_clip():
    loss = OneVersusRest(Hinge(), 5)
    assert loss.structure == Structure("subspace", replace=10, zero_out=5, rank=5)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2, 12))
    smooth = OneVersusRest(Logistic(), 5)
    spans = [smooth.gradients(rng.normal(size=60), X, [0.0, 2.0]) for _ in range(40)]
    assert np.linalg.matrix_rank([g[0] - g[1] for g in spans], tol=1e-9) == 10
    assert np.linalg.matrix_rank([g[0] for g in spans], tol=1e-9) == 5
    assert (loss.settled(0.5), loss.settled(0.25)) == (1.0, 0.5)  # one class at its bound
    assert OneVersusRest(QHinge(1.5), 5).settled(0.5) == math.inf


def test_odd_rows_have_defined_answers():
    loss, weights = OneVersusRest(Hinge(), 3), np.array([1e200, -1e200, 0.0, 1.0, 2.0, 3.0])
    X = np.array([[1.0, 0.0], [np.nan, 1.0], [np.inf, 0.0], [0.0, 0.0]])
    c = loss.coefficients(weights, X, [2.0, 0.0, 1.0, np.nan])
    np.testing.assert_array_equal(c[0], [1.0, 0.0, -1.0])
    assert np.isfinite(c).all()
    spoilt = OneVersusRest(Logistic(), 3).coefficients(weights, X, [2.0, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(spoilt[1:3], np.zeros((2, 3)))  # a row's slopes fall together
    np.testing.assert_array_equal(c[3], [-1.0, 1.0, 1.0])  # a label that is none is class 0
    labels = loss.coefficients(np.zeros(6), np.zeros((3, 2)), [-7.0, np.inf, 1.4])
    np.testing.assert_array_equal(np.argmin(labels, axis=1), [0, 2, 1])
    assert loss.coefficients(np.zeros(6), np.zeros((0, 2)), []).shape == (0, 3)
    assert loss.gradients(np.zeros(6), np.zeros((0, 2)), []).shape == (0, 6)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: OneVersusRest(Squared(), 3), "loss of a sign"),
        (lambda: OneVersusRest(Softmax(3), 3), "loss of a sign"),
        (lambda: OneVersusRest(Hinge(), 1), "classes"),
        (lambda: OneVersusRest(Hinge(), 2.0), "classes"),
        (lambda: OneVersusRest(Hinge(), 3).constants(feature=0.0), "feature"),
        (lambda: OneVersusRest(Hinge(), 3).constants(feature=1.0, radius=-1.0), "radius"),
        (lambda: OneVersusRest(Hinge(), 3).value(np.zeros(5), np.eye(2), [0, 1]), "6 weights"),
        (lambda: OneVersusRest(Hinge(), 3).value(np.zeros(6), np.eye(2)), "label"),
    ],
)
def test_refusals(make, word):
    with pytest.raises(ParameterError, match=word):
        make()


def problem(loss, classes=3):
    return dp.Problem(loss=loss, bounds=dp.Bounds(1.0, label=dp.data.Classes(*range(classes))))


@pytest.mark.parametrize("inner", [Hinge(), Smoothed(Hinge(), 5.0)], ids=lambda loss: loss.name)
def test_plans_hold_it_as_a_record(inner):
    loss = OneVersusRest(inner, 3)
    assert pickle.loads(pickle.dumps(loss)) == loss
    budget = dp.ApproxDP(1.0, 1e-6)
    made = dp.plan(problem(loss), n=500, d=4, budget=budget, solver="noisy_gd")
    assert dp.load_plan(made.to_json()) == made
    text = json.loads(made.to_json())
    text["task"]["problem"]["loss"]["loss"] = {"type": "Squared"}
    with pytest.raises(ParameterError, match="loss of a sign"):
        dp.load_plan(json.dumps(text))


def test_trust_in_a_loss_of_ones_own_is_passed_on():
    mine = CustomLoss(
        value=lambda u, y: np.logaddexp(0.0, -y * u),
        slope=lambda u, y: -y / (1.0 + np.exp(np.minimum(y * u, 700.0))),
        slope_bound=1.0,
        curvature_bound=0.25,
        convex=True,
        labels="sign",
        name="mine",
    )
    assert OneVersusRest(mine, 3).trusted == mine.trusted
    assert mine.trusted


def test_auto_learns_three_classes():
    """Hinge and softmax agree on an easy table; a constant is right for a third of the rows."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6_000, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.argmax(X, axis=1)
    found = {}
    for loss in (OneVersusRest(Hinge(), 3), Softmax(3)):
        budget = dp.ApproxDP(1.0, 1e-8)
        result = dp.solve(problem(loss), (X, y), budget, randomness=dp.Randomness.seeded(0))
        found[loss.name] = np.mean(np.argmax(X @ result.weights.reshape(3, 3), axis=1) == y)
    assert min(found.values()) > 0.93
