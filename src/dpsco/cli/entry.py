"""The command line: ``dpsco demo``, ``solvers``, ``verify FILE``, ``schema draft|check``.

Exit codes: 0 done, 1 a certificate does not hold or a file does not match its schema, 2 wrong use,
a missing extra, or a file that cannot be read or written, 141 the reader of the output went away.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ._version import __version__
from .errors import DataError, DpscoError

_BROKEN_PIPE = 141  # what a shell reports of a program that SIGPIPE has ended

_EXAMPLES = """examples:
  dpsco demo --output demo-output            fit a private model on a made-up table
  dpsco verify demo-output/certificate.json  recompute its cost with two accountants
  dpsco solvers                              what each solver needs and costs
  dpsco schema draft made-up.csv --label income --public -o schema.json
  dpsco schema check schema.json private.parquet   names and types only; no row is read

exit codes:
  0    done
  1    the certificate does not hold, or the file does not match its schema
  2    wrong use, a missing extra, or a file that cannot be read or written
  141  the reader of the output, such as head, went away
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    who = "dpsco"
    try:
        try:
            options = _parser().parse_args(arguments)
            who = " ".join(filter(None, [who, options.command, getattr(options, "action", None)]))
            code: int = options.run(options)
        finally:  # here and not at exit, where an error could not be caught
            if sys.stdout is not None:
                sys.stdout.flush()
    except DpscoError as problem:
        return _refuse(who, str(problem))
    except BrokenPipeError:
        _silence()
        return _BROKEN_PIPE
    except OSError as problem:
        _silence()
        return _refuse(who, f"cannot write the output: {problem.strerror or problem}.")
    return code


def _refuse(who: str, problem: str) -> int:
    """Say what is wrong, if there is anywhere left to say it, and return the exit code."""
    with contextlib.suppress(OSError):
        print(f"{who}: {problem}", file=sys.stderr)
    return 2


def _silence() -> None:
    """Send what is still to be printed nowhere, or Python would fail on it again at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn what goes wrong while a file is written into an error that names it."""
    try:
        yield
    except OSError as problem:
        where = problem.filename or path
        raise DataError(f"cannot write {where}: {problem.strerror or problem}.") from None


def _demo(options: argparse.Namespace) -> int:
    from . import demo

    outcome = demo.run(epsilon=options.epsilon, numeric=options.numeric)
    with _writing(options.output):
        weights, certificate = outcome.save(options.output)
    print(outcome)
    print(f"\n{outcome.certificate.verify(second_witness=not options.single)}")
    print(f"\nweights:     {weights}\ncertificate: {certificate}")
    return 0


def _solvers(options: argparse.Namespace) -> int:
    from .solvers import listing

    if options.json:
        print(json.dumps(listing.records(options.key), indent=2))
    else:
        print(listing.table() if options.key is None else listing.page(options.key))
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


def _draft(options: argparse.Namespace) -> int:
    from .data.draft import draft, read_public, require_public

    require_public("draft", "--public", options.public)
    found = draft(
        read_public(options.file),
        label=options.label,
        public=True,
        rounded=options.round,
        most_categories=options.categories,
        label_kind=options.label_kind,
    )
    summary = f"{found}\n\nA draft: check every line against what is publicly known."
    if options.output is None:
        print(summary, file=sys.stderr)
        print(found.schema.to_json(), end="")
        return 0
    replaced = " (replaced the file that was there)" if os.path.isfile(options.output) else ""
    with _writing(options.output):
        found.schema.save(options.output)
    print(f"{summary}\nschema: {options.output}{replaced}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from .data.draft import check_file
    from .data.schema import Schema

    found = check_file(Schema.load(options.schema), options.file)
    if options.json:
        record = {"valid": found.ok, "files": found.files, "rows": found.rows}
        print(json.dumps({**record, "problems": list(found.problems)}, indent=2))
    else:
        print(found)
    return 0 if found.ok else 1


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

    solvers = commands.add_parser("solvers", help="list the solvers, or describe one")
    solvers.add_argument("key", nargs="?", metavar="KEY", help="a solver's key")
    solvers.add_argument("--json", action="store_true", help="print a list of records as JSON")
    solvers.set_defaults(run=_solvers)

    verify = commands.add_parser("verify", help="recompute the claims of a certificate")
    verify.add_argument("file", type=Path, metavar="FILE", help="certificate, a JSON file")
    verify.add_argument("--json", action="store_true", help="print the outcome as JSON")
    verify.set_defaults(run=_verify)

    for command in (demo, verify):
        command.add_argument(
            "--single", action="store_true", help="skip the second accountant (dp-accounting)"
        )
    _schema_commands(commands.add_parser("schema", help="draft a schema, or check a file by it"))
    return parser


def _schema_commands(schema: argparse.ArgumentParser) -> None:
    """Add the two commands about schemas."""
    commands = schema.add_subparsers(dest="action", required=True, metavar="ACTION")
    draft = commands.add_parser("draft", help="guess a schema from public or synthetic rows")
    draft.add_argument("file", type=Path, metavar="FILE", help="CSV, Parquet, or a folder of it")
    draft.add_argument("--label", metavar="COLUMN", help="the column to be predicted")
    draft.add_argument(
        "--public",
        action="store_true",
        help="state that the rows are public or synthetic: ranges and categories are read off them",
    )
    draft.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="SCHEMA",
        help="file to write to; one that is there is replaced",
    )
    draft.add_argument(
        "--round",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="widen ranges to round numbers (default)",
    )
    draft.add_argument(
        "--categories", type=int, default=64, metavar="N", help="most values before text is hashed"
    )
    draft.add_argument(
        "--label-kind",
        choices=("auto", "number", "classes", "sign"),
        default="auto",
        help="what the label is: a number in a range, one of a list of values, or -1 and 1 "
        "(default auto: by its type and values)",
    )
    draft.set_defaults(run=_draft)

    check = commands.add_parser("check", help="compare a file's columns with a schema")
    check.add_argument("schema", type=Path, metavar="SCHEMA", help="schema, a JSON file")
    check.add_argument("file", type=Path, metavar="FILE", help="CSV, Parquet, or a folder of it")
    check.add_argument("--json", action="store_true", help="print the outcome as JSON")
    check.set_defaults(run=_check)


if __name__ == "__main__":
    sys.exit(main())
