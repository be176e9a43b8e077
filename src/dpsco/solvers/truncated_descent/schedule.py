"""The plans of the family, and their practical schedules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ... import _validate
from ...data.queries import ClippedCoordinates, ClippedGradient, coordinate_bound
from ...data.row_norms import check_limit
from ...errors import AssumptionError, ParameterError
from ...files.limits import MOST_RELEASES, MOST_ROUNDS
from ...geometry.domains import Domain, LpBall, WholeSpace
from ...geometry.mirror import PNormMap, Regularity
from ...geometry.norms import L2, Lp
from ...geometry.width import dual_norm_bound
from ...privacy.mechanisms import ClipQuantileRelease, GaussianRelease, gaussian_sigma
from ...privacy.release import Release
from ...task import Task
from ..base import Floats
from ..common.batches import check_rounds
from ..common.clips import cautious_clip, descent_clip
from ..common.found_clip import ClipGrid, beside_clip, clip_search, noise_tail
from ..common.options import checked_p
from ..engine import EnginePlan, Rows, part_of
from ..needs import Need
from . import published

BATCHED, COORDINATES = "truncated_batched_mirror_descent", "heavy_tailed_coordinate_gd"
WHOLE_P = 1.5  # the norm of weights without constraint
CLIP_FACTOR = 1.5  # of a moment: where gradients are truncated; measured
ROUNDS = (60, 1000)  # full passes by default: on large tables, and on small ones
MAX_FLOPS = 3e9  # products that a small table may take: a few seconds
CUTTING = 3.0  # times as long as a product takes what cuts a coordinate
BATCHES = (4, 64)  # batches by default, fewest and most
STEP_SHARE = 0.5  # of sqrt(P) over the size of all gradients so far; measured
LOOSE = 2.0**40  # a longest gradient at the start that says nothing of the others
DROWNED = 0.1  # of the clip: noise from which on weights were worse than none (0.07 to 0.19)


def exponent_of(domain: Domain) -> float | None:
    """Return p of the l_p geometry in which steps on this domain are exact; None: there is none."""
    if isinstance(domain, WholeSpace):
        return WHOLE_P
    if isinstance(domain, LpBall) and domain.p <= 2.0:
        return domain.p
    return None


def _mirror(task: Task) -> str:
    if exponent_of(task.problem.domain) is not None:
        return ""
    return (
        "its mirror steps are exact on the whole space and on l_p balls with p from 1 to 2, not on "
        f"{task.problem.domain!r}; {COORDINATES} and noisy_gd project onto any domain"
    )


MIRROR = Need("whole space, or an l_p ball with 1 <= p <= 2", _mirror)


@dataclass(frozen=True, kw_only=True)
class Plan(EnginePlan):
    """All that a run needs, from public facts only."""

    rounds: int  # full passes, or batches
    batches: bool  # whether each row enters one batch; else every round reads all rows
    clip: float | None  # where a row's gradient is truncated, enforced; None: it is found
    search: ClipQuantileRelease | None  # by which it is found
    row_range: Rows  # of the rounds: a slice of the rows may be there for the clip alone
    sigma: float  # noise on the sum of a round, per coordinate; if the clip is found, in its units
    step: float | None  # 1/gamma; None: it follows from the noisy answers so far
    p: float  # of the norm in which weights are measured
    tail: int  # how many of the last iterates are averaged

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        most = MOST_RELEASES if self.batches else MOST_ROUNDS
        _validate.integer("rounds", self.rounds, at_most=most)
        _validate.store(self, "batches", _validate.flag("batches", self.batches))
        if self.step is not None:
            _validate.positive("step", self.step)
        if self.clip is not None:
            check_limit("clip", self.clip)
        if (self.clip is None) is (self.search is None):
            raise ParameterError("a plan has a clip, or a search for it.")
        if _validate.integer("tail", self.tail) > self.rounds:
            raise ParameterError(
                f"tail must be at most rounds = {self.rounds}, got {self.tail}.", parameter="tail"
            )
        Regularity(self.p, 1)
        start, stop = self.row_range
        if not 0 <= start < stop <= self.n:
            raise ParameterError(f"the rows {start} to {stop} are not among the {self.n} rows.")

    @property
    def bound(self) -> float:
        """The l2 norm of what a row adds to a sum, at most."""
        return 1.0 if self.clip is None else self.clip

    def gradient(self, weights: Floats, clip: float) -> ClippedGradient | ClippedCoordinates:
        """Return what each row is asked for."""
        return ClippedGradient(self.problem.loss, weights, clip)

    def releases(self) -> tuple[Release, ...]:
        """Return the search for a clip if there is one, and the noisy sums."""
        sums = noisy_sums(self.row_range, self.bound, self.sigma, self.rounds, self.batches)
        return sums if self.search is None else (self.search, *sums)

    def batch_size(self, t: int) -> int:
        """Return the number of rows of round t: what its sum is divided by."""
        start, stop = self.row_range
        if self.batches:
            start, stop = part_of(self.row_range, self.rounds, t)
        return stop - start

    def step_at(self, t: int) -> float:
        """Return the step of round t, 0 where it follows from answers."""
        return self.step or 0.0

    @cached_property
    def mirror(self) -> PNormMap:
        """The mirror map, 1-strongly convex in l_p."""
        return PNormMap.regular(Regularity(self.p, self.task.n_weights))

    @cached_property
    def dual_norm(self) -> Lp:
        """The norm in which gradients are measured, l_q."""
        return Lp(self.p).dual

    @cached_property
    def steps_within(self) -> Domain:
        """The domain of steps: the problem's, or the ball of the map's norm around it."""
        domain = self.problem.domain
        if self.mirror.exponent == 2.0 or not isinstance(domain, LpBall):
            return domain
        if domain.p in (1.0, self.mirror.exponent):
            return domain
        return LpBall(self.mirror.exponent, domain.radius(1), domain.arguments.get("centre"))

    @cached_property
    def spread(self) -> float:
        """P: the potential at the edge of where good weights may lie."""
        return spread(self.task, Regularity(self.p, self.task.n_weights))

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and the truncation."""
        if self.search is None:
            gradient = self.gradient(self.task.start, self.clip or 1.0)
            return (*self.problem.bounds.enforced, *gradient.enforced)
        return super().enforced

    @property
    def noise(self) -> float:
        """The l2 norm of the noise that the rounds average to, in units of the longest gradient.

        A mean over all rows has that of one release that spends the whole budget; batches, which
        average over rounds what each of them has on its part of the rows, have no less.
        """
        rounds, (start, stop) = 1 if self.batches else self.rounds, self.row_range
        return math.sqrt(self.task.n_weights / rounds) * self.sigma / (self.bound * (stop - start))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Whether noise drowns typical gradients, or the clip says nothing of them."""
        lines = []
        if self.noise > DROWNED:
            lines.append(
                f"the noise of all rounds together is {self.noise:.2g} of the longest gradient: "
                "too few rows for so many weights at this budget, and the weights may be worse "
                "than those of the start"
            )
        if self.clip is not None and unbounded(self.task) and self.clip == self.usual_clip:
            lines.append(
                f"gradients are truncated at {self.clip:.4g}, which follows from the bounds of "
                "rows and labels: if these are loose, noise drowns all gradients. Give clip= or "
                "moment=, or take more rows, for which a clip is found"
            )
        return tuple(lines)

    @property
    def usual_clip(self) -> float:
        """The clip of a plan that is told nothing and can find none."""
        return descent_clip(self.task)

    @property
    def risk(self) -> float:
        """The bound of the header."""
        return risk(self.task, self.p)


class CoordinatePlan(Plan):
    """A plan whose ``clip`` is that of each coordinate of a row's gradient."""

    @property
    def bound(self) -> float:
        """The l2 norm of a row that is cut in every coordinate."""
        return coordinate_bound(1.0 if self.clip is None else self.clip, self.task.n_weights)

    @property
    def usual_clip(self) -> float:
        """That of whole gradients, spread over the coordinates."""
        return super().usual_clip / math.sqrt(self.task.n_weights)

    def gradient(self, weights: Floats, clip: float) -> ClippedCoordinates:
        """Return what each row is asked for."""
        return ClippedCoordinates(self.problem.loss, weights, clip)


