"""Phased SGD: one pass over the rows in halving phases, each phase's average iterate made noisy.

Read `run` (the plan, its sensitivities and the pass), then `schedule` (step sizes and noise of the
three solvers).

Paper      Feldman, Koren, Talwar 2020 (arXiv:2005.04763), phased SGD, with the recursion behind
           Thm 7 of Wang, Lei, Ying, Zhang 2022 (arXiv:2101.08925) for Hoelder losses; Bassily,
           Guzman, Menart 2021 (arXiv:2107.05585), Alg 4, Thms 5 and 19, for nonsmooth losses; Su,
           Zhao, Wang 2023 (arXiv:2303.18047), Alg 6, Thm 8, for free weights.
Guarantee  A row moves the average of its phase by at most Delta_k, and no other phase sees it:
           mu-GDP with mu = max_k Delta_k / sigma_k. Convexity and eta_1 L <= 2 are relied upon.
Rate       E[F(w) - F*] <= 4 D^2/(eta n) + eta G^2 (s + 4 d z^2/n): at the best eta
           4 D G sqrt(s/n + 4 d z^2/n^2), z = Delta_k/(G eta_k mu), s = 1/6 (11/48 if smoothed).
Needs      convex loss of one margin, rows bounded in l2, n public. phased_sgd: Hoelder gradient of
           order >= 1/2; phased_sgd_gll: smooth, or Lipschitz on the whole line;
           phased_dp_sgd_unconstrained: smooth, weights without constraint.
Symbols    eta 4^-k, T_k or n_k, D or R, G or L0 R, beta, theta -> steps[k], sizes[k], distance,
           clip, smoothing, rank.
"""

from __future__ import annotations

from functools import partial

from .. import needs
from ..base import Measured, Solver
from . import run, schedule

_COMMON = (
    needs.GLM,
    needs.CONVEX,
    needs.EUCLIDEAN,
    needs.RIDGE,
    needs.FIXED_N,
    needs.GAUSSIAN,
)

_entry = partial(
    Solver,
    rounds="log2 n phases",
    cost="n gradients",
    run=run.run,
    gradients=schedule.gradients,
    plan_type=run.Plan,
    calibrations=("tight", "paper"),
)

SOLVERS = (
    _entry(
        key=schedule.SGD,
        summary="One pass in halving phases; one noisy average per phase, on rows of its own.",
        paper="Feldman, Koren, Talwar 2020; Wang, Lei, Ying, Zhang 2022",
        reference="phased SGD; recursion behind Thm 7",
        setting="convex smooth losses (Hoelder of order 1/2 at least), any domain",
        needs=(*_COMMON, schedule.HOELDER, needs.at_least(4)),
        plan=partial(schedule.plan_smooth, schedule.SGD),
        risk=partial(schedule.risk, schedule.SGD),
        measured=Measured(0.073, 0.073),
    ),
    _entry(
        key=schedule.GLL,
        summary="Phased SGD on the Moreau envelope: hinge, absolute, quantile and other losses.",
        paper="Bassily, Guzman, Menart 2021",
        reference="Alg 4; Thms 5 and 19",
        setting="convex losses, smooth or Lipschitz; any domain, or free weights and a rank",
        needs=(*_COMMON, schedule.ENVELOPE, needs.at_least(2)),
        plan=schedule.plan_gll,
        risk=partial(schedule.risk, schedule.GLL),
        measured=Measured(0.063, 0.052),
    ),
    _entry(
        key=schedule.FREE,
        summary="Phased SGD for smooth losses and weights without constraint.",
        paper="Su, Zhao, Wang 2023",
        reference="Alg 6; Thms 8 and 13",
        setting="convex smooth losses, whole space, a guess of the solution's length",
        needs=(*_COMMON, needs.SMOOTH, needs.UNBOUNDED, needs.at_least(2)),
        plan=partial(schedule.plan_smooth, schedule.FREE),
        risk=partial(schedule.risk, schedule.FREE),
        measured=Measured(0.096, 0.096),
    ),
)
