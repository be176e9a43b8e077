"""``fit``: a table, a schema and a budget make a model file with its certificate inside."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, DpscoError, MissingExtraError, ParameterError
from . import arguments
from .terminal import note

if TYPE_CHECKING:
    from ..data.counts import RowCount
    from ..data.schema.encoder import TableEncoder
    from ..data.schema.schema import Schema
    from ..data.tables.table import Table
    from ..fit.checkpoint.file import Standing
    from ..models import Provenance, SavedModel
    from ..models.evaluate import Metrics
    from ..models.plan import ModelPlan, Outcome
    from ..models.tables import TableModel
    from ..report import Utility
    from ..solvers.base import BasePlan
    from .outputs import Outputs
    from .session import Session

_DESCRIPTION = """Fit a private model: a table, a schema and a budget make a model file.

Everything is decided before a row is read. No entry can change a message, or which files are
written: entries outside the schema are clipped, counted as other or left out, as the schema says.
`dpsco schema check --rows` shows whether there are any.

A malformed CSV file reveals itself: a line with too many or too few entries, or an unclosed quote,
stops the fit, and blank lines are skipped. Parquet files do not have this problem: use them
wherever somebody else can see whether a fit succeeds."""

_ROOM = 1 << 20  # bytes that each file holds before the fit; models of 10,000 weights fit in

_EXAMPLES = """
dpsco fit private.csv --schema schema.json --epsilon 1 -o model.json
dpsco fit private.parquet --schema schema.json --epsilon 1 -o model.json \\
    --certificate certificate.json --report report.html --test-public public.csv
dpsco fit private.csv --schema schema.json --plan plan.json --odometer my.odometer -o model.json
dpsco fit private.parquet --schema schema.json --epsilon 1 --solver acc_srgd --option rounds=16 \\
    --order given --checkpoint run.checkpoint -o model.json
dpsco fit 'data/*.parquet' --schema schema.json --epsilon 1 --order given \\
    --cluster tcp://scheduler:8786 -o model.json"""


def add(commands: Any) -> None:
    """Add the command."""
    fit = arguments.command(
        commands, "fit", "fit a private model", examples=_EXAMPLES, description=_DESCRIPTION
    )
    fit.add_argument("data", type=Path, metavar="DATA", help=arguments.TABLES)
    fit.add_argument(
        "--schema", type=Path, required=True, metavar="FILE", help="what the columns may hold"
    )
    fit.add_argument(
        "-o", "--output", type=Path, required=True, metavar="MODEL", help="model file to write"
    )
    fit.add_argument(
        "--certificate", type=Path, metavar="FILE", help="also write the certificate alone"
    )
    fit.add_argument("--report", type=Path, metavar="FILE", help="write an HTML report")
    fit.add_argument(
        "--test-public",
        type=Path,
        metavar="FILE",
        help="public rows on which the model is measured",
    )
    arguments.add_odometer(fit, purpose=False)
    fit.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="a plan written by `dpsco plan -o`; it contains the budget",
    )
    _add_rows(fit)
    fit.add_argument(
        "--seed", type=int, help="for tests only: anybody who knows the seed can undo the noise"
    )
    arguments.add_writing(fit)
    arguments.add_units(fit)
    arguments.add_count(fit)
    fit.add_argument(
        "--force",
        action="store_true",
        help="replace existing files, and fit even if noise exceeds what can be learnt",
    )
    arguments.add_json(fit)
    arguments.add_timing(fit)
    arguments.add_budget(fit, required=False)
    arguments.add_model(fit)
    arguments.add_label_facts(fit)
    arguments.add_solver(fit)
    arguments.add_provenance(fit)
    fit.set_defaults(run=_fit)


def _add_rows(fit: argparse.ArgumentParser) -> None:
    """Add how rows are read, and what brings a run over a crash."""
    fit.add_argument(
        "--spill",
        type=Path,
        metavar="FOLDER",
        help="folder in which a table too large for memory is shuffled (default: the system's "
        "temporary folder)",
    )
    arguments.add_order(fit)
    arguments.add_cluster(fit)
    fit.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="for solvers that work in rounds: if the fit is killed, the same command continues "
        "from this file; keep it secret until then",
    )


