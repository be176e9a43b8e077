"""Published schedules: gradient perturbation of 2022, noisy SGD of 2019 and of 2020.

Each takes its numbers from its paper: with ``calibration="paper"`` the noise too, which the
accountant confirms or refuses; else the noise is the least that the accountant allows.
"""

from __future__ import annotations

import dataclasses
import math

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...task import Task
from ..common.clips import descent_clip
from . import beta_search
from .noise import FIXED_SIZE, POISSON, Samples, full_batch_multiplier, usage
from .schedule import (
    LONGEST,
    WASTE,
    Plan,
    amounts,
    bound_on_risk,
    checked_batch,
    confirmed,
    pair_of,
    refuse_many,
    tight_plan,
)

# -- dp_sgd_gradient -------------------------------------------------------------------------------


def plan_gradient(
    task: Task,
    *,
    rounds: int | None = None,
    batch: int | None = None,
    clip: float | None = None,
    step: float | None = None,
    accountant: str = "paper",
) -> Plan:
    """Return a plan of Alg 2: ``rounds`` iterates are averaged, so that one release fewer is made.

    ``accountant`` (calibration "paper" only): "auto" takes the tight noise where no beta exists.
    """
    _validate.choice("accountant", accountant, ("paper", "auto"))
    if task.calibration == "paper":
        if batch is not None:
            raise ParameterError(
                "dp_sgd_gradient with calibration='paper' samples single rows; got "
                f"batch={batch!r}. Leave batch out, or use calibration='tight'."
            )
        return _published_gradient(task, rounds, clip, step, accountant)
    bound = descent_clip(task, clip)
    count = _rounds(task) if rounds is None else _validate.integer("rounds", rounds, at_least=2)
    pair = pair_of(task.calibration)
    size = _batch(task, count, pair) if batch is None else checked_batch(batch, task.n)
    plan = tight_plan(task, "dp_sgd_gradient", count - 1, size, bound)
    if step is None:
        # the best eta of the header's bound
        square = bound**2 * (1 + 1 / size) + task.n_weights * (plan.sigma / size) ** 2
        longest = 2.0 / task.smoothness if math.isfinite(task.smoothness) else math.inf
        step = min(task.initial_distance / math.sqrt(count * square), longest)
    return dataclasses.replace(plan, step=_validate.positive("step", step), tail=count)


def _published_gradient(
    task: Task,
    rounds: int | None,
    clip: float | None,
    step: float | None,
    accountant: str,
) -> Plan:
    """Return Alg 2 as published: single rows, the noise of Thm 11, the step of Thm 12 corrected."""
    hoelder, problem = task.constants.hoelder, task.problem
    bound = task.constants.gradient_at_zero + hoelder.constant * task.max_norm**hoelder.alpha
    bound = min(bound, math.inf if clip is None else _validate.positive("clip", clip))
    if not math.isfinite(bound):
        raise AssumptionError(
            f"dp_sgd_gradient with calibration='paper' needs a bounded gradient; that of "
            f"{problem.loss.name} over {problem.domain!r} is unbounded. Bound the domain, pass "
            "options={'clip': ...}, or use calibration='tight'."
        )
    power = (2 - hoelder.alpha) / (1 + hoelder.alpha) if hoelder.alpha < 0.5 else 1.0
    count = (
        math.ceil(task.n**power)
        if rounds is None
        else _validate.integer("rounds", rounds, at_least=2)
    )
    refuse_many("dp_sgd_gradient", count)
    multiplier = beta_search.published_noise(
        task.budget, n=task.n, rounds=count, exact=accountant == "auto"
    )
    if step is None:
        step = beta_search.published_step(
            n=task.n,
            size=task.n_weights,
            rounds=count,
            budget=task.budget,
            constant=hoelder.constant,
        )
    plan = Plan(
        solver="dp_sgd_gradient",
        task=task,
        sampling=FIXED_SIZE,
        rounds=count - 1,
        batch=1.0,
        clip=bound,
        sigma=multiplier * bound,
        step=_validate.positive("step", step),
        tail=count,
    )
    return confirmed(plan) if accountant == "auto" else plan


