"""Public records as JSON and back: problems, budgets, releases, plans.

Only classes that dpsco itself defines are ever built from a file, by name from a fixed list.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from .. import _validate
from ..data.records import Form, Records, common_records
from ..errors import ParameterError
from ..privacy.budget import Budget, budget_from_json
from ..privacy.mechanisms.prefix_sum.mechanism import PrefixMechanism
from ..privacy.release import Release
from ..problem import Problem
from ..task import Task
from .common.mean_oracle import ORACLES


def encode(value: Any) -> Any:
    """Return a public record as plain JSON values.

    Raises:
        ParameterError: the value holds code, such as a user's own loss, which no file can hold.
    """
    return _records().encode(value)


def decode(record: Any) -> Any:
    """Return what `encode` was given; lists come back as tuples."""
    return _records().decode(record)


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


@lru_cache(maxsize=1)
def _records() -> Records:
    """Return the classes that a file may name."""
    own = (Problem, Task, PrefixMechanism, *map(type, ORACLES.values()))
    kinds = {**common_records(), **{kind.__name__: kind for kind in own}}
    return Records(
        kinds,
        {
            "Budget": Form(Budget, Budget.to_json, budget_from_json),
            "Release": Form(Release, Release.to_json, Release.from_json),
        },
    )
