"""The encoder: what each kind of column becomes, that no value can raise, and that norms hold."""

import datetime
import decimal
import math
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.data.bounds import Bounds
from dpsco.data.labels import Classes
from dpsco.data.schema.encoder import TableEncoder
from dpsco.data.schema.schema import (
    Category,
    ClassLabel,
    Flag,
    Hashed,
    Ignore,
    Number,
    NumberLabel,
    Schema,
    SignLabel,
)
from dpsco.data.tables.frames import from_frame
from dpsco.errors import DataError, ParameterError
from dpsco.geometry.norms import L1, LINF, Lp, WeightedLp


def encode(column, values, kind=None):
    """Return the rows of a table of one column."""
    array = values if isinstance(values, pa.Array) else pa.array(values, type=kind)
    table = pa.table({column.name: array})
    rows, labels = TableEncoder(Schema((column,)), sparse=False).encode(table)
    assert labels is None
    return rows


# -- numbers -------------------------------------------------------------------------------------


def test_numbers_are_scaled_and_clipped():
    found = encode(Number("a", 10, 30), [10, 15, 20, 30, 99, -99, 1e308, -1e308])
    assert found.ravel().tolist() == [-1, -0.5, 2.0**-60, 1, 1, -1, 1, -1]  # 0 is for missing


def test_missing_numbers_follow_the_public_rule():
    values = [None, math.nan, math.inf, -math.inf, 20.0]
    assert encode(Number("a", 0, 20), values).ravel().tolist() == [0, 0, 0, 0, 1]
    assert encode(Number("a", 0, 20, 5), values).ravel().tolist() == [-0.5] * 4 + [1]
    flagged = encode(Number("a", 0, 20, "indicator"), values)
    assert flagged.tolist() == [[0, 1]] * 4 + [[1, 0]]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([2**62 + 1, None, -(2**62)], pa.int64()),
        ([2**64 - 1, None, 0], pa.uint64()),
        ([decimal.Decimal("1e20"), None, decimal.Decimal("-1e20")], pa.decimal256(40, 2)),
        ([1e30, None, -1e30], pa.float32()),
    ],
)
def test_numbers_beyond_the_exact_ones_do_not_raise(values, kind):
    found = encode(Number("a", 1, 3), values, kind).ravel().tolist()
    assert found == [1, 0, -1]


def test_all_types_of_numbers_agree():
    plain = pa.array([0, 1, None], pa.int8())
    half = pa.array([np.float16(0), np.float16(1), None], pa.float16())
    kinds = (pa.uint16(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(5, 2), pa.bool_())
    categories = (plain.dictionary_encode(), plain.cast(pa.bool_()).dictionary_encode())
    for array in (plain, half, *categories, *(plain.cast(kind) for kind in kinds)):
        assert encode(Number("a", 0, 1), array).ravel().tolist() == [-1, 1, 0], array.type
        assert encode(Flag("a"), array).ravel().tolist() == [-1, 1, 0], array.type


def test_extreme_ranges_stay_finite():
    low, high = -1.7e308, 1.7e308
    found = encode(Number("a", low, high), [low, 0.0, high]).ravel()
    assert found.tolist() == [-1, 2.0**-60, 1]
    tiny = encode(Number("a", 0, 1e-299), [0.0, 5e-324, 5e-300, 1.0]).ravel()
    np.testing.assert_allclose(tiny, [-1, -1, 0, 1], atol=1e-15)
    with pytest.raises(ParameterError, match="low < high"):
        Number("a", 0, 5e-324)  # its middle is one of its ends


def test_a_flag_counts_all_but_zero_as_yes():
    assert encode(Flag("a"), [0.0, -0.0, 2.0, -1.0, math.nan, None]).ravel().tolist() == [
        -1, -1, 1, 1, 0, 0
    ]  # fmt: skip


# -- categories ----------------------------------------------------------------------------------

TEXTS = ["b", "a", "c", None, "", "b"]
ONE_HOT = [[0, 1], [1, 0], [0, 0], [0, 0], [0, 0], [0, 1]]
WITH_OTHER = [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(), pa.large_string(), getattr(pa, "string_view", pa.string)(),
        pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint16(), pa.large_string()),
    ],
)  # fmt: skip
def test_text_categories(kind):
    if pa.types.is_dictionary(kind):
        plain = pa.array(TEXTS).dictionary_encode()
        places = plain.indices.cast(kind.index_type)
        array = pa.DictionaryArray.from_arrays(places, plain.dictionary.cast(kind.value_type))
    else:
        array = pa.array(TEXTS).cast(kind)
    assert encode(Category("a", ("a", "b")), array).tolist() == ONE_HOT
    assert encode(Category("a", ("a", "b"), other=True), array).tolist() == WITH_OTHER
    # A slice of a column begins somewhere inside its buffers.
    assert encode(Category("a", ("a", "b")), array.slice(1, 3)).tolist() == ONE_HOT[1:4]


