"""The rounds of one run as parties see them: who is asked, who has answered, when a round closes.

It stands between a transport, whose threads bring requests and answers, and a `Coordinator`, whose
rounds it closes one after the other. A party that does not answer counts as zero, once so many have
answered and so long was waited; one that comes back goes on with the round that is open then.

Behind masks a round has two steps. Parties that ask for its request are there; when all of them
are, or enough after some waiting, they become its members, on the disk before anybody hears of it.
From then on all members are needed, and each of them is waited for however long it takes: a sum of
fewer would be random, and a second sum of others would give an answer away.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ... import _validate
from ...errors import DataError, DpscoError, LedgerError, ParameterError
from ...privacy.ledger import BudgetSpender
from ...privacy.randomness import Randomness
from ...privacy.release import NonCopyable
from ...solvers.base import Result
from ..coordinator import Coordinator
from ..journal import Journal
from ..messages import Answer, Request, check_name
from ..silo import answer_name
from ..terms import Agreement, Terms

_TICK = 0.5  # seconds between two looks at the clock

Say = Callable[[str], None]


class RunOverError(LedgerError):
    """There is nothing more to ask: the run is over, and everybody may have its result."""


class StoppedError(LedgerError):
    """The coordinator has stopped: perhaps it goes on later, from its checkpoint."""


class NotAgreedError(LedgerError):
    """The party has not compared its terms with this coordinator yet."""


class Gathering(NonCopyable):
    """What the parties of one run may ask and answer at any moment; safe to use from many threads.

    Args:
        coordinator: of the run; nobody else may close its rounds.
        agreement: that the coordinator was made from.
        parties: names of all who may take part, in the order in which their sums are added. Behind
            masks they are those of the roster.
        minimum: how many must have answered before a round closes without the others; all by
            default. With a roster, the roster says it.
        timeout: seconds that a round waits for the others; None: as long as it takes.
        journal: keeps the members of masked rounds, so that they outlive this process; needed with
            a checkpoint.
        say: is called with sentences about public events, for whoever watches.

    Raises:
        ParameterError: an argument is out of range, or the parties are not those of the roster.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        agreement: Agreement,
        parties: Iterable[str],
        *,
        minimum: int | None = None,
        timeout: float | None = None,
        journal: Journal | None = None,
        say: Say = lambda sentence: None,
    ) -> None:
        self.coordinator, self.agreement = coordinator, agreement
        self.say: Say = lambda sentence: say(printable(sentence))
        self.parties = _parties(parties, agreement)
        self._minimum = _minimum(minimum, self.parties, agreement)
        self._timeout = _waiting(timeout)
        self._journal = journal
        self._changed = threading.Condition()
        self._request: Request | None = None  # what is asked now; None between rounds
        self._answers: dict[str, tuple[str, Answer]] = {}  # by party, with a digest
        self._abstained: set[str] = set()  # from the open round
        self._present: set[str] = set()  # those who have asked since the round before
        self._agreed: set[str] = set()
        self._recent: set[str] = set()  # who was in the round before
        self._heard: set[str] = set()  # those who know that the run is over
        self._state, self._opened = "open", time.monotonic()

    # -- what transports call ----------------------------------------------------------------------

    def agree(self, party: str, terms: Terms) -> None:
        """Let a party in that holds the same plan; refuse another one.

        Raises:
            ParameterError: it holds other terms than the coordinator.
        """
        reason = self.agreement.terms.objection(terms)
        if reason:
            raise ParameterError(f"{party!r} was not let in: it has {reason}. Share one file.")
        with self._changed:
            if party not in self._agreed:
                self.say(f"{party} has joined")
            self._agreed.add(party)

    def ask(self, party: str) -> Request | None:
        """Return what a party is to answer now, or None: nothing yet, or nothing more this round.

        Raises:
            NotAgreedError: the party has not agreed to the run's terms yet.
            RunOverError: the run is over.
            StoppedError: it has ended before its last round.
        """
        with self._changed:
            self._check(party)
            if self._state == "finished":
                self._heard.add(party)
                raise RunOverError("the run is over.")
            if self._state == "stopped":
                raise StoppedError("the coordinator has stopped.")
            if party not in self._present:
                self._present.add(party)
                self._changed.notify_all()
            request = self._request
            if request is None or party in self._answers or party in self._abstained:
                return None
            return request if request.members is None or party in request.members else None

    def take(self, party: str, text: bytes) -> None:
        """Take the answer of a party to the open round; the same answer twice counts once.

        Raises:
            LedgerError: nothing was asked of the party, or it has given another answer before.
            ParameterError: this is no answer to the open request.
        """
        digest = hashlib.sha256(text).hexdigest()
        answer = Answer.from_json(text)
        with self._changed:
            self._check(party)
            if party in self._answers and self._answers[party][0] == digest:
                return
            request = self._request
            if request is None or party in self._answers:
                raise LedgerError(f"{party!r} is asked nothing now: a round is answered once.")
            if request.members is not None and party not in request.members:
                raise LedgerError(f"{party!r} is no member of this round's sum.")
            self.coordinator.check(answer)
            name = self._name(party, request.round)
            if answer.worker != name:
                raise ParameterError(f"the answer is not one of {name!r}, who has sent it.")
            self._answers[party] = digest, answer
            self._changed.notify_all()

    def abstain(self, party: str, round: int) -> None:
        """Take it that a party does not answer a round: it must not, or does not agree to it.

        It counts as zero. Behind masks the run ends here: its sum cannot be made any more.
        """
        with self._changed:
            self._check(party)
            request = self._request
            if request is None or request.round != round or party in self._answers:
                return
            self.say(f"{party} does not answer round {round + 1} and counts as zero")
            self._abstained.add(party)
            if request.members is not None:
                self.say(f"without {party} the masked sum is lost, and so is the run")
                self._end("stopped")
            self._changed.notify_all()

    @property
    def result(self) -> Result | None:
        """The weights with their certificate, once the run is over."""
        return self.coordinator.result() if self._state == "finished" else None

    def settled(self) -> bool:
        """Return whether all who were in the last round know that the run is over."""
        with self._changed:
            return self._recent <= self._heard

    # -- the run -----------------------------------------------------------------------------------

    def run(self) -> Result:
        """Close one round after the other; return the result.

        Raises:
            LedgerError: it was told to stop.
        """
        coordinator = self.coordinator
        try:
            while not coordinator.finished:
                self._collect()
                self._close()
            result = coordinator.result()
            self._end("finished")
            return result
        except BaseException:
            self._end("stopped")
            raise

    def stop(self) -> None:
        """Let `run` end; a run with a checkpoint goes on later."""
        self._end("stopped")

    def _collect(self) -> None:
        """Open a round and wait until it can close."""
        with self._changed:
            self._opened, self._answers = time.monotonic(), {}
            self._abstained.clear()
            request, known = self.coordinator.request(), None
            if self.agreement.roster is None:
                self._request = request
            else:
                known = self._known_members(request)
                members = known or self._wait_for(self._members)
                self._note(request, members, new=known is None)
                self._request = dataclasses.replace(request, members=members)
            self._wait_for(self._complete)

    def _close(self) -> None:
        """Let the sum of the round leave."""
        with self._changed:
            request, self._request = self._request, None
            assert request is not None
            here = [party for party in self.parties if party in self._answers]
            answers = [self._answers[party][1] for party in here]
            self._recent = set(here)
            self._present.clear()
        if request.members is None:
            self.coordinator.receive(answers)
        else:
            self._close_masked(request, answers)
        count = len(request.members or self.parties)
        total = self.coordinator.plan.total_rounds
        self.say(f"round {request.round + 1} of {total} closed with {len(here)} of {count}")

    def _close_masked(self, request: Request, answers: list[Answer]) -> None:
        """Add what is hidden, and let the sum leave."""
        roster, encoding = self.agreement.roster, request.encoding
        assert roster is not None
        assert encoding is not None
        vectors: list[Any] = [answer.vector for answer in answers]
        self.coordinator.receive_sum(
            encoding.add(vectors, request.size),
            round=request.round,
            workers=[each.worker for each in answers if each.worker not in roster.helpers],
        )

    def _wait_for(self, ready: Callable[[], Any]) -> Any:
        """Return what is ready at last, under the lock."""
        while self._state == "open":
            if outcome := ready():
                return outcome
            self._changed.wait(_TICK)
        raise LedgerError("the run was told to stop. With a checkpoint it goes on later.")

    def _late(self) -> bool:
        """Return whether the open round need not wait for everybody any more."""
        return self._timeout is not None and time.monotonic() - self._opened >= self._timeout

    def _complete(self) -> bool:
        """Return whether the open round can close."""
        assert self._request is not None
        members, count = self._request.members, len(self._answers)
        if members is not None:
            return count == len(members)
        if count + len(self._abstained) == len(self.parties):
            return count > 0
        return self._late() and count >= self._minimum

    def _members(self) -> tuple[str, ...] | None:
        """Return who is in the masked sum of the round, once enough are there."""
        roster, here = self.agreement.roster, tuple(sorted(self._present))
        assert roster is not None
        if len(here) < len(self.parties) and not self._late():
            return None
        return None if roster.objection(here) else here

    def _known_members(self, request: Request) -> tuple[str, ...] | None:
        """Return the members that were written down for this round before a crash."""
        for entry in [] if self._journal is None else self._journal.entries:
            if (entry.get("run"), entry.get("round")) == (request.run, request.round):
                try:
                    return tuple(entry["members"])
                except (LookupError, TypeError):
                    raise DataError(f"{self._journal!r} is no journal of a coordinator.") from None
        return None

    def _note(self, request: Request, members: tuple[str, ...], *, new: bool) -> None:
        """Write down who is in a masked sum, before anybody hears of it."""
        if new and self._journal is not None:
            entry = {"run": request.run, "round": request.round, "members": list(members)}
            self._journal.append(entry)

    def _name(self, party: str, round: int) -> str:
        """Return the name under which a party answers."""
        roster = self.agreement.roster
        if roster is not None and party in roster.helpers:
            return party
        return answer_name(self.agreement.plan, party, round)

    def _check(self, party: str) -> None:
        """Refuse a party that has not agreed."""
        if party not in self._agreed:
            raise NotAgreedError(f"{party!r} has not agreed to the terms of this run yet.")

    def _end(self, state: str) -> None:
        with self._changed:
            self._state, self._request = state if self._state == "open" else self._state, None
            self._changed.notify_all()


