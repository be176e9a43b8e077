"""What a command has begun: files, an odometer that pays, a checkpoint. `main` says what is left
of it if the command fails."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import BudgetError, OdometerError, ParameterError

if TYPE_CHECKING:
    from ..privacy.odometer.odometer import Entry
    from .outputs import Outputs


def open_odometer(path: Path, expected: int | None = None, **purpose: str | None) -> Any:
    """Return an existing odometer.

    Args:
        path: of the file.
        expected: what its counter must have reached, if that is known.
        purpose: what for and by whom is spent, as `Odometer` takes it.

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
            f"there is no odometer {path}. Begin one: dpsco odometer create {path} --epsilon ... "
            "--delta ..."
        )
    return Odometer(path, None, expect_at_least=expected, **purpose)


class PayingOdometer:
    """An odometer that pays, and remembers whether it did: what fails later must not deny it."""

    def __init__(self, path: Path, expected: int | None = None, **purpose: str | None) -> None:
        self._path, self._odometer = path, open_odometer(path, expected, **purpose)
        self.budget = self._odometer.budget
        self._charged, self._entries = False, list["Entry"]()

    def spend(self, releases: Any, *, label: str, run: str | None = None) -> Entry:
        """Pay as the odometer does; for a run that has a name, once."""
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
        """Record what a round has let out, as the odometer does."""
        self._odometer.commit(run, round, digest)

    def committed(self, run: str) -> dict[int, str]:
        """Return what the odometer knows of a run's rounds."""
        rounds: dict[int, str] = self._odometer.committed(run)
        return rounds

    def name_model(self, digest: str) -> None:
        """Add to the entries of this run which model came of it; it is paid for all the same."""
        with contextlib.suppress(OdometerError):
            for entry in self._entries:
                self._odometer.name_model(entry.number, digest)

    def place(self, releases: Any) -> str:
        """Return which entry has paid for these releases, in words."""
        number = self._entries[-1].number if self._entries else None
        return str(self._odometer.place(releases, number=number))

    @property
    def aftermath(self) -> str:
        """What must be said where nothing came of the run; empty if nothing was paid."""
        if not self._charged:
            return ""
        if not self._entries:  # it ended while the odometer was writing
            return (
                f"the odometer {self._path} may have been charged: look with dpsco odometer show "
                f"{self._path}."
            )
        numbers = ", ".join(str(entry.number) for entry in self._entries)
        return (
            f"the odometer {self._path} has been charged (entry {numbers}): part of the run may "
            "have been released."
        )


@dataclass
class Session:
    """What one command has begun; the command fills it in, `main` reads it after a failure."""

    outputs: Outputs | None = None
    odometer: PayingOdometer | None = None
    checkpoint: Path | None = None
    lost: str = "No model was written"  # what a failure means after something was paid

    def pay_from(self, options: argparse.Namespace) -> PayingOdometer | None:
        """Open the odometer that is to pay, if one is; of an evaluation or a fit."""
        path, expected = options.odometer, options.expect_at_least
        purpose = {name: getattr(options, name, None) for name in ("purpose", "person")}
        if path is not None:
            self.odometer = PayingOdometer(path, expected, **purpose)
        elif expected is not None:
            raise ParameterError("--expect-at-least goes with --odometer.")
        return self.odometer

    @property
    def is_written(self) -> bool:
        """Whether the command's files are in their places."""
        return self.outputs is not None and self.outputs.written

    @property
    def aftermath(self) -> str:
        """What to say of an odometer that has paid for something that then failed."""
        if self.odometer is None or not self.odometer.aftermath or self.is_written:
            return ""
        return f"{self.lost}, but {self.odometer.aftermath} {self._continuation}"

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
