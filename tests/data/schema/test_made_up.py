"""Made-up columns: within what is declared, all of it, and readable by the encoder."""

import numpy as np
import pytest

from dpsco.data import Category, ClassLabel, Number, Schema, TableEncoder
from dpsco.data.schema.made_up import made_up_columns, made_up_features
from dpsco.data.schema.schema import Date, Flag, Hashed, Ignore, Text

SCHEMA = Schema(
    (
        Number("age", 18, 90),
        Date("since", "2020-01-01", "2021-01-01"),
        Category("job", ("clerk", "nurse")),
        Hashed("town", 16),
        Text("note", 64),
        Flag("member"),
        Ignore("id"),
    ),
    ClassLabel("ill", ("no", "yes")),
)
UNIFORMS = np.random.default_rng(3).random


def test_entries_cover_what_is_declared():
    columns = made_up_columns(SCHEMA, 2_000, UNIFORMS)
    assert list(columns) == ["age", "since", "job", "town", "note", "member"]
    assert 18 <= min(columns["age"]) < 19 < 89 < max(columns["age"]) <= 90
    assert {moment.year for moment in columns["since"]} == {2020}
    assert len({moment.month for moment in columns["since"]}) == 12
    assert set(columns["job"]) == {"clerk", "nurse"}
    assert set(columns["member"]) == {False, True}


def test_the_encoder_reads_them():
    pytest.importorskip("pyarrow")
    encoder = TableEncoder(SCHEMA)
    X = made_up_features(encoder, 500, UNIFORMS)
    rows = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    assert rows.shape == (500, encoder.width)
    assert (np.abs(rows).sum(axis=0)[: encoder.width - 64] > 0).all()  # no column is left out
    assert np.linalg.norm(rows, axis=1).max() <= encoder.feature_norm * (1 + 1e-9)
