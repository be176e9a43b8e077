"""The three messages: a task goes to every worker of a round, a slice to one, an answer comes back.

A task says what is asked of each row: the query with its weights, the bounds that clip rows, and
how columns become numbers. A slice says which rows. An answer is their sum, or a refusal in words.
All are JSON heads with raw arrays (`dpsco.files.packing`): no code travels, and only queries and
losses that the package knows by name are ever built from one. Head and answer name the version of
dpsco and of this protocol, and a worker of another version refuses.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...._validate import shown
from ...._version import __version__
from ....errors import ClusterError, ParameterError
from ....files.limits import TASK
from ....files.packing import digest, pack, unpack
from ...block import Floats
from ...bounds import Bounds
from ...counts import PresentRows
from ...gradient_norms import GradientNorms, TrackedGradient
from ...histograms import ColumnHistogram, LabelHistogram, NormHistogram
from ...moments import ColumnMoments, RowMoments, SquaredLengths
from ...queries import ClippedCoordinates, ClippedDifference, ClippedGradient, InUnits, Query
from ...records import Records, common_records
from ...schema.encoder import TableEncoder
from ...schema.schema import Schema
from ...scores import ScoreGradient
from ...units import Units
from ...vertices import FadingScores, VertexScores
from ..parquet import Footer, decoder_of
from ..stream import Decoder
from .layout import Part, Shard, Slice

PROTOCOL = 1


class RowMap(ABC):
    """What workers make of each row, in the place of a sum: of rows that are the caller's own."""

    @abstractmethod
    def columns(self, rows: Any) -> list[NDArray[Any]]:
        """Return arrays of numbers, one entry a row, for rows of numbers as they were read."""


QUERIES: tuple[type[Query], ...] = (
    ClippedGradient,
    ClippedDifference,
    ClippedCoordinates,
    GradientNorms,
    TrackedGradient,
    ScoreGradient,
    PresentRows,
    NormHistogram,
    LabelHistogram,
    ColumnHistogram,
    RowMoments,
    SquaredLengths,
    ColumnMoments,
)
"""What workers can be asked for, as it is summed; the driver finishes it."""

_ABOVE = {"ModelScores": "scoring", "Predictions": "scoring", "LinearModel": "linear"}
# Records of higher floors, by their module in dpsco.models: loaded when a message names one.


@dataclass(frozen=True)
class Reading:
    """How columns become rows of numbers.

    Args:
        features, label: names of columns that hold numbers.
        schema: of an encoder, as JSON, in the place of these.
        sparse, dtype: of the encoder's rows.
    """

    features: tuple[str, ...] | None = None
    label: str | None = None
    schema: str | None = None
    sparse: bool = False
    dtype: str = "float64"

    @classmethod
    def of(
        cls, features: tuple[str, ...] | None, label: str | None, encoder: TableEncoder | None
    ) -> Reading:
        """Return how a table is read."""
        if encoder is None:
            return cls(features, label)
        return cls(None, None, encoder.schema.to_json(), encoder.sparse, encoder.dtype.name)

    def decoder(self, footers: list[Footer]) -> Decoder:
        """Return what reads the rows of some files."""
        encoder = None
        if self.schema is not None:
            encoder = _encoder(self.schema, self.sparse, self.dtype)
        return decoder_of(footers, self.features, self.label, encoder)


@lru_cache(maxsize=4)
def _encoder(schema: str, sparse: bool, dtype: str) -> TableEncoder:
    """Return an encoder, made once for all slices of a run."""
    return TableEncoder(Schema.from_json(schema), sparse=sparse, dtype=dtype)


@dataclass(frozen=True)
class Task:
    """What a round asks of every row.

    Args:
        query: as it is summed, or what is made of each row; None only asks whether the shards are
            there.
        bounds: that clip rows, units included.
        reading: how columns become rows.
        compiled: whether compiled loops sum: the driver decides for all.
    """

    query: Query | RowMap | None
    bounds: Bounds
    reading: Reading
    compiled: bool


