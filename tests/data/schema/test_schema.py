"""Schemas: what is accepted, what is refused and in which words, and the file format."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.data.schema.schema import (
    MOST_BUCKETS,
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
from dpsco.errors import DataError, ParameterError

TEXT = """
{"version": 1,
 "columns": [
   {"name": "age",   "kind": "number",   "range": [0, 100], "missing": "indicator"},
   {"name": "pay",   "kind": "number",   "range": [-1.5, 1e6], "missing": 10},
   {"name": "work",  "kind": "category", "values": ["private", "state"], "other": true},
   {"name": "code",  "kind": "category", "values": [1, 2, 30]},
   {"name": "town",  "kind": "hashed",   "buckets": 256, "signed": true},
   {"name": "owner", "kind": "flag"},
   {"name": "id",    "kind": "ignore"}],
 "label": {"name": "income", "kind": "classes", "values": ["<=50K", ">50K"]}}
"""
WHOLE = Schema(
    (
        Number("age", 0, 100, "indicator"),
        Number("pay", -1.5, 1e6, 10),
        Category("work", ("private", "state"), other=True),
        Category("code", (1, 2, 30)),
        Hashed("town", 256, signed=True),
        Flag("owner"),
        Ignore("id"),
    ),
    ClassLabel("income", ("<=50K", ">50K")),
)


def change(**fields):
    """Return the text with the first column's fields replaced; None takes a field away."""
    record = json.loads(TEXT)
    first = {**record["columns"][0], **fields}
    record["columns"][0] = {key: value for key, value in first.items() if value is not None}
    return json.dumps(record)


def test_the_documented_file_is_read():
    assert Schema.from_json(TEXT) == WHOLE


def test_round_trip_through_a_file(tmp_path):
    path = tmp_path / "schema.json"
    WHOLE.save(path)
    assert Schema.load(path) == WHOLE
    assert Schema.load(str(path)) == WHOLE
    # What is left at its default is not written, and whole numbers are written as such.
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["version"] == 1
    assert record["columns"][0]["range"] == [0, 100]
    assert '"range": [0, 100]' in path.read_text(encoding="utf-8")
    assert record["columns"][3] == {"name": "code", "kind": "category", "values": [1, 2, 30]}


@pytest.mark.parametrize("label", [None, SignLabel("y"), NumberLabel("y", -2, 2.5)])
def test_labels_round_trip(label):
    schema = Schema((Flag("a"),), label)
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.names == (("a",) if label is None else ("a", "y"))


def test_a_missing_value_of_zero_is_written():
    schema = Schema((Number("a", 0, 10, 0.0),))
    assert Schema.from_json(schema.to_json()).columns[0].missing == 0.0


def test_encoded_leaves_out_what_is_ignored():
    assert [column.name for column in WHOLE.encoded] == [
        "age", "pay", "work", "code", "town", "owner"
    ]  # fmt: skip
    assert WHOLE.names[-2:] == ("id", "income")


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
numbers = st.floats(-1e300, 1e300)
texts = st.lists(
    st.text(st.characters(codec="utf-8"), max_size=6), min_size=2, max_size=5, unique=True
)
columns = st.one_of(
    st.builds(lambda n, a, w: Number(n, a, a + w + abs(a)), names, numbers, st.floats(1, 1e300)),
    st.builds(lambda n, v, o: Category(n, tuple(v), o), names, texts, st.booleans()),
    st.builds(Hashed, names, st.integers(1, MOST_BUCKETS), st.booleans()),
    st.builds(Flag, names),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(columns, min_size=1, max_size=5, unique_by=lambda c: c.name))
