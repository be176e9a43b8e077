"""Public penalties on the weights, each with its proximal operator.

    prox(v, step) = argmin_w  step * penalty(w) + 1/2 ||w - v||^2

The step is part of the threshold: l1 of strength s moves every coordinate by ``step * s``. A
penalty sees weights only, never rows, so nothing here costs privacy.

Sums of a penalty and a constraint are in `dpsco.losses.constraints`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import integer, non_negative, refusal, shown
from ..errors import AssumptionError, ParameterError
from ..geometry.norms import L1, LINF

Floats = NDArray[np.float64]


class Set(Protocol):
    """A closed convex set that can be projected on, such as any domain."""

    def project(self, point: Floats, /) -> Floats:
        """Return the nearest point of the set."""

    def contains(self, point: Floats, /) -> Any:
        """Say whether the point is in the set, up to rounding."""


class Penalty(ABC):
    """A convex function of the weights, simple enough to have a prox."""

    radial: ClassVar[bool] = False
    """A norm, plus possibly a multiple of the squared Euclidean norm; `WithinBall` asks for it."""
    separable: ClassVar[bool] = False
    """A sum over coordinates."""

    @abstractmethod
    def value(self, weights: ArrayLike) -> float:
        """Return the penalty."""

    @abstractmethod
    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return argmin_w step * penalty(w) + 1/2 ||w - point||^2."""

    @property
    def strong_convexity(self) -> float:
        """The largest c with penalty - c/2 ||w||^2 convex."""
        return 0.0

    @property
    def smooth(self) -> bool:
        """Whether there is a gradient everywhere."""
        return False

    def gradient(self, weights: ArrayLike) -> Floats:
        """Return the gradient; AssumptionError where the penalty is not smooth."""
        raise AssumptionError(
            f"{type(self).__name__} has no gradient everywhere: use a solver that takes proximal "
            "steps, or L2Penalty."
        )


@dataclass(frozen=True)
class NoPenalty(Penalty):
    """Nothing: value 0, prox the identity."""

    radial: ClassVar[bool] = True
    separable: ClassVar[bool] = True

    def value(self, weights: ArrayLike) -> float:
        """Return 0."""
        return 0.0

    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return the point."""
        return as_point(point, step)

    @property
    def smooth(self) -> bool:
        """Always."""
        return True

    def gradient(self, weights: ArrayLike) -> Floats:
        """Return zeros."""
        return np.zeros_like(np.asarray(weights, dtype=float))


@dataclass(frozen=True)
class L1Penalty(Penalty):
    """``strength * sum_j weights_j |w_j|``; weights are 1 unless given (0 spares an intercept)."""

    strength: float
    weights: Sequence[float] | None = None
    radial: ClassVar[bool] = True
    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", non_negative("strength", self.strength))
        if self.weights is not None:
            object.__setattr__(self, "weights", _not_negative("weights", self.weights))

    def value(self, weights: ArrayLike) -> float:
        """Return the weighted l1 norm times the strength."""
        return float(np.sum(self._strengths(weights) * np.abs(np.asarray(weights, dtype=float))))

    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return the point with every coordinate moved towards 0 by step * strength."""
        return _soft(as_point(point, step), step * self._strengths(point))

    def _strengths(self, point: ArrayLike) -> Any:
        """Return the strength of each coordinate."""
        if self.weights is None:
            return self.strength
        _same_size("weights", len(self.weights), point)
        return self.strength * np.asarray(self.weights)


