"""Plans of private bounds: which histograms, with how much noise, and the fit that follows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ... import _validate
from ...data.bounds import Bounds
from ...data.counts import FAINTEST
from ...data.histograms import LabelHistogram, NormHistogram
from ...data.labels import Scaled
from ...errors import AssumptionError, ParameterError
from ...geometry.norms import L2, Norm
from ...privacy.accounting.calibration import calibrate
from ...privacy.budget import GDP, ZCDP, ApproxDP, Budget
from ...privacy.certificate_text import amounts
from ...privacy.mechanisms import GaussianRelease
from ...privacy.release import Release
from ...problem import Problem
from ...solvers.base import BasePlan
from ..config import ModelConfig
from ..shared_budget import Preliminary, SharedPlan, plan_within, portion, rest
from .reading import QUANTILE, STANDS_OUT

SHARE = 0.1
"""The part of the budget that histograms get by default; a fit's noise grows by 5 %."""

_FAINTEST = 0.25  # of the rows: a bin of so many must stand out, or the plan is refused
_INSTEAD = "Declare the bounds, or use solver='noisy_gd'."


@dataclass(frozen=True, kw_only=True)
class BoundsPlan(Preliminary):
    """Which histograms are released, and with how much noise; made by `plan_bounds`.

    It is paid from the share ``share`` of the budget's squared mu: Gaussian releases add up in that
    currency (for zCDP it is rho), so the fit keeps sqrt(1 - share) of the budget's mu.
    """

    subject = ("private bounds", "need", "are")

    share: float
    quantile: float
    features: bool  # whether the rows' unit is estimated
    labels: bool  # whether the labels' range is
    sigma: float  # standard deviation of the noise on each bin
    norm: Norm = L2

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.probability("share", self.share)
        if not 0.5 < _validate.positive("quantile", self.quantile) <= 1.0:
            raise ParameterError(
                f"quantile must lie above 0.5 and be at most 1, got {self.quantile!r}.",
                parameter="quantile",
            )
        if not (self.features or self.labels):
            raise ParameterError(
                "private bounds need something to estimate: features, labels or both."
            )
        if not isinstance(self.budget, (ApproxDP, ZCDP, GDP)):
            raise AssumptionError(
                f"bounds cannot be estimated from {amounts(self.budget)}: the histograms "
                "have Gaussian noise, which is never purely private. Declare the bounds, or use "
                "ApproxDP(epsilon, delta)."
            )

    @property
    def queries(self) -> tuple[NormHistogram | LabelHistogram, ...]:
        """The histograms, in the order of their releases."""
        norms = (NormHistogram(self.norm),) if self.features else ()
        return (*norms, LabelHistogram()) if self.labels else norms

    @property
    def counts(self) -> bool:
        """Whether the bins of the first histogram add up to a count of rows that says something."""
        return self.sigma * math.sqrt(self.queries[0].size) <= FAINTEST * self.n

    def releases(self) -> tuple[Release, ...]:
        """Return what is released before the fit."""
        rows = (0, self.n)
        return tuple(
            GaussianRelease(query.bound, self.sigma, query.diameter, rows=rows)
            for query in self.queries
        )

    def bounds(self, bounds: Bounds) -> Bounds:
        """Return the bounds of the rows that the histograms count."""
        for query in self.queries:
            bounds = query.bounds(bounds)
        return bounds

    @property
    def enforced(self) -> tuple[str, ...]:
        """What is enforced, in sentences for the certificate."""
        sentences = tuple(line for query in self.queries for line in query.enforced)
        if self.features:
            sentences += ("rows are measured in a unit that was chosen from their noisy histogram",)
        if self.labels:
            sentences += (
                "labels are scaled by a range that was chosen from their noisy histogram",
            )
        return sentences

    def rest(self) -> Budget:
        """Return the budget that is left for the fit."""
        return rest(self.budget, self.share)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        from ...solvers.serialization import encode

        return {f.name: encode(getattr(self, f.name)) for f in dataclasses.fields(self)}

    def __str__(self) -> str:
        what = " and ".join(["row lengths"] * self.features + ["labels"] * self.labels)
        return (
            f"private bounds: {self.share:.3g} of {amounts(self.budget)} for noisy "
            f"histograms of {what}, {self.n:,} rows\n"
            f"  noise       {self.sigma:.6g} on each count: bins of more than "
            f"{STANDS_OUT * self.sigma:.0f} rows stand out\n"
            f"  quantile    {self.quantile:g} of the rows shall lie within the bounds"
        )


