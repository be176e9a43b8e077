"""What a hard problem is: a public problem, a law of rows, and the exact risk of any weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _validate
from ..privacy.randomness import Randomness
from ..problem import Problem

Floats = NDArray[np.float64]


class Uniforms(Protocol):
    """Whatever draws uniform numbers, such as a generator of NumPy."""

    def random(self, size: int, /) -> Any:
        """Return so many numbers from [0, 1)."""


@dataclass(frozen=True, eq=False)
class HardProblem:
    """A problem whose population is known.

    Args:
        problem: the public side.
        rows: a function from (n, d) uniform numbers to n rows of the population.
        mean: of a row, which decides the risk.
        excess: the population risk of weights above the least one.
        best: weights of least risk in the domain.
        least: their risk.
        label: of every row, where the loss reads labels.
    """

    problem: Problem
    rows: Callable[[Floats], Floats]
    mean: Floats
    excess: Callable[[Floats], float]
    best: Floats
    least: float
    label: float | None = None

    @property
    def d(self) -> int:
        """The number of features of a row."""
        return len(self.mean)

    @property
    def trivial(self) -> float:
        """The excess risk of zero weights: what a fit has to beat."""
        return self.excess(np.zeros(self.d))

    def draw(self, n: int, seed: int | Uniforms) -> tuple[Floats, ...]:
        """Return n independent rows, and labels if the loss reads some.

        Args:
            n: how many.
            seed: an integer, or a generator of NumPy.
        """
        count = _validate.integer("n", n) * self.d
        if hasattr(seed, "random"):
            numbers = np.asarray(seed.random(count), dtype=float)
        else:
            stream = Randomness.seeded(_validate.integer("seed", seed, at_least=0)).child("rows")
            numbers = stream.uniforms(count)
        X = self.rows(numbers.reshape(n, self.d))
        return (X,) if self.label is None else (X, np.full(n, self.label))

    def risk(self, weights: ArrayLike) -> float:
        """Return the population risk of weights."""
        return self.least + self.excess(np.asarray(weights, dtype=float))
