"""Prefix sums that go on in another process: the same noise from there on, and nothing twice."""

import numpy as np
import pytest

from dpsco.errors import LedgerError, ParameterError
from dpsco.privacy.budget import ApproxDP
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.prefix_sums import MECHANISMS
from dpsco.privacy.randomness import Randomness
from dpsco.privacy.releases import PrefixSumRelease

from .conftest import described

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


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("done", [1, 3, 4, ROUNDS])
def test_a_resumed_stream_goes_on_at_the_same_bits(name, done):
    prefixes = added(opened(name)[1], range(ROUNDS))
    ledger, sums = opened(name)
    assert sums.resume(done, row=batch(done)[0], prefix=prefixes[done - 1]) is None
    for prefix, expected in zip(added(sums, range(done, ROUNDS)), prefixes[done:], strict=True):
        assert prefix.tobytes() == expected.tobytes()
    assert sums.finished
    ledger.close()


def test_rows_of_rounds_that_are_over_enter_no_other_round():
    _, sums = opened()
    sums.resume(3, row=batch(3)[0], prefix=np.zeros(SIZE))
    with pytest.raises(LedgerError, match="each row enters one round"):
        sums.add(TOTALS[0], rows=batch(2))


def test_the_rounds_that_are_left_must_be_run():
    ledger, sums = opened()
    sums.resume(3, row=batch(3)[0], prefix=np.zeros(SIZE))
    added(sums, range(3, ROUNDS - 1))
    with pytest.raises(LedgerError, match="prefix sums at round 7 of 8"):
        ledger.close()


def test_the_prefix_is_copied():
    answers = []
    for later in (1.0, 99.0):
        given, sums = np.ones(SIZE), opened()[1]
        sums.resume(1, row=batch(1)[0], prefix=given)
        given[:] = later
        answers += added(sums, [1])
    assert answers[0].tobytes() == answers[1].tobytes()


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
    with pytest.raises(LedgerError, match="cannot go on at round"):
        sums.resume(rounds, row=row, prefix=np.zeros(length))
    with pytest.raises(LedgerError, match="broken"):
        ledger.close()


def test_a_stream_that_has_begun_is_not_resumed():
    for begin in (
        lambda sums: added(sums, [0]),
        lambda sums: sums.resume(1, row=batch(1)[0], prefix=np.zeros(SIZE)),
    ):
        _, sums = opened()
        begin(sums)
        with pytest.raises(LedgerError, match="it was resumed before"):
            sums.resume(2, row=batch(2)[0], prefix=np.zeros(SIZE))


@pytest.mark.parametrize("rounds", [0, -1, 1.5])
def test_rounds_are_a_number_of_rounds(rounds):
    with pytest.raises(ParameterError, match="rounds must be"):
        opened()[1].resume(rounds, row=FIRST, prefix=np.zeros(SIZE))


def test_a_batch_meets_its_noise_before_anything_is_rounded():
    """Else a small sum is rounded on a large prefix, and the noise cannot hide how it was."""
    _, quiet = opened()
    noise = np.diff([quiet.add(np.zeros(SIZE), rows=batch(t)) for t in (0, 1)], axis=0)[0]
    assert np.abs(noise).min() > 0.01
    unit = 256.0  # between two numbers of the prefix's size
    _, sums = opened()
    first = sums.add(np.full(SIZE, 1.5 * 2.0**60), rows=batch(0))
    total = unit / 2 - np.sign(noise) * 0.001  # the noise decides which way the sum is rounded
    found = sums.add(total, rows=batch(1)) - first
    assert found.tolist() == np.where(noise > 0, unit, 0.0).tolist()
