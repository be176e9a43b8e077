"""Numbers and words for a page: claims rounded up, powers of ten, nothing that misleads."""

from __future__ import annotations

import math

from ..privacy.accounting.attack_roc import percent
from ..privacy.certificate_text import rounded_up

__all__ = ["Markup", "about", "claim", "one_in", "percent", "plain", "safe"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SMALL = 1e-3  # numbers below are written as powers of ten
_LONGEST = 4000  # letters of one text of a file; the rest is cut off


class Markup(str):
    """Text that templates place as it is: a drawing, escaped already, or our style sheet."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def claim(value: float, digits: int = 4) -> str:
    """Return a number that is a privacy claim, never below its value.

    >>> claim(0.99999999), claim(6.2512e-8), claim(1e-6), claim(0.0), claim(float("inf"))
    ('1', '6.252 × 10⁻⁸', '10⁻⁶', '0', 'infinite')
    """
    if math.isnan(value):
        return "not a number"
    return "infinite" if math.isinf(value) else _powers(rounded_up(value, digits))


def plain(value: float, digits: int = 4) -> str:
    """Return any other number, rounded to the nearest.

    >>> plain(67.41763), plain(1.5e-9), plain(40_000_000.0), plain(123456.0), plain(float("nan"))
    ('67.42', '1.5 × 10⁻⁹', '4 × 10⁷', '123,456', 'none')
    """
    if math.isnan(value):
        return "none"
    if math.isinf(value):
        return "infinite"
    if value == int(value) and abs(value) < 10**7:
        return f"{int(value):,}"
    return _powers(f"{value:.{digits}g}")


def about(value: float) -> str:
    """Return a count in two digits.

    >>> about(178_885.4), about(4000.0), about(3.2e9), about(float("inf"))
    ('180,000', '4,000', '3.2 × 10⁹', 'infinite')
    """
    if not 1 <= abs(value) < 10**7:
        return plain(value, 2)
    return plain(float(f"{value:.2g}"))


def one_in(probability: float) -> str:
    """Return a small probability as odds in words, rounded to the larger probability.

    >>> one_in(6.25e-8), one_in(1e-6), one_in(0.5), one_in(0.0), one_in(1.0)
    ('1 in 16 million', '1 in 1 million', '1 in 2', 'none', '1 in 1')
    """
    if probability <= 0.0:
        return "none"
    count = max(math.floor(min(1.0 / probability, 1e18) * (1 + 1e-12)), 1)
    for size, word in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if count >= size:
            return f"1 in {_leading(count / size):,} {word}"
    return f"1 in {count:,}"


def safe(text: object) -> str:
    """Return text of unknown origin without control or direction marks, and of bounded length.

    >>> safe("a\\x00b\\u202ec")
    'a?b?c'
    """
    line = str(text)
    if len(line) > _LONGEST:
        line = line[:_LONGEST] + " ... (cut off)"
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def _leading(count: float) -> int:
    """Return the first two digits of a count, the rest zero: rounded down, so odds are up."""
    unit: int = 10 ** max(int(math.log10(count)) - 1, 0)
    return int(count / unit) * unit


def _powers(shown: str) -> str:
    """Return '6.25e-08' as '6.25 × 10⁻⁸', and '0.0001' as '10⁻⁴'."""
    if "e" not in shown and 0 < abs(float(shown)) < _SMALL:
        digits = len(shown.partition(".")[2].lstrip("0"))
        shown = f"{float(shown):.{digits - 1}e}"
    front, mark, exponent = shown.partition("e")
    if not mark:
        return shown
    raised = "10" + str(int(exponent)).translate(_RAISED)
    return raised if front == "1" else f"{front} × {raised}"
