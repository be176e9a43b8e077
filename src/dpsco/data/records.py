"""Public records as JSON and back: losses, norms, bounds, and whatever else is registered.

Only classes that dpsco itself defines are ever built from a file or a message, by name from a fixed
list. What is a user's own code is refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _validate, geometry, losses
from ..errors import ParameterError
from ..geometry.domains import Domain
from .bounds import Bounds
from .labels import Classes, Scaled

_TYPE = "type"
_OBJECT = "object"  # whose value is JSON as it stands
_ARRAY = "array"  # which lies beside the JSON
_USERS = ("CustomLoss", "PerRowLoss")  # they hold a user's code


class Form(NamedTuple):
    """A class that writes and reads its own JSON."""

    kind: type
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


@dataclass(frozen=True)
class Records:
    """The classes that a file or message may name, and how they are written.

    Args:
        kinds: frozen records by name.
        forms: classes with JSON of their own, by name.
    """

    kinds: Mapping[str, type]
    forms: Mapping[str, Form] = field(default_factory=dict)

    def encode(self, value: Any, arrays: list[NDArray[Any]] | None = None) -> Any:
        """Return a public record as plain JSON values.

        Args:
            value: the record.
            arrays: takes arrays, which then lie beside the JSON; None: they become lists.

        Raises:
            ParameterError: the value holds code, such as a user's own loss, which no file can hold.
        """
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, (float, np.floating)):
            number = float(value)
            return number if math.isfinite(number) else {_TYPE: "float", "value": repr(number)}
        for name, form in self.forms.items():
            if isinstance(value, form.kind):
                return {_TYPE: name, "value": form.write(value)}
        if isinstance(value, Domain) and self.kinds.get(type(value).__name__) is type(value):
            parts = {name: self.encode(item, arrays) for name, item in value.arguments.items()}
            return {_TYPE: type(value).__name__, **parts}
        if isinstance(value, (tuple, list)):
            return [self.encode(item, arrays) for item in value]
        if isinstance(value, Mapping) and _is_json(value):
            return {_TYPE: _OBJECT, "value": dict(value)}
        if isinstance(value, np.ndarray):
            if arrays is None:
                return [self.encode(item) for item in value.tolist()]
            arrays.append(value)
            return {_TYPE: _ARRAY, "place": len(arrays) - 1}
        if isinstance(value, Classes):
            return {_TYPE: "Classes", "values": list(value.values)}
        return self._encode_fields(value, arrays)

    def _encode_fields(self, value: Any, arrays: list[NDArray[Any]] | None) -> Any:
        """Return a registered dataclass, field by field."""
        name = type(value).__name__
        if dataclasses.is_dataclass(value) and self.kinds.get(name) is type(value):
            fields = {
                item.name: self.encode(getattr(value, item.name), arrays)
                for item in dataclasses.fields(value)
                if item.init and item.compare  # what is not compared is no part of the record
            }
            return {_TYPE: name, **fields}
        raise ParameterError(
            f"{name} cannot be written to a file: it is no record of dpsco. Losses of your own "
            "live in code; keep the code instead of the plan."
        )

    def decode(self, record: Any, arrays: list[NDArray[Any]] | None = None) -> Any:
        """Return what `encode` was given; lists come back as tuples."""
        if isinstance(record, list):
            return tuple(self.decode(item, arrays) for item in record)
        if not isinstance(record, dict):
            return record
        name = str(record.get(_TYPE))
        if name == "float":
            return _number(record)
        if name == _OBJECT:
            return record.get("value")
        if name == _ARRAY and arrays is not None:
            return _array(record, arrays)
        if name in self.forms:
            return self.forms[name].read(record.get("value"))
        kind = self.kinds.get(name)
        if kind is None:
            raise ParameterError(
                f"a file names the type {_validate.shown(record.get(_TYPE))}, which is none of "
                "dpsco's records."
            )
        reserved = (_TYPE, "value")
        values = {k: self.decode(item, arrays) for k, item in record.items() if k not in reserved}
        try:
            return kind(**values) if kind is not Classes else Classes(values["values"])
        except (TypeError, KeyError) as problem:
            raise ParameterError(f"this is not a {name}: {_validate.reason(problem)}.") from None


def common_records() -> dict[str, type]:
    """Return the classes that any file or message may name: bounds, losses, norms and domains."""
    records: dict[str, type] = {"Bounds": Bounds, "Classes": Classes, "Scaled": Scaled}
    for module in (losses, geometry):
        for name in module.__all__:
            item = getattr(module, name)
            if isinstance(item, type):
                records[name] = item
    for name in _USERS:
        records.pop(name, None)
    return records


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


def _array(record: dict[str, Any], arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """Return an array that lies beside the JSON."""
    place = record.get("place")
    if type(place) is not int or not 0 <= place < len(arrays):
        raise ParameterError("a message names an array that it does not hold.")
    return arrays[place]
