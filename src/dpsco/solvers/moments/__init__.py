"""One pass over disjoint batches where gradients have moments and no bound: clipped means.

Paper      Lowy, Razaviyayn 2023 (arXiv:2209.07403): Algorithm 4 (clipped_acsa), Algorithm 5
           (clipped_sgd_sc), Algorithm 6 (clipped_prox_sgd), Algorithm 1 (l2_clip_mean_oracle);
           Kamath, Liu, Zhang 2022 (arXiv:2106.01336) for noisy_gd_split_baseline, Appendix C.
Guarantee  Every row enters at most one batch, and every batch has the whole budget: mu =
           sensitivity / sigma by parallel composition, noise on sums. T batches have whole sizes
           that differ by one at most, T + 1 of them for Algorithm 5. Clipping alone is relied upon:
           no moment, smoothness or convexity enters.
Rate       acsa: 2 eta D0^2/(T (T+1)) + (S^2 + B^2)(2T+1)/(6 eta) + B D0; sgd_sc: 16 g D0^2
           exp(-mu_sc T/(4g)) + 72 S^2/(mu_sc T) + 4 B^2/mu_sc; prox: (1 - 1/kappa)^T Delta +
           (B^2 + S^2)/(2 mu_sc). S^2 = d s^2 + r^2/rows, B = c_k r^k/C^(k-1), of a batch's mean.
Needs      rows bounded in l2 (the bound may be huge), n public. Smooth population risk for acsa,
           strongly convex for sgd_sc, proximal PL for prox: for the rates only.
Symbols    T, C, r_k, k, beta, kappa, D0, z -> rounds, clip, moment, order, smoothness, condition,
           task.initial_distance, sigma / bound.

Read `rates` (formulas), `schedule` (the plan and its practical numbers), `published` (the paper's
numbers, corrected), `steps` (the steppers). Oracles and clips are in `solvers/common`.
"""

from __future__ import annotations

from functools import partial

from ...losses.vector import SquaredDistance
from ...task import Task
from .. import needs
from ..base import SingleEpoch, Solver
from ..needs import Need
from .rates import kamath_corrected_bound as kamath_corrected_bound
from .schedule import (
    ACSA,
    MEAN,
    PROX,
    SGD,
    SPLIT,
    Plan,
    plan_acsa,
    plan_mean,
    plan_prox,
    plan_sgd,
    plan_split,
    risk,
)
from .steps import AcceleratedStepper, AveragedStepper, ProxStepper


def _mean(task: Task) -> str:
    if isinstance(task.problem.loss, SquaredDistance):
        return ""
    return "it estimates a mean: the loss must be SquaredDistance()"


_entry = partial(
    Solver,
    paper="Lowy, Razaviyayn 2023",
    setting="any loss, any domain with a projection; gradients without a bound",
    needs=(needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN),
    cost="n gradients",
    gradients=lambda task: float(task.n),
    plan_type=Plan,
    single_epoch=SingleEpoch(),
)

SOLVERS = (
    _entry(
        key=ACSA,
        summary="One accelerated pass in few rounds for heavy-tailed gradients.",
        reference="Algorithm 4, Prop 28, Thm 29",
        rounds="T of least bound, about n^(1/4)",
        plan=plan_acsa,
        stepper=AcceleratedStepper,
        risk=risk,
    ),
    _entry(
        key=SGD,
        summary="One pass of averaged steps for heavy-tailed, strongly convex problems.",
        reference="Algorithm 5, Prop 31, Lemma 32, Thms 30 and 33",
        rounds="kappa log(n mu/sqrt(d)) + 1",
        plan=plan_sgd,
        stepper=AveragedStepper,
        risk=partial(risk, solver=SGD),
    ),
    _entry(
        key=PROX,
        summary="One pass of proximal steps for heavy tails and penalties, convex or not.",
        reference="Algorithm 6, Prop 36, Thms 35 and 38",
        rounds="kappa log(n mu/sqrt(d))/2",
        plan=plan_prox,
        stepper=ProxStepper,
        risk=partial(risk, solver=PROX),
    ),
    _entry(
        key=SPLIT,
        summary="A baseline that splits rows and budget over its rounds.",
        paper="Kamath, Liu, Zhang 2022",
        reference="Lowy, Razaviyayn 2023, Appendix C",
        rounds="(mu + beta)^2/(mu beta) log n",
        plan=plan_split,
        stepper=ProxStepper,
        risk=partial(risk, solver=SPLIT),
    ),
    _entry(
        key=MEAN,
        summary="The mean of heavy-tailed rows: one clipped sum with noise.",
        reference="Algorithm 1, Lemma 8",
        setting="means, any domain with a projection",
        needs=(needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN, Need("a mean", _mean)),
        rounds="1",
        plan=plan_mean,
        stepper=ProxStepper,
        risk=partial(risk, solver=MEAN),
    ),
)
