"""Whole runs as processes on loopback: over TLS, with crashes, behind masks."""

import re

import pytest

import dpsco as dp
from dpsco.federated import Agreement, Coordinator
from dpsco.models import SavedModel
from dpsco.models.config import config_of

from .conftest import SILOS

pytestmark = pytest.mark.slow


def same_bits(model, weights, plan):
    """Return whether a model is made of these very weights."""
    one, two = model.model, config_of(plan).model(weights)
    return (one.coef == two.coef).all() and (one.intercept == two.intercept).all()


def test_three_silos_fit_what_one_table_fits_to_the_last_bit(trial, processes):
    """Sums of whole leaves of 4096 rows, added pairwise in the same order: the same additions.

    The first two silos have one leaf each, so the sums of silos are those of the leaves of the
    whole table. Elsewhere the last bits of a sum differ, as (a + b) + c and a + (b + c) do.
    """
    server = trial.serve(output="first.json")
    processes.append(server)
    url = server.url()
    assert url.startswith("https://127.0.0.1:")
    silos = [trial.join(name, url, "-o", f"{name}.model.json") for name in SILOS]
    processes += silos
    assert [silo.wait() for silo in silos] == [0, 0, 0], [silo.text for silo in silos]
    assert server.wait() == 0, server.text
    model = SavedModel.load(trial.folder / "first.json")
    assert same_bits(model, trial.central(), trial.plan)
    assert model.verify(cross_check=False).ok
    for name in SILOS:  # everybody has the same model and certificate
        text = (trial.folder / f"{name}.model.json").read_text()
        assert text == (trial.folder / "first.json").read_text()
    for silo in silos:  # and knew what it agreed to, before it joined
        text = silo.text
        for part in ("6 rounds", "epsilon 1, delta 1e-08", "protects  one row", "noise"):
            assert part in text[: text.index("has joined the run")]


def test_crashes_change_nothing_and_are_paid_once(trial, processes):
    """A silo dies and comes back; the coordinator dies and goes on: same bits, one payment."""
    plan = trial.write_plan("long.json", rounds=30)
    ledger = dp.Odometer(trial.folder / "ledger", dp.ApproxDP(3.0, 1e-6))
    files = ("--checkpoint", "run.checkpoint", "--odometer", "ledger")
    server = trial.serve(*files, plan="long.json", output="second.json")
    processes.append(server)
    url = server.url()
    silos = {name: trial.join(name, url, plan="long.json") for name in SILOS}
    processes += silos.values()
    server.line("round 5 of 30 closed")
    silos["south"].kill()
    silos["south"] = trial.join("south", url, plan="long.json")
    processes.append(silos["south"])
    silos["south"].line("answered round (1[0-9]|[6-9]) of 30")
    server.kill()
    port = int(url.rpartition(":")[2])
    again = trial.serve(*files, port=port, plan="long.json", output="second.json")
    processes.append(again)
    assert [silo.wait() for silo in silos.values()] == [0, 0, 0], [s.text for s in silos.values()]
    assert again.wait() == 0, again.text
    assert "goes on after round" in again.text
    model = SavedModel.load(trial.folder / "second.json")
    assert same_bits(model, trial.central(plan), plan)
    ledger = dp.Odometer(trial.folder / "ledger", dp.ApproxDP(3.0, 1e-6))
    assert len(ledger.entries()) == 1


def test_behind_masks_the_sum_is_what_it_was(trial, processes):
    """Three silos with keys of their own, one of which dies and comes back: exact integers."""
    roster = trial.roster()
    server = trial.serve("--roster", "roster.json", output="third.json")
    processes.append(server)
    url = server.url()
    own = {
        name: ("--roster", "roster.json", "--mask-key", f"{name}.mask", "--journal", f"{name}.j")
        for name in SILOS
    }
    silos = {name: trial.join(name, url, *own[name]) for name in SILOS}
    processes += silos.values()
    silos["west"].line("answered round 2 of")
    silos["west"].kill()
    silos["west"] = trial.join("west", url, *own["west"])
    processes.append(silos["west"])
    assert [silo.wait() for silo in silos.values()] == [0, 0, 0], [s.text for s in silos.values()]
    assert server.wait() == 0, server.text
    agreement = Agreement(trial.plan, roster)
    alone = Coordinator(
        trial.plan,
        trust=agreement.trust,
        encoding=agreement.encoding,
        randomness=dp.Randomness.seeded(3),
    )
    encoded = [worker_of(trial, name, agreement) for name in SILOS]
    while not alone.finished:
        request = alone.request()
        total = agreement.encoding.add(
            [each.answer(request).vector for each in encoded], request.size
        )
        alone.receive_sum(total, round=request.round, workers=list(SILOS))
    model = SavedModel.load(trial.folder / "third.json")
    assert same_bits(model, alone.result().weights, trial.plan)
    assert alone.result().weights == pytest.approx(trial.central(), abs=1e-4)
    assert re.search("secure aggregation", model.certificate.trust_model)


def worker_of(trial, name, agreement):
    """Return a worker that sends integers without masks."""
    how = {"trust": agreement.trust, "encoding": agreement.encoding}
    return dp.federated.Worker(trial.table(name), trial.plan, name=name, **how)
