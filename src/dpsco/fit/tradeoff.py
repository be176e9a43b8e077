"""Which epsilon? What a model loses and what an attacker gains, for several budgets beside another.

Everything follows from the public task; no row is read. The excess risk of a point is that of
`dpsco.outlook`: for a solver it never rises with epsilon, and the bound of its band neither. The
bound on attacks is proven, from what the releases of the solver's plan cost.

A rehearsal (`dpsco.rehearse`) replaces the band by what fits on public or made-up rows measured.
"""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from .. import _validate
from .._display import Displayed
from ..errors import AssumptionError, MissingExtraError, ParameterError
from ..privacy.accounting.attack_roc import FALSE_ALARMS, AttackBound, Odds, percent
from ..privacy.accounting.composition import Cost
from ..privacy.budget import ApproxDP, Budget, PureDP
from ..solvers import get
from ..solvers.base import NOT_CALIBRATED, BasePlan
from ..task import Task
from .choose import PREFERENCES, RIGHT, recommend
from .outlook import outlook
from .run import plan as plan_of

EPSILONS = (0.1, 0.3, 1.0, 3.0)
FORECAST = "forecast"  # what the excess of a point rests on, unless it was rehearsed
MOST_POINTS = 200  # of one trade-off

AUTO = "auto"

Planner = Callable[[Task, str], tuple[BasePlan, Cost]]


