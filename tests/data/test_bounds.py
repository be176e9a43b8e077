"""Clipping is exact: seen in fractions, in many digits, and on 1e6 rows in pairs of floats."""

import math
import os
import subprocess
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpsco.data import Bounds, Classes, Scaled, from_arrays
from dpsco.data.row_norms import FLOOR, clip_rows, row_norms, upper_norms
from dpsco.errors import DataError, ParameterError
from dpsco.geometry.norms import L1, L2, LINF, GroupNorm, Lp, WeightedLp
from dpsco.kernels import rescale
from dpsco.kernels.compiler import implementation
from dpsco.kernels.rows import SparseRows

MAX = np.finfo(np.float64).max


# -- exact references ------------------------------------------------------------------------------


def power_sum(row, p):
    """The exact sum of |x|^p for an integer p."""
    return sum((abs(Fraction(float(x))) ** p for x in row), Fraction(0))


def obeys(row, norm, bound):
    """Whether the exact norm of the stored numbers is at most ``bound``."""
    row, limit = [float(x) for x in row], Fraction(float(bound))
    if isinstance(norm, WeightedLp):
        scaled = [Fraction(w) * Fraction(x) for w, x in zip(norm.weights, row, strict=True)]
        return sum(abs(x) ** int(norm.p) for x in scaled) <= limit ** int(norm.p)
    if isinstance(norm, GroupNorm):
        assert (norm.inner, norm.outer) == (2.0, 1.0)
        with mpmath.workdps(80):
            parts = zip(norm.weights, norm.groups, strict=True)
            sizes = [w * mpmath.sqrt(sum(mpmath.mpf(row[j]) ** 2 for j in g)) for w, g in parts]
            return sum(sizes) <= mpmath.mpf(float(bound))
    if norm.p == math.inf:
        return all(abs(Fraction(x)) <= limit for x in row)
    if norm.p == int(norm.p):
        return power_sum(row, int(norm.p)) <= limit ** int(norm.p)
    with mpmath.workdps(80):
        return sum(mpmath.mpf(abs(x)) ** norm.p for x in row) <= mpmath.mpf(bound) ** norm.p


def two_sum(a, b):
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_square(a):
    """a^2 as an unevaluated sum of two floats (Dekker), exact unless it underflows."""
    c = 134217729.0 * a
    high = c - (c - a)
    low = a - high
    p = a * a
    return p, ((high * high - p) + 2.0 * high * low) + low * low


def squares(rows):
    """The sum of squares along each row as a pair of floats: good to about 100 bits."""
    total, rest = np.zeros(len(rows)), np.zeros(len(rows))
    for column in np.asarray(rows, dtype=np.float64).T:
        p, q = two_square(column)
        total, e = two_sum(total, p)
        total, rest = two_sum(total, rest + (e + q))
    return total, rest


def not_above(rows, bounds):
    """Whether each row's sum of squares is at most the bound's, to 100 bits, on the safe side."""
    total, rest = squares(rows)
    p, q = two_square(np.broadcast_to(np.asarray(bounds, dtype=float), total.shape))
    slack = 1e-290 * rows.shape[1] + p * 2.0**-95  # what underflow and the pairs may have lost
    return (p - total) + (q - rest) >= slack


# -- adversarial rows ------------------------------------------------------------------------------


