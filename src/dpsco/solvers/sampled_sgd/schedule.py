"""Noisy SGD on secret samples: clipped gradients of a random batch, Gaussian noise in every step.

Paper      Wang, Lei, Ying, Zhang 2022, Alg 2, Thms 11 and 12 (dp_sgd_gradient); Abadi et al. 2016
           (arXiv:1607.00133), Alg 1 (dp_sgd_poisson).
Guarantee  (epsilon, delta)-DP by the privacy loss distribution of sampled Gaussian releases, which
           rests on clipping alone, so it holds for every loss, convex or not.
Rate       E excess <= R^2/(2 eta T) + eta (C^2 (1 + 1/m) + d s^2)/2 + 2 G R/sqrt(n), s the noise on
           the mean gradient: R sqrt((C^2 (1 + 1/m) + d s^2)/T) + 2 G R/sqrt(n) at the best eta.
Needs      rows bounded in l2, a budget (epsilon, delta). Convexity for the rate only.
Symbols    T, m, q, eta, C, R, b -> rounds, batch, rate, step, clip, distance, smoothing.
"""

from __future__ import annotations

import dataclasses
import math

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...task import Task
from .. import needs, noisy_gd
from ..base import Measured, Solver
from ..common.clips import descent_clip, gradient_clip
from . import published as beta_search
from .noise import FIXED_SIZE, POISSON, affordable, full_batch_multiplier
from .steps import (
    APPROX,
    LONGEST,
    Plan,
    amounts,
    bound_on_risk,
    checked_batch,
    confirmed,
    pair_of,
    refuse_many,
    run,
    tight_plan,
)

