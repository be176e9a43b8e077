"""``ledger``: several fits within one budget."""

import json


def test_create_and_show(dpsco, tmp_path):
    path = tmp_path / "a.ledger"
    code, out, _ = dpsco("ledger", "create", path, "--epsilon", 3, "--delta", 1e-6)
    assert code == 0
    assert "0 of 3 spent" in out
    code, out, _ = dpsco("ledger", "show", path, "--json")
    record = json.loads(out)
    assert code == 0
    assert (record["spent"], record["allowed"], record["entries"]) == (0.0, 3.0, [])
    assert record["budget"]["adjacency"] == "replace_one"
    assert dpsco("ledger", "show", path)[1] == dpsco("ledger", "show", path)[1] != ""


def test_the_unit_and_the_adjacency_are_kept(dpsco, tmp_path):
    path = tmp_path / "a.ledger"
    more = ["--adjacency", "zero_out", "--rows-per-person", 4]
    assert dpsco("ledger", "create", path, "--epsilon", 3, "--delta", 1e-6, *more)[0] == 0
    budget = json.loads(dpsco("ledger", "show", path, "--json")[1])["budget"]
    assert budget["adjacency"] == "zero_out"
    assert budget["unit"] == {"rows": 4, "name": "person"}


def test_a_ledger_is_never_replaced(dpsco, refused, tmp_path):
    path = tmp_path / "a.ledger"
    create = ["ledger", "create", path, "--delta", 1e-6, "--epsilon"]
    assert dpsco(*create, 3)[0] == 0
    before = path.read_bytes()
    assert "never replaced" in refused(*create, 300)
    assert "never replaced" in refused(*create, 3)
    assert path.read_bytes() == before


def test_refusals(refused, tmp_path):
    path = tmp_path / "a.ledger"
    assert "epsilon must be positive" in refused(
        "ledger", "create", path, "--epsilon", -1, "--delta", 1e-6
    )
    assert "dpsco ledger create" in refused("ledger", "show", path)
    path.write_text("something else, long enough to be a file with a header of its own")
    assert "cannot use the odometer" in refused("ledger", "show", path)


def test_fits_pay_until_nothing_is_left(dpsco, refused, home, make, tmp_path):
    path = tmp_path / "a.ledger"
    assert dpsco("ledger", "create", path, "--epsilon", 2.5, "--delta", 1e-5)[0] == 0
    pay = ["--odometer", path, "--solver", "noisy_gd", "--option", "rounds=2"]
    assert make.fit(home, tmp_path / "first.json", *pay) == 0
    spent = json.loads(dpsco("ledger", "show", path, "--json")[1])
    assert 1.0 < spent["spent"] < 2.5
    assert [entry["label"] for entry in spent["entries"]] == ["noisy_gd"]
    data, schema = home / "people.csv", home / "schema.json"
    command = ["fit", data, "--schema", schema, "-o", tmp_path / "second.json", "--epsilon", 2.5]
    assert "Nothing was recorded or released" in refused(*command, *pay)
    assert json.loads(dpsco("ledger", "show", path, "--json")[1]) == spent
    assert "dpsco ledger create" in refused(*command, "--odometer", tmp_path / "none")


def test_a_fit_that_cannot_be_written_costs_nothing(dpsco, refused, home, tmp_path):
    path = tmp_path / "a.ledger"
    assert dpsco("ledger", "create", path, "--epsilon", 3, "--delta", 1e-4)[0] == 0
    (tmp_path / "model.json").write_text("mine")
    command = ["fit", home / "people.csv", "--schema", home / "schema.json", "--epsilon", 1]
    for output in ("model.json", "none/model.json", "a.ledger/model.json"):
        refused(*command, "--odometer", path, "-o", tmp_path / output)
    new = tmp_path / "new.json"
    broken = tmp_path / "broken.csv"
    broken.write_text("age\n1\n")
    refused(*command, "--odometer", path, "-o", new, "--test-public", broken)
    assert json.loads(dpsco("ledger", "show", path, "--json")[1])["spent"] == 0.0
