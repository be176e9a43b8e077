"""Sums of bounded rank-one gradients: ``sum_i c_i x_i`` with one number c_i a row.

Each leaf of dense rows is read in stages, small enough that the rows stay in the cache: margins
``X w``, slopes, clipped coefficients, then ``X^T c``. No per-row gradient is ever formed. The
slopes are the loss's own NumPy function in both implementations, which evaluates a whole block with
vector instructions; what is compiled are the passes over the rows. Products and sums are float64,
also for float32 rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import real
from . import compiler
from .clipping import checked_clip, coefficients
from .pairwise import SUM_LEAF, PairwiseSum
from .rows import Rows, SparseRows, checked_rows, kind, vector
from .slope import (
    BISECTIONS,
    Floats,
    Slope,
    TwoArgument,
    check_slope,
    coefficient,
    smoothed_slope,
)

_STAGE = 1 << 20  # bytes of rows that stay in the second-level cache between the two passes
_NUMPY_STAGE = 1 << 22  # the same for NumPy, where each stage costs a dozen calls
WHOLE = 8 * SUM_LEAF  # rows whose slopes are found at once: threads then seldom wait for each other


def use_compiled(rows: int, width: int, *, points: int = 1, dense: bool = False) -> bool:
    """Return whether sums over so many rows in all are worth a compiled loop.

    The sums below see one leaf at a time. Whoever knows the whole job (all rounds together) asks
    here and decides for all of them with `compiler.implementation`.

    Args:
        rows: rows of all sums together.
        width: features of a row, or its average number of non-zeros.
        points: 2 for differences of two slopes.
        dense: whether the rows lie in memory, as arrays: NumPy then takes a fraction of the time.
    """
    row_time = 1e-8 + 6e-10 * width if dense else 2e-8 + 2e-9 * width
    return compiler.use_compiled(rows * row_time * points)


def slope_sum(
    rows: Rows,
    labels: Floats,
    norms: Floats,
    slope: Slope,
    weights: Floats,
    clip: float,
) -> Floats:
    """Return ``sum_i c_i x_i``, c_i the slope at <w, x_i> cut so that ``|c_i| norm_i <= clip``.

    The bound holds in exact arithmetic (`clipping`); a slope that is not finite counts as 0. Rows
    beyond SUM_LEAF are added in leaves that are combined pairwise.

    Args:
        rows: dense (C order, float32 or float64) or sparse.
        labels: one for each row.
        norms: upper bounds on the rows' norms, in the norm that the clip speaks of.
        slope: the loss's derivative, perhaps smoothed.
        weights: the point.
        clip: bound on a row's contribution; may be inf.

    Raises:
        ParameterError: shapes, types or numbers that do not fit.

    Example:
        >>> from dpsco.kernels.slope import two_argument
        >>> half_square = Slope(two_argument(lambda margin, label: margin - label))
        >>> X, y = np.eye(2), np.array([-1.0, -8.0])
        >>> print(slope_sum(X, y, np.ones(2), half_square, np.zeros(2), 2.0))
        [1. 2.]
    """
    return _clipped_sum(rows, labels, norms, slope, [("weights", weights, 1.0)], clip)


def slope_difference_sum(
    rows: Rows,
    labels: Floats,
    norms: Floats,
    slope: Slope,
    first_weights: Floats,
    second_weights: Floats,
    first_factor: float,
    second_factor: float,
    clip: float,
) -> Floats:
    """Return ``sum_i c_i x_i``, c_i = first_factor slope_i(w1) - second_factor slope_i(w2), cut.

    Arguments, bound and errors as in `slope_sum`.
    """
    points = [
        ("first_weights", first_weights, real("first_factor", first_factor)),
        ("second_weights", second_weights, -real("second_factor", second_factor)),
    ]
    return _clipped_sum(rows, labels, norms, slope, points, clip)


def margins(rows: Rows, weights: Floats) -> Floats:
    """Return ``X w``, in float64."""
    checked = checked_rows(rows)
    n, d = checked.shape
    return _margins(checked, vector("weights", weights, d), use_compiled(n, d))


def coefficients_sum(rows: Rows, coefficients: Floats) -> Floats:
    """Return ``X^T c``, in float64; rows beyond SUM_LEAF in leaves that are combined pairwise."""
    checked = checked_rows(rows)
    n, d = checked.shape
    return _weighted_sum(checked, vector("coefficients", coefficients, n), use_compiled(n, d))


def _clipped_sum(
    rows: Rows,
    labels: Floats,
    norms: Floats,
    slope: Slope,
    points: list[tuple[str, Floats, float]],
    clip: float,
) -> Floats:
    """Return the sum of the rows times their clipped weighted slopes; points: (name, w, factor)."""
    check_slope(slope)
    rows = checked_rows(rows)
    n, d = rows.shape
    label, norm = vector("labels", labels, n), vector("norms", norms, n)
    weighted = [(vector(name, weights, d), factor) for name, weights, factor in points]
    bound = checked_clip(clip)
    bisections = BISECTIONS if slope.smoothing else 1
    compiled = use_compiled(n, d, points=len(points) * bisections)

    def cut(block: Rows, part: slice) -> Floats:
        with np.errstate(all="ignore"):  # a warning could tell something of the rows
            slopes = _slopes(block, label[part], slope, weighted, compiled)
            return coefficients(slopes, norm[part], bound, compiled=compiled)

    small = n <= WHOLE if compiled else 8 * n * d <= _NUMPY_STAGE
    if not isinstance(rows, SparseRows) and n > SUM_LEAF and small:
        block = rows if compiled else np.asarray(rows, dtype=np.float64)
        return _weighted_sum(block, cut(block, slice(0, n)), compiled)
    stage = SUM_LEAF  # sparse rows: the weights, and then the sum, want the cache
    if not isinstance(rows, SparseRows):
        stage = max(64, (_STAGE if compiled else _NUMPY_STAGE) // max(1, d * rows.dtype.itemsize))

    def leaf(start: int, stop: int) -> Floats:
        total = np.zeros(d)
        for begin in range(start, stop, stage):
            part = slice(begin, min(begin + stage, stop))
            block = rows if part.stop - begin == n else rows[part]
            if not compiled and not isinstance(block, SparseRows):
                block = np.asarray(block, dtype=np.float64)  # once for both passes
            _accumulate(block, cut(block, part), total, compiled)
        return total

    return _pairwise(leaf, n)


def _slopes(
    block: Rows, labels: Floats, slope: Slope, points: list[tuple[Floats, float]], compiled: bool
) -> Floats:
    """Return the weighted sum of the slopes at all points."""
    combined = None
    for weights, factor in points:
        part = _evaluate(slope, _margins(block, weights, compiled), labels, compiled)
        part = part if factor == 1.0 else factor * part
        combined = part if combined is None else combined + part
    return np.ascontiguousarray(combined)


def _evaluate(slope: Slope, margins: Floats, labels: Floats, compiled: bool) -> Floats:
    """Return the slopes: by NumPy, or number by number if a user's function knows nothing else."""
    if compiled and isinstance(slope.function, TwoArgument) and not slope.function.arrays:
        function = compiler.scalar_function(slope.function)
        if function is not None:
            out = np.empty(len(margins))
            parameters = (slope.first, slope.second, slope.smoothing, slope.bound)
            _loop("slopes", "")(function, *parameters, margins, labels, out)
            return out
    if slope.smoothing > 0.0:
        return smoothed_slope(slope, margins, labels)
    return np.asarray(slope(margins, labels), dtype=np.float64)


