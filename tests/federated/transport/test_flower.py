"""A run as a Flower app: a SuperLink, SuperNodes and the processes that they start, on loopback.

`make flower` runs it, in an environment of its own: Flower pins versions that others do not share.
A process of Flower starts for every message, so two rounds take most of a minute.
"""

import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dpsco as dp
from dpsco.federated import Agreement, Coordinator
from dpsco.models import SavedModel

from .conftest import SILOS, Trial
from .test_processes import same_bits, worker_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("flwr") is None,
        reason="Flower is not in this environment: make flower has one with it",
    ),
]

PROJECT = """
[project]
name = "trial"
version = "1.0.0"
description = "One model of three hospitals"
license = "Apache-2.0"
dependencies = []

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.flwr.app]
publisher = "hospitals"

[tool.flwr.app.components]
serverapp = "trial.apps:server_app"
clientapp = "trial.apps:client_app"

[tool.flwr.app.config]
plan = ""
schema = "{folder}/schema.json"
parties = "north south west"
output = ""
roster = ""
odometer = ""
seed = 3
"""
APPS = """
from dpsco.federated.transport import flower_app

server_app = flower_app.server_app
client_app = flower_app.client_app
"""
CONFIG = """
[superlink]
default = "trial"

[superlink.trial]
address = "127.0.0.1:{port}"
insecure = true
"""


def free_ports(count):
    with_sockets = [socket.socket() for _ in range(count)]
    for each in with_sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in with_sockets]
    for each in with_sockets:
        each.close()
    return ports


class Flower:
    """Processes of Flower in one folder."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        self.link, *self.nodes = free_ports(1 + len(SILOS))
        home = folder / "flower"
        home.mkdir()
        (home / "config.toml").write_text(CONFIG.format(port=self.link))
        (folder / "app" / "trial").mkdir(parents=True)
        (folder / "app" / "pyproject.toml").write_text(PROJECT.format(folder=folder))
        (folder / "app" / "trial" / "__init__.py").write_text("")
        (folder / "app" / "trial" / "apps.py").write_text(APPS)
        tools = str(Path(sys.executable).parent)
        self.environment = {
            **os.environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(dp.__file__).parents[1]),
            "OPENBLAS_NUM_THREADS": "1",
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        }

    def start(self, name, *words):
        log = (self.folder / f"{name}.log").open("w")
        self.processes.append(
            subprocess.Popen(words, env=self.environment, cwd=self.folder, stdout=log, stderr=log)
        )
        log.close()

    def begin(self):
        """Start the SuperLink, and wait until it listens."""
        installs = "--disable-runtime-dependency-installation"
        words = ("--insecure", installs, "--port", str(self.link))
        self.start("link", "flower-superlink", *words)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.link)) == 0:
                    break
            time.sleep(0.1)

    def join(self, plan, masked=False):
        """Start the SuperNodes, each with its own configuration; end those of a run before."""
        self.end(self.processes[1:])
        for name, port in zip(SILOS, self.nodes, strict=True):
            files = {
                "plan": plan,
                "schema": "schema.json",
                "table": f"{name}.parquet",
                "journal": f"{name}.{plan}.journal",
                **({"roster": "roster.json", "mask-key": f"{name}.mask"} if masked else {}),
            }
            config = {"name": name, **{key: self.folder / file for key, file in files.items()}}
            words = " ".join(f'{key}="{value}"' for key, value in config.items())
            address = ("--superlink", f"127.0.0.1:{self.link}", "--port", str(port))
            self.start(name, "flower-supernode", "--insecure", *address, "--node-config", words)

    def run(self, **settings):
        words = " ".join(f'{key}="{value}"' for key, value in settings.items())
        return subprocess.run(
            ["flwr", "run", "app", "trial", "--stream", "--run-config", words],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def end(self, processes):
        for process in processes:
            process.terminate()
        for process in list(processes):
            self.processes.remove(process)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def flower(tmp_path_factory):
    trial = Trial(tmp_path_factory.mktemp("flower"))
    result = Flower(trial.folder)
    result.trial = trial
    try:
        result.begin()
        yield result
    finally:
        result.end(result.processes[::-1])


def logs(flower):
    return "\n".join(path.read_text() for path in flower.folder.glob("*.log"))


def test_a_flower_app_fits_what_one_table_fits(flower):
    """Client-held rows and a trusted coordinator: the same bits as in one place."""
    trial, output = flower.trial, flower.folder / "flower.json"
    trial.plan = trial.write_plan("two.json", rounds=2)
    flower.join("two.json")
    odometer = dp.Odometer(flower.folder / "odometer", dp.ApproxDP(3.0, 1e-6))
    run = flower.run(output=output, plan=flower.folder / "two.json", odometer=odometer.path)
    assert output.exists(), run.stdout + run.stderr + logs(flower)
    model = SavedModel.load(output)
    assert same_bits(model, trial.central(), trial.plan)
    assert model.verify(cross_check=False).ok
    assert re.search("round 2 of 2 closed with 3 of 3", run.stdout)
    assert len(odometer.entries()) == 1


def test_a_flower_app_adds_integers_behind_masks(flower):
    """The nodes hide their answers from each other and from the server; the sum is exact."""
    trial, output = flower.trial, flower.folder / "masked.json"
    roster, trial.plan = trial.roster(), trial.write_plan("one.json", rounds=1)
    flower.join("one.json", masked=True)
    files = {"plan": flower.folder / "one.json", "roster": flower.folder / "roster.json"}
    run = flower.run(output=output, **files)
    assert output.exists(), run.stdout + run.stderr + logs(flower)
    agreement = Agreement(trial.plan, roster)
    how = {"trust": agreement.trust, "encoding": agreement.encoding}
    alone = Coordinator(trial.plan, randomness=dp.Randomness.seeded(3), **how)
    workers = [worker_of(trial, name, agreement) for name in SILOS]
    while not alone.finished:
        request = alone.request()
        vectors = [worker.answer(request).vector for worker in workers]
        total = agreement.encoding.add(vectors, request.size)
        alone.receive_sum(total, round=request.round, workers=list(SILOS))
    assert same_bits(SavedModel.load(output), alone.result().weights, trial.plan)
