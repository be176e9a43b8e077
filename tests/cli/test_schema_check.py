"""Counts of what lies outside a schema, and ``schema check --rows``."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsco.cli.schema_check import outside, sentences, tally
from dpsco.data import Category, ClassLabel, Flag, Hashed, Ignore, Number, NumberLabel, Schema
from dpsco.data import SignLabel as Sign
from dpsco.data.tables.table_file import open_file

SCHEMA = Schema(
    (
        Number("age", 0, 100),
        Category("work", ("a", "b")),
        Category("code", (1, 2), other=True),
        Hashed("town", 8),
        Flag("owner"),
        Ignore("id"),
    ),
    ClassLabel("y", ("no", "yes")),
)
TEXT = """age,work,code,town,owner,id,y
5,a,1,x,yes,1,no
-5,c,3,,no,2,yes
101,,odd,x,perhaps,3,maybe
word,b,2,x,,4,
inf,b,,x,1,5,no
"""
COUNTS = {
    "age": {"below the range": 1, "above the range": 1, "not a number": 2},
    "work": {"missing": 1, "not declared": 1},
    "code": {"missing": 1, "not declared": 1, "not a number": 1},
    "town": {"missing": 1},
    "owner": {"missing": 1, "not a number": 1},
    "y": {"missing": 1, "not declared": 1},
}


def test_csv(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text(TEXT)
    counts = tally(open_file(path, SCHEMA, label=True))
    assert counts == COUNTS
    assert "town" not in outside(counts)
    assert outside(counts)["y"] == {"not declared": 1}
    assert "column 'age': 2 entries are not a number" in sentences(counts)
    assert "column 'town': 1 entry is missing" in sentences(counts)


def test_parquet(tmp_path):
    path = tmp_path / "d.parquet"
    columns = {
        "age": [5.0, -5.0, None, float("inf"), float("nan")],
        "work": ["a", "c", None, "b", "b"],
        "code": [1, 3, None, 2, 2],
        "town": ["x", None, "x", "x", "x"],
        "owner": [True, None, False, True, True],
        "y": ["no", "maybe", None, "yes", "yes"],
    }
    pq.write_table(pa.table(columns), path)
    assert tally(open_file(path, SCHEMA, label=True)) == {
        "age": {"missing": 2, "below the range": 1, "above the range": 1},
        "work": {"missing": 1, "not declared": 1},
        "code": {"missing": 1, "not declared": 1},
        "town": {"missing": 1},
        "owner": {"missing": 1},
        "y": {"missing": 1, "not declared": 1},
    }


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        (Sign("y"), {"missing": 1, "neither -1 nor 1": 1}),
        (NumberLabel("y", -1, 1), {"missing": 1, "above the range": 1}),
    ],
    ids=["sign", "number"],
)
def test_labels(tmp_path, label, wanted):
    path = tmp_path / "d.csv"
    path.write_text("age,y\n1,-1\n2,1\n3,\n4,7\n")
    schema = Schema((Number("age", 0, 9),), label)
    assert tally(open_file(path, schema, label=True)) == {"age": {}, "y": wanted}


@pytest.fixture
def files(tmp_path):
    schema, data = tmp_path / "schema.json", tmp_path / "d.csv"
    SCHEMA.save(schema)
    data.write_text(TEXT)
    return schema, data


def test_the_look_at_the_rows_is_asked_for_twice(files, refused):
    assert "needs --not-private" in refused("schema", "check", *files, "--rows")


def test_the_look_at_the_rows(files, dpsco, tmp_path):
    code, out, _ = dpsco("schema", "check", *files, "--rows", "--not-private")
    assert code == 1
    assert "NOT PRIVATE" in out
    assert "Do not publish them" in out
    assert "5 rows. Some entries do NOT fit" in out
    assert "column 'age': 1 entry is above the range" in out
    assert "maybe" not in out
    code, out, _ = dpsco("schema", "check", *files, "--rows", "--not-private", "--json")
    record = json.loads(out)
    assert code == 1
    assert record["valid"] is False
    assert record["columns"] == COUNTS
    assert "NOT PRIVATE" in record["notice"]


def test_rows_that_fit(files, dpsco):
    files[1].write_text("\n".join(TEXT.splitlines()[:2]) + "\n7,b,,,,2,yes\n")
    code, out, _ = dpsco("schema", "check", *files, "--rows", "--not-private")
    assert code == 0
    assert "All entries fit the schema" in out
    assert "column 'town': 1 entry is missing" in out
    files[1].write_text("\n".join(TEXT.splitlines()[:2]) + "\n")
    out = dpsco("schema", "check", *files, "--rows", "--not-private")[1]
    assert "every entry is there" in out


def test_columns_come_first(files, dpsco):
    files[1].write_text("age,work\n1,a\n")
    code, out, _ = dpsco("schema", "check", *files, "--rows", "--not-private")
    assert code == 1
    assert "do NOT match" in out
    assert "NOT PRIVATE" not in out


def test_the_summary_is_one_line():
    from dpsco.cli.schema_check import summary

    assert summary({}) == summary({"a": {}}) == []
    (line,) = summary({"a": {"missing": 1}, "b": {}})
    assert line.startswith("1 entry is missing, out of range or not declared, in column 'a'; ")
    (line,) = summary({f"c{k}": {"missing": 2} for k in range(30)})
    assert line.startswith("60 entries are ")
    assert "'c19' and 10 more; " in line
