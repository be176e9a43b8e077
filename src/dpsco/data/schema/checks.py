"""Checks of what a schema declares: ranges, values, and how entries are written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..._validate import choice, real, refusal, shown
from ...errors import ParameterError
from ..tables.written import number_in

Value = str | int | float | bool
Labels = tuple[tuple[str, Value], ...]

DECIMALS = (".", ",")
"""What may separate the whole part of a number from the rest."""

THOUSANDS = (",", ".", " ", "'", "_", "\u00a0", "\u202f")
"""What may stand between groups of three digits."""

_LARGEST = 1.7976931348623157e308  # an integer beyond it is no float64


def check_bool(name: str, field: str, value: Any) -> None:
    """Refuse anything but true and false."""
    if not isinstance(value, bool):
        raise ParameterError(f"column {shown(name)}, field {field!r} must be true or false.")


def check_range(item: Any) -> None:
    """Refuse a range that is none, and make its ends floats."""
    field = f"column {shown(item.name)}, field 'range'"
    low, high = real(field, item.low), real(field, item.high)
    if not (math.isfinite(low) and math.isfinite(high) and high / 2 - low / 2 > 1e-300):
        raise refusal(field, f"must be finite with low < high, got [{low!r}, {high!r}].")
    object.__setattr__(item, "low", low)
    object.__setattr__(item, "high", high)


def check_values(name: str, values: Any, *, at_least: int) -> tuple[Value, ...]:
    """Return declared values as a tuple: distinct, all text or all finite numbers."""
    field = f"column {shown(name)}, field 'values'"
    if isinstance(values, str) or not isinstance(values, (list, tuple)) or len(values) < at_least:
        raise refusal(field, f"must be a list of at least {at_least} value(s).")
    texts = sum(isinstance(value, str) for value in values)
    numbers = sum(isinstance(v, (int, float)) and abs(v) <= _LARGEST for v in values)
    if len(values) not in (texts, numbers):
        raise refusal(field, "must be all text or all finite numbers.")
    if len(set(values)) != len(values):  # True equals 1, which a column cannot tell apart either
        raise ParameterError(f"{field} has a value more than once.")
    if texts and not all(map(encodable, values)):
        raise ParameterError(f"{field} has text that is not valid Unicode.")
    return tuple(values)


def encodable(text: str) -> bool:
    """Return whether text can be stored as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_writing(decimal: Any, thousands: Any) -> None:
    """Refuse separators that are none, and two that are the same."""
    if decimal is not None:
        choice("the schema's field 'decimal'", decimal, DECIMALS)
    if thousands is None:
        return
    choice("the schema's field 'thousands'", thousands, THOUSANDS)
    if decimal is None:
        raise ParameterError("a schema with 'thousands' says what 'decimal' is, too.")
    if decimal == thousands:
        raise ParameterError(f"'decimal' and 'thousands' must differ, both are {decimal!r}.")


def check_labels(name: str, values: tuple[Value, ...], labels: Any) -> Labels:
    """Return ways to write declared values as pairs (as written, value), in their order.

    Args:
        name: of the column.
        values: that are declared.
        labels: a mapping from what stands in the table to one of the values, or such pairs.
    """
    field = f"column {shown(name)}, field 'labels'"
    pairs = list(labels.items()) if isinstance(labels, Mapping) else labels
    if not isinstance(pairs, (list, tuple)) or not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs
    ):
        raise ParameterError(
            f'{field} must say what stands for which value, such as {{"0": "no", "1": "yes"}}.'
        )
    result: dict[str, Value] = {}
    numbers: dict[float, Value] = {}
    for key, value in pairs:
        text = str(key) if isinstance(key, int) and not isinstance(key, bool) else key
        if not isinstance(text, str) or not text or not encodable(text) or text in result:
            raise refusal(field, "must have different texts that are not empty as keys.")
        places = [known for known in values if type(known) is type(value) and known == value]
        if not places:
            raise ParameterError(f"{field} maps to a value that is not among the declared ones.")
        result[text] = places[0]
        number = number_in(text)
        if number is not None and numbers.setdefault(number, value) != value:
            raise ParameterError(
                f"{field} gives one number two values: {shown(text)} is there before."
            )
    return tuple(result.items())
