"""Histograms over public power-of-two bins: how long rows are, where labels and columns lie.

The bins are fixed before any row is read. A row that is present adds a 1 to one bin (of each
column), a null row nothing, whatever it contains.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ParameterError
from ..geometry.norms import L2, Norm
from ..kernels.rows import SparseRows
from .block import Block, Floats
from .bounds import Bounds, describe_norm
from .queries import Query
from .units import Units

if TYPE_CHECKING:
    from .source import Source

LOWEST, HIGHEST = -40, 40
"""Exponents of the smallest and the largest edge: 9e-13 and 1e12."""

_LEVELS = HIGHEST - LOWEST + 1
_TOP = 2.0**HIGHEST
# Rows that were normalised have lengths of a power of two up to rounding, in float32 up to 1e-7:
# they belong below the edge, and a bound that cuts a millionth off a row does no harm.
_WITHIN = 1.0 - 2.0**-20
_FAINT = 2.0**-80  # an intercept too small to count in a row's length


class _Histogram(Query):
    """What the histograms share: a row adds 1 to one bin."""

    @property
    def bound(self) -> float:
        """A row adds a single 1."""
        return 1.0

    @property
    def diameter(self) -> float:
        """Two rows differ in two bins at most, by 1 in each: sqrt(2), rounded up."""
        return math.sqrt(2.0)

    @property
    def trusted(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def places(self, block: Block) -> NDArray[np.int64]:
        """Return the bin of each row, null rows included."""
        raise NotImplementedError

    def sum(self, block: Block) -> Floats:
        """Return how many present rows of a leaf fall into each bin."""
        places = self.places(block)[block.present]
        return np.bincount(places, minlength=self.size).astype(np.float64)


@dataclass(frozen=True)
class NormHistogram(_Histogram):
    """How many rows have features of which length, in ``norm``.

    Bin k counts lengths above ``edges[k - 1]`` and up to ``edges[k]``; the first one all lengths up
    to its edge, 0 included, the last one all above the edge before.

    >>> from dpsco.data import from_arrays
    >>> query = NormHistogram()
    >>> rows = from_arrays([[3.0, 4.0], [5.0, 0.0], [0.0, 0.1], [float("nan"), 1.0]])
    >>> counts = rows.bounded(query.bounds(Bounds(1.0))).sum(query)
    >>> {float(query.edges[k]): int(counts[k]) for k in np.flatnonzero(counts)}
    {0.125: 1, 8.0: 2}
    """

    norm: Norm = L2

    @property
    def size(self) -> int:
        """The number of bins."""
        return _LEVELS

    @property
    def edges(self) -> Floats:
        """The upper edge of each bin."""
        return np.asarray(np.ldexp(1.0, np.arange(LOWEST, HIGHEST + 1)))

    @property
    def enforced(self) -> tuple[str, ...]:
        """What one row adds."""
        norm = describe_norm(self.norm)
        return (f"a row adds 1 to one bin of a public histogram of the rows' {norm} norms",)

    def bounds(self, bounds: Bounds) -> Bounds:
        """Return bounds that keep every length the bins tell apart; labels are read as before."""
        faint = None if bounds.intercept is None else _FAINT
        return dataclasses.replace(bounds, feature_norm=_TOP, intercept=faint)

    def places(self, block: Block) -> NDArray[np.int64]:
        """Return the bin of each row's length."""
        return _levels(block.norms * _WITHIN)

    def check(self, source: Source) -> None:
        """Refuse rows that were measured in another norm, or clipped to less than the bins."""
        bounds = source.bounds
        if bounds != self.bounds(bounds) or bounds.norm != self.norm:
            raise ParameterError(
                "NormHistogram needs rows within NormHistogram(norm).bounds(bounds), got rows "
                f"within {bounds}."
            )


