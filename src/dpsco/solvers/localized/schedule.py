"""The plan of every solver of the family, and the decoupled schedule.

Lengths of gradients are in units of the clip where it is found: noise, strengths, inverse steps.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...files.limits import MOST_ROUNDS
from ...privacy.mechanisms import GaussianRelease, PoissonGaussianRelease
from ...privacy.release import Release
from ...task import Task
from ..common.mean_oracle import L2Clip, MeanOracle, chosen_oracle
from ..common.moment_clips import (
    ClipChoice,
    ClipPlan,
    Moments,
    chosen_clip,
    known_convexity,
    known_moments,
    noise_of,
    noise_warning,
    unit_noise,
)
from ..engine import Rows
from ..sampled_sgd.noise import POISSON, Samples, noise_multiplier
from ..sampled_sgd.schedule import pair_of
from . import published, rates
from .rates import Size

REGULARIZED, LOCALIZED = "clipped_reg_subgradient", "localized_clipped_subgradient"
MINIBATCH, STAGED = "localized_clipped_minibatch", "strongly_convex_localized"
AVERAGING = ("falling", "uniform", "last")
MINIBATCH_ROUNDS = 1000
TRUST_REGION = 2.0  # times D0: how far a phase goes where the domain has no bound


class Phase(NamedTuple):
    """One phase: rows that no other phase reads, and rounds on them."""

    first: int  # its first round, searches not counted
    rounds: int
    rows: Rows
    batch: float  # rows of a round, expected ones of a sample: what sums are divided by
    clip: float  # threshold, in units of the plan's clip
    sigma: float  # noise on a sum
    step: float  # level step; 0 if steps fall
    radius: float  # how far from its centre it may go
    pull: float  # strength of the regularizer, times the distance of its stage
    stage: int


@dataclass(frozen=True, kw_only=True)
class Plan(ClipPlan):
    """All that a run needs, from public facts only. Tuples have one entry for each phase."""

    sizes: tuple[int, ...]  # rows of each phase
    rounds: tuple[int, ...]  # noisy steps on them
    batches: tuple[float, ...]  # rows of a step, expected ones of a sample
    clips: tuple[float, ...]  # thresholds, in units of the first clip
    sigmas: tuple[float, ...]  # noise on sums
    pulls: tuple[float, ...]  # strength of the regularizer times the distance of the stage
    steps: tuple[float, ...]  # level steps; 0 where they fall
    radii: tuple[float, ...]  # how far from its start a phase may go
    stages: tuple[int, ...]  # which stage a phase belongs to, in order
    shrinkage: tuple[float, ...] = ()  # after each stage but the last: squared distance over itself
    averaging: str = "falling"
    pair: str = "proved"  # which bound pays for replace-one neighbours of a sample

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        super().__post_init__()
        _validate.choice("averaging", self.averaging, AVERAGING)
        columns = (self.rounds, self.batches, self.clips, self.sigmas, self.pulls, self.steps)
        if any(len(each) != len(self.sizes) for each in (*columns, self.radii, self.stages)):
            raise ParameterError("a localized plan has one number of each kind for every phase.")
        start, stop = self.training_rows
        if not self.sizes or min(self.sizes) < 1 or sum(self.sizes) > stop - start:
            raise ParameterError(
                f"phases of {sum(self.sizes):,} rows do not fit into {stop - start:,}."
            )
        if min(self.rounds) < 1 or sum(self.rounds) > MOST_ROUNDS:
            raise ParameterError(f"a plan has between 1 and {MOST_ROUNDS:,} rounds.")
        for size, batch, stage in zip(self.sizes, self.batches, self.stages, strict=True):
            if not 0.0 < batch <= size or not 0 <= stage <= len(self.shrinkage):
                raise ParameterError("a phase has samples of its own rows, and a stage.")

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The phases, in order."""
        starts = list(accumulate(self.sizes, initial=self.training_rows[0]))
        rows = pairwise(starts)
        firsts = list(accumulate(self.rounds, initial=0))[:-1]
        return tuple(
            map(
                Phase, firsts, self.rounds, rows, self.batches, self.clips, self.sigmas,
                self.steps, self.radii, self.pulls, self.stages,
            )
        )  # fmt: skip

    def phase_at(self, turn: int) -> Phase:
        """Return the phase of a round, searches not counted."""
        place = bisect_right(self._firsts, turn) - 1
        return self.phases[min(max(place, 0), len(self.phases) - 1)]

    @cached_property
    def _firsts(self) -> list[int]:
        return [phase.first for phase in self.phases]

    def distances(self, scale: float = 1.0) -> tuple[float, ...]:
        """Return how far each stage looks: D_j = min(D_{j-1}, sqrt(shrinkage D_{j-1}))."""
        result = [self.task.initial_distance]
        for shrinkage in self.shrinkage:
            result.append(min(result[-1], math.sqrt(scale * shrinkage * result[-1])))
        return tuple(result)

    def strength(self, phase: Phase, scale: float = 1.0) -> float:
        """Return lambda of a phase, where one unit of gradients is ``scale``."""
        return scale * phase.pull / self.distances(scale)[phase.stage]

    def releases(self) -> tuple[Release, ...]:
        """Return the search for a clip, if there is one, and the noisy sums of each phase."""
        return (*self.first(), *map(self._release, self.phases))

    def _release(self, phase: Phase) -> Release:
        bound = self.choice.bound(self.oracle, self.task.n_weights, phase.clip)
        start, stop = phase.rows
        if phase.batch == stop - start:
            return GaussianRelease(bound, phase.sigma, rows=phase.rows, count=phase.rounds)
        rate = phase.batch / (stop - start)
        return PoissonGaussianRelease(
            bound, phase.sigma, rate, self.pair, rows=phase.rows, count=phase.rounds
        )

    def step_at(self, t: int) -> float:
        """Return the step of a round, for the trace; for a clip of 1 where that is found."""
        turn = t - len(self.first())
        if turn < 0:
            return 0.0
        phase = self.phase_at(turn)
        if self.averaging != "falling":
            return phase.step
        return 2.0 / (self.strength(phase) * (turn - phase.first + 1.0))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Whether noise rules: that of one release of the first phase's size, on its rows."""
        rows, unit = self.sizes[0], unit_noise(self.task)
        ratio = unit * math.sqrt(self.task.n_weights) / rows
        if not isinstance(self.oracle, L2Clip):
            ratio *= self.oracle.bound(1.0, self.task.n_weights)
        return (*noise_warning(ratio, rows), *self.tracking_warnings(sum(self.rounds)))

    @property
    def risk(self) -> float:
        """The theorem's rate without constants; NaN where the clip is found."""
        if self.finds_clip:
            return math.nan
        return rates.excess(
            public_size(self.task), self.task.initial_distance, self.moment, self.order
        )


