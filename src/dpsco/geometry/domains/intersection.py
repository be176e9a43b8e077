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
from collections.abc import Callable

import numpy as np

from ...errors import ParameterError
from ..norms import L2, Norm
from .balls import LpBall
from .base import LARGEST, ROUNDING, Domain, Floats, checked_norm, difference, quiet, rounding_of
from .extents import unit

_DOUBLINGS = 40
"""How far along a ray the minimiser goes, in powers of two of the ball's radius r. At distance t
the point reached is within r^2 / (2 t) of the least value: 1e-12 r."""

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
            raise ParameterError(f"domain must be a domain such as Box(0.0, 1.0), got {domain!r}.")
        if not (isinstance(ball, LpBall) and ball.p == 2.0):
            raise ParameterError(f"ball must be an L2Ball, got {ball!r}.")
        sizes = {part.dimension for part in (domain, ball)} - {None}
        if len(sizes) > 1:
            raise ParameterError(
                f"ball must have the dimension of domain, {domain.dimension}; got {ball.dimension}."
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
                "they have no common interior point. Pass a larger radius or another centre."
            )
        inward = self._domain.centre(d) - near
        length = float(L2(inward))
        return np.asarray(near + inward * (min(1.0, 0.5 * room / length) if length > 0.0 else 0.0))

    def radius(self, d: int, norm: Norm = L2) -> float:
        """Return an upper bound: the least that the radius or diameter of either part allows."""
        own = self.centre(d)
        parts = (self._domain, self._ball)
        about = [part.radius(d, norm) + float(norm(part.centre(d) - own)) for part in parts]
        return min(self.diameter(d, norm), *about)

    def reach(self, d: int, norm: Norm = L2) -> float:
        """Return an upper bound: the lesser reach of the two."""
        self.centre(d)
        return min(self._domain.reach(d, norm), self._ball.reach(d, checked_norm(norm)))

    def diameter(self, d: int, norm: Norm = L2) -> float:
        """Return an upper bound: the lesser diameter of the two."""
        self.centre(d)
        return min(self._domain.diameter(d, norm), self._ball.diameter(d, checked_norm(norm)))

    def _limit(self, d: int) -> float:
        """Return the distance from c up to which a point is in the ball, roundings allowed for."""
        radius, place = self._ball.radius(d), float(L2(self._ball.centre(d)))
        return radius + rounding_of(d) * (radius + place)

    def _project(self, rows: Floats) -> Floats:
        self.centre(rows.shape[-1])  # the two must meet
        return np.stack([self._project_one(row) for row in rows])

    def _project_one(self, row: Floats) -> Floats:
        middle = self._ball.centre(len(row))
        whole = self._domain.project(row)
        if L2(difference(whole, middle)) <= self._limit(len(row)):
            return whole
        offset = difference(row, middle)
        return self._along(lambda t: middle + t * offset, 1.0)

    def _along(self, ray: Callable[[float], Floats], high: float) -> Floats:
        """Return the projection of ray(t) onto the domain at the t where it meets the sphere.

        At t = 0 the ray is at c, inside; at ``high`` the projection is outside. Regula falsi with
        the Illinois rule, and a halving (of the exponent while the bracket spans orders of
        magnitude) whenever the bracket has not shrunk enough. The inner end is returned.
        """
        middle = ray(0.0)
        d = len(middle)
        radius = self._ball.radius(d)
        low, inner = 0.0, self._domain.project(middle)
        below, above = float(L2(inner - middle)) - radius, math.inf
        for step in range(400):
            if high - low <= 2.0 * ROUNDING * high or (below == 0.0 and step):
                break
            t = high - (high - low) * above / (above - below) if above < math.inf else math.nan
            if step % 3 == 2 or not low < t < high:
                t = _between(low, high)
            if not low < t < high:
                break
            point = self._domain.project(ray(t))
            with quiet():
                excess = float(L2(difference(point, middle))) - radius
            if excess <= 0.0:
                low, below, inner = t, excess, point
                above = 0.5 * above
            else:
                high, above, below = t, excess, 0.5 * below
        return inner

    def _minimise(self, rows: Floats) -> Floats:
        self.centre(rows.shape[-1])
        return np.stack([self._minimise_one(row) for row in rows])

    def _minimise_one(self, row: Floats) -> Floats:
        d = len(row)
        middle, limit = self._ball.centre(d), self._limit(d)
        if self._domain.bounded:
            best = self._domain.minimise(row)
            if L2(difference(best, middle)) <= limit:
                return best
        direction = unit(0, d) if not np.any(row) else row / np.max(np.abs(row))
        direction = direction / L2(direction)
        far = self._ball.radius(d)
        for _ in range(_DOUBLINGS):
            point = self._domain.project(middle - far * direction)
            if L2(point - middle) > limit:
                return self._along(lambda t: middle - t * direction, far)
            far = min(2.0 * far, 0.25 * LARGEST)
        return point  # a face of minimisers: the ray has come to rest on its nearest point

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


def _between(low: float, high: float) -> float:
    """Return the middle, or the middle of the exponents if the two differ by orders."""
    if high <= 16.0 * low or high < 1e-300:
        return 0.5 * (low + high)
    return math.sqrt(max(low, high * 2.0**-200)) * math.sqrt(high)
