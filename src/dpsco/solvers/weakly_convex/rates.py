"""Numbers of rounds and stages: from the theorems, with tight constants."""

from __future__ import annotations

import math

from ...task import Task
from ..common.options import published_budget

MOST = 400  # rounds of a stage
LEAST = 4
MOST_STEPS = 64  # proximal steps: more were never better
SAMPLING = 11.0 / 48.0  # of the variance of a stage's answer


def uncertainty(n: int, d: int, signal: float) -> float:
    """Return sqrt(1/n + d/z^2): what sampling and noise add to a gradient, in units of its size."""
    return math.sqrt(1.0 / n + d / signal**2)


def worthwhile_rounds(rows: int, d: int, signal: float, most: int) -> int:
    """Return T: the error of T steps falls to that of the noise, which does not depend on T."""
    return min(max(math.floor(min(rows, signal**2 / d)), LEAST), max(most, LEAST))


def likely_distance(task: Task, clip: float, curvature: float) -> float:
    """Return D_1: the minimiser of a strongly convex problem is near."""
    return min(task.initial_distance, 2.0 * clip / curvature)


def localized(
    rows: int, d: int, multiplier: float, distance: float, clip: float
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the rows of log2 m halving phases, and the strength of each.

    Args:
        rows: m of them.
        d: weights.
        multiplier: of the noise of a release of bound 1 that spends the whole budget.
        distance: to the minimiser.
        clip: L0.
    """
    noise = 4.0 * d * multiplier**2
    eta = distance / clip * math.sqrt(4.0 / (SAMPLING * rows + noise))
    sizes = tuple(rows >> (j + 1) for j in range(max(1, math.floor(math.log2(rows)))))
    return sizes, tuple(2.0 * 16.0**j / (eta * size) for j, size in enumerate(sizes))


def reduction(
    rows: int, d: int, multiplier: float, distance: float, clip: float, curvature: float
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the same for localisations one after the other, from ever shorter distances."""
    count = max(1, math.ceil(math.log2(math.log2(rows)))) if rows > 2 else 1
    share = rows // count
    sizes: list[int] = []
    strengths: list[float] = []
    for _ in range(count):
        more, stronger = localized(share, d, multiplier, distance, clip)
        sizes, strengths = [*sizes, *more], [*strengths, *stronger]
        noise = 4.0 * d * (multiplier / share) ** 2
        error = 4.0 * clip * distance * math.sqrt(SAMPLING / share + noise)
        distance = min(distance, math.sqrt(2.0 * error / curvature))
    return tuple(sizes), tuple(strengths)


def tuned_rounds(first: float, second: float, signal: float) -> int:
    """Return R = min(sqrt(n D rho/(kappa L0)), (D rho z^2/(16 d L0))^(1/3)), from 1 to 64.

    Args:
        first: the first of the two.
        second: D rho/(d L0).
        signal: z.
    """
    return min(max(int(min(first, math.pow(second * signal**2 / 16.0, 1.0 / 3.0))), 1), MOST_STEPS)


def published_rounds(task: Task, p: float, first: float, second: float) -> int:
    """Return R of Theorem 16.

    Raises:
        AssumptionError: the budget has no epsilon and delta.
    """
    budget = published_budget(task, otherwise="tuned")
    kappa = 1.0 / (p - 1.0)
    logs = (1.0 + math.log(task.n_weights)) if p < 2.0 else 1.0
    worth = second * (task.n * budget.epsilon) ** 2 / (logs * kappa**2 * -math.log(budget.delta))
    return max(1, int(min(first, math.pow(worth, 1.0 / 3.0))))