def test_a_null_in_the_dictionary_is_missing():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1]), pa.array(["a", None]))
    column = Category("a", ("a",), other=True)
    assert encode(column, array).tolist() == [[1, 0], [0, 0], [0, 0], [0, 0]]
    assert np.abs(encode(Hashed("a", 5), array)).sum(axis=1).tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [3, 1, 7, None]),
        (pa.uint64(), [3, 1, 2**64 - 1, None]),
        (pa.float32(), [3.0, 1.0, 0.5, math.nan]),
        (pa.float64(), [3.0, 1.0, math.nextafter(3, 4), math.inf]),
        (pa.decimal128(6, 2), [decimal.Decimal(v) for v in ("3", "1", "0.5")] + [None]),
        (pa.dictionary(pa.int8(), pa.int32()), [3, 1, 9, None]),
    ],
)
def test_number_categories(kind, values):
    column = Category("a", (1, 3, 1000), other=True)
    expected = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    assert encode(column, values, kind).tolist() == expected


def test_large_integers_are_told_apart():
    column = Category("a", (2**60, 2**60 + 1))
    assert encode(column, [2**60 + 1, 2**60, 2**60 + 2]).tolist() == [[0, 1], [1, 0], [0, 0]]


def test_a_missing_integer_is_not_zero():
    assert encode(Category("a", (0, 1), other=True), [0, None, 1]).tolist() == [
        [1, 0, 0],
        [0, 0, 0],
        [0, 1, 0],
    ]


def test_zero_has_no_sign():
    assert encode(Category("a", (0.0,)), [0.0, -0.0]).tolist() == [[1], [1]]


def test_fractions_are_compared_in_the_columns_type():
    assert encode(Category("a", (0.1,)), [0.1], pa.float32()).tolist() == [[1]]
    assert encode(Category("a", (0.5, 300)), [0, 1], pa.int8()).tolist() == [[0, 0], [0, 0]]


def test_booleans_as_categories():
    assert encode(Category("a", (True, False)), [True, False, None]).tolist() == [
        [1, 0], [0, 1], [0, 0]
    ]  # fmt: skip


# -- hashing -------------------------------------------------------------------------------------


def test_hashing_is_stable():
    """Known answers: the hash is part of what a fitted model means, and must never change."""
    words = ["Paris", "Rome", "", "Zürich"]
    found = encode(Hashed("town", 1000), words)
    assert found.argmax(axis=1).tolist() == [644, 995, 290, 850]
    assert found.sum(axis=1).tolist() == [1, 1, 1, 1]
    signed = encode(Hashed("town", 1000, signed=True), words)
    assert np.array_equal(np.abs(signed), found)
    assert signed.sum(axis=1).tolist() == [-1, -1, 1, 1]


def test_hashing_depends_on_the_column_and_not_on_the_others():
    words = [f"word {k}" for k in range(2000)]
    one, two = (encode(Hashed(name, 64), words).argmax(axis=1) for name in ("a", "b"))
    assert np.mean(one == two) < 0.05  # 1/64 by chance
    assert np.bincount(one, minlength=64).min() > 5  # 31 expected
    alone = [encode(Hashed("a", 64), [word]).argmax() for word in words[:20]]
    assert alone == one[:20].tolist()
    signs = encode(Hashed("a", 64, signed=True), words).sum(axis=1)
    assert 800 < np.count_nonzero(signs > 0) < 1200


