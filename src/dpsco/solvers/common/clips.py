"""How hard to clip gradients by default, from the public task."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...losses.vector import VectorLoss
from ...task import Task

Floats = NDArray[np.float64]

NEGLIGIBLE = 0.02  # of the loss at the start: noise below this is not worth a bias
PREFIX_NEGLIGIBLE = 0.5  # the same for prefix sums of a vector loss, which keep what was cut
LEAST_WRONG = 0.25  # how wrong a row of a vector loss may be at least before it is cut

FARTHEST = 1e100  # no weight is longer: queries refuse what is not finite


def finite(weights: Floats) -> Floats:
    """Return noisy weights as finite numbers, whatever the noise: post-processing."""
    return np.clip(np.nan_to_num(weights), -FARTHEST, FARTHEST)


def gradient_clip(
    task: Task,
    clip: float | None,
    *,
    calibration: str = "tight",
    prefix: bool = False,
    negligible: float = NEGLIGIBLE,
) -> float:
    """Return the user's clip; else the start's gradient, or the loss's own if noise is small.

    Published noise and schedules speak of the loss's own bound, and keep it. What a clip cuts from
    a ``prefix`` sum of gradients stays missing in all later rounds, which costs vector losses more.
    """
    if clip is not None or calibration == "paper":
        return task.gradient_bound(clip)
    if prefix and not task.glm:
        negligible = max(negligible, PREFIX_NEGLIGIBLE)
    return task.lipschitz if _calm(task, negligible) else start_clip(task)


def descent_clip(task: Task, clip: float | None = None) -> float:
    """Return the clip of a solver that gets near the minimum: the user's, if there is one.

    Else the loss's own bound where its noise hardly matters, and the bound at the start where it
    does. That cuts only rows that the model predicts worse than it did at the start
    (`Task.start_gradient`); for the logistic loss it is half of the loss's own bound. It changes
    what is minimised, by as little as such rows are few, so it is used where noise costs more.
    """
    if clip is not None:
        return task.gradient_bound(clip)
    return task.lipschitz if _calm(task, NEGLIGIBLE) else cautious_clip(task)


def start_clip(task: Task) -> float:
    """Return the largest gradient of a row at the start; the loss's own bound if there is none."""
    start = task.start_gradient
    return start if 0.0 < start < math.inf else task.gradient_bound(None)


def cautious_clip(task: Task) -> float:
    """Return the bound at the start, or less for many classes: that of a row that is half right.

    A row of two classes starts half right. One of ten starts nearly all wrong, with a gradient that
    only rows far from settled keep, so vector losses that can tell are cut where a row is half
    wrong. Where noise outweighs the whole loss, rows hardly leave the start and the clip is little
    more than a unit: it falls with the root of that ratio, down to rows a quarter wrong.
    """
    start, loss = start_clip(task), task.problem.loss
    if not isinstance(loss, VectorLoss) or not math.isfinite(loss.settled(0.5)):
        return start
    half = min(start, task.feature_bound * loss.settled(0.5))
    wrong = max(LEAST_WRONG, 0.5 / math.sqrt(max(1.0, _strain(task, half))))
    return min(start, task.feature_bound * loss.settled(wrong))


def _calm(task: Task, negligible: float) -> bool:
    """Return whether the loss has a bound of its own whose noise costs no more than so much."""
    whole = task.lipschitz
    known = math.isfinite(whole) and task.start_gradient > 0.0
    return known and _strain(task, whole) <= negligible


def _strain(task: Task, bound: float) -> float:
    """Return the cost of the noise that such a bound asks for, in units of the loss at the start.

    Distance times the noise of a single release that spends the whole budget.
    """
    sigma = task.budget.adjacency.sensitivity(bound) / (task.n * task.budget.mu_per_row())
    noise = task.initial_distance * sigma * math.sqrt(task.n_weights)
    zero = task.constants.value_at_zero
    return noise / zero if zero > 0.0 else math.inf
