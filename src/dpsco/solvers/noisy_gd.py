"""Noisy gradient descent: full passes, Gaussian noise on the summed gradients, damped momentum.

Paper      Bassily, Smith, Thakurta 2014 (arXiv:1405.7085), Alg 1 with full batches; Dong, Roth, Su
           2019 (arXiv:1905.02383), Cor 3.3 for the exact composition of Gaussian releases.
Guarantee  mu-GDP with mu = sqrt(rounds / batches) * sensitivity / sigma, as a row is in one batch;
           clipping alone is relied upon, so it holds for every loss, convex or not.
Rate       E[F(w_bar) - F*] <= R^2/(2 h) + h d (sigma_1/n)^2 / 2 + step G^2 / 2 with h = step rounds
           and sigma_1 the noise of a single release: R sigma_1 sqrt(d) / n at the best h. A domain
           of Gaussian width W caps the second term at W sigma_1 / n, up to a constant.
Needs      rows bounded in l2. Convexity for the rate only.
Symbols    R, G, T, eta -> distance, clip, rounds, step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .. import _validate
from ..data.queries import ClippedGradient, InUnits, Query
from ..data.scores import ScoreGradient
from ..errors import AssumptionError, ParameterError
from ..files.limits import MOST_RELEASES, MOST_ROUNDS
from ..geometry.domains import LpBall, Polytope, Simplex
from ..geometry.width import l2_ball_width
from ..privacy.mechanisms import GaussianRelease, gaussian_sigma
from ..privacy.release import Composition
from ..task import Task
from . import needs
from .base import Floats, Measured, MeasuredRange, Solver, TraceLine
from .common import refits
from .common.clips import cautious_clip, descent_clip, finite
from .common.loss_meter import LossMeter, check_follow
from .common.smoothing import final_smoothing, nonsmooth, smoothing_for_steps, surrogate_loss
from .engine import EnginePlan, Stepper, no_numbers, part_of

MOMENTUM = 0.9
DAMPING = 0.5  # of the way from heavy balls (0) to Nesterov's momentum (1)
RISE = 0.5  # rounds: momentum is t/(t + RISE) in round t until it is the planned one; both measured
ROUNDS = (60, 200)  # full passes by default: on large tables, and on small ones
MAX_FLOPS = 1e9  # products that a small table may take: about a second
LONGEST = 300  # full passes by default where a smooth loss has far to go
LONG_FLOPS = 1e10  # products that these may take: a few seconds
NARROW_FLOPS = 1e11  # the same over narrow domains: rows that go with them are mostly sparse
NONSMOOTH_ROUNDS = 2000  # full passes by default where a nonsmooth loss is worth following closely
REGRESSION_ROUNDS = 1000  # the same for labels that are numbers: half of them lost up to 13 %
NONSMOOTH_FLOPS = 3e9  # products that these may take: a few seconds
PASSES = 60  # over the rows in batches, about
BATCHES = (4, 8)  # fewer save little; as many steps momentum averages, so that it sees all rows
CALM = 140.0  # z over the root of their number, for each weight, at least; measured
BATCH_ROWS = 5000  # at least
ROUNDS_FRACTION = 0.25  # of the rounds that noise justifies: how many a table gets beyond MAX_FLOPS
SMOOTHING_GROWTH = 8.0  # at least, from 200 rounds on: shorter steps at the end also calm noise
WARM_UP = 10.0  # rounds divided by 1/(1 - momentum), at least: heavy balls start slowly
NARROW_WARM_UP = (3.0, 16.0)  # the same over narrow domains, where z is small and large: so many
STARTS_PER_ROW = 1.6  # for each of z per weight; both measured on sparse rows with an l1 ball
NARROW_STEPS = 6.0  # of full length over such domains, times z/width; measured on those rows, too
WIDE = 10_000  # columns: beyond, a table is sparse in practice, and its rows count as so many:
WIDE_ENTRIES = 300
NOISE_FLOPS = 40  # products that take as long as one number of noise
DIRECTIONS = 2.0  # for each unit of z, in which rows take noise back: measured on text and images
CAUTION = 0.25  # power of those over the number of weights in `_caution`; measured
MANY = 1000  # weights from which on a plan warns of noise in flat directions, if they are
FLAT = (0.125, 800.0)  # of z between these; measured
STRAY = 0.2  # of a loss: from which on a plan over a narrow domain warns; measured
WIDTH_SAMPLES = 256  # directions for the width of a polytope: within 1 to 5 %


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
        checked_momentum(self.momentum)

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
        longest = _longest_step(self.task, self.clip, self.smoothing, self.momentum)
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
        task, narrow = self.task, narrowness(self.task)
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
        return risk(self.task)


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
    """Return a plan; see the module's header for the default schedule.

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
    time = _time(task, gaussian_sigma(task.budget, bound=bound, rows=(0, task.n)) / thrift)
    rounds, passes = _checked_rounds(task, time, rounds, batches)
    smooth = descent_smoothing(task, rounds, smoothing)
    curvature = _curvature(task, smooth)
    if momentum is None:
        momentum = _default_momentum(task, rounds, time * curvature / _stretch(smooth, MOMENTUM))
    momentum = checked_momentum(momentum)
    if refit and clip is None:  # less noise goes farther in as many rounds
        bound, time = refits.CLIP_PART * bound, time / refits.CLIP_PART
    ideal = time * (1 - momentum) / rounds
    longest = _longest_step(task, bound, smooth, momentum)
    room = max(1.0, ideal / longest) if follow and step is None else 1.0
    step = min(ideal, longest) if step is None else _validate.positive("step", step)
    unit = 1.0 if follow else bound
    late = smooth > 0.0 or (ideal > longest and narrowness(task) == 1.0)
    return Plan(
        solver="noisy_gd",
        task=task,
        rounds=rounds,
        clip=bound,
        sigma=gaussian_sigma(task.budget, bound=unit, rows=(0, task.n), count=passes) / thrift,
        batches=batches,
        step=step,
        momentum=momentum,
        tail=_tail(rounds, late, tail),
        smoothing=smooth,
        smoothing_growth=_growth(task, rounds, smooth, time, smoothing_growth),
        follow=follow,
        room=room,
        **refits.refit_plan(task, refit),
    )


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
    single = gaussian_sigma(task.budget, bound=descent_clip(task), rows=(0, task.n))
    spared = round(_default_rounds(task, _time(task, single)) / PASSES)
    batches = min(spared, affordable, task.n // BATCH_ROWS, BATCHES[1])
    return batches if batches >= BATCHES[0] else 1


class DescentStepper(Stepper):
    """Descends with momentum, and averages the last iterates.

    Velocity v is m v + g, and the weights move by v and a part of its change. No part is a heavy
    ball, all of it Nesterov's momentum. That part slows down in directions of much curvature alone,
    where a heavy ball swings. Half of it is stable for all steps that a heavy ball is stable for.

    Rounds that refit do the same from the average on, in few directions; their last half is
    averaged again. A clip that follows the loss is ``plan.clip`` times ``part``, and steps are as
    much longer; they lengthen further where noise is not what limits them and the loss has fallen
    so far that it curves less.
    """

    vectors: ClassVar[tuple[str, ...]] = (
        "weights",
        "velocity",
        "average",
        "along",
        "part",
        "move",
        "reading",
    )

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan, self.weights = plan, plan.task.start
        self.velocity, self.average = (np.zeros(len(self.weights)) for _ in range(2))
        self.along = no_numbers(len(self.weights))
        self.part = np.ones(1)  # of the clip in the next round
        # The last move of a descent that follows the loss; else nothing.
        self.move = np.zeros(len(self.weights) if plan.follow else 0)
        self._meter = None
        if plan.follow:
            self._meter = LossMeter(plan.task, plan.sigma / plan.n, plan.clip, plan.rounds)

    @property
    def reading(self) -> Floats:
        """What the meter of the loss has read; nothing where the clip does not follow it."""
        return np.zeros(0) if self._meter is None else self._meter.reading

    @reading.setter
    def reading(self, value: Floats) -> None:
        if self._meter is not None:
            self._meter.reading = value

    @property
    def clip(self) -> float:
        """The clip of the next round of the descent."""
        return self.plan.clip * float(self.part[0])

    def query(self) -> Query:
        """Ask for the gradients of the loss, or of an envelope of it, at the weights."""
        plan = self.plan
        if self.round >= plan.rounds:
            return self._scores()
        loss = surrogate_loss(plan.task, plan.smoothing_at(self.round))
        gradient = ClippedGradient(loss, self.weights, self.clip)
        return InUnits(gradient) if plan.follow else gradient

    def step(self, answer: Floats) -> None:
        """Move on the noisy sum of the gradients."""
        plan, last, tail = self.plan, self.plan.rounds, self.plan.tail
        momentum, kept = plan.momentum, plan.momentum_at(self.round)
        gradient = answer * self.clip if plan.follow else answer
        if self.round >= last:
            last, tail = plan.total_rounds, (plan.refit_rounds + 1) // 2
            momentum = kept = refits.MOMENTUM
            gradient = self._scores().lift(answer)
        meter = self._meter if self.round < plan.rounds else None
        step = plan.step_at(self.round) / (1 - momentum)  # of the averaged gradient
        if meter is not None:
            meter.arrive(self.round, gradient / plan.n, self.move, self.clip)
            step = self._lengthened(meter) / (1 - momentum)
        change = (1 - momentum) * gradient
        change /= plan.rows_at(self.round)
        self.velocity *= kept
        self.velocity += change
        # The velocity and a part of its change: (1 + part kept) v - part kept (v before).
        steady = 1 - DAMPING * (1 - kept)
        change *= DAMPING / steady
        change += self.velocity
        change *= step * steady
        if meter is not None:
            self.move = -change
            gain = step * (1 - momentum) * (1 + DAMPING * kept)
            meter.leave(gradient / plan.n, self.move, self.clip, gain)
            self._follow(meter)
        moved = finite(np.subtract(self.weights, change, out=change))
        self.weights = plan.problem.domain.project(plan.problem.penalty.prox(moved, step))
        if self.round >= last - tail:
            self.average += self.weights / tail
        if plan.refit_rounds and self.round + 1 == plan.rounds:
            self._begin_refit()

    def output(self) -> Floats:
        """Return the average."""
        return self.plan.problem.domain.project(self.average)

    def _lengthened(self, meter: LossMeter) -> float:
        """Return the step of a round with this clip: as long as noise and curvature let it be."""
        plan = self.plan
        return min(plan.room * plan.step / self.part[0], plan.longest_step(meter.curvature()))

    def _follow(self, meter: LossMeter) -> None:
        """Set the clip of the next round: steps cannot lengthen for a smaller one."""
        least = self.plan.step / self.plan.longest_step(meter.curvature())
        self.part = np.array([max(meter.part(self.round + 1), least)])

    def _begin_refit(self) -> None:
        """Go on from the average, at rest."""
        self.weights = finite(self.average)
        self.along = refits.unit_of_scores(self.plan.task, self.weights)
        self.velocity, self.average = np.zeros((2, len(self.weights)))

    def _scores(self) -> ScoreGradient:
        """Return what a round that refits asks for."""
        plan = self.plan
        offset = refits.unit_of_intercepts(plan.task)
        return ScoreGradient(plan.problem.loss, self.weights, self.along, offset, plan.refit_clip)


def risk(task: Task) -> float:
    """Return the predicted excess risk: the header's bound at the best integrated time."""
    bound = cautious_clip(task)
    single = gaussian_sigma(task.budget, bound=bound, rows=(0, task.n)) / task.n
    noise = single * math.sqrt(task.n_weights) * narrowness(task)
    return task.initial_distance * (noise + bound / math.sqrt(task.n))


def _time(task: Task, single: float) -> float:
    """Return h = step * rounds, at which bias R^2/(2h) and noise h d (single/n)^2/2 are equal.

    Over a narrow domain noise gains W single/n at most, however long it runs, W the Gaussian width.
    That equals the bias at a time longer by R sqrt(d)/W. In units of the radius W is w, sqrt(2 ln 2
    d) for an l1 ball, and a gradient has noise of its clip times w/z in the directions that the
    domain leaves. So where weights outnumber z, the time ends with a number of steps that goes with
    z/w, whatever the radius: one that is too large would only let more noise in. Where z is larger,
    the usual time is taken if that is longer.
    """
    distance = _caution(task) * task.initial_distance
    usual = distance * task.n / (single * math.sqrt(task.n_weights))
    if narrowness(task) == 1.0 or not math.isfinite(task.smoothness):
        return usual
    width = narrowness(task) * math.sqrt(task.n_weights)
    steps = NARROW_STEPS * task.signal / width
    narrow = min(steps * _stretch(0.0, MOMENTUM) / task.smoothness, usual / narrowness(task))
    return narrow if _outnumbered(task) else max(usual, narrow)


def _outnumbered(task: Task) -> bool:
    """Return whether the domain is narrow, and weights outnumber the rows above the noise."""
    return narrowness(task) < 1.0 and task.signal < task.n_weights


def narrowness(task: Task) -> float:
    """Return the domain's Gaussian width over that of the l2 ball of its radius; 1 at most.

    It is sqrt(2 ln(2 d)/d) for an l1 ball, and 1 wherever the width is not known in a moment.
    """
    domain, d = task.problem.domain, task.n_weights
    if not isinstance(domain, (LpBall, Simplex, Polytope)) or task.radius == 0.0:
        return 1.0
    width = domain.gaussian_width(d, WIDTH_SAMPLES).value
    return min(1.0, width / l2_ball_width(d, task.radius).value)


def _caution(task: Task) -> float:
    """Return the share of the usual distance that is worth going: less if weights outnumber z.

    At the time of `_time` noise moves a prediction by R X/sqrt(d), 2 for classes. The rows'
    curvature takes that back in about twice as many directions as z = n mu/sensitivity. All others
    are flat: their noise stays, and on rows that teach little it is all there is. At d = 20 z it
    then moves a prediction by 1.1, which costs a tenth of a loss of log 2 at most. Who bounds or
    names the distance knows better.
    """
    if task.problem.scale is not None or math.isfinite(task.radius):
        return 1.0
    return min(1.0, math.pow(DIRECTIONS * task.signal / task.n_weights, CAUTION))


def descent_smoothing(task: Task, rounds: int, smoothing: float | None) -> float:
    """Return the smoothing that was asked for, or one that so many rounds can follow."""
    if smoothing is None:
        return smoothing_for_steps(task, rounds / (1 - MOMENTUM))
    return _validate.non_negative("smoothing", smoothing)


def _growth(task: Task, rounds: int, smooth: float, time: float, growth: float | None) -> float:
    """Return how much sharper the envelope becomes: as far as noise R^2/h pays, unless asked."""
    if growth is not None:
        return _validate.positive("smoothing_growth", growth)
    least = min(max(1.0, rounds / 25), SMOOTHING_GROWTH)
    if smooth == 0.0:
        return least
    return max(least, final_smoothing(task, rounds, task.initial_distance**2 / time) / smooth)


def _default_momentum(task: Task, rounds: int, needed: float) -> float:
    """Return 0.9, or more where so many steps of full length would not last.

    Without momentum ``needed`` = h * smoothness steps cover the integrated time h; momentum m makes
    each count 1/(1-m) times, after a start of as many rounds.
    """
    return max(MOMENTUM, min(1.0 - rounds / needed, 1.0 - _warm_up(task) / rounds))


def _warm_up(task: Task) -> float:
    """Return how many starts of the momentum a run is long.

    A narrow domain takes away most of the noise of a step, and the velocity has averaged the noise
    of 1/(1-m) rounds by then. So few and slow starts leave least of it where weights outnumber z:
    an l1 ball of 20,000 columns keeps a third of the excess with 3, and a half with 10. Where rows
    outweigh the noise, slow starts swing instead.
    """
    if narrowness(task) == 1.0 or not math.isfinite(task.smoothness):
        return WARM_UP
    per_weight = task.signal / task.n_weights
    least, most = NARROW_WARM_UP
    return min(max(least, STARTS_PER_ROW * per_weight), most)


def _curvature(task: Task, smooth: float) -> float:
    """Return the smoothness of what is descended."""
    return task.smoothness if smooth == 0.0 else smooth * task.feature_bound**2


def _longest_step(task: Task, clip: float, smooth: float, momentum: float) -> float:
    """Return the longest step that the curvature allows, or that a guess does where it is none."""
    curvature = _curvature(task, smooth)
    if not math.isfinite(curvature):
        return task.initial_distance / clip
    return _stretch(smooth, momentum) / curvature


def _stretch(smoothing: float, momentum: float) -> float:
    """Return the longest step in units of 1/L, L the curvature.

    On a quadratic, heavy balls converge below 2 (1 + momentum)/L, and half of that is taken. An
    envelope is sharper than the loss in places, and gets 1/L.
    """
    return 1.0 if smoothing else 1.0 + momentum


def _tail(rounds: int, late: bool, tail: int | None) -> int:
    """Return half of the rounds, or a quarter where the last are by far the best, unless asked."""
    if tail is None:
        return max(1, rounds // (4 if late else 2))
    return min(_validate.integer("tail", tail), rounds)


def _checked_rounds(task: Task, time: float, rounds: int | None, batches: int) -> tuple[int, int]:
    """Return the number of rounds, by default what the time asks for, and that of passes.

    Batches have noise that would ask for a shorter time, which cost up to 15 % on real tables.
    """
    batches = _validate.integer("batches", batches, at_most=min(task.n, MOST_RELEASES))
    if rounds is None:
        rounds = batches * math.ceil(_default_rounds(task, time) / batches)
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


def _default_rounds(task: Task, time: float) -> int:
    """Return how many full passes: many where they are cheap, for their noise averages out.

    A smooth loss gets as many as it takes to cover the integrated time with the most momentum that
    so many rounds allow, rounds^2/WARM_UP steps of full length, if that is affordable. A nonsmooth
    loss gets as many as the sharpest envelope of any use takes.
    """
    work = _work(task)
    few = round(min(max(MAX_FLOPS / work, ROUNDS[0]), ROUNDS[1]))
    if nonsmooth(task):
        return max(few, _nonsmooth_rounds(task, time, work))
    if not math.isfinite(task.smoothness):
        return few
    needed = math.sqrt(_warm_up(task) * time * task.smoothness / _stretch(0.0, MOMENTUM))
    affordable = LONG_FLOPS if narrowness(task) == 1.0 else NARROW_FLOPS
    least = ROUNDS[0] if _outnumbered(task) else few
    return max(least, round(min(needed, affordable / work, LONGEST)))


def _work(task: Task) -> float:
    """Return about how many products a pass takes, its noise included where that is much.

    A plan does not know whether rows are sparse. Those of more than `WIDE` columns are: dense ones
    would hardly fit into memory.
    """
    if task.columns <= WIDE:
        return float(task.n * task.n_weights)
    entries = task.n_weights / task.columns * WIDE_ENTRIES
    return task.n * entries + NOISE_FLOPS * task.n_weights


def _nonsmooth_rounds(task: Task, time: float, work: float) -> int:
    """Return T at which envelope L0^2/(2 b), descent 2 b X^2 R^2/T^2 and noise R^2/h are equal.

    That is T = L0 X h/R, or n mu/sqrt(d) but for the adjacency: the distance cancels out. All of
    them are taken while they are cheap, and a part where they are dear. Residuals hardly bunch at
    the one point where the loss of a number jumps, so a rounder envelope serves them as well.
    """
    needed = task.lipschitz * time / task.initial_distance
    cheap, dear = (
        min(needed, MAX_FLOPS / work),
        min(ROUNDS_FRACTION * needed, NONSMOOTH_FLOPS / work),
    )
    most = NONSMOOTH_ROUNDS if task.problem.loss.labels == "sign" else REGRESSION_ROUNDS
    return round(min(max(cheap, dear), most))


def _gradients(task: Task) -> float:
    try:
        single = gaussian_sigma(task.budget, bound=descent_clip(task), rows=(0, task.n))
        return float(_default_rounds(task, _time(task, single)) * task.n)
    except (AssumptionError, ArithmeticError):  # nothing is known, and nothing will be predicted
        return float(ROUNDS[1] * task.n)


SOLVERS = (
    Solver(
        key="noisy_gd",
        summary="Full-batch gradient descent with momentum; exact Gaussian composition.",
        paper="Bassily, Smith, Thakurta 2014",
        reference="Alg 1 (full batches); Dong, Roth, Su 2019, Cor 3.3",
        setting="any loss, any domain with a projection",
        needs=(needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN),
        rounds=f"T (default {ROUNDS[0]} to {LONGEST}; {NONSMOOTH_ROUNDS} at most if nonsmooth)",
        cost="n T gradients",
        plan=plan,
        stepper=DescentStepper,
        risk=risk,
        gradients=_gradients,
        plan_type=Plan,
        measured=Measured(0.066, 0.067),
        range=MeasuredRange((300, 1e6), (1, 1e6), (0.005, 4)),
        order=0,  # it applies nearly everywhere
    ),
)
