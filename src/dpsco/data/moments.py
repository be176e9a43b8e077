"""Sums of rows and of their squares: where rows lie, and how long they are.

Each row adds a vector and, beside it, squares times a public weight a. Two facts bound how far
apart the contributions of two rows can be, in units of the rows' bound:

Lengths   The vectors (x, a |x|^2) and (y, a |y|^2) of rows with |x|, |y| <= 1 are at most 2 apart
          if a^2 <= (11 + 5 sqrt 5)/8 = 2.77. Let r >= s be the two lengths. The squared distance is
          at most (r + s)^2 (1 + a^2 (r - s)^2), which grows with r, so r = 1. With e = 1 - s it is
          (2 - e)^2 (1 + a^2 e^2), at most 4 iff a^2 <= (4 - e)/(e (2 - e)^2); the right side is
          least at e = 3 - sqrt 5, where it has the value above. The same holds for one number
          within [-1, 1] and its square, where e is the size of the numbers' sum.
Squares   The vectors (x, a x*x) and (y, a y*y), squares taken entry by entry, are at most 2 apart
          if a <= 1/2. With u = x - y and v = x + y the squared distance is the sum of
          u_j^2 (1 + a^2 v_j^2), at most T (1 + a^2 (4 - T)) for T = |u|^2, since
          |u|^2 + |v|^2 = 2 |x|^2 + 2 |y|^2 <= 4. That grows with T up to T = 4 if a <= 1/2.

So under replace_one such squares come for nothing beside the sum of the rows. A row beside an empty
one is sqrt(1 + a^2) away from it, less than 2.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .. import _validate
from ..errors import ParameterError
from ..geometry.norms import L2
from ..kernels.rows import SparseRows
from .block import Block, Floats
from .bounds import Bounds
from .queries import Query
from .row_norms import reduce_segments
from .units import Units

if TYPE_CHECKING:
    from .source import Source

MOST_LENGTH_WEIGHT = 1.6
"""The largest weight of squared lengths, and of squared numbers: 1.6^2 < 2.77."""

MOST_SQUARES_WEIGHT = 0.5
"""The largest weight of squares entry by entry."""


@dataclass(frozen=True)
class RowMoments(Query):
    """The sum of rows x, and of a |x|^2 or of a x*x, for rows of length 1 at most.

    Rows are divided by ``feature_norm``, which bounds them.

    Args:
        d: features of a row.
        feature_norm: the bound of the source's rows.
        weight: a, at most 1.6; at most 0.5 by column.
        columns: whether the squares of each column are summed, not those of the whole row.

    >>> from dpsco.data import Bounds, from_arrays
    >>> rows = from_arrays([[3.0, 0.0], [0.0, -2.0], [float("nan"), 1.0]]).bounded(Bounds(4.0))
    >>> rows.sum(RowMoments(2, 4.0, 1.0)).tolist()
    [0.75, -0.5, 0.8125]
    >>> rows.sum(RowMoments(2, 4.0, 0.5, columns=True)).tolist()
    [0.75, -0.5, 0.28125, 0.125]
    """

    d: int
    feature_norm: float
    weight: float
    columns: bool = False

    def __post_init__(self) -> None:
        most = MOST_SQUARES_WEIGHT if self.columns else MOST_LENGTH_WEIGHT
        if not 0.0 < _validate.positive("weight", self.weight) <= most:
            raise ParameterError(f"weight must be at most {most:g}, got {self.weight!r}.")

    @property
    def size(self) -> int:
        """The row, and its squares."""
        return 2 * self.d if self.columns else self.d + 1

    @property
    def bound(self) -> float:
        """The length of (1, a), rounded up."""
        return math.hypot(1.0, self.weight) * rounding(self.d)

    @property
    def diameter(self) -> float:
        """How far apart two rows' contributions can be; see the head of this module."""
        return 2.0 * rounding(self.d)

    @property
    def enforced(self) -> tuple[str, ...]:
        """What one row adds."""
        what = "the squares of its entries" if self.columns else "its squared length"
        return (
            f"a row, shortened to {self.feature_norm:g}, adds itself and {self.weight:g} times "
            f"{what} to a sum, in units of that length",
        )

    @property
    def trusted(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def sum(self, block: Block) -> Floats:
        """Return the sums over a leaf; a null row has only zeros."""
        rows = block.rows
        if isinstance(rows, SparseRows):
            raise ParameterError("sparse rows are not centred: use SquaredLengths.")
        features = rows[:, : self.d]
        total = features.sum(axis=0, dtype=np.float64)
        if self.columns:
            squares = np.square(features, dtype=np.float64).sum(axis=0)
            return np.concatenate([total, squares])
        lengths = np.einsum("ij,ij->i", features, features, dtype=np.float64)
        return np.append(total, np.minimum(lengths, self.feature_norm**2).sum())

    def finish(self, total: Floats) -> Floats:
        """Return the sums in units of the bound."""
        result = total / self.feature_norm
        result[self.d :] *= self.weight / self.feature_norm
        return result

    def check(self, source: Source) -> None:
        """Refuse rows of another width, or of another bound."""
        _check(self, source, self.d, self.feature_norm)


@dataclass(frozen=True)
class SquaredLengths(Query):
    """The sum of |x|^2 for rows of length 1 at most, after division by ``feature_norm``.

    One row adds a number between 0 and 1, so two rows are at most 1 apart.

    >>> from dpsco.data import Bounds, from_arrays
    >>> rows = from_arrays([[3.0, 0.0], [0.0, -2.0], [float("nan"), 1.0]]).bounded(Bounds(4.0))
    >>> rows.sum(SquaredLengths(2, 4.0)).tolist()
    [0.8125]
    """

    d: int
    feature_norm: float

    @property
    def size(self) -> int:
        """One number."""
        return 1

    @property
    def bound(self) -> float:
        """1, rounded up."""
        return rounding(self.d)

    @property
    def diameter(self) -> float:
        """Numbers between 0 and 1 are no farther apart."""
        return self.bound

    @property
    def enforced(self) -> tuple[str, ...]:
        """What one row adds."""
        return (
            f"a row, shortened to {self.feature_norm:g}, adds its squared length to a sum, in "
            "units of that length",
        )

    @property
    def trusted(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def sum(self, block: Block) -> Floats:
        """Return the sum over a leaf."""
        rows = block.rows
        if isinstance(rows, SparseRows):
            begin, end = int(rows.offsets[0]), int(rows.offsets[-1])
            squares = np.square(rows.values[begin:end], dtype=np.float64)
            lengths = reduce_segments(np.add, squares, rows.offsets - begin)
        else:
            features = rows[:, : self.d]
            lengths = np.einsum("ij,ij->i", features, features, dtype=np.float64)
        return np.array([np.minimum(lengths, self.feature_norm**2).sum()])

    def finish(self, total: Floats) -> Floats:
        """Return the sum in units of the bound."""
        return total / self.feature_norm**2

    def check(self, source: Source) -> None:
        """Refuse rows of another width, or of another bound."""
        _check(self, source, self.d, self.feature_norm)


@dataclass(frozen=True)
class ColumnMoments(Query):
    """The sum of each column t and of a t^2, for entries within [-1, 1].

    By the first fact above two rows are at most 2 apart in each column, so 2 sqrt(d) in all.

    Args:
        d: features of a row.
        weight: a, at most 1.6.

    >>> from dpsco.data import from_arrays
    >>> query = ColumnMoments(2, 1.0)
    >>> rows = from_arrays([[0.5, 9.0], [-1.0, 0.0], [float("nan"), 1.0]])
    >>> rows.bounded(query.bounds(Bounds(1.0), Units(np.ones(1)))).sum(query).tolist()
    [-0.5, 1.0, 1.25, 1.0]
    """

    d: int
    weight: float

    def __post_init__(self) -> None:
        if not 0.0 < _validate.positive("weight", self.weight) <= MOST_LENGTH_WEIGHT:
            raise ParameterError(f"weight must be at most {MOST_LENGTH_WEIGHT}.")

    @property
    def size(self) -> int:
        """Two numbers for each column."""
        return 2 * self.d

    @property
    def bound(self) -> float:
        """The length of (1, a) in each column, rounded up."""
        return math.hypot(1.0, self.weight) * math.sqrt(self.d) * rounding(1)

    @property
    def diameter(self) -> float:
        """2 in each column, rounded up."""
        return 2.0 * math.sqrt(self.d) * rounding(1)

    @property
    def enforced(self) -> tuple[str, ...]:
        """What one row adds."""
        return (
            f"a row adds its entries, clipped to [-1, 1] in units of the columns' ranges, and "
            f"{self.weight:g} times their squares to a sum",
        )

    @property
    def trusted(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def bounds(self, bounds: Bounds, units: Units) -> Bounds:
        """Return bounds that keep entries of at most 1 in the given units."""
        units = Units(units.scale, units.centre, cut=1.0)
        most = 2.0 * math.sqrt(self.d)
        return dataclasses.replace(bounds, feature_norm=most, intercept=None, units=units)

    def sum(self, block: Block) -> Floats:
        """Return the sums over a leaf; a null row has only zeros."""
        if isinstance(block.rows, SparseRows):
            raise ParameterError("sparse rows are not centred: they have no column moments.")
        # The range holds here, whatever units were applied before.
        entries = np.clip(block.rows[:, : self.d], -1.0, 1.0)
        squares = np.square(entries, dtype=np.float64)
        return np.concatenate([entries.sum(axis=0, dtype=np.float64), squares.sum(axis=0)])

    def finish(self, total: Floats) -> Floats:
        """Return the sums with the squares weighted."""
        return np.asarray(total * np.repeat([1.0, self.weight], self.d))

    def check(self, source: Source) -> None:
        """Refuse rows of another width."""
        if (source.d, source.bounds.intercept) != (self.d, None):
            raise ParameterError(
                f"ColumnMoments is for rows of {self.d} features without an intercept, got "
                f"{source.d} columns within {source.bounds}."
            )


def rounding(d: int) -> float:
    """Return by what a bound grows since squares of ``d`` numbers are rounded as they are added."""
    return 1.0 + 2.0**-40 + d * 2.0**-50


def _check(query: Query, source: Source, d: int, feature_norm: float) -> None:
    """Refuse rows that are not those of a query."""
    bounds = source.bounds
    facts = (source.d, bounds.feature_norm, bounds.intercept, bounds.norm)
    if facts != (d, feature_norm, None, L2):
        raise ParameterError(
            f"{type(query).__name__} is for rows of {d} features within {feature_norm:g} in the l2 "
            f"norm and without an intercept, got {source.d} columns within {bounds}."
        )
