"""What outlives a process: a worker answers nothing twice, and goes on with what it may repeat."""

import dataclasses
import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsco as dp
from dpsco.errors import DataError, LedgerError
from dpsco.federated import Agreement, Coordinator, Silo, Worker
from dpsco.federated.journal import Journal
from dpsco.federated.worker import AnsweredError


@pytest.mark.parametrize("half", [b"", b"{", b'{"worker": "no', b'{"run": "c", "ro'])
def test_a_journal_keeps_whole_lines(tmp_path, half):
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.append({"run": "a"})
        journal.append({"run": "b", "members": [2]})
    assert path.stat().st_mode & 0o077 == 0
    path.write_bytes(path.read_bytes() + half)  # killed while it wrote
    with Journal(path) as journal:
        assert journal.entries == [{"run": "a"}, {"run": "b", "members": [2]}]
        journal.append({"run": "d"})
    assert [json.loads(line) for line in path.read_text().splitlines()][-1] == {"run": "d"}


@pytest.mark.parametrize(
    "content",
    [b"[1]\n", b"nothing\n", b"\xff\xfe\n", b"age,ill\n1,0\n2,1", b'{"schema": 1}', b"secret"],
)
def test_something_else_is_no_journal_and_stays_as_it_is(tmp_path, content):
    """A plan or a table that is named by mistake loses no line, with or without a line's end."""
    (tmp_path / "journal").write_bytes(content)
    with pytest.raises(DataError):
        Journal(tmp_path / "journal")
    assert (tmp_path / "journal").read_bytes() == content


def test_one_process_at_a_time_has_it(tmp_path, monkeypatch):
    monkeypatch.setattr("dpsco.federated.journal._PATIENCE", 0.1)
    with Journal(tmp_path / "journal"), pytest.raises(DataError, match="in use"):
        Journal(tmp_path / "journal")


@pytest.mark.parametrize("resend", [False, True])
def test_a_worker_that_comes_back_goes_on(setting, tmp_path, resend):
    """It repeats the same bits to the same request if it may, and answers no other one."""
    plan = setting.plan()
    coordinator = Coordinator(plan)
    request = coordinator.request()

    def worker(journal):
        return Worker(setting.rows(0, 40), plan, name="w", resend=resend, journal=journal)

    with Journal(tmp_path / "journal") as journal:
        first = worker(journal).answer(request)
    with Journal(tmp_path / "journal") as journal:
        again = worker(journal)
        if resend:
            assert again.answer(request).to_json() == first.to_json()
        other = dataclasses.replace(request, points=(request.points[0] + 1.0,))
        with pytest.raises(AnsweredError):
            again.answer(other if resend else request)
        with pytest.raises(LedgerError, match="takes part in 1 runs"):
            again.answer(dataclasses.replace(request, run="0" * 32))
        assert Worker(setting.rows(0, 40), plan, name="v", journal=journal).answer(request)
    assert len((tmp_path / "journal").read_text().splitlines()) == 2


def test_coins_that_were_lost_are_not_drawn_again(setting, tmp_path):
    """Two samples of one round would tell which rows were in one of them."""
    plan = dp.plan(
        setting.problem,
        n=120,
        d=4,
        budget=dp.ApproxDP(2.0, 1e-6),
        solver="dp_sgd_poisson",
        options={"epochs": 2, "rate": 0.5},
    )
    request = Coordinator(plan).request()
    agreement = Agreement(plan)
    for times in range(2):
        with Silo(setting.rows(0, 120), agreement, name="w", journal=tmp_path / "journal") as silo:
            if times:
                with pytest.raises(AnsweredError):
                    silo.answer(request)
            else:
                first = silo.answer(request)
                assert silo.answer(request) is first


def test_rows_that_are_cut_stay_where_they_are(setting, tmp_path):
    """A table that was written again in another order would have rows in two rounds."""
    plan, path = setting.plan(), tmp_path / "rows.parquet"
    columns = {**{f"x{k}": column for k, column in enumerate(setting.X.T)}, "y": setting.y}
    table = pa.table(columns)
    coordinator = Coordinator(plan)

    def silo():
        rows = dp.data.from_parquet(path, label="y")
        return Silo(rows, Agreement(plan), name="w", journal=tmp_path / "journal")

    pq.write_table(table, path)
    for _ in range(2):
        with silo() as party:
            coordinator.receive([party.answer(coordinator.request())])
    pq.write_table(table.take(np.arange(120)[::-1]), path)
    with silo() as party, pytest.raises(LedgerError, match="rows of 'w' have changed"):
        party.answer(coordinator.request())


def test_a_silo_cuts_its_rows_into_parts_once(setting, tmp_path):
    """Every row is in one round of a single epoch, whoever dies in between."""
    plan = setting.plan()
    coordinator = Coordinator(plan, randomness=dp.Randomness.seeded(1))
    cuts = (0, 40, 80, 120)
    while not coordinator.finished:
        request, answers = coordinator.request(), []
        for name, (start, stop) in zip("abc", itertools.pairwise(cuts), strict=True):
            with Silo(
                setting.rows(start, stop),
                Agreement(plan),
                name=name,
                journal=tmp_path / name,
            ) as silo:
                assert sum(each._n for each in silo._workers) == 40
                answers.append(silo.answer(request))
                assert answers[-1].worker == f"{name}, part {request.round}"
        coordinator.receive(answers)
    assert coordinator.result().certificate.verify(cross_check=False).ok
