"""``predict``: what a model file says of the rows of a table."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, ParameterError
from .arguments import TABLES, add_cluster, add_force, add_json, add_writing, command

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..data.tables.table_file import TableFile
    from ..models import LinearModel, SavedModel
    from .schema_check import Tally
    from .session import Session


def add(commands: Any) -> None:
    """Add the command."""
    predict = command(
        commands,
        "predict",
        "predict with a model file",
        examples="""
dpsco predict model.json new.csv -o predictions.csv
dpsco predict model.json new.csv -o predictions.csv --id patient --keep ward age
dpsco predict model.json new.parquet -o predictions.parquet
dpsco predict model.json 'new/*.parquet' --cluster local:4 -o predictions.parquet""",
    )
    predict.add_argument("model", type=Path, metavar="MODEL", help="a model file of `dpsco fit`")
    predict.add_argument("data", type=Path, metavar="DATA", help=TABLES)
    predict.add_argument(
        "-o", "--output", type=Path, required=True, help="CSV or Parquet file to write to"
    )
    predict.add_argument(
        "--id", metavar="COLUMN", help="a column of DATA that identifies rows; written first"
    )
    predict.add_argument(
        "--keep",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="further columns of DATA to copy next to the predictions",
    )
    predict.add_argument(
        "--verbose", action="store_true", help="count the entries outside the schema, per column"
    )
    add_cluster(predict)
    add_writing(predict)
    add_force(predict)
    add_json(predict)
    predict.set_defaults(run=_predict)


def _predict(options: argparse.Namespace, session: Session) -> int:
    from ..data.tables.arrow import pyarrow
    from .model_file import read_model, with_writing
    from .outputs import Outputs
    from .schema_check import sentences, summary

    if options.output.suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise ParameterError(f"-o must end in .csv, .parquet or .pq, got {options.output}.")
    saved = with_writing(read_model(options.model), options)
    names = list(dict.fromkeys([*([] if options.id is None else [options.id]), *options.keep]))
    with Outputs(force=options.force, inputs=[options.model, options.data]) as outputs:
        session.outputs = outputs
        draft = outputs.reserve(options.output, rows_of=options.data)
        if options.cluster is not None:
            counts: Tally = {}
            count = _predict_elsewhere(options, saved, draft, names)
        else:
            rows, counts, copies = _rows_to_predict(saved, options.data, names)
            columns = _joined([_predictions(saved.model, X) for X in rows])
            _write(pyarrow().table(_beside(copies, columns)), draft, options.output)
            count = len(columns["prediction"])
        outputs.commit()
    if options.json:
        record = {"predictions": count, "output": str(options.output), "outside": counts}
        print(json.dumps(record, indent=2))
        return 0
    for note in sentences(counts) if options.verbose else summary(counts):
        print(f"dpsco predict: note: {note}", file=sys.stderr)
    print(f"{count:,} prediction{'' if count == 1 else 's'}: {options.output}")
    return 0


def _predict_elsewhere(
    options: argparse.Namespace, saved: SavedModel, draft: Any, names: list[str]
) -> int:
    """Write what workers predict, slice by slice in the order of the rows; return how many."""
    from ..data.tables.cluster.table import to_predict
    from ..models.scoring import Predictions
    from .progress import Bar

    if saved.schema is None:
        raise ParameterError("--cluster needs a model with a schema: `dpsco fit` writes one.")
    if options.verbose or names:
        flag = "--verbose" if options.verbose else "--id and --keep"
        raise ParameterError(f"{flag} would read the rows here: leave it out with --cluster.")
    query, how = Predictions(saved.model), options.cluster
    with (
        Bar("predicting") as bar,
        to_predict(options.data, saved.schema, cluster=how, progress=bar) as table,
    ):
        _write_all((query.named(columns) for columns in table.mapped(query)), draft, options.output)
        return table.n


def _predictions(model: LinearModel, X: Any) -> dict[str, Any]:
    """Return the columns that are written about some rows."""
    columns = {"prediction": model.predict(X)}
    if model.odds and model.classes is not None:
        for value, column in zip(model.classes, model.probabilities(X).T, strict=True):
            columns[f"probability {value}"] = column
    return columns


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the columns of consecutive parts as one."""
    import numpy as np

    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _beside(copies: dict[str, Any], columns: dict[str, Any]) -> dict[str, Any]:
    """Return columns of the input before those that were predicted."""
    for name in copies:
        if name in columns:
            raise ParameterError(
                f"column {name!r} cannot be kept: a column of predictions has that name. Rename it."
            )
    return {**copies, **columns}


