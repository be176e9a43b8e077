"""``shuffle``: tables written anew in a uniformly random order, for fits that keep the order."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import add_json, command, rows_of

if TYPE_CHECKING:
    from .session import Session


def add(commands: Any) -> None:
    """Add the command."""
    shuffle = command(
        commands,
        "shuffle",
        "write tables anew in a random order",
        description="Rewrite tables as Parquet, in a uniformly random and secret order.\n"
        "Later fits keep that order with `--order given`.",
        examples="""
dpsco shuffle rows/ shuffled/
dpsco shuffle a.parquet b.parquet shuffled.parquet --spill /fast/disk
dpsco shuffle private.csv shuffled.parquet --schema schema.json""",
    )
    shuffle.add_argument(
        "inputs", type=Path, nargs="+", metavar="IN", help="CSV or Parquet files, or folders"
    )
    shuffle.add_argument(
        "output", type=Path, metavar="OUT", help="a new .parquet file, or a new folder for several"
    )
    shuffle.add_argument(
        "--schema",
        type=Path,
        metavar="FILE",
        help="how to read CSV files; only its columns are kept",
    )
    shuffle.add_argument(
        "--spill",
        type=Path,
        metavar="FOLDER",
        help="where rows are kept meanwhile (default: the system's temporary folder)",
    )
    add_json(shuffle)
    shuffle.set_defaults(run=_shuffle)


def _shuffle(options: argparse.Namespace, session: Session) -> int:
    from ..data.schema.schema import Schema
    from ..data.tables.shuffled_files import shuffle_files
    from .progress import Bar

    schema = None if options.schema is None else Schema.load(options.schema)
    with Bar("shuffling") as bar:
        result = shuffle_files(
            options.inputs, options.output, schema=schema, spill=options.spill, progress=bar
        )
    if options.json:
        record = {"rows": result.rows, "files": [str(file) for file in result.files]}
        print(json.dumps(record | {"group_rows": result.group_rows}, indent=2))
        return 0
    files = "" if len(result.files) == 1 else f" ({len(result.files)} files)"
    print(f"{rows_of(result.rows)} in a random order: {options.output}{files}")
    return 0
