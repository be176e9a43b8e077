"""The plans of the family and their default schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import ClassVar

from ... import _validate
from ...data.bounds import describe_norm
from ...data.queries import Loss
from ...data.row_norms import check_limit
from ...data.vertices import VertexSet
from ...errors import AssumptionError, ParameterError
from ...files.limits import MOST_ROUNDS
from ...geometry.norms import L2, Lp, Norm
from ...privacy.mechanisms import (
    FadingSelectionRelease,
    GaussianRelease,
    SelectionRelease,
    gaussian_sigma,
    selection_scale,
)
from ...privacy.randomness import Randomness
from ...privacy.release import Release
from ...task import Task
from ..common.batches import check_rounds
from ..common.moment_clips import LOUD, noise_warning
from ..common.smoothing import nonsmooth, smoothed
from ..engine import EnginePlan
from ..noisy_gd.rates import narrowness
from . import published, rates
from .noise import fading_scales, fading_stages, single_scale
from .rates import Geometry

FULL, POLYHEDRAL, LP = "noisy_fw_gll", "poly_sfw", "noisy_sfw_lp"
OUTPUTS = ("last", "random")
MOST_FULL, MOST_WORK = 1000, 3e10  # full passes by default, and products that they may take
FEWEST = 60  # full passes of a large table, if the formula asks for them
MOST_FADING = 200  # rounds whose batches are accounted for one by one
MOST_BATCHES = 2000  # rounds on batches of their own


# -- full passes -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FullPlan(EnginePlan):
    """All that a run of `noisy_fw_gll` needs, from public facts only."""

    rounds: int  # full passes over the rows, a selection each
    clip: float  # bound on a row's gradient, in the norm dual to the domain's; enforced
    scale: float  # of the noise on the sum of the scores
    noise: str  # of the selections
    smoothing: float  # of the Moreau envelope that is descended; 0: the loss itself
    schedule_name: str  # whose step sizes

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        _validate.integer("rounds", self.rounds, at_most=MOST_ROUNDS)
        check_limit("clip", self.clip)
        _validate.non_negative("smoothing", self.smoothing)
        _validate.choice("schedule", self.schedule_name, published.SCHEDULES)

    @cached_property
    def norm(self) -> Norm:
        """The norm in which gradients are clipped."""
        return rates.vertex_geometry(self.task).dual

    @cached_property
    def loss(self) -> Loss:
        """The loss that is descended."""
        return smoothed(self.task, self.smoothing)

    def releases(self) -> tuple[SelectionRelease, ...]:
        """Return the selections, all on all rows."""
        vertices = VertexSet(self.problem.domain, self.task.n_weights)
        spread, count = vertices.spread(self.clip, self.norm), vertices.count
        rows = (0, self.n)
        return (
            SelectionRelease(spread, self.scale, count, self.noise, rows=rows, count=self.rounds),
        )

    def step_at(self, t: int) -> float:
        """Return the share of the way that round t goes: 2/(t + 2), so that the first goes all."""
        return published.full_step(t) if self.schedule_name == "paper" else rates.default_step(t)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and the clip."""
        return (*self.problem.bounds.enforced, clip_sentence(self.norm, self.clip))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Whether the noise of a selection hides which vertices the rows point to."""
        (release,) = self.releases()
        return _selection_warning(release.scale, self.n * release.bound, release.candidates, self.n)

    @property
    def risk(self) -> float:
        """The bound of the header at this plan's schedule."""
        return full_risk(self.task, self.rounds)


