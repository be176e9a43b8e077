"""The moves of the family: towards a vertex, or a linear minimiser, by a share gamma_t of the way.

Weights stay in the domain, as averages of its members. The variance-reduced methods estimate the
gradient by a running mean of differences,

    est_t = (1 - a_t) est_{t-1} + mean over the batch of [grad f(w_t) - (1 - a_t) grad f(w_{t-1})];

where vertices are selected the engine keeps it, for it is exact; with Gaussian noise it is public.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...data.queries import ClippedDifference, ClippedGradient, InUnits, sealed
from ...data.vertices import FadingScores, VertexScores, VertexSet
from ..base import Floats
from ..common.clips import finite
from ..engine import Stepper, no_numbers

if TYPE_CHECKING:
    from .schedule import BatchedPlan, FullPlan, LpPlan, PolyhedralPlan


class FullStepper(Stepper):
    """Full passes: each selects one vertex (Alg 5)."""

    vectors: ClassVar[tuple[str, ...]] = ("weights",)

    def __init__(self, plan: FullPlan) -> None:
        super().__init__()
        self.plan, self.weights = plan, plan.task.start
        self.vertices = VertexSet(plan.problem.domain, len(self.weights))

    def query(self) -> VertexScores:
        """Ask for the scores of the vertices on the gradients."""
        plan = self.plan
        gradient = ClippedGradient(plan.loss, self.weights, plan.clip, plan.norm)
        return VertexScores(gradient, self.vertices)

    def step(self, answer: int) -> None:
        """Move towards the selected vertex; the first step goes all the way."""
        self.weights = towards(self.weights, self.vertices.vertex(answer), self.plan, self.round)

    def output(self) -> Floats:
        """Return the last point: its step is paid for, too."""
        return self.weights


class BatchedStepper(Stepper):
    """What the one-pass methods share: batches, the last two points, and the one to return."""

    vectors: ClassVar[tuple[str, ...]] = ("weights", "previous", "chosen")

    def __init__(self, plan: BatchedPlan) -> None:
        super().__init__()
        self.plan, self.weights = plan, plan.task.start
        self.previous, self.chosen = self.weights, no_numbers(len(self.weights))

    def output(self) -> Floats:
        """Return the last point, or the one before the round that was drawn with the plan."""
        return self.weights if self.plan.chosen == self.round else self.chosen

    def _gradient(self) -> ClippedGradient | ClippedDifference:
        """Return what the rows of the next batch are asked for."""
        plan, t = self.plan, self.round
        loss, clip, keep = plan.problem.loss, self._clip(), plan.keep(t)
        if keep == 0.0:
            return ClippedGradient(loss, self.weights, clip, plan.norm)
        return ClippedDifference(loss, self.weights, self.previous, 1.0, keep, clip, plan.norm)

    def _clip(self) -> float:
        """Return the bound on what a row adds to the next round."""
        return self.plan.clips[self.round]

    def _move(self, target: Floats) -> None:
        """Go to the next point."""
        if self.round == self.plan.chosen:
            self.chosen = self.weights
        self.previous = self.weights
        self.weights = towards(self.weights, target, self.plan, self.round)


class PolyhedralStepper(BatchedStepper):
    """Selects a vertex on the running mean of differences (Alg 1), or on a batch's gradients."""

    plan: PolyhedralPlan

    def __init__(self, plan: PolyhedralPlan) -> None:
        super().__init__(plan)
        self.vertices = VertexSet(plan.problem.domain, len(self.weights))

    def query(self) -> VertexScores | FadingScores:
        """Ask for the scores of the vertices."""
        scores = VertexScores(self._gradient(), self.vertices)
        if not self.plan.variance_reduction:
            return scores
        t = self.round
        return FadingScores(scores, self.plan.keep(t), 1.0 / self.plan.sizes[t])

    def step(self, answer: int) -> None:
        """Move towards the selected vertex."""
        self._move(self.vertices.vertex(answer))


class LpStepper(BatchedStepper):
    """Minimises the noisy running mean of differences over the domain (Alg 6)."""

    vectors: ClassVar[tuple[str, ...]] = ("weights", "previous", "chosen", "estimate", "least_gap")

    plan: LpPlan

    def __init__(self, plan: LpPlan) -> None:
        super().__init__(plan)
        self.estimate, self.least_gap = np.zeros(len(self.weights)), np.array([np.inf])
        self._last_clip = (-1, 0.0)  # a round, and its clip: it follows from the points

    def query(self) -> ClippedGradient | ClippedDifference | InUnits:
        """Ask for the gradients, or their differences, in units of the clip where that follows."""
        gradient = self._gradient()
        return InUnits(gradient) if self.plan.follow_steps else gradient

    def step(self, answer: Floats) -> None:
        """Move towards the linear minimiser; remember where the estimated gap was least."""
        plan, t = self.plan, self.round
        unit = self._clip() if plan.follow_steps else 1.0
        self.estimate *= plan.keep(t)
        self.estimate += (unit / plan.sizes[t]) * answer
        self.estimate = finite(self.estimate)
        target = plan.problem.domain.minimise(self.estimate)
        if plan.output == "select":
            gap = float(self.estimate @ self.weights - self.estimate @ target)
            if gap < self.least_gap[0]:
                self.least_gap, self.chosen = np.array([gap]), self.weights
        self._move(target)

    def _clip(self) -> float:
        """Return the bound on what a row adds, after the move that was made."""
        plan, t = self.plan, self.round
        if not plan.follow_steps or plan.keep(t) == 0.0:
            return plan.clips[t]
        if self._last_clip[0] != t:
            moved = np.flatnonzero(self.weights != self.previous)  # few: targets are vertices
            move = self.weights[moved] - self.previous[moved]
            norms = (facts.norm for facts in plan.geometries)
            lengths = {norm: float(norm(move)) if len(move) else 0.0 for norm in norms}
            own, euclidean = (lengths[facts.norm] for facts in plan.geometries)
            self._last_clip = (t, plan.clip_after(t, (own, euclidean)))
        return self._last_clip[1]

    def output(self) -> Floats:
        """Return the point of least estimated gap, unless another one was asked for."""
        return self.chosen if self.plan.output == "select" else super().output()


def towards(weights: Floats, target: Floats, plan: FullPlan | BatchedPlan, t: int) -> Floats:
    """Return the point a share gamma_t of the way from the weights to a target, overwritten."""
    share = plan.step_at(t)
    moved = (1.0 - share) * weights
    target *= share
    moved += target
    return sealed(moved)
