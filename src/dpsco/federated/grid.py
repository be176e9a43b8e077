"""Row vectors as integers: multiples of a power of two whose norm is bounded in exact arithmetic.

What secure aggregation adds are integers, so a contribution is clipped and rounded before it leaves
its worker, and ``bound`` must hold for the integers. Any function of one row and of earlier
releases is allowed before that, with whatever rounding, since the bound is enforced on its result.
NaN and infinite rows become zero rows. How the aggregate meets its noise says :mod:`.lattice`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _validate
from ..errors import ParameterError

__all__ = ["Grid"]

_RADIUS = 2**31  # bound / step stays below, so that squared norms fit in int64
_BLOCK = 1 << 14  # entries encoded at a time: arrays that stay in the cache
_LARGEST_STEP = 2.0**960  # an int64 times the step is then a finite float


@dataclass(frozen=True)
class Grid:
    """A grid for row vectors: multiples of ``step``, of l2 norm at most ``bound``.

    Refused are steps that are not a power of two (multiplying by them could round), bounds that
    vanish between grid points, and bounds of 2**31 steps or more.

    >>> grid = Grid(2.0**-10, 1.0, 3)
    >>> grid.encode(np.array([[3.0, 4.0, 0.0], [0.5, 0.25, np.nan], [0.5, 0.25, 0.0]])).tolist()
    [[614, 819, 0], [0, 0, 0], [512, 256, 0]]
    """

    step: float  # grid spacing in the units of the rows, a power of two
    bound: float  # l2 norm of one row
    dimension: int

    def __post_init__(self) -> None:
        step = _validate.positive("step", self.step, hint="It is the spacing of the grid.")
        bound = _validate.positive("bound", self.bound)
        dimension = _validate.integer("dimension", self.dimension)
        for name, value in (("step", step), ("bound", bound), ("dimension", dimension)):
            object.__setattr__(self, name, value)
        if math.frexp(step)[0] != 0.5 or step > _LARGEST_STEP:
            nearest = 2.0 ** min(960, round(math.log2(step)))
            raise ParameterError(
                f"step must be a power of two of at most 2**960, got {step!r}. Pass {nearest!r}.",
                parameter="step",
            )
        ratio = self._ratio()
        if dimension >= 4 * ratio**2:
            raise ParameterError(
                f"step * sqrt(dimension) / 2 must be below bound = {bound!r}: rounding alone would "
                f"use up the bound; got step {step!r} and dimension {dimension}. "
                "Pass a smaller step."
            )
        if ratio >= _RADIUS:
            raise ParameterError(
                "bound / step must be below 2**31, so that squared norms fit in 64 bits; got "
                f"bound {bound!r} and step {step!r}. Pass a larger step."
            )

    def encode(self, rows: ArrayLike) -> NDArray[np.int64]:
        """Return rows (n, d) as integer multiples of the step, each of norm at most ``bound``.

        A row is clipped to norm bound - step sqrt(d) / 2, then rounded to nearest: so rows inside
        that ball move by at most step / 2 in each coordinate. The result is checked in integers
        and shrunk where float rounding took it outside. Rows with NaN or infinity become zero.
        """
        values = self._rows(rows)
        encoded = np.empty(values.shape, dtype=np.int64)
        block = max(1, _BLOCK // self.dimension)
        for start in range(0, values.shape[0], block):
            part = slice(start, start + block)
            encoded[part] = self._shrink(self._round(values[part]))
        return encoded

    def radius_squared(self) -> int:
        """Return floor((bound / step)**2), the largest squared norm of an encoded row."""
        return math.floor(self._ratio() ** 2)

    def _ratio(self) -> Fraction:
        """Return bound / step exactly."""
        return Fraction(self.bound) / Fraction(self.step)

    def _rows(self, rows: ArrayLike) -> NDArray[Any]:
        """Return rows as a real matrix of the right width."""
        try:
            matrix = np.asarray(rows)
        except ValueError:  # ragged lists
            matrix = np.empty(0, dtype=object)
        if matrix.dtype.kind not in "biuf" or matrix.shape[1:] != (self.dimension,):
            raise ParameterError(
                f"rows must be real numbers of shape (n, {self.dimension}), got {_kind(matrix)}.",
                parameter="rows",
            )
        return matrix

    def _round(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Clip rows and round them to grid points; here float rounding may exceed the bound."""
        with np.errstate(all="ignore"):
            values = rows.astype(np.float64)
            values[~np.isfinite(values).all(axis=1)] = 0.0
            peak = np.abs(values).max(axis=1)  # scaling by it keeps the squares in range
            unit = values / np.where(peak > 0.0, peak, 1.0)[:, None]
            norm = np.maximum(np.sqrt(np.einsum("ij,ij->i", unit, unit)), 1.0)
            target = max(0.0, self.bound - self.step * math.sqrt(self.dimension) / 2)
            outside = peak * norm > target
            values[outside] = unit[outside] * (target / norm[outside])[:, None]
            return np.rint(values / self.step).astype(np.int64)

    def _shrink(self, integers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move rows outside the bound towards zero, until none is left: all in integers.

        Squared norms cannot overflow: rounding adds at most sqrt(d) / 2 to a norm of at most
        (bound / step - sqrt(d) / 2) (1 + d 2**-52), and bound / step < 2**31.
        """
        limit = self.radius_squared()
        outside = np.flatnonzero(np.einsum("ij,ij->i", integers, integers) > limit)
        while outside.size:
            part = integers[outside]
            part -= np.sign(part)
            integers[outside] = part
            outside = outside[np.einsum("ij,ij->i", part, part) > limit]
        return integers


def _kind(value: Any) -> str:
    """Return the type of a value and, of an array, dtype and shape: never its entries."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return type(value).__name__
