"""Conjugates: Fenchel-Young, brute force, and where their domain ends."""

from __future__ import annotations

import math

import numpy as np

from dpsco import losses

EPS = 2.0**-52


def test_fenchel_young(case):
    """phi(u) + phi*(a) >= a u, with equality exactly when a is a slope at u."""
    rng = np.random.default_rng(13)
    labels = case.labels(rng, 400)
    margins = case.margins(rng, labels)
    slopes = case.loss.slope(margins, labels)
    value = case.loss.value(margins, labels)
    dual = case.loss.conjugate(slopes, labels)
    scale = np.abs(margins * slopes) + np.abs(value) + np.abs(labels * slopes) + 1
    assert np.all(np.abs(value + dual - slopes * margins) <= 32 * EPS * scale)
    other = np.random.default_rng(14).permutation(slopes)
    gap = value + case.loss.conjugate(other, labels) - other * margins
    assert np.all(gap >= -32 * EPS * (scale + np.abs(other * margins)))


def test_conjugate_against_brute_force(case):
    """sup_u a u - phi(u) over a fine grid: never above the conjugate, and near it inside."""
    loss = case.loss
    far = np.geomspace(1e-6, 1e5, 2500)
    joints = [joint for y in (-1.0, 0.0, 1.0, 2.0) for joint in case.joints(y)]
    grid = np.concatenate([-far, [0.0], far, np.linspace(-12, 12, 24001), joints])
    for y in (-1.0, 1.0) if loss.labels == "sign" else (0.0, 1.0, 2.0):
        value = loss.value(grid, y)
        for a in (-3.0, -1.0, -0.6, -0.25, -0.01, 0.0, 0.01, 0.04, 0.3, 0.66, 1.0, 2.5):
            terms = a * grid - value
            best, dual = float(np.max(terms)), float(loss.conjugate(a, y))
            if math.isinf(dual) or dual > 1e4:
                assert best >= 50.0  # it grows with the grid, which ends at 1e5
            else:
                assert best <= dual + 1e-9
                assert best >= dual - 1e-5 * (1 + abs(dual)), (y, a)


def test_conjugate_ends_exactly_where_slopes_end():
    after, before = 1 + EPS, 1 - EPS
    for loss, a, y in [
        (losses.Hinge(), -1.0, 1.0),
        (losses.Logistic(), 1.0, -1.0),
        (losses.Absolute(), 1.0, 0.3),
        (losses.QHinge(1.0), 1.0, -1.0),
        (losses.QPower(1.0), -1.0, 0.3),
        (losses.Pinball(0.3), -0.3, 2.0),
        (losses.Pinball(0.3), 1.0 - 0.3, 2.0),
        (losses.EpsilonInsensitive(0.5), 1.0, 2.0),
        (losses.Huber(0.7), -0.7, 2.0),
        (losses.PseudoHuber(0.7), 0.7, 2.0),
        (losses.ModifiedHuber(), -4.0, 1.0),
        (losses.Poisson(20.0), -3.0, 3.0),
        (losses.Poisson(20.0), 17.0, 3.0),
    ]:
        assert np.isfinite(loss.conjugate(a, y))
        assert np.isfinite(loss.conjugate(a * before, y))
        assert loss.conjugate(a * after, y) == np.inf
    for loss in (losses.Hinge(), losses.SquaredHinge(), losses.QHinge(1.5), losses.Logistic()):
        assert loss.conjugate(5e-324, 1.0) == np.inf
        assert loss.conjugate(0.0, 1.0) == 0.0
