"""Gradients of which a moment is bounded, and nothing else: the lower bounds of lowy2023.

Lowy, Razaviyayn 2023, Thms 21 and 23. The private ones hide the mean in rows so rare that noise
covers them; the statistical ones are hard without privacy. ``moment`` is r, a bound on the k-th
moment (E ||gradient||^k)^(1/k). Constants are corrected where the printed ones do not give what the
theorems claim: the domain of the quadratic problem has radius sqrt(d) before it is scaled, not
sqrt(d) p^(-1/k), for which rows of zeros would break the moment.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _validate
from ..data.bounds import Bounds
from ..errors import AssumptionError, ParameterError
from ..geometry.domains import L2Ball
from ..losses import Absolute, SquaredDistance
from ..privacy.budget import Budget
from ..problem import Problem
from .hard import HardProblem

Floats = NDArray[np.float64]
Rows = Callable[[Floats], Floats]  # of uniform numbers

FEWEST_DIMENSIONS = 40  # of the theorems
ROOM = 1.0 + 1e-9  # a declared bound is not to cut what it bounds


def rare(n: int, d: int, rho: float) -> float:
    """Return p, the share of rows that are not zero: min(1, sqrt(d)/(n sqrt(rho))).

    >>> round(rare(10_000, 40, 0.125), 12)
    0.001788854382
    """
    return min(1.0, math.sqrt(d) / (n * math.sqrt(rho)))


def linear_private(
    n: int,
    d: int,
    budget: Budget,
    *,
    moment: float = 1.0,
    order: float = 2.0,
    radius: float = 1.0,
    signs: ArrayLike | None = None,
) -> HardProblem:
    """Return the linear problem that is hard under privacy (Thm 21, part 1).

    A row is 0, or with probability p the vector r p^(-1/k)/sqrt(d) times ``signs``; the loss is
    -<w, x>, up to a constant, over the ball of ``radius``. Zero weights have the excess
    r radius p^((k-1)/k), which is the lower bound up to a constant.

    Args:
        n: rows that a fit will see.
        d: weights, at least 40.
        budget: of that fit; its zCDP parameter is mu^2/2.
        moment: r.
        order: k, above 1.
        radius: of the domain.
        signs: d numbers 1 or -1, for the theorem drawn at random; by default they alternate.
    """
    direction = _direction(d, signs)
    size, k = _validate.positive("moment", moment), checked_order(order)
    p = rare(_validate.integer("n", n), d, budget.mu_per_row() ** 2 / 2.0)
    long = size * math.pow(p, -1.0 / k)

    def rows(uniform: Floats) -> Floats:
        return np.where(uniform[:, :1] < p, long * direction, 0.0)

    return _linear(rows, p * long * direction, long, radius)


def linear_statistical(
    n: int,
    d: int,
    *,
    moment: float = 1.0,
    bias: float = 1.0,
    radius: float = 1.0,
    signs: ArrayLike | None = None,
) -> HardProblem:
    """Return the linear problem that is hard without privacy (Thm 21, part 2).

    Coordinates are r/sqrt(d) or its negative, with ``bias``/(2 sqrt(n)) more probability for the
    sign of ``signs``. All rows have length r. Other arguments as in `linear_private`.
    """
    direction = _direction(d, signs)
    size, c = _validate.positive("moment", moment), _validate.positive("bias", bias)
    share = c / math.sqrt(_validate.integer("n", n))
    if share > 1.0:
        raise ParameterError(f"bias must be at most sqrt(n), got {c!r}.", parameter="bias")
    up = 0.5 * (1.0 + share * np.sign(direction))

    def rows(uniform: Floats) -> Floats:
        return np.where(uniform < up, 1.0, -1.0) * (size / math.sqrt(d))

    return _linear(rows, size * share * direction, size, radius)


def quadratic_private(
    n: int,
    d: int,
    budget: Budget,
    *,
    moment: float = 1.0,
    order: float = 2.0,
    signs: ArrayLike | None = None,
) -> HardProblem:
    """Return the strongly convex problem that is hard under privacy (Thm 23, part 1).

    The loss is ||w - x||^2/2 over the ball of radius r/2, in units in which its strong convexity is
    1; a row is 0, or with probability p it is r p^(-1/k)/(2 sqrt(d)) times ``signs``. Arguments as
    in `linear_private`.
    """
    direction = _direction(d, signs)
    size, k = _validate.positive("moment", moment), checked_order(order)
    p = rare(_validate.integer("n", n), d, budget.mu_per_row() ** 2 / 2.0)
    long = 0.5 * size * math.pow(p, -1.0 / k)

    def rows(uniform: Floats) -> Floats:
        return np.where(uniform[:, :1] < p, long * direction, 0.0)

    variance = long * long * p * (1.0 - p)
    return _quadratic(rows, p * long * direction, variance, long, 0.5 * size)


def quadratic_statistical(
    n: int, d: int, *, moment: float = 1.0, choices: ArrayLike | None = None
) -> HardProblem:
    """Return the strongly convex problem that is hard without privacy (Thm 23, part 2).

    The loss as in `quadratic_private`, over the ball of radius r/3; coordinates are r/(3 sqrt(d))
    or its negative, and where ``choices`` is 1 the positive one has 1/(2 sqrt(2 n)) more
    probability.

    Args:
        n, d, moment: as in `linear_private`.
        choices: d numbers 0 or 1, for the theorem drawn at random; by default they alternate.
    """
    size = _validate.positive("moment", moment)
    chosen = np.arange(_dimensions(d)) % 2.0 if choices is None else np.asarray(choices, float)
    if chosen.shape != (d,) or not np.all((chosen == 0.0) | (chosen == 1.0)):
        raise ParameterError(f"choices must be {d} numbers 0 or 1.", parameter="choices")
    bias = np.asarray(chosen / math.sqrt(2.0 * _validate.integer("n", n)), dtype=float)
    unit = size / (3.0 * math.sqrt(d))

    def rows(uniform: Floats) -> Floats:
        return np.where(uniform < 0.5 * (1.0 + bias), unit, -unit)

    mean = unit * bias
    variance = d * unit * unit - float(mean @ mean)
    return _quadratic(rows, mean, variance, size / 3.0, size / 3.0)


def checked_order(order: float) -> float:
    """Return k, the order of a moment; refuse 1 and less, for which no rate is known."""
    k = _validate.real("order", order)
    if not 1.0 < k < math.inf:
        raise ParameterError(
            f"order must be above 1, got {k!r}: a first moment bounds no clip. Use 2 (a variance).",
            parameter="order",
        )
    return k


def _linear(rows: Rows, mean: Floats, long: float, radius: float) -> HardProblem:
    """Return the problem of least -<w, x>: absolute residuals of labels beyond every prediction."""
    size = _validate.positive("radius", radius)
    label, strength = 2.0 * size * long, float(np.linalg.norm(mean))
    return HardProblem(
        problem=Problem(
            loss=Absolute(),
            bounds=Bounds(long * ROOM, label=label),
            domain=L2Ball(size),
        ),
        rows=rows,
        mean=mean,
        excess=lambda w: size * strength - float(mean @ w),
        best=mean * (size / strength),
        least=label - size * strength,
        label=label,
    )


def _quadratic(
    rows: Rows, mean: Floats, variance: float, long: float, radius: float
) -> HardProblem:
    """Return the problem of least ||w - x||^2/2, whose best weights are the mean."""
    problem = Problem(loss=SquaredDistance(), bounds=Bounds(long * ROOM), domain=L2Ball(radius))

    def excess(w: Floats) -> float:
        gap = w - mean
        return 0.5 * float(gap @ gap)

    return HardProblem(problem, rows, mean, excess, mean, 0.5 * variance)


def _direction(d: int, signs: ArrayLike | None) -> Floats:
    """Return signs/sqrt(d)."""
    size = _dimensions(d)
    chosen = 1.0 - 2.0 * (np.arange(size) % 2) if signs is None else np.asarray(signs, dtype=float)
    if chosen.shape != (size,) or not np.all(np.abs(chosen) == 1.0):
        raise ParameterError(f"signs must be {size} numbers 1 or -1.", parameter="signs")
    return np.asarray(chosen / math.sqrt(size), dtype=float)


def _dimensions(d: int) -> int:
    """Return d; refuse less than the theorems ask for."""
    size = _validate.integer("d", d)
    if size < FEWEST_DIMENSIONS:
        raise AssumptionError(
            f"the lower bound needs d >= {FEWEST_DIMENSIONS} weights, got {size}."
        )
    return size
