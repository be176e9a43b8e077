"""Sparse rows as three plain arrays, which compiled loops can read and slices can share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ParameterError


@dataclass(frozen=True)
class SparseRows:
    """Rows in compressed form; row k has ``values[offsets[k]:offsets[k + 1]]`` at ``columns``.

    Offsets need not begin at 0: a slice of rows shares values and columns with the whole. Columns
    within a row are distinct.
    """

    values: NDArray[Any]  # float32 or float64
    columns: NDArray[np.int32]
    offsets: NDArray[np.int64]
    width: int  # columns of the matrix

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.offsets) - 1, self.width

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the values."""
        return self.values.dtype

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: slice) -> SparseRows:
        start, stop, step = rows.indices(len(self))
        if step != 1:
            raise IndexError("sparse rows are sliced without a step")
        stop = max(start, stop)
        return SparseRows(self.values, self.columns, self.offsets[start : stop + 1], self.width)

    def matrix(self) -> Any:
        """Return the rows as a SciPy matrix that shares their values and columns."""
        from scipy.sparse import csr_matrix

        begin, end = self.offsets[0], self.offsets[-1]
        # SciPy wants one type for columns and offsets, and would copy the columns otherwise.
        kind = np.int32 if end - begin < 2**31 else np.int64
        offsets = (self.offsets - begin).astype(kind)
        parts = (self.values[begin:end], self.columns[begin:end], offsets)
        return csr_matrix(parts, shape=self.shape)

    def check_shape(self) -> None:
        """Refuse arrays of the wrong type or length; quick, so that every loop can ask.

        Raises:
            ParameterError: arrays that do not belong together.
        """
        kinds = [part.dtype.name for part in (self.values, self.columns, self.offsets)]
        if kinds[0] not in ("float32", "float64") or kinds[1:] != ["int32", "int64"]:
            raise ParameterError(
                "SparseRows needs values of float32 or float64, columns of int32 and offsets of "
                f"int64, got {kinds[0]}, {kinds[1]} and {kinds[2]}."
            )
        parts = (self.values, self.columns, self.offsets)
        if any(part.ndim != 1 or not part.flags.c_contiguous for part in parts):
            raise ParameterError("SparseRows needs contiguous one-dimensional arrays.")
        stored = len(self.values)
        if (
            len(self.columns) != stored
            or len(self.offsets) == 0
            or self.offsets[0] < 0
            or self.offsets[-1] > stored
        ):
            raise ParameterError(
                f"SparseRows needs one column for each of its {stored} values and offsets between "
                f"0 and {stored}, got {len(self.columns)} columns and {len(self.offsets)} offsets."
            )

    def check(self) -> None:
        """Refuse rows that would lead a loop astray; asked once, where a matrix comes in.

        Raises:
            ParameterError: as `check_shape`; offsets that fall, columns outside the matrix, or a
                column twice in one row.
        """
        self.check_shape()
        if np.any(np.diff(self.offsets) < 0):
            raise ParameterError("SparseRows needs offsets that do not fall.")
        begin, end = int(self.offsets[0]), int(self.offsets[-1])
        columns = self.columns[begin:end]
        if columns.size and (columns.min() < 0 or columns.max() >= self.width):
            raise ParameterError(f"SparseRows needs columns from 0 to {self.width - 1}.")
        owners = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        places = np.sort(owners * self.width + columns)
        if np.any(places[1:] == places[:-1]):
            raise ParameterError(
                "SparseRows needs distinct columns within a row; sum the duplicates first."
            )


Rows = NDArray[Any] | SparseRows
"""Dense rows (C order, float32 or float64) or sparse ones."""
