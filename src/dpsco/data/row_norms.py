"""Norms of many rows with a proved bound on their rounding error, and rescaling that rests on it.

`lengths` computes, `error` says by which relative amount at most the result differs from the exact
norm of the stored numbers, `upper_norms` rounds up by it, and `shrink_factors` says by what to
multiply a row so that it obeys a limit exactly. With u = 2^-53, c the limit, l a row's computed and
L its exact length, L <= l (1 + e) where e is `error`, with room for a few roundings more:

Kept      l <= c (1 - e) implies L <= c. The row is multiplied by 1, which changes no bit.
Rescaled  by f = t / l with t = c (1 - 4 e - 2^-50), and 2^-23 less if the result is stored as
          float32. Each product is off by u (by 2^-24 if stored as float32), and by 2^-1075
          (2^-150) where it underflows, which c >= 1e-100 (1e-30) makes negligible. The new exact
          length is at most t (1 + e) (1 + 3 u + 2^-24) < c (1 - 2 e): it would be kept next time.
Huge      rows, l above HUGE or overflowing, are first divided by their largest entry, and then the
          same holds of the quotient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._validate import positive, refusal
from ..geometry.norms import L2, Lp, Norm
from ..kernels.rescale import factors, square_sums
from ..kernels.rows import Rows, SparseRows

Floats = NDArray[np.float64]

FLOOR = 1e-150
"""Lengths below are not told apart: their squares leave the range of float64."""
HUGE = 1e140
"""Lengths above are found after division by the largest entry, so that no square overflows."""

SMALLEST_LIMIT, LARGEST_LIMIT = 1e-100, 1e100

_ROUND = 2.0**-53
_CHUNK = 1 << 16  # numbers worked on at a time: half a mebibyte, which stays in the cache


def cache_slices(count: int, width: int, numbers: int = _CHUNK) -> Iterator[slice]:
    """Yield slices that cut ``count`` rows into pieces whose temporaries stay in the cache."""
    step = max(1, numbers // max(width, 1))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def error(norm: Norm, d: int) -> float:
    """Return the relative error of `lengths` for rows of ``d`` numbers.

    With u = 2^-53, a sum of d non-negative terms in any order, each rounded once, is off by at most
    d u / (1 - d u) relatively. For l1 and l2 the last steps (a square root halves the error) add
    a few u; the maximum is exact. The other norms divide by the largest entry, raise to a power
    (numpy's is good to 4 units in the last place), sum, and take a root: an error in an entry
    counts once, the powers' by 1/p, the root's exponent moves a sum between 1 and d by
    log(d) u. Twice d and 64 u cover two such stages, as in a norm of groups.
    """
    if isinstance(norm, Lp):
        if norm.p == math.inf:
            return 0.0
        if norm.p in (1.0, 2.0):
            return (d + 16) * _ROUND
    return (2 * d + 64) * _ROUND


def row_norms(rows: Rows, norm: Norm = L2) -> Floats:
    """Return each row's norm in float64; inf or NaN where it overflows or an entry is not finite.

    Lengths between FLOOR and HUGE are right up to `error`; shorter ones may come out as anything
    up to FLOOR, longer ones as anything above HUGE.
    """
    with np.errstate(all="ignore"):
        if isinstance(rows, SparseRows):
            return _sparse_norms(rows, norm)
        lengths = np.empty(len(rows))
        for part in cache_slices(*rows.shape):
            lengths[part] = _dense_norms(np.asarray(rows[part], dtype=np.float64), norm)
        return lengths


def upper_norms(rows: Rows, norm: Norm = L2) -> Floats:
    """Return numbers that each row's norm does not exceed, in exact arithmetic; at least FLOOR."""
    return round_up(row_norms(rows, norm), norm, rows.shape[1])


def round_up(lengths: Floats, norm: Norm, d: int) -> Floats:
    """Return results of `lengths`, raised by their error; what is not a number becomes inf."""
    upper = np.maximum(lengths, FLOOR)
    upper *= 1.0 + 2.0 * error(norm, d) + 4.0 * _ROUND
    upper[np.isnan(upper)] = math.inf
    return upper


def _dense_norms(rows: Floats, norm: Norm) -> Floats:
    """Return the norms of a few rows of float64."""
    p = norm.p if isinstance(norm, Lp) else None
    if rows.shape[1] == 0:
        return np.zeros(len(rows))
    if p == 2.0:
        return np.asarray(np.sqrt(square_sums(rows, slice(0, len(rows)))))
    if p == 1.0:
        return np.asarray(np.abs(rows).sum(axis=1))
    if p == math.inf:
        return np.asarray(np.maximum(rows.max(axis=1), -rows.min(axis=1)))
    return np.asarray(norm(rows))


def _sparse_norms(rows: SparseRows, norm: Norm) -> Floats:
    """Return the norms of sparse rows: from the stored values alone where the norm allows it."""
    lengths = np.empty(len(rows))
    if isinstance(norm, Lp):
        per_row = max(1, int(rows.offsets[-1] - rows.offsets[0]) // max(len(rows), 1))
        for part in cache_slices(len(rows), per_row):
            offsets = rows.offsets[part.start : part.stop + 1]
            values = np.asarray(rows.values[offsets[0] : offsets[-1]], dtype=np.float64)
            lengths[part] = _segment_norms(values, offsets - offsets[0], norm.p)
        return lengths
    for part in cache_slices(*rows.shape):
        lengths[part] = norm(rows[part].matrix().toarray().astype(np.float64))
    return lengths


def _segment_norms(values: Floats, offsets: NDArray[np.int64], p: float) -> Floats:
    """Return the l_p norms of consecutive segments of ``values``."""
    if p == 2.0:
        return np.asarray(np.sqrt(reduce_segments(np.add, values * values, offsets)))
    sizes = np.abs(values)
    if p == 1.0:
        return reduce_segments(np.add, sizes, offsets)
    top = reduce_segments(np.maximum, sizes, offsets)
    if p == math.inf:
        return top
    unit = np.where(top > 0.0, top, 1.0)
    scaled = sizes / np.repeat(unit, np.diff(offsets))
    return np.asarray(unit * reduce_segments(np.add, scaled**p, offsets) ** (1.0 / p))


def reduce_segments(operation: Any, values: Floats, offsets: NDArray[np.int64]) -> Floats:
    """Return ``operation`` over each segment; 0 for an empty one."""
    lengths = np.zeros(len(offsets) - 1)
    filled = offsets[1:] > offsets[:-1]
    if np.any(filled):
        lengths[filled] = operation.reduceat(values, offsets[:-1][filled])
    return lengths


def thresholds(norm: Norm, d: int, limit: float, storing: float = 0.0) -> tuple[float, float]:
    """Return up to which computed length a row is kept, and to which a longer one is rescaled.

    Args:
        norm: in which rows of ``d`` numbers are measured.
        d: numbers in a row.
        limit: between SMALLEST_LIMIT and LARGEST_LIMIT.
        storing: 2^-23 if the products are stored as float32.
    """
    e = error(norm, d)
    return limit * (1.0 - e), limit * (1.0 - 4.0 * e - 2.0**-50 - storing)


def shrink_factors(
    lengths: Floats, norm: Norm, d: int, limit: float, storing: float = 0.0
) -> Floats:
    """Return by what to multiply rows of computed lengths ``found``; 1 for those within limit.

    What comes out for lengths above HUGE is of no use: those rows are for `shrink_huge`.

    Args:
        found: from `lengths`; the other arguments as in `thresholds`.
    """
    return factors(lengths, *thresholds(norm, d, limit, storing))


def shrink_huge(rows: Rows, norm: Norm, limit: float, storing: float = 0.0) -> Any:
    """Return finite rows, too long for their squares to be numbers, rescaled to the limit.

    Of sparse rows only the values are returned.
    """
    d = rows.shape[1]
    if isinstance(rows, SparseRows):
        sizes = np.diff(rows.offsets)
        top = reduce_segments(np.maximum, np.abs(rows.values), rows.offsets)
        units = rows.values / np.repeat(top, sizes)
        lengths = row_norms(SparseRows(units, rows.columns, rows.offsets, d), norm)
    else:
        units = rows / np.max(np.abs(rows), axis=1, keepdims=True)
        lengths = row_norms(units, norm)
    by = thresholds(norm, d, limit, storing)[1] / lengths
    by[~((lengths > FLOOR) & (lengths < HUGE))] = 0.0  # under weights of a hundred magnitudes
    return units * (np.repeat(by, sizes) if units.ndim == 1 else by[:, None])


def clip_rows(rows: Floats, norm: Norm, limit: float) -> Floats:
    """Return dense float64 rows rescaled to ``limit``; a row that is not finite becomes zero."""
    return clipped_with_norms(rows, norm, limit)[0]


def clipped_with_norms(rows: Floats, norm: Norm, limit: float) -> tuple[Floats, Floats]:
    """Return `clip_rows`, and the `row_norms` of the rows before."""
    with np.errstate(all="ignore"):
        lengths = row_norms(rows, norm)
        clipped = rows * shrink_factors(lengths, norm, rows.shape[1], limit)[:, None]
        odd = np.flatnonzero(~(lengths <= HUGE))
        if len(odd):
            huge = odd[np.isfinite(rows[odd]).all(axis=1)]
            clipped[odd] = 0.0
            clipped[huge] = shrink_huge(rows[huge], norm, limit)
    return clipped, lengths


def check_limit(name: str, value: Any, *, hint: str = "") -> float:
    """Return a limit whose square, and quotient by another limit, float64 can hold."""
    number = positive(name, value, hint=hint)
    if not SMALLEST_LIMIT <= number <= LARGEST_LIMIT:
        raise refusal(
            name,
            f"must lie between {SMALLEST_LIMIT:g} and {LARGEST_LIMIT:g}, got {number!r}. "
            "Use other units.",
        )
    return number
