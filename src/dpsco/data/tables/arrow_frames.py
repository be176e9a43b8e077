"""Data frames as Arrow tables, their Python objects read as what a schema declares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import DataError, MissingExtraError
from ..schema.columns import Wanted, arrow_column, column_kind
from ..schema.schema import Category, ClassLabel, Column, Hashed, Ignore, Label, Schema
from .arrow import pyarrow, reads_numbers, written_numbers


def to_arrow(table: Any, schema: Schema | None = None) -> Any:
    """Return a frame as an Arrow table.

    Args:
        table: the frame.
        schema: says how Python objects are read, and which columns are left out, whatever they
            hold; without one objects are text.

    Raises:
        DataError: it is no frame, or a column has a type that Arrow does not have.
    """
    pa = pyarrow()
    if isinstance(table, (pa.Table, pa.RecordBatch)):
        return table
    try:
        import narwhals as nw
    except ImportError:
        raise MissingExtraError(
            "Data frames need narwhals. Install it with: pip install 'dpsco[frames]'."
        ) from None
    try:
        frame = nw.from_native(table, eager_only=True)
    except Exception:  # names appear twice, a lazy frame, no frame at all
        frame = None
    if frame is None:
        raise DataError(
            f"a {type(table).__name__} cannot be encoded: pass a pandas, Polars or PyArrow table "
            "with distinct column names (call collect() on a lazy one)."
        )
    columns = () if schema is None else schema.columns
    ignored = {column.name for column in columns if isinstance(column, Ignore)}
    names = [name for name in frame.columns if name not in ignored]
    if len(set(map(str, names))) < len(names):
        raise DataError("two columns of the table have the same name, written as text.")
    declared = {} if schema is None else {item.name: item for item in _declared(schema)}
    found = [
        _arrow(frame.get_column(name), name, declared.get(str(name)), schema) for name in names
    ]
    return pa.table(dict(zip(map(str, names), found, strict=True)))


def _declared(schema: Schema) -> list[Column | Label]:
    """Return the columns of a schema, its label included."""
    return [*schema.columns, *([] if schema.label is None else [schema.label])]


def _arrow(series: Any, name: Any, item: Column | Label | None, schema: Schema | None) -> Any:
    """Return a column of a frame; among objects, numbers may be written as text."""
    wanted: Wanted = "text" if item is None else _wanted(item)
    if wanted != "number" or schema is None or schema.decimal is None:
        return arrow_column(series, name, wanted)
    found = arrow_column(series, name, "text")
    if column_kind(series) != "objects":
        return found
    import pyarrow.compute as pc

    numbers = pc.fill_null(arrow_column(series, name, "number"), math.nan)
    written = written_numbers(found, schema)
    return pyarrow().array(np.where(np.isnan(written), numbers.to_numpy(), written))


def _wanted(item: Column | Label) -> Wanted:
    """Return how Python objects in a declared column are read."""
    if isinstance(item, Hashed) or (isinstance(item, (Category, ClassLabel)) and item.labels):
        return "key"
    return "number" if reads_numbers(item) else "text"
