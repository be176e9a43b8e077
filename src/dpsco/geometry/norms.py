"""Norms and their duals: l_p, weighted l_p, group norms.

A norm is a frozen record that can be called on vectors (along the last axis), knows its dual and,
for clipping, how large one vector can be in it when it is known in another.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import real
from ..errors import ParameterError

Floats = NDArray[np.float64]


class Norm(ABC):
    """A norm on vectors."""

    @abstractmethod
    def __call__(self, vector: ArrayLike) -> Floats:
        """Return the norm along the last axis; large and small values neither over- nor underflow."""

    @property
    @abstractmethod
    def dual(self) -> Norm:
        """The norm sup <x, v> over v of norm at most one."""


@dataclass(frozen=True)
class Lp(Norm):
    """The l_p norm, 1 <= p <= inf."""

    p: float = 2.0

    def __post_init__(self) -> None:
        p = real("p", self.p)
        if p < 1.0:
            raise ParameterError(f"p must be at least 1, got {p!r}: below it is no norm.")
        object.__setattr__(self, "p", p)

    def __call__(self, vector: ArrayLike) -> Floats:
        x = np.abs(np.asarray(vector, dtype=float))
        top = np.max(x, axis=-1, initial=0.0)
        if self.p == math.inf:
            return np.asarray(top)
        unit = np.where((top > 0.0) & np.isfinite(top), top, 1.0)
        scaled = x / unit[..., None]
        if self.p == 1.0:
            total = np.sum(scaled, axis=-1)
        elif self.p == 2.0:
            total = np.sqrt(np.einsum("...j,...j->...", scaled, scaled))
        else:
            total = np.sum(scaled**self.p, axis=-1) ** (1.0 / self.p)
        return np.asarray(unit * total)

    @property
    def dual(self) -> Lp:
        """The l_q norm, 1/p + 1/q = 1."""
        if self.p == 1.0:
            return Lp(math.inf)
        return Lp(1.0 if self.p == math.inf else self.p / (self.p - 1.0))


L1, L2, LINF = Lp(1.0), Lp(2.0), Lp(math.inf)
