"""The file behind a checkpoint: SQLite's, readable by its owner alone, locked while it is used.

Every write is one transaction that is on the disk when it returns. The lock belongs to the process,
and goes with it, however it ends (`dpsco.fit.checkpoint.lock`). What is deleted is overwritten;
what the disk itself keeps of old blocks is beyond this file, so keep it on an encrypted disk if
that matters.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._validate import reason, shown
from ..._version import __version__
from ...data.tables.origin import difference, shareable
from ...errors import CheckpointError, DpscoError, LedgerError
from ...files.databases import foreign_part, harden
from ...files.limits import STORED
from ...files.reading import parse_json
from ...privacy.randomness import fresh_name
from .lock import FileLock, check_private, create, in_use, place

Floats = NDArray[np.float64]

SCHEMA = "dpsco.checkpoint/4"
NONE, PENDING, PAID = "none", "awaited", "paid"  # whether an odometer watches over the run
_PATIENCE = 0.5  # seconds: a process that was killed takes a moment to let go of its files
_EXACT = "<f8"
_MOST_VECTORS = 32  # of a state: solvers have up to five
_MOST_WORDS = 200  # characters of a vector's name and shape
_TABLES = (
    "CREATE TABLE about (schema TEXT, version TEXT, run TEXT, plan TEXT, rows INTEGER, "
    "sequence TEXT, origin TEXT)",
    "CREATE TABLE payment (state TEXT)",  # of the odometer: NONE, PENDING or PAID
    "CREATE TABLE root (secret BLOB)",  # a page of its own, written once and erased once
    "CREATE TABLE secrets (name TEXT PRIMARY KEY, numbers BLOB, digest TEXT)",  # erased with it
    "CREATE TABLE progress (round INTEGER, digest TEXT)",
    "CREATE TABLE vectors (name TEXT PRIMARY KEY, shape TEXT, numbers BLOB)",
    "CREATE TABLE certificate (record TEXT, ended TEXT, key_digest TEXT)",  # of a run that is over
)
_SETTINGS = (
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA journal_mode = TRUNCATE",  # in this locking mode others keep old pages, with the key
    "PRAGMA synchronous = EXTRA",
    "PRAGMA fullfsync = ON",
    "PRAGMA secure_delete = ON",
)


@dataclass(frozen=True)
class Facts:
    """What tells a run from others."""

    plan: str
    rows: int
    order: str
    origin: str | None  # of the rows, where they lie in files


@dataclass(frozen=True)
class Completion:
    """What is kept of a run that is over, besides its weights."""

    certificate: str
    time: str
    key_digest: str | None  # of a root that a seed made; a secure one leaves nothing behind


@dataclass(frozen=True)
class Standing:
    """How far the run of a checkpoint is: ``ended`` is a time, or None if it is not over."""

    rows: int
    round: int
    ended: str | None


class Store:
    """The file: what is in it, in transactions that are on the disk when they return."""

    def __init__(self, path: Path) -> None:
        path = path.absolute()  # whatever the folder of the process is later
        self._path, self._process, self._lock = path, os.getpid(), threading.Lock()
        created = create(path)
        self._file_lock = FileLock(path, patience=_PATIENCE)
        try:
            with self._explained():
                self._database = self._connected(created)
        except BaseException:
            self._file_lock.release()
            raise

    def _connected(self, created: bool) -> sqlite3.Connection:
        """Return a connection that has the file locked."""
        database = sqlite3.connect(
            f"{self._path.as_uri()}?mode=rw",
            uri=True,
            timeout=_PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            harden(database)
            for setting in _SETTINGS:
                database.execute(setting)
            database.execute("BEGIN EXCLUSIVE")  # in this mode the lock outlives it
            database.execute("COMMIT")
            self._place = place(self._path)
        except BaseException as problem:
            if created and "locked" not in str(problem):  # else another run has begun in it
                self._unlink()
            database.close()
            raise
        return database

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever written: whoever made the file died before it had a name."""
        with self._explained():
            tables = self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            return bool(tables == (0,))

    def check_private(self) -> None:
        """Refuse a key in a file that others may read."""
        check_private(self._path)

    def begin(self, facts: Facts, secret: bytes, payment: str) -> None:
        """Write all that a run begins with; ``payment`` is NONE or PENDING."""
        with self._transaction() as database:
            for table in _TABLES:
                database.execute(table)
            run = fresh_name()
            database.execute(
                "INSERT INTO about VALUES (?, ?, ?, ?, ?, ?, ?)",
                (SCHEMA, __version__, run, facts.plan, facts.rows, facts.order, facts.origin),
            )
            database.execute("INSERT INTO root VALUES (?)", (secret,))
            database.execute("INSERT INTO payment VALUES (?)", (payment,))
            database.execute("INSERT INTO progress VALUES (0, ?)", (digest_of(run, 0, {}),))

    def check(self, facts: Facts) -> str:
        """Return the name of the run; refuse the file of another one."""
        self._check_schema()
        version, run, known, sequence = self._row("SELECT version, run, plan, sequence FROM about")
        if known != facts.plan:
            raise CheckpointError(
                f"{self._path} is the checkpoint of another plan: "
                f"{plan_difference(known, facts.plan)}. Resume it with its own plan, or choose "
                "another file for this one."
            )
        if sequence != facts.order:
            raise CheckpointError(
                f"{self._path} was begun with order={shown(sequence)}, not {facts.order!r}: rows "
                "would come twice. Resume it with its own table and order, or choose another file."
            )
        over = self.ending() is not None
        self._check_origin(facts.origin, over)
        if version != __version__ and not over:
            raise CheckpointError(
                f"{self._path} was begun by dpsco {reason(str(version))}, this is {__version__}, "
                "which may draw other noise. Resume it with the version that began it."
            )
        return str(run)

    def _check_schema(self) -> None:
        """Refuse a file that another version of dpsco wrote in another way."""
        with self._explained():
            part = foreign_part(self._database, _TABLES)
        if part is not None:
            raise self.damaged(part)
        (schema,) = self._row("SELECT schema FROM about")
        if schema != SCHEMA:
            raise CheckpointError(
                f"{self._path} has schema {shown(schema)}, this version of dpsco reads {SCHEMA!r}. "
                "Resume it with the version that wrote it."
            )

    def _check_origin(self, origin: str | None, over: bool) -> None:
        """Refuse rows of other files: the noise that is left was to hide the rows of these."""
        (known,) = self._row("SELECT origin FROM about")
        origin = shareable(origin) if over else origin
        if known == origin:
            return
        try:
            words = difference(known, origin)
        except (DpscoError, ValueError, TypeError, LookupError, ArithmeticError):
            raise self.damaged("where its rows lie cannot be read") from None
        why = "its result is about other rows" if over else "its noise would be used on other rows"
        raise CheckpointError(
            f"{self._path} is the checkpoint of another table, and {why}: {words}. A file that was "
            "moved, copied or written again counts as another one. Put the old one back, with its "
            "time of change, or choose another checkpoint for a new run."
        )

    def peek(self) -> Standing:
        """Return how far the run is, without a look at its key."""
        self._check_schema()
        (rows,), (round,) = (
            self._row(f"SELECT {name}") for name in ("rows FROM about", "round FROM progress")
        )
        ending = self.ending()
        ended = None if ending is None else ending.time
        try:
            return Standing(int(rows), int(round), ended)
        except (ValueError, TypeError):
            raise self.damaged("how far it is cannot be read") from None

    def progress(self, run: str, size: int) -> tuple[int, dict[str, Floats]]:
        """Return the round and its vectors of up to ``size`` numbers, as they were committed."""
        number, digest = self._row("SELECT round, digest FROM progress")
        held, longest, words = self._row(
            "SELECT count(*), max(length(numbers)), max(length(name) + length(shape)) FROM vectors"
        )
        if held > _MOST_VECTORS or (longest or 0) > 8 * size or (words or 0) > _MOST_WORDS:
            raise self.damaged("it has more or longer vectors than its plan")
        with self._explained():
            rows = self._database.execute("SELECT name, shape, numbers FROM vectors").fetchall()
        try:
            state = {str(name): vector(shape, numbers) for name, shape, numbers in rows}
            if digest != digest_of(run, int(number), state):
                raise ValueError("its digest does not match")
        except (DpscoError, ValueError, TypeError, ArithmeticError) as problem:
            raise self.damaged(f"its state cannot be read ({reason(problem)})") from None
        return int(number), state

    def root(self) -> bytes:
        """Return the secret root of a run that is not over."""
        self.check_private()
        secret = self._row("SELECT secret FROM root")[0]
        if not isinstance(secret, bytes):
            raise self.damaged("its key cannot be read")
        return secret

    def secrets(self, run: str) -> dict[str, Floats]:
        """Return what the rounds so far have left for later ones; not to be shown."""
        with self._explained():
            rows = self._database.execute("SELECT name, numbers, digest FROM secrets").fetchall()
        try:
            secrets = {str(name): from_bytes(numbers) for name, numbers, _ in rows}
            for name, _, digest in rows:
                if digest != digest_of(run, 0, {name: secrets[name]}):
                    raise ValueError("a digest does not match")
        except (ValueError, TypeError) as problem:
            raise self.damaged(f"what its rounds left cannot be read ({problem})") from None
        return secrets

    def payment(self) -> str:
        """Return whether an odometer watches over the run, and has paid."""
        (state,) = self._row("SELECT state FROM payment")
        if state not in (NONE, PENDING, PAID):
            raise self.damaged("whether it was paid for cannot be read")
        return str(state)

    def note_paid(self) -> None:
        """Write down that an odometer has paid, and knows the rounds from now on."""
        with self._transaction() as database:
            database.execute("UPDATE payment SET state = ?", (PAID,))

    def ending(self) -> Completion | None:
        """Return what is kept of a run that is over, besides its weights."""
        with self._explained():
            row = self._database.execute(
                "SELECT record, ended, key_digest FROM certificate"
            ).fetchone()
        if row is None:
            return None
        if not all(isinstance(each, str) for each in row[:2]):
            raise self.damaged("its result cannot be read")
        return Completion(*row)

    def commit(
        self, round: int, state: Mapping[str, Floats], digest: str, secrets: Mapping[str, Floats]
    ) -> None:
        """Put a round and its vectors in the place of those of the round before it.

        ``secrets`` are kept beside those of the rounds before, or in the place of their namesakes.

        Raises:
            LedgerError: the file does not stand at the round before; it is left as it is.
        """
        with self._transaction() as database:
            write(database, state)
            (run,) = self._row("SELECT run FROM about")
            database.executemany(
                "INSERT OR REPLACE INTO secrets VALUES (?, ?, ?)",
                [
                    (name, exact_bytes(numbers), digest_of(run, 0, {name: numbers}))
                    for name, numbers in secrets.items()
                ],
            )
            query = "UPDATE progress SET round = ?, digest = ? WHERE round = ?"
            if database.execute(query, (round, digest, round - 1)).rowcount != 1:
                raise LedgerError(
                    f"round {round} does not follow on what {self._path} has committed. Resume "
                    "the run from the file."
                )

    def finish(self, vectors: Mapping[str, Floats], digest: str, ending: Completion) -> None:
        """Put the result in the place of the state; erase the key, and how large the files are."""
        (origin,) = self._row("SELECT origin FROM about")
        with self._transaction() as database:
            for table in ("root", "secrets", "vectors"):
                database.execute(f"DELETE FROM {table}")
            write(database, vectors)
            database.execute("UPDATE progress SET digest = ?", (digest,))
            database.execute("UPDATE about SET origin = ?", (shareable(origin),))
            database.execute(
                "INSERT INTO certificate VALUES (?, ?, ?)",
                (ending.certificate, ending.time, ending.key_digest),
            )

    def remove(self) -> None:
        """Remove the file; only while nothing was paid for and drawn from its root."""
        with contextlib.suppress(CheckpointError), self._transaction() as database:
            database.execute("DROP TABLE IF EXISTS root")
        self._unlink()  # while it is locked, so that no other run can have begun in it
        self._database.close()
        self._file_lock.release()

    def close(self) -> None:
        """Let go of the file, and of the empty journal beside it."""
        if os.getpid() != self._process:  # the lock is the other process's
            return
        with self._lock, contextlib.suppress(sqlite3.Error):
            for setting in ("locking_mode = NORMAL", "user_version", "journal_mode = DELETE"):
                self._database.execute(f"PRAGMA {setting}").fetchall()
        self._database.close()
        self._file_lock.release()

    def _unlink(self) -> None:
        """Remove the journal and the file, in this order: a journal must not meet a new file."""
        for path in (f"{self._path}-journal", self._path):
            with contextlib.suppress(OSError):  # some systems keep a file that is open
                os.unlink(path)

    def damaged(self, what: str) -> CheckpointError:
        """Return the refusal of a file that does not say what it should."""
        return CheckpointError(
            f"{self._path} is damaged, or no checkpoint: {what}. A run cannot go on without its "
            "checkpoint: begin a new one, in another file."
        )

    def _row(self, query: str) -> tuple[Any, ...]:
        """Return the one row that a query finds."""
        with self._explained():
            rows = self._database.execute(query).fetchall()
        if len(rows) != 1:
            raise self.damaged(f"it has {len(rows)} rows in the place of one")
        return tuple(rows[0])

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all or nothing; on the disk when it is left."""
        if os.getpid() != self._process:
            raise CheckpointError(f"{self._path} must stay in the process that opened it.")
        if place(self._path) != self._place:
            raise CheckpointError(
                f"{self._path} was moved, removed or replaced during the run, and nobody could go "
                "on from what is written now. If it was moved, put it back and resume."
            )
        with self._lock, self._explained():
            self._database.execute("BEGIN EXCLUSIVE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk may have rolled it back
                    self._database.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Say in words what SQLite refuses."""
        try:
            yield
        except sqlite3.Error as problem:
            if "locked" in str(problem):
                raise in_use(self._path) from None
            if isinstance(problem, sqlite3.OperationalError) and "no such" not in str(problem):
                raise CheckpointError(
                    f"cannot use the checkpoint {self._path}: {problem}. Nothing more was released."
                ) from None
            raise self.damaged(reason(problem)) from None
        except UnicodeDecodeError:  # SQLite quotes a name that was damaged
            raise self.damaged("it holds text that is none") from None


