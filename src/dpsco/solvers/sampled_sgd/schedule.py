"""The plan of every solver of the family, and the schedule of everyday DP-SGD.

A step takes the sum of clipped gradients over a sample that the ledger draws and keeps, plus noise,
and divides by the public expected size.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...privacy.budget import ApproxDP, Budget
from ...privacy.release import Release
from ...problem import Loss
from ...task import Task
from .. import needs
from ..common.clips import descent_clip
from ..common.smoothing import surrogate_loss
from ..engine import EnginePlan
from ..noisy_gd import rates as descent_rates
from ..noisy_gd.schedule import checked_momentum, descent_smoothing
from .noise import FULL, MOST_ROUNDS, POISSON, Samples, noise_multiplier

MOMENTUM = 0.9
EPOCHS = 20.0  # of dp_sgd_poisson: at epsilon 1 and rate 1/20, within 10 % of full batches
WASTE = 1.1  # noise on the mean gradient, against full batches, that a batch may cost
LONGEST = 10_000  # rounds by default at most


@dataclass(frozen=True, kw_only=True)
class Plan(EnginePlan):
    """All that a run needs, from public facts only."""

    sampling: str  # "poisson", "fixed_size" or "full"
    rounds: int  # noisy steps
    batch: float  # expected rows of a sample; what sums are divided by
    clip: float  # l2 bound on a row's gradient, enforced
    sigma: float  # standard deviation of the noise on the sum, per coordinate
    step: float  # step size for the mean gradient
    momentum: float = 0.0  # share of the last direction in the next one, in [0, 1)
    tail: int = 1  # how many of the last iterates are averaged, at most rounds + 1
    smoothing: float = 0.0  # of the Moreau envelope that is descended; 0: the loss itself
    pair: str = "proved"  # which bound pays for replace-one neighbours

    def __post_init__(self) -> None:
        """Refuse more rounds than any accountant composes."""
        _validate.integer("rounds", self.rounds, at_most=MOST_ROUNDS)

    @property
    def loss(self) -> Loss:
        """The loss whose gradients are taken."""
        return surrogate_loss(self.task, self.smoothing)

    def releases(self) -> tuple[Release, ...]:
        """Return the noisy sums over secret samples of all rows, one per round."""
        samples = Samples(self.sampling, self.batch, self.n, self.rounds, self.pair)
        return (samples.release(self.clip, self.sigma),)

    @property
    def risk(self) -> float:
        """The bound of the header at this plan's own schedule."""
        task, noise = self.task, self.sigma / self.batch
        square = self.clip**2 * (1 + 1 / self.batch) + task.n_weights * noise**2
        return bound_on_risk(task, self.clip, square, self.rounds)


def tight_plan(
    task: Task,
    solver: str,
    rounds: int,
    batch: float,
    bound: float,
) -> Plan:
    """Return a plan with the least noise, confirmed by the accountant; step and tail are to set."""
    sampling = POISSON if batch < task.n else FULL
    pair = pair_of(task.calibration) if sampling == POISSON else "proved"
    samples = Samples(sampling, batch, task.n, rounds, pair)
    plan = Plan(
        solver=solver,
        task=task,
        sampling=sampling,
        rounds=rounds,
        batch=float(batch),
        clip=bound,
        sigma=noise_multiplier(task.budget, samples) * bound,
        step=1.0,
        pair=pair,
    )
    return confirmed(plan)


def confirmed(plan: Plan) -> Plan:
    """Return the plan with noise that the accountant confirms: scaling by the bound rounds."""
    room = 2.0**-48
    while not plan.cost.satisfies(plan.budget) and room < 1e-3:
        plan = dataclasses.replace(plan, sigma=plan.sigma * (1 + room))
        room *= 8
    return plan


def amounts(budget: Budget) -> tuple[float, float]:
    """Return (epsilon, delta); other budgets were refused before."""
    if not isinstance(budget, ApproxDP):
        raise AssumptionError(
            f"sampled SGD needs a budget ApproxDP(epsilon, delta); got {type(budget).__name__}. "
            "Use solver='noisy_gd', whose full batches any budget with a delta pays for."
        )
    return budget.epsilon, budget.delta


def pair_of(calibration: str) -> str:
    """Return which bound pays for replace-one neighbours of a Poisson sample."""
    return "conjectured" if calibration == "conjectured" else "proved"


def checked_batch(batch: float, n: int) -> float:
    """Return the expected size of a sample, between 0 and n."""
    size = _validate.positive("batch", batch)
    if size > n:
        raise ParameterError(
            f"batch must be at most the number of rows {n}, got {batch!r}.", parameter="batch"
        )
    return size


