"""The plan: which norm, which map, how many rounds, how long steps, how much noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from ... import _validate
from ...data.queries import ClippedGradient
from ...errors import AssumptionError, ParameterError
from ...files.limits import MOST_ROUNDS
from ...geometry.norms import Lp, conjugate
from ...privacy.accounting.calibration import calibrate
from ...privacy.budget import GDP
from ...privacy.mechanisms import GaussianRelease, GeneralizedGaussianRelease, gaussian_sigma
from ...task import Task
from ..common.lp_constants import (
    gradient_clip,
    likely_distance,
    lp_constants,
    predicted_clip,
)
from ..common.options import checked_p
from ..engine import EnginePlan
from ..needs import Need
from . import rates
from .maps import MAPS, Mirror, exponent_of, mirror, natural_map, natural_p
from .rates import Scales

KEY = "noisy_regularized_mirror_descent"
SCHEDULES = ("practical", "balanced", "paper")
NOISES = ("gaussian", "generalized")
ROUNDS = (60, 300)  # by default, at most: on large tables, and on small ones
FLOPS = 3e9  # products that the rounds of a table may take in between: a few seconds
WIDE_ENTRIES = 300  # rows of more columns are sparse in practice, and count as so many


@dataclass(frozen=True, kw_only=True)
class Plan(EnginePlan):
    """All that a run needs, from public facts only."""

    rounds: int  # full passes over the rows
    p: float  # weights are measured in l_p
    mirror: str  # "p_norm" or "entropy"
    noise: str  # "gaussian" or "generalized"
    clip: float  # bound on a row's gradient, enforced: in l2, or in l_r for generalized noise
    sigma: float  # of the noise on the sum
    step: float  # the first step, for the mean gradient
    longest: float  # up to which steps may grow; the first one's length: they do not
    pull: float  # weight of the potential in each step
    tail: int  # how many of the last iterates are averaged

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        for name in ("step", "longest"):
            _validate.positive(name, getattr(self, name))
        _validate.non_negative("pull", self.pull)
        _validate.integer("rounds", self.rounds, at_most=MOST_ROUNDS)
        _validate.integer("tail", self.tail, at_most=self.rounds)
        _validate.choice("mirror", self.mirror, MAPS)
        _validate.choice("noise", self.noise, NOISES)
        checked_p(self.p)
        if isinstance(self.task, Task):
            mirror(self.mirror, self.p, self.problem.domain, self.task.n_weights)

    @cached_property
    def steps(self) -> Mirror:
        """The map on the domain."""
        return mirror(self.mirror, self.p, self.problem.domain, self.task.n_weights)

    @property
    def coordinate_noise(self) -> float:
        """The size of the noise of a mean's coordinate: exact if Gaussian, else about that."""
        shape = math.pow(self.task.n_weights, 0.5 - 1.0 / self.norm.p)
        return self.sigma * shape / self.n

    @property
    def norm(self) -> Lp:
        """In which a row's gradient is clipped."""
        generalized = self.noise == "generalized"
        return Lp(smooth_exponent(self.task, self.p)) if generalized else Lp(2.0)

    def releases(self) -> tuple[GaussianRelease | GeneralizedGaussianRelease, ...]:
        """Return the noisy sums over all rows, one per round."""
        rows, count = (0, self.n), self.rounds
        if self.noise == "gaussian":
            return (GaussianRelease(self.clip, self.sigma, rows=rows, count=count),)
        norm = self.norm.p
        return (GeneralizedGaussianRelease(self.clip, self.sigma, norm, rows=rows, count=count),)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and the clip in its norm."""
        query = ClippedGradient(self.problem.loss, self.task.start, self.clip, self.norm)
        return (*self.problem.bounds.enforced, *query.enforced)

    @property
    def risk(self) -> float:
        """The bound of the header at this plan's noise."""
        return risk(self.task)


def plan(
    task: Task,
    *,
    rounds: int | None = None,
    step: float | None = None,
    clip: float | None = None,
    p: float | None = None,
    mirror: str | None = None,
    noise: str = "gaussian",
    schedule: str = "practical",
    distance: float | None = None,
    tail: int | None = None,
) -> Plan:
    """Return a plan; see the module's header for the schedules.

    Args:
        rounds: full passes over the rows.
        step: constant length of a step for the mean gradient. By default steps start at
            1/(2 beta), where nothing can go wrong, and grow while noisy gradients say that they
            lead downhill, up to the length that noise makes worthwhile.
        clip: bound on a row's gradient, in l2 (in l_r for generalized noise).
        p: weights are measured in l_p, from 1 to 2; by default as the domain does, or the dual of
            the norm of the rows.
        mirror: "p_norm" or "entropy"; by default the entropy on l1 balls and simplices.
        noise: "gaussian", or "generalized" for noise shaped like the l_r ball.
        schedule: "practical", "balanced" or "paper".
        distance: a guess of |w - centre|_p for good weights; too large is better than too small.
        tail: how many of the last iterates are averaged.
    """
    _validate.choice("schedule", schedule, SCHEDULES)
    _validate.choice("noise", noise, NOISES)
    p = natural_p(task) if p is None else checked_p(p)
    name = _chosen_map(task, mirror, schedule)
    bound = gradient_clip(task, clip, 2.0 if noise == "gaussian" else smooth_exponent(task, p))
    scales = public_scales(task, p, name, noise, bound, distance)
    fixed = None if rounds is None else _validate.integer("rounds", rounds)
    rounds, first, longest, pull = _lengths(task, scales, schedule, fixed)
    if step is not None:
        first = longest = _validate.positive("step", step)
    return Plan(
        solver=KEY,
        task=task,
        rounds=rounds,
        p=p,
        mirror=name,
        noise=noise,
        clip=bound,
        sigma=noise_for(task, p, noise, bound, rounds),
        step=first,
        longest=longest,
        pull=pull,
        tail=_tail(rounds, schedule, first < longest, tail),
    )


