"""Tables that are written otherwise than declared: seen before, warned of after, or read."""

import json

import numpy as np
import pytest

from dpsco.data import Schema
from dpsco.data.counts import RowCount
from dpsco.models import SavedModel

ROWS = 1500
COLUMNS = [
    {"name": "age", "kind": "number", "range": [0, 100]},
    {"name": "dose", "kind": "number", "range": [0, 10]},
]
PLAIN = {"version": 1, "columns": COLUMNS}
LABEL = {"name": "ill", "kind": "classes", "values": ["no", "yes"]}
OPTIONS = {"decimal": ",", "label": {**LABEL, "labels": {"0": "no", "1": "yes"}}}


def lines(labels, comma):
    rng = np.random.default_rng(0)
    age, dose = rng.uniform(0, 100, ROWS), rng.uniform(0, 10, ROWS)
    ill = (age / 100 + dose / 10 + rng.normal(0, 0.1, ROWS) > 1).astype(int)
    yield "age,dose,ill"
    for a, b, y in zip(age, dose, ill, strict=True):
        numbers = [f"{a:.2f}", f"{b:.3f}"]
        if comma:
            numbers = [f'"{number.replace(".", ",")}"' for number in numbers]
        yield ",".join([*numbers, labels[y]])


@pytest.fixture
def files(tmp_path):
    """Tables of one content, written in several ways, and schemas with and without options."""
    ways = {"good": ("no,yes", False), "codes": ("0,1", False), "commas": ("no,yes", True)}
    for name, (labels, comma) in {**ways, "both": ("0,1", True)}.items():
        text = "\n".join(lines(labels.split(","), comma)) + "\n"
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "plain.json").write_text(json.dumps({**PLAIN, "label": LABEL}))
    (tmp_path / "options.json").write_text(json.dumps({**PLAIN, **OPTIONS}))
    return tmp_path


def fit(dpsco, files, table, schema, *more):
    command = ["fit", files / f"{table}.csv", "--schema", files / f"{schema}.json", "--epsilon", 1]
    known = ["-o", files / "model.json", "--force", "--seed", 3]
    return dpsco(*command, *known, *more)


@pytest.mark.thorough
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_a_fit_on_nothing_is_loud(dpsco, files, adjacency):
    for table in ("codes", "both"):
        code, out, err = fit(dpsco, files, table, "plain", "--adjacency", adjacency)
        assert code == 0
        assert "WARNING: only about " in err
        assert "of 1,500 rows counted" in err
        assert "schema check SCHEMA SAMPLE --rows --public" in err
        assert "of 1,500 rows counted (+- " in out
        saved = SavedModel.load(files / "model.json")
        assert saved.rows_counted.count < 0.25 * ROWS
        assert saved.certificate.epsilon(1 / ROWS**2) <= 1.0


def test_numbers_that_are_not_read_are_loud(dpsco, files):
    code, _, err = fit(dpsco, files, "commas", "plain")
    assert code == 0
    assert "of the entries were read as declared" in err
    assert "decimal comma" in err


@pytest.mark.thorough
@pytest.mark.parametrize(("table", "schema"), [("good", "plain"), ("both", "options")])
def test_what_is_written_as_declared_is_fitted(dpsco, files, table, schema):
    test = files / f"{table} once more.csv"
    test.write_bytes((files / f"{table}.csv").read_bytes())
    more = ["--json", "--test-public", test]
    code, out, err = fit(dpsco, files, table, schema, *more)
    record = json.loads(out)
    assert (code, "WARNING" in err) == (0, False)
    assert record["test"]["values"]["accuracy"] > 0.85
    assert abs(record["rows_counted"]["count"] - ROWS) < 5.5 * record["rows_counted"]["sigma"]
    assert record["rows_counted"]["warning"] is None
    assert record["epsilon"] <= 1.0


@pytest.mark.thorough
def test_both_ways_to_write_a_table_give_one_model(dpsco, files):
    found = []
    for table, schema in (("good", "plain"), ("both", "options")):
        assert fit(dpsco, files, table, schema)[0] == 0
        found.append(SavedModel.load(files / "model.json"))
    np.testing.assert_array_equal(found[0].model.coef, found[1].model.coef)
    assert found[1].schema == Schema.load(files / "options.json")
    assert found[0].rows_counted == found[1].rows_counted
    new = files / "new.csv"
    new.write_text('age,dose\n"99,5","9,9"\n"0,5","0,1"\n')
    code, _, _ = dpsco("predict", files / "model.json", new, "-o", files / "p.csv", "--force")
    assert code == 0
    assert (files / "p.csv").read_text().count("yes") >= 1


def test_counts_can_be_left_out(dpsco, files):
    _, out, _ = fit(dpsco, files, "good", "plain", "--no-count-rows")
    assert "counted" not in out
    saved = SavedModel.load(files / "model.json")
    assert saved.rows_counted is None
    assert len(saved.certificate.releases) == 2  # units, and the fit


def test_a_count_that_cannot_be_is_left_out_or_refused(dpsco, refused, files):
    few = "\n".join((files / "good.csv").read_text().splitlines()[:101]) + "\n"
    (files / "few.csv").write_text(few)
    code, out, _ = fit(dpsco, files, "few", "plain")
    assert code == 0
    assert "rows were not counted: so few rows" in out
    command = ["fit", files / "few.csv", "--schema", files / "plain.json", "-o", files / "m.json"]
    assert "so few rows" in refused(*command, "--epsilon", 1, "--count-rows")
    plan = files / "plan.json"
    facts = ["--schema", files / "plain.json", "--n", ROWS, "--epsilon", 1, "-o", plan]
    assert dpsco("plan", *facts, "--no-count-rows")[0] == 0
    command[1] = files / "good.csv"
    code, out, _ = dpsco(*command, "--plan", plan)
    assert "spends its whole budget on the fit" in out
    assert "whole budget" in refused(*command, "--plan", plan, "--count-rows", "--force")
    kept = ["--checkpoint", files / "c", "--epsilon", 1, "--count-rows", "--force"]
    assert "checkpoint" in refused(*command, *kept)


