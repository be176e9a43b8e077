"""Constants in l_p, the bound of the theorem, and the numbers of its schedules.

With P the divergence to good weights, s the mean dual norm of the noise of one release that spends
the whole budget, and T rounds of step h/T, the bound is P/h + h s^2/2 + discretisation: the time
h = sqrt(P)/s is best, in as many rounds as steps of 1/(2 beta) take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...geometry.norms import conjugate
from ...geometry.width import dual_norm_bound
from ...task import Task
from ..common.options import published_budget

MOST = 1000  # rounds of every schedule
PULLS = np.geomspace(1e-5, 1.0, 61)  # of `balanced`, in units of beta


@dataclass(frozen=True)
class Scales:
    """What schedules ask for; lengths of weights in l_p, of gradients in its dual."""

    n: int
    d: int
    beta: float  # smoothness
    kappa: float
    spread: float  # P
    noise: float  # s: of the mean of all rows, at the price of the whole budget

    @property
    def time(self) -> float:
        """h: how far to go, in units of steps times rounds."""
        return math.sqrt(self.spread) / self.noise


def noise_length(p: float, d: int, *, generalized: bool) -> float:
    """Return the mean dual norm of noise of unit sigma; that of l_r balls is sqrt(d) in l_r."""
    return math.sqrt(d) if generalized else dual_norm_bound(conjugate(p), d)


def practical(scales: Scales, most: int) -> int:
    """Return T = 2 beta h rounds, at most so many."""
    return min(max(round(2.0 * scales.beta * scales.time), 1), most)


def balanced(scales: Scales) -> tuple[int, float]:
    """Return rounds and pull of the least bound alpha P (1 + .5/(growth^T - 1)) + s^2 T/alpha."""
    rounds = np.unique(np.round(np.geomspace(1, MOST, 200)).astype(int))[:, None]
    pull = scales.beta * PULLS[None, :]
    grown = np.expm1(rounds * np.log1p(pull / (2.0 * scales.beta)))
    bound = pull * scales.spread * (1.0 + 0.5 / grown) + scales.noise**2 * rounds / pull
    best = np.unravel_index(int(np.argmin(bound)), bound.shape)
    return int(rounds[best[0], 0]), float(pull[0, best[1]])


def published(scales: Scales, task: Task) -> tuple[int, float]:
    """Return the rounds and the pull of Theorem 7.

    Raises:
        AssumptionError: the budget has no epsilon and delta.
    """
    budget = published_budget(task, otherwise="practical")
    price = math.sqrt(scales.d * -math.log(budget.delta))
    worth = scales.n * budget.epsilon * math.sqrt(scales.kappa) / price
    rounds = max(1, min(round(worth**0.4), MOST))
    shares = math.log2(max(2.0, scales.n / rounds))
    return rounds, 4.0 * scales.beta * shares / (rounds + 1)
