"""What losses given by functions share: a frozen record, and calls that are silent about rows."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import ParameterError

_LOCK = threading.RLock()  # the list of warning filters belongs to all threads


@contextmanager
def quiet() -> Iterator[None]:
    """Let no warning leave: one could tell something of the rows."""
    with _LOCK, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


class UserLoss:
    """A loss that is given by functions. It is frozen, and equal to one that was given the same."""

    _record: Any  # a record with a name

    def _keep(self, record: Any, **derived: Any) -> None:
        """Keep what was given, and what follows from it."""
        vars(self).update(_record=record, **derived)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a loss is frozen: {name!r} cannot be set")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._record == other._record

    def __hash__(self) -> int:
        return hash(self._record)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    @property
    def name(self) -> str:
        """The name that was given."""
        return str(self._record.name)


@dataclass(frozen=True)
class Guarded:
    """A user's function of (margin, label), clipped to ``[-bound, bound]``; it never raises.

    A row on which the function fails has the result NaN, which the loops count as no gradient: a
    rule for that row alone, while an exception would tell something of the rows. Compiled loops
    take it like a function that Numba has compiled, which `py_func` and `_numba_type_` make it
    look like: the same clipping then happens in machine code.
    """

    function: Callable[[Any, Any], Any]
    bound: float = math.inf

    def __call__(self, margin: Any, label: Any) -> Any:
        """Return the function's value within the bound, NaN where it fails."""
        shape = np.broadcast_shapes(np.shape(margin), np.shape(label))
        with quiet():
            try:
                result = np.broadcast_to(np.asarray(self.function(margin, label), float), shape)
            except Exception:
                if shape == ():
                    return math.nan
                result = np.vectorize(self, otypes=[float])(margin, label)
            return np.minimum(np.maximum(result, -self.bound), self.bound)

    @property
    def py_func(self) -> Callable[[Any, Any], Any]:
        """The function itself, as Numba's compiled functions offer it."""
        return self.function

    @property
    def _numba_type_(self) -> Any:
        """Numba's type of the compiled function."""
        from numba import types

        return types.Dispatcher(_compiled(self.function, self.bound))


@lru_cache(maxsize=64)  # Numba's types refer to functions weakly: something must keep them
def _compiled(function: Any, bound: float) -> Any:
    """Return the same as `Guarded`, compiled for numbers."""
    from numba import njit

    inner = function if hasattr(function, "py_func") else njit(error_model="numpy")(function)

    def clipped(margin: float, label: float) -> float:
        try:
            result = float(inner(margin, label))
        except Exception:
            result = math.nan
        return min(max(result, -bound), bound) if result == result else result

    return njit(error_model="numpy")(clipped)


def run_guarded(owner: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function; an exception is replaced by one that names its type alone.

    The new one is raised outside the handler, so that not even its context holds the old one.
    """
    try:
        with quiet():
            return function(*arguments)
    except Exception as error:
        kind = type(error).__name__
    raise ParameterError(
        f"{owner} raised {kind}. What it said is withheld, since it may speak of private values; "
        "call the function on public numbers to see it. It must be defined for every finite input."
    )
