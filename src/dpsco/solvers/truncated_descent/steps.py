"""The moves of the family, on noisy sums of truncated gradients."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ...data.queries import ClippedCoordinates, ClippedGradient
from ..base import Floats
from ..common.clips import finite
from ..common.found_clip import FoundClipStepper
from .schedule import STEP_SHARE, CoordinatePlan, Plan


class MirrorStepper(FoundClipStepper):
    """Mirror steps on noisy means of truncated gradients; averages the last iterates.

    The step is sqrt(P)/2 over the square root of the sum of squares of all gradients so far (as in
    AdaGrad-Norm: Ward, Wu, Bottou 2019). It follows from noisy answers, so it costs nothing, and it
    fits whatever the smoothness and the unit of the gradients are: bounds on rows with heavy tails
    say next to nothing of either. A public penalty is not truncated: its gradient is added exactly.
    """

    vectors: ClassVar[tuple[str, ...]] = ("weights", "average", "size", "unit")

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, plan.task.start)
        self.weights = plan.task.start
        self.centre, self.average = plan.task.start, np.zeros(plan.task.n_weights)
        self.size = np.zeros(1)  # square root of the sum of squares of gradients

    def gradient(self) -> ClippedGradient | ClippedCoordinates:
        """Ask for the truncated gradients at the weights."""
        plan: Plan = self.plan
        return plan.gradient(self.weights, self.clip)

    def move(self, total: Floats) -> None:
        """Move on the noisy sum; the divisor is the planned number of rows."""
        plan: Plan = self.plan
        penalty = plan.problem.penalty
        gradient = finite(total / plan.batch_size(self.turn)) + penalty.gradient(self.weights)
        self.size = np.hypot(self.size, plan.dual_norm(gradient))
        self.weights = finite(
            plan.mirror.step(
                self.weights, gradient, self._length(), domain=plan.steps_within, centre=self.centre
            )
        )
        if self.turn >= plan.rounds - plan.tail:
            self.average = self.average + self.weights / plan.tail

    def output(self) -> Floats:
        """Return the average."""
        plan: Plan = self.plan
        return plan.problem.domain.project(self.average)

    def _length(self) -> float:
        """Return the step."""
        plan: Plan = self.plan
        if plan.step is not None:
            return plan.step
        return float(STEP_SHARE * np.sqrt(plan.spread) / max(self.size[0], _NO_GRADIENT))


class CoordinateStepper(MirrorStepper):
    """The same in l_2, with coordinates that are cut one by one."""

    plan: CoordinatePlan

    def step(self, answer: Any) -> None:
        """Take the clip, spread over the coordinates, or move."""
        super().step(answer)
        if self.turn < 0:  # the clip of whole gradients was just found
            self.unit = self.unit / math.sqrt(len(self.weights))


_NO_GRADIENT = 1e-300  # in place of zero: noise never is
