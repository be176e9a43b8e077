"""Objective perturbation: add a random linear term and a ridge, minimise, add a little noise.

One release and no step sizes. The ridge is small (it only has to bound how a row bends the
objective), the minimiser is certified, and constraints cost no privacy.

Paper      Su, Zhao, Wang 2023 (arXiv:2303.18047), Alg 1, 2, 5 and Thm 1-4, with corrected rules for
           the ridge; Redberg, Koskela, Wang 2023 (arXiv:2401.00583) for the privacy profile.
Guarantee  (epsilon, delta) of the loss c + m^2/2 + m |u|, c = k log(1 + beta/Lam), m = Delta/sigma,
           plus the output noise; see `dpsco.privacy.mechanisms.objective_perturbation`. Exact
           Gaussian mechanism where rows enter linearly (constant Hessian).
Rate       E excess <= reg R^2/2 + sigma^2 d/(reg n^2) + L R/sqrt(n), d replaced by (G_C/R)^2 on
           bounded sets; reg = sigma sqrt(d)/(n R) balances the first two.
Needs      convex; loss of one margin (one with a kink is replaced by its Moreau envelope), softmax,
           or squared distance; ridge at most as penalty; n public.
Symbols    L, beta, Lam, sigma_1, B -> clip, curvature, n (ridge + penalty), sigma, distance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...data.queries import ClippedGradient
from ...data.source import Source
from ...losses.base import MarginLoss
from ...privacy.accounting.calibration import gaussian_sigma
from ...privacy.budget import GDP
from ...privacy.ledger import Ledger
from ...privacy.mechanisms.releases import GaussianRelease, ObjectivePerturbationRelease
from ...task import Task
from .. import needs
from ..base import BasePlan, Floats, Measured, Progress, Round, Solver
from ..common.glm_objective import GlmObjective, Tilted, VectorObjective
from ..common.minimise import TRUSTED, effort, minimise
from ..common.smoothing import smoothed
from . import schedule as schedules

PLAIN, STRONG = "approx_objective_perturbation", "approx_objective_perturbation_sc"


@dataclass(frozen=True, kw_only=True)
class Plan(BasePlan):
    """All that a run needs, from public task only."""

    ridge: float  # added to the mean loss as ridge/2 ||w - centre||^2, beside the penalty
    clip: float  # L: l2 bound on a row's gradient (of the row itself for constant_hessian)
    sigma: float  # standard deviation of the tilt of the sum of losses, per coordinate
    distance: float  # B: certified l2 distance from the exact minimiser; 0 if none is sought
    output_sigma: float  # noise that hides it, per coordinate of the weights
    smoothing: float  # of the Moreau envelope that is minimised; 0: the loss itself

    @property
    def shape(self) -> schedules.Shape:
        """The bounds on a row, from the problem and what a run enforces, not from a file."""
        clip = self.clip if self.task.glm else None
        found = schedules.shape(self.task, clip, self.budget, self.smoothing)
        # Clips are enforced but for softmax, whose bound is its own.
        return found if found.kind == "subspace" else dataclasses.replace(found, bound=self.clip)

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

    def schedule(self) -> Iterator[Round]:
        """Yield the one round."""
        yield Round(1, (0, self.n), 0.0, self.sigma)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, the clip, and the certificate of the minimiser."""
        said = list(self.problem.bounds.enforced)
        if self.structure == "constant_hessian":
            return (*said, f"a row adds a vector of l2 norm at most {self.clip:g}, by clipping")
        if self.structure == "glm":
            said.append(f"a row's gradient has l2 norm at most {self.clip:g}, by clipped slopes")
        return (*said, f"the minimiser is found within {self.distance:.3g}, by a certificate")

    @property
    def milestones(self) -> tuple[tuple[int, ...], ...]:
        """The Newton rounds at whose ends the certificate is looked at."""
        if self.structure == "constant_hessian":
            return ()
        ridge = self.ridge + self.task.ridge
        return (effort(self.task.n_weights, (self.curvature + ridge) / ridge).rounds,)

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss rests on, and the milestones of the minimisation."""
        said = super().trusted
        return said if self.structure == "constant_hessian" else (*said, TRUSTED)

    @property
    def risk(self) -> float:
        """The header's bound with this plan's noise."""
        return schedules.excess(self.task, sigma=self.sigma, bound=self.clip)


def _plan(
    key: str,
    task: Task,
    *,
    ridge: float | str | None = None,
    c_frac: float | None = None,
    clip: float | None = None,
    distance: float | None = None,
    smoothing: float | None = None,
) -> Plan:
    """Return a plan.

    Args:
        key: of the solver.
        ridge: added to the mean loss beside the penalty; by default where bias and noise balance,
            "c_frac" for the least that leaves c = c_frac epsilon to the change of volume.
        c_frac: the largest share of epsilon for the change of volume, in (0, 1); 0.2, and 0.1 for
            ridge="c_frac".
        clip: bound on a row's gradient; by default the loss's own, or where noise matters its
            largest value at the start.
        distance: the certified distance of the minimiser, if other than the default.
        smoothing: of the Moreau envelope that replaces a loss with a kink.
    """
    smooth = schedules.given_smoothing(task, smoothing)
    common: dict[str, Any] = {"solver": key, "task": task}
    if task.calibration == "paper" and clip is None and task.glm:
        clip = task.gradient_bound(None)  # the published constants speak of the loss's own bound
    shape = schedules.shape(task, clip, task.budget, smooth)
    common["smoothing"] = smooth
    common["clip"] = shape.bound
    if shape.kind == "constant_hessian":
        schedules.refuse_paper(task.calibration, task)
        sigma = gaussian_sigma(task.budget, bound=shape.bound, rows=(0, task.n))
        added = schedules.given_ridge(ridge)
        return Plan(**common, ridge=added, sigma=sigma, distance=0.0, output_sigma=0.0)
    make = schedules.paper if task.calibration == "paper" else schedules.tight
    found = make(task, shape, ridge=ridge, c_frac=c_frac, distance=distance, strong=key == STRONG)
    return Plan(
        **common,
        ridge=found.ridge,
        sigma=found.sigma,
        distance=found.distance,
        output_sigma=found.output_sigma,
    )


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


def risk(task: Task) -> float:
    """Return the predicted excess risk: the header's bound with about the calibrated noise."""
    shape = schedules.shape(task, task.start_gradient if task.glm else None, task.budget)
    sigma = schedules.rough_sigma(task.budget, shape)
    return schedules.excess(task, sigma=sigma, bound=shape.bound)


