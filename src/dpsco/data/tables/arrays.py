"""Arrays, lists and sparse matrices as rows and labels; no entry of them can raise an error.

Only types and shapes are refused, by messages that name nothing else. Whatever an accepted thing
holds is defined: an entry of a list, or of an array of Python objects, that is no number is NaN, or
a missing label, and an entry of a sparse matrix in a column that the matrix does not have is NaN;
such rows become null rows when they are bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from ...kernels.rows import Rows, SparseRows
from ..block import Floats, Indices, Mask, take_rows
from ..labels import LONGEST_CLASS, array_type, label_kind

_NUMBERS = (int, float, np.integer, np.floating, np.bool_, Decimal, Fraction)
_DAMAGED = "X is a sparse matrix whose arrays do not belong together: {}. Make it anew."

_REMEDY: dict[type, str] = {dict: "pandas.DataFrame(X)"}  # how else to pass what is no table


@dataclass(frozen=True)
class Raw:
    """Rows as they were read, not clipped yet."""

    rows: Rows
    labels: NDArray[Any] | None
    missing: Mask | None  # which labels are, where they cannot say so themselves

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def __getitem__(self, which: slice | Indices) -> Raw:
        """Return some rows: a slice of them shares memory, a choice is a copy."""
        rows = self.rows[which] if isinstance(which, slice) else take_rows(self.rows, which)
        labels = None if self.labels is None else self.labels[which]
        return Raw(rows, labels, None if self.missing is None else self.missing[which])


def raw_rows(X: Any) -> Rows:
    """Return the features; the type of X says how they are read."""
    if isinstance(X, np.ndarray):
        return dense_rows(X)
    if isinstance(X, (list, tuple)):
        return list_rows(X)
    if is_sparse(X):
        return sparse_rows(X)
    from ..schema.columns import from_library, number_rows, open_frame

    if from_library(X):
        data = open_frame(X, "from_arrays")
        return number_rows(data, list(data.columns))
    if hasattr(type(X), "__array__"):
        return dense_rows(as_array("X", X))
    raise DataError(
        "X must be a NumPy array, a list of rows, a SciPy sparse matrix or a data frame, got "
        f"{type(X).__name__}. Convert it first: {_REMEDY.get(type(X), 'numpy.asarray(X)')}."
    )


def raw_labels(
    y: Any,
) -> tuple[NDArray[Any] | tuple[Any, ...] | None, Mask | None, np.dtype[Any] | None]:
    """Return labels, which are missing where the labels cannot say so themselves, and their type.

    The type is that of a data frame's column of booleans or short counts, and None for all others.
    """
    if y is None:
        return None, None, None
    if isinstance(y, np.ndarray):
        return label_array(y), None, None
    if isinstance(y, (list, tuple)):
        return tuple(y), None, None
    from ..schema.columns import from_library, label_column, open_series

    if from_library(y):
        return label_column(open_series(y), "y")
    if hasattr(type(y), "__array__"):
        return label_array(as_array("y", y)), None, None
    raise DataError(
        "y must be a NumPy array, a list or a column of a data frame, got "
        f"{type(y).__name__}. Pass a list: list(y)."
    )


def listed_labels(entries: Sequence[Any], *, text: bool) -> tuple[NDArray[Any], Mask | None]:
    """Return labels that are Python objects as strings, and which of them are none; or as numbers.

    Args:
        entries: of any type.
        text: whether strings are read.
    """
    return words_of(entries) if text else (numbers_of(entries), None)


# -- arrays ----------------------------------------------------------------------------------------


def dense_rows(X: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in two axes, without a copy unless they are Python objects."""
    array = _plain("X", X)
    if array.ndim == 1:
        raise DataError(
            f"X must have two axes (rows, columns), got one of length {len(array)}. Reshape your "
            "data: X.reshape(-1, 1) for a single feature, X.reshape(1, -1) for a single row."
        )
    if array.ndim != 2:
        raise DataError(f"X must have two axes (rows, columns), got {array.ndim}.")
    if array.dtype.kind == "O":  # a single entry may have made it one: it decides about its row
        return numbers_of(array.ravel()).reshape(array.shape)
    if array.dtype.kind == "c":
        raise DataError(f"X must hold real numbers, got {array.dtype}. Complex data not supported.")
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"X must hold numbers, got an array of {array_type(array.dtype)}. Convert numbers "
            "written as text with X.astype(float). Columns of words are encoded by a schema: "
            "data.from_frame(frame, encoder=TableEncoder(schema))."
        )
    return array


