"""Checkpoints: an interrupted run ends like any other, is paid for once, and repeats no noise."""

import dataclasses
import errno
import gc
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

import dpsco as dp
from dpsco.data import Number, Schema, SignLabel, TableEncoder
from dpsco.data.source import Source
from dpsco.errors import (
    BudgetError,
    CheckpointError,
    LedgerError,
    OdometerError,
    ParameterError,
    RandomnessError,
)
from dpsco.fit.checkpoint import file as checkpoint_file
from dpsco.fit.checkpoint import lock as checkpoint_lock
from dpsco.fit.checkpoint.checkpoint import CAVEAT, Checkpoint, peek
from dpsco.fit.checkpoint.file import Standing, Store
from dpsco.fit.checkpoint.lock import FileLock
from dpsco.privacy import ShuffledSequenceRelease
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.mechanisms import prefix_sum_sigma
from dpsco.privacy.mechanisms.prefix_sum.mechanism import mechanism
from dpsco.solvers import get, registry
from dpsco.solvers.engine import Engine, Schedule

N, D, ROUNDS = 240, 3, 6
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, D)) * 0.5
Y = np.where(X[:, 0] + 0.3 * RNG.standard_normal(N) > 0, 1.0, -1.0)
OTHER = (-X[:, ::-1].copy(), Y)
BUDGET = dp.ApproxDP(2.0, 1e-5)
PROBLEM = dp.Problem(
    loss=dp.losses.Logistic(),
    bounds=dp.Bounds(1.0, label="sign", intercept=0.5),
    domain=dp.domains.L2Ball(5.0),
)