def _gradients(task: Task) -> float:
    linear = schedules.kind(task) == "constant_hessian"
    return float(task.n) * (1.0 if linear else 33.0 + 6.0 * task.n_weights / 10)


def _structured(task: Task) -> str:
    if schedules.kind(task):
        return ""
    return (
        f"it must know where a row's gradients point, and nothing is known of those of "
        f"{task.problem.loss.name}: use a loss of one margin, losses.Softmax or "
        "losses.SquaredDistance"
    )


def _payable(task: Task) -> str:
    if not isinstance(task.budget, GDP) or schedules.kind(task) == "constant_hessian":
        return ""
    return "no bound on its privacy in terms of GDP is known: use ApproxDP, or ZCDP"


def _modulus(task: Task) -> str:
    if task.ridge > 0.0 or schedules.kind(task) == "constant_hessian":
        return ""
    return (
        "strong convexity must be public, not the rows': give penalty=losses.L2Penalty(strength), "
        f"or use solver={PLAIN!r}, which adds its own ridge"
    )


STRUCTURED = needs.Need("known directions of gradients", _structured)
PAYABLE = needs.Need("ApproxDP or ZCDP budget", _payable)
MODULUS = needs.Need("public strong convexity", _modulus)
_NEEDS = (
    STRUCTURED,
    needs.CONVEX,
    needs.SMOOTHABLE,
    needs.EUCLIDEAN,
    needs.RIDGE,
    needs.FIXED_N,
    needs.GAUSSIAN,
    PAYABLE,
)
_COMMON: dict[str, Any] = {
    "paper": "Su, Zhao, Wang 2023",
    "rounds": "1",
    "cost": "33 passes and 6 Hessians",
    "run": run,
    "risk": risk,
    "gradients": _gradients,
    "plan_type": Plan,
    "calibrations": ("tight", "paper"),
    "measured": Measured(0.061, 0.1),
}
SOLVERS = (
    Solver(
        key=PLAIN,
        summary="Minimiser of the objective with a random linear term; best for linear models.",
        reference="Alg 1, 5, Thm 1, 2; Redberg, Koskela, Wang 2023",
        setting="convex losses of one margin (kinks smoothed), softmax, means; any convex domain",
        needs=_NEEDS,
        plan=partial(_plan, PLAIN),
        **_COMMON,
    ),
    Solver(
        key=STRONG,
        summary="Objective perturbation with a public ridge penalty, or of a constant Hessian.",
        reference="Alg 2, Thm 3, 4, corrected",
        setting="the same losses with an L2Penalty; means",
        needs=(*_NEEDS, MODULUS),
        plan=partial(_plan, STRONG),
        **_COMMON,
    ),
)