@dataclass(frozen=True)
class TradeoffPoint:
    """One solver at one epsilon; losses are in units of the problem's loss."""

    epsilon: float
    delta: float
    solver: str
    chosen: bool  # whether "auto" takes it at this epsilon; of named ones, whether it ranks first
    calibrated: bool  # whether anything good can be said of its excess
    verdict: str  # of `dpsco.outlook`
    excess: float  # expected risk beyond that of the best model; NaN where nothing is predicted
    low: float  # 10th percentile; 0 where it is too small to be told from none
    high: float  # 90th percentile
    constant: float  # what the best constant loses
    typical: bool  # whether that is a typical value only
    attack: AttackBound  # what no attack can exceed
    noise: float | None  # largest standard deviation of the noise of a round, per coordinate
    rounds: int
    gradients: float  # about how many gradients of a row a run takes
    seconds: float | None = None  # one fit took, in a rehearsal; None: nothing was measured
    basis: str = FORECAST  # or what was rehearsed on: "public rows", "made-up rows"
    repeats: int = 0  # rehearsed fits

    @property
    def promising(self) -> bool:
        """Whether noise leaves most of what can be learnt, or nothing is predicted."""
        return self.verdict in ("good", "unknown")

    @property
    def detection(self) -> float:
        """The largest share that any attack detects at 1 % false alarms; guessing has 0.01."""
        return self.attack.detection

    @property
    def attack_accuracy(self) -> float:
        """The largest share of right answers of any attack at even odds; guessing has 0.5."""
        return self.attack.accuracy

    @property
    def advantage(self) -> float:
        """The largest difference of detection and false alarms; guessing has 0."""
        return self.attack.advantage

    def to_json(self) -> dict[str, Any]:
        """Return the point as JSON values; what is unknown is null."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "solver": self.solver,
            "chosen": self.chosen,
            "calibrated": self.calibrated,
            "verdict": self.verdict,
            "excess": _known(self.excess),
            "band": None if math.isnan(self.excess) else [self.low, self.high],
            "constant_loss": _known(self.constant),
            "constant_is_typical": self.typical,
            **self.attack.to_json(),
            "noise": self.noise,
            "rounds": self.rounds,
            "gradients": _known(self.gradients),
            "seconds": self.seconds,
            "basis": self.basis,
            "repeats": self.repeats,
        }


@dataclass(frozen=True)
class Tradeoff(Displayed):
    """Accuracy against privacy, by epsilon and solver; `tradeoff` makes it."""

    shown_as: ClassVar[str] = "tradeoff"

    task: Task  # its budget has the largest epsilon
    points: tuple[TradeoffPoint, ...]  # by epsilon, the solver that "auto" takes first
    prefer: str = "accuracy"
    named: bool = False  # whether the user named the solvers: then the first of them are chosen

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The epsilons, rising."""
        return tuple(sorted({point.epsilon for point in self.points}))

    @property
    def solvers(self) -> tuple[str, ...]:
        """The solvers, in the order of the points."""
        return tuple(dict.fromkeys(point.solver for point in self.points))

    @property
    def chosen(self) -> tuple[TradeoffPoint, ...]:
        """What "auto" takes at each epsilon."""
        return tuple(point for point in self.points if point.chosen)

    @property
    def choice(self) -> str:
        """What the chosen points are, in words."""
        return "ranked first of these" if self.named else 'what "auto" takes'

    @property
    def basis(self) -> str:
        """What the excess rests on: "forecast", "public rows" or "made-up rows"."""
        return self.points[0].basis

    def at(self, epsilon: float, solver: str | None = None) -> TradeoffPoint:
        """Return the point of an epsilon: of a solver, or of what "auto" takes.

        Raises:
            ParameterError: the trade-off has no such epsilon or solver.
        """
        for point in self.points:
            same = point.chosen if solver is None else point.solver == solver
            if same and point.epsilon == epsilon:
                return point
        listed = ", ".join(f"{value:g}" for value in self.epsilons)
        raise ParameterError(
            f"the trade-off has no epsilon {epsilon!r} of {solver or 'any solver'}; it has {listed}"
            f" of {', '.join(self.solvers)}. Ask for others with epsilons=[...], solvers=[...]."
        )

    def best(self) -> TradeoffPoint:
        """Return the most private point whose verdict is good.

        That is the smallest epsilon whose verdict is good for what "auto" takes; if there is none,
        the largest epsilon, which loses least. Whether it is private enough, people must decide.
        """
        good = (point for point in self.chosen if point.verdict == "good")
        return next(good, self.chosen[-1])

    def to_json(self) -> dict[str, Any]:
        """Return the trade-off as JSON values."""
        budget = self.task.budget
        return {
            "n": self.task.n,
            "d": self.task.d,
            "adjacency": budget.adjacency.value,
            "rows_per_unit": budget.unit.rows,
            "prefer": self.prefer,
            "basis": self.basis,
            "points": [point.to_json() for point in self.points],
        }

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per point.

        Args:
            backend: "pandas", "polars" or "pyarrow"; by default the first that is installed.

        Raises:
            MissingExtraError: there is none.
        """
        columns: dict[str, list[Any]] = {}
        for point in self.points:
            record = point.to_json()
            low, high = record.pop("band") or (None, None)
            for name, value in {**record, "low": low, "high": high}.items():
                columns.setdefault(name, []).append(value)
        return _frame(columns, backend)

    def _line(self) -> str:
        numbers = ", ".join(f"{value:g}" for value in self.epsilons)
        best = self.best()
        return (
            f"epsilon {numbers} of {', '.join(self.solvers)}; at {best.epsilon:g} excess "
            f"{_number(best.excess)}, attacks right in at most {percent(best.attack_accuracy)}"
        )

    def __str__(self) -> str:
        task = self.task
        pace = _TITLES[-1] if self._timed else "gradients"
        cells: list[tuple[str, ...]] = [(*_TITLES[:-1], pace)]
        cells += [_cells(point) for point in self.points]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            f"{task.n:,} rows of {task.d:,} features, delta {self.points[0].delta:.3g}, "
            f"{task.budget.adjacency.value}",
            "",
        ]
        for line in cells:
            aligned = (
                cell.ljust(width) if title in _WORDS else cell.rjust(width)
                for title, cell, width in zip(_TITLES, line, widths, strict=True)
            )
            lines.append("  ".join(aligned).rstrip())
        return "\n".join([*lines, "", *self._legend()])

    @property
    def _timed(self) -> bool:
        return self.points[0].seconds is not None

    def _legend(self) -> list[str]:
        """Return what the columns mean, a line each."""
        point = self.points[0]
        about = "about " if point.typical else ""
        source = {
            FORECAST: "band: eight of ten real tables lay in it",
        }.get(self.basis, f"band: 10th to 90th percentile of {point.repeats} fits on {self.basis}")
        constant = point.constant
        return [
            f"* {self.choice} (prefer={self.prefer!r})",
            f"excess: mean loss above the best model without privacy; {source}",
            *(
                []
                if math.isnan(constant)
                else [f"the best constant prediction loses {about}{constant:.2g}"]
            ),
            RIGHT,
            f"detected: the largest share of members found at {percent(FALSE_ALARMS)} false "
            "alarms, proven",
            "noise: largest standard deviation on the sum of a round, per coordinate",
            "seconds: of one fit"
            if self._timed
            else "gradients: of single rows, about, in one fit; time grows with them",
            "verdict: of what can be learnt, noise takes less than half (good), more (weak), "
            "all (constant, hopeless)",
        ]


def tradeoff(
    task: Task,
    epsilons: float | Iterable[float] = EPSILONS,
    *,
    solvers: str | Iterable[str] | None = None,
    base_rate: float | Sequence[float] | None = None,
    label_spread: float | None = None,
    prefer: str = "accuracy",
) -> Tradeoff:
    """Return what to expect of a fit for several epsilons, and what an attacker can gain.

    Args:
        task: the public side of the fit; the trade-off replaces its epsilon and keeps the rest.
        epsilons: the budgets to compare.
        solvers: keys of the registry, each of which must apply; "auto" for what it takes alone.
            None: what "auto" takes, and the solvers that nothing public tells from it.
        base_rate, label_spread: what is public of the labels, as in `dpsco.outlook`.
        prefer: what "auto" weighs, as in `dpsco.recommend`.

    Raises:
        AssumptionError: no solver applies, or one that was named does not.
        ParameterError: an argument is out of range, or the budget has no epsilon.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> task = dp.Task(problem, n=50_000, d=20, budget=dp.ApproxDP(1.0, 1e-9))
    >>> curve = tradeoff(task, (0.1, 1.0))
    >>> curve.at(1.0).excess < curve.at(0.1).excess
    True
    """
    facts = {"base_rate": base_rate, "label_spread": label_spread}

    def planner(task: Task, key: str) -> tuple[BasePlan, Cost]:
        plan = plan_of(task, solver=key, prefer=prefer)
        return plan, plan.cost

    return tradeoff_of(task, epsilons, planner, solvers=solvers, prefer=prefer, **facts)


def tradeoff_of(
    task: Task,
    epsilons: float | Iterable[float],
    planner: Planner,
    *,
    solvers: str | Iterable[str] | None = None,
    prefer: str = "accuracy",
    **facts: Any,
) -> Tradeoff:
    """Return the trade-off of fits that ``planner`` plans: the plan, and what all of it costs.

    It is called with a task and a solver's key, or "auto".
    Arguments as in `tradeoff`; ``facts`` are those of `dpsco.outlook` about labels.
    """
    _validate.choice("prefer", prefer, PREFERENCES)
    tasks = [at_epsilon(task, value) for value in numbers(epsilons)]
    named = _named(solvers)
    rankings = [recommend(each, prefer=prefer) for each in tasks]
    close = {each.solver for ranking in rankings for each in ranking.close}
    points: list[TradeoffPoint] = []
    for each, ranking in zip(tasks, rankings, strict=True):
        ranked = [candidate.solver for candidate in ranking.ranked]
        if named:
            plans = [planner(each, key) for key in _sorted(named, ranked)]
        else:
            plans = [planner(each, AUTO)]
            others = close - {plans[0][0].solver} if solvers is None else set()
            plans += _plans(planner, each, _sorted(tuple(others), ranked))
        for plan, cost in plans:
            points.append(_point(each, plan, cost, chosen=plan is plans[0][0], **facts))
    if len(points) > MOST_POINTS:
        raise _validate.refusal(
            "epsilons", f"and solvers make {len(points)} points; at most {MOST_POINTS} are shown."
        )
    return Tradeoff(tasks[-1], tuple(points), prefer, bool(named))


def _plans(planner: Planner, task: Task, keys: Sequence[str]) -> list[tuple[BasePlan, Cost]]:
    """Return the plans of solvers that nobody named; of those that apply."""
    plans = []
    for key in keys:
        with contextlib.suppress(AssumptionError):
            plans.append(planner(task, key))
    return plans


def numbers(epsilons: float | Iterable[float]) -> list[float]:
    """Return the epsilons, each once, rising."""
    values = list(epsilons) if isinstance(epsilons, Iterable) else [epsilons]
    if not values or len(values) > MOST_POINTS:
        raise _validate.refusal(
            "epsilons", f"must be 1 to {MOST_POINTS} numbers, got {_validate.shown(epsilons)}."
        )
    return sorted({_validate.positive("epsilons", value) for value in values})


def at_epsilon(task: Task, epsilon: float) -> Task:
    """Return the task with another epsilon in its budget.

    Raises:
        ParameterError: its budget has none.
    """
    if not isinstance(task, Task):
        raise _validate.refusal(
            "task",
            f"must be a Task, got {_validate.shown(task)}.",
            "Make one with dp.Task(problem, n=..., d=..., budget=dp.ApproxDP(1.0, 1e-6)).",
        )
    budget: Budget = task.budget
    if not isinstance(budget, (ApproxDP, PureDP)):
        raise ParameterError(
            f"a trade-off compares epsilons, and {type(budget).__name__} has none. Pass a task "
            "with ApproxDP(epsilon, delta) or PureDP(epsilon); of any other budget dp.plan(task) "
            "and dp.outlook(task) say what to expect.",
            parameter="task",
        )
    return replace(task, budget=replace(budget, epsilon=epsilon))


def _named(solvers: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the solvers that were named, each once; none if there are none to name."""
    if solvers is None or solvers == AUTO:
        return ()
    keys = (solvers,) if isinstance(solvers, str) else tuple(solvers)
    if not keys:
        raise _validate.refusal("solvers", 'must name at least one solver, or be None or "auto".')
    return tuple(dict.fromkeys(get(key).key for key in keys))


