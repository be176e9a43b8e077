"""Custom losses: true ones pass, every false claim is refused, nothing of a row gets out."""

from __future__ import annotations

import math
import pickle
import traceback
import warnings

import numpy as np
import pytest

from dpsco.errors import ParameterError
from dpsco.kernels import compiler
from dpsco.kernels.rows import SparseRows
from dpsco.kernels.sgd import sgd_pass
from dpsco.kernels.slope import TwoArgument
from dpsco.kernels.sums import slope_sum
from dpsco.losses.base import Hoelder
from dpsco.losses.custom import CustomLoss
from dpsco.losses.epsilon_insensitive import EpsilonInsensitive
from dpsco.losses.hinge import Hinge, ModifiedHuber, QHinge, SquaredHinge
from dpsco.losses.huber import Huber, PseudoHuber
from dpsco.losses.logistic import Logistic
from dpsco.losses.nonconvex import GemanMcClure, Ramp, Sigmoid, Tukey, Welsch
from dpsco.losses.per_row import PerRowLoss
from dpsco.losses.poisson import Poisson
from dpsco.losses.power import Absolute, QPower
from dpsco.losses.quantile import Pinball
from dpsco.losses.squared import Squared
from dpsco.losses.vector import FULL_RANK, VectorLoss

CATALOGUE = [
    Logistic(), Hinge(), QHinge(1.5), SquaredHinge(), ModifiedHuber(), Squared(), Absolute(),
    QPower(1.3), Pinball(0.2), EpsilonInsensitive(0.3), Huber(0.6), PseudoHuber(0.6), Poisson(4.0),
    Sigmoid(), Ramp(0.3), Tukey(1.5), GemanMcClure(0.8), Welsch(1.1),
]  # fmt: skip


def huber_value(u, y):
    r = abs(u - y)
    return 0.5 * r * r if r < 1 else r - 0.5


def huber_slope(u, y):
    r = u - y
    if r > 1:
        return 1.0
    return -1.0 if r < -1 else r


def cosh_value(u, y):
    return np.log(np.cosh(u - y))


def cosh_slope(u, y):
    return np.tanh(u - y)


def make(value=huber_value, slope=huber_slope, **changes):
    claims = {"slope_bound": 1.0, "curvature_bound": 1.0, "convex": True, "labels": "real"}
    return CustomLoss(value, slope, **{**claims, "name": "mine", **changes})


# --- truths pass ----------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("loss", CATALOGUE, ids=repr)
def test_the_catalogue_passes_its_own_claims(loss):
    """No false alarm: every loss of the catalogue with its exact constants, as a user's own."""
    label = 5.0 if loss.labels == "count" else 1.0
    weak = {} if loss.convex else {"convex": False}
    mine = CustomLoss(
        loss.value,
        loss.slope,
        slope_bound=loss.slope_bound(label, math.inf),
        curvature_bound=loss.curvature_bound(label, math.inf),
        hoelder=loss.hoelder(),
        value_at_zero=loss.value_at_zero,
        labels=loss.labels,
        name=loss.name,
        **{"convex": True, **weak},
    )
    rng = np.random.default_rng(0)
    y = rng.choice([-1.0, 1.0], 50) if loss.labels == "sign" else rng.uniform(0, 1, 50)
    u = 2 * rng.normal(size=50)
    np.testing.assert_array_equal(mine.slope(u, y), loss.slope(u, y))
    np.testing.assert_array_equal(mine.value(u, y), loss.value(u, y))
    ours, theirs = mine.constants(feature=2.0, label=1.0), loss.constants(feature=2.0, label=1.0)
    assert ours.smoothness == pytest.approx(theirs.smoothness)
    assert ours.hoelder == theirs.hoelder
    assert ours.lipschitz >= theirs.lipschitz
    assert ours.value_at_zero == theirs.value_at_zero
    np.testing.assert_allclose(mine.curvature(u, y), loss.curvature(u, y), atol=2e-4)


