"""Where rows wait on disk while they are shuffled: files without a name, and buckets in them.

Only this process can open such a file, and the system frees it when it is closed, even if the
process is killed. The bytes are not overwritten; keep the folder on an encrypted disk if that
matters.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError


class NamelessFile:
    """A file without a name, to which bytes are appended, and from which threads may read."""

    def __init__(self, folder: str | Path) -> None:
        file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        self._file, self._lock = file, threading.Lock()
        self._size = 0
        self.close = weakref.finalize(self, file.close)

    def append(self, content: Any) -> int:
        """Write bytes at the end; return where they begin."""
        begin, left = self._size, memoryview(content).cast("B")
        self._size += len(left)
        self._file.seek(begin)
        while len(left):
            left = left[self._file.write(left) :]
        return begin

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill ``target`` with the bytes at a place.

        Raises:
            DataError: the file was closed, or is shorter than that.
        """
        if self._file.closed:
            raise DataError("the shuffled rows were deleted when their source was closed.")
        while len(target):
            done = self._read_at(target, offset)
            if not done:
                raise DataError("the file of shuffled rows is shorter than it was written.")
            target, offset = target[done:], offset + done

    def _read_at(self, target: memoryview, offset: int) -> int:
        """Read from a place; threads do not disturb each other."""
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [target], offset)
        with self._lock:
            self._file.seek(offset)
            return int(self._file.readinto(target) or 0)


class Buckets:
    """Buckets that grow side by side in one file, each in extents."""

    def __init__(self, folder: str | Path, count: int) -> None:
        self._file = NamelessFile(folder)
        self._extents: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self.close = self._file.close

    def __len__(self) -> int:
        return len(self._extents)

    def append(self, bucket: int, content: Any) -> None:
        """Write bytes that belong to a bucket."""
        begin = self._file.append(content)
        self._extents[bucket].append((begin, memoryview(content).nbytes))

    def read(self, bucket: int) -> Iterator[bytearray]:
        """Yield what was appended to a bucket, in that order."""
        for begin, size in self._extents[bucket]:
            content = bytearray(size)
            self._file.read_into(memoryview(content), begin)
            yield content

    def __enter__(self) -> Buckets:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
