"""``predict`` and ``evaluate``: a model file on rows of a table."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, ParameterError
from .arguments import TABLES, add_budget, add_force, add_json, command
from .ledgers import add_odometer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..models import LinearModel, SavedModel
    from .tally import Tally

_ABOUT_ROWS = (
    "NOT PRIVATE: these numbers are about the very rows given. Publish them only if those rows are "
    "public; otherwise pay for noisy ones with --epsilon"
)
_PAID = (
    "the rows given pay for these numbers on top of what the model has cost, if they are among "
    "those it was fitted on; --odometer adds it up"
)


def add(commands: Any) -> None:
    """Add the commands."""
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

    evaluate = command(
        commands,
        "evaluate",
        "measure how well a model file predicts",
        examples="""
dpsco evaluate model.json public-test.csv
dpsco evaluate model.json held-out.parquet --epsilon 0.5 --certificate metrics.json""",
        description=(
            "Measure how well a model file predicts, beside a trivial baseline.\n\nWithout "
            "--epsilon the numbers are exact, about the rows given, and not private. With "
            "--epsilon\nnoisy numbers are released, and a certificate of what that cost the rows."
        ),
    )
    evaluate.add_argument("model", type=Path, metavar="MODEL", help="a model file of `dpsco fit`")
    evaluate.add_argument("data", type=Path, metavar="DATA", help=f"rows with labels: {TABLES}")
    evaluate.add_argument(
        "--label", metavar="COLUMN", help="the label's column, for a model without a schema"
    )
    add_budget(evaluate, required=False)
    add_odometer(evaluate)
    evaluate.add_argument("--certificate", type=Path, metavar="FILE", help="where to write it")
    add_force(evaluate)
    add_json(evaluate)
    evaluate.set_defaults(run=_evaluate)


def _predict(options: argparse.Namespace) -> int:
    from ..data.tables.arrow import pyarrow
    from .modelfile import read_model
    from .outputs import Outputs
    from .tally import sentences, summary

    if options.output.suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise ParameterError(f"-o must end in .csv, .parquet or .pq, got {options.output}.")
    saved = read_model(options.model)
    with Outputs(force=options.force, inputs=[options.model, options.data]) as outputs:
        draft = outputs.reserve(options.output)
        rows, counts = _rows_to_predict(saved, options.data)
        columns = _joined([_predictions(saved.model, X) for X in rows])
        _write(pyarrow().table(columns), draft, options.output)
        outputs.commit()
    done = len(columns["prediction"])
    if options.json:
        record = {"predictions": done, "output": str(options.output), "outside": counts}
        print(json.dumps(record, indent=2))
        return 0
    for note in sentences(counts) if options.verbose else summary(counts):
        print(f"dpsco predict: note: {note}", file=sys.stderr)
    print(f"{done:,} prediction{'' if done == 1 else 's'}: {options.output}")
    return 0


def _predictions(model: LinearModel, X: Any) -> dict[str, Any]:
    """Return the columns that are written about some rows."""
    columns = {"prediction": model.predict(X)}
    if model.kind == "logistic" and model.classes is not None:
        for value, column in zip(model.classes, model.probabilities(X).T, strict=True):
            columns[f"probability {value}"] = column
    return columns


def _joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the columns of consecutive parts as one."""
    import numpy as np

    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _rows_to_predict(saved: SavedModel, path: Path) -> tuple[Iterator[Any], Tally]:
    """Return the rows of a file a batch at a time, and counts of what is outside the schema."""
    if saved.schema is None:
        X, _ = _plain_rows(saved, path, None)
        return iter([X]), {}
    from dataclasses import replace

    from ..data.schema.encoder import TableEncoder
    from .tables import matrix, open_file
    from .tally import tally

    file = open_file(path, saved.schema, label=False)
    encoder = TableEncoder(replace(file.schema, label=None))
    batches = (encoder.encode_batch(batch)[0] for batch in file.batches("predicting"))
    counts = tally(file)
    if file.schema.label is not None:
        counts.pop(file.schema.label.name)
    return map(matrix, batches), {name: column for name, column in counts.items() if column}


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


