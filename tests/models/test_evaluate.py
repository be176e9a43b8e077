"""Metrics: known answers, the bound of a row, and the law of the noise."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import dpsco as dp
from dpsco import data
from dpsco.data.schema.schema import ClassLabel, Number, NumberLabel, Schema, SignLabel
from dpsco.errors import DataError, ParameterError
from dpsco.models import LinearModel, evaluate

BINARY = LinearModel("logistic", np.array([[1.0]]), np.array([0.0]), ("a", "b"))
THREE = LinearModel("svc", np.eye(3), np.zeros(3), ("a", "b", "c"))
NUMBER = LinearModel("linear", np.array([[1.0]]), np.array([0.0]), None, (0.0, 10.0))
QUANTILE = LinearModel("quantile", np.array([[1.0]]), np.array([0.0]), None, (0.0, 10.0))
BUDGET = dp.ApproxDP(1.0, 1e-6)


def test_two_classes():
    X = np.array([[-1.0], [2.0], [3.0], [-4.0], [5.0]])
    found = evaluate.measure(BINARY, X, np.array([0.0, 1.0, 0.0, 0.0, np.nan]))
    assert found.rows == 4
    assert found.values["accuracy"] == 0.75
    assert found.baseline["accuracy"] == 0.75
    losses = [math.log1p(math.exp(u)) for u in (-1, -2, 3, -4)]
    assert found.values["log-loss"] == pytest.approx(np.mean(losses))
    assert found.baseline["log-loss"] == pytest.approx(
        -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    )
    assert found.values["AUC"] == pytest.approx(2 / 3)


def test_three_classes_have_no_curve_and_support_vectors_no_chances():
    found = evaluate.measure(THREE, np.eye(3), np.array([0.0, 1.0, 1.0]))
    assert found.values == {"accuracy": pytest.approx(2 / 3)}
    assert found.baseline == {"accuracy": pytest.approx(2 / 3)}


def test_numbers():
    found = evaluate.measure(NUMBER, np.array([[1.0], [4.0], [20.0]]), np.array([2.0, 4.0, 7.0]))
    assert found.values == {"MAE": pytest.approx(4 / 3), "RMSE": pytest.approx(math.sqrt(10 / 3))}
    assert found.baseline["MAE"] == pytest.approx(5 / 3)
    assert found.baseline["RMSE"] == pytest.approx(np.std([2.0, 4.0, 7.0]))


def test_quantiles():
    X, labels = np.array([[1.0], [4.0], [2.0], [8.0]]), np.array([2.0, 4.0, 7.0, 1.0])
    found = evaluate.measure(QUANTILE, X, labels, quantile=0.75)
    assert list(found.values) == ["pinball loss", "coverage", "MAE", "RMSE"]
    assert found.values["pinball loss"] == pytest.approx((0.75 + 0 + 0.75 * 5 + 0.25 * 7) / 4)
    assert found.values["coverage"] == 0.5
    # The constant 4: three of the four labels are at or below it.
    assert found.baseline["pinball loss"] == pytest.approx((0.25 * (2 + 0 + 3) + 0.75 * 3) / 4)
    assert found.baseline["coverage"] == 0.75
    assert "the aim is 0.75" in str(found)
    assert found.to_json()["about"] == found.about


def test_no_constant_beats_the_constant_quantile():
    labels = np.random.default_rng(0).exponential(size=101)
    zero = LinearModel("quantile", np.zeros((1, 1)), np.zeros(1))
    best = evaluate.measure(zero, np.zeros((101, 1)), labels, quantile=0.3).baseline["pinball loss"]
    for guess in np.linspace(0, 3, 61):
        other = LinearModel("quantile", np.zeros((1, 1)), np.array([guess]))
        found = evaluate.measure(other, np.zeros((101, 1)), labels, quantile=0.3)
        assert best <= found.values["pinball loss"] + 1e-12


def test_an_unknown_quantile_is_said():
    X, labels = np.zeros((2, 1)), np.array([1.0, 2.0])
    for found in (
        evaluate.measure(QUANTILE, X, labels),
        evaluate.measure_privately(QUANTILE, X, labels, BUDGET),
    ):
        assert list(found.values) == ["MAE", "RMSE"]
        assert "not known which quantile" in str(found)
    assert "quantile" not in str(evaluate.measure(NUMBER, X, labels))
    assert evaluate.quantile_of(None) is None


def test_rows_whose_number_is_private_are_refused_before_they_are_used():
    class Untouched:
        def __getattribute__(self, name):
            raise AssertionError("a row was used")

    hidden = dp.ApproxDP(1.0, 1e-6, adjacency="add_remove")
    with pytest.raises(dp.errors.AssumptionError, match="replace_one or zero_out"):
        evaluate.measure_privately(BINARY, Untouched(), Untouched(), hidden)


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30))
def test_area_under_curve_counts_pairs(pairs):
    scores = np.array([float(score) for score, _ in pairs])
    positive = np.array([flag for _, flag in pairs])
    above = [
        1.0 if p > q else 0.5 if p == q else 0.0
        for p in scores[positive]
        for q in scores[~positive]
    ]
    found = evaluate.area_under_curve(scores, positive)
    assert math.isnan(found) if not above else found == pytest.approx(np.mean(above))


ODD = st.sampled_from([0.0, 1.0, 2.0, 5.0, -1e308, 1e308, math.inf, -math.inf, math.nan, 9.99])


@settings(deadline=None, max_examples=50)
@given(st.sampled_from([BINARY, THREE, NUMBER, QUANTILE]), st.lists(ODD, min_size=4, max_size=4))
def test_no_row_exceeds_the_bound(model, entries):
    """In exact arithmetic: the squares of the parts are summed as fractions."""
    from fractions import Fraction

    X, label = np.array([entries[: model.d]]), np.array([entries[3]])
    with np.errstate(all="ignore"):
        level = 0.9 if model is QUANTILE else None
        names, parts = evaluate.parts(model, X, label, level)
    evaluate.measure_privately(model, X, label, BUDGET, quantile=level)  # no warning
    assert np.isfinite(parts).all()
    bound = math.nextafter(math.sqrt(evaluate.most(model, names)), math.inf)
    assert sum(Fraction(float(part)) ** 2 for part in parts[0]) <= Fraction(bound) ** 2


@pytest.mark.parametrize("model", [BINARY, THREE, NUMBER])
@pytest.mark.parametrize("kind", [np.asarray, np.ndarray.tolist, csr_matrix, pd.DataFrame])
def test_no_entry_decides_an_error(model, kind):
    """A row that cannot be read, or whose class is not declared, adds zeros and is not refused."""
    X = np.linspace(-1.0, 1.0, 5 * model.d).reshape(5, model.d)
    labels = np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    undeclared = () if model.classes is None else (7.0, -1.0, -5.0, 0.5, 1e300)
    for bad in (np.nan, np.inf, -np.inf, *undeclared):
        changed = np.where(np.arange(5) == 2, bad, labels)
        evaluate.measure_privately(model, kind(X), changed, BUDGET)
        with np.errstate(all="ignore"):
            _, parts = evaluate.parts(model, kind(X), changed)
        assert not parts[2].any()
        assert parts[[0, 1, 3, 4]].any(axis=1).all() or model is NUMBER
        assert evaluate.measure(model, kind(X), changed).rows == 4
    for bad in (np.nan, np.inf, -np.inf):
        rows = X.copy()
        rows[2, 0] = bad
        evaluate.measure_privately(model, kind(rows), labels, BUDGET)
        with np.errstate(all="ignore"):
            assert not evaluate.parts(model, kind(rows), labels)[1][2].any()
    for short in (labels[:4], labels[:, None]):
        with pytest.raises(ParameterError, match="5 rows need as many labels"):
            evaluate.measure_privately(model, kind(X), short, BUDGET)


def test_the_bound_is_attained():
    for model, X, label in ((BINARY, [[-9.0]], 1.0), (NUMBER, [[10.0]], 0.0)):
        names, parts = evaluate.parts(model, np.array(X), np.array([label]))
        wrong = parts[0].copy()
        if model.classes is not None:
            wrong[0] = 1.0  # a row cannot be right and have the largest loss; the bound allows it
        assert np.sum(wrong**2) == pytest.approx(evaluate.most(model, names))


def test_the_noise_is_the_ledgers():
    """The same release by hand, from the same seed, gives the same bits."""
    X, labels = np.array([[1.0], [9.0], [4.0]]), np.array([2.0, 11.0, np.nan])
    found = evaluate.measure_privately(
        NUMBER, X, labels, BUDGET, randomness=dp.Randomness.seeded(3)
    )
    total = np.array([0.2, 0.02])  # errors 1 and 1 of 10; the third row adds nothing
    width = math.sqrt(2.0)  # of two numbers in [0, 1], and how far apart two rows' can be
    sigma = dp.privacy.gaussian_sigma(BUDGET, bound=width, rows=(0, 3), diameter=width)
    (release,) = found.certificate.releases
    assert release.bound == release.diameter == math.nextafter(math.sqrt(2.0), 3.0)
    assert release.rows == (0, 3)
    assert sigma <= release.sigma <= sigma * (1 + 1e-12)
    ledger = dp.Ledger(release, BUDGET, randomness=dp.Randomness.seeded(3))
    declared = {"bound": release.bound, "sigma": release.sigma, "diameter": release.diameter}
    means = ledger.gaussian(total, rows=(0, 3), **declared) / 3
    assert found.values["MAE"] == pytest.approx(10 * means[0], rel=1e-12)
    assert found.values["RMSE"] == pytest.approx(10 * math.sqrt(max(means[1], 0)), rel=1e-12)
    assert found.baseline == {}  # a constant that is public would be a straw man
    assert "No baseline" in str(found)
    assert found.errors["MAE"] == pytest.approx(10 * 2 * release.sigma / 3)
    assert found.certificate.reproducible


def test_noisy_metrics_centre_on_the_exact_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    labels = (rng.uniform(size=400) < 0.5).astype(float)
    budget = dp.ApproxDP(1e5, 0.5)  # next to no noise
    found, exact = (
        evaluate.measure_privately(BINARY, X, labels, budget),
        evaluate.measure(BINARY, X, labels),
    )
    for name, value in found.values.items():
        assert value == pytest.approx(exact.values[name], abs=0.02)
        assert found.baseline[name] == pytest.approx(exact.baseline[name], abs=0.02)
    numbers = 10 * rng.uniform(size=400)
    found = evaluate.measure_privately(NUMBER, X, numbers, budget)
    exact = evaluate.measure(NUMBER, X, numbers)
    for name, value in found.values.items():
        assert value == pytest.approx(exact.values[name], rel=0.02)
    found = evaluate.measure_privately(QUANTILE, X, numbers, budget, quantile=0.8)
    exact = evaluate.measure(QUANTILE, X, numbers, quantile=0.8)
    assert list(found.values) == list(found.errors) == ["pinball loss", "coverage"]
    for name, value in found.values.items():
        assert value == pytest.approx(exact.values[name], rel=0.02, abs=0.01)


def test_replace_one_pays_for_the_distance_of_two_rows():
    """Parts in [0, 1]: right or wrong, loss, one of two classes. Of norm sqrt(3), 2 apart."""
    sigmas = []
    for adjacency in ("replace_one", "zero_out"):
        budget = dp.ApproxDP(1.0, 1e-6, adjacency=adjacency)
        found = evaluate.measure_privately(BINARY, np.zeros((9, 1)), np.zeros(9), budget)
        sigmas.append(found.certificate.releases[0].sigma)
    assert sigmas[0] == pytest.approx(2 / math.sqrt(3) * sigmas[1], rel=1e-6)


def test_labels_of_a_schema():
    raw = np.array([-1.0, 1.0, 0.0, np.nan])
    found = evaluate.label_places(raw, SignLabel("y"))
    np.testing.assert_array_equal(found, [0.0, 1.0, np.nan, np.nan])
    for label in (NumberLabel("y", 0, 1), ClassLabel("y", ("a", "b"))):
        np.testing.assert_array_equal(evaluate.label_places(raw, label), raw)


def test_noise_can_make_a_square_negative_and_a_share_empty():
    assert evaluate._root(-0.1) == 0.0
    assert evaluate._entropy([1.2, -0.1]) == 0.0
    assert evaluate.Metrics(1, {"a": math.nan}, {"a": 0.5}, "none").to_json()["values"] == {
        "a": None
    }


def test_a_model_of_numbers_without_a_range_is_refused():
    free = LinearModel("linear", np.array([[1.0]]), np.array([0.0]))
    with pytest.raises(dp.errors.ParameterError, match="label range"):
        evaluate.measure_privately(free, np.zeros((2, 1)), np.zeros(2), BUDGET)


@pytest.mark.parametrize("declared", [("no", "yes", "maybe", "none"), ("yes", "no"), None])
def test_a_table_of_other_classes_is_refused_whatever_its_rows_say(tmp_path, declared):
    """Places among other classes are no places among the model's: a row could decide an error."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    label = NumberLabel("y", 0.0, 1.0) if declared is None else ClassLabel("y", declared)
    encoder = data.TableEncoder(Schema((Number("x", 0.0, 1.0),), label))
    model = LinearModel("logistic", np.ones((1, 1)), np.zeros(1), ("no", "yes"))
    texts = []
    for y in ([0.0, 1.0],) if declared is None else (["no", "yes"], [declared[-1], "no"]):
        pq.write_table(pa.table({"x": [0.1, 0.9], "y": y}), tmp_path / "rows.parquet")
        table = data.from_parquet(tmp_path / "rows.parquet", encoder=encoder)
        with pytest.raises(DataError, match="the table's labels are") as refusal:
            evaluate.measure_table(model, table, dp.ApproxDP(1.0, 1e-6))
        texts.append(str(refusal.value))
    assert len(set(texts)) == 1
