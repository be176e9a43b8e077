"""The plan of objective perturbation and its run: one certified minimiser, made noisy."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.queries import ClippedGradient
from ...data.source import Source
from ...losses.base import MarginLoss
from ...privacy.ledger import Ledger
from ...privacy.mechanisms import GaussianRelease, ObjectivePerturbationRelease
from ..base import BasePlan, Floats, Progress, TraceLine
from ..common.glm_objective import GlmObjective, Tilted, VectorObjective
from ..common.minimise import TRUSTED, divisible_rows, effort, minimise
from ..common.smoothing import smoothed
from . import rates


@dataclass(frozen=True, kw_only=True)
class Plan(BasePlan):
    """All that a run needs, from the public task only."""

    ridge: float  # added to the mean loss as ridge/2 ||w - centre||^2, beside the penalty
    clip: float  # L: l2 bound on a row's gradient (of the row itself for constant_hessian)
    sigma: float  # standard deviation of the tilt of the sum of losses, per coordinate
    distance: float  # B: certified l2 distance from the exact minimiser; 0 if none is sought
    output_sigma: float  # noise that hides it, per coordinate of the weights
    smoothing: float  # of the Moreau envelope that is minimised; 0: the loss itself

    @property
    def shape(self) -> rates.Shape:
        """The bounds on a row, from the problem and what a run enforces, not from a file."""
        clip = self.clip if self.task.glm else None
        shape = rates.shape(self.task, clip, self.smoothing)
        # Clips are enforced but for softmax, whose bound is its own.
        return shape if shape.kind == "subspace" else dataclasses.replace(shape, bound=self.clip)

    @property
    def structure(self) -> str:
        """One of "glm", "subspace" and "constant_hessian"."""
        return self.shape.kind

    @property
    def curvature(self) -> float:
        """An l2 bound on a row's Hessian: beta."""
        return self.shape.curvature

    def releases(self) -> tuple[GaussianRelease | ObjectivePerturbationRelease, ...]:
        """Return the one release."""
        if self.structure == "constant_hessian":
            return (GaussianRelease(self.clip, self.sigma, rows=(0, self.n)),)
        total = self.ridge + self.task.ridge
        return (
            self.shape.release(
                n=self.n,
                sigma=self.sigma,
                ridge=total,
                distance=self.distance,
                output_sigma=self.output_sigma,
            ),
        )

    def schedule(self) -> Iterator[TraceLine]:
        """Yield the one round."""
        yield TraceLine(1, (0, self.n), 0.0, self.sigma)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, the clip, and the certificate of the minimiser."""
        lines = list(self.problem.bounds.enforced)
        if self.structure == "constant_hessian":
            return (*lines, f"a row adds a vector of l2 norm at most {self.clip:g}, by clipping")
        if self.structure == "glm":
            lines.append(f"a row's gradient has l2 norm at most {self.clip:g}, by clipped slopes")
        return (*lines, f"the minimiser is found within {self.distance:.3g}, by a certificate")

    @property
    def milestones(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of Hessians after which the certificate is looked at."""
        if self.structure == "constant_hessian":
            return ()
        ridge = self.ridge + self.task.ridge
        rows = divisible_rows(self.problem.domain, self.n) if self.structure == "glm" else 0
        return (effort(self.task.n_weights, (self.curvature + ridge) / ridge, rows).hessians,)

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss rests on, and the milestones of the minimisation."""
        lines = super().trusted
        return lines if self.structure == "constant_hessian" else (*lines, TRUSTED)

    @property
    def risk(self) -> float:
        """The header's bound with this plan's noise."""
        return rates.excess(self.task, sigma=self.sigma, bound=self.clip)


def run(plan: Plan, source: Source, ledger: Ledger, progress: Progress) -> Floats:
    """Minimise the tilted objective, or answer from the noisy sum of the rows."""
    task, domain = plan.task, plan.problem.domain
    if plan.structure == "constant_hessian":
        weights = _from_sum(plan, source, ledger)
    else:
        (release,) = plan.releases()
        assert isinstance(release, ObjectivePerturbationRelease)

        def certified(tilt: Floats) -> Floats:
            objective = _objective(plan, source, tilt / plan.n)
            return minimise(
                objective,
                domain=domain,
                start=task.start,
                distance=plan.distance,
                spread=task.initial_distance,
            )

        weights = ledger.perturbed_minimiser(certified, task.n_weights, release)
    progress(1, 1)
    return domain.project(weights)


def _from_sum(plan: Plan, source: Source, ledger: Ledger) -> Floats:
    """Return the minimiser of 1/2 ||w - mean||^2 and the ridge, before projection onto the domain.

    The gradient at weights 0 is minus the row. All terms are round, so projecting is minimising.
    """
    task = plan.task
    query = ClippedGradient(plan.problem.loss, np.zeros(task.n_weights), plan.clip)
    exact = source.sum(query)
    total = ledger.gaussian(exact, bound=query.bound, sigma=plan.sigma, rows=(0, plan.n))
    pulled = plan.ridge * task.start - total / plan.n
    return np.asarray(pulled / (1.0 + plan.ridge + task.ridge))


def _objective(plan: Plan, source: Source, linear: Floats) -> Tilted:
    """Return the mean loss with tilt and ridge; the penalty's ridge is about the origin."""
    task, loss = plan.task, smoothed(plan.task, plan.smoothing)
    total = plan.ridge + task.ridge
    terms: dict[str, Any] = {
        "clip": plan.clip,
        "curvature": plan.curvature,
        "linear": linear,
        "ridge": total,
        "centre": task.start * (plan.ridge / total),
    }
    if isinstance(loss, MarginLoss):
        return GlmObjective(source, loss, **terms, steepness=plan.shape.steepness)
    return VectorObjective(source, loss, **terms, classes=plan.shape.scores)
