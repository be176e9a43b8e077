"""``predict`` and ``evaluate``."""

import csv
import gzip
import json
import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pa_csv

import dpsco as dp
from dpsco.data.tables import table_file
from dpsco.models import LinearModel, SavedModel

HEADER = "age,work,owner,id,ill\n"


@pytest.fixture
def plain(model, tmp_path):
    """A model of plain columns of numbers, without a schema."""
    certificate = SavedModel.load(model).certificate
    known = LinearModel("logistic", np.array([[2.0, 0.0]]), np.array([-1.0]), ("low", "high"))
    path = tmp_path / "plain.json"
    SavedModel(known, certificate, feature_names=("a", "b")).save(path)
    return path


def test_predictions_are_the_models_own(model, home, dpsco, tmp_path):
    saved = SavedModel.load(model)
    out = tmp_path / "p.csv"
    code, shown, _ = dpsco("predict", model, home / "fresh.csv", "-o", out)
    assert code == 0
    assert "300 predictions" in shown
    found = pa_csv.read_csv(out)
    assert found.schema.names == ["prediction", "probability no", "probability yes"]
    frame = pa_csv.read_csv(home / "fresh.csv")
    owner = pa.array([value == "yes" for value in frame.column("owner").to_pylist()])
    frame = frame.set_column(2, "owner", owner)
    assert found.column("prediction").to_pylist() == saved.predict(frame).tolist()
    chances = np.column_stack([found.column(k).to_numpy() for k in (1, 2)])
    np.testing.assert_allclose(chances, saved.probabilities(frame), rtol=1e-12)


def test_batches_make_no_difference(model, home, dpsco, tmp_path, monkeypatch):
    assert dpsco("predict", model, home / "fresh.csv", "-o", tmp_path / "a.csv")[0] == 0
    monkeypatch.setattr(table_file, "_BATCH", 7)
    assert dpsco("predict", model, home / "fresh.csv", "-o", tmp_path / "b.csv")[0] == 0
    first, second = (pa_csv.read_csv(tmp_path / name) for name in ("a.csv", "b.csv"))
    assert first.column(0) == second.column(0)
    np.testing.assert_allclose(first.column(2), second.column(2), rtol=1e-12)


def test_predictions_as_parquet_and_without_labels(model, regression, home, dpsco, tmp_path):
    table = pa_csv.read_csv(home / "fresh.csv").drop_columns(["ill"])
    owner = pa.array([value == "yes" for value in table.column("owner").to_pylist()])
    data = tmp_path / "d.parquet"
    pq.write_table(table.set_column(2, "owner", owner), data)
    for fitted, columns in ((model, 3), (regression, 1)):
        out = tmp_path / f"{fitted.stem}.parquet"
        assert dpsco("predict", fitted, data, "-o", out)[0] == 0
        assert pq.read_table(out).shape == (300, columns)
    costs = pq.read_table(tmp_path / "regression.parquet").column("prediction").to_numpy()
    assert 500 < costs.min() < costs.max() < 5000


def test_predict_tells_what_is_outside(model, dpsco, tmp_path):
    data = tmp_path / "d.csv"
    data.write_text(HEADER + "150,sea,yes,1,no\n-3,,no,2,\nold,farm,maybe,3,odd\n,farm,yes,4,no\n")
    code, out, err = dpsco("predict", model, data, "-o", tmp_path / "p.csv")
    assert (code, err.count("\n")) == (0, 1)
    assert "7 entries are missing, out of range or not declared, in columns 'age', 'work', " in err
    assert "'owner'; they are read by the schema's rules" in err
    assert out.startswith("4 predictions: ")
    again = ["predict", model, data, "-o", tmp_path / "p.csv", "--force"]
    record = json.loads(dpsco(*again, "--json")[1])
    assert record["predictions"] == 4
    assert record["outside"]["work"] == {"missing": 1, "not declared": 1}
    code, _, err = dpsco(*again, "--verbose")
    notes = [line.removeprefix("dpsco predict: note: ") for line in err.splitlines()]
    assert notes == [
        "column 'age': 1 entry is missing",
        "column 'age': 1 entry is below the range",
        "column 'age': 1 entry is above the range",
        "column 'age': 1 entry is not a number",
        "column 'work': 1 entry is missing",
        "column 'work': 1 entry is not declared",
        "column 'owner': 1 entry is not a number",
    ]


