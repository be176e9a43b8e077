"""The plan of every solver of the family, and its practical schedule.

Lengths of gradients are in units of the clip where it is found; so are the noise and ``spread``.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...files.limits import MOST_RELEASES
from ...privacy.mechanisms import GaussianRelease
from ...privacy.release import Release
from ...task import Task
from ..common.batches import check_rounds
from ..common.found_clip import FEW_TRACKED
from ..common.mean_oracle import MeanOracle, chosen_oracle, tail_bias
from ..common.moment_clips import (
    PROXY,
    TRACKED,
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
from ..engine import Rows, part_of
from . import published, rates
from .rates import Scales

ACSA, SGD, PROX = "clipped_acsa", "clipped_sgd_sc", "clipped_prox_sgd"
SPLIT, MEAN = "noisy_gd_split_baseline", "l2_clip_mean_oracle"
SCHEDULES = ("practical", "paper")
CONDITION = 10.0  # kappa that a practical schedule makes do with: more asks for too many batches
ACSA_BATCHES = 10  # nominal, for the quantile that is sought
PROX_SHARE = 0.5  # c_T, for steps of 1/beta


@dataclass(frozen=True, kw_only=True)
class Plan(ClipPlan):
    """All that a run needs, from public facts only."""

    rounds: int  # batches, each row in at most one of them
    sigma: float  # noise on a batch's sum, per coordinate
    step: float  # times 1/beta: of the steps
    smoothness: float  # beta of the population risk; 0: the clip over the initial distance
    condition: float  # kappa = beta/mu_sc; 0 where it is not used
    spread: float  # clipped_acsa: least eta times D0

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        super().__post_init__()
        hint = "Every round is a release of its own."
        _validate.integer("rounds", self.rounds, at_most=MOST_RELEASES, hint=hint)
        start, stop = self.training_rows
        check_rounds(self.rounds, stop - start)
        _validate.positive("step", self.step)
        if self.condition:
            check_condition(self.condition)
        if self.solver == SGD and not self.condition:
            raise ParameterError("condition must be at least 1, got 0.", parameter="condition")

    def batches(self) -> tuple[Rows, ...]:
        """Return the rows of each batch; the first ones have one row more if need be."""
        return tuple(part_of(self.training_rows, self.rounds, t) for t in range(self.rounds))

    def batch_size(self, turn: int) -> int:
        """Return how many rows a batch has: what its sum is divided by."""
        start, stop = part_of(self.training_rows, self.rounds, turn)
        return stop - start

    def releases(self) -> tuple[Release, ...]:
        """Return the search for a clip, if there is one, and one noisy sum per batch."""
        sums = (GaussianRelease(self.bound, self.sigma, rows=rows) for rows in self.batches())
        return (*self.first(), *sums)

    def beta(self, scale: float) -> float:
        """Return the smoothness, where one unit of gradients is ``scale``."""
        return self.smoothness or scale * self.unit / self.task.initial_distance

    def step_of(self, turn: int, scale: float = 1.0) -> float:
        """Return the step of a batch, where one unit of gradients is ``scale``."""
        beta = self.beta(scale)
        if self.solver == ACSA:  # t/(2 eta)
            eta = max(2.0 * beta, scale * self.spread / self.task.initial_distance)
            return self.step * (turn + 1) / (2.0 * eta)
        if self.solver == SGD:
            return self.step * float(self.averaging[0][turn]) / beta
        return self.step / beta

    @property
    def averaging(self) -> tuple[rates.Floats, rates.Floats]:
        """Return steps, in units of 1/beta, and weights of `clipped_sgd_sc`."""
        half = 0.5 / self.condition
        return rates.averaging_schedule(self.rounds - 1, half, 1.0 + half)

    def step_at(self, t: int) -> float:
        """Return the step of a round, for the trace."""
        turn = t - len(self.first())
        return 0.0 if turn < 0 else self.step_of(turn)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Whether noise rules, and whether the problem asks for more batches than noise allows."""
        smallest = self.batch_size(self.rounds - 1)
        ratio = math.sqrt(self.task.n_weights) * self.sigma / (smallest * self.unit)
        lines = (*noise_warning(ratio, smallest), *self.tracking_warnings(self.rounds))
        scales = public_scales(self.task)
        needed = self.condition * math.log(max(math.e, scales.snr))
        if self.solver == SGD and needed > scales.most_batches:
            lines += (
                f"a condition number of {self.condition:.3g} asks for {needed:,.0f} batches, and "
                f"noise allows {scales.most_batches:,}: solver='clipped_acsa' needs fewer",
            )
        return lines

    @property
    def risk(self) -> float:
        """The theorem's bound at this plan's own numbers, the oracle's bias included.

        NaN where the clip is found: nothing is known of the size of gradients.
        """
        if self.finds_clip:
            return math.nan
        clip = self.unit
        scales = dataclasses.replace(
            public_scales(self.task, self.beta(1.0), self.condition), noise=self.sigma / clip
        )
        bias = self.oracle.bias(clip, self.moment, self.order)
        square = scales.variance(self.rounds, clip, self.moment)
        if self.solver == SGD:
            return rates.sgd_bound(scales, max(1, self.rounds - 1), square, bias)
        square += bias * bias
        if self.solver == PROX:
            return rates.prox_bound(scales, self.rounds, self.moment * scales.distance, square)
        if self.solver == ACSA:
            eta = 0.5 / self.step_of(0)
            return rates.acsa_bound(scales, self.rounds, eta, square, bias)
        return 0.5 * square if self.solver == MEAN else rates.split_bound(scales, square)


