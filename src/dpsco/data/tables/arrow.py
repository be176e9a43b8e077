"""Arrow columns as NumPy arrays, without an error that a row's value could cause.

Whether a column is accepted depends on its name and type alone. What an accepted column holds is
then always defined: values that cannot be used count as missing. Arrow's own errors quote the value
they stumbled on, so none of them is passed on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..._validate import closest, reason, shown
from ...errors import DataError, MissingExtraError
from ..schema.schema import (
    Category,
    ClassLabel,
    Column,
    Date,
    Hashed,
    Ignore,
    Label,
    Labels,
    Schema,
    Text,
    Value,
)
from .arrays import number_of
from .written import number_in, numbers_in

Codes = NDArray[np.int64]
_LARGEST_KEY = 2**64  # no column of integers holds a larger one
_MOST_NAMES = 8  # of columns that are not declared, in a message

_NUMBERS = ("boolean", "integer", "real", "nothing")
_TEXT = ("text", "nothing")
_DATES = ("date", "text", "nothing")
_HASHABLE = ("text", "integer", "real", "nothing")


def pyarrow() -> Any:
    """Return the PyArrow module."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(
            "Encoding tables and reading files needs PyArrow. Install it with: "
            "pip install 'dpsco[parquet]'. NumPy arrays work without: data.from_arrays(X, y)."
        ) from None
    return pyarrow


def family(kind: Any) -> str:
    """Return "boolean", "integer", "real", "text", "date", "nothing" or "other" for a type."""
    types = pyarrow().types
    if types.is_dictionary(kind):
        return family(kind.value_type)
    view = getattr(types, "is_string_view", lambda _: False)
    tests = {
        "boolean": types.is_boolean(kind),
        "integer": types.is_integer(kind),
        "real": types.is_floating(kind) or types.is_decimal(kind),
        "text": types.is_string(kind) or types.is_large_string(kind) or view(kind),
        "date": types.is_date(kind) or types.is_timestamp(kind),
        "nothing": types.is_null(kind),
    }
    return next((name for name, result in tests.items() if result), "other")


def type_name(kind: Any) -> str:
    """Return the name of a type of any library without its details, which may list values."""
    name = re.split(r"[^\w ]", str(kind))[0]
    entries = getattr(kind, "value_type", None) if name == "dictionary" else None
    return name if entries is None else f"dictionary of {family(entries)} entries"


def accepted(column: Column | Label, decimal: str | None = None) -> tuple[str, ...]:
    """Return the families of types that a declared column may have.

    Args:
        column: what is declared.
        decimal: of the schema; where it is given, text is read as numbers.
    """
    if isinstance(column, (Category, ClassLabel)):
        text = isinstance(column.values[0], str)
        if column.labels:  # which are texts; some of them may be numbers as well
            coded = not text or any(number_in(key) is not None for key, _ in _pairs(column))
            return (*_NUMBERS, "text") if coded else _TEXT
        if text:
            return _TEXT
    elif isinstance(column, Hashed):
        return _HASHABLE
    elif isinstance(column, Date):
        return _DATES
    elif isinstance(column, Text):
        return _TEXT
    return _NUMBERS if decimal is None else (*_NUMBERS, "text")


def reads_numbers(column: Column | Label) -> bool:
    """Return whether the entries of a declared column are read as numbers."""
    if isinstance(column, (Category, ClassLabel)):
        return not (column.labels or isinstance(column.values[0], str))
    return not isinstance(column, (Hashed, Ignore, Date, Text))


def _pairs(column: Category | ClassLabel) -> Labels:
    """Return what stands for which value, as the schema has checked it."""
    return cast(Labels, column.labels)


def mismatches(
    schema: Schema, result: Iterable[tuple[str, Any]], *, label: bool = True
) -> list[str]:
    """Return, a sentence each, how a table's columns differ from a schema; [] if they fit.

    Args:
        schema: what was declared.
        found: name and Arrow type of each column of the table.
        label: whether the label must be there too; if not, it may be.
    """
    pairs = list(result)
    kinds = dict(pairs)
    problems = (
        [
            f"column {shown(name)} is in the table more than once"
            for name in kinds
            if sum(other == name for other, _ in pairs) > 1
        ]
        if len(kinds) < len(pairs)
        else []
    )
    wanted: list[Column | Label] = list(schema.encoded)
    if schema.label is not None and (label or schema.label.name in kinds):
        wanted.append(schema.label)
    others = [name for name in kinds if name not in schema.names]
    for column in wanted:
        if column.name not in kinds:
            meant = closest(column.name, others).rstrip("?").replace(" Did you mean", ", perhaps")
            problems.append(
                f"column {shown(column.name)} is missing; expected {_words(column)}{meant}"
            )
        elif family(kinds[column.name]) not in accepted(column, schema.decimal):
            found_type = type_name(kinds[column.name])
            hint = _hint(column, family(kinds[column.name]))
            problems.append(wrong_type(column.name, _words(column), found_type) + hint)
    known = set(schema.names)
    extra = [name for name in kinds if name not in known]
    if extra:
        listed = ", ".join(map(shown, extra[:_MOST_NAMES]))
        more = f" and {len(extra) - _MOST_NAMES} more" if len(extra) > _MOST_NAMES else ""
        problems.append(f"not declared: {listed}{more}; declare each, if only as kind 'ignore'")
    return problems


