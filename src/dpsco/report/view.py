"""What the page shows, as plain values: the template only places them."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from ..data.counts import RowCount
from ..data.schema.schema import Schema
from ..errors import MissingExtraError, ParameterError
from ..fit.choose import Recommendation
from ..fit.outlook import outlook
from ..models import MODELS, LinearModel, Provenance, SavedModel
from ..privacy import certificate_text
from ..privacy.accounting.attack_roc import AttackBound, Odds
from ..privacy.budget import GDP, ZCDP, ApproxDP, Budget, PureDP
from ..privacy.certificate import CURVE_DELTAS, Certificate, Verification
from ..privacy.mechanisms import RepeatedSelectionRelease
from ..privacy.release import Composition, Release, flatten
from ..solvers import get
from ..solvers.base import BasePlan, TraceLine
from . import charts
from . import text as words
from .assumptions import declared, minimised
from .formatting import about, claim, one_in, percent, plain, safe
from .model_view import Utility, provenance_section, utility_section, weights_section

MOST_ROUNDS = 100_000  # of a schedule that are read
_MOST_RELEASES = 12  # that are listed one by one
_MOST_CLASSES = 12
_ENDS = 3  # rounds at each end of the table
_RATES = (0.001, 0.01, 0.05)  # false alarms in the table of attacks
_LARGEST_FACTOR = 10.0  # epsilon up to which e^epsilon is worth writing out


@dataclass(frozen=True)
class PageInputs:
    """The inputs of a page, checked, and what was recomputed from the certificate."""

    certificate: Certificate
    plan: BasePlan | None
    recommendation: Recommendation | None
    utility: Utility | None
    source: LinearModel | SavedModel | None  # as it was handed in
    model: LinearModel | None
    provenance: Provenance | None
    schema: Schema | None
    verification: Verification
    counted: RowCount | None


def check_inputs(
    certificate: Certificate,
    *,
    plan: BasePlan | None,
    recommendation: Recommendation | None,
    utility: Utility | None,
    model: LinearModel | SavedModel | None,
    provenance: Provenance | None = None,
) -> PageInputs:
    """Check the inputs, and verify the certificate."""
    expected: dict[str, tuple[Any, Any, str]] = {
        "certificate": (certificate, Certificate, "result.certificate"),
        "plan": (plan, (BasePlan, type(None)), "result.plan"),
        "recommendation": (recommendation, (Recommendation, type(None)), "dpsco.recommend(...)"),
        "utility": (utility, (Utility, type(None)), "Utility({'accuracy': 0.8}, on='...')"),
        "provenance": (provenance, (Provenance, type(None)), "Provenance(purpose='...')"),
        "model": (model, (LinearModel, SavedModel, type(None)), "SavedModel.load(path)"),
    }
    for name, (value, kinds, example) in expected.items():
        if not isinstance(value, kinds):
            raise ParameterError(
                f"a report's {name} must be like {example}; got {type(value).__name__}."
            )
    verification = _verified(certificate, model)
    schema = model.schema if isinstance(model, SavedModel) else None
    fitted = model.model if isinstance(model, SavedModel) else model
    counted = model.rows_counted if isinstance(model, SavedModel) else None
    if isinstance(model, SavedModel) and model.provenance is not None:
        provenance = model.provenance.updated(provenance)
    return PageInputs(
        certificate,
        plan,
        recommendation,
        utility,
        model,
        fitted,
        provenance,
        schema,
        verification,
        counted,
    )


def page(inputs: PageInputs) -> dict[str, Any]:
    """Return everything that the template places, by section."""
    odds = charts.odds_of(inputs.certificate)
    return {
        "headline": _headline(inputs),
        "provenance": provenance_section(inputs.provenance, inputs.source, inputs.plan),
        "meaning": None if odds is None else _meaning(inputs, odds),
        "weights": weights_section(inputs.source, inputs.plan),
        "curve": None if odds is None else _curve(inputs, odds),
        "declared": declared(inputs.schema, inputs.plan, inputs.certificate),
        "released": _released(inputs.certificate),
        "plan": None if inputs.plan is None else _plan(inputs.plan, inputs.certificate),
        "utility": None
        if inputs.utility is None
        else utility_section(inputs.utility, inputs.model),
        "solvers": _solvers(inputs),
        "trust": _trust(inputs.certificate),
        "check": _check(inputs),
        "versions": sorted(inputs.certificate.versions.items()),
        "not_covered": words.NOT_COVERED,
        "glossary": words.GLOSSARY,
    }


def _verified(certificate: Certificate, model: Any) -> Verification:
    whole = certificate if getattr(model, "certificate", None) != certificate else model
    try:
        return whole.verify()
    except MissingExtraError:  # no second accountant here; the first one may do without
        return whole.verify(cross_check=False)


def _headline(inputs: PageInputs) -> dict[str, Any]:
    """Return the box at the top: what was fitted, what it cost, whether that is true."""
    certificate = inputs.certificate
    budget, claims = certificate.budget, certificate.claims
    who = words.protected(budget.unit)
    epsilon, delta = _point(inputs)
    other = [("μ (Gaussian privacy)", claims.mu), ("ρ (zCDP)", claims.rho)]
    return {
        "valid": inputs.verification.ok,
        "verdict": inputs.verification.verdict,
        "verdict_means": words.VERDICT_MEANS[inputs.verification.verdict],
        "problems": inputs.verification.problems,
        "seeded": words.SEEDED if certificate.reproducible else None,
        "epsilon": claim(epsilon),
        "delta": claim(delta, 3),
        "delta_words": "none: pure privacy" if delta == 0.0 else one_in(delta),
        "budget": _budget(budget),
        "other": [
            (name, claim(value))
            for name, value in other
            if inputs.verification.ok and value is not None
        ],
        "who": who,
        "single": budget.unit.rows == 1,
        "adjacency": budget.adjacency.value,
        "neighbours": words.NEIGHBOURS[budget.adjacency].format(who=who),
        "fitted": _fitted(inputs),
        "size": None
        if inputs.plan is None
        else words.size(inputs.plan, inputs.model, inputs.counted),
        "counted": None if inputs.counted is None else inputs.counted.warning,
        "solver": None if inputs.plan is None else inputs.plan.solver,
        "trust_model": certificate.trust_model,
        "outlook": _expected(inputs),
    }


def _expected(inputs: PageInputs) -> str | None:
    """Return the one excess risk that a page speaks of."""
    if inputs.plan is None:
        return None
    expected = outlook(inputs.plan.task, solver=inputs.plan.solver)
    return None if math.isnan(expected.excess) else expected.sentence


def _point(inputs: PageInputs) -> tuple[float, float]:
    """Return the point of the curve that the page speaks of: delta 0 for a pure budget."""
    claims = inputs.certificate.claims
    if inputs.verification.ok:
        return certificate_text.point(inputs.certificate)
    return claims.epsilon, claims.delta


def _budget(budget: Budget) -> str:
    """Return what might have been spent."""
    if isinstance(budget, ApproxDP):
        return f"ε {plain(budget.epsilon)} at δ {plain(budget.delta, 3)}"
    if isinstance(budget, PureDP):
        return f"ε {plain(budget.epsilon)}, pure"
    if isinstance(budget, ZCDP):
        return f"ρ {plain(budget.rho)}"
    return f"μ {plain(budget.mu)}" if isinstance(budget, GDP) else certificate_text.amounts(budget)


def _fitted(inputs: PageInputs) -> str:
    """Return what was fitted, from what is known of it."""
    model = inputs.model
    if model is None:
        if inputs.plan is None:
            return "numbers computed from private rows"
        return f"weights that minimise the {inputs.plan.problem.loss.name} loss"
    spec = MODELS.get(model.name)
    name = words.MODELS.get(model.name) or (spec.summary if spec else model.name)
    parts = [name, f"{model.d:,} features"]
    if model.classes is not None:
        listed = ", ".join(safe(label) for label in model.classes[:_MOST_CLASSES])
        more = ", ..." if len(model.classes) > _MOST_CLASSES else ""
        parts.append(f"{len(model.classes)} classes ({listed}{more})")
    if model.label_range is not None:
        low, high = model.label_range
        parts.append(f"labels from {plain(low)} to {plain(high)}")
    return ", ".join(parts)


def _meaning(inputs: PageInputs, odds: Odds) -> dict[str, Any]:
    """Return the odds of the best attack, and the picture of all of them."""
    budget = inputs.certificate.budget
    who = words.protected(budget.unit)
    epsilon, delta = _point(inputs)
    rows = [("Right answers, even odds beforehand", "50 %", percent(odds.accuracy))]
    rows += [
        (f"Detection at {percent(rate)} false alarms", percent(rate), percent(odds.power(rate)))
        for rate in _RATES
    ]
    return {
        "question": words.QUESTION[budget.adjacency].format(who=who),
        "accuracy": rows[0][2],
        "rows": rows,
        "factor": _factor(epsilon) if inputs.verification.ok else None,
        "pure": delta == 0.0,
        "chart": charts.roc(odds),
    }


def _factor(epsilon: float) -> str | None:
    """Return e^epsilon, rounded up, where that is a number one can grasp."""
    if epsilon > _LARGEST_FACTOR:
        return None
    factor = math.exp(epsilon) * (1 + 1e-12)
    return claim(factor, 3) if factor < 100 else f"{math.ceil(factor):,}"


def _curve(inputs: PageInputs, odds: Odds) -> dict[str, Any]:
    """Return the privacy curve and epsilon at several deltas."""
    claims, cost = inputs.certificate.claims, odds.cost
    pairs = claims.curve if inputs.verification.ok else cost.curve(CURVE_DELTAS)
    mark = _point(inputs) if inputs.verification.ok else None
    return {
        "chart": charts.privacy_curve(odds, mark),
        "rows": [
            (claim(delta), one_in(delta), claim(epsilon))
            for delta, epsilon in sorted(pairs, reverse=True)
            if math.isfinite(epsilon)
        ],
    }


def _released(certificate: Certificate) -> dict[str, Any]:
    releases = flatten(certificate.releases)
    kinds = groupby(releases[:_MOST_RELEASES], key=lambda release: release.summary)
    return {
        "rows": [(summary, [release.sentence() for release in alike]) for summary, alike in kinds],
        "more": max(len(releases) - _MOST_RELEASES, 0),
        "theorems": list(dict.fromkeys(name for each in releases for name in each.theorems())),
    }


def _plan(plan: BasePlan, certificate: Certificate) -> dict[str, Any]:
    """Return the plan's settings and its schedule."""
    solver = get(plan.solver)
    common = {item.name for item in dataclasses.fields(BasePlan)}
    own = [item.name for item in dataclasses.fields(plan) if item.name not in common]
    settings = [(name, _shown(getattr(plan, name))) for name in own]
    settings = [("calibration", plan.calibration), *settings]
    rounds = list(islice(plan.schedule(), MOST_ROUNDS + 1))
    cut = len(rounds) > MOST_ROUNDS
    rounds = rounds[:MOST_ROUNDS]
    return {
        "solver": plan.solver,
        "summary": solver.summary,
        "paper": f"{solver.paper}; {solver.reference}",
        "problem": minimised(plan.problem),
        "settings": settings,
        "rounds": f"more than {MOST_ROUNDS:,}" if cut else f"{len(rounds):,}",
        "charts": charts.schedule(rounds) if len(rounds) > 1 else [],
        "table": _ends(rounds, cut) if len(rounds) > 1 else [],
        "steps": any(each.step for each in rounds),
        "foreign": not _contained(plan.releases(), certificate.releases),
    }