def public_scales(task: Task, smoothness: float = 1.0, condition: float = 1.0) -> Scales:
    """Return the numbers that schedules ask for."""
    return Scales(
        n=task.n,
        size=task.n_weights,
        distance=task.initial_distance,
        smoothness=smoothness,
        strong_convexity=smoothness / condition if condition else 0.0,
        noise=unit_noise(task),
        mu=task.budget.mu_per_row(),
    )


def check_condition(condition: float) -> float:
    """Return kappa; refuse less than 1."""
    if not condition >= 1.0 - 1e-12:
        raise ParameterError(
            f"strong_convexity must be at most the smoothness, got a condition number of "
            f"{condition:.3g}, and none is below 1. Pass a larger population_smoothness, or a "
            "smaller strong_convexity.",
            parameter="strong_convexity",
        )
    return max(condition, 1.0)


def chosen_smoothness(task: Task, population_smoothness: float | None, *, paper: bool) -> float:
    """Return beta: what was said, else the loss's own; 0 where it has none."""
    if population_smoothness is not None:
        return _validate.positive("population_smoothness", population_smoothness)
    if 0.0 < task.smoothness < math.inf:
        return task.smoothness
    if paper:
        raise AssumptionError(
            "schedule='paper' needs the smoothness of the population risk, and the loss has none. "
            "Pass options={'population_smoothness': ...}, or use schedule='practical'."
        )
    return 0.0


def chosen_condition(
    task: Task, smoothness: float, strong_convexity: float | None, *, paper: bool
) -> float:
    """Return kappa: what was said, else that of the penalty and the loss, at most 10."""
    if strong_convexity is not None:
        strong = _validate.positive("strong_convexity", strong_convexity)
        if smoothness == 0.0:
            raise AssumptionError(
                "strong_convexity needs population_smoothness beside it: the loss has none."
            )
        return check_condition(smoothness / strong)
    strong = known_convexity(task)
    if paper and strong == 0.0:
        raise AssumptionError(
            "schedule='paper' needs strong convexity, and neither the loss nor the penalty has "
            "any. Pass options={'strong_convexity': ...}, add a penalty L2Penalty(0.01), or use "
            "clipped_acsa, which needs none."
        )
    if paper:
        return max(1.0, smoothness / strong)
    if smoothness == 0.0 or strong == 0.0:
        return CONDITION
    return min(max(1.0, smoothness / strong), CONDITION)


def _curvature(
    task: Task, population_smoothness: float | None, strong_convexity: float | None, *, paper: bool
) -> tuple[float, float, Scales]:
    """Return beta, kappa, and the numbers of schedules with them."""
    beta = chosen_smoothness(task, population_smoothness, paper=paper)
    kappa = chosen_condition(task, beta, strong_convexity, paper=paper)
    return beta, kappa, public_scales(task, beta or 1.0, kappa)


# -- the solvers -----------------------------------------------------------------------------------


