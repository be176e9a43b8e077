"""From noisy numbers to units: functions of what was released, and of nothing else."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...data.block import Floats
from ...data.histograms import LabelHistogram, NormHistogram
from ...data.moments import ColumnMoments, RowMoments, SquaredLengths
from ...data.units import LARGEST, SMALLEST, Units

QUANTILE = 0.95
"""The part of the rows, or labels, that a length or range shall leave as they are."""

STANDS_OUT = 4.5
"""A bin counts if it exceeds this many standard deviations: 3e-6 of empty ones do."""

COLUMN_QUANTILE = 0.99
"""The part of a column's entries that its range shall hold."""

ALONE_STANDS_OUT = 6.0
"""The same for a bin away from all others, in a column whose rows they account for: 1e-9. A table
of 200 columns has 30,000 bins, and one of noise far above the others spoils its column."""

LEAST_PEAK, LIKELY_STANDS_OUT, NEIGHBOURS_STAND_OUT = 3.2, 2.5, 1.5
"""The largest bin of a column counts above 3.2 deviations, and so does any other while many rows
are not accounted for; where zeros account for the rows, none does. A few likely bins of rows that
are not accounted for do above 2.5, and a bin beside one that counts above 1.5, or above 2.5 once
all rows are accounted for: columns have few gaps, and noise makes no chains."""

FARTHEST = 8
"""Octaves above the entries that were seen in which missing rows are likely. A range that holds
more is of no use: what was seen would lie within a spread of 0."""

MANY, SOME, ANY = 0.08, 0.02, 0.005
"""Parts of the rows that are not accounted for beyond noise: if many, any bin may hold them; if
some, a range begins at 0; if any, a second value of a narrow column is looked for."""

COLUMN_CUT = 6.0
"""Entries are cut at so many spreads from their column's centre."""

ROW_CUT, MOST_ROW_CUT = 1.2, 2.0
"""Rows of standardised columns are sqrt(d) long, give or take one spread whatever d is. Longer ones
are shortened to 1.2 sqrt(d), or to up to 2 spreads beyond sqrt(d) where noise is small: a single
column of numbers is not cut at 1.2 spreads then."""

PRIOR_SPREAD, PRIOR_ERROR = 0.45, 0.15
"""What is known of a spread before it is measured, in units of half the range: entries that fill
their octaves evenly have 0.5. The second is the standard deviation of its square."""

LEAST_SPREAD = 0.02
"""In the same units: a constant column is not measured in its own noise."""

_NEGLIGIBLE = 0.125  # of a range

CUT = (0.7, 0.25)
"""Rows are cut at 0.7 + 0.25 log10(z / sqrt(d)) typical lengths: the more noise, the shorter."""

LEAST_CUT, MOST_CUT = 1.0, 1.6
"""Within this range: long rows say little more than others, and cost all the noise."""

_FLOOR = 1e-3  # of the declared length: no row length is found below it
_NOISE = 2.0  # standard deviations of noise that a mean square must exceed, or it counts as that
_HALF_FLOOR = 0.1  # of the mean variance: no column is scaled by less


def length_cut(signal: float, d: int) -> float:
    """Return at how many typical lengths rows are cut.

    >>> [round(length_cut(z, 4), 2) for z in (2.0, 200.0, 2e4, 2e8)]
    [1.0, 1.2, 1.6, 1.6]
    """
    base, slope = CUT
    cut = base + slope * math.log10(max(signal, 1e-300) / math.sqrt(d))
    return min(max(cut, LEAST_CUT), MOST_CUT)


def row_cut(signal: float, d: float) -> float:
    """Return at which length rows of standardised columns are cut.

    >>> [round(row_cut(z, 1), 1) for z in (3.0, 30.0, 1e3)], round(row_cut(1e3, 400), 1)
    ([1.2, 2.0, 3.0], 24.0)
    """
    beyond = math.log10(max(signal, 1e-300) / math.sqrt(d)) - 0.5
    return max(ROW_CUT * math.sqrt(d), math.sqrt(d) + min(beyond, MOST_ROW_CUT))


