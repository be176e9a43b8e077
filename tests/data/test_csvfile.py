"""CSV files: how many rows there are, and that errors hold on to no line."""

import numpy as np
import pytest

from dpsco.data import csvfile
from dpsco.data.bounds import Bounds
from dpsco.data.csvfile import from_csv
from dpsco.data.encoder import TableEncoder
from dpsco.data.schema import Number, Schema
from dpsco.errors import DataError

ONE = TableEncoder(Schema((Number("x", 0, 4),)))
TWO = TableEncoder(Schema((Number("x", 0, 4), Number("z", 0, 4))))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block", [16, 31, 1 << 20])
@pytest.mark.parametrize("share", [0.1, 0.9, 1.0])
def test_a_missing_entry_in_a_file_of_one_column_is_a_row(tmp_path, monkeypatch, end, block, share):
    """Its line is empty. Were such lines left out, the number of rows would tell how many."""
    monkeypatch.setattr(csvfile, "_BLOCK", block)
    empty = np.random.default_rng(0).random(300) < share
    lines = ["x", *("" if nothing else "4" for nothing in empty)]
    path = tmp_path / "a.csv"
    path.write_bytes((end.join(lines) + end).encode())
    table = from_csv(path, encoder=ONE)
    assert table.n == 300
    rows = table.bounded(Bounds(9.0), order="stream").rows().rows
    assert rows.ravel().tolist() == np.where(empty, 0.0, 1.0).tolist()


def test_empty_lines_of_wider_files_are_no_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,z\n1,2\n\n,\n3,4\n\n")
    assert from_csv(path, encoder=TWO).n == 3


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("line", ["secret", "1,2,secret", '"secret,1\n2,3'])
def test_errors_hold_on_to_no_line(tmp_path, line, late):
    path = tmp_path / "a.csv"
    path.write_text("x,z\n" + "1,2\n" * (400_000 if late else 1) + line + "\n")
    with pytest.raises(DataError, match="cannot read") as refusal:
        from_csv(path, encoder=TWO)
    error = refusal.value
    assert error.__context__ is None
    assert error.__cause__ is None
    assert "secret" not in str(error)
