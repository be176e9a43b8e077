"""Tables that stay on disk: read in batches, clipped batch by batch, in constant memory.

One background thread reads (PyArrow decodes columns in parallel), another lays columns side by side
and clips the rows, and the caller's thread works with them: all three let the others run meanwhile.
One batch may wait between each two.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...errors import ParameterError
from ...kernels.pairwise import SUM_LEAF
from ...kernels.rows import Rows
from ...privacy.randomness import Randomness
from ..block import Block, join_rows
from ..bounds import Bounds
from ..labels import Classes, EncodedLabels, check_type
from ..schema.encoder import TableEncoder
from ..source import Source
from .arrays import Raw
from .arrow import codes, family, numbers
from .origin import Stamped, origin_of
from .shuffle import shuffled
from .table import LabelKind, Order, Table

_BATCH_BYTES = 3 << 21  # of decoded rows: PyArrow takes longer for many small batches
_MOST_ROWS, _FEWEST_ROWS = 1 << 17, 1 << 8
_T = TypeVar("_T")


class Files(Protocol):
    """Record batches of a table on disk."""

    rows: int
    stamped: tuple[Stamped, ...]  # which files they are, and in which state

    def batches(self, start: int, stop: int, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Yield the rows from ``start`` to ``stop``, at most ``size`` at a time."""

    def end_row(self, stop: int) -> int:
        """Return the end of what is decoded together with the row before ``stop``."""


class Decoder(Protocol):
    """Turns record batches into rows of numbers; chosen by public facts alone."""

    columns: tuple[str, ...]  # that it reads
    width: int
    dtype: np.dtype[Any]
    labels: LabelKind
    most: int | None  # numbers of a row that can differ from zero, for sparse rows
    reading: str  # what it makes of a row: another text for any other way to read one

    def decode(self, batch: Any, bounds: Bounds) -> Raw:
        """Return the rows of a batch."""


class PlainColumns:
    """Columns that are numbers already."""

    most: int | None = None

    def __init__(self, features: Sequence[tuple[str, Any]], label: tuple[str, Any] | None) -> None:
        self.features = tuple(name for name, _ in features)
        self._label = None if label is None else label[0]
        self.columns = self.features if label is None else (*self.features, label[0])
        self.width = len(features)
        single = all(str(kind) in ("float", "halffloat") for _, kind in features)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self.labels: LabelKind = "none"
        if label is not None:
            self.labels = "text" if family(label[1]) == "text" else "number"
        self.boolean = label is not None and family(label[1]) == "boolean"
        self.reading = f"features {json.dumps(self.features)}, label {json.dumps(self._label)}"

    def decode(self, batch: Any, bounds: Bounds) -> Raw:
        """Return the rows, and labels of the type that the bounds read."""
        rows = side_by_side([numbers(batch.column(name)) for name in self.features], self.dtype)
        if self._label is None:
            return Raw(rows, None, None)
        label = batch.column(self._label)
        if self.labels == "number":
            return Raw(rows, numbers(label), None)
        assert isinstance(bounds.label, Classes)  # checked when the table was bounded
        answer, _ = codes(label, bounds.label.values)
        return Raw(rows, np.array(bounds.label.values)[answer], answer < 0)


class EncodedColumns:
    """Columns that a `TableEncoder` turns into numbers."""

    def __init__(self, encoder: TableEncoder) -> None:
        schema = encoder.schema
        self._encoder = encoder
        self.encoded = EncodedLabels(encoder.label_rule, encoder.classes)
        self.columns = schema.names_read
        self.width, self.dtype = encoder.width, encoder.dtype
        self.labels: LabelKind = "none" if schema.label is None else "number"
        self.most = encoder.entries if encoder.sparse else None
        digest = hashlib.blake2b(schema.to_json().encode(), digest_size=16)
        form = "sparse" if encoder.sparse else "dense"
        self.reading = f"schema {digest.hexdigest()}, {form} {self.dtype}"

    def decode(self, batch: Any, bounds: Bounds) -> Raw:
        """Return the encoded rows."""
        rows, labels = self._encoder.encode_batch(batch)
        if labels is None:
            return Raw(rows, None, None)
        return Raw(rows, *self.encoded.read(bounds.label, labels))


