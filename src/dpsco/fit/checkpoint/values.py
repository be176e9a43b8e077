"""What the cells of a checkpoint hold: vectors, exactly; plans and shapes, as JSON."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._validate import reason
from ...errors import CheckpointError, DpscoError
from ...files.limits import STORED
from ...files.reading import parse_json

Floats = NDArray[np.float64]

_EXACT = "<f8"


def exact_bytes(numbers: Floats) -> bytes:
    """Return numbers as bytes that are the same on every machine."""
    return np.ascontiguousarray(numbers, dtype=_EXACT).tobytes()


def from_bytes(content: bytes) -> Floats:
    """Return the numbers of `exact_bytes`."""
    return np.frombuffer(content, dtype=_EXACT).astype(float)


def digest_of(run: str, round: int, state: Mapping[str, Floats]) -> str:
    """Return a digest of what a round has let out, bit for bit."""
    digest = hashlib.blake2b(digest_size=32, person=b"dpsco round")
    head = [run, round, sorted((name, list(vector.shape)) for name, vector in state.items())]
    digest.update(json.dumps(head).encode())
    for name in sorted(state):
        digest.update(exact_bytes(state[name]))
    return digest.hexdigest()


def write(database: sqlite3.Connection, state: Mapping[str, Floats]) -> None:
    """Write vectors, exactly."""
    database.executemany(
        "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)",
        [(name, json.dumps(vector.shape), exact_bytes(vector)) for name, vector in state.items()],
    )


def vector(shape: str, numbers: bytes) -> Floats:
    """Return a vector that `write` wrote."""
    lengths = tuple(parsed(shape))
    if len(numbers) != 8 * math.prod(lengths):
        raise ValueError("a vector has another length than its shape says")
    return from_bytes(numbers).reshape(lengths)


def plan_difference(known: str, plan: str) -> str:
    """Return which fields of two plans differ."""
    try:
        old, new = _flat(parsed(known)), _flat(parsed(plan))
        fields = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    except (DpscoError, TypeError, AttributeError):
        return "it cannot be read"
    return f"it differs in {reason(', '.join(map(str, fields)))}"


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a plan with those of its task and its problem beside them."""
    for name in ("task", "problem"):
        record = {**record, **record.pop(name, {})}
    return record


def parsed(text: object) -> Any:
    """Return the JSON values of a cell."""
    return parse_json(text, what="a part", limits=STORED, error=CheckpointError)