def test_integers_hash_like_their_digits():
    text = encode(Hashed("a", 97), ["12", "-5", "18446744073709551615", None])
    assert np.array_equal(encode(Hashed("a", 97), [12, -5, None, None], pa.int8())[:2], text[:2])
    large = encode(Hashed("a", 97), [12, 2**64 - 1], pa.uint64())
    assert np.array_equal(large[1], text[2])
    assert not text[3].any()


def test_bytes_that_are_no_text_do_not_raise():
    raw = pa.array([b"\xff\xfe", b"ok", b"\xff\xfe"])
    array = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    hashed = encode(Hashed("a", 1000), array)
    assert np.array_equal(hashed[0], hashed[2])
    assert hashed.sum(axis=1).tolist() == [1, 1, 1]
    assert encode(Category("a", ("ok",), other=True), array).tolist() == [[0, 1], [1, 0], [0, 1]]


# -- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "values", "expected", "rule"),
    [
        (NumberLabel("y", 0, 5), [1.5, 99.0, None], [1.5, 99.0, math.nan], (0.0, 5.0)),
        (SignLabel("y"), [-1, 1, None], [-1, 1, math.nan], "sign"),
        (ClassLabel("y", ("n", "p")), ["p", "n", "x"], [1, 0, math.nan], Classes(0, 1)),
        (ClassLabel("y", (5, 7, 6)), [7, 5, None], [1, 0, math.nan], Classes(0, 1, 2)),
        (ClassLabel("y", (False, True)), [True, False, None], [1, 0, math.nan], Classes(0, 1)),
    ],
)
def test_labels_and_their_bounds_fit(label, values, expected, rule):
    encoder = TableEncoder(Schema((Flag("a"),), label))
    rows, labels = encoder.encode(pa.table({"a": [True] * 3, "y": values}))
    np.testing.assert_array_equal(labels, expected)
    bounds = encoder.bounds(intercept=2.0)
    assert bounds == Bounds(1.0, label=rule, intercept=2.0)
    block = bounds.apply(rows, labels)
    assert block.present.tolist() == [True, True, False]


# -- the whole table -----------------------------------------------------------------------------

SCHEMA = Schema(
    (
        Number("age", 0, 100, "indicator"),
        Category("work", ("a", "b"), other=True),
        Ignore("when"),
        Hashed("town", 7, signed=True),
        Flag("owner"),
    ),
    SignLabel("y"),
)
FRAME = {
    "y": [1, -1, 1],
    "town": ["x", None, "z"],
    "owner": [True, None, False],
    "when": [datetime.date(2020, 1, 1)] * 3,
    "age": [50.0, None, 100.0],
    "work": ["b", "zzz", None],
}


def test_order_names_and_width_come_from_the_schema():
    encoder = TableEncoder(SCHEMA)
    assert encoder.feature_names == (
        "age", "age missing", "work=a", "work=b", "work=(other)", *(f"town#{k}" for k in range(7)),
        "owner",
    )  # fmt: skip
    assert encoder.width == len(encoder.feature_names) == 13
    rows, labels = encoder.encode(pa.table(FRAME))
    expected = [[2.0**-60, 0, 0, 1, 0], [0, 1, 0, 0, 1], [1, 0, 0, 0, 0]]
    assert rows[:, :5].tolist() == expected
    assert rows[:, 12].tolist() == [1, 0, -1]
    assert np.abs(rows[:, 5:12]).sum(axis=1).tolist() == [1, 0, 1]
    assert labels.tolist() == [1, -1, 1]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_frames_of_all_libraries_agree(sparse, dtype):
    encoder = TableEncoder(SCHEMA, sparse=sparse, dtype=dtype)
    table = pa.table(FRAME)
    rows, labels = encoder.encode(table)
    assert rows.dtype == dtype
    pandas = table.to_pandas(
        types_mapper={pa.string(): pd.StringDtype(), pa.bool_(): pd.BooleanDtype()}.get
    )
    categorical = pandas.astype({"work": "category", "town": "category"})
    batch = table.combine_chunks().to_batches()[0]
    for other in (pandas, categorical, pl.DataFrame(FRAME), batch):
        found, found_labels = encoder.encode(other)
        assert abs(found - rows).max() == 0
        assert found_labels.tolist() == labels.tolist()
    dense = TableEncoder(SCHEMA, sparse=False).encode(table)[0]
    assert np.array_equal(rows.toarray() if sparse else rows, dense)
    if sparse:
        assert rows.has_sorted_indices
        assert np.count_nonzero(rows.data) == rows.nnz  # zeros are not stored


