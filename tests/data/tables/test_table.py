"""What `from_arrays` takes: any entry gives rows within the bounds, only types are refused."""

import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.data import Bounds, Classes, ClippedGradient, from_arrays
from dpsco.errors import DataError
from dpsco.geometry.norms import L2, LINF
from dpsco.losses import Absolute

NAN = float("nan")
WORDS = Classes("no", "yes")


def rows_of(X, y=None, norm=L2, feature_norm=100.0, **bounds):
    table = from_arrays(X, y)
    return table.bounded(Bounds(feature_norm, norm=norm, **bounds), order="given").rows()


def dense(block):
    return block.rows if isinstance(block.rows, np.ndarray) else block.rows.matrix().toarray()


def matrix(columns, values=None, shape=(3, 3), offsets=(0, 2, 4, 6)):
    """Return a matrix of three rows with two entries each, at columns that nobody checks."""
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] if values is None else values
    return sp.csr_matrix((np.array(values), np.array(columns), np.array(offsets)), shape=shape)


# -- sparse matrices -------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [L2, LINF])
def test_duplicates_are_found_whatever_scipy_remembers(norm):
    X = sp.csr_matrix(np.full((1, 16), 0.25))
    assert X.has_canonical_format  # which SciPy remembers, and no longer holds then
    X.indices[:] = 0
    source = from_arrays(X, np.ones(1)).bounded(Bounds(1.0, label=1.0, norm=norm), order="given")
    np.testing.assert_allclose(dense(source.rows())[0], [1.0] + [0.0] * 15, rtol=1e-13)
    total = source.sum(ClippedGradient(Absolute(), np.zeros(16), 1.0, norm))
    assert norm(total) <= 1.0
    assert X.nnz == 16  # the caller's matrix is as it was
    assert X.indices.tolist() == [0] * 16
    assert X.data.tolist() == [0.25] * 16


@pytest.mark.parametrize("bad", [3, 4, 100_000, 2**31 - 1, -1, -100_000])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_an_entry_outside_the_columns_makes_its_row_null(bad, kind):
    X = matrix([0, 1, 0, 1, 1, 2])
    X.indices = X.indices.astype(kind)
    X.indices[2] = bad
    block = rows_of(X)
    assert block.present.tolist() == [True, False, True]
    assert dense(block).tolist() == [[1.0, 2.0, 0.0], [0.0] * 3, [0.0, 5.0, 6.0]]
    assert block.rows.columns.min() >= 0
    assert block.rows.columns.max() < 3
    assert X.indices[2] == bad
    assert X.data.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize("bad", [2**32, 2**32 + 1, -(2**32), 2**62])
def test_columns_are_looked_at_before_they_are_narrowed(bad):
    X = matrix([0, 1, 0, 1, 1, 2])
    X.indices = X.indices.astype(np.int64)
    X.indices[5] = bad
    assert rows_of(X).present.tolist() == [True, True, False]


def test_sums_over_rows_with_wrong_columns_stay_in_their_arrays(compiled):
    X = sp.csr_matrix(np.ones((1000, 3)))
    assert X.has_canonical_format
    X.indices[5] = 100_000
    source = from_arrays(X, np.ones(1000)).bounded(Bounds(1.0, label=1.0), order="given")
    total = source.sum(ClippedGradient(Absolute(), np.zeros(3), 1.0))
    np.testing.assert_allclose(total, np.full(3, -999 / 3**0.5), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.float32, np.longdouble, np.float64])
@pytest.mark.parametrize("bad", [9, -1])
def test_other_formats_are_checked_before_they_are_converted(dtype, bad):
    X = np.arange(8).reshape(2, 4).astype(dtype)
    coo = sp.coo_matrix(X)
    coo.col[-1] = bad
    assert rows_of(coo).present.tolist() == [True, False]
    bsr = sp.bsr_matrix(X, blocksize=(1, 2))
    bsr.indices[0] = bad
    assert rows_of(bsr).present.tolist() == [False, True]
    lil = sp.csr_matrix(X.astype(float)).tolil()
    lil.rows[1][-1] = bad
    assert rows_of(lil).present.tolist() == [True, False]


@pytest.mark.parametrize("bad", [2, 10**9, -1])
def test_entries_outside_the_rows_are_nobodys_and_refused(bad):
    X = np.arange(8.0).reshape(2, 4)
    coo, csc = sp.coo_array(X), sp.csc_array(X)
    coo.row[-1] = bad
    csc.indices[-1] = bad
    for wrong in (coo, csc):
        with pytest.raises(DataError, match=r"X is a sparse matrix.*outside its rows"):
            from_arrays(wrong)


