"""``ledger``: the record of what several fits have spent on one dataset (an odometer)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OdometerError, ParameterError
from .arguments import add_expected, add_json, command

if TYPE_CHECKING:
    from .session import Session

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
    add_expected(show)
    add_json(show)
    show.set_defaults(run=_show)


def _create(options: argparse.Namespace, session: Session) -> int:
    from ..privacy.budget import fit_budget
    from ..privacy.odometer.odometer import Odometer

    if not 0 < options.delta < 1:
        raise ParameterError(
            f"--delta must lie strictly between 0 and 1, got {options.delta:g}: Gaussian noise, "
            "which most solvers add, is never pure. Choose it well below 1/n, such as 1e-9."
        )
    total = fit_budget(
        0,  # rows, which only a default delta would depend on
        epsilon=options.epsilon,
        delta=options.delta,
        adjacency=options.adjacency,
        rows_per_person=options.rows_per_person,
    )
    if options.file.exists():
        raise OdometerError(
            f"{options.file} is there already; a ledger is never replaced. Show it: dpsco ledger "
            f"show {options.file}"
        )
    print(Odometer(options.file, total))
    return 0


def _show(options: argparse.Namespace, session: Session) -> int:
    from .session import open_ledger

    odometer = open_ledger(options.file, options.expect_at_least)
    counter = odometer.counter
    if not options.json:
        print(odometer)
        print(f"counter {counter}: keep it, and --expect-at-least {counter} notices an old copy")
        return 0
    budget = odometer.budget
    spent, allowed = odometer.cost().against(budget)
    entries = [
        {
            "number": entry.number,
            "time": entry.time,
            "label": entry.label,
            "spent": odometer.spent_by(entry),
        }
        for entry in odometer.entries()
    ]
    record = {
        "budget": budget.to_json(),
        "adjacency": budget.adjacency.value,
        "spent": spent,
        "allowed": allowed,
        "identity": odometer.identity,
        "counter": counter,
    }
    print(json.dumps({**record, "entries": entries}, indent=2))
    return 0
