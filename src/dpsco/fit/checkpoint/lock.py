"""The file of a checkpoint on its disk: made for its owner alone, told from others, held by one.

SQLite locks the file, but on Unix such a lock goes when the process closes the file anywhere, say
after copying it. So `FileLock` takes a second one, of a kind that belongs to an open file and stays
with it, on a byte that SQLite does not use. Linux has such locks; elsewhere SQLite's stands alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ...errors import CheckpointError

if sys.platform != "win32":
    import fcntl

_KIND: int | None = None
if sys.platform == "linux":  # a plain flock would collide with SQLite's own lock on NFS
    _KIND = getattr(fcntl, "F_OFD_SETLK", None)
_BYTE = 1 << 61  # beyond every page, and far from the bytes at 1 GiB that SQLite locks
_TAKEN = (errno.EAGAIN, errno.EACCES)
_PAUSE = 0.01  # seconds between two attempts

_held: dict[int, tuple[int, int] | None] = {}  # the file of each descriptor that is open here
_guard = threading.RLock()  # an object may be collected, and let go, while it is taken


class FileLock:
    """A file that this object holds, and nobody else, until it lets go or its process ends.

    Args:
        path: of a file that is there.
        patience: seconds to wait for another one to let go.

    Raises:
        CheckpointError: another one holds it, or it cannot be opened.
    """

    def __init__(self, path: Path, *, patience: float) -> None:
        self._path, self._process, self._descriptor = path, os.getpid(), -1
        if _KIND is None:
            return
        with _guard:  # closing the file here would drop SQLite's lock of a run in this process
            if place(path) in list(_held.values()):
                raise in_use(path)
            with _reachable(path):
                self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            _held[self._descriptor] = place(self._descriptor)
        try:
            self._take(time.monotonic() + patience)
        except BaseException:
            self.release()
            raise

    def _take(self, deadline: float) -> None:
        """Lock the file; leave it to SQLite where its disk has no such locks."""
        while not _locked(self._descriptor):
            if time.monotonic() > deadline:
                raise in_use(self._path)
            time.sleep(_PAUSE)
        if place(self._path) != _held[self._descriptor]:  # it was removed meanwhile
            raise in_use(self._path)

    def release(self) -> None:
        """Let go; after SQLite has, whose lock goes with the descriptor."""
        if self._descriptor < 0 or os.getpid() != self._process:  # a child has forgotten it
            return
        with _guard:
            descriptor, self._descriptor = self._descriptor, -1
            del _held[descriptor]
            with contextlib.suppress(OSError):  # a child that C code has forked would keep it
                _set_lock(descriptor, fcntl.F_UNLCK)
            os.close(descriptor)

    def __del__(self) -> None:
        self.release()


def _locked(descriptor: int) -> bool:
    """Try to lock; return whether nobody else has, as far as the disk can tell."""
    try:
        _set_lock(descriptor, fcntl.F_WRLCK)
    except OSError as problem:
        return problem.errno not in _TAKEN
    return True


def _set_lock(descriptor: int, kind: int) -> None:
    """Lock or unlock the byte; its owner is the open file, not the process."""
    assert _KIND is not None
    fcntl.fcntl(descriptor, _KIND, struct.pack("@hhqqi0q", kind, os.SEEK_SET, _BYTE, 1, 0))


def _forget() -> None:
    """Close what a forked process has inherited: the parent holds it, until the parent ends."""
    global _guard
    _guard = threading.RLock()  # which a thread of the parent may have held
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)


def create(path: Path) -> bool:
    """Make the file, readable by its owner alone from the first moment, unless it is there.

    Returns:
        Whether it was made.

    Raises:
        CheckpointError: it cannot be made, or there is something else than a file.
    """
    if path.is_dir():
        raise CheckpointError(
            f"the checkpoint {path} is a folder. Name a file in it, such as "
            f"{path / 'run.checkpoint'}. Nothing was released."
        )
    if path.is_symlink() and not path.exists():
        raise CheckpointError(
            f"the checkpoint {path} is a link to {os.readlink(path)}, where there is nothing. Name "
            "the file itself. Nothing was released."
        )
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        return True
    except FileExistsError:  # not opened: closing it would drop the lock of a run in this process
        if path.exists() and not path.is_file():
            raise CheckpointError(
                f"the checkpoint {path} is no regular file. Name a file. Nothing was released."
            ) from None
        return False
    except OSError as problem:
        raise CheckpointError(
            f"cannot make the checkpoint {path}: {problem.strerror}. Nothing was released."
        ) from None


def check_private(path: Path) -> None:
    """Refuse a key in a file that others may read.

    Raises:
        CheckpointError: its mode lets others read it, or it is another user's.
    """
    if os.name != "posix":
        return
    status = os.stat(path)
    mode = status.st_mode & 0o777
    if mode & 0o077:
        raise CheckpointError(
            f"{path} holds the key of the noise, and others may read it (mode {mode:o}). If nobody "
            "has, make it private (chmod 600) and resume."
        )
    if status.st_uid != os.geteuid():
        raise CheckpointError(
            f"{path} holds the key of the noise, and belongs to another user (number "
            f"{status.st_uid}), who may read it. Resume as that user, or choose another file for a "
            "new run."
        )


def place(path: Path | int) -> tuple[int, int] | None:
    """Return what tells the file at a path, or an open one, from any other; None without one."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def in_use(path: Path) -> CheckpointError:
    """Return the refusal of a file that another run holds."""
    return CheckpointError(
        f"{path} is in use: another run holds it. Wait for it to end, or end it; its lock goes "
        "with its process."
    )


@contextlib.contextmanager
def _reachable(path: Path) -> Iterator[None]:
    """Say in words why a file cannot be opened."""
    try:
        yield
    except OSError as problem:
        raise CheckpointError(
            f"cannot use the checkpoint {path}: {problem.strerror}. Nothing more was released."
        ) from None