def test_long_tables_are_cut_without_a_seam():
    rng = np.random.default_rng(0)
    n = 150_000
    table = pa.table({
        "age": rng.normal(50, 40, n), "work": np.array(["a", "b", "c"])[rng.integers(0, 3, n)],
        "when": np.zeros(n), "town": np.array(["x", "y", "z"])[rng.integers(0, 3, n)],
        "owner": rng.random(n) < 0.5, "y": np.ones(n),
    })  # fmt: skip
    pieces = pa.concat_tables([table.slice(0, 70_001), table.slice(70_001)])
    for sparse in (False, True):
        encoder = TableEncoder(SCHEMA, sparse=sparse)
        rows = encoder.encode(pieces)[0]
        parts = [encoder.encode(table.slice(k, 50_000))[0] for k in range(0, n, 50_000)]
        for k, part in enumerate(parts):
            assert abs(rows[50_000 * k : 50_000 * (k + 1)] - part).max() == 0
        scaled = np.clip((table["age"].to_numpy() - 50) / 50, -1, 1)
        ages = rows[:, [0]].toarray().ravel() if sparse else rows[:, 0]
        np.testing.assert_allclose(ages, scaled, rtol=0, atol=1e-15)


def test_empty_tables_have_empty_rows():
    table = pa.table(FRAME).slice(0, 0)
    for sparse in (False, True):
        rows, labels = TableEncoder(SCHEMA, sparse=sparse).encode(table)
        assert rows.shape == (0, 13)
        assert labels.shape == (0,)


def test_features_do_not_need_the_label():
    encoder = TableEncoder(SCHEMA)
    table = pa.table(FRAME)
    expected = encoder.encode(table)[0]
    assert np.array_equal(encoder.features(table.drop_columns(["y"])), expected)
    assert np.array_equal(encoder.features(table), expected)
    with pytest.raises(DataError, match="column 'y' is missing"):
        encoder.encode(table.drop_columns(["y"]))


def test_sparse_is_chosen_from_the_public_width():
    assert not TableEncoder(Schema((Hashed("a", 256),))).sparse
    assert TableEncoder(Schema((Hashed("a", 257),))).sparse
    many = tuple(Category(f"c{k}", ("a", "b", "c", "d")) for k in range(100))
    assert not TableEncoder(Schema(many)).sparse


# -- bounds --------------------------------------------------------------------------------------


def norm_up(k):
    """Return the least float that is at least sqrt(k)."""
    from fractions import Fraction

    root = math.sqrt(k)
    return root if Fraction(root) ** 2 >= k else math.nextafter(root, 9e9)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 9, 10, 11, 20])
def test_feature_norm_is_the_worst_case_rounded_up(k):
    from fractions import Fraction

    encoder = TableEncoder(Schema(tuple(Flag(f"f{j}") for j in range(k))))
    assert Fraction(encoder.feature_norm) ** 2 >= k
    assert encoder.feature_norm <= math.nextafter(norm_up(k), 9e9)


def test_bounds_in_other_norms():
    encoder = TableEncoder(SCHEMA)  # four slots, thirteen columns
    assert encoder.bounds(norm=L1).feature_norm == pytest.approx(4.0, rel=1e-14)
    assert encoder.bounds(norm=LINF).feature_norm == 1.0
    assert encoder.bounds(norm=Lp(3.0)).feature_norm == pytest.approx(4 ** (1 / 3), rel=1e-14)
    weights = tuple(float(k + 1) for k in range(13))
    weighted = encoder.bounds(norm=WeightedLp(1.0, weights)).feature_norm
    assert weighted == pytest.approx(2 + 5 + 12 + 13, rel=1e-11)
    assert encoder.bounds(feature_norm=0.5).feature_norm == 0.5
    wide = TableEncoder(Schema((Hashed("a", 5000),)))
    with pytest.raises(ParameterError, match="needs feature_norm"):
        wide.bounds(norm=WeightedLp(2.0, (1.0,) * 5000))


