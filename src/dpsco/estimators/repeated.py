"""Searches and cross-validation of scikit-learn fit again and again; each fit is paid for."""

from __future__ import annotations

import sys
import threading
import warnings
from types import FrameType
from typing import Any

from ..errors import PrivacyCostWarning

_SEARCHES = "sklearn.model_selection"
_lock = threading.Lock()
_fits = 0  # in this process, under scikit-learn's searches and cross-validation


def warn_if_repeated(estimator: Any) -> None:
    """Warn, with the multiplied cost, if this fit is one of many on rows that overlap.

    The caller is recognised by the public name of its module on the stack. The number of fits is
    read off the search where it can be, and counted otherwise; a warning then comes with each
    doubling.
    """
    frame = _search(sys._getframe(1))
    if frame is None:
        return
    global _fits
    with _lock:
        _fits += 1
        number = _fits
    planned = _planned(frame)
    if planned is None and number & (number - 1):
        return
    count = planned or number
    name, each = type(estimator).__name__, estimator.epsilon
    warnings.warn(
        f"scikit-learn fits {name} {'' if planned else 'for the '}{count}"
        f"{' times' if planned else 'th time'} here, each time at epsilon {each:g} on overlapping "
        f"rows: together epsilon {count * each:g}, and the choice by score is not private at all. "
        "PrivateGridSearch keeps the whole search within one budget; public or synthetic rows can "
        "be searched freely.",
        PrivacyCostWarning,
        stacklevel=3,
    )


def _search(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of scikit-learn's model selection, if there is one."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_SEARCHES):
            return frame
        frame = frame.f_back
    return None


def _planned(frame: FrameType | None) -> int | None:
    """Return how many fits a search has announced, or None."""
    while frame is not None and frame.f_globals.get("__name__") is not None:
        found = [frame.f_locals.get(name) for name in ("n_candidates", "n_splits")]
        if all(isinstance(number, int) for number in found):
            return int(found[0]) * int(found[1])  # type: ignore[arg-type]
        frame = frame.f_back
    return None
