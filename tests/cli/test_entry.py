"""The command line as a user meets it: output, files, exit codes."""

import json
import os
import subprocess
import sys

import pytest

from dpsco import cli, demo
from dpsco.errors import MissingExtraError
from dpsco.privacy import pld


@pytest.fixture(scope="module")
def outcome():
    return demo.run()


@pytest.fixture
def certificate(outcome, tmp_path):
    return outcome.save(tmp_path)[1]


def test_demo_learns_within_its_budget(outcome):
    trivial, private, plain = outcome.accuracy.values()
    assert trivial < 0.55
    assert private > 0.85
    assert plain - private < 0.02
    assert outcome.certificate.epsilon(1 / demo.ROWS**2) <= 1.0
    assert outcome.certificate.budget.epsilon == 1.0
    assert not outcome.certificate.reproducible


def test_demo_on_the_grid_learns_too():
    outcome = demo.run(numeric="grid")
    assert outcome.certificate.numeric == "grid"
    assert outcome.accuracy["private, epsilon 1"] > 0.85


def test_tiny_budget_costs_accuracy(outcome):
    # The noise is real: at epsilon 0.001 little can be learnt from 20,000 rows.
    assert demo.run(epsilon=0.001).accuracy["private, epsilon 0.001"] < 0.8


def test_demo_command_writes_what_it_says(tmp_path, capsys):
    assert cli.main(["demo", "--output", str(tmp_path), "--single"]) == 0
    shown = capsys.readouterr().out
    assert "private, epsilon 1" in shown
    assert "VALID" in shown
    assert str(tmp_path / "certificate.json") in shown
    assert len((tmp_path / "weights.csv").read_text().split()) == demo.FEATURES


def test_verify_accepts_an_honest_certificate(certificate, capsys):
    pytest.importorskip("dp_accounting")
    assert cli.main(["verify", str(certificate)]) == 0
    shown = capsys.readouterr().out
    assert "VALID" in shown
    assert "PLD gives epsilon" in shown


