"""``predict``: what a model file says of the rows of a table."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, ParameterError
from .arguments import TABLES, add_force, add_json, command

if TYPE_CHECKING:
    from collections.abc import Iterator

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
dpsco predict model.json new.parquet -o predictions.parquet""",
    )
    predict.add_argument("model", type=Path, metavar="MODEL", help="a model file of `dpsco fit`")
    predict.add_argument("data", type=Path, metavar="DATA", help=TABLES)
    predict.add_argument(
        "-o", "--output", type=Path, required=True, help="CSV or Parquet file to write to"
    )
    predict.add_argument(
        "--verbose", action="store_true", help="count the entries outside the schema, by column"
    )
    add_force(predict)
    add_json(predict)
    predict.set_defaults(run=_predict)


def _predict(options: argparse.Namespace, session: Session) -> int:
    from ..data.tables.arrow import pyarrow
    from .model_file import read_model
    from .outputs import Outputs
    from .schema_check import sentences, summary

    if options.output.suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise ParameterError(f"-o must end in .csv, .parquet or .pq, got {options.output}.")
    saved = read_model(options.model)
    with Outputs(force=options.force, inputs=[options.model, options.data]) as outputs:
        session.outputs = outputs
        draft = outputs.reserve(options.output)
        rows, counts = _rows_to_predict(saved, options.data)
        columns = _joined([_predictions(saved.model, X) for X in rows])
        _write(pyarrow().table(columns), draft, options.output)
        outputs.commit()
    count = len(columns["prediction"])
    if options.json:
        record = {"predictions": count, "output": str(options.output), "outside": counts}
        print(json.dumps(record, indent=2))
        return 0
    for note in sentences(counts) if options.verbose else summary(counts):
        print(f"dpsco predict: note: {note}", file=sys.stderr)
    print(f"{count:,} prediction{'' if count == 1 else 's'}: {options.output}")
    return 0


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


def _rows_to_predict(saved: SavedModel, path: Path) -> tuple[Iterator[Any], Tally]:
    """Return the rows of a file batch by batch, and counts of what is outside the schema."""
    if saved.schema is None:
        from .number_rows import number_rows

        return iter([number_rows(saved, path)[0]]), {}
    from dataclasses import replace

    from ..data.block import matrix
    from ..data.schema.encoder import TableEncoder
    from ..data.tables.table_file import open_file
    from .progress import Bar
    from .schema_check import tally

    file = open_file(path, saved.schema, label=False)
    encoder = TableEncoder(replace(file.schema, label=None))

    def encoded() -> Iterator[Any]:
        with Bar("predicting") as bar:
            for batch in file.batches(bar):
                yield matrix(encoder.encode_batch(batch)[0])

    counts = tally(file)
    if file.schema.label is not None:
        counts.pop(file.schema.label.name)
    return encoded(), {name: column for name, column in counts.items() if column}


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