def _ends(rounds: list[TraceLine], cut: bool) -> list[tuple[str, str, str, str] | None]:
    """Return the first and the last rounds as rows of a table, None for those between."""
    rows: list[tuple[str, str, str, str] | None] = [
        (
            f"{each.round:,}",
            f"{each.rows[0]:,} to {each.rows[1] - 1:,}",
            plain(each.step, 3) if each.step else "none",
            plain(each.sigma, 3) if each.sigma else "none",
        )
        for each in rounds
    ]
    if cut:
        return [*rows[: 2 * _ENDS], None]
    return rows if len(rows) <= 2 * _ENDS + 1 else [*rows[:_ENDS], None, *rows[-_ENDS:]]


def _contained(planned: tuple[Release | Composition, ...], certified: tuple[Release, ...]) -> bool:
    """Say whether the certificate lists every release of the plan, maybe as an alternative."""
    counts = Counter({release.once(): release.count for release in flatten(certified)})
    if all(counts[release.once()] >= release.count for release in flatten(planned)):
        return True
    selections = [each for each in certified if isinstance(each, RepeatedSelectionRelease)]
    return any(_contained(planned, part) for each in selections for part in each.alternatives)


def _solvers(inputs: PageInputs) -> dict[str, Any] | None:
    """Return the solvers that apply, first ones first, and why the others do not."""
    ranking = inputs.recommendation
    if ranking is None:
        return None
    chosen = None if inputs.plan is None else inputs.plan.solver
    unit = charts.first_risk(ranking.ranked)
    rows = [
        (
            each.solver,
            charts.risk_text(each, unit),
            about(each.gradients),
            _attack(ranking.attacks.get(each.solver)),
            each.solver == chosen,
        )
        for each in ranking.ranked
    ]
    return {
        "chart": charts.risks(ranking.ranked, chosen) if ranking.ranked else None,
        "chosen": chosen,
        "first": ranking.best if ranking.ranked else None,
        "why_first": ranking.why_first,
        "attacks": bool(ranking.attacks),
        "rows": rows,
        "refused": sorted(ranking.refused.items()),
    }


def _attack(bound: AttackBound | None) -> str:
    return "" if bound is None else percent(bound.accuracy)


def _trust(certificate: Certificate) -> dict[str, Any]:
    return {
        "enforced": certificate.enforced,
        "trusted": certificate.trusted,
        "randomness": certificate.randomness,
        "numeric": certificate.numeric,
    }


def _check(inputs: PageInputs) -> dict[str, Any]:
    """Return the outcome of the verification, and the certificate's digest."""
    try:
        digest = str(inputs.certificate.to_json()["digest"])
    except ValueError:  # a number in it that JSON does not have
        digest = "none: it cannot be written"
    return {
        "digest": digest,
        "cross_check": inputs.verification.cross_check,
        "problems": inputs.verification.problems,
    }


def _shown(value: Any) -> str:
    """Return a setting in few words."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, (int, float)):
        return plain(value)
    if isinstance(value, (tuple, list)):
        shown = ", ".join(_shown(item) for item in value[:4])
        return shown if len(value) <= 4 else f"{shown}, ... ({len(value):,} in all)"
    return safe(value)
