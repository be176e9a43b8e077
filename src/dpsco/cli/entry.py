"""`main`: run one command; whatever goes wrong becomes one line on stderr and an exit code."""

from __future__ import annotations

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
    who = "dpsco"
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
        return _refuse(who, str(problem), _WRONG_USE)
    except BrokenPipeError:
        _silence()
        return _BROKEN_PIPE
    except OSError as problem:
        _silence()
        what = f"read or write {problem.filename}" if problem.filename else "write the output"
        return _refuse(who, f"cannot {what}: {problem.strerror or problem}.", _WRONG_USE)
    except KeyboardInterrupt:
        return _refuse(who, "interrupted; nothing was written.", _INTERRUPTED)
    except Exception as problem:
        return _own_fault(who, problem)
    return code


def _own_fault(who: str, problem: Exception) -> int:
    """Report an error that nobody foresaw; its text may quote rows, so only its type is told."""
    if os.environ.get("DPSCO_DEBUG"):
        raise problem
    return _refuse(
        who,
        f"an error of dpsco's own ({type(problem).__name__}); nothing was written. Its text may "
        "quote rows and is not shown; run again with DPSCO_DEBUG=1 to see it.",
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