def noisy_sums(
    rows: Rows, bound: float, sigma: float, rounds: int, batches: bool
) -> tuple[GaussianRelease, ...]:
    """Return the releases of sums: one a round over all rows, or one for each batch."""
    if not batches:
        return (GaussianRelease(bound, sigma, rows=rows, count=rounds),)
    check_rounds(rounds, rows[1] - rows[0])
    parts = (part_of(rows, rounds, t) for t in range(rounds))
    return tuple(GaussianRelease(bound, sigma, rows=part) for part in parts)


def plan_mirror(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | str | None = None,
    moment: float | None = None,
    p: float | None = None,
    step: float | None = None,
    tail: int | None = None,
    batches: bool = False,
    schedule: str = "practical",
    population_smoothness: float | None = None,
) -> Plan:
    """Return a plan of `truncated_batched_mirror_descent`.

    Args:
        rounds: full passes, or batches.
        clip: where gradients are truncated, in l2; "auto" finds it from the rows.
        moment: a public guess of sqrt(E ||gradient||_2^2), from which the clip follows.
        p: of the norm of the weights, for a domain that has none of its own.
        step: 1/gamma, the same in all rounds; by default it follows from the noisy answers.
        tail: how many of the last iterates are averaged.
        batches: whether each row enters one of ``rounds`` batches; else each round reads all rows.
        schedule: "practical" or "paper", which has batches.
        population_smoothness: of the mean loss, for the paper's schedule, if less than rows have.
    """
    _validate.choice("schedule", schedule, published.SCHEDULES)
    batches = _validate.flag("batches", batches) or schedule == "paper"
    geometry = Regularity(check_p(task, p), task.n_weights)
    if schedule == "paper":
        paper = published.batched(task, geometry, population_smoothness)
        rounds = paper.rounds if rounds is None else rounds
        clip = paper.clip if clip is None and moment is None else clip
        step = paper.step if step is None else step
        tail = rounds if tail is None else tail  # all of them
    if rounds is None:
        rounds = _batches(task, geometry) if batches else _passes(task, MAX_FLOPS)
    rounds = _validate.integer("rounds", rounds)
    truncation = truncated_at(task, clip, moment, rounds if batches else 1)
    return Plan(
        solver=BATCHED,
        task=task,
        rounds=rounds,
        batches=batches,
        clip=truncation.clip,
        search=truncation.search,
        row_range=truncation.rows,
        sigma=truncation.sigma(task, truncation.clip or 1.0, rounds, batches),
        step=step,
        p=geometry.p,
        tail=(rounds + 1) // 2 if tail is None else tail,
    )


