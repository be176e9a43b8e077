"""Several files that change together: all of them or none, whatever dies and whenever.

A file system renames one file at a time. So whoever renames several first claims each place with a
small file beside it, ``.NAME.dpsco-commit``, and writes into the first of them which draft goes
where. One byte of it is the decision:

    p   prepared: nothing has changed yet; what is left of a dead process is removed
    f   forward: every draft that is still there goes to its place
    u   undo: a rename failed; what was there before comes back

The byte is written and on the disk before the first rename. A process that is killed before it has
changed no name; one that is killed after it has changed all of them, once `recover` was called for
one of the places, which every command of dpsco does before it reads or writes there. A claim is
locked as long as its process lives. Only claims of the same user are followed, and only to drafts
beside their places: a file that somebody else puts there moves nothing.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError
from .disk import absolute, flag, is_at, lock, sync_folder, write

DRAFT, OLD, CLAIM = ".dpsco-draft", ".dpsco-old", ".dpsco-commit"
_PREPARED, _FORWARD, _UNDO, _POINTER = b"p", b"f", b"u", b"-"
_PATIENCE = 10.0  # seconds to wait for another process that renames, which takes milliseconds
_LONGEST_NAME = 180  # bytes; 255 are allowed, with what is put before and after
_LARGEST = 1 << 20  # bytes of a claim


@dataclass(frozen=True)
class Move:
    """A draft, where it goes, and the name under which what was there is kept meanwhile."""

    place: Path
    draft: Path
    old: Path
    inode: tuple[int, int]  # of the draft: whoever finds another file in the place leaves it there

    @classmethod
    def of(cls, place: Path, draft: Path) -> Move:
        """Return the move of a draft that is there."""
        place = absolute(place)
        draft = place.parent / draft.name
        result = os.lstat(draft)
        old = draft.with_name(draft.name.removesuffix(DRAFT) + OLD)
        return cls(place, draft, old, (result.st_dev, result.st_ino))


def prefix(place: Path) -> str:
    """Return how the names of what lies beside a file for a while begin."""
    name = place.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = f"{name[:40]}.{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    return f".{name}."


def replace_all(moves: Sequence[Move]) -> None:
    """Rename every draft to its place; if that fails, nothing has changed.

    Raises:
        DataError: another process does not come to an end with one of the places.
        OSError: a rename, or what comes before it, is not possible.
    """
    if len(moves) == 1:
        os.replace(moves[0].draft, moves[0].place)
        with contextlib.suppress(OSError):  # it is in its place
            _sync_folders(moves)
        return
    journal = _Journal(sorted(moves, key=lambda move: str(move.place)))
    try:
        journal.prepare()
        journal.decide(_FORWARD)
        _forward(journal.moves)
        os.unlink(journal.first)  # the end: from here on nobody takes anything back
    except BaseException as problem:
        journal.give_up()
        if not (journal.ended and isinstance(problem, OSError)):
            raise
    finally:
        try:
            journal.release()
        except BaseException:  # an interrupt
            journal.release()
            raise


def recover(place: Path, *, pointed: bool = False) -> None:
    """Finish what a process that was killed had begun with a file; nothing if nobody had.

    Args:
        place: of the file.
        pointed: whether another claim has pointed here; one that points on is then no claim.

    Raises:
        DataError: a living process does not come to an end with it, or it cannot be finished.
    """
    place = absolute(place)
    deadline = time.monotonic() + _PATIENCE
    claim = claim_of(place)
    while os.path.lexists(claim):
        try:
            others = _settle(claim, pointed)
        except OSError as problem:
            raise DataError(
                f"{place} was being replaced when a command was killed, and that cannot be "
                f"finished: {problem.strerror or problem}."
            ) from None
        if others is None:  # not ours to follow
            return
        for other in others:
            if other != place:
                recover(other, pointed=True)
        if time.monotonic() > deadline:
            raise _busy(place)
        time.sleep(0.0 if others else 0.01)


class _Journal:
    """The claims of one process, and the decision in the first of them."""

    def __init__(self, moves: Sequence[Move]) -> None:
        self.moves = moves
        self.first = claim_of(moves[0].place)
        self._claims: dict[Path, int] = {}
        self._decided = self._undone = False

    def prepare(self) -> None:
        """Claim every place, in an order that all processes share, and keep what is there."""
        for move in self.moves:
            claim = claim_of(move.place)
            self._claims[claim] = _claim(claim, move.place)
        for move in self.moves:
            _keep(move)
        record = [
            [str(move.place), str(move.draft), str(move.old), *move.inode] for move in self.moves
        ]
        pointer = _POINTER + json.dumps(str(self.first)).encode()
        for claim, handle in self._claims.items():
            first = claim == self.first
            write(handle, _PREPARED + json.dumps(record).encode() if first else pointer)
            os.fsync(handle)
        _sync_folders(self.moves)

    def decide(self, state: bytes) -> None:
        """Write the one byte that says what becomes of the drafts."""
        handle = self._claims[self.first]
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, state)
        self._decided = True
        os.fsync(handle)

    @property
    def ended(self) -> bool:
        """Whether everything is in its place, and the first claim gone."""
        prepared = self.first in self._claims and not self._undone
        return prepared and not is_at(self.first, self._claims[self.first])

    def give_up(self) -> None:
        """Bring back what was there, unless everything is in its place already."""
        if self.first not in self._claims or self.ended:
            return
        if self._decided:
            with contextlib.suppress(OSError):  # a disk so full that a byte cannot be changed
                self.decide(_UNDO)
            _undo(self.moves)
            with contextlib.suppress(OSError):
                _sync_folders(self.moves)
        self._undone = True
        os.unlink(self.first)

    def release(self) -> None:
        """Remove what is left of the claims, which nobody else does while they are locked.

        If the first is still there, what is begun is left to `recover`.
        """
        done = self.first not in self._claims or not is_at(self.first, self._claims[self.first])
        if done:
            _drop(move.old for move in self.moves)
        for claim in reversed(list(self._claims)):
            handle = self._claims[claim]
            if done and is_at(claim, handle):
                _drop([claim])
            with contextlib.suppress(OSError):
                os.close(handle)
            del self._claims[claim]


def _settle(claim: Path, pointed: bool) -> list[Path] | None:
    """Finish what the process of a claim had begun; return other places where to look again.

    None is for a claim that is not ours: it is left alone. While its process lives, it is waited
    for.
    """
    handle = _opened(claim)
    if handle is None:
        return [] if not os.path.lexists(claim) else None
    try:
        _wait(handle, claim)
        if not is_at(claim, handle):
            return []
        content = os.pread(handle, _LARGEST, 0)
        state, record = content[:1], _parsed(content[1:])
        if state == _POINTER and not pointed and isinstance(record, str):
            first = _place_of(Path(record))
            if first is not None and os.path.lexists(record) and Path(record) != claim:
                return [first]
        moves = _moves(record) if state in (_PREPARED, _FORWARD, _UNDO) else []
        if state == _FORWARD:
            _forward(moves)
        elif state == _UNDO:
            _undo(moves)
            _sync_folders(moves)
        os.unlink(claim)
        _drop(path for move in moves for path in (move.draft, move.old))
        return [move.place for move in moves]
    finally:
        os.close(handle)


def _forward(moves: Sequence[Move]) -> None:
    """Rename every draft that is still there, and bring that to the disk."""
    for move in moves:
        if os.path.lexists(move.draft):
            os.replace(move.draft, move.place)
    _sync_folders(moves)


def _undo(moves: Sequence[Move]) -> None:
    """Bring back what was there before; leave alone what somebody else has put there since."""
    for move in moves:
        with contextlib.suppress(FileNotFoundError):
            result = os.lstat(move.place)
            if (result.st_dev, result.st_ino) != move.inode:
                continue
        if os.path.lexists(move.old):
            os.replace(move.old, move.place)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(move.place)


def _keep(move: Move) -> None:
    """Give what is in the place a second name; where a disk has no such names, copy it."""
    if not os.path.lexists(move.place):
        return
    try:
        os.link(move.place, move.old, follow_symlinks=False)
    except FileNotFoundError:  # it has gone meanwhile
        return
    except OSError as problem:
        if problem.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS):
            raise
        shutil.copy2(move.place, move.old)


def _claim(claim: Path, place: Path) -> int:
    """Make a claim that nobody else has, and lock it; finish what a dead process has left."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        recover(place)
        try:
            handle = os.open(claim, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            if _opened_by_others(claim):
                raise DataError(
                    f"cannot write {place}: {claim} is in the way, left by another user's command "
                    "that was killed, or that runs. Have it finished by that user, or removed."
                ) from None
            continue
        if lock(handle, wait=True, unknown=True) and is_at(claim, handle):
            return handle
        os.close(handle)  # somebody took it for a dead one before it was locked
    raise _busy(place)


def claim_of(place: Path) -> Path:
    """Return the name of a place's claim."""
    place = absolute(place)
    return place.parent / f"{prefix(place).removesuffix('.')}{CLAIM}"


def _place_of(claim: Path) -> Path | None:
    """Return the place that a claim is for, by its name; None for another name."""
    name = claim.name
    ours = claim.is_absolute() and name.startswith(".") and name.endswith(CLAIM)
    place = claim.parent / name[1 : -len(CLAIM)]
    return place if ours and len(name) > len(CLAIM) + 1 and claim_of(place) == claim else None


def _opened(claim: Path) -> int | None:
    """Open a claim that this user has written, and nobody else can have; None for others."""
    try:
        handle = os.open(claim, os.O_RDWR | flag("O_NOFOLLOW") | flag("O_NONBLOCK"))
    except OSError:
        return None
    result = os.fstat(handle)
    ours = stat.S_ISREG(result.st_mode) and not result.st_mode & 0o022
    if ours and (sys.platform == "win32" or result.st_uid == os.geteuid()):
        return handle
    os.close(handle)
    return None


def _opened_by_others(claim: Path) -> bool:
    handle = _opened(claim)
    if handle is not None:
        os.close(handle)
    return handle is None and os.path.lexists(claim)


def _moves(record: Any) -> list[Move]:
    """Return the moves of a claim; none that leads elsewhere than from a draft to its place."""
    result = []
    for place, draft, old, device, inode in record if isinstance(record, list) else []:
        move = Move(Path(place), Path(draft), Path(old), (int(device), int(inode)))
        beside = move.place.parent == move.draft.parent == move.old.parent
        named = all(part.name.startswith(prefix(move.place)) for part in (move.draft, move.old))
        if (
            beside
            and named
            and move.draft.name.endswith(DRAFT)
            and move.old.name.endswith(OLD)
            and absolute(move.place) == move.place
        ):
            result.append(move)
    return result


def _parsed(content: bytes) -> Any:
    """Return what a claim says; None if its process died while it wrote."""
    try:
        return json.loads(content)
    except ValueError:
        return None


def _wait(handle: int, claim: Path) -> None:
    """Wait until a claim's process has ended, or let go of it."""
    deadline = time.monotonic() + _PATIENCE
    while not lock(handle, wait=False, unknown=True):
        if time.monotonic() > deadline:
            raise _busy(_place_of(claim) or claim)
        time.sleep(0.01)


def _busy(place: Path) -> DataError:
    return DataError(
        f"another process is replacing {place}, and does not come to an end. Try again when it has."
    )


def _sync_folders(moves: Iterable[Move]) -> None:
    """Bring the names in the folders of the places to the disk."""
    for folder in sorted({move.place.parent for move in moves}):
        sync_folder(folder)


def _drop(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)
