"""``plan`` with several epsilons: accuracy and attacks by budget, perhaps rehearsed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import TOO_NOISY, facts

if TYPE_CHECKING:
    from ..data.schema.encoder import TableEncoder
    from ..fit.tradeoff import Tradeoff
    from ..models.plan import ModelPlan
    from ..models.tables import TableModel
    from ..privacy.accounting.composition import Cost
    from ..solvers.base import BasePlan
    from ..task import Task
    from .session import Session


MADE_UP = Path("made-up rows")


def add_tradeoff(parser: argparse.ArgumentParser) -> None:
    """Add what a comparison of budgets takes."""
    group = parser.add_argument_group("comparing budgets")
    group.add_argument(
        "--svg", type=Path, metavar="FILE", help="draw excess risk and attack bound against epsilon"
    )
    group.add_argument(
        "--rehearse",
        nargs="?",
        type=Path,
        const=MADE_UP,
        metavar="PUBLIC",
        help="replace the forecast by measurements: fit for free on a public table, or without a "
        "file on rows made up from the public facts",
    )
    group.add_argument(
        "--repeats", type=int, metavar="N", help="number of rehearsed fits per point (default 5)"
    )


def is_tradeoff(options: argparse.Namespace) -> bool:
    """Return whether a comparison is asked for: several epsilons, a picture, a rehearsal."""
    chosen = (options.svg, options.rehearse, options.repeats)
    return len(options.epsilon) > 1 or any(each is not None for each in chosen)


def compare(options: argparse.Namespace, session: Session) -> int:
    """Print what to expect of each epsilon and solver."""
    from ..errors import ParameterError
    from .config import from_options
    from .outputs import Outputs

    if options.output is not None:
        raise ParameterError(
            "-o writes one plan, but several epsilons, --svg and --rehearse make a comparison. "
            "Choose one epsilon first, then run again with that epsilon and -o.",
            parameter="--output",
        )
    if options.repeats is not None and options.rehearse is None:
        raise ParameterError("--repeats counts rehearsed fits: add --rehearse.")
    model = from_options(options)
    with Outputs(force=options.force, inputs=[options.schema, options.rehearse]) as outputs:
        session.outputs = outputs
        draft = outputs.reserve(options.svg)
        curve = _tradeoff(options, model)
        if draft is not None:
            from ..report import tradeoff_svg

            outputs.text(draft, tradeoff_svg(curve) + "\n")
        outputs.commit()
    print(json.dumps(curve.to_json(), indent=2) if options.json else _text(curve))
    if draft is not None and not options.json:
        print(f"picture: {options.svg}")
    return TOO_NOISY if curve.best().verdict == "hopeless" else 0


def _tradeoff(options: argparse.Namespace, model: TableModel) -> Tradeoff:
    """Return the trade-off of the plans that `dpsco plan` would make, one per epsilon."""
    from ..fit.tradeoff import AUTO, tradeoff_of
    from ..task import Task
    from .config import budget, make_plan

    epsilons = options.epsilon
    options = argparse.Namespace(**{**vars(options), "epsilon": max(epsilons)})
    task = Task(
        model.config.problem(), options.n, model.d, budget(options, options.n), options.calibration
    )

    def planner(task: Task, key: str) -> ModelPlan:
        return make_plan(options, model, options.n, whole=task.budget, solver=key)

    if options.rehearse is not None:
        named = AUTO if options.solver == AUTO else (options.solver,)
        return _rehearsed(options, model, task, planner, epsilons, solvers=named)

    def costed(task: Task, key: str) -> tuple[BasePlan, Cost]:
        planned = planner(task, key)
        return planned.fit, planned.cost

    how: dict[str, Any] = {"prefer": options.prefer, **facts(options)}
    chosen = None if options.solver == AUTO else (options.solver,)
    return tradeoff_of(task, epsilons, costed, solvers=chosen, **how)


def _rehearsed(
    options: argparse.Namespace,
    model: TableModel,
    task: Task,
    planner: Callable[[Task, str], ModelPlan],
    epsilons: list[float],
    **how: Any,
) -> Tradeoff:
    """Return the same, measured on public or made-up rows."""
    from ..data.schema.made_up import made_up_features
    from ..fit.rehearsal import REPEATS
    from ..models.rehearsal import rehearse_model

    encoder = model.encoder
    how |= {"prefer": options.prefer, "repeats": options.repeats or REPEATS, **facts(options)}
    table = None
    if options.rehearse is not MADE_UP:
        table = _public_rows(options.rehearse, encoder)
        print(
            f"rehearsal: you declare that {options.rehearse} is public. Nothing is charged, and "
            "these fits have no certificate.",
            file=sys.stderr,
        )
    elif encoder is not None:
        how["features"] = lambda rows, draws: made_up_features(encoder, rows, draws.uniforms)
    return rehearse_model(model.config, task, planner, table, epsilons, **how)


def _public_rows(path: Path, encoder: TableEncoder | None) -> tuple[Any, Any]:
    """Return the rows and labels of a public table as a fit reads them."""
    from ..data.block import matrix
    from ..data.tables.table_file import open_file
    from ..errors import ParameterError
    from .progress import Bar

    if encoder is None:
        raise ParameterError("--rehearse reads a table by its schema: give --schema FILE.")
    with Bar("reading") as bar:
        rows, labels = open_file(path, encoder.schema, label=True).encoded(encoder, bar)
    assert labels is not None
    usable = labels == labels  # not missing, and declared
    return matrix(rows)[usable], labels[usable]


def _text(curve: Tradeoff) -> str:
    """Return the table, and the smallest epsilon that is good enough."""
    best = curve.best()
    if best.verdict == "good":
        end = f'The smallest epsilon with the verdict "good" is {best.epsilon:g}.'
    else:
        end = 'No epsilon here has the verdict "good". More rows or fewer features help.'
    return f"{curve}\n\n{end}"