@pytest.mark.parametrize("at_the_corner", [-1.0, -0.4, 0.0])
def test_any_subgradient_at_a_kink(at_the_corner):
    """numpy.maximum takes complex numbers and so answers for one side; the other is as good."""

    def slope(u, y):
        return y * (-1.0 * (y * u < 1) + at_the_corner * (y * u == 1))

    nonsmooth = {"curvature_bound": math.inf, "labels": "sign"}
    loss = make(lambda u, y: np.maximum(1 - y * u, 0.0), slope, **nonsmooth)
    assert float(loss.slope(1.0, 1.0)) == at_the_corner
    with pytest.raises(ParameterError, match="not the derivative"):
        make(lambda u, y: np.maximum(1 - y * u, 0.0), lambda u, y: -y * (y * u < 1.1), **nonsmooth)


def test_numbers_or_arrays():
    u, y = np.linspace(-3, 3, 41), np.linspace(-1, 1, 41)
    by_numbers, by_arrays = make(), make(cosh_value, cosh_slope)
    np.testing.assert_allclose(by_numbers.slope(u, y), np.clip(u - y, -1, 1))
    np.testing.assert_allclose(by_arrays.slope(u, y), np.tanh(u - y))
    assert by_numbers.slope(0.5, 0.0) == 0.5
    assert by_arrays.value(u[:, None], y).shape == (41, 41)
    assert by_numbers.value(u[:, None], y).shape == (41, 41)
    np.testing.assert_allclose(by_arrays.curvature(u, y), 1 / np.cosh(u - y) ** 2, atol=1e-8)


def test_facts_follow_from_the_bounds():
    smooth = make()
    assert smooth.hoelder() == Hoelder(1.0, 1.0)
    assert smooth.weak_convexity() == 0.0
    assert smooth.labels == "real"
    found = smooth.constants(feature=3.0, label=2.0)
    assert (found.lipschitz, found.smoothness, found.convex) == (3.0, 9.0, True)
    assert found.value_at_zero == pytest.approx(1.5)
    rough = make(curvature_bound=math.inf)
    assert rough.hoelder() == Hoelder(0.0, 2.0)
    wavy = make(lambda u, y: np.sin(u), lambda u, y: np.cos(u), convex=False)
    assert wavy.weak_convexity() == 1.0
    assert not wavy.constants(feature=1.0).convex
    assert make(value_at_zero=7.0).value_at_zero(1.0) == 7.0
    signs = make(lambda u, y: 3 + y + 0 * u, lambda u, y: 0 * u, labels="sign")
    assert signs.value_at_zero(1.0) == 4.0
    counts = make(lambda u, y: abs(y) + 0 * u, lambda u, y: 0 * u, labels="count")
    assert counts.value_at_zero(3.0) == 3.0


# --- what is trusted ------------------------------------------------------------------------------


def test_trusted_lists_what_a_grid_cannot_prove():
    said = " | ".join(make().trusted)
    assert "mine: convex" in said
    assert "1-Lipschitz" in said
    assert "derivative" in said
    assert "one row's margin and label alone" in said
    assert "slope_bound" not in said  # enforced
    assert "Hoelder" not in said
    rough = " | ".join(make(convex=False, curvature_bound=math.inf).trusted)
    assert "convex" not in rough
    assert "Lipschitz" not in rough
    assert "order 0.5" in " | ".join(make(hoelder=Hoelder(0.5, 2.0)).trusted)
    plain = {"labels": "sign", "convex": False, "curvature_bound": math.inf}
    assert len(make(lambda u, y: 0 * u, lambda u, y: 0 * u, **plain).trusted) == 2


@pytest.mark.thorough
def test_the_slope_bound_is_enforced_between_grid_points():
    """A spike that no grid can see is cut off, in NumPy and in machine code."""

    def spiky(u, y):
        return 50.0 * np.sign(u) if 7.3 < abs(u) < 7.4 else np.tanh(u)

    loss = make(lambda u, y: np.log(np.cosh(u)), spiky)
    u = np.linspace(-9, 9, 20_001)
    assert np.abs(loss.slope(u, 0.0)).max() == 1.0
    assert np.abs(loss.kernel()(u, np.zeros_like(u))).max() == 1.0
    assert loss.slope(7.35, 0.0) == 1.0
    assert loss.kernel().bound == 1.0


# --- false claims are refused ---------------------------------------------------------------------

