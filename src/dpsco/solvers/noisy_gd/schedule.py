"""The schedule: a plan's rounds, releases and steps, and how they follow from the task."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...files.limits import MOST_RELEASES, MOST_ROUNDS
from ...privacy.mechanisms import GaussianRelease, gaussian_sigma
from ...privacy.release import Composition
from ...task import Task
from ..base import TraceLine
from ..common import refits
from ..common.clips import descent_clip
from ..common.loss_meter import check_follow
from ..common.smoothing import final_smoothing, nonsmooth, smoothing_for_steps
from ..engine import EnginePlan, part_of
from . import rates
from .steps import DescentStepper

RISE = 0.5  # rounds: momentum is t/(t + RISE) in round t until it is the planned one; both measured
PASSES = 60  # over the rows in batches, about
BATCHES = (4, 8)  # fewer save little; as many steps momentum averages, so that it sees all rows
CALM = 140.0  # z over the root of their number, for each weight, at least; measured
BATCH_ROWS = 5000  # at least
SMOOTHING_GROWTH = 8.0  # at least, from 200 rounds on: shorter steps at the end also calm noise
MANY = 1000  # weights from which on a plan warns of noise in flat directions, if they are
FLAT = (0.125, 800.0)  # of z between these; measured
STRAY = 0.2  # of a loss: from which on a plan over a narrow domain warns; measured


@dataclass(frozen=True, kw_only=True)
class Plan(EnginePlan):
    """All that a run needs, from public facts only."""

    rounds: int  # steps; each reads all rows, or the next of equal batches of them
    clip: float  # l2 bound on a row's gradient, enforced
    sigma: float  # of the noise on the sum, per coordinate; in units of a clip that follows
    step: float  # step size for the mean gradient
    momentum: float  # part of the velocity that a round keeps, in [0, 1)
    tail: int  # how many of the last iterates are averaged
    smoothing: float  # of the Moreau envelope that is descended; 0: the loss itself
    smoothing_growth: float  # factor by which it grows over the second half of the rounds
    batches: int = 1  # that the rows are cut into, in the run's order
    refit_rounds: int = 0  # full passes that refit the scale of scores and the intercepts
    refit_clip: float = 0.0  # l2 bound on a row's gradient in those, enforced
    refit_sigma: float = 0.0  # standard deviation of the noise on their sum
    refit_step: float = 0.0  # step size for the mean gradient in those
    follow: bool = False  # whether the clip shrinks, and the steps lengthen, as the loss falls
    room: float = 1.0  # times the step: how far noise lets it lengthen where the loss curves less

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        for name in ("step", "smoothing_growth", "room"):
            _validate.positive(name, getattr(self, name))
        _validate.integer("rounds", self.rounds, at_most=MOST_ROUNDS)
        _validate.integer("batches", self.batches, at_most=min(self.n, MOST_RELEASES))
        _check_passes(self.rounds, self.batches)
        _validate.integer("refit_rounds", self.refit_rounds, at_least=0, at_most=MOST_ROUNDS)
        for name in ("refit_clip", "refit_sigma", "refit_step") if self.refit_rounds else ():
            _validate.positive(name, getattr(self, name))
        _validate.integer("tail", self.tail)
        if _validate.flag("follow", self.follow):
            check_follow(self.task, self.clip)
            if self.batches > 1:
                raise ParameterError(
                    "the clip follows the loss of all rows: give batches=1, or leave out follow.",
                    parameter="batches",
                )
        # Of the averaged gradient, as a round takes it.
        _validate.positive("step", self.step / (1 - checked_momentum(self.momentum)))

    def releases(self) -> tuple[GaussianRelease | Composition, ...]:
        """Return the noisy sums, one per round: over all rows, or over one batch after the other.

        A batch costs the rows of the others nothing, so a row bears one sum for each pass.
        """
        rows, passes = (0, self.n), self.rounds // self.batches
        bound = 1.0 if self.follow else self.clip
        descent: GaussianRelease | Composition
        if self.batches == 1:
            descent = GaussianRelease(bound, self.sigma, rows=rows, count=passes)
        else:
            parts = (part_of(rows, self.batches, k) for k in range(self.batches))
            descent = Composition(
                tuple(GaussianRelease(bound, self.sigma, rows=part) for part in parts), passes
            )
        if not self.refit_rounds:
            return (descent,)
        refit = GaussianRelease(
            self.refit_clip, self.refit_sigma, rows=rows, count=self.refit_rounds
        )
        return (descent, refit)

    @property
    def finds_clip(self) -> bool:
        """Whether bounds of the descent's releases are in units of a clip."""
        return self.follow or super().finds_clip

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and the clip of each kind of rounds."""
        if not self.refit_rounds:
            return super().enforced
        stepper, sentences = DescentStepper(self), list(self.problem.bounds.enforced)
        for stepper.round in (0, self.rounds):
            sentences += stepper.query().enforced
        return tuple(sentences)

    def rows_at(self, t: int) -> int:
        """Return how many rows round t reads."""
        if t >= self.rounds:
            return self.n
        start, stop = part_of((0, self.n), self.batches, t % self.batches)
        return stop - start

    def longest_step(self, curvature: float) -> float:
        """Return the longest step that so much of the loss's curvature allows, or the planned."""
        longest = rates.longest_step(self.task, self.clip, self.smoothing, self.momentum)
        return max(self.step, longest / curvature)

    def smoothing_at(self, t: int) -> float:
        """Return the smoothing of round t: constant at first, then sharper and sharper."""
        late = max(0.0, 2.0 * (t + 1) / self.rounds - 1.0)
        return self.smoothing * math.pow(self.smoothing_growth, late)

    def schedule(self) -> Iterator[TraceLine]:
        """Yield one line per round: noise in the units of gradients, for the whole clip."""
        for line in super().schedule():
            in_units = self.follow and line.round <= self.rounds
            yield line._replace(sigma=line.sigma * self.clip) if in_units else line

    def step_at(self, t: int) -> float:
        """Return the step size of round t: never longer than the envelope's curvature allows."""
        if t >= self.rounds:
            return self.refit_step
        if self.smoothing == 0.0:
            return self.step
        return min(self.step, 1.0 / (self.smoothing_at(t) * self.task.feature_bound**2))

    def momentum_at(self, t: int) -> float:
        """Return the momentum of round t of the descent: it rises to what is planned.

        Where classes are uneven, all rows pull the same way at the start. A ball that is heavy by
        then overshoots, and swings for most of a run.
        """
        return min(self.momentum, (t + 1) / (t + 1 + RISE))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Whether so many weights share the rows above the noise that they may be worse than none.

        Measured on sparse rows of 1,000 to 1e6 columns: labels that the columns hardly explain then
        lose 2 to 29 % more than zero weights do. Caution makes it less where weights are more.
        """
        task = self.task
        low, high = (share * task.signal for share in FLAT)
        classes = task.problem.loss.labels in ("sign", "classes")
        if classes and task.n_weights < MANY and self._stray() > STRAY:
            return (
                f"noise alone may gain {self._stray():.2g} of the loss over {task.problem.domain}: "
                "if the columns say little of the label, the weights may be worse than none. A "
                "smaller radius or a larger epsilon help",
            )
        if not classes or task.n_weights < MANY or not low < task.n_weights < high:
            return ()
        if task.problem.scale is not None or math.isfinite(task.radius):
            return ()
        return (
            f"{task.n_weights:,} weights share {task.signal:,.0f} rows above the noise (n mu/"
            "sensitivity): if the columns say little of the label, the weights may be worse than "
            "none, by up to a third of the loss. Fewer columns or a larger epsilon help",
        )

    def _stray(self) -> float:
        """W sigma_1/n: what noise can gain of the loss over a narrow domain; 0 over others.

        Measured on sparse rows of 100 columns without any signal: zero weights' loss times 1.02 at
        0.12, 1.1 at 0.37 and 1.6 at 1.1. From 1,000 columns on the time ends before, at 1.05.
        """
        task, narrow = self.task, rates.narrowness(self.task)
        if narrow == 1.0:
            return 0.0
        return (
            self.sigma
            * self.batches
            / math.sqrt(self.rounds)
            / task.n
            * task.radius
            * narrow
            * math.sqrt(task.n_weights)
        )

    @property
    def risk(self) -> float:
        """The bound of the header at this plan's schedule."""
        return rates.risk(self.task)


