"""``ledger``: the record of what several fits have spent on one dataset (an odometer)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BudgetError, OdometerError, ParameterError
from .arguments import add_json, command

if TYPE_CHECKING:
    from ..privacy.odometer.odometer import Entry

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
    _add_expected(show)
    add_json(show)
    show.set_defaults(run=_show)


def add_odometer(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a ledger that pays."""
    parser.add_argument("--odometer", type=Path, metavar="FILE", help="a ledger that pays")
    _add_expected(parser)


def _add_expected(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expect-at-least",
        type=int,
        metavar="N",
        help="what the ledger's counter must have reached: refuses an old copy of the ledger",
    )


def open_ledger(path: Path, expected: int | None = None) -> Any:
    """Return an existing ledger.

    Args:
        path: of the file.
        expected: what its counter must have reached, if it was given.

    Raises:
        OdometerError: there is none, it cannot be read, or it is an old copy.
    """
    from .. import _validate
    from ..privacy.odometer.counter import check_absent
    from ..privacy.odometer.odometer import Odometer

    if expected is not None:
        _validate.integer("--expect-at-least", expected, at_least=0)
    if not path.exists():
        check_absent(path)
        raise OdometerError(
            f"there is no ledger {path}. Begin one: dpsco ledger create {path} --epsilon ... "
            "--delta ..."
        )
    return Odometer(path, expect_at_least=expected)


class Paying:
    """A ledger that pays, and remembers whether it did: what fails later must not deny it."""

    def __init__(self, path: Path, expected: int | None = None) -> None:
        self._path, self._odometer = path, open_ledger(path, expected)
        self.budget = self._odometer.budget
        self._asked, self._entries = False, list["Entry"]()

    def spend(self, releases: Any, *, label: str, run: str | None = None) -> Entry:
        """Pay as the ledger does; for a run that has a name, once."""
        self._asked = True
        try:
            entry: Entry = self._odometer.spend(releases, label=label, run=run)
        except BudgetError:  # refused, and nothing recorded
            self._asked = bool(self._entries)
            raise
        self._entries.append(entry)
        return entry

    def paid(self, run: str) -> bool:
        """Return whether a run has been paid for here."""
        return bool(self._odometer.paid(run))

    def commit(self, run: str, round: int, digest: str) -> None:
        """Record what a round has let out, as the ledger does."""
        self._odometer.commit(run, round, digest)

    def committed(self, run: str) -> dict[int, str]:
        """Return what the ledger knows of a run's rounds."""
        found: dict[int, str] = self._odometer.committed(run)
        return found

    @property
    def aftermath(self) -> str:
        """What must be said where nothing came of the run; empty if nothing was paid."""
        if not self._asked:
            return ""
        if not self._entries:  # it ended while the ledger was writing
            return (
                f"the ledger {self._path} may have been charged: look with dpsco ledger show "
                f"{self._path}."
            )
        numbers = ", ".join(str(entry.number) for entry in self._entries)
        return (
            f"the ledger {self._path} has been charged (entry {numbers}): part of the run may have "
            "been released."
        )


def open_odometer(options: argparse.Namespace) -> Paying | None:
    """Return the ledger that is to pay, if one is."""
    if options.odometer is not None:
        return Paying(options.odometer, options.expect_at_least)
    if options.expect_at_least is not None:
        raise ParameterError("--expect-at-least goes with --odometer.")
    return None


def _create(options: argparse.Namespace) -> int:
    from ..privacy.budget import ApproxDP, Unit
    from ..privacy.odometer.odometer import Odometer
    from .request import in_flags

    with in_flags():
        unit = Unit() if options.rows_per_person == 1 else Unit(options.rows_per_person, "person")
    if not 0 < options.delta < 1:
        raise ParameterError(
            f"--delta must lie strictly between 0 and 1, got {options.delta:g}: Gaussian noise, "
            "which most solvers add, is never pure. Choose it well below 1/n, such as 1e-9."
        )
    with in_flags():
        total = ApproxDP(options.epsilon, options.delta, adjacency=options.adjacency, unit=unit)
    if options.file.exists():
        raise OdometerError(
            f"{options.file} is there already; a ledger is never replaced. Show it: dpsco ledger "
            f"show {options.file}"
        )
    print(Odometer(options.file, total))
    return 0


def _show(options: argparse.Namespace) -> int:
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