def row_units(noisy: Floats, sigma: float, query: RowMoments, *, n: int, signal: float) -> Units:
    """Return centre and scale of declared rows from their noisy moments.

    The centre is shrunk towards 0, the declared centre, as James and Stein do: by the part of its
    squared length that noise explains. A typical length is the root of the mean of |x - c|^2.

    Args:
        noisy: the sums, with noise.
        sigma: standard deviation of the noise.
        query: that was summed.
        n: rows.
        signal: z of `dpsco.models.unit_rules`.
    """
    d, norm = query.d, query.feature_norm
    means, error = noisy / n, sigma / n  # in units of the declared length
    length = float(means[:d] @ means[:d])
    shrink = max(0.0, 1.0 - d * error**2 / length) if length > 0.0 else 0.0
    centre = shrink * means[:d]
    squares = means[d:] / query.weight  # of the whole row, or of each column
    least = max(_NOISE * error / query.weight, _FLOOR**2)
    cut = length_cut(signal, d)
    if not query.columns:
        typical = max(float(squares[0]) - float(centre @ centre), least)
        farthest = 1.0 + math.sqrt(float(centre @ centre))  # no row lies beyond: it was shortened
        scale = np.array([min(cut * math.sqrt(typical), farthest)])
    else:
        ratios, typical = half_powers(squares - centre**2, error / query.weight, least)
        scale = cut * math.sqrt(typical) * ratios
    return Units(
        np.clip(norm * scale, SMALLEST, LARGEST), centre=np.clip(norm * centre, -LARGEST, LARGEST)
    )


def half_powers(variances: Floats, error: float, least: float) -> tuple[Floats, float]:
    """Return by what columns are divided, and the mean square of rows that were.

    Variances are shrunk towards their mean by the part of their differences that noise explains.

    Args:
        variances: of columns, with noise.
        error: standard deviation of that noise.
        least: below which no mean square lies.
    """
    d = len(variances)
    mean = max(float(variances.sum()), least) / d
    spread = float(np.mean((variances - mean) ** 2))
    part = max(0.0, 1.0 - error**2 / spread) if spread > 0.0 else 0.0
    shrunk = np.maximum(mean + part * (variances - mean), _HALF_FLOOR * mean)
    ratios = (shrunk / mean) ** 0.25
    return ratios, float(np.sum(shrunk / ratios**2))


def sparse_row_units(
    noisy: Floats, sigma: float, query: SquaredLengths, *, n: int, signal: float
) -> Units:
    """Return the scale of declared sparse rows from their noisy mean square; see `row_units`.

    Never more than the declared length: rows that all have it (text, by its usual scaling) keep it.
    """
    mean, error = float(noisy[0]) / n, sigma / n
    typical = max(mean, _NOISE * error, _FLOOR**2)
    length = min(length_cut(signal, 1) * math.sqrt(typical), 1.0)
    return Units(np.clip(np.array([query.feature_norm * length]), SMALLEST, LARGEST))


# -- histograms ------------------------------------------------------------------------------------


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


def label_ends(
    counts: ArrayLike, sigma: float, n: int, quantile: float = QUANTILE
) -> tuple[float, float]:
    """Return the range of labels from the noisy counts of a `LabelHistogram`: that of a column.

    Where nothing but zeros, or nothing at all, stands out, it is that of the largest bins.
    At either end half of what may lie outside does. An end within an eighth of the other one is
    moved to 0: the bins around 0 are narrow, so that few labels lie in each, and a range that
    leaves them out would hardly be smaller.
    """
    noisy, edges = np.asarray(counts, dtype=float), LabelHistogram().edges
    ends = _column_range(noisy, sigma, n)
    if ends is not None:
        return ends
    side = 0.5 + 0.5 * quantile
    last = choose(noisy, sigma, side)
    first = min(len(noisy) - 1 - choose(noisy[::-1], sigma, side), last)
    low, high = float(edges[first]), float(edges[last + 1])
    if abs(low) <= _NEGLIGIBLE * high:
        low = 0.0
    elif abs(high) <= -_NEGLIGIBLE * low:
        high = 0.0
    return low, high


