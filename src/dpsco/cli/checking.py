"""``verify``, ``report`` and ``demo``: what a certificate says, and the shortest way to one."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CertificateError, DataError
from .arguments import add_force, add_json, add_single, command

if TYPE_CHECKING:
    from ..models import SavedModel
    from ..privacy.certificate import Verification
    from .metrics import Metrics


_EXIT_CODES = {"TIED": 0, "CONSISTENT": 3, "INVALID": 1}
_ABOUT_VERIFY = """Recompute the claims of a certificate. The first word says what was found:

TIED        (exit code 0) a model file: the claims follow from the releases, and its digest covers
            weights, plan and certificate, which agree. It is not a signature.
CONSISTENT  (exit code 3) the claims follow from the releases that the certificate lists; it is not
            tied to a run: there are no weights or no plan to compare it with.
INVALID     (exit code 1) damaged, changed, or its claims do not follow."""


def add_demo(commands: Any) -> None:
    """Add ``demo``."""
    demo = command(
        commands,
        "demo",
        "fit a private model on a bundled table of real messages",
        examples="dpsco demo\ndpsco demo --epsilon 0.5 --output elsewhere",
    )
    demo.add_argument("--epsilon", type=float, default=1.0, help="privacy budget (default 1)")
    demo.add_argument("--output", type=Path, default=Path("demo-output"), help="folder to write to")
    add_single(demo)
    demo.set_defaults(run=_demo)


def add(commands: Any) -> None:
    """Add ``verify`` and ``report``."""
    verify = command(
        commands,
        "verify",
        "recompute the claims of a certificate",
        examples="dpsco verify model.json\ndpsco verify certificate.json --json",
        description=_ABOUT_VERIFY,
    )
    verify.add_argument("file", type=Path, metavar="FILE", help="a certificate or a model file")
    add_json(verify)
    add_single(verify)
    verify.set_defaults(run=_verify)
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


def _demo(options: argparse.Namespace) -> int:
    from . import demo

    outcome = demo.run(epsilon=options.epsilon)
    verification = outcome.saved.verify(cross_check=not options.single)
    files = outcome.save(options.output)
    print(f"{outcome}\n\n{verification}\n")
    print("\n".join(f"{name + ':':<13}{path}" for name, path in files.items()))
    return 0


def _verify(options: argparse.Namespace) -> int:
    from .modelfile import read_record

    record = read_record(options.file)
    try:
        found = _verified(record, second=not options.single)
    except (CertificateError, DataError) as problem:  # it was changed, or is damaged
        print(
            json.dumps({"verdict": "invalid", "valid": False, "problems": [str(problem)]}, indent=2)
            if options.json
            else f"INVALID: {options.file}: {problem}"
        )
        return _EXIT_CODES["INVALID"]
    if options.json:
        print(json.dumps(_verdict_record(found), indent=2))
    else:
        print(found, found.certificate, sep="\n\n")
    return _EXIT_CODES[found.verdict]


def _verified(record: dict[str, Any], *, second: bool) -> Verification:
    """Verify the certificate, or the model with its certificate, that a record holds."""
    from ..privacy.certificate import SCHEMA, Certificate
    from .modelfile import as_model

    whole = Certificate.from_json(record) if record["schema"] == SCHEMA else as_model(record)
    return whole.verify(cross_check=second)


def _verdict_record(found: Verification) -> dict[str, Any]:
    from ..privacy.certificate_text import point

    epsilon, delta = point(found.certificate)
    return {
        "verdict": found.verdict.lower(),
        "valid": found.ok,
        "digest": found.digest,
        "epsilon": epsilon,
        "delta": delta,
        "mu": found.certificate.claims.mu,
        "adjacency": found.certificate.budget.adjacency.value,
        "second_accountant": found.cross_check,
        "problems": list(found.problems),
    }


def report_text(
    saved: SavedModel, metrics: Metrics | None = None, *, title: str | None = None
) -> str:
    """Return the HTML report of a model, with how good it is if that was measured."""
    from ..fit.choose import recommend
    from ..report import Utility, render
    from .metrics import quantile_of

    plan = saved.plan
    ranking = None
    if plan is not None:
        ranking = recommend(plan.problem, plan.n, plan.d, plan.budget, calibration=plan.calibration)
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


def _report(options: argparse.Namespace) -> int:
    from ..privacy.certificate import SCHEMA, Certificate
    from ..report import render
    from .modelfile import read_model, read_record
    from .outputs import Outputs

    record = read_record(options.model)
    with Outputs(force=options.force, inputs=[options.model]) as outputs:
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
