"""Sums by several threads: the bits of a single one, errors and order included."""

import itertools
import threading

import numpy as np
import pytest
import scipy.sparse

from dpsco.data import Bounds, ClippedDifference, ClippedGradient, from_arrays, from_batches
from dpsco.data import parallel_sum as leaves
from dpsco.data.gradient_norms import GradientNorms, TrackedGradient
from dpsco.data.queries import ClippedCoordinates, InUnits
from dpsco.data.scores import ScoreGradient
from dpsco.data.transformed import TransformedGradient
from dpsco.errors import DataError
from dpsco.kernels.pairwise import SUM_LEAF, PairwiseSum
from dpsco.kernels.sums import WHOLE
from dpsco.losses import Logistic, MarginLoss, Softmax

N, D = 9 * SUM_LEAF + 17, 5
BOUNDS = Bounds(1.0, label="sign")
rng = np.random.default_rng(3)
X, Y = rng.standard_normal((N, D)), np.where(rng.random(N) < 0.5, -1.0, 1.0)
GRADIENT = ClippedGradient(Logistic(), np.arange(D) / D, 0.4)
DIFFERENCE = ClippedDifference(Logistic(), np.arange(D) / D, np.ones(D), 3.0, 2.0, 0.7)


def sources():
    cuts = [0, 1, 5000, 5000, 20_000, N]
    parts = [(X[a:b], Y[a:b]) for a, b in itertools.pairwise(cuts)]
    return {
        "memory": from_arrays(X, Y).bounded(BOUNDS, order="given"),
        "batches": from_batches(parts, n=N, d=D).bounded(BOUNDS, order="given"),
    }


WEIGHTS = np.arange(D) / D
OTHERS = [
    InUnits(GRADIENT),
    InUnits(DIFFERENCE),
    ClippedCoordinates(Logistic(), WEIGHTS, 0.3),
    InUnits(ClippedCoordinates(Logistic(), WEIGHTS, 0.3)),
    TrackedGradient(GRADIENT),
    GradientNorms(Logistic(), WEIGHTS, [0.1, 0.4]),
    ScoreGradient(Logistic(), WEIGHTS, WEIGHTS, 0.0, 0.3),
    TransformedGradient(Logistic(), WEIGHTS, 0.3, np.sign),
]


@pytest.mark.parametrize("asked", [GRADIENT, DIFFERENCE, *OTHERS])
@pytest.mark.parametrize("sparse", [False, True])
def test_no_query_adds_more_rows_one_after_the_other_than_a_leaf_has(asked, sparse):
    """`rounding_slack`, which noise is planned with, is that of leaves combined pairwise."""
    n = 2 * SUM_LEAF + 17
    rows = scipy.sparse.csr_matrix(X[:n]) if sparse else X[:n]
    source = from_arrays(rows, Y[:n]).bounded(BOUNDS, order="given")
    by_hand = PairwiseSum()
    for start in range(0, n, SUM_LEAF):
        by_hand.add(asked.sum(source.rows(start, min(start + SUM_LEAF, n))))
    assert source.sum(asked).tobytes() == asked.finish(by_hand.result()).tobytes()


@pytest.mark.thorough
@pytest.mark.parametrize("asked", [GRADIENT, DIFFERENCE])
@pytest.mark.parametrize("kind", ["memory", "batches"])
def test_any_number_of_threads_gives_the_same_bits(kind, asked, compiled, monkeypatch):
    found = []
    for threads in (1, 2, 3, 7):
        monkeypatch.setattr(leaves, "_threads", lambda *_, count=threads: count)
        source = sources()[kind]
        ranges = [(0, 100), (100, 7 * SUM_LEAF + 3), (7 * SUM_LEAF + 3, N)]
        sums = [source.sum(asked, a, b) for a, b in ranges]
        found.append(b"".join(total.tobytes() for total in sums))
    assert len(set(found)) == 1


@pytest.mark.parametrize("wide", [1, 1 << 20])
def test_threads_run_only_so_far_ahead_as_they_are(wide, monkeypatch):
    """Sums that wait for their turn take memory: few, however many rows there are."""
    asked, runs, threads = [], 40, 2
    monkeypatch.setattr(leaves, "WIDE", wide)
    monkeypatch.setattr(leaves, "_threads", lambda *_: threads)
    leaf_rows = SUM_LEAF if wide <= D else WHOLE  # a wide sum is taken a leaf at a time
    block = from_arrays(X[:1], Y[:1]).bounded(BOUNDS, order="given").rows()

    def rows(part):
        asked.append(part)
        return block

    group = leaves.Group(runs * leaf_rows, rows)
    sums = leaves.leaf_sums(GRADIENT, iter([group]), group.count, False)
    next(sums)
    assert len(asked) <= 2 * threads + 1
    assert sum(1 for _ in sums) == runs - 1
    assert len(asked) == runs


