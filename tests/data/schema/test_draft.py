"""Drafted schemas: what is guessed, that the draft fits its own rows, and that public is said."""

import datetime
import math
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsco.data.schema.draft import (
    check_file,
    describe,
    draft,
    draft_schema,
    read_for_draft,
    read_public,
    round_outward,
)
from dpsco.data.schema.encoder import TableEncoder
from dpsco.data.schema.schema import (
    Category,
    ClassLabel,
    Date,
    Flag,
    Hashed,
    Ignore,
    Number,
    NumberLabel,
    SignLabel,
)
from dpsco.data.tables.csvfile import from_csv
from dpsco.errors import DataError, MissingExtraError, ParameterError


def column(values, kind=None, **options):
    table = pa.table({"a": pa.array(values, kind), "b": [True] * len(values)})
    return draft_schema(table, label=None, public=True, **options).columns[0]


@pytest.mark.parametrize("public", [False, None, 1, "yes"])
def test_public_must_be_said(public):
    with pytest.raises(ParameterError, match="needs public=True"):
        draft_schema(pa.table({"a": [1.0]}), label=None, public=public)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([17, 90], None, Number("a", 10, 90)),
        ([0.2, 0.97], None, Number("a", 0.2, 1)),
        ([0.0, None, 5.0], None, Number("a", 0, 5, "indicator")),
        ([0.0, math.nan, math.inf], None, Number("a", -1, 1, "indicator")),
        ([7, 7], None, Number("a", 0, 14)),
        ([None, None], pa.float64(), Number("a", 0, 1, "indicator")),
        ([0, 1], None, Flag("a")),
        ([0.0, 1.0], None, Number("a", 0, 1)),
        ([True, None], None, Flag("a")),
        (["b", "a", None], None, Category("a", ("a", "b"), other=True)),
        ([f"{k}" for k in range(65)], None, Hashed("a", 256)),
        ([f"{k}" for k in range(9999)], None, Hashed("a", 4096)),
        ([None], pa.string(), Ignore("a")),
        ([datetime.date(2020, 1, 1)], None, Date("a", "2020-01-01", "2020-12-31")),
        ([datetime.time(2)], None, Ignore("a")),
        ([[1]], None, Ignore("a")),
        ([None], None, Ignore("a")),
    ],
)
def test_guesses(values, kind, expected):
    assert column(values, kind) == expected


@pytest.mark.parametrize(
    ("values", "wanted", "expected"),
    [
        ([-1, 1], "auto", SignLabel("y")),
        ([0, 1], "auto", ClassLabel("y", (0, 1))),
        (["p", "n"], "auto", ClassLabel("y", ("n", "p"))),
        ([True, False], "auto", ClassLabel("y", (False, True))),
        ([3.5, 99.0], "auto", NumberLabel("y", 0, 100)),
        (list(range(40)), "auto", NumberLabel("y", 0, 40)),
        ([3, 9, 5], "number", NumberLabel("y", 3, 9)),
        ([0.0, 2.0], "classes", ClassLabel("y", (0.0, 2.0))),
    ],
)
def test_labels(values, wanted, expected):
    table = pa.table({"a": [True] * len(values), "y": values})
    assert draft_schema(table, label="y", public=True, label_kind=wanted).label == expected


def test_refusals():
    table = pa.table({"a": [1.0], "y": ["x"]})
    with pytest.raises(ParameterError, match="'z' is not among the columns: a, y"):
        draft_schema(table, label="z", public=True)
    with pytest.raises(ParameterError, match="label_kind"):
        draft_schema(table, label="y", public=True, label_kind="text")
    with pytest.raises(DataError, match="label 'y' has type string"):
        draft_schema(table, label="y", public=True, label_kind="number")
    with pytest.raises(DataError, match=r"1 different value.*at least 2"):
        draft_schema(table, label="y", public=True)  # one class only


def test_ranges_can_be_left_exact():
    assert column([17, 90], rounded=False) == Number("a", 17, 90)


def test_frames_of_all_libraries_agree():
    data = {"a": [1.5, 2.5], "b": ["x", "y"], "c": [True, False]}
    expected = draft_schema(pa.table(data), label="c", public=True)
    pandas = pd.DataFrame(data).astype({"b": "string"})
    for frame in (pandas, pl.DataFrame(data), pa.table(data).to_batches()[0]):
        assert draft_schema(frame, label="c", public=True) == expected


finite = st.floats(-1e290, 1e290)


@settings(max_examples=200, deadline=None)
@given(finite, finite)
def test_rounding_is_outward_and_not_far(one, two):
    low, high = min(one, two), max(one, two)
    if not high - low > 1e-280:
        return
    found = round_outward(low, high)
    assert found[0] <= low < high <= found[1]
    assert found[1] - found[0] <= 2.1 * (high - low)  # one unit on either side at most


