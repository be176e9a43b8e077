"""The stepper: damped momentum, clips that follow the loss, refits; the last iterates' average."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...data.queries import ClippedGradient, InUnits, Query
from ...data.scores import ScoreGradient
from ..base import Floats
from ..common import refits
from ..common.clips import finite
from ..common.loss_meter import LossMeter
from ..common.smoothing import surrogate_loss
from ..engine import Stepper, no_numbers

if TYPE_CHECKING:
    from .schedule import Plan

DAMPING = 0.5  # of the way from heavy balls (0) to Nesterov's momentum (1)


class DescentStepper(Stepper):
    """Descends with momentum, and averages the last iterates.

    Velocity v is m v + g, and the weights move by v and a part of its change. No part is a heavy
    ball, all of it Nesterov's momentum. That part slows down in directions of much curvature alone,
    where a heavy ball swings. With half of it steps below 2/L converge whatever m is, L the
    curvature; with all of it, those below about 4/3 of 1/L.

    Rounds that refit do the same from the average on, in few directions; their last half is
    averaged again. A clip that follows the loss is ``plan.clip`` times ``part``, and steps are as
    much longer; they lengthen further where noise is not what limits them and the loss has fallen
    so far that it curves less.
    """

    vectors: ClassVar[tuple[str, ...]] = (
        "weights",
        "velocity",
        "average",
        "along",
        "part",
        "move",
        "reading",
    )

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan, self.weights = plan, plan.task.start
        self.velocity, self.average = (np.zeros(len(self.weights)) for _ in range(2))
        self.along = no_numbers(len(self.weights))
        self.part = np.ones(1)  # of the clip in the next round
        # The last move of a descent that follows the loss; else nothing.
        self.move = np.zeros(len(self.weights) if plan.follow else 0)
        self._meter = None
        if plan.follow:
            self._meter = LossMeter(plan.task, plan.sigma / plan.n, plan.clip, plan.rounds)

    @property
    def reading(self) -> Floats:
        """What the meter of the loss has read; nothing where the clip does not follow it."""
        return np.zeros(0) if self._meter is None else self._meter.reading

    @reading.setter
    def reading(self, value: Floats) -> None:
        if self._meter is not None:
            self._meter.reading = value

    @property
    def clip(self) -> float:
        """The clip of the next round of the descent."""
        return self.plan.clip * float(self.part[0])

    def query(self) -> Query:
        """Ask for the gradients of the loss, or of an envelope of it, at the weights."""
        plan = self.plan
        if self.round >= plan.rounds:
            return self._scores()
        loss = surrogate_loss(plan.task, plan.smoothing_at(self.round))
        gradient = ClippedGradient(loss, self.weights, self.clip)
        return InUnits(gradient) if plan.follow else gradient

    def step(self, answer: Floats) -> None:
        """Move on the noisy sum of the gradients."""
        plan, last, tail = self.plan, self.plan.rounds, self.plan.tail
        momentum, share = plan.momentum, plan.momentum_at(self.round)
        gradient = answer * self.clip if plan.follow else answer
        if self.round >= last:
            last, tail = plan.total_rounds, (plan.refit_rounds + 1) // 2
            momentum = share = refits.MOMENTUM
            gradient = self._scores().lift(answer)
        meter = self._meter if self.round < plan.rounds else None
        step = plan.step_at(self.round) / (1 - momentum)  # of the averaged gradient
        if meter is not None:
            meter.arrive(self.round, gradient / plan.n, self.move, self.clip)
            step = self._lengthened(meter) / (1 - momentum)
        change = (1 - momentum) * gradient
        change /= plan.rows_at(self.round)
        self.velocity *= share
        self.velocity += change
        # The velocity and a part of how it changed, which is a sum of velocity and gradient.
        steady = 1 - DAMPING * (1 - share)
        change *= DAMPING / steady
        change += self.velocity
        change *= step * steady
        if meter is not None:
            self.move = -change
            gain = step * (1 - momentum) * (1 + DAMPING * share)
            meter.leave(gradient / plan.n, self.move, self.clip, gain)
            self._follow(meter)
        moved = finite(np.subtract(self.weights, change, out=change))
        self.weights = plan.problem.domain.project(plan.problem.penalty.prox(moved, step))
        if self.round >= last - tail:
            self.average += self.weights / tail
        if plan.refit_rounds and self.round + 1 == plan.rounds:
            self._begin_refit()

    def output(self) -> Floats:
        """Return the average."""
        return self.plan.problem.domain.project(self.average)

    def _lengthened(self, meter: LossMeter) -> float:
        """Return the step of a round with this clip: as long as noise and curvature let it be."""
        plan = self.plan
        affordable = plan.room * plan.step / float(self.part[0])  # for noise
        return min(affordable, plan.longest_step(meter.curvature()))

    def _follow(self, meter: LossMeter) -> None:
        """Set the clip of the next round: steps cannot lengthen for a smaller one."""
        least = self.plan.step / self.plan.longest_step(meter.curvature())
        self.part = np.array([max(meter.part(self.round + 1), least)])

    def _begin_refit(self) -> None:
        """Go on from the average, at rest."""
        self.weights = finite(self.average)
        self.along = refits.unit_of_scores(self.plan.task, self.weights)
        self.velocity, self.average = np.zeros((2, len(self.weights)))

    def _scores(self) -> ScoreGradient:
        """Return what a round that refits asks for."""
        plan = self.plan
        offset = refits.unit_of_intercepts(plan.task)
        return ScoreGradient(plan.problem.loss, self.weights, self.along, offset, plan.refit_clip)