class Ranges(NamedTuple):
    """Where the columns of a table lie."""

    low: Floats
    high: Floats
    rare: NDArray[np.bool_]  # columns in which nothing but zeros stands out: their range is a guess
    hidden: float = 1.0  # the part of the rows that a rare column can hold at most

    def units(self) -> Units:
        """Return units in which entries within their range are at most 1."""
        centre, half = 0.5 * self.low + 0.5 * self.high, 0.5 * self.high - 0.5 * self.low
        return Units(np.clip(half, SMALLEST, LARGEST), centre, cut=1.0)


def column_ranges(counts: Floats, sigma: float, n: int, *, sparse: bool = False) -> Ranges:
    """Return the range of each column from the noisy counts of a `ColumnHistogram`.

    A column whose entries other than 0 do not stand out has the typical range of the others:
    entries of another size are cut there, or vanish.

    Args:
        counts: one row of bins for each column.
        sigma: standard deviation of their noise.
        n: rows.
        sparse: whether zeros were not counted, and a range is symmetric.
    """
    ends = [_column_range(column, sigma, n, sparse=sparse) for column in counts]
    rare = np.array([end is None for end in ends])
    widths = [max(abs(end[0]), abs(end[1])) for end in ends if end is not None]
    typical = float(np.exp2(np.round(np.log2(np.median(widths))))) if widths else 1.0
    pairs = np.array([(-typical, typical) if end is None else end for end in ends])
    return Ranges(pairs[:, 0], pairs[:, 1], rare, min(1.0, STANDS_OUT * sigma / n))


def _column_range(
    counts: Floats, sigma: float, n: int, *, sparse: bool = False
) -> tuple[float, float] | None:
    """Return the range of one column; None if no entries but zeros stand out."""
    middle = len(counts) // 2
    bins, hidden = _visible(counts, sigma, None if sparse else n)
    outer = bins[bins != middle]
    if not len(outer):
        return None
    edges = LabelHistogram().edges
    held = np.zeros(len(counts))
    held[bins] = np.maximum(counts[bins], 0.0)
    share = 0.5 * (1.0 - COLUMN_QUANTILE) * held.sum()
    inside = (np.cumsum(held) > share) & (np.cumsum(held[::-1])[::-1] > share)
    places = np.flatnonzero(inside & (held > 0.0))
    if not np.any(places != middle):
        places = outer
    low, high = float(edges[places[0]]), float(edges[places[-1] + 1])
    if sparse:
        high = max(abs(low), abs(high))
        return -high, high
    # Rows that do not stand out are likelier smaller than the others than larger, or of other sign.
    least = 1.0 if hidden else _NEGLIGIBLE
    if 0.0 < low <= least * high or -_NEGLIGIBLE * high <= low < 0.0 < high:
        low = 0.0
    elif least * low <= high < 0.0 or low < 0.0 < high <= -_NEGLIGIBLE * low:
        high = 0.0
    return low, high


