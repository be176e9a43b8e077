"""Tables from data frames: pandas, Polars and PyArrow through one interface.

Whether a column is accepted depends on its name and type alone. A missing value becomes NaN, or a
missing label, and so its row a null row; nothing that a column holds raises an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._validate import shown
from ...errors import DataError, ParameterError
from ..schema.columns import label_column, number_rows, open_frame
from ..schema.encoder import TableEncoder, check_encoder
from .table import MemoryTable, Table, from_arrays


def from_frame(
    frame: Any,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    encoder: TableEncoder | None = None,
) -> Table:
    """Return a table of a data frame's columns.

    Args:
        frame: a pandas, Polars (not lazy) or PyArrow table.
        label: the name of the column of labels: numbers, booleans, text, categories of these, or
            Python objects. The last are read when the table is bounded: strings if the bounds
            declare classes of text, numbers otherwise, and whatever else is in them as missing.
        features: the names of the feature columns, in order; by default all but the label. They
            hold numbers, booleans, or Python objects, of which what is no number is missing.
        encoder: turns columns of any declared kind into numbers. Its schema says what is a
            feature and what is the label, so the two arguments above are then left out.

    Raises:
        DataError: a column is missing, occurs twice or is not of a type that can be used; the
            message names it. No error depends on a value.
        MissingExtraError: narwhals is not installed.

    >>> import polars
    >>> from_frame(polars.DataFrame({"age": [31.0, None], "ill": [True, False]}), label="ill")
    <MemoryTable: 2 x 1, float64, labels: number>
    """
    if encoder is not None:
        if label is not None or features is not None:
            raise ParameterError(
                "from_frame takes label and features from the encoder's schema: leave them out, or "
                "leave out the encoder."
            )
        check_encoder(encoder)
        table = from_arrays(*encoder.encode(frame))
        return table.declare(encoder.label_rule, classes=encoder.classes)
    data = open_frame(frame, "from_frame")
    chosen = _chosen(list(data.columns), label, features)
    rows = number_rows(data, chosen)
    if label is None:
        return MemoryTable(rows)
    return MemoryTable(rows, *label_column(data.get_column(label), label))


def _chosen(names: list[Any], label: str | None, features: Sequence[str] | None) -> list[Any]:
    """Return the feature columns' names, after a check that all columns are there."""
    if isinstance(features, str):
        raise ParameterError(
            f"features must be a list of column names, got {shown(features)}.", parameter="features"
        )
    chosen = [name for name in names if name != label] if features is None else list(features)
    wanted = chosen if label is None else [*chosen, label]
    absent = [repr(name) for name in wanted if name not in names]
    if absent:
        listed = ", ".join(repr(name) for name in names[:20])
        raise DataError(
            f"the frame has no column {', '.join(absent)}; it has {listed}"
            f"{' and more' if len(names) > 20 else ''}."
        )
    twice = sorted({repr(name) for name in wanted if wanted.count(name) > 1})
    if twice:
        raise ParameterError(
            f"a column is a feature once, and not the label too; twice: {', '.join(twice)}."
        )
    if not chosen:
        raise DataError("a table needs at least one feature column, got none.")
    return chosen