def _rounds(task: Task) -> int:
    """Return T = (n mu / (s sqrt(d)))^2, between 50 and n: more steps would not lower the bound."""
    scale = task.n * task.budget.mu_per_row() / task.budget.adjacency.factor
    return max(2, min(max(50, int(min(scale * scale / task.n_weights, 1e9))), task.n, LONGEST))


def _batch(task: Task, rounds: int, pair: str) -> int:
    """Return the smallest of a few batches that wastes at most a tenth of the noise."""
    epsilon, n = amounts(task.budget)[0], task.n
    batch = math.ceil(n * min(1.0, 0.35 * min(max(1.0, epsilon), 8.0) / math.sqrt(rounds)))
    while batch < n:
        most = WASTE * full_batch_multiplier(task.budget, rounds) * batch / n
        if usage(most, task.budget, Samples(POISSON, batch, n, rounds - 1, pair)) <= 1.0:
            return batch
        batch = min(n, 2 * batch)
    return n


def risk_gradient(task: Task) -> float:
    """Return the predicted excess risk of `dp_sgd_gradient`."""
    return _full_batch_risk(task, _rounds(task), WASTE)


def gradients_gradient(task: Task) -> float:
    """Return how many gradients `dp_sgd_gradient` takes by default."""
    epsilon = min(max(1.0, amounts(task.budget)[0]), 8.0)
    return task.n * min(1.0, 0.7 * epsilon / math.sqrt(_rounds(task))) * _rounds(task)


# -- noisy_sgd_2019, noisy_sgd_2020 ----------------------------------------------------------------


def plan_2019(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | None = None,
    step: float | None = None,
) -> Plan:
    """Return a plan for smooth losses, or for the Moreau envelope of others."""
    epsilon, delta = amounts(task.budget)
    bound = descent_clip(task, clip, calibration=task.calibration)
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
    plan = _scheduled(task, "noisy_sgd_2019", rounds, batch, bound, noise)
    step = _validate.positive("step", step)
    return dataclasses.replace(plan, step=step, tail=rounds, smoothing=smoothing)


def plan_2020(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | None = None,
    step: float | None = None,
) -> Plan:
    """Return a plan of T = n^2 steps on single rows, or of fewer steps on n/sqrt(T) rows each."""
    epsilon, delta = amounts(task.budget)
    bound = descent_clip(task, clip, calibration=task.calibration)
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
    plan = _scheduled(task, "noisy_sgd_2020", rounds, batch, bound, noise)
    return dataclasses.replace(plan, step=_validate.positive("step", step), tail=rounds)


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


def risk_noisy_sgd(task: Task) -> float:
    """Return the predicted excess risk of `noisy_sgd_2019` and `noisy_sgd_2020`."""
    return _full_batch_risk(task, min(LONGEST, max(1, task.n // 8)), 1.2)


def gradients_2019(task: Task) -> float:
    """Return how many gradients `noisy_sgd_2019` takes by default."""
    rounds = min(LONGEST, max(1, task.n // 8))
    return task.n * math.sqrt(amounts(task.budget)[0] * rounds / 4)


def gradients_2020(task: Task) -> float:
    """Return how many gradients `noisy_sgd_2020` takes by default."""
    return task.n * math.sqrt(min(LONGEST, task.n**2))


def _full_batch_risk(task: Task, rounds: int, waste: float) -> float:
    """Return the header's bound, with noise a little above that of full batches."""
    bound = task.gradient_bound(None)
    noise = waste * full_batch_multiplier(task.budget, rounds) * bound / task.n
    return bound_on_risk(task, bound, bound**2 + task.n_weights * noise**2, rounds)
