"""The command line: ``dpsco demo``, ``dpsco verify FILE``.

Exit codes: 0 done, 1 a certificate does not hold, 2 wrong use or an unreadable file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ._version import __version__
from .errors import DpscoError

_EXAMPLES = """examples:
  dpsco demo --output demo-output            fit a private model on a made-up table
  dpsco verify demo-output/certificate.json  recompute its cost with two accountants
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except DpscoError as problem:
        print(f"dpsco {options.command}: {problem}", file=sys.stderr)
        return 2
    return code


def _demo(options: argparse.Namespace) -> int:
    from . import demo

    outcome = demo.run(epsilon=options.epsilon, numeric=options.numeric)
    weights, certificate = outcome.save(options.output)
    print(outcome)
    print(f"\n{outcome.certificate.verify(second_witness=not options.single)}")
    print(f"\nweights:     {weights}\ncertificate: {certificate}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    from .privacy import Certificate

    certificate = Certificate.load(options.file)
    verification = certificate.verify(second_witness=not options.single)
    if options.json:
        claims = certificate.claims
        result = {
            "valid": verification.ok,
            "epsilon": claims.epsilon,
            "delta": claims.delta,
            "mu": claims.mu,
            "adjacency": certificate.budget.adjacency.value,
            "second_accountant": verification.witness,
            "problems": list(verification.problems),
        }
        print(json.dumps(result, indent=2))
    else:
        print(certificate, verification, sep="\n\n")
    return 0 if verification.ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dpsco",
        description="Fit models on private rows, with a certificate of the privacy they cost.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dpsco {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="fit a private model on a made-up table")
    demo.add_argument("--epsilon", type=float, default=1.0, help="privacy budget (default 1)")
    demo.add_argument(
        "--numeric",
        choices=("float64", "grid"),
        default="float64",
        help="grid: exact integer sums and discrete noise",
    )
    demo.add_argument("--output", type=Path, default=Path("demo-output"), help="folder to write to")
    demo.set_defaults(run=_demo)

    verify = commands.add_parser("verify", help="recompute the claims of a certificate")
    verify.add_argument("file", type=Path, metavar="FILE", help="certificate, a JSON file")
    verify.add_argument("--json", action="store_true", help="print the outcome as JSON")
    verify.set_defaults(run=_verify)

    for command in (demo, verify):
        command.add_argument(
            "--single", action="store_true", help="skip the second accountant (dp-accounting)"
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
