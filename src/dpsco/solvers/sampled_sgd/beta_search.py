"""The published noise of gradient perturbation with single-row batches: a search for beta.

Wang, Lei, Ying, Zhang 2022, Thm 11: with A = log(1/delta)/epsilon, the Renyi order
lambda = A/(1 - beta) + 1 and r = 3.5 T lambda / (beta n^2 epsilon), T steps on single uniform rows
with noise sigma = 2 G sqrt(r) are (epsilon, delta)-DP, provided that

    (32)  r >= 0.67        (33)  lambda - 1 <= (2/3) r log(n / (lambda (1 + r))).

The conditions are no technicality: where no beta meets them, the formula violates privacy grossly.
The feasible set can be two intervals, so it is scanned, never bisected.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import AssumptionError
from ...privacy.budget import ApproxDP, Budget
from .noise import FIXED_SIZE, Samples, noise_multiplier

Floats = NDArray[np.float64]

_POINTS = 20_000  # of each of the three grids
_CONFIDENCE = 0.05  # gamma of Thm 12
_SAFE = 1 - 1e-12  # more than the conditions can have been rounded
_LARGEST = 1e6  # epsilon beyond which no search for the least one looks


class Beta(NamedTuple):
    """A feasible choice: beta, the Renyi order, and the noise in units of the gradient bound."""

    beta: float
    order: float
    multiplier: float  # sigma / G


def feasible_multiplier(
    beta: Floats, n: int, rounds: int, epsilon: float, delta: float
) -> tuple[Floats, Floats]:
    """Return, for every beta, the Renyi order and sigma / G; infinite where (32) or (33) fails."""
    beta = np.asarray(beta, dtype=float)
    with np.errstate(all="ignore"):
        order = math.log(1.0 / delta) / ((1.0 - beta) * epsilon) + 1.0
        r = 3.5 * rounds * order / (beta * n * n * epsilon)
        room = r / 1.5 * np.log(n / (order * (1.0 + r)))
        holds = (r * _SAFE >= 0.67) & (order - 1.0 <= room * _SAFE)
        return order, np.where(holds, 2.0 * np.sqrt(r), math.inf)


def search(
    n: int, rounds: int, epsilon: float, delta: float, *, rule: str = "closest"
) -> Beta | None:
    """Return the feasible beta closest to 1/2 (the paper's rule), or of ``"least"`` noise.

    None where no beta is feasible. An end of the feasible set is closed in upon from the inside.

    >>> result = search(1000, 1000, 1.0, 1e-6)
    >>> round(result.beta, 5), round(result.order, 3), round(result.multiplier, 3)
    (0.00381, 14.868, 7.389)
    >>> search(1000, 1000, 0.5, 1e-6) is None
    True
    """
    grid = _grid()
    _, noise = feasible_multiplier(grid, n, rounds, epsilon, delta)
    if not np.isfinite(noise).any():
        return None
    ratio = math.log(1.0 / delta) / epsilon
    target = 0.5 if rule == "closest" else ratio + 1.0 - math.sqrt(ratio * (ratio + 1.0))
    # lambda/beta is convex with its minimum at that target, so the closest feasible point on
    # either side of it is the best one there.
    inside = np.flatnonzero(np.isfinite(noise))
    sides = [inside[grid[inside] <= target][-1:], inside[grid[inside] >= target][:1]]
    ends = [_refined(float(grid[i]), target, n, rounds, epsilon, delta) for s in sides for i in s]
    if rule == "closest":
        return min(ends, key=lambda end: abs(end.beta - target))
    return min(ends, key=lambda end: end.multiplier)


@lru_cache(maxsize=64)
def least_epsilon(n: int, rounds: int, delta: float) -> float:
    """Return the smallest epsilon for which some beta is feasible, from above (1e-6 relative)."""
    low, high = 0.0, 1.0
    while search(n, rounds, high, delta) is None:
        low, high = high, 2.0 * high
        if high > _LARGEST:
            return math.inf
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        if search(n, rounds, middle, delta) is None:
            low = middle
        else:
            high = middle
    return high


def published_noise(budget: Budget, *, n: int, rounds: int, exact: bool) -> float:
    """Return sigma / G of Thm 11 for single uniform rows, by the paper's rule for beta.

    Where no beta exists: the least noise by the accountant if ``exact``, else a refusal.

    Raises:
        AssumptionError: no beta is feasible; names the smallest epsilon that has one.
    """
    if not isinstance(budget, ApproxDP):
        raise AssumptionError(
            "dp_sgd_gradient with calibration='paper' needs a budget ApproxDP(epsilon, delta)."
        )
    optimum = search(n, rounds, budget.epsilon, budget.delta)
    if optimum is not None:
        return optimum.multiplier
    if exact:
        return noise_multiplier(budget, Samples(FIXED_SIZE, 1.0, n, rounds - 1))
    least = least_epsilon(n, rounds, budget.delta)
    raise AssumptionError(
        f"dp_sgd_gradient with calibration='paper': no beta meets the conditions of Thm 11 for "
        f"n = {n}, {rounds} rounds, epsilon = {budget.epsilon:g} and delta = {budget.delta:g}; the "
        f"smallest epsilon that has one is {least:.4g}. Raise epsilon, use calibration='tight', "
        "or pass options={'accountant': 'auto'} for tight noise on the published schedule."
    )


def published_step(*, n: int, size: int, rounds: int, budget: Budget, constant: float) -> float:
    """Return 1/(T max(B1, B2)) of Thm 12, which prints the inverse; ``constant`` is L.

    As printed, (1/T) max(B1, B2), the iterates never leave the start.

    Raises:
        AssumptionError: the step is outside (1/T, min(1, 1/L)), where the theorem says nothing.
    """
    assert isinstance(budget, ApproxDP)
    log_n, log_gamma = math.log(n), math.log(1.0 / _CONFIDENCE)
    first = math.sqrt(log_n * (log_n + log_gamma) * log_gamma / n)
    second = (
        math.sqrt(size * math.log(1.0 / budget.delta))
        * math.pow(log_gamma, 0.25)
        / (n * budget.epsilon)
    )
    step, limit = 1.0 / (rounds * max(first, second)), min(1.0, 1.0 / constant)
    if not 1.0 / rounds < step < limit:
        raise AssumptionError(
            f"dp_sgd_gradient with calibration='paper': the published step {step:.3g} must lie "
            f"between 1/T = {1 / rounds:.3g} and min(1, 1/L) = {limit:.3g}; the theorem says "
            "nothing here. Pass more rows, options={'step': ...}, or use calibration='tight'."
        )
    return step


def _refined(
    inside: float, target: float, n: int, rounds: int, epsilon: float, delta: float
) -> Beta:
    """Return the feasible point between ``inside`` and the next grid point nearest to the target.

    From the inside: what is returned meets both conditions.
    """
    grid = _grid()
    place = int(np.searchsorted(grid, inside))
    ahead = min(grid[place + 1], target) if inside < target else max(grid[place - 1], target)

    def at(beta: float) -> Beta:
        order, noise = feasible_multiplier(np.array([beta]), n, rounds, epsilon, delta)
        return Beta(beta, float(order[0]), float(noise[0]) * (1 + 1e-12))

    best, outside = at(inside), float(ahead)
    probe = outside
    for _ in range(60):
        candidate = at(probe)
        if math.isfinite(candidate.multiplier):
            best = candidate
        else:
            outside = probe
        probe = 0.5 * (best.beta + outside)
    return best


@lru_cache(maxsize=1)
def _grid() -> Floats:
    """Return where beta is tried: evenly, and ever more finely towards 0 and 1."""
    even = np.linspace(0.0, 1.0, _POINTS + 1)[1:-1]
    fine = np.geomspace(1e-12, 0.5, _POINTS)
    return np.unique(np.concatenate([even, fine, 1.0 - fine[fine > 1e-15]]))