def label_array(y: NDArray[Any]) -> NDArray[Any] | tuple[Any, ...]:
    """Return labels in one axis, without a copy; Python objects as a tuple, read one by one."""
    array = _plain("y", y)
    if array.ndim != 1:
        raise DataError(
            f"y must have one axis, one label per row, got {array.ndim} axes. Pass y.ravel() if it "
            "is a single column."
        )
    if array.dtype.kind == "O":
        return tuple(array)
    label_kind(array)
    return array


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Return something that offers itself as an array; what it says if it cannot be one stays here.

    Raises:
        DataError: it cannot be made one.
    """
    try:
        with np.errstate(all="ignore"):
            return np.asarray(values)
    except Exception:  # raised again below, where not even its context holds an entry
        pass
    raise DataError(
        f"{name} is a {type(values).__name__}, which NumPy cannot read. Pass an array of numbers."
    )


def _plain(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return an array without its subclass; refuse masks."""
    if isinstance(values, np.ma.MaskedArray):
        raise DataError(
            f"{name} is a masked array, whose mask would be lost. Pass {name}.filled(numpy.nan)."
        )
    return np.asarray(values)


# -- lists -----------------------------------------------------------------------------------------


def list_rows(X: Sequence[Any]) -> Floats:
    """Return a list of rows as float64, NaN where an entry is no number.

    Raises:
        DataError: rows that are no lists, or differ in length.
    """
    rows = list(X)
    if not all(_is_row(row) for row in rows):
        raise DataError(
            "X given as a list must hold rows, each a list, a tuple or an array with one axis. "
            "Pass [[entry] for entry in X] for a single feature, [X] for a single row."
        )
    if len({len(row) for row in rows}) > 1:
        raise DataError("X must be rectangular: its rows differ in length.")
    result = np.empty((len(rows), len(rows[0]) if rows else 0))
    for place, row in zip(result, rows, strict=True):
        place[:] = numbers_of(row)
    return result


def _is_row(row: Any) -> bool:
    """Return whether something is one row of a list of rows."""
    return isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim == 1)


def numbers_of(entries: Iterable[Any]) -> Floats:
    """Return entries of any type as float64, NaN for what is no number."""
    with np.errstate(all="ignore"):  # a long double may be too large
        if type(entries) is np.ndarray and entries.dtype.kind in "biuf":
            return entries.astype(np.float64)
        return np.array([number_of(entry) for entry in entries], dtype=np.float64)


def number_of(entry: Any) -> float:
    """Return an entry of any type as a float, NaN for what is no number."""
    if type(entry) is float:
        return entry
    if isinstance(entry, (complex, np.complexfloating)):  # as pandas holds all, because of one
        return float(entry.real) if entry.imag == 0.0 else np.nan
    if not isinstance(entry, _NUMBERS):
        return np.nan
    try:
        return float(entry)
    except Exception:  # an integer beyond all floats, a signalling NaN
        return np.nan


def words_of(entries: Sequence[Any]) -> tuple[NDArray[np.str_], Mask]:
    """Return entries of any type as strings, and which of them are none."""
    # What is cut off is longer than any class may be: such labels stay unknown ones.
    cut = [entry[: LONGEST_CLASS + 1] if isinstance(entry, str) else "" for entry in entries]
    # NumPy forgets zero characters at the end: "a\0" would be read as "a".
    missing = [
        not isinstance(entry, str) or word.endswith("\0")
        for entry, word in zip(entries, cut, strict=True)
    ]
    return np.array(cut, dtype=np.str_), np.array(missing, dtype=np.bool_)


# -- sparse matrices -------------------------------------------------------------------------------


def is_sparse(X: Any) -> bool:
    """Return whether X is one of SciPy's sparse matrices, without importing SciPy for others."""
    if not any(kind.__module__.startswith("scipy.sparse") for kind in type(X).__mro__):
        return False
    from scipy.sparse import issparse

    return bool(issparse(X))


