"""Bounded queries: what one row adds to a sum, never more than ``bound`` in the query's norm.

A query is a frozen, picklable record. It says how large one row's contribution can be; the
adjacency turns that bound into a sensitivity, and the ledger reads it. The bound holds in exact
arithmetic for the coefficients that are summed; the rounding of the sum itself is allowed for by
`dpsco.kernels.pairwise.rounding_slack`.

For losses of a margin, a row's gradient is a number times the row, so a clipped sum needs one
product for the margins and one for the sum, and no gradient per row is ever formed. The same holds,
with one number per class, for losses with ``rank_one``; other vector losses are clipped in pieces.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._validate import real, refusal, shown
from ..errors import ParameterError
from ..geometry.norms import L2, Lp, Norm
from ..kernels.clipping import TINY
from ..kernels.rows import Rows, SparseRows
from ..kernels.slope import smoothed_slope
from ..kernels.sums import margins, slope_difference_sum, slope_sum
from ..losses.base import MarginLoss
from ..losses.vector import ClassLoss, VectorLoss
from .block import Block, Floats
from .bounds import describe_norm
from .labels import require_labels
from .row_norms import cache_slices, check_limit, clipped_with_norms, upper_norms

if TYPE_CHECKING:
    from .source import Source

Loss = MarginLoss | VectorLoss
Term = tuple[float, Floats]  # a factor, and the weights whose gradient it multiplies


class Query(ABC):
    """What a row contributes to a sum."""

    @property
    @abstractmethod
    def bound(self) -> float:
        """The most that one row can contribute."""

    @property
    def diameter(self) -> float | None:
        """How far apart two rows' contributions can be, where less than twice the bound."""
        return None

    @property
    @abstractmethod
    def size(self) -> int:
        """The length of the answer."""

    @property
    def pairwise(self) -> bool:
        """Whether `sum` takes many leaves as well, and combines them pairwise.

        `dpsco.kernels.pairwise.rounding_slack` covers no sum of more rows one after the other.
        """
        return False

    @abstractmethod
    def sum(self, block: Block) -> Floats:
        """Return the sum over a leaf of rows."""

    def finish(self, total: Floats) -> Floats:
        """Return the answer, a linear function of the sums over all leaves."""
        return total

    @property
    @abstractmethod
    def enforced(self) -> tuple[str, ...]:
        """What the query enforces, in sentences for a certificate."""

    @property
    @abstractmethod
    def trusted(self) -> tuple[str, ...]:
        """What it takes on trust, likewise."""

    @abstractmethod
    def check(self, source: Source) -> None:
        """Refuse a source whose rows have another length."""


