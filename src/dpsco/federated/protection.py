"""Whom a federated run protects: one row, or one worker with all its rows.

The unit of a plan's budget says it, and "worker" is the one name of a unit that has a meaning of
its own here. So names that only look like it are refused, and so is an odometer that counts whole
workers while a run protects single rows.
"""

from __future__ import annotations

from typing import Any

from ..errors import AssumptionError, ParameterError
from ..privacy.budget import Unit
from ..solvers import get, registry
from ..solvers.common.batches import BatchPlan

ROW, WORKER = "row", "worker"


def batch_plan(plan: Any) -> BatchPlan:
    """Return the plan; refuse what asks for anything but one sum a batch.

    Raises:
        ParameterError: it is no such plan.
    """
    if isinstance(plan, BatchPlan):
        return plan
    name = getattr(plan, "solver", type(plan).__name__)
    able = ", ".join(key for key, solver in registry().items() if solver.stepper is not None)
    raise ParameterError(
        f"a federated run needs a plan that asks for one sum a batch, got {name}. Solvers that "
        f"do: {able}."
    )


def solver_plan(plan: Any) -> BatchPlan:
    """Return the plan; refuse it also if its solver does not run it in rounds.

    Raises:
        ParameterError: it is no plan of one sum a batch, or belongs to another solver.
    """
    found = batch_plan(plan)
    solver = get(found.solver)
    if solver.stepper is None or not isinstance(found, solver.plan_type):
        raise ParameterError(
            f"{found.solver} does not run a {type(found).__qualname__} in rounds. Make the plan "
            "with dpsco.plan(...)."
        )
    return found


def protected(plan: BatchPlan) -> str:
    """Return whom a federated run of the plan protects: "row", or "worker" with all its rows.

    The budget's unit says it: ``ApproxDP(1.0, 1e-8, unit=Unit(1, "worker"))``. The plan's n then
    counts workers.

    Raises:
        AssumptionError: the unit is a worker with several rows, which counts as one here; or its
            name is almost "worker".
        ParameterError: this is no plan of one sum a batch.
    """
    unit: Unit = batch_plan(plan).budget.unit
    _check_name(unit)
    if unit.name != WORKER:
        return ROW
    if unit.rows != 1:
        raise AssumptionError(
            f"a worker counts as one, whatever it holds, but the budget's unit has {unit.rows} "
            "rows. Pass unit=Unit(1, 'worker'), and the number of workers as n."
        )
    return WORKER


def check_odometer(plan: BatchPlan, odometer: Any) -> None:
    """Refuse an odometer of whole workers for a run that protects single rows.

    It would pay for a worker's many rows at the price of one. An odometer of rows may pay for a
    run that protects workers: that one is dearer than need be.

    Raises:
        AssumptionError: the odometer counts workers, and the plan does not.
    """
    unit = getattr(getattr(odometer, "budget", None), "unit", None)
    if not isinstance(unit, Unit):
        return
    _check_name(unit)
    if unit.name == WORKER and protected(plan) != WORKER:
        raise AssumptionError(
            "the odometer's budget protects whole workers, and this plan single rows: a worker "
            "with many of them would be paid for as one. Plan with unit=Unit(1, 'worker') and the "
            "number of workers as n, or pay from an odometer of rows."
        )


def _check_name(unit: Unit) -> None:
    """Refuse a name that reads like "worker" and would protect one row."""
    if unit.name != WORKER and unit.name.strip().casefold() in (WORKER, f"{WORKER}s"):
        raise AssumptionError(
            f"the budget's unit is named {unit.name!r}, which would protect one row. Pass "
            "unit=Unit(1, 'worker') to protect whole workers, or another name for rows."
        )
