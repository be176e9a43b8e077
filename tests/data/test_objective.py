"""The objective against its definition, finite differences, and a conic solver's optimum."""

import math

import cvxpy
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

from dpsco.data import Bounds, Classes, from_arrays
from dpsco.errors import AssumptionError, ParameterError
from dpsco.losses import CustomLoss, Hinge, Huber, Logistic, PseudoHuber, Squared
from dpsco.losses.vector import Softmax, SquaredDistance, VectorLoss


def source(n=500, d=4, label=2.0, sparse=False, dtype=float, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    X[7, 1] = np.nan
    if isinstance(label, Classes):
        y = rng.integers(0, len(label.values), size=n)
    else:
        y = rng.normal(size=n) if label != "sign" else np.where(rng.random(n) < 0.5, -1, 1)
    raw = scipy.sparse.csr_array(X) if sparse else X
    bounds = Bounds(3.0, label=label, intercept=1.0)
    return from_arrays(raw, y).bounded(bounds, order="given")


def dense(block):
    rows = block.rows if isinstance(block.rows, np.ndarray) else block.rows.matrix().toarray()
    return rows.astype(float)


def size_of(loss, d):
    return loss.dimension(d) if isinstance(loss, VectorLoss) else d


def value_by_definition(loss, w, block, linear, ridge, centre):
    X, y = dense(block)[block.present], block.labels[block.present]
    values = loss.value(w, X, y) if isinstance(loss, VectorLoss) else loss.value(X @ w, y)
    return np.sum(values) / len(block) + linear @ w + ridge / 2 * np.sum((w - centre) ** 2)


LOSSES = [
    (Logistic(), "sign"),
    (Squared(), 2.0),
    (PseudoHuber(0.5), 2.0),
    (SquaredDistance(), 2.0),
    (Softmax(3), Classes(0, 1, 2)),
]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("loss", "label"), LOSSES)
def test_value_gradient_and_hessian(loss, label, dtype, sparse):
    rows = source(label=label, sparse=sparse, dtype=dtype)
    size = size_of(loss, rows.d)
    rng = np.random.default_rng(1)
    w, v, linear, centre = rng.normal(size=(4, size))
    block = rows.rows(5, 405)
    assert not block.present.all()
    objective = rows.objective(loss, 5, 405, linear=linear, ridge=0.3, centre=centre)
    assert (objective.size, objective.count) == (size, 400)

    def reference(point):
        return value_by_definition(loss, point, block, linear, 0.3, centre)

    value, gradient = objective.value_and_gradient(w)
    assert value == pytest.approx(reference(w), rel=1e-12)
    assert objective.value(w) == value
    assert np.array_equal(objective.gradient(w), gradient)
    h = 1e-5
    slopes = [(reference(w + h * e) - reference(w - h * e)) / (2 * h) for e in np.eye(size)]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-8)
    bend = [
        (objective.gradient(w + h * e) - objective.gradient(w - h * e)) / (2 * h)
        for e in np.eye(size)
    ]
    hessian = objective.hessian(w)
    np.testing.assert_allclose(hessian, np.array(bend), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(objective.hessian_product(w, v), hessian @ v, rtol=1e-11, atol=1e-12)


def test_leaves_and_the_whole_agree():
    rows = source(n=20_000, label="sign")
    w = np.linspace(-1, 1, 5)
    block = rows.rows(3, 19_000)
    found = rows.objective(Logistic(), 3, 19_000).value(w)
    wanted = math.fsum(Logistic().value(dense(block) @ w, block.labels)[block.present]) / 18_997
    assert found == pytest.approx(wanted, rel=1e-14)
    assert found == rows.objective(Logistic(), 3, 19_000).value(w)


def test_null_rows_count_in_the_divisor_only():
    X = np.array([[np.nan], [1.0], [1.0], [np.inf]])
    rows = from_arrays(X, np.full(4, 3.0)).bounded(Bounds(2.0, label=4.0), order="given")
    for loss, value in ((Squared(), 2 * 4.5 / 4), (SquaredDistance(), 2 * 0.5 / 4)):
        objective = rows.objective(loss)
        assert objective.value([0.0]) == pytest.approx(value)
        assert objective.hessian([0.0])[0, 0] == pytest.approx(0.5)
    assert rows.objective(SquaredDistance()).gradient([3.0])[0] == pytest.approx(2 * 2.0 / 4)


def test_minimisers_agree_with_a_conic_solver():
    rows = source(n=120, label="sign")
    X, y = dense(rows.rows()), rows.rows().labels
    linear = np.array([0.1, -0.2, 0.0, 0.3, 0.05])
    objective = rows.objective(Logistic(), linear=linear, ridge=0.1)
    found = scipy.optimize.minimize(
        objective.value_and_gradient,
        np.zeros(5),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-11},
    )
    w = cvxpy.Variable(5)
    keep = rows.rows().present
    losses = cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(y[keep], X[keep] @ w))) / 120
    cvxpy.Problem(cvxpy.Minimize(losses + linear @ w + 0.05 * cvxpy.sum_squares(w))).solve()
    np.testing.assert_allclose(found.x, w.value, atol=2e-4)
    assert np.linalg.norm(objective.gradient(found.x)) < 1e-7


