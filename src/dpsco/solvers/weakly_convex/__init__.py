"""Private proximal steps: strongly convex problems in l_p, and weakly convex ones made of them.

Paper      Bassily, Guzman, Menart 2021 (arXiv:2107.05585), Alg 2, Thms 16 and 29; Asi, Feldman,
           Koren, Talwar 2021 (arXiv:2103.01516) for the strongly convex solver.
Guarantee  T noisy sums over a stage's rows, of gradients that are clipped to C: mu = sqrt(T)
           sensitivity/sigma. Stages have rows of their own, so the dearest one is the price.
           Clipping alone is relied upon: a wrong weak convexity costs accuracy, never privacy.
Rate       strongly convex: about 2 (L0^2 + d s^2)/(lambda T), s = sigma/n; the noise's part is
           8 d (L0/(n mu))^2/lambda for any T. Weakly convex: |prox(w) - w| of order n^(-1/4) +
           (d/(n mu)^2)^(1/6).
Needs      rows bounded in an l_p norm, n public. prox_guided_weakly_convex: a bounded domain and a
           loss that states its weak convexity.
Symbols    m, T, beta, lambda, rho, R, w_r, kappa -> sizes, rounds, strengths, curvature(),
           weak_convexity, len(sizes), anchor, 1/(p - 1).

Read `rates` (how many rounds and stages), `schedule` (the plans), `steps` (the stepper).
"""

from __future__ import annotations

from functools import partial

from .. import needs
from ..base import Measured, Solver
from ..common.lp_constants import MEASURABLE
from . import schedule
from .steps import ProximalStepper

_entry = partial(
    Solver,
    paper="Bassily, Guzman, Menart 2021",
    stepper=ProximalStepper,
    plan_type=schedule.Plan,
)

SOLVERS = (
    _entry(
        key=schedule.STRONG,
        summary="Composite mirror descent on strongly convex problems; any public centre.",
        reference="Thm 29",
        setting="any loss with a ridge or a regulariser of its own, any domain with a projection",
        needs=(MEASURABLE, schedule.WEAK, needs.RIDGE, needs.FIXED_N, needs.GAUSSIAN),
        rounds="min(n, (n mu)^2/(4 d)), at most 400",
        cost="n T gradients",
        plan=schedule.plan_strong,
        risk=schedule.risk,
        gradients=schedule.gradients,
        measured=Measured(0.18, 0.36),
        order=2,  # where predictions are close noisy_regularized_mirror_descent is better
    ),
    _entry(
        key=schedule.PROX,
        summary="Proximal steps on blocks of their own, for weakly convex losses, also nonsmooth.",
        reference="Alg 2; Thm 16",
        setting="weakly convex losses on a bounded domain",
        needs=(
            MEASURABLE,
            schedule.WEAK,
            needs.BOUNDED,
            needs.RIDGE,
            needs.FIXED_N,
            needs.GAUSSIAN,
            needs.at_least(2),
        ),
        rounds="4 for each of R <= 64 blocks",
        cost="4 n gradients",
        plan=schedule.plan_prox,
        risk=schedule.prox_risk,
        gradients=schedule.prox_gradients,
        measured=Measured(0.015, 0.03),
        order=9,  # others are better wherever they apply
    ),
)
