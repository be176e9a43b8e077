"""``plan``: what a fit will do and cost, before any data."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import (
    PUBLIC_EXAMPLES,
    add_budget,
    add_count,
    add_force,
    add_json,
    add_model,
    add_public_facts,
    add_solver,
    command,
    finite,
)

if TYPE_CHECKING:
    from ..models.plan import ModelPlan
    from .session import Session


def add(commands: Any) -> None:
    """Add the command."""
    plan = command(
        commands,
        "plan",
        "say what a fit will do and cost, without data",
        examples=PUBLIC_EXAMPLES.format("plan")
        + "\ndpsco plan --schema schema.json --n 50000 --epsilon 1 --solver noisy_gd "
        "--option rounds=50 -o plan.json",
    )
    add_public_facts(plan)
    add_budget(plan, required=True)
    add_model(plan)
    add_json(plan)
    add_solver(plan)
    add_count(plan)
    plan.add_argument("-o", "--output", type=Path, metavar="PLAN", help="file for `fit --plan`")
    add_force(plan)
    plan.set_defaults(run=_plan)


def _plan(options: argparse.Namespace, session: Session) -> int:
    from .config import from_options, make_plan
    from .outputs import Outputs

    model = from_options(options)
    with Outputs(force=options.force, inputs=[options.schema]) as outputs:
        session.outputs = outputs
        draft = outputs.reserve(options.output)
        planned = make_plan(options, model, options.n)
        outputs.text(draft, planned.fit.to_json() + "\n")
        outputs.commit()
    record = _record(planned)
    if options.json:
        print(json.dumps(record, indent=2))
        return 0
    print("\n".join(_lines(planned, model.config.name, record)))
    if options.output is not None:
        print(f"plan: {options.output}")
    return 0


def _record(planned: ModelPlan) -> dict[str, Any]:
    """Return a plan with what is to be expected of it, as JSON values."""
    from ..fit.choose import outlook, predict
    from ..privacy.budget import budget_warnings

    plan, count = planned.fit, planned.counted
    risk = predict(plan.task, plan.solver)
    return {
        "solver": plan.solver,
        "rounds": plan.total_rounds,
        "noise": _range(line.sigma for line in plan.schedule() if line.sigma),
        "predicted_excess": finite(risk),
        "zero_model_loss": finite(plan.task.constants.value_at_zero),
        "outlook": outlook(plan.task, risk).sentence,
        "warnings": budget_warnings(plan.budget, plan.n),
        "count_rows": None if count is None else count.count.sigma,
        "plan": json.loads(plan.to_json()),
    }


def _lines(planned: ModelPlan, name: str, record: dict[str, Any]) -> list[str]:
    """Return a plan for people: the outlook, one number and what it means, then the details."""
    plan, risk = planned.fit, record["predicted_excess"]
    lines = [record["outlook"]]
    if risk is not None:
        lines += [
            f"predicted excess risk: {risk:.3g}. By so much the mean loss is expected to exceed "
            "that of the best model.",
            "This rests on public facts alone, ranks solvers, and is no promise.",
        ]
    lines += [f"note: {sentence}" for sentence in record["warnings"]]
    rounds = "1 round" if plan.total_rounds == 1 else f"{plan.total_rounds:,} rounds"
    lines += ["", f"plan: a {name} model by {plan.solver}, {rounds}"]
    details = str(plan).splitlines()[1:]  # the first line is the problem as Python has it
    lines += [line for line in details if not line.startswith("  risk ")]
    if planned.counted is not None:
        lines.append(f"  {planned.counted.count}; the fit leaves room for it")
    elif planned.reason:
        lines.append(f"  rows are not counted: {planned.reason}")
    return lines


def _range(values: Iterable[float]) -> dict[str, float] | None:
    """Return the least and the greatest of some values."""
    numbers = list(values)
    return {"least": min(numbers), "most": max(numbers)} if numbers else None
