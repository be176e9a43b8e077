"""Balls of the l_p norms, 1 <= p <= inf, about any centre.

Euclidean projection is a formula for p = 1, 2, inf. For the others it is Newton's method in
logarithms: the projection of a >= 0 (in units of the radius) solves, for one multiplier mu >= 0,

    w_i / tau + mu w_i^(p-1) = a_i / tau   for all i,     sum_i w_i^p = 1,

with tau the largest a_i. Written in x_i = -log w_i, the two terms of an equation are exponentials
of lines in x_i that pass 1 at x_i = first_i = -log a_i and at x_i = second_i = (log mu -
log(a_i / tau)) / (p - 1). The logarithm of their sum is convex and falling in x_i, so Newton's
method started from the larger of the two, where it is at most log 2, climbs to the root without
ever passing it. Nothing here over- or underflows, whatever the size of the point or the radius.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._validate import positive
from ..norms import L2, Lp, Norm
from ..width import Width, lp_ball_width
from .base import (
    LARGEST,
    ROUNDING,
    Domain,
    Floats,
    checked_norm,
    difference,
    enumerable,
    finite_vector,
    quiet,
    rounding_of,
)
from .box import corners
from .extents import ball_extent, box_extent, unit
from .simplex import simplex_projection

_INNER, _OUTER = 100, 200  # far above the numbers of steps ever seen (8 and 12)


class LpBall(Domain):
    """{w: ||w - centre||_p <= radius}; without a centre, about the origin in every dimension.

    >>> LpBall(1.0, 2.0).project([3.0, -0.5, 1.2, -2.0]).tolist()
    [1.5, 0.0, 0.0, -0.5]
    """

    def __init__(self, p: float, radius: float, centre: ArrayLike | None = None) -> None:
        norm = Lp(p)
        middle = None if centre is None else finite_vector("centre", centre)
        size = None if middle is None else len(middle)
        own = {"p": norm.p} if type(self) is LpBall else {}
        self._record(size, **own, radius=positive("radius", radius), centre=middle)
        self._derive(_norm=norm, _radius=self._arguments["radius"], _middle=middle)

    _norm: Lp
    _radius: float
    _middle: Floats | None

    @property
    def p(self) -> float:
        """The exponent of the norm."""
        return self._norm.p

    def _identity(self) -> tuple[Any, ...]:
        place = None if self._middle is None else self._middle.tobytes()
        return "LpBall", self.p, self._radius, place

    def centre(self, d: int) -> Floats:
        """Return the centre."""
        size = self._size(d)
        return np.zeros(size) if self._middle is None else np.array(self._middle)

    def vertices(self, d: int) -> Floats | None:
        """Return the 2d vertices for p = 1, the 2**d corners for p = inf; else None."""
        centre = self.centre(d)
        if self.p == np.inf or d == 1:
            return corners(type(self).__name__, centre - self._radius, centre + self._radius)
        if self.p != 1.0:
            return None
        instead = "Use minimise(direction): the best vertex is the largest coordinate's."
        enumerable(type(self).__name__, 2 * d, d, instead)
        steps = self._radius * np.eye(d)
        return np.concatenate([centre + steps, centre - steps])

    def radius(self, d: int, norm: Norm = L2) -> float:
        """Return radius * max ||u|| over ||u||_p <= 1: exact in l_p, weighted and group norms."""
        return self._radius * ball_extent(self._norm, checked_norm(norm), self._size(d))

    def max_norm(self, d: int, norm: Norm = L2) -> float:
        """Return the largest norm of a member.

        Exact if the centre is zero, if the norm is the ball's own, l_1 or l_inf, or if the ball's
        is l_1 or l_inf; else the centre's norm plus the radius, an upper bound.
        """
        centre = self.centre(d)
        if not np.any(centre):
            return self.radius(d, norm)
        checked_norm(norm)
        if self.p == np.inf:
            return box_extent(np.abs(centre) + self._radius, norm)
        if self.p == 1.0:
            return self._reach_of_vertices(centre, norm)
        return float(norm(centre)) + self.radius(d, norm)

    def gaussian_width(self, d: int, samples: int = 4096, seed: int = 0) -> Width:
        """Return radius * E ||g||_q: by closed form or quadrature, without simulation."""
        return lp_ball_width(d=self._size(d), p=self.p, radius=self._radius)

    def _reach_of_vertices(self, centre: Floats, norm: Norm) -> float:
        """Return the largest norm of centre +- radius e_j; l_p norms: at the largest coordinate."""
        best, d = 0.0, len(centre)
        for j in [int(np.argmax(np.abs(centre)))] if isinstance(norm, Lp) else range(d):
            for side in (-1.0, 1.0):
                best = max(best, float(norm(centre + side * self._radius * unit(j, d))))
        return best

    def _project(self, rows: Floats) -> Floats:
        offset, middle, length = rows, np.zeros(1), 0.0
        if self._middle is not None:
            offset, middle = difference(rows, self._middle), self._middle
            length = float(self._norm(middle))
        # A member that was rounded counts as a member, or projecting twice would change it.
        limit = self._radius + rounding_of(rows.shape[-1]) * (self._radius + length)
        with quiet():
            outside = ~(self._norm(offset) <= limit)
        if len(rows) and np.all(outside):
            result = self._project_offsets(offset)
            result += middle
            return result
        result = np.array(rows)
        if np.any(outside):
            result[outside] = middle + self._project_offsets(offset[outside])
        return result

    def _project_offsets(self, offset: Floats) -> Floats:
        """Project offsets from the centre, all of them outside."""
        if self.p == np.inf or offset.shape[-1] == 1:
            return np.asarray(np.clip(offset, -self._radius, self._radius))
        if self.p == 1.0:
            size = simplex_projection(np.abs(offset), self._radius)
            return np.copysign(size, offset, out=size)
        if self.p == 2.0:
            with quiet():
                scaled = offset / np.max(np.abs(offset), axis=-1, keepdims=True)
                return np.asarray(scaled * (self._radius / self._norm(scaled))[:, None])
        return np.stack([lp_projection(row, self._radius, self.p) for row in offset])

    def _minimise(self, rows: Floats) -> Floats:
        if self.p != 1.0:
            centre = self.centre(rows.shape[-1])
            return np.asarray(centre - self._radius * self._norm.steepest(rows))
        result, lines = np.zeros_like(rows), np.arange(len(rows))
        if self._middle is not None:
            result += self._middle
        first = _largest(rows)  # one coordinate moves: nothing else is computed
        result[lines, first] -= np.where(rows[lines, first] < 0.0, -self._radius, self._radius)
        return result

    def _support(self, rows: Floats) -> Floats:
        return np.asarray(rows @ self.centre(rows.shape[-1]) + self._radius * self._norm.dual(rows))

    def _gauge(self, rows: Floats) -> Floats:
        return np.asarray(self._norm(difference(rows, self.centre(rows.shape[-1]))) / self._radius)


class L2Ball(LpBall):
    """{w: ||w - centre||_2 <= radius}.

    >>> L2Ball(2.0).project([3.0, -4.0]).round(12).tolist()
    [1.2, -1.6]
    """

    def __init__(self, radius: float, centre: ArrayLike | None = None) -> None:
        super().__init__(2.0, radius, centre)


class L1Ball(LpBall):
    """{w: ||w - centre||_1 <= radius}, with 2d vertices.

    >>> L1Ball(2.0).minimise([1.0, -3.0, 2.0]).tolist()
    [0.0, 2.0, 0.0]
    """

    def __init__(self, radius: float, centre: ArrayLike | None = None) -> None:
        super().__init__(1.0, radius, centre)


class LInfBall(LpBall):
    """{w: |w_j - centre_j| <= radius for all j}, a cube.

    >>> LInfBall(2.0).project([3.0, -0.5]).tolist()
    [2.0, -0.5]
    """

    def __init__(self, radius: float, centre: ArrayLike | None = None) -> None:
        super().__init__(np.inf, radius, centre)


def _largest(rows: Floats) -> NDArray[np.intp]:
    """Return the first of the largest |entries| of each row, without a vector of them."""
    lines = np.arange(len(rows))
    high, low = np.argmax(rows, axis=-1), np.argmin(rows, axis=-1)
    top, bottom = rows[lines, high], -rows[lines, low]
    lower = (bottom > top) | ((bottom == top) & (low < high))
    return np.asarray(np.where(lower, low, high))


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