@dataclass(frozen=True)
class LabelHistogram(_Histogram):
    """How many labels lie where: bins up to powers of two on both sides of one around 0.

    Signed bins tell prices from temperatures: a range of one sign is half as wide as the symmetric
    one, and labels within one octave, far from 0, are told to a quarter of it.

    >>> edges = LabelHistogram().edges
    >>> edges[79:83].tolist() == [-(2.0**-39), -(2.0**-40), 2.0**-40, 2.0**-39]
    True
    """

    @property
    def size(self) -> int:
        """The number of bins."""
        return 2 * _LEVELS - 1

    @property
    def edges(self) -> Floats:
        """The edges of the bins, one more than there are bins; bin k is from edge k to k + 1."""
        upper = np.ldexp(1.0, np.arange(LOWEST, HIGHEST + 1))
        return np.concatenate([-upper[::-1], upper])

    @property
    def enforced(self) -> tuple[str, ...]:
        """What one row adds."""
        return ("a row adds 1 to one bin of a public histogram of the labels",)

    def bounds(self, bounds: Bounds) -> Bounds:
        """Return bounds that keep every label the bins tell apart; features are read as before."""
        return dataclasses.replace(bounds, label=_TOP)

    def places(self, block: Block) -> NDArray[np.int64]:
        """Return the bin of each label."""
        return signed_levels(block.labels)

    def check(self, source: Source) -> None:
        """Refuse labels that are no numbers, or were clipped to less than the bins."""
        if source.bounds != self.bounds(source.bounds):
            raise ParameterError(
                "LabelHistogram needs labels within LabelHistogram().bounds(bounds), got "
                f"{source.bounds}."
            )


@dataclass(frozen=True)
class ColumnHistogram(Query):
    """Where the entries of each column lie: the bins of `LabelHistogram`, once for each column.

    A row that is present adds 1 to one bin of each column, so its contribution has length sqrt(d),
    and two rows differ by sqrt(2 d) at most. Zeros of sparse rows are not stored, and not counted.

    Args:
        d: features of a row.

    >>> from dpsco.data import from_arrays
    >>> query = ColumnHistogram(2)
    >>> rows = from_arrays([[3.0, 0.0], [1e300, -0.75], [float("nan"), 1.0]])
    >>> counts = query.by_column(rows.bounded(query.bounds(Bounds(1.0))).sum(query))
    >>> [np.flatnonzero(column).tolist() for column in counts]
    [[122, 160], [40, 80]]
    """

    d: int

    @property
    def size(self) -> int:
        """The bins of all columns."""
        return self.d * self.bins

    @property
    def bins(self) -> int:
        """The bins of one column."""
        return 2 * _LEVELS - 1

    @property
    def bound(self) -> float:
        """A single 1 in each column, rounded up."""
        return math.nextafter(math.sqrt(self.d), math.inf)

    @property
    def diameter(self) -> float:
        """Two rows differ in two bins of each column at most; rounded up."""
        return math.nextafter(math.sqrt(2.0 * self.d), math.inf)

    @property
    def enforced(self) -> tuple[str, ...]:
        """What one row adds."""
        return ("a row adds 1 to one bin of a public histogram of each column",)

    @property
    def trusted(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def by_column(self, counts: Floats) -> Floats:
        """Return the counts with one row for each column."""
        return counts.reshape(self.d, self.bins)

    def bounds(self, bounds: Bounds) -> Bounds:
        """Return bounds that keep every entry the bins tell apart, however large another one is."""
        units = Units(np.ones(1), cut=_TOP)  # entries are cut one by one, so rows are not rescaled
        most = 2.0 * _TOP * math.sqrt(self.d)
        return dataclasses.replace(bounds, feature_norm=most, intercept=None, units=units)

    def sum(self, block: Block) -> Floats:
        """Return how many entries of present rows fall into each bin of their column."""
        rows = block.rows
        if isinstance(rows, SparseRows):
            begin, end = int(rows.offsets[0]), int(rows.offsets[-1])
            values, columns = rows.values[begin:end], rows.columns[begin:end].astype(np.int64)
        else:
            values = rows[block.present].ravel()
            columns = np.tile(np.arange(self.d), int(np.count_nonzero(block.present)))
        places = signed_levels(values) + columns * self.bins
        return np.bincount(places, minlength=self.size).astype(np.float64)

    def check(self, source: Source) -> None:
        """Refuse rows of another width, or clipped to less than the bins."""
        if source.d != self.d or source.bounds != self.bounds(source.bounds):
            raise ParameterError(
                "ColumnHistogram needs rows within ColumnHistogram(d).bounds(bounds), got "
                f"{source.d} columns within {source.bounds}."
            )


def signed_levels(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the bin of each number: those below 0 first, then one around 0, then those above."""
    levels = _levels(np.abs(values))
    return np.where(values < 0.0, -levels, levels) + (_LEVELS - 1)


def _levels(sizes: Floats) -> NDArray[np.int64]:
    """Return the place of each size >= 0 among the edges: the first that it does not exceed."""
    mantissas, exponents = np.frexp(sizes)
    ceilings = exponents.astype(np.int64) - (mantissas == 0.5)
    ceilings[sizes == 0.0] = LOWEST
    return np.asarray(np.clip(ceilings, LOWEST, HIGHEST) - LOWEST)
