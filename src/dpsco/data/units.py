"""The units in which rows and labels are measured, where they are found at run time.

A fit is planned for rows of length 1. `Units` says how raw rows become such rows: each column is
cut, centred and divided by its scale. It is made of released numbers alone, so it is as public as
the model. `Bounds.apply` maps rows first and clips them afterwards, exactly as it clips rows that
nobody mapped: no units can break a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import positive, store
from ..errors import DataError, ParameterError
from ..kernels.rows import Rows, SparseRows
from .labels import Scaled

Floats = NDArray[np.float64]

SMALLEST, LARGEST = 1e-100, 1e100
"""The range of scales, and how large a centre may be: nothing overflows that is within it."""


@dataclass(frozen=True, eq=False)
class Units:
    """How raw rows become the rows that a fit sees: x -> (cut(x) - centre) / scale, by column.

    Whatever is not finite stays so: its row was null, and is null in any unit.

    Args:
        scale: one positive number per column, or one for all.
        centre: one number per column; None for 0. Sparse rows have none: their zeros stay zeros.
        cut: how many scales from the centre an entry may lie; farther ones are moved there.
        label: the range of labels, where it was found; None: as the bounds declare.

    Raises:
        ParameterError: a number is out of range.

    >>> units = Units([2.0, 10.0], centre=[1.0, 0.0], cut=3.0)
    >>> units.apply(np.array([[5.0, 10.0], [1e300, np.nan], [np.inf, 0.0]])).tolist()
    [[2.0, 1.0], [3.0, nan], [nan, 0.0]]
    """

    scale: Floats
    centre: Floats | None = None
    cut: float = LARGEST
    label: Scaled | None = None

    def __post_init__(self) -> None:
        scale = np.array(self.scale, dtype=np.float64, ndmin=1)
        if scale.ndim != 1 or not ((scale >= SMALLEST) & (scale <= LARGEST)).all():
            raise ParameterError(
                f"scale must be numbers between {SMALLEST:g} and {LARGEST:g}, one per column.",
                parameter="scale",
            )
        store(self, "scale", _sealed(scale))
        store(self, "cut", min(positive("cut", self.cut), LARGEST))
        if self.centre is None:
            return
        centre = np.array(self.centre, dtype=np.float64, ndmin=1)
        if centre.ndim != 1 or not (np.abs(centre) <= LARGEST).all():
            raise ParameterError(
                f"centre must be numbers of at most {LARGEST:g}, one per column.",
                parameter="centre",
            )
        store(self, "centre", _sealed(centre) if centre.any() else None)

    def apply(self, X: Rows) -> Rows:
        """Return the rows in these units: float64, and no error depends on a value.

        Raises:
            DataError: the rows have another width, or are sparse and there is a centre.
        """
        width, scale = X.shape[1], self.scale
        centre = np.zeros(1) if self.centre is None else self.centre
        if not self.fit(width):
            raise DataError(f"the units are for other rows than those of {width} columns.")
        with np.errstate(all="ignore"):
            if not isinstance(X, SparseRows):
                return _mapped(np.asarray(X), centre, scale, self.cut)
            if self.centre is not None:
                raise DataError("sparse rows have no centre: their zeros would not stay zeros.")
            begin, end = int(X.offsets[0]), int(X.offsets[-1])
            columns = X.columns[begin:end]
            stored = np.broadcast_to(scale, (width,))[columns]
            values = _mapped(np.asarray(X.values[begin:end]), centre, stored, self.cut)
            return SparseRows(values, columns, X.offsets - begin, width)

    def fit(self, width: int) -> bool:
        """Return whether these are units of rows of so many columns."""
        sizes = (len(self.scale), 1 if self.centre is None else len(self.centre))
        return all(size in (1, width) for size in sizes)

    def exceeded(self, X: Rows) -> NDArray[np.bool_]:
        """Return which rows have an entry that `apply` cuts."""
        if self.cut >= LARGEST:
            return np.zeros(len(X), dtype=bool)
        uncut = replace(self, cut=LARGEST).apply(X)
        if not isinstance(uncut, SparseRows):
            return np.asarray((np.abs(uncut) > self.cut).any(axis=1))
        rows = np.repeat(np.arange(len(uncut)), np.diff(uncut.offsets))
        result = np.zeros(len(X), dtype=bool)
        result[rows[np.abs(uncut.values) > self.cut]] = True
        return result

    def to_json(self) -> dict[str, Any]:
        """Return scale, centre and cut as plain JSON values."""
        centre = None if self.centre is None else self.centre.tolist()
        return {"scale": self.scale.tolist(), "centre": centre, "cut": self.cut}

    def fold(self, coef: Floats, intercept: Floats) -> tuple[Floats, Floats]:
        """Return coefficients and intercepts for raw rows, from those for rows in these units.

        >>> units = Units([2.0], centre=[10.0])
        >>> [part.tolist() for part in units.fold(np.array([[4.0]]), np.array([1.0]))]
        [[[2.0]], [-19.0]]
        """
        raw = coef / self.scale
        if self.centre is None:
            return raw, intercept
        return raw, intercept - raw @ np.broadcast_to(self.centre, (coef.shape[1],))


def _mapped(values: NDArray[Any], centre: Floats, scale: Floats, cut: float) -> Floats:
    """Return entries cut, centred and scaled; what is not finite becomes NaN."""
    raw = np.asarray(values, dtype=np.float64)
    result = np.clip(raw, centre - cut * scale, centre + cut * scale)
    np.copyto(result, np.nan, where=~np.isfinite(raw))
    result -= centre
    result /= scale
    return np.asarray(result)


def _sealed(values: Floats) -> Floats:
    """Return the array, which nobody writes to any more."""
    values.flags.writeable = False
    return values
