"""Phased SGD: one pass over the rows in halving phases, each phase's average iterate made noisy.

Paper      Feldman, Koren, Talwar 2020 (arXiv:2005.04763), phased SGD, with the recursion behind
           Thm 7 of Wang, Lei, Ying, Zhang 2022 (arXiv:2101.08925) for Hoelder losses; Bassily,
           Guzman, Menart 2021 (arXiv:2107.05585), Alg 4, Thms 5 and 19, for kinked losses; Su,
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

import math
from collections.abc import Callable

from .. import _validate
from ..errors import AssumptionError, ParameterError
from ..privacy.accounting import stability
from ..privacy.budget import ApproxDP, Budget
from ..problem import Facts, Problem
from . import needs
from .base import Solver
from .common.phases import VARIANTS, Plan, best_step, bound, phases, run, stepped, with_noise

_DOWN = 1 - 1e-12  # a step or a smoothing stays below its limit after rounding
_SGD, _GLL, _FREE = VARIANTS


def plan_sgd(
    problem: Problem,
    *,
    n: int,
    d: int,
    budget: Budget,
    calibration: str = "tight",
    step: float | None = None,
    clip: float | None = None,
) -> Plan:
    """Return a plan of `phased_sgd`; ``step`` is eta, phase k steps by eta / 4^k."""
    facts = problem.facts(n, d)
    limit = facts.gradient_bound(clip)
    eta = _eta(_SGD, facts, budget, limit) if step is None else _validate.positive("step", step)
    return _noisy(_SGD, facts, budget, calibration, clip=limit, step=eta)


def plan_gll(
    problem: Problem,
    *,
    n: int,
    d: int,
    budget: Budget,
    calibration: str = "tight",
    step: float | None = None,
    clip: float | None = None,
    rank: int | None = None,
) -> Plan:
    """Return a plan of `phased_sgd_gll`; ``rank`` is a public bound on the rank of the rows."""
    facts = problem.facts(n, d)
    limit, dimension = facts.gradient_bound(clip), _dimension(facts, rank)
    size = problem.domain.diameter(facts.size) if problem.domain.bounded else 1.0
    if step is not None:
        eta = _validate.positive("step", step)
    elif calibration == "paper":  # Thm 5; Thm 19 has 1 for the unknown distance
        speed = min(_zeta(budget) / math.sqrt(dimension), 1 / math.sqrt(n))
        eta = size / (3 * limit) * speed
    else:
        eta = _eta(_GLL, facts, budget, limit, dimension)
    smoothing = 0.0
    if not eta / 4 * (facts.smoothness + facts.ridge) <= 2 and _smoothable(facts):
        stability.check_smooth_step(eta / 4, 2 * facts.ridge)  # half of 2 is for the envelope
        smoothing = (8 / eta - facts.ridge) / facts.feature**2 * _DOWN
        if calibration == "paper":  # sqrt(n) L0 / (R D)
            smoothing = math.sqrt(n) * limit / (facts.feature**2 * size)
    return _noisy(
        _GLL,
        facts,
        budget,
        calibration,
        clip=limit,
        step=eta,
        smoothing=smoothing,
        dimension=dimension,
    )


def plan_unconstrained(
    problem: Problem,
    *,
    n: int,
    d: int,
    budget: Budget,
    calibration: str = "tight",
    step: float | None = None,
    clip: float | None = None,
) -> Plan:
    """Return a plan of `phased_dp_sgd_unconstrained`; ``problem.scale`` is its guess of |w*|."""
    facts = problem.facts(n, d)
    limit = facts.gradient_bound(clip)
    eta = _eta(_FREE, facts, budget, limit) if step is None else _validate.positive("step", step)
    return _noisy(_FREE, facts, budget, calibration, clip=limit, step=eta)


# -- step sizes ------------------------------------------------------------------------------------


def _eta(
    solver: str, facts: Facts, budget: Budget, clip: float, dimension: int | None = None
) -> float:
    """Return the default eta, no longer than eta_1 L <= 2 allows."""
    if solver == _FREE:
        speed = min(4 / math.sqrt(facts.n), _zeta(budget) / math.sqrt(facts.size))  # Alg 6
        return _capped(facts, facts.distance / clip * speed)
    dimension = facts.size if dimension is None else dimension
    eta = best_step(facts, budget, clip, dimension, VARIANTS[solver].share)
    if solver == _GLL and _smoothable(facts):
        return eta  # whatever the step, there is a smoothing
    return _capped(facts, eta)


def _capped(facts: Facts, step: float) -> float:
    """Return eta, cut to eta_1 L <= 2, or to eta_1 ridge <= 1 where the loss is not smooth."""
    smooth = math.isfinite(facts.smoothness)
    limit = facts.smoothness + facts.ridge if smooth else 2 * facts.ridge
    return min(step, 8 / limit * _DOWN) if limit > 0 else step


def _zeta(budget: Budget) -> float:
    """Return epsilon / (2 sqrt(log 1/delta)), the published root of a row's zCDP."""
    if isinstance(budget, ApproxDP):
        return budget.epsilon / (2 * math.sqrt(-math.log(budget.delta))) / budget.unit.rows
    return budget.mu_per_row() / math.sqrt(2)  # rho = mu^2/2


def _published(solver: str, budget: Budget) -> float:
    """Return the published sigma_k / (G eta_k), for replace-one neighbours of one row."""
    if not isinstance(budget, ApproxDP):
        raise AssumptionError(
            f"calibration='paper' of {solver} is stated for (epsilon, delta), got {budget}. Use "
            "ApproxDP(epsilon, delta), or calibration='tight'."
        )
    if solver == "phased_sgd":  # rho^2/2-zCDP, by epsilon = rho^2/2 + rho sqrt(2 log 1/delta)
        log = -math.log(budget.delta)
        return 4 / (math.sqrt(2) * (math.sqrt(log + budget.epsilon) - math.sqrt(log)))
    factor = {"phased_sgd_gll": 4.0, "phased_dp_sgd_unconstrained": 2.0}[solver]
    return factor / _zeta(budget)  # su: 4 L eta sqrt(log 1/delta)/epsilon


