"""Gradients in the scale of scores and in the intercepts: the chain rule, a bound on each row."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from dpsco.data import Bounds, Classes, ClippedGradient, ScoreGradient, from_arrays
from dpsco.data import source as source_module
from dpsco.errors import ParameterError
from dpsco.losses import Logistic, Softmax
from dpsco.losses.vector import SquaredDistance

D = 4
CASES = {"two classes": Logistic(), "three classes": Softmax(3)}


def source(loss, n=50, seed=0, sparse=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) / 2
    label = "sign" if loss == Logistic() else Classes(0, 1, 2)
    y = rng.choice([-1.0, 1.0], size=n) if label == "sign" else rng.integers(0, 3, size=n)
    X[3] = np.nan  # a null row
    table = from_arrays(scipy.sparse.csr_array(X) if sparse else X, y)
    return table.bounded(Bounds(1.0, label=label, intercept=0.3), order="given")


def score_query(loss, clip=1e6, offset=2.5, seed=1):
    rng = np.random.default_rng(seed)
    size = loss.dimension(D + 1)
    along = rng.standard_normal(size)
    along[size - size // (D + 1) :] = 0.0
    return ScoreGradient(loss, rng.standard_normal(size), along, offset, clip)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", CASES.values(), ids=CASES)
def test_it_is_the_gradients_image_under_the_chain_rule(loss, sparse):
    query, rows = score_query(loss), source(loss, sparse=sparse)
    gradient = rows.sum(ClippedGradient(loss, query.weights, 1e6))
    k = query.outputs
    expected = [query.along @ gradient, *(query.offset * gradient[-k:])]
    assert rows.sum(query) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert query.size == 1 + k
    # and the derivative of the mean loss along what `lift` moves
    answer = np.arange(1.0, query.size + 1)
    moved = query.lift(answer)
    assert moved @ gradient == pytest.approx(answer @ rows.sum(query), rel=1e-9)


def test_without_an_intercept_only_the_factor_is_left():
    query = score_query(Softmax(3), offset=0.0)
    assert query.size == 1
    assert query.lift(np.array([2.0])) == pytest.approx(2.0 * query.along)
    assert source(Softmax(3)).sum(query).shape == (1,)


@given(
    clip=st.floats(1e-6, 10.0),
    scale=st.sampled_from([1e-200, 1.0, 1e3, 1e200, 1e300]),
    seed=st.integers(0, 99),
    loss=st.sampled_from(list(CASES.values())),
)
def test_no_row_adds_more_than_the_clip(clip, scale, seed, loss):
    query = score_query(loss, clip, seed=seed)
    query = ScoreGradient(loss, query.weights, query.along * scale, query.offset * scale, clip)
    block = next(iter(source(loss, seed=seed).blocks()))
    added = query.contributions(block)
    assert np.isfinite(added).all()
    assert np.linalg.norm(added, axis=1).max() <= clip * (1.0 + 1e-15)
    assert not added[3].any()  # the null row
    total = source(loss, seed=seed).sum(query)
    assert total == pytest.approx(added.sum(axis=0), abs=1e-9 * clip)


def test_scores_of_large_tables_are_rough_and_no_bound_rests_on_them(monkeypatch):
    loss, exact = Softmax(3), source(Softmax(3))
    monkeypatch.setattr(source_module, "_SINGLE_NUMBERS", (1, 1 << 28))
    rough = source(Softmax(3))
    for clip, scale in ((1e6, 1.0), (0.1, 1.0), (0.1, 1e30), (0.1, 1e60)):
        query = score_query(loss, clip)
        query = ScoreGradient(loss, scale * query.weights, query.along, query.offset, clip)
        added = query.contributions(rough.rows())
        assert np.linalg.norm(added, axis=1).max() <= clip * (1.0 + 1e-15)
        if scale == 1.0:
            assert not np.array_equal(rough.sum(query), exact.sum(query))
            assert rough.sum(query) == pytest.approx(exact.sum(query), abs=1e-5)


def test_what_does_not_fit_is_refused():
    query = score_query(Logistic())
    for change in (
        {"weights": np.full(D + 1, np.nan)},
        {"along": np.zeros(D)},
        {"offset": -1.0},
        {"clip": 0.0},
        {"loss": SquaredDistance()},
    ):
        with pytest.raises(ParameterError):
            ScoreGradient(**{**query.__dict__, **change})
    with pytest.raises(ParameterError, match="needs 5 weights"):
        source(Logistic()).sum(ScoreGradient(Logistic(), np.ones(3), np.ones(3), 1.0, 1.0))
    with pytest.raises(ParameterError):
        source(Softmax(3)).sum(score_query(Logistic()))  # labels of another kind
