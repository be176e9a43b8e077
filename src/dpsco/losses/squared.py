"""Half the squared residual."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._validate import positive
from ..kernels.slope import Slope
from .base import Floats, Hoelder, LabelKind, MarginLoss, as_floats
from .pieces import LARGEST


def squared_slope(margin: Any, label: Any, first: Any, second: Any) -> Any:
    """Return u - y."""
    return margin - label


def squared_envelope(margin: Any, label: Any, stiffness: Any, second: Any) -> Any:
    """Return stiffness (u - y) for a stiffness of at most 2."""
    return stiffness * np.minimum(np.maximum(margin - label, -LARGEST), LARGEST)


@dataclass(frozen=True)
class Squared(MarginLoss):
    """phi(u, y) = (u - y)^2 / 2; the full square is ``QPower(2)``.

    >>> Squared().constants(feature=1.0, label=3.0, radius=2.0).lipschitz
    5.0
    """

    labels: ClassVar[LabelKind] = "real"

    def value(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return (u - y)^2 / 2."""
        u, y = as_floats(margin, label)
        with np.errstate(over="ignore"):
            return np.asarray(0.5 * (u - y) ** 2)

    def kernel(self) -> Slope:
        """Return u - y."""
        return Slope(squared_slope)

    def curvature(self, margin: ArrayLike, label: ArrayLike) -> Floats:
        """Return 1."""
        return np.ones(np.broadcast_shapes(np.shape(margin), np.shape(label)))

    def prox(self, margin: ArrayLike, label: ArrayLike, step: ArrayLike) -> Floats:
        """Return the mean of margin and label with weights 1 and step."""
        u, y, s = as_floats(margin, label, step)
        return np.asarray((u + s * y) / (1.0 + s))

    def conjugate(self, dual: ArrayLike, label: ArrayLike) -> Floats:
        """Return dual y + dual^2 / 2."""
        a, y = as_floats(dual, label)
        with np.errstate(over="ignore"):
            return np.asarray(a * (y + 0.5 * a))

    def envelope(self, smoothing: float) -> Slope:
        """Return (u - y) smoothing / (1 + smoothing), which is unbounded like the slope itself."""
        return Slope(squared_envelope, 1.0 / (1.0 + 1.0 / positive("smoothing", smoothing)))

    def envelope_value(self, margin: ArrayLike, label: ArrayLike, smoothing: float) -> Floats:
        """Return smoothing / (1 + smoothing) times the loss."""
        return np.asarray(
            self.value(margin, label) / (1.0 + 1.0 / positive("smoothing", smoothing))
        )

    def slope_bound(self, label: float, margin: float) -> float:
        """Return label + margin."""
        return label + margin

    def curvature_bound(self, label: float, margin: float) -> float:
        """Return 1."""
        return 1.0

    def hoelder(self) -> Hoelder:
        """Return (1, 1)."""
        return Hoelder(1.0, 1.0)

    def value_at_zero(self, label: float) -> float:
        """Return label^2 / 2."""
        return 0.5 * label * label if label < math.inf else math.inf
