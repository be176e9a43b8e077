"""Dates and free text as features: public ranges and sizes, bounded rows, and never an error."""

import datetime
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.data import Date, Flag, Number, Schema, TableEncoder, Text, draft_schema
from dpsco.data.counts import PresentRows
from dpsco.geometry import Lp
from dpsco.losses import SquaredDistance as Mean

RANGE = ("2020-01-01", "2029-12-31")
DAY = TableEncoder(Schema((Date("when", *RANGE),)))
MOMENTS = ["2024-02-29", "2019-05-05", "2031-01-01", None]


def scaled(days):
    low, high = 18262, 21914  # whole days since 1970
    return np.clip((np.array(days) - (low + high) / 2) / ((high - low) / 2), -1, 1)


def test_dates_of_any_type_are_the_same_numbers():
    days = [None if text is None else datetime.date.fromisoformat(text) for text in MOMENTS]
    frames = [
        pd.DataFrame({"when": pd.to_datetime(pd.Series(MOMENTS))}),
        pd.DataFrame({"when": pd.Series(MOMENTS, dtype="str")}),
        pd.DataFrame({"when": pd.Series(days, dtype=object)}),
        pd.DataFrame({"when": pd.Series([*MOMENTS[:3], 7], dtype=object)}),
        pl.DataFrame({"when": days}),
        pl.DataFrame({"when": MOMENTS}),
        pa.table({"when": pa.array(days, pa.date64())}),
        pa.table({"when": pa.array(MOMENTS).dictionary_encode()}),
        pa.table({"when": pa.array(pd.to_datetime(pd.Series(MOMENTS)), pa.timestamp("ns", "UTC"))}),
    ]
    expected = [*scaled([19782, 0, 99999]), 0.0]
    for frame in frames:
        assert DAY.features(frame).ravel().tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("text", "order", "unit", "number"),
    [
        ("2024-02-29T23:59:59.5", "ymd", "second", 1709251199),
        ("2024-02-29 01:30:00+02:00", "ymd", "hour", 474767),
        ("29.2.2024", "dmy", "month", 649),
        ("2/29/2024", "mdy", "year", 54),
        ("1969-12-31", "ymd", "day", -1),
        ("2023-02-29", "ymd", "day", None),
        ("2024-13-01", "ymd", "day", None),
        ("29.2.2024", "ymd", "day", None),
        ("2024-02-29T25:00", "ymd", "day", None),
        ("0001-01-01T00:00+05:00", "ymd", "day", None),
        ("é", "ymd", "day", None),
        ("", "ymd", "day", None),
    ],
)
def test_dates_written_as_text(text, order, unit, number):
    from dpsco.data.tables.dates import dates_in

    (value,) = dates_in(pa.array([text]), unit, order)
    assert (None if np.isnan(value) else value) == number


def test_missing_dates_follow_their_rule():
    def encoded(missing):
        columns = (Date("when", *RANGE, "year", missing), Flag("f"))
        frame = pd.DataFrame({"when": ["no date"], "f": [True]})
        return TableEncoder(Schema(columns)).features(frame)[0, :-1].tolist()

    assert encoded(None) == [0.0]
    assert encoded("indicator") == [0.0, 1.0]
    assert encoded("2029-06-01") == [1.0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"low": "2020"}, "must be dates such as"),
        ({"low": 2020}, "must be dates such as"),
        ({"low": "2029-12-31"}, "must span a whole day or more"),
        ({"unit": "week"}, "must be one of 'day'"),
        ({"order": "ydm"}, "'order' must be one of"),
        ({"missing": "2031-01-01"}, "must lie in the range"),
    ],
)
def test_dates_that_cannot_be_declared(fields, words):
    with pytest.raises(dp.errors.ParameterError, match=words):
        Date(**{"name": "when", "low": RANGE[0], "high": RANGE[1], **fields})


@pytest.mark.parametrize(
    "fields",
    [{"buckets": 0}, {"ngrams": (2, 1)}, {"ngrams": (1, 9)}, {"ngrams": 2}, {"of": "lines"},
     {"most": 0}, {"most": 10**6}],
)  # fmt: skip
def test_text_that_cannot_be_declared(fields):
    with pytest.raises(dp.errors.ParameterError, match="column 't', field"):
        Text(**{"name": "t", "buckets": 8, **fields})


def test_a_schema_file_holds_both():
    schema = Schema(
        (Date("d", *RANGE, "month", "indicator", "dmy"), Text("t", 64, (2, 3), "letters"))
    )
    assert Schema.from_json(schema.to_json()) == schema
    assert '"range": ["2020-01-01", "2029-12-31"], "unit": "month"' in schema.to_json()
    assert Schema.from_json(Schema((Text("t", 64),)).to_json()).columns == (Text("t", 64),)


TEXT = Schema(
    (Number("x", 0, 1), Text("t", 12, most=5), Text("u", 30, ngrams=(1, 3), of="letters"))
)
FORMS = [
    TableEncoder(TEXT, sparse=sparse, dtype=dtype)
    for sparse, dtype in itertools.product((False, True), (np.float64, np.float32))
]


