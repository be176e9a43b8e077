"""``dpsco shuffle``: rows anew in a random order, for fits that keep the order of a file."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from dpsco import cli


def test_a_shuffled_file_is_fitted_in_its_order(tmp_path, home, capsys):
    out = tmp_path / "shuffled.parquet"
    run = ["shuffle", home / "people.csv", out, "--schema", home / "schema.json", "--json"]
    assert cli.main(list(map(str, run))) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == {"rows": 800, "files": [str(out)], "group_rows": 1 << 17}
    fit = ["fit", out, "--schema", home / "schema.json", "--epsilon", "1", "--order", "given"]
    assert cli.main([*map(str, fit), "-o", str(tmp_path / "model.json")]) == 0
    assert "rows come in an order that was not chosen" in (tmp_path / "model.json").read_text()


def test_what_it_says(tmp_path, home, capsys):
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "in.parquet")
    run = ["shuffle", str(tmp_path / "in.parquet"), str(tmp_path / "out")]
    assert cli.main(run) == 0
    assert capsys.readouterr().out == f"2 rows in a random order: {tmp_path / 'out'}\n"
    assert cli.main(run) == 2
    assert "out is there already, and is not replaced" in capsys.readouterr().err
    run = ["shuffle", str(home / "people.csv"), str(tmp_path / "b.parquet")]
    assert cli.main(run) == 2
    assert "Pass the schema" in capsys.readouterr().err
    run = [
        "shuffle",
        run[1],
        run[2],
        "--spill",
        str(tmp_path / "no"),
        "--schema",
        str(home / "schema.json"),
    ]
    assert cli.main(run) == 2
    assert "--spill must be an existing folder" in capsys.readouterr().err
