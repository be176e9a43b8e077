"""Files written anew in a uniformly random order, before anything is fitted on them.

Where many machines read the rows, nobody can shuffle them during a fit. `shuffle_files` does so
once, beforehand, on one machine and out of core: each row goes to a bucket that is drawn for it,
and each bucket is put in a random order (`dpsco.data.tables.shuffle` says why every order is then
equally likely). Random numbers are secret and do not look at the rows.

Rows wait in files without a name (`dpsco.data.tables.spill`) as they are, not clipped. Memory is
a few buckets, whatever the number of rows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..._validate import refusal, shown
from ...errors import DataError, ParameterError
from ...files.disk import sync_folder
from ...files.journal import recover
from ...files.writing import Draft, check_regular, commit, drop, explained, mode_of_copy
from ...kernels.pairwise import SUM_LEAF
from ...privacy.randomness import Randomness, Stream
from ..schema.schema import Schema
from .arrow import family, pyarrow, reads_numbers
from .csvform import is_csv
from .origin import check_once
from .parquet import Footer, ParquetFiles, opened, parquet_files, read_footers, same_types
from .spill import Buckets
from .stream import Files
from .table_file import TableFile, open_file

Paths = str | Path | Sequence[str | Path]
Progress = Callable[[int, int], None]  # rows read or written, twice the rows in all

_BUCKET_BYTES = 1 << 26  # of a bucket, which is put in order in memory
_EXTENT_BYTES = 1 << 14  # about the least that is written at a time for a bucket
_GROUP_BYTES = 1 << 25  # of a row group, decoded: what a worker reads at once
_FILE_BYTES = 1 << 30  # of each file of a folder, decoded
_MOST_FILES = 256  # of a folder
_TEXT = 64  # bytes of a text that are reckoned with where its length must not show
_MOST_GROUP_ROWS = 1 << 20
_BATCH = 1 << 16  # rows read at a time
_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class ShuffledFiles:
    """What `shuffle_files` has written; public facts only.

    Attributes:
        rows: their number.
        files: Parquet files, in the order in which they are read.
        group_rows: rows of each row group, but for the last one.
    """

    rows: int
    files: tuple[Path, ...]
    group_rows: int


def shuffle_files(
    inputs: Paths,
    output: str | Path,
    *,
    schema: Schema | None = None,
    spill: str | Path | None = None,
    randomness: Randomness | None = None,
    progress: Progress | None = None,
) -> ShuffledFiles:
    """Write the rows of some files anew, as Parquet, in a uniformly random order.

    All files appear once everything has gone well, or none. Files that are there are not replaced.
    Nobody may read the new files who may not read all of the old ones.

    Args:
        inputs: Parquet files, folders of them, or CSV files, of the same columns.
        output: a file whose name ends in .parquet or .pq; or a new folder, which gets files of
            about a gibibyte.
        schema: says how CSV files are read, which have no types: numbers become float64, all else
            text. With a schema only the columns that it reads are kept.
        spill: a folder for the rows meanwhile, private and not clipped, in files without a name;
            the system's own by default.
        randomness: where the order comes from; by default the operating system.
        progress: called with (rows read and written, twice their number).

    Raises:
        DataError: a file cannot be read, they differ in their columns, there are no rows, the
            output is there already, or a disk is too full.
        ParameterError: an argument has the wrong type.

    Example::

        dpsco.data.shuffle_files("rows/", "shuffled/")
        table = dpsco.data.from_parquet("shuffled/", label="y")
        dpsco.run(plan, table, order="given")
    """
    pyarrow()
    files = _listed(inputs)
    place = Path(output)
    rows = _open(files, schema)
    folder = Path(tempfile.gettempdir()) if spill is None else Path(spill)
    _check_place(place, inputs, files)
    _check_room(folder, place, rows)
    stream = (randomness or Randomness.secure()).child("order of the rows of files")
    output_files = _Output(place, rows, mode_of_copy(files))
    with output_files as result, _explained(folder), _Shuffle(folder, rows) as buckets:
        buckets.fill(stream, progress)
        result.write(buckets.shuffled(stream, progress))
        result.commit()
    return ShuffledFiles(rows.count, tuple(result.places), rows.group_rows)


@dataclass(frozen=True)
class _Rows:
    """The rows of all inputs, and how they are stored."""

    files: tuple[Files, ...]
    types: tuple[tuple[str, Any], ...]  # of each column that is kept
    size: int  # bytes of all rows in memory, about

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(each.rows for each in self.files)

    @property
    def width(self) -> int:
        """Bytes of a row by its types alone, for what is public."""
        return sum(_TEXT if (size := _fixed_size(kind)) is None else size for _, kind in self.types)

    @property
    def schema(self) -> Any:
        """The columns, as Arrow describes them."""
        return pyarrow().schema([pyarrow().field(name, kind) for name, kind in self.types])

    @property
    def group_rows(self) -> int:
        """Rows of a row group: whole leaves, a power of two of them."""
        most = min(_GROUP_BYTES // self.width, _MOST_GROUP_ROWS) // SUM_LEAF
        return SUM_LEAF << max(most.bit_length() - 1, 0)

    def batches(self) -> Iterator[Any]:
        """Yield all rows, with the columns' types."""
        pa = pyarrow()
        names, schema = [name for name, _ in self.types], self.schema
        for each in self.files:
            for batch in each.batches(0, each.rows, names, _BATCH):
                columns = [batch.column(name).cast(kind) for name, kind in self.types]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


