"""Schemas: what is publicly known of a table's columns, written down in a JSON file.

A schema names every column in order and says what the column may hold: a range of numbers or dates,
a list of categories, values or text of any kind that are hashed, a flag, or something to leave
alone. It holds public facts only. Nothing here reads a table; `dpsco.data.schema.draft` does, and
only public or synthetic rows.

    {"version": 1,
     "columns": [
       {"name": "age",   "kind": "number",   "range": [0, 100], "missing": "indicator"},
       {"name": "work",  "kind": "category", "values": ["private", "state"], "other": true},
       {"name": "since", "kind": "date",     "range": ["1990-01-01", "2030-12-31"], "unit": "day"},
       {"name": "town",  "kind": "hashed",   "buckets": 256},
       {"name": "note",  "kind": "text",     "buckets": 4096, "ngrams": [1, 2]},
       {"name": "owner", "kind": "flag"},
       {"name": "id",    "kind": "ignore"}],
     "label": {"name": "income", "kind": "classes", "values": ["<=50K", ">50K"],
               "labels": {"0": "<=50K", "1": ">50K"}}}

How entries are written is declared, too: ``labels`` of a label or category, ``"decimal": ","`` and
``"thousands": "."`` of the whole schema. ``"source"`` of a column or label says where its bounds
are public, for whoever signs: "the form has room for two digits". It changes nothing else.
"""

from __future__ import annotations

import codecs
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from ..._validate import choice, integer, real, refusal, shown
from ...errors import DataError, ParameterError
from ...files import limits as _limits
from ...files.reading import parse_json, read_json
from ...files.writing import write_text
from ..tables.dates import ORDERS, UNITS, count, date_in
from ..tables.written import number_in

Value = str | int | float | bool
Labels = tuple[tuple[str, Value], ...]

DECIMALS = (".", ",")
"""What may separate the whole part of a number from the rest."""

THOUSANDS = (",", ".", " ", "'", "_", "\u00a0", "\u202f")
"""What may stand between groups of three digits."""

SEPARATORS = (",", ";", "\t", "|", ":", "~", "^")
"""What may stand between the entries of a line."""

UTF8 = "utf-8"
ENCODINGS = (
    *(UTF8, "utf-16", "utf-16-le", "utf-16-be", "ascii"),
    *(f"iso8859-{k}" for k in range(1, 17) if k != 12),
    *(f"cp125{k}" for k in range(9)),
    *("cp437", "cp850", "cp852", "cp866", "mac-roman", "koi8-r", "koi8-u"),
    *("shift_jis", "cp932", "euc_jp", "gb18030", "gbk", "big5", "euc_kr", "cp949"),
)
"""In what a CSV file may be written, as Python calls it; other names of these are understood."""

_HALVES = ("shift_jis", "cp932", "gb18030", "gbk", "big5")
_IN_HALVES = ("|", "~", "^")  # whose bytes are the second half of some of their letters, too

_LARGEST = 1.7976931348623157e308  # an integer beyond it is no float64

VERSION = 1
"""The version of the file format that this module reads and writes."""

MOST_BUCKETS = 1 << 24
MOST_TEXT_BUCKETS = 1 << 18
MOST_NGRAMS, LONGEST_NGRAM = 1 << 14, 8
LONGEST_SOURCE = 500  # letters
_WRITING = ("decimal", "thousands", "separator", "encoding")  # how text is written


@dataclass(frozen=True)
class _Named:
    """What every column and label has."""

    name: str
    kind: ClassVar[str] = ""
    # Where the bounds are public, in words. Two schemas that differ in it encode alike.
    source: str | None = field(default=None, kw_only=True, compare=False)

    def __post_init__(self) -> None:
        _check_source(self.name, self.source)
        if not isinstance(self.name, str) or not _encodable(self.name):
            raise ParameterError(f"a column's field 'name' must be text, got {shown(self.name)}.")
        if not (self.name or self.kind == "ignore"):
            raise ParameterError("the field 'name' may be empty for kind 'ignore' alone.")


