"""``plan``, ``recommend``, ``rounds`` and ``solvers``: what can be known before any data."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from .arguments import (
    add_budget,
    add_calibration,
    add_force,
    add_json,
    add_model,
    add_public_facts,
    add_solver,
    command,
)
from .counting import add_count, make_planned

if TYPE_CHECKING:
    from ..solvers.base import BasePlan

_FACTS = """
dpsco {0} --schema schema.json --n 50000 --epsilon 1
dpsco {0} --d 20 --feature-norm 1 --classes 2 --n 50000 --epsilon 1
dpsco {0} --d 8 --feature-norm 1 --label-range 0 500000 --model huber --n 20000 --epsilon 0.5"""


def add(commands: Any) -> None:
    """Add the commands."""
    plan = command(
        commands,
        "plan",
        "say what a fit will do and cost, without data",
        examples=_FACTS.format("plan")
        + "\ndpsco plan --schema schema.json --n 50000 --epsilon 1 --solver noisy_gd "
        "--option rounds=50 -o plan.json",
    )
    recommend = command(
        commands,
        "recommend",
        "rank the solvers by predicted risk, without data",
        examples=_FACTS.format("recommend"),
    )
    for parser in (plan, recommend):
        add_public_facts(parser)
        add_budget(parser, required=True)
        add_model(parser)
        add_json(parser)
    add_solver(plan)
    add_count(plan)
    add_calibration(recommend)
    plan.add_argument("-o", "--output", type=Path, metavar="PLAN", help="file for `fit --plan`")
    add_force(plan)
    plan.set_defaults(run=_plan)
    recommend.set_defaults(run=_recommend)

    _add_rounds(commands)
    solvers = command(
        commands,
        "solvers",
        "list the solvers, or describe one",
        examples="dpsco solvers\ndpsco solvers noisy_gd",
    )
    solvers.add_argument("key", nargs="?", metavar="KEY", help="a solver's key")
    solvers.add_argument("--json", action="store_true", help="print a list of records as JSON")
    solvers.set_defaults(run=_solvers)


def _add_rounds(commands: Any) -> None:
    """Add the forecast of what fewer rounds cost."""
    rounds = command(
        commands,
        "rounds",
        "say what fewer rounds of a single pass cost, without data",
        examples="""
