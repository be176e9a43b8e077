"""Several fits under one budget: a durable record of what was spent on one dataset.

The record is an SQLite file. A spend is checked and written in one transaction that is on the disk
before :meth:`Odometer.spend` returns, so a process that dies at any point can lose at most a spend
whose noise was never drawn. Processes take turns; each one sees what all others have spent.

Every spend and every round counts. How far the counter has come stands in a second file too
(`dpsco.privacy.odometer.counter`), so that an odometer that was emptied, or put back from an old
copy, is refused instead of being a fresh budget.

A run that may be interrupted has a name. It is paid for once, however often it is resumed, and the
record keeps a digest of what each of its rounds has let out: whoever runs an old copy of its state
on other rows, with noise that has been used, is refused.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

from ... import _validate
from ..._display import Displayed
from ...errors import BudgetError, DpscoError, LedgerError, OdometerError, ParameterError
from ...files import limits as _limits
from ...files.reading import parse_json
from .. import certificate_text
from ..accounting import gaussian
from ..accounting.composition import Cost, compose, cost
from ..budget import ApproxDP, Budget, budget_from_json
from ..release import Composition, Release, flatten
from .file import OdometerFile, count_of

_SCHEMA = "dpsco.odometer/1"


@dataclass(frozen=True)
class Entry:
    """One spend: when, for what, and the releases that it paid for."""

    number: int
    time: str
    label: str
    releases: tuple[Release, ...]
    purpose: str | None = None  # what for, as whoever paid has said
    person: str | None = None  # who that was
    model: str | None = None  # the digest of what came of it


class Odometer(Displayed):
    """The spent part of a budget, kept in a file.

    ``Odometer(path, budget)`` creates the file, or opens it if it was created with the same budget;
    ``Odometer(path)`` opens an existing one. Objects are cheap, and safe to use from many threads
    and processes.

    Args:
        path: of the file. Beside it lies ``NAME.counter``, which belongs to it: move both together.
        budget: the total.
        expect_at_least: what `counter` must have reached: whoever keeps the last one elsewhere
            notices that the file, and the one beside it, were put back from an old copy.
        purpose, person: what for and by whom this object spends; each entry keeps both.

    Raises:
        OdometerError: there is no such file, it is damaged or emptied, or it is an old copy.
        ParameterError: an argument has the wrong type.
    """

    shown_as: ClassVar[str] = "odometer"

    def __init__(
        self,
        path: str | Path,
        budget: Budget | None = None,
        *,
        expect_at_least: int | None = None,
        purpose: str | None = None,
        person: str | None = None,
    ) -> None:
        if not isinstance(path, (str, Path)) or "\0" in str(path):
            raise ParameterError(
                f"path must be the path of a file, got {path!r}.", parameter="path"
            )
        if budget is not None and not isinstance(budget, Budget):
            raise ParameterError(
                f"budget must be ApproxDP, PureDP, ZCDP or GDP, got {budget!r}. "
                "For example: Odometer('table.odometer', ApproxDP(1.0, 1e-9)).",
                parameter="budget",
            )
        if expect_at_least is not None:
            _validate.integer("expect_at_least", expect_at_least, at_least=0)
        for name, text in (("purpose", purpose), ("person", person)):
            if text is not None:
                _check_text(name, text)
        self._purpose, self._person = purpose, person
        self.path = Path(path)
        self._file = OdometerFile(self.path, expect_at_least)
        if not self._file.is_there():
            if budget is None:
                raise OdometerError(
                    f"there is no odometer at {self.path}. Create it with Odometer(path, budget)."
                )
            self._file.create(_SCHEMA, json.dumps(budget.to_json()))
        with self._file.transaction() as database:
            self.budget = _established(database, budget, self.path)

    @property
    def counter(self) -> int:
        """How many spends and rounds were recorded, ever; it never falls. See `expect_at_least`."""
        with self._file.transaction() as database:
            return count_of(database, self.path).counter

    @property
    def identity(self) -> str:
        """A random name, which tells this odometer from every other."""
        with self._file.transaction() as database:
            return count_of(database, self.path).identity

    def spend(
        self,
        releases: Release | Composition | Iterable[Release | Composition],
        *,
        label: str = "run",
        run: str | None = None,
    ) -> Entry:
        """Pay for releases before they happen; raise BudgetError, writing nothing, if too dear.

        Args:
            releases: to be paid for.
            label: for the list of entries.
            run: name of a run that may be resumed. What it has paid for is not paid again: the
                entry of its first spend is returned.

        Raises:
            BudgetError: the budget does not allow it.
            OdometerError: the file cannot be used, or the run has paid for other releases.
        """
        _check_text("label", label)
        flat = flatten(releases)
        price = self._price(flat)
        with self._file.transaction() as database:
            known = _entries(database)
            paid = None if run is None else _paid(database, run, known)
            if paid is not None:
                if paid.releases != flat:
                    raise OdometerError(
                        f"run {run} has paid for other releases (entry {paid.number} of "
                        f"{self.path}). Resume it with the plan that it began with."
                    )
                return paid
            self._check_affordable([self._price(entry.releases) for entry in known], price, label)
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            record = json.dumps([release.to_json() for release in flat])
            added = database.execute(
                "INSERT INTO spends (time, label, releases) VALUES (?, ?, ?)", (now, label, record)
            )
            number = int(added.lastrowid or 0)
            notes = (self._purpose, self._person)
            if any(notes):
                query = "INSERT INTO notes (spend, purpose, person) VALUES (?, ?, ?)"
                database.execute(query, (number, *notes))
            if run is not None:
                database.execute("INSERT INTO runs VALUES (?, ?)", (run, number))
            return Entry(number, now, label, flat, *notes)

    def name_model(self, number: int, digest: str) -> None:
        """Note which model came of an entry: its digest, as ``SavedModel`` states it.

        Raises:
            OdometerError: the file cannot be used, or has no such entry.
        """
        _check_text("digest", digest)
        with self._file.transaction() as database:
            if number not in {entry.number for entry in _entries(database)}:
                raise OdometerError(f"{self.path} has no entry {_validate.shown(number)}.")
            database.execute(
                "INSERT INTO notes (spend, model) VALUES (?, ?) "
                "ON CONFLICT (spend) DO UPDATE SET model = excluded.model",
                (number, digest),
            )

    def paid(self, run: str) -> bool:
        """Return whether a run has been paid for here."""
        with self._file.transaction() as database:
            return _is_run(database, run)

    def commit(self, run: str, round: int, digest: str) -> None:
        """Record what a round of a run has let out, before anybody sees it.

        Args:
            run: its name, under which it was paid for.
            round: which one, from 1.
            digest: of all that the round has let out.

        Raises:
            LedgerError: the round has let out something else before: its noise was used on other
                rows, and the difference of the two answers would tell them apart.
            OdometerError: the file cannot be used, or the run was not paid for here.
        """
        with self._file.transaction() as database:
            if not _is_run(database, run):
                raise OdometerError(f"run {run} was not paid for in {self.path}.")
            query = "SELECT digest FROM rounds WHERE run = ? AND round = ?"
            recorded = database.execute(query, (run, round)).fetchone()
            if recorded is None:
                database.execute("INSERT INTO rounds VALUES (?, ?, ?)", (run, round, digest))
            elif recorded[0] != digest:
                raise LedgerError(reused(run, round))

    def committed(self, run: str) -> dict[int, str]:
        """Return the digest of each round that a run has committed."""
        with self._file.transaction() as database:
            query = "SELECT round, digest FROM rounds WHERE run = ? ORDER BY round"
            records = database.execute(query, (run,)).fetchall()
        if not all(isinstance(number, int) for number, _ in records):
            raise OdometerError(f"the rounds of run {run} are damaged: a number of one is none.")
        return {number: str(digest) for number, digest in records}

    def entries(self) -> list[Entry]:
        """Return every spend in order."""
        with self._file.transaction() as database:
            return _entries(database)

    def cost(self) -> Cost:
        """Return what all spends cost together."""
        return compose([self._price(e.releases) for e in self.entries()], unit=self.budget.unit)

    def cost_with(self, releases: Release | Composition | Iterable[Release | Composition]) -> Cost:
        """Return what all spends and these releases would cost together; nothing is recorded."""
        paid = [self._price(entry.releases) for entry in self.entries()]
        return compose([*paid, self._price(flatten(releases))], unit=self.budget.unit)

    def totals(self) -> list[float]:
        """Return what was spent in all after each entry, in the budget's own notion of privacy."""
        costs = [self._price(entry.releases) for entry in self.entries()]
        return [
            compose(costs[: k + 1], unit=self.budget.unit).against(self.budget)[0]
            for k in range(len(costs))
        ]

    def spent_by(self, entry: Entry) -> float:
        """Return what one entry costs by itself, in the budget's own notion of privacy.

        The whole is less than the sum of its entries: they are composed, not added.
        """
        alone = compose([self._price(entry.releases)], unit=self.budget.unit)
        return alone.against(self.budget)[0]

    @property
    def left(self) -> float:
        """What is left of the budget, in its own notion of privacy."""
        spent, allowed = self.cost().against(self.budget)
        return max(0.0, allowed - spent)

    @property
    def next_epsilon(self) -> float | None:
        """The epsilon of one further fit that the odometer would pay, at its own delta.

        It is more than `left`: fits are composed, and together cost less than their sum. None if
        the budget has no delta, or what was spent is not purely of Gaussian noise.
        """
        budget, mu = self.budget, self.cost().mu
        if not isinstance(budget, ApproxDP) or mu is None or budget.unit.rows > 1:
            return None
        free = (1.0 - 1e-9) * budget.mu_per_row() ** 2 - mu**2
        return gaussian.epsilon(budget.delta, math.sqrt(free)) * (1 - 1e-6) if free > 0.0 else 0.0

    def cells(self, entry: Entry) -> tuple[str, ...]:
        """Return an entry as cells of a table: number, time, cost alone, label, notes."""
        alone = certificate_text.rounded_up(self.spent_by(entry))
        digest = (entry.model or "").removeprefix("sha256:")[:12]
        notes = (entry.label, digest, entry.person or "", entry.purpose or "")
        moment = f"{entry.time[:16]}Z"  # to the minute
        return (str(entry.number), moment, alone, *map(certificate_text.printable, notes))

    def explanation(self) -> list[str]:
        """Return what is left, and why the numbers of entries differ from those elsewhere."""
        allowed, following = next(iter(self.budget.amounts().items())), self.next_epsilon
        lines = [f"left: {allowed[0]} {self.left:.6g} of {allowed[1]:g}"]
        if following is not None:
            lines[0] += f"; the next fit may cost up to epsilon {following:.4g} on its own"
        if self.entries():
            lines.append(
                "Entries compose: together they cost less than the sum of their numbers. The same "
                "fit has another number in its certificate, which states its cost"
            )
            lines[-1] += (
                f" at the delta of the fit; the odometer states it at delta {self.budget.delta:g}."
                if isinstance(self.budget, ApproxDP)
                else " as epsilon at a delta; the odometer states it in its own notion of privacy."
            )
        return lines

    def place(
        self, releases: Iterable[Release], *, number: int | None = None, model: str | None = None
    ) -> str:
        """Return, in words, which entry has paid for these releases, and what is spent in all.

        Args:
            releases: of the fit; fits that are planned alike have the same.
            number: of the entry, for whoever has paid.
            model: the digest of what came of the fit: entries of other models have not paid for it.
        """
        paid, entries = flatten(tuple(releases)), self.entries()
        alike = [e for e in entries if e.releases == paid and number in (None, e.number)]
        if model is not None:
            own = [entry for entry in alike if entry.model == model]
            alike = own or [entry for entry in alike if entry.model is None]
        numbers = [entry.number for entry in alike]
        costs = [self._price(entry.releases) for entry in entries]  # of one state of the file
        total, _ = compose(costs, unit=self.budget.unit).against(self.budget)
        if not numbers:
            which = f"none of the {len(entries)} entries"
        elif len(numbers) == 1:
            which = f"entry {numbers[0]} of {len(entries)}"
        else:  # alike, so nobody can tell
            which = f"one of the entries {', '.join(map(str, numbers))} of {len(entries)}"
        spent = certificate_text.of_total(total, self.budget)
        return certificate_text.printable(f"{which} in {self.path.name}; spent in all: {spent}")

    def _line(self) -> str:
        # Nothing is read: other processes may hold the file, and a line must not wait for them.
        budget = certificate_text.amounts(self.budget)
        return certificate_text.printable(f"{self.path}, {budget}, {self.budget.adjacency.value}")

    def __str__(self) -> str:
        budget, entries = self.budget, self.entries()
        total, _ = self.cost().against(budget)
        lines = [
            f"{self.path}: spent {certificate_text.of_total(total, budget)}; protects "
            f"{certificate_text.owner(budget)}, adjacency {budget.adjacency.value}"
        ]
        if entries:
            lines.append("  entry  time                   alone   for")
        for number, time, alone, *notes in map(self.cells, entries):
            said = "  ".join(filter(None, notes))
            lines.append(f"  {number:>5}  {time}  {alone:>9}   {said}")
        return "\n".join(map(certificate_text.printable, lines))

    def _price(self, releases: tuple[Release, ...]) -> Cost:
        return cost(releases, adjacency=self.budget.adjacency)

    def _check_affordable(self, before: list[Cost], price: Cost, label: str) -> None:
        """Refuse what the budget does not allow on top of what was spent before."""
        total = compose([*before, price], unit=self.budget.unit)
        spent, allowed = total.against(self.budget)
        if not spent <= allowed:
            already, _ = compose(before, unit=self.budget.unit).against(self.budget)
            raise BudgetError(
                f"'{label}' would bring the spent budget from {already:.6g} to {spent:.6g}, "
                f"but {self.path} allows {allowed:.6g}. Nothing was recorded or released. "
                "Plan it with less, or accept that this dataset is used up."
            )


