"""Files that appear all together, once everything has gone well, or not at all.

Each file is first written beside its place under another name. Places are tried before any row is
read or any budget spent, so that a fit is not paid for and then lost to a full or read-only folder.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import DataError

_ENDING = ".dpsco-draft"


class Outputs:
    """The files that a command writes; leaving the ``with`` block without `commit` drops them.

    Args:
        force: whether files that are there may be replaced.
        inputs: files that are read, which are never replaced.
    """

    def __init__(self, *, force: bool = False, inputs: Iterable[Path | None] = ()) -> None:
        self._force, self._inputs = force, [path for path in inputs if path is not None]
        self._drafts: dict[Path, Path] = {}  # place -> where it is written until the end
        self._handles: list[int] = []  # whose locks say that the drafts are in use

    def reserve(self, path: Path | None) -> Path | None:
        """Return where to write the file for ``path``; None stays None.

        Raises:
            DataError: there is a file already, or none can be written there.
        """
        if path is None:
            return None
        self._check(path)
        try:
            handle, draft = _draft(path)
        except OSError as problem:
            raise _cannot(path, problem) from None
        self._handles.append(handle)
        self._drafts[path] = draft
        return draft

    def text(self, draft: Path | None, text: str) -> None:
        """Write text to a reserved file; nothing if none was asked for."""
        if draft is None:
            return
        try:
            draft.write_text(text, encoding="utf-8")
        except OSError as problem:
            raise _cannot(draft, problem) from None

    def json(self, draft: Path | None, record: Any, *, indent: int = 2) -> None:
        """Write JSON likewise."""
        if draft is not None:
            self.text(draft, json.dumps(record, indent=indent, allow_nan=False) + "\n")

    def commit(self) -> None:
        """Put every file in its place; if one cannot be, take back those that were not there."""
        fresh: list[Path] = []
        mask = os.umask(0)
        os.umask(mask)
        for path, draft in self._drafts.items():
            new = not path.exists()
            try:
                os.chmod(draft, 0o666 & ~mask)
                os.replace(draft, path)
            except OSError as problem:
                for done in fresh:
                    done.unlink(missing_ok=True)
                raise _cannot(path, problem) from None
            if new:
                fresh.append(path)
        places, self._drafts = list(self._drafts), {}
        for path in places:
            _remove_stale(path)

    def _check(self, path: Path) -> None:
        """Refuse a place that is taken, by a file, a folder, an input or another output."""
        real = os.path.realpath(path)
        if any(real == os.path.realpath(place) for place in self._drafts):
            raise DataError(f"{path} is named for two outputs; give each a file of its own.")
        try:
            there = path.exists()
            ours = there and any(
                given.exists() and os.path.samefile(path, given) for given in self._inputs
            )
            folder = path.is_dir()
        except OSError as problem:
            raise _cannot(path, problem) from None
        if ours:
            raise DataError(f"{path} is read by this command, and not replaced.")
        if folder:
            raise DataError(f"cannot write {path}: Is a directory.")
        if there and not self._force:
            raise DataError(f"{path} is there already; choose another name, or pass --force.")

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, *_: object) -> None:
        for draft in self._drafts.values():
            with contextlib.suppress(OSError):
                draft.unlink()
        for handle in self._handles:
            os.close(handle)


def _prefix(path: Path) -> str:
    """Return how the names of a file's drafts begin."""
    return f".{path.name[:40]}."


def _draft(path: Path) -> tuple[int, Path]:
    """Make a draft for a file, and lock it: the lock goes with the process, however it ends."""
    while True:
        handle, name = tempfile.mkstemp(prefix=_prefix(path), suffix=_ENDING, dir=path.parent)
        _locked(handle, wait=True)
        if os.path.exists(name):  # else somebody took it for stale before it was locked
            return handle, Path(name)
        os.close(handle)


def _remove_stale(path: Path) -> None:
    """Remove drafts of a file whose commands were killed; those that are in use are locked."""
    for draft in path.parent.glob(f"{glob.escape(_prefix(path))}*{_ENDING}"):
        with contextlib.suppress(OSError):  # it is gone, or somebody else's
            handle = os.open(draft, os.O_RDWR)
            try:
                if _locked(handle, wait=False):
                    draft.unlink()
            finally:
                os.close(handle)


def _locked(handle: int, *, wait: bool) -> bool:
    """Lock an open file; return whether that went well. Windows has no such locks."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody else has it, or the disk knows no locks
        return False
    return True


def _cannot(path: Path, problem: OSError) -> DataError:
    return DataError(f"cannot write {path}: {problem.strerror or problem}.")
