"""dpsco: models fitted on private rows, with a certificate of the privacy they cost.

Names are loaded on first use, so that ``import dpsco`` is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import errors, privacy
    from .privacy import (
        GDP,
        ZCDP,
        Adjacency,
        ApproxDP,
        Certificate,
        Ledger,
        Odometer,
        PureDP,
        Randomness,
        Unit,
    )

_MODULES = ("errors", "privacy")

__all__ = [
    "__version__",
    "errors",
    "privacy",
    "ApproxDP",
    "PureDP",
    "ZCDP",
    "GDP",
    "Adjacency",
    "Unit",
    "Randomness",
    "Ledger",
    "Certificate",
    "Odometer",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in __all__:
        return getattr(importlib.import_module(".privacy", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
