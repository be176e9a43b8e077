"""Rows that come from an iterator, in chunks, and are seen once.

Memory holds one chunk and one clipped leaf a thread, whatever the number of rows. The leaves that a
chunk completes are clipped and summed (`dpsco.data.leaves`) before the iterator runs again, and
nothing but copies is kept: it may hand out the same array again and again, filled with other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .._validate import choice, integer
from ..errors import DataError, ParameterError
from ..kernels.rows import Rows, SparseRows
from ..privacy.randomness import Randomness
from ..privacy.summation import SUM_LEAF
from .arrays import is_sparse, numbers_of, words_of
from .arrow import pyarrow
from .block import Block, Floats, Indices, Mask, take_rows
from .bounds import Bounds
from .columns import from_library
from .labels import clean_labels, label_kind
from .leaves import Group
from .queries import Query
from .source import Source
from .stream import Raw, regroup
from .table import Order, Table, raw_labels, raw_rows

Chunks = Iterable[Any] | Callable[[], Iterable[Any]]
Labels = Literal["number", "text", "none"]

_SPARSE_ENTRIES = 64  # a guess: how full sparse rows are is not public


def from_batches(
    batches: Chunks,
    *,
    n: int,
    d: int,
    labels: Labels = "number",
    dtype: DTypeLike = np.float64,
    sparse: bool = False,
) -> BatchTable:
    """Return a table of rows that an iterator hands out in chunks. Nothing is read yet.

    The rows are used in the order in which they come: ``order="stream"``, which must not have been
    chosen by looking at the rows. Each takes part once, so this is for solvers of one pass; reading
    a row again is refused.

    Args:
        batches: an iterator, such as a generator, whose rows serve one fit. Or what can begin anew,
            for one pass a fit: a list of chunks, an object whose ``__iter__`` makes a new iterator,
            or a function without arguments that returns one. A chunk is a pair (X, y), or X alone
            without labels, as `from_arrays` takes them (also a PyArrow record batch as X), with
            any number of rows, also none.
        n: number of rows of all chunks together; public, and fixed beforehand.
        d: number of features, likewise.
        labels: what y holds, "number" or "text"; "none" if there is none.
        dtype: float32 or float64, to which the features are converted. float32 rows take half the
            memory and time.
        sparse: whether X is a SciPy sparse matrix in every chunk.

    A chunk that does not fit, and a stream of more or fewer than n rows, are refused when they are
    read, before anything about their rows leaves. What the iterator raises is passed on.

    Raises:
        DataError: ``batches`` is a single table, not chunks of one.
        ParameterError: an argument is out of range.

    >>> chunks = ((np.ones((5, 2)), np.ones(5)) for _ in range(4))
    >>> from_batches(chunks, n=20, d=2)
    <BatchTable: 20 x 2, float64, labels: number>
    """
    _check_iterable(batches)
    choice("labels", labels, ("number", "text", "none"))
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ParameterError(f"dtype must be float32 or float64, got {dtype!r}.")
    if not isinstance(sparse, bool):
        raise ParameterError(f"sparse must be True or False, got {sparse!r}.")
    rows, columns = integer("n", n, at_least=1), integer("d", d, at_least=1)
    return BatchTable(batches, rows, _Layout(columns, kind, labels, sparse))


def _check_iterable(batches: Any) -> None:
    """Refuse what yields no chunks, and a table whose iterator would yield rows or names."""
    table = isinstance(batches, (np.ndarray, str, bytes, Mapping)) or is_sparse(batches)
    if table or (from_library(batches) and not isinstance(batches, Iterator)):
        raise DataError(
            f"from_batches reads an iterator of chunks, got one {type(batches).__name__}. Use "
            "from_arrays(X, y) for a single table, or pass a list of chunks: [(X, y)]."
        )
    if not isinstance(batches, Iterable) and not callable(batches):
        raise DataError(
            f"from_batches reads an iterator of chunks, got {type(batches).__name__}. Pass a "
            "generator of pairs (X, y), a list of them, or a function that returns one."
        )


@dataclass(frozen=True)
class _Layout:
    """What every chunk of a table looks like; chosen by public facts alone."""

    d: int
    dtype: np.dtype[Any]
    labels: Labels
    sparse: bool

    def decode(self, chunk: Any, bounds: Bounds) -> Raw:
        """Return the rows of a chunk, every one with the same types.

        Raises:
            DataError: it is no chunk of this table. No error depends on a value.
        """
        if self.labels != "none" and not (isinstance(chunk, tuple) and len(chunk) == 2):
            raise DataError(
                f"it must be a pair (X, y), got {type(chunk).__name__}. Without labels: "
                "from_batches(..., labels='none')."
            )
        if self.labels == "none" and isinstance(chunk, tuple):
            raise DataError(
                "it is a tuple, but the table has no labels. Hand out X alone, or make the table "
                "with labels='number' or 'text'."
            )
        X, y = (chunk, None) if self.labels == "none" else chunk
        rows = self._features(X)
        labels, missing = self._read_labels(y)
        if labels is not None and len(labels) != len(rows):
            raise DataError(f"X has {len(rows)} rows, but y has {len(labels)} labels.")
        # Of no rows: refuses labels of a type that the bounds do not read.
        clean_labels(bounds.label, None if labels is None else labels[:0], 0)
        if labels is not None and self.labels == "number":
            with np.errstate(all="ignore"):  # a long double may overflow: that row is null
                labels = np.asarray(labels, dtype=np.float64)
        return Raw(rows, labels, missing)

    def _features(self, X: Any) -> Rows:
        """Return the features, of the table's type and width."""
        if is_sparse(X) != self.sparse:
            found = "is" if is_sparse(X) else "is not"
            raise DataError(
                f"X {found} a sparse matrix, but the table was made with sparse={self.sparse}."
            )
        if type(X).__module__.startswith("pyarrow") and type(X).__name__ == "RecordBatch":
            X = pyarrow().Table.from_batches([X])
        rows = raw_rows(X)
        if len(rows) and rows.shape[1] != self.d:
            raise DataError(f"X has {rows.shape[1]} columns, but the table has d = {self.d}.")
        with np.errstate(all="ignore"):  # a number too large for float32 makes a null row
            if isinstance(rows, SparseRows):
                values = np.asarray(rows.values, dtype=self.dtype)
                return SparseRows(values, rows.columns, rows.offsets, rows.width)
            return np.asarray(rows, dtype=self.dtype)

    def _read_labels(self, y: Any) -> tuple[NDArray[Any] | None, Mask | None]:
        """Return labels of the table's kind; with text always which of them are missing."""
        if self.labels == "none":
            return None, None
        if y is None:
            raise DataError("y is None, but the table has labels.")
        found, missing = raw_labels(y)
        if isinstance(found, tuple):
            found, missing = words_of(found) if self.labels == "text" else (numbers_of(found), None)
        if label_kind(found) != self.labels:
            raise DataError(
                f"its labels are of the kind {label_kind(found)!r}, but the table was made with "
                f"labels={self.labels!r}."
            )
        if self.labels == "text" and missing is None and found is not None:
            missing = np.zeros(len(found), dtype=np.bool_)
        return found, missing

    def no_rows(self) -> Raw:
        """Return what a chunk without rows holds."""
        X: Rows = np.empty((0, self.d), dtype=self.dtype)
        if self.sparse:
            columns, offsets = np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
            X = SparseRows(np.empty(0, dtype=self.dtype), columns, offsets, self.d)
        if self.labels == "none":
            return Raw(X, None, None)
        return Raw(X, np.empty(0, dtype=np.str_ if self.labels == "text" else np.float64), None)

    def entries(self) -> int:
        """Return about how many numbers a row stores, from public facts."""
        return min(self.d, _SPARSE_ENTRIES) if self.sparse else self.d


