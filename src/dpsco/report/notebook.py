"""Results in a notebook: a fragment of HTML for each kind, from pieces of the report.

`RENDERERS` says which function shows which kind; `dpsco._display` looks them up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import DpscoError
from ..fit.choose import Recommendation
from ..fit.forecast import Forecast
from ..fit.outlook import Outlook, outlook
from ..fit.tradeoff import Tradeoff
from ..fit.weight_noise import weight_noise
from ..models.file import SavedModel
from ..models.weights import Weights, named_weights, weights_of
from ..privacy import certificate_text
from ..privacy.certificate import Certificate, Verification
from ..privacy.odometer.odometer import Odometer
from ..privacy.release import flatten
from ..solvers import get
from ..solvers.base import BasePlan, Result
from . import charts
from . import text as words
from .charts import odds_of
from .formatting import Markup, about, claim, percent, plain, safe
from .fragments import card, facts, figures, folded, paragraph, pictures, table
from .tradeoff_chart import tradeoff_panels

_MOST_LINES = 12  # of a list
_DETECTED = 0.01  # the false alarms at which detection is stated


# -- before a fit ----------------------------------------------------------------------------------


def plan(value: BasePlan) -> str:
    """Show a plan: what it spends, what to expect, its schedule."""
    expected = outlook(value.task, solver=value.solver)
    rounds = charts.schedule(list(value.schedule())) if 1 < value.total_rounds <= 10_000 else []
    releases = [release.sentence() for release in flatten(value.releases())]
    return card(
        "plan",
        f"{value.solver}: {get(value.solver).summary}",
        _cost(value),
        paragraph(expected.sentence, "" if expected.promising else "warn"),
        pictures(*(picture for picture, _ in rounds)) if rounds else None,
        facts(
            [
                ("Rows", f"{value.n:,} of {value.d:,} features"),
                ("Rounds", f"{value.total_rounds:,}"),
                ("Protects", _protects(value)),
                *(("Warning", line) for line in value.warnings),
            ]
        ),
        folded("What leaves the data, and what is enforced", _listed(releases, value.enforced)),
    )


def recommendation(value: Recommendation) -> str:
    """Show which solvers apply, best first."""
    if not value.ranked:
        return card("recommendation", "No solver applies", _refused(value))
    unit = charts.first_risk(value.ranked)
    rows = [
        (each.solver, charts.risk_text(each, unit), about(each.gradients)) for each in value.ranked
    ]
    return card(
        "recommendation",
        f"{value.best} comes first of {len(value.ranked)} that apply",
        paragraph(value.why_first) if value.why_first else None,
        pictures(charts.risks(value.ranked, value.best)),
        paragraph("Predicted excess risk, as multiples of the first: shorter is better.", "note"),
        folded("All that apply", table(("solver", "multiple", "gradients of a row"), rows)),
        _refused(value),
    )


def shown_outlook(value: Outlook) -> str:
    """Show what to expect of a fit."""
    known = not math.isnan(value.excess)
    return card(
        "outlook",
        words.VERDICTS[value.verdict],
        pictures(charts.expected(value)) if known else None,
        paragraph(value.sentence, "" if value.promising else "warn"),
    )


def forecast(value: Forecast) -> str:
    """Show what numbers of rounds cost."""
    keys, least = tuple(value.defaults), value.best.excess
    rows = [
        (f"{rounds:,}", *(plain(value.at(rounds, key).excess / least, 3) for key in keys))
        for rounds in value.rounds
    ]
    return card(
        "forecast",
        f"A single epoch over {value.n:,} rows of {value.d:,} features",
        paragraph(value.answer),
        pictures(charts.by_rounds(value)),
        folded("By solver, as multiples of the least", table(("rounds", *keys), rows)),
        paragraph(value.accuracy, "note"),
    )


def tradeoff(value: Tradeoff) -> str:
    """Show accuracy against privacy, for several epsilons."""
    rows = [
        (
            plain(point.epsilon),
            point.solver,
            "unknown" if math.isnan(point.excess) else plain(point.excess, 2),
            "unknown" if math.isnan(point.high) else plain(point.high, 2),
            percent(point.attack_accuracy),
            percent(point.detection),
        )
        for point in value.points
    ]
    head = ("epsilon", "solver", "excess risk", "at most", "attack is right", "detects at 1 %")
    return card(
        "trade-off",
        f"{value.task.n:,} rows of {value.task.d:,} features",
        pictures(*tradeoff_panels(value)),
        paragraph(words.TRADEOFF, "note"),
        folded("As numbers", table(head, rows)),
    )


# -- after a fit -----------------------------------------------------------------------------------


def certificate(value: Certificate) -> str:
    """Show a certificate: the cost, what it means for an attacker, what it rests on."""
    odds = odds_of(value)
    releases = [release.sentence() for release in flatten(value.releases)]
    return card(
        "certificate",
        certificate_text.line(value),
        _claims(value),
        _seeded(value),
        pictures(charts.roc(odds), charts.privacy_curve(odds, certificate_text.point(value)))
        if odds is not None
        else paragraph("The releases have no finite cost that could be computed.", "warn"),
        folded("What was released, and what is enforced", _listed(releases, value.enforced)),
        folded("What is taken on trust", _bullets(value.trusted or ("nothing",))),
    )


def verification(value: Verification) -> str:
    """Show whether a certificate holds."""
    return card(
        "verification",
        f"{value.verdict}: {certificate_text.spent(value.certificate)}",
        paragraph(words.VERDICT_MEANS[value.verdict], "" if value.ok else "warn"),
        _bullets(value.problems) if value.problems else None,
        facts(
            [
                ("Second accountant", value.cross_check),
                *([("Digest", value.digest)] if value.digest else []),
            ]
        ),
    )


def result(value: Result) -> str:
    """Show the weights of a run and what they cost; without a model columns have numbers only."""
    by_place = weights_of(value.weights.reshape(-1), weight_noise(value.plan), 1.0)
    return card(
        "result",
        f"{len(value.weights):,} weights by {value.solver}",
        _claims(value.certificate),
        _seeded(value.certificate),
        _weights(by_place),
    )


def saved_model(value: SavedModel) -> str:
    """Show a model: its weights by column, and what it cost."""
    return card(
        "model",
        f"{words.MODELS.get(value.model.name, value.model.name)}, {value.model.d:,} features",
        _claims(value.certificate),
        _seeded(value.certificate),
        _weights(named_weights(value.model, value.plan, value.names)),
    )


def weights(value: Weights) -> str:
    """Show weights by column."""
    return card("weights", f"{len(value):,} weights", _weights(value))


def odometer(value: Odometer) -> str:
    """Show what was spent of a budget, and on what."""
    try:
        entries, total = value.entries(), value.cost()
    except DpscoError as problem:  # a file that was damaged, or is gone
        return card("odometer", str(value.path), paragraph(str(problem), "warn"))
    spent, allowed = total.against(value.budget)
    unit = next(iter(value.budget.amounts()))
    alone = [float(value.spent_by(each)) for each in entries]
    bars = [
        (f"{each.number}. {each.label}", amount)
        for each, amount in zip(entries, alone, strict=True)
    ]
    lines = [
        (
            f"{each.number}. {each.label}",
            each.purpose or "–",
            each.person or "–",
            each.time,
            claim(amount, 3),
        )
        for each, amount in zip(entries, alone, strict=True)
    ]
    parts = [
        pictures(charts.spends(bars, spent, allowed, unit)),
        paragraph("The whole is less than the sum: entries are composed, not added.", "note"),
        folded("All entries", table(("entry", "for", "by", "time", "alone"), lines)),
    ]
    return card(
        "odometer",
        str(value.path),
        figures(
            [
                (f"{unit} spent", claim(spent, 4), f"of {plain(allowed)}"),
                ("entries", f"{len(entries)}", certificate_text.owner(value.budget)),
            ]
        ),
        *(parts if entries else []),
    )


def estimator(value: Any) -> str:
    """Show an estimator: its parameters; once fitted, its weights and what they cost."""
    name = type(value).__name__
    parameters = facts(
        [(key, _short(setting)) for key, setting in value.get_params(deep=False).items()]
    )
    budget = [("epsilon", plain(float(value.epsilon)), "of one fit, not spent yet")]
    if not hasattr(value, "certificate_"):
        return card(
            "estimator", f"{name}, not fitted", figures(budget), folded("Parameters", parameters)
        )
    return card(
        "estimator",
        f"{name}, fitted by {value.plan_.solver}",
        _claims(value.certificate_),
        _seeded(value.certificate_),
        _weights(value.named_weights()),
        folded("Parameters", parameters),
    )


# -- parts -----------------------------------------------------------------------------------------


def _cost(value: BasePlan) -> Markup:
    """Return what a plan will spend, and the best attack on it."""
    name, amount = next(iter(value.budget.amounts().items()))
    spent, _ = value.cost.against(value.budget)
    boxes = [(name, claim(spent, 4), f"of {plain(amount)}, {value.budget.adjacency.value}")]
    return figures([*boxes, *_attack(odds_of(value))])


def _claims(value: Certificate) -> Markup:
    """Return what a run has cost, and the best attack on it."""
    epsilon, delta = certificate_text.point(value)
    pair = [
        ("epsilon ε", claim(epsilon), value.budget.adjacency.value),
        ("delta δ", claim(delta, 3), certificate_text.owner(value.budget)),
    ]
    return figures([*pair, *_attack(odds_of(value))])


def _attack(odds: Any) -> list[tuple[str, str, str]]:
    """Return the proven bounds on attacks."""
    if odds is None:
        return []
    return [
        ("best attack is right", percent(odds.accuracy), "at most; guessing: 50 %"),
        ("it detects", percent(odds.power(_DETECTED)), "at most, at 1 % false alarms"),
    ]


def _seeded(value: Certificate) -> Markup | None:
    return paragraph(words.SEEDED, "warn") if value.reproducible else None


def _weights(value: Weights) -> Markup:
    """Return the largest weights with their noise, and all of them on demand."""
    sentence = value.about.sentence if value.about is not None else words.NO_PLAN
    rows = [
        (
            charts.weight_name(each),
            plain(each.value),
            "–" if each.noise is None else plain(each.noise, 2),
        )
        for each in value.largest(words.MOST_WEIGHTS)
    ]
    more = len(value) - len(rows)
    parts = [table(("column", "weight", charts.noise_name(value.about)), rows)]
    parts += [paragraph(f"and {more:,} more", "note")] if more else []
    intercepts = ", ".join(plain(each) for each in value.intercepts[:_MOST_LINES])
    return Markup(
        pictures(charts.weights(value))
        + paragraph(sentence, "note")
        + folded(f"Weights by size{intercepts and f'; intercept {intercepts}'}", *parts)
    )


def _protects(value: BasePlan) -> str:
    return f"{certificate_text.owner(value.budget)}, {value.budget.adjacency.value}"


def _refused(value: Recommendation) -> Markup:
    refused = sorted(value.refused.items())
    return folded(
        f"{len(refused)} that do not apply, and why",
        facts((key, "; ".join(reasons)) for key, reasons in refused),
    )


def _listed(releases: list[str], enforced: Iterable[str]) -> Markup:
    """Return releases and what is enforced, as two lists."""
    more = len(releases) - _MOST_LINES
    lines = [*releases[:_MOST_LINES], *([f"and {more} more"] if more > 0 else [])]
    return Markup(_bullets(lines) + _bullets(f"enforced: {line}" for line in enforced))


def _bullets(lines: Iterable[str]) -> Markup:
    return Markup("".join(paragraph(f"• {line}") for line in lines))


def _short(value: Any) -> str:
    """Return a parameter in one line."""
    if isinstance(value, float):
        return plain(value)
    shown = safe(repr(value))
    return shown if len(shown) <= 80 else f"{shown[:77]}..."


RENDERERS: dict[str, Callable[[Any], str]] = {
    "plan": plan,
    "recommendation": recommendation,
    "outlook": shown_outlook,
    "forecast": forecast,
    "tradeoff": tradeoff,
    "certificate": certificate,
    "verification": verification,
    "result": result,
    "model": saved_model,
    "weights": weights,
    "odometer": odometer,
    "estimator": estimator,
}
