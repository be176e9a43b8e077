"""What a user does with each kind of file, and the mutated files themselves."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dpsco as dp
from dpsco.data import Schema, TableEncoder
from dpsco.federated import Agreement, Answer, Request, Roster, Worker
from dpsco.federated.terms import Terms
from dpsco.fit.checkpoint.checkpoint import peek
from dpsco.models import SavedModel
from dpsco.privacy.mechanisms import GaussianRelease
from dpsco.privacy.mechanisms.prefix_sum.mechanism import MECHANISMS
from dpsco.privacy.release import RELEASE_KINDS
from dpsco.solvers import registry

from . import samples
from .databases import damaged
from .mutations import damage, mutate, signed, text_of

WORDS = [
    *registry(), *RELEASE_KINDS, *MECHANISMS, *dp.losses.__all__, *dp.domains.__all__, "zero_out",
    "replace_one", "add_remove", "tight", "paper", "conjectured", "approx_dp", "pure_dp", "zcdp",
    "gdp", "poisson", "fixed_size", "full", "float", "Budget", "Release", "Classes", "Problem",
    "Bounds", "Scaled", "logistic", "svc", "huber", "number", "category", "hashed", "flag",
    "ignore", "classes", "sign", "uint64", "float64", "noise_helpers", "secure_aggregation",
]  # fmt: skip
SHARES = {
    "plan": 28, "certificate": 22, "model": 14, "schema": 10, "checkpoint": 9, "odometer": 9,
    "message": 8,
}  # fmt: skip


class Fuzzer:
    """Makes mutated files in a folder, and reads them as a user would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkpoints = samples.checkpoints(folder)
        self.odometers = samples.odometers(folder)
        self.texts: dict[str, list[Any]] = {
            "plan": [json.loads(text) for text in samples.plans()],
            "certificate": samples.certificates(),
            "model": samples.models(),
            "schema": samples.schemas(),
            "message": [json.loads(text) for text in samples.messages()],
        }

    def case(self, kind: str, number: int) -> Callable[[], Any]:
        """Write one mutated file, and return what is to be done with it."""
        rng = random.Random(f"{kind} {number}")
        path = self.folder / f"case.{kind}"
        for left in self.folder.glob("case.*"):
            left.unlink()
        if kind == "checkpoint":
            source, key = rng.choice(self.checkpoints)
            shutil.copy(source, path)
            damaged(path, rng, WORDS)
            os.chmod(path, 0o600)
            return lambda: read_checkpoint(path, key)
        if kind == "odometer":
            source = rng.choice(self.odometers)
            for ending in ("", ".counter"):
                shutil.copy(f"{source}{ending}", f"{path}{ending}")
            damaged(path, rng, WORDS)
            return lambda: read_odometer(path)
        content = self._content(kind, rng)
        if kind == "message":
            return lambda: read_message(content)
        path.write_bytes(content)
        if rng.random() < 0.005:
            os.truncate(path, 10**10)  # sparse: it takes no room
        return lambda: _READERS[kind](path)

    def _content(self, kind: str, rng: random.Random) -> bytes:
        """Return a mutated text of a kind."""
        record = rng.choice(self.texts[kind])
        if rng.random() < 0.2:
            return damage(json.dumps(record).encode(), rng)
        record = mutate(record, rng, WORDS)
        if kind in ("certificate", "model") and rng.random() < 0.9:
            record = signed(record)
        return text_of(record, rng).encode("utf-8", "surrogatepass")


def read_plan(path: Path) -> None:
    """Load a plan, and show it."""
    from dpsco.cli.config import load_plan

    plan = load_plan(path)
    str(plan)
    plan.to_json()


def read_certificate(path: Path) -> None:
    """Load a certificate, and verify it."""
    str(dp.Certificate.load(path).verify())


def read_model(path: Path) -> None:
    """Load a model, verify it, and predict."""
    saved = SavedModel.load(path)
    saved.certificate.verify()
    if saved.schema is not None:
        import pandas as pd

        saved.predict(pd.DataFrame({"age": [10.0, 90.0], "job": ["a", "b"]}))
    else:
        saved.predict(np.zeros((2, 3)))


def read_schema(path: Path) -> None:
    """Load a schema, make its encoder, and encode a small table."""
    import pandas as pd

    encoder = TableEncoder(Schema.load(path))
    table = {"age": [10.0, 90.0], "job": ["a", "b"], "town": ["u", "v"], "owner": [True, False]}
    encoder.features(pd.DataFrame(table))


def read_checkpoint(path: Path, key: str) -> None:
    """Look how far a run is, and go on with it."""
    peek(path)
    dp.run(samples.batch_plans()[key], samples.rows(), checkpoint=path)


def read_odometer(path: Path) -> None:
    """Open an odometer, report, and spend."""
    odometer = dp.Odometer(path)
    str(odometer)
    odometer.spend(GaussianRelease(1.0, 1000.0, rows=(0, 10)), label="one more")
    odometer.committed("0" * 32)
    odometer.cost()


def read_message(content: bytes) -> None:
    """Read a message as whoever gets it: a task is answered, an answer is looked at."""
    if b'"worker"' in content:
        repr(Answer.from_json(content))
        return
    if b'"workers"' in content:
        _ = Roster.from_json(content).digest
        return
    if b'"protocol"' in content:
        plan = samples.batch_plans()["acc_srgd"]
        Agreement(plan).terms.objection(Terms.from_json(content))
        return
    plan = samples.batch_plans()["acc_srgd"]
    X, y = samples.rows()
    Worker((X[:40], y[:40]), plan, name="one").answer(Request.from_json(content))


_READERS: dict[str, Callable[[Path], None]] = {
    "plan": read_plan,
    "certificate": read_certificate,
    "model": read_model,
    "schema": read_schema,
}
