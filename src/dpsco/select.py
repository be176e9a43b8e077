"""Which solver to use: every applicable one, ranked by predicted excess risk and by cost.

Predictions come from public facts alone. Why a solver does not apply is said in words.
"""

from __future__ import annotations

from .errors import AssumptionError
from .privacy.budget import Budget
from .problem import Problem
from .solvers import registry


def choose(problem: Problem, *, n: int, d: int, budget: Budget, calibration: str = "tight") -> str:
    """Return the key of the best applicable solver."""
    facts = problem.facts(n, d)
    fitting = {
        key: solver.risk(facts, budget)
        for key, solver in registry().items()
        if calibration in solver.calibrations and not solver.refusals(facts, budget)
    }
    if not fitting:
        raise AssumptionError("no solver applies to this problem and budget.")
    return min(fitting, key=lambda key: fitting[key])
