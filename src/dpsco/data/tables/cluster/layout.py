"""Parquet files as shards, the order of their rows, and slices of it that are named by content.

All of it is read off the files' footers before a run begins. A shard is known by its name below the
common folder, its size, and a digest of its footer, which says of every row group where it begins
and how large its columns are. So a worker tells a file that is another one, or that was written
again since, from the one that was planned for. Other rows of the same types and sizes may leave the
footer as it was: the driver looks at the time of change, too, before the sum of a round leaves.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...._validate import shown
from ....errors import DataError, ParameterError
from ....kernels.pairwise import SUM_LEAF, runs
from ....privacy.randomness import Stream
from ..csvform import is_csv
from ..origin import check_once, matches, stamp
from ..parquet import Footer, read_footers

Indices = NDArray[np.int64]

_TAIL = 8  # bytes at the end of a Parquet file: the length of its footer, and four letters
_ID = 16  # bytes of a slice's name


@dataclass(frozen=True)
class Shard:
    """A Parquet file as it was when it was planned for."""

    path: str
    name: str  # below the folder of all shards
    size: int  # bytes
    digest: str  # of its footer


@dataclass(frozen=True)
class Part:
    """Consecutive rows of one shard."""

    shard: Shard
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Slice:
    """Some consecutive rows of a run's order, or a sample of these; whole leaves, but for the end.

    Args:
        parts: where the rows lie, in order.
        leaves: whose sum it is, a power of two; fewer at the end of a range.
        rows: that count: of a sample its size, else all of the parts.
        sample: places within the parts, in order; None: all rows.
    """

    parts: tuple[Part, ...]
    leaves: int
    rows: int
    sample: Indices | None = None

    @cached_property
    def id(self) -> str:
        """A name that says which rows these are, and nothing of who reads them."""
        parts = [[p.shard.name, p.shard.size, p.shard.digest, p.start, p.stop] for p in self.parts]
        whole = hashlib.blake2b(json.dumps(parts).encode(), digest_size=_ID)
        if self.sample is not None:
            whole.update(self.sample.astype("<i8").tobytes())
        return whole.hexdigest()


class Layout:
    """The rows of some shards in the order of a run.

    Args:
        parts: the row groups of all shards, in this order.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self._ends = np.cumsum([part.stop - part.start for part in self.parts], dtype=np.int64)
        self.rows = int(self._ends[-1]) if len(self._ends) else 0

    @property
    def shards(self) -> tuple[Shard, ...]:
        """Each shard once."""
        return tuple(dict.fromkeys(part.shard for part in self.parts))

    @property
    def largest(self) -> int:
        """Rows of the largest row group."""
        return max(part.stop - part.start for part in self.parts)

    def permuted(self, stream: Stream) -> Layout:
        """Return the same row groups in a uniformly random order."""
        order = stream.permutation(len(self.parts))
        return Layout([self.parts[place] for place in order])

    def slices(self, start: int, stop: int, most: int) -> Iterator[Slice]:
        """Yield a range of rows in slices of at most ``most`` leaves, counted from its start."""
        leaves, begin = -(-(stop - start) // SUM_LEAF), start
        for size in runs(0, leaves, most):
            end = min(begin + size * SUM_LEAF, stop)
            yield Slice(tuple(_merged(self._cut(begin, end))), size, end - begin)
            begin = end

    def sampled(self, indices: Indices, most: int) -> Iterator[Slice]:
        """Yield some rows, in the order of ``indices``, likewise; leaves hold rows of the sample.

        Only row groups of which a row was drawn are part of a slice.
        """
        leaves, begin = -(-len(indices) // SUM_LEAF), 0
        for size in runs(0, leaves, most):
            chosen = indices[begin : begin + size * SUM_LEAF]
            groups = np.searchsorted(self._ends, chosen, side="right")
            used, place = np.unique(groups, return_inverse=True)
            begins = self._ends[used] - [self._length(group) for group in used]
            before = np.concatenate(([0], np.cumsum([self._length(group) for group in used])))
            local = chosen - begins[place] + before[place]
            parts = tuple(_merged(self.parts[group] for group in used))
            yield Slice(parts, size, len(chosen), local.astype(np.int64))
            begin += len(chosen)

    def _length(self, group: int) -> int:
        """Return the rows of a row group."""
        part = self.parts[group]
        return part.stop - part.start

    def _cut(self, start: int, stop: int) -> Iterator[Part]:
        """Yield where the rows from ``start`` to ``stop`` lie."""
        group = int(np.searchsorted(self._ends, start, side="right"))
        while start < stop:
            part, end = self.parts[group], int(self._ends[group])
            first = part.stop - (end - start)
            count = min(stop, end) - start
            yield Part(part.shard, first, first + count)
            start, group = start + count, group + 1


def _merged(parts: Any) -> Iterator[Part]:
    """Yield parts, with neighbours of one shard as one."""
    last: Part | None = None
    for part in parts:
        if last is not None and last.shard is part.shard and last.stop == part.start:
            last = Part(last.shard, last.start, part.stop)
            continue
        if last is not None:
            yield last
        last = part
    if last is not None:
        yield last


# -- files -----------------------------------------------------------------------------------------


def planned(path: str | Path) -> tuple[list[Footer], Layout]:
    """Return the footers of all files that a path or pattern names, and their rows as they come.

    Files follow each other by name.

    Raises:
        DataError: there is no such file, or one cannot be read.
        ParameterError: this is no path.
    """
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise ParameterError(
            f"path must be that of a file or folder, or a pattern, got {shown(path)}.",
            parameter="path",
        )
    if is_csv(path):
        raise DataError(
            f"workers read Parquet files, and {path} is none. `dpsco shuffle` writes it anew "
            "as one."
        )
    footers = _footers(os.fspath(path))
    folder = os.path.commonpath([os.path.dirname(os.path.abspath(f.path)) for f in footers])
    parts = []
    for footer in footers:
        place = os.path.abspath(footer.path)
        name = Path(os.path.relpath(place, folder)).as_posix()
        shard = Shard(place, name, footer.stamp[0], footer_digest(Path(place)))
        ends = np.cumsum(footer.groups).tolist()
        parts += [
            Part(shard, end - size, end)
            for end, size in zip(ends, footer.groups, strict=True)
            if size
        ]
    return footers, Layout(parts)


def _footers(path: str) -> list[Footer]:
    """Return the footers of a file, of a folder, or of all files that fit a pattern."""
    if os.path.exists(path) or not glob.has_magic(path):
        return read_footers(path)
    names = [Path(name) for name in matches(path) if os.path.isfile(name)]
    if not names:
        raise DataError(f"no file fits the pattern {path}.")
    check_once(names)
    return [footer for name in names for footer in read_footers(name)]


def footer_digest(path: Path) -> str:
    """Return a digest of a Parquet file's footer; the file was seen to be one.

    Raises:
        DataError: it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(end - _TAIL)
            length = int.from_bytes(file.read(4), "little")
            file.seek(max(end - _TAIL - length, 0))
            footer = file.read(length)
    except (OSError, ValueError):
        raise DataError(f"cannot read the footer of {path}.") from None
    return hashlib.blake2b(footer, digest_size=_ID).hexdigest()


def opened_shard(shard: Shard) -> Footer:
    """Return the footer of a shard, on the machine of a worker.

    Raises:
        DataError: the file is not there, cannot be read, or is not the one that was planned for.
    """
    path = Path(shard.path)
    footer, digest = _current(path, stamp(path))
    if (footer.stamp[0], digest) != (shard.size, shard.digest):
        raise DataError(
            f"the file {path} is not the one that the run was planned for: it was written again, "
            "or cut, or this worker has another one of that name. Make the table anew; a run that "
            "has begun goes on with the files that it began with."
        )
    return footer


@lru_cache(maxsize=4096)
def _current(path: Path, state: tuple[int, int]) -> tuple[Footer, str]:
    """Return a file's footer and its digest, read once for each state of the file."""
    (footer,) = read_footers(path)
    return footer, footer_digest(path)
