"""The solvers: one file or folder per family, found by being here.

Read `base` (what a plan, a result and an entry are), `needs` (what theorems ask of a task),
`engine` (the loop of every solver that takes noisy answers round by round), `common` (what families
share), then any family. A family is a module or folder that declares its entries as ``SOLVERS``;
its docstring opens with the paper, the guarantee, the rate, the needs and the symbols. Nothing else
has to be told about it: `registry` imports what is in this folder. `listing` shows the registry,
`serialization` writes and reads plans.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from types import ModuleType

from .._validate import closest, shown
from ..errors import ParameterError
from .base import Solver

__all__ = ["families", "family", "get", "registry"]


@lru_cache(maxsize=1)
def families() -> tuple[ModuleType, ...]:
    """Return every module or folder of this package that declares ``SOLVERS``, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = (importlib.import_module(f".{name}", __name__) for name in names)
    return tuple(module for module in modules if hasattr(module, "SOLVERS"))


@lru_cache(maxsize=1)
def registry() -> dict[str, Solver]:
    """Return every solver by its key: by `Solver.order`, then by family, then as it declares them.

    Raises:
        RuntimeError: two solvers have one key.
    """
    solvers: list[Solver] = [solver for module in families() for solver in module.SOLVERS]
    entries: dict[str, Solver] = {}
    for solver in sorted(solvers, key=lambda solver: solver.order):
        if solver.key in entries:
            raise RuntimeError(f"two solvers have the key {solver.key!r}")
        entries[solver.key] = solver
    return entries


def family(key: str) -> ModuleType:
    """Return the module or folder that declares the solver of that key."""
    solver = get(key)
    return next(module for module in families() if solver in module.SOLVERS)


def get(key: str) -> Solver:
    """Return the solver of that key; refuse unknown ones."""
    known = registry()
    if not isinstance(key, str) or key not in known:
        meant = closest(key, ["auto", *known]) if isinstance(key, str) else ""
        listed = "a key of the registry" if meant else f"one of {', '.join(sorted(known))}"
        raise ParameterError(
            f"solver must be 'auto' or {listed}; got {shown(key)}.{meant} "
            "`dpsco solvers` says what each is for.",
            parameter="solver",
        )
    return known[key]
