"""Which clip a solver takes where a moment of the gradients is known, or nothing at all.

A clip decides accuracy alone: a wrong moment is never a privacy bug. Read `Moments` (what is
known), `ClipChoice` (what follows), `ClipPlan` (what plans hold of it), `ThresholdStepper`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ... import _validate
from ...data.gradient_norms import LIGHT, tracked_bound, tracking_weight
from ...data.queries import Query
from ...data.row_norms import check_limit
from ...errors import AssumptionError, ParameterError
from ...losses.base import MarginLoss
from ...losses.vector import SquaredDistance
from ...privacy.mechanisms import ClipQuantileRelease, GaussianRelease
from ...task import Task
from ..engine import EnginePlan, Rows
from .clips import Floats, descent_clip
from .found_clip import (
    TrackedClipStepper,
    beside_clip,
    clip_search,
    low_start,
    noise_tail,
    tracked_level,
    tracking_warning,
)
from .mean_oracle import (
    CoordinateClip,
    L2Clip,
    MeanOracle,
    chosen_oracle,
    coordinate_lemma,
    moment_threshold,
)

PROXY = 1.0 / 3.0  # of the clip: how long gradients are, where no moment says so
TALL = 3.0  # of clip/sqrt(d): where coordinates are cut by default
LOUD = 0.5  # noise, in units of the clip, from which on a plan warns
WORDS = ("moment", "auto")
TRACKED = "tracked"
MEDIAN = 0.5  # share of the gradients above the clip at which tracking starts, if one is found


@dataclass(frozen=True)
class Moments:
    """A bound r on (E ||gradient||^k)^(1/k); r is 0 where none is known."""

    moment: float
    order: float

    @property
    def known(self) -> bool:
        """Whether there is a bound."""
        return self.moment > 0.0


def known_moments(
    task: Task,
    moment: float | None,
    order: float,
    coordinate_moment: float | None = None,
    *,
    needed: bool = False,
) -> Moments:
    """Return what was said of the moments, those of coordinates by Lemma 3.

    Raises:
        AssumptionError: nothing was said, and it is ``needed``.
        ParameterError: both were said, or an order of 1 or less.
    """
    k = checked_order(order)
    if moment is not None and coordinate_moment is not None:
        raise ParameterError("give moment or coordinate_moment, not both.")
    if coordinate_moment is not None:
        gamma = _validate.positive("coordinate_moment", coordinate_moment)
        return Moments(coordinate_lemma(gamma, task.n_weights), k)
    if moment is not None:
        return Moments(_validate.positive("moment", moment), k)
    if needed:
        raise AssumptionError(
            "a published schedule is made of moments: pass options={'moment': r, 'order': k} with "
            "(E ||gradient||^k)^(1/k) <= r, or use schedule='practical'."
        )
    return Moments(0.0, k)


def checked_order(order: float) -> float:
    """Return k; refuse 1 and less."""
    k = _validate.real("order", order)
    if not 1.0 < k < math.inf:
        raise ParameterError(
            f"order must be above 1, got {k!r}: a first moment bounds no bias. Use 2 (squares), or "
            "clip='auto', which needs no moments.",
            parameter="order",
        )
    return k


@dataclass(frozen=True)
class ClipChoice:
    """A clip, or the search for one, and the rows that are left for the rounds."""

    clip: float | None  # None: it is found
    search: ClipQuantileRelease | None
    rows: Rows
    length: float  # r_k of gradients or a guess; in units of the clip where it is found
    weight: float = 0.0  # of the indicator by which the clip follows the gradients; 0: it does not
    level: float = 0.0  # the quantile that it follows

    @property
    def public(self) -> float | None:
        """The clip of all rounds; None where a run finds it or moves it."""
        return None if self.weight else self.clip

    @property
    def unit(self) -> float:
        """The clip, or 1 where it is found or moves."""
        return 1.0 if self.public is None else self.public

    def bound(self, oracle: MeanOracle, size: int, share: float = 1.0) -> float:
        """Return what a row adds to a sum at most, clipped at ``share`` times the clip."""
        if self.weight:
            return tracked_bound(self.weight)
        return 1.0 if self.public is None else oracle.bound(share * self.public, size)


def chosen_clip(
    task: Task,
    clip: float | str | None,
    moments: Moments,
    *,
    rows: float,
    averaged: float = 1.0,
    oracle: str | MeanOracle = "l2_clip",
    way: str = "auto",
    rounds: int = 0,
) -> ClipChoice:
    """Return the clip of a solver, for means over ``rows`` of which ``averaged`` are averaged.

    Args:
        task: the public side of the fit.
        clip: a number; "moment"; "auto" to find it. None: by the moments if there are any, the
            usual clip if the loss bounds its gradients, else to find it.
        moments: what is known of gradients.
        rows: of one round.
        averaged: over how many rounds on different rows noise averages out.
        oracle: what the clip is the threshold of.
        way: how a search is paid for: "slice" of the rows, "share" of the budget, or "auto".
        rounds: in which a clip may follow the gradients, "tracked"; 0 if the solver has no such.
    """
    rule = chosen_oracle(oracle)
    if isinstance(clip, str):
        words = (*WORDS, TRACKED) if rounds else WORDS
        _validate.choice("clip", clip, words, hint="Or give a number.")
    if clip == TRACKED:
        tail = noise_tail(task, averaged=averaged) * task.n / rows
        return _tracked(task, rule, tail, rows, rounds)
    if clip is None:
        if moments.known:
            clip = "moment"
        elif not bounds_gradients(task) and isinstance(rule, L2Clip):
            clip = "auto"
    if clip == "auto":
        return _searched(task, rule, rows, averaged, way)
    everything = (0, task.n)
    if clip == "moment":
        limit = _moment_clip(task, moments, rule, rows, averaged)
        return ClipChoice(limit, None, everything, moments.moment)
    if clip is None:
        limit = descent_clip(task)
        if isinstance(rule, CoordinateClip):
            limit *= min(1.0, TALL / math.sqrt(task.n_weights))
    else:
        limit = task.gradient_bound(check_limit("clip", clip))
    guess = moments.moment if moments.known else PROXY * rule.bound(limit, task.n_weights)
    return ClipChoice(limit, None, everything, guess)


def _searched(task: Task, oracle: MeanOracle, rows: float, averaged: float, way: str) -> ClipChoice:
    """Return a search for the clip that the expected noise calls for."""
    if not isinstance(oracle, L2Clip):
        raise AssumptionError(
            f"clip='auto' finds an l2 clip, and the oracle is {type(oracle).__name__}: give its "
            "threshold as a number, or use oracle='l2_clip'."
        )
    tail = noise_tail(task, averaged=averaged) * task.n / rows
    search = clip_search(task, tail, way=way)
    return ClipChoice(None, search.release, search.rows, PROXY)


def _tracked(task: Task, oracle: MeanOracle, tail: float, rows: float, rounds: int) -> ClipChoice:
    """Return where a clip starts that follows the gradients: at their median if it can be found.

    Else far below the usual clip: clips shrink more slowly than they grow.
    """
    if not isinstance(oracle, L2Clip):
        raise AssumptionError(
            f"clip='tracked' follows an l2 clip, and the oracle is {type(oracle).__name__}: give "
            "its threshold as a number, or use oracle='l2_clip'."
        )
    times = max(1.0, rounds * rows / task.n)  # that a row is asked
    count = unit_noise(task) * tracked_bound() * math.sqrt(times) / (LIGHT * rows)
    level = tracked_level(tail, count)
    try:
        search = clip_search(task, max(tail, MEDIAN))
    except AssumptionError:
        start = low_start(descent_clip(task), rounds, level)
        return ClipChoice(start, None, (0, task.n), PROXY, LIGHT, level)
    return ClipChoice(None, search.release, search.rows, PROXY, LIGHT, level)


def _moment_clip(
    task: Task, moments: Moments, oracle: MeanOracle, rows: float, averaged: float
) -> float:
    """Return the threshold of least bias^2 + noise^2."""
    if not moments.known:
        raise AssumptionError(
            "clip='moment' needs a moment: pass options={'moment': r, 'order': k} with "
            "(E ||gradient||^k)^(1/k) <= r; or clip='auto', which finds a clip from the rows."
        )
    noise = unit_noise(task) * oracle.bound(1.0, task.n_weights)
    limit = moment_threshold(
        moments.moment,
        moments.order,
        rows=rows,
        noise=noise,
        size=task.n_weights,
        averaged=averaged,
    )
    return check_limit("clip", limit)


def bounds_gradients(task: Task) -> bool:
    """Return whether the loss bounds a row's gradient by itself, whatever labels and weights."""
    loss = task.problem.loss
    if isinstance(loss, MarginLoss):
        return math.isfinite(loss.slope_bound(task.label_bound, math.inf))
    return math.isfinite(task.lipschitz)