def _sorted(keys: Sequence[str], ranked: Sequence[str]) -> list[str]:
    """Return the keys in the order of a ranking; those that it lacks, which will refuse, last."""
    return sorted(keys, key=lambda key: ranked.index(key) if key in ranked else len(ranked))


def _point(task: Task, plan: BasePlan, cost: Cost, *, chosen: bool, **facts: Any) -> TradeoffPoint:
    """Return what to expect of a plan, and what its releases let an attacker do."""
    expected, entry = outlook(plan.task, solver=plan.solver, **facts), get(plan.solver)
    assert isinstance(task.budget, (ApproxDP, PureDP))
    sigmas = [line.sigma for line in plan.schedule() if line.sigma]
    return TradeoffPoint(
        epsilon=task.budget.epsilon,
        delta=getattr(task.budget, "delta", 0.0),
        solver=plan.solver,
        chosen=chosen,
        calibrated=entry.measured is not None,
        verdict=expected.verdict,
        excess=expected.excess,
        low=expected.low,
        high=expected.high,
        constant=expected.constant,
        typical=expected.typical,
        attack=Odds(cost).bound,
        noise=max(sigmas, default=None),
        rounds=plan.total_rounds,
        gradients=entry.gradients(task),
    )


# -- text and frames -------------------------------------------------------------------------------


