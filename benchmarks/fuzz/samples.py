"""Honest plans, certificates, models, schemas, checkpoints, odometers and messages, all small."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import dpsco as dp
from dpsco.data import (
    Category,
    ClassLabel,
    Date,
    Flag,
    Hashed,
    Ignore,
    Number,
    NumberLabel,
    Schema,
    Text,
)
from dpsco.errors import DpscoError
from dpsco.federated import Agreement, Answer, FixedPoint, Request, Roster, fingerprint
from dpsco.federated.pairwise_masks import public_half
from dpsco.models import Provenance, SavedModel, configure
from dpsco.privacy.accounting.composition import cost
from dpsco.privacy.certificate import Certificate
from dpsco.privacy.mechanisms import (
    ClipQuantileRelease,
    FixedSizeGaussianRelease,
    GaussianRelease,
    GeneralizedGaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    RepeatedSelectionRelease,
    SelectionRelease,
    ShuffledRelease,
    ShuffledSequenceRelease,
    StableGammaRelease,
    WithReplacementRelease,
)
from dpsco.privacy.mechanisms.prefix_sum.mechanism import mechanism
from dpsco.privacy.mechanisms.repeated_selection.profile import Runs
from dpsco.solvers import registry

N, D = 240, 3
BUDGET = dp.ApproxDP(2.0, 1e-5)
PROBLEMS = (
    dp.Problem(
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(1.0, label="sign", intercept=0.5),
        domain=dp.domains.L2Ball(5.0),
    ),
    dp.Problem(loss=dp.losses.Huber(0.5), bounds=dp.Bounds(2.0, label=1.5)),
    dp.Problem(
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        penalty=dp.losses.L2Penalty(0.05),
    ),
    dp.Problem(
        loss=dp.losses.Softmax(3),
        bounds=dp.Bounds(1.0, label=dp.data.Classes(["a", "b", "c"])),
        domain=dp.domains.L2Ball(3.0),
    ),
    dp.Problem(
        loss=dp.losses.Hinge(),
        bounds=dp.Bounds(3.0, label="sign"),
        domain=dp.domains.Box([-1.0, -2.0, -1.0], [1.0, 2.0, 3.0]),
    ),
)
SCHEMAS = (
    Schema(
        (Number("age", 0, 100, source="the form"), Category("job", ("a", "b"))),
        label=ClassLabel("ill", ("no", "yes")),
    ),
    Schema(
        (
            Number("age", 0, 100, missing="indicator"),
            Category("job", ("a", "b"), other=True),
            Hashed("town", 16, signed=True),
            Flag("owner"),
            Ignore("id"),
        ),
        label=NumberLabel("pay", 0, 1000),
    ),
    Schema(
        (
            Date("since", "2000-01-01", "2029-12-31", "month", "indicator", "dmy"),
            Text("note", 64, ngrams=(1, 3), of="letters", most=50),
        ),
        decimal=",",
        separator=";",
        encoding="cp1252",
    ),
)


def rows() -> tuple[Any, Any]:
    """Return the table that checkpoints and workers run on."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, D)) * 0.5
    return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(N) > 0, 1.0, -1.0)


@lru_cache(maxsize=1)
def plans() -> list[str]:
    """Return the text of a plan of every solver, on every problem that it takes."""
    found = []
    for key in registry():
        for problem in PROBLEMS:
            try:
                made = dp.plan(problem, n=N, d=D, budget=BUDGET, solver=key)
            except DpscoError:
                continue
            found.append(made.to_json())
    return found


def _certificate(*planned: Any) -> Certificate:
    """Return the certificate of releases that are all executed by name only."""
    budget = dp.ApproxDP(50.0, 1e-5)
    spent = cost(planned, adjacency=budget.adjacency, unit=budget.unit)
    return Certificate.of(
        budget,
        tuple(planned),
        spent,
        randomness="none",
        reproducible=False,
        enforced=("nothing",),
        trusted=(),
    )


@lru_cache(maxsize=1)
def certificates() -> list[dict[str, Any]]:
    """Return certificates of every kind of release."""
    all_rows, adjacency, theorem = (0, 1000), "replace_one", "a theorem"
    plain = GaussianRelease(1.0, 5.0, rows=all_rows)
    kinds: list[tuple[Any, ...]] = [
        (plain, GaussianRelease(1.0, 5.0, rows=(100, 200), count=7)),
        (GeneralizedGaussianRelease(1.0, 5.0, 3.0, rows=all_rows), plain),
        (SelectionRelease(1.0, 5.0, 10, rows=all_rows, count=5),),
        (SelectionRelease(1.0, 5.0, 10, "laplace", rows=all_rows), plain),
        (PoissonGaussianRelease(1.0, 2.0, 0.05, rows=all_rows, count=50),),
        (FixedSizeGaussianRelease(1.0, 3.0, 20, rows=all_rows, count=20),),
        (ShuffledRelease(1.0, 2.0, rows=all_rows),),
        (ShuffledSequenceRelease(1.0, 2.0, 30, rows=all_rows),),
        (ClipQuantileRelease(8.0, 900, 41, rows=all_rows), plain),
        (StableGammaRelease(1.0, 5.0, adjacency, theorem, rows=all_rows),),
        (WithReplacementRelease(0.1, 0.01, 1000, 2.0, adjacency, theorem, rows=all_rows),),
        (RepeatedSelectionRelease(((plain,),), Runs.named("geometric", 5.0), rows=all_rows),),
        *(
            (PrefixSumRelease(1.0, 5.0, each, rows=all_rows),)
            for each in (
                mechanism(rounds=16),
                mechanism("toeplitz", rounds=16),
                mechanism("tree_honaker", rounds=16),
                mechanism("bisr", rounds=16, bands=4),
                mechanism("banded", rounds=16, bands=4),
                mechanism("power", rounds=16, exponent=0.3),
                mechanism("blt", rounds=16),
            )
        ),
    ]
    found = [_certificate(*each).to_json() for each in kinds]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for solver in ("approx_objective_perturbation", "phased_sgd"):
            result = dp.solve(PROBLEMS[0], rows(), BUDGET, solver=solver)
            found.append(result.certificate.to_json())
    return found