def make(solver="dp_ftrl", *, problem=PROBLEM, budget=BUDGET, **options):
    rounds = {
        "dp_sgd_poisson": {"epochs": ROUNDS / 4, "rate": 0.25},
        "dp_sgd_gradient": {"rounds": ROUNDS + 1, "batch": 40},
        "prox_guided_weakly_convex": {"blocks": 2, "rounds": ROUNDS // 2},
        "shuffled_truncated_mirror_descent": {"rounds": ROUNDS, "secret_order": False},
    }.get(solver, {"rounds": ROUNDS})
    options = {**rounds, **options}
    if solver in ("noisy_fw_gll", "poly_sfw") and problem is PROBLEM:  # they select vertices
        problem = dataclasses.replace(problem, domain=dp.domains.L1Ball(5.0))
    return dp.plan(problem, n=N, d=D, budget=budget, solver=solver, options=options)


def banded():
    """A plan whose mechanism no option names."""
    noise = mechanism("banded", rounds=ROUNDS, bands=3)
    sigma = prefix_sum_sigma(BUDGET, bound=make().clip, rows=(0, N), mechanism=noise)
    return dataclasses.replace(make(), mechanism=noise, sigma=sigma)


class InterruptError(Exception):
    """What stops a run in these tests."""


def stop_after(rounds):
    """Return a progress that stops the run once so many rounds are reported."""

    def progress(done, total):
        if done == rounds:
            raise InterruptError

    return progress


def stored(plan, data, **arguments):
    """Run from a checkpoint whose run is over: a warning says that nothing is done."""
    with pytest.warns(UserWarning, match=r"is over, since .*stored result is returned") as seen:
        result = dp.run(plan, data, **arguments)
    assert [Path(warning.filename) for warning in seen] == [Path(__file__)]
    return result


def interrupted(plan, data, rounds, **arguments):
    """Run up to a round, and no further."""
    with pytest.raises(InterruptError):
        dp.run(plan, data, progress=stop_after(rounds), **arguments)


class Untouchable(dp.data.tables.table.Table):
    """A table that fails the test when its rows are looked at."""

    def __init__(self):
        super().__init__(N, D, np.dtype(float), "number")

    def _source(self, bounds, shuffle):
        raise AssertionError("rows were touched")


def change(path, statement, *values):
    """Change a checkpoint by hand."""
    database = sqlite3.connect(path)
    with database:
        database.execute(statement, values)
    database.close()


def ask(path, query):
    """Look into a checkpoint."""
    database = sqlite3.connect(path)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


# -- an interrupted run ends like one that was not -------------------------------------------------

ENGINE = [
    key
    for key, entry in registry().items()
    if entry.stepper is not None and not entry.refusals(dp.Task(PROBLEM, N, D, BUDGET))
]
PLANS = {
    **{f"dp_ftrl {noise}": (lambda noise=noise: make(noise=noise))
       for noise in ("toeplitz_cn", "toeplitz", "tree", "tree_honaker", "blt")},
    "dp_ftrl banded": banded,
    **{key: (lambda key=key: make(key))
       for key in ENGINE if key != "dp_ftrl"},
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("order", ["given", "shuffled"])
@pytest.mark.parametrize("name", PLANS)
def test_resumed_runs_end_at_the_same_bits(name, order, tmp_path):
    plan, path = PLANS[name](), tmp_path / "run"
    whole = dp.run(plan, (X, Y), order=order, randomness=dp.Randomness.seeded(3))
    for rounds in (1, 2, 4, ROUNDS):
        interrupted(
            plan, (X, Y), rounds, order=order, randomness=dp.Randomness.seeded(3), checkpoint=path
        )
        assert ask(path, "SELECT round FROM progress") == [(rounds,)]
    last = dp.run(plan, (X, Y), order=order, checkpoint=path)
    assert last.weights.tobytes() == whole.weights.tobytes()
    assert last.trace == whole.trace
    assert last.certificate.releases == whole.certificate.releases
    assert last.certificate.reproducible


def as_parquet(folder):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"x{k}": X[:, k] for k in range(D)} | {"y": Y}
    path = folder / "rows.parquet"
    if not path.exists():  # a file that is written again is another one
        pq.write_table(pa.table(columns), path, row_group_size=50)
    return dp.data.from_parquet(path, label="y", spill=folder)


def as_csv(folder):
    """The rows through a schema, which divides them by 8."""
    path = folder / "rows.csv"
    columns = tuple(Number(f"x{k}", -8.0, 8.0) for k in range(D))
    if not path.exists():
        lines = [",".join(map(repr, [*map(float, x), int(y)])) for x, y in zip(X, Y, strict=True)]
        path.write_text("\n".join([",".join([*(c.name for c in columns), "y"]), *lines, ""]))
    return dp.data.from_csv(path, encoder=TableEncoder(Schema(columns, SignLabel("y"))))


def as_batches(folder):
    chunks = ((X[k : k + 7], Y[k : k + 7]) for k in range(0, N, 7))
    return dp.data.from_batches(chunks, n=N, d=D)


def as_source(folder):
    return dp.data.from_arrays(X, Y).bounded(PROBLEM.bounds, order="given")


@pytest.mark.parametrize(
    ("table", "order"),
    [
        (as_parquet, "given"),
        (as_parquet, "shuffled"),
        (as_batches, "given"),
        (as_source, "given"),
    ],
)
def test_rows_may_come_from_anywhere(table, order, tmp_path):
    plan, path = make(), tmp_path / "run"
    whole = dp.run(plan, table(tmp_path), order=order, randomness=dp.Randomness.seeded(8))
    for rounds in (2, 5):
        interrupted(
            plan,
            table(tmp_path),
            rounds,
            order=order,
            randomness=dp.Randomness.seeded(8),
            checkpoint=path,
        )
    last = dp.run(plan, table(tmp_path), order=order, checkpoint=path)
    assert last.weights.tobytes() == whole.weights.tobytes()


@pytest.mark.parametrize("table", [as_parquet, as_csv])
@pytest.mark.parametrize("solver", ENGINE)
def test_rows_of_a_file_in_their_order_end_like_arrays(solver, table, tmp_path):
    """Over the registry: from a file, interrupted by faults, to the bits of the same rows."""
    plan, chance = make(solver), random.Random(solver)
    read = table(tmp_path).bounded(dp.Bounds(1e9, label="sign"), order="given").rows()
    assert np.allclose(read.rows * (8.0 if table is as_csv else 1.0), X)
    arrays = (np.array(read.rows), np.array(read.labels))
    whole = dp.run(plan, arrays, order="given", randomness=dp.Randomness.seeded(3))
    arguments = {"order": "given", "checkpoint": tmp_path / "run"}
    for owner, method in ((Source, summing(plan)), (Engine, "step"), (Store, "commit")):
        left, after = chance.randrange(1, 3), chance.random() < 0.5
        data = table(tmp_path)
        assert attempted(plan, owner, method, left, after=after, data=data, **arguments) is None
    result = dp.run(plan, table(tmp_path), **arguments)
    assert result.weights.tobytes() == whole.weights.tobytes()
    assert result.certificate.releases == whole.certificate.releases


def test_a_shuffled_order_is_found_again_by_the_same_kind_of_table_only(tmp_path):
    plan, path, parquet = make(), tmp_path / "run", as_parquet(tmp_path)
    bounds, orders = PROBLEM.bounds, []
    for table in (parquet, dp.data.from_arrays(X, Y)):
        source = table.bounded(bounds, order="shuffled", randomness=dp.Randomness.seeded(8))
        orders.append(source.rows().rows)
    assert not np.array_equal(*orders)  # rows would take part twice
    for first, second in ((parquet, (X, Y)), ((X, Y), parquet)):
        interrupted(plan, first, 2, checkpoint=path)
        with pytest.raises(CheckpointError, match=r"begun with order='shuffled.* would come twice"):
            dp.run(plan, second, checkpoint=path)
        path.unlink()


def test_secure_runs_find_their_noise_again(tmp_path):
    plan, path, copy = make(), tmp_path / "run", tmp_path / "copy"
    interrupted(plan, (X, Y), 1, checkpoint=path)
    shutil.copy(path, copy)
    for rounds in (2, 3):
        interrupted(plan, (X, Y), rounds, checkpoint=path)
    last, same = (dp.run(plan, (X, Y), checkpoint=file) for file in (path, copy))
    assert last.weights.tobytes() == same.weights.tobytes()
    assert last.certificate == same.certificate
    assert not last.certificate.reproducible
    assert "which a checkpoint kept while the run lasted" in last.certificate.randomness
    assert CAVEAT in last.certificate.trusted
    assert last.certificate.verify(cross_check=False).ok
    other = dp.run(plan, (X, Y), checkpoint=tmp_path / "another")
    assert other.weights.tobytes() != last.weights.tobytes()


def test_solve_takes_order_and_checkpoint(tmp_path):
    settings = {"solver": "dp_ftrl", "options": {"rounds": ROUNDS}, "order": "given"}
    whole = dp.solve(PROBLEM, (X, Y), BUDGET, randomness=dp.Randomness.seeded(1), **settings)
    for rounds in (2, None):
        try:
            last = dp.solve(
                PROBLEM,
                as_batches(tmp_path),
                BUDGET,
                randomness=dp.Randomness.seeded(1),
                checkpoint=tmp_path / "run",
                progress=stop_after(rounds),
                **settings,
            )
        except InterruptError:
            assert rounds == 2
    assert last.weights.tobytes() == whole.weights.tobytes()


def test_a_finished_run_gives_its_result_and_no_more(tmp_path):
    plan, path = make(), tmp_path / "run"
    odometer = dp.Odometer(tmp_path / "odometer", BUDGET)
    first = dp.run(plan, (X, Y), checkpoint=path, odometer=odometer)
    content = path.read_bytes()
    again = stored(plan, Untouchable(), checkpoint=path, odometer=odometer, progress=stop_after(1))
    assert again.weights.tobytes() == first.weights.tobytes()
    assert again.certificate == first.certificate
    assert again.trace == first.trace
    assert again.plan is plan
    assert len(odometer.entries()) == 1
    assert path.read_bytes() == content
    ended = datetime.fromisoformat(peek(path).ended)
    assert timedelta(0) <= datetime.now(timezone.utc) - ended < timedelta(minutes=5)


def test_a_finished_run_is_given_for_no_other_noise(tmp_path):
    plan, seeded, secure = make(), tmp_path / "seeded", tmp_path / "secure"
    first = dp.run(plan, (X, Y), checkpoint=seeded, randomness=dp.Randomness.seeded(2))
    dp.run(plan, (X, Y), checkpoint=secure)
    again = stored(plan, Untouchable(), checkpoint=seeded, randomness=dp.Randomness.seeded(2))
    assert again.weights.tobytes() == first.weights.tobytes()
    for path, root in (
        (seeded, dp.Randomness.seeded(3)),
        (seeded, dp.Randomness.secure()),
        (secure, dp.Randomness.seeded(2)),
        (secure, dp.Randomness.secure()),
    ):
        with pytest.raises(CheckpointError, match=r"mismatched noise state: the run of .* is over"):
            dp.run(plan, Untouchable(), checkpoint=path, randomness=root)
    assert ask(secure, "SELECT key_digest FROM certificate") == [
        (None,)
    ]  # nothing of its key is left


def test_how_far_a_run_is(tmp_path):
    plan, path = make(), tmp_path / "run"
    assert peek(path) is None
    path.touch(mode=0o600)
    assert peek(path) is None
    for rounds in (1, 3):
        interrupted(plan, (X, Y), rounds, checkpoint=path)
        assert peek(path) == Standing(N, rounds, None)
    dp.run(plan, (X, Y), checkpoint=path, progress=lambda *_: refuse_glance(path))
    assert (peek(path).round, peek(path).ended is None) == (ROUNDS, False)
    change(path, "UPDATE about SET rows = 'x'")
    with pytest.raises(CheckpointError, match="how far it is cannot be read"):
        peek(path)


def refuse_glance(path):
    with pytest.raises(CheckpointError, match="is in use"):
        peek(path)


# -- the rows of one table -------------------------------------------------------------------------


def file_table(path, rows=X, labels=("y",)):
    """Write a Parquet file, unless it is there, and return its table."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    if not path.exists():
        columns = {f"x{k}": rows[:, k] for k in range(D)} | {"y": Y, "z": -Y}
        pq.write_table(pa.table(columns), path)
    features = [f"x{k}" for k in range(D)]
    return dp.data.from_parquet(path, features=features, label=labels[0])


@pytest.mark.parametrize("over", [False, True])
def test_rows_of_other_files_are_refused(over, tmp_path):
    plan, path, january = make(), tmp_path / "run", tmp_path / "jan.parquet"
    odometer = dp.Odometer(tmp_path / "o", BUDGET)
    how = {"order": "given", "checkpoint": path, "odometer": odometer}
    if over:
        dp.run(plan, file_table(january), **how)
    else:
        interrupted(plan, file_table(january), 2, **how)
    before = path.read_bytes(), len(odometer.entries())
    file_table(tmp_path / "feb.parquet", -X)
    (tmp_path / "moved").mkdir()
    shutil.copy2(january, tmp_path / "moved" / "jan.parquet")
    why = "its result is about other rows" if over else "its noise would be used on other rows"
    for table, words in (
        (file_table(tmp_path / "feb.parquet"), r"begun on .*jan.parquet, and this is .*feb"),
        (file_table(tmp_path / "moved" / "jan.parquet"), r"this is .*moved.jan.parquet"),
        (file_table(january, labels=("z",)), "the same files read otherwise: other columns"),
        ((X, Y), r"begun on .*jan.parquet, and this is rows of no file"),
    ):
        with pytest.raises(CheckpointError, match=f"another table, and {why}: .*{words}") as found:
            dp.run(plan, table, **how)
        assert "choose another checkpoint" in str(found.value)
        assert str(january.stat().st_size) not in str(found.value)
    state = january.stat()
    os.utime(january, ns=(state.st_atime_ns, state.st_mtime_ns + 1))  # written again
    with pytest.raises(CheckpointError, match=r"jan.parquet has changed since it was begun"):
        dp.run(plan, file_table(january), **how)
    os.utime(january, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (path.read_bytes(), len(odometer.entries())) == before
    last = (stored if over else dp.run)(plan, file_table(january), **how)
    assert last.weights.shape == (D + 1,)


def test_rows_of_memory_do_not_become_those_of_a_file(tmp_path):
    plan, path = make(), tmp_path / "run"
    interrupted(plan, (X, Y), 2, checkpoint=path, order="given")
    table = file_table(tmp_path / "jan.parquet")
    with pytest.raises(CheckpointError, match=r"begun on rows of no file.*this is .*jan.parquet"):
        dp.run(plan, table, checkpoint=path, order="given")


def test_what_stays_of_a_finished_run_does_not_tell_how_large_its_files_are(tmp_path):
    plan, path, table = make(), tmp_path / "run", file_table(tmp_path / "jan.parquet")
    size = str((tmp_path / "jan.parquet").stat().st_size).encode()
    interrupted(plan, table, 2, checkpoint=path, order="given")
    assert b", %s, " % size in path.read_bytes()
    dp.run(plan, table, checkpoint=path, order="given")
    assert b", %s, " % size not in path.read_bytes()
    change(path, "UPDATE about SET origin = '?'")
    with pytest.raises(CheckpointError, match="where its rows lie cannot be read"):
        dp.run(plan, table, checkpoint=path, order="given")


def test_the_key_is_erased_when_the_run_is_over(tmp_path):
    plan, path = make(), tmp_path / "run"
    interrupted(plan, (X, Y), 2, checkpoint=path)
    key = ask(path, "SELECT secret FROM root")[0][0][1:33]
    assert key in path.read_bytes()
    assert os.stat(path).st_mode & 0o777 == 0o600
    seen = []

    def look(done, total):  # nothing beside the file holds the key while the run lasts
        seen.extend(
            file.name for file in tmp_path.iterdir() if file != path and key in bytes_of(file)
        )

    dp.run(plan, (X, Y), checkpoint=path, progress=look)
    assert seen == []
    assert [file.name for file in tmp_path.iterdir()] == ["run"]  # no journal is left behind
    assert key not in path.read_bytes()


def bytes_of(path):
    return path.read_bytes() if path.exists() else b""


def test_the_journal_keeps_no_key_when_the_process_dies_at_the_end(tmp_path):
    plan, path = make(), tmp_path / "run"
    interrupted(plan, (X, Y), ROUNDS, checkpoint=path)
    key = ask(path, "SELECT secret FROM root")[0][0][1:33]
    child = os.fork()
    if not child:
        kept = Checkpoint(path, plan, order="shuffled")
        ledger = kept.open_ledger()
        kept.randomness.child("order of the rows")
        engine = Engine(plan, get(plan.solver).stepper(plan), ledger)
        kept.resume(engine)
        kept.finish(engine.output(), ledger)
        os._exit(7)  # without closing the file
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert [file for file in tmp_path.iterdir() if key in file.read_bytes()] == []
    assert stored(plan, Untouchable(), checkpoint=path).weights.shape == (D + 1,)


def test_plans_with_code_are_told_apart_by_their_names(tmp_path):
    def custom(name):
        loss = dp.losses.CustomLoss(
            lambda u, y: np.log(np.cosh(u - y)), lambda u, y: np.tanh(u - y),
            slope_bound=1.0, curvature_bound=1.0, convex=True, labels="sign", name=name,
        )  # fmt: skip
        return make(problem=dataclasses.replace(PROBLEM, loss=loss))

    path = tmp_path / "run"
    interrupted(custom("one"), (X, Y), 2, checkpoint=path)
    with pytest.raises(CheckpointError, match="another plan: it differs in loss"):
        dp.run(custom("two"), Untouchable(), checkpoint=path)
    for change in ({"intercept": 0.7}, {"feature_norm": 1.0 + 1e-9}):  # under a loss of one name
        problem = custom("one").problem
        bounds = dataclasses.replace(problem.bounds, **change)
        problem = dataclasses.replace(problem, bounds=bounds)
        task = dataclasses.replace(custom("one").task, problem=problem)
        other = dataclasses.replace(custom("one"), task=task)
        with pytest.raises(CheckpointError, match=r"another plan: it differs in bounds\."):
            dp.run(other, Untouchable(), checkpoint=path)
    assert dp.run(custom("one"), (X, Y), checkpoint=path).weights.shape == (D + 1,)


@pytest.mark.parametrize("name", PLANS)
def test_faults_at_any_point_of_a_round(name, tmp_path):
    """Over the registry: whatever step of a round fails, the run goes on to the same bits.

    The odometer pays once, knows each round once, and no committed round is drawn again.
    """
    plan, path, chance = PLANS[name](), tmp_path / "run", random.Random(name)
    whole = dp.run(plan, (X, Y), randomness=dp.Randomness.seeded(3))
    odometer = dp.Odometer(tmp_path / "odometer", BUDGET)
    arguments = {"checkpoint": path, "odometer": odometer}
    places = [
        (Source, summing(plan)),
        (Engine, "step"), (Store, "commit"), (dp.Odometer, "commit"), (Checkpoint, "commit"),
        (Ledger, "close"), (Store, "finish"),
    ]  # fmt: skip
    result, faults = None, 0
    for attempt in range(60):
        owner, method = chance.choice(places)
        left = (
            -1 if attempt >= 40 else 1 if method in ("close", "finish") else chance.randrange(1, 4)
        )
        result = attempted(plan, owner, method, left, after=chance.random() < 0.5, **arguments)
        if result is not None:
            break
        faults += 1
    assert faults
    assert result.weights.tobytes() == whole.weights.tobytes()
    assert result.certificate.releases == whole.certificate.releases
    assert len(odometer.entries()) == 1
    ((run,),) = ask(path, "SELECT run FROM about")
    assert sorted(odometer.committed(run)) == list(range(1, plan.total_rounds + 1))


def summing(plan):
    """Return the method by which a source adds up the rows of a plan's rounds."""
    first = Schedule(plan.releases())[0]
    if isinstance(first.release, ShuffledSequenceRelease):
        return "take"  # row by row
    return "sum_at" if first.sampled else "sum"


def attempted(plan, owner, method, left, *, after, data=(X, Y), **arguments):
    """Run with a method that fails at its call number ``left``, before or after its work."""
    real, calls = getattr(owner, method), []

    def failing(*given, **named):
        calls.append(1)
        if len(calls) == left and not after:
            raise InterruptError
        result = real(*given, **named)
        if len(calls) == left:
            raise InterruptError
        return result

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a run whose result was stored before the fault is over
        patch.setattr(owner, method, failing)
        try:
            seed = None if arguments["checkpoint"].exists() else dp.Randomness.seeded(3)
            return dp.run(plan, data, randomness=seed, **arguments)
        except InterruptError:
            return None


# -- killed at any moment --------------------------------------------------------------------------

KILLS = """
    import os, random, shutil, signal, sys, time
    import numpy as np
    import dpsco as dp

    n, d, rounds, kills = 240, 3, 6, 14
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    budget = dp.ApproxDP(2.0, 1e-5)
    problem = dp.Problem(
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=dp.domains.L2Ball(5.0),
    )
    plans = {
        key: dp.plan(problem, n=n, d=d, budget=budget, solver=key, options=options)
        for key, options in {
            "acc_srgd": {"rounds": rounds},
            "dp_ftrl": {"rounds": rounds},
            "dp_sgd_single_epoch": {"rounds": rounds},
            "noisy_gd": {"rounds": rounds},
            "dp_sgd_poisson": {"epochs": rounds / 4, "rate": 0.25},
        }.items()
    }
    for plan in plans.values():  # imports whatever a run needs, so that a life begins at once
        dp.run(plan, (X, y), checkpoint=f"{sys.argv[1]}/{plan.solver}")

    def attempt(solver, seed, folder, name, odometer, row=None, done=None):
        reports = os.open(f"{folder}/{name}.reports", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

        def chunks():
            for k in range(0, n, 10):
                if row is not None and k >= row:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield X[k : k + 10], y[k : k + 10]

        told = []

        def progress(finished, total):
            os.write(reports, f"{finished} ".encode())
            told.append(finished)
            if len(told) == done:
                os.kill(os.getpid(), signal.SIGKILL)

        result = dp.run(
            plans[solver],
            dp.data.from_batches(chunks, n=n, d=d),
            order="given",
            checkpoint=f"{folder}/{name}",
            odometer=dp.Odometer(f"{folder}/{odometer}", budget),
            randomness=None if seed is None else dp.Randomness.seeded(seed),
            progress=progress,
        )
        np.save(f"{folder}/{name}.npy", result.weights)
        result.certificate.save(f"{folder}/{name}.json")

    def child(*arguments, after=None, **settings):
        pid = os.fork()
        if not pid:
            try:
                attempt(*arguments, **settings)
            except BaseException as problem:
                print(type(problem).__name__, problem, flush=True)
                os._exit(1)
            os._exit(0)
        if after is not None:
            time.sleep(after)
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            sys.exit("a resumed run failed")
        return os.WIFEXITED(status)

    def many_lives(solver, seed, folder, chance):
        os.mkdir(folder)
        run = (solver, seed, folder, "run", "odometer")
        assert not child(*run, row=1)  # in the first round: the first chunk is looked at before
        # The reference: the same root, never interrupted again, with an odometer of its own.
        for name in ("", ".odometer", ".odometer.counter"):
            shutil.copy(f"{folder}/{name[1:] or 'run'}", f"{folder}/whole{name}")
        began = time.monotonic()
        assert child(solver, seed, folder, "whole", "whole.odometer")
        lasts = time.monotonic() - began
        for number in range(kills):
            how = (
                {"row": chance.randrange(n)},
                {"done": 1},
                {"after": chance.uniform(0.0, 0.5 * lasts)},
            )[number % 3]
            if child(*run, **how):
                return number
        while not child(*run):
            pass
        return kills

    chance = random.Random(20250101)
    lives = 0
    for number in range(int(sys.argv[2])):
        for solver in plans:
            for seed in (None, 4):
                lives += many_lives(solver, seed, f"{sys.argv[1]}/{solver}{seed}{number}", chance)
    print(lives)
"""


@pytest.mark.slow
def test_runs_that_are_killed_again_and_again(tmp_path):
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLS), tmp_path, "2"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    folders = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert len(folders) == 20
    assert int(finished.stdout) > 3 * len(folders)  # kills
    for folder in folders:
        ended, whole = (np.load(folder / f"{name}.npy") for name in ("run", "whole"))
        assert ended.tobytes() == whole.tobytes()
        assert (folder / "run.json").read_text() == (folder / "whole.json").read_text()
        reports = (folder / "run.reports").read_text().split()
        assert len(reports) == len(set(reports)), "a round was reported twice"
        odometer = dp.Odometer(folder / "odometer")
        assert len(odometer.entries()) == 1
        ((run,),) = ask(folder / "run", "SELECT run FROM about")
        assert sorted(odometer.committed(run)) == list(range(1, ROUNDS + 1))
        assert odometer.committed(run) == dp.Odometer(folder / "whole.odometer").committed(run)


