"""Noisy SGD on secret samples: clipped gradients of a random batch, Gaussian noise in every step.

Paper      Abadi et al. 2016 (arXiv:1607.00133), Alg 1 (dp_sgd_poisson); Wang, Lei, Ying, Zhang
           2022, Alg 2, Thms 11 and 12 (dp_sgd_gradient); Bassily, Feldman, Talwar, Thakurta 2019
           (arXiv:1908.09970), Alg 1 and Thm 3.2 (noisy_sgd_2019), for smooth losses and, through
           the Moreau envelope, others; Bassily, Feldman, Guzman, Talwar 2020 (arXiv:2006.06914)
           for Lipschitz losses (noisy_sgd_2020).
Guarantee  (epsilon, delta)-DP by the privacy loss distribution of sampled Gaussian releases, which
           rests on clipping alone, so it holds for every loss, convex or not. The published noise
           of 2019 and 2020 suffices up to epsilon 1 and is refused beyond.
Rate       E excess <= R^2/(2 eta T) + eta (C^2 (1 + 1/m) + d s^2)/2 + 2 G R/sqrt(n), s the noise on
           the mean gradient: R sqrt((C^2 (1 + 1/m) + d s^2)/T) + 2 G R/sqrt(n) at the best eta.
           2019, 2020: O(R G (1/sqrt(n) + sqrt(d log(1/delta))/(n epsilon))).
Needs      rows bounded in l2, a budget (epsilon, delta). 2019: smooth, or a convex loss of one
           margin with bounded slope. Convexity for the rate only.
Symbols    T, m, q, eta, C or G, R, b -> rounds, batch, rate, step, clip, distance, smoothing.

Read `schedule` (the plan, everyday DP-SGD), `published` (the papers' schedules; `beta_search` has
the published noise of 2022), `noise` (the least noise of many releases), `steps` (the stepper).
"""

from __future__ import annotations

from functools import partial

from .. import needs
from ..base import Measured, Solver
from .published import (
    gradients_2019,
    gradients_2020,
    gradients_gradient,
    plan_2019,
    plan_2020,
    plan_gradient,
    risk_gradient,
    risk_noisy_sgd,
)
from .schedule import APPROX, LONGEST, Plan, gradients_poisson, plan_poisson, risk_poisson
from .steps import SampledStepper

_NEEDS = (needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN, APPROX)
_entry = partial(
    Solver,
    stepper=SampledStepper,
    plan_type=Plan,
    calibrations=("tight", "conjectured", "paper"),
)

SOLVERS = (
    _entry(
        key="dp_sgd_gradient",
        summary="SGD with noise in every step, on small secret samples; averages all iterates.",
        paper="Wang, Lei, Ying, Zhang 2022",
        reference="Alg 2, Thms 11 and 12",
        setting="any loss, any domain with a projection; convex losses for the rate",
        needs=_NEEDS,
        rounds="T = (n mu/(s sqrt(d)))^2, between 50 and n",
        cost="m T gradients, m about 0.7 n/sqrt(T)",
        plan=plan_gradient,
        risk=risk_gradient,
        gradients=gradients_gradient,
        measured=Measured(0.08, 0.08),
    ),
    _entry(
        key="dp_sgd_poisson",
        summary="Everyday DP-SGD: Poisson samples, momentum, average of the last iterates.",
        paper="Abadi et al. 2016",
        reference="Alg 1; Choquette-Choo, Ganesh, Thakurta 2025, Sec 2.1",
        setting="any loss, any domain with a projection",
        needs=_NEEDS,
        rounds="epochs / rate (default 20 epochs at rate 1/20)",
        cost="epochs n gradients",
        plan=plan_poisson,
        risk=risk_poisson,
        gradients=gradients_poisson,
        calibrations=("tight", "conjectured"),
        measured=Measured(0.08, 0.12),
    ),
    _entry(
        key="noisy_sgd_2019",
        summary="Noisy SGD on large secret samples for smooth losses; smooths the others.",
        paper="Bassily, Feldman, Talwar, Thakurta 2019",
        reference="Alg 1, Thm 3.2; Sec 4 for non-smooth losses",
        setting="smooth losses, or convex losses of a margin with bounded slope",
        needs=(*_NEEDS, needs.SMOOTHABLE),
        rounds="T = min(n/8, eps^2 n^2/(32 d log(1/delta)))",
        cost="n sqrt(eps T/4) gradients",
        plan=plan_2019,
        risk=risk_noisy_sgd,
        gradients=gradients_2019,
        measured=Measured(0.065, 0.069),
    ),
    _entry(
        key="noisy_sgd_2020",
        summary="Noisy SGD in very many small steps for Lipschitz losses.",
        paper="Bassily, Feldman, Guzman, Talwar 2020",
        reference="noisy SGD with T = n^2",
        setting="any loss, any domain with a projection; Lipschitz convex losses for the rate",
        needs=_NEEDS,
        rounds=f"T = n^2 (tight: at most {LONGEST})",
        cost="n sqrt(T) gradients",
        plan=plan_2020,
        risk=risk_noisy_sgd,
        gradients=gradients_2020,
        measured=Measured(0.06, 0.06),
    ),
)