def public_size(task: Task, rows: int | None = None) -> Size:
    """Return the numbers that phases are made of."""
    n = task.n if rows is None else rows
    return Size(n, task.n_weights, unit_noise(task), task.budget.mu_per_row())


# -- the decoupled schedule ------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """What is decided of the phases before noise: see `Plan`."""

    sizes: tuple[int, ...]
    rounds: tuple[int, ...]
    stages: tuple[int, ...]
    shrinkage: tuple[float, ...] = ()


def localized_layout(task: Task, rows: int, cap: int) -> Layout:
    """Return phases of n/2, n/4, ... rows."""
    sizes = rates.phase_sizes(public_size(task, rows))
    rounds = tuple(rates.phase_rounds(size, cap) for size in sizes)
    return Layout(sizes, rounds, (0,) * len(sizes))


def staged_layout(task: Task, rows: int, cap: int, moment: float, order: float) -> Layout:
    """Return the phases of stages, each of which looks less far than the last one."""
    strong, scales = known_convexity(task), public_size(task, rows)
    stages = rates.merged(rates.stage_sizes(rows), scales.fewest)
    parts = [localized_layout(task, size, cap) for size in stages]
    shrinkage = [
        2.0 * moment * rates.stage_rate(scales, size, order) / strong for size in stages[:-1]
    ]
    return Layout(
        tuple(size for part in parts for size in part.sizes),
        tuple(rounds for part in parts for rounds in part.rounds),
        tuple(j for j, part in enumerate(parts) for _ in part.sizes),
        tuple(shrinkage),
    )


