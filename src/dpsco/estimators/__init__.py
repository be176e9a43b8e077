"""scikit-learn estimators: the same path of a fit, behind habits that everybody has.

| module      | holds                                                                  |
|-------------|------------------------------------------------------------------------|
| base        | what all share: parameters, the fit, the certificate                   |
| classifiers | `PrivateLogisticRegression`, `PrivateSVC`                              |
| regressors  | `PrivateLinearRegression` and its robust and quantile relatives        |
| mean        | `PrivateMean`                                                          |
| search      | `PrivateGridSearch`: tuning within one budget                          |
| search_plan | what a search decides before data, and its runs                        |
| held_out    | scores of held-out rows, bounded row by row                            |
| inputs      | what X and y may be; nothing that a row holds raises an error          |
| repeated    | the warning of searches and cross-validation, which fit again and again |

Only public names of scikit-learn are used.
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
from .mean import PrivateMean
from .regressors import (
    PrivateAbsoluteRegressor,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateQuantileRegressor,
    PrivateSVR,
)
from .search import PrivateGridSearch

__all__ = [
    "PrivateLogisticRegression",
    "PrivateSVC",
    "PrivateLinearRegression",
    "PrivateHuberRegressor",
    "PrivateQuantileRegressor",
    "PrivateAbsoluteRegressor",
    "PrivateSVR",
    "PrivateMean",
    "PrivateGridSearch",
]
