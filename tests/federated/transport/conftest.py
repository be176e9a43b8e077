"""A trial of three hospitals: tables, one plan, certificates and tokens, and processes that run."""

import datetime
import ipaddress
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

import dpsco as dp
from dpsco.data import ClassLabel, Number, Schema, TableEncoder
from dpsco.federated import Agreement, PairwiseMasks, Roster, Silo
from dpsco.federated.pairwise_masks import load_key, public_half
from dpsco.federated.transport.tokens import issue, load_word
from dpsco.models.config import configure_for
from dpsco.models.plan import plan_model

SILOS = {"north": 4096, "south": 4096, "west": 1000}  # whole leaves of a sum first: see the tests
SCHEMA = Schema(
    tuple(Number(name, -1, 1) for name in "abc"), label=ClassLabel("ill", ("no", "yes"))
)
PATIENCE = 240.0  # seconds: a process needs two to start, many times that on a busy machine


class Trial:
    """Everything that the sides of a run have, in one folder."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "schema.json").write_text(SCHEMA.to_json())
        rng, tables = np.random.default_rng(0), []
        for name, rows in SILOS.items():
            X = rng.uniform(-1, 1, (rows, 3))
            ill = np.where(X @ [3, -2, 1] + rng.logistic(size=rows) > 0, "yes", "no")
            tables.append(pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "ill": ill}))
            pq.write_table(tables[-1], folder / f"{name}.parquet")
            issue(name, folder / "tokens.json", folder / f"{name}.token")
        self.whole = pa.concat_tables(tables)
        self.plan = self.write_plan("plan.json", rounds=6)

    def write_plan(self, name, solver="noisy_gd", **options):
        plan = plan_model(
            configure_for(SCHEMA),
            n=sum(SILOS.values()),
            d=3,
            budget=dp.ApproxDP(1.0, 1e-8),
            solver=solver,
            options=options,
            units="declared",
            count_rows=False,
        ).fit
        (self.folder / name).write_text(plan.to_json())
        return plan

    def table(self, name):
        return dp.data.from_frame(
            pq.read_table(self.folder / f"{name}.parquet"), encoder=TableEncoder(SCHEMA)
        )

    def silo(self, name, agreement=None, **more):
        return Silo(self.table(name), agreement or Agreement(self.plan), name=name, **more)

    def word(self, name):
        return load_word(self.folder / f"{name}.token")

    def central(self, plan=None, seed=3):
        """Return the weights of the run in one place."""
        table = dp.data.from_frame(self.whole, encoder=TableEncoder(SCHEMA))
        randomness = dp.Randomness.seeded(seed)
        return dp.run(plan or self.plan, table, order="given", randomness=randomness).weights

    def roster(self, helpers=()):
        """Return a roster, and make its file and keys."""
        keys = {}
        for name in (*SILOS, *helpers):
            key = X25519PrivateKey.generate()
            pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            path = self.folder / f"{name}.mask"
            path.touch(0o600)
            path.write_bytes(pem)
            keys[name] = public_half(key)
        roster = Roster({n: keys[n] for n in SILOS}, {n: keys[n] for n in helpers}, minimum=2)
        (self.folder / "roster.json").write_text(roster.to_json())
        return roster

    def masks(self, name, roster):
        return PairwiseMasks(name, roster, load_key(self.folder / f"{name}.mask"))

    # -- processes ---------------------------------------------------------------------------------

    def serve(self, *more, port=0, tls=True, plan="plan.json", output="model.json"):
        files = ("--tls-cert", "server.pem", "--tls-key", "server.key", "--client-ca", "ca.pem")
        return Process(
            self.folder,
            *("federated", "serve", "--plan", plan, "--schema", "schema.json", "--seed", "3"),
            *("--listen", f"127.0.0.1:{port}", "--tokens", "tokens.json", "-o", output, "--force"),
            *(files if tls else ("--plain-http",)),
            *more,
        )

    def join(self, name, url, *more, plan="plan.json", cert=None, ca="ca.pem", journal=None):
        cert = cert or name
        files = ("--ca", ca, "--cert", f"{cert}.pem", "--key", f"{cert}.key")
        return Process(
            self.folder,
            *("federated", "join", url, "--plan", plan, "--schema", "schema.json"),
            *("--table", f"{name}.parquet", "--name", name, "--token-file", f"{name}.token"),
            *("--journal", journal or f"{name}.{plan}.journal", "--patience", "240"),
            *(files if url.startswith("https") else ("--plain-http",)),
            *more,
        )

    def certificates(self):
        """Make two authorities, and certificates of everybody by the first of them."""
        for authority, names in (("ca", ("server", *SILOS)), ("rogue", ("impostor",))):
            key, root = certificate(authority, None, None)
            write_pair(self.folder, authority, key, root)
            for name in names:
                write_pair(self.folder, name, *certificate(name, key, root))


class Process:
    """One ``dpsco`` process, whose every line is kept."""

    def __init__(self, folder, *words):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        source = str(Path(dp.__file__).parents[1])
        environment["PYTHONPATH"] = source
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dpsco", *map(str, words)],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def text(self):
        return "\n".join(self.lines)

    def line(self, pattern):
        """Return the match of a line, as soon as there is one."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found
            if self.process.poll() is not None and not self._reader.is_alive():
                break
            time.sleep(0.02)
        raise AssertionError(f"no line {pattern!r} in:\n{self.text}")

    def url(self):
        return self.line(r"listening on (\S+)")[1]

    def kill(self):
        """End it as a crash does."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait(self):
        """Return the exit code."""
        code = self.process.wait(PATIENCE)
        self._reader.join()
        return code

    def end(self):
        if self.process.poll() is None:
            self.kill()
        self._reader.join()
        self.process.stdout.close()


def certificate(name, signer, root):
    """Return a key, and a certificate by an authority, or one that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    today = datetime.datetime.now(datetime.timezone.utc)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    public = (signer or key).public_key()
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(root.subject if root else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=root is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), False)
    )
    return key, builder.sign(signer or key, hashes.SHA256())


def write_pair(folder, name, key, cert):
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / f"{name}.key").write_bytes(pem)
    (folder / f"{name}.pem").write_bytes(cert.public_bytes(Encoding.PEM))


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """One trial for a file of tests: its files are read, outputs have names of their own."""
    result = Trial(tmp_path_factory.mktemp("trial"))
    result.certificates()
    return result


@pytest.fixture
def processes():
    """A list of processes that end with the test."""
    result = []
    yield result
    for process in result:
        process.end()