FALSE = [
    (lambda: make(slope=lambda u, y: -huber_slope(u, y), convex=False), "not the derivative"),
    (lambda: make(slope=lambda u, y: 0.99 * huber_slope(u, y)), "not the derivative"),
    (lambda: make(cosh_value, lambda u, y: np.tanh(u - y) * (1 + 3e-8)), "not the derivative"),
    (lambda: make(cosh_value, lambda u, y: np.tanh(u + y)), "not the derivative"),
    (lambda: make(cosh_value, lambda u, y: np.tanh(u - y) + (u > 20) * 0.01), "not the derivative"),
    (lambda: make(slope_bound=0.9), "slope_bound of mine is 0.9, but at margin"),
    (lambda: make(curvature_bound=0.9), "curvature_bound of mine is 0.9"),
    (lambda: make(lambda u, y: abs(u), lambda u, y: np.sign(u)), "curvature_bound"),
    (lambda: make(lambda u, y: abs(u - 2.7), lambda u, y: np.sign(u - 2.7)), "curvature_bound"),
    (lambda: make(lambda u, y: np.sin(u), lambda u, y: np.cos(u)), "mine is not convex"),
    (lambda: make(lambda u, y: -huber_value(u, y), lambda u, y: -huber_slope(u, y)), "not convex"),
    (lambda: make(hoelder=Hoelder(0.0, 1.9)), "hoelder of mine fails between margins"),
    (lambda: make(hoelder=Hoelder(0.5, 1.0)), "hoelder of mine fails"),
    (lambda: make(value_at_zero=lambda label: 0.1), "value_at_zero"),
    (lambda: make(Logistic().value, Logistic().slope, labels="sign", value_at_zero=0.6), "at_zero"),
    (lambda: make(lambda u, y: math.inf), "must be finite"),
    (lambda: make(slope=lambda u, y: math.nan), "must be finite"),
    (lambda: make(lambda u, y: math.exp(u**2)), "OverflowError"),
    (lambda: make(lambda u, y: [u, u]), "no number"),
    (lambda: make(lambda u: u), "TypeError"),
]


@pytest.mark.parametrize(("attempt", "words"), FALSE)
def test_false_claims_are_refused(attempt, words):
    with pytest.raises(ParameterError, match=words):
        attempt()


def test_a_refusal_names_the_public_grid_point():
    with pytest.raises(ParameterError, match=r"at margin -?[\d.]+, label -?[\d.]+"):
        make(slope=lambda u, y: huber_slope(u, y) + 0.5 * (u > 2.5), slope_bound=2.0)


BAD = [
    ({"slope_bound": 0.0}, "slope_bound"),
    ({"slope_bound": -1.0}, "slope_bound"),
    ({"slope_bound": math.nan}, "slope_bound"),
    ({"curvature_bound": -1.0}, "curvature_bound"),
    ({"convex": 1}, "convex"),
    ({"labels": "words"}, "labels"),
    ({"hoelder": (1.0, 1.0)}, "hoelder"),
    ({"hoelder": Hoelder(2.0, 1.0)}, "hoelder.alpha"),
    ({"hoelder": Hoelder(1.0, -1.0)}, "hoelder.constant"),
    ({"value_at_zero": "1"}, "value_at_zero"),
    ({"value": 3.0}, "value"),
    ({"slope": None}, "slope"),
]


@pytest.mark.parametrize(("changes", "word"), BAD)
def test_bad_arguments(changes, word):
    with pytest.raises(ParameterError, match=word):
        make(**changes)


# --- the loops ------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("loss", [make(), make(cosh_value, cosh_slope)], ids=["numbers", "arrays"])
def test_compiled_loops_and_references_agree(loss):
    assert isinstance(loss.kernel().function, TwoArgument)
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(400, 4)), rng.normal(size=400)
    norms, weights = np.linalg.norm(X, axis=1), rng.normal(size=4)
    with compiler.implementation(compiled=False):
        reference = slope_sum(X, y, norms, loss.kernel(), weights, 1.5)
        two, _ = sgd_pass(X, y, loss.kernel(), weights, 0.1)
    slopes = loss.slope(X @ weights, y)
    cut = slopes * np.minimum(1, 1.5 / np.maximum(np.abs(slopes) * norms, 1e-300))
    np.testing.assert_allclose(reference, X.T @ cut, rtol=1e-11)
    if compiler.available():
        assert compiler.scalar_function(loss.kernel().function) is not None
        with compiler.implementation(compiled=True):
            fast = slope_sum(X, y, norms, loss.kernel(), weights, 1.5)
            one, _ = sgd_pass(X, y, loss.kernel(), weights, 0.1)
        np.testing.assert_allclose(fast, reference, rtol=1e-12)
        np.testing.assert_allclose(one, two, rtol=1e-12)