class _TooNoisy(Exception):  # noqa: N818 - no error: a forecast
    """Noise exceeds what can be learnt, and nobody has asked for the fit all the same."""


@dataclass(frozen=True)
class Fit:
    """A fit that was carried out, and what is known about it."""

    saved: SavedModel
    plan: BasePlan
    not_counted: str  # why the rows were not counted, unless that was asked for
    standing: Standing | None  # where the checkpoint stood before the fit
    metrics: Metrics | None  # on public rows
    utility: Utility | None = None  # the same, with figures


def _fit(options: argparse.Namespace, session: Session) -> int:
    from ..data.schema.schema import Schema
    from .outputs import Outputs

    started = time.perf_counter()
    _check_public(options)
    schema = arguments.written(options, Schema.load(options.schema))
    inputs = [options.data, options.schema, options.plan, options.odometer, options.test_public]
    inputs.append(options.provenance)
    with Outputs(force=options.force, inputs=inputs) as outputs:
        session.outputs, session.checkpoint = outputs, options.checkpoint
        drafts = [
            outputs.reserve(path, room=_ROOM)
            for path in (options.output, options.certificate, options.report)
        ]
        _check_checkpoint(options, inputs)
        if options.report is not None:
            _require_report()
        try:
            fit = _carry_out(options, schema, session)
        except _TooNoisy as refusal:  # the drafts go
            note("fit", f"{refusal} Nothing was read or paid; --force fits all the same.")
            return arguments.TOO_NOISY
        _write(outputs, drafts, fit)
        outputs.commit()
    if session.odometer is not None:
        session.odometer.name_model(fit.saved.to_json()["digest"])
    seconds = time.perf_counter() - started
    if alarm := _alarm(fit.saved.rows_counted):
        note("fit", alarm, word="WARNING")
    print(json.dumps(_record(options, fit), indent=2) if options.json else _summary(options, fit))
    if options.timing:
        arguments.tell_time(seconds)
    return 0


def _carry_out(options: argparse.Namespace, schema: Schema, session: Session) -> Fit:
    """Plan the fit and run it; nothing of its messages depends on a row."""
    from .._validate import integer
    from ..data.schema.encoder import TableEncoder
    from ..fit.checkpoint.checkpoint import peek
    from ..models.tables import model_of_plan, saved_model
    from .config import from_schema

    standing = None if options.checkpoint is None else peek(options.checkpoint)
    stated = arguments.stated_provenance(options)
    encoder = TableEncoder(schema)
    if options.seed is not None:
        hint = "Leave --seed out for noise that nobody can reproduce."
        integer("--seed", options.seed, at_least=0, hint=hint)
    session.pay_from(options)
    loaded = _loaded_plan(options)
    model = from_schema(options, schema) if loaded is None else model_of_plan(loaded, schema)
    test = None if options.test_public is None else test_rows(options.test_public, schema)
    rows, table_for = _rows(options, encoder, standing)
    planned = _planned(options, model, rows, loaded)
    _warn(options, planned.fit, resumed=standing is not None)
    table = table_for(planned.fit)
    outcome = _run(options, planned, table, session, standing)
    placed = _placed(stated, session, outcome)
    saved = saved_model(planned, outcome, encoder, provenance=placed)
    metrics = utility = None
    if test is not None:
        from ..models.evaluate import measure, quantile_of
        from .report import public_utility

        metrics = measure(saved.model, *test, quantile=quantile_of(planned.fit))
        if options.report is not None:
            utility = public_utility(saved, *test)
    return Fit(saved, planned.fit, planned.reason, standing, metrics, utility)


def _placed(stated: Provenance | None, session: Session, outcome: Outcome) -> Provenance | None:
    """Return what was stated of the fit, with its place in the odometer that paid."""
    from ..models import Provenance

    if stated is not None and session.odometer is not None:
        with contextlib.suppress(DpscoError):  # what is paid must not be lost over a sentence
            place = session.odometer.place(outcome.result.certificate.releases)
            return stated.updated(Provenance(odometer=place))
    return stated


