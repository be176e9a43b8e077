"""The weights of a fitted model by the names of their columns, with the noise that is in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._display import Displayed
from ..data.labels import Scaled
from ..fit.weight_noise import WeightNoise, weight_noise
from ..solvers.base import BasePlan
from .config import config_of
from .linear import LinearModel

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Weight:
    """One weight."""

    column: str
    of: Any  # the class that it speaks for, where there are more than two; else None
    value: float
    noise: float | None  # standard deviation; None where it is not known


@dataclass(frozen=True, eq=False)
class Weights(Displayed):
    """All weights of a model by name, and how to read their noise."""

    shown_as: ClassVar[str] = "weights"

    values: Floats  # (1 or classes, columns)
    noise: Floats  # of each column; NaN where it is not known
    about: WeightNoise | None  # None where there is no plan
    names: Sequence[str] | None = None  # of the columns; None: they are numbered
    classes: tuple[Any, ...] | None = None  # where there are more than two
    intercepts: tuple[float, ...] = ()

    @property
    def items(self) -> tuple[Weight, ...]:
        """Every weight, the largest first."""
        return self.largest(len(self))

    def largest(self, count: int) -> tuple[Weight, ...]:
        """Return the largest weights: there may be millions of others."""
        size = -np.abs(self.values).reshape(-1)
        first = np.arange(len(size))
        if count < len(size):
            first = np.argpartition(size, count)[:count]
        first = first[np.lexsort((first, size[first]))]
        return tuple(self._item(*divmod(int(place), self.values.shape[1])) for place in first)

    def _item(self, row: int, column: int) -> Weight:
        names, noise = self.names, float(self.noise[column])
        # A model that was made by hand may have names of other columns.
        named = names is not None and len(names) == self.values.shape[1]
        return Weight(
            names[column] if names is not None and named else f"column {column + 1}",
            None if self.classes is None else self.classes[row],
            float(self.values[row, column]),
            None if math.isnan(noise) else noise,
        )

    def __len__(self) -> int:
        return int(self.values.size)

    def _line(self) -> str:
        first = ", ".join(f"{each.column} {each.value:.4g}" for each in self.largest(3))
        return f"{len(self):,}, the largest {first}"[:200]


def named_weights(
    model: LinearModel, plan: BasePlan | None, names: Sequence[str] | None = None
) -> Weights:
    """Return the weights of a model by name, in the units of the rows that it reads.

    Args:
        model: fitted.
        plan: of the fit, which knows the noise.
        names: of the columns; by default they are numbered.

    >>> model = LinearModel("linear", np.array([[0.5, -2.0]]), np.zeros(1))
    >>> [(weight.column, weight.value) for weight in named_weights(model, None, ["a", "b"]).items]
    [('b', -2.0), ('a', 0.5)]
    """
    about = None if plan is None else weight_noise(plan)
    return Weights(
        model.coef,
        _noise(model, plan, about),
        about,
        names,
        model.classes if len(model.coef) > 1 else None,
        tuple(map(float, model.intercept)),
    )


def weights_of(
    values: Floats, about: WeightNoise, unit: float, names: Sequence[str] | None = None
) -> Weights:
    """Return plain weights, such as the output of a solver, by name.

    Args:
        values: one a column, each with the plan's noise times ``unit``.
        about: that noise.
        unit: what one unit of the problem's weights is worth.
        names: of the columns; by default they are numbered.
    """
    noise = math.nan if about.sigma is None else about.sigma * unit
    return Weights(values.reshape(1, -1), np.full(values.size, noise), about, names)


def _noise(model: LinearModel, plan: BasePlan | None, about: WeightNoise | None) -> Floats:
    """Return the noise of each column's weight, in the units of the rows that the model reads."""
    if plan is None or about is None or about.sigma is None:
        return np.full(model.d, math.nan)
    unit, config = 1.0, config_of(plan)
    if config is not None and isinstance(config.bounds.label, Scaled):
        label: Scaled = config.bounds.label
        low, high = model.label_range or (label.low, label.high)
        unit = replace(label, low=low, high=high).unit
    scale = np.ones(1) if model.units is None else model.units.scale
    noise = about.sigma * unit / np.broadcast_to(scale, (model.d,))
    # A fit of columns that were chosen before has no noise in the weights of all others.
    used = np.logical_or(model.coef.any(axis=0), plan.d == model.d)
    return np.where(used, noise, math.nan)
