"""Prefix sums while they are open: batch sums go in, noisy prefix sums come out, round by round.

The ledger opens them and does not close before all rounds are run. They draw under its lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .... import _validate
from ....errors import LedgerError, ParameterError
from ...randomness import Stream
from ...release import NonCopyable, floats
from .encoding import Encoding
from .release import PrefixSumRelease

if TYPE_CHECKING:
    from ...ledger import Ledger

Array = NDArray[np.float64]
Rows = tuple[int, int]


class PrefixSums(NonCopyable):
    """Noisy prefix sums of batch sums. Each row may enter one batch; rounds come in order."""

    def __init__(
        self, release: PrefixSumRelease, dimension: int, stream: Stream, ledger: Ledger
    ) -> None:
        mechanism = release.mechanism
        self._release, self._ledger, self._stream = release, ledger, stream
        self._step = release.step(dimension)
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
        limit = 2.0**40 * self._release.row_count * self._release.bound  # far beyond any sum
        finite = np.clip(np.nan_to_num(exact), -limit, limit)
        self._noisy = [
            self._release.draw_noisy(self._stream, row, self._step)
            for row in self._encoding.rows(self._decoder.position, finite)
        ]
        self._prefix = self._prefix + self._decoder.next()
        return np.array(self._prefix)

    def changed(self) -> dict[str, Array]:
        """Return what the last round has changed of all that later ones build on, by name.

        Some of it are exact sums: as secret as the rows.
        """
        memory = {"exact": self._encoding.memory, "noisy": self._decoder.memory}
        rows = self._release.mechanism.changed_rows(self._decoder.position - 1)
        vectors = {f"{part} {k}": np.array(memory[part][k]) for part in memory for k in rows}
        return {**vectors, "drawn": np.array([float(self._decoder.drawn)])}

    def resume(
        self, rounds: int, changed: Mapping[str, ArrayLike], *, row: int, prefix: ArrayLike
    ) -> None:
        """Go on after rounds that this run has committed in another process; nothing leaves.

        The ledger must draw from the randomness of that process, restored: the noise of those
        rounds is drawn again, and dropped.

        Args:
            rounds: how many rounds are over.
            changed: what `changed` returned after each of them, later values in place of earlier.
            row: where the rows of the next round may begin.
            prefix: the noisy prefix sum that the last of these rounds has released.

        Raises:
            LedgerError: a round was run here already, or the numbers do not fit the planned stream.
        """
        count, first = _validate.integer("rounds", rounds), _validate.integer("row", row)
        start, stop = self._release.rows
        released, mechanism = floats(prefix), self._release.mechanism
        with self._ledger._step():
            due = {
                k for t in range(min(count, mechanism.rounds)) for k in mechanism.changed_rows(t)
            }
            state = {name: floats(value) for name, value in changed.items()}
            names = {f"{part} {k}" for part in ("exact", "noisy") for k in due} | {"drawn"}
            shapes = {state[name].shape for name in names & set(state) - {"drawn"}}
            if (
                self._decoder.position
                or count > mechanism.rounds
                or not start <= first <= stop
                or names != set(state)
                or shapes | {released.shape} != {self._prefix.shape}
                or not 0 <= state["drawn"].sum() <= mechanism.draws()
            ):
                raise LedgerError(
                    f"{self!r} over rows {(start, stop)} cannot go on at round {count} and row "
                    f"{first}, from a prefix of shape {released.shape}: it was resumed before, or "
                    "this is another run's state."
                )
            self._restore(count, due, state)
            self._next_row, self._prefix = first, released.copy()

    def _restore(self, rounds: int, due: set[int], state: Mapping[str, Array]) -> None:
        """Put the vectors that are held in their places, and use up the noise of the rounds."""
        noisy = np.zeros_like(self._encoding.memory)
        for k in due:
            self._encoding.memory[k] = state[f"exact {k}"]
            noisy[k] = state[f"noisy {k}"]
        drawn, nothing = int(state["drawn"].sum()), np.zeros(len(self._prefix))
        for _ in range(drawn):
            self._release.draw_noisy(self._stream, nothing, self._step)
        self._decoder.restore(rounds, drawn, noisy)

    def __repr__(self) -> str:
        rounds = self._release.mechanism.rounds
        return f"prefix sums at round {self._decoder.position} of {rounds}"


class PrefixNoise(NonCopyable):
    """The noise of prefix sums, for integer sums that somebody else holds: one vector per round.

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
