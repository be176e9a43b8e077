"""Schemas drafted from public or synthetic rows, and files compared with a schema.

A range or a list of categories that is read off private rows tells about those rows: the oldest
person's age, the one rare disease. So a draft is made only of rows that the caller declares public,
and is meant to be read and corrected by somebody who knows the domain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._validate import choice, integer
from ..errors import DataError, ParameterError
from .arrow import family, mismatches, numbers, pyarrow
from .encoder import to_arrow
from .files import csv_header, is_csv, parquet_files, read_footers, read_whole
from .schema import (
    Category,
    ClassLabel,
    Column,
    Flag,
    Hashed,
    Ignore,
    Label,
    Number,
    NumberLabel,
    Schema,
    SignLabel,
)

MOST_CATEGORIES = 64
_MOST_CLASSES = 32  # different whole numbers that still look like classes
_MOST_BUCKETS = 1 << 12
_MOST_SHOWN = 6  # values of a category that a summary lists


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

    Args:
        frame: a pandas, Polars or PyArrow table.
        label: the name of the label's column, or None.
        public: must be True: the caller states that the rows are public or synthetic.
        rounded: widen ranges to round numbers.
        most_categories: text with more different values than this is hashed.
        label_kind: "number", "classes", "sign" or "auto".

    Raises:
        ParameterError: the rows are not declared public, or the label is not among the columns.
        DataError: a column has no usable type.

    Example:
        >>> import pyarrow as pa
        >>> rows = pa.table({"age": [19, 87], "y": [-1, 1]})
        >>> print(describe(draft_schema(rows, label="y", public=True)))
        age  number: 10 to 90
        y    label, sign: -1 or 1
    """
    require_public("draft_schema", "public=True", public)
    choice("label_kind", label_kind, ("auto", "number", "classes", "sign"))
    most = integer("most_categories", most_categories)
    table = to_arrow(frame)
    if not hasattr(table, "to_batches"):
        table = pyarrow().Table.from_batches([table])
    names = table.schema.names
    if label is not None and label not in names:
        raise ParameterError(f"label {label!r} is not among the columns: {', '.join(names)}.")
    columns = tuple(
        _column(name, table.column(name), rounded, most) for name in names if name != label
    )
    if label is None:
        return Schema(columns)
    return Schema(columns, _label(label, table.column(label), rounded, label_kind))


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
    if kind == "boolean":
        return Flag(name)
    if kind == "text":
        values = _distinct(data)
        if 0 < len(values) <= most:
            return Category(name, tuple(sorted(values)), other=True)
        buckets = 1 << max(1, 2 * len(values) - 1).bit_length()
        return Hashed(name, min(buckets, _MOST_BUCKETS))
    if kind in ("integer", "real"):
        if kind == "integer" and set(_distinct(data, most=3)) <= {0, 1}:
            return Flag(name)
        low, high, missing = _range(data, rounded)
        return Number(name, low, high, "indicator" if missing else None)
    return Ignore(name)


def _label(name: str, data: Any, rounded: bool, wanted: str) -> Label:
    """Guess the rule of a label."""
    kind = family(data.type)
    if wanted == "auto":
        wanted = "number"
        if kind in ("text", "boolean"):
            wanted = "classes"
        elif kind == "integer":
            values = set(_distinct(data, most=_MOST_CLASSES + 1))
            few = 2 <= len(values) <= _MOST_CLASSES
            wanted = "sign" if values == {-1, 1} else "classes" if few else "number"
    if wanted == "classes":
        if kind == "boolean":
            return ClassLabel(name, (False, True))
        return ClassLabel(name, tuple(sorted(_distinct(data))))
    if kind not in ("integer", "real", "boolean"):
        raise DataError(f"the label {name!r} has type {data.type}: it cannot be a {wanted}.")
    if wanted == "sign":
        return SignLabel(name)
    low, high, _ = _range(data, rounded)
    return NumberLabel(name, low, high)


def _distinct(data: Any, most: int | None = None) -> list[Any]:
    """Return the different values of a column, without missing ones; ``most`` of them suffice."""
    values = data.unique()
    values = values if most is None else values[: most + 1]
    found = values.to_pylist()
    return [v for v in found if v is not None and not (isinstance(v, float) and math.isnan(v))]


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
    found = [float(end * unit if exponent >= 0 else end / unit) for end in whole]
    return (min(found[0], low), max(found[1], high))


def describe(schema: Schema) -> str:
    """Return a schema in words, a line for each column."""
    items: list[Column | Label] = [*schema.columns]
    if schema.label is not None:
        items.append(schema.label)
    room = max(len(item.name) for item in items)
    return "\n".join(f"{item.name:<{room}}  {_words(item)}" for item in items)


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
        return f"{label}{item.kind}: {len(item.values)} values ({shown}{more}){tail}"
    if isinstance(item, Hashed):
        return f"hashed: {item.buckets} buckets"
    return {"flag": "flag", "ignore": "ignore", "sign": "label, sign: -1 or 1"}[item.kind]


def read_public(path: str | Path) -> Any:
    """Return a whole CSV or Parquet file, or folder of Parquet files, of public rows.

    Raises:
        DataError: it cannot be read.
    """
    if not is_csv(path):
        return pyarrow().concat_tables(
            [read_whole(file) for file in parquet_files(path)], promote_options="default"
        )
    from pyarrow import csv

    try:
        return csv.read_csv(str(path))
    except (OSError, ValueError) as problem:  # the rows are public: the reason may be told
        raise DataError(f"cannot read {path}: {problem}") from None


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
        if self.ok:
            return f"{head}the columns match the schema."
        return "\n".join([f"{head}the columns do NOT match the schema.", *self.problems])


def check_file(schema: Schema, path: str | Path) -> FileCheck:
    """Compare the names and types of a file's columns with a schema; no row is read.

    A CSV file has names only; its entries are read as the schema says.

    Raises:
        DataError: the file cannot be read.
    """
    if is_csv(path):
        text = pyarrow().string()
        kinds = {name: pyarrow().null() for name in schema.names}
        found = [(name, kinds.get(name, text)) for name in csv_header(path)]
        problems = tuple(f"{path}: {problem}" for problem in mismatches(schema, found))
        return FileCheck(1, None, problems)
    footers = read_footers(path)
    problems = tuple(
        f"{footer.path}: {problem}"
        for footer in footers
        for problem in mismatches(schema, footer.columns)
    )
    return FileCheck(len(footers), sum(footer.rows for footer in footers), problems)
