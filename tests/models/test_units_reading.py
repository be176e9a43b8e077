"""Units from noisy numbers: none longer than a row can be, none that noise alone suggests."""

import math

import numpy as np
import pytest

from dpsco.data.histograms import LabelHistogram
from dpsco.data.moments import ColumnMoments, RowMoments, SquaredLengths
from dpsco.models.units.reading import (
    Ranges,
    column_ranges,
    column_units,
    length_cut,
    row_cut,
    row_units,
    sparse_row_units,
)

N, CLEAR = 1000, 1e6  # rows, and a z at which they are cut at 1.6 typical lengths


@pytest.mark.parametrize(("typical", "unit"), [(0.1, 0.16), (0.5, 0.8), (0.7, 1.0), (1.0, 1.0)])
def test_sparse_rows_of_the_declared_length_keep_it(typical, unit):
    """1.6 typical lengths, but 1 where rows are longer than 1/1.6."""
    noisy = np.array([N * typical**2])
    units = sparse_row_units(noisy, 1e-9, SquaredLengths(5, 3.0), n=N, signal=CLEAR)
    assert units.scale == pytest.approx([3.0 * unit])
    assert units.centre is None
    assert length_cut(CLEAR, 1) == 1.6


@pytest.mark.parametrize("shift", [0.01, 0.1, 0.9])
def test_rows_of_one_length_are_measured_in_the_longest_that_is_possible(shift):
    """Rows of length 1 about a centre of length c: at most 1 + c, or 1.6 sqrt(1 - c^2)."""
    query = RowMoments(2, 3.0, 1.0)
    noisy = N * np.array([shift, 0.0, 1.0])
    units = row_units(noisy, 1e-9, query, n=N, signal=CLEAR)
    longest = min(1.6 * math.sqrt(1 - shift**2), 1 + shift)
    assert units.scale == pytest.approx([3.0 * longest])
    assert units.centre == pytest.approx([3.0 * shift, 0.0])


def test_zeros_that_account_for_all_rows_leave_nothing_to_look_for():
    """Noise alone must give no range: less than one column in a hundred, of 1,000."""
    rng = np.random.default_rng(0)
    bins, n, sigma = len(LabelHistogram().edges) - 1, 20_000, 333.0
    counts = sigma * rng.standard_normal((1000, bins))
    dense = counts.copy()
    dense[:, bins // 2] += n
    assert column_ranges(dense, sigma, n).rare.mean() > 0.99
    assert column_ranges(counts, sigma, n, sparse=True).rare.mean() > 0.99
    seen = dense.copy()
    seen[:, bins // 2 + 41] += 0.1 * n  # a tenth of the rows in one bin: 6 deviations
    assert column_ranges(seen, sigma, n).rare.mean() < 0.1


def test_rare_columns_hardly_make_rows_longer():
    query = ColumnMoments(100, 1.0)
    ends = np.ones(100)
    noisy = np.zeros(query.size)
    scales = {}
    for hidden in (0.04, 1.0):
        ranges = Ranges(-ends, ends, np.ones(100, dtype=bool), hidden)
        units = column_units(noisy, 1.0, query, ranges, n=10_000, signal=300.0)
        scales[hidden] = float(units.scale[0])
    assert scales[0.04] == pytest.approx(row_cut(300.0, 4))
    assert scales[1.0] == pytest.approx(row_cut(300.0, 100))


@pytest.mark.parametrize("sigma", [27.0, 80.0])
@pytest.mark.parametrize("shape", ["normal", "far", "heavy"])
def test_bins_of_noise_far_above_a_column_do_not_widen_its_range(sigma, shape):
    """Among 161 bins one of noise may spoil a column in 1 of 1,000 tables, no more."""
    rng, n, tables = np.random.default_rng(12), 6000, 2000
    normal = rng.normal(size=n)
    entries = {"normal": normal, "far": 20.0 + normal, "heavy": np.exp(2.0 * normal)}[shape]
    bins = LabelHistogram().edges
    counts = np.histogram(entries, bins=bins)[0] + sigma * rng.normal(size=(tables, len(bins) - 1))
    ranges = column_ranges(counts, sigma, n)
    widest = 2.0**14  # the largest entries lie below 2^11
    assert not ranges.rare.any()
    assert np.count_nonzero(ranges.high - ranges.low > widest) <= 2


def test_a_far_bin_that_stands_out_widens_a_range():
    entries = np.random.default_rng(13).normal(size=6000)
    entries[:300] = 1e6  # eleven deviations of noise
    bins = LabelHistogram().edges
    noise = 27.0 * np.random.default_rng(14).normal(size=(200, len(bins) - 1))
    ranges = column_ranges(np.histogram(entries, bins=bins)[0] + noise, 27.0, 6000)
    assert np.all(ranges.high > 1e6)