def plan_coordinates(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | str | None = None,
    moment: float | None = None,
    step: float | None = None,
    tail: int | None = None,
    schedule: str = "practical",
    population_smoothness: float | None = None,
) -> CoordinatePlan:
    """Return a plan of `heavy_tailed_coordinate_gd`.

    Args:
        rounds: full passes over the rows.
        clip: of each coordinate of a row's gradient; by default, and with "auto", the clip of a
            whole gradient over sqrt(d), so that both have the same noise.
        moment: a public guess of sqrt(E g_j^2), g_j a coordinate, from which the clip follows.
        step: the same in all rounds; by default it follows from the noisy answers.
        tail: how many of the last iterates are averaged.
        schedule: "practical" or "paper".
        population_smoothness: of the mean loss, for the paper's schedule, if less than rows have.
    """
    _validate.choice("schedule", schedule, published.SCHEDULES)
    if schedule == "paper":
        paper = published.coordinates(task, moment, population_smoothness)
        rounds = paper.rounds if rounds is None else rounds
        if clip is None:
            clip, moment = paper.clip, None
        step = paper.step if step is None else step
    rounds = _passes(task, MAX_FLOPS / CUTTING) if rounds is None else rounds
    rounds = _validate.integer("rounds", rounds)
    truncation = truncated_at(task, clip, moment, 1)
    whole = truncation.clip
    if clip is None and moment is None and whole is not None:
        whole /= math.sqrt(task.n_weights)
    bound = coordinate_bound(1.0 if whole is None else whole, task.n_weights)
    return CoordinatePlan(
        solver=COORDINATES,
        task=task,
        rounds=rounds,
        batches=False,
        clip=whole,
        search=truncation.search,
        row_range=truncation.rows,
        sigma=truncation.sigma(task, bound, rounds, False),
        step=step,
        p=2.0,
        tail=(rounds + 1) // 2 if tail is None else tail,
    )


# -- practical numbers -----------------------------------------------------------------------------


class Truncation(NamedTuple):
    """Where gradients are truncated: at a public length, or at one that a search will find."""

    clip: float | None
    search: ClipQuantileRelease | None
    rows: Rows  # of the rounds

    def sigma(self, task: Task, bound: float, rounds: int, batches: bool) -> float:
        """Return the noise of the rounds, beside the search if there is one."""

        def build(sigma: float) -> tuple[GaussianRelease, ...]:
            if batches:  # each row enters one of them, so one stands for all
                return noisy_sums(self.rows, bound, sigma, 1, False)
            return noisy_sums(self.rows, bound, sigma, rounds, False)

        return beside_clip(task.budget, self.search, build)


