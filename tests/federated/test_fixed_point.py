"""Fixed point: the modulus that is needed, sums that are exact, signs that come back."""

from fractions import Fraction

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import ParameterError
from dpsco.federated import Answer, FixedPoint
from dpsco.federated.fixed_point import needed_bits
from dpsco.privacy.budget import ApproxDP
from dpsco.solvers.common.batches import BatchPlan


def plan_of(setting, rows, clip=1.0, sigma=1.0, rounds=1, d=4):
    """Return the numbers that an encoding asks for."""
    task = dp.Task(setting.problem, rows, d, ApproxDP(1.0, 1e-6))
    return BatchPlan(solver="-", task=task, rounds=rounds, clip=clip, sigma=sigma)


def test_known_modulus(setting):
    """C = 1, g = 2^-20, B = 10^4: 2^34 > 10^4 2^20 + 1 > 2^33, so 35 bits hold the sum.

    One more keeps it within a quarter of the modulus, where nothing is folded.
    """
    assert needed_bits(plan_of(setting, 10_000), 2.0**-20) == 35 + 1


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 1000, 4095, 4096, 4097])
@pytest.mark.parametrize("clip", [1.0, 0.7, 3.0])
def test_the_modulus_is_the_least_that_holds_the_sum(setting, rows, clip):
    bits, largest = needed_bits(plan_of(setting, rows, clip), 2.0**-10), rows * clip * 2.0**10
    assert 2 ** (bits - 2) > largest + 1 >= 2 ** (bits - 3)


def test_the_modulus_leaves_one_beside_the_sum(setting):
    """7 steps and one more are 8, which takes a number of 4 bits; 2 rows of 5 are the most."""
    assert needed_bits(plan_of(setting, 7), 1.0) == 4 + 2
    assert needed_bits(plan_of(setting, 5, rounds=3), 0.5) == 3 + 2


