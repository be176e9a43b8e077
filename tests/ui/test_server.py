"""`dpsco ui` as a process: it listens here alone, ends with Ctrl-C, and keeps what was paid for."""

import http.client
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from dpsco.cli import main
from dpsco.errors import MissingExtraError
from dpsco.ui import server


@pytest.fixture
def process(tmp_path, odometer):
    """A running ``dpsco ui``, and the address that it has printed."""
    command = [sys.executable, "-m", "dpsco", "ui", "--folder", str(tmp_path / "out")]
    command += ["--odometer", str(odometer.path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        lines = [process.stdout.readline() for _ in range(3)]
        match = re.search(r"http://127\.0\.0\.1:(\d+)(/start\?token=\w+)", lines[2])
        assert match, (lines, process.stderr.read() if process.poll() is not None else "")
        yield process, int(match[1]), match[2]
        process.kill()


def answer(port, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers=headers)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply, text


@pytest.mark.slow
def test_it_serves_this_machine_alone_until_ctrl_c(process):
    process, port, start = process
    reply, _ = answer(port, start)
    assert reply.status == 303
    cookie = reply.headers["set-cookie"].partition(";")[0]
    assert answer(port, "/table", cookie=cookie)[1].startswith("<!doctype html>")
    assert answer(port, "/table")[0].status == 403
    assert answer(port, start, host=f"evil.example:{port}")[0].status == 421
    assert "server" not in reply.headers
    with socket.socket() as other:
        other.settimeout(2)
        assert other.connect_ex(("127.0.0.2", port)) != 0
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 0
    assert err == ""
    assert "table" not in out  # no address is logged


@pytest.fixture
def fit(client, table, held):
    """A fit that has been paid for, and waits in its first round."""
    client.declare(table)
    client.choose()
    client.fit()
    end = time.monotonic() + 30
    while client.study.fit.payer.entry is None and time.monotonic() < end:
        time.sleep(0.01)
    return client.study.fit


def test_after_ctrl_c_a_fit_goes_on_to_its_end(fit, client, held):
    said = []
    threading.Timer(0.2, held.set).start()
    assert server._finish(client.study, said.append)
    assert "goes on to its end" in said[0]
    assert said[1] == f"The files of the fit are in {fit.folder}."
    assert (fit.folder / "model.json").exists()


def test_a_second_ctrl_c_gives_a_fit_up_and_says_what_was_paid(fit, client, held, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    said = []
    with monkeypatch.context() as patch:
        patch.setattr(type(fit), "join", interrupted)
        assert not server._finish(client.study, said.append)
    assert "given up. The odometer has been charged (entry 1)" in said[1]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"--odometer": "nowhere.odometer"}, "dpsco odometer create"),
        ({"--folder": "taken"}, "cannot use the folder"),
        ({"--port": "99999"}, "--port must lie from 0 to 65535"),
        ({"--expect-at-least": "7"}, "old copy"),
    ],
)
def test_wrong_use_is_a_sentence(tmp_path, odometer, capsys, monkeypatch, changes, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    options = {"--folder": "out", "--odometer": odometer.path.name, **changes}
    assert main(["ui", *(word for pair in options.items() for word in pair)]) == 2
    assert sentence in capsys.readouterr().err


def test_a_port_that_is_taken_is_a_sentence(tmp_path, odometer, capsys):
    with server.listening(0) as other:
        port = str(other.getsockname()[1])
        options = ["--folder", str(tmp_path / "out"), "--odometer", str(odometer.path)]
        assert main(["ui", *options, "--port", port]) == 2
    assert f"cannot listen on port {port}" in capsys.readouterr().err


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(server, "find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(MissingExtraError, match=r"needs uvicorn.*dpsco\[ui\]"):
        server.require()
