"""``ui``: the local page, for who chooses epsilon and does not write code."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from .arguments import add_expected, command

if TYPE_CHECKING:
    from .session import Session

_DESCRIPTION = """Open a page in the browser on this machine: name a table, declare its schema,
choose epsilon by its consequences, fit once, and take away the report and the model.

The page is served on 127.0.0.1 only. The printed address is the key to it. It shows no rows.
One folder holds one fit."""

_EXAMPLES = """
dpsco odometer create patients.odometer --epsilon 3 --delta 1e-9
dpsco ui --folder first-model --odometer patients.odometer"""

_GIVEN_UP = 130  # as after Ctrl-C


def add(commands: Any) -> None:
    """Add the command."""
    ui = command(
        commands,
        "ui",
        "choose epsilon, fit and sign on a local page",
        examples=_EXAMPLES,
        description=_DESCRIPTION,
    )
    ui.add_argument(
        "--folder",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="where the schema, plan, model and report are written; created if it does not exist",
    )
    ui.add_argument(
        "--odometer", type=Path, required=True, metavar="FILE", help="the odometer that pays"
    )
    add_expected(ui)
    ui.add_argument("--port", type=int, default=0, help="port of the page (default: any free port)")
    ui.set_defaults(run=_ui)


def _ui(options: argparse.Namespace, session: Session) -> int:
    from ..ui.server import require, serve
    from ..ui.study import Study
    from .session import open_odometer

    if not 0 <= options.port < 1 << 16:
        raise ParameterError(f"--port must lie from 0 to 65535, got {options.port}.")
    require()
    study = Study(options.folder, open_odometer(options.odometer, options.expect_at_least))
    try:
        return 0 if serve(study, port=options.port) else _GIVEN_UP
    finally:
        study.close()
