"""Files that appear all together, once everything has gone well, or not at all.

Each file is first written beside its place under another name. Places are tried before any row is
read or any budget spent, so that a fit is not paid for and then lost to a full or read-only folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import DataError


class Outputs:
    """The files that a command writes; leaving the ``with`` block without `commit` drops them.

    Args:
        force: whether files that are there may be replaced.
        inputs: files that are read, which are never replaced.
    """

    def __init__(self, *, force: bool = False, inputs: Iterable[Path | None] = ()) -> None:
        self._force, self._inputs = force, [path for path in inputs if path is not None]
        self._drafts: dict[Path, Path] = {}  # place -> where it is written until the end

    def reserve(self, path: Path | None) -> Path | None:
        """Return where to write the file for ``path``; None stays None.

        Raises:
            DataError: there is a file already, or none can be written there.
        """
        if path is None:
            return None
        self._check(path)
        try:
            handle, draft = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
        except OSError as problem:
            raise _cannot(path, problem) from None
        os.close(handle)
        self._drafts[path] = Path(draft)
        return Path(draft)

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
        self._drafts = {}

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


def _cannot(path: Path, problem: OSError) -> DataError:
    return DataError(f"cannot write {path}: {problem.strerror or problem}.")
