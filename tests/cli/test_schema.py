"""``schema draft`` and ``schema check``."""

import json
import sys

import pytest

from dpsco import cli

CSV = """age,work,town,owner,joined,code,score,y
19,state,t1,true,2020-01-01,0,0.5,1
87,private,t2,false,2020-01-02,1,,-1
40,state,t3,true,2020-01-03,0,0.25,1
"""


@pytest.fixture
def public(tmp_path):
    path = tmp_path / "public.csv"
    path.write_text(CSV)
    return path


@pytest.fixture
def schema(public, tmp_path, capsys):
    path = tmp_path / "schema.json"
    command = ["schema", "draft", str(public), "--label", "y", "--public", "-o", str(path)]
    assert cli.main([*command, "--categories", "2"]) == 0
    assert str(path) in capsys.readouterr().out
    return path


def test_draft_refuses_rows_that_nobody_calls_public(public, tmp_path, capsys):
    path = tmp_path / "schema.json"
    assert cli.main(["schema", "draft", str(public), "--label", "y", "-o", str(path)]) == 2
    shown = capsys.readouterr()
    assert "needs --public" in shown.err
    assert "private rows" in shown.err
    assert shown.out == ""
    assert not path.exists()
    # It is refused before the file is even looked for.
    assert cli.main(["schema", "draft", "no-such-file.csv"]) == 2
    assert "needs --public" in capsys.readouterr().err


def test_draft_guesses_kinds_and_rounds_ranges_outward(schema):
    columns = {column["name"]: column for column in json.loads(schema.read_text())["columns"]}
    assert columns["age"] == {"name": "age", "kind": "number", "range": [10, 90]}
    assert columns["work"]["values"] == ["private", "state"]
    assert columns["work"]["other"] is True
    assert columns["town"] == {"name": "town", "kind": "hashed", "buckets": 8}
    assert columns["owner"]["kind"] == columns["code"]["kind"] == "flag"
    assert columns["joined"]["kind"] == "date"
    assert columns["score"]["missing"] == "indicator"
    assert json.loads(schema.read_text())["label"] == {"name": "y", "kind": "sign"}