@lru_cache(maxsize=1)
def models() -> list[dict[str, Any]]:
    """Return models with and without a schema, of two and three classes and of a number."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 3))
    labels = rng.choice(["no", "yes"], 400)
    setup = configure("logistic", feature_norm=2.0, classes=["no", "yes"])
    result = dp.solve(setup.problem(), (X, labels), BUDGET, solver="noisy_gd")
    stated = Provenance(purpose="beds", owner="clinic", date="2026")
    parts = (setup.model(result.weights), result.certificate, result.plan, SCHEMAS[0])
    saved = SavedModel(*parts, provenance=stated)
    three = configure("logistic", feature_norm=2.0, classes=["a", "b", "c"])
    other = dp.solve(three.problem(), (X, rng.choice(["a", "b", "c"], 400)), BUDGET)
    number = configure("huber", feature_norm=2.0, label_range=(0.0, 5.0))
    third = dp.solve(number.problem(), (X, rng.uniform(0, 5, 400)), BUDGET)
    names = ("x", "y", "z")
    return [
        saved.to_json(),
        SavedModel(three.model(other.weights), other.certificate, other.plan).to_json(),
        SavedModel(
            number.model(third.weights), third.certificate, third.plan, feature_names=names
        ).to_json(),
    ]


def schemas() -> list[dict[str, Any]]:
    """Return schema files as JSON values."""
    return [json.loads(schema.to_json()) for schema in SCHEMAS]


@lru_cache(maxsize=1)
def batch_plans() -> dict[str, Any]:
    """Return the plans whose runs are checkpointed."""
    make = {"n": N, "d": D, "budget": BUDGET, "options": {"rounds": 6}}
    keys = ("dp_ftrl", "dp_sgd_single_epoch", "acc_srgd")
    return {key: dp.plan(PROBLEMS[0], solver=key, **make) for key in keys}


class _StopError(Exception):
    """Ends a run half-way."""


def checkpoints(folder: Path) -> list[tuple[Path, str]]:
    """Write checkpoints, half done and finished; return them with the keys of their plans."""
    found = []
    for key, plan in batch_plans().items():
        for rounds in (0, 3, 6):
            path = folder / f"{key}-{rounds}.checkpoint"

            def progress(done: int, total: int, rounds: int = rounds) -> None:
                if done >= max(1, rounds) and rounds < total:
                    raise _StopError

            with contextlib.suppress(_StopError):
                dp.run(plan, rows(), checkpoint=path, progress=progress)
            found.append((path, key))
    return found


def odometers(folder: Path) -> list[Path]:
    """Write odometers: new, with spends of several kinds, with runs and rounds."""
    paths = [folder / f"{k}.odometer" for k in range(3)]
    dp.Odometer(paths[0], dp.ApproxDP(5.0, 1e-6))
    second = dp.Odometer(paths[1], dp.ApproxDP(50.0, 1e-5), purpose="study", person="A. T.")
    second.spend(GaussianRelease(1.0, 50.0, rows=(0, 100)), label="first")
    second.spend(PoissonGaussianRelease(1.0, 5.0, 0.05, rows=(0, 100), count=20), label="second")
    second.spend(SelectionRelease(1.0, 50.0, 10, rows=(0, 100), count=5))
    second.name_model(1, "sha256:" + "0" * 64)
    third = dp.Odometer(paths[2], dp.ZCDP(3.0))
    third.spend(GaussianRelease(1.0, 50.0, rows=(0, 100)), run="0" * 32)
    third.commit("0" * 32, 1, "f" * 64)
    return paths


def messages() -> list[str]:
    """Return tasks, answers, and what parties agree on beforehand."""
    plan = batch_plans()["acc_srgd"]
    start, stop = plan.batches()[0]
    point = np.zeros(plan.task.n_weights)
    task = Request(
        run="0123456789abcdef" * 2,
        plan=fingerprint(plan),
        round=0,
        points=(point,),
        factors=(1.0,),
        clip=plan.clip,
        cohort=stop - start,
        protects="row",
        trust="trusted_coordinator",
    )
    encoding = FixedPoint(2.0**-20, 35)
    two = dataclasses.replace(task, points=(point, point), factors=(4.0, 3.0), encoding=encoding)
    masked = dataclasses.replace(two, trust="secure_aggregation", members=("north", "south"))
    key = X25519PrivateKey.from_private_bytes(bytes(range(32)))
    other = X25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
    roster = Roster({"north": public_half(key), "south": public_half(other)})
    terms = Agreement(plan).terms
    words = np.arange(4, dtype=np.uint64)
    answers = [
        Answer(run=task.run, round=3, worker="ward 7", vector=vector) for vector in (point, words)
    ]
    texts = [task, two, masked, *answers, roster, terms]
    return [text.to_json() for text in texts]
