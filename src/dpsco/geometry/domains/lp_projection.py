"""Euclidean projection onto l_p balls, 1 < p < inf, by Newton's method in logarithms.

The projection of a >= 0 (in units of the radius) solves, for one multiplier mu >= 0,

    w_i / tau + mu w_i^(p-1) = a_i / tau   for all i,     sum_i w_i^p = 1,

with tau the largest a_i. Written in x_i = -log w_i, the two terms of an equation are exponentials
of lines in x_i that pass 1 at x_i = first_i = -log a_i and at x_i = second_i = (log mu -
log(a_i / tau)) / (p - 1). The logarithm of their sum is convex and falling in x_i, so Newton's
method started from the larger of the two, where it is at most log 2, climbs to the root without
ever passing it. Nothing here over- or underflows, whatever the size of the point or the radius.
"""

from __future__ import annotations

import math

import numpy as np

from .base import LARGEST, ROUNDING, Floats

_INNER, _OUTER = 100, 200  # far above the numbers of steps ever seen (8 and 12)


def lp_projection(offset: Floats, radius: float, p: float) -> Floats:
    """Return the point of the ball {||w||_p <= radius} nearest to ``offset``, which lies outside.

    The error is a few roundings divided by p - 1 when p is near 1.
    """
    size = np.abs(offset)
    used = np.flatnonzero(size)
    parts = _positive_part(size[used], radius, p)
    result = np.zeros_like(offset)
    result[used] = np.copysign(parts, offset[used])
    return result


def _positive_part(size: Floats, radius: float, p: float) -> Floats:
    """Return the projection of a vector of positive numbers."""
    top = float(np.max(size))
    with np.errstate(under="ignore"):
        relative = np.log(np.maximum(size / top, np.finfo(float).tiny))
    first = -_log_ratio(size, radius)
    low, high = _bracket(size / top, -float(np.min(first)), p)
    log_mu = high
    for _ in range(_OUTER):
        base, more, pull = _solve((log_mu - relative) / (p - 1.0), first, p)
        excess, slope = _mass(base + more, pull, p)
        low, high = (log_mu, high) if excess > 0.0 else (low, log_mu)
        step = excess / slope if slope > 0.0 else math.inf
        narrow = high - low <= 2.0 * ROUNDING * max(1.0, abs(high))
        if abs(step) <= ROUNDING * max(1.0, abs(log_mu)) or narrow:
            break
        log_mu = log_mu + step
        if not low < log_mu < high:
            log_mu = 0.5 * (low + high)
    with np.errstate(under="ignore"):
        # Where the own term leads, w = a exp(-more) keeps all digits of a.
        near = size * np.exp(-more)
        far = radius * np.exp(-base - more)
    unscaled = np.where(base == first, near, far)
    return unscaled * (radius / _norm(unscaled, p))


def _log_ratio(size: Floats, radius: float) -> Floats:
    """Return log(size / radius), from the quotient where it is a normal float."""
    with np.errstate(over="ignore", under="ignore"):
        ratio = size / radius
    usual = (ratio > 1e-300) & (ratio <= LARGEST)
    return np.where(usual, np.log(np.where(usual, ratio, 1.0)), np.log(size) - math.log(radius))


def _bracket(relative: Floats, log_tau: float, p: float) -> tuple[float, float]:
    """Return bounds on log mu.

    mu tau = ||a - w||_q, since a - w is mu tau w^(p-1). That is at most ||a||_q, and at least
    min(1, d^(1/q - 1/p)) ||a - w||_p >= min(1, d^(1/q - 1/p)) (||a||_p - 1).
    """
    q = p / (p - 1.0)
    high = math.log(_norm(relative, q))
    log_norm = math.log(_norm(relative, p)) + log_tau
    # log(||a||_p - 1) - log_tau; a point that is outside by rounding alone has no lower bound.
    beyond = log_norm + math.log(-math.expm1(-log_norm)) if log_norm > 0.0 else -math.inf
    gap = min(0.0, (1.0 / q - 1.0 / p) * math.log(len(relative)))
    low = max(beyond - log_tau, math.log(ROUNDING) - abs(log_tau) - 50.0) + gap
    return min(low, high) - 1e-9, high + 1e-9


def _solve(second: Floats, first: Floats, p: float) -> tuple[Floats, Floats, Floats]:
    """Return (base, more, pull) with x = base + more and pull = dx / d(log mu).

    Newton's method for logaddexp(-(x - first), -(p - 1)(x - second)) = 0.
    """
    base = np.maximum(first, second)
    own, other = base - first, base - second
    more = np.zeros_like(base)
    for _ in range(_INNER):
        with np.errstate(over="ignore", under="ignore"):
            one, two = -(more + own), -(p - 1.0) * (more + other)
            value = np.logaddexp(one, two)
            share = np.exp(two - value)
        slope = np.exp(one - value) + (p - 1.0) * share
        step = value / slope
        more = more + step
        if np.all(np.abs(step) <= ROUNDING * (more + np.minimum(np.abs(base), 1.0))):
            break
    return base, more, share / slope


def _mass(x: Floats, pull: Floats, p: float) -> tuple[float, float]:
    """Return log sum_i exp(-p x_i), and minus its derivative in log mu."""
    lead = float(np.min(x))
    with np.errstate(over="ignore", under="ignore"):
        shares = np.exp(-p * (x - lead))
    total = float(np.sum(shares))
    return math.log(total) - p * lead, p * float(shares @ pull) / total


def _norm(vector: Floats, p: float) -> float:
    """Return the l_p norm of positive numbers."""
    top = float(np.max(vector))
    with np.errstate(under="ignore"):
        return top * math.pow(float(np.sum((vector / top) ** p)), 1.0 / p)