def plan(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | None = None,
    step: float | None = None,
    momentum: float | None = None,
    tail: int | None = None,
    smoothing: float | None = None,
    smoothing_growth: float | None = None,
    batches: int = 1,
    refit: float = 0.0,
    follow: bool = False,
) -> Plan:
    """Return a plan; see the family's header for the default schedule.

    Args:
        rounds: steps, each a full pass over the rows unless there are batches.
        clip: bound on a row's gradient; by default its largest value at the start, or anywhere if
            the budget is large.
        step: step size for the mean gradient.
        momentum: the part of the velocity that a round keeps, at least 0 and below 1.
        tail: how many of the last iterates are averaged.
        smoothing: of the Moreau envelope of a nonsmooth loss; 0 descends the loss itself.
        smoothing_growth: by which factor the smoothing grows over the second half of the rounds.
        batches: that the rows are cut into, of which a step reads one; see `sparing_batches`.
        refit: the part of squared mu for rounds that refit scores: `dpsco.solvers.common.refits`.
        follow: whether the clip shrinks as the loss falls: `dpsco.solvers.common.loss_meter`.
    """
    refit = refits.checked_share(task, refit)
    bound = descent_clip(task, clip)
    thrift = 1.0 if not refit else refits.mu_part(1.0 - refit)
    time = rates.integrated_time(task, _sigma(task, bound) / thrift)
    rounds, passes = _checked_rounds(task, time, rounds, batches)
    smooth = descent_smoothing(task, rounds, smoothing)
    if momentum is None:
        momentum = rates.default_momentum(task, rounds, time, smooth)
    momentum = checked_momentum(momentum)
    if refit and clip is None:  # less noise goes farther in as many rounds
        bound, time = refits.CLIP_PART * bound, time / refits.CLIP_PART
    ideal = time * (1 - momentum) / rounds
    longest = rates.longest_step(task, bound, smooth, momentum)
    room = max(1.0, ideal / longest) if follow and step is None else 1.0
    step = min(ideal, longest) if step is None else _validate.positive("step", step)
    return Plan(
        solver="noisy_gd",
        task=task,
        rounds=rounds,
        clip=bound,
        sigma=_sigma(task, 1.0 if follow else bound, passes) / thrift,
        batches=batches,
        step=step,
        momentum=momentum,
        tail=_tail(task, rounds, smooth, ideal > longest, tail),
        smoothing=smooth,
        smoothing_growth=_growth(task, rounds, smooth, time, smoothing_growth),
        follow=follow,
        room=room,
        **refits.refit_plan(task, refit),
    )


