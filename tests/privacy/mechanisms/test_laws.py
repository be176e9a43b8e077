"""The law of every mechanism, with power, and the pure privacy of each selection noise.

Seeds are fixed. Each statistical test would sound a false alarm with probability FALSE_ALARM, and
the same test must reject a scale that is wrong by 10%, on either side.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import gamma as gamma_function

from dpsco.privacy import lattice
from dpsco.privacy.mechanisms.gamma import gamma
from dpsco.privacy.mechanisms.generalized_gaussian import generalized_gaussian
from dpsco.privacy.mechanisms.selection import SELECTION_NOISES, noisy_argmin
from dpsco.privacy.randomness import Randomness

FALSE_ALARM = 1e-6
WRONG_SCALES = (0.9, 1.1)
INF = math.inf


def stream(*name):
    """A stream for one sample of one test."""
    number = int.from_bytes(repr(name).encode(), "little")
    return Randomness.seeded(number).child("test")


def joint(*p_values):
    """One p-value for several tests of one hypothesis (Bonferroni)."""
    return min(1.0, len(p_values) * min(p_values))


def two_sided(distribution, value):
    return 2.0 * min(float(distribution.cdf(value)), float(distribution.sf(value)))


def frequencies_p(counts, probabilities):
    """Chi-square p-value of observed counts."""
    expected = np.asarray(probabilities) * counts.sum()
    assert expected.min() > 20
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(stats.chi2(len(expected) - 1).sf(statistic))


# --- Gaussian ----------------------------------------------------------------------------


def gaussian(source, shape, sigma):
    return lattice.with_gaussian(source.words, np.zeros(shape), sigma, 2.0**-30 * sigma)


def gaussian_p(draws, sigma):
    """KS against N(0, sigma^2), the sum of squares, and the product of neighbouring columns."""
    z = draws / sigma
    product = (z[:, 1:] * z[:, :-1]).sum() / math.sqrt(z[:, 1:].size)
    return joint(
        stats.kstest(z.ravel(), stats.norm.cdf).pvalue,
        two_sided(stats.chi2(z.size), (z**2).sum()),
        two_sided(stats.norm, product),
    )


@pytest.mark.parametrize("sigma", [1e-3, 1.0, 7.5e4])
def test_gaussian_has_its_law_and_a_wrong_scale_is_noticed(sigma):
    shape = (4000, 10)
    right = gaussian(stream("gaussian", sigma), shape, sigma)
    assert right.shape == shape
    assert right.dtype == np.float64
    assert gaussian_p(right, sigma) > FALSE_ALARM
    for wrong in WRONG_SCALES:
        draws = gaussian(stream("gaussian", sigma, wrong), shape, wrong * sigma)
        assert gaussian_p(draws, sigma) < FALSE_ALARM


def test_gaussian_test_notices_repeated_noise():
    half = gaussian(stream("repeated"), (4000, 5), 1.0)
    assert gaussian_p(np.repeat(half, 2, axis=1), 1.0) < FALSE_ALARM


# --- Gamma -------------------------------------------------------------------------------


def gamma_p(draws, shape):
    """KS against Gamma(shape, 1), and the sum, which is Gamma(shape * count, 1)."""
    return joint(
        stats.kstest(draws, stats.gamma(shape).cdf).pvalue,
        two_sided(stats.gamma(shape * draws.size), draws.sum()),
    )


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [0.05, 0.25, 0.5, 1.0, 1.0 + 1 / 14, 1.5, 2.0, 7.5, 50.0, 500.0])
def test_gamma_has_its_law_and_a_wrong_scale_or_shape_is_noticed(shape):
    count = 100_000 if shape < 0.2 else 20_000
    right = gamma(stream("gamma", shape), shape, count)
    assert right.shape == (count,)
    assert right.min() >= 0.0
    assert gamma_p(right, shape) > FALSE_ALARM
    for wrong in WRONG_SCALES:
        assert gamma_p(wrong * right, shape) < FALSE_ALARM
        other = gamma(stream("gamma", shape, wrong), wrong * shape, count)
        assert gamma_p(other, shape) < FALSE_ALARM


# --- Generalized Gaussian ----------------------------------------------------------------

NORMS = [2.0, 3.0, 4.0, 14.0, INF]


def generalized(name, dimension, norm, sigma, count):
    source = stream("generalized", name, dimension, norm)
    draws = [generalized_gaussian(source, dimension, norm, sigma) for _ in range(count)]
    return np.array(draws)


def lengths(draws, norm):
    """The l_r norms, scaled so that powers cannot underflow."""
    peak = np.abs(draws).max(axis=1)
    if math.isinf(norm):
        return peak
    return peak * ((np.abs(draws) / peak[:, None]) ** norm).sum(axis=1) ** (1 / norm)


def radius_p(draws, norm, sigma):
    """|z|_r^2 / sigma^2 is chi-square with d degrees of freedom: KS, and the sum."""
    squares = (lengths(draws, norm) / sigma) ** 2
    return joint(
        stats.kstest(squares, stats.chi2(draws.shape[1]).cdf).pvalue,
        two_sided(stats.chi2(draws.size), squares.sum()),
    )


def direction_p(draws, norm):
    """|z_1|^r / |z|_r^r is Beta(1/r, (d-1)/r); for r = inf, 1 in a share 1/d, else uniform."""
    dimension = draws.shape[1]
    share = np.abs(draws[:, 0]) / lengths(draws, norm)
    signs = stats.binomtest(int((draws > 0).sum()), draws.size).pvalue
    if math.isinf(norm):
        largest = share >= 1.0
        top = stats.binomtest(int(largest.sum()), len(share), 1 / dimension).pvalue
        return joint(signs, top, stats.kstest(share[~largest], stats.uniform.cdf).pvalue)
    law = stats.beta(1 / norm, (dimension - 1) / norm)
    return joint(signs, stats.kstest(share**norm, law.cdf).pvalue)


def independence_p(draws, norm):
    """The radius has the same law on both sides of the direction's median, and no rank trend."""
    radius = lengths(draws, norm)
    share = np.abs(draws[:, 0]) / radius
    low = share < np.median(share)
    return joint(
        stats.ks_2samp(radius[low], radius[~low]).pvalue,
        stats.spearmanr(radius, share).pvalue,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dimension", [1, 2, 10])
def test_generalized_gaussian_has_its_law_and_a_wrong_scale_is_noticed(dimension, norm):
    sigma = 1.3
    draws = generalized("law", dimension, norm, sigma, {1: 3000, 2: 2000, 10: 1500}[dimension])
    assert draws.shape[1] == dimension
    assert radius_p(draws, norm, sigma) > FALSE_ALARM
    for wrong in WRONG_SCALES:
        assert radius_p(draws, norm, wrong * sigma) < FALSE_ALARM
    if dimension > 1:
        assert direction_p(draws, norm) > FALSE_ALARM
        assert independence_p(draws, norm) > FALSE_ALARM


def test_generalized_gaussian_tests_have_power():
    draws = generalized("law", 10, 4.0, 1.3, 2000)
    assert direction_p(draws, 2.0) < FALSE_ALARM  # the noise of another norm
    assert direction_p(draws, INF) < FALSE_ALARM
    assert direction_p(np.abs(draws), 4.0) < FALSE_ALARM  # signs forgotten
    share = np.abs(draws[:, 0]) / lengths(draws, 4.0)
    stretched = draws * np.where(share > np.median(share), 1.1, 1.0)[:, None]
    assert independence_p(stretched, 4.0) < FALSE_ALARM
    wrong = generalized("wrong", 10, 4.0, 1.1 * 1.3, 1000)  # and not only by rescaling the answer
    assert radius_p(wrong, 4.0, 1.3) < FALSE_ALARM


def shares_p(draws, norm):
    """In many dimensions |z_i|^r, scaled to mean 1/r, are as good as independent Gamma(1/r)."""
    if math.isinf(norm):
        return stats.kstest((draws / lengths(draws, norm)[:, None]).ravel(), uniform_pm).pvalue
    powers = (np.abs(draws) / lengths(draws, norm)[:, None]) ** norm
    return stats.kstest((powers * draws.shape[1] / norm).ravel(), stats.gamma(1 / norm).cdf).pvalue


uniform_pm = stats.uniform(-1.0, 2.0).cdf


@pytest.mark.thorough
@pytest.mark.parametrize("norm", NORMS)
def test_generalized_gaussian_has_its_shape_in_many_dimensions(norm):
    draws = generalized("many", 4000, norm, 1.0, 25)
    assert shares_p(draws, norm) > FALSE_ALARM
    for wrong in (14.0,) if math.isinf(norm) else (norm / 2, 2 * norm):
        assert shares_p(draws, wrong) < FALSE_ALARM


def test_generalized_gaussian_at_norm_two_is_gaussian():
    draws = generalized("two", 10, 2.0, 2.5, 2500)
    assert gaussian_p(draws, 2.5) > FALSE_ALARM
    for wrong in WRONG_SCALES:
        assert gaussian_p(draws, wrong * 2.5) < FALSE_ALARM


def exact_moment(powers, dimension, norm, sigma):
    """E prod |z_i|^a_i = sigma^a E chi_d^a * E prod |u_i|^a_i, the latter a Dirichlet moment."""
    total = sum(powers)
    radial = (sigma * math.sqrt(2)) ** total
    radial *= gamma_function((dimension + total) / 2) / gamma_function(dimension / 2)
    shares = math.prod(gamma_function((1 + a) / norm) / gamma_function(1 / norm) for a in powers)
    shares *= gamma_function(dimension / norm) / gamma_function((dimension + total) / norm)
    return radial * shares


SPECIFIED = {(2, 0): 2.02486, (4, 0): 11.4244, (2, 2): 5.22034}  # su2023 3.2, by quadrature


@pytest.mark.thorough
def test_generalized_gaussian_has_the_moments_of_the_specification():
    draws = np.abs(generalized("moments", 2, 4.0, 1.3, 8000))
    for (first, second), value in SPECIFIED.items():
        assert exact_moment((first, second), 2, 4.0, 1.3) == pytest.approx(value, rel=3e-6)
        products = draws[:, 0] ** first * draws[:, 1] ** second
        error = products.std() / math.sqrt(len(products))
        reject = stats.norm.isf(FALSE_ALARM / 6) * error  # three moments, two sides
        assert abs(products.mean() - value) < reject
        for wrong in WRONG_SCALES:
            assert abs(products.mean() - value * wrong ** (first + second)) > reject


# --- Selection: exact output probabilities -----------------------------------------------

LAWS = {  # density and distribution function of the noise on a negated score, at scale 1
    "gumbel": (lambda t: np.exp(-t - np.exp(-t)), lambda t: np.exp(-np.exp(-t))),
    "permute_and_flip": (
        lambda t: np.where(t > 0, np.exp(-np.abs(t)), 0.0),
        lambda t: np.where(t > 0, -np.expm1(-np.maximum(t, 0.0)), 0.0),
    ),
    "laplace": (
        lambda t: 0.5 * np.exp(-np.abs(t)),
        lambda t: np.where(t > 0, 1 - 0.5 * np.exp(-np.abs(t)), 0.5 * np.exp(-np.abs(t))),
    ),
}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)


