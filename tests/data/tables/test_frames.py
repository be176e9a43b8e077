"""Frames give the rows that arrays give; types are refused by name, values never."""

import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpsco.data import Bounds, Classes, from_arrays, from_frame
from dpsco.errors import DataError, MissingExtraError, ParameterError

N = 50


def columns(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "a": rng.normal(size=N),
        "b": rng.integers(-3, 4, size=N),
        "c": rng.random(N) < 0.5,
        "y": np.where(rng.random(N) < 0.5, -1, 1),
    }


def as_pandas(data):
    return pd.DataFrame(data)


def as_nullable(data):
    return pd.DataFrame(data).convert_dtypes(dtype_backend="numpy_nullable")


def as_pandas_arrow(data):
    return pd.DataFrame(data).convert_dtypes(dtype_backend="pyarrow")


def as_polars(data):
    return pl.DataFrame(data)


def as_arrow(data):
    return pa.table(data)


def as_chunks(data):
    table = pa.table(data)
    return pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)])


KINDS = [as_pandas, as_nullable, as_pandas_arrow, as_polars, as_arrow, as_chunks]


def rows_of(table, **bounds):
    return table.bounded(Bounds(2.0, **bounds), order="given").rows()


@pytest.mark.parametrize("kind", KINDS)
def test_frames_agree_with_arrays(kind):
    data = columns()
    wanted = rows_of(
        from_arrays(np.column_stack([data["a"], data["b"], data["c"]]), data["y"]), label="sign"
    )
    table = from_frame(kind(data), label="y")
    assert (table.n, table.d, table.labels, table.dtype) == (N, 3, "number", np.float64)
    found = rows_of(table, label="sign")
    assert np.array_equal(found.rows, wanted.rows)
    assert np.array_equal(found.labels, wanted.labels)
    some = from_frame(kind(data), label="c", features=["b", "a"])
    found = rows_of(some, label=Classes(0, 1))
    wanted = rows_of(
        from_arrays(np.column_stack([data["b"], data["a"]]), data["c"]), label=Classes(0, 1)
    )
    assert np.array_equal(found.rows, wanted.rows)
    assert np.array_equal(found.labels, wanted.labels)
    assert from_frame(kind(data)).labels == "none"
    assert from_frame(kind(data)).d == 4


@pytest.mark.parametrize("kind", [as_pandas, as_nullable, as_pandas_arrow, as_polars, as_arrow])
def test_float32_frames_stay_float32(kind):
    data = {"a": np.full(3, 0.5, dtype=np.float32), "b": np.full(3, 0.25, dtype=np.float32)}
    frame = pd.DataFrame(data).astype("Float32") if kind is as_nullable else kind(data)
    assert from_frame(frame).dtype == np.float32
    mixed = {**data, "c": np.ones(3)}
    assert from_frame(kind(mixed)).dtype == np.float64


MISSING = {
    "a": [0.5, None, 0.25, 0.5, float("nan")],
    "b": [1, 0, None, 1, 0],
    "c": [True, False, True, None, True],
}


def missing_frames():
    arrow = pa.table(MISSING)
    yield "arrow", arrow
    yield "polars", pl.DataFrame(MISSING, strict=False)
    yield "pandas arrow", arrow.to_pandas(types_mapper=pd.ArrowDtype)
    types = {"a": "Float64", "b": "Int64", "c": "boolean"}
    yield "pandas nullable", pd.DataFrame({k: pd.array(MISSING[k], dtype=types[k]) for k in types})


@pytest.mark.parametrize(("name", "frame"), list(missing_frames()))
def test_a_missing_value_makes_a_null_row(name, frame):
    block = rows_of(from_frame(frame))
    assert block.present.tolist() == [True, False, False, False, False]
    np.testing.assert_allclose(block.rows[0], [0.5, 1.0, 1.0])
    assert not block.rows[1:].any()
    label = rows_of(from_frame(frame, label="b", features=["c"]), label=Classes(0, 1))
    assert label.present.tolist() == [True, True, False, False, True]
    assert label.labels[:2].tolist() == [1.0, -1.0]


