"""The state of the local page: a table, its schema, a chosen epsilon, one fit.

It lives in this process, so every tab sees the same; what must outlive the process is in the
folder. One folder holds one fit. Nothing here knows of browsers.
"""

from __future__ import annotations

import hmac
import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..data.schema.schema import Schema
from ..data.tables.origin import files_of
from ..data.tables.table_file import open_file
from ..errors import DataError, ParameterError
from ..files.disk import flag, lock
from ..files.writing import write_files
from ..fit.tradeoff import Tradeoff, TradeoffPoint
from ..models import Provenance, SavedModel
from ..privacy.odometer.odometer import Odometer
from ..privacy.randomness import fresh_name
from . import columns, fitting
from .columns import ColumnForm
from .preview import Facts, Preview, curve, preview, rehearse

_LOCK = ".dpsco-ui.lock"
_MOST_PREVIEWS = 256


class Study:
    """What has been chosen so far, and the fit once there is one.

    Args:
        folder: where the schema, the plan and the files of the fit go; made if it is not there.
        odometer: that pays.

    Raises:
        DataError: the folder cannot be used, another page uses it, or its files are damaged.
    """

    def __init__(self, folder: Path, odometer: Odometer) -> None:
        self.folder, self.odometer = folder, odometer
        self._lock, self._stage = threading.RLock(), threading.Lock()
        self._claim = _claimed(folder)
        self.table: Path | None = None
        self.rows: int | None = None
        self.forms: Sequence[ColumnForm] = ()
        self.version = ""  # of the table: forms of an older one are refused
        self.schema: Schema | None = None
        self.choice: Preview | None = None
        self.fit: fitting.Fit | None = None
        self.saved: SavedModel | None = None  # of a fit that this folder holds from before
        self.broken = False
        self._writing: dict[str, str] = {}
        self._previews: dict[tuple[Facts, int], Preview] = {}
        self.signed: Provenance | None = None  # what was said of the model since the fit
        if (folder / fitting.MODEL).exists():
            self.saved = SavedModel.load(folder / fitting.MODEL)
            if (folder / fitting.PROVENANCE).exists():
                self.signed = Provenance.load(folder / fitting.PROVENANCE)
        elif fitting.is_broken(folder, odometer):
            self.broken = True

    def close(self) -> None:
        """Let another page use the folder."""
        if self._claim >= 0:
            claim, self._claim = self._claim, -1
            os.close(claim)

    # -- where it stands ---------------------------------------------------------------------------

    @property
    def model(self) -> SavedModel | None:
        """The fitted model, if there is one."""
        if self.fit is None:
            return self.saved
        return self.fit.saved if self.fit.state == "done" else None

    @property
    def step(self) -> int:
        """The step that comes next: 1 table, 2 epsilon, 3 fit, 4 report."""
        if self.model is not None:
            return 4
        if self.is_settled or self.choice is not None:
            return 3
        return 1 if self.schema is None else 2

    @property
    def is_settled(self) -> bool:
        """Whether a fit has begun, so that table, schema and plan are what they are."""
        begun = self.fit is not None and not self.fit.is_over
        return self.broken or self.saved is not None or begun

    def check_open(self) -> None:
        """Refuse to change what a fit rests on.

        Raises:
            ParameterError: a fit has begun.
        """
        if self.is_settled:
            raise ParameterError(
                "a fit has begun in this folder: its table, schema and plan are settled. Begin "
                "another one in another folder: dpsco ui --folder."
            )

    # -- step 1 ------------------------------------------------------------------------------------

    def open_table(self, path: Path, origin: str = "names", other: Path | None = None) -> None:
        """Take a table, and begin its schema; of the table only names and types are read.

        Args:
            path: of the table.
            origin: what the schema begins with: "schema" (a file), "sample" (public rows) or
                "names" (the table's own columns).
            other: the path of the schema file or of the public rows.

        Raises:
            DpscoError: a file cannot be read, or does not fit.
        """
        with self._lock:
            self.check_open()
            if origin != "names" and other is None:
                what = "schema file" if origin == "schema" else "public rows"
                raise ParameterError(f"say where the {what} are: the path is empty.")
            if not path.exists():
                raise DataError(f"there is no table {path}.")
            writing = dict[str, str]()
            if origin == "schema" and other is not None:
                schema = Schema.load(other)
                open_file(path, schema, label=True)  # refuses what does not fit
                forms, writing = columns.forms_of(schema), _writing(schema)
            elif origin == "sample" and other is not None:
                if files_of(path) & files_of(other):
                    raise ParameterError(
                        "the public rows are the table itself: ranges that are read off private "
                        "rows tell about them. Name other rows, or type what is publicly known."
                    )
                forms = columns.drafted(other)
            else:
                forms = columns.named(path)
            columns.check_count(forms)
            self.table, self.forms, self._writing = path, forms, writing
            self.schema = self.rows = self.choice = None
            self.version = fresh_name()

    def set_columns(self, typed: Mapping[str, str], version: str) -> None:
        """Take the schema that is typed, and write its file; rows are counted, not read.

        Args:
            typed: the fields of all columns, as a browser sends them.
            version: `version` of the page on which they were typed.

        Raises:
            DpscoError: a field is wrong, the table does not fit, the file cannot be written, or
                another table has been opened since.
        """
        with self._lock:
            self.check_open()
            if self.table is None:
                raise ParameterError("there is no table yet: name one first.")
            if version != self.version:
                raise ParameterError(
                    "another table was opened in another tab. Look at the columns that are shown "
                    "now."
                )
            forms = [form.filled(place, typed) for place, form in enumerate(self.forms)]
            self.forms, self.schema, self.choice = forms, None, None
            schema = columns.schema_of(forms, self._writing)
            rows = open_file(self.table, schema, label=True).rows
            write_files({self.folder / fitting.SCHEMA: schema.to_json().encode()})
            self.schema, self.rows = schema, rows
            self._previews = {}  # a new one: a preview of the old schema may be on its way

    # -- step 2 ------------------------------------------------------------------------------------

    def preview(self, facts: Facts) -> Preview:
        """Return what a fit would do, cost and leave; nothing is recorded.

        Raises:
            DpscoError: there is no schema yet, or a fact is out of range.
        """
        with self._lock:
            known, (schema, rows) = self._previews, self._declared()
        key = facts, self.odometer.counter
        result = known.get(key)
        if result is None:
            result = preview(facts, schema, rows, self.odometer)
            if len(known) < _MOST_PREVIEWS:
                known[key] = result
        return result

    def curve(self, facts: Facts) -> Tradeoff:
        """Return what to expect for several epsilons; refusals as in `preview`."""
        return curve(facts, *self._declared(), self.odometer)

    def rehearse(self, facts: Facts) -> TradeoffPoint:
        """Return what fits on made-up rows measured; one rehearsal at a time.

        Raises:
            DpscoError: as `preview`; or another one is running.
        """
        if not self._stage.acquire(blocking=False):
            raise ParameterError("a rehearsal is running: wait for its end.")
        try:
            return rehearse(facts, *self._declared(), self.odometer)
        finally:
            self._stage.release()

    def _declared(self) -> tuple[Schema, int]:
        """Return the schema and the number of rows."""
        if self.schema is None or self.rows is None:
            raise ParameterError("there is no schema yet: finish step 1 first.")
        return self.schema, self.rows

    def choose(self, facts: Facts) -> Preview:
        """Take an epsilon, and write the plan's file.

        Raises:
            DpscoError: as `preview`; the file cannot be written; or a fit has begun.
        """
        with self._lock:
            self.check_open()
            choice = self.preview(facts)
            write_files({self.folder / fitting.PLAN_FILE: choice.text.encode()})
            self.choice = choice
            return choice

    # -- step 3 ------------------------------------------------------------------------------------

    def begin(self, digest: str, purpose: str = "", person: str = "") -> fitting.Fit:
        """Start the fit of the plan that a page has shown; if there is one, return that.

        Args:
            digest: of the plan.
            purpose, person: what for and who spends; the odometer's entry keeps both.

        Raises:
            DpscoError: another plan has been chosen meanwhile, or the odometer would not pay.
        """
        with self._lock:
            if self.fit is not None and self.fit.state != "failed":
                return self.fit
            if self.broken or (self.fit is not None and not self.fit.is_over):
                raise DataError(fitting.ALREADY)
            self.check_open()
            table, schema, rows, choice = self.table, self.schema, self.rows, self.choice
            if choice is None or table is None or schema is None or rows is None:
                raise ParameterError("there is no plan yet: choose epsilon first.")
            if not hmac.compare_digest(choice.digest.encode(), digest.encode()):
                raise ParameterError(
                    "the plan was changed in another tab, and nothing was spent. Look at the one "
                    "that is shown now."
                )
            self.preview(choice.facts).check()  # by what the odometer says now
            files = {fitting.SCHEMA: schema.to_json(), fitting.PLAN_FILE: choice.text}
            write_files({self.folder / name: text.encode() for name, text in files.items()})
            self.fit = fitting.begin(
                choice.planned,
                table,
                schema,
                rows=rows,
                folder=self.folder,
                odometer=self.odometer,
                purpose=purpose,
                person=person,
            )
            self.fit.launch()
            return self.fit

    # -- step 4 ------------------------------------------------------------------------------------

    def files(self) -> Mapping[str, str]:
        """Return the files that can be taken away, by name: from memory, or from the folder."""
        names = [fitting.SCHEMA, fitting.PLAN_FILE, fitting.PROVENANCE]
        model = self.model
        if self.fit is None and model is not None:
            names += [fitting.MODEL, fitting.CERTIFICATE, fitting.REPORT]
        texts = {}
        for name in names:
            try:
                texts[name] = (self.folder / name).read_text(encoding="utf-8")
            except (OSError, UnicodeError):
                continue
        if self.fit is not None and model is not None:
            texts |= self.fit.texts
        return texts

    @property
    def provenance(self) -> Provenance:
        """What is known of the fit: what the model says, and what was said since."""
        model = self.model
        said = None if model is None else model.provenance
        return (said or Provenance()).updated(self.signed)

    def sign(self, said: Provenance) -> None:
        """Put what people say of the model, and who approves it, into the report.

        The model's file stays as it is: its digest is in the odometer.

        Raises:
            DpscoError: there is no model, or the files cannot be written.
        """
        with self._lock:
            model = self.model
            if model is None:
                raise ParameterError("there is no model yet: fit first.")
            texts = {
                fitting.PROVENANCE: json.dumps(said.to_json(), indent=2) + "\n",
                fitting.REPORT: fitting.report_of(model, said),
            }
            write_files({self.folder / name: text.encode() for name, text in texts.items()})
            self.signed = said
            if self.fit is not None:
                self.fit.texts = {**self.fit.texts, **texts}

    def write(self) -> None:
        """Write the files of the fit again, after a disk was full."""
        with self._lock:
            if self.fit is not None and self.model is not None:
                self.fit.write()


