"""Parquet files and folders as tables that need not fit in memory.

What a table is, its rows, columns and types, is settled from the files' footers before any row is
read. Reading later cannot fail because of a value, only because a file is damaged or was changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..._validate import shown
from ...errors import DataError, ParameterError
from ..schema.encoder import TableEncoder, check_encoder
from .arrow import family, pyarrow, require, wrong_type
from .files import Footer, read_batches, read_footers
from .stream import Decoder, EncodedColumns, PlainColumns, StreamTable

_NUMBERS = ("boolean", "integer", "real")


class ParquetFiles:
    """The rows of several Parquet files, one after the other."""

    def __init__(self, footers: Sequence[Footer]) -> None:
        self._footers = tuple(footers)
        self.rows = sum(footer.rows for footer in footers)
        self._ends = np.cumsum([size for footer in footers for size in footer.groups])
        self.stamped = tuple((footer.path, footer.stamp) for footer in footers)

    def batches(self, start: int, stop: int, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Yield the rows from ``start`` to ``stop``, at most ``size`` at a time."""
        begin = 0
        for footer in self._footers:
            first, last = max(start - begin, 0), min(stop - begin, footer.rows)
            if first < last:
                yield from read_batches(footer, first, last, columns, size)
            begin += footer.rows

    def end_row(self, stop: int) -> int:
        """Return the end of the row group of the row before ``stop``."""
        return int(self._ends[np.searchsorted(self._ends, stop)])


def from_parquet(
    path: str | Path,
    *,
    features: Sequence[str] | None = None,
    label: str | None = None,
    encoder: TableEncoder | None = None,
    spill: str | Path | None = None,
) -> StreamTable:
    """Return a table of the rows of a Parquet file, or of all Parquet files of a folder.

    Files of a folder follow each other by name. Only footers are read here. Missing numbers are
    NaN, so that `Bounds.apply` makes their rows null; an encoder has a rule of its own for them.

    Args:
        path: a file, or a folder with files named ``*.parquet`` or ``*.pq``.
        features: names of the columns to use, which hold numbers; all but the label if not given.
        label: name of the label's column, which holds numbers or text; None if there is none.
        encoder: reads columns of any kind as its schema says, label included.
        spill: a folder for ``bounded(order="shuffled")``: the clipped rows, which are private, are
            written there shuffled, to a file that vanishes when the source is closed.

    Raises:
        DataError: a file cannot be read, a column is missing, of the wrong type or of different
            types in different files, or there are no rows. The message names file and column.
        ParameterError: both an encoder and columns were given.
    """
    pyarrow()
    if encoder is not None and (features is not None or label is not None):
        raise ParameterError(
            "from_parquet takes features and label, or an encoder whose schema names them, not "
            "both. Leave out features and label."
        )
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise ParameterError(f"path must be that of a file or folder, got {shown(path)}.")
    footers = read_footers(path)
    if encoder is None:
        decoder: Decoder = _plain(footers, features, label)
    else:
        check_encoder(encoder)
        for footer in footers:
            require(encoder.schema, footer.columns, f"the file {footer.path}", label=True)
        decoder = EncodedColumns(encoder)
    _same_types(footers, decoder.columns)
    files = ParquetFiles(footers)
    if files.rows == 0:
        raise DataError(f"{path} has no rows.")
    return StreamTable(str(path), files, decoder, spill)


def _plain(
    footers: Sequence[Footer], features: Sequence[str] | None, label: str | None
) -> PlainColumns:
    """Choose the columns of numbers; refuse others by name, file and type."""
    first = footers[0]
    if isinstance(features, str):
        raise ParameterError(f"features must be a list of names, got the text {shown(features)}.")
    names = [name for name, _ in first.columns if name != label]
    if features is not None:
        names = _listed(features)
    if not names:
        raise DataError(
            f"a table needs a feature: features is empty, or {first.path} has no column but the "
            "label."
        )
    wanted = names if label is None else [*names, label]
    if len(set(wanted)) < len(wanted):
        twice = ", ".join(sorted({repr(name) for name in wanted if wanted.count(name) > 1}))
        raise ParameterError(f"a column is a feature once, and not the label too; twice: {twice}.")
    for footer in footers:
        for name in wanted:
            _one_column(footer, name)
    kinds = dict(first.columns)
    for name in wanted:
        text = name == label and family(kinds[name]) == "text"
        if family(kinds[name]) not in _NUMBERS and not text:
            expected = "numbers or text" if name == label else "numbers"
            problem = wrong_type(name, expected, str(kinds[name]))
            raise DataError(
                f"in {first.path} {problem}. Leave it out of features, or encode it with "
                "encoder=TableEncoder(schema)."
            )
    return PlainColumns(
        [(name, kinds[name]) for name in names], None if label is None else (label, kinds[label])
    )


def _listed(features: Any) -> list[str]:
    """Return the names that were given."""
    try:
        return list(features)
    except TypeError:
        raise ParameterError(
            f"features must be a list of column names, got {type(features).__name__}."
        ) from None


def _one_column(footer: Footer, name: str) -> None:
    """Refuse a column that is not in a file exactly once."""
    times = sum(result == name for result, _ in footer.columns)
    if times != 1:
        state = "no column" if times == 0 else f"{times} columns"
        known = ", ".join(result for result, _ in footer.columns)
        raise DataError(f"the file {footer.path} has {state} {name!r}. Its columns: {known}.")


def _same_types(footers: Sequence[Footer], columns: Sequence[str]) -> None:
    """Refuse files whose columns differ in type, however each text or category is stored."""
    first = dict(footers[0].columns)
    for footer in footers[1:]:
        kinds = dict(footer.columns)
        for name in columns:
            if _stored(kinds[name]) != _stored(first[name]):
                raise DataError(
                    f"column {name!r} is {kinds[name]} in {footer.path}, but {first[name]} in "
                    f"{footers[0].path}. Write all files with the same types."
                )


def _stored(kind: Any) -> str:
    """Return a type's name without the ways in which Parquet writers store text and categories."""
    if pyarrow().types.is_dictionary(kind):
        return _stored(kind.value_type)
    return "text" if family(kind) == "text" else str(kind)
