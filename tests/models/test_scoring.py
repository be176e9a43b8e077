"""A model asked about rows that lie elsewhere says what it says about rows that are here."""

import numpy as np
import pytest

import dpsco as dp
from dpsco.data import ClassLabel, Number, NumberLabel, Schema, SignLabel, TableEncoder
from dpsco.data.units import Units
from dpsco.errors import AssumptionError, DataError
from dpsco.models import LinearModel, evaluate, measure_privately, measure_table
from dpsco.models.scoring import ModelScores, Predictions

pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

RNG = np.random.default_rng(2)
N = 9_000
COLUMNS = (Number("a", 0.0, 1.0), Number("b", -1.0, 1.0))
A, B = RNG.uniform(0.0, 1.0, N), RNG.uniform(-1.0, 1.0, N)
THREE_NAMES = ("low", "mid", "high")
LABELS = {
    "classes": (
        ClassLabel("y", ("low", "mid", "high")),
        RNG.choice(["low", "mid", "high", "?"], N),
    ),
    "two": (ClassLabel("y", ("no", "yes")), np.where(A + B > 0.5, "yes", "no")),
    "sign": (SignLabel("y"), np.where(A + B > 0.5, 1, -1)),
    "number": (NumberLabel("y", 0.0, 3.0), 3.0 * A + RNG.normal(size=N)),
}
THREE = (np.array([[0.0, 1.0], [1.0, -1.0], [0.5, 0.5]]), np.array([0.1, 0.0, -0.1]))
ONE = (np.array([[2.0, 1.0]]), np.array([-0.5]))
UNITS = Units(np.array([0.5, 1.0]), np.array([0.5, 0.0]))
MODELS = {
    "classes": (LinearModel("logistic", *THREE, THREE_NAMES), None),
    "two": (LinearModel("logistic", *ONE, ("no", "yes"), units=UNITS), None),
    "sign": (LinearModel("svc", *ONE, (-1, 1)), None),
    "number": (LinearModel("quantile", *ONE, label_range=(0.0, 3.0)), 0.9),
}


@pytest.fixture(scope="module", params=LABELS)
def case(request, tmp_path_factory):
    """A model, its quantile, its encoder, and a file of rows with labels."""
    label, values = LABELS[request.param]
    path = tmp_path_factory.mktemp("scores") / "rows.parquet"
    pq.write_table(pa.table({"a": A, "b": B, "y": values}), path, row_group_size=2_500)
    return *MODELS[request.param], TableEncoder(Schema(COLUMNS, label)), path


def encoded(encoder, path):
    """Return rows and labels as `measure_privately` takes them."""
    X, labels = encoder.encode(pq.read_table(path))
    return X, evaluate.label_places(labels, encoder.schema.label)


def test_noisy_numbers_are_those_of_rows_in_one_place(case):
    """From one seed: the same certificate, and numbers that differ by rounding."""
    model, quantile, encoder, path = case
    how = {"quantile": quantile, "randomness": dp.Randomness.seeded(1)}
    budget = dp.ApproxDP(1.0, 1e-6)
    here = measure_privately(model, *encoded(encoder, path), budget, **how)
    how["randomness"] = dp.Randomness.seeded(1)
    with dp.data.from_cluster(path, encoder=encoder, cluster="threads:2") as table:
        there = measure_table(model, table, budget, **how)
    assert there.certificate.releases == here.certificate.releases
    for name, value in here.values.items():
        assert there.values[name] == pytest.approx(value, rel=1e-9)
    table = dp.data.from_parquet(path, encoder=encoder)  # any table will do
    how["randomness"] = dp.Randomness.seeded(1)
    assert measure_table(model, table, budget, **how).values == there.values


def test_no_row_adds_more_than_the_bound(case):
    model, quantile, encoder, path = case
    query = ModelScores(model, quantile)
    _, rows = evaluate.parts(model, *encoded(encoder, path), quantile)
    lengths = np.linalg.norm(rows, axis=1)
    assert 0.5 * query.bound < lengths.max() <= query.bound
    apart = np.linalg.norm(rows[:2_000] - rows[2_000:4_000], axis=1)
    assert apart.max() <= query.diameter <= 2.0 * query.bound


def test_predictions_are_the_models_own(case):
    model, _, encoder, path = case
    query = Predictions(model)
    with dp.data.from_cluster(path, encoder=encoder, cluster="threads:2", slice_rows=4096) as table:
        parts = [query.named(columns) for columns in table.mapped(query)]
    X, _ = encoded(encoder, path)
    assert len(parts) == 3
    found = np.concatenate([part["prediction"] for part in parts])
    np.testing.assert_array_equal(found, model.predict(X))
    if model.odds:
        chances = np.vstack([np.column_stack(list(part.values())[1:]) for part in parts])
        np.testing.assert_allclose(chances.astype(float), model.probabilities(X), rtol=1e-12)


def test_what_cannot_be_measured(case, tmp_path):
    model, quantile, encoder, path = case
    table = dp.data.from_parquet(path, encoder=encoder)
    budget = dp.ApproxDP(1.0, 1e-6, adjacency="add_remove")
    with pytest.raises(AssumptionError, match="add_remove would have to hide"):
        measure_table(model, table, budget, quantile=quantile)
    plain = dp.data.from_arrays(np.zeros((5, 2)), np.ones(5))
    wider = TableEncoder(Schema((*COLUMNS, Number("c", 0.0, 1.0)), encoder.schema.label))
    rows = pq.read_table(path).append_column("c", pa.array(A))
    pq.write_table(rows, tmp_path / "wide.parquet")
    for other in (plain, dp.data.from_parquet(tmp_path / "wide.parquet", encoder=wider)):
        with pytest.raises(DataError, match="the model is for encoded rows of 2 numbers"):
            measure_table(model, other, dp.ApproxDP(1.0, 1e-6), quantile=quantile)