def plan_acsa(
    task: Task,
    *,
    schedule: str = "practical",
    rounds: int | None = None,
    clip: float | str | None = None,
    moment: float | None = None,
    order: float = 2.0,
    coordinate_moment: float | None = None,
    population_smoothness: float | None = None,
    oracle: str | MeanOracle = "l2_clip",
) -> Plan:
    """Return a plan of `clipped_acsa`.

    Args:
        schedule: "practical", or "paper" for Theorem 29 with its mistakes corrected.
        rounds: batches T, each row in one of them.
        clip: the threshold; "moment" for the best one by the moments, "auto" to find it.
        moment, order: r and k with (E ||gradient||^k)^(1/k) <= r.
        coordinate_moment: gamma^(1/k), the same of each coordinate, in the place of ``moment``.
        population_smoothness: beta, of the mean loss.
        oracle: "l2_clip", "coordinate_clip", or a `MeanOracle`.
    """
    paper = _is_paper(schedule)
    moments = known_moments(task, moment, order, coordinate_moment, needed=paper)
    beta = chosen_smoothness(task, population_smoothness, paper=paper)
    batches = ACSA_BATCHES
    if paper:
        theorem = published.acsa(public_scales(task, beta, 0.0), moments)
        batches, clip = theorem.rounds, theorem.clip if clip is None else clip
    nominal = min(batches, task.n)
    choice = chosen_clip(
        task, clip, moments, rows=task.n / nominal, averaged=nominal, oracle=oracle
    )
    scales = _acsa_scales(task, beta, choice)
    if not paper and choice.clip is not None:
        batches = rates.best_acsa_rounds(scales, choice.clip, choice.length)
    elif not paper:  # gradients of the size that the curvature gives them at a distance of D0
        guess = scales.smoothness * scales.distance
        batches = rates.best_acsa_rounds(scales, guess, PROXY * guess)
    plan = _plan(ACSA, task, choice, moments, oracle, batches if rounds is None else rounds)
    bias = tail_bias(choice.unit, choice.length, moments.order) if paper else 0.0
    square = scales.variance(plan.rounds, choice.unit, choice.length) + bias * bias
    spread = rates.acsa_spread(plan.rounds, square)
    return dataclasses.replace(plan, smoothness=beta, spread=spread)


def _acsa_scales(task: Task, beta: float, choice: ClipChoice) -> Scales:
    smoothness = beta or choice.unit / task.initial_distance
    return dataclasses.replace(
        public_scales(task, smoothness, 0.0), n=choice.rows[1] - choice.rows[0]
    )


def plan_sgd(
    task: Task,
    *,
    schedule: str = "practical",
    rounds: int | None = None,
    clip: float | str | None = None,
    moment: float | None = None,
    order: float = 2.0,
    coordinate_moment: float | None = None,
    population_smoothness: float | None = None,
    strong_convexity: float | None = None,
    oracle: str | MeanOracle = "l2_clip",
) -> Plan:
    """Return a plan of `clipped_sgd_sc`; ``rounds`` are batches, the paper's T + 1.

    ``strong_convexity`` is mu_sc of the population risk; ``clip`` is also "tracked", to follow the
    gradients from batch to batch. Other arguments as in `plan_acsa`.
    """
    paper = _is_paper(schedule)
    moments = known_moments(task, moment, order, coordinate_moment, needed=paper)
    beta, kappa, scales = _curvature(task, population_smoothness, strong_convexity, paper=paper)
    if paper:
        theorem = published.sgd(scales, moments)
        batches, clip = theorem.rounds, theorem.clip if clip is None else clip
    else:
        fewest = FEW_TRACKED if clip == TRACKED else 1
        batches = min(max(rates.sgd_rounds(scales) + 1, fewest), task.n)
    batches = batches if rounds is None else check_rounds(rounds, task.n)
    choice = chosen_clip(
        task, clip, moments, rows=task.n / batches, averaged=batches, oracle=oracle, rounds=batches
    )
    plan = _plan(SGD, task, choice, moments, oracle, batches, condition=kappa)
    return dataclasses.replace(plan, smoothness=beta)


def plan_prox(
    task: Task,
    *,
    schedule: str = "practical",
    rounds: int | None = None,
    clip: float | str | None = None,
    moment: float | None = None,
    order: float = 2.0,
    coordinate_moment: float | None = None,
    population_smoothness: float | None = None,
    strong_convexity: float | None = None,
    oracle: str | MeanOracle = "l2_clip",
) -> Plan:
    """Return a plan of `clipped_prox_sgd`.

    ``strong_convexity`` is the constant of the proximal PL inequality; other arguments as in
    `plan_acsa`. The paper's schedule has steps of 1/(2 beta), the practical one of 1/beta.
    """
    paper = _is_paper(schedule)
    moments = known_moments(task, moment, order, coordinate_moment, needed=paper)
    beta, kappa, scales = _curvature(task, population_smoothness, strong_convexity, paper=paper)
    if paper:
        theorem = published.prox(scales, moments)
        batches, clip = theorem.rounds, theorem.clip if clip is None else clip
    else:
        batches = min(rates.prox_rounds(scales, PROX_SHARE), task.n)
    batches = batches if rounds is None else check_rounds(rounds, task.n)
    choice = chosen_clip(task, clip, moments, rows=task.n / batches, oracle=oracle)
    plan = _plan(PROX, task, choice, moments, oracle, batches, condition=kappa)
    return dataclasses.replace(plan, smoothness=beta, step=0.5 if paper else 1.0)


