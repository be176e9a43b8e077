"""A selection among the vertices of a polytope: candidates, and the queries that score them.

The score of a vertex v on a gradient g is ``<v - m, g>`` with a fixed public point m: adding one
number to all scores changes no selection, and it keeps them small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import integer, non_negative, positive, refusal
from ..errors import AssumptionError, ParameterError
from ..geometry.domains import MAX_VERTEX_ENTRIES, Domain, LpBall, Simplex
from ..geometry.norms import Norm
from .block import Block, Floats
from .queries import ClippedDifference, ClippedGradient, Query
from .row_norms import LARGEST_LIMIT, cache_slices

if TYPE_CHECKING:
    from .source import Source

_PAIRS = 1 << 26  # numbers that comparing all pairs of vertices may touch
_UP = 1.0 + 2.0**-40
_PRODUCT_UP = 1.0 + 2.0**-50  # more than the roundings of two products


@dataclass(frozen=True, eq=False)
class VertexSet:
    """Candidates 0, ..., count - 1: the vertices of a domain in R^d, or the rows of a matrix.

    The l1 ball and the simplex need no matrix, so that d may be large.

    Args:
        shape: a domain with vertices, or a (count, d) array of finite numbers.
        d: the dimension; may be left out for an array.

    Raises:
        AssumptionError: the domain is not a polytope.
        ParameterError: the array is not a matrix of finite numbers, there are fewer than two
            vertices, or too many to enumerate.

    >>> from dpsco.geometry.domains import L1Ball
    >>> ball = VertexSet(L1Ball(2.0), 3)
    >>> ball.count, ball.scores(np.array([1.0, 0.0, -3.0])).tolist(), ball.vertex(5).tolist()
    (6, [2.0, 0.0, -6.0, -2.0, -0.0, 6.0], [0.0, 0.0, -2.0])
    """

    shape: Domain | NDArray[Any]
    d: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.shape, Domain):
            object.__setattr__(self, "d", integer("d", self.d))
        else:
            matrix = _matrix(self.shape)
            if self.d not in (0, matrix.shape[1]):
                raise ParameterError(
                    f"vertices have {matrix.shape[1]} coordinates, but d is {self.d}."
                )
            object.__setattr__(self, "shape", matrix)
            object.__setattr__(self, "d", matrix.shape[1])
        if self.count < 2:
            raise ParameterError(
                "a selection needs two or more vertices, got one: it is the answer."
            )

    @cached_property
    def count(self) -> int:
        """The number of vertices."""
        if self._implicit is not None:
            return self.d * len(self._implicit[1])
        return len(self._vertices)

    def vertex(self, index: int) -> Floats:
        """Return the vertex with this number."""
        if self._implicit is None:
            return np.array(self._vertices[index])
        centre, steps = self._implicit
        side, place = divmod(int(index), self.d)
        result = np.array(centre)
        result[place] += steps[side]
        return result

    def scores(self, gradient: ArrayLike) -> Floats:
        """Return each vertex's score on a gradient; lower is better for a minimiser.

        Rounding adds at most 60 units in the last place of ``radius * ||gradient||``: sums along a
        row are pairwise.
        """
        g = np.asarray(gradient, dtype=float)
        with np.errstate(all="ignore"):
            if self._implicit is not None:
                steps, result = self._implicit[1], np.empty(self.count)
                for side, step in enumerate(steps):
                    np.multiply(g, step, out=result[side * self.d : (side + 1) * self.d])
                return result
            result = np.empty(self.count)
            for part in cache_slices(*self._centred.shape):
                result[part] = np.sum(self._centred[part] * g, axis=1)
            return result

    def diameter(self, norm: Norm) -> float:
        """Return the largest distance between two vertices, rounded up.

        For an array of very many vertices (more than 2^26 numbers in all pairs) it is twice the
        largest distance from their mean instead, an upper bound.
        """
        if norm not in self._diameters:
            self._diameters[norm] = self._diameter(norm)
        return self._diameters[norm]

    def spread(self, clip: float, norm: Norm) -> float:
        """Return the most that the scores of a gradient of length ``clip`` can spread."""
        return self.diameter(norm.dual) * clip * _PRODUCT_UP

    @cached_property
    def _diameters(self) -> dict[Norm, float]:
        """Diameters by norm: every round of a run asks for one."""
        return {}

    def _diameter(self, norm: Norm) -> float:
        """Return the diameter in a norm."""
        if self._implicit is not None and isinstance(self.shape, Domain):
            return self.shape.diameter(self.d, norm) * _UP
        rows = self._centred
        if len(rows) * rows.size > _PAIRS:
            return 2.0 * float(np.max(norm(rows))) * _UP
        return max(float(np.max(norm(rows - row))) for row in rows) * _UP

    @cached_property
    def _implicit(self) -> tuple[Floats, tuple[float, ...]] | None:
        """Centre c and steps s, if the vertices are c + s e_j for each step and coordinate j."""
        shape = self.shape
        origin = np.broadcast_to(0.0, self.d)
        if isinstance(shape, Simplex):
            return origin, (shape.total,)
        if isinstance(shape, LpBall) and shape.p == 1.0 and self.d > 1:
            radius = float(shape.arguments["radius"])
            centre = origin if shape.dimension is None else shape.centre(self.d)
            return centre, (radius, -radius)
        return None

    @cached_property
    def _vertices(self) -> Floats:
        """The vertices as rows."""
        if not isinstance(self.shape, Domain):
            return self.shape
        result = self.shape.vertices(self.d)
        if result is None:
            raise AssumptionError(
                f"a selection among vertices needs a polytope; {self.shape!r} has no vertices. Use "
                "an l1 ball, a simplex, a box of low dimension or Polytope(vertices)."
            )
        return np.asarray(result, dtype=float)

    @cached_property
    def _centred(self) -> Floats:
        """The vertices minus their mean."""
        return np.ascontiguousarray(self._vertices - self._vertices.mean(axis=0))


def vertex_set(vertices: VertexSet | Domain | ArrayLike, d: int) -> VertexSet:
    """Return the vertices as a `VertexSet` of dimension ``d``."""
    if isinstance(vertices, VertexSet):
        return vertices
    shape = vertices if isinstance(vertices, Domain) else np.asarray(vertices)
    return VertexSet(shape, d)


@dataclass(frozen=True, eq=False)
class VertexScores(Query):
    """The scores of a polytope's vertices on the sum of a clipped gradient or difference.

    ``bound`` is the spread (largest minus smallest) of one row's scores: at most the diameter of
    the vertices, in the norm dual to the gradient's, times the gradient's bound. No score of one
    row is larger than that either.

    Args:
        gradient: the query whose sum is scored. For the l1 ball or the simplex give it LINF.
        vertices: a domain with vertices, a matrix of vertices, or a `VertexSet`.

    >>> from dpsco.geometry.domains import L1Ball
    >>> from dpsco.geometry.norms import LINF
    >>> from dpsco.losses.logistic import Logistic
    >>> query = VertexScores(ClippedGradient(Logistic(), np.zeros(3), 0.5, LINF), L1Ball(2.0))
    >>> query.size, round(query.bound, 9)
    (6, 2.0)
    """

    gradient: ClippedGradient | ClippedDifference
    vertices: VertexSet | Domain | ArrayLike

    def __post_init__(self) -> None:
        if not isinstance(self.gradient, (ClippedGradient, ClippedDifference)):
            raise ParameterError(
                "VertexScores needs a ClippedGradient or ClippedDifference, got "
                f"{type(self.gradient).__name__}."
            )
        candidates = vertex_set(self.vertices, self.gradient.size)
        if candidates.d != self.gradient.size:
            raise ParameterError(
                f"vertices have {candidates.d} coordinates, but there are {self.gradient.size} "
                "weights."
            )
        object.__setattr__(self, "vertices", candidates)
        if not math.isfinite(self.bound):
            raise ParameterError(
                "vertices are too far apart for this clip: the bound on their scores overflows."
            )

    @property
    def candidates(self) -> VertexSet:
        """The vertices, numbered as the scores are."""
        assert isinstance(self.vertices, VertexSet)
        return self.vertices

    @property
    def norm(self) -> Norm:
        """The norm in which gradients are clipped."""
        return self.gradient.norm

    @cached_property
    def bound(self) -> float:
        """The most that one row's scores can spread."""
        return self.candidates.spread(self.gradient.bound, self.gradient.norm)

    @property
    def size(self) -> int:
        """The number of vertices."""
        return self.candidates.count

    def sum(self, block: Block) -> Floats:
        """Return the sum of the clipped gradients of a leaf."""
        return self.gradient.sum(block)

    def finish(self, total: Floats) -> Floats:
        """Return the scores of the summed gradient."""
        return self.candidates.scores(total)

    @property
    def enforced(self) -> tuple[str, ...]:
        """The gradient's clip, from which the spread of the scores follows."""
        return self.gradient.enforced

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss takes on trust."""
        return self.gradient.trusted

    def check(self, source: Source) -> None:
        """Refuse a source whose rows ask for another number of weights."""
        self.gradient.check(source)


@dataclass(frozen=True, eq=False)
class FadingScores(Query):
    """The scores of vertices on a running total in which older rows fade.

    A round adds ``weight`` times the sum over its rows to ``keep`` times the total before. What a
    round asks of its rows is that sum; ``bound`` is the spread of one new row's scores, its weight
    included. The engine keeps the total, which is as secret as the rows.

    Args:
        scores: of one round's rows.
        keep: the factor of the total before; 0 for the first round.
        weight: the factor of the new sum.
    """

    scores: VertexScores
    keep: float
    weight: float

    def __post_init__(self) -> None:
        if not isinstance(self.scores, VertexScores):
            raise ParameterError(
                f"FadingScores needs VertexScores, got {type(self.scores).__name__}."
            )
        object.__setattr__(self, "keep", non_negative("keep", self.keep))
        object.__setattr__(self, "weight", positive("weight", self.weight))
        if self.keep > 1.0:
            raise refusal("keep", f"must be at most 1, for older rows fade; got {self.keep!r}.")

    @property
    def bound(self) -> float:
        """The most that one new row's scores can spread, with its weight."""
        return weighted_spread(self.scores.bound, self.weight)

    @property
    def size(self) -> int:
        """The number of weights."""
        return self.scores.gradient.size

    def sum(self, block: Block) -> Floats:
        """Return the sum of the clipped gradients or differences of a leaf."""
        return self.scores.gradient.sum(block)

    def joined(self, total: Floats | None, new: Floats) -> Floats:
        """Return the total after a round, from the one before (None: there is none).

        The total before is overwritten.
        """
        with np.errstate(all="ignore"):
            fresh = self.weight * new
            if total is None:
                return fresh
            total *= self.keep
            total += fresh
            return total

    @property
    def enforced(self) -> tuple[str, ...]:
        """The gradient's clip, from which the spread of the scores follows."""
        return self.scores.enforced

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss takes on trust."""
        return self.scores.trusted

    def check(self, source: Source) -> None:
        """Refuse a source whose rows ask for another number of weights."""
        self.scores.check(source)


def weighted_spread(spread: float, weight: float) -> float:
    """Return the spread of a row's scores times a weight, rounded up."""
    return spread * weight * _PRODUCT_UP


def _matrix(values: Any) -> Floats:
    """Return vertices as a read-only matrix of finite numbers."""
    array = np.asarray(values)
    if array.ndim != 2 or array.dtype.kind not in "iuf" or array.shape[1] == 0:
        raise ParameterError(
            f"vertices must be a matrix of numbers, one vertex per row, got shape {array.shape} of "
            f"type {array.dtype}; or pass a domain.",
            parameter="vertices",
        )
    if array.size > MAX_VERTEX_ENTRIES:
        raise ParameterError(
            f"vertices are too many to enumerate: {array.shape[0]} x {array.shape[1]} numbers, and "
            f"at most {MAX_VERTEX_ENTRIES} are scored. An L1Ball or Simplex needs no matrix."
        )
    result = np.array(array, dtype=float)
    if not np.all(np.isfinite(result)) or np.max(np.abs(result), initial=0.0) > LARGEST_LIMIT:
        raise ParameterError(
            "vertices must be finite and at most 1e100 in size.", parameter="vertices"
        )
    result.flags.writeable = False
    return result
