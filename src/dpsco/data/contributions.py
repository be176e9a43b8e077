"""What each row adds to a sum, one vector a row: for those who must round a row before it is added.

A sum of clipped gradients needs no gradient per row (`queries`). Rows that are put on a grid of
integers do: each one is rounded by itself, and its norm is a statement about integers. The vectors
here are those whose sum the query states, up to rounding, and none of them is longer than the
query's bound, in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import ParameterError
from ..kernels import compiler
from ..kernels.clipping import coefficients
from ..kernels.rows import SparseRows
from ..kernels.slope import smoothed_slope
from ..kernels.sums import margins
from ..losses.base import MarginLoss
from .block import Block, Floats
from .queries import ClippedDifference, ClippedGradient, InUnits, row_gradients
from .row_norms import cache_slices, clip_rows
from .source import Source

VectorQuery = ClippedGradient | ClippedDifference | InUnits


def contributions(query: VectorQuery, block: Block) -> Floats:
    """Return what every row of a block adds to the query's sum, as (rows, query.size).

    A null row, and one whose gradient is not finite, is a row of zeros.

    Args:
        query: a clipped gradient, or a clipped difference of two, perhaps in units of its clip.
        block: clipped rows. All their vectors are formed at once: `contribution_pieces` takes the
            rows of a source in parts that stay in the cache.

    Raises:
        ParameterError: the query has no vector for each row.

    >>> from dpsco.data import Bounds
    >>> from dpsco.losses import Squared
    >>> block = Bounds(1.0, label=9.0).apply(np.eye(2), np.array([-0.5, -4.0]))
    >>> contributions(ClippedGradient(Squared(), np.zeros(2), clip=2.0), block).round(9).tolist()
    [[0.5, 0.0], [0.0, 2.0]]
    """
    if isinstance(query, InUnits):
        with np.errstate(all="ignore"):
            scaled = contributions(query.gradient, block) / query.unit
            return clip_rows(scaled, query.norm, 1.0)  # a quotient may have been rounded up
    if not isinstance(query, (ClippedGradient, ClippedDifference)):
        raise ParameterError(
            "contributions of single rows are those of a ClippedGradient or ClippedDifference, "
            f"got {type(query).__name__}."
        )
    with np.errstate(all="ignore"):  # a warning could tell something of the rows
        if isinstance(query.loss, MarginLoss):
            rows = _slopes(query, block)[:, None] * _dense(block)
        else:
            rows = row_gradients(query, query.loss, block)
        # Also where the coefficient was cut already: the product may have been rounded up.
        return clip_rows(rows, query.norm, query.clip)


def contribution_pieces(
    query: VectorQuery,
    source: Source,
    start: int = 0,
    stop: int | None = None,
) -> Iterator[Floats]:
    """Yield `contributions` of the rows of a source, in order, in parts that stay in the cache.

    Args:
        query: a clipped gradient, or a clipped difference of two, perhaps in units of its clip.
        source: of the rows.
        start, stop: a range of rows; by default all.

    Raises:
        ParameterError: the query does not fit the source's rows.
    """
    query.check(source)
    for block in source.blocks(start, stop):
        for part in cache_slices(len(block), query.size):
            yield contributions(query, block[part])


def _slopes(query: ClippedGradient | ClippedDifference, block: Block) -> Floats:
    """Return the clipped coefficient of each row, for a loss of a margin."""
    assert isinstance(query.loss, MarginLoss)
    kernel, total = query.loss.kernel(), np.zeros(len(block))
    with compiler.implementation(compiled=False):  # a worker's integers are the same bits anywhere
        for factor, weights in query.terms:
            slopes = smoothed_slope(kernel, margins(block.rows, weights), block.labels)
            total = total + factor * slopes
    return coefficients(total, block.norms_in(query.norm), query.clip)


def _dense(block: Block) -> Floats:
    """Return the rows as an array of float64."""
    rows = block.rows.dense() if isinstance(block.rows, SparseRows) else block.rows
    return np.asarray(rows, dtype=np.float64)
