"""Why entries of a table cannot be read as its schema says, and what to declare instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.schema.guess import WRITINGS, shows_fraction
from ..data.schema.schema import Category, ClassLabel, Column, Hashed, Label, Schema
from ..data.tables.arrow import family, places, pyarrow, reads_numbers, written_numbers
from ..data.tables.written import number_in, numbers_in
from .tables import TableFile, open_text
from .tally import FAULTS, Tally, declared

UNREAD = tuple(what for what in FAULTS if "range" not in what)
"""What makes an entry count as missing; numbers outside their range are clipped."""

_MOST_KEPT = 1000  # different entries of a column that are looked at
_MOST_SHOWN = 3


@dataclass(frozen=True)
class Finding:
    """A column with entries that cannot be read."""

    name: str
    unread: int
    there: int  # entries that are not missing
    advice: str

    @property
    def mismatch(self) -> bool:
        """Whether so few can be read that the schema is probably another table's."""
        return 2 * self.unread > self.there

    def __str__(self) -> str:
        word = "MISMATCH" if self.mismatch else "note"
        all_of = "none" if self.unread == self.there else f"only {self.there - self.unread:,}"
        count = f"{all_of} of {self.there:,} entries can be read as declared"
        if not self.mismatch:
            count = f"{self.unread:,} of {self.there:,} entries cannot be read as declared"
        return f"{word}: column {self.name!r}: {count}. {self.advice}".rstrip()


def findings(file: TableFile, counts: Tally, *, public: bool) -> list[Finding]:
    """Return the columns of a file with entries that cannot be read, and what would read them.

    Args:
        file: the table.
        counts: of `tally`.
        public: whether the rows are public, so that entries may be shown.
    """
    unread = {
        name: sum(column.get(what, 0) for what in _unread_kinds(declared(file.schema, name)))
        for name, column in counts.items()
    }
    names = [name for name, number in unread.items() if number]
    texts = _texts(file, names)
    return [
        Finding(
            name,
            unread[name],
            file.rows - counts[name].get("missing", 0),
            _advice(declared(file.schema, name), texts.get(name, []), file.schema, public),
        )
        for name in names
    ]


def _unread_kinds(column: Column | Label) -> tuple[str, ...]:
    """Return what of a column is not read; a category that has a place for others reads those."""
    other = isinstance(column, Category) and column.other
    return tuple(what for what in UNREAD if not (other and what == "not declared"))


def _texts(file: TableFile, names: list[str]) -> dict[str, list[str]]:
    """Return different entries of columns of text that the schema does not read."""
    kept: dict[str, dict[str, None]] = {name: {} for name in names}
    for batch in _batches(file) if names else ():
        for name, found in kept.items():
            array = batch.column(name)
            if family(array.type) == "text" and len(found) < _MOST_KEPT:
                column = declared(file.schema, name)
                distinct = array.unique()
                entries = distinct.filter(
                    pyarrow().array(_is_unread(column, distinct, file.schema))
                )
                found.update(dict.fromkeys(filter(None, map(_shown, entries)), None))
    return {name: list(found)[:_MOST_KEPT] for name, found in kept.items()}


def _batches(file: TableFile) -> Iterator[Any]:
    """Return the rows with text where the file has text."""
    text = open_text(file)
    if text is None:
        return file.batches("looking")
    return text.batches(0, file.rows, file.columns, 1 << 16)


def _is_unread(column: Column | Label, array: Any, schema: Schema) -> Any:
    """Return which entries are there and cannot be read."""
    there = ~np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    if isinstance(column, (Category, ClassLabel)):
        return there & (places(array, column, schema)[0] < 0)
    if isinstance(column, Hashed):
        return np.zeros(len(array), dtype=bool)
    return there & np.isnan(written_numbers(array, schema))


def _shown(entry: Any) -> str | None:
    """Return an entry as text, None if it is none."""
    try:
        return str(entry.as_py())
    except UnicodeDecodeError:
        return None


def _advice(column: Column | Label, texts: list[str], schema: Schema, public: bool) -> str:
    """Return in a line what to declare so that entries are read."""
    shown = ", ".join(repr(text) for text in texts[:_MOST_SHOWN])
    such = f"Not read: {shown}{', ...' if len(texts) > _MOST_SHOWN else ''}. "
    found = _numbers_advice(texts, schema) if reads_numbers(column) else ""
    if isinstance(column, (Category, ClassLabel)):
        found = _list_advice(column, texts, public)
    return (such if public and texts else "") + found


def _numbers_advice(texts: list[str], schema: Schema) -> str:
    """Return how the numbers seem to be written, if most are read in that way."""
    array = pyarrow().array(texts, type=pyarrow().large_string())
    given = (schema.decimal or ".", schema.thousands)
    read = {
        writing: len(texts) - numbers_in(array, *writing).null_count
        for writing in ((".", None), *WRITINGS)
        if writing != given
    }
    best = max(read, key=lambda writing: read[writing])
    if not texts or 2 * read[best] < len(texts):
        return "Are these numbers? Declare another kind, or what is missing."
    if best == (",", None) and read[".", ","] == read[best] and not shows_fraction(array):
        return (
            'If commas group digits by three, give the schema "decimal": "." and "thousands": ","; '
            'if they begin fractions, "decimal": ",".'
        )
    groups = "" if best[1] is None else f' and "thousands": {json.dumps(best[1])}'
    return f'Give the schema "decimal": {json.dumps(best[0])}{groups}.'


def _list_advice(column: Category | ClassLabel, texts: list[str], public: bool) -> str:
    """Return which labels would read the entries, as far as that can be guessed."""
    alike = {str(value).strip().casefold(): value for value in column.values}
    found = {text: alike[key] for text in texts if (key := text.strip().casefold()) in alike}
    if found and public:
        pairs = dict(list(found.items())[: 2 * _MOST_SHOWN])
        return f'Give the column "labels": {json.dumps(pairs, ensure_ascii=False)}.'
    numbers = sorted({number for text in texts if (number := number_in(text)) is not None})
    if numbers and 2 * len(numbers) >= len(texts) and isinstance(column.values[0], str):
        keys = sorted(set(texts)) if public else ["0", "1"]
        pairs = dict.fromkeys(keys[: len(column.values)], "...")
        return (
            f'Numbers stand for the values: say which, "labels": {json.dumps(pairs)} with the '
            "declared values in the place of the dots."
        )
    return (
        'Declare these values too, or say with "labels" which of the declared ones they stand for.'
    )
