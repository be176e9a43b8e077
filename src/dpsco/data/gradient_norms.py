"""How long gradients are: counts on a grid of clips, and the count beside a clipped sum.

Both serve clips that a run finds: `GradientNorms` asks once, before the first step, and
`TrackedGradient` in every round, for a clip that follows the gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .. import _validate
from ..errors import ParameterError
from ..geometry.norms import L2, Norm
from ..kernels.clipping import coefficients
from ..kernels.slope import smoothed_slope
from ..kernels.sums import coefficients_sum, margins
from ..losses.base import MarginLoss
from .block import Block, Floats
from .bounds import describe_norm
from .queries import (
    ClippedDifference,
    ClippedGradient,
    InUnits,
    Loss,
    Query,
    found_clip_sentence,
    vector_sum,
)

if TYPE_CHECKING:
    from .source import Source

Gradient = ClippedGradient | ClippedDifference

LIGHT = 2.0 * math.sqrt(0.05 / 0.95)
"""Weight of the indicator of `TrackedGradient` at which it takes a share of 0.05 of mu^2."""


@dataclass(frozen=True, eq=False)
class GradientNorms(Query):
    """How many rows have gradients of which length: one count for each cell of a grid of clips.

    Cell j counts lengths above ``clips[j - 1]`` and up to ``clips[j]``; the first one all lengths
    up to its clip, 0 included. A row whose gradient is longer than every clip or not finite, and a
    null row, is in no cell. A row adds 1 to one cell, so the counts are exact in any order.

    Args:
        loss: of a margin, or a vector loss.
        weights: public; where gradients are measured.
        clips: positive and increasing.
        norm: in which a row's gradient is measured.

    >>> from dpsco.data import from_arrays
    >>> from dpsco.data.bounds import Bounds
    >>> from dpsco.losses import Squared
    >>> rows = from_arrays(np.eye(3), [0.5, -3.0, 9.0]).bounded(Bounds(1.0, label=10.0))
    >>> rows.sum(GradientNorms(Squared(), np.zeros(3), [1.0, 2.0, 4.0])).tolist()
    [1.0, 0.0, 1.0]
    """

    loss: Loss
    weights: Floats
    clips: ArrayLike
    norm: Norm = L2

    def __post_init__(self) -> None:
        gradient = ClippedGradient(self.loss, self.weights, 1.0, self.norm)
        object.__setattr__(self, "weights", gradient.weights)
        clips = np.array(self.clips, dtype=float)
        if clips.ndim != 1 or not (len(clips) and clips[0] > 0 and np.all(np.diff(clips) > 0)):
            raise ParameterError("clips must be positive and increasing.", parameter="clips")
        clips.flags.writeable = False
        object.__setattr__(self, "clips", clips)

    @property
    def gradient(self) -> ClippedGradient:
        """The gradient that is measured; its clip is not used."""
        return ClippedGradient(self.loss, self.weights, 1.0, self.norm)

    @property
    def bound(self) -> float:
        """A row adds a single 1."""
        return 1.0

    @property
    def diameter(self) -> float:
        """Two rows differ in two cells at most, by 1 in each: sqrt(2), rounded up."""
        return math.sqrt(2.0)

    @property
    def size(self) -> int:
        """The number of clips."""
        return len(np.asarray(self.clips))

    @property
    def pairwise(self) -> bool:
        """As the gradient; counts are exact in any order."""
        return self.gradient.pairwise

    def sum(self, block: Block) -> Floats:
        """Return how many present rows of some leaves fall into each cell."""
        lengths = gradient_lengths(self.gradient, block)[block.present]
        cells = np.searchsorted(np.asarray(self.clips), lengths, side="left")
        return np.bincount(cells, minlength=self.size + 1)[: self.size].astype(np.float64)

    @property
    def enforced(self) -> tuple[str, ...]:
        """What one row adds."""
        norm = describe_norm(self.norm)
        return (f"a row adds 1 to one cell of a public grid of the gradients' {norm} norms",)

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss takes on trust."""
        return self.gradient.trusted

    def check(self, source: Source) -> None:
        """Refuse a source that the gradient does not fit."""
        self.gradient.check(source)