class _Clipped(Query):
    """What the gradient queries share: one row contributes at most ``clip`` in ``norm``."""

    loss: Loss
    clip: float
    norm: Norm

    @property
    @abstractmethod
    def terms(self) -> tuple[Term, ...]:
        """The gradients that a row combines: a factor and the weights for each."""

    @property
    def bound(self) -> float:
        """``clip``."""
        return self.clip

    @property
    def enforced(self) -> tuple[str, ...]:
        """The clip."""
        norm = describe_norm(self.norm)
        return (f"a row's gradient has {norm} norm at most {self.clip:g}, by clipping",)

    @property
    def pairwise(self) -> bool:
        """True for losses of a margin, whose kernels see to it."""
        return isinstance(self.loss, MarginLoss)

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss takes on trust."""
        return self.loss.trusted

    def check(self, source: Source) -> None:
        """Refuse a source whose rows ask for another number of weights, or for other labels."""
        check_weights(self.loss, self.size, source)


@dataclass(frozen=True, eq=False)
class ClippedGradient(_Clipped):
    """The loss's gradient at ``weights``, each row's rescaled to at most ``clip`` in ``norm``.

    A row whose gradient is not finite, and a null row, contribute zero.

    Args:
        loss: of a margin, or a vector loss.
        weights: public; as many as the loss asks for.
        clip: the bound on one row, between 1e-100 and 1e100.
        norm: in which a row's gradient is measured.

    Raises:
        ParameterError: an argument is out of range, or the weights are not finite.
    """

    loss: Loss
    weights: Floats
    clip: float
    norm: Norm = L2

    def __post_init__(self) -> None:
        _check(self, ("weights",))

    @property
    def terms(self) -> tuple[Term, ...]:
        """The gradient itself."""
        return ((1.0, self.weights),)

    @property
    def size(self) -> int:
        """The number of weights."""
        return len(self.weights)

    def sum(self, block: Block) -> Floats:
        """Return the sum of the clipped gradients of a leaf."""
        if isinstance(self.loss, MarginLoss):
            return slope_sum(
                block.rows,
                block.labels,
                block.norms_in(self.norm),
                self.loss.kernel(),
                self.weights,
                self.clip,
            )
        return vector_sum(self, self.loss, block)[0]


@dataclass(frozen=True, eq=False)
class ClippedDifference(_Clipped):
    """``first_factor * gradient(first) - second_factor * gradient(second)``, clipped as one.

    The two gradients of a row are combined before they are clipped: that is what telescoping sums
    of differences rest on. Arguments otherwise as in `ClippedGradient`.
    """

    loss: Loss
    first: Floats
    second: Floats
    first_factor: float
    second_factor: float
    clip: float
    norm: Norm = L2

    def __post_init__(self) -> None:
        _check(self, ("first", "second"))
        for name in ("first_factor", "second_factor"):
            factor = real(name, getattr(self, name))
            if not math.isfinite(factor):
                raise refusal(name, f"must be finite, got {factor!r}.")
            object.__setattr__(self, name, factor)
        if len(self.first) != len(self.second):
            raise ParameterError(
                f"first and second must be equally long, got {len(self.first)} and "
                f"{len(self.second)} weights."
            )

    @property
    def terms(self) -> tuple[Term, ...]:
        """Both gradients, the second subtracted."""
        return ((self.first_factor, self.first), (-self.second_factor, self.second))

    @property
    def size(self) -> int:
        """The number of weights."""
        return len(self.first)

    def sum(self, block: Block) -> Floats:
        """Return the sum of the clipped differences of a leaf."""
        if isinstance(self.loss, MarginLoss):
            return slope_difference_sum(
                block.rows,
                block.labels,
                block.norms_in(self.norm),
                self.loss.kernel(),
                self.first,
                self.second,
                self.first_factor,
                self.second_factor,
                self.clip,
            )
        return vector_sum(self, self.loss, block)[0]


@dataclass(frozen=True, eq=False)
class InUnits(Query):
    """A clipped gradient or difference, divided by its clip: a row adds at most 1, whatever it is.

    Of coordinates that are clipped one by one each is at most 1, and a row sqrt(size) in l2.

    For clips that a run finds: what a plan says of the noise is public before any row is read, and
    holds for every clip. Rows are cut at the clip, in exact arithmetic, and the sum of all of them
    is divided by it. A power of two divides exactly. Any other clip rounds each coordinate of the
    sum once more, one of the operations that `dpsco.kernels.pairwise.rounding_slack` has room for.

    Args:
        gradient: whose ``clip`` is the unit, between 1e-100 and 1e100.

    >>> from dpsco.data import from_arrays
    >>> from dpsco.data.bounds import Bounds
    >>> from dpsco.losses import Squared
    >>> rows = from_arrays(np.eye(2), [-1.0, -1e6]).bounded(Bounds(1.0, label=1e9))
    >>> unit = 2.0**-80  # far below both gradients
    >>> rows.sum(InUnits(ClippedGradient(Squared(), np.zeros(2), clip=unit))).round(9).tolist()
    [1.0, 1.0]
    """

    gradient: ClippedGradient | ClippedDifference | ClippedCoordinates

    def __post_init__(self) -> None:
        kinds = (ClippedGradient, ClippedDifference, ClippedCoordinates)
        if not isinstance(self.gradient, kinds):
            raise ParameterError(
                "InUnits needs a ClippedGradient, ClippedDifference or ClippedCoordinates, got "
                f"{type(self.gradient).__name__}."
            )

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
        """1, whatever the unit; of clipped coordinates that of so many ones."""
        if isinstance(self.gradient, ClippedCoordinates):
            return coordinate_bound(1.0, self.size)
        return 1.0

    @property
    def size(self) -> int:
        """The number of weights."""
        return self.gradient.size

    @property
    def pairwise(self) -> bool:
        """As the gradient."""
        return self.gradient.pairwise

    def sum(self, block: Block) -> Floats:
        """Return the sum of the clipped gradients of a leaf, not yet divided."""
        return self.gradient.sum(block)

    def finish(self, total: Floats) -> Floats:
        """Return the sum in units of the clip."""
        return np.asarray(total / self.unit)

    @property
    def enforced(self) -> tuple[str, ...]:
        """That there is a clip; its value is not known when a certificate is planned."""
        return (found_clip_sentence(self.norm),)

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss takes on trust."""
        return self.gradient.trusted

    def check(self, source: Source) -> None:
        """Refuse a source that the gradient does not fit."""
        self.gradient.check(source)


