"""Phased empirical risk minimisation: each phase minimises exactly, near the last noisy answer.

Paper      Feldman, Koren, Talwar 2020 (arXiv:2005.04763), phased ERM; Wang, Lei, Ying, Zhang 2022
           (arXiv:2101.08925), Table 1.
Guarantee  A row moves the minimiser of its phase by at most 2 G/(lam_i n_i) = G eta_i, and what
           is computed lies within slack G eta_i of it, certified by the gradient's length; no
           other phase sees the row: mu-GDP with mu = max_i (1 + 2 slack) G eta_i / sigma_i
           (zero-out: 1/2 for 1). Convexity is relied upon. A nonsmooth loss is replaced by its
           Moreau envelope, which is convex and no steeper.
Rate       E[F(w) - F*] <= 8 R^2/(eta n) + eta G^2 (8 d s^2/(n mu^2) + 2/3), s = 1 + 2 slack: at the
           best eta 2 R G sqrt(64 d s^2/(n mu)^2 + 16/(3 n)). An envelope adds 1/1000 at most.
Needs      convex loss of one margin, nonsmooth or smooth, rows bounded in l2, n public.
Symbols    eta 4^-i, n_i, lam_i, c, R, G -> steps[i], sizes[i], 2/(steps[i] sizes[i]), slack,
           distance, clip.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from .. import _validate
from ..data.source import MemorySource, Source
from ..errors import ParameterError
from ..geometry.domains import Box, Domain, WholeSpace
from ..losses.base import MarginLoss
from ..privacy.accounting.calibration import calibrate
from ..privacy.accounting.stability import regularised_minimiser
from ..privacy.budget import Budget
from ..privacy.ledger import Ledger
from ..privacy.mechanisms import StableGaussianRelease
from ..problem import is_ball
from ..task import Task
from . import needs
from .base import BasePlan, Floats, Measured, Progress, Solver, TraceLine
from .common.glm_objective import GlmObjective, gradient_rounding, steepness
from .common.minimise import TRUSTED, certified_error, divisible_rows, effort, minimise
from .common.passes import check_phases, published_noise, smoothness_beyond
from .common.smoothing import CutEnvelope, cut_envelope

SLACK = 0.1  # c: more costs noise, less costs passes
ENVELOPE_SHARE = 1e-3  # of the predicted risk: what an envelope may lie below a nonsmooth loss
_THEOREM = "Feldman, Koren, Talwar 2020: minimiser of a strongly convex mean, within a distance"
_UP = 1 + 1e-12


@dataclass(frozen=True, kw_only=True)
class Plan(BasePlan):
    """All that a run needs, from the public task only. Phases in their order."""

    step: float  # eta; phase i = 1, 2, ... has eta / 4^i
    clip: float  # l2 bound on a row's gradient, enforced
    slack: float  # certified distance to the minimiser of phase i, in units of clip eta / 4^i
    cap: float  # l2 bound on the released weights, enforced
    smoothing: float  # of the Moreau envelope that is minimised; 0: the loss itself
    sizes: tuple[int, ...]  # rows of each phase
    distances: tuple[float, ...]  # l2, certified
    sigmas: tuple[float, ...]  # noise on the weights, per coordinate

    def __post_init__(self) -> None:
        """Refuse phases that the table has no rows for: a file may hold any."""
        check_phases(self.sizes, self.n)
        _validate.non_negative("smoothing", self.smoothing)
        if not math.isfinite(_curvature(self.task, self.smoothing)):
            raise ParameterError(
                f"smoothing must be positive for {self.problem.loss.name}, which is not smooth: "
                f"its minimiser is not certified without. Got {self.smoothing!r}.",
                parameter="smoothing",
            )

    @property
    def rows(self) -> tuple[tuple[int, int], ...]:
        """The rows of each phase, one after the other."""
        stops = np.cumsum(self.sizes).tolist()
        return tuple((stop - size, stop) for size, stop in zip(self.sizes, stops, strict=True))

    @property
    def steps(self) -> tuple[float, ...]:
        """eta_i, the step of each phase."""
        return tuple(self.step / 4.0 ** (i + 1) for i in range(len(self.sizes)))

    @property
    def certified(self) -> tuple[float, ...]:
        """How near each minimiser is found: the distances, never less than float64 vouches for."""
        return tuple(
            max(distance, _least(self.task, self.clip, ridge, self.cap, self.smoothing))
            for distance, ridge in zip(self.distances, self._ridges, strict=True)
        )

    @property
    def sensitivities(self) -> tuple[float, ...]:
        """How far neighbours move each minimiser in l2, computed from what the run enforces."""
        return tuple(
            regularised_minimiser(
                gradient=self.clip,
                ridge=ridge,
                count=size,
                distance=near,
                adjacency=self.budget.adjacency,
            )
            for ridge, size, near in zip(self._ridges, self.sizes, self.certified, strict=True)
        )

    @property
    def _ridges(self) -> tuple[float, ...]:
        """lam_i and the penalty, of the mean loss of each phase."""
        pairs = zip(self.steps, self.sizes, strict=True)
        return tuple(2 / (step * size) + self.task.ridge for step, size in pairs)

    def releases(self) -> tuple[StableGaussianRelease, ...]:
        """Return the noisy minimisers, one per phase."""
        adjacency = self.budget.adjacency.value
        return tuple(
            StableGaussianRelease(moved, sigma, adjacency, _THEOREM, rows=rows)
            for moved, sigma, rows in zip(self.sensitivities, self.sigmas, self.rows, strict=True)
        )

    def schedule(self) -> Iterator[TraceLine]:
        """Yield the phases; their step is eta_i."""
        for i, rows in enumerate(self.rows):
            yield TraceLine(i + 1, rows, self.steps[i], self.sigmas[i])

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, the clip and the certificate."""
        return (
            *self.problem.bounds.enforced,
            f"a row's gradient has l2 norm at most {self.clip:g}, by clipping its slope",
            "every minimiser is certified before noise is added to it",
        )

    @property
    def milestones(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of Hessians of each phase after which the certificate is looked at."""
        curvature, weights = _curvature(self.task, self.smoothing), self.task.n_weights
        domain = _inner(self.problem.domain)
        return tuple(
            effort(weights, (curvature + ridge) / ridge, divisible_rows(domain, rows)).hessians
            for ridge, rows in zip(self._ridges, self.sizes, strict=True)
        )

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss rests on, and the milestones; a row is in one phase, so they count once."""
        return (*super().trusted, TRUSTED)

    @property
    def risk(self) -> float:
        """The bound of the header."""
        return risk(self.task)


def plan(
    task: Task,
    *,
    step: float | None = None,
    clip: float | None = None,
    slack: float | None = None,
) -> Plan:
    """Return a plan; ``step`` is eta, ``slack`` the tolerance c of the minimisers."""
    bound = task.gradient_bound(clip)
    paper = task.calibration == "paper"
    if slack is None:  # the paper's objective error G^2 eta_i/n_i is a distance of G eta_i
        slack = 1.0 if paper else SLACK
    slack, mu = _validate.positive("slack", slack), task.budget.mu_per_row()
    # sigma_i / (G eta_i)
    noise = published_noise("phased_erm", task.budget) if paper else _share(task.budget, slack) / mu
    if step is None:
        variance = 8 * task.n_weights * noise**2 + 2 * task.n / 3
        step = task.initial_distance / bound * math.sqrt(8 / variance)
    step = _validate.positive("step", step)
    sizes = tuple(task.n >> i for i in range(1, task.n.bit_length()))
    draft = Plan(
        solver="phased_erm",
        task=task,
        step=step,
        clip=bound,
        slack=slack,
        cap=_cap(task, bound * step, sizes, noise),
        smoothing=_smoothing(task, bound, noise),
        sizes=sizes,
        distances=tuple(slack * bound * (step / 4.0 ** (i + 1)) for i in range(len(sizes))),
        sigmas=(),
    )
    if paper:
        sigmas = tuple(noise * bound * length for length in draft.steps)
    else:
        unit = _unit_noise(task.budget, task.n)
        sigmas = tuple(moved * unit for moved in draft.sensitivities)
    return replace(draft, distances=draft.certified, sigmas=sigmas)


def run(plan: Plan, source: Source, ledger: Ledger, progress: Progress) -> Floats:
    """Minimise phase by phase, each near the noisy answer of the one before."""
    problem, ridge, certified = plan.problem, plan.task.ridge, plan.certified
    weights, phases = plan.task.start, len(plan.sizes)
    for i, release in enumerate(plan.releases()):
        pull = 2 / (plan.steps[i] * plan.sizes[i])
        # pull/2 |w - weights|^2 + ridge/2 |w|^2, as one square
        centre = pull / (pull + ridge) * weights
        exact = _minimiser(plan, source, release.rows, centre, pull + ridge, certified[i])
        noisy = ledger.stable(exact, release)
        weights = _within(problem.domain.project(noisy), plan.cap)
        progress(i + 1, phases)
    return weights


def _minimiser(
    plan: Plan, source: Source, rows: tuple[int, int], centre: Floats, ridge: float, near: float
) -> Floats:
    """Return the certified minimiser of a phase."""
    task = plan.task
    mean = GlmObjective(
        MemorySource(source.rows(*rows), source.bounds),
        _smoothed(task, plan.smoothing),
        clip=plan.clip,
        curvature=_curvature(task, plan.smoothing),
        linear=np.zeros(len(centre)),
        ridge=ridge,
        centre=centre,
        steepness=_steepness(task, plan.smoothing),
    )
    return minimise(
        mean,
        domain=_inner(plan.problem.domain),
        start=centre,
        distance=near,
        spread=min(task.initial_distance, plan.clip / ridge),
    )


def risk(task: Task) -> float:
    """Return the predicted excess risk: the header's bound at the best eta."""
    noise = _share(task.budget, SLACK) / task.budget.mu_per_row()
    variance = 64 * task.n_weights * (noise / task.n) ** 2 + 16 / (3 * task.n)
    return 2 * task.initial_distance * task.gradient_bound(None) * math.sqrt(variance)


def _gradients(task: Task) -> float:
    return float(task.n) * (33.0 + 6.0 * task.n_weights / 10)  # the first milestone of every phase


def _unit_noise(budget: Budget, n: int) -> float:
    """Return the noise on weights that neighbours move by 1."""
    adjacency = budget.adjacency.value
    return _UP * calibrate(
        lambda s: StableGaussianRelease(1.0, s, adjacency, _THEOREM, rows=(0, n)), budget
    )


def _share(budget: Budget, slack: float) -> float:
    """Return s: the sensitivity of phase i in units of G eta_i, before the ridge and the floor."""
    return regularised_minimiser(
        gradient=1.0, ridge=2.0, count=1, distance=slack, adjacency=budget.adjacency
    )


def _cap(task: Task, scale: float, sizes: tuple[int, ...], noise: float) -> float:
    """Return a bound on the weights' norm: the domain's, else more than they ever reach.

    Without a domain phase i moves them by G eta_i n_i/2 at most, and then by its noise. ``scale``
    is G eta.
    """
    if math.isfinite(task.max_norm):
        return task.max_norm
    far = float(np.linalg.norm(task.start)) + task.initial_distance
    for i, size in enumerate(sizes):
        far += scale / 4.0 ** (i + 1) * (size / 2 + 10 * noise * math.sqrt(task.n_weights))
    return 2 * far


def _least(task: Task, clip: float, ridge: float, cap: float, smooth: float) -> float:
    """Return the least distance that can be certified in a phase.

    The cap counts only where it acts: within a domain weights may be as long as that allows.
    """
    inner, curvature = _inner(task.problem.domain), _curvature(task, smooth)
    max_norm = task.max_norm if math.isfinite(task.max_norm) else cap
    max_norm += clip / ridge if isinstance(inner, WholeSpace) else 0.0
    rounding = gradient_rounding(
        rows=task.n,
        columns=task.columns,
        clip=clip,
        curvature=curvature,
        tilt=0.0,
        ridge=ridge,
        max_norm=max_norm,
        dense=False,
        steepness=_steepness(task, smooth),
    )
    return 4 * certified_error(
        rounding,
        domain=inner,
        size=task.n_weights,
        strong_convexity=ridge,
        smoothness=curvature + ridge,
    )


def _smoothing(task: Task, bound: float, noise: float) -> float:
    """Return the smoothing at which an envelope costs a share of the risk; 0 for a smooth loss.

    It lies at most L0^2/(2 b) below the loss, L0 = G/X, and the risk is at least that of the header
    with noise ``noise`` = s/mu.
    """
    if math.isfinite(_curvature(task, 0.0)):
        return 0.0
    spread = 64 * task.n_weights * (noise / task.n) ** 2 + 16 / (3 * task.n)
    risk = 2 * task.initial_distance * bound * math.sqrt(spread)
    return (bound / task.feature_bound) ** 2 / (2 * ENVELOPE_SHARE * risk)


def _smoothed(task: Task, smooth: float) -> MarginLoss | CutEnvelope:
    """Return what the phases minimise: the loss, or its envelope."""
    loss = cast(MarginLoss, task.problem.loss)
    return cut_envelope(task, smooth) if smooth > 0.0 else loss


def _curvature(task: Task, smooth: float) -> float:
    """Return the smoothness where the phases' minimisers may lie; infinite if there is none."""
    if smooth > 0.0:
        return smooth * task.feature_bound**2 * _UP
    if not isinstance(_inner(task.problem.domain), WholeSpace):
        # Infinite as soon as a rounded margin may meet a jump of the slope.
        return smoothness_beyond(task, task.problem.loss)
    return task.problem.loss.constants(
        feature=task.feature_bound, label=task.label_bound
    ).smoothness


def _steepness(task: Task, smooth: float) -> float:
    """Return what the error of a computed slope is relative to, times a row's norm."""
    return steepness(_smoothed(task, smooth), feature=task.feature_bound, label=task.label_bound)


def _inner(domain: Domain) -> Domain:
    """Return the domain of the phases' minimisers: one whose projection is exact, or none."""
    return domain if is_ball(domain) or isinstance(domain, Box) else WholeSpace()


def _within(weights: Floats, cap: float) -> Floats:
    """Return the weights, shortened to the cap, which only a freak of the noise exceeds."""
    length = float(np.linalg.norm(weights))
    return weights if length <= cap else weights * (cap / length)


SOLVERS = (
    Solver(
        key="phased_erm",
        summary="Certified minimisers of halving phases, each near the last noisy one; one release "
        "per phase.",
        paper="Feldman, Koren, Talwar 2020",
        reference="phased ERM; Wang, Lei, Ying, Zhang 2022, Table 1",
        setting="any convex loss of one margin, nonsmooth or smooth; any domain",
        needs=(
            needs.GLM,
            needs.CONVEX,
            needs.EUCLIDEAN,
            needs.RIDGE,
            needs.FIXED_N,
            needs.GAUSSIAN,
            needs.at_least(2),
        ),
        rounds="floor(log2 n)",
        cost="33 passes and 6 Hessians",
        plan=plan,
        run=run,
        risk=risk,
        gradients=_gradients,
        plan_type=Plan,
        calibrations=("tight", "paper"),
        measured=Measured(0.039, 0.039),
    ),
)
