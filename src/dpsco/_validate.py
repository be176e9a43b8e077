"""Argument checks, each with one wording, so that every refusal reads alike.

Every function takes the parameter's name first, and its refusal carries it (`errors.describe`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from typing import Any

import numpy as np

from .errors import ParameterError
from .files.limits import MOST_ROWS

_LONGEST = 80  # characters of a value that a message quotes
_LONGEST_SHOWN = 60  # characters of text that a message shows
_MOST_SHOWN = 6  # entries of a list


def closest(word: str, known: Collection[str]) -> str:
    """Return a sentence that asks whether one of the known words was meant; empty if none is close.

    >>> closest("noisy_dg", ["noisy_gd", "phased_sgd"]), closest("x", ["noisy_gd"])
    (" Did you mean 'noisy_gd'?", '')
    """
    from difflib import get_close_matches

    match = {name.casefold(): name for name in known}
    near = get_close_matches(word.casefold(), match, n=1, cutoff=0.6) if len(word) <= 60 else []
    return f" Did you mean {match[near[0]]!r}?" if near and match[near[0]] != word else ""


def reason(problem: BaseException | str, *, longest: int = 2 * _LONGEST) -> str:
    """Return what a message quotes of another one, which may quote a file's content."""
    text = str(problem)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def refusal(name: str, problem: str, hint: str = "") -> ParameterError:
    """Return the error that says what is wrong with a parameter, or with a part of it: name[0]."""
    return ParameterError(f"{name} {problem}", parameter=name.partition("[")[0], hint=hint)


def real(name: str, value: Any, *, hint: str = "") -> float:
    """Return ``value`` as a float; refuse booleans, strings, arrays and NaN."""
    if type(value) is float and value == value:  # not NaN; what nearly all are
        return value
    try:
        if isinstance(value, (bool, np.bool_, str, bytes)) or np.ndim(value) > 0:
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise refusal(name, f"must be a number, got {shown(value)}.", hint) from None
    if math.isnan(number):
        raise refusal(name, "must be a number, got NaN.", hint)
    return number


def positive(name: str, value: Any, *, hint: str = "") -> float:
    """Return ``value`` as a finite float above zero."""
    number = real(name, value, hint=hint)
    if not (0.0 < number < math.inf):
        raise refusal(name, f"must be positive and finite, got {number!r}.", hint)
    return number


def non_negative(name: str, value: Any, *, hint: str = "") -> float:
    """Return ``value`` as a finite float that is zero or above."""
    number = real(name, value, hint=hint)
    if not (0.0 <= number < math.inf):
        raise refusal(name, f"must be zero or positive and finite, got {number!r}.", hint)
    return number


def probability(name: str, value: Any, *, hint: str = "") -> float:
    """Return ``value`` as a float strictly between 0 and 1."""
    number = real(name, value, hint=hint)
    if not (0.0 < number < 1.0):
        raise refusal(name, f"must lie strictly between 0 and 1, got {number!r}.", hint)
    return number


def integer(
    name: str, value: Any, *, at_least: int = 1, at_most: int | None = None, hint: str = ""
) -> int:
    """Return ``value`` as an int from ``at_least`` to ``at_most``; refuse booleans and floats."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise refusal(name, f"must be an integer, got {shown(value)}.", hint) from None
    if number < at_least:
        raise refusal(name, f"must be at least {at_least}, got {shown(number)}.", hint)
    if at_most is not None and number > at_most:
        raise refusal(name, f"must be at most {at_most:,}, got {shown(number)}.", hint)
    return number


def choice(name: str, value: Any, allowed: Collection[str], *, hint: str = "") -> str:
    """Return ``value`` if it is one of the ``allowed`` words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in sorted(allowed))
        meant = closest(value, allowed) if isinstance(value, str) else ""
        raise refusal(name, f"must be one of {words}; got {shown(value)}.{meant}", hint)
    return value


def flag(name: str, value: Any) -> bool:
    """Return ``value`` as a bool; refuse anything but True and False."""
    if not isinstance(value, (bool, np.bool_)):
        raise refusal(name, f"must be True or False, got {shown(value)}.")
    return bool(value)


def row_range(name: str, value: Any) -> tuple[int, int]:
    """Return ``value`` as a non-empty half-open range of rows (start, stop)."""
    try:
        if isinstance(value, np.ndarray) and (value.shape != (2,) or value.dtype.kind not in "iu"):
            raise TypeError  # rows, perhaps, of which two numbers would be shown
        start, stop = value
    except (TypeError, ValueError):
        text = f"must be a pair (start, stop) of row numbers, got {shown(value)}."
        raise refusal(name, text) from None
    start = integer(f"{name}[0]", start, at_least=0, at_most=MOST_ROWS)
    stop = integer(f"{name}[1]", stop, at_least=0, at_most=MOST_ROWS)
    if stop <= start:
        raise refusal(name, f"must be a non-empty range, got {(start, stop)}.")
    return start, stop


def shown(value: Any) -> str:
    """Return an argument as a message may show it: what could be rows by its type and size alone.

    Whoever passes a table where a parameter belongs must not find its rows in the error.

    >>> shown("twice"), shown((0.5, None)), shown([0.1] * 1000), shown(np.ones((3, 2)))
    ("'twice'", '(0.5, None)', 'a list of 1000', 'a ndarray of shape (3, 2)')
    """
    kind = type(value).__name__
    if value is None or isinstance(value, (bool, float, np.bool_, np.floating, type)):
        return repr(value)
    if isinstance(value, (int, np.integer)):
        return repr(value) if abs(int(value)) < 10**_LONGEST_SHOWN else "a very large integer"
    if isinstance(value, str):
        return repr(value) if len(value) <= _LONGEST_SHOWN else f"text of {len(value)} characters"
    if isinstance(value, (list, tuple)):
        if len(value) > _MOST_SHOWN or any(isinstance(part, (list, tuple)) for part in value):
            return f"a {kind} of {len(value)}"
        inside = ", ".join(map(shown, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if type(value).__module__.split(".")[0] == __package__:  # ours: a public record
        return reason(repr(value))
    shape = getattr(value, "shape", None)
    return f"a {kind}" + (f" of shape {shape}" if isinstance(shape, tuple) else "")


def distinct_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; refuse a field that is given twice, of which a reader sees one."""
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a field is given twice")
    return record


def store(record: Any, name: str, value: Any) -> None:
    """Store the validated value in the frozen record."""
    object.__setattr__(record, name, value)
