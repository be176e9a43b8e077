"""A single epoch in few rounds: accelerated steps on recursive gradients, correlated noise.

A row is asked for one clipped difference of gradients at two points. The noisy means telescope to
low-variance gradients, so one prefix-sum release serves all rounds, and a handful of them suffices.

Paper      Choquette-Choo, Ganesh, Thakurta 2025: Algorithm 1 (acc_srgd), Thm 15 (acc_independent),
           Sec 4.3 (srg_sgd); Zhang, Tran, Cutkosky 2022 for srg_online_to_batch.
Guarantee  Every row enters one batch. One prefix-sum release, mu = sensitivity column_norm / sigma;
           acc_independent: one Gaussian release per batch, mu = sensitivity / sigma by parallel
           composition. Clipping alone is relied upon: any loss, convex or not, any step.
Rate       E[F(w) - F*] <= 2 beta R^2/(T (T+1)) + D (4/3 L/sqrt(n) + 2 z L e sqrt(d)/n) + smaller
           terms, z = sensitivity/(L mu), e the largest prefix error (about 1 + log(T)/pi), D the
           diameter, for convex F and beta >= 2 M, where no clip acts; T of order
           sqrt(M R/(L (1/sqrt(n) + z sqrt(d)/n))) rounds suffice. `risk` has R for D.
Needs      rows bounded in l2, n public. Smoothness and convexity for the rate only.
Symbols    T, B_t, beta, C, M_F, eta_t, tau_t, b_t -> rounds, batches(), beta, clip,
           population_smoothness, t + 1, 2/(t + 2), -noise/beta.

Read `schedule` (the plan and its default numbers, from the formulas in `rates`), `published` (the
paper's numbers), `steps` (the steppers).
"""

from __future__ import annotations

from functools import partial

from .. import needs
from ..base import Factors, Measured, SingleEpoch, Solver
from .schedule import (
    ACCELERATED,
    BATCH,
    INDEPENDENT,
    PLAIN,
    Plan,
    gradients,
    plan_accelerated,
    plan_batch,
    plan_independent,
    plan_plain,
    risk,
    risk_independent,
)
from .steps import AcceleratedStepper, BatchStepper, IndependentStepper, RecursiveStepper

_entry = partial(
    Solver,
    setting="any loss, any domain with a projection",
    needs=(needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN),
    paper="Choquette-Choo, Ganesh, Thakurta 2025",
    cost="2n gradients",
    risk=risk,
    gradients=gradients,
    plan_type=Plan,
)

SOLVERS = (
    _entry(
        key=ACCELERATED,
        summary="One pass in a few accelerated rounds; recursive gradients, correlated noise.",
        reference="Algorithm 1 with clipping, Lemma 8, Thms 10 and 14",
        rounds="2 sqrt(M R/(L alpha)), about n^(1/4)",
        plan=plan_accelerated,
        stepper=AcceleratedStepper,
        calibrations=("tight", "paper"),
        measured=Measured(0.041, 0.16),
        single_epoch=SingleEpoch(
            rank=1, accelerated=True, smooth=Factors(0.048, 1.0), nonsmooth=Factors(0.14, 0.63)
        ),
    ),
    _entry(
        key=INDEPENDENT,
        summary="One pass of accelerated rounds on fresh gradients with independent noise.",
        reference="Thm 15",
        rounds="T of least predicted risk",
        cost="n gradients",
        plan=plan_independent,
        stepper=IndependentStepper,
        risk=risk_independent,
        gradients=lambda task: float(task.n),
        measured=Measured(0.05, 0.14),
        single_epoch=SingleEpoch(
            accelerated=True, smooth=Factors(0.047, 0.27), nonsmooth=Factors(0.096, 0.2)
        ),
    ),
    _entry(
        key=PLAIN,
        summary="One pass of plain steps on recursive gradients with correlated noise.",
        reference="Sec 4.3",
        rounds="8 sqrt(M R/(L alpha))",
        plan=plan_plain,
        stepper=RecursiveStepper,
        measured=Measured(0.061, 0.18),
        single_epoch=SingleEpoch(rank=4, smooth=Factors(0.065, 1.0), nonsmooth=Factors(0.16, 1.0)),
    ),
    _entry(
        key=BATCH,
        summary="One pass of averaged mirror steps on recursive gradients; moves are short.",
        paper="Zhang, Tran, Cutkosky 2022",
        reference="Choquette-Choo, Ganesh, Thakurta 2025, Sec 1",
        rounds="2 sqrt(M R/(L alpha)), about n^(1/4)",
        plan=plan_batch,
        stepper=BatchStepper,
        measured=Measured(0.09, 0.22),
        single_epoch=SingleEpoch(
            rank=2, accelerated=True, smooth=Factors(0.039, 1.1), nonsmooth=Factors(0.085, 0.7)
        ),
    ),
)
