"""What of a table lies outside its schema: counts, the rules for it, and what to declare instead.

Counts of rows differ by one between neighbours: whoever may see the rows may see them, nobody else.
Fitting never looks at them; its summary states the rules alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.schema.guess import WRITINGS, shows_fraction
from ..data.schema.schema import (
    Category,
    ClassLabel,
    Column,
    Date,
    Flag,
    Hashed,
    Label,
    Number,
    NumberLabel,
    Schema,
    SignLabel,
    Text,
)
from ..data.tables.arrow import family, places, pyarrow, reads_numbers, written_numbers
from ..data.tables.dates import dates_in
from ..data.tables.table_file import TableFile
from ..data.tables.written import number_in, numbers_in
from .progress import Bar

Tally = dict[str, dict[str, int]]  # column -> what is unusual -> how many entries

_MOST_NAMED = 20  # columns in a line

FAULTS = (
    *("below the range", "above the range", "not declared"),
    *("not a number", "not a date", "neither -1 nor 1"),
)
"""What does not fit the schema; missing entries do, by its rule for them."""

UNREAD = tuple(what for what in FAULTS if "range" not in what)
"""What makes an entry count as missing; numbers outside their range are clipped."""

_MOST_TEXTS = 1000  # different entries of a column that are looked at
_MOST_SHOWN = 3


def tally(file: TableFile) -> Tally:
    """Count, for each column of a file, the entries that are missing or outside its declaration."""
    columns: dict[str, Counter[str]] = {name: Counter() for name in file.columns}
    with Bar("counting") as bar:
        for batch in file.batches(bar):
            count(file.schema, batch, columns)
    text = file.text()
    if text is not None:  # what is missing as a number, and there as text, is no number
        empty: Counter[str] = Counter()
        for batch in text.batches(0, file.rows, file.columns, 1 << 16):
            empty.update({name: batch.column(name).null_count for name in file.columns})
        for name, counts in columns.items():
            if reads_numbers(declared(file.schema, name)):
                counts["not a number"] = counts["missing"] - empty[name]
                counts["missing"] = empty[name]
    return {name: {k: v for k, v in counts.items() if v} for name, counts in columns.items()}


def count(schema: Schema, batch: Any, columns: dict[str, Counter[str]]) -> None:
    """Add the counts of one record batch."""
    for name, counts in columns.items():
        counts.update(_COUNTERS[type(declared(schema, name))](schema, name, batch.column(name)))


def sentences(counts: Tally) -> list[str]:
    """Return the counts of a tally as lines."""
    return [
        f"column {name!r}: {number:,} {'entry is' if number == 1 else 'entries are'} {what}"
        for name, column in counts.items()
        for what, number in column.items()
    ]


def summary(counts: Tally) -> list[str]:
    """Return at most one line: which columns have entries that are missing or outside."""
    names = [repr(name) for name, column in counts.items() if column]
    if not names:
        return []
    total = sum(sum(column.values()) for column in counts.values())
    what = "entry is" if total == 1 else "entries are"
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    where = f"column{'' if len(names) == 1 else 's'} {', '.join(names[:_MOST_NAMED])}{more}"
    return [
        f"{total:,} {what} missing, out of range or not declared, in {where}; they are read by the "
        "schema's rules (--verbose has counts)"
    ]


def outside(counts: Tally) -> Tally:
    """Return what does not fit the schema, without missing entries."""
    return {
        name: faults
        for name, column in counts.items()
        if (faults := {what: number for what, number in column.items() if what in FAULTS})
    }


def declared(schema: Schema, name: str) -> Column | Label:
    """Return what is declared of a column."""
    if schema.label is not None and schema.label.name == name:
        return schema.label
    return next(column for column in schema.encoded if column.name == name)


def _in_range(schema: Schema, name: str, array: Any) -> dict[str, int]:
    column = declared(schema, name)
    assert isinstance(column, (Number, NumberLabel))
    values = written_numbers(array, schema)
    with np.errstate(invalid="ignore"):
        below, above = values < column.low, values > column.high
    unread = _unread(values, array)
    return {
        "missing": unread["missing"],
        "below the range": int(below.sum()),
        "above the range": int(above.sum()),
        "not a number": unread["not a number"],
    }


def _in_list(schema: Schema, name: str, array: Any) -> dict[str, int]:
    column = declared(schema, name)
    assert isinstance(column, (Category, ClassLabel))
    codes, absent = places(array, column, schema)
    return {"missing": int(absent.sum()), "not declared": int(((codes < 0) & ~absent).sum())}


def _sign(schema: Schema, name: str, array: Any) -> dict[str, int]:
    values = written_numbers(array, schema)
    other = (np.abs(values) != 1.0) & ~np.isnan(values)
    return {**_unread(values, array), "neither -1 nor 1": int(other.sum())}


def _yes_or_no(schema: Schema, name: str, array: Any) -> dict[str, int]:
    return _unread(written_numbers(array, schema), array)


def _unread(values: Any, array: Any) -> dict[str, int]:
    """Return how many entries are missing, and how many are text that is no number."""
    absent = int(np.isnan(values).sum())
    empty = array.null_count if family(array.type) == "text" else absent
    return {"missing": empty, "not a number": absent - empty}


def _there(schema: Schema, name: str, array: Any) -> dict[str, int]:
    return {"missing": int(array.null_count)}


def _dates(schema: Schema, name: str, array: Any) -> dict[str, int]:
    column = declared(schema, name)
    assert isinstance(column, Date)
    values, limits = dates_in(array, column.unit, column.order), column.as_number
    missing = int(array.null_count)
    with np.errstate(invalid="ignore"):
        below, above = values < limits.low, values > limits.high
    return {
        "missing": missing,
        "below the range": int(below.sum()),
        "above the range": int(above.sum()),
        "not a date": int(np.isnan(values).sum()) - missing,
    }


_COUNTERS = {
    Number: _in_range,
    NumberLabel: _in_range,
    Category: _in_list,
    ClassLabel: _in_list,
    SignLabel: _sign,
    Flag: _yes_or_no,
    Hashed: _there,
    Text: _there,
    Date: _dates,
}


# -- what happens to such entries, and what would read them ---------------------------------------


def rules(schema: Schema | None) -> list[str]:
    """Return what happens to entries outside a schema, without looking whether there are any."""
    if schema is None:
        return []
    sentences = []
    if any(isinstance(column, (Number, Date)) for column in schema.encoded):
        sentences.append(
            "numbers outside their range are clipped to it; what is missing or no number counts as "
            "the schema's entry for missing ones"
        )
    lists = [column for column in schema.encoded if isinstance(column, Category)]
    if any(column.other for column in lists):
        sentences.append(
            "categories that are not declared count as other, where the schema has that"
        )
    if not all(column.other for column in lists):
        sentences.append("categories that are not declared, and have no other, count as missing")
    if isinstance(schema.label, NumberLabel):
        low, high = schema.label.low, schema.label.high
        sentences.append(
            f"labels outside [{low:g}, {high:g}] are clipped; rows without one left out"
        )
    elif schema.label is not None:
        sentences.append("rows whose label is missing or not declared are left out")
    return sentences


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
    texts: dict[str, dict[str, None]] = {name: {} for name in names}
    for batch in _text_batches(file) if names else ():
        for name, seen in texts.items():
            array = batch.column(name)
            if family(array.type) == "text" and len(seen) < _MOST_TEXTS:
                column = declared(file.schema, name)
                distinct = array.unique()
                entries = distinct.filter(
                    pyarrow().array(_is_unread(column, distinct, file.schema))
                )
                seen.update(dict.fromkeys(filter(None, map(_shown, entries)), None))
    return {name: list(seen)[:_MOST_TEXTS] for name, seen in texts.items()}


def _text_batches(file: TableFile) -> Iterator[Any]:
    """Return the rows with text where the file has text."""
    text = file.text()
    if text is None:
        return file.batches()
    return text.batches(0, file.rows, file.columns, 1 << 16)


def _is_unread(column: Column | Label, array: Any, schema: Schema) -> Any:
    """Return which entries are there and cannot be read."""
    there = ~np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    if isinstance(column, (Category, ClassLabel)):
        return there & (places(array, column, schema)[0] < 0)
    if isinstance(column, (Hashed, Text)):
        return np.zeros(len(array), dtype=bool)
    if isinstance(column, Date):
        return there & np.isnan(dates_in(array, column.unit, column.order))
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
    advice = _numbers_advice(texts, schema) if reads_numbers(column) else ""
    if isinstance(column, Date):
        advice = f'Dates are read in the "order": "{column.order}"; declare another one.'
    if isinstance(column, (Category, ClassLabel)):
        advice = _list_advice(column, texts, public)
    return (such if public and texts else "") + advice


def _numbers_advice(texts: list[str], schema: Schema) -> str:
    """Return how the numbers seem to be written, if most are read in that way."""
    array = pyarrow().array(texts, type=pyarrow().large_string())
    declared_writing = (schema.decimal or ".", schema.thousands)
    read = {
        writing: len(texts) - numbers_in(array, *writing).null_count
        for writing in ((".", None), *WRITINGS)
        if writing != declared_writing
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
    meant = {text: alike[key] for text in texts if (key := text.strip().casefold()) in alike}
    if meant and public:
        pairs = dict(list(meant.items())[: 2 * _MOST_SHOWN])
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
