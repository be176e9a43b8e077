"""The mean loss over a range of rows, for a deterministic optimiser.

Its numbers are NOT private. They may only feed a mechanism that accounts for them: objective
perturbation, or an output perturbation whose theorem bounds how far one row moves the minimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._validate import non_negative, refusal, shown
from ..errors import AssumptionError, ParameterError
from ..kernels.pairwise import PairwiseSum
from ..kernels.rows import SparseRows
from ..kernels.sums import coefficients_sum, margins
from ..losses.base import MarginLoss
from ..losses.vector import VectorLoss
from .block import Block, Floats
from .labels import require_labels
from .queries import Loss, outer_sum, pieces, weight_vector

if TYPE_CHECKING:
    from .source import Source

LARGEST_HESSIAN = 4096
"""Most weights for which a Hessian is formed; beyond, use its products with vectors."""


class Objective:
    """``F(w) = 1/m sum_i f(w; x_i, y_i) + <linear, w> + ridge/2 ||w - centre||^2``.

    The sum is over the present rows of ``start`` to ``stop``; m = stop - start counts null rows
    too, so it is public. All sums are in float64, leaf by leaf, the same bits each time.

    NOT private: values, gradients and minimisers of F are those of the raw rows within their
    bounds. Only a mechanism that accounts for them may read them.

    Args:
        source: the rows.
        loss: of a margin, or a vector loss.
        start, stop: a non-empty range of rows.
        linear: a public or random vector b, such as the noise of objective perturbation.
        ridge: the strength of the quadratic term, zero or positive.
        centre: its centre; the origin by default.

    Raises:
        ParameterError: an argument is out of range or of the wrong length.

    >>> from dpsco.data import Bounds, from_arrays
    >>> from dpsco.losses.squared import Squared
    >>> rows = from_arrays([[1.0], [2.0]], [1.0, 3.0]).bounded(Bounds(4.0, label=4.0))
    >>> rows.objective(Squared(), ridge=1.0).value_and_gradient([1.0])
    (0.75, array([0.]))
    """

    def __init__(
        self,
        source: Source,
        loss: Loss,
        start: int,
        stop: int,
        *,
        linear: ArrayLike | None = None,
        ridge: float = 0.0,
        centre: ArrayLike | None = None,
    ) -> None:
        if not isinstance(loss, (MarginLoss, VectorLoss)):
            raise ParameterError(f"an objective needs a loss of dpsco.losses, got {shown(loss)}.")
        require_labels(loss, source.bounds.label)
        if start >= stop:
            raise ParameterError(f"an objective needs at least one row, got {start} to {stop}.")
        self._source, self._loss, self._range = source, loss, (start, stop)
        self._size = loss.dimension(source.d)
        self._ridge = non_negative("ridge", ridge)
        self._linear = self._vector("linear", np.zeros(self._size) if linear is None else linear)
        self._centre = self._vector("centre", np.zeros(self._size) if centre is None else centre)

    @property
    def size(self) -> int:
        """The number of weights."""
        return self._size

    @property
    def count(self) -> int:
        """m, the number of rows in the range, null rows included."""
        return self._range[1] - self._range[0]

    def value(self, weights: ArrayLike) -> float:
        """Return F; not private."""
        w = self._vector("weights", weights)
        total = self._sum(lambda block: np.array([_value(self._loss, w, block)]))
        return self._terms(float(total[0]), w)

    def gradient(self, weights: ArrayLike) -> Floats:
        """Return the gradient of F; not private."""
        return self.value_and_gradient(weights)[1]

    def value_and_gradient(self, weights: ArrayLike) -> tuple[float, Floats]:
        """Return F and its gradient in one pass over the rows; not private."""
        w = self._vector("weights", weights)

        def leaf(block: Block) -> Floats:
            return np.concatenate([[_value(self._loss, w, block)], _gradient(self._loss, w, block)])

        total = self._sum(leaf)
        gradient = total[1:] + self._linear + self._ridge * (w - self._centre)
        return self._terms(float(total[0]), w), gradient

    def hessian_product(self, weights: ArrayLike, vector: ArrayLike) -> Floats:
        """Return the Hessian of F times a vector; not private.

        Raises:
            AssumptionError: the loss has no second derivative to offer.
        """
        w, v = self._vector("weights", weights), self._vector("vector", vector)
        total = self._sum(lambda block: _hessian_product(self._loss, w, v, block))
        return total + self._ridge * v

    def hessian(self, weights: ArrayLike) -> Floats:
        """Return the Hessian of F as a matrix; not private.

        Raises:
            AssumptionError: the loss has no second derivative to offer.
            ParameterError: there are more than LARGEST_HESSIAN weights.
        """
        w = self._vector("weights", weights)
        if self._size > LARGEST_HESSIAN:
            raise ParameterError(
                f"a Hessian of {self._size} weights is not formed (the limit is "
                f"{LARGEST_HESSIAN}). Use hessian_product."
            )
        loss = self._loss
        if isinstance(loss, MarginLoss):
            answer = self._sum(lambda block: _hessian(loss, w, block))
        else:
            answer = np.stack(
                [
                    self._sum(lambda block, e=unit: _hessian_product(loss, w, e, block))  # type: ignore[misc]
                    for unit in np.eye(self._size)
                ]
            )
        return answer + self._ridge * np.eye(self._size)

    def _sum(self, leaf: Callable[[Block], Floats]) -> Floats:
        """Return the mean of a function of leaves over the range."""
        total = PairwiseSum()
        with np.errstate(all="ignore"):
            for block in self._source.blocks(*self._range):
                total.add(leaf(block))
            return total.result() / self.count

    def _terms(self, mean: float, w: Floats) -> float:
        """Return F from the mean loss."""
        with np.errstate(all="ignore"):
            value = mean + float(self._linear @ w)
            if self._ridge == 0.0:  # rather than 0 times a square that overflows
                return value
            away = w - self._centre
            return value + 0.5 * self._ridge * float(away @ away)

    def _vector(self, name: str, values: ArrayLike) -> Floats:
        """Return a vector with one number a weight."""
        answer = weight_vector(name, values)
        if len(answer) != self._size:
            raise refusal(
                name,
                f"must have {self._size} numbers, as {self._loss.name} needs for rows of "
                f"{self._source.d} columns; got {len(answer)}.",
            )
        return answer

    def __repr__(self) -> str:
        start, stop = self._range
        return f"<Objective: {self._loss.name} over rows {start} to {stop}; not private>"


def _value(loss: Loss, w: Floats, block: Block) -> float:
    """Return the sum of the losses of the present rows of a leaf."""
    if isinstance(loss, MarginLoss):
        values = loss.value(margins(block.rows, w), block.labels)
    else:
        parts = pieces(block, len(w), rank_one=loss.rank_one)
        answer = [loss.value(w, block.rows[part], block.labels[part]) for part in parts]
        values = np.concatenate(answer)
    return float(np.sum(np.where(block.present & ~np.isnan(values), values, 0.0)))


def _gradient(loss: Loss, w: Floats, block: Block) -> Floats:
    """Return the sum of the gradients of the present rows of a leaf."""
    if isinstance(loss, MarginLoss):
        slopes = loss.slope(margins(block.rows, w), block.labels)
        return coefficients_sum(block.rows, _counted(slopes, block))
    total = np.zeros(len(w))
    for part in pieces(block, len(w), rank_one=loss.rank_one):
        piece = block[part]
        if loss.rank_one:
            answer = loss.coefficients(w, piece.rows, piece.labels)
            total += outer_sum(piece.rows, _counted(answer, piece))
        else:
            total += _counted(loss.gradients(w, piece.rows, piece.labels), piece).sum(axis=0)
    return total


def _counted(answer: Floats, block: Block) -> Floats:
    """Return slopes or gradients, one per row, 0 for null rows and where one is not finite.

    So do the clipped sums: it is a rule for the row alone, and no row can spoil the others.
    """
    fine = np.isfinite(answer) if answer.ndim == 1 else np.isfinite(answer).all(axis=1)
    fine &= block.present
    return np.where(fine if answer.ndim == 1 else fine[:, None], answer, 0.0)


def _hessian_product(loss: Loss, w: Floats, v: Floats, block: Block) -> Floats:
    """Return the sum of the Hessians of a leaf times a vector; null rows are zero in it."""
    if isinstance(loss, MarginLoss):
        curvature = _counted(loss.curvature(margins(block.rows, w), block.labels), block)
        return coefficients_sum(block.rows, curvature * margins(block.rows, v))
    if loss.structure.kind == "constant_hessian":
        return v * float(np.count_nonzero(block.present))
    product: Any = getattr(loss, "hessian_product", None)
    if product is None:
        raise AssumptionError(
            f"a Hessian is needed, but {loss.name} gives only gradients. Use a first-order "
            "optimiser, or a loss of the catalogue."
        )
    return np.asarray(product(w, block.rows, v), dtype=float)


def _hessian(loss: MarginLoss, w: Floats, block: Block) -> Floats:
    """Return the sum of the Hessians of a leaf."""
    curvature = _counted(loss.curvature(margins(block.rows, w), block.labels), block)
    rows = block.rows
    if isinstance(rows, SparseRows):
        matrix = rows.matrix().astype(np.float64)
        return np.asarray((matrix.T @ matrix.multiply(curvature[:, None]).tocsr()).toarray())
    dense = np.asarray(rows, dtype=np.float64)
    return np.asarray(dense.T @ (dense * curvature[:, None]))