@dataclass(frozen=True)
class L2Penalty(Penalty):
    """``strength/2 ||w||^2``: the ridge.

    >>> L2Penalty(2.0).prox([3.0], 0.5)
    array([1.5])
    """

    strength: float
    radial: ClassVar[bool] = True
    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", non_negative("strength", self.strength))

    def value(self, weights: ArrayLike) -> float:
        """Return half the strength times the squared norm."""
        w = np.asarray(weights, dtype=float)
        return 0.5 * self.strength * float(np.sum(w * w))

    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return the point divided by 1 + step * strength."""
        return as_point(point, step) / (1.0 + step * self.strength)

    @property
    def strong_convexity(self) -> float:
        """The strength."""
        return self.strength

    @property
    def smooth(self) -> bool:
        """Always."""
        return True

    def gradient(self, weights: ArrayLike) -> Floats:
        """Return strength * w."""
        return self.strength * np.asarray(weights, dtype=float)


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """``l1 ||w||_1 + l2/2 ||w||^2``."""

    l1: float
    l2: float
    radial: ClassVar[bool] = True
    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "l1", non_negative("l1", self.l1))
        object.__setattr__(self, "l2", non_negative("l2", self.l2))

    def value(self, weights: ArrayLike) -> float:
        """Return the sum of both parts."""
        return L1Penalty(self.l1).value(weights) + L2Penalty(self.l2).value(weights)

    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return soft(point, step * l1) / (1 + step * l2)."""
        return _soft(as_point(point, step), step * self.l1) / (1.0 + step * self.l2)

    @property
    def strong_convexity(self) -> float:
        """The strength of the squared part."""
        return self.l2


@dataclass(frozen=True)
class GroupPenalty(Penalty):
    """``sum_g strengths_g ||w_g||_2`` over groups of coordinates that share out 0..d-1."""

    groups: Sequence[Sequence[int]]
    strengths: float | Sequence[float]  # one for all groups, or one each
    radial: ClassVar[bool] = True

    def __post_init__(self) -> None:
        groups = _partition(self.groups)
        if np.ndim(self.strengths) == 0:
            strength = non_negative("strengths", self.strengths)
            strengths = (strength,) * len(groups)
        else:
            strengths = _not_negative("strengths", self.strengths)
            if len(strengths) != len(groups):
                raise ParameterError(
                    f"strengths must be one number or one for each of the {len(groups)} groups, "
                    f"got {len(strengths)}.",
                    parameter="strengths",
                )
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "strengths", strengths)

    def value(self, weights: ArrayLike) -> float:
        """Return the weighted sum of the groups' norms."""
        return float(np.dot(np.asarray(self.strengths), self._norms(weights)[2]))

    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return the point with every group shortened by step * its strength."""
        v = as_point(point, step)
        order, sizes, norms = self._norms(v)
        threshold = step * np.asarray(self.strengths)
        support = norms > threshold  # the others vanish; dividing by their norms could overflow
        factors = np.where(support, 1.0 - threshold / np.where(support, norms, 1.0), 0.0)
        result = np.empty_like(v)
        result[order] = v[order] * np.repeat(factors, sizes)
        return result

    def _norms(self, point: ArrayLike) -> tuple[NDArray[Any], NDArray[Any], Floats]:
        """Return the coordinates group by group, the groups' sizes and norms."""
        order, sizes = np.concatenate(self.groups), np.array([len(g) for g in self.groups])
        _same_size("groups", len(order), point)
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        sorted_ = np.abs(np.asarray(point, dtype=float))[order]
        top = np.maximum.reduceat(sorted_, starts)  # scaled by it, squares cannot overflow
        unit = np.where(top > 0.0, top, 1.0)
        total = np.add.reduceat((sorted_ / np.repeat(unit, sizes)) ** 2, starts)
        return order, sizes, np.asarray(unit * np.sqrt(total))


@dataclass(frozen=True)
class SparseGroup(Penalty):
    """``l1 ||w||_1 + sum_g strengths_g ||w_g||_2``: few groups, and few coordinates within them."""

    groups: Sequence[Sequence[int]]
    l1: float
    strengths: float | Sequence[float]
    radial: ClassVar[bool] = True

    def __post_init__(self) -> None:
        group = GroupPenalty(self.groups, self.strengths)
        object.__setattr__(self, "l1", non_negative("l1", self.l1))
        object.__setattr__(self, "groups", group.groups)
        object.__setattr__(self, "strengths", group.strengths)

    def value(self, weights: ArrayLike) -> float:
        """Return the sum of both parts."""
        group = GroupPenalty(self.groups, self.strengths)
        return L1Penalty(self.l1).value(weights) + group.value(weights)

    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return the groups' prox of the soft-thresholded point."""
        group = GroupPenalty(self.groups, self.strengths)
        return group.prox(L1Penalty(self.l1).prox(point, step), step)


