"""What fewer rounds cost: the excess risk to expect of a single epoch, by number of rounds.

A forecast is made of the public task alone. It compares numbers of rounds by what made-up problems
lost, and promises nothing: see `Forecast.accuracy`. What real tables lose says `dpsco.outlook`.

Two terms, each with a factor of its own, since theorems are differently loose in them:

* what is left to learn. T rounds of steps 1/beta go as far as gradient flow of the time h, which is
  T/beta for plain steps and T (T+1)/(4 beta) for accelerated ones (Choquette-Choo, Ganesh, Thakurta
  2025, Thms 10 and 15, bound the rest by R^2/(2 h)). Of what the zero model loses, a share
  1/(1 + (pace M h)^2) is left, M the smoothness of a row's loss.
* noise and sampling. An error of variance V^2 in the gradient costs V^2/(2 c) where the curvature
  is c, typically M/d. Recursive gradients and prefix sums have one such error for the whole run.
  With independent noise each of the T batches has its own, T times as large in variance.

The factors of a solver are in its entry. Both forms describe what was measured
(``python -m benchmarks.forecasts``); neither is a theorem.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from .. import _validate
from .._display import Displayed
from ..errors import AssumptionError, ParameterError
from ..losses import Absolute, Hinge, Huber, Logistic, Pinball
from ..privacy.budget import Budget
from ..problem import Problem
from ..solvers import get, registry
from ..solvers.base import NOT_CALIBRATED, Factors
from ..solvers.common.batches import BatchPlan, largest_error
from ..solvers.recursive_gradient.schedule import Plan as FewRounds
from ..solvers.recursive_gradient.schedule import default_smoothing, public_scales
from ..solvers.single_epoch import Plan as SingleEpochPlan
from ..task import Task, as_task

FARTHEST = 4  # times the usual number of rounds: where a table ends unless rounds are given
CLOSE = 1.05  # ratios below count as no difference
MEASURED = (Logistic, Huber, Hinge, Absolute, Pinball)  # the losses of `benchmarks.forecasts`


@dataclass(frozen=True)
class Calibration:
    """What was measured of all solvers together, for losses of one kind."""

    kind: str  # "smooth" or "nonsmooth": which factors of a solver go with it
    share: float  # of the zero model's largest loss that there is to learn
    sampling: float  # of the variance of a row's gradient beside its bound
    half: float  # half of the measurements are within this ratio of the forecast
    most: float  # and nine of ten within this one
    ratio_half: float  # likewise for ratios of numbers of rounds, up to 4 times apart
    ratio_most: float


SMOOTH = Calibration("smooth", 0.15, 1.1, half=2.0, most=6.3, ratio_half=1.4, ratio_most=3.6)
# Also of curvature that is as sharp. Public facts do not tell rows that point in all directions
# from tables that learn slowly: hence the wide range.
NONSMOOTH = Calibration(
    "nonsmooth", 0.15, 10.0, half=3.0, most=13.0, ratio_half=1.5, ratio_most=4.9
)


@dataclass(frozen=True)
class Expected:
    """One solver with one number of rounds."""

    solver: str
    rounds: int
    excess: float  # over the risk of the best model


@dataclass(frozen=True)
class Forecast(Displayed):
    """The excess risk to expect for each solver and number of rounds; `forecast` makes it."""

    shown_as: ClassVar[str] = "forecast"

    n: int
    d: int
    points: tuple[Expected, ...]  # by rounds, then by solver
    own: tuple[Expected, ...]  # each solver with the number of rounds that it takes by itself
    calibration: Calibration
    explicit: bool = False  # whether the user named the numbers of rounds
    unmeasured: str | None = None  # the loss, if the factors were measured on others alone

    @property
    def defaults(self) -> dict[str, int]:
        """How many rounds each solver takes by itself."""
        return {point.solver: point.rounds for point in self.own}

    @property
    def usual(self) -> int:
        """The number of rounds of the solver that is best by itself."""
        return self._leader.rounds

    @property
    def _leader(self) -> Expected:
        """The solver that is best by itself."""
        return min(self.own, key=lambda point: point.excess)

    @property
    def rounds(self) -> tuple[int, ...]:
        """The numbers of rounds, rising."""
        return tuple(sorted({point.rounds for point in self.points}))

    @property
    def best(self) -> Expected:
        """The least excess of all."""
        return min(self.points, key=lambda point: point.excess)

    def at(self, rounds: int, solver: str | None = None) -> Expected:
        """Return what to expect of so many rounds: of a solver, or of the best one.

        Raises:
            ParameterError: the forecast has no such number of rounds or solver.
        """
        points = [
            point
            for point in self.points
            if point.rounds == rounds and solver in (None, point.solver)
        ]
        if not points:
            listed = ", ".join(map(str, self.rounds))
            raise ParameterError(
                f"the forecast has no {rounds} rounds of {solver or 'any solver'}; it has {listed} "
                f"rounds of {', '.join(self.defaults)}. Ask for others with rounds=[...]."
            )
        return min(points, key=lambda point: point.excess)

    def times(self, rounds: int, instead_of: int, solver: str | None = None) -> float:
        """Return how many times the excess of ``instead_of`` rounds that of ``rounds`` is.

        Args:
            rounds, instead_of: numbers of rounds of the forecast.
            solver: a key; by default the best solver for ``instead_of`` rounds. Forecasts of one
                solver are better than comparisons of two.
        """
        other = self.at(instead_of, solver)
        return self.at(rounds, other.solver).excess / other.excess

    @property
    def answer(self) -> str:
        """What fewer rounds cost, in words; of a single number of rounds, what it promises.

        Each number that the user named is compared with the largest one, by the solver that is best
        for that one. If none was, about half of the usual number is compared with that.
        """
        return " ".join(self._sentences())

    def _sentences(self) -> list[str]:
        """Return the answer, a sentence for each number of rounds that is compared."""
        more, fewer = self.rounds[-1], list(self.rounds[:-1])
        if not self.explicit:
            more = self.usual
            below = [rounds for rounds in self.rounds if 2 * rounds <= more]
            fewer = below[-1:] or [rounds for rounds in self.rounds[:1] if rounds < more]
        best = self.at(more)
        if not fewer:
            excess = f"made-up problems of this size had an excess of about {best.excess:.2g}"
            return [f"{_rounds(more)} of {best.solver}: {excess}."]
        return [_comparison(self.at(rounds, best.solver), best) for rounds in fewer]

    @property
    def accuracy(self) -> str:
        """How far measurements on made-up problems lay from such forecasts."""
        errors = self.calibration
        doubt = ""
        if self.unmeasured is not None:
            names = ", ".join(loss.__name__ for loss in MEASURED)
            doubt = (
                f" The loss {self.unmeasured} was not measured: how far forecasts lie from it is "
                f"unknown. Those measured: {names}."
            )
        return (
            f"On made-up problems half of the measurements were within {errors.half:g} times the "
            f"forecast and nine of ten within {errors.most:g} times; ratios between numbers of "
            f"rounds up to four times apart within {errors.ratio_half:g} and {errors.ratio_most:g} "
            f"times.{doubt}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the forecast as JSON values."""
        least = self.best.excess
        return {
            "n": self.n,
            "d": self.d,
            "usual_rounds": self.usual,
            "default_rounds": self.defaults,
            "best": {"solver": self.best.solver, "rounds": self.best.rounds},
            "expected": [
                {
                    "solver": point.solver,
                    "rounds": point.rounds,
                    "excess": point.excess,
                    "times_best": point.excess / least,
                }
                for point in self.points
            ],
            "answer": self.answer,
            "accuracy": self.accuracy,
            "measured": self.unmeasured is None,
        }

    def _line(self) -> str:
        best = self.best
        return (
            f"single epochs over {self.n:,} rows of {self.d:,} features; least excess "
            f"{best.excess:.2g}: {_rounds(best.rounds)} of {best.solver}"
        )

    def __str__(self) -> str:
        keys, least = tuple(self.defaults), self.best.excess
        widths = [max(len(key), 6) for key in keys]
        head = " ".join(f"{key:>{width}}" for key, width in zip(keys, widths, strict=True))
        lines = [
            f"a single epoch over {self.n:,} rows of {self.d:,} features; the least excess of "
            f"made-up problems is {least:.3g}",
            f"({self.best.solver}, {_rounds(self.best.rounds)}). Each cell is the expected excess "
            "divided by it (1.00 = best).",
        ]
        if self.usual in self.rounds:
            lines.append(
                f"* what {self._leader.solver} takes by itself, which is the best of the default "
                "rounds"
            )
        lines.append(f"{'rounds':>7} {'least':>8} {head}")
        for rounds in self.rounds:
            cells = (self.at(rounds, key).excess / least for key in keys)
            shown = (f"{_times(cell):>{width}}" for cell, width in zip(cells, widths, strict=True))
            mark = "*" if rounds == self.usual else " "
            excess = f"{self.at(rounds).excess:.2g}"
            lines.append(f"{mark}{rounds:>6,} {excess:>8} {' '.join(shown)}")
        own = (f"{self.defaults[key]:>{width}}" for key, width in zip(keys, widths, strict=True))
        lines += [f"{'default rounds':>16} {' '.join(own)}", ""]
        lines += [textwrap.fill(text, 100) for text in (*self._sentences(), self.accuracy)]
        return "\n".join(lines)


