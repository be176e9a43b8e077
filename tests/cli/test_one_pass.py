"""``fit`` of one pass: the order of the file, and a checkpoint that brings it over a crash."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import dpsco as dp
from dpsco.data.tables import table_file
from dpsco.models import SavedModel

ROUNDS = 400
ONE_PASS = ["--solver", "acc_srgd", "--option", "rounds=8"]


@pytest.fixture
def command(home, tmp_path):
    """The start of a command that fits the people."""
    start = ["fit", home / "people.csv", "--schema", home / "schema.json"]
    return [*start, "-o", tmp_path / "model.json", "--epsilon", 2]


def test_the_files_order_is_kept(command, dpsco, home, tmp_path, monkeypatch):
    """Equal to the library's own run in that order, in memory and from disk."""
    schema = dp.data.Schema.load(home / "schema.json")
    encoder = dp.data.TableEncoder(schema)
    setup = dp.models.configure("logistic", feature_norm=encoder.feature_norm, classes=range(2))
    plan = dp.plan(
        setup.problem(),
        n=800,
        d=5,
        budget=dp.ApproxDP(2.0, 1 / 800**2),
        solver="acc_srgd",
        options={"rounds": 8, "population_smoothness": 0.1},
    )
    table = dp.data.from_csv(home / "people.csv", encoder=encoder)
    result = dp.run(plan, table, order="given", randomness=dp.Randomness.seeded(3))
    wanted = setup.model(result.weights).coef
    more = [*ONE_PASS, "--option", "population_smoothness=0.1", "--seed", 3, "--no-count-rows"]
    shuffled = tmp_path / "shuffled.json"
    assert dpsco(*command, *more, "-o", shuffled)[0] == 0
    assert not np.array_equal(SavedModel.load(shuffled).model.coef, wanted)
    code, out, _ = dpsco(*command, *more, "--order", "given", "--json")
    assert (code, json.loads(out)["order"]) == (0, "given")
    assert np.array_equal(SavedModel.load(command[5]).model.coef, wanted)
    monkeypatch.setattr(table_file, "IN_MEMORY", 100)
    monkeypatch.setattr(table_file, "_check_room", lambda *_: pytest.fail("nothing is shuffled"))
    assert dpsco(*command, *more, "--order", "given", "--force")[0] == 0
    assert np.array_equal(SavedModel.load(command[5]).model.coef, wanted)


def test_a_finished_checkpoint_gives_the_same_model(command, dpsco, home, tmp_path):
    ledger, kept = tmp_path / "people.ledger", tmp_path / "run.checkpoint"
    assert dpsco("odometer", "create", ledger, "--epsilon", 3, "--delta", 1e-5)[0] == 0
    again = [*command, *ONE_PASS, "--checkpoint", kept, "--odometer", ledger]
    assert dpsco(*again)[0] == 0
    first = command[5].read_text()
    code, out, err = dpsco(*again, "--force")
    assert (code, err) == (0, "")
    assert "stored result of the run that ended 20" in out
    assert f"{command[1]} was not read" in out
    assert command[5].read_text() == first
    record = json.loads(dpsco(*again, "--force", "--json")[1])
    assert (record["resumed_after"], record["stored_since"][:2]) == (8, "20")
    assert len(dp.Odometer(ledger).entries()) == 1
    assert os.stat(kept).st_mode & 0o777 == 0o600