def test_losses_with_kinks_have_a_subgradient():
    rows = source(label="sign")
    objective = rows.objective(Hinge())
    w = np.array([0.5, -0.2, 0.1, 0.0, 0.3])
    other = w + 0.1
    gap = objective.value(other) - objective.value(w)
    assert gap >= objective.gradient(w) @ (other - w) - 1e-12
    assert rows.objective(Huber(0.5)).hessian(w).shape == (5, 5)


def test_overflow_is_quiet():
    rows = source()
    assert rows.objective(Squared()).value(np.full(5, 1e200)) == math.inf


def test_a_row_without_a_slope_spoils_no_other():
    """A user's slope that is undefined on one row counts as 0 there, as in the clipped sums."""
    from dpsco.data.queries import ClippedGradient

    def slope(margin, label):
        return np.where(np.abs(label) == 0.625, np.nan, np.tanh(margin - label))

    loss = CustomLoss(
        lambda u, y: np.log(np.cosh(u - y)), slope, slope_bound=1.0, convex=False, labels="real"
    )
    X, y = np.eye(3), np.array([0.5, 0.625, -0.5])
    rows = from_arrays(X, y).bounded(Bounds(2.0, label=2.0), order="given")
    gradient = rows.objective(loss).gradient(np.zeros(3))
    assert gradient[1] == 0.0
    np.testing.assert_allclose(3 * gradient[[0, 2]], [-np.tanh(0.5), np.tanh(0.5)])
    clipped = rows.sum(ClippedGradient(loss, np.zeros(3), 5.0))
    np.testing.assert_allclose(3 * gradient, clipped)


def test_labels_that_the_loss_cannot_read_are_refused():
    with pytest.raises(ParameterError, match=r"Logistic needs bounds with label='sign'"):
        source().objective(Logistic())


def test_the_text_says_what_it_is():
    rows = source()
    text = repr(rows.objective(Squared(), 3, 9))
    assert text == "<Objective: Squared over rows 3 to 9; not private>"
    assert "NOT private" in type(rows.objective(Squared())).__doc__


@pytest.mark.parametrize(
    ("loss", "start", "stop", "terms"),
    [
        ("hinge", 0, 5, {}),
        (Squared(), 5, 5, {}),
        (Squared(), 0, 501, {}),
        (Squared(), 0, 5, {"ridge": -1.0}),
        (Squared(), 0, 5, {"ridge": math.inf}),
        (Squared(), 0, 5, {"linear": np.zeros(4)}),
        (Squared(), 0, 5, {"linear": np.full(5, math.nan)}),
        (Squared(), 0, 5, {"centre": np.zeros(6)}),
    ],
)
def test_objectives_refuse(loss, start, stop, terms):
    with pytest.raises(ParameterError):
        source().objective(loss, start, stop, **terms)


def test_weights_of_another_length_and_large_hessians_are_refused():
    objective = source().objective(Squared())
    for call in (objective.value, objective.gradient, objective.hessian):
        with pytest.raises(ParameterError, match="5 numbers"):
            call(np.zeros(4))
    with pytest.raises(ParameterError):
        objective.hessian_product(np.zeros(5), np.zeros(4))
    table = from_arrays(scipy.sparse.csr_array((2, 5000)), np.zeros(2))
    wide = table.bounded(Bounds(1.0, label=1.0))
    with pytest.raises(ParameterError, match="hessian_product"):
        wide.objective(Squared()).hessian(np.zeros(5000))


def test_a_loss_with_gradients_alone_has_no_hessian():
    class Own(SquaredDistance):
        @property
        def structure(self):
            from dpsco.losses.vector import Structure

            return Structure("general")

    objective = source().objective(Own())
    assert objective.gradient(np.zeros(5)).shape == (5,)
    with pytest.raises(AssumptionError, match="gradients"):
        objective.hessian_product(np.zeros(5), np.ones(5))
