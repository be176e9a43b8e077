"""Balls of the l_p norms, 1 <= p <= inf, about any centre."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._validate import positive
from ..norms import L2, Lp, Norm
from ..width import Width, lp_ball_width
from .base import (
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
from .lp_projection import lp_projection
from .simplex import simplex_projection


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

    def diameter(self, d: int, norm: Norm = L2) -> float:
        """Return twice the radius in this norm: exact in l_p, weighted and group norms."""
        return 2.0 * self.radius(d, norm)

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
        d = rows.shape[-1]
        centre = self.centre(d)
        offset = difference(rows, centre)
        # A member that was rounded counts as a member, or projecting twice would change it.
        limit = self._radius + rounding_of(d) * (self._radius + float(self._norm(centre)))
        with quiet():
            outside = ~(self._norm(offset) <= limit)
        result = np.array(rows)
        if np.any(outside):
            result[outside] = centre + self._project_offsets(offset[outside])
        return result

    def _project_offsets(self, offset: Floats) -> Floats:
        """Project offsets from the centre, all of them outside."""
        if self.p == np.inf or offset.shape[-1] == 1:
            return np.asarray(np.clip(offset, -self._radius, self._radius))
        if self.p == 1.0:
            return np.copysign(simplex_projection(np.abs(offset), self._radius), offset)
        if self.p == 2.0:
            with quiet():
                scaled = offset / np.max(np.abs(offset), axis=-1, keepdims=True)
                return np.asarray(scaled * (self._radius / self._norm(scaled))[:, None])
        return np.stack([lp_projection(row, self._radius, self.p) for row in offset])

    def _minimise(self, rows: Floats) -> Floats:
        return np.asarray(self.centre(rows.shape[-1]) - self._radius * self._norm.steepest(rows))

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
