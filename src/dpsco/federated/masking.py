"""A secure aggregation, simulated in one process: pairwise masks that cancel in the sum.

Every two participants share a mask that one adds and the other subtracts, modulo 2^bits. A masked
answer is uniformly distributed, whatever the rows; the sum of all of them is the sum of the answers
(Bonawitz et al. 2017, CCS, without its recovery from participants that vanish half-way: who drops
out does so before masking, as a zero vector). It shows that the coordinator needs the modular sum
alone. It protects nobody, since one process knows all masks: use an engine's own aggregation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, cast

import numpy as np

from .._validate import shown
from ..errors import LedgerError, ParameterError
from ..privacy.randomness import Randomness
from .fixed_point import FixedPoint, Words
from .messages import Answer


def masked(
    answers: Sequence[Answer], encoding: FixedPoint, randomness: Randomness | None = None
) -> list[Answer]:
    """Return the answers behind pairwise masks; their sum modulo 2^bits is unchanged.

    Args:
        answers: of one round, workers' and noise helpers' alike, as integers; two or more.
        encoding: that of the run.
        randomness: of the masks; secure by default.

    Raises:
        LedgerError: a worker is among them twice, or they are of several runs or rounds.
        ParameterError: there are fewer than two answers, which no mask can hide, or they are not
            integers of one length within the encoding.
    """
    members = _together(answers, encoding)
    if randomness is not None and not isinstance(randomness, Randomness):
        raise ParameterError(
            f"randomness must be a Randomness, got {type(randomness).__name__}. Leave it out.",
            parameter="randomness",
        )
    root, size = randomness or Randomness.secure(), len(members[0].vector)
    hidden = [np.array(answer.vector, dtype=np.uint64) for answer in members]
    for first, second in combinations(range(len(members)), 2):
        names = f"{members[first].worker} and {members[second].worker}"
        mask = root.child(f"mask of {names}").words(size)
        hidden[first] += mask
        hidden[second] -= mask
    return [
        dataclasses.replace(answer, vector=encoding.add([vector], size))
        for answer, vector in zip(members, hidden, strict=True)
    ]


def _together(answers: Any, encoding: Any) -> list[Answer]:
    """Return the answers of one round; refuse those whose sum would be no round's."""
    if not isinstance(encoding, FixedPoint):
        raise ParameterError(
            f"encoding must be the run's FixedPoint, got {shown(encoding)}.", parameter="encoding"
        )
    members = list(answers) if isinstance(answers, Iterable) else [answers]
    wrong = [type(each).__name__ for each in members if not isinstance(each, Answer)]
    if wrong:
        raise ParameterError(f"masks are for a list of Answers, got {wrong[0]}.")
    if len(members) < 2:
        raise ParameterError(f"masks hide an answer among others: got {len(members)} answers.")
    if len({(answer.run, answer.round) for answer in members}) > 1:
        raise LedgerError("these answers are of several runs or rounds: mask one round's alone.")
    if len({answer.worker for answer in members}) < len(members):
        raise LedgerError("a worker would count twice in this sum: leave its second answer out.")
    lengths = {len(answer.vector) for answer in members}
    if len(lengths) > 1 or any(answer.vector.dtype != np.uint64 for answer in members):
        raise ParameterError("masks are for answers of integers, uint64, of one length.")
    if not all(encoding.holds(cast(Words, answer.vector)) for answer in members):
        raise ParameterError(
            f"an answer has numbers of more than {encoding.bits} bits: pass the run's encoding."
        )
    return members
