"""Who is refused, and that both sides say so: strangers, other plans, odd answers, replays."""

import contextlib
import dataclasses
import json
import socket
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

import dpsco as dp
from dpsco.errors import DataError, ParameterError
from dpsco.federated import Agreement, Answer, Request
from dpsco.federated.transport import client_context
from dpsco.federated.transport.client import Line, RefusedError, join

from .conftest import PATIENCE, SILOS

pytestmark = pytest.mark.slow


class Visitor:
    """Speaks HTTP with a server, as whoever it says it is."""

    def __init__(self, trial, url, word, who="west", ca="ca.pem"):
        files = [trial.folder / name for name in (ca, f"{who}.pem", f"{who}.key")]
        headers = {"authorization": f"Bearer {word}"}
        context = client_context(*files)
        self.http = httpx.Client(base_url=url, verify=context, headers=headers, timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.close()

    def post(self, path, content):
        reply = self.http.post(path, content=content)
        return reply.status_code, reply.json().get("refused") if reply.content else ""

    def get(self, path):
        reply = self.http.get(path)
        return reply.status_code, reply.content


def take_part(
    trial, url, name, cert=None, ca="ca.pem", word=None, files=None, patience=3.0, agreement=None
):
    """Join as a party, in this process."""
    cert = cert or name
    files = files or (ca, f"{cert}.pem", f"{cert}.key")
    context = client_context(*(trial.folder / part for part in files))
    word = word or trial.word(name)
    line = Line(url, word, tls=context, patience=patience)
    with line, trial.silo(name, agreement) as silo:
        return join(silo, line)


def honest(trial, url, names, stop, agreement):
    """Let parties take part in threads of this process."""

    def run(name):
        stop[name] = take_part(trial, url, name, patience=PATIENCE, agreement=agreement)

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    return threads


def odd_answers(request):
    """Return what no honest party says, with the status that it gets."""

    def answer(vector=None, **changes):
        vector = np.zeros(request.size) if vector is None else vector
        fields = {"run": request.run, "round": request.round, "worker": "west", "vector": vector}
        return Answer(**{**fields, **changes}).to_json()

    odd = {
        "no answer": ("{}", 422),
        "another shape": (answer(np.zeros(request.size + 1)), 422),
        "integers": (answer(np.zeros(request.size, dtype=np.uint64)), 422),
        "too long": (answer(np.full(request.size, 1e12)), 422),
        "somebody else's name": (answer(worker="north"), 422),
        "another run": (answer(run="0" * 32), 409),
        "a later round": (answer(round=1), 409),
        "a head that says it is long": (b"x" * 10_000_000, 413),
    }
    return odd, answer()


def endless():
    for _ in range(100):
        yield b"x" * 100_000


def test_a_liar_is_refused_and_counts_as_zero(trial, processes):
    """A process with two honest silos and one that tries everything; the run ends without it."""
    agreement = Agreement(trial.write_plan("short.json", rounds=2))
    server = trial.serve(
        *("--minimum", "2", "--timeout", "2"), plan="short.json", output="liar.json"
    )
    processes.append(server)
    url, results = server.url(), {}
    terms = agreement.terms
    with Visitor(trial, url, trial.word("west")) as west:
        assert west.get("/v1/request")[0] == 428  # it has agreed to nothing yet
        lie = dataclasses.replace(terms, plan="0" * 32).to_json()
        status, reason = west.post("/v1/agree", lie)
        assert status == 422
        assert "another plan" in reason
        for odd in (b"", b"[]", b'{"plan": 1}', terms.to_json().encode()[:-1], b"\xff" * 9):
            assert west.post("/v1/agree", odd)[0] == 422
        assert west.post("/v1/agree", terms.to_json())[0] == 200
        status, text = west.get("/v1/request")
        odd, honest_answer = odd_answers(Request.from_json(text))
        for what, (text, expected) in odd.items():
            assert west.post("/v1/answer", text)[0] == expected, what
        with pytest.raises((httpx.TransportError, AssertionError)):  # cut off, or told
            assert west.post("/v1/answer", endless())[0] == 200
        # One that is true; the same again, which counts once; later a replay of it.
        assert west.post("/v1/answer", honest_answer)[0] == 204
        assert west.post("/v1/answer", honest_answer)[0] == 204
        threads = honest(trial, url, ("north",), results, agreement)
        server.line("round 1 of 2 closed with 2 of 3")
        status, reason = west.post("/v1/answer", honest_answer)  # the next one waits for two
        assert status == 409
        assert "closed" in reason or "nothing" in reason
    threads += honest(trial, url, ("south",), results, agreement)
    for thread in threads:
        thread.join(PATIENCE)
    assert set(results) == {"north", "south"}
    assert server.wait() == 0, server.text
    for said in (
        "round 2 of 2 closed with 2 of 3",
        "another plan",
        "refused west: a message of this run has at most",
        "does not clip",
    ):
        assert said in server.text
    for name in SILOS:
        assert trial.word(name) not in server.text


def test_strangers_are_refused_and_both_sides_say_it(trial, processes):
    server = trial.serve(output="strangers.json")
    processes.append(server)
    url = server.url()
    # A token that nobody has, and another party's name under one's own token.
    with pytest.raises(RefusedError, match="token"):
        take_part(trial, url, "north", word="0" * 64)
    server.line("refused a stranger: this token is not one of this run")
    with pytest.raises(RefusedError, match="takes this party for 'south'"):
        take_part(trial, url, "north", word=trial.word("south"))
    # A server that another authority has signed for, as the client sees it.
    with pytest.raises(RefusedError, match="certificate of the other side is not valid"):
        take_part(trial, url, "north", ca="rogue.pem")
    server.line(r"refused a connection: the TLS handshake failed \(tlsv1 alert unknown ca\)")
    # A client whose certificate is another authority's, and one without any.
    with pytest.raises(RefusedError, match="does not take this party's certificate"):
        take_part(trial, url, "north", cert="impostor")
    server.line("refused a connection: the certificate of the other side is not valid")
    with pytest.raises(RefusedError, match="does not take this party's certificate"):
        take_part(trial, url, "north", files=("ca.pem",))
    server.line(r"refused a connection: the TLS handshake failed \(peer did not return")
    # A process says it in a line, and ends with the code for wrong use.
    joining = trial.join("north", url, ca="rogue.pem")
    processes.append(joining)
    assert joining.wait() == 2
    last = joining.lines[-1]
    assert last.startswith("dpsco federated join: no secure connection to the coordinator")
    # Too many strangers are not even answered in words.
    with Visitor(trial, url, "f" * 64) as stranger:
        statuses, deadline = set(), time.monotonic() + PATIENCE
        while 429 not in statuses and time.monotonic() < deadline:
            statuses.add(stranger.get("/v1/request")[0])
    assert statuses == {401, 429}


def test_who_asks_nothing_keeps_nobody_out(trial, monkeypatch):
    """More connections than the server takes, and none asks, or ends its head: they are closed."""
    from dpsco.federated.transport import Tokens, serve, server
    from dpsco.federated.transport.gathering import opened

    monkeypatch.setattr(server, "_HEAD", 2.0)
    agreement, tokens, said = Agreement(trial.plan), Tokens.load(trial.folder / "tokens.json"), []
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(server.listening("127.0.0.1", 0))
        run = stack.enter_context(opened(agreement, SILOS, say=said.append))
        where = {"host": "127.0.0.1", "port": 0, "plain": True, "listener": listener}
        thread = threading.Thread(target=lambda: suppressed(serve, run, tokens, **where))
        thread.start()
        address = listener.getsockname()
        for k in range(8 * len(SILOS) + 32):
            idle = stack.enter_context(socket.create_connection(address))
            idle.sendall(b"GET /v1/request HTTP/1.1\r\n" if k % 2 else b"")
        url, headers = f"http://127.0.0.1:{address[1]}", {"authorization": "Bearer none"}
        statuses, deadline = set(), time.monotonic() + PATIENCE
        while 401 not in statuses and time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):  # closed like the idle ones
                reply = httpx.get(f"{url}/v1/request", headers=headers, timeout=PATIENCE)
                statuses.add(reply.status_code)
            time.sleep(0.1)
        assert 401 in statuses
        # A second question for work ends the one before it, which nobody may be waiting for.
        headers = {"authorization": f"Bearer {trial.word('west')}"}
        how = {"headers": headers, "timeout": PATIENCE}
        httpx.post(f"{url}/v1/agree", content=agreement.terms.to_json(), **how)
        request = Request.from_json(httpx.get(f"{url}/v1/request", **how).content)
        answer = odd_answers(request)[1]
        httpx.post(f"{url}/v1/answer", content=answer, **how)
        before = socket.create_connection(address)
        head = f"GET /v1/request HTTP/1.1\r\nHost: x\r\nAuthorization: {headers['authorization']}"
        before.sendall(f"{head}\r\n\r\n".encode())
        before.settimeout(0.5)
        with pytest.raises(TimeoutError):
            before.recv(1)
        after = threading.Thread(
            target=lambda: suppressed(httpx.get, f"{url}/v1/request", headers=headers)
        )
        after.start()
        before.settimeout(PATIENCE)
        assert before.recv(100).startswith(b"HTTP/1.1 204")
        before.close()
        run.stop()
        for each in (thread, after):
            each.join(PATIENCE)
            assert not each.is_alive()