def _visible(counts: Floats, sigma: float, n: int | None) -> tuple[NDArray[np.int64], bool]:
    """Return which bins hold rows, in rising order, and whether many rows are elsewhere.

    The number of rows is public, so bins are taken one after the other, those that stand out most
    first, until the rest is no more than noise. Entries of both signs and one size may count
    together. A bin beside one that was taken needs little evidence: columns have few gaps. Of
    sparse columns nobody knows how many entries there are (``n`` is None): no rows are missed.
    """
    size, middle = len(counts), len(counts) // 2
    taken, outer = np.zeros(size, dtype=bool), np.arange(size) != middle
    single = counts / sigma
    double = np.where(outer, counts + counts[::-1], -np.inf) / (math.sqrt(2.0) * sigma)
    while True:
        rest = 0.0 if n is None else n - float(counts[taken].sum())
        noise = 2.0 * sigma * math.sqrt(max(1, int(np.count_nonzero(taken))))
        beside = np.zeros(size, dtype=bool)
        beside[1:] |= (taken & outer)[:-1]
        beside[:-1] |= (taken & outer)[1:]
        hiding = n is not None and (not taken.any() or rest > MANY * n + 0.5 * noise)
        missing = n is not None and rest > ANY * n + noise
        alone = ALONE_STANDS_OUT if (taken & outer).any() and not missing else STANDS_OUT
        neighbour = LIKELY_STANDS_OUT if n is not None and rest < 0.0 else NEIGHBOURS_STAND_OUT
        least = np.full(size, LEAST_PEAK if hiding and not (taken & outer).any() else alone)
        if missing:
            least[_likely(taken)] = LIKELY_STANDS_OUT
        if hiding and (taken & outer).any():
            top = int(np.abs(np.flatnonzero(taken) - middle).max())
            within = slice(max(0, middle - top - FARTHEST), middle + top + FARTHEST + 1)
            least[within] = np.minimum(least[within], LEAST_PEAK)
            # of the other sign, and about as large
            for place in (middle - top, middle + top):
                least[max(0, place - 2) : place + 3] = LIKELY_STANDS_OUT
        both = np.where(beside & beside[::-1], neighbour, least)
        least[beside] = neighbour
        singles = np.where(taken, -np.inf, single - least)
        doubles = np.where(taken | taken[::-1], -np.inf, double - both)
        place = int(np.argmax(np.maximum(singles, doubles)))
        if not max(singles[place], doubles[place]) > 0.0:
            return np.flatnonzero(taken), n is not None and rest > SOME * n + noise
        taken[place] = True
        if doubles[place] > singles[place]:
            taken[size - 1 - place] = True


def _likely(taken: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where rows may hide that a narrow column does not show: a rare second value.

    A column within two octaves of one sign is one of numbers far from 0, or of two values of which
    one is rare. The other value is then not many octaves away.
    """
    middle, bins = len(taken) // 2, np.flatnonzero(taken)
    result = np.zeros(len(taken), dtype=bool)
    if not len(bins) or bins[-1] - bins[0] > 1 or (bins[0] - middle) * (bins[-1] - middle) <= 0:
        return result
    size = abs(int(bins[0]) - middle)
    result[max(0, middle - size - 6) : middle - size + 4] = True
    result[middle + size - 3 : middle + size + 7] = True
    result[middle] = True
    return result


def column_units(
    noisy: Floats, sigma: float, query: ColumnMoments, ranges: Ranges, *, n: int, signal: float
) -> Units:
    """Return centre and scale of columns from noisy moments of entries within their ranges.

    A spread is that of the noisy moments where these are exact, and a typical one of its range
    where they drown. In these units rows of d columns are at most 1 long.
    """
    d, error = query.d, sigma / n  # in units of half the range
    mean, square = np.clip(noisy[:d] / n, -1.0, 1.0), noisy[d:] / (n * query.weight)
    noise = (error / query.weight) ** 2 + (2.0 * mean * error) ** 2
    prior = PRIOR_SPREAD**2
    part = PRIOR_ERROR**2 / (PRIOR_ERROR**2 + noise)
    variance = part * (square - mean**2) + (1.0 - part) * prior
    # Too small a spread does more harm than too large a one: entries beyond the cut would be
    # predicted from weights that never saw their size.
    variance += np.sqrt(noise * part)
    spread = np.sqrt(np.clip(variance, LEAST_SPREAD**2, 1.0))
    centre, half = 0.5 * (ranges.low + ranges.high), 0.5 * (ranges.high - ranges.low)
    spread[ranges.rare] = 1.0
    mean[ranges.rare] = 0.0
    # Of rare columns few entries of a row are not 0, so they hardly make it longer.
    count = np.count_nonzero(ranges.rare)
    length = row_cut(signal, max(1.0, d - count * (1.0 - ranges.hidden)))
    scale = np.clip(half * spread * length, SMALLEST, LARGEST)
    return Units(scale, centre + half * mean, cut=COLUMN_CUT / length)
