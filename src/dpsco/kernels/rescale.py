"""Two passes over dense rows: sums of squares, and rows times a factor each.

Rows come in C order, or as columns that lie side by side (Fortran order), which is how files hold
them; a pass runs along whatever is contiguous. Sums and products are float64 in both
implementations, also for float32 rows; only the result of a product is rounded to the type in which
it is stored.

A sum of d squares in any order, each term rounded once or not at all, is off by at most
d u / (1 - d u) relatively, u = 2**-53: that is all that the callers rely on, so that the sums over
rows in C order may be reordered by the compiler and by NumPy. Over columns both implementations add
one column after the other, and agree in every bit; so they do in the products, where nothing may be
reordered. No result depends on which rows are beside a row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import compiler
from .steps import kind

Floats = NDArray[np.float64]

_TILE = 16  # rows that are turned at a time: a cache line of each column


def worthwhile(compiled: bool | None, rows: int, width: int) -> bool:
    """Return whether compiled passes serve a job of so many rows in all.

    Raises:
        MissingExtraError: ``compiled=True`` without Numba.
    """
    return compiler.chosen(compiled, rows * (1e-8 + 2e-9 * width))


def as_columns(rows: NDArray[Any]) -> bool:
    """Return whether the numbers of a column, not those of a row, are neighbours in memory."""
    return abs(rows.strides[0]) < abs(rows.strides[1])


def prepared(rows: NDArray[Any], compiled: bool) -> NDArray[Any]:
    """Return the rows as both passes want them: their own numbers, or a copy in the same order.

    Compiled passes read float32 and float64 without gaps, their twins float64.
    """
    if not compiled:
        return np.asarray(rows, dtype=np.float64)
    dtype = np.float32 if rows.dtype == np.float32 else np.float64
    if as_columns(rows):
        return np.ascontiguousarray(rows.T, dtype=dtype).T
    return np.ascontiguousarray(rows, dtype=dtype)


def square_sums(rows: NDArray[Any], *, compiled: bool = False) -> Floats:
    """Return the sum of squares of each of the `prepared` rows; inf or NaN where there is none."""
    if compiled:
        found = np.empty(len(rows))
        if as_columns(rows):
            _loop("column squares", kind(rows), "")(rows.T, found)
        else:
            _loop("row squares", kind(rows), "")(rows, found)
        return found
    if not as_columns(rows):
        return np.asarray(np.einsum("ij,ij->i", rows, rows))
    squares = np.square(rows.T)
    if len(rows) > 1:  # else NumPy would take it for one row, and add it in another order
        return np.asarray(np.add.reduce(squares, axis=0))
    found = np.zeros(1)
    for square in squares:
        found += square
    return found


def scale(
    rows: NDArray[Any], factors: Floats, out: NDArray[Any], *, compiled: bool = False
) -> None:
    """Put the `prepared` rows times their factors into the first columns of ``out``, in C order."""
    if compiled:
        turned = as_columns(rows)
        loop = _loop("scale columns" if turned else "scale rows", kind(rows), kind(out))
        loop(rows.T if turned else rows, factors, out)
        return
    target = out[:, : rows.shape[1]]
    long = np.flatnonzero(factors != 1.0)
    if 4 * len(long) < len(rows):  # few: the others are only copied
        np.copyto(target, rows, casting="same_kind")
        target[long] = rows[long] * factors[long, None]
    elif as_columns(rows):
        np.copyto(target, (rows.T * factors).T, casting="same_kind")
    else:
        np.multiply(rows, factors[:, None], out=target, casting="same_kind")


# -- compiled, never run as Python -----------------------------------------------------------------


def _row_squares(rows: Any, out: Floats) -> None:
    """Sum along each row, in an order that the compiler chooses."""
    n, d = rows.shape
    for i in range(n):
        total = 0.0
        for j in range(d):
            x = np.float64(rows[i, j])
            total += x * x
        out[i] = total


def _column_squares(columns: Any, out: Floats) -> None:
    """Add one column after the other."""
    d, n = columns.shape
    for i in range(n):
        out[i] = 0.0
    for j in range(d):
        for i in range(n):
            x = np.float64(columns[j, i])
            out[i] += x * x


def _scale_rows(rows: Any, factors: Floats, out: Any) -> None:
    """Multiply in float64, and round to the type of ``out``."""
    n, d = rows.shape
    for i in range(n):
        factor = factors[i]
        for j in range(d):
            out[i, j] = np.float64(rows[i, j]) * factor


def _scale_columns(columns: Any, factors: Floats, out: Any) -> None:
    """Do the same, and turn columns into rows a tile at a time."""
    d, n = columns.shape
    whole = n // _TILE * _TILE
    for begin in range(0, whole, _TILE):
        for j in range(d):
            for i in range(begin, begin + _TILE):
                out[i, j] = np.float64(columns[j, i]) * factors[i]
    for i in range(whole, n):
        for j in range(d):
            out[i, j] = np.float64(columns[j, i]) * factors[i]


_LOOPS: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "row squares": (_row_squares, "{} rows, out", compiler.REASSOCIATE),
    "column squares": (_column_squares, "{} rows, out", ()),
    "scale rows": (_scale_rows, "{} rows, floats, {} out", ()),
    "scale columns": (_scale_columns, "{} rows, floats, {} out", ()),
}


@lru_cache(maxsize=16)
def _loop(name: str, dtype: str, stored: str) -> compiler.Loop:
    """Return a compiled pass for the types of the rows and of what is stored."""
    function, arguments, flags = _LOOPS[name]
    return compiler.compile_loop(function, f"none({arguments.format(dtype, stored)})", flags=flags)
