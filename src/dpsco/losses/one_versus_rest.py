"""One-versus-rest: a margin loss of a sign for each class, summed, as one loss with one budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._validate import integer, positive
from ..errors import ParameterError
from ..kernels.rows import Rows
from .base import Constants, Floats, Hoelder, MarginLoss
from .vector import ClassLoss, Structure


@dataclass(frozen=True)
class OneVersusRest(ClassLoss):
    """``sum over classes k of phi(<w_k, x>, +1 if y = k else -1)`` for y in 0..classes-1.

    The w_k are the columns of W, and a row is predicted to be of the class with the largest score.
    A row's gradient is the outer product of x and the slopes of its classes, so one row moves all
    classes at once: the bound, the noise and the budget are those of the sum, never one for each
    class. A class whose slope is not finite makes the row's gradient 0.

    Args:
        loss: of a sign, such as Hinge() or Logistic().
        classes: how many, at least 2.

    Raises:
        ParameterError: the loss reads no signs, or there are fewer than two classes.

    >>> from dpsco.losses.hinge import Hinge
    >>> OneVersusRest(Hinge(), 3).coefficients(np.zeros(6), np.eye(2), [0, 2]).tolist()
    [[-1.0, 1.0, 1.0], [1.0, 1.0, -1.0]]
    """

    loss: MarginLoss
    classes: int

    def __post_init__(self) -> None:
        if not isinstance(self.loss, MarginLoss) or self.loss.labels != "sign":
            raise ParameterError(
                "OneVersusRest needs a loss of a sign, because a class is either the row's or not; "
                f"got {self.loss!r}. Pass Hinge() or Logistic(), or use Softmax(classes)."
            )
        object.__setattr__(self, "classes", integer("classes", self.classes, at_least=2))

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the margin loss takes on trust."""
        return self.loss.trusted

    @property
    def structure(self) -> Structure:
        """Gradients of one row lie in the span of x times any of the classes' slopes."""
        return Structure("subspace", 2 * self.classes, self.classes, self.classes)

    def value(self, weights: ArrayLike, X: Rows, y: ArrayLike | None = None) -> Floats:
        """Return the sum of the classes' losses, for each row."""
        scores = self.scores(weights, X)
        with np.errstate(invalid="ignore", over="ignore"):
            result = self.loss.value(scores, self._signs(y, len(scores)))
            return np.asarray(np.sum(result, axis=1))

    def coefficients_at(self, scores: Floats, y: ArrayLike | None = None) -> Floats:
        """Return the slope of each class, as (rows, classes)."""
        with np.errstate(invalid="ignore", over="ignore"):
            result = np.array(self.loss.slope(scores, self._signs(y, len(scores))), order="F")
        result[~np.isfinite(result).all(axis=1)] = 0.0
        return result

    def settled(self, wrong: float) -> float:
        """Return the steepest slope of one class for a row that is half wrong: the others fit."""
        return 2.0 * wrong * self.loss.slope_bound(1.0, math.inf)

    def constants(
        self, *, feature: float, label: float = 1.0, radius: float = math.inf
    ) -> Constants:
        """Return the facts that a plan needs; ``radius`` bounds the Frobenius norm of W.

        The slopes of all classes can be at their bound together: Lipschitz constants grow with
        sqrt(classes); attained at the origin and in the limit. The Hessian is block diagonal, so
        its norm is that of one class. For a Hoelder exponent a < 1 the classes share a step:
        ``sum |s_k|^(2a) <= classes^(1-a) (sum s_k^2)^a``.
        """
        feature = positive("feature", feature)
        one = self.loss.constants(feature=feature, radius=radius)
        root, alpha = math.sqrt(self.classes), one.hoelder.alpha
        shared = math.pow(self.classes, 0.5 * (1.0 - alpha))
        return Constants(
            lipschitz=root * one.lipschitz,
            smoothness=one.smoothness,
            strong_convexity=0.0,
            weak_convexity=one.weak_convexity,
            hoelder=Hoelder(alpha, shared * one.hoelder.constant),
            gradient_at_zero=root * one.gradient_at_zero,
            value_at_zero=self.classes * one.value_at_zero,
            curvature=one.curvature,
            hessian_rank=self.classes,
            convex=one.convex,
        )

    def _signs(self, y: ArrayLike | None, rows: int) -> Floats:
        """Return +1 at a row's class and -1 elsewhere, as (rows, classes)."""
        index = self.numbers(y, rows)
        return np.where(index[:, None] == np.arange(self.classes), 1.0, -1.0)