def decoupled(
    solver: str,
    task: Task,
    choice: ClipChoice,
    moments: Moments,
    oracle: MeanOracle,
    layout: Layout,
    *,
    clip_by_moment: bool = False,
    pull: float | None = None,
    samples: bool = False,
) -> Plan:
    """Return a plan of falling steps, whose strengths grow from phase to phase of a stage.

    Args:
        solver: its key.
        task: the public side of the fit.
        choice: of the clip.
        moments: what is known of gradients.
        oracle: how a row's gradient is bounded.
        layout: of the phases.
        clip_by_moment: whether each phase has the clip that its own rows call for.
        pull: strength of the first phase of each stage, times the distance; by default a rule.
        samples: whether a round reads a secret sample of the phase's rows.
    """
    count = len(layout.sizes)
    clips = (choice.unit,) * count  # the limits themselves
    if clip_by_moment:
        clips = tuple(
            chosen_clip(task, "moment", moments, rows=size, oracle=oracle).unit
            for size in layout.sizes
        )
        choice = dataclasses.replace(choice, clip=clips[0])
    shares = tuple(clip / clips[0] for clip in clips)
    batches = tuple(float(rates.sample_size(m) if samples else m) for m in layout.sizes)
    far = TRUST_REGION * task.initial_distance
    radius = math.inf if math.isfinite(task.radius) else far
    pair = pair_of(task.calibration) if samples else "proved"
    return Plan(
        solver=solver,
        task=task,
        clip=choice.clip,
        search=choice.search,
        weight=choice.weight,
        level=choice.level,
        oracle=oracle,
        moment=choice.length,
        order=moments.order,
        sizes=layout.sizes,
        rounds=layout.rounds,
        batches=batches,
        clips=shares,
        sigmas=_noise(task, choice, oracle, layout, shares, batches, pair),
        pulls=_pulls(task, choice, layout, clips, pull),
        steps=(0.0,) * count,
        radii=(radius,) * count,
        stages=layout.stages,
        shrinkage=layout.shrinkage,
        pair=pair,
    )


def _pulls(
    task: Task,
    choice: ClipChoice,
    layout: Layout,
    clips: Sequence[float],
    first: float | None,
) -> tuple[float, ...]:
    """Return lambda D of each phase: 8 times that of the phase before, anew in every stage."""
    pulls: list[float] = []
    for i, stage in enumerate(layout.stages):
        if i and layout.stages[i - 1] == stage:
            pulls.append(rates.GROWTH * pulls[-1])
            continue
        scales, rows = public_size(task), layout.sizes[i]
        rule = rates.first_strength(scales, rows, layout.rounds[i], clips[i], choice.length)
        pulls.append(rule if first is None else first)
    return tuple(pulls)


def _noise(
    task: Task,
    choice: ClipChoice,
    oracle: MeanOracle,
    layout: Layout,
    shares: Sequence[float],
    batches: Sequence[float],
    pair: str,
) -> tuple[float, ...]:
    """Return the noise of each phase, which spends the whole budget on its own rows."""
    bounds = [choice.bound(oracle, task.n_weights, share) for share in shares]
    starts = list(accumulate(layout.sizes, initial=choice.rows[0]))
    rows = list(pairwise(starts))
    full = noise_of(task, choice.search, list(zip(bounds, rows, layout.rounds, strict=True)))
    return tuple(
        sigma
        if batch == size
        else bound * _sampled(task, Samples(POISSON, batch, size, rounds, pair))
        for sigma, batch, size, bound, rounds in zip(
            full, batches, layout.sizes, bounds, layout.rounds, strict=True
        )
    )


