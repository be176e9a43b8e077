"""Files that appear all together, once everything has gone well, or not at all.

Each file is first written beside its place under another name. Places are tried, and room on the
disk is taken, before any row is read or any budget spent: a fit must not be paid for and then lost
to a full or read-only folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..files.journal import recover
from ..files.writing import Draft, check_regular, commit, drop, explained, mode_of_copy


class Outputs:
    """The files that a command writes; leaving the ``with`` block without `commit` drops them.

    Args:
        force: whether files that are there may be replaced.
        inputs: files that are read, which are never replaced.
    """

    def __init__(self, *, force: bool = False, inputs: Iterable[Path | None] = ()) -> None:
        self._force, self._inputs = force, [path for path in inputs if path is not None]
        self._drafts: list[Draft] = []
        self.written = False

    def reserve(
        self, path: Path | None, *, rows_of: Path | None = None, room: int = 0
    ) -> Path | None:
        """Return where to write the file for ``path``; None stays None.

        Args:
            path: of the file.
            rows_of: a table of whose rows the file speaks, or a pattern of files: nobody else may
                read it.
            room: bytes that are taken at once, so that a full disk shows before anything is paid.

        Raises:
            DataError: there is a file already, or none can be written there.
        """
        if path is None:
            return None
        with explained(path):
            recover(path)
            self._check(path)
        sources: list[Path] = []
        if rows_of is not None:
            from ..data.tables.origin import files_at

            sources = files_at(rows_of)
        self._drafts.append(Draft(path, mode=mode_of_copy(sources)))
        self._drafts[-1].create()
        self._drafts[-1].hold(room)
        return self._drafts[-1].path

    def text(self, draft: Path | None, text: str) -> None:
        """Write text to a reserved file; nothing if none was asked for."""
        if draft is None:
            return
        (ours,) = (each for each in self._drafts if each.path == draft)
        ours.write(text.encode())

    def json(self, draft: Path | None, record: Any, *, indent: int = 2) -> None:
        """Write JSON likewise."""
        if draft is not None:
            self.text(draft, json.dumps(record, indent=indent, allow_nan=False) + "\n")

    def commit(self) -> None:
        """Put every file in its place, on the disk; if one cannot be, none is.

        Raises:
            DataError: one cannot be.
        """
        try:
            commit(self._drafts)
        finally:  # an interrupt may come when everything is in its place
            self.written = not any(draft.is_there for draft in self._drafts)

    def _check(self, path: Path) -> None:
        """Refuse a place that is taken, by a file, a folder, an input or another output."""
        real = os.path.realpath(path)
        if any(real == os.path.realpath(draft.place) for draft in self._drafts):
            raise DataError(f"{path} is named for two outputs; give each a file of its own.")
        there = path.exists()
        if there and any(
            source.exists() and os.path.samefile(path, source) for source in self._inputs
        ):
            raise DataError(f"{path} is read by this command, and not replaced.")
        check_regular(path)
        if there and not self._force:
            raise DataError(f"{path} is there already; choose another name, or pass --force.")

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, *_: object) -> None:
        drop(self._drafts)