def _planned(
    options: argparse.Namespace, model: TableModel, rows: int, loaded: BasePlan | None
) -> ModelPlan:
    """Return the plan of the fit: that of the file, or a new one."""
    from ..models.plan import with_count
    from .config import make_plan

    single_epoch = options.checkpoint is not None
    if loaded is None:
        return make_plan(options, model, rows, single_epoch=single_epoch)
    return with_count(
        loaded,
        single_epoch=single_epoch,
        count_rows=options.count_rows,
        encoder=model.encoder,
    )


def _rows(
    options: argparse.Namespace, encoder: TableEncoder, standing: Standing | None
) -> tuple[int, Callable[[BasePlan], Table]]:
    """Return how many rows there are, and what makes their table once there is a plan.

    If the fit is over, the checkpoint knows the number, and the file is not opened.
    """
    from ..data.tables.table_file import UnreadTable, open_file, private_table
    from ..solvers import get
    from ..solvers.engine import reads_once
    from .progress import Bar

    if options.cluster is not None:
        return _cluster_rows(options, encoder, standing)
    if options.order == "groups":
        raise ParameterError("--order groups goes with --cluster, whose row groups it shuffles.")
    if standing is not None and standing.ended is not None:
        unread = UnreadTable(options.data, encoder, standing.rows, options.spill)
        return standing.rows, lambda plan: unread
    file = open_file(options.data, encoder.schema, label=True)

    def table_for(plan: BasePlan) -> Table:
        once = reads_once(get(plan.solver), plan)
        with Bar("reading") as bar:
            return private_table(
                file, encoder, options.spill, order=options.order, once=once, progress=bar
            )

    return file.rows, table_for


def _cluster_rows(
    options: argparse.Namespace, encoder: TableEncoder, standing: Standing | None
) -> tuple[int, Callable[[BasePlan], Table]]:
    """Return how many rows the files of a cluster have, and what makes their table.

    If the fit is over, no cluster is reached: it may be gone.
    """
    from ..data.tables.cluster.table import from_cluster

    if options.order == "shuffled":
        raise ParameterError(
            "--cluster leaves rows where they are, and so shuffles none. Use --order given if the "
            "order in the files does not depend on the rows; --order groups, which shuffles whole "
            "row groups; or `dpsco shuffle`, which writes the files anew in a random order."
        )
    if options.spill is not None:
        raise ParameterError("--spill is for rows that are shuffled here: leave it out.")
    shuffle: Any = "groups" if options.order == "groups" else None
    over = standing is not None and standing.ended is not None
    table = from_cluster(
        options.data,
        cluster="threads:1" if over else options.cluster,
        encoder=encoder,
        shuffle=shuffle,
        watch=arguments.tell_sum if options.timing else None,
    )
    return table.n, lambda plan: table


def _order(options: argparse.Namespace) -> Any:
    """Return the order that the table is asked for; a shuffle of groups is the table's own."""
    return "shuffled" if options.order == "groups" else options.order


def _run(
    options: argparse.Namespace,
    planned: ModelPlan,
    table: Table,
    session: Session,
    standing: Standing | None,
) -> Outcome:
    """Carry out the plan; what a warning would say of a fit that is over, the summary says."""
    import warnings

    from ..privacy.randomness import Randomness
    from .progress import Bar

    what = f"fitting by {planned.fit.solver}"
    workers: Any = nullcontext() if options.cluster is None else table
    with workers, Bar(what, timing=options.timing) as bar, warnings.catch_warnings():
        if options.cluster is not None:
            workers.listen(bar.part)
        if standing is not None and standing.ended is not None:
            warnings.simplefilter("ignore", UserWarning)
        return planned.run(
            table,
            order=_order(options),
            randomness=None if options.seed is None else Randomness.seeded(options.seed),
            odometer=session.odometer,
            progress=bar,
            checkpoint=options.checkpoint,
        )


