"""Every query of the package, by brute force: no row adds more than it states, no two differ more.

Whoever adds a query adds a case here, or `test_no_query_is_left_out` fails.
"""

import importlib
import inspect
import itertools
import pkgutil

import numpy as np
import pytest

import dpsco
from dpsco import data, losses
from dpsco.data.counts import PresentRows
from dpsco.data.gradient_norms import GradientNorms, TrackedGradient
from dpsco.data.histograms import ColumnHistogram, LabelHistogram, NormHistogram
from dpsco.data.moments import ColumnMoments, RowMoments, SquaredLengths
from dpsco.data.queries import (
    ClippedCoordinates,
    ClippedDifference,
    ClippedGradient,
    InUnits,
    Query,
)
from dpsco.data.scores import ScoreGradient
from dpsco.data.transformed import TransformedGradient
from dpsco.data.units import Units
from dpsco.data.vertices import FadingScores, VertexScores
from dpsco.errors import MissingExtraError
from dpsco.estimators.search.scoring import (
    _COUNTS,
    ClassCounts,
    HeldOutErrors,
    ScoreCounts,
    scoring_bounds,
)
from dpsco.geometry import LINF
from dpsco.geometry.domains import L1Ball
from dpsco.models import LinearModel
from dpsco.models.scoring import ModelScores

SIGN = data.Bounds(2.0, label="sign", intercept=1.0)
PLAIN = data.Bounds(2.0, label="sign")
NUMBER = data.Bounds(2.0, label=1.0)
TWO = data.Classes(-1, 1)
W, V = np.array([0.5, -1.0, 0.25]), np.array([-1.0, 2.0, 0.0])
LOSS = losses.Logistic()
GRADIENT = ClippedGradient(LOSS, W, 0.1)
SCORES = VertexScores(ClippedGradient(LOSS, W, 0.1, LINF), L1Ball(2.0))
UNITS = Units(np.array([1.0, 2.0]), np.array([0.0, -0.5]), cut=3.0)
MODEL = LinearModel("logistic", np.array([[3.0, -1.0]]), np.array([0.5]), (-1, 1))
CASES = [
    (GRADIENT, SIGN),
    (ClippedDifference(LOSS, W, V, 1.0, 0.25, 0.1), SIGN),
    (ClippedCoordinates(losses.Huber(0.5), W, 0.1), SIGN),
    (InUnits(GRADIENT), SIGN),
    (GradientNorms(LOSS, W, [0.1, 0.5, 1.0]), SIGN),
    (TrackedGradient(GRADIENT), SIGN),
    (ScoreGradient(LOSS, W, V, 1.0, 0.1), SIGN),
    (TransformedGradient(LOSS, W, 0.1, lambda gradient: 1e9 * gradient), SIGN),
    (SCORES, SIGN),
    (FadingScores(SCORES, 0.5, 2.0), SIGN),
    (PresentRows(), SIGN),
    (NormHistogram(), NormHistogram().bounds(SIGN)),
    (ColumnHistogram(2), ColumnHistogram(2).bounds(SIGN)),
    (LabelHistogram(), LabelHistogram().bounds(NUMBER)),
    (RowMoments(2, 2.0, 1.0), PLAIN),
    (SquaredLengths(2, 2.0), PLAIN),
    (ColumnMoments(2, 1.0), ColumnMoments(2, 1.0).bounds(PLAIN, UNITS)),
    (ModelScores(MODEL), ModelScores(MODEL).bounds(data.Classes(-1, 1))),
    (HeldOutErrors(MODEL, TWO), scoring_bounds(data.Bounds(1.0, label=TWO))),
    (ClassCounts(MODEL, 2), scoring_bounds(data.Bounds(1.0, label=TWO))),
    (ScoreCounts(MODEL, np.array([-0.5, 0.5])), scoring_bounds(data.Bounds(1.0, label=TWO))),
]
NAMES = [type(query).__name__ for query, _ in CASES]
SPREADS = (VertexScores, FadingScores)  # whose bound is on the spread of scores
PARTLY = ("ModelScores",)  # a row that is right has no large loss


def hostile():
    """Return rows with labels: of every length, without a label, and with holes."""
    rng = np.random.default_rng(0)
    rows = [*rng.normal(size=(12, 2)), *1e-3 * rng.normal(size=(4, 2)), *1e6 * np.eye(2)]
    rows += [-1e6 * np.eye(2)[0], [0.0, 0.0], [1e300, -1e300], [np.nan, 1.0], [np.inf, 0.0]]
    return list(itertools.product(map(np.asarray, rows), (-1.0, 1.0, 0.3, 1e9, np.nan)))


def added(query, source):
    """Return what some rows add to what leaves; the engine scores a running total itself."""
    total = source.sum(query)
    if not isinstance(query, FadingScores):
        return total
    return query.scores.candidates.scores(query.joined(None, total))


def length(query, norm, vectors):
    """Return the length of each vector, as the query's bound means it."""
    if isinstance(query, SPREADS):
        return np.max(vectors, axis=-1) - np.min(vectors, axis=-1)
    return norm(vectors)


def problems(query, bounds, times=1.0, empty=0.0):
    """Return what is wrong with the bounds that a query states.

    Args:
        query, bounds: of a case.
        times: how often a row counts, in bugs that are planted.
        empty: what a row that is not there adds, likewise.
    """
    norm = query.norm if isinstance(query, ClippedGradient) else data.Bounds(1.0).norm
    stated = query
    if isinstance(query, (ClassCounts, ScoreCounts)):
        name = "balanced_accuracy" if isinstance(query, ClassCounts) else "roc_auc"
        stated = _COUNTS[name]  # whose diameter is released
    single = []
    for row, label in hostile():
        source = data.from_arrays(row[None], np.array([label])).bounded(bounds, order="given")
        there = source.sum(PresentRows())[0]
        single.append(times * added(query, source) if there else np.full_like(single[0], empty))
        if not there and np.any(single[-1]):
            return ["a row that is not there adds something"]
    single = np.array(single)
    slack = 1.0 + 1e-12
    found = []
    if length(query, norm, single).max() > stated.bound * slack:
        found.append("a row adds more than the bound")
    apart = length(query, norm, single[:, None] - single[None]).max()
    diameter = 2.0 * stated.bound if stated.diameter is None else stated.diameter
    if apart > diameter * slack:
        found.append("two rows differ by more than the diameter")
    return found


@pytest.mark.parametrize(("query", "bounds"), CASES, ids=NAMES)
def test_no_row_adds_more_than_is_stated(query, bounds):
    assert problems(query, bounds) == []


@pytest.mark.parametrize(("query", "bounds"), CASES, ids=NAMES)
def test_planted_bugs_are_seen(query, bounds):
    """Every row counts twice, or a little more than it may; a row that is not there counts."""
    assert problems(query, bounds, times=2.0)
    assert problems(query, bounds, times=1.25) or type(query).__name__ in PARTLY
    assert problems(query, bounds, empty=1e-9)


def test_no_query_is_left_out():
    for module in pkgutil.walk_packages(dpsco.__path__, "dpsco."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except (ImportError, MissingExtraError):  # an optional package is not there
                continue
    known, ahead = set(), [Query]
    while ahead:
        kinds = ahead.pop().__subclasses__()
        ahead += kinds
        known |= {kind for kind in kinds if kind.__module__.startswith("dpsco.")}
    assert {kind.__name__ for kind in known if not inspect.isabstract(kind)} == set(NAMES)