def plan_full(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | None = None,
    smoothing: float | None = None,
    schedule: str = "default",
) -> FullPlan:
    """Return a plan of `noisy_fw_gll`.

    Args:
        rounds: full passes over the rows.
        clip: bound on a row's gradient in the dual norm; by default the loss's own.
        smoothing: of the Moreau envelope of a nonsmooth loss; 0 descends the loss itself.
        schedule: "default", or "paper" for the published rounds, smoothing and steps.
    """
    paper = _validate.choice("schedule", schedule, published.SCHEDULES) == "paper"
    facts, vertices = rates.vertex_geometry(task), VertexSet(task.problem.domain, task.n_weights)
    bound = _bound(facts, clip)
    if rounds is None and paper:
        rounds = published.full_rounds(task, vertices.count)
    elif rounds is None:
        rounds = rates.full_rounds(task, vertices.count, most_full(task))
    rounds = _validate.integer("rounds", rounds, at_most=MOST_ROUNDS)
    if smoothing is None:
        smoothing = _full_smoothing(task, rounds, facts, vertices.count if paper else 0)
    noise = "permute_and_flip" if rounds == 1 else "gumbel"
    if task.calibration == "paper":
        noise, scale = "laplace", published.full_scale(task, rounds, facts)
    else:
        scale = selection_scale(
            task.budget,
            bound=vertices.spread(bound, facts.dual),
            candidates=vertices.count,
            rows=(0, task.n),
            count=rounds,
            noise=noise,
        )
    return FullPlan(
        solver=FULL,
        task=task,
        rounds=rounds,
        clip=bound,
        scale=scale,
        noise=noise,
        smoothing=_validate.non_negative("smoothing", smoothing),
        schedule_name=schedule,
    )


def most_full(task: Task) -> int:
    """Return the most full passes by default: fewer where they take long, which costs little."""
    return int(min(MOST_FULL, max(FEWEST, MOST_WORK / (float(task.n) * task.n_weights))))


def _full_smoothing(task: Task, rounds: int, facts: Geometry, candidates: int) -> float:
    """Return b = L0 sqrt(T + 2)/(2 R D) for a nonsmooth loss, the paper's if candidates are given.

    The envelope costs L0^2/(2 b), curvature 2 b R^2 D^2/(T + 2): they are equal there.
    """
    if not nonsmooth(task):
        return 0.0
    if candidates:
        return published.full_smoothing(task, candidates, facts)
    slope = facts.lipschitz / facts.feature
    return slope * math.sqrt(rounds + 2.0) / (2.0 * facts.feature * facts.diameter)


def full_risk(task: Task, rounds: int | None = None) -> float:
    """Return 2 L0 R D/sqrt(T + 2) + s ln J, and 2 L0 R D sqrt(2 ln J/n) for the sample."""
    facts, count = rates.vertex_geometry(task), rates.candidates(task)
    rounds = rates.full_rounds(task, count, most_full(task)) if rounds is None else rounds
    reach = facts.lipschitz * facts.diameter
    noise = rates.noise_of_selection(task, count, rounds, reach)
    return reach * (2.0 / math.sqrt(rounds + 2.0) + _sampling(task, count)) + noise


def full_gradients(task: Task) -> float:
    """Return how many gradients of a row a run takes by default."""
    return float(task.n * rates.full_rounds(task, rates.candidates(task), most_full(task)))