def found_clip_sentence(norm: Norm = L2, bound: float = 1.0) -> str:
    """Return what is enforced of rows whose clip a run finds, in words."""
    what = "a row's gradient" if bound == 1.0 else "what a row adds"
    times = "" if bound == 1.0 else f"{bound:g} times "
    return (
        f"{what} has {describe_norm(norm)} norm at most {times}the clip that the run has found, "
        "by clipping; noise is in units of that clip"
    )


@dataclass(frozen=True, eq=False)
class ClippedCoordinates(_Clipped):
    """The loss's gradient at ``weights``, each coordinate of each row's cut to [-clip, clip].

    A mean of such rows is a robust one: an outlier moves each coordinate by as much as any row may,
    and its other coordinates keep their size. One row adds at most ``bound`` in l2. A row whose
    gradient is not finite, and a null row, contribute zero; a product that overflows counts as cut.

    Args:
        loss: of a margin, or a vector loss.
        weights: public; as many as the loss asks for.
        clip: the bound on each coordinate, between 1e-100 and 1e100.

    Raises:
        ParameterError: an argument is out of range, or the weights are not finite.

    >>> from dpsco.data import Bounds
    >>> from dpsco.losses import Squared
    >>> block = Bounds(9.0, label=9.0).apply(np.array([[3.0, 0.1]]), np.array([-5.0]))
    >>> query = ClippedCoordinates(Squared(), np.zeros(2), clip=2.0)
    >>> query.sum(block).tolist(), round(query.bound, 9)
    ([2.0, 0.5], 2.828427125)
    """

    loss: Loss
    weights: Floats
    clip: float
    norm: Norm = field(default=L2, init=False)  # in which `bound` is stated

    def __post_init__(self) -> None:
        _check(self, ("weights",))

    @property
    def terms(self) -> tuple[Term, ...]:
        """The gradient itself."""
        return ((1.0, self.weights),)

    @property
    def size(self) -> int:
        """The number of weights."""
        return len(self.weights)

    @property
    def bound(self) -> float:
        """The l2 norm of a row cut in every coordinate."""
        return coordinate_bound(self.clip, self.size)

    @property
    def pairwise(self) -> bool:
        """False: cut gradients are added one after the other."""
        return False

    @property
    def enforced(self) -> tuple[str, ...]:
        """The clip, and what follows for the whole gradient."""
        return (
            f"each coordinate of a row's gradient lies within {self.clip:g} of zero, by clipping: "
            f"its l2 norm is at most {self.bound:g}",
        )

    def sum(self, block: Block) -> Floats:
        """Return the sum of the cut gradients of a leaf."""
        sparse = isinstance(block.rows, SparseRows) and isinstance(self.loss, MarginLoss)
        total = np.zeros(self.size)
        with np.errstate(all="ignore"):  # a warning could tell something of the rows
            for part in [slice(None)] if sparse else cache_slices(len(block), self.size):
                total += self._sparse_sum(block) if sparse else self.rows(block[part]).sum(axis=0)
        return total

    def rows(self, block: Block) -> Floats:
        """Return what each row of a block contributes, as (rows, size)."""
        with np.errstate(all="ignore"):
            if isinstance(self.loss, MarginLoss):
                rows = block.rows.dense() if isinstance(block.rows, SparseRows) else block.rows
                gradients = self._slopes(block)[:, None] * np.asarray(rows, dtype=float)
            else:
                gradients = row_gradients(self, self.loss, block)
                gradients[~np.isfinite(gradients).all(axis=1)] = 0.0
            return np.asarray(np.clip(gradients, -self.clip, self.clip))

    def _sparse_sum(self, block: Block) -> Floats:
        """Return the sum over sparse rows: what is not stored contributes zero."""
        rows: Any = block.rows
        slopes = np.repeat(self._slopes(block), np.diff(rows.offsets))
        stored = slice(int(rows.offsets[0]), int(rows.offsets[-1]))
        entries = np.clip(slopes * rows.values[stored], -self.clip, self.clip)
        total = np.bincount(rows.columns[stored], weights=entries, minlength=self.size)
        return np.asarray(total, dtype=float)  # of no entries bincount makes integers

    def _slopes(self, block: Block) -> Floats:
        """Return the slope of each row; 0 where it is not finite."""
        assert isinstance(self.loss, MarginLoss)
        at = margins(block.rows, self.weights)
        slopes = smoothed_slope(self.loss.kernel(), at, block.labels)
        return np.where(np.isfinite(slopes), slopes, 0.0)