@dataclass(frozen=True, kw_only=True)
class JointPlan(SharedPlan):
    """The histograms and the fit that follows, under one budget; made by `plan_with_bounds`."""

    maker = "plan_with_bounds"
    prefix = "private bounds, "

    bounds: BoundsPlan
    fit: BasePlan  # for rows of length 1 and labels within [-1, 1], with what is left of the budget

    def __post_init__(self) -> None:
        first, fit = self.bounds, self.fit
        _check_unit(fit.problem.bounds, first.features, first.labels)
        self.check(
            "histograms and fit",
            rows=(first.n, fit.n),
            norms=(first.norm, fit.problem.bounds.norm),
            # A fit's stability is computed for its own adjacency, and charged under the whole's.
            adjacencies=(first.budget.adjacency, fit.budget.adjacency),
            units=(first.budget.unit, fit.budget.unit),
        )

    @property
    def preliminary(self) -> BoundsPlan:
        """The histograms."""
        return self.bounds


def plan_bounds(
    budget: Budget,
    *,
    n: int,
    share: float = SHARE,
    features: bool = True,
    labels: bool = False,
    quantile: float = QUANTILE,
    norm: Norm = L2,
) -> BoundsPlan:
    """Return the plan of the histograms alone.

    Args:
        budget: of histograms and fit together; not `PureDP`, since the noise is Gaussian.
        n: number of rows, which is public.
        share: the part of the budget's squared mu (of rho) that the histograms get together.
        features: whether the length of rows is estimated.
        labels: whether the range of labels is.
        quantile: the part of the rows that shall lie within the bounds, above 0.5.
        norm: in which rows are measured.

    Raises:
        AssumptionError: the budget is pure, or too small for so few rows.
        ParameterError: an argument is out of range.

    >>> plan = plan_bounds(ApproxDP(1.0, 1e-8), n=10_000)
    >>> round(plan.sigma, 2), round(plan.rest().epsilon, 4)
    (22.81, 0.946)
    """
    first = BoundsPlan(
        budget=budget,
        n=n,
        share=share,
        quantile=quantile,
        features=features,
        labels=labels,
        sigma=1.0,
        norm=norm,
    )
    part = portion(budget, share)
    sigma = calibrate(lambda s: dataclasses.replace(first, sigma=s).releases(), part)
    if STANDS_OUT * sigma > _FAINTEST * n:
        need = math.ceil(STANDS_OUT * sigma / _FAINTEST)
        raise AssumptionError(
            f"{n} rows are too few to estimate bounds with {share:g} of "
            f"{amounts(budget)}: noise of {sigma:.3g} on a count takes {need} rows. "
            "Declare the bounds, raise the share, or raise the budget."
        )
    return dataclasses.replace(first, sigma=sigma)


def plan_with_bounds(
    problem: Problem | ModelConfig,
    *,
    n: int,
    d: int,
    budget: Budget,
    features: bool = True,
    labels: bool = False,
    share: float = SHARE,
    quantile: float = QUANTILE,
    solver: str = "auto",
    calibration: str = "tight",
    options: Mapping[str, Any] | None = None,
) -> JointPlan:
    """Return the plan of the histograms and of the fit that follows, decided without data.

    Args:
        problem: in the unit that is to be found: ``feature_norm=1`` if the features' is estimated,
            labels within [-1, 1] if their range is. Radius, penalty and scale are in that unit too.
            Of a model in that unit, the plan of the fit holds the record.
        budget: of everything together.
        n, d, solver, calibration, options: as in `dpsco.plan`.
        features, labels, share, quantile: as in `plan_bounds`.

    Raises:
        AssumptionError: as in `plan_bounds` and `dpsco.plan`; or no accountant composes the
            solver's releases with a histogram.
        ParameterError: the problem is in another unit.
    """
    if not isinstance(problem, (Problem, ModelConfig)):
        raise ParameterError(f"private bounds need a Problem, got {type(problem).__name__}.")
    _check_unit(problem.bounds, features, labels)
    first = plan_bounds(
        budget,
        n=n,
        share=share,
        features=features,
        labels=labels,
        quantile=quantile,
        norm=problem.bounds.norm,
    )
    return plan_within(
        problem,
        share,
        lambda fit: JointPlan(bounds=first, fit=fit),
        n=n,
        d=d,
        budget=budget,
        solver=solver,
        calibration=calibration,
        options=options,
        beside="the histograms of private bounds",
        instead=_INSTEAD,
    )


def _check_unit(bounds: Bounds, features: bool, labels: bool) -> None:
    """Refuse a problem that is not in the unit that is to be found."""
    if features and bounds.feature_norm != 1.0:
        raise ParameterError(
            "private bounds need a problem for rows of length 1, in the unit that is to be found: "
            f"Bounds(feature_norm=1.0, ...), got {bounds.feature_norm:g}."
        )
    rule = bounds.label
    if isinstance(rule, Scaled):
        rule = (rule.low, rule.high)
    if labels and rule not in (1.0, (-1.0, 1.0)):
        raise ParameterError(
            "private label ranges need a problem for labels within [-1, 1], in the unit that is to "
            f"be found: label=Scaled(-1, 1), got {bounds.label!r}."
        )
