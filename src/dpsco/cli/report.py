"""``report``: the page about a model for whoever signs, or its model card."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, ParameterError
from .arguments import TABLES, add_force, add_provenance, command, stated_provenance

if TYPE_CHECKING:
    from ..models import Provenance, SavedModel
    from ..report import Utility
    from .session import Session

_EXAMPLES = """
dpsco report model.json -o report.html
dpsco report model.json -o report.html --test-public public.csv --provenance facts.json
dpsco report model.json -o README.md --format card --purpose "plan beds" --owner clinic"""


def add(commands: Any) -> None:
    """Add the command."""
    report = command(
        commands,
        "report",
        "write a report or a card about a model",
        examples=_EXAMPLES,
        description=(
            "Write a report about a model: one HTML file to read and sign, which prints on four "
            "pages; or a\nmodel card with the same facts in Markdown."
        ),
    )
    report.add_argument("model", type=Path, metavar="MODEL", help="a model file or a certificate")
    report.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    report.add_argument(
        "--format",
        choices=("html", "card"),
        default="html",
        help="html (default), or card: a model card in Markdown",
    )
    report.add_argument("--title", help="heading of the report")
    measured = report.add_mutually_exclusive_group()
    measured.add_argument(
        "--test-public",
        type=Path,
        metavar="FILE",
        help=f"public rows on which the model is measured: {TABLES}",
    )
    measured.add_argument(
        "--evaluation",
        type=Path,
        metavar="FILE",
        help="output of `dpsco evaluate --json`, also of an evaluation on private rows",
    )
    report.add_argument(
        "--odometer",
        type=Path,
        metavar="FILE",
        help="the odometer that paid; the report then states the place of the fit in it",
    )
    add_provenance(report)
    add_force(report)
    report.set_defaults(run=_report)


def _report(options: argparse.Namespace, session: Session) -> int:
    from ..privacy.certificate import SCHEMA, Certificate
    from .model_file import read_model, read_record
    from .outputs import Outputs

    record = read_record(options.model)
    inputs = [options.model, options.test_public, options.evaluation, options.odometer]
    with Outputs(force=options.force, inputs=[*inputs, options.provenance]) as outputs:
        session.outputs = outputs
        draft = outputs.reserve(options.output)
        saved = None if record["schema"] == SCHEMA else read_model(options.model)
        certificate = Certificate.from_json(record) if saved is None else saved.certificate
        digest = None if saved is None else saved.to_json()["digest"]
        text = report_text(
            certificate,
            saved,
            _utility(options, saved),
            provenance=_provenance(options, certificate, digest),
            title=options.title,
            form=options.format,
        )
        outputs.text(draft, text)
        outputs.commit()
    print(f"report: {options.output}")
    return 0


def report_text(
    certificate: Any,
    saved: SavedModel | None,
    utility: Utility | None = None,
    *,
    provenance: Provenance | None = None,
    title: str | None = None,
    form: str = "html",
) -> str:
    """Return the report of a model or certificate, with how good it is if that was measured."""
    from ..fit.choose import recommend
    from ..report import card, render

    plan = None if saved is None else saved.plan
    facts: dict[str, Any] = {} if title is None else {"title": title}
    facts |= {"plan": plan, "utility": utility, "model": saved, "provenance": provenance}
    if form == "card":
        return card(certificate, **facts)
    ranking = None if plan is None else recommend(plan.task).with_attacks(plan.task, "all")
    return render(certificate, recommendation=ranking, **facts)


def public_utility(saved: SavedModel, X: Any, labels: Any) -> Utility:
    """Return how good a model is on public rows, with figures."""
    from ..models.diagnostics import diagnose
    from ..models.evaluate import measure, quantile_of
    from ..report import Utility

    quantile = quantile_of(saved.plan)
    metrics = measure(saved.model, X, labels, quantile=quantile)
    diagnostics = diagnose(saved.model, X, labels, quantile=quantile)
    return Utility.of(metrics, diagnostics=diagnostics, quantile=quantile)


def _utility(options: argparse.Namespace, saved: SavedModel | None) -> Utility | None:
    """Return how good the model is: measured here on public rows, or elsewhere before."""
    if options.evaluation is not None:
        return _measured_before(options.evaluation)
    if options.test_public is None:
        return None
    if saved is None or saved.schema is None:
        raise ParameterError(
            "--test-public needs a model file with a schema, which says how to read rows. For "
            "others pass --evaluation, a file that `dpsco evaluate --json` has printed."
        )
    from .fit import test_rows

    return public_utility(saved, *test_rows(options.test_public, saved.schema))


def _measured_before(path: Path) -> Utility:
    """Return what `dpsco evaluate --json` has printed."""
    from ..files import limits
    from ..files.reading import read_json
    from ..report import Utility

    record = read_json(path, what="the evaluation", limits=limits.SCHEMA, error=DataError)
    try:
        paid, rows = bool(record["private"]), int(record["rows"])
        numbers = {
            name: {key: float(value) for key, value in (record.get(name) or {}).items()
                   if value is not None}
            for name in ("values", "baseline", "two_sigma")
        }  # fmt: skip
        baselines = {str(record["baseline_is"]): numbers["baseline"]} if numbers["baseline"] else {}
    except (LookupError, TypeError, ValueError, AttributeError):
        raise DataError(
            f"{path} is not what `dpsco evaluate --json` prints: write that into a file."
        ) from None
    return Utility(
        numbers["values"],
        f"{rows:,} private row{'' if rows == 1 else 's'}",
        baselines,
        rows="paid" if paid else "unpaid",
        errors=numbers["two_sigma"],
    )


def _provenance(
    options: argparse.Namespace, certificate: Any, model: str | None
) -> Provenance | None:
    """Return what was stated, with the place in the odometer."""
    from ..models import Provenance

    stated = stated_provenance(options)
    if options.odometer is None:
        return stated
    from ..privacy.odometer.odometer import Odometer

    place = Odometer(options.odometer).place(certificate.releases, model=model)
    return (stated or Provenance()).updated(Provenance(odometer=place))