@pytest.mark.parametrize("n", [3, 4, 5, 6, 12])
@pytest.mark.parametrize("step", [2.0**-20, 3.0 * 2.0**-22, 5.0 * 2.0**-23, 7.0 * 2.0**-23])
def test_helpers_need_room_for_the_change_of_correlated_noise(setting, n, step):
    """A difference of two prefix sums: twice the largest deviation bounds it."""
    stream = setting.plan("dp_ftrl", n=n)
    peak = 12 * 2 * stream.sigma * stream.mechanism.prefix_std().max()
    assert peak > 12 * stream.clip * (n // 3 + 1)  # the noise dominates
    assert 2 ** (needed_bits(stream, step, 1) - 2) > peak / step


def test_helpers_need_room_for_their_noise(setting):
    plan = plan_of(setting, 100, sigma=1000.0)
    bits = needed_bits(plan, 2.0**-20, helpers=2)
    assert 2 ** (bits - 2) > (100 + 2 * 12 * 1000.0) * 2**20 + 1
    assert bits > needed_bits(plan, 2.0**-20)
    stream = setting.plan("dp_ftrl")
    peak = stream.sigma * stream.mechanism.prefix_std().max()
    assert 2 ** (needed_bits(stream, 2.0**-20, 1) - 2) > 12 * peak * 2**20


def test_what_is_chosen_is_fine_and_fits(setting):
    for clip in (1.0, 0.3, 17.0, 1e-6, 1e9):
        plan = plan_of(setting, 5000, clip)
        chosen = FixedPoint.choose(plan)
        assert 2**20 <= clip / chosen.step < 2**21
        assert chosen.check(plan) is chosen
        with pytest.raises(ParameterError, match=r"need .* bits"):
            FixedPoint(chosen.step, chosen.bits - 1).check(plan)
    assert FixedPoint.choose(plan_of(setting, 8), step=0.125).step == 0.125


def test_more_weights_have_a_finer_grid(setting):
    """So that the rounding of a row, step sqrt(d)/2, stays small beside the clip."""
    few, many = (FixedPoint.choose(plan_of(setting, 8, d=d)).step for d in (2**18, 2**24 - 1))
    assert (few, many) == (2.0**-20, 2.0**-22)


@pytest.mark.parametrize(
    ("step", "bits"), [(0.3, 30), (0.0, 30), (-1.0, 30), (1.0, 1), (1.0, 54), (1.0, 3.5)]
)
def test_encodings_out_of_range_are_refused(step, bits):
    with pytest.raises(ParameterError):
        FixedPoint(step, bits)


def test_a_step_that_uses_up_the_clip_is_refused(setting):
    with pytest.raises(ParameterError, match="rounding alone"):
        FixedPoint.choose(plan_of(setting, 8), step=1.0)  # sqrt(5)/2 > 1
    with pytest.raises(ParameterError, match="at most 53"):
        FixedPoint.choose(plan_of(setting, 2**40), step=2.0**-20)


@pytest.mark.parametrize("bits", [8, 35, 53])
def test_signed_sums_come_back_exactly(bits):
    """Whatever wraps around on the way, if the sum itself lies within 2^(bits-2)."""
    encoding, rng = FixedPoint(0.25, bits), np.random.default_rng(1)
    half, quarter = 2 ** (bits - 1), 2 ** (bits - 2)
    for _ in range(20):
        parts = rng.integers(-half, half, size=(9, 6))
        wanted = rng.integers(-quarter, quarter, size=6, endpoint=True)
        parts[-1] = wanted - parts[:-1].sum(axis=0)
        split = [encoding.wrap(parts[:4]), encoding.wrap(parts[4:])]
        assert all(encoding.holds(part) for part in split)
        total = encoding.add(split, 6)
        assert (encoding.decode(total) == wanted * 0.25).all()
        assert (encoding.add([encoding.wrap(parts)], 6) == total).all()
    ends = np.array([[-quarter, quarter]])
    assert encoding.decode(encoding.wrap(ends)).tolist() == [-quarter * 0.25, quarter * 0.25]
    assert not encoding.holds(np.array([2**bits], dtype=np.uint64))
    assert encoding.add([], 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("bits", [2, 3, 8])
def test_sums_that_are_close_modulo_the_modulus_come_out_close(bits):
    """Also across its ends, where a signed number would jump: noise is added after decoding."""
    encoding, modulus = FixedPoint(0.5, bits), 2**bits
    found = encoding.decode(np.arange(modulus, dtype=np.uint64)) / 0.5
    for shift in range(modulus):
        assert np.abs(np.roll(found, -shift) - found).max() <= min(shift, modulus - shift)
    assert found.max() == modulus // 4 == -found.min()


def test_rounded_noise_is_the_rounding_of_a_noisy_sum():
    """So that what leaves a sum with a helper's noise is post-processing of the real one."""
    encoding, rng = FixedPoint(2.0**-4, 30), np.random.default_rng(2)
    noise, total = rng.normal(size=1000), rng.integers(-1000, 1000, size=1000)
    noise[:200] = np.rint(noise[:200] * 16) / 16 + 2.0**-5  # halves, which have no nearest integer
    found = encoding.decode(encoding.add([encoding.noise(noise), encoding.wrap(total[None])], 1000))
    assert (found == np.floor(total + noise * 16 + 0.5) / 16).all()


WORDS = np.ones(3, dtype=np.uint64)


@pytest.mark.parametrize(
    "call",
    [
        lambda it: FixedPoint.choose("x"),
        lambda it: FixedPoint.choose(None),
        lambda it: it.check("p"),
        lambda it: it.decode([1, 2]),
        lambda it: it.decode(np.ones(3)),
        lambda it: it.decode(np.ones(3, dtype=np.int64)),
        lambda it: it.decode(WORDS[None]),
        lambda it: it.holds([1]),
        lambda it: it.add(None, 3),
        lambda it: it.add([np.ones(3)], 3),
        lambda it: it.add([np.ones(3, dtype=np.int64)], 3),
        lambda it: it.add([Answer(run="0" * 32, round=0, worker="w", vector=WORDS)], 3),
        lambda it: it.add([WORDS], 4),
        lambda it: it.add([WORDS[:1]], 3),  # which NumPy would stretch
        lambda it: it.add([], -1),
        lambda it: it.add([], 2.5),
        lambda it: it.wrap([[0.5]]),
        lambda it: it.wrap(np.full((1, 2), np.nan)),
        lambda it: it.wrap([1, 2]),
        lambda it: it.wrap([["a"]]),
    ],
)
def test_what_is_no_vector_of_words_is_refused_in_words(call):
    with pytest.raises(ParameterError):
        call(FixedPoint(1.0, 20))


def test_plans_that_ask_for_other_sums_are_refused(setting):
    budget = ApproxDP(2.0, 1e-6)
    other = dp.plan(setting.problem, n=120, d=4, budget=budget, solver="phased_erm")
    for call in (FixedPoint.choose, FixedPoint(1.0, 20).check):
        with pytest.raises(ParameterError, match="round by round, got phased_erm"):
            call(other)


@pytest.mark.parametrize("solver", ["acc_srgd", "acc_independent"])
def test_bits_hold_the_largest_of_uneven_batches(setting, solver):
    """Of 119 rows in 60 batches most batches have two rows, and the mean of them is less."""
    plan, step = setting.plan(solver, n=119, rounds=60), 2.0**-20
    assert {plan.batch_size(t) for t in range(60)} == {1, 2}
    assert 2 ** (needed_bits(plan, step) - 2) > 2 * Fraction(plan.clip) / Fraction(step) + 1