dpsco rounds --schema schema.json --n 50000 --epsilon 1
dpsco rounds --schema schema.json --data private.parquet --epsilon 1 --rounds 8 32
dpsco rounds --d 20 --feature-norm 1 --classes 2 --n 50000 --epsilon 1 --solver acc_srgd""",
    )
    add_public_facts(rounds, data=True)
    add_budget(rounds, required=True)
    add_model(rounds)
    add_json(rounds)
    group = rounds.add_argument_group("rounds")
    group.add_argument(
        "--rounds", type=int, nargs="+", metavar="T", help="numbers of rounds (default 1, 2, 4, ..)"
    )
    group.add_argument(
        "--solver", nargs="+", metavar="KEY", help="solvers of one pass (default: all of them)"
    )
    group.add_argument(
        "--population-smoothness",
        type=float,
        metavar="M",
        help="a public bound on the smoothness of the mean loss",
    )
    rounds.set_defaults(run=_rounds)


def _plan(options: argparse.Namespace) -> int:
    from ..fit.choose import choose, outlook, predict
    from .outputs import Outputs
    from .request import encoder_of, from_options, warnings

    request = from_options(options)
    with Outputs(force=options.force, inputs=[options.schema]) as outputs:
        draft = outputs.reserve(options.output)
        planned = make_planned(options, request, options.n, encoder_of(options))
        plan = planned.fit
        risk, best = predict(plan.task, plan.solver), choose(plan.task)
        record = {
            "solver": plan.solver,
            "recommended": best,
            "rounds": plan.total_rounds,
            "noise": _spread(found.sigma for found in plan.schedule() if found.sigma),
            "predicted_excess": _number(risk),
            "zero_model_loss": _number(plan.task.constants.value_at_zero),
            "outlook": outlook(plan.task, risk).sentence,
            "warnings": warnings(plan),
            "count_rows": None if planned.whole is None else planned.whole.count.sigma,
            "plan": json.loads(plan.to_json()),
        }
        outputs.text(draft, plan.to_json() + "\n")
        outputs.commit()
    if options.json:
        print(json.dumps(record, indent=2))
        return 0
    print("\n".join([*_lines(plan, request.setup.kind, risk, record), *planned.lines()]))
    if best != plan.solver:
        print(f"recommended solver: {best} (see `dpsco recommend`)")
    if options.output is not None:
        print(f"plan: {options.output}")
    return 0


def _lines(plan: BasePlan, kind: str, risk: float, record: dict[str, Any]) -> list[str]:
    """Return a plan for people: the verdict, one number and what it means, then the details."""
    lines = [record["outlook"]]
    if math.isfinite(risk):
        lines += [
            f"predicted excess risk: {risk:.3g}. By so much the mean loss is expected to exceed "
            "that of the best model.",
            "This rests on public task alone, ranks solvers, and is no promise.",
        ]
    lines += [f"note: {note}" for note in record["warnings"]]
    rounds = "1 round" if plan.total_rounds == 1 else f"{plan.total_rounds:,} rounds"
    lines += ["", f"plan: a {kind} model by {plan.solver}, {rounds}"]
    details = str(plan).splitlines()[1:]  # the first line is the problem as Python has it
    return [*lines, *(line for line in details if not line.startswith("  risk "))]


def _number(value: float) -> float | None:
    """Return a number as JSON has it: null where it is not finite."""
    return value if math.isfinite(value) else None


def _spread(values: Iterable[float]) -> dict[str, float] | None:
    """Return the least and the greatest of some values."""
    found = list(values)
    return {"least": min(found), "most": max(found)} if found else None


def _recommend(options: argparse.Namespace) -> int:
    from ..fit.choose import outlook, recommend
    from ..task import Task
    from .request import budget, from_options

    request = from_options(options)
    task = Task(
        request.setup.problem(),
        options.n,
        request.d,
        budget(options, options.n),
        options.calibration,
    )
    found = recommend(task)
    best = found.best  # refuses where none applies
    sentence = outlook(task, found.ranked[0].risk).sentence
    if options.json:
        record = found.to_json()
        for candidate in record["ranked"]:
            candidate["risk"] = _number(candidate["risk"])
        print(json.dumps({"best": best, "outlook": sentence, **record}, indent=2))
    else:
        print(f"{found}\n\nrecommended: {best}. {sentence}")
    return 0


def _rounds(options: argparse.Namespace) -> int:
    from ..fit.forecast import forecast
    from .request import budget, from_options, in_flags

    request = from_options(options)
    n = _rows(options)
    with in_flags():
        found = forecast(
            request.setup.problem(),
            n,
            request.d,
            budget(options, n),
            rounds=options.rounds,
            solvers=options.solver,
            population_smoothness=options.population_smoothness,
        )
    print(json.dumps(found.to_json(), indent=2) if options.json else found)
    return 0


def _rows(options: argparse.Namespace) -> int:
    """Return the number of rows, which is public: as given, or as a file has them."""
    if (options.n is None) == (options.data is None):
        raise ParameterError("give the number of rows with --n, or a table with --data; not both.")
    if options.data is None:
        return int(options.n)
    from ..data.schema.schema import Schema
    from .tables import open_file

    if options.schema is None:
        raise ParameterError("--data needs --schema FILE, which says how the table is read.")
    return open_file(options.data, Schema.load(options.schema), label=True).rows


def _solvers(options: argparse.Namespace) -> int:
    from ..solvers import listing

    if options.json:
        print(json.dumps(listing.records(options.key), indent=2))
    else:
        print(listing.table() if options.key is None else listing.page(options.key))
    return 0
