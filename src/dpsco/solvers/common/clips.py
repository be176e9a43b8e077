"""How hard to clip gradients by default, from the public task."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...losses import Absolute, EpsilonInsensitive, Pinball
from ...losses.base import MarginLoss
from ...losses.vector import VectorLoss
from ...task import Task
from .smoothing import nonsmooth

Floats = NDArray[np.float64]

NEGLIGIBLE = 0.02  # of the loss at the start: noise below this is not worth a bias
PREFIX_NEGLIGIBLE = 0.5  # the same for prefix sums of a vector loss, which keep what was cut
PREFIX_DROWNED = 5.0  # times the loss at the start: noise from which on they are cut further
LEAST_WRONG = 0.25  # how wrong a row of a vector loss may be at least before it is cut

# Residuals of a fit deviate by 0.04 to 0.4 of the half-range of their labels, so a clip for a label
# at the end of its range is 2 to 20 times too large for squares. Slopes of the absolute loss are
# all of one size: a smaller clip cuts long rows alone, and makes the envelope sharper. Measured on
# real tables: the least part of the start's clip that pays where noise rules, and z/sqrt(P) from
# which on cutting does not pay.
SQUARED_PART = (0.125, 1500.0)
ABSOLUTE_PART = (0.25, 1000.0)

FARTHEST = 1e100  # no weight is longer: queries refuse what is not finite


def finite(weights: Floats) -> Floats:
    """Return noisy weights as finite numbers, whatever the noise: post-processing."""
    # Not so of NaN; no vector is made for it.
    if weights.min(initial=0.0) >= -FARTHEST and weights.max(initial=0.0) <= FARTHEST:
        return weights
    return np.clip(np.nan_to_num(weights), -FARTHEST, FARTHEST)


def descent_clip(
    task: Task,
    clip: float | None = None,
    *,
    calibration: str = "tight",
    prefix: bool = False,
    negligible: float = NEGLIGIBLE,
    subgradients: bool = False,
) -> float:
    """Return the clip of a solver that descends on noisy gradients: the user's, if there is one.

    Else the loss's own bound where its noise hardly matters, and `cautious_clip` where it does or
    residuals gain from a cut. For the logistic loss that is half of the loss's own bound. It
    changes what is minimised, by as little as few rows are cut, so it is used where noise costs
    more.

    Published noise and schedules speak of the loss's own bound, and keep it. What a clip cuts from
    a ``prefix`` sum of gradients stays missing in all later rounds, which costs vector losses more:
    they are cut later, at the start's gradient, and further only where noise drowns them. A solver
    of few steps along ``subgradients`` that jump gains nothing from shorter ones.
    """
    if clip is not None or calibration == "paper":
        return task.gradient_bound(clip)
    if subgradients and nonsmooth(task):
        return minimiser_clip(task)
    lasting = prefix and not task.glm
    calm = _calm(task, max(negligible, PREFIX_NEGLIGIBLE) if lasting else negligible)
    if calm and (prefix or residual_part(task) == 1.0):
        return task.lipschitz
    if lasting and _strain(task, start_clip(task)) < PREFIX_DROWNED:
        return start_clip(task)
    return cautious_clip(task)


def minimiser_clip(task: Task) -> float:
    """Return the clip of a solver that minimises to the end: the loss's own, or the start's.

    Smaller ones were measured for descent alone.
    """
    return task.lipschitz if _calm(task, NEGLIGIBLE) else start_clip(task)


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
    Regressions are cut at `residual_part` of it.
    """
    start, loss = start_clip(task) * residual_part(task), task.problem.loss
    if not isinstance(loss, VectorLoss) or not math.isfinite(loss.settled(0.5)):
        return start
    half = min(start, task.feature_bound * loss.settled(0.5))
    wrong = max(LEAST_WRONG, 0.5 / math.sqrt(max(1.0, _strain(task, half))))
    return min(start, task.feature_bound * loss.settled(wrong))


def residual_part(task: Task) -> float:
    """Return how much of the start's clip a regression keeps: 1 where noise does not matter.

    A clip below the largest residual turns squares into a Huber loss, which pulls the fit from the
    mean towards the median by as much as residuals beyond the clip are lopsided; that costs less
    than the noise which the clip saves. Huber losses have such a bound themselves, and keep it.
    Losses whose two slopes differ are not cut: another part of each would move their quantile.
    """
    loss = task.problem.loss
    if not isinstance(loss, MarginLoss) or loss.labels != "real":
        return 1.0
    if not math.isfinite(loss.slope_bound(task.label_bound, math.inf)):
        least, enough = SQUARED_PART
    elif isinstance(loss, (Absolute, EpsilonInsensitive)) or loss == Pinball(0.5):
        least, enough = ABSOLUTE_PART
    else:
        return 1.0
    return min(1.0, max(least, task.signal / math.sqrt(task.n_weights) / enough))


def _calm(task: Task, negligible: float) -> bool:
    """Return whether the loss has a bound of its own whose noise costs no more than so much."""
    whole = task.lipschitz
    known = math.isfinite(whole) and task.start_gradient > 0.0
    return known and _strain(task, whole) <= negligible


def _strain(task: Task, bound: float) -> float:
    """Return the cost of the noise that such a bound asks for, in units of the loss at the start.

    Distance times the noise of a single release that spends the whole budget.
    """
    noise = task.initial_distance * bound * math.sqrt(task.n_weights) / task.signal
    zero = task.constants.value_at_zero
    return noise / zero if zero > 0.0 else math.inf
