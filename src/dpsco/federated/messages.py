"""The two messages of a round: a request goes down, an answer comes up. Nothing else travels.

A request has one or two points of d numbers each, an answer has d numbers: no norms, no losses, and
counts only where a plan searches for its clip or lets it follow the gradients. As JSON, vectors are
base64 of little-endian 64-bit numbers, which is exact (11 bytes a number), and other numbers have
as many digits as they need to come back the same.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _validate
from ..data.gradient_norms import GradientNorms, TrackedGradient
from ..data.queries import (
    ClippedCoordinates,
    ClippedDifference,
    ClippedGradient,
    InUnits,
    Loss,
    weight_vector,
)
from ..data.row_norms import check_limit
from ..errors import ParameterError
from ..files import limits as _limits
from ..files.reading import parse_json
from .fixed_point import FixedPoint
from .protection import ROW, WORKER
from .trust import Trust

Floats = NDArray[np.float64]
Vector = NDArray[np.float64] | NDArray[np.uint64]

GradientQuery = ClippedGradient | ClippedDifference | ClippedCoordinates
RowQuery = GradientQuery | GradientNorms | InUnits | TrackedGradient

_KINDS = {"float64": "<f8", "uint64": "<u8"}
_LONGEST_NAME = 255


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """What a round asks of its workers. All of it is public.

    Args:
        run: the run's identity, 32 hexadecimal digits.
        plan: `fingerprint` of the plan that everybody holds.
        round: from 0.
        points: one vector of weights for gradients, two for weighted differences of gradients.
        factors: of the gradients at the points; the second one is subtracted.
        clip: l2 bound on one contribution.
        cohort: how many rows (or workers) this round was planned for: the public divisor.
        protects: "row" or "worker".
        trust: the run's trust model.
        encoding: how contributions become integers; None: floats.
        rate: with which probability a row (or worker) takes part in this round, by a secret coin
            that its worker draws; None: all of them do.
        unit: the clip that the run has found, which counts as 1 in the answers; None: the clip is
            in the plan, or is still to be found.
        numbers: how many an answer has; None: as many as a point.
        members: whose answers are added behind `PairwiseMasks`, in alphabetical order; None: there
            are no such masks.

    Raises:
        ParameterError: a field is out of range.
    """

    run: str
    plan: str
    round: int
    points: tuple[Floats, ...]
    factors: tuple[float, ...]
    clip: float
    cohort: int
    protects: str
    trust: Trust
    encoding: FixedPoint | None = None
    rate: float | None = None
    unit: float | None = None
    numbers: int | None = None
    members: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _check_identity("run", self.run)
        _check_identity("plan", self.plan)
        _set(self, "round", _validate.integer("round", self.round, at_least=0))
        _set(self, "cohort", _validate.integer("cohort", self.cohort))
        _set(self, "clip", _validate.positive("clip", self.clip))
        _set(self, "trust", Trust.parse(self.trust))
        _validate.choice("protects", self.protects, (ROW, WORKER))
        if not 1 <= len(self.points) == len(self.factors) <= 2:
            raise ParameterError(
                "a request has one point with its factor, or two; got "
                f"{len(self.points)} points and {len(self.factors)} factors."
            )
        _set(self, "points", tuple(weight_vector("a point", point) for point in self.points))
        _set(self, "factors", tuple(_validate.real("a factor", each) for each in self.factors))
        if not np.isfinite(self.factors).all():
            raise ParameterError(f"the factors of a request must be finite, got {self.factors}.")
        if len({len(point) for point in self.points}) > 1:
            raise ParameterError("the points of a request must be equally long.")
        if len(self.points) == 1 and self.factors != (1.0,):
            raise ParameterError(f"a single point has the factor 1, got {self.factors[0]!r}.")
        if self.rate is not None:
            _set(self, "rate", _validate.positive("rate", self.rate))
            if self.rate > 1.0:
                raise ParameterError(
                    f"rate must be at most 1, got {self.rate!r}.", parameter="rate"
                )
        if self.unit is not None:
            _set(self, "unit", check_limit("unit", self.unit))
        if self.numbers is not None:
            _set(self, "numbers", _validate.integer("numbers", self.numbers))
        if self.encoding is not None and not isinstance(self.encoding, FixedPoint):
            raise ParameterError(
                f"encoding must be a FixedPoint or None, got {self.encoding!r}.",
                parameter="encoding",
            )
        if self.members is not None:
            _set(self, "members", _members(self.members))

    @property
    def size(self) -> int:
        """Numbers in an answer."""
        return len(self.points[0]) if self.numbers is None else self.numbers

    def query(self, loss: Loss, *, clip: float | None = None) -> GradientQuery:
        """Return what a row is asked for, clipped to ``clip``, by default the request's."""
        bound = self.clip if clip is None else clip
        if len(self.points) == 1:
            return ClippedGradient(loss, self.points[0], bound)
        (first, second), (one, two) = self.points, self.factors
        return ClippedDifference(loss, first, second, one, two, bound)

    @property
    def digest(self) -> str:
        """64 hexadecimal digits that tell this request from every other one."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the request as JSON text; `from_json` gives back the same bits."""
        record = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        record["points"] = [_packed(point) for point in self.points]
        record["trust"] = self.trust.value
        if self.encoding is not None:
            record["encoding"] = dataclasses.asdict(self.encoding)
        return json.dumps(record)

    @classmethod
    def from_json(cls, text: str | bytes) -> Request:
        """Return the request that `to_json` wrote.

        Raises:
            ParameterError: this is no request.
        """
        record = _fields(cls, text)
        try:
            record["points"] = tuple(_unpacked(item, ("float64",)) for item in record["points"])
            record["factors"] = tuple(record["factors"])
            if record["encoding"] is not None:
                record["encoding"] = FixedPoint(**record["encoding"])
            return cls(**record)
        except TypeError as problem:
            raise ParameterError(f"this is not a request: {problem}.") from None


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """What a worker sends up: the sum of its contributions, and nothing else about its rows.

    Args:
        run: the request's run.
        round: the request's round.
        worker: who answers, a public name.
        vector: d floats; or, with an encoding, d integers modulo its power of two, as uint64.

    Raises:
        ParameterError: a field has the wrong type, or the floats are not finite.
    """

    run: str
    round: int
    worker: str
    vector: Vector

    def __post_init__(self) -> None:
        _check_identity("run", self.run)
        _set(self, "round", _validate.integer("round", self.round, at_least=0))
        check_name(self.worker)
        _set(self, "vector", checked_vector(self.vector))

    def to_json(self) -> str:
        """Return the answer as JSON text; `from_json` gives back the same bits."""
        head = {"run": self.run, "round": self.round, "worker": self.worker}
        return json.dumps({**head, "vector": _packed(self.vector)})

    @classmethod
    def from_json(cls, text: str | bytes) -> Answer:
        """Return the answer that `to_json` wrote.

        Raises:
            ParameterError: this is no answer.
        """
        record = _fields(cls, text)
        return cls(**{**record, "vector": _unpacked(record["vector"], tuple(_KINDS))})

    def __repr__(self) -> str:
        # Never the numbers: in a log they would be an exact sum over private rows.
        kind = f"{len(self.vector)} numbers, {self.vector.dtype}"
        return f"<Answer of {self.worker!r} to round {self.round}: {kind}>"


