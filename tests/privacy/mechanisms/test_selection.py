"""Noisy selection with exact comparisons: floats decide only what they are sure of."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpsco.privacy.mechanisms import selection
from dpsco.privacy.mechanisms.selection import SELECTION_NOISES, noisy_argmin
from dpsco.privacy.randomness import Randomness

every_noise = pytest.mark.parametrize("noise", SELECTION_NOISES)


def stream(name):
    return Randomness.seeded(int.from_bytes(name.encode(), "little")).child("test").words


def exact_values(words, scores, scale, noise, digits=64):
    """s - scale G in the middle of what further digits leave open (mpmath)."""
    with mpmath.workdps(60 + digits // 3):

        def exponential(w):
            return -mpmath.log((int(w) + mpmath.mpf(1) / 2) / mpmath.mpf(2) ** digits)

        rows = np.asarray(words, dtype=object).reshape(-1, len(scores))
        if noise == "gumbel":
            drawn = [-mpmath.log(exponential(w)) for w in rows[0]]
        elif noise == "permute_and_flip":
            drawn = [exponential(w) for w in rows[0]]
        else:
            drawn = [exponential(a) - exponential(b) for a, b in zip(*rows, strict=True)]
        pairs = zip(scores, drawn, strict=True)
        return [mpmath.mpf(float(s)) - mpmath.mpf(scale) * g for s, g in pairs]


@pytest.mark.thorough
@every_noise
def test_float_bounds_hold(noise):
    count = 3000
    words = stream(f"bounds {noise}")(count * (2 if noise == "laplace" else 1))
    words[:40] >>= np.uint64(30)
    words[40:80] |= np.uint64(2**64 - 2**34)
    scores = np.random.default_rng(1).normal(size=count) * 100
    low, high = selection._float_bounds(words.reshape(-1, count), scores, 2.5, noise)
    exact = exact_values(words, scores, 2.5, noise)
    assert all(a < x < b for a, x, b in zip(low, exact, high, strict=True))
    sure = np.isfinite(low)
    assert sure.mean() > 0.97
    assert np.median((high - low)[sure]) < 1e-9


@every_noise
def test_exact_comparisons_agree_with_floats_and_with_high_precision(noise, monkeypatch):
    scores = np.array([0.0, 0.1, 0.2, 0.3])
    picks = [noisy_argmin(stream(f"{noise} {k}"), scores, 1.0, noise) for k in range(200)]
    monkeypatch.setattr(
        selection, "_float_bounds", lambda *a: (np.full(4, -np.inf), np.full(4, np.inf))
    )
    exact = [noisy_argmin(stream(f"{noise} {k}"), scores, 1.0, noise) for k in range(200)]
    assert picks == exact
    for k in range(50):
        words = stream(f"{noise} {k}")(8 if noise == "laplace" else 4)
        values = exact_values(words, scores, 1.0, noise)
        assert picks[k] == values.index(min(values))


@every_noise
@pytest.mark.parametrize("later", [0, 1])
def test_equal_first_digits_are_settled_by_later_ones(noise, later):
    """Two candidates with the same words and scores: only further words can tell them apart."""
    first = [2**63 + 12345, 2**63 + 12345]
    words = first + ([2**62, 2**62] if noise == "laplace" else [])
    more = [[5, 2**60], [2**60, 5]][later]
    supply = [np.array(words, dtype=np.uint64)]
    further = iter([*more, 7, 7] if noise != "laplace" else [more[0], 9, more[1], 9])

    def draw(count):
        if supply:
            return supply.pop()
        return np.array([next(further) for _ in range(count)], dtype=np.uint64)

    chosen = noisy_argmin(draw, np.zeros(2), 1.0, noise)
    larger = int(more[1] > more[0])
    # Gumbel noise grows with U, exponential noise falls with it: the larger noise wins.
    assert chosen == (larger if noise == "gumbel" else 1 - larger)


@every_noise
@pytest.mark.parametrize("extreme", [0, 1, 2**64 - 1, 2**64 - 2])
def test_extreme_words_are_settled(noise, extreme):
    count = 6 if noise == "laplace" else 3
    words = stream("extreme")(count).copy()
    words[1] = extreme
    supply = [words]
    more = stream("more")
    chosen = noisy_argmin(lambda n: supply.pop() if supply else more(n), np.zeros(3), 1.0, noise)
    if noise == "laplace" and extreme > 2:  # the other exponential decides
        assert chosen in (0, 1, 2)
    else:
        assert (chosen == 1) == (extreme > 2 if noise == "gumbel" else extreme <= 2)


def test_scores_far_apart_and_huge_are_told_apart():
    for noise in SELECTION_NOISES:
        assert noisy_argmin(stream("far"), np.array([1e300, -1e300, 0.0]), 1e-3, noise) == 1
        assert noisy_argmin(stream("odd"), np.array([np.inf, np.nan, -np.inf]), 1.0, noise) == 2
