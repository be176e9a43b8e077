"""The rounds, batches and noise that Bassily, Guzman, Menart 2021 have published.

For reproduction: on real numbers of rows their constants mean no rounds, or very few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...errors import AssumptionError
from ...privacy.budget import ApproxDP
from ...task import Task
from .rates import Geometry

SCHEDULES = ("default", "paper")


def step(t: int) -> float:
    """Return the published step 1/sqrt(t + 1) of the variance-reduced methods."""
    return 1.0 / math.sqrt(t + 1.0)


def full_step(t: int) -> float:
    """Return the published step 3/(t + 2), t from 1, of Alg 5."""
    return 3.0 / (t + 3.0)


def approximate(task: Task, who: str) -> ApproxDP:
    """Return the budget; refuse one that published constants do not speak of."""
    if not isinstance(task.budget, ApproxDP) or task.n < 3:
        raise AssumptionError(
            f"{who} needs an (epsilon, delta) budget and three rows or more; got {task.budget} and "
            f"{task.n} rows. Leave it out."
        )
    return task.budget


def full_rounds(task: Task, candidates: int) -> int:
    """Return T = n epsilon/(ln J ln n sqrt(ln(1/delta))) of Thm 6, at least 1."""
    budget = approximate(task, "schedule='paper'")
    root = math.sqrt(math.log(1.0 / budget.delta))
    return max(1, int(task.n * budget.epsilon / (math.log(candidates) * math.log(task.n) * root)))


def full_smoothing(task: Task, candidates: int, facts: Geometry) -> float:
    """Return the published smoothing of the scalar loss, Thm 6."""
    budget = approximate(task, "schedule='paper'")
    logs = math.log(1.0 / budget.delta) ** 0.25
    logs *= math.sqrt(math.log(candidates) * math.log(task.n))
    slope = facts.lipschitz / facts.feature
    reach = facts.feature * facts.diameter * logs
    return float(slope * math.sqrt(task.n * budget.epsilon) / reach)


def full_scale(task: Task, rounds: int, facts: Geometry) -> float:
    """Return the published Laplace scale of Alg 5, on sums of rows."""
    budget = approximate(task, "calibration='paper'")
    spread = facts.lipschitz * facts.diameter / budget.epsilon
    return 3.0 * spread * math.sqrt(8.0 * rounds * math.log(1.0 / budget.delta))


def polyhedral_passes(task: Task, candidates: int) -> int:
    """Return (2/3) log2(n epsilon/(ln^2 J ln^2 n sqrt(ln(1/delta)))) of Thm 8, rounded down.

    Raises:
        AssumptionError: that is no pass at all.
    """
    budget = approximate(task, "schedule='paper'")
    logs = (math.log(candidates) * math.log(task.n)) ** 2
    reached = task.n * budget.epsilon / (logs * math.sqrt(math.log(1.0 / budget.delta)))
    return _passes(2.0 / 3.0 * math.log2(reached), task)


def lp_passes(task: Task, p: float) -> int:
    """Return the number of passes of Thm 11, rounded down; no d' > d dimensions are needed.

    Raises:
        AssumptionError: that is no pass at all.
    """
    budget = approximate(task, "schedule='paper'")
    d, n = task.n_weights, task.n
    logarithm = math.log(max(d, 2))
    kappa = min(1.0 / (p - 1.0), max(1.0, logarithm))
    widened = 1.0 + (logarithm if p < 2.0 else 0.0)
    logs = math.sqrt(d * widened * math.log(1.0 / budget.delta)) * kappa ** (5.0 / 3.0)
    private = 0.8 * math.log2(n * budget.epsilon / (logs * math.log(n) ** 2))
    sampled = 2.0 / 3.0 * math.log2(n / math.log(n) ** 2 / kappa**2)
    return _passes(min(private, sampled), task)


def _passes(count: float, task: Task) -> int:
    if count < 1.0:
        raise AssumptionError(
            f"schedule='paper' makes no pass at n = {task.n:,}: its formula gives {count:.2f}. "
            "schedule='default' has the same guarantee and is made for such tables."
        )
    return int(count)


def stages(passes: int) -> tuple[int, ...]:
    """Return the numbers of steps of the passes: 1, 2, 4, ..."""
    return tuple(2**r for r in range(passes))


def usage(batch: int, stages: Sequence[int]) -> int:
    """Return how many rows batches of b/(t + 1) take in all."""
    return sum(batch // (t + 1) for steps in stages for t in range(steps))


def largest_batch(n: int, stages: Sequence[int]) -> int:
    """Return the largest b whose batches fit into n rows.

    The printed n/log^2 n takes 5.5 % of 100,000 rows with 4 passes.

    Raises:
        AssumptionError: the last batch of the longest pass would be empty.
    """
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if usage(middle, stages) <= n else (low, middle - 1)
    if low < max(stages):
        raise AssumptionError(
            f"schedule='paper' has passes of up to {max(stages)} steps, too many for {n} rows. Ask "
            "for fewer rounds, or leave schedule out."
        )
    return low


def sizes(batch: int, stages: Sequence[int]) -> tuple[int, ...]:
    """Return the size of every batch."""
    return tuple(batch // (t + 1) for steps in stages for t in range(steps))


def polyhedral_scale(task: Task, facts: Geometry, steps: int, batch: int) -> float:
    """Return the Laplace scale of a pass of Alg 1: D has to be the diameter, not the radius."""
    budget = approximate(task, "calibration='paper'")
    reach = facts.lipschitz + facts.smoothness * facts.diameter
    spread = 2.0 * facts.diameter * reach * steps
    return spread * math.sqrt(math.log(1.0 / budget.delta)) / (batch * budget.epsilon)
