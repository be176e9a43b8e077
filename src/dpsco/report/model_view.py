"""The parts of a page that are about the model: what it is for, its weights, how good it is."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import _validate
from ..errors import ParameterError
from ..fit.weight_noise import weight_noise
from ..models import LinearModel, SavedModel
from ..models.diagnostics import Diagnostics
from ..models.evaluate import Metrics
from ..models.provenance import Provenance
from ..models.weights import Weights, named_weights
from ..solvers.base import BasePlan
from . import charts
from . import text as words
from .formatting import plain

_LONG = 14  # letters of a word that a column of a table may be as wide as
_MOST_CLASSES = 12  # of a table of classes
_SHOWN = 8  # weights that are listed unfolded


@dataclass(frozen=True)
class Utility:
    """How good the model is, measured on some rows.

    Args:
        scores: the measures by name, such as {"accuracy": 0.84}.
        on: which rows, in words: "2,000 public test rows".
        baselines: other models by name, each with measures of the same names.
        rows: "public"; "paid" (private, measured with noise out of a budget); or "unpaid" (private,
            measured exactly), which the report warns about.
        errors: how uncertain scores are, by name: twice the standard deviation of the noise of paid
            ones, twice the standard error of those on so many public rows.
        diagnostics: of public rows, for figures.
    """

    scores: Mapping[str, float]
    on: str
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    rows: str = "public"
    errors: Mapping[str, float] = field(default_factory=dict)
    diagnostics: Diagnostics | None = None

    def __post_init__(self) -> None:
        mappings = (self.scores, self.baselines, self.errors)
        if not all(isinstance(each, Mapping) for each in mappings):
            raise ParameterError(
                "Utility needs scores={'accuracy': 0.84} and baselines={'majority': {'accuracy': "
                f"0.76}}}}; got {self.scores!r} and {self.baselines!r}."
            )
        _validate.choice("rows", self.rows, words.MEASURED_ON)
        if self.diagnostics is not None and self.rows == "paid":
            raise ParameterError(
                "diagnostics are exact numbers about rows, which nobody has paid for: leave them "
                "out, or make them of public rows."
            )
        for scores in (self.scores, *self.baselines.values()):
            for name, value in scores.items():
                _validate.real(f"the score {name!r}", value)

    @classmethod
    def of(
        cls,
        metrics: Metrics,
        *,
        rows: str | None = None,
        diagnostics: Diagnostics | None = None,
        quantile: float | None = None,
    ) -> Utility:
        """Return what `dpsco.models.measure` or `measure_privately` has measured.

        Args:
            metrics: of the model.
            rows: as in `Utility`; by default "paid" of what has a certificate, else "public".
            diagnostics: of public rows.
            quantile: that the model estimates: the aim of its coverage.
        """
        if rows is None:
            rows = "public" if metrics.certificate is None else "paid"
        errors = metrics.errors if diagnostics is None else diagnostics.spread
        count = "1" if metrics.rows == 1 else f"{metrics.rows:,}"
        kind = "public" if rows == "public" else "private"
        named = {metrics.baseline_is: metrics.baseline} if metrics.baseline else {}
        return cls(
            _numbers(metrics.values, quantile),
            f"{count} {kind} row{'' if metrics.rows == 1 else 's'}",
            {name: _numbers(values, quantile) for name, values in named.items()},
            rows=rows,
            errors=_numbers(errors or {}, quantile),
            diagnostics=diagnostics,
        )


def _numbers(values: Mapping[str, float], quantile: float | None) -> dict[str, float]:
    """Return the numbers that are numbers; a quantile's coverage is named with its aim."""
    aim = "" if quantile is None else f" (aim {quantile:g})"
    return {
        f"{name}{aim if name == 'coverage' else ''}": value
        for name, value in values.items()
        if math.isfinite(value)
    }


