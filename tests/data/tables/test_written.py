"""How entries are written: numbers in text, labels for values, in every kind of table."""

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsco.data import from_csv, from_frame, from_parquet
from dpsco.data.schema.encoder import TableEncoder
from dpsco.data.schema.schema import (
    DECIMALS,
    THOUSANDS,
    Category,
    ClassLabel,
    Flag,
    Number,
    NumberLabel,
    Schema,
    SignLabel,
)
from dpsco.data.tables.arrow import mismatches
from dpsco.data.tables.written import number_in, numbers_in
from dpsco.errors import DataError, ParameterError

WRITINGS = [(d, t) for d in DECIMALS for t in (None, *THOUSANDS) if t != d]


def read(texts, *writing, kind=None):
    return numbers_in(pa.array(texts, kind or pa.string()), *writing).to_pylist()


@given(
    st.sampled_from(WRITINGS),
    st.floats(-1e9, 1e9),
    st.integers(0, 4),
    st.sampled_from(["", " ", "\t"]),
    st.sampled_from([pa.string(), pa.large_string()]),
)
def test_numbers_are_read_as_they_are_written(writing, value, digits, blank, kind):
    decimal, thousands = writing
    text = f"{value:,.{digits}f}"
    wanted = float(text.replace(",", ""))
    text = text.replace(",", "T").replace(".", decimal).replace("T", thousands or "")
    assert read([blank + text + blank], *writing, kind=kind) == [wanted]


@pytest.mark.thorough
@given(st.text(max_size=12), st.sampled_from(WRITINGS))
def test_no_text_raises(text, writing):
    (found,) = read([text], *writing)
    assert found is None or math.isfinite(found) or abs(found) == math.inf
    if not any(letter.isdigit() for letter in text):
        assert found in (None, 0.0, 1.0)


@pytest.mark.parametrize(
    ("text", "writing", "wanted"),
    [
        ("1.5", (",", None), None),  # another rule is not tried
        ("1,5", (".", None), None),
        ("1.234", (",", "."), 1234.0),
        ("1.23", (",", "."), None),  # no group of three digits
        ("12.34.567", (",", "."), None),
        (".234", (",", "."), None),
        ("1.234.567,89", (",", "."), 1234567.89),
        ("-1 000", (".", " "), -1000.0),
        ("1 00", (".", " "), None),
        ("1,5e3", (",", None), 1500.0),
        ("yes", (",", None), 1.0),
        ("", (",", None), None),
        ("1,2,3", (",", None), None),
    ],
)
def test_one_rule_is_applied(text, writing, wanted):
    assert read([text], *writing) == [wanted]


def test_numbers_of_keys():
    assert [number_in(text) for text in ("0", "1.0", "-3", "true", "N", "x", "", "\u0661")] == [
        0.0, 1.0, -3.0, 1.0, None, None, None, None,
    ]  # fmt: skip


# -- schemas ---------------------------------------------------------------------------------------

CODED = ClassLabel("y", ("no", "yes"), {"0": "no", "1": "yes"})


@given(st.sampled_from(WRITINGS), st.booleans())
def test_schemas_with_writing_survive_json(writing, with_labels):
    label = CODED if with_labels else ClassLabel("y", ("no", "yes"))
    columns = (Number("a", 0, 1), Category("c", ("x", "y"), labels={"1": "x"}))
    schema = Schema(columns, label, *writing)
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert hash(again) == hash(schema)
    assert ('"labels": {"0": "no"' in schema.to_json()) == with_labels


def test_a_schema_without_them_is_written_as_before():
    text = Schema((Number("a", 0, 1),), ClassLabel("y", ("no", "yes"))).to_json()
    assert not {"decimal", "thousands", "labels"} & set(text.replace('"', " ").split())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"decimal": ";"}, "'decimal' must be one of"),
        ({"decimal": 1}, "'decimal' must be one of"),
        ({"thousands": "."}, "says what 'decimal' is"),
        ({"decimal": ",", "thousands": ","}, "must differ"),
        ({"decimal": ",", "thousands": "x"}, "'thousands' must be one of"),
    ],
)
def test_wrong_writings_are_refused(fields, words):
    record = {"version": 1, "columns": [{"name": "a", "kind": "flag"}], **fields}
    with pytest.raises(ParameterError, match=words):
        Schema.from_json(json.dumps(record))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ("0", "must say what stands"),
        ([["0"]], "must say what stands"),
        ({"0": "maybe"}, "not among the declared"),
        ({"": "no"}, "not empty"),
        ({"1": "no", "1.0": "yes"}, "one number two values"),
        ({True: "no"}, "not empty"),
        ([["0", "no"], ["0", "yes"]], "different texts"),
        ({"\ud800": "no"}, "different texts"),
    ],
    ids=repr,
)
def test_wrong_labels_are_refused(labels, words):
    for make in (ClassLabel, Category):
        with pytest.raises(ParameterError, match=words):
            make("y", ("no", "yes"), labels=labels)


