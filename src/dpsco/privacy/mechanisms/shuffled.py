"""One noisy report for each row, in secret order: a row hides among the others' reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..accounting import amplification
from ..accounting.privacy_loss import PrivacyLoss, Profile, gaussian_loss, round_up
from ..accounting.sensitivity import refuse_add_remove, sum_sensitivity
from ..budget import Adjacency
from ..lattice import with_gaussian
from ..randomness import Stream
from ..release import Release, register
from .gaussian import GaussianNoise

Array = NDArray[np.float64]


@register
@dataclass(frozen=True)
class ShuffledRelease(GaussianNoise, Release):
    """One report per row, a vector of l2 norm <= bound plus N(0, sigma^2 I), in secret order."""

    kind: ClassVar[str] = "shuffled"
    summary: ClassVar[str] = "One noisy report for each row, in secret order"
    bound: float
    sigma: float

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the loss of one report in the open, and the curve of all of them shuffled."""
        refuse_add_remove(self, adjacency)
        # Hiding among the others' reports compares any two inputs, whatever the adjacency.
        local = round_up(sum_sensitivity(self, Adjacency.REPLACE_ONE) / self.sigma)
        unshuffled = gaussian_loss(sum_sensitivity(self, adjacency) / self.sigma)
        return PrivacyLoss(
            rho=unshuffled.rho,
            curve=unshuffled.curve,
            pld=unshuffled.pld,
            alone=Profile(
                lambda eps: amplification.shuffled_delta(eps, self.row_count, local),
                lambda delta: amplification.shuffled_epsilon(delta, self.row_count, local),
            ),
        )

    def draw_noisy(self, stream: Stream, exact: Array) -> Array:
        """Return the reports with their noise, on the lattice, in a uniformly random order."""
        ((sigma, step),) = self.lattices(exact.shape[1])  # of one report
        reports = with_gaussian(stream.words, exact, sigma, step)
        return np.asarray(reports[stream.permutation(len(reports))])