def forecast(
    problem: Problem | Task,
    n: int | None = None,
    d: int | None = None,
    budget: Budget | None = None,
    *,
    rounds: int | Iterable[int] | None = None,
    solvers: str | Iterable[str] | None = None,
    population_smoothness: float | None = None,
) -> Forecast:
    """Say what each number of rounds is expected to cost in a single epoch, from the public task.

    Args:
        problem, n, d, budget: as in `dpsco.plan`.
        rounds: one or more numbers of rounds; by default 1, 2, 4, ... up to a few times the usual
            one, which is added.
        solvers: keys of single-epoch solvers; all that are calibrated by default.
        population_smoothness: a public bound on the smoothness of the mean loss, for solvers that
            take one. Rows in many directions make it much smaller than that of a row's loss.

    Raises:
        AssumptionError: a solver does not apply, or nothing is known of the problem's gradients.
        ParameterError: an argument is out of range.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> table = forecast(problem, 50_000, 20, dp.ApproxDP(1.0, 1e-9), rounds=[8, 32])
    >>> table.times(8, instead_of=32) > 1.0
    True
    """
    task, keys = as_task(problem, n=n, d=d, budget=budget), _keys(solvers)
    for key in keys:
        reasons = get(key).refusals(task)
        if reasons:
            raise AssumptionError(f"{key} does not apply: {'; '.join(reasons)}.")
    calibration = _calibration(task)

    def planned(key: str, number: int | None) -> BatchPlan:
        options: dict[str, Any] = {"rounds": number}
        if "population_smoothness" in get(key).options:
            options["population_smoothness"] = population_smoothness
        plan = get(key).plan(task, **options)
        assert isinstance(plan, BatchPlan)
        return plan

    def expected(key: str, plan: BatchPlan) -> Expected:
        factors = _factors(key, calibration)
        excess = terms(plan).excess(calibration.share, calibration.sampling, factors)
        return Expected(key, plan.rounds, excess)

    own = tuple(expected(key, planned(key, None)) for key in keys)
    usual = min(own, key=lambda point: point.excess).rounds
    numbers = _grid(usual, task.n) if rounds is None else _numbers(rounds, task.n)
    points = tuple(expected(key, planned(key, number)) for number in numbers for key in keys)
    return Forecast(
        task.n, task.d, points, own, calibration, rounds is not None, _unmeasured(task.problem)
    )


