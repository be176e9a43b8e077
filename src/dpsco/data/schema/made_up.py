"""Columns that are made up from a schema alone: numbers within ranges, declared categories.

They show what noise does to rows of that shape. Real columns are not uniform, and hang together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .encoder import TableEncoder
from .schema import Category, Column, Date, Flag, Hashed, Ignore, Number, Schema, Text

Uniforms = Callable[[int], Any]
_WORDS = 1000  # different texts of a hashed column, and words of free text
_LENGTH = 8  # words of a free text


def made_up_columns(schema: Schema, rows: int, uniforms: Uniforms) -> dict[str, list[Any]]:
    """Return columns of so many rows, each entry independent and uniform over what is declared.

    Args:
        schema: declares the columns; ignored ones are left out, and so is the label.
        rows: how many.
        uniforms: returns so many numbers between 0 and 1.

    >>> half = lambda count: np.full(count, 0.5)
    >>> made_up_columns(Schema((Number("age", 0, 90), Category("job", ("a", "b")))), 2, half)
    {'age': [45.0, 45.0], 'job': ['b', 'b']}
    """
    return {
        column.name: _entries(column, np.asarray(uniforms(rows)))
        for column in schema.columns
        if not isinstance(column, Ignore)
    }


def made_up_features(encoder: TableEncoder, rows: int, uniforms: Uniforms) -> Any:
    """Return such rows as the encoder makes them."""
    import pyarrow

    columns = made_up_columns(encoder.schema, rows, uniforms)
    return encoder.features(pyarrow.table(columns))


def _entries(column: Column, shares: Any) -> list[Any]:
    """Return entries of one column."""
    if isinstance(column, Number):
        values: list[Any] = (column.low + shares * (column.high - column.low)).tolist()
        return values
    if isinstance(column, Date):
        low, high = (np.datetime64(end, "s") for end in (column.low, column.high))
        steps = (shares * (high - low).astype(float)).astype("timedelta64[s]")
        moments: list[Any] = (low + steps).tolist()
        return moments
    if isinstance(column, Category):
        return _among(column.values, shares)
    if isinstance(column, Flag):
        return _among((False, True), shares)
    assert isinstance(column, (Hashed, Text))
    words = _among(tuple(f"word{k}" for k in range(_WORDS)), shares)
    if isinstance(column, Hashed):
        return words
    return [" ".join(words[k - j] for j in range(_LENGTH)) for k in range(len(words))]


def _among(values: tuple[Any, ...], shares: Any) -> list[Any]:
    places = np.minimum((shares * len(values)).astype(int), len(values) - 1)
    return [values[place] for place in places.tolist()]
