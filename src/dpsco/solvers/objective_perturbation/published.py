"""The constants of Su, Zhao, Wang 2023 as they were published, for reproduction only."""

from __future__ import annotations

import math

from ...errors import AssumptionError
from ...privacy.budget import ApproxDP
from ...task import Task
from .rates import Noise, Shape, certified_distance, check_ridge, kind


def published(
    task: Task,
    shape: Shape,
    *,
    ridge: float | str | None,
    distance: float | None,
    strong: bool,
) -> Noise:
    """Return the published constants: Alg 1 with 128, r = 2 rank, lambda = ridge/2.

    The strongly convex rule is the corrected one: public curvature counts in the l2 norm. Where the
    paper states the gap of the minimiser's value, our certificate states its distance B; with
    alpha = lambda B^2/2 the variance 64 alpha log(2.5/delta)/(lambda epsilon^2) becomes
    32 B^2 log(2.5/delta)/epsilon^2.
    """
    if not isinstance(task.budget, ApproxDP) or task.budget.unit.rows != 1:
        raise AssumptionError(
            f"the published constants are for ApproxDP and a unit of one row, got {task.budget}. "
            "Use calibration='tight'."
        )
    epsilon, log_delta = task.budget.epsilon, math.log(2.5 / task.budget.delta)
    if epsilon > 8 * math.log(1 / task.budget.delta):
        raise AssumptionError(
            f"the published constants hold for epsilon up to 8 log(1/delta), got {epsilon:g}. Use "
            "calibration='tight'."
        )
    least = 2 * 2 * shape.rank * shape.curvature / (epsilon * task.n)
    radius = task.max_norm if math.isfinite(task.max_norm) else task.initial_distance
    usual = 0.0 if strong else 2 * shape.bound / (math.sqrt(task.n) * radius)
    added = max(max(least, usual) - task.ridge, 0.0)
    if ridge is not None and ridge != "c_frac":
        added = check_ridge(ridge)
        if added + task.ridge < least:
            raise AssumptionError(
                f"the published noise needs a ridge of at least {least:.4g}, got "
                f"{added + task.ridge:.4g} in all. Leave ridge out, or use calibration='tight'."
            )
    sigma = math.sqrt(128 * log_delta) * shape.bound / epsilon
    near = certified_distance(task, shape, added + task.ridge, sigma, distance)
    return Noise(added, sigma, near, near * math.sqrt(32 * log_delta) / epsilon)


def check_structure(task: Task) -> None:
    """Refuse published constants where they are unproved or wrong."""
    if kind(task) != "glm" or task.n_weights < 2:
        raise AssumptionError(
            "the published constants suffice for losses of one margin with two or more weights, "
            f"not for {task.problem.loss.name} with {task.n_weights}. Use calibration='tight'."
        )
