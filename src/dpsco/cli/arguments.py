"""What several commands share: arguments, the parser of one command, numbers as they print."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..data.schema.schema import Schema
    from ..data.tables.cluster.source import SumTrace
    from ..fit.outlook import Outlook
    from ..models.provenance import Provenance
    from ..task import Task

TABLES = "a .csv, .tsv or .parquet file, .csv.gz, or a folder of .parquet files"
_SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}
_NUMBER = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?")
PUBLIC_EXAMPLES = """
dpsco {0} --schema schema.json --n 50000 --epsilon 1
dpsco {0} --d 20 --feature-norm 1 --classes 2 --n 50000 --epsilon 1
dpsco {0} --d 8 --feature-norm 1 --label-range 0 500000 --model huber --n 20000 --epsilon 0.5"""
MODELS = (
    "logistic, sparse_logistic, svc, linear, lasso, simplex, huber, quantile, absolute, "
    "epsilon_insensitive"
)


def command(
    commands: Any, name: str, help: str, *, examples: str = "", description: str = ""
) -> argparse.ArgumentParser:
    """Add a command with a page of help that ends in examples."""
    text = "\n".join(f"  {line}" for line in examples.strip().splitlines())
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description or f"{help[0].upper()}{help[1:]}.",
        epilog=f"examples:\n{text}" if text else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser


def finite(value: float) -> float | None:
    """Return a number as JSON has it: null where it is not finite."""
    return value if math.isfinite(value) else None


def rows_of(count: int) -> str:
    """Return a number of rows in words.

    >>> rows_of(1), rows_of(2000)
    ('1 row', '2,000 rows')
    """
    return f"{count:,} row{'' if count == 1 else 's'}"


TOO_NOISY = 3
"""The exit code where noise exceeds what can be learnt, so that a script can stop there."""


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def add_single(parser: argparse.ArgumentParser) -> None:
    """Add ``--single``."""
    parser.add_argument("--single", action="store_true", help="skip the second accountant")


def add_writing(parser: argparse.ArgumentParser) -> None:
    """Add how a CSV file is written: public facts, which the schema keeps."""
    group = parser.add_argument_group("format of a CSV file (default: what the schema says)")
    group.add_argument(
        "--sep",
        type=_separator,
        metavar="CHARACTER",
        help="separator between entries, such as ; or tab",
    )
    group.add_argument("--encoding", metavar="NAME", help="encoding, such as cp1252; default utf-8")
    group.add_argument(
        "--decimal", metavar="CHARACTER", help="decimal mark of numbers: a point or a comma"
    )


def _separator(text: str) -> str:
    """Return a separator, which may be given by its name."""
    return _SEPARATORS.get(text.casefold(), text)


def written(options: argparse.Namespace, schema: Schema) -> Schema:
    """Return a schema with what flags say of how the file is written.

    Raises:
        ParameterError: a separator, encoding or decimal is none.
    """
    fields = {"separator": options.sep, "encoding": options.encoding, "decimal": options.decimal}
    return replace(schema, **{k: v for k, v in fields.items() if v is not None})


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add ``--force``."""
    parser.add_argument("--force", action="store_true", help="replace existing files")


def add_timing(parser: argparse.ArgumentParser) -> None:
    """Add ``--timing``."""
    parser.add_argument(
        "--timing",
        action="store_true",
        help="print how long it took, which can reveal something about the rows",
    )


def tell_time(seconds: float) -> None:
    """Print how long a computation on private rows took, for whoever asked; not to be published."""
    print(f"took {seconds:.1f} s: not covered by the certificate, keep it to yourself",
          file=sys.stderr)  # fmt: skip


def tell_sum(trace: SumTrace) -> None:
    """Print how long workers took for a sum, and how many bytes travelled; likewise."""
    rows, size = "a sample", ""
    if trace.rows is not None:
        rows = f"{rows_of(trace.rows)} in {trace.slices:,} slice{'' if trace.slices == 1 else 's'}"
        size = f"; {trace.sent:,} bytes sent, {trace.received:,} received"
    text = (
        f"sum of {rows}: {trace.seconds:.2f} s, the last {trace.slowest:.2f} s behind the "
        f"median{size}"
    )
    again = f", {trace.repeated:,} answers not counted" if trace.repeated else ""
    print(f"{text}{again}: keep it to yourself", file=sys.stderr)


