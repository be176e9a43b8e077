"""Calls of a user's function on private rows: results bounded, exceptions silent about values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ParameterError


@dataclass(frozen=True)
class Guarded:
    """A user's function whose result is clipped and whose exceptions tell nothing of the rows."""

    function: Callable[[Any, Any], Any]
    bound: float
    owner: str

    def __call__(self, margin: Any, label: Any) -> Any:
        """Return the function's value within [-bound, bound]."""
        with np.errstate(all="ignore"):
            found = run_guarded(self.owner, self.function, margin, label)
            return np.minimum(np.maximum(found, -self.bound), self.bound)


def run_guarded(owner: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function; an exception is replaced by one that names its type alone.

    The new one is raised outside the handler, so that not even its context holds the old one.
    """
    try:
        return function(*arguments)
    except Exception as error:
        kind = type(error).__name__
    raise ParameterError(
        f"{owner} raised {kind} on rows of the table. What it said is withheld, since it may speak "
        "of private values; call the function on public numbers to see it. It must be defined for "
        "every finite input."
    )
