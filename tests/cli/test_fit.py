"""``fit``: what it writes, that it matches the library, and every wrong use."""

import dataclasses
import io
import json
import os
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import dpsco as dp
from dpsco.cli import fit, parser
from dpsco.data.counts import PresentRows
from dpsco.data.tables import table_file
from dpsco.models import SavedModel
from dpsco.models.row_counts import plan_count
from dpsco.models.unit_rules import ROWS_SHARE, UnitSearch
from dpsco.models.units import plan_in_units, run_in_units

QUICK = ["--solver", "noisy_gd", "--option", "rounds=4"]


@pytest.fixture
def command(home, tmp_path):
    """The start of a command that fits the people."""
    start = ["fit", home / "people.csv", "--schema", home / "schema.json"]
    return [*start, "-o", tmp_path / "model.json", "--epsilon", 2]


def test_the_model_is_the_librarys_own(home, model):
    """What the command fits equals a fit by hand with the same seed."""
    saved = SavedModel.load(model)
    schema = dp.data.Schema.load(home / "schema.json")
    encoder = dp.data.TableEncoder(schema)
    frame = pd.read_csv(home / "people.csv")
    frame["owner"] = frame["owner"] == "yes"
    table = dp.data.from_frame(frame, encoder=encoder)
    setup = dp.models.configure("logistic", feature_norm=encoder.feature_norm, classes=range(2))
    budget = dp.ApproxDP(2.0, 1 / 800**2)
    whole = plan_in_units(
        setup.in_units(),
        UnitSearch(features="rows", feature_norm=encoder.feature_norm, share=ROWS_SHARE),
        n=800,
        d=5,
        budget=budget,
        solver="noisy_gd",
        options={"follow": True},
        count=plan_count(budget, n=800, query=PresentRows.encoded(encoder)),
    )
    result, answer = run_in_units(whole, table, randomness=dp.Randomness.seeded(1))
    by_hand, counted = setup.in_units().model(result.weights, answer.units), answer.count
    np.testing.assert_allclose(saved.model.coef, by_hand.coef, rtol=1e-12)
    np.testing.assert_allclose(saved.model.intercept, by_hand.intercept, rtol=1e-12)
    assert saved.model.classes == ("no", "yes")
    assert saved.plan == dataclasses.replace(whole.fit, model=saved.plan.model)
    assert saved.rows_counted == counted
    assert saved.schema == schema
    assert saved.feature_names == ("age", "work=office", "work=farm", "work=(other)", "owner")
    assert saved.certificate == result.certificate
    assert saved.certificate.reproducible


def test_without_a_seed_the_noise_is_fresh(command, dpsco, tmp_path):
    found = []
    for name in ("a.json", "b.json"):
        command[5] = tmp_path / name
        code, out, _ = dpsco(*command, *QUICK)
        assert code == 0
        assert "SEEDED" not in out
        found.append(SavedModel.load(tmp_path / name))
    assert not found[0].certificate.reproducible
    assert not np.array_equal(found[0].model.coef, found[1].model.coef)
    assert "SEEDED" in dpsco(*command, *QUICK, "--seed", 1, "--force")[1]


@pytest.mark.thorough
def test_what_is_written_and_said(command, dpsco, home, tmp_path):
    pytest.importorskip("jinja2")
    more = ["--certificate", tmp_path / "c.json", "--report", tmp_path / "r.html"]
    code, out, err = dpsco(*command, *more, "--test-public", home / "fresh.csv")
    assert (code, err) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.json", "model.json", "r.html"]
    for name in ("c.json", "model.json", "r.html"):
        assert str(tmp_path / name) in out
    assert "spent: epsilon 2 at delta 1.56e-06" in out or "spent: epsilon 1.9" in out
    assert "not declared count as other" in out
    assert "on the 300 public rows" in out
    assert "accuracy" in out
    assert "always the largest class" in (tmp_path / "r.html").read_text()
    assert dp.Certificate.load(tmp_path / "c.json").verify(cross_check=False).ok
    if os.name == "posix":
        mask = os.umask(0)
        os.umask(mask)
        assert (tmp_path / "model.json").stat().st_mode & 0o777 == 0o666 & ~mask