def unit_noise(task: Task) -> float:
    """Return z: the noise of a sum of rows bounded by 1 that spends the whole budget."""
    return task.budget.adjacency.factor / task.budget.mu_per_row()


def known_convexity(task: Task) -> float:
    """Return the strong convexity that the penalty and the loss are known to have."""
    own = 1.0 if isinstance(task.problem.loss, SquaredDistance) else 0.0
    return task.problem.penalty.strong_convexity + own


def noise_warning(ratio: float, rows: int) -> tuple[str, ...]:
    """Return a sentence if noise is above half of the clip on a mean gradient of so many rows."""
    if ratio <= LOUD:
        return ()
    return (
        f"noise is {ratio:.2g} times the clip on the mean gradient of {rows:,} rows, so the "
        "weights may be worse than those of the start. More rows, fewer columns or a larger "
        "epsilon help",
    )


# -- what plans hold -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ClipPlan(EnginePlan):
    """A plan whose threshold is public, found by its first release, or follows the gradients."""

    clip: float | None  # the oracle's threshold, or where it starts if it follows; None: found
    search: ClipQuantileRelease | None  # the first release; None if the clip is public
    oracle: MeanOracle  # how a row's gradient is bounded
    moment: float  # r_k or a guess; in units of the clip where it is found
    order: float  # k
    weight: float = 0.0  # of the indicator by which the clip follows the gradients; 0: it does not
    level: float = 0.0  # the quantile that it follows

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        if (self.clip is None) == (self.search is None):
            raise ParameterError("a plan has a clip or a search for one, not both.")
        if self.clip is not None:
            check_limit("clip", self.clip)
        if self.tracked:
            tracking_weight(self.weight)
            if not 0.0 < self.level < 1.0:
                raise ParameterError(
                    f"level must lie between 0 and 1, got {self.level!r}.", parameter="level"
                )
        if self.finds_clip and not isinstance(self.oracle, L2Clip):
            raise ParameterError("a clip that is found or follows is an l2 clip.")
        _validate.positive("moment", self.moment)
        checked_order(self.order)

    @property
    def tracked(self) -> bool:
        """Whether the clip follows the gradients."""
        return self.weight != 0.0

    @property
    def finds_clip(self) -> bool:
        """Whether bounds are in units of a clip that the run finds or moves."""
        return self.search is not None or self.tracked

    @property
    def choice(self) -> ClipChoice:
        """The clip, or how it is found."""
        rows, length = self.training_rows, self.moment
        return ClipChoice(self.clip, self.search, rows, length, self.weight, self.level)

    @property
    def unit(self) -> float:
        """The threshold, or 1 where it is found or moves."""
        return self.choice.unit

    @property
    def bound(self) -> float:
        """The l2 bound on what a row adds to a sum; in units of the clip where it is found."""
        return self.choice.bound(self.oracle, self.task.n_weights)

    @property
    def training_rows(self) -> Rows:
        """The rows that noisy sums may read: all, or those after the search's slice."""
        search = self.search
        shared = search is None or search.rows == (0, self.n)
        return (0 if shared or search is None else search.rows[1], self.n)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and how the oracle bounds a row."""
        if self.finds_clip or isinstance(self.oracle, L2Clip):
            return super().enforced
        query = self.oracle.query(self.problem.loss, self.task.start, self.unit)
        return (*self.problem.bounds.enforced, *query.enforced)

    def first(self) -> tuple[ClipQuantileRelease, ...]:
        """Return the release that finds the clip, if there is one."""
        return () if self.search is None else (self.search,)

    def tracking_warnings(self, rounds: int) -> tuple[str, ...]:
        """Return why a clip that follows the gradients may not arrive in so many rounds."""
        return tracking_warning(rounds) if self.tracked else ()


class ThresholdStepper(TrackedClipStepper):
    """A stepper that asks an oracle, whose threshold is public, found first, or follows."""

    plan: ClipPlan

    def ask(self, weights: Floats) -> Query:
        """Ask each row for its bounded gradient at the weights."""
        return self.plan.oracle.query(self._loss, weights, self.clip)

    @property
    def scale(self) -> float:
        """What one unit of the plan's lengths of gradients is."""
        return self.clip if self.plan.finds_clip else 1.0


def noise_of(
    task: Task,
    search: ClipQuantileRelease | None,
    releases: Sequence[tuple[float, Rows, int]],
) -> tuple[float, ...]:
    """Return the noise of Gaussian sums, (bound, rows, count) each, that fits the budget.

    It is proportional to the bound and to the root of the count; what touches no common row is paid
    for side by side.
    """

    def sigmas(noise: float) -> tuple[float, ...]:
        return tuple(noise * bound * math.sqrt(count) for bound, _, count in releases)

    def build(noise: float) -> list[GaussianRelease]:
        return [
            GaussianRelease(bound, sigma, rows=rows, count=count)
            for (bound, rows, count), sigma in zip(releases, sigmas(noise), strict=True)
        ]

    return sigmas(beside_clip(task.budget, search, build))
