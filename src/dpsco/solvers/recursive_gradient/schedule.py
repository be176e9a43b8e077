"""One pass in few rounds: accelerated steps on recursive gradients with correlated noise.

A row is asked for one clipped difference of gradients at two points. The noisy means telescope to
low-variance gradients, so one prefix-sum release serves all rounds, and a handful of them suffices.

Paper      Choquette-Choo, Ganesh, Thakurta 2025: Algorithm 1 (acc_srgd), Thm 15 (acc_independent),
           Sec 4.3 (srg_sgd); Zhang, Tran, Cutkosky 2022 for srg_online_to_batch.
Guarantee  Every row enters one batch. One prefix-sum release, mu = sensitivity column_norm / sigma;
           acc_independent: one Gaussian release a batch, mu = sensitivity / sigma by parallel
           composition. Clipping alone is relied upon: any loss, convex or not, any step.
Rate       E[F(w) - F*] <= 2 beta R^2/(T (T+1)) + D (4/3 L/sqrt(n) + 2 z L e sqrt(d)/n) + smaller
           terms, z = sensitivity/(L mu), e the largest prefix error (about 1 + log(T)/pi), D the
           diameter, for convex F and beta >= 2 M, where no clip acts; T of order
           sqrt(M R/(L (1/sqrt(n) + z sqrt(d)/n))) rounds suffice. `risk` has R for D.
Needs      rows bounded in l2, n public. Smoothness and convexity for the rate only.
Symbols    T, B_t, beta, C, M_F, eta_t, tau_t, b_t -> rounds, batches(), beta, clip,
           population_smoothness, t + 1, 2/(t + 2), -noise/beta.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import _validate
from ...privacy.mechanisms import gaussian_sigma
from ...privacy.mechanisms.prefix_sum.mechanism import PrefixMechanism
from ...task import Task
from .. import needs
from ..base import Factors, Measured, SingleEpoch, Solver
from ..common.clips import gradient_clip
from ..engine import batch_runner, check_rounds, chosen_mechanism
from . import rates as schedules
from .plan import (
    BATCH,
    Asked,
    Plan,
    chosen_clip,
    chosen_sigma,
    default_smoothing,
    full_tree,
    public_scales,
    published_schedule,
)
from .rates import Scales
from .steps import AcceleratedStepper, BatchStepper, IndependentStepper, RecursiveStepper

ACCELERATED, INDEPENDENT = "acc_srgd", "acc_independent"
PLAIN = "srg_sgd"
SCHEDULES = ("default", "paper_general", "paper_realizable")


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
    asked = Asked(rounds, beta, clip, noise, population_smoothness, certified, z_factor)
    return _plan_recursive(ACCELERATED, task, asked)


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
    asked = Asked(rounds, beta, clip, noise, population_smoothness, certified, z_factor)
    return _plan_recursive(BATCH, task, asked)


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
    asked = Asked(rounds, beta, clip, noise, population_smoothness, certified)
    return _plan_recursive(PLAIN, task, asked)


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
    bound = gradient_clip(task, clip)
    scales = public_scales(task, bound, population_smoothness)
    rounds = check_rounds(
        schedules.best_independent_rounds(scales) if rounds is None else rounds, task.n
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
    asked: Asked,
) -> Plan:
    """Return a plan with recursive gradients and correlated noise."""
    gradient = task.gradient_bound(asked.clip)
    if not asked.certified:  # else nothing may be cut
        gradient = gradient_clip(task, asked.clip, calibration=task.calibration, prefix=True)
    scales = public_scales(task, gradient, asked.population_smoothness)
    few = schedules.best_rounds(scales)
    rounds = asked.rounds
    if rounds is None and isinstance(asked.noise, PrefixMechanism):
        rounds = asked.noise.rounds
    if rounds is None:
        rounds = schedules.within(schedules.PLAIN * few, task.n) if solver == PLAIN else few
        rounds = full_tree(rounds, task.n) if asked.noise in ("tree", "tree_honaker") else rounds
    stream = chosen_mechanism(asked.noise, check_rounds(rounds, task.n), task)
    smoothing = default_smoothing(task, scales.alpha)
    clip = chosen_clip(task, smoothing, scales, asked)
    beta = _beta(solver, task, scales, stream.rounds)
    return Plan(
        solver=solver,
        task=task,
        rounds=stream.rounds,
        clip=clip,
        sigma=chosen_sigma(task.budget, clip, task.n, stream, task.calibration),
        mechanism=stream,
        beta=beta if asked.beta is None else asked.beta,
        z_factor=asked.z_factor,
        smoothing=smoothing,
        certified=asked.certified,
        population_smoothness=scales.smoothness,
    )


def _beta(solver: str, task: Task, scales: Scales, rounds: int) -> float:
    """Return the inverse step for so many rounds, be they fewer or more than are enough."""
    haste = schedules.STEP_BOOST
    if solver == INDEPENDENT:
        haste = schedules.HASTE_INDEPENDENT
        enough = schedules.best_independent_rounds(scales)
        beta = schedules.independent_beta(scales, max(rounds, enough))
    elif solver == PLAIN:  # without acceleration more rounds are not worth shorter steps
        few = schedules.best_rounds(scales)
        enough = schedules.within(schedules.PLAIN * few, task.n)
        beta = schedules.recursive_beta(scales, few)
    else:
        enough = schedules.best_rounds(scales)
        beta = schedules.recursive_beta(scales, max(rounds, enough))
    everywhere = task.problem.loss.constants(
        feature=task.feature_bound, label=task.label_bound, radius=math.inf
    )
    if math.isfinite(everywhere.lipschitz):  # else the curvature is the same everywhere
        beta = schedules.boosted_step(beta, rounds, enough, haste)
    return beta + task.ridge


def _risk(solver: str) -> Callable[[Task], float]:
    """Return the bound of the header at the solver's own number of rounds."""

    def risk(task: Task) -> float:
        scales = public_scales(task, None, None)
        if solver == INDEPENDENT:
            rounds = schedules.best_independent_rounds(scales)
            beta = schedules.independent_beta(scales, rounds)
            return schedules.independent_excess(scales, rounds, beta)
        rounds = schedules.best_rounds(scales)
        beta = schedules.recursive_beta(scales, rounds)
        return schedules.recursive_excess(scales, rounds, beta, schedules.landau(rounds))

    return risk


