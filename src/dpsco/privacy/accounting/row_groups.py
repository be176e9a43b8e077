"""Which releases touch a row together: found by one sweep over where they begin and end.

A release touches a half-open range of rows. Where some release begins a row is touched by more
than the rows just before it, so only such rows can be the worst; and a set of releases is largest
where the next thing to happen is that one of them ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...errors import AssumptionError

Range = tuple[int, int]

_MOST_MEMBERS = 2_000_000  # of all sets together: about a second


def largest_groups(ranges: Sequence[Range]) -> list[tuple[int, ...]]:
    """Return the sets of releases that touch a row, without those contained in another set.

    >>> largest_groups([(0, 4), (2, 6), (4, 8)])
    [(0, 1), (1, 2)]

    Raises:
        AssumptionError: too many releases overlap to list the sets.
    """
    members = 0
    groups = []
    for _, active, grows in _sweep(ranges):
        if not grows:
            continue
        members += len(active)
        _check_members(members)
        groups.append(tuple(sorted(active)))
    return groups


def heaviest_group(ranges: Sequence[Range], weights: Sequence[float]) -> list[int]:
    """Return the releases that touch the row with the largest sum of weights, rounding aside."""
    squares = np.asarray(weights, dtype=float)
    starts, stops = np.array(ranges).T
    edges = np.unique(starts)
    steps = np.zeros(len(edges) + 1)
    np.add.at(steps, np.searchsorted(edges, starts), squares)
    np.add.at(steps, np.searchsorted(edges, stops), -squares)
    totals = np.cumsum(steps)[:-1]
    # Differences leave rounding behind, so every near-worst row is summed again exactly.
    near = set(edges[totals >= totals.max() * (1 - 1e-9)].tolist())
    best: tuple[float, list[int]] = (-math.inf, [])
    members = 0
    for row, active, _ in _sweep(ranges):
        if row in near:
            members += len(active)
            _check_members(members)
            total = math.fsum(weights[i] for i in active)
            if total > best[0]:
                best = (total, sorted(active))
    return best[1]


def _sweep(ranges: Sequence[Range]) -> Iterator[tuple[int, set[int], bool]]:
    """Yield each row where a release begins, the releases that touch it, and if some end next."""
    by_start = sorted(range(len(ranges)), key=lambda i: ranges[i][0])
    by_stop = sorted(range(len(ranges)), key=lambda i: ranges[i][1])
    active: set[int] = set()
    begun = ended = 0
    while begun < len(by_start):
        row = ranges[by_start[begun]][0]
        while ended < len(by_stop) and ranges[by_stop[ended]][1] <= row:
            active.discard(by_stop[ended])
            ended += 1
        while begun < len(by_start) and ranges[by_start[begun]][0] == row:
            active.add(by_start[begun])
            begun += 1
        next_start = ranges[by_start[begun]][0] if begun < len(by_start) else math.inf
        yield row, active, ranges[by_stop[ended]][1] <= next_start


def _check_members(members: int) -> None:
    if members > _MOST_MEMBERS:
        raise AssumptionError(
            f"so many releases overlap on different rows that their sets have more than "
            f"{_MOST_MEMBERS:,} members in all, the limit. Let them touch the same rows, or fewer."
        )
