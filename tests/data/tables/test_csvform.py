"""The same rows, written in other ways, make the same table; bytes that are no text make holes."""

import gzip

import numpy as np
import pytest

import dpsco as dp
from dpsco.data import Category, ClassLabel, Hashed, Number, Schema, TableEncoder
from dpsco.data.schema.schema import SEPARATORS
from dpsco.data.tables.csvform import CsvForm
from dpsco.errors import ParameterError

COLUMNS = (Number("Größe", 0, 10), Category("Ort", ("Köln", "Ulm"), other=True), Hashed("wer", 8))
LABEL = ClassLabel("krank", ("nein", "ja"))
PLAIN = Schema(COLUMNS, LABEL)
ROWS = [("Größe", "Ort", "wer", "krank"), ("1.5", "Köln", "é", "ja"), ("7", "Bonn", "b", "nein")]
BOUNDS = dp.Bounds(2.0, label=dp.data.Classes(0, 1))


def text(separator=","):
    return "".join(separator.join(row) + "\n" for row in ROWS)


def table(path, schema):
    return dp.data.from_csv(path, encoder=TableEncoder(schema))


def rows(path, schema):
    block = table(path, schema).bounded(BOUNDS, order="given").rows()
    return np.column_stack([block.rows, block.labels]), block.present


FORMS = {
    "a.csv.gz": (gzip.compress(text().encode()), {}),
    "a.tsv": (text("\t").encode(), {}),
    "a.tsv.gz": (gzip.compress(text("\t").encode()), {}),
    "semicolon.csv": (text(";").encode(), {"separator": ";"}),
    "cp1252.csv": (text().encode("cp1252"), {"encoding": "windows-1252"}),
    "utf-16.csv": (text().encode("utf-16"), {"encoding": "UTF-16"}),
    "latin-1.csv.gz": (
        gzip.compress(text("|").encode("latin-1")),
        {"separator": "|", "encoding": "latin1"},
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_rows_are_the_same_however_they_are_written(name, tmp_path):
    (tmp_path / "plain.csv").write_text(text(), encoding="utf-8")
    content, fields = FORMS[name]
    (tmp_path / name).write_bytes(content)
    schema = Schema(COLUMNS, LABEL, **fields)
    expected, present = rows(tmp_path / "plain.csv", PLAIN)
    got, there = rows(tmp_path / name, schema)
    assert np.array_equal(expected, got)
    assert np.array_equal(present, there)
    assert Schema.from_json(schema.to_json()) == schema


def test_how_a_file_is_written_is_a_part_of_its_origin(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(text(), encoding="utf-8")
    origins = {
        table(path, Schema(COLUMNS, LABEL, **fields)).origin
        for fields in ({}, {"encoding": "utf-8"}, {"separator": ","}, {"decimal": "."})
    }
    assert len(origins) == 4


@pytest.mark.parametrize("column", [0, 1, 3])
def test_bytes_that_are_no_text_make_a_hole_and_no_error(column, tmp_path):
    """A byte that cp1252 does not know: the entry is missing, as if nothing stood there."""
    schema = Schema(COLUMNS, LABEL, encoding="cp1252")
    path, empty = tmp_path / "a.csv", tmp_path / "b.csv"
    lines = [list(row) for row in ROWS]
    for where, entry in ((path, "\x00"), (empty, "")):
        lines[1][column] = entry
        data = "".join(",".join(row) + "\n" for row in lines).encode("cp1252")
        where.write_bytes(data.replace(b"\x00", b"\x81"))
    for got, expected in zip(rows(path, schema), rows(empty, schema), strict=True):
        assert np.array_equal(got, expected)


def test_damage_is_told_without_a_row(tmp_path):
    path = tmp_path / "a.csv.gz"
    whole = gzip.compress(text().encode() * 9)
    for content in (whole[:-9], whole[:30], b"SECRET of no archive", whole[:20] + b"SECRET" * 9):
        path.write_bytes(content)
        with pytest.raises(dp.errors.DataError, match="cannot read") as refusal:
            table(path, PLAIN)
        assert "SECRET" not in str(refusal.value)
        assert refusal.value.__context__ is None
    path = tmp_path / "b.csv"
    path.write_text(text(), encoding="utf-8")
    with pytest.raises(dp.errors.DataError, match=r"must be UTF-16 text|none of the"):
        table(path, Schema(COLUMNS, LABEL, encoding="utf-16"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"separator": "ab"}, "'separator' must be one of"),
        ({"encoding": "idna"}, "'encoding' must be one of"),
        ({"encoding": "nonsense"}, "'encoding' must be one of"),
        ({"encoding": 8}, "'encoding' must be one of"),
    ],
)
def test_forms_that_are_none(fields, words):
    with pytest.raises(dp.errors.ParameterError, match=words):
        Schema(COLUMNS, LABEL, **fields)


def test_a_name_says_separator_and_compression():
    assert CsvForm.of("x.TSV.gz") == CsvForm("\t", "utf-8", True)
    assert CsvForm.of("x.tsv", Schema(COLUMNS, separator=";")) == CsvForm(";")


@pytest.mark.parametrize("encoding", ["shift_jis", "cp932", "gb18030", "gbk", "big5", "cp949"])
@pytest.mark.parametrize("separator", SEPARATORS)
def test_half_a_letter_never_swallows_a_separator(tmp_path, encoding, separator):
    """Either the form is refused before a file is opened, or no byte of an entry moves the next."""
    columns = (Category("a", ("x",), other=True), Number("b", 0, 1))
    if encoding != "cp949" and separator in "|~^":
        with pytest.raises(ParameterError, match="swallow"):
            Schema(columns, separator=separator, encoding=encoding)
        return
    schema = Schema(columns, separator=separator, encoding=encoding)
    path = tmp_path / "a.csv"
    for first in range(0x81, 0x100, 14):
        lines = [b"a,b", b"x" + bytes([first]) + b",0.5", b"x,0.25", b"xxxxxxx,1"]
        path.write_bytes(b"\n".join(lines).replace(b",", separator.encode()) + b"\n")
        assert dp.data.from_csv(path, encoder=TableEncoder(schema)).n == 3