# -- what the cells hold: vectors, exactly; plans and shapes, as JSON ------------------------------


def exact_bytes(numbers: Floats) -> bytes:
    """Return numbers as bytes that are the same on every machine."""
    return np.ascontiguousarray(numbers, dtype=_EXACT).tobytes()


def from_bytes(content: bytes) -> Floats:
    """Return the numbers of `exact_bytes`."""
    return np.frombuffer(content, dtype=_EXACT).astype(float)


def digest_of(run: str, round: int, state: Mapping[str, Floats]) -> str:
    """Return a digest of what a round has let out, bit for bit."""
    digest = hashlib.blake2b(digest_size=32, person=b"dpsco round")
    head = [run, round, sorted((name, list(vector.shape)) for name, vector in state.items())]
    digest.update(json.dumps(head).encode())
    for name in sorted(state):
        digest.update(exact_bytes(state[name]))
    return digest.hexdigest()


def write(database: sqlite3.Connection, state: Mapping[str, Floats]) -> None:
    """Write vectors, exactly."""
    database.executemany(
        "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)",
        [(name, json.dumps(vector.shape), exact_bytes(vector)) for name, vector in state.items()],
    )


def vector(shape: str, numbers: bytes) -> Floats:
    """Return a vector that `write` wrote."""
    lengths = tuple(parsed(shape))
    if len(numbers) != 8 * math.prod(lengths):
        raise ValueError("a vector has another length than its shape says")
    return from_bytes(numbers).reshape(lengths)


def plan_difference(known: str, plan: str) -> str:
    """Return which fields of two plans differ."""
    try:
        old, new = _flat(parsed(known)), _flat(parsed(plan))
        fields = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    except (DpscoError, TypeError, AttributeError):
        return "it cannot be read"
    return f"it differs in {reason(', '.join(map(str, fields)))}"


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan with those of its task and its problem beside them."""
    for name in ("task", "problem"):
        record = {**record, **record.pop(name, {})}
    return record


def parsed(text: object) -> Any:
    """Return the JSON values of a cell."""
    return parse_json(text, what="a part", limits=STORED, error=CheckpointError)