anything = st.one_of(st.none(), st.floats(), st.floats(width=32), st.just(1e308))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(anything, st.none() | st.text(max_size=3), st.none() | st.booleans()), min_size=1
    ),
    st.sampled_from([np.float32, np.float64]),
)
def test_no_value_raises_or_exceeds_the_norm(entries, dtype):
    table = pa.table({
        "age": pa.array([row[0] for row in entries], pa.float64()),
        "work": pa.array([row[1] for row in entries], pa.string()),
        "town": pa.array([row[1] for row in entries], pa.string()),
        "owner": pa.array([row[2] for row in entries], pa.bool_()),
        "when": pa.nulls(len(entries)),
        "y": pa.array([row[0] for row in entries], pa.float64()),
    })  # fmt: skip
    encoder = TableEncoder(SCHEMA, dtype=dtype)
    rows, labels = encoder.encode(table)
    assert np.all(np.abs(rows) <= 1)
    assert np.all(np.count_nonzero(rows, axis=1) <= encoder.slots)
    block = encoder.bounds().apply(rows, labels)
    kept = block.present
    # The bound costs no row more than rounding.
    np.testing.assert_allclose(
        block.rows[kept], rows[kept], rtol=1e-6 if dtype is np.float32 else 1e-13
    )


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "array", "words"),
    [
        (Number("a", 0, 1), pa.array(["secret"]), ["'a'", "numbers", "string"]),
        (Number("a", 0, 1), pa.array([["secret"]]), ["'a'", "numbers", "list"]),
        (Number("a", 0, 1), pa.array([datetime.date(1999, 7, 31)]), ["'a'", "date32"]),
        (Number("a", 0, 1), pa.array([datetime.datetime(1999, 7, 31)]), ["'a'", "timestamp"]),
        (Number("a", 0, 1), pa.array([{"b": 1}]), ["'a'", "struct"]),
        (Number("a", 0, 1), pa.array([b"secret"]), ["'a'", "binary"]),
        (
            Number("a", 0, 1),
            pa.array(["secret"]).dictionary_encode(),
            ["'a'", "dictionary of text"],
        ),
        (Flag("a"), pa.array(["yes"]), ["'a'", "numbers", "string"]),
        (Category("a", ("x",)), pa.array([17]), ["'a'", "text", "int64"]),
        (Category("a", (1, 2)), pa.array(["secret"]), ["'a'", "numbers", "string"]),
        (Hashed("a", 5), pa.array([True]), ["'a'", "text or numbers", "bool"]),
        (Hashed("a", 5), pa.array([[17]]), ["'a'", "text or numbers", "list"]),
    ],
)
def test_wrong_types_are_refused_by_column_and_type(column, array, words):
    encoder = TableEncoder(Schema((column,)))
    with pytest.raises(DataError) as refusal:
        encoder.encode(pa.table({"a": array}))
    for word in words:
        assert word in str(refusal.value)
    for value in ("secret", "17", "1999", "0.5", "yes"):
        assert value not in str(refusal.value)


def test_columns_missing_extra_and_twice_are_named():
    encoder = TableEncoder(SCHEMA)
    table = pa.table(FRAME)
    with pytest.raises(DataError, match="column 'age' is missing; expected numbers"):
        encoder.encode(table.drop_columns(["age"]))
    with pytest.raises(DataError, match="not declared: 'more', 'still more'"):
        encoder.encode(
            table.append_column("more", table["y"]).append_column("still more", table["y"])
        )
    wide = table
    for number in range(30):
        wide = wide.append_column(f"x{number}", table["y"])
    with pytest.raises(DataError, match="'x7' and 22 more; declare each"):
        encoder.encode(wide)
    with pytest.raises(DataError, match="column 'age' is in the table more than once"):
        encoder.encode(table.append_column("age", table["age"]))
    encoder.encode(table.drop_columns(["when"]))  # an ignored column need not be there
    doubled = pd.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    with pytest.raises(DataError, match="distinct column names"):
        TableEncoder(Schema((Flag("a"),))).encode(doubled)