def probabilities(scores, scale, noise):
    """P(argmin = j) by Gauss-Legendre on panels that end at every kink."""
    density, distribution = LAWS[noise]
    gaps = (scores[None, :] - scores[:, None]) / scale  # [j, k]: j beats k if N_k < N_j + gap
    found = np.empty(len(scores))
    for j, gap in enumerate(gaps):
        edges = np.unique(np.concatenate([np.arange(-46.0, 46.0, 0.75), [0.0], -gap]))
        middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        t = (middle[:, None] + half[:, None] * NODES).ravel()
        others = np.delete(np.arange(len(scores)), j)
        wins = np.prod(distribution(t[:, None] + gap[others]), axis=1)
        found[j] = float(np.sum((half[:, None] * WEIGHTS).ravel() * density(t) * wins))
    return found


SCORES = np.array([0.0, 0.3, 1.0])
SCALE = 0.5
SOFTMAX = np.array([0.593772, 0.325869, 0.080358])  # bassily2021 4


def test_quadrature_agrees_with_closed_forms():
    assert probabilities(SCORES, SCALE, "gumbel") == pytest.approx(SOFTMAX, abs=1e-6)
    weights = np.exp(-SCORES / SCALE)
    exact = weights / weights.sum()
    assert probabilities(SCORES, SCALE, "gumbel") == pytest.approx(exact, rel=1e-11)
    for noise in SELECTION_NOISES:
        assert probabilities(SCORES, SCALE, noise).sum() == pytest.approx(1.0, abs=1e-11)
    # Two candidates a gap g apart, in units of the scale: the worse one wins with probability
    # e^-g / 2 (exponential noise) or e^-g (2 + g) / 4 (Laplace noise).
    gap = 1.7
    two = np.array([0.0, gap])
    flip = probabilities(two, 1.0, "permute_and_flip")[1]
    assert flip == pytest.approx(math.exp(-gap) / 2, rel=1e-11)
    laplace = probabilities(two, 1.0, "laplace")[1]
    assert laplace == pytest.approx(math.exp(-gap) * (2 + gap) / 4, rel=1e-11)


