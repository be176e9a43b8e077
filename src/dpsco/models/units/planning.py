"""Plans of units: what is released, with how much noise, and the fit that follows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ... import _validate
from ...data.bounds import Bounds
from ...data.histograms import ColumnHistogram, LabelHistogram, NormHistogram
from ...data.labels import Scaled
from ...data.moments import (
    MOST_LENGTH_WEIGHT,
    MOST_SQUARES_WEIGHT,
    ColumnMoments,
    RowMoments,
    SquaredLengths,
)
from ...data.queries import Query
from ...errors import AssumptionError, ParameterError
from ...geometry.norms import L2, Norm
from ...privacy.budget import GDP, ZCDP, Adjacency, ApproxDP, Budget
from ...privacy.certificate_text import amounts
from ...privacy.mechanisms import GaussianRelease, gaussian_sigma
from ...privacy.release import Release
from ...problem import Problem
from ...solvers.base import BasePlan
from ..config import ModelConfig
from ..row_counts import CountPlan
from ..shared_budget import Preliminary, SharedPlan, plan_within, portion
from ..unit_rules import HISTOGRAM_PART, UnitSearch, signal
from .reading import STANDS_OUT

_INSTEAD = "Use units='declared', or solver='noisy_gd'."
_FAINTEST = 0.25  # of the rows: a bin of so many must stand out, or the plan is refused
_SENTENCES = {
    "declared": "rows are measured in the declared units",
    "rows": "rows are measured from a centre and in a length that a noisy sum says",
    "columns": "columns are measured from centres and in spreads that noisy histograms and sums "
    "say",
    "length": "rows are measured in one length that a noisy histogram says",
}
_SPARSE_SENTENCES = {
    "rows": "rows are measured in a length that a noisy sum says",
    "columns": "columns are measured in units that noisy histograms say",
}
_CENTRE_WEIGHT = 0.5  # of squares where they cost the sum of rows something: the centre needs more


@dataclass(frozen=True)
class Stage:
    """One release: what is summed, and for which part of the budget."""

    name: str
    query: Query
    share: float


@dataclass(frozen=True, kw_only=True)
class UnitsPlan(Preliminary):
    """What is released to find units, and with how much noise; made by `plan_units`.

    It is paid from the share ``search.total_share`` of the budget's squared mu: Gaussian releases
    add up in that currency (for zCDP it is rho).
    """

    subject = ("units", "need", "are")

    d: int
    search: UnitSearch
    norm: Norm = L2  # in which rows are measured
    count: CountPlan | None = None  # of rows, beside the units
    note: str = ""  # why not more is found
    sigmas: tuple[float, ...] = ()  # standard deviation of the noise on each stage's numbers

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "d", _validate.integer("d", self.d))
        if not isinstance(self.budget, (ApproxDP, ZCDP, GDP)):
            raise AssumptionError(
                f"units cannot be found with {amounts(self.budget)}: the noise of what is released "
                "is Gaussian, which is never purely private. Declare the bounds and use "
                "units='declared', or use ApproxDP(epsilon, delta)."
            )
        if self.count is not None and (self.count.n, self.count.budget) != (self.n, self.budget):
            raise ParameterError("units and count of rows are for different rows or budgets.")

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """What is released, in order: of features first, then the labels, then what builds on it.

        The stages of one source of rows stand beside each other.
        """
        search, d = self.search, self.d
        labels = (Stage("labels", LabelHistogram(), search.label_share),) if search.labels else ()
        first, second = search.share * HISTOGRAM_PART, search.share * (1.0 - HISTOGRAM_PART)
        if search.features == "declared":
            return labels
        if search.features == "rows":
            return (Stage("rows", self._row_query(), search.share), *labels)
        lengths = NormHistogram(self.norm)
        if search.features == "length":
            return (Stage("lengths", lengths, search.share), *labels)
        columns = Stage("columns", ColumnHistogram(d), first)
        if search.sparse:
            return (columns, *labels, Stage("lengths", lengths, second))
        return (columns, *labels, Stage("moments", ColumnMoments(d, self._weight(1.0)), second))

    def _row_query(self) -> RowMoments | SquaredLengths:
        """Return what is summed of declared rows."""
        search, norm = self.search, self.search.feature_norm
        assert norm is not None  # which the search has checked
        if search.sparse:
            return SquaredLengths(self.d, norm)
        if search.columns == "half":
            return RowMoments(self.d, norm, MOST_SQUARES_WEIGHT, columns=True)
        return RowMoments(self.d, norm, self._weight(_CENTRE_WEIGHT))

    def _weight(self, otherwise: float) -> float:
        """Return the weight of squares: under replace_one they cost the sums beside nothing."""
        free = self.budget.adjacency is Adjacency.REPLACE_ONE
        return MOST_LENGTH_WEIGHT if free else otherwise

    @property
    def signal(self) -> float:
        """z of `dpsco.models.unit_rules`."""
        return signal(self.n, self.budget)

    @property
    def share(self) -> float:
        """The part of the budget's squared mu that everything takes, the count included."""
        return self.search.total_share + (0.0 if self.count is None else self.count.share)

    def releases(self) -> tuple[Release, ...]:
        """Return what is released before the fit."""
        rows = (0, self.n)
        units = tuple(
            GaussianRelease(stage.query.bound, sigma, stage.query.diameter, rows=rows)
            for stage, sigma in zip(self.stages, self.sigmas, strict=True)
        )
        return units if self.count is None else (*units, *self.count.releases())

    @property
    def enforced(self) -> tuple[str, ...]:
        """What is enforced, in sentences for the certificate."""
        lines = tuple(line for stage in self.stages for line in stage.query.enforced)
        lines += (f"{self.sentence}, for {100.0 * self.search.total_share:g} % of the budget",)
        return lines if self.count is None else (*lines, *self.count.enforced)

    @property
    def sentence(self) -> str:
        """Which units are found."""
        search = self.search
        text = _SENTENCES[search.features]
        if search.sparse:  # which have no centre
            text = _SPARSE_SENTENCES.get(search.features, text)
        if search.columns == "half":
            text += ", columns by the root of their spread"
        if search.labels:
            text += "; labels are scaled by a range that a noisy histogram says"
        return f"{text} ({self.note})" if self.note else text

    def __str__(self) -> str:
        share = f"{100.0 * self.search.total_share:g} % of {amounts(self.budget)}"
        noise = ", ".join(
            f"{sigma:.4g} on {stage.name}"
            for stage, sigma in zip(self.stages, self.sigmas, strict=True)
        )
        text = f"units: {share}; {self.sentence}\n  noise       {noise}"
        return text if self.count is None else f"{text}\n{self.count}"