def refuse_many(solver: str, rounds: int) -> None:
    """Refuse more rounds than any accountant composes."""
    if rounds > MOST_ROUNDS:
        raise AssumptionError(
            f"{solver} would take {rounds:,} noisy steps here, and at most {MOST_ROUNDS:,} can be "
            "run and accounted for. Pass options={'rounds': ...}, or use calibration='tight', "
            "which takes fewer, larger samples."
        )


def bound_on_risk(task: Task, clip: float, square: float, rounds: int) -> float:
    """Return R sqrt(square / T) + 2 G R / sqrt(n): the header's rate at the best step."""
    return task.initial_distance * (math.sqrt(square / rounds) + 2 * clip / math.sqrt(task.n))


def _approx(task: Task) -> str:
    if isinstance(task.budget, ApproxDP):
        return ""
    return (
        "the secrecy of its samples is accounted for in (epsilon, delta) only: use "
        "ApproxDP(epsilon, delta), or full batches with solver='noisy_gd'"
    )


APPROX = needs.Need("budget (epsilon, delta)", _approx)


# -- dp_sgd_poisson --------------------------------------------------------------------------------


def plan_poisson(
    task: Task,
    *,
    epochs: float | None = None,
    batch: float | None = None,
    rate: float | None = None,
    clip: float | None = None,
    step: float | None = None,
    momentum: float | None = None,
    tail: int | None = None,
    smoothing: float | None = None,
) -> Plan:
    """Return a plan of everyday DP-SGD.

    Args:
        epochs: expected passes over the rows.
        batch, rate: expected size of a sample, or the probability of a row; give one of them.
        clip: bound on a row's gradient; by default its largest value at the start.
        step: step size for the mean gradient.
        momentum: share of the last direction in the next one, at least 0 and below 1.
        tail: how many of the last iterates are averaged.
        smoothing: of the Moreau envelope of a nonsmooth loss; 0 descends the loss itself.
    """
    bound = descent_clip(task, clip)
    passes = EPOCHS if epochs is None else _validate.positive("epochs", epochs)
    size = _sample_size(task.n, passes, batch, rate)
    rounds = max(1, round(passes * task.n / size))
    plan = tight_plan(task, "dp_sgd_poisson", rounds, size, bound)
    smooth = descent_smoothing(task, rounds, smoothing)
    curvature = task.smoothness if smooth == 0.0 else smooth * task.feature_bound**2
    time = _time(task, plan)
    share = _momentum(rounds, time * curvature)
    if momentum is not None:
        share = checked_momentum(momentum)
    if step is None:
        longest = 1.0 / curvature if math.isfinite(curvature) else task.initial_distance / bound
        step = min(time / rounds, longest / (1.0 - share))
    return dataclasses.replace(
        plan,
        step=_validate.positive("step", step),
        momentum=share,
        tail=max(1, rounds // 2) if tail is None else min(_validate.integer("tail", tail), rounds),
        smoothing=_validate.non_negative("smoothing", smooth),
    )


def _sample_size(n: int, epochs: float, batch: float | None, rate: float | None) -> float:
    """Return the expected size of a sample; by default n/epochs, for which q sqrt(T) is one."""
    if batch is not None and rate is not None:
        raise ParameterError(
            f"dp_sgd_poisson takes batch or rate, not both; got batch={batch!r} and rate={rate!r}."
        )
    if rate is not None:
        share = _validate.positive("rate", rate)
        if share > 1.0:
            raise ParameterError(
                f"rate must lie in (0, 1], got {rate!r}. Common: 0.01 to 0.1.", parameter="rate"
            )
        return share * n
    if batch is not None:
        return checked_batch(batch, n)
    return float(max(1, math.ceil(n / max(1.0, epochs))))


def _time(task: Task, plan: Plan) -> float:
    """Return h = step * rounds, at which bias R^2/(2h) and noise h d s^2/2 are equal.

    s is the noise, per row, of one release that would tell as much as all of them.
    """
    single = plan.sigma / (plan.batch * math.sqrt(plan.rounds))
    return task.initial_distance / (single * math.sqrt(task.n_weights))


def _momentum(rounds: int, needed: float) -> float:
    """Return 0.9, or more where ``needed`` = h * smoothness steps of full length do not fit in."""
    return max(0.0, min(max(MOMENTUM, 1.0 - rounds / needed), 1.0 - 10.0 / rounds))


def risk_poisson(task: Task) -> float:
    """Return that of full batches: its schedule is theirs, its noise a little larger."""
    return WASTE * descent_rates.risk(task)


def gradients_poisson(task: Task) -> float:
    """Return how many gradients `dp_sgd_poisson` takes by default."""
    return EPOCHS * task.n