@dataclass(frozen=True, eq=False)
class TrackedGradient(Query):
    """A clipped sum in units of its clip and, as one number more, how many rows were not clipped.

    A row adds (g/C, weight b): its clipped gradient over the clip, and b = 1/2 if the gradient was
    within the clip, -1/2 if not. The vector's length is at most sqrt(1 + weight^2/4), and no better
    bound holds: gradients at the clip have that length, and two of them with opposite signs, one
    just within and one beyond, are twice that apart. An indicator of 0 or 1 in place of -1/2 or 1/2
    would take sqrt(1 + weight^2) where a row may be emptied. A null row adds zero, also to b.

    Beside a clipped sum alone the same mu takes sqrt(1 + weight^2/4) times the noise: 2.6 % more at
    the default weight, at which b takes a share of 0.05 of mu^2.

    Args:
        gradient: whose clip is the unit.
        weight: of the indicator.

    >>> from dpsco.data import from_arrays
    >>> from dpsco.data.bounds import Bounds
    >>> from dpsco.losses import Squared
    >>> rows = from_arrays(np.eye(2), [-1.0, -9.0]).bounded(Bounds(1.0, label=9.0))
    >>> query = TrackedGradient(ClippedGradient(Squared(), np.zeros(2), clip=4.0), weight=1.0)
    >>> rows.sum(query).round(9).tolist()
    [0.25, 1.0, 0.0]
    """

    gradient: Gradient
    weight: float = LIGHT

    def __post_init__(self) -> None:
        InUnits(self.gradient)  # refuses what has no clip
        object.__setattr__(self, "weight", tracking_weight(self.weight))

    @property
    def loss(self) -> Loss:
        """The loss."""
        return self.gradient.loss

    @property
    def unit(self) -> float:
        """The clip that counts as 1."""
        return self.gradient.clip

    @property
    def norm(self) -> Norm:
        """The norm in which gradients are clipped."""
        return self.gradient.norm

    @property
    def bound(self) -> float:
        """The length of the joint vector."""
        return tracked_bound(self.weight)

    @property
    def size(self) -> int:
        """The number of weights, and one for the count."""
        return self.gradient.size + 1

    @property
    def pairwise(self) -> bool:
        """As the gradient: its kernel adds the rows."""
        return self.gradient.pairwise

    def sum(self, block: Block) -> Floats:
        """Return the clipped sum of some leaves, and the sum of their indicators."""
        total, lengths = clipped_sum(self.gradient, block)
        within = np.count_nonzero(lengths[block.present] <= self.unit)
        present = np.count_nonzero(block.present)
        return np.append(total, within - 0.5 * present)  # whole halves: exact in any order

    def finish(self, total: Floats) -> Floats:
        """Return the sum in units of the clip, and the weighted count."""
        return np.append(total[:-1] / self.unit, self.weight * total[-1])

    @property
    def enforced(self) -> tuple[str, ...]:
        """That there is a clip, and what is counted."""
        return (found_clip_sentence(self.norm, self.bound),)

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss takes on trust."""
        return self.gradient.trusted

    def check(self, source: Source) -> None:
        """Refuse a source that the gradient does not fit."""
        self.gradient.check(source)


def tracking_weight(weight: float) -> float:
    """Return the weight of an indicator; refuse what is not worth a bound of its own."""
    number = _validate.positive("weight", weight)
    if not 1e-6 <= number <= 1e6:
        raise ParameterError(f"weight must lie between 1e-6 and 1e6, got {number!r}.")
    return number


def tracked_bound(weight: float = LIGHT) -> float:
    """Return the bound of `TrackedGradient`, sqrt(1 + weight^2/4), rounded up."""
    return math.nextafter(math.hypot(1.0, weight / 2.0), math.inf)


def gradient_lengths(gradient: Gradient, block: Block) -> Floats:
    """Return how long each row's gradient is before it is clipped; inf if it is not finite."""
    with np.errstate(all="ignore"):
        if isinstance(gradient.loss, MarginLoss):
            lengths = np.abs(_slopes(gradient, gradient.loss, block))
            lengths *= block.norms_in(gradient.norm)
        else:
            lengths = vector_sum(gradient, gradient.loss, block)[1]
        lengths[np.isnan(lengths)] = math.inf
        return lengths


def clipped_sum(gradient: Gradient, block: Block) -> tuple[Floats, Floats]:
    """Return a query's sum over some leaves, and how long each row's gradient was."""
    if not isinstance(gradient.loss, MarginLoss):
        return vector_sum(gradient, gradient.loss, block)
    with np.errstate(all="ignore"):
        slopes, norms = _slopes(gradient, gradient.loss, block), block.norms_in(gradient.norm)
        lengths = np.abs(slopes) * norms
        return coefficients_sum(block.rows, coefficients(slopes, norms, gradient.clip)), lengths


def _slopes(gradient: Gradient, loss: MarginLoss, block: Block) -> Floats:
    """Return the number by which each row is multiplied in its gradient, before it is cut."""
    kernel, total = loss.kernel(), np.zeros(len(block))
    for factor, weights in gradient.terms:
        total += factor * smoothed_slope(kernel, margins(block.rows, weights), block.labels)
    return total