@dataclass(frozen=True, kw_only=True)
class FitInUnits(SharedPlan):
    """The search for units and the fit that follows, under one budget; made by `plan_in_units`."""

    maker = "plan_in_units"

    units: UnitsPlan
    fit: BasePlan  # for rows of length 1; its budget is the whole, and its noise leaves enough

    def __post_init__(self) -> None:
        first, fit = self.units, self.fit
        _check_problem(fit.problem.bounds, first.search)
        self.check(
            "units and fit",
            rows=(first.n, fit.n),
            features=(first.d, fit.d),
            budgets=(first.budget, fit.budget),
            norms=(first.norm, fit.problem.bounds.norm),
        )

    @property
    def count(self) -> CountPlan | None:
        """The count of rows, if there is one."""
        return self.units.count

    @property
    def preliminary(self) -> UnitsPlan:
        """What is released before the fit."""
        return self.units


def plan_units(
    budget: Budget,
    *,
    n: int,
    d: int,
    search: UnitSearch,
    norm: Norm = L2,
    count: CountPlan | None = None,
    note: str = "",
) -> UnitsPlan:
    """Return the plan of the units alone.

    Args:
        budget: of units and fit together; not `PureDP`, since the noise is Gaussian.
        n, d: rows and features, which are public.
        search: what is found.
        norm: in which rows are measured.
        count: of rows, beside the units.
        note: why not more is found, for whoever reads the plan.

    Raises:
        AssumptionError: the budget is pure, or too small for so few rows.
        ParameterError: an argument is out of range.

    >>> search = UnitSearch(features="rows", feature_norm=1.0, share=0.03)
    >>> plan = plan_units(ApproxDP(1.0, 1e-8), n=10_000, d=5, search=search)
    >>> [round(sigma, 2) for sigma in plan.sigmas]
    [58.89]
    """
    facts: dict[str, Any] = {"search": search, "norm": norm, "count": count, "note": note}
    first = UnitsPlan(budget=budget, n=n, d=d, **facts)
    sigmas = tuple(
        gaussian_sigma(
            portion(budget, stage.share),
            bound=stage.query.bound,
            rows=(0, first.n),
            diameter=stage.query.diameter,
        )
        for stage in first.stages
    )
    for stage, sigma in zip(first.stages, sigmas, strict=True):
        if isinstance(stage.query, (NormHistogram, LabelHistogram)):
            _check_visible(first, stage, sigma)
    return dataclasses.replace(first, sigmas=sigmas)


