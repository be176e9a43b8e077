"""A secure aggregation, simulated in one process: pairwise masks that cancel in the sum.

Every two participants share a mask that one adds and the other subtracts, modulo 2^bits. A masked
answer is uniformly distributed, whatever the rows; the sum of all of them is the sum of the answers
(Bonawitz et al. 2017, CCS, without its recovery from participants that vanish half-way: who drops
out does so before masking, as a zero vector). It shows that the coordinator needs the modular sum
alone. It protects nobody, since one process knows all masks: use an engine's own aggregation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from ..errors import ParameterError
from ..privacy.randomness import Randomness
from .fixed_point import FixedPoint
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
        ParameterError: there are fewer than two answers, which no mask can hide, or they are not
            integers of one length.
    """
    given = list(answers)
    if len(given) < 2:
        raise ParameterError(f"masks hide an answer among others: got {len(given)} answers.")
    lengths = {len(answer.vector) for answer in given}
    if len(lengths) > 1 or any(answer.vector.dtype != np.uint64 for answer in given):
        raise ParameterError("masks are for answers of integers, uint64, of one length.")
    root, size = randomness or Randomness.secure(), lengths.pop()
    hidden = [np.array(answer.vector, dtype=np.uint64) for answer in given]
    for first, second in combinations(range(len(given)), 2):
        mask = root.child(f"mask of {given[first].worker} and {given[second].worker}").words(size)
        hidden[first] += mask
        hidden[second] -= mask
    return [
        dataclasses.replace(answer, vector=encoding.add([vector], size))
        for answer, vector in zip(given, hidden, strict=True)
    ]
