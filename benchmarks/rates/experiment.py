"""One experiment: a solver on a synthetic instance at several n, with the band it must stay in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import dpsco as dp


@dataclass(frozen=True)
class Instance:
    """A synthetic problem with known excess risk."""

    name: str
    problem: dp.Problem
    draw: Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray | None]]
    excess: Callable[[np.ndarray], float]  # exact excess population risk of weights
    trivial: float  # the excess of the zero weights


@dataclass(frozen=True)
class Experiment:
    """Mean excess at each n; ``slope`` and ``excess`` are bands (low, high).

    ``limit`` is what no single run may exceed at an n.
    """

    name: str
    instance: Instance
    solver: str
    budget: dp.privacy.Budget
    sizes: tuple[int, ...]
    repeats: int = 5
    calibration: str = "tight"
    options: dict[str, object] = field(default_factory=dict)
    slope: tuple[float, float] = (-math.inf, math.inf)
    excess: dict[int, tuple[float, float]] = field(default_factory=dict)
    limit: dict[int, float] = field(default_factory=dict)
    seed: int = 1

    def at(self, n: int) -> Instance:
        """Return the instance at ``n`` rows: the same at every n unless a subclass says so."""
        return self.instance

    def runs(self, n: int) -> list[float]:
        """Return the excess risk of each run at ``n`` rows."""
        instance, found = self.at(n), []
        for repeat in range(self.repeats):
            rng = np.random.default_rng([self.seed, n, repeat])
            X, y = instance.draw(rng, n)
            data = (X,) if y is None else (X, y)
            result = dp.solve(
                instance.problem,
                data,
                self.budget,
                solver=self.solver,
                calibration=self.calibration,
                options=self.options,
                randomness=dp.Randomness.seeded(int(rng.integers(1 << 60))),
            )
            found.append(instance.excess(result.weights))
        return found

    def problems(
        self, measured: dict[int, float], largest: dict[int, float] | None = None
    ) -> list[str]:
        """Return what lies outside the bands, in words: means, and the worst run at each n."""
        found = []
        for n, limit in self.limit.items():
            worst = (largest or {}).get(n, 0.0)
            if worst > limit:
                found.append(f"a run at n = {n} has excess {worst:.4g}, above {limit:g}")
        for n, (low, high) in self.excess.items():
            if n in measured and not low <= measured[n] <= high:
                found.append(f"excess {measured[n]:.4g} at n = {n} is outside [{low:g}, {high:g}]")
        if len(measured) > 1 and not self.slope[0] <= slope(measured) <= self.slope[1]:
            found.append(f"slope {slope(measured):.2f} is outside {self.slope}")
        return found


def summary(found: list[float]) -> tuple[float, float]:
    """Return mean and standard error."""
    return float(np.mean(found)), float(np.std(found, ddof=1) / math.sqrt(len(found)))


def slope(measured: dict[int, float]) -> float:
    """Return the log-log slope of excess against n, by least squares."""
    sizes = sorted(measured)
    values = [math.log(max(measured[n], 1e-12)) for n in sizes]
    return float(np.polyfit(np.log(sizes), values, 1)[0])