# -- paid once -------------------------------------------------------------------------------------


class Failing(dp.Odometer):
    """An odometer at which the process dies, before or after it has paid."""

    def __init__(self, path, *, pays):
        super().__init__(path, BUDGET)
        self._pays = pays

    def spend(self, releases, *, label="run", run=None):
        if self._pays:
            super().spend(releases, label=label, run=run)
        raise InterruptError


@pytest.mark.parametrize("pays", [False, True])
def test_a_crash_around_the_payment_neither_loses_nor_doubles_it(pays, tmp_path):
    plan, path = make(), tmp_path / "run"
    with pytest.raises(InterruptError):
        dp.run(plan, Untouchable(), checkpoint=path, odometer=Failing(tmp_path / "o", pays=pays))
    odometer = dp.Odometer(tmp_path / "o")
    assert len(odometer.entries()) == int(pays)
    assert ask(path, "SELECT round FROM progress") == [(0,)]
    dp.run(plan, (X, Y), checkpoint=path, odometer=odometer)
    assert len(odometer.entries()) == 1


def test_what_the_odometer_refuses_leaves_no_file(tmp_path):
    odometer = dp.Odometer(tmp_path / "o", dp.ApproxDP(1.0, 1e-5))
    with pytest.raises(BudgetError, match="Nothing was recorded"):
        dp.run(make(), Untouchable(), checkpoint=tmp_path / "run", odometer=odometer)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["o", "o.counter"]
    assert odometer.entries() == []
    plan = make(budget=dp.ApproxDP(1.0, 1e-5))  # another plan may take the place
    dp.run(plan, (X, Y), checkpoint=tmp_path / "run", odometer=odometer)


