"""The price of a solver on rows that were drawn with replacement (Su, Zhao, Wang 2023, Thm 12).

Of n draws from n rows K ~ Bin(n, 1/n) hit a given row, and the draws are the same for neighbours.
Given K = k their resampled tables differ in k rows, so by group privacy and joint convexity

    delta(epsilon) <= sum_k P(K = k) delta_k(epsilon),

with delta_k that of a group of k rows: of k mu for a mu-GDP solver.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, gammaln, xlog1py

from ..._validate import integer, non_negative, positive, probability
from ...errors import AssumptionError
from ..budget import Adjacency, ApproxDP, Budget
from . import gaussian

_UP = 1.0 + 1e-8  # more than what the logarithms of 400 factors lose
_MOST_HITS = 400  # P(K > 400) is far below 1e-300
_PRECISION = 1e-9


def resampled_delta(epsilon: float, mu: float, n: int) -> float:
    """Return delta at ``epsilon`` of a mu-GDP solver on n draws from n rows, rounded up.

    >>> round(resampled_delta(1.0, 0.0628, 1000), 8)
    1.02e-06
    """
    hits, chances = _hits(n)
    deltas = gaussian.delta_grid(non_negative("epsilon", epsilon), hits * positive("mu", mu))
    return min(1.0, float(chances @ deltas) * _UP + _lost(n))


def resampled_delta_of(epsilon: float, inner: tuple[float, float], n: int) -> float:
    """Return the same of a solver of which only (epsilon, delta)-privacy is known.

    A group of k rows has delta k e^((k - 1) epsilon') delta' at k epsilon', and 1 below that.
    """
    own, small = positive("epsilon", inner[0]), probability("delta", inner[1])
    hits, chances = _hits(n)
    with np.errstate(over="ignore"):
        group = np.minimum(1.0, hits * np.exp((hits - 1) * own) * small)
    deltas = np.where(hits * own <= non_negative("epsilon", epsilon), group, 1.0)
    return min(1.0, float(chances @ deltas) * _UP + _lost(n))


def resampled_mu(budget: Budget, n: int) -> float:
    """Return the largest mu of a solver on resampled rows that a budget pays for.

    Raises:
        AssumptionError: the budget has no epsilon and delta, or protects several rows together.
    """
    if not isinstance(budget, ApproxDP) or budget.unit.rows != 1:
        raise AssumptionError(
            f"resampled rows are accounted for at one epsilon and delta, for a single row; got "
            f"{budget}. Pass ApproxDP(epsilon, delta)."
        )
    if budget.adjacency is Adjacency.ADD_REMOVE:
        raise AssumptionError(
            "n draws from n rows need a public n, which add_remove keeps private: use "
            "adjacency='zero_out' (same noise) or 'replace_one'."
        )
    low, high = 0.0, gaussian.mu(budget.epsilon, budget.delta)
    while high - low > _PRECISION * high:
        middle = 0.5 * (low + high)
        if middle == 0.0 or resampled_delta(budget.epsilon, middle, n) <= budget.delta:
            low = middle
        else:
            high = middle
    if low == 0.0:
        raise AssumptionError(f"no solver on resampled rows is private enough for {budget}.")
    return low


def _hits(n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return how often a row may be drawn, and the chances."""
    n = integer("n", n)
    hits = np.arange(1, min(n, _MOST_HITS) + 1)
    # C(n, k)/n^k, factor by factor: logarithms of n! would lose 1e-6 of it at a billion rows.
    ways = np.cumsum(np.log1p(-(hits - 1.0) / n)) - gammaln(hits + 1)
    return hits, np.exp(ways + xlog1py(n - hits, -1.0 / n))


def _lost(n: int) -> float:
    """Return the chance of more hits than were summed over."""
    return float(bdtrc(_MOST_HITS, n, 1.0 / n)) if n > _MOST_HITS else 0.0