class BatchTable(Table):
    """Rows from an iterator, with a public shape; made by `from_batches`."""

    def __init__(self, batches: Chunks, n: int, layout: _Layout) -> None:
        super().__init__(n, layout.d, layout.dtype, layout.labels)
        self._batches, self._layout = batches, layout
        self._used = False

    @property
    def once(self) -> bool:
        """Always: each row of a source is handed out once."""
        return True

    def check(self, bounds: Bounds, *, order: Order = "secret") -> None:
        """Refuse as every table does, a secret order, and an iterator that another source has."""
        super().check(bounds, order=order)
        if order == "secret":
            raise ParameterError(
                "rows of an iterator cannot be shuffled: they come once, and are not kept. Use "
                "order='stream', as in dpsco.run(plan, table, order='stream'), if their order was "
                "not chosen by looking at the rows; otherwise write them to a file, and use "
                "from_parquet with a folder to shuffle in."
            )
        if self._used and isinstance(self._batches, Iterator):
            raise DataError(
                "the rows of this iterator are used up: a table of an iterator is bounded once. "
                "Make a new iterator and a new table, or give from_batches a list, or a function "
                "without arguments that returns a new iterator."
            )

    def _source(self, bounds: Bounds, shuffle: Randomness | None) -> Source:
        assert shuffle is None  # `check` has refused a secret order
        self._used = True
        chunks = self._batches
        if not isinstance(chunks, Iterable):
            chunks = chunks()
            if not isinstance(chunks, Iterable):
                raise DataError(
                    "the function given to from_batches must return an iterator of chunks, got "
                    f"{type(chunks).__name__}."
                )
        return BatchSource(iter(chunks), self._n, self._layout, bounds)


