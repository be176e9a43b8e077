"""The same rows in another unit: clipped to their bounds, then divided by a power of two.

Such a division rounds nothing, so rows that obeyed a bound obey the divided one exactly.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ParameterError
from ..kernels.rows import Rows, SparseRows
from .block import Block, Indices
from .bounds import Bounds
from .row_norms import FLOOR
from .source import MemorySource, Source


def in_units(bounds: Bounds, unit: float) -> Bounds:
    """Return the bounds of rows that obey ``bounds`` once they are divided by ``unit``.

    >>> in_units(Bounds(1.0, intercept=0.5), 8.0)
    Bounds(feature_norm=8.0, label=None, norm=Lp(p=2.0), intercept=4.0)
    """
    intercept = None if bounds.intercept is None else bounds.intercept * unit
    return dataclasses.replace(bounds, feature_norm=bounds.feature_norm * unit, intercept=intercept)


def divided(source: Source, bounds: Bounds, unit: float) -> Source:
    """Return the rows of ``source``, intercept included, divided by ``unit``; labels stay.

    Args:
        source: rows within ``in_units(bounds, unit)``, labels within the bounds' own.
        bounds: of the divided rows.
        unit: a power of two.

    Raises:
        ParameterError: the unit is no power of two, or the source's rows have other bounds.
    """
    if not (math.isfinite(unit) and unit > 0.0 and math.frexp(unit)[0] == 0.5):
        raise ParameterError(f"unit must be a power of two, got {unit!r}.", parameter="unit")
    wanted = dataclasses.replace(in_units(bounds, unit), label=source.bounds.label)
    if source.bounds != wanted or not source.bounds.label_bound <= bounds.label_bound:
        raise ParameterError(
            f"rows within {bounds} after division by {unit:g} must be within {wanted} before, got "
            f"{source.bounds}."
        )
    if isinstance(source, MemorySource):  # divided once, not at each pass
        return MemorySource(_divided(source.rows(), bounds, unit), bounds)
    return DividedSource(source, bounds, unit)


class DividedSource(Source):
    """Rows that are divided as they are read."""

    def __init__(self, source: Source, bounds: Bounds, unit: float) -> None:
        super().__init__(source.n, source.d, bounds)
        self._source, self._unit = source, unit

    def _blocks(self, start: int, stop: int) -> Iterator[Block]:
        for block in self._source.blocks(start, stop):
            yield _divided(block, self._bounds, self._unit)

    def _take(self, indices: Indices) -> Block:
        return _divided(self._source.take(indices), self._bounds, self._unit)

    def _entries(self) -> int:
        return self._source._entries()


def _divided(block: Block, bounds: Bounds, unit: float) -> Block:
    """Return a block in another unit."""
    labels = np.where(block.present, block.labels, bounds.default_label)
    norms = np.where(block.present, np.maximum(block.norms / unit, FLOOR), FLOOR)
    return Block(_divided_rows(block.rows, unit), labels, norms, block.present, block.norm)


def _divided_rows(rows: Rows, unit: float) -> Rows:
    """Return dense or sparse rows divided; what would be subnormal, and so rounded, becomes 0."""
    if isinstance(rows, SparseRows):
        values = np.asarray(_divided_rows(rows.values, unit))
        return SparseRows(values, rows.columns, rows.offsets, rows.width)
    result: NDArray[Any] = np.multiply(rows, rows.dtype.type(1.0 / unit))
    if unit > 1.0:
        tiny = np.finfo(result.dtype).tiny
        result[np.abs(result) < tiny] = 0.0
    return result
