"""A file that a schema describes: its rows batch by batch, or as the private table of a fit.

`open_file` checks the columns and counts the rows. `private_table` decides, by public numbers
alone, whether the rows are loaded into memory or stay on disk.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _validate
from ...errors import DataError
from ...files.journal import recover
from ...kernels.rows import Rows
from ...privacy.randomness import Randomness
from ..block import join_rows
from ..bounds import Bounds
from ..schema.encoder import TableEncoder
from ..schema.schema import Category, Ignore, Schema
from ..source import Source
from .csvfile import CsvFile, csv_header
from .csvform import CsvForm, is_csv
from .origin import origin_of, stamp
from .parquet import ParquetFiles, from_parquet, parquet_files, read_footers
from .stream import EncodedColumns, Files, StreamTable
from .table import Order, Table, labelled_rows

Progress = Callable[[int, int], None]  # rows done, rows in all

_ENDINGS = (".parquet", ".pq")
_BATCH = 1 << 16  # rows at a time
IN_MEMORY = 1 << 30
"""Bytes of encoded rows up to which a table is loaded; a public number decides."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TableFile:
    """The rows of a file, or of a folder of Parquet files, with the columns of a schema."""

    path: Path
    schema: Schema  # without the label, where the file has none
    files: Files

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.files.rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read."""
        return list(self.schema.names_read)

    def batches(self, progress: Progress | None = None) -> Iterator[Any]:
        """Yield all rows as record batches; ``progress`` hears how many were read."""
        done = 0
        for batch in self.files.batches(0, self.rows, self.columns, _BATCH):
            yield batch
            done += len(batch)
            if progress is not None:
                progress(done, self.rows)

    def encoded(
        self, encoder: TableEncoder, progress: Progress | None = None
    ) -> tuple[Rows, Floats | None]:
        """Return all rows, and the labels if there are any."""
        parts = [encoder.encode_batch(batch) for batch in self.batches(progress)]
        labels = [column for _, column in parts if column is not None]
        return join_rows([rows for rows, _ in parts]), np.concatenate(labels) if labels else None

    def text(self) -> Files | None:
        """Return the same rows of a CSV file as text; None for files whose columns have types.

        A schema in which every column holds text reads every entry as it stands.
        """
        if not is_csv(self.path):
            return None
        columns = (
            item if isinstance(item, Ignore) else Category(item.name, ("",))
            for item in self.schema.items
        )
        form = CsvForm.of(self.path, self.schema)
        return CsvFile(
            self.path,
            Schema(tuple(columns), separator=form.separator, encoding=form.encoding),
        )


def open_file(path: Path, schema: Schema, *, label: bool) -> TableFile:
    """Return the rows of a file whose columns fit a schema; no row is read but to count them.

    Args:
        path: a CSV file, a Parquet file, or a folder of Parquet files.
        schema: what the columns hold.
        label: whether the label must be there; if not, it may be.

    Raises:
        DataError: the file cannot be read, does not fit, or has no rows.
    """
    check_kind(path)
    names = column_names(path, schema)
    if schema.label is not None and not label and schema.label.name not in names:
        schema = replace(schema, label=None)
    if is_csv(path):
        files: Files = CsvFile(path, schema)
        if files.rows == 0:
            raise DataError(f"{path} has no rows.")
    else:
        from_parquet(path, encoder=TableEncoder(schema))  # refuses what does not fit
        files = ParquetFiles(read_footers(path))
    return TableFile(path, schema, files)


def check_kind(path: Path) -> None:
    """Refuse a file of an unknown kind, by its name, and one without a byte.

    Raises:
        DataError: its name has another ending, or it is empty.
    """
    recover(path)
    if path.is_dir():
        return
    ending = path.suffix.lower()
    if ending not in _ENDINGS and not is_csv(path):
        what = f"unknown ending {ending}" if ending else "a name without an ending"
        raise DataError(f"{path}: {what}: use .csv, .tsv (or these with .gz) or .parquet.")
    if path.is_file() and path.stat().st_size == 0:
        raise DataError(f"{path} is empty.")


def private_table(
    file: TableFile,
    encoder: TableEncoder,
    spill: Path | None = None,
    *,
    order: Order = "shuffled",
    once: bool = False,
    progress: Progress | None = None,
) -> Table:
    """Return the table of a fit: in memory, or from disk where it is large.

    Args:
        file: from `open_file`.
        encoder: of the file's schema.
        spill: the folder in which the rows of a large table are shuffled, through files without a
            name; the system's own by default. Rows in the order of the file need none.
        order: "shuffled" shuffles the rows, "given" keeps the order of the file.
        once: whether each row is read once; in the order of the file such a table stays on disk,
            whatever its size.
        progress: called with (rows read, rows in all) while rows are loaded.

    Raises:
        ParameterError: ``spill`` is no folder, or has no room to shuffle.
    """
    large = _is_large(file.rows, encoder)
    stays = order == "given" and once
    folder = None
    if large and order == "shuffled":
        folder = Path(tempfile.gettempdir()) if spill is None else spill
        _check_room(folder, 2 * file.rows * (_numbers(encoder) + 4) * 8)
    table = StreamTable(str(file.path), file.files, EncodedColumns(encoder), folder)
    if large or stays:
        return table
    rows = labelled_rows(*file.encoded(encoder, progress))
    return rows.declare(encoder.label_rule, classes=encoder.classes, origin=table.origin)


def _numbers(encoder: TableEncoder) -> int:
    """Return how many numbers an encoded row takes."""
    return 2 * encoder.entries if encoder.sparse else encoder.width


def _is_large(rows: int, encoder: TableEncoder) -> bool:
    """Return whether so many rows are left on disk, by public numbers."""
    return rows * _numbers(encoder) * encoder.dtype.itemsize > IN_MEMORY


class UnreadTable(Table):
    """The table of a fit that is over: of its file only the name, size and time are looked at.

    Should its rows be asked for all the same, they are read as `private_table` does.

    Args:
        path: a CSV file, a Parquet file, or a folder of Parquet files.
        encoder: reads it.
        rows: how many there are.
        spill: as in `private_table`.
    """

    def __init__(self, path: Path, encoder: TableEncoder, rows: int, spill: Path | None) -> None:
        decoder = EncodedColumns(encoder)
        super().__init__(rows, decoder.width, decoder.dtype, decoder.labels)
        self._path, self._encoder, self._spill = path, encoder, spill
        self._large = _is_large(rows, encoder)
        files = [path] if is_csv(path) else parquet_files(path)
        origin = origin_of(((file, stamp(file)) for file in files), decoder.reading)
        self.declare(encoder.label_rule, classes=encoder.classes, origin=origin)

    @property
    def shuffle(self) -> str:
        """How `private_table` has its rows shuffled."""
        return f"shuffled on disk as {self.dtype}" if self._large else super().shuffle

    def _source(self, bounds: Bounds, shuffle: Randomness | None) -> Source:
        file = open_file(self._path, self._encoder.schema, label=True)
        if file.rows != self.n:
            raise DataError(f"{self._path} has {file.rows} rows in the place of {self.n}.")
        order: Order = "given" if shuffle is None else "shuffled"
        table = private_table(file, self._encoder, self._spill, order=order)
        return table.bounded(bounds, order=order, randomness=shuffle)


def _check_room(folder: Path, needed: int) -> None:
    """Refuse a folder that cannot hold the shuffled rows, before anything is paid for."""
    if not folder.is_dir():
        raise _validate.refusal("spill", f"must be an existing folder, got {folder}.")
    free = shutil.disk_usage(folder).free
    if free < needed:
        text = f"needs about {needed:,} bytes to shuffle rows in {folder}, where {free:,} are free."
        raise _validate.refusal("spill", text, "Name another folder.")


def column_names(path: Path, schema: Schema) -> list[str]:
    """Return the names of a file's columns."""
    if is_csv(path):
        return csv_header(path, CsvForm.of(path, schema))
    return [name for name, _ in read_footers(path)[0].columns]
