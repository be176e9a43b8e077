"""Objective perturbation: the record, its cost to one row or several, and how it is drawn."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .... import _validate
from ...._validate import store
from ....errors import ParameterError
from ....files.limits import MOST_WEIGHTS
from ...accounting.composition import least_epsilon
from ...accounting.privacy_loss import PrivacyLoss, Profile, combined_mu, round_up
from ...accounting.sensitivity import STABLE_SLACK, float_sum_sensitivity
from ...budget import Adjacency
from ...lattice import TILT_SHARE, gaussian_steps, lattice_step, with_gaussian
from ...randomness import Stream
from ...release import Release, register
from .check import Check
from .loss import Loss

Array = NDArray[np.float64]

DIRECTIONS = ("glm", "subspace", "general")


@register
@dataclass(frozen=True)
class ObjectivePerturbationRelease(Release):
    """The minimiser over a convex set of a randomly tilted objective, plus N(0, output_sigma^2 I).

    The objective is ``sum_i f(w, z_i) + <b, w> + (floor/2) |w|^2`` over the rows, b ~ N(0, sigma^2
    I), and what is noised lies within ``distance`` (l2) of its exact minimiser. Each f(., z) is
    convex, with gradients of norm <= ``bound``, Hessians of norm <= ``curvature`` and rank <=
    ``rank``. ``directions`` says where one row's gradients point as w moves:

    glm       along one fixed direction (generalised linear models; rank 1)
    subspace  within a fixed subspace of ``span`` dimensions
    general   anywhere in the ``dimension`` dimensions of w
    """

    kind: ClassVar[str] = "objective_perturbation"
    summary: ClassVar[str] = "The minimiser of the loss with a random tilt"
    single_stream: ClassVar[bool] = False  # the tilt and the output's noise have one each
    theorem: ClassVar[str] = (
        "Redberg, Koskela, Wang 2023 and Su, Zhao, Wang 2023: privacy of perturbed minimisers"
    )
    bound: float
    sigma: float
    curvature: float
    floor: float
    rank: int
    directions: str
    distance: float
    output_sigma: float
    span: int | None = None
    dimension: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice("directions", self.directions, DIRECTIONS)
        store(self, "curvature", _validate.non_negative("curvature", self.curvature))
        store(self, "rank", _validate.integer("rank", self.rank, at_most=MOST_WEIGHTS))
        for name in ("floor", "distance", "output_sigma"):
            store(self, name, _validate.positive(name, getattr(self, name)))
        for name, needed in (("span", "subspace"), ("dimension", "general")):
            value = getattr(self, name)
            if self.directions == needed:
                store(self, name, _validate.integer(name, value, at_most=MOST_WEIGHTS))
            elif value is not None:
                raise ParameterError(
                    f"{name} belongs to directions={needed!r}, got {_validate.shown(value)} with "
                    f"directions={self.directions!r}. Leave it out."
                )
        if self.directions == "glm" and self.rank != 1:
            raise ParameterError(
                f"a generalised linear model has rank 1, got rank={self.rank}. For vector-valued "
                "models use directions='subspace' with their span."
            )

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the loss of one row, which also says what several rows cost at once."""
        return self._loss_of(1, adjacency)

    def _loss_of(self, rows: int, adjacency: Adjacency) -> PrivacyLoss:
        """Return what ``rows`` rows cost at once."""
        parts = rows * adjacency.factor  # gradients that appear or vanish, each in its own span
        directions, span = self.directions, self.span or 1
        if directions != "general" and span == 1 and parts <= 2:
            directions = "glm" if parts == 1 else "pair"
        elif directions == "glm":
            directions = "subspace"
        wide = directions == "general"
        loss = Loss(
            m=round_up(rows * float_sum_sensitivity(self, adjacency) / self.sigma),
            curvature=self.curvature,
            floor=self.floor,
            rank=self.rank,
            directions=directions,
            dimensions=(self.dimension or 1) if wide else parts * span,
            output=self._output_mu(),
            rows=rows,
            span=None if wide else span,
        )
        return PrivacyLoss(
            rho=loss.rho,
            curve=loss.rdp,
            alone=_profile(loss),
            together=lambda count: self._loss_of(count, adjacency),
            check=Check(self, replaced=adjacency.factor == 2, rows=rows),
        )

    def _output_mu(self) -> float:
        """Return the distance of two outputs, in standard deviations of their noise.

        Inexact minimisers lie within ``distance`` of exact ones on both sides, whatever the rows.
        Their tilt is rounded, which moves them by TILT_SHARE distance, and so is what leaves.
        """
        lattices = TILT_SHARE + TILT_SHARE / 2
        return round_up(2 * self.distance * (1 + STABLE_SLACK + lattices) / self.output_sigma)

    def lattices(self, size: int) -> tuple[tuple[float, float], ...]:
        """Return sigma and step of the tilt, and of the minimiser that leaves."""
        tilt, output = self._tilt_step(size), self._output_step(size)
        return ((self.sigma, tilt), (self.output_sigma, output))

    def _tilt_step(self, size: int) -> float:
        """Return the tilt's step: half of one in each number moves the minimiser by a share."""
        return lattice_step(2 * self.distance * self.floor, size, slack=TILT_SHARE)

    def _output_step(self, size: int) -> float:
        return lattice_step(self.distance, size, slack=TILT_SHARE)

    def draw_tilt(self, stream: Stream, size: int) -> Array:
        """Return b: within TILT_SHARE distance floor of an exactly normal vector.

        The minimiser moves by at most 1/floor times as much, which its cost allows for.
        """
        step = self._tilt_step(size)
        return gaussian_steps(stream.words, size, self.sigma, step) * step

    def draw_noisy(self, stream: Stream, exact: Array) -> Array:
        """Return the minimiser with its noise, both on the lattice."""
        step = self._output_step(exact.size)
        return with_gaussian(stream.words, exact, self.output_sigma, step)


def _profile(loss: Loss) -> Profile:
    """Return the curve of a perturbed minimiser; Gaussian releases add to its output's noise."""

    def beside(mu: float) -> Profile:
        return _profile(dataclasses.replace(loss, output=combined_mu(loss.output, mu)))

    return Profile(loss.delta, lambda delta: _epsilon(loss, delta), beside=beside)


@lru_cache(maxsize=256)  # a plan, its ledger and its certificate ask for the same
def _epsilon(loss: Loss, delta: float) -> float:
    """Return the least epsilon of a loss."""
    return least_epsilon(loss.delta, delta)