def test_json(command, dpsco, home):
    code, out, _ = dpsco(*command, *QUICK, "--json", "--test-public", home / "fresh.csv")
    record = json.loads(out)
    assert code == 0
    assert (record["solver"], record["rows"], record["features"]) == ("noisy_gd", 800, 5)
    assert 1.9 < record["epsilon"] <= 2.0
    assert record["test"]["values"]["accuracy"] > record["test"]["baseline"]["accuracy"] + 0.1
    assert record["files"] == {"model": str(command[5])}


def test_it_learns(home, regression, model, dpsco):
    record = json.loads(dpsco("evaluate", model, home / "fresh.csv", "--json")[1])
    assert record["values"]["accuracy"] > 0.8
    record = json.loads(dpsco("evaluate", regression, home / "costs.csv", "--json")[1])
    assert record["values"]["MAE"] < 0.6 * record["baseline"]["MAE"]
    assert SavedModel.load(regression).model.label_range == (0.0, 5000.0)


def test_csv_parquet_and_folders_give_the_same_model(command, dpsco, home, tmp_path):
    table = csv.read_csv(home / "people.csv")
    owner = pa.array([value == "yes" for value in table.column("owner").to_pylist()])
    table = table.set_column(2, "owner", owner)
    pq.write_table(table, tmp_path / "people.parquet")
    folder = tmp_path / "folder"
    folder.mkdir()
    pq.write_table(table.slice(0, 300), folder / "a.parquet")
    work = table.column("work").combine_chunks().dictionary_encode()  # stored in another way
    coded = table.set_column(1, "work", work)
    pq.write_table(coded.slice(300), folder / "b.parquet")
    models = []
    for number, data in enumerate([home / "people.csv", tmp_path / "people.parquet", folder]):
        command[1], command[5] = data, tmp_path / f"{number}.json"
        assert dpsco(*command, *QUICK, "--seed", 5)[0] == 0
        models.append(json.loads(command[5].read_text())["coef"])
    assert models[0] == models[1] == models[2]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_large_tables_are_shuffled_on_disk(
    command, dpsco, refused, home, tmp_path, monkeypatch, kind
):
    seen = []
    real = table_file.StreamTable

    def spy(name, files, decoder, spill):
        seen.append(spill)
        return real(name, files, decoder, spill)

    if kind == "parquet":
        table = csv.read_csv(home / "people.csv")
        owner = pa.array([value == "yes" for value in table.column("owner").to_pylist()])
        command[1] = tmp_path / "people.parquet"
        pq.write_table(table.set_column(2, "owner", owner), command[1])
    monkeypatch.setattr(table_file, "StreamTable", spy)
    spill = tmp_path / "spill"
    spill.mkdir()
    assert dpsco(*command, *QUICK, "--spill", spill)[0] == 0
    assert spill not in seen
    monkeypatch.setattr(table_file, "IN_MEMORY", 100)
    assert dpsco(*command, *QUICK, "--spill", spill, "--force")[0] == 0
    assert spill in seen
    assert list(spill.iterdir()) == []
    none = tmp_path / "none"
    assert "--spill must be an existing folder" in refused(*command, "--spill", none, "--force")
    monkeypatch.setattr(table_file.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    text = refused(*command, "--spill", spill, "--force")
    assert "where 10 are free. Name another folder." in text


def test_a_plan_is_carried_out_as_it_stands(command, dpsco, refused, home, tmp_path):
    plan = tmp_path / "plan.json"
    facts = ["--schema", home / "schema.json", "--n", 800, "--epsilon", 1.5]
    planned = ["--model", "svc", "--alpha", 0.01, "--option", "rounds=3", "--solver", "noisy_gd"]
    assert dpsco("plan", *facts, *planned, "-o", plan)[0] == 0
    start = command[:-2]
    assert dpsco(*start, "--plan", plan)[0] == 0
    saved = SavedModel.load(command[5])
    assert saved.plan == dp.load_plan(plan.read_text())
    assert (saved.model.name, saved.model.classes) == ("svc", ("no", "yes"))
    assert "decides --epsilon" in refused(*command, "--plan", plan, "--force")
    assert "decides --solver" in refused(*start, "--plan", plan, "--solver", "dp_ftrl", "--force")
    more = tmp_path / "more.csv"
    more.write_text((home / "people.csv").read_text() + "50,farm,yes,9,no\n")
    start[1] = more
    assert "plan is for 800 rows" in refused(*start, "--plan", plan, "--force")
    plan.write_text("{}")
    assert "not a plan" in refused(*start, "--plan", plan, "--force")
    assert "cannot read the plan" in refused(*start, "--plan", tmp_path / "none", "--force")


def test_a_plan_for_other_columns_is_refused(command, dpsco, refused, tmp_path):
    plan = tmp_path / "plan.json"
    facts = ["--d", 4, "--feature-norm", 1, "--classes", 2, "--n", 800, "--epsilon", 1]
    assert dpsco("plan", *facts, "-o", plan)[0] == 0
    assert "rows of 4 features" in refused(*command[:-2], "--plan", plan)


def test_a_plan_with_other_labels_is_refused(command, dpsco, refused, tmp_path):
    plan = tmp_path / "plan.json"
    facts = ["--d", 5, "--feature-norm", 1, "--label-range", 0, 1, "--n", 800, "--epsilon", 1]
    assert dpsco("plan", *facts, "-o", plan)[0] == 0
    assert "other labels than the schema declares" in refused(*command[:-2], "--plan", plan)


@pytest.mark.parametrize(
    ("label", "entries", "classes"),
    [
        ({"kind": "sign"}, ["-1", "1"], (-1, 1)),
        ({"kind": "classes", "values": [3, 7]}, ["3", "7"], (3, 7)),
        ({"kind": "classes", "values": [False, True]}, ["false", "true"], (False, True)),
        ({"kind": "classes", "values": ["a", "b", "c"]}, ["a", "b", "c"], ("a", "b", "c")),
    ],
    ids=["sign", "numbers", "booleans", "three"],
)
def test_every_kind_of_classes(make, dpsco, tmp_path, label, entries, classes):
    columns, _ = make.people(600)
    rng = np.random.default_rng(3)
    places = np.digitize(columns["age"] + rng.normal(size=600), np.linspace(0, 100, len(entries)))
    columns["ill"] = np.array(entries)[np.minimum(places, len(entries)) - 1]
    data = make.write_csv(tmp_path / "d.csv", columns)
    schema, model = tmp_path / "s.json", tmp_path / "m.json"
    schema.write_text(json.dumps(make.schema_with(label={"name": "ill", **label})))
    assert dpsco("fit", data, "--schema", schema, "--epsilon", 50, "-o", model, *QUICK)[0] == 0
    saved = SavedModel.load(model)
    assert saved.model.classes == classes
    out = tmp_path / "p.csv"
    assert dpsco("predict", model, data, "-o", out)[0] == 0
    found = [str(p).lower() for p in csv.read_csv(out).column("prediction").to_pylist()]
    assert set(found) <= set(entries)
    record = json.loads(dpsco("evaluate", model, data, "--json")[1])
    right = np.mean([a == b for a, b in zip(found, columns["ill"], strict=True)])
    assert record["values"]["accuracy"] == pytest.approx(right)


# -- wrong use ---------------------------------------------------------------------------------


def test_refusals_before_any_row(command, refused, home, tmp_path):
    start = command[:-2]
    assert "--epsilon" in refused(*start)
    assert "epsilon must be positive" in refused(*start, "--epsilon", -1)
    assert "predicts numbers" in refused(*command, "--model", "huber")
    assert "--solver must be" in refused(*command, "--solver", "nope")
    assert "add_remove" in refused(*command, "--adjacency", "add_remove")
    said = refused(*command, "--seed", -1)
    assert "--seed must be at least 0, got -1. Leave --seed out" in said
    assert "Randomness" not in said
    command[1] = start[1] = tmp_path / "none.csv"  # the budget is looked at first
    assert "--epsilon" in refused(*start)
    assert "delta must lie" in refused(*command, "--delta", 3)
    command[3] = tmp_path / "none.json"
    assert "cannot read the schema" in refused(*command)


def test_a_missing_bound_is_explained(command, refused, home, make, tmp_path):
    command[3] = tmp_path / "schema.json"
    columns = [{"name": "age", "kind": "number"}]
    command[3].write_text(json.dumps(make.schema_with(columns=columns)))
    assert "column 'age' lacks the field 'range'" in refused(*command)
    command[3].write_text(json.dumps(make.schema_with(label=None)))
    assert "declares no label" in refused(*command)


def test_one_class_is_refused(command, refused, make, tmp_path):
    command[3] = tmp_path / "schema.json"
    label = {"name": "ill", "kind": "classes", "values": ["no"]}
    command[3].write_text(json.dumps(make.schema_with(label=label)))
    assert "at least 2 value(s)" in refused(*command)


def test_one_class_among_the_rows_is_not_discovered(command, dpsco, make, tmp_path):
    columns, _ = make.people(200)
    columns["ill"] = np.full(200, "no")
    command[1] = make.write_csv(tmp_path / "d.csv", columns)
    assert dpsco(*command, *QUICK)[0] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "odd.csv is empty"),
        ("age,work,owner,id,ill\n", "has no rows"),
        ("age,work,owner,id,ill\n31337.25,farm,yes,1,no\n", "no protection with n = 1 row. "),
        ("age,work,owner,id,ill,more\n31337.25,farm,yes,1,no,3\n", "not declared: 'more'"),
        ("age,work,owner,id\n31337.25,farm,yes,1\n", "column 'ill' is missing"),
        ("31337.25,farm,yes,1,no\n", "none of the 5 entries"),
        ("age,work,owner,id,ill\n31337.25,farm\n", "more or fewer entries"),
    ],
    ids=["empty", "no rows", "one row", "unknown", "missing", "no header", "ragged"],
)
def test_odd_files_are_refused(command, refused, tmp_path, text, words):
    command[1] = tmp_path / "odd.csv"
    command[1].write_text(text)
    assert words in refused(*command)


