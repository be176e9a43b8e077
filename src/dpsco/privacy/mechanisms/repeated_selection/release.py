"""The record of a repeated selection: the best of a secret number of runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ...._validate import shown
from ....errors import ParameterError
from ...release import Release, store
from .profile import Runs

_MOST_ALTERNATIVES = 200


@dataclass(frozen=True)
class RepeatedSelectionRelease(Release):
    """The run with the best score among K runs, K drawn from ``runs`` and kept secret.

    Every run draws one of the ``alternatives`` uniformly at random, independently of the rows, and
    executes exactly its releases; its score is computed from what they let out. Nothing of the
    other runs leaves, nor how many there were. The rows keep their places in all runs.
    """

    kind: ClassVar[str] = "repeated_selection"
    theorem: ClassVar[str] = (
        "the best of a random number of runs: dpsco's own bound from one run's privacy profile "
        "(proved in dpsco.privacy.mechanisms.repeated_selection.profile), or Papernot, Steinke "
        "2022, Lemma 7, where that is smaller or other Renyi bounds are added to it"
    )
    alternatives: tuple[tuple[Release, ...], ...]
    runs: Runs

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.runs, Runs):
            raise ParameterError(
                "a repeated selection needs the law of its number of runs, for example "
                f"Runs.named('geometric', 10.0); got {shown(self.runs)}."
            )
        store(self, "alternatives", tuple(tuple(each) for each in self.alternatives))
        if not 1 <= len(self.alternatives) <= _MOST_ALTERNATIVES or not all(self.alternatives):
            raise ParameterError(
                f"a repeated selection needs 1 to {_MOST_ALTERNATIVES} alternatives of one or more "
                f"releases each, got {len(self.alternatives)}."
            )
        for inner in self.inner():
            if not isinstance(inner, Release) or isinstance(inner, RepeatedSelectionRelease):
                raise ParameterError(
                    "the alternatives of a repeated selection are plain releases, got "
                    f"{shown(inner)}. Put all candidates into one selection."
                )
            if inner.rows[0] < self.rows[0] or inner.rows[1] > self.rows[1]:
                raise ParameterError(
                    f"an alternative touches rows {inner.rows}, outside of the selection's "
                    f"{self.rows}. Widen the selection's rows."
                )

    def inner(self) -> Iterator[Release]:
        """Yield every release that some run may execute."""
        for alternative in self.alternatives:
            yield from alternative
