"""When units are found, which ones, and for how much: public rules, their constants first.

Rows can be measured in units that fit them: centred, and divided by a typical length. Finding such
units costs a part of the budget, so a rule says when that pays. Each rule reads public facts alone
(the numbers of rows and features, the budget, the loss, what was declared). Where units are not
found, the declared ones serve, and the plan says why.

z = n mu / sensitivity: how many rows the noise of one sum is worth that spends the whole budget.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .. import _validate
from ..errors import ParameterError
from ..privacy.budget import GDP, ZCDP, Adjacency, ApproxDP, Budget

Features = Literal["declared", "rows", "columns", "length"]
Columns = Literal["none", "half"]

ROWS_SHARE = 0.03
"""Of squared mu, for the centre and the length of declared rows: the fit's noise grows by 1.5 %."""

HALF_SHARE = 0.05
"""The same with the spread of each column, which takes as many numbers again."""

COLUMNS_SIGNAL = 100.0
"""z / sqrt(d) from which on columns are also scaled by the root of their spread ("half"): below,
the noise of their spreads costs more than it gains. On tables where it was chosen it gained up to
6 % and never lost more than 1 % from there on."""

COLUMNS_SHARE, FEW_COLUMNS_SHARE = 0.10, 0.25
"""For the columns of raw tables, from `FEW` rows on and below: few rows need a larger share to be
seen above the noise, and gain more from units than they lose by the noise of the fit."""

LABEL_SHARE, FEW_LABEL_SHARE = 0.03, 0.05
"""For the range of labels, likewise. One histogram of one column needs less than many."""

FEW = 5_000

MOST_COLUMNS = 200
"""Beyond, the columns of a raw table share one unit: noise on each grows with their root."""

HISTOGRAM_PART = 0.5
"""Of the columns' share: their histograms, which say where columns lie. The rest buys their means
and spreads (of sparse columns, which have no centre, the length of rows)."""

FAINTEST = 0.0625
"""Of the rows: the most noise on a bin. A bin of a quarter of them must exceed four deviations."""

LEAST_SIGNAL = 10.0
"""z / sqrt(d) below which the centre of declared rows drowns, and they keep their units."""

UNITLESS = frozenset(
    {
        "accountant",
        "batch",
        "batches",
        "decay",
        "epochs",
        "falling",
        "follow",
        "momentum",
        "noise",
        "output",
        "passes",
        "project",
        "rate",
        "refit",
        "rounds",
        "sampling",
        "schedule",
        "tail",
    }
)
"""Options of solvers that mean the same in any unit. With others units stay as declared."""


@dataclass(frozen=True, kw_only=True)
class UnitSearch:
    """Which units are found before a fit, and for how much; public, and part of the plan."""

    features: Features = "declared"
    """What is found of rows: nothing, centre and length of declared ones ("rows"), a unit for each
    column of a raw table ("columns"), or one for all of them ("length")."""

    labels: bool = False  # whether the range of labels is found
    feature_norm: float | None = None  # the declared bound of "rows"
    columns: Columns = "none"  # of "rows": whether columns are scaled, too
    sparse: bool = False  # whether rows are sparse, which have no centre
    share: float = 0.0  # of squared mu, for the features
    label_share: float = 0.0  # for the labels

    def __post_init__(self) -> None:
        _validate.choice("features", self.features, ("declared", "rows", "columns", "length"))
        _validate.choice("columns", self.columns, ("none", "half"))
        for name in ("labels", "sparse"):
            _validate.flag(name, getattr(self, name))
        if not (self.labels or self.features != "declared"):
            raise ParameterError("there is nothing to find: features, labels or both.")
        shares = {"share": self.features != "declared", "label_share": self.labels}
        for name, needed in shares.items():
            if needed:
                _validate.probability(name, getattr(self, name))
            elif getattr(self, name) != 0.0:
                raise ParameterError(f"{name} is for something that is not to be found.")
        if not self.total_share < 1.0:
            raise ParameterError(f"units take all of the budget: {self.total_share:g} of it.")
        if (self.features == "rows") != (self.feature_norm is not None):
            raise ParameterError("declared rows, and they alone, have a feature_norm.")
        if self.feature_norm is not None:
            _validate.positive("feature_norm", self.feature_norm)

    @property
    def total_share(self) -> float:
        """Of squared mu, for everything."""
        return self.share + self.label_share

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, record: Any) -> UnitSearch | None:
        """Rebuild a search from its record; None if there is none.

        Raises:
            ParameterError: a part is missing, unknown or out of range.
        """
        if record is None:
            return None
        names = {item.name for item in dataclasses.fields(cls)}
        if not isinstance(record, Mapping) or set(record) != names:
            raise ParameterError(f"a search for units has the fields {', '.join(sorted(names))}.")
        return cls(**record)