@contextlib.contextmanager
def opened(
    agreement: Agreement,
    parties: Iterable[str],
    *,
    checkpoint: Path | None = None,
    odometer: BudgetSpender | None = None,
    seed: int | None = None,
    minimum: int | None = None,
    timeout: float | None = None,
    say: Say = lambda sentence: None,
) -> Iterator[Gathering]:
    """Open a run with its coordinator, or go on from its checkpoint; let go of its files after.

    Args:
        agreement: of all sides.
        parties, minimum, timeout, say: as `Gathering` takes them.
        checkpoint, odometer: as `Coordinator` does. Members of masked rounds are kept beside it.
        seed: for trying things out; None: noise that nobody can reproduce.

    Raises:
        DpscoError: the run cannot begin; see `Coordinator` and `Gathering`.
    """
    names = _parties(parties, agreement)  # what can be refused is refused before it is paid
    _minimum(minimum, names, agreement)
    _waiting(timeout)
    with contextlib.ExitStack() as stack:
        journal = None
        if agreement.roster is not None and checkpoint is not None:
            path = checkpoint.with_name(f"{checkpoint.name}.members")
            journal = stack.enter_context(Journal(path))
        coordinator = Coordinator(
            agreement.plan,
            trust=agreement.trust,
            encoding=agreement.encoding,
            helpers=agreement.helpers,
            randomness=None if seed is None else Randomness.seeded(seed),
            odometer=odometer,
            checkpoint=checkpoint,
        )
        stack.callback(coordinator.close)
        if coordinator.round:
            say(f"goes on after round {coordinator.round} of {agreement.plan.total_rounds}")
        how: dict[str, Any] = {"minimum": minimum, "timeout": timeout, "say": say}
        yield Gathering(coordinator, agreement, names, journal=journal, **how)


