"""Gradients bounded by a user's rule: no row adds more than stated."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.data.transformed import TransformedGradient, each_gradient
from dpsco.errors import ParameterError

D = 3
ODD = [1e300, -1e300, math.inf, -math.inf, math.nan, 0.0, 1e-310, 1.0, -2.5]
NUMBERS = st.one_of(st.sampled_from(ODD), st.floats(-1e6, 1e6))
BOUNDS = dp.Bounds(1e50, label=1e50)


def block(X, y):
    return BOUNDS.apply(np.asarray(X, dtype=float), np.asarray(y, dtype=float))


def queries(loss, weights, size):
    return (
        TransformedGradient(loss, weights, size, lambda g: 3.0 * g),
        TransformedGradient(loss, weights, size, np.sign),
    )


@given(
    X=st.lists(st.lists(NUMBERS, min_size=D, max_size=D), min_size=1, max_size=1),
    y=NUMBERS,
    size=st.floats(1e-3, 1e3),
)
@settings(max_examples=60, deadline=None)
def test_no_row_adds_more_than_the_bound(X, y, size):
    one = block(X, [y])
    for loss in (dp.losses.Squared(), dp.losses.Absolute()):
        for query in queries(loss, np.full(D, 0.3), size):
            total = query.sum(one)
            assert np.all(np.isfinite(total))
            assert np.linalg.norm(total) <= query.bound * (1 + 1e-12)


@pytest.mark.parametrize("width", [0, 1])
def test_a_null_row_adds_nothing_whatever_the_rule_makes_of_zeros(width):
    """An emptied row and another one would lie twice the bound apart, if it added that of zeros."""
    loss, rule = dp.losses.Squared(), lambda g: g - 1.0
    query = TransformedGradient(loss, np.zeros(D), 2.0, rule)
    with_null = block([[math.nan, 0.0, 0.0], *[[9.0, 9.0, 9.0]] * width], [-1.0] * (1 + width))
    assert not with_null.present[0]
    alone = query.sum(with_null[1:])
    assert query.sum(with_null).tolist() == alone.tolist()
    assert np.linalg.norm(alone) == pytest.approx(2.0 * width)


def test_sums_are_those_of_numpy():
    rng = np.random.default_rng(2)
    X, y, w = rng.standard_normal((700, D)), rng.standard_normal(700), rng.standard_normal(D)
    rows, gradients = block(X, y), ((X @ w - y)[:, None] * X)
    assert np.allclose(each_gradient(dp.losses.Squared(), w, rows), gradients)
    softer = TransformedGradient(dp.losses.Squared(), w, 1e9, lambda g: g / (1 + np.abs(g)))
    assert np.allclose(softer.sum(rows), (gradients / (1 + np.abs(gradients))).sum(axis=0))


def test_other_losses_have_gradients_as_well():
    rng = np.random.default_rng(2)
    X, w = rng.standard_normal((20, D)), np.ones(D)
    rows = dp.Bounds(1e9).apply(X)
    halves = TransformedGradient(dp.losses.SquaredDistance(), w, 1e9, lambda g: 0.5 * g)
    assert np.allclose(halves.sum(rows), 0.5 * (w - X).sum(axis=0))


def test_a_function_that_fails_says_nothing_of_its_row():
    def picky(gradient):
        if gradient[0] > 0.0:
            raise ValueError("secret")
        return gradient[:2] if gradient[1] > 0.0 else gradient

    rows = block([[1.0, 0.0, 0.0], [-1.0, 1.0, 0.0], [-1.0, -1.0, 0.0]], [-1.0, -1.0, -1.0])
    query = TransformedGradient(dp.losses.Squared(), np.zeros(D), 9.0, picky)
    assert query.sum(rows).tolist() == [-1.0, -1.0, 0.0]


def test_refusals():
    source = dp.data.from_arrays(np.ones((4, 2)), np.ones(4)).bounded(BOUNDS)
    with pytest.raises(ParameterError, match="2 weights"):
        source.sum(TransformedGradient(dp.losses.Squared(), np.zeros(D), 1.0, np.sign))
    with pytest.raises(ParameterError, match="clip"):
        TransformedGradient(dp.losses.Squared(), np.zeros(D), -1.0, np.sign)
