"""Histograms over public power-of-two bins: how long rows are, and where labels lie.

The bins are fixed before any row is read. A row that is present adds a 1 to one bin, a null row
nothing, so one row's contribution has norm 1 whatever it contains.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import ParameterError
from ..geometry.norms import L2, Norm
from .block import Block, Floats
from .bounds import Bounds, describe_norm
from .queries import Query

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
        levels = _levels(np.abs(block.labels))
        return np.where(block.labels < 0.0, -levels, levels) + (_LEVELS - 1)

    def check(self, source: Source) -> None:
        """Refuse labels that are no numbers, or were clipped to less than the bins."""
        if source.bounds != self.bounds(source.bounds):
            raise ParameterError(
                "LabelHistogram needs labels within LabelHistogram().bounds(bounds), got "
                f"{source.bounds}."
            )


def _levels(sizes: Floats) -> NDArray[np.int64]:
    """Return the place of each size >= 0 among the edges: the first that it does not exceed."""
    mantissas, exponents = np.frexp(sizes)
    ceilings = exponents.astype(np.int64) - (mantissas == 0.5)
    ceilings[sizes == 0.0] = LOWEST
    return np.asarray(np.clip(ceilings, LOWEST, HIGHEST) - LOWEST)
