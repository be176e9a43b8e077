"""The schedules of Su, Zhao, Wang 2023 for heavy tails, in closed form.

For the rates, and to be compared with: they truncate so late and step so briefly that the practical
schedules need a tenth to a hundredth of their excess. Constants are the paper's where it prints
some; noise is always calibrated by our accountant.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ... import _validate
from ...errors import AssumptionError, ParameterError
from ...geometry.mirror import Regularity
from ...geometry.norms import L2, Lp
from ...privacy.budget import ApproxDP
from ...task import Task
from ..common.options import published_budget

SCHEDULES = ("practical", "paper")


class Published(NamedTuple):
    """Rounds, where a gradient is truncated (in l2), and the step."""

    rounds: int
    clip: float
    step: float


def batched(task: Task, geometry: Regularity, smoothness: float | None) -> Published:
    """Return the schedule of Thm 14 for disjoint batches, one noise vector each."""
    budget, diameter, beta = _facts(task, Lp(geometry.p), smoothness)
    rounds, radius, gamma = theorem_14(
        task.n, geometry, diameter, beta, budget.epsilon, budget.delta
    )
    return Published(rounds, _l2_radius(radius, geometry), 1.0 / gamma)


def theorem_14(
    n: int, geometry: Regularity, diameter: float, beta: float, epsilon: float, delta: float
) -> tuple[int, float, float]:
    """Return T, the radius of truncation in l_q, and gamma.

    The step 1/gamma has no units in the paper (gamma = sqrt(T)); at most 1/(2 beta).
    """
    private = math.sqrt(geometry.d * math.log(1.0 / delta))
    ratio = math.sqrt(n * epsilon) * diameter / (geometry.kappa * math.sqrt(private))
    margin = max(ratio ** (2.0 / 3.0), max(beta, 1.0) * diameter)
    rounds = max(1, math.floor(n * epsilon / (diameter * margin * private)))
    return min(rounds, n), beta * diameter + margin, max(math.sqrt(rounds), 2.0 * beta)


def shuffled(
    task: Task, geometry: Regularity, moment: float | None, smoothness: float | None
) -> Published:
    """Return the schedule of Thm 10 for shuffled reports."""
    budget, diameter, beta = _facts(task, Lp(geometry.p), smoothness)
    rounds, radius, gamma = theorem_10(
        task.n, geometry, diameter, beta, _moment(moment), budget.epsilon, budget.delta
    )
    return Published(rounds, _l2_radius(radius, geometry), 1.0 / gamma)


def theorem_10(
    n: int,
    geometry: Regularity,
    diameter: float,
    beta: float,
    moment: float,
    epsilon: float,
    delta: float,
) -> tuple[int, float, float]:
    """Return T, the radius of truncation in l_q, and gamma.

    Raises:
        AssumptionError: the margin is smaller than the theorem needs: too few rows.
    """
    log = math.log(1.0 / delta)
    margin = moment * math.sqrt(n * epsilon) / (geometry.kappa**2 * geometry.d * log) ** 0.25
    least = max(beta, 1.0) * diameter
    if margin < least:
        raise AssumptionError(
            f"schedule='paper' needs a margin of truncation of {least:.4g} and has {margin:.4g}: "
            f"about {math.ceil(n * (least / margin) ** 2):,} rows. schedule='practical' has no "
            "such condition."
        )
    radius = beta * diameter + margin
    root = diameter * n * epsilon / (radius * math.sqrt(geometry.d * log))
    rounds = min(n, max(1, math.floor(root**2)))
    return rounds, radius, math.sqrt(rounds)


def coordinates(task: Task, moment: float | None, smoothness: float | None) -> Published:
    """Return the schedule that minimises the bound of Thm 15; the clip is of a coordinate.

    The paper names a method and no numbers. The bound is D^2/(2 eta T) + eta d s^2
    + D (sqrt(d) r^2 + (beta D)^2)/(4 clip), s the noise of a round, r the moment of a coordinate.
    """
    _, diameter, beta = _facts(task, L2, smoothness)
    rounds, clip = theorem_15(task.signal, task.n_weights, diameter, beta, _moment(moment))
    return Published(rounds, clip, 1.0 / beta)


def theorem_15(
    signal: float, d: int, diameter: float, beta: float, moment: float
) -> tuple[int, float]:
    """Return T and the clip of a coordinate; ``signal`` is n mu / sensitivity."""
    strength = 2.0 * signal  # n mu of the text, which replaces rows
    heavy = math.sqrt(d) * moment**2 + (beta * diameter) ** 2
    clip = math.sqrt(heavy * strength / (8.0 * math.sqrt(2.0) * d))
    rounds = beta * diameter * strength / (2.0 * math.sqrt(2.0) * clip * d)
    return max(1, round(rounds)), clip


def _facts(task: Task, norm: Lp, smoothness: float | None) -> tuple[ApproxDP, float, float]:
    """Return the budget, the diameter and the smoothness of the theorems; else refuse."""
    beta = task.smoothness + task.ridge
    if smoothness is not None:
        beta = min(beta, _validate.positive("population_smoothness", smoothness))
    budget = published_budget(task, otherwise="practical")
    if not math.isfinite(task.radius):
        raise AssumptionError(
            "schedule='paper' needs a bounded domain, for example domains.LpBall(1.5, 2.0); "
            "schedule='practical' needs none."
        )
    if not 0.0 < beta < math.inf:
        raise AssumptionError(
            f"schedule='paper' needs a smooth loss: {task.problem.loss.name} has smoothness "
            f"{beta:g}; schedule='practical' takes any."
        )
    return budget, task.problem.domain.diameter(task.n_weights, norm), beta


def _moment(moment: float | None) -> float:
    if moment is None:
        raise ParameterError(
            "schedule='paper' truncates by a moment of the gradients, which must be public: pass "
            "options={'moment': ...}.",
            parameter="moment",
        )
    return moment


def _l2_radius(radius: float, geometry: Regularity) -> float:
    """Return the l2 norm that vectors of this l_q norm have at most.

    Noise is paid in l2, so truncation is done there: it cuts fewer gradients at the same price.
    """
    return float(radius * geometry.d ** (0.5 - 1.0 / geometry.q))