def _sampled(task: Task, samples: Samples) -> float:
    """Return noise of sums over samples, with room for the rounding of a product."""
    return noise_multiplier(task.budget, samples) * (1.0 + 2.0**-40)


# -- the solvers -----------------------------------------------------------------------------------


def plan_localized(
    task: Task,
    *,
    schedule: str = "decoupled",
    rounds: int | None = None,
    clip: float | str | None = None,
    moment: float | None = None,
    order: float = 2.0,
    coordinate_moment: float | None = None,
    power: float = 1.0,
    oracle: str | MeanOracle = "l2_clip",
) -> Plan:
    """Return a plan of `localized_clipped_subgradient`.

    Args:
        schedule: "decoupled"; "paper" for Algorithm 3 with its mistakes corrected; "theorem_20"
            for the same with 4 r_2k in the place of the moment of the supremum.
        rounds: of a phase, at most.
        clip: the threshold; "moment" for the best one by the moments, "auto" to find it.
        moment, order: r and k with (E ||gradient||^k)^(1/k) <= r; "paper" takes r of order 2k.
        coordinate_moment: gamma^(1/k), the same of each coordinate, in the place of ``moment``.
        power: p of the paper's schedule, at least 1.
        oracle: "l2_clip", "coordinate_clip", or a `MeanOracle`.
    """
    _validate.choice("schedule", schedule, published.SCHEDULES)
    rule = chosen_oracle(oracle)
    if schedule != "decoupled":
        _refuse_settings(schedule, rounds=rounds, clip=clip)
        moments = known_moments(task, moment, order, coordinate_moment, needed=True)
        return _paper_plan(task, schedule, moments, power, rule)
    moments = known_moments(task, moment, order, coordinate_moment)
    choice, rows, by_moment = _first_clip(task, clip, moments, rule)
    cap = _cap(rounds, rates.most_rounds(rows, task.n_weights))
    layout = localized_layout(task, rows, cap)
    return decoupled(LOCALIZED, task, choice, moments, rule, layout, clip_by_moment=by_moment)


def plan_minibatch(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | str | None = None,
    moment: float | None = None,
    order: float = 2.0,
    coordinate_moment: float | None = None,
    oracle: str | MeanOracle = "l2_clip",
) -> Plan:
    """Return a plan of `localized_clipped_minibatch`; arguments as in `plan_localized`."""
    rule = chosen_oracle(oracle)
    moments = known_moments(task, moment, order, coordinate_moment)
    choice, rows, by_moment = _first_clip(task, clip, moments, rule, way="slice")
    layout = localized_layout(task, rows, _cap(rounds, MINIBATCH_ROUNDS))
    return decoupled(
        MINIBATCH, task, choice, moments, rule, layout, clip_by_moment=by_moment, samples=True
    )


def plan_staged(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | str | None = None,
    moment: float | None = None,
    order: float = 2.0,
    coordinate_moment: float | None = None,
    oracle: str | MeanOracle = "l2_clip",
) -> Plan:
    """Return a plan of `strongly_convex_localized`; arguments as in `plan_localized`."""
    rule = chosen_oracle(oracle)
    moments = known_moments(task, moment, order, coordinate_moment)
    choice, rows, by_moment = _first_clip(task, clip, moments, rule)
    cap = _cap(rounds, rates.most_rounds(rows, task.n_weights))
    layout = staged_layout(task, rows, cap, choice.length, moments.order)
    return decoupled(STAGED, task, choice, moments, rule, layout, clip_by_moment=by_moment)