def _sigma(task: Task, bound: float, passes: int = 1) -> float:
    """Return the noise on sums of so many passes over all rows, if they spend the whole budget."""
    return gaussian_sigma(task.budget, bound=bound, rows=(0, task.n), count=passes)


def sparing_batches(task: Task) -> int:
    """Return the number of batches that spares passes and costs next to nothing, 1 where none does.

    The many steps of a nonsmooth regression follow its envelope, and a part of the rows says as
    well where that leads. With K batches a step's noise is K times as large beside its sum, and a
    row bears a K-th of the steps: noise matters as if z were sqrt(K) times less.
    """
    if not nonsmooth(task) or task.problem.loss.labels != "real":
        return 1
    try:
        affordable = int((task.signal / (CALM * task.n_weights)) ** 2)
    except AssumptionError:  # a pure budget buys no Gaussian noise
        return 1
    time = rates.integrated_time(task, _sigma(task, descent_clip(task)))
    spared = round(rates.default_rounds(task, time) / PASSES)
    batches = min(spared, affordable, task.n // BATCH_ROWS, BATCHES[1])
    return batches if batches >= BATCHES[0] else 1


def descent_smoothing(task: Task, rounds: int, smoothing: float | None) -> float:
    """Return the smoothing that was asked for, or one that so many rounds can follow."""
    if smoothing is None:
        return smoothing_for_steps(task, rounds / (1 - rates.MOMENTUM))
    return _validate.non_negative("smoothing", smoothing)


def _growth(task: Task, rounds: int, smooth: float, time: float, growth: float | None) -> float:
    """Return how much sharper the envelope becomes: as far as noise R^2/h pays, unless asked."""
    if growth is not None:
        return _validate.positive("smoothing_growth", growth)
    least = min(max(1.0, rounds / 25), SMOOTHING_GROWTH)
    if smooth == 0.0:
        return least
    return max(least, final_smoothing(task, rounds, task.initial_distance**2 / time) / smooth)


def _tail(task: Task, rounds: int, smooth: float, short: bool, tail: int | None) -> int:
    """Return half of the rounds, or a quarter where the last are by far the best, unless asked.

    They are where an envelope becomes sharper, and where steps are too short to cover the time:
    but not over a narrow domain, which leaves the average less noise than any of them.
    """
    if tail is None:
        late = smooth > 0.0 or (short and rates.narrowness(task) == 1.0)
        return max(1, rounds // (4 if late else 2))
    return min(_validate.integer("tail", tail), rounds)


def _checked_rounds(task: Task, time: float, rounds: int | None, batches: int) -> tuple[int, int]:
    """Return the number of rounds, by default what the time asks for, and that of passes.

    Batches have noise that would ask for a shorter time, which cost up to 15 % on real tables.
    """
    batches = _validate.integer("batches", batches, at_most=min(task.n, MOST_RELEASES))
    if rounds is None:
        rounds = batches * math.ceil(rates.default_rounds(task, time) / batches)
    rounds = _validate.integer("rounds", rounds)
    _check_passes(rounds, batches)
    return rounds, rounds // batches


def _check_passes(rounds: int, batches: int) -> None:
    """Refuse rounds that end within a pass: noise is planned for rows that are all read alike."""
    if rounds % batches:
        raise ParameterError(
            f"rounds must be a multiple of batches, got {rounds} and {batches}.",
            parameter="rounds",
        )


def checked_momentum(value: float) -> float:
    """Return a momentum below 1."""
    number = _validate.non_negative("momentum", value)
    if number >= 1.0:
        raise ParameterError(f"momentum must be below 1, got {number}.", parameter="momentum")
    return number
