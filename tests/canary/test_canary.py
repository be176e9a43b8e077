"""Canaries in the rows: whatever is passed wherever, none of them is ever heard.

Every private number and word holds the digits of `SECRET`. Thousands of odd inputs go through every
public entry: no error (with all that is behind it), warning, log record, repr, file or message may
hold these digits, every refusal is one of dpsco's own, and tables that differ in one cell end
alike.
"""

import json
import logging
import math
import re
import traceback
import warnings
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import dpsco as dp
from dpsco.data import Classes, Number, NumberLabel, Schema, TableEncoder
from dpsco.federated import Coordinator, Worker

SECRET = 918273.4655
WORD = f"canary-{SECRET}"
SAID = "18273"  # in a message, also of a number that was rounded
WRITTEN = "18273465"  # in files and reprs, where noise writes long numbers
ODD_INPUTS = 2_000  # at least so many
N, D = 12, 3
RNG = np.random.default_rng(4)
CLEAN = RNG.uniform(-1, 1, (N, D))
CLEAN[::2] *= SECRET
ROWS = CLEAN.tolist()
WORDS = ["yes" if row[0] > 0 else "no" for row in ROWS]
NUMBERS = CLEAN[:, 1].tolist()


class Quoting:
    """Says the canary whatever it is asked."""

    def __repr__(self):
        return WORD

    def __float__(self):
        raise ValueError(WORD)

    __int__ = __index__ = __len__ = __bool__ = __float__

    def __array__(self, *args, **more):
        raise RuntimeError(WORD)


# -- what was said ---------------------------------------------------------------------------------