def test_a_round_is_committed_before_it_is_reported(tmp_path):
    plan, path, seen = make(), tmp_path / "run", []
    odometer = dp.Odometer(tmp_path / "o", BUDGET)
    interrupted(plan, (X, Y), 1, checkpoint=path, odometer=odometer)
    ((run,),) = ask(path, "SELECT run FROM about")

    def look(done, total):
        seen.append((done, max(odometer.committed(run))))
        if done == 4:
            raise InterruptError

    with pytest.raises(InterruptError):
        dp.run(plan, (X, Y), checkpoint=path, odometer=odometer, progress=look)
    assert seen == [(2, 2), (3, 3), (4, 4)]
    assert ask(path, "SELECT round FROM progress") == [(4,)]


def test_a_digest_that_a_crash_left_out_is_recorded_on_resuming(tmp_path):
    plan, path = make(), tmp_path / "run"
    odometer = dp.Odometer(tmp_path / "o", BUDGET)
    with pytest.MonkeyPatch.context() as patch:
        real = odometer.commit

        def dies(run, round, digest):
            if round == 3:
                raise InterruptError
            real(run, round, digest)

        patch.setattr(odometer, "commit", dies)
        with pytest.raises(InterruptError):
            dp.run(plan, (X, Y), checkpoint=path, odometer=odometer)
    ((run, digest),) = ask(path, "SELECT run, digest FROM about, progress")
    assert list(odometer.committed(run)) == [1, 2]
    interrupted(plan, (X, Y), 4, checkpoint=path, odometer=odometer)
    assert list(odometer.committed(run)) == [1, 2, 3, 4]
    assert odometer.committed(run)[3] == digest


# -- old copies ------------------------------------------------------------------------------------


def copied(tmp_path, plan, rounds, more, odometer):
    """Return an old copy of a checkpoint whose run has gone on."""
    path, copy = tmp_path / "run", tmp_path / "copy"
    interrupted(plan, (X, Y), rounds, checkpoint=path, odometer=odometer, order="given")
    shutil.copy(path, copy)
    interrupted(plan, (X, Y), more, checkpoint=path, odometer=odometer, order="given")
    return path, copy


@pytest.mark.parametrize("solver", ["dp_ftrl", "dp_sgd_single_epoch"])
def test_an_old_copy_on_other_rows_is_refused_and_on_the_same_rows_harmless(solver, tmp_path):
    plan, odometer = make(solver), dp.Odometer(tmp_path / "o", BUDGET)
    path, copy = copied(tmp_path, plan, 2, 4, odometer)
    before, seen = copy.read_bytes(), []
    for _ in range(2):
        with pytest.raises(LedgerError, match="already used on other rows: round 3 of run"):
            dp.run(
                plan,
                OTHER,
                checkpoint=copy,
                odometer=odometer,
                order="given",
                progress=lambda done, total: seen.append(done),
            )
    assert seen == []
    assert copy.read_bytes() == before  # not even the file has seen the second answer
    same = dp.run(plan, (X, Y), checkpoint=copy, odometer=odometer, order="given")
    last = dp.run(plan, (X, Y), checkpoint=path, odometer=odometer, order="given")
    assert same.weights.tobytes() == last.weights.tobytes()
    assert len(odometer.entries()) == 1


