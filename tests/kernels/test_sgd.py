"""Sequential steps: both implementations against the plain recursion, with every option."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import MissingExtraError, ParameterError
from dpsco.kernels import compiler, sparse
from dpsco.kernels.rows import SparseRows
from dpsco.kernels.sgd import sgd_pass
from dpsco.kernels.slope import Slope, smoothed_slope, two_argument

TOLERANCE = 1e-12


def logistic(margin, label, first, second):
    return -label / (1.0 + np.exp(np.minimum(label * margin, 700.0)))


def hinge(margin, label, first, second):
    return -label * (label * margin < 1.0)


def huber(margin, label, first, second):
    return np.minimum(np.maximum(margin - label, -first), first)


def power(margin, label, first, second):
    r = margin - label
    return first * np.sign(r) * np.power(np.abs(r), first - 1.0)


def overflowing(margin, label, first, second):
    return (1e200 * margin) ** 2 / (label - 1.0)  # inf for a label of 1, else huge or inf


def users_branches(margin, label):
    if margin > label:
        return 0.25 * (margin - label)
    return -1 if margin < label - 2 else 0.5 * (margin - label)


def users_python(margin, label):
    return float(str(0.5 * (margin - label)))  # nothing that Numba understands


SLOPES = {
    "logistic": Slope(logistic),
    "hinge": Slope(hinge),
    "huber": Slope(huber, 0.5),
    "power": Slope(power, 1.5),
    "overflowing": Slope(overflowing),
    "smoothed hinge": Slope(hinge, smoothing=0.7, bound=1.0),
    "smoothed logistic": Slope(logistic, smoothing=3.0, bound=1.0),
    "user": Slope(two_argument(users_branches)),
    "user, Python only": Slope(two_argument(users_python)),
}


def sparse_rows(X: np.ndarray) -> SparseRows:
    kept = X != 0.0
    offsets = np.concatenate(([0], np.cumsum(kept.sum(axis=1)))).astype(np.int64)
    return SparseRows(X[kept], np.nonzero(kept)[1].astype(np.int32), offsets, X.shape[1])


def problem(n: int, d: int, dtype: Any = np.float64, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)).astype(dtype)
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0), rng


def envelope(slope: Slope, margin: float, label: float) -> float:
    """The slope that the loops must use, by bisection in the point rather than in the slope."""
    if slope.smoothing == 0.0:
        return float(slope(margin, label))
    low, high = (margin + s * slope.bound / slope.smoothing for s in (-1.0, 1.0))
    for _ in range(80):
        point = 0.5 * (low + high)
        if slope(point, label) + slope.smoothing * (point - margin) > 0.0:
            high = point
        else:
            low = point
    return slope.smoothing * (margin - 0.5 * (low + high))


def recursion(X, y, slope, w, steps, **options):
    """The formula of the module, one step at a time with nothing clever."""
    steps = np.broadcast_to(steps, len(X))
    centre = options.get("centre", np.zeros(X.shape[1]))
    radius, total, w = options.get("radius", math.inf), np.zeros(X.shape[1]), w.copy()
    for i in range(len(X)):
        x = X[i].astype(np.float64)
        total += w
        with np.errstate(all="ignore"):
            g = envelope(slope, np.float64(np.dot(x, w)), y[i])
        g = g if math.isfinite(g) else 0.0
        if options.get("clip", math.inf) < math.inf:
            bound = options["clip"] / options["norms"][i] if options["norms"][i] else math.inf
            g = min(max(g, -bound), bound)
        w = (1.0 - steps[i] * options.get("ridge", 0.0)) * w - steps[i] * (g * x)
        distance = np.linalg.norm(w - centre)
        if distance > radius:
            w = centre + (w - centre) * (radius / distance)
    return w, total


def assert_close(found, expected, tolerance=TOLERANCE):
    for one, other in zip(found, expected, strict=True):
        scale = max(np.max(np.abs(other), initial=0.0), 1e-300)
        assert np.max(np.abs(one - other), initial=0.0) <= tolerance * scale


def options(name: str, d: int, X: np.ndarray, rng) -> dict[str, Any]:
    norms = np.linalg.norm(X.astype(np.float64), axis=1) * (1 + 1e-9)
    centre = rng.standard_normal(d)
    return {
        "plain": {},
        "ridge": {"ridge": 0.3},
        "ball": {"radius": 0.4},
        "centre": {"radius": 0.5, "centre": centre, "ridge": 0.2},
        "far centre": {"radius": 0.01, "centre": 1e3 * centre},
        "clip": {"clip": 0.3, "norms": norms},
        "all": {
            "ridge": 0.1,
            "radius": 0.9,
            "centre": 0.3 * centre,
            "clip": 0.5,
            "norms": norms,
        },
    }[name]


NAMES = ["plain", "ridge", "ball", "centre", "far centre", "clip", "all"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("name", NAMES)
def test_every_option(name, form, dtype, compiled):
    X, y, rng = problem(150, 23, dtype)
    chosen = options(name, 23, X, rng)
    start = 0.1 * rng.standard_normal(23)
    for slope in (SLOPES["logistic"], SLOPES["smoothed hinge"]):
        for steps in (0.2, 0.4 * rng.random(150)):
            rows = X if form == "dense" else sparse_rows(X)
            before = start.copy()
            found = sgd_pass(rows, y, slope, start, steps, **chosen)
            assert_close(found, recursion(X, y, slope, start, steps, **chosen))
            np.testing.assert_array_equal(start, before)


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("name", SLOPES)
def test_every_slope(name, form, compiled):
    X, y, rng = problem(120, 9, seed=3)
    rows = X if form == "dense" else sparse_rows(X)
    start = rng.standard_normal(9)
    chosen = {"radius": 2.0, "clip": 2.0, "norms": np.linalg.norm(X, axis=1) + 1e-9}
    found = sgd_pass(rows, y, SLOPES[name], start, 0.1, **chosen)
    assert_close(found, recursion(X, y, SLOPES[name], start, 0.1, **chosen))
    assert np.all(np.isfinite(found))


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize(("n", "d"), [(0, 3), (1, 3), (1, 1), (40, 1), (5, 17)])
def test_edges_of_size(n, d, form, compiled):
    X, y, rng = problem(n, d, seed=n + d)
    rows = X if form == "dense" else sparse_rows(X)
    start = rng.standard_normal(d)
    chosen = {"radius": 1.0, "centre": np.full(d, 1.7), "ridge": 0.5}
    found = sgd_pass(rows, y, SLOPES["logistic"], start, 0.3, **chosen)
    assert_close(found, recursion(X, y, SLOPES["logistic"], start, 0.3, **chosen))


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_without_rows_no_step_is_taken(form, compiled):
    X, y, _ = problem(0, 3)
    rows = X if form == "dense" else sparse_rows(X)
    start = np.array([5.0, 0.0, 0.0])
    last, total = sgd_pass(rows, y, SLOPES["hinge"], start, 0.1, radius=1.0)
    np.testing.assert_array_equal(last, start)
    np.testing.assert_array_equal(total, np.zeros(3))


def test_empty_rows_do_not_move_the_weights(compiled):
    X, y = np.zeros((6, 4)), np.ones(6)
    for rows in (X, sparse_rows(X)):
        last, total = sgd_pass(rows, y, SLOPES["hinge"], np.ones(4), 0.5)
        np.testing.assert_array_equal(last, np.ones(4))
        np.testing.assert_array_equal(total, np.full(4, 6.0))


def test_average_after_each_step_follows_from_the_sum(compiled):
    X, y, rng = problem(30, 4)
    start, after = rng.standard_normal(4), []
    w = start
    for i in range(30):
        w, _ = recursion(X[i : i + 1], y[i : i + 1], SLOPES["logistic"], w, 0.2)
        after.append(w)
    last, total = sgd_pass(X, y, SLOPES["logistic"], start, 0.2)
    assert_close([(total + last - start) / 30], [np.mean(after, axis=0)])


@pytest.mark.parametrize(
    ("steps", "ridge"),
    [
        (1.0 / np.arange(1, 401), 1.0),  # the first step wipes out the weights: 1 - step ridge = 0
        (np.full(400, 0.9), 1.0),  # scales fall by 10 at every step
        (np.full(400, 3.0), 1.0),  # and grow, with changing sign
        (np.full(400, 1e-3), 1e-3),
    ],
)
def test_lazy_scaling_survives_any_shrinking(steps, ridge, compiled):
    X, y, rng = problem(400, 12, seed=5)
    start, centre = rng.standard_normal(12), rng.standard_normal(12)
    for chosen in ({"radius": 10.0}, {"radius": 2.0, "centre": centre}, {"radius": 0.0}, {}):
        if not chosen and steps[0] == 3.0:
            continue  # grows without bound
        found = sgd_pass(
            sparse_rows(X),
            y,
            SLOPES["hinge"],
            start,
            steps,
            ridge=ridge,
            **chosen,
        )
        dense = sgd_pass(X, y, SLOPES["hinge"], start, steps, ridge=ridge, **chosen)
        assert_close(found, dense)


@pytest.mark.parametrize("centred", [False, True])
def test_no_drift_in_a_million_sparse_steps(centred):
    pytest.importorskip("numba")
    X, y, rng = problem(2000, 30, seed=8)
    order = rng.integers(0, 2000, 1_000_000)
    X, y, chosen = X[order], y[order], {"radius": 0.5, "ridge": 1e-3}
    if centred:
        chosen["centre"] = rng.standard_normal(30)
    start = np.zeros(30)
    with compiler.implementation(compiled=True):
        dense = sgd_pass(X, y, SLOPES["logistic"], start, 0.5, **chosen)
        lazy = sgd_pass(sparse_rows(X), y, SLOPES["logistic"], start, 0.5, **chosen)
    assert_close(lazy, dense)


@pytest.mark.thorough
def test_norms_are_refreshed(monkeypatch):
    # Without settlements, rounding in the recurrence of ||v||^2 does show: the test can fail.
    X, y, rng = problem(500, 6, seed=8)
    X *= np.exp(rng.normal(0.0, 6.0, (500, 1)))  # long rows throw v far, the ball takes it back
    order = rng.integers(0, 500, 20_000)
    X, chosen = X[order], {"radius": 1.0}
    args = (y[order], SLOPES["hinge"], np.zeros(6), 1.0)
    dense = sgd_pass(X, *args, **chosen)
    assert_close(sgd_pass(sparse_rows(X), *args, **chosen), dense, 1e-9)
    monkeypatch.setattr(sparse, "RANGE", 1e300)
    monkeypatch.setattr(sparse, "interval", lambda d: 10**9)
    with pytest.raises(AssertionError):
        assert_close(sgd_pass(sparse_rows(X), *args, **chosen), dense, 1e-9)


def test_sparse_steps_cost_their_entries_only():
    """A million columns, a few entries a row: O(d) steps would take minutes."""
    rng = np.random.default_rng(0)
    d, n, nnz = 1_000_000, 300, 5
    columns = np.sort(rng.integers(0, d, (n, nnz)), axis=1).astype(np.int32).reshape(-1)
    rows = SparseRows(rng.random(n * nnz), columns, np.arange(n + 1, dtype=np.int64) * nnz, d)
    last, _ = sgd_pass(rows, np.ones(n), SLOPES["hinge"], np.zeros(d), 0.1)
    touched = np.unique(columns)
    narrow = SparseRows(
        rows.values, np.searchsorted(touched, columns).astype(np.int32), rows.offsets, len(touched)
    )
    small, _ = sgd_pass(narrow, np.ones(n), SLOPES["hinge"], np.zeros(len(touched)), 0.1)
    np.testing.assert_allclose(last[touched], small, rtol=1e-13)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_jobs_agree(data):
    pytest.importorskip("numba")
    n, d = data.draw(st.integers(0, 40)), data.draw(st.integers(1, 20))
    X, y, rng = problem(n, d, seed=data.draw(st.integers(0, 10**6)))
    chosen: dict[str, Any] = {
        "ridge": data.draw(st.sampled_from([0.0, 0.1, 2.0])),
        "radius": data.draw(st.sampled_from([0.0, 0.3, 2.0, math.inf])),
    }
    if data.draw(st.booleans()):
        chosen["centre"] = rng.standard_normal(d)
    if data.draw(st.booleans()):
        chosen |= {"clip": data.draw(st.sampled_from([0.0, 0.1, 3.0])), "norms": 5 * rng.random(n)}
    steps = data.draw(st.sampled_from([0.5, None]))
    steps = rng.random(n) if steps is None else steps
    start, slope = rng.standard_normal(d), SLOPES["huber"]
    rows = [X, sparse_rows(X)]
    found = []
    for form, compiled in itertools.product(rows, (False, True)):
        with compiler.implementation(compiled=compiled):
            found.append(sgd_pass(form, y, slope, start, steps, **chosen))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-10, atol=1e-12)


def test_the_choice_depends_on_the_job_alone(monkeypatch):
    monkeypatch.delenv("DPSCO_COMPILED", raising=False)
    monkeypatch.setattr(compiler, "_installed", lambda: True)
    assert not compiler.use_compiled(0.9 * compiler.COMPILE_THRESHOLD)
    assert compiler.use_compiled(1.1 * compiler.COMPILE_THRESHOLD)
    monkeypatch.setenv("DPSCO_COMPILED", "1")
    assert compiler.use_compiled(0.0)
    monkeypatch.setenv("DPSCO_COMPILED", "0")
    assert not compiler.use_compiled(1e9)


def test_a_decision_holds_within_its_block_and_thread(monkeypatch):
    monkeypatch.delenv("DPSCO_COMPILED", raising=False)
    monkeypatch.setattr(compiler, "_installed", lambda: True)
    with compiler.implementation(compiled=True):
        assert compiler.use_compiled(0.0)
        with compiler.implementation(compiled=False):
            assert not compiler.use_compiled(1e9)
        assert compiler.use_compiled(0.0)
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(compiler.use_compiled, 0.0).result()
        with pytest.raises(ZeroDivisionError), compiler.implementation(compiled=False):
            _ = 1 / 0
        assert compiler.use_compiled(0.0)
    assert not compiler.use_compiled(0.0)
    monkeypatch.setenv("DPSCO_COMPILED", "0")
    demanded = compiler.implementation(compiled=True)
    with pytest.raises(MissingExtraError, match=r"dpsco\[fast\]"), demanded:
        pass


def test_without_numba_the_reference_serves(monkeypatch):
    monkeypatch.setattr(compiler, "_installed", lambda: False)
    X, y, _ = problem(5, 3)
    sgd_pass(X, y, SLOPES["hinge"], np.zeros(3), 0.1)
    demanded = compiler.implementation(compiled=True)
    with pytest.raises(MissingExtraError, match=r"dpsco\[fast\]"), demanded:
        sgd_pass(X, y, SLOPES["hinge"], np.zeros(3), 0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.ones(3)}, "labels must be a vector of length 4"),
        ({"weights": np.zeros(3)}, "weights must be a vector of length 2"),
        ({"steps": np.ones(3)}, "steps must be a vector of length 4"),
        ({"rows": np.ones((4, 2), dtype=int)}, "float32 or float64"),
        ({"rows": np.ones(4)}, "two-dimensional"),
        ({"clip": 1.0}, "needs norms"),
        ({"clip": -1.0, "norms": np.ones(4)}, "clip must be zero or positive"),
        ({"clip": 1.0, "norms": np.ones(2)}, "norms must be a vector of length 4"),
        ({"ridge": -1.0}, "ridge"),
        ({"radius": -1.0}, "radius"),
        ({"centre": np.zeros(1)}, "centre must be a vector of length 2"),
        ({"slope": Slope(hinge, smoothing=1.0)}, "finite slope bound"),
        ({"slope": Slope(hinge, smoothing=-1.0, bound=1.0)}, "smoothing"),
    ],
)
def test_refusals(change, message):
    job = {
        "rows": np.ones((4, 2)),
        "labels": np.ones(4),
        "slope": Slope(hinge),
        "weights": np.zeros(2),
        "steps": 0.1,
    } | change
    with pytest.raises(ParameterError, match=message):
        sgd_pass(**job)


def test_overflow_on_sparse_rows_ends_in_the_ball(compiled):
    """A recurrence that holds no number must not switch the projection off."""
    values, columns = np.tile([1e200, 1.0], 3), np.tile(np.array([0, 1], dtype=np.int32), 3)
    rows = SparseRows(values, columns, np.array([0, 2, 4, 6]), 2)
    slope = Slope(two_argument(lambda margin, label: -label))
    last, _ = sgd_pass(rows, np.ones(3), slope, np.zeros(2), 1.0, radius=1.0)
    assert np.linalg.norm(last) <= 1.0 + 1e-12


@pytest.mark.parametrize("ratio", [1e4, 1e6, 1e8])
def test_a_far_centre_with_ridge_on_sparse_rows(compiled, ratio):
    """The squared distance from a far centre would be lost in a difference of large squares."""
    rng = np.random.default_rng(5)
    n, d = 60, 40
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.3)
    centre = np.full(d, ratio / math.sqrt(d))
    y = rng.standard_normal(n)
    slope = Slope(two_argument(lambda margin, label: -5.0 if label > 0 else -4.0))
    X, y = np.tile(X, (5, 1)), np.tile(y, 5)
    options = {"ridge": 1e-3, "radius": 1.0, "centre": centre}
    sparse = sgd_pass(sparse_rows(X), y, slope, centre, 0.05, **options)
    with compiler.implementation(compiled=False):
        dense = sgd_pass(X, y, slope, centre, 0.05, **options)
    assert np.linalg.norm(sparse[0] - centre) <= 1.0 + 1e-6
    np.testing.assert_allclose(sparse[0] - centre, dense[0] - centre, atol=1e-13 * ratio)


def test_a_slope_that_is_not_a_number_counts_as_none_also_when_smoothed(compiled):
    def broken(margin, label):
        return margin * np.nan if abs(margin) > 2.0 else np.tanh(margin)

    slope = Slope(two_argument(broken), smoothing=4.0, bound=1.0)
    for start in (3.0, -3.0):
        last, _ = sgd_pass(np.ones((2, 1)), np.zeros(2), slope, np.full(1, start), 0.1)
        assert last[0] == start
    assert np.isnan(smoothed_slope(slope, [3.0, -3.0], [0.0, 0.0])).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [("radius", 1e-101), ("radius", 1e101), ("steps", math.nan), ("steps", math.inf)],
)
def test_numbers_whose_squares_are_none_are_refused(name, value):
    arguments = {"steps": 0.1, "radius": 1.0, name: value}
    steps = arguments.pop("steps")
    with pytest.raises(ParameterError, match=name):
        sgd_pass(
            np.eye(2), np.ones(2), Slope(two_argument(np.add)), np.zeros(2), steps, **arguments
        )


def test_rows_of_the_other_byte_order(compiled):
    X = np.arange(6.0).reshape(3, 2)
    slope = Slope(two_argument(lambda margin, label: margin - label))
    found = sgd_pass(X.astype(">f8"), np.ones(3), slope, np.zeros(2), 0.01)
    right = sgd_pass(X, np.ones(3), slope, np.zeros(2), 0.01)
    np.testing.assert_array_equal(found[0], right[0])
