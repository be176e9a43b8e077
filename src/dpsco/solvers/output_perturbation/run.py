"""The plan of output-perturbed SGD and its run: sequential passes over the rows, one release."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from ... import _validate
from ...data.queries import ClippedGradient
from ...data.source import Source
from ...errors import AssumptionError
from ...files.limits import MOST_COUNT
from ...geometry.domains import Domain, L2Ball
from ...losses.base import MarginLoss
from ...privacy.budget import PureDP
from ...privacy.ledger import Ledger
from ...privacy.mechanisms import StableGammaRelease, StableGaussianRelease, WithReplacementRelease
from ...problem import projects_exactly
from ...task import Task
from ..base import BasePlan, Floats, Progress, TraceLine
from ..common.passes import Indices, Pass, require_stable
from ..common.smoothing import smoothed
from . import rates

RECURSION = "Wang, Lei, Ying, Zhang 2022, recursion behind Thm 7"
SHRINKING = "Wu et al. 2017, strongly convex case: hits shrink to 1/(ridge T)"

StableRelease = StableGaussianRelease | StableGammaRelease | WithReplacementRelease


@dataclass(frozen=True, kw_only=True)
class Plan(BasePlan):
    """All that a run needs, from the public task only."""

    sampling: str  # "permutation": rows in one secret order; "with_replacement": drawn afresh
    steps: int  # gradient steps in all
    step: float  # step size, the first one if they decay
    decay: bool  # whether step t is min(step, 1/(ridge t))
    batch: int  # rows of a step
    clip: float  # l2 bound on a row's gradient, enforced
    output: str  # "average" of the iterates before each step, or the "last" iterate
    sigma: float  # standard deviation a coordinate; for PureDP the scale of the noise's length
    project: bool  # whether the noisy weights are projected onto the domain
    smoothing: float = 0.0  # of the Moreau envelope that is descended; 0: the loss itself

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        _validate.integer("batch", self.batch)
        _validate.integer("steps", self.steps, at_most=MOST_COUNT)
        for name in ("step", "clip", "sigma"):
            _validate.positive(name, getattr(self, name))
        _validate.non_negative("smoothing", self.smoothing)
        _validate.choice("sampling", self.sampling, ("permutation", "with_replacement"))
        _validate.choice("output", self.output, ("average", "last"))

    @cached_property
    def surrogate(self) -> Task:
        """The task that the steps descend: the plan's own, or that of the loss's envelope."""
        return surrogate_task(self.task, self.smoothing)

    @property
    def passes(self) -> int:
        """How often the rows are gone through."""
        return -(-self.steps // (self.n // self.batch))

    @cached_property
    def sensitivity(self) -> float:
        """How far neighbours move what is released: from the schedule, never from a file."""
        return rates.sensitivity(
            self.surrogate,
            passes=self.passes,
            step=self.step,
            clip=self.clip,
            batch=self.batch,
            output=self.output,
            decay=self.decay,
        )

    def releases(self) -> tuple[StableRelease, ...]:
        """Return the one release."""
        require_stable(self.solver, self.surrogate)
        rows, adjacency = (0, self.n), self.budget.adjacency
        theorem = SHRINKING if self.decay else RECURSION
        if self.sampling == "with_replacement":
            if self.decay or self.batch != 1 or self.output != "average":
                raise AssumptionError(
                    "rows drawn with replacement are accounted for single rows, constant steps and "
                    f"the average; got decay={self.decay}, batch={self.batch}, output="
                    f"{self.output!r}. Use sampling='permutation'."
                )
            shift, drift = rates.drawn_rows(
                self.surrogate, steps=self.steps, step=self.step, clip=self.clip
            )
            return (
                WithReplacementRelease(
                    shift, drift, self.steps, self.sigma, adjacency.value, theorem, rows=rows
                ),
            )
        kind = StableGammaRelease if isinstance(self.budget, PureDP) else StableGaussianRelease
        return (kind(self.sensitivity, self.sigma, adjacency.value, theorem, rows=rows),)

    def schedule(self) -> Iterator[TraceLine]:
        """Yield the passes; what leaves does so after the last."""
        for k in range(self.passes):
            last = k + 1 == self.passes
            yield TraceLine(k + 1, (0, self.n), self.step_at(k), self.sigma if last else 0.0)

    def step_at(self, k: int) -> float:
        """Return the first step size of pass ``k``."""
        if not self.decay:
            return self.step
        return float(np.minimum(self.step, 1.0 / (self.task.ridge * (k * self.n + 1.0))))

    def step_sizes(self, k: int) -> Floats:
        """Return the step sizes of pass ``k`` that decay: min(step, 1/(ridge t))."""
        t = k * self.n + 1.0 + np.arange(self.n)
        return np.asarray(np.minimum(self.step, 1.0 / (self.task.ridge * t)))

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and the clip."""
        query = ClippedGradient(self.problem.loss, self.task.start, self.clip)
        return (*self.problem.bounds.enforced, *query.enforced)

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss says of itself, and the accuracy of projections by iteration."""
        if projects_exactly(self.problem.domain):
            return self.problem.loss.trusted
        line = f"projections onto {self.problem.domain!r} are right to 1e-9 of its size"
        return (*self.problem.loss.trusted, line)

    @property
    def risk(self) -> float:
        """The bound of the header at this plan's schedule and noise."""
        task = self.surrogate
        sigma = self.sigma * (
            math.sqrt(task.n_weights + 1.0) if isinstance(self.budget, PureDP) else 1.0
        )
        noise = rates.noise_risk(task, self.clip, sigma)
        if self.decay:
            return noise + rates.decay_risk(task, steps=self.steps, clip=self.clip)
        return noise + rates.steps_risk(
            task, steps=self.steps, step=self.step, clip=self.clip, batch=self.batch
        )


