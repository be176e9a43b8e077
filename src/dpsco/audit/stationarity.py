"""How far weights are from a stationary point: diagnostics that read the rows themselves.

| function            | value                                                                      |
|---------------------|----------------------------------------------------------------------------|
| `fw_gap`            | the Frank-Wolfe gap, for losses that are smooth over a bounded domain      |
| `prox_stationarity` | the distance to the proximal point, for losses that need not be smooth     |

They are no part of a fit. On private rows such a number is a release, so the caller says that the
rows are public (made up, or published), or passes the budget out of which a noisy answer is paid:
`public_or_paid`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _validate
from ..data.queries import ClippedGradient, weight_vector
from ..data.source import Source
from ..errors import AssumptionError, ParameterError
from ..fit.run import as_table, solve
from ..geometry.mirror import PNormMap
from ..geometry.norms import Lp
from ..losses.penalties import NoPenalty
from ..privacy.budget import Budget
from ..privacy.certificate import Certificate
from ..privacy.ledger import Ledger
from ..privacy.mechanisms import GaussianRelease, gaussian_sigma
from ..privacy.randomness import Randomness
from ..problem import Problem
from ..solvers.base import Floats
from ..task import Task

STEPS = 300
_UNCLIPPED = 1e100


def public_or_paid(name: str, *, public: bool, budget: Budget | None) -> bool:
    """Return whether rows are public; refuse them where nobody says so and nobody pays.

    Raises:
        AssumptionError: neither or both were said.
    """
    if _validate.flag("public", public) == (budget is not None):
        raise AssumptionError(
            f"{name} reads the rows themselves, so on private rows its value is a release that "
            "no fit has paid for. Pass public=True for rows that are made up or published, or "
            "budget=... for a noisy answer; one of the two."
        )
    return budget is None


# -- the Frank-Wolfe gap ---------------------------------------------------------------------------


@dataclass(frozen=True)
class FrankWolfeGap:
    """What `fw_gap` returns."""

    gap: float  # max <gradient, w - v> over members v of the domain; of a noisy gradient if paid
    noise: float  # deviation of that gradient's noise, per coordinate; 0 if rows are public
    certificate: Certificate | None  # what a noisy answer has cost


def fw_gap(
    problem: Problem,
    weights: Floats,
    data: Any,
    *,
    public: bool = False,
    budget: Budget | None = None,
    clip: float | None = None,
    randomness: Randomness | None = None,
) -> FrankWolfeGap:
    """Return the Frank-Wolfe gap of the mean loss: 0 exactly at stationary points, else positive.

    For convex losses it bounds the excess over the best weights in the domain. For others a small
    gap alone proves little: a single vertex may have a tiny one, so look at the loss beside it.

    Args:
        problem: the loss, bounds and domain; rows are clipped to the bounds.
        weights: in the domain.
        data: a table, or (X, y).
        public: that the rows are public: the answer is exact.
        budget: pays for the answer of a noisy gradient, which is too large by about the support of
            its noise.
        clip: l2 bound on a row's gradient where noise is paid; by default the loss's own.
        randomness: of the noisy answer.

    Raises:
        AssumptionError: neither ``public`` nor ``budget``, or both; the domain is unbounded.
        ParameterError: the weights lie outside of the domain.

    >>> import numpy as np
    >>> import dpsco as dp
    >>> problem = dp.Problem(
    ...     loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1.0), domain=dp.domains.L1Ball(1.0)
    ... )
    >>> rows = np.tile([0.5, 0.0], (10, 1))
    >>> fw_gap(problem, [0.5, 0.0], (rows,), public=True).gap
    0.0
    >>> fw_gap(problem, [-1.0, 0.0], (rows,), public=True).gap
    3.0
    """
    open_rows = public_or_paid("fw_gap", public=public, budget=budget)
    point = _member(problem, weights)
    table = as_table(data)
    source = table if isinstance(table, Source) else table.bounded(problem.bounds, order="given")
    noise, certificate = 0.0, None
    if open_rows:
        gradient = source.sum(ClippedGradient(problem.loss, point, _UNCLIPPED)) / source.n
    else:
        assert budget is not None
        gradient, noise, certificate = _noisy(problem, point, source, budget, clip, randomness)
    gap = float(gradient @ point + problem.domain.support(-gradient))
    return FrankWolfeGap(max(0.0, gap), noise, certificate)


def _member(problem: Problem, weights: Floats) -> Floats:
    """Return the weights; refuse domains without end, and weights outside of them."""
    point, domain = weight_vector("weights", weights), problem.domain
    if not math.isfinite(domain.radius(len(point))):
        raise AssumptionError(
            f"fw_gap needs a bounded domain, for example domains.L1Ball(10.0); got {domain!r}."
        )
    if not domain.contains(point):
        raise ParameterError(
            "weights must lie in the domain, or the gap means nothing: project them first.",
            parameter="weights",
        )
    return point


def _noisy(
    problem: Problem,
    point: Floats,
    source: Source,
    budget: Budget,
    clip: float | None,
    randomness: Randomness | None,
) -> tuple[Floats, float, Certificate]:
    """Return a noisy mean gradient, its noise and what it costs."""
    columns = source.d - (problem.bounds.intercept is not None)
    bound = Task(problem, source.n, columns, budget).gradient_bound(clip)
    rows = (0, source.n)
    sigma = gaussian_sigma(budget, bound=bound, rows=rows)
    query = ClippedGradient(problem.loss, point, bound)
    ledger = Ledger(
        [GaussianRelease(bound, sigma, rows=rows)],
        budget,
        randomness=randomness,
        enforced=(*problem.bounds.enforced, *query.enforced),
        trusted=query.trusted,
        label="fw_gap",
    )
    noisy = ledger.gaussian(source.sum(query), bound=bound, sigma=sigma, rows=rows)
    return noisy / source.n, sigma / source.n, ledger.close()


# -- the proximal point ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ProxStationarity:
    """What `prox_stationarity` returns."""

    distance: float  # |prox(w) - w|_p
    gap: float  # bound on the Frank-Wolfe gap at prox(w), curvature * diameter * distance
    certificate: Certificate | None  # what a noisy answer has cost


def prox_stationarity(
    problem: Problem,
    weights: Floats,
    data: Any,
    *,
    curvature: float,
    p: float = 2.0,
    public: bool = False,
    budget: Budget | None = None,
    steps: int = STEPS,
    randomness: Randomness | None = None,
) -> ProxStationarity:
    """Return how far weights are from their proximal point argmin F(v) + curvature/2 |v - w|_p^2.

    It is 0 exactly at stationary points, also of losses that are not smooth, and the Frank-Wolfe
    gap at the proximal point is at most curvature * diameter * distance (Bassily, Guzman, Menart
    2021, Lemma 14).

    Args:
        problem: the loss, bounds and domain; rows are clipped to the bounds.
        weights: in the domain.
        data: a table, or (X, y).
        curvature: above the weak convexity of a row's loss over p - 1, or the proximal point is
            not unique.
        p: the norm, 1 < p <= 2.
        public: that the rows are public: the answer is exact up to the steps of a minimiser.
        budget: pays for a noisy answer, by `strongly_convex_lp` on all rows.
        steps: of the minimiser on public rows.
        randomness: of the noisy answer.

    Raises:
        AssumptionError: neither ``public`` nor ``budget``, too little curvature, or a penalty.
    """
    open_rows = public_or_paid("prox_stationarity", public=public, budget=budget)
    if not isinstance(problem.penalty, NoPenalty):
        raise AssumptionError(
            f"prox_stationarity is of a loss over a domain, and the problem has "
            f"{problem.penalty!r}. Leave the penalty out: it is public, and known without rows."
        )
    table = as_table(data)
    source = table if isinstance(table, Source) else table.bounded(problem.bounds, order="given")
    point = weight_vector("weights", weights)
    beta = _checked_curvature(problem, curvature, p, len(point))
    if open_rows:
        near = _proximal_point(problem, point, source, beta, p, _validate.integer("steps", steps))
        certificate = None
    else:
        assert budget is not None
        options = {"p": p, "strength": beta, "centre": point}
        key = "strongly_convex_lp"
        result = solve(problem, table, budget, solver=key, options=options, randomness=randomness)
        near, certificate = result.weights, result.certificate
    distance = float(Lp(p)(near - point))
    diameter = problem.domain.diameter(len(point), Lp(p))
    return ProxStationarity(distance, beta * diameter * distance, certificate)


def _checked_curvature(problem: Problem, curvature: float, p: float, d: int) -> float:
    """Return a curvature that makes the proximal point unique."""
    beta = _validate.positive("curvature", curvature)
    p = _validate.real("p", p)
    if not 1.0 < p <= 2.0:
        raise _validate.refusal("p", f"must be above 1 and at most 2, got {p!r}.")
    bounds = problem.bounds
    constants = problem.loss.constants(
        feature=bounds.row_norm, label=bounds.label_bound, radius=problem.domain.max_norm(d)
    )
    least = constants.weak_convexity / (p - 1.0)
    if not beta > least:
        raise AssumptionError(
            f"curvature must exceed the weak convexity {constants.weak_convexity:g} of a row's "
            f"loss over p - 1, {least:g}, got {beta:g}: the proximal point is not unique."
        )
    return beta


def _proximal_point(
    problem: Problem, centre: Floats, source: Source, beta: float, p: float, steps: int
) -> Floats:
    """Return the proximal point on public rows, by composite steps of 2/(curvature t)."""
    steepest, n = PNormMap(p), source.n
    curvature, weights, average, total = 0.5 * beta, centre, np.zeros(len(centre)), 0.0
    for t in range(1, steps + 1):
        query = ClippedGradient(problem.loss, weights, _UNCLIPPED)
        gradient = source.sum(query, 0, n) / n
        domain = problem.domain if p == 2.0 else None
        length = 2.0 / (curvature * t)
        weights = problem.domain.project(
            steepest.step(weights, gradient, length, domain=domain, extra=beta, centre=centre)
        )
        average, total = average + (t + 3.0) * weights, total + t + 3.0
    return np.asarray(average / total)
