"""Noisy SGD of 2019 and 2020: published schedules of noisy steps on secret samples.

Paper      Bassily, Feldman, Talwar, Thakurta 2019 (arXiv:1908.09970), Alg 1 and Thm 3.2, for smooth
           losses and, through the Moreau envelope, others; Bassily, Feldman, Guzman, Talwar 2020
           (arXiv:2006.06914) for Lipschitz losses.
Guarantee  (epsilon, delta)-DP by the privacy loss distribution of sampled Gaussian releases. The
           published noise suffices up to epsilon 1 and is refused beyond.
Rate       E excess = O(R G (1/sqrt(n) + sqrt(d log(1/delta))/(n epsilon))).
Needs      2019: smooth, or a convex loss of one margin with bounded slope. 2020: none but clipping;
           convexity for the rate. Rows bounded in l2, a budget (epsilon, delta).
Symbols    T, m, eta, G, R', b -> rounds, batch, step, clip, distance, smoothing.
"""

from __future__ import annotations

import dataclasses
import math

from ... import _validate
from ...errors import AssumptionError
from ...privacy.budget import Budget
from ...problem import Facts, Problem
from .. import needs
from ..base import Solver
from ..common.clips import gradient_clip
from .noise import FIXED_SIZE, full_batch_multiplier
from .steps import APPROX, LONGEST, Plan, amounts, bound_on_risk, refuse_many, run, tight_plan


def plan_2019(
    problem: Problem,
    *,
    n: int,
    d: int,
    budget: Budget,
    calibration: str = "tight",
    rounds: int | None = None,
    clip: float | None = None,
    step: float | None = None,
) -> Plan:
    """Return a plan for smooth losses, or for the Moreau envelope of others."""
    facts = problem.facts(n, d)
    epsilon, delta = amounts(budget)
    bound = gradient_clip(facts, budget, clip, calibration=calibration)
    log = math.log(1 / delta)
    if rounds is None:
        most = min(n / 8, epsilon**2 * n * n / (32 * facts.size * log))
        rounds = max(1, int(most if calibration == "paper" else min(most, LONGEST)))
    rounds = _validate.integer("rounds", rounds)
    batch = float(min(n, max(round(n * math.sqrt(epsilon / (4 * rounds))), 1)))
    smoothing, curvature = 0.0, facts.smoothness
    if not math.isfinite(curvature):
        rate = min(math.sqrt(n) / 4, epsilon * n / (8 * math.sqrt(facts.size * log)))
        curvature = bound / facts.distance * rate
        smoothing = curvature / facts.feature**2
    if step is None:
        step = min(facts.distance / (bound * math.sqrt(rounds)), 2.0 / curvature)
    noise = batch * math.sqrt(8 * rounds * log) * bound / (n * epsilon)  # on the sum
    made = _scheduled(facts, budget, calibration, "noisy_sgd_2019", rounds, batch, bound, noise)
    step = _validate.positive("step", step)
    return dataclasses.replace(made, step=step, tail=rounds, smoothing=smoothing)


def plan_2020(
    problem: Problem,
    *,
    n: int,
    d: int,
    budget: Budget,
    calibration: str = "tight",
    rounds: int | None = None,
    clip: float | None = None,
    step: float | None = None,
) -> Plan:
    """Return a plan of T = n^2 steps on single rows, or of fewer steps on n/sqrt(T) rows each."""
    facts = problem.facts(n, d)
    epsilon, delta = amounts(budget)
    bound = gradient_clip(facts, budget, clip, calibration=calibration)
    log = math.log(1 / delta)
    if rounds is None:
        rounds = n * n if calibration == "paper" else min(n * n, LONGEST)
    rounds = _validate.integer("rounds", rounds)
    refuse_many("noisy_sgd_2020", rounds)
    batch = float(min(n, max(1, round(n / math.sqrt(rounds)))))
    if step is None:  # R/(G n max(...)) at T = n^2; other T: the same integrated time step * T
        scale = max(math.sqrt(n), math.sqrt(facts.size * log) / epsilon)
        step = facts.distance * n / (bound * rounds * scale)
    noise = math.sqrt(8 * log) * bound / epsilon * batch * math.sqrt(rounds) / n  # on the sum
    made = _scheduled(facts, budget, calibration, "noisy_sgd_2020", rounds, batch, bound, noise)
    return dataclasses.replace(made, step=_validate.positive("step", step), tail=rounds)


def _scheduled(
    facts: Facts,
    budget: Budget,
    calibration: str,
    solver: str,
    rounds: int,
    batch: float,
    bound: float,
    noise: float,
) -> Plan:
    """Return a plan with the published ``noise`` on the sum, or with the least."""
    if calibration != "paper":
        return tight_plan(facts, budget, calibration, solver, rounds, batch, bound)
    if (epsilon := amounts(budget)[0]) > 1.0:
        raise AssumptionError(
            f"{solver} with calibration='paper' needs epsilon <= 1, got {epsilon:g}: its "
            "published noise is too small from epsilon 3 or 4 on. Use calibration='tight'."
        )
    return Plan(
        solver=solver,
        problem=facts.problem,
        n=facts.n,
        d=facts.d,
        budget=budget,
        calibration=calibration,
        sampling=FIXED_SIZE,
        rounds=rounds,
        batch=batch,
        clip=bound,
        sigma=noise,
        step=1.0,
    )


def _risk(facts: Facts, budget: Budget) -> float:
    bound, rounds = facts.gradient_bound(None), min(LONGEST, max(1, facts.n // 8))
    noise = 1.2 * full_batch_multiplier(budget, rounds) * bound / facts.n
    return bound_on_risk(facts, bound, bound**2 + facts.size * noise**2, rounds)


def _gradients_2019(facts: Facts, budget: Budget) -> float:
    rounds = min(LONGEST, max(1, facts.n // 8))
    return facts.n * math.sqrt(amounts(budget)[0] * rounds / 4)


def _gradients_2020(facts: Facts, budget: Budget) -> float:
    return facts.n * math.sqrt(min(LONGEST, facts.n**2))


SOLVERS = (
    Solver(
        key="noisy_sgd_2019",
        summary="Noisy SGD on large secret samples for smooth losses; smooths the others.",
        paper="Bassily, Feldman, Talwar, Thakurta 2019",
        reference="Alg 1, Thm 3.2; Sec 4 for non-smooth losses",
        setting="smooth losses, or convex losses of a margin with bounded slope",
        needs=(needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN, APPROX, needs.SMOOTHABLE),
        rounds="T = min(n/8, eps^2 n^2/(32 d log(1/delta)))",
        cost="n sqrt(eps T/4) gradients",
        plan=plan_2019,
        run=run,
        risk=_risk,
        gradients=_gradients_2019,
        plan_type=Plan,
        calibrations=("tight", "conjectured", "paper"),
    ),
    Solver(
        key="noisy_sgd_2020",
        summary="Noisy SGD in very many small steps for Lipschitz losses.",
        paper="Bassily, Feldman, Guzman, Talwar 2020",
        reference="noisy SGD with T = n^2",
        setting="any loss, any domain with a projection; Lipschitz convex losses for the rate",
        needs=(needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN, APPROX),
        rounds=f"T = n^2 (tight: at most {LONGEST})",
        cost="n sqrt(T) gradients",
        plan=plan_2020,
        run=run,
        risk=_risk,
        gradients=_gradients_2020,
        plan_type=Plan,
        calibrations=("tight", "conjectured", "paper"),
    ),
)