class BatchSource(Source):
    """Clipped rows in the order in which an iterator hands them out, each of them once.

    Ranges of rows are read one after the other. One that begins later skips the rows between, and
    one that begins earlier is refused.
    """

    def __init__(self, chunks: Iterator[Any], n: int, layout: _Layout, bounds: Bounds) -> None:
        super().__init__(n, bounds.width(layout.d), bounds)
        self._chunks, self._layout = chunks, layout
        self._rest = layout.no_rows()  # of the current chunk
        self._count = 0  # chunks so far
        self._read = 0  # rows that were handed out or skipped
        self._compiled = bounds.worthwhile(n, layout.d)

    def sum(
        self,
        query: Query,
        start: int = 0,
        stop: int | None = None,
        *,
        compiled: bool | None = None,
    ) -> Floats:
        """Return the sum as every source does; who chooses compiled loops has them clip as well."""
        if compiled is not None:
            self._compiled = self._bounds.worthwhile(self._n, self._layout.d, compiled=compiled)
        return super().sum(query, start, stop, compiled=compiled)

    def _blocks(self, start: int, stop: int) -> Iterator[Block]:
        for group in self._groups(start, stop):
            for leaf in group:
                yield leaf()

    def _groups(self, start: int, stop: int) -> Iterator[Group]:
        """Yield leaves that clip themselves, those that a chunk completes in one group.

        The iterator is asked for the next chunk when all of them are done: it may use its arrays
        again.
        """
        if start < self._read:
            raise DataError(
                f"a row takes part once in a pass over an iterator: rows up to {self._read} were "
                f"read already, so the range from {start} to {stop} cannot be. Use a solver of "
                "one pass, or rows that stay: from_arrays, from_parquet."
            )
        self._skip(start)
        for raw in regroup(self._parts(start, stop), SUM_LEAF):
            begins = range(0, len(raw), SUM_LEAF)
            yield [partial(self._apply, raw[begin : begin + SUM_LEAF]) for begin in begins]

    def _take(self, indices: Indices) -> Block:
        raise DataError(
            "rows of an iterator come in their order and cannot be fetched by number. Use a solver "
            "of one pass, or rows that stay: from_arrays, from_parquet."
        )

    def _empty(self) -> Block:
        return self._apply(self._layout.no_rows())

    def _entries(self) -> int:
        return self._layout.entries()

    def _apply(self, raw: Raw) -> Block:
        """Return rows within their bounds."""
        return self._bounds.apply(raw.rows, raw.labels, raw.missing, compiled=self._compiled)

    def _parts(self, start: int, stop: int) -> Iterator[Raw]:
        """Yield the rows of a range, chunk by chunk; what waits for the next chunk is a copy."""
        while self._read < stop:
            done, part = self._read - start, self._next(stop - self._read)
            last = self._read == self._n
            # Leaves that the chunk completes are used before the next one; not the very last leaf,
            # which waits until it is known that no row follows.
            cut = max(0, (done + len(part) - last) // SUM_LEAF * SUM_LEAF - done)
            if cut:
                yield part[:cut]
            kept = _copied(part[cut:])
            if last:
                self._require_end()
            if len(kept):
                yield kept

    def _skip(self, start: int) -> None:
        """Pass over rows, which are not clipped."""
        while self._read < start:
            self._next(start - self._read)

    def _next(self, most: int) -> Raw:
        """Return the next rows of the current chunk, or of the next one that has any."""
        if not len(self._rest) and not self._advance():
            raise DataError(
                f"the stream ended after {self._read} rows, but n = {self._n} were declared. n is "
                "public and fixed beforehand: make the plan and the table for the number of rows "
                "that there are."
            )
        part, self._rest = self._rest[:most], self._rest[most:]
        self._read += len(part)
        return part

    def _advance(self) -> bool:
        """Fetch the next chunk that has rows; return whether there is one."""
        end: Any = object()
        while (chunk := next(self._chunks, end)) is not end:
            try:
                self._rest = self._layout.decode(chunk, self._bounds)
            except DataError as problem:
                self._chunks = iter(())  # nobody goes on as if this chunk had not been
                message = f"chunk {self._count} of the stream (counted from 0): {problem}"
                raise DataError(message) from None
            self._count += 1
            if len(self._rest):
                return True
        return False

    def _require_end(self) -> None:
        """Refuse rows beyond the last one."""
        if len(self._rest) or self._advance():
            raise DataError(
                f"the stream goes on after row n = {self._n}. n is public and fixed beforehand: "
                "declare the number of rows that there are, or cut it: itertools.islice for "
                "chunks, a slice of the last one for rows."
            )


def _copied(raw: Raw) -> Raw:
    """Return a copy of some rows, which the iterator cannot change."""
    every = np.arange(len(raw))
    labels = None if raw.labels is None else raw.labels.copy()
    missing = None if raw.missing is None else raw.missing.copy()
    return Raw(take_rows(raw.rows, every), labels, missing)