def test_files_that_are_no_tables(command, refused, tmp_path):
    command[1] = tmp_path / "none.csv"
    assert "none.csv" in refused(*command)
    command[1] = tmp_path / "bad.parquet"
    command[1].write_text("31337.25")
    assert "not a Parquet file" in refused(*command)
    command[1] = tmp_path / "text.parquet"
    pq.write_table(pa.table({"age": ["31337.25"], "work": ["a"], "ill": ["no"]}), command[1])
    assert "column 'age' must hold numbers" in refused(*command)


def spoiled(columns, change):
    """Return columns with one row that is outside the schema."""
    return {name: [*values, change.get(name, values[0])] for name, values in columns.items()}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change",
    [
        {"work": "31337.25"},
        {"age": "31337.25"},
        {"age": "31337.25 years"},
        {"age": ""},
        {"ill": "31337.25"},
        {"owner": "31337.25?"},
    ],
    ids=["category", "range", "text", "missing", "class", "flag"],
)
def test_no_entry_changes_what_is_said(command, dpsco, make, tmp_path, change):
    """An entry outside the schema is handled by a rule; nothing tells whether there is one."""
    shown = []
    for number, here in enumerate([{}, change]):
        columns = spoiled(make.people(100)[0], here)
        command[1] = make.write_csv(tmp_path / "d.csv", columns)
        command[5] = tmp_path / f"{number}.json"
        code, out, err = dpsco(*command, *QUICK, "--json")
        assert code == 0
        digest = json.loads(out)["digest"]  # of the model, with its noise
        shown.append((out + err).replace(str(command[5]), "").replace(digest, ""))
        assert make.secret not in command[5].read_text()
    assert shown[0] == shown[1]
    assert "clipped" in shown[0]
    assert "left out" in shown[0]