def plan_regularized(
    task: Task,
    *,
    schedule: str = "practical",
    rounds: int | None = None,
    clip: float | str | None = None,
    regularization: float | None = None,
    step: float | None = None,
    moment: float | None = None,
    order: float = 2.0,
    coordinate_moment: float | None = None,
    oracle: str | MeanOracle = "l2_clip",
) -> Plan:
    """Return a plan of `clipped_reg_subgradient`: one phase on all rows.

    Args:
        schedule: "practical" for falling steps and an average; "paper" for level steps and the
            last point.
        rounds: noisy steps, each on all rows.
        clip: as in `plan_localized`, or "tracked" to follow the gradients from round to round.
        moment, order, coordinate_moment, oracle: as in `plan_localized`.
        regularization: lambda of the quadratic about the start; 0 for level steps without one, and
            the average of all points; by default what the localized solver begins with.
        step: of the level steps.
    """
    paper = _validate.choice("schedule", schedule, ("practical", "paper")) == "paper"
    rule = chosen_oracle(oracle)
    moments = known_moments(task, moment, order, coordinate_moment)
    usual = rates.most_rounds(task.n, task.n_weights)
    choice = chosen_clip(task, clip, moments, rows=task.n, oracle=rule, rounds=_cap(rounds, usual))
    strength = None
    if regularization is not None:
        strength = _validate.non_negative("regularization", regularization)
    if paper and not strength:
        raise AssumptionError(
            "schedule='paper' needs a regularizer: pass options={'regularization': 0.5}, or use "
            "schedule='practical'."
        )
    rows = choice.rows[1] - choice.rows[0]
    cap = _cap(rounds, rates.most_rounds(rows, task.n_weights))
    layout = Layout((rows,), (cap if rounds else rates.phase_rounds(rows, cap),), (0,))
    pull = strength * task.initial_distance if strength else None
    if strength and choice.public is None:
        raise AssumptionError(
            "regularization has the unit of gradients over weights, which a clip that is found "
            "does not say: give clip= as a number beside it, or leave it out."
        )
    plan = decoupled(REGULARIZED, task, choice, moments, rule, layout, pull=pull)
    if step is None and not paper and strength != 0.0:
        return plan
    return _levelled(plan, step, last=paper, free=strength == 0.0)


def _levelled(plan: Plan, step: float | None, *, last: bool, free: bool) -> Plan:
    """Return the plan with level steps: about the start, or free of it."""
    rounds, pull = plan.rounds[0], 0.0 if free else plan.pulls[0]
    strength = pull / plan.task.initial_distance
    if step is None and free:
        noise = plan.task.n_weights * (plan.sigmas[0] / plan.sizes[0]) ** 2
        length = math.sqrt((plan.moment**2 + noise) * rounds)
        step = plan.task.initial_distance / length
    elif step is None:
        step = min(1.0, 2.0 * math.log(max(2, rounds)) / rounds) / strength
    step = _validate.positive("step", step)
    if strength * step > 1.0 + 1e-12:
        raise ParameterError(
            f"step must be at most 1/regularization = {1.0 / strength:g}, got {step:g}.",
            parameter="step",
        )
    averaging = "last" if last else "uniform"
    return dataclasses.replace(plan, steps=(step,), pulls=(pull,), averaging=averaging)


