"""Who has answered in a run, kept with its rounds: a worker counts once, also after a crash.

Where every row belongs to one round, a worker counts once in the run. Where every round asks all
rows, it counts once per round, and nothing has to be remembered.

A checkpoint stores vectors of numbers. A name becomes 53 bits of its digest, which a float64 holds
exactly: among a million workers two share them with a probability of 6e-5, and then the second one
is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ..errors import ParameterError
from ..solvers.engine import Engine

Floats = NDArray[np.float64]

_FIELD = "answered"


class AttendedRun(Engine):
    """A run of rounds that remembers the workers of the rounds that are over."""

    _marks: frozenset[float] = frozenset()

    def attended(self, name: str) -> bool:
        """Return whether a worker took part in a round before that was its only one."""
        return _mark(name) in self._marks

    def attend(self, names: Iterable[str]) -> None:
        """Note who takes part in the round that is about to be committed."""
        if self.rounds.single_epoch:
            self._marks = self._marks.union(map(_mark, names))

    def state(self) -> dict[str, Floats]:
        """Return what the next rounds build on, and who has answered: names are public."""
        return {**super().state(), _FIELD: np.array(sorted(self._marks))}

    def resume(
        self,
        round: int,
        state: Mapping[str, Floats],
        secrets: Mapping[str, Floats] = MappingProxyType({}),
    ) -> None:
        """Go on after rounds that another process has committed.

        Raises:
            ParameterError: the state does not say who has answered, or lacks something else.
        """
        if _FIELD not in state:
            raise ParameterError("a state that says which workers have answered was expected.")
        super().resume(round, state, secrets)
        self._marks = frozenset(np.asarray(state[_FIELD]).tolist())


def _mark(name: str) -> float:
    digest = hashlib.blake2b(name.encode(), digest_size=8, person=b"dpsco worker").digest()
    return float(int.from_bytes(digest, "little") >> 11)
