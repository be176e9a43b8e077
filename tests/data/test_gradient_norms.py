"""Gradients in units of a clip, counts of their norms, and the count beside a clipped sum."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

from dpsco.data import (
    Bounds,
    Classes,
    ClippedDifference,
    ClippedGradient,
    GradientNorms,
    InUnits,
    TrackedGradient,
    from_arrays,
)
from dpsco.data.contributions import contributions
from dpsco.data.gradient_norms import LIGHT, gradient_lengths, tracked_bound
from dpsco.errors import ParameterError
from dpsco.geometry.norms import L1, L2, LINF
from dpsco.losses import Hinge, Logistic, Squared
from dpsco.losses.per_row import PerRowLoss
from dpsco.losses.vector import Softmax, SquaredDistance

UNITS = (2.0**-80, 2.0**-3, 0.7, 1.0, 3.0, 1e6 / 7, 2.0**80)


def quadratic(weights, x, y):
    return weights * x - y[:, None]


LOSSES = {
    "squared": (Squared(), 1e6),
    "logistic": (Logistic(), "sign"),
    "softmax": (Softmax(3), "classes"),
    "distance": (SquaredDistance(), 1.0),
    "own": (PerRowLoss(gradient=quadratic), 1e6),
}


def rows(label, n=200, d=3, *, sparse=False, seed=0):
    """Rows and labels of many sizes, some of them no numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3, size=(n, 1))
    X[3], X[4, 0], X[5, 1], X[6] = 0.0, np.nan, np.inf, 1e300
    if label == "classes":
        y, rule = rng.integers(0, 3, size=n), Classes(0, 1, 2)
    else:
        y, rule = rng.normal(size=n) * 10.0 ** rng.uniform(-6, 8, size=n), label
        y[7] = 1e300
    if rule == "sign":
        y = np.where(y > 0, 1.0, -1.0)
    raw = scipy.sparse.csr_array(np.nan_to_num(X)) if sparse else X
    return from_arrays(raw, y).bounded(Bounds(1e3, label=rule), order="given")


def weights_of(loss, source):
    size = loss.dimension(source.d) if hasattr(loss, "dimension") else source.d
    return np.random.default_rng(1).normal(size=size)


def exact_length(vector):
    return sum(Fraction(float(v)) ** 2 for v in vector)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_sum_in_units_is_the_clipped_sum_divided(name, sparse):
    loss, label = LOSSES[name]
    source = rows(label, sparse=sparse)
    weights = weights_of(loss, source)
    for unit in UNITS:
        for gradient in (
            ClippedGradient(loss, weights, unit),
            ClippedDifference(loss, weights, 0.5 * weights, 2.0, 1.0, unit),
        ):
            query = InUnits(gradient)
            assert (query.bound, query.size, query.norm) == (1.0, gradient.size, L2)
            total = source.sum(query)
            assert np.all(np.isfinite(total))
            assert np.array_equal(total, source.sum(gradient) / unit)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("unit", UNITS)
def test_a_row_in_units_is_at_most_1_in_exact_arithmetic(name, unit):
    """One row at a time, whatever it holds; beside a sum it is a row of `contributions`."""
    loss, label = LOSSES[name]
    source = rows(label, n=30)
    weights = weights_of(loss, source)
    query = InUnits(ClippedGradient(loss, weights, unit))
    vectors = contributions(query, source.rows())
    assert vectors.shape == (30, query.size)
    for row in range(30):
        total = source.sum(query, row, row + 1)
        # The coefficient keeps its bound exactly; a product is one rounding more (rounding_slack).
        assert exact_length(total) <= Fraction(1) * (1 + Fraction(2) ** -48)
        assert exact_length(vectors[row]) <= 1
    np.testing.assert_allclose(vectors.sum(axis=0), source.sum(query), rtol=1e-9, atol=1e-12)
    assert not np.any(vectors[4:6])  # null rows


def test_powers_of_two_change_no_bit():
    """Rows, clip and unit times 2^80: the same sum in units, so nothing was rounded."""
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(500, 3)), rng.normal(size=500)
    sums = []
    for power in (-80, 0, 80):
        scale = 2.0**power
        source = from_arrays(X, y * scale).bounded(Bounds(10.0, label=1e30), order="given")
        query = InUnits(ClippedGradient(Squared(), np.ones(3) * scale, 0.75 * scale))
        sums.append(source.sum(query).tobytes())
    assert len(set(sums)) == 1