def pack_task(task: Task) -> bytes:
    """Return the message of a task.

    Raises:
        ParameterError: the query, or its loss, is none that workers know.
    """
    arrays: list[NDArray[Any]] = []
    records = _records(above=type(task.query).__name__ in _ABOVE)
    head = {
        **_signed("task"),
        "query": None if task.query is None else _encoded(task.query, records, arrays),
        "bounds": records.encode(task.bounds, arrays),
        "units": records.encode(task.bounds.units, arrays),
        "reading": records.encode(task.reading, arrays),
        "compiled": task.compiled,
    }
    return pack(head, arrays)


def read_task(message: bytes) -> Task:
    """Return the task of a message.

    Raises:
        ClusterError: it is none, or of another version.
    """
    head, arrays = _read(message, "task")
    records = _records(above=_named(head.get("query")) in _ABOVE)
    try:
        parts: dict[str, Any] = {key: records.decode(head[key], arrays) for key in _TASK_FIELDS}
        bounds = dataclasses.replace(parts["bounds"], units=parts["units"])
        query, reading = parts["query"], parts["reading"]
        known = query is None or _is_known(query)
        if not (known and isinstance(reading, Reading)):
            raise ParameterError("it holds other records")
        return Task(query, bounds, reading, head["compiled"] is True)
    except (ParameterError, KeyError, TypeError, AttributeError):
        raise ClusterError("a task cannot be read: workers do not know its records.") from None


_TASK_FIELDS = ("query", "bounds", "units", "reading")


def pack_slice(part: Slice) -> bytes:
    """Return the message of a slice."""
    shards = tuple(dict.fromkeys(each.shard for each in part.parts))
    head = {
        **_signed("slice"),
        "id": part.id,
        "shards": [[s.path, s.name, s.size, s.digest] for s in shards],
        "parts": [[shards.index(each.shard), each.start, each.stop] for each in part.parts],
        "leaves": part.leaves,
        "rows": part.rows,
    }
    if part.sample is None:
        return pack(head)
    return pack({**head, "first": int(part.sample[0])}, [_steps(part.sample)])


def read_slice(message: bytes) -> Slice:
    """Return the slice of a message, whose id is that of its content.

    Raises:
        ClusterError: it is none, or of another version.
    """
    head, arrays = _read(message, "slice")
    try:
        shards = [Shard(*fields) for fields in head["shards"]]
        parts = tuple(Part(shards[k], start, stop) for k, start, stop in head["parts"])
        sample = head["first"] + np.cumsum(arrays[0], dtype=np.int64) if arrays else None
        result = Slice(parts, head["leaves"], head["rows"], sample)
        if result.id != head["id"]:
            raise ValueError
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise ClusterError("a slice cannot be read: its fields are others.") from None
    return result


@dataclass(frozen=True)
class Answer:
    """What came back for a slice."""

    rows: int
    arrays: list[NDArray[Any]]  # a sum that is not yet finished by its query; or columns

    @property
    def total(self) -> Floats:
        """The sum."""
        return self.arrays[0]


def pack_answer(task: bytes, slice_id: str, rows: int, arrays: list[NDArray[Any]]) -> bytes:
    """Return the message of a sum or of columns, which names the task and slice it answers."""
    head = {**_signed("answer"), "task": digest(task).hex(), "slice": slice_id, "rows": rows}
    return pack(head, arrays)


def pack_refusal(task: bytes, slice_id: str, kind: str, text: str) -> bytes:
    """Return the message of a slice that cannot be summed: which error, and what it says."""
    head = {**_signed("refusal"), "task": digest(task).hex(), "slice": slice_id}
    return pack({**head, "kind": kind, "text": text})


