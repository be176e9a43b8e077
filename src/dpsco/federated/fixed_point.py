"""Contributions as integers, and sums modulo a power of two: what secure aggregation can add.

A contribution is clipped and rounded to integer multiples of ``step`` before it leaves its worker,
so that its norm is at most clip / step as a statement about integers: a `Grid` enforces that in
exact arithmetic. Any function of one row and of earlier releases is allowed before that, with
whatever rounding, since the bound is enforced on its result. NaN and infinite rows become zero.

Integers are added modulo 2^bits, in any order and behind any masks that cancel, and the sum comes
out exactly as long as it lies within a quarter of the modulus: that of B contributions does if
2^(bits - 2) > B clip / step + 1. So two neighbouring sums differ by no more than their sensitivity,
without any allowance for rounding.

A larger sum (rows that nobody planned for, a worker that does not clip) costs accuracy and never
privacy. If it came back with its sign, a step across half the modulus would turn the largest number
into the smallest, and one row could decide which. So `FixedPoint.decode` folds: beyond a quarter
of the modulus numbers come back down, as a triangle wave does. Residues that are k apart on the
circle then differ by at most k, whatever else is in the sum, and the noise that is added afterwards
covers them. That is what the quarter is for: half of the modulus would be enough to be exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _validate
from ..errors import ParameterError
from ..privacy.lattice import lattice_step
from ..privacy.mechanisms import PrefixSumRelease
from ..solvers.engine import EnginePlan
from .protection import check_public_clip, rounds_of

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

MOST_BITS = 53
"""Sums of so many bits are exact as float64."""
_FINE = 20  # bits of a contribution that `choose` keeps
_ROOT = 2.0**10  # beyond so many weights' root a finer grid keeps the rounding of a row small
_RADIUS = 2**31  # bound / step stays below, so that squared norms fit in int64
_BLOCK = 1 << 14  # entries encoded at a time: arrays that stay in the cache
_LARGEST_STEP = 2.0**960  # an int64 times the step is then a finite float
_REACH = 12.0  # standard deviations of a helper's noise that must fit


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
                f"rows must be real numbers of shape (n, {self.dimension}), got {matrix.dtype} of "
                f"shape {matrix.shape}.",
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


@dataclass(frozen=True)
class FixedPoint:
    """Integers modulo ``2**bits`` that count multiples of ``step``.

    Args:
        step: a power of two, in the units of a gradient.
        bits: of the modulus, from 2 to 53.

    Raises:
        ParameterError: the step is no power of two, or the bits are out of range.

    >>> encoding = FixedPoint(2.0**-20, bits=35)
    >>> total = encoding.wrap(np.array([[3, -5], [-4, 1]]))
    >>> total.tolist(), encoding.decode(total).tolist() == [-(2.0**-20), -4 * 2.0**-20]
    ([34359738367, 34359738364], True)
    """

    step: float
    bits: int

    def __post_init__(self) -> None:
        step = _validate.positive("step", self.step, hint="Use FixedPoint.choose(plan).")
        bits = _validate.integer("bits", self.bits, at_least=2)
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "bits", bits)
        if math.frexp(step)[0] != 0.5:
            raise ParameterError(f"step must be a power of two, got {step!r}.", parameter="step")
        if bits > MOST_BITS:
            raise ParameterError(
                f"bits must be at most {MOST_BITS}, so that sums are exact as float64; got {bits}. "
                "Pass a larger step.",
                parameter="bits",
            )

    @classmethod
    def choose(cls, plan: EnginePlan, *, step: float | None = None, helpers: int = 0) -> FixedPoint:
        """Return an encoding for a plan, from public facts.

        Args:
            plan: of the run.
            step: by default about 2^-20 of the clip, less beyond a million weights.
            helpers: how many noise helpers add their noise to each sum.

        Raises:
            ParameterError: no modulus of 53 bits holds the sums, or this is no plan of such sums.
        """
        rounds = rounds_of(plan)
        if step is None:
            clip = max(release.bound for release in rounds.releases)
            fine = clip / max(1.0, math.sqrt(plan.task.n_weights) / _ROOT)
            step = math.ldexp(1.0, math.frexp(fine)[1] - 1 - _FINE)
        return cls(step, needed_bits(plan, step, helpers)).check(plan, helpers=helpers)

    def check(self, plan: EnginePlan, *, helpers: int = 0) -> FixedPoint:
        """Return the encoding if every sum of the plan fits; arguments as in `choose`.

        Raises:
            ParameterError: rounding would use up the clip, or a sum would not come out exactly.
        """
        rounds = rounds_of(plan)
        check_public_clip(plan)
        bounds = [release.bound for release in rounds.releases]
        self.grid(min(bounds), plan.task.n_weights)
        finest = lattice_step(max(bounds), plan.task.n_weights)
        if helpers and self.step < finest:
            raise ParameterError(
                f"the helpers' noise is a multiple of {finest!r}, so the sums must be multiples of "
                f"that; got a step of {self.step!r}. Pass FixedPoint.choose(plan, helpers=...)."
            )
        bits = needed_bits(plan, self.step, helpers)
        if self.bits < bits:
            raise ParameterError(
                f"sums of this plan need {bits} bits at a step of {self.step!r}, got "
                f"{self.bits}. Pass FixedPoint.choose(plan, helpers={helpers})."
            )
        return self

    def grid(self, clip: float, size: int) -> Grid:
        """Return the grid that clips and rounds contributions of ``size`` numbers."""
        return Grid(self.step, clip, size)

    def wrap(self, integers: ArrayLike) -> Words:
        """Return the sum over rows of signed integers (rows, size), modulo 2^bits.

        Raises:
            ParameterError: these are no rows of signed integers: floats are rounded by a `grid`.
        """
        rows = np.asarray(integers)
        if rows.ndim != 2 or rows.dtype.kind != "i":
            raise ParameterError(
                f"wrap takes signed integers of shape (rows, size), got {rows.dtype} of shape "
                f"{rows.shape}. Use encoding.grid(clip, size).encode(rows) for floats."
            )
        words = rows.astype(np.int64).astype(np.uint64)  # modulo 2^64, likewise
        return np.asarray(words.sum(axis=0, dtype=np.uint64) & self._mask)

    def add(self, vectors: Iterable[Words], size: int) -> Words:
        """Return the sum of vectors modulo 2^bits; zeros if there are none.

        Raises:
            ParameterError: a vector does not consist of ``size`` uint64 numbers.
        """
        total = np.zeros(_validate.integer("size", size), dtype=np.uint64)
        words: Any = vectors
        if not isinstance(words, Iterable):
            raise ParameterError(f"add takes a list of vectors, got {type(words).__name__}.")
        for vector in words:
            total += _words(vector, len(total))
        return np.asarray(total & self._mask)

    def noise(self, noise: Floats) -> Words:
        """Return real noise rounded to the grid, modulo 2^bits.

        Rounding down commutes with adding an integer, so an integer sum plus this is the sum plus
        the noise, rounded: post-processing. (Noise that was rounded to a finer lattice before is
        as good, since the sums lie on that one, too.) Rounding to nearest does not commute where
        it rounds halves to even numbers; adding a half first keeps the mean.
        """
        return self.wrap(np.floor(noise / self.step + 0.5).astype(np.int64)[None])

    def decode(self, total: Words) -> Floats:
        """Return a sum as floats: signed, folded at a quarter of the modulus, times the step.

        All of it is exact, and sums that differ by k modulo 2^bits come out at most k steps apart.

        Raises:
            ParameterError: the sum is no vector of uint64 numbers.
        """
        half, quarter = 1 << (self.bits - 1), 1 << (self.bits - 2)
        signed: NDArray[np.int64] = (_words(total) & self._mask).astype(np.int64)
        signed[signed >= half] -= 2 * half
        beyond = np.abs(signed) > quarter
        signed[beyond] = np.sign(signed[beyond]) * half - signed[beyond]
        return signed.astype(np.float64) * self.step

    def holds(self, vector: Words) -> bool:
        """Return whether all numbers are below 2^bits."""
        return bool((_words(vector) <= self._mask).all())

    @property
    def _mask(self) -> Any:
        return np.uint64((1 << self.bits) - 1)


def _words(vector: Any, size: int | None = None) -> Words:
    """Return a vector of uint64 numbers, of some length; refuse anything else."""
    if isinstance(vector, np.ndarray) and vector.dtype == np.uint64 and vector.ndim == 1:
        if size is None or len(vector) == size:
            return vector
        raise ParameterError(f"vectors of {size} numbers were expected, got one of {len(vector)}.")
    kind = f"{vector.dtype} numbers" if isinstance(vector, np.ndarray) else type(vector).__name__
    raise ParameterError(
        f"a vector of uint64 numbers was expected, got {kind}. Pass answer.vector of an Answer."
    )


def needed_bits(plan: EnginePlan, step: float, helpers: int = 0) -> int:
    """Return the least b with 2^(b-2) > B clip/step + 1, B the most rows of a round.

    Noise helpers need room for 12 standard deviations of each one's noise besides.
    """
    count, rounds = _validate.integer("helpers", helpers, at_least=0), rounds_of(plan)
    largest = Fraction(0)
    for release in rounds.releases:
        rows = release.row_count
        if isinstance(release, PrefixSumRelease):
            rows = -(-rows // release.mechanism.rounds)
        total = rows * Fraction(release.bound)
        if count:
            total += count * Fraction(_REACH * _noise_std(release))
        largest = max(largest, total)
    return math.floor(largest / Fraction(_validate.positive("step", step)) + 1).bit_length() + 2


def _noise_std(release: Any) -> float:
    """Return a bound on the standard deviation of a round's noise: of the sum, or of its change."""
    if not isinstance(release, PrefixSumRelease):
        return float(release.sigma)
    return 2.0 * release.sigma * float(release.mechanism.prefix_std().max())
