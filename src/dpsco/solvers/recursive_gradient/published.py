"""The schedules and the noise that Choquette-Choo, Ganesh, Thakurta 2025 have published.

For reproduction: their constants ask for sample sizes that nobody has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import AssumptionError
from ...privacy.budget import ApproxDP
from ...task import Task
from ..common.batches import check_rounds

SCHEDULES = ("default", "paper_general", "paper_realizable")


@dataclass(frozen=True)
class Published:
    """A schedule of the paper."""

    rounds: int
    beta: float
    clip: float


def general(
    n: int, gradient: float, smoothness: float, radius: float, rounds: int | None = None
) -> Published:
    """Return the schedule of Thm 14; by default with batches of sqrt(n) rows, its largest.

    ``radius`` is half of the domain's diameter D; c_M = M D/L.

    Raises:
        AssumptionError: so few rounds make batches of more than sqrt(n) rows.
    """
    most = math.isqrt(n)
    batch = most if rounds is None else n // rounds
    if batch > most:
        raise AssumptionError(
            f"schedule='paper_general' has batches of at most sqrt(n) rows; {rounds} rounds make "
            f"batches of {batch} rows, sqrt(n) is {most}. Ask for at least {n // (most + 1) + 1} "
            "rounds; schedule='default' takes any number."
        )
    ratio = smoothness * 2 * radius / gradient
    beta = (16 * ratio + 8) * gradient * n**1.5 / (radius * batch**2)
    return Published(rounds or n // batch, beta, (8 * ratio + 4) * gradient)


def realizable(
    n: int, size: int, gradient: float, radius: float, epsilon: float, delta: float
) -> Published:
    """Return the schedule of Eq. 19, with logarithms of base 2 where the paper names none.

    Raises:
        AssumptionError: it asks for more rounds than there are rows.
    """
    factor = 4 * math.sqrt(2) * math.log2(n) ** 1.5
    factor *= math.sqrt(math.log(2 * n / delta)) * math.log(2.5 / delta)
    rounds = math.ceil(factor * n**0.25)
    if rounds > n:
        raise AssumptionError(
            f"schedule='paper_realizable' asks for {rounds:,} rounds, but there are {n:,} rows "
            f"(its constant c_DP is {factor:,.0f}). It needs more than a million rows at least; "
            "schedule='default' is made for real tables."
        )
    beta = factor**2 * gradient / radius * max(1.0, math.sqrt(size) / (epsilon * math.sqrt(n)))
    return Published(rounds, beta, factor * gradient)


def tree_sigma(rounds: int, sensitivity: float, epsilon: float, delta: float) -> float:
    """Return the noise of a tree's node, on sums of rows, by Lemma 8 as published.

    The lemma's mu = epsilon/sqrt(2 log(2.5/delta)) suffices up to epsilon of about 7 to 10; plans
    are checked by the accountant.
    """
    levels = 1 + math.ceil(math.log2(rounds))
    return sensitivity * math.sqrt(2 * levels * math.log(2.5 / delta)) / epsilon


def published_schedule(schedule: str, task: Task, rounds: int | None) -> Published:
    """Return a schedule of the paper, or why it does not apply."""
    bound, radius = task.lipschitz, task.radius
    if not (math.isfinite(bound) and math.isfinite(radius)):
        raise AssumptionError(
            f"schedule={schedule!r} needs a bounded domain and bounded gradients; {task.problem} "
            f"has weights up to a length of {radius:g} and gradients up to {bound:g}."
        )
    rounds = None if rounds is None else check_rounds(rounds, task.n)
    if schedule == "paper_general":
        if not math.isfinite(task.smoothness):
            raise AssumptionError("schedule='paper_general' needs a smooth loss.")
        return general(task.n, bound, task.smoothness, radius, rounds)
    if not isinstance(task.budget, ApproxDP):
        raise AssumptionError("schedule='paper_realizable' needs an (epsilon, delta) budget.")
    return realizable(task.n, task.n_weights, bound, radius, task.budget.epsilon, task.budget.delta)