def _check_text(name: str, value: Any) -> None:
    """Refuse what a file cannot hold as text."""
    try:
        value.encode()
    except (AttributeError, UnicodeEncodeError):
        raise ParameterError(f"{name} must be text of valid Unicode, got {value!r}.") from None


def _established(database: sqlite3.Connection, budget: Budget | None, path: Path) -> Budget:
    """Return the file's budget; refuse a different one."""
    row = database.execute("SELECT schema, budget FROM about").fetchone()
    if row is None:
        raise OdometerError(f"{path} is damaged: it holds no budget.")
    if row[0] != _SCHEMA:
        raise OdometerError(f"{path} has schema {_validate.shown(row[0])}, expected {_SCHEMA!r}.")
    try:
        known = budget_from_json(_parsed(row[1], "its budget"))
    except DpscoError as problem:
        raise OdometerError(f"{path} is damaged: its budget cannot be read ({problem}).") from None
    if budget is not None and budget != known:
        raise OdometerError(
            f"{path} was created with {known}, not {budget}. Open it without a budget, or keep a "
            "separate file for another dataset."
        )
    return known


def _parsed(text: object, what: str) -> Any:
    """Return the JSON values of a cell."""
    return parse_json(text, what=what, limits=_limits.STORED, error=OdometerError)


