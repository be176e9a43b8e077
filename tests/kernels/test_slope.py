"""Slopes: users' functions, and the envelope's slope by bisection."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import ParameterError
from dpsco.kernels.slope import BISECTIONS, Slope, smoothed_slope, two_argument


def hinge(margin, label, first, second):
    return -label * (label * margin < 1.0)


def absolute(margin, label, first, second):
    return np.sign(margin - label)


def pinball(margin, label, first, second):
    return (1.0 - first) * (margin > label) - first * (margin < label)


def huber(margin, label, first, second):
    return np.minimum(np.maximum(margin - label, -first), first)


def logistic(margin, label, first, second):
    return -label / (1.0 + np.exp(np.minimum(label * margin, 700.0)))


def with_branch(margin, label):
    return -label if label * margin < 1.0 else 0.0


def for_arrays(margin, label):
    return np.tanh(margin - label)


def constant(margin, label):
    return 1


def lies_on_arrays(margin, label):
    return margin - (np.mean(margin) if np.ndim(margin) else label)


# Published table of envelope slopes: (function, parameter, bound, margin, label, beta, answer).
KNOWN = [
    (hinge, 0.0, 1.0, 0.4, 1.0, 2.0, -1.0),
    (hinge, 0.0, 1.0, 0.95, 1.0, 2.0, -0.1),
    (hinge, 0.0, 1.0, 1.3, 1.0, 2.0, 0.0),
    (hinge, 0.0, 1.0, -0.2, -1.0, 5.0, 1.0),
    (absolute, 0.0, 1.0, 0.7, 0.5, 2.0, 0.4),
    (absolute, 0.0, 1.0, 3.0, 0.5, 2.0, 1.0),
    (pinball, 0.3, 0.7, 0.6, 0.5, 2.0, 0.2),
    (pinball, 0.3, 0.7, 3.0, 0.5, 2.0, 0.7),
    (pinball, 0.3, 0.7, -3.0, 0.5, 2.0, -0.3),
    (huber, 0.7, 0.7, 1.0, 0.5, 2.0, 1 / 3),
    (huber, 0.7, 0.7, 3.0, 0.5, 2.0, 0.7),
    (logistic, 0.0, 1.0, 0.0, 1.0, 1.0, -0.401058137541547),
    (logistic, 0.0, 1.0, 0.0, 1.0, 100.0, -0.4987531197852631),
    (logistic, 0.0, 1.0, 2.0, -1.0, 0.5, 0.6625841928288003),
    (logistic, 0.0, 1.0, -1.5, 1.0, 4.0, -0.7864063737141542),
]


@pytest.mark.parametrize(("function", "first", "bound", "margin", "label", "beta", "answer"), KNOWN)
def test_known_envelopes(function, first, bound, margin, label, beta, answer):
    slope = Slope(function, first, smoothing=beta, bound=bound)
    found = smoothed_slope(slope, [margin, margin], [label, label])
    np.testing.assert_allclose(found, answer, rtol=0, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6),
    st.sampled_from([-1.0, 1.0]),
    st.floats(1e-3, 1e3),
)
def test_the_envelope_is_bounded_monotone_and_smooth(one, other, label, beta):
    slope = Slope(hinge, smoothing=beta, bound=1.0)
    first, second = smoothed_slope(slope, [one, other], [label, label])
    error = 2.0 ** (1 - BISECTIONS)
    assert abs(first) <= 1.0
    assert (first - second) * (one - other) >= -error * abs(one - other)
    assert abs(first - second) <= beta * abs(one - other) * (1 + 1e-9) + 2 * error
    exact = -label * np.clip(beta * (1.0 - label * one), 0.0, 1.0)
    # phi' is read at margin - g / beta, whose rounding the smoothing multiplies
    assert abs(first - exact) <= error + 4e-16 * beta * (1.0 + abs(one))


def test_no_smoothing_is_the_function_itself():
    found = smoothed_slope(Slope(huber, 0.5), [3.0, 0.1], [0.0, 0.0])
    np.testing.assert_array_equal(found, [0.5, 0.1])


def test_a_margin_that_is_not_finite_has_no_slope():
    slope = Slope(hinge, smoothing=1.0, bound=1.0)
    assert np.all(np.isnan(smoothed_slope(slope, [np.nan, np.inf, -np.inf], [1.0, 1.0, 1.0])))


@pytest.mark.parametrize(
    ("function", "arrays"),
    [(with_branch, False), (for_arrays, True), (constant, True), (lies_on_arrays, False)],
)
def test_users_functions_run_on_arrays(function, arrays):
    wrapped = two_argument(function)
    assert wrapped.arrays is arrays
    m, y = np.array([-2.0, 0.5, 3.0]), np.array([1.0, -1.0, 1.0])
    expected = [float(function(a, b)) for a, b in zip(m.tolist(), y.tolist(), strict=True)]
    found = Slope(wrapped)(m, y)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert Slope(wrapped)(0.5, -1.0) == function(0.5, -1.0)
    assert two_argument(wrapped) is wrapped
    assert pickle.loads(pickle.dumps(wrapped)) == wrapped


def test_no_row_can_raise_an_error():
    def careless(margin, label):
        return 1.0 / (1.0 + math.exp(margin)) + math.log(label)

    slope = Slope(two_argument(careless))
    with np.errstate(all="ignore"):
        found = slope(np.array([0.0, 1e4, 0.0]), np.array([1.0, 1.0, -1.0]))
    np.testing.assert_array_equal(found, [0.5, np.nan, np.nan])


def test_what_is_no_function_is_refused():
    with pytest.raises(ParameterError, match="function of"):
        two_argument(3.0)
