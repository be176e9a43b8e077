"""What a round takes: answers of its own run and round, each worker once, no vector too long.

Nothing here draws or keeps anything. A refusal leaves the round open; and none of them depends on
the rows of a worker that clips, so what is refused tells nothing of anybody's rows.

A number that is far larger than the noise would swallow it, and the low bits of all others: a
worker that does not clip could take away the protection of the rest. So a float answer that is
longer than all rows of the round, clipped, is refused: a rule for that answer alone. A rule for the
sum would tell, without noise, on which side of a threshold the others are. The rule leaves 2^-20
more than the clip: rounding can make an honest sum a little longer than B clip, and if such a sum
were dropped, one row could decide whether a whole worker counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, cast

import numpy as np

from ..errors import LedgerError, ParameterError
from ..kernels.pairwise import PairwiseSum
from .attendance import AttendedRun
from .fixed_point import FixedPoint, Words
from .messages import Answer, Floats, Request, Vector, check_name
from .protection import WORKER

MOST_FLOAT_ROWS, MOST_FLOAT_ANSWERS = 2**22, 2**11
"""Rows of a batch, or else answers, up to which float sums are proved to round little enough."""
_ROUNDED = 1.0 + 2.0**-20  # more than rounding can add to the length of a clipped sum


def fits_clip(answer: Answer, request: Request) -> bool:
    """Return whether an answer is no longer than what clipped rows of the round can add up to.

    That is ``request.cohort * request.clip``, or ``request.clip`` where workers are protected, and
    2^-20 of it more, which is for rounding: the answer of a worker that clips always fits. An
    engine that adds floats by itself leaves out what does not. Integers always fit: their sums are
    folded.

    Raises:
        ParameterError: these are no answer and no request.
    """
    pair: tuple[Any, Any] = (answer, request)
    if not isinstance(pair[0], Answer) or not isinstance(pair[1], Request):
        kinds = " and ".join(type(each).__name__ for each in pair)
        raise ParameterError(f"fits_clip takes an Answer and the Request it is of, got {kinds}.")
    if answer.vector.dtype.kind != "f":
        return True
    most = request.clip * (1 if request.protects == WORKER else request.cohort) * _ROUNDED
    with np.errstate(all="ignore"):
        return bool(np.linalg.norm(answer.vector) <= most)


def listed(things: Any, what: str) -> list[Any]:
    """Return a list of what was given; refuse what is none."""
    if isinstance(things, str) or not isinstance(things, Iterable):
        raise ParameterError(f"a round takes a list of {what}, got {type(things).__name__}.")
    return list(things)


def check_somebody(answers: Collection[Any], nobody: Any, *, round: int, call: str) -> None:
    """Refuse to lose a whole round unless that was said, and to lose answers if it was."""
    if not answers and nobody is not True:
        raise ParameterError(
            f"round {round} has no answers: closing it loses the whole round, for good. Collect it "
            f"again with the same request, or say {call}."
        )
    if answers and nobody is not False:
        raise ParameterError(
            f"nobody=True goes with no answers, got {len(answers)}. Leave nobody out."
        )


def names_of(answers: Sequence[Any], request: Request) -> list[str]:
    """Return who answered; refuse what is no answer to the request."""
    for answer in answers:
        if not isinstance(answer, Answer):
            raise ParameterError(f"a round takes Answers, got {type(answer).__name__}.")
        if answer.run != request.run:
            raise LedgerError(f"{answer!r} belongs to another run.")
        check_round(answer.round, request)
    return [answer.worker for answer in answers]


def check_round(round: int, request: Request) -> None:
    """Refuse what belongs to another round than the open one."""
    if round != request.round:
        state = "closed" if round < request.round else "not open yet"
        raise LedgerError(
            f"round {round} is {state}: the run is at round {request.round}. "
            "Each round is released exactly once."
        )


def check_once(names: Sequence[Any], request: Request, run: AttendedRun) -> None:
    """Refuse a worker that would count twice, and more workers than were planned for."""
    known: set[str] = set()
    for name in names:
        if check_name(name) in known or run.attended(name):
            raise LedgerError(
                f"worker {name!r} would count twice in this run: a row takes part once. Leave its "
                "second answer out."
            )
        known.add(name)
    if len(known) > request.cohort:
        raise LedgerError(
            f"{len(known)} workers answered a round that was planned for {request.cohort} "
            f"{request.protects}s."
        )


def check_lengths(answers: Iterable[Answer], request: Request) -> None:
    """Refuse floats that are longer than a clipped sum: noise would drown in them."""
    for answer in answers:
        if not fits_clip(answer, request):
            raise ParameterError(
                f"the answer of worker {answer.worker!r} is longer than clipped rows can add up "
                "to: it does not clip. Leave its answer out."
            )


def check_rounding(answers: int, request: Request) -> None:
    """Refuse floats whose sum could round by more than the ledger allows for."""
    if request.encoding is not None:
        return
    part = 1 if request.unit is None else 2  # sums in units are divided once more
    most, rows = MOST_FLOAT_ANSWERS // part, MOST_FLOAT_ROWS // part
    if answers > most and request.cohort > rows:
        raise ParameterError(
            f"the rounding of float sums is bounded for {most} answers, or for {rows} rows per "
            f"round; got {answers} answers for {request.cohort} rows. Run it with "
            "encoding=FixedPoint.choose(plan), whose sums are exact; it takes a plan with clip=."
        )


def fitting(vector: Vector, request: Request) -> Vector:
    """Return a vector of the run's length and type; refuse any other."""
    encoding, kind = request.encoding, "float64" if request.encoding is None else "uint64"
    if vector.dtype.name != kind or vector.shape != (request.size,):
        raise ParameterError(
            f"this run adds vectors of {request.size} {kind} numbers, got {len(vector)} "
            f"{vector.dtype} numbers."
        )
    if encoding is not None and not encoding.holds(cast(Words, vector)):
        raise ParameterError(f"a number of an answer has more than {encoding.bits} bits.")
    return vector


def added(vectors: Sequence[Any], size: int, encoding: FixedPoint | None) -> Floats:
    """Return the sum of vectors, as floats; floats are added pairwise."""
    if encoding is not None:
        return encoding.decode(encoding.add(vectors, size))
    if not vectors:
        return np.zeros(size)
    total = PairwiseSum()
    for vector in vectors:
        total.add(vector)
    return total.result()
