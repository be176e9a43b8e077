"""Which solver to use: every applicable one, ranked by predicted excess risk and by cost.

Predictions come from public facts alone: each solver's own formula (the bound of its theorem in
practical form) times a factor that says how far its measured excess lies from the formula on
made-up problems (``python -m benchmarks.predictions``). They rank; they do not promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .errors import AssumptionError
from .privacy.budget import Budget
from .problem import Facts, Problem
from .solvers import registry

CLOSE = 1.1  # predictions within this ratio count as equal: the cheaper solver goes first

MEASURED: dict[str, float] = {}
"""Measured excess over the solver's formula: geometric means over made-up problems."""


@dataclass(frozen=True)
class Candidate:
    """A solver that applies."""

    solver: str
    risk: float  # predicted excess risk
    gradients: float  # about how many gradients of a row a run takes


@dataclass(frozen=True)
class Recommendation:
    """Solvers that apply, best first, and why the others do not."""

    ranked: tuple[Candidate, ...]
    refused: dict[str, tuple[str, ...]]

    @property
    def best(self) -> str:
        """The key of the solver that ``solver="auto"`` takes.

        Raises:
            AssumptionError: none applies.
        """
        if not self.ranked:
            reasons = {reason for found in self.refused.values() for reason in found}
            raise AssumptionError(
                "no solver applies to this problem and budget: " + "; ".join(sorted(reasons)) + "."
            )
        return self.ranked[0].solver

    def to_json(self) -> dict[str, Any]:
        """Return the recommendation as JSON values."""
        ranked = [
            {"solver": found.solver, "risk": found.risk, "gradients": found.gradients}
            for found in self.ranked
        ]
        return {"ranked": ranked, "refused": {k: list(v) for k, v in self.refused.items()}}

    def __str__(self) -> str:
        lines = [f"{'solver':<36}{'predicted excess':>18}{'gradients':>12}"]
        lines += [
            f"{found.solver:<36}{found.risk:>18.3g}{found.gradients:>12.2g}"
            for found in self.ranked
        ]
        lines += [f"not {key}: {'; '.join(reasons)}" for key, reasons in self.refused.items()]
        return "\n".join(lines)


def recommend(
    problem: Problem, n: int, d: int, budget: Budget, *, calibration: str = "tight"
) -> Recommendation:
    """Rank every solver that applies to the problem, from public facts.

    Args:
        problem, n, d, budget, calibration: as in `dpsco.plan`.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> found = recommend(problem, 50_000, 20, dp.ApproxDP(1.0, 1e-9))
    >>> found.best in [candidate.solver for candidate in found.ranked]
    True
    """
    facts = problem.facts(n, d)
    ranked, refused = [], {}
    for key, solver in registry().items():
        reasons = solver.refusals(facts, budget)
        if calibration not in solver.calibrations:
            words = ", ".join(solver.calibrations)
            reasons = (*reasons, f"it has calibration {words} only, not {calibration}")
        if reasons:
            refused[key] = reasons
            continue
        risk = _predicted(key, facts, budget)
        ranked.append(Candidate(key, risk, solver.gradients(facts, budget)))
    return Recommendation(tuple(_order(ranked)), refused)


def choose(problem: Problem, *, n: int, d: int, budget: Budget, calibration: str = "tight") -> str:
    """Return the key of the best applicable solver; refuse if there is none."""
    return recommend(problem, n, d, budget, calibration=calibration).best


def _predicted(key: str, facts: Facts, budget: Budget) -> float:
    risk = registry()[key].risk(facts, budget) * MEASURED.get(key, 1.0)
    return risk if math.isfinite(risk) else math.inf


def _order(candidates: list[Candidate]) -> list[Candidate]:
    """Sort by risk; of those about as good as the best, the cheapest comes first."""
    ranked = sorted(candidates, key=lambda found: found.risk)
    if not ranked:
        return ranked
    close = [found for found in ranked if found.risk <= CLOSE * ranked[0].risk]
    first = min(close, key=lambda found: found.gradients)
    return [first, *(found for found in ranked if found is not first)]
