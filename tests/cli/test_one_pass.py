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
from dpsco.cli import tables
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
    setup = dp.models.setup_for("logistic", feature_norm=encoder.feature_norm, classes=range(2))
    plan = dp.plan(
        setup.problem(),
        n=800,
        d=5,
        budget=dp.ApproxDP(2.0, 1 / 800**2),
        solver="acc_srgd",
        options={"rounds": 8, "population_smoothness": 0.1},
    )
    table = dp.data.from_csv(home / "people.csv", encoder=encoder)
    result = dp.run(plan, table, order="stream", randomness=dp.Randomness.seeded(3))
    wanted = setup.model(result.weights).coef
    more = [*ONE_PASS, "--option", "population_smoothness=0.1", "--seed", 3]
    shuffled = tmp_path / "shuffled.json"
    assert dpsco(*command, *more, "-o", shuffled)[0] == 0
    assert not np.array_equal(SavedModel.load(shuffled).model.coef, wanted)
    code, out, _ = dpsco(*command, *more, "--order", "stream", "--json")
    assert (code, json.loads(out)["order"]) == (0, "stream")
    assert np.array_equal(SavedModel.load(command[5]).model.coef, wanted)
    monkeypatch.setattr(tables, "IN_MEMORY", 100)
    monkeypatch.setattr(tables, "_check_room", lambda *_: pytest.fail("nothing is shuffled"))
    assert dpsco(*command, *more, "--order", "stream", "--force")[0] == 0
    assert np.array_equal(SavedModel.load(command[5]).model.coef, wanted)


def test_a_finished_checkpoint_gives_the_same_model(command, dpsco, home, tmp_path):
    ledger, kept = tmp_path / "people.ledger", tmp_path / "run.checkpoint"
    assert dpsco("ledger", "create", ledger, "--epsilon", 3, "--delta", 1e-5)[0] == 0
    again = [*command, *ONE_PASS, "--checkpoint", kept, "--odometer", ledger]
    assert dpsco(*again)[0] == 0
    first = command[5].read_text()
    assert dpsco(*again, "--force")[0] == 0
    assert command[5].read_text() == first
    assert len(dp.Odometer(ledger).entries()) == 1
    assert os.stat(kept).st_mode & 0o777 == 0o600


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


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_killed_fit_goes_on_where_it_stopped(command, dpsco, tmp_path):
    """Secure noise: a fit that began anew would let out other answers and pay again."""
    ledger, kept = tmp_path / "people.ledger", tmp_path / "run.checkpoint"
    assert dpsco("ledger", "create", ledger, "--epsilon", 3, "--delta", 1e-5)[0] == 0
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
    code, _, err = dpsco(*again)
    assert (code, err) == (0, "")
    final = rounds_of(ledger)
    assert sorted(final) == list(range(1, 9))
    assert {number: final[number] for number in seen} == seen
    assert len(dp.Odometer(ledger).entries()) == 1
    saved = SavedModel.load(command[5])
    assert saved.certificate.verify(second_witness=False).ok
    assert not saved.certificate.reproducible


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_at_any_moment_the_model_is_that_of_a_quiet_run(command, dpsco, tmp_path):
    many = ["--solver", "acc_srgd", "--option", f"rounds={ROUNDS}", "--seed", "5"]
    assert dpsco(*command, *many)[0] == 0
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
    assert "secret" in refused(*again, "--order", "stream")
    assert "mismatched noise state" in refused(*again, "--seed", 1)
    assert dpsco(*again)[0] == 0


def test_wrong_checkpoints_are_refused_and_nothing_is_written(command, refused, home, tmp_path):
    kept = tmp_path / "run.checkpoint"
    text = refused(*command, "--checkpoint", kept, "--solver", "noisy_gd")
    assert "noisy_gd cannot keep a checkpoint" in text
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
    assert dpsco("plan", *facts, *ONE_PASS, "-o", plan)[0] == 0
    stream = ["--order", "stream", "--checkpoint", tmp_path / "run.checkpoint"]
    assert "plan is for 900 rows" in refused(*command[:-2], "--plan", plan, *stream)
    table = csv.read_csv(home / "people.csv").drop_columns(["ill"])
    command[1] = tmp_path / "bare.parquet"
    owner = pa.array([value == "yes" for value in table.column("owner").to_pylist()])
    pq.write_table(table.set_column(2, "owner", owner), command[1])
    assert "column 'ill' is missing" in refused(*command, *ONE_PASS, *stream)
