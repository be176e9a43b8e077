"""What rows say of the scale of a model's scores and of its intercepts: a few numbers, not all.

A linear model that was fitted under noise ranks rows better than it says how sure they are. Along
``weights(a, b) = a * along + b * offset`` the loss is a function of a factor a, which all scores
share, and of one intercept b per class. Its gradient is a linear image of the row's gradient, of
so few numbers that noise on it is small. ``along`` and ``offset`` say in which units a and b are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._validate import non_negative
from ..errors import ParameterError
from ..geometry.norms import L2, Norm
from ..kernels.rows import SparseRows
from ..kernels.slope import smoothed_slope
from ..kernels.sums import margins
from ..losses.base import MarginLoss
from ..losses.vector import ClassLoss
from .block import Block, Floats
from .bounds import describe_norm
from .queries import Loss, Query, check_weights, pieces, weight_vector
from .row_norms import check_limit, clip_rows

if TYPE_CHECKING:
    from .source import Source


@dataclass(frozen=True, eq=False)
class ScoreGradient(Query):
    """The loss's gradient in a factor of the scores and in the intercepts, clipped row by row.

    A row whose gradient is not finite, and a null row, contribute zero.

    Args:
        loss: of a margin, or of the scores of classes.
        weights: public; where the gradient is taken. The intercepts are the last ones.
        along: public; the derivative of the weights in the factor.
        offset: the derivative of an intercept's weight in the intercept; 0 if there is none.
        clip: the l2 bound on one row.

    Raises:
        ParameterError: an argument is out of range, or the vectors are not finite.
    """

    loss: Loss
    weights: Floats
    along: Floats
    offset: float
    clip: float
    norm: Norm = L2

    def __post_init__(self) -> None:
        if not isinstance(self.loss, (MarginLoss, ClassLoss)):
            raise ParameterError("ScoreGradient needs a loss of a margin, or of classes' scores.")
        for name in ("weights", "along"):
            object.__setattr__(self, name, weight_vector(name, getattr(self, name)))
        if len(self.weights) != len(self.along):
            raise ParameterError("weights and along must be equally long.")
        object.__setattr__(self, "offset", non_negative("offset", self.offset))
        object.__setattr__(self, "clip", check_limit("clip", self.clip))

    @property
    def bound(self) -> float:
        """``clip``."""
        return self.clip

    @property
    def outputs(self) -> int:
        """How many scores a row has."""
        return self.loss.classes if isinstance(self.loss, ClassLoss) else 1

    @property
    def size(self) -> int:
        """One number for the factor, and one for each intercept."""
        return 1 + (self.outputs if self.offset else 0)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The clip."""
        norm = describe_norm(self.norm)
        return (
            f"a row's gradient in the scale of scores and the intercepts has {norm} norm at most "
            f"{self.clip:g}, by clipping",
        )

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss takes on trust."""
        return self.loss.trusted

    def check(self, source: Source) -> None:
        """Refuse a source whose rows ask for another number of weights, or for other labels."""
        check_weights(self.loss, len(self.weights), source)

    def sum(self, block: Block) -> Floats:
        """Return the sum of the clipped gradients of a leaf."""
        total = np.zeros(self.size)
        for part in pieces(block, len(self.weights), rank_one=True):
            total += self.contributions(block[part]).sum(axis=0)
        return total

    def contributions(self, block: Block) -> Floats:
        """Return what each row adds, as (rows, size)."""
        with np.errstate(all="ignore"):  # a warning could tell something of the rows
            slopes, scores = self._slopes(block), self._scores(block)
            # Column after column: NumPy is slow where short rows are all it works along.
            gradients = np.empty((len(block), self.size), order="F")
            np.sum(slopes * scores, axis=1, out=gradients[:, 0])
            if self.offset:
                np.multiply(self.offset * _last_column(block), slopes, out=gradients[:, 1:])
            gradients[~block.present] = 0.0
            return clip_rows(gradients, self.norm, self.clip)

    def lift(self, answer: Floats) -> Floats:
        """Return the weights that a step along an answer moves, and how far."""
        moved = answer[0] * self.along
        if self.offset:
            moved[-self.outputs :] += self.offset * answer[1:]
        return np.asarray(moved)

    def _slopes(self, block: Block) -> Floats:
        """Return the loss's derivatives in the scores, as (rows, outputs)."""
        if isinstance(self.loss, ClassLoss):
            scores = _class_scores(self.loss, self.weights, block)
            return np.asarray(self.loss.coefficients_at(scores, block.labels), dtype=float)
        assert isinstance(self.loss, MarginLoss)
        margin = margins(block.rows, self.weights)
        return np.asarray(smoothed_slope(self.loss.kernel(), margin, block.labels))[:, None]

    def _scores(self, block: Block) -> Floats:
        """Return the derivatives of the scores in the factor, likewise."""
        if isinstance(self.loss, ClassLoss):
            return np.asarray(_class_scores(self.loss, self.along, block), dtype=float)
        return margins(block.rows, self.along)[:, None]


def _class_scores(loss: ClassLoss, weights: Floats, block: Block) -> NDArray[Any]:
    """Return the scores of classes, in single precision where rows can be had so.

    What a row adds is clipped after that, so no bound rests on how exact they are.
    """
    rough = block.single()
    return loss.scores(weights, block.rows) if rough is None else loss.rough_scores(weights, rough)


def _last_column(block: Block) -> Floats:
    """Return the intercept's column: zero in null rows."""
    rows = block.rows
    if isinstance(rows, SparseRows):
        return np.asarray(rows.matrix()[:, [-1]].toarray(), dtype=np.float64)
    return np.asarray(rows[:, -1:], dtype=np.float64)
