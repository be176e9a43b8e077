"""From noisy counts to bounds: functions of what was released, and of nothing else."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from ...data.bounds import Bounds
from ...data.counts import RowCount
from ...data.histograms import LabelHistogram, NormHistogram
from ...data.labels import Scaled
from ...data.units import in_units

QUANTILE = 0.95
"""The part of the rows that the bounds shall leave as they are, by default."""
STANDS_OUT = 4.5
"""A bin counts if it exceeds this many standard deviations: 3e-6 of empty ones do."""

_NEGLIGIBLE = 0.125  # of a range


@dataclass(frozen=True)
class Scales:
    """What the histograms said: rows are divided by ``feature``, labels lie within ``label``.

    The numbers come from noisy counts, so they are as public as the fit itself.
    """

    feature: float = 1.0  # a power of two
    label: tuple[float, float] | None = None  # None: as declared
    # How many rows there were, from the same noisy counts; None where their noise is too large.
    counted: RowCount | None = field(default=None, compare=False)

    def bounds(self, unit: Bounds) -> Bounds:
        """Return the bounds of raw rows that become rows within ``unit``, the plan's bounds.

        A model with weights w for divided rows has weights w / feature for raw ones.
        """
        bounds = in_units(unit, self.feature)
        if self.label is None:
            return bounds
        rule = unit.label
        centred = rule.centred if isinstance(rule, Scaled) else unit.intercept is not None
        return dataclasses.replace(bounds, label=Scaled(*self.label, centred=centred))


def choose(counts: ArrayLike, sigma: float, quantile: float = QUANTILE) -> int:
    """Return the bin below whose upper edge lies the part ``quantile`` of all that is counted.

    Bins within `STANDS_OUT` standard deviations of 0 count as empty: with 40 of them above the rows
    their noise would sum to more than a small table. If none stands out, the largest is taken.

    Args:
        counts: noisy, in rising order of the bins.
        sigma: standard deviation of their noise.
        quantile: above 0.5.

    >>> choose([2.0, 700.0, 280.0, 20.0, -3.0], 1.0, 0.97)
    2
    """
    noisy = np.asarray(counts, dtype=float)
    seen = np.where(noisy > STANDS_OUT * sigma, noisy, 0.0)
    if not np.any(seen):
        return int(np.argmax(noisy))
    above = np.cumsum(seen[::-1])[::-1]  # in this bin or above it
    return int(np.flatnonzero(above > (1.0 - quantile) * above[0])[-1])


def row_unit(counts: ArrayLike, sigma: float, quantile: float = QUANTILE) -> float:
    """Return the unit of rows from the noisy counts of a `NormHistogram`.

    Rows of length 0, which lie in the first bin, say nothing about a unit unless there are no
    others.
    """
    noisy = np.array(counts, dtype=float)
    if np.any(noisy[1:] > STANDS_OUT * sigma):
        noisy[0] = 0.0
    return float(NormHistogram().edges[choose(noisy, sigma, quantile)])


def label_ends(counts: ArrayLike, sigma: float, quantile: float = QUANTILE) -> tuple[float, float]:
    """Return the range of labels from the noisy counts of a `LabelHistogram`.

    At either end half of what may lie outside does. An end within an eighth of the other one is
    moved to 0: the bins around 0 are narrow, so that few labels lie in each, and a range that
    leaves them out would hardly be smaller.
    """
    noisy, edges = np.asarray(counts, dtype=float), LabelHistogram().edges
    side = 0.5 + 0.5 * quantile
    last = choose(noisy, sigma, side)
    first = len(noisy) - 1 - choose(noisy[::-1], sigma, side)
    low, high = float(edges[first]), float(edges[last + 1])
    if abs(low) <= _NEGLIGIBLE * high:
        low = 0.0
    elif abs(high) <= -_NEGLIGIBLE * low:
        high = 0.0
    return low, high