def _warn(options: argparse.Namespace, plan: BasePlan, *, resumed: bool) -> None:
    """Say what is to be expected, from public facts, where it is not good.

    Raises:
        _TooNoisy: noise exceeds what can be learnt, without --force.
    """
    from ..privacy.budget import budget_warnings

    outlook = arguments.expected(options, plan.task, plan.solver)
    sentences = budget_warnings(plan.budget, plan.n)
    for sentence in sentences:
        note("fit", sentence)
    if outlook.verdict == "hopeless" and not (options.force or resumed):
        raise _TooNoisy(outlook.sentence)
    if not outlook.promising:
        note("fit", outlook.sentence)


def _loaded_plan(options: argparse.Namespace) -> BasePlan | None:
    """Return the plan of a file; refuse what the file decides already."""
    from .config import budget, load_plan

    if options.plan is None:
        budget(options, 2)  # refuses here what it would refuse later
        return None
    decided = {
        "--epsilon": options.epsilon is not None,
        "--delta": options.delta is not None,
        "--model": options.model is not None,
        "--feature-norm": options.feature_norm is not None,
        "--solver": options.solver != "auto",
        "--prefer": options.prefer != "accuracy",
        "--option": bool(options.option),
        "--setting": bool(options.setting),
        "--units": options.units is not None,
    }
    twice = [flag for flag, here in decided.items() if here]
    if twice:
        raise ParameterError(f"the plan {options.plan} decides {twice[0]}: leave it out.")
    return load_plan(options.plan)


def _check_public(options: argparse.Namespace) -> None:
    """Refuse to take the private rows for public ones, on which exact numbers are printed."""
    from ..data.tables.origin import files_of

    if options.test_public is None or not files_of(options.data) & files_of(options.test_public):
        return
    raise ParameterError(
        f"--test-public measures without noise, and {options.test_public} holds private rows of "
        "this fit. Pass rows that are public and not fitted on; or leave it out, and measure with "
        "noise: dpsco evaluate --epsilon."
    )


def test_rows(path: Path, schema: Schema) -> tuple[Any, Any]:
    """Return public rows with their labels, read before anything is paid for."""
    from ..data.block import matrix
    from ..data.schema.encoder import TableEncoder
    from ..data.tables.table_file import open_file
    from ..models.evaluate import label_places
    from .progress import Bar

    with Bar("reading") as bar:
        rows, labels = open_file(path, schema, label=True).encoded(TableEncoder(schema), bar)
    places = label_places(labels, schema.label)
    if not (places == places).any():
        raise DataError(f"no row of {path} has a label that the schema declares.")
    return matrix(rows), places


def _write(outputs: Outputs, drafts: list[Path | None], fit: Fit) -> None:
    """Write every file that was asked for."""
    model, certificate, report = drafts
    outputs.json(model, fit.saved.to_json(), indent=1)
    outputs.json(certificate, fit.saved.certificate.to_json())
    if report is not None:
        from .report import report_text

        outputs.text(report, report_text(fit.saved.certificate, fit.saved, fit.utility))


def _check_checkpoint(options: argparse.Namespace, inputs: list[Path | None]) -> None:
    """Refuse a checkpoint in the place of another file of the command."""
    if options.checkpoint is None:
        return
    here = os.path.realpath(options.checkpoint)
    others = [*inputs, *_files(options).values()]
    if any(path is not None and os.path.realpath(path) == here for path in others):
        raise DataError(
            f"{options.checkpoint} is named as the checkpoint and for something else; give the "
            "checkpoint a file of its own."
        )


def _require_report() -> None:
    """Refuse before anything is paid for, if a report cannot be made here."""
    from importlib.util import find_spec

    if find_spec("jinja2") is None:
        raise MissingExtraError(
            "--report needs Jinja2. Install it with: pip install 'dpsco[report]', or leave it out "
            "and write the report elsewhere: dpsco report MODEL -o report.html."
        )