def utility_section(utility: Utility, model: LinearModel | None) -> dict[str, Any]:
    """Return the scores with their uncertainty, and the figures of public rows."""
    names, diagnostics = list(utility.scores), utility.diagnostics
    return {
        "on": utility.on,
        "note": words.MEASURED_ON[utility.rows],
        "warn": utility.rows == "unpaid",
        "baselines": list(utility.baselines),
        "errors": words.UNCERTAIN[utility.rows] if utility.errors else None,
        "long": max(map(len, " ".join([*names, *utility.baselines]).split()), default=0) > _LONG,
        "rows": [
            (
                name,
                plain(utility.scores[name]),
                f"± {plain(utility.errors[name], 2)}" if name in utility.errors else "",
                [
                    plain(scores[name]) if name in scores else "–"
                    for scores in utility.baselines.values()
                ],
            )
            for name in names
        ],
        "figures": [] if diagnostics is None else _figures(diagnostics),
        "confusion": None if diagnostics is None else _confusion(diagnostics, model),
    }


def _figures(diagnostics: Diagnostics) -> list[tuple[Any, str]]:
    """Return the figures, each with its caption."""
    figures = []
    if diagnostics.calibration:
        caption = "On the dashed line, predicted probabilities agree with observed shares."
        figures.append((charts.calibration(diagnostics.calibration), caption))
    if diagnostics.residuals:
        caption = "On the dashed line, predictions agree with the mean label."
        figures.append((charts.residuals(diagnostics.residuals), caption))
    return figures


def _confusion(diagnostics: Diagnostics, model: LinearModel | None) -> dict[str, Any] | None:
    """Return the table of true against predicted classes."""
    table = diagnostics.confusion
    if not table or len(table) > _MOST_CLASSES:
        return None
    classes = [str(k + 1) for k in range(len(table))]
    if model is not None and model.classes is not None and len(model.classes) == len(table):
        classes = [str(label) for label in model.classes]
    rows = []
    for name, counts in zip(classes, table, strict=True):
        total = sum(counts)
        shares = [f"{count:,} ({count / total:.0%})" if total else "0" for count in counts]
        rows.append((name, shares, f"{total:,}"))
    return {"classes": classes, "rows": rows}


def weights_section(
    model: LinearModel | SavedModel | None, plan: BasePlan | None
) -> dict[str, Any] | None:
    """Return the largest weights by name with their noise; without a model what the plan knows."""
    if model is None:
        return None if plan is None else _noise_alone(plan)
    weights: Weights = (
        named_weights(model.model, model.plan or plan, model.names)
        if isinstance(model, SavedModel)
        else named_weights(model, plan)
    )
    rows = [
        (
            charts.weight_name(each),
            plain(each.value),
            "not known" if each.noise is None else plain(each.noise, 2),
        )
        for each in weights.largest(words.MOST_WEIGHTS)
    ]
    encoded = isinstance(model, SavedModel) and model.schema is not None
    return {
        "chart": charts.weights(weights),
        "noise": weights.about.sentence if weights.about is not None else words.NO_PLAN,
        "head": charts.noise_name(weights.about),
        "rows": rows,
        "all": len(weights),
        "unit": words.ENCODED if encoded else words.AS_READ,
        "intercepts": ", ".join(plain(value) for value in weights.intercepts[:_MOST_CLASSES]),
    }


def _noise_alone(plan: BasePlan) -> dict[str, Any]:
    """Return the noise in weights that are not here."""
    about = weight_noise(plan)
    number = "" if about.sigma is None else f" It is {plain(about.sigma, 2)}."
    return {"chart": None, "noise": about.sentence + number, "rows": []}


def provenance_section(
    provenance: Provenance | None, model: LinearModel | SavedModel | None, plan: BasePlan | None
) -> dict[str, Any]:
    """Return what people have said of the fit, with the digests of what it is about."""
    stated = (provenance or Provenance()).to_json()
    facts = [(label, stated.get(name)) for name, label in words.PROVENANCE]
    digests = []
    if isinstance(model, SavedModel):
        digests.append(("Model file", str(model.to_json()["digest"])))
    digest = plan_digest(plan)
    if digest is not None:
        digests.append(("Plan", digest))
    return {
        "facts": facts,
        "approver": stated.get("approver"),
        "odometer": stated.get("odometer"),
        "intended_use": stated.get("intended_use"),
        "limits": stated.get("limits"),
        "license": stated.get("license"),
        "digests": digests,
    }


def plan_digest(plan: BasePlan | None) -> str | None:
    """Return the digest of a plan's file; None without one, or where it holds a user's own code."""
    if plan is None:
        return None
    try:
        return "sha256:" + hashlib.sha256(plan.to_json().encode()).hexdigest()
    except ParameterError:
        return None