WORDS = ["no", "yes", None, "No", "x" * 5000]
NO_YES = Classes("no", "yes")


def text_frames():
    plain = {"x": [0.5] * 5, "y": WORDS}
    arrow = pa.table(plain)
    yield arrow
    yield pa.table({"x": plain["x"], "y": pa.array(WORDS).dictionary_encode()})
    yield pa.table({"x": plain["x"], "y": pa.array(WORDS, type=pa.large_string())})
    yield pl.DataFrame(plain)
    yield pl.DataFrame(plain).with_columns(pl.col("y").cast(pl.Categorical))
    yield pd.DataFrame({"x": plain["x"], "y": pd.array(WORDS, dtype="string")})
    yield pd.DataFrame({"x": plain["x"], "y": pd.array(WORDS, dtype="string").astype("category")})
    yield arrow.to_pandas(types_mapper=pd.ArrowDtype)


@pytest.mark.parametrize("frame", list(text_frames()))
def test_labels_of_text(frame):
    table = from_frame(frame, label="y")
    assert table.labels == "text"
    block = rows_of(table, label=Classes("no", "yes"))
    assert block.labels.tolist() == [-1.0, 1.0, 1.0, 1.0, 1.0]
    assert block.present.tolist() == [True, True, False, False, False]
    with pytest.raises(DataError, match="strings"):
        table.bounded(Bounds(1.0, label="sign"))


@pytest.mark.parametrize("kind", [as_pandas, as_pandas_arrow, as_nullable, as_polars, as_arrow])
def test_integers_that_float64_cannot_hold_are_no_error(kind):
    big = np.array([2**53 + 1, -(2**62) - 1, 3], dtype=np.int64)
    block = rows_of(from_frame(kind({"a": big, "b": np.ones(3)})))
    assert block.present.all()
    assert rows_of(
        from_frame(kind({"a": np.ones(3), "b": big}), label="b"), label=5.0
    ).labels.tolist() == [5, -5, 3]


def bad_frames():
    when = [pd.Timestamp("2020-01-01")] * 2
    yield pd.DataFrame({"fine": [1.0, 2.0], "odd": pd.array(["98765", "b"], dtype="string")}), True
    yield pd.DataFrame({"fine": [1.0, 2.0], "odd": when}), False
    yield pd.DataFrame({"fine": [1.0, 2.0], "odd": pd.Categorical([1, 2])}), True
    yield pd.DataFrame({"fine": [1.0, 2.0], "odd": pd.Categorical(when)}), False
    yield pl.DataFrame({"fine": [1.0, 2.0], "odd": ["98765", "b"]}), True
    yield pl.DataFrame({"fine": [1.0, 2.0], "odd": [[1.0], [2.0]]}), False
    yield pa.table({"fine": [1.0, 2.0], "odd": [b"a", b"b"]}), False
    yield pa.table({"fine": [1.0, 2.0], "odd": when}), False
    yield pa.table({"fine": [1.0, 2.0], "odd": pa.nulls(2)}), False


@pytest.mark.parametrize(("frame", "text"), list(bad_frames()))
def test_columns_of_other_types_are_refused_by_name(frame, text):
    with pytest.raises(DataError, match="column 'odd'") as caught:
        from_frame(frame)
    assert "98765" not in str(caught.value)
    if not text:  # which is no feature, but can be a label
        with pytest.raises(DataError, match="column 'odd'"):
            from_frame(frame, label="odd")


