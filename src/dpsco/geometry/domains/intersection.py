"""The part of a domain that lies in an l_2 ball.

Both the projection and the linear minimiser follow one ray from the ball's centre c: with a
multiplier for the ball's constraint, the optimality conditions say

    projection of x:       w = P(c + t (x - c)),  t in [0, 1],
    minimiser of <g, w>:   w = P(c - t g),        t >= 0,

with P the projection onto the domain. The distance of w from c grows with t (P is monotone), so
one root of one number remains: the t at which w meets the sphere.
"""

from __future__ import annotations

import math

import numpy as np

from ..._validate import shown
from ...errors import ParameterError
from ..norms import L2, Norm
from .balls import LpBall
from .base import LARGEST, ROUNDING, Domain, Floats, checked_norm, difference, quiet, rounding_of
from .extents import unit

_DOUBLINGS = 40
"""How far along a ray the minimiser goes, in powers of two of the ball's radius r. At distance t
the point reached is within r^2 / (2 t) of the least value: 1e-12 r."""

_STEPS = 400  # far above the number ever needed (about 30)

_MARGIN = 1e-12
"""The ball must reach into the domain by this much of its radius."""


class Intersection(Domain):
    """{w in domain: ||w - c||_2 <= r}, for a ball L2Ball(r, c).

    Args:
        domain: any domain.
        ball: an `L2Ball`; if neither has a fixed dimension the intersection exists in each one
            in which the two meet.

    Raises:
        ParameterError: the two have no common interior point (for a flat domain: none that is
            interior in its own subspace), or different dimensions.

    >>> from dpsco.geometry.domains import Box, L2Ball
    >>> Intersection(Box(0.0, 1.0), L2Ball(1.0)).project([3.0, 4.0]).round(12).tolist()
    [0.6, 0.8]
    """

    _domain: Domain
    _ball: LpBall

    def __init__(self, domain: Domain, ball: LpBall) -> None:
        if not isinstance(domain, Domain):
            raise ParameterError(
                f"domain must be a domain such as Box(0.0, 1.0), got {shown(domain)}.",
                parameter="domain",
            )
        if not (isinstance(ball, LpBall) and ball.p == 2.0):
            raise ParameterError(f"ball must be an L2Ball, got {shown(ball)}.", parameter="ball")
        sizes = {part.dimension for part in (domain, ball)} - {None}
        if len(sizes) > 1:
            raise ParameterError(
                f"ball must have domain's dimension, {domain.dimension}; got {ball.dimension}.",
                parameter="ball",
            )
        size = sizes.pop() if sizes else None
        self._record(size, domain=domain, ball=ball)
        self._derive(_domain=domain, _ball=ball)
        if size is not None:
            self.centre(size)

    @property
    def interior(self) -> bool:
        """Whether the domain has interior points; then the intersection has some as well."""
        return self._domain.interior

    def _size(self, d: int) -> int:
        size = super()._size(d)
        self._domain._size(size)
        return size

    def centre(self, d: int) -> Floats:
        """Return a point inside both: from the domain's nearest to c, towards its own centre."""
        middle = self._ball.centre(self._size(d))
        near = self._domain.project(middle)
        room = self._ball.radius(d) - float(L2(near - middle))
        if not room > _MARGIN * self._ball.radius(d):
            raise ParameterError(
                f"ball must reach into the interior of {type(self._domain).__name__}: with d={d} "
                "they have no common interior point. Pass a larger radius or another centre.",
                parameter="ball",
            )
        if not self._domain.bounded:
            return near
        inward = self._domain.centre(d) - near
        length = float(L2(inward))
        return np.asarray(near + inward * (min(1.0, 0.5 * room / length) if length > 0.0 else 0.0))

    def radius(self, d: int, norm: Norm = L2) -> float:
        """Return an upper bound: the least that the radius or diameter of either part allows."""
        own = self.centre(d)
        parts = (self._domain, self._ball)
        about = [part.radius(d, norm) + float(norm(part.centre(d) - own)) for part in parts]
        return min(self.diameter(d, norm), *about)

    def max_norm(self, d: int, norm: Norm = L2) -> float:
        """Return an upper bound: the lesser of the two largest norms."""
        self.centre(d)
        return min(self._domain.max_norm(d, norm), self._ball.max_norm(d, checked_norm(norm)))

    def diameter(self, d: int, norm: Norm = L2) -> float:
        """Return an upper bound: the lesser diameter of the two."""
        self.centre(d)
        return min(self._domain.diameter(d, norm), self._ball.diameter(d, checked_norm(norm)))

    def _limit(self, d: int) -> float:
        """Return the distance from c up to which a point is in the ball, roundings allowed for."""
        radius, place = self._ball.radius(d), float(L2(self._ball.centre(d)))
        return radius + rounding_of(d) * (radius + place)

    def _project(self, rows: Floats) -> Floats:
        d = rows.shape[-1]
        self.centre(d)  # the two must meet
        middle = self._ball.centre(d)
        result = self._domain.project(rows)
        with quiet():
            outside = ~(L2(difference(result, middle)) <= self._limit(d))
        if np.any(outside):
            offsets = difference(rows[outside], middle)
            result[outside] = self._meet(middle, offsets, np.ones(len(offsets)))
        return result

    def _meet(self, middle: Floats, offsets: Floats, high: Floats) -> Floats:
        """Return, a row, the projection of middle + t * offset at the t where it meets the sphere.

        At t = 0 the projection is inside, at ``high`` outside. Regula falsi with the Illinois
        rule; every third step, and where that fails, a halving. The inner end is returned.
        """
        radius = self._ball.radius(len(middle))
        near = self._domain.project(middle)
        inner = np.tile(near, (len(high), 1))
        low, below = np.zeros_like(high), np.full_like(high, float(L2(near - middle)) - radius)
        high, above = np.array(high), np.full_like(high, math.inf)
        open_ = np.arange(len(high))
        for step in range(_STEPS):
            t = _next(low[open_], high[open_], below[open_], above[open_], halve=step % 3 == 2)
            wide = high[open_] - low[open_] > 2.0 * ROUNDING * high[open_]
            active = wide & (low[open_] < t) & (t < high[open_])
            open_, t = open_[active], t[active]
            if not len(open_):
                break
            points = self._domain.project(middle + t[:, None] * offsets[open_])
            with quiet():
                excess = L2(difference(points, middle)) - radius
            inside = excess <= 0.0
            ins, outs = open_[inside], open_[~inside]
            low[ins], below[ins], inner[ins] = t[inside], excess[inside], points[inside]
            high[outs], above[outs] = t[~inside], excess[~inside]
            above[ins] *= 0.5
            below[outs] *= 0.5
        return inner

    def _minimise(self, rows: Floats) -> Floats:
        d = rows.shape[-1]
        self.centre(d)
        middle = self._ball.centre(d)
        best, left = np.zeros_like(rows), np.arange(len(rows))
        if self._domain.bounded:
            best = self._domain.minimise(rows)
            left = np.flatnonzero(L2(difference(best, middle)) > self._limit(d))
        steered = np.where(np.any(rows != 0.0, axis=-1, keepdims=True), rows, unit(0, d))[left]
        steered = steered / np.max(np.abs(steered), axis=-1, keepdims=True)
        steered = -steered / L2(steered)[:, None]
        far = self._ball.radius(d)
        for _ in range(_DOUBLINGS):
            if not len(left):
                break
            points = best[left] = self._domain.project(middle + far * steered)
            outside = L2(difference(points, middle)) > self._limit(d)
            ends = np.full(np.count_nonzero(outside), far)
            best[left[outside]] = self._meet(middle, steered[outside], ends)
            left, steered = left[~outside], steered[~outside]
            far = min(2.0 * far, 0.25 * LARGEST)
        # What is left has a face of minimisers; the ray has come to rest on its nearest point.
        return best

    def _gauge(self, rows: Floats) -> Floats:
        own = self.centre(rows.shape[-1])
        return np.array([self._gauge_one(row, own) for row in rows])

    def _gauge_one(self, row: Floats, own: Floats) -> float:
        """Return 1 / (how often the step from the own centre to ``row`` fits inside)."""
        offset = difference(row, own)
        length = float(L2(offset))
        if length == 0.0:
            return 0.0
        direction = offset / np.max(np.abs(offset))
        direction = direction / L2(direction)
        radius = self._ball.radius(len(row))
        away = (own - self._ball.centre(len(row))) / radius
        along = float(away @ direction)
        exit_ball = radius * (math.sqrt(along * along + 1.0 - float(away @ away)) - along)
        return length / self._exit_domain(own, direction, exit_ball)

    def _exit_domain(self, own: Floats, direction: Floats, high: float) -> float:
        """Return how far the domain extends from the own centre, or ``high`` if farther."""
        if float(self._domain.minkowski(own + high * direction)) <= 1.0:
            return high
        low = 0.0
        for _ in range(100):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if float(self._domain.minkowski(own + middle * direction)) <= 1.0:
                low = middle
            else:
                high = middle
        return low if low > 0.0 else math.ulp(0.0)


def _next(low: Floats, high: Floats, below: Floats, above: Floats, *, halve: bool) -> Floats:
    """Return the next t: where a line through both ends is zero, or a middle.

    The middle is that of the exponents while the ends differ by orders of magnitude.
    """
    with np.errstate(all="ignore"):
        middle = np.sqrt(np.maximum(low, high * 2.0**-200)) * np.sqrt(high)
        middle = np.where((high > 16.0 * low) & (high > 1e-300), middle, 0.5 * (low + high))
        line = high - (high - low) * above / (above - below)
    usable = (low < line) & (line < high) & (not halve)
    return np.where(usable, line, middle)