def _chosen_map(task: Task, mirror: str | None, schedule: str) -> str:
    """Return the name of the mirror map; refuse one that the schedule is not for."""
    name = natural_map(task.problem.domain) if mirror is None else mirror
    _validate.choice("mirror", name, MAPS)
    if schedule != "practical" and name != "p_norm":
        raise ParameterError(
            f"schedule={schedule!r} is that of the p-norm: pass mirror='p_norm' as well, or leave "
            "the schedule out.",
            parameter="schedule",
        )
    return name


def _lengths(
    task: Task, scales: Scales, schedule: str, rounds: int | None
) -> tuple[int, float, float, float]:
    """Return rounds, the first step, the longest, and the pull of a schedule."""
    if schedule == "practical":
        if rounds is None:
            rounds = rates.practical(scales, _most(task))
        longest = scales.time / rounds
        return rounds, min(0.5 / scales.beta, longest), longest, 0.0
    formula = rates.balanced(scales) if schedule == "balanced" else rates.published(scales, task)
    step = 1.0 / scales.beta
    return formula[0] if rounds is None else rounds, step, step, formula[1]


def _tail(rounds: int, schedule: str, grows: bool, tail: int | None) -> int:
    """Return how many iterates are averaged: all, but the later half where steps grow."""
    if tail is not None:
        return min(_validate.integer("tail", tail), rounds)
    return max(1, rounds // 2) if schedule == "practical" and grows else rounds


def _most(task: Task) -> int:
    """Return how many rounds a table gets at most."""
    entries = min(task.n_weights, WIDE_ENTRIES)
    return round(min(max(FLOPS / (task.n * entries), ROUNDS[0]), ROUNDS[1]))


# -- clip, noise, scales ---------------------------------------------------------------------------


def smooth_exponent(task: Task, p: float) -> float:
    """Return r: gradients are clipped in l_r where the noise is shaped like its ball."""
    exponent, _ = exponent_of(p, task.problem.domain, task.n_weights)
    return conjugate(exponent)


def noise_for(task: Task, p: float, noise: str, clip: float, rounds: int) -> float:
    """Return the least noise of so many releases."""
    if noise == "gaussian":
        return gaussian_sigma(task.budget, bound=clip, rows=(0, task.n), count=rounds)
    if isinstance(task.budget, GDP):
        raise AssumptionError(
            f"generalized Gaussian noise has no exact Gaussian privacy, and the budget is "
            f"{task.budget}. Pass an ApproxDP or ZCDP budget, or noise='gaussian'."
        )
    norm = smooth_exponent(task, p)

    def releases(sigma: float) -> GeneralizedGaussianRelease:
        return GeneralizedGaussianRelease(clip, sigma, norm, rows=(0, task.n), count=rounds)

    return calibrate(releases, task.budget)


def public_scales(
    task: Task, p: float, name: str, noise: str, clip: float, distance: float | None
) -> Scales:
    """Return what schedules ask for."""
    d, generalized = task.n_weights, noise == "generalized"
    steps = mirror(name, p, task.problem.domain, d)
    beta = lp_constants(task, p).smoothness
    if not 0.0 < beta < math.inf:
        raise AssumptionError(
            f"a smoothness above 0 is needed, and that of {task.problem.loss.name} in l{p:g} is "
            f"{beta:g}.",
            hint="losses.Smoothed(loss, b) is smooth.",
        )
    length = rates.noise_length(p, d, generalized=generalized)
    sigma = noise_for(task, p, noise, clip, 1)
    return Scales(
        n=task.n,
        d=d,
        beta=beta,
        kappa=exponent_of(p, task.problem.domain, d)[1],
        spread=steps.spread(likely_distance(task, p, distance)),
        noise=sigma * length / task.n,
    )


def risk(task: Task) -> float:
    """Return sqrt(P) times what noise and sampling add to the gradient."""
    p = natural_p(task)
    clip = predicted_clip(task)
    scales = public_scales(task, p, natural_map(task.problem.domain), "gaussian", clip, None)
    return math.sqrt(scales.spread) * (scales.noise + clip / math.sqrt(task.n))


def gradients(task: Task) -> float:
    """Return how many gradients of a row a run takes by default."""
    try:
        p = natural_p(task)
        clip = gradient_clip(task, None)
        scales = public_scales(task, p, natural_map(task.problem.domain), "gaussian", clip, None)
        return float(rates.practical(scales, _most(task)) * task.n)
    except (AssumptionError, ArithmeticError):  # nothing will be predicted either
        return float(ROUNDS[0] * task.n)


# -- needs -----------------------------------------------------------------------------------------


def _smooth(task: Task) -> str:
    if not isinstance(task.problem.bounds.norm, Lp):
        return ""  # said already
    smoothness = lp_constants(task, natural_p(task)).smoothness
    if 0.0 < smoothness < math.inf:
        return ""
    return (
        f"it needs a smooth loss, and the slope of {task.problem.loss.name} jumps or grows "
        "without bound (losses.Smoothed(loss, b) is smooth)"
    )


SMOOTH = Need("smooth", _smooth)
