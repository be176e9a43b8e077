"""A coordinator that lies: a party answers what was planned, once, and believes no other result."""

import dataclasses
import json

import httpx
import numpy as np
import pytest

from dpsco.errors import AssumptionError, LedgerError
from dpsco.federated import Agreement, Coordinator, Request
from dpsco.federated.transport.client import Line, RefusedError, join


def reply(status, text=b""):
    return httpx.Response(
        status, content=iter([text if isinstance(text, bytes) else text.encode()])
    )


class Liar:
    """Says to each question for work what comes next, and writes down what is sent to it."""

    def __init__(self, *requests, result=b"", greeting=b'{"party": "west"}'):
        self.requests, self.result, self.heard = list(requests), result, []
        self.greeting = greeting

    def __call__(self, http):
        path = http.url.path.removeprefix("/v1/")
        if path == "request":
            if not self.requests:
                return reply(410)
            request = self.requests.pop(0)
            text = request.to_json() if isinstance(request, Request) else request
            return reply(200, text)
        if path == "result":
            return reply(200, self.result)
        self.heard.append(path)
        return reply(200, self.greeting) if path == "agree" else reply(204)

    def line(self):
        line = Line("http://127.0.0.1:1", "0" * 64, plain=True, patience=0.1)
        line._client = httpx.Client(
            base_url="http://127.0.0.1:1", transport=httpx.MockTransport(self)
        )
        return line


def run(trial, liar, journal=None):
    with liar.line() as line, trial.silo("west", journal=journal) as silo:
        return join(silo, line)


def rounds_of_run(trial):
    """Return a run's requests, and its result as a coordinator says it."""
    coordinator, requests = Coordinator(trial.plan), []
    with trial.silo("west") as silo:
        while not coordinator.finished:
            requests.append(coordinator.request())
            coordinator.receive([silo.answer(requests[-1])])
    result = coordinator.result()
    said = {"weights": result.weights.tolist(), "certificate": result.certificate.to_json()}
    return requests, said


def test_a_round_has_one_answer_whatever_is_asked(trial, tmp_path):
    """The same round with other weights, an earlier one, another run: nothing more leaves."""
    (first, second, *_), _ = rounds_of_run(trial)
    other = dataclasses.replace(first, points=(first.points[0] + 1.0,))
    liar = Liar(first, other, second, first, other, b"{}")
    with pytest.raises(Exception, match="not the request of a round"):
        run(trial, liar, tmp_path / "journal")
    assert liar.heard.count("answer") == 2
    assert liar.heard == ["agree", "answer", "abstain", "answer", "abstain", "abstain"]
    again = Liar(dataclasses.replace(first, run="0" * 32))  # and after a new start
    with pytest.raises(LedgerError, match="takes part in 1 runs"):
        run(trial, again, tmp_path / "journal")
    assert again.heard == ["agree", "abstain"]


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": "0" * 32},
        {"round": 99},
        {"clip": 1e9},
        {"protects": "worker"},
        {"trust": "secure_aggregation"},
        {"rate": 1e-3},
        {"cohort": 1},
        {"unit": 1.0},
        {"numbers": 1},
        {"members": ("a", "west")},
        {"points": (np.zeros(1),)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_was_not_planned_is_not_answered(trial, changes, monkeypatch):
    """It is refused before a row is read, and the coordinator hears no more than that."""
    (first, *_), _ = rounds_of_run(trial)
    liar = Liar(dataclasses.replace(first, **changes))
    monkeypatch.setattr("dpsco.federated.worker.Worker._vector", None)  # reads rows
    with pytest.raises(AssumptionError, match="does not answer"):
        run(trial, liar)
    assert liar.heard == ["agree", "abstain"]


def test_a_result_is_that_of_the_plan(trial):
    """Neither other weights than finite ones, nor a certificate that leaves out a release."""
    _, said = rounds_of_run(trial)
    assert np.array_equal(run(trial, Liar(result=json.dumps(said))).weights, said["weights"])
    cheaper = json.loads(json.dumps(said))
    cheaper["certificate"]["releases"][0]["count"] = 1
    for odd in (
        cheaper,
        {**said, "weights": said["weights"][:-1]},
        {**said, "weights": ["x"] * len(said["weights"])},
        {"weights": said["weights"]},
        [],
    ):
        with pytest.raises(LedgerError, match="the coordinator's"):
            run(trial, Liar(result=json.dumps(odd)))
    with pytest.raises(LedgerError, match="cannot read the result"):
        run(trial, Liar(result=json.dumps({**said, "weights": [np.inf]})))


@pytest.mark.parametrize("greeting", [b'{"party": "north"}', b"{}", b"[]"])
def test_who_is_taken_for_another_leaves(trial, greeting):
    """Tokens were mixed up: it would answer in the other's place, and be refused there."""
    (first, *_), _ = rounds_of_run(trial)
    liar = Liar(first, greeting=greeting)
    with pytest.raises(RefusedError, match="the token is not that of 'west'"):
        run(trial, liar)
    assert liar.heard == ["agree"]


@pytest.mark.parametrize("text", [b"[" * 9000, b'{"refused": "\\u001b[2Jno\\n"}', b"\xff", b"[]"])
def test_what_a_coordinator_says_is_a_line_of_text(trial, text):
    line = Liar().line()
    line._client = httpx.Client(
        base_url="http://127.0.0.1:1",
        transport=httpx.MockTransport(lambda http: reply(422, text)),
    )
    with pytest.raises(RefusedError) as problem:
        line.ask("GET", "/v1/request", most=10)
    assert str(problem.value).isprintable()
    line.close()


def test_terms_begin_no_line_of_the_log(trial):
    """What another side says is shown without the characters that move a terminal's cursor."""
    from dpsco.federated.transport.gathering import opened

    said = []
    agreement = Agreement(trial.plan)
    with opened(agreement, ["west"], say=said.append) as gathering:
        gathering.say("refused west: \x1b[2J\ndpsco: all is well")
    assert said[-1] == "refused west: ?[2J?dpsco: all is well"
