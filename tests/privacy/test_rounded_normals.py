"""Rounded normals: the law with power, and why every rounding is right."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import chdtri, ndtr

from dpsco.errors import ParameterError
from dpsco.kernels import normals
from dpsco.kernels.normals import normals_from_words
from dpsco.privacy import rounded_normals as module
from dpsco.privacy.randomness import Randomness
from dpsco.privacy.rounded_normals import log_bounds, rounded_normals

FALSE_ALARM = 1e-6  # of each statistical test; seeds are fixed
DRAWS = 200_000
LAST = 2**64 - 1
word = st.one_of(
    st.integers(0, LAST),
    st.integers(0, 40).map(lambda k: LAST >> k),
    st.integers(0, 60).map(lambda k: 1 << k),
    st.integers(0, 2**12).map(lambda k: LAST - k),
)


def stream(name):
    return Randomness.seeded(int.from_bytes(name.encode(), "little")).child("test").words


def none_left(count):
    raise AssertionError(f"{count} further words were drawn")


def exact_pair(w, v, more=()):
    """The two normals of the words, in the middle of what further digits leave open (mpmath)."""
    place = v & ((1 << 62) - 1)
    place -= (place >> 61) << 62
    digits = 64
    for first, second in more:
        w, place, digits = w << 64 | first, place << 64 | second, digits + 64
    with mpmath.workdps(60 + digits // 3):
        radius = mpmath.sqrt(-2 * mpmath.log((w + mpmath.mpf(1) / 2) / mpmath.mpf(2) ** digits))
        angle = mpmath.pi / 4 * (place + mpmath.mpf(1) / 2) / mpmath.mpf(2) ** (digits - 3)
        pair = [radius * mpmath.cos(angle), radius * mpmath.sin(angle)]
        if v >> 62 & 1:
            pair.reverse()
        return [-z for z in pair] if v >> 63 else pair


def nearest(z, scale):
    with mpmath.workdps(80):
        return int(mpmath.floor(mpmath.mpf(scale) * z + mpmath.mpf(1) / 2))


# --- The law --------------------------------------------------------------------------------------


def chi_square(draws, scale):
    """Statistic against the rounded normal law in up to 40 bins, and its critical value."""
    if scale < 10:
        edges = np.arange(-math.ceil(3 * scale), math.ceil(3 * scale) + 1).astype(float)
    else:
        edges = np.floor(np.linspace(-2.5, 2.5, 39) * scale)
    at = ndtr((edges + 0.5) / scale)
    expected = np.diff(np.concatenate([[0.0], at, [1.0]])) * draws.size
    keep = expected > 100
    observed = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=expected.size)
    statistic = float(((observed - expected) ** 2 / expected)[keep].sum())
    return statistic, float(chdtri(keep.sum(), FALSE_ALARM))


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 50.0, 1000.5, 2.0**30 + 0.5, 2.0**36])
def test_the_law_with_power(scale):
    draws = rounded_normals(stream(f"law {scale}"), DRAWS, scale)
    assert draws.dtype == np.float64
    assert np.array_equal(draws, np.rint(draws))
    statistic, critical = chi_square(draws, scale)
    assert statistic < critical
    for wrong in (0.97, 1.03):
        statistic, critical = chi_square(
            rounded_normals(stream(f"{wrong} {scale}"), DRAWS, wrong * scale), scale
        )
        assert statistic > critical


def test_neighbours_and_pairs_are_independent():
    z = rounded_normals(stream("pairs"), DRAWS, 2.0**20) / 2.0**20
    for lag in (1, 2, 3):
        product = float((z[lag:] * z[:-lag]).sum()) / math.sqrt(z.size - lag)
        squares = float(((z[lag:] ** 2 - 1) * (z[:-lag] ** 2 - 1)).sum()) / 2
        assert abs(product) < 5.2
        assert abs(squares / math.sqrt(z.size - lag)) < 5.2


# --- Every rounding is right ----------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.7, 1.0, 2.0**10, 2.0**20 * 1.3, 2.0**34, 2.0**44])
def test_integers_are_those_of_high_precision(scale):
    words = stream(f"words {scale}")(600)
    supply = iter([words])
    found = rounded_normals(lambda n: next(supply, none_left), 600, scale)
    for k in range(0, 600, 2):
        pair = exact_pair(int(words[k]), int(words[k + 1]))
        assert found[k : k + 2].tolist() == [nearest(z, scale) for z in pair]


@pytest.mark.thorough
@given(word, word, st.integers(-3, 47), st.floats(1.0, 2.0))
@settings(max_examples=400, deadline=None)
def test_extreme_words_give_the_right_integers(w, v, exponent, mantissa):
    scale = mantissa * 2.0**exponent
    given_words, further = [np.array([w, v], dtype=np.uint64)], []

    def words(count):
        if given_words:
            return given_words.pop()
        further.append((0x123456789ABCDEF0, 0xFEDCBA9876543210))
        return np.array(further[-1], dtype=np.uint64)

    found = rounded_normals(words, 2, scale).tolist()
    assert len(further) <= 2
    assert found == [nearest(z, scale) for z in exact_pair(w, v, further)]


def tolerance(square):
    """What the loop allows for a pair, in units of 2^-53."""
    for least, value in ((2.0**-2, None), (2.0**-4, 22), (2.0**-8, 70), (2.0**-16, 1100)):
        if square >= least:
            return value or (4.5 * square + 16 if square <= 16.0 else 160)
    return 3e5


@pytest.mark.thorough
def test_the_error_of_the_kernel_is_within_what_the_proof_allows():
    """On words all over the range, small and large radii included; and not far below."""
    rng = np.random.default_rng(3)
    w = rng.integers(0, 2**64, 4000, dtype=np.uint64)
    w[::4] >>= rng.integers(0, 20, 1000, dtype=np.uint64)
    w[1::4] |= np.uint64(LAST) << rng.integers(20, 64, 1000, dtype=np.uint64)
    words = np.column_stack([w, rng.integers(0, 2**64, 4000, dtype=np.uint64)]).ravel()
    z = np.empty(words.size)
    normals_from_words(words, z)
    worst = 0.0
    for k in range(0, words.size, 2):
        pair = exact_pair(int(words[k]), int(words[k + 1]))
        r = float(mpmath.hypot(*pair))
        if 2.0**-16 <= r <= 5.2:
            allowed = 2.0**-53 * (12 * r + 4 / r if r <= 4.0 else 160.0)
            assert allowed <= 2.0**-53 * tolerance(r * r)
            errors = [abs(float(pair[i] - mpmath.mpf(z[k + i]))) for i in (0, 1)]
            worst = max(worst, max(errors) / allowed)
    assert 0.02 < worst < 0.6


@pytest.mark.parametrize("scale", [1.0, 2.0**30, 2.0**36])
def test_loop_and_twin_agree_to_the_bit(scale):
    words = stream(f"twins {scale}")(20_000)
    z = np.empty(words.size)
    normals_from_words(words, z)
    z[:4] = [0.0, 0.0, 9.0, 0.1]
    z[4:204] = np.ldexp(z[4:204], -np.arange(200) // 8)
    outcomes = []
    compiled = normals._compiled_loop(normals._round_loop, "none(out, float, flags)")
    for loop in (normals._numpy_round_pairs, compiled):
        copy, doubtful = z.copy(), np.empty(z.size // 2, dtype=np.uint8)
        loop(copy, scale, doubtful)
        outcomes.append((copy.tobytes(), doubtful.tobytes()))
        assert doubtful[:2].all()
    assert outcomes[0] == outcomes[1]


def test_few_are_settled_in_integers(monkeypatch):
    """Else it would be slow; the share grows with the scale."""
    counted = []
    settled = module._settled
    monkeypatch.setattr(module, "_settled", lambda *a: counted.append(1) or settled(*a))
    shares = []
    for exponent in (20, 30, 36):
        counted.clear()
        rounded_normals(stream(f"share {exponent}"), 400_000, 2.0**exponent)
        shares.append(len(counted))
    assert shares[0] <= 5
    assert 1 <= shares[1] <= 20
    assert 50 <= shares[2] <= 500


@pytest.mark.parametrize("doubt", [False, True])
def test_doubt_changes_nothing_but_the_time(doubt, monkeypatch):
    plain = rounded_normals(stream("doubt"), 2001, 2.0**33)
    if doubt:
        monkeypatch.setattr(module, "round_pairs", lambda z, s, flags: flags.fill(1))
    assert np.array_equal(rounded_normals(stream("doubt"), 2001, 2.0**33), plain)


@pytest.mark.parametrize("digits", [64, 128])
@pytest.mark.parametrize("w", [1, 2, 3, 2**40 + 12345, 2**63, 2**64 - 2])
def test_logarithms_are_bounded_closely(w, digits):
    w <<= digits - 64
    high, low = log_bounds(w, digits, digits + 80)
    with mpmath.workdps(100):
        unit = mpmath.mpf(2) ** (digits + 80)
        ends = [-mpmath.log(x / mpmath.mpf(2) ** digits) * unit for x in (w, w + 1)]
    assert low <= ends[1]
    assert ends[0] <= high
    assert high - low <= 2 ** (digits + 80) // w + 2**20


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**48 * 1.1])
def test_other_scales_are_refused(scale):
    with pytest.raises(ParameterError, match="scale"):
        rounded_normals(none_left, 2, scale)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 16384, 16385, 40001])
def test_any_number_of_draws(count):
    """A longer request begins with the values of a shorter one, where nothing is settled."""
    draws = rounded_normals(stream("count"), count, 1000.0)
    assert draws.shape == (count,)
    assert np.array_equal(draws, rounded_normals(stream("count"), 50_000, 1000.0)[:count])
