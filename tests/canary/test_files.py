"""The same through files: readers, the command line, checkpoints, model files, messages."""

import json
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsco as dp
from dpsco import cli
from dpsco.data import Category, ClassLabel, Flag, Hashed, Number, Schema, TableEncoder
from dpsco.federated import Coordinator, Worker
from dpsco.privacy import Odometer

DIGITS = "18273465"  # of every private number and word, below
SECRET = 918273.4655
N = 60
RNG = np.random.default_rng(5)
SCHEMA = Schema(
    (
        Number("age", 0, 100, missing="indicator"),
        Category("work", ("office", "farm"), other=True),
        Hashed("town", 8),
        Flag("owner"),
    ),
    ClassLabel("ill", ("no", "yes")),
)
NAMES = ["age", "work", "town", "owner", "ill"]
CLEAN = [
    [str(SECRET + k), "farm", f"town-{SECRET}", "yes", "no" if k % 2 else "yes"] for k in range(N)
]
CELLS = [
    *("", " ", str(SECRET), f"canary-{SECRET}", "9182734655e300", "-9182734655", "9182734655" * 40),
    *("0x9182734655", "9182734655,5", "1/9182734655", "NaN", "-inf", "NULL", "\tcanary9182734655"),
    *("1_9182734655", "é9182734655", "𝟗182734655", "9182734655\u2028", "=9182734655", "true"),
]


def silent(text):
    """Return whether a text, however it groups its digits, holds no canary."""
    return DIGITS not in text.replace(".", "").replace(",", "").replace("_", "")


def write_csv(path, rows):
    quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
    path.write_text("\n".join([",".join(NAMES), *quoted]) + "\n", encoding="utf-8")
    return path


def with_cell(column, cell):
    rows = [list(row) for row in CLEAN]
    rows[7][column] = cell
    return rows


