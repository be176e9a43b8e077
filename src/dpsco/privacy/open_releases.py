"""Releases that stay open for a while: a sample still to be summed, a stream of prefix sums.

`Ledger` opens them and does not close before they are finished. They draw under its lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _validate
from ..errors import LedgerError, ParameterError
from . import mechanisms
from .ledger_parts import Unique, floats
from .randomness import Stream
from .releases import PrefixSumRelease

if TYPE_CHECKING:
    from .ledger import Ledger

Array = NDArray[np.float64]
Rows = tuple[int, int]


class SampledSum(Unique):
    """A secret sample whose sum is still to be released. The ``indices`` must stay secret."""

    def __init__(
        self, indices: NDArray[np.int64], stream: Stream, sigma: float, ledger: Ledger
    ) -> None:
        self.indices = indices
        self.finished = False
        self._stream, self._sigma, self._ledger = stream, sigma, ledger

    def release(self, total: ArrayLike) -> Array:
        """Return the sum over the sampled rows plus Gaussian noise, once; no rows sum to 0."""
        exact = floats(total)
        with self._ledger._step():
            if self.finished:
                raise LedgerError("a sampled sum was released twice: draw a new sample for each.")
            self.finished = True
            self.indices = self.indices[:0].copy()  # a run may take thousands of samples
            return with_gaussian(self._stream, exact, self._sigma)

    def __repr__(self) -> str:
        return "a sampled sum"


class PrefixSums(Unique):
    """Noisy prefix sums of batch sums. Each row may enter one batch; rounds come in order."""

    def __init__(
        self, release: PrefixSumRelease, dimension: int, stream: Stream, ledger: Ledger
    ) -> None:
        self._release, self._ledger = release, ledger
        self._noise = release.mechanism.start(lambda: stream.normals(dimension))
        self._prefix = np.zeros(dimension)
        self._next_row = release.rows[0]

    @property
    def finished(self) -> bool:
        """Whether all rounds were run."""
        return self._noise.position == self._release.mechanism.rounds

    def add(self, total: ArrayLike, *, rows: Rows) -> Array:
        """Add the batch sum over ``rows`` and return the noisy prefix sum."""
        release = self._release
        start, stop = _validate.row_range("rows", rows)
        exact = floats(total)
        if exact.shape != self._prefix.shape:
            raise ParameterError(
                f"the batch sum must have shape {self._prefix.shape}, got {exact.shape}."
            )
        with self._ledger._step():
            if self.finished or start < self._next_row or stop > release.rows[1]:
                raise LedgerError(
                    f"batch {(start, stop)} does not fit the planned stream over rows "
                    f"{release.rows}: each row enters one round, rounds come in order, and their "
                    "number is fixed."
                )
            self._next_row = stop
            # The batch meets its noise first: whatever is rounded afterwards is post-processing.
            self._prefix = self._prefix + (exact + release.sigma * self._noise.next())
            return np.array(self._prefix)

    def resume(self, rounds: int, *, row: int, prefix: ArrayLike) -> None:
        """Go on after rounds that this run has committed in another process; nothing leaves.

        The ledger must draw from the randomness of that process, restored: the noise of those
        rounds is drawn again, and only remembered, because later noise builds on it.

        Args:
            rounds: how many rounds are over.
            row: where the rows of the next round may begin.
            prefix: the noisy prefix sum that the last of these rounds has released.

        Raises:
            LedgerError: a round was run here already, or the numbers do not fit the planned stream.
        """
        count, first = _validate.integer("rounds", rounds), _validate.integer("row", row)
        start, stop = self._release.rows
        released = floats(prefix)
        with self._ledger._step():
            if (
                self._noise.position
                or count > self._release.mechanism.rounds
                or not start <= first <= stop
                or released.shape != self._prefix.shape
            ):
                raise LedgerError(
                    f"{self!r} over rows {(start, stop)} cannot go on at round {count} and row "
                    f"{first}, from a prefix of shape {released.shape}: it was resumed before, or "
                    "this is another run's state."
                )
            for _ in range(count):
                self._noise.next()
            self._next_row, self._prefix = first, released.copy()

    def __repr__(self) -> str:
        return f"prefix sums at round {self._noise.position} of {self._release.mechanism.rounds}"


def with_gaussian(stream: Stream, exact: Array, sigma: float) -> Array:
    """Return the exact value plus Gaussian noise."""
    return np.asarray(exact + mechanisms.gaussian(stream, exact.shape, sigma))