@pytest.mark.parametrize("offsets", [[0, 2, 1, 6], [1, 2, 4, 6], [0, 2, 4, 7], [-1, 2, 4, 6]])
@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
def test_damaged_offsets_are_refused(form, offsets):
    X = matrix([0, 1, 0, 1, 1, 2])
    X = X.tobsr(blocksize=(1, 1)) if form == "bsr" else X.asformat(form)
    X.indptr[:] = offsets
    with pytest.raises(DataError, match=r"X is a sparse matrix.*indptr"):
        from_arrays(X)


def test_other_damage_is_refused():
    X = matrix([0, 1, 0, 1, 1, 2])
    X.indptr = X.indptr[:-1]
    with pytest.raises(DataError, match="indptr"):
        from_arrays(X)
    X = matrix([0, 1, 0, 1, 1, 2])
    X.indices = X.indices.astype(float)
    with pytest.raises(DataError, match="integers"):
        from_arrays(X)
    X = sp.coo_matrix(np.eye(3))
    X.data = X.data[:-1]
    with pytest.raises(DataError, match="differ in number"):
        from_arrays(X)
    X = sp.lil_matrix(np.eye(3))
    X.rows[0].append(1)
    with pytest.raises(DataError, match="differ in number"):
        from_arrays(X)
    X = sp.lil_matrix(np.eye(3))
    X.rows[0][0] = 2**80
    with pytest.raises(DataError, match="SciPy cannot") as caught:
        from_arrays(X)
    assert caught.value.__context__ is None


def test_a_table_does_not_follow_later_changes_of_columns():
    X = matrix([0, 1, 0, 1, 1, 2])
    table = from_arrays(X)
    X.indices[:] = 99
    X.indptr[:] = [0, 6, 6, 6]
    block = table.bounded(Bounds(100.0), order="given").rows()
    assert dense(block).tolist() == [[1.0, 2.0, 0.0], [3.0, 4.0, 0.0], [0.0, 5.0, 6.0]]


def test_room_that_scipy_has_not_used_is_cut():
    X = matrix([0, 1, 0, 1, 1, 2])
    X.data = np.append(X.data, [7.0, 8.0])
    X.indices = np.append(X.indices, [99, -99]).astype(np.int32)
    assert rows_of(X).present.all()


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_all_formats_agree(form, dtype):
    X = (sp.random(40, 6, density=0.3, random_state=1) * 9).astype(dtype)
    found = from_arrays(X.asformat(form)).bounded(Bounds(7.0, intercept=1.0), order="given")
    wanted = from_arrays(X.toarray()).bounded(Bounds(7.0, intercept=1.0), order="given")
    np.testing.assert_allclose(dense(found.rows()), wanted.rows().rows, rtol=1e-6, atol=1e-30)
    assert found.rows().rows.dtype == (np.float32 if dtype == np.float32 else np.float64)


@pytest.mark.parametrize("form", ["csr", "coo", "csc"])
def test_long_doubles_do_not_warn(form):
    X = sp.csr_matrix(np.array([[np.longdouble("1e4000")], [1]], dtype=np.longdouble))
    assert rows_of(X.asformat(form)).present.tolist() == [False, True]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(-3, 8), min_size=6, max_size=6),
    st.lists(st.floats(allow_nan=True), min_size=6, max_size=6),
    st.booleans(),
)
def test_any_columns_and_values_are_bounded(columns, values, remembered):
    X = matrix([0, 1, 0, 1, 0, 1], values, shape=(3, 5))
    if remembered:
        assert X.has_canonical_format
    X.indices[:] = columns
    block = rows_of(X, feature_norm=1.0)
    assert np.all(np.linalg.norm(dense(block), axis=1) <= 1.0 + 1e-12)
    outside = np.array([k < 0 or k >= 5 for k in columns]).reshape(3, 2).any(axis=1)
    odd = ~np.isfinite(values).reshape(3, 2).all(axis=1)
    assert not block.present[outside | odd].any()
    block.rows.check()


# -- lists -----------------------------------------------------------------------------------------

NO_NUMBERS = [None, "a", "1.5", b"1", 2j, [1.0], np.datetime64("2020"), np.ma.masked, object()]
ODD_NUMBERS = [2**70, 2**2000, Decimal("sNaN"), np.longdouble("1e4000"), float("inf"), NAN]


