"""What a solver consists of: a plan made of public facts, a run, and an entry in the registry.

`BasePlan` holds what every plan has; a solver's own `Plan` adds its schedule. `Result` is what a
fit hands back. `Solver` says what a solver is for and what it needs.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._display import Displayed
from ..data.source import Source
from ..errors import AccuracyWarning, AssumptionError
from ..losses.vector import SquaredDistance
from ..privacy.accounting.composition import Cost, cost
from ..privacy.budget import Budget
from ..privacy.certificate import Certificate
from ..privacy.certificate_text import amounts, spent
from ..privacy.ledger import Ledger
from ..privacy.release import Composition, Release, check_lattice, flatten
from ..problem import Problem
from ..task import Task

if TYPE_CHECKING:
    from .engine import Stepper
    from .needs import Need

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]  # rounds done, rounds in all


class TraceLine(NamedTuple):
    """One round in a trace: public numbers only."""

    round: int
    rows: tuple[int, int]  # the rows that the round reads
    step: float  # step size, 0 where there is none
    sigma: float  # noise on what leaves in this round, 0 where nothing leaves


@dataclass(frozen=True, kw_only=True)
class BasePlan(Displayed):
    """What every plan has. It is made of public facts alone and says everything a run needs."""

    shown_as: ClassVar[str] = "plan"

    solver: str  # key in the registry
    task: Task  # the public side of the fit
    # Which model the weights belong to, as JSON values; `dpsco.models` writes and reads it.
    model: Mapping[str, Any] | None = field(default=None, hash=False)

    @property
    def problem(self) -> Problem:
        """What is minimised."""
        return self.task.problem

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.task.n

    @property
    def d(self) -> int:
        """The number of features of a row, without the intercept."""
        return self.task.d

    @property
    def budget(self) -> Budget:
        """What may be spent."""
        return self.task.budget

    @property
    def calibration(self) -> str:
        """Which bounds the noise rests on."""
        return self.task.calibration

    def releases(self) -> tuple[Release | Composition, ...]:
        """Return every release that a run makes."""
        raise NotImplementedError

    def schedule(self) -> Iterator[TraceLine]:
        """Yield the schedule, a line a round."""
        raise NotImplementedError

    @property
    def total_rounds(self) -> int:
        """How many rounds a run takes, for progress."""
        return sum(1 for _ in self.schedule())

    @property
    def enforced(self) -> tuple[str, ...]:
        """What a run enforces, in sentences for the certificate; the bounds come first."""
        return self.problem.bounds.enforced

    @property
    def trusted(self) -> tuple[str, ...]:
        """What it takes on trust, likewise."""
        return self.problem.loss.trusted

    @property
    def milestones(self) -> tuple[tuple[int, ...], ...]:
        """Where the work of a run may end: for each minimisation, after how many Hessians.

        Empty where a run always computes the same amount. What milestones can tell of a row is
        said under `trusted`.
        """
        return ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever reads the plan should know before the run, in sentences."""
        return ()

    @property
    def risk(self) -> float:
        """What the solver's theorem says, in practical form; NaN where it says nothing.

        `dpsco.outlook` says what to expect.
        """
        return float("nan")

    @cached_property
    def cost(self) -> Cost:
        """What the releases cost, recomputed by the accountant."""
        return cost(self.releases(), adjacency=self.budget.adjacency, unit=self.budget.unit)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields; what was computed from them is computed again after unpickling."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}

    def trace(self) -> tuple[TraceLine, ...]:
        """Return the whole schedule: rounds, step sizes, noise."""
        return tuple(self.schedule())

    def to_json(self) -> str:
        """Return the plan as JSON text; `dpsco.load_plan` reads it.

        Raises:
            ParameterError: the problem holds a user's own code.
        """
        from .serialization import encode

        return json.dumps({f.name: encode(getattr(self, f.name)) for f in dataclasses.fields(self)})

    def _line(self) -> str:
        rounds = f"{self.total_rounds:,} round{'' if self.total_rounds == 1 else 's'}"
        return (
            f"{self.solver} on {self.n:,} rows of {self.d:,} features, {rounds}, "
            f"{amounts(self.budget)}, {self.budget.adjacency.value}"
        )

    def __str__(self) -> str:
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        own = [
            name  # releases are listed below
            for name, value in fields.items()
            if name not in _COMMON and value is not None and not isinstance(value, Release)
        ]
        width = max(map(len, [*own, "calibration"])) + 2
        lines = [
            f"plan of {self.solver}: {self.problem}",
            f"  {'rows':<{width}}{self.n:,} rows of {self.d:,} features",
            f"  {'budget':<{width}}{amounts(self.budget)}, {self.budget.adjacency.value}",
            f"  {'calibration':<{width}}{self.calibration}",
            *(f"  {name:<{width}}{_shown(getattr(self, name))}" for name in own),
        ]
        if not np.isnan(self.risk):
            from . import registry

            entry = registry().get(self.solver)
            mark = "" if entry is None or entry.measured is not None else f"; {NOT_CALIBRATED}"
            bound = f"{self.risk:.4g} (its theorem in practical form; no forecast{mark})"
            lines.append(f"  {'theory':<{width}}{bound}")
        lines += [f"  released: {line}" for line in _brief(flatten(self.releases()))]
        lines += [f"  enforced: {line}" for line in self.enforced]
        lines += [f"  trusted: {line}" for line in self.trusted]
        lines += [f"  warning: {line}" for line in self.warnings]
        return "\n".join(lines)


