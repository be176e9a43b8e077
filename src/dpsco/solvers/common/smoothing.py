"""How much to smooth a convex margin loss with a kink, for solvers that want a smooth one.

The Moreau envelope with parameter b is b-smooth in the margin and lies at most L0^2/(2 b) below
the loss; its slopes are slopes of the loss, so no bound changes (`dpsco.losses.Smoothed`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from ...kernels.slope import Slope, smoothed_slope
from ...losses.base import Floats, MarginLoss
from ...losses.quantile import BlurredPinball, Pinball
from ...losses.smoothing import Smoothed
from ...problem import Facts, Loss

BLUR = 0.2  # of the labels' scale: over how much of it a kink is rounded off
_FARTHEST_SLOPE = 64.0
TOUCHED = 0.25  # of the most that an envelope can cost: only rows near the kink pay


def kinked(facts: Facts) -> bool:
    """Return whether the loss is a convex margin loss with bounded slopes that jump.

    Bounded on the whole line, not only over the domain: envelopes look beyond it.
    """
    loss = facts.problem.loss
    if not isinstance(loss, MarginLoss) or not facts.constants.convex:
        return False
    bounded = math.isfinite(loss.slope_bound(facts.label, math.inf))
    return bounded and not math.isfinite(facts.smoothness)


def blurred(facts: Facts) -> float:
    """Return the smoothing that rounds a kink off over a fifth of the labels' scale, else 0."""
    if not kinked(facts):
        return 0.0
    return facts.lipschitz / facts.feature / (BLUR * facts.margin_scale)


def walkable(facts: Facts, steps: float) -> float:
    """Return a smoothing for descent that counts as so many plain steps; 0 without a kink.

    The envelope costs at most L0^2/(2 b), descent leaves R^2 b X^2/(2 steps): they are equal at
    b = L0 sqrt(steps)/(R X). No kink is sharper than a fifth of the labels' scale at first.
    """
    if not kinked(facts):
        return 0.0
    slope = facts.lipschitz / facts.feature
    return min(blurred(facts), slope * math.sqrt(steps) / (facts.distance * facts.feature))


def sharpest(facts: Facts, rounds: int, noise: float) -> float:
    """Return the smoothing worth ending with where noise costs so much risk; 0 without a kink.

    The envelope costs at most L0^2/(2 b), a part of it in practice, which is to be no more than the
    noise. Accelerated descent leaves 2 b X^2 R^2/T^2 after T rounds: beyond b = L0 T/(2 R X) that
    is more than the envelope costs.
    """
    if not kinked(facts):
        return 0.0
    slope = facts.lipschitz / facts.feature
    followed = slope * rounds / (2.0 * facts.distance * facts.feature)
    return min(TOUCHED * slope * slope / (2.0 * noise), followed)


def descended(facts: Facts, smoothing: float) -> Loss:
    """Return the loss that noisy steps descend: the problem's, or a smooth one close to it.

    As `smoothed`, but a quantile's corner is rounded off evenly, which keeps the quantile.
    """
    loss = facts.problem.loss
    if smoothing > 0.0 and type(loss) is Pinball:
        return BlurredPinball(loss.quantile, smoothing)
    return smoothed(facts, smoothing)


def smoothed(facts: Facts, smoothing: float) -> Loss:
    """Return the problem's loss, or its Moreau envelope if ``smoothing`` is positive."""
    loss = facts.problem.loss
    if smoothing == 0.0 or not isinstance(loss, MarginLoss):
        return loss
    return Smoothed(loss, smoothing, None if loss.labels == "sign" else facts.label)


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


def cut_envelope(facts: Facts, smoothing: float) -> MarginLoss | CutEnvelope:
    """Return the envelope of a convex margin loss, of bounded slope or not.

    Slopes without a bound on the whole line are cut at their bound over the domain, beyond which
    weights never are; without one, at `_FARTHEST_SLOPE` times that near the start.
    """
    loss = facts.problem.loss
    assert isinstance(loss, MarginLoss)
    if math.isfinite(loss.slope_bound(facts.label, math.inf)):
        found = smoothed(facts, smoothing)
        assert isinstance(found, MarginLoss)
        return found
    bound = facts.lipschitz
    if not math.isfinite(bound):
        bound = _FARTHEST_SLOPE * facts.gradient_bound(None)
    slopes = replace(loss.kernel(), smoothing=smoothing, bound=bound / facts.feature)
    return CutEnvelope(slopes, loss.labels, loss.name)
