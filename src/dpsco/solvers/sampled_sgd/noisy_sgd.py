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
from ...task import Task
from .. import needs
from ..base import Measured, Solver
from ..common.clips import gradient_clip
from .noise import FIXED_SIZE, full_batch_multiplier
from .steps import APPROX, LONGEST, Plan, amounts, bound_on_risk, refuse_many, run, tight_plan


def plan_2019(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | None = None,
    step: float | None = None,
) -> Plan:
    """Return a plan for smooth losses, or for the Moreau envelope of others."""
    epsilon, delta = amounts(task.budget)
    bound = gradient_clip(task, clip, calibration=task.calibration)
    log = math.log(1 / delta)
    if rounds is None:
        most = min(task.n / 8, epsilon**2 * task.n * task.n / (32 * task.n_weights * log))
        rounds = max(1, int(most if task.calibration == "paper" else min(most, LONGEST)))
    rounds = _validate.integer("rounds", rounds)
    batch = float(min(task.n, max(round(task.n * math.sqrt(epsilon / (4 * rounds))), 1)))
    smoothing, curvature = 0.0, task.smoothness
    if not math.isfinite(curvature):
        rate = min(math.sqrt(task.n) / 4, epsilon * task.n / (8 * math.sqrt(task.n_weights * log)))
        curvature = bound / task.initial_distance * rate
        smoothing = curvature / task.feature_bound**2
    if step is None:
        step = min(task.initial_distance / (bound * math.sqrt(rounds)), 2.0 / curvature)
    noise = batch * math.sqrt(8 * rounds * log) * bound / (task.n * epsilon)  # on the sum
    made = _scheduled(task, "noisy_sgd_2019", rounds, batch, bound, noise)
    step = _validate.positive("step", step)
    return dataclasses.replace(made, step=step, tail=rounds, smoothing=smoothing)


def plan_2020(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | None = None,
    step: float | None = None,
) -> Plan:
    """Return a plan of T = n^2 steps on single rows, or of fewer steps on n/sqrt(T) rows each."""
    epsilon, delta = amounts(task.budget)
    bound = gradient_clip(task, clip, calibration=task.calibration)
    log = math.log(1 / delta)
    if rounds is None:
        rounds = task.n * task.n if task.calibration == "paper" else min(task.n * task.n, LONGEST)
    rounds = _validate.integer("rounds", rounds)
    refuse_many("noisy_sgd_2020", rounds)
    batch = float(min(task.n, max(1, round(task.n / math.sqrt(rounds)))))
    if step is None:  # R/(G n max(...)) at T = n^2; other T: the same integrated time step * T
        scale = max(math.sqrt(task.n), math.sqrt(task.n_weights * log) / epsilon)
        step = task.initial_distance * task.n / (bound * rounds * scale)
    noise = math.sqrt(8 * log) * bound / epsilon * batch * math.sqrt(rounds) / task.n  # on the sum
    made = _scheduled(task, "noisy_sgd_2020", rounds, batch, bound, noise)
    return dataclasses.replace(made, step=_validate.positive("step", step), tail=rounds)


def _scheduled(
    task: Task,
    solver: str,
    rounds: int,
    batch: float,
    bound: float,
    noise: float,
) -> Plan:
    """Return a plan with the published ``noise`` on the sum, or with the least."""
    if task.calibration != "paper":
        return tight_plan(task, solver, rounds, batch, bound)
    if (epsilon := amounts(task.budget)[0]) > 1.0:
        raise AssumptionError(
            f"{solver} with calibration='paper' needs epsilon <= 1, got {epsilon:g}: its "
            "published noise is too small from epsilon 3 or 4 on. Use calibration='tight'."
        )
    return Plan(
        solver=solver,
        task=task,
        sampling=FIXED_SIZE,
        rounds=rounds,
        batch=batch,
        clip=bound,
        sigma=noise,
        step=1.0,
    )


def _risk(task: Task) -> float:
    bound, rounds = task.gradient_bound(None), min(LONGEST, max(1, task.n // 8))
    noise = 1.2 * full_batch_multiplier(task.budget, rounds) * bound / task.n
    return bound_on_risk(task, bound, bound**2 + task.n_weights * noise**2, rounds)


def _gradients_2019(task: Task) -> float:
    rounds = min(LONGEST, max(1, task.n // 8))
    return task.n * math.sqrt(amounts(task.budget)[0] * rounds / 4)


def _gradients_2020(task: Task) -> float:
    return task.n * math.sqrt(min(LONGEST, task.n**2))


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
        measured=Measured(0.065, 0.069),
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
        measured=Measured(0.06, 0.06),
    ),
)
