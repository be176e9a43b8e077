"""Argument checks, each with one wording, so that every refusal reads alike."""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Collection
from typing import Any

import numpy as np

from ._limits import MOST_ROWS
from .errors import ParameterError

_LONGEST = 80  # characters of a value that a message quotes
_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = _LONGEST


def brief(value: Any) -> str:
    """Return what a message quotes of a value: 80 characters at most, whatever its size."""
    try:
        text = _repr.repr(value)
    except Exception:  # of somebody's own class
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def reason(problem: BaseException | str, *, longest: int = 2 * _LONGEST) -> str:
    """Return what a message quotes of another one, which may quote a file's content."""
    text = str(problem)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def real(name: str, value: Any, *, hint: str = "") -> float:
    """Return ``value`` as a float; refuse booleans, strings, arrays and NaN."""
    try:
        if isinstance(value, (bool, np.bool_, str, bytes)) or np.ndim(value) > 0:
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be a number, got {brief(value)}.{_tail(hint)}") from None
    if math.isnan(number):
        raise ParameterError(f"{name} must be a number, got NaN.{_tail(hint)}")
    return number


def positive(name: str, value: Any, *, hint: str = "") -> float:
    """Return ``value`` as a finite float above zero."""
    number = real(name, value, hint=hint)
    if not (0.0 < number < math.inf):
        raise ParameterError(f"{name} must be positive and finite, got {number!r}.{_tail(hint)}")
    return number


def non_negative(name: str, value: Any, *, hint: str = "") -> float:
    """Return ``value`` as a finite float that is zero or above."""
    number = real(name, value, hint=hint)
    if not (0.0 <= number < math.inf):
        raise ParameterError(
            f"{name} must be zero or positive and finite, got {number!r}.{_tail(hint)}"
        )
    return number


def probability(name: str, value: Any, *, hint: str = "") -> float:
    """Return ``value`` as a float strictly between 0 and 1."""
    number = real(name, value, hint=hint)
    if not (0.0 < number < 1.0):
        raise ParameterError(
            f"{name} must lie strictly between 0 and 1, got {number!r}.{_tail(hint)}"
        )
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
        raise ParameterError(
            f"{name} must be an integer, got {brief(value)}.{_tail(hint)}"
        ) from None
    if number < at_least:
        raise ParameterError(
            f"{name} must be at least {at_least}, got {brief(number)}.{_tail(hint)}"
        )
    if at_most is not None and number > at_most:
        raise ParameterError(
            f"{name} must be at most {at_most:,}, got {brief(number)}.{_tail(hint)}"
        )
    return number


def choice(name: str, value: Any, allowed: Collection[str], *, hint: str = "") -> str:
    """Return ``value`` if it is one of the ``allowed`` words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(repr(word) for word in sorted(allowed))
        raise ParameterError(f"{name} must be one of {words}; got {brief(value)}.{_tail(hint)}")
    return value


def row_range(name: str, value: Any) -> tuple[int, int]:
    """Return ``value`` as a non-empty half-open range of rows (start, stop)."""
    try:
        start, stop = value
    except (TypeError, ValueError):
        raise ParameterError(
            f"{name} must be a pair (start, stop) of row numbers, got {brief(value)}."
        ) from None
    start = integer(f"{name}[0]", start, at_least=0, at_most=MOST_ROWS)
    stop = integer(f"{name}[1]", stop, at_least=0, at_most=MOST_ROWS)
    if stop <= start:
        raise ParameterError(f"{name} must be a non-empty range, got {(start, stop)}.")
    return start, stop


def _tail(hint: str) -> str:
    return f" {hint}" if hint else ""


def distinct_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; refuse a field that is given twice, of which a reader sees one."""
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("a field is given twice")
    return record
