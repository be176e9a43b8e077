"""Plans of the few-round solvers, and the public numbers that go into them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ... import _validate
from ...data.row_norms import check_limit
from ...errors import AssumptionError, ParameterError
from ...losses.base import MarginLoss
from ...privacy.budget import ApproxDP, Budget
from ...privacy.mechanisms import prefix_sum_sigma
from ...privacy.mechanisms.prefix_sum.mechanism import PrefixMechanism
from ...problem import Loss, Problem
from ...task import Task
from ..base import Round
from ..common.smoothing import SMOOTHED_SHARE, TOUCHED, surrogate_loss
from ..engine import BatchPlan, check_rounds
from . import rates as schedules
from .rates import Scales

BATCH = "srg_online_to_batch"


@dataclass(frozen=True, kw_only=True)
class Plan(BatchPlan):
    """All that a run needs, from public task only."""

    beta: float  # inverse step size
    z_factor: float  # of the mirror step z_factor (t + 1)/beta; 1/2 is what the proof needs
    smoothing: float  # of the Moreau envelope that is descended; 0: the loss itself
    certified: bool  # whether moves are kept so short that no clip acts
    population_smoothness: float  # of the mean loss, as far as the plan knows; privacy does not ask

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        super().__post_init__()
        for name in ("beta", "z_factor", "population_smoothness"):
            _validate.positive(name, getattr(self, name))
        check_limit("clip", self.clip)  # as the queries of a run do, but before anything is paid
        _validate.non_negative("smoothing", self.smoothing)
        if not isinstance(self.certified, bool):
            raise ParameterError(
                f"certified must be True or False, got {_validate.shown(self.certified)}."
            )
        if isinstance(self.problem, Problem):
            surrogate_loss(self.task, self.smoothing)  # refuses losses that have no such envelope

    def schedule(self) -> Iterator[Round]:
        """Yield the rounds, a batch each; the step is that of a mean gradient."""
        for t, rows in enumerate(self.batches()):
            yield Round(t + 1, rows, 1.0 / self.beta, self.sigma)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and the clip."""
        if self.mechanism is None:
            return super().enforced
        return (
            *self.problem.bounds.enforced,
            "a row's weighted difference of two gradients has l2 norm at most "
            f"{self.clip:g}, by clipping",
        )

    @cached_property
    def loss(self) -> Loss:
        """The loss that is descended: the problem's, or a smooth one close to it."""
        return surrogate_loss(self.task, self.smoothing)

    def max_step_norm(self, t: int) -> float:
        """Return how far the point may move after round t.

        A row's next contribution has length at most L + (t + 1) M |move|. Certified moves keep that
        below C. Others keep what a typical row adds below a multiple of C: if most rows are cut,
        the prefix sum does not follow the gradient any more, and the points swing for good.
        """
        bound, smoothness = row_constants(self.task, self.smoothing)
        if self.certified:
            return (self.clip - bound) / ((t + 1) * smoothness)
        if self.mechanism is None or not math.isfinite(smoothness):  # gradients, or nothing known
            return math.inf
        typical = math.sqrt(smoothness * min(self.population_smoothness, smoothness))
        leash = (
            schedules.SHORT_TRUST_REGION_FACTOR
            if self.solver == BATCH
            else schedules.TRUST_REGION_FACTOR
        )
        return leash * self.clip / ((t + 1) * typical)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Whether noise and sampling outweigh all that there is to learn."""
        scales = public_scales(self.task, self.clip, self.population_smoothness)
        if scales.alpha < 1.0:
            return ()
        return (
            f"too few rows for this budget: sampling and noise cost {scales.alpha:.2g} times what "
            "there is to gain, so the weights may be worse than those of the start",
        )

    @property
    def risk(self) -> float:
        """What to expect at this plan's rounds, with the noise that it has; the header says how."""
        scales = public_scales(self.task, self.clip, self.population_smoothness)
        norm = 1.0 if self.mechanism is None else self.mechanism.column_norm
        # A clip above the gradients' bound, or published noise, costs more than the budget's price.
        scales = dataclasses.replace(scales, price=self.sigma / (norm * scales.gradient))
        if self.mechanism is None:
            return schedules.independent_excess(scales, self.rounds, self.beta)
        error = schedules.largest_error(self.mechanism)
        return schedules.recursive_excess(scales, self.rounds, self.beta, error)


@dataclass(frozen=True)
class Asked:
    """What the user asks for; None: the schedule decides."""

    rounds: int | None
    beta: float | None
    clip: float | None
    noise: str | PrefixMechanism | None
    population_smoothness: float | None
    certified: bool = False
    z_factor: float = 0.5


