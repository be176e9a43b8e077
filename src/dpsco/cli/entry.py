"""`main`: run one command; whatever goes wrong becomes one line on stderr and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from ..errors import DpscoError
from .commands import parser

_WRONG_USE = 2
_OWN_FAULT = 70  # what sysexits.h calls a software error
_INTERRUPTED = 130  # what a shell reports of a program that SIGINT has ended
_BROKEN_PIPE = 141  # and of one that SIGPIPE has


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    who, options = "dpsco", argparse.Namespace()
    try:
        try:
            options = parser().parse_args(arguments)
            who = " ".join(filter(None, [who, options.command, getattr(options, "action", None)]))
            code: int = options.run(options)
        finally:  # here and not at exit, where an error could not be caught
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as stop:  # argparse: help was printed, or a line about wrong use
        return stop.code if isinstance(stop.code, int) else _WRONG_USE
    except DpscoError as problem:
        return _refuse(who, f"{problem} {_aftermath(options)}", _WRONG_USE)
    except BrokenPipeError:
        _silence()
        return _BROKEN_PIPE
    except OSError as problem:
        _silence()
        what = f"read or write {problem.filename}" if problem.filename else "write the output"
        reason = f"cannot {what}: {problem.strerror or problem}."
        return _refuse(who, f"{reason} {_aftermath(options)}", _WRONG_USE)
    except KeyboardInterrupt:
        return _refuse(who, f"interrupted. {_written(options)}", _INTERRUPTED)
    except Exception as problem:
        return _own_fault(who, problem, _written(options))
    return code


def _aftermath(options: argparse.Namespace) -> str:
    """Return what to say of a ledger that has paid for something that then failed."""
    paying = getattr(options, "paying", None)
    if paying is None or not paying.aftermath or getattr(options, "written", False):
        return ""
    lost = "No model was written" if options.command == "fit" else "No numbers were shown"
    return f"{lost}, but {paying.aftermath} {_going_on(options)}"


def _going_on(options: argparse.Namespace) -> str:
    """Return how a fit that has a checkpoint goes on; nothing if it has none."""
    checkpoint = getattr(options, "checkpoint", None)
    if checkpoint is None or not checkpoint.exists():
        return ""
    return f"The same command goes on from the checkpoint {checkpoint}, and pays nothing again."


def _written(options: argparse.Namespace) -> str:
    """Return what is left of a command that did not come to its end."""
    if getattr(options, "written", False):
        return "The files were written before."
    return _aftermath(options) or _going_on(options) or "Nothing was written."


def _own_fault(who: str, problem: Exception, written: str) -> int:
    """Report an error that nobody foresaw; its text may quote rows, so only its type is told."""
    if os.environ.get("DPSCO_DEBUG"):
        raise problem
    return _refuse(
        who,
        f"an error of dpsco's own ({type(problem).__name__}). {written} Its text may quote rows "
        "and is not shown; run again with DPSCO_DEBUG=1 to see it.",
        _OWN_FAULT,
    )


def _refuse(who: str, problem: str, code: int) -> int:
    """Say what is wrong, if there is anywhere left to say it, and return the exit code."""
    with contextlib.suppress(OSError):
        print(f"{who}: {' '.join(problem.split())}", file=sys.stderr)
    return code


def _silence() -> None:
    """Send what is still to be printed nowhere, or Python would fail on it again at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)
