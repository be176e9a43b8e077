"""One fit: it pays once, runs in a thread of its own, and leaves its files together or not at all.

A fit has a random name. The name is on the disk before the odometer pays, and the odometer keeps
it, so that nobody who starts again after a crash pays for it, or draws its noise, a second time.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..data.schema.encoder import TableEncoder
from ..data.schema.schema import Schema
from ..data.tables.table_file import open_file, private_table
from ..errors import BudgetError, DataError, DpscoError, OdometerError
from ..files.limits import PLAN
from ..files.reading import read_json
from ..files.writing import write_files, write_text
from ..models import Provenance, SavedModel
from ..models.plan import ModelPlan
from ..models.tables import saved_model
from ..privacy.odometer.odometer import Entry, Odometer
from ..privacy.randomness import fresh_name
from ..privacy.release import Composition, Release
from ..solvers import get
from ..solvers.engine import reads_once

SCHEMA, PLAN_FILE, MODEL = "schema.json", "plan.json", "model.json"
CERTIFICATE, REPORT, PROVENANCE = "certificate.json", "report.html", "provenance.json"
FILES = (MODEL, CERTIFICATE, REPORT, PLAN_FILE, SCHEMA, PROVENANCE)
"""All that is written for people."""
NOTE = "run.json"
"""In the folder of a fit that has begun and not come to its end: its name."""

_NOTE_SCHEMA = "dpsco.ui-run/1"
ALREADY = (
    "A fit of this folder was paid for and did not come to its end: part of it may have been "
    "released, and the payment stands. It is not run again, because fresh noise would have to be "
    "paid for again. Begin another fit in another folder: dpsco ui --folder."
)


class SinglePayer:
    """Pays for one run, once; whoever asks again is refused.

    Args:
        odometer: that pays.
        run: the run's name.
        folder: where its name is noted before it is paid for.
    """

    def __init__(self, odometer: Odometer, run: str, folder: Path) -> None:
        self._odometer, self._run, self._folder = odometer, run, folder
        self._lock, self._begun = threading.Lock(), False
        self.path, self.budget = odometer.path, odometer.budget
        self.entry: Entry | None = None
        self.uncertain = False  # whether it ended while the odometer was writing

    def spend(
        self,
        releases: Release | Composition | Iterable[Release | Composition],
        *,
        label: str = "run",
        run: str | None = None,
    ) -> Entry:
        """Pay as the odometer does, under the run's own name."""
        with self._lock:
            if self._begun or self._odometer.paid(self._run):
                raise BudgetError("this fit has been paid for already: it is not paid for again.")
            self._begun = True
        note = {"schema": _NOTE_SCHEMA, "run": self._run, "odometer": self._odometer.identity}
        write_text(self._folder / NOTE, json.dumps(note) + "\n")
        self.uncertain = True
        try:
            self.entry = self._odometer.spend(releases, label=label, run=self._run)
        except DpscoError as problem:
            refused = isinstance(problem, BudgetError) or not self._odometer.paid(self._run)
            if refused:  # and nothing recorded
                self.uncertain = False
                forget(self._folder)
            raise
        self.uncertain = False
        return self.entry

    def paid(self, run: str) -> bool:
        """Return whether a run has been paid for here."""
        return self._odometer.paid(run)

    def commit(self, run: str, round: int, digest: str) -> None:
        """Record what a round has let out, as the odometer does."""
        self._odometer.commit(run, round, digest)

    def committed(self, run: str) -> dict[int, str]:
        """Return what the odometer knows of a run's rounds."""
        return self._odometer.committed(run)

    def name_model(self, digest: str) -> None:
        """Add to the entry which model came of it; it is paid for all the same."""
        if self.entry is not None:
            with contextlib.suppress(OdometerError):
                self._odometer.name_model(self.entry.number, digest)

    def placed(self, releases: Iterable[Release]) -> Provenance:
        """Return what the entry keeps, with its place, for the model and its report."""
        purpose = None if self.entry is None else self.entry.purpose
        number = None if self.entry is None else self.entry.number
        place = None
        with contextlib.suppress(DpscoError):  # what is paid must not be lost over a sentence
            place = self._odometer.place(releases, number=number)
        return Provenance(purpose=purpose, odometer=place)

    @property
    def is_charged(self) -> bool:
        """Whether the odometer has paid, or may have."""
        return self.uncertain or self.entry is not None

    @property
    def aftermath(self) -> str:
        """What must be said where nothing came of the run."""
        if self.uncertain:
            return "The odometer may have been charged: look at its entries."
        if self.entry is None:
            return "Nothing was spent."
        return (
            f"The odometer has been charged (entry {self.entry.number}), and the entry stays: part "
            "of the fit may have been released."
        )


def forget(folder: Path) -> None:
    """Remove the note of a run that was not paid for, or has come to its end."""
    (folder / NOTE).unlink(missing_ok=True)


def is_broken(folder: Path, odometer: Odometer) -> bool:
    """Return whether a fit of this folder was paid for and has left no model.

    Raises:
        DataError: the note about it cannot be read, or it was paid from another odometer.
    """
    place = folder / NOTE
    if not place.exists():
        return False
    note = read_json(place, what="the note of a fit", limits=PLAN, error=DataError)
    if not isinstance(note, dict) or note.get("schema") != _NOTE_SCHEMA:
        raise DataError(f"{place} is no note of a fit. Choose another folder.")
    if note.get("odometer") != odometer.identity:
        raise DataError(
            f"a fit was begun in {folder} that another odometer pays for. Name that one, or choose "
            "another folder."
        )
    if odometer.paid(str(note.get("run"))):
        return True
    forget(folder)
    return False


