"""The moves of the family, on noisy sums of truncated gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...data.queries import ClippedCoordinates, ClippedGradient
from ..base import Floats
from ..common.clips import finite
from ..engine import Stepper
from .schedule import STEP_SHARE

if TYPE_CHECKING:
    from .schedule import Plan


class MirrorStepper(Stepper):
    """Mirror steps on noisy means of truncated gradients; averages the last iterates.

    The step is sqrt(P)/2 over the square root of the sum of squares of all gradients so far (as in
    AdaGrad-Norm: Ward, Wu, Bottou 2019). It follows from noisy answers, so it costs nothing, and it
    fits whatever the smoothness and the unit of the gradients are: bounds on rows with heavy tails
    say next to nothing of either. A public penalty is not truncated: its gradient is added exactly.
    """

    vectors: ClassVar[tuple[str, ...]] = ("weights", "average", "size")

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan, self.weights = plan, plan.task.start
        self.centre, self.average = plan.task.start, np.zeros(plan.task.n_weights)
        self.size = np.zeros(1)  # square root of the sum of squares of gradients

    def query(self) -> ClippedGradient | ClippedCoordinates:
        """Ask for the truncated gradients at the weights."""
        return self.plan.query(self.weights)

    def step(self, answer: Floats) -> None:
        """Move on the noisy sum; the divisor is the planned number of rows."""
        plan, penalty = self.plan, self.plan.problem.penalty
        gradient = finite(answer / plan.batch_size(self.round)) + penalty.gradient(self.weights)
        self.size = np.hypot(self.size, plan.dual_norm(gradient))
        self.weights = finite(
            plan.mirror.step(
                self.weights, gradient, self._length(), domain=plan.steps_within, centre=self.centre
            )
        )
        if self.round >= plan.rounds - plan.tail:
            self.average = self.average + self.weights / plan.tail

    def output(self) -> Floats:
        """Return the average."""
        return self.plan.problem.domain.project(self.average)

    def _length(self) -> float:
        """Return the step."""
        if self.plan.step is not None:
            return self.plan.step
        return float(STEP_SHARE * np.sqrt(self.plan.spread) / max(self.size[0], _NO_GRADIENT))


_NO_GRADIENT = 1e-300  # in place of zero: noise never is
