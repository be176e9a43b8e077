"""Noisy composite mirror descent: the regulariser is stepped over exactly, never linearised."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...data.queries import ClippedGradient
from ...geometry.mirror import PNormMap
from ...geometry.norms import Lp
from ..base import Floats
from ..common.clips import finite
from ..engine import Stepper
from .schedule import Plan

LATE = 4.0  # weights of the average are t + LATE, t from 0: with t + 3 from 1 the bound telescopes


class ProximalStepper(Stepper):
    """Minimises stage after stage, each near the answer of the last one.

    What a row contributes is the clipped gradient of its loss alone. The regularisers are public
    functions of earlier answers: they act after the noise, and no sensitivity knows of them.
    """

    vectors: ClassVar[tuple[str, ...]] = ("weights", "anchor", "average", "answer")

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan, self.map = plan, PNormMap(plan.p)
        self.anchor = plan.task.start if plan.centre is None else np.array(plan.centre)
        self.anchor = plan.problem.domain.project(self.anchor)
        self.weights = self.anchor
        self.average = np.zeros(len(self.weights))
        self.answer = self.anchor

    def query(self) -> ClippedGradient:
        """Ask for the gradients of the loss at the weights."""
        return ClippedGradient(self.plan.problem.loss, self.weights, self.plan.clip)

    def step(self, answer: Floats) -> None:
        """Take the exact step for the noisy mean and the regularisers; end the stage if it is."""
        plan = self.plan
        stage, t = plan.place(self.round)
        strength, centre = self._regulariser(stage)
        length, domain = plan.step_at(self.round), plan.problem.domain
        moved = self.map.step(
            self.weights,
            answer / plan.sizes[stage],
            length,
            domain=domain if plan.p == 2.0 else None,
            extra=strength,
            centre=centre,
        )
        self.weights = finite(moved if plan.p == 2.0 else self._near(moved, strength, centre))
        share = (t + LATE) / _total(plan.rounds[stage])
        self.average = self.average + share * self.weights
        if t + 1 == plan.rounds[stage]:
            self._finish(stage + 1)

    def output(self) -> Floats:
        """Return the answer of the last stage, or of the one that was asked for."""
        return self.answer

    def _regulariser(self, stage: int) -> tuple[float, Floats]:
        """Return strength and centre of both regularisers together: for p = 2 they add up."""
        own, base = self.plan.strengths[stage], self.plan.base
        if base == 0.0:
            return own, self.anchor
        if own == 0.0:
            return base, self.plan.base_centre
        centre = (own * self.anchor + base * self.plan.base_centre) / (own + base)
        return own + base, centre

    def _near(self, weights: Floats, strength: float, centre: Floats) -> Floats:
        """Return weights no farther from the centre than the minimiser can be, in l_p."""
        offset = weights - centre
        farthest, length = 2.0 * self.plan.clip / strength, float(Lp(self.plan.p)(offset))
        return weights if length <= farthest else centre + offset * (farthest / length)

    def _finish(self, done: int) -> None:
        """Start the next stage at the average."""
        self.anchor = self.plan.problem.domain.project(finite(self.average))
        self.weights, self.average = self.anchor, np.zeros(len(self.anchor))
        if done <= (len(self.plan.sizes) if self.plan.answer is None else self.plan.answer):
            self.answer = self.anchor


def _total(rounds: int) -> float:
    """Return the sum of the weights of an average."""
    return rounds * (rounds - 1) / 2.0 + LATE * rounds
