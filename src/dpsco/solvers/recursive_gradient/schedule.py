"""The plan of every solver of the family, and its default schedule."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property

from ... import _validate
from ...data.row_norms import check_limit
from ...errors import AssumptionError, ParameterError
from ...losses.base import MarginLoss
from ...privacy.budget import ApproxDP, Budget
from ...privacy.mechanisms import gaussian_sigma, prefix_sum_sigma
from ...privacy.mechanisms.prefix_sum.mechanism import PrefixMechanism
from ...problem import Loss, Problem
from ...task import Task
from ..common.batches import BatchPlan, check_rounds, chosen_mechanism, landau, largest_error
from ..common.clips import descent_clip
from ..common.smoothing import SMOOTHED_SHARE, TOUCHED, surrogate_loss
from . import rates
from .published import SCHEDULES, published_schedule, tree_sigma
from .rates import Scales

ACCELERATED, INDEPENDENT = "acc_srgd", "acc_independent"
PLAIN, BATCH = "srg_sgd", "srg_online_to_batch"


@dataclass(frozen=True, kw_only=True)
class Plan(BatchPlan):
    """All that a run needs, from public facts only."""

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
        _validate.store(self, "certified", _validate.flag("certified", self.certified))
        if isinstance(self.problem, Problem):
            surrogate_loss(self.task, self.smoothing)  # refuses losses that have no such envelope

    def step_at(self, t: int) -> float:
        """Return the step of a mean gradient."""
        return 1.0 / self.beta

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
        short = self.solver == BATCH
        factor = rates.SHORT_TRUST_REGION_FACTOR if short else rates.TRUST_REGION_FACTOR
        return factor * self.clip / ((t + 1) * typical)

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
        # A clip above the gradients' bound, or published noise, is more than the budget asks for.
        scales = dataclasses.replace(scales, noise_multiplier=self.sigma / (norm * scales.gradient))
        if self.mechanism is None:
            return rates.independent_excess(scales, self.rounds, self.beta)
        error = largest_error(self.mechanism)
        return rates.recursive_excess(scales, self.rounds, self.beta, error)


@dataclass(frozen=True)
class Options:
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
    multiplier = task.budget.adjacency.factor / task.budget.mu_per_row()
    scales = Scales(task.n, task.n_weights, gradient, 1.0, task.initial_distance, multiplier)
    _, smoothness = row_constants(task, default_smoothing(task, scales.alpha))
    if not math.isfinite(smoothness):
        smoothness = gradient / task.initial_distance  # M R/L = 1
    if population_smoothness is not None:
        hint = _validate.positive("population_smoothness", population_smoothness)
        smoothness = min(smoothness, hint)
    return dataclasses.replace(scales, smoothness=smoothness)


def default_smoothing(task: Task, alpha: float) -> float:
    """Return how much a nonsmooth loss is smoothed, or one that bends as sharply; else 0.

    A row that turns from one slope to the other within few rounds is cut, t times over, and the
    sums do not recover what was cut. So a loss that bends within a fifth of the labels' scale
    counts as nonsmooth. No envelope bends more sharply than that, and it is to cost no more than
    sampling and noise, L R alpha, in practice.
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
    # Curvatures of an envelope add up like resistances; that of a nonsmooth loss is infinite.
    return 1.0 / (1.0 / min(gentle, worthwhile) - 1.0 / sharp)


def row_constants(task: Task, smoothing: float) -> tuple[float, float]:
    """Return the gradient bound and the smoothness of a row's loss, as it is descended."""
    if smoothing == 0.0:
        return task.lipschitz, task.smoothness
    envelope = smoothing * task.feature_bound**2
    return task.lipschitz, 1.0 / (1.0 / envelope + 1.0 / task.smoothness)


def chosen_clip(task: Task, smoothing: float, scales: Scales, options: Options) -> float:
    """Return the clip: the gradient's bound by default, twice that where no clip is to act.

    Where gradients turn fast and noise hardly matters, a wider clip cuts less and costs nothing.
    """
    if not options.certified:
        bound = rates.widened(scales) if options.clip is None else options.clip
        return _validate.positive("clip", bound)
    bound, smoothness = row_constants(task, smoothing)
    if not (math.isfinite(bound) and math.isfinite(smoothness)):
        raise AssumptionError(
            "certified=True needs a loss with bounded gradients and finite smoothness over its "
            f"domain; {task.problem.loss.name} has {bound:g} and {smoothness:g}."
        )
    clip = 2.0 * bound if options.clip is None else _validate.positive("clip", options.clip)
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
    sensitivity = budget.adjacency.sensitivity(clip)
    return tree_sigma(stream.rounds, sensitivity, budget.epsilon, budget.delta)


def full_tree(rounds: int, n: int) -> int:
    """Return the next 2^h - 1: a tree of so many leaves has the fewest levels for its size."""
    full: int = 2 ** rounds.bit_length() - 1
    return full if full <= n else rounds


def plan_accelerated(
    task: Task,
    *,
    rounds: int | None = None,
    beta: float | None = None,
    clip: float | None = None,
    noise: str | PrefixMechanism | None = None,
    population_smoothness: float | None = None,
    schedule: str = "default",
    z_factor: float = 0.5,
    certified: bool = False,
) -> Plan:
    """Return a plan of `acc_srgd`; ``noise`` names a prefix-sum mechanism."""
    _validate.choice("schedule", schedule, SCHEDULES)
    if schedule != "default":
        published = published_schedule(schedule, task, rounds)
        rounds = published.rounds if rounds is None else rounds
        beta = published.beta if beta is None else beta
        clip = published.clip if clip is None else clip
    if noise is None and (schedule != "default" or task.calibration == "paper"):
        noise = "tree"
    options = Options(rounds, beta, clip, noise, population_smoothness, certified, z_factor)
    return _plan_recursive(ACCELERATED, task, options)


