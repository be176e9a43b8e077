"""What is typed about columns, as a form holds it: from a schema or a table's names, and back.

A form keeps every field as the text that was typed, so that a page can show it again beside what is
wrong with it. Fields that no form shows (other ways to write a value) stay as the schema has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .._validate import refusal, shown
from ..data.schema.draft import draft, read_for_draft
from ..data.schema.schema import VERSION, Schema
from ..data.tables.arrow import family
from ..data.tables.csvfile import csv_header
from ..data.tables.csvform import is_csv
from ..data.tables.parquet import read_footers
from ..data.tables.table_file import check_kind
from ..data.tables.written import number_in
from ..errors import DataError, ParameterError

LABEL = "label "
"""What the kind of a label begins with, which tells it from that of a column."""

KINDS = {
    "number": "a number in a range",
    "date": "a date in a range",
    "category": "one of a list of values",
    "hashed": "a name or code of an open vocabulary, hashed",
    "text": "free text, as counts of hashed words",
    "flag": "yes or no",
    "ignore": "leave it out",
    LABEL + "number": "to be predicted: a number in a range",
    LABEL + "classes": "to be predicted: one of a list of values",
    LABEL + "sign": "to be predicted: -1 or 1",
}
"""What a column can be, with the words of the page."""

FIELDS = {
    "number": ("range", "missing"),
    "date": ("dates", "missing", "unit"),
    "category": ("values", "other"),
    "hashed": ("buckets", "signed"),
    "text": ("buckets",),
    LABEL + "number": ("range",),
    LABEL + "classes": ("values",),
}
"""The fields that a page shows of a kind."""

_UNSHOWN = {
    "date": ("order",),
    "text": ("ngrams", "of", "most"),
}  # kept as a loaded schema has them
_OF_FAMILY = {
    "text": "category",
    "date": "date",
    "boolean": "flag",
    "integer": "number",
    "real": "number",
}
_MOST_SHOWN = 2000  # columns of a page


@dataclass(frozen=True)
class ColumnForm:
    """What is typed about one column."""

    name: str
    kind: str = ""  # a key of KINDS, or nothing yet
    low: str = ""
    high: str = ""
    missing: str = ""  # nothing, "indicator", or a number or date
    unit: str = ""  # of dates
    values: str = ""  # one per line
    other: bool = False
    buckets: str = ""
    signed: bool = False
    source: str = ""  # where what is declared is public
    record: Mapping[str, Any] = field(default_factory=dict)  # as it stands in a loaded schema

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields that its kind has."""
        return FIELDS.get(self.kind, ())

    def filled(self, place: int, typed: Mapping[str, str]) -> ColumnForm:
        """Return the form with what a browser sent; of fields that it did not show nothing."""

        def text(name: str) -> str:
            return typed.get(f"{name}-{place}", "").strip()

        return replace(
            self,
            kind=text("kind") if text("kind") in KINDS else "",
            low=text("low"),
            high=text("high"),
            missing=text("missing"),
            unit=text("unit"),
            values=typed.get(f"values-{place}", "").replace("\r\n", "\n").strip("\n"),
            other=text("other") == "on",
            buckets=text("buckets"),
            signed=text("signed") == "on",
            source=text("source") if f"source-{place}" in typed else self.source,
        )


# -- where forms come from -------------------------------------------------------------------------


def forms_of(schema: Schema) -> list[ColumnForm]:
    """Return the forms that a schema fills in."""
    record = json.loads(schema.to_json())
    forms = [_form(entry, "") for entry in record["columns"]]
    return forms if record["label"] is None else [*forms, _form(record["label"], LABEL)]


def drafted(path: Path) -> list[ColumnForm]:
    """Return forms with ranges and lists read off rows that their owner has declared public."""
    check_kind(path)
    return forms_of(draft(read_for_draft(path), label=None, public=True).schema)


def named(path: Path) -> list[ColumnForm]:
    """Return forms of a table's columns by name alone; of Parquet also by type. No row is read.

    Raises:
        DataError: the table cannot be opened, or its first line may be a row.
    """
    check_kind(path)
    if is_csv(path):
        names = csv_header(path)
        if any(not name.strip() or number_in(name) is not None for name in names):
            raise DataError(
                f"the first line of {path} may be a row (it has entries that are numbers or "
                "empty), so it is not shown. Give the file a line of column names, or begin with a "
                "schema file."
            )
        return [ColumnForm(name) for name in names]
    columns = read_footers(path)[0].columns
    return [ColumnForm(name, _OF_FAMILY.get(family(kind), "ignore")) for name, kind in columns]


