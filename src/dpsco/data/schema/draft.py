"""Schemas drafted from public or synthetic rows, and files compared with a schema.

A range or a list of categories that is read off private rows tells about those rows: the oldest
person's age, the one rare disease. So a draft is made only of rows that the caller declares public,
and is meant to be read and corrected by somebody who knows the domain.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..._validate import choice, closest, integer
from ...errors import DataError, ParameterError
from ..tables.arrow import family, mismatches, numbers, pyarrow
from ..tables.csvfile import csv_header, header_problems, require_file
from ..tables.csvform import CsvForm, is_csv
from ..tables.dates import dates_in
from ..tables.parquet import parquet_files, read_footers, read_whole
from .columns import to_arrow
from .guess import as_written, guess_writing
from .schema import (
    Category,
    ClassLabel,
    Column,
    Date,
    Flag,
    Hashed,
    Ignore,
    Label,
    Number,
    NumberLabel,
    Schema,
    SignLabel,
    Text,
)

MOST_CATEGORIES = 64
_MOST_CLASSES = 32  # different whole numbers that still look like classes
_MOST_BUCKETS = 1 << 12
_NEARLY_ALL = 0.9  # share of different texts above which text may be an identifier
_WORDS = 4  # of a usual entry, from which text is more than a name
_MOST_CODES = 24  # different whole numbers that may be codes
_REPEATED = 0.2  # if each stands there this often: so many a row, at most
_MOST_SHOWN = 6  # values of a category that a summary lists
_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{4}")  # does not begin with the year


def draft_schema(
    frame: Any,
    *,
    label: str | None,
    public: bool = False,
    rounded: bool = True,
    most_categories: int = MOST_CATEGORIES,
    label_kind: str = "auto",
) -> Schema:
    """Guess a schema from public or synthetic rows.

    A column with no name, of a type that is not used, or whose entries are all missing is ignored.

    Args:
        frame: a pandas, Polars or PyArrow table.
        label: the name of the label's column, or None.
        public: must be True: the caller states that the rows are public or synthetic.
        rounded: widen ranges to round numbers.
        most_categories: text with more different values than this is hashed.
        label_kind: "number", "classes", "sign" or "auto".

    Raises:
        ParameterError: the rows are not declared public, or the label is not among the columns.
        DataError: there are no rows, a name stands twice, no column can be used, or the label has
            a type or values that cannot be used.

    Example:
        >>> import pyarrow as pa
        >>> rows = pa.table({"age": [19, 87], "y": [-1, 1]})
        >>> print(describe(draft_schema(rows, label="y", public=True)))
        age  number: 10 to 90
        y    label, sign: -1 or 1
    """
    return draft(
        frame,
        label=label,
        public=public,
        rounded=rounded,
        most_categories=most_categories,
        label_kind=label_kind,
    ).schema


@dataclass(frozen=True)
class Draft:
    """A drafted schema, and what its reader should know about some columns."""

    schema: Schema
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([describe(self.schema), *(f"note: {note}" for note in self.notes)])


def draft(
    frame: Any,
    *,
    label: str | None,
    public: bool = False,
    rounded: bool = True,
    most_categories: int = MOST_CATEGORIES,
    label_kind: str = "auto",
) -> Draft:
    """Guess a schema as `draft_schema` does, and say what was noticed on the way."""
    require_public("draft_schema", "public=True", public)
    choice("label_kind", label_kind, ("auto", "number", "classes", "sign"))
    most = integer("most_categories", most_categories)
    table = to_arrow(frame)
    if not hasattr(table, "to_batches"):
        table = pyarrow().Table.from_batches([table])
    names = table.schema.names
    _require_distinct(names, "the table")
    if label is not None and label not in names:
        raise ParameterError(
            f"label {label!r} is not among the columns: {', '.join(names)}.{closest(label, names)}"
        )
    if table.num_rows == 0:
        raise DataError("a schema is drafted from rows, and there is none below the column names.")
    guess = guess_writing(table)
    if guess.writing is not None:
        for name in guess.columns:
            numeric = as_written(table.column(name), guess.writing)
            table = table.set_column(names.index(name), name, numeric)
    data = {name: table.column(name) for name in names if name != label}
    columns = {name: _column(name, column, rounded, most) for name, column in data.items()}
    notes = [note for name in data if (note := _note(columns[name], data[name]))]
    notes += guess.notes()
    if all(isinstance(column, Ignore) for column in columns.values()):
        raise DataError(f"no column can be used as a feature: {'; '.join(notes) or 'none given'}.")
    rule = None if label is None else _label(label, table.column(label), rounded, label_kind)
    if label_kind == "auto" and isinstance(rule, ClassLabel) and _may_be_amounts(rule):
        notes.append(
            f"label {label!r} has {len(rule.values)} different whole numbers, read as classes. If "
            'they are amounts or grades, draft with the label kind "number"'
        )
    return Draft(Schema(tuple(columns.values()), rule, *(guess.writing or ())), tuple(notes))


def require_public(who: str, how: str, public: object) -> None:
    """Refuse to read rows that nobody has declared public."""
    if public is not True:
        raise ParameterError(
            f"{who} reads ranges and categories off the rows, and so needs {how}: on private rows "
            "they would reveal the oldest person's age or the one rare disease. Draft from public "
            "or synthetic rows, or write the schema by hand."
        )


def _column(name: str, data: Any, rounded: bool, most: int) -> Column:
    """Guess what a column holds."""
    kind = family(data.type)
    if not name:
        return Ignore(name)
    if kind == "boolean":
        return Flag(name)
    if kind == "text":
        values = _distinct(data)
        if not values:
            return Ignore(name)
        if len(values) <= most:
            return Category(name, tuple(sorted(values)), other=True)
        buckets = 1 << max(1, 2 * len(values) - 1).bit_length()
        return Hashed(name, min(buckets, _MOST_BUCKETS))
    if kind in ("integer", "real"):
        if kind == "integer" and set(_distinct(data, most=3)) <= {0, 1}:
            return Flag(name)
        low, high, missing = _range(data, rounded)
        return Number(name, low, high, "indicator" if missing else None)
    return _date(name, data) if kind == "date" else Ignore(name)


def _date(name: str, data: Any) -> Column:
    """Guess a range of dates, in whole years."""
    years = np.concatenate([np.empty(0), *(dates_in(part, "year") for part in data.chunks)])
    there = years[np.isfinite(years)]
    if not there.size:
        return Ignore(name)
    low, high = int(there.min()) + 1970, int(there.max()) + 1970
    if not 1 <= low <= high <= 9999:
        return Ignore(name)
    missing = "indicator" if there.size < years.size else None
    return Date(name, f"{low:04}-01-01", f"{high:04}-12-31", missing=missing)


def _note(column: Column, data: Any) -> str:
    """Return what the reader of a draft should know of a column, or nothing."""
    name = f"column {column.name!r}"
    if isinstance(column, (Category, Hashed)) and _dated(data):
        return f'{name} looks like dates: "kind": "date", "order": "dmy" (or "mdy") reads them'
    if isinstance(column, Hashed):
        different, there = len(_distinct(data)), len(data) - data.null_count
        if _wordy(data):
            return f'{name} looks like sentences: "kind": "text" reads their words'
        if different <= _NEARLY_ALL * there:
            return ""
        return (
            f"{name} has {different} different texts in {there} rows: a name or an identifier, "
            'which says nothing about other rows? Then make its kind "ignore"'
        )
    if isinstance(column, Number) and (codes := _codes(data)):
        return (
            f"{name} has {len(codes)} different whole numbers: are these codes? Then make it "
            f'"kind": "category", "values": {codes}'
        )
    if not isinstance(column, Ignore):
        return ""
    if not column.name:
        return "the column without a name, such as the index that pandas writes, is ignored"
    if family(data.type) == "text":
        return (
            f"{name} is ignored: all its entries are missing, or Python objects that are no text "
            "(if they are numbers, give the column a type of numbers)"
        )
    if family(data.type) == "nothing":
        return f"{name} is ignored: all its entries are missing"
    return f"{name} is ignored: its type {data.type} is none of numbers, dates, text and booleans"


def _dated(data: Any) -> bool:
    """Return whether a column of text holds dates that do not begin with the year."""
    values = _distinct(data, most=999) if family(data.type) == "text" else []
    return bool(values) and all(_DATE.fullmatch(str(value)) for value in values)


def _wordy(data: Any) -> bool:
    """Return whether most entries of a column of text have several words."""
    words = [len(str(value).split()) for value in _distinct(data, most=999)]
    return bool(words) and sorted(words)[len(words) // 2] >= _WORDS


def _codes(data: Any) -> list[int]:
    """Return the few whole numbers of a column that may stand for something else, or none."""
    if family(data.type) != "integer":
        return []
    values = _distinct(data, most=_MOST_CODES)
    there = len(data) - data.null_count
    few = 2 < len(values) <= _MOST_CODES and len(values) <= _REPEATED * there
    return sorted(values) if few else []


def _label(name: str, data: Any, rounded: bool, wanted: str) -> Label:
    """Guess the rule of a label."""
    kind = family(data.type)
    if not name:
        raise DataError("the label's column has no name: give it one.")
    if data.null_count == len(data):
        raise DataError(f"the label {name!r} is missing in every row.")
    if wanted == "auto":
        wanted = "number"
        if kind in ("text", "boolean"):
            wanted = "classes"
        elif kind == "integer":
            result = set(_distinct(data, most=_MOST_CLASSES + 1))
            few = 2 <= len(result) <= _MOST_CLASSES
            wanted = "sign" if result == {-1, 1} else "classes" if few else "number"
    if wanted == "classes":
        if kind == "boolean":
            return ClassLabel(name, (False, True))
        values = _distinct(data)
        if len(values) < 2:
            raise DataError(
                f"the label {name!r} has {len(values)} different value(s) in these rows, and "
                "classes need at least 2: draft from rows that have them all, or write the label "
                "by hand."
            )
        return ClassLabel(name, tuple(sorted(values)))
    if kind not in ("integer", "real", "boolean"):
        raise DataError(f"the label {name!r} has type {data.type}: it cannot be a {wanted}.")
    if wanted == "sign":
        return SignLabel(name)
    low, high, _ = _range(data, rounded)
    return NumberLabel(name, low, high)


def _may_be_amounts(rule: ClassLabel) -> bool:
    """Return whether a guessed list of classes is more than two whole numbers."""
    return len(rule.values) > 2 and not any(isinstance(value, str) for value in rule.values)


def _distinct(data: Any, most: int | None = None) -> list[Any]:
    """Return the different values of a column, without missing ones; ``most`` of them suffice."""
    values = data.unique()
    values = values if most is None else values[: most + 1]
    result = values.to_pylist()
    return [v for v in result if v is not None and not (isinstance(v, float) and math.isnan(v))]


def _range(data: Any, rounded: bool) -> tuple[float, float, bool]:
    """Return a range that holds every finite number, and whether some are missing."""
    values = np.concatenate([np.empty(0), *(numbers(part) for part in data.chunks)])
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if low == high:
        low, high = low - max(1.0, abs(low)), high + max(1.0, abs(high))
    missing = finite.size < values.size
    return (*(round_outward(low, high) if rounded else (low, high)), missing)


def round_outward(low: float, high: float) -> tuple[float, float]:
    """Return a wider range whose ends are short numbers, at most a few tenths of its width away.

    >>> round_outward(17, 90), round_outward(0.0021, 0.0387), round_outward(-3, 99_999)
    ((10.0, 90.0), (0.0, 0.04), (-10000.0, 100000.0))
    """
    width = high / 2 - low / 2
    exponent = math.floor(math.log10(width)) if width > 0.0 else 0
    if not -300 < exponent < 300:
        return low, high
    unit = 10.0 ** abs(exponent)  # exact up to 10^22, and powers below one are not
    ends = (low / unit, high / unit) if exponent >= 0 else (low * unit, high * unit)
    whole = math.floor(ends[0]), math.ceil(ends[1])
    result = [float(end * unit if exponent >= 0 else end / unit) for end in whole]
    return (min(result[0], low), max(result[1], high))


def describe(schema: Schema) -> str:
    """Return a schema in words, a line for each column."""
    words = [(item.name or "''", _words(item)) for item in schema.items]
    room = max(len(name) for name, _ in words)
    lines = [f"{name:<{room}}  {text}" for name, text in words]
    if schema.decimal is not None:
        groups = "" if schema.thousands is None else f", thousands {schema.thousands!r}"
        lines.append(f"numbers may be text: decimal {schema.decimal!r}{groups}")
    return "\n".join(lines)


def _words(item: Column | Label) -> str:
    """Return what is declared of one column."""
    label = "label, " if isinstance(item, Label) else ""
    if isinstance(item, (Number, NumberLabel)):
        rule = getattr(item, "missing", None)
        tail = "" if rule is None else f", missing: {rule}"
        return f"{label}number: {item.low:.15g} to {item.high:.15g}{tail}"
    if isinstance(item, (Category, ClassLabel)):
        shown = ", ".join(map(str, item.values[:_MOST_SHOWN]))
        more = ", ..." if len(item.values) > _MOST_SHOWN else ""
        tail = ", or other" if isinstance(item, Category) and item.other else ""
        written = ", ".join(f"{key} for {value}" for key, value in dict(item.labels).items())
        tail += f", written {written}" if written else ""
        return f"{label}{item.kind}: {len(item.values)} values ({shown}{more}){tail}"
    if isinstance(item, Date):
        tail = "" if item.missing is None else f", missing: {item.missing}"
        return f"date: {item.low} to {item.high}, in {item.unit}s{tail}"
    if isinstance(item, Text):
        low, high = item.ngrams
        return f"text: {low} to {high} {item.of} at a time, {item.buckets} buckets"
    if isinstance(item, Hashed):
        return f"hashed: {item.buckets} buckets"
    return {"flag": "flag", "ignore": "ignore", "sign": "label, sign: -1 or 1"}[item.kind]


def read_public(path: str | Path, form: CsvForm | None = None) -> Any:
    """Return a whole CSV or Parquet file, or folder of Parquet files, of public rows.

    An empty entry of a CSV file is missing, as it is for `from_csv`.

    Raises:
        DataError: it cannot be read, or the files of a folder have columns of different types.
    """
    pyarrow()  # says what to install, if it is not there
    if not is_csv(path):
        return _concatenated([(file, read_whole(file)) for file in parquet_files(path)])
    return _without_empty(_public_csv(path, form=form))


def read_for_draft(path: str | Path, form: CsvForm | None = None) -> Any:
    """Return a file as `read_public` does, with numbers as text where some are written with commas.

    A schema has one way to write numbers, and what the reader of CSV files takes for a decimal
    point may be a separator of thousands.
    """
    table = read_public(path, form)
    if not is_csv(path) or guess_writing(table).writing is None:
        return table
    text = pyarrow().string()
    numeric = [f.name for f in table.schema if family(f.type) in ("integer", "real")]
    return _without_empty(_public_csv(path, dict.fromkeys(numeric, text), form))


def _public_csv(
    path: str | Path, types: dict[str, Any] | None = None, form: CsvForm | None = None
) -> Any:
    """Return a CSV file of public rows, with the types that its reader guesses, or those given."""
    from pyarrow import csv

    require_file(path)
    form = CsvForm.of(path) if form is None else form
    try:
        with form.stream(path) as file:
            return csv.read_csv(
                file,
                parse_options=csv.ParseOptions(delimiter=form.separator),
                convert_options=csv.ConvertOptions(column_types=types),
            )
    except (
        OSError,
        EOFError,
        zlib.error,
        ValueError,
    ) as problem:  # the rows are public: the reason may be told
        hint = "If its entries are not separated by commas, say so: separator=';' (--sep ';')."
        raise DataError(f"cannot read {path}: {problem}. {hint}") from None


def _without_empty(table: Any) -> Any:
    """Return a table in which an empty text is missing."""
    import pyarrow.compute as pc

    pa = pyarrow()
    columns = [
        pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
        if family(column.type) == "text"
        else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.schema.names)


def _concatenated(tables: list[tuple[Path, Any]]) -> Any:
    """Return the tables of a folder's files as one."""
    pa = pyarrow()
    known: dict[str, Any] = {}
    for path, table in tables:
        _require_distinct(table.schema.names, f"{path}")
        for name, kind in zip(table.schema.names, table.schema.types, strict=True):
            first = known.setdefault(name, kind)
            if pa.types.is_null(first):
                known[name] = kind
            elif kind != first and not pa.types.is_null(kind):
                raise DataError(
                    f"{path}: column {name!r} has type {kind}, and {first} in the files before; "
                    "write the files with one type, or draft from one of them."
                )
    return pa.concat_tables([table for _, table in tables], promote_options="default")


