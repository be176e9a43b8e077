"""``solvers``: which solvers there are, and what each one is for."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from .arguments import command

if TYPE_CHECKING:
    from .session import Session


def add(commands: Any) -> None:
    """Add the command."""
    solvers = command(
        commands,
        "solvers",
        "list the solvers, or describe one",
        examples="dpsco solvers\ndpsco solvers --long\ndpsco solvers noisy_gd",
    )
    solvers.add_argument("key", nargs="?", metavar="KEY", help="a solver's key")
    solvers.add_argument(
        "--long", action="store_true", help="also show papers, theorems, needs, rounds and costs"
    )
    solvers.add_argument("--json", action="store_true", help="print a list of records as JSON")
    solvers.set_defaults(run=_solvers)


def _solvers(options: argparse.Namespace, session: Session) -> int:
    from ..solvers import listing
    from .terminal import table

    if options.json:
        print(json.dumps(listing.records(options.key), indent=2))
    elif options.key is not None:
        print(listing.page(options.key))
    elif options.long:
        print(listing.table())
    else:
        table(("", ""), listing.lines())
        print("\n`dpsco solvers KEY` says more about one of them, `--long` about all.")
    return 0