def test_every_schema_survives_json(found):
    schema = Schema(tuple(found))
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (change(range=[5, 5]), ["'age'", "'range'", "low < high"]),
        (change(range=[7, 5]), ["'age'", "'range'", "low < high"]),
        (change(range=[0]), ["'age'", "'range'"]),
        (change(range="0..1"), ["'age'", "'range'"]),
        (change(range=[0, True]), ["'age'", "'range'"]),
        (change(range=["0", 1]), ["'age'", "'range'"]),
        (change(range=[0, 10**400]), ["'age'", "'range'"]),
        (change(range=None), ["'age'", "lacks the field 'range'"]),
        (change(missing="mean"), ["'age'", "'missing'"]),
        (change(missing=101), ["'age'", "'missing'", "[0.0, 100.0]"]),
        (change(colour="red"), ["'age'", "unknown field 'colour'", "missing"]),
        (change(kind="numeric"), ["'age'", "'kind'", "hashed", "'numeric'"]),
        (change(kind=None), ["'age'", "'kind'"]),
        (change(kind=["number"]), ["'age'", "'kind'"]),
        (change(name=None), ["lacks the field 'name'"]),
        (change(name=""), ["'name'"]),
        (change(name=3), ["'name'"]),
        (change(name="pay"), ["'pay'", "more than once"]),
        (change(name="income"), ["'income'", "more than once"]),
        (change(kind="flag"), ["'age'", "unknown field 'missing'"]),
        (TEXT.replace('"private", "state"', '"state", "state"'), ["'work'", "more than once"]),
        (TEXT.replace('"private", "state"', ""), ["'work'", "'values'", "at least 1"]),
        (TEXT.replace('"private", "state"', '"state", 3'), ["'work'", "all text or all"]),
        (TEXT.replace('"private", "state"', '"state", null'), ["'work'", "all text or all"]),
        (TEXT.replace("1, 2, 30", "1, 2, true"), ["'code'", "more than once"]),
        (TEXT.replace('"other": true', '"other": 1'), ["'work'", "'other'"]),
        (TEXT.replace('"signed": true', '"signed": null'), ["'town'", "'signed'"]),
        (TEXT.replace("256", "0"), ["'town'", "'buckets'"]),
        (TEXT.replace("256", "2.5"), ["'town'", "'buckets'"]),
        (TEXT.replace("256", str(MOST_BUCKETS + 1)), ["'town'", "'buckets'"]),
        (TEXT.replace('"<=50K", ', ""), ["'income'", "'values'", "at least 2"]),
        (TEXT.replace('"classes"', '"category"'), ["label 'income'", "'kind'", "sign"]),
        (TEXT.replace('"version": 1', '"version": 2'), ["'version'", "must be 1", "2"]),
        (TEXT.replace('"version": 1', '"version": true'), ["'version'"]),
        (TEXT.replace('"version": 1,', ""), ["lacks the field 'version'"]),
        (TEXT.replace('"version"', '"author": "me", "version"'), ["unknown field 'author'"]),
        (TEXT.replace('"kind": "flag"', '"kind": "flag", "kind": "flag"'), ["given twice"]),
        (TEXT.replace("1e6", "NaN"), ["finite"]),
        (TEXT.replace("1e6", "1e999"), ["'pay'", "'range'"]),
        ('{"version": 1, "columns": {}}', ["'columns'", "list"]),
        ('{"version": 1, "columns": []}', ["at least one column"]),
        ('{"version": 1, "columns": [{"name": "a", "kind": "ignore"}]}', ["not 'ignore'"]),
        ('{"version": 1, "columns": ["a"]}', ["column 0"]),
        ("[1]", ["object"]),
        ("{", ["JSON"]),
        (TEXT.replace("256", "9" * 5000), []),  # more digits than Python turns into an integer
        (TEXT.replace("1, 2, 30", "1, 1" + "0" * 400), ["'code'", "finite numbers"]),
        (TEXT.replace('"name": "income"', '"name": ""'), ["'name'", "'ignore'"]),
        ("[" * 100_000, ["JSON"]),
    ],
)
def test_refusals_name_the_column_and_the_field(text, words):
    with pytest.raises(ParameterError) as refusal:
        Schema.from_json(text)
    for word in words:
        assert word in str(refusal.value)


def test_an_unreadable_file_is_named(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(DataError, match="cannot read the schema"):
            Schema.load(path)
    path = tmp_path / "bad.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"bad\.json: it is not UTF-8"):
        Schema.load(path)
    path.write_text(change(range=[1, 0]), encoding="utf-8")
    with pytest.raises(DataError, match=r"bad\.json is not valid: column 'age', field 'range'"):
        Schema.load(path)


def test_objects_of_other_kinds_are_refused():
    with pytest.raises(ParameterError, match="columns must be schema columns, got SignLabel"):
        Schema((SignLabel("a"),))
    with pytest.raises(ParameterError, match="label must be a schema label, got Flag"):
        Schema((Flag("a"),), Flag("b"))
    with pytest.raises(ParameterError, match="not valid Unicode"):
        Category("a", ("\ud800",))
    with pytest.raises(ParameterError, match="at least 1"):
        Category("a", "abc")


def test_an_ignored_column_alone_may_have_no_name():
    schema = Schema((Flag("a"), Ignore("")))
    assert Schema.from_json(schema.to_json()) == schema
    for make in (Flag, SignLabel, lambda name: Number(name, 0, 1), lambda name: Hashed(name, 2)):
        with pytest.raises(ParameterError, match="may be empty for kind 'ignore' alone"):
            make("")
    with pytest.raises(ParameterError, match="more than once"):
        Schema((Flag("a"), Ignore(""), Ignore("")))


def test_sources_of_bounds_are_read_written_and_change_nothing():
    """Older files have none, and a schema encodes alike with and without."""
    record = json.loads(WHOLE.to_json())
    for item in (*record["columns"], record["label"]):
        item["source"] = f"where {item['name']} is public"
    sourced = Schema.from_json(json.dumps(record))
    assert json.loads(sourced.to_json()) == record
    assert [item.source for item in WHOLE.items] == [None] * len(WHOLE.items)
    assert "source" not in WHOLE.to_json()
    assert sourced == WHOLE
    assert hash(sourced) == hash(WHOLE)


@pytest.mark.parametrize("wrong", [3, "", " ", "x" * 501, ["form"]])
def test_a_source_is_a_short_text(wrong):
    column = {"name": "age", "kind": "number", "range": [0, 9], "source": wrong}
    with pytest.raises(ParameterError, match=r"column 'age', field 'source' must"):
        Schema.from_json(json.dumps({"version": 1, "columns": [column]}))