def test_rounded_ends_are_short():
    assert round_outward(0.0123, 0.0871) == (0.01, 0.09)
    assert round_outward(-4.2, 123456.0) == (-10000, 130000)
    assert round_outward(1e-7, 3.3e-5) == (0, 4e-5)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_draft_fits_its_own_file(tmp_path, suffix):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "x": rng.normal(size=300), "n": rng.integers(0, 1000, 300),
        "c": np.array(["a", "b"])[rng.integers(0, 2, 300)], "t": [f"w{k}" for k in range(300)],
        "y": rng.integers(0, 3, 300),
    })  # fmt: skip
    frame = frame.astype({"c": "string", "t": "string"})
    path = tmp_path / f"a.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    schema = draft_schema(read_public(path), label="y", public=True)
    assert check_file(schema, path).ok
    rows, labels = TableEncoder(schema, sparse=False).encode(frame)
    assert np.isfinite(labels).all()
    scaled = rows[:, 0]
    assert np.abs(scaled).max() > 0.5
    assert np.unique(scaled).size == 300  # nothing was clipped
    assert "c  category: 2 values (a, b), or other" in describe(schema)


def test_folders_are_checked_file_by_file(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "y": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": ["s"], "y": [1]}), tmp_path / "b.parquet")
    schema = draft_schema(pa.table({"a": [1.0, 2.0], "y": [1, -1]}), label="y", public=True)
    found = check_file(schema, tmp_path)
    assert not found.ok
    assert (found.files, found.rows, len(found.problems)) == (2, 2, 1)
    assert "b.parquet: column 'a' must hold numbers" in str(found)


def test_unreadable_public_files_are_named(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2,3\n")
    (tmp_path / "b.parquet").write_text("nothing")
    for name in ("a.csv", "b.parquet", "none.csv"):
        with pytest.raises(DataError, match=name.replace(".", r"\.")):
            read_public(tmp_path / name)


def drafted(tmp_path, text, label=None):
    path = tmp_path / "a.csv"
    path.write_text(text)
    return draft(read_public(path), label=label, public=True), path


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(MissingExtraError, match=r"dpsco\[parquet\]"):
            read_public(tmp_path / name)


def test_files_of_different_types_are_named(tmp_path):
    pq.write_table(pa.table({"a": pa.nulls(1), "b": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"a": [1.0], "c": ["x"]}), tmp_path / "b.parquet")
    table = read_public(tmp_path)  # a column that is absent, or has no type yet, is no conflict
    assert table.to_pydict() == {"a": [None, 1.0], "b": [1, None], "c": [None, "x"]}
    pq.write_table(pa.table({"a": ["s"]}), tmp_path / "c.parquet")
    with pytest.raises(DataError, match=r"c\.parquet: column 'a' has type string, and double"):
        read_public(tmp_path)


def test_names_that_stand_twice_are_named(tmp_path):
    with pytest.raises(DataError, match="more than one column named 'a', ''"):
        drafted(tmp_path, "a,a,b,,\n1,2,3,4,5\n")


def test_a_column_without_a_name_is_ignored_with_a_note(tmp_path):
    path = tmp_path / "a.csv"
    pd.DataFrame({"x": [0.0, 4.0]}).to_csv(path)
    found = draft(read_public(path), label=None, public=True)
    assert found.schema.columns == (Ignore(""), Number("x", 0, 4))
    assert "''  ignore" in str(found)
    assert "note: the column without a name" in str(found)
    assert check_file(found.schema, path).ok
    assert from_csv(path, encoder=TableEncoder(found.schema)).n == 2
    with pytest.raises(DataError, match="label's column has no name"):
        draft_schema(read_public(path), label="", public=True)


@pytest.mark.parametrize("values", [[1, 2.5, 3], [None, None, None]])
def test_objects_that_are_no_text_are_ignored_with_a_note(values):
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object), "b": [True, False, True]})
    found = draft(frame, label=None, public=True)
    assert found.schema.columns == (Ignore("a"), Flag("b"))
    assert "note: column 'a' is ignored: all its entries are missing, or Python obj" in str(found)


def test_notes_say_why_a_column_is_ignored():
    day = datetime.time(2)
    table = pa.table({"d": [day], "n": pa.nulls(1), "b": [True]})
    notes = draft(table, label=None, public=True).notes
    assert "column 'd' is ignored: its type time64[us]" in notes[0]
    assert "column 'n' is ignored: all its entries are missing" in notes[1]
    assert len(notes) == 2
    with pytest.raises(DataError, match="no column can be used as a feature: column 'd' is ign"):
        draft(table.select(["d"]), label=None, public=True)