def _weighted_sum(rows: Rows, factors: Floats, compiled: bool) -> Floats:
    """Return X^T c, leaf by leaf."""

    def leaf(start: int, stop: int) -> Floats:
        total = np.zeros(rows.shape[1])
        _accumulate(rows[start:stop], factors[start:stop], total, compiled)
        return total

    return _pairwise(leaf, len(rows))


def _pairwise(leaf: Callable[[int, int], Floats], rows: int) -> Floats:
    """Combine the sums of leaves of SUM_LEAF rows pairwise."""
    if rows <= SUM_LEAF:
        return leaf(0, rows)
    total = PairwiseSum()
    for start in range(0, rows, SUM_LEAF):
        total.add(leaf(start, min(start + SUM_LEAF, rows)))
    return total.result()


# -- the two passes over rows ----------------------------------------------------------------------


def _margins(rows: Rows, weights: Floats, compiled: bool) -> Floats:
    """Return X w."""
    out = np.empty(len(rows))
    if isinstance(rows, SparseRows):
        if not compiled:
            return np.asarray(rows.matrix() @ weights, dtype=np.float64)
        loop = _loop("sparse margins", kind(rows))
        loop(rows.values, rows.columns, rows.offsets, weights, out)
    elif compiled:
        _loop("dense margins", kind(rows))(rows, weights, out)
    else:
        out = np.asarray(rows, dtype=np.float64) @ weights
    return out


