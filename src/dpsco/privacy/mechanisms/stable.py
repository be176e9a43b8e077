"""Noise on the outcome of a stable algorithm: Gaussian, or of Gamma length and purely private.

Unlike a clipped sum, an averaged iterate or a minimiser has no ``bound`` that one row contributes.
What is known is how far neighbours move it: a ``sensitivity`` from :mod:`..accounting.stability`,
which has the adjacency in it already, so that the record names the ``adjacency`` and the
``theorem``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import _validate
from ...errors import ParameterError
from ..accounting.privacy_loss import PrivacyLoss, gaussian_loss, pure_loss, round_up
from ..accounting.sensitivity import stated_sensitivity
from ..budget import Adjacency
from ..lattice import lattice_step, with_rounded
from ..randomness import Stream
from ..release import Release, register
from . import gamma
from .gaussian import GaussianNoise

Array = NDArray[np.float64]

STABLE_ADJACENCIES = ("replace_one", "zero_out")
_LONGEST_THEOREM = 200
_ADJACENCY_HINT = "A stability theorem needs a public number of rows, so add_remove has none."


@register
@dataclass(frozen=True)
class StableGaussianRelease(GaussianNoise, Release):
    """A vector that neighbours under ``adjacency`` move by l2 <= sensitivity, plus N(0, sigma^2 I).

    ``theorem`` names the result that the sensitivity comes from.
    """

    kind: ClassVar[str] = "stable_gaussian"
    summary: ClassVar[str] = "The outcome of a stable algorithm, with Gaussian noise"
    moved_by: ClassVar[str] = "sensitivity"
    sensitivity: float
    sigma: float
    adjacency: str
    theorem: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_theorem(self)

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the exact loss of two Gaussians."""
        return gaussian_loss(stated_sensitivity(self, adjacency) / self.sigma)


@register
@dataclass(frozen=True)
class StableGammaRelease(Release):
    """A vector that neighbours move by l2 <= sensitivity, plus noise ~ exp(-|z|_2/scale).

    The noise is a uniform direction times a Gamma(d, scale) length: purely private.
    """

    kind: ClassVar[str] = "stable_gamma"
    summary: ClassVar[str] = "The outcome of a stable algorithm, with noise of Gamma length"
    exact_law: ClassVar[bool] = False
    sensitivity: float
    scale: float
    adjacency: str
    theorem: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_theorem(self)

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the pure epsilon: | |z|_2 - |z + s|_2 | <= |s|_2 bounds the densities' ratio."""
        return pure_loss(round_up(stated_sensitivity(self, adjacency) / self.scale))

    def draw_noisy(self, stream: Stream, exact: Array) -> Array:
        """Return the vector with its noise, both rounded to the lattice."""
        noise = norm_gamma(stream, exact.size, self.scale)
        return with_rounded(noise, exact, lattice_step(self.sensitivity, exact.size))


def norm_gamma(stream: Stream, size: int, scale: float) -> Array:
    """Return a vector of density ~ exp(-|z|_2/scale): uniform direction, Gamma(size) length."""
    direction = stream.normals(size)
    length = scale * float(gamma.gamma(stream, float(size), 1)[0])
    return np.asarray(direction * (length / float(np.linalg.norm(direction))))


def check_theorem(record: Any) -> None:
    """Check the adjacency and the theorem's name of a record that rests on one."""
    _validate.choice("adjacency", record.adjacency, STABLE_ADJACENCIES, hint=_ADJACENCY_HINT)
    text = record.theorem
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST_THEOREM:
        raise ParameterError(
            f"theorem must name the result that the sensitivity rests on, in 1 to "
            f"{_LONGEST_THEOREM} characters, got {_validate.shown(text)}.",
            parameter="theorem",
        )