def coordinate_bound(clip: float, size: int) -> float:
    """Return an upper bound on the l2 norm of ``size`` numbers, none larger than ``clip``.

    sqrt(size) and the product are each rounded once, so that ``clip sqrt(size) (1 - 2^-53)^2`` is
    the least that comes out of them; the factor 1 + 2^-51, itself rounded, makes up for both.

    >>> coordinate_bound(2.0, 9) >= 6.0
    True
    """
    return clip * math.sqrt(size) * (1.0 + 2.0**-51)


# -- vector losses ---------------------------------------------------------------------------------

_PIECE = 1 << 20  # numbers of rows at a time: products of several classes want more of them
_UP = 1.0 + 2.0**-50
_BELOW = 1.0 - 2.0**-49  # more than the three roundings of a quotient and two products


def vector_sum(query: _Clipped, loss: VectorLoss, block: Block) -> tuple[Floats, Floats]:
    """Return the clipped sum for a vector loss, and how long each row was before.

    It is taken in pieces that stay in the cache. A length may be NaN or inf.
    """
    rank_one = loss.rank_one and isinstance(query.norm, Lp)
    piece_sum = _rank_one_sum if rank_one else _row_sum
    total, lengths = np.zeros(query.size), np.empty(len(block))
    with np.errstate(all="ignore"):
        for part in pieces(block, query.size, rank_one=rank_one):
            piece, lengths[part] = piece_sum(query, loss, block[part])
            total += piece
    return total, lengths


def pieces(block: Block, size: int, *, rank_one: bool) -> Iterator[slice]:
    """Return parts of a block whose rows, or gradients of ``size`` numbers, stay in the cache."""
    if not rank_one:
        return cache_slices(len(block), size)
    if isinstance(block.rows, SparseRows):  # few entries a row, and a large sum for each part
        return iter([slice(0, len(block))])
    return cache_slices(len(block), block.d, numbers=_PIECE)


def _rank_one_sum(query: _Clipped, loss: VectorLoss, block: Block) -> tuple[Floats, Floats]:
    """Return the sum of x_i times c_i: an l_p norm of such a product is the product of two."""
    rough = block.single() if isinstance(loss, ClassLoss) and len(query.terms) == 1 else None

    def rule(weights: Floats) -> Floats:
        if rough is None:
            return loss.coefficients(weights, block.rows, block.labels)
        # Their length is taken as they are, so that a bound does not rest on how exact they are.
        assert isinstance(loss, ClassLoss)
        return loss.coefficients_at(loss.rough_scores(weights, rough), block.labels)

    coefficients = _combined(query, rule)
    size = block.norms_in(query.norm) * upper_norms(coefficients, query.norm) * _UP
    factors = np.where(size <= query.clip, 1.0, query.clip / size * _BELOW)
    factors[~(factors >= TINY)] = 0.0  # a subnormal quotient has lost its precision
    coefficients *= factors[:, None]
    coefficients[~np.isfinite(size)] = 0.0  # if one is not finite, neither is the length
    return outer_sum(block.rows, coefficients), size