class _Shuffle:
    """All rows on their way through buckets on disk."""

    def __init__(self, folder: Path, rows: _Rows) -> None:
        count = max(1, -(-rows.size // _BUCKET_BYTES))
        self._rows, self._buckets = rows, Buckets(folder, count)
        self._piece = 1 + max(_BUCKET_BYTES, count * _EXTENT_BYTES) * rows.count // rows.size

    def fill(self, stream: Stream, progress: Progress | None) -> None:
        """Draw a bucket for each row, and write it there."""
        done = 0
        for piece in _pieces(self._rows.batches(), self._piece):
            chosen = stream.integers(len(self._buckets), len(piece))
            order = np.argsort(chosen, kind="stable")
            sizes = np.bincount(chosen, minlength=len(self._buckets))
            ends = np.cumsum(sizes)
            (ranked,) = piece.take(order).combine_chunks().to_batches()
            for k in np.flatnonzero(sizes):
                part = ranked.slice(int(ends[k] - sizes[k]), int(sizes[k]))
                self._buckets.append(int(k), part.serialize())
            done += len(piece)
            if progress is not None:
                progress(done, 2 * self._rows.count)

    def shuffled(self, stream: Stream, progress: Progress | None) -> Iterator[Any]:
        """Yield the rows of each bucket in a random order."""
        pa, done = pyarrow(), self._rows.count
        for k in range(len(self._buckets)):
            parts = [
                pa.ipc.read_record_batch(pa.py_buffer(part), self._rows.schema)
                for part in self._buckets.read(k)
            ]
            table = pa.Table.from_batches(parts, self._rows.schema)
            if len(table):
                yield table.take(stream.permutation(len(table)))
            done += len(table)
            if progress is not None:
                progress(done, 2 * self._rows.count)

    def __enter__(self) -> _Shuffle:
        return self

    def __exit__(self, *_: object) -> None:
        self._buckets.close()


class _Output:
    """Parquet files that appear together; leaving the ``with`` block without `commit` drops them.

    Args:
        place: a file, or a folder that is made.
        rows: what will be written.
        mode: who may read the files.
    """

    def __init__(self, place: Path, rows: _Rows, mode: int) -> None:
        self._folder = None if place.suffix.lower() in _PARQUET else place
        self._rows, self._mode = rows, mode
        groups = -(-rows.count // rows.group_rows)
        self._groups = groups  # of each file
        self.places = [place]
        if self._folder is not None:
            decoded = rows.count * rows.width
            files = min(max(1, -(-decoded // _FILE_BYTES)), _MOST_FILES, groups)
            self._groups = -(-groups // files)
            names = range(-(-groups // self._groups))
            self.places = [place / f"part-{k:05d}.parquet" for k in names]
        self._drafts: list[Draft] = []
        self._new = False  # whether the folder was made here

    def write(self, tables: Iterator[Any]) -> None:
        """Write all rows, a row group at a time."""
        from pyarrow import parquet

        groups = _pieces(tables, self._rows.group_rows, exact=True)
        text = [name for name, kind in self._rows.types if not pyarrow().types.is_floating(kind)]
        for draft in self._drafts:
            options = {"use_dictionary": text, "write_statistics": False}
            with (
                _explained(draft.place),
                parquet.ParquetWriter(str(draft.path), self._rows.schema, **options) as writer,
            ):
                for group in islice(groups, self._groups):
                    writer.write_table(group, row_group_size=self._rows.group_rows)

    def commit(self) -> None:
        """Put every file in its place."""
        commit(self._drafts)
        self._new = False
        if self._folder is not None:
            sync_folder(self._folder.parent)

    def __enter__(self) -> _Output:
        try:
            if self._folder is not None:
                with explained(self._folder):
                    self._new = not self._folder.exists()
                    self._folder.mkdir(exist_ok=True)
            for place in self.places:
                self._drafts.append(Draft(place, mode=self._mode))
                self._drafts[-1].create()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        drop(self._drafts)
        if self._new and self._folder is not None and self._folder.is_dir():
            os.rmdir(self._folder)


def _pieces(batches: Iterator[Any], size: int, *, exact: bool = False) -> Iterator[Any]:
    """Yield the same rows as tables of at least ``size`` rows, or exactly so many; the last fewer.

    Args:
        batches: record batches or tables.
        size: rows.
        exact: whether longer ones are cut.
    """
    pa = pyarrow()
    waiting: list[Any] = []
    count = 0
    for batch in batches:
        waiting.append(
            pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        )
        count += len(batch)
        while count >= size:
            table = pa.concat_tables(waiting)
            cut = size if exact else count
            yield table.slice(0, cut)
            waiting, count = [table.slice(cut)], count - cut
    if count:
        yield pa.concat_tables(waiting)


def _listed(inputs: Paths) -> list[Path]:
    """Return the files that are read, each once; folders give theirs.

    Raises:
        DataError: a file or folder is not there, or comes twice: its rows would count twice.
        ParameterError: these are no paths.
    """
    listed = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    if not isinstance(listed, Sequence) or not all(
        isinstance(each, (str, os.PathLike)) and str(each) for each in listed
    ):
        raise ParameterError(
            f"inputs must be a path or a list of paths, got {shown(inputs)}.", parameter="inputs"
        )
    if not listed:
        raise ParameterError("inputs names no file.", parameter="inputs")
    files: list[Path] = []
    for each in map(Path, listed):
        recover(each)
        files.extend([each] if is_csv(each) else parquet_files(each))
    check_once(files)
    return files


def _open(files: Sequence[Path], schema: Schema | None) -> _Rows:
    """Return the rows of all files, whose columns are the same."""
    described = [] if schema is None else [open_file(file, schema, label=False) for file in files]
    for file, each in zip(files, described, strict=False):
        if each.columns != described[0].columns:
            raise _other_columns(file, files[0])
    csv = [is_csv(file) for file in files]
    if any(csv) and not all(csv):
        raise DataError(
            "Parquet files and CSV files cannot be shuffled together: they differ in their types. "
            "Shuffle the CSV files with a schema first."
        )
    if not all(csv):
        footers = [footer for file in files for footer in read_footers(file)]
        return _parquet_rows(footers, described[0].columns if described else None)
    if not described:
        raise DataError(
            f"{files[0]} is a CSV file, which has no types. Pass the schema that says how its "
            "columns are read, or write it as Parquet."
        )
    return _csv_rows(described)


def _csv_rows(files: Sequence[TableFile]) -> _Rows:
    """Return the rows of CSV files, read as their schema says."""
    pa, items = pyarrow(), {item.name: item for item in files[0].schema.items}
    types = tuple(
        (name, pa.float64() if reads_numbers(items[name]) else pa.string())
        for name in files[0].columns
    )
    size = sum(16 * len(types) * each.rows + _text_bytes(each.path) for each in files)
    return _Rows(tuple(each.files for each in files), types, size)


def _text_bytes(path: Path) -> int:
    """Return about how many bytes of text a CSV file holds, compressed or not."""
    return path.stat().st_size * (8 if path.suffix.lower() == ".gz" else 1)


def _parquet_rows(footers: Sequence[Footer], columns: Sequence[str] | None) -> _Rows:
    """Return the rows of Parquet files, with all columns or some."""
    names = [name for name, _ in footers[0].columns] if columns is None else columns
    for footer in footers:
        there = [name for name, _ in footer.columns]
        if len(set(there)) < len(there):
            raise DataError(f"the file {footer.path} has several columns of the same name.")
        if columns is None and set(there) != set(names):
            raise _other_columns(footer.path, footers[0].path)
    same_types(footers, names)
    count = sum(footer.rows for footer in footers)
    if count == 0:
        raise DataError(f"{footers[0].path} has no rows, nor has any other file.")
    kinds = dict(footers[0].columns)
    types = tuple((name, _plain(kinds[name])) for name in names)
    fixed = [_fixed_size(kind) for _, kind in types]
    size = count * sum(bytes_each for bytes_each in fixed if bytes_each is not None)
    if None in fixed:
        size += 32 * fixed.count(None) * count
        size += sum(_decoded_bytes(footer.path) for footer in footers)
    return _Rows((ParquetFiles(footers),), types, max(1, size))


def _fixed_size(kind: Any) -> int | None:
    """Return how many bytes a value of a type takes; None where that depends on the value."""
    if family(kind) in ("boolean", "integer", "real") or pyarrow().types.is_temporal(kind):
        return -(-int(kind.bit_width) // 8)
    return None


def _plain(kind: Any) -> Any:
    """Return the type in which a column is kept: text for categories, which differ by file."""
    types = pyarrow().types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    view = getattr(types, "is_string_view", lambda _: False)
    return pyarrow().large_string() if view(kind) else kind


def _decoded_bytes(path: Path) -> int:
    """Return how large a file's columns are before compression."""
    with opened(path) as file:
        groups = range(file.metadata.num_row_groups)
        return sum(file.metadata.row_group(k).total_byte_size for k in groups)


def _other_columns(file: Path, first: Path) -> DataError:
    """Return the error for files that do not go together."""
    return DataError(
        f"{file} does not have the same columns as {first}. Write all files with the same columns."
    )


def _check_place(place: Path, inputs: Paths, files: Sequence[Path]) -> None:
    """Refuse an output that is there, or would become a part of the inputs."""
    with explained(place):
        recover(place)
        if place.suffix.lower() in _PARQUET:
            check_regular(place)
        there = os.path.lexists(place)
        if place.is_dir() and place.suffix.lower() not in _PARQUET:
            there = any(not name.startswith(".") for name in os.listdir(place))
    if is_csv(place):
        raise DataError(f"{place}: shuffled rows are written as Parquet. Name a .parquet file.")
    if there:
        raise DataError(f"{place} is there already, and is not replaced. Choose another name.")
    listed = [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs
    for each in map(Path, listed):
        if each.is_dir() and Path(os.path.realpath(place)).is_relative_to(os.path.realpath(each)):
            raise DataError(
                f"{place} lies in the folder {each}, which is read: afterwards its rows would be "
                "there twice. Choose a place outside of it."
            )


def _check_room(folder: Path, place: Path, rows: _Rows) -> None:
    """Refuse disks that are too full, before any row is read."""
    if not folder.is_dir():
        raise refusal("spill", f"must be an existing folder, got {folder}.")
    twice = place.parent.is_dir() and place.parent.stat().st_dev == folder.stat().st_dev
    free = shutil.disk_usage(folder).free
    if free < rows.size * (2 if twice else 1):
        raise DataError(
            f"the disk is too full: {folder} has {free:,} bytes free, fewer than the rows take "
            "while they are shuffled. Free some, or name a folder on another disk as spill."
        )


@contextmanager
def _explained(where: Path) -> Iterator[None]:
    """Say what the system or Arrow refuses, without a word about rows."""
    try:
        yield
        return
    except DataError:
        raise
    except OSError as problem:
        refused = DataError(
            f"cannot write the rows to {where}: {problem.strerror or 'the disk has failed'}."
        )
    except pyarrow().ArrowException as problem:  # it may quote a value
        kind = type(problem).__name__
        refused = DataError(f"cannot write the rows to {where}: Arrow has refused them ({kind}).")
    try:
        raise refused
    finally:  # what Arrow said may quote a value: not even the context may hold it
        refused.__context__ = None
