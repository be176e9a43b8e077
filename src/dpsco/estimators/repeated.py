"""A warning for scikit-learn's searches and cross-validation: each of their fits is paid for."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

from ..errors import PrivacyCostWarning

_SEARCHES = "sklearn.model_selection"


def warn_if_repeated(estimator: Any) -> None:
    """Warn, with the multiplied cost, if this fit is one of many on rows that overlap.

    The caller is recognised by the public name of its module on the stack, and so is the number of
    its fits where a frame tells it. No frame is kept: it would keep private rows alive.
    """
    frame = _search(sys._getframe(1))
    if frame is None:
        return
    name, each, count = type(estimator).__name__, estimator.epsilon, _planned_fits(frame)
    times, together = f"{count} times", f"together epsilon {(count or 0) * each:g}"
    if count is None:
        times, together = "several times", f"k fits cost k times epsilon {each:g}"
    warnings.warn(
        f"scikit-learn fits {name} {times}, each time at epsilon {each:g} on overlapping rows: "
        f"{together}, and scores on private rows are not private at all. "
        "PrivateGridSearch keeps a whole search within one budget; public or synthetic rows can be "
        "searched freely.",
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


def _planned_fits(frame: FrameType | None) -> int | None:
    """Return how many fits the caller is going to make, or None where it does not say."""
    folds = None
    while frame is not None:
        values = frame.f_locals
        candidates, splits = values.get("n_candidates"), values.get("n_splits")
        if isinstance(candidates, int) and isinstance(splits, int):
            return candidates * splits
        if folds is None and hasattr(values.get("cv"), "get_n_splits"):
            try:
                folds = int(values["cv"].get_n_splits())
            except (TypeError, ValueError):  # some splitters want the rows for that
                folds = None
        frame = frame.f_back
    return folds
