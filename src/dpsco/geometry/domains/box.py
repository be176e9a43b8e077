"""Boxes: an interval for each coordinate."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ..._validate import real, refusal
from ...errors import ParameterError
from ..norms import L2, Norm
from ..width import Width, box_width
from .base import Domain, Floats, checked_norm, difference, enumerable, finite_vector, floats
from .extents import box_extent


class Box(Domain):
    """{w: lower <= w <= upper}; two numbers give a cube in every dimension.

    >>> Box(0.0, [1.0, 2.0]).project([3.0, -1.0]).tolist()
    [1.0, 0.0]
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        low, high = _edge("lower", lower), _edge("upper", upper)
        if low.ndim and high.ndim and low.shape != high.shape:
            raise ParameterError(
                f"upper must have as many coordinates as lower ({low.size}), got {high.size}.",
                parameter="upper",
            )
        if not np.all(low < high):
            at = np.flatnonzero(np.broadcast_to(low >= high, (max(low.size, high.size),)))[0]
            raise ParameterError(
                f"lower must be below upper in every coordinate, or the box has no interior "
                f"point; coordinate {at} is not. Drop a fixed coordinate from the problem instead.",
                parameter="lower",
            )
        size = max(low.size, high.size) if low.ndim or high.ndim else None
        self._record(size, lower=_plain(low), upper=_plain(high))

    def _edges(self, d: int) -> tuple[Floats, Floats]:
        """Return lower and upper as vectors."""
        size = (self._size(d),)
        low, high = self._arguments["lower"], self._arguments["upper"]
        return np.broadcast_to(low, size), np.broadcast_to(high, size)

    def _half(self, d: int) -> Floats:
        """Return half the edges' lengths."""
        low, high = self._edges(d)
        return np.asarray(0.5 * high - 0.5 * low)

    def centre(self, d: int) -> Floats:
        """Return the midpoint."""
        low, high = self._edges(d)
        return np.asarray(0.5 * low + 0.5 * high)

    def vertices(self, d: int) -> Floats:
        """Return the 2**d corners, the last coordinate changing fastest."""
        low, high = self._edges(d)
        return corners(type(self).__name__, low, high)

    def radius(self, d: int, norm: Norm = L2) -> float:
        """Return the norm of half the diagonal: exact for norms of absolute values."""
        return box_extent(self._half(d), checked_norm(norm))

    def max_norm(self, d: int, norm: Norm = L2) -> float:
        """Return the norm of the farthest corner: exact for norms of absolute values."""
        low, high = self._edges(d)
        return box_extent(np.maximum(np.abs(low), np.abs(high)), checked_norm(norm))

    def gaussian_width(self, d: int, samples: int = 4096, seed: int = 0) -> Width:
        """Return sqrt(2 / pi) times half the sum of the edges: exact."""
        return box_width(self._half(d))

    def _project(self, rows: Floats) -> Floats:
        low, high = self._edges(rows.shape[-1])
        return np.asarray(np.clip(rows, low, high))

    def _minimise(self, rows: Floats) -> Floats:
        low, high = self._edges(rows.shape[-1])
        return np.asarray(np.where(rows < 0.0, high, low))

    def _gauge(self, rows: Floats) -> Floats:
        d = rows.shape[-1]
        return np.asarray(np.max(np.abs(difference(rows, self.centre(d))) / self._half(d), axis=-1))


def corners(who: str, low: Floats, high: Floats) -> Floats:
    """Return the corners of a box as rows, the last coordinate changing fastest."""
    d = len(low)
    instead = "Use minimise(direction), which needs no list, or another domain such as L1Ball."
    enumerable(who, 2**d, d, instead)
    bits = (np.arange(2**d)[:, None] >> np.arange(d - 1, -1, -1)) & 1
    return np.asarray(np.where(bits == 1, high, low))


def _edge(name: str, value: ArrayLike) -> Floats:
    """Return a bound as a number (no axis) or a vector."""
    if np.ndim(floats(name, value)) > 0:
        return finite_vector(name, value)
    number = real(name, value)
    if not math.isfinite(number):
        raise refusal(name, f"must be finite, got {number!r}.")
    return np.asarray(number)


def _plain(edge: Floats) -> float | Floats:
    return edge if edge.ndim else float(edge)
