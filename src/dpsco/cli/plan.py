"""``plan``: what a fit will do and cost, before any data; with several epsilons, a trade-off."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import (
    PUBLIC_EXAMPLES,
    TOO_NOISY,
    add_budget,
    add_count,
    add_force,
    add_json,
    add_label_facts,
    add_model,
    add_public_facts,
    add_solver,
    add_units,
    command,
    expected,
    finite,
)
from .tradeoff import add_tradeoff, compare, is_tradeoff

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
        "--option rounds=50 -o plan.json"
        "\ndpsco plan --schema schema.json --n 50000 --epsilon 0.1 0.3 1 3 --svg tradeoff.svg",
    )
    add_public_facts(plan)
    add_budget(plan, required=True, several=True)
    add_model(plan)
    add_label_facts(plan)
    add_json(plan)
    add_solver(plan)
    add_units(plan)
    add_count(plan)
    plan.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="PLAN",
        help="write the plan to a file, for `fit --plan`",
    )
    add_tradeoff(plan)
    add_force(plan)
    plan.set_defaults(run=_plan)


def _plan(options: argparse.Namespace, session: Session) -> int:
    """Print one plan, or compare several budgets."""
    if is_tradeoff(options):
        return compare(options, session)
    (options.epsilon,) = options.epsilon
    return _plan_one(options, session)


def _plan_one(options: argparse.Namespace, session: Session) -> int:
    from ..models.tables import plan_text
    from .config import from_options, make_plan
    from .outputs import Outputs

    model = from_options(options)
    with Outputs(force=options.force, inputs=[options.schema]) as outputs:
        session.outputs = outputs
        draft = outputs.reserve(options.output)
        planned = make_plan(options, model, options.n)
        outputs.text(draft, plan_text(planned))
        outputs.commit()
    record = _record(options, planned)
    code = TOO_NOISY if record["verdict"] == "hopeless" else 0
    if options.json:
        print(json.dumps(record, indent=2))
        return code
    print("\n".join(_lines(planned, model.config.name, record)))
    if options.output is not None:
        print(f"plan: {options.output}")
    return code


def _record(options: argparse.Namespace, planned: ModelPlan) -> dict[str, Any]:
    """Return a plan with what is to be expected of it, as JSON values."""
    from ..privacy.accounting.attack_roc import Odds
    from ..privacy.budget import budget_warnings

    plan, count = planned.fit, planned.count
    outlook = expected(options, plan.task, plan.solver)
    return {
        "solver": plan.solver,
        "rounds": plan.total_rounds,
        "noise": _range(line.sigma for line in plan.schedule() if line.sigma),
        "predicted_excess": finite(outlook.excess),
        "excess_band": outlook.to_json()["band"],
        "zero_model_loss": finite(plan.task.constants.value_at_zero),
        "outlook": outlook.sentence,
        "verdict": outlook.verdict,
        "attack": Odds(planned.cost).bound.to_json(),
        "warnings": budget_warnings(plan.budget, plan.n),
        "count_rows": None if count is None else count.sigma,
        "units": planned.units,
        "units_price": _units_price(planned),
        "plan": json.loads(plan.to_json()),
    }


def _lines(planned: ModelPlan, name: str, record: dict[str, Any]) -> list[str]:
    """Return a plan for people: the outlook and what its numbers mean, then the details."""
    plan, lines = planned.fit, [record["outlook"]]
    if record["predicted_excess"] is not None:
        lines.append(
            "That is the excess risk: how far the mean loss lies above that of the best linear "
            "model without privacy. Eight of ten real tables lay in the range."
        )
    lines.append(f"Proven: {_attack(record['attack'])}.")
    lines += [f"note: {sentence}" for sentence in record["warnings"]]
    rounds = "1 round" if plan.total_rounds == 1 else f"{plan.total_rounds:,} rounds"
    lines += ["", f"plan: a {name} model by {plan.solver}, {rounds}"]
    details = str(plan).splitlines()[1:]  # the first line is the problem as Python has it
    lines += [line for line in details if not line.startswith("  theory ")]
    lines += [f"  {line}" for line in _units(planned)]
    if planned.count is not None:
        lines.append(f"  {planned.count}; the fit leaves room for it")
    elif planned.reason:
        lines.append(f"  rows are not counted: {planned.reason}")
    return lines


def _attack(record: dict[str, float]) -> str:
    """Return the bound on attacks in words."""
    from ..privacy.accounting.attack_roc import AttackBound

    return str(AttackBound(record["attack_accuracy"], record["detection_at_1_percent"]))


def _units(planned: ModelPlan) -> list[str]:
    """Return in which units rows are measured, and what finding them takes."""
    from ..models.units import FitInUnits

    if not isinstance(planned.shared, FitInUnits):
        return [f"units: {planned.units}"]
    return str(replace(planned.shared.units, count=None)).splitlines()  # the count has its line


def _units_price(planned: ModelPlan) -> dict[str, Any] | None:
    """Return what finding units takes: its part of squared mu, and its noise by release."""
    from ..models.units import FitInUnits

    if not isinstance(planned.shared, FitInUnits):
        return None
    units = planned.shared.units
    names = [stage.name for stage in units.stages]
    return {
        "share": units.search.total_share,
        "noise": dict(zip(names, units.sigmas, strict=True)),
    }


def _range(values: Iterable[float]) -> dict[str, float] | None:
    """Return the least and the greatest of some values."""
    numbers = list(values)
    return {"least": min(numbers), "most": max(numbers)} if numbers else None