def _releases(records: object) -> tuple[Release, ...]:
    """Return the releases of a spend."""
    if not isinstance(records, list) or len(records) > _limits.MOST_RELEASES:
        raise OdometerError(f"it is no list of at most {_limits.MOST_RELEASES:,} releases.")
    return tuple(map(Release.from_json, records))


def reused(run: str, round: int) -> str:
    """Return why a round that lets out something else than before is refused."""
    return (
        f"this noise was already used on other rows: round {round} of run {run} has let out "
        "another answer before. Nothing is returned. If the rows are the same ones, resume on the "
        "machine and with the versions that the run began with, from the newest checkpoint."
    )


def _is_run(database: sqlite3.Connection, run: str) -> bool:
    return database.execute("SELECT 1 FROM runs WHERE run = ?", (run,)).fetchone() is not None


def _paid(database: sqlite3.Connection, run: str, known: list[Entry]) -> Entry | None:
    """Return the entry that a run has paid for, if any."""
    spend = database.execute("SELECT spend FROM runs WHERE run = ?", (run,)).fetchone()
    if spend is None:
        return None
    for entry in known:
        if entry.number == spend[0]:
            return entry
    raise OdometerError(f"the spend of run {run} is missing: the odometer is damaged.")


def _entries(database: sqlite3.Connection) -> list[Entry]:
    entries = []
    query = (
        "SELECT number, time, label, releases, purpose, person, model FROM spends "
        "LEFT JOIN notes ON notes.spend = spends.number ORDER BY number"
    )
    for number, moment, label, text, *notes in database.execute(query):
        try:
            paid = _releases(_parsed(text, "its releases"))
            if not (isinstance(moment, str) and isinstance(label, str)):
                raise OdometerError("its time or label is no text.")
            if not all(note is None or isinstance(note, str) for note in notes):
                raise OdometerError("its notes are no text.")
        except (DpscoError, ValueError, TypeError, ArithmeticError) as problem:
            why = _validate.reason(problem)
            raise OdometerError(f"spend {number} is damaged, refusing to go on: {why}") from None
        entries.append(Entry(number, moment, label, paid, *notes))
    return entries
