"""Gaussian noise on a sum: mu-GDP, mu = sensitivity / sigma (Dong, Roth, Su 2019, Thm 2.7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import _validate
from ..._validate import store
from ...errors import ParameterError
from ..accounting.calibration import calibrate
from ..accounting.privacy_loss import PrivacyLoss, gaussian_loss
from ..accounting.sensitivity import sum_sensitivity
from ..budget import Adjacency, Budget
from ..lattice import lattice_step, with_gaussian
from ..randomness import Stream
from ..release import Release, register

Array = NDArray[np.float64]


class GaussianNoise:
    """N(0, sigma^2 I) on a vector, both on the lattice: for records that say what moves the vector.

    ``moved_by`` names the field of an l2 distance, one row's bound or a sensitivity, of which the
    lattice's step is a small part. What is checked beforehand is what is drawn.
    """

    moved_by: ClassVar[str] = "bound"
    sigma: float

    def lattices(self, size: int) -> tuple[tuple[float, float], ...]:
        """Return sigma and the step of a vector of ``size`` numbers."""
        return ((self.sigma, lattice_step(getattr(self, self.moved_by), size)),)

    def draw_noisy(self, stream: Stream, exact: Array) -> Array:
        """Return a vector with its noise, both on the lattice."""
        ((sigma, step),) = self.lattices(exact.size)
        return with_gaussian(stream.words, exact, sigma, step)


@register
@dataclass(frozen=True)
class GaussianRelease(GaussianNoise, Release):
    """The sum over ``rows`` of vectors with l2 norm <= bound, plus N(0, sigma^2 I).

    ``diameter`` is the largest l2 distance of two such vectors where that is less than 2 bound:
    sqrt(2) for the counts of a histogram, of which each row adds to one, 1 for a count of rows.
    """

    kind: ClassVar[str] = "gaussian"
    summary: ClassVar[str] = "A sum over rows, with Gaussian noise"
    bound: float
    sigma: float
    diameter: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.diameter is None:
            return
        diameter = _validate.positive("diameter", self.diameter)
        if not self.bound <= diameter <= 2 * self.bound:  # a row may be replaced by an empty one
            raise ParameterError(
                f"diameter must lie between the bound and twice the bound, {self.bound!r} and "
                f"{2 * self.bound!r}; got {diameter!r}.",
                parameter="diameter",
            )
        store(self, "diameter", diameter)

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the exact loss of two Gaussians."""
        sensitivity = sum_sensitivity(self, adjacency)
        if self.diameter is not None and adjacency is Adjacency.REPLACE_ONE:
            sensitivity *= self.diameter / (2 * self.bound)
        return gaussian_loss(sensitivity / self.sigma)


def gaussian_sigma(
    budget: Budget,
    *,
    bound: float,
    rows: tuple[int, int],
    count: int = 1,
    diameter: float | None = None,
) -> float:
    """Return the standard deviation, on the sum, of ``count`` Gaussian releases on the same rows.

    ``diameter`` is for rows that differ by less than twice their bound; see `GaussianRelease`.

    >>> from dpsco.privacy.budget import ApproxDP
    >>> budget = ApproxDP(1.0, 1e-6, adjacency="zero_out")
    >>> round(gaussian_sigma(budget, bound=1.0, rows=(0, 100)), 4)
    4.2247
    """
    return calibrate(lambda s: GaussianRelease(bound, s, diameter, rows=rows, count=count), budget)
