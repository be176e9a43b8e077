"""The moves of the family, on noisy means of bounded gradients; each batch is asked once.

A mean divides by the whole number of rows of its own batch. Smooth or not, penalties act by their
prox, and every point is in the domain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..base import Floats
from ..common.clips import finite
from ..common.moment_clips import ThresholdStepper

if TYPE_CHECKING:
    from .schedule import Plan


class ProxStepper(ThresholdStepper):
    """Proximal steps; the last point is the answer (Algorithm 6)."""

    plan: Plan
    vectors: ClassVar[tuple[str, ...]] = ("unit", "weights")

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, plan.task.start)
        self.weights = plan.task.start

    def gradient(self) -> Any:
        """Ask a batch for its gradients at the weights."""
        return self.ask(self.weights)

    def move(self, total: Floats) -> None:
        """Step down the noisy mean."""
        self.weights = self._moved(self.weights, self._mean(total))

    def output(self) -> Floats:
        """Return the last point."""
        return self.weights

    def _mean(self, total: Floats) -> Floats:
        """Return the noisy mean over the rows of the batch, whose number is public."""
        return total / self.plan.batch_size(self.turn)

    def _moved(self, origin: Floats, gradient: Floats) -> Floats:
        """Return prox(origin - step gradient), in the domain."""
        problem, step = self.plan.problem, self.plan.step_of(self.turn, self.scale)
        moved = finite(origin - step * gradient)
        return problem.domain.project(problem.penalty.prox(moved, step))


class AveragedStepper(ProxStepper):
    """Falling steps; a weighted average of the points after them (Algorithm 5)."""

    vectors: ClassVar[tuple[str, ...]] = ("unit", "weights", "average")

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.average = np.zeros(len(self.weights))
        self._shares = plan.averaging[1]

    def move(self, total: Floats) -> None:
        """Step, and count the new point."""
        super().move(total)
        self.average = self.average + self._shares[self.turn] * self.weights

    def output(self) -> Floats:
        """Return the average."""
        return self.plan.problem.domain.project(self.average)


class AcceleratedStepper(ProxStepper):
    """Accelerated stochastic approximation: gradients between two sequences (Algorithm 4)."""

    vectors: ClassVar[tuple[str, ...]] = ("unit", "weights", "average")

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.average = self.weights

    def gradient(self) -> Any:
        """Ask a batch for its gradients between the average and the last step."""
        return self.ask(self._coupled())

    def move(self, total: Floats) -> None:
        """Step from the last step, and average it in with weight 2/(t+2)."""
        self.weights = self._moved(self.weights, self._mean(total))
        self.average = self._coupled()

    def output(self) -> Floats:
        """Return the average."""
        return self.plan.problem.domain.project(self.average)

    def _coupled(self) -> Floats:
        """Return (1 - a) average + a weights, a = 2/(t+2) for t batches done."""
        share = 2.0 / (self.turn + 2.0)
        return (1.0 - share) * self.average + share * self.weights
