"""Moreau smoothing: any convex Lipschitz loss, replaced by a smooth one just below it.

    phi_b(m) = min_u phi(u) + b/2 (u - m)^2,      phi_b'(m) = b (m - u*),  u* the minimiser.

phi_b is convex and b-smooth; phi_b'(m) is a slope of phi at u*, and never longer than a slope of
phi at m itself, so every bound on |phi'| holds for phi_b. The price is a gap of at most
``L0^2 / (2 b)``. (Bassily, Guzman, Menart 2021, arXiv:2107.05585, Lemma 18 with the factors that
its proof supports: L0 and L0^2 / (2 b), where the paper has twice as much.)

phi must be defined on the whole line: solvers evaluate it at noisy points, and b (m - u*) would be
unbounded outside an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._validate import non_negative, positive, shown
from ..errors import AssumptionError, ParameterError
from ..kernels.slope import Slope, smoothed_slope
from .base import Floats, Hoelder, MarginLoss, as_floats

_PROBES = (0.0, 1.0, 1e9)  # label bounds at which a slope bound shows whether it depends on them


@dataclass(frozen=True)
class Smoothed(MarginLoss):
    """The Moreau envelope of ``loss`` with parameter ``smoothing``; it is ``smoothing``-smooth.

    ``label`` bounds |y|. It is needed only where the slope of the loss depends on the label
    (`Poisson`); a plan for larger labels is then refused.

    Raises:
        AssumptionError: the loss is not convex, or has no Lipschitz constant on the whole line.

    >>> from dpsco.losses.hinge import Hinge
    >>> Smoothed(Hinge(), 2.0).slope([0.95, 0.4], 1.0)
    array([-0.1, -1. ])
    """

    loss: MarginLoss
    smoothing: float
    label: float | None = None

    def __post_init__(self) -> None:
        loss = self.loss
        if not isinstance(loss, MarginLoss):
            raise ParameterError(
                f"loss must be a margin loss, got {shown(loss)}.", parameter="loss"
            )
        object.__setattr__(self, "smoothing", positive("smoothing", self.smoothing))
        object.__setattr__(self, "labels", loss.labels)
        if not loss.convex:
            raise AssumptionError(
                f"Smoothed needs a convex loss; {loss.name} is not. Use a solver for weakly convex "
                "losses."
            )
        if isinstance(loss, Smoothed):  # its own check has been passed
            object.__setattr__(self, "label", loss.label if self.label is None else self.label)
            loss = loss.original
        bounds = [loss.slope_bound(label, math.inf) for label in _PROBES]
        if not bounds[0] < math.inf:
            raise AssumptionError(
                f"Smoothed needs a loss with a Lipschitz constant on the whole line; {loss.name} "
                "has none. For the squared loss pass Huber(threshold=...), the threshold a public "
                "bound on the residuals: that is the squared loss with clipped residuals."
            )
        if self.label is not None:
            object.__setattr__(self, "label", non_negative("label", self.label))
        elif not bounds[0] == bounds[1] == bounds[2]:
            raise ParameterError(
                f"Smoothed needs label, a bound on |y|: the slope of {loss.name} depends on it."
            )

    @property
    def name(self) -> str:
        """The loss's name, marked as smoothed."""
        return f"Smoothed({self.loss.name})"

    @property
    def trusted(self) -> tuple[str, ...]:
        """What is trusted of the loss; its envelope rests on it as well."""
        return self.loss.trusted

    @property
    def original(self) -> MarginLoss:
        """The loss beneath all smoothing."""
        return self.loss.original if isinstance(self.loss, Smoothed) else self.loss

    @property
    def lipschitz(self) -> float:
        """L0: the loss's largest slope on the whole line."""
        return self.loss.slope_bound(0.0 if self.label is None else self.label, math.inf)

    @property
    def gap(self) -> float:
        """How far the loss can lie above its envelope: L0^2 / (2 smoothing)."""
        return self.lipschitz / self.smoothing * self.lipschitz / 2.0

    # -- functions of (margin, label) --------------------------------------------------------------

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return the envelope."""
        return self.loss.envelope_value(margin, label, self.smoothing)

    def kernel(self) -> Slope:
        """Return the envelope's slope: in closed form, or marked for bisection by the loops."""
        result = self.loss.envelope(self.smoothing)
        if result.smoothing > 0.0 and result.bound < self.lipschitz:
            return replace(result, bound=self.lipschitz)  # the bracket must hold the minimiser
        return result

    def slope(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return the envelope's slope, the same as in the loops."""
        u, y = np.broadcast_arrays(*as_floats(margin, label))
        kernel = self.kernel()
        if kernel.smoothing > 0.0:
            return smoothed_slope(kernel, u, y)
        return np.asarray(kernel(u, y), dtype=float)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return the envelope's second derivative, one-sided where it jumps.

        ``1 / (1 / phi'' + 1 / smoothing)`` at the minimiser u*; ``smoothing`` while u* rests in a
        jump, which shows in slopes on either side of u* that differ from the envelope's own.
        """
        u, y = np.broadcast_arrays(*as_floats(margin, label))
        slope = self.slope(u, y)
        nearest = u - slope / self.smoothing
        aside, small = 1e-9 * (1.0 + np.abs(nearest)), 1e-6 * self.lipschitz
        below = self.loss.slope(nearest - aside, y) < slope - small
        above = self.loss.slope(nearest + aside, y) > slope + small
        smooth = _harmonic(self.loss.curvature(nearest, y), self.smoothing)
        return np.asarray(np.where(below & above, self.smoothing, smooth))

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Return argmin_u phi_b(u) + (u - margin)^2 / (2 step), from one prox of phi."""
        u, y, s = as_floats(margin, label, step)
        total = s + 1.0 / self.smoothing
        return np.asarray(u + s / total * (self.loss.prox(u, y, total) - u))

    def envelope(self, smoothing: float) -> Slope:
        """Return the slope of the envelope's envelope, which is one of the loss itself."""
        return self._again(smoothing).kernel()

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return the envelope's envelope."""
        return self._again(smoothing).value(margin, label)

    def _again(self, smoothing: float) -> Smoothed:
        """Return the loss smoothed twice: the reciprocals of the parameters add up."""
        total = _harmonic(self.smoothing, positive("smoothing", smoothing))
        return replace(self, smoothing=total)

    # -- scalar facts ------------------------------------------------------------------------------

    def slope_bound(self, label: float, margin: float) -> float:
        """Return the loss's bound: its own slope at a margin is the longer one."""
        return self.loss.slope_bound(self._label(label), margin)

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return 1 / (1 / curvature + 1 / smoothing), curvature the loss's within reach of u*."""
        farthest = margin + self.slope_bound(label, margin) / self.smoothing
        return float(_harmonic(self.loss.curvature_bound(label, farthest), self.smoothing))

    def hoelder(self) -> Hoelder:
        """Return alpha 1: smooth on the whole line."""
        result = self.loss.hoelder()
        native = result.constant if result.alpha == 1.0 else math.inf
        return Hoelder(1.0, float(_harmonic(native, self.smoothing)))

    def value_at_zero(self, label: float) -> float:
        """Return the loss's bound, which lies above."""
        return self.loss.value_at_zero(self._label(label))

    def _label(self, label: float) -> float:
        """Return a label bound, unless it is beyond the one that the oracle was made for."""
        if self.label is not None and label > self.label:
            raise ParameterError(
                f"{self.name} was made for labels up to {self.label:g}, got a bound of {label:g}. "
                "Pass a larger label to Smoothed."
            )
        return label


def _harmonic(first: Any, second: float) -> Any:
    """Return 1 / (1 / first + 1 / second) for numbers from 0 to inf."""
    if np.ndim(first) == 0 and first == math.inf:
        return second
    return first * (second / (first + second))
