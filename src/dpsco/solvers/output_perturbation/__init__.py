"""SGD whose average is released once, with noise for the stability of the whole pass.

Read `rates` (how far one row moves the average, and the risk to expect), `run` (the plan and the
passes over the rows), `schedule` (step sizes and noise of the three solvers), `published` (the
papers' own numbers).

Paper      Wang, Lei, Ying, Zhang 2022 (ACHA), Alg 1 and Thms 7-10; Wu, Li, Kumar, Chaudhuri, Jha,
           Naughton 2017 (arXiv:1606.04722), Algs 1-2, for bolt_on_sgd.
Guarantee  neighbours move the average by Delta at most, so it is Delta/sigma-GDP. Delta: the
           recursion behind Thm 7, D <- sqrt(D^2 + a^2) on shared rows, D + 2 eta G on the other.
Rate       E[F(w) - F*] <= R^2/(2 eta T) + eta G^2/2 + G sigma sqrt(2/pi), plus 2 G R/sqrt(n) for
           T > n: the noise enters through a margin, so that d does not appear.
Needs      convex loss of one margin, rows bounded in l2, n public; bolt_on_sgd: a smooth loss.
Symbols    R, G, L, T, K, eta, lambda -> distance, clip, smoothness, steps, passes, step, ridge.
"""

from __future__ import annotations

from functools import partial

from .. import needs
from ..base import Measured, Solver
from . import rates, run, schedule

_COMMON = (needs.GLM, needs.CONVEX, needs.EUCLIDEAN, needs.RIDGE, needs.FIXED_N, needs.at_least(2))
_entry = partial(
    Solver,
    paper="Wang, Lei, Ying, Zhang 2022",
    rounds="K passes",
    cost="K n gradients",
    run=run.run,
    risk=rates.risk,
    gradients=schedule.gradients,
    plan_type=run.Plan,
    calibrations=("tight", "paper"),
)

SOLVERS = (
    _entry(
        key="dp_sgd_output",
        summary="SGD over a bounded domain; one noisy release of the averaged iterate.",
        reference="Alg 1, Thms 7(b), 8, 10",
        setting="convex loss of one margin, smooth or not; bounded domain",
        needs=(*_COMMON, needs.BOUNDED, needs.LIPSCHITZ, needs.GAUSSIAN),
        plan=schedule.plan_bounded,
        measured=Measured(0.081, 0.1),
    ),
    _entry(
        key="dp_sgd_output_unbounded",
        summary="SGD without constraint; one noisy release of the averaged iterate.",
        reference="Alg 1, Thms 7(a), 8, 9",
        setting="convex loss of one margin, smooth or not; whole space",
        needs=(*_COMMON, needs.UNBOUNDED, needs.GAUSSIAN),
        plan=schedule.plan_unbounded,
        measured=Measured(0.15, 0.1),
    ),
    _entry(
        key="bolt_on_sgd",
        summary="SGD on a smooth loss, noise bolted on at the end; also for pure privacy.",
        paper="Wu, Li, Kumar, Chaudhuri, Jha, Naughton 2017",
        reference="Algs 1, 2; Wang, Lei, Ying, Zhang 2022, Table 1",
        setting="smooth convex loss of one margin, perhaps a ridge; any domain",
        needs=(*_COMMON, needs.SMOOTH),
        plan=schedule.plan_bolt_on,
        measured=Measured(0.12, 0.12),
        risk=schedule.smooth_risk,
    ),
)