def test_labels_may_have_integers_as_keys_in_python():
    assert ClassLabel("y", ("no", "yes"), {0: "no", 1: "yes"}) == CODED


# -- the same table in every form ------------------------------------------------------------------

SCHEMA = Schema(
    (Number("a", 0, 10), Flag("f"), Category("c", ("x", "y"), labels={"7": "y"})), CODED, ","
)
TEXTS = {
    "a": ["1,5", "10", "1.5", None, "0,5"],
    "f": ["ja", "1", "0,0", None, "no"],
    "c": ["x", "7", "y", "7,0", None],
    "y": ["0", "yes", "1,0", "2", None],
}
WANTED = [
    [(1.5 - 5) / 5, 0, 1, 0],
    [1, 1, 0, 1],
    [0, -1, 0, 1],
    [0, 0, 0, 1],
    [(0.5 - 5) / 5, -1, 0, 0],
]
LABELS = [0.0, 1.0, 1.0, np.nan, np.nan]


def check(table):
    block = table.bounded(TableEncoder(SCHEMA).bounds(), order="given").rows()
    kept = ~np.isnan(LABELS)
    assert block.present.tolist() == kept.tolist()
    assert block.labels[kept].tolist() == [-1.0, 1.0, 1.0]  # two classes
    np.testing.assert_allclose(block.rows[kept], np.array(WANTED)[kept], atol=1e-12)


def test_csv(tmp_path):
    path = tmp_path / "a.csv"
    rows = zip(*TEXTS.values(), strict=True)
    lines = [",".join("" if entry is None else f'"{entry}"' for entry in row) for row in rows]
    path.write_text("\n".join(["a,f,c,y", *lines]) + "\n")
    check(from_csv(path, encoder=TableEncoder(SCHEMA)))


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_parquet_and_arrow(tmp_path, kind):
    table = pa.table({name: pa.array(entries).cast(kind) for name, entries in TEXTS.items()})
    X, y = TableEncoder(SCHEMA).encode(table)
    np.testing.assert_allclose(X, WANTED, atol=1e-12)
    np.testing.assert_array_equal(y, LABELS)
    pq.write_table(table, tmp_path / "a.parquet")
    check(from_parquet(tmp_path / "a.parquet", encoder=TableEncoder(SCHEMA)))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_frames(library):
    check(from_frame(library(TEXTS), encoder=TableEncoder(SCHEMA)))


@pytest.mark.parametrize(
    "entries",
    [
        pa.array([0, 1, 2, None], pa.int64()),
        pa.array([0, 1, 7, None], pa.uint8()),
        pa.array([0.0, 1.0, 0.5, None], pa.float64()),
        pa.array([0.0, 1.0, math.nan, math.inf], pa.float32()),
    ],
    ids=lambda array: str(array.type),
)
def test_columns_of_integers_for_classes_of_text(entries):
    table = pa.table({"a": [1.0] * 4, "y": entries})
    _, y = TableEncoder(Schema((Number("a", 0, 2),), CODED)).encode(table)
    np.testing.assert_array_equal(y, [0.0, 1.0, np.nan, np.nan])


def test_booleans_for_classes_of_text():
    label = ClassLabel("y", ("ill", "well"), {"true": "ill", "false": "well"})
    table = pa.table({"a": [1.0] * 3, "y": [True, False, None]})
    _, y = TableEncoder(Schema((Number("a", 0, 2),), label)).encode(table)
    np.testing.assert_array_equal(y, [0.0, 1.0, np.nan])