def test_columns_are_kept_as_they_stand(model, dpsco, tmp_path):
    """Text of a CSV file is not read as numbers; a column need not be declared."""
    data, out = tmp_path / "d.csv", tmp_path / "p.csv"
    data.write_text('age,work,owner,id,bed\n07.50,farm,yes,0012,"a, b"\n,office,no,,\n')
    keep = ["--id", "id", "--keep", "bed", "age"]
    assert dpsco("predict", model, data, "-o", out, *keep)[0] == 0
    first, *rows = csv.reader(out.read_text().splitlines())
    assert first[:4] == ["id", "bed", "age", "prediction"]
    assert [row[:3] for row in rows] == [["0012", "a, b", "07.50"], ["", "", ""]]
    again = ["predict", model, data, "-o", out, "--force"]
    assert dpsco(*again)[0] == 2  # the bed is not declared, and nobody has asked for it
    plain, same = tmp_path / "plain.csv", tmp_path / "e.csv"
    same.write_text("age,work,owner,id\n07.50,farm,yes,0012\n,office,no,\n")
    assert dpsco("predict", model, same, "-o", plain)[0] == 0
    assert [row[3:] for row in rows] == [*csv.reader(plain.read_text().splitlines())][1:]


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_nobody_else_may_read_what_is_said_of_private_rows(model, home, dpsco, tmp_path):
    data, out = tmp_path / "d.csv", tmp_path / "p.csv"
    data.write_bytes((home / "fresh.csv").read_bytes())
    data.chmod(0o600)
    assert dpsco("predict", model, data, "-o", out, "--keep", "age")[0] == 0
    assert out.stat().st_mode & 0o777 == 0o600


def test_columns_of_parquet_keep_their_types(model, home, dpsco, tmp_path):
    table = pa_csv.read_csv(home / "fresh.csv")
    owner = pa.array([entry == "yes" for entry in table.column("owner").to_pylist()])
    table = table.set_column(table.schema.names.index("owner"), "owner", owner)
    extra = pa.array([[k] for k in range(300)])
    pq.write_table(table.append_column("list", extra), tmp_path / "d.parquet")
    command = ["predict", model, tmp_path / "d.parquet", "--keep", "id", "list", "-o"]
    assert dpsco(*command, tmp_path / "p.parquet")[0] == 0
    result = pq.read_table(tmp_path / "p.parquet")
    assert result.column("list").combine_chunks() == extra
    assert result.column("id").to_pylist() == list(range(300))
    code, _, err = dpsco(*command, tmp_path / "p.csv")
    assert code == 2
    assert "Write a .parquet file." in err


def test_columns_that_cannot_be_kept(model, home, refused, tmp_path):
    command = ["predict", model, home / "fresh.csv", "-o", tmp_path / "p.csv"]
    assert "has no column 'aeg' to keep. Did you mean 'age'?" in refused(*command, "--id", "aeg")
    data = tmp_path / "d.csv"
    data.write_text("age,work,owner,id,prediction\n7,farm,yes,1,2\n")
    command[2] = data
    assert "Did you mean 'prediction'?" in refused(*command, "--id", "predicton")  # undeclared
    text = refused(*command, "--keep", "prediction")
    assert "'prediction' cannot be kept: a column of predictions has that name" in text


def test_files_that_are_written_otherwise(model, home, dpsco, tmp_path):
    """Flags say what the schema does not; the predictions are those of the plain file."""
    plain = tmp_path / "plain.csv"
    assert dpsco("predict", model, home / "fresh.csv", "-o", plain)[0] == 0
    text = (home / "fresh.csv").read_text()
    (tmp_path / "d.tsv.gz").write_bytes(gzip.compress(text.replace(",", "\t").encode()))
    odd = re.sub(r"(\d)[.](\d)", r"\1,\2", text.replace(",", ";"))
    (tmp_path / "odd.csv").write_bytes(odd.encode("utf-16"))
    flags = ["--sep", ";", "--encoding", "utf-16", "--decimal", ","]
    for name, more in (("d.tsv.gz", []), ("odd.csv", flags)):
        out = tmp_path / f"{name}.csv"
        assert dpsco("predict", model, tmp_path / name, "-o", out, *more)[0] == 0
        assert out.read_text() == plain.read_text()
    shown = [dpsco("evaluate", model, file, *more)[1] for file, more in (
        (home / "fresh.csv", []), (tmp_path / "odd.csv", flags)
    )]  # fmt: skip
    assert shown[0] == shown[1]


