"""dpsco: models fitted on private rows, with a certificate of the privacy they cost.

Names are loaded on first use, so that ``import dpsco`` is instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import (
        data,
        errors,
        estimators,
        federated,
        geometry,
        losses,
        models,
        privacy,
        problems,
        report,
        solvers,
    )
    from .data import Bounds
    from .estimators import (
        PrivateAbsoluteRegressor,
        PrivateGridSearch,
        PrivateHuberRegressor,
        PrivateLasso,
        PrivateLinearRegression,
        PrivateLogisticRegression,
        PrivateMean,
        PrivateQuantileRegressor,
        PrivateSimplexRegressor,
        PrivateSVC,
        PrivateSVR,
        TableEncoder,
    )
    from .estimators.saving import save
    from .fit.choose import recommend
    from .fit.forecast import forecast
    from .fit.outlook import outlook
    from .fit.run import load_plan, plan, run, solve
    from .fit.tradeoff import Tradeoff, TradeoffPoint, tradeoff
    from .geometry import domains
    from .models.rehearsal import rehearse
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
    from .problem import Problem
    from .solvers.base import Result
    from .task import Task

# Where each public name lives; "." is a module of its own.
_MODULES = (
    *("data", "errors", "geometry", "losses", "privacy", "problems", "solvers"),
    *("models", "estimators", "federated", "report"),
)
_ESTIMATORS = (
    "PrivateLogisticRegression",
    "PrivateSVC",
    "PrivateLinearRegression",
    "PrivateLasso",
    "PrivateSimplexRegressor",
    "PrivateHuberRegressor",
    "PrivateQuantileRegressor",
    "PrivateAbsoluteRegressor",
    "PrivateSVR",
    "PrivateMean",
    "PrivateGridSearch",
    "TableEncoder",
)
_HOMES = {
    **dict.fromkeys(_MODULES, "."),
    **dict.fromkeys(_ESTIMATORS, ".estimators"),
    "save": ".estimators.saving",
    "domains": ".geometry",
    "Bounds": ".data",
    "Problem": ".problem",
    "Task": ".task",
    "Result": ".solvers.base",
    "recommend": ".fit.choose",
    "outlook": ".fit.outlook",
    "forecast": ".fit.forecast",
    "rehearse": ".models.rehearsal",
    **dict.fromkeys(("tradeoff", "Tradeoff", "TradeoffPoint"), ".fit.tradeoff"),
    **dict.fromkeys(("plan", "run", "solve", "load_plan"), ".fit.run"),
}

__all__ = [
    "__version__",
    # modules
    "errors",
    "privacy",
    "geometry",
    "domains",
    "losses",
    "data",
    "problems",
    "solvers",
    "models",
    "estimators",
    "federated",
    "report",
    # estimators
    "PrivateLogisticRegression",
    "PrivateSVC",
    "PrivateLinearRegression",
    "PrivateLasso",
    "PrivateSimplexRegressor",
    "PrivateHuberRegressor",
    "PrivateQuantileRegressor",
    "PrivateAbsoluteRegressor",
    "PrivateSVR",
    "PrivateMean",
    "PrivateGridSearch",
    "TableEncoder",
    "save",
    # the path of a fit
    "Bounds",
    "Problem",
    "Task",
    "plan",
    "run",
    "solve",
    "load_plan",
    "Result",
    "recommend",
    "outlook",
    "forecast",
    "tradeoff",
    "Tradeoff",
    "TradeoffPoint",
    "rehearse",
    # the guarantee
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
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, ".privacy")
    if home == ".":
        return importlib.import_module(f".{name}", __name__)
    return getattr(importlib.import_module(home, __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