def fails_far_out(u, y):  # between the public margins at which a slope is tried
    if 101.0 <= abs(u) <= 600.0:
        raise ValueError("a margin of 123.456 was private")
    return 9.0 * math.tanh(u) if 50.0 < abs(u) < 90.0 else math.tanh(u)


def test_compiled_slopes_are_clipped_and_silent():
    """The same rules in machine code: clipped, NaN for a row on which the function fails."""
    pytest.importorskip("numba")
    loss = make(lambda u, y: math.log(math.cosh(u)), fails_far_out)
    code = compiler.scalar_function(loss.kernel().function)
    found = [code.ctypes(u, 0.0, 0.0, 0.0) for u in (0.3, 60.0, -60.0, 101.0, math.nan)]
    np.testing.assert_allclose(found, [math.tanh(0.3), 1.0, -1.0, math.nan, math.nan])
    np.testing.assert_allclose(
        loss.slope([0.3, 60.0, -60.0, 101.0, math.nan], 0.0),
        [math.tanh(0.3), 1.0, -1.0, math.nan, math.nan],
    )


def test_a_failing_row_counts_for_nothing_and_raises_nothing():
    loss = make(lambda u, y: math.log(math.cosh(u)), fails_far_out)
    X, y = np.array([[1.0], [500.0], [2.0]]), np.zeros(3)
    for compiled in (False, True) if compiler.available() else (False,):
        with compiler.implementation(compiled=compiled):
            total = slope_sum(X, y, np.abs(X[:, 0]), loss.kernel(), np.ones(1), 9.0)
        np.testing.assert_allclose(total, math.tanh(1) + 2 * math.tanh(2), rtol=1e-12)


def test_results_of_a_wrong_shape_are_taken_one_by_one():
    def loses_rows(u, y):
        return huber_slope(u, y) if np.ndim(u) == 0 else np.clip(u - y, -1, 1)[np.abs(u) < 50]

    loss = make(slope=loses_rows)
    assert loss.slope([0.5, 70.0, -0.5], 0.0).tolist() == [0.5, 1.0, -0.5]


def test_warnings_say_nothing_of_the_rows():
    def slope(u, y):
        return np.tanh(u - y) + 0.0 * np.exp(u * (np.abs(u - 5e3) < 1e3))

    loss = make(cosh_value, slope)
    assert np.isnan(loss.slope([5e3], 0.0)).all()  # 0 times inf, without a warning
    rows = PerRowLoss(lambda w, X, y: np.exp(X) - 1.0)
    assert np.isinf(rows.gradients(np.zeros(1), np.array([[1e4]]), [0.0])).all()


def test_python_only_functions_run_as_python():
    class Odd:
        def __call__(self, u, y):
            return {"slope": huber_slope(u, y)}["slope"]

    loss = make(slope=Odd())
    assert loss.slope([0.0, 5.0], 0.0).tolist() == [0.0, 1.0]
    assert float(loss.slope(0.25, 0.0)) == 0.25


def test_records():
    loss = make()
    assert loss == make() != make(name="other")
    assert hash(loss) == hash(make())
    assert repr(loss) == "CustomLoss(name='mine')"
    again = pickle.loads(pickle.dumps(loss))
    assert again == loss
    assert again.slope(0.5, 0.0) == 0.5
    assert again.labels == "real"
    with pytest.raises(AttributeError, match="frozen"):
        loss.convex = False


# --- gradients per row ----------------------------------------------------------------------------


def least_squares(w, X, y):
    return (X @ w - y)[:, None] * X


def half_squares(w, X, y):
    return 0.5 * (X @ w - y) ** 2


def sparse(X):
    counts = np.concatenate([[0], np.cumsum((X != 0).sum(axis=1))])
    return SparseRows(X[X != 0], np.nonzero(X)[1].astype(np.int32), counts, X.shape[1])