def test_old_copies_of_checkpoint_and_odometer_together_use_no_noise_again(tmp_path):
    """The noise of round 3 has hidden some rows; with old copies it would hide others too."""
    plan, path, home = make(), tmp_path / "run", tmp_path / "o"
    interrupted(plan, (X, Y), 2, checkpoint=path, odometer=dp.Odometer(home, BUDGET))
    old = path.read_bytes(), home.read_bytes()
    interrupted(plan, (X, Y), 4, checkpoint=path, odometer=dp.Odometer(home))
    live, newest = dp.Odometer(home), path.read_bytes()
    path.write_bytes(old[0])
    home.write_bytes(old[1])
    with pytest.raises(OdometerError, match=r"old copy: it has counted 3, and .* reached 5"):
        dp.Odometer(home)
    with pytest.raises(OdometerError, match=r"old copy: it has counted 3, and .* reached 5"):
        dp.run(plan, OTHER, checkpoint=path, odometer=live)
    # Without the second place, the newest checkpoint knows how far the odometer must have come.
    (tmp_path / "o.counter").unlink()
    path.write_bytes(newest)
    with pytest.raises(CheckpointError, match=r"odometer is an old copy: it knows 2 rounds .* 4\."):
        dp.run(plan, Untouchable(), checkpoint=path, odometer=dp.Odometer(home, expect_at_least=3))


def test_a_finished_run_is_compared_with_its_plan(tmp_path):
    """A certificate of another plan, or one that claims less, is not handed back."""
    plan, path = make(), tmp_path / "run"
    first = dp.run(plan, (X, Y), checkpoint=path)
    cheap = dp.run(make(budget=dp.ApproxDP(0.5, 1e-5)), (X, Y)).certificate
    ours = first.certificate
    claims = dataclasses.replace(ours.claims, epsilon=0.1)
    for forged, words in (
        (cheap, "it states another budget"),
        (dataclasses.replace(ours, releases=cheap.releases), "it lists other releases"),
        (dataclasses.replace(ours, claims=claims), r"epsilon is claimed to be 0\.1"),
        (dataclasses.replace(ours, enforced=()), "it leaves out what the plan"),
        (dataclasses.replace(ours, trusted=()), "'trusted' must say|it leaves out"),
    ):
        change(path, "UPDATE certificate SET record = ?", json.dumps(forged.to_json()))
        with pytest.raises(CheckpointError, match=f"not one of its plan: ({words})"):
            dp.run(plan, Untouchable(), checkpoint=path)
    change(path, "UPDATE certificate SET record = ?", json.dumps(ours.to_json()))
    assert stored(plan, Untouchable(), checkpoint=path).certificate == ours


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_copy_does_not_go_on_behind_the_back_of_its_odometer(rounds, tmp_path):
    plan, path, odometer = make(), tmp_path / "run", dp.Odometer(tmp_path / "o", BUDGET)
    other = dp.Odometer(tmp_path / "other", BUDGET)
    if rounds:
        interrupted(plan, (X, Y), rounds, checkpoint=path, odometer=odometer)
    else:
        with Checkpoint(path, plan, order="shuffled", odometer=odometer) as kept:
            kept.open_ledger()
    before = path.read_bytes()
    for wrong, words in ((None, "has an odometer"), (other, "does not know the run")):
        with pytest.raises(CheckpointError, match=words):
            dp.run(plan, Untouchable(), checkpoint=path, odometer=wrong)
    assert path.read_bytes() == before
    assert other.entries() == []
    first = dp.run(plan, (X, Y), checkpoint=path, odometer=odometer)
    again = stored(plan, Untouchable(), checkpoint=path)  # what is over needs nobody's leave
    assert again.weights.tobytes() == first.weights.tobytes()


def test_an_odometer_that_did_not_pay_yet_is_waited_for(tmp_path):
    plan, path = make(), tmp_path / "run"
    with pytest.raises(InterruptError):
        dp.run(plan, Untouchable(), checkpoint=path, odometer=Failing(tmp_path / "o", pays=False))
    with pytest.raises(CheckpointError, match="has an odometer"):
        dp.run(plan, Untouchable(), checkpoint=path)
    other = dp.Odometer(tmp_path / "other", BUDGET)
    dp.run(plan, (X, Y), checkpoint=path, odometer=other)  # nothing was paid or drawn before
    assert (len(dp.Odometer(tmp_path / "o").entries()), len(other.entries())) == (0, 1)


def test_an_odometer_may_join_a_run(tmp_path):
    plan, path, odometer = make(), tmp_path / "run", dp.Odometer(tmp_path / "o", BUDGET)
    interrupted(plan, (X, Y), 2, checkpoint=path)
    interrupted(plan, (X, Y), 3, checkpoint=path, odometer=odometer)
    assert len(odometer.entries()) == 1
    with pytest.raises(CheckpointError, match="has an odometer"):
        dp.run(plan, Untouchable(), checkpoint=path)


def test_of_two_copies_that_run_at_once_one_is_refused(tmp_path):
    plan, odometer = make(), dp.Odometer(tmp_path / "o", BUDGET)
    path, copy, done = tmp_path / "run", tmp_path / "copy", []
    interrupted(plan, (X, Y), 1, checkpoint=path, odometer=odometer, order="given")
    shutil.copy(path, copy)

    def chunks():  # while the copy waits for its rows, the run itself goes on
        yield OTHER[0][:1], OTHER[1][:1]
        dp.run(plan, (X, Y), checkpoint=path, odometer=odometer, order="given")
        yield OTHER[0][1:], OTHER[1][1:]

    def progress(number, total):
        done.append(number)

    table = dp.data.from_batches(chunks(), n=N, d=D)
    with pytest.raises(LedgerError, match="already used on other rows: round 2"):
        dp.run(plan, table, checkpoint=copy, odometer=odometer, order="given", progress=progress)
    assert done == []
    with pytest.raises(LedgerError, match="already used on other rows: round 2"):
        dp.run(plan, (X, Y), checkpoint=copy, odometer=odometer, order="given")


# -- refusals --------------------------------------------------------------------------------------


@pytest.fixture
def begun(tmp_path):
    """A plan, its checkpoint after two rounds, and its odometer."""
    plan, path = make(), tmp_path / "run"
    odometer = dp.Odometer(tmp_path / "o", dp.ApproxDP(9.0, 1e-4))
    interrupted(
        plan, (X, Y), 2, checkpoint=path, odometer=odometer, randomness=dp.Randomness.seeded(4)
    )
    return plan, path, odometer


def refused(begun, error, words, *, plan=None, table=None, **arguments):
    """See that a run is refused without reading a row, writing a byte, or paying."""
    known, path, odometer = begun
    before = path.read_bytes(), len(odometer.entries())
    with pytest.raises(error, match=words):
        dp.run(
            known if plan is None else plan,
            Untouchable() if table is None else table,
            **{"checkpoint": path, "odometer": odometer, **arguments},
        )
    assert (path.read_bytes(), len(odometer.entries())) == before