def test_words_for_classes_of_numbers():
    label = ClassLabel("y", (0, 1), {"healthy": 0, "ill": 1})
    for entries, wanted in (
        (["healthy", "ill", "1", "x", None], [0.0, 1.0, 1.0, np.nan, np.nan]),
        ([0, 1, 1, 3, None], [0.0, 1.0, 1.0, np.nan, np.nan]),
    ):
        table = pa.table({"a": [1.0] * 5, "y": entries})
        _, y = TableEncoder(Schema((Number("a", 0, 2),), label)).encode(table)
        np.testing.assert_array_equal(y, wanted)


def test_several_labels_stand_for_one_value():
    label = ClassLabel("y", ("no", "yes"), {"N": "no", "nein": "no", "J": "yes", "no": "yes"})
    table = pa.table({"a": [1.0] * 5, "y": ["N", "nein", "J", "yes", "no"]})
    _, y = TableEncoder(Schema((Number("a", 0, 2),), label)).encode(table)
    assert y.tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]  # what labels say goes before the value itself


def test_words_are_no_numbers_among_labels():
    """Yes is not 1 where 1 stands for a value: nobody has said so."""
    label = ClassLabel("y", ("good", "bad"), {"0": "good", "1": "bad"})
    table = pa.table({"a": [1.0] * 4, "y": ["1", "yes", "no", "1.0"]})
    _, y = TableEncoder(Schema((Number("a", 0, 2),), label)).encode(table)
    np.testing.assert_array_equal(y, [1.0, np.nan, np.nan, 1.0])


# -- types that contradict the schema --------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "name", "kind", "words"),
    [
        (Schema((Number("a", 0, 1),)), "a", pa.string(), '"decimal": "." or ","'),
        (Schema((Flag("a"),)), "a", pa.string(), "numbers written as text"),
        (Schema((Number("a", 0, 1),), decimal=","), "a", pa.date32(), "must hold numbers"),
        (
            Schema((Flag("f"),), ClassLabel("a", ("no", "yes"))),
            "a",
            pa.int64(),
            '"labels": {"0": "no"',
        ),
        (
            Schema((Flag("f"),), ClassLabel("a", ("no", "yes"), {"N": "no"})),
            "a",
            pa.int64(),
            "must hold text",
        ),
        (Schema((Category("a", (1, 2)),)), "a", pa.string(), "must hold numbers"),
        (Schema((Flag("f"),), SignLabel("a")), "a", pa.string(), "must hold numbers"),
        (Schema((Flag("f"),), NumberLabel("a", 0, 1)), "a", pa.string(), "must hold numbers"),
    ],
    ids=str,
)
def test_types_that_contradict_are_refused_with_advice(schema, name, kind, words):
    columns = {"f": pa.array([True]), name: pa.nulls(1).cast(kind)}
    table = pa.table({key: columns[key] for key in schema.names})
    (problem,) = mismatches(schema, zip(table.schema.names, table.schema.types, strict=True))
    assert words in problem
    with pytest.raises(DataError, match="does not match the schema"):
        TableEncoder(schema).encode(table)


def test_with_the_option_the_type_is_accepted():
    for decimal in DECIMALS:
        schema = Schema((Number("a", 0, 1),), SignLabel("y"), decimal)
        assert mismatches(schema, [("a", pa.string()), ("y", pa.string())]) == []
    assert mismatches(Schema((Flag("f"),), CODED), [("f", pa.bool_()), ("y", pa.int8())]) == []


def test_python_objects_are_read_one_by_one():
    """Older pandas holds text so, and numbers among which one entry is odd."""
    frame = pd.DataFrame(
        {
            "a": pd.Series(["1,5", 10, 2.5, None, "1.5"], dtype=object),
            "f": pd.Series([True, "no", 0, None, object()], dtype=object),
            "c": pd.Series(["x", 7, "7", 7.0, 8], dtype=object),
            "y": pd.Series([0, "yes", 1.0, "1", None], dtype=object),
        }
    )
    X, y = TableEncoder(SCHEMA).encode(frame)
    np.testing.assert_allclose(X[:, 0], [-0.7, 1.0, -0.5, 0.0, 0.0], atol=1e-12)
    assert X[:, 1].tolist() == [1, -1, -1, 0, 0]
    assert X[:, 2:].tolist() == [[1, 0], [0, 1], [0, 1], [0, 1], [0, 0]]
    np.testing.assert_array_equal(y, [0.0, 1.0, 1.0, 1.0, np.nan])