def test_a_label_outside_its_range_is_clipped(home, make, dpsco, tmp_path):
    columns, cost = make.people(300)
    del columns["ill"]
    coefs = []
    for largest in (5000, 31337.25):
        table = {**columns, "cost": np.append(cost[:-1], largest)}
        data = make.write_csv(tmp_path / "d.csv", table)
        command = ["fit", data, "--schema", home / "costs.json", "-o", tmp_path / "m.json"]
        code, out, _ = dpsco(*command, "--epsilon", 1, *QUICK, "--seed", 4, "--force")
        assert code == 0
        assert "labels outside [0, 5000] are clipped" in out
        coefs.append(json.loads((tmp_path / "m.json").read_text())["coef"])
    assert coefs[0] == coefs[1]


def test_nothing_is_replaced_unasked(command, dpsco, refused, home, tmp_path):
    assert dpsco(*command, *QUICK)[0] == 0
    before = command[5].read_text()
    assert "--force" in refused(*command, *QUICK)
    assert command[5].read_text() == before
    assert dpsco(*command, *QUICK, "--force")[0] == 0
    assert command[5].read_text() != before
    new = tmp_path / "new.json"
    command[5] = new
    assert "two outputs" in refused(*command, "--certificate", new)
    taken = tmp_path / "model.json"
    assert "--force" in refused(*command, "--certificate", taken)
    command[5] = home / "people.csv"
    assert "is read by this command" in refused(*command, "--force")