def test_several_threads_do_work(monkeypatch):
    seen, both = set(), threading.Barrier(2, timeout=20)

    class Watched(ClippedGradient):
        def sum(self, block):
            seen.add(threading.get_ident())
            both.wait()  # returns only if another thread sums the other rows meanwhile
            return super().sum(block)

    monkeypatch.setattr(leaves, "_threads", lambda *_: 2)
    rows = np.tile(X, (2, 1))[: 2 * WHOLE], np.tile(Y, 2)[: 2 * WHOLE]
    source = from_arrays(*rows).bounded(BOUNDS, order="given")
    source.sum(Watched(Logistic(), np.zeros(D), 1.0))
    assert len(seen) == 2


class Own(Logistic):
    """A loss with code of a user's own."""

    trusted = ("the slope of Own is what it says",)


@pytest.mark.parametrize(
    ("asked", "count", "compiled", "several"),
    [
        (GRADIENT, leaves.WORTHWHILE, True, True),
        (DIFFERENCE, leaves.WORTHWHILE, True, True),
        (GRADIENT, leaves.WORTHWHILE - 1, True, False),
        (GRADIENT, leaves.WORTHWHILE, False, False),
        (ClippedGradient(Own(), np.zeros(D), 1.0), leaves.WORTHWHILE, True, False),
        (ClippedGradient(Softmax(3), np.zeros(3 * D), 1.0), leaves.WORTHWHILE, True, False),
    ],
)
def test_when_several_threads_sum(asked, count, compiled, several, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)), raising=False)
    assert (leaves._threads(asked, count, compiled) > 1) is several
    assert issubclass(Own, MarginLoss)


def test_errors_of_threads_are_raised_and_rows_are_counted(monkeypatch):
    monkeypatch.setattr(leaves, "_threads", lambda *_: 3)
    short = from_batches([(X[:50_00], Y[:50_00])], n=N, d=D).bounded(BOUNDS, order="given")
    with pytest.raises(DataError, match="ended after 5000 rows"):
        short.sum(GRADIENT, 0, N)

    class Broken(ClippedGradient):
        def sum(self, block):
            raise FloatingPointError("a fault of the code")

    with pytest.raises(FloatingPointError):
        sources()["memory"].sum(Broken(Logistic(), np.zeros(D), 1.0))


@pytest.mark.parametrize("threads", [2, 5])
def test_runs_of_leaves_are_aligned_to_all_rows_not_to_their_chunk(threads, compiled, monkeypatch):
    """Chunks of odd numbers of leaves: a pairwise sum that began anew would have other bits."""
    n = 24 * SUM_LEAF + 77
    rows = np.tile(X, (3, 1))[:n] * np.linspace(0.1, 3.0, n)[:, None]
    labels = np.tile(Y, 3)[:n]
    cuts = np.cumsum([0, 3 * SUM_LEAF, 5 * SUM_LEAF + 1, 11 * SUM_LEAF]).tolist()
    found = []
    for count in (1, threads):
        monkeypatch.setattr(leaves, "_threads", lambda *_, count=count: count)
        parts = [(rows[a:b], labels[a:b]) for a, b in itertools.pairwise([*cuts, n])]
        source = from_batches(parts, n=n, d=D).bounded(BOUNDS, order="given")
        found.append(source.sum(GRADIENT, 0, n).tobytes())
    whole = from_arrays(rows, labels).bounded(BOUNDS, order="given")
    assert set(found) == {whole.sum(GRADIENT, 0, n).tobytes()}


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_that_overflow_raise_nothing_in_any_thread(threads, compiled, monkeypatch):
    """Whoever asks NumPy for errors must not learn from one what a row holds."""
    monkeypatch.setattr(leaves, "_threads", lambda *_: threads)
    rows = X.copy()
    rows[::7], rows[::11], rows[::13] = 1e308, -1e308, np.inf
    query = ClippedGradient(Logistic(), np.full(D, 1e300), 0.4)
    asked = []

    class Strict(ClippedGradient):
        """Counts on the caller to have silenced NumPy, in whichever thread it runs."""

        def sum(self, block):
            asked.append(np.geterr())
            return super().sum(block)

    strict = Strict(query.loss, query.weights, query.clip)
    with np.errstate(all="raise"):
        for parts in ([(rows, Y)], [(rows[:9999], Y[:9999]), (rows[9999:], Y[9999:])]):
            source = from_batches(parts, n=N, d=D).bounded(BOUNDS, order="given")
            assert np.isfinite(source.sum(strict, 0, N)).all()
    assert len(asked) >= 4
    assert all(set(found.values()) == {"ignore"} for found in asked)


@pytest.mark.parametrize("count", [SUM_LEAF - 1, 2 * SUM_LEAF + 5, 7 * SUM_LEAF])
def test_all_rows_at_once_give_the_bits_of_their_runs(count, monkeypatch):
    rng = np.random.default_rng(count)
    rows = from_arrays(rng.standard_normal((count, 3)), rng.choice([-1.0, 1.0], count))
    source = rows.bounded(Bounds(1.0, label="sign"), order="given")
    query = ClippedGradient(Logistic(), np.ones(3), 0.4)
    whole = source.sum(query)
    monkeypatch.setattr(leaves, "_most_leaves", lambda query: 1)
    np.testing.assert_array_equal(whole, source.sum(query))
