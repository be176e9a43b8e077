"""Penalties under a constraint, and two sets that are no domains: their proximal operators.

Two facts give closed forms. If a penalty is a norm, or a norm plus ``c/2 ||w||^2``, then a ball
around 0 scales the penalty's own prox into the ball: with multiplier m the optimality condition
``v - (1 + m) w in step * d penalty(w)`` is that of the plain prox at ``(1 + m) w``. If a penalty is
a sum over coordinates, a box clips its prox, since in one dimension the minimum of a convex
function over an interval is the clipped free one. `Within` serves all other pairs by alternation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._validate import integer, positive, real, refusal
from ..errors import ParameterError
from ..geometry.norms import L2
from .penalties import Floats, Indicator, Penalty, Set, as_point


@dataclass(frozen=True)
class _Constrained(Penalty):
    """A penalty plus the indicator of a set."""

    penalty: Penalty

    @property
    def strong_convexity(self) -> float:
        """That of the penalty."""
        return self.penalty.strong_convexity


@dataclass(frozen=True)
class WithinBall(_Constrained):
    """A radial penalty plus the indicator of ``||w||_2 <= radius``, in closed form."""

    radius: float

    def __post_init__(self) -> None:
        if not self.penalty.radial:
            raise ParameterError(
                "WithinBall needs a penalty that is a norm, a ridge or both; "
                f"{type(self.penalty).__name__} is not. Use Within(penalty, domain)."
            )
        object.__setattr__(self, "radius", positive("radius", self.radius))

    def value(self, weights: ArrayLike) -> float:
        """Return the penalty, inf outside the ball."""
        inside = float(L2(weights)) <= self.radius * (1.0 + 1e-12)
        return self.penalty.value(weights) if inside else math.inf

    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return the penalty's prox, scaled into the ball."""
        result = self.penalty.prox(point, step)
        length = float(L2(result))
        return result if length <= self.radius else result / length * self.radius


@dataclass(frozen=True)
class Within(_Constrained):
    """Any penalty plus the indicator of any set, by a fixed number of Dykstra's steps.

    The answer lies in the set; it is the prox only in the limit of many ``iterations``, a public
    number. `WithinBall` and `WithinBox` are exact.
    """

    domain: Set
    iterations: int = 1000

    def __post_init__(self) -> None:
        Indicator(self.domain)
        object.__setattr__(self, "iterations", integer("iterations", self.iterations))

    def value(self, weights: ArrayLike) -> float:
        """Return the penalty, inf outside the set."""
        return Indicator(self.domain).value(weights) + self.penalty.value(weights)

    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return the last projection of Dykstra's alternation."""
        result = as_point(point, step)
        first, second = np.zeros_like(result), np.zeros_like(result)
        for _ in range(self.iterations):
            shrunk = self.penalty.prox(result + first, step)
            first = result + first - shrunk
            result = self.domain.project(shrunk + second)
            second = shrunk + second - result
        return result


@dataclass(frozen=True)
class WithinBox(_Constrained):
    """A sum over coordinates plus the indicator of ``lower <= w_j <= upper``, in closed form.

    ``WithinBox(NoPenalty(), 0.0, math.inf)`` keeps weights from being negative.
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.penalty.separable:
            raise ParameterError(
                "WithinBox needs a penalty that is a sum over coordinates; "
                f"{type(self.penalty).__name__} is not. Use Within(penalty, domain)."
            )
        lower, upper = real("lower", self.lower), real("upper", self.upper)
        if not lower <= upper or lower == math.inf or upper == -math.inf:
            raise ParameterError(
                f"lower must not exceed upper, got {lower!r} and {upper!r}.", parameter="lower"
            )
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    def value(self, weights: ArrayLike) -> float:
        """Return the penalty, inf outside the box."""
        w = np.asarray(weights, dtype=float)
        inside = bool(np.all((w >= self.lower) & (w <= self.upper)))
        return self.penalty.value(w) if inside else math.inf

    def prox(self, point: ArrayLike, step: float) -> Floats:
        """Return the penalty's prox, clipped to the box."""
        return np.clip(self.penalty.prox(point, step), self.lower, self.upper)


@dataclass(frozen=True)
class HalfSpace:
    """All w with ``<normal, w> <= offset``."""

    normal: tuple[float, ...]
    offset: float

    def __post_init__(self) -> None:
        normal = _finite("normal", self.normal, 1)
        if not np.any(normal):
            raise ParameterError(
                "normal must not be the zero vector: it has no direction.", parameter="normal"
            )
        length = float(L2(normal))
        offset = real("offset", self.offset)
        object.__setattr__(self, "normal", tuple((normal / length).tolist()))
        object.__setattr__(self, "offset", offset / length)

    def project(self, point: Floats) -> Floats:
        """Return the nearest point of the half-space."""
        unit = np.asarray(self.normal)
        return np.asarray(point - unit * max(0.0, float(unit @ point) - self.offset))

    def contains(self, point: Floats, slack: float = 1e-9) -> bool:
        """Say whether the point is in it, up to ``slack`` relative to the point's size."""
        excess = float(np.asarray(self.normal) @ point) - self.offset
        return excess <= slack * max(1.0, abs(self.offset), float(L2(point)))


@dataclass(frozen=True)
class AffineSet:
    """All w with ``matrix @ w = offset``; redundant rows do no harm, contradictions are refused."""

    matrix: tuple[tuple[float, ...], ...]
    offset: tuple[float, ...]
    _inverse: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        matrix, offset = _finite("matrix", self.matrix, 2), _finite("offset", self.offset, 1)
        if len(matrix) != len(offset):
            raise ParameterError(
                f"offset must have one number for each of the matrix's {len(matrix)} rows, "
                f"got {len(offset)}.",
                parameter="offset",
            )
        inverse = np.linalg.pinv(matrix)
        start = inverse @ offset
        scale = max(1.0, float(np.max(np.abs(offset))))
        if not np.allclose(matrix @ start, offset, rtol=0.0, atol=1e-9 * scale):
            raise ParameterError("offset contradicts the matrix: no w has matrix @ w = offset.")
        object.__setattr__(self, "matrix", tuple(map(tuple, matrix.tolist())))
        object.__setattr__(self, "offset", tuple(offset.tolist()))
        object.__setattr__(self, "_inverse", inverse)

    def project(self, point: Floats) -> Floats:
        """Return the nearest point of the set."""
        return np.asarray(point - self._inverse @ (np.asarray(self.matrix) @ point - self.offset))

    def contains(self, point: Floats, slack: float = 1e-9) -> bool:
        """Say whether the point is in it, up to ``slack`` relative to the point's size."""
        return float(L2(point - self.project(point))) <= slack * max(1.0, float(L2(point)))


def _finite(name: str, values: Any, dimensions: int) -> Floats:
    """Return the numbers as an array of so many dimensions, not empty."""
    try:
        result = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        result = np.empty(0)
    if result.ndim != dimensions or result.size == 0 or not np.all(np.isfinite(result)):
        kind = "vector" if dimensions == 1 else "matrix"
        raise refusal(name, f"must be a non-empty {kind} of finite numbers.")
    return result
