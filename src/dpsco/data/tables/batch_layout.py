"""What an iterator hands out: chunks of one layout, and a first look before a run is paid for.

A wrong width or type shows in the first chunk. It is fetched once, decoded to see whether it fits,
and kept for whoever reads the rows: a look loses nothing. Shapes and types decide, never a value.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from ...kernels.rows import Rows, SparseRows
from ..block import Mask
from ..bounds import Bounds
from ..labels import clean_labels, label_kind
from ..schema.columns import from_library
from .arrays import is_sparse, numbers_of, words_of
from .arrow import pyarrow
from .stream import Raw
from .table import raw_labels, raw_rows

Batches = Iterable[Any] | Callable[[], Iterable[Any]]
Labels = Literal["number", "text", "none"]

ANEW = (
    "Make a new iterator and a new table, or give from_batches a list, or a function without "
    "arguments that returns a new iterator."
)
_SPARSE_ENTRIES = 64  # a guess: how full sparse rows are is not public


def check_batches(batches: Any, labels: Labels) -> None:
    """Refuse what yields no chunks, and a table whose iterator would yield rows or names.

    Raises:
        DataError: it is a single table, a pair (X, y) of one, or nothing that can be iterated.
    """
    table = isinstance(batches, (np.ndarray, str, bytes, Mapping)) or is_sparse(batches)
    if table or (from_library(batches) and not isinstance(batches, Iterator)):
        raise DataError(
            f"from_batches reads an iterator of chunks, got one {type(batches).__name__}. Use "
            "from_arrays(X, y) for a single table, or pass a list of chunks: [(X, y)]."
        )
    if _is_pair(batches, labels):
        raise DataError(
            "from_batches reads an iterator of chunks, got one pair (X, y). Give a list of chunks: "
            "[(X, y)], or use from_arrays(X, y)."
        )
    if not isinstance(batches, Iterable) and not callable(batches):
        raise DataError(
            f"from_batches reads an iterator of chunks, got {type(batches).__name__}. Pass a "
            "generator of pairs (X, y), a list of them, or a function that returns one."
        )


def _is_pair(batches: Any, labels: Labels) -> bool:
    """Return whether these are features and labels, not two chunks."""
    if not isinstance(batches, (tuple, list)) or len(batches) != 2:
        return False
    if labels != "none":
        return not isinstance(batches[0], tuple)  # as every chunk with labels is
    return getattr(batches[1], "ndim", 2) == 1  # two tables may be two chunks


@dataclass
class _Seen:
    """What was fetched of an iterator; it must not refer to the iterator, which keeps it alive."""

    number: int = 0  # of the next chunk, from 0
    waiting: list[Any] = field(default_factory=list)  # that chunk, if it was looked at
    fits: tuple[Layout, Bounds, int] | None = None  # what it was found to fit
    taken: bool = False  # whether rows were asked for: nobody else may begin in the middle


# A second table of one iterator must find the chunk that the first one has looked at.
_SEEN: weakref.WeakKeyDictionary[Iterator[Any], _Seen] = weakref.WeakKeyDictionary()


def _seen(chunks: Iterator[Any]) -> _Seen:
    """Return what was fetched of an iterator before, by whichever table, where that is known."""
    if type(chunks).__hash__ is not object.__hash__:  # equal ones may be two
        return _Seen()
    try:
        return _SEEN.setdefault(chunks, _Seen())
    except TypeError:  # such as map and zip, which cannot be referred to weakly
        return _Seen()


class Chunks(Iterator[Any]):
    """The chunks of an iterator, of which the first one can be looked at before it is read."""

    def __init__(self, chunks: Iterator[Any]) -> None:
        self._chunks, self._seen = chunks, _seen(chunks)

    @classmethod
    def begin(cls, batches: Batches) -> Chunks:
        """Return the chunks of what was given to `from_batches`, from the first one.

        Raises:
            DataError: a function returned something else than an iterator.
        """
        result: Any = batches
        if not isinstance(result, Iterable):
            result = result()
            if not isinstance(result, Iterable):
                raise DataError(
                    "the function given to from_batches must return an iterator of chunks, got "
                    f"{type(result).__name__}."
                )
        return cls(iter(result))

    @property
    def number(self) -> int:
        """The number of the next chunk, from 0."""
        return self._seen.number

    def look(self, layout: Layout, bounds: Bounds, n: int) -> None:
        """Refuse a first chunk with rows that does not fit; it stays the next one to be read.

        Raises:
            DataError: it does not fit, has more than n rows, or is not there; or somebody else
                reads the iterator.
        """
        seen = self._seen
        if seen.taken:
            raise DataError(f"the rows of this iterator are used up: it serves one fit. {ANEW}")
        while seen.fits != (layout, bounds, n):
            if not seen.waiting:
                self._fetch(n)
            rows = len(layout.decode(seen.waiting[0], bounds, seen.number))
            if rows > n:
                raise DataError(
                    f"chunk {seen.number} of the stream (counted from 0) has {rows} rows, but "
                    f"n = {n} were declared for the whole stream. Declare the number that there "
                    "is, or cut the chunk."
                )
            if rows:
                seen.fits = (layout, bounds, n)
            else:  # its width shows nothing yet
                next(self)

    def take(self) -> Chunks:
        """Return the chunks for whoever reads the rows; nobody else may."""
        self._seen.taken = True
        return self

    def _fetch(self, n: int) -> None:
        """Let the next chunk wait."""
        end: Any = object()
        if (chunk := next(self._chunks, end)) is end:
            raise DataError(
                f"the stream has no rows, but n = {n} were declared. It is empty, or it is an "
                f"iterator that was read before: such a one serves once. {ANEW}"
            )
        self._seen.waiting.append(chunk)

    def __next__(self) -> Any:
        seen = self._seen
        chunk = seen.waiting.pop() if seen.waiting else next(self._chunks)
        seen.number, seen.fits = seen.number + 1, None
        return chunk


@dataclass(frozen=True)
class Layout:
    """What every chunk of a table looks like; chosen by public facts alone."""

    d: int
    dtype: np.dtype[Any]
    labels: Labels
    sparse: bool

    def decode(self, chunk: Any, bounds: Bounds, number: int) -> Raw:
        """Return the rows of a chunk, every one with the same types.

        Raises:
            DataError: it is no chunk of this table; it is named by its number. No error depends on
                a value.
        """
        try:
            return self._decode(chunk, bounds)
        except DataError as problem:
            message = f"chunk {number} of the stream (counted from 0): {problem}"
            raise DataError(message) from None

    def _decode(self, chunk: Any, bounds: Bounds) -> Raw:
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
            result = "is" if is_sparse(X) else "is not"
            raise DataError(
                f"X {result} a sparse matrix, but the table was made with sparse={self.sparse}."
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
        result, missing = raw_labels(y)
        if isinstance(result, tuple):
            result, missing = (
                words_of(result) if self.labels == "text" else (numbers_of(result), None)
            )
        if label_kind(result) != self.labels:
            raise DataError(
                f"its labels are of the kind {label_kind(result)!r}, but the table was made with "
                f"labels={self.labels!r}. Make it with "
                f"from_batches(..., labels={label_kind(result)!r})."
            )
        if self.labels == "text" and missing is None and result is not None:
            missing = np.zeros(len(result), dtype=np.bool_)
        return result, missing

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
