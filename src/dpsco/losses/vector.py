"""Losses that are no function of one margin: mean estimation and multinomial logistic regression.

A vector loss gives values and gradients row by row, exact constants, and the structure of its
Hessians that objective perturbation asks for. Where a row's gradient is an outer product of the row
with a few coefficients (`Softmax`), `coefficients` gives these, so that sums need no gradient per
row: the sum is ``X^T C`` and the norm of row i's gradient is ``||x_i|| ||c_i||``.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import integer, positive, real
from ..errors import ParameterError
from ..kernels.rows import Rows, SparseRows
from .base import AnyLoss, Constants, Floats, Hoelder

FULL_RANK = sys.maxsize
"""A Hessian's rank where only the dimension limits it; take the smaller of the two."""


@dataclass(frozen=True)
class Structure:
    """What is known of all Hessians at once, whatever the rows.

    "constant_hessian": ``f(w, z) = h(w) - <a(z), w> + c(z)`` with h public; a minimiser depends on
    the rows through the sum of a(z) alone. "subspace": the gradient of one row stays in a subspace
    of dimension ``zero_out`` for all w, the difference of two rows' gradients in one of dimension
    ``replace``, and one row's Hessian has at most rank ``rank``. "general": only the rank is known.
    """

    kind: Literal["constant_hessian", "subspace", "general"]
    replace: int = FULL_RANK
    zero_out: int = FULL_RANK
    rank: int = FULL_RANK


class VectorLoss(AnyLoss, ABC):
    """A loss f(w, x, y) with a gradient per row."""

    labels: ClassVar[Literal["none", "classes", "any"]] = "any"
    """"none": it reads no labels; "classes": declared ones, numbered; "any": whatever there is."""

    rank_one: ClassVar[bool] = False
    """Whether `coefficients` are offered."""

    @property
    @abstractmethod
    def structure(self) -> Structure:
        """The structure of the Hessians."""

    @abstractmethod
    def value(self, weights: ArrayLike, X: Rows, y: ArrayLike | None = None) -> Floats:
        """Return the loss of each row."""

    @abstractmethod
    def gradients(self, weights: ArrayLike, X: Rows, y: ArrayLike | None = None) -> Floats:
        """Return the gradient of each row, as (rows, weights)."""

    def coefficients(self, weights: ArrayLike, X: Rows, y: ArrayLike | None = None) -> Floats:
        """Return C with row i's gradient the outer product of x_i and C_i, flattened."""
        raise NotImplementedError(f"{self.name} has no rank-one gradients")

    def settled(self, wrong: float) -> float:
        """Return the longest gradient, for a row of norm 1, of a row at most so ``wrong`` (0 to 1).

        Infinite where the loss cannot tell. Default clips use it; no guarantee rests on it.
        """
        return math.inf

    @abstractmethod
    def constants(
        self, *, feature: float, label: float = 1.0, radius: float = math.inf
    ) -> Constants:
        """Return the facts that a plan needs; lengths are Euclidean."""


@dataclass(frozen=True)
class SquaredDistance(VectorLoss):
    """``1/2 ||w - x||^2``: its minimiser over rows is their mean. Labels are ignored.

    >>> SquaredDistance().gradients([1.0, 2.0], np.array([[0.0, 0.5]]))
    array([[1. , 1.5]])
    """

    labels = "none"

    @property
    def structure(self) -> Structure:
        """Constant Hessian: the identity; a(z) = x, at most the feature bound long."""
        return Structure("constant_hessian")

    def value(self, weights: ArrayLike, X: Rows, y: ArrayLike | None = None) -> Floats:
        """Return half the squared distance of each row."""
        difference = self.gradients(weights, X)
        return np.asarray(0.5 * np.einsum("ij,ij->i", difference, difference))

    def gradients(self, weights: ArrayLike, X: Rows, y: ArrayLike | None = None) -> Floats:
        """Return w - x for each row x."""
        w = _weights(self, weights, X)
        dense = X.dense() if isinstance(X, SparseRows) else X
        return np.asarray(w - np.asarray(dense, dtype=float))

    def constants(
        self, *, feature: float, label: float = 1.0, radius: float = math.inf
    ) -> Constants:
        """Return strong convexity 1, smoothness 1, Lipschitz feature + radius (attained)."""
        feature, radius = positive("feature", feature), _radius(radius)
        return Constants(
            lipschitz=feature + radius,
            smoothness=1.0,
            strong_convexity=1.0,
            weak_convexity=0.0,
            hoelder=Hoelder(1.0, 1.0),
            gradient_at_zero=feature,
            value_at_zero=0.5 * feature * feature,
            curvature=1.0,
            hessian_rank=FULL_RANK,
            convex=True,
        )


