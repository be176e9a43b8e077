"""Which solver to use: every applicable one, ranked by predicted excess risk and by cost.

Predictions come from public task alone: each solver's own formula (the bound of its theorem in
practical form) times a factor that says how far its measured excess lies from the formula on
made-up problems (``python -m benchmarks.predictions``). They rank; they do not promise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import AssumptionError, ParameterError
from ..privacy.budget import ApproxDP, Budget
from ..problem import Problem
from ..solvers import registry
from ..solvers.common.smoothing import nonsmooth
from ..task import Task, as_task

ONE_PASS = ("acc_srgd", "srg_online_to_batch", "dp_ftrl", "srg_sgd", "dp_sgd_single_epoch")
"""Solvers for rows that are seen once, the most reliable first: on 27 made-up problems and three
real tables the excess of acc_srgd was the least of them or up to 3.3 times it, but for one table
where it was below 0.005; that of dp_ftrl was up to a thousand times the least."""

CLOSE = 1.01  # predictions within this ratio count as equal: the cheaper solver goes first

FITTED = 0.066  # the factor of the part of a formula that is not noise

MEASURED: dict[str, tuple[float, float]] = {
    "noisy_gd": (0.066, 0.067),
    "approx_objective_perturbation": (0.061, 0.10),
    "approx_objective_perturbation_sc": (0.061, 0.10),
    "dp_sgd_poisson": (0.080, 0.12),
    "dp_sgd_gradient": (0.08, 0.08),
    "noisy_sgd_2019": (0.065, 0.069),
    "noisy_sgd_2020": (0.06, 0.06),
    "phased_sgd": (0.073, 0.073),
    "phased_sgd_gll": (0.063, 0.052),
    "phased_dp_sgd_unconstrained": (0.096, 0.096),
    "phased_erm": (0.039, 0.039),
    "dp_sgd_single_epoch": (0.052, 0.087),
    "dp_ftrl": (0.018, 0.040),
    "acc_srgd": (0.041, 0.16),
    "acc_independent": (0.050, 0.14),
    "srg_sgd": (0.061, 0.18),
    "srg_online_to_batch": (0.090, 0.22),
    "dp_sgd_output": (0.081, 0.10),
    "dp_sgd_output_unbounded": (0.15, 0.10),
    "bolt_on_sgd": (0.12, 0.12),
}
"""Measured excess over a solver's formula, for smooth and for nonsmooth losses: geometric means
over made-up tables and epsilon 0.1, 1 and 8."""


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
    problem: Problem | Task,
    n: int | None = None,
    d: int | None = None,
    budget: Budget | None = None,
    *,
    calibration: str = "tight",
) -> Recommendation:
    """Rank every solver that applies to the task, from public facts.

    Args:
        problem, n, d, budget, calibration: as in `dpsco.plan`.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> found = recommend(problem, 50_000, 20, dp.ApproxDP(1.0, 1e-9))
    >>> found.best in [candidate.solver for candidate in found.ranked]
    True
    """
    task = as_task(problem, n=n, d=d, budget=budget, calibration=calibration)
    ranked, refused = [], {}
    for key, solver in registry().items():
        reasons = solver.refusals(task)
        if task.calibration not in solver.calibrations:
            words = ", ".join(solver.calibrations)
            reasons = (*reasons, f"it has calibration {words} only, not {task.calibration}")
        if reasons:
            refused[key] = reasons
            continue
        risk = _predicted(key, task)
        ranked.append(Candidate(key, risk, solver.gradients(task)))
    return Recommendation(tuple(_order(ranked)), refused)


def choose(task: Task) -> str:
    """Return the key of the best applicable solver; refuse if there is none."""
    return recommend(task).best


def choose_one_pass(*, calibration: str = "tight", options: Mapping[str, Any] | None = None) -> str:
    """Return the solver for rows that are seen once: the most reliable that has such options.

    Args:
        calibration: as in `dpsco.plan`.
        options: of the solver.
    """
    asked = set({} if options is None else options)
    for key in ONE_PASS:
        solver = registry()[key]
        if calibration in solver.calibrations and asked <= set(solver.options):
            return key
    return ONE_PASS[0]  # which will say what it does not have


def factor(key: str, nonsmooth: bool) -> float:
    """Return how far measured excess lies from a solver's formula; 1 where it was not measured."""
    return MEASURED.get(key, (1.0, 1.0))[nonsmooth]


def _predicted(key: str, task: Task) -> float:
    """Return the predicted excess risk; infinite where the formula says nothing."""
    try:
        solver = registry()[key]
        # Factors were measured where noise matters; without it a formula's own bias remains.
        plenty = ApproxDP(1e4, 1e-3, adjacency=task.budget.adjacency)
        clean = FITTED * solver.risk(replace(task, budget=plenty))
        risk = max(clean, solver.risk(task) * factor(key, nonsmooth(task)))
    except (AssumptionError, ParameterError, ArithmeticError):
        return math.inf  # gradients of a user's own without a bound, a domain of a single point
    return risk if math.isfinite(risk) else math.inf


def _order(candidates: list[Candidate]) -> list[Candidate]:
    """Sort by risk; of those about as good as the best, the cheapest comes first.

    Where nothing is predicted of any, the registry's order stays.
    """
    ranked = sorted(candidates, key=lambda found: found.risk)
    if not ranked or math.isinf(ranked[0].risk):
        return ranked
    close = [found for found in ranked if found.risk <= CLOSE * ranked[0].risk]
    first = min(close, key=lambda found: found.gradients)
    return [first, *(found for found in ranked if found is not first)]