def outer_sum(rows: Rows, coefficients: Floats) -> Floats:
    """Return X^T C, flattened row by row."""
    if isinstance(rows, SparseRows):
        return np.asarray(rows.matrix().T @ coefficients, dtype=float).reshape(-1)
    return np.asarray(np.asarray(rows, dtype=float).T @ coefficients).reshape(-1)


def _row_sum(query: _Clipped, loss: VectorLoss, block: Block) -> tuple[Floats, Floats]:
    """Return the sum of clipped gradients that are formed row by row."""
    gradients = row_gradients(query, loss, block)
    clipped, lengths = clipped_with_norms(gradients, query.norm, query.clip)
    return np.asarray(clipped.sum(axis=0)), lengths


def row_gradients(query: _Clipped, loss: VectorLoss, block: Block) -> Floats:
    """Return what each row would contribute if nothing were clipped; zeros for null rows."""
    result = _combined(query, lambda w: loss.gradients(w, block.rows, block.labels))
    return np.where(block.present[:, None], result, 0.0)


def _combined(query: _Clipped, rule: Callable[[Floats], Floats]) -> Floats:
    """Return the sum over a query's terms of a factor times what a rule gives for the weights."""
    (factor, weights), *others = query.terms
    result = np.asarray(rule(weights), dtype=float)
    if factor != 1.0:
        result = factor * result
    for factor, weights in others:
        result = result + factor * rule(weights)
    return result


# -- checks ----------------------------------------------------------------------------------------


def _check(query: Any, names: tuple[str, ...]) -> None:
    """Validate what the gradient queries have in common; keep copies of the weights."""
    who = type(query).__name__
    if not isinstance(query.loss, (MarginLoss, VectorLoss)):
        raise ParameterError(f"{who} needs a loss of dpsco.losses, got {shown(query.loss)}.")
    if not isinstance(query.norm, Norm):
        raise ParameterError(f"norm must be a norm of dpsco.geometry, got {shown(query.norm)}.")
    for weight in getattr(query.norm, "weights", None) or ():
        check_limit("a weight of the norm", weight)
    hint = "Every row's gradient is clipped; for a Lipschitz loss pass its constant."
    object.__setattr__(query, "clip", check_limit("clip", query.clip, hint=hint))
    for name in names:
        object.__setattr__(query, name, weight_vector(name, getattr(query, name)))
    size = len(getattr(query, names[0]))
    if query.norm.dimension not in (None, size):
        raise ParameterError(
            f"norm is for vectors of length {query.norm.dimension}, but there are {size} weights."
        )


def check_weights(loss: Loss, size: int, source: Source) -> None:
    """Refuse a source whose rows ask for another number of weights, or for other labels."""
    require_labels(loss, source.bounds.label)
    weights = loss.dimension(source.d)
    if size != weights:
        raise ParameterError(
            f"{loss.name} needs {weights} weights for rows of {source.d} columns (the intercept "
            f"included), got {size}."
        )


def sealed(weights: Floats) -> Floats:
    """Return weights that nobody will write to again, marked as such."""
    weights.flags.writeable = False
    return weights


def _is_sealed(weights: ArrayLike) -> bool:
    if not isinstance(weights, np.ndarray):
        return False
    return weights.flags.owndata and not weights.flags.writeable


def weight_vector(name: str, weights: ArrayLike) -> Floats:
    """Return public weights as a read-only copy; refuse what is not a finite vector.

    `sealed` weights are taken as they are: a copy of a million numbers costs time in every round.
    """
    try:
        array = np.asarray(weights, float) if _is_sealed(weights) else np.array(weights, float)
    except (TypeError, ValueError):
        raise refusal(name, "must be a vector of numbers.") from None
    if array.ndim != 1 or array.size == 0:
        raise refusal(
            name, f"must be a vector, got shape {array.shape}. Flatten a matrix: W.reshape(-1)."
        )
    if not np.all(np.isfinite(array)):
        raise refusal(name, "must be finite: project weights before they are used.")
    array.flags.writeable = False
    return array