def add_odometer(parser: argparse.ArgumentParser, *, purpose: bool = True) -> None:
    """Add the flags of an odometer that pays; not ``--purpose`` where provenance has it."""
    parser.add_argument(
        "--odometer", type=Path, metavar="FILE", help="the odometer that pays for it"
    )
    add_expected(parser)
    if purpose:
        parser.add_argument(
            "--purpose",
            metavar="TEXT",
            help="why you spend it; public, kept in the odometer's entry",
        )
    parser.add_argument(
        "--person", metavar="NAME", help="who spends it; public, kept in the odometer's entry"
    )


def add_expected(parser: argparse.ArgumentParser) -> None:
    """Add ``--expect-at-least``."""
    parser.add_argument(
        "--expect-at-least",
        type=int,
        metavar="N",
        help="refuse the odometer if its counter is below N, which shows that it is an old copy",
    )


def add_order(parser: argparse.ArgumentParser) -> None:
    """Add ``--order``."""
    parser.add_argument(
        "--order",
        choices=("shuffled", "given", "groups"),
        default="shuffled",
        help="shuffled (default); given: keep the file's order, which nobody may have chosen by "
        "looking at the rows; groups: with --cluster, shuffle groups of rows",
    )


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add ``--cluster``."""
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="let workers read DATA, which must be Parquet files or a quoted pattern: local:4 for "
        "four processes on this machine, dask, tcp://host:8786 for a running Dask cluster, or "
        "sc://host:15002 for a Spark server",
    )


def add_units(parser: argparse.ArgumentParser) -> None:
    """Add in which units rows are measured."""
    parser.add_argument(
        "--units",
        choices=("auto", "declared"),
        default=None,
        help="auto (default) spends a small part of the budget to find the centre and the typical "
        "length of rows, where that pays off; declared uses the scale of the schema",
    )


def add_count(parser: argparse.ArgumentParser) -> None:
    """Add ``--count-rows``."""
    parser.add_argument(
        "--count-rows",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="spend at most 1 %% of the budget on a noisy count of the rows that have a usable "
        "label (default: only where the count would be informative)",
    )


def add_budget(parser: argparse.ArgumentParser, *, required: bool, several: bool = False) -> None:
    """Add what may be spent, and against whom it protects; ``several`` budgets are a list."""
    group = parser.add_argument_group("budget")
    more = "; give several to compare them" if several else ""
    group.add_argument(
        "--epsilon",
        type=float,
        required=required,
        nargs="+" if several else None,
        help=f"privacy budget; smaller is more private{more}",
    )
    group.add_argument("--delta", type=float, help="default 1/n^2; 0 asks for pure privacy")
    group.add_argument(
        "--adjacency",
        choices=("replace_one", "zero_out"),
        default="replace_one",
        help="what may change between neighbouring tables: one row takes another value (default), "
        "or contributes nothing",
    )
    group.add_argument(
        "--rows-per-person",
        type=int,
        default=1,
        metavar="K",
        help="protect people with up to K rows each (default 1)",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add what is fitted."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        metavar="NAME",
        help=f"{MODELS}; default by the label: logistic for classes, huber for numbers",
    )
    group.add_argument(
        "--setting",
        type=_pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the model, such as quantile=0.9 or threshold=500",
    )
    group.add_argument(
        "--feature-norm", type=float, help="public bound on the length of a row's features"
    )
    group.add_argument(
        "--radius",
        type=float,
        help="bound on the length of the weights; for sparse_logistic and lasso, on the sum of "
        "their absolute values; for simplex, their sum",
    )
    group.add_argument("--alpha", type=float, default=0.0, help="strength of an l2 penalty")
    group.add_argument("--scale", type=float, help="a guess of the length of good weights")
    group.add_argument("--no-intercept", action="store_true", help="leave the intercept out")


def add_label_facts(parser: argparse.ArgumentParser) -> None:
    """Add what may be public of the labels: it sharpens the outlook and changes nothing else."""
    group = parser.add_argument_group(
        "public facts about the labels (they sharpen the forecast only)"
    )
    group.add_argument(
        "--base-rate",
        type=float,
        nargs="+",
        metavar="SHARE",
        help="share of every class; for two classes, the share of either one is enough",
    )
    group.add_argument("--label-spread", type=float, help="standard deviation of the labels")


def expected(options: argparse.Namespace, task: Task, solver: str | None = None) -> Outlook:
    """Return what is to be expected of a fit, from public facts."""
    from ..fit.outlook import outlook

    return outlook(task, solver=solver, **facts(options))


def facts(options: argparse.Namespace) -> dict[str, Any]:
    """Return what is public of the labels, as `dpsco.outlook` takes it."""
    rate = options.base_rate
    return {
        "base_rate": rate[0] if rate and len(rate) == 1 else rate,
        "label_spread": options.label_spread,
    }


def add_prefer(parser: Any) -> None:
    """Add what "auto" weighs."""
    parser.add_argument(
        "--prefer",
        choices=("accuracy", "attack"),
        default="accuracy",
        help="what --solver auto prefers; attack: among equally good solvers, the one with the "
        "lowest proven bound on attacks",
    )


def add_provenance(parser: argparse.ArgumentParser) -> None:
    """Add what people know of a fit: it is stated in the model file, the report and the card."""
    group = parser.add_argument_group("provenance (public; shown in reports)")
    for name, text in (
        ("purpose", "what the model is for; also kept in the odometer's entry"),
        ("dataset", "which table"),
        ("period", "when its rows were collected"),
        ("owner", "who is responsible for the table"),
        ("approver", "who approved the fit, or signs for it"),
    ):
        group.add_argument(f"--{name}", metavar="TEXT", help=text)
    group.add_argument(
        "--provenance",
        type=Path,
        metavar="FILE",
        help="a JSON file with these facts and others: date, intended_use, limits, license",
    )


def stated_provenance(options: argparse.Namespace) -> Provenance | None:
    """Return what was stated, flags before the file; None if nothing was."""
    from ..models.provenance import Provenance

    names = ("purpose", "dataset", "period", "owner", "approver")
    values = {name: getattr(options, name) for name in names}
    flags = Provenance(**{name: value for name, value in values.items() if value is not None})
    stated = Provenance() if options.provenance is None else Provenance.load(options.provenance)
    stated = stated.updated(flags)
    return stated if stated.to_json() else None


def add_solver(parser: argparse.ArgumentParser) -> None:
    """Add how it is fitted."""
    group = parser.add_argument_group("solver")
    group.add_argument("--solver", default="auto", metavar="KEY", help="see `dpsco solvers`")
    add_prefer(group)
    add_calibration(group)
    group.add_argument(
        "--option",
        type=_pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the solver, such as rounds=50",
    )


def add_calibration(group: Any) -> None:
    """Add which bounds the noise rests on."""
    group.add_argument(
        "--calibration",
        choices=("tight", "conjectured", "paper"),
        default="tight",
        help="what the noise rests on: proven bounds (default), bounds that were only checked "
        "numerically, or published constants",
    )


def add_public_facts(parser: argparse.ArgumentParser, *, data: bool = False) -> None:
    """Add what must be known where there is no file: a schema or the columns' number, and rows.

    With ``data`` a file may tell the number of rows.
    """
    group = parser.add_argument_group("public facts")
    group.add_argument("--n", type=int, required=not data, help="number of rows")
    if data:
        group.add_argument(
            "--data",
            type=Path,
            metavar="FILE",
            help="a table whose rows are counted; needs --schema",
        )
    group.add_argument(
        "--schema", type=Path, metavar="FILE", help="schema: what the columns may hold"
    )
    group.add_argument("--d", type=int, help="without a schema: number of features")
    group.add_argument(
        "--classes", help="without a schema: how many classes, or their names, a,b,c"
    )
    group.add_argument(
        "--label-range",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="without a schema: the range of the number to predict",
    )


def _pair(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; a value that is JSON is a number, true, false, null or a list."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:  # JSON does not know .9, 5. and +3
        return name, float(value) if _NUMBER.fullmatch(value) else value
