"""How many entries of a table lie outside what its schema declares.

These are counts of rows, which differ by one between neighbours: whoever may see the rows may see
them, nobody else. Fitting never looks at them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ..data.schema.schema import (
    Category,
    ClassLabel,
    Column,
    Flag,
    Hashed,
    Label,
    Number,
    NumberLabel,
    Schema,
    SignLabel,
)
from ..data.tables.arrow import family, places, reads_numbers, written_numbers
from .tables import TableFile, open_text

Tally = dict[str, dict[str, int]]  # column -> what is unusual -> how many entries

_MOST_NAMED = 20  # columns in a line

FAULTS = ("below the range", "above the range", "not declared", "not a number", "neither -1 nor 1")
"""What does not fit the schema; missing entries do, by its rule for them."""


def tally(file: TableFile) -> Tally:
    """Count, for each column of a file, the entries that are missing or outside its declaration."""
    found: dict[str, Counter[str]] = {name: Counter() for name in file.columns}
    for batch in file.batches("counting"):
        count(file.schema, batch, found)
    text = open_text(file)
    if text is not None:  # what is missing as a number, and there as text, is no number
        empty: Counter[str] = Counter()
        for batch in text.batches(0, file.rows, file.columns, 1 << 16):
            empty.update({name: batch.column(name).null_count for name in file.columns})
        for name, counts in found.items():
            if reads_numbers(declared(file.schema, name)):
                counts["not a number"] = counts["missing"] - empty[name]
                counts["missing"] = empty[name]
    return {name: {k: v for k, v in counts.items() if v} for name, counts in found.items()}


def count(schema: Schema, batch: Any, found: dict[str, Counter[str]]) -> None:
    """Add the counts of one record batch."""
    for name, counts in found.items():
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
        name: kept
        for name, column in counts.items()
        if (kept := {what: number for what, number in column.items() if what in FAULTS})
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
    found, absent = places(array, column, schema)
    return {"missing": int(absent.sum()), "not declared": int(((found < 0) & ~absent).sum())}


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


_COUNTERS = {
    Number: _in_range,
    NumberLabel: _in_range,
    Category: _in_list,
    ClassLabel: _in_list,
    SignLabel: _sign,
    Flag: _yes_or_no,
    Hashed: _there,
}