def used_root():
    root = dp.Randomness.seeded(4)
    root.child("elsewhere")
    return root


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"plan": make(step=0.25)}, CheckpointError, "another plan: it differs in step"),
        ({"plan": make(rounds=5)}, CheckpointError, "it differs in rounds, .*mechanism"),
        ({"plan": make("dp_sgd_single_epoch")}, CheckpointError, "it differs in solver"),
        ({"order": "given"}, CheckpointError, "begun with order='shuffled', not 'given'"),
        ({"randomness": dp.Randomness.seeded(5)}, CheckpointError, "mismatched noise state"),
        ({"randomness": dp.Randomness.secure()}, CheckpointError, "mismatched noise state"),
        ({"randomness": used_root()}, RandomnessError, "has been used"),
        ({"randomness": 4}, ParameterError, "randomness must be a Randomness"),
        ({"checkpoint": 4}, ParameterError, "must be the path of a file"),
        ({"checkpoint": b"run"}, ParameterError, "must be the path of a file"),
    ],
)
def test_other_runs_are_refused(arguments, error, words, begun):
    refused(begun, error, words, **arguments)
    plan, path, odometer = begun
    assert dp.run(plan, (X, Y), checkpoint=path, odometer=odometer).weights.shape == (D + 1,)


def test_solvers_without_rounds_are_refused(tmp_path):
    plan = dp.plan(PROBLEM, n=N, d=D, budget=BUDGET, solver="phased_erm")
    with pytest.raises(ParameterError, match=r"round by round.*Solvers that do: .*noisy_gd"):
        dp.run(plan, Untouchable(), checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_sources_in_an_unknown_order_are_refused(tmp_path):
    source = dp.data.from_arrays(X, Y).bounded(PROBLEM.bounds)
    with pytest.raises(ParameterError, match="order of its own"):
        dp.run(make(), source, checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_odometers_that_do_not_know_runs_are_refused(tmp_path):
    class Simple:
        def spend(self, releases, *, label):
            raise AssertionError("it was asked to pay")

    with pytest.raises(ParameterError, match=r"knows runs by name.*got Simple"):
        dp.run(make(), Untouchable(), checkpoint=tmp_path / "run", odometer=Simple())
    assert list(tmp_path.iterdir()) == []


def test_a_used_root_leaves_no_file(tmp_path):
    with pytest.raises(RandomnessError, match="has been used"):
        dp.run(make(), Untouchable(), checkpoint=tmp_path / "run", randomness=used_root())
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_is_given_is_used_up(tmp_path):
    for rounds in (1, 2):  # for a new run, and for one that goes on
        root = dp.Randomness.seeded(3)
        interrupted(make(), (X, Y), rounds, checkpoint=tmp_path / "run", randomness=root)
        with pytest.raises(RandomnessError, match="has been used"):
            root.stored()


def test_a_root_serves_one_run_even_if_that_run_fails_before_its_first_draw(tmp_path):
    plan, root = make(), dp.Randomness.secure()
    failing = Failing(tmp_path / "o", pays=False)
    with pytest.raises(InterruptError):
        dp.run(plan, Untouchable(), checkpoint=tmp_path / "a", randomness=root, odometer=failing)
    for more in ({"checkpoint": tmp_path / "b"}, {}):  # its noise waits in the first file
        with pytest.raises(RandomnessError, match=r"has been used|was stored for a run"):
            dp.run(plan, OTHER, randomness=root, **more)
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "values", "error", "words"),
    [
        ("UPDATE about SET schema = ?", ("dpsco.checkpoint/1",), CheckpointError,
         "has schema 'dpsco.checkpoint/1', this version"),
        ("UPDATE about SET version = ?", ("0.0.1",), CheckpointError, r"begun by dpsco 0\.0\.1"),
        ("UPDATE about SET plan = ?", ("?",), CheckpointError, "another plan: it cannot be read"),
        ("UPDATE progress SET round = ?", (1,), CheckpointError, "digest does not match"),
        ("UPDATE vectors SET numbers = zeroblob(8 * ?)", (D + 1,), CheckpointError, "digest"),
        ("UPDATE vectors SET numbers = zeroblob(?)", (3,), CheckpointError, "another length"),
        ("UPDATE vectors SET shape = ?", ("?",), CheckpointError, "damaged, or no checkpoint"),
        ("DELETE FROM vectors", (), CheckpointError, "digest does not match"),
        ("DELETE FROM about", (), CheckpointError, "0 rows in the place of one"),
        ("DROP TABLE about", (), CheckpointError, "damaged, or no checkpoint"),
        ("DELETE FROM root", (), CheckpointError, "damaged, or no checkpoint"),
        ("UPDATE root SET secret = ?", ("words",), CheckpointError, "its key cannot be read"),
        ("UPDATE root SET secret = zeroblob(?)", (49,), RandomnessError, "root is damaged"),
        ("INSERT INTO certificate VALUES (?, '', NULL)", ("{}",), CheckpointError,
         "result cannot be read"),
        ("INSERT INTO certificate VALUES (?, '', NULL)", (None,), CheckpointError,
         "result cannot be read"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused(statement, values, error, words, begun):
    change(begun[1], statement, *values)
    refused(begun, error, words)


def test_files_that_are_no_checkpoints_are_refused(begun, tmp_path):
    (tmp_path / "text").write_text("not a database, but long enough to look like some file\n" * 99)
    refused(begun, CheckpointError, "damaged, or no checkpoint", checkpoint=tmp_path / "text")
    refused(begun, CheckpointError, "'about' is made otherwise", checkpoint=tmp_path / "o")
    (tmp_path / "torn").write_bytes(begun[1].read_bytes()[:5000])
    refused(begun, CheckpointError, "torn", checkpoint=tmp_path / "torn")


def test_paths_that_cannot_be_written_are_refused(begun, tmp_path):
    no = tmp_path / "no" / "folder"
    refused(begun, CheckpointError, "cannot make .*No such file", checkpoint=no)
    refused(begun, CheckpointError, "is a folder. Name a file in it", checkpoint=tmp_path)
    refused(begun, ParameterError, "must be the path of a file, got ''", checkpoint="")
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    refused(begun, CheckpointError, "link to .*nothing, where", checkpoint=tmp_path / "link")


def test_a_key_that_others_may_read_is_refused(begun, tmp_path):
    begun[1].chmod(0o640)
    refused(begun, CheckpointError, r"others may read it \(mode 640\)")
    (tmp_path / "empty").touch(mode=0o644)
    refused(begun, CheckpointError, "others may read it", checkpoint=str(tmp_path / "empty"))
    assert (tmp_path / "empty").exists()  # it is not for us to remove


def test_an_empty_file_is_a_new_run(tmp_path):
    # Whoever made it died before anything had a name, was paid for, or drawn.
    (tmp_path / "run").touch(mode=0o600)
    assert dp.run(make(), (X, Y), checkpoint=tmp_path / "run").weights.shape == (D + 1,)


# -- one at a time ---------------------------------------------------------------------------------

ELSEWHERE = """
    import sys
    from dpsco.fit.checkpoint.checkpoint import peek
    from dpsco.errors import CheckpointError

    try:
        print(peek(sys.argv[1]).round)
    except CheckpointError as problem:
        print("in use" if "is in use: another run holds it" in str(problem) else problem)
"""


def ask_elsewhere(path):
    """Return what another process finds when it opens a checkpoint: its round, or why not."""
    command = [sys.executable, "-c", textwrap.dedent(ELSEWHERE), path]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("both", [True, False])
def test_a_file_is_held_from_the_moment_it_is_opened(both, tmp_path, monkeypatch):
    if not both:  # by SQLite's lock alone
        monkeypatch.setattr(checkpoint_lock, "_KIND", None)
    path = tmp_path / "run"
    interrupted(make(), (X, Y), 2, checkpoint=path)
    assert ask_elsewhere(path) == "2"
    store = Store(path)  # nothing is read or written yet
    assert ask_elsewhere(path) == "in use"
    store.close()
    assert ask_elsewhere(path) == "2"


holds = pytest.mark.skipif(
    checkpoint_lock._KIND is None, reason="the system has no locks that belong to an open file"
)


@pytest.mark.slow
@holds
def test_reading_the_file_during_a_run_does_not_give_its_noise_to_others(tmp_path):
    # Closing a file drops the locks that SQLite has on it, in the whole process.
    plan, path, found = make(), tmp_path / "run", []

    def progress(done, total):
        if done == 2:
            path.read_bytes()
            with pytest.raises(CheckpointError, match="is in use"):
                peek(path)  # in this process, which closes the file again
            found.append(ask_elsewhere(path))

    dp.run(plan, (X, Y), checkpoint=path, progress=progress)
    assert found == ["in use"]
    assert ask_elsewhere(path) == str(ROUNDS)


@pytest.mark.slow
@holds
def test_without_such_locks_those_of_sqlite_are_left(tmp_path, monkeypatch):
    for name, value in (("_KIND", None), ("_set_lock", refuse_lock)):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint_lock, name, value)
            plan, path = make(), tmp_path / name
            with Checkpoint(path, plan, order="shuffled") as kept:
                for _ in range(2):
                    with pytest.raises(CheckpointError, match="is in use"):
                        Checkpoint(path, plan, order="shuffled")
                assert ask_elsewhere(path) == "in use"
                kept.open_ledger()
            dp.run(plan, (X, Y), checkpoint=path)


def refuse_lock(descriptor, kind):
    raise OSError(errno.ENOLCK, "no locks available")


@pytest.mark.thorough
@holds
def test_a_child_that_outlives_its_parent_does_not_keep_the_file(tmp_path):
    script = """
        import os, sys, time
        from pathlib import Path
        from dpsco.fit.checkpoint.file import Store

        store = Store(Path(sys.argv[1]))
        if not os.fork():
            sys.stdin.read()  # until the pipe is closed
            os._exit(0)
        os.kill(os.getpid(), 9)
    """
    path = tmp_path / "run"
    interrupted(make(), (X, Y), 1, checkpoint=path)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), path], stdin=subprocess.PIPE
    ) as parent:
        assert parent.wait() == -9
        assert peek(path).round == 1  # while the child waits


