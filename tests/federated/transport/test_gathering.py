"""When a round closes: with everybody, without those who are late, behind masks with members."""

import dataclasses
import threading
import time

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import LedgerError, ParameterError
from dpsco.federated import Agreement, Answer, Coordinator, Silo
from dpsco.federated.journal import Journal
from dpsco.federated.silo import HelpingSilo, answer_name
from dpsco.federated.transport.gathering import (
    Gathering,
    NotAgreedError,
    RunOverError,
    StoppedError,
    opened,
)

from ..conftest import Setting
from ..test_pairwise_masks import NAMES, roster_of

PATIENCE = 120.0  # seconds for what takes none


def plan_of(rounds=2):
    setting = Setting()
    budget = dp.ApproxDP(2.0, 1e-6)
    options = {"rounds": rounds}
    return dp.plan(setting.problem, n=120, d=4, budget=budget, solver="noisy_gd", options=options)


class Run:
    """A gathering whose rounds close in a thread, and parties that are asked by hand."""

    def __init__(self, gathering):
        self.gathering, self.result, self.problem = gathering, None, None
        for party in gathering.parties:
            gathering.agree(party, gathering.agreement.terms)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            self.result = self.gathering.run()
        except LedgerError as problem:
            self.problem = problem

    def ask(self, party, round, everybody=False):
        """Return the request of a round, as soon as it is there; the others may ask as well."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for other in self.gathering.parties if everybody else ():
                self.gathering.ask(other)
            request = self.gathering.ask(party)
            if request is not None and request.round == round:
                return request
            time.sleep(0.005)
        raise AssertionError("nothing was asked")

    def answer(self, party, round):
        request = self.ask(party, round)
        kind = np.float64 if request.encoding is None else np.uint64
        vector = np.zeros(request.size, dtype=kind)
        name = answer_name(self.gathering.agreement.plan, party, round)
        self.say(party, Answer(run=request.run, round=round, worker=name, vector=vector))

    def say(self, party, answer):
        self.gathering.take(party, answer.to_json().encode())

    def end(self):
        self.gathering.stop()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@pytest.fixture
def start():
    runs = []

    def begin(agreement, parties, **more):
        coordinator = Coordinator(
            agreement.plan, trust=agreement.trust, encoding=agreement.encoding
        )
        runs.append(Run(Gathering(coordinator, agreement, parties, **more)))
        return runs[-1]

    yield begin
    for run in runs:
        run.end()


def test_who_is_late_counts_as_zero_and_comes_back(start):
    lines = []
    run = start(Agreement(plan_of()), NAMES, minimum=2, timeout=0.3, say=lines.append)
    for party in ("east", "north"):
        run.answer(party, 0)
    run.answer("south", 1)  # it was not there in round 0, and goes on
    run.gathering._timeout = None  # this round waits for all
    for party in ("east", "north"):
        run.answer(party, 1)
    run.thread.join(PATIENCE)
    assert run.result.certificate.verify(cross_check=False).ok
    assert "round 1 of 2 closed with 2 of 3" in lines
    assert "round 2 of 2 closed with 3 of 3" in lines
    with pytest.raises(RunOverError):
        run.gathering.ask("east")


def test_too_few_are_waited_for(start):
    run = start(Agreement(plan_of(1)), NAMES, minimum=2, timeout=0.05)
    run.answer("east", 0)
    time.sleep(0.8)
    assert run.result is None
    run.answer("south", 0)
    run.thread.join(PATIENCE)
    assert run.result is not None


def test_who_cannot_answer_is_not_waited_for(start):
    run = start(Agreement(plan_of(1)), NAMES)
    run.ask("east", 0)
    run.gathering.abstain("east", 0)
    assert run.gathering.ask("east") is None
    for party in ("north", "south"):
        run.answer(party, 0)
    run.thread.join(PATIENCE)
    assert run.result is not None


def test_an_answer_counts_once(start):
    run = start(Agreement(plan_of()), NAMES)
    run.answer("east", 0)
    run.gathering.take("east", run.gathering._answers["east"][1].to_json().encode())  # lost reply
    request = run.gathering._request
    other = Answer(run=request.run, round=0, worker="east", vector=np.ones(request.size))
    with pytest.raises(LedgerError, match="once"):
        run.say("east", other)
    with pytest.raises(NotAgreedError):
        run.gathering.ask("stranger")


def test_members_are_written_down_before_they_hear_of_it(start, tmp_path):
    """A coordinator that was started anew asks the same members, or nobody could answer again."""
    roster, _ = roster_of()
    agreement = Agreement(plan_of(), roster)
    path = tmp_path / "members"
    with Journal(path) as journal:
        run = start(agreement, NAMES, timeout=0.2, journal=journal)
        asked = {}
        threads = [
            threading.Thread(target=lambda p=party: asked.update({p: run.ask(p, 0)}))
            for party in ("north", "south")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert asked["north"].members == ("north", "south")
        assert run.gathering.ask("east") is None  # too late for this round
        assert journal.entries[-1]["members"] == ["north", "south"]
        run.end()
    with Journal(path) as journal:
        assert [entry["round"] for entry in journal.entries] == [0]
        coordinator = run.gathering.coordinator
        again = Gathering(coordinator, agreement, NAMES, journal=journal)
        known = again._known_members(coordinator.request())
        assert known == ("north", "south")


def test_a_masked_sum_without_a_member_ends_the_run(start):
    roster, _ = roster_of()
    run = start(Agreement(plan_of(), roster), NAMES)
    for party in NAMES:
        run.gathering.ask(party)
    run.ask("east", 0)
    run.gathering.abstain("east", 0)
    run.thread.join(PATIENCE)
    assert run.problem is not None
    with pytest.raises(StoppedError):
        run.gathering.ask("north")


def test_terms_are_compared(start):
    plan, roster = plan_of(), roster_of()[0]
    gathering = Gathering(Coordinator(plan), Agreement(plan), NAMES)
    for other, reason in (
        (Agreement(plan_of(3)), "another plan"),
        (Agreement(plan, roster), "another trust model"),
    ):
        with pytest.raises(ParameterError, match=reason):
            gathering.agree("east", other.terms)
    with pytest.raises(ParameterError, match="those of the roster"):
        Gathering(Coordinator(plan), Agreement(plan, roster), ("east", "north"))
    with pytest.raises(ParameterError, match="leave minimum out"):
        Gathering(Coordinator(plan), Agreement(plan, roster), NAMES, minimum=2)


def test_a_run_goes_on_from_its_checkpoint(start, tmp_path):
    plan = plan_of()
    with opened(Agreement(plan), NAMES, checkpoint=tmp_path / "run") as gathering:
        run = Run(gathering)
        for party in NAMES:
            run.answer(party, 0)
        run.ask("east", 1)
        run.end()
    lines = []
    how = {"checkpoint": tmp_path / "run", "say": lines.append}
    with opened(Agreement(plan), NAMES, **how) as gathering:
        run = Run(gathering)
        for party in NAMES:
            run.answer(party, 1)
        run.thread.join(PATIENCE)
        assert run.result is not None
        run.end()
    assert lines[0] == "goes on after round 1 of 2"


def test_noise_helpers_take_part_behind_masks(tmp_path):
    """Three silos and a helper: its noise is in every sum, and its certificate follows."""
    roster, masks = roster_of(NAMES, helpers=("court",))
    agreement, setting = Agreement(plan_of(), roster), Setting()
    parties = [
        Silo(setting.rows(40 * k, 40 * k + 40), agreement, name=name, masks=masks[name])
        for k, name in enumerate(NAMES)
    ]
    parties.append(HelpingSilo(agreement, name="court", masks=masks["court"]))
    with opened(agreement, roster.keys) as gathering:
        run = Run(gathering)
        for round in range(2):
            for party in parties:
                request = run.ask(party.name, round, everybody=True)
                assert "court" in request.members
                gathering.take(party.name, party.answer(request).to_json().encode())
        run.thread.join(PATIENCE)
        assert run.result.certificate.trust_model == agreement.trust.model
        assert run.result.certificate.verify(cross_check=False).ok


def test_terms_of_a_liar_are_shown_without_its_tricks():
    terms = Agreement(plan_of()).terms
    odd = dataclasses.replace(terms, plan="\x1b[2J\nround 9 closed")
    assert terms.objection(odd).isprintable()
