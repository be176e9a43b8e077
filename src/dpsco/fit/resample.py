"""From population to empirical risk: a private solver on rows drawn with replacement.

Su, Zhao, Wang 2023 (arXiv:2303.18047), Thm 12: what solves stochastic problems also solves the
empirical one, because the empirical distribution is a distribution. It is a tool of lower bounds:
the same solver on the rows themselves has less noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ParameterError
from ..privacy.accounting.resampling import resampled_mu
from ..privacy.budget import GDP, ApproxDP
from ..privacy.randomness import Randomness
from ..problem import Problem
from ..solvers.base import Floats, Result
from .run import solve


@dataclass(frozen=True, eq=False)
class Resampled:
    """The weights, what they cost the rows, and the fit on the resampled ones."""

    weights: Floats
    budget: ApproxDP  # what the rows have paid, resampling included
    inner: Result  # its certificate speaks of the resampled rows, not of the rows


def erm_from_sco(
    problem: Problem,
    data: tuple[Any, ...],
    budget: ApproxDP,
    *,
    solver: str = "noisy_gd",
    options: Mapping[str, Any] | None = None,
    randomness: Randomness | None = None,
) -> Resampled:
    """Fit n secret draws from n rows with the noise that makes it private for the rows.

    Args:
        problem: as in `solve`.
        data: (X, y) or (X,), arrays or sparse matrices.
        budget: what a row may lose, at one epsilon and delta.
        solver: of Gaussian releases: it is given a GDP budget.
        options: of the solver.
        randomness: of the draws and the noise.
    """
    if not isinstance(data, tuple) or not all(hasattr(part, "shape") for part in data):
        raise ParameterError("erm_from_sco draws from arrays: pass (X, y).", parameter="data")
    n = int(data[0].shape[0])
    mu = resampled_mu(budget, n)
    root = Randomness.secure() if randomness is None else randomness
    drawn = np.asarray(root.child("resample").integers(n, n))
    inner = GDP(mu, adjacency=budget.adjacency)
    table = tuple(part[drawn] for part in data)
    result = solve(problem, table, inner, solver=solver, options=options, randomness=root)
    return Resampled(result.weights, budget, result)
