"""The file of an odometer: SQLite's, in transactions that are on the disk when they return.

A file appears whole, with its budget and a random identity, or not at all; so one without a page
was emptied. Each transaction first compares the file with its second place
(`dpsco.privacy.odometer.counter`) and with what this object and its caller remember.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from ..._validate import reason
from ...errors import DpscoError, OdometerError
from ...files.databases import foreign_part, harden
from ...files.disk import sync_folder
from ...files.writing import Draft
from ..randomness import fresh_name
from .counter import Count, check_absent, check_count, read_count, rolled_back, write_count

_PATIENCE = 60.0  # seconds to wait for other processes
_SMALLEST = 512  # bytes: one page of SQLite
_TABLES = (
    "CREATE TABLE IF NOT EXISTS about (schema TEXT, budget TEXT)",
    "CREATE TABLE IF NOT EXISTS spends (number INTEGER PRIMARY KEY AUTOINCREMENT, "
    "time TEXT NOT NULL, label TEXT NOT NULL, releases TEXT NOT NULL)",
    # Tables of their own: files and programs from before there were runs stay right.
    "CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, spend INTEGER)",
    "CREATE TABLE IF NOT EXISTS rounds (run TEXT, round INTEGER, digest TEXT NOT NULL, "
    "PRIMARY KEY (run, round))",
    "CREATE TABLE IF NOT EXISTS identity (id TEXT)",
    "CREATE TABLE IF NOT EXISTS notes (spend INTEGER PRIMARY KEY, purpose TEXT, person TEXT, "
    "model TEXT)",
)


class OdometerFile:
    """The file, and what this object has seen of it.

    Args:
        path: of the file; a link leads to the odometer itself.
        expected: what the counter must have reached, if the caller knows.
    """

    def __init__(self, path: Path, expected: int | None) -> None:
        self._shown, self._expected = path, expected
        self._path = Path(os.path.realpath(path))
        self._seen: Count | None = None

    def is_there(self) -> bool:
        """Return whether there is a file; refuse one that cannot be an odometer.

        Raises:
            OdometerError: it is no regular file; it was emptied, which SQLite would take for new;
                or there is none, and there was one that had been used.
        """
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            check_absent(self._path)
            return False
        except OSError as problem:
            raise self._unusable(problem.strerror or str(problem)) from None
        if not stat.S_ISREG(status.st_mode):
            raise self._unusable("it is no regular file")
        if status.st_size < _SMALLEST:
            raise self._unusable(
                f"it has {status.st_size} bytes, and one that was created never has so few. It was "
                "emptied or cut, and what was spent is not in it: put the newest copy back. If "
                "nothing was ever spent there, remove it and begin anew"
            )
        return True

    def create(self, schema: str, budget: str) -> None:
        """Make the file whole beside its place, and give it its name; leave one that is there.

        Raises:
            OdometerError: it cannot be made.
        """
        draft = Draft(self._path)
        try:
            draft.create()
            with contextlib.closing(sqlite3.connect(draft.path, isolation_level=None)) as database:
                database.execute("PRAGMA journal_mode = MEMORY")  # nobody else knows the draft
                database.execute("PRAGMA synchronous = EXTRA")
                database.execute("BEGIN")
                for table in _TABLES:
                    database.execute(table)
                database.execute("INSERT INTO about VALUES (?, ?)", (schema, budget))
                database.execute("INSERT INTO identity VALUES (?)", (fresh_name(),))
                database.execute("COMMIT")
            _give_name(draft.path, self._path)
            sync_folder(self._path.parent)
        except (DpscoError, OSError, sqlite3.Error) as problem:
            raise self._unusable(str(problem).rstrip(".")) from None
        finally:
            draft.drop()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open the file, hold the write lock, commit durably; no connection outlives a call.

        Raises:
            OdometerError: the file cannot be used, or is not the newest.
        """
        if not self.is_there():
            raise self._unusable("it is gone")
        try:
            with contextlib.closing(
                sqlite3.connect(
                    f"{self._path.as_uri()}?mode=rw",
                    uri=True,
                    timeout=_PATIENCE,
                    isolation_level=None,
                )
            ) as database:
                harden(database)
                database.execute("PRAGMA synchronous = EXTRA")
                database.execute("PRAGMA fullfsync = ON")
                _begin(database)
                try:
                    before = self._compare(database)
                    yield database
                    database.execute("COMMIT")
                except BaseException:
                    with contextlib.suppress(sqlite3.Error):  # a full disk may have rolled it back
                        database.execute("ROLLBACK")
                    raise
                with contextlib.suppress(sqlite3.Error, OdometerError):  # the next one catches up
                    self._note(database, before)
        except (sqlite3.Error, UnicodeError) as problem:  # SQLite quotes names that are damaged
            raise self._unusable(reason(problem)) from None

    def _compare(self, database: sqlite3.Connection) -> Count:
        """Refuse a file that is not the newest, as far as anybody here remembers."""
        there = read_count(self._path)
        adopted = self._upgrade(database, there)
        here = count_of(database, self._shown)
        if self._seen is not None and self._seen.identity != here.identity:
            raise OdometerError(f"another odometer has taken the place of {self._shown}.")
        if self._seen is not None and self._seen.counter > here.counter:
            seen = self._seen.counter
            raise rolled_back(self._path, here.counter, seen, "this process has seen")
        if self._expected is not None and here.counter < self._expected:
            raise rolled_back(self._path, here.counter, self._expected, "its caller knows")
        vouched = self._expected is not None
        if check_count(self._path, here, there, vouched=vouched, adopted=adopted):
            write_count(self._path, here)
        self._seen = here
        return here

    def _upgrade(self, database: sqlite3.Connection, there: Count | None) -> bool:
        """Add what a file of an older dpsco does not have; return whether it had no identity.

        If the second place has one, a process has died between the two.

        Raises:
            OdometerError: it is some other file.
        """
        known = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        if not {"about", "spends"} <= known:
            raise self._unusable("it is no odometer, or is damaged")
        if (foreign := foreign_part(database, _TABLES)) is not None:
            raise self._unusable(f"it is damaged, or no odometer: {foreign}")
        for table in _TABLES:
            database.execute(table)
        if database.execute("SELECT id FROM identity").fetchone() is not None:
            return False
        name = fresh_name() if there is None else there.identity
        database.execute("INSERT INTO identity VALUES (?)", (name,))
        return True

    def _note(self, database: sqlite3.Connection, before: Count) -> None:
        """Bring the counter to its second place, if it has moved, with the file locked again."""
        if count_of(database, self._shown) == before:
            return
        _begin(database)
        try:
            self._seen = count_of(database, self._shown)
            write_count(self._path, self._seen)
        finally:
            database.execute("ROLLBACK")

    def _unusable(self, why: str) -> OdometerError:
        return OdometerError(f"cannot use the odometer {self._shown}: {why}.")