def truncated_at(
    task: Task, clip: float | str | None, moment: float | None, batches: int
) -> Truncation:
    """Return the truncation that was asked for, or that of a moment; by default the usual one.

    A loss whose gradients have no bound of their own gets a clip that is found, if the budget can
    pay for it and the rows are enough. What the bounds of a row say of a heavy tail is no use.
    """
    everything = (0, task.n)
    if not isinstance(clip, str):
        public = clip is not None or moment is not None or not unbounded(task)
        if public:
            return Truncation(public_clip(task, clip, moment), None, everything)
    elif moment is not None:
        raise ParameterError(_BOTH, parameter="moment")
    else:
        _validate.choice("clip", clip, ("auto",))
    try:
        tail = noise_tail(task, rows=task.n // batches or 1, averaged=batches)
        # A grid below the longest gradient that bounds allow is far above all gradients if the
        # bounds are made up.
        search = clip_search(task, tail, grid=ClipGrid() if task.start_gradient > LOOSE else None)
    except AssumptionError:
        if clip is not None:
            raise
        return Truncation(descent_clip(task), None, everything)
    return Truncation(None, search.release, search.rows)


def public_clip(task: Task, clip: float | None, moment: float | None) -> float:
    """Return the clip that was asked for, or that of a moment; by default that of descent."""
    if clip is not None and moment is not None:
        raise ParameterError(_BOTH, parameter="moment")
    if moment is not None:
        return check_limit("moment", CLIP_FACTOR * _validate.positive("moment", moment))
    return descent_clip(task) if clip is None else check_limit("clip", clip)


_BOTH = "clip and moment both say where gradients are truncated: give one of them."


def unbounded(task: Task) -> bool:
    """Return whether gradients have no bound but what the domain and the bounds of rows imply."""
    constants = task.problem.loss.constants(
        feature=task.feature_bound, label=task.label_bound, radius=math.inf
    )
    return not math.isfinite(constants.lipschitz)


def check_p(task: Task, p: float | None) -> float:
    """Return the exponent of the geometry; refuse one that the domain has no steps for."""
    own = exponent_of(task.problem.domain)
    if p is None:
        return WHOLE_P if own is None else own
    p = checked_p(p, beyond=f"use {COORDINATES}, which works in l2")
    if not isinstance(task.problem.domain, WholeSpace) and p != own:
        raise ParameterError(
            f"p is that of the domain, {own!r}, got {p!r}: leave it out.", parameter="p"
        )
    return p


def spread(task: Task, geometry: Regularity) -> float:
    """Return (kappa/2) R^2, R the norm of the potential up to which good weights may lie.

    Where only their l2 norm is guessed they count as spread over all coordinates.
    """
    domain, d = task.problem.domain, task.n_weights
    radius = task.initial_distance * float(d) ** (1.0 / geometry.pbar - 0.5)
    if not isinstance(domain, WholeSpace):
        norm = L2 if geometry.p == 2.0 else geometry.potential_norm
        radius = min(radius, domain.radius(d, norm))
    return 0.5 * geometry.kappa * float(radius) ** 2


def noise_unit(geometry: Regularity) -> float:
    """Return about E ||g||_q for a standard normal vector g."""
    return dual_norm_bound(geometry.q, geometry.d)


def _passes(task: Task, products: float) -> int:
    """Return how many full passes: noise averages out, so time alone sets a limit.

    More than 200 matter where columns are badly conditioned, as those of most tables are.
    """
    fewest, most = ROUNDS
    return round(min(max(products / (task.n * task.n_weights), fewest), most))


def _batches(task: Task, geometry: Regularity) -> int:
    """Return how many batches: T^(3/2) is the clip over the noise on the mean of all rows.

    T steps on a smooth loss leave (R/T + T g) R in units of the gradient at the start, about.
    """
    fewest, most = BATCHES
    ideal = math.pow(task.signal / noise_unit(geometry), 2.0 / 3.0)
    return min(math.ceil(min(max(ideal, fewest), most)), task.n)


def risk(task: Task, p: float) -> float:
    """Return the bound of the header for full passes and the usual clip."""
    geometry = Regularity(p, task.n_weights)
    bound = cautious_clip(task)
    single = gaussian_sigma(task.budget, bound=bound, rows=(0, task.n)) / task.n
    sampling = bound / math.sqrt(task.n)
    return 2.0 * math.sqrt(spread(task, geometry)) * (single * noise_unit(geometry) + sampling)


def mirror_risk(task: Task) -> float:
    """Return the bound in the geometry of the domain."""
    return risk(task, check_p(task, None))


def coordinate_risk(task: Task) -> float:
    """Return the bound in l_2."""
    return risk(task, 2.0)


def gradients(task: Task) -> float:
    """Return how many gradients of a row a run takes by default."""
    return float(_passes(task, MAX_FLOPS) * task.n)
