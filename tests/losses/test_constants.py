"""Declared constants: the known table, a search for a violation, and attainment."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpsco import losses

EPS = 2.0**-52
# A grid without mercy: from the smallest to the largest floats.
MARGINS = np.concatenate(
    [-np.geomspace(1e308, 5e-324, 200), [0.0], np.geomspace(5e-324, 1e308, 200)]
)

# --- known answers: the table of constants, X = 1.7, Y = 1.3, R = 0.8 ----------------------------

# loss, alpha, H, H X^(1 + alpha), sup |gradient| at 0, sup value at 0, sup |gradient| on the ball
TABLE = [
    (losses.QHinge(1.0), 0.0, 1.0, 1.7, 1.7, 1.0, 1.7),
    (losses.QHinge(1.5), 0.5, 1.5, 3.3247932266533508, 2.55, 1.0, 3.9173843314129902),
    (losses.QHinge(2.0), 1.0, 2.0, 5.78, 3.4, 1.0, 8.024),
    (losses.SquaredHinge(), 1.0, 2.0, 5.78, 3.4, 1.0, 8.024),
    (losses.QPower(1.0), 0.0, 2.0, 3.4, 1.7, 1.3, 1.7),
    (
        losses.QPower(1.3),
        0.3,
        2.1118562305262124,
        4.2096689788029377,
        2.3909763445044064,
        1.4064566732378861,
        2.9638537151940672,
    ),
    (
        losses.QPower(1.75),
        0.75,
        2.0811124512547619,
        5.2672163829855588,
        3.621966959857375,
        1.5827082513662479,
        6.1965248763329822,
    ),
    (losses.QPower(2.0), 1.0, 2.0, 5.78, 4.42, 1.69, 9.044),
    (losses.Hinge(), 0.0, 1.0, 1.7, 1.7, 1.0, 1.7),
    (losses.Absolute(), 0.0, 2.0, 3.4, 1.7, 1.3, 1.7),
    (losses.Pinball(0.3), 0.0, 1.0, 1.7, 1.19, 0.91, 1.19),
    (losses.Pinball(0.95), 0.0, 1.0, 1.7, 1.615, 1.235, 1.615),
    (losses.EpsilonInsensitive(0.5), 0.0, 2.0, 3.4, 1.7, 0.8, 1.7),
    (losses.EpsilonInsensitive(1.5), 0.0, 2.0, 3.4, 0.0, 0.0, 1.7),
    (losses.Huber(0.7), 1.0, 1.0, 2.89, 1.19, 0.665, 1.19),
    (losses.Huber(2.0), 1.0, 1.0, 2.89, 2.21, 0.845, 3.4),
    (losses.Huber(5.0), 1.0, 1.0, 2.89, 2.21, 0.845, 4.522),
    (losses.Logistic(), 1.0, 0.25, 0.7225, 0.85, 0.69314718055994531, 1.352791486117044),
    (losses.Squared(), 1.0, 1.0, 2.89, 2.21, 0.845, 4.522),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: repr(row[0]))
def test_table_of_constants(row):
    loss, alpha, h, scaled, at_zero, value, ball = row
    found = loss.constants(feature=1.7, label=1.3, radius=0.8)
    known = {
        loss.hoelder().alpha: alpha,
        loss.hoelder().constant: h,
        found.hoelder.constant: scaled,
        found.gradient_at_zero: at_zero,
        found.value_at_zero: value,
        found.lipschitz: ball,
    }
    for actual, expected in known.items():
        assert actual == pytest.approx(expected, rel=4e-15, abs=1e-300)


def test_views():
    assert [(v.alpha, v.constant) for v in losses.Huber(0.7).hoelder_views()] == [(1, 1), (0, 1.4)]
    assert [(v.alpha, v.constant) for v in losses.Logistic().hoelder_views()] == [(1, 0.25), (0, 1)]


@pytest.mark.parametrize("q", [1.0, 1 + 1e-12, 1.5, 2 - 1e-9, 2.0])
def test_powers_are_continuous_in_q(q):
    """alpha and H come without a jump or a NaN at either end."""
    for loss, h in ((losses.QHinge(q), q), (losses.QPower(q), 2 ** (math.log2(q) + 2 - q))):
        assert loss.hoelder().alpha == q - 1
        assert loss.hoelder().constant == pytest.approx(h, rel=1e-15)
        found = loss.constants(feature=1.7, label=1.3, radius=0.8)
        assert found.hoelder.constant == pytest.approx(h * 1.7**q, rel=1e-14)


def test_first_view_is_the_declared_one(case):
    assert case.loss.hoelder_views()[0] == case.loss.hoelder()


# --- convexity and declared constants: a search for a violation -----------------------------------


def _pairs(case, size, seed):
    """Pairs of margins: near, far, symmetric about a joint, across it, within one last place."""
    rng = np.random.default_rng(seed)
    labels = case.labels(rng, size)
    first, joint = case.margins(rng, labels), case.joint(rng, labels)
    sign = rng.choice([-1.0, 1.0], size)
    gap = sign * 10.0 ** rng.uniform(-18, 3, size)
    kind = rng.integers(0, 6, size)
    second = np.choose(
        kind,
        [
            2 * joint - first,
            first + gap,
            np.nextafter(first, sign * np.inf),
            sign * 10.0 ** rng.uniform(0, 307, size),
            joint,
            joint + gap,
        ],
    )
    return np.where(kind == 5, joint - gap, first), second, labels


def test_slope_is_monotone(case):
    """Convexity, to the last bit: the slope never decreases in the margin."""
    first, second, labels = _pairs(case, 4000, 5)
    low, high = np.minimum(first, second), np.maximum(first, second)
    at_low, at_high = case.loss.slope(low, labels), case.loss.slope(high, labels)
    slack = 4 * EPS * np.maximum(np.abs(at_low), np.abs(labels) * (case.loss.labels == "count"))
    assert np.all(at_low <= at_high + slack)
    grid = np.sort(np.concatenate([MARGINS, np.linspace(-6, 6, 2001)]))
    for y in {float(v) for v in labels[:20]}:
        steps = np.diff(case.loss.slope(grid, y))
        assert np.all(steps >= -4 * EPS * (abs(y) + np.abs(case.loss.slope(grid, y)[1:])))


def test_hoelder_constants_hold(case):
    first, second, labels = _pairs(case, 6000, 7)
    at_first, at_second = case.loss.slope(first, labels), case.loss.slope(second, labels)
    gap = np.abs(first - second)
    rounding = 4 * EPS * (np.abs(at_first) + np.abs(at_second) + np.abs(labels))
    for view in case.loss.hoelder_views():
        allowed = view.constant * gap**view.alpha * (gap > 0) * (1 + 8 * EPS)
        assert np.all(np.abs(at_first - at_second) <= allowed + rounding), view


def _best_ratio(case, view):
    """The largest |phi'(u) - phi'(v)| / |u - v|^alpha over pairs made to attain it."""
    best = 0.0
    for y in (-1.0, 1.0) if case.loss.labels == "sign" else (0.0, 1.0):
        for joint in (*case.joints(y), 0.0, y):
            for gap in (1e-7, 1e-3, 0.1, 1.0, 50.0, 1e7):
                for u, v in (
                    (joint - gap, joint + gap),
                    (joint - gap, joint),
                    (joint, joint + gap),
                ):
                    rise = float(case.loss.slope(v, y) - case.loss.slope(u, y))
                    best = max(best, rise / (v - u) ** view.alpha)
    return best


def test_hoelder_constants_are_attained(case):
    for view in case.loss.hoelder_views():
        assert _best_ratio(case, view) >= view.constant * (1 - 1e-6), view


def test_clipping_keeps_convexity_and_the_constant(case):
    """A clipped slope is monotone and has the same H, whatever the cap."""
    first, second, labels = _pairs(case, 3000, 11)
    gap, view = np.abs(first - second), case.loss.hoelder()
    for cap in (1e-3, 0.2, 1.0, 3.0):
        a = np.clip(case.loss.slope(first, labels), -cap, cap)
        b = np.clip(case.loss.slope(second, labels), -cap, cap)
        slack = 8 * EPS * (cap + np.abs(labels))
        assert np.all((a - b) * np.sign(first - second) >= -slack)
        assert np.all(np.abs(a - b) <= view.constant * gap**view.alpha * (gap > 0) + slack)


REACHES = [(1.3, 1.36), (0.0, 0.0), (1.3, 0.0), (0.0, 2.0), (2.0, 0.3), (0.2, 0.1), (3.0, math.inf)]


def _box(case, label, margin):
    """Margins and labels that cover a box, its corners and every joint in it."""
    if case.loss.labels == "sign":
        labels = np.array([-1.0, 1.0])
    else:
        low = 0.0 if case.loss.labels == "count" else -label
        labels = np.unique(np.concatenate([np.linspace(low, label, 13), [low, 0.0, label]]))
    reach = min(margin, 1e9)
    margins = np.concatenate([np.linspace(-reach, reach, 801), np.linspace(-1, 1, 801) * 8])
    joints = np.array([joint for y in labels for joint in case.joints(float(y))])
    near = [joints + shift for shift in (-1e-7, -EPS, 0.0, EPS, 1e-7)]
    margins = np.concatenate([margins, [0.0, -reach, reach], *near])
    pairs = np.meshgrid(margins[np.abs(margins) <= margin], labels)
    return pairs[0].ravel(), pairs[1].ravel()


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_slope_bound_is_the_supremum(case, reach):
    label, margin = reach
    bound = case.loss.slope_bound(label, margin)
    u, y = _box(case, label, margin)
    found = float(np.max(np.abs(case.loss.slope(u, y))))
    if math.isinf(bound):
        assert margin == math.inf
        near, far = (np.abs(case.loss.slope([-u, u], 1.0)) for u in (1e150, 1e300))
        assert np.max(far) > (1 + 1e-3) * np.max(near)  # it keeps growing
    else:
        assert bound * (1 - 1e-6) <= found <= bound * (1 + 4 * EPS)


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_value_at_zero_is_the_supremum(case, reach):
    label, _ = reach
    _, y = _box(case, label, 0.0)
    found = float(np.max(case.loss.value(0.0, y)))
    assert found == pytest.approx(case.loss.value_at_zero(label), rel=1e-15, abs=1e-300)


@pytest.mark.parametrize("reach", [r for r in REACHES if r[1] > 0], ids=str)
def test_curvature_bound_is_the_supremum(case, reach):
    """By difference quotients at distance 1e-7, and at the smallest distances beside a joint."""
    label, margin = reach
    bound = case.loss.curvature_bound(label, margin)
    u, y = _box(case, label, margin)
    best = 0.0
    for gap in (1e-7, 4 * EPS, 1e-3):
        for v in (np.minimum(u + gap, margin), np.maximum(u - gap, -margin)):
            use = np.abs(u - v) >= 0.5 * gap
            rise = np.abs(case.loss.slope(v, y) - case.loss.slope(u, y))[use]
            size = np.abs(case.loss.slope(u, y))[use] + np.abs(y[use])
            gone = np.abs(u - v)[use]
            if len(gone) and not math.isinf(bound):
                assert np.all(rise <= bound * gone + 8 * EPS * (size + 1e-3)), gap
            if gap >= 1e-7 or math.isinf(bound):
                best = max(best, float(np.max(rise / gone, initial=0.0)))
    if math.isinf(bound):
        assert best >= 1e3
    else:
        assert best >= bound * (1 - 2e-6)


def test_bounds_do_not_hold_when_shrunk(case):
    """The searches above have power: a constant that is 1% too small is refuted."""
    view = case.loss.hoelder()
    assert _best_ratio(case, view) > 0.99 * view.constant
    u, y = _box(case, 1.3, 1.36)
    assert np.max(np.abs(case.loss.slope(u, y))) > 0.99 * case.loss.slope_bound(1.3, 1.36)