@pytest.mark.parametrize("values", [["x", 17], ["secret", "x"], [17, None], [[1], [2]]])
def test_objects_are_read_as_what_was_declared_whatever_they_hold(values):
    """One odd entry makes pandas hold a column as objects: what is no such thing is missing."""
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    rows = TableEncoder(Schema((Category("a", ("x",), other=True),)), sparse=False).encode(frame)[0]
    expected = {"x": [1, 0], "secret": [0, 1]}
    texts = [value if isinstance(value, str) else None for value in values]
    assert rows.tolist() == [expected.get(value, [0, 0]) for value in texts]
    kept = [17.0 if value == 17 else 0.0 for value in values]
    rows = TableEncoder(Schema((Number("a", -20, 20),)), sparse=False).encode(frame)[0]
    assert rows[:, 0].tolist() == [value / 20 for value in kept]
    rows = TableEncoder(Schema((Flag("a"),)), sparse=False).encode(frame)[0]
    assert rows[:, 0].tolist() == [float(value != 0) for value in kept]
    rows = TableEncoder(Schema((Ignore("a"), Flag("b")))).encode(frame.assign(b=True))[0]
    assert rows.tolist() == [[1], [1]]


ODD_WORDS = ["x", "\ud800", None, 17, "zzz", ("t",)]
ODD_ROWS = [[1, 0], [0, 0], [0, 0], [0, 0], [0, 1], [0, 0]]


def odd_frames():
    objects = pd.Series(ODD_WORDS, dtype=object)
    known = pd.Index(["x", "\ud800", 17, "zzz", ("t",)], dtype=object, tupleize_cols=False)
    words = [word if isinstance(word, str) else None for word in ODD_WORDS]
    yield pd.DataFrame({"a": objects})
    yield pd.DataFrame({"a": pd.Series(pd.Categorical(objects, categories=known))})
    yield pd.DataFrame({"a": pd.Series(words, dtype="string[python]")})
    yield pl.DataFrame({"a": pl.Series(ODD_WORDS, dtype=pl.Object)})


@pytest.mark.parametrize("frame", list(odd_frames()))
def test_text_without_a_utf8_form_is_missing(frame):
    rows = TableEncoder(Schema((Category("a", ("x",), other=True),)), sparse=False).encode(frame)[0]
    assert rows.tolist() == ODD_ROWS
    hashed = TableEncoder(Schema((Hashed("a", 50),)), sparse=False).encode(frame)[0]
    text = isinstance(frame, pd.DataFrame) and frame["a"].dtype == "string"
    assert hashed.sum(axis=1).tolist() == [1, 0, 0, not text, 1, 0]
    numbers = TableEncoder(Schema((Number("a", -34, 34),)), sparse=False)
    if text:  # a type that says what it holds
        with pytest.raises(DataError, match="column 'a' must hold numbers, its type is"):
            numbers.encode(frame)
    else:
        assert numbers.encode(frame)[0][:, 0].tolist() == [0, 0, 0, 0.5, 0, 0]


COLUMNS = [
    (Number("a", 0, 9), [1.0, 2.0, 3.0]),
    (Number("a", 0, 9, missing="indicator"), [1, 2, 3]),
    (Flag("a"), [True, False, True]),
    (Category("a", (1, 2), other=True), [1, 2, 3]),
    (Category("a", ("x", "y"), other=True), ["x", "y", "z"]),
    (Hashed("a", 64), ["x", "y", "z"]),
    (Hashed("a", 64), [1, 2, 3]),
]


