"""``evaluate``: how well a model file predicts, exactly about public rows or with noise."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from .arguments import (
    TABLES,
    add_budget,
    add_cluster,
    add_force,
    add_json,
    add_odometer,
    add_writing,
    command,
    rows_of,
)

if TYPE_CHECKING:
    from ..models import SavedModel
    from ..models.evaluate import Metrics
    from .session import Session

_ABOUT_ROWS = (
    "NOT PRIVATE: these numbers are about the very rows given. Publish them only if those rows are "
    "public; otherwise pay for noisy ones with --epsilon"
)
_PAID = (
    "the rows given pay for these numbers on top of what the model has cost, if they are among "
    "those it was fitted on; --odometer adds it up"
)


def add(commands: Any) -> None:
    """Add the command."""
    evaluate = command(
        commands,
        "evaluate",
        "measure how well a model file predicts",
        examples="""
dpsco evaluate model.json public-test.csv
dpsco evaluate model.json held-out.parquet --epsilon 0.5 --certificate metrics.json""",
        description=(
            "Measure how well a model file predicts, and compare it with a trivial baseline.\n\n"
            "Without --epsilon the numbers are exact and not private. With --epsilon noisy numbers "
            "are\nreleased, with a certificate of their cost."
        ),
    )
    evaluate.add_argument("model", type=Path, metavar="MODEL", help="a model file of `dpsco fit`")
    evaluate.add_argument("data", type=Path, metavar="DATA", help=f"rows with labels: {TABLES}")
    evaluate.add_argument(
        "--label", metavar="COLUMN", help="the label's column, for a model without a schema"
    )
    add_budget(evaluate, required=False)
    add_odometer(evaluate)
    evaluate.add_argument(
        "--certificate", type=Path, metavar="FILE", help="write the certificate here"
    )
    add_cluster(evaluate)
    add_writing(evaluate)
    add_force(evaluate)
    add_json(evaluate)
    evaluate.set_defaults(run=_evaluate)


def _evaluate(options: argparse.Namespace, session: Session) -> int:
    from .model_file import read_model, with_writing
    from .outputs import Outputs

    private = options.epsilon is not None
    if not private and (options.odometer or options.certificate or options.delta is not None):
        raise ParameterError("--odometer, --certificate and --delta go with --epsilon.")
    saved = with_writing(read_model(options.model), options)
    with Outputs(force=options.force, inputs=[options.model, options.data]) as outputs:
        session.outputs, session.lost = outputs, "No numbers were shown"
        draft = outputs.reserve(options.certificate)
        session.pay_from(options)
        if options.cluster is not None:
            metrics, notes = _measured_elsewhere(options, session, saved), []
        else:
            rows = _rows_to_measure(saved, options.data, options.label, look=not private)
            metrics, notes = _metrics(options, session, saved, *rows[:2]), rows[2]
        if metrics.certificate is not None:
            outputs.json(draft, metrics.certificate.to_json())
        outputs.commit()
    _print(options, metrics, notes)
    return 0


def _measured_elsewhere(
    options: argparse.Namespace, session: Session, saved: SavedModel
) -> Metrics:
    """Return noisy metrics of rows that workers read."""
    from ..data.schema.encoder import TableEncoder
    from ..data.tables.cluster.table import from_cluster
    from ..models.config import require_label
    from ..models.evaluate import measure_table, quantile_of
    from .config import budget
    from .progress import Bar

    if options.epsilon is None:
        raise ParameterError(
            "--cluster measures with noise: pass --epsilon. Exact numbers, about public rows, need "
            "these rows in one place: leave --cluster out."
        )
    if saved.schema is None or options.label is not None:
        raise ParameterError("--cluster needs a model with a schema, which names the label.")
    require_label(saved.schema)
    encoder = TableEncoder(saved.schema)
    how: Any = {"cluster": options.cluster, "encoder": encoder}
    with Bar("measuring") as bar, from_cluster(options.data, progress=bar, **how) as table:
        return measure_table(
            saved.model,
            table,
            budget(options, table.n),
            quantile=quantile_of(saved.plan),
            odometer=session.odometer,
        )


def _metrics(
    options: argparse.Namespace, session: Session, saved: SavedModel, X: Any, labels: Any
) -> Metrics:
    """Return exact metrics, or noisy ones if there is a budget for them."""
    from ..models.evaluate import measure, measure_privately, quantile_of
    from .config import budget

    quantile = quantile_of(saved.plan)
    if options.epsilon is None:
        return measure(saved.model, X, labels, quantile=quantile)
    return measure_privately(
        saved.model,
        X,
        labels,
        budget(options, len(labels)),
        quantile=quantile,
        odometer=session.odometer,
    )


def _print(options: argparse.Namespace, metrics: Metrics, notes: list[str]) -> None:
    """Print the metrics, for people or as JSON."""
    certificate = metrics.certificate
    private = certificate is not None
    if options.json:
        record = {"private": private, "notice": _PAID if private else _ABOUT_ROWS}
        if certificate is not None:
            record["certificate"] = certificate.to_json()
        print(json.dumps({**record, **metrics.to_json(), "notes": notes}, indent=2))
        return
    print(f"Private: {_PAID}.\n" if private else f"{_ABOUT_ROWS}.\n")
    print(f"{rows_of(metrics.rows)}\n{metrics}")
    for note in notes:
        print(f"note: {note}")
    if certificate is not None:
        print(f"\n{certificate}")
    if options.certificate is not None:
        print(f"certificate: {options.certificate}")


def _rows_to_measure(
    saved: SavedModel, path: Path, column: str | None, *, look: bool
) -> tuple[Any, Any, list[str]]:
    """Return rows and labels of a file as a model reads them, and notes on what is outside.

    Args:
        saved: the model.
        path: a CSV file, a Parquet file, or a folder of Parquet files.
        column: the label's column, for a model without a schema.
        look: whether to count what lies outside the schema; not where the outcome is private.

    Raises:
        DataError: the file's columns are not the model's.
    """
    from ..data.tables.csvform import is_csv

    if saved.schema is None:
        if column is None:
            raise ParameterError("the model has no schema: name the label's column with --label.")
        if not look and is_csv(path):
            raise ParameterError(
                "private metrics of a model without a schema need Parquet, whose types are known "
                "before a row is read; in a CSV file an entry could change a column's type."
            )
        from .number_rows import number_rows

        return (*number_rows(saved, path, column), [])
    if column is not None:
        raise ParameterError("the model's schema names the label: leave --label out.")
    from ..data.block import matrix
    from ..data.schema.encoder import TableEncoder
    from ..data.tables.table_file import open_file
    from ..models.config import require_label
    from ..models.evaluate import label_places
    from .progress import Bar
    from .schema_check import sentences, tally

    label = require_label(saved.schema)
    file = open_file(path, saved.schema, label=True)
    with Bar("reading") as bar:
        rows, labels = file.encoded(TableEncoder(saved.schema), bar)
    return matrix(rows), label_places(labels, label), sentences(tally(file)) if look else []
