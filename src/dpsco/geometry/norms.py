"""Norms and their duals: l_p, weighted l_p, group norms; how large one norm is in another.

A norm is a frozen record that can be called on vectors (along the last axis), knows its dual, and
knows the unit vector on which a linear function is largest. Large and small entries neither over-
nor underflow; an infinite entry gives an infinite norm, a NaN gives NaN.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import integer, real, refusal, shown
from ..errors import ParameterError

Floats = NDArray[np.float64]
Groups = tuple[tuple[int, ...], ...]

# A sum of squares in the first range has lost nothing that matters to over- or underflow: squares
# that vanished are below 1e-308 each, 1e-28 of the least sum. Other powers have a narrower range,
# since the rounding of 1/p counts log(sum) times in the root.
_SAFE_SQUARES, _SAFE_POWERS = (1e-280, 1e300), (1e-8, 1e8)


# -- exponents, weights and groups, each checked in one place --------------------------------------


def exponent(name: str, value: float) -> float:
    """Return an exponent from 1 to inf."""
    p = real(name, value)
    if p < 1.0:
        raise refusal(name, f"must be at least 1, got {p!r}: below it is no norm.")
    return p


def conjugate(p: float) -> float:
    """Return q with 1/p + 1/q = 1."""
    if p == 1.0:
        return math.inf
    return 1.0 if p == math.inf else p / (p - 1.0)


def positive_weights(weights: ArrayLike) -> NDArray[np.float64]:
    """Return the weights as a vector, positive and finite like their inverses."""
    try:
        result = np.array(weights, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError("weights must be a list of numbers.", parameter="weights") from None
    with np.errstate(all="ignore"):
        usable = np.all((result > 0.0) & np.isfinite(result) & np.isfinite(1.0 / result))
    if result.ndim != 1 or result.size == 0 or not usable:
        raise ParameterError(
            "weights must be a list of positive finite numbers (with finite inverses): a weight of "
            "zero gives no norm. Leave such a coordinate out.",
            parameter="weights",
        )
    return result


def partition(groups: Iterable[Iterable[int]]) -> Groups:
    """Return the groups as tuples, after a check that each coordinate is in exactly one."""
    try:
        result = tuple(
            tuple(integer("a group's entry", j, at_least=0) for j in group) for group in groups
        )
    except TypeError:
        raise ParameterError(
            f"groups must be a list of lists of coordinates, got {shown(groups)}.",
            parameter="groups",
        ) from None
    together = sorted(j for group in result for j in group)
    if not together or together != list(range(len(together))) or not all(result):
        raise ParameterError(
            "groups must not be empty and must hold each of the coordinates 0, ..., d - 1 exactly "
            "once. Put coordinates without a group into groups of their own.",
            parameter="groups",
        )
    return result


def by_size(groups: Groups) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]:
    """Return, for each size, which groups have it and their members as a table."""
    sizes: dict[int, list[int]] = {}
    for number, group in enumerate(groups):
        sizes.setdefault(len(group), []).append(number)
    return tuple(
        (np.array(which, dtype=np.intp), np.array([groups[k] for k in which], dtype=np.intp))
        for which in sizes.values()
    )


# -- norms -----------------------------------------------------------------------------------------


class Norm(ABC):
    """A norm on vectors."""

    @abstractmethod
    def __call__(self, vector: ArrayLike) -> Floats:
        """Return the norm along the last axis."""

    @property
    @abstractmethod
    def dual(self) -> Norm:
        """The norm sup <x, v> over v of norm at most one."""

    @abstractmethod
    def steepest(self, direction: ArrayLike) -> Floats:
        """Return v of norm one with <direction, v> = dual(direction), along the last axis.

        A zero direction gives some vector of norm one; infinite entries outweigh all others; a NaN
        gives NaN.
        """

    @property
    def dimension(self) -> int | None:
        """The length of the vectors; None if any will do."""
        return None

    def _entries(self, vector: ArrayLike) -> Floats:
        """Return the vector as float64, after a check of its length."""
        entries = np.asarray(vector, dtype=float)
        if entries.ndim == 0:
            raise ParameterError("a norm needs a vector or an array of vectors, got a number.")
        if self.dimension is not None and entries.shape[-1] != self.dimension:
            raise ParameterError(
                f"this {type(self).__name__} is for vectors of length {self.dimension}, got "
                f"length {entries.shape[-1]}."
            )
        return entries


@dataclass(frozen=True)
class Lp(Norm):
    """The l_p norm, 1 <= p <= inf.

    >>> float(Lp(2.0)([3.0, -4.0])), Lp(1.5).dual
    (5.0, Lp(p=3.0))
    """

    p: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", exponent("p", self.p))

    def __call__(self, vector: ArrayLike) -> Floats:
        """Return the norm along the last axis."""
        x = self._entries(vector)
        with np.errstate(over="ignore", under="ignore"):
            if self.p == 1.0:
                return np.asarray(np.sum(np.abs(x), axis=-1))
            if self.p == math.inf or x.shape[-1] == 1:
                return np.asarray(np.max(np.abs(x), axis=-1, initial=0.0))
            return _powers(x, self.p)

    @property
    def dual(self) -> Lp:
        """The l_q norm, 1/p + 1/q = 1."""
        return Lp(conjugate(self.p))

    def steepest(self, direction: ArrayLike) -> Floats:
        """Return sign(g) |g|^(q-1), scaled to norm one; for p = 1 the first largest coordinate."""
        g = _relative(self._entries(direction))
        if self.p == math.inf:
            return np.where(g == 0.0, 1.0, np.sign(g))
        size = np.abs(g)
        first = np.expand_dims(np.argmax(size, axis=-1), -1)
        if self.p == 1.0:
            size = np.zeros_like(g)
        else:
            with np.errstate(over="ignore", under="ignore"):
                size = size ** (1.0 / (self.p - 1.0))
        # The largest entry of g is 1 or -1; of a zero vector we make the first unit vector.
        lead = np.take_along_axis(g, first, axis=-1)
        np.put_along_axis(size, first, np.where(np.isnan(lead), lead, 1.0), axis=-1)
        signs = np.where(g < 0.0, -1.0, 1.0)
        return np.asarray(signs * (size / self(size)[..., None]))


@dataclass(frozen=True)
class WeightedLp(Norm):
    """(sum_j (weights_j |x_j|)^p)^(1/p), all weights positive.

    >>> float(WeightedLp(1.0, (1.0, 10.0))([2.0, 0.5]))
    7.0
    """

    p: float
    weights: tuple[float, ...]
    _array: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", exponent("p", self.p))
        weights = positive_weights(self.weights)
        object.__setattr__(self, "weights", tuple(weights.tolist()))
        object.__setattr__(self, "_array", weights)

    def __call__(self, vector: ArrayLike) -> Floats:
        """Return the norm along the last axis."""
        with np.errstate(over="ignore", under="ignore"):
            return Lp(self.p)(self._entries(vector) * self._array)

    @property
    def dual(self) -> WeightedLp:
        """The l_q norm with the inverse weights."""
        return WeightedLp(conjugate(self.p), tuple((1.0 / self._array).tolist()))

    @property
    def dimension(self) -> int:
        """The length of the vectors."""
        return len(self.weights)

    def steepest(self, direction: ArrayLike) -> Floats:
        """Return v of norm one with the largest <direction, v>."""
        g = _relative(self._entries(direction))  # so that dividing by small weights cannot overflow
        with np.errstate(under="ignore", over="ignore"):
            return Lp(self.p).steepest(g / self._array) / self._array


@dataclass(frozen=True)
class GroupNorm(Norm):
    """An outer l_p norm of the weighted inner l_p norms of groups of coordinates.

        (sum_g (weights_g ||x_g||_inner)^outer)^(1/outer)

    Args:
        groups: tuples of coordinates; each of 0, ..., d - 1 is in exactly one.
        inner, outer: exponents from 1 to inf.
        weights: one positive number per group; None means ones.

    >>> float(GroupNorm(((0, 1), (2,)), inner=2.0, outer=1.0)([3.0, 4.0, -2.0]))
    7.0
    """

    groups: Groups
    inner: float = 2.0
    outer: float = 1.0
    weights: tuple[float, ...] | None = None
    _array: Floats = field(init=False, repr=False, compare=False)
    _buckets: tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        groups = partition(self.groups)
        weights = positive_weights(np.ones(len(groups)) if self.weights is None else self.weights)
        if len(weights) != len(groups):
            raise ParameterError(
                f"weights must have one number per group: {len(groups)}, got {len(weights)}.",
                parameter="weights",
            )
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "inner", exponent("inner", self.inner))
        object.__setattr__(self, "outer", exponent("outer", self.outer))
        object.__setattr__(self, "weights", tuple(weights.tolist()))
        object.__setattr__(self, "_array", weights)
        object.__setattr__(self, "_buckets", by_size(groups))

    def __call__(self, vector: ArrayLike) -> Floats:
        """Return the norm along the last axis."""
        return Lp(self.outer)(self._sizes(self._entries(vector), Lp(self.inner), self._array))

    @property
    def dual(self) -> GroupNorm:
        """The same groups with dual exponents and inverse weights."""
        return GroupNorm(
            self.groups,
            conjugate(self.inner),
            conjugate(self.outer),
            tuple((1.0 / self._array).tolist()),
        )

    @property
    def dimension(self) -> int:
        """The length of the vectors."""
        return sum(len(group) for group in self.groups)

    def steepest(self, direction: ArrayLike) -> Floats:
        """Return v of norm one with the largest <direction, v>."""
        g, inner = _relative(self._entries(direction)), Lp(self.inner)
        shares = Lp(self.outer).steepest(self._sizes(g, inner.dual, 1.0 / self._array))
        result = np.empty_like(g)
        with np.errstate(over="ignore", under="ignore"):
            shares = shares / self._array
            for which, members in self._buckets:
                result[..., members] = shares[..., which, None] * inner.steepest(g[..., members])
        return result

    def _sizes(self, x: Floats, inner: Lp, weights: Floats) -> Floats:
        """Return the weighted inner norm of every group along the last axis."""
        sizes = np.empty((*x.shape[:-1], len(self.groups)))
        for which, members in self._buckets:
            sizes[..., which] = inner(x[..., members])
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(sizes * weights)


L1, L2, LINF = Lp(1.0), Lp(2.0), Lp(math.inf)


def equivalence(stronger: Norm, weaker: Norm, d: int) -> float:
    """Return the least c with weaker(x) <= c * stronger(x) for all x in R^d, rounded to nearest.

    For l_a and l_b it is d^max(0, 1/b - 1/a). Weights and groups are covered as well, as long as
    two group norms have the same groups: by Hölder's inequality, attained in each group and
    across groups,

        c = || c_g ||_s,  1/s = max(0, 1/outer_b - 1/outer_a),  c_g = the constant within group g.

    Raises:
        ParameterError: a norm is for another d, two group norms differ in their groups, or a
            norm is none of this module's.

    >>> equivalence(LINF, L2, 9), equivalence(L1, L2, 9)
    (3.0, 1.0)
    """
    d = integer("d", d)
    for norm in (stronger, weaker):
        if norm.dimension not in (None, d):
            raise ParameterError(f"d is {d}, but {type(norm).__name__} has d = {norm.dimension}.")
    if isinstance(stronger, Lp) and isinstance(weaker, Lp):
        return float(d ** _gap(stronger.p, weaker.p))
    groups = _common_groups(stronger, weaker)
    above, below = _Layers.of(weaker, groups, d), _Layers.of(stronger, groups, d)
    within = _holder(_gap(below.inner, above.inner))
    with np.errstate(over="ignore", under="ignore"):
        ratio = above.entries / below.entries
        parts = np.array([float(within(ratio[list(group)])) for group in groups])
        parts = parts * (above.weights / below.weights)
    return float(_holder(_gap(below.outer, above.outer))(parts))


def operator_norm(matrix: ArrayLike, source: Norm, target: Norm) -> float:
    """Return sup target(A x) over source(x) <= 1, where a closed form exists.

    That is: from l_1 (the largest column), to l_inf (the largest row, in the dual of the source),
    and from l_2 to l_2 (the largest singular value).

    >>> operator_norm([[3.0, 0.0], [4.0, 1.0]], L1, L2)
    5.0
    """
    A = np.asarray(matrix, dtype=float)
    if A.ndim != 2:
        raise ParameterError(f"matrix must have two axes, got {A.ndim}.", parameter="matrix")
    if source == L1:
        return float(np.max(target(A.T), initial=0.0))
    if target == LINF:
        return float(np.max(source.dual(A), initial=0.0))
    if source == L2 and target == L2:
        return float(np.linalg.norm(A, 2)) if A.size else 0.0
    raise ParameterError(
        f"operator_norm has no closed form from {source} to {target}. Take source L1, target LINF "
        "or both L2, or multiply by equivalence(...) for an upper bound."
    )


@dataclass(frozen=True)
class _Layers:
    """Any norm of this module as an outer norm of group weights times inner norms of entries."""

    inner: float
    outer: float
    entries: Floats  # one weight a coordinate
    weights: Floats  # one weight a group

    @classmethod
    def of(cls, norm: Norm, groups: Groups, d: int) -> _Layers:
        """Return the norm in this form over the given groups."""
        if isinstance(norm, GroupNorm):
            return cls(norm.inner, norm.outer, np.ones(d), np.asarray(norm.weights))
        if isinstance(norm, WeightedLp):
            return cls(norm.p, norm.p, np.asarray(norm.weights), np.ones(len(groups)))
        if isinstance(norm, Lp):
            return cls(norm.p, norm.p, np.ones(d), np.ones(len(groups)))
        raise ParameterError(f"equivalence knows Lp, WeightedLp and GroupNorm, got {norm!r}.")


def _common_groups(first: Norm, second: Norm) -> Groups:
    """Return the groups over which both norms are nested; one group if neither has any."""
    result = [norm.groups for norm in (first, second) if isinstance(norm, GroupNorm)]
    if not result:
        d = first.dimension or second.dimension or 0
        return (tuple(range(d)),)
    if result[0] != result[-1]:
        raise ParameterError(
            "equivalence of two group norms has a closed form only if their groups are the same, "
            "in the same order; go through an l_p norm for an upper bound."
        )
    return result[0]


def _gap(above: float, below: float) -> float:
    """Return max(0, 1/below - 1/above)."""
    return max(0.0, 1.0 / below - 1.0 / above)


def _holder(gap: float) -> Lp:
    """Return the l_s norm with 1/s = gap."""
    return Lp(math.inf if gap == 0.0 else max(1.0, 1.0 / gap))


def _powers(x: Floats, p: float) -> Floats:
    """Return the l_p norm along the last axis: plainly, then again where powers were lost."""
    sums = _sum_of_powers(x, p)
    norms = np.asarray(_root(sums, p))
    low, high = _SAFE_SQUARES if p == 2.0 else _SAFE_POWERS
    lost = ~((sums >= low) & (sums <= high))  # NaN among them
    if np.any(lost):
        rows = x[lost]
        unit = _unit(np.max(np.abs(rows), axis=-1, initial=0.0))
        if p == 2.0:  # a power of two: dividing by it is exact
            unit = np.ldexp(1.0, np.frexp(unit)[1] - 1)
        norms[lost] = unit * _root(_sum_of_powers(rows / unit[..., None], p), p)
    return norms


def _sum_of_powers(x: Floats, p: float) -> Floats:
    """Return sum |x_j|^p along the last axis."""
    if p == 2.0:
        return np.asarray(np.einsum("...j,...j->...", x, x))
    return np.asarray(np.sum(np.abs(x) ** p, axis=-1))


def _root(sums: Floats, p: float) -> Floats:
    """Return the p-th root."""
    return np.asarray(np.sqrt(sums) if p == 2.0 else sums ** (1.0 / p))


def _unit(top: Floats) -> Floats:
    """Return a divisor for vectors whose largest entry is ``top``: 1 if that is 0 or not finite."""
    return np.where((top > 0.0) & (top < math.inf), top, 1.0)


def _relative(x: Floats) -> Floats:
    """Return x over its largest entry; an infinite one leaves only the signs of its like."""
    top = np.max(np.abs(x), axis=-1, initial=0.0, keepdims=True)
    if np.any(top == math.inf):
        x = np.where(top == math.inf, np.where(np.isinf(x), np.sign(x), 0.0), x)
    with np.errstate(under="ignore"):
        return np.asarray(x / _unit(top))
