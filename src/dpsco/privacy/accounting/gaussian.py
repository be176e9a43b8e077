"""Exact privacy of Gaussian noise: delta(epsilon), epsilon(delta) and mu, rounded to the safe side.

A release whose two neighbouring laws are N(0, I) and N(s, I) with ``|s| = mu`` is mu-GDP (Dong,
Roth, Su 2019, arXiv:1905.02383), and its whole privacy curve is (Balle, Wang 2018,
arXiv:1805.06530, Thm 8)

    delta(epsilon) = Phi(-x) - e^epsilon Phi(-y),   x = epsilon/mu - mu/2,   y = epsilon/mu + mu/2.

Since ``phi(x) = e^epsilon phi(y)`` this equals ``phi(x) (R(x) - R(y))`` with Mills' ratio
``R(t) = Phi(-t)/phi(t)``. That form never overflows, and its logarithm is accurate down to
delta = 1e-300 and up to epsilon = 1e6. Where R(x) and R(y) nearly cancel, the difference is the
integral of ``-R'(t) = 1 - t R(t)``, taken by Gauss-Legendre quadrature.

``delta``, ``delta_grid``, ``epsilon`` and ``mu`` err on the safe side: the rounding error of the
formula is bounded from above and added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

_ROOT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_ULP = 2.0**-52
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
LARGEST_MU = 1e140  # from here on epsilon is called infinite, so that squares cannot overflow
_FARTHEST = 1e150
_TINY = 1e-300  # added, so that what underflows is not called impossible
_SERIES_FROM = 25.0  # beyond this the asymptotic series of -R' beats the subtraction 1 - t R(t)


def delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta at ``epsilon`` of a mu-GDP Gaussian release, rounded up.

    >>> delta(1.0, 0.5)  # doctest: +ELLIPSIS
    0.00682959...
    """
    if mu == 0.0:
        return 0.0
    log = log_delta(epsilon, mu)
    return 1.0 if log >= 0.0 else max(math.exp(log), 5e-324)


def of_pure(pure_epsilon: float) -> float:
    """Return the least mu such that e0-DP implies mu-GDP, rounded up.

    The trade-off curve of e0-DP is two lines that meet where both errors are 1/(1 + e^e0). That of
    mu-GDP is convex and has the same ends, so it lies below where it does at that point, where its
    own errors are Phi(-mu/2) (Dong, Roth, Su 2019, Prop 2.4 and 2.12).

    >>> round(of_pure(0.188983), 6)
    0.236704
    """
    if pure_epsilon > 700.0:  # e^e0 overflows; Phi(-z) <= e^(-z^2/2)/2 at z = sqrt(2 e0)
        return 2.0 * math.sqrt(2.0 * pure_epsilon) * (1 + 1e-12)
    error = 1.0 / (1.0 + math.exp(pure_epsilon))
    return -2.0 * float(ndtri(error)) * (1 + 1e-12) + 1e-14  # near 1/2 errors round to 1e-16


def log_delta(epsilon: float, mu: float) -> float:
    """Return log delta(epsilon), rounded up; any epsilon >= 0 and mu > 0."""
    if mu >= LARGEST_MU:
        return 0.0
    x = epsilon / mu - mu / 2
    if x > _FARTHEST:  # -x^2/2 would overflow; this lies above it
        return -_FARTHEST
    # Rounding of x moves -x^2/2 by at most |x| times its error; the rest is a few units of 1e-16
    # of each term, enlarged by what the difference of Mills' ratios may have lost.
    x_error = 2 * _ULP * (epsilon / mu + mu / 2)
    if x < 0.0 and mu > 0.5:
        value = math.log(ndtr(-x) - _density(x) * _mills(x + mu))
        return value + 64 * _ULP + x_error
    gap = mills_gap(x, mu)
    value = -0.5 * x * x - _LOG_ROOT_TWO_PI + math.log(gap)
    return value + (abs(x) + 1) * x_error + 4 * _ULP * x * x + 4096 * _ULP


