"""What fewer rounds cost: the excess risk to expect of one pass, for each number of rounds.

A forecast is made of public task alone: the terms of `dpsco.fit.forecast_terms`, with factors that
were measured on made-up problems. It compares numbers of rounds. It promises nothing: see
`Forecast.accuracy`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .. import _validate
from ..errors import AssumptionError, ParameterError
from ..losses import Absolute, Hinge, Huber, Logistic, Pinball
from ..privacy.budget import Budget
from ..problem import Problem
from ..solvers import get
from ..solvers.engine import BatchPlan
from ..solvers.recursive_gradient.plan import default_smoothing, public_scales
from ..task import Task, as_task
from .forecast_terms import NONSMOOTH, SMOOTH, SOLVERS, Calibration, terms

FARTHEST = 4  # times the usual number of rounds: where a table ends unless rounds are given
CLOSE = 1.05  # ratios below count as no difference
MEASURED = (Logistic, Huber, Hinge, Absolute, Pinball)  # the losses of `benchmarks.forecasts`


@dataclass(frozen=True)
class Expected:
    """One solver with one number of rounds."""

    solver: str
    rounds: int
    excess: float  # over the risk of the best model


@dataclass(frozen=True)
class Forecast:
    """The excess risk to expect for each solver and number of rounds; `forecast` makes it."""

    n: int
    d: int
    points: tuple[Expected, ...]  # by rounds, then by solver
    own: tuple[Expected, ...]  # each solver with the number of rounds that it takes by itself
    calibration: Calibration
    asked: bool = False  # whether the numbers of rounds were given
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
        found = [
            point
            for point in self.points
            if point.rounds == rounds and solver in (None, point.solver)
        ]
        if not found:
            listed = ", ".join(map(str, self.rounds))
            raise ParameterError(
                f"the forecast has no {rounds} rounds of {solver or 'any solver'}; it has {listed} "
                f"rounds of {', '.join(self.defaults)}. Ask for others with rounds=[...]."
            )
        return min(found, key=lambda point: point.excess)

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

        Each number that was asked for is compared with the largest one, by the solver that is best
        for that one. If none was, about half of the usual number is compared with that.
        """
        return " ".join(self._sentences())

    def _sentences(self) -> list[str]:
        """Return the answer, a sentence for each number of rounds that is compared."""
        more, fewer = self.rounds[-1], list(self.rounds[:-1])
        if not self.asked:
            more = self.usual
            below = [rounds for rounds in self.rounds if 2 * rounds <= more]
            fewer = below[-1:] or [rounds for rounds in self.rounds[:1] if rounds < more]
        if not fewer:
            found = self.at(more)
            return [
                f"{_rounds(more)} of {found.solver}: an excess risk of about {found.excess:.2g}."
            ]
        found = self.at(more)
        return [_comparison(self.at(rounds, found.solver), found) for rounds in fewer]

    @property
    def accuracy(self) -> str:
        """How far measurements on made-up problems lay from such forecasts."""
        found = self.calibration
        doubt = ""
        if self.unmeasured is not None:
            names = ", ".join(loss.__name__ for loss in MEASURED)
            doubt = (
                f" The loss {self.unmeasured} was not measured: how far forecasts lie from it is "
                f"unknown. Those measured: {names}."
            )
        return (
            f"On made-up problems half of the measurements were within {found.half:g} times the "
            f"forecast and nine of ten within {found.most:g} times; ratios between numbers of "
            f"rounds up to four times apart within {found.ratio_half:g} and {found.ratio_most:g} "
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

    def __str__(self) -> str:
        keys, least = tuple(self.defaults), self.best.excess
        widths = [max(len(key), 6) for key in keys]
        head = " ".join(f"{key:>{width}}" for key, width in zip(keys, widths, strict=True))
        lines = [
            f"one pass over {self.n:,} rows of {self.d:,} features: the excess risk to expect, as "
            "so many times",
            f"the least of this table, {least:.3g} ({self.best.solver}, "
            f"{_rounds(self.best.rounds)})",
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
    """Say what each number of rounds is expected to cost in one pass, from public task.

    Args:
        problem, n, d, budget: as in `dpsco.plan`.
        rounds: one or more numbers of rounds; by default 1, 2, 4, ... up to a few times the usual
            one, which is added.
        solvers: keys of solvers of one pass; all of them by default.
        population_smoothness: a public bound on the smoothness of the mean loss, for solvers that
            take one. Rows in many directions make it much smaller than that of a row's loss.

    Raises:
        AssumptionError: a solver does not apply, or nothing is known of the problem's gradients.
        ParameterError: an argument is out of range.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> found = forecast(problem, 50_000, 20, dp.ApproxDP(1.0, 1e-9), rounds=[8, 32])
    >>> found.times(8, instead_of=32) > 1.0
    True
    """
    task, keys = as_task(problem, n=n, d=d, budget=budget), _keys(solvers)
    for key in keys:
        reasons = get(key).refusals(task)
        if reasons:
            raise AssumptionError(f"{key} does not apply: {'; '.join(reasons)}.")
    found = _calibration(task)

    def planned(key: str, number: int | None) -> BatchPlan:
        options: dict[str, Any] = {"rounds": number}
        if "population_smoothness" in get(key).options:
            options["population_smoothness"] = population_smoothness
        made = get(key).plan(task, **options)
        assert isinstance(made, BatchPlan)
        return made

    def expected(key: str, plan: BatchPlan) -> Expected:
        excess = terms(plan).excess(found.share, found.sampling, found.factors[key])
        return Expected(key, plan.rounds, excess)

    own = tuple(expected(key, planned(key, None)) for key in keys)
    usual = min(own, key=lambda point: point.excess).rounds
    numbers = _grid(usual, task.n) if rounds is None else _numbers(rounds, task.n)
    points = tuple(expected(key, planned(key, number)) for number in numbers for key in keys)
    return Forecast(
        task.n, task.d, points, own, found, rounds is not None, _unmeasured(task.problem)
    )


def _calibration(task: Task) -> Calibration:
    """Return the factors of losses of this kind; a bend as sharp as a kink is smoothed like one."""
    alpha = public_scales(task, None, None).alpha
    return NONSMOOTH if default_smoothing(task, alpha) > 0.0 else SMOOTH


def _unmeasured(problem: Problem) -> str | None:
    """Return the name of a loss on which no factor was measured."""
    return None if type(problem.loss) in MEASURED else problem.loss.name


def _keys(solvers: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the solvers that are asked for, each once."""
    if solvers is None:
        return SOLVERS
    given = (solvers,) if isinstance(solvers, str) else tuple(solvers)
    if not given:
        raise ParameterError(f"solvers must name at least one of {', '.join(SOLVERS)}.")
    return tuple(dict.fromkeys(_validate.choice("solvers", key, SOLVERS) for key in given))


def _grid(usual: int, n: int) -> list[int]:
    """Return the powers of two up to a few times the usual number, and that number."""
    powers = (2**power for power in range(min(FARTHEST * usual, n).bit_length()))
    return sorted({usual, *(power for power in powers if not 0.8 < power / usual < 1.25)})


def _numbers(rounds: int | Iterable[int], n: int) -> list[int]:
    """Return the numbers of rounds that are asked for, rising; at most one a row."""
    given = list(rounds) if isinstance(rounds, Iterable) else [rounds]
    numbers = sorted({_validate.integer("rounds", number) for number in given})
    if not numbers or numbers[-1] > n:
        raise ParameterError(
            f"rounds must be one or more numbers from 1 to n = {n}, got {rounds!r}."
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
