"""The least noise of selections on batches, whose rows pay in many rounds or in one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from ...data.vertices import weighted_spread
from ...privacy.accounting.calibration import calibrate
from ...privacy.accounting.composition import cost
from ...privacy.budget import PureDP
from ...privacy.mechanisms import SelectionRelease, selection_scale
from ...privacy.mechanisms.fading_selection import rounding
from ...task import Task
from . import rates


def fading_stages(
    spreads: Sequence[float], sizes: Sequence[int], stages: Sequence[int]
) -> list[tuple[int, list[list[float]]]]:
    """Return, for each pass, its first round and the bounds of its batches in each round."""
    fresh = [weighted_spread(s, 1.0 / size) for s, size in zip(spreads, sizes, strict=True)]
    tables, first = [], 0
    for steps in stages:
        shares = [rates.momentum(t) for t in range(steps)]
        tables.append((first, rates.fading_bounds(fresh[first : first + steps], shares)))
        first += steps
    return tables


def single_scale(task: Task, spread: float, candidates: int) -> float:
    """Return the scale of a selection that is the only one on its rows."""
    return selection_scale(
        task.budget,
        bound=spread,
        candidates=candidates,
        rows=(0, task.n),
        noise="permute_and_flip",
    )


def fading_scales(
    task: Task,
    spreads: Sequence[float],
    sizes: Sequence[int],
    stages: Sequence[int],
    candidates: int,
    noise: str,
) -> tuple[float, ...]:
    """Return the scales of all rounds: in each pass the least that the budget allows its rows."""
    scales: list[float] = []
    for _, table in fading_stages(spreads, sizes, stages):
        shapes = rates.scale_shapes(table)
        shape = min(shapes, key=lambda each: _mean_noise(table, each))
        scales += _scaled(task, table, shape, candidates, noise)
    return tuple(scales)


def _mean_noise(table: list[list[float]], shape: list[float]) -> float:
    """Return the mean scale of a shape, by zCDP and up to a factor."""
    return math.fsum(shape) * math.sqrt(rates.paid_by_batch(table, shape, 2.0).max())


def _scaled(
    task: Task, table: list[list[float]], shape: list[float], candidates: int, noise: str
) -> list[float]:
    """Return scales of a shape at which the row that pays most is just within the budget.

    Which batch that is depends on the notion of privacy: it is looked for at the scale that the
    one of the largest sum asks for, until no other batch pays more than the budget.
    """
    rounds, budget, moved = len(table), task.budget, rounding(task.n, len(table))

    def on_batch(k: int, scale: float) -> list[SelectionRelease]:
        bounds = [table[t][k] + moved * max(table[t]) for t in range(k, rounds)]
        scales = [scale * shape[t] for t in range(k, rounds)]
        rows = (0, task.n)
        return [
            SelectionRelease(bound, size, candidates, noise, rows=rows)
            for bound, size in zip(bounds, scales, strict=True)
        ]

    def spent(k: int, scale: float) -> float:
        releases = on_batch(k, scale)
        price = cost(releases, adjacency=budget.adjacency, unit=budget.unit)
        return price.against(budget)[0]

    paid = rates.paid_by_batch(table, shape, 1.0 if isinstance(budget, PureDP) else 2.0)
    near = [int(k) for k in paid.argsort()[::-1] if paid[k] > 0.3 * paid.max()]
    scale, worst, known = 0.0, near[0], set[int]()
    while worst not in known:
        known.add(worst)
        scale = max(scale, calibrate(partial(on_batch, worst), budget))
        worst = max(near, key=lambda k: spent(k, scale))
    return [scale * each for each in shape]
