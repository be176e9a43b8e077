"""Runs that survive a crash: the file from which a run of rounds goes on where it stopped.

All noise of a run follows from its root key, so the file holds that key, which is secret, and what
is public: the plan, the round, and the vectors that the next rounds build on. Where noise is
correlated, or scores of earlier rows fade, it also holds exact sums of earlier rounds: later rounds
build on them, and they are erased with the key. A round is committed
when one transaction has brought them to the disk, before anybody hears of the round. A process that
dies before that has shown nothing, and the round is done again with the same noise; a round that
was committed is never done again. When the run is over the key is erased and the result stays.

The order of a run: the file is made, with a new name for the run; the odometer pays under that
name; noise is drawn. A round: the odometer has seen no other answer to it; it is committed here;
the odometer notes its digest; progress is reported. Dying between any two of these neither pays
twice nor lets unpaid noise out. `dpsco.fit.checkpoint.file` says what the file is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..._validate import reason, shown
from ...data.source import Source
from ...data.tables.table import Order, Table
from ...errors import BudgetError, CheckpointError, DpscoError, LedgerError, ParameterError
from ...files import limits as _limits
from ...files.reading import parse_json
from ...privacy.certificate import Certificate
from ...privacy.ledger import BudgetSpender, Ledger
from ...privacy.odometer.odometer import reused
from ...privacy.randomness import Randomness
from ...privacy.release import NonCopyable, flatten
from ...solvers.base import BasePlan, Floats, Result
from ...solvers.engine import Engine
from ...solvers.serialization import encode
from .file import NONE, PAID, PENDING, Completion, Facts, Standing, Store, digest_of

CAVEAT = (
    "if the run was interrupted, it went on with the same rows in the same order; nobody who sees "
    "the output has read its checkpoint, or has resumed an old copy of it on other rows"
)
_MOST_WORKERS = 10_000_000  # of a federated run that a checkpoint remembers


class Checkpoint(NonCopyable):
    """One run's file, made or opened, and held until `close`; a context manager.

    Use it in this order: if `result` is there, the run is over. Else `open_ledger`, `resume` a
    `Engine` on that ledger, do its rounds with a `commit` after each, `finish`.

    Args:
        path: of the file. If it is not there, a new run begins.
        plan: of the run; a file of another plan is refused.
        order: how the rows come, in a word, likewise.
        about: what else must not change half-way, as JSON values by name; likewise.
        origin: which files the rows lie in (`dpsco.data.Table.origin`), likewise; None for others.
        randomness: of a new run, not used before; secure by default. A run that goes on takes its
            own from the file; another one than its own is refused, also if the run is over.
        odometer: pays for the run, once, and sees to it that no noise is used twice.

    Raises:
        CheckpointError: the file cannot be used, is in use, or is another run's.
        ParameterError: an argument has the wrong type.
        RandomnessError: the randomness has been used, or belongs to another run.
    """

    def __init__(
        self,
        path: str | Path,
        plan: BasePlan,
        *,
        order: str,
        about: Mapping[str, Any] | None = None,
        origin: str | None = None,
        randomness: Randomness | None = None,
        odometer: BudgetSpender | None = None,
    ) -> None:
        if not isinstance(path, (str, Path)) or path == "":
            raise ParameterError(
                f"checkpoint must be the path of a file, got {shown(path)}.", parameter="checkpoint"
            )
        if randomness is not None and not isinstance(randomness, Randomness):
            raise ParameterError(
                f"randomness must be a Randomness, got {type(randomness).__name__}. Leave it out.",
                parameter="randomness",
            )
        _check_odometer(odometer)
        self.path, self._plan, self._odometer = Path(path), plan, odometer
        self._store = Store(self.path)
        self._new = self._opened = False
        facts = Facts(_with(identity(plan), about), plan.n, order, origin)
        try:
            if self._store.is_new:
                self._store.check_private()
                self._new = True
                root = Randomness.secure() if randomness is None else randomness
                payment = NONE if odometer is None else PENDING
                self._store.begin(facts, root.stored(), payment)
            self.run = self._store.check(facts)
            self.round, self._state = self._store.progress(self.run, _longest(plan))
            ending = self._store.ending()
            self.ended = None if ending is None else ending.time
            caller_root = None if self._new else randomness  # of a new run it is in the file by now
            if ending is None:
                self.result, secret = None, self._store.root()
                self.randomness = _root(secret, caller_root, self.path)
                self._key_digest = (
                    _key_digest(self.run, secret) if self.randomness.reproducible else None
                )
            else:
                self.result = self._finished(ending.certificate)
                self._check_key_digest(ending.key_digest, caller_root)
        except BaseException:
            self._store.remove() if self._new else self._store.close()
            raise
        self._used: dict[int, str] = {}  # what earlier rounds let out, as the odometer knows it

    def stored_result(self, *, stacklevel: int) -> Result | None:
        """Return the result of a run that is over, and warn that it is no new one; else None."""
        if self.result is not None:
            warnings.warn(
                f"the run of {self.path} is over, since {self.ended}: its stored result is "
                "returned, and no row was used. Choose another checkpoint for a new run.",
                stacklevel=stacklevel + 1,
            )
        return self.result

    def open_ledger(self, *, trusted: Iterable[str] = (), caveat: str = CAVEAT) -> Ledger:
        """Return the run's ledger, paid for once; with sentences beside those of the plan.

        ``caveat`` says what an interrupted run rests on.

        Raises:
            BudgetError: the odometer's budget does not allow the run; a new file is removed again.
            CheckpointError: the run has an odometer, and this is not it.
            LedgerError: it was opened before: a second one would draw the same noise.
        """
        plan, payment = self._plan, self._store.payment()
        self._check_same_odometer(payment)
        if self._opened:
            raise LedgerError(
                f"the ledger of {self.path} was opened before, and another one would draw its "
                "noise again. Use that one, or close the checkpoint and open it anew."
            )
        self._opened = True
        try:
            ledger = Ledger(
                plan.releases(),
                plan.budget,
                randomness=self.randomness,
                enforced=plan.enforced,
                trusted=(*plan.trusted, caveat, *trusted),
                odometer=self._odometer,
                label=plan.solver,
                run=self.run,
            )
        except BudgetError:  # nothing was paid or drawn, and another plan may take its place
            if self._new:
                self._store.remove()
            raise
        if self._odometer is not None:
            self._used = self._odometer.committed(self.run)
            if payment == PAID:
                self._check_newest(max(self._used, default=0))
            else:
                self._store.note_paid()
        return ledger

    def resume(self, engine: Engine) -> None:
        """Bring a run that has not begun to where the file stands."""
        if self.round:
            try:
                engine.resume(self.round, self._state, self._store.secrets(self.run))
            except (LedgerError, ParameterError) as problem:
                raise self._store.damaged(f"its rounds cannot be read ({problem})") from None
            self._note(digest_of(self.run, self.round, self._state))

    def commit(self, engine: Engine) -> None:
        """Bring a run's last round to the disk; before that, nobody may hear of it.

        Raises:
            CheckpointError: the disk is full, or the file is not there any more.
            LedgerError: an old copy of the file is run on other rows; or this is another round
                than the next one.
        """
        round, state = engine.round, engine.state()
        if round != self.round + 1:
            raise LedgerError(
                f"{self.path} is at round {self.round}: round {self.round + 1} is the next to be "
                f"committed, not {round}. Commit each round once, after it was done."
            )
        digest = digest_of(self.run, round, state)
        if self._used.get(round, digest) != digest:
            raise LedgerError(reused(self.run, round))
        self._store.commit(round, state, digest, engine.secrets())
        self.round, self._state = round, state
        self._note(digest)

    def finish(self, weights: Floats, ledger: Ledger) -> Result:
        """Close the ledger, keep the result, erase the key; return the result."""
        certificate = ledger.close()
        vectors = {"weights": weights}
        self.ended = datetime.now(timezone.utc).isoformat(timespec="seconds")
        ending = Completion(json.dumps(certificate.to_json()), self.ended, self._key_digest)
        self._store.finish(vectors, digest_of(self.run, self.round, vectors), ending)
        self.result = Result(weights, certificate, self._plan, self._plan.trace())
        return self.result

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_same_odometer(self, payment: str) -> None:
        """Refuse to go on behind the back of the odometer that knows the rounds of this run."""
        if payment != NONE and self._odometer is None:
            raise CheckpointError(
                f"the run of {self.path} has an odometer, which sees to it that it is "
                "paid for and that no noise is used twice. Pass that odometer to go on (on the "
                "command line --odometer)."
            )
        if payment == PAID and self._odometer is not None and not self._odometer.paid(self.run):
            raise CheckpointError(
                f"the odometer does not know the run of {self.path}, which another one has paid "
                "for: only that one can tell whether its noise was used. Pass it to go on."
            )

    def _check_newest(self, noted: int) -> None:
        """Refuse an odometer that knows less than it was told: an old copy forgets used noise."""
        if noted < self.round - 1:  # a process may have died before it told the last one
            raise CheckpointError(
                f"the odometer is an old copy: it knows {noted} rounds of the run of {self.path}, "
                f"which is at round {self.round}. Put the newest copy back to go on."
            )

    def _note(self, digest: str) -> None:
        if self._odometer is not None:
            self._odometer.commit(self.run, self.round, digest)

    def _check_key_digest(self, key_digest: str | None, randomness: Randomness | None) -> None:
        """Refuse a root that is not that of a run that is over: its result is not the stored."""
        if randomness is None:
            return
        if (
            key_digest is None
            or not randomness.reproducible
            or key_digest != _key_digest(self.run, randomness.stored())
        ):
            raise CheckpointError(
                f"mismatched noise state: the run of {self.path} is over, and was not made with "
                "the randomness given. Leave randomness out (on the command line --seed) to get "
                "its result, or choose another checkpoint for a new run."
            )

    def _finished(self, record: str) -> Result:
        """Return the result of a run that is over, if it is one of the plan."""
        try:
            stored = parse_json(record, what="it", limits=_limits.STORED, error=CheckpointError)
            certificate = Certificate.from_json(stored)
            result = Result(self._state["weights"], certificate, self._plan, self._plan.trace())
        except (DpscoError, ValueError, TypeError, LookupError) as problem:
            raise self._store.damaged(f"its result cannot be read ({reason(problem)})") from None
        if (wrong := _contradiction(self._plan, certificate)) is not None:
            raise self._store.damaged(f"its certificate is not one of its plan: {reason(wrong)}")
        return result


class NoCheckpoint:
    """A run that nobody keeps: the same steps as with a `Checkpoint`, and nothing on a disk."""

    def __init__(
        self,
        plan: BasePlan,
        *,
        randomness: Randomness | None = None,
        odometer: BudgetSpender | None = None,
    ) -> None:
        self._plan, self._odometer = plan, odometer
        self.randomness = Randomness.secure() if randomness is None else randomness

    def stored_result(self, *, stacklevel: int) -> None:
        """Return None: nothing is stored."""

    def open_ledger(self, *, trusted: Iterable[str] = ()) -> Ledger:
        """Return the run's ledger, paid for; with sentences beside those of the plan."""
        plan = self._plan
        return Ledger(
            plan.releases(),
            plan.budget,
            randomness=self.randomness,
            enforced=plan.enforced,
            trusted=(*plan.trusted, *trusted),
            odometer=self._odometer,
            label=plan.solver,
        )

    def resume(self, engine: Engine) -> None:
        """Leave a run at its beginning."""

    def commit(self, engine: Engine) -> None:
        """Keep nothing."""

    def finish(self, weights: Floats, ledger: Ledger) -> Result:
        """Close the ledger; return the result."""
        return Result(weights, ledger.close(), self._plan, self._plan.trace())

    def close(self) -> None:
        """Let go of nothing."""

    def __enter__(self) -> NoCheckpoint:
        return self

    def __exit__(self, *_: object) -> None: ...


