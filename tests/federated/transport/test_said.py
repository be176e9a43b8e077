"""What leaves a party, and what anybody writes down: sums that the trust model allows, no row.

Rows hold canaries. Everything that travels between real sockets is recorded, with every log record
down to DEBUG of all libraries, every sentence that either side prints, and every file.
"""

import base64
import json
import logging
import re
import threading

import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import LedgerError
from dpsco.federated import Agreement, Silo
from dpsco.federated.transport import Tokens, serve
from dpsco.federated.transport import server as server_module
from dpsco.federated.transport.client import Line, join
from dpsco.federated.transport.gathering import opened
from dpsco.federated.transport.tokens import issue, load_word

from ..conftest import Setting
from ..test_pairwise_masks import NAMES, roster_of
from .test_gathering import PATIENCE, plan_of

SECRET = "918273465"  # the digits of every number in the rows


class Wire:
    """An application that writes down whatever passes."""

    def __init__(self, app):
        self.app, self.heads, self.bodies = app, [], []

    async def __call__(self, scope, receive, send):
        self.heads.append(f"{scope['method']} {scope['path']}?{scope['query_string']!r}")
        self.heads += [
            f"{name!r}: {value!r}" for name, value in scope["headers"] if name != b"authorization"
        ]
        body = bytearray()

        async def listen():
            event = await receive()
            body.extend(event.get("body", b""))
            return event

        async def speak(event):
            if event["type"] == "http.response.body":
                self.bodies.append(event.get("body", b""))
            else:
                self.heads.append(str(event))
            await send(event)

        await self.app(scope, listen, speak)
        self.bodies.append(bytes(body))


class Listener(logging.Handler):
    def __init__(self):
        super().__init__(level=0)
        self.texts = []

    def emit(self, record):
        self.texts.append(f"{record.name} {record.getMessage()}")


@pytest.fixture
def logs():
    listener, root = Listener(), logging.getLogger()
    level = root.level
    root.addHandler(listener)
    root.setLevel(1)
    yield listener.texts
    root.removeHandler(listener)
    root.setLevel(level)


def canaries():
    """Return rows whose every number has the digits of the canary."""
    setting = Setting()
    signs = np.sign(setting.X)
    return signs * float(f"0.{SECRET}"), setting.y


@pytest.mark.parametrize("masked", [False, True])
def test_nothing_but_the_sums_that_trust_allows(masked, tmp_path, monkeypatch, logs):
    wires, said = [], logs
    original = server_module.Desk.app
    monkeypatch.setattr(
        server_module.Desk, "app", lambda desk: wires.append(Wire(original(desk))) or wires[-1]
    )
    roster, masks = roster_of()
    agreement = Agreement(plan_of(), roster if masked else None)
    X, y = canaries()
    url, ready = [], threading.Event()

    def say(sentence):
        said.append(sentence)
        if found := re.search(r"listening on (\S+)", sentence):
            url.append(found[1])
            ready.set()

    for name in NAMES:
        issue(name, tmp_path / "tokens", tmp_path / f"{name}.token")
    tokens = Tokens.load(tmp_path / "tokens")
    words = [load_word(tmp_path / f"{name}.token") for name in NAMES]

    def take_part(k, name):
        ready.wait(PATIENCE)
        rows = slice(40 * k, 40 * k + 40)
        how = {"masks": masks[name] if masked else None, "journal": tmp_path / f"{name}.journal"}
        with (
            Silo((X[rows], y[rows]), agreement, name=name, **how) as silo,
            Line(url[0], words[k], plain=True, patience=PATIENCE, say=said.append) as line,
        ):
            join(silo, line, say=said.append)

    threads = [threading.Thread(target=take_part, args=pair) for pair in enumerate(NAMES)]
    for thread in threads:
        thread.start()
    with opened(agreement, NAMES, say=say) as gathering:
        serve(gathering, tokens, host="127.0.0.1", port=0, plain=True)
    for thread in threads:
        thread.join(PATIENCE)
    (wire,) = wires
    check_texts([*said, *wire.heads, *map(bytes.decode, wire.bodies)], words)
    check_files(tmp_path)
    check_vectors(wire.bodies, agreement, X, y)


def check_texts(texts, words):
    """Refuse the canary, and a token, in whatever was said."""
    assert len(texts) > 50
    assert any("httpx" in text or "httpcore" in text for text in texts)  # libraries are heard
    for text in texts:
        assert SECRET[1:7] not in re.sub(r'"base64": "[^"]*"', "", text), text[:500]
        for word in words:
            assert word not in text


def check_files(folder):
    for path in folder.iterdir():
        assert SECRET[1:7] not in path.read_text()


def check_vectors(bodies, agreement, X, y):
    """Answers are sums of 40 clipped gradients, or behind masks nothing that is like one."""
    plan = agreement.plan
    requests = [json.loads(body) for body in bodies if b'"points"' in body]
    answers = [json.loads(body) for body in bodies if b'"worker"' in body]
    assert len(answers) == 2 * len(NAMES)
    first = next(record for record in requests if record["round"] == 0)
    request = dp.federated.Request.from_json(json.dumps(first))
    for record in answers:
        if record["round"] != 0:
            continue
        k = NAMES.index(record["worker"])
        rows = slice(40 * k, 40 * k + 40)
        how = {"trust": agreement.trust, "encoding": agreement.encoding}
        plain = dp.federated.Worker((X[rows], y[rows]), plan, name="plain", **how)
        bare = dp.federated.Request(**{**vars(request), "members": None})
        exact = plain.answer(bare).vector
        raw = base64.b64decode(record["vector"]["base64"])
        vector = np.frombuffer(raw, dtype=exact.dtype)
        assert (vector == exact).all() == (agreement.roster is None)
        if agreement.roster is not None:
            assert not (vector == exact).any()


@pytest.mark.parametrize("where", ["party", "server"])
def test_an_error_that_nobody_foresaw_is_not_told(where, tmp_path, monkeypatch, logs):
    """Its text may quote a row: the other side hears that there was one, and no more."""
    agreement = Agreement(plan_of(1))
    url, ready, said, ends = [], threading.Event(), logs, []

    def say(sentence):
        said.append(sentence)
        if found := re.search(r"listening on (\S+)", sentence):
            url.append(found[1])
            ready.set()

    def fail(*_):
        raise ZeroDivisionError(SECRET)

    place = "dpsco.federated.silo.Silo.answer"
    if where == "server":
        place = "dpsco.federated.transport.gathering.Gathering.take"
    monkeypatch.setattr(place, fail)
    issue("north", tmp_path / "tokens", tmp_path / "word")
    with opened(agreement, ("north",), say=say) as gathering:

        def take_part():
            ready.wait(PATIENCE)
            word = load_word(tmp_path / "word")
            with Line(url[0], word, plain=True, patience=PATIENCE, say=said.append) as line:
                try:
                    join(Silo(canaries(), agreement, name="north"), line)
                except Exception as problem:
                    ends.append(problem)
            gathering.stop()

        thread = threading.Thread(target=take_part)
        thread.start()
        tokens = Tokens.load(tmp_path / "tokens")
        with pytest.raises(LedgerError, match="told to stop"):
            serve(gathering, tokens, host="127.0.0.1", port=0, plain=True)
        thread.join(PATIENCE)
    (end,) = ends
    if where == "server":
        assert "an error of dpsco's own" in str(end)
        assert SECRET not in str(end)
    assert all(SECRET not in text for text in said)
