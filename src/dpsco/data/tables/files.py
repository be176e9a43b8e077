"""Files of a table: which they are, what their footers say, reading them batch by batch.

Everything that can be known of a Parquet file before its rows are read stands in its footer: row
counts, column names, types. Errors name the file and the column, and never quote a row.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import DataError
from .arrow import pyarrow

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


def is_csv(path: str | Path) -> bool:
    """Return whether a path is that of a CSV file, by its name."""
    return Path(path).suffix.lower() == ".csv"


def parquet_files(path: str | Path) -> list[Path]:
    """Return a file, or the Parquet files of a folder and its sub-folders sorted by name.

    Files and folders whose names begin with "." or "_" are left out: other programs keep their
    notes there.

    Raises:
        DataError: there is no such file, or none in the folder.
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


def stamp(path: Path) -> tuple[int, int]:
    """Return size and time of change of a file."""
    try:
        result = os.stat(path)
    except OSError:
        raise DataError(f"the file {path} is gone.") from None
    return result.st_size, result.st_mtime_ns


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
    if stamp(footer.path) != footer.stamp:
        raise DataError(f"the file {footer.path} changed after its footer was read.")
    return footer.stamp


def read_whole(path: Path) -> Any:
    """Return a Parquet file as one table."""
    with opened(path) as file:
        return file.read()


def require_file(path: str | Path) -> None:
    """Refuse a CSV file that is not there, a folder, and a pipe, which would be waited for.

    Raises:
        DataError: there is no such file, or it is a folder, a pipe, a socket or a device.
    """
    if os.path.isdir(path):
        raise DataError(
            f"{path} is a folder: from_csv reads one file, and from_parquet folders of Parquet "
            "files."
        )
    if not os.path.exists(path):
        raise DataError(f"there is no file {path}.")
    if not os.path.isfile(path):
        raise DataError(f"cannot read {path}: it is no regular file.")


def csv_header(path: str | Path) -> list[str]:
    """Return the names in the first line of a CSV file; what follows is not looked at.

    Raises:
        DataError: there is no such file, or it begins with no line of UTF-8 text.
    """
    require_file(path)
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            names = next(csv.reader(file))
        "".join(names).encode()  # fails if the names themselves are no UTF-8
        return names
    except (OSError, UnicodeError, csv.Error, StopIteration):
        pass  # it may quote the line, which may be a row: no error made here may hold on to it
    raise DataError(
        f"cannot read a header of column names from {path}: its first line must be UTF-8 text."
    )