_COMMON = {f.name for f in dataclasses.fields(BasePlan)}


def emit_warnings(plan: BasePlan, *, stacklevel: int) -> None:
    """Emit the warnings of a plan that nobody has read, since it is run as soon as it is made."""
    for line in plan.warnings:
        warnings.warn(f"{plan.solver}: {line}.", AccuracyWarning, stacklevel=stacklevel + 1)


@dataclass(frozen=True, eq=False)
class Result(Displayed):
    """What a fit hands back: weights, what they cost, and the plan they came from."""

    shown_as: ClassVar[str] = "result"

    weights: Floats
    certificate: Certificate
    plan: BasePlan
    trace: tuple[TraceLine, ...] = field(repr=False, default=())

    @property
    def solver(self) -> str:
        """The key of the solver that ran."""
        return self.plan.solver

    def _line(self) -> str:
        paid, budget = spent(self.certificate), self.certificate.budget
        return f"{len(self.weights):,} weights by {self.solver}, {paid}, {budget.adjacency.value}"

    def __str__(self) -> str:
        paid, budget = spent(self.certificate), self.certificate.budget
        seeded = " (seeded: private only while the seed is secret and not used again)"
        return (
            f"{len(self.weights)} weights by {self.solver}, {paid}, {budget.adjacency.value}"
            f"{seeded if self.certificate.reproducible else ''}\n"
            f"  {np.array2string(self.weights, precision=4, threshold=12, prefix='  ')}"
        )


class Factors(NamedTuple):
    """How far measurements of a single-epoch solver lie from the terms of a forecast."""

    pace: float  # of the steps that a run is worth: how fast the loss is learnt
    noise: float  # of the cost of noise and sampling


class Measured(NamedTuple):
    """Measured excess over a solver's formula: geometric means over made-up tables and budgets."""

    smooth: float
    nonsmooth: float


