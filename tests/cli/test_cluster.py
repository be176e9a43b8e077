"""``--cluster``: the same models and predictions, from rows that workers read."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pa_csv

from dpsco.models import SavedModel

HOW = ["--epsilon", "2", "--order", "given", "--seed", "3", "--solver", "noisy_gd"]
HOW += ["--option", "rounds=3"]


@pytest.fixture(scope="module")
def parts(home, tmp_path_factory):
    """The people as three Parquet files."""
    folder = tmp_path_factory.mktemp("parts")
    table = pa_csv.read_csv(home / "people.csv")
    owner = pa.array([value == "yes" for value in table.column("owner").to_pylist()])
    table = table.set_column(table.schema.get_field_index("owner"), "owner", owner)
    for number, start in enumerate((0, 300, 500)):
        part = table.slice(start, (300, 200, 300)[number])
        pq.write_table(part, folder / f"part{number}.parquet", row_group_size=120)
    return folder


def test_a_fit_is_the_same_model(home, parts, dpsco, tmp_path):
    """Weights and certificate: but for the workers, whom it takes on trust."""
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    schema = ["--schema", home / "schema.json", *HOW]
    assert dpsco("fit", parts, *schema, "-o", here)[0] == 0
    pattern = str(parts / "*.parquet")
    code, shown, _ = dpsco("fit", pattern, *schema, "--cluster", "threads:2", "-o", there)
    assert code == 0
    assert "800 rows by noisy_gd" in shown
    one, two = SavedModel.load(here), SavedModel.load(there)
    assert one.model.coef.tobytes() == two.model.coef.tobytes()
    assert one.certificate.releases == two.certificate.releases
    extra = set(two.certificate.trusted) - set(one.certificate.trusted)
    assert len(extra) == 1
    assert "workers read the rows" in extra.pop()


def test_a_fit_that_is_over_needs_no_cluster(home, parts, dpsco, tmp_path):
    out, place = tmp_path / "m.json", home / "schema.json"
    how = ["--schema", place, *HOW, "--checkpoint", tmp_path / "run", "-o", out]
    assert dpsco("fit", parts, *how, "--cluster", "threads:2")[0] == 0
    coef = SavedModel.load(out).model.coef
    code, shown, error = dpsco("fit", parts, *how, "--force", "--cluster", "tcp://127.0.0.1:1")
    assert code == 0, error
    assert "stored result of the run" in shown
    assert SavedModel.load(out).model.coef.tobytes() == coef.tobytes()


def test_sums_are_timed_for_whoever_asks(home, parts, dpsco, tmp_path):
    schema = ["--schema", home / "schema.json", *HOW, "--cluster", "threads:2", "-o"]
    timing = ["--timing", "--no-count-rows", "--units", "declared"]
    _, _, error = dpsco("fit", parts, *schema, tmp_path / "a.json", *timing)
    assert error.count("sum of 800 rows in 1 slice: ") == 3
    assert error.count("received: keep it to yourself") == 3
    assert "slice" not in dpsco("fit", parts, *schema, tmp_path / "b.json")[2]


def test_groups_are_shuffled(home, parts, dpsco, tmp_path):
    how = [*HOW[:2], "--order", "groups", *HOW[4:]]
    out, place = tmp_path / "m.json", home / "schema.json"
    cluster = ["--cluster", "threads:1", "--json"]
    code, shown, _ = dpsco("fit", parts, "--schema", place, *how, *cluster, "-o", out)
    assert code == 0
    assert json.loads(shown)["order"] == "groups"
    trusted = SavedModel.load(out).certificate.trusted
    assert any("8 row groups come in a random order, but up to 120 rows" in s for s in trusted)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_are_the_same(model, parts, dpsco, tmp_path, ending):
    here, there = tmp_path / f"here.{ending}", tmp_path / f"there.{ending}"
    assert dpsco("predict", model, parts, "-o", here)[0] == 0
    code, shown, _ = dpsco("predict", model, parts, "--cluster", "threads:2", "-o", there)
    assert code == 0
    assert "800 predictions" in shown
    read = pa_csv.read_csv if ending == "csv" else pq.read_table
    one, two = read(here), read(there)
    assert one.column(0).to_pylist() == two.column(0).to_pylist()
    for name in one.column_names[1:]:
        np.testing.assert_allclose(one.column(name), two.column(name), rtol=1e-12)


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("rows", ["one file", "folder", "pattern"])
def test_nobody_else_may_read_predictions(model, parts, dpsco, tmp_path, rows):
    """A folder that all may enter has files that they may not read; a pattern is no file at all."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o755)
    for part in parts.iterdir():
        (closed / part.name).write_bytes(part.read_bytes())
        (closed / part.name).chmod(0o600)
    named = {"one file": closed / part.name, "folder": closed, "pattern": closed / "*.parquet"}
    out = tmp_path / "p.csv"
    before = os.umask(0)
    try:
        assert dpsco("predict", model, named[rows], "--cluster", "threads:1", "-o", out)[0] == 0
    finally:
        os.umask(before)
    assert out.stat().st_mode & 0o777 == 0o600