def test_gradients_far_beyond_the_unit_keep_their_direction():
    """Slopes of 1e200 in units of 2^-80 are cut, not lost."""
    source = from_arrays(np.eye(3), [-1e90, 1e90, -1e90]).bounded(
        Bounds(1.0, label=1e99), order="given"
    )
    query = InUnits(ClippedGradient(Squared(), np.zeros(3), 2.0**-80))
    np.testing.assert_allclose(source.sum(query), [1.0, -1.0, 1.0], rtol=1e-12)
    assert np.all(source.sum(query) <= 1.0)


def test_units_that_no_query_clips_to_are_refused():
    for unit in (0.0, -1.0, math.inf, math.nan, 1e-120, 1e120):
        with pytest.raises(ParameterError, match="clip"):
            InUnits(ClippedGradient(Squared(), np.zeros(2), unit))
    with pytest.raises(ParameterError, match="InUnits needs"):
        InUnits(InUnits(ClippedGradient(Squared(), np.zeros(2), 1.0)))


# -- counts ----------------------------------------------------------------------------------------


def lengths(loss, weights, source, norm=L2):
    """Each row's gradient norm by the definition; inf if not finite, None for null rows."""
    block = source.rows()
    X = block.rows if isinstance(block.rows, np.ndarray) else block.rows.matrix().toarray()
    with np.errstate(all="ignore"):
        if hasattr(loss, "gradients"):
            vectors = loss.gradients(weights, block.rows, block.labels)
        else:
            vectors = loss.slope(X @ weights, block.labels)[:, None] * X
        sizes = norm(vectors)
    sizes = np.where(np.isfinite(vectors).all(axis=1), sizes, np.inf)
    return [size if there else None for size, there in zip(sizes, block.present, strict=True)]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("norm", [L2, L1, LINF])
def test_counts_are_those_of_the_definition(name, norm):
    loss, label = LOSSES[name]
    source = rows(label)
    weights = weights_of(loss, source)
    clips = 2.0 ** np.arange(-30, 30) * 1.0001
    query = GradientNorms(loss, weights, clips, norm)
    sizes = [size for size in lengths(loss, weights, source, norm) if size is not None]
    cells = [np.searchsorted(clips, size * (1 - 1e-9)) for size in sizes]
    expected = np.bincount(cells, minlength=len(clips) + 1)[: len(clips)]
    assert np.array_equal(source.sum(query), expected)
    assert (query.bound, query.diameter, query.size) == (1.0, math.sqrt(2.0), len(clips))


@pytest.mark.parametrize("name", LOSSES)
def test_a_row_adds_one_to_one_cell_or_nothing(name):
    loss, label = LOSSES[name]
    source = rows(label, n=30)
    query = GradientNorms(loss, weights_of(loss, source), 2.0 ** np.arange(-40, 3))
    whole = source.sum(query)
    parts = [source.sum(query, row, row + 1) for row in range(30)]
    assert np.array_equal(np.sum(parts, axis=0), whole)
    assert all(sorted(part)[-2:] in ([0.0, 0.0], [0.0, 1.0]) for part in parts)
    assert all(set(part) <= {0.0, 1.0} for part in parts)
    assert not parts[4].any()  # a null row is in no cell


def test_counts_are_exact_over_many_leaves():
    source = from_arrays(np.ones((20_000, 1)), np.zeros(20_000)).bounded(Bounds(1.0, label=1.0))
    query = GradientNorms(Squared(), np.ones(1), [0.5, 1.0000001])
    assert source.sum(query).tolist() == [0.0, 20_000.0]


def test_infinite_gradients_are_beyond_every_clip():
    source = from_arrays(np.ones((3, 2)), np.ones(3)).bounded(Bounds(2.0, label=5.0))
    query = GradientNorms(Squared(), np.full(2, 1.7e308), [1.0, 1e99])
    assert source.sum(query).tolist() == [0.0, 0.0]
    assert np.all(gradient_lengths(query.gradient, source.rows()) == np.inf)


