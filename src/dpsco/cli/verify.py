"""``verify``: recompute the claims of a certificate, or of a model with its certificate."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CertificateError, DataError
from .arguments import add_json, add_single, command
from .terminal import verdict

if TYPE_CHECKING:
    from ..privacy.certificate import Verification
    from .session import Session

_EXIT_CODES = {"VALID": 0, "NOT TIED": 3, "NOT VALID": 1}
_ABOUT_VERIFY = """Recompute the claims of a certificate. The first words are the verdict:

VALID      (exit code 0) a model file: the claims follow from the releases, and its digest covers
           weights, plan and certificate, which agree. It is not a signature.
NOT TIED   (exit code 3) the claims follow from the releases that the certificate lists; it is not
           tied to a run: there are no weights or no plan to compare it with.
NOT VALID  (exit code 1) damaged, changed, or its claims do not follow."""


def add(commands: Any) -> None:
    """Add the command."""
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


def _verify(options: argparse.Namespace, session: Session) -> int:
    from .model_file import read_record

    record = read_record(options.file)
    try:
        outcome = _verified(record, second=not options.single)
    except (CertificateError, DataError) as problem:  # it was changed, or is damaged
        print(
            json.dumps(
                {"verdict": "not valid", "valid": False, "problems": [str(problem)]}, indent=2
            )
            if options.json
            else verdict(f"NOT VALID: {options.file}: {problem}")
        )
        return _EXIT_CODES["NOT VALID"]
    if options.json:
        print(json.dumps(_verdict_record(outcome), indent=2))
    else:
        print(verdict(str(outcome)), outcome.certificate, sep="\n\n")
    return _EXIT_CODES[outcome.verdict]


def _verified(record: dict[str, Any], *, second: bool) -> Verification:
    """Verify the certificate, or the model with its certificate, that a record holds."""
    from ..privacy.certificate import SCHEMA, Certificate
    from .model_file import as_model

    whole = Certificate.from_json(record) if record["schema"] == SCHEMA else as_model(record)
    return whole.verify(cross_check=second)


def _verdict_record(outcome: Verification) -> dict[str, Any]:
    from ..privacy.certificate_text import point

    epsilon, delta = point(outcome.certificate)
    return {
        "verdict": outcome.verdict.lower(),
        "valid": outcome.ok,
        "digest": outcome.digest,
        "epsilon": epsilon,
        "delta": delta,
        "mu": outcome.certificate.claims.mu,
        "adjacency": outcome.certificate.budget.adjacency.value,
        "second_accountant": outcome.cross_check,
        "problems": list(outcome.problems),
    }
