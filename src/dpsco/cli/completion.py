"""``completion``: a script by which a shell completes commands, flags and files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtraError
from .arguments import command

if TYPE_CHECKING:
    from .session import Session

_EXAMPLES = "dpsco completion bash\ndpsco completion zsh\ndpsco completion tcsh"

_DESCRIPTION = """Print a script that completes commands, flags and files. Where to put it:

bash  dpsco completion bash > ~/.local/share/bash-completion/completions/dpsco
zsh   dpsco completion zsh > ~/.zfunc/_dpsco, a folder of $fpath
tcsh  dpsco completion tcsh > ~/.dpsco.tcsh, and source it"""


def add(commands: Any) -> None:
    """Add the command."""
    completion = command(
        commands,
        "completion",
        "print a script that completes dpsco in a shell",
        examples=_EXAMPLES,
        description=_DESCRIPTION,
    )
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="the shell")
    completion.set_defaults(run=_completion)


def _completion(options: argparse.Namespace, session: Session) -> int:
    from .entry import parser

    try:
        import shtab
    except ImportError:
        raise MissingExtraError(
            "dpsco completion needs shtab. Install it with: pip install 'dpsco[cli]'."
        ) from None
    whole = parser()
    _complete_files(whole, shtab.FILE)
    print(shtab.complete(whole, options.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser, file: Any) -> None:
    """Have every argument that is a path completed as one, in all commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                _complete_files(inner, file)
        elif action.type is Path:
            action.complete = file  # type: ignore[attr-defined]
