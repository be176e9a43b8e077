"""What every release record has in common; the records themselves are in :mod:`.releases`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .. import _validate
from ..files import limits as _limits

_BOUND_HINT = "It is the largest norm that one row can contribute, enforced by clipping."


@dataclass(frozen=True)
class Release:
    """What every record has; use a subclass."""

    kind: ClassVar[str] = ""
    rows: tuple[int, int] = field(kw_only=True)
    count: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        store(self, "rows", _validate.row_range("rows", self.rows))
        store(self, "count", _validate.integer("count", self.count, at_most=_limits.MOST_COUNT))
        for name in ("bound", "sensitivity", "sigma", "scale", "step"):
            if hasattr(self, name):
                hint = _BOUND_HINT if name == "bound" else ""
                store(self, name, _validate.positive(name, getattr(self, name), hint=hint))

    @property
    def row_count(self) -> int:
        """How many rows the release may touch."""
        return self.rows[1] - self.rows[0]

    def once(self) -> Release:
        """Return the same record with count 1."""
        return self if self.count == 1 else dataclasses.replace(self, count=1)


def store(record: Any, name: str, value: Any) -> None:
    """Store the validated value in the frozen record."""
    object.__setattr__(record, name, value)