def _contradiction(plan: BasePlan, certificate: Certificate) -> str | None:
    """Return how a stored certificate differs from what a run of the plan is certified with."""
    if certificate.budget != plan.budget:
        return "it states another budget"
    if certificate.releases != flatten(plan.releases()):
        return "it lists other releases"
    missing = {*plan.enforced, *plan.trusted} - {*certificate.enforced, *certificate.trusted}
    if missing or not certificate.trusted:  # the caveat of checkpoints is there at least
        return "it leaves out what the plan enforces or takes on trust"
    problems = certificate.verify(cross_check=False).problems
    return problems[0] if problems else None


def _longest(plan: BasePlan) -> int:
    """Return how long a vector of a state may be: the weights, or who has answered, a row each."""
    return max(plan.task.n_weights, min(plan.n, _MOST_WORKERS))


def sequence(table: Table | Source, order: Order) -> str:
    """Return how the rows come, in a word; one key gives two kinds of shuffle different orders."""
    return table.shuffle if order == "shuffled" and isinstance(table, Table) else order


def peek(path: str | Path) -> Standing | None:
    """Return how far the run of a checkpoint is; None if there is no file, or nothing in it yet.

    Raises:
        CheckpointError: the file is in use, damaged, or no checkpoint.
    """
    if not Path(path).exists():
        return None
    store = Store(Path(path))
    try:
        return None if store.is_new else store.peek()
    finally:
        store.close()


