"""Privacy gained by secrecy of the sample or of the order.

Each function bounds delta(epsilon) for one release and is a valid bound in both directions of the
adjacency. ``mu`` is the distance, in standard deviations of the noise, between the two outputs that
the subsampled or shuffled release has to hide from each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, gammaln

from . import gaussian

MOST_REPORTS = 10**9
"""Reports that are counted on. More hide no less, because whoever sees some reports in secret order
can mix the others in; and with more, binomial laws take long and round too coarsely."""
_MOST_TERMS = 2000  # of a sum over the number of clones
_CELLS = 256  # in which more of them are taken together
_MOST_MASSES = 20_000  # probabilities that are added up within the cells
_NO_CLONES = 700.0  # eps0 from which on e^-eps0 is no number: nobody hides, and 1 bounds delta
_PARTS = 16  # of a cell, each bounded at its ends, where there are more


def sampled_delta(epsilons: NDArray[np.float64], rate: float, mu: float) -> NDArray[np.float64]:
    """Return deltas of a Gaussian release on a secret sample that holds a row with ``rate``.

    ``rate * delta_G(log(1 + (e^epsilon - 1)/rate))``: advanced joint convexity (Balle, Barthe,
    Gaboardi 2018, arXiv:1807.01647, Thm 2). Samples of fixed size without replacement: ``mu`` is
    two bounds, because the row makes way for another one. Poisson samples, replace-one: likewise.
    Epsilons of any sign; accurate, not rounded up.
    """
    size = np.abs(epsilons)
    inner = np.where(
        size < 500, np.log1p(np.expm1(np.minimum(size, 500)) / rate), size - math.log(rate)
    )
    value = rate * gaussian.delta_array(inner, mu)
    mirrored = -np.expm1(-size) + np.exp(-size) * value
    return np.asarray(np.where(epsilons >= 0, value, mirrored))


def shuffled_epsilon(delta: float, reports: int, mu: float) -> float:
    """Return the smallest epsilon at ``delta`` of ``reports`` Gaussian reports in secret order.

    Feldman, McMillan, Talwar 2020 (arXiv:2012.12803): each report is (eps0, delta0)-DP between any
    two inputs. A share of delta pays for delta0; the best of a few shares is returned.
    """
    reports = min(reports, MOST_REPORTS)
    high = gaussian.epsilon(delta, mu)  # what the reports cost in a known order
    return _least(lambda value: _shuffle_holds(value, delta, reports, mu), 0.0, high)


def shuffled_delta(epsilon: float, reports: int, mu: float) -> float:
    """Return the smallest delta at ``epsilon``, the inverse of :func:`shuffled_epsilon`."""
    reports = min(reports, MOST_REPORTS)
    high = math.log(gaussian.delta(epsilon, mu))
    least = _least(
        lambda value: _shuffle_holds(epsilon, math.exp(value), reports, mu), -690.0, high
    )
    return math.exp(least)


def clones_delta(epsilon: float, reports: int, eps0: float) -> float:
    """Return delta(epsilon) of ``reports`` shuffled eps0-DP reports, summed exactly and rounded up.

    The dominating pair is (A+Y, C-A+1-Y) against (A+1-Y, C-A+Y) with C ~ Bin(n-1, e^-eps0),
    A ~ Bin(C, 1/2) and Y ~ Bernoulli(e^eps0/(1+e^eps0)); given C it is a test on A.
    """
    if epsilon >= eps0:
        return 0.0
    if eps0 > _NO_CLONES:
        return 1.0
    others, p = reports - 1, math.exp(-eps0)
    centre, spread = others * p, math.sqrt(others * p * (1 - p))
    first = max(0, math.floor(centre - 10 * spread - 40))
    last = min(others, math.ceil(centre + 10 * spread + 40))
    c, masses = _cells(first, last, others, p)
    # P(C < first) + P(C > last), by the incomplete beta function: exact for any number of reports.
    dropped = (betainc(others - first + 1, first, 1 - p) if first > 0 else 0.0) + (
        betainc(last + 1, others - last, p) if last < others else 0.0
    )
    heavy = 1 / (1 + p)  # P(Y = 1)
    growth = math.exp(epsilon)
    cut = (growth * heavy - (1 - heavy)) / ((2 * heavy - 1) * (1 + growth))
    x = np.floor(cut * (c + 1)) + 1
    upper, lower = _tail_half(x - 2, c), _tail_half(x - 1, c)
    gain = heavy * upper + (1 - heavy) * lower
    loss = growth * ((1 - heavy) * upper + heavy * lower)
    given_c = np.maximum(gain - loss, 0.0) + 1e-12 * (gain + loss)
    slack = 1e-8 + 2.0**-49 * gammaln(reports + 1)  # the logarithms in the binomial law round
    return float(np.dot(masses, given_c) * (1 + slack) + dropped)


def _cells(
    first: int, last: int, n: int, p: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return numbers of clones C and their probabilities; many of them in cells, each at its first.

    Given C the sum falls with C: one more clone is a coin that anybody can add. So a cell may count
    at its first C. The law has one mode, so that within a part it is largest at an end or there.
    """
    size = last + 1 - first
    if size <= _MOST_TERMS:
        c = np.arange(first, last + 1)
        return c, _binomial_pmf(c, n, p)
    parts = min(size, _CELLS * _PARTS) if size > _MOST_MASSES else size
    starts = np.unique(np.linspace(first, last + 1, parts + 1).astype(np.int64))[:-1]
    ends = np.append(starts[1:], last + 1) - 1
    masses = _binomial_pmf(starts, n, p)
    if parts < size:
        mode = np.clip(math.floor((n + 1) * p), starts, ends)
        masses = np.maximum(masses, _binomial_pmf(ends, n, p))
        masses = np.maximum(masses, _binomial_pmf(mode, n, p)) * (ends - starts + 1.0)
    cells = np.unique(np.linspace(0, len(starts), _CELLS + 1).astype(np.int64))[:-1]
    return starts[cells], np.add.reduceat(masses, cells)