def test_predict_is_silent_where_all_is_well(model, home, dpsco, tmp_path):
    code, out, err = dpsco("predict", model, home / "fresh.csv", "-o", tmp_path / "p.csv")
    assert code == 0
    assert err.count("\n") <= 1  # the sea is not declared
    assert "column 'work';" in err
    data = tmp_path / "d.csv"
    data.write_text(HEADER + "50,farm,yes,1,no\n")
    code, out, err = dpsco("predict", model, data, "-o", tmp_path / "q.csv")
    assert (code, err) == (0, "")
    assert out.startswith("1 prediction: ")


def test_plain_columns(plain, dpsco, refused, tmp_path):
    data, out = tmp_path / "d.csv", tmp_path / "p.csv"
    data.write_text("b,label,a\n0,low,0\n0,high,3\n0,high,\n")
    assert "no prediction" in refused("predict", plain, data, "-o", out)  # of the last row
    record = json.loads(dpsco("evaluate", plain, data, "--label", "label", "--json")[1])
    assert (record["values"]["accuracy"], record["rows"]) == (1.0, 2)  # it is left out
    data.write_text("b,label,a\n0,low,0\n0,high,3\n0,high,-1\n")
    assert dpsco("predict", plain, data, "-o", out)[0] == 0
    assert pa_csv.read_csv(out).column("prediction").to_pylist() == ["low", "high", "low"]
    record = json.loads(dpsco("evaluate", plain, data, "--label", "label", "--json")[1])
    assert record["values"]["accuracy"] == pytest.approx(2 / 3)
    assert "--label" in refused("evaluate", plain, data)
    assert "no column 'nope'" in refused("evaluate", plain, data, "--label", "nope")
    assert "need Parquet" in refused("evaluate", plain, data, "--label", "label", "--epsilon", 1)
    assert "must hold text" in refused("evaluate", plain, data, "--label", "a")
    pq.write_table(pa_csv.read_csv(data), tmp_path / "d.parquet")
    command = ["evaluate", plain, tmp_path / "d.parquet", "--label", "label"]
    assert dpsco(*command, "--epsilon", 1)[0] == 0
    data.write_text("b,label\n0,low\n")
    assert "no column 'a'" in refused("predict", plain, data, "-o", tmp_path / "q.csv")


def test_evaluate_says_that_it_is_not_private(model, home, dpsco):
    code, out, _ = dpsco("evaluate", model, home / "fresh.csv")
    assert code == 0
    assert out.startswith("NOT PRIVATE")
    for name in ("accuracy", "log-loss", "AUC", "300 rows", "always the largest class"):
        assert name in out
    record = json.loads(dpsco("evaluate", model, home / "fresh.csv", "--json")[1])
    assert record["private"] is False
    assert "NOT PRIVATE" in record["notice"]


def test_evaluate_tells_what_is_outside(regression, home, make, dpsco, tmp_path):
    columns, cost = make.people(50)
    del columns["ill"]
    cost[:3], cost[3] = 9_000, -1
    data = make.write_csv(tmp_path / "d.csv", {**columns, "cost": cost})
    code, out, _ = dpsco("evaluate", regression, data)
    assert code == 0
    assert "column 'cost': 3 entries are above the range" in out
    assert "column 'cost': 1 entry is below the range" in out
    assert "MAE" in out


def test_one_class_has_no_curve(model, make, dpsco, tmp_path):
    columns, _ = make.people(50)
    columns["ill"] = np.full(50, "no")
    data = make.write_csv(tmp_path / "d.csv", columns)
    code, out, _ = dpsco("evaluate", model, data)
    assert code == 0
    assert "undefined" in out
    record = json.loads(dpsco("evaluate", model, data, "--json")[1])
    assert record["values"]["AUC"] is None
    assert record["baseline"]["accuracy"] == 1.0


