"""``demo``: a private spam filter on bundled messages, the shortest way to a certificate."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import add_single, command

if TYPE_CHECKING:
    from .session import Session


def add(commands: Any) -> None:
    """Add the command."""
    demo = command(
        commands,
        "demo",
        "fit a private model on a bundled table of real messages",
        examples="dpsco demo\ndpsco demo --epsilon 0.5 --output elsewhere",
    )
    demo.add_argument("--epsilon", type=float, default=1.0, help="privacy budget (default 1)")
    demo.add_argument("--output", type=Path, default=Path("demo-output"), help="folder to write to")
    add_single(demo)
    demo.set_defaults(run=_demo)


def _demo(options: argparse.Namespace, session: Session) -> int:
    from . import demo_fit

    outcome = demo_fit.run(epsilon=options.epsilon)
    verification = outcome.saved.verify(cross_check=not options.single)
    files = outcome.save(options.output)
    print(f"{outcome}\n\n{verification}\n")
    print("\n".join(f"{name + ':':<13}{path}" for name, path in files.items()))
    return 0