@dataclass(frozen=True)
class Number(_Named):
    """A number in the public range [low, high]: clipped to it and scaled to [-1, 1].

    Missing, NaN and infinite entries become the middle of the range, which is 0 after scaling; or
    the public value ``missing``, which is in the range; or, with ``missing="indicator"``, 0 and a 1
    in a second column.
    """

    kind: ClassVar[str] = "number"
    low: float
    high: float
    missing: float | str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_range(self)
        if self.missing is None or self.missing == "indicator":
            return
        field = f"column {shown(self.name)}, field 'missing'"
        value = real(field, self.missing, hint='Give a number in the range, or "indicator".')
        if not self.low <= value <= self.high:
            raise refusal(field, f"must lie in [{self.low}, {self.high}], got {shown(value)}.")
        object.__setattr__(self, "missing", value)


@dataclass(frozen=True)
class Category(_Named):
    """One of the declared values, which are all text or all numbers: a column for each.

    Missing entries are all zeros; so are values that were not declared, unless ``other`` gives
    them a column of their own. ``labels`` says what else stands for a value, see `ClassLabel`.
    """

    kind: ClassVar[str] = "category"
    values: tuple[Value, ...]
    other: bool = False
    labels: Labels | Mapping[str, Value] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "values", _check_values(self.name, self.values, at_least=1))
        _check_bool(self.name, "other", self.other)
        object.__setattr__(self, "labels", _check_labels(self.name, self.values, self.labels))


@dataclass(frozen=True)
class Hashed(_Named):
    """Text or numbers of an open vocabulary, hashed into a public number of columns.

    The hash depends on the column's name and the value (a number's digits) alone, so that it is the
    same everywhere. With ``signed`` it also chooses between 1 and -1. Missing entries: all zeros.
    """

    kind: ClassVar[str] = "hashed"
    buckets: int
    signed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        field = f"column {shown(self.name)}, field 'buckets'"
        buckets = integer(field, self.buckets)
        if buckets > MOST_BUCKETS:
            raise refusal(field, f"must be at most {MOST_BUCKETS}, got {buckets}.")
        object.__setattr__(self, "buckets", buckets)
        _check_bool(self.name, "signed", self.signed)


@dataclass(frozen=True)
class Date(_Named):
    """A date in the public range from ``low`` to ``high``: whole units, clipped, as a `Number`.

    Columns hold dates, times or text, whose parts stand in the ``order`` "ymd", "dmy" or "mdy". It
    is counted in whole years, months, days, hours, minutes or seconds; what is smaller is cut off.
    ``missing`` is as of a `Number`: the middle, a date in the range, or an "indicator".
    """

    kind: ClassVar[str] = "date"
    low: str
    high: str
    unit: str = "day"
    missing: str | None = None
    order: str = "ymd"

    def __post_init__(self) -> None:
        super().__post_init__()
        where = f"column {shown(self.name)}, field"
        choice(f"{where} 'unit'", self.unit, tuple(UNITS))
        choice(f"{where} 'order'", self.order, ORDERS)
        low, high = (self._count("range", end) for end in (self.low, self.high))
        if low >= high:
            text = f"must span a whole {self.unit} or more, got {self.low!r} to {self.high!r}."
            raise refusal(f"{where} 'range'", text)
        ruled = self.missing in (None, "indicator")
        if not (ruled or low <= self._count("missing", self.missing) <= high):
            raise refusal(f"{where} 'missing'", "must lie in the range.")

    @property
    def as_number(self) -> Number:
        """The same in whole units since 1970."""
        rule: float | str | None = self.missing
        if rule is not None and rule != "indicator":
            rule = self._count("missing", rule)
        low, high = (self._count("range", end) for end in (self.low, self.high))
        return Number(self.name, low, high, rule)

    def _count(self, field: str, text: Any) -> float:
        """Return a declared date in whole units since 1970."""
        moment = date_in(text) if isinstance(text, str) else None
        if moment is None:
            where = f"column {shown(self.name)}, field {field!r}"
            raise refusal(where, f'must be dates such as "2024-12-31", got {shown(text)}.')
        return float(count(moment, self.unit))


