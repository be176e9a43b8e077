"""``odometer``: the record of what several fits have spent on one dataset."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OdometerError, ParameterError
from .arguments import add_expected, add_json, command

if TYPE_CHECKING:
    from ..privacy.odometer.odometer import Odometer
    from .session import Session

_EXAMPLES = """
dpsco odometer create patients.odometer --epsilon 3 --delta 1e-9
dpsco fit patients.csv --schema schema.json --epsilon 1 --odometer patients.odometer -o model.json
dpsco odometer show patients.odometer"""


def add(commands: Any) -> None:
    """Add the commands about odometers."""
    odometer = command(
        commands,
        "odometer",
        "keep several fits on one dataset within one budget",
        examples=_EXAMPLES,
    )
    actions = odometer.add_subparsers(dest="action", required=True, metavar="ACTION")
    create = command(actions, "create", "begin an odometer with a total budget", examples=_EXAMPLES)
    create.add_argument("file", type=Path, metavar="FILE", help="the file to create (SQLite)")
    create.add_argument("--epsilon", type=float, required=True, help="the total budget")
    create.add_argument(
        "--delta", type=float, required=True, help="delta of the total budget, well below 1/n"
    )
    create.add_argument(
        "--adjacency",
        choices=("replace_one", "zero_out"),
        default="replace_one",
        help="what may change between neighbouring tables (default replace_one)",
    )
    create.add_argument(
        "--rows-per-person",
        type=int,
        default=1,
        metavar="K",
        help="largest number of rows per person (default 1)",
    )
    create.set_defaults(run=_create)
    show = command(actions, "show", "print what was spent", examples=_EXAMPLES)
    show.add_argument("file", type=Path, metavar="FILE", help="an odometer")
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
            f"{options.file} is there already; an odometer is never replaced. Show it: dpsco "
            f"odometer show {options.file}"
        )
    print(Odometer(options.file, total))
    return 0


def _show(options: argparse.Namespace, session: Session) -> int:
    from .session import open_odometer

    odometer = open_odometer(options.file, options.expect_at_least)
    counter = odometer.counter
    if not options.json:
        _print(odometer)
        print(
            f"counter {counter}: write it down; --expect-at-least {counter} then refuses an older "
            "copy of this file"
        )
        return 0
    budget = odometer.budget
    spent, allowed = odometer.cost().against(budget)
    entries = [
        {
            "number": entry.number,
            "time": entry.time,
            "label": entry.label,
            "spent": odometer.spent_by(entry),
            "purpose": entry.purpose,
            "person": entry.person,
            "model": entry.model,
        }
        for entry in odometer.entries()
    ]
    record = {
        "budget": budget.to_json(),
        "adjacency": budget.adjacency.value,
        "spent": spent,
        "allowed": allowed,
        "left": odometer.left,
        "next_epsilon": odometer.next_epsilon,
        "identity": odometer.identity,
        "counter": counter,
    }
    print(json.dumps({**record, "entries": entries}, indent=2))
    return 0


def _print(odometer: Odometer) -> None:
    """Print what was spent, entry by entry, what is left, and how to read the numbers."""
    from .terminal import table

    first, *_ = str(odometer).splitlines()
    print(first)
    entries = odometer.entries()
    if entries:
        print()
        table(("entry", "time", "alone", "for", "model", "person", "purpose"),
              [odometer.cells(entry) for entry in entries])  # fmt: skip
        print()
    for line in odometer.explanation():
        print(line)
