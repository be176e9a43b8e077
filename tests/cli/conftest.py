"""A made-up table of people with a schema, and models fitted on it through the command line."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from dpsco import cli

SCHEMA = {
    "version": 1,
    "columns": [
        {"name": "age", "kind": "number", "range": [0, 100]},
        {"name": "work", "kind": "category", "values": ["office", "farm"], "other": True},
        {"name": "owner", "kind": "flag"},
        {"name": "id", "kind": "ignore"},
    ],
    "label": {"name": "ill", "kind": "classes", "values": ["no", "yes"]},
}
SECRET = "31337.25"  # an entry that no message may quote


def people(rows, seed=0):
    """Return columns in which the ill are old and work on farms."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(0, 100, rows)
    work = rng.choice(["office", "farm", "sea"], rows)
    owner = rng.choice(["yes", "no"], rows)
    score = (age - 50) / 10 + 2.0 * (work == "farm") - 1.0
    ill = np.where(score + rng.logistic(size=rows) > 0, "yes", "no")
    cost = 1000 + 30 * age + 500 * (work == "farm") + rng.normal(size=rows) * 100
    return {"age": age, "work": work, "owner": owner, "id": np.arange(rows), "ill": ill}, cost


def write_csv(path, columns):
    names = list(columns)
    lines = [",".join(names)]
    lines += [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def schema_with(**changes):
    return {**SCHEMA, **changes}


@pytest.fixture(scope="session")
def make():
    """The functions above, for the tests."""
    return SimpleNamespace(
        people=people, write_csv=write_csv, schema_with=schema_with, fit=fit, secret=SECRET
    )


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A folder with tables and schemas: classes in people.csv, numbers in costs.csv."""
    folder = tmp_path_factory.mktemp("people")
    columns, cost = people(800)
    write_csv(folder / "people.csv", columns)
    write_csv(folder / "fresh.csv", people(300, seed=1)[0])
    numbers = {**{k: v for k, v in columns.items() if k != "ill"}, "cost": cost}
    write_csv(folder / "costs.csv", numbers)
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    label = {"name": "cost", "kind": "number", "range": [0, 5000]}
    (folder / "costs.json").write_text(json.dumps(schema_with(label=label)))
    return folder


def fit(home, output, *more, data="people.csv", schema="schema.json"):
    command = ["fit", str(home / data), "--schema", str(home / schema), "-o", str(output)]
    if "--plan" not in more:
        command += ["--epsilon", "2"]
    return cli.main([*command, *map(str, more)])


@pytest.fixture(scope="session")
def model(home):
    """A model file of a classifier."""
    path = home / "model.json"
    options = ["--seed", 1, "--certificate", home / "certificate.json", "--solver", "noisy_gd"]
    assert fit(home, path, *options) == 0
    return path


@pytest.fixture(scope="session")
def regression(home):
    """A model file of a regression."""
    path = home / "regression.json"
    options = ["--seed", 2, "--solver", "noisy_gd"]
    assert fit(home, path, *options, data="costs.csv", schema="costs.json") == 0
    return path


@pytest.fixture
def certificate(home, model, tmp_path):
    """A copy of the model's certificate, to be damaged."""
    path = tmp_path / "certificate.json"
    path.write_text((home / "certificate.json").read_text())
    return path


@pytest.fixture
def dpsco(capsys):
    """Run a command; return its exit code, what it printed, and what it complained."""

    def run(*arguments):
        capsys.readouterr()
        code = cli.main([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


@pytest.fixture
def refused(dpsco, tmp_path):
    """Run a command that must refuse in one line, quote no entry, and write nothing."""

    def run(*arguments, code=2):
        before = sorted(tmp_path.rglob("*"))
        found, out, err = dpsco(*arguments)
        words = [str(arguments[0])]
        if words[0] in ("schema", "odometer"):
            words.append(str(arguments[1]))
        assert found == code, (out, err)
        assert out == ""
        lines = err.splitlines(keepends=True)
        err = "".join(line for line in lines if not line.startswith("dpsco fit: note: "))
        assert err.startswith(f"dpsco {' '.join(words)}: ")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        assert SECRET not in err
        assert sorted(tmp_path.rglob("*")) == before
        return err

    return run
