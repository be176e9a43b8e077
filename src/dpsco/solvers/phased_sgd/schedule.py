"""Plans of the three phased solvers: step sizes, smoothing, published noise, and what they need."""

from __future__ import annotations

import math

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...privacy.accounting import stability
from ...privacy.budget import ApproxDP, Budget
from ...task import Task
from ..common.passes import published_noise
from ..common.smoothing import smoothed
from ..needs import Need
from .run import VARIANTS, Plan, best_step, bound, phases, with_noise

_DOWN = 1 - 1e-12  # a step or a smoothing stays below its limit after rounding
SGD, GLL, FREE = VARIANTS


def plan_smooth(
    solver: str, task: Task, *, step: float | None = None, clip: float | None = None
) -> Plan:
    """Return a plan of `phased_sgd`, or of `phased_dp_sgd_unconstrained`.

    ``step`` is eta, phase k steps by eta / 4^k; ``problem.scale`` is the guess of |w*| where
    weights are free.
    """
    limit = task.gradient_bound(clip)
    eta = _eta(solver, task, limit) if step is None else _validate.positive("step", step)
    return _noisy(solver, task, clip=limit, step=eta)


def plan_gll(
    task: Task,
    *,
    step: float | None = None,
    clip: float | None = None,
    rank: int | None = None,
) -> Plan:
    """Return a plan of `phased_sgd_gll`; ``rank`` is a public bound on the rank of the rows."""
    limit, dimension = task.gradient_bound(clip), _dimension(task, rank)
    size = task.problem.domain.diameter(task.n_weights) if task.problem.domain.bounded else 1.0
    if step is not None:
        eta = _validate.positive("step", step)
    elif task.calibration == "paper":  # Thm 5; Thm 19 has 1 for the unknown distance
        speed = min(_zeta(task.budget) / math.sqrt(dimension), 1 / math.sqrt(task.n))
        eta = size / (3 * limit) * speed
    else:
        eta = _eta(GLL, task, limit, dimension)
    smoothing = 0.0
    if not eta / 4 * (task.smoothness + task.ridge) <= 2 and _smoothable(task):
        stability.check_smooth_step(eta / 4, 2 * task.ridge)  # half of 2 is for the envelope
        smoothing = (8 / eta - task.ridge) / task.feature_bound**2 * _DOWN
        if task.calibration == "paper":  # sqrt(n) L0 / (R D)
            smoothing = math.sqrt(task.n) * limit / (task.feature_bound**2 * size)
    return _noisy(
        GLL,
        task,
        clip=limit,
        step=eta,
        smoothing=smoothing,
        dimension=dimension,
    )


# -- step sizes ------------------------------------------------------------------------------------


def _eta(solver: str, task: Task, clip: float, dimension: int | None = None) -> float:
    """Return the default eta, no longer than eta_1 L <= 2 allows."""
    if solver == FREE:
        speed = min(4 / math.sqrt(task.n), _zeta(task.budget) / math.sqrt(task.n_weights))  # Alg 6
        return _capped(task, task.initial_distance / clip * speed)
    dimension = task.n_weights if dimension is None else dimension
    eta = best_step(task, clip, dimension, VARIANTS[solver].share)
    if solver == GLL and _smoothable(task):
        return eta  # whatever the step, there is a smoothing
    return _capped(task, eta)


def _capped(task: Task, step: float) -> float:
    """Return eta, cut to eta_1 L <= 2, or to eta_1 ridge <= 1 where the loss is not smooth."""
    smooth = math.isfinite(task.smoothness)
    limit = task.smoothness + task.ridge if smooth else 2 * task.ridge
    return min(step, 8 / limit * _DOWN) if limit > 0 else step


def _zeta(budget: Budget) -> float:
    """Return epsilon / (2 sqrt(log 1/delta)), the published root of a row's zCDP."""
    if isinstance(budget, ApproxDP):
        return budget.epsilon / (2 * math.sqrt(-math.log(budget.delta))) / budget.unit.rows
    return budget.mu_per_row() / math.sqrt(2)  # rho = mu^2/2


def _published(solver: str, budget: Budget) -> float:
    """Return the published sigma_k / (G eta_k), for replace-one neighbours of one row."""
    common = published_noise(solver, budget)  # which refuses other budgets
    factor = {GLL: 4.0, FREE: 2.0}.get(solver)
    return common if factor is None else factor / _zeta(budget)  # su: 4 L eta sqrt(log 1/delta)/eps


def _dimension(task: Task, rank: int | None) -> int:
    """Return in how many directions noise counts: those of the rows if the weights are free."""
    if task.problem.domain.bounded:
        if rank is None:
            return task.n_weights
        raise AssumptionError(
            f"phased_sgd_gll uses rank={rank!r} for weights without constraint only (a projection "
            f"mixes all directions), and the domain is {task.problem.domain!r}. Leave rank out, "
            "or use domains.WholeSpace()."
        )
    if rank is None:
        return min(task.n, task.n_weights)
    intercept = task.columns - task.d
    return min(_validate.integer("rank", rank) + intercept, task.n, task.n_weights)


def _smoothable(task: Task) -> bool:
    """Return whether the loss has a Moreau envelope with bounded slope."""
    try:
        smoothed(task, 1.0)
    except (AssumptionError, ParameterError):
        return False
    return True


def _noisy(
    solver: str,
    task: Task,
    *,
    clip: float,
    step: float,
    smoothing: float = 0.0,
    dimension: int | None = None,
) -> Plan:
    """Return the plan for eta = ``step``, noise included."""
    published = _published(solver, task.budget) if task.calibration == "paper" else None
    sizes = phases(task.n, solver)
    draft = Plan(
        solver=solver,
        task=task,
        clip=clip,
        sizes=sizes,
        steps=tuple(step / 4.0 ** (k + 1) for k in range(len(sizes))),
        sigmas=(),
        smoothing=smoothing,
        dimension=task.n_weights if dimension is None else dimension,
    )
    return with_noise(draft, published)


# -- what the entries declare ----------------------------------------------------------------------


def risk(solver: str, task: Task) -> float:
    """Return the header's bound at the default step of a solver."""
    clip = task.gradient_bound(None)
    dimension = _dimension(task, None) if solver == GLL else task.n_weights
    step = _eta(solver, task, clip, dimension)
    return bound(task, clip, dimension, VARIANTS[solver].share, step)


def gradients(task: Task) -> float:
    """Return how many gradients of a row a run takes."""
    return float(task.n)


def _tame(task: Task) -> str:
    if math.isfinite(task.smoothness) or any(view.alpha >= 0.5 for view in task.hoelder):
        return ""
    return (
        f"it needs a gradient that is smooth or Hoelder of order at least 1/2, and the slope of "
        f"{task.problem.loss.name} jumps, so that its noise would grow with the rows "
        "(phased_sgd_gll smooths such losses)"
    )


def _envelope(task: Task) -> str:
    if math.isfinite(task.smoothness) or not task.glm or _smoothable(task):
        return ""
    return (
        f"it needs a loss that is smooth or has a Lipschitz constant on the whole line, and "
        f"{task.problem.loss.name} is neither (losses.Huber(threshold) is both)"
    )


HOELDER = Need("Hoelder of order 1/2", _tame)
ENVELOPE = Need("smooth or Lipschitz", _envelope)
