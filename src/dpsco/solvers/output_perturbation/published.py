"""Schedules and noise of output perturbation as they were published, for reproduction only.

Wang, Lei, Ying, Zhang 2022, Thms 7-10, and Wu et al. 2017. A run is accounted by its own schedule
all the same; these numbers set its steps and its noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import AssumptionError
from ...privacy.accounting import stability
from ...privacy.budget import ApproxDP, Budget, PureDP
from ...task import Task

FAILURE = 0.05  # gamma of the step sizes; it enters through logarithms only


@dataclass(frozen=True)
class Published:
    """Steps, step size, gradient bound and noise as Wang, Lei, Ying, Zhang 2022 print them."""

    steps: int
    step: float
    gradient: float
    sensitivity: float
    sigma: float


def classical_sigma(budget: ApproxDP, sensitivity: float, *, share: float = 1.0) -> float:
    """Return Delta sqrt(2 log(1.25/(share delta)))/epsilon, proved for epsilon <= 1 only."""
    return sensitivity * math.sqrt(2 * math.log(1.25 / (share * budget.delta))) / budget.epsilon


def require_budget(key: str, budget: Budget) -> ApproxDP:
    """Return the budget if the published calibration is proved for it; refuse others."""
    if isinstance(budget, ApproxDP) and budget.epsilon <= 1.0:
        return budget
    raise AssumptionError(
        f"{key} with calibration='paper' needs ApproxDP with epsilon <= 1, where the classical "
        f"Gaussian noise is proved; got {budget}. Use calibration='tight'."
    )


def bounded(task: Task, steps: int | None = None) -> Published:
    """Return the schedule of Thm 10 with the noise of Thms 7(b) and 8."""
    budget = require_budget("dp_sgd_output", task.budget)
    n, delta, view = task.n, budget.delta, task.hoelder[0]
    gradient = task.constants.gradient_at_zero + view.constant * task.max_norm**view.alpha
    if steps is None:
        power = (2 - view.alpha) / (1 + view.alpha)
        steps = max(n, math.ceil(n**power)) if view.alpha < 0.5 else n
    log_n, log_rows, log_failure = math.log(n), math.log(n / delta), math.log(1 / FAILURE)
    first = math.sqrt(log_rows * log_n * log_failure / n)
    second = (task.n_weights * math.log(1 / delta)) ** 0.25 * math.sqrt(log_rows)
    second *= log_failure**0.125 / math.sqrt(n * budget.epsilon)
    return _published(task, budget, steps, 1.0 / (steps * max(first, second)), gradient)


def unbounded(task: Task, steps: int | None = None) -> Published:
    """Return the schedule of Thm 9 with the noise of Thms 7(a) and 8."""
    budget = require_budget("dp_sgd_output_unbounded", task.budget)
    n, view, constants = task.n, task.hoelder[0], task.constants
    alpha = view.alpha
    if steps is None:
        power = (6 - 3 * alpha - alpha**2) / ((1 + alpha) * (3 + alpha))
        steps = math.ceil(n**power) if alpha < (math.sqrt(73) - 7) / 4 else n
    step = (n / math.log(1 / FAILURE)) ** (1 / (3 + alpha)) / steps
    _, _, growth = stability.paper_constants(
        alpha,
        view.constant,
        at_zero=constants.gradient_at_zero,
        initial_loss=constants.value_at_zero,
    )
    gradient = constants.gradient_at_zero + view.constant * (growth * steps * step) ** (alpha / 2)
    return _published(task, budget, steps, step, gradient)


def _published(task: Task, budget: ApproxDP, steps: int, step: float, gradient: float) -> Published:
    """Check the theorem's condition on the step and compute its noise."""
    view = task.hoelder[0]
    if not 1.0 / steps < step < min(1.0, 1.0 / view.constant):
        raise AssumptionError(
            f"the published schedule needs 1/T < eta < min(1, 1/L); here T = {steps}, eta = "
            f"{step:.6g}, L = {view.constant:.6g}. It needs more rows, or features on a smaller "
            "scale; calibration='tight' has no such condition."
        )
    sensitivity = stability.paper_uas(
        n=task.n,
        steps=steps,
        step=step,
        alpha=view.alpha,
        constant=view.constant,
        gradient=gradient,
        failure=budget.delta / 2,
    ).sensitivity
    sigma = classical_sigma(budget, sensitivity, share=0.5)
    return Published(steps, step, gradient, sensitivity, sigma)


def bolt_on(
    task: Task,
    *,
    step: float,
    clip: float,
    decay: bool,
    passes: int,
    batch: int,
) -> float:
    """Return the noise of Wu et al. 2017 for the last iterate."""
    if decay:
        moved = task.budget.adjacency.factor * clip / (task.ridge * task.n)
    else:
        moved = task.budget.adjacency.factor * passes * clip * step / batch
    if isinstance(task.budget, PureDP):
        return moved / task.budget.epsilon
    return classical_sigma(require_budget("bolt_on_sgd", task.budget), moved)
