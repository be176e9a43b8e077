"""Units that are found: a part of the budget is spent on centre and scale of rows and labels.

A fit is planned for rows of length 1, before any data. Then noisy sums and histograms say in which
units the rows are that short, and the fit runs as planned on rows in those units. One ledger holds
all of it, and its certificate speaks of all of it.

| module   | holds                                                                        |
|----------|------------------------------------------------------------------------------|
| planning | `UnitsPlan`, `FitInUnits`: everything that is decided before data            |
| reading  | from noisy numbers to `data.Units`                                           |
| fitting  | the releases and the fit on one ledger                                       |

When units are found at all is decided in `models.unit_rules`.
"""

from .fitting import Found, execute, find, fit_in_units, run_in_units
from .planning import FitInUnits, UnitsPlan, plan_in_units, plan_units

__all__ = [
    "FitInUnits",
    "Found",
    "UnitsPlan",
    "execute",
    "find",
    "fit_in_units",
    "plan_in_units",
    "plan_units",
    "run_in_units",
]