def _gradients(task: Task) -> float:
    return 2.0 * task.n


def _entry(key: str, **about: Any) -> Solver:
    return Solver(
        key=key,
        setting="any loss, any domain with a projection",
        needs=(needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN),
        risk=_risk(key),
        plan_type=Plan,
        **about,
    )


SOLVERS = (
    _entry(
        ACCELERATED,
        summary="One pass in a few accelerated rounds; recursive gradients, correlated noise.",
        paper="Choquette-Choo, Ganesh, Thakurta 2025",
        reference="Algorithm 1 with clipping, Lemma 8, Thms 10 and 14",
        rounds="2 sqrt(M R/(L alpha)), about n^(1/4)",
        cost="2n gradients",
        plan=plan_accelerated,
        run=batch_runner(AcceleratedStepper),
        stepper=AcceleratedStepper,
        gradients=_gradients,
        calibrations=("tight", "paper"),
        measured=Measured(0.041, 0.16),
        single_epoch=SingleEpoch(
            rank=1, accelerated=True, smooth=Factors(0.048, 1.0), nonsmooth=Factors(0.14, 0.63)
        ),
    ),
    _entry(
        INDEPENDENT,
        summary="One pass of accelerated rounds on fresh gradients with independent noise.",
        paper="Choquette-Choo, Ganesh, Thakurta 2025",
        reference="Thm 15",
        rounds="T of least predicted risk",
        cost="n gradients",
        plan=plan_independent,
        run=batch_runner(IndependentStepper),
        stepper=IndependentStepper,
        gradients=lambda task: float(task.n),
        measured=Measured(0.05, 0.14),
        single_epoch=SingleEpoch(
            accelerated=True, smooth=Factors(0.047, 0.27), nonsmooth=Factors(0.096, 0.2)
        ),
    ),
    _entry(
        PLAIN,
        summary="One pass of plain steps on recursive gradients with correlated noise.",
        paper="Choquette-Choo, Ganesh, Thakurta 2025",
        reference="Sec 4.3",
        rounds="8 sqrt(M R/(L alpha))",
        cost="2n gradients",
        plan=plan_plain,
        run=batch_runner(RecursiveStepper),
        stepper=RecursiveStepper,
        gradients=_gradients,
        measured=Measured(0.061, 0.18),
        single_epoch=SingleEpoch(rank=4, smooth=Factors(0.065, 1.0), nonsmooth=Factors(0.16, 1.0)),
    ),
    _entry(
        BATCH,
        summary="One pass of averaged mirror steps on recursive gradients; moves are short.",
        paper="Zhang, Tran, Cutkosky 2022",
        reference="Choquette-Choo, Ganesh, Thakurta 2025, Sec 1",
        rounds="2 sqrt(M R/(L alpha)), about n^(1/4)",
        cost="2n gradients",
        plan=plan_batch,
        run=batch_runner(BatchStepper),
        stepper=BatchStepper,
        gradients=_gradients,
        measured=Measured(0.09, 0.22),
        single_epoch=SingleEpoch(
            rank=2, accelerated=True, smooth=Factors(0.039, 1.1), nonsmooth=Factors(0.085, 0.7)
        ),
    ),
)