def _calibration(task: Task) -> Calibration:
    """Return the errors of losses of this kind; very sharp curvature is smoothed like a jump."""
    alpha = public_scales(task, None, None).alpha
    return NONSMOOTH if default_smoothing(task, alpha) > 0.0 else SMOOTH


def _unmeasured(problem: Problem) -> str | None:
    """Return the name of a loss on which no factor was measured."""
    return None if type(problem.loss) in MEASURED else problem.loss.name


def calibrated_solvers() -> tuple[str, ...]:
    """Return the single-epoch solvers whose forecasts were measured."""
    entries = registry().items()
    return tuple(
        key for key, solver in entries if solver.single_epoch and solver.single_epoch.smooth
    )


def _factors(key: str, calibration: Calibration) -> Factors:
    """Return the factors of a solver for losses of a kind."""
    factors: Factors | None = getattr(get(key).single_epoch, calibration.kind)
    if factors is None:
        raise AssumptionError(
            f"forecasts of {key} for {calibration.kind} losses: {NOT_CALIBRATED}."
        )
    return factors


def _keys(solvers: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the solvers to forecast, each once."""
    known = calibrated_solvers()
    if solvers is None:
        return known
    keys = (solvers,) if isinstance(solvers, str) else tuple(solvers)
    if not keys:
        raise ParameterError(
            f"solvers must name at least one of {', '.join(known)}.", parameter="solvers"
        )
    return tuple(dict.fromkeys(_validate.choice("solvers", key, known) for key in keys))


def _grid(usual: int, n: int) -> list[int]:
    """Return the powers of two up to a few times the usual number, and that number."""
    powers = (2**power for power in range(min(FARTHEST * usual, n).bit_length()))
    return sorted({usual, *(power for power in powers if not 0.8 < power / usual < 1.25)})


def _numbers(rounds: int | Iterable[int], n: int) -> list[int]:
    """Return the user's numbers of rounds, rising; at most one per row."""
    values = list(rounds) if isinstance(rounds, Iterable) else [rounds]
    numbers = sorted({_validate.integer("rounds", number) for number in values})
    if not numbers or numbers[-1] > n:
        raise ParameterError(
            f"rounds must be one or more numbers from 1 to n = {n}, got {rounds!r}.",
            parameter="rounds",
        )
    return numbers


def _comparison(fewer: Expected, more: Expected) -> str:
    """Return in a sentence what fewer rounds cost."""
    ratio = fewer.excess / more.excess
    cost = f"about {ratio:.2g} times the excess risk"
    if 1.0 / CLOSE < ratio < CLOSE:
        cost = "about the same excess risk"
    return f"{_rounds(fewer.rounds)} of {fewer.solver} instead of {more.rounds:,}: {cost}."


def _rounds(number: int) -> str:
    return "1 round" if number == 1 else f"{number:,} rounds"


def _times(ratio: float) -> str:
    """Return a ratio in a few characters."""
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.3g}" if ratio < 1e4 else f"{ratio:.0e}"


