"""Masks: they cancel in the sum, and what they leave of an answer is uniform."""

import dataclasses

import numpy as np
import pytest

from dpsco.errors import LedgerError, ParameterError
from dpsco.federated import Answer, FixedPoint, masked
from dpsco.privacy.randomness import Randomness

ENCODING = FixedPoint(1.0, 20)


def answers(count, size=6, seed=0):
    rng = np.random.default_rng(seed)
    return [
        Answer(
            run="0" * 32,
            round=0,
            worker=str(k),
            vector=ENCODING.wrap(rng.integers(-9, 9, size=(1, size))),
        )
        for k in range(count)
    ]


@pytest.mark.parametrize("count", [2, 3, 8])
def test_masks_cancel(count):
    plain = answers(count)
    hidden = masked(plain, ENCODING)
    assert [answer.worker for answer in hidden] == [answer.worker for answer in plain]
    for before, after in zip(plain, hidden, strict=True):
        assert ENCODING.holds(after.vector)
        assert (before.vector != after.vector).all()  # fails with probability 6 * 8 / 2^20
    sums = [ENCODING.add([a.vector for a in each], 6) for each in (plain, hidden)]
    assert (sums[0] == sums[1]).all()
    assert not (ENCODING.add([a.vector for a in hidden[:-1]], 6) == sums[0]).any()


def test_a_masked_answer_is_uniform_whatever_it_holds():
    """Chi-square on 16 bins with 40000 numbers: 15 +- 5.5; a raw answer has thousands."""
    plain = answers(3, size=40_000)
    hidden = masked(plain, ENCODING, Randomness.seeded(5))
    for answer in hidden:
        counts = np.bincount((answer.vector >> np.uint64(16)).astype(int), minlength=16)
        assert ((counts - 2500.0) ** 2 / 2500.0).sum() < 60.0
    raw = np.bincount((plain[0].vector >> np.uint64(16)).astype(int), minlength=16)
    assert ((raw - 2500.0) ** 2 / 2500.0).sum() > 1e4


def test_what_no_mask_can_hide_is_refused():
    with pytest.raises(ParameterError, match="among others"):
        masked(answers(1), ENCODING)
    floats = [Answer(run="0" * 32, round=0, worker=w, vector=np.ones(6)) for w in "ab"]
    for wrong in (floats, [answers(1, 5)[0], answers(2, 6)[1]]):
        with pytest.raises(ParameterError, match="uint64"):
            masked(wrong, ENCODING)


def test_what_is_no_round_is_refused():
    """A worker twice would count its rows twice, and the coordinator would not see it."""
    first, second = answers(2)
    other_run = dataclasses.replace(second, run="1" * 32)
    other_round = dataclasses.replace(second, round=1)
    for wrong, words in [
        ([first, first], "count twice"),
        ([first, second, dataclasses.replace(first, vector=second.vector)], "count twice"),
        ([first, other_run], "several runs or rounds"),
        ([first, other_round], "several runs or rounds"),
    ]:
        with pytest.raises(LedgerError, match=words):
            masked(wrong, ENCODING)
    for wrong in (None, "ab", [1, 2], 3):
        with pytest.raises(ParameterError, match="list of Answers"):
            masked(wrong, ENCODING)
    for encoding in (None, 20):
        with pytest.raises(ParameterError, match="the run's FixedPoint"):
            masked([first, second], encoding)
    with pytest.raises(ParameterError, match="more than 5 bits"):
        masked([first, second], FixedPoint(1.0, 5))
    with pytest.raises(ParameterError, match="randomness"):
        masked([first, second], ENCODING, 3)