@dataclass(frozen=True)
class LInfPenalty(Penalty):
    """``strength * max_j |w_j|``."""

    strength: float
    radial: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", non_negative("strength", self.strength))

    def value(self, weights: ArrayLike) -> float:
        """Return the strength times the largest coordinate."""
        return self.strength * float(LINF(weights))

    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return the point minus its projection on the l1 ball of radius step * strength.

        What is left is the point clipped to the level at which exactly that much is cut off.
        """
        v, cut = as_point(point, step), step * self.strength
        if cut >= float(L1(v)):
            return np.zeros_like(v)
        sorted_ = np.sort(np.abs(v))[::-1]
        levels = (np.cumsum(sorted_) - cut) / np.arange(1, len(v) + 1)
        counted = np.flatnonzero(sorted_ > levels)  # empty if the cut is lost in rounding
        level = levels[counted[-1]] if len(counted) else math.inf
        return np.clip(v, -level, level)


@dataclass(frozen=True)
class Indicator(Penalty):
    """0 in a closed convex set and inf outside; its prox is the projection, whatever the step."""

    domain: Set

    def __post_init__(self) -> None:
        if not (hasattr(self.domain, "project") and hasattr(self.domain, "contains")):
            raise ParameterError(
                f"domain must be a set with project and contains, got {shown(self.domain)}. "
                "Pass one of dpsco.geometry.domains.",
                parameter="domain",
            )

    def value(self, weights: ArrayLike) -> float:
        """Return 0 or inf."""
        return 0.0 if self.domain.contains(np.asarray(weights, dtype=float)) else math.inf

    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return the nearest point of the set."""
        return self.domain.project(as_point(point, step))


def as_point(point: ArrayLike, step: float) -> Floats:
    """Return the point as a fresh vector, once the step has been checked."""
    non_negative("step", step)
    result = np.array(point, dtype=float)
    if result.ndim != 1:
        raise ParameterError(
            f"point must be a vector, got shape {result.shape}.", parameter="point"
        )
    return result


def _soft(point: Floats, threshold: Any) -> Floats:
    """Return every coordinate moved towards 0 by the threshold, but not past it."""
    return np.asarray(np.sign(point) * np.maximum(np.abs(point) - threshold, 0.0))


def _not_negative(name: str, values: Any) -> tuple[float, ...]:
    """Return the numbers, each zero or above."""
    if np.ndim(values) != 1 or isinstance(values, (str, bytes)):
        raise refusal(name, f"must be a sequence of numbers, got {shown(values)}.")
    return tuple(non_negative(f"{name}[{j}]", value) for j, value in enumerate(values))


def _same_size(name: str, size: int, point: ArrayLike) -> None:
    """Refuse a point with another number of coordinates than the penalty speaks of."""
    if np.shape(point) != (size,):
        raise ParameterError(
            f"{name} cover {size} coordinates, but the weights have shape {np.shape(point)}."
        )


def _partition(groups: Any) -> tuple[tuple[int, ...], ...]:
    """Return the groups, if every coordinate 0..d-1 is in exactly one of them."""
    try:
        result = tuple(tuple(group) for group in groups)
    except TypeError:
        raise ParameterError(
            f"groups must be a sequence of index lists, got {shown(groups)}.", parameter="groups"
        ) from None
    if not result or not all(result):
        raise ParameterError(
            "groups must be non-empty lists of coordinates; one of them is empty.",
            parameter="groups",
        )
    result = tuple(
        tuple(integer(f"groups[{k}]", j, at_least=0) for j in group)
        for k, group in enumerate(result)
    )
    indices = sorted(j for group in result for j in group)
    twice = [j for j, other in pairwise(indices) if j == other]
    if twice:
        raise ParameterError(f"groups overlap: coordinate {twice[0]} occurs more than once.")
    if indices[-1] != len(indices) - 1:
        missing = min(set(range(indices[-1])) - set(indices))
        raise ParameterError(
            f"groups leave a gap: coordinate {missing} is in none of them. Give it a group of "
            "strength 0 if it is not to be penalised."
        )
    return result
