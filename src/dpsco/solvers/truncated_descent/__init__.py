"""Descent on truncated gradients: for gradients of which a moment is bounded, and nothing else.

Paper      Su, Zhao, Wang 2023 (arXiv:2303.18047): Algorithm 7 and Thm 14
           (truncated_batched_mirror_descent), Thm 15 after Kamath, Liu, Zhang 2022
           (heavy_tailed_coordinate_gd), Algorithm 4 and Thms 9 and 10
           (shuffled_truncated_mirror_descent).
Guarantee  Gaussian releases of sums whose rows are truncated: mu = sqrt(T) sensitivity / sigma for
           T full passes, sensitivity / sigma for disjoint batches. Reports in secret order: by
           Feldman, McMillan, Talwar 2020 (arXiv:2012.12803), numerically. Truncation alone is
           relied upon: any loss, convex or not, any step, any tail.
Rate       E[F(w) - F*] <= 2 sqrt(P) (g + bias) + sampling for convex F, P = (kappa/2) R^2 the
           potential of weights of l_pbar norm R, g the l_q norm of the noise that one release
           leaves on the mean; bias <= E ||gradient||^2/(4 clip). For coordinates as for
           noisy_gd, R sqrt(d) sigma_1/n; bias <= E g_j^2/(4 clip) each.
Needs      rows bounded in l2, n public; mirror steps: the whole space or an l_p ball, 1 <= p <= 2.
           Convexity and smoothness for the rate only.
Symbols    T, gamma, beta, B or tau, M -> rounds, 1/step, smoothness, clip, diameter.

The paper truncates in l_q, q = p/(p-1) >= 2, and pays for noise in l2: a gradient of l_q norm B has
l2 norm d^(1/2 - 1/q) B at most. Truncation to that l2 norm costs the same and cuts less, so we
do that. It also drops what is too long; we rescale it, which costs the same and has a
quarter of the bias (zeroing does not lessen the sensitivity: a row can still turn from g to -g).

Read `schedule` (plans and their practical numbers), `shuffled` (that of reports in secret order),
`published` (the paper's numbers), `steps`.
"""

from __future__ import annotations

from functools import partial

from .. import needs
from ..base import Solver
from .schedule import (
    BATCHED,
    COORDINATES,
    MIRROR,
    CoordinatePlan,
    Plan,
    coordinate_risk,
    gradients,
    mirror_risk,
    plan_coordinates,
    plan_mirror,
)
from .shuffled import APPROX, SHUFFLED, ShuffledPlan, plan_shuffled, shuffled_risk
from .steps import CoordinateStepper, MirrorStepper

_entry = partial(Solver, paper="Su, Zhao, Wang 2023", gradients=gradients)

SOLVERS = (
    _entry(
        key=BATCHED,
        summary="Mirror descent on truncated gradients, for heavy tails in l_p geometry.",
        reference="Algorithm 7, Thm 14, with full batches by default",
        setting="any loss, the whole space or an l_p ball with 1 <= p <= 2",
        needs=(needs.EUCLIDEAN, MIRROR, needs.RIDGE, needs.FIXED_N, needs.GAUSSIAN),
        rounds="T, 60 to 1000 full passes; or T batches",
        cost="n T gradients; n with batches",
        plan=plan_mirror,
        stepper=MirrorStepper,
        risk=mirror_risk,
        plan_type=Plan,
    ),
    _entry(
        key=COORDINATES,
        summary="Gradient descent on means that are truncated coordinate by coordinate.",
        reference="Thm 15, after Kamath, Liu, Zhang 2022",
        setting="any loss, any domain with a projection",
        needs=(needs.EUCLIDEAN, needs.RIDGE, needs.FIXED_N, needs.GAUSSIAN),
        rounds="T, 60 to 1000 full passes",
        cost="n T gradients",
        plan=plan_coordinates,
        stepper=CoordinateStepper,
        risk=coordinate_risk,
        plan_type=CoordinatePlan,
    ),
    _entry(
        key=SHUFFLED,
        summary="Mirror descent on noisy reports in secret order: nobody sees a gradient.",
        reference="Algorithm 4, Thms 9 and 10",
        setting="any loss, the whole space or an l_p ball with 1 <= p <= 2",
        needs=(needs.EUCLIDEAN, MIRROR, needs.RIDGE, needs.FIXED_N, needs.GAUSSIAN, APPROX),
        rounds="T, 4 to 64 batches",
        cost="n gradients",
        plan=plan_shuffled,
        stepper=MirrorStepper,
        risk=shuffled_risk,
        gradients=lambda task: float(task.n),
        plan_type=ShuffledPlan,
    ),
)
