"""Which solver to use: every applicable one, ranked by what was measured, then by prediction.

A prediction comes from the public task alone: the solver's own formula (the bound of its theorem in
practical form) times the factor that its entry declares, which says how far its measured excess
lies from the formula on made-up problems (``python -m benchmarks.predictions``). Predictions rank;
they do not promise. A solver without such a factor is not calibrated: its formula cannot be
compared with predictions, so it comes after all that can, and every listing says so.

Facts go before predictions. An entry declares where its solver kept up with the best of all
(`MeasuredRange`); such solvers come first, since a prediction says little where nothing was
measured. Predictions that are less than a factor of 2 apart cannot tell two solvers apart (on real
tables their errors are larger), so of those the more reliable one goes first, which the order of
the entries says: noisy gradient descent lost little wherever another was better, and the others
lost much wherever it was. Among solvers with the same facts nothing that is predicted to end worse
than zero weights goes before what is not; facts go first, for in high dimension predictions of
solvers that were not measured there have been low, and their loss six times that of zero weights.
On large tables where noise hardly matters all that is left to save is
time: there the cheapest of those that are predicted at least as good goes first.

At the same epsilon and delta solvers differ in what an attacker can achieve, since their privacy
curves differ elsewhere. With ``prefer="attack"`` the solver with the least proven bound on attacks
goes first, among those that are as good as the first by the rules above: the same facts, and a
prediction within `CLOSE` times its prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

from .. import _validate
from .._display import Displayed
from ..errors import AssumptionError, MissingExtraError, ParameterError
from ..privacy.accounting.attack_roc import AttackBound, Odds, percent
from ..privacy.budget import ApproxDP, Budget
from ..problem import Problem
from ..solvers import get, registry
from ..solvers.base import NOT_CALIBRATED, Solver
from ..solvers.common.smoothing import nonsmooth
from ..solvers.engine import takes_sums
from ..task import Task, as_task

CLOSE = 2.0  # predictions within this ratio count as equal: the more reliable solver goes first
EQUAL = 1.01  # the same where noise hardly matters, and the cheaper solver goes first:
PLENTY = 20.0  # from so many z for each weight on
LARGE = 1e6  # rows times weights: below, every solver takes less than half a second
FITTED = 0.066  # the factor of the part of a formula that is not noise

PREFERENCES = ("accuracy", "attack")  # what "auto" can be told to weigh

RELIABLE = "noisy_gd"  # what `auto` takes nearly everywhere

RIGHT = "right: how often an attack can be right about one row at most, proven; guessing: 50 %"
_ORDER = (
    "Multiples of the first. Solvers go first where measurements cover the task, then by "
    "prediction."
)


@dataclass(frozen=True)
class Candidate:
    """A solver that applies."""

    solver: str
    risk: float  # predicted excess, to compare solvers; a bare formula if not calibrated
    gradients: float  # about how many gradients of a row a run takes
    calibrated: bool = True  # whether the prediction rests on measurements
    measured: bool = True  # whether the task lies where the solver kept up with the best
    proven: bool = True  # whether it did so anywhere
    order: int = 1  # of the entry: reliable solvers first
    worse: bool = False  # whether it is predicted to end worse than zero weights

    @property
    def facts(self) -> int:
        """What was measured, best first: it kept up here, elsewhere, is calibrated, nothing."""
        if not self.calibrated:
            return 3
        if self.measured:
            return 0
        return 1 if self.proven else 2

    @property
    def kind(self) -> tuple[int, bool]:
        """What goes before predictions."""
        return self.facts, self.worse


@dataclass(frozen=True)
class Recommendation(Displayed):
    """Solvers that apply, best first, and why the others do not."""

    shown_as: ClassVar[str] = "recommendation"

    ranked: tuple[Candidate, ...]
    refused: dict[str, tuple[str, ...]]
    attacks: Mapping[str, AttackBound] = field(default_factory=dict)  # see `with_attacks`

    @property
    def best(self) -> str:
        """The key of the solver that ``solver="auto"`` takes.

        Raises:
            AssumptionError: none applies.
        """
        if not self.ranked:
            nearest = min(self.refused, key=lambda key: (len(self.refused[key]), get(key).order))
            raise AssumptionError(
                f"no solver applies to this problem and budget. The nearest is {nearest}: "
                f"{'; '.join(self.refused[nearest])}."
            )
        return self.ranked[0].solver

    @property
    def close(self) -> tuple[Candidate, ...]:
        """Those that nothing public tells from the first: same facts, predictions within `CLOSE`.

        Empty if none applies; the first alone where nothing is predicted.
        """
        if not self.ranked:
            return ()
        first = self.ranked[0]
        if math.isinf(first.risk) or not first.calibrated:
            return (first,)
        alike = [each for each in self.ranked if each.kind == first.kind]
        return _close(self.ranked, min(alike, key=lambda each: each.risk))

    @property
    def why_first(self) -> str:
        """Why the first is first although others are predicted lower, or nothing if none is."""
        if not self.ranked:
            return ""
        first = self.ranked[0]
        lower = [each for each in self.ranked if each.calibrated and each.risk < first.risk]
        reasons = []
        if any(each.facts > first.facts for each in lower):
            reasons.append("measured facts go before predictions")
        if any(each.facts == first.facts for each in lower):
            reasons.append(f"predictions within a factor of {CLOSE:g} count as equal")
        if not reasons:
            return ""
        return (
            f"{first.solver} is first though others are predicted lower: {', and '.join(reasons)}."
        )

    def with_attacks(self, task: Task, *others: str) -> Recommendation:
        """Return the same with the proven bound on attacks of some solvers.

        Each of them has to be planned, which choosing needs nothing of.

        Args:
            task: that the recommendation is for.
            others: keys beside the solvers that nothing public tells from the first; "all" for
                every calibrated one, which takes a second or two.
        """
        keys = {each.solver for each in self.close} | set(others)
        if "all" in others:
            keys = {each.solver for each in self.ranked if each.calibrated}
        bounds = {
            each.solver: attack_bound(task, each.solver)
            for each in self.ranked
            if each.solver in keys
        }
        return replace(self, attacks={key: each for key, each in bounds.items() if each})

    def to_json(self) -> dict[str, Any]:
        """Return the recommendation as JSON values."""
        record: dict[str, Any] = {
            "ranked": [asdict(candidate) for candidate in self.ranked],
            "refused": {key: list(reasons) for key, reasons in self.refused.items()},
        }
        if self.attacks:
            record["attacks"] = {key: bound.to_json() for key, bound in self.attacks.items()}
        return record

    def _line(self) -> str:
        first = f"{self.best} first of {len(self.ranked)}" if self.ranked else "none"
        return f"{first} that apply, {len(self.refused)} that do not"

    def __str__(self) -> str:
        # Multiples, for predictions compare solvers; `dpsco.outlook` says what to expect.
        attack = f"{'right':>9}" if self.attacks else ""
        lines = [f"{'solver':<36}{'predicted excess':>18}{'gradients':>12}{attack}"]
        first = next((each.risk for each in self.ranked if 0.0 < each.risk < math.inf), 1.0)
        for candidate in self.ranked:
            excess = f"{candidate.risk / first:.3g} x"
            line = f"{candidate.solver:<36}{excess:>18}{candidate.gradients:>12.2g}"
            if self.attacks:
                bound = self.attacks.get(candidate.solver)
                line += f"{'' if bound is None else percent(bound.accuracy):>9}"
            lines.append(line if candidate.calibrated else f"{line}  {NOT_CALIBRATED}")
        lines += [RIGHT] if self.attacks else []
        lines += [f"{_ORDER} {self.why_first}".rstrip()] if self.ranked else []
        lines += [f"not {key}: {'; '.join(reasons)}" for key, reasons in self.refused.items()]
        return "\n".join(lines)


def recommend(
    problem: Problem | Task,
    n: int | None = None,
    d: int | None = None,
    budget: Budget | None = None,
    *,
    calibration: str = "tight",
    prefer: str = "accuracy",
) -> Recommendation:
    """Rank every solver that applies to the task, from public facts.

    Args:
        problem: a `Task`; or a `Problem`, whose task has the next arguments.
        n, d, budget, calibration: as in `Task`, if a problem is given.
        prefer: what to weigh. "accuracy"; or "attack", which puts the solver first whose proven
            bound on attacks is least, among those that are as good as the first.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> advice = recommend(problem, 50_000, 20, dp.ApproxDP(1.0, 1e-9))
    >>> advice.best in [candidate.solver for candidate in advice.ranked]
    True
    """
    task = as_task(problem, n=n, d=d, budget=budget, calibration=calibration)
    _validate.choice("prefer", prefer, PREFERENCES)
    solvers = tuple(registry().values())
    ranking: Recommendation = _recall(_remembered, task, solvers)
    return _against_attacks(task, ranking) if prefer == "attack" else ranking


def _recall(remembered: Any, task: Task, *arguments: Any) -> Any:
    """Return what a function of a task remembers, or computes where it must not remember."""
    # A user's own loss may have changed since it was seen last.
    if task.problem.loss.trusted:
        return remembered.__wrapped__(task, *arguments)
    try:
        return remembered(task, *arguments)
    except TypeError:  # not hashable
        return remembered.__wrapped__(task, *arguments)


def _ranked(task: Task, solvers: tuple[Solver, ...]) -> Recommendation:
    """Rank the solvers that apply to the task."""
    ranked, refused = [], {}
    start = task.constants.value_at_zero
    start = start if start > 0.0 else math.inf  # of a user's own loss nothing is known
    for solver in solvers:
        key = solver.key
        reasons = solver.refusals(task)
        if task.calibration not in solver.calibrations:
            words = ", ".join(solver.calibrations)
            reasons = (*reasons, f"it has calibration {words} only, not {task.calibration}")
        if reasons:
            refused[key] = reasons
            continue
        risk, calibrated = predict(task, key), solver.measured is not None
        measured, proven = solver.suits(task), solver.range is not None
        cost = solver.gradients(task)
        facts = (calibrated, measured, proven, solver.order)
        ranked.append(Candidate(key, risk, cost, *facts, worse=calibrated and risk > start))
    large = task.n * task.n_weights >= LARGE and _noise_is_faint(task)
    return Recommendation(tuple(_order(ranked, save_time=large)), refused)


_remembered = lru_cache(maxsize=64)(_ranked)  # fits are repeated: of public facts alone


def _noise_is_faint(task: Task) -> bool:
    """Return whether the rows outweigh the noise on all weights by far; of pure budgets, no."""
    try:
        return task.signal >= PLENTY * task.n_weights
    except AssumptionError:
        return False


def _against_attacks(task: Task, ranking: Recommendation) -> Recommendation:
    """Put the solver first whose bound on attacks is least, of those as good as the first."""
    bounds = {each.solver: attack_bound(task, each.solver) for each in ranking.close}
    known = {key: bound.accuracy for key, bound in bounds.items() if bound is not None}
    if not known:
        return ranking
    least = min(known, key=lambda key: known[key])  # of equal ones the one that is ranked higher
    first = next(each for each in ranking.ranked if each.solver == least)
    others = (each for each in ranking.ranked if each is not first)
    return replace(ranking, ranked=(first, *others))


def attack_bound(task: Task, key: str) -> AttackBound | None:
    """Return the proven bound on attacks on the plan that a solver makes by itself.

    None where it cannot make one, or where its releases can only be accounted for with an extra
    that is not installed.
    """
    bound: AttackBound | None = _recall(_remembered_bound, task, key)
    return bound


@lru_cache(maxsize=512)
def _remembered_bound(task: Task, key: str) -> AttackBound | None:
    try:
        return Odds(get(key).plan(task).cost).bound
    except (AssumptionError, ParameterError, MissingExtraError):
        return None


def choose(
    task: Task,
    *,
    single_epoch: bool = False,
    sums: bool = False,
    options: Mapping[str, Any] | None = None,
    prefer: str = "accuracy",
) -> str:
    """Return the key of the solver that ``solver="auto"`` takes.

    Args:
        task: the public side of the fit.
        single_epoch: whether every row may be asked for once only, as for rows that come once and
            for runs with a checkpoint. Then the most reliable such solver is taken (predictions
            tell those apart badly), of those that have the options.
        sums: whether rows lie with workers that send sums alone.
        options: settings of the solver.
        prefer: as in `recommend`; single-epoch solvers are taken by reliability alone.

    Raises:
        AssumptionError: no solver applies.
    """
    if sums:
        return by_sums(task, options, prefer=prefer)
    if not single_epoch:
        return recommend(task, prefer=prefer).best
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


def by_sums(
    task: Task, options: Mapping[str, Any] | None = None, *, prefer: str = "accuracy"
) -> str:
    """Return the best solver that applies, has the options, and asks for sums alone.

    Raises:
        AssumptionError: there is none.
    """
    advice, names = recommend(task, prefer=prefer), set({} if options is None else options)
    keys = [each.solver for each in advice.ranked if get(each.solver).stepper is not None]
    for solver in map(get, keys):
        if names <= set(solver.options) and takes_sums(solver, solver.plan(task)):
            return solver.key
    having = f" and has the options {', '.join(sorted(names))}" if names else ""
    raise AssumptionError(
        f"no solver that takes noisy sums applies to this problem and budget{having}, and rows of "
        f"a cluster allow no other. With the rows on one machine: {advice.best}."
    )


def caution(task: Task, key: str) -> str:
    """Return why to mistrust what "auto" took, a sentence; empty where solvers were compared."""
    if task.euclidean and get(key).measured is not None:
        return ""
    reasons = "; ".join(get(RELIABLE).refusals(task)) or "others were measured elsewhere"
    return (
        f'"auto" takes {key}, which was not compared with others on such tasks. '
        f"Not {RELIABLE}: {reasons}."
    )


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


def _order(candidates: list[Candidate], *, save_time: bool = False) -> list[Candidate]:
    """Sort by facts, then by risk; of those about as good as the best, the most reliable is first.

    To ``save_time``, the cheapest of those that are predicted as good as that one is. Where nothing
    is predicted of any, the registry's order stays, in which reliable solvers come first.
    """
    ranked = sorted(candidates, key=lambda each: (each.facts, each.worse, each.risk))
    if not ranked or math.isinf(ranked[0].risk) or not ranked[0].calibrated:
        return ranked
    close = _close(ranked, ranked[0])
    first = min(close, key=lambda candidate: (candidate.order, candidate.risk))
    if save_time:
        as_good = (candidate for candidate in close if candidate.risk <= EQUAL * first.risk)
        first = min(as_good, key=lambda candidate: candidate.gradients)
    return [first, *(candidate for candidate in ranked if candidate is not first)]


def _close(ranked: Sequence[Candidate], best: Candidate) -> tuple[Candidate, ...]:
    """Return those that predictions cannot tell from the one with the least, in their order."""
    return tuple(
        each for each in ranked if each.kind == best.kind and each.risk <= CLOSE * best.risk
    )
