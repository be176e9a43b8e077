"""What has to outlive a process: lines of public facts on a disk, each there before it counts.

A worker writes down which requests it has answered, a coordinator who is in a masked sum. Nothing
of a row is in such a file. A line is on the disk before what it speaks of leaves; a process that is
killed while it writes leaves half a line, which never counted, and which the next one removes.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..files import limits as _limits
from ..files.disk import flag, lock, sync_folder, write
from ..files.reading import parse_json
from ..files.writing import check_regular, explained
from ..privacy.release import NonCopyable

_PATIENCE = 5.0  # seconds for another process to let go of the file
_PAUSE = 0.05
_HEADS = (b'{"worker": "', b'{"helper": "', b'{"run": "')  # of what workers, helpers, servers note


class Journal(NonCopyable):
    """A file of JSON objects, one per line, that one process at a time appends to.

    Args:
        path: of the file; it is made if it is not there.

    Raises:
        DataError: it cannot be read or written, holds something else, or another process has it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with explained(self.path):
            check_regular(self.path)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | flag("O_CLOEXEC") | flag("O_BINARY")
            self._handle = os.open(self.path, flags, 0o600)
        try:
            self._lock()
            self.entries = self._read()
            sync_folder(self.path.parent)
        except BaseException:
            self.close()
            raise

    def append(self, entry: dict[str, Any]) -> None:
        """Bring one more entry to the disk.

        Raises:
            DataError: the disk is full, or the file was closed.
        """
        with explained(self.path):
            write(self._handle, json.dumps(entry).encode() + b"\n")
            os.fsync(self._handle)
        self.entries.append(entry)

    def close(self) -> None:
        """Let go of the file."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        """Wait a little for another process, then refuse."""
        deadline = time.monotonic() + _PATIENCE
        while not lock(self._handle, wait=False, unknown=True):
            if time.monotonic() > deadline:
                raise DataError(
                    f"{self.path} is in use by another process: one at a time answers for its rows."
                    " End that one, or name another file for another party."
                )
            time.sleep(_PAUSE)

    def _read(self) -> list[dict[str, Any]]:
        """Return the entries, without half a line at the end."""
        with explained(self.path):
            size = os.fstat(self._handle).st_size
            if size > _limits.JOURNAL.size:
                raise DataError(f"{self.path} is larger than {_limits.JOURNAL.size:,} bytes.")
            content = b"".join(iter(lambda: os.read(self._handle, 1 << 20), b""))
        whole = content[: content.rfind(b"\n") + 1]
        half, what = content[len(whole) :], f"the journal {self.path}"
        entries = [
            parse_json(line, what=what, limits=_limits.JOURNAL, error=DataError)
            for line in whole.splitlines()
        ]
        # Last: somebody else's file that was named by mistake stays as it is.
        if not all(isinstance(entry, dict) for entry in entries) or not _begins_entry(half):
            raise DataError(f"{self.path} is no journal of dpsco: choose another file.")
        if half:
            with explained(self.path):
                os.ftruncate(self._handle, len(whole))
        return entries


def _begins_entry(half: bytes) -> bool:
    """Return whether an entry begins like this, and its process was killed while it wrote."""
    return any(half[: len(head)] == head[: len(half)] for head in _HEADS)