@pytest.mark.thorough
def test_a_plan_leaves_room_for_the_count(dpsco, files):
    """And is the plan that fit makes by itself: the same noise, the same model and count."""
    plan = files / "plan.json"
    facts = ["--schema", files / "plain.json", "--n", ROWS, "--epsilon", 1, "-o", plan]
    code, out, _ = dpsco("plan", *facts)
    assert code == 0
    assert "count of rows: 1 % of ApproxDP" in out
    assert fit(dpsco, files, "good", "plain")[0] == 0
    first = SavedModel.load(files / "model.json")
    command = ["fit", files / "good.csv", "--schema", files / "plain.json", "--plan", plan]
    assert dpsco(*command, "-o", files / "second.json", "--seed", 3)[0] == 0
    second = SavedModel.load(files / "second.json")
    assert second.rows_counted == first.rows_counted
    assert second.plan == first.plan
    np.testing.assert_array_equal(second.model.coef, first.model.coef)
    few = ["--d", 5, "--feature-norm", 1, "--classes", 2, "--n", 100, "--epsilon", 1]
    assert "rows are not counted: so few rows" in dpsco("plan", *few)[1]
    record = json.loads(dpsco("plan", *few[:-3], 5000, "--epsilon", 1, "--json")[1])
    assert record["count_rows"] == 100.0


def test_few_rows_are_counted_without_their_entries(dpsco, files):
    """One number has less noise than two, so it serves where two would drown."""
    text = "\n".join((files / "good.csv").read_text().splitlines()[:401]) + "\n"
    (files / "some.csv").write_text(text)
    assert fit(dpsco, files, "some", "plain")[0] == 0
    found = SavedModel.load(files / "model.json").rows_counted
    assert isinstance(found, RowCount)
    assert found.entries is None


# -- schema check on a public sample ---------------------------------------------------------------


def check(dpsco, files, table, schema, *more):
    return dpsco("schema", "check", files / f"{schema}.json", files / f"{table}.csv", *more)


@pytest.mark.parametrize(
    ("table", "columns", "advice"),
    [
        ("codes", ["ill"], ["Not read: ", "'0'", '"labels": {"0": "...", "1": "..."}']),
        ("commas", ["age", "dose"], ['Give the schema "decimal": ","']),
        ("both", ["age", "dose", "ill"], ["none of 1,500 entries can be read"]),
    ],
)
def test_a_public_sample_shows_what_does_not_parse(dpsco, files, table, columns, advice):
    code, out, _ = check(dpsco, files, table, "plain", "--rows", "--public")
    assert code == 1
    assert "MISMATCH: whole columns do NOT fit the schema" in out
    assert [f"MISMATCH: column {name!r}" in out for name in columns] == [True] * len(columns)
    assert all(words in out for words in advice)
    assert "NOT PRIVATE" not in out
    code, out, _ = check(dpsco, files, table, "plain", "--rows", "--public", "--json")
    record = json.loads(out)
    assert (code, record["valid"], record["mismatches"]) == (1, False, columns)
    assert list(record["advice"]) == columns


@pytest.mark.parametrize(("table", "schema"), [("good", "plain"), ("both", "options")])
def test_a_public_sample_that_fits(dpsco, files, table, schema):
    code, out, _ = check(dpsco, files, table, schema, "--rows", "--public")
    assert code == 0
    assert "All entries fit the schema" in out


def test_private_entries_are_never_shown(dpsco, files):
    code, out, _ = check(dpsco, files, "both", "plain", "--rows", "--not-private")
    assert code == 1
    assert "NOT PRIVATE" in out
    assert "MISMATCH" in out
    assert "Not read" not in out
    text = (files / "both.csv").read_text()
    assert not any(line.split('"')[1] in out for line in text.splitlines()[1:])


def test_a_csv_file_does_not_match_by_its_names_alone(dpsco, files):
    code, out, _ = check(dpsco, files, "both", "plain")
    assert code == 0
    assert "the names of the columns match the schema" in out
    assert "no entry was looked at" in out


def test_rows_are_public_or_not(refused, files):
    command = ["schema", "check", files / "plain.json", files / "good.csv", "--rows"]
    assert "needs --public" in refused(*command)
    assert "--public or --not-private" in refused(*command, "--public", "--not-private")


def test_spelling_is_advised(dpsco, files):
    (files / "odd.csv").write_text("age,dose,ill\n1,1,Yes\n2,2,NO\n3,3,yes\n4,4,\n")
    _, out, _ = check(dpsco, files, "odd", "plain", "--rows", "--public")
    assert '"labels": {"Yes": "yes", "NO": "no"}' in out
    (files / "odd.csv").write_text("age,dose,ill\nx,1,maybe\ny,2,no\nz,3,yes\n4,4,no\n")
    _, out, _ = check(dpsco, files, "odd", "plain", "--rows", "--public")
    assert "Declare these values too" in out
    assert "Are these numbers?" in out
    assert "note: column 'ill': 1 of 4 entries cannot be read as declared" in out


def test_a_draft_of_the_sample_reads_the_sample(dpsco, files):
    schema = files / "draft.json"
    command = ["schema", "draft", files / "both.csv", "--label", "ill", "--public", "-o", schema]
    code, out, _ = dpsco(*command)
    assert code == 0
    assert '"decimal": ","' in out
    assert check(dpsco, files, "both", "draft", "--rows", "--public")[0] == 0