def selected(name, scores, scale, noise, count):
    source = stream("selection", name, noise)
    picks = [noisy_argmin(source.words, scores, scale, noise) for _ in range(count)]
    return np.bincount(picks, minlength=len(scores))


@pytest.mark.slow
@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_selection_has_its_law_and_a_wrong_scale_is_noticed(noise):
    expected = probabilities(SCORES, SCALE, noise)
    counts = selected("right", SCORES, SCALE, noise, 30_000)
    assert frequencies_p(counts, expected) > FALSE_ALARM
    for other in set(SELECTION_NOISES) - {noise}:  # the three noises are told apart
        assert frequencies_p(counts, probabilities(SCORES, SCALE, other)) < FALSE_ALARM
    for wrong in WRONG_SCALES:
        counts = selected(f"wrong {wrong}", SCORES, wrong * SCALE, noise, 30_000)
        assert frequencies_p(counts, expected) < FALSE_ALARM


@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_the_smaller_score_wins(noise):
    for place in range(4):
        scores = np.full(4, 5.0)
        scores[place] = 3.0
        counts = selected(f"sign {place}", scores, 1.0, noise, 600)
        # by chance, a quarter of 600: 150; at least 242 has probability below 1e-15
        assert int(np.argmax(counts)) == place
        assert counts[place] >= 242


