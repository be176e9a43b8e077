"""The plan and the loop that every solver with noisy steps on secret samples shares.

A step takes the sum of clipped gradients over a sample that the ledger draws and keeps, plus noise,
and divides by the public expected size, also where the sample happens to be empty.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ... import _validate
from ...data.queries import ClippedGradient
from ...data.source import Source
from ...errors import AssumptionError, ParameterError
from ...privacy.budget import ApproxDP, Budget
from ...privacy.ledger import Ledger
from ...privacy.release import Release
from ...problem import Loss
from ...task import Task
from .. import needs
from ..base import BasePlan, Floats, Progress, Round
from ..common.clips import finite
from ..common.smoothing import surrogate_loss
from .noise import FIXED_SIZE, FULL, MOST_ROUNDS, POISSON, noise_multiplier, sampled_release

LONGEST = 10_000  # rounds by default at most


@dataclass(frozen=True, kw_only=True)
class Plan(BasePlan):
    """All that a run needs, from public task only."""

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
        """Return the noisy sums, one a round."""
        return (self._release(self.rounds),)

    def _release(self, count: int) -> Release:
        return sampled_release(
            self.sampling, self.clip, self.sigma, self.batch, self.n, pair=self.pair, count=count
        )

    def schedule(self) -> Iterator[Round]:
        """Yield the rounds, all alike; each reads a secret sample of all rows."""
        for t in range(self.rounds):
            yield Round(t + 1, (0, self.n), self.step, self.sigma)

    @property
    def total_rounds(self) -> int:
        """How many noisy steps there are."""
        return self.rounds

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and the clip."""
        query = ClippedGradient(self.problem.loss, self.task.start, self.clip)
        return (*self.problem.bounds.enforced, *query.enforced)

    @property
    def risk(self) -> float:
        """The bound of the header at this plan's own schedule."""
        task, noise = self.task, self.sigma / self.batch
        square = self.clip**2 * (1 + 1 / self.batch) + task.n_weights * noise**2
        return bound_on_risk(task, self.clip, square, self.rounds)


def run(plan: Plan, source: Source, ledger: Ledger, progress: Progress) -> Floats:
    """Take noisy steps on secret samples, and average the last iterates."""
    problem, loss = plan.problem, plan.loss
    weights = plan.task.start
    velocity = np.zeros(len(weights))
    average = weights / plan.tail if plan.tail > plan.rounds else np.zeros(len(weights))
    source.expect(int(plan.batch * plan.rounds))
    for t in range(plan.rounds):
        query = ClippedGradient(loss, weights, plan.clip)
        total = _noisy_sum(plan, query, source, ledger)
        velocity = plan.momentum * velocity + (1.0 - plan.momentum) * (total / plan.batch)
        moved = finite(weights - plan.step * velocity)
        weights = problem.domain.project(problem.penalty.prox(moved, plan.step))
        if t + plan.tail >= plan.rounds:
            average += weights / plan.tail
        progress(t + 1, plan.rounds)
    return problem.domain.project(average)


def _noisy_sum(plan: Plan, query: ClippedGradient, source: Source, ledger: Ledger) -> Floats:
    """Return one noisy sum of clipped gradients; the sample is drawn and kept by the ledger."""
    rows = (0, plan.n)
    if plan.sampling == FULL:
        exact = source.sum(query)
        return ledger.gaussian(exact, bound=query.bound, sigma=plan.sigma, rows=rows)
    if plan.sampling == FIXED_SIZE:
        sample = ledger.fixed_size(
            bound=query.bound, sigma=plan.sigma, size=int(plan.batch), rows=rows
        )
    else:
        rate = plan.batch / plan.n
        sample = ledger.poisson(
            bound=query.bound, sigma=plan.sigma, rate=rate, rows=rows, pair=plan.pair
        )
    return sample.release(source.sum_at(query, sample.indices))


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
    multiplier = noise_multiplier(
        task.budget, sampling=sampling, batch=batch, n=task.n, rounds=rounds, pair=pair
    )
    made = Plan(
        solver=solver,
        task=task,
        sampling=sampling,
        rounds=rounds,
        batch=float(batch),
        clip=bound,
        sigma=multiplier * bound,
        step=1.0,
        pair=pair,
    )
    return confirmed(made)


def confirmed(made: Plan) -> Plan:
    """Return the plan with noise that the accountant confirms: scaling by the bound rounds."""
    room = 2.0**-48
    while not made.cost.satisfies(made.budget) and room < 1e-3:
        made = dataclasses.replace(made, sigma=made.sigma * (1 + room))
        room *= 8
    return made


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
        raise ParameterError(f"batch must be at most the number of rows {n}, got {batch!r}.")
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