def public_scales(task: Task, clip: float | None, population_smoothness: float | None) -> Scales:
    """Return the numbers that schedules ask for; a hint of the smoothness only ever lowers it."""
    gradient = task.gradient_bound(clip)
    price = task.budget.adjacency.factor / task.budget.mu_per_row()
    scales = Scales(task.n, task.n_weights, gradient, 1.0, task.initial_distance, price)
    _, smoothness = row_constants(task, default_smoothing(task, scales.alpha))
    if not math.isfinite(smoothness):
        smoothness = gradient / task.initial_distance  # M R/L = 1
    if population_smoothness is not None:
        hint = _validate.positive("population_smoothness", population_smoothness)
        smoothness = min(smoothness, hint)
    return dataclasses.replace(scales, smoothness=smoothness)


def default_smoothing(task: Task, alpha: float) -> float:
    """Return how much a kink is smoothed, or a bend that is as sharp as one; 0 without either.

    A row that turns from one slope to the other within few rounds is cut, t times over, and the
    sums do not recover what was cut. So a bend sharper than a fifth of the labels' scale counts as
    a kink. No kink stays sharper than that, and its envelope is to cost no more than sampling and
    noise, L R alpha, in practice.
    """
    slope, loss = task.lipschitz / task.feature_bound, task.problem.loss
    if not isinstance(loss, MarginLoss) or not task.constants.convex:
        return 0.0
    gentle, sharp = (
        slope / (SMOOTHED_SHARE * task.margin_scale),
        task.smoothness / task.feature_bound**2,
    )
    bounded = math.isfinite(loss.slope_bound(task.label_bound, math.inf))
    if not bounded or sharp <= gentle * (1 + 1e-9):
        return 0.0
    worthwhile = TOUCHED * slope * slope / (2.0 * task.lipschitz * task.initial_distance * alpha)
    # Curvatures of an envelope add up like resistances; a kink's is infinite.
    return 1.0 / (1.0 / min(gentle, worthwhile) - 1.0 / sharp)


def row_constants(task: Task, smoothing: float) -> tuple[float, float]:
    """Return the gradient bound and the smoothness of a row's loss, as it is descended."""
    if smoothing == 0.0:
        return task.lipschitz, task.smoothness
    envelope = smoothing * task.feature_bound**2
    return task.lipschitz, 1.0 / (1.0 / envelope + 1.0 / task.smoothness)


def chosen_clip(task: Task, smoothing: float, scales: Scales, asked: Asked) -> float:
    """Return the clip: the gradient's bound by default, twice that where no clip is to act.

    Where gradients turn fast and noise hardly matters, a wider clip cuts less and costs nothing.
    """
    if not asked.certified:
        bound = schedules.widened(scales) if asked.clip is None else asked.clip
        return _validate.positive("clip", bound)
    bound, smoothness = row_constants(task, smoothing)
    if not (math.isfinite(bound) and math.isfinite(smoothness)):
        raise AssumptionError(
            "certified=True needs a loss with bounded gradients and finite smoothness over its "
            f"domain; {task.problem.loss.name} has {bound:g} and {smoothness:g}."
        )
    clip = 2.0 * bound if asked.clip is None else _validate.positive("clip", asked.clip)
    if clip <= bound:
        raise ParameterError(
            f"certified=True needs a clip above the gradient bound {bound:g}, got {clip:g}: the "
            "points could not move."
        )
    return clip


def chosen_sigma(
    budget: Budget, clip: float, n: int, stream: PrefixMechanism, calibration: str
) -> float:
    """Return the noise on the sum of a batch; the accountant checks the published one."""
    if calibration != "paper":
        return prefix_sum_sigma(budget, bound=clip, rows=(0, n), mechanism=stream)
    if stream.name != "tree" or not isinstance(budget, ApproxDP):
        raise AssumptionError(
            "calibration='paper' is the binary tree of Lemma 8 for an (epsilon, delta) budget; got "
            f"noise {stream.name!r} and {budget}."
        )
    reach = budget.adjacency.sensitivity(clip)
    return schedules.tree_sigma(stream.rounds, reach, budget.epsilon, budget.delta)


def full_tree(rounds: int, n: int) -> int:
    """Return the next 2^h - 1: a tree of so many leaves has the fewest levels for its size."""
    full: int = 2 ** rounds.bit_length() - 1
    return full if full <= n else rounds


def published_schedule(schedule: str, task: Task, rounds: int | None) -> schedules.Published:
    """Return a schedule of the paper, or why it does not apply."""
    bound, radius = task.lipschitz, task.radius
    if not (math.isfinite(bound) and math.isfinite(radius)):
        raise AssumptionError(
            f"schedule={schedule!r} needs a bounded domain and bounded gradients; {task.problem} "
            f"has weights up to a length of {radius:g} and gradients up to {bound:g}."
        )
    rounds = None if rounds is None else check_rounds(rounds, task.n)
    if schedule == "paper_general":
        if not math.isfinite(task.smoothness):
            raise AssumptionError("schedule='paper_general' needs a smooth loss.")
        return schedules.general(task.n, bound, task.smoothness, radius, rounds)
    if not isinstance(task.budget, ApproxDP):
        raise AssumptionError("schedule='paper_realizable' needs an (epsilon, delta) budget.")
    return schedules.realizable(
        task.n, task.n_weights, bound, radius, task.budget.epsilon, task.budget.delta
    )
