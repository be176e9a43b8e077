"""Judge a folder of tables and summarise: ``python -m benchmarks.park [run|summary] ...``.

    python -m benchmarks.park run [FOLDER] [--out park.jsonl] [--methods auto,peer,all] ...
    python -m benchmarks.park summary park.jsonl [--reference FILE] [--half check] [--markdown]

Without arguments everything is run on the folder that DPSCO_PARK names, and summarised.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from .judge import Protocol, judge, read
from .summary import Results, markdown, rows, worst
from .tables import METRIC, halves, names

OUT = Path("park.jsonl")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split(",")))


def _sizes(text: str) -> tuple[int | None, ...]:
    return tuple(None if size == "all" else int(size) for size in text.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.park", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="fit; goes on where it was stopped")
    run.add_argument("folder", type=Path, nargs="?", default=_folder())
    run.add_argument("--out", type=Path, default=OUT)
    run.add_argument("--tables", type=_words, help="names, or the half: choose or check")
    run.add_argument("--methods", type=_words, default=Protocol.methods)
    run.add_argument("--eps", type=_numbers, default=Protocol.epsilons)
    run.add_argument("--adj", type=_words, default=Protocol.adjacencies)
    run.add_argument("--kinds", type=_words, default=tuple(METRIC))
    run.add_argument("--splits", type=int, default=Protocol.splits)
    run.add_argument("--draws", type=int, default=Protocol.draws)
    run.add_argument("--rows", type=_sizes, default=Protocol.rows, help="for example 300,2000,all")
    run.add_argument("--params", type=json.loads, default={}, help="of the estimators, as JSON")
    run.add_argument("--label", default="", help="added to the names of the methods")
    summary = commands.add_parser("summary", help="say what a file holds")
    summary.add_argument("file", type=Path, nargs="+")
    summary.add_argument("--folder", type=Path, default=_folder())
    summary.add_argument("--reference", type=Path, help="an earlier file, to compare auto with")
    summary.add_argument("--half", choices=("choose", "check"))
    summary.add_argument("--adj", type=_words, default=Protocol.adjacencies)
    summary.add_argument("--markdown", action="store_true", help="the table alone, for the docs")
    return parser


def _folder() -> Path | None:
    name = os.environ.get("DPSCO_PARK")
    return None if name is None else Path(name)


def main(arguments: list[str] | None = None) -> None:
    """Run or summarise."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    if not arguments:
        main(["run"])
        return main(["summary", str(OUT)])
    options = parser.parse_args(arguments)
    if options.command == "summary":
        return _summarise(options, parser)
    if options.folder is None or not options.folder.is_dir():
        parser.error("name a folder of tables, or set DPSCO_PARK to one")
    tables = options.tables or names(options.folder)
    if options.tables in (("choose",), ("check",)):
        tables = halves(options.folder)[options.tables[0]]
    protocol = Protocol(
        methods=options.methods,
        epsilons=options.eps,
        adjacencies=options.adj,
        splits=options.splits,
        draws=options.draws,
        rows=options.rows,
        kinds=options.kinds,
        params=options.params,
        label=options.label,
    )
    judge(options.folder, options.out, tables, protocol)


def _summarise(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Print the table; what we lose first below it."""
    tables = None
    if options.half is not None:
        if options.folder is None:
            parser.error("halves are those of a folder: pass --folder, or set DPSCO_PARK")
        tables = halves(options.folder)[options.half]
    records = [record for path in options.file for record in read(path)]
    chosen = [record for record in records if record.get("adj") in (None, *options.adj)]
    results = Results.of(chosen, tables)
    reference = None if options.reference is None else Results.of(read(options.reference), tables)
    print(markdown(rows(results, reference)))
    if not options.markdown:
        print("\n".join(worst(results, reference)))


if __name__ == "__main__":
    main()