def test_verify_json(certificate, capsys):
    assert cli.main(["verify", "--json", "--single", str(certificate)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["valid"] is True
    assert result["epsilon"] <= 1.0
    assert result["second_accountant"] == "skipped"


def test_verify_rejects_an_edited_certificate(certificate, capsys):
    record = json.loads(certificate.read_text())
    record["claims"]["epsilon"] = 0.1
    certificate.write_text(json.dumps(record))
    assert cli.main(["verify", str(certificate)]) == 2
    assert "changed after it was written" in capsys.readouterr().err


def test_verify_rejects_a_forged_claim(certificate, capsys):
    from dpsco.privacy.certificate import _digest

    record = json.loads(certificate.read_text())
    record["claims"]["epsilon"] = 0.1
    del record["digest"]
    certificate.write_text(json.dumps({**record, "digest": _digest(record)}))
    assert cli.main(["verify", "--single", str(certificate)]) == 1
    assert "NOT VALID" in capsys.readouterr().out


@pytest.mark.parametrize("content", [None, "", "{}", "[1, 2]", '{"schema": "other"}', "\x00\x01"])
def test_verify_refuses_unreadable_files(tmp_path, capsys, content):
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content)
    assert cli.main(["verify", str(path)]) == 2
    assert capsys.readouterr().err.startswith("dpsco verify: ")


def test_verify_without_dp_accounting_says_what_to_install(certificate, capsys, monkeypatch):
    def absent():
        raise MissingExtraError("Install it with: pip install 'dpsco[accounting]'")

    monkeypatch.setattr(pld, "_library", absent)
    pld._epsilon.cache_clear()  # what other tests have asked for
    pld._composition.cache_clear()
    assert cli.main(["verify", str(certificate)]) == 2
    assert "pip install 'dpsco[accounting]'" in capsys.readouterr().err


def test_bad_epsilon_is_a_clear_refusal(tmp_path, capsys):
    assert cli.main(["demo", "--epsilon", "-1", "--output", str(tmp_path / "no")]) == 2
    assert "epsilon must be positive" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("module", ["dpsco", "dpsco.cli"])
def test_module_entry_point(module):
    shown = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("dpsco ")


# -- schema draft, schema check ------------------------------------------------------------------

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
    assert columns["joined"]["kind"] == "ignore"
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


def test_draft_prints_its_notes_and_says_what_it_replaces(public, schema, capsys):
    command = ["schema", "draft", str(public), "--label", "y", "--public", "-o", str(schema)]
    assert cli.main(command) == 0
    shown = capsys.readouterr().out
    assert "note: column 'joined' is ignored" in shown
    assert f"{schema} (replaced" in shown


@pytest.mark.parametrize("place", ["", "none/schema.json", "public.csv/schema.json", "x" * 999])
def test_draft_into_an_impossible_place(public, tmp_path, place, capsys):
    command = ["schema", "draft", str(public), "--label", "y", "--public", "-o"]
    assert cli.main([*command, str(tmp_path / place)]) == 2
    assert capsys.readouterr().err.startswith(f"dpsco schema draft: cannot write {tmp_path}")


@pytest.mark.parametrize("place", ["public.csv", "public.csv/more", "x" * 999])
def test_demo_into_an_impossible_place(public, tmp_path, place, outcome, capsys, monkeypatch):
    monkeypatch.setattr(demo, "run", lambda **_: outcome)
    assert cli.main(["demo", "--single", "--output", str(tmp_path / place)]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"dpsco demo: cannot write {tmp_path}")
    assert shown.out == ""


def run_into(file, *arguments):
    """Run the command with its output, buffered as it is for users, going to a file."""
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, "-m", "dpsco", *map(str, arguments)],
        stdout=file, stderr=subprocess.PIPE, text=True, check=False, env=buffered,
    )  # fmt: skip


def test_a_reader_that_goes_away_is_no_error(certificate):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        for arguments in (["verify", "--single", certificate], ["--help"]):
            done = run_into(writer, *arguments)
            assert (done.returncode, done.stderr) == (141, "")
    finally:
        os.close(writer)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_told(certificate):
    with open("/dev/full", "w") as full:
        done = run_into(full, "verify", "--single", certificate)
    assert done.returncode == 2
    assert done.stderr == "dpsco verify: cannot write the output: No space left on device.\n"


# -- solvers -------------------------------------------------------------------------------------


def test_solvers_lists_every_one_within_100_columns(capsys):
    from dpsco.solvers import registry

    assert cli.main(["solvers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    firsts = {line.split("  ")[0] for line in lines}
    assert set(registry()) <= firsts
    words = " ".join(" ".join(lines).split())
    for title in ("solver, paper", "algorithm, theorems", "setting, needs", "rounds, cost"):
        assert title in words
    assert "n T gradients" in words


def test_solvers_as_json(capsys):
    from dpsco.solvers import registry

    assert cli.main(["solvers", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["key"] for record in records] == list(registry())
    wanted = {"key", "paper", "reference", "setting", "needs", "rounds", "cost"}
    assert all(wanted <= set(record) for record in records)
    assert cli.main(["solvers", "--json", "noisy_gd"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one == [record for record in records if record["key"] == "noisy_gd"]


def test_one_solver_in_full(capsys):
    from dpsco.solvers import registry

    for key, solver in registry().items():
        assert cli.main(["solvers", key]) == 0
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines()[1:])) <= 100
        words = " ".join(shown.split())
        assert words.startswith(f"{key}: {solver.summary}")
        for need in solver.needs:
            assert need.name in words
        for option in solver.options:
            assert option in words


def test_unknown_solver(capsys):
    assert cli.main(["solvers", "nope"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("dpsco solvers: solver must be 'auto' or one of ")