def run(*arguments):
    """Run a command, which may warn of nothing that rows hold."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        code = cli.main([str(argument) for argument in arguments])
    assert all(silent(str(one.message)) for one in caught)
    return code


def fit_options(folder, name):
    return [
        *("--schema", folder / "schema.json", "--epsilon", 1, "--delta", 1e-6, "--seed", 1),
        *("--solver", "noisy_gd", "--option", "rounds=1", "--force"),
        *("-o", folder / f"{name}.json", "--certificate", folder / f"{name}.cert.json"),
        *("--report", folder / f"{name}.html", "--odometer", folder / "odometer.db"),
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a schema, a ledger, and a model of clean rows."""
    folder = tmp_path_factory.mktemp("canary")
    SCHEMA.save(folder / "schema.json")
    Odometer(folder / "odometer.db", dp.ApproxDP(1e6, 0.5))
    data = write_csv(folder / "clean.csv", CLEAN)
    assert run("fit", data, *fit_options(folder, "clean")) == 0
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize("column", range(5), ids=NAMES)
def test_the_command_line_says_and_writes_no_cell(home, column, capsys):
    model = home / "clean.json"
    for k, cell in enumerate(CELLS):
        data = write_csv(home / "odd.csv", with_cell(column, cell))
        commands = [
            ("fit", data, *fit_options(home, "odd")),
            ("evaluate", model, data),
            ("evaluate", model, data, "--epsilon", 1, "--delta", 1e-6),
            ("predict", model, data, "-o", home / "p.parquet", "--verbose", "--force"),
            ("schema", "check", home / "schema.json", data, "--rows", "--not-private"),
        ]
        for command in (commands[k % 5], commands[(k + 1 + k // 5) % 5]):
            counts = "--not-private" in command  # which answers a question about the rows
            assert run(*command) <= counts, (command[0], cell)
            said = capsys.readouterr()
            assert silent(said.out + said.err), (command[0], cell)
    for path in home.iterdir():
        if path.name not in ("clean.csv", "odd.csv"):
            assert silent(path.read_bytes().decode("latin-1")), path.name


COLUMNS = {
    "age": pa.array([SECRET + k for k in range(N)]),
    "work": pa.array(["farm", f"canary-{SECRET}"] * (N // 2)),
    "town": pa.array([f"canary-{SECRET}"] * N),
    "owner": pa.array([True, None] * (N // 2)),
    "ill": pa.array(["no", f"canary-{SECRET}"] * (N // 2)),
}
DATE = pa.array([918273465] * N, pa.timestamp("s"))
ODD_COLUMNS = {
    "text": pa.array([f"canary-{SECRET}"] * N),
    "lists": pa.array([[SECRET]] * N),
    "structs": pa.array([{"a": SECRET}] * N),
    "bytes": pa.array([f"canary-{SECRET}".encode()] * N),
    "dates": DATE,
    "durations": pa.array([918273465] * N, pa.duration("s")),
    "decimals": pa.array([Decimal(str(SECRET))] * N),
    "large": pa.array([9182734655 * 10**9] * N, pa.uint64()),
    "halves": pa.array(np.full(N, 9182, dtype=np.float16)),
    "nothing": pa.nulls(N),
    "categories": pa.array([f"canary-{SECRET}"] * N).dictionary_encode(),
    "integers": pa.array([9182734655] * N),
    "booleans": pa.array([True] * N),
    "infinite": pa.array([np.inf, np.nan] * (N // 2)),
    "broken": pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")]
    ).take(pa.array([0] * N)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("column", NAMES)
@pytest.mark.parametrize("kind", ODD_COLUMNS)
def test_readers_name_types_and_no_entry(tmp_path, column, kind, capsys):
    table = pa.table({**COLUMNS, column: ODD_COLUMNS[kind]})
    path, encoder = tmp_path / "t.parquet", TableEncoder(SCHEMA)
    pq.write_table(table, path)
    SCHEMA.save(tmp_path / "schema.json")
    readers = [
        lambda: dp.data.from_parquet(path, encoder=encoder, spill=tmp_path),
        lambda: dp.data.from_parquet(path, features=["age"], label="ill", spill=tmp_path),
        lambda: dp.data.from_frame(table, encoder=encoder),
        lambda: dp.data.from_frame(table, features=["age"], label="ill"),
    ]
    if kind != "broken":  # which older Arrow does not hand to pandas
        frame = table.to_pandas(ignore_metadata=True)
        readers.append(lambda: dp.data.from_frame(frame, encoder=encoder))
    model = {"classes": ["no", "yes"], "solver": "noisy_gd", "options": {"rounds": 1}}
    for read in readers:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", dp.errors.OutlookWarning)  # of the size, no entry
                fitted = dp.PrivateLogisticRegression(epsilon=1.0, feature_norm=2.0, **model).fit(
                    read()
                )
            assert silent(repr(fitted))
        except dp.errors.DpscoError as error:
            assert_no_error_quotes(error)
    run("schema", "check", tmp_path / "schema.json", path)
    said = capsys.readouterr()
    assert silent(said.out + said.err)


def assert_no_error_quotes(error):
    """Refuse the canary in an error, and in all that are behind it."""
    while error is not None:
        assert silent(str(error) + repr(error.args))
        error = error.__cause__ or error.__context__


# -- what is kept and what travels -----------------------------------------------------------------

BOUNDS = dp.Bounds(2.5e6, label=dp.data.Classes("no", "yes"))
PROBLEM = dp.Problem(loss=dp.losses.Logistic(), bounds=BOUNDS, domain=dp.domains.L2Ball(5.0))
ROUNDS = dp.plan(
    PROBLEM, n=N, d=2, budget=dp.ApproxDP(1.0, 1e-6), solver="acc_srgd", options={"rounds": 3}
)
X = np.full((N, 2), SECRET)  # not shortened: the bound is above
Y = ["no", f"canary-{SECRET}", "yes"] * (N // 3)


def test_a_checkpoint_holds_no_row(tmp_path):
    path, seen = tmp_path / "run.checkpoint", []
    table = dp.data.from_arrays(X, Y)
    result = dp.run(
        ROUNDS,
        table,
        checkpoint=path,
        progress=lambda done, total: seen.append(path.read_bytes()),
        odometer=Odometer(tmp_path / "odometer.db", dp.ApproxDP(2.0, 1e-5)),
    )
    assert len(seen) >= 3
    files = [*seen, *(file.read_bytes() for file in tmp_path.iterdir())]
    for content in files:
        assert silent(content.decode("latin-1"))
        assert np.float64(SECRET).tobytes() not in content
    assert silent(repr(result) + json.dumps(result.certificate.to_json()))
    assert silent(result._repr_html_() + result.certificate._repr_html_())


def test_messages_of_workers_hold_no_row():
    coordinator = Coordinator(ROUNDS)
    for number, (start, stop) in enumerate(ROUNDS.batches()):
        request = coordinator.request()
        worker = Worker((X, Y), ROUNDS, name=f"w{number}", rows=(start, stop))
        answer = worker.answer(request)
        assert silent(
            json.dumps([request.to_json(), answer.to_json()]) + repr(worker) + repr(answer)
        )
        coordinator.receive([answer])
    assert silent(repr(coordinator.result()))


def test_a_search_says_nothing_of_odd_rows():
    quick = {"feature_norm": 1.0, "solver": "noisy_gd", "options": {"rounds": 1}}
    search = dp.PrivateGridSearch(
        dp.PrivateLogisticRegression(classes=["no", "yes"], **quick),
        {"alpha": [0.0, 0.1]},
        epsilon=2.0,
        mean_runs=1.5,
    )
    frame = pd.DataFrame({"a": [SECRET, f"canary-{SECRET}", None] * (N // 3), "b": SECRET})
    for rows in (X, X.tolist(), frame, frame.to_numpy(dtype=object)):
        search.fit(rows, Y)
        assert silent(repr(search) + repr(search.best_estimator_) + repr(search.certificate_))
        assert silent(search._repr_html_() + str(search.named_weights()))
    for rows in (X[:, 0], X[:, :, None], frame["a"], {"a": X[:, 0]}, X * 1j, X.astype(str), [X]):
        with pytest.raises(dp.errors.DpscoError) as caught:
            search.fit(rows, Y)
        assert_no_error_quotes(caught.value)
        with pytest.raises(dp.errors.DpscoError) as caught:
            search.predict(rows)
        assert_no_error_quotes(caught.value)
