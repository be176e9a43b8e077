"""Small parts of the ledger that neither draw nor remember anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import LedgerError, ParameterError
from .releases import Release


class Purse(Protocol):
    """Whatever can pay for releases before they happen: an odometer."""

    def spend(self, releases: Iterable[Release], *, label: str) -> Any:
        """Record the spend durably, or refuse."""


class RunPurse(Purse, Protocol):
    """A purse that knows runs by name: one that is resumed is not paid for again."""

    def spend(self, releases: Iterable[Release], *, label: str, run: str | None = None) -> Any:
        """Record the spend durably, once for each run, or refuse."""

    def paid(self, run: str) -> bool:
        """Return whether a run has been paid for here."""

    def commit(self, run: str, round: int, digest: str) -> None:
        """Record durably what a round has let out, or refuse if it has let out something else."""

    def committed(self, run: str) -> dict[int, str]:
        """Return what was recorded of each round."""


class Unique:
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
