"""The solvers, one module a family, and the registry that finds them by key.

A module declares its entries as ``SOLVERS``; a new module is a new line in ``_MODULES``.
"""

from __future__ import annotations

import importlib
from functools import lru_cache

from .._validate import shown
from ..errors import ParameterError
from .base import Solver

_MODULES = (
    "noisy_gd",
    "phased_sgd",
    "output_perturbation",
    "objective_perturbation",
    "phased_erm",
    "single_epoch",
    "recursive_gradient",
    "sampled_sgd",
)

__all__ = ["get", "registry"]


@lru_cache(maxsize=1)
def registry() -> dict[str, Solver]:
    """Return every solver by its key."""
    found: dict[str, Solver] = {}
    for name in _MODULES:
        module = importlib.import_module(f".{name}", __name__)
        for solver in module.SOLVERS:
            if solver.key in found:
                raise RuntimeError(f"two solvers have the key {solver.key!r}")
            found[solver.key] = solver
    return found


def get(key: str) -> Solver:
    """Return the solver of that key; refuse unknown ones."""
    known = registry()
    if not isinstance(key, str) or key not in known:
        raise ParameterError(
            f"solver must be 'auto' or one of {', '.join(sorted(known))}; got {shown(key)}. "
            "`dpsco solvers` says what each is for."
        )
    return known[key]
