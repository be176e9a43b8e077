"""Noisy batch sums of rows in secret order, each asked for what earlier answers suggest.

The rows are put into a secret uniformly random order once. Batch t takes the next of them, every
row adds its vector with noise of its own, and the query of batch t may depend on all answers before
it. What leaves are the batches' sums: their noise is N(0, b sigma^2 I) for b rows.

Shuffled    Each report is a local randomiser: Gaussian noise of distance 2 bound/sigma between any
            two inputs, hence (eps0, delta0)-DP for every pair on its curve. Applied one after the
            other, each chosen by the answers before, to rows in secret uniformly random order, they
            hide among each other as well as if all had been chosen beforehand (Feldman, McMillan,
            Talwar 2020, arXiv:2012.12803, Thm 3.2 and 3.8: an adaptive sequence of local
            randomisers). :mod:`..accounting.amplification` sums their dominating pair.
In batches  A row is in one batch, whose sum has noise of deviation sqrt(b) sigma. Whatever the
            order, known or not, the whole sequence is mu-GDP with mu = sensitivity/(sqrt(b) sigma)
            for the smallest b, by parallel composition.

Both hold for what leaves, so at every epsilon the smaller delta counts. Whoever sees single reports
has the first alone. Vectors are rounded to the lattice row by row, so that a sum is exactly the sum
of the reports, whose distance the rounding has moved by no more than SLACK allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import _validate
from ..._validate import store
from ...errors import AssumptionError, ParameterError
from ..accounting import amplification, gaussian
from ..accounting.calibration import calibrate
from ..accounting.privacy_loss import (
    PrivacyLoss,
    Profile,
    combined_mu,
    gaussian_loss,
    round_up,
)
from ..accounting.sensitivity import refuse_add_remove, sum_sensitivity
from ..budget import Adjacency, ApproxDP, Budget
from ..lattice import lattice_step, on_lattice, with_gaussian
from ..randomness import Stream
from ..release import Release, register
from .gaussian import GaussianRelease

Array = NDArray[np.float64]

GAIN = 0.95  # of the noise in a known order: what a secret order must save at least


@register
@dataclass(frozen=True)
class ShuffledSequenceRelease(Release):
    """The sums of ``batches`` equal parts of the rows in secret order, each after the other.

    A row adds a vector of l2 norm <= bound plus N(0, sigma^2 I) of its own to the sum of its batch,
    and what it is asked for may depend on the sums before. The first batches have a row more.
    """

    kind: ClassVar[str] = "shuffled_sequence"
    summary: ClassVar[str] = "Noisy sums of batches in secret order, one after the other"
    single_stream: ClassVar[bool] = False
    bound: float
    sigma: float
    batches: int

    def __post_init__(self) -> None:
        super().__post_init__()
        store(self, "batches", _validate.integer("batches", self.batches))
        if self.batches > self.row_count:
            raise ParameterError(
                f"batches must be at most the number of rows, {self.row_count:,}; got "
                f"{self.batches:,}.",
                parameter="batches",
            )

    @property
    def fewest(self) -> int:
        """Rows of the smallest batch."""
        return self.row_count // self.batches

    def batch(self, t: int) -> tuple[int, int]:
        """Return where batch t begins and ends in the secret order."""
        size, more = divmod(self.row_count, self.batches)
        start = t * size + min(t, more)
        return start, start + size + (t < more)

    def local_mu(self) -> float:
        """Return the distance of one report between any two inputs, in deviations of its noise."""
        return round_up(sum_sensitivity(self, Adjacency.REPLACE_ONE) / self.sigma)

    def batch_mu(self, adjacency: Adjacency) -> float:
        """Return the distance of the smallest batch's sum."""
        return round_up(
            sum_sensitivity(self, adjacency) / (self.sigma * math.sqrt(self.fewest)) * (1 + 2**-50)
        )

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the loss of the batches, and the curve that is the smaller of both."""
        refuse_add_remove(self, adjacency)
        known = self.batch_mu(adjacency)
        loss = gaussian_loss(known)
        return PrivacyLoss(
            gdp=loss.mu,
            rho=loss.rho,
            curve=loss.curve,
            pld=loss.pld,
            alone=self._profile(self.local_mu(), known),
        )

    def _profile(self, local: float, known: float) -> Profile:
        """Return the smaller of both curves; beside Gaussian releases that of the batches."""
        n = self.row_count

        def delta(epsilon: float) -> float:
            sums = gaussian.delta(epsilon, known)
            # Clones never beat a known order of so little noise; the search for it takes a while.
            return min(sums, amplification.shuffled_delta(epsilon, n, local))

        def epsilon(delta: float) -> float:
            sums = gaussian.epsilon(delta, known)
            return min(sums, amplification.shuffled_epsilon(delta, n, local))

        return Profile(delta, epsilon, beside=lambda more: _of_gaussians(combined_mu(known, more)))

    def lattices(self, size: int) -> tuple[tuple[float, float], ...]:
        """Return the noise of the largest batch, and the step."""
        most = self.fewest + (self.row_count % self.batches > 0)
        return ((self.sigma * math.sqrt(most), self.step(size)),)

    def step(self, size: int) -> float:
        """Return the lattice step of vectors of ``size`` numbers."""
        return lattice_step(self.bound, size)

    def caveats(self, adjacency: Adjacency) -> tuple[str, ...]:
        """Return that the order is a secret."""
        return ("the order in which rows are taken stays secret, as do single reports",)

    def draw_order(self, stream: Stream) -> NDArray[np.int64]:
        """Return the rows in secret order."""
        return self.rows[0] + stream.permutation(self.row_count)

    def draw_noisy_sum(self, stream: Stream, reports: Array) -> Array:
        """Return the sum of some rows' vectors, each with its noise."""
        step = self.step(reports.shape[1])
        exact = on_lattice(reports, step).sum(axis=0) * step  # whole numbers: exact
        return with_gaussian(stream.words, exact, self.sigma * math.sqrt(len(reports)), step)


