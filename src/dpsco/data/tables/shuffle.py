"""An exactly uniform shuffle of more rows than memory holds.

Each row goes to one of B buckets, chosen independently and uniformly; then each bucket is put in a
uniformly random order, and the buckets follow one another. Every order of the n rows is equally
likely. For let row i carry an infinite string of independent uniform digits in base B, and sort
the rows by their strings: by symmetry each order has probability 1/n!. The first digit is the
bucket; and given the first digits, the rows of a bucket are in the order of their further digits,
which is uniform and independent of the other buckets.

Rows are written after clipping, to files without a name (`dpsco.data.tables.spill`) in the folder
that the caller chose. `dpsco.data.tables.shuffled_files` shuffles whole files in the same way.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from ...kernels.pairwise import SUM_LEAF
from ...kernels.rows import SparseRows
from ...privacy.randomness import Stream
from ..block import Block, Indices
from ..bounds import Bounds
from ..source import Source
from .spill import Buckets, NamelessFile

_BUCKET_BYTES = 1 << 26  # of a bucket, which is put in order in memory
_BUFFER_BYTES = 1 << 14  # least that is written at a time for a bucket
_CHUNK_BYTES = 1 << 23  # distributed among the buckets at a time

Records = NDArray[np.void]


def shuffled(
    source: Source,
    dtype: np.dtype[Any],
    folder: str | Path,
    stream: Stream,
    *,
    most: int | None = None,
    bucket_bytes: int = _BUCKET_BYTES,
) -> ShuffledSource:
    """Return the rows of ``source`` in a uniformly random order, kept in ``folder``.

    Memory is about two buckets, whatever the number of rows; the folder needs room for the rows
    twice while they are shuffled, and once afterwards.

    Args:
        source: read once.
        dtype: of the clipped rows.
        folder: an existing folder. The rows written there are private.
        stream: where the order comes from.
        most: for sparse rows, how many numbers of a row can be stored; None for dense rows.
        bucket_bytes: size of a bucket.

    Raises:
        DataError: the folder is not there, cannot be written to, or has too little room.
    """
    layout = record_layout(source.d, dtype, most)
    size = layout.itemsize * source.n
    _check_folder(folder, 2 * size)
    buckets = max(1, -(-size // bucket_bytes))
    try:
        with _Spill(folder, layout, buckets, bucket_bytes) as spill:
            step = max(1, _CHUNK_BYTES // layout.itemsize // SUM_LEAF)
            for records in _chunks(source, layout, step):
                spill.distribute(records, stream.integers(buckets, len(records)))
            store = _Store(folder, layout)
            for k in range(buckets):
                records = spill.bucket(k)
                if len(records):
                    store.append(records[stream.permutation(len(records))])
    except OSError as problem:
        raise DataError(
            f"cannot write the shuffled rows to {folder}: {problem.strerror}."
        ) from None
    return ShuffledSource(store, source.n, source.d, source.bounds)


class ShuffledSource(Source):
    """Clipped rows, shuffled, in a file that vanishes with the source.

    Use it as a context manager, or call `close`, to free the disk early.
    """

    def __init__(self, store: _Store, n: int, d: int, bounds: Bounds) -> None:
        super().__init__(n, d, bounds)
        self._store = store

    def _blocks(self, start: int, stop: int) -> Iterator[Block]:
        for begin in range(start, stop, SUM_LEAF):
            records = self._store.read(begin, min(begin + SUM_LEAF, stop) - begin)
            yield _block(records, self._d, self._bounds)

    def _take(self, indices: Indices) -> Block:
        records = np.concatenate([self._store.read(int(index), 1) for index in indices])
        return _block(records, self._d, self._bounds)

    def _entries(self) -> int:
        return self._store.entries

    def close(self) -> None:
        """Delete the rows; the source cannot be read afterwards."""
        self._store.close()

    def __enter__(self) -> ShuffledSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def record_layout(d: int, dtype: np.dtype[Any], most: int | None) -> np.dtype[Any]:
    """Return how one clipped row is stored: all rows take the same room."""
    tail = [("label", "f8"), ("norm", "f8"), ("present", "?")]
    if most is None:
        return np.dtype([("rows", dtype, (d,)), *tail])
    return np.dtype([("values", dtype, (most,)), ("columns", "i4", (most,)), ("used", "i4"), *tail])


def _records(block: Block, layout: np.dtype[Any]) -> Records:
    """Return a block as records."""
    records = np.zeros(len(block), dtype=layout)
    records["label"], records["norm"] = block.labels, block.norms
    records["present"] = block.present
    if not isinstance(block.rows, SparseRows):
        records["rows"] = block.rows
        return records
    used = np.diff(block.rows.offsets)
    place = np.arange(layout["values"].shape[0]) < used[:, None]
    span = slice(block.rows.offsets[0], block.rows.offsets[-1])
    records["used"] = used
    for field in ("values", "columns"):
        padded = records[field]  # a view: assigning by mask fills it row by row
        padded[place] = getattr(block.rows, field)[span]
    return records


def _block(records: Records, d: int, bounds: Bounds) -> Block:
    """Return records as a block."""
    rows: Any
    if "rows" in (records.dtype.names or ()):
        rows = np.ascontiguousarray(records["rows"])
    else:
        used = records["used"].astype(np.int64)
        place = np.arange(records["values"].shape[1]) < used[:, None]
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(used)])
        rows = SparseRows(records["values"][place], records["columns"][place], offsets, d)
    labels, norms = records["label"].copy(), records["norm"].copy()
    return Block(rows, labels, norms, records["present"].copy(), bounds.norm)


def _chunks(source: Source, layout: np.dtype[Any], leaves: int) -> Iterator[Records]:
    """Yield all rows as records, some leaves at a time."""
    leaf_records: list[Records] = []
    for block in source.blocks():
        leaf_records.append(_records(block, layout))
        if len(leaf_records) == leaves:
            yield np.concatenate(leaf_records)
            leaf_records = []
    if leaf_records:
        yield np.concatenate(leaf_records)


class _Store:
    """A file without a name that holds records one after the other."""

    def __init__(self, folder: str | Path, layout: np.dtype[Any]) -> None:
        self._file, self._layout = NamelessFile(folder), layout
        self.close = self._file.close

    @property
    def entries(self) -> int:
        """How many numbers of a row are stored, at most."""
        return int(self._layout[0].shape[0])

    def append(self, records: Records) -> None:
        """Write records at the end."""
        self._file.append(_bytes(records))

    def read(self, begin: int, count: int) -> Records:
        """Return ``count`` records."""
        records = np.empty(count, dtype=self._layout)
        self._file.read_into(_bytes(records), begin * self._layout.itemsize)
        return records


def _bytes(records: Records) -> memoryview:
    """Return the bytes of records."""
    return np.ascontiguousarray(records).view(np.uint8).data


class _Spill:
    """Buckets of records, each of which waits in memory until it is worth writing."""

    def __init__(self, folder: str | Path, layout: np.dtype[Any], buckets: int, total: int) -> None:
        self._written = Buckets(folder, buckets)
        room = max(_BUFFER_BYTES, total // buckets) // layout.itemsize
        self._room = max(1, room)  # records that a bucket keeps in memory
        self._layout = layout
        self._kept: list[list[Records]] = [[] for _ in range(buckets)]
        self._count = np.zeros(buckets, dtype=np.int64)  # of records in `_kept`

    def distribute(self, records: Records, buckets: Indices) -> None:
        """Append each record to its bucket."""
        order = np.argsort(buckets, kind="stable")
        records, sizes = records[order], np.bincount(buckets, minlength=len(self._kept))
        ends = np.cumsum(sizes)
        for k in np.flatnonzero(sizes):
            self._kept[k].append(records[ends[k] - sizes[k] : ends[k]].copy())
            self._count[k] += sizes[k]
            if self._count[k] >= self._room:
                self._flush(int(k))

    def _flush(self, k: int) -> None:
        """Write what a bucket keeps in memory."""
        self._written.append(k, _bytes(np.concatenate(self._kept[k])))
        self._kept[k], self._count[k] = [], 0

    def bucket(self, k: int) -> Records:
        """Return a bucket's records, in the order in which they came."""
        parts = [np.frombuffer(part, dtype=self._layout) for part in self._written.read(k)]
        parts, self._kept[k] = [*parts, *self._kept[k]], []
        return np.concatenate([np.empty(0, dtype=self._layout), *parts])

    def __enter__(self) -> _Spill:
        return self

    def __exit__(self, *_: object) -> None:
        self._written.close()


def _check_folder(folder: str | Path, needed: int) -> None:
    """Refuse a folder that is not there or too full, before any row is read."""
    if not Path(folder).is_dir():
        raise DataError(f"spill must be an existing folder, got {folder}.")
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise DataError(
            f"shuffling needs {needed:,} bytes in {folder}, where {free:,} are free. Choose "
            "another folder, or order='given' if the file's order does not depend on the rows."
        )