class StreamTable(Table):
    """Rows on disk with a public shape.

    ``order="given"`` reads them again at each pass; ``order="shuffled"`` needs a folder ``spill``.
    """

    def __init__(self, name: str, files: Files, decoder: Decoder, spill: str | Path | None) -> None:
        super().__init__(files.rows, decoder.width, decoder.dtype, decoder.labels)
        self._name, self._files, self._decoder, self._spill = name, files, decoder, spill
        self._origin = origin_of(files.stamped, decoder.reading)
        if isinstance(decoder, EncodedColumns):
            self.declare(decoder.encoded.rule, classes=decoder.encoded.classes)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of plain columns; encoded ones become several numbers each."""
        return self._decoder.features if isinstance(self._decoder, PlainColumns) else None

    @property
    def sparse(self) -> bool:
        """Whether an encoder makes sparse rows."""
        return self._decoder.most is not None

    @property
    def shuffle(self) -> str:
        """How rows are shuffled through a folder; their type says which ones go together."""
        return f"shuffled on disk as {self.dtype}"

    def check(self, bounds: Bounds, *, order: Order = "shuffled") -> None:
        """Refuse as every table does, and a shuffle without a folder for it."""
        super().check(bounds, order=order)
        if isinstance(self._decoder, PlainColumns) and self._decoder.boolean:
            check_type(bounds.label, np.dtype(np.bool_))
        if order == "shuffled":
            self._check_shuffle()

    def _check_shuffle(self) -> None:
        """Refuse a shuffle for which there is no folder."""
        if self._spill is None:
            raise ParameterError(
                f"order='shuffled' for {self._name} needs a folder for the shuffled rows: the "
                "clipped rows, which are private, are written there, and vanish when the source "
                "is closed. Make the table with spill=folder, or use order='given' if the order "
                "in the file does not depend on the rows."
            )

    def _source(self, bounds: Bounds, shuffle: Randomness | None) -> Source:
        source = StreamSource(self._files, self._decoder, bounds)
        if shuffle is None:
            return source
        most = None if self._decoder.most is None else self._decoder.most + 1
        dtype = bounds.dtype(self._decoder.dtype)
        folder = str(self._spill)  # `check` has seen that there is one
        return shuffled(source, dtype, folder, shuffle.child("order of the rows"), most=most)


class Onward:
    """Record batches of files; a range that begins where the last one ended is read on from there.

    Rows lie packed in large groups, or in lines of any length: finding the beginning of a range
    means to decode what is before it. Ranges in order, whatever their sizes, make a single pass.

    Args:
        files: that are read.
        columns: of them.
        size: most rows of a record batch.
    """

    def __init__(self, files: Files, columns: Sequence[str], size: int) -> None:
        self._files, self._columns, self._size = files, columns, size
        self._open: tuple[int, Any, Iterator[Any]] | None = None  # next row, rest, what follows
        self._lock = threading.Lock()

    def batches(self, start: int, stop: int) -> Iterator[Any]:
        """Yield the rows from ``start`` to ``stop``."""
        with self._lock:  # of two ranges at once, one begins anew
            answer, self._open = self._open, None
        row, rest, following = (start, None, iter(())) if answer is None else answer
        if row != start:
            row, rest, following = start, None, iter(())
        while row < stop:
            batch = next(following, None) if rest is None else rest
            if batch is None:
                end = self._files.end_row(stop)
                following = self._files.batches(row, end, self._columns, self._size)
                batch = next(following)
            part = batch.slice(0, stop - row)
            rest = batch.slice(len(part)) if len(part) < len(batch) else None
            row += len(part)
            yield part
        if row == self._files.rows:
            for _ in following:  # nothing: but the files are looked at once more
                pass
            return
        with self._lock:
            self._open = row, rest, following


class StreamSource(Source):
    """Clipped rows in the order of the files, read anew at each pass."""

    def __init__(self, files: Files, decoder: Decoder, bounds: Bounds) -> None:
        super().__init__(files.rows, bounds.width(decoder.width), bounds)
        self._decoder = decoder
        numbers_a_row = decoder.width if decoder.most is None else 2 * decoder.most
        self._stored = self._d if decoder.most is None else min(self._d, decoder.most + 1)
        size = _BATCH_BYTES // (numbers_a_row * decoder.dtype.itemsize)
        size = min(max(size, _FEWEST_ROWS), _MOST_ROWS)
        self._size = size if size < SUM_LEAF else size // SUM_LEAF * SUM_LEAF
        self._reader = Onward(files, decoder.columns, self._size)

    def _blocks(self, start: int, stop: int) -> Iterator[Block]:
        batches = self._reader.batches(start, stop)
        if stop - start <= self._size:
            groups = self._clipped(batches)
        else:
            groups = in_background(self._clipped(in_background(batches)))
        for group in groups:
            for begin in range(0, len(group), SUM_LEAF):
                yield group[begin : begin + SUM_LEAF]

    def _entries(self) -> int:
        return self._stored

    def _clipped(self, batches: Iterator[Any]) -> Iterator[Block]:
        """Yield the rows of record batches in whole leaves, several at a time."""
        parts = (self._decoder.decode(batch, self._bounds) for batch in batches)
        for raw in regroup(parts, SUM_LEAF):
            yield self._bounds.apply(raw.rows, raw.labels, raw.missing, table_rows=self._n)


def side_by_side(columns: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return columns as rows in Fortran order: clipping turns them, in the pass it makes anyway."""
    together = np.empty((len(columns), len(columns[0])), dtype=dtype)
    with np.errstate(over="ignore"):
        for place, column in zip(together, columns, strict=True):
            place[:] = column
    rows: NDArray[Any] = together.T
    return rows