def _of_gaussians(mu: float) -> Profile:
    """Return the curve of Gaussian releases."""
    return Profile(
        lambda epsilon: gaussian.delta(epsilon, mu),
        lambda delta: gaussian.epsilon(delta, mu),
        beside=lambda more: _of_gaussians(combined_mu(mu, more)),
    )


def shuffled_sigma(budget: Budget, *, bound: float, rows: tuple[int, int]) -> float:
    """Return the least noise of a report that its secret order pays for.

    Batches are not counted on: with noise of this size single reports may be seen, by whoever
    collects them in secret order.

    Raises:
        AssumptionError: the order gains nothing over the noise of a report in a known order, or the
            budget has no delta.

    >>> budget = ApproxDP(1.0, 1e-6)
    >>> round(shuffled_sigma(budget, bound=0.5, rows=(0, 10_000)), 3)
    1.413
    """
    if not isinstance(budget, ApproxDP):
        raise AssumptionError(
            "what a secret order hides is known as (epsilon, delta) alone. Use ApproxDP(epsilon, "
            f"delta) in place of {type(budget).__name__}."
        )
    start, stop = rows
    sigma = calibrate(lambda s: ShuffledSequenceRelease(bound, s, stop - start, rows=rows), budget)
    known = calibrate(lambda s: GaussianRelease(bound, s, rows=rows), budget)
    if not sigma < known * GAIN:
        raise AssumptionError(
            f"shuffling {stop - start:,} reports gains nothing at epsilon {budget.epsilon:g}: a "
            f"report needs noise {sigma / bound:.3g} times its bound, and {known / bound:.3g} in a "
            "known order. Use a smaller epsilon, more rows, or noise on sums of all rows."
        )
    return sigma
