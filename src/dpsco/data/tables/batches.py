"""Rows that come in chunks, from an iterator that is seen once or from what can begin anew.

Memory holds one chunk and one clipped leaf per thread, whatever the number of rows. The leaves that
a chunk completes are clipped and summed (`dpsco.data.parallel_sum`) before the iterator runs again,
and nothing but copies is kept: it may hand out the same array again and again, filled with other
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..._validate import choice, integer, shown
from ...errors import DataError, ParameterError
from ...kernels.pairwise import SUM_LEAF
from ...privacy.randomness import Randomness
from ..block import Block, Indices, take_rows
from ..bounds import Bounds
from ..labels import reads_text
from ..parallel_sum import Group
from ..source import Source
from .batch_layout import Batches, Chunks, Labels, Layout, check_batches
from .stream import Raw, regroup
from .table import Order, Table

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
    check_batches(batches, labels)
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ParameterError(
            f"dtype must be float32 or float64, got {shown(dtype)}.", parameter="dtype"
        )
    if not isinstance(sparse, bool):
        raise ParameterError(
            f"sparse must be True or False, got {shown(sparse)}.", parameter="sparse"
        )
    rows, columns = integer("n", n, at_least=1), integer("d", d, at_least=1)
    return BatchTable(batches, rows, Layout(columns, kind, labels, sparse))


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
                yield group.rows(begin, min(begin + SUM_LEAF, group.count))

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
        return self._apply(self._layout.no_rows())

    def _entries(self) -> int:
        return self._layout.entries()

    def _clipped(self, raw: Raw, start: int, stop: int) -> Block:
        return self._apply(raw[start:stop])

    def _apply(self, raw: Raw) -> Block:
        """Return rows within their bounds."""
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
            tail = _copied(part[cut:])
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


def _copied(raw: Raw) -> Raw:
    """Return a copy of some rows, which the iterator cannot change."""
    rows = raw.rows
    rows = rows.copy() if isinstance(rows, np.ndarray) else take_rows(rows, np.arange(len(raw)))
    labels = None if raw.labels is None else raw.labels.copy()
    missing = None if raw.missing is None else raw.missing.copy()
    return Raw(rows, labels, missing)
