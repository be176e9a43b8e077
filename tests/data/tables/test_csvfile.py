"""CSV files: how many rows there are, and that errors hold on to no line."""

import numpy as np
import pytest

from dpsco.data.bounds import Bounds
from dpsco.data.schema.encoder import TableEncoder
from dpsco.data.schema.schema import Flag, Ignore, Number, Schema, SignLabel
from dpsco.data.tables import csvfile
from dpsco.data.tables.csvfile import csv_header, from_csv
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
    rows = table.bounded(Bounds(9.0), order="given").rows().rows
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


FIVE = Schema(
    (Number("id", 0, 9), Flag("a"), Flag("b"), Flag("no"), Ignore(""), Ignore("Alice SECRET")),
    SignLabel("y"),
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("12345,Bob SECRET,yes", "none of the 3 entries of the first line is a declared name"),
        (",Bob SECRET,yes", "none of the 3 entries"),  # the empty name is no sign of a header
        ("id;a;b;no;SECRET", "none of the 1 entries"),
        ("12345,Bob SECRET,no", "only 1 of the 5 declared names"),  # by chance
        ("12345,Alice SECRET,yes", "only 0 of the 5 declared names"),
        ("SECRET,SECRET,SECRET", "none of the 3 entries"),
    ],
)
def test_a_first_line_that_is_a_row_is_not_quoted(tmp_path, line, words):
    path = tmp_path / "a.csv"
    path.write_text(line + "\n")
    with pytest.raises(DataError, match=words) as refusal:
        from_csv(path, encoder=TableEncoder(FIVE))
    shown = str(refusal.value)
    assert "is there a header line, is it comma-separated?" in shown
    assert "SECRET" not in shown
    assert "12345" not in shown
    assert refusal.value.__context__ is None


def test_a_header_with_a_wrong_name_is_told_in_full(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,a,b,yes,y\n1,1,1,1,1\n")
    with pytest.raises(DataError, match=r"'no' is missing.*not declared: 'yes'"):
        from_csv(path, encoder=TableEncoder(FIVE))


@pytest.mark.parametrize("start", [b"SECRET\xff,b\n", b"", b'"' + b"SECRET" * 30_000])
def test_header_errors_hold_on_to_nothing(tmp_path, start):
    path = tmp_path / "a.csv"
    path.write_bytes(start)
    with pytest.raises(DataError, match="cannot read a header") as refusal:
        csv_header(path)
    assert refusal.value.__context__ is None
    assert refusal.value.__cause__ is None
    assert "SECRET" not in str(refusal.value)


def test_what_is_no_file_is_told_apart(tmp_path):
    with pytest.raises(DataError, match=r"there is no file .*none\.csv"):
        from_csv(tmp_path / "none.csv", encoder=ONE)
    with pytest.raises(DataError, match="is a folder: from_csv reads one file"):
        from_csv(tmp_path, encoder=ONE)


def test_the_index_that_pandas_writes_can_be_ignored(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",x\n0,4\n1,0\n,\n")
    with pytest.raises(DataError, match="not declared: ''"):
        from_csv(path, encoder=ONE)
    table = from_csv(path, encoder=TableEncoder(Schema((Ignore(""), Number("x", 0, 4)))))
    assert table.n == 3
    assert table.bounded(Bounds(9.0), order="given").rows().rows.ravel().tolist() == [1, -1, 0]
