"""What a fit is for and who answers for it, as people have said: nothing of it is computed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .._validate import shown
from ..errors import ParameterError
from ..files import limits as _limits
from ..files.reading import read_json

LONGEST = 2000  # letters of one field


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The facts about a fit that only people know; a report and a card state them.

    They are public: whoever reads the model file, a report or a card can read them.

    Args:
        purpose: what the model is fitted for.
        dataset: which table.
        period: when its rows were collected.
        owner: who answers for the table.
        approver: who allowed the fit, or signs for it.
        date: of the fit, or of the approval.
        intended_use: what the model may be used for.
        limits: what it must not be used for, or where it is known to fail.
        license: of the model.
        odometer: the place of the fit in the odometer that paid for it.

    Raises:
        ParameterError: a field is no text, or too long.

    >>> Provenance(purpose="plan beds", owner="clinic").to_json()
    {'purpose': 'plan beds', 'owner': 'clinic'}
    """

    purpose: str | None = None
    dataset: str | None = None
    period: str | None = None
    owner: str | None = None
    approver: str | None = None
    date: str | None = None
    intended_use: str | None = None
    limits: str | None = None
    license: str | None = None
    odometer: str | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None:
                continue
            if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
                raise ParameterError(
                    f"{item.name} must be text of at most {LONGEST:,} letters, got {shown(value)}.",
                    parameter=item.name,
                )
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ParameterError(
                    f"{item.name} must be valid Unicode.", parameter=item.name
                ) from None

    def to_json(self) -> dict[str, str]:
        """Return the fields that are known."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, record: Any) -> Provenance:
        """Read the fields from JSON values.

        Raises:
            ParameterError: a field is unknown, or no text.
        """
        known = [item.name for item in fields(cls)]
        if not isinstance(record, dict) or not all(name in known for name in record):
            raise ParameterError(
                f"a provenance is a JSON object with some of the fields {', '.join(known)}."
            )
        return cls(**record)

    @classmethod
    def load(cls, path: str | Path) -> Provenance:
        """Read a JSON file with some of the fields.

        Raises:
            ParameterError: it cannot be read, or has other fields.
        """
        return cls.from_json(
            read_json(path, what="the provenance", limits=_limits.SCHEMA, error=ParameterError)
        )

    def updated(self, other: Provenance | None) -> Provenance:
        """Return these facts, and in their place those that the other one knows."""
        return self if other is None else Provenance(**{**self.to_json(), **other.to_json()})
