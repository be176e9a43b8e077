"""How many rows count, and how many of their entries were read.

A row that is present adds 1 to the first number, and to the second the part of its entries that
hold something; a null row adds nothing to either. So whatever two rows contain, what they add
differs by at most 1 in each number: the `diameter` of the query, which bounds a replaced row as
well as one that is left out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..errors import ParameterError
from ..kernels.rows import SparseRows
from .block import Block, Floats
from .queries import Query

if TYPE_CHECKING:
    from .schema.encoder import TableEncoder
    from .source import Source

FAINTEST = 0.125
"""Noise above this part of the rows tells a full table from an empty one too seldom: with this
much, one of either in 30,000 is on the wrong side of `FEW`."""

FEW = 0.5
"""A count below this part of the rows is a warning; so is a part of the entries."""


@dataclass(frozen=True)
class RowCount:
    """A released count of rows, noise included: about so many of ``rows`` were there."""

    count: float  # as released: it may lie below 0 or above the number of rows
    sigma: float  # standard deviation of its noise, and of that on the entries' sum
    rows: int  # in all, which is public
    entries: float | None = None  # sum over the rows of the part of their entries that were read

    def __post_init__(self) -> None:
        for name in ("count", "entries"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _validate.real(name, value))
        object.__setattr__(self, "sigma", _validate.positive("sigma", self.sigma))
        object.__setattr__(self, "rows", _validate.integer("rows", self.rows))

    @property
    def nearest(self) -> int:
        """The possible number of rows that is nearest to the count."""
        return round(min(max(self.count, 0.0), float(self.rows)))

    @property
    def filled(self) -> float | None:
        """The part of all entries of the table that was read, from 0 to 1; None if not counted."""
        if self.entries is None:
            return None
        return min(max(self.entries / self.rows, 0.0), 1.0)

    @property
    def warning(self) -> str:
        """What is wrong if most rows, or most entries, were of no use; empty if all is well."""
        if self.count < FEW * self.rows:
            return (
                f"only about {self.nearest:,} of {self.rows:,} rows counted (+- {self._margin:,}), "
                f"and the model has learnt from those alone. The others had {self._lacking}. Are "
                "they written as declared?"
            )
        if self.filled is not None and self.filled < FEW:
            return (
                f"only about {self.filled:.0%} of the entries were read as declared (+- "
                f"{self._spread:.0%}); the others are missing, written otherwise or not among the "
                "declared values. Do numbers have a decimal comma?"
            )
        return ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, record: Any) -> RowCount:
        """Rebuild a count.

        Raises:
            ParameterError: it is none.
        """
        names = {item.name for item in dataclasses.fields(cls)}
        if not isinstance(record, Mapping) or set(record) != names:
            raise ParameterError(f"a count of rows has the fields {', '.join(sorted(names))}.")
        return cls(**record)

    @property
    def _lacking(self) -> str:
        """What a row that did not count lacked; of an encoded one only the label can be missing."""
        return "no usable label" + (", or an entry that is no number" * (self.entries is None))

    @property
    def _spread(self) -> float:
        """Twice the standard deviation of the noise on the part of entries."""
        return 2.0 * self.sigma / self.rows

    @property
    def _margin(self) -> int:
        """Twice the standard deviation of the noise, in rows."""
        return math.ceil(2.0 * self.sigma)

    def __str__(self) -> str:
        text = f"about {self.nearest:,} of {self.rows:,} rows counted (+- {self._margin:,})"
        if self.filled is None or self.count < FEW * self.rows:  # entries of no row say nothing
            return text
        share = f"{self.filled:.0%} (+- {self._spread:.0%})"
        return f"{text}, and about {share} of all entries were read as declared"


@dataclass(frozen=True)
class PresentRows(Query):
    """The number of rows that are present; with ``slots``, also the sum of their filled parts.

    An encoded row has one slot for each column. A slot is filled if a number in it differs from 0,
    other than at ``skipped`` places, which do not tell. So an entry that is missing, could not be
    read or is not among the declared values leaves its slot empty.

    Args:
        slots: columns of the table behind encoded rows; 0 for rows of plain numbers, where one
            unreadable entry makes the whole row null.
        width: numbers of an encoded row, without the intercept.
        skipped: places in a row that do not count.

    >>> from dpsco.data import Bounds, from_arrays
    >>> rows = from_arrays([[1.0, 0.0], [float("nan"), 1.0], [0.5, 0.5]]).bounded(Bounds(1.0))
    >>> rows.sum(PresentRows()), rows.sum(PresentRows(slots=2, width=2))
    (array([2.]), array([2. , 1.5]))
    """

    slots: int = 0
    width: int = 0
    skipped: tuple[int, ...] = ()

    @classmethod
    def encoded(cls, encoder: TableEncoder) -> PresentRows:
        """Return the query for rows of an encoder; of the rows alone if no column shows more."""
        slots, hidden = encoder.readable
        return cls(slots, encoder.width, hidden) if slots else cls()

    @property
    def size(self) -> int:
        """One number, or two."""
        return 2 if self.slots else 1

    @property
    def bound(self) -> float:
        """The norm of numbers between 0 and 1."""
        return self.diameter

    @property
    def diameter(self) -> float:
        """How far apart two rows' contributions can be: as far as one of them and nothing."""
        return math.nextafter(math.sqrt(2.0), 2.0) if self.slots else 1.0

    @property
    def enforced(self) -> tuple[str, ...]:
        """What one row adds."""
        part = ", and the part of its entries that were read" if self.slots else ""
        return (f"a row that is present adds 1 to a count{part}; any other row nothing",)

    @property
    def trusted(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def sum(self, block: Block) -> Floats:
        """Return the counts of a leaf: whole numbers, so that no sum of them rounds."""
        count = float(np.count_nonzero(block.present))
        if not self.slots:
            return np.array([count])
        filled = np.minimum(self._filled(block), self.slots)[block.present]
        return np.array([count, float(filled.sum())])

    def finish(self, total: Floats) -> Floats:
        """Return the sums with filled slots as parts of a row."""
        return total / [1.0, self.slots] if self.slots else total

    def check(self, source: Source) -> None:
        """Refuse rows of another width."""
        if self.slots and source.d != self.width + (source.bounds.intercept is not None):
            raise ParameterError(
                f"PresentRows is for rows of {self.width} numbers, the source's rows have "
                f"{source.d}, the intercept included."
            )

    def _filled(self, block: Block) -> NDArray[np.int64]:
        """Return how many slots of each row hold something."""
        counted = np.zeros(block.d, dtype=np.int64)
        counted[: self.width] = 1
        counted[list(self.skipped)] = 0
        rows = block.rows
        if not isinstance(rows, SparseRows):
            return np.asarray((rows != 0.0) @ counted)
        begin, end = int(rows.offsets[0]), int(rows.offsets[-1])
        here = (rows.values[begin:end] != 0.0) * counted[rows.columns[begin:end]]
        sums = np.concatenate(([0], np.cumsum(here)))
        return np.asarray(np.diff(sums[rows.offsets - begin]))