def test_a_column_of_objects_is_read_as_declared_and_the_rest_is_missing():
    """One odd entry makes pandas hold text or numbers as objects; it raises no error."""
    labels = ["no", "yes", None, 98765, "yes"]
    frame = pd.DataFrame({"x": np.ones(5), "y": pd.Series(labels, dtype=object)})
    table = from_frame(frame, label="y")
    assert table.labels == "list"
    block = table.bounded(Bounds(2.0, label=Classes("no", "yes")), order="given").rows()
    assert block.present.tolist() == [True, True, False, False, True]
    assert block.labels[block.present].tolist() == [-1.0, 1.0, 1.0]
    block = rows_of(table, label=Classes(0, 98765))
    assert block.present.tolist() == [False, False, False, True, False]
    assert rows_of(from_frame(frame)).present.tolist() == [False, False, False, True, False]


def inferred(values):
    """Return the array that NumPy makes of numbers, and of one that no machine has."""
    return np.array(values, dtype=None if {*map(type, values)} <= {int, float} else object)


def series(cells):
    """Return what pandas makes of cells; older ones cannot hold an integer beyond all floats."""
    try:
        return pd.Series(cells)
    except OverflowError:
        return pd.Series(cells, dtype=object)


def categories(cells):
    try:
        return series(cells).astype("category")
    except OverflowError:  # likewise
        return series([*cells[:-1], None]).astype("category")


FEATURES = {
    "list": lambda cells: from_arrays([[cell, 1.0] for cell in cells]),
    "array": lambda cells: from_arrays(inferred(cells)[:, None]),
    "frame": lambda cells: from_frame(pd.DataFrame({"a": series(cells), "b": 1.0})),
    "arrays of a frame": lambda cells: from_arrays(pd.DataFrame({"a": series(cells), "b": 1.0})),
}
LABELS = {
    "list": lambda cells: from_arrays(np.ones((3, 1)), cells),
    "array": lambda cells: from_arrays(np.ones((3, 1)), inferred(cells)),
    "frame": lambda cells: from_frame(pd.DataFrame({"a": 1.0, "y": series(cells)}), label="y"),
    "series": lambda cells: from_arrays(np.ones((3, 1)), series(cells)),
    "category": lambda cells: from_arrays(np.ones((3, 1)), categories(cells)),
}
RULES = [([0.5, 0.25, 1.0], 2.0), ([0, 1, 1], Classes(0, 1)), (["no", "yes", "no"], NO_YES)]
ODD_CELLS = ["n/a", 10**30, 10**400, None, ("t",), b"x", True, float("nan")]


def assert_rows_alike(clean, other, **bounds):
    """Of two neighbours one may be held as numbers or text, and the other as objects."""
    a, b = (rows_of(table, **bounds) for table in (clean, other))
    assert np.array_equal(a.rows[:2], b.rows[:2])
    assert np.array_equal(a.labels[:2], b.labels[:2])
    assert b.present[:2].all()


@pytest.mark.parametrize("odd", ODD_CELLS, ids=lambda odd: repr(odd)[:12])
@pytest.mark.parametrize("form", FEATURES)
def test_one_cell_changes_its_own_row_alone(form, odd):
    make = FEATURES[form]
    for cells in ([0.5, 0.25, 1.0], [0, 1, 1]):
        assert_rows_alike(make(cells), make([*cells[:2], odd]))


@pytest.mark.parametrize("odd", ODD_CELLS, ids=lambda odd: repr(odd)[:12])
@pytest.mark.parametrize("form", LABELS)
def test_one_label_changes_its_own_row_alone(form, odd):
    make = LABELS[form]
    for cells, rule in RULES:
        assert_rows_alike(make(cells), make([*cells[:2], odd]), label=rule)


OFFSETS = pa.py_buffer(np.array([0, 2, 5, 7], dtype=np.int32).tobytes())


def broken_text(raw=b"noyes\xff\xfe"):
    """Return three labels, the last of which is no UTF-8; nothing checks that."""
    return pa.Array.from_buffers(pa.string(), 3, [None, OFFSETS, pa.py_buffer(raw)])


