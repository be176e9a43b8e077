"""The whole space: no constraint."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ...errors import AssumptionError
from ..norms import L2, Norm
from ..width import Width
from .base import Domain, Floats, checked_norm


class WholeSpace(Domain):
    """R^d in any dimension: its projection changes nothing and it has no linear minimiser.

    >>> WholeSpace().project([3.0, -4.0]).tolist()
    [3.0, -4.0]
    """

    bounded: ClassVar[bool] = False

    def __init__(self) -> None:
        self._record(None)

    def centre(self, d: int) -> Floats:
        """Return the origin."""
        return np.zeros(self._size(d))

    def radius(self, d: int, norm: Norm = L2) -> float:
        """Return infinity."""
        self._size(d)
        checked_norm(norm)
        return math.inf

    max_norm = radius
    diameter = radius

    def gaussian_width(self, d: int, samples: int = 4096, seed: int = 0) -> Width:
        """Return infinity, without error."""
        self._size(d)
        return Width(math.inf, 0.0)

    def contains(self, point: ArrayLike, slack: float = 1e-9) -> bool:
        """Whether every coordinate is finite."""
        return bool(np.all(np.isfinite(self._array("point", point))))

    def _project(self, rows: Floats) -> Floats:
        return np.array(rows)

    def _minimise(self, rows: Floats) -> Floats:
        raise AssumptionError(
            "Linear minimisation needs a bounded domain; WholeSpace() has no least value. "
            "Pass a ball such as L2Ball(radius), or use a solver that projects or does neither."
        )

    def _gauge(self, rows: Floats) -> Floats:
        return np.zeros(len(rows))
