"""Contributions row by row: they add up to the query's sum, and none exceeds its bound."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

from dpsco.data import Bounds, Classes, ClippedDifference, ClippedGradient, VertexScores
from dpsco.data import from_arrays as table
from dpsco.data.contributions import contribution_pieces, contributions
from dpsco.errors import ParameterError
from dpsco.geometry.domains import L1Ball
from dpsco.geometry.norms import LINF, Lp
from dpsco.losses import Hinge, Logistic, OneVersusRest, Poisson, Squared
from dpsco.losses.smoothing import Smoothed
from dpsco.losses.vector import Softmax, SquaredDistance

CASES = [
    (Logistic(), "sign"),
    (Squared(), 2.0),
    (Smoothed(Hinge(), 2.0), "sign"),
    (Poisson(4.0), (0.0, 5.0)),
    (SquaredDistance(), 2.0),
    (Softmax(3), Classes(0, 1, 2)),
    (OneVersusRest(Logistic(), 3), Classes(0, 1, 2)),
]


def source(label, n=200, *, sparse=False, dtype=float):
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(n, 4)) * 10.0 ** rng.uniform(-3, 3, size=(n, 1))).astype(dtype)
    X[5, 2], X[6, 0], X[7], X[8, 1] = np.nan, np.inf, 0.0, 1e30
    y = rng.integers(0, 3, size=n).astype(float)
    y = np.where(y > 1, 1.0, -1.0) if label == "sign" else y
    raw = scipy.sparse.csr_array(X) if sparse else X
    return table(raw, y).bounded(Bounds(1.0, label=label, intercept=0.5), order="given")


def queries(loss, rows, clip, norm=None):
    size = loss.dimension(rows.d) if hasattr(loss, "dimension") else rows.d
    first, second = np.random.default_rng(4).normal(size=(2, size))
    more = {} if norm is None else {"norm": norm}
    yield ClippedGradient(loss, first, clip, **more)
    yield ClippedDifference(loss, first, second, 7.0, 6.0, clip, **more)


def no_longer_than(vector, clip):
    return sum(Fraction(float(v)) ** 2 for v in vector) <= Fraction(clip) ** 2


@pytest.mark.thorough
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("loss", "label"), CASES, ids=lambda case: getattr(case, "name", ""))
@pytest.mark.parametrize("clip", [0.3, 1.0, 1e6])
def test_they_add_up_and_none_is_longer_than_the_clip(loss, label, clip, sparse):
    rows = source(label, sparse=sparse)
    for query in queries(loss, rows, clip):
        each = contributions(query, rows.rows())
        assert each.shape == (rows.n, query.size)
        np.testing.assert_allclose(
            each.sum(axis=0), rows.sum(query), rtol=1e-11, atol=1e-11 * rows.n
        )
        assert all(no_longer_than(vector, clip) for vector in each)
        assert not each[5:7].any()  # rows with a hole


def test_a_clip_that_acts_leaves_the_direction():
    rows = source("sign")
    query, loose = (next(queries(Logistic(), rows, clip)) for clip in (0.1, 1e6))
    each, whole = contributions(query, rows.rows()), contributions(loose, rows.rows())
    lengths = np.linalg.norm(whole, axis=1)
    assert (lengths > 0.1).sum() > 50
    np.testing.assert_allclose(
        each, whole * np.minimum(1.0, 0.1 / np.maximum(lengths, 0.1))[:, None], atol=1e-14
    )


@pytest.mark.parametrize("norm", [LINF, Lp(1.5)])
def test_other_norms_and_float32(norm):
    rows = source("sign", dtype=np.float32)
    for query in queries(Logistic(), rows, 0.2, norm):
        each = contributions(query, rows.rows())
        np.testing.assert_allclose(each.sum(axis=0), rows.sum(query), atol=1e-11 * rows.n)
        assert (norm(each) <= 0.2).all()


def test_a_row_has_no_part_in_another_ones_contribution():
    bounds, rng = Bounds(1.0, label=2.0), np.random.default_rng(5)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    query = ClippedGradient(Squared(), np.ones(3), 0.5)
    known = contributions(query, bounds.apply(X, y))
    for value in (np.nan, np.inf, 1e308, -1e-308):
        X[20] = value
        changed = contributions(query, bounds.apply(X, y))
        kept = np.arange(50) != 20
        assert (changed[kept] == known[kept]).all()
        assert no_longer_than(changed[20], 0.5)


def test_pieces_cover_all_rows_in_order():
    rows = source("sign", n=9000)
    query = next(queries(Logistic(), rows, 0.5))
    pieces = list(contribution_pieces(query, rows))
    assert len(pieces) > 2
    np.testing.assert_allclose(
        np.concatenate(pieces), contributions(query, rows.rows()), rtol=1e-12, atol=1e-15
    )


def test_what_has_no_vector_for_each_row_is_refused():
    rows = source("sign")
    scores = VertexScores(ClippedGradient(Logistic(), np.zeros(5), 1.0, LINF), L1Ball(1.0))
    with pytest.raises(ParameterError, match="VertexScores"):
        contributions(scores, rows.rows())
    with pytest.raises(ParameterError, match="needs 5 weights"):
        list(contribution_pieces(ClippedGradient(Logistic(), np.zeros(4), 1.0), rows))


def test_products_that_overflow_are_cut_as_in_the_sum():
    """The slope is a number and the gradient is not: still the row counts, clipped."""
    block = Bounds(100.0, label=1.0).apply(np.array([[80.0, 60.0]]), np.ones(1))
    query = ClippedGradient(Squared(), np.array([1e306, 0.0]), 0.5)
    found = contributions(query, block)
    np.testing.assert_allclose(found, [[0.4, 0.3]], rtol=1e-12)
    np.testing.assert_allclose(found[0], query.sum(block), rtol=1e-12)