def wrong_type(name: str, expected: str, result: str) -> str:
    """Return the sentence about a column of the wrong type."""
    return f"column {shown(name)} must hold {expected}, its type is {result}"


def require(schema: Schema, result: Iterable[tuple[str, Any]], where: str, *, label: bool) -> None:
    """Raise unless a table's columns fit a schema."""
    problems = mismatches(schema, result, label=label)
    if problems:
        why = reason("; ".join(problems), longest=1000)
        raise DataError(f"{where} does not match the schema: {why}.")


def _hint(column: Column | Label, result: str) -> str:
    """Return what else could be declared of a column whose type does not fit, in brackets."""
    if result == "text" and reads_numbers(column):
        return ' (if these are numbers written as text, give the schema "decimal": "." or ",")'
    if result in _NUMBERS and isinstance(column, (Category, ClassLabel)):
        first = json.dumps({"0": column.values[0]})[:-1]
        return f' (if numbers stand for the values, give it "labels": {first}, ...}})'
    return ""


def _words(column: Column | Label) -> str:
    """Return what a column must hold, in words."""
    if isinstance(column, Ignore):
        return "anything"
    names = accepted(column)
    if isinstance(column, (Category, ClassLabel)) and column.labels:
        return "text" if names == _TEXT else "text or numbers"
    words = {_TEXT: "text", _HASHABLE: "text or numbers", _DATES: "dates, or dates as text"}
    return words.get(names, "numbers")


def numbers(array: Any) -> NDArray[Any]:
    """Return an array of numbers as float32 or float64, NaN where missing."""
    pa = pyarrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not (pa.types.is_float32(array.type) or pa.types.is_float64(array.type)):
        if pa.types.is_float16(array.type):  # older Arrow cannot cast it
            return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float32)
        array = array.cast(pa.float64(), safe=False)  # rounds integers beyond 2**53
    return np.asarray(array.to_numpy(zero_copy_only=False))


def written_numbers(array: Any, schema: Schema, *, words: bool = True) -> NDArray[Any]:
    """Return a column that is declared to hold numbers, be it of text, as `numbers` does.

    ``words`` as in `numbers_in`.
    """
    if family(array.type) != "text":
        return numbers(array)
    if pyarrow().types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return numbers(numbers_in(_no_view(array), schema.decimal, schema.thousands, words=words))


def places(
    array: Any, column: Category | ClassLabel, schema: Schema
) -> tuple[Codes, NDArray[np.bool_]]:
    """Return each entry's place among the declared values, and which entries are missing.

    An entry of text stands for the value that it is, or that ``labels`` has for it; else, as
    numbers do, for what ``labels`` or the values have for that number.
    """
    text = family(array.type) == "text"
    if not column.labels:
        if text and not isinstance(column.values[0], str):
            array = pyarrow().array(written_numbers(array, schema), from_pandas=True)
        return codes(array, column.values)
    place = {value: k for k, value in enumerate(column.values)}
    known: dict[Value, int] = {value: k for value, k in place.items() if isinstance(value, str)}
    known |= {key: place[value] for key, value in _pairs(column)}
    coded = {value: k for value, k in place.items() if not isinstance(value, str)}
    for key, value in _pairs(column):
        if (number := number_in(key)) is not None:
            coded[number] = place[value]
    result, absent = (np.full(len(array), -1), None) if not text else _looked_up(array, known)
    as_numbers = pyarrow().array(written_numbers(array, schema, words=False), from_pandas=True)
    other, unread = _looked_up(as_numbers, coded)
    return np.where(result >= 0, result, other), unread if absent is None else absent


def _looked_up(array: Any, known: Mapping[Any, int]) -> tuple[Codes, NDArray[np.bool_]]:
    """Return what stands for each entry, -1 for entries that are not known."""
    if not known:
        _, absent = codes(array, ("",) if family(array.type) == "text" else (0,))
        return np.full(len(array), -1), absent
    result, absent = codes(array, tuple(known))
    return np.append(list(known.values()), -1)[result], absent


