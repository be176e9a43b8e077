"""``report``: the page about a model for whoever signs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import add_force, command

if TYPE_CHECKING:
    from ..models import SavedModel
    from ..models.evaluate import Metrics
    from .session import Session


def add(commands: Any) -> None:
    """Add the command."""
    report = command(
        commands,
        "report",
        "write an HTML report about a model",
        examples="dpsco report model.json -o report.html",
    )
    report.add_argument("model", type=Path, metavar="MODEL", help="a model file or a certificate")
    report.add_argument("-o", "--output", type=Path, required=True, metavar="HTML")
    report.add_argument("--title", help="the report's heading")
    add_force(report)
    report.set_defaults(run=_report)


def _report(options: argparse.Namespace, session: Session) -> int:
    from ..privacy.certificate import SCHEMA, Certificate
    from ..report import render
    from .model_file import read_model, read_record
    from .outputs import Outputs

    record = read_record(options.model)
    with Outputs(force=options.force, inputs=[options.model]) as outputs:
        session.outputs = outputs
        draft = outputs.reserve(options.output)
        if record["schema"] == SCHEMA:
            words = {} if options.title is None else {"title": options.title}
            text = render(Certificate.from_json(record), **words)
        else:
            text = report_text(read_model(options.model), title=options.title)
        outputs.text(draft, text)
        outputs.commit()
    print(f"report: {options.output}")
    return 0


def report_text(
    saved: SavedModel, metrics: Metrics | None = None, *, title: str | None = None
) -> str:
    """Return the HTML report of a model, with how good it is if that was measured."""
    from ..fit.choose import recommend
    from ..models.evaluate import quantile_of
    from ..report import Utility, render

    plan = saved.plan
    ranking = None if plan is None else recommend(plan.task)
    utility = None
    if metrics is not None:
        level = quantile_of(plan)
        utility = Utility(
            _scores(metrics.values, level),
            "1 public row" if metrics.rows == 1 else f"{metrics.rows:,} public rows",
            {metrics.baseline_is: _scores(metrics.baseline, level)},
        )
    return render(
        saved.certificate,
        plan=plan,
        recommendation=ranking,
        utility=utility,
        model=saved,
        **({} if title is None else {"title": title}),
    )


def _scores(values: dict[str, float], level: float | None) -> dict[str, float]:
    """Return the numbers that are numbers; a quantile's coverage is named with its aim."""
    aim = "" if level is None else f" (aim {level:g})"
    return {
        f"{name}{aim if name == 'coverage' else ''}": value
        for name, value in values.items()
        if value == value
    }
