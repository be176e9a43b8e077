"""Numbers that leave lie on a public lattice, and their low bits tell nothing: attacks included."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

import dpsco as dp
from dpsco.privacy import Ledger, Randomness, mechanism
from dpsco.privacy.budget import ApproxDP
from dpsco.privacy.lattice import SLACK, lattice_step, on_lattice, with_gaussian
from dpsco.privacy.mechanisms import (
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    ObjectivePerturbationRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    ShuffledRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)

PLENTY = ApproxDP(1e9, 1e-6, adjacency="zero_out")


# --- The theorem's parts --------------------------------------------------------------------------


@given(st.floats(-100, 100).map(lambda e: 10.0**e), st.integers(1, 10**9))
@settings(max_examples=300, deadline=None)
def test_the_step_is_the_largest_power_of_two_that_the_slack_allows(bound, size):
    step = lattice_step(bound, size)
    assert math.frexp(step)[0] == 0.5
    assert Fraction(step) ** 2 * size <= (Fraction(SLACK) * Fraction(bound)) ** 2
    assert (2.0001 * Fraction(step)) ** 2 * size > (Fraction(SLACK) * Fraction(bound)) ** 2


@pytest.mark.thorough
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20),
    st.lists(st.floats(-1, 1), min_size=20, max_size=20),
)
@settings(max_examples=300, deadline=None)
def test_rounding_widens_a_distance_by_no_more_than_is_charged(values, move):
    one = np.array(values)
    shift = np.array(move[: one.size])
    shift /= max(1.0, float(np.linalg.norm(shift)))
    other = one + shift
    moves = [float(Fraction(a) - Fraction(b)) for a, b in zip(one, other, strict=True)]
    distance = np.linalg.norm(moves)
    step = lattice_step(1.0, one.size)
    steps = on_lattice(one, step) - on_lattice(other, step)
    assert np.linalg.norm(steps) * step <= (distance + SLACK) * (1 + 1e-12)


def test_integers_commute_with_the_noise():
    """Whatever the sum, the noise on it is the same integer: nothing else is added or rounded."""
    step = 2.0**-20
    totals = np.array([0.0, 1.0, -3.25, 1e6 + 0.1, 2.0**30 * 0.7])
    words = [Randomness.seeded(4).child("x").words for _ in range(2)]
    quiet = with_gaussian(words[0], np.zeros(5), 3.0, step)
    loud = with_gaussian(words[1], totals, 3.0, step)
    assert np.array_equal(loud - np.rint(totals / step) * step, quiet)


def test_huge_sums_are_rounded_after_the_noise():
    """Beyond 2^53 steps: the answer is the float nearest to the exact sum of two integers."""
    step, total = 2.0**-20, np.array([2.0**40 + 2.0**-20, 2.0**45, -(2.0**50)])
    words = [Randomness.seeded(4).child("x").words for _ in range(2)]
    noise = with_gaussian(words[0], np.zeros(3), 3.0, step)
    loud = with_gaussian(words[1], total, 3.0, step)
    exact = [Fraction(a) + Fraction(b) for a, b in zip(total, noise, strict=True)]
    assert loud.tolist() == [float(each) for each in exact]


def test_a_small_lattice_has_the_exact_law():
    """One step of a tenth of sigma and one of ten: probabilities by the normal law of the cells."""
    for scale in (10.0, 0.4):
        draws = with_gaussian(Randomness.seeded(5).child("y").words, np.zeros(100_000), scale, 1.0)
        k = np.arange(-2, 3)
        expected = ndtr((k + 0.5) / scale) - ndtr((k - 0.5) / scale)
        found = np.array([(draws == each).mean() for each in k])
        assert np.abs(found - expected).max() < 5 * math.sqrt(0.25 / 100_000)


# --- Every release is on its lattice --------------------------------------------------------------

ROWS = (0, 12)
THEOREM = ("zero_out", "a theorem")


def _minimised(ledger, release):
    return ledger.perturbed_minimiser(lambda tilt: tilt / 7.0, 6, release)


RELEASES = {
    "gaussian": (
        GaussianRelease(1.0, 8.0, rows=ROWS),
        lambda ledger, r: ledger.gaussian(np.full(6, 0.1), bound=1.0, sigma=8.0, rows=ROWS),
        lattice_step(1.0, 6),
    ),
    "generalized": (
        GeneralizedGaussianRelease(1.0, 8.0, 3.0, rows=ROWS),
        lambda ledger, r: ledger.generalized_gaussian(
            np.full(6, 0.1), bound=1.0, sigma=8.0, norm=3.0, rows=ROWS
        ),
        lattice_step(1.0, 6),
    ),
    "poisson": (
        PoissonGaussianRelease(1.0, 8.0, 0.5, rows=ROWS),
        lambda ledger, r: ledger.poisson(bound=1.0, sigma=8.0, rate=0.5, rows=ROWS).release(
            np.full(6, 0.1)
        ),
        lattice_step(1.0, 6),
    ),
    "fixed size": (
        FixedSizeGaussianRelease(1.0, 8.0, 6, rows=ROWS),
        lambda ledger, r: ledger.fixed_size(bound=1.0, sigma=8.0, size=6, rows=ROWS).release(
            np.full(6, 0.1)
        ),
        lattice_step(1.0, 6),
    ),
    "shuffled": (
        ShuffledRelease(1.0, 8.0, rows=ROWS),
        lambda ledger, r: ledger.shuffled(np.full((12, 6), 0.1), bound=1.0, sigma=8.0, rows=ROWS),
        lattice_step(1.0, 6),
    ),
    "stable": (
        StableGaussianRelease(0.3, 8.0, *THEOREM, rows=ROWS),
        lambda ledger, r: ledger.stable(np.full(6, 0.1), r),
        lattice_step(0.3, 6),
    ),
    "stable gamma": (
        StableGammaRelease(0.3, 8.0, *THEOREM, rows=ROWS),
        lambda ledger, r: ledger.stable(np.full(6, 0.1), r),
        lattice_step(0.3, 6),
    ),
    "hits": (
        WithReplacementRelease(0.3, 0.1, 20, 8.0, *THEOREM, rows=ROWS),
        lambda ledger, r: ledger.with_replacement(r).release(np.full(6, 0.1)),
        lattice_step(0.3, 6),
    ),
    "perturbed": (
        ObjectivePerturbationRelease(1.0, 9.0, 0.25, 10.0, 1, "glm", 1e-7, 1e-4, rows=ROWS),
        _minimised,
        lattice_step(1e-7, 6, slack=2.0**-6),
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", RELEASES)
def test_what_leaves_is_a_multiple_of_a_public_step(name):
    release, execute, step = RELEASES[name]
    seen = []
    for seed in range(5):
        ledger = Ledger(release, PLENTY, randomness=Randomness.seeded(seed))
        answer = execute(ledger, release)
        multiples = answer / step
        assert np.array_equal(multiples, np.rint(multiples))
        seen.append(multiples.astype(np.int64) & 1)
        ledger.close()
    assert 0 < np.mean(seen) < 1  # and of no coarser one


def test_a_tilt_is_close_to_an_exact_normal_and_its_rounding_is_charged():
    release = RELEASES["perturbed"][0]
    tilts = []
    ledger = Ledger(release, PLENTY, randomness=Randomness.seeded(1))
    ledger.perturbed_minimiser(lambda tilt: tilts.append(tilt) or np.zeros(6), 6, release)
    step = lattice_step(2 * release.distance * release.floor, 6, slack=2.0**-6)
    assert np.array_equal(tilts[0] / step, np.rint(tilts[0] / step))
    # Half a step in each coordinate moves the minimiser by no more than a 64th of the distance.
    assert 0.5 * step * math.sqrt(6) / release.floor <= release.distance / 64


# --- Attacks on the low bits ----------------------------------------------------------------------


def off_lattice(values, v):
    """The event: a coordinate smaller than v/4 that is no multiple of the last place of v/2.

    Noise added in floats to a sum of size v loses the bits below v's last place; on a sum of 0 it
    keeps them. A value near 0 that has such bits cannot come from the sum of size v.
    """
    unit = math.ulp(v / 2)
    small = np.abs(values) < v / 4
    return bool((small & (np.remainder(values, unit) != 0.0)).any())


def float_noise(words, exact, sigma, step):
    """Noise as it was: a float added to a float."""
    from dpsco.kernels.normals import normals_from_words

    drawn = words(exact.size + exact.size % 2)
    z = np.empty(drawn.size)
    normals_from_words(drawn, z)
    return exact + sigma * z[: exact.size].reshape(exact.shape)


V = 0.9


def plain_sum(ledger, total, d):
    return ledger.gaussian(total, bound=1.0, sigma=1.0, rows=ROWS)


def sampled_sum(ledger, total, d):
    return ledger.poisson(bound=1.0, sigma=1.0, rate=0.5, rows=ROWS).release(total)


def prefix_change(ledger, total, d):
    sums = ledger.prefix_sum(
        d, bound=1.0, sigma=1.0, mechanism=mechanism("tree", rounds=2), rows=ROWS
    )
    first = sums.add(total, rows=(0, 6))
    sums.add(np.zeros(d), rows=(6, 12))
    return first


ATTACKS = {
    "sum": (GaussianRelease(1.0, 1.0, rows=ROWS), plain_sum, 64),
    "sum of one number": (GaussianRelease(1.0, 1.0, rows=ROWS), plain_sum, 1),
    "sampled": (PoissonGaussianRelease(1.0, 1.0, 0.5, rows=ROWS), sampled_sum, 64),
    "prefix": (
        PrefixSumRelease(1.0, 1.0, mechanism("tree", rounds=2), rows=ROWS),
        prefix_change,
        64,
    ),
}


def successes(attack, draws, value):
    release, execute, d = ATTACKS[attack]
    releases = dataclasses.replace(release, count=draws // d)
    ledger = Ledger(releases, PLENTY, randomness=Randomness.seeded(int(10 * value)))
    total = np.full(d, value)
    return sum(off_lattice(execute(ledger, total, d), V) for _ in range(releases.count))


@pytest.mark.thorough
@pytest.mark.parametrize("attack", ATTACKS)
def test_low_bits_do_not_tell_neighbours_apart(attack, monkeypatch):
    """On yesterday's noise the event happens on one table and never on its neighbour."""
    draws = 100_000 if ATTACKS[attack][2] > 1 else 5_000
    assert successes(attack, draws, 0.0) == 0
    assert successes(attack, draws, V) == 0
    for place in ("gaussian", "prefix_sum.release"):
        monkeypatch.setattr(f"dpsco.privacy.mechanisms.{place}.with_gaussian", float_noise)
    quiet = successes(attack, draws, 0.0)
    share = quiet / (draws // ATTACKS[attack][2])
    assert share > (0.1 if draws == 100_000 else 0.002)  # and delta is 1e-6
    assert successes(attack, draws, V) == 0


def test_a_hundred_thousand_numbers_lie_on_the_lattice_of_both_neighbours():
    """The event of the attack, over 1e5 draws of one number each, on both tables."""
    step = lattice_step(1.0, 1)
    for value in (0.0, V):
        words = Randomness.seeded(int(10 * value)).child("z").words
        answers = with_gaussian(words, np.full(100_000, value), 1.0, step)
        assert not off_lattice(answers, V)
        assert np.array_equal(answers / step, np.rint(answers / step))


@pytest.mark.parametrize("value", [0.0, V])
def test_the_mean_of_a_private_estimator_lies_on_the_lattice(value):
    rows = np.zeros((64, 8))
    rows[0] = value / math.sqrt(8)
    model = dp.PrivateMean(epsilon=1.0, feature_norm=1.0, delta=1e-6).fit(rows)
    total = model.mean_ * 64
    step = lattice_step(1.0, 8)
    assert np.array_equal(total / step, np.rint(total / step))
