"""Clips that are found: known probabilities, privacy of small tables by enumeration, the law."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpsco.errors import BudgetError, LedgerError, ParameterError
from dpsco.privacy.accounting import renyi
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.budget import Adjacency, ApproxDP, PureDP
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.mechanisms import ClipQuantileRelease, SelectionRelease
from dpsco.privacy.mechanisms.clip_quantile import clip_grid, least_rows
from dpsco.privacy.randomness import Randomness

FALSE_ALARM = 1e-6
ROWS = (0, 5)
KNOWN = ClipQuantileRelease(2.0, 4, 6, 0.25, 1, rows=ROWS)  # epsilon 1, level 0.8
NORMS = (0.3, 0.9, 1.7, 3.0, 6.0)
PROBABILITIES = (0.59335227, 0.24456813, 0.10080617, 0.04155032, 0.01712622, 0.00259689)


def counts(release, norms):
    """How many norms lie in each cell; None is a null row."""
    cells = np.searchsorted(release.grid, [v for v in norms if v is not None], side="left")
    return np.bincount(cells, minlength=release.candidates + 1)[: release.candidates].astype(float)


def law(release, norms):
    """The exact probability of every clip."""
    logs = -release.scores(counts(release, norms)) / release.scale
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def test_known_probabilities():
    np.testing.assert_allclose(law(KNOWN, NORMS), PROBABILITIES, atol=2e-6)


def test_the_grid_of_the_specification():
    assert len(clip_grid(1e-3, 4, 120)) == 120
    assert clip_grid(1e-3, 4, 120)[-1] < 1e6 < clip_grid(1e-3, 4, 121)[-1]
    wide = ClipQuantileRelease(2.0, 4, 641, rows=ROWS).grid
    assert (wide[0], wide[-1]) == (2.0**-80, 2.0**80)
    assert np.all(np.diff(wide) > 0)
    assert set(wide[::4]) == {2.0**k for k in range(-80, 81)}


# -- privacy, enumerated ---------------------------------------------------------------------------
#
# Tables of a few rows whose norms lie in any cell, neighbours under both adjacencies, and the exact
# law of the answer for each. Whatever a release charges must cover the worst of them.


def neighbours(rows, cells, adjacency):
    """Every pair of neighbouring tables of so many rows, one norm a cell."""
    norms = [0.9 * c for c in clip_grid(0.25, 1, cells)] + [math.inf, None]
    for others in itertools.combinations_with_replacement(norms, rows - 1):
        for one, other in itertools.permutations(norms, 2):
            if adjacency is Adjacency.REPLACE_ONE and None not in (one, other):
                yield (*others, one), (*others, other)
            if adjacency is not Adjacency.REPLACE_ONE and one is not None and other is None:
                yield (*others, one), (*others, None)
                yield (*others, None), (*others, one)


def worst(release, rows, adjacency):
    """The largest loss, the largest range and the largest Renyi divergence of order 3."""
    loss = spread = divergence = 0.0
    for one, other in neighbours(rows, release.candidates, adjacency):
        p, q = law(release, one), law(release, other)
        ratios = np.log(p) - np.log(q)
        loss, spread = max(loss, ratios.max()), max(spread, np.ptp(ratios))
        divergence = max(divergence, math.log(np.sum(q * np.exp(3 * ratios))) / 2)
    return loss, spread, divergence


@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT])
@pytest.mark.parametrize("tilt", [0.0, 2.0])
def test_the_charge_covers_all_small_tables(adjacency, tilt):
    release = ClipQuantileRelease(1.0, 2, 4, 0.25, 1, tilt, rows=(0, 4))
    charged = release.privacy_loss(adjacency)
    loss, spread, divergence = worst(release, 4, adjacency)
    assert loss <= spread <= charged.pure
    assert spread >= 0.999 * charged.pure  # the range is attained: no smaller charge is true
    assert divergence <= charged.curve(np.array([3.0]))[0] <= 3 * charged.rho


def test_half_the_charge_under_zero_out_would_be_wrong():
    """The planted bug: a score within a bound of 1, of which an emptied row moves one bound."""
    release = ClipQuantileRelease(1.0, 2, 4, 0.25, 1, 0.0, rows=(0, 4))
    bug = SelectionRelease(1.0, release.scale, release.candidates, rows=release.rows)
    for adjacency in (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT):
        _, spread, divergence = worst(release, 4, adjacency)
        charged = bug.privacy_loss(adjacency)
        caught = adjacency is Adjacency.ZERO_OUT
        assert (spread > 1.01 * charged.pure) == caught
        assert (divergence > charged.curve(np.array([3.0]))[0]) == caught


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_every_adjacency_costs_the_same(adjacency):
    release = ClipQuantileRelease(8.0, 90, 41, rows=(0, 100))
    total = cost(release, adjacency=adjacency)
    assert math.isclose(total.pure_epsilon, 0.25, rel_tol=1e-12)
    assert total.pure_epsilon >= 0.25
    assert math.isclose(total.rho, 0.25**2 / 8, rel_tol=1e-12)
    assert total.epsilon(1e-6) <= 0.25
    at = np.array([2.0, 20.0])
    np.testing.assert_allclose(
        release.privacy_loss(adjacency).curve(at), renyi.bounded_range(0.25)(at), rtol=1e-12
    )


def test_a_budget_of_half_refuses():
    release = ClipQuantileRelease(2.0, 4, 6, rows=ROWS)
    for adjacency in ("zero_out", "replace_one"):
        Ledger(release, PureDP(1.0 + 1e-9, adjacency=adjacency))
        with pytest.raises(BudgetError, match="cost"):
            Ledger(release, PureDP(0.6, adjacency=adjacency))


# -- exactness and the law -------------------------------------------------------------------------


def test_scores_are_exact():
    """Whole counts and offsets in multiples of 2^-20 add without rounding, far into the tails."""
    release = ClipQuantileRelease(1e4 / 3, 2**30, 641, rows=(0, 2**31))
    offsets = release.offsets
    assert np.array_equal(offsets * 2**20, np.rint(offsets * 2**20))
    counted = np.zeros(641)
    counted[0] = 2**31 - 1
    scores = release.scores(counted)
    assert all(
        int(s * 2**20) == abs(2**31 - 1 - 2**30) * 2**20 + int(o * 2**20)
        for s, o in zip(scores, offsets, strict=True)
    )
    exact = release.scale * 2.0 * np.log(release.grid / release.grid[0])
    assert np.max(np.abs(offsets - exact)) < 1e-6 + 1e-12 * exact.max()


def test_scores_of_anything_are_those_of_whole_counts():
    release = ClipQuantileRelease(2.0, 4, 6, rows=ROWS)
    odd = release.scores(np.array([np.nan, -5.0, np.inf, 1.4, 0.0, 1e300]))
    assert np.all(np.isfinite(odd))


def draws(release, norms, count, seed):
    stream = Randomness.seeded(seed).child("test")
    counted = counts(release, norms)
    return np.array([release.draw_clip(stream, counted) for _ in range(count)])


@pytest.mark.slow
def test_the_law_of_what_leaves_with_power():
    """A chi-square test; the same test rejects a scale that is wrong by a tenth."""
    count = 20_000
    drawn = draws(KNOWN, NORMS, count, 5)
    observed = np.array([np.count_nonzero(drawn == c) for c in KNOWN.grid])

    def p_value(release):
        expected = law(release, NORMS) * count
        return float(stats.chi2(5).sf(((observed - expected) ** 2 / expected).sum()))

    assert observed.sum() == count
    assert p_value(KNOWN) > FALSE_ALARM
    for wrong in (0.9, 1.1):
        other = ClipQuantileRelease(2.0 * wrong, 4, 6, 0.25, 1, rows=ROWS)
        assert p_value(other) < FALSE_ALARM


@pytest.mark.slow
def test_outliers_do_not_move_the_clip():
    """200 draws: at least 99 % within a factor 4 of the quantile, whatever the longest rows."""
    rng = np.random.default_rng(1)
    rows = least_rows(1.0, level=0.9, octaves=160)
    norms = np.abs(rng.standard_t(6, size=(rows, 20))).max(axis=1)
    quantile = np.quantile(norms, 0.9)
    release = ClipQuantileRelease(2.0, round(0.9 * rows), 641, rows=(0, rows))
    for factor in (1.0, 1e6, 1e300, math.inf):
        moved = norms.copy()
        moved[:5] *= factor
        drawn = draws(release, moved, 200, 7)
        assert np.mean(np.abs(np.log2(drawn / quantile)) < 2) >= 0.99


@pytest.mark.slow
def test_too_few_rows_fall_to_the_bottom():
    """What the least number of rows is for: at half of it hardly a draw is of any use."""
    rows = least_rows(1.0, level=0.9, octaves=80) // 2
    norms = np.ones(rows)
    release = ClipQuantileRelease(2.0, round(0.9 * rows), 641, rows=(0, rows))
    assert np.mean(draws(release, norms, 100, 7) < 2.0**-70) > 0.9


# -- the record and the ledger ---------------------------------------------------------------------


def test_a_ledger_hands_out_a_clip_of_the_grid_once():
    ledger = Ledger(KNOWN, ApproxDP(1.01, 1e-6), randomness=Randomness.seeded(3))
    clip = ledger.clip_quantile(counts(KNOWN, NORMS), KNOWN)
    assert clip in KNOWN.grid
    with pytest.raises(LedgerError, match="already executed"):
        ledger.clip_quantile(counts(KNOWN, NORMS), KNOWN)


def test_counts_of_other_cells_are_refused():
    ledger = Ledger(KNOWN, ApproxDP(1.01, 1e-6))
    with pytest.raises(ParameterError, match="6 cells"):
        ledger.clip_quantile(np.zeros(5), KNOWN)


@pytest.mark.parametrize(
    "fields",
    [
        {"target": -1},
        {"target": 2**31 + 1},
        {"candidates": 1},
        {"candidates": 20_000},
        {"per_octave": 0},
        {"lowest": 0.0},
        {"lowest": 1e-100},
        {"lowest": math.inf},
        {"tilt": -1.0},
        {"tilt": math.nan},
        {"scale": 1e12},
        {"scale": 0.0},
    ],
)
def test_records_that_no_grid_has_are_refused(fields):
    usual = {"scale": 2.0, "target": 4, "candidates": 641, "rows": ROWS}
    with pytest.raises(ParameterError):
        ClipQuantileRelease(**{**usual, **fields})


@pytest.mark.parametrize(
    ("epsilon", "octaves", "rows"), [(1.0, 160, 619), (1.0, 80, 323), (0.1, 160, 6182)]
)
def test_least_rows(epsilon, octaves, rows):
    assert least_rows(epsilon, level=0.9, octaves=octaves) == rows