def suppressed(call, *args, **options):
    with contextlib.suppress(Exception):
        call(*args, **options)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--listen", "0.0.0.0:0", "--plain-http"), "stays on this machine"),
        (("--listen", "127.0.0.1:0"), "needs TLS"),
        (("--listen", "nowhere"), "HOST:PORT"),
        (("--listen", "127.0.0.1:0", "--plain-http", "--minimum", "4"), "at most the number"),
        (("--listen", "127.0.0.1:0", "--client-ca", "ca.pem"), "go together"),
    ],
)
def test_a_coordinator_refuses_before_it_listens(trial, words, reason, capsys, monkeypatch):
    from dpsco.cli import main

    monkeypatch.chdir(trial.folder)
    files = ("--plan", "plan.json", "--tokens", "tokens.json", "-o", "x.json")
    assert main(["federated", "serve", *files, *words]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert not (trial.folder / "x.json").exists()


@pytest.mark.parametrize(
    ("url", "more", "reason"),
    [
        ("http://127.0.0.1:1", (), "needs TLS"),
        ("http://10.0.0.1:1", ("--plain-http",), "stays on this machine"),
        ("https://127.0.0.1:1/path?token=1", ("--ca", "ca.pem"), "HOST:PORT and nothing else"),
        ("https://127.0.0.1:1", (), "needs the authority"),
        ("https://127.0.0.1:1", ("--cert", "north.pem"), "with --ca"),
        ("https://127.0.0.1:1", ("--ca", "ca.pem", "--mask-key", "x"), "go together"),
        ("https://127.0.0.1:1", ("--ca", "plan.json"), "cannot use plan.json for TLS"),
    ],
)
def test_a_party_refuses_before_it_reads(trial, url, more, reason, capsys, monkeypatch):
    from dpsco.cli import main

    monkeypatch.chdir(trial.folder)
    files = ("--plan", "plan.json", "--name", "north", "--token-file", "north.token")
    journal = ("--journal", "refused.journal", "--patience", "0.1")
    assert main(["federated", "join", url, *files, *journal, *more]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert not (trial.folder / "refused.journal").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--minimum", "4"), "at most the number"),
        (("--timeout", "-1"), "timeout must be"),
        (("--roster", "roster.json"), "those of the roster"),
        ((), "cannot listen on"),
    ],
)
def test_what_is_refused_is_not_paid_for(trial, words, reason, capsys, monkeypatch):
    from dpsco.cli import main

    monkeypatch.chdir(trial.folder)
    trial.write_plan("masked.json", rounds=2, clip=1.0)
    trial.roster(helpers=("court",))
    odometer = dp.Odometer("trial.odometer", dp.ApproxDP(5.0, 1e-6))
    files = ("--plan", "masked.json", "--tokens", "tokens.json", "--odometer", "trial.odometer")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{0 if words else taken.getsockname()[1]}"
        how = ("--listen", where, "--plain-http", "-o", "x.json")
        assert main(["federated", "serve", *files, *how, *words]) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert not odometer.entries()
    Path("trial.odometer").unlink()


def test_a_token_that_others_can_read_is_refused(trial, tmp_path):
    from dpsco.federated.transport.tokens import Tokens, issue, load_word

    issue("north", tmp_path / "tokens", tmp_path / "word")
    assert len(load_word(tmp_path / "word")) == 64
    assert load_word(tmp_path / "word") not in (tmp_path / "tokens").read_text()
    assert Tokens.load(tmp_path / "tokens").party(load_word(tmp_path / "word")) == "north"
    for name, load in (("tokens", Tokens.load), ("word", load_word)):
        (tmp_path / name).chmod(0o640)
        with pytest.raises(DataError, match="chmod 600"):
            load(tmp_path / name)
        (tmp_path / name).chmod(0o600)
    with pytest.raises(ParameterError, match="has a token"):
        issue("north", tmp_path / "tokens", tmp_path / "other")
    issue("south", tmp_path / "tokens", tmp_path / "other")
    assert list(Tokens.load(tmp_path / "tokens").digests) == ["north", "south"]
    record = json.loads((tmp_path / "tokens").read_text())
    record["parties"]["north"] = "short"
    (tmp_path / "tokens").write_text(json.dumps(record))
    with pytest.raises(DataError, match="damaged"):
        Tokens.load(tmp_path / "tokens")
