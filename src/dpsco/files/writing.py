"""Writing files: beside their place first, then on the disk, then renamed, one or several together.

A file is regular or is not written: whatever else has a name (a device, a pipe, a socket, a link)
is somebody's own, and renaming a draft over it would replace it. What goes wrong is a `DataError`
that names the file.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import DataError
from .disk import flag, is_at, lock, write
from .journal import DRAFT, OLD, Move, claim_of, prefix, recover, replace_all

_KINDS = (
    (stat.S_ISDIR, "Is a directory"),
    (stat.S_ISLNK, "it is a link; name the file itself"),
    (stat.S_ISFIFO, "it is a pipe, and no regular file"),
    (stat.S_ISSOCK, "it is a socket, and no regular file"),
    (stat.S_ISCHR, "it is a device, and no regular file"),
    (stat.S_ISBLK, "it is a device, and no regular file"),
)


class Draft:
    """A file beside its place, which it takes at the end; locked as long as its process lives.

    Args:
        place: where the file goes.
        mode: who may read and write it, less the process's umask.
    """

    def __init__(self, place: Path, *, mode: int = 0o666) -> None:
        self.place, self.path, self._handle = place, place, -1
        self._mode = mode

    def create(self) -> None:
        """Make the file.

        Raises:
            DataError: no file can be written there.
        """
        with explained(self.place):
            recover(self.place)
            check_regular(self.place)
            while not self._created():
                pass

    def _created(self) -> bool:
        """Make and lock a file of a new name; known by name before it is there, to be dropped."""
        name = f"{prefix(self.place)}{os.getpid()}-{time.monotonic_ns():x}{DRAFT}"
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | flag("O_CLOEXEC") | flag("O_BINARY")
        self.path = self.place.parent / name
        try:
            self._handle = os.open(self.path, flags, self._mode)
        except FileExistsError:
            return False
        lock(self._handle, wait=True)
        if is_at(self.path, self._handle):
            return True
        os.close(self._handle)  # somebody took it for stale before it was locked
        return False

    def hold(self, size: int) -> None:
        """Take so many bytes of the disk now, for what is written later.

        Raises:
            DataError: the disk has no room for them.
        """
        with explained(self.place):
            write(self._handle, bytes(size))

    def write(self, content: bytes) -> None:
        """Replace what is in the draft, in the room that it holds."""
        with explained(self.place):
            os.lseek(self._handle, 0, os.SEEK_SET)
            write(self._handle, content)
            os.ftruncate(self._handle, len(content))

    def sync(self) -> Move:
        """Bring the draft to the disk, with the mode of the file that it replaces."""
        check_regular(self.place)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(self.path, stat.S_IMODE(os.stat(self.place).st_mode))
        os.fsync(self._handle)
        return Move.of(self.place, self.path)

    @property
    def is_there(self) -> bool:
        """Whether the draft still has its own name."""
        return os.path.lexists(self.path)

    def drop(self) -> None:
        """Remove the draft, unless it has taken its place, and let go of it.

        If its place is claimed, a commit was interrupted twice, and `recover` may need the draft.
        """
        with contextlib.suppress(OSError, ValueError):
            if self.path != self.place and not os.path.lexists(claim_of(self.place)):
                os.unlink(self.path)
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)


def mode_of_copy(sources: Iterable[Path]) -> int:
    """Return the mode of a file with rows of other files: nobody else reads it than reads these.

    Whoever cannot pass a folder above a file cannot read it. A group counts as everybody does: that
    of a new file may be another one.
    """
    everybody = 0o6
    for source in map(Path, sources):
        with explained(source):
            mode = os.stat(source).st_mode
            everybody &= mode & mode >> 3
            for folder in source.resolve().parents:
                if not os.stat(folder).st_mode & 0o001:
                    everybody = 0
    return 0o600 | everybody << 3 | everybody


def commit(drafts: Sequence[Draft]) -> None:
    """Put every draft in its place, on the disk; if one cannot be, none is.

    Raises:
        DataError: one cannot be; nothing has changed.
    """
    if not drafts:
        return
    moves = []
    for draft in drafts:
        with explained(draft.place):
            moves.append(draft.sync())
    with explained(*(draft.place for draft in drafts)):
        replace_all(moves)
    for draft in drafts:
        _remove_stale(draft.place)


def drop(drafts: Sequence[Draft]) -> None:
    """Remove drafts that have not taken their places; an interrupt does not end it half-way."""
    try:
        for draft in drafts:
            draft.drop()
    except BaseException:
        for draft in drafts:
            draft.drop()
        raise


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write several files, all of them or none.

    Raises:
        DataError: one cannot be written; nothing has changed.
    """
    drafts: list[Draft] = []
    try:
        for place in files:
            drafts.append(Draft(place))
            drafts[-1].create()
        for draft in drafts:
            draft.write(files[draft.place])
        commit(drafts)
    finally:
        drop(drafts)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file whole, or leave what is there.

    Raises:
        DataError: it cannot be written.
    """
    try:
        content = text.encode()
    except UnicodeEncodeError:
        raise DataError(f"cannot write {path}: its text is not valid Unicode.") from None
    write_files({Path(path): content})


def check_regular(place: Path) -> None:
    """Refuse to write to what is there and no regular file.

    Raises:
        DataError: it is a folder, a link, a device, a pipe or a socket.
        OSError: nobody can tell.
    """
    try:
        mode = os.lstat(place).st_mode
    except FileNotFoundError:
        return
    for result, what in _KINDS:
        if result(mode):
            raise DataError(f"cannot write {place}: {what}.")


@contextlib.contextmanager
def explained(*places: Path) -> Iterator[None]:
    """Say in words what the system refuses, and for which file."""
    try:
        yield
    except OSError as problem:
        named = [place for place in places if str(problem.filename2 or "").endswith(place.name)]
        where = ", ".join(str(place) for place in named or places)
        homeless = [str(place.parent) for place in named or places if not place.parent.is_dir()]
        reason = f"there is no folder {homeless[0]}" if homeless else problem.strerror or problem
        raise DataError(f"cannot write {where}: {reason}.") from None
    except ValueError as problem:
        if isinstance(problem, DataError):
            raise
        raise DataError(f"cannot write {str(places[0])!r}: {problem}.") from None  # a NUL in it


def _remove_stale(place: Path) -> None:
    """Remove what killed commands have left beside a file; drafts that are in use are locked."""
    ours = re.compile(re.escape(prefix(place)) + rf"\d+-[0-9a-f]+({DRAFT}|{OLD})")
    with contextlib.suppress(OSError):
        result = [name for name in os.listdir(place.parent) if ours.fullmatch(name)]
        # What was there before is needed as long as there is a claim, which is older than it.
        claimed = os.path.lexists(claim_of(place))
        for name in result:
            if name.endswith(DRAFT):
                _remove_unlocked(place.parent / name)
            elif not claimed:
                os.unlink(place.parent / name)


def _remove_unlocked(draft: Path) -> None:
    with contextlib.suppress(OSError):  # it is gone, or somebody else's
        handle = os.open(draft, os.O_RDWR | flag("O_NONBLOCK"))
        try:
            if lock(handle, wait=False):
                os.unlink(draft)
        finally:
            os.close(handle)
