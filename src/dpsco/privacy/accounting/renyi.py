"""Renyi privacy of releases that are not Gaussian, and its conversion to (epsilon, delta).

A Renyi curve is a function from an array of orders a > 1 to the divergences R(a). Every order gives
a valid bound (Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Prop 12), so the search over orders
can only cost accuracy, never privacy:

    epsilon = R(a) + log(1 - 1/a) - (log delta + log a) / (a - 1),
    log delta = (a - 1) (R(a) - epsilon) + (a - 1) log(1 - 1/a) - log a.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Orders = NDArray[np.float64]
Curve = Callable[[Orders], NDArray[np.float64]]

_ULP = 2.0**-52
_MANY = 8  # ranges that are worth composing at once
_COARSE = 1.0 + np.geomspace(1e-7, 1e9, 200)


def epsilon(curve: Curve, delta: float) -> float:
    """Return the smallest epsilon at ``delta`` over all orders, rounded up."""
    log_inverse = -math.log(delta)

    def bound(orders: Orders) -> NDArray[np.float64]:
        divergence = curve(orders)
        tail = (log_inverse - np.log(orders)) / (orders - 1)
        value = divergence + np.log1p(-1 / orders) + tail
        slack = divergence + (log_inverse + np.log(orders) + 1) / (orders - 1)
        return np.asarray(value + 8 * _ULP * slack)

    return max(0.0, _minimum(bound))


def log_delta(curve: Curve, epsilon: float) -> float:
    """Return the logarithm of the smallest delta at ``epsilon`` over all orders, rounded up."""

    def bound(orders: Orders) -> NDArray[np.float64]:
        divergence = curve(orders)
        shrink = (orders - 1) * np.log1p(-1 / orders) - np.log(orders)
        value = (orders - 1) * (divergence - epsilon) + shrink
        slack = (orders - 1) * (divergence + epsilon) + np.abs(shrink)
        return np.asarray(value + 8 * _ULP * slack)

    return min(0.0, _minimum(bound))


def zcdp(rho: float) -> Curve:
    """Return the curve a -> a rho of rho-zCDP (Bun, Steinke 2016, arXiv:1605.02065)."""
    return lambda orders: rho * orders


def bounded_range(range_epsilon: float) -> Curve:
    """Return the curve of an e0-bounded-range release, such as the exponential mechanism.

    The extremal law has two likelihood ratios e^t and e^(t-e0) (Dong, Durfee, Rogers 2019,
    arXiv:1909.13830); with E = e^-e0 its a-th moment is
    ``(e^((a-1)t) (1 - E^a) - e^(at) (E - E^a)) / (1 - E)``, largest where
    ``e^t = (a-1)(1 - E^a) / (a (E - E^a))``.
    """
    e0 = range_epsilon
    if e0 < 1e-4:  # the zCDP bound a e0^2/8 is sharp to 1e-9 here and free of cancellation
        return zcdp(e0 * e0 / 8 * (1 + 4 * _ULP))

    if e0 > 1e6:  # the exponentials overflow, and such noise hides nothing anyway
        return lambda orders: np.minimum(e0, orders * (e0 * e0 / 8))

    return RangeCurve(e0)


@dataclass(frozen=True)
class RangeCurve:
    """The curve of `bounded_range`, as a value: many of them are composed at once."""

    range_epsilon: float

    def __call__(self, orders: Orders) -> NDArray[np.float64]:
        """Return the divergences."""
        return range_divergences(np.float64(self.range_epsilon), orders)


def range_divergences(ranges: Any, orders: Orders) -> NDArray[np.float64]:
    """Return the divergences of bounded-range releases, for ranges that broadcast with orders."""
    e0, a = ranges, orders
    log_one = np.log(-np.expm1(-a * e0))  # log(1 - E^a)
    log_two = -e0 + np.log(-np.expm1(-(a - 1) * e0))  # log(E - E^a)
    t = np.clip(np.log1p(-1 / a) + log_one - log_two, 0.0, e0)
    # At the maximiser the second term is (a-1)/a of the first; away from it (clipped) subtract.
    share = np.minimum(1.0, np.exp(t + log_two - log_one))
    log_moment = (a - 1) * t + log_one + np.log1p(-share) - np.log(-np.expm1(-e0))
    value = log_moment / (a - 1) + 64 * _ULP * (1 + 1 / (a - 1))
    # The divergence lies below each of these, whatever rounding says: a e0^2/8, and e0.
    return np.asarray(np.minimum(np.minimum(value, a * e0 * e0 / 8), e0))


def pure(pure_epsilon: float) -> Curve:
    """Return the curve of an e0-DP release: that of randomised response, which dominates it."""
    e0 = pure_epsilon

    def curve(orders: Orders) -> NDArray[np.float64]:
        # log(p e^((a-1)e0) + (1-p) e^(-(a-1)e0)) with p = 1/(1+e^-e0), shifted by (a-1) e0
        b = (orders - 1) * e0
        log_p = -math.log1p(math.exp(-e0))
        inner = np.log1p(np.exp(-2 * b - e0)) + log_p
        value = e0 + inner / (orders - 1) + 8 * _ULP * (e0 + 1 / (orders - 1))
        return np.asarray(np.minimum(np.minimum(value, orders * e0 * e0 / 2), e0))

    return curve


def randomised_response_delta(epsilon: float, e0: float, times: int) -> float:
    """Return delta of ``times`` randomised responses that are e0-DP each, rounded up.

    ``sum_x Bin(times, p)(x) (1 - e^(epsilon - (2x - times) e0))_+`` with p = e^e0/(1 + e^e0)
    (Kairouz, Oh, Viswanath 2013, arXiv:1311.0776).
    """
    first = max(0, math.floor((times + epsilon / e0) / 2))
    # Farther than 12 sqrt(times) from its mean, x has probability 2 e^-288 at most (Hoeffding).
    mean, width = times / (1.0 + math.exp(-e0)), 12.0 * math.sqrt(times) + 1.0
    low, last = int(mean - width), min(times, math.ceil(mean + width))
    left_out = 1e-124 if low > first or last < times else 0.0
    x = np.arange(max(first, low), last + 1, dtype=float)
    log_p, log_q = -math.log1p(math.exp(-e0)), -e0 - math.log1p(math.exp(-e0))
    choose = gammaln(times + 1) - gammaln(x + 1) - gammaln(times - x + 1)
    gain = -np.expm1(np.minimum(epsilon - (2 * x - times) * e0, 0.0))
    terms = np.exp(choose + x * log_p + (times - x) * log_q) * gain
    return min(1.0, float(np.sum(terms)) * (1 + 1e-7) + left_out)


def compose(curves: list[tuple[Curve, int]]) -> Curve:
    """Return the sum of the curves, each taken its number of times."""
    ranges = [(curve.range_epsilon, n) for curve, n in curves if isinstance(curve, RangeCurve)]
    if len(ranges) < _MANY:
        return lambda orders: sum((n * curve(orders) for curve, n in curves), np.zeros_like(orders))
    sizes, counts = np.array(ranges).T
    others = [(curve, n) for curve, n in curves if not isinstance(curve, RangeCurve)]

    def composed(orders: Orders) -> NDArray[np.float64]:
        alike = counts @ range_divergences(sizes[:, None], orders[None, :])
        return np.asarray(sum((n * curve(orders) for curve, n in others), alike))

    return composed


def rho(epsilon_: float, delta: float) -> float:
    """Return the largest rho such that rho-zCDP implies (epsilon, delta)-DP, rounded down.

    >>> round(rho(1.0, 1e-6), 7)
    0.024356
    """
    high = 1.0
    while epsilon(zcdp(high), delta) <= epsilon_:
        high *= 2
    low = high / 2
    while epsilon(zcdp(low), delta) > epsilon_:
        low, high = low / 2, low
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if epsilon(zcdp(middle), delta) <= epsilon_:
            low = middle
        else:
            high = middle
    return low


def _minimum(bound: Curve) -> float:
    """Return the least bound over the orders: a coarse search, then three times closer."""
    orders, best = _COARSE, math.inf
    for _ in range(4):
        values = bound(orders)
        at = int(np.argmin(values))
        best = min(best, float(values[at]))
        low, high = orders[max(at - 1, 0)], orders[min(at + 1, len(orders) - 1)]
        orders = 1.0 + _geometric(low - 1.0, high - 1.0, 40)
    return best


def _geometric(low: float, high: float, count: int) -> Orders:
    """Return np.geomspace(low, high, count), without the checks that take most of its time."""
    points = np.power(10.0, np.linspace(np.log10(low), np.log10(high), count))
    points[0], points[-1] = low, high
    return np.asarray(points)
