"""Gradients that are bounded in other ways than by their l2 norm, row by row.

`TruncatedGradient` cuts every coordinate, which keeps the mean where single coordinates have heavy
tails. `TransformedGradient` takes a user's own rule for rows; what it returns is clipped, so that
the stated bound holds whatever the rule does.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ParameterError
from ..geometry.norms import L2
from ..kernels.rows import SparseRows
from ..losses.base import MarginLoss
from ..losses.guarded import quiet
from ..losses.vector import VectorLoss
from .block import Block, Floats
from .labels import require_labels
from .queries import Loss, Query, weight_vector
from .row_norms import cache_slices, check_limit, clip_rows

_UP = 1.0 + 2.0**-50


class _EachGradient(Query):
    """What the queries of this module share: they form the gradient of every row."""

    loss: Loss
    weights: Floats

    @property
    def size(self) -> int:
        """The number of weights."""
        return len(self.weights)

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss takes on trust."""
        return self.loss.trusted

    def check(self, source: Any) -> None:
        """Refuse a source whose rows ask for another number of weights, or for other labels."""
        require_labels(self.loss, source.bounds.label)
        if self.size != (weights := self.loss.dimension(source.d)):
            raise ParameterError(
                f"{self.loss.name} needs {weights} weights for rows of {source.d} columns (the "
                f"intercept included), got {self.size}."
            )

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

    @abstractmethod
    def contributions(self, gradients: Floats) -> Floats:
        """Return what rows with these finite gradients add; none is longer than the bound."""


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


@dataclass(frozen=True, eq=False)
class TruncatedGradient(_EachGradient):
    """The loss's gradient at ``weights``, every coordinate cut to ``[-threshold, threshold]``.

    A row adds at most sqrt(d) times the threshold, in l2. A row whose gradient is not finite, and a
    null row, add zero.
    """

    loss: Loss
    weights: Floats
    threshold: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", check_limit("threshold", self.threshold))
        object.__setattr__(self, "weights", weight_vector("weights", self.weights))

    @property
    def bound(self) -> float:
        """sqrt(d) times the threshold, rounded up."""
        return truncation_bound(self.threshold, self.size)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The threshold."""
        return (
            f"a coordinate of a row's gradient is at most {self.threshold:g}, by truncation, so "
            f"that its l2 norm is at most {self.bound:g}",
        )

    def contributions(self, gradients: Floats) -> Floats:
        """Return the gradients with their coordinates cut."""
        return np.clip(gradients, -self.threshold, self.threshold)


def truncation_bound(threshold: float, size: int) -> float:
    """Return the l2 bound on a vector whose coordinates are cut at a threshold."""
    return threshold * math.sqrt(size) * _UP


@dataclass(frozen=True, eq=False)
class TransformedGradient(_EachGradient):
    """A user's function of each row's gradient at ``weights``; its result is clipped to ``clip``.

    ``function`` maps gradients, one a row, to as many vectors. It is called with one row at a time,
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
    def enforced(self) -> tuple[str, ...]:
        """The clip."""
        return (f"what a row's gradient becomes has l2 norm at most {self.clip:g}, by clipping",)

    def contributions(self, gradients: Floats) -> Floats:
        """Return what the function makes of each gradient, clipped."""
        result = np.empty_like(gradients)
        with quiet():
            for k, gradient in enumerate(gradients):
                result[k] = _guarded(self.function, gradient)
        return clip_rows(result, L2, self.clip)


def _guarded(function: Callable[[Floats], Any], gradient: Floats) -> Floats:
    """Return a function's vector for one row, or zeros: an exception would tell of the row."""
    try:
        vector = np.asarray(function(gradient.copy()), dtype=float)
    except Exception:
        return np.zeros_like(gradient)
    return vector if vector.shape == gradient.shape else np.zeros_like(gradient)