def plan_batch(
    task: Task,
    *,
    rounds: int | None = None,
    beta: float | None = None,
    clip: float | None = None,
    noise: str | PrefixMechanism | None = None,
    population_smoothness: float | None = None,
    z_factor: float = 0.5,
    certified: bool = False,
) -> Plan:
    """Return a plan of `srg_online_to_batch`; ``noise`` names a prefix-sum mechanism."""
    options = Options(rounds, beta, clip, noise, population_smoothness, certified, z_factor)
    return _plan_recursive(BATCH, task, options)


def plan_plain(
    task: Task,
    *,
    rounds: int | None = None,
    beta: float | None = None,
    clip: float | None = None,
    noise: str | PrefixMechanism | None = None,
    population_smoothness: float | None = None,
    certified: bool = False,
) -> Plan:
    """Return a plan of `srg_sgd`; ``noise`` names a prefix-sum mechanism."""
    options = Options(rounds, beta, clip, noise, population_smoothness, certified)
    return _plan_recursive(PLAIN, task, options)


def plan_independent(
    task: Task,
    *,
    rounds: int | None = None,
    beta: float | None = None,
    clip: float | None = None,
    population_smoothness: float | None = None,
    z_factor: float = 0.5,
) -> Plan:
    """Return a plan of `acc_independent`."""
    bound = descent_clip(task, clip)
    scales = public_scales(task, bound, population_smoothness)
    rounds = check_rounds(
        rates.best_independent_rounds(scales) if rounds is None else rounds, task.n
    )
    return Plan(
        solver=INDEPENDENT,
        task=task,
        rounds=rounds,
        clip=bound,
        sigma=gaussian_sigma(task.budget, bound=bound, rows=(0, task.n)),
        beta=_beta(INDEPENDENT, task, scales, rounds) if beta is None else beta,
        z_factor=z_factor,
        smoothing=default_smoothing(task, scales.alpha),
        certified=False,
        population_smoothness=scales.smoothness,
    )


def _plan_recursive(
    solver: str,
    task: Task,
    options: Options,
) -> Plan:
    """Return a plan with recursive gradients and correlated noise."""
    gradient = task.gradient_bound(options.clip)
    if not options.certified:  # else nothing may be cut
        gradient = descent_clip(task, options.clip, calibration=task.calibration, prefix=True)
    scales = public_scales(task, gradient, options.population_smoothness)
    few = rates.best_rounds(scales)
    rounds = options.rounds
    if rounds is None and isinstance(options.noise, PrefixMechanism):
        rounds = options.noise.rounds
    if rounds is None:
        rounds = rates.within(rates.PLAIN * few, task.n) if solver == PLAIN else few
        rounds = full_tree(rounds, task.n) if options.noise in ("tree", "tree_honaker") else rounds
    stream = chosen_mechanism(options.noise, check_rounds(rounds, task.n), task)
    smoothing = default_smoothing(task, scales.alpha)
    clip = chosen_clip(task, smoothing, scales, options)
    beta = _beta(solver, task, scales, stream.rounds)
    return Plan(
        solver=solver,
        task=task,
        rounds=stream.rounds,
        clip=clip,
        sigma=chosen_sigma(task.budget, clip, task.n, stream, task.calibration),
        mechanism=stream,
        beta=beta if options.beta is None else options.beta,
        z_factor=options.z_factor,
        smoothing=smoothing,
        certified=options.certified,
        population_smoothness=scales.smoothness,
    )


def _beta(solver: str, task: Task, scales: Scales, rounds: int) -> float:
    """Return the inverse step for so many rounds, be they fewer or more than are enough."""
    boost = rates.STEP_BOOST
    if solver == INDEPENDENT:
        boost = rates.INDEPENDENT_STEP_BOOST
        enough = rates.best_independent_rounds(scales)
        beta = rates.independent_beta(scales, max(rounds, enough))
    elif solver == PLAIN:  # without acceleration more rounds are not worth shorter steps
        few = rates.best_rounds(scales)
        enough = rates.within(rates.PLAIN * few, task.n)
        beta = rates.recursive_beta(scales, few)
    else:
        enough = rates.best_rounds(scales)
        beta = rates.recursive_beta(scales, max(rounds, enough))
    everywhere = task.problem.loss.constants(
        feature=task.feature_bound, label=task.label_bound, radius=math.inf
    )
    if math.isfinite(everywhere.lipschitz):  # else the curvature is the same everywhere
        beta = rates.boosted_step(beta, rounds, enough, boost)
    return beta + task.ridge


def risk(task: Task) -> float:
    """Return the bound of the header at the best number of rounds."""
    scales = public_scales(task, None, None)
    rounds = rates.best_rounds(scales)
    beta = rates.recursive_beta(scales, rounds)
    return rates.recursive_excess(scales, rounds, beta, landau(rounds))


def risk_independent(task: Task) -> float:
    """Return the bound for independent noise at the best number of rounds."""
    scales = public_scales(task, None, None)
    rounds = rates.best_independent_rounds(scales)
    return rates.independent_excess(scales, rounds, rates.independent_beta(scales, rounds))


def gradients(task: Task) -> float:
    """Return how many gradients a run on differences takes."""
    return 2.0 * task.n
