"""``odometer``: several fits within one budget."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

import dpsco as dp
from dpsco.cli import fit, session
from dpsco.files import writing
from dpsco.fit import run as api
from dpsco.models import evaluate


def test_create_and_show(dpsco, tmp_path):
    path = tmp_path / "a.ledger"
    code, out, _ = dpsco("odometer", "create", path, "--epsilon", 3, "--delta", 1e-6)
    assert code == 0
    assert out == (
        f"{path}: spent epsilon 0 of 3 at delta 1e-06; protects one row, adjacency replace_one\n"
    )
    code, out, _ = dpsco("odometer", "show", path, "--json")
    record = json.loads(out)
    assert code == 0
    assert (record["spent"], record["allowed"], record["entries"]) == (0.0, 3.0, [])
    assert record["budget"]["adjacency"] == "replace_one"
    assert dpsco("odometer", "show", path)[1] == dpsco("odometer", "show", path)[1] != ""


def test_an_entry_says_what_for_by_whom_and_which_model(dpsco, paid, tmp_path):
    path, command = paid
    notes = ["--purpose", "readmission study", "--person", "A. Turing"]
    assert dpsco(*command, *notes)[0] == 0
    (entry,) = entries(dpsco, path)
    assert (entry["purpose"], entry["person"]) == ("readmission study", "A. Turing")
    assert entry["model"] == json.loads((tmp_path / "m.json").read_text())["digest"]
    shown = dpsco("odometer", "show", path)[1]
    assert "A. Turing  readmission study" in shown
    assert entry["model"].removeprefix("sha256:")[:12] in shown
    assert str(dp.Odometer(path)).endswith("  A. Turing  readmission study")


def test_what_is_left_can_be_spent_and_no_more(tmp_path):
    odometer = dp.Odometer(tmp_path / "a.odometer", dp.ApproxDP(3.0, 1e-6), purpose="tests")

    def fit(epsilon):
        budget = dp.ApproxDP(epsilon, 1e-6)
        sigma = dp.privacy.gaussian_sigma(budget, bound=1.0, rows=(0, 9))
        return dp.privacy.GaussianRelease(1.0, sigma, rows=(0, 9))

    odometer.spend(fit(2.0))
    following = odometer.next_epsilon
    assert odometer.left < following < 3.0
    with pytest.raises(dp.errors.BudgetError):
        odometer.spend(fit(following * 1.001))
    odometer.spend(fit(following * 0.999))
    assert odometer.left < 0.01
    assert [entry.purpose for entry in odometer.entries()] == ["tests", "tests"]


def test_the_old_name_still_works_and_says_the_new_one(dpsco, tmp_path):
    path = tmp_path / "a.ledger"
    code, out, err = dpsco("ledger", "create", path, "--epsilon", 3, "--delta", 1e-6)
    assert code == 0
    assert out.startswith(f"{path}: spent epsilon 0 of 3")
    assert err.startswith("dpsco ledger: note: the command is `dpsco odometer` now")
    assert dpsco("odometer", "show", path)[0] == 0


def test_the_unit_and_the_adjacency_are_kept(dpsco, tmp_path):
    path = tmp_path / "a.ledger"
    more = ["--adjacency", "zero_out", "--rows-per-person", 4]
    assert dpsco("odometer", "create", path, "--epsilon", 3, "--delta", 1e-6, *more)[0] == 0
    budget = json.loads(dpsco("odometer", "show", path, "--json")[1])["budget"]
    assert budget["adjacency"] == "zero_out"
    assert budget["unit"] == {"rows": 4, "name": "person"}


def test_a_ledger_is_never_replaced(dpsco, refused, tmp_path):
    path = tmp_path / "a.ledger"
    create = ["odometer", "create", path, "--delta", 1e-6, "--epsilon"]
    assert dpsco(*create, 3)[0] == 0
    before = path.read_bytes()
    assert "never replaced" in refused(*create, 300)
    assert "never replaced" in refused(*create, 3)
    assert path.read_bytes() == before


def test_refusals(refused, tmp_path):
    path = tmp_path / "a.ledger"
    for delta in (0, 1, 2):
        text = refused("odometer", "create", path, "--epsilon", 1, "--delta", delta)
        assert f"--delta must lie strictly between 0 and 1, got {delta}" in text
        assert "PureDP" not in text
    text = refused(
        "odometer", "create", path, "--epsilon", 1, "--delta", 0.1, "--rows-per-person", 0
    )
    assert "--rows-per-person must be at least 1" in text
    assert "--epsilon must be positive" in refused(
        "odometer", "create", path, "--epsilon", -1, "--delta", 1e-6
    )
    assert "dpsco odometer create" in refused("odometer", "show", path)
    path.write_text("something else, long enough to be a file with a header of its own")
    assert "cannot use the odometer" in refused("odometer", "show", path)


def test_fits_pay_until_nothing_is_left(dpsco, refused, home, make, tmp_path):
    path = tmp_path / "a.ledger"
    assert dpsco("odometer", "create", path, "--epsilon", 2.5, "--delta", 1e-5)[0] == 0
    pay = ["--odometer", path, "--solver", "noisy_gd", "--option", "rounds=2"]
    assert make.fit(home, tmp_path / "first.json", *pay) == 0
    spent = json.loads(dpsco("odometer", "show", path, "--json")[1])
    assert 1.0 < spent["spent"] < 2.5
    assert [entry["label"] for entry in spent["entries"]] == ["noisy_gd"]
    data, schema = home / "people.csv", home / "schema.json"
    command = ["fit", data, "--schema", schema, "-o", tmp_path / "second.json", "--epsilon", 2.5]
    assert "Nothing was recorded or released" in refused(*command, *pay)
    assert json.loads(dpsco("odometer", "show", path, "--json")[1]) == spent
    assert "dpsco odometer create" in refused(*command, "--odometer", tmp_path / "none")


def test_a_fit_that_cannot_be_written_costs_nothing(dpsco, refused, home, tmp_path):
    path = tmp_path / "a.ledger"
    assert dpsco("odometer", "create", path, "--epsilon", 3, "--delta", 1e-4)[0] == 0
    (tmp_path / "model.json").write_text("mine")
    command = ["fit", home / "people.csv", "--schema", home / "schema.json", "--epsilon", 1]
    for output in ("model.json", "none/model.json", "a.ledger/model.json"):
        refused(*command, "--odometer", path, "-o", tmp_path / output)
    new = tmp_path / "new.json"
    broken = tmp_path / "broken.csv"
    broken.write_text("age\n1\n")
    refused(*command, "--odometer", path, "-o", new, "--test-public", broken)
    assert json.loads(dpsco("odometer", "show", path, "--json")[1])["spent"] == 0.0


@pytest.fixture
def paid(dpsco, home, tmp_path):
    """A ledger, and a command that it pays for."""
    path = tmp_path / "a.ledger"
    assert dpsco("odometer", "create", path, "--epsilon", 9, "--delta", 1e-5)[0] == 0
    command = ["fit", home / "people.csv", "--schema", home / "schema.json", "--epsilon", 2]
    quick = ["--solver", "noisy_gd", "--option", "rounds=2", "-o", tmp_path / "m.json"]
    return path, [*command, *quick, "--odometer", path]


def entries(dpsco, path):
    return json.loads(dpsco("odometer", "show", path, "--json")[1])["entries"]


def raising(problem):
    def fail(*_, **__):
        raise problem

    return fail


def test_show_lists_each_entry(dpsco, paid, tmp_path):
    path, command = paid
    for number in (1, 2):
        command[command.index("-o") + 1] = tmp_path / f"{number}.json"
        assert dpsco(*command)[0] == 0
    out = dpsco("odometer", "show", path)[1]
    assert "ApproxDP" not in out
    assert "Unit(" not in out
    record = json.loads(dpsco("odometer", "show", path, "--json")[1])
    assert record["adjacency"] == "replace_one"
    first, _, _, second, third, _, left, why, last = out.splitlines()
    assert left.startswith(f"left: epsilon {record['left']:.6g} of 9; the next fit may cost up to")
    assert record["left"] < record["next_epsilon"] < 9
    assert "at the delta of the fit; the odometer states it at delta 1e-05." in why
    assert last.startswith("counter 2: write it down; --expect-at-least 2 then refuses an older")
    assert record["counter"] == 2
    assert " of 9 at delta 1e-05; protects one row, adjacency replace_one" in first
    for line, entry in zip((second, third), record["entries"], strict=True):
        number, moment, spent, label, digest = line.split()
        assert entry["model"].startswith(f"sha256:{digest}")
        assert (int(number), label) == (entry["number"], "noisy_gd")
        assert moment == entry["time"][:16] + "Z"
        assert entry["spent"] <= float(spent) <= 1.0001 * entry["spent"]
        assert 1.0 < entry["spent"] < 2.0  # at the ledger's delta, which is above the fit's
    assert record["spent"] < sum(entry["spent"] for entry in record["entries"])


@pytest.mark.parametrize(
    ("problem", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted. "),
        (RuntimeError("31337.25"), 70, "an error of dpsco's own (RuntimeError). "),
        (dp.errors.DataError("no more."), 2, "no more. "),
        (OSError(28, "No space left on device"), 2, "No space left on device. "),
    ],
    ids=["interrupt", "own fault", "refusal", "disk"],
)
def test_what_was_paid_is_never_denied(dpsco, refused, paid, monkeypatch, problem, code, words):
    path, command = paid
    monkeypatch.delenv("DPSCO_DEBUG", raising=False)
    monkeypatch.setattr(fit, "_write", raising(problem))
    charged = f"No model was written, but the odometer {path} has been charged (entry 1): part of"
    assert f"{words}{charged} the run may have been released." in refused(*command, code=code)
    assert len(entries(dpsco, path)) == 1
    monkeypatch.setattr(api, "as_table", raising(problem))  # before anything is paid
    monkeypatch.setattr("dpsco.data.tables.table_file.private_table", raising(problem))
    text = refused(*command, code=code)
    assert "charged" not in text
    assert ("Nothing was written." in text) == (code in (70, 130))
    assert len(entries(dpsco, path)) == 1


def test_a_disk_that_is_nearly_full_shows_before_anything_is_paid(
    refused, dpsco, paid, monkeypatch
):
    """The report is the largest file, and the last to be written."""
    path, command = paid
    before, left = writing.write, 50_000

    def write(handle, content):
        if len(content) > left:
            raise OSError(28, "No space left on device")
        before(handle, content)

    monkeypatch.setattr(writing, "write", write)
    report = path.parent / "report.html"
    text = refused(*command, "--report", report)
    assert text.startswith("dpsco fit: cannot write ")
    assert "No space left on device." in text
    assert "charged" not in text
    assert entries(dpsco, path) == []


def test_an_interrupt_while_the_ledger_writes_leaves_it_open(refused, paid, monkeypatch):
    path, command = paid
    monkeypatch.setattr(
        "dpsco.privacy.odometer.odometer.Odometer.spend", raising(KeyboardInterrupt())
    )
    text = refused(*command, code=130)
    assert f"the odometer {path} may have been charged: look with dpsco odometer show" in text


def test_an_interrupt_after_the_end_denies_nothing(dpsco, paid, monkeypatch):
    _, command = paid
    monkeypatch.setattr(fit, "_summary", raising(KeyboardInterrupt()))
    code, _, err = dpsco(*command)
    assert code == 130
    assert err.endswith("dpsco fit: interrupted. The files were written before.\n")
    assert command[command.index("-o") + 1].exists()


def test_an_interrupted_evaluation_says_what_was_paid(
    refused, dpsco, model, home, paid, monkeypatch
):
    path, _ = paid
    monkeypatch.setattr(evaluate, "_noisy_classes", raising(KeyboardInterrupt()))
    text = refused(
        "evaluate", model, home / "fresh.csv", "--epsilon", 1, "--odometer", path, code=130
    )
    assert f"No numbers were shown, but the odometer {path} has been charged (entry 1)" in text


def _interrupted(running):
    """Press Ctrl-C, again if a library that was being loaded has swallowed it."""
    for _ in range(5):
        running.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return running.communicate(timeout=10)[1]
    raise AssertionError("five interrupts did not end the fit")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_a_real_interrupt(paid):
    """The signal arrives in the middle of a fit that would take minutes."""
    path, command = paid
    command[command.index("rounds=2")] = "rounds=400000"
    running = subprocess.Popen(
        [sys.executable, "-m", "dpsco", *map(str, command)], stderr=subprocess.PIPE, text=True
    )
    try:
        while running.poll() is None:
            time.sleep(0.02)
            with contextlib.closing(sqlite3.connect(path)) as database:
                if database.execute("SELECT COUNT(*) FROM spends").fetchone()[0]:
                    break
        err = _interrupted(running)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == 130
    assert f"the odometer {path} " in err
    assert "charged" in err
    assert "Traceback" not in err


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_service_that_is_stopped_says_what_was_paid_and_leaves_no_drafts(paid, name, tmp_path):
    path, command = paid
    command[command.index("rounds=2")] = "rounds=400000"
    command += ["--certificate", tmp_path / "c.json", "--report", tmp_path / "r.html"]
    before = sorted(tmp_path.iterdir())
    running = subprocess.Popen(
        [sys.executable, "-m", "dpsco", *map(str, command)], stderr=subprocess.PIPE, text=True
    )
    try:
        while running.poll() is None:
            time.sleep(0.02)
            with contextlib.closing(sqlite3.connect(path)) as database:
                if database.execute("SELECT COUNT(*) FROM spends").fetchone()[0]:
                    break
        assert any(found.name.endswith(".dpsco-draft") for found in tmp_path.iterdir())
        running.send_signal(getattr(signal, name))
        err = running.communicate(timeout=60)[1]
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == 128 + getattr(signal, name)
    assert f"dpsco fit: ended by {name}. No model was written, but the odometer {path} " in err
    # The spend can be seen a moment before the fit hears that it was recorded.
    assert "has been charged" in err or "may have been charged" in err
    assert "Traceback" not in err
    assert sorted(tmp_path.iterdir()) == before


def test_a_purse_that_refuses_has_not_paid(tmp_path):
    path = tmp_path / "a.ledger"
    dp.Odometer(path, dp.ApproxDP(0.1, 1e-6))
    purse = session.PayingOdometer(path)
    with pytest.raises(dp.errors.BudgetError):
        purse.spend(dp.privacy.GaussianRelease(1.0, 1.0, rows=(0, 9)), label="dear")
    assert purse.aftermath == ""


def test_an_old_copy_of_a_ledger_pays_nothing(dpsco, refused, paid, tmp_path):
    path, command = paid
    old = path.read_bytes()
    assert dpsco(*command)[0] == 0
    new, beside = path.read_bytes(), path.with_name("a.ledger.counter")
    command += ["--force"]
    path.write_bytes(old)
    assert "is an old copy: it has counted 0" in refused(*command)
    count = beside.read_bytes()
    beside.write_bytes(count.replace(b"1 ", b"0 "))
    assert "it is damaged" in refused(*command)
    beside.unlink()  # both places know nothing more: only who keeps the counter does
    assert "its caller knows that it had reached 1" in refused(*command, "--expect-at-least", 1)
    assert "--expect-at-least must be at least 0" in refused(*command, "--expect-at-least", -1)
    path.write_bytes(new)
    beside.unlink(missing_ok=True)
    assert "is missing. If it was moved, move both." in refused(*command)
    assert dpsco("odometer", "show", path, "--expect-at-least", 1)[0] == 0
    assert beside.read_bytes() == count
    assert "--expect-at-least goes with --odometer" in refused(
        *command[: command.index("--odometer")], "--force", "--expect-at-least", 1
    )


def test_a_ledger_that_was_emptied_or_removed_is_no_fresh_budget(dpsco, refused, paid):
    path, command = paid
    assert dpsco(*command)[0] == 0
    command += ["--force"]
    whole = path.read_bytes()
    for cut in (b"", whole[:1], whole[:100]):
        path.write_bytes(cut)
        assert "emptied or cut" in refused(*command)
        assert "emptied or cut" in refused("odometer", "show", path)
        assert path.read_bytes() == cut
    path.unlink()
    gone = "which has counted 1, as"
    assert gone in refused(*command)
    assert gone in refused("odometer", "create", path, "--epsilon", 9, "--delta", 1e-5)
    path.write_bytes(whole)
    assert dpsco(*command)[0] == 0
