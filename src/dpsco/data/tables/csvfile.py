"""CSV files as tables that need not fit in memory, read as a schema says.

Every entry of a CSV file is text. What a column must hold is declared, so an entry that cannot be
read that way is missing, by the schema's rule for missing entries, and never an error.
"""

from __future__ import annotations

import csv
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..schema.encoder import TableEncoder, check_encoder
from ..schema.schema import Schema
from .arrow import mismatches, pyarrow, reads_numbers
from .csvform import UNDECODED, CsvForm
from .origin import Stamped, stamp
from .stream import EncodedColumns, StreamTable
from .written import numbers_in

_BLOCK = 1 << 20  # bytes parsed at a time


def from_csv(
    path: str | Path, *, encoder: TableEncoder, spill: str | Path | None = None
) -> StreamTable:
    """Return a table of the rows of a CSV file with a header line.

    It is UTF-8 and comma-separated, unless the schema has an ``encoding`` or a ``separator`` or the
    name ends in ``.tsv``; with ``.gz`` at the end it is compressed.
    The file is read once here, to count its rows. An empty entry is missing; so is, where a number
    is declared, whatever is not one (true, false, yes and no count as 1 and 0; the schema's
    ``decimal`` and ``thousands`` say how numbers are written, quoted or not). Empty lines are
    left out, but in a file of one column, where each is a row with a missing entry.

    Args:
        path: the file.
        encoder: its schema says how each column is read.
        spill: a folder for ``bounded(order="shuffled")``, see `from_parquet`.

    Raises:
        DataError: the file cannot be read, its header does not match the schema, a line has too
            many or too few entries, or there are no rows.
    """
    check_encoder(encoder)
    file = CsvFile(Path(path), encoder.schema)
    if file.rows == 0:
        raise DataError(f"{path} has no rows.")
    return StreamTable(str(path), file, EncodedColumns(encoder), spill)


def header_problems(schema: Schema, header: Sequence[str]) -> list[str]:
    """Return, a sentence each, how the first line of a CSV file differs from a schema.

    Where fewer than half of the names that must be there are, the line is taken for a row, and
    nothing of it is quoted.
    """
    needed = set(schema.names_read)
    here = len(needed & set(header))
    if 2 * here >= len(needed):
        pa = pyarrow()
        kinds = {name: pa.null() for name in schema.names}  # text can be read as any of them
        return mismatches(schema, [(name, kinds.get(name, pa.string())) for name in header])
    if {*filter(None, schema.names)} & {*header}:
        what = f"only {here} of the {len(needed)} declared names that must be there stand(s) in "
        what += f"the first line, which has {len(header)} entries"
    else:
        what = f"none of the {len(header)} entries of the first line is a declared name"
    separator = schema.separator
    how = "comma-separated" if separator is None else f"separated by {separator!r}"
    return [
        f"{what}; is there a header line, is it {how}? Say what stands between entries with "
        "separator=';' (--sep ';'). (The line is not shown: it may be a row)"
    ]


class CsvFile:
    """The rows of one CSV file."""

    def __init__(self, path: Path, schema: Schema) -> None:
        pyarrow()
        self._form = CsvForm.of(path, schema)
        self._path, self._header = path, csv_header(path, self._form)
        self._numbers = {item.name for item in schema.items if reads_numbers(item)}
        self._writing = schema.decimal, schema.thousands
        problems = header_problems(schema, self._header)
        if problems:
            listed = "; ".join(problems)
            raise DataError(f"the file {path} does not match the schema: {listed}.")
        self._stamp = stamp(path)
        self.stamped: tuple[Stamped, ...] = ((path, self._stamp),)
        self.rows = sum(len(batch) for batch in self._open(self._header[:1]))

    def batches(self, start: int, stop: int, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Yield the rows from ``start`` to ``stop``, at most ``size`` at a time."""
        begin = 0
        for batch in self._open(columns):
            part = batch.slice(max(0, start - begin), max(0, stop - max(begin, start)))
            begin += len(batch)
            for offset in range(0, len(part), size):
                yield self._typed(part.slice(offset, size))
            if begin >= stop:
                self._check_same()  # whoever took the last rows has had time to change the file
                return

    def end_row(self, stop: int) -> int:
        """Return the end of the file: only its beginning can be found without reading it."""
        return self.rows

    def _open(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the file's record batches, every entry as bytes."""
        pa = pyarrow()
        from pyarrow import csv

        self._check_same()
        convert = csv.ConvertOptions(
            include_columns=list(columns),
            column_types={name: pa.binary() for name in self._header},
            null_values=[""],
            strings_can_be_null=True,
        )
        # The line of a missing entry in a file of one column is empty: it is a row all the same.
        parse = csv.ParseOptions(
            delimiter=self._form.separator,
            newlines_in_values=True,
            ignore_empty_lines=len(self._header) > 1,
        )
        try:
            with (
                self._form.stream(self._path) as file,
                csv.open_csv(
                    file,
                    read_options=csv.ReadOptions(block_size=_BLOCK, use_threads=False),
                    parse_options=parse,
                    convert_options=convert,
                ) as reader,
            ):
                for batch in reader:
                    self._check_same()  # somebody may go on long after the last batch
                    yield batch
            return
        except DataError:
            raise
        except (
            OSError,
            EOFError,
            zlib.error,
            ValueError,
            KeyError,
            NotImplementedError,
            pa.ArrowException,
        ):
            pass  # Arrow's message quotes the line: no error made here may hold on to it
        raise DataError(
            f"cannot read {self._path}: a line has more or fewer entries than the header, or an "
            "entry is larger than a mebibyte, or the file is damaged."
        )

    def _check_same(self) -> None:
        """Refuse a file that is not the one that was opened."""
        if stamp(self._path) != self._stamp:
            raise DataError(f"the file {self._path} changed after it was opened.")

    def _typed(self, batch: Any) -> Any:
        """Return a batch with numbers where numbers are declared, text elsewhere."""
        pa = pyarrow()
        names = batch.schema.names
        entries = [_decoded(e) for e in batch.columns] if self._form.transcoded else batch.columns
        columns = [
            numbers_in(column, *self._writing) if name in self._numbers else _text(column)
            for name, column in zip(names, entries, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=names)


def _decoded(entries: Any) -> Any:
    """Return entries without those whose bytes could not be decoded, which are missing."""
    import pyarrow.compute as pc

    undecoded = pc.match_substring(entries, UNDECODED)
    return pc.if_else(undecoded, pyarrow().scalar(None, entries.type), entries)


def _text(entries: Any) -> Any:
    """Return bytes as text, not checked: bytes that are no UTF-8 are just no declared value."""
    pa = pyarrow()
    return pa.Array.from_buffers(
        pa.string(), len(entries), entries.buffers(), entries.null_count, entries.offset
    )


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


def csv_header(path: str | Path, form: CsvForm | None = None) -> list[str]:
    """Return the names in the first line of a CSV file; what follows is not looked at.

    Raises:
        DataError: there is no such file, or it begins with no line of text in its encoding.
    """
    require_file(path)
    form = CsvForm.of(path) if form is None else form
    try:
        with form.text(path) as file:
            names = next(csv.reader(file, delimiter=form.separator))
        header = "".join(names).encode()  # fails if the names themselves are no UTF-8
        if not (form.transcoded and UNDECODED in header):
            return names
    except (OSError, EOFError, zlib.error, UnicodeError, csv.Error, StopIteration):
        pass  # it may quote the line, which may be a row: no error made here may hold on to it
    raise DataError(
        f"cannot read a header of column names from {path}: its first line must be "
        f"{form.encoding.upper()} text."
    )
