"""Prefix sums that go on in another process: the same noise from there on, and nothing twice."""

import math

import mpmath
import numpy as np
import pytest

from dpsco.errors import LedgerError
from dpsco.privacy.budget import ApproxDP
from dpsco.privacy.lattice import lattice_step, with_gaussian
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.mechanisms import PrefixSumRelease
from dpsco.privacy.mechanisms.prefix_sum import release as prefix_sum
from dpsco.privacy.mechanisms.prefix_sum.encoding import Encoding, encoding_slack
from dpsco.privacy.mechanisms.prefix_sum.mechanism import MECHANISMS
from dpsco.privacy.randomness import Randomness

from ...conftest import described

ROUNDS, SIZE, FIRST, ROWS = 8, 3, 10, 5
PLENTY = ApproxDP(1e9, 1e-6)
TOTALS = np.random.default_rng(1).standard_normal((ROUNDS, SIZE))


def opened(name="toeplitz_cn", seed=7):
    """Return a ledger and its stream of prefix sums."""
    noise = described(name, ROUNDS)
    rows = (FIRST, FIRST + ROUNDS * ROWS)
    release = PrefixSumRelease(1.0, 2.5, noise, rows=rows)
    ledger = Ledger(release, PLENTY, randomness=Randomness.seeded(seed))
    return ledger, ledger.prefix_sum(SIZE, bound=1.0, sigma=2.5, mechanism=noise, rows=rows)


def batch(number):
    return FIRST + number * ROWS, FIRST + (number + 1) * ROWS


def added(sums, rounds):
    return [sums.add(TOTALS[t], rows=batch(t)) for t in rounds]


def kept(sums, rounds):
    """Run some rounds; return the last prefix sum, and what later rounds build on."""
    changed, prefix = {}, np.zeros(SIZE)
    for t in rounds:
        prefix = sums.add(TOTALS[t], rows=batch(t))
        changed |= sums.changed()
    return prefix, changed


def resumed(sums, done, name="toeplitz_cn"):
    prefix, changed = kept(opened(name)[1], range(done))
    sums.resume(done, changed, row=batch(done)[0], prefix=prefix)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("done", [1, 3, 4, ROUNDS])
def test_a_resumed_stream_goes_on_at_the_same_bits(name, done):
    prefixes = added(opened(name)[1], range(ROUNDS))
    ledger, sums = opened(name)
    resumed(sums, done, name)
    for prefix, expected in zip(added(sums, range(done, ROUNDS)), prefixes[done:], strict=True):
        assert prefix.tobytes() == expected.tobytes()
    assert sums.finished
    ledger.close()


def test_rows_of_rounds_that_are_over_enter_no_other_round():
    _, sums = opened()
    resumed(sums, 3)
    with pytest.raises(LedgerError, match="each row enters one round"):
        sums.add(TOTALS[0], rows=batch(2))


def test_the_rounds_that_are_left_must_be_run():
    ledger, sums = opened()
    resumed(sums, 3)
    added(sums, range(3, ROUNDS - 1))
    with pytest.raises(LedgerError, match="prefix sums at round 7 of 8"):
        ledger.close()


@pytest.mark.parametrize("name", MECHANISMS)
def test_what_is_kept_of_a_round_is_no_more_than_what_is_held(name):
    """A long run with a short memory keeps little; the others one vector more a round."""
    sums = opened(name)[1]
    held = described(name, ROUNDS).memory_vectors()
    for t in range(ROUNDS):
        sums.add(TOTALS[t], rows=batch(t))
        changed = sums.changed()
        assert len(changed) <= 1 + 2 * (1 if held == ROUNDS else held)


@pytest.mark.parametrize("lost", ["exact 1", "noisy 0", "drawn"])
def test_a_state_that_lacks_something_is_refused(lost):
    prefix, changed = kept(opened()[1], range(3))
    del changed[lost]
    ledger, sums = opened()
    with pytest.raises(LedgerError, match="cannot go on at round 3"):
        sums.resume(3, changed, row=batch(3)[0], prefix=prefix)
    with pytest.raises(LedgerError, match="broken"):
        ledger.close()


@pytest.mark.parametrize(
    ("rounds", "row", "length"),
    [
        (ROUNDS + 1, batch(2)[0], SIZE),
        (2, FIRST - 1, SIZE),
        (2, batch(ROUNDS)[0] + 1, SIZE),
        (2, batch(2)[0], SIZE + 1),
    ],
)
def test_a_state_of_another_run_is_refused(rounds, row, length):
    ledger, sums = opened()
    changed = kept(opened()[1], range(min(rounds, ROUNDS)))[1]
    with pytest.raises(LedgerError, match="cannot go on at round"):
        sums.resume(rounds, changed, row=row, prefix=np.zeros(length))
    with pytest.raises(LedgerError, match="broken"):
        ledger.close()


def test_a_stream_that_has_begun_is_not_resumed():
    for begin in (
        lambda sums: added(sums, [0]),
        lambda sums: resumed(sums, 1),
    ):
        _, sums = opened()
        begin(sums)
        with pytest.raises(LedgerError, match="it was resumed before"):
            resumed(sums, 2)


@pytest.mark.parametrize("name", MECHANISMS)
def test_prefix_sums_are_a_function_of_numbers_on_the_lattice(name, monkeypatch):
    """Each row of C x meets its noise as integers; the rest sees nothing but what left."""
    left = []

    def remembered(words, exact, sigma, step):
        left.append((exact, with_gaussian(words, exact, sigma, step), step))
        return left[-1][1]

    monkeypatch.setattr(prefix_sum, "with_gaussian", remembered)
    prefixes = added(opened(name)[1], range(ROUNDS))
    noise = described(name, ROUNDS)
    exact, noisy = (np.array([each[k] for each in left]) for k in (0, 1))
    assert exact == pytest.approx(noise.encoder() @ TOTALS, rel=1e-12, abs=1e-12)
    (step,) = {each[2] for each in left}
    norm, size = noise.column_norm, noisy.size
    assert step == lattice_step(norm, size)
    assert np.array_equal(noisy / step, np.rint(noisy / step))
    rows = iter(noisy)
    decoder = noise.start(lambda: next(rows))
    decoded = np.cumsum([decoder.next() for _ in range(ROUNDS)], axis=0)
    assert np.array(prefixes).tobytes() == decoded.tobytes()


@pytest.mark.thorough
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_rounding_of_the_encoder_is_within_what_is_charged(name):
    """Against exact rational arithmetic on the same floats, for sums of very unequal sizes."""
    rounds = 200
    noise = described(name, rounds)
    sizes = np.arange(rounds)[:, np.newaxis] % 9
    totals = np.ldexp(np.random.default_rng(5).uniform(-1, 1, (rounds, 2)), sizes)
    encoding = Encoding(noise, 2)
    found = np.concatenate([encoding.rows(t, total) for t, total in enumerate(totals)])
    matrix = noise.encoder()
    assert (matrix >= 0.0).all()
    with mpmath.workdps(50):
        exact = mpmath.matrix(matrix.tolist()) * mpmath.matrix(totals.tolist())
        errors = mpmath.matrix(found.tolist()) - exact
        error = float(mpmath.sqrt(sum(each**2 for each in errors)))
    lengths = np.linalg.norm(totals, axis=1)
    rows = math.ceil(lengths.sum())  # of norm at most 1 each, a batch is as long as its rows
    assert error <= 0.5 * encoding_slack(noise, rows) * noise.column_norm
    assert encoding_slack(noise, rows) < 1e-6