@dataclass(frozen=True)
class Text(_Named):
    """Free text as counts of hashed n-grams, divided by their length: norm 1 at most.

    Args:
        name: of the column.
        buckets: the public number of columns that they are hashed into.
        ngrams: the shortest and longest run of words, or of letters.
        of: "words", or "letters" within words.
        most: how many different n-grams of a text count, the first ones.
    """

    kind: ClassVar[str] = "text"
    buckets: int
    ngrams: tuple[int, int] = (1, 2)
    of: str = "words"
    most: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        where = f"column {shown(self.name)}, field"
        for name, limit in (("buckets", MOST_TEXT_BUCKETS), ("most", MOST_NGRAMS)):
            value = integer(f"{where} {name!r}", getattr(self, name))
            if value > limit:
                raise refusal(f"{where} {name!r}", f"must be at most {limit}, got {value}.")
            object.__setattr__(self, name, value)
        choice(f"{where} 'of'", self.of, ("words", "letters"))
        ends = self.ngrams
        if not isinstance(ends, (list, tuple)) or len(ends) != 2:
            raise refusal(f"{where} 'ngrams'", "must be a list [shortest, longest].")
        low, high = (integer(f"{where} 'ngrams'", end) for end in ends)
        if not low <= high <= LONGEST_NGRAM:
            raise refusal(f"{where} 'ngrams'", f"must rise, to {LONGEST_NGRAM} at most.")
        object.__setattr__(self, "ngrams", (low, high))


@dataclass(frozen=True)
class Flag(_Named):
    """Yes or no: 1 and -1, and 0 where missing. In a column of numbers, all but 0 is yes."""

    kind: ClassVar[str] = "flag"


@dataclass(frozen=True)
class Ignore(_Named):
    """A column that may be in the table and is never read; the one kind that may have no name."""

    kind: ClassVar[str] = "ignore"


@dataclass(frozen=True)
class NumberLabel(_Named):
    """A label in the public range [low, high]; it is clipped, not scaled."""

    kind: ClassVar[str] = "number"
    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_range(self)


@dataclass(frozen=True)
class ClassLabel(_Named):
    """A label that is one of two or more declared values.

    ``labels`` says what else may stand in the table for a value: ``{"0": "no", "1": "yes"}`` reads
    columns of text, and of numbers by those of the texts that are numbers.
    """

    kind: ClassVar[str] = "classes"
    values: tuple[Value, ...]
    labels: Labels | Mapping[str, Value] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "values", _check_values(self.name, self.values, at_least=2))
        object.__setattr__(self, "labels", _check_labels(self.name, self.values, self.labels))


@dataclass(frozen=True)
class SignLabel(_Named):
    """A label that is -1 or 1; anything else makes a row that counts for nothing."""

    kind: ClassVar[str] = "sign"


Column = Number | Date | Category | Hashed | Text | Flag | Ignore
Label = NumberLabel | ClassLabel | SignLabel