def epsilon(delta: float, mu: float) -> float:
    """Return the smallest epsilon at ``delta`` of a mu-GDP Gaussian release, rounded up.

    >>> epsilon(1e-6, 1.0)  # doctest: +ELLIPSIS
    4.88655411...
    """
    target = _log_down(delta)
    if mu == 0.0 or log_delta(0.0, mu) <= target:
        return 0.0
    if mu >= LARGEST_MU:
        return math.inf

    def excess(eps: float) -> tuple[float, float]:
        return log_delta(eps, mu) - target, -_tail_ratio(eps, mu)

    estimate = mu * (math.sqrt(-2 * target) + mu / 2)  # epsilon/mu - mu/2 = sqrt(2 log(1/delta))
    root = _root(excess, 0.0, max(estimate, 1e-300) * 2)
    return _push(root, lambda eps: log_delta(eps, mu) <= target, up=True)


@lru_cache(maxsize=512)  # a planner asks for its one budget many times
def mu(epsilon_: float, delta_: float) -> float:
    """Return the largest mu such that mu-GDP implies (epsilon, delta)-DP, rounded down.

    >>> round(mu(1.0, 1e-6), 12)
    0.236704380663
    """
    target = _log_down(delta_)

    def excess(candidate: float) -> tuple[float, float]:
        gap = mills_gap(epsilon_ / candidate - candidate / 2, candidate)
        return log_delta(epsilon_, candidate) - target, 1.0 / gap if gap > 0 else math.inf

    # Any mu below sqrt(2) (sqrt(L + eps) - sqrt(L)), L = log(1/delta), is safe by the zCDP bound.
    low = math.sqrt(2) * epsilon_ / (math.sqrt(epsilon_ - target) + math.sqrt(-target))
    high = 2 * low + 1e-300
    while log_delta(epsilon_, high) <= target:
        low, high = high, 2 * high
    root = _root(excess, low, high)
    # Checked through epsilon(), so that whoever recomputes the cost stays within the budget.
    return _push(root, lambda m: epsilon(delta_, m) <= epsilon_, up=False)


def delta_grid(epsilon: ArrayLike, mu: ArrayLike) -> NDArray[np.float64]:
    """Return `delta` at many points at once, epsilons of any sign, rounded up.

    ``phi(x) (R(x) - R(y))`` where x >= 0, which loses an ulp of R(x) only.
    """
    eps, size = np.broadcast_arrays(np.asarray(epsilon, dtype=float), np.asarray(mu, dtype=float))
    value = np.empty(eps.shape)
    with np.errstate(all="ignore"):
        safe = np.maximum(size, _TINY)
        extent = np.abs(eps) / safe + safe / 2
        x = eps / safe - safe / 2
        far = x >= 0
        if far.all():  # the usual case: nothing is picked out
            value = _far_delta(x, safe, extent)
        else:
            near = ~far
            value[far] = _far_delta(x[far], safe[far], extent[far])
            y = x[near] + safe[near]
            value[near] = ndtr(-x[near]) - np.exp(np.minimum(eps[near] + log_ndtr(-y), 0.0))
            value[near] += 64 * _ULP * (1 + extent[near] ** 2)
    value += _TINY
    return np.asarray(np.where(size == 0.0, 0.0, np.clip(value, 0.0, 1.0)))


