"""All commands in one parser; each command is a file of its name, which adds its own."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import NoReturn

from .._version import __version__

COMMANDS = (
    "demo", "schema", "plan", "recommend", "rounds", "solvers", "fit", "predict", "evaluate",
    "verify", "report", "ledger",
)  # fmt: skip
"""In the order of the help."""

_EXAMPLES = """examples:
  dpsco demo                                          # a private spam filter on bundled messages
  dpsco schema draft made-up.csv --label income --public -o schema.json
  dpsco recommend --schema schema.json --n 50000 --epsilon 1    # which solver, before any data
  dpsco plan --schema schema.json --n 50000 --epsilon 1         # what it will do and cost
  dpsco rounds --schema schema.json --n 50000 --epsilon 1       # what fewer rounds cost
  dpsco fit private.csv --schema schema.json --epsilon 1 -o model.json --report report.html
  dpsco predict model.json new.csv -o predictions.csv
  dpsco verify model.json                             # recompute what it cost
`dpsco COMMAND --help` has more of them.

exit codes:
  0    done
  1    a certificate or model does not hold, or a file does not match its schema
  2    wrong use, a missing extra, or a file that cannot be read or written
  3    verify: consistent, but not tied to weights and a plan
  70   an error of dpsco's own
  129  ended by SIGHUP; 130 interrupted; 143 ended by SIGTERM
  141  the reader of the output, such as head, went away
"""


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong."""

    def error(self, message: str) -> NoReturn:
        """Print the line and leave with the code for wrong use."""
        print(f"{self.prog}: {message}. See `{self.prog} --help`.", file=sys.stderr)
        raise SystemExit(2)


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of every command, or one that knows a single ``command``."""
    root = Parser(
        prog="dpsco",
        description="Fit models on private rows, with a certificate of the privacy they cost.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"dpsco {__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS if command is None else (command,):
        import_module(f".{name}", __package__).add(commands)
    return root