def test_text_that_is_nearly_unique_gets_a_note():
    unique, common = [f"p{k}" for k in range(100)], [f"p{k % 80}" for k in range(100)]
    notes = draft(pa.table({"u": unique, "c": common}), label=None, public=True).notes
    assert len(notes) == 1
    assert "column 'u' has 100 different texts in 100 rows" in notes[0]


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["12,5", "7", "1000,25"], (",", None)),
        (["1.234,5", "12,25", "7"], (",", ".")),
        (["1,234", "12,345,678.5"], (".", ",")),
        (["1,234", "2,500"], (".", ",")),  # three digits after a comma are a group
        (["1 234,5", "1,25"], (",", " ")),
        (["1'234.5", "2"], (".", "'")),
        (["1\u202f234,5", "2,5"], (",", "\u202f")),
        (["12,5", "unknown"], None),
        (["12.5", "7"], None),
        (["yes", "no"], None),
        (["1,2,3", "4,5"], None),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_how_numbers_are_written_is_proposed(texts, wanted, kind):
    table = pa.table(
        {"x": pa.array([*texts, None]).cast(kind), "n": pa.array([1.0] * (len(texts) + 1))}
    )
    found = draft(table, label=None, public=True)
    assert (found.schema.decimal, found.schema.thousands) == (wanted or (None, None))
    assert isinstance(found.schema.columns[0], Number) == (wanted is not None)
    if wanted is not None:
        assert f'"decimal": "{wanted[0]}"' in " ".join(found.notes)
        rows, _ = TableEncoder(found.schema).encode(table)  # which reads what it was drafted from
        assert (rows[:-1, 1] == 0).all()  # nothing but the last entry is missing
        assert rows[-1, 1] == 1.0
        assert f"decimal {wanted[0]!r}" in describe(found.schema)


def test_a_label_with_decimal_commas_is_a_number():
    table = pa.table({"x": [1.0, 2.0], "y": ["1,5", "2,5"]})
    schema = draft_schema(table, label="y", public=True, rounded=False)
    assert schema.label == NumberLabel("y", 1.5, 2.5)
    assert schema.decimal == ","


def test_text_of_plain_numbers_stays_text_and_gets_a_note():
    table = pa.table({"amount": ["1.5", "20"], "post": ["01234", "99999"]})
    found = draft(table, label=None, public=True)
    assert all(isinstance(column, Category) for column in found.schema.columns)
    assert ["column 'amount': text in which every" in note for note in found.notes] == [True]


def test_empty_entries_of_csv_files_are_no_category_and_no_class(tmp_path):
    text = 'a,b,c,y\nu,1,,p\n,2,"",q\nNA,,,\n'
    found, path = drafted(tmp_path, text, label="y")
    assert found.schema.columns == (
        Category("a", ("NA", "u"), other=True), Number("b", 1, 2, "indicator"), Ignore("c")
    )  # fmt: skip
    assert found.schema.label == ClassLabel("y", ("p", "q"))
    assert check_file(found.schema, path).ok


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,y\n", "there is none below the column names"),
        ("a,y\n1,x\n2,x\n", "1 different value.*at least 2"),
        ("a,y\n1,\n2,\n", "label 'y' is missing in every row"),
    ],
)
def test_drafts_that_cannot_be_made_say_why(tmp_path, text, words):
    with pytest.raises(DataError, match=words):
        drafted(tmp_path, text, label="y")


def test_check_quotes_no_first_line_that_is_a_row(tmp_path):
    schema = draft_schema(pa.table({"a": [1.0, 2.0], "y": [1, -1]}), label="y", public=True)
    path = tmp_path / "a.csv"
    path.write_text("12345,SECRET,no\n")
    found = check_file(schema, path)
    assert not found.ok
    assert "none of the 3 entries of the first line is a declared name" in str(found)
    assert "SECRET" not in str(found)
    for missing, words in (
        (tmp_path / "b.csv", "there is no file"),
        (tmp_path / "c.csv", "folder"),
    ):
        if words == "folder":
            missing.mkdir()
        for read in (lambda file: check_file(schema, file), read_public):
            with pytest.raises(DataError, match=words):
                read(missing)


def test_another_separator_is_asked_for(tmp_path):
    """Public rows between semicolons, with decimal commas: the refusal says what to pass."""
    (tmp_path / "rows.csv").write_text("age;weight\n1;2,5\n")
    with pytest.raises(DataError, match="--sep ';'"):
        read_for_draft(tmp_path / "rows.csv")
