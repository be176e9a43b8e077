"""Whom a federated run protects: one row, or one worker with all its rows.

The unit of a plan's budget says it, and "worker" is the one name of a unit that has a meaning of
its own here. So names that only look like it are refused, and so is an odometer that counts whole
workers while a run protects single rows.
"""

from __future__ import annotations

from typing import Any

from ..errors import AssumptionError, ParameterError
from ..privacy.budget import Unit
from ..privacy.mechanisms import (
    ClipQuantileRelease,
    FixedSizeGaussianRelease,
    GaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
)
from ..solvers import registry
from ..solvers.common.found_clip import FoundClipStepper
from ..solvers.engine import EnginePlan, Schedule

ROW, WORKER = "row", "worker"
_ANSWERED = (GaussianRelease, PoissonGaussianRelease, PrefixSumRelease, ClipQuantileRelease)


def rounds_of(plan: Any) -> Schedule:
    """Return the rounds of a plan; refuse what workers cannot answer.

    Raises:
        ParameterError: no rounds of noisy sums, samples of fixed size, or rounds on parts of the
            rows that come again: nobody would know which worker has which part.
    """
    if not isinstance(plan, EnginePlan):
        name = getattr(plan, "solver", type(plan).__name__)
        able = ", ".join(key for key, solver in registry().items() if solver.stepper is not None)
        raise ParameterError(
            f"a federated run needs a plan that asks for noisy sums round by round, got {name}. "
            f"Solvers that do: {able}."
        )
    if plan.finds_clip and not _asks_for_clip(plan):
        raise ParameterError(
            f"{plan.solver} clips here as the run goes on, and workers clip as the plan says. Give "
            "clip=; for noisy_sfw_lp follow_steps=False, for noisy_gd follow=False."
        )
    rounds = Schedule(plan.releases())
    once = rounds.single_epoch
    for release in rounds.releases:
        if isinstance(release, FixedSizeGaussianRelease):
            raise ParameterError(
                f"{plan.solver} draws samples of fixed size here, which workers cannot do "
                "without knowing of each other. Use solver='dp_sgd_poisson': each row has its coin."
            )
        if not isinstance(release, _ANSWERED):
            raise ParameterError(f"workers answer with sums, and a {release.kind} is none.")
        # A prefix sum takes each row in one of its rounds, and workers would answer all of them.
        whole = release.rows == (0, plan.n) and not isinstance(release, PrefixSumRelease)
        if not once and not whole:
            raise ParameterError(
                "workers answer once in a run, or in every round; this plan has rounds on parts of "
                "the rows that come again. Where a clip is found, give clip=; where there are "
                "batches, batches=1."
            )
    return rounds


def _asks_for_clip(plan: EnginePlan) -> bool:
    """Return whether the clip of a plan is found by counts, or follows them, as workers can."""
    solver = registry().get(plan.solver)
    stepper = None if solver is None else solver.stepper
    return isinstance(stepper, type) and issubclass(stepper, FoundClipStepper)


def check_public_clip(plan: EnginePlan) -> None:
    """Refuse integers, and whatever adds them, where the run finds the clip.

    Raises:
        ParameterError: it does.
    """
    if plan.finds_clip:
        raise ParameterError(
            f"{plan.solver} finds its clip here, and integers count multiples of a step that is "
            "agreed on before. Give clip=, or let a trusted coordinator add floats: "
            "trust='trusted_coordinator' without an encoding."
        )


def protected(plan: EnginePlan) -> str:
    """Return whom a federated run of the plan protects: "row", or "worker" with all its rows.

    The budget's unit says it: ``ApproxDP(1.0, 1e-8, unit=Unit(1, "worker"))``. The plan's n then
    counts workers.

    Raises:
        AssumptionError: the unit is a worker with several rows, which counts as one here; or its
            name is almost "worker".
        ParameterError: this is no plan of noisy sums.
    """
    rounds_of(plan)
    unit: Unit = plan.budget.unit
    _check_name(unit)
    if unit.name != WORKER:
        return ROW
    if unit.rows != 1:
        raise AssumptionError(
            f"a worker counts as one, whatever it holds, but the budget's unit has {unit.rows} "
            "rows. Pass unit=Unit(1, 'worker'), and the number of workers as n."
        )
    return WORKER


def check_odometer(plan: EnginePlan, odometer: Any) -> None:
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