@dataclass(frozen=True)
class Schema:
    """The columns of a table in the order in which they are encoded, and its label.

    Args:
        columns: the columns, with distinct names; at least one is not ignored.
        label: the label, not among the columns, or None.
        decimal: "," or ".", how numbers are written as text. Where it is given, columns of text
            are read as numbers, too, if numbers are declared; in a CSV file it is "." by default.
        thousands: what stands between groups of three digits, such as "."; needs ``decimal``.
        separator: what stands between the entries of a CSV file; by default a comma, and a tab in
            files named ``.tsv``.
        encoding: in what a CSV file is written, such as "cp1252"; UTF-8 by default.

    Raises:
        ParameterError: a name appears twice, or nothing is left to encode.

    Example:
        >>> schema = Schema((Number("age", 0, 100), Flag("owner")), SignLabel("y"))
        >>> Schema.from_json(schema.to_json()) == schema
        True
    """

    columns: tuple[Column, ...]
    label: Label | None = None
    decimal: str | None = None
    thousands: str | None = None
    separator: str | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        _check_writing(self.decimal, self.thousands)
        if self.separator is not None:
            choice("the schema's field 'separator'", self.separator, SEPARATORS)
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _encoding(self.encoding))
        if self.encoding in _HALVES and self.separator in _IN_HALVES:
            raise refusal(
                "the schema's field 'separator'",
                f"cannot be {self.separator!r} in a file in {self.encoding}: half a letter at the "
                "end of an entry would swallow it, so that a row could stop the fit.",
                "Write the file with another separator, or in UTF-8.",
            )
        for item in self.columns:
            if not isinstance(item, Column):
                raise ParameterError(
                    f"columns must be schema columns, got {type(item).__name__}.",
                    parameter="columns",
                )
        if self.label is not None and not isinstance(self.label, Label):
            raise ParameterError(
                f"label must be a schema label, got {type(self.label).__name__}.", parameter="label"
            )
        for name, times in Counter(self.names).items():
            if times > 1:
                raise ParameterError(f"column {shown(name)} is declared more than once.")
        if not self.encoded:
            raise ParameterError("a schema needs at least one column that is not 'ignore'.")

    @property
    def items(self) -> tuple[Column | Label, ...]:
        """All that is declared, the label last."""
        return self.columns if self.label is None else (*self.columns, self.label)

    @property
    def names(self) -> tuple[str, ...]:
        """Every declared name, the label's last."""
        return tuple(item.name for item in self.items)

    @property
    def names_read(self) -> tuple[str, ...]:
        """The names of the columns that are read, the label's last."""
        return tuple(item.name for item in self.items if not isinstance(item, Ignore))

    @property
    def encoded(self) -> tuple[Column, ...]:
        """The columns that become features."""
        return tuple(column for column in self.columns if not isinstance(column, Ignore))

    def to_json(self) -> str:
        """Return the text of the schema file, one column a line."""
        columns = ",\n".join(f"    {_dump(_record(column))}" for column in self.columns)
        label = "null" if self.label is None else _dump(_record(self.label))
        separators = {name: getattr(self, name) for name in _WRITING}
        lines = "".join(
            f'  "{k}": {json.dumps(v)},\n' for k, v in separators.items() if v is not None
        )
        head = f'{{\n  "version": {VERSION},\n{lines}  "columns": [\n{columns}\n  ],\n'
        return f'{head}  "label": {label}\n}}\n'

    @classmethod
    def from_json(cls, text: str | bytes) -> Schema:
        """Read a schema from its text.

        Raises:
            ParameterError: the text is no schema; the message names the column and the field.
        """
        return cls._from_record(
            parse_json(text, what="this schema", limits=_limits.SCHEMA, error=ParameterError)
        )

    @classmethod
    def _from_record(cls, record: Any) -> Schema:
        """Return the schema that JSON values describe."""
        _check_keys("the schema", record, {"version", "columns"}, {"label", *_WRITING})
        if record["version"] != VERSION or isinstance(record["version"], bool):
            raise ParameterError(
                f"the schema's field 'version' must be {VERSION}, got {shown(record['version'])}."
            )
        if not isinstance(record["columns"], list):
            raise ParameterError("the schema's field 'columns' must be a list of columns.")
        columns = tuple(
            _read(entry, f"column {k}", _COLUMNS) for k, entry in enumerate(record["columns"])
        )
        label = record.get("label")
        rule = None if label is None else _read(label, "the label", _LABELS)
        return cls(columns, rule, *map(record.get, _WRITING))

    def save(self, path: str | Path) -> None:
        """Write the schema file whole; a DataError says that it cannot be written."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file.

        Raises:
            DataError: it cannot be read or is no schema; the message names the file.
        """
        try:
            return cls._from_record(
                read_json(path, what="the schema", limits=_limits.SCHEMA, error=DataError)
            )
        except ParameterError as problem:
            raise DataError(f"the schema {path} is not valid: {problem}") from None


