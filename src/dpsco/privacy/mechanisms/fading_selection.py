"""A selection whose rows have different bounds: the influence of older rows has faded.

A recursive gradient method scores its candidates on a running mean ``total_t = keep_t total_{t-1} +
weight_t sum(new rows)``. A row of batch k enters once; in round t it counts

    P_{k,t} weight_k spread_k,   P_{k,t} = keep_{k+1} ... keep_t,

so its share of the cost shrinks from round to round. One record says what one round costs each of
its batches, and the accountant composes, for each batch, what all rounds cost it. Charging every
row the newest row's bound would ask for about 2.5 times the noise.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ... import _validate
from ..._validate import store
from ...errors import ParameterError
from ...kernels.pairwise import rounding_slack
from ..accounting.privacy_loss import PrivacyLoss
from ..accounting.sensitivity import refuse_add_remove
from ..budget import Adjacency
from ..randomness import Stream
from ..release import Release, register
from .selection import SELECTION_NOISES, SelectionRelease, noisy_argmin

__all__ = ["FadingSelectionRelease"]

_ROUNDINGS = 64.0  # units in the last place that scoring adds, and two for each time a sum fades


@register
@dataclass(frozen=True)
class FadingSelectionRelease(Release):
    """The index of the smallest of ``candidates`` noisy scores, each a weighted sum over ``rows``.

    ``stops`` say where the parts of the rows end, oldest first; ``bounds`` are the spreads, max -
    min over the candidates, of the scores that one row of each part contributes with its weight. A
    part's bound may be 0: such rows have no influence any more. Otherwise as `SelectionRelease`.
    """

    kind: ClassVar[str] = "fading_selection"
    summary: ClassVar[str] = (
        "The best of several public candidates, on scores in which older rows count less"
    )
    bounds: tuple[float, ...]
    stops: tuple[int, ...]
    scale: float
    candidates: int
    noise: str = "gumbel"

    def __post_init__(self) -> None:
        super().__post_init__()
        store(self, "candidates", _validate.integer("candidates", self.candidates))
        _validate.choice("noise", self.noise, SELECTION_NOISES)
        bounds, stops = _listed("bounds", self.bounds), _listed("stops", self.stops)
        store(self, "bounds", tuple(_validate.non_negative("bounds", each) for each in bounds))
        store(self, "stops", tuple(_validate.integer("stops", each) for each in stops))
        edges = (self.rows[0], *self.stops)
        ascending = all(start < stop for start, stop in itertools.pairwise(edges))
        if len(bounds) != len(stops) or not ascending or edges[-1] != self.rows[1]:
            raise ParameterError(
                "stops must rise to the end of the rows, and each part needs one bound; got "
                f"{len(stops)} stops and {len(bounds)} bounds for the rows {self.rows}.",
                parameter="stops",
            )
        if not self.largest > 0.0:
            raise ParameterError("bounds must not all be zero.", parameter="bounds")

    @property
    def largest(self) -> float:
        """The largest bound of all parts."""
        return max(self.bounds)

    @property
    def new_rows(self) -> tuple[int, int]:
        """The newest part: the rows that a round reads."""
        return (self.rows[0], *self.stops)[-2], self.rows[1]

    def bound_of(self, row: int) -> float:
        """Return the bound of one of its rows."""
        return self.bounds[int(np.searchsorted(self.stops, row, side="right"))]

    def at_first_row(self) -> FadingSelectionRelease:
        """Return a record with rows from 0 on, which costs each of its rows the same."""
        first = self.rows[0]
        if not first:
            return self
        stops = tuple(stop - first for stop in self.stops)
        return dataclasses.replace(self, rows=(0, self.row_count), stops=stops)

    def pieces(self) -> Iterator[SelectionRelease]:
        """Yield one selection for each part, which costs its rows what this release costs them.

        Rounding moves the scores by as much as all rows together let it, whichever row is replaced:
        that is added to the bound of every part.
        """
        moved = rounding(self.row_count, len(self.bounds))
        starts = (self.rows[0], *self.stops[:-1])
        for bound, start, stop in zip(self.bounds, starts, self.stops, strict=True):
            yield SelectionRelease(
                bound + moved * self.largest,
                self.scale,
                self.candidates,
                self.noise,
                rows=(start, stop),
                count=self.count,
            )

    def privacy_loss(self, adjacency: Adjacency) -> PrivacyLoss:
        """Return what one execution costs the rows of the largest bound; `pieces` says the rest."""
        refuse_add_remove(self, adjacency)
        worst = max(self.pieces(), key=lambda piece: piece.bound)
        return worst.once().privacy_loss(adjacency)

    def draw_index(self, stream: Stream, scores: NDArray[np.float64]) -> int:
        """Return the index of the noisily smallest score."""
        return noisy_argmin(stream.words, scores, self.scale, self.noise)

    def details(self) -> str:
        """Return the fields in words: of many parts the newest and the oldest."""
        first, last = self.bounds[-1], self.bounds[0]
        return (
            f"bound {first:.6g} for new rows, fading to {last:.6g} over {len(self.bounds)} parts, "
            f"scale {self.scale:.6g}, candidates {self.candidates}, noise {self.noise}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return {**super().to_json(), "bounds": list(self.bounds), "stops": list(self.stops)}


def rounding(rows: int, parts: int) -> float:
    """Return by how much rounding may move the scores of so many rows, in units of their bound."""
    return rounding_slack(rows) + 2.0**-52 * rows * (2.0 * parts + _ROUNDINGS)


def _listed(name: str, values: Any) -> tuple[Any, ...]:
    """Return a list of numbers as a tuple; refuse what is none, and an empty one."""
    if not isinstance(values, (list, tuple)) or not values:
        raise _validate.refusal(name, f"must list one or more numbers, got {values!r}.")
    return tuple(values)