def test_private_metrics_have_a_certificate(model, home, dpsco, tmp_path):
    path = tmp_path / "c.json"
    command = ["evaluate", model, home / "fresh.csv", "--epsilon", 3, "--certificate", path]
    code, out, _ = dpsco(*command)
    assert code == 0
    assert "NOT PRIVATE" not in out
    assert "+-" in out
    certificate = dp.Certificate.load(path)
    assert certificate.verify(cross_check=False).ok
    assert certificate.budget == dp.ApproxDP(3.0, 1 / 300**2)
    assert not certificate.reproducible
    record = json.loads(dpsco(*command, "--json", "--force")[1])
    assert record["private"] is True
    exact = json.loads(dpsco("evaluate", model, home / "fresh.csv", "--json")[1])["values"]
    # Noise beyond 4 standard deviations: fewer than 7 false alarms in 1e5.
    for name, value in record["values"].items():
        assert abs(value - exact[name]) < 2 * record["two_sigma"][name]
        assert value != exact[name]


def test_private_metrics_say_nothing_about_single_entries(model, make, dpsco, tmp_path):
    for entry in ("", make.secret):
        columns, _ = make.people(60)
        columns = {name: [*values[:-1], entry] for name, values in columns.items()}
        data = make.write_csv(tmp_path / "d.csv", columns)
        code, out, err = dpsco("evaluate", model, data, "--epsilon", 1, "--json")
        record = json.loads(out)
        assert (code, err, record["notes"], record["rows"]) == (0, "", [], 60)
        assert make.secret not in out


def test_private_metrics_are_paid_for(model, home, dpsco, refused, tmp_path):
    path = tmp_path / "a.ledger"
    assert dpsco("odometer", "create", path, "--epsilon", 1, "--delta", 1e-4)[0] == 0
    command = ["evaluate", model, home / "fresh.csv", "--odometer", path, "--epsilon"]
    assert dpsco(*command, 0.9)[0] == 0
    assert json.loads(dpsco("odometer", "show", path, "--json")[1])["spent"] > 0.5
    assert "Nothing was recorded or released" in refused(*command, 0.9)


def test_refusals(model, certificate, home, refused, make, tmp_path):
    fresh, out = home / "fresh.csv", tmp_path / "p.csv"
    assert "must end in .csv" in refused("predict", model, fresh, "-o", tmp_path / "p.txt")
    assert "without its model" in refused("predict", certificate, fresh, "-o", out)
    assert "cannot read the model or certificate" in refused("predict", fresh, fresh, "-o", out)
    assert "is read by" in refused("predict", model, fresh, "-o", fresh, "--force")
    assert "go with --epsilon" in refused("evaluate", model, fresh, "--odometer", out)
    assert "leave --label out" in refused("evaluate", model, fresh, "--label", "ill")
    odd = tmp_path / "odd.csv"
    odd.write_text(f"age,work,owner,id\n{make.secret},farm,yes,1\n")
    assert "column 'ill' is missing" in refused("evaluate", model, odd)
    odd.write_text(f"{HEADER}{make.secret},farm,yes,1,\n")
    assert "no row has a label" in refused("evaluate", model, odd)
    assert "no protection with n = 1 row" in refused("evaluate", model, odd, "--epsilon", 1)
    odd.write_text(HEADER)
    for command in (["evaluate", model, odd], ["predict", model, odd, "-o", out]):
        assert "has no rows" in refused(*command)
    odd.write_text(f"age,owner\n{make.secret},yes\n")
    assert "column 'work' is missing" in refused("predict", model, odd, "-o", out)


@pytest.mark.parametrize("cut", [0, 1, 200, 2000])
def test_a_truncated_model_is_refused(model, home, refused, tmp_path, cut):
    path = tmp_path / "cut.json"
    path.write_text(model.read_text()[:cut])
    assert "not JSON" in refused("predict", path, home / "fresh.csv", "-o", tmp_path / "p.csv")


def test_a_changed_model_is_refused(model, home, refused, tmp_path):
    path = tmp_path / "changed.json"
    path.write_text(model.read_text().replace('"no"', '"on"'))
    text = refused("evaluate", path, home / "fresh.csv")
    assert "changed after it was written" in text
