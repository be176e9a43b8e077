"""Proximal steps: brute force in many digits, optimality, and the generic solver's limits."""

from __future__ import annotations

import warnings

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco import losses
from dpsco.errors import ParameterError
from dpsco.losses import scalar_prox
from dpsco.losses.prox import _between, _float, _number

EPS = 2.0**-52


def _golden(objective, low, high):
    """The minimiser of a convex function by golden section, in the current precision."""
    ratio = (mp.sqrt(5) - 1) / 2
    x, z = high - ratio * (high - low), low + ratio * (high - low)
    at_x, at_z = objective(x), objective(z)
    while high - low > mp.mpf(10) ** -22 * (1 + abs(low)):
        if at_x < at_z:
            high, z, at_z = z, x, at_x
            x = high - ratio * (high - low)
            at_x = objective(x)
        else:
            low, x, at_x = x, z, at_z
            z = low + ratio * (high - low)
            at_z = objective(z)
    return (low + high) / 2


@pytest.mark.thorough
def test_against_brute_force(case):
    """The minimiser found from values alone, for steps from 1e-8 to 1e8."""
    rng = np.random.default_rng(21)
    labels = case.labels(rng, 24)
    margins = case.margins(rng, labels)
    margins[:6] *= 10.0 ** np.arange(6)
    steps = 10.0 ** rng.uniform(-8, 8, 24)
    found = case.loss.prox(margins, labels, steps)
    with mp.workdps(70):
        for m, y, s, u in zip(margins, labels, steps, found, strict=True):
            centre, step = mp.mpf(float(m)), mp.mpf(float(s))
            reach = step * (abs(mp.mpf(float(case.loss.slope(m, y)))) + mp.mpf(10) ** -12) * 2
            exact = _golden(
                lambda v, y=y, c=centre, s=step: (
                    case.formula(v, mp.mpf(float(y))) + (v - c) ** 2 / (2 * s)
                ),
                centre - reach,
                centre + reach,
            )
            assert abs(u - exact) <= 4 * EPS * (abs(m) + abs(y) + abs(u)), (m, y, s)


def _random(case, size, seed):
    rng = np.random.default_rng(seed)
    labels = case.labels(rng, size)
    margins = case.margins(rng, labels)
    huge = rng.random(size) < 0.3
    margins = np.where(huge, margins * 10.0 ** rng.uniform(0, 200, size), margins)
    return margins, labels, 10.0 ** rng.uniform(-8, 8, size)


def test_optimality(case):
    """(m - u) / step is a subgradient at u: between the slopes a hair to the left and right."""
    m, y, s = _random(case, 6000, 22)
    u = case.loss.prox(m, y, s)
    room = 4 * EPS * (np.abs(m) + np.abs(u) + np.abs(y)) + 1e-323
    pull = (m - u) / s
    # Dividing by the step loses less than 4 EPS |m| / s, and slopes are rounded themselves.
    slack = 4 * EPS * (np.abs(m) / s + np.abs(u) / s + np.abs(pull) + np.abs(y))
    assert np.all(case.loss.slope(u - room, y) <= pull + slack)
    assert np.all(case.loss.slope(u + room, y) >= pull - slack)


def test_firmly_non_expansive(case):
    """In one dimension: non-decreasing, and never farther apart than the arguments."""
    m, y, s = _random(case, 4000, 23)
    rng = np.random.default_rng(24)
    other = m + np.choose(
        rng.integers(0, 3, len(m)),
        [np.abs(m) * rng.normal(size=len(m)), 10.0 ** rng.uniform(-16, 2, len(m)), -2 * m],
    )
    near, far = case.loss.prox(m, y, s), case.loss.prox(other, y, s)
    slack = 8 * EPS * (np.abs(m) + np.abs(other) + np.abs(near) + np.abs(far) + np.abs(y))
    inner = (near - far) * np.sign(m - other)
    assert np.all(inner >= -slack)
    assert np.all(inner <= np.abs(m - other) + slack)


def test_generic_solver_equals_the_closed_form(case):
    m, y, s = _random(case, 4000, 25)
    closed, generic = case.loss.prox(m, y, s), scalar_prox(case.loss, m, y, s)
    assert np.all(np.abs(closed - generic) <= 4 * EPS * (np.abs(m) + np.abs(y)) + 1e-323)


def test_prox_and_conjugate(case):
    """Moreau's identity: (m - prox(m)) / step is the dual point, where Fenchel-Young is tight."""
    rng = np.random.default_rng(26)
    y = case.labels(rng, 300)
    m = rng.normal(size=300) * 3
    s = 10.0 ** rng.uniform(-2, 2, 300)
    u = case.loss.prox(m, y, s)
    bound = case.loss.slope_bound(3.0, np.inf)
    dual = np.clip((m - u) / s, case.loss.slope(-1e300, y), case.loss.slope(1e300, y))
    assert np.all(np.abs(dual) <= bound)
    gap = case.loss.value(u, y) + case.loss.conjugate(dual, y) - dual * u
    # The dual point is off by EPS |m| / step, the gap by that times how fast phi* may grow there.
    assert np.all(np.abs(gap) <= 1e-12 * (1 + np.abs(m) / s) * (1 + np.abs(u)))