def broken_frames():
    broken, x = broken_text(), [1.0, 2.0, 3.0]
    categories = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), broken)
    yield pa.table({"x": x, "y": broken})
    yield pa.table({"x": x, "y": pa.chunked_array([broken.slice(0, 1), broken.slice(1)])})
    yield pa.table({"x": x, "y": categories})
    if hasattr(pa, "string_view"):
        yield pa.table({"x": x, "y": broken.cast(pa.string_view())})
    for array in (broken, categories):
        on_arrow = pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))
        yield pd.DataFrame({"x": x, "y": pd.Series(on_arrow)})


@pytest.mark.parametrize("frame", list(broken_frames()))
def test_labels_that_are_no_utf8_are_missing(frame):
    block = rows_of(from_frame(frame, label="y"), label=Classes("no", "yes"))
    assert block.present.tolist() == [True, True, False]
    assert block.labels[:2].tolist() == [-1.0, 1.0]


ODD_WORDS = ["no", "yes", None, 98765, "yes", "\ud800", ("t",), "no\0", float("nan")]


@pytest.mark.parametrize("kind", ["object", "category", "string", "polars"])
def test_objects_and_categories_of_them_are_read_as_text(kind):
    if kind == "polars":
        frame = pl.DataFrame({"x": [1.0] * 9, "y": pl.Series(ODD_WORDS, dtype=pl.Object)})
    else:
        labels = pd.Series(ODD_WORDS, dtype=object)
        if kind == "category":
            known = pd.Index([word for word in ODD_WORDS if word == word and word], dtype=object)
            labels = pd.Series(pd.Categorical(labels, categories=known.unique()))
            assert labels.cat.categories.dtype == object
        if kind == "string":
            words = [word if isinstance(word, str) else None for word in ODD_WORDS]
            labels = pd.Series(words, dtype="string[python]")
        frame = pd.DataFrame({"x": np.ones(9), "y": labels})
    table = from_frame(frame, label="y")
    assert table.labels == ("text" if kind == "string" else "list")
    block = rows_of(table, label=Classes("no", "yes"))
    assert block.present.tolist() == [True, True, False, False, True] + [False] * 4
    assert block.labels[block.present].tolist() == [-1.0, 1.0, 1.0]


@pytest.mark.parametrize("other", [None, 98765, ("t",), "zzz"])
def test_what_else_is_among_categories_of_text_decides_nothing(other):
    """After ``astype("category")`` the categories come from the rows."""
    frames = [
        pd.DataFrame({"x": np.ones(2), "y": pd.Series(["no", last], dtype="category")})
        for last in ("yes", other)
    ]
    blocks = [rows_of(from_frame(f, label="y"), label=Classes("no", "yes")) for f in frames]
    assert [block.present.tolist() for block in blocks] == [[True, True], [True, False]]


def listing_frames():
    names = pl.Enum(["Ann Smith", "Bob"])
    x = [1.0, 2.0]
    yield pl.DataFrame({"x": x, "odd": pl.Series(["Ann Smith", "Bob"], dtype=names)})
    words = pd.array(["Ann Smith", "Bob"], dtype="string")
    yield pd.DataFrame({"x": x, "odd": pd.Series(words, dtype="category")})
    yield pd.DataFrame({"x": x, "odd": pd.arrays.SparseArray([0.0, 98765.0], fill_value=98765.0)})
    yield pa.table({"x": x, "odd": pa.array(["Ann Smith", "Bob"]).dictionary_encode()})


@pytest.mark.parametrize("frame", list(listing_frames()))
def test_types_that_list_values_are_named_without_them(frame):
    from dpsco.data.schema.encoder import TableEncoder
    from dpsco.data.schema.schema import Number, Schema

    encoder = TableEncoder(Schema((Number("x", 0, 1), Number("odd", 0, 1))))
    for arguments in ({}, {"encoder": encoder}):
        with pytest.raises(DataError, match="'odd'") as caught:
            from_frame(frame, **arguments)
        assert caught.value.__context__ is None
        for secret in ("Ann", "98765", "int8", "int32"):
            assert secret not in str(caught.value)