@pytest.mark.parametrize("clips", [[], [1.0, 1.0], [2.0, 1.0], [0.0, 1.0], [-1.0], [[1.0]]])
def test_grids_that_are_none_are_refused(clips):
    with pytest.raises(ParameterError, match="increasing"):
        GradientNorms(Squared(), np.zeros(2), clips)


# -- the count beside a sum ------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_tracked_sum_is_the_sum_and_the_count(name, sparse):
    loss, label = LOSSES[name]
    source = rows(label, sparse=sparse)
    weights = weights_of(loss, source)
    sizes = [size for size in lengths(loss, weights, source) if size is not None]
    for unit in (0.01, 3.0, 1e4):
        gradient = ClippedGradient(loss, weights, unit * 1.0001)
        answer = source.sum(TrackedGradient(gradient, weight=0.5))
        within = sum(size <= unit * 1.0001 for size in sizes)
        assert answer[-1] == 0.5 * (within - 0.5 * len(sizes))
        np.testing.assert_allclose(answer[:-1], source.sum(InUnits(gradient)), rtol=1e-11)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("weight", [0.1, LIGHT, 1.0, 7.0])
def test_the_joint_bound_holds_and_is_attained(name, weight):
    """Exact lengths of single rows, null rows zero; and no smaller bound would hold."""
    loss, label = LOSSES[name]
    source = rows(label, n=30)
    weights = weights_of(loss, source)
    least = Fraction(1) + Fraction(weight) ** 2 / 4
    bound = Fraction(tracked_bound(weight)) ** 2
    assert least <= bound <= least * (1 + Fraction(2) ** -49)
    longest = 0.0
    for unit in (1e-3, 1.0, 100.0):
        query = TrackedGradient(ClippedGradient(loss, weights, unit), weight)
        assert query.bound == tracked_bound(weight)
        for row in range(30):
            length = exact_length(source.sum(query, row, row + 1))
            assert length <= bound * (1 + Fraction(2) ** -48)
            longest = max(longest, float(length))
        assert not source.sum(query, 4, 5).any()
    assert longest >= float(bound) * (1 - 1e-9)


def test_two_rows_can_be_twice_the_bound_apart():
    """One just within the clip, one beyond it on the other side: a diameter saves nothing."""
    source = from_arrays(np.ones((2, 1)), [-1.0, 1e6]).bounded(
        Bounds(1.0, label=1e9), order="given"
    )
    query = TrackedGradient(ClippedGradient(Squared(), np.zeros(1), 1.0000000001), 1.0)
    apart = source.sum(query, 0, 1) - source.sum(query, 1, 2)
    assert math.isclose(np.linalg.norm(apart), 2 * query.bound, rel_tol=1e-9)
    assert query.diameter is None


def test_an_indicator_that_is_not_centred_breaks_the_bound(monkeypatch):
    """The planted bug: 0 or 1 in place of -1/2 or 1/2, at the bound of the latter."""
    honest = TrackedGradient.sum

    def uncentred(query, block):
        total = honest(query, block)
        total[-1] += 0.5 * np.count_nonzero(block.present)
        return total

    source = from_arrays(np.ones((1, 1)), [-1.0]).bounded(Bounds(1.0, label=9.0))
    query = TrackedGradient(ClippedGradient(Squared(), np.zeros(1), 1.0000000001), 1.0)
    limit = Fraction(query.bound) ** 2 * (1 + Fraction(2) ** -48)
    assert exact_length(source.sum(query)) <= limit
    monkeypatch.setattr(TrackedGradient, "sum", uncentred)
    assert exact_length(source.sum(query)) > limit


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf, math.nan, 1e9])
def test_weights_that_are_none_are_refused(weight):
    with pytest.raises(ParameterError, match="weight"):
        TrackedGradient(ClippedGradient(Squared(), np.zeros(2), 1.0), weight)


@pytest.mark.parametrize("kind", [InUnits, TrackedGradient])
def test_queries_survive_pickling_and_say_what_they_enforce(kind):
    query = kind(ClippedGradient(Hinge(), np.zeros(2), 2.0))
    again = pickle.loads(pickle.dumps(query))
    assert (again.unit, again.bound, again.size) == (query.unit, query.bound, query.size)
    assert "clip that the run has found" in query.enforced[0]
    assert "2.0" not in query.enforced[0]
    assert query.trusted == ()