@pytest.mark.parametrize("bad", [*NO_NUMBERS, *ODD_NUMBERS], ids=lambda bad: type(bad).__name__)
@pytest.mark.parametrize("container", [list, tuple])
def test_no_entry_of_a_list_raises_or_warns(bad, container):
    X = container([container([1.0, 2.0]), container([1.0, bad]), container([3.0, 4.0])])
    good = container([container([1.0, 2.0]), container([1.0, 5.0]), container([3.0, 4.0])])
    assert repr(from_arrays(X)) == repr(from_arrays(good))
    block = rows_of(X, feature_norm=1e30)
    assert block.present.tolist() == [True, type(bad) is int and bad == 2**70, True]
    assert dense(block)[[0, 2]].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_numbers_of_all_types_are_read():
    entries = [True, 3, 0.5, np.bool_(True), np.int8(-3), np.float32(0.5), Decimal("2.5")]
    X = [[entry] for entry in [*entries, Fraction(1, 4)]]
    assert rows_of(X).rows.ravel().tolist() == [1, 3, 0.5, 1, -3, 0.5, 2.5, 0.25]


def test_a_list_may_hold_arrays():
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    text = np.array(["1", "2"])
    whole = np.array([3, 4], dtype=np.int8)
    huge = np.array([1, np.longdouble("1e4000")])
    block = rows_of([np.array([1.0, 2.0]), masked, text, whole, (5, 6), huge])
    assert block.present.tolist() == [True, False, False, True, True, False]
    assert block.rows[3].tolist() == [3.0, 4.0]
    unmasked = rows_of([np.ma.array([1.0, 2.0], mask=[False, False])])
    assert unmasked.present.tolist() == [True]


def test_the_type_of_a_list_does_not_depend_on_its_entries():
    for entry in (1, 1.0, np.float32(1), True, None, "a"):
        assert from_arrays([[entry], [2.0]]).dtype == np.float64


@pytest.mark.parametrize("X", [[1.0, 2.0], [[1.0], None], [[1.0], "a"], [[1.0], {1.0}], ["ab"]])
def test_a_list_must_hold_rows(X):
    with pytest.raises(DataError, match="X given as a list must hold rows"):
        from_arrays(X)


def test_rows_of_a_list_have_one_length():
    with pytest.raises(DataError, match="differ in length"):
        from_arrays([[1.0], [2.0, 3.0]])
    with pytest.raises(DataError, match="0 x 0"):
        from_arrays([])


@pytest.mark.parametrize("rule", [5.0, (-5.0, 5.0), "sign", Classes(1, -1), WORDS])
@pytest.mark.parametrize("bad", [*NO_NUMBERS, *ODD_NUMBERS, "no\0", "\ud800", "no" * 500])
def test_a_list_of_labels_is_read_by_the_rule(rule, bad):
    good = ["no", "yes", "no"] if rule is WORDS else [1, -1.0, np.int8(1)]
    X = np.ones((4, 1))
    table = from_arrays(X, [bad, *good])
    assert repr(table) == repr(from_arrays(X, [good[0], *good]))
    assert table.labels == "list"
    block = table.bounded(Bounds(2.0, label=rule), order="given").rows()
    first, second = (1.0, -1.0) if rule not in (WORDS, Classes(1, -1)) else (-1.0, 1.0)
    assert block.labels[1:].tolist() == [first, second, first]
    clipped = type(bad) is int and bad == 2**70 and rule in (5.0, (-5.0, 5.0))
    assert block.present.tolist() == [clipped, True, True, True]


def test_a_list_of_labels_needs_a_rule_and_a_label_a_row():
    X = np.ones((2, 1))
    with pytest.raises(DataError, match="the bounds declare none"):
        from_arrays(X, [1, 2]).bounded(Bounds(1.0))
    with pytest.raises(DataError, match="2 rows, but y has 3"):
        from_arrays(X, [1, 2, 3])
    given = [1, -1]
    table = from_arrays(X, given)
    given.clear()
    assert table.bounded(Bounds(1.0, label="sign")).n == 2


def test_lists_of_labels_are_shuffled_with_their_rows():
    X = np.arange(200.0).reshape(-1, 1)
    words = ["yes" if k % 3 else "no" for k in range(200)]
    block = from_arrays(X, words).bounded(Bounds(300.0, label=WORDS)).rows()
    assert block.present.all()
    wanted = np.where(np.round(block.rows[:, 0]) % 3 == 0, -1.0, 1.0)
    assert np.array_equal(block.labels, wanted)


# -- frames and their columns ----------------------------------------------------------------------


def frame_pairs():
    X = {"a": [1.0, None, 3.0, 4.0], "b": [1, 2, None, 4]}
    numbers, text = [1.0, -1.0, 1.0, None], ["no", "yes", "no", None]
    nullable = {"a": pd.array(X["a"], dtype="Float64"), "b": pd.array(X["b"], dtype="Int64")}
    yield pd.DataFrame(nullable), pd.Series(numbers), pd.Series(text)
    yield pd.DataFrame(nullable), pd.array(numbers, dtype="Float64"), pd.Categorical(text)
    yield pl.DataFrame(X), pl.Series(numbers), pl.Series(text, dtype=pl.Categorical)
    yield pa.table(X), pa.chunked_array([numbers[:1], numbers[1:]]), pa.chunked_array([text])
    yield pa.table(X), pa.array(numbers), pa.array(text).dictionary_encode()


