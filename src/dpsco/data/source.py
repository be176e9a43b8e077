"""Rows within their bounds, in a fixed order: what solvers read, and the sums they take of it.

A `Source` promises that every row it hands out has been clipped by its `Bounds`, that a row has one
place in the order for as long as the source lives, and that a sum is the same bits each time.
Where the rows come from is a subclass's business; it says so in one method, `Source._blocks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._validate import integer
from ..errors import DataError, ParameterError
from ..kernels.pairwise import SUM_LEAF, PairwiseSum
from ..kernels.rows import SparseRows
from ..kernels.sums import use_compiled
from .block import Block, Floats, Indices, join, with_single
from .bounds import Bounds
from .parallel_sum import Group, leaf_sums

if TYPE_CHECKING:
    from .objective import Objective
    from .queries import Query


UNCHOSEN = (
    "the rows come in an order that was not chosen by looking at them: no row decides where "
    "another one stands"
)
_SINGLE_NUMBERS = (1 << 20, 1 << 28)  # of a table whose scores single precision speeds up
_SINGLE_RANGE = (1e-15, 1e15)  # of the bound on rows: float32 holds them and their products
_SPARSE_ENTRIES = 64  # a guess: how full sparse rows are is not public


class Source(ABC):
    """Clipped rows 0, ..., n - 1 of ``d`` columns, the intercept included.

    A subclass calls ``super().__init__`` and writes `_blocks`; where it can fetch single rows
    faster than by whole leaves it also overrides `_take`.
    """

    def __init__(self, n: int, d: int, bounds: Bounds) -> None:
        self._n, self._d, self._bounds = n, d, bounds
        self._compiled: bool | None = None  # whether compiled loops sum; None: each sum decides

    @property
    def n(self) -> int:
        """The number of rows, which is public."""
        return self._n

    @property
    def d(self) -> int:
        """The number of columns, the intercept included."""
        return self._d

    @property
    def bounds(self) -> Bounds:
        """The bounds that every row obeys."""
        return self._bounds

    @abstractmethod
    def _blocks(self, start: int, stop: int) -> Iterator[Block]:
        """Yield the rows from ``start`` to ``stop``: SUM_LEAF at a time, the last time fewer.

        0 <= start < stop <= n. Leaves are counted from ``start``, so that a sum does not depend on
        how the rows are stored.
        """

    def _take(self, indices: Indices) -> Block:
        """Return some rows, in the order of ``indices`` (at least one, all in range)."""
        order = np.argsort(indices, kind="stable")
        ranked, parts = indices[order], []
        leaves = ranked // SUM_LEAF
        for leaf in np.unique(leaves):
            start = int(leaf) * SUM_LEAF
            block = join(list(self._blocks(start, min(start + SUM_LEAF, self._n))))
            parts.append(block.take(ranked[leaves == leaf] - start))
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return join(parts).take(places)

    def trusted(self, order: str) -> tuple[str, ...]:
        """Return what a run takes on trust about the order, for its certificate.

        Whatever is asked for, the rows have an order already, which nobody here knows.
        """
        return (UNCHOSEN,)

    # -- rows --------------------------------------------------------------------------------------

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Yield the rows from ``start`` to ``stop`` (default: all) in leaves of SUM_LEAF rows."""
        start, stop = self._range(start, stop)
        return self._leaves(start, stop)

    def rows(self, start: int = 0, stop: int | None = None) -> Block:
        """Return the rows from ``start`` to ``stop`` (default: all) as one block."""
        start, stop = self._range(start, stop)
        if start == stop:
            return self._empty()
        return join(list(self._leaves(start, stop)))

    def take(self, indices: ArrayLike) -> Block:
        """Return a copy of the rows at ``indices``, in that order; an index may occur twice."""
        chosen = self._indices(indices)
        return self._take(chosen) if len(chosen) else self._empty()

    # -- sums --------------------------------------------------------------------------------------

    def expect(self, rows: int, points: int = 1) -> None:
        """Expect sums over so many rows in all, and let compiled loops take them if that pays.

        Whoever takes many sums says so once, before the first; a sum that nobody announced decides
        for itself. Both decisions are made from public sizes alone.

        Args:
            rows: rows of all sums together.
            points: at how many weights each row's gradient is computed: 2 for differences.
        """
        self._compiled = use_compiled(rows, self._d, points=points, dense=self._dense)

    def sum(self, query: Query, start: int = 0, stop: int | None = None) -> Floats:
        """Return the sum of a bounded query over the rows from ``start`` to ``stop``.

        One row adds no more than ``query.bound`` to it, and the rounding of the sum moves it by no
        more than `dpsco.kernels.pairwise.rounding_slack` allows. An empty range gives zeros.

        Args:
            query: says what a row contributes.
            start, stop: a range of rows; by default all.
        """
        start, stop = self._range(start, stop)
        self._check(query)
        if start == stop:
            return np.zeros(query.size)
        return query.finish(self._range_total(query, start, stop))

    def sum_at(self, query: Query, indices: ArrayLike) -> Floats:
        """Return the sum of a bounded query over the rows at ``indices``, each at most once.

        Arguments otherwise as in `sum`.

        Raises:
            ParameterError: an index is out of range or occurs twice: such a row would count twice.
        """
        chosen = self._indices(indices)
        if len(np.unique(chosen)) < len(chosen):
            raise ParameterError("sum_at counts a row once, but an index occurs twice in indices.")
        self._check(query)
        if not len(chosen):
            return np.zeros(query.size)
        return query.finish(self._sample_total(query, chosen))

    def partial(self, query: Query, indices: Indices | None = None, *, compiled: bool) -> Floats:
        """Return the sum over all rows, or some, which whoever asked will finish.

        For workers that hold a part of the rows: sums of whole leaves, combined in their order, are
        those of one process.

        Args:
            query: as in `sum`.
            indices: of rows, each once; None: all.
            compiled: whether compiled loops sum.
        """
        self._check(query)
        self._compiled = compiled
        if indices is None:
            return self._range_total(query, 0, self._n)
        return self._sample_total(query, self._indices(indices))

    def objective(
        self, loss: Any, start: int = 0, stop: int | None = None, **terms: Any
    ) -> Objective:
        """Return the mean loss over a range of rows, to be minimised; see `Objective`."""
        from .objective import Objective

        start, stop = self._range(start, stop)
        return Objective(self, loss, start, stop, **terms)

    # -- within ------------------------------------------------------------------------------------

    def _check(self, query: Query) -> None:
        """Refuse what states no bound, and queries that do not fit these rows."""
        from .queries import Query as Bounded

        if not isinstance(query, Bounded):
            raise ParameterError(
                "a sum needs a query that states its bound, such as ClippedGradient(loss, weights, "
                f"clip), got {type(query).__name__}."
            )
        query.check(self)

    def __getstate__(self) -> Any:
        raise TypeError(f"{self!r} holds private rows and is not pickled.")

    def _groups(self, start: int, stop: int) -> Iterator[Group]:
        """Yield a range in groups of whole leaves; see `dpsco.data.parallel_sum`.

        A subclass whose rows can be fetched by several threads at once overrides it.
        """
        for block in self._blocks(start, stop):
            yield Group(len(block), block.__getitem__)

    def _range_total(self, query: Query, start: int, stop: int) -> Floats:
        """Return the sum over the leaves of a range of rows, before the query finishes it.

        A subclass whose rows are summed elsewhere overrides it, and `_sample_total`.
        """
        return self._total(query, self._groups(start, stop), (start, stop))

    def _sample_total(self, query: Query, chosen: Indices) -> Floats:
        """Return the sum over the leaves of some rows, before the query finishes it."""
        parts = (chosen[k : k + SUM_LEAF] for k in range(0, len(chosen), SUM_LEAF))
        groups = (Group(len(part), self._take(part).__getitem__) for part in parts)
        return self._total(query, groups, (0, len(chosen)))

    def _decides(self, rows: int) -> bool:
        """Return whether compiled loops sum so many rows."""
        if self._compiled is not None:
            return self._compiled
        return use_compiled(rows, self._entries(), dense=self._dense)

    def _total(self, query: Query, groups: Iterator[Group], rows: tuple[int, int]) -> Floats:
        """Return the query's sum over the leaves of a range of rows, not yet finished."""
        start, stop = rows
        compiled = self._decides(stop - start)
        total, reached = PairwiseSum(), start
        for run in leaf_sums(query, groups, stop - start, compiled):
            if run.count != min(run.leaves * SUM_LEAF, stop - reached):
                break
            total.add(run.total, run.leaves)
            reached += run.count
        self._check_reached(start, reached, stop)
        return total.result()

    def _leaves(self, start: int, stop: int) -> Iterator[Block]:
        """Yield the blocks of a subclass, having counted their rows."""
        reached = start
        if start < stop:
            for block in self._blocks(start, stop):
                if len(block) != min(SUM_LEAF, stop - reached):
                    break
                reached += len(block)
                yield block
        self._check_reached(start, reached, stop)

    def _check_reached(self, start: int, reached: int, stop: int) -> None:
        """Refuse a range whose rows did not all come."""
        if reached != stop:
            raise DataError(
                f"{self!r} promised the rows {start} to {stop} in leaves of {SUM_LEAF}, but those "
                f"after row {reached} are not there. Did the file change since it was opened?"
            )

    def _entries(self) -> int:
        """Return about how many numbers a row stores, from public facts."""
        return self._d

    @property
    def _dense(self) -> bool:
        """Whether the rows lie in memory as arrays, already clipped."""
        return False

    def _empty(self) -> Block:
        """Return a block without rows."""
        return next(iter(self._blocks(0, 1)))[:0]

    def _range(self, start: int, stop: int | None) -> tuple[int, int]:
        """Return a range of rows, empty ones included."""
        start = integer("start", start, at_least=0)
        stop = self._n if stop is None else integer("stop", stop, at_least=0)
        if not start <= stop <= self._n:
            raise ParameterError(
                f"rows must be a range within 0 and n = {self._n}, got {start} to {stop}."
            )
        return start, stop

    def _indices(self, indices: ArrayLike) -> Indices:
        """Return row numbers as an array of integers in range."""
        chosen = np.asarray(indices)
        if chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
            raise ParameterError(
                f"indices must be a list of row numbers, got an array of type {chosen.dtype} with "
                f"{chosen.ndim} axes."
            )
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < self._n):
            raise ParameterError(f"indices must lie between 0 and n - 1 = {self._n - 1}.")
        return chosen.astype(np.int64, copy=False)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self._n} rows of {self._d} columns, within {self._bounds}>"
        )