def regroup(parts: Iterable[Raw], size: int) -> Iterator[Raw]:
    """Yield the same rows in multiples of ``size``, the last time fewer."""
    leftover: list[Raw] = []
    missing = 0  # rows that complete what is kept
    for part in parts:
        start = 0
        if leftover:  # first complete what the batches before left over
            start = missing
            leftover.append(part[:start])
            missing -= len(leftover[-1])
            if missing > 0:
                continue
            yield _join(leftover)
        stop = start + (len(part) - start) // size * size
        if start < stop:
            yield part[start:stop]
        leftover = [part[stop:]] if stop < len(part) else []
        missing = size - (len(part) - stop)
    if leftover:
        yield _join(leftover)


def _join(parts: Sequence[Raw]) -> Raw:
    """Return consecutive parts as one."""
    if len(parts) == 1:
        return parts[0]

    def together(pieces: Sequence[Any]) -> Any:
        return None if pieces[0] is None else np.concatenate(pieces)

    rows = [part.rows for part in parts]
    whole: Rows = join_rows(rows)
    labels = together([part.labels for part in parts])
    return Raw(whole, labels, together([part.missing for part in parts]))


def in_background(items: Iterator[_T]) -> Iterator[_T]:
    """Yield the items while a thread makes the next ones; its errors are raised here."""
    end: Any = object()
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="dpsco reader") as reader:
            waiting = reader.submit(next, items, end)
            try:
                while (item := waiting.result()) is not end:
                    waiting = reader.submit(next, items, end)
                    yield item
            finally:
                waiting.cancel()
    finally:
        close: Callable[[], None] | None = getattr(items, "close", None)
        if close is not None:
            close()
