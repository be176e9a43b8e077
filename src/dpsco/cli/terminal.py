"""Colours and tables for people: on a terminal, and never where a program reads.

Colours need nothing. Tables are Rich's if a terminal shows them and the extra is there, and plain
columns otherwise, with the same cells. ``NO_COLOR`` and ``TERM=dumb`` leave both out.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

_STYLES = {"good": "1;32", "bad": "1;31", "warning": "1;33", "name": "36"}
_VERDICTS = {"VALID": "good", "NOT TIED": "warning", "NOT VALID": "bad"}
_GAP = "  "


def is_colourful(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that shows colours, and nobody has turned them off."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # none, or closed
        return False


def paint(text: str, style: str, stream: TextIO) -> str:
    """Return a text in a style, where the stream shows colours."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if is_colourful(stream) else text


def verdict(text: str) -> str:
    """Return a text of which the verdict that it begins with is coloured.

    >>> verdict("VALID: epsilon 1")  # of a doctest, whose output is no terminal
    'VALID: epsilon 1'
    """
    word, colon, rest = text.partition(":")
    return f"{paint(word, _VERDICTS.get(word, 'warning'), sys.stdout)}{colon}{rest}"


def note(command: str, text: str, *, word: str = "note") -> None:
    """Print a note about a command on standard error."""
    print(f"dpsco {command}: {paint(word, 'warning', sys.stderr)}: {text}",
          file=sys.stderr, flush=True)  # fmt: skip


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells; on a terminal the last column wraps, elsewhere each row is one line.

    Args:
        titles: of the columns; empty texts for a list without a head.
        rows: cells as text.
    """
    if is_colourful(sys.stdout) and _rich_table(titles, rows):
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    lines = [list(titles), *map(list, rows)] if any(titles) else list(map(list, rows))
    rooms = [max(len(line[k]) for line in lines) for k in range(len(titles) - 1)]
    left = max(20, width - sum(rooms) - len(_GAP) * len(rooms))
    for line in lines:
        head = _GAP.join(cell.ljust(room) for cell, room in zip(line, rooms, strict=False))
        first, *more = textwrap.wrap(line[-1], left, break_on_hyphens=False) or [""]
        print(f"{head}{_GAP}{first}".rstrip())
        for rest in more:
            print(f"{'':<{len(head)}}{_GAP}{rest}")


def _rich_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Print a table by Rich; return whether it is there."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    whole = Table(box=None, show_header=any(titles), pad_edge=False, header_style="bold")
    for place, title in enumerate(titles):
        whole.add_column(
            title,
            style="cyan" if place == 0 else "",
            no_wrap=place < len(titles) - 1,
            overflow="fold",
        )
    for row in rows:
        whole.add_row(*map(Text, row))  # no markup: a name may have brackets
    Console().print(whole)
    return True