def test_an_error_of_a_library_is_not_passed_on(monkeypatch):
    from dpsco.data.schema import columns

    def fail(array):
        raise ValueError("98765")

    monkeypatch.setattr(columns, "numbers", fail)
    with pytest.raises(DataError, match="column 'a' has the type double") as caught:
        from_frame(pa.table({"a": [98765.0]}))
    assert caught.value.__context__ is None
    assert "98765" not in str(caught.value)


@pytest.mark.thorough
def test_many_columns_are_told_apart_quickly():
    from dpsco.data.schema.columns import open_frame

    wide = pa.table({str(k): [1.0] for k in range(20_000)})
    start = time.process_time()
    open_frame(wide, "from_frame")
    assert time.process_time() - start < 1.0


def test_names_are_checked():
    frame = as_polars(columns())
    with pytest.raises(DataError, match="no column 'z'; it has 'a', 'b', 'c', 'y'"):
        from_frame(frame, label="z")
    with pytest.raises(DataError, match="no column 'z'"):
        from_frame(frame, features=["a", "z"])
    with pytest.raises(ParameterError, match="'a'"):
        from_frame(frame, features=["a", "a"])
    with pytest.raises(ParameterError, match="'a'"):
        from_frame(frame, features=["a", "b"], label="a")
    with pytest.raises(ParameterError, match="list"):
        from_frame(frame, features="a")
    with pytest.raises(DataError, match="at least one feature"):
        from_frame(frame, features=[])
    twice = pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"])
    with pytest.raises(DataError, match="twice: 'a'"):
        from_frame(twice)
    with pytest.raises(DataError, match="twice: 'a'"):
        from_frame(pa.table([[1.0], [2.0]], names=["a", "a"]))


def test_what_is_no_frame_is_refused():
    with pytest.raises(DataError, match=r"collect\(\)"):
        from_frame(pl.DataFrame({"a": [1.0]}).lazy())
    for thing in (np.zeros((2, 2)), [[1.0]], {"a": [1.0]}, None):
        with pytest.raises(DataError, match="from_arrays"):
            from_frame(thing)
    with pytest.raises(DataError, match="0 x 1"):
        from_frame(pl.DataFrame({"a": np.zeros(0)}))


def test_columns_may_have_other_names_than_strings():
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    assert from_frame(frame, label=1).d == 1


def test_an_index_of_rows_does_not_matter():
    frame = as_pandas(columns())
    other = frame.set_index(np.arange(N)[::-1])
    one, two = (rows_of(from_frame(f, label="y"), label="sign") for f in (frame, other))
    assert np.array_equal(one.rows, two.rows)


def test_without_narwhals_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(MissingExtraError, match=r"dpsco\[frames\]"):
        from_frame(as_pandas(columns()))


def test_an_encoder_says_what_is_feature_and_label():
    from dpsco.data.schema.encoder import TableEncoder
    from dpsco.data.schema.schema import Category, ClassLabel, Number, Schema

    schema = Schema(
        (Number("age", 0, 100), Category("work", ("a", "b"))), ClassLabel("ill", ("no", "yes"))
    )
    frame = pl.DataFrame({"age": [50.0, 7.0], "work": ["b", "a"], "ill": ["yes", None]})
    encoder = TableEncoder(schema)
    table = from_frame(frame, encoder=encoder)
    X, y = encoder.encode(frame)
    bounds = encoder.bounds()
    wanted = from_arrays(X, y).bounded(bounds, order="given").rows()
    found = table.bounded(bounds, order="given").rows()
    assert np.array_equal(found.rows, wanted.rows)
    assert found.labels.tolist()[0] == 1.0
    assert found.present.tolist() == [True, False]
    for arguments in ({"label": "ill"}, {"features": ["age"]}):
        with pytest.raises(ParameterError, match="schema"):
            from_frame(frame, encoder=encoder, **arguments)
