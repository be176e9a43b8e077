"""The second place where an odometer's counter is kept: a small file beside it, ``NAME.counter``.

An odometer that was emptied, deleted or put back from an old copy would be a fresh budget. So its
identity and how far its counter has come stand in a second file too. It is written after the
odometer itself, while that is locked: it may be one behind, if a process dies in between, and is
never ahead. If it is ahead, the odometer is not the newest one. Whoever puts back old copies of
both is not noticed here: only by who remembers the counter elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from ...errors import DataError, OdometerError
from ...files.disk import write
from ...files.writing import write_text

_SCHEMA = "dpsco.odometer-counter/1"
_RECORD = re.compile(rf"{re.escape(_SCHEMA)} ([0-9a-zA-Z_-]{{1,64}}) (\d{{20}}) ([0-9a-f]{{32}})\n")


@dataclass(frozen=True)
class Count:
    """How far the counter of an odometer had come."""

    identity: str
    counter: int

    def text(self) -> str:
        """Return the record: of one length for one odometer, and told from a damaged one."""
        head = f"{_SCHEMA} {self.identity} {self.counter:020d}"
        return f"{head} {hashlib.sha256(head.encode()).hexdigest()[:32]}\n"


def counter_file(odometer: Path) -> Path:
    """Return the name of the second place."""
    return odometer.with_name(f"{odometer.name}.counter")


def read_count(odometer: Path) -> Count | None:
    """Return what the second place says; None if there is none.

    Raises:
        OdometerError: it cannot be read.
    """
    path = counter_file(odometer)
    try:
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(path, flags)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _unusable(odometer, problem.strerror or str(problem)) from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _unusable(odometer, "it is no regular file")
        content = os.read(handle, 1024).decode("ascii", errors="replace")
    except OSError as problem:
        raise _unusable(odometer, problem.strerror or str(problem)) from None
    finally:
        os.close(handle)
    match = _RECORD.fullmatch(content)
    if match is None or (count := Count(match[1], int(match[2]))).text() != content:
        raise _unusable(odometer, "it is damaged")
    return count


def write_count(odometer: Path, count: Count) -> None:
    """Bring a count to the disk; the odometer is locked meanwhile.

    A record takes the place of another one of the same length, in one write within one sector.

    Raises:
        OdometerError: it cannot be written.
    """
    path, content = counter_file(odometer), count.text().encode()
    try:
        handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            if os.fstat(handle).st_size != len(content):
                raise FileNotFoundError  # of another odometer, with a name of another length
            write(handle, content)
            os.fsync(handle)
        finally:
            os.close(handle)
    except FileNotFoundError:
        try:
            write_text(path, count.text())
        except DataError as problem:
            raise _unusable(odometer, str(problem).rstrip(".")) from None
    except OSError as problem:
        raise _unusable(odometer, problem.strerror or str(problem)) from None


def _unusable(odometer: Path, why: str) -> OdometerError:
    return OdometerError(
        f"cannot use the odometer {odometer}: its counter is kept in {counter_file(odometer)} too, "
        f"and that cannot be used: {why}. Nothing was recorded. If the odometer is the newest "
        "copy, remove that file and open it once with the counter that you know: "
        "Odometer(path, expect_at_least=...), on the command line --expect-at-least."
    )


def check_count(
    odometer: Path, here: Count, there: Count | None, *, vouched: bool, adopted: bool
) -> bool:
    """Compare an odometer with its second place; return whether that has to be written.

    Args:
        odometer: its path.
        here: what the odometer itself says.
        there: what the second place says.
        vouched: whether the caller has said how far the counter must have come.
        adopted: whether the odometer had no identity until now: an older dpsco has written it.

    Raises:
        OdometerError: they are not of one odometer, or this one is an older copy.
    """
    beside = counter_file(odometer)
    if there is None:
        if here.counter == 0 or vouched or adopted:
            return True
        raise OdometerError(
            f"{odometer} has counted {here.counter}, and {beside}, which tells whether it is the "
            "newest copy, is missing. If it was moved, move both. If you know the counter that it "
            "must have reached, pass it: Odometer(path, expect_at_least=...), on the command line "
            "--expect-at-least."
        )
    if there.identity != here.identity:
        if there.counter == 0:  # of one that was removed, or not finished, before it was used
            return True
        raise OdometerError(
            f"{odometer} is not the odometer that was there: {beside} knows another one, which has "
            f"counted {there.counter}. Put that one back. If it really is to be forgotten, remove "
            f"{beside} as well: its budget is then spent again."
        )
    if there.counter > here.counter:
        raise rolled_back(odometer, here.counter, there.counter, f"{beside} says")
    return there.counter < here.counter


def check_absent(odometer: Path) -> None:
    """Refuse to begin an odometer where another one has been used and is gone.

    Raises:
        OdometerError: the second place of that one is still there.
    """
    there = read_count(odometer)
    if there is not None and there.counter > 0:
        raise OdometerError(
            f"there was an odometer at {odometer}, which has counted {there.counter}, as "
            f"{counter_file(odometer)} says, and it is gone. Put it back. If it really is to be "
            "forgotten, remove that file as well: its budget is then spent again."
        )


def rolled_back(odometer: Path, here: int, there: int, who: str) -> OdometerError:
    """Return the refusal of an old copy."""
    return OdometerError(
        f"{odometer} is an old copy: it has counted {here}, and {who} that it had reached {there}. "
        "What was spent since would be spent again, and noise used again. Nothing was recorded. "
        "Put the newest copy back."
    )
