"""Rows that come in chunks, from an iterator that is seen once or from what can begin anew.

Memory holds one chunk and one clipped leaf per thread, whatever the number of rows. The leaves that
a chunk completes are clipped and summed (`dpsco.data.parallel_sum`) before the iterator runs again,
and nothing but copies is kept: it may hand out the same array again and again, filled with other
rows.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..._validate import choice, flag, integer, shown
from ...errors import DataError, ParameterError
from ...kernels.pairwise import SUM_LEAF
from ...kernels.rows import Rows, SparseRows
from ...privacy.randomness import Randomness
from ..block import Block, Indices, Mask
from ..bounds import Bounds
from ..labels import clean_labels, label_kind, reads_text
from ..parallel_sum import Group
from ..schema.columns import from_library
from ..source import Source, likely_entries
from .arrays import Raw, is_sparse, listed_labels, raw_labels, raw_rows
from .arrow import pyarrow
from .stream import regroup
from .table import Order, Table

Batches = Iterable[Any] | Callable[[], Iterable[Any]]
Labels = Literal["number", "text", "none"]

ANEW = (
    "Make a new iterator and a new table, or give from_batches a list, or a function without "
    "arguments that returns a new iterator."
)
AGAIN = (
    "chunks that begin anew hand out the same rows in the same order each time, so that a row "
    "takes part as often as is paid for"
)
_CHARGED = (
    "Nothing is returned, and a run that an odometer has paid for stays paid for; with a "
    "checkpoint it goes on, once the stream has the same rows and n of them in all."
)


def from_batches(
    batches: Batches,
    *,
    n: int,
    d: int,
    labels: Labels = "number",
    dtype: DTypeLike = np.float64,
    sparse: bool = False,
) -> BatchTable:
    """Return a table of rows that an iterator hands out in chunks. Nothing is fetched yet.

    The rows are used in the order in which they come: ``order="given"``, which must not have been
    chosen by looking at the rows. An iterator hands each row out once, which serves solvers of a
    single epoch; reading a row again is refused. What can begin anew serves every solver, if it
    hands out the same rows in the same order each time.

    Args:
        batches: an iterator, such as a generator, whose rows serve one fit. Or what can begin anew,
            once for each pass: a list of chunks, an object whose ``__iter__`` makes a new iterator,
            or a function without arguments that returns one. A chunk is a pair (X, y), or X alone
            without labels, as `from_arrays` takes them (also a PyArrow record batch as X), with
            any number of rows, also none.
        n: number of rows of all chunks together; public, and fixed beforehand.
        d: number of features, likewise.
        labels: what y holds, "number" or "text"; "none" if there is none.
        dtype: float32 or float64, to which the features are converted. float32 rows take half the
            memory and time.
        sparse: whether X is a SciPy sparse matrix in every chunk.

    The first chunk is fetched, and refused if it does not fit, before a run is paid for. The table
    keeps it: after an error use the same table again, for an iterator such as ``zip`` has lost it.
    A later chunk that does not fit, and a stream of more or fewer than n rows, are refused when
    they are read, before anything about their rows leaves; by then the run is paid for. What the
    iterator raises is passed on.

    Raises:
        DataError: ``batches`` is a single table or a pair (X, y), not chunks.
        ParameterError: an argument is out of range.

    >>> chunks = ((np.ones((5, 2)), np.ones(5)) for _ in range(4))
    >>> from_batches(chunks, n=20, d=2)
    <BatchTable: 20 x 2, float64, labels: number>
    """
    choice("labels", labels, ("number", "text", "none"))
    _check_batches(batches, labels)
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ParameterError(
            f"dtype must be float32 or float64, got {shown(dtype)}.", parameter="dtype"
        )
    sparse = flag("sparse", sparse)
    rows, columns = integer("n", n, at_least=1), integer("d", d, at_least=1)
    return BatchTable(batches, rows, Layout(columns, kind, labels, sparse))


def _check_batches(batches: Any, labels: Labels) -> None:
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


class BatchTable(Table):
    """Rows from an iterator, with a public shape; made by `from_batches`."""

    def __init__(self, batches: Batches, n: int, layout: Layout) -> None:
        super().__init__(n, layout.d, layout.dtype, layout.labels)
        self._batches, self._layout = batches, layout
        self._begun: Chunks | None = None  # of which the first one may wait

    @property
    def once(self) -> bool:
        """Whether each row is handed out once: unless the chunks can begin anew."""
        return isinstance(self._batches, Iterator)

    @property
    def sparse(self) -> bool:
        """Whether every chunk is sparse."""
        return self._layout.sparse

    def trusted(self, order: Order) -> tuple[str, ...]:
        """Return also that chunks which begin anew are the same ones: nobody compares them."""
        return super().trusted(order) if self.once else (*super().trusted(order), AGAIN)

    def check(self, bounds: Bounds, *, order: Order = "shuffled") -> None:
        """Refuse as every table does, a shuffle, and a first chunk that does not fit.

        That chunk is fetched and kept for the source. Its shape and types decide, no value does.

        Raises:
            DataError: the bounds or the first chunk do not fit, there is none, or the iterator
                serves another source.
            ParameterError: an argument has the wrong type, or the rows are to be shuffled.
        """
        self._check_label_kind(bounds)
        super().check(bounds, order=order)
        if order == "shuffled":
            raise ParameterError(
                "rows of an iterator cannot be shuffled: they come once, and are not kept. Use "
                "order='given', as in dpsco.run(plan, table, order='given'), if their order was "
                "not chosen by looking at the rows; otherwise write them to a file, and use "
                "from_parquet with a folder to shuffle in."
            )
        if self._begun is None:
            self._begun = Chunks.begin(self._batches)
        try:
            self._begun.look(self._layout, bounds, self._n)
        except BaseException:
            self._let_go()
            raise

    def _check_label_kind(self, bounds: Any) -> None:
        """Refuse labels that the rule does not read where another ``labels`` may be the remedy."""
        rule = bounds.label if isinstance(bounds, Bounds) else None
        wanted = "text" if reads_text(rule) else "number"
        if rule is not None and self._labels not in ("none", wanted):
            words = {"text": "strings", "number": "numbers"}
            raise DataError(
                f"label={rule!r} reads {words[wanted]}, but the table was made with "
                f"labels={self._labels!r}. If the labels are {words[wanted]}, make it with "
                f"from_batches(..., labels={wanted!r}); otherwise declare Classes(...) of "
                f"{words[self._labels]}."
            )

    def _source(self, bounds: Bounds, shuffle: Randomness | None) -> Source:
        assert shuffle is None  # `check` has refused a shuffle
        assert self._begun is not None  # `check` has looked at the first chunk
        chunks = self._begun.take()
        self._let_go()
        anew = None if self.once else partial(Chunks.begin, self._batches)
        return BatchSource(chunks, self._n, self._layout, bounds, anew)

    def _let_go(self) -> None:
        """Forget chunks that can begin anew; an iterator cannot, and what waits would be lost."""
        if not isinstance(self._batches, Iterator):
            self._begun = None


class BatchSource(Source):
    """Clipped rows in the order in which an iterator hands them out.

    Ranges of rows are read one after the other. One that begins later skips the rows between. One
    that begins earlier is read from the chunks ``anew``, and refused where they come once.
    """

    def __init__(
        self,
        chunks: Chunks,
        n: int,
        layout: Layout,
        bounds: Bounds,
        anew: Callable[[], Chunks] | None = None,
    ) -> None:
        super().__init__(n, bounds.width(layout.d), bounds)
        self._anew = anew
        self._chunks, self._layout = chunks, layout
        self._rest = layout.no_rows()  # of the current chunk
        self._read = 0  # rows that were handed out or skipped

    def _blocks(self, start: int, stop: int) -> Iterator[Block]:
        for group in self._groups(start, stop):
            for begin in range(0, group.count, SUM_LEAF):
                yield group.rows(slice(begin, min(begin + SUM_LEAF, group.count)))

    def _groups(self, start: int, stop: int) -> Iterator[Group]:
        """Yield rows that are clipped when they are fetched: the leaves that a chunk completes.

        The iterator is asked for the next chunk when all of them are done: it may use its arrays
        again.
        """
        if start < self._read and self._anew is not None:
            self._chunks, self._rest, self._read = self._anew(), self._layout.no_rows(), 0
        if start < self._read:
            raise DataError(
                f"a row takes part once in a pass over an iterator: rows up to {self._read} were "
                f"read already, so the range from {start} to {stop} cannot be. Use a solver of "
                "a single epoch, or rows that can be read again."
            )
        self._skip(start)
        for raw in regroup(self._parts(start, stop), SUM_LEAF):
            yield Group(len(raw), partial(self._clipped, raw))

    def _take(self, indices: Indices) -> Block:
        if self._anew is not None:
            return super()._take(indices)
        raise DataError(
            "rows of an iterator come in their order and cannot be fetched by number. Use a solver "
            "of one pass, or rows that stay: from_arrays, from_parquet."
        )

    def _empty(self) -> Block:
        return self._clipped(self._layout.no_rows(), slice(None))

    def _entries(self) -> int:
        return likely_entries(self._layout.d, self._layout.sparse)

    def _clipped(self, raw: Raw, part: slice) -> Block:
        """Return some rows within their bounds."""
        raw = raw[part]
        return self._bounds.apply(raw.rows, raw.labels, raw.missing, table_rows=self._n)

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
            tail = part[np.arange(cut, len(part))]  # which the iterator cannot change
            if last:
                self._require_end()
            if len(tail):
                yield tail

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
                f"that there are. {_CHARGED}"
            )
        part, self._rest = self._rest[:most], self._rest[most:]
        self._read += len(part)
        return part

    def _advance(self) -> bool:
        """Fetch the next chunk that has rows; return whether there is one."""
        for number, chunk in enumerate(self._chunks, self._chunks.number):
            try:
                self._rest = self._layout.decode(chunk, self._bounds, number)
            except DataError as problem:
                self._chunks = Chunks(iter(()))  # nobody goes on as if this chunk had not been
                raise DataError(f"{problem} {_CHARGED}") from None
            if len(self._rest):
                return True
        return False

    def _require_end(self) -> None:
        """Refuse rows beyond the last one."""
        if len(self._rest) or self._advance():
            raise DataError(
                f"the stream goes on after row n = {self._n}. n is public and fixed beforehand: "
                "declare the number of rows that there are, or cut it: itertools.islice for "
                f"chunks, a slice of the last one for rows. {_CHARGED}"
            )


# -- what an iterator hands out: chunks of one layout, and a first look before a run is paid for ---
#
# A wrong width or type shows in the first chunk. It is fetched once, decoded to see whether it
# fits, and kept for whoever reads the rows: a look loses nothing. Shapes and types decide, never a
# value.


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
        result, missing, _ = raw_labels(y)
        if isinstance(result, tuple):
            result, missing = listed_labels(result, text=self.labels == "text")
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
