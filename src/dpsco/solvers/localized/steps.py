"""The moves of the family: noisy subgradient steps, each phase about the point of the last one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..base import Floats
from ..common.clips import finite
from ..common.moment_clips import ThresholdStepper

if TYPE_CHECKING:
    from .schedule import Phase, Plan


class LocalizedStepper(ThresholdStepper):
    """Regularized noisy clipped subgradient steps (Algorithm 2), phase after phase (Algorithm 3).

    Falling steps are exact on the regularizer and on the penalty, and average the points before
    each step with growing weights. The next phase starts at the average, and is held there.
    """

    plan: Plan
    vectors: ClassVar[tuple[str, ...]] = ("unit", "weights", "centre", "average")

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, plan.task.start)
        self.weights = self.centre = plan.task.start
        self.average = np.zeros(len(self.weights))

    def gradient(self) -> Any:
        """Ask the phase's rows, or a sample of them, for their gradients at the weights."""
        phase = self._phase
        return self.plan.oracle.query(self._loss, self.weights, phase.clip * self.clip)

    def move(self, total: Floats) -> None:
        """Step on the noisy mean; at the end of a phase go on from its point."""
        phase = self._phase
        t = self.turn - phase.first
        mean = total / phase.batch
        if self.plan.averaging != "last":
            self.average = self.average + self._share(t) * (self.weights - self.average)
        if self.plan.averaging == "falling":
            self.weights = self._fallen(mean, phase, t)
        else:
            self.weights = self._stepped(mean, phase)
        if t + 1 == phase.rounds:
            last = self.plan.averaging == "last" or phase.rounds == 1
            self.weights = self.weights if last else self.average
            self.centre, self.average = self.weights, np.zeros(len(self.weights))

    def output(self) -> Floats:
        """Return the point of the last phase."""
        return self.plan.problem.domain.project(self.weights)

    @property
    def _phase(self) -> Phase:
        return self.plan.phase_at(self.turn)

    def _share(self, t: int) -> float:
        """Return the weight of the point before step t in the average so far."""
        if self.plan.averaging == "uniform":
            return 1.0 / (t + 1.0)
        return 2.0 * (t + 2.0) / ((t + 1.0) * (t + 4.0))  # t + 2 over the sum of 2 ... t + 2

    def _fallen(self, mean: Floats, phase: Phase, t: int) -> Floats:
        """Return the step that is exact on strength/2 ||w - centre||^2 and on the penalty."""
        strength = self.plan.strength(phase, self.scale)
        step = 2.0 / (strength * (t + 1.0))
        pull = 1.0 + step * strength
        point = (self.weights + step * strength * self.centre - step * mean) / pull
        return self._within(point, step / pull, phase)

    def _stepped(self, mean: Floats, phase: Phase) -> Floats:
        """Return the level step of Algorithm 2."""
        step = phase.step / self.scale
        slope = mean + self.plan.strength(phase, self.scale) * (self.weights - self.centre)
        return self._within(self.weights - step * slope, step, phase)

    def _within(self, point: Floats, step: float, phase: Phase) -> Floats:
        """Return a point of the domain and of the ball about the centre, the penalty included.

        Two projections, one after the other, bring it no farther from any point of both sets, and
        that is all that the theorems ask of a projection.
        """
        problem = self.plan.problem
        point = problem.penalty.prox(finite(point), step)
        gap = point - self.centre
        length = float(np.linalg.norm(gap))
        if length > phase.radius and math.isfinite(phase.radius):
            point = self.centre + (phase.radius / length) * gap
        return problem.domain.project(point)