def _dimension(facts: Facts, rank: int | None) -> int:
    """Return in how many directions noise counts: those of the rows if the weights are free."""
    if facts.problem.domain.bounded:
        if rank is None:
            return facts.size
        raise AssumptionError(
            f"phased_sgd_gll uses rank={rank!r} for weights without constraint only (a projection "
            f"mixes all directions), and the domain is {facts.problem.domain!r}. Leave rank out, "
            "or use domains.WholeSpace()."
        )
    if rank is None:
        return min(facts.n, facts.size)
    intercept = facts.columns - facts.d
    return min(_validate.integer("rank", rank) + intercept, facts.n, facts.size)


def _smoothable(facts: Facts) -> bool:
    """Return whether the loss has a Moreau envelope with bounded slope."""
    try:
        stepped(facts, 1.0)
    except (AssumptionError, ParameterError):
        return False
    return True


def _noisy(
    solver: str,
    facts: Facts,
    budget: Budget,
    calibration: str,
    *,
    clip: float,
    step: float,
    smoothing: float = 0.0,
    dimension: int | None = None,
) -> Plan:
    """Return the plan for eta = ``step``, noise included."""
    published = _published(solver, budget) if calibration == "paper" else None
    sizes = phases(facts.n, solver)
    draft = Plan(
        solver=solver,
        problem=facts.problem,
        n=facts.n,
        d=facts.d,
        budget=budget,
        calibration=calibration,
        clip=clip,
        sizes=sizes,
        steps=tuple(step / 4.0 ** (k + 1) for k in range(len(sizes))),
        sigmas=(),
        smoothing=smoothing,
        dimension=facts.size if dimension is None else dimension,
    )
    return with_noise(draft, published)


# -- the registry ----------------------------------------------------------------------------------


def _risk(solver: str) -> Callable[[Facts, Budget], float]:
    """Return the header's bound at the default step of a solver."""

    def risk(facts: Facts, budget: Budget) -> float:
        clip = facts.gradient_bound(None)
        dimension = _dimension(facts, None) if solver == _GLL else facts.size
        step = _eta(solver, facts, budget, clip, dimension)
        return bound(facts, budget, clip, dimension, VARIANTS[solver].share, step)

    return risk


def _gradients(facts: Facts, budget: Budget) -> float:
    return float(facts.n)


def _tame(facts: Facts, budget: Budget) -> str:
    if math.isfinite(facts.smoothness) or any(view.alpha >= 0.5 for view in facts.hoelder):
        return ""
    return (
        f"it needs a gradient that is smooth or Hoelder of order at least 1/2, and the slope of "
        f"{facts.problem.loss.name} jumps, so that its noise would grow with the rows "
        "(phased_sgd_gll smooths such losses)"
    )


def _envelope(facts: Facts, budget: Budget) -> str:
    if math.isfinite(facts.smoothness) or not facts.glm or _smoothable(facts):
        return ""
    return (
        f"it needs a loss that is smooth or has a Lipschitz constant on the whole line, and "
        f"{facts.problem.loss.name} is neither (losses.Huber(threshold) is both)"
    )


_COMMON = (
    needs.GLM,
    needs.CONVEX,
    needs.EUCLIDEAN,
    needs.RIDGE,
    needs.FIXED_N,
    needs.GAUSSIAN,
)

SOLVERS = (
    Solver(
        key=_SGD,
        summary="One pass in halving phases; one noisy average a phase, on rows of its own.",
        paper="Feldman, Koren, Talwar 2020; Wang, Lei, Ying, Zhang 2022",
        reference="phased SGD; recursion behind Thm 7",
        setting="convex smooth losses (Hoelder of order 1/2 at least), any domain",
        needs=(*_COMMON, needs.Need("Hoelder of order 1/2", _tame), needs.at_least(4)),
        rounds="log2 n phases",
        cost="n gradients",
        plan=plan_sgd,
        run=run,
        risk=_risk(_SGD),
        gradients=_gradients,
        plan_type=Plan,
        calibrations=("tight", "paper"),
    ),
    Solver(
        key=_GLL,
        summary="Phased SGD on the Moreau envelope: hinge, absolute, quantile and other losses.",
        paper="Bassily, Guzman, Menart 2021",
        reference="Alg 4; Thms 5 and 19",
        setting="convex losses, smooth or Lipschitz; any domain, or free weights and a rank",
        needs=(*_COMMON, needs.Need("smooth or Lipschitz", _envelope), needs.at_least(2)),
        rounds="log2 n phases",
        cost="n gradients",
        plan=plan_gll,
        run=run,
        risk=_risk(_GLL),
        gradients=_gradients,
        plan_type=Plan,
        calibrations=("tight", "paper"),
    ),
    Solver(
        key=_FREE,
        summary="Phased SGD for smooth losses and weights without constraint.",
        paper="Su, Zhao, Wang 2023",
        reference="Alg 6; Thms 8 and 13",
        setting="convex smooth losses, whole space, a guess of the solution's length",
        needs=(*_COMMON, needs.SMOOTH, needs.UNBOUNDED, needs.at_least(2)),
        rounds="log2 n phases",
        cost="n gradients",
        plan=plan_unconstrained,
        run=run,
        risk=_risk(_FREE),
        gradients=_gradients,
        plan_type=Plan,
        calibrations=("tight", "paper"),
    ),
)
