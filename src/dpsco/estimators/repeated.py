"""A warning where scikit-learn fits again and again: each of these fits is paid for.

Searches, cross-validation, ensembles and other meta-estimators fit clones of an estimator on
overlapping rows. The outermost of them is recognised on the stack, by public names, and how many
fits it is going to make follows from its public parameters. It is warned of once. Numbers that
scikit-learn reads off the rows (how many classes there are, when it stops) are not told.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..errors import PrivacyCostWarning

_HOMES = (
    *("sklearn.model_selection", "sklearn.calibration", "sklearn.ensemble", "sklearn.multiclass"),
    *("sklearn.multioutput", "sklearn.feature_selection", "sklearn.semi_supervised"),
    *("sklearn.linear_model._ransac", "sklearn.impute"),
)
_ONCE = ("SelectFromModel", "FixedThresholdClassifier")  # one fit is what one asks for
_USUAL_FOLDS = 5  # of scikit-learn, where cv is None
_MARK = "__dpsco_has_warned__"


def warn_if_repeated(estimator: Any) -> None:
    """Warn, with the multiplied cost, if this fit is one of many on rows that overlap.

    The outermost call keeps a mark that it was warned of, in its own frame: no frame is kept here,
    for it would keep private rows alive.
    """
    levels = _levels(sys._getframe(1))
    if not levels or _MARK in levels[0][0].f_locals:
        return
    levels[0][0].f_locals[_MARK] = True
    counts = [count for _, count in levels]
    count = None if None in counts else math.prod(filter(None, counts))
    if count is not None and count <= 1:
        return
    name, each = type(estimator).__name__, estimator.epsilon
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


def _levels(frame: FrameType | None) -> list[tuple[FrameType, int | None]]:
    """Return the calls of scikit-learn that fit clones, the outermost first, with their counts.

    A function such as `cross_val_predict` that an estimator calls is a part of that estimator.
    """
    frames = []
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_HOMES):
            frames.append(frame)
        frame = frame.f_back
    levels: list[tuple[FrameType, int | None]] = []
    owners: list[Any] = []
    for frame in reversed(frames):
        name, owner = frame.f_code.co_name, frame.f_locals.get("self")
        if name == "fit" and owner is not None:
            if any(owner is other for other in owners) or type(owner).__name__ in _ONCE:
                continue
            owners.append(owner)
            levels.append((frame, _fits(owner, frame.f_locals, frames)))
        elif name in _FUNCTIONS and not owners:
            levels.append((frame, _FUNCTIONS[name](frame.f_locals)))
    if not levels and frames and not any(map(_is_once, frames)):
        return [(frames[-1], None)]  # in a worker, which does not see who has sent it
    return levels


def _is_once(frame: FrameType) -> bool:
    """Return whether a call is that of an estimator which fits one clone."""
    return type(frame.f_locals.get("self")).__name__ in _ONCE


def _splits(cv: Any) -> int | None:
    """Return into how many folds rows are cut; None where that depends on the rows."""
    if cv is None:
        return _USUAL_FOLDS
    if isinstance(cv, (int, float)):
        return int(cv) if cv >= 1 else 1  # a share is a single split
    try:
        return int(cv.get_n_splits())
    except (AttributeError, TypeError, ValueError):  # some splitters want the rows for that
        return None


def _times(*counts: int | None) -> int | None:
    """Return a product; None if a factor is not known."""
    return None if None in counts else math.prod(filter(None, counts))


_FUNCTIONS: dict[str, Callable[[Any], int | None]] = {
    "cross_validate": lambda v: _splits(v.get("cv")),
    "cross_val_predict": lambda v: _splits(v.get("cv")),
    "learning_curve": lambda v: _times(_splits(v["cv"]), len(v.get("train_sizes_abs", ())) or None),
    "validation_curve": lambda v: _times(_splits(v["cv"]), len(v["param_range"])),
    "permutation_test_score": lambda v: _times(_splits(v["cv"]), v["n_permutations"] + 1),
}


def _fits(owner: Any, values: Any, frames: list[FrameType]) -> int | None:
    """Return how many fits of clones an estimator's fit makes; None where rows decide."""
    counts = {kind.__name__: kind for kind in type(owner).__mro__}
    known = next((count for name, count in _ESTIMATORS.items() if name in counts), None)
    try:
        return None if known is None else known(owner, values, frames)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None  # another version of scikit-learn, or parameters that it will refuse