def _accumulate(rows: Rows, factors: Floats, total: Floats, compiled: bool) -> None:
    """Add X^T c to the total."""
    if isinstance(rows, SparseRows):
        if compiled:
            loop = _loop("sparse sum", kind(rows))
            loop(rows.values, rows.columns, rows.offsets, factors, total)
        else:
            total += rows.matrix().T @ factors
    elif compiled:
        _loop("dense sum", kind(rows))(rows, factors, total)
    else:
        total += factors @ np.asarray(rows, dtype=np.float64)


def _slope_loop(
    function: Any,
    first: float,
    second: float,
    smoothing: float,
    bound: float,
    margins: Floats,
    labels: Floats,
    out: Floats,
) -> None:
    """Compiled, never run as Python."""
    for i in range(out.size):
        out[i] = coefficient(
            function, first, second, smoothing, bound, margins[i], labels[i], np.inf
        )


def _dense_margins(rows: Any, weights: Floats, out: Floats) -> None:
    """Four rows at a time share each weight; compiled, never run as Python."""
    n, d = rows.shape
    whole = n // 4 * 4
    for i in range(0, whole, 4):
        a = 0.0
        b = 0.0
        c = 0.0
        e = 0.0
        for j in range(d):
            w = weights[j]
            a += w * rows[i, j]
            b += w * rows[i + 1, j]
            c += w * rows[i + 2, j]
            e += w * rows[i + 3, j]
        out[i] = a
        out[i + 1] = b
        out[i + 2] = c
        out[i + 3] = e
    for i in range(whole, n):
        a = 0.0
        for j in range(d):
            a += weights[j] * rows[i, j]
        out[i] = a


def _dense_sum(rows: Any, factors: Floats, total: Floats) -> None:
    """Eight rows at a time share each load of the total; compiled, never run as Python."""
    n, d = rows.shape
    whole = n // 8 * 8
    for i in range(0, whole, 8):
        a, b, c, e = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
        f, g, h, k = factors[i + 4], factors[i + 5], factors[i + 6], factors[i + 7]
        for j in range(d):
            first = (a * rows[i, j] + b * rows[i + 1, j]) + (
                c * rows[i + 2, j] + e * rows[i + 3, j]
            )
            second = (f * rows[i + 4, j] + g * rows[i + 5, j]) + (
                h * rows[i + 6, j] + k * rows[i + 7, j]
            )
            total[j] += first + second
    for i in range(whole, n):
        a = factors[i]
        for j in range(d):
            total[j] += a * rows[i, j]


def _sparse_margins(
    values: Any,
    columns: NDArray[np.int32],
    offsets: NDArray[np.int64],
    weights: Floats,
    out: Floats,
) -> None:
    """Compiled, never run as Python."""
    for i in range(out.size):
        margin = 0.0
        for k in range(offsets[i], offsets[i + 1]):
            margin += weights[np.uint32(columns[k])] * values[k]  # unsigned: no negative index
        out[i] = margin


def _sparse_sum(
    values: Any,
    columns: NDArray[np.int32],
    offsets: NDArray[np.int64],
    factors: Floats,
    total: Floats,
) -> None:
    """Compiled, never run as Python."""
    for i in range(factors.size):
        c = factors[i]
        for k in range(offsets[i], offsets[i + 1]):
            total[np.uint32(columns[k])] += c * values[k]


_LOOPS: dict[str, tuple[Callable[..., None], str, tuple[str, ...]]] = {
    "slopes": (
        _slope_loop,
        "slope, float, float, float, float, floats, floats, out",
        compiler.CONTRACT,
    ),
    "dense margins": (_dense_margins, "{} rows, floats, out", compiler.REASSOCIATE),
    "dense sum": (_dense_sum, "{} rows, floats, out", compiler.REASSOCIATE),
    "sparse margins": (
        _sparse_margins,
        "{} values, columns, integers, floats, out",
        compiler.CONTRACT,
    ),
    "sparse sum": (_sparse_sum, "{} values, columns, integers, floats, out", compiler.CONTRACT),
}


@lru_cache(maxsize=16)
def _loop(name: str, dtype: str) -> compiler.Loop:
    """Return a compiled loop for one type of rows."""
    function, arguments, flags = _LOOPS[name]
    return compiler.compile_loop(
        function, f"none({arguments.format(dtype)})", flags=flags, helpers=(coefficient,)
    )