def likely_entries(d: int, sparse: bool) -> int:
    """Return about how many numbers a row stores, from public facts."""
    return min(d, _SPARSE_ENTRIES) if sparse else d


def _single_pays(block: Block, bounds: Bounds) -> bool:
    """Return whether rows in single precision, beside those in double, pay, from public facts."""
    double = not isinstance(block.rows, SparseRows) and block.rows.dtype == np.float64
    large = _SINGLE_NUMBERS[0] <= len(block) * block.d <= _SINGLE_NUMBERS[1]
    return double and large and _SINGLE_RANGE[0] <= bounds.row_norm <= _SINGLE_RANGE[1]


class MemorySource(Source):
    """Clipped rows in memory: one private copy, in the order in which they are used."""

    def __init__(self, block: Block, bounds: Bounds) -> None:
        super().__init__(len(block), block.d, bounds)
        self._whole = with_single(block) if _single_pays(block, bounds) else block

    def _blocks(self, start: int, stop: int) -> Iterator[Block]:
        for begin in range(start, stop, SUM_LEAF):
            yield self._whole[begin : min(begin + SUM_LEAF, stop)]

    def _groups(self, start: int, stop: int) -> Iterator[Group]:
        yield Group(stop - start, self._whole[start:stop].__getitem__)

    def _take(self, indices: Indices) -> Block:
        return self._whole.take(indices)

    @property
    def _dense(self) -> bool:
        return not isinstance(self._whole.rows, SparseRows)

    def _entries(self) -> int:
        return likely_entries(self._d, isinstance(self._whole.rows, SparseRows))

    def rows(self, start: int = 0, stop: int | None = None) -> Block:
        """Return the rows from ``start`` to ``stop`` (default: all), sharing memory."""
        start, stop = self._range(start, stop)
        return self._whole[start:stop]