def surrogate_task(task: Task, smoothing: float) -> Task:
    """Return the task of the loss's Moreau envelope; the task itself without smoothing."""
    if smoothing == 0.0:
        return task
    problem = dataclasses.replace(task.problem, loss=smoothed(task, smoothing))
    return dataclasses.replace(task, problem=problem)


def run(plan: Plan, source: Source, ledger: Ledger, progress: Progress) -> Floats:
    """Take the passes, and release the average or the last iterate once."""
    (release,) = plan.releases()
    if isinstance(release, WithReplacementRelease):
        draws = ledger.with_replacement(release)
        noisy = draws.release(_trajectory(plan, source, progress, draws.indices))
    else:
        noisy = ledger.stable(_trajectory(plan, source, progress, None), release)
    return plan.problem.domain.project(noisy) if plan.project else np.nan_to_num(noisy)


def _trajectory(
    plan: Plan,
    source: Source,
    progress: Progress,
    drawn: Indices | None,
) -> Floats:
    """Return the average of the iterates before each step, or the last iterate."""
    last = plan.task.start
    total, n = np.zeros(len(last)), plan.n
    loss = cast(MarginLoss, plan.surrogate.problem.loss)
    one_pass = Pass(loss, _domain(plan), plan.clip, ridge=plan.task.ridge, passes=plan.passes)
    for k in range(plan.passes):
        if drawn is not None:
            last, added = one_pass.run(source, last, plan.step, order=drawn[k * n : (k + 1) * n])
        elif plan.batch > 1:
            last, added = _batches(plan, source, one_pass.domain, last)
        else:
            sizes = plan.step_sizes(k) if plan.decay else plan.step
            last, added = one_pass.run(source, last, sizes, stop=n)
        total += added
        progress(k + 1, plan.passes)
    count = plan.steps if drawn is not None else plan.passes * (n // plan.batch)
    return last if plan.output == "last" else total / count


def _batches(plan: Plan, source: Source, domain: Domain, last: Floats) -> tuple[Floats, Floats]:
    """Take a pass of steps on batches; rows beyond the last whole batch stay out."""
    total, size = np.zeros(len(last)), plan.batch
    for begin in range(0, plan.n // size * size, size):
        total += last
        query = ClippedGradient(plan.surrogate.problem.loss, last, plan.clip)
        mean = source.sum(query, begin, begin + size) / size
        last = domain.project(last - plan.step * (mean + plan.task.ridge * last))
    return last, total


def _domain(plan: Plan) -> Domain:
    """Return what the iterates are kept in: the domain, or a ball so wide that it never acts."""
    if math.isfinite(plan.task.max_norm):
        return plan.problem.domain
    radius = rates.ball(plan.surrogate, steps=plan.steps, step=plan.step, clip=plan.clip)
    return L2Ball(min(max(radius, 1e-99), 1e99))
