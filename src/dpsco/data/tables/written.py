"""Numbers that are written as text: by which rule they are read, one for all kinds of tables.

An entry that the rule does not read is missing; it is never an error, and never read by another
rule. Regular expressions are those of RE2, whose time does not depend on more than a text's length.
"""

from __future__ import annotations

import re
from typing import Any

_DIGITS = r"[0-9]+{point}?[0-9]*|{point}[0-9]+"
_TAIL = r"([eE][+-]?[0-9]{1,3})?$"
_YES, _NO = r"^(?i:true|yes|t|y)$", r"^(?i:false|no|f|n)$"
_BLANKS = r"^[ \t+]+|[ \t]+$"


def _number(point: str = ".") -> str:
    """Return the expression of a number with this decimal point."""
    return rf"^[+-]?({_DIGITS.format(point=re.escape(point))})" + _TAIL


def _grouped(point: str, thousands: str) -> str:
    """Return the expression of a number whose whole part stands in groups of three digits."""
    point, gap = re.escape(point), _literal(thousands)
    return rf"^[+-]?[0-9]{{1,3}}(?:{gap}[0-9]{{3}})+(?:{point}[0-9]*)?" + _TAIL


def _literal(text: str) -> str:
    """Return an expression of the bytes of a text, since binary arrays are matched by bytes."""
    return "".join(rf"\x{byte:02x}" for byte in text.encode())


def number_in(text: str) -> float | None:
    """Return the number that a text is, with a decimal point, true and false as 1 and 0; or None.

    >>> number_in("1"), number_in("-2.50"), number_in("True"), number_in("yes")
    (1.0, -2.5, 1.0, None)
    """
    plain = re.sub(_BLANKS, "", text)
    if plain.casefold() in ("true", "false"):
        return float(plain.casefold() == "true")
    return float(plain) if re.match(_number(), plain) else None


def numbers_in(
    entries: Any, decimal: str | None = None, thousands: str | None = None, *, words: bool = True
) -> Any:
    """Return an Arrow array of bytes or text as numbers; what is none is missing.

    Args:
        entries: binary or text; blanks around a number do not matter.
        decimal: what stands before the fraction, "." by default.
        thousands: what stands between groups of three digits, if anything may.
        words: whether true, false, yes and no count as 1 and 0.

    >>> import pyarrow as pa
    >>> numbers_in(pa.array(["1.234,5", "12,25", "1.5", "yes"]), ",", ".").to_pylist()
    [1234.5, 12.25, None, 1.0]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    decimal = decimal or "."
    entries = entries.cast(
        pa.binary() if len(entries) == 0 or _small(entries) else pa.large_binary()
    )
    one, zero, none = (pa.scalar(word, entries.type) for word in (b"1", b"0", None))
    plain = pc.replace_substring_regex(entries, _BLANKS, "")
    if thousands is not None:
        joined = pc.replace_substring(plain, thousands.encode(), "")
        plain = pc.if_else(
            pc.match_substring_regex(plain, _grouped(decimal, thousands)), joined, plain
        )
    if words:
        plain = pc.if_else(pc.match_substring_regex(plain, _YES), one, plain)
        plain = pc.if_else(pc.match_substring_regex(plain, _NO), zero, plain)
    numbers = pc.if_else(pc.match_substring_regex(plain, _number(decimal)), plain, none)
    if decimal != ".":
        numbers = pc.replace_substring(numbers, decimal, ".")
    text = pa.string() if pa.types.is_binary(numbers.type) else pa.large_string()
    return numbers.cast(text).cast(pa.float64())


def _small(entries: Any) -> bool:
    """Return whether the offsets of an array are short ones."""
    import pyarrow as pa

    return bool(pa.types.is_string(entries.type) or pa.types.is_binary(entries.type))