def _rows_to_predict(
    saved: SavedModel, path: Path, names: list[str]
) -> tuple[Iterator[Any], Tally, dict[str, Any]]:
    """Return the rows of a file batch by batch, counts of what is outside the schema, and columns.

    Args:
        saved: the model.
        path: of the file.
        names: of the columns that are returned as they are; none of them need be declared.
    """
    if saved.schema is None:
        from .number_rows import named_columns, number_rows

        copies = named_columns(path, names)
        return iter([number_rows(saved, path, ignored=names)[0]]), {}, copies
    from dataclasses import replace

    from ..data.block import matrix
    from ..data.schema.encoder import TableEncoder
    from ..data.schema.schema import Ignore
    from ..data.tables.table_file import check_kind, column_names, open_file
    from .progress import Bar
    from .schema_check import tally

    check_kind(path)
    _check_there(path, names, column_names(path, saved.schema))
    extra = tuple(Ignore(name) for name in names if name not in saved.schema.names)
    schema = replace(saved.schema, columns=(*saved.schema.columns, *extra))
    file = open_file(path, schema, label=False)
    copies = _copies(file, names)
    encoder = TableEncoder(replace(file.schema, label=None))

    def encoded() -> Iterator[Any]:
        with Bar("predicting") as bar:
            for batch in file.batches(bar):
                yield matrix(encoder.encode_batch(batch)[0])

    counts = tally(file)
    if file.schema.label is not None:
        counts.pop(file.schema.label.name)
    return encoded(), {name: column for name, column in counts.items() if column}, copies


def _check_there(path: Path, names: list[str], known: Collection[str]) -> None:
    """Refuse to keep a column that the file does not have."""
    from .._validate import closest

    for name in names:
        if name not in known:
            raise DataError(f"{path} has no column {name!r} to keep.{closest(name, known)}")


def _copies(file: TableFile, names: list[str]) -> dict[str, Any]:
    """Return columns of a file as they stand there; of a CSV file as text."""
    from ..data.tables.arrow import pyarrow

    if not names:
        return {}
    files = file.text() or file.files
    table = pyarrow().Table.from_batches(files.batches(0, file.rows, names, 1 << 16))
    return {name: table.column(name) for name in names}


def _write_all(parts: Iterator[dict[str, Any]], draft: Any, place: Path) -> None:
    """Write consecutive parts of a table, one after the other, likewise."""
    from pyarrow import csv, parquet, table

    kind = csv.CSVWriter if place.suffix.lower() == ".csv" else parquet.ParquetWriter
    first = table(next(parts))
    try:
        with kind(str(draft), first.schema) as writer:
            writer.write_table(first)
            for columns in parts:
                writer.write_table(table(columns, schema=first.schema))
    except OSError as problem:
        raise DataError(f"cannot write {place}: {problem.strerror or problem}.") from None


def _write(table: Any, draft: Any, place: Path) -> None:
    """Write a table in the format that its place's name asks for."""
    from pyarrow import csv, parquet

    try:
        if place.suffix.lower() == ".csv":
            csv.write_csv(table, str(draft))
        else:
            parquet.write_table(table, str(draft))
    except OSError as problem:
        raise DataError(f"cannot write {place}: {problem.strerror or problem}.") from None
    except ValueError:  # of Arrow: a type that a CSV file cannot hold
        raise DataError(
            f"cannot write {place}: a column to keep has a type that a CSV file cannot hold. Write "
            "a .parquet file."
        ) from None