def _far_delta(
    x: NDArray[np.float64], mu: NDArray[np.float64], extent: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return delta where x >= 0, but for underflow."""
    mills = _ROOT_HALF_PI * erfcx(x / math.sqrt(2))
    gap = mills - _ROOT_HALF_PI * erfcx((x + mu) / math.sqrt(2))
    # Relative error: rounding of x moves -x^2/2 by |x| times it, the rest is a few ulps.
    slack = np.minimum((4 * (x + 1) * extent + 4 * x * x + 64) * _ULP, 1.0)
    log_density = np.maximum(-0.5 * x * x, -745.0) - _LOG_ROOT_TWO_PI
    return np.asarray(np.exp(log_density) * (gap + 8 * _ULP * mills) * (1 + 2 * slack))


def delta_array(epsilons: NDArray[np.float64], mu: float) -> NDArray[np.float64]:
    """Return delta at many epsilons of any sign; accurate to about 1e-12 of each value.

    For grids that an accountant composes; not rounded to the safe side.
    """
    size = np.abs(epsilons)
    x = size / mu - mu / 2
    density = np.exp(-0.5 * x * x - _LOG_ROOT_TWO_PI)
    if mu <= 1e-3:  # R(x) - R(y) by two nodes of Gauss; the next term is mu^4/4320
        nodes = [x + mu * (0.5 + side / math.sqrt(12)) for side in (-1, 1)]
        slopes = [1.0 - t * (_ROOT_HALF_PI * erfcx(t / math.sqrt(2))) for t in nodes]
        value = density * (0.5 * mu * (slopes[0] + slopes[1]))
    else:  # R(x) - R(y) cancels less than the probabilities do
        tail = density * _ROOT_HALF_PI * erfcx((x + mu) / math.sqrt(2))  # e^epsilon Phi(-y)
        value = np.maximum(ndtr(-x) - tail, 0.0)
        right = np.maximum(x, 0.0)
        gap = erfcx(right / math.sqrt(2)) - erfcx((right + mu) / math.sqrt(2))
        value = np.where(x > 0, density * _ROOT_HALF_PI * gap, value)
    mirrored = -np.expm1(-size) + np.exp(-size) * value
    return np.asarray(np.where(epsilons >= 0, value, mirrored))


@lru_cache(maxsize=512)  # value and slope of a root search ask for the same point
def mills_gap(x: float, mu: float) -> float:
    """Return R(x) - R(x + mu) without cancellation, R = Mills' ratio."""
    if mu < 0.5 or mu < 0.05 * x:
        points = x + 0.5 * mu * (_NODES + 1.0)
        return float(0.5 * mu * np.dot(_WEIGHTS, _minus_mills_slope(points)))
    return _mills(x) - _mills(x + mu)


def _mills(t: float) -> float:
    """Return Phi(-t)/phi(t); finite for t above about -37."""
    return _ROOT_HALF_PI * float(erfcx(t / math.sqrt(2)))


def _minus_mills_slope(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 - t R(t) > 0 with small relative error."""
    if t[0] > _SERIES_FROM:  # 1/t^2 - 3/t^4 + 15/t^6 - ...
        inverse = 1.0 / (t * t)
        total = np.zeros_like(t)
        for k in range(10, 0, -1):
            total = inverse * (1.0 - (2 * k + 1) * total)
        return total
    return np.asarray(1.0 - t * (_ROOT_HALF_PI * erfcx(t / math.sqrt(2))))


def _density(x: float) -> float:
    return math.exp(-0.5 * x * x - _LOG_ROOT_TWO_PI)


def _tail_ratio(eps: float, mu_: float) -> float:
    """Return -d log delta / d epsilon = R(y) / (R(x) - R(y))."""
    x = eps / mu_ - mu_ / 2
    if x < -30.0:  # delta is 1 up to 1e-190 here, so its slope is the tail itself
        return _density(x) * _mills(x + mu_)
    return _mills(x + mu_) / mills_gap(x, mu_)


def _log_down(delta_: float) -> float:
    value = math.log(delta_)
    return value - 4 * _ULP * abs(value)


def _root(function: Callable[[float], tuple[float, float]], low: float, high: float) -> float:
    """Return a root in [low, high] of a monotone function by Newton steps kept inside a bracket."""
    rising = function(high)[0] > 0
    point = 0.5 * (low + high)
    for _ in range(200):
        value, slope = function(point)
        if (value > 0) == rising:
            high = point
        else:
            low = point
        step = value / slope if slope not in (0.0, math.inf) else math.inf
        following = point - step
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - point) <= 4 * _ULP * abs(following) or high - low <= _ULP * high:
            return following
        point = following
    return point


def _push(value: float, safe: Callable[[float], bool], *, up: bool) -> float:
    """Move ``value`` up or down by growing steps of an ulp until it is ``safe``."""
    step = _ULP
    while not safe(value):
        value = value * (1 + step) if up else value * (1 - step)
        step *= 2
    return value