def test_a_failure_at_the_end_writes_nothing(command, refused, monkeypatch, tmp_path):
    def fail(*_):
        raise dp.errors.DataError("no more")

    monkeypatch.setattr(fit, "_write", fail)
    assert "no more" in refused(*command, *QUICK, "--certificate", tmp_path / "c.json")


def test_a_report_without_its_extra_is_refused_first(command, refused, monkeypatch, tmp_path):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "jinja2" else real(name)
    )
    ledger = tmp_path / "none.ledger"
    text = refused(*command, "--report", tmp_path / "r.html", "--odometer", ledger)
    assert "pip install 'dpsco[report]'" in text


def test_the_private_rows_are_no_public_ones(command, home, refused, tmp_path):
    """Nothing exact is said of the rows that are fitted on, by whatever name they are called."""
    link = tmp_path / "public.csv"
    link.symlink_to(home / "people.csv")
    for test in (home / "people.csv", home / ".." / home.name / "people.csv", link):
        assert "holds private rows of this fit" in refused(*command, "--test-public", test)


def test_a_part_of_the_private_rows_is_no_public_one(refused, tmp_path):
    """A folder or pattern of private files, or links to them, and a folder with them in it."""
    private, public = tmp_path / "data" / "private", tmp_path / "public"
    private.mkdir(parents=True)
    public.mkdir()
    for k in range(2):
        (private / f"part{k}.parquet").write_bytes(b"rows")
    (public / "linked.parquet").symlink_to(private / "part1.parquet")
    (public / "same.parquet").hardlink_to(private / "part0.parquet")
    more = ["--schema", tmp_path / "schema.json", "-o", tmp_path / "model.json", "--epsilon", 1]
    for rows in (private, tmp_path / "data" / "*" / "*.parquet"):
        for test in (
            private / "part0.parquet",
            public / "linked.parquet",
            public / "same.parquet",
            tmp_path / "data",
            public,
        ):
            text = refused("fit", rows, *more, "--test-public", test)
            assert "holds private rows of this fit" in text


def test_test_rows_without_labels_are_refused(command, refused, make, tmp_path):
    columns, _ = make.people(20)
    columns["ill"] = np.full(20, "other")
    test = make.write_csv(tmp_path / "test.csv", columns)
    assert "no row of" in refused(*command, "--test-public", test)


@pytest.mark.parametrize("ending", [".gz", ".txt", ".npz", ""])
def test_unknown_endings_are_refused(command, refused, tmp_path, ending):
    command[1] = tmp_path / f"table{ending}"
    command[1].write_text("31337.25")
    words = f"unknown ending {ending}" if ending else "a name without an ending"
    assert f"{words}: use .csv, .tsv" in refused(*command)


