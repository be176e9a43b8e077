"""scikit-learn estimators: the path of a fit behind `fit`, `predict` and `score`.

Parameters say what is public and what may be spent; `fit` hands them to `dpsco.fit` and
`dpsco.models`, where all decisions are made. Read in this order:

| module      | holds                                                                            |
|-------------|----------------------------------------------------------------------------------|
| base        | what all share: storing parameters, the fit of a linear model, the certificate   |
| classifiers | `PrivateLogisticRegression`, `PrivateSVC`                                        |
| regressors  | `PrivateLinearRegression`, lasso, simplex, Huber, quantile, absolute, SVR         |
| mean        | `PrivateMean`                                                                    |
| search      | `PrivateGridSearch`: tuning within one budget                                    |
| display     | how they show themselves at the prompt and in a notebook                         |
| encoder     | `TableEncoder`: columns to numbers by public facts, as a transformer             |
| saving      | `save`: one file for a model and the encoder in front of it                      |
| inputs      | what X and y may be; no error depends on what a row contains                     |
| repeated    | the warning if scikit-learn's own searches fit again and again                   |

Only public names of scikit-learn are used. Constructors take keywords alone, so that nobody takes a
norm for an epsilon.
"""

from __future__ import annotations

from ..errors import MissingExtraError

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError:
    raise MissingExtraError(
        "the estimators need scikit-learn. Install it with: pip install 'dpsco[sklearn]'. Without "
        "it, dpsco.solve(problem, (X, y), budget) does the same fits."
    ) from None

from .classifiers import PrivateLogisticRegression, PrivateSVC
from .encoder import TableEncoder
from .mean import PrivateMean
from .regressors import (
    PrivateAbsoluteRegressor,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateQuantileRegressor,
    PrivateSimplexRegressor,
    PrivateSVR,
)
from .search import PrivateGridSearch

__all__ = [
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
]
