"""Who pays for a run, and what a run that did not come to its end says of its payment.

A run is paid for before its first noise is drawn, and an odometer takes nothing back: part of the
run may have left. So whoever interrupts a run must hear whether it was paid. `told` adds that to
the exception as a note, which Python shows below its traceback.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

from ...errors import BudgetError, ParameterError
from ..release import Release


class BudgetSpender(Protocol):
    """Whatever pays for releases before they happen: an odometer, or what stands before one."""

    def spend(self, releases: Iterable[Release], *, label: str, run: str | None = None) -> Any:
        """Record the spend durably, once for each named run, or refuse."""

    def paid(self, run: str) -> bool:
        """Return whether a run has been paid for here."""

    def commit(self, run: str, round: int, digest: str) -> None:
        """Record durably what a round has let out, or refuse if it has let out something else."""

    def committed(self, run: str) -> dict[int, str]:
        """Return what was recorded of each round."""


class Payment:
    """How far the payment of one run has come."""

    def __init__(self, odometer: Any, checkpoint: str | Path | None) -> None:
        self._odometer, self._checkpoint = odometer, checkpoint
        self._state, self._entry = "open", ""

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Remember that an odometer is asked, and whether it has paid."""
        before, self._state = self._state, "asked"
        try:
            yield
        except (BudgetError, ParameterError):  # refused, and nothing recorded
            self._state = before
            raise
        self._state = "paid"

    def of(self, entry: Any) -> None:
        """Remember the entry, if it has a number."""
        number = getattr(entry, "number", None)
        self._entry = "" if number is None else f" (entry {number})"

    def note(self, problem: BaseException) -> str:
        """Return what to say; empty for an error that came before any payment."""
        interrupt = not isinstance(problem, Exception)
        if self._state == "open":
            said = "nothing was paid" if self._odometer is not None else "no odometer was given"
            return f"dpsco: nothing was returned; {said}." if interrupt else ""
        path = getattr(self._odometer, "path", None)
        who = "the odometer" if path is None else f"the odometer {path}"
        if self._state == "asked":  # it ended while the odometer was writing
            return f"dpsco: nothing was returned; {who} may have paid: look at its entries."
        said = (
            f"dpsco: nothing was returned, but {who} has paid{self._entry}, and the entry stays: "
            "part of the run may have been released."
        )
        if self._checkpoint is None:
            return said
        return f"{said} The same call goes on from {self._checkpoint}, and pays nothing again."


_current: ContextVar[Payment | None] = ContextVar("payment", default=None)


@contextlib.contextmanager
def told(odometer: Any = None, checkpoint: str | Path | None = None) -> Iterator[None]:
    """Add to whatever ends the block early whether its run was paid.

    Args:
        odometer: that is to pay, if one is.
        checkpoint: from which the run can go on, if there is one.
    """
    if _current.get() is not None:  # a run within a run, which has one payment
        yield
        return
    payment = Payment(odometer, checkpoint)
    token = _current.set(payment)
    try:
        yield
    except BaseException as problem:
        if text := payment.note(problem):
            _add_note(problem, text)
        raise
    finally:
        _current.reset(token)


def pay(odometer: Any, releases: Any, **named: Any) -> None:
    """Have an odometer pay for releases, so that `told` knows of it."""
    payment = _current.get() or Payment(odometer, None)
    with payment.made():
        payment.of(odometer.spend(releases, **named))


def _add_note(problem: BaseException, text: str) -> None:
    """Add a note; before Python 3.11 there are none, and an interrupt says it itself."""
    if hasattr(problem, "add_note"):
        problem.add_note(text)
    elif isinstance(problem, KeyboardInterrupt) and not problem.args:
        problem.args = (text,)
    else:
        vars(problem)["__notes__"] = [*getattr(problem, "__notes__", []), text]