def _evaluate(options: argparse.Namespace) -> int:
    from .ledgers import open_odometer
    from .metrics import measure, quantile_of, release
    from .modelfile import read_model
    from .outputs import Outputs
    from .request import budget, rows_of

    private = options.epsilon is not None
    if not private and (options.odometer or options.certificate or options.delta is not None):
        raise ParameterError("--odometer, --certificate and --delta go with --epsilon.")
    saved = read_model(options.model)
    with Outputs(force=options.force, inputs=[options.model, options.data]) as outputs:
        draft = outputs.reserve(options.certificate)
        ledger = options.paying = open_odometer(options)
        X, labels, notes = _rows_to_measure(saved, options.data, options.label, look=not private)
        if private:
            asked = budget(options, len(labels))
            found = release(
                saved.model, X, labels, asked, quantile=quantile_of(saved.plan), odometer=ledger
            )
            assert found.certificate is not None
            outputs.json(draft, found.certificate.to_json())
        else:
            found = measure(saved.model, X, labels, quantile=quantile_of(saved.plan))
        outputs.commit()
    if options.json:
        record = {"private": private, "notice": _PAID if private else _ABOUT_ROWS}
        if found.certificate is not None:
            record["certificate"] = found.certificate.to_json()
        print(json.dumps({**record, **found.to_json(), "notes": notes}, indent=2))
        return 0
    print(f"{_ABOUT_ROWS}.\n" if not private else f"Private: {_PAID}.\n")
    print(f"{rows_of(found.rows)}\n{found}")
    for note in notes:
        print(f"note: {note}")
    if found.certificate is not None:
        print(f"\n{found.certificate}")
    if options.certificate is not None:
        print(f"certificate: {options.certificate}")
    return 0


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
    from ..data.tables.files import is_csv

    if saved.schema is None:
        if column is None:
            raise ParameterError("the model has no schema: name the label's column with --label.")
        if not look and is_csv(path):
            raise ParameterError(
                "private metrics of a model without a schema need Parquet, whose types are known "
                "before a row is read; in a CSV file an entry could change a column's type."
            )
        return (*_plain_rows(saved, path, column), [])
    if column is not None:
        raise ParameterError("the model's schema names the label: leave --label out.")
    from ..data.schema.encoder import TableEncoder
    from .metrics import label_places
    from .request import require_label
    from .tables import encoded, open_file
    from .tally import sentences, tally

    label = require_label(saved.schema)
    file = open_file(path, saved.schema, label=True)
    X, labels = encoded(file, TableEncoder(saved.schema))
    return X, label_places(labels, label), sentences(tally(file)) if look else []


def _plain_rows(saved: SavedModel, path: Path, column: str | None) -> tuple[Any, Any]:
    """Return rows and labels of a file of plain numbers, for a model without a schema."""
    import numpy as np

    from ..data.schema.columns import number_rows, open_frame
    from .tables import whole_table

    table = whole_table(path)
    names = table.schema.names
    wanted = saved.feature_names or tuple(name for name in names if name != column)
    absent = [name for name in (*wanted, *([column] if column else [])) if name not in names]
    if absent:
        raise DataError(f"{path} has no column {absent[0]!r}; it has {', '.join(names)}.")
    if len(wanted) != saved.model.d:
        raise DataError(
            f"{path} has {len(wanted)} columns of features, the model has {saved.model.d}."
        )
    X = np.asarray(number_rows(open_frame(table, "predict"), list(wanted)), dtype=float)
    if column is None:
        return X, None
    return X, _plain_labels(table.column(column), saved)


def _plain_labels(column: Any, saved: SavedModel) -> Any:
    """Return labels as numbers, or as places among the model's classes."""
    import numpy as np

    from ..data.tables.arrow import codes, family, numbers

    parts, classes = column.chunks, saved.model.classes
    wanted = "text" if classes is not None and isinstance(classes[0], str) else "numbers"
    kind = family(column.type)
    if (kind == "text") != (wanted == "text") or kind == "other":
        raise DataError(f"the label's column must hold {wanted}, its type is {column.type}.")
    if classes is None:
        return np.concatenate([np.empty(0), *map(numbers, parts)])
    places = [codes(part, classes)[0] for part in parts]
    found = np.concatenate([np.empty(0, dtype=np.int64), *places])
    return np.where(found >= 0, found.astype(float), np.nan)