def _search(owner: Any, values: Any, frames: list[FrameType]) -> int | None:
    """Return the fits of a grid or of random candidates, with the last one on all rows."""
    known = (frame.f_locals for frame in frames)
    both = (v for v in known if {"n_candidates", "n_splits"} <= {*v} and v.get("self") is owner)
    inside = next(both, None)
    if inside is None or _splits(owner.cv) is None:
        return None
    return int(inside["n_candidates"]) * int(inside["n_splits"]) + bool(owner.refit)


def _steps(owner: Any, columns: int) -> int:
    """Return the fits of a recursive elimination of columns."""
    wanted = owner.n_features_to_select
    wanted = columns // 2 if wanted is None else wanted
    wanted = int(columns * wanted) if isinstance(wanted, float) else int(wanted)
    step = max(1, int(owner.step * columns)) if 0 < owner.step < 1 else int(owner.step)
    return max(0, -(-(columns - wanted) // step)) + 1


def _sequential(owner: Any, columns: int) -> int | None:
    """Return the fits of a selection of columns, one at a time."""
    wanted = owner.n_features_to_select
    if owner.tol is not None:
        return None
    wanted = columns // 2 if wanted == "auto" else wanted
    wanted = int(columns * wanted) if isinstance(wanted, float) else int(wanted)
    rounds = wanted if owner.direction == "forward" else columns - wanted
    return _times(_splits(owner.cv), sum(columns - k for k in range(rounds)))


def _calibrated(owner: Any) -> int | None:
    """Return the fits of a calibration: one for each fold, and one on all rows without ensemble."""
    folds = 0 if owner.cv == "prefit" else _splits(owner.cv)
    return folds if folds is None or owner.ensemble is not False else folds + 1


def _stacked(owner: Any) -> int | None:
    """Return the fits of estimators that are stacked, and of the last one."""
    folds = 0 if owner.cv == "prefit" else _splits(owner.cv)
    alone = 0 if owner.cv == "prefit" else 1
    if folds is None:
        return None
    return _private(owner) * (folds + alone) + hasattr(owner.final_estimator, "epsilon")


def _private(owner: Any) -> int:
    """Return how many of several named estimators pay for their fits."""
    return sum(hasattr(each, "epsilon") for _, each in owner.estimators)


def _width(values: Any, *names: str) -> int:
    """Return the number of columns of an argument."""
    return int(next(values[name] for name in names if name in values).shape[1])


_Count = Callable[[Any, Any, list[FrameType]], "int | None"]
_ESTIMATORS: dict[str, _Count] = {
    "BaseSuccessiveHalving": lambda *_: None,
    "BaseSearchCV": _search,
    "CalibratedClassifierCV": lambda o, *_: _calibrated(o),
    "TunedThresholdClassifierCV": lambda o, *_: _times(1, _plus(_splits(o.cv), bool(o.refit))),
    "BaseBagging": lambda o, *_: int(o.n_estimators),
    "_BaseVoting": lambda o, *_: _private(o),
    "_BaseStacking": lambda o, *_: _stacked(o),
    "_MultiOutputEstimator": lambda o, v, _: _width(v, "Y", "y"),
    "_BaseChain": lambda o, v, _: _width(v, "Y") if o.cv is None else None,
    "RFECV": lambda *_: None,
    "RFE": lambda o, v, _: _steps(o, _width(v, "X")),
    "SequentialFeatureSelector": lambda o, v, _: _sequential(o, _width(v, "X")),
}


def _plus(count: int | None, more: int) -> int | None:
    """Return a sum; None if a part is not known."""
    return None if count is None else count + more