def adversarial(n, d, c, seed, dtype=np.float64):
    """Rows of every size, most of all those whose norm is c up to a few units in the last place."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X *= (c / np.sqrt(np.einsum("ij,ij->i", X, X)))[:, None]
    kind = rng.integers(0, 12, size=n)
    X *= (1.0 + (rng.integers(-12, 13, size=n) * 2.0**-53))[:, None]
    with np.errstate(all="ignore"):
        X[kind == 1] *= 10.0 ** rng.uniform(-3, 3, size=(np.sum(kind == 1), 1))
        X[kind == 2] = np.sign(X[kind == 2]) * 10.0 ** rng.uniform(-323, 308, X[kind == 2].shape)
        X[kind == 3] = np.sign(X[kind == 3]) * MAX
        X[kind == 4] = X[kind == 4] * 1e-320
        X[kind == 5] = c / math.sqrt(d)
        one_hot = np.flatnonzero(kind == 6)
        X[one_hot] = 0.0
        near = c * (1.0 + rng.integers(-2, 3, size=len(one_hot)) * 2.0**-52)
        X[one_hot, rng.integers(0, d, size=len(one_hot))] = near
        X[kind == 7] = rng.uniform(1e139, 1e141, size=X[kind == 7].shape)
        X[kind == 8] = 0.0
        X[kind == 9] *= 1.0 + 10.0 ** rng.uniform(-16, -10, size=(np.sum(kind == 9), 1))
        X[kind == 10] = np.where(rng.random(X[kind == 10].shape) < 0.2, np.inf, X[kind == 10])
        X[kind == 11] = np.where(rng.random(X[kind == 11].shape) < 0.2, np.nan, X[kind == 11])
        return X.astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("n", "d", "c"), [(300_000, 1, 1.0), (300_000, 2, 0.7), (300_000, 5, 3.0), (100_000, 30, 0.1)]
)
def test_a_million_adversarial_rows_never_exceed_the_bound(n, d, c, dtype, compiled):
    X = adversarial(n, d, c, seed=d, dtype=dtype)
    block = Bounds(c).apply(np.asfortranarray(X) if d == 5 else X)
    assert block.rows.dtype == dtype
    assert np.all(not_above(block.rows, c))
    assert np.all(block.norms <= c)
    large = block.norms > 1e-100  # the squares of smaller ones are for the tests in fractions
    assert np.all(not_above(block.rows[large], block.norms[large]))
    finite = np.isfinite(X).all(axis=1)
    assert np.array_equal(block.present, finite)
    assert not np.any(block.rows[~finite])
    # Those well inside are unchanged bit for bit, and clipping again changes nothing at all.
    with np.errstate(all="ignore"):
        inside = np.sqrt(np.sum(X.astype(float) ** 2, axis=1)) <= c * (1.0 - 1e-13)
    assert np.sum(inside) > n / 10
    assert np.array_equal(block.rows[inside].view(np.uint8), X[inside].view(np.uint8))
    assert np.array_equal(Bounds(c).apply(block.rows).rows, block.rows)
    # Those outside keep their direction and almost all of the length they may have.
    outside = finite & ~inside
    size = row_norms(block.rows[outside])
    assert np.all(size >= c * (1.0 - 2e-7 if dtype == np.float32 else 1.0 - 1e-13))


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [None, 0.3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32])
def test_compiled_passes_and_layouts_give_the_same_bits(dtype, intercept):
    pytest.importorskip("numba")
    for d, c in ((1, 1.0), (4, 0.3), (19, 7.0), (120, 1e-35)):
        with np.errstate(all="ignore"):
            X = adversarial(3000, d, c, seed=d)
            X = (X * 1e3 if dtype == np.int32 else X).astype(dtype)
        y = np.where(np.arange(3000) % 7 == 0, np.nan, 0.5)
        bounds = Bounds(c, label=1.0, intercept=intercept)
        with implementation(compiled=False):
            reference = bounds.apply(X, y)
        wide = np.zeros((3000, 2 * d), dtype=dtype)
        wide[:, ::2] = X
        for rows in (X, np.asfortranarray(X), wide[:, ::2]):
            for compiled in (False, True):
                with implementation(compiled=compiled):
                    block = bounds.apply(rows, y)
                assert block.rows.dtype == reference.rows.dtype
                assert block.rows.tobytes() == reference.rows.tobytes()
                assert np.array_equal(block.norms, reference.norms)
                assert np.array_equal(block.present, reference.present)
                assert np.array_equal(block.labels, reference.labels)
        one = bounds.apply(np.asfortranarray(X)[1234:1235], y[1234:1235])
        assert one.rows.tobytes() == reference.rows[1234:1235].tobytes()


def test_a_kept_row_just_below_the_bound_and_one_above_have_tight_norms():
    c = 1.0
    X = np.array([[c * (1 - 1e-12)], [np.nextafter(c, 0)], [c], [1.5], [MAX], [0.25]])
    norms = Bounds(c).apply(X).norms
    assert norms[1:5].tolist() == [c] * 4
    assert c * (1 - 1e-12) <= norms[0] <= c * (1 - 0.99e-12)
    assert 0.25 <= norms[5] <= 0.25 * (1 + 1e-14)


def test_the_compiled_passes_are_for_the_l2_norm(monkeypatch):
    pytest.importorskip("numba")
    X, served = adversarial(500, 2, 1.0, seed=0), []
    loop = rescale._loop
    monkeypatch.setattr(rescale, "_loop", lambda *names: served.append(names) or loop(*names))
    for norm in (L1, LINF, WeightedLp(2.0, (1.0, 2.0)), L2):
        blocks = []
        for compiled in (False, True):
            assert not served
            with implementation(compiled=compiled):
                blocks.append(Bounds(1.0, norm=norm).apply(X))
        assert np.array_equal(blocks[0].rows, blocks[1].rows)
    assert served


@pytest.mark.parametrize("order", ["given", "shuffled"])
def test_the_size_of_the_whole_table_decides(monkeypatch, order):
    sizes = []
    monkeypatch.setattr("dpsco.data.bounds.use_compiled", lambda *size: sizes.append(size))
    from_arrays(np.ones((100_000, 5))).bounded(Bounds(1.0), order=order)
    assert len(sizes) > 1
    assert set(sizes) == {(100_000, 5)}


@pytest.mark.thorough
def test_small_tables_are_clipped_without_numba():
    program = (
        "import sys, numpy as np; from dpsco.data import Bounds, from_arrays;"
        "from_arrays(np.ones((300_000, 4))).bounded(Bounds(1.0)); print('numba' in sys.modules)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "DPSCO_COMPILED"}
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert shown.stdout.strip() == "False"


def test_the_exact_check_sees_one_ulp():
    c = 0.7
    assert not not_above(np.array([[np.nextafter(c, 1.0)]]), c)[0]
    assert not_above(np.array([[np.nextafter(c, 0.0)]]), c)[0]
    assert obeys([c], L2, c)
    assert not obeys([np.nextafter(c, 1.0)], L2, c)


NORMS = {
    "l1": lambda d: L1,
    "l2": lambda d: L2,
    "l3": lambda d: Lp(3.0),
    "l1.5": lambda d: Lp(1.5),
    "linf": lambda d: LINF,
    "weighted": lambda d: WeightedLp(2.0, tuple(np.geomspace(1e-3, 1e3, d))),
    "extreme weights": lambda d: WeightedLp(1.0, tuple(np.geomspace(1e-200, 1e200, d))),
    "groups": lambda d: GroupNorm((tuple(range(d - 1)), (d - 1,)), 2.0, 1.0, (0.5, 2.0)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", [None, 0.1])
@pytest.mark.parametrize("name", NORMS)
def test_exact_in_fractions_in_every_norm(name, intercept, dtype, sparse):
    d, c = 4, 0.3
    norm = NORMS[name](d + (intercept is not None))
    X = adversarial(240, d, c, seed=3, dtype=dtype)
    size = norm(np.column_stack([X, np.zeros(len(X))]) if norm.dimension == d + 1 else X)
    with np.errstate(all="ignore"):
        X[60:120] = X[60:120].astype(float) * (c / size[60:120])[:, None]
    bounds = Bounds(c, norm=norm, intercept=intercept)
    table = from_arrays(scipy.sparse.csr_array(X) if sparse else X)
    block = table.bounded(bounds, order="given").rows()
    rows = block.rows.matrix().toarray() if sparse else block.rows
    assert rows.dtype == dtype
    for row, upper in zip(rows, block.norms, strict=True):
        assert obeys(row, norm, bounds.row_norm)
        assert obeys(row, norm, upper)
        assert upper <= bounds.row_norm
        if intercept is not None:
            features = np.append(row[:-1], 0.0)
            assert obeys(features, norm, c)
            assert 0.1 * (1 - 1e-7) < row[-1] <= 0.1 or not row.any()
    assert np.array_equal(block.present, np.isfinite(X).all(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("c", [1e-100, 1e-31, 1e-29, 1e29, 1e100])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_extreme_bounds(c, dtype):
    with np.errstate(all="ignore"):
        X = adversarial(400, 3, c, seed=5).astype(dtype)
    for intercept in (None, 1e-100, 1e-29, 1e100):
        bounds = Bounds(c, intercept=intercept)
        block = bounds.apply(X)
        for row, upper in zip(block.rows, block.norms, strict=True):
            assert np.all(np.isfinite(row))
            assert obeys(row[:3], L2, c)
            assert obeys(row, L2, upper)
            assert obeys(row, L2, bounds.row_norm)


@pytest.mark.parametrize("c", [1e-99, 1e-44, 1.7e-45, 1e-40])
def test_float32_gives_way_where_a_bound_is_below_its_range(c):
    X = np.array([[3.0, -4.0], [1e30, 1.0], [0.0, 0.5]], dtype=np.float32)
    block = Bounds(c, intercept=c).apply(X)
    assert row_norms(block.rows[:, :2]) == pytest.approx(c, rel=1e-12)
    assert block.rows[:, 2].tolist() == [c] * 3
    assert all(obeys(row[:2], L2, c) for row in block.rows)
    large = Bounds(1.0, intercept=1e60).apply(X)
    assert large.rows[:, 2].tolist() == [1e60] * 3


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("dtype", "c"), [(np.float64, 1e-90), (np.float32, 1e-25)])
def test_large_weights_do_not_magnify_the_rounding_of_subnormal_numbers(dtype, c, sparse):
    least = float(np.finfo(dtype).smallest_subnormal)
    norm = WeightedLp(1.0, (1.0, 0.9 * c / 1.6 / least))
    # Rescaled by 2^-40, the second number would be 1.6 times the least one, and be rounded up.
    raw = np.array([[0.1 * c * 2.0**40, 1.6 * (least * 2.0**40)]]).astype(dtype)
    block = from_arrays(scipy.sparse.csr_array(raw) if sparse else raw).bounded(
        Bounds(c, norm=norm)
    )
    found = block.rows().rows.matrix().toarray() if sparse else block.rows().rows
    assert found.dtype == dtype
    assert obeys(found[0], norm, c)


@pytest.mark.parametrize("d", [1000, 100_000])
def test_long_rows(d):
    rng = np.random.default_rng(d)
    X = np.stack([rng.normal(size=d), np.full(d, 1.0), np.full(d, 1e300), np.full(d, 1e-170)])
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            block = Bounds(2.0).apply(X.astype(dtype))
        for row in block.rows.astype(float):
            # fsum rounds once: a sum this much below the square is exactly below it
            assert math.fsum(np.concatenate(two_square(row))) <= 4.0 * (1.0 - 1e-15)
        assert list(block.present) == [True, True, dtype == np.float64, True]
        assert row_norms(block.rows[:2]) == pytest.approx([2.0, 2.0], rel=3e-7)


rows_of_floats = arrays(
    np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(width=64)
)


@settings(max_examples=150, deadline=None)
@given(rows_of_floats, st.floats(1e-100, 1e100), st.sampled_from([L1, L2, LINF, Lp(3.0)]))
def test_any_floats_are_bounded(X, c, norm):
    dense = Bounds(c, norm=norm).apply(X)
    table = from_arrays(scipy.sparse.csr_matrix(X))
    sparse = table.bounded(Bounds(c, norm=norm), order="given").rows()
    for row, upper in zip(dense.rows, dense.norms, strict=True):
        assert obeys(row, norm, c)
        assert obeys(row, norm, upper)
    assert np.array_equal(dense.present, np.isfinite(X).all(axis=1))
    assert np.array_equal(dense.present, sparse.present)
    np.testing.assert_allclose(sparse.rows.matrix().toarray(), dense.rows, rtol=1e-14, atol=1e-320)


# -- layout and types ------------------------------------------------------------------------------


def test_strides_and_types_give_the_same_rows():
    rng = np.random.default_rng(1)
    X = rng.integers(-5, 6, size=(300, 7)).astype(np.float64)
    wanted = Bounds(6.0, intercept=2.0).apply(X)
    wide = np.zeros((600, 14))
    wide[::2, ::2] = X
    for same in (
        np.asfortranarray(X),
        wide[::2, ::2],
        X[::-1][::-1],
        X.astype(np.int8),
        X.astype(int),
    ):
        block = Bounds(6.0, intercept=2.0).apply(same)
        assert np.array_equal(block.rows, wanted.rows)
        assert block.rows.dtype == np.float64
        assert block.rows.flags.c_contiguous
    half = Bounds(6.0, intercept=2.0).apply(X.astype(np.float16))
    assert half.rows.dtype == np.float32
    np.testing.assert_allclose(half.rows, wanted.rows, rtol=3e-7)
    flags = Bounds(1.0).apply(np.array([[True, False]]))
    np.testing.assert_allclose(flags.rows, [[1.0, 0.0]], rtol=1e-14)


def test_the_rows_given_are_not_changed():
    X = np.array([[30.0, np.nan], [3.0, 4.0]])
    before = X.copy()
    block = Bounds(1.0).apply(X)
    assert not np.shares_memory(block.rows, X)
    assert np.array_equal(X, before, equal_nan=True)
    matrix = scipy.sparse.csr_array(before)
    rows = from_arrays(matrix).bounded(Bounds(1.0), order="given").rows().rows
    assert not np.shares_memory(rows.values, matrix.data)
    assert np.array_equal(matrix.toarray(), before, equal_nan=True)


def test_sparse_duplicates_order_and_zeros():
    columns = np.array([2, 0, 2, 1, 1])
    values = np.array([1.0, 2.0, 4.0, 0.0, np.inf])
    matrix = scipy.sparse.csr_matrix((values, columns, np.array([0, 3, 4, 5])), shape=(3, 3))
    block = from_arrays(matrix).bounded(Bounds(100.0, intercept=3.0), order="given").rows()
    found = block.rows.matrix().toarray()
    assert found.tolist() == [[2.0, 0.0, 5.0, 3.0], [0.0, 0.0, 0.0, 3.0], [0.0] * 4]
    assert block.present.tolist() == [True, True, False]
    assert block.norms[0] == pytest.approx(math.sqrt(38.0), rel=1e-13)
    clash = scipy.sparse.csr_matrix(
        (np.array([MAX, MAX]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1)
    )
    null = from_arrays(clash).bounded(Bounds(1.0), order="given").rows()
    assert null.present.tolist() == [False]


def test_the_intercept_is_not_clipped_with_the_features():
    block = Bounds(1.0, intercept=5.0).apply(np.array([[30.0, 40.0], [0.3, 0.4]]))
    np.testing.assert_allclose(block.rows, [[0.6, 0.8, 5.0], [0.3, 0.4, 5.0]], rtol=1e-13)
    assert Bounds(1.0, intercept=5.0).row_norm == pytest.approx(math.sqrt(26.0), rel=1e-13)
    assert Bounds(1.0, norm=L1, intercept=5.0).row_norm == pytest.approx(6.0, rel=1e-13)
    assert Bounds(1.0, norm=LINF, intercept=5.0).row_norm == 5.0
    assert Bounds(1.5).row_norm == 1.5
    weighted = Bounds(1.0, norm=WeightedLp(1.0, (1.0, 3.0)), intercept=2.0)
    assert weighted.row_norm == pytest.approx(7.0, rel=1e-13)
    grouped = Bounds(1.0, norm=GroupNorm(((0,), (1,)), weights=(1.0, 3.0)), intercept=2.0)
    assert grouped.row_norm == pytest.approx(7.0, rel=1e-13)


# -- labels ----------------------------------------------------------------------------------------

ODD = np.array([1.0, -1.0, 0.0, 2.0, -2.5, np.nan, np.inf, -np.inf])


@pytest.mark.parametrize(
    ("rule", "labels", "present"),
    [
        ("sign", [1, -1, 1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0, 0, 0]),
        (1.5, [1, -1, 0, 1.5, -1.5, 0, 0, 0], [1, 1, 1, 1, 1, 0, 0, 0]),
        ((-2.0, -1.0), [-1, -1, -1, -1, -2, -1, -1, -1], [1, 1, 1, 1, 1, 0, 0, 0]),
        ((0.5, 9), [1, 0.5, 0.5, 2, 0.5, 0.5, 0.5, 0.5], [1, 1, 1, 1, 1, 0, 0, 0]),
        (Classes(2, 1), [1, 1, 1, -1, 1, 1, 1, 1], [1, 0, 0, 1, 0, 0, 0, 0]),
        (Classes(2.0, 0.0, -2.5), [0, 0, 1, 0, 2, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0, 0]),
    ],
)
def test_label_rules(rule, labels, present):
    bounds = Bounds(1.0, label=rule, intercept=1.0)
    block = bounds.apply(np.full((8, 1), 0.5), ODD)
    assert block.labels.tolist() == labels
    assert block.present.tolist() == [bool(p) for p in present]
    assert np.array_equal(block.rows, np.where(block.present[:, None], [[0.5, 1.0]], 0.0))
    assert np.max(np.abs(block.labels)) <= bounds.label_bound
    assert np.all(block.labels[~block.present] == bounds.default_label)


def test_labels_of_every_type():
    X = np.full((3, 1), 0.5)
    for y in (np.array([True, False, True]), np.array([1, 0, 1], np.uint8), np.array([1, 0, 1.0])):
        assert Bounds(1.0, label=Classes(0, 1)).apply(X, y).labels.tolist() == [1.0, -1.0, 1.0]
    words = Bounds(1.0, label=Classes("no", "yes", "perhaps"))
    block = words.apply(X, np.array(["yes", "No", "perhaps"]))
    assert block.labels.tolist() == [1.0, 0.0, 2.0]
    assert block.present.tolist() == [True, False, True]
    missing = words.apply(X, np.array(["yes", "no", "no"]), np.array([False, False, True]))
    assert missing.present.tolist() == [True, True, False]
    huge = np.array([2**53 + 1, 2**63, 3], dtype=np.uint64)
    assert Bounds(1.0, label=Classes(3, 2**53 - 1)).apply(X, huge).present.tolist() == [0, 0, 1]
    with np.errstate(over="ignore"):
        longs = np.array([1e300, 1, -1], dtype=np.longdouble) * np.longdouble(1e300)
    assert Bounds(1.0, label=5.0).apply(X, longs).labels.tolist()[1:] == [5.0, -5.0]
    assert Bounds(1.0).apply(X).labels.tolist() == [0.0, 0.0, 0.0]


def test_a_null_row_has_nothing_of_the_row_it_was():
    X = np.array([[0.5, np.nan], [0.25, 0.5], [0.5, 0.5]])
    block = Bounds(1.0, label=2.0, intercept=1.0).apply(X, np.array([1.5, np.nan, 1.0]))
    assert block.rows.tolist() == [[0.0] * 3, [0.0] * 3, [0.5, 0.5, 1.0]]
    assert block.labels.tolist() == [0.0, 0.0, 1.0]
    assert block.norms[0] == block.norms[1] == FLOOR


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"feature_norm": 0.0},
        {"feature_norm": -1.0},
        {"feature_norm": math.inf},
        {"feature_norm": math.nan},
        {"feature_norm": "1"},
        {"feature_norm": 1e101},
        {"feature_norm": 1e-101},
        {"label": 0.0},
        {"label": -1.0},
        {"label": math.inf},
        {"label": "signs"},
        {"label": (1.0, 1.0)},
        {"label": (2.0, 1.0)},
        {"label": (0.0, math.inf)},
        {"label": (0.0, 1.0, 2.0)},
        {"label": True},
        {"norm": 2},
        {"intercept": 0.0},
        {"intercept": -1.0},
        {"intercept": True},
        {"intercept": math.inf},
    ],
)
def test_bounds_refuse(arguments):
    with pytest.raises(ParameterError):
        Bounds(**{"feature_norm": 1.0, **arguments})


@pytest.mark.parametrize(
    "values",
    [
        (),
        (1,),
        (1, 1),
        (0, False),
        ("a", "a"),
        ("a", 1),
        (1.0, math.nan),
        (0, 2**53),
        ("a", "b" * 256),
    ],
)
def test_classes_refuse(values):
    with pytest.raises(ParameterError):
        Classes(*values)


def test_classes_spellings():
    assert Classes((0, 1)) == Classes(0, 1) == Classes([0, 1]) == Classes(range(2))
    assert Classes(np.array([0, 1])) == Classes(False, True)
    assert hash(Classes("a", "b")) == hash(Classes(("a", "b")))
    assert repr(Classes("a", "b")) == "Classes('a', 'b')"


@pytest.mark.parametrize(
    ("rule", "y"),
    [
        (None, np.zeros(2)),
        ("sign", None),
        ("sign", np.array(["a", "b"])),
        (Classes("a", "b"), np.zeros(2)),
        (Classes(0, 1), np.array(["0", "1"])),
        (1.0, np.array([1j, 2j])),
        (1.0, np.array([b"a", b"b"])),
    ],
)
def test_labels_that_do_not_fit_the_rule_are_refused(rule, y):
    with pytest.raises(DataError):
        Bounds(1.0, label=rule).apply(np.zeros((2, 1)), y)


def test_a_norm_for_another_width_is_refused():
    bounds = Bounds(1.0, norm=WeightedLp(2.0, (1.0, 2.0)))
    with pytest.raises(DataError, match="2 numbers, but a row has 3"):
        bounds.apply(np.zeros((2, 3)))
    with pytest.raises(DataError, match="but a row has 3"):
        Bounds(1.0, norm=bounds.norm, intercept=1.0).apply(np.zeros((2, 2)))


# -- lengths ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [L1, L2, LINF, Lp(1.5), Lp(3.0), Lp(1e6)])
def test_sparse_and_dense_lengths_agree_with_many_digits(norm):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 9)) * 10.0 ** rng.uniform(-60, 60, size=(60, 1))
    X[rng.random(X.shape) < 0.4] = 0.0
    X[7] = 0.0
    matrix = scipy.sparse.csr_array(X)
    offsets = matrix.indptr.astype(np.int64)
    sparse = SparseRows(matrix.data, matrix.indices.astype(np.int32), offsets, 9)
    upper = upper_norms(X, norm)
    np.testing.assert_allclose(row_norms(sparse, norm), row_norms(X, norm), rtol=1e-14)
    with mpmath.workdps(50):
        for row, bound in zip(X, upper, strict=True):
            p = norm.p
            exact = (
                max(abs(mpmath.mpf(x)) for x in row)
                if p == math.inf
                else mpmath.fsum(abs(mpmath.mpf(x)) ** mpmath.mpf(p) for x in row)
                ** (1 / mpmath.mpf(p))
            )
            assert exact <= bound
            assert bound <= max(exact * (1 + mpmath.mpf(1e-13)), FLOOR * (1 + 1e-13))
    assert np.array_equal(upper_norms(sparse[10:20], norm), upper_norms(sparse, norm)[10:20])


def test_upper_lengths_of_what_float64_cannot_square():
    X = np.array([[1e-170, 1e-170], [5e-324, 0.0], [0.0, 0.0]])
    for row, bound in zip(X, upper_norms(X), strict=True):
        assert obeys(row, L2, bound)
    assert upper_norms(np.array([[1e200, 0.0], [np.nan, 0.0]])).tolist() == [math.inf, math.inf]


def test_clip_rows_is_exact_and_total():
    X = adversarial(600, 3, 0.4, seed=8)
    for norm in (L1, L2, LINF, Lp(3.0)):
        clipped = clip_rows(X, norm, 0.4)
        assert all(obeys(row, norm, 0.4) for row in clipped)
        assert not np.any(clipped[~np.isfinite(X).all(axis=1)])
        huge = np.isfinite(X).all(axis=1) & (np.abs(X).max(axis=1) > 1e150)
        assert row_norms(clipped[huge], norm) == pytest.approx(0.4, rel=1e-13)


@pytest.mark.parametrize(
    ("bounds", "sentences"),
    [
        (Bounds(2.0), ("a row's features have l2 norm at most 2, by rescaling",)),
        (
            Bounds(1.0, label=3.0, norm=Lp(1.0), intercept=0.5),
            (
                "a row's features have l1 norm at most 1, by rescaling",
                "the intercept's column is 0.5",
                "a label lies between -3 and 3, by clipping",
            ),
        ),
        (Bounds(1.0, label=(0.0, 9.0)), "a label lies between 0 and 9, by clipping"),
        (Bounds(1.0, label="sign"), "a label is -1 or 1"),
        (Bounds(1.0, label=Classes("a", "b", "c")), "a label is one of the 3 declared classes"),
    ],
)
def test_what_is_enforced_is_said(bounds, sentences):
    if isinstance(sentences, tuple):
        assert bounds.enforced == sentences
    else:
        assert bounds.enforced[-1] == sentences


@given(
    low=st.floats(-1e300, 1e300),
    high=st.floats(-1e300, 1e300),
    label=st.floats(allow_nan=True),
    centred=st.booleans(),
)
def test_scaled_labels_never_leave_their_bound(low, high, label, centred):
    if not low < high:
        with pytest.raises(ParameterError, match="low < high"):
            Scaled(low, high, centred)
        return
    assume(high - low > 4e-290)  # narrower ranges are refused
    rule = Scaled(low, high, centred)
    bounds = Bounds(1.0, label=rule)
    block = bounds.apply(np.ones((1, 1)), np.array([label]))
    assert abs(block.labels[0]) <= 1.0 == bounds.label_bound
    assert block.present[0] == math.isfinite(label)
    assert abs(bounds.default_label) <= 1.0


def test_scaled_labels_know_their_unit():
    rule = Scaled(-2.0, 8.0)
    assert (rule.centre, rule.unit) == (3.0, 5.0)
    assert rule.encode(np.array([-2.0, 3.0, 5.5, 9.0])).tolist() == [-1.0, 0.0, 0.5, 1.0]
    plain = Scaled(-2.0, 8.0, centred=False)
    assert plain.encode(np.array([-4.0, 0.0, 4.0])).tolist() == [-0.25, 0.0, 0.5]
    # where 0 is not in the range, a null row's label must be in it all the same
    assert Bounds(1.0, label=Scaled(4.0, 8.0, centred=False)).default_label == 0.5
    assert "between -2 and 8" in Bounds(1.0, label=rule).enforced[-1]
    with pytest.raises(ParameterError, match="centred"):
        Scaled(0.0, 1.0, centred=1)