def test_draft_prints_json_alone_without_output_file(public, capsys):
    command = ["schema", "draft", str(public), "--public", "--no-round", "--label", "age"]
    assert cli.main([*command, "--label-kind", "number"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["label"] == {"name": "age", "kind": "number", "range": [19, 87]}
    assert "A draft" in shown.err


@pytest.mark.parametrize(
    "problem",
    [["--label", "nope"], ["--categories", "0"], ["--label", "work", "--label-kind", "sign"]],
)
def test_draft_refusals(public, problem, capsys):
    assert cli.main(["schema", "draft", str(public), "--public", *problem]) == 2
    assert capsys.readouterr().err.startswith("dpsco schema draft: ")


def test_check_accepts_what_fits(schema, public, tmp_path, capsys):
    import pyarrow.parquet as pq
    from pyarrow import csv

    assert cli.main(["schema", "check", str(schema), str(public)]) == 0
    pq.write_table(csv.read_csv(public), tmp_path / "a.parquet")
    assert cli.main(["schema", "check", str(schema), str(tmp_path / "a.parquet")]) == 0
    shown = capsys.readouterr().out
    assert "3 rows" in shown
    assert "match the schema" in shown


def test_check_names_columns_and_types_and_no_value(schema, public, tmp_path, capsys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"age": ["secret"], "y": [17], "town": ["secret"], "more": [17]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    assert cli.main(["schema", "check", str(schema), str(path), "--json"]) == 1
    shown = capsys.readouterr().out
    record = json.loads(shown)
    assert record["valid"] is False
    assert (record["files"], record["rows"]) == (1, 1)
    text = " ".join(record["problems"])
    assert "column 'age' must hold numbers, its type is string" in text
    assert "column 'work' is missing" in text
    assert "not declared: 'more'" in text
    assert "secret" not in shown
    assert "17" not in text.replace(str(path), "")
    assert cli.main(["schema", "check", str(schema), str(path)]) == 1
    assert "do NOT match" in capsys.readouterr().out
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(CSV.replace("age", "old"))
    assert cli.main(["schema", "check", str(schema), str(wrong)]) == 1
    assert "column 'age' is missing" in capsys.readouterr().out


def test_check_of_what_cannot_be_read(schema, tmp_path, capsys):
    bad = tmp_path / "bad.parquet"
    bad.write_text("secret")
    for arguments in ([schema, bad], [schema, tmp_path / "none.parquet"], [bad, bad]):
        assert cli.main(["schema", "check", *map(str, arguments)]) == 2
        shown = capsys.readouterr().err
        assert shown.startswith("dpsco schema check: ")
        assert "secret" not in shown
    assert cli.main(["schema", "draft", str(bad), "--public"]) == 2


def test_check_prints_no_row_of_a_file_without_header(schema, tmp_path, capsys):
    path = tmp_path / "nohead.csv"
    path.write_text("12345,Alice SECRET,no\n")
    for extra in ([], ["--json"]):
        assert cli.main(["schema", "check", str(schema), str(path), *extra]) == 1
        shown = capsys.readouterr()
        assert "none of the 3 entries of the first line" in shown.out
        assert "SECRET" not in shown.out + shown.err
        assert "12345" not in shown.out + shown.err


def test_draft_without_pyarrow_says_what_to_install(public, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert cli.main(["schema", "draft", str(public), "--public"]) == 2
    assert "pip install 'dpsco[parquet]'" in capsys.readouterr().err


def test_draft_prints_its_notes_and_replaces_nothing_unasked(public, schema, capsys):
    command = ["schema", "draft", str(public), "--label", "y", "--public", "-o", str(schema)]
    schema.write_text("mine")
    assert cli.main(command) == 2
    shown = capsys.readouterr()
    assert "pass --force" in shown.err
    assert (shown.out, schema.read_text()) == ("", "mine")
    assert cli.main([*command, "--force"]) == 0
    assert "joined  date: " in capsys.readouterr().out
    assert json.loads(schema.read_text())["label"] == {"name": "y", "kind": "sign"}
    command[-1] = str(public)
    assert cli.main([*command, "--force"]) == 2
    assert "is read by this command" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["t.json.gz", "t.txt", "t.npz"])
def test_unknown_endings(schema, tmp_path, name, capsys):
    path = tmp_path / name
    path.write_text(CSV)
    for command in (["draft", str(path), "--public"], ["check", str(schema), str(path)]):
        assert cli.main(["schema", *command]) == 2
        assert f"unknown ending {path.suffix}: use .csv, .tsv" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["", "none/schema.json", "public.csv/schema.json", "x" * 999])
def test_draft_into_an_impossible_place(public, tmp_path, place, capsys):
    command = ["schema", "draft", str(public), "--label", "y", "--public", "-o"]
    assert cli.main([*command, str(tmp_path / place)]) == 2
    assert capsys.readouterr().err.startswith(f"dpsco schema draft: cannot write {tmp_path}")


def test_a_draft_reads_all_numbers_in_one_way(tmp_path):
    """Where thousands are grouped by points, 123.456 is no fraction."""
    rows = [f'"{k}.062,92",{k}23.456,{"no" if k % 2 else "yes"}' for k in range(1, 10)]
    path, schema = tmp_path / "amounts.csv", tmp_path / "schema.json"
    path.write_text("amount,people,y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    command = ["schema", "draft", str(path), "--label", "y", "--public", "-o", str(schema)]
    assert cli.main(command) == 0
    people = json.loads(schema.read_text(encoding="utf-8"))["columns"][1]
    assert people["range"][1] >= 923_456
    assert cli.main(["schema", "check", str(schema), str(path), "--rows", "--public"]) == 0


def test_commas_that_may_group_or_separate_are_said_to_be_either(tmp_path, capsys):
    path, schema = tmp_path / "sums.csv", tmp_path / "schema.json"
    path.write_text('a,y\n"2,143",no\n"10,635",yes\n', encoding="utf-8")
    record = {
        "version": 1,
        "columns": [{"name": "a", "kind": "number", "range": [0, 99999]}],
        "label": {"name": "y", "kind": "classes", "values": ["no", "yes"]},
    }
    schema.write_text(json.dumps(record), encoding="utf-8")
    assert cli.main(["schema", "check", str(schema), str(path), "--rows", "--public"]) == 1
    out = capsys.readouterr().out
    assert '"thousands": ","; if they begin fractions, "decimal": ","' in out
