"""Noisy clipped subgradient steps in phases, each on rows of its own; heavy tails allowed.

Paper      Lowy, Razaviyayn 2023 (arXiv:2209.07403): Algorithm 2 (clipped_reg_subgradient),
           Algorithm 3 (localized_clipped_subgradient), Remark 17 (localized_clipped_minibatch),
           Appendix F.2 (strongly_convex_localized); Theorem 20 as a schedule.
Guarantee  Phases read disjoint rows, so that each has the whole budget: T_i noisy sums of clipped
           gradients, mu = sqrt(T_i) sensitivity / sigma_i, from the whole number T_i. Samples:
           (epsilon, delta) by privacy loss distributions. Clipping alone is relied upon.
Rate       E[F(w) - F*] <= r D0 (1/sqrt(n) + (sqrt(d)/(mu n))^((k-1)/k)) up to logarithms, with the
           2k-th moment r; strongly convex: r^2/mu_sc (1/n + (sqrt(d)/(mu n))^((2k-2)/k)).
Needs      rows bounded in l2 (the bound may be huge), n public. Convexity for the rate only.
Symbols    n_i, T_i, C_i, lambda_i, D_i, m_i -> sizes, rounds, clips, strength(), radii, batches.

Read `rates` (formulas), `schedule` (the plan and the decoupled schedule), `published` (Algorithm 3
as the paper has it, corrected), `steps` (the stepper).
"""

from __future__ import annotations

from functools import partial

from ...task import Task
from .. import needs
from ..base import Solver
from ..common.moment_clips import known_convexity
from ..needs import Need
from ..sampled_sgd.schedule import APPROX
from .schedule import (
    LOCALIZED,
    MINIBATCH,
    REGULARIZED,
    STAGED,
    Plan,
    gradients,
    gradients_minibatch,
    plan_localized,
    plan_minibatch,
    plan_regularized,
    plan_staged,
    risk,
    risk_staged,
)
from .steps import LocalizedStepper


def _strongly_convex(task: Task) -> str:
    if known_convexity(task) > 0.0:
        return ""
    return "it needs strong convexity: add a penalty, for example losses.L2Penalty(0.01)"


_NEEDS = (needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN)
_entry = partial(
    Solver,
    paper="Lowy, Razaviyayn 2023",
    setting="any loss, any domain with a projection; gradients without a bound",
    needs=_NEEDS,
    rounds="200 in each of 4 phases; 1000 on large tables",
    cost="200 n gradients",
    gradients=gradients,
    stepper=LocalizedStepper,
    risk=risk,
    plan_type=Plan,
)

SOLVERS = (
    _entry(
        key=REGULARIZED,
        summary="Full-batch noisy subgradient steps on a regularized problem.",
        reference="Algorithm 2, Lemmas 11 and 12",
        rounds="T (default 200)",
        plan=plan_regularized,
    ),
    _entry(
        key=LOCALIZED,
        summary="Noisy subgradient steps in phases on disjoint rows; heavy-tailed gradients.",
        reference="Algorithm 3, Theorems 10 and 20",
        plan=plan_localized,
    ),
    _entry(
        key=MINIBATCH,
        summary="The same on small secret samples: far fewer gradients.",
        reference="Remark 17, with noise by privacy loss distributions",
        needs=(*_NEEDS, APPROX),
        rounds="1000 in each of 4 phases",
        cost="2000 sum sqrt(n_i) gradients",
        gradients=gradients_minibatch,
        plan=plan_minibatch,
        calibrations=("tight", "conjectured"),
    ),
    _entry(
        key=STAGED,
        summary="Localized steps in log log n stages for strongly convex problems.",
        reference="Appendix F.2, Theorem 18",
        needs=(*_NEEDS, Need("strongly convex", _strongly_convex)),
        plan=plan_staged,
        risk=risk_staged,
    ),
)
