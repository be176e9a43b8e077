"""What each page shows, as plain values: the templates only place them."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ..data.schema.schema import NumberLabel
from ..fit.tradeoff import TradeoffPoint
from ..models.spec import MODELS
from ..privacy import certificate_text
from ..privacy.accounting.attack_roc import FALSE_ALARMS, Odds
from ..privacy.budget import Budget
from ..privacy.certificate import Certificate
from ..report.formatting import claim, one_in, percent, plain
from . import charts, columns
from .fitting import ALREADY, CERTIFICATE, MODEL, PLAN_FILE, PROVENANCE, REPORT, SCHEMA
from .preview import EPSILONS, Facts, Preview
from .study import Study

STEPS = (
    ("table", "Table and schema"),
    ("epsilon", "Choose epsilon"),
    ("fit", "Fit"),
    ("report", "Report and sign"),
)
_FILES = {
    MODEL: "the model, with its certificate, plan and schema",
    CERTIFICATE: "what it cost; anybody can recompute it",
    REPORT: "the page for whoever signs",
    PLAN_FILE: "what was planned before a row was read",
    SCHEMA: "what was declared about the columns",
    PROVENANCE: "what was said of the model, and who approves it",
}
SAID = {
    "purpose": "Purpose",
    "dataset": "Dataset",
    "period": "When its rows were collected",
    "owner": "Who answers for the dataset",
    "approver": "Who approves and signs",
    "date": "Date of the approval",
    "intended_use": "What the model may be used for",
    "limits": "What it must not be used for",
    "license": "Licence",
}
"""What people say of a model for its report, by the words of the page."""

_LONG = ("intended_use", "limits")  # a line is not enough for them
_SIGNS = {"epsilon": "ε", "delta": "δ", "mu": "μ", "rho": "ρ"}


def frame(study: Study, page: str) -> dict[str, Any]:
    """Return what every page shows: the steps, whether rows were read, what is left."""
    return {
        "page": page,
        "steps": [
            {"name": name, "title": title, "number": number, "open": number <= study.step}
            for number, (name, title) in enumerate(STEPS, 1)
        ],
        "rows_read": _rows_read(study),
        "rows_safe": not study.is_settled,
        "left": left(study),
        "settled": study.is_settled,
    }


def _rows_read(study: Study) -> str:
    """Return whether rows have been read, in a sentence."""
    if study.model is not None:
        return "Rows were read by the fit alone."
    if study.is_settled:
        return "Rows are read by the fit." if study.fit is not None else "Rows were read by a fit."
    counted = "" if study.rows is None else f" {study.rows:,} were counted."
    return f"No row has been read.{counted}"


def left(study: Study) -> dict[str, Any]:
    """Return what the odometer has left, with its bar."""
    odometer = study.odometer
    budget = odometer.budget
    spent, allowed = odometer.cost().against(budget)
    return {
        "spent": claim(spent),
        "allowed": plain(allowed),
        "left": charts.down(allowed - spent),
        "sign": _sign(budget),
        "bar": charts.stacked_bar(
            charts.whole(spent, allowed), name="odometer-bar", title="What was spent"
        ),
    }


def odometer(study: Study) -> dict[str, Any]:
    """Return the odometer's page."""
    source, before, rows = study.odometer, 0.0, []
    totals, allowed = source.totals(), source.cost().against(source.budget)[1]
    for entry, total in zip(source.entries(), totals, strict=False):
        alone = source.spent_by(entry)
        added = claim(max(total - before, 0.0))
        time = entry.time[:16].replace("T", " ")  # to the minute, UTC
        said = ", ".join(filter(None, [entry.purpose or entry.label, entry.person]))
        rows.append((entry.number, time, said, added, claim(alone)))
        before = max(before, total)
    budget = source.budget
    return {
        "path": source.path,
        "entries": rows,
        "explanation": source.explanation(),
        "stack": charts.stacked_bar(
            charts.pieces(totals, allowed), name="entries", title="What each entry has added"
        ),
        "total": _amounts(budget),
        "owner": certificate_text.owner(budget),
        "adjacency": budget.adjacency.value,
        "counter": source.counter,
    }


# -- step 1 ----------------------------------------------------------------------------------------