# -- terms -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Terms:
    """What a plan's public numbers say before any factor."""

    start: float  # the largest loss of the zero model
    progress: float  # M h: steps of full length that the rounds are worth
    noise: float  # V^2 of the noise over the curvature
    sampling: float  # V^2 of the sample over the curvature

    def excess(self, share: float, sampling: float, factors: Factors) -> float:
        """Return the excess risk to expect; noise alone costs no more than the zero model does."""
        left = share * self.start / (1.0 + (factors.pace * self.progress) ** 2)
        error = factors.noise * (self.noise + sampling * self.sampling)
        return left + error / (1.0 + error / self.start)


def terms(plan: BatchPlan) -> Terms:
    """Return what a plan's schedule says of its excess risk, before any factor."""
    task, batch = plan.task, plan.n / plan.rounds
    # a clip that cuts few rows changes the noise, which sigma tells, and hardly the sample
    whole = task.lipschitz if math.isfinite(task.lipschitz) else plan.clip
    scales = public_scales(task, whole, None)
    smoothness, gradient = scales.smoothness, scales.gradient
    entry = get(plan.solver).single_epoch
    accelerated = entry is not None and entry.accelerated
    if isinstance(plan, FewRounds):
        beta, time = plan.beta, plan.rounds / plan.beta
    else:  # steps of SGD beyond 2/M overshoot, and get no farther
        assert isinstance(plan, SingleEpochPlan)
        beta, time = 1.0 / plan.step, plan.rounds * min(plan.step, 2.0 / smoothness)
    if accelerated:
        time *= (plan.rounds + 1) / 4
    if plan.mechanism is None:
        over = 1.0 / beta
        if accelerated:  # momentum gathers the noise of many rounds
            over = math.sqrt(task.n_weights / (smoothness * beta))
        noise, rows = plan.sigma / batch, batch
    else:
        over = task.n_weights / smoothness
        noise = plan.sigma * largest_error(plan.mechanism) / plan.mechanism.column_norm / plan.n
        rows = plan.n
    start = task.constants.value_at_zero
    if not 0.0 < start < math.inf:
        start = gradient * task.initial_distance
    return Terms(
        start=start,
        progress=smoothness * time,
        noise=over * task.n_weights * noise * noise,
        sampling=over * gradient * gradient / rows,
    )
