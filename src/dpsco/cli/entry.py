"""`main`: run one command; whatever goes wrong becomes one line on stderr and an exit code.

Each command is a file of its name, which adds itself to the `parser`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from .._version import __version__
from ..errors import DpscoError, describe
from ..files.journal import recover
from .session import Session
from .terminal import note, paint

COMMANDS = (
    "demo", "schema", "shuffle", "plan", "recommend", "rounds", "solvers", "fit", "predict",
    "evaluate", "verify", "report", "odometer", "federated", "ui", "completion",
)  # fmt: skip
"""In the order of the help."""
_SEVERAL = "Several files are one folder, or with --cluster a pattern in quotes"

_OLD_NAMES = {"ledger": "odometer"}  # deprecated with 0.2

_EXAMPLES = """examples:
  dpsco demo                                          # a private spam filter on bundled messages
  dpsco schema draft made-up.csv --label income --public -o schema.json
  dpsco recommend --schema schema.json --n 50000 --epsilon 1    # which solver, before any data
  dpsco plan --schema schema.json --n 50000 --epsilon 1         # what it will do and cost
  dpsco rounds --schema schema.json --n 50000 --epsilon 1       # what fewer rounds cost
  dpsco fit private.csv --schema schema.json --epsilon 1 -o model.json --report report.html
  dpsco predict model.json new.csv -o predictions.csv
  dpsco verify model.json                             # recompute what it cost
`dpsco COMMAND --help` has more of them.

exit codes:
  0    done
  1    a certificate or model does not hold, or a file does not match its schema
  2    wrong use, a missing extra, or a file that cannot be read or written
  3    fit, plan: noise exceeds what can be learnt, nothing was paid (fit --force goes on);
       verify: the claims hold, but are not tied to weights and a plan
  70   an error of dpsco's own
  129  ended by SIGHUP; 130 interrupted; 143 ended by SIGTERM
  141  the reader of the output, such as head, went away
"""

_DONE, _WRONG_USE = 0, 2
_OWN_FAULT = 70  # what sysexits.h calls a software error
_BY_SIGNAL = 128  # plus its number is what a shell reports of a program that a signal has ended
_INTERRUPTED = _BY_SIGNAL + signal.SIGINT
_BROKEN_PIPE = 141  # SIGPIPE, which Windows does not have
_ENDING = ("SIGTERM", "SIGHUP")  # a service that stops, a terminal that is closed

_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")
_NUMBER = re.compile(r"invalid (int|float) value: ('.*')")
_NUMBERS = {
    "int": "is no whole number; write it in digits alone, such as 20000",
    "float": "is no number; write it with a point, such as 0.5",
}

_FLAGS = {"epsilons": "epsilon", "solvers": "solver"}  # parameters whose flag has another name
_HINTS = {
    "delta": "Choose it well below 1/n, such as 1e-9; --delta 0 asks for pure privacy.",
    "feature_norm": "It is the largest Euclidean length of a row's features; longer rows are "
    "shortened to it. Take it from what is publicly known, never from the private rows: with d "
    "features scaled to [-1, 1] it is at most sqrt(d). --schema FILE computes it.",
    "label_range": "It is the range that labels are known to have before the private rows are "
    "looked at; labels outside are clipped to it. For a price: 0 and the highest one that matters.",
    "classes": "List every label that may occur, for example --classes no,yes.",
}
"""What to do about a parameter, where the library's hint speaks of Python."""


class _Ended(KeyboardInterrupt):
    """A signal that ends programs, so that a command cleans up as it does after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Parser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong, and what was probably meant."""

    _words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and refuse what is unknown: the command says it, not the whole."""
        self._words = [] if args is None else list(args)
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            files = any(map(os.path.exists, unknown))  # the shell wrote a pattern out
            hint = f". {_SEVERAL}" if files else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Print the line and leave with the code for wrong use."""
        words = _NUMBER.sub(lambda match: f"{match[2]} {_NUMBERS[match[1]]}", message)
        text = f"{words}.{self._suggestion(message)} See `{self.prog} --help`."
        print(f"{paint(self.prog, 'bad', sys.stderr)}: {text}", file=sys.stderr)
        raise SystemExit(_WRONG_USE)

    def _suggestion(self, message: str) -> str:
        """Return which command or flag was probably meant, or nothing."""
        from .._validate import closest

        choices = _CHOICE.search(message)
        if choices is not None:
            return closest(choices[1], re.findall(r"[\w-]+", choices[2]))
        flags = set(re.findall(r"--[a-z][a-z-]*", self.format_usage())) | {"--help"}
        unknown = [word.partition("=")[0] for word in self._words if word.startswith("--")]
        return next(filter(None, (closest(word, flags) for word in unknown)), "")


def parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of every command, or one that knows a single ``command``."""
    root = Parser(
        prog="dpsco",
        description="Fit models on private rows, with a certificate of the privacy they cost.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"dpsco {__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS if command is None else (command,):
        import_module(f".{name}", __package__).add(commands)
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    with _signals():
        return _main(arguments)


def _main(arguments: Sequence[str] | None) -> int:
    """Run one command; nothing is raised."""
    who, options, session = "dpsco", argparse.Namespace(), Session()
    try:
        try:
            words = sys.argv[1:] if arguments is None else arguments
            if not words:
                parser().print_help()
                return _DONE
            words = _renamed(words)
            command = words[0] if words and words[0] in COMMANDS else None
            options = parser(command).parse_args(words)
            who = " ".join(filter(None, [who, options.command, getattr(options, "action", None)]))
            _recover(options)
            code: int = options.run(options, session)
        finally:  # here and not at exit, where an error could not be caught
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as stop:  # argparse: help was printed, or a line about wrong use
        return stop.code if isinstance(stop.code, int) else _WRONG_USE
    except DpscoError as problem:
        return _refuse(who, f"{_in_flags(problem, options)} {session.aftermath}", _WRONG_USE)
    except BrokenPipeError:
        _silence()
        return _BROKEN_PIPE
    except OSError as problem:
        _silence()
        what = f"read or write {problem.filename}" if problem.filename else "write the output"
        reason = f"cannot {what}: {problem.strerror or problem}."
        return _refuse(who, f"{reason} {session.aftermath}", _WRONG_USE)
    except _Ended as ended:
        name = signal.Signals(ended.number).name
        return _refuse(who, f"ended by {name}. {session.remainder}", _BY_SIGNAL + ended.number)
    except KeyboardInterrupt:
        return _refuse(who, f"interrupted. {session.remainder}", _INTERRUPTED)
    except Exception as problem:
        return _own_fault(who, problem, session.remainder)
    return code


def _renamed(words: Sequence[str]) -> Sequence[str]:
    """Return the words with a command's new name in place of an old one, which still works."""
    if words[0] not in _OLD_NAMES:
        return words
    new = _OLD_NAMES[words[0]]
    note(words[0], f"the command is `dpsco {new}` now; this name will go in a later version.")
    return [new, *words[1:]]


def _recover(options: argparse.Namespace) -> None:
    """Finish what a command that was killed had begun with a file that this one names."""
    for value in vars(options).values():
        if isinstance(value, Path) and "\0" not in str(value):
            recover(value)


def _in_flags(problem: Exception, options: argparse.Namespace) -> str:
    """Return what an error says, with the parameter that it names as the command's flag."""

    def flag(parameter: str) -> str:
        name = _FLAGS.get(parameter, parameter)
        return f"--{name.replace('_', '-')}" if name in vars(options) else parameter

    return describe(problem, flag, hints=_HINTS)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Let signals that would end the process at once end the command, which removes its drafts.

    One that the caller ignores, as ``nohup`` does, or handles, stays as it is.
    """
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in _ENDING:
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: Any) -> None:
    """Raise what ends the command; the second of two signals ends the process at once."""
    signal.signal(number, signal.SIG_DFL)
    raise _Ended(number)


def _own_fault(who: str, problem: Exception, remainder: str) -> int:
    """Report an error that nobody foresaw; its text may quote rows, so only its type is told."""
    if os.environ.get("DPSCO_DEBUG"):
        raise problem
    return _refuse(
        who,
        f"an error of dpsco's own ({type(problem).__name__}). {remainder} Its text may quote rows "
        "and is not shown; run again with DPSCO_DEBUG=1 to see it.",
        _OWN_FAULT,
    )


def _refuse(who: str, problem: str, code: int) -> int:
    """Say what is wrong, if there is anywhere left to say it, and return the exit code."""
    with contextlib.suppress(OSError):
        print(f"{paint(who, 'bad', sys.stderr)}: {' '.join(problem.split())}", file=sys.stderr)
    return code


def _silence() -> None:
    """Send what is still to be printed nowhere, or Python would fail on it again at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)
