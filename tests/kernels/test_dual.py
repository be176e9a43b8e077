"""Steps of dual coordinate ascent: closed forms, both implementations, and what certifies them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse as scipy_sparse

from dpsco import losses
from dpsco.kernels import compiler
from dpsco.kernels.dual import Duals, dual_pass
from dpsco.kernels.rows import SparseRows
from dpsco.kernels.slope import smoothed_slope

LOSSES = {
    "absolute": losses.Absolute(),
    "hinge": losses.Hinge(),
    "pinball": losses.Pinball(0.3),
    "insensitive": losses.Insensitive(0.1),
    "logistic": losses.Logistic(),
    "huber": losses.Huber(0.4),
    "squared": losses.Squared(),
    "power": losses.QPower(1.5),
    "smoothed": losses.Smoothed(losses.Logistic(), 2.0),
}
BOTH = [False, pytest.param(True, marks=pytest.mark.skipif(not compiler.available(), reason=""))]


def problem(loss, seed=0, n=40, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * rng.choice([0.1, 1.0], (n, 1))
    X[3] = 0.0
    y = rng.choice([-1.0, 1.0], n) if loss.labels == "sign" else rng.uniform(-1.0, 1.0, n)
    return X, y, np.linalg.norm(X, axis=1)


def one_pass(loss, X, y, norms, weights, duals, *, clip=1.0, scale=0.05, compiled=False):
    return dual_pass(
        X, y, loss.kernel(), weights, duals, norms=norms, clip=clip, scale=scale, compiled=compiled
    )


def start(n, d):
    return Duals.zeros(n), np.linspace(-0.5, 0.5, d)


# -- closed forms ----------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", BOTH)
@pytest.mark.parametrize("name", ["absolute", "hinge", "huber", "squared"])
def test_steps_have_their_closed_form(name, compiled):
    """Replayed by formula: a = clip(a + (gap to the kink) / q), and the shrinkage of a square."""
    loss, scale = LOSSES[name], 0.05
    X, y, norms = problem(loss)
    duals, w = start(*X.shape)
    expected, a = w.copy(), np.zeros(len(X))
    for _ in range(3):
        w = one_pass(loss, X, y, norms, w, duals, clip=np.inf, scale=scale, compiled=compiled)
        for i, x in enumerate(X):
            q = scale * float(x @ x)
            base = x @ expected + a[i] * q
            if q == 0.0:
                continue
            new = {
                "absolute": lambda b, q, y: np.clip((b - y) / q, -1.0, 1.0),
                "hinge": lambda b, q, y: -y * np.clip((1.0 - y * b) / q, 0.0, 1.0),
                "huber": lambda b, q, y: np.clip((b - y) / (1.0 + q), -0.4, 0.4),
                "squared": lambda b, q, y: (b - y) / (1.0 + q),
            }[name](base, q, y[i])
            expected = expected - scale * (new - a[i]) * x
            a[i] = new
    moving = norms > 0.0
    assert np.allclose(duals.values[moving], a[moving], rtol=0.0, atol=1e-12)
    assert np.allclose(w, expected, rtol=0.0, atol=1e-12)
    assert np.abs(a).max() > 0.1


# -- both implementations --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not compiler.available(), reason="needs Numba")
@pytest.mark.parametrize("name", LOSSES)
def test_compiled_equals_twin(name):
    loss = LOSSES[name]
    X, y, norms = problem(loss)
    kinds = [X, X.astype(np.float32)]
    found = []
    for rows, compiled, thin in itertools.product(kinds, (False, True), (False, True)):
        duals, w = start(*X.shape)
        given_rows = rows
        if thin:
            matrix = scipy_sparse.csr_matrix(rows)
            given_rows = SparseRows(
                matrix.data,
                matrix.indices.astype(np.int32),
                matrix.indptr.astype(np.int64),
                X.shape[1],
            )
        for _ in range(2):
            w = one_pass(loss, given_rows, y, norms, w, duals, compiled=compiled)
        found.append((rows.dtype, w, duals.values.copy(), duals.places.copy()))
    for dtype in (np.float64, np.float32):
        same = [item[1:] for item in found if item[0] == dtype]
        for other in same[1:]:
            for one, two in zip(same[0], other, strict=True):
                assert np.allclose(one, two, rtol=0.0, atol=1e-11)


def test_arguments_are_left_alone():
    loss = LOSSES["absolute"]
    X, y, norms = problem(loss)
    duals, w = start(*X.shape)
    kept = w.copy()
    moved = one_pass(loss, X, y, norms, w, duals)
    assert np.array_equal(w, kept)
    assert not np.array_equal(moved, kept)


# -- what certifies --------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(LOSSES)),
    seed=st.integers(0, 10_000),
    clip=st.floats(1e-3, 3.0),
    scale=st.floats(1e-4, 10.0),
)
def test_duals_are_slopes_at_their_places(name, seed, clip, scale):
    """Slopes a width below and above the place have the dual between them; none exceeds its cap."""
    loss = LOSSES[name]
    X, y, norms = problem(loss, seed, n=12)
    duals, w = start(*X.shape)
    for _ in range(2):
        w = one_pass(loss, X, y, norms, w, duals, clip=clip, scale=scale)
    assert np.all(np.abs(duals.values) * norms <= clip)
    caps = clip / np.maximum(norms, 1e-300)

    def slope(margin):
        return np.clip(smoothed_slope(loss.kernel(), margin, y), -caps, caps)

    room = duals.widths + 1e-13 * (1.0 + np.abs(duals.places))
    error = 1e-12 * (1.0 + np.abs(duals.values))
    assert np.all(slope(duals.places - room) <= duals.values + error)
    assert np.all(slope(duals.places + room) >= duals.values - error)


def test_null_rows_move_nothing():
    loss = LOSSES["hinge"]
    duals, w = Duals.zeros(3), np.array([0.3, -0.2])
    moved = one_pass(loss, np.zeros((3, 2)), np.ones(3), np.zeros(3), w, duals)
    assert np.array_equal(moved, w)
    assert np.array_equal(duals.widths, np.zeros(3))


def test_nothing_is_certified_before_the_first_pass():
    assert np.all(np.isinf(Duals.zeros(5).widths))