MOMENTUM = 0.9
EPOCHS = 20.0  # of dp_sgd_poisson: at epsilon 1 and rate 1/20, within 10 % of full batches
_WASTE = 1.1  # noise on the mean gradient, against full batches, that a batch may cost


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
    bound = gradient_clip(task, clip)
    count = _rounds(task) if rounds is None else _validate.integer("rounds", rounds, at_least=2)
    pair = pair_of(task.calibration)
    size = _batch(task, count, pair) if batch is None else checked_batch(batch, task.n)
    made = tight_plan(task, "dp_sgd_gradient", count - 1, size, bound)
    if step is None:
        # the best eta of the header's bound
        square = bound**2 * (1 + 1 / size) + task.n_weights * (made.sigma / size) ** 2
        longest = 2.0 / task.smoothness if math.isfinite(task.smoothness) else math.inf
        step = min(task.initial_distance / math.sqrt(count * square), longest)
    return dataclasses.replace(made, step=_validate.positive("step", step), tail=count)


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
    made = Plan(
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
    return confirmed(made) if accountant == "auto" else made


def _rounds(task: Task) -> int:
    """Return T = (n mu / (s sqrt(d)))^2, between 50 and n: more steps would not lower the bound."""
    scale = task.n * task.budget.mu_per_row() / task.budget.adjacency.factor
    return max(2, min(max(50, int(min(scale * scale / task.n_weights, 1e9))), task.n, LONGEST))


def _batch(task: Task, rounds: int, pair: str) -> int:
    """Return the smallest of a few batches that wastes at most a tenth of the noise."""
    epsilon, n = amounts(task.budget)[0], task.n
    batch = math.ceil(n * min(1.0, 0.35 * min(max(1.0, epsilon), 8.0) / math.sqrt(rounds)))
    while batch < n:
        most = _WASTE * full_batch_multiplier(task.budget, rounds) * batch / n
        if affordable(
            most, task.budget, sampling=POISSON, batch=batch, n=n, rounds=rounds - 1, pair=pair
        ):
            return batch
        batch = min(n, 2 * batch)
    return n


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
        smoothing: of the Moreau envelope of a loss with a kink; 0 descends the loss itself.
    """
    bound = descent_clip(task, clip)
    passes = EPOCHS if epochs is None else _validate.positive("epochs", epochs)
    size = _sample_size(task.n, passes, batch, rate)
    rounds = max(1, round(passes * task.n / size))
    made = tight_plan(task, "dp_sgd_poisson", rounds, size, bound)
    smooth = noisy_gd.descent_smoothing(task, rounds, smoothing)
    bend = task.smoothness if smooth == 0.0 else smooth * task.feature_bound**2
    time = _time(task, made)
    share = _momentum(rounds, time * bend)
    if momentum is not None:
        share = noisy_gd.checked_momentum(momentum)
    if step is None:
        longest = 1.0 / bend if math.isfinite(bend) else task.initial_distance / bound
        step = min(time / rounds, longest / (1.0 - share))
    return dataclasses.replace(
        made,
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
            raise ParameterError(f"rate must lie in (0, 1], got {rate!r}. Common: 0.01 to 0.1.")
        return share * n
    if batch is not None:
        return checked_batch(batch, n)
    return float(max(1, math.ceil(n / max(1.0, epochs))))


def _time(task: Task, made: Plan) -> float:
    """Return h = step * rounds, at which bias R^2/(2h) and noise h d s^2/2 are equal.

    s is the noise, per row, of one release that would tell as much as all of them.
    """
    single = made.sigma / (made.batch * math.sqrt(made.rounds))
    return task.initial_distance / (single * math.sqrt(task.n_weights))


def _momentum(rounds: int, needed: float) -> float:
    """Return 0.9, or more where ``needed`` = h * smoothness steps of full length do not fit in."""
    return max(0.0, min(max(MOMENTUM, 1.0 - rounds / needed), 1.0 - 10.0 / rounds))


# -- registry --------------------------------------------------------------------------------------


def _risk_gradient(task: Task) -> float:
    return _risk(task, _rounds(task), _WASTE)


def _risk_poisson(task: Task) -> float:
    """Return that of full batches: its schedule is theirs, its noise a little larger."""
    return _WASTE * noisy_gd.risk(task)


def _risk(task: Task, rounds: int, waste: float) -> float:
    """Return the header's bound, with noise a little above that of full batches."""
    bound = task.gradient_bound(None)
    noise = waste * full_batch_multiplier(task.budget, rounds) * bound / task.n
    return bound_on_risk(task, bound, bound**2 + task.n_weights * noise**2, rounds)


def _gradients_gradient(task: Task) -> float:
    epsilon = min(max(1.0, amounts(task.budget)[0]), 8.0)
    return task.n * min(1.0, 0.7 * epsilon / math.sqrt(_rounds(task))) * _rounds(task)


def _gradients_poisson(task: Task) -> float:
    return EPOCHS * task.n


SOLVERS = (
    Solver(
        key="dp_sgd_gradient",
        summary="SGD with noise in every step, on small secret samples; averages all iterates.",
        paper="Wang, Lei, Ying, Zhang 2022",
        reference="Alg 2, Thms 11 and 12",
        setting="any loss, any domain with a projection; convex losses for the rate",
        needs=(needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN, APPROX),
        rounds="T = (n mu/(s sqrt(d)))^2, between 50 and n",
        cost="m T gradients, m about 0.7 n/sqrt(T)",
        plan=plan_gradient,
        run=run,
        risk=_risk_gradient,
        gradients=_gradients_gradient,
        plan_type=Plan,
        calibrations=("tight", "conjectured", "paper"),
        measured=Measured(0.08, 0.08),
    ),
    Solver(
        key="dp_sgd_poisson",
        summary="Everyday DP-SGD: Poisson samples, momentum, average of the last iterates.",
        paper="Abadi et al. 2016",
        reference="Alg 1; Choquette-Choo, Ganesh, Thakurta 2025, Sec 2.1",
        setting="any loss, any domain with a projection",
        needs=(needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN, APPROX),
        rounds="epochs / rate (default 20 epochs at rate 1/20)",
        cost="epochs n gradients",
        plan=plan_poisson,
        run=run,
        risk=_risk_poisson,
        gradients=_gradients_poisson,
        plan_type=Plan,
        calibrations=("tight", "conjectured"),
        measured=Measured(0.08, 0.12),
    ),
)
