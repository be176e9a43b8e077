"""The ``numeric="grid"`` mode: rows on a grid, sums in integers, exact discrete Gaussian noise.

Each row vector is clipped and rounded to integer multiples of a power of two, so that its norm is
at most ``bound`` as a statement about integers, and a batch sum is an exact integer vector. Noise
is the discrete Gaussian on the same grid (`discrete_gaussian`), added in integers; multiplying by
the step comes last and is post-processing.

Privacy fact. For integer vectors a, b with ||a - b||_2 <= s and sigma, all in grid units, the laws
of a + noise and b + noise have Renyi divergence at most order * s^2 / (2 sigma^2) (Canonne, Kamath,
Steinke 2020, arXiv:2004.00010, Thm 4, coordinate by coordinate: divergences of independent
coordinates add). So the release is s^2 / (2 sigma^2)-zCDP, s being ``bound`` (add or remove one
row) or 2 ``bound`` (replace one), divided by the step. It is not claimed to be mu-GDP: account for
it as zCDP, with the sigma that was drawn: ``grid.in_steps(sigma)`` is exact.

What the mode closes:
- clipping that rounds above the bound, and float sums whose rounding error exceeds the sensitivity
  or depends on the order of the rows (Casacuberta et al. 2022, arXiv:2207.10635);
- attacks on the least significant bits of continuous noise (Mironov 2012; Haney et al. 2022,
  arXiv:2207.13793): every integer is a possible output, with exactly the stated probability;
- NaN and infinite rows, which become zero rows.

What it does not close:
- timing and other side channels: sampling is by rejection, and encoding is not constant-time;
- any release that is not a sum of rows with Gaussian noise (selection, output and objective
  perturbation, correlated noise with real coefficients) and anything computed outside the ledger;
- bounds, hyper-parameters, step or dimension that somebody read off the data;
- a poor or repeated random stream; memory or swap that keeps the un-noised sum;
- a row map that looks at other rows. How a row's vector is computed does not matter otherwise: any
  function of one row and of earlier releases is allowed, with whatever rounding, since the bound is
  enforced on its result.
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
from .discrete import MAX_SIGMA, discrete_gaussian

__all__ = ["Grid", "discrete_gaussian"]

_RADIUS = 2**31  # bound / step stays below, so that squared norms fit in int64
_TOTAL = 2**62  # sums stay below, which leaves the noise (below 2**52) room in int64
_FINE = 2.0**10  # `choose` promises steps this much smaller than the scales they must resolve
_FINEST = 2.0**30  # `choose` makes bound / step this large where it can
_BLOCK = 1 << 14  # entries encoded at a time: arrays that stay in the cache
_LARGEST_STEP = 2.0**960  # an int64 times the step is then a finite float


@dataclass(frozen=True)
class Grid:
    """A grid for row vectors: multiples of ``step``, of l2 norm at most ``bound``.

    Refused are steps that are not a power of two (multiplying by them could round), bounds that
    vanish between grid points, and bounds of 2**31 steps or more.

    >>> grid = Grid.choose(bound=1.0, sigma=20.0, dimension=3)
    >>> rows = grid.encode(np.array([[3.0, 4.0, 0.0], [0.5, 0.25, np.nan], [0.5, 0.25, 0.0]]))
    >>> grid.decode(grid.sum(rows)).round(6).tolist()
    [1.1, 1.05, 0.0]
    """

    step: float  # grid spacing in the units of the rows, a power of two
    bound: float  # l2 norm of one row
    dimension: int

    def __post_init__(self) -> None:
        step = _validate.positive("step", self.step, hint="Use Grid.choose(...).")
        bound = _validate.positive("bound", self.bound)
        dimension = _validate.integer("dimension", self.dimension)
        for name, value in (("step", step), ("bound", bound), ("dimension", dimension)):
            object.__setattr__(self, name, value)
        if math.frexp(step)[0] != 0.5 or step > _LARGEST_STEP:
            nearest = 2.0 ** min(960, round(math.log2(step)))
            raise ParameterError(
                f"step must be a power of two of at most 2**960, got {step!r}. "
                f"Pass {nearest!r}, or use Grid.choose(bound, sigma, dimension)."
            )
        ratio = self._ratio()
        if dimension >= 4 * ratio**2:
            raise ParameterError(
                f"step * sqrt(dimension) / 2 must be below bound = {bound!r}: rounding alone would "
                f"use up the bound; got step {step!r} and dimension {dimension}. "
                "Pass a smaller step, or use Grid.choose(bound, sigma, dimension)."
            )
        if ratio >= _RADIUS:
            raise ParameterError(
                "bound / step must be below 2**31, so that squared norms fit in 64 bits; got "
                f"bound {bound!r} and step {step!r}. Pass a larger step, or use "
                "Grid.choose(bound, sigma, dimension)."
            )

    @classmethod
    def choose(cls, bound: float, sigma: float, dimension: int) -> Grid:
        """Return the finest grid on which everything stays exact.

        A finer grid costs no privacy and no time; a coarser one rounds more: up to step / 2 for
        each row and coordinate, which adds up over rows while ``sigma`` (the noise on the sum) does
        not grow. So the step is the least power of two with bound / step <= 2**30 (int64 norms, and
        2**32 - 1 rows at least) and sigma / step <= 2**46 (the sampler's range), and it is refused
        unless step <= min(bound / sqrt(dimension), sigma) / 2**10. That is never the case for
        sigma >= 2**-19 bound, sigma sqrt(dimension) <= 2**35 bound and dimension <= 2**38.
        """
        bound = _validate.positive("bound", bound)
        sigma = _validate.positive("sigma", sigma)
        dimension = _validate.integer("dimension", dimension)
        step = _power_of_two_above(max(bound / _FINEST, sigma / MAX_SIGMA))
        if not 0.0 < step * _FINE <= min(bound / math.sqrt(dimension), sigma):
            raise ParameterError(
                "no grid in 64 bits is fine against both bound / sqrt(dimension) and sigma; got "
                f"bound {bound!r}, sigma {sigma!r}, dimension {dimension}. Pass a sigma within "
                "2**-19 to 2**35 / sqrt(dimension) of the bound, or a Grid with a step of your own."
            )
        return cls(step, bound, dimension)

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

    def sum(self, encoded: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the exact sum over rows of what `encode` returned; the order does not matter."""
        if (
            not isinstance(encoded, np.ndarray)
            or encoded.dtype != np.int64
            or encoded.ndim != 2
            or encoded.shape[1] != self.dimension
        ):
            raise ParameterError(
                f"encoded must be an int64 array of shape (n, {self.dimension}), got "
                f"{_kind(encoded)}. Pass what Grid.encode returned."
            )
        if encoded.shape[0] > self.max_rows():
            raise ParameterError(
                f"a sum on this grid holds at most {self.max_rows()} rows, got {encoded.shape[0]}. "
                "Use smaller batches or a larger step."
            )
        total: NDArray[np.int64] = encoded.sum(axis=0, dtype=np.int64)
        return total

    def decode(self, integers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return integers * step as floats.

        Exact up to 2**53 in absolute value. Beyond, the integer is first rounded to the nearest
        float: a function of the released integer alone, hence harmless post-processing.
        """
        if not isinstance(integers, np.ndarray) or integers.dtype != np.int64:
            raise ParameterError(f"integers must be an int64 array, got {_kind(integers)}.")
        return integers.astype(np.float64) * self.step

    def in_steps(self, length: float) -> float:
        """Return a length (a sensitivity, a sigma) in grid units; dividing by the step is exact."""
        length = _validate.positive("length", length)
        units = length / self.step
        if not math.isfinite(units) or Fraction(units) * Fraction(self.step) != Fraction(length):
            raise ParameterError(
                f"length must be an ordinary multiple of the step {self.step!r}, got {length!r}: "
                "the ratio leaves the range of floats. Use Grid.choose(bound, sigma, dimension)."
            )
        return units

    def max_rows(self) -> int:
        """Return how many rows a sum may have, so that it stays below 2**62 in any order."""
        return (_TOTAL - 1) // max(1, math.isqrt(self.radius_squared()))

    def radius_squared(self) -> int:
        """Return floor((bound / step)**2), the largest squared norm of an encoded row."""
        return math.floor(self._ratio() ** 2)

    def _ratio(self) -> Fraction:
        """Return bound / step exactly."""
        return Fraction(self.bound) / Fraction(self.step)

    def _rows(self, rows: ArrayLike) -> NDArray[Any]:
        """Return rows as a real matrix of the right width."""
        try:
            given = np.asarray(rows)
        except ValueError:  # ragged lists
            given = np.empty(0, dtype=object)
        if given.dtype.kind not in "biuf" or given.shape[1:] != (self.dimension,):
            raise ParameterError(
                f"rows must be real numbers of shape (n, {self.dimension}), got {_kind(given)}."
            )
        return given

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


def _power_of_two_above(value: float) -> float:
    """Return the least power of two that is at least ``value``."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(1.0, exponent - 1 if mantissa == 0.5 else exponent)


def _kind(value: Any) -> str:
    """Return the type of a value and, of an array, dtype and shape: never its entries."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return type(value).__name__
