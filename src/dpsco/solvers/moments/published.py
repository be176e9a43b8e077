"""The schedules of Lowy, Razaviyayn 2023, Theorems 29, 33 and 38, with their mistakes corrected.

Batches number T + 1 for Algorithm 5, and never have n/T rows each: sizes are whole numbers, and
noise belongs to sums, so that no size enters it. Thresholds are the paper's, with constants of 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import AssumptionError
from ..common.mean_oracle import paper_threshold
from ..common.moment_clips import Moments
from . import rates
from .rates import Scales


@dataclass(frozen=True)
class Published:
    """A schedule of the paper: how many batches, and the threshold."""

    rounds: int
    clip: float


def acsa(scales: Scales, moments: Moments) -> Published:
    """Return the schedule of Theorem 29: C = r (mu n/sqrt(d T))^(1/k)."""
    rounds = rates.paper_acsa_rounds(scales, moments.moment, moments.order)
    return Published(rounds, averaged_clip(scales, moments, rounds))


def sgd(scales: Scales, moments: Moments) -> Published:
    """Return the schedule of Theorem 33: T + 1 batches, which may be more than there are rows.

    Raises:
        AssumptionError: they are.
    """
    steps = rates.paper_sgd_rounds(scales, moments.moment, moments.order)
    if steps + 1 > scales.n:
        raise AssumptionError(
            f"schedule='paper' asks for T + 1 = {steps + 1:,} batches, and there are {scales.n:,} "
            f"rows: 4 kappa log(...) is too much for a condition number of {scales.condition:.3g}. "
            "Use schedule='practical', or clipped_acsa, whose batches do not grow with it."
        )
    return Published(steps + 1, averaged_clip(scales, moments, steps))


def prox(scales: Scales, moments: Moments, gap: float | None = None) -> Published:
    """Return the schedule of Theorem 38, a fixed point; ``gap`` is F(w_0) - F*, by default r D0.

    Raises:
        AssumptionError: it asks for more batches than there are rows.
    """
    gap = moments.moment * scales.distance if gap is None else gap

    def clip(rounds: int) -> float:
        return paper_threshold(
            moments.moment, moments.order, rows=scales.n / rounds, mu=scales.mu, size=scales.size
        )

    rounds = rates.paper_prox_rounds(scales, gap, moments.moment, moments.order, clip)
    if rounds > scales.n:
        raise AssumptionError(
            f"schedule='paper' asks for T = {rounds:,} batches, and there are {scales.n:,} rows. "
            "Use schedule='practical'."
        )
    return Published(rounds, clip(rounds))


def averaged_clip(scales: Scales, moments: Moments, rounds: int) -> float:
    """Return the paper's threshold for T batches whose noise is averaged."""
    return paper_threshold(
        moments.moment,
        moments.order,
        rows=scales.n / rounds,
        mu=scales.mu,
        size=scales.size,
        averaged=rounds,
    )