@pytest.mark.slow
@holds
def test_a_checkpoint_that_nobody_refers_to_lets_go(tmp_path):
    path = tmp_path / "run"
    interrupted(make(), (X, Y), 1, checkpoint=path)
    Store(path)  # and forgotten
    gc.collect()
    assert ask_elsewhere(path) == "1"
    assert checkpoint_lock._held == {}


@holds
def test_a_file_that_was_replaced_before_it_was_locked_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "run"
    path.touch(mode=0o600)
    locked = checkpoint_lock._locked

    def replaced(descriptor):
        path.unlink()
        path.with_name("other").touch(mode=0o600)
        path.with_name("other").rename(path)
        return locked(descriptor)

    monkeypatch.setattr(checkpoint_lock, "_locked", replaced)
    with pytest.raises(CheckpointError, match="is in use"):
        Store(path)


def test_a_second_run_with_the_file_is_refused_meanwhile(tmp_path):
    plan, path, refusals = make(), tmp_path / "run", []

    def second():
        with pytest.raises(CheckpointError, match="is in use: another run holds it"):
            dp.run(plan, Untouchable(), checkpoint=path)
        refusals.append(threading.get_ident())

    def progress(done, total):
        if done == 2:  # in this thread, and in another one
            second()
            thread = threading.Thread(target=second)
            thread.start()
            thread.join()
        if done == 3:  # and in another process
            child = os.fork()
            if not child:
                try:
                    second()
                    os._exit(3)
                finally:
                    os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3

    whole = dp.run(plan, (X, Y), randomness=dp.Randomness.seeded(6))
    last = dp.run(
        plan, (X, Y), checkpoint=path, progress=progress, randomness=dp.Randomness.seeded(6)
    )
    assert len(set(refusals)) == 2
    assert last.weights.tobytes() == whole.weights.tobytes()


def test_of_two_runs_that_begin_at_once_neither_takes_the_others_file(tmp_path, monkeypatch):
    plan, path, first = make(), tmp_path / "run", []

    def overtaken(*arguments, **settings):  # another run begins between making the file and locking
        monkeypatch.setattr(checkpoint_file, "FileLock", FileLock)
        first.append(Checkpoint(path, plan, order="shuffled"))
        return FileLock(*arguments, **settings)

    monkeypatch.setattr(checkpoint_file, "FileLock", overtaken)
    with pytest.raises(CheckpointError, match="is in use"):
        dp.run(plan, Untouchable(), checkpoint=path)
    first[0].close()
    interrupted(plan, (X, Y), 1, checkpoint=path)
    assert ask(path, "SELECT run FROM about") == [(first[0].run,)]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_goes_away_ends_the_run_before_the_next_round_is_reported(replaced, tmp_path):
    plan, path, seen = make(), tmp_path / "run", []

    def progress(done, total):
        seen.append(done)
        if done == 2:
            path.rename(tmp_path / "moved")
            if replaced:
                shutil.copy(tmp_path / "moved", path)

    with pytest.raises(CheckpointError, match="moved, removed or replaced during the run"):
        dp.run(plan, (X, Y), checkpoint=path, progress=progress)
    assert seen == [1, 2]
    (tmp_path / "moved").replace(path)
    assert dp.run(plan, (X, Y), checkpoint=path).weights.shape == (D + 1,)


def test_a_relative_path_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    dp.run(make(), (X, Y), checkpoint="run", progress=lambda *_: os.chdir(tmp_path / "elsewhere"))
    assert [file.name for file in (tmp_path / "elsewhere").iterdir()] == []
    assert stored(make(), Untouchable(), checkpoint=tmp_path / "run").weights.shape == (D + 1,)


@pytest.mark.thorough
def test_an_open_checkpoint_stays_in_its_process(tmp_path):
    plan, path = make(), tmp_path / "run"
    with Checkpoint(path, plan, order="given") as kept:
        ledger = kept.open_ledger()
        engine = Engine(plan, get(plan.solver).stepper(plan), ledger)
        engine.commit(np.zeros(D + 1))
        child = os.fork()
        if not child:
            with pytest.raises(CheckpointError, match="must stay in the process"):
                kept.commit(engine)
            with pytest.raises(RandomnessError, match="forked"):
                kept.randomness.child("noise")
            kept._store._database = None  # it is the parent's: any use of it here fails
            kept.close()
            os._exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        with pytest.raises(LedgerError, match="neither copied nor pickled"):
            kept.__reduce_ex__(4)
        assert ask_elsewhere(path) == "in use"  # the child has not let go of it
        with pytest.raises(CheckpointError, match="is in use"):
            Checkpoint(path, plan, order="given")
        assert Path(f"{path}-journal").exists()  # nor has it cleared up beside the file
        kept.commit(engine)
    assert not Path(f"{path}-journal").exists()
    assert peek(path).round == 1


# -- no room ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 1000, 9000])
def test_a_disk_without_room_is_refused_before_anything_is_drawn(room, tmp_path):
    child = os.fork()
    if not child:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            with pytest.raises(CheckpointError, match=r"cannot use the checkpoint .*Nothing more"):
                dp.run(make(), Untouchable(), checkpoint=tmp_path / "run")
            os._exit(4)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_costs_no_round(tmp_path):
    plan, path = make(), tmp_path / "run"
    whole = dp.run(plan, (X, Y), randomness=dp.Randomness.seeded(6))
    interrupted(plan, (X, Y), 2, checkpoint=path, randomness=dp.Randomness.seeded(6))
    child = os.fork()
    if not child:
        import resource

        size = 4096
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            with pytest.raises(CheckpointError, match="cannot use the checkpoint"):
                dp.run(plan, (X, Y), checkpoint=path, progress=stop_after(3))
            os._exit(4)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    assert dp.run(plan, (X, Y), checkpoint=path).weights.tobytes() == whole.weights.tobytes()


# -- what the file keeps to ------------------------------------------------------------------------


def opened(path, plan, odometer=None):
    """Return a checkpoint of a run in the order of a stream, its ledger, and its run."""
    kept = Checkpoint(path, plan, order="given", odometer=odometer)
    ledger = kept.open_ledger()
    engine = Engine(plan, get(plan.solver).stepper(plan), ledger)
    kept.resume(engine)
    return kept, ledger, engine


