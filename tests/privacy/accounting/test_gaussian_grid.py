"""Gaussian curves on grids: against the scalar ones and high precision, never below."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpsco.privacy.accounting import gaussian


def exact(epsilon, mu):
    with mpmath.workdps(60):
        eps, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - eps / m) - mpmath.exp(eps) * mpmath.ncdf(-m / 2 - eps / m)


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 0.5, 1.0, 3.0, 20.0])
def test_never_below_and_close(mu):
    epsilons = np.array([0.0, 1e-9, 0.01, 0.1, 1.0, 4.0, 30.0, -1e-3, -0.5, -5.0])
    found = gaussian.delta_grid(epsilons, mu)
    for epsilon, value in zip(epsilons, found, strict=True):
        true = exact(float(epsilon), mu)
        assert value >= true
        if true > 1e-280:
            # Only what lies within an ulp of Mills' ratio of cancelling is loose.
            loose = 2e-14 * (epsilon / mu) ** 2 if epsilon < 0 else 0.0
            assert value <= true * (1 + 1e-8 + 1e-14 / mu**2) + 1e-12 + loose


def test_agrees_with_the_scalar_curve():
    mu = np.geomspace(1e-2, 10, 50)
    found = gaussian.delta_grid(1.0, mu)
    scalar = [gaussian.delta(1.0, float(m)) for m in mu]
    assert np.allclose(found, scalar, rtol=1e-9, atol=1e-290)
    assert np.all(np.diff(found) >= 0)


def test_edges():
    assert gaussian.delta_grid(1.0, 0.0) == 0.0
    assert 0 < gaussian.delta_grid(1.0, 1e-200) < 1e-290
    assert gaussian.delta_grid(1.0, 1e200) == 1.0
    assert gaussian.delta_grid(np.zeros((2, 1)), np.ones(3)).shape == (2, 3)