def codes(array: Any, values: Sequence[Value]) -> tuple[Codes, NDArray[np.bool_]]:
    """Return each entry's place among ``values``, -1 for others, and which entries are missing."""
    if family(array.type) == "nothing":
        return np.full(len(array), -1), np.ones(len(array), dtype=np.bool_)
    if family(array.type) == "text":
        return _text_codes(array, values)
    return _number_codes(array, values)


def _text_codes(array: Any, values: Sequence[Value]) -> tuple[Codes, NDArray[np.bool_]]:
    """Return the codes of text; the dictionary of a categorical column is looked up just once."""
    pa = pyarrow()
    if pa.types.is_dictionary(array.type):
        places, absent = _text_codes(array.dictionary, values)
        indices = _integers(array.indices, missing=len(places))
        return np.append(places, -1)[indices], np.append(absent, True)[indices]
    import pyarrow.compute as pc

    array = _no_view(array)
    declared = pa.array(values, type=array.type)
    places = _integers(pc.index_in(array, value_set=declared), missing=-1)
    return places, np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def _number_codes(array: Any, values: Sequence[Any]) -> tuple[Codes, NDArray[np.bool_]]:
    """Return the codes of numbers, compared exactly in the column's own type."""
    pa = pyarrow()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    absent = np.asarray(array.is_null().to_numpy(zero_copy_only=False))
    if family(array.type) == "integer":
        data = np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False))
        limits = np.iinfo(data.dtype)
        possible = [
            (int(v), k)
            for k, v in enumerate(values)
            if v == int(v) and limits.min <= v <= limits.max
        ]
    else:
        data = numbers(array)
        absent = ~np.isfinite(data)
        possible = [(v, k) for k, v in enumerate(values)]
    if not possible:
        return np.full(len(data), -1), absent
    with np.errstate(over="ignore"):
        declared = np.array([v for v, _ in possible], dtype=data.dtype)
    order = np.argsort(declared, kind="stable")
    declared, places = declared[order], np.array([k for _, k in possible])[order]
    at = np.minimum(np.searchsorted(declared, data), len(declared) - 1)
    known = (declared[at] == data) & ~absent
    return np.where(known, places[at], -1), absent


def distinct(array: Any) -> tuple[list[bytes], Codes]:
    """Return the different entries as bytes, and for each row its place among them, -1 if missing.

    Text gives its UTF-8 bytes, whether valid or not; numbers their decimal digits.
    """
    pa = pyarrow()
    if family(array.type) == "nothing":
        return [], np.full(len(array), -1)
    if pa.types.is_float16(array.type):  # which older Arrow cannot encode
        array = pa.array(numbers(array), from_pandas=True)
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices, entries = _integers(array.indices, missing=-1), _no_view(array.dictionary)
    used = np.unique(indices)
    used = used[used >= 0]
    entries = entries.take(pa.array(used))
    if family(entries.type) in ("integer", "real"):
        keys = map(key_of, entries.to_pylist())
        listed = [None if key is None else key.encode() for key in keys]
    else:
        small = pa.types.is_string(entries.type)  # to bytes: what is no UTF-8 must not raise
        listed = entries.cast(pa.binary() if small else pa.large_binary()).to_pylist()
    known = np.array([entry is not None for entry in listed], dtype=np.bool_)
    rank = np.full(len(array.dictionary) + 1, -1)  # the last serves the missing ones
    rank[used] = np.where(known, np.cumsum(known) - 1, -1)
    return [entry for entry in listed if entry is not None], rank[indices]


def key_of(number: Any) -> str | None:
    """Return the digits of a number that is hashed, the same for an integer held as a float.

    pandas holds integers as floats once a single one of them is missing.
    """
    if isinstance(number, (bool, np.bool_)):
        return None
    if isinstance(number, (int, np.integer)):
        return str(int(number)) if abs(int(number)) < _LARGEST_KEY else None
    value = number_of(number)
    if not math.isfinite(value):
        return None
    return str(int(value)) if value.is_integer() else repr(value)


def _no_view(array: Any) -> Any:
    """Return string views, which have no lookup, as text; any other array as it is."""
    view = getattr(pyarrow().types, "is_string_view", lambda _: False)
    return array.cast(pyarrow().large_string()) if view(array.type) else array


def _integers(array: Any, *, missing: int) -> Codes:
    """Return an integer array as int64 with ``missing`` for nulls."""
    pa = pyarrow()
    filled = array.cast(pa.int64()).fill_null(missing)
    return np.asarray(filled.to_numpy(zero_copy_only=False))
