"""Frank-Wolfe: steps towards a vertex or a linear minimiser, so that weights need no projection.

A round asks which vertex, or which point of the domain, a noisy gradient points to. Selections pay
for ln J, J the number of vertices, in the place of sqrt(d); each pays for one vertex only.

Paper      Bassily, Guzman, Menart 2021 (arXiv:2107.05585): Alg 5, Thm 6 (noisy_fw_gll); Alg 1, Thms
           7 and 8 (poly_sfw); Alg 6, Thms 10 and 11 (noisy_sfw_lp).
Guarantee  Clipping alone is relied upon. noisy_fw_gll: T selections on all rows, Gumbel noise,
           range 2 L0 R D of the sums (zero-out: half). poly_sfw: a row of batch k pays for the
           selections t >= k, with range 2 D P_{k,t} G_k/b_k; the worst batch counts.
           noisy_sfw_lp: one Gaussian release per batch, mu = sensitivity / sigma by parallel
           composition.
Rate       E[F(w) - F*] <= 2 L0 R D/sqrt(T + 2) + s ln J (noisy_fw_gll, convex F, s the scale of
           noise on means); E[gap(w)] = O(D (L0 + L1 D) (n^(-1/3) + (n epsilon)^(-2/5))) for a
           random point (poly_sfw; noisy_sfw_lp: sqrt(d)/(n epsilon)), up to logarithms.
Needs      n public; vertices that can be listed (noisy_sfw_lp: a bounded domain); convex margin
           losses of bounded slope for noisy_fw_gll, smooth losses, convex or not, for the others.
Symbols    T, gamma_t, a_t, G_t, b_t, s_t, D -> rounds, step_at(t), share(t), clips, sizes, scales,
           diameter.

Read `rates` (constants in the domain's norm, schedules), `published` (the paper's numbers),
`noise` (what selections on batches ask for), `schedule` (plans), `steps` (the steppers).
"""

from __future__ import annotations

from functools import partial

from .. import needs
from ..base import Solver
from .schedule import (
    FULL,
    LP,
    POLYHEDRAL,
    FullPlan,
    LpPlan,
    PolyhedralPlan,
    batched_gradients,
    full_gradients,
    full_risk,
    lp_risk,
    plan_full,
    plan_lp,
    plan_polyhedral,
    polyhedral_risk,
)
from .steps import FullStepper, LpStepper, PolyhedralStepper

_entry = partial(Solver, paper="Bassily, Guzman, Menart 2021")

SOLVERS = (
    _entry(
        key=FULL,
        summary="Full-batch Frank-Wolfe: each round selects one vertex of the domain.",
        reference="Alg 5 with the exact envelope, Thm 6",
        setting="convex margin losses of bounded slope over an l1 ball, a simplex or a polytope",
        needs=(
            needs.GLM,
            needs.CONVEX,
            needs.LIPSCHITZ,
            needs.VERTICES,
            needs.LP_ROWS,
            needs.PLAIN,
            needs.FIXED_N,
            needs.SELECTION,
        ),
        rounds="n sqrt(8 rho)/ln J, at most 1000",
        cost="n T gradients",
        plan=plan_full,
        stepper=FullStepper,
        risk=full_risk,
        gradients=full_gradients,
        plan_type=FullPlan,
        calibrations=("tight", "paper"),
    ),
    _entry(
        key=POLYHEDRAL,
        summary="One pass of Frank-Wolfe with selected vertices on variance-reduced gradients.",
        reference="Alg 1, Thms 7 and 8, Lemma 9",
        setting="smooth losses, convex or not, over an l1 ball, a simplex or a polytope",
        needs=(
            needs.SMOOTH,
            needs.LIPSCHITZ,
            needs.VERTICES,
            needs.LP_ROWS,
            needs.PLAIN,
            needs.FIXED_N,
            needs.SELECTION,
        ),
        rounds="sqrt(n sqrt(8 rho)/ln J)",
        cost="2n gradients",
        plan=plan_polyhedral,
        stepper=PolyhedralStepper,
        risk=polyhedral_risk,
        gradients=batched_gradients,
        plan_type=PolyhedralPlan,
        calibrations=("tight", "paper"),
    ),
    _entry(
        key=LP,
        summary="One pass of Frank-Wolfe with Gaussian noise on variance-reduced gradients.",
        reference="Alg 6 with one release per batch, Thms 10 and 11",
        setting="smooth losses, convex or not, any bounded domain",
        needs=(
            needs.SMOOTH,
            needs.LIPSCHITZ,
            needs.MINIMISER,
            needs.LP_ROWS,
            needs.PLAIN,
            needs.FIXED_N,
            needs.GAUSSIAN,
        ),
        rounds="sqrt(n mu/d^(1/p))/2",
        cost="2n gradients",
        plan=plan_lp,
        stepper=LpStepper,
        risk=lp_risk,
        gradients=batched_gradients,
        plan_type=LpPlan,
    ),
)