def _record(item: Column | Label) -> dict[str, Any]:
    """Return a column or label as it stands in the file, without what is left at its default."""
    record: dict[str, Any] = {"name": item.name, "kind": item.kind}
    for part in fields(item):
        value = getattr(item, part.name)
        if part.name in ("name", "source"):
            continue
        if part.name in ("low", "high"):
            record.setdefault("range", []).append(_plain(value))
        elif part.name == "labels":
            record |= {"labels": dict(value)} if value else {}
        elif value == part.default:
            continue
        elif isinstance(value, tuple):
            record[part.name] = list(value)
        else:
            record[part.name] = _plain(value)
    return record if item.source is None else {**record, "source": item.source}


def _plain(value: Any) -> Any:
    """Return whole numbers as integers, which read better; they compare equal."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value


_Reader = tuple[Callable[..., Any], frozenset[str], frozenset[str]]  # make, required, optional


def _pair(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a constructor that takes the two ends of "range" apart."""

    def build(name: Any, range: Any, **rest: Any) -> Any:
        if not isinstance(range, list) or len(range) != 2:
            raise ParameterError(f"column {shown(name)}, field 'range' must be a list [low, high].")
        return make(name, range[0], range[1], **rest)

    return build


def _reader(make: Callable[..., Any], required: str = "", optional: str = "") -> _Reader:
    """Return how one kind of column is read: its constructor and its fields."""
    fields_of_all = {"name", "kind", *required.split()}
    return make, frozenset(fields_of_all), frozenset({"source", *optional.split()})


_COLUMNS: dict[str, _Reader] = {
    "number": _reader(_pair(Number), "range", "missing"),
    "date": _reader(_pair(Date), "range", "unit missing order"),
    "category": _reader(Category, "values", "other labels"),
    "text": _reader(Text, "buckets", "ngrams of most"),
    "hashed": _reader(Hashed, "buckets", "signed"),
    "flag": _reader(Flag),
    "ignore": _reader(Ignore),
}
_LABELS: dict[str, _Reader] = {
    "number": _reader(_pair(NumberLabel), "range"),
    "classes": _reader(ClassLabel, "values", "labels"),
    "sign": _reader(SignLabel),
}


def _read(entry: Any, where: str, readers: Mapping[str, _Reader]) -> Any:
    """Return the column or label that ``entry`` describes."""
    if not isinstance(entry, dict):
        raise ParameterError(f"{where} of the schema must be an object with 'name' and 'kind'.")
    if isinstance(entry.get("name"), str):
        where = f"{'label' if where == 'the label' else 'column'} {shown(entry['name'])}"
    kind = entry.get("kind")
    if not isinstance(kind, str) or kind not in readers:
        words = ", ".join(sorted(readers))
        raise ParameterError(f"{where}, field 'kind' must be one of {words}; got {shown(kind)}.")
    make, required, optional = readers[kind]
    _check_keys(where, entry, required, optional)
    return make(**{key: value for key, value in entry.items() if key != "kind"})


def _check_keys(where: str, record: Any, required: Any, optional: Any) -> None:
    """Refuse a record with a field too many or too few."""
    if not isinstance(record, dict):
        raise refusal(where, f"must be an object, got {type(record).__name__}.")
    missing = sorted(set(required) - set(record))
    unknown = sorted(set(record) - set(required) - set(optional))
    if missing:
        raise ParameterError(f"{where} lacks the field {missing[0]!r}.")
    if unknown:
        known = ", ".join(sorted({*required, *optional}))
        raise ParameterError(
            f"{where} has the unknown field {shown(unknown[0])}; known are {known}."
        )


