"""The moves: momentum on noisy sums of clipped gradients, and an average of the last iterates.

A noisy sum over a secret sample is divided by the public expected size of samples, also where the
sample happens to be empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...data.queries import ClippedGradient
from ..base import Floats
from ..common.clips import finite
from ..engine import Stepper

if TYPE_CHECKING:
    from .schedule import Plan


class SampledStepper(Stepper):
    """Descends on noisy gradients of secret samples, and averages the last iterates."""

    vectors: ClassVar[tuple[str, ...]] = ("weights", "velocity", "average")

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan, self._loss, self.weights = plan, plan.loss, plan.task.start
        self.velocity = np.zeros(len(self.weights))
        self.average = np.zeros(len(self.weights))
        if plan.tail > plan.rounds:  # the start counts as well
            self.average = self.weights / plan.tail

    def query(self) -> ClippedGradient:
        """Ask for the gradients at the weights."""
        return ClippedGradient(self._loss, self.weights, self.plan.clip)

    def step(self, answer: Floats) -> None:
        """Move on the noisy sum of the gradients of a sample."""
        plan, problem = self.plan, self.plan.problem
        mean = answer / plan.batch
        self.velocity = plan.momentum * self.velocity + (1.0 - plan.momentum) * mean
        moved = finite(self.weights - plan.step * self.velocity)
        self.weights = problem.domain.project(problem.penalty.prox(moved, plan.step))
        if self.round + plan.tail >= plan.rounds:
            self.average = self.average + self.weights / plan.tail

    def output(self) -> Floats:
        """Return the average."""
        return self.plan.problem.domain.project(self.average)
