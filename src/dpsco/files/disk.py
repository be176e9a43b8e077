"""What dpsco asks of a disk: to lock, write and sync, and which file a path leads to."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

_NO_LOCKS = (errno.ENOTSUP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL)
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES)  # or a folder without reading


def flag(name: str) -> int:
    """Return a flag of `os.open`, 0 where the system does not have it."""
    return int(getattr(os, name, 0))


def absolute(place: Path) -> Path:
    """Return a path by which a later process finds the same file; the file may be a link itself."""
    return Path(os.path.realpath(place.parent)) / place.name


def is_at(path: Path, handle: int) -> bool:
    """Return whether a path leads to an open file."""
    try:
        result, ours = os.lstat(path), os.fstat(handle)
    except OSError:
        return False
    return (result.st_dev, result.st_ino) == (ours.st_dev, ours.st_ino)


def lock(handle: int, *, wait: bool, unknown: bool = False) -> bool:
    """Lock an open file, until it is closed or its process ends, however it ends.

    Args:
        handle: of the open file.
        wait: for another one that has it.
        unknown: what to return where the disk, or Windows, has no such locks.

    Returns:
        Whether it is locked.
    """
    if sys.platform == "win32":
        return unknown
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        return unknown and problem.errno in _NO_LOCKS
    return True


def write(handle: int, content: bytes) -> None:
    """Write all bytes to an open file."""
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    if sys.platform == "win32":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as problem:
        if problem.errno not in _NO_SYNC:
            raise
