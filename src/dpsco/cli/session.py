"""What a command has begun: files, a ledger that pays, a checkpoint. `main` says what is left of it
if the command fails."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BudgetError, OdometerError, ParameterError

if TYPE_CHECKING:
    from ..privacy.odometer.odometer import Entry
    from .outputs import Outputs


def open_ledger(path: Path, expected: int | None = None) -> Any:
    """Return an existing ledger.

    Args:
        path: of the file.
        expected: what its counter must have reached, if that is known.

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


class PayingLedger:
    """A ledger that pays, and remembers whether it did: what fails later must not deny it."""

    def __init__(self, path: Path, expected: int | None = None) -> None:
        self._path, self._odometer = path, open_ledger(path, expected)
        self.budget = self._odometer.budget
        self._charged, self._entries = False, list["Entry"]()

    def spend(self, releases: Any, *, label: str, run: str | None = None) -> Entry:
        """Pay as the ledger does; for a run that has a name, once."""
        self._charged = True
        try:
            entry: Entry = self._odometer.spend(releases, label=label, run=run)
        except BudgetError:  # refused, and nothing recorded
            self._charged = bool(self._entries)
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
        rounds: dict[int, str] = self._odometer.committed(run)
        return rounds

    @property
    def aftermath(self) -> str:
        """What must be said where nothing came of the run; empty if nothing was paid."""
        if not self._charged:
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


@dataclass
class Session:
    """What one command has begun; the command fills it in, `main` reads it after a failure."""

    outputs: Outputs | None = None
    ledger: PayingLedger | None = None
    checkpoint: Path | None = None
    lost: str = "No model was written"  # what a failure means after something was paid

    def pay_from(self, path: Path | None, expected: int | None) -> PayingLedger | None:
        """Open the ledger that is to pay, if one is."""
        if path is not None:
            self.ledger = PayingLedger(path, expected)
        elif expected is not None:
            raise ParameterError("--expect-at-least goes with --odometer.")
        return self.ledger

    @property
    def is_written(self) -> bool:
        """Whether the command's files are in their places."""
        return self.outputs is not None and self.outputs.written

    @property
    def aftermath(self) -> str:
        """What to say of a ledger that has paid for something that then failed."""
        if self.ledger is None or not self.ledger.aftermath or self.is_written:
            return ""
        return f"{self.lost}, but {self.ledger.aftermath} {self._continuation}"

    @property
    def remainder(self) -> str:
        """What is left of a command that did not come to its end."""
        if self.is_written:
            return "The files were written before."
        return self.aftermath or self._continuation or "Nothing was written."

    @property
    def _continuation(self) -> str:
        """How a fit that has a checkpoint goes on; nothing if it has none."""
        if self.checkpoint is None or not self.checkpoint.exists():
            return ""
        return (
            f"The same command goes on from the checkpoint {self.checkpoint}, and pays nothing "
            "again."
        )
