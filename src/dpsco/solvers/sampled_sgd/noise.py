"""Least noise of many releases on secret samples, with few evaluations of the accountant.

An evaluation composes a privacy loss distribution and can take a second, so the search starts from
the central limit of the composition, closes in by secants, and remembers what it found. What it
returns has been confirmed by the accountant itself.
"""

from __future__ import annotations

import math
from functools import lru_cache

from ... import _validate
from ...errors import AssumptionError
from ...files.limits import MOST_ROUNDS as MOST_ROUNDS
from ...privacy.accounting.composition import cost
from ...privacy.budget import Adjacency, ApproxDP, Budget
from ...privacy.mechanisms import (
    FixedSizeGaussianRelease,
    GaussianRelease,
    PoissonGaussianRelease,
    gaussian_sigma,
)
from ...privacy.release import Release

POISSON, FIXED_SIZE, FULL = "poisson", "fixed_size", "full"
_CLOSE = 1e-3  # how much of epsilon may stay unspent
_MOST_EVALUATIONS = 40


def sampled_release(
    sampling: str, bound: float, sigma: float, batch: float, n: int, *, pair: str, count: int = 1
) -> Release:
    """Return the record of noisy sums over samples of (expected) size ``batch`` of ``n`` rows."""
    if sampling == FULL:
        return GaussianRelease(bound, sigma, rows=(0, n), count=count)
    if sampling == FIXED_SIZE:
        return FixedSizeGaussianRelease(bound, sigma, int(batch), rows=(0, n), count=count)
    _validate.choice("sampling", sampling, (POISSON, FIXED_SIZE, FULL))
    return PoissonGaussianRelease(bound, sigma, batch / n, pair, rows=(0, n), count=count)


def full_batch_multiplier(budget: Budget, rounds: int) -> float:
    """Return sigma / bound of ``rounds`` releases of sums over all rows, without rounding."""
    return budget.adjacency.factor * math.sqrt(rounds) / budget.mu_per_row()


def affordable(
    multiplier: float,
    budget: Budget,
    *,
    sampling: str,
    batch: float,
    n: int,
    rounds: int,
    pair: str,
) -> bool:
    """Return whether noise of ``multiplier`` bounds keeps the releases within the budget."""
    return _usage(multiplier, budget, sampling, batch, n, rounds, pair) <= 1.0


@lru_cache(maxsize=256)
def noise_multiplier(
    budget: Budget, *, sampling: str, batch: float, n: int, rounds: int, pair: str = "proved"
) -> float:
    """Return sigma / bound for ``rounds`` releases, confirmed, within 0.1 % of epsilon.

    Raises:
        AssumptionError: the budget states no delta, or no accountant resolves so many releases.
    """
    if sampling == FULL:
        return gaussian_sigma(budget, bound=1.0, rows=(0, n), count=rounds)
    if not isinstance(budget, ApproxDP):
        raise AssumptionError(
            "the secrecy of a sample is accounted for in (epsilon, delta) only, and the budget is "
            f"{type(budget).__name__}. Pass ApproxDP(epsilon, delta), or batch={n} for full ones."
        )
    if rounds > MOST_ROUNDS:
        raise AssumptionError(_beyond(batch, n, rounds))
    return _search(budget, sampling, batch, n, rounds, pair)


def _search(budget: Budget, sampling: str, batch: float, n: int, rounds: int, pair: str) -> float:
    """Return noise that uses nearly the whole budget, by secants of the logarithms in a bracket."""
    low, high = -math.inf, math.inf  # log multipliers: too little noise, enough
    last, slope = (math.nan, math.nan), -2.5  # epsilon falls about as noise^-2.5, at first
    guess = math.log(_limit(budget, sampling, batch, n, rounds, pair))
    for _ in range(_MOST_EVALUATIONS):
        usage = _usage(math.exp(guess), budget, sampling, batch, n, rounds, pair)
        if usage <= 1.0:
            high = min(high, guess)
        else:
            low = max(low, guess)
        if high - low < 1e-6 or (high == guess and usage >= 1.0 - _CLOSE):
            return math.exp(high)
        point = (guess, math.log(max(usage, 1e-300)))
        measured = (point[1] - last[1]) / (point[0] - last[0]) if point[0] != last[0] else math.nan
        slope = min(measured, -0.5) if math.isfinite(measured) else slope
        last = point
        # Aim at the middle of the last 0.1 %; an infinite cost says only that more is needed.
        step = (-_CLOSE / 2.0 - point[1]) / slope if usage < math.inf else 0.7
        guess = _within(guess + min(max(step, -1.0), 1.0), low, high)
    if high == math.inf:
        raise AssumptionError(_beyond(batch, n, rounds))
    return math.exp(high)


def _within(guess: float, low: float, high: float) -> float:
    """Return the guess if it lies inside the bracket, else the middle."""
    return guess if low < guess < high else 0.5 * (low + high)


def _usage(
    multiplier: float, budget: Budget, sampling: str, batch: float, n: int, rounds: int, pair: str
) -> float:
    """Return the share of the budget that the releases spend."""
    release = sampled_release(sampling, 1.0, multiplier, batch, n, pair=pair, count=rounds)
    spent, allowed = cost(release, adjacency=budget.adjacency, unit=budget.unit).against(budget)
    return spent / allowed if spent > allowed else min(spent / allowed, 1.0)


def _limit(budget: Budget, sampling: str, batch: float, n: int, rounds: int, pair: str) -> float:
    """Return the multiplier at which the central limit of the composition meets the budget.

    Bu, Dong, Long, Su 2019 (arXiv:1911.11607), Cor 4: mu = q sqrt(T (e^(1/z^2) - 1)), z the noise
    in units of the distance between neighbours; 4 sinh(1/z^2) for the antipodal pair.
    """
    share = (budget.mu_per_row() * n / batch) ** 2 / rounds
    if sampling == POISSON and pair == "conjectured" and _replaces(budget):
        return 1.0 / math.sqrt(math.asinh(share / 4.0))
    distance = 2.0 if sampling == FIXED_SIZE else float(budget.adjacency.factor)
    return distance / math.sqrt(math.log1p(share))


def _replaces(budget: Budget) -> bool:
    return budget.adjacency is Adjacency.REPLACE_ONE


def _beyond(batch: float, n: int, rounds: int) -> str:
    return (
        f"no accountant resolves {rounds:,} releases on samples of {batch:g} of {n:,} rows within "
        "this budget: the loss of one release is too small, or there are too many of them. Use "
        "fewer rounds with a larger batch: noise and privacy depend on batch * sqrt(rounds)."
    )
