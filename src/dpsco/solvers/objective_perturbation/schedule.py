"""Plans of objective perturbation, and what its theorems ask of a task."""

from __future__ import annotations

from ...privacy.budget import GDP
from ...privacy.mechanisms import gaussian_sigma
from ...task import Task
from ..needs import Need
from . import rates
from .published import check_structure, published
from .run import Plan

PLAIN, STRONG = "approx_objective_perturbation", "approx_objective_perturbation_sc"


def make_plan(
    key: str,
    task: Task,
    *,
    ridge: float | str | None = None,
    c_frac: float | None = None,
    clip: float | None = None,
    distance: float | None = None,
    smoothing: float | None = None,
) -> Plan:
    """Return a plan.

    Args:
        key: of the solver.
        ridge: added to the mean loss beside the penalty; by default where bias and noise balance,
            "c_frac" for the least that leaves c = c_frac epsilon to the change of volume.
        c_frac: the largest share of epsilon for the change of volume, in (0, 1); 0.2, and 0.1 for
            ridge="c_frac".
        clip: bound on a row's gradient; by default the loss's own, or where noise matters its
            largest value at the start.
        distance: the certified distance of the minimiser, if other than the default.
        smoothing: of the Moreau envelope that replaces a nonsmooth loss.
    """
    smooth, paper = rates.check_smoothing(task, smoothing), task.calibration == "paper"
    if paper and clip is None and task.glm:
        clip = task.gradient_bound(None)  # the published constants speak of the loss's own bound
    shape = rates.shape(task, clip, smooth)
    if paper:
        check_structure(task)
        noise = published(task, shape, ridge=ridge, distance=distance, strong=key == STRONG)
    elif shape.kind == "constant_hessian":
        sigma = gaussian_sigma(task.budget, bound=shape.bound, rows=(0, task.n))
        noise = rates.Noise(rates.check_ridge(ridge), sigma, distance=0.0, output_sigma=0.0)
    else:
        noise = rates.tight(task, shape, ridge=ridge, c_frac=c_frac, distance=distance)
    return Plan(
        solver=key,
        task=task,
        ridge=noise.ridge,
        clip=shape.bound,
        sigma=noise.sigma,
        distance=noise.distance,
        output_sigma=noise.output_sigma,
        smoothing=smooth,
    )


def risk(task: Task) -> float:
    """Return the predicted excess risk: the header's bound with about the calibrated noise."""
    shape = rates.shape(task, task.start_gradient if task.glm else None)
    sigma = rates.rough_sigma(task.budget, shape)
    return rates.excess(task, sigma=sigma, bound=shape.bound)


def gradients(task: Task) -> float:
    """Return how many gradients of a row a run takes; a Hessian counts as d/10 of them."""
    linear = rates.kind(task) == "constant_hessian"
    return float(task.n) * (1.0 if linear else 33.0 + 6.0 * task.n_weights / 10)


def _structured(task: Task) -> str:
    if rates.kind(task):
        return ""
    return (
        f"it must know where a row's gradients point, and nothing is known of those of "
        f"{task.problem.loss.name}: use a loss of one margin, losses.Softmax or "
        "losses.SquaredDistance"
    )


def _payable(task: Task) -> str:
    if not isinstance(task.budget, GDP) or rates.kind(task) == "constant_hessian":
        return ""
    return "no bound on its privacy in terms of GDP is known: use ApproxDP, or ZCDP"


def _modulus(task: Task) -> str:
    if task.ridge > 0.0 or rates.kind(task) == "constant_hessian":
        return ""
    return (
        "strong convexity must be public, not the rows': give penalty=losses.L2Penalty(strength), "
        f"or use solver={PLAIN!r}, which adds its own ridge"
    )


STRUCTURED = Need("known directions of gradients", _structured)
PAYABLE = Need("ApproxDP or ZCDP budget", _payable)
MODULUS = Need("public strong convexity", _modulus)