def _give_name(draft: Path, file: Path) -> None:
    """Give a draft its name, unless another process has been faster."""
    try:
        os.link(draft, file)
    except FileExistsError:
        return
    except OSError:  # a disk on which a file has one name
        if not os.path.lexists(file):
            os.rename(draft, file)


def _begin(database: sqlite3.Connection) -> None:
    """Take the write lock; SQLite reports a lock held during recovery without waiting, so retry."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            database.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as problem:
            if "locked" not in str(problem) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def count_of(database: sqlite3.Connection, path: Path) -> Count:
    """Return how far the counter has come, from the entries themselves.

    Raises:
        OdometerError: entries are missing, or the identity is.
    """
    spends, last = database.execute("SELECT COUNT(*), MAX(number) FROM spends").fetchone()
    ever = database.execute("SELECT MAX(seq) FROM sqlite_sequence WHERE name = 'spends'").fetchone()
    rounds = database.execute("SELECT MAX(rowid) FROM rounds").fetchone()
    names = database.execute("SELECT id FROM identity").fetchall()
    if not spends == (last or 0) == (ever[0] or 0):
        raise OdometerError(f"{path} is damaged: entries are missing.")
    if len(names) != 1 or not isinstance(names[0][0], str):
        raise OdometerError(f"{path} is damaged: its identity cannot be read.")
    return Count(names[0][0], spends + (rounds[0] or 0))
