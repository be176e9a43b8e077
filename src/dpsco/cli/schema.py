"""``schema draft``: guess a schema from public rows; ``schema check``: compare a file with one."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from .arguments import TABLES, add_force, add_json, add_writing, command, rows_of, written

if TYPE_CHECKING:
    from .session import Session

_LOOK = (
    "these are counts of private rows, for their holder only. Do not publish them, and do not "
    "adapt the schema to them: what is declared must be known without the rows"
)

_UNSEEN = (
    "A CSV file has no types, and no entry was looked at: whether entries are written as declared, "
    "a public sample shows (--rows --public)."
)


def add(commands: Any) -> None:
    """Add the two commands about schemas."""
    schema = command(commands, "schema", "draft a schema, or check a file by it")
    actions = schema.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_draft(actions)
    check = command(
        actions,
        "check",
        "compare a file's columns with a schema",
        examples="""
dpsco schema check schema.json private.parquet     # names and types only; no row is read
dpsco schema check schema.json sample.csv --rows --public
dpsco schema check schema.json private.csv --rows --not-private""",
    )
    check.add_argument("schema", type=Path, metavar="SCHEMA", help="schema, a JSON file")
    check.add_argument("file", type=Path, metavar="FILE", help=TABLES)
    check.add_argument(
        "--rows",
        action="store_true",
        help="also count the entries outside ranges, categories and classes, and say how to "
        "read them; needs --public or --not-private",
    )
    check.add_argument(
        "--public",
        action="store_true",
        help="declare that the rows are a public or synthetic sample, so entries may be shown",
    )
    check.add_argument(
        "--not-private",
        action="store_true",
        help="the data holder's own look at private rows: acknowledge that the counts are not "
        "private and must not be published",
    )
    add_writing(check)
    add_json(check)
    check.set_defaults(run=_check)


def _add_draft(actions: Any) -> None:
    """Add ``schema draft``."""
    draft = command(
        actions,
        "draft",
        "guess a schema from public or synthetic rows",
        examples="dpsco schema draft made-up.csv --label income --public -o schema.json",
    )
    draft.add_argument("file", type=Path, metavar="FILE", help=TABLES)
    draft.add_argument("--label", metavar="COLUMN", help="the column to predict")
    draft.add_argument(
        "--public",
        action="store_true",
        help="declare that the rows are public or synthetic: ranges and categories are taken from "
        "them",
    )
    draft.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="SCHEMA",
        help="file to write to",
    )
    add_force(draft)
    draft.add_argument(
        "--round",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="widen ranges to round numbers (default)",
    )
    draft.add_argument(
        "--categories",
        type=int,
        default=64,
        metavar="N",
        help="hash text columns with more than N values (default 64)",
    )
    draft.add_argument(
        "--label-kind",
        choices=("auto", "number", "classes", "sign"),
        default="auto",
        help="what the label is: a number in a range, one of a list of values, or -1 and 1 "
        "(default auto: by its type and values)",
    )
    add_writing(draft)
    draft.set_defaults(run=_draft)


def _draft(options: argparse.Namespace, session: Session) -> int:
    from ..data.schema.draft import draft, read_for_draft, require_public
    from ..data.schema.schema import Flag, Schema
    from ..data.tables.csvform import CsvForm
    from ..data.tables.table_file import check_kind
    from .outputs import Outputs

    require_public("draft", "--public", options.public)
    with Outputs(force=options.force, inputs=[options.file]) as outputs:
        session.outputs = outputs
        place = outputs.reserve(options.output)
        check_kind(options.file)
        form = CsvForm.of(options.file, written(options, Schema((Flag("any"),))))
        guess = draft(
            read_for_draft(options.file, form),
            label=options.label,
            public=True,
            rounded=options.round,
            most_categories=options.categories,
            label_kind=options.label_kind,
        )
        schema = written(options, guess.schema)
        outputs.text(place, schema.to_json())
        outputs.commit()
    summary = f"{guess}\n\nA draft: check every line against what is publicly known."
    if options.output is None:
        print(summary, file=sys.stderr)
        print(schema.to_json(), end="")
    else:
        print(f"{summary}\nschema: {options.output}")
    return 0


def _check(options: argparse.Namespace, session: Session) -> int:
    from ..data.schema.draft import check_file
    from ..data.schema.schema import Schema
    from ..data.tables.table_file import check_kind

    if options.public and options.not_private:
        raise ParameterError("rows are public or they are not: give --public or --not-private.")
    if options.rows and not (options.public or options.not_private):
        raise ParameterError(
            "--rows counts entries, and so needs --public if the rows are a public sample. On "
            f"private rows it needs --not-private: an acknowledgement that {_LOOK}. Without --rows "
            "only names and types are compared."
        )
    schema = written(options, Schema.load(options.schema))
    check_kind(options.file)
    check = check_file(schema, options.file)
    record: dict[str, Any] = {"valid": check.ok, "files": check.files, "rows": check.rows}
    record["problems"] = list(check.problems)
    lines = [str(check)]
    ok = check.ok
    if ok and check.rows is None and not options.rows:
        lines.append(_UNSEEN)
    if ok and options.rows:
        more, ok = _rows(schema, options.file, public=options.public)
        record |= {"valid": ok, **more}
        lines += more["lines"]
        del record["lines"]
    print(json.dumps(record, indent=2) if options.json else "\n".join(lines))
    return 0 if ok else 1


def _rows(schema: Any, path: Path, *, public: bool) -> tuple[dict[str, Any], bool]:
    """Count what lies outside the schema; return a record and whether nothing does."""
    from ..data.tables.table_file import open_file
    from .schema_check import findings, outside, sentences, tally

    file = open_file(path, schema, label=True)
    counts = tally(file)
    wrong, columns = outside(counts), findings(file, counts, public=public)
    lines = sentences(counts) or ["every entry is there and lies within its declaration"]
    verdict = "All entries fit" if not wrong else "Some entries do NOT fit"
    if any(each.mismatch for each in columns):
        verdict = "MISMATCH: whole columns do NOT fit"
    notice = None if public else f"NOT PRIVATE: {_LOOK}."
    lines = [f"{rows_of(file.rows)}. {verdict} the schema.", *lines, *map(str, columns)]
    record = {"rows": file.rows, "columns": counts, "notice": notice}
    record["mismatches"] = [each.name for each in columns if each.mismatch]
    record["advice"] = {each.name: each.advice for each in columns}
    return {**record, "lines": ["", *([] if notice is None else [notice]), *lines]}, not wrong