@pytest.mark.parametrize("q", [1.0, 1 + 1e-12, 1 + 1e-6, 1.01, 1.2, 1.5, 1.9, 2 - 1e-9, 2.0])
@pytest.mark.parametrize("family", [losses.QHinge, losses.QPower])
def test_powers_to_full_precision(family, q):
    """The root lies between the floats beside the answer, for every q, step and size of margin."""
    loss = family(q)
    rng = np.random.default_rng(27)
    m = rng.normal(size=3000) * 10.0 ** rng.uniform(-12, 12, 3000)
    y = rng.choice([-1.0, 1.0], 3000)
    s = 10.0 ** rng.uniform(-8, 8, 3000)
    u = loss.prox(m, y, s)
    size = np.abs(m) + s * np.abs(loss.slope(u, y))
    low, high = (np.nextafter(np.nextafter(u, end), end) for end in (-np.inf, np.inf))
    assert np.all((low - m) + s * loss.slope(low, y) <= 4 * EPS * size)
    assert np.all((high - m) + s * loss.slope(high, y) >= -4 * EPS * size)


def test_newton_is_quick():
    """Newton's steps spare most of the sixty halvings that would find a root by themselves."""

    class Counted(losses.Logistic):
        calls = 0

        def slope(self, margin, label):
            Counted.calls += 1
            return super().slope(margin, label)

    for step in (1e-3, 1.0, 1e3):
        scalar_prox(Counted(), 0.3, 1.0, step)
    assert Counted.calls <= 80


def test_huge_margins_are_silent(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for m in (1e300, -1e300, 1e308, -1e308, 0.0, 5e-324):
            for s in (1e-8, 1.0, 1e8):
                found = case.loss.prox(m, 1.0, s)
                assert np.isfinite(found)
                assert min(m, 1.0) - 1e-300 - 1e8 * 20 <= found <= max(m, 1.0) + 1e8 * 20


def test_non_finite_margins_have_no_prox():
    found = scalar_prox(losses.Logistic(), [np.nan, np.inf, 1.0], 1.0, 0.5)
    assert np.isnan(found).tolist() == [True, True, False]


@pytest.mark.parametrize("step", [0.0, -1.0, np.inf, np.nan])
def test_steps_must_be_positive(step):
    with pytest.raises(ParameterError, match="step"):
        scalar_prox(losses.Logistic(), 0.0, 1.0, [1.0, step])


def test_known_answers():
    """Shrinkage and its relatives, by hand."""
    assert losses.Absolute().prox([2.0, 0.2, -2.0], 0.5, 1.0).tolist() == [1.0, 0.5, -1.0]
    assert losses.Hinge().prox([0.0, 0.75, 3.0], 1.0, 0.5).tolist() == [0.5, 1.0, 3.0]
    assert losses.Hinge().prox([0.0, -0.75, -3.0], -1.0, 0.5).tolist() == [-0.5, -1.0, -3.0]
    assert losses.Pinball(0.25).prox([4.0, 0.1, -4.0], 0.0, 2.0).tolist() == [2.5, 0.0, -3.5]
    assert losses.EpsilonInsensitive(0.5).prox([3.0, 1.0, 0.2, -0.75], 0.0, 1.0).tolist() == [
        2.0,
        0.5,
        0.2,
        -0.5,
    ]
    assert losses.Squared().prox(4.0, 1.0, 2.0) == 2.0
    assert losses.SquaredHinge().prox([-2.0, 2.0], 1.0, 1.0).tolist() == [0.0, 2.0]
    assert losses.ModifiedHuber().prox([-9.0, -2.0], 1.0, 1.0).tolist() == [-5.0, 0.0]
    assert losses.Huber(1.0).prox([6.0, 1.5], 0.0, 2.0).tolist() == [4.0, 0.5]
    golden = losses.QPower(1.5).prox(10.0, 0.0, 4.0)  # r + 6 sqrt(r) = 10
    assert golden == pytest.approx((np.sqrt(19) - 3) ** 2, rel=4e-16)


# --- the line of floats ---------------------------------------------------------------------------

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FLOATS, min_size=1, max_size=8))
@settings(max_examples=50, deadline=None)
def test_numbering_floats(values):
    floats = np.array(values)
    numbers = _number(floats)
    assert np.array_equal(_float(numbers), floats)
    assert np.array_equal(numbers[:, None] < numbers, floats[:, None] < floats)
    floats = floats[floats < np.finfo(float).max]
    assert np.all(_number(np.nextafter(floats, np.inf)) - _number(floats) == 1)


@given(FLOATS, FLOATS)
@settings(max_examples=100, deadline=None)
def test_halving_ends(first, second):
    low, high = np.array([min(first, second)]), np.array([max(first, second)])
    for _ in range(64):
        middle = _between(low, high)
        assert low <= middle <= high
        low = middle
    assert _number(high) - _number(low) <= 1