def test_per_row_gradients_and_values():
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(7, 3)), rng.normal(size=7), rng.normal(size=3)
    X[X < -0.5] = 0.0
    loss = PerRowLoss(least_squares, value=half_squares, name="mine")
    assert isinstance(loss, VectorLoss)
    for rows in (X, sparse(X)):
        np.testing.assert_allclose(loss.gradients(w, rows, y), (X @ w - y)[:, None] * X)
        np.testing.assert_allclose(loss.value(w, rows, y), 0.5 * (X @ w - y) ** 2)
    np.testing.assert_allclose(loss.gradients(w, X), (X @ w)[:, None] * X)
    assert loss.dimension(3) == 3
    assert loss.gradients(w, X[:0], y[:0]).shape == (0, 3)


def test_per_row_promises_nothing():
    found = PerRowLoss(least_squares).constants(feature=1.0, radius=1.0)
    assert found.lipschitz == found.smoothness == found.weak_convexity == math.inf
    assert not found.convex
    assert found.hessian_rank == FULL_RANK
    convex = PerRowLoss(least_squares, convex=True, name="mine")
    assert convex.constants(feature=1.0).convex
    assert convex.constants(feature=1.0).weak_convexity == 0.0
    assert "mine: convex in the weights" in convex.trusted
    assert len(PerRowLoss(least_squares).trusted) == 1
    assert PerRowLoss(least_squares).structure.kind == "general"


def test_other_dimensions():
    def two_layers(w, X, y):  # 2 features, 5 weights
        return np.hstack([np.tanh(X @ w[:4].reshape(2, 2)), X, X.sum(axis=1, keepdims=True)])

    loss = PerRowLoss(two_layers, dimension=5, features=2)
    assert loss.dimension(2) == 5
    assert loss.gradients(np.zeros(5), np.ones((3, 2)), np.zeros(3)).shape == (3, 5)
    with pytest.raises(ParameterError, match="2 features"):
        loss.dimension(3)
    with pytest.raises(ParameterError, match="pass features="):
        PerRowLoss(two_layers, dimension=5)


def mean_gradient(w, X, y):
    return least_squares(w, X, y) - least_squares(w, X, y).mean(axis=0)


def batch_scaled(w, X, y):
    return least_squares(w, X, y) / len(X)


def shifted(w, X, y):
    return np.roll(least_squares(w, X, y), 1, axis=0)


@pytest.mark.parametrize("function", [mean_gradient, batch_scaled, shifted])
def test_functions_that_mix_rows_are_refused(function):
    with pytest.raises(ParameterError, match="mixes rows"):
        PerRowLoss(function)
    with pytest.raises(ParameterError, match="mixes rows"):
        PerRowLoss(least_squares, value=lambda w, X, y: function(w, X, y).sum(axis=1))


WRONG = [
    (lambda w, X, y: X.sum(axis=0), r"shape \(3, 3\); got shape \(3,\)"),
    (lambda w, X, y: X[:, :1], r"got shape \(3, 1\)"),
    (lambda w, X, y: X.astype(complex), "complex"),
    (lambda w, X, y: X.astype(object), "object"),
    (lambda w, X, y: None, "dtype"),
    (lambda w, X: X, "TypeError"),
    (lambda w, X, y: 1 / 0, "ZeroDivisionError"),
]


@pytest.mark.parametrize(("function", "words"), WRONG)
def test_wrong_results_are_refused_on_public_rows(function, words):
    with pytest.raises(ParameterError, match=words):
        PerRowLoss(function)


def test_bad_per_row_arguments():
    for arguments, word in [
        ({"dimension": 0}, "dimension"),
        ({"dimension": 2.5}, "dimension"),
        ({"features": -1}, "features"),
        ({"convex": "yes"}, "convex"),
        ({"value": 3}, "value"),
    ]:
        with pytest.raises(ParameterError, match=word):
            PerRowLoss(least_squares, **arguments)
    with pytest.raises(ParameterError, match="gradient"):
        PerRowLoss(None)
    loss = PerRowLoss(least_squares)
    with pytest.raises(ParameterError, match="value"):
        loss.value(np.zeros(3), np.zeros((1, 3)), [0.0])
    with pytest.raises(ParameterError, match="3 weights"):
        loss.gradients(np.zeros(2), np.zeros((1, 3)), [0.0])
    with pytest.raises(ParameterError, match="1 labels"):
        loss.gradients(np.zeros(3), np.zeros((1, 3)), [0.0, 1.0])
    with pytest.raises(ParameterError, match="matrix"):
        loss.gradients(np.zeros(3), np.zeros(3), [0.0])


