"""Releases that stay open for a while: a sample still to be summed, a stream of prefix sums.

`Ledger` opens them and does not close before they are finished. They draw under its lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _validate
from ..errors import LedgerError, ParameterError
from .lattice import lattice_step, with_gaussian
from .ledger_parts import Unique, floats, prefix_step
from .prefix_encoding import Encoding
from .randomness import Stream
from .releases import PrefixSumRelease

if TYPE_CHECKING:
    from .ledger import Ledger

Array = NDArray[np.float64]
Rows = tuple[int, int]


class SampledSum(Unique):
    """A secret sample whose sum is still to be released. The ``indices`` must stay secret."""

    def __init__(
        self,
        indices: NDArray[np.int64],
        stream: Stream,
        ledger: Ledger,
        *,
        sigma: float,
        bound: float,
    ) -> None:
        self.indices = indices
        self.finished = False
        self._stream, self._ledger = stream, ledger
        self._sigma, self._bound = sigma, bound

    def release(self, total: ArrayLike) -> Array:
        """Return the sum over the sampled rows plus Gaussian noise, once; no rows sum to 0."""
        exact = floats(total)
        with self._ledger._step():
            if self.finished:
                raise LedgerError("a sampled sum was released twice: draw a new sample for each.")
            self.finished = True
            self.indices = self.indices[:0].copy()  # a run may take thousands of samples
            step = lattice_step(self._bound, exact.size)
            return with_gaussian(self._stream.words, exact, self._sigma, step)

    def __repr__(self) -> str:
        return "a sampled sum"


class PrefixSums(Unique):
    """Noisy prefix sums of batch sums. Each row may enter one batch; rounds come in order."""

    def __init__(
        self, release: PrefixSumRelease, dimension: int, stream: Stream, ledger: Ledger
    ) -> None:
        mechanism = release.mechanism
        self._release, self._ledger, self._stream = release, ledger, stream
        self._step = prefix_step(release, dimension)
        self._encoding = Encoding(mechanism, dimension)
        self._noisy: list[Array] = []  # rows that have met their noise, for the decoder to take
        self._decoder = mechanism.start(lambda: self._noisy.pop(0))
        self._prefix = np.zeros(dimension)
        self._next_row = release.rows[0]

    @property
    def finished(self) -> bool:
        """Whether all rounds were run."""
        return self._decoder.position == self._release.mechanism.rounds

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
            return self._advance(exact)

    def _advance(self, exact: Array) -> Array:
        """Let the rows that this batch completes leave, and return the prefix sum they give."""
        self._noisy = [
            with_gaussian(self._stream.words, row, self._release.sigma, self._step)
            for row in self._encoding.rows(np.nan_to_num(exact))  # a sum of bounded rows is finite
        ]
        self._prefix = self._prefix + self._decoder.next()
        return np.array(self._prefix)

    def resume(self, totals: Sequence[ArrayLike], *, row: int, prefix: ArrayLike) -> None:
        """Go on after rounds that this run has committed in another process; nothing leaves.

        The ledger must draw from the randomness of that process, restored: those rounds are done
        again with the same noise, because later ones build on them.

        Args:
            totals: the exact batch sums of the rounds that are over.
            row: where the rows of the next round may begin.
            prefix: the noisy prefix sum that the last of these rounds has released.

        Raises:
            LedgerError: a round was run here already, the numbers do not fit the planned stream, or
                they are not those that ``prefix`` was made of.
        """
        sums, first = [floats(total) for total in totals], _validate.integer("row", row)
        start, stop = self._release.rows
        released = floats(prefix)
        with self._ledger._step():
            shapes = {each.shape for each in (*sums, released)}
            if (
                self._decoder.position
                or len(sums) > self._release.mechanism.rounds
                or not start <= first <= stop
                or shapes != {self._prefix.shape}
            ):
                raise LedgerError(
                    f"{self!r} over rows {(start, stop)} cannot go on at round {len(sums)} and row "
                    f"{first}, from a prefix of shape {released.shape}: it was resumed before, or "
                    "this is another run's state."
                )
            for total in sums:
                self._advance(total)
            if not np.array_equal(self._prefix, released):
                raise LedgerError(
                    "the stored batch sums and the stored noise do not give the prefix sum that "
                    "was released: the state is damaged, or another machine's arithmetic differs."
                )
            self._next_row = first

    def __repr__(self) -> str:
        rounds = self._release.mechanism.rounds
        return f"prefix sums at round {self._decoder.position} of {rounds}"


class PrefixNoise(Unique):
    """The noise of prefix sums, for integer sums that somebody else holds: one vector a round.

    It must be fine against those integers, on which no lattice of its own may leave a pattern: it
    is made of normals in float64, and so has its law up to rounding.
    """

    def __init__(
        self, release: PrefixSumRelease, dimension: int, stream: Stream, ledger: Ledger
    ) -> None:
        self._release, self._ledger = release, ledger
        self._noise = release.mechanism.start(lambda: stream.normals(dimension))

    @property
    def finished(self) -> bool:
        """Whether all rounds were run."""
        return self._noise.position == self._release.mechanism.rounds

    def next(self) -> Array:
        """Return the noise that the next round adds to the sum of all batches so far."""
        with self._ledger._step():
            return np.asarray(self._release.sigma * self._noise.next())

    def __repr__(self) -> str:
        rounds = self._release.mechanism.rounds
        return f"noise of prefix sums at round {self._noise.position} of {rounds}"