def identity(plan: BasePlan) -> str:
    """Return what tells a plan from others: its JSON, with the names of what is a user's code."""
    try:
        return plan.to_json()
    except ParameterError:
        parts = {item.name: getattr(plan, item.name) for item in dataclasses.fields(plan)}
        for name in ("task", "problem"):
            part = parts.pop(name)
            parts |= {item.name: getattr(part, item.name) for item in dataclasses.fields(part)}
        return json.dumps({name: _written(part) for name, part in parts.items()})


def _with(text: str, about: Mapping[str, Any] | None) -> str:
    """Return a plan's identity with more fields, so that a refusal names those that differ."""
    return json.dumps({**json.loads(text), **about}) if about else text


def _written(part: Any) -> Any:
    """Return a part of a plan as JSON, or its name; where it lies in memory does not matter."""
    try:
        return encode(part)
    except ParameterError:
        return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(part))


def _check_odometer(odometer: Any) -> None:
    """Refuse an odometer that does not know runs by name."""
    methods = ("spend", "paid", "commit", "committed")
    if odometer is None or all(callable(getattr(odometer, name, None)) for name in methods):
        return
    raise ParameterError(
        "a run with a checkpoint needs an odometer that knows runs by name, such as "
        f"dpsco.Odometer(path, budget); got {type(odometer).__name__}."
    )


def _root(secret: bytes, randomness: Randomness | None, path: Path) -> Randomness:
    """Return the file's root; one that the caller gives must be the same, and is used up."""
    if randomness is not None and not hmac.compare_digest(secret, randomness.stored()):
        raise CheckpointError(
            f"mismatched noise state: {path} was begun with another randomness than the one given. "
            "Leave randomness out (on the command line --seed): a run that goes on takes its own "
            "from the checkpoint."
        )
    return Randomness.restored(secret)


def _key_digest(run: str, secret: bytes) -> str:
    """Return what tells the root of a seed from others, once the root itself is erased.

    It is another one for each run, lest it shows that two of them have the same noise. Whoever has
    it can try seeds, so one that can be guessed is found: `SECURITY.md` says so.
    """
    message = run.encode() + secret
    return hashlib.blake2b(message, digest_size=32, person=b"dpsco key_digest").hexdigest()
