"""zCDP of a privacy loss that is bounded on both sides by a chi variable.

Let L be the privacy loss of P against Q, with ``-(c + m x) <= L <= c + m^2/2 + m x`` for an x that
is an average of chi_s variables, however dependent. The upper end alone puts the Kullback-Leibler
divergence E[L] near c + m E[x], linear in m. But Q is a probability with the same null sets as P
(densities of minimisers are positive everywhere): E e^-L = 1, and so, for every lambda >= 0 and
t > 0,

    E e^(tL) = 1 + E [e^(tL) - 1 + lambda (e^-L - 1)].

The bracket is convex in L, so it is largest at one of the two ends; as a function of x both are
convex, so their maximum is, and an average of chi_s variables is at most one of them in the
increasing convex order (Jensen): the expectation is at most that over one chi_s. For m -> 0 it
gives (c + m x)^2/2: quadratic, as for a Gaussian release. lambda = sinh(t B)/sinh(B) makes the ends
equal at a loss B; the best of a few is taken, all are valid.

K(t) = log E e^(tL) = t R(1 + t) is convex with K(0) = 0, so between the nodes at which it is
bounded it lies below its chords, and rho = sup K(t)/(t (t + 1)) is at most the largest quotient of
a chord, which has a closed form. Intervals that decide are divided until nothing is lost but 1e-4.
Beyond the last node R(a)/a <= m^2/2 + (c + m E chi_s)/a.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr

from .chi_law import chi_law

Array = NDArray[np.float64]

_UP = 1 + 1e-9
_SLACK = 2e-9
_LEAST = 1e-3  # the first node: R(1.001) stands for R(1)
_RATIO = 1.3  # of neighbouring nodes, before they are divided
_ROUNDS = 6
_CLOSE = 1e-4  # what dividing an interval may still gain
_STEEPEST = 8.0  # t m up to which both ends are looked at: beyond, the upper one is all
_LARGEST = 600.0  # t L that can be exponentiated
_BALANCED = np.arange(0.0, 6.0, 0.2)  # x at which both ends are equal, from sqrt(s) - 1 on
_CELLS = 16  # a standard deviation of chi: chords cost 0.1 % of rho
_PANELS = np.linspace(-12.0, 12.0, 25)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@lru_cache(maxsize=256)
def rho(m: float, c: float, s: int) -> float:
    """Return the least rho that is proved for a loss between -(c + m x) and c + m^2/2 + m x."""
    mean = mean_chi(s)
    last = max(2e4 * (c + m * mean) / (m * m), 10.0) if m > 1e-150 else 1e300
    count = math.ceil(math.log(min(last, 1e15) / _LEAST) / math.log(_RATIO))
    nodes = _LEAST * _RATIO ** np.arange(count + 1.0)
    logs = _log_moments(nodes, m, c, s)
    beyond = 0.5 * m * m + (c + m * mean) / (1.0 + nodes[-1])
    for _ in range(_ROUNDS):
        reached = max(float(np.max(logs / (nodes * (nodes + 1.0)))), beyond)
        peaks = _chord_peaks(nodes, logs)
        open_ = np.flatnonzero(peaks[1:] > reached * (1 + _CLOSE))
        if not len(open_):
            break
        middles = np.sqrt(nodes[open_] * nodes[open_ + 1])
        more = _log_moments(middles, m, c, s)
        nodes, logs = np.insert(nodes, open_ + 1, middles), np.insert(logs, open_ + 1, more)
    return float(max(np.max(_chord_peaks(nodes, logs)), beyond)) * _UP


def _chord_peaks(nodes: Array, logs: Array) -> Array:
    """Return the largest (alpha + beta t)/(t (t + 1)) on each interval, the first from 0."""
    beta = np.diff(logs) / np.diff(nodes)
    alpha = logs[:-1] - beta * nodes[:-1]
    ends = logs / (nodes * (nodes + 1.0))
    peaks = np.maximum(ends[:-1], ends[1:])
    with np.errstate(all="ignore"):
        root = np.sqrt(np.maximum(alpha * alpha - alpha * beta, 0.0))
        for turn in ((-alpha + root) / beta, (-alpha - root) / beta):
            value = (alpha + beta * turn) / (turn * (turn + 1.0))
            inside = (turn > nodes[:-1]) & (turn < nodes[1:])
            peaks = np.where(inside, np.maximum(peaks, value), peaks)
    return np.concatenate([[logs[0] / nodes[0]], peaks])


def _log_moments(ts: Array, m: float, c: float, s: int) -> Array:
    """Return a bound on log E e^(tL) for each t: of both ends where they matter, else the upper."""
    moments = ts * (c + 0.5 * m * m) + log_moment_chi(ts * m, s)
    law, last = chi_law(s, _CELLS), math.sqrt(s) + _STEEPEST + 16.0
    x, weights = law.edges[law.edges <= last], law.weights[law.edges <= last]
    last = float(x[-1])  # what lies beyond is added at the end
    up, down = c + 0.5 * m * m + m * x, c + m * x
    both = np.flatnonzero((ts * m <= _STEEPEST) & (np.maximum(ts, 1.0) * up[-1] < _LARGEST))
    if not len(both):
        return moments * (1 + 1e-12)
    above, below, far = np.expm1(-up), np.expm1(down), _rest(m, s, last, c)
    mean = float(weights @ up)
    balanced = c + m * (math.sqrt(s) - 1.0 + _BALANCED)
    ends, others = np.empty((2, len(balanced), len(x)))
    for i in both:
        t = float(ts[i])
        rest = _rest(t * m, s, last, t * (c + 0.5 * m * m))
        factors = _equalising(t, balanced)
        np.multiply(factors[:, None], above, out=ends)
        ends += np.expm1(t * up)
        np.multiply(factors[:, None], below, out=others)
        others += np.expm1(-t * down)
        np.maximum(ends, others, out=ends)
        total = ends @ weights
        total += _SLACK * (np.abs(ends, out=ends) @ weights)  # weights are off by 1e-9
        slack = 16 * 2.0**-52 * (t + factors) * mean + rest + factors * far
        moments[i] = min(moments[i], math.log1p(float(np.min(total + slack))))
    return moments * (1 + 1e-12)


def _equalising(t: float, losses: Array) -> Array:
    """Return sinh(t B)/sinh(B) for each loss B, without overflow; t where B is nearly 0."""
    safe = np.clip(losses, 1e-6, _LARGEST / max(t, 1.0))
    return np.asarray(np.sinh(t * safe) / np.sinh(safe))


def _rest(slope: float, s: int, start: float, height: float) -> float:
    """Bound E[e^(height + slope chi); chi > start], by P(chi_s > sqrt(s) + z) <= e^(-z^2/2).

    By parts it is ``e^(slope start) P(chi > start)`` and the integral of slope e^(slope r) P.
    """
    z, shift = start - math.sqrt(s), height + slope * math.sqrt(s)
    tail = math.log(slope * math.sqrt(2 * math.pi) + 1e-300) + 0.5 * slope * slope
    parts = (shift + slope * z - 0.5 * z * z, shift + tail + float(log_ndtr(slope - z)))
    return sum(math.exp(min(part, 700.0)) for part in parts)


def log_moment_chi(slopes: Array, s: int) -> Array:
    """Return log E e^(slope chi_s), rounded up.

    For s = 1 it is slope^2/2 + log(2 Phi(slope)). Else the integrand r^(s-1) e^(slope r - r^2/2)
    falls at least as fast as a Gaussian on either side of its peak: 12 deviations hold all of it
    but e^-72. Never more than slope E[chi_s] + slope^2/2, by Gaussian concentration.
    """
    concentrated = slopes * mean_chi(s) + 0.5 * slopes**2
    if s == 1:
        exact = 0.5 * slopes**2 + math.log(2.0) + log_ndtr(slopes) + 2.0**-49
        return np.asarray(np.minimum(exact, concentrated))
    peak = 0.5 * (slopes + np.sqrt(slopes**2 + 4.0 * (s - 1)))
    edges = np.maximum(_PANELS, -peak[:, None])
    half = 0.5 * np.diff(edges)[..., None]
    away = edges[:, :-1, None] + half * (_NODES + 1.0)  # from the peak, where slope - r = -(s-1)/r
    share = np.maximum(away / peak[:, None, None], -1.0 + 1e-300)
    with np.errstate(divide="ignore"):
        inner = np.exp((s - 1) * (np.log1p(share) - share) - 0.5 * away**2)
    top = (s - 1) * np.log(peak) - 0.5 * peak**2 + slopes * peak
    total = np.log(np.sum(half * _WEIGHTS * inner, axis=(-2, -1))) + top
    exact = total - ((0.5 * s - 1) * math.log(2.0) + float(gammaln(0.5 * s)))
    slack = 1e-9 + 2.0**-48 * (np.abs(top) + s * math.log(s + 1.0))
    return np.asarray(np.minimum(exact + slack, concentrated))


_MANY = 100_000


def mean_chi(s: int) -> float:
    """Return E[chi_s] = sqrt(2) Gamma((s+1)/2)/Gamma(s/2), rounded up, at most sqrt(s)."""
    if s > _MANY:  # a difference of two large logarithms loses more than _UP gives back
        return math.sqrt(s)
    log_ratio = float(gammaln((s + 1) / 2) - gammaln(s / 2))
    return min(math.sqrt(2.0) * math.exp(log_ratio) * _UP, math.sqrt(s))
