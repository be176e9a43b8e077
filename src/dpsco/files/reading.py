"""Reading what others may have written: regular files of bounded size, JSON without surprises.

JSON has no limit on size, depth or digits, lets a field stand twice, and Python's reader adds NaN,
infinities and halves of surrogate pairs. Everything that dpsco reads goes through `parse_json`,
which refuses all of these with the caller's own error. A message says what is wrong, and quotes
little of the text.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any, NoReturn

from .._validate import distinct_fields, shown
from ..errors import DpscoError
from .disk import flag
from .limits import JsonLimits

_LARGEST = 2**64  # beyond any integer of a column, a count or a seed's word
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def read_bytes(path: str | Path, *, what: str, most: int, error: type[DpscoError]) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes.

    Args:
        path: of the file.
        what: the file is, in words, for messages: "the model".
        most: bytes that are read.
        error: to raise.
    """
    try:
        # Without blocking: opening a pipe would wait for somebody to write into it.
        flags = os.O_RDONLY | flag("O_NONBLOCK") | flag("O_BINARY") | flag("O_CLOEXEC")
        with open(os.open(path, flags), "rb") as file:
            result = os.fstat(file.fileno())
            if not stat.S_ISREG(result.st_mode):
                raise error(f"cannot read {what} {path}: it is no regular file.")
            if result.st_size > most:
                raise error(
                    f"cannot read {what} {path}: it is larger than {most:,} bytes, the limit."
                )
            content = file.read(result.st_size + 1)
    except OSError as problem:
        raise error(f"cannot read {what} {path}: {problem.strerror or problem}.") from None
    except (ValueError, TypeError) as problem:  # a NUL in the name; no name at all
        raise error(f"cannot read {what} {shown(path)}: {problem}.") from None
    if len(content) > result.st_size:
        raise error(f"cannot read {what} {path}: it is being written.")
    return content


def check_private(path: str | Path, *, what: str, error: type[DpscoError]) -> None:
    """Refuse a file that other users of the machine may read or write; arguments as above."""
    if sys.platform == "win32" or not os.path.exists(path):
        return
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        raise error(
            f"{what} {path} can be read or written by other users (mode {mode:o}). Run: chmod 600 "
            f"{path}."
        )


def read_json(
    path: str | Path, *, what: str, limits: JsonLimits, error: type[DpscoError] = DpscoError
) -> Any:
    """Return the JSON values of a file; arguments as in `read_bytes` and `parse_json`."""
    content = read_bytes(path, what=what, most=limits.size, error=error)
    return parse_json(content, what=f"{what} {path}", limits=limits, error=error)


def parse_json(text: Any, *, what: str, limits: JsonLimits, error: type[DpscoError]) -> Any:
    """Return the values of JSON text, or of its UTF-8 bytes; a byte order mark is skipped.

    Raises:
        DpscoError: of the kind ``error``: it is no JSON, is larger or deeper than ``limits``, has
            a field twice, a number that is not finite or an integer of more than 64 bits, or text
            that is not valid Unicode.
    """
    try:
        return _parse(text, limits)
    except UnicodeDecodeError:
        raise error(f"cannot read {what}: it is not UTF-8 text.") from None
    except RecursionError:
        raise error(f"cannot read {what}: {_nested(limits)}.") from None
    except json.JSONDecodeError as problem:
        where = f"{problem.msg}, line {problem.lineno} column {problem.colno}"
        raise error(f"cannot read {what}: it is not JSON ({where}).") from None
    except ValueError as problem:
        raise error(f"cannot read {what}: {problem}.") from None


def _parse(text: Any, limits: JsonLimits) -> Any:
    """Return the values; raise ValueError or RecursionError."""
    if not isinstance(text, (str, bytes, bytearray)):
        raise ValueError(f"JSON text was expected, got {type(text).__name__}")
    if len(text) > limits.size:
        raise ValueError(f"it is larger than {limits.size:,} bytes, the limit")
    if not isinstance(text, str):
        text = text.decode("utf-8")
    text = text.removeprefix("\ufeff")
    if text.count("[") + text.count("{") > limits.containers:
        raise ValueError(f"it has more than {limits.containers:,} lists and objects, the limit")
    if text.count(",") > limits.values:
        raise ValueError(f"it has more than {limits.values:,} values, the limit")
    record = json.loads(
        text,
        object_pairs_hook=distinct_fields,
        parse_int=int if limits.any_number else _integer,
        parse_constant=_no_constant,
    )
    _check_values(record, limits, texts=_HALF_PAIR.search(text) is not None)
    return record


def _check_values(record: Any, limits: JsonLimits, *, texts: bool) -> None:
    """Refuse what is nested too deep, floats that overflowed, and text that is not Unicode."""
    level: list[Any] = [[record]]
    for _ in range(limits.depth + 1):
        below: list[Any] = []
        for container in level:
            for item in container.values() if isinstance(container, dict) else container:
                if isinstance(item, float):
                    if not (-math.inf < item < math.inf or limits.any_number):
                        raise ValueError("it has a number beyond float64")
                elif isinstance(item, (dict, list)):
                    below.append(item)
                elif texts and isinstance(item, str):
                    _check_text(item)
            if texts and isinstance(container, dict):
                for name in container:
                    _check_text(name)
        if not below:
            return
        level = below
    raise ValueError(_nested(limits))


def _check_text(text: str) -> None:
    """Refuse half of a surrogate pair, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it has text that is not valid Unicode") from None


def _nested(limits: JsonLimits) -> str:
    return f"its JSON is nested more than {limits.depth} deep, the limit"


def _integer(digits: str) -> int:
    """Return an integer of at most 64 bits."""
    if len(digits) > 21 or not -_LARGEST < (number := int(digits)) < _LARGEST:
        raise ValueError("it has an integer of more than 64 bits")
    return number


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"it has finite numbers only, by rule, and {word} is none")
