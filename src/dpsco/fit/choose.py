"""Which solver to use: every applicable one, ranked by predicted excess risk and by cost.

A prediction comes from the public task alone: the solver's own formula (the bound of its theorem in
practical form) times the factor that its entry declares, which says how far its measured excess
lies from the formula on made-up problems (``python -m benchmarks.predictions``). Predictions rank;
they do not promise. A solver without such a factor is not calibrated: its formula cannot be
compared with predictions, so it comes after all that can, and every listing says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..errors import AssumptionError, ParameterError
from ..privacy.budget import ApproxDP, Budget
from ..problem import Problem
from ..solvers import get, registry
from ..solvers.base import NOT_CALIBRATED
from ..solvers.common.smoothing import nonsmooth
from ..task import Task, as_task

CLOSE = 1.01  # predictions within this ratio count as equal: the cheaper solver goes first
FITTED = 0.066  # the factor of the part of a formula that is not noise
WEAK = 0.25  # of the loss of a model that knows nothing: more excess than this is little use


@dataclass(frozen=True)
class Candidate:
    """A solver that applies."""

    solver: str
    risk: float  # predicted excess risk; the formula's own if the solver is not calibrated
    gradients: float  # about how many gradients of a row a run takes
    calibrated: bool = True  # whether the prediction rests on measurements


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
            reasons = {reason for unmet in self.refused.values() for reason in unmet}
            raise AssumptionError(
                "no solver applies to this problem and budget: " + "; ".join(sorted(reasons)) + "."
            )
        return self.ranked[0].solver

    def to_json(self) -> dict[str, Any]:
        """Return the recommendation as JSON values."""
        return {
            "ranked": [asdict(candidate) for candidate in self.ranked],
            "refused": {key: list(reasons) for key, reasons in self.refused.items()},
        }

    def __str__(self) -> str:
        lines = [f"{'solver':<36}{'predicted excess':>18}{'gradients':>12}"]
        for candidate in self.ranked:
            line = f"{candidate.solver:<36}{candidate.risk:>18.3g}{candidate.gradients:>12.2g}"
            lines.append(line if candidate.calibrated else f"{line}  {NOT_CALIBRATED}")
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
        problem: a `Task`; or a `Problem`, whose task has the next arguments.
        n, d, budget, calibration: as in `Task`, if a problem is given.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> advice = recommend(problem, 50_000, 20, dp.ApproxDP(1.0, 1e-9))
    >>> advice.best in [candidate.solver for candidate in advice.ranked]
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
        risk, calibrated = predict(task, key), solver.measured is not None
        ranked.append(Candidate(key, risk, solver.gradients(task), calibrated))
    return Recommendation(tuple(_order(ranked)), refused)


def choose(
    task: Task, *, single_epoch: bool = False, options: Mapping[str, Any] | None = None
) -> str:
    """Return the key of the solver that ``solver="auto"`` takes.

    Args:
        task: the public side of the fit.
        single_epoch: whether every row may be asked for once only, as for rows that come once and
            for runs with a checkpoint. Then the most reliable such solver is taken (predictions
            tell those apart badly), of those that have the options.
        options: settings of the solver.

    Raises:
        AssumptionError: no solver applies.
    """
    if not single_epoch:
        return recommend(task).best
    by_rank = sorted(
        (entry.rank, solver.key)
        for solver in registry().values()
        if (entry := solver.single_epoch) is not None and entry.rank is not None
    )
    keys = [key for _, key in by_rank]
    names = set({} if options is None else options)
    for solver in map(get, keys):
        if task.calibration in solver.calibrations and names <= set(solver.options):
            return solver.key
    return keys[0]  # which will say what it does not have


def predict(task: Task, key: str) -> float:
    """Return the predicted excess risk of one solver; infinite where its formula says nothing.

    Of a solver that is not calibrated this is its formula.
    """
    solver = get(key)
    try:
        risk = solver.risk(task)
        if solver.measured is not None:
            # Factors were measured where noise matters; without it a formula's own bias remains.
            plenty = ApproxDP(1e4, 1e-3, adjacency=task.budget.adjacency)
            clean = FITTED * solver.risk(replace(task, budget=plenty))
            risk = max(clean, risk * solver.measured[nonsmooth(task)])
    except (AssumptionError, ParameterError, ArithmeticError):
        return math.inf  # gradients of a user's own without a bound, a domain of a single point
    return risk if math.isfinite(risk) else math.inf


@dataclass(frozen=True)
class Outlook:
    """What a predicted excess risk means beside a model that knows nothing."""

    promising: bool  # whether there is room to learn, or nothing is predicted
    sentence: str


def outlook(task: Task, risk: float) -> Outlook:
    """Return whether a fit of this predicted excess risk is worth its budget, in a sentence."""
    guess = task.constants.value_at_zero  # the largest loss of a model that knows nothing
    if not math.isfinite(risk):
        return Outlook(True, "Nothing is predicted about the excess risk of this fit.")
    costs = f"noise is expected to cost {risk:.3g}, and guessing costs {guess:.3g} at most"
    if risk >= guess:
        advice = "Use more rows, fewer features, or a larger epsilon."
        return Outlook(False, f"Noise exceeds what can be learnt: {costs}. {advice}")
    if risk >= WEAK * guess:
        advice = "More rows, fewer features or a larger epsilon help."
        return Outlook(False, f"Weak: {costs}. {advice}")
    return Outlook(True, f"There is room to learn: {costs}.")


def _order(candidates: list[Candidate]) -> list[Candidate]:
    """Sort by risk, the calibrated ones first; of those about as good as the best the cheapest is.

    Where nothing is predicted of any, the registry's order stays.
    """
    ranked = sorted(candidates, key=lambda candidate: (not candidate.calibrated, candidate.risk))
    if not ranked or math.isinf(ranked[0].risk) or not ranked[0].calibrated:
        return ranked
    close = [c for c in ranked if c.calibrated and c.risk <= CLOSE * ranked[0].risk]
    first = min(close, key=lambda candidate: candidate.gradients)
    return [first, *(candidate for candidate in ranked if candidate is not first)]
