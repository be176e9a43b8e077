"""Least noise of many releases on secret samples, with few evaluations of the accountant.

An evaluation composes a privacy loss distribution and can take a second, so the search starts from
the central limit of the composition, closes in by secants, and remembers what it found. What it
returns has been confirmed by the accountant itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Samples:
    """Which rows many noisy sums read."""

    sampling: str  # POISSON, FIXED_SIZE or FULL
    batch: float  # rows of a sample, expected ones if it is Poisson
    n: int  # rows in all
    rounds: int  # sums
    pair: str = "proved"  # which bound pays for replace-one neighbours of a Poisson sample

    def release(self, bound: float, sigma: float) -> Release:
        """Return the record of the noisy sums."""
        rows, count = (0, self.n), self.rounds
        if self.sampling == FULL:
            return GaussianRelease(bound, sigma, rows=rows, count=count)
        if self.sampling == FIXED_SIZE:
            return FixedSizeGaussianRelease(bound, sigma, int(self.batch), rows=rows, count=count)
        _validate.choice("sampling", self.sampling, (POISSON, FIXED_SIZE, FULL))
        rate = self.batch / self.n
        return PoissonGaussianRelease(bound, sigma, rate, self.pair, rows=rows, count=count)


def full_batch_multiplier(budget: Budget, rounds: int) -> float:
    """Return sigma / bound of ``rounds`` releases of sums over all rows, without rounding."""
    return budget.adjacency.factor * math.sqrt(rounds) / budget.mu_per_row()


def usage(multiplier: float, budget: Budget, samples: Samples) -> float:
    """Return the share of the budget that noise of ``multiplier`` bounds spends; 1 is all of it."""
    release = samples.release(1.0, multiplier)
    spent, allowed = cost(release, adjacency=budget.adjacency, unit=budget.unit).against(budget)
    return spent / allowed if spent > allowed else min(spent / allowed, 1.0)


@lru_cache(maxsize=256)
def noise_multiplier(budget: Budget, samples: Samples) -> float:
    """Return sigma / bound of the releases, confirmed, within 0.1 % of epsilon.

    Raises:
        AssumptionError: the budget states no delta, or no accountant resolves so many releases.
    """
    n, rounds = samples.n, samples.rounds
    if samples.sampling == FULL:
        return gaussian_sigma(budget, bound=1.0, rows=(0, n), count=rounds)
    if not isinstance(budget, ApproxDP):
        raise AssumptionError(
            "the secrecy of a sample is accounted for in (epsilon, delta) only, and the budget is "
            f"{type(budget).__name__}. Pass ApproxDP(epsilon, delta), or batch={n} for full ones."
        )
    if rounds > MOST_ROUNDS:
        raise AssumptionError(_beyond(samples))
    return _search(budget, samples)


def _search(budget: Budget, samples: Samples) -> float:
    """Return noise that uses nearly the whole budget, by secants of the logarithms in a bracket."""
    low, high = -math.inf, math.inf  # log multipliers: too little noise, enough
    last, slope = (math.nan, math.nan), -2.5  # epsilon falls about as noise^-2.5, at first
    guess = math.log(_limit(budget, samples))
    for _ in range(_MOST_EVALUATIONS):
        share = usage(math.exp(guess), budget, samples)
        if share <= 1.0:
            high = min(high, guess)
        else:
            low = max(low, guess)
        if high - low < 1e-6 or (high == guess and share >= 1.0 - _CLOSE):
            return math.exp(high)
        point = (guess, math.log(max(share, 1e-300)))
        measured = (point[1] - last[1]) / (point[0] - last[0]) if point[0] != last[0] else math.nan
        slope = min(measured, -0.5) if math.isfinite(measured) else slope
        last = point
        # Aim at the middle of the last 0.1 %; an infinite cost says only that more is needed.
        step = (-_CLOSE / 2.0 - point[1]) / slope if share < math.inf else 0.7
        guess = _within(guess + min(max(step, -1.0), 1.0), low, high)
    if high == math.inf:
        raise AssumptionError(_beyond(samples))
    return math.exp(high)


def _within(guess: float, low: float, high: float) -> float:
    """Return the guess if it lies inside the bracket, else the middle."""
    return guess if low < guess < high else 0.5 * (low + high)


def _limit(budget: Budget, samples: Samples) -> float:
    """Return the multiplier at which the central limit of the composition meets the budget.

    Bu, Dong, Long, Su 2019 (arXiv:1911.11607), Cor 4: mu = q sqrt(T (e^(1/z^2) - 1)), z the noise
    in units of the distance between neighbours; 4 sinh(1/z^2) for the antipodal pair.
    """
    share = (budget.mu_per_row() * samples.n / samples.batch) ** 2 / samples.rounds
    antipodal = samples.sampling == POISSON and samples.pair == "conjectured"
    if antipodal and budget.adjacency is Adjacency.REPLACE_ONE:
        return 1.0 / math.sqrt(math.asinh(share / 4.0))
    distance = 2.0 if samples.sampling == FIXED_SIZE else float(budget.adjacency.factor)
    return distance / math.sqrt(math.log1p(share))


def _beyond(samples: Samples) -> str:
    return (
        f"no accountant resolves {samples.rounds:,} releases on samples of {samples.batch:g} of "
        f"{samples.n:,} rows within this budget: the loss of one release is too small, or there "
        "are too many of them. Use fewer rounds with a larger batch: noise and privacy depend on "
        "batch * sqrt(rounds)."
    )
