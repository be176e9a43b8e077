"""How the numbers in columns of text are written, guessed from public or synthetic rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..tables.arrow import family, pyarrow
from ..tables.written import numbers_in

Writing = tuple[str, str | None]  # decimal, thousands

WRITINGS: tuple[Writing, ...] = (
    (",", None),
    (",", "."),
    (".", ","),
    (",", " "),
    (".", " "),
    (".", "'"),
    (",", "'"),
    (",", "\u00a0"),
    (",", "\u202f"),
)
"""Ways to write numbers that are looked for, the most usual first."""

_FRACTION = r",([0-9]{1,2}|[0-9]{4,})$"  # of a comma that separates no group of three digits


@dataclass(frozen=True)
class Guess:
    """Which columns of text hold numbers, and how those are written."""

    writing: Writing | None
    columns: tuple[str, ...]  # numbers of that writing
    plain: tuple[str, ...]  # numbers with a decimal point, or whole ones, as text

    def notes(self) -> list[str]:
        """Return what the reader of a draft should know, in sentences."""
        result = []
        if self.writing is not None:
            decimal, thousands = self.writing
            groups = "" if thousands is None else f', "thousands": "{thousands}"'
            result.append(
                f"{_listed(self.columns)}: numbers written as text, so the schema says "
                f'"decimal": "{decimal}"{groups}'
            )
        if self.plain:
            result.append(
                f"{_listed(self.plain)}: text in which every entry is a number. If these are "
                'amounts and no codes, make the kind "number", and give the schema "decimal": "."'
            )
        return result


def guess_writing(table: Any) -> Guess:
    """Return how numbers are written in the columns of text of an Arrow table of public rows.

    A column holds numbers if every entry that is there can be read as one. The way that reads most
    columns is taken; one that says nothing else than the decimal point is none.
    """
    texts = {
        name: _entries(table.column(name))
        for name in table.schema.names
        if name and family(table.schema.field(name).type) == "text"
    }
    texts = {name: entries for name, entries in texts.items() if len(entries)}
    plain = tuple(name for name, entries in texts.items() if _is_plain(entries))
    best, columns = None, ()
    for writing in WRITINGS:
        read = tuple(
            name
            for name, entries in texts.items()
            if not _all_read(entries, (".", None)) and _shows(entries, writing)
        )
        if len(read) > len(columns):
            best, columns = writing, read
    if best is None:
        return Guess(None, (), plain)
    # One way to write for the whole schema: what has no separators, or others, is read by it, too.
    more = tuple(name for name in plain if _all_read(texts[name], best))
    return Guess(best, columns + more, tuple(name for name in plain if name not in more))


def as_written(column: Any, writing: Writing) -> Any:
    """Return a column of text as a column of numbers."""
    decoded = [_decoded(chunk) for chunk in column.chunks]
    chunks = [numbers_in(chunk, *writing) for chunk in decoded]
    return pyarrow().chunked_array(chunks, type=pyarrow().float64())


def _entries(column: Any) -> Any:
    """Return the different entries of a column that are there."""
    result = pyarrow().chunked_array([_decoded(chunk) for chunk in column.chunks]).unique()
    return result.drop_null()


def _decoded(chunk: Any) -> Any:
    """Return text without a dictionary, and of a type that has all functions."""
    pa = pyarrow()
    if pa.types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_decode()
    return chunk.cast(pa.large_string())


def _all_read(entries: Any, writing: Writing) -> bool:
    return int(numbers_in(entries, *writing).null_count) == 0


def _shows(entries: Any, writing: Writing) -> bool:
    """Return whether entries are written in this way; three digits after a comma are a group."""
    import pyarrow.compute as pc

    decimal, thousands = writing
    if not _all_read(entries, writing):
        return False
    shown = decimal == "." or shows_fraction(entries)
    grouped = thousands is not None and pc.any(pc.match_substring(entries, thousands)).as_py()
    return bool(shown or grouped)


def shows_fraction(entries: Any) -> bool:
    """Return whether the comma of an entry is followed by other than three digits."""
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring_regex(entries, _FRACTION)).as_py())


def _is_plain(entries: Any) -> bool:
    """Return whether all entries are numbers with a point, none of them like a code."""
    import pyarrow.compute as pc

    coded = pc.match_substring_regex(entries, r"^[+-]?0[0-9]|[a-zA-Z]")
    return _all_read(entries, (".", None)) and not bool(pc.any(coded).as_py())


def _listed(names: tuple[str, ...]) -> str:
    """Return columns in words."""
    return f"column{'' if len(names) == 1 else 's'} {', '.join(map(repr, names))}"
