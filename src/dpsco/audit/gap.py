"""The Frank-Wolfe gap of weights: a diagnostic that reads the rows themselves.

It is no part of a fit. On private rows it is a release, so whoever asks says that the rows are
public (made up, or published), or names the budget out of which a noisy answer is paid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .. import _validate
from ..data.queries import ClippedGradient, weight_vector
from ..data.source import Source
from ..errors import AssumptionError, ParameterError
from ..fit.run import as_table
from ..privacy.budget import Adjacency, Budget
from ..privacy.certificate import Certificate
from ..privacy.ledger import Ledger
from ..privacy.mechanisms import GaussianRelease, gaussian_sigma
from ..privacy.randomness import Randomness
from ..problem import Problem
from ..solvers.base import Floats
from ..task import Task

_UNCLIPPED = 1e100


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
        AssumptionError: neither ``public`` nor ``budget``, or both; the domain is unbounded; the
            budget's adjacency is add_remove, under which the number of rows is not public.
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
    if budget.adjacency is Adjacency.ADD_REMOVE:
        raise AssumptionError(
            "fw_gap is of a mean over a public number of rows, which add_remove would have to "
            "hide. Use replace_one or zero_out."
        )
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