def check_count(forms: Sequence[ColumnForm]) -> Sequence[ColumnForm]:
    """Refuse more columns than a page can show.

    Raises:
        DataError: there are more.
    """
    if len(forms) > _MOST_SHOWN:
        raise DataError(
            f"the page shows at most {_MOST_SHOWN:,} columns, and here are {len(forms):,}. Use the "
            "command line: dpsco fit --schema."
        )
    return forms


def _form(entry: Mapping[str, Any], prefix: str) -> ColumnForm:
    """Return the form of a column or label as it stands in a schema file."""
    low, high = entry.get("range", ("", ""))
    return ColumnForm(
        entry["name"],
        prefix + entry["kind"],
        low=_text(low),
        high=_text(high),
        missing=_text(entry.get("missing", "")),
        unit=entry.get("unit", ""),
        values="\n".join(map(_text, entry.get("values", ()))),
        other=entry.get("other", False),
        buckets=_text(entry.get("buckets", "")),
        signed=entry.get("signed", False),
        source=entry.get("source", ""),
        record=entry,
    )


def _text(value: Any) -> str:
    """Return a field of a schema file as a form shows it."""
    return value if isinstance(value, str) else json.dumps(value)


# -- and back --------------------------------------------------------------------------------------


def schema_of(forms: Iterable[ColumnForm], writing: Mapping[str, Any]) -> Schema:
    """Return the schema that forms declare.

    Args:
        forms: of all columns.
        writing: how numbers are written as text, if a loaded schema says so.

    Raises:
        ParameterError: a field is empty or out of range, or there is not one label; the message
            names the column.
    """
    columns, labels = list[dict[str, Any]](), list[dict[str, Any]]()
    for form in forms:
        (labels if form.kind.startswith(LABEL) else columns).append(_record(form))
    if len(labels) != 1:
        count = "none is" if not labels else f"{len(labels)} are"
        raise ParameterError(
            f"one column is to be predicted, and {count}: give the kind 'to be predicted' to "
            "exactly one."
        )
    content = {"version": VERSION, **writing, "columns": columns, "label": labels[0]}
    return Schema.from_json(json.dumps(content))


def _record(form: ColumnForm) -> dict[str, Any]:
    """Return a column as it stands in a schema file."""
    if not form.kind:
        raise _wrong(form, "kind", "is not chosen: say what the column holds, or leave it out.")
    record: dict[str, Any] = {"name": form.name, "kind": form.kind.removeprefix(LABEL)}
    if "range" in form.fields:
        record["range"] = [_number(form, "low"), _number(form, "high")]
    if "dates" in form.fields:
        record["range"] = [form.low, form.high]
        record |= {"unit": form.unit} if form.unit else {}
    if "missing" in form.fields and form.missing:
        as_typed = form.missing == "indicator" or form.kind == "date"
        record["missing"] = form.missing if as_typed else _number(form, "missing")
    if "values" in form.fields:
        record["values"] = _values(form)
        if form.record.get("values") == record["values"] and "labels" in form.record:
            record["labels"] = form.record["labels"]
    if "buckets" in form.fields:
        record["buckets"] = _buckets(form)
    ticked = {"other": form.other, "signed": form.signed}
    record |= {name: True for name in form.fields if ticked.get(name)}
    if form.source:
        record["source"] = form.source
    if form.record.get("kind") == form.kind:
        unshown = _UNSHOWN.get(form.kind, ())
        record |= {name: form.record[name] for name in unshown if name in form.record}
    return record


def _number(form: ColumnForm, name: str) -> float:
    """Return a number that was typed."""
    text = getattr(form, name)
    words = {"low": "lowest value", "high": "highest value", "missing": "value of missing entries"}
    if not text:
        raise _wrong(form, words[name], "is empty: give a number that is publicly known.")
    number = number_in(text)
    if number is None:
        raise _wrong(form, words[name], f"must be a number, got {shown(text)}.")
    return number


def _buckets(form: ColumnForm) -> int:
    if not (form.buckets.isascii() and form.buckets.isdigit()):
        raise _wrong(form, "number of buckets", "must be a whole number, such as 256.")
    return int(form.buckets[:12])


def _values(form: ColumnForm) -> list[Any]:
    """Return the listed values: as a loaded schema has them, else numbers if all are written so."""
    lines = [line.strip() for line in form.values.split("\n") if line.strip()]
    before = form.record.get("values", [])
    known = {_text(value): value for value in before}
    if lines and all(line in known for line in lines):
        return [known[line] for line in lines]
    numbers = [_plain_number(line) for line in lines]
    textual = any(isinstance(value, str) for value in before)
    return lines if textual or None in numbers else numbers


def _plain_number(line: str) -> int | float | None:
    """Return a number written as JSON has it (007 is text); None for everything else."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _wrong(form: ColumnForm, what: str, text: str) -> ParameterError:
    return refusal(f"column {shown(form.name)}, {what}", text)