def encodable(text):
    return text if text is None else text.encode("utf-8", "replace").decode()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(max_size=30) | st.none(), st.text(max_size=9)), min_size=1, max_size=5
    )
)
def test_no_text_makes_a_row_longer_than_its_bound(texts):
    first, second = zip(*texts, strict=True)
    columns = {"t": list(map(encodable, first)), "u": list(map(encodable, second))}
    arrays = {name: pa.array(column, pa.string()) for name, column in columns.items()}
    table = pa.table({"x": [1.0] * len(texts), **arrays})
    dense = FORMS[0].features(table)
    for encoder in FORMS:
        rows = encoder.features(table)
        rows = rows.toarray() if encoder.sparse else rows
        assert np.allclose(rows, dense, atol=1e-6)
        assert np.count_nonzero(rows, axis=1).max() <= encoder.entries
        exact = rows.astype(np.float64)
        for part in (exact[:, 1:13], exact[:, 13:]):
            assert np.linalg.norm(part, axis=1).max() <= 1.0
        assert np.linalg.norm(exact, axis=1).max() <= encoder.feature_norm
        for norm in (Lp(1.0), Lp(1.5), Lp(np.inf)):
            assert (
                max(norm(row[None])[0] for row in exact) <= encoder.bounds(norm=norm).feature_norm
            )


def test_texts_that_share_words_are_close_and_order_of_words_counts():
    encoder = TableEncoder(Schema((Text("t", 4096),)))
    texts = ["Cash prize, call now!", "cash PRIZE call now", "see you at six"]
    frame = pd.DataFrame({"t": [*texts, "now call prize cash"]})
    first, same, other, turned = encoder.features(frame).toarray()
    assert np.array_equal(first, same)
    assert first @ first == pytest.approx(1.0, abs=1e-5)
    assert abs(first @ other) < 0.2
    assert 0.2 < first @ turned < 0.8


def test_bytes_that_are_no_text_and_long_texts_raise_nothing(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,t,u\n1,\xff\xfe cash,b\n0," + b"word " * 100_000 + b",c\n,,\n")
    source = dp.data.from_csv(path, encoder=FORMS[1]).bounded(FORMS[1].bounds(), order="given")
    assert source.rows().present.all()


@pytest.mark.parametrize("encoder", FORMS[::2], ids=["dense", "sparse"])
def test_text_is_shuffled_on_disk_and_counted(encoder, tmp_path):
    path = tmp_path / "a.csv"
    words = ["cash prize call", "see you", "", "at six o clock there"]
    lines = [f"{k % 2},{words[k % 4]},{words[k % 3]}" for k in range(600)]
    path.write_text("\n".join(["x,t,u", *lines]) + "\n")
    table = dp.data.from_csv(path, encoder=encoder, spill=tmp_path)
    sums = [
        table.bounded(encoder.bounds(intercept=1.0), order=order).sum(query)
        for order in ("given", "shuffled")
        for query in (dp.data.ClippedGradient(Mean(), np.zeros(encoder.width + 1), 9.0),)
    ]
    assert np.allclose(*sums)
    counted = PresentRows.encoded(encoder)
    assert table.bounded(encoder.bounds(), order="given").sum(counted).tolist() == [600.0, 600.0]


def test_a_model_learns_from_text_and_dates():
    rng = np.random.default_rng(0)
    late, spam = rng.random(3000) < 0.5, rng.random(3000) < 0.5
    frame = pd.DataFrame({
        "when": np.where(late, "2028-05-05", "2021-05-05"),
        "t": np.where(spam, "cash prize call now", "see you at six"),
    })  # fmt: skip
    encoder = TableEncoder(Schema((Date("when", *RANGE), Text("t", 64))))
    y = np.where(late & spam, "yes", "no")
    model = dp.PrivateLogisticRegression(
        feature_norm=encoder.feature_norm, classes=["no", "yes"], epsilon=4.0, random_state=0
    ).fit(encoder.features(frame), y)
    assert model.score(encoder.features(frame), y) > 0.95


def test_drafts_know_dates_codes_and_sentences():
    frame = pa.table({
        "when": pa.array([datetime.date(2021, 3, 4), datetime.date(2023, 5, 6)] * 50),
        "ward": [1, 2, 7, 9] * 25,
        "age": list(range(100)),
        "note": [f"the patient number {k} felt well" for k in range(100)],
        "left": [f"{1 + k % 28:02}.03.2021" for k in range(100)],
        "isbn": [f"{k}.3-2021" for k in range(100)],
    })  # fmt: skip
    from dpsco.data.schema.draft import draft

    made = draft(frame, label=None, public=True)
    assert "read as classes" not in str(draft(frame, label="age", public=True))
    assert "label 'ward' has 4 different whole numbers, read as classes" in str(
        draft(frame, label="ward", public=True)
    )
    assert made.schema.columns[0] == Date("when", "2021-01-01", "2023-12-31")
    text = str(made)
    assert "when  date: 2021-01-01 to 2023-12-31, in days" in text
    assert "column 'ward' has 4 different whole numbers: are these codes?" in text
    assert '"values": [1, 2, 7, 9]' in text
    assert "'age' has" not in text
    assert "column 'note' looks like sentences" in text
    assert 'column \'left\' looks like dates: "kind": "date", "order": "dmy"' in text
    assert "'isbn' looks" not in text
    assert draft_schema(frame, label=None, public=True) == made.schema
