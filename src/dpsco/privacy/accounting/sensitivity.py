"""From a row's bound to a sensitivity: here and only here.

The adjacency's factor, the rounding of floating-point sums and the rounding to the lattice are each
applied once. A mechanism calls one of these functions and divides by its noise.
"""

from __future__ import annotations

from typing import Protocol

from ...errors import AssumptionError
from ...kernels.pairwise import rounding_slack
from ..budget import Adjacency
from ..lattice import SLACK

STABLE_SLACK = 1e-9  # relative: rounding of the few operations behind a stated sensitivity


class BoundedSum(Protocol):
    """A release of a sum, to which each row contributes a vector within a bound."""

    @property
    def bound(self) -> float:
        """The largest norm of one row's contribution."""

    @property
    def row_count(self) -> int:
        """How many rows are summed at most."""


class Stable(Protocol):
    """A release of something that a theorem proves to be stable."""

    @property
    def adjacency(self) -> str:
        """Which neighbours the theorem was applied to."""


class StableVector(Stable, Protocol):
    """A release of a vector whose sensitivity a theorem bounds."""

    @property
    def sensitivity(self) -> float:
        """The largest distance between neighbours."""


def float_sum_sensitivity(release: BoundedSum, adjacency: Adjacency) -> float:
    """Return the distance between neighbouring float64 sums, rounding included."""
    return adjacency.sensitivity(release.bound) * (1 + rounding_slack(release.row_count))


def sum_sensitivity(release: BoundedSum, adjacency: Adjacency) -> float:
    """Return the distance between neighbouring sums on the lattice of the release."""
    return float_sum_sensitivity(release, adjacency) * (1 + SLACK)


def stated_sensitivity(release: StableVector, adjacency: Adjacency) -> float:
    """Return the distance on the lattice, for the adjacency that it was proved under."""
    check_stated_adjacency(release, adjacency)
    return release.sensitivity * (1 + STABLE_SLACK) * (1 + SLACK)


def check_stated_adjacency(release: Stable, adjacency: Adjacency) -> None:
    """Refuse another adjacency than the one that the record's theorem was applied to."""
    refuse_add_remove(release, adjacency)
    if release.adjacency != adjacency.value:
        raise AssumptionError(
            f"{type(release).__name__} states its distance between {release.adjacency} neighbours, "
            f"and the budget protects {adjacency.value} ones. Compute the sensitivity for "
            f"adjacency='{adjacency.value}', or pass a budget with adjacency="
            f"'{release.adjacency}'."
        )


def refuse_add_remove(release: object, adjacency: Adjacency) -> None:
    """Refuse neighbours of another number of rows, for releases that need that number public."""
    if adjacency is Adjacency.ADD_REMOVE:
        raise AssumptionError(
            f"{type(release).__name__} needs a public number of rows, and under add_remove a row "
            "more or less would move all later rows to other batches. Use adjacency='zero_out' "
            "(same noise, number of rows public) or 'replace_one'."
        )
