"""How much to smooth a nonsmooth convex margin loss, for solvers that want a smooth one.

The Moreau envelope with parameter b is b-smooth in the margin and lies at most L0^2/(2 b) below
the loss; its slopes are slopes of the loss, so no bound changes (`dpsco.losses.Smoothed`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from ...kernels.slope import Slope, smoothed_slope
from ...losses.base import Floats, MarginLoss
from ...losses.quantile import Pinball, RoundedPinball
from ...losses.smoothing import Smoothed
from ...problem import Loss
from ...task import Task

SMOOTHED_SHARE = 0.2  # of the labels' scale: over how much of it a jump of the slope is spread
_FARTHEST_SLOPE = 64.0
TOUCHED = 0.25  # of the most that an envelope can cost: only rows near the jump pay


def nonsmooth(task: Task) -> bool:
    """Return whether the loss is a convex margin loss with bounded slopes that jump.

    Bounded on the whole line, not only over the domain: envelopes look beyond it.
    """
    loss = task.problem.loss
    if not isinstance(loss, MarginLoss) or not task.constants.convex:
        return False
    bounded = math.isfinite(loss.slope_bound(task.label_bound, math.inf))
    return bounded and not math.isfinite(task.smoothness)


def moreau_smoothing(task: Task) -> float:
    """Return the smoothing that spreads a jump over a fifth of the labels' scale, else 0."""
    if not nonsmooth(task):
        return 0.0
    return task.lipschitz / task.feature_bound / (SMOOTHED_SHARE * task.margin_scale)


def smoothing_for_steps(task: Task, steps: float) -> float:
    """Return a smoothing for descent that counts as so many plain steps; 0 for a smooth loss.

    The envelope costs at most L0^2/(2 b), descent leaves R^2 b X^2/(2 steps): they are equal at
    b = L0 sqrt(steps)/(R X). No jump is sharper than a fifth of the labels' scale at first.
    """
    if not nonsmooth(task):
        return 0.0
    slope = task.lipschitz / task.feature_bound
    return min(
        moreau_smoothing(task),
        slope * math.sqrt(steps) / (task.initial_distance * task.feature_bound),
    )


def final_smoothing(task: Task, rounds: int, noise: float) -> float:
    """Return the smoothing worth ending with where noise costs so much risk; 0 for a smooth loss.

    The envelope costs at most L0^2/(2 b), a part of it in practice, which is to be no more than the
    noise. Accelerated descent leaves 2 b X^2 R^2/T^2 after T rounds: beyond b = L0 T/(2 R X) that
    is more than the envelope costs.
    """
    if not nonsmooth(task):
        return 0.0
    slope = task.lipschitz / task.feature_bound
    followed = slope * rounds / (2.0 * task.initial_distance * task.feature_bound)
    return min(TOUCHED * slope * slope / (2.0 * noise), followed)


def surrogate_loss(task: Task, smoothing: float) -> Loss:
    """Return the loss that noisy steps descend: the problem's, or a smooth one close to it.

    As `smoothed`, but a quantile's corner is rounded off evenly, which keeps the quantile.
    """
    loss = task.problem.loss
    if smoothing > 0.0 and type(loss) is Pinball:
        return RoundedPinball(loss.quantile, smoothing)
    return smoothed(task, smoothing)


def smoothed(task: Task, smoothing: float) -> Loss:
    """Return the problem's loss, or its Moreau envelope if ``smoothing`` is positive."""
    loss = task.problem.loss
    if smoothing == 0.0 or not isinstance(loss, MarginLoss):
        return loss
    return Smoothed(loss, smoothing, None if loss.labels == "sign" else task.label_bound)


@dataclass(frozen=True)
class CutEnvelope:
    """The Moreau envelope of a convex margin loss whose slopes are cut to a bound; slopes only.

    Cutting slopes keeps a loss convex, and the bisection of `smoothed_slope` cuts by itself: what
    it finds is a slope of the cut loss.
    """

    slopes: Slope  # with its smoothing and its bound
    labels: str  # which the loss takes
    name: str

    def kernel(self) -> Slope:
        """Return the slopes as the loops take them."""
        return self.slopes

    def slope(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return the envelope's slopes."""
        return smoothed_slope(self.slopes, margin, label)

    def slope_bound(self, label: float, margin: float) -> float:
        """Return the bound."""
        return self.slopes.bound


def cut_envelope(task: Task, smoothing: float) -> MarginLoss | CutEnvelope:
    """Return the envelope of a convex margin loss, of bounded slope or not.

    Slopes without a bound on the whole line are cut at their bound over the domain, beyond which
    weights never are; without one, at `_FARTHEST_SLOPE` times that near the start.
    """
    loss = task.problem.loss
    assert isinstance(loss, MarginLoss)
    if math.isfinite(loss.slope_bound(task.label_bound, math.inf)):
        envelope = smoothed(task, smoothing)
        assert isinstance(envelope, MarginLoss)
        return envelope
    bound = task.lipschitz
    if not math.isfinite(bound):
        bound = _FARTHEST_SLOPE * task.gradient_bound(None)
    slopes = replace(loss.kernel(), smoothing=smoothing, bound=bound / task.feature_bound)
    return CutEnvelope(slopes, loss.labels, loss.name)