# -- one pass over batches -------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BatchedPlan(EnginePlan):
    """What the one-pass plans share: passes of rounds, each on a batch of its own."""

    stages: tuple[int, ...]  # rounds of each pass; every pass starts a new estimate
    sizes: tuple[int, ...]  # rows of each batch
    clips: tuple[float, ...]  # bound on a row's contribution in each round, enforced
    schedule_name: str  # whose step sizes
    variance_reduction: bool  # whether estimates are running means of differences
    output: str  # which point is returned
    chosen: int  # ... by its round; the number of all rounds means the last point

    outputs: ClassVar[tuple[str, ...]] = OUTPUTS

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        for name in ("stages", "sizes"):
            values = (_validate.integer(name, each) for each in getattr(self, name))
            _validate.store(self, name, tuple(values))
        _validate.store(self, "clips", tuple(check_limit("clips", each) for each in self.clips))
        _validate.choice("schedule", self.schedule_name, published.SCHEDULES)
        _validate.choice("output", self.output, self.outputs)
        reduced = _validate.flag("variance_reduction", self.variance_reduction)
        _validate.store(self, "variance_reduction", reduced)
        rounds = sum(self.stages)
        _validate.integer("chosen", self.chosen, at_least=0, at_most=rounds)
        fits = len(self.sizes) == len(self.clips) == rounds and sum(self.sizes) <= self.n
        if not fits or rounds > MOST_BATCHES:
            raise ParameterError(
                f"{rounds} rounds with {len(self.sizes)} batches of {sum(self.sizes)} rows and "
                f"{len(self.clips)} clips fit no table of {self.n} rows. Make the plan anew."
            )

    @property
    def points(self) -> int:  # type: ignore[override]
        """At how many weights a row's gradient is computed."""
        return 2 if self.variance_reduction else 1

    @property
    def norm(self) -> Norm:
        """The norm in which contributions are clipped."""
        return L2

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The number of each round within its pass."""
        return tuple(t for steps in self.stages for t in range(steps))

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """Where the batches begin, and where the last one ends."""
        return tuple(accumulate(self.sizes, initial=0))

    def share(self, t: int) -> float:
        """Return a_t, the weight of new gradients in the estimate of round t."""
        return rates.momentum(self.places[t]) if self.variance_reduction else 1.0

    def keep(self, t: int) -> float:
        """Return 1 - a_t, what is kept of the estimate before; 0 at the start of a pass."""
        return 1.0 - self.share(t)

    def step_at(self, t: int) -> float:
        """Return the share of the way that round t goes."""
        return step_of(self.schedule_name)(self.places[t])

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and the largest clip."""
        largest = clip_sentence(self.norm, max(self.clips))
        return (*self.problem.bounds.enforced, f"{largest}, in some rounds less")


