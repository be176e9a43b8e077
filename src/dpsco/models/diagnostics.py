"""What figures of a model on public rows show, with how uncertain so many rows leave it.

Exact numbers about the rows given: for rows that may be seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .evaluate import PINBALL, area_under_curve, log_losses, pinball, usable
from .linear import LinearModel

Floats = NDArray[np.float64]

BINS = 10
_SIGMAS = 2.0  # of the intervals


@dataclass(frozen=True)
class Bin:
    """Rows with about the same prediction."""

    rows: int
    predicted: float  # mean of the predictions
    value: float  # share of a class, or mean residual
    low: float
    high: float


@dataclass(frozen=True)
class Diagnostics:
    """How a model errs on public rows."""

    spread: dict[str, float]  # twice the standard error of each measure that has one
    confusion: tuple[tuple[int, ...], ...] = ()  # by true class, then by predicted class
    calibration: tuple[Bin, ...] = ()  # predicted probability against the share that came true
    residuals: tuple[Bin, ...] = ()  # prediction against label minus prediction


def diagnose(
    model: LinearModel, X: Any, labels: Floats, *, quantile: float | None = None
) -> Diagnostics:
    """Return how a model errs. Arguments as in `measure`; without a usable row all is empty."""
    X, labels = usable(model, X, labels)
    known = np.isfinite(labels)
    if not known.any():
        return Diagnostics({})
    X, labels = X[np.flatnonzero(known)], labels[known]
    if model.classes is None:
        return _of_numbers(model.predict(X), labels, quantile)
    return _of_classes(model, X, labels.astype(np.int64))


def _of_classes(model: LinearModel, X: Any, places: NDArray[np.int64]) -> Diagnostics:
    assert model.classes is not None
    predicted, count = model.places(X), len(model.classes)
    confusion = np.zeros((count, count), dtype=np.int64)
    np.add.at(confusion, (places, predicted), 1)
    right = predicted == places
    spread = {"accuracy": _of_share(float(right.mean()), len(places))}
    bins: tuple[Bin, ...] = ()
    if model.odds:
        spread["log-loss"] = _of_mean(log_losses(model, X, places))
        chances = model.probabilities(X)
        if count == 2:
            bins = _bins(chances[:, 1], (places == 1).astype(float), shares=True)
        else:  # of the class that is predicted
            bins = _bins(chances.max(axis=1), right.astype(float), shares=True)
    if count == 2:
        spread["AUC"] = _of_area(model.decision(X), places == 1)
    table = tuple(tuple(int(cell) for cell in row) for row in confusion)
    return Diagnostics(spread, table, bins)


def _of_numbers(predicted: Floats, labels: Floats, quantile: float | None) -> Diagnostics:
    off = labels - predicted
    spread = {"MAE": _of_mean(np.abs(off))}
    root = math.sqrt(float((off**2).mean()))
    if root > 0.0:
        spread["RMSE"] = _of_mean(off**2) / (2.0 * root)
    if quantile is not None:
        spread[PINBALL] = _of_mean(pinball(predicted, labels, quantile))
        spread["coverage"] = _of_share(float((labels <= predicted).mean()), len(labels))
    return Diagnostics(spread, residuals=_bins(predicted, off, shares=False))


def _bins(predicted: Floats, values: Floats, *, shares: bool) -> tuple[Bin, ...]:
    """Return bins of about as many rows each, by prediction."""
    order = np.argsort(predicted, kind="stable")
    parts = np.array_split(order, min(BINS, max(1, len(order) // 10)))
    return tuple(_bin(predicted[part], values[part], shares=shares) for part in parts if len(part))


def _bin(predicted: Floats, values: Floats, *, shares: bool) -> Bin:
    mean, rows = float(values.mean()), len(values)
    if shares:
        low, high = share_interval(mean, rows)
    else:
        reach = _of_mean(values)
        low, high = mean - reach, mean + reach
    return Bin(rows, float(predicted.mean()), mean, low, high)


def share_interval(share: float, rows: int) -> tuple[float, float]:
    """Return Wilson's interval of a share that so many rows have shown, at two sigmas.

    >>> [round(end, 3) for end in share_interval(0.0, 10)]
    [0.0, 0.286]
    """
    z2 = _SIGMAS**2
    middle = (share + z2 / (2 * rows)) / (1 + z2 / rows)
    reach = _SIGMAS * math.sqrt(share * (1 - share) / rows + z2 / (4 * rows**2)) / (1 + z2 / rows)
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def _of_share(share: float, rows: int) -> float:
    """Return half of the width of the interval of a share."""
    low, high = share_interval(share, rows)
    return (high - low) / 2


def _of_mean(values: Floats | Sequence[float]) -> float:
    """Return twice the standard error of a mean; nothing is known of a single row."""
    count = len(values)
    return math.inf if count < 2 else _SIGMAS * float(np.std(values, ddof=1)) / math.sqrt(count)


def _of_area(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """Return twice the standard error of the area under the curve (Hanley and McNeil 1982)."""
    area, ones = area_under_curve(scores, positive), int(positive.sum())
    zeros = len(positive) - ones
    if not math.isfinite(area):
        return math.inf
    both, either = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (ones - 1) * (both - area**2) + (zeros - 1) * (either - area**2)
    return _SIGMAS * math.sqrt(max(variance, 0.0) / (ones * zeros))
