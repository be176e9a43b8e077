"""The best of a secret number of runs: the record, and its cost from what one run costs any row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...._validate import reason, shown, store
from ....errors import ParameterError
from ...accounting import gaussian, pld, renyi
from ...accounting.composition import RowCost, cost
from ...accounting.privacy_loss import PrivacyLoss, Profile, pure_loss
from ...budget import Adjacency
from ...release import Release, register
from .profile import Base, Runs, Selected

_MOST_ALTERNATIVES = 200
_MOST_SHOWN = 3  # alternatives in a sentence
_RUNS_CAVEAT = (
    "nobody sees how many runs the selection made, nor how long they took, which would tell it"
)


@register
@dataclass(frozen=True)
class RepeatedSelectionRelease(Release):
    """The run with the best score among K runs, K drawn from ``runs`` and kept secret.

    Every run draws one of the ``alternatives`` uniformly at random, independently of the rows, and
    executes exactly its releases; its score is computed from what they let out. Nothing of the
    other runs leaves, nor how many there were. The rows keep their places in all runs.
    """

    kind: ClassVar[str] = "repeated_selection"
    summary: ClassVar[str] = "The best of a secret number of private runs"
    single_stream: ClassVar[bool] = False  # its runs draw from streams of their own
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

    def at_first_row(self) -> Release:
        """Return the record itself: its alternatives keep their places."""
        return self

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return the loss of the best run, from the cost of each alternative."""
        return _privacy_loss(self, adjacency)

    def caveats(self, adjacency: Adjacency) -> tuple[str, ...]:
        """Return those of the runs, and that their number is a secret."""
        notes = [note for release in self.inner() for note in release.caveats(adjacency)]
        return (*dict.fromkeys(notes), _RUNS_CAVEAT)

    def details(self) -> str:
        """Return what the selection chooses from, in words."""
        runs, choices = self.runs, self.alternatives
        listed = [
            "; ".join(release.sentence() for release in each) for each in choices[:_MOST_SHOWN]
        ]
        more = f", and {len(choices) - _MOST_SHOWN} more" if len(choices) > _MOST_SHOWN else ""
        return (
            f"the best of a secret number of runs ({runs.name}, {runs.mean:.6g} in the mean), each "
            f"one of {len(choices)} at random: [" + "] or [".join(listed) + "]" + more
        )

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values, those of the alternatives with their kinds."""
        choices = [[release.to_json() for release in each] for each in self.alternatives]
        return {**super().to_json(), "alternatives": choices}

    @classmethod
    def decode(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the fields, with the runs' law and the alternatives rebuilt."""
        try:
            runs = Runs(**values["runs"])
            choices = [list(map(Release.from_json, each)) for each in values["alternatives"]]
        except TypeError as problem:
            raise ParameterError(f"this is not a repeated selection: {reason(problem)}.") from None
        return {**values, "runs": runs, "alternatives": choices}


@lru_cache(maxsize=64)  # a plan, its ledger and its reader ask for the same
def _privacy_loss(release: RepeatedSelectionRelease, adjacency: Adjacency) -> PrivacyLoss:
    """Return the loss of the best run.

    Which alternative a run takes is drawn without looking at the rows, so that a run's profile and
    Renyi divergences are at most the largest of the alternatives'.
    """
    costs = [cost(each, adjacency=adjacency) for each in dict.fromkeys(release.alternatives)]
    rows, runs = [row for each in costs for row in each.rows], release.runs
    base = _worst(rows)
    best = Selected(base, runs)
    rho = max((math.inf if row.rho is None else row.rho for row in rows), default=math.inf)
    curve = None if base.curve is None else best.curve
    alone = Profile(best.delta)
    if base.pure < math.inf:
        return replace(pure_loss(best.pure), curve=curve, alone=alone)
    shape = math.inf if runs.eta is None else runs.eta
    known = rho if rho < math.inf and shape >= 0.0 else None
    loss = pld.RepeatedLoss(best.points, known, runs.mean, shape)
    return PrivacyLoss(curve=curve, pld=loss, alone=alone)


def _worst(rows: Sequence[RowCost]) -> Base:
    """Return what holds for every row."""
    if all(row.mu is not None for row in rows):
        mu = max(row.mu or 0.0 for row in rows)
        rho = 0.5 * mu * mu * (1 + 2.0**-50)
        return Base(lambda epsilon: gaussian.delta(epsilon, mu), renyi.zcdp(rho))
    curves = [row.curve for row in rows if row.curve is not None]

    def curve(orders: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.max([single(orders) for single in curves], axis=0))

    return Base(
        rows[0].delta,
        curve=curve if len(curves) == len(rows) else None,
        pure=max(row.pure for row in rows),
        others=tuple(row.delta for row in rows[1:]),
    )
