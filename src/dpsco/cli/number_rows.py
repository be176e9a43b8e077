"""Rows of a file of plain numbers, for models without a schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import closest
from ..data.schema import columns
from ..data.schema.draft import read_public
from ..data.tables.arrow import codes, family, numbers
from ..data.tables.table_file import check_kind
from ..errors import DataError
from ..models import SavedModel

Floats = NDArray[np.float64]


def number_rows(
    saved: SavedModel, path: Path, column: str | None = None, *, ignored: Sequence[str] = ()
) -> tuple[Floats, Floats | None]:
    """Return rows of numbers, and labels where their ``column`` is named.

    Columns that are ``ignored`` are no features, if the model does not know their names.

    Raises:
        DataError: the file's columns are not the model's.
    """
    check_kind(path)
    table = read_public(path)
    names = table.schema.names
    features = saved.feature_names or tuple(
        name for name in names if name not in (column, *ignored)
    )
    absent = [name for name in (*features, *([column] if column else [])) if name not in names]
    if absent:
        raise DataError(
            f"{path} has no column {absent[0]!r}; it has {', '.join(names)}."
            f"{closest(absent[0], names)}"
        )
    if len(features) != saved.model.d:
        raise DataError(
            f"{path} has {len(features)} columns of features, the model has {saved.model.d}."
        )
    X = np.asarray(
        columns.number_rows(columns.open_frame(table, "predict"), list(features)), dtype=float
    )
    if column is None:
        return X, None
    return X, _labels(table.column(column), saved)


def named_columns(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return columns of a file by their names.

    Raises:
        DataError: the file does not have one of them.
    """
    if not names:
        return {}
    check_kind(path)
    table = read_public(path)
    for name in names:
        if name not in table.schema.names:
            meant = closest(name, table.schema.names)
            raise DataError(f"{path} has no column {name!r} to keep.{meant}")
    return {name: table.column(name) for name in names}


def _labels(column: Any, saved: SavedModel) -> Floats:
    """Return labels as numbers, or as places among the model's classes."""
    parts, classes = column.chunks, saved.model.classes
    expected = "text" if classes is not None and isinstance(classes[0], str) else "numbers"
    kind = family(column.type)
    if (kind == "text") != (expected == "text") or kind == "other":
        raise DataError(f"the label's column must hold {expected}, its type is {column.type}.")
    if classes is None:
        return np.concatenate([np.empty(0), *map(numbers, parts)])
    places = [codes(part, classes)[0] for part in parts]
    codes_of_rows = np.concatenate([np.empty(0, dtype=np.int64), *places])
    return np.where(codes_of_rows >= 0, codes_of_rows.astype(float), np.nan)