def table(study: Study, typed: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the page of the table and its schema, with what was typed where that was refused."""
    typed = typed or {}
    default = {"path": "" if study.table is None else str(study.table), "origin": "names"}
    own = study.folder / SCHEMA
    if own.exists() and not typed:  # of an earlier session
        default |= {"origin": "schema", "other": str(own)}
    return {
        "typed": {"other": "", **default, **typed},
        "columns": study.forms,
        "version": study.version,
        "kinds": columns.KINDS,
        "rows": study.rows,
        "is_valid": study.schema is not None,
        "table": study.table,
    }


# -- step 2 ----------------------------------------------------------------------------------------


def epsilon(study: Study, facts: Facts, typed: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the page on which epsilon is chosen."""
    schema = study.schema
    numeric = schema is not None and isinstance(schema.label, NumberLabel)
    known = {name: "" if value is None else str(value) for name, value in asdict(facts).items()}
    return {
        "typed": {**known, "epsilon": f"{facts.epsilon:g}", **(typed or {})},
        "models": [
            (name, spec.summary)
            for name, spec in MODELS.items()
            if spec.classifies != numeric and spec.shape == "l2"
        ],
        "numeric": numeric,
        "classes": 0 if numeric or schema is None else _classes(schema.label),
        "epsilons": EPSILONS,
        "place": nearest(facts.epsilon),
        "rows": study.rows,
        "table": study.table,
    }


def nearest(value: float) -> int:
    """Return the place of the slider that is nearest to an epsilon."""
    size = math.log(min(max(value, EPSILONS[0]), EPSILONS[-1]))
    return min(range(len(EPSILONS)), key=lambda k: abs(math.log(EPSILONS[k]) - size))


def _classes(label: Any) -> int:
    return len(getattr(label, "values", (-1, 1)))


def numbers(preview: Preview, study: Study) -> dict[str, Any]:
    """Return what an epsilon would mean, in numbers and one sentence."""
    plan, outlook, attack = preview.planned.fit, preview.outlook, preview.attack
    budget, known = plan.budget, not math.isnan(preview.outlook.excess)
    rest = preview.allowed - preview.after
    high = plain(outlook.high, 2)
    band = f"{plain(outlook.low, 2)} to {high}" if outlook.low else f"at most {high}"
    right, detected = percent(attack.accuracy), percent(attack.detection)
    amounts = _amounts(budget)
    said = f"{amounts}: an attacker is right at most {right} of the time; "
    said += f"excess risk {band}; " if known else ""
    said += f"{charts.down(rest)} left" if preview.fits else "the odometer does not allow it"
    return {
        "said": f"{said}.",
        "amounts": amounts,
        "band": band if known else "not predicted",
        "constant": plain(outlook.constant, 2) if known else "",
        "verdict": outlook.sentence,
        "promising": outlook.promising,
        "right": right,
        "detected": detected,
        "guess": percent(FALSE_ALARMS),
        "fits": preview.fits,
        "spent": claim(preview.spent),
        "after": claim(preview.after),
        "rest": charts.down(rest),
        "allowed": plain(preview.allowed),
        "sign": _sign(study.odometer.budget),
        "solver": plan.solver,
        "rounds": plan.total_rounds,
        "model": plan.model["name"] if plan.model else "",
        "warnings": [each for each in preview.warnings if each != outlook.sentence],
        "bar": charts.stacked_bar(
            charts.whole(preview.spent, preview.allowed, preview.after),
            name="next-bar",
            title="What would be spent with this fit",
        ),
        "digest": preview.digest,
        "query": urlencode({k: v for k, v in asdict(preview.facts).items() if v is not None}),
    }


def rehearsal(point: TradeoffPoint) -> dict[str, Any]:
    """Return what a rehearsal measured."""
    return {
        "epsilon": plain(point.epsilon),
        "low": plain(max(point.low, 0.0), 2),
        "high": plain(point.high, 2),
        "constant": plain(point.constant, 2),
        "repeats": point.repeats,
        "basis": point.basis,
    }


# -- steps 3 and 4 ---------------------------------------------------------------------------------


def fit(study: Study) -> dict[str, Any]:
    """Return the page of the fit: to be confirmed, running, over or refused."""
    running = study.fit
    state = "none" if study.choice is None else "ready"
    if running is not None and not running.is_over:
        state = running.state
    elif study.broken:
        state = "broken"
    elif study.saved is not None:
        state = "done"
    choice = study.choice
    return {
        "state": state,
        "numbers": None if choice is None else numbers(study.preview(choice.facts), study),
        "table": study.table,
        "folder": study.folder.absolute(),
        "files": [name for name in _FILES if name != PROVENANCE],
        "broken": ALREADY,
        "failure": running.problem if running is not None and running.state == "failed" else "",
        **progress(study),
    }


def progress(study: Study) -> dict[str, Any]:
    """Return how far the fit is: rounds, which are public."""
    running = study.fit
    done, total = (0, 0) if running is None else (running.done, running.total)
    entry = None if running is None else running.payer.entry
    return {
        "done": done,
        "total": total,
        "percent": 0 if running is None else int(100 * running.share),
        "entry": None if entry is None else entry.number,
    }


def report(study: Study) -> dict[str, Any]:
    """Return the page of the report: what it cost, and the files to take away."""
    model = study.model
    if model is None:
        return {"model": None}
    certificate = model.certificate
    texts = study.files()
    point = certificate_text.point(certificate)
    return {
        "model": model.model.name,
        "spent": certificate_text.spent(certificate),
        "epsilon": claim(point[0]),
        "delta": "none: pure privacy" if point[1] == 0.0 else one_in(point[1]),
        "right": _right(certificate),
        "digest": certificate.to_json()["digest"],
        "files": [(name, _FILES[name]) for name in _FILES if name in texts],
        "folder": study.folder.absolute(),
        "unwritten": "" if study.fit is None else study.fit.unwritten,
        "solver": "" if model.plan is None else model.plan.solver,
        "rows": 0 if model.plan is None else model.plan.n,
        "words": SAID,
        "long": _LONG,
        "said": {name: getattr(study.provenance, name) or "" for name in SAID},
        "signed": study.signed is not None,
    }


def _right(certificate: Certificate) -> str:
    return percent(Odds(certificate.cost).accuracy)


def _sign(budget: Budget) -> str:
    """Return the letter of a budget's notion of privacy."""
    return _SIGNS[next(iter(budget.amounts()))]


def _amounts(budget: Budget) -> str:
    """Return what a budget allows."""
    return ", ".join(f"{_SIGNS.get(k, k)} {plain(v)}" for k, v in budget.amounts().items())


def typed_path(text: str) -> Path | None:
    """Return the path that was typed; None if nothing was."""
    if not text.strip():
        return None
    path = Path(text.strip())
    try:
        return path.expanduser()
    except RuntimeError:  # the home of a user who is none
        return path