def _check_visible(plan: UnitsPlan, stage: Stage, sigma: float) -> None:
    """Refuse a histogram of so few rows that a quarter of them drowns in its noise."""
    need = math.ceil(STANDS_OUT * sigma / _FAINTEST)
    if plan.n < need:
        raise AssumptionError(
            f"{plan.n} rows are too few to find the unit of {stage.name} with {stage.share:g} of "
            f"{amounts(plan.budget)}: noise of {sigma:.3g} on a count takes {need} rows. Declare "
            "the bounds, raise the share, or raise the budget."
        )


def plan_in_units(
    problem: Problem | ModelConfig,
    search: UnitSearch,
    *,
    n: int,
    d: int,
    budget: Budget,
    solver: str = "auto",
    calibration: str = "tight",
    options: Mapping[str, Any] | None = None,
    count: CountPlan | None = None,
    note: str = "",
) -> FitInUnits:
    """Return the plan of the units and of the fit that follows, decided without data.

    Args:
        problem: in the units that are to be found: ``feature_norm=1`` if the features' are, labels
            within [-1, 1] if their range is. Radius, penalty and scale are in those units too. Of a
            model, the plan of the fit holds the record.
        search: what is found.
        budget: of everything together.
        n, d, solver, calibration, options: as in `dpsco.plan`.
        count, note: as in `plan_units`.

    Raises:
        AssumptionError: as in `plan_units` and `dpsco.plan`; or no accountant composes the solver's
            releases with those of the units.
        ParameterError: the problem is in other units.
    """
    if not isinstance(problem, (Problem, ModelConfig)):
        raise ParameterError(f"units need a Problem, got {type(problem).__name__}.")
    if not isinstance(search, UnitSearch):
        raise _validate.refusal("search", f"must be a UnitSearch, got {search!r}.")
    _check_problem(problem.bounds, search)
    norm = problem.bounds.norm
    first = plan_units(budget, n=n, d=d, search=search, norm=norm, count=count, note=note)
    if isinstance(problem, ModelConfig):
        problem = dataclasses.replace(problem, units=search)

    def join(fit: BasePlan) -> FitInUnits:
        task = dataclasses.replace(fit.task, budget=budget)
        return FitInUnits(units=first, fit=dataclasses.replace(fit, task=task))

    return plan_within(
        problem,
        first.share,
        join,
        n=n,
        d=d,
        budget=budget,
        solver=solver,
        calibration=calibration,
        options=options,
        beside="the search for units",
        instead=_INSTEAD,
    )


def _check_problem(bounds: Bounds, search: UnitSearch) -> None:
    """Refuse a problem that is not in the units that are to be found."""
    if search.features != "declared" and bounds.feature_norm != 1.0:
        raise ParameterError(
            "this needs a problem for rows of length 1, in the units that are to be found: "
            f"Bounds(feature_norm=1.0, ...), got {bounds.feature_norm:g}."
        )
    rule = bounds.label
    if isinstance(rule, Scaled):
        rule = (rule.low, rule.high)
    if search.labels and rule not in (1.0, (-1.0, 1.0)):
        raise ParameterError(
            "a range of labels is found for a problem with labels within [-1, 1], in the unit that "
            f"is to be found: label=Scaled(-1, 1), got {bounds.label!r}."
        )
