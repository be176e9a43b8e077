"""Noisy mirror descent: full passes, steps in the geometry of l_p, of l1 balls and simplices.

Paper      Su, Zhao, Wang 2023 (arXiv:2303.18047), Alg 3, Thms 6 and 7.
Guarantee  T noisy sums of gradients that are clipped to C: mu = sqrt(T) sensitivity/sigma for
           Gaussian noise, rho = T (r - 1) sensitivity^2/(2 sigma^2) for noise shaped like the l_r
           ball. Clipping alone is relied upon: any loss, convex or not, any steps.
Rate       E[F(w) - F*] <= P/h + h s^2/2 with h = step rounds, P the divergence to good weights,
           s the dual norm of the noise: about sqrt(2 P) s, and s ~ sqrt(log d) for p = 1.
Needs      rows bounded in an l_p norm, a smooth loss, no penalty, n public.
Symbols    p, kappa, alpha, beta, T, C, P, R_w -> p, kappa, pull, beta, rounds, clip, spread,
           distance.

Read `maps` (the mirror maps and their exact steps), `rates` (constants in l_p, the schedules),
`schedule` (the plan), `steps` (the stepper).
"""

from __future__ import annotations

from .. import needs
from ..base import Measured, Solver
from ..common.lp_constants import MEASURABLE
from . import schedule
from .steps import MirrorStepper

SOLVERS = (
    Solver(
        key=schedule.KEY,
        summary="Full passes of mirror steps, for l1 balls, simplices and rows bounded in l_inf.",
        paper="Su, Zhao, Wang 2023",
        reference="Alg 3; Thms 6 and 7",
        setting="smooth losses; R^d, l_p balls with p from 1 to 2, simplices (p = 2: any domain)",
        needs=(
            MEASURABLE,
            schedule.SMOOTH,
            needs.PLAIN,
            needs.FIXED_N,
            needs.GAUSSIAN,
        ),
        rounds=f"2 beta sqrt(P)/s, at most {schedule.ROUNDS[0]} to {schedule.ROUNDS[1]}",
        cost="n T gradients",
        plan=schedule.plan,
        stepper=MirrorStepper,
        risk=schedule.risk,
        gradients=schedule.gradients,
        plan_type=schedule.Plan,
        measured=Measured(0.089, 0.089),
    ),
)
