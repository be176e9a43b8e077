"""Regular norms: known answers, and the two inequalities that the constants promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import ParameterError
from dpsco.geometry import Lp, Regularity, equivalence

EXPONENTS = [1.0, 1.02, 1.05, 1.2, 1.5, 1.9, 2.0]

KNOWN = [
    (1.5, 50, 3.0, 3.0, 1.5, 2.0),
    (1.2, 50, 6.0, 6.0, 1.2, 5.0),
    (1.0, 200, math.inf, 10.5966347, 1.1042032, 26.0863578),
    (1.05, 20, 21.0, 5.9914645, 1.2003420, 10.2003448),
    (1.0, 2, math.inf, 2.0, 2.0, 2.0),
    (2.0, 10, 2.0, 2.0, 2.0, 1.0),
]


@pytest.mark.parametrize(("p", "d", "q", "r", "pbar", "kappa"), KNOWN)
def test_known_answers(p, d, q, r, pbar, kappa):
    found = Regularity(p, d)
    assert found.q == pytest.approx(q, rel=1e-12, abs=0)
    assert found.r == pytest.approx(r, abs=6e-8)
    assert found.pbar == pytest.approx(pbar, abs=6e-8)
    assert found.kappa == pytest.approx(kappa, abs=6e-8)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("d", [1, 2, 3, 7, 8, 100, 10**6])
def test_relations(p, d):
    found = Regularity(p, d)
    assert found.p <= found.pbar <= 2.0 <= found.r <= found.q
    assert 1 / found.r + 1 / found.pbar == pytest.approx(1.0, rel=1e-14, abs=0)
    assert found.capped == (found.pbar > p)
    assert found.r <= max(2.0, 2 * math.log(d))
    assert 1.0 <= found.stretch <= math.sqrt(math.e) * (1 + 1e-14)
    expected = equivalence(found.potential_norm, found.norm, d)
    assert found.stretch == pytest.approx(expected, rel=1e-13, abs=0)
    assert found.smooth_norm.p == pytest.approx(found.potential_norm.dual.p, rel=1e-13, abs=0)
    # never worse than the plain constants
    plain = math.inf if p == 1.0 else 1 / (p - 1)
    assert found.kappa <= min(plain, max(2.0, math.e * 2 * math.log(d))) * (1 + 1e-12)
    if not found.capped:
        assert found.pbar == p
    if d == 1 or p == 2.0:
        assert found.kappa == 1.0


@pytest.mark.parametrize("p", EXPONENTS)
@settings(max_examples=40, deadline=None)
@given(d=st.integers(1, 300), seed=st.integers(0, 2**32), size=st.sampled_from([1e-3, 0.1, 1.0]))
def test_smoothness_of_the_square(p, d, seed, size):
    found = Regularity(p, d)
    rng = np.random.default_rng(seed)
    x, y = rng.standard_t(2, size=(2, d)) * rng.integers(0, 2, size=(2, d))
    x[0] += 1.0
    y *= size
    norm, r = found.smooth_norm, found.r
    length = float(norm(x))
    slope = 2 * length ** (2 - r) * np.sign(x) * np.abs(x) ** (r - 1)
    above = length**2 + slope @ y + (r - 1) * norm(y) ** 2
    assert norm(x + y) ** 2 <= above + 1e-12 * length**2 + 1e-12 * norm(y) ** 2


def test_smoothness_constant_is_tight():
    """At x = (1, 1), y = t (1, -1) half the square of l_r has exactly the curvature r - 1."""
    found = Regularity(1.2, 50)
    r, t = found.r, 1e-3
    x, y = np.zeros((2, 50))
    x[:2], y[:2] = 1.0, (t, -t)
    norm = Lp(r)
    gain = norm(x + y) ** 2 - norm(x) ** 2
    assert gain == pytest.approx((r - 1) * norm(y) ** 2, rel=1e-4, abs=0)


@pytest.mark.parametrize("p", [0.99, 2.01, math.inf, math.nan, "1", None])
def test_bad_exponents(p):
    with pytest.raises(ParameterError, match="p"):
        Regularity(p, 10)


@pytest.mark.parametrize("d", [0, -1, 2.0, None, True])
def test_bad_dimensions(d):
    with pytest.raises(ParameterError, match="d must be"):
        Regularity(1.5, d)