class RefusedError(ClusterError):
    """A worker has said why it cannot sum a slice.

    Args:
        kind: the name of the worker's error.
        text: what it says.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def read_answer(
    message: Any, task: bytes, part: Slice, *, size: int = 0, columns: bool = False
) -> Answer:
    """Return a sum of ``size`` numbers that is what was asked for; or columns of each row.

    Raises:
        ClusterError: it is not: damaged, of another task, slice or version, or not finite.
        RefusedError: the worker has refused.
    """
    if not isinstance(message, bytes):
        raise ClusterError(f"an answer is bytes, got {type(message).__name__}.")
    head, arrays = unpack(message, what="an answer", limits=TASK, error=ClusterError)
    kind = head.get("message")
    if kind == "refusal" and head.get("task") == digest(task).hex():
        raise RefusedError(str(head.get("kind")), str(head.get("text")))
    _check_signed(head, "answer")
    expected = (digest(task).hex(), part.id, part.rows)
    if (head.get("task"), head.get("slice"), head.get("rows")) != expected:
        raise ClusterError("an answer is of another task or slice.")
    if columns:
        fits = bool(arrays) and all(each.ndim and len(each) == part.rows for each in arrays)
    else:
        fits = len(arrays) == 1 and arrays[0].dtype == np.float64 and arrays[0].shape == (size,)
    if not (fits and all(np.isfinite(each).all() for each in arrays)):
        raise ClusterError("an answer has other arrays than finite ones of the expected shape.")
    return Answer(part.rows, arrays)


def summed(query: Query) -> Query:
    """Return what workers sum of a query that the driver finishes.

    Raises:
        ParameterError: workers do not know it.
    """
    if isinstance(query, FadingScores):
        query = query.scores
    if isinstance(query, (VertexScores, InUnits)):
        query = query.gradient
    if not _is_known(query):
        raise ParameterError(
            f"workers of a cluster do not know {type(query).__name__}: it may hold code of your "
            "own, which is not sent. Use rows of one machine: from_parquet, from_arrays."
        )
    return query


def check_loss(loss: Any) -> None:
    """Refuse a loss that cannot be sent.

    Raises:
        ParameterError: it is a user's own.
    """
    try:
        _records(above=False).encode(loss)
    except ParameterError:
        raise ParameterError(
            f"workers of a cluster know the losses of dpsco by name, and {shown(loss.name)} is "
            "code of your own, which is not sent. Use a loss of dpsco.losses; or rows of one "
            "machine: from_parquet, from_arrays."
        ) from None


def _encoded(query: Query | RowMap, records: Records, arrays: list[NDArray[Any]]) -> Any:
    """Return a query's record."""
    loss = getattr(query, "loss", None)
    if loss is not None:
        check_loss(loss)
    return records.encode(query, arrays)


def _named(record: Any) -> str:
    """Return which class a record names."""
    return str(record.get("type")) if isinstance(record, dict) else ""


def _is_known(query: Any) -> bool:
    """Return whether workers know what is asked for."""
    kind = type(query)
    return kind in QUERIES or (kind.__name__ in _ABOVE and kind in _above().values())


def _signed(kind: str) -> dict[str, Any]:
    """Return what every head says."""
    return {"message": kind, "protocol": PROTOCOL, "dpsco": __version__}


def _read(message: bytes, kind: str) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return head and arrays of a message of this version."""
    head, arrays = unpack(message, what=f"a {kind}", limits=TASK, error=ClusterError)
    _check_signed(head, kind)
    return head, arrays


def _check_signed(head: dict[str, Any], kind: str) -> None:
    """Refuse messages of another version, and of another kind."""
    version = (head.get("dpsco"), head.get("protocol"))
    if version != (__version__, PROTOCOL):
        raise ClusterError(
            f"driver and workers must have the same dpsco: a message is of {shown(version[0])}, "
            f"and here is {__version__}. Install the same version everywhere."
        )
    if head.get("message") != kind:
        raise ClusterError(f"a message is no {kind}.")


@lru_cache(maxsize=2)
def _records(*, above: bool) -> Records:
    """Return the classes that a message may name; those of higher floors if one is named."""
    kinds = {kind.__name__: kind for kind in (*QUERIES, Units, Reading)}
    return Records({**common_records(), **kinds, **(_above() if above else {})})


@lru_cache(maxsize=1)
def _above() -> dict[str, type]:
    """Return records of higher floors by name."""
    return {
        name: getattr(import_module(f"dpsco.models.{module}"), name)
        for name, module in _ABOVE.items()
    }


def _steps(sample: NDArray[np.int64]) -> NDArray[Any]:
    """Return how far increasing places are beyond the ones before, in as few bytes as it takes."""
    steps = np.diff(sample, prepend=sample[:1])
    if steps.min(initial=0) < 0:
        return steps
    for kind in ("<u1", "<u2", "<u4"):
        if steps.max(initial=0) <= np.iinfo(kind).max:
            return steps.astype(kind)
    return steps