@pytest.mark.parametrize("odd", [None, "n/a", 10**30, 2.5, float("nan"), ("t",), b"x", True])
@pytest.mark.parametrize(("column", "values"), COLUMNS)
@pytest.mark.parametrize("category", [False, True])
def test_one_entry_changes_its_own_row_alone(column, values, odd, category):
    """pandas chooses another type for the whole column; the other rows are what they were."""
    encoder = TableEncoder(Schema((column,)), sparse=False)
    kind = "category" if category else None
    clean = encoder.encode(pd.DataFrame({"a": pd.Series(values, dtype=kind)}))[0]
    other = encoder.encode(pd.DataFrame({"a": pd.Series([*values[:2], odd], dtype=kind)}))[0]
    assert np.array_equal(clean[:2], other[:2])


def test_numbers_are_hashed_by_their_digits():
    """An integer column with a hole is a column of floats in pandas."""
    whole = encode(Hashed("a", 97), pa.array([1, 2, 3]))
    halves = pa.array(np.array([1, 2, 3], dtype=np.float16))
    assert np.array_equal(encode(Hashed("a", 97), halves), whole)
    for kind in (pa.float64(), pa.float32(), pa.decimal128(25, 3)):
        assert np.array_equal(encode(Hashed("a", 97), pa.array([1, 2, 3]).cast(kind)), whole)
    assert np.array_equal(encode(Hashed("a", 97), pa.array(["1", "2", "3"])), whole)
    parts = encode(Hashed("a", 97), pa.array([2.5, np.nan, np.inf, None]))
    assert np.array_equal(parts[0], encode(Hashed("a", 97), pa.array(["2.5"]))[0])
    assert not parts[1:].any()


def test_categories_of_other_types_are_encoded_as_before():
    frame = pd.DataFrame({"a": pd.Categorical([3, 1, None], categories=[1, 3])})
    rows = TableEncoder(Schema((Category("a", (1, 3)),)), sparse=False).encode(frame)[0]
    assert rows.tolist() == [[0, 1], [1, 0], [0, 0]]


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="PyArrow without string views")
def test_string_views_are_hashed_like_text():
    plain = pa.array(TEXTS)
    view = plain.cast(pa.string_view())
    places = pa.array([5, 4, 3, 2, 1, 0])
    expected = encode(Hashed("a", 97), plain)
    assert np.array_equal(encode(Hashed("a", 97), view), expected)
    assert np.array_equal(encode(Hashed("a", 97), view.slice(1, 3)), expected[1:4])
    dictionary = pa.DictionaryArray.from_arrays(places, view)
    assert np.array_equal(encode(Hashed("a", 97), dictionary), expected[::-1])
    raw = pa.array([b"\xff\xfe", b"ok"])
    broken = pa.Array.from_buffers(pa.string(), 2, raw.buffers()).cast(pa.string_view())
    assert encode(Category("a", ("ok",), other=True), broken).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("values", [[1.0], [98765.0]])
def test_a_refusal_holds_on_to_no_value(values):
    frame = pd.DataFrame({"a": pd.arrays.SparseArray(values, fill_value=98765.0)})
    with pytest.raises(DataError, match="column 'a' has the type Sparse, which") as refusal:
        TableEncoder(Schema((Flag("a"),))).encode(frame)
    assert refusal.value.__context__ is None
    with pytest.raises(DataError, match="cannot be encoded") as refusal:
        TableEncoder(SCHEMA).encode([values])
    assert refusal.value.__context__ is None


def test_the_size_of_a_dictionary_is_not_told():
    told = []
    for count in (3, 300):  # so many categories need indices of one byte, or of two
        words = pd.array([f"w{k}" for k in range(count)], dtype="string")
        frame = pd.DataFrame({"a": pd.Series(words, dtype="category")})
        with pytest.raises(DataError, match="dictionary of text") as refusal:
            TableEncoder(Schema((Flag("a"),))).encode(frame)
        told.append(str(refusal.value))
    assert told[0] == told[1]


def test_what_is_no_frame_is_refused():
    encoder = TableEncoder(SCHEMA)
    for table in ([1, 2], np.ones((2, 2)), pl.DataFrame(FRAME).lazy(), None, "file.csv"):
        with pytest.raises(DataError, match="cannot be encoded"):
            encoder.encode(table)
    frame = pd.DataFrame({"a": np.array([1 + 2j, 1 + 0j])})  # one cell is enough to have it so
    assert TableEncoder(Schema((Flag("a"),))).encode(frame)[0].tolist() == [[0], [1]]


