"""A comparison: solvers on the same tables at one n, each with the best of its own settings.

Excess risks of single runs vary more than solvers differ, so every entrant sees the same tables. An
entrant with several settings counts with the one whose mean is least: tuned on the answer itself,
better than anybody could.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

import dpsco as dp

from .experiment import Instance, summary

Options = dict[str, object]
Table = tuple[np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class Entrant:
    """A solver with the settings it may choose from, and its band.

    ``ratio`` is the band of its excess over that of the comparison's first entrant.
    """

    name: str
    solver: str
    settings: tuple[Options, ...] = ({},)
    ratio: tuple[float, float] = (0.0, math.inf)


@dataclass(frozen=True)
class Found:
    """What an entrant reached with the best of its settings."""

    excess: float
    error: float  # standard error of the mean
    options: Options


@dataclass(frozen=True)
class Comparison:
    """Entrants on the same tables; ratios are relative to the first."""

    name: str
    instance: Instance
    budget: dp.privacy.Budget
    n: int
    entrants: tuple[Entrant, ...]
    repeats: int = 4
    seed: int = 1

    def measure(self, *, quick: bool = False) -> dict[str, Found]:
        """Return each entrant's best mean; if ``quick``, two runs of its first setting."""
        rngs = [
            np.random.default_rng([self.seed, self.n, repeat]) for repeat in range(self.repeats)
        ]
        tables = [self.instance.draw(rng, self.n) for rng in rngs[: 2 if quick else None]]
        return {
            entrant.name: min(
                (
                    self._mean(entrant.solver, options, tables)
                    for options in entrant.settings[: 1 if quick else None]
                ),
                key=lambda found: found.excess,
            )
            for entrant in self.entrants
        }

    def _mean(self, solver: str, options: Options, tables: list[Table]) -> Found:
        problem, d = self.instance.problem, tables[0][0].shape[1]
        plan = dp.plan(problem, n=self.n, d=d, budget=self.budget, solver=solver, options=options)
        runs = [
            self.instance.excess(
                dp.run(plan, table, randomness=dp.Randomness.seeded(repeat)).weights
            )
            for repeat, table in enumerate(tables)
        ]
        return Found(*summary(runs), options)

    def problems(self, measured: dict[str, Found]) -> list[str]:
        """Return the ratios outside of their bands, in words."""
        first, problems = self.entrants[0], []
        for entrant in self.entrants[1:]:
            ratio = measured[entrant.name].excess / measured[first.name].excess
            if not entrant.ratio[0] <= ratio <= entrant.ratio[1]:
                problems.append(
                    f"{entrant.name} has {ratio:.2f} times the excess of {first.name}, outside "
                    f"{entrant.ratio}"
                )
        return problems


def grid(**choices: Iterable[object]) -> tuple[Options, ...]:
    """Return every combination of the choices, as options."""
    values = itertools.product(*choices.values())
    return tuple(dict(zip(choices, found, strict=True)) for found in values)
