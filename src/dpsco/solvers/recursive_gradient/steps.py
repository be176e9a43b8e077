"""The moves of the family, on noisy means of clipped gradient differences.

Every stepper keeps a prefix sum P that estimates (t+1) times the gradient at the point x_t. A
recursive one asks each row for clip((t+1) grad f(x_t) - t grad f(x_{t-1})) and adds the noisy means
up: the differences telescope. A public smooth penalty is added to P exactly; others act by prox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...data.queries import ClippedDifference, ClippedGradient
from ..base import Floats
from ..common.clips import finite
from ..engine import Stepper

if TYPE_CHECKING:
    from .schedule import Plan


class RecursiveStepper(Stepper):
    """Unaccelerated steps on recursive gradients (Sec 4.3): x <- project(x - P/((t+1) beta))."""

    vectors: ClassVar[tuple[str, ...]] = ("point", "previous", "prefix")

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.point = self.previous = plan.task.start
        self.prefix = np.zeros(len(self.point))

    def query(self) -> ClippedGradient | ClippedDifference:
        """Ask for weighted differences of the gradients at the last two points."""
        loss, clip, t = self.plan.loss, self.plan.clip, self.round
        if t == 0:
            return ClippedGradient(loss, self.point, clip)
        return ClippedDifference(loss, self.point, self.previous, t + 1.0, float(t), clip)

    def step(self, answer: Floats) -> None:
        """Step down the gradient that the prefix sum estimates."""
        self.prefix = self.prefix + self._mean(answer)
        self._advance(self._stepped(self.point, 1.0 / (self.round + 1)))

    def output(self) -> Floats:
        """Return the last point."""
        return self.point

    def _mean(self, total: Floats) -> Floats:
        """Return the noisy mean over the planned rows of the batch."""
        return total / self.plan.batch_size(self.round)

    def _advance(self, point: Floats) -> None:
        """Go to the next point; where the clip must never act, no farther than that allows.

        A row's next contribution is at most L + (t+1) M |x_{t+1} - x_t|.
        """
        allowed = self.plan.max_step_norm(self.round)
        length = float(np.linalg.norm(point - self.point))
        if length > allowed:
            point = self.point + (allowed / length) * (point - self.point)
        self.previous, self.point = self.point, point

    def _stepped(self, origin: Floats, share: float) -> Floats:
        """Return the projection of origin - share (P + (t+1) grad penalty(x_t))/beta."""
        problem, step = self.plan.problem, share / self.plan.beta
        weight = self.round + 1.0  # of the penalty: P estimates so many times the gradient
        if problem.penalty.smooth:
            slope = self.prefix + weight * problem.penalty.gradient(self.point)
            return problem.domain.project(finite(origin - step * slope))
        moved = finite(origin - step * self.prefix)
        return problem.domain.project(problem.penalty.prox(moved, step * weight))


class BatchStepper(RecursiveStepper):
    """Online to batch: the points are weighted averages of the mirror steps z (no y)."""

    vectors: ClassVar[tuple[str, ...]] = ("point", "previous", "prefix", "mirror")

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.mirror = self.point

    def step(self, answer: Floats) -> None:
        """Move the mirror step, and average it in with weight 2/(t+3)."""
        self.prefix = self.prefix + self._mean(answer)
        self.mirror = self._stepped(self.mirror, self.plan.z_factor)
        share = 2.0 / (self.round + 3.0)
        self._advance((1.0 - share) * self.point + share * self.mirror)


class AcceleratedStepper(RecursiveStepper):
    """Nesterov steps (Algorithm 1): y from the point, z from its own past, x between the two."""

    vectors: ClassVar[tuple[str, ...]] = ("point", "previous", "prefix", "mirror", "descent")

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.mirror = self.descent = self.point

    def step(self, answer: Floats) -> None:
        """Take both steps, and couple them with weight 2/(t+3)."""
        self.prefix = self._estimate(self._mean(answer))
        self.mirror = self._stepped(self.mirror, self.plan.z_factor)
        self.descent = self._stepped(self.point, 1.0 / (self.round + 1))
        share = 2.0 / (self.round + 3.0)
        self._advance((1.0 - share) * self.descent + share * self.mirror)

    def output(self) -> Floats:
        """Return the last y."""
        return self.descent

    def _estimate(self, mean: Floats) -> Floats:
        """Return the estimate of (t+1) times the gradient."""
        return self.prefix + mean


class IndependentStepper(AcceleratedStepper):
    """The same steps on fresh gradients with independent noise (Thm 15)."""

    def query(self) -> ClippedGradient | ClippedDifference:
        """Ask for the gradients at the point."""
        return ClippedGradient(self.plan.loss, self.point, self.plan.clip)

    def _estimate(self, mean: Floats) -> Floats:
        return (self.round + 1.0) * mean
