"""Dates as whole units since 1970: of Arrow's own types, or written as text.

What is no date is missing; nothing raises. Times of day with a zone count in UTC, all others as
they stand.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m", "second": "s"}
"""In what dates may be counted, and what NumPy calls it."""

ORDERS = ("ymd", "dmy", "mdy")
"""In which order year, month and day are written."""

_CLOCK = r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?"
_ZONE = r" ?(?:Z|(?P<sign>[+-])(?P<hours>\d{2}):?(?P<minutes>\d{2}))?)?"
_PARTS = {"y": r"(?P<year>\d{4})", "m": r"(?P<month>\d{1,2})", "d": r"(?P<day>\d{1,2})"}
_DAYS = {order: r"[-/.]".join(_PARTS[part] for part in order) for order in ORDERS}
_FORMS = {order: re.compile(rf"\s*{day}{_CLOCK}{_ZONE}\s*") for order, day in _DAYS.items()}
_LONGEST = 40  # bytes of a date with everything


def date_in(text: str, order: str = "ymd") -> np.datetime64 | None:
    """Return the second that a text means; None if it is no date.

    >>> str(date_in("2024-02-29T18:30")), str(date_in("29.2.2024", "dmy")), date_in("2023-02-29")
    ('2024-02-29T18:30:00', '2024-02-29T00:00:00', None)
    """
    match = _FORMS[order].fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    parts = match.groupdict()
    names = ("year", "month", "day", "hour", "minute", "second")
    try:
        moment = datetime(*(int(parts[name] or 0) for name in names))  # type: ignore[arg-type]
        if parts["sign"]:
            zone = timedelta(hours=int(parts["hours"]), minutes=int(parts["minutes"]))
            moment += -zone if parts["sign"] == "+" else zone
    except (ValueError, OverflowError):  # no such day, or beyond the years that there are
        return None
    return np.datetime64(moment, "s")


def count(moment: Any, unit: str) -> int:
    """Return a date as whole units since 1970.

    >>> count(np.datetime64("1971-03-01"), "month")
    14
    """
    return int(np.datetime64(moment).astype(f"datetime64[{UNITS[unit]}]").astype(np.int64))


def dates_in(array: Any, unit: str, order: str = "ymd") -> NDArray[np.float64]:
    """Return Arrow dates, times or text as whole units since 1970, NaN where missing."""
    import pyarrow as pa

    from .arrow import distinct, family

    if family(array.type) == "nothing":
        return np.full(len(array), np.nan)
    if pa.types.is_dictionary(array.type) and family(array.type) == "date":
        array = array.dictionary_decode()
    if family(array.type) == "date":
        moments = np.asarray(array.to_numpy(zero_copy_only=False))
    else:
        entries, indices = distinct(array)
        known = [_decoded(entry, order) for entry in entries]
        moments = np.array([*known, np.datetime64("NaT")], dtype="datetime64[s]")[indices]
    if moments.dtype.kind != "M":  # all of it missing
        return np.full(len(array), np.nan)
    whole = moments.astype(f"datetime64[{UNITS[unit]}]")
    return np.where(np.isnat(whole), np.nan, whole.astype(np.int64).astype(np.float64))


def _decoded(entry: bytes, order: str) -> np.datetime64:
    """Return the moment that bytes mean, or none."""
    try:
        moment = date_in(entry.decode("ascii"), order)
    except UnicodeDecodeError:
        moment = None
    return np.datetime64("NaT") if moment is None else moment
