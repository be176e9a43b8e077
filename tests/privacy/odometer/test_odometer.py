"""The odometer: nothing spent is ever lost, nothing is overspent, whatever dies."""

import contextlib
import json
import sqlite3
import subprocess
import sys
import textwrap
import threading

import pytest

from dpsco.errors import BudgetError, LedgerError, OdometerError, ParameterError
from dpsco.privacy.accounting.composition import compose, cost
from dpsco.privacy.budget import GDP, ZCDP, ApproxDP, PureDP, Unit
from dpsco.privacy.ledger import Ledger
from dpsco.privacy.mechanisms import (
    GaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    SelectionRelease,
    gaussian_sigma,
)
from dpsco.privacy.mechanisms.prefix_sum.mechanism import mechanism
from dpsco.privacy.odometer.counter import Count, counter_file, read_count
from dpsco.privacy.odometer.odometer import Odometer

BUDGET = ApproxDP(1.0, 1e-6)


def share(parts, rows=(0, 100)):
    """One of ``parts`` equal Gaussian releases that use up BUDGET together."""
    sigma = gaussian_sigma(BUDGET, bound=1.0, rows=(0, 100), count=parts)
    return GaussianRelease(1.0, sigma, rows=rows)


def test_equal_shares_fill_the_budget_exactly_and_not_one_more(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    for _ in range(4):
        odometer.spend(share(4), label="fit")
    assert 0.999999 < odometer.cost().epsilon(1e-6) <= 1.0
    with pytest.raises(BudgetError, match=r"from 1 to 1\.1.*Nothing was recorded"):
        odometer.spend(share(4), label="fit")
    assert len(odometer.entries()) == 4


def test_runs_compose_on_the_same_rows_whatever_ranges_they_name(tmp_path):
    # Each run has a secret order of its own: row 0 of one may be row 99 of the other.
    odometer = Odometer(tmp_path / "o", BUDGET)
    odometer.spend(share(1, rows=(0, 50)))
    with pytest.raises(BudgetError):
        odometer.spend(share(1, rows=(50, 100)))


def test_mixed_releases_compose():
    selection = cost(SelectionRelease(1.0, 20.0, 5, rows=(0, 10)))
    noise = cost(GaussianRelease(1.0, 30.0, rows=(0, 10)))
    both = cost(
        [SelectionRelease(1.0, 20.0, 5, rows=(0, 10)), GaussianRelease(1.0, 30.0, rows=(0, 10))]
    )
    assert compose([selection, noise]).epsilon(1e-6) == both.epsilon(1e-6)
    split = cost(
        [SelectionRelease(1.0, 20.0, 5, rows=(0, 5)), GaussianRelease(1.0, 30.0, rows=(5, 10))]
    )
    expected = max(  # every pairing of a row of one run with a row of the other
        compose([a, b]).epsilon(1e-6) for a in (selection, noise) for b in (selection, noise)
    )
    assert compose([split, split]).epsilon(1e-6) == pytest.approx(expected, rel=1e-12)
    many = compose([split] * 12)  # too many pairings: all charges of every run
    assert many.epsilon(1e-6) >= compose([noise] * 12).epsilon(1e-6)
    assert many.epsilon(1e-6) >= compose([selection] * 12).epsilon(1e-6)


@pytest.mark.parametrize(
    "budget",
    [ZCDP(0.1), GDP(0.5), ApproxDP(2.0, 1e-9, adjacency="zero_out", unit=Unit(3, "person"))],
)
def test_reopening_keeps_budget_and_spends(tmp_path, budget):
    Odometer(tmp_path / "o", budget).spend(GaussianRelease(1.0, 90.0, rows=(0, 9)), label="first")
    again = Odometer(tmp_path / "o")
    assert again.budget == budget
    assert [entry.label for entry in again.entries()] == ["first"]
    assert Odometer(tmp_path / "o", budget).cost().mu == again.cost().mu > 0
    first, _, entry = str(again).splitlines()
    assert entry.split()[-1] == "first"
    assert f"adjacency {budget.adjacency.value}" in first
    assert type(budget).__name__ not in str(again)
    assert again.spent_by(again.entries()[0]) == pytest.approx(again.cost().against(budget)[0])


def test_pure_budget_refuses_gaussian_noise(tmp_path):
    odometer = Odometer(tmp_path / "o", PureDP(1.0))
    odometer.spend(SelectionRelease(1.0, 4.0, 3, rows=(0, 9)))
    with pytest.raises(BudgetError):
        odometer.spend(GaussianRelease(1.0, 1e9, rows=(0, 9)))


def test_another_budget_is_refused(tmp_path):
    Odometer(tmp_path / "o", BUDGET)
    with pytest.raises(OdometerError, match="was created with"):
        Odometer(tmp_path / "o", ApproxDP(2.0, 1e-6))


def test_bad_input_writes_nothing(tmp_path):
    with pytest.raises(OdometerError, match="Create it with"):
        Odometer(tmp_path / "absent")
    with pytest.raises(ParameterError, match="ApproxDP"):
        Odometer(tmp_path / "absent", 1.0)
    assert not (tmp_path / "absent").exists()
    with pytest.raises(OdometerError):
        Odometer(tmp_path / "no" / "folder", BUDGET)
    (tmp_path / "text").write_text("not a database, but long enough to look like some file\n" * 50)
    with pytest.raises(OdometerError, match="cannot use"):
        Odometer(tmp_path / "text", BUDGET)
    odometer = Odometer(tmp_path / "o", BUDGET)
    with pytest.raises(ParameterError):
        odometer.spend("everything")
    assert odometer.entries() == []


def test_damaged_spend_is_never_read_as_unspent(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    odometer.spend(share(2))
    with sqlite3.connect(tmp_path / "o") as database:
        text = database.execute("SELECT releases FROM spends").fetchone()[0]
        record = json.loads(text)
        record[0]["kind"] = "unknown"
        database.execute("UPDATE spends SET releases = ?", (json.dumps(record),))
    database.close()
    with pytest.raises(OdometerError, match="spend 1 is damaged"):
        odometer.spend(share(2))


def test_ledger_pays_before_it_draws(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    release = share(1)
    ledger = Ledger([release], BUDGET, odometer=odometer, label="first fit")
    assert [entry.label for entry in odometer.entries()] == ["first fit"]
    ledger.gaussian([0.0], bound=1.0, sigma=release.sigma, rows=release.rows)
    ledger.close()
    with pytest.raises(BudgetError):
        Ledger([release], BUDGET, odometer=odometer)
    assert len(odometer.entries()) == 1


def test_sampled_spends_compose_numerically(tmp_path):
    pytest.importorskip("dp_accounting")
    odometer = Odometer(tmp_path / "o", ApproxDP(1.0, 1e-6, adjacency="zero_out"))
    odometer.spend(PoissonGaussianRelease(1.0, 2.0, 0.01, rows=(0, 1000), count=10))
    alone = odometer.cost().epsilon(1e-6)
    odometer.spend(GaussianRelease(1.0, 10.0, rows=(0, 1000)))
    assert alone < odometer.cost().epsilon(1e-6) <= 1.0


def test_threads_take_turns(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    release, outcomes = share(5), []

    def work():
        for _ in range(2):
            try:
                outcomes.append(odometer.spend(release).number)
            except BudgetError:
                outcomes.append(None)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n for n in outcomes if n) == [1, 2, 3, 4, 5]
    assert outcomes.count(None) == 3


# -- runs that may be resumed ----------------------------------------------------------------------


def test_a_run_is_paid_for_once(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    first = odometer.spend(share(2), label="fit", run="a")
    for _ in range(3):
        assert Odometer(tmp_path / "o").spend(share(2), label="again", run="a") == first
    assert [entry.number for entry in odometer.entries()] == [1]
    stream = PrefixSumRelease(1.0, 100.0, mechanism("blt", rounds=5), rows=(0, 100))
    paid = odometer.spend([stream, share(9)], run="b")  # every record is found equal to itself
    assert odometer.spend([stream, share(9)], run="b") == paid
    assert len(odometer.entries()) == 2


def test_a_run_that_has_paid_for_something_else_is_refused(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    odometer.spend(share(3), run="a")
    for other in (share(4), [share(3), share(3)]):
        with pytest.raises(OdometerError, match=r"run a has paid for other releases \(entry 1"):
            odometer.spend(other, run="a")
    assert len(odometer.entries()) == 1


def test_a_run_that_was_refused_has_not_paid(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    odometer.spend(share(2))
    with pytest.raises(BudgetError):
        odometer.spend(share(1), run="a")
    assert odometer.spend(share(2), run="a").number == 2


def test_a_run_whose_spend_is_gone_is_refused(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    odometer.spend(share(2), run="a")
    with sqlite3.connect(tmp_path / "o") as database:
        database.execute("DELETE FROM spends")
    database.close()
    with pytest.raises(OdometerError, match="is damaged: entries are missing"):
        odometer.spend(share(2), run="a")


def test_a_round_lets_out_one_answer(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    odometer.spend(share(2), run="a")
    odometer.spend(share(2), run="b")
    for _ in range(2):
        odometer.commit("a", 1, "one")
        odometer.commit("a", 2, "two")
        odometer.commit("b", 1, "another run's")
    with pytest.raises(LedgerError, match="already used on other rows: round 2 of run a"):
        odometer.commit("a", 2, "other rows")
    assert odometer.committed("a") == {1: "one", 2: "two"}
    assert odometer.committed("b") == {1: "another run's"}
    assert odometer.committed("c") == {}


def test_a_round_of_a_run_that_has_not_paid_is_refused(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    odometer.spend(share(2))
    with pytest.raises(OdometerError, match="run a was not paid for"):
        odometer.commit("a", 1, "one")
    assert odometer.committed("a") == {}


def test_files_from_before_there_were_runs_still_serve(tmp_path):
    Odometer(tmp_path / "o", BUDGET).spend(share(2), label="old")
    with sqlite3.connect(tmp_path / "o") as database:
        database.execute("DROP TABLE runs")
        database.execute("DROP TABLE rounds")
    database.close()
    odometer = Odometer(tmp_path / "o")
    odometer.spend(share(2), label="new", run="a")
    odometer.commit("a", 1, "one")
    assert [entry.label for entry in odometer.entries()] == ["old", "new"]


def test_ledgers_name_their_run_only_if_they_have_one(tmp_path):
    asked = []

    class BudgetSpender:
        def spend(self, releases, **more):
            asked.append(more)

    for run in (None, "a"):
        Ledger(share(1), BUDGET, odometer=BudgetSpender(), run=run)
    assert asked == [{"label": "run"}, {"label": "run", "run": "a"}]


KILLS = """
    import os, random, signal, sys, time
    from dpsco.errors import BudgetError
    from dpsco.privacy.odometer.odometer import Odometer
    from dpsco.privacy.mechanisms import GaussianRelease

    path, sigma, kills = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(20240229)
    running, said, refused = {}, [], 0

    def start(name):
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid:
            os.close(theirs)
            running[pid] = ours
            return
        for step in range(1000):
            label = f"{name}.{step}"
            try:
                Odometer(path).spend(GaussianRelease(1.0, sigma, rows=(0, 100)), label=label)
                os.write(theirs, f"paid {label}\\n".encode())
            except BudgetError:
                os.write(theirs, b"refused x\\n")

    for number in range(kills):
        while len(running) < 3:
            start(f"{number}.{len(running)}")
        time.sleep(chance.uniform(0.0, 0.03))
        victim = chance.choice(list(running))
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        with os.fdopen(running.pop(victim), "rb") as pipe:
            said += pipe.read().decode().splitlines()
    for pid, pipe in running.items():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with os.fdopen(pipe, "rb") as pipe:
            said += pipe.read().decode().splitlines()
    for step in range(1000):  # what the kills left over is still there to be spent, and no more
        label = f"last.{step}"
        try:
            Odometer(path).spend(GaussianRelease(1.0, sigma, rows=(0, 100)), label=label)
            said.append(f"paid {label}")
        except BudgetError:
            said.append("refused x")
            break
    print("\\n".join(said))
"""


@pytest.mark.slow
def test_two_hundred_kills_lose_no_spend_and_never_overspend(tmp_path):
    parts = 120
    odometer = Odometer(tmp_path / "o", BUDGET)
    finished = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(KILLS),
            tmp_path / "o",
            str(share(parts).sigma),
            "200",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr
    words = [line.split() for line in finished.stdout.splitlines()]
    paid = {label for outcome, label in words if outcome == "paid"}
    recorded = [entry.label for entry in odometer.entries()]
    assert paid <= set(recorded)  # nothing that was acknowledged is lost
    assert len(recorded) == len(set(recorded)) == parts  # the budget was used up, and no more
    assert any(outcome == "refused" for outcome, _ in words)
    assert odometer.cost().epsilon(1e-6) <= 1.0
    assert odometer.counter == parts == read_count(tmp_path / "o").counter
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o", "o.counter"]


# -- an odometer that is not the newest ------------------------------------------------------------


@pytest.fixture
def used(tmp_path):
    """An odometer with a copy of both files after each of three spends, the first one of a run."""
    path, copies = tmp_path / "o", []
    odometer = Odometer(path, BUDGET)
    for number in range(3):
        odometer.spend(share(9), run="a" if number == 0 else None)
        copies.append((path.read_bytes(), counter_file(path).read_bytes()))
    return odometer, copies


def test_the_counter_counts_spends_and_rounds(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    counters = [odometer.counter]
    odometer.spend(share(9), run="a")
    counters.append(odometer.counter)
    for round in (1, 2, 2):
        odometer.commit("a", round, "digest")
        counters.append(odometer.counter)
    with pytest.raises(BudgetError):
        odometer.spend(share(1))
    counters.append(odometer.counter)
    assert counters == [0, 1, 2, 3, 3, 3]
    assert read_count(tmp_path / "o") == Count(odometer.identity, 3)
    assert Odometer(tmp_path / "other", BUDGET).identity != odometer.identity


@pytest.mark.parametrize("size", [0, 1, 99, 511])
def test_an_emptied_file_is_no_fresh_budget(used, size):
    odometer, copies = used
    odometer.path.write_bytes(copies[-1][0][:size])
    for again in (
        lambda: Odometer(odometer.path),
        lambda: Odometer(odometer.path, BUDGET),
        lambda: odometer.spend(share(9)),
        odometer.entries,
    ):
        with pytest.raises(OdometerError, match=f"it has {size} bytes.*emptied or cut"):
            again()
    counter_file(odometer.path).unlink()  # nor is it one without the second place
    with pytest.raises(OdometerError, match="emptied or cut"):
        Odometer(odometer.path, BUDGET)
    assert odometer.path.stat().st_size == size


def test_a_removed_file_is_no_fresh_budget(used):
    odometer, _ = used
    odometer.path.unlink()
    with pytest.raises(OdometerError, match=r"there was an odometer .* has counted 3"):
        Odometer(odometer.path, BUDGET)
    with pytest.raises(OdometerError, match="has counted 3"):
        odometer.spend(share(9))
    assert not odometer.path.exists()
    counter_file(odometer.path).unlink()
    assert Odometer(odometer.path, BUDGET).entries() == []
    with pytest.raises(OdometerError, match="another odometer has taken the place"):
        odometer.spend(share(9))


def test_an_odometer_that_was_never_used_may_be_begun_anew(tmp_path):
    first = Odometer(tmp_path / "o", BUDGET).identity
    (tmp_path / "o").unlink()
    assert Odometer(tmp_path / "o", ApproxDP(2.0, 1e-6)).identity != first


def test_an_old_copy_is_noticed(used):
    odometer, copies = used
    for number, (old, _) in enumerate(copies[:2]):
        odometer.path.write_bytes(old)
        said = f"is an old copy: it has counted {number + 1}, and .*counter says .* reached 3"
        for again in (lambda: Odometer(odometer.path), lambda: Odometer(odometer.path, BUDGET)):
            with pytest.raises(OdometerError, match=said):
                again()
        with pytest.raises(OdometerError, match=r"and this process has seen that .* reached 3"):
            odometer.commit("a", 1, "used again on other rows")
        assert odometer.path.read_bytes() == old
    odometer.path.write_bytes(copies[2][0])
    assert odometer.spend(share(9)).number == 4


def test_old_copies_of_both_files_are_noticed_by_who_remembers(used):
    """A live object does, and whoever keeps the counter; a new process alone cannot."""
    odometer, copies = used
    odometer.path.write_bytes(copies[0][0])
    counter_file(odometer.path).write_bytes(copies[0][1])
    with pytest.raises(OdometerError, match="this process has seen that it had reached 3"):
        odometer.spend(share(9))
    with pytest.raises(OdometerError, match="its caller knows that it had reached 3"):
        Odometer(odometer.path, expect_at_least=3)
    assert Odometer(odometer.path, expect_at_least=1).counter == 1
    for wrong in (-1, 1.5, "3", True):
        with pytest.raises(ParameterError, match="expect_at_least"):
            Odometer(odometer.path, expect_at_least=wrong)


def test_a_missing_second_place(used):
    odometer, _ = used
    beside = counter_file(odometer.path)
    count = beside.read_bytes()
    beside.unlink()
    with pytest.raises(OdometerError, match=r"has counted 3, and .* is missing. If it was moved"):
        Odometer(odometer.path)
    assert not beside.exists()
    with pytest.raises(OdometerError, match="its caller knows that it had reached 4"):
        Odometer(odometer.path, expect_at_least=4)
    Odometer(odometer.path, expect_at_least=3)
    assert beside.read_bytes() == count


def test_a_damaged_second_place(used):
    odometer, _ = used
    beside = counter_file(odometer.path)
    count = beside.read_bytes()
    for damage in (
        b"",
        count[:-1],
        count.replace(b"3 ", b"2 "),
        count + b"x",
        b"\xff" * len(count),
    ):
        beside.write_bytes(damage)
        with pytest.raises(OdometerError, match=r"it is damaged. Nothing was recorded"):
            odometer.spend(share(9))
    beside.unlink()
    beside.mkdir()
    with pytest.raises(OdometerError, match="that cannot be used"):
        odometer.spend(share(9))
    beside.rmdir()
    beside.write_bytes(count)
    assert odometer.spend(share(9)).number == 4


def test_a_second_place_that_lags_is_brought_up(used):
    odometer, copies = used
    counter_file(odometer.path).write_bytes(copies[1][1])
    assert Odometer(odometer.path).counter == 3
    assert counter_file(odometer.path).read_bytes() == copies[2][1]


def test_a_second_place_that_cannot_be_written_lags_by_one_at_most(used, monkeypatch):
    odometer, copies = used

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("dpsco.privacy.odometer.counter.write", full)
        assert odometer.spend(share(9)).number == 4  # it is paid, and says so
        assert counter_file(odometer.path).read_bytes() == copies[2][1]
        with pytest.raises(OdometerError, match=r"No space left on device. Nothing was recorded"):
            odometer.spend(share(9))
    assert odometer.counter == 4 == read_count(odometer.path).counter


def test_another_odometer_in_the_place_is_noticed(used, tmp_path):
    odometer, _ = used
    other = Odometer(tmp_path / "other", BUDGET)
    for _ in range(5):
        other.spend(share(9))
    odometer.path.write_bytes(other.path.read_bytes())
    with pytest.raises(OdometerError, match="another odometer has taken the place"):
        odometer.entries()
    with pytest.raises(OdometerError, match="is not the odometer that was there"):
        Odometer(odometer.path)


def older(path):
    """Make an odometer look like one that was written before there was an identity."""
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE identity")
    database.close()


def test_a_file_of_an_older_dpsco_is_taken_as_it_is_once(used, tmp_path):
    odometer, copies = used
    older(odometer.path)
    counter_file(odometer.path).unlink()
    adopted = Odometer(odometer.path)
    assert (adopted.counter, read_count(odometer.path).counter) == (3, 3)
    adopted.spend(share(9))
    odometer.path.write_bytes(copies[1][0])
    older(odometer.path)
    with pytest.raises(OdometerError, match="is an old copy: it has counted 2"):
        Odometer(odometer.path)


def test_deleted_entries_are_noticed(used):
    odometer, _ = used
    for number in (1, 3):
        before = odometer.path.read_bytes()
        with sqlite3.connect(odometer.path) as database:
            database.execute("DELETE FROM spends WHERE number = ?", (number,))
        database.close()
        with pytest.raises(OdometerError, match="is damaged: entries are missing"):
            Odometer(odometer.path)
        odometer.path.write_bytes(before)


def test_a_link_leads_to_the_same_odometer(used, tmp_path):
    odometer, _ = used
    (tmp_path / "link").symlink_to(odometer.path)
    linked = Odometer(tmp_path / "link", BUDGET)
    assert linked.spend(share(9)).number == 4
    assert odometer.counter == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "o", "o.counter"]


def test_names_and_labels_that_no_file_can_hold(tmp_path):
    for path in ("a\0b", 7, None):
        with pytest.raises(ParameterError, match="path must be the path of a file"):
            Odometer(path, BUDGET)
    odometer = Odometer(tmp_path / "o", BUDGET)
    for label in ("\udc80", 7):
        with pytest.raises(ParameterError, match="label must be text of valid Unicode"):
            odometer.spend(share(9), label=label)
    with sqlite3.connect(tmp_path / "o") as database:
        database.execute("UPDATE about SET budget = NULL")
    database.close()
    with pytest.raises(OdometerError, match="its budget cannot be read"):
        Odometer(tmp_path / "o")


class Full(sqlite3.Connection):
    """A connection whose disk is full: SQLite itself finds out, and takes the transaction back."""

    def execute(self, query, *more):
        if query.startswith("INSERT INTO spends"):
            pages = super().execute("PRAGMA page_count").fetchone()[0]
            super().execute(f"PRAGMA max_page_count = {pages}")
            (now, label, _), more = more[0], ()
            return super().execute(query, (now, label, "x" * 10**6))
        if query == "ROLLBACK":
            with contextlib.suppress(sqlite3.Error):
                super().execute(query)
        return super().execute(query, *more)


def test_a_full_disk_is_an_error_of_ours(used, monkeypatch):
    odometer, _ = used
    real = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *a, **b: real(*a, **b, factory=Full))
        with pytest.raises(OdometerError, match=r"cannot use the odometer .*disk is full"):
            odometer.spend(share(9))
    assert odometer.counter == 3
    assert odometer.spend(share(9)).number == 4


# Each point at which a process can die between its spend and the second place, in turn.
DEATHS = """
    import itertools, os, signal, sqlite3, sys
    from dpsco.privacy.odometer.odometer import Odometer
    from dpsco.privacy.odometer.counter import counter_file, read_count
    from dpsco.privacy.budget import ApproxDP
    from dpsco.privacy.mechanisms import GaussianRelease
    from pathlib import Path

    path, kind = Path(sys.argv[1]), sys.argv[2]
    release = GaussianRelease(1.0, 900.0, rows=(0, 100))
    budget = ApproxDP(1.0, 1e-6)
    real_connect, names = sqlite3.connect, ("open", "write", "fsync", "link", "unlink", "replace")
    real = {name: getattr(os, name) for name in names}

    def prepare():
        for found in path.parent.iterdir():
            found.unlink()
        if kind != "create":
            Odometer(path, budget).spend(release, label="first")
        if kind == "adopt":
            with sqlite3.connect(path) as database:
                database.execute("DROP TABLE identity")
            database.close()
            counter_file(path).unlink()

    def armed(at):
        count = itertools.count()
        def passed(call):
            def wrapped(*arguments, **named):
                if next(count) == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **named)
            return wrapped
        class Struck(sqlite3.Connection):
            execute = passed(sqlite3.Connection.execute)
        sqlite3.connect = lambda *a, **b: real_connect(*a, **b, factory=Struck)
        for name in names:
            setattr(os, name, passed(real[name]))
        return count

    for at in itertools.count():
        prepare()
        ours, theirs = os.pipe()
        if (pid := os.fork()) == 0:
            count = armed(at)
            odometer = Odometer(path, budget)
            odometer.spend(release, label="second")
            real["write"](theirs, b"paid")
            os._exit(0 if next(count) > at else 3)
        os.close(theirs)
        code = os.waitpid(pid, 0)[1]
        with os.fdopen(ours, "rb") as pipe:
            paid = pipe.read() == b"paid"
        if code == 3 << 8:
            break
        before = read_count(path)
        odometer = Odometer(path, budget)  # whatever died, the next one is not refused
        entries = [entry.label for entry in odometer.entries()]
        assert entries.count("second") == 1 or not paid, (at, entries)
        assert before is None or before.counter <= odometer.counter, (at, before)
        assert before is None or odometer.counter - before.counter <= 1, (at, before)
        assert before is not None or odometer.counter <= 1
        odometer.spend(release, label="third")
        assert read_count(path).counter == odometer.counter == len(entries) + 1
    print(at)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["create", "spend", "adopt"])
def test_whoever_dies_leaves_an_odometer_that_serves(tmp_path, kind):
    folder = tmp_path / "folder"
    folder.mkdir()
    command = [sys.executable, "-c", textwrap.dedent(DEATHS), folder / "o", kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 25


def test_what_a_spend_would_come_to_is_known_before_it(tmp_path):
    """The total that is announced is the one that the entry makes, and nothing is recorded."""
    odometer = Odometer(tmp_path / "t.odometer", ApproxDP(2.0, 1e-6))
    release = GaussianRelease(1.0, 40.0, rows=(0, 100))
    odometer.spend(release)
    announced = odometer.cost_with([release]).against(odometer.budget)
    assert len(odometer.entries()) == 1
    odometer.spend(release)
    assert odometer.cost().against(odometer.budget) == announced
    assert odometer.totals()[1] == announced[0]
    assert 0.0 < odometer.totals()[0] < announced[0] < 2 * odometer.totals()[0]


def test_a_place_names_the_entry_that_paid(tmp_path):
    odometer = Odometer(tmp_path / "o", BUDGET)
    first, second = share(9), share(8)
    for release in (first, second, share(7)):
        odometer.spend(release)
    assert odometer.place((second,)).startswith("entry 2 of 3 in o; spent in all: epsilon 0.")
    odometer.spend(first)
    assert odometer.place((first,)).startswith("one of the entries 1, 4 of 4 in o")
    assert odometer.place((share(3),)).startswith("none of the 4 entries in o")


def test_a_place_is_not_that_of_another_model(tmp_path):
    """Fits that are planned alike pay alike: who has paid knows which entry it was, and a model."""
    odometer, release = Odometer(tmp_path / "o", BUDGET), share(9)
    numbers = [odometer.spend(release).number for _ in range(3)]
    assert odometer.place((release,), number=numbers[1]).startswith("entry 2 of 3 in o")
    odometer.name_model(numbers[0], "sha256:aa")
    odometer.name_model(numbers[2], "sha256:cc")
    assert odometer.place((release,), model="sha256:cc").startswith("entry 3 of 3 in o")
    assert odometer.place((release,), model="sha256:xx").startswith("entry 2 of 3 in o")  # unnamed
    odometer.name_model(numbers[1], "sha256:bb")
    assert odometer.place((release,), model="sha256:xx").startswith("none of the 3 entries")


def test_a_place_is_that_of_one_state_of_the_file(tmp_path, monkeypatch):
    """Another process pays while a place is put into words: the total is of the same entries."""
    odometer, release = Odometer(tmp_path / "o", BUDGET), share(9)
    odometer.spend(release)
    before, entries = odometer.place((release,)), odometer.entries

    def paid_meanwhile():
        known = entries()
        Odometer(tmp_path / "o").spend(release)
        return known

    monkeypatch.setattr(odometer, "entries", paid_meanwhile)
    assert odometer.place((release,)) == before
