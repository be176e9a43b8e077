"""Small parts of the ledger that neither draw nor remember anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import LedgerError, ParameterError
from .lattice import TILT_SHARE, in_steps, lattice_step
from .mechanisms.releases import (
    ObjectivePerturbationRelease,
    PrefixSumRelease,
    Release,
    StableGaussianRelease,
    WithReplacementRelease,
)


class BudgetSpender(Protocol):
    """Whatever can pay for releases before they happen: an odometer."""

    def spend(self, releases: Iterable[Release], *, label: str) -> Any:
        """Record the spend durably, or refuse."""


class RunSpender(BudgetSpender, Protocol):
    """A purse that knows runs by name: one that is resumed is not paid for again."""

    def spend(self, releases: Iterable[Release], *, label: str, run: str | None = None) -> Any:
        """Record the spend durably, once for each run, or refuse."""

    def paid(self, run: str) -> bool:
        """Return whether a run has been paid for here."""

    def commit(self, run: str, round: int, digest: str) -> None:
        """Record durably what a round has let out, or refuse if it has let out something else."""

    def committed(self, run: str) -> dict[int, str]:
        """Return what was recorded of each round."""


class NonCopyable:
    """Something that may leave once: a copy could leave again."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise LedgerError(f"a {type(self).__name__} can be neither copied nor pickled.")


def floats(total: ArrayLike) -> NDArray[np.float64]:
    """Return the exact value as float64; refuse what is not an array of numbers."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(total, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError("a release takes an array of numbers.") from None


def check_lattice(releases: Iterable[Release], size: int) -> None:
    """Refuse noise that no lattice in float64 holds, for vectors of ``size`` numbers.

    Of use before anybody pays: the ledger would refuse it when it is drawn.

    Raises:
        ParameterError: a release has a budget so small that its noise is beyond 2**48 steps.
    """
    for release in releases:
        if isinstance(release, ObjectivePerturbationRelease):
            in_steps(release.sigma, tilt_step(release, size))
            in_steps(release.output_sigma, output_step(release, size))
        elif isinstance(release, PrefixSumRelease):
            in_steps(release.sigma, prefix_step(release, size))
        elif isinstance(release, StableGaussianRelease):
            in_steps(release.sigma, lattice_step(release.sensitivity, size))
        elif isinstance(release, WithReplacementRelease):
            in_steps(release.sigma, lattice_step(release.hit, size))
        elif hasattr(release, "bound") and hasattr(release, "sigma"):
            in_steps(release.sigma, lattice_step(release.bound, size))


def prefix_step(release: PrefixSumRelease, size: int) -> float:
    """Return the step of the rows of the encoder times batch sums: they move by its norm."""
    mechanism = release.mechanism
    return lattice_step(release.bound * mechanism.column_norm, mechanism.draws() * size)


def tilt_step(release: ObjectivePerturbationRelease, size: int) -> float:
    """Return the step of the tilt: half of one in each number moves the minimiser by a share."""
    return lattice_step(2 * release.distance * release.floor, size, slack=TILT_SHARE)


def output_step(release: ObjectivePerturbationRelease, size: int) -> float:
    """Return the step of the minimiser that leaves."""
    return lattice_step(release.distance, size, slack=TILT_SHARE)