@dataclass(frozen=True, kw_only=True)
class PolyhedralPlan(BatchedPlan):
    """All that a run of `poly_sfw` needs, from public facts only."""

    scales: tuple[float, ...]  # of the noise in each round
    noise: str  # of the selections

    @cached_property
    def norm(self) -> Norm:
        """The norm dual to the domain's."""
        return rates.vertex_geometry(self.task).dual

    def releases(self) -> tuple[Release, ...]:
        """Return one selection for each round."""
        return self._releases

    @cached_property
    def _releases(self) -> tuple[Release, ...]:
        vertices = VertexSet(self.problem.domain, self.task.n_weights)
        spreads = [vertices.spread(clip, self.norm) for clip in self.clips]
        if self.variance_reduction:
            return tuple(self._fading(spreads, vertices.count))
        ranges = zip(self.edges, self.edges[1:], strict=False)
        rounds = zip(spreads, self.scales, ranges, strict=True)
        return tuple(
            SelectionRelease(spread, scale, vertices.count, self.noise, rows=rows)
            for spread, scale, rows in rounds
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Whether the noise of the first selection hides which vertices the rows point to."""
        vertices = VertexSet(self.problem.domain, self.task.n_weights)
        gap, rows = vertices.spread(self.clips[0], self.norm), self.sizes[0]
        if not self.variance_reduction:
            gap *= rows  # noise is on sums there, and on means of fading rows
        return _selection_warning(self.scales[0], gap, vertices.count, rows)

    def _fading(self, spreads: Sequence[float], candidates: int) -> list[Release]:
        """Return the selections whose older rows count less."""
        selections: list[Release] = []
        for first, bounds in fading_stages(spreads, self.sizes, self.stages):
            for t, row in enumerate(bounds):
                last = first + t + 1
                selections.append(
                    FadingSelectionRelease(
                        tuple(row),
                        self.edges[first + 1 : last + 1],
                        self.scales[last - 1],
                        candidates,
                        self.noise,
                        rows=(self.edges[first], self.edges[last]),
                    )
                )
        return selections

    @property
    def risk(self) -> float:
        """The rate of the header."""
        return polyhedral_risk(self.task)


def plan_polyhedral(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | None = None,
    variance_reduction: bool = True,
    output: str = "last",
    schedule: str = "default",
) -> PolyhedralPlan:
    """Return a plan of `poly_sfw`.

    Args:
        rounds: selections, each on a batch of its own; passes for schedule="paper".
        clip: takes the place of the Lipschitz constant if it is smaller.
        variance_reduction: whether estimates are running means of differences.
        output: "last", or "random": a point drawn when the plan is made.
        schedule: "default", or "paper" for the published passes, batches and steps.
    """
    paper = _validate.choice("schedule", schedule, published.SCHEDULES) == "paper"
    reduced = _validate.flag("variance_reduction", variance_reduction)
    facts, vertices = rates.vertex_geometry(task), VertexSet(task.problem.domain, task.n_weights)
    facts = _clipped(facts, clip)
    most = MOST_FADING if reduced else MOST_BATCHES
    if paper:
        passes = published.polyhedral_passes(task, vertices.count) if rounds is None else rounds
    elif rounds is None:
        rounds = rates.fresh_rounds(task, vertices.count, most)
    stages, sizes = _layout(task, passes if paper else rounds, most, paper=paper)
    clips = _clips(stages, schedule, facts, reduced=reduced)
    spreads = [vertices.spread(each, facts.dual) for each in clips]
    if task.calibration == "paper":
        noise, scales = "laplace", _published_scales(task, facts, stages, sizes, reduced=reduced)
    elif reduced:
        noise = "gumbel" if len(clips) > 1 else "permute_and_flip"
        scales = fading_scales(task, spreads, sizes, stages, vertices.count, noise)
    else:
        noise = "permute_and_flip"
        scales = tuple(single_scale(task, spread, vertices.count) for spread in spreads)
    return PolyhedralPlan(
        solver=POLYHEDRAL,
        task=task,
        stages=stages,
        sizes=sizes,
        clips=clips,
        scales=scales,
        noise=noise,
        schedule_name=schedule,
        variance_reduction=reduced,
        output=output,
        chosen=_chosen(output, sum(stages)),
    )


def _published_scales(
    task: Task, facts: Geometry, stages: Sequence[int], sizes: Sequence[int], *, reduced: bool
) -> tuple[float, ...]:
    """Return the published scales; they are for variance-reduced passes."""
    if not reduced:
        raise AssumptionError("calibration='paper' is for variance_reduction=True.")
    firsts = [sizes[first] for first in accumulate(stages[:-1], initial=0)]
    scales = (
        published.polyhedral_scale(task, facts, steps, batch)
        for steps, batch in zip(stages, firsts, strict=True)
    )
    return tuple(s for s, steps in zip(scales, stages, strict=True) for _ in range(steps))


def polyhedral_risk(task: Task) -> float:
    """Return the Frank-Wolfe gap D (L0 + L1 D) (1/T^(1/2) + ...) of the header, by its rate."""
    facts, count = rates.vertex_geometry(task), rates.candidates(task)
    reach = facts.diameter * (facts.lipschitz + facts.smoothness * facts.diameter)
    rounds = rates.fresh_rounds(task, count, MOST_FADING)
    return reach * (1.0 / math.sqrt(rounds) + _sampling(task, count))


# -- Gaussian noise --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LpPlan(BatchedPlan):
    """All that a run of `noisy_sfw_lp` needs, from public facts only."""

    outputs: ClassVar[tuple[str, ...]] = (*OUTPUTS, "select")

    noise_multiplier: float  # standard deviation of the noise on a batch's sum over its clip
    follow_steps: bool  # whether clips follow the steps that are taken, in place of the longest
    lipschitz: float  # Euclidean L0, by which clips follow; enforced

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        super().__post_init__()
        for name in ("noise_multiplier", "lipschitz"):
            _validate.positive(name, getattr(self, name))
        follow = _validate.flag("follow_steps", self.follow_steps)
        _validate.store(self, "follow_steps", follow)

    def releases(self) -> tuple[GaussianRelease, ...]:
        """Return one noisy sum for each batch; in units of its clip if that follows the steps."""
        units = [1.0] * len(self.clips) if self.follow_steps else self.clips
        return tuple(
            GaussianRelease(unit, unit * self.noise_multiplier, rows=(start, stop))
            for unit, start, stop in zip(units, self.edges, self.edges[1:], strict=False)
        )

    @property
    def finds_clip(self) -> bool:
        """Whether bounds of releases are in units of a clip."""
        return self.follow_steps

    @cached_property
    def geometries(self) -> tuple[Geometry, Geometry]:
        """Lengths in the domain's own norm and Euclidean ones."""
        euclidean = _clipped(rates.geometry(self.task, L2), self.lipschitz)
        return rates.ball_geometry(self.task), euclidean

    def clip_after(self, t: int, moves: tuple[float, float]) -> float:
        """Return the clip of round t after a move of such lengths in the two norms, at most G_t.

        What a row adds is at most ``(1 - a_t) L1 move + a_t L0``. The move is public.
        """
        share, planned = self.share(t), self.clips[t]
        if not self.follow_steps or self.keep(t) == 0.0:
            return planned
        widened = math.pow(self.task.n_weights, 1.0 / _exponent(self.geometries[0]) - 0.5)
        clips = [
            factor * (self.keep(t) * facts.smoothness * move + share * facts.lipschitz)
            for factor, facts, move in zip((widened, 1.0), self.geometries, moves, strict=True)
        ]
        return min(planned, *clips)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Whether noise rules: that of the first mean, in the directions that the domain leaves."""
        spread = math.sqrt(self.task.n_weights) * narrowness(self.task)
        return noise_warning(spread * self.noise_multiplier / self.sizes[0], self.sizes[0])

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and how clips follow the steps."""
        if not self.follow_steps:
            return super().enforced
        return (*super().enforced, "clips follow the steps taken; noise is in units of the clip")

    @property
    def risk(self) -> float:
        """The rate of the header."""
        return lp_risk(self.task)


def plan_lp(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | None = None,
    variance_reduction: bool = True,
    output: str = "select",
    schedule: str = "default",
    follow_steps: bool | None = None,
) -> LpPlan:
    """Return a plan of `noisy_sfw_lp`.

    Args:
        rounds: noisy means, each of a batch of its own; passes for schedule="paper".
        clip: takes the place of the Lipschitz constant if it is smaller.
        variance_reduction: whether estimates are running means of differences.
        output: "select", the point of least estimated Frank-Wolfe gap; "last"; or "random", a point
            drawn when the plan is made.
        schedule: "default", or "paper" for the published passes, batches and steps.
        follow_steps: whether a clip follows the step that was taken; by default where there are
            differences.
    """
    paper = _validate.choice("schedule", schedule, published.SCHEDULES) == "paper"
    reduced = _validate.flag("variance_reduction", variance_reduction)
    facts = rates.ball_geometry(task)
    p = _exponent(facts)
    if rounds is None:
        most = MOST_BATCHES
        rounds = published.lp_passes(task, p) if paper else rates.gaussian_rounds(task, p, most)
    stages, sizes = _layout(task, rounds, MOST_BATCHES, paper=paper)
    clips = _l2_clips(task, facts, stages, schedule, clip, reduced=reduced)
    return LpPlan(
        solver=LP,
        task=task,
        stages=stages,
        sizes=sizes,
        clips=clips,
        noise_multiplier=gaussian_sigma(task.budget, bound=1.0, rows=(0, task.n)),
        follow_steps=reduced if follow_steps is None else follow_steps,
        lipschitz=_clipped(rates.geometry(task, L2), clip).lipschitz,
        schedule_name=schedule,
        variance_reduction=reduced,
        output=output,
        chosen=_chosen(output, sum(stages)),
    )


def _l2_clips(
    task: Task,
    facts: Geometry,
    stages: Sequence[int],
    schedule: str,
    clip: float | None,
    *,
    reduced: bool,
) -> tuple[float, ...]:
    """Return C_t = min(d^(1/p - 1/2) G_t, the same by Euclidean constants)."""
    widened = math.pow(task.n_weights, 1.0 / _exponent(facts) - 0.5)
    own = _clips(stages, schedule, facts, reduced=reduced)
    euclidean = _clipped(rates.geometry(task, L2), clip)
    other = _clips(stages, schedule, euclidean, reduced=reduced)
    return tuple(min(widened * a, b) for a, b in zip(own, other, strict=True))


def lp_risk(task: Task) -> float:
    """Return the Frank-Wolfe gap of the header, by its rate."""
    facts = rates.ball_geometry(task)
    rounds = rates.gaussian_rounds(task, _exponent(facts), MOST_BATCHES)
    reach = facts.diameter * (facts.lipschitz + facts.smoothness * facts.diameter)
    return reach * (1.0 / math.sqrt(rounds) + _sampling(task, 2))


def batched_gradients(task: Task) -> float:
    """Return how many gradients a run on differences takes."""
    return 2.0 * task.n


# -- what they share -------------------------------------------------------------------------------


def step_of(schedule: str) -> Callable[[int], float]:
    """Return the step sizes of a schedule of the one-pass methods."""
    return published.step if schedule == "paper" else rates.default_step


def clip_sentence(norm: Norm, clip: float) -> str:
    """Return what is enforced, in a sentence for the certificate."""
    return (
        f"a row's gradient, or difference of two, has {describe_norm(norm)} norm at most "
        f"{clip:g}, by clipping"
    )


def _selection_warning(scale: float, gap: float, candidates: int, rows: int) -> tuple[str, ...]:
    """Return a sentence if the noise of a selection is above half of the largest gap of scores."""
    ratio = scale * math.log(max(candidates, 2)) / gap
    if ratio <= LOUD:
        return ()
    return (
        f"the noise of a selection is {ratio:.2g} times the largest gap between two vertices that "
        f"{rows:,} rows can make, so a vertex may be taken that is worse than the start. More "
        "rows, fewer rounds or a larger epsilon help",
    )


def _exponent(facts: Geometry) -> float:
    """Return p of the geometry's norm, between 1 and 2."""
    norm = facts.norm
    return float(norm.p) if isinstance(norm, Lp) else 2.0


def _layout(
    task: Task, rounds: int | None, most: int, *, paper: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the rounds of each pass, and the sizes of all batches."""
    rounds = _validate.integer("rounds", rounds, at_most=most)
    if paper:
        stages = published.stages(_validate.integer("rounds", rounds, at_most=10))
        return stages, published.sizes(published.largest_batch(task.n, stages), stages)
    check_rounds(rounds, task.n)
    return (rounds,), (task.n // rounds,) * rounds


def _clips(
    stages: Sequence[int], schedule: str, facts: Geometry, *, reduced: bool
) -> tuple[float, ...]:
    """Return G_t of every round; an estimate without differences takes gradients alone."""
    clips: list[float] = []
    for steps in stages:
        moves = [step_of(schedule)(t) for t in range(steps)]
        shares = [rates.momentum(t) if reduced else 1.0 for t in range(steps)]
        clips += rates.clips(moves, shares, facts)
    return tuple(clips)


def _bound(facts: Geometry, clip: float | None) -> float:
    """Return the clip: the Lipschitz constant unless a smaller one is asked for."""
    bound = facts.lipschitz
    if clip is not None:
        bound = min(bound, check_limit("clip", clip))
    if not 0.0 < bound < math.inf:
        raise AssumptionError(
            "a bound on a row's gradient is needed, and that of the loss is "
            f"{'unbounded' if bound else 'zero everywhere'}.",
            hint="Pass options={'clip': ...}." if bound else "There is nothing to minimise.",
        )
    return bound


def _clipped(facts: Geometry, clip: float | None) -> Geometry:
    """Return the geometry with the clip in the place of the Lipschitz constant."""
    return Geometry(
        facts.norm, facts.diameter, _bound(facts, clip), facts.smoothness, facts.feature
    )


def _chosen(output: str, rounds: int) -> int:
    """Return the round whose point is returned: for "random" drawn here, without any data."""
    if output != "random":
        return rounds
    return int(Randomness.secure().child("output").integers(rounds, 1)[0])


def _sampling(task: Task, candidates: int) -> float:
    """Return 2 sqrt(2 ln J/n), what a sample of n rows costs in units of L0 R D."""
    return 2.0 * math.sqrt(2.0 * math.log(max(candidates, 2)) / task.n)
