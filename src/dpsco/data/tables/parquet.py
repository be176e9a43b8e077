"""Parquet files and folders as tables that need not fit in memory.

What a table is, its rows, columns and types, is settled from the files' footers before any row is
read. Reading later cannot fail because of a value, only because a file is damaged or was changed.
Errors name the file and the column, and never quote a row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..._validate import shown
from ...errors import DataError, ParameterError
from ..schema.encoder import TableEncoder, check_encoder
from .arrow import family, pyarrow, require, wrong_type
from .origin import check_once, check_unchanged, stamp
from .stream import Decoder, EncodedColumns, PlainColumns, StreamTable

_NUMBERS = ("boolean", "integer", "real")
_BUFFER = 1 << 16  # bytes read ahead for each column; without, whole column chunks are loaded
_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Footer:
    """What is known of a Parquet file before its rows are read."""

    path: Path
    columns: tuple[tuple[str, Any], ...]  # names and Arrow types
    groups: tuple[int, ...]  # rows of each row group
    stamp: tuple[int, int]  # size and time of change, to notice a file that is replaced

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.groups)


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
        raise ParameterError(
            f"path must be that of a file or folder, got {shown(path)}.", parameter="path"
        )
    footers = read_footers(path)
    decoder = decoder_of(footers, features, label, encoder)
    files = ParquetFiles(footers)
    if files.rows == 0:
        raise DataError(f"{path} has no rows.")
    return StreamTable(str(path), files, decoder, spill)


def decoder_of(
    footers: Sequence[Footer],
    features: Sequence[str] | None,
    label: str | None,
    encoder: TableEncoder | None,
) -> Decoder:
    """Return what reads the rows of some files; refuse columns that are missing or do not fit.

    Arguments otherwise, and errors, as in `from_parquet`.
    """
    if encoder is None:
        decoder: Decoder = _plain(footers, features, label)
    else:
        check_encoder(encoder)
        for footer in footers:
            require(encoder.schema, footer.columns, f"the file {footer.path}", label=True)
        decoder = EncodedColumns(encoder)
    same_types(footers, decoder.columns)
    return decoder


def _plain(
    footers: Sequence[Footer], features: Sequence[str] | None, label: str | None
) -> PlainColumns:
    """Choose the columns of numbers; refuse others by name, file and type."""
    first = footers[0]
    if isinstance(features, str):
        raise ParameterError(
            f"features must be a list of names, got the text {shown(features)}.",
            parameter="features",
        )
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
            f"features must be a list of column names, got {type(features).__name__}.",
            parameter="features",
        ) from None


def _one_column(footer: Footer, name: str) -> None:
    """Refuse a column that is not in a file exactly once."""
    times = sum(result == name for result, _ in footer.columns)
    if times != 1:
        state = "no column" if times == 0 else f"{times} columns"
        known = ", ".join(result for result, _ in footer.columns)
        raise DataError(f"the file {footer.path} has {state} {name!r}. Its columns: {known}.")


def same_types(footers: Sequence[Footer], columns: Sequence[str]) -> None:
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


def parquet_files(path: str | Path) -> list[Path]:
    """Return a file, or the Parquet files of a folder and its sub-folders sorted by name.

    Files and folders whose names begin with "." or "_" are left out: other programs keep their
    notes there.

    Raises:
        DataError: there is no such file, or none in the folder, or one is there twice.
    """
    root = Path(path)
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise DataError(f"there is no file or folder {root}.")
    result = [
        file for file in root.rglob("*") if file.suffix.lower() in _PARQUET and file.is_file()
    ]
    shown = [
        file
        for file in result
        if not any(part.startswith((".", "_")) for part in file.relative_to(root).parts)
    ]
    if not shown:
        raise DataError(f"the folder {root} has no file whose name ends in .parquet or .pq.")
    check_once(shown)
    return sorted(shown)


def read_footers(path: str | Path) -> list[Footer]:
    """Return the footers of a file, or of all Parquet files of a folder.

    Raises:
        DataError: a file is not Parquet, is truncated or damaged.
    """
    return [_footer(file) for file in parquet_files(path)]


def _footer(path: Path) -> Footer:
    """Read one footer."""
    with opened(path) as file:
        with open(path, "rb") as raw:
            if raw.read(4) != b"PAR1":  # the footer is whole, what is before it is not
                raise ValueError
        metadata, schema = file.metadata, file.schema_arrow
        groups = tuple(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
        columns = tuple(zip(schema.names, schema.types, strict=True))
    return Footer(path, columns, groups, stamp(path))


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a Parquet file; what goes wrong, then or later, becomes an error that names the file."""
    pyarrow()
    from pyarrow import parquet

    kind = ""
    try:
        with parquet.ParquetFile(str(path), buffer_size=_BUFFER, pre_buffer=False) as file:
            yield file
    except DataError:
        raise
    except (OSError, ValueError, NotImplementedError, EOFError) as problem:
        kind = type(problem).__name__
    if kind:
        refusal = DataError(
            f"cannot read {path}: it is not a Parquet file, is truncated or damaged, changed while "
            f"it was read, or uses a feature that this PyArrow does not have ({kind})."
        )
        try:
            raise refusal
        finally:  # what PyArrow said may quote a value: not even the context may hold it
            refusal.__context__ = None


def read_batches(
    footer: Footer, start: int, stop: int, columns: Sequence[str], rows: int
) -> Iterator[Any]:
    """Yield the rows start to stop of a file in record batches of at most ``rows`` rows.

    Row groups that hold none of them are skipped; of a large row group only a batch is in memory.

    Raises:
        DataError: the file is not the one whose footer was read, or reading fails on the way.
    """
    begin, skip = 0, 0
    chosen: list[int] = []
    for number, size in enumerate(footer.groups):
        if begin < stop and start < begin + size:
            if not chosen:
                skip = start - begin
            chosen.append(number)
        begin += size
    if not chosen:
        return
    wanted, expected = stop - start, _same(footer)
    with opened(footer.path) as file:
        for batch in file.iter_batches(batch_size=rows, row_groups=chosen, columns=list(columns)):
            part = batch.slice(skip, wanted)
            skip = max(0, skip - len(batch))
            wanted -= len(part)
            if expected != stamp(footer.path):  # somebody may go on long after the last batch
                break
            if len(part):
                yield part
            if not wanted:
                break
    if wanted or expected != stamp(footer.path):
        raise DataError(f"the file {footer.path} changed while it was read.")


def _same(footer: Footer) -> tuple[int, int]:
    """Return the stamp of a file, which must be that of its footer."""
    check_unchanged([(footer.path, footer.stamp)])
    return footer.stamp


def read_whole(path: Path) -> Any:
    """Return a Parquet file as one table."""
    with opened(path) as file:
        return file.read()
