"""``ledger``: the record of what several fits have spent on one dataset (an odometer)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..errors import OdometerError
from .arguments import add_json, command

_EXAMPLES = """
dpsco ledger create patients.ledger --epsilon 3 --delta 1e-9
dpsco fit patients.csv --schema schema.json --epsilon 1 --odometer patients.ledger -o model.json
dpsco ledger show patients.ledger"""


def add(commands: Any) -> None:
    """Add the commands about ledgers."""
    ledger = command(
        commands, "ledger", "keep several fits on one dataset within one budget", examples=_EXAMPLES
    )
    actions = ledger.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = command(actions, "create", "begin a ledger with a total budget", examples=_EXAMPLES)
    create.add_argument("file", type=Path, metavar="FILE", help="an SQLite file, to be created")
    create.add_argument("--epsilon", type=float, required=True, help="the total budget")
    create.add_argument(
        "--delta", type=float, required=True, help="of the total budget, well below 1/n"
    )
    create.add_argument(
        "--adjacency",
        choices=("replace_one", "zero_out"),
        default="replace_one",
        help="which tables are neighbours (default replace_one)",
    )
    create.add_argument(
        "--rows-per-person", type=int, default=1, metavar="K", help="rows that one person may have"
    )
    create.set_defaults(run=_create)
    show = command(actions, "show", "print what was spent", examples=_EXAMPLES)
    show.add_argument("file", type=Path, metavar="FILE", help="a ledger")
    add_json(show)
    show.set_defaults(run=_show)


def open_ledger(path: Path) -> Any:
    """Return an existing ledger.

    Raises:
        OdometerError: there is none, or it cannot be read.
    """
    from ..privacy.odometer import Odometer

    if not path.exists():
        raise OdometerError(
            f"there is no ledger {path}. Begin one: dpsco ledger create {path} --epsilon ... "
            "--delta ..."
        )
    return Odometer(path)


def _create(options: argparse.Namespace) -> int:
    from ..privacy.budget import ApproxDP, Unit
    from ..privacy.odometer import Odometer

    unit = Unit() if options.rows_per_person == 1 else Unit(options.rows_per_person, "person")
    total = ApproxDP(options.epsilon, options.delta, adjacency=options.adjacency, unit=unit)
    if options.file.exists():
        raise OdometerError(
            f"{options.file} is there already; a ledger is never replaced. Show it: dpsco ledger "
            f"show {options.file}"
        )
    print(Odometer(options.file, total))
    return 0


def _show(options: argparse.Namespace) -> int:
    odometer = open_ledger(options.file)
    if not options.json:
        print(odometer)
        return 0
    spent, allowed = odometer.cost().against(odometer.budget)
    entries = [
        {"number": entry.number, "time": entry.time, "label": entry.label}
        for entry in odometer.entries()
    ]
    record = {"budget": odometer.budget.to_json(), "spent": spent, "allowed": allowed}
    print(json.dumps({**record, "entries": entries}, indent=2))
    return 0