def as_parquet(home, path):
    """Write the people to a Parquet file in small row groups."""
    table = csv.read_csv(home / "people.csv")
    owner = pa.array([value == "yes" for value in table.column("owner").to_pylist()])
    pq.write_table(table.set_column(2, "owner", owner), path, row_group_size=90)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("order", ["given", "shuffled"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("large", [False, True])
def test_a_finished_fit_reads_nothing_and_speaks_for_its_own_file_only(
    command, dpsco, refused, home, tmp_path, monkeypatch, order, kind, large
):
    if large:
        monkeypatch.setattr(table_file, "IN_MEMORY", 100)
    january, february = tmp_path / f"jan.{kind}", tmp_path / f"feb.{kind}"
    for path in (january, february):
        if kind == "csv":
            path.write_bytes((home / "people.csv").read_bytes())
        else:
            as_parquet(home, path)
    command[1] = january
    kept = ["--checkpoint", tmp_path / "run.checkpoint", "--order", order, *ONE_PASS]
    seed = ["--seed", 4]
    code, out, _ = dpsco(*command, *kept, *seed)
    assert (code, "8 rounds, each row in one of them" in out) == (0, True)
    first = command[5].read_text()
    with monkeypatch.context() as patch:
        for name in ("CsvFile", "read_footers", "from_parquet", "csv_header"):
            patch.setattr(table_file, name, lambda *_, **__: pytest.fail("the file is opened"))
        for more in (seed, []):
            assert dpsco(*command, *kept, *more, "--force")[0] == 0
            assert command[5].read_text() == first
        other = ["--force", "-o", command[5]]
        text = refused(*command, *kept, "--seed", 5, *other)
        assert "mismatched noise state" in text
        assert "--seed" in text
        assert "another plan" in refused(*command, *kept, "--option", "beta=3", *other)
        command[1] = february
        text = refused(*command, *kept, *other)
        assert "begun on" in text
        assert "this is" in text
        command[1] = january
        os.utime(january, ns=(1, 1))
        assert "has changed since it was begun" in refused(*command, *kept, *other)
        january.unlink()
        refused(*command, *kept, *other)
    assert command[5].read_text() == first


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_stream_of_one_pass_stays_on_disk(command, dpsco, home, tmp_path, monkeypatch, kind):
    if kind == "parquet":
        command[1] = as_parquet(home, tmp_path / "people.parquet")
    stream = ["--order", "given", "--seed", 3]
    loaded = lambda *_: pytest.fail("the table is loaded")  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(table_file.TableFile, "encoded", loaded)
        for more in ([], ["--checkpoint", tmp_path / "run.checkpoint"]):
            assert dpsco(*command, *ONE_PASS, *stream, *more, "--force")[0] == 0
    on_disk = SavedModel.load(command[5])
    table = dp.data.from_csv(home / "people.csv", encoder=dp.data.TableEncoder(on_disk.schema))
    monkeypatch.setattr(table_file.TableFile, "encoded", loaded)
    with pytest.raises(pytest.fail.Exception):  # rows that are read again and again
        dpsco(*command, "--solver", "noisy_gd", *stream, "--force")
    result = dp.run(on_disk.plan, table, order="given", randomness=dp.Randomness.seeded(3))
    assert np.array_equal(on_disk.model.coef.ravel(), result.weights[: on_disk.model.coef.size])


def test_messages_speak_of_the_terminal(command, refused, dpsco, tmp_path, monkeypatch):
    text = refused(*command, "--option", "population_smoothness=0.1")
    assert "has no option 'population_smoothness'" in text
    having = text.partition("Solvers that have it: ")[2]
    assert {"acc_srgd", "acc_independent", "srg_sgd"} <= set(having.rstrip(".\n").split(", "))
    assert "No solver has it" in refused(*command, "--option", "magic=1")
    text = refused(*command, "--delta", 0, *ONE_PASS)
    assert "pure budget: give a delta above 0" in text
    assert "ApproxDP" not in text


def test_without_a_solver_the_best_of_one_pass_is_taken(command, dpsco, tmp_path):
    assert dpsco(*command, "--checkpoint", tmp_path / "run.checkpoint")[0] == 0
    solver = SavedModel.load(command[5]).plan.solver
    assert dp.solvers.get(solver).stepper is not None


# Kills itself after some rounds, as the operating system would: nothing is cleaned up.
KILLED = """
import os, signal, sys
from dpsco.cli import main, progress
call = progress.Bar.__call__
def watched(bar, done, total):
    call(bar, done, total)
    if done == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
progress.Bar.__call__ = watched
sys.exit(main(sys.argv[2:]))
"""


def rounds_of(ledger):
    """Return what the ledger knows of each round, of all runs."""
    with sqlite3.connect(ledger) as database:
        return dict(database.execute("SELECT round, digest FROM rounds").fetchall())


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_killed_fit_goes_on_where_it_stopped(command, dpsco, tmp_path):
    """Secure noise: a fit that began anew would let out other answers and pay again."""
    ledger, kept = tmp_path / "people.ledger", tmp_path / "run.checkpoint"
    assert dpsco("odometer", "create", ledger, "--epsilon", 3, "--delta", 1e-5)[0] == 0
    again = [*map(str, command), *ONE_PASS, "--checkpoint", str(kept), "--odometer", str(ledger)]
    seen = {}
    for done in (3, 6):
        ended = subprocess.run([sys.executable, "-c", KILLED, str(done), *again], timeout=120)
        assert ended.returncode == -signal.SIGKILL
        assert not command[5].exists()
        now = rounds_of(ledger)
        assert sorted(now) == list(range(1, done + 1))
        assert {number: now[number] for number in seen} == seen
        seen = now
    code, _, err = dpsco(*again[:-2])
    assert (code, "Pass that odometer to go on" in err) == (2, True)
    assert not command[5].exists()
    code, out, err = dpsco(*again)
    assert (code, err) == (0, "")
    assert "went on after round 6 of 8" in out
    final = rounds_of(ledger)
    assert sorted(final) == list(range(1, 9))
    assert {number: final[number] for number in seen} == seen
    assert len(dp.Odometer(ledger).entries()) == 1
    saved = SavedModel.load(command[5])
    assert saved.certificate.verify(cross_check=False).ok
    assert not saved.certificate.reproducible


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_at_any_moment_the_model_is_that_of_a_quiet_run(command, dpsco, tmp_path):
    many = ["--solver", "acc_srgd", "--option", f"rounds={ROUNDS}", "--seed", "5"]
    assert dpsco(*command, *many, "--no-count-rows", "--units", "declared")[0] == 0
    wanted = SavedModel.load(command[5]).model
    command[5] = tmp_path / "killed.json"
    kept = tmp_path / "run.checkpoint"
    again = [*map(str, command), *many, "--checkpoint", str(kept)]
    child = subprocess.Popen(
        [sys.executable, "-m", "dpsco", *again],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not kept.exists() and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(0.05)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert kept.exists()
    assert not command[5].exists()
    assert dpsco(*again)[0] == 0
    found = SavedModel.load(command[5]).model
    assert np.array_equal(found.coef, wanted.coef)
    assert np.array_equal(found.intercept, wanted.intercept)


def test_an_interrupt_says_how_to_go_on(command, refused, dpsco, tmp_path, monkeypatch):
    kept = tmp_path / "run.checkpoint"
    again = [*command, *ONE_PASS, "--checkpoint", kept]

    def stop(bar, done, total):
        if done == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dpsco.cli.progress.Bar.__call__", stop)
        code, out, err = dpsco(*again)
    assert (code, out) == (130, "")
    assert f"The same command goes on from the checkpoint {kept}, and pays nothing again." in err
    assert not command[5].exists()
    other = refused(*again, "--option", "beta=3")  # another plan
    assert "checkpoint" in other
    assert "shuffled" in refused(*again, "--order", "given")
    assert "mismatched noise state" in refused(*again, "--seed", 1)
    assert dpsco(*again)[0] == 0


def test_wrong_checkpoints_are_refused_and_nothing_is_written(command, refused, home, tmp_path):
    kept = tmp_path / "run.checkpoint"
    text = refused(*command, "--checkpoint", kept, "--solver", "approx_objective_perturbation")
    assert "approx_objective_perturbation cannot keep a checkpoint" in text
    assert "acc_srgd" in text
    for taken in (command[5], home / "people.csv", home / "schema.json"):
        assert "a file of its own" in refused(*command, *ONE_PASS, "--checkpoint", taken)
    kept.write_text("31337.25")
    assert "run.checkpoint" in refused(*command, *ONE_PASS, "--checkpoint", kept)
    assert kept.read_text() == "31337.25"
    nowhere = tmp_path / "none" / "run.checkpoint"
    assert "run.checkpoint" in refused(*command, *ONE_PASS, "--checkpoint", nowhere)
    assert "invalid choice" in refused(*command, "--order", "sorted")


def test_a_plan_for_other_rows_or_without_labels_is_refused(
    command, dpsco, refused, home, tmp_path
):
    plan = tmp_path / "plan.json"
    facts = ["--schema", home / "schema.json", "--n", 900, "--epsilon", 1]
    stream = ["--order", "given", "--checkpoint", tmp_path / "run.checkpoint"]
    assert dpsco("plan", *facts, *ONE_PASS, "-o", plan)[0] == 0
    assert "units='declared'" in refused(*command[:-2], "--plan", plan, *stream)
    more = [*ONE_PASS, "--units", "declared", "--force"]
    assert dpsco("plan", *facts, *more, "-o", plan)[0] == 0
    assert "plan is for 900 rows" in refused(*command[:-2], "--plan", plan, *stream)
    table = csv.read_csv(home / "people.csv").drop_columns(["ill"])
    command[1] = tmp_path / "bare.parquet"
    owner = pa.array([value == "yes" for value in table.column("owner").to_pylist()])
    pq.write_table(table.set_column(2, "owner", owner), command[1])
    assert "column 'ill' is missing" in refused(*command, *ONE_PASS, *stream)