def _writing(schema: Schema) -> dict[str, str]:
    """Return how a schema says that numbers are written."""
    fields = {"decimal": schema.decimal, "thousands": schema.thousands}
    return {name: value for name, value in fields.items() if value is not None}


def _claimed(folder: Path) -> int:
    """Make the folder, and lock it as long as this process lives."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_own(folder)
        handle = os.open(
            folder / _LOCK, os.O_CREAT | os.O_RDWR | flag("O_CLOEXEC") | flag("O_NOFOLLOW"), 0o600
        )
    except OSError as problem:
        raise DataError(f"cannot use the folder {folder}: {problem.strerror}.") from None
    if lock(handle, wait=False, unknown=True):
        return handle
    os.close(handle)
    raise DataError(
        f"another dpsco ui uses the folder {folder.absolute()}. Use its page, or choose another "
        "folder."
    )


def _check_own(folder: Path) -> None:
    """Refuse a folder with files of somebody's own that this page would replace.

    Raises:
        DataError: there is one, and no page has used the folder before.
    """
    others = [name for name in fitting.FILES if os.path.lexists(folder / name)]
    if others and not (folder / _LOCK).exists():
        raise DataError(
            f"the folder {folder.absolute()} has a file that this page would replace: "
            f"{', '.join(others)}. Choose a new or empty folder with --folder; a schema file can "
            "be opened on the page."
        )
