"""The discrete Gaussian sampler: the law, with power, and why it is exact."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtri, ndtr

from dpsco.errors import ParameterError
from dpsco.privacy import discrete
from dpsco.privacy.discrete import bernoulli_exp, discrete_gaussian, exp_bounds

FALSE_ALARM = 1e-6  # of each statistical test; seeds are fixed
DRAWS = 200_000
LAST = 2**64 - 1
NAN, INF = math.nan, math.inf


def keystream(seed: str):
    """A stand-in for Stream.words: SHAKE-256 in counter mode."""
    counter = 0

    def words(n: int) -> np.ndarray:
        nonlocal counter
        counter += 1
        block = hashlib.shake_256(f"{seed}/{counter}".encode()).digest(8 * n)
        return np.frombuffer(block, dtype=np.uint64)

    return words


def exp_floor(x: Fraction, bits: int) -> int:
    """floor(2**bits * exp(-x)) by mpmath at no less than 60 digits: the reference."""
    with mpmath.workdps(60 + bits):
        value = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
        return int(mpmath.floor(value))


# --- The law -----------------------------------------------------------------------------


def law(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Support (all but 1e-30 of the mass) and probabilities."""
    reach = math.ceil(12 * sigma) + 1
    support = np.arange(-reach, reach + 1)
    mass = np.exp(-(support**2) / (2 * sigma**2))
    return support, mass / mass.sum()


def chi_square(draws: np.ndarray, sigma: float) -> tuple[float, float]:
    """Statistic against N_Z(0, sigma^2) in at most 40 bins, and its critical value."""
    if sigma < 1e5:
        support, mass = law(sigma)
        cdf = np.cumsum(mass)
        cuts = np.unique(np.searchsorted(cdf, np.arange(1, 40) / 40))
        if sigma < 10:  # zero gets a bin of its own, so that a doubled zero would show
            cuts = np.unique(np.concatenate([cuts, support.size // 2 + np.array([-1, 0])]))
        edges, at = support[cuts], cdf[cuts]  # bins (-inf, e0], (e0, e1], ..., (e_last, inf)
    else:
        edges = np.floor(np.linspace(-2.5, 2.5, 39) * sigma)
        at = ndtr((edges + 0.5) / sigma)
    expected = np.diff(np.concatenate([[0.0], at, [1.0]])) * draws.size
    assert expected.min() > 100
    bins = np.searchsorted(edges, draws, side="left")
    observed = np.bincount(bins, minlength=expected.size)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    return statistic, float(chdtri(expected.size - 1, FALSE_ALARM))


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.7, 50.0, 1000.5, 2.0**40 + 0.5, 2.0**46])
def test_sampler_has_the_right_law_with_power(sigma):
    right = discrete_gaussian(keystream(f"law {sigma}"), sigma, DRAWS)
    assert right.dtype == np.int64
    assert right.shape == (DRAWS,)
    statistic, critical = chi_square(right, sigma)
    assert statistic < critical
    for factor in (0.9, 1.1):
        if factor * sigma <= discrete.MAX_SIGMA:
            wrong = discrete_gaussian(keystream(f"{factor}/{sigma}"), factor * sigma, DRAWS)
            statistic, critical = chi_square(wrong, sigma)
            assert statistic > critical


@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.0, 3.7, 50.0])
def test_variance(sigma):
    support, mass = law(sigma)
    variance, fourth = (mass * support**2).sum(), (mass * support**4.0).sum()
    assert variance <= sigma**2 * (1 + 1e-12)  # Canonne, Kamath, Steinke 2020
    if sigma >= 1:
        assert variance >= sigma**2 * (1 - 1e-6)
    slack = 4.9 * math.sqrt((fourth - variance**2) / DRAWS)  # two-sided 1e-6
    right = discrete_gaussian(keystream(f"variance {sigma}"), sigma, DRAWS)
    assert abs((right.astype(float) ** 2).mean() - variance) < slack
    wrong = discrete_gaussian(keystream(f"wrong {sigma}"), 1.1 * sigma, DRAWS)
    assert abs((wrong.astype(float) ** 2).mean() - variance) > slack


