"""Reading files of others: JSON without surprises, within limits that are checked first."""

import json
import os
import time

import pytest

from dpsco._validate import reason, shown
from dpsco.data import Classes
from dpsco.errors import DataError
from dpsco.files.limits import JsonLimits
from dpsco.files.reading import parse_json, read_bytes, read_json

LIMITS = JsonLimits(size=10_000, values=1000, containers=100, depth=8)


def parsed(text, limits=LIMITS):
    return parse_json(text, what="the text", limits=limits, error=DataError)


@pytest.mark.parametrize(
    "text", ['{"a": [1, 2.5, "x", null, true]}', b'{"a": 1}', "\ufeff[1]", b"\xef\xbb\xbf[1]"]
)
def test_honest_text_is_read_with_or_without_a_mark(text):
    plain = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
    assert parsed(text) == json.loads(plain)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ('{"a": 1, "a": 2}', "given twice"),
        ('{"b": {"a": 1, "a": 2}}', "given twice"),
        ("[NaN]", "NaN"),
        ("[-Infinity]", "Infinity"),
        ("[1e999]", "beyond float64"),
        ("[-1e999]", "beyond float64"),
        ("[18446744073709551616]", "more than 64 bits"),
        (f"[{'9' * 5000}]", "more than 64 bits"),
        ("[" * 9 + "]" * 9, "nested more than 8 deep"),
        ("[" * 90 + "1", "not JSON"),
        (f"[{'[],' * 200}1]", "more than 100 lists"),
        (f"[{'1,' * 2000}1]", "more than 1,000 values"),
        (f'"{"x" * 20_000}"', "larger than 10,000 bytes"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b'["\xed\xa0\x80"]', "not UTF-8"),
        (r'["\ud800"]', "not valid Unicode"),
        (r'{"\ud800": 1}', "not valid Unicode"),
        ('["a"]'.encode("utf-16"), "not UTF-8"),
        (7, "got int"),
        (None, "got NoneType"),
    ],
)
def test_what_is_no_plain_json_is_refused_in_words(text, words):
    with pytest.raises(DataError, match=words) as refusal:
        parsed(text)
    assert len(str(refusal.value)) < 200


def test_depth_is_refused_where_python_gives_up_and_where_it_does_not():
    for depth in (9, 100, 500, 100_000):
        wide = JsonLimits(size=10**6, containers=10**6, depth=8)
        with pytest.raises(DataError, match="nested more than 8 deep"):
            parsed("[" * depth + "]" * depth, wide)
    assert parsed("[" * 8 + "]" * 8)


def test_whole_surrogate_pairs_are_text():
    assert parsed(r'["\ud83d\ude00"]') == ["\N{GRINNING FACE}"]


def test_numbers_are_left_to_readers_that_name_them():
    loose = JsonLimits(size=10_000, any_number=True)
    assert parsed("[1e999, 18446744073709551616]", loose) == [float("inf"), 2**64]
    with pytest.raises(DataError, match="NaN"):
        parsed("[NaN]", loose)


# -- files -----------------------------------------------------------------------------------------


def read(path, most=1000):
    return read_bytes(path, what="the file", most=most, error=DataError)


def test_files_are_read_up_to_their_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"[1]" + b" " * 997)
    assert read(path) == path.read_bytes()
    assert read_json(path, what="the file", limits=LIMITS, error=DataError) == [1]
    path.write_bytes(b" " * 1001)
    with pytest.raises(DataError, match="larger than 1,000 bytes"):
        read(path)


def test_an_enormous_file_is_not_read(tmp_path):
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 10**11)  # sparse: it takes no room
    started = time.perf_counter()
    with pytest.raises(DataError, match="larger than"):
        read(path)
    assert time.perf_counter() - started < 1.0


@pytest.mark.parametrize("name", ["none", ".", "with\0nul", "x" * 5000])
def test_paths_that_are_no_files_are_refused(tmp_path, name):
    with pytest.raises(DataError, match=r"cannot read the file"):
        read(f"{tmp_path}/{name}")


def test_pipes_and_devices_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", "/dev/null"):
        with pytest.raises(DataError, match="no regular file"):
            read(path)


# -- what messages quote ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000, list(range(10**5)), {k: k for k in range(10**5)}, 10**5000, [[["x" * 999]]]],
    ids=["text", "list", "dict", "integer", "nested"],
)
def test_a_message_quotes_little(value):
    assert len(shown(value)) <= 80
    assert len(reason(str(type(value)) * 100)) <= 160


def test_short_values_are_quoted_as_they_are():
    for value in ("text", 1.5, None, [1, 2], (0, 10), True):
        assert shown(value) == repr(value)


def test_our_own_records_are_quoted_in_part():
    many = Classes(range(10**4))
    assert len(repr(many)) > 10**4
    assert len(shown(many)) <= 160
