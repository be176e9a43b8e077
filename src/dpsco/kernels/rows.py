"""Rows and vectors as compiled loops read them; sparse rows as three plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import refusal
from ..errors import ParameterError


@dataclass(frozen=True, eq=False, repr=False)
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

    def dense(self) -> NDArray[Any]:
        """Return the rows as an array in two axes."""
        return np.asarray(self.matrix().toarray())

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
        if not self._rising(columns) and self._doubled(columns):
            raise ParameterError(
                "SparseRows needs distinct columns within a row; sum the duplicates first."
            )

    def _rising(self, columns: NDArray[np.int32]) -> bool:
        """Return whether columns rise within every row, and so are distinct."""
        rises = columns[1:] > columns[:-1]
        first = self.offsets[1:-1] - self.offsets[0]  # where rows begin, but for the first one
        rises[first[(first > 0) & (first < len(columns))] - 1] = True
        return bool(rises.all())

    def _doubled(self, columns: NDArray[np.int32]) -> bool:
        """Return whether a row has a column twice."""
        owners = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        order = np.lexsort((columns, owners))
        owners, columns = owners[order], columns[order]
        return bool(np.any((owners[1:] == owners[:-1]) & (columns[1:] == columns[:-1])))

    def __repr__(self) -> str:
        return f"<SparseRows: {len(self)} rows of {self.width} {self.dtype} numbers>"


Rows = NDArray[Any] | SparseRows
"""Dense rows (C order, float32 or float64) or sparse ones."""


def checked_rows(rows: Rows) -> Rows:
    """Refuse rows that a compiled loop would misread; copy dense ones into C order if need be."""
    if isinstance(rows, SparseRows):
        rows.check_shape()
        return rows
    if getattr(rows, "ndim", 0) != 2 or rows.dtype.char not in "fd":
        raise ParameterError(
            "rows must be a two-dimensional array of float32 or float64 or SparseRows, got "
            f"{getattr(rows, 'ndim', 0)} dimensions of {getattr(rows, 'dtype', type(rows))}."
        )
    return np.ascontiguousarray(rows, dtype=np.dtype(rows.dtype.char))  # in the machine's order


def kind(rows: Rows) -> str:
    """Return the name of the rows' type, as the signatures have it."""
    return "float32" if rows.dtype.itemsize == 4 else "float64"


def vector(name: str, values: Any, size: int) -> NDArray[np.float64]:
    """Return ``values`` as a contiguous vector of float64 of this length."""
    if type(values) is np.ndarray and values.dtype == np.float64 and values.shape == (size,):
        return values if values.flags.c_contiguous else values.copy()
    array = np.ascontiguousarray(values, dtype=np.float64)
    if np.ndim(values) != 1 or len(array) != size:
        raise refusal(name, f"must be a vector of length {size}, got shape {np.shape(values)}.")
    return array