def _require_distinct(names: list[str], where: str) -> None:
    """Refuse a table in which a name stands twice."""
    twice = [repr(name) for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DataError(f"{where} has more than one column named {', '.join(twice)}.")


@dataclass(frozen=True)
class FileCheck:
    """How the columns of a file, or of each file of a folder, compare with a schema."""

    files: int
    rows: int | None  # None for CSV, whose rows were not counted
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every file fits."""
        return not self.problems

    def __str__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows} rows"
        head = f"{self.files} file(s){rows}: "
        if self.ok:  # a CSV file has no types
            what = "the names of the columns" if self.rows is None else "the columns"
            return f"{head}{what} match the schema."
        return "\n".join([f"{head}the columns do NOT match the schema.", *self.problems])


def check_file(schema: Schema, path: str | Path) -> FileCheck:
    """Compare the names and types of a file's columns with a schema; no row is read.

    A CSV file has names only; its entries are read as the schema says.

    Raises:
        DataError: the file cannot be read.
    """
    if is_csv(path):
        result = header_problems(schema, csv_header(path, CsvForm.of(path, schema)))
        return FileCheck(1, None, tuple(f"{path}: {problem}" for problem in result))
    footers = read_footers(path)
    problems = tuple(
        f"{footer.path}: {problem}"
        for footer in footers
        for problem in mismatches(schema, footer.columns)
    )
    return FileCheck(len(footers), sum(footer.rows for footer in footers), problems)