@dataclass
class Fit:
    """A fit that is running, has ended, or has failed; other threads read it.

    Args:
        planned: what is carried out.
        table: the path of the rows.
        schema: of the table.
        rows: how many the plan is for.
        folder: where the files go.
        payer: pays before the first noise.
    """

    planned: ModelPlan
    table: Path
    schema: Schema
    rows: int
    folder: Path
    payer: SinglePayer
    state: str = "running"  # then "done" or "failed"
    done: int = 0  # rounds
    total: int = 0
    problem: str = ""  # why it failed
    unwritten: str = ""  # why its files are not there
    saved: SavedModel | None = None
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)  # its files, by name
    thread: threading.Thread | None = field(default=None, repr=False)

    def launch(self) -> None:
        """Begin, in a thread that does not keep the process alive."""
        self.thread = threading.Thread(target=self._run, name="dpsco fit", daemon=True)
        self.thread.start()

    def join(self) -> None:
        """Wait for the end; Ctrl-C ends the wait."""
        while self.thread is not None and self.thread.is_alive():
            self.thread.join(0.2)

    @property
    def share(self) -> float:
        """How much of the rounds is done, from 0 to 1."""
        return self.done / self.total if self.total else 0.0

    @property
    def is_over(self) -> bool:
        """Whether it failed before anything was paid, so that it counts for nothing."""
        return self.state == "failed" and not self.payer.is_charged

    def write(self) -> None:
        """Write the files into the folder, all or none; what prevents it is kept for the page."""
        files = {self.folder / name: text.encode() for name, text in self.texts.items()}
        try:
            write_files(files)
            self.unwritten = ""
            forget(self.folder)
        except (DpscoError, OSError) as problem:
            self.unwritten = in_words(problem)

    def _run(self) -> None:
        """Carry the plan out; whatever happens is told without a word of a row."""
        try:
            self.saved = self._carry_out()
            self.texts = texts(self.saved)
            self.write()
            self.payer.name_model(self.saved.to_json()["digest"])
            self.state = "done"
        except Exception as problem:
            try:
                self.problem = f"{in_words(problem)} {self.payer.aftermath}"
            finally:
                self.state = "failed"

    def _carry_out(self) -> SavedModel:
        encoder = TableEncoder(self.schema)
        file = open_file(self.table, self.schema, label=True)
        if file.rows != self.rows:
            raise DataError(
                f"{self.table} has {file.rows:,} rows in the place of {self.rows:,}: it has "
                "changed since the plan was made."
            )
        plan = self.planned.fit
        table = private_table(file, encoder, once=reads_once(get(plan.solver), plan))
        outcome = self.planned.run(table, odometer=self.payer, progress=self._progress)
        placed = self.payer.placed(outcome.result.certificate.releases)
        return saved_model(self.planned, outcome, encoder, provenance=placed)

    def _progress(self, done: int, total: int) -> None:
        self.done, self.total = done, total


def begin(
    planned: ModelPlan,
    table: Path,
    schema: Schema,
    *,
    rows: int,
    folder: Path,
    odometer: Odometer,
    purpose: str | None = None,
    person: str | None = None,
) -> Fit:
    """Return a fit with a name of its own, not yet started; its entry keeps purpose and person."""
    paying = Odometer(
        odometer.path,
        expect_at_least=odometer.counter,
        purpose=purpose or None,
        person=person or None,
    )
    payer = SinglePayer(paying, fresh_name(), folder)
    return Fit(planned, table, schema, rows, folder, payer)


def texts(saved: SavedModel) -> dict[str, str]:
    """Return the files of a fit: model, certificate, and the report if it can be made."""
    records = {
        MODEL: json.dumps(saved.to_json(), indent=1, allow_nan=False) + "\n",
        CERTIFICATE: json.dumps(saved.certificate.to_json(), indent=2, allow_nan=False) + "\n",
    }
    try:
        return {**records, REPORT: report_of(saved)}
    except Exception:  # the model is paid for, and the report can be made of it later
        return records


def report_of(saved: SavedModel, provenance: Provenance | None = None) -> str:
    """Return the report about a model, with what was said of it since the fit."""
    from ..fit.choose import recommend
    from ..report import render

    plan = saved.plan
    ranking = None if plan is None else recommend(plan.task)
    return render(
        saved.certificate, plan=plan, recommendation=ranking, model=saved, provenance=provenance
    )


def in_words(problem: BaseException) -> str:
    """Return what went wrong in a sentence; of an error that nobody foresaw the type alone.

    The text of such an error may quote rows.
    """
    if os.environ.get("DPSCO_DEBUG") and not isinstance(problem, (DpscoError, OSError)):
        raise problem
    if isinstance(problem, DpscoError):
        return str(problem)
    if isinstance(problem, OSError):
        where = f"read or write {problem.filename}" if problem.filename else "read or write a file"
        return f"cannot {where}: {problem.strerror or 'the system refuses'}."
    return (
        f"an error of dpsco's own ({type(problem).__name__}). Its text may quote rows and is not "
        "shown; run again with DPSCO_DEBUG=1 to see it."
    )
