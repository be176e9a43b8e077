"""Passes over dense rows: sums of squares, rows times a factor each, and both in one.

Rows come in C order, or as columns that lie side by side (Fortran order), which is how files hold
them. Sums and products are float64, also for float32 rows; only the result of a product is rounded
to the type in which it is stored. The squares of a row are added one after the other, from the
first column to the last, whatever the layout, with no operation fused or reordered: the compiled
passes and their NumPy references agree in every bit, and a row's result does not depend on the rows
beside it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import compiler
from .rows import kind

Floats = NDArray[np.float64]

_TILE = 16  # rows that are turned at a time: a cache line of each column


def use_compiled(rows: int, width: int) -> bool:
    """Return whether compiled passes serve a job of so many rows in all."""
    return compiler.use_compiled(rows * (1e-8 + 5e-9 * width))


def as_columns(rows: NDArray[Any]) -> bool:
    """Return whether the numbers of a column, not those of a row, are neighbours in memory."""
    return abs(rows.strides[0]) < abs(rows.strides[1])


def prepared(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows as compiled passes read them, in the same layout: a copy only where need be.

    They are float32 or float64, and no numbers lie between those of a row or those of a column.
    """
    single = rows.dtype.kind == "f" and rows.dtype.itemsize <= 4
    dtype = np.float32 if single else np.float64
    layout: Literal["F", "C"] = "F" if as_columns(rows) else "C"
    return np.asarray(rows, dtype=dtype, order=layout)


def square_sums(rows: NDArray[Any], part: slice, *, compiled: bool = False) -> Floats:
    """Return the sums of squares of some rows; inf or NaN where there is none.

    Args:
        rows: numbers of any type; `prepared` if compiled.
        part: which of them, from where to where.
        compiled: whether the compiled pass serves.
    """
    if compiled:
        lengths = np.empty(part.stop - part.start)
        if as_columns(rows):
            _loop("column squares", kind(rows), "")(rows.T, part.start, lengths)
        else:
            _loop("row squares", kind(rows), "")(rows[part], lengths)
        return lengths
    squares = np.array(rows[part].T, dtype=np.float64, order="C")
    np.square(squares, out=squares)
    if squares.shape[1] > 1:  # along the outer axis NumPy adds column after column
        return np.asarray(np.add.reduce(squares, axis=0))
    return np.add.accumulate(squares, axis=0)[-1] if len(squares) else np.zeros(squares.shape[1])


def factors(lengths: Floats, keep: float, target: float, *, compiled: bool = False) -> Floats:
    """Return 1 where a length is at most ``keep``, else ``target`` over it."""
    if not compiled:
        return np.where(lengths <= keep, 1.0, target / lengths)
    out = np.empty(len(lengths))
    _loop("factors", "", "")(lengths, keep, target, out)
    return out


def scale(
    rows: NDArray[Any],
    part: slice,
    by: Floats,
    out: NDArray[Any],
    *,
    compiled: bool = False,
) -> None:
    """Put some rows times their factors ``by`` into the first columns of ``out``.

    ``out`` is in C order, and of the type of the rows or a wider one; other arguments as above.
    """
    if compiled:
        kinds = (kind(rows), kind(out))
        if as_columns(rows):
            _loop("scale columns", *kinds)(rows.T, part.start, by, out)
        else:
            _loop("scale rows", *kinds)(rows[part], by, out)
        return
    rows, target = rows[part], out[:, : rows.shape[1]]
    long = np.flatnonzero(by != 1.0)
    if 4 * len(long) < len(rows):  # few: the others are only copied
        np.copyto(target, rows, casting="same_kind")
        target[long] = rows[long] * by[long, None]
    elif as_columns(rows):
        np.copyto(target, (rows.T * by).T, casting="same_kind")
    else:
        np.multiply(rows, by[:, None], out=target, casting="same_kind")


def shrink(
    rows: NDArray[Any],
    part: slice,
    keep: float,
    target: float,
    out: NDArray[Any],
    *,
    compiled: bool = False,
) -> Floats:
    """Put some rows into the first columns of ``out``, long ones rescaled; return their lengths.

    A row whose l2 length is at most ``keep`` is copied, another one multiplied by ``target`` over
    its length. Compiled, rows in C order are read once: what is measured is still in the cache
    when it is multiplied. Other arguments as in `scale`.
    """
    if compiled and not as_columns(rows):
        lengths = np.empty(part.stop - part.start)
        _loop("shrink rows", kind(rows), kind(out))(rows[part], keep, target, lengths, out)
        return lengths
    lengths = np.sqrt(square_sums(rows, part, compiled=compiled))
    by = factors(lengths, keep, target, compiled=compiled)
    scale(rows, part, by, out, compiled=compiled)
    return lengths


# -- compiled, never run as Python -----------------------------------------------------------------