def test_rows_without_a_label_are_predicted(model, parts, dpsco, tmp_path):
    pq.write_table(pq.read_table(parts).drop_columns(["ill"]), tmp_path / "fresh.parquet")
    out = tmp_path / "p.csv"
    cluster = ["--cluster", "threads:1"]
    assert dpsco("predict", model, tmp_path / "fresh.parquet", *cluster, "-o", out)[0] == 0
    assert len(pa_csv.read_csv(out)) == 800


def test_a_model_is_measured_with_noise(model, parts, dpsco):
    """At a huge budget the noisy numbers are the exact ones of one process."""
    how = ["--epsilon", "1e4", "--delta", "1e-3", "--json"]
    cluster = ["--cluster", "threads:2"]
    here = json.loads(dpsco("evaluate", model, parts, *how)[1])
    there = json.loads(dpsco("evaluate", model, parts, *how, *cluster)[1])
    assert there["rows"] == 800
    for name, value in here["values"].items():
        assert there["values"][name] == pytest.approx(value, abs=1e-2)
    assert "workers read the rows" in str(there["certificate"])


@pytest.mark.parametrize(
    ("command", "match"),
    [
        (["fit", "--epsilon", "1"], "--order given"),
        (["fit", "--epsilon", "1", "--order", "given", "--spill", "."], "--spill"),
        (["fit", "--epsilon", "1", "--order", "given", "--solver", "phased_sgd"], "noisy_gd"),
        (["evaluate"], "pass --epsilon"),
        (["evaluate", "--epsilon", "1", "--label", "ill"], "names the label"),
        (["predict", "--verbose"], "--verbose would read the rows here"),
        (["predict", "--keep", "id"], "--id and --keep would read"),
    ],
)
def test_what_workers_cannot_do(home, model, parts, dpsco, tmp_path, command, match):
    name, *more = command
    out = tmp_path / "out.csv"
    inputs = [parts, "--schema", home / "schema.json", "-o", out]
    if name != "fit":
        inputs = [model, parts, *(["-o", out] if name == "predict" else [])]
    code, _, error = dpsco(name, *inputs, "--cluster", "threads:1", *more)
    assert code
    assert match in error
    assert not out.exists()


def test_a_pattern_that_the_shell_wrote_out(home, parts, dpsco, tmp_path):
    files = sorted(parts.iterdir())
    how = ["--schema", home / "schema.json", "--epsilon", "1", "-o", tmp_path / "m.json"]
    code, _, error = dpsco("fit", *files, *how, "--cluster", "threads:1")
    assert code == 2
    assert "a pattern in quotes" in error
    assert "quotes" not in dpsco("fit", files[0], *how, "--clutser", "threads:1")[2]


def test_groups_need_a_cluster(home, parts, dpsco, tmp_path):
    out, place = tmp_path / "m.json", home / "schema.json"
    how = ["--schema", place, "--epsilon", "1", "--order", "groups"]
    code, _, error = dpsco("fit", parts, *how, "-o", out)
    assert code
    assert "--order groups goes with --cluster" in error
