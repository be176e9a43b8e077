"""A model card: the facts of the report as Markdown, for a registry of models or a repository."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ..fit.choose import Recommendation
from ..models import LinearModel, Provenance, SavedModel
from ..privacy.certificate import Certificate
from ..solvers.base import BasePlan
from . import text as words
from . import view
from .formatting import safe
from .model_view import Utility
from .page import when

_MARKS = "\\`*_{}[]#|<>~$&@"
_MOST_LINES = 40


def card(
    certificate: Certificate,
    *,
    plan: BasePlan | None = None,
    recommendation: Recommendation | None = None,
    utility: Utility | None = None,
    title: str = "Model card",
    model: LinearModel | SavedModel | None = None,
    created: datetime | str | None = None,
    provenance: Provenance | None = None,
) -> str:
    """Return a model card in Markdown: the facts of `render`, without pictures.

    Everything that comes from a file is escaped, so that it stands as text. Arguments as in
    `render`; a ``recommendation`` is not shown.

    >>> from dpsco.privacy import ApproxDP, Ledger, GaussianRelease
    >>> release = GaussianRelease(1.0, 20.0, rows=(0, 100))
    >>> ledger = Ledger(release, ApproxDP(1.0, 1e-6))
    >>> _ = ledger.gaussian([0.0], bound=1.0, sigma=20.0, rows=(0, 100))
    >>> card(ledger.close(), title="Beds").splitlines()[5]
    '# Beds'
    """
    inputs = view.check_inputs(
        certificate,
        plan=plan,
        recommendation=recommendation,
        utility=utility,
        model=model,
        provenance=provenance,
    )
    page = view.page(inputs)
    parts = [
        _front(inputs),
        f"# {_text(title)}\n\n{_text(when(created))}",
        _summary(page),
        _uses(page["provenance"]),
        _privacy(page),
        _model(page),
        _evaluation(page["utility"]),
        _data(page["declared"]),
        _list("Enforced by the program", page["trust"]["enforced"]),
        _list("Taken on trust", page["trust"]["trusted"]),
        "## What is not covered\n\n" + _lines(f"**{_text(a)}.** {_text(b)}" for a, b in _limits()),
        _sources(page),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front(inputs: view.PageInputs) -> str:
    """Return the front matter that registries read: fixed words alone."""
    kind = "tabular-regression"
    if inputs.model is not None and inputs.model.classes is not None:
        kind = "tabular-classification"
    return f"---\nlibrary_name: dpsco\ntags: [differential-privacy, {kind}]\n---"


def _summary(page: dict[str, Any]) -> str:
    headline, meaning = page["headline"], page["meaning"]
    rows = [
        ("Certificate", f"{headline['verdict']}: {headline['verdict_means']}"),
        *(("Problem", problem) for problem in headline["problems"]),
        ("Fitted", headline["fitted"]),
        ("On", headline["size"]),
        ("Solver", headline["solver"]),
        ("Epsilon", f"{headline['epsilon']} (budget: {headline['budget']})"),
        ("Delta", f"{headline['delta']} ({headline['delta_words']})"),
        ("Protects", f"{headline['who']}, {headline['adjacency']}"),
        ("Best attack is right", meaning and f"at most {meaning['accuracy']} (guessing: 50 %)"),
        ("Expected excess risk", headline["outlook"]),
        ("Warning", headline["seeded"]),
        ("Rows that counted", headline["counted"]),
    ]
    return _table(("fact", "value"), [(name, value) for name, value in rows if value])


def _uses(provenance: dict[str, Any]) -> str:
    rows = [(name, value or "not stated") for name, value in provenance["facts"]]
    rows += [("License", provenance["license"])] if provenance["license"] else []
    return (
        f"## Uses\n\n**Intended use.** {_text(provenance['intended_use'] or 'not stated')}\n\n"
        f"**Limits.** {_text(provenance['limits'] or 'not stated')}\n\n"
        f"{_table(('fact', 'stated'), rows)}"
    )


def _privacy(page: dict[str, Any]) -> str:
    headline, meaning = page["headline"], page["meaning"]
    lines = ["## Privacy", _text(headline["neighbours"]), _text(headline["trust_model"])]
    if meaning is not None:
        rows = [(name, guess, most) for name, guess, most in meaning["rows"]]
        lines.append(_table(("attack", "by guessing", "at most"), rows))
    return "\n\n".join(lines)


def _model(page: dict[str, Any]) -> str:
    weights, plan = page["weights"], page["plan"]
    if weights is None:
        return ""
    lines = ["## The model"]
    if plan is not None:
        how = f"by {plan['solver']}: {plan['summary']}"
        lines.append(_text(f"It minimises {plan['problem']}, {how}"))
    lines.append(_text(weights["noise"]))
    if weights["rows"]:
        lines.append(_table(("column", "weight", weights["head"]), weights["rows"]))
        lines.append(_text(weights["unit"]))
    return "\n\n".join(lines)


def _evaluation(utility: dict[str, Any] | None) -> str:
    if utility is None:
        return "## Evaluation\n\nNot evaluated."
    head = ("measure", "this model", "uncertain by", *utility["baselines"])
    rows = [(name, value, error, *others) for name, value, error, others in utility["rows"]]
    lines = ["## Evaluation", f"On {_text(utility['on'])}. {_text(utility['note'])}"]
    lines.append(_table(head, rows))
    if utility["errors"]:
        lines.append(_text(f"{utility['errors']}."))
    if utility["confusion"]:
        confusion = utility["confusion"]
        rows = [(name, *shares, total) for name, shares, total in confusion["rows"]]
        lines.append(_table(("true class", *confusion["classes"], "rows"), rows))
    return "\n\n".join(lines)


def _data(declared: dict[str, Any] | None) -> str:
    if declared is None:
        return ""
    lines = ["## Data, as declared"]
    if declared["norm"]:
        lines.append(f"Length of a row: {_text(declared['norm'])}")
    if declared["label"]:
        name, holds, rest = declared["label"]
        lines.append(_text(f"Label {name}: {holds}; otherwise {rest}."))
    rows = [(*row[:3], row[3] or "not stated") for row in declared["columns"][:_MOST_LINES]]
    if rows:
        lines.append(_table(("column", "may hold", "otherwise", "public because"), rows))
    more = len(declared["columns"]) - len(rows)
    return "\n\n".join([*lines, *([f"and {more:,} more columns"] if more else [])])


def _limits() -> Iterable[tuple[str, str]]:
    return words.NOT_COVERED


def _sources(page: dict[str, Any]) -> str:
    digests = [*page["provenance"]["digests"], ("Certificate", page["check"]["digest"])]
    rows = [*digests, ("In the odometer", page["provenance"]["odometer"] or "not stated")]
    rows += [(f"Version of {name}", number) for name, number in page["versions"]]
    return f"## Provenance\n\n{_table(('fact', 'value'), rows)}"


def _list(title: str, notes: Sequence[str]) -> str:
    return f"## {title}\n\n" + _lines(map(_text, notes or ("nothing",)))


def _lines(notes: Iterable[str]) -> str:
    return "\n".join(f"- {note}" for note in notes)


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell if cell == "---" else _text(cell) for cell in line) + " |"
        for line in lines
    )


def _text(value: object) -> str:
    """Return text of unknown origin as Markdown that stands for itself, in one line."""
    shown = "".join(f"\\{letter}" if letter in _MARKS else letter for letter in safe(value))
    shown = shown.replace("www.", "www\\.").replace("://", "\\://")  # else it may become a link
    return f"\\{shown}" if shown[:2] in ("- ", "+ ") else shown  # or the mark of a list