def _row_squares(rows: Any, out: Floats) -> None:
    """Sum along four rows at a time: an addition need not wait for the last one of its row."""
    n, d = rows.shape
    whole = n // 4 * 4
    for i in range(0, whole, 4):
        a = 0.0
        b = 0.0
        c = 0.0
        e = 0.0
        for j in range(d):
            x = np.float64(rows[i, j])
            a += x * x
            x = np.float64(rows[i + 1, j])
            b += x * x
            x = np.float64(rows[i + 2, j])
            c += x * x
            x = np.float64(rows[i + 3, j])
            e += x * x
        out[i] = a
        out[i + 1] = b
        out[i + 2] = c
        out[i + 3] = e
    for i in range(whole, n):
        a = 0.0
        for j in range(d):
            x = np.float64(rows[i, j])
            a += x * x
        out[i] = a


def _shrink_rows(rows: Any, keep: float, target: float, lengths: Floats, out: Any) -> None:
    """Measure eight rows, and multiply them while they are in the cache.

    Vector instructions square, and then the sums run along all eight rows at a time.
    """
    n, d = rows.shape
    whole = n // 8 * 8
    squares = np.empty((8, d))
    for i in range(0, whole, 8):
        for k in range(8):
            for j in range(d):
                x = np.float64(rows[i + k, j])
                squares[k, j] = x * x
        a, b, c, e = 0.0, 0.0, 0.0, 0.0
        f, g, h, m = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            a += squares[0, j]
            b += squares[1, j]
            c += squares[2, j]
            e += squares[3, j]
            f += squares[4, j]
            g += squares[5, j]
            h += squares[6, j]
            m += squares[7, j]
        lengths[i], lengths[i + 1], lengths[i + 2], lengths[i + 3] = a, b, c, e
        lengths[i + 4], lengths[i + 5], lengths[i + 6], lengths[i + 7] = f, g, h, m
        for k in range(8):
            length = np.sqrt(lengths[i + k])
            lengths[i + k] = length
            quotient = target / length
            factor = 1.0 if length <= keep else quotient
            for j in range(d):
                out[i + k, j] = np.float64(rows[i + k, j]) * factor
    _row_squares(rows[whole:], lengths[whole:])
    for i in range(whole, n):
        lengths[i] = np.sqrt(lengths[i])
        quotient = target / lengths[i]
        factor = 1.0 if lengths[i] <= keep else quotient
        for j in range(d):
            out[i, j] = np.float64(rows[i, j]) * factor


def _column_squares(columns: Any, start: int, out: Floats) -> None:
    """Add one column after the other."""
    for i in range(out.size):
        out[i] = 0.0
    for j in range(columns.shape[0]):
        column = columns[j, start : start + out.size]
        for i in range(out.size):
            x = np.float64(column[i])
            out[i] += x * x


def _factors(lengths: Floats, keep: float, target: float, out: Floats) -> None:
    """Divide everywhere, so that nothing is guessed wrongly in advance, and choose."""
    for i in range(out.size):
        quotient = target / lengths[i]
        out[i] = 1.0 if lengths[i] <= keep else quotient


def _scale_rows(rows: Any, factors: Floats, out: Any) -> None:
    """Multiply in float64, and round to the type of ``out``."""
    n, d = rows.shape
    for i in range(n):
        factor = factors[i]
        for j in range(d):
            out[i, j] = np.float64(rows[i, j]) * factor


def _scale_columns(columns: Any, start: int, factors: Floats, out: Any) -> None:
    """Turn columns into rows a tile at a time, and multiply while the tile is in the cache."""
    d, n = columns.shape[0], factors.size
    fours, whole = d // 4 * 4, n // _TILE * _TILE
    for begin in range(0, whole, _TILE):
        tile = columns[:, start + begin : start + begin + _TILE]
        rows = out[begin : begin + _TILE]
        for j in range(0, fours, 4):
            for i in range(_TILE):
                rows[i, j] = tile[j, i]
                rows[i, j + 1] = tile[j + 1, i]
                rows[i, j + 2] = tile[j + 2, i]
                rows[i, j + 3] = tile[j + 3, i]
        for j in range(fours, d):
            for i in range(_TILE):
                rows[i, j] = tile[j, i]
        for i in range(begin, begin + _TILE):
            factor = factors[i]
            for j in range(d):
                out[i, j] = np.float64(out[i, j]) * factor
    for i in range(whole, n):
        for j in range(d):
            out[i, j] = np.float64(columns[j, start + i]) * factors[i]


_LOOPS: dict[str, tuple[Any, str]] = {
    "row squares": (_row_squares, "{} rows, out"),
    "column squares": (_column_squares, "{} rows, integer, out"),
    "factors": (_factors, "floats, float, float, out"),
    "shrink rows": (_shrink_rows, "{} rows, float, float, out, {} out"),
    "scale rows": (_scale_rows, "{} rows, floats, {} out"),
    "scale columns": (_scale_columns, "{} rows, integer, floats, {} out"),
}


@lru_cache(maxsize=16)
def _loop(name: str, dtype: str, stored: str) -> compiler.Loop:
    """Return a compiled pass for the types of the rows and of what is stored."""
    function, arguments = _LOOPS[name]
    signature = f"none({arguments.format(dtype, stored)})"
    # no flags: nothing fused or reordered
    return compiler.compile_loop(function, signature, flags=(), helpers=(_row_squares,))