@pytest.mark.thorough
@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_no_noise_is_the_argmin_and_all_noise_is_uniform(noise):
    numbers = np.random.default_rng(1).normal(size=(200, 6))
    source = stream("limit", noise)
    for scores in numbers:
        assert noisy_argmin(source.words, scores, 1e-12, noise) == np.argmin(scores)
    counts = selected("uniform", numbers[0], 1e9, noise, 12_000)
    assert frequencies_p(counts, np.full(6, 1 / 6)) > FALSE_ALARM
    assert frequencies_p(counts, probabilities(numbers[0], 10.0, noise)) < FALSE_ALARM


# --- Selection: privacy ------------------------------------------------------------------

E0 = 0.2


def neighbours(count):
    """Random pairs of scores whose difference has range E0, the scale being 1."""
    rng = np.random.default_rng(20210)
    for i in range(count):
        size = int(rng.integers(2, 6))
        scores = rng.exponential(rng.choice([0.1, 1.0, 4.0]), size)
        change = rng.uniform(0.0, E0, size)
        if i % 2:  # the extreme points: every change is 0 or E0
            change = E0 * rng.integers(0, 2, size)
        change[int(rng.integers(size))] = 0.0
        change[int(np.argmin(change == 0.0))] = E0
        yield scores, scores + change - rng.uniform(-1.0, 1.0)  # a common shift costs nothing


def audit(noise, *, scale=1.0, pairs=150):
    """The largest log-ratio, spread of log-ratios and KL divergence, in units of the theory's."""
    ratio = spread = divergence = 0.0
    for scores, changed in neighbours(pairs):
        assert np.ptp(changed - scores) <= E0 * (1 + 1e-12)
        p, q = probabilities(scores, scale, noise), probabilities(changed, scale, noise)
        logs = np.log(p / q)
        ratio = max(ratio, float(np.abs(logs).max()) / E0)
        spread = max(spread, float(np.ptp(logs)) / E0)
        divergence = max(divergence, float(p @ logs) / (E0**2 / 8), float(-q @ logs) / (E0**2 / 8))
    return ratio, spread, divergence


@pytest.mark.thorough
@pytest.mark.parametrize("noise", SELECTION_NOISES)
def test_selection_is_purely_private_and_tightly_so(noise):
    ratio, _, _ = audit(noise)
    assert 0.9 < ratio <= 1 + 1e-7
    too_little_noise, _, _ = audit(noise, scale=0.9)
    assert too_little_noise > 1.02


@pytest.mark.thorough
def test_only_gumbel_has_bounded_range():
    _, spread, divergence = audit("gumbel")
    assert 0.97 < spread <= 1 + 1e-7
    assert divergence <= 1 + 1e-7
    _, too_little_noise, _ = audit("gumbel", scale=0.9)
    assert too_little_noise > 1.05
    for noise in ("laplace", "permute_and_flip"):
        _, spread, divergence = audit(noise)
        assert spread > 1.1  # so an eighth of E0^2 would be a privacy bug:
        assert divergence > 1.1
        assert divergence <= 4 + 1e-7  # a half, which is what they are charged, does hold
