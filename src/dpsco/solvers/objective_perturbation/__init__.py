"""Objective perturbation: add a random linear term and a ridge, minimise, add a little noise.

One release and no step sizes. The ridge is small (it only has to bound how a row curves the
objective), the minimiser is certified, and constraints cost no privacy.

Read `rates` (the bounds on a row, the ridge and the noise), `run` (the plan and the minimisation),
`schedule` (plans and needs of the two solvers), `published` (the paper's own constants).

Paper      Su, Zhao, Wang 2023 (arXiv:2303.18047), Alg 1, 2, 5 and Thm 1-4, with corrected rules for
           the ridge; Redberg, Koskela, Wang 2023 (arXiv:2401.00583) for the privacy profile.
Guarantee  (epsilon, delta) of the loss c + m^2/2 + m |u|, c = k log(1 + beta/Lam), m = Delta/sigma,
           plus the output noise; see `dpsco.privacy.mechanisms.objective_perturbation`. Exact
           Gaussian mechanism where rows enter linearly (constant Hessian).
Rate       E excess <= reg R^2/2 + sigma^2 d/(reg n^2) + L R/sqrt(n), d replaced by (G_C/R)^2 on
           bounded sets; reg = sigma sqrt(d)/(n R) balances the first two.
Needs      convex; loss of one margin (a nonsmooth one is replaced by its Moreau envelope), softmax,
           or squared distance; ridge at most as penalty; n public.
Symbols    L, beta, Lam, sigma_1, B -> clip, curvature, n (ridge + penalty), sigma, distance.
"""

from __future__ import annotations

from functools import partial

from .. import needs
from ..base import Measured, MeasuredRange, Solver
from . import run, schedule

_NEEDS = (
    schedule.STRUCTURED,
    needs.CONVEX,
    needs.SMOOTHABLE,
    needs.EUCLIDEAN,
    needs.RIDGE,
    needs.FIXED_N,
    needs.GAUSSIAN,
    schedule.PAYABLE,
)
_entry = partial(
    Solver,
    paper="Su, Zhao, Wang 2023",
    rounds="1",
    cost="33 passes and 6 Hessians",
    run=run.run,
    risk=schedule.risk,
    gradients=schedule.gradients,
    plan_type=run.Plan,
    calibrations=("tight", "paper"),
    measured=Measured(0.061, 0.1),
    # With fewer rows above the noise its one tilt costs up to 1.5 times what steps do.
    range=MeasuredRange((300, 1e6), (1, 1e4), (0.005, 4), signal=5.0),
)

SOLVERS = (
    _entry(
        key=schedule.PLAIN,
        summary="Minimiser of the objective with a random linear term; best for linear models.",
        reference="Alg 1, 5, Thm 1, 2; Redberg, Koskela, Wang 2023",
        setting="convex losses of one margin (nonsmooth: smoothed), softmax, means; any domain",
        needs=_NEEDS,
        plan=partial(schedule.make_plan, schedule.PLAIN),
    ),
    _entry(
        key=schedule.STRONG,
        summary="Objective perturbation with a public ridge penalty, or of a constant Hessian.",
        reference="Alg 2, Thm 3, 4, corrected",
        setting="the same losses with an L2Penalty; means",
        needs=(*_NEEDS, schedule.MODULUS),
        plan=partial(schedule.make_plan, schedule.STRONG),
    ),
)