def _dump(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def _check_source(name: Any, source: Any) -> None:
    """Refuse a source that is no short text."""
    where = f"column {shown(name)}, field 'source'"
    if source is None:
        return
    if not isinstance(source, str) or not source.strip() or not _encodable(source):
        raise refusal(where, "must be text that says where the bounds are public.")
    if len(source) > LONGEST_SOURCE:
        raise refusal(where, f"must have at most {LONGEST_SOURCE} letters, got {len(source)}.")


def _check_bool(name: str, field: str, value: Any) -> None:
    """Refuse anything but true and false."""
    if not isinstance(value, bool):
        raise ParameterError(f"column {shown(name)}, field {field!r} must be true or false.")


def _check_range(item: Any) -> None:
    """Refuse a range that is none, and make its ends floats."""
    field = f"column {shown(item.name)}, field 'range'"
    low, high = real(field, item.low), real(field, item.high)
    if not (math.isfinite(low) and math.isfinite(high) and high / 2 - low / 2 > 1e-300):
        raise refusal(field, f"must be finite with low < high, got [{low!r}, {high!r}].")
    object.__setattr__(item, "low", low)
    object.__setattr__(item, "high", high)


def _check_values(name: str, values: Any, *, at_least: int) -> tuple[Value, ...]:
    """Return declared values as a tuple: distinct, all text or all finite numbers."""
    field = f"column {shown(name)}, field 'values'"
    if isinstance(values, str) or not isinstance(values, (list, tuple)) or len(values) < at_least:
        raise refusal(field, f"must be a list of at least {at_least} value(s).")
    texts = sum(isinstance(value, str) for value in values)
    numbers = sum(isinstance(v, (int, float)) and abs(v) <= _LARGEST for v in values)
    if len(values) not in (texts, numbers):
        raise refusal(field, "must be all text or all finite numbers.")
    if len(set(values)) != len(values):  # True equals 1, which a column cannot tell apart either
        raise ParameterError(f"{field} has a value more than once.")
    if texts and not all(map(_encodable, values)):
        raise ParameterError(f"{field} has text that is not valid Unicode.")
    return tuple(values)


def _encodable(text: str) -> bool:
    """Return whether text can be stored as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_writing(decimal: Any, thousands: Any) -> None:
    """Refuse separators that are none, and two that are the same."""
    if decimal is not None:
        choice("the schema's field 'decimal'", decimal, DECIMALS)
    if thousands is None:
        return
    choice("the schema's field 'thousands'", thousands, THOUSANDS)
    if decimal is None:
        raise ParameterError("a schema with 'thousands' says what 'decimal' is, too.")
    if decimal == thousands:
        raise ParameterError(f"'decimal' and 'thousands' must differ, both are {decimal!r}.")


def _encoding(name: Any) -> str:
    """Return an encoding by its own name; refuse what is none of those that are known."""
    field = "the schema's field 'encoding'"
    try:
        known = codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        known = None
    return choice(field, name if known is None else known, ENCODINGS)


def _check_labels(name: str, values: tuple[Value, ...], labels: Any) -> Labels:
    """Return ways to write declared values as pairs (as written, value), in their order.

    Args:
        name: of the column.
        values: that are declared.
        labels: a mapping from what stands in the table to one of the values, or such pairs.
    """
    field = f"column {shown(name)}, field 'labels'"
    pairs = list(labels.items()) if isinstance(labels, Mapping) else labels
    if not isinstance(pairs, (list, tuple)) or not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs
    ):
        raise ParameterError(
            f'{field} must say what stands for which value, such as {{"0": "no", "1": "yes"}}.'
        )
    result: dict[str, Value] = {}
    numbers: dict[float, Value] = {}
    for key, value in pairs:
        text = str(key) if isinstance(key, int) and not isinstance(key, bool) else key
        if not isinstance(text, str) or not text or not _encodable(text) or text in result:
            raise refusal(field, "must have different texts that are not empty as keys.")
        places = [known for known in values if type(known) is type(value) and known == value]
        if not places:
            raise ParameterError(f"{field} maps to a value that is not among the declared ones.")
        result[text] = places[0]
        number = number_in(text)
        if number is not None and numbers.setdefault(number, value) != value:
            raise ParameterError(
                f"{field} gives one number two values: {shown(text)} is there before."
            )
    return tuple(result.items())