def _paper_plan(
    task: Task, schedule: str, moments: Moments, power: float, oracle: MeanOracle
) -> Plan:
    """Return Algorithm 3 as published, its mistakes corrected."""
    if not _validate.positive("power", power) >= 1.0:
        raise ParameterError(f"power must be at least 1, got {power!r}.", parameter="power")
    if task.n < 2:
        raise AssumptionError("schedule='paper' needs at least 2 rows: each phase halves them.")
    wider = published.THEOREM_20 if schedule == "theorem_20" else 1.0
    facts = published.Facts(
        n=task.n,
        size=task.n_weights,
        mu=task.budget.mu_per_row(),
        distance=task.initial_distance,
        diameter=2.0 * task.radius,
        moment=wider * moments.moment,
        second=moments.moment,
        lipschitz=math.inf if schedule == "theorem_20" else task.lipschitz,
        order=moments.order,
        power=power,
    )
    phases = published.phases(facts)
    total = sum(phase.rounds for phase in phases)
    if total > MOST_ROUNDS:
        raise AssumptionError(
            f"schedule={schedule!r} with power={power:g} asks for {total:,} noisy steps, and at "
            f"most {MOST_ROUNDS:,} can be run. Use power=1, or schedule='decoupled'."
        )
    choice = ClipChoice(phases[0].clip, None, (0, task.n), moments.moment)
    sizes = tuple(phase.rows for phase in phases)
    layout = Layout(sizes, tuple(phase.rounds for phase in phases), (0,) * len(phases))
    shares = tuple(phase.clip / choice.unit for phase in phases)
    batches = tuple(map(float, sizes))
    return Plan(
        solver=LOCALIZED,
        task=task,
        clip=choice.unit,
        search=None,
        oracle=oracle,
        moment=moments.moment,
        order=moments.order,
        sizes=sizes,
        rounds=layout.rounds,
        batches=batches,
        clips=shares,
        sigmas=_noise(task, choice, oracle, layout, shares, batches, "proved"),
        pulls=tuple(phase.strength * facts.distance for phase in phases),
        steps=tuple(phase.step for phase in phases),
        radii=tuple(phase.radius for phase in phases),
        stages=layout.stages,
        averaging="last",
    )


def _first_clip(
    task: Task, clip: float | str | None, moments: Moments, oracle: MeanOracle, *, way: str = "auto"
) -> tuple[ClipChoice, int, bool]:
    """Return the first phase's clip, the rows of all phases, and whether each has its own clip."""
    rows = max(1, task.n // 2)
    choice = chosen_clip(task, clip, moments, rows=rows, oracle=oracle, way=way)
    by_moment = clip == "moment" or (clip is None and moments.known)
    return choice, choice.rows[1] - choice.rows[0], by_moment


def _cap(rounds: int | None, usual: int) -> int:
    return usual if rounds is None else _validate.integer("rounds", rounds, at_most=MOST_ROUNDS)


def _refuse_settings(schedule: str, **settings: object) -> None:
    """Refuse settings that a published schedule decides itself."""
    for name, value in settings.items():
        if value is not None:
            raise ParameterError(
                f"{name} must be left out with schedule={schedule!r}, which decides it. Use "
                "schedule='decoupled' to set it.",
                parameter=name,
            )


# -- what entries say ------------------------------------------------------------------------------


def risk(task: Task) -> float:
    """Return the theorem's rate for gradients within the usual clip, all moments of which exist."""
    length = task.gradient_bound(None)
    scales = public_size(task)
    noisy = scales.noise * math.sqrt(scales.size) / scales.n
    return length * task.initial_distance * (1.0 / math.sqrt(task.n) + noisy)


def risk_staged(task: Task) -> float:
    """Return the rate for strongly convex problems, Theorem 18."""
    length, scales = task.gradient_bound(None), public_size(task)
    noisy = scales.size * (scales.noise / scales.n) ** 2
    strong = max(known_convexity(task), 1e-300)
    return min(risk(task), length**2 / strong * (1.0 / task.n + noisy))


def gradients(task: Task) -> float:
    """Return how many gradients a run takes by default."""
    return float(task.n * rates.most_rounds(task.n, task.n_weights))


def gradients_minibatch(task: Task) -> float:
    """Return how many gradients a run on samples takes by default."""
    sizes = rates.phase_sizes(public_size(task)) if task.n > 1 else (1,)
    return float(sum(rates.sample_size(size) for size in sizes) * MINIBATCH_ROUNDS)
