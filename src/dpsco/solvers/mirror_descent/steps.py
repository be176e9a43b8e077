"""How a plan is carried out: mirror steps, whose length follows from the noisy answers."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from ...data.queries import ClippedGradient, sealed
from ..base import Floats
from ..common.clips import finite
from ..engine import Stepper
from .schedule import Plan

GROWTH = 1.5  # of a step after one that led downhill
RETREAT = 0.5  # after one that went too far
CERTAIN = 2.0  # deviations of the noise in a slope, from which on it counts as uphill


class MirrorStepper(Stepper):
    """Mirror steps, and a weighted average of the last iterates.

    Steps shorter than the plan's longest grow while the noisy gradient at the new weights points
    on along the last move, and shrink once it points back: the move went past the lowest point on
    its line. Both are read off noisy answers, so they cost nothing.
    """

    vectors: ClassVar[tuple[str, ...]] = ("weights", "place", "move", "length", "average")

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan, self.steps = plan, plan.steps
        self.place = self.steps.place(plan.task.start)
        self.weights = finite(self.steps.weights(self.place))
        self.move = np.zeros(len(self.place))  # of the weights, in the last round
        self.length = np.array([plan.step])
        self.average = np.zeros(len(self.place))

    def query(self) -> ClippedGradient:
        """Ask for the gradients at the weights."""
        plan = self.plan
        return ClippedGradient(plan.problem.loss, self.weights, plan.clip, plan.norm)

    def step(self, answer: Floats) -> None:
        """Take a mirror step on the noisy mean, and average its end in."""
        plan, gradient = self.plan, answer / self.plan.n
        if self.round and plan.step < plan.longest:
            self.length = np.array([self._next_length(float(gradient @ self.move))])
        self.place = self.steps.moved(self.place, gradient, float(self.length[0]), plan.pull)
        del gradient
        weights = sealed(finite(self.steps.weights(self.place)))
        np.subtract(weights, self.weights, out=self.move)
        self.weights = weights
        share = self._share()
        if share > 0.0:
            self.average += share * weights

    def output(self) -> Floats:
        """Return the average, which lies in the domain up to rounding."""
        return self.plan.problem.domain.project(self.average)

    def _next_length(self, slope: float) -> float:
        """Return the length after a move along which the noisy slope is now ``slope``."""
        noise = self.plan.coordinate_noise * float(np.linalg.norm(self.move))
        factor = RETREAT if slope > CERTAIN * noise else GROWTH
        return min(max(float(self.length[0]) * factor, self.plan.step), self.plan.longest)

    def _share(self) -> float:
        """Return the weight of this round's end: (1 + pull step/2)^t, in all 1."""
        plan = self.plan
        late = self.round - (plan.rounds - plan.tail)
        if late < 0:
            return 0.0
        rate = math.log1p(0.5 * plan.pull * plan.step)
        if rate == 0.0:
            return 1.0 / plan.tail
        whole = math.expm1(-plan.tail * rate) / math.expm1(-rate)  # from the last one backwards
        return math.exp((late + 1 - plan.tail) * rate) / whole