def test_a_checkpoint_opens_one_ledger(tmp_path):
    plan, odometer = make(), dp.Odometer(tmp_path / "o", BUDGET)
    with Checkpoint(tmp_path / "run", plan, order="given", odometer=odometer) as kept:
        kept.open_ledger()
        with pytest.raises(LedgerError, match=r"opened before.*draw its noise again"):
            kept.open_ledger()
    assert len(odometer.entries()) == 1


def test_rounds_are_committed_in_order_and_once(tmp_path):
    plan, path = make(), tmp_path / "run"
    kept, _, engine = opened(path, plan)
    with kept:
        with pytest.raises(LedgerError, match="is at round 0: round 1 is the next"):
            kept.commit(engine)
        engine.commit(np.zeros(D + 1))
        kept.commit(engine)
        with pytest.raises(LedgerError, match="is at round 1: round 2 is the next"):
            kept.commit(engine)
        engine.commit(np.zeros(D + 1))
        engine.commit(np.zeros(D + 1))
        with pytest.raises(LedgerError, match="round 2 is the next to be committed, not 3"):
            kept.commit(engine)
        with pytest.raises(LedgerError, match="round 3 does not follow"):  # the file knows, too
            kept._store.commit(3, engine.state(), "digest", {})
    assert peek(path).round == 1


def test_a_commit_that_fails_leaves_the_round_before(tmp_path, monkeypatch):
    plan, path = make(), tmp_path / "run"
    interrupted(plan, (X, Y), 2, checkpoint=path, order="given")
    before = [ask(path, f"SELECT * FROM {table}") for table in ("progress", "vectors")]

    def broken(database, state):
        database.execute("DELETE FROM vectors")
        raise sqlite3.OperationalError("the disk is broken")

    with monkeypatch.context() as disk:
        disk.setattr(checkpoint_file, "write", broken)
        with pytest.raises(CheckpointError, match="the disk is broken"):
            dp.run(plan, (X, Y), checkpoint=path, order="given")
    assert [ask(path, f"SELECT * FROM {table}") for table in ("progress", "vectors")] == before
    assert dp.run(plan, (X, Y), checkpoint=path, order="given").weights.shape == (D + 1,)


def test_a_run_with_releases_left_is_not_finished_and_keeps_its_key(tmp_path):
    plan, path = make("dp_sgd_single_epoch"), tmp_path / "run"
    kept, ledger, engine = opened(path, plan)
    with kept:
        for _ in range(ROUNDS - 1):
            engine.commit(np.zeros(D + 1))
            kept.commit(engine)
        with pytest.raises(LedgerError, match="round 5 of 6"):
            engine.output()
        with pytest.raises(LedgerError, match="not executed"):
            kept.finish(np.zeros(D + 1), ledger)
        assert kept.result is None
    assert len(ask(path, "SELECT secret FROM root")) == 1
    assert ask(path, "SELECT * FROM certificate") == []


def test_the_state_of_another_run_of_the_plan_is_refused(tmp_path):
    plan, path, other = make(), tmp_path / "run", tmp_path / "other"
    for file in (path, other):
        interrupted(plan, (X, Y), 2, checkpoint=file)
    change(path, "DELETE FROM vectors")
    for row in ask(other, "SELECT * FROM vectors"):
        change(path, "INSERT INTO vectors VALUES (?, ?, ?)", *row)
    change(path, "UPDATE progress SET round = ?, digest = ?",
           *ask(other, "SELECT round, digest FROM progress")[0])  # fmt: skip
    with pytest.raises(CheckpointError, match="digest does not match"):
        dp.run(plan, Untouchable(), checkpoint=path)


def test_what_an_odometer_refuses_leaves_a_run_that_had_begun(tmp_path):
    plan, path = make(), tmp_path / "run"
    small = dp.Odometer(tmp_path / "o", dp.ApproxDP(1.0, 1e-5))
    interrupted(plan, (X, Y), 2, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(BudgetError, match="Nothing was recorded"):
        dp.run(plan, Untouchable(), checkpoint=path, odometer=small)
    assert path.read_bytes() == before
    assert small.entries() == []
    rounds = []
    dp.run(plan, (X, Y), checkpoint=path, progress=lambda done, total: rounds.append(done))
    assert rounds == list(range(3, ROUNDS + 1))


EXTRA = 3  # of PRAGMA synchronous: a write is on the disk when it returns, the folder's entry too


def test_every_write_is_brought_to_the_disk(tmp_path, monkeypatch):
    def settings(database):
        return [
            database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "fullfsync", "secure_delete")
        ]

    kept, _, engine = opened(tmp_path / "run", make())
    with kept:
        found = [settings(kept._store._database)]
        engine.commit(np.zeros(D + 1))
        kept.commit(engine)
        found.append(settings(kept._store._database))
    assert found == [[EXTRA, 1, 1]] * 2
    with dp.Odometer(tmp_path / "o", BUDGET)._file.transaction() as database:
        assert settings(database)[:2] == [EXTRA, 1]


def test_seals_of_one_seed_do_not_show_that_two_runs_share_it(tmp_path):
    for name in ("a", "b"):
        dp.run(make(), (X, Y), checkpoint=tmp_path / name, randomness=dp.Randomness.seeded(2))
    seals = [
        ask(tmp_path / name, "SELECT key_digest FROM certificate")[0][0] for name in ("a", "b")
    ]
    assert len(set(seals)) == 2


@pytest.mark.skipif(os.name != "posix", reason="files have no owner")
def test_a_key_in_a_file_of_another_user_is_refused(begun, tmp_path, monkeypatch):
    (tmp_path / "empty").touch(mode=0o600)
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    for file in (begun[1], tmp_path / "empty"):
        refused(begun, CheckpointError, "belongs to another user", checkpoint=file)


def test_a_payment_that_cannot_be_read_is_refused(begun):
    change(begun[1], "UPDATE payment SET state = 'qaid'")
    refused(begun, CheckpointError, "whether it was paid for cannot be read")


# -- damage ----------------------------------------------------------------------------------------


def test_a_damaged_name_of_a_table_is_refused(tmp_path):
    plan, path = make("acc_srgd"), tmp_path / "run"
    interrupted(plan, (X, Y), 3, checkpoint=path)
    raw = bytearray(path.read_bytes())
    raw[raw.find(b"CREATE TABLE vectors") - 9] ^= 0xE1  # no UTF-8 any more
    path.write_bytes(raw)
    with pytest.raises(CheckpointError, match="damaged, or no checkpoint"):
        dp.run(plan, Untouchable(), checkpoint=path)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [3, ROUNDS])
def test_any_damaged_byte_is_refused_or_harmless(rounds, tmp_path):
    plan, path, copy = make("acc_srgd"), tmp_path / "run", tmp_path / "copy"
    randomness = dp.Randomness.seeded(3)
    if rounds < ROUNDS:
        interrupted(plan, (X, Y), rounds, checkpoint=path, randomness=randomness)
    else:
        dp.run(plan, (X, Y), checkpoint=path, randomness=randomness)
    raw, whole = path.read_bytes(), dp.run(plan, (X, Y), randomness=dp.Randomness.seeded(3))
    places = [place for place in range(len(raw)) if raw[place]][:: 1 + len(raw) // 1500]
    refusals = 0
    for number, place in enumerate([*range(0, 100, 3), *places]):
        damaged = bytearray(raw)
        damaged[place] ^= (0x01, 0x80, 0xE1, 0x20)[number % 4]
        copy.unlink(missing_ok=True)
        copy.touch(mode=0o600)
        copy.write_bytes(damaged)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                result = dp.run(plan, (X, Y), checkpoint=copy)
        except (CheckpointError, RandomnessError):
            refusals += 1
        else:
            assert result.weights.tobytes() == whole.weights.tobytes(), place
    assert refusals > len(places) / 3
