"""Certified minimisers: against a conic solver, with true distances within the certified ones."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco import losses
from dpsco.geometry.domains import Box, L2Ball, WholeSpace
from dpsco.kernels.dual import Duals, dual_pass
from dpsco.solvers.dual_ascent import Regularised, least_distance

LOSSES = {
    "absolute": losses.Absolute(),
    "hinge": losses.Hinge(),
    "pinball": losses.Pinball(0.3),
    "logistic": losses.Logistic(),
    "huber": losses.Huber(0.4),
    "squared": losses.Squared(),
}
DOMAINS = {"free": WholeSpace(), "ball": L2Ball(0.3), "box": Box([-0.2] * 3, [0.2] * 3)}


def rows(loss, n=50, d=3, seed=0, feature=1.0):
    rng = np.random.default_rng(seed)
    X = feature * rng.standard_normal((n, d)) / math.sqrt(d)
    margin = X @ np.linspace(1.0, 2.0, d)
    y = np.sign(margin + 0.3) if loss.labels == "sign" else margin + 0.2 * rng.standard_normal(n)
    label = "sign" if loss.labels == "sign" else 3.0
    bounds = dp.Bounds(feature, label=label)
    return dp.data.from_arrays(X, y).bounded(bounds, order="stream").rows()


def reference(loss, domain, block, centre, clip, ridge):
    """Return the minimiser by a conic solver; clipped slopes as the infimal convolution."""
    cp = pytest.importorskip("cvxpy")
    m, d = block.rows.shape
    w, caps = cp.Variable(d), clip / np.maximum(block.norms, 1e-12)
    binds = isinstance(loss, losses.Squared) or np.any(caps < 1.0)
    shift = cp.Variable(m) if binds else np.zeros(m)
    u, y = block.rows @ w - shift, block.labels
    value = {
        losses.Absolute: lambda: cp.abs(u - y),
        losses.Hinge: lambda: cp.pos(1 - cp.multiply(y, u)),
        losses.Pinball: lambda: cp.maximum(0.3 * (y - u), -0.7 * (y - u)),
        losses.Logistic: lambda: cp.logistic(-cp.multiply(y, u)),
        losses.Huber: lambda: 0.5 * cp.huber(u - y, 0.4),
        losses.Squared: lambda: 0.5 * cp.square(u - y),
    }[type(loss)]()
    total = cp.sum(value + cp.multiply(caps, cp.abs(shift))) / m
    total += ridge / 2 * cp.sum_squares(w - centre)
    limits = []
    if isinstance(domain, L2Ball):
        limits = [cp.norm(w) <= 0.3]
    elif isinstance(domain, Box):
        limits = [cp.abs(w) <= 0.2]
    cp.Problem(cp.Minimize(total), limits).solve(
        solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9
    )
    return np.asarray(w.value)


@pytest.mark.parametrize("clip", [0.4, 5.0])
@pytest.mark.parametrize("where", DOMAINS)
@pytest.mark.parametrize("name", LOSSES)
def test_reaches_the_minimiser(name, where, clip):
    loss, domain, ridge, centre = LOSSES[name], DOMAINS[where], 0.05, np.array([0.1, -0.1, 0.0])
    block = rows(loss)
    mean = Regularised(loss, domain, clip, ridge)
    found, passes = mean.minimise(block, centre, distance=1e-5, compiled=False)
    best = reference(loss, domain, block, centre, clip, ridge)
    assert np.linalg.norm(found - best) <= 1.2e-5  # the reference is good to about 1e-6
    assert np.linalg.norm(found - centre) > 0.05  # the rows have moved it
    assert np.allclose(domain.project(found), found, rtol=0.0, atol=1e-15)
    assert passes > 1


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(LOSSES)),
    seed=st.integers(0, 1000),
    clip=st.floats(0.05, 3.0),
    ridge=st.floats(0.02, 5.0),
    passes=st.integers(1, 4),
)
def test_gap_bounds_the_distance_wherever_it_stops(name, seed, clip, ridge, passes):
    """After any number of passes: |w - minimiser|^2 <= 2 gap / ridge, minimiser to 1e-6."""
    loss = LOSSES[name]
    block = rows(loss, n=15, seed=seed)
    mean = Regularised(loss, WholeSpace(), clip, ridge)
    scale, w, duals = 1.0 / (ridge * len(block)), np.zeros(3), Duals.zeros(len(block))
    for _ in range(passes):
        w = dual_pass(
            block.rows,
            block.labels,
            loss.kernel(),
            w,
            duals,
            norms=block.norms,
            clip=clip,
            scale=scale,
            compiled=False,
        )
    best, _ = mean.minimise(block, np.zeros(3), distance=1e-6, compiled=False)
    bound = math.sqrt(2.0 * mean.gap(block, w, duals) / ridge)
    assert np.linalg.norm(w - best) <= bound + 2e-6


@pytest.mark.parametrize("clip", [0.2, 5.0])
def test_gap_of_the_absolute_loss(clip):
    """P - D by hand: the clipped loss is cap |u - y|, its conjugate a y for |a| <= cap."""
    block, ridge = rows(LOSSES["absolute"]), 0.1
    mean = Regularised(LOSSES["absolute"], WholeSpace(), clip, ridge)
    duals, scale = Duals.zeros(len(block)), 1.0 / (ridge * len(block))
    assert not mean.gap(block, np.zeros(3), duals) < math.inf  # nothing is known yet
    w = dual_pass(
        block.rows,
        block.labels,
        mean.loss.kernel(),
        np.zeros(3),
        duals,
        norms=block.norms,
        clip=clip,
        scale=scale,
        compiled=False,
    )
    caps = np.minimum(clip / block.norms, 1.0)
    off = block.rows @ w - block.labels
    primal = np.mean(caps * np.abs(off)) + ridge / 2 * w @ w
    dual = -np.mean(duals.values * block.labels) - ridge / 2 * w @ w
    by_slopes = np.abs(caps * np.sign(off) - duals.values) * np.abs(
        off + block.labels - duals.places
    )
    assert mean.gap(block, w, duals) == pytest.approx(np.mean(by_slopes), rel=1e-9)
    assert primal - dual <= np.mean(by_slopes) <= 4 * (primal - dual)


def test_stops_at_half_of_the_gap_that_suffices(monkeypatch):
    """ridge/2 distance^2 certifies; half of it is kept for rounding; no pass is taken in vain."""
    seen, gap = [], Regularised.gap

    def spied(self, *arguments):
        seen.append(gap(self, *arguments))
        return seen[-1]

    monkeypatch.setattr(Regularised, "gap", spied)
    mean = Regularised(LOSSES["hinge"], WholeSpace(), 1.0, 0.05)
    _, passes = mean.minimise(rows(LOSSES["hinge"]), np.zeros(3), distance=0.01, compiled=False)
    target = 0.05 / 4 * 0.01**2
    assert passes == len(seen) > 2
    assert seen[-1] <= target < min(seen[:-1])


@pytest.mark.parametrize("name", ["absolute", "hinge", "logistic"])
@pytest.mark.parametrize("adversary", ["random", "same row", "far centre", "one direction"])
def test_ends_at_the_least_distance(name, adversary):
    """The distance that rounding still allows is reached, and kept, on unfriendly rows too."""
    loss, ridge, clip = LOSSES[name], 0.5, 1.0
    block, centre = rows(loss, n=40), np.zeros(3)
    if adversary == "same row":
        block = block.take(np.zeros(40, dtype=np.int64))
    if adversary == "far centre":
        centre = np.array([1e6, -1e6, 1e6])
    if adversary == "one direction":
        X = np.tile([0.9, 0.3, 0.1], (40, 1)) * np.linspace(-1, 1, 40)[:, None]
        bounds = dp.Bounds(1.0, label="sign" if loss.labels == "sign" else 3.0)
        block = dp.data.from_arrays(X, block.labels).bounded(bounds, order="stream").rows()
    reach = float(np.linalg.norm(centre))
    reach += clip / ridge
    distance = least_distance(clip=clip, ridge=ridge, reach=reach, d=3, steepness=0.0)
    mean = Regularised(loss, WholeSpace(), clip, ridge)
    tight, _ = mean.minimise(block, centre, distance=distance, compiled=False)
    loose, _ = mean.minimise(block, centre, distance=100 * distance, compiled=False)
    assert np.linalg.norm(tight - loose) <= 101 * distance
    assert distance < 1e-4 * (1.0 + reach)


def test_least_distance_is_a_length():
    """It scales with the lengths: other units of weights (clip 1/c, ridge 1/c^2) change nothing."""

    def least(clip=1.0, ridge=0.3, reach=2.0, d=10, steepness=0.0):
        return least_distance(clip=clip, ridge=ridge, reach=reach, d=d, steepness=steepness)

    assert least(clip=0.1, ridge=0.003, reach=20.0) == pytest.approx(10 * least())
    assert least(steepness=1.0) == least()
    assert least(reach=4.0) > least()
    assert least(d=1000) > least()
    assert least(steepness=100.0) > 5 * least()
    # 4 (2 clip error / ridge) with error >= (12 2^-53 + 2^-47) reach, by hand
    assert least() >= math.sqrt(8 * (12 * 2.0**-53 + 2.0**-47) * 2 / 0.3)


def test_rows_that_are_all_missing():
    block = rows(LOSSES["absolute"], n=6)
    empty = dp.data.from_arrays(np.full((6, 3), np.nan), block.labels)
    nothing = empty.bounded(dp.Bounds(1.0, label=3.0), order="stream").rows()
    mean, centre = Regularised(LOSSES["absolute"], WholeSpace(), 1.0, 0.1), np.ones(3)
    found, passes = mean.minimise(nothing, centre, distance=1e-3, compiled=False)
    assert np.array_equal(found, centre)
    assert passes == 1