def chain(error):
    """Yield an error and all that are behind it, shown or not."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def texts_of(error):
    """Return all that an error says, and what a traceback prints: source lines, no values."""
    texts = ["".join(traceback.format_exception(error))]
    for each in chain(error):
        texts += [str(each), repr(each.args), *getattr(each, "__notes__", ())]
    return texts


class Listener(logging.Handler):
    """Keeps every log record."""

    def __init__(self):
        super().__init__(level=0)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def hear(call):
    """Return how a call ended, after a check that nothing it said holds the canary."""
    listener, root = Listener(), logging.getLogger()
    level = root.level
    root.addHandler(listener)
    root.setLevel(1)
    texts, result, end = [], None, "done"
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = call()
            except dp.errors.DpscoError as error:  # no other one is expected of any input
                texts, end = texts_of(error), (type(error), str(error))
        said = tuple(sorted({str(one.message) for one in caught}))
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
    for text in [*texts, *said, *listener.texts]:
        assert SAID not in text, text
    assert_silent(repr(result))
    return end, said


def assert_silent(text):
    """Refuse the canary in what was written, however its digits are grouped."""
    assert WRITTEN not in re.sub(r"[.,_]", "", text), text[:2000]


# -- the entries -----------------------------------------------------------------------------------

QUICK = {"solver": "noisy_gd", "options": {"rounds": 1}}
TEXT = Classes("no", "yes")
PROBLEM = dp.Problem(
    loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label=TEXT), domain=dp.domains.L2Ball(5.0)
)
BUDGET = dp.ApproxDP(1.0, 1e-6)
PLAN = dp.plan(PROBLEM, n=N, d=D, budget=BUDGET, **QUICK)
ROUNDS = dp.plan(PROBLEM, n=N, d=D, budget=BUDGET, solver="acc_srgd", options={"rounds": 2})
ENCODER = TableEncoder(
    Schema(tuple(Number(name, -1, 1) for name in "abc"), NumberLabel("y", -1, 1))
)


def classifier():
    return dp.PrivateLogisticRegression(
        epsilon=1.0, delta=1e-6, feature_norm=1.0, classes=["no", "yes"], **QUICK
    )


def regressor():
    return dp.PrivateLinearRegression(
        epsilon=1.0, delta=1e-6, feature_norm=1.0, label_range=(-1, 1), **QUICK
    )


def mean():
    return dp.PrivateMean(epsilon=1.0, delta=1e-6, feature_norm=1.0, centre=0.5)


def estimating():
    return dp.PrivateSVC(epsilon=1e4, delta=1e-6, classes=["no", "yes"], **QUICK)


FITTED, LINE = classifier().fit(CLEAN / SECRET, WORDS), regressor().fit(CLEAN / SECRET, NUMBERS)
SAVED = dp.models.SavedModel(FITTED.model_, FITTED.certificate_)
NAMED = dp.models.SavedModel(FITTED.model_, FITTED.certificate_, feature_names=("a", "b", "c"))


def bounded(X, y):
    table = dp.data.from_arrays(X, y)
    return repr(table), repr(table.bounded(PROBLEM.bounds).rows())


def framed(X, y):
    return repr(dp.data.from_frame(X).bounded(dp.Bounds(1.0)).rows())


def batched(X, y):
    table = dp.data.from_batches([(X, y)], n=N, d=D, labels="text")
    return repr(table.bounded(PROBLEM.bounds, order="given").rows())


def encoded(X, y):
    table = dp.data.from_frame(X, encoder=ENCODER)
    return repr(table.bounded(ENCODER.bounds()).rows())


def answered(X, y):
    worker = Worker((X, y), ROUNDS, name="w", rows=ROUNDS.batches()[0])
    answer = worker.answer(Coordinator(ROUNDS).request())
    return answer.to_json() if isinstance(answer.to_json(), str) else json.dumps(answer.to_json())


def quiet(call):
    """Return an entry whose result, a prediction of these very rows, is not looked at."""

    def run(X, y):
        call(X, y)

    return run


CHEAP = {
    "from_arrays": bounded,
    "from_frame": framed,
    "from_batches": batched,
    "encoder": encoded,
    "features": quiet(lambda X, y: ENCODER.features(X)),
    "predict": quiet(lambda X, y: FITTED.predict(X)),
    "scores": quiet(lambda X, y: FITTED.decision_function(X)),
    "score": quiet(lambda X, y: FITTED.score(X, y)),
    "score of numbers": quiet(lambda X, y: LINE.score(X, y)),
    "saved": quiet(lambda X, y: SAVED.predict(X)),
    "saved, by name": quiet(lambda X, y: NAMED.probabilities(X)),
    "model": quiet(lambda X, y: FITTED.model_.predict(X)),
    "worker": answered,
}
ROUNDS_FRACTION = {
    "classifier": lambda X, y: repr(classifier().fit(X, y)),
    "regressor": lambda X, y: repr(regressor().fit(X, y)),
    "mean": lambda X, y: repr(mean().fit(X)),
    "private bounds": lambda X, y: repr(estimating().fit(X, y)),
    "run": lambda X, y: repr(dp.run(PLAN, (X, y))),
    "solve": lambda X, y: repr(dp.solve(PROBLEM, (X, y), BUDGET, **QUICK)),
}


# -- odd cells -------------------------------------------------------------------------------------

CELLS = [
    *(WORD, str(SECRET), WORD.encode(), "", None, math.nan, math.inf, SECRET, -SECRET, True),
    *(918273465 * 10**21, 918273465 * 10**400, complex(SECRET, 1.0), Decimal(str(SECRET))),
    *(Decimal("sNaN918273"), Fraction(9182734655, 10_000), Fraction(918273465 * 10**400, 7)),
    *([SECRET], (SECRET, SECRET), {WORD: SECRET}, {SECRET}, np.full(2, SECRET), np.array(SECRET)),
    *(np.float32(SECRET), np.int64(918273465), np.str_(WORD), np.datetime64(918273465, "s")),
    *(np.timedelta64(918273465, "s"), datetime(1999, 9, 18, 2, 7, 3), pd.Timestamp(918273465)),
    *("\ud800" + WORD, WORD + "\0", Quoting(), np.ma.masked, pd.NA, pd.NaT, range(918273), object),
]


def series_of(values, dtype=None):
    """Return a column; older pandas raises what a cell says, or holds no integer that large."""
    try:
        return pd.Series(values, dtype=dtype)
    except (OverflowError, RuntimeError, ValueError):
        return pd.Series(object_vector(values), dtype=object)


def pandas_of(rows, dtype=None):
    return pd.DataFrame(
        {name: series_of([row[k] for row in rows], dtype) for k, name in enumerate("abc")}
    )


def object_array(rows):
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, j in np.ndindex(array.shape):
        array[i, j] = rows[i][j]
    return array


def polars_objects(rows):
    return pl.DataFrame(
        {n: pl.Series(n, [row[k] for row in rows], dtype=pl.Object) for k, n in enumerate("abc")}
    )


def object_vector(labels):
    return object_array([[label] for label in labels])[:, 0]


FEATURES = {
    "lists": lambda rows: [list(row) for row in rows],
    "tuples": lambda rows: tuple(tuple(row) for row in rows),
    "objects": object_array,
    "pandas": pandas_of,
    "pandas objects": lambda rows: pandas_of(rows, object),
    "polars objects": polars_objects,
}
LABELS = {
    "list": list,
    "tuple": tuple,
    "objects": object_vector,
    "series": series_of,
    "object series": lambda labels: series_of(labels, object),
    "polars objects": lambda labels: pl.Series("y", list(labels), dtype=pl.Object),
}


def with_label(frame, labels):
    """Return a frame with a column of labels more."""
    if isinstance(frame, pl.DataFrame):
        return frame.with_columns(pl.Series("y", labels, dtype=pl.Float64))
    return frame.assign(y=labels)


def made(build, values):
    """Return what a library makes of values; None where it refuses, before dpsco sees them."""
    try:
        return build(values)
    except (UnicodeEncodeError, RuntimeError):
        return None


def neighbours():
    """Yield a name, an entry, a table, and the table with one odd cell or label."""
    everywhere = {
        "from_arrays": bounded,
        "from_batches": batched,
        "worker": answered,
        **ROUNDS_FRACTION,
    }
    words = [name for name in everywhere if name != "regressor"]
    for k, ((form, build), cell) in enumerate(product(FEATURES.items(), CELLS)):
        odd = [list(row) for row in ROWS]
        odd[5][1] = cell
        clean, near = build(ROWS), build(odd)
        for name in ("from_arrays", words[k % len(words)]):
            yield f"{form}, {name}", everywhere[name], (clean, WORDS), (near, WORDS)
        if hasattr(clean, "columns"):
            tables = [with_label(frame, NUMBERS) for frame in (clean, near)]
            yield f"{form}, encoder", encoded, (tables[0], None), (tables[1], None)
    for k, ((form, build), cell) in enumerate(product(LABELS.items(), CELLS)):
        for base, names in (
            (WORDS, ["from_arrays", words[k % len(words)]]),
            (NUMBERS, ["regressor"]),
        ):
            clean, near = build(base), made(build, [*base[:5], cell, *base[6:]])
            if near is None:
                continue
            for name in names:
                yield f"label, {form}, {name}", everywhere[name], (ROWS, clean), (ROWS, near)


@pytest.mark.thorough
def test_tables_that_differ_in_a_cell_end_alike():
    clean, count = {}, 0
    for name, entry, table, near in neighbours():
        if name not in clean:
            clean[name] = hear(partial(entry, *table))
            assert clean[name][0] == "done", name
        assert hear(partial(entry, *near)) == clean[name], name
        count += 1
    assert count > 800


# -- odd shapes and types --------------------------------------------------------------------------


def damaged(form, place, value):
    matrix = sparse.csr_matrix(CLEAN).asformat(form)
    part = getattr(matrix, place)
    part[len(part) // 2] = value
    return matrix


RECORDS = np.array([(SECRET, 1.0, 2.0)] * N, dtype=[("a", float), ("b", float), ("c", float)])
FRAME = pandas_of(ROWS)
SHAPES = {
    "fine": lambda: CLEAN,
    "one axis": lambda: CLEAN[:, 0],
    "no axis": lambda: np.array(SECRET),
    "three axes": lambda: CLEAN[:, :, None],
    "no rows": lambda: CLEAN[:0],
    "no columns": lambda: CLEAN[:, :0],
    "one row": lambda: CLEAN[:1],
    "wide": lambda: np.hstack([CLEAN, CLEAN]),
    "records": lambda: RECORDS,
    "records in rows": lambda: RECORDS[:, None],
    "record array": lambda: RECORDS.view(np.recarray),
    "masked": lambda: np.ma.array(CLEAN),
    "matrix": lambda: np.asmatrix(CLEAN),
    "memory": lambda: memoryview(CLEAN),
    "objects": lambda: object_array(ROWS),
    "objects in one axis": lambda: np.array([*map(tuple, ROWS), None], dtype=object),
    "ragged": lambda: [*ROWS[:-1], [SECRET]],
    "flat": lambda: [SECRET] * N,
    "mixed": lambda: [*ROWS[:-1], SECRET],
    "strings": lambda: [WORD] * N,
    "a string": lambda: WORD,
    "bytes": lambda: WORD.encode(),
    "a number": lambda: SECRET,
    "nothing": lambda: None,
    "an object": Quoting,
    "dict": lambda: {"a": NUMBERS, "b": NUMBERS, "c": NUMBERS},
    "dicts": lambda: [{"a": SECRET}] * N,
    "set": lambda: {SECRET, WORD},
    "generator": lambda: (row for row in ROWS),
    "iterator": lambda: iter(ROWS),
    "range": lambda: range(918273, 918273 + N),
    "series": lambda: FRAME["a"],
    "index": lambda: FRAME.set_index("a").index,
    "twice": lambda: pd.DataFrame(CLEAN, columns=["a", "b", "a"]),
    "mixed names": lambda: pd.DataFrame(CLEAN, columns=["a", 1, ("c",)]),
    "renamed": lambda: FRAME.rename(columns={"a": "A"}),
    "turned": lambda: FRAME[["c", "b", "a"]],
    "strings in columns": lambda: FRAME.astype(str),
    "categories": lambda: FRAME.astype("category"),
    "dates": lambda: FRAME.assign(b=pd.to_datetime(918273465, unit="s")),
    "intervals": lambda: FRAME.assign(b=pd.cut(FRAME["b"], 3)),
    "sparse columns": lambda: FRAME.astype(pd.SparseDtype(float, SECRET)),
    "nullable": lambda: FRAME.convert_dtypes(),
    "pandas on Arrow": lambda: FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "with a label": lambda: FRAME.assign(y=NUMBERS),
    "polars": lambda: pl.DataFrame(FRAME),
    "lazy": lambda: pl.DataFrame(FRAME).lazy(),
    "polars series": lambda: pl.Series("a", NUMBERS),
    "polars strings": lambda: pl.DataFrame(FRAME).cast(pl.String),
    "polars lists": lambda: pl.DataFrame({"a": ROWS, "b": ROWS, "c": ROWS}),
    "polars enum": lambda: pl.DataFrame({"a": pl.Series([WORD] * N, dtype=pl.Enum([WORD]))}),
    "Arrow": lambda: pa.table(FRAME),
    "Arrow, twice": lambda: pa.table([NUMBERS] * 3, names=["a", "b", "a"]),
    "record batch": lambda: pa.table(FRAME).to_batches()[0],
    "Arrow column": lambda: pa.chunked_array([NUMBERS]),
    "Arrow array": lambda: pa.array(NUMBERS),
    "Arrow decimals": lambda: pa.table({n: [Decimal(str(SECRET))] * N for n in "abc"}),
    "Arrow strings": lambda: pa.table({n: [WORD] * N for n in "abc"}),
    "Arrow dictionary": lambda: pa.table(
        {n: pa.array([WORD] * N).dictionary_encode() for n in "abc"}
    ),
    "Arrow structs": lambda: pa.table({n: [{"x": SECRET}] * N for n in "abc"}),
    "Arrow bytes": lambda: pa.table({n: [WORD.encode()] * N for n in "abc"}),
    "csr": lambda: sparse.csr_matrix(CLEAN),
    "one sparse axis": lambda: sparse.coo_array(CLEAN[:, 0]),
    "sparse complex": lambda: sparse.csr_matrix(CLEAN * 1j),
    **{
        f"{kind} numbers": partial(lambda kind: CLEAN.astype(kind), kind)
        for kind in ("f2", "f4", "g", "i8", "u4", "?", "c16", "U", "S", "O", "M8[s]", "m8[s]")
    },
    **{
        f"{form} {place} {value}": partial(damaged, form, place, value)
        for form, places in {
            "csr": ("indices", "indptr", "data"),
            "csc": ("indices", "indptr"),
            "coo": ("row", "col"),
            "bsr": ("indices",),
            "dia": ("offsets",),
        }.items()
        for place in places
        for value in (-1, 3, N, 918273465)
    },
}


def every(X, y, names):
    """Put one odd input through some entries."""
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a library says while the input is made
            table, labels = X(), y()
        hear(partial({**CHEAP, **ROUNDS_FRACTION}[name], table, labels))


@pytest.mark.thorough
def test_odd_shapes_and_types_are_refused_without_a_word_of_theirs():
    dear = list(ROUNDS_FRACTION)
    for k, make in enumerate(SHAPES.values()):
        some = [dear[(k + j) % len(dear)] for j in range(2)]
        every(make, lambda: WORDS, [*CHEAP, *some])
        every(lambda: CLEAN, make, ["from_arrays", "score", "score of numbers", "worker", some[0]])
    assert len(SHAPES) > 80


# -- anything at all -------------------------------------------------------------------------------


def choose(rng, options):
    return options[int(rng.integers(len(options)))]


def mutated(rng):
    """Return an odd table and odd labels: a few random changes of fine ones, in a random form."""
    rows = [list(row) for row in ROWS]
    for _ in range(int(rng.integers(0, 4))):
        rows[int(rng.integers(N))][int(rng.integers(D))] = choose(rng, CELLS)
    change = int(rng.integers(0, 12))
    if change == 0:
        rows[int(rng.integers(N))] = choose(rng, CELLS)
    elif change == 1:
        rows = rows[: int(rng.integers(N))]
    elif change == 2:
        rows = [row[: int(rng.integers(1, D))] for row in rows]
    labels = [choose(rng, CELLS) if rng.random() < 0.1 else label for label in WORDS]
    X = rows
    try:
        X = choose(rng, [*FEATURES.values(), pl.DataFrame, np.array, pa.table, as_it_is])(rows)
        X = choose(rng, [as_it_is, as_it_is, *CHANGES])(X)
    except REFUSALS:
        X = rows  # a library refuses to make it, in its own words and before dpsco sees it
    try:
        y = choose(rng, [*LABELS.values(), np.array, pl.Series, pa.array, set])(labels)
    except REFUSALS:
        y = labels
    return X, y


REFUSALS = (Exception, pl.exceptions.PanicException)


def as_it_is(X):
    return X


CHANGES = [
    lambda X: X.T,
    lambda X: X[:3],
    lambda X: X.to_numpy(),
    lambda X: X.astype("category"),
    lambda X: X.astype(object),
    lambda X: X.convert_dtypes(),
    lambda X: X.rename(columns={"b": "a"}),
    lambda X: X.set_axis([WORD.split("-")[0], "a", "a"], axis=1),
    lambda X: X.lazy(),
    lambda X: sparse.lil_matrix(np.array(X, dtype=float)),
    lambda X: sparse.dok_matrix(np.array(X, dtype=float)),
    lambda X: np.array(X, dtype=complex),
    lambda X: np.array(X, dtype=str),
    lambda X: X.reshape(-1),
    lambda X: X.ravel().tolist(),
    lambda X: iter(X),
    lambda X: [X],
    lambda X: {"X": X},
    lambda X: np.ma.masked_invalid(np.array(X, dtype=float)),
]
MUTATIONS = 1_000


@pytest.mark.thorough
def test_no_mutation_says_a_word():
    names, dear = list(CHEAP), list(ROUNDS_FRACTION)
    for k in range(MUTATIONS):
        rng = np.random.default_rng([1, k])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X, y = mutated(rng)
        some = {"from_arrays", names[k % len(names)], names[(7 * k + 3) % len(names)]}
        every(partial(as_it_is, X), partial(as_it_is, y), [*sorted(some), dear[k % len(dear)]])
    assert MUTATIONS + 2 * len(SHAPES) + 800 >= ODD_INPUTS