def test_only_floats_are_possible():
    with pytest.raises(ParameterError, match="dtype must be float32 or float64, got int64"):
        TableEncoder(SCHEMA, dtype=np.int64)


def test_without_pyarrow_the_extra_is_named(monkeypatch):
    import sys

    from dpsco.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"dpsco\[parquet\]"):
        TableEncoder(SCHEMA).encode(pl.DataFrame(FRAME))


def test_speed():
    """20 mixed columns: about a microsecond a row here; Python loops would take ten times that."""
    rng = np.random.default_rng(0)
    n = 100_000
    words = np.array([f"w{k}" for k in range(1000)])
    data, columns = {}, []
    for k in range(5):
        data |= {
            f"n{k}": rng.normal(size=n), f"c{k}": words[rng.integers(0, 20, n)],
            f"h{k}": words[rng.integers(0, 1000, n)], f"f{k}": rng.random(n) < 0.5,
        }  # fmt: skip
        columns += [
            Number(f"n{k}", -3, 3), Category(f"c{k}", tuple(words[:20])), Hashed(f"h{k}", 64),
            Flag(f"f{k}"),
        ]  # fmt: skip
    table = pa.table(data)
    encoder = TableEncoder(Schema(tuple(columns)))
    encoder.encode(table.slice(0, 100))
    start = time.process_time()
    encoder.encode(table)
    assert time.process_time() - start < 2.0


def test_bounds_must_read_labels_as_the_schema_made_them():
    """Classes are numbered by the encoder: another rule would make most rows null rows."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": pd.array(["no", "yes"], dtype="string")})
    encoder = TableEncoder(Schema((Number("a", 0, 3),), label=ClassLabel("y", ("no", "yes"))))
    table = from_frame(frame, encoder=encoder)
    for rule in ("sign", Classes(1, 2), Classes("no", "yes", "maybe"), Classes("no", "x"), 3.0):
        with pytest.raises(DataError, match=r"as bounds = encoder\.bounds"):
            table.bounded(Bounds(2.0, label=rule))
    for rule, codes in (
        (Classes(0, 1), [-1.0, 1.0]),
        (Classes("no", "yes"), [-1.0, 1.0]),
        (Classes("yes", "no"), [1.0, -1.0]),
    ):
        block = table.bounded(Bounds(2.0, label=rule), order="given").rows()
        assert block.present.all()
        assert block.labels.tolist() == codes
    assert table.bounded(encoder.bounds()).rows().present.all()
    odd = from_frame(frame.assign(y=pd.array(["x", "yes"], dtype="string")), encoder=encoder)
    for rule in (Classes(0, 1), Classes("no", "yes")):
        block = odd.bounded(Bounds(2.0, label=rule), order="given").rows()
        assert block.present.tolist() == [False, True]
    numbers = TableEncoder(Schema((Flag("y"),), label=NumberLabel("a", 0, 3)))
    ranged = from_frame(frame.assign(y=True), encoder=numbers)
    assert ranged.bounded(Bounds(2.0, label=(0.0, 1.0))).n == 2  # a narrower range is fine


@pytest.mark.parametrize("encoder", [Schema((Flag("a"),)), "schema.json", 3])
def test_what_is_no_encoder_is_refused(encoder):
    with pytest.raises(ParameterError, match=r"encoder must be a dpsco\.data\.TableEncoder"):
        from_frame(pd.DataFrame({"a": [True]}), encoder=encoder)


@pytest.mark.parametrize("schema", [{"a": 1}, [Number("a", 0, 1)], None])
def test_what_is_no_schema_is_refused(schema):
    with pytest.raises(ParameterError, match=r"TableEncoder needs a Schema"):
        TableEncoder(schema)


def test_odd_types_are_refused():
    with pytest.raises(ParameterError, match="float32 or float64"):
        TableEncoder(Schema((Flag("a"),)), dtype="foo")
