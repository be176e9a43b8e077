"""Public records as JSON and back: problems, budgets, releases, plans.

Only classes that dpsco itself defines are ever built from a file, by name from a fixed list.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import lru_cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from .. import _validate, geometry, losses
from ..data.bounds import Bounds
from ..data.labels import Classes, Scaled
from ..errors import ParameterError
from ..geometry.domains import Domain
from ..privacy.budget import Budget, budget_from_json
from ..privacy.mechanisms.prefix_sum.mechanism import PrefixMechanism
from ..privacy.release import Release
from ..problem import Problem
from ..task import Task
from .common.mean_oracle import ORACLES

_TYPE = "type"
_OBJECT = "object"  # whose value is JSON as it stands


def encode(value: Any) -> Any:
    """Return a public record as plain JSON values.

    Raises:
        ParameterError: the value holds code, such as a user's own loss, which no file can hold.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return number if math.isfinite(number) else {_TYPE: "float", "value": repr(number)}
    if isinstance(value, Budget):
        return {_TYPE: "Budget", "value": value.to_json()}
    if isinstance(value, Release):
        return {_TYPE: "Release", "value": value.to_json()}
    if isinstance(value, Domain) and _records().get(type(value).__name__) is type(value):
        return {_TYPE: type(value).__name__, **{k: encode(v) for k, v in value.arguments.items()}}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if isinstance(value, Mapping) and _is_json(value):
        return {_TYPE: _OBJECT, "value": dict(value)}
    if isinstance(value, np.ndarray):
        return [encode(item) for item in value.tolist()]
    if isinstance(value, Classes):
        return {_TYPE: "Classes", "values": list(value.values)}
    name = type(value).__name__
    if dataclasses.is_dataclass(value) and _records().get(name) is type(value):
        fields = {
            f.name: encode(getattr(value, f.name))
            for f in dataclasses.fields(value)
            if f.init and f.compare  # what is not compared is no part of the record
        }
        return {_TYPE: name, **fields}
    raise ParameterError(
        f"{name} cannot be written to a file: it is no record of dpsco. Losses of your own live in "
        "code; keep the code instead of the plan."
    )


def decode(record: Any) -> Any:
    """Return what `encode` was given; lists come back as tuples."""
    if isinstance(record, list):
        return tuple(decode(item) for item in record)
    if not isinstance(record, dict):
        return record
    name = record.get(_TYPE)
    values = {key: decode(item) for key, item in record.items() if key not in (_TYPE, "value")}
    if name == "float":
        return _number(record)
    if name == _OBJECT:
        return record.get("value")
    if name == "Budget":
        return budget_from_json(record.get("value"))
    if name == "Release":
        return Release.from_json(record.get("value"))
    kind = _records().get(str(name))
    if kind is None:
        raise ParameterError(
            f"a file names the type {_validate.shown(name)}, which is none of dpsco's records."
        )
    try:
        return kind(**values) if kind is not Classes else Classes(values["values"])
    except (TypeError, KeyError) as problem:
        raise ParameterError(f"this is not a {name}: {_validate.reason(problem)}.") from None


def check_types(record: Any) -> None:
    """Refuse fields of another type than the class of a record declares: a file may hold anything.

    Numbers of plans count something or measure something, so none is negative.

    Raises:
        ParameterError: names the field.
    """
    declared = get_type_hints(type(record))
    for item in dataclasses.fields(record):
        _check_type(item.name, getattr(record, item.name), declared[item.name])


def _check_type(name: str, value: Any, kind: Any) -> None:
    """Refuse a value that is not of a type: int, float, bool, str, a class, tuples, or None."""
    if kind is int:
        _validate.integer(name, value, at_least=0)
    elif kind is float:
        if _validate.real(name, value) < 0.0:
            raise ParameterError(f"{name} must not be negative, got {_validate.shown(value)}.")
    elif get_origin(kind) is UnionType:  # something, or None
        if value is not None:
            _check_type(name, value, get_args(kind)[0])
    elif get_origin(kind) is tuple:
        if not isinstance(value, tuple):
            raise ParameterError(f"{name} must be a list, got {_validate.shown(value)}.")
        for part in value:
            _check_type(name, part, get_args(kind)[0])
    elif get_origin(kind) is Mapping:
        if not isinstance(value, Mapping):
            raise ParameterError(f"{name} must be an object, got {_validate.shown(value)}.")
    elif not isinstance(value, kind):
        raise ParameterError(f"{name} must be a {kind.__name__}, got {_validate.shown(value)}.")


def _is_json(value: Any) -> bool:
    """Return whether JSON holds the value as it stands."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, (tuple, list)):
        return all(map(_is_json, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int, str))


def _number(record: dict[str, Any]) -> float:
    """Return a number that JSON itself has no word for."""
    try:
        return float(record["value"])
    except (KeyError, TypeError, ValueError):
        raise ParameterError(
            f"a file has {_validate.shown(record)} in the place of a number."
        ) from None


@lru_cache(maxsize=1)
def _records() -> dict[str, type]:
    """Return the classes that a file may name."""
    records: dict[str, type] = {
        "Bounds": Bounds,
        "Classes": Classes,
        "Problem": Problem,
        "Task": Task,
    }
    records["Scaled"] = Scaled
    records["PrefixMechanism"] = PrefixMechanism
    records |= {type(oracle).__name__: type(oracle) for oracle in ORACLES.values()}
    for module in (losses, geometry):
        for name in module.__all__:
            item = getattr(module, name)
            if isinstance(item, type):
                records[name] = item
    for name in ("CustomLoss", "PerRowLoss"):  # they hold a user's code
        records.pop(name, None)
    return records
