"""Gaussian widths E sup <g, w> over sets of weights, g standard normal: exact, or by simulation.

Widths are public: they depend on the set alone and enter bounds on the error, never the privacy.
The width of a norm's unit ball is the mean dual norm of a normal vector. Scaling a set scales its
width; moving it changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfc, log_ndtr, ndtr

from .._validate import integer, non_negative, real
from ..errors import AssumptionError, ParameterError

Floats = NDArray[np.float64]
Support = Callable[[Floats], ArrayLike]

_HALF_NORMAL_MEAN = math.sqrt(2.0 / math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_CHUNK = 1 << 20  # normals drawn at a time: 8 MiB
_SERIES_FROM = 200  # beyond this many dimensions the series for the l_2 ball is exact to rounding


@dataclass(frozen=True)
class Width:
    """A Gaussian width and its standard error, which is 0 for a closed form."""

    value: float
    error: float = 0.0

    def scaled(self, factor: float) -> Width:
        """Return the width of the set scaled by ``factor``, which may be negative."""
        size = abs(real("factor", factor))
        return Width(size * self.value, size * self.error)

    def upper(self, deviations: float = 5.0) -> float:
        """Return the value plus so many standard errors."""
        return self.value + deviations * self.error


# -- closed forms ----------------------------------------------------------------------------------


def l2_ball_width(d: int, radius: float = 1.0) -> Width:
    """Return radius * sqrt(2) Gamma((d + 1) / 2) / Gamma(d / 2).

    >>> round(l2_ball_width(10).value, 10)
    3.0843277598
    """
    return Width(_mean_length(integer("d", d))).scaled(non_negative("radius", radius))


def l1_ball_width(d: int, radius: float = 1.0) -> Width:
    """Return radius * E max_j |g_j|, the integral of 1 - (1 - 2 Phi(-t))^d over t > 0."""
    return Width(_mean_largest_size(integer("d", d))).scaled(non_negative("radius", radius))


def lp_ball_width(d: int, p: float, radius: float = 1.0) -> Width:
    """Return radius * E ||g||_q, 1/p + 1/q = 1, for any p from 1 to inf.

    >>> round(lp_ball_width(100, 1.5).value, 6)
    5.394947
    """
    d, p, radius = integer("d", d), real("p", p), non_negative("radius", radius)
    if p < 1.0:
        raise ParameterError(
            f"p must be at least 1, got {p!r}: below it is no norm.", parameter="p"
        )
    if d == 1 or p == math.inf:
        return Width(d * _HALF_NORMAL_MEAN).scaled(radius)
    if p in (1.0, 2.0):
        return l1_ball_width(d, radius) if p == 1.0 else l2_ball_width(d, radius)
    return Width(_mean_lq_norm(p / (p - 1.0), d)).scaled(radius)


def box_width(half_sides: ArrayLike) -> Width:
    """Return sqrt(2 / pi) times the sum of the half sides of a box, one per coordinate."""
    sides = np.asarray(half_sides, dtype=float)
    if sides.ndim != 1 or not np.all((sides >= 0.0) & np.isfinite(sides)):
        raise ParameterError(
            "half_sides must be a vector of finite numbers, zero or above.", parameter="half_sides"
        )
    return Width(_HALF_NORMAL_MEAN * float(np.sum(sides)))


def simplex_width(d: int, total: float = 1.0) -> Width:
    """Return total * E max_j g_j: the width of {w >= 0, sum w = total}."""
    return Width(_mean_largest(integer("d", d))).scaled(non_negative("total", total))


def dual_norm_bound(q: float, d: int) -> float:
    """Return an upper bound on E ||g||_q from Jensen's inequality, in closed form.

    It is d^(1/q) (E |g|^q)^(1/q), and sqrt(2 ln(2 d)) for q = inf.

    >>> round(dual_norm_bound(3.0, 50), 6)
    4.305068
    """
    q, d = real("q", q), integer("d", d)
    if q < 1.0:
        raise ParameterError(f"q must be at least 1, got {q!r}.", parameter="q")
    if q == math.inf:
        return math.sqrt(2.0 * math.log(2.0 * d))
    moment = 0.5 * q * math.log(2.0) + math.lgamma(0.5 * (q + 1.0)) - 0.5 * math.log(math.pi)
    return math.exp((math.log(d) + moment) / q)


# -- simulation ------------------------------------------------------------------------------------


def monte_carlo_width(support: Support, d: int, samples: int = 4096, seed: int = 0) -> Width:
    """Return the width of any set with a linear maximiser, with its standard error.

    Directions come in pairs u, -u, so that the place of the set cancels. Length and direction of a
    normal vector are independent and a support function grows with the length in proportion, so
    the length enters by its exact mean.

    Args:
        support: maps directions, the rows of an array, to sup <direction, w> over the set.
        d: the dimension.
        samples: directions, at least 4; an odd number is rounded up.
        seed: of the directions: the same seed gives the same width.

    Raises:
        AssumptionError: the support function is not finite: the set is unbounded.
        ParameterError: it does not return one number per row.
    """
    from ..privacy.randomness import Randomness

    d, pairs = integer("d", d), (integer("samples", samples, at_least=4) + 1) // 2
    stream = Randomness.seeded(integer("seed", seed, at_least=0)).child("gaussian width")
    chunk = max(1, _CHUNK // d)
    means = np.empty(pairs)
    for start in range(0, pairs, chunk):
        rows = stream.normals((min(chunk, pairs - start), d))
        rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
        both = _supports(support, rows) + _supports(support, -rows)
        means[start : start + len(rows)] = 0.5 * both
    error = float(np.std(means, ddof=1)) / math.sqrt(pairs)
    return Width(float(np.mean(means)), error).scaled(_mean_length(d))


def _supports(support: Support, rows: Floats) -> Floats:
    """Return the support function on each row, checked."""
    result = np.asarray(support(rows), dtype=float)
    if result.shape != (len(rows),):
        raise ParameterError(
            f"support must return one number per row, shape {(len(rows),)}, got {result.shape}.",
            parameter="support",
        )
    if not np.all(np.isfinite(result)):
        raise AssumptionError(
            "a Gaussian width needs a bounded set; the support function is not finite in every "
            "direction. Intersect the set with a ball."
        )
    return result


# -- integrals -------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _mean_length(d: int) -> float:
    """Return E ||g||_2. The difference of log Gammas would lose 1e-9 at d = 1e6."""
    if d < _SERIES_FROM:
        return math.sqrt(2.0) * math.gamma(0.5 * (d + 1)) / math.gamma(0.5 * d)
    z = 1.0 / d
    series = 1.0 + z * (-1 / 4 + z * (1 / 32 + z * (5 / 128 - z * (21 / 2048 + z * 399 / 8192))))
    return math.sqrt(d) * series


@lru_cache(maxsize=256)
def _mean_largest_size(d: int) -> float:
    """Return E max |g_j|."""
    t, weights = _panels(0.0, _farthest(d), 0.5)
    with np.errstate(divide="ignore"):
        log_inside = np.log1p(-erfc(t / math.sqrt(2.0)))
    return float(weights @ -np.expm1(d * log_inside))


@lru_cache(maxsize=256)
def _mean_largest(d: int) -> float:
    """Return E max g_j, the integral of 1 - Phi^d above 0 less that of Phi^d below."""
    if d == 1:
        return 0.0
    t, weights = _panels(0.0, _farthest(d), 0.5)
    with np.errstate(under="ignore"):
        return float(weights @ (-np.expm1(d * log_ndtr(t)) - np.exp(d * log_ndtr(-t))))


@lru_cache(maxsize=256)
def _mean_lq_norm(q: float, d: int) -> float:
    """Return E ||g||_q for 1 <= q < inf.

    With S = sum |g_j|^q, f(t) = E exp(-t |g_1|^q) and s = 1/q,

        E S^s = 1/Gamma(2 - s) * integral of t^(1 - s) (f^d)''(t) over t > 0.

    This is the usual integral of (1 - f^d) t^(-s - 1), by parts, twice: no term is negative, there
    is no pole at q = 1, and in x = log(t) / q the integrand falls off at rates 2 q - 1 and d + 1.
    """
    centre = dual_norm_bound(min(q, max(2.0, 2.0 * math.log(d))), d)  # near the mean for any q
    tail = min(math.sqrt(2.0 * q), 40.0)  # the normals that E |g|^(2 q) comes from
    below = max(0.0, math.log(tail / centre)) + 40.0 / (2.0 * q - 1.0) + 1.0
    above = 1.0 + 40.0 / (d + 1.0) + 4.0 / q
    step = max(1.0 / q, 1.0 / (2.0 + 2.0 * math.log(d)))
    x, weights = _panels(-math.log(centre) - below, -math.log(centre) + above, step)
    missing, first, second = _exponential_moments(q, d, np.exp(-x))
    with np.errstate(divide="ignore", under="ignore"):
        log_f = np.log1p(-np.minimum(missing, 1.0))
        inside = second * np.exp((d - 1) * log_f)
        if d > 1:
            inside += (d - 1) * first**2 * np.exp((d - 2) * log_f if d > 2 else 0.0 * x)
    return float(weights @ (d * q * np.exp(-x) * inside)) / math.gamma(2.0 - 1.0 / q)


def _exponential_moments(q: float, d: int, scale: Floats) -> tuple[Floats, Floats, Floats]:
    """Return E 1 - e^-a, E a e^-a and E a^2 e^-a for a = (|g| / scale)^q, for each scale.

    In y = log a all three live on [-40 - log d, 4] (they matter from 1/d on), except that 1 - e^-a
    is 1 beyond.
    """
    y, weights = _panels(-40.0 - math.log(d), 4.0, 2.0)
    a = np.exp(y)
    size = scale[:, None] * np.exp(y / q)
    with np.errstate(under="ignore"):
        density = _HALF_NORMAL_MEAN * np.exp(-0.5 * size**2) * size / q * weights
    beyond = 2.0 * ndtr(-scale * math.exp(4.0 / q))
    return (
        density @ -np.expm1(-a) + beyond,
        density @ (a * np.exp(-a)),
        density @ (a**2 * np.exp(-a)),
    )


def _farthest(d: int) -> float:
    """Return a point that the largest of d normals passes with probability below 1e-18."""
    return math.sqrt(2.0 * math.log(d)) + 9.5


def _panels(start: float, stop: float, width: float) -> tuple[Floats, Floats]:
    """Return nodes and weights of Gauss-Legendre quadrature on panels of about ``width``."""
    count = math.ceil((stop - start) / width)
    edges = np.linspace(start, stop, count + 1)
    half = 0.5 * np.diff(edges)[:, None]
    middle = 0.5 * (edges[1:] + edges[:-1])[:, None]
    return (middle + half * _NODES).ravel(), (half * _WEIGHTS).ravel()
