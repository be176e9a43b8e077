"""One JSON line per fit, appended: a run that was stopped goes on where it was.

A line has the table, split, draw, eps, adj, kind ("class", "absolute", "squared"), method, n and d
of the training rows, classes, the loss under its metric's name (ll, mae, rmse), the solver, the CPU
time, and whether a warning preceded the fit; or why a solver refused. Lines of the methods
"not_private" and "constant" have no eps.
"""

from __future__ import annotations

import json
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dpsco as dp
from dpsco.errors import AccuracyWarning
from dpsco.fit.choose import recommend
from dpsco.models.config import configure

from . import peer, reference
from .tables import METRIC, Split, Table, load

KEY = ("table", "rows", "split", "draw", "eps", "adj", "kind", "method")
REFERENCES = {"not_private": reference.not_private, "constant": reference.constant}


@dataclass(frozen=True)
class Protocol:
    """What is run on every table."""

    methods: tuple[str, ...] = ("auto", "peer")  # solvers, "all" of those that apply, "peer"
    epsilons: tuple[float, ...] = (0.1, 1.0, 8.0)
    adjacencies: tuple[str, ...] = ("zero_out", "replace_one")
    splits: int = 3
    draws: int = 3
    rows: tuple[int | None, ...] = (None,)  # also on so many rows of each table alone
    kinds: tuple[str, ...] = tuple(METRIC)
    params: Mapping[str, Any] = field(default_factory=dict)  # of the estimators, beside the budget
    label: str = ""  # added to the method's name, if the parameters are to be told apart


def judge(folder: Path, out: Path, tables: Iterable[str], protocol: Protocol) -> None:
    """Carry out what is not in the file yet."""
    done = {_key(record) for record in read(out)} if out.exists() else set()
    with out.open("a") as file:
        for name in tables:
            for rows in protocol.rows:
                table = load(folder / f"{name}.npz").shortened(rows)
                for record in _records(table, rows, protocol, done):
                    file.write(json.dumps(record) + "\n")
                    file.flush()


def read(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file; a last line that was cut off is left out."""
    records = []
    for line in path.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return records


def _key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in KEY)


def _records(
    table: Table, rows: int | None, protocol: Protocol, done: set[tuple[Any, ...]]
) -> Iterator[dict[str, Any]]:
    """Yield the lines of one table."""
    tuned: dict[tuple[float, str, str], peer.Peer] = {}
    for number in range(protocol.splits):
        split = table.split(number)
        base = {"table": table.name, "rows": rows, "split": number}
        base |= {"n": len(split.X), "d": split.X.shape[1], "classes": table.classes}
        for kind in (kind for kind in table.kinds if kind in protocol.kinds):
            for method, loss_of in REFERENCES.items():
                record = base | {"kind": kind, "method": method}
                if _key(record) not in done:
                    yield record | {METRIC[kind]: loss_of(split, kind)}
            for epsilon in protocol.epsilons:
                for adjacency in protocol.adjacencies:
                    cell = base | {"kind": kind, "eps": epsilon, "adj": adjacency}
                    for draw in range(protocol.draws):
                        for method in _methods(protocol, split, kind, epsilon, adjacency):
                            record = cell | {"draw": draw, "method": method + protocol.label}
                            if _key(record) in done:
                                continue
                            if method == "peer":
                                key = (epsilon, adjacency, kind)
                                if key not in tuned:
                                    tuned[key] = _tuned(table, *key)
                                yield record | _peer_run(tuned[key], split, record)
                            else:
                                yield record | _own_run(split, record, method, protocol.params)


def task_of(table: Table, kind: str, n: int, epsilon: float, adjacency: str) -> dp.Task:
    """Return the public side of a fit on n rows of a table in declared units."""
    budget = dp.ApproxDP(epsilon, 1.0 / n**2, adjacency=adjacency)
    if kind == "class":
        config = configure("logistic", feature_norm=1.0, classes=range(table.classes))
    else:
        name = "absolute" if kind == "absolute" else "linear"
        config = configure(name, feature_norm=1.0, label_range=table.ends)
    return dp.Task(config.problem(), n, table.X.shape[1], budget)


def _methods(
    protocol: Protocol, split: Split, kind: str, epsilon: float, adjacency: str
) -> list[str]:
    """Return the methods of a cell; "all" stands for auto and every solver that applies."""
    methods: list[str] = []
    for method in protocol.methods:
        if method != "all":
            methods.append(method)
            continue
        ranked = recommend(task_of(split.table, kind, len(split.X), epsilon, adjacency)).ranked
        methods += ["auto", *(candidate.solver for candidate in ranked)]
    return list(dict.fromkeys(methods))


def _seed(record: Mapping[str, Any]) -> int:
    """Return the seed of a draw: the same for all methods of a cell."""
    facts = [record[name] for name in ("table", "rows", "split", "draw", "eps", "adj", "kind")]
    return zlib.crc32(json.dumps(facts).encode())


def _tuned(table: Table, epsilon: float, adjacency: str, kind: str) -> peer.Peer:
    pilot = table.split(peer.PILOT)
    task = task_of(table, kind, len(pilot.X), epsilon, adjacency)
    return peer.tune(pilot, kind, task, zlib.crc32(f"{table.name}{epsilon}".encode()))


def _peer_run(tuned: peer.Peer, split: Split, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the loss of the tuned peer in one draw."""
    started = time.process_time()
    (loss,) = tuned.losses(split, [_seed(record)])
    chosen = {"solver": "peer", "clip": tuned.clip, "step": tuned.step}
    return {METRIC[tuned.kind]: loss, **chosen, "cpu": time.process_time() - started}


def _own_run(
    split: Split, record: Mapping[str, Any], method: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the loss of an untuned fit; or why there is none."""
    table, kind = split.table, record["kind"]
    common = {"epsilon": record["eps"], "adjacency": record["adj"], "feature_norm": 1.0}
    common |= {"random_state": _seed(record), "solver": method, **params}
    started = time.process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if kind == "class":
                classes = list(range(table.classes))
                model = dp.PrivateLogisticRegression(classes=classes, **common)
                loss = split.score_classes(model.fit(split.X, split.y).predict_proba(split.X_test))
            else:
                names = {
                    "absolute": "PrivateAbsoluteRegressor",
                    "squared": "PrivateLinearRegression",
                }
                model = getattr(dp, names[kind])(label_range=table.ends, **common)
                predicted = model.fit(split.X, split.y).predict(split.X_test)
                loss = split.score_numbers(predicted, kind)
    except dp.errors.DpscoError as refusal:
        return {"refused": str(refusal)[:120]}
    return {
        METRIC[kind]: loss,
        "solver": model.plan_.solver,
        "cpu": time.process_time() - started,
        "warned": any(issubclass(each.category, AccuracyWarning) for each in caught),
    }
