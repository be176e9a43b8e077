"""``rounds``: what fewer rounds of a single pass cost, before any data."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from .arguments import add_budget, add_json, add_model, add_public_facts, command

if TYPE_CHECKING:
    from .session import Session


def add(commands: Any) -> None:
    """Add the command."""
    rounds = command(
        commands,
        "rounds",
        "say what fewer rounds of a single pass cost, without data",
        examples="""
dpsco rounds --schema schema.json --n 50000 --epsilon 1
dpsco rounds --schema schema.json --data private.parquet --epsilon 1 --rounds 8 32
dpsco rounds --d 20 --feature-norm 1 --classes 2 --n 50000 --epsilon 1 --solver acc_srgd""",
    )
    add_public_facts(rounds, data=True)
    add_budget(rounds, required=True)
    add_model(rounds)
    add_json(rounds)
    group = rounds.add_argument_group("rounds")
    group.add_argument(
        "--rounds", type=int, nargs="+", metavar="T", help="numbers of rounds (default 1, 2, 4, ..)"
    )
    group.add_argument(
        "--solver", nargs="+", metavar="KEY", help="solvers of one pass (default: all of them)"
    )
    group.add_argument(
        "--population-smoothness",
        type=float,
        metavar="M",
        help="a public bound on the smoothness of the mean loss",
    )
    rounds.set_defaults(run=_rounds)


def _rounds(options: argparse.Namespace, session: Session) -> int:
    from ..fit.forecast import forecast
    from .config import budget, from_options

    model = from_options(options)
    n = _rows(options)
    table = forecast(
        model.config.problem(),
        n,
        model.d,
        budget(options, n),
        rounds=options.rounds,
        solvers=options.solver,
        population_smoothness=options.population_smoothness,
    )
    print(json.dumps(table.to_json(), indent=2) if options.json else table)
    return 0


def _rows(options: argparse.Namespace) -> int:
    """Return the number of rows, which is public: as given, or as a file has them."""
    if (options.n is None) == (options.data is None):
        raise ParameterError("give the number of rows with --n, or a table with --data; not both.")
    if options.data is None:
        return int(options.n)
    from ..data.schema.schema import Schema
    from ..data.tables.table_file import open_file

    if options.schema is None:
        raise ParameterError("--data needs --schema FILE, which says how the table is read.")
    return open_file(options.data, Schema.load(options.schema), label=True).rows