def plan_split(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | str | None = None,
    moment: float | None = None,
    order: float = 2.0,
    coordinate_moment: float | None = None,
    population_smoothness: float | None = None,
    strong_convexity: float | None = None,
    oracle: str | MeanOracle = "coordinate_clip",
) -> Plan:
    """Return a plan of `noisy_gd_split_baseline`: rows and budget are both split.

    Arguments as in `plan_sgd`; ``clip`` is the threshold of the oracle, by default a coordinate's.
    """
    moments = known_moments(task, moment, order, coordinate_moment)
    beta, kappa, scales = _curvature(task, population_smoothness, strong_convexity, paper=False)
    batches = min(rates.split_rounds(scales), scales.most_split_batches, task.n)
    batches = batches if rounds is None else check_rounds(rounds, task.n)
    if clip == "auto":
        raise AssumptionError(
            "noisy_gd_split_baseline splits its budget over all rounds, which a search for a clip "
            "does not fit into: give clip= as a number, or a moment."
        )
    rows = task.n / batches**1.5  # the noise of a round is that of so few
    choice = chosen_clip(task, clip, moments, rows=rows, oracle=oracle)
    plan = _plan(SPLIT, task, choice, moments, oracle, batches, condition=kappa)
    return dataclasses.replace(
        plan,
        smoothness=beta,
        step=kappa / (1.0 + kappa),  # 1/(mu_sc + beta)
        sigma=noise_of(task, None, [(plan.bound, (0, task.n), batches)])[0],
    )


def plan_mean(
    task: Task,
    *,
    clip: float | str | None = None,
    moment: float | None = None,
    order: float = 2.0,
    coordinate_moment: float | None = None,
    oracle: str | MeanOracle = "l2_clip",
) -> Plan:
    """Return a plan of `l2_clip_mean_oracle`: one noisy mean of all rows.

    Arguments as in `plan_acsa`; moments are those of the rows about the domain's centre.
    """
    moments = known_moments(task, moment, order, coordinate_moment)
    choice = chosen_clip(task, clip, moments, rows=task.n, oracle=oracle)
    plan = _plan(MEAN, task, choice, moments, oracle, 1)
    return dataclasses.replace(plan, smoothness=1.0)


def _plan(
    solver: str,
    task: Task,
    choice: ClipChoice,
    moments: Moments,
    oracle: str | MeanOracle,
    rounds: int,
    *,
    condition: float = 0.0,
) -> Plan:
    """Return a plan whose batches have the whole budget each."""
    rule, (start, stop) = chosen_oracle(oracle), choice.rows
    batches = check_rounds(rounds, stop - start)
    bound = choice.bound(rule, task.n_weights)
    return Plan(
        solver=solver,
        task=task,
        rounds=batches,
        clip=choice.clip,
        search=choice.search,
        sigma=noise_of(task, choice.search, [(bound, choice.rows, 1)])[0],
        oracle=rule,
        step=1.0,
        smoothness=0.0,
        condition=condition,
        spread=0.0,
        moment=choice.length,
        order=moments.order,
        weight=choice.weight,
        level=choice.level,
    )


def _is_paper(schedule: str) -> bool:
    return _validate.choice("schedule", schedule, SCHEDULES) == "paper"


# -- what entries say ------------------------------------------------------------------------------


def risk(task: Task, *, solver: str = ACSA) -> float:
    """Return the theorem's bound for gradients within the usual clip, none of them cut."""
    choice = chosen_clip(task, task.gradient_bound(None), Moments(0.0, 2.0), rows=task.n)
    beta = chosen_smoothness(task, None, paper=False) or choice.unit / task.initial_distance
    kappa = chosen_condition(task, beta, None, paper=False)
    scales = public_scales(task, beta, kappa)
    if solver == ACSA:
        rounds = rates.best_acsa_rounds(scales, choice.unit, choice.length)
        square = scales.variance(rounds, choice.unit, choice.length)
        return rates.acsa_bound(scales, rounds, rates.acsa_eta(scales, rounds, square), square)
    rounds = min(rates.sgd_rounds(scales) if solver == SGD else task.n, task.n)
    if solver == PROX:
        rounds = min(rates.prox_rounds(scales, PROX_SHARE), task.n)
    elif solver == SPLIT:
        rounds = rates.split_rounds(dataclasses.replace(scales, n=3))  # logarithms dropped
        scales = dataclasses.replace(scales, noise=scales.noise * math.sqrt(rounds))
    elif solver == MEAN:
        return 0.5 * scales.variance(1, choice.unit, choice.unit)
    square = scales.variance(rounds, choice.unit, choice.length)
    if solver == SGD:
        return rates.sgd_bound(scales, rounds, square, 0.0)
    if solver == SPLIT:
        return rates.split_bound(scales, square)
    return rates.prox_bound(scales, rounds, choice.length * scales.distance, square)