def most_bytes(numbers: int, vectors: int) -> int:
    """Return how long a message with so many vectors of so many numbers can be."""
    return vectors * 4 * (-(-8 * numbers // 3)) + _limits.MESSAGE_HEAD


def check_name(name: Any) -> str:
    """Return a worker's name; refuse what is no short printable text."""
    if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable():
        raise ParameterError(f"a worker's name must be 1 to {_LONGEST_NAME} printable characters.")
    return name


def checked_vector(vector: Any) -> Vector:
    """Return a sealed copy of finite float64 or of uint64 numbers; refuse anything else."""
    if not isinstance(vector, np.ndarray) or vector.dtype.name not in _KINDS or vector.ndim != 1:
        kind = type(vector).__name__
        if isinstance(vector, np.ndarray):
            kind = f"{vector.dtype} of shape {vector.shape}"
        raise ParameterError(f"an answer is a vector of float64 or uint64 numbers, got {kind}.")
    if vector.dtype.kind == "f" and not np.isfinite(vector).all():
        raise ParameterError("an answer has numbers that are not finite: no clipped sum has.")
    copy = np.array(vector)
    copy.flags.writeable = False
    return copy


def _members(members: Any) -> tuple[str, ...]:
    """Return the names of a masked sum; refuse what no sum is made of."""
    if not isinstance(members, (tuple, list)) or not 2 <= len(members) <= _limits.MOST_MEMBERS:
        raise ParameterError(
            f"a masked sum has 2 to {_limits.MOST_MEMBERS} members, got {_validate.shown(members)}."
        )
    names = tuple(check_name(name) for name in members)
    if list(names) != sorted(set(names)):
        raise ParameterError("the members of a masked sum are in alphabetical order, each once.")
    return names


def _check_identity(name: str, value: Any) -> None:
    if not isinstance(value, str) or len(value) != 32 or not set(value) <= set("0123456789abcdef"):
        raise ParameterError(f"{name} must be 32 hexadecimal digits, got {_validate.shown(value)}.")


def _packed(vector: Vector) -> dict[str, str]:
    """Return a vector as JSON values, exactly."""
    name = vector.dtype.name
    raw = vector.astype(_KINDS[name]).tobytes()
    return {"type": name, "base64": base64.b64encode(raw).decode()}


def _unpacked(record: Any, kinds: tuple[str, ...]) -> Vector:
    """Return the vector that was packed, of one of some types."""
    try:
        kind, text = record["type"], record["base64"]
        if kind not in kinds or set(record) != {"type", "base64"}:
            raise ValueError(f"a vector of {' or '.join(kinds)} was expected")
        raw = base64.b64decode(text, validate=True)
        vector: Vector = np.frombuffer(raw, dtype=_KINDS[kind]).astype(kind)
        return vector
    except (TypeError, KeyError, ValueError) as problem:
        raise ParameterError(f"a message's vector cannot be read: {problem}.") from None


def _fields(kind: type, text: str | bytes) -> dict[str, Any]:
    """Return the fields of a message; refuse missing, unknown and repeated ones."""
    name = kind.__name__.lower()
    record = parse_json(text, what="this message", limits=_limits.MESSAGE, error=ParameterError)
    names = {item.name for item in dataclasses.fields(kind)}
    if not isinstance(record, dict) or set(record) != names:
        raise ParameterError(f"this is not the {name} of a round: its fields are others.")
    return record


def _set(message: Any, name: str, value: Any) -> None:
    """Store the validated value in the frozen record."""
    object.__setattr__(message, name, value)