def sparse_rows(X: Any) -> SparseRows:
    """Return a sparse matrix as rows; entries given twice are added, as SciPy reads them.

    SciPy checks neither the columns nor what was changed in place since a matrix was made, and a
    loop would follow a wrong column out of its arrays. So everything is looked at here, and what
    the caller could still change is copied.

    Raises:
        DataError: not two axes, not numbers, too many columns, or arrays that do not fit together.
    """
    from scipy.sparse import csr_matrix

    if X.ndim != 2:
        raise DataError(f"X must have two axes (rows, columns), got {X.ndim}.")
    if X.dtype.kind not in "biuf":
        raise DataError(f"X must hold numbers, got a sparse matrix of {array_type(X.dtype)}.")
    if X.shape[1] >= 2**31 - 1:
        raise DataError(f"a sparse table has fewer than 2**31 - 1 columns, got {X.shape[1]}.")
    values, columns, offsets = _compressed(X)
    with np.errstate(all="ignore"):  # a long double, or a sum of two entries, may be too large
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        values, columns = _within(values.astype(dtype, copy=False), columns, X.shape[1])
        matrix = csr_matrix((values, columns.astype(np.int32), offsets), shape=X.shape)
        if not matrix.has_canonical_format:  # of a new matrix: found out, not remembered
            matrix = matrix.copy()  # the values may be the caller's
            matrix.sum_duplicates()
    result = SparseRows(
        np.ascontiguousarray(matrix.data),
        matrix.indices.astype(np.int32, copy=False),  # a copy already
        matrix.indptr.astype(np.int64),
        int(X.shape[1]),
    )
    result.check()
    return result


def _compressed(X: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return values, columns and offsets of a matrix of any format; columns are not checked."""
    from scipy.sparse import bsr_matrix, coo_matrix, csc_matrix

    n, d = X.shape
    X = _converted(X, "coo") if X.format == "dok" else X
    if X.format == "coo":
        rows, columns = (_integers(part) for part in (X.row, X.col))
        if not len(rows) == len(columns) == len(X.data):
            raise DataError(_DAMAGED.format("rows, columns and values differ in number"))
        _require_rows(rows, n)
        values, columns = _within(X.data, columns, d)
        X = coo_matrix((values, (rows, columns)), shape=X.shape)
    elif X.format == "csc":
        values, rows, offsets = _parts(X, d)
        _require_rows(rows, n)
        X = csc_matrix((values, rows, offsets), shape=X.shape)
    elif X.format == "bsr":
        height, width = X.blocksize
        values, columns, offsets = _parts(X, n // height)
        values, columns = _within(values, columns, d // width)
        X = bsr_matrix((values, columns, offsets), shape=X.shape)
    elif X.format == "lil" and list(map(len, X.rows)) != list(map(len, X.data)):
        raise DataError(_DAMAGED.format("a row's columns and values differ in number"))
    return _parts(X if X.format == "csr" else _converted(X, "csr"), n)


def _converted(X: Any, form: str) -> Any:
    """Return a matrix in another format; what SciPy says of one it cannot read is not told."""
    try:
        with np.errstate(all="ignore"):
            return X.asformat(form)
    except (ValueError, IndexError, OverflowError, TypeError):
        pass
    raise DataError(_DAMAGED.format(f"SciPy cannot convert it to {form}"))


def _parts(X: Any, count: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return values, indices and offsets of a compressed matrix with ``count`` rows or columns."""
    indices, offsets = _integers(X.indices), _integers(X.indptr).astype(np.int64)
    if len(offsets) != count + 1 or offsets[0] != 0 or np.any(np.diff(offsets) < 0):
        raise DataError(_DAMAGED.format("indptr must begin with 0, and not fall"))
    stored = int(offsets[-1])
    if min(len(indices), len(X.data)) < stored:
        raise DataError(_DAMAGED.format("indptr ends beyond the values"))
    return X.data[:stored], indices[:stored], offsets


def _integers(part: Any) -> NDArray[Any]:
    """Return indices, which must be integers in one axis."""
    array = np.asarray(part)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(_DAMAGED.format("indices are integers, in one axis"))
    return array


def _require_rows(rows: NDArray[Any], count: int) -> None:
    """Refuse entries of rows that there are not: nobody's, so no row can be made null."""
    if len(rows) and not (rows.min() >= 0 and rows.max() < count):
        raise DataError(_DAMAGED.format("entries lie outside its rows"))


def _within(
    values: NDArray[Any], columns: NDArray[Any], width: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return values and columns with NaN, in the first column, for what lies outside."""
    outside = (columns < 0) | (columns >= width)
    if not outside.any():
        return values, columns
    values = values.astype(np.result_type(values.dtype, np.float32))
    columns = np.where(outside, 0, columns)
    values[outside] = np.nan
    return values, columns
