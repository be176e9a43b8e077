"""Where the rows of a table lie: files by name, size and time of change, and how they are read.

A run that goes on must find the rows that it began with. Nothing about the rows themselves may be
kept to see to it, but their files can be told from others without a look inside.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Hashable, Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from ..._validate import reason
from ...errors import CheckpointError, DataError
from ...files.limits import STORED
from ...files.reading import parse_json

Stamped = tuple[Path, tuple[int, int]]  # a file, its size, and its time of change in nanoseconds


def stamp(path: Path) -> tuple[int, int]:
    """Return size and time of change of a file."""
    try:
        result = os.stat(path)
    except OSError:
        raise DataError(f"the file {path} is gone.") from None
    return result.st_size, result.st_mtime_ns


def files_at(path: str | Path) -> list[Path]:
    """Return the files that a path, a folder or a pattern leads to; none if there is nothing."""
    places = [path] if os.path.exists(path) else matches(path)
    files = [file for place in map(Path, places) for file in (place, *place.rglob("*"))]
    return [file for file in files if file.is_file()]


def files_of(path: str | Path) -> set[Hashable]:
    """Return which files these are, whatever their names."""
    return set(map(_identity, files_at(path)))


def check_unchanged(files: Iterable[Stamped]) -> None:
    """Refuse files that were written since they were planned for.

    Raises:
        DataError: one was, or is gone.
    """
    for path, state in files:
        if stamp(path) != state:
            raise DataError(f"the file {path} changed after its footer was read.")


def matches(pattern: str | Path) -> list[str]:
    """Return what fits a pattern, each name once: ``**`` after ``**`` finds some twice."""
    return sorted(set(glob.glob(os.fspath(pattern), recursive=True)))


def check_once(files: Iterable[Path]) -> None:
    """Refuse a file that is listed under two names, such as a link to another one.

    Raises:
        DataError: its rows would count twice, and their bounds not hold.
    """
    known: dict[Hashable, Path] = {}
    for file in files:
        other = known.setdefault(_identity(file), file)
        if other is not file:
            raise DataError(
                f"{file} is named twice (as {other}): its rows would count twice. Name each file "
                "once; a folder stands for all of its files."
            )


def _identity(path: Path) -> Hashable:
    """Return what two names of one file have in common, links of every kind."""
    result = os.stat(path)
    return (result.st_dev, result.st_ino) if result.st_ino else os.path.realpath(path)


def origin_of(files: Iterable[Stamped], reading: str) -> str:
    """Return a text that is another one for other files, and after any change of these.

    Args:
        files: in their order.
        reading: what is made of a row of them, such as the names of the columns.
    """
    result = [[os.path.realpath(path), size, changed] for path, (size, changed) in files]
    return json.dumps({"files": result, "reading": reading})


def shareable(origin: str | None) -> str | None:
    """Return an origin without the sizes of files, which depend on what the rows hold."""
    if origin is None:
        return None
    record = _parsed(origin)
    files = [[name, None, changed] for name, _, changed in record["files"]]
    return json.dumps({**record, "files": files})


def difference(known: str | None, current: str | None) -> str:
    """Return how two origins differ, in words: "it was begun on ..., and this is ..."."""
    if known is None or current is None:
        was, now = (_first(origin) for origin in (known, current))
        return f"it was begun on {was}, and this is {now}"
    old, new = (_parsed(origin)["files"] for origin in (known, current))
    for before, after in zip_longest(old, new):
        if before != after:
            return _one_file(before, after)
    return "it was begun on the same files read otherwise: other columns, or another schema"


def _first(origin: str | None) -> str:
    """Return the first file of an origin."""
    return "rows of no file" if origin is None else _name(_parsed(origin)["files"][0][0])


def _one_file(before: Any, now: Any) -> str:
    """Return how the first files differ that do; one of them may be missing."""
    if before is None:
        return f"it was begun without the file {now[0]}"
    if now is None:
        return f"it was begun with the file {_name(before[0])} too"
    (name, _, changed), (other, _, later) = before, now
    if name == other:
        return f"{name} has changed since it was begun ({_time(changed)}, now {_time(later)})"
    return f"it was begun on {_name(name)}, and this is {other}"


def _name(name: Any) -> str:
    """Return the name of a file, as a checkpoint has it, for a message."""
    return reason(str(name))


def _parsed(origin: str) -> Any:
    """Return the values of an origin, which a file may hold in any form."""
    return parse_json(origin, what="where rows lie", limits=STORED, error=CheckpointError)


def _time(changed: int) -> str:
    """Return a time of change, in UTC."""
    return f"{np.datetime64(changed // 10**9, 's')} UTC"