class ClassLoss(VectorLoss):
    """A loss of the scores W^T x of the classes, one of which is the row's.

    The weights are the (d, classes) matrix W, flattened row by row, and a row's gradient is the
    outer product of x with one coefficient for each class. A label that is no class counts as the
    nearest one: bounds are enforced where rows are read, this only keeps the answer defined.
    """

    classes: int
    labels = "classes"
    rank_one: ClassVar[bool] = True

    def dimension(self, d: int) -> int:
        """Return d * classes."""
        return d * self.classes

    def gradients(self, weights: ArrayLike, X: Rows, y: ArrayLike | None = None) -> Floats:
        """Return the gradient of each row, as (rows, d * classes)."""
        dense = X.dense() if isinstance(X, SparseRows) else X
        coefficients = self.coefficients(weights, X, y)
        outer = np.einsum("ij,ik->ijk", np.asarray(dense, dtype=float), coefficients)
        return np.asarray(outer.reshape(len(outer), outer.shape[1] * outer.shape[2]))

    def scores(self, weights: ArrayLike, X: Rows) -> Floats:
        """Return X W, as (rows, classes)."""
        matrix = _weights(self, weights, X).reshape(X.shape[1], self.classes)
        with np.errstate(invalid="ignore", over="ignore"):
            if isinstance(X, SparseRows):
                return np.asarray(X.matrix() @ matrix, dtype=float)
            scores: Floats = matrix.T @ np.asarray(X, dtype=float).T
            return np.asarray(scores.T)

    def rough_scores(self, weights: ArrayLike, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return X W in single precision, for dense rows that have no more."""
        matrix = _weights(self, weights, X).reshape(X.shape[1], self.classes)
        with np.errstate(all="ignore"):
            return np.asarray((matrix.T.astype(np.float32) @ X.T).T, dtype=np.float32)

    @abstractmethod
    def coefficients_at(self, scores: NDArray[Any], y: ArrayLike | None = None) -> NDArray[Any]:
        """Return the coefficients of rows that have these scores, in the precision of those."""

    def coefficients(self, weights: ArrayLike, X: Rows, y: ArrayLike | None = None) -> Floats:
        """Return the coefficient of each class, as (rows, classes)."""
        return self.coefficients_at(self.scores(weights, X), y)

    def numbers(self, y: ArrayLike | None, rows: int) -> Any:
        """Return the labels as class numbers, whatever they hold."""
        if y is None or np.shape(y) != (rows,):
            raise ParameterError(
                f"{self.name} needs one label a row, {rows} in all; got "
                f"{'none' if y is None else f'shape {np.shape(y)}'}."
            )
        numbers = np.fmax(np.rint(np.asarray(y, dtype=float)), 0.0)  # fmax turns NaN into 0
        return np.minimum(numbers, self.classes - 1.0).astype(np.int64)


@dataclass(frozen=True)
class Softmax(ClassLoss):
    """Multinomial logistic regression: ``logsumexp(W^T x) - (W^T x)_y`` for y in 0..classes-1.

    With p the class probabilities
    a row's gradient is the outer product of x and ``p - e_y``. Its Hessian is
    ``x x^T (x) (diag p - p p^T)``, of rank classes - 1; the second factor maps (1, ..., 1) to 0,
    and its largest eigenvalue is at most ``min(1/2, max p)``.

    A row whose scores overflow has gradient 0.
    """

    classes: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", integer("classes", self.classes, at_least=2))

    @property
    def structure(self) -> Structure:
        """Gradients of one row lie in x times the coefficients that sum to 0: p - e_y does."""
        free = self.classes - 1
        return Structure("subspace", 2 * free, free, free)

    def value(self, weights: ArrayLike, X: Rows, y: ArrayLike | None = None) -> Floats:
        """Return the negative log-likelihood of each row."""
        scores = self.scores(weights, X)
        index = self.numbers(y, len(scores))
        with np.errstate(invalid="ignore", over="ignore"):
            top = np.max(scores, axis=1)
            total = np.log(np.sum(np.exp(scores - top[:, None]), axis=1))
            return np.asarray(total + (top - scores[np.arange(len(scores)), index]))

    def coefficients_at(self, scores: NDArray[Any], y: ArrayLike | None = None) -> NDArray[Any]:
        """Return p - e_y for each row, as (rows, classes)."""
        result = np.ascontiguousarray(scores.T)  # sums over the first axis are the fast ones
        index = self.numbers(y, result.shape[1])
        with np.errstate(invalid="ignore", over="ignore"):
            result -= np.max(result, axis=0)
            np.exp(result, out=result)
            result /= np.sum(result, axis=0)
        # p_y - 1 is minus the sum of the others; a subtraction would lose it near p_y = 1
        result[index, np.arange(len(index))] = 0.0
        others = np.sum(result, axis=0)
        result[index, np.arange(len(index))] = -others
        result[:, ~np.isfinite(others)] = 0.0  # one that is not finite spoils the sum
        return np.asarray(result.T)

    def hessian_product(self, weights: ArrayLike, X: Rows, vector: ArrayLike) -> Floats:
        """Return (sum of the rows' Hessians) times ``vector``; labels play no part in it."""
        scores, along = self.scores(weights, X), self.scores(vector, X)
        with np.errstate(all="ignore"):
            p = np.exp(scores - np.max(scores, axis=1, keepdims=True))
            p /= np.sum(p, axis=1, keepdims=True)
            change = p * (along - np.sum(p * along, axis=1, keepdims=True))
        change[~np.isfinite(change).all(axis=1)] = 0.0  # scores that overflow: as in the gradients
        matrix = X.matrix() if isinstance(X, SparseRows) else np.asarray(X, dtype=float)
        return np.asarray(matrix.T @ change).reshape(-1)

    def settled(self, wrong: float) -> float:
        """Return sqrt 2 times ``wrong``: with 1 - p_y = a, ``||p - e_y||^2 <= a^2 + a^2``."""
        return math.sqrt(2.0) * wrong

    def coefficient_bound(self, margin: float) -> float:
        """Return a bound on ``||p - e_y||`` where the scores' Euclidean norm is at most ``margin``.

        With ``a = 1 - p_y`` the squared norm is ``a^2 + sum of the other p_j^2``, at most
        ``a^2 + a min(a, max p_j)``. Scores differ by at most ``sqrt 2 margin``, so
        ``a <= s / (1 + s)`` with ``s = (classes - 1) exp(sqrt 2 margin)``. The bound is attained at
        margin 0 (``sqrt((K - 1) / K)``), for two classes, and in the limit (``sqrt 2``).
        """
        others = self.classes - 1
        wrong = 1.0 / (1.0 + math.exp(-math.sqrt(2.0) * margin) / others)
        return math.sqrt(wrong * (wrong + min(wrong, self.largest_probability(margin))))

    def largest_probability(self, margin: float) -> float:
        """Return sup of any p_j where the scores' Euclidean norm is at most ``margin``.

        ``1/p_j - 1`` is a sum of ``classes - 1`` exponentials, by Jensen's inequality least when
        all other scores are equal: ``(K - 1) exp(-margin sqrt(K / (K - 1)))``.
        """
        others = self.classes - 1
        return 1.0 / (1.0 + others * math.exp(-margin * math.sqrt(self.classes / others)))

    def constants(
        self, *, feature: float, label: float = 1.0, radius: float = math.inf
    ) -> Constants:
        """Return the facts that a plan needs; ``radius`` bounds the Frobenius norm of W."""
        feature = positive("feature", feature)
        margin = feature * _radius(radius)  # ||W^T x|| <= ||W||_F ||x||
        curvature = min(0.5, self.largest_probability(margin))
        return Constants(
            lipschitz=feature * self.coefficient_bound(margin),
            smoothness=feature * (feature * curvature),
            strong_convexity=0.0,
            weak_convexity=0.0,
            hoelder=Hoelder(1.0, 0.5 * feature * feature),
            gradient_at_zero=feature * self.coefficient_bound(0.0),
            value_at_zero=math.log(self.classes),
            curvature=curvature,
            hessian_rank=self.classes - 1,
            convex=True,
        )


def _weights(loss: VectorLoss, weights: ArrayLike, X: Rows) -> Floats:
    """Return the weights as a vector of the length that the rows ask for."""
    if len(X.shape) != 2:
        raise ParameterError(f"{loss.name} needs rows as a matrix, got shape {X.shape}.")
    result, size = np.asarray(weights, dtype=float), loss.dimension(X.shape[1])
    if result.shape != (size,):
        raise ParameterError(
            f"{loss.name} needs {size} weights for rows of {X.shape[1]} features, "
            f"got shape {result.shape}."
        )
    return result


def _radius(radius: float) -> float:
    """Return a radius of 0 or more, which may be infinite."""
    result = real("radius", radius)
    if result < 0.0:
        raise ParameterError(f"radius must be zero or positive, got {result!r}.")
    return result
