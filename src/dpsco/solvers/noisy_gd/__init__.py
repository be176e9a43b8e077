"""Noisy gradient descent: full passes, Gaussian noise on the summed gradients, damped momentum.

Paper      Bassily, Smith, Thakurta 2014 (arXiv:1405.7085), Alg 1 with full batches; Dong, Roth, Su
           2019 (arXiv:1905.02383), Cor 3.3 for the exact composition of Gaussian releases.
Guarantee  mu-GDP with mu = sqrt(rounds / batches) * sensitivity / sigma, as a row is in one batch;
           clipping alone is relied upon, so it holds for every loss, convex or not.
Rate       E[F(w_bar) - F*] <= R^2/(2 h) + h d (sigma_1/n)^2 / 2 + step G^2 / 2 with h = step rounds
           and sigma_1 the noise of a single release: R sigma_1 sqrt(d) / n at the best h. A domain
           of Gaussian width W caps the second term at W sigma_1 / n, up to a constant.
Needs      rows bounded in l2. Convexity for the rate only.
Symbols    R, G, T, eta -> distance, clip, rounds, step.

Read `rates` (how far and how long), `schedule` (the plan), `steps` (the stepper).
"""

from __future__ import annotations

from .. import needs
from ..base import Measured, MeasuredRange, Solver
from . import rates, schedule
from .steps import DescentStepper

SOLVERS = (
    Solver(
        key="noisy_gd",
        summary="Full-batch gradient descent with momentum; exact Gaussian composition.",
        paper="Bassily, Smith, Thakurta 2014",
        reference="Alg 1 (full batches); Dong, Roth, Su 2019, Cor 3.3",
        setting="any loss, any domain with a projection",
        needs=(needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN),
        rounds=f"T (default {rates.ROUNDS[0]} to {rates.LONGEST}; "
        f"{rates.NONSMOOTH_ROUNDS} at most if nonsmooth)",
        cost="n T gradients",
        plan=schedule.plan,
        stepper=DescentStepper,
        risk=rates.risk,
        gradients=rates.gradients,
        plan_type=schedule.Plan,
        measured=Measured(0.066, 0.067),
        range=MeasuredRange((300, 1e6), (1, 1e6), (0.005, 4)),
        order=0,  # it applies nearly everywhere
    ),
)
