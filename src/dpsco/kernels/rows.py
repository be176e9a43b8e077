"""Sparse rows as three plain arrays, which compiled loops can read and slices can share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
        """Return the rows as a SciPy matrix, for what NumPy alone cannot do."""
        from scipy.sparse import csr_matrix

        begin, end = self.offsets[0], self.offsets[-1]
        parts = (self.values[begin:end], self.columns[begin:end], self.offsets - begin)
        return csr_matrix(parts, shape=self.shape)


Rows = NDArray[Any] | SparseRows
"""Dense rows (C order, float32 or float64) or sparse ones."""
