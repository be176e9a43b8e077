"""``demo``: private spam filters on bundled messages, the shortest way to a certificate."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import add_single, command
from .terminal import verdict

if TYPE_CHECKING:
    from .session import Session


def add(commands: Any) -> None:
    """Add the command."""
    demo = command(
        commands,
        "demo",
        "fit private models on a bundled table of real messages",
        examples="dpsco demo\ndpsco demo --epsilon 0.5 --repeats 3 --output elsewhere",
    )
    demo.add_argument(
        "--epsilon",
        type=float,
        nargs="+",
        default=[0.3, 1.0, 3.0],
        help="privacy budgets (default 0.3 1 3); the model of the middle one is kept",
    )
    demo.add_argument(
        "--repeats",
        type=int,
        default=10,
        metavar="N",
        help="number of fits per budget (default 10)",
    )
    demo.add_argument("--output", type=Path, default=Path("demo-output"), help="folder to write to")
    add_single(demo)
    demo.set_defaults(run=_demo)


def _demo(options: argparse.Namespace, session: Session) -> int:
    from .._validate import integer
    from ..fit.tradeoff import numbers
    from . import demo_fit, demo_repeats

    epsilons = numbers(options.epsilon)
    repeats = integer("repeats", options.repeats)
    outcome = demo_fit.run(epsilon=epsilons[len(epsilons) // 2])
    comparison = demo_repeats.compare(epsilons, repeats=repeats)
    verification = outcome.saved.verify(cross_check=not options.single)
    picture = {"trade-off": ("tradeoff.svg", comparison.picture().encode())}
    files = outcome.save(options.output, picture)
    print(f"{comparison}\n\n{verdict(str(verification))}\n")
    print("\n".join(f"{name + ':':<13}{path}" for name, path in files.items()))
    if "report" in files:
        print(f"\nOpen the report of one model: {files['report'].resolve().as_uri()}")
    return 0
