"""Carrying out a repeated selection: a secret number of runs, of which the best one leaves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ....errors import LedgerError, ParameterError
from ...certificate import Certificate
from ...ledger import Ledger
from ...randomness import Randomness, Stream
from ...release import Release, flatten
from .release import RepeatedSelectionRelease

T = TypeVar("T")


@dataclass(frozen=True)
class Attempt(Generic[T]):
    """One run: its score and value, both made of released numbers only, and what let them out."""

    score: float
    value: T
    certificates: tuple[Certificate, ...]  # of the ledgers that the run closed


@dataclass(frozen=True)
class Best(Generic[T]):
    """What leaves: which alternative, its score, its value. Nothing tells of the other runs."""

    alternative: int
    score: float
    value: T


def best_of_runs(
    ledger: Ledger,
    attempt: Callable[[int, Randomness], Attempt[T]],
    release: RepeatedSelectionRelease,
) -> Best[T]:
    """Return the best of a secret number of runs.

    ``attempt(alternative, randomness)`` makes one run through ledgers of its own, which execute the
    releases of the alternative; the randomness is to be used for all of their noise. It must keep
    what it has seen to itself, and what it raises breaks the ledger. Equal scores keep the earlier
    run, which is no less random than a coin. A certificate counts once: a run that shows that of
    an earlier one has not paid.
    """
    if not isinstance(release, RepeatedSelectionRelease):
        raise ParameterError(f"this release takes a RepeatedSelectionRelease, got {release!r}.")
    due = [_counted(alternative) for alternative in release.alternatives]

    def select(stream: Stream) -> Best[T]:
        ledger._state = "busy with a selection"  # the runs have ledgers of their own
        best: Best[T] | None = None
        shown: dict[int, Certificate] = {}  # kept, so that no other object gets the same id
        for _ in range(release.runs.draw_number(stream)):
            choice = int(stream.integers(len(due), 1)[0])
            run = attempt(choice, ledger._randomness)
            _check(run, due[choice], ledger)
            _check_new(run, shown)
            score = -math.inf if math.isnan(run.score) else float(run.score)
            if best is None or score > best.score:
                best = Best(choice, score, run.value)
        ledger._state = "open"
        assert best is not None  # there is always a run
        return best

    return ledger._execute(release.once(), select)


def _check(run: Attempt[T], due: Counter[Release], ledger: Ledger) -> None:
    """Refuse a run that executed anything else than its alternative's releases."""
    done = _counted(one for certificate in run.certificates for one in certificate.releases)
    adjacencies = {certificate.budget.adjacency for certificate in run.certificates}
    if done != due or adjacencies != {ledger.budget.adjacency}:
        raise LedgerError(
            "a run of a repeated selection executed other releases than planned, so nothing may "
            "leave: its certificates must add up to its alternative, under the same adjacency."
        )


def _check_new(run: Attempt[T], shown: dict[int, Certificate]) -> None:
    """Refuse a certificate that was shown before; note those of this run."""
    for certificate in run.certificates:
        if id(certificate) in shown:
            raise LedgerError(
                "a run of a repeated selection shows the certificate of an earlier one, so nothing "
                "may leave: every run must open and close ledgers of its own."
            )
        shown[id(certificate)] = certificate


def _counted(releases: Iterable[Release]) -> Counter[Release]:
    """Return how often each elementary release happens."""
    return Counter({release.once(): release.count for release in flatten(releases)})