def raises_on_private(w, X, y):
    if np.any(X > 100):
        raise ValueError(f"row with value {X.max()} of patient Smith")
    return least_squares(w, X, y)


def shape_on_private(w, X, y):
    return X[X[:, 0] < 100]


@pytest.mark.parametrize("function", [raises_on_private, shape_on_private])
def test_a_private_row_raises_no_error(function):
    # The row on which the function fails has no gradient; it does not disturb the others.
    loss = PerRowLoss(function, value=lambda w, X, y: function(w, X, y).sum(axis=1), name="mine")
    rows = np.full((3, 3), 0.5)
    rows[1] = 31337.0
    alone = loss.gradients(np.ones(3), rows[[0, 2]], np.zeros(2))
    found = loss.gradients(np.ones(3), rows, np.zeros(3))
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[[0, 2]], alone)
    values = loss.value(np.ones(3), rows, np.zeros(3))
    assert np.isnan(values[1])
    assert np.isfinite(values[[0, 2]]).all()


def test_an_error_on_public_rows_names_its_type_alone():
    def speaks(w, X, y):
        raise ValueError("patient Smith")

    with pytest.raises(ParameterError, match=r"the gradient of mine raised ValueError") as caught:
        PerRowLoss(speaks, name="mine")
    error = caught.value
    assert "Smith" not in "".join(traceback.format_exception(type(error), error, None))


def test_functions_get_copies():
    def greedy(w, X, y):
        X *= 0.0
        y += 1.0
        w += 1.0
        return X

    loss = PerRowLoss(greedy)
    w, X, y = np.ones(3), np.ones((2, 3)), np.ones(2)
    loss.gradients(w, X, y)
    assert w.sum() == 3
    assert X.sum() == 6
    assert y.sum() == 2


def test_per_row_records():
    loss = PerRowLoss(least_squares, name="mine")
    assert loss == PerRowLoss(least_squares, name="mine") != PerRowLoss(least_squares)
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert hash(loss) == hash(PerRowLoss(least_squares, name="mine"))
    assert repr(loss) == "PerRowLoss(name='mine')"
    with pytest.raises(AttributeError, match="frozen"):
        loss.name = "other"


def test_warnings_of_a_users_function_do_not_leave():
    """Its words may hold a private value. (In this suite a warning is an error.)"""

    def chatty(margin, label):
        if np.any(np.abs(margin - 200.0) < 50.0):  # between the public margins
            warnings.warn(f"odd margin {margin}", stacklevel=1)
        return np.tanh(margin - label)

    loss = CustomLoss(
        lambda u, y: np.logaddexp(u - y, y - u), chatty, slope_bound=1.0, convex=True, labels="real"
    )
    assert loss.slope(np.array([1.0, 200.0]), np.zeros(2))[1] == 1.0
    assert loss.slope(200.0, 0.0) == 1.0

    def gradient(w, X, y):
        warnings.warn(f"row {X}", stacklevel=1)
        return X

    assert PerRowLoss(gradient).gradients(np.zeros(2), np.ones((1, 2)), [0.0]).tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("slope", "words"),
    [
        (lambda u, y: -y / (1.0 + math.exp(y * u)), "no number: OverflowError.*every finite"),
        (lambda u, y: -y / (1.0 + np.exp(y * u)) + 0.0 * np.exp(u), "must be finite"),
    ],
)
def test_a_slope_must_be_defined_far_away_too(slope, words):
    """It would count as 0 there, in one loop and not in the other, and be monotone no longer."""
    with pytest.raises(ParameterError, match=words):
        CustomLoss(
            lambda u, y: np.logaddexp(0.0, -y * u),
            slope,
            slope_bound=1.0,
            convex=True,
            labels="sign",
        )


def test_claims_are_searched_far_away_too():
    def turns(u, y):
        return np.tanh(u - y) * (abs(u) < 50.0)

    def value(u, y):
        return np.log(np.cosh(np.minimum(np.abs(u - y), 300.0)))

    with pytest.raises(ParameterError, match=r"is not convex.*between margins"):
        CustomLoss(value, turns, slope_bound=1.0, convex=True, labels="real")
    with pytest.raises(ParameterError, match="slope_bound"):
        CustomLoss(
            value, lambda u, y: np.tanh(u - y) + 1.0 * (u > 50.0), slope_bound=1.0, convex=True,
            labels="real",
        )  # fmt: skip