@pytest.mark.parametrize(("X", "numbers", "text"), list(frame_pairs()))
def test_a_frame_and_a_column_of_labels(X, numbers, text):
    if isinstance(X, pd.DataFrame):  # another index than the frame's: rows go by their order
        numbers, text = (pd.Series(y).set_axis([9, 8, 7, 6]) for y in (numbers, text))
    block = rows_of(X, numbers, label="sign")
    assert block.present.tolist() == [True, False, False, False]
    plain = np.arange(8.0).reshape(4, 2)
    assert rows_of(plain, numbers, label="sign").present.tolist() == [True, True, True, False]
    block = rows_of(plain, text, label=WORDS)
    assert block.present.tolist() == [True, True, True, False]
    assert block.labels[:3].tolist() == [-1.0, 1.0, -1.0]
    block = rows_of(X, [1, -1, 1, -1], label="sign")
    assert block.present.tolist() == [True, False, False, True]
    assert block.rows[0].tolist() == [1.0, 1.0]


def test_a_missing_boolean_is_no_error():
    values = [True, None]
    for column in (
        pd.Series(values, dtype="boolean"), pd.Series(values, dtype=pd.ArrowDtype(pa.bool_())),
        pl.Series(values), pa.array(values),
    ):  # fmt: skip
        found = rows_of(np.ones((2, 1)), column, label=Classes(0, 1))
        assert found.present.tolist() == [True, False]


@pytest.mark.parametrize(
    "thing",
    [
        range(2), {"a": [1.0]}, "ab", None, 3.0, memoryview(b"ab"), pd.Series([1.0, 2.0]),
        pd.Index([1.0]), pl.Series([1.0]), pa.array([1.0]), pl.DataFrame({"a": [1.0]}).lazy(),
    ],
    ids=lambda thing: type(thing).__name__,
)  # fmt: skip
def test_other_types_are_refused_as_rows(thing):
    with pytest.raises(DataError, match=type(thing).__name__):
        from_arrays(thing)


@pytest.mark.parametrize(
    "thing",
    [
        range(2), {1, 2}, "ab", 3.0, pd.DataFrame({"a": [1.0, 2.0]}), pd.Index([1.0, 2.0]),
        pa.table({"a": [1.0, 2.0]}), pl.DataFrame({"a": [1.0, 2.0]}),
    ],
    ids=lambda thing: type(thing).__name__,
)  # fmt: skip
def test_other_types_are_refused_as_labels(thing):
    with pytest.raises(DataError, match=f"y must be.*{type(thing).__name__}"):
        from_arrays(np.ones((2, 1)), thing)


def test_arrays_of_pandas_are_labels():
    for values in (pd.array([1, None]), pd.array([1.0, None])):
        found = rows_of(np.ones((2, 1)), values, label=Classes(0, 1))
        assert found.present.tolist() == [True, False]
    for values in (pd.Categorical(["a", None]), pd.array(["a", None])):
        found = rows_of(np.ones((2, 1)), values, label=Classes("a", "b"))
        assert found.present.tolist() == [True, False]


def test_columns_of_other_types_are_refused_by_type():
    with pytest.raises(DataError, match="column 'b' cannot be used as a feature: its type is str"):
        from_arrays(pd.DataFrame({"a": [1.0], "b": pd.array(["98765"], dtype="string")}))
    when = pl.Series([0]).cast(pl.Datetime)
    with pytest.raises(DataError, match=r"column 'y' cannot be used as the label: .* Datetime"):
        from_arrays(np.ones((1, 1)), when)


# -- messages --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("short", "long", "word"),
    [
        (np.array([["a"]]), np.array([["abcdef"]]), "text"),
        (np.array([[b"a"]]), np.array([[b"abcdef"]]), "bytes"),
        (
            np.array([["2020"]], dtype="M8[Y]"),
            np.array([["2020-01-01"]], dtype="M8[D]"),
            "datetime",
        ),
    ],
)
def test_the_longest_text_is_not_told(short, long, word):
    told = []
    for X in (short, long):
        with pytest.raises(DataError, match=word) as caught:
            from_arrays(X)
        told.append(str(caught.value))
        if word != "text":
            with pytest.raises(DataError, match=word) as caught:
                from_arrays(np.ones((1, 1)), X.ravel())
            told.append(str(caught.value))
    assert told[: len(told) // 2] == told[len(told) // 2 :]


def test_long_doubles_of_arrays_do_not_warn():
    X = np.array([[1], [np.longdouble("1e4000")]], dtype=np.longdouble)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows_of(X, X[:, 0], label=5.0).present.tolist() == [True, False]
