"""Rows from an iterator: the same sums as in memory, each row once, and what is refused."""

import gc
import itertools
import threading
import tracemalloc
import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsco as dp
from dpsco.data import Bounds, Classes, ClippedDifference, ClippedGradient, from_arrays
from dpsco.data import parallel_sum as leaves
from dpsco.data.tables.arrays import Raw
from dpsco.data.tables.batches import AGAIN, from_batches
from dpsco.data.tables.table import UNCHOSEN
from dpsco.errors import DataError, ParameterError
from dpsco.kernels import compiler
from dpsco.kernels.pairwise import SUM_LEAF
from dpsco.losses import Logistic, Squared
from dpsco.privacy import Randomness

SIGN = Bounds(1.0, label="sign")
N, D = 3 * SUM_LEAF + 77, 3


def make(n=N, dtype=np.float64, seed=0):
    """Return rows and signs; some rows are too long, some are not finite, some signs are none."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)).astype(dtype)
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    X[rng.random(n) < 0.01, 1] = np.nan
    X[rng.random(n) < 0.01, 0] = np.inf
    y[rng.random(n) < 0.01] = 0.0
    return X, y


def cut(X, y, sizes):
    """Yield chunks of the sizes given, and then the rest."""
    ends = np.minimum(np.cumsum([0, *sizes]), len(y))
    for begin, end in itertools.pairwise([*ends.tolist(), len(y)]):
        yield X[begin:end], y[begin:end]


def streamed(chunks, bounds=SIGN, n=N, **facts):
    return from_batches(chunks, n=n, d=D, **facts).bounded(bounds, order="given")


def query(width, t=1):
    first = np.linspace(-1.0, 1.0, width)
    return ClippedDifference(Logistic(), first, 0.5 * first, t + 1.0, float(t), 0.7)


def words(y):
    return np.array(["no", "yes", "else"])[np.where(y == 0, 2, (y > 0).astype(int))]


# -- the same sums as in memory --------------------------------------------------------------------

MEMORY = {
    "float64": (make(), SIGN, {}),
    "float32": (make(dtype=np.float32), SIGN, {"dtype": np.float32}),
    "intercept": (make(), Bounds(1.0, label="sign", intercept=1.0), {}),
    "text": (
        (make()[0], words(make()[1])),
        Bounds(1.0, label=Classes("no", "yes")),
        {"labels": "text"},
    ),
    "columns": ((np.asfortranarray(make()[0]), make()[1]), SIGN, {}),
    "sparse": ((scipy.sparse.csr_array(make()[0]), make()[1]), SIGN, {"sparse": True}),
    "integers": (((make()[0] > 0).astype(np.int8), make()[1].astype(np.int16)), SIGN, {}),
}
CHUNKINGS = st.lists(
    st.one_of(st.integers(0, 9), st.integers(0, 2 * SUM_LEAF), st.just(SUM_LEAF)), max_size=8
)
RANGES = st.lists(st.integers(0, N), max_size=4)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", MEMORY)
@settings(max_examples=12, deadline=None)
@given(sizes=CHUNKINGS, ends=RANGES)
def test_sums_do_not_depend_on_the_chunks(case, compiled, sizes, ends):
    if compiled and not compiler.available():
        pytest.skip("needs Numba")
    (X, y), bounds, facts = MEMORY[case]
    inside = from_arrays(X, y).bounded(bounds, order="given")
    source = streamed(cut(X, y, sizes), bounds, **facts)
    assert (source.n, source.d) == (inside.n, inside.d)
    for t, (start, stop) in enumerate(itertools.pairwise(sorted([0, *ends, N]))):
        asked = query(inside.d, t)
        with compiler.implementation(compiled=compiled):
            found = source.sum(asked, start, stop)
            assert found.tobytes() == inside.sum(asked, start, stop).tobytes()


@pytest.mark.parametrize("case", MEMORY)
def test_rows_of_several_leaves_are_the_same(case):
    (X, y), bounds, facts = MEMORY[case]
    inside = from_arrays(X, y).bounded(bounds, order="given").rows()
    found = streamed(cut(X, y, [5000, 1, 0, 4000]), bounds, **facts).rows()
    if isinstance(inside.rows, np.ndarray):
        assert found.rows.dtype == inside.rows.dtype
        assert found.rows.tobytes() == inside.rows.tobytes()
    for name in ("labels", "norms", "present"):
        assert np.array_equal(getattr(found, name), getattr(inside, name))


def test_what_from_arrays_takes_is_a_chunk():
    X, y = make(9)
    mixed = pa.RecordBatch.from_pydict({f"x{k}": X[6:, k] for k in range(D)})
    chunks = [
        (X[:2].tolist(), y[:2].tolist()),
        ([], []),
        (pd.DataFrame(X[2:4]), pd.Series(y[2:4])),
        (pa.table({f"x{k}": X[4:6, k] for k in range(D)}), pa.array(y[4:6])),
        (mixed, y[6:].astype(np.float32)),
    ]
    found = streamed(chunks, n=9).rows()
    inside = from_arrays(X, y).bounded(SIGN, order="given").rows()
    assert found.rows.tobytes() == inside.rows.tobytes()
    assert np.array_equal(found.labels, inside.labels)


def test_text_that_is_missing_makes_a_null_row_in_any_chunk():
    bounds = Bounds(1.0, label=Classes("no", "yes"))
    X = np.full((2, D), 0.25)
    # NumPy forgets a zero at the end of a string: only the mask tells that this is another word.
    chunks = [
        (X, np.array(["no", "yes"])),
        (X, ["no\0", "no"]),
        (X, np.array(["yes", "no"])),
        (X, pd.Series([None, "no"])),
    ]
    found = streamed(chunks, bounds, n=8, labels="text").rows()
    assert found.present.tolist() == [True, True, False, True, True, True, False, True]


def test_without_labels():
    X, _ = make()
    inside = from_arrays(X).bounded(Bounds(1.0), order="given").rows()
    found = streamed([X[:5], X[5:]], Bounds(1.0), labels="none").rows()
    assert found.rows.tobytes() == inside.rows.tobytes()


def test_features_are_converted_to_the_type_declared():
    X, y = make()
    X[3, 0] = 1e300  # too large for float32: a null row
    found = streamed(cut(X, y, [999]), dtype="float32").rows()
    with np.errstate(over="ignore"):
        inside = from_arrays(X.astype(np.float32), y).bounded(SIGN, order="given").rows()
    assert found.rows.dtype == np.float32
    assert found.rows.tobytes() == inside.rows.tobytes()
    assert not found.present[3]


def test_a_run_is_the_same_as_on_arrays():
    X, y = make()
    problem = dp.Problem(loss=Logistic(), bounds=SIGN, domain=dp.domains.L2Ball(1.0))
    plan = dp.plan(problem, n=N, d=D, budget=dp.ApproxDP(1.0, 1e-6), solver="dp_sgd_single_epoch")
    table = from_batches(cut(X, y, [1000, 5000]), n=N, d=D)
    results = [
        dp.run(plan, data, order="given", randomness=Randomness.seeded(5))
        for data in (table, (X, y))
    ]
    assert results[0].weights.tobytes() == results[1].weights.tobytes()


# -- once ------------------------------------------------------------------------------------------


def test_a_row_takes_part_once():
    X, y = make()
    source = streamed(cut(X, y, [10, 5000]))
    source.sum(query(D), 0, 100)
    for start, stop in [(0, 100), (99, 200), (0, N)]:
        with pytest.raises(DataError, match="a row takes part once"):
            source.sum(query(D), start, stop)
    source.sum(query(D), 100, 200)


def test_rows_before_a_later_range_are_skipped():
    X, y = make()
    inside = from_arrays(X, y).bounded(SIGN, order="given")
    source = streamed(cut(X, y, [10, 5000]))
    for start, stop in [(3, 20), (6000, 6000 + SUM_LEAF), (N - 1, N)]:
        found = source.sum(query(D), start, stop)
        assert found.tobytes() == inside.sum(query(D), start, stop).tobytes()
    with pytest.raises(DataError, match="takes part once"):
        source.sum(query(D), 3, 20)


def test_an_empty_range_reads_nothing():
    source = streamed(cut(*make(), [10]))
    assert len(source.rows(5, 5)) == 0
    assert source.rows(5, 5).d == D
    assert source.sum(query(D), 7, 7).tolist() == [0.0] * D
    source.sum(query(D), 0, 1)


@pytest.mark.parametrize("facts", [{"sparse": True}, {"labels": "text"}, {"labels": "none"}])
def test_an_empty_range_of_any_table(facts):
    label = {"text": Classes("a", "b"), "none": None}.get(facts.get("labels"), "sign")
    X = scipy.sparse.csr_array((2, D)) if facts.get("sparse") else np.ones((2, D))
    y = np.array(["a", "b"]) if facts.get("labels") == "text" else np.ones(2)
    chunk = X if facts.get("labels") == "none" else (X, y)
    block = streamed([chunk], Bounds(1.0, label=label), **facts).rows(0, 0)
    assert (len(block), block.d) == (0, D)


def test_rows_are_not_fetched_by_number():
    source = streamed(cut(*make(), [10]))
    with pytest.raises(DataError, match="by number"):
        source.take([1, 2])
    with pytest.raises(DataError, match="by number"):
        source.sum_at(query(D), [1])


def test_an_iterator_serves_one_source():
    table = from_batches(cut(*make(), [10]), n=N, d=D)
    table.check(SIGN, order="given")
    table.bounded(SIGN, order="given")
    with pytest.raises(DataError, match="used up"):
        table.bounded(SIGN, order="given")
    with pytest.raises(DataError, match="used up"):
        table.check(SIGN, order="given")


def test_what_can_begin_anew_serves_several():
    X, y = make()

    class Anew:
        def __iter__(self):
            return cut(X, y, [10])

    for again in (list(cut(X, y, [10])), lambda: cut(X, y, [10]), Anew()):
        table = from_batches(again, n=N, d=D)
        first, second = (table.bounded(SIGN, order="given").sum(query(D)) for _ in range(2))
        assert first.tobytes() == second.tobytes()


def test_a_secret_order_is_refused():
    table = from_batches(cut(*make(), [10]), n=N, d=D)
    with pytest.raises(ParameterError, match=r"order='given'.*not chosen by looking"):
        table.bounded(SIGN)
    table.bounded(SIGN, order="given")  # the refusal has used nothing up


def test_only_the_first_chunk_is_fetched_before_it_is_needed():
    X, y = make()
    read = []

    def chunks():
        for k in range(0, N, 1000):
            read.append((k, threading.get_ident()))
            yield X[k : k + 1000], y[k : k + 1000]

    table = from_batches(chunks(), n=N, d=D)
    assert read == []
    source = table.bounded(SIGN, order="given")
    assert len(read) == 1
    source.sum(query(D), 0, 1000)
    assert len(read) == 1
    source.sum(query(D), 1000, N)
    assert {thread for _, thread in read} == {threading.get_ident()}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", [37, 1000, SUM_LEAF, 3 * SUM_LEAF + 5])
def test_an_iterator_may_use_its_array_again(size, threads, monkeypatch):
    monkeypatch.setattr(leaves, "_threads", lambda *_: threads)
    X, y = make(5 * SUM_LEAF)
    rows, labels = np.empty((size, D)), np.empty(size)

    def chunks():
        for begin in range(0, len(X), size):
            count = min(size, len(X) - begin)
            rows[:count], labels[:count] = X[begin : begin + count], y[begin : begin + count]
            yield rows[:count], labels[:count]
            rows[:], labels[:] = np.nan, np.nan

    inside = from_arrays(X, y).bounded(SIGN, order="given")
    source = streamed(chunks(), n=len(X))
    for start, stop in itertools.pairwise([0, 10, 3 * SUM_LEAF, len(X)]):
        found = source.sum(query(D), start, stop)
        assert found.tobytes() == inside.sum(query(D), start, stop).tobytes()


def test_memory_does_not_grow_with_the_rows():
    n, d, size = 2_000_000, 10, 10_000
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((size, d)), np.ones(size)
    made = ((rows, labels) for _ in range(n // size))
    source = from_batches(made, n=n, d=d).bounded(SIGN, order="given")
    asked = ClippedGradient(Logistic(), np.zeros(d), 1.0)
    tracemalloc.start()
    try:
        with compiler.implementation(compiled=False):  # loading a compiler is no row
            source.sum(asked, 0, n // 2)
            source.sum(asked, n // 2, n)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5e6  # all rows are 160 MB, one chunk is 0.8 MB


# -- streams that are too short or too long --------------------------------------------------------


@pytest.mark.parametrize("have", [1, SUM_LEAF, N - 1])
def test_a_short_stream_is_refused(have):
    X, y = make()
    source = streamed(cut(X[:have], y[:have], [100]))
    with pytest.raises(DataError, match=rf"ended after {have} rows.*n = {N}"):
        source.sum(query(D), 0, N)
    with pytest.raises(DataError, match=rf"ended after {have} rows"):
        streamed(cut(X[:have], y[:have], [100])).sum(query(D), N - 1, N)


@pytest.mark.parametrize("n", [N, 2 * SUM_LEAF, 2 * SUM_LEAF + 1, 10])
@pytest.mark.parametrize("sizes", [[5], [], [0, SUM_LEAF]])
@pytest.mark.parametrize("more", ["in the chunk", "in the next chunk", "after empty chunks"])
def test_a_long_stream_is_refused_before_its_last_leaf(n, sizes, more):
    X, y = make(N + 1)
    chunks = list(cut(X[:n], y[:n], sizes)) if sizes else [(X[:1], y[:1]), (X[1:n], y[1:n])]
    extra = (X[n : n + 1], y[n : n + 1])
    if more == "in the chunk":
        ends = [np.concatenate(pair) for pair in zip(chunks[-1], extra, strict=True)]
        chunks = [*chunks[:-1], tuple(ends)]
    else:
        empty = [(X[:0], y[:0])] * 3 if more == "after empty chunks" else []
        chunks = [*chunks, *empty, extra]
    with pytest.raises(DataError, match=rf"after row n = {n}.*itertools.islice"):
        streamed(chunks, n=n).sum(query(D))
    seen = []
    source = streamed(chunks, n=n)
    with pytest.raises(DataError, match="goes on"):
        seen.extend(len(block) for block in source.blocks())
    assert sum(seen) <= (n - 1) // SUM_LEAF * SUM_LEAF
    streamed(chunks, n=n).sum(query(D), 0, n - 1)  # only the last row's range looks further


def test_chunks_without_rows_may_follow_the_last_row():
    X, y = make()
    streamed([(X, y), (X[:0], y[:0]), ([], [])]).sum(query(D))


# -- what is no chunk ------------------------------------------------------------------------------

GOOD = (np.full((4, D), 987.25), np.ones(4))
BAD = {
    "width": ((np.full((4, D + 1), 987.25), np.ones(4)), {}, f"{D + 1} columns.*d = {D}"),
    "length": ((np.full((4, D), 987.25), np.ones(3)), {}, "4 rows, but y has 3"),
    "no pair": (GOOD[0], {}, "pair"),
    "three": ((*GOOD, GOOD[1]), {}, "pair"),
    "no labels": ((GOOD[0], None), {}, "y is None"),
    "no table": (("987.25", GOOD[1]), {}, "X must be"),
    "one axis": ((GOOD[1], GOOD[1]), {}, "two axes"),
    "text": ((GOOD[0], np.array(["987.25"] * 4)), {}, "'text'.*labels='number'"),
    "booleans": ((GOOD[0], GOOD[1] > 0), {}, "never -1"),
    "sparse": ((scipy.sparse.csr_array(GOOD[0]), GOOD[1]), {}, "is a sparse matrix"),
    "dense": (GOOD, {"sparse": True}, "is not a sparse matrix"),
    "numbers": (GOOD, {"labels": "text"}, "'number'.*labels='text'"),
    "a tuple": (GOOD, {"labels": "none"}, "X alone"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_chunk_that_does_not_fit_is_named_by_its_number(case):
    chunk, facts, words_said = BAD[case]
    X: object = scipy.sparse.csr_array(GOOD[0]) if facts.get("sparse") else GOOD[0]
    label: object = "sign"
    good = (X, GOOD[1])
    if facts.get("labels") == "text":
        label, good = Classes("a", "b"), (X, np.array(["a"] * 4))
    if facts.get("labels") == "none":
        label, good = None, X
    source = streamed([good, good, chunk, good], Bounds(1.0, label=label), n=16, **facts)
    assert len(source.rows(0, 8)) == 8
    with pytest.raises(DataError, match=f"chunk 2 .*{words_said}") as caught:
        source.rows(8, 12)
    assert "987" not in str(caught.value)
    with pytest.raises(DataError, match="ended after 8 rows"):  # not as if it had not been
        source.rows(8, 12)


def test_what_the_iterator_raises_is_passed_on():
    X, y = make()
    problem = OSError("the disk is gone")

    def chunks():
        yield X[:5000], y[:5000]
        raise problem

    with pytest.raises(OSError, match="the disk is gone") as caught:
        streamed(chunks()).sum(query(D))
    assert caught.value is problem
    assert not [t for t in threading.enumerate() if t.name.startswith("dpsco clipper")]


def test_a_single_table_is_no_stream():
    X, y = make(8)
    tables = (X, scipy.sparse.csr_array(X), pd.DataFrame(X), pa.table({"a": y}), {"a": y}, "abc")
    for single in tables:
        with pytest.raises(DataError, match=r"from_arrays|list of chunks"):
            from_batches(single, n=8, d=D)
    for pair in ((X, y), [X, y], (X.tolist(), y.tolist()), (pd.DataFrame(X), pd.Series(y))):
        with pytest.raises(DataError, match=r"list of chunks: \[\(X, y\)\]"):
            from_batches(pair, n=8, d=D)
    with pytest.raises(DataError, match=r"one pair \(X, y\)"):
        from_batches((X, y), n=8, d=D, labels="none")
    for several in (((X[:4], y[:4]), (X[4:], y[4:])), [(X[:4], y[:4]), (X[4:], y[4:])]):
        assert len(streamed(several, n=8).rows()) == 8
    assert len(streamed((X[:4], X[4:]), Bounds(1.0), n=8, labels="none").rows()) == 8
    with pytest.raises(DataError, match="got int"):
        from_batches(8, n=8, d=D)
    with pytest.raises(DataError, match=r"must return an iterator.*int"):
        from_batches(lambda: 8, n=8, d=D).bounded(SIGN, order="given")


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": 0},
        {"n": 2.5},
        {"d": 0},
        {"labels": "list"},
        {"labels": None},
        {"dtype": np.int64},
        {"dtype": "no type"},
        {"sparse": 1},
    ],
)
def test_arguments_out_of_range_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        from_batches([], **{"n": 8, "d": D, **wrong})


def test_the_bounds_must_fit():
    table = from_batches([], n=8, d=D, labels="none")
    assert repr(table) == "<BatchTable: 8 x 3, float64, no labels>"
    with pytest.raises(DataError, match="no labels"):
        table.bounded(SIGN, order="given")
    with pytest.raises(DataError, match="label"):
        from_batches([], n=8, d=D).bounded(Bounds(1.0), order="given")
    with pytest.raises(DataError, match=r"reads numbers.*labels='number'\).*of strings"):
        from_batches([], n=8, d=D, labels="text").bounded(SIGN, order="given")
    classes = Bounds(1.0, label=Classes("no", "yes"))
    with pytest.raises(DataError, match=r"reads strings.*labels='text'\).*of numbers"):
        from_batches([], n=8, d=D).bounded(classes, order="given")
    source = from_batches([GOOD], n=8, d=D).bounded(Bounds(1.0, label=2.0), order="given")
    with pytest.raises(ParameterError, match="weights"):  # before anything is read
        source.sum(ClippedGradient(Squared(), np.zeros(D + 1), 1.0))


def test_solvers_of_several_passes_are_refused_before_anything_is_paid(tmp_path):
    X, y = make(100)
    problem = dp.Problem(loss=Logistic(), bounds=SIGN)
    budget = dp.ApproxDP(1.0, 1e-6)
    plan = dp.plan(problem, n=100, d=D, budget=budget, solver="noisy_gd", options={"rounds": 2})
    odometer = dp.Odometer(tmp_path / "odometer", budget)
    with pytest.raises(ParameterError, match=r"Solvers of a single epoch: .*acc_srgd"):
        dp.run(plan, from_batches(iter([(X, y)]), n=100, d=D), order="given", odometer=odometer)
    assert not odometer.entries()


SELECTING = ("noisy_fw_gll", "poly_sfw")  # among vertices


@pytest.mark.parametrize(
    "solver", [key for key, entry in dp.solvers.registry().items() if entry.stepper is not None]
)
def test_chunks_that_begin_anew_serve_every_solver_of_rounds(solver):
    X, y = make(9000)  # more than two leaves
    ball = dp.domains.L1Ball if solver in SELECTING else dp.domains.L2Ball
    problem = dp.Problem(loss=Logistic(), bounds=SIGN, domain=ball(5.0))
    options = {"epochs": 2, "rate": 0.5} if solver == "dp_sgd_poisson" else {"rounds": 3}
    task = dp.Task(problem, 9000, D, dp.ApproxDP(1.0, 1e-6))
    if dp.solvers.get(solver).refusals(task):
        pytest.skip("it takes other problems")
    plan = dp.plan(task, solver=solver, options=options)
    chunks = [(X[k : k + 700], y[k : k + 700]) for k in range(0, 9000, 700)]
    seeded = {"order": "given", "randomness": dp.Randomness.seeded(1)}
    whole = dp.run(plan, (X, y), **seeded).weights
    for batches in (chunks, lambda: iter(chunks)):
        seeded["randomness"] = dp.Randomness.seeded(1)
        result = dp.run(plan, from_batches(batches, n=9000, d=D), **seeded)
        assert result.weights.tobytes() == whole.tobytes()
        assert AGAIN in result.certificate.trusted  # nobody compares the passes


def test_what_is_trusted_of_chunks():
    once, again = cut(*make(), [10]), list(cut(*make(), [10]))
    assert from_batches(once, n=N, d=D).trusted("given") == (UNCHOSEN,)
    assert from_batches(again, n=N, d=D).trusted("given") == (UNCHOSEN, AGAIN)
    assert from_arrays(*make()).trusted("shuffled") == ()


# -- the first chunk, before anything is paid ------------------------------------------------------

EARLY = {
    "width": (lambda X, y: iter([(X[:, 1:], y)]), {}, f"chunk 0 .*{D - 1} columns"),
    "text": (lambda X, y: iter([(X.astype(str), y)]), {}, "chunk 0 .*must hold numbers"),
    "text as labels": (lambda X, y: iter([(X, words(y))]), {}, r"chunk 0 .*labels='text'\)"),
    "no labels": (lambda X, y: iter([X]), {}, "chunk 0 .*pair"),
    "labels": (lambda X, y: iter([(X, y)]), {"labels": "none"}, "no labels"),
    "after empty chunks": (
        lambda X, y: iter([([], []), (X[:0], y[:0]), (X[:, 1:], y)]),
        {},
        f"chunk 2 .*{D - 1} columns",
    ),
    "too long": (lambda X, y: iter([(X.repeat(2, axis=0), y.repeat(2))]), {}, "200 rows.*n = 100"),
    "empty": (lambda X, y: iter([]), {}, "has no rows, but n = 100"),
    "empty list": (lambda X, y: [], {}, "has no rows, but n = 100"),
    "empty chunks": (lambda X, y: [(X[:0], y[:0])] * 2, {}, "has no rows, but n = 100"),
    "used up": (lambda X, y: used_up(cut(X, y, [10])), {}, "read before: such a one serves once"),
    "a wrong list": (lambda X, y: [(X[:, 1:], y)], {}, f"chunk 0 .*{D - 1} columns"),
    "a wrong function": (lambda X, y: lambda: [(X[:, 1:], y)], {}, f"chunk 0 .*{D - 1} columns"),
}


def used_up(chunks):
    list(chunks)
    return chunks


def one_pass(n):
    problem = dp.Problem(loss=Logistic(), bounds=SIGN, domain=dp.domains.L2Ball(1.0))
    budget = dp.ApproxDP(1.0, 1e-6)
    return dp.plan(problem, n=n, d=D, budget=budget, solver="dp_ftrl", options={"rounds": 5})


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("case", EARLY)
def test_a_mistake_in_the_first_chunk_costs_nothing(case, checkpoint, tmp_path):
    X, y = make(100)
    plan, odometer = one_pass(100), dp.Odometer(tmp_path / "odometer", dp.ApproxDP(1.0, 1e-6))
    how = {"order": "given", "odometer": odometer}
    how |= {"checkpoint": tmp_path / "run"} if checkpoint else {}
    made, facts, said = EARLY[case]
    table = from_batches(made(X, y), n=100, d=D, **facts)
    for _ in range(2):  # and the second time as well
        with pytest.raises(DataError, match=said):
            dp.run(plan, table, **how)
        assert not odometer.entries()
        assert not (tmp_path / "run").exists()
    dp.run(plan, from_batches(cut(X, y, [30]), n=100, d=D), **how)
    assert len(odometer.entries()) == 1


class Counted:
    """Chunks that count how often they are begun and fetched; an iterator, but no generator."""

    def __init__(self, X, y, sizes=(0, 7, 30)):
        self.chunks, self.fetched = cut(X, y, sizes), 0

    def __iter__(self):
        return self

    def __next__(self):
        chunk = next(self.chunks)
        self.fetched += 1
        return chunk


KINDS = {
    "a generator": lambda X, y: cut(X, y, [0, 7, 30]),
    "an iterator": Counted,
    "a zip": lambda X, y: zip(np.split(X, [7, 37]), np.split(y, [7, 37]), strict=True),
    "a list": lambda X, y: list(cut(X, y, [0, 7, 30])),
    "a function": lambda X, y: lambda: cut(X, y, [0, 7, 30]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_looking_loses_no_row(kind):
    X, y = make(100)
    inside = from_arrays(X, y).bounded(SIGN, order="given").rows()
    table = from_batches(KINDS[kind](X, y), n=100, d=D)
    other = Bounds(1.0, label=3.0)
    for bounds in (SIGN, SIGN, other, SIGN):
        table.check(bounds, order="given")
    found = table.bounded(SIGN, order="given").rows()
    assert found.rows.tobytes() == inside.rows.tobytes()
    assert np.array_equal(found.labels, inside.labels)


def test_a_chunk_is_fetched_once_and_a_function_called_once_a_fit():
    X, y = make(100)
    begun = []

    def function():
        begun.append(Counted(X, y))
        return begun[-1]

    table = from_batches(function, n=100, d=D)
    for fits in (1, 2):
        for _ in range(3):
            table.check(SIGN, order="given")
        assert (len(begun), begun[-1].fetched) == (fits, 2)  # one without rows, one with
        table.bounded(SIGN, order="given").sum(query(D))
        assert [chunks.fetched for chunks in begun] == [4] * fits


@pytest.mark.parametrize("kind", ["a generator", "an iterator"])
def test_another_table_of_an_iterator_finds_what_the_first_one_looked_at(kind):
    X, y = make(100)
    chunks = KINDS[kind](X, words(y))
    with pytest.raises(DataError, match="labels='text'"):
        streamed(chunks, n=100)
    bounds = Bounds(1.0, label=Classes("no", "yes"))
    found = streamed(chunks, bounds, n=100, labels="text").rows()
    inside = from_arrays(X, words(y)).bounded(bounds, order="given").rows()
    assert found.rows.tobytes() == inside.rows.tobytes()
    with pytest.raises(DataError, match="used up"):
        streamed(chunks, bounds, n=100, labels="text")


def test_a_chunk_that_fits_one_table_and_its_bounds_may_not_fit_others():
    X, y = make(100)
    chunks = cut(X, y > 0, [60])
    table = from_batches(chunks, n=100, d=D)
    table.check(Bounds(1.0, label=1.0), order="given")
    with pytest.raises(DataError, match=r"chunk 0 .*never -1"):
        table.check(SIGN, order="given")
    for facts, said in (({"d": D + 1}, "columns"), ({"n": 59}, "60 rows, but n = 59")):
        other = from_batches(chunks, **{"n": 100, "d": D, **facts})
        with pytest.raises(DataError, match=said):
            other.check(Bounds(1.0, label=1.0), order="given")


def test_an_iterator_in_use_is_not_read_from_its_middle():
    X, y = make(100)
    chunks = cut(X, y, [10, 10, 10])
    streamed(chunks, n=100).sum(query(D), 0, 15)
    with pytest.raises(DataError, match="used up"):
        from_batches(chunks, n=80, d=D).check(SIGN, order="given")


def test_iterators_are_not_kept_alive():
    X, y = make(100)
    chunks = cut(X, y, [10])
    gone = weakref.ref(chunks)
    table = from_batches(chunks, n=100, d=D)
    table.check(SIGN, order="given")
    del chunks, table
    gc.collect()
    assert gone() is None


def test_an_array_that_is_used_again_is_not_looked_at_too_late():
    X, y = make(100)
    rows, labels = np.empty((10, D)), np.empty(10)

    def chunks():
        for begin in range(0, 100, 10):
            rows[:], labels[:] = X[begin : begin + 10], y[begin : begin + 10]
            yield rows, labels

    table = from_batches(chunks(), n=100, d=D)
    table.check(SIGN, order="given")
    inside = from_arrays(X, y).bounded(SIGN, order="given")
    found = table.bounded(SIGN, order="given").sum(query(D))
    assert found.tobytes() == inside.sum(query(D)).tobytes()


def test_a_run_goes_on_with_the_rows_of_a_table_that_was_checked(tmp_path):
    X, y = make(100)
    plan = one_pass(100)
    whole = dp.run(plan, (X, y), order="given", randomness=Randomness.seeded(5))

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    kept = {"order": "given", "checkpoint": tmp_path / "run"}
    first = from_batches(cut(X, y, [7]), n=100, d=D)
    with pytest.raises(KeyboardInterrupt):
        dp.run(plan, first, randomness=Randomness.seeded(5), progress=stop, **kept)
    again = from_batches(cut(X, y, [0, 7]), n=100, d=D)
    again.check(SIGN, order="given")
    assert dp.run(plan, again, **kept).weights.tobytes() == whole.weights.tobytes()


def test_what_the_first_fetch_raises_costs_nothing(tmp_path):
    odometer = dp.Odometer(tmp_path / "odometer", dp.ApproxDP(1.0, 1e-6))

    def chunks():
        raise OSError("no such table")
        yield

    with pytest.raises(OSError, match="no such table"):
        dp.run(
            one_pass(100),
            from_batches(chunks(), n=100, d=D),
            order="given",
            odometer=odometer,
        )
    assert not odometer.entries()


# -- what waits for the next chunk -----------------------------------------------------------------


def test_rows_that_wait_for_the_next_chunk_share_no_memory_with_it():
    rows, labels, missing = np.ones((4, D)), np.array(["a", "b"] * 2), np.zeros(4, dtype=bool)
    kept = Raw(rows, labels, missing)[np.arange(1, 4)]
    rows[:], labels[:], missing[:] = np.nan, "c", True
    assert kept.rows.tolist() == np.ones((3, D)).tolist()
    assert kept.labels.tolist() == ["b", "a", "b"]
    assert kept.missing.tolist() == [False] * 3


def test_text_of_an_iterator_that_uses_its_arrays_again():
    bounds = Bounds(1.0, label=Classes("no", "yes"))
    n, size = SUM_LEAF + 500, 1500
    X, y = make(n)
    text = words(y)
    rows, labels = np.empty((size, D)), np.empty(size, dtype=text.dtype)

    def chunks():
        for begin in range(0, n, size):
            count = min(size, n - begin)
            rows[:count], labels[:count] = X[begin : begin + count], text[begin : begin + count]
            yield rows[:count], labels[:count]
            rows[:], labels[:] = np.nan, "else"

    asked = query(D)
    found = streamed(chunks(), bounds, n=n, labels="text").sum(asked)
    inside = from_arrays(X, text).bounded(bounds, order="given")
    assert found.tobytes() == inside.sum(asked).tobytes()


# -- what a stream that is not right has cost ------------------------------------------------------


@pytest.mark.parametrize("wrong", ["short", "long", "unfit"])
def test_a_wrong_stream_says_what_it_has_cost_and_a_checkpoint_goes_on(wrong, tmp_path):
    X, y = make(100)
    plan = one_pass(100)
    odometer = dp.Odometer(tmp_path / "odometer", dp.ApproxDP(1.0, 1e-6))
    parts = {
        "short": [(X[:50], y[:50])],
        "long": [(X[:50], y[:50]), (X[50:], y[50:]), (X[:1], y[:1])],
        "unfit": [(X[:50], y[:50]), (X[50:, :2], y[50:])],
    }[wrong]
    kept = {"order": "given", "checkpoint": tmp_path / "run", "odometer": odometer}
    rounds = []
    with pytest.raises(DataError, match=r"stays paid for; with a checkpoint it goes on") as found:
        dp.run(
            plan,
            from_batches(parts, n=100, d=D),
            randomness=Randomness.seeded(5),
            progress=lambda done, total: rounds.append(done),
            **kept,
        )
    assert "Nothing is returned" in str(found.value)
    assert len(odometer.entries()) == 1
    last = dp.run(plan, from_batches(cut(X, y, [30]), n=100, d=D), **kept)
    whole = dp.run(plan, (X, y), order="given", randomness=Randomness.seeded(5))
    assert rounds == ([1, 2] if wrong != "long" else [1, 2, 3, 4])
    assert last.weights.tobytes() == whole.weights.tobytes()
    assert len(odometer.entries()) == 1