def _shuffle_holds(epsilon: float, delta: float, reports: int, mu: float) -> bool:
    """Say whether delta suffices at epsilon, some share of it paying for the reports' delta0."""
    for share in (0.5, 0.1, 0.02):
        delta0 = share * delta / (1.5 * (math.exp(min(epsilon, 700.0)) + 1) * reports)
        if delta0 < 1e-300:
            continue
        eps0 = gaussian.epsilon(delta0, mu)
        correction = _not_pure_correction(epsilon, eps0, delta0, reports)
        if clones_delta(epsilon, reports, eps0) + correction <= delta:
            return True
    return False


def _least(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least value in (low, high] that holds, by bisection; ``high`` itself is valid."""
    while high - low > 1e-8 * max(1e-3, abs(high)):
        middle = 0.5 * (low + high)
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _not_pure_correction(epsilon: float, eps0: float, delta0: float, reports: int) -> float:
    growth = math.exp(min(epsilon, 700.0)) + 1
    return growth * (1 + math.exp(-eps0) / 2) * reports * delta0 * (1 + 1e-14)


def _tail_half(k: NDArray[np.float64], c: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return P(Bin(c, 1/2) > k) for every k, also outside 0..c."""
    at = np.clip(k, 0, np.maximum(c - 1, 0))
    inside = betainc(at + 1, np.maximum(c, 1) - at, 0.5)
    return np.asarray(np.where(k < 0, 1.0, np.where(k >= c, 0.0, inside)))


def _binomial_pmf(k: NDArray[np.int64], n: int, p: float) -> NDArray[np.float64]:
    if p == 1.0:
        return np.asarray(k == n, dtype=np.float64)
    choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.asarray(np.exp(choose + k * math.log(p) + (n - k) * math.log1p(-p)))