def test_a_folder_of_csv_files_is_refused_and_not_promised(command, refused, home, dpsco, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.csv").write_text((home / "people.csv").read_text())
    command[1] = tmp_path / "folder"
    assert "no file whose name ends in .parquet" in refused(*command)
    for name in (["fit"], ["predict"], ["evaluate"], ["schema", "draft"], ["schema", "check"]):
        shown = " ".join(dpsco(*name, "--help")[1].split())
        assert "a .csv, .tsv or .parquet file, .csv.gz, or a folder of .parquet files" in shown


def test_help_names_what_a_csv_file_can_tell(dpsco):
    shown = " ".join(dpsco("fit", "--help")[1].split())
    for words in ("too many or too few entries", "an unclosed quote", "blank line"):
        assert words in shown
    assert "Parquet files do not have this problem" in shown


@pytest.mark.thorough
@pytest.mark.parametrize(("epsilon", "word"), [(0.001, "Noise exceeds"), (0.01, "")])
def test_a_poor_fit_is_foretold(command, dpsco, home, epsilon, word):
    """The verdict of `plan`, on stderr."""
    force = ["--force"] if word else []
    code, out, err = dpsco(*command[:-1], epsilon, *QUICK, *force)
    assert code == 0
    facts = ["--schema", home / "schema.json", "--n", 800, "--epsilon", epsilon, *QUICK]
    verdict = dpsco("plan", *facts)[1].splitlines()[0]
    assert verdict.startswith(word or ("Noise exceeds", "With n = 800", "Weak"))
    assert err == f"dpsco fit: note: {verdict}\n"
    assert "constant" not in out
    record = json.loads(dpsco(*command[:-1], epsilon, *QUICK, "--force", "--json")[1])
    assert (record["outlook"], record["warnings"]) == (verdict, [])
    assert dpsco(*command, "--force")[2] == ""


def test_a_fit_that_noise_will_rule_is_refused_before_anything_is_read_or_paid(
    command, dpsco, home, tmp_path, monkeypatch
):
    def read(*_, **__):
        raise AssertionError("a row was read")

    monkeypatch.setattr("dpsco.data.tables.table_file.private_table", read)
    path = tmp_path / "a.odometer"
    assert dpsco("odometer", "create", path, "--epsilon", 3, "--delta", 1e-5)[0] == 0
    before = sorted(tmp_path.iterdir())
    code, out, err = dpsco(*command[:-1], 0.001, *QUICK, "--odometer", path)
    assert (code, out) == (3, "")
    assert "Noise exceeds what can be learnt" in err
    assert "Nothing was read or paid; --force fits all the same." in err
    assert sorted(tmp_path.iterdir()) == before
    assert json.loads(dpsco("odometer", "show", path, "--json")[1])["entries"] == []
    facts = ["--schema", home / "schema.json", "--n", 800, "--epsilon", 0.001, *QUICK]
    assert dpsco("plan", *facts)[0] == 3
    assert dpsco("plan", *facts, "--json")[0] == 3


def test_how_a_file_is_written_goes_into_the_schema_of_the_model(
    command, dpsco, home, make, tmp_path
):
    odd = tmp_path / "odd.csv"
    text = (home / "people.csv").read_text().replace(",", ";")
    odd.write_bytes(re.sub(r"(\d)[.](\d)", r"\1,\2", text).encode("cp1252"))
    seed = [*QUICK, "--seed", 1, "--no-count-rows"]
    assert dpsco(*command, *seed)[0] == 0
    plain = dp.models.SavedModel.load(command[command.index("-o") + 1])
    command[1] = odd
    flags = ["--sep", "semicolon", "--encoding", "windows-1252", "--decimal", ","]
    assert dpsco(*command, *seed, *flags, "--force")[0] == 0
    saved = dp.models.SavedModel.load(command[command.index("-o") + 1])
    assert (saved.schema.separator, saved.schema.encoding) == (";", "cp1252")
    assert saved.model.coef.tolist() == plain.model.coef.tolist()
    draft = ["schema", "draft", odd, "--label", "ill", "--public", "-o", tmp_path / "s.json"]
    assert dpsco(*draft, *flags)[0] == 0
    schema = dp.data.Schema.load(tmp_path / "s.json")
    assert (schema.separator, schema.encoding, schema.decimal) == (";", "cp1252", ",")
    assert dpsco("schema", "check", tmp_path / "s.json", odd, "--rows", "--public")[0] == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--epsilon": "0"}, "--epsilon must be positive"),
        ({"--epsilon": "much"}, "'much' is no number; write it with a point, such as 0.5."),
        ({"--epsilon": "nan"}, "--epsilon must be a number, got NaN"),
        ({"--schema": "none.json"}, "none.json"),
        ({"-o": "/dev/full"}, "/dev/full"),
        ({"--sep": "ab"}, "'separator' must be one of"),
        ({"--encoding": "morse"}, "'encoding' must be one of"),
        ({"--solver": "noisy_gf"}, "Did you mean 'noisy_gd'?"),
        ({"--model": "logistik"}, "Did you mean 'logistic'?"),
    ],
)
def test_wrong_inputs_are_one_sentence_and_cost_nothing(
    command, dpsco, refused, tmp_path, change, words
):
    path = tmp_path / "a.odometer"
    assert dpsco("odometer", "create", path, "--epsilon", 3, "--delta", 1e-5)[0] == 0
    more = ["--odometer", path, "--force", *(word for pair in change.items() for word in pair)]
    assert words in refused(*command, *more)
    assert json.loads(dpsco("odometer", "show", path, "--json")[1])["entries"] == []