def test_last_bits_are_uniform_and_draws_uncorrelated():
    draws = discrete_gaussian(keystream("bits"), 1000.5, DRAWS)
    observed = np.bincount(draws % 16, minlength=16)
    statistic = ((observed - DRAWS / 16) ** 2 / (DRAWS / 16)).sum()
    assert statistic < chdtri(15, FALSE_ALARM)
    scaled = draws / 1000.5
    assert abs((scaled[1:] * scaled[:-1]).mean()) < 4.9 / math.sqrt(DRAWS)


def test_smallest_scale_and_empty_draws():
    assert not discrete_gaussian(keystream("small"), 1e-3, 1000).any()
    assert discrete_gaussian(keystream("none"), 1.0, 0).shape == (0,)


@pytest.mark.parametrize(("shift", "sigma"), [(1, 0.3), (1, 2.0), (3, 3.7), (40, 50.0)])
def test_zcdp_of_shifted_law(shift, sigma):
    """Renyi divergence between shifted laws, summed in 60 digits, is at most order rho."""
    with mpmath.workdps(60):
        spread, reach = mpmath.mpf(sigma), math.ceil(40 * sigma) + 20 * shift
        log_mass = {k: -mpmath.mpf(k * k) / (2 * spread**2) for k in range(-reach, reach + 1)}
        total = mpmath.fsum(mpmath.exp(value) for value in log_mass.values())
        rho = mpmath.mpf(shift) ** 2 / (2 * spread**2)
        for order in (mpmath.mpf(3) / 2, 2, 8):
            moment = mpmath.fsum(
                mpmath.exp(order * log_mass[k] + (1 - order) * log_mass[k - shift])
                for k in range(shift - reach, reach + 1)
            )
            divergence = mpmath.log(moment / total) / (order - 1)
            assert divergence <= order * rho * (1 + mpmath.mpf(10) ** -40)


# --- Exactness ---------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    x=st.fractions(min_value=0, max_value=300, max_denominator=10**30),
    bits=st.sampled_from([64, 128, 192]),
)
def test_exponential_bounds(x, bits):
    low, high = exp_bounds(x, bits)
    value = exp_floor(x, bits)
    assert low <= value <= high
    assert value < high or x == 0
    assert high - low <= 2


@settings(max_examples=200, deadline=None)
@given(
    y=st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(499, 1000)),
    scale=st.sampled_from([8, 40, 128]),
)
def test_series_brackets_the_exponential(y, scale):
    low, high = discrete._exp_series(y, scale)
    with mpmath.workdps(100):
        value = mpmath.exp(mpmath.mpf(y.numerator) / y.denominator) * 2**scale
        assert low <= value <= high
    assert high - low <= 80


@pytest.mark.parametrize(
    "x",
    [Fraction(1, 10**9), Fraction(1, 3), Fraction(1), Fraction(355, 113), Fraction(0.3), 44, 200],
)
def test_bernoulli_exp_is_exact(x):
    """Of 2**320 equally likely numbers, floor(2**320 exp(-x)) give True: found at the border."""
    border = exp_floor(Fraction(x), 320)
    for number, answer in ((border - 3, True), (border + 3, False)):
        digits = iter((number >> 64 * place) & LAST for place in range(4, -1, -1))
        words = lambda n, digits=digits: np.array([next(digits) for _ in range(n)], np.uint64)  # noqa: E731
        assert bernoulli_exp(words, x) is answer


def test_bernoulli_exp_of_zero_is_certain():
    assert bernoulli_exp(lambda n: np.full(n, LAST, dtype=np.uint64), 0)


@pytest.mark.parametrize("sigma", [1e-3, 0.3, 1.0, 3.7, 1000.5, 2.0**40 + 0.5, 2.0**46])
def test_float_probabilities_keep_their_proved_error(sigma):
    rng = np.random.default_rng(11)
    one = discrete._Law.of(sigma)
    offset = rng.integers(0, one.width, size=400)
    level = np.minimum(rng.geometric(0.5, size=400) - 1, 44)
    offset[:2], level[:2] = (0, one.width - 1), (0, 44)
    floats = discrete._chances(one, offset, level)
    for u, v, chance in zip(offset.tolist(), level.tolist(), floats.tolist(), strict=True):
        exact = Fraction(exp_floor(one.exponent(u, v), 128), 2**128)
        assert abs(Fraction(chance) - exact) < Fraction(1, 2**46)