def signal(n: int, budget: Budget) -> float:
    """Return z: how many rows the noise of one sum is worth that spends the whole budget."""
    return n * budget.mu_per_row() / budget.adjacency.sensitivity(1.0)


def rule_share(search: UnitSearch, n: int) -> float:
    """Return the part of squared mu that the features take, by rule."""
    if search.features == "rows":
        return {"none": ROWS_SHARE, "half": HALF_SHARE}[search.columns]
    return COLUMNS_SHARE if n >= FEW else FEW_COLUMNS_SHARE


def search_for_raw(
    *,
    n: int,
    d: int,
    budget: Budget,
    units: str = "auto",
    sparse: bool = False,
    share: float | None = None,
) -> tuple[UnitSearch, str]:
    """Return what is found of rows whose length nobody declared; and why it is not more.

    Args:
        n, d, budget: as in `Task`.
        units: "declared" for one length of all rows, whatever their number.
        sparse: whether the rows are.
        share: of squared mu; None: by rule.
    """
    search = UnitSearch(features="length", sparse=sparse, share=share or 0.5)
    share = rule_share(search, n) if share is None else share
    search = dataclasses.replace(search, share=share)
    if units == "declared":
        return search, "units='declared' was asked for"
    if d > MOST_COLUMNS:
        return search, f"there are more than {MOST_COLUMNS} of them"
    if not isinstance(budget, (ApproxDP, ZCDP, GDP)):
        return search, "the budget is pure"  # and the plan is refused
    # Two rows differ by sqrt(2 d) in the histograms, by at most 2 where a sum's sensitivity is 2.
    apart = math.sqrt(d) * budget.adjacency.sensitivity(1.0) ** 0.5
    sigma = apart / (budget.mu_per_row() * math.sqrt(share * HISTOGRAM_PART))
    if sigma > FAINTEST * n:
        return search, f"noise of {sigma:.3g} on a count of each is too much for {n} rows"
    return dataclasses.replace(search, features="columns"), ""


def label_share(n: int) -> float:
    """Return the part of squared mu that the range of labels takes, by rule."""
    return LABEL_SHARE if n >= FEW else FEW_LABEL_SHARE


def search_for_rows(
    *,
    n: int,
    d: int,
    budget: Budget,
    feature_norm: float,
    regression: bool,
    in_units: tuple[str, ...],
    options: Mapping[str, Any],
    calibration: str,
    intercept: bool = True,
    sparse: bool = False,
    share: float | None = None,
    columns: Columns | None = None,
) -> tuple[UnitSearch | None, str]:
    """Return what is found of declared rows; or None, and why their units stay.

    Args:
        n, d, budget, calibration: as in `Task`.
        feature_norm: as declared.
        regression: whether numbers are predicted. Such fits gain nothing if columns are scaled to
            [-1, 1]: their clip on residuals does what units would, and long rows say more about
            numbers than about classes. Rows that may be longer have columns of unequal sizes.
        intercept: whether the model has one, which takes up the centre.
        in_units: what the user gave in units of features: radius, scale, alpha.
        options: of the solver.
        sparse: whether the rows are.
        share: of squared mu; None: by rule.
        columns: None: by rule.
    """
    reason = ""
    if not isinstance(budget, (ApproxDP, ZCDP, GDP)):
        reason = "the noise of what would be released is Gaussian, which is never purely private"
    elif budget.adjacency is Adjacency.ADD_REMOVE:
        reason = "the number of rows is hidden"
    elif regression and (d == 1 or feature_norm <= math.sqrt(d) * (1.0 + 1e-9)):  # rounded up
        reason = (
            "a regression on one column, or on columns within [-1, 1], gains nothing from others"
        )
    elif not intercept:
        reason = "without an intercept rows have no other centre than 0"
    elif in_units:
        reason = f"{in_units[0]} is given in them"
    elif unknown := sorted(set(options) - UNITLESS):
        reason = f"the option {unknown[0]} may be given in them"
    elif calibration != "tight":
        reason = f"calibration is {calibration!r}"
    elif not (ratio := signal(n, budget) / math.sqrt(1 if sparse else d)) >= LEAST_SIGNAL:
        reason = f"so few rows, at this budget, would drown in noise ({ratio:.3g} to 1)"
    if reason:
        return None, reason
    if columns is None:
        columns = "half" if ratio >= COLUMNS_SIGNAL else "none"
    columns = "none" if sparse else columns
    search = UnitSearch(
        features="rows", feature_norm=feature_norm, columns=columns, sparse=sparse, share=0.5
    )
    return dataclasses.replace(search, share=rule_share(search, n) if share is None else share), ""