def test_the_verdict_comes_before_the_fit(command, dpsco, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpsco.fit.run.run", stop)
    code, _, err = dpsco(*command[:-1], 0.001, *QUICK, "--force")
    assert code == 130
    assert err.index("Noise exceeds") < err.index("interrupted")


@pytest.mark.parametrize(
    ("epsilon", "delta", "words"),
    [
        (2, 0.01, ["delta 0.01 is above 1/n = 0.00125"]),
        (21, 1e-6, ["epsilon 21 is next to no protection"]),
        (20, 1 / 800, []),
    ],
)
def test_odd_budgets_are_warned_about(command, dpsco, epsilon, delta, words):
    *start, _ = command
    code, out, err = dpsco(*start, epsilon, "--delta", delta, *QUICK, "--json")
    assert code == 0
    notes = [line for line in err.splitlines() if "excess risk" not in line]
    assert [any(word in note for note in notes) for word in words] == [True] * len(notes)
    assert len(json.loads(out)["warnings"]) == len(words) == len(notes)


def test_pure_privacy_is_called_so(command, dpsco, tmp_path):
    code, out, _ = dpsco(*command, "--delta", 0, "--radius", 3)
    assert code == 0
    assert "spent: epsilon 2, pure (delta 0), replace_one" in out
    assert "1e-06" not in out
    shown = dpsco("verify", "--single", command[5])[1]
    assert shown.startswith("VALID: epsilon 2, pure (delta 0), replace_one")
    assert "spent       epsilon 2, pure (delta 0), epsilon " in shown
    record = json.loads(dpsco("verify", "--single", "--json", command[5])[1])
    assert (record["epsilon"], record["delta"]) == (pytest.approx(2.0), 0.0)
    record = json.loads(dpsco(*command, "--delta", 0, "--radius", 3, "--force", "--json")[1])
    assert (record["epsilon"], record["delta"]) == (pytest.approx(2.0), 0.0)


def test_people_with_several_rows_are_named(command, dpsco):
    code, out, _ = dpsco(*command, *QUICK, "--rows-per-person", 3)
    assert code == 0
    assert re.search("spent: .*, replace_one, for one person with up to 3 rows", out)
    assert "one person" not in dpsco(*command, *QUICK, "--force")[1]


@pytest.mark.thorough
def test_quantiles_are_measured_as_such(home, dpsco, tmp_path):
    pytest.importorskip("jinja2")
    data, schema = home / "costs.csv", home / "costs.json"
    model, report, test = (tmp_path / name for name in ("m.json", "r.html", "test.csv"))
    test.write_bytes(data.read_bytes())
    asked = ["--model", "quantile", "--setting", "quantile=0.9", "--epsilon", 50]
    more = ["--test-public", test, "--report", report, "-o", model]
    code, out, _ = dpsco("fit", data, "--schema", schema, *asked, *more)
    assert code == 0
    evaluated = dpsco("evaluate", model, data)[1]
    for shown in (out, evaluated):
        assert re.search(r"pinball loss +[\d.]+ +[\d.]+\ncoverage +0\.\d+ +0\.9", shown)
        assert shown.index("coverage") < shown.index("MAE")
        assert "the aim is 0.9" in shown
    for words in ("pinball loss", "coverage (aim 0.9)", "best constant"):
        assert words in report.read_text()
    record = json.loads(dpsco("evaluate", model, data, "--json")[1])
    assert record["values"]["pinball loss"] < 0.7 * record["baseline"]["pinball loss"]
    noisy = json.loads(dpsco("evaluate", model, data, "--json", "--epsilon", 500)[1])
    assert list(noisy["values"]) == ["pinball loss", "coverage"]
    for name, value in noisy["values"].items():
        assert value == pytest.approx(record["values"][name], rel=0.1)


@pytest.mark.parametrize("planned", [False, True], ids=["fit", "plan and fit"])
@pytest.mark.parametrize(
    ("name", "model"), [("people.csv", "sparse_logistic"), ("costs.csv", "lasso")]
)
def test_sparse_models_keep_so_many_weights(home, dpsco, tmp_path, name, model, planned):
    """The weights are those of the whole model with the same noise, and so is what is spent."""
    schema = home / ("schema.json" if name == "people.csv" else "costs.json")
    start = ["--schema", schema, "--model", model, "--radius", 5000, "--epsilon", 2, *QUICK]
    models = []
    for sparsify in ([], ["--setting", "sparsify=2"]):
        out = ["-o", tmp_path / f"{len(models)}.json", "--seed", 1]
        asked = [*start, *sparsify]
        if planned:
            plan = tmp_path / f"plan{len(models)}.json"
            assert dpsco("plan", "--n", 800, *asked, "-o", plan)[0] == 0
            asked = ["--schema", schema, "--plan", plan]
        code, _, err = dpsco("fit", home / name, *asked, *out)
        assert code == 0, err
        models.append(SavedModel.load(out[1]))
    whole, kept = models
    assert np.count_nonzero(whole.model.coef) > 2
    assert np.count_nonzero(kept.model.coef) == 2
    np.testing.assert_array_equal(kept.model.coef, whole.model.sparsified(2).coef)
    np.testing.assert_array_equal(kept.model.intercept, whole.model.intercept)
    assert kept.certificate.epsilon(delta=1e-6) == whole.certificate.epsilon(delta=1e-6)


def test_progress_goes_to_the_terminal(command, dpsco, monkeypatch):
    """The bar is called with the plan's rounds."""
    from dpsco.cli import progress

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_PAUSE", 0.0)
    monkeypatch.setattr("sys.stderr", screen)
    assert dpsco(*command, *QUICK)[0] == 0
    assert "fitting by noisy_gd" in screen.getvalue()
    assert "100 %" in screen.getvalue()
    assert "reading" in screen.getvalue()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".9", 0.9), ("0.9", 0.9), ("9.", 9.0), ("+.5e1", 5.0), ("-.25", -0.25), ("3", 3),
        ("true", True), ("[1, 2]", [1, 2]), ("tree", "tree"), (".", "."), ("1_0", "1_0"),
        ("1.2.3", "1.2.3"),
    ],
)  # fmt: skip
def test_settings_are_read_like_other_numbers(text, value):
    given = ["fit", "a.csv", "--schema", "s.json", "-o", "m.json", "--setting", f"quantile={text}"]
    ((name, found),) = parser().parse_args(given).setting
    assert (name, found, type(found)) == ("quantile", value, type(value))


@pytest.mark.thorough
@pytest.mark.parametrize("timing", [False, True])
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_time_is_told_only_if_asked_for(home, make, tmp_path, capsys, timing, form):
    """How long a private computation takes is none of the reader's business."""
    more = [*QUICK, *form, *(["--timing"] if timing else [])]
    files = ["--certificate", tmp_path / "c.json"]
    assert make.fit(home, tmp_path / "m.json", *more, *files) == 0
    out, err = capsys.readouterr()
    assert not re.search(r"\d s\b|second", out)
    assert bool(re.search(r"took \d+\.\d s: not covered by the certificate", err)) == timing
    for name in ("m.json", "c.json"):
        assert not re.search(r"seconds|elapsed|duration", (tmp_path / name).read_text())