def _record(options: argparse.Namespace, fit: Fit) -> dict[str, Any]:
    """Return the outcome as JSON values."""
    from ..privacy.budget import budget_warnings
    from ..privacy.certificate_text import point
    from .schema_check import rules

    saved, plan, standing = fit.saved, fit.plan, fit.standing
    epsilon, delta = point(saved.certificate)
    return {
        "model": saved.model.name,
        "solver": plan.solver,
        "rounds": plan.total_rounds,
        "resumed_after": None if standing is None else standing.round,
        "stored_since": None if standing is None else standing.ended,
        "rows": plan.n,
        "features": plan.d,
        "epsilon": epsilon,
        "delta": delta,
        "adjacency": plan.budget.adjacency.value,
        "rows_per_person": plan.budget.unit.rows,
        "order": options.order,
        "outlook": arguments.expected(options, plan.task, plan.solver).sentence,
        "warnings": budget_warnings(plan.budget, plan.n),
        "reproducible": saved.certificate.reproducible,
        "rows_counted": _count_record(saved.rows_counted),
        "rules": rules(saved.schema),
        "test": None if fit.metrics is None else fit.metrics.to_json(),
        "digest": saved.to_json()["digest"],
        "files": {name: str(path) for name, path in _files(options).items()},
    }


def _summary(options: argparse.Namespace, fit: Fit) -> str:
    """Return the outcome in a few lines."""
    from ..privacy.certificate_text import owner, spent
    from .schema_check import rules

    saved, plan, metrics = fit.saved, fit.plan, fit.metrics
    whom = f", for {owner(plan.budget)}" if plan.budget.unit.rows > 1 else ""
    lines = [
        f"{saved.model.name} model of {arguments.rows_of(plan.n)} by {plan.solver}",
        *_course(options.data, fit),
        *_count_lines(fit),
        f"spent: {spent(saved.certificate)}, {plan.budget.adjacency.value}{whom}",
        *(f"rule: {rule}" for rule in rules(saved.schema)),
    ]
    if saved.certificate.reproducible:
        lines.append(
            "SEEDED: anybody who knows the seed can remove the noise. Do not publish this."
        )
    if metrics is not None:
        count = "1 public row" if metrics.rows == 1 else f"{metrics.rows:,} public rows"
        lines += [f"\non the {count} of {options.test_public}", str(metrics)]
    lines += ["", *(f"{name + ':':<13}{path}" for name, path in _files(options).items())]
    lines.append(f"digest:      {saved.to_json()['digest']}")
    return "\n".join(lines)


def _course(data: Path, fit: Fit) -> list[str]:
    """Return, in a line or none, how the fit went from what its checkpoint had before."""
    from ..solvers import get
    from ..solvers.engine import reads_once

    standing = fit.standing
    if standing is not None and standing.ended is not None:
        return [f"stored result of the run that ended {standing.ended}; {data} was not read"]
    total = f"{fit.plan.total_rounds:,}"
    if standing is not None:
        return [f"went on after round {standing.round:,} of {total}"]
    if not reads_once(get(fit.plan.solver), fit.plan):
        return []
    return [f"{total} round{'' if total == '1' else 's'}, each row in one of them"]


def _count_lines(fit: Fit) -> list[str]:
    """Return what is said about the count of the rows."""
    if fit.saved.rows_counted is not None:
        return [str(fit.saved.rows_counted)]
    return [f"rows were not counted: {fit.not_counted}"] if fit.not_counted else []


def _count_record(count: RowCount | None) -> dict[str, Any] | None:
    """Return the count as JSON values."""
    return None if count is None else {**count.to_json(), "warning": _alarm(count) or None}


def _alarm(count: RowCount | None) -> str:
    """Return the warning of a count that is far too low; it follows from released numbers."""
    look = "Look with `dpsco schema check SCHEMA SAMPLE --rows --public` at a public sample."
    return f"{count.warning} {look}" if count is not None and count.warning else ""


def _files(options: argparse.Namespace) -> dict[str, Path]:
    """Return the files that were written."""
    places = {
        "model": options.output,
        "certificate": options.certificate,
        "report": options.report,
    }
    return {name: path for name, path in places.items() if path is not None}
