"""Rows as integers: within the bound, whatever they are."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.errors import ParameterError
from dpsco.federated.fixed_point import Grid

NAN, INF = math.nan, math.inf

GRID = Grid(0.25, 1.0, 2)

# --- Grid: encoding -------------------------------------------------------------------------------

GRIDS = [
    Grid(2.0**-30, 1.0, 3),
    Grid(2.0**-20, 0.1, 3),
    Grid(2.0**-3, 1 / 3, 3),
    Grid(1.0, 2.0**31 - 1, 3),
    Grid(2.0**-40, math.sqrt(2.0) * 1e-4, 3),
    Grid(2.0**500, 1e155, 3),
    Grid(2.0**-1060, 1e-315, 3),
    Grid(1.0, 0.9, 3),  # only the zero row fits
]


def assert_inside(grid: Grid, encoded: np.ndarray) -> None:
    """||k||_2 * step <= bound for every row, in Python integers."""
    assert encoded.dtype == np.int64
    square = (Fraction(grid.bound) / Fraction(grid.step)) ** 2
    top, bottom = square.numerator, square.denominator
    for row in encoded.tolist():
        assert sum(k * k for k in row) * bottom <= top, row


def adversarial_rows(grid: Grid, n: int, seed: int) -> np.ndarray:
    """Rows on the bound, just above, on half steps, huge, tiny, NaN, infinite; d = 3."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3))
    rows[rng.random((n, 3)) < 0.2] = 0.0
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    edge = grid.bound - grid.step * math.sqrt(3) / 2
    radii = [grid.bound, np.nextafter(grid.bound, np.inf), edge, 0.7 * grid.bound, 2 * edge]
    rows *= rng.choice(radii, size=(n, 1))
    half = rng.random(n) < 0.2
    with np.errstate(over="ignore"):  # older NumPy warns when it divides by a subnormal
        rows[half] = (np.rint(rows[half] / grid.step) + 0.5) * grid.step
    odd = rng.random((n, 3)) < 0.05
    rows[odd] = rng.choice(
        [1e300, -1e300, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1.7e308, -0.0], size=odd.sum()
    )
    return rows


@pytest.mark.thorough
@pytest.mark.parametrize("grid", GRIDS, ids=lambda g: f"{g.step:.3g}-{g.bound:.3g}")
def test_adversarial_rows_stay_inside(grid):
    rows = adversarial_rows(grid, 100_000 // len(GRIDS), seed=7)
    encoded = grid.encode(rows)
    assert_inside(grid, encoded)
    assert not encoded[~np.isfinite(rows).all(axis=1)].any()


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(st.lists(st.floats(width=64), min_size=2, max_size=2), min_size=1, max_size=4),
    exponent=st.integers(-40, 40),
    ratio=st.floats(0.75, 2.0**31 - 1),
)
def test_any_row_stays_inside(rows, exponent, ratio):
    grid = Grid(2.0**exponent, ratio * 2.0**exponent, 2)
    assert_inside(grid, grid.encode(np.array(rows)))


def test_rows_in_many_dimensions_and_blocks():
    rng = np.random.default_rng(1)
    grid = Grid(2.0**-30, 1.0, 5_000)
    rows = rng.normal(size=(50, 5_000)) * rng.choice([1e-3, 1.0, 1e200], size=(50, 1))
    encoded = grid.encode(rows)
    assert_inside(grid, encoded)
    assert np.array_equal(encoded, np.vstack([grid.encode(row[None, :]) for row in rows]))


def test_shrinking_repairs_rows_that_rounding_took_outside(monkeypatch):
    grid = Grid(1.0, 5.0, 2)
    outside = np.array([[5, 5], [-5, 1], [3, 4], [-9, 9], [0, 0]])
    monkeypatch.setattr(Grid, "_round", lambda self, values: values.astype(np.int64))
    encoded = grid.encode(outside.astype(float))
    assert encoded.tolist() == [[3, 3], [-4, 0], [3, 4], [-3, 3], [0, 0]]


@settings(max_examples=200, deadline=None)
@given(
    row=st.lists(st.floats(-1, 1), min_size=3, max_size=3),
    length=st.floats(0, 1 - 1e-12),
    exponent=st.integers(-30, -2),
)
def test_round_trip_inside_the_ball(row, length, exponent):
    grid = Grid(2.0**exponent, 1.0, 3)
    edge = 1.0 - grid.step * math.sqrt(3) / 2
    values = np.array([row]) * (edge * length / max(1.0, float(np.linalg.norm(row))))
    back = grid.encode(values) * grid.step
    assert np.all(np.abs(back - values) <= grid.step / 2)


def test_other_types_of_rows_and_no_side_effect():
    grid = Grid(0.25, 1.0, 2)
    wide = np.array([[np.longdouble("1e400"), 0], [0.5, 0.25]], dtype=np.longdouble)
    assert grid.encode(wide).tolist() == [[0, 0], [2, 1]]  # infinite as a float64, hence zero
    assert grid.encode([[0, 3]]).tolist() == [[0, 3]]
    assert grid.encode(np.zeros((0, 2))).shape == (0, 2)
    rows = np.array([[5.0, np.nan], [7.0, 7.0]])
    before = rows.copy()
    with np.errstate(all="raise"):
        grid.encode(rows)
    assert np.array_equal(rows, before, equal_nan=True)


def test_outside_rows_are_projected():
    grid = Grid(2.0**-29, 2.0, 2)
    back = grid.encode(np.array([[3e300, -4e300], [30.0, 40.0], [3, -4]])) * grid.step
    assert np.allclose(back, [[1.2, -1.6], [1.2, 1.6], [1.2, -1.6]], rtol=0, atol=3 * grid.step)


# --- Grid: sums -----------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", GRIDS, ids=lambda g: f"{g.step:.3g}-{g.bound:.3g}")
def test_neighbouring_sums_are_within_twice_the_bound(grid):
    rows, others = adversarial_rows(grid, 40, seed=1), adversarial_rows(grid, 200, seed=2)
    total = grid.encode(rows).sum(axis=0)
    reach = (2 * Fraction(grid.bound) / Fraction(grid.step)) ** 2
    for i, other in enumerate(others):
        neighbour = rows.copy()
        neighbour[i % 40] = other
        shift = (grid.encode(neighbour).sum(axis=0) - total).tolist()
        assert sum(k * k for k in shift) <= reach


@pytest.mark.parametrize(
    ("step", "bound", "dimension"),
    [
        *[(step, 1.0, 2) for step in (0.0, -0.5, 0.3, NAN, INF, "1", None, True, 2.0**-40)],
        *[(0.5, bound, 2) for bound in (0.0, -1.0, NAN, INF, "1", 0.35)],
        *[(0.5, 1.0, dimension) for dimension in (0, -1, 1.0, True, 16, 100)],
        (2.0**1000, 2.0**1005, 2),
    ],
)
def test_bad_grids_are_refused(step, bound, dimension):
    with pytest.raises(ParameterError):
        Grid(step, bound, dimension)


def test_refusal_suggests_the_nearest_power_of_two():
    with pytest.raises(ParameterError, match=r"Pass 0\.25\."):
        Grid(0.3, 1.0, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: GRID.encode(np.zeros(2)),
        lambda: GRID.encode(np.zeros((3, 3))),
        lambda: GRID.encode([["a", "b"]]),
        lambda: GRID.encode([[1.0], [1.0, 2.0]]),
        lambda: GRID.encode(np.zeros((3, 2), dtype=complex)),
    ],
)
def test_bad_calls_are_refused(call):
    with pytest.raises(ParameterError):
        call()
