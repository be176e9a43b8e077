"""Sums by slices: every slice counted once, whoever sums it and however often.

An answer counts if it is of this task and this slice, whole, of this version, and finite; the first
such answer of a slice is the one. A slice that does not come back is asked for again. A slice that
cannot be read stops the run, before anything of its round leaves; so does a file that was written
meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from ....errors import ClusterError, DataError, ParameterError
from ....kernels.pairwise import SUM_LEAF, PairwiseSum
from ...block import Block, Floats, Indices
from ...bounds import Bounds
from ...queries import Query
from ...source import Source
from ..origin import Stamped, check_unchanged
from .adapters import Adapter
from .layout import Layout, Part, Slice
from .messages import (
    Answer,
    Reading,
    RefusedError,
    Task,
    pack_slice,
    pack_task,
    read_answer,
    summed,
)

TRIES = 4
"""How often slices are asked for of which none comes back."""

_LOOKS = 8  # slices that ask a worker about shards, at most
_EACH = 4  # slices that a worker gets of all rows, at least
_MOST_LEAVES = 64  # of a slice: 262,144 rows, or four row groups if these are larger


@dataclass(frozen=True)
class SumTrace:
    """What one sum took: not to be published.

    Times may tell of rows. How many rows a sample holds is secret: amplification counts on it. Its
    slices and bytes would tell, so they are None too.

    Args:
        rows: that were summed; None for a sample.
        slices: in how many parts; None for a sample.
        repeated: answers that did not count: damaged, or second ones.
        seconds: from the first slice sent to the last answer.
        slowest: seconds that the last answer came after the median one.
        sent: bytes of the task and of all slices, each once; None for a sample.
        received: bytes of all answers; None for a sample.
    """

    rows: int | None
    slices: int | None
    repeated: int
    seconds: float
    slowest: float
    sent: int | None
    received: int | None


Progress = Callable[[int, int], None]  # slices done, slices in all
Watch = Callable[[SumTrace], None]


class ClusterSource(Source):
    """Clipped rows that workers read, anew for each sum.

    Args:
        layout: the order of the rows.
        adapter: of the workers.
        reading: how columns become rows.
        bounds: that clip them.
        stamped: which files they are, and in which state.
        width: of a row, without the intercept.
        entries: numbers that a row stores, about.
        leaves: of a slice, a power of two; None: `slice_leaves` decides.
        progress: hears of each slice of a range; not of a sample, whose size is secret.
        watch: hears of each sum.
    """

    def __init__(
        self,
        layout: Layout,
        adapter: Adapter,
        reading: Reading,
        bounds: Bounds,
        *,
        stamped: Iterable[Stamped],
        width: int,
        entries: int,
        leaves: int | None = None,
        progress: Progress | None = None,
        watch: Watch | None = None,
    ) -> None:
        super().__init__(layout.rows, bounds.width(width), bounds)
        self._layout, self._adapter, self._reading = layout, adapter, reading
        self._stamped = tuple(stamped)
        self._stored, self._slice_leaves = entries, leaves
        self._progress, self._watch = progress, watch

    def _range_total(self, query: Query, start: int, stop: int) -> Floats:
        most = self._most(stop - start)
        return self._gathered(query, self._layout.slices(start, stop, most), self._progress)

    def _sample_total(self, query: Query, chosen: Indices) -> Floats:
        most = self._most(len(chosen))
        return self._gathered(query, self._layout.sampled(chosen, most), None)

    def _gathered(self, query: Query, parts: Iterator[Slice], progress: Progress | None) -> Floats:
        """Return the sum over some slices, combined in their order."""
        slices = list(parts)
        rows = sum(part.rows for part in slices)
        inner = summed(query)
        task = pack_task(Task(inner, self._bounds, self._reading, compiled=self._decides(rows)))
        sums = Gathering(self._adapter, task, slices, size=inner.size, progress=progress)
        total = PairwiseSum()
        for part, answer in sums.in_order():
            total.add(answer.total, part.leaves)
        check_unchanged(self._stamped)  # other rows may leave the footer, and its digest, as it was
        if self._watch is not None:
            self._watch(sums.trace())
        return total.result()

    def _most(self, rows: int) -> int:
        """Return how many leaves a slice of so many rows has."""
        if self._slice_leaves is not None:
            return self._slice_leaves
        return slice_leaves(rows, self._adapter.workers, self._layout.largest)

    def _entries(self) -> int:
        return self._stored

    def _blocks(self, start: int, stop: int) -> Iterator[Block]:
        raise ParameterError(ROWS_STAY)

    def _take(self, indices: Indices) -> Block:
        raise ParameterError(ROWS_STAY)


ROWS_STAY = (
    "rows of a cluster stay with its workers, which send sums alone. Use a solver that takes noisy "
    "sums, such as noisy_gd; or rows of one machine: from_parquet."
)


def slice_leaves(rows: int, workers: int, group: int) -> int:
    """Return how many leaves a slice has: a power of two, from public numbers alone.

    Several slices for each worker let the quick help the slow; slices of a few row groups decode
    little that belongs to a neighbour. No bit of a sum depends on it.
    """
    share = rows // (SUM_LEAF * _EACH * max(workers, 1))
    most = max(_MOST_LEAVES, 4 * group // SUM_LEAF)
    return int(1 << max(min(share, most), 1).bit_length() - 1)


class Gathering:
    """The answers to one task, each slice counted once.

    Args:
        adapter: of the workers.
        task: its message.
        slices: in the order of their sum.
        size: numbers of a sum.
        columns: whether answers are columns of rows, not sums.
        progress: hears of each slice that counts.
    """

    def __init__(
        self,
        adapter: Adapter,
        task: bytes,
        slices: Sequence[Slice],
        *,
        size: int = 0,
        columns: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._adapter, self._task, self._slices = adapter, task, slices
        self._form: dict[str, Any] = {"size": size, "columns": columns}
        self._progress = progress
        self._messages = {part.id: pack_slice(part) for part in slices}
        self._begin = time.perf_counter()
        self._times: list[float] = []
        self._repeated = self._received = 0

    def in_order(self) -> Iterator[tuple[Slice, Answer]]:
        """Yield the slices in order, each with its answer; those that come early wait.

        Raises:
            ClusterError: workers do not answer.
            DataError: a worker cannot read a slice.
        """
        early: dict[str, Answer] = {}
        place = 0
        for name, answer in self._answers():
            early[name] = answer
            while place < len(self._slices) and (name := self._slices[place].id) in early:
                yield self._slices[place], early.pop(name)
                place += 1

    def trace(self) -> SumTrace:
        """Return what it took."""
        times = sorted(self._times) or [0.0]
        whole = not self._sampled
        return SumTrace(
            rows=sum(part.rows for part in self._slices) if whole else None,
            slices=len(self._slices) if whole else None,
            repeated=self._repeated,
            seconds=times[-1],
            slowest=times[-1] - times[len(times) // 2],
            sent=len(self._task) + sum(map(len, self._messages.values())) if whole else None,
            received=self._received if whole else None,
        )

    @property
    def _sampled(self) -> bool:
        """Whether the rows are a sample, whose size is secret."""
        return any(part.sample is not None for part in self._slices)

    def _answers(self) -> Iterator[tuple[str, Answer]]:
        """Yield the first good answer of each slice."""
        waiting = {part.id: part for part in self._slices}
        tries, reason = 0, "none came"
        while waiting:
            before = len(waiting)
            messages = {name: self._messages[name] for name in waiting}
            with closing(_iterator(self._adapter.map(self._task, messages))) as answers:
                for name, message in answers:
                    part = waiting.get(name)
                    if part is None:
                        self._repeated += 1
                        continue
                    try:
                        answer = read_answer(message, self._task, part, **self._form)
                    except RefusedError as problem:
                        raise _refusal(problem) from None
                    except ClusterError as problem:  # it is asked for again
                        self._repeated, reason = self._repeated + 1, str(problem)
                        continue
                    del waiting[name]
                    self._note(message, len(self._slices) - len(waiting))
                    yield name, answer
                    if not waiting:
                        break
            tries = 0 if len(waiting) < before else tries + 1
            if tries >= TRIES:
                which = "some" if self._sampled else f"{len(waiting)} of {len(self._slices)}"
                raise ClusterError(
                    f"{which} slices have no answer that counts, after {TRIES} tries "
                    f"({reason.rstrip('.')}). What was released before stays paid for; a run with "
                    "a checkpoint can go on from there."
                )

    def _note(self, message: bytes, done: int) -> None:
        """Remember how an answer came."""
        self._received += len(message)
        self._times.append(time.perf_counter() - self._begin)
        if self._progress is not None:
            self._progress(done, len(self._slices))


def _iterator(answers: Iterable[tuple[str, bytes]]) -> Generator[tuple[str, bytes], None, None]:
    """Yield answers; what `map` holds open is closed with this."""
    yield from answers


def _refusal(problem: RefusedError) -> Exception:
    """Return the error of a worker as one of the driver's."""
    if problem.kind == DataError.__name__:
        return DataError(str(problem))
    return ClusterError(f"a worker cannot take part: {problem}")


def verify(adapter: Adapter, layout: Layout, bounds: Bounds, reading: Reading) -> None:
    """Ask workers whether they have all shards as they were planned for, and this version.

    Raises:
        ClusterError, DataError: they have not, or do not answer.
    """
    task = pack_task(Task(None, bounds, reading, compiled=False))
    parts = [Part(shard, 0, 0) for shard in layout.shards]
    size = -(-len(parts) // (_LOOKS * max(adapter.workers, 1)))
    cuts = range(0, len(parts), size)
    slices = [Slice(tuple(parts[k : k + size]), 1, 0) for k in cuts]
    for _ in Gathering(adapter, task, slices).in_order():
        pass
