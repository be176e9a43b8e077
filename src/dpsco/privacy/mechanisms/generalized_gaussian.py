"""Noise shaped like an l_r ball, for sums whose rows are bounded in that norm.

|.|_r^2 is 2(r-1)-smooth in l_r, so a shift s costs rho = (r-1) |s|_r^2 / (2 sigma^2) zCDP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import _validate
from ..._validate import store
from ...errors import ParameterError
from ..accounting.privacy_loss import PrivacyLoss, zcdp_loss
from ..accounting.sensitivity import sum_sensitivity
from ..budget import Adjacency
from ..lattice import lattice_step, with_rounded
from ..randomness import Stream
from ..release import Release, register
from . import gamma

Array = NDArray[np.float64]


@register
@dataclass(frozen=True)
class GeneralizedGaussianRelease(Release):
    """A sum of vectors with l_r norm <= bound, plus noise of density ~ exp(-|z|_r^2/(2 sigma^2)).

    ``norm`` is r, at least 2 and finite.
    """

    kind: ClassVar[str] = "generalized_gaussian"
    summary: ClassVar[str] = "A sum over rows, with noise shaped to the norm of a row"
    exact_law: ClassVar[bool] = False
    bound: float
    sigma: float
    norm: float

    def __post_init__(self) -> None:
        super().__post_init__()
        norm = _validate.positive("norm", self.norm)
        if norm < 2:
            raise ParameterError(
                f"a generalized Gaussian release needs norm >= 2 (its squared norm must be "
                f"smooth), got {norm}. For l_p geometry with p < 2 pass the dual exponent."
            )
        store(self, "norm", norm)

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the zCDP of a shift by the sensitivity."""
        shift = sum_sensitivity(self, adjacency) / self.sigma
        return zcdp_loss(0.5 * (self.norm - 1) * shift * shift)

    def lattices(self, size: int) -> tuple[tuple[float, float], ...]:
        """Return sigma and the step of the sum."""
        return ((self.sigma, lattice_step(self.bound, size)),)

    def draw_noisy(self, stream: Stream, exact: Array) -> Array:
        """Return a sum with its noise, both rounded to the lattice."""
        noise = generalized_gaussian(stream, exact.size, self.norm, self.sigma)
        return with_rounded(noise, exact, lattice_step(self.bound, exact.size))


def generalized_gaussian(stream: Stream, dimension: int, norm: float, sigma: float) -> Array:
    """Return one vector of density proportional to exp(-|z|_r^2 / (2 sigma^2)), r = ``norm``.

    Exact: a direction from the cone measure of the l_r ball times an independent chi radius. A
    coordinate of the direction is a signed Gamma(1/r)^(1/r), drawn as a uniform number times
    Gamma(1+1/r)^(1/r); for r = infinity it is uniform.
    """
    inverse = 0.0 if math.isinf(norm) else 1.0 / norm
    signed = 2.0 * stream.uniforms(dimension) - 1.0
    direction = signed * gamma.gamma(stream, 1.0 + inverse, dimension) ** inverse
    largest = np.max(np.abs(direction))
    scaled = direction / largest  # powers of r must not underflow
    length = 1.0 if math.isinf(norm) else float(np.sum(np.abs(scaled) ** norm)) ** inverse
    radius = math.sqrt(2.0 * float(gamma.gamma(stream, dimension / 2, 1)[0]))
    return np.asarray(sigma * radius * scaled / length)