def _known(value: float) -> float | None:
    """Return a number as JSON has it: null where it is not finite."""
    return value if math.isfinite(value) else None


def _number(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.2g}"


def _band(point: TradeoffPoint) -> str:
    if math.isnan(point.excess):
        return "unknown"
    if point.low:
        return f"{point.low:.2g} to {point.high:.2g}"
    if not point.high:
        return "none measured"
    return f"at most {point.high:.2g}"


_TITLES = ("", "epsilon", "solver", "excess", "band", "verdict", "right", "detected", "noise",
           "rounds", "seconds")  # fmt: skip
_WORDS = ("solver", "verdict")  # columns that begin at the left


def _cells(point: TradeoffPoint) -> tuple[str, ...]:
    """Return a point as cells of a table."""
    return (
        "*" if point.chosen else "",
        f"{point.epsilon:g}",
        point.solver,
        _number(point.excess),
        _band(point),
        _verdict(point),
        percent(point.attack_accuracy),
        percent(point.detection),
        "" if point.noise is None else f"{point.noise:.3g}",
        f"{point.rounds:,}",
        f"{point.gradients if point.seconds is None else point.seconds:.2g}",
    )


def _verdict(point: TradeoffPoint) -> str:
    """Return the verdict in a word or two."""
    if point.verdict != "unknown":
        return point.verdict
    return "nothing predicted" if point.calibrated else NOT_CALIBRATED


_FRAMES = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}


def _frame(columns: dict[str, list[Any]], backend: str | None) -> Any:
    """Return a frame of the library that is installed."""
    if backend is not None:
        _validate.choice("backend", backend, tuple(_FRAMES))
    for name in _FRAMES if backend is None else (backend,):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        return getattr(library, _FRAMES[name])(columns)
    raise MissingExtraError(
        f"a frame needs {backend or 'pandas, polars or pyarrow'}. Install one of them, or take "
        "to_json()['points'], a list of dictionaries."
    )
