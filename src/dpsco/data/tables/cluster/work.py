"""What a worker does: it takes the bytes of a task and of a slice, and returns those of an answer.

`answer` is all that an engine calls. It keeps nothing between calls but footers and encoders, draws
no random numbers, and never raises: what goes wrong becomes a message, in words that name a file
and never a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import ClusterError, DpscoError
from ....files.packing import digest
from ...bounds import Bounds
from ..parquet import Footer, read_batches
from ..stream import Decoder, StreamSource
from .layout import Slice, opened_shard
from .messages import RowMap, Task, pack_answer, pack_refusal, read_slice, read_task


def answer(task: bytes, piece: bytes) -> bytes:
    """Return the answer to a task for one slice: its sum, or why there is none."""
    name = ""
    try:
        part = read_slice(piece)
        name = part.id
        with np.errstate(all="ignore"):
            arrays = _arrays(_task(task), part)
        return pack_answer(task, name, part.rows, arrays)
    except DpscoError as problem:
        return pack_refusal(task, name, type(problem).__name__, str(problem))
    except Exception as problem:  # what it says may quote a value
        text = f"a worker has failed with {type(problem).__name__}."
        return pack_refusal(task, name, ClusterError.__name__, text)


def _arrays(task: Task, part: Slice) -> list[NDArray[Any]]:
    """Return the sum over a slice, not yet finished; or columns of its rows; or of nothing."""
    footers = {each.shard: opened_shard(each.shard) for each in part.parts}
    if task.query is None:
        return [np.zeros(0)]
    decoder = task.reading.decoder(list(footers.values()))
    files = PartFiles([(footers[each.shard], each.start, each.stop) for each in part.parts])
    if isinstance(task.query, RowMap):
        return _columns(task.query, files, decoder, task.bounds)
    source = StreamSource(files, decoder, task.bounds)
    return [source.partial(task.query, part.sample, compiled=task.compiled)]


def _columns(
    query: RowMap, files: PartFiles, decoder: Decoder, bounds: Bounds
) -> list[NDArray[Any]]:
    """Return what a query makes of each row of some files."""
    batches = files.batches(0, files.rows, decoder.columns, _BATCH)
    pieces = [query.columns(decoder.decode(batch, bounds).rows) for batch in batches]
    columns: list[NDArray[Any]] = [np.concatenate(each) for each in zip(*pieces, strict=True)]
    return columns


_BATCH = 1 << 14  # rows that are mapped at a time
_TASKS: dict[bytes, Task] = {}


def _task(message: bytes) -> Task:
    """Return the task of a message; the last one is kept, for its next slice."""
    name = digest(message)
    task = _TASKS.get(name)
    if task is None:
        task = read_task(message)
        _TASKS.clear()
        _TASKS[name] = task
    return task


class PartFiles:
    """Some rows of some Parquet files, one after the other.

    Args:
        parts: a footer, and which of the file's rows, for each.
    """

    def __init__(self, parts: Sequence[tuple[Footer, int, int]]) -> None:
        self._parts = tuple(parts)
        self.rows = sum(stop - start for _, start, stop in parts)
        self.stamped = tuple((footer.path, footer.stamp) for footer, _, _ in parts)

    def batches(self, start: int, stop: int, columns: Sequence[str], size: int) -> Iterator[Any]:
        """Yield the rows from ``start`` to ``stop``, at most ``size`` at a time."""
        begin = 0
        for footer, first, last in self._parts:
            low, high = max(start - begin, 0), min(stop - begin, last - first)
            if low < high:
                yield from read_batches(footer, first + low, first + high, columns, size)
            begin += last - first

    def end_row(self, stop: int) -> int:
        """Return the end of all rows: they are read as far as they are asked for."""
        return self.rows
