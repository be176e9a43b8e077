"""Gaussian noise on the sum over a secret random sample of the rows: Poisson, or of fixed size.

The privacy loss distributions are those of :mod:`..accounting.pld`; where the noise is so little
that the secrecy of the sample is not credited, a release costs what it costs without.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import _validate
from ..._validate import store
from ...errors import ParameterError
from ..accounting import pld
from ..accounting.privacy_loss import PrivacyLoss, gaussian_loss, round_up
from ..accounting.sensitivity import refuse_add_remove, sum_sensitivity
from ..budget import Adjacency
from ..randomness import Stream
from ..release import Release, register
from .gaussian import GaussianNoise

Indices = NDArray[np.int64]

_SAMPLED_UP_TO = 20.0  # distance in standard deviations beyond which sampling is not credited
_PAIR_CAVEAT = (
    "the antipodal pair dominates Poisson sampling under replace_one (checked numerically only)"
)
_SAMPLE_CAVEAT = (
    "dp-accounting's privacy loss distributions round as little as measured (no proof), and the "
    "sampled rows stay secret"
)


@register
@dataclass(frozen=True)
class PoissonGaussianRelease(GaussianNoise, Release):
    """A sum over a secret sample with each row independently at ``rate``, plus N(0, sigma^2 I).

    ``pair`` says which bound pays for replace-one neighbours: 'proved', or 'conjectured' (the
    antipodal pair: less noise, checked numerically only, listed as trusted in the certificate).
    """

    kind: ClassVar[str] = "poisson_gaussian"
    summary: ClassVar[str] = "A sum over a secret random sample of rows, with Gaussian noise"
    bound: float
    sigma: float
    rate: float
    pair: str = "proved"

    def __post_init__(self) -> None:
        super().__post_init__()
        rate = _validate.positive("rate", self.rate)
        if rate > 1:
            raise ParameterError(f"rate must lie in (0, 1], got {rate}.", parameter="rate")
        store(self, "rate", rate)
        _validate.choice("pair", self.pair, ("proved", "conjectured"))

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the loss of the pair of laws that dominates, for the adjacency."""
        if self.rate == 1.0:
            return gaussian_loss(sum_sensitivity(self, adjacency) / self.sigma)
        distance = round_up(sum_sensitivity(self, adjacency) / self.sigma)
        if distance > _SAMPLED_UP_TO:
            return _unsampled(distance)
        if adjacency is not Adjacency.REPLACE_ONE:
            return PrivacyLoss(pld=pld.PoissonLoss(distance, self.rate, replace_one=False))
        if self.pair == "conjectured":
            return PrivacyLoss(pld=pld.PoissonLoss(distance / 2, self.rate, replace_one=True))
        return PrivacyLoss(pld=pld.SampledLoss(distance, self.rate))

    def caveats(self, adjacency: Adjacency) -> tuple[str, ...]:
        """Return what the numerical bound rests on."""
        conjectured = adjacency is Adjacency.REPLACE_ONE and self.pair == "conjectured"
        return (*([_PAIR_CAVEAT] if conjectured else []), _SAMPLE_CAVEAT)

    def draw_rows(self, stream: Stream) -> Indices:
        """Return the sampled rows."""
        return self.rows[0] + stream.poisson_sample(self.row_count, self.rate)


@register
@dataclass(frozen=True)
class FixedSizeGaussianRelease(GaussianNoise, Release):
    """A sum over a secret uniformly random sample of ``size`` rows, plus N(0, sigma^2 I)."""

    kind: ClassVar[str] = "fixed_size_gaussian"
    summary: ClassVar[str] = "A sum over a secret random sample of fixed size, with Gaussian noise"
    bound: float
    sigma: float
    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        size = _validate.integer("size", self.size)
        if size > self.row_count:
            raise ParameterError(
                f"a sample of {size} without replacement needs as many rows, got {self.row_count}."
            )
        store(self, "size", size)

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the loss of a sampled row that takes the place of another one."""
        refuse_add_remove(self, adjacency)
        if self.size == self.row_count:
            return gaussian_loss(sum_sensitivity(self, adjacency) / self.sigma)
        # Two bounds apart, also for zero-out.
        distance = round_up(sum_sensitivity(self, Adjacency.REPLACE_ONE) / self.sigma)
        if distance > _SAMPLED_UP_TO:
            return _unsampled(distance)
        population = (self.size, self.row_count)
        return PrivacyLoss(pld=pld.SampledLoss(distance, self.size / self.row_count, population))

    def caveats(self, adjacency: Adjacency) -> tuple[str, ...]:
        """Return what the numerical bound rests on."""
        return (_SAMPLE_CAVEAT,)

    def draw_rows(self, stream: Stream) -> Indices:
        """Return the sampled rows."""
        return self.rows[0] + stream.fixed_size_sample(self.row_count, self.size)


def _unsampled(distance: float) -> PrivacyLoss:
    """Return what the release costs without the secrecy of its sample, which never hurts.

    No ``mu``: more noise does not scale this loss, it leads back to the sampled one.
    """
    return dataclasses.replace(gaussian_loss(distance), mu=None)