@pytest.mark.parametrize(
    ("sigma", "level"),
    [(0.3, 1), (0.3, 2), (3.7, 0), (3.7, 1), (1000.5, 0), (1000.5, 1), (2.0**40 + 0.5, 1)],
)
@pytest.mark.parametrize("gap", [-(2**18), -1, 0, 1, 2**18])
def test_undecidable_flips_are_settled_exactly(monkeypatch, sigma, level, gap):
    """One proposal sits ``gap`` units of 2**-64 (or of 2**-128, if 0) from its border."""
    width = math.floor(sigma) + 1
    offset = width - 1 if level == 0 and width > 1 else width // 2
    value, square = offset + width * level, Fraction(sigma) ** 2
    x = Fraction(value**2) / (2 * square) - level + square / (2 * width**2)
    border, digits = divmod(exp_floor(x, 128), 2**64)
    seen: list[Fraction] = []
    monkeypatch.setattr(
        discrete, "exp_bounds", lambda x, bits: seen.append(x) or exp_bounds(x, bits)
    )
    for nudge in (-2, 2) if gap == 0 else (0,):
        seen.clear()
        calls = []

        def words(n, calls=calls, nudge=nudge):
            calls.append(n)
            if n == 1:
                return np.array([digits + nudge], dtype=np.uint64)
            block = np.zeros((3, n // 3), dtype=np.uint64)  # zero, V = 0: accepted if u = 0
            block[1] = LAST
            if len(calls) == 1:
                block[2] = LAST  # refused
                block[:, 0] = 2 * offset, (LAST, 2**62, 2**60)[level], border + gap
            return block.reshape(-1)

        accepted = gap < 0 or nudge < 0
        assert discrete_gaussian(words, sigma, 1).tolist() == [value if accepted else 0]
        assert x in seen
        assert (1 in calls) == (gap == 0)


def test_uniform_offset_drops_the_incomplete_cycle():
    """63 random bits are 2**63 = 2 (mod 3): the last two values must not count."""
    for half, expected in ((2**63 - 3, 2), (2**63 - 2, 0), (2**63 - 1, 0)):
        calls = []

        def words(n, calls=calls, half=half):
            calls.append(n)
            block = np.zeros((3, n // 3), dtype=np.uint64)
            block[1] = LAST
            if len(calls) == 1:
                block[0, 0], block[2, 1:] = 2 * half, LAST
            return block.reshape(-1)

        assert discrete_gaussian(words, 2.5, 1).tolist() == [expected]
        assert len(calls) == (1 if expected else 2)


def test_levels_and_their_ties():
    thresholds = discrete._thresholds().tolist()
    assert thresholds == [exp_floor(Fraction(k), 64) for k in range(45, 0, -1)]
    for k in (1, 2, 44, 45):
        border, digits = divmod(exp_floor(Fraction(k), 128), 2**64)
        for nudge, level in ((-2, k), (2, k - 1)):
            more = lambda n, extra=digits + nudge: np.array([extra], dtype=np.uint64)  # noqa: E731
            assert discrete._levels(more, np.array([border], dtype=np.uint64)).tolist() == [level]
        near = np.array([border + 1, max(border, 1) - 1], dtype=np.uint64)
        if k < 44:
            assert discrete._levels(keystream("no tie"), near).tolist() == [k - 1, k]


# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: bernoulli_exp(keystream("x"), Fraction(-1, 2)),
        lambda: bernoulli_exp(keystream("x"), 0.5),
        lambda: discrete_gaussian(3, 1.0, 1),
        lambda: discrete_gaussian(lambda n: np.zeros(n), 1.0, 1),
        lambda: discrete_gaussian(lambda n: np.zeros(n + 1, dtype=np.uint64), 1.0, 1),
        *[
            lambda sigma=sigma: discrete_gaussian(keystream("x"), sigma, 1)
            for sigma in (NAN, INF, 0.0, -1.0, 1e-9, 2.0**47, "1", None, True, np.ones(2))
        ],
        *[
            lambda count=count: discrete_gaussian(keystream("x"), 1.0, count)
            for count in (-1, 1.0, "1", None, True)
        ],
    ],
)
def test_bad_calls_are_refused(call):
    with pytest.raises(ParameterError):
        call()
