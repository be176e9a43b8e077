"""A table with canaries, an odometer, and a browser that is a function."""

import asyncio
import random
import re
import threading
import time
from urllib.parse import urlencode

import pytest

from dpsco.models.plan import ModelPlan
from dpsco.privacy.budget import ApproxDP
from dpsco.privacy.odometer.odometer import Odometer
from dpsco.ui.app import application
from dpsco.ui.guard import Keys
from dpsco.ui.study import Study

CANARY = 918273.4655
WORD = "canary-row"
ROWS = 600
COLUMNS = {
    "kind-0": "number", "low-0": "0", "high-0": "100", "source-0": "the form has two digits",
    "kind-1": "category", "values-1": "state\r\nself", "other-1": "on",
    "kind-2": "flag",
    "kind-3": "label classes", "values-3": "low\r\nhigh",
}  # fmt: skip
"""What is typed about the columns of the table."""


def write_table(path):
    """Write a table of which one row is a canary: outside every range, in every column."""
    draw = random.Random(5)
    lines = ["age,work,owner,income"]
    for _ in range(ROWS - 1):
        age = draw.randint(18, 90)
        work = draw.choice(["state", "self"])
        lines.append(f"{age},{work},{draw.randint(0, 1)},{'high' if age > 50 else 'low'}")
    lines.insert(300, f"{CANARY},{WORD},{CANARY},{WORD}")
    path.write_text("\n".join(lines) + "\n")
    return path


class Answer:
    """What came back."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.text = status, headers, body.decode()

    @property
    def alert(self):
        found = re.search(r'class="alert"[^>]*>(.*?)</p>', self.text, re.DOTALL)
        return "" if found is None else found[1]


class Client:
    """Speaks with the application as a browser does that has the cookie; keeps what it hears."""

    def __init__(self, study, keys):
        self.study, self.keys, self.heard = study, keys, []
        self.app = application(study, keys)
        self.cookie = f"{keys.cookie}={keys.session}"

    def send(self, method, path, body=b"", **changes):
        """Send a request; ``changes`` replace headers, None removes one."""
        headers = {"host": self.keys.host, "cookie": self.cookie}
        if method == "POST":
            headers |= {"origin": self.keys.origin, "content-length": str(len(body))}
            headers["content-type"] = "application/x-www-form-urlencoded"
        headers |= {name.replace("_", "-"): value for name, value in changes.items()}
        path, _, query = path.partition("?")
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "root_path": "", "server": ("127.0.0.1", self.keys.port), "client": ("127.0.0.1", 1),
            "headers": [(k.encode(), v.encode()) for k, v in headers.items() if v is not None],
        }  # fmt: skip
        messages = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def answer(message):
            messages.append(message)

        asyncio.run(self.app(scope, receive, answer))
        start = messages[0]
        lines = {k.decode().lower(): v.decode() for k, v in start["headers"]}
        text = b"".join(message.get("body", b"") for message in messages[1:])
        result = Answer(start["status"], lines, text)
        self.heard += [str(lines), result.text]
        return result

    def get(self, path, **changes):
        return self.send("GET", path, **changes)

    def post(self, path, fields=None, **changes):
        fields = {"csrf": self.keys.form, **(fields or {})}
        return self.send("POST", path, urlencode(fields).encode(), **changes)

    # -- steps ---------------------------------------------------------------------------------

    def declare(self, table):
        assert self.post("/table", {"path": str(table), "origin": "names"}).status == 303
        assert self.columns(COLUMNS).status == 303

    def columns(self, fields):
        return self.post("/columns", {"version": self.study.version, **fields})

    def choose(self, epsilon="1", **more):
        assert self.post("/epsilon", {"epsilon": epsilon, **more}).status == 303

    @property
    def digest(self):
        """Of the plan that the page of the fit shows."""
        found = re.search(r'name="digest" value="(\w+)"', self.get("/fit").text)
        return "" if found is None else found[1]

    def fit(self, digest=None, **more):
        fields = {"agreed": "on", "digest": self.digest if digest is None else digest, **more}
        return self.post("/fit", fields)

    def wait(self):
        """Wait for the end of the fit."""
        end = time.monotonic() + 30
        while self.study.fit.state == "running" and time.monotonic() < end:
            time.sleep(0.02)
        return self.study.fit.state


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "rows.csv")


@pytest.fixture
def odometer(tmp_path):
    return Odometer(tmp_path / "rows.odometer", ApproxDP(3.0, 1e-6))


@pytest.fixture
def study(tmp_path, odometer):
    study = Study(tmp_path / "out", odometer)
    yield study
    if study.fit is not None:
        study.fit.join()
    study.close()


@pytest.fixture
def client(study):
    return Client(study, Keys(4321))


@pytest.fixture
def quick_report(monkeypatch):
    """Leave the report out of fits, which takes seconds, where it is not what a test is about."""
    monkeypatch.setattr("dpsco.ui.fitting.report_of", lambda saved: "<!doctype html>")


@pytest.fixture
def held(monkeypatch, quick_report):
    """Hold every fit after its payment, until the event is set."""
    gate, run = threading.Event(), ModelPlan.run

    def wait(self, table, *, progress, **how):
        def slow(done, total):
            progress(done, total)
            assert gate.wait(30)

        return run(self, table, progress=slow, **how)

    monkeypatch.setattr(ModelPlan, "run", wait)
    yield gate
    gate.set()
