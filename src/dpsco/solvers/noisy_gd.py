"""Noisy gradient descent: full passes, Gaussian noise on the summed gradients, heavy-ball momentum.

Paper      Bassily, Smith, Thakurta 2014 (arXiv:1405.7085), Alg 1 with full batches; Dong, Roth, Su
           2019 (arXiv:1905.02383), Cor 3.3 for the exact composition of Gaussian releases.
Guarantee  mu-GDP with mu = sqrt(rounds) * sensitivity / sigma; clipping alone is relied upon, so it
           holds for every loss, convex or not.
Rate       E[F(w_bar) - F*] <= R^2/(2 h) + h d (sigma_1/n)^2 / 2 + step G^2 / 2 with h = step rounds
           and sigma_1 the noise of a single release: R sigma_1 sqrt(d) / n at the best h.
Needs      rows bounded in l2. Convexity for the rate only.
Symbols    R, G, T, eta -> distance, clip, rounds, step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .. import _validate
from ..data.queries import ClippedGradient
from ..data.source import Source
from ..kernels.sums import worthwhile
from ..plans import BasePlan, Floats, Progress, Round, Solver
from ..privacy.budget import Budget
from ..privacy.calibration import gaussian_sigma
from ..privacy.ledger import Ledger
from ..privacy.releases import GaussianRelease
from ..problem import Facts, Problem
from . import needs

MOST_ROUNDS = 60  # full passes by default: with momentum, more gain little


@dataclass(frozen=True, kw_only=True)
class Plan(BasePlan):
    """All that a run needs, from public facts only."""

    rounds: int  # full passes over the rows
    clip: float  # l2 bound on a row's gradient, enforced
    sigma: float  # standard deviation of the noise on the sum, per coordinate
    step: float  # step size for the mean gradient
    momentum: float  # heavy-ball coefficient, in [0, 1)
    tail: int  # how many of the last iterates are averaged

    def releases(self) -> tuple[GaussianRelease, ...]:
        """Return the noisy sums, one a round."""
        return (GaussianRelease(self.clip, self.sigma, rows=(0, self.n), count=self.rounds),)

    def schedule(self) -> Iterator[Round]:
        """Yield the rounds, all alike."""
        for t in range(self.rounds):
            yield Round(t + 1, (0, self.n), self.step, self.sigma)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, and the clip."""
        query = ClippedGradient(self.problem.loss, self.facts.start, self.clip)
        return (*self.problem.bounds.enforced, *query.enforced)

    @property
    def risk(self) -> float:
        """The bound of the header at this plan's schedule."""
        return risk(self.facts, self.budget)


def plan(
    problem: Problem,
    *,
    n: int,
    d: int,
    budget: Budget,
    calibration: str = "tight",
    rounds: int | None = None,
    clip: float | None = None,
    step: float | None = None,
    momentum: float | None = None,
    tail: int | None = None,
) -> Plan:
    """Return a plan; see the module's header for the default schedule."""
    facts = problem.facts(n, d)
    bound = facts.gradient_bound(clip)
    rounds = MOST_ROUNDS if rounds is None else _validate.integer("rounds", rounds)
    sigma = gaussian_sigma(budget, bound=bound, rows=(0, n), count=rounds)
    time = _time(facts, bound, sigma / math.sqrt(rounds))
    momentum = 0.9 if momentum is None else _validate.non_negative("momentum", momentum)
    longest = 1.0 / facts.smoothness if math.isfinite(facts.smoothness) else math.inf
    if step is None:
        step = min(time * (1 - momentum) / rounds, longest)
    return Plan(
        solver="noisy_gd",
        problem=problem,
        n=n,
        d=d,
        budget=budget,
        calibration=calibration,
        rounds=rounds,
        clip=bound,
        sigma=sigma,
        step=_validate.positive("step", step),
        momentum=momentum,
        tail=max(1, rounds // 4) if tail is None else _validate.integer("tail", tail),
    )


def run(plan: Plan, source: Source, ledger: Ledger, progress: Progress) -> Floats:
    """Descend, and average the last iterates."""
    problem, rows = plan.problem, (0, plan.n)
    weights = plan.facts.start
    velocity, average = np.zeros(len(weights)), np.zeros(len(weights))
    compiled = worthwhile(plan.n * plan.rounds, source.d)
    for t in range(plan.rounds):
        query = ClippedGradient(problem.loss, weights, plan.clip)
        exact = source.sum(query, compiled=compiled)
        total = ledger.gaussian(exact, bound=query.bound, sigma=plan.sigma, rows=rows)
        velocity = plan.momentum * velocity + total / plan.n
        weights = problem.penalty.prox(weights - plan.step * velocity, plan.step)
        weights = problem.domain.project(weights)
        if t >= plan.rounds - plan.tail:
            average += weights / plan.tail
        progress(t + 1, plan.rounds)
    return problem.domain.project(average)


def risk(facts: Facts, budget: Budget) -> float:
    """Return the predicted excess risk: the header's bound at the best integrated time."""
    bound = facts.gradient_bound(None)
    single = gaussian_sigma(budget, bound=bound, rows=(0, facts.n)) / facts.n
    return facts.distance * (single * math.sqrt(facts.size) + bound / math.sqrt(facts.n))


def _gradients(facts: Facts, budget: Budget) -> float:
    return float(MOST_ROUNDS * facts.n)


def _time(facts: Facts, bound: float, single: float) -> float:
    """Return h = step * rounds, at which bias R^2/(2h) and noise h d (single/n)^2/2 are equal."""
    return facts.distance * facts.n / (single * math.sqrt(facts.size))


SOLVERS = (
    Solver(
        key="noisy_gd",
        summary="Full-batch gradient descent with momentum; exact Gaussian composition.",
        paper="Bassily, Smith, Thakurta 2014",
        reference="Alg 1 (full batches); Dong, Roth, Su 2019, Cor 3.3",
        setting="any loss, any domain with a projection",
        needs=(needs.EUCLIDEAN, needs.GAUSSIAN),
        rounds=f"T (default up to {MOST_ROUNDS})",
        cost="n T gradients",
        plan=plan,
        run=run,
        risk=risk,
        gradients=_gradients,
        plan_type=Plan,
    ),
)
