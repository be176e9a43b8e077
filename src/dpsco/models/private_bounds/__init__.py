"""Bounds that nobody can declare: a part of the budget is spent on finding them.

Rows may be bounded by 1 if the unit in which they are measured fits. So the fit is planned for rows
of length 1 and labels within [-1, 1], before any data; then noisy histograms over public bins say
which power of two is the rows' unit and which range is the labels'; then the fit runs as planned on
rows in that unit. One ledger holds the histograms and the fit, and its certificate speaks of both.

| module   | holds                                                                   |
|----------|-------------------------------------------------------------------------|
| planning | `BoundsPlan`, `JointPlan`: everything that is decided before data       |
| reading  | from noisy counts to `Scales`: the unit of rows, the range of labels    |
| fitting  | histograms and fit on one ledger                                        |
"""

from .fitting import estimate, execute, fit_with_private_bounds, run_with_bounds
from .planning import SHARE, BoundsPlan, JointPlan, plan_bounds, plan_with_bounds
from .reading import QUANTILE, STANDS_OUT, Scales, choose, label_ends, row_unit

__all__ = [
    "fit_with_private_bounds",
    "plan_with_bounds",
    "run_with_bounds",
    "JointPlan",
    "BoundsPlan",
    "Scales",
    "plan_bounds",
    "estimate",
    "execute",
    "choose",
    "row_unit",
    "label_ends",
    "QUANTILE",
    "SHARE",
    "STANDS_OUT",
]
