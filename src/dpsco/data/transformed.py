"""Gradients that are bounded by a user's own rule, row by row.

What the rule returns for a row is clipped, so that the stated bound holds whatever the rule does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..geometry.norms import L2
from ..kernels.rows import SparseRows
from ..losses.base import MarginLoss
from ..losses.guarded import quiet
from ..losses.vector import VectorLoss
from .block import Block, Floats
from .queries import Loss, Query, check_weights, weight_vector
from .row_norms import cache_slices, check_limit, clip_rows


@dataclass(frozen=True, eq=False)
class TransformedGradient(Query):
    """A user's function of each row's gradient at ``weights``; its result is clipped to ``clip``.

    ``function`` maps one gradient to a vector of its length. It is called with one row at a time,
    so that a row cannot reach another one's vector; where it fails, the row adds zero. A gradient
    that is not finite is given to it as zeros, and a null row adds zero whatever it makes of them.
    """

    loss: Loss
    weights: Floats
    clip: float
    function: Callable[[Floats], Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", check_limit("clip", self.clip))
        object.__setattr__(self, "weights", weight_vector("weights", self.weights))

    @property
    def bound(self) -> float:
        """``clip``."""
        return self.clip

    @property
    def size(self) -> int:
        """The number of weights."""
        return len(self.weights)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The clip."""
        return (f"what a row's gradient becomes has l2 norm at most {self.clip:g}, by clipping",)

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss takes on trust."""
        return self.loss.trusted

    def check(self, source: Any) -> None:
        """Refuse a source whose rows ask for another number of weights, or for other labels."""
        check_weights(self.loss, self.size, source)

    def sum(self, block: Block) -> Floats:
        """Return the sum over a leaf of rows."""
        total = np.zeros(self.size)
        with np.errstate(all="ignore"):
            for part in cache_slices(len(block), self.size):
                piece = block[part]
                rows = self.contributions(each_gradient(self.loss, self.weights, piece))
                # A rule may make something of the zeros that stand for a null row.
                total += np.where(piece.present[:, None], rows, 0.0).sum(axis=0)
        return total

    def contributions(self, gradients: Floats) -> Floats:
        """Return what the function makes of each of these finite gradients, clipped."""
        result = np.empty_like(gradients)
        with quiet():
            for k, gradient in enumerate(gradients):
                result[k] = _guarded(self.function, gradient)
        return clip_rows(result, L2, self.clip)


def each_gradient(loss: Loss, weights: Floats, block: Block) -> Floats:
    """Return the gradient of each row; zeros for null rows and gradients that are not finite."""
    with np.errstate(all="ignore"):
        if isinstance(loss, MarginLoss):
            dense = block.rows.dense() if isinstance(block.rows, SparseRows) else block.rows
            rows = np.asarray(dense, dtype=float)
            result = np.asarray(loss.slope(rows @ weights, block.labels))[:, None] * rows
        else:
            assert isinstance(loss, VectorLoss)
            result = np.asarray(loss.gradients(weights, block.rows, block.labels), dtype=float)
        whole = block.present & np.isfinite(result).all(axis=1)
        return np.where(whole[:, None], result, 0.0)


def _guarded(function: Callable[[Floats], Any], gradient: Floats) -> Floats:
    """Return a function's vector for one row, or zeros: an exception would tell of the row."""
    try:
        vector = np.asarray(function(gradient.copy()), dtype=float)
    except Exception:
        return np.zeros_like(gradient)
    return vector if vector.shape == gradient.shape else np.zeros_like(gradient)