def _parties(parties: Iterable[str], agreement: Agreement) -> tuple[str, ...]:
    """Return the names of all parties; refuse others than those of the roster."""
    names = tuple(check_name(name) for name in parties)
    if not names or len(set(names)) < len(names):
        raise ParameterError(f"a run has parties, each with a name of its own; got {list(names)}.")
    if agreement.roster is not None and set(names) != set(agreement.roster.keys):
        raise ParameterError(
            f"the parties are {sorted(names)}, those of the roster {list(agreement.roster.keys)}. "
            "Give each of the roster a token, and nobody else."
        )
    return names


def _minimum(minimum: Any, parties: tuple[str, ...], agreement: Agreement) -> int:
    """Return how many must have answered; refuse a number that a roster says otherwise."""
    if minimum is None:
        return len(parties)
    if agreement.roster is not None:
        raise ParameterError(
            f"the roster says how many workers a sum has, {agreement.roster.minimum}: leave "
            "minimum out.",
            parameter="minimum",
        )
    if _validate.integer("minimum", minimum) > len(parties):
        raise ParameterError(
            f"minimum must be at most the number of parties, {len(parties)}, got {minimum}.",
            parameter="minimum",
        )
    return int(minimum)


def _waiting(timeout: Any) -> float | None:
    """Return how many seconds a round waits for the others; None: without end."""
    return None if timeout is None else _validate.positive("timeout", timeout)


def printable(sentence: str) -> str:
    """Return a line of a log in which nothing of another side's words begins a line of its own."""
    return "".join(letter if letter.isprintable() else "?" for letter in sentence)


def refusal(problem: BaseException) -> str:
    """Return what the other side may hear of an error: dpsco's own words, else nothing."""
    return str(problem) if isinstance(problem, DpscoError) else "an error of dpsco's own"