class MeasuredRange(NamedTuple):
    """Where a solver kept up with the best of all: the tasks for which `auto` may take it.

    Made-up tables, dense and sparse, and real ones; all losses, both adjacencies. Elsewhere it may
    apply, but its prediction says little. A mean is one noisy sum, whatever its size.
    """

    rows: tuple[float, float]
    weights: tuple[float, float]
    mu: tuple[float, float]  # the Gaussian privacy that a row may cost
    signal: float = 0.0  # least z for each weight: see `Task.signal`

    def covers(self, task: Task) -> bool:
        """Return whether the task lies within."""
        if isinstance(task.problem.loss, SquaredDistance):
            return True
        pairs = (
            (self.rows, task.n),
            (self.weights, task.n_weights),
            (self.mu, task.budget.mu_per_row()),
        )
        inside = all(least <= value <= most for (least, most), value in pairs)
        return inside and task.signal >= self.signal * task.n_weights

    def record(self) -> dict[str, Any]:
        """Return the range as JSON values."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in self._asdict().items()}

    def __str__(self) -> str:
        spans = ((self.rows, " rows"), (self.weights, " weights"), (self.mu, " mu-GDP"))
        words = [f"{least:,g} to {most:,g}{name}" for (least, most), name in spans]
        if self.signal:
            words.append(f"z = n mu/sensitivity at least {self.signal:g} times the weights")
        return "; ".join(words)


@dataclass(frozen=True, kw_only=True)
class SingleEpoch:
    """That a solver asks for every row once, and how it compared with others that do."""

    rank: int | None = None  # of reliability, 1 is the best; None: never chosen by itself
    accelerated: bool = False  # whether T rounds go as far as about T^2/4 plain steps
    smooth: Factors | None = None  # of forecasts of smooth losses; None: not calibrated
    nonsmooth: Factors | None = None  # likewise of nonsmooth losses


BY_NAME = "by name only: others were as good or better wherever it was measured"
NOT_CALIBRATED = "not calibrated"  # how every listing marks a solver that was not measured


@dataclass(frozen=True)
class Solver:
    """An entry of the registry: everything that anybody needs to know about a solver."""

    key: str
    summary: str  # one sentence
    paper: str  # authors and year
    reference: str  # algorithm and theorem numbers
    setting: str  # losses and domains, in words
    needs: tuple[Need, ...]
    rounds: str  # formula
    cost: str  # gradients, formula
    plan: Callable[..., BasePlan]  # (task, *, options of its own)
    risk: Callable[[Task], float]  # predicted excess risk, cheap, from public facts
    gradients: Callable[[Task], float]  # about how many gradients of a row a run takes
    plan_type: type[BasePlan]
    calibrations: tuple[str, ...] = ("tight",)
    stepper: Callable[[Any], Stepper] | None = None  # of a plan, for the engine to carry out; or
    run: Callable[[Any, Source, Ledger, Progress], Floats] | None = None  # a run of its own
    measured: Measured | None = None  # what `auto` multiplies `risk` by; None: not calibrated
    range: MeasuredRange | None = None  # where `auto` may take it; None: by name only
    single_epoch: SingleEpoch | None = None  # None: it may read rows again
    order: int = 1  # place in listings, and in rankings where nothing is predicted; then by name

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the settings that `plan` takes beside the common ones."""
        known = inspect.signature(self.plan).parameters
        return tuple(name for name in known if name != "task")

    @property
    def factors(self) -> str:
        """What was measured of the solver, in words; empty if it is not calibrated."""
        if self.measured is None:
            return ""
        smooth, nonsmooth = self.measured
        return f"{smooth:g} of the formula's excess for smooth losses, {nonsmooth:g} for nonsmooth"

    def suits(self, task: Task) -> bool:
        """Return whether `auto` may take the solver for the task, if it applies."""
        return self.range is not None and self.range.covers(task)

    def refusals(self, task: Task) -> tuple[str, ...]:
        """Return why the solver does not apply, a sentence for each unmet need; none if it does."""
        reasons = (need.unmet(task) for need in self.needs)
        return tuple(reason for reason in reasons if reason)

    def record(self) -> dict[str, Any]:
        """Return the entry as JSON values, for listings."""
        return {
            "key": self.key,
            "summary": self.summary,
            "paper": self.paper,
            "reference": self.reference,
            "setting": self.setting,
            "needs": [need.name for need in self.needs],
            "rounds": self.rounds,
            "cost": self.cost,
            "options": list(self.options),
            "calibrations": list(self.calibrations),
            "measured": None if self.measured is None else self.measured._asdict(),
            "range": None if self.range is None else self.range.record(),
            "single_epoch": self.single_epoch is not None,
        }


def check_cost(plan: BasePlan) -> BasePlan:
    """Return the plan if the accountant confirms that it stays within its budget; else refuse."""
    spent, allowed = plan.cost.against(plan.budget)
    if not spent <= allowed:
        reason = "its noise was not made for it. Make the plan anew with dpsco.plan(...)."
        if plan.calibration == "paper":
            reason = "the published constants do not suffice here. Use calibration='tight'."
        raise AssumptionError(
            f"{plan.solver} with calibration={plan.calibration!r} would cost {spent:.6g} of a "
            f"budget of {allowed:.6g}: {reason}"
        )
    check_lattice(plan.releases(), plan.task.n_weights)
    return plan


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (tuple, list)) and not value:
        return "none"
    if isinstance(value, (tuple, list)) and len(value) > 6:
        return f"{', '.join(map(_shown, value[:4]))}, ... ({len(value)} in all)"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_shown, value))
    return str(value)


def _brief(releases: Sequence[Release]) -> list[str]:
    """Return the releases as lines, a long list shortened."""
    lines = [release.sentence() for release in releases[:6]]
    return lines if len(releases) <= 6 else [*lines, f"... and {len(releases) - 6} more"]
