"""What all sides of a run hold in common: a plan, checked by each of them for itself.

A plan is public and decided before any row is read, so it is what a worker consents to: its bounds,
its clip, whom it protects. It reaches everybody once, before the run; a request then only names it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from .. import _validate
from ..data.gradient_norms import GradientNorms, TrackedGradient
from ..data.queries import (
    ClippedCoordinates,
    ClippedDifference,
    ClippedGradient,
    InUnits,
    Query,
)
from ..errors import AssumptionError, ParameterError
from ..fit.checkpoint.checkpoint import identity
from ..privacy.budget import Unit
from ..privacy.mechanisms import PoissonGaussianRelease, PrefixSumRelease
from ..solvers import get
from ..solvers.base import check_cost
from ..solvers.engine import EnginePlan, Stepper
from .fixed_point import FixedPoint
from .messages import RowQuery
from .protection import ROW, WORKER, check_public_clip, protected, rounds_of
from .trust import COINS, Trust

GRADIENTS = (
    ClippedGradient,
    ClippedDifference,
    ClippedCoordinates,
)  # the queries that a message can carry
FOUND = (GradientNorms, InUnits, TrackedGradient)  # and those of a plan that finds its clip


def checked(plan: Any) -> EnginePlan:
    """Return the plan; refuse one that is not made of noisy sums, or exceeds its budget.

    Raises:
        AssumptionError: the solver's theorem does not cover the problem, the plan costs more than
            its budget, or it protects workers by group privacy.
        ParameterError: the solver does not ask for noisy sums, or the plan is not its own.
    """
    rounds_of(plan)
    engine_plan: EnginePlan = plan
    solver = get(engine_plan.solver)
    if solver.stepper is None or not isinstance(plan, solver.plan_type):
        raise ParameterError(
            f"{engine_plan.solver} does not run a {type(plan).__qualname__} in rounds. Make the "
            "plan with dpsco.plan(...)."
        )
    reasons = solver.refusals(engine_plan.task)
    if reasons:
        raise AssumptionError(f"{engine_plan.solver} does not apply: {'; '.join(reasons)}.")
    answered = FOUND if engine_plan.finds_clip else GRADIENTS
    question = type(_query(engine_plan, 0))
    if question not in answered:
        raise ParameterError(
            f"workers answer with clipped gradients, and {engine_plan.solver} asks for "
            f"{question.__name__}. Give clip=."
        )
    check_cost(engine_plan)
    if protected(engine_plan) == WORKER and engine_plan.finds_clip:
        raise ParameterError(
            f"{engine_plan.solver} finds its clip from the gradients of rows, and here a worker's "
            "mean is clipped as one vector. Give clip=."
        )
    if not isinstance(_query(engine_plan, engine_plan.total_rounds - 1), answered):
        raise AssumptionError(
            "workers are asked for gradients alone, and the plan's last rounds ask for something "
            "else. Leave out refit."
        )
    return engine_plan


def agreed_encoding(
    plan: EnginePlan, trust: Trust, encoding: Any, *, helpers: int
) -> FixedPoint | None:
    """Return the encoding; refuse one that does not fit the plan, the trust model or the helpers.

    Raises:
        ParameterError: it is no encoding, its sums do not fit, or sums are to be masked without it.
    """
    if encoding is not None:
        if not isinstance(encoding, FixedPoint):
            raise ParameterError(
                f"encoding must be a FixedPoint or None, got {_validate.shown(encoding)}.",
                parameter="encoding",
            )
        return encoding.check(plan, helpers=helpers)
    if trust.masked:
        check_public_clip(plan)
        raise ParameterError(
            f"{trust.value} adds integers: pass "
            f"encoding=FixedPoint.choose(plan, helpers={helpers})."
        )
    return None


def helped_encoding(
    plan: EnginePlan, trust: Trust, encoding: Any, helpers: int
) -> FixedPoint | None:
    """Return the encoding of a run with so many noise helpers; refuse what does not fit together.

    Raises:
        ParameterError: there are helpers without their trust model, or the other way round; or
            the encoding does not fit.
    """
    count = _validate.integer("helpers", helpers, at_least=0)
    if (count > 0) != (trust is Trust.NOISE_HELPERS):
        raise ParameterError(
            f"trust='noise_helpers' goes with helpers=1 or more, and the others with none; got "
            f"{trust.value!r} and {count}."
        )
    return agreed_encoding(plan, trust, encoding, helpers=count)


def stepper_of(plan: EnginePlan) -> Stepper:
    """Return a new stepper of a checked plan."""
    make = get(plan.solver).stepper
    assert make is not None
    return make(plan)


def query_of(plan: EnginePlan, round: int) -> RowQuery:
    """Return what a round asks for, but for its weights and the unit of a clip that is found.

    The loss, how a row is clipped, and the grid of a search follow from the plan and the number of
    the round, so no message carries them.
    """
    query = _query(plan, round)
    assert isinstance(query, (*GRADIENTS, *FOUND))
    return query


def follows_unit(plan: EnginePlan, round: int, unit: float) -> bool:
    """Return whether a unit is what the round makes of some clip of the plan's grid.

    Where the clip follows the gradients it may be any: noisy counts, which workers do not see,
    decide it. A row adds at most what the noise covers whatever the unit is.
    """
    query, search = _query(plan, round), getattr(plan, "search", None)
    if isinstance(query, TrackedGradient) or search is None:
        return isinstance(query, TrackedGradient)
    whole = _query(plan, round, clip=1.0)  # units are proportional to the clip
    assert isinstance(whole, InUnits)
    with np.errstate(all="ignore"):
        near = np.argmin(np.abs(np.log(np.asarray(search.grid) / (unit / whole.unit))))
    nearest = _query(plan, round, clip=float(search.grid[near]))
    return isinstance(nearest, InUnits) and nearest.unit == unit


def _query(plan: EnginePlan, round: int, *, clip: float | None = None) -> Query:
    """Return what a round asks for, at the start's weights, after a clip was found."""
    stepper = stepper_of(plan)
    if clip is not None:
        stepper.step(clip)
    stepper.round = round
    return stepper.query()


def fingerprint(plan: EnginePlan) -> str:
    """Return 32 hexadecimal digits that tell plans apart, as checkpoints do.

    Of a user's own code in a plan the names count; of everything else every bit does.

    Raises:
        ParameterError: this is no plan of noisy sums.
    """
    rounds_of(plan)
    text = identity(plan)
    return hashlib.blake2b(text.encode(), digest_size=16, person=b"dpsco plan").hexdigest()


def enforced(plan: EnginePlan, encoding: FixedPoint | None) -> tuple[str, ...]:
    """Return what the code of all sides makes true, in sentences for the certificate."""
    unit, sentences = protected(plan), list(plan.enforced)
    clip = max(release.bound for release in rounds_of(plan).releases)
    if unit == WORKER:
        sentences = [
            *plan.problem.bounds.enforced,
            f"a worker's mean gradient, or difference of two, has l2 norm at most {clip:g}, "
            "by clipping",
        ]
    if encoding is not None:
        sentences.append(
            f"a {unit} adds integers of l2 norm at most {clip:g}/{encoding.step:g}, exactly, "
            f"modulo 2^{encoding.bits}"
        )
    whole = f"each round's sum leaves once, divided by the planned number of {unit}s, whoever drops"
    return (*sentences, f"{whole} out")


def trusted(plan: EnginePlan, trust: Trust, encoding: FixedPoint | None) -> tuple[str, ...]:
    """Return what is taken on trust besides the plan's own, in sentences for the certificate."""
    rounds, unit = rounds_of(plan), plan.budget.unit
    sentences = list(trust.trusted(protected(plan), once=rounds.single_epoch))
    if any(isinstance(release, PoissonGaussianRelease) for release in rounds.releases):
        sentences.append(COINS.format(unit=protected(plan)))
    if protected(plan) == ROW and unit != Unit():
        rows = "one row" if unit.rows == 1 else f"{unit.rows} rows"
        sentences.append(f"a {unit.name} has at most {rows} in the run, over all workers together")
    if encoding is None:
        sentences.append(
            "answers are added by the coordinator, or else pairwise by an engine that leaves out "
            "those longer than a round's clipped sum can be: floats drown in larger ones"
        )
    correlated = any(isinstance(release, PrefixSumRelease) for release in rounds.releases)
    if trust is Trust.NOISE_HELPERS and correlated:
        sentences.append(
            "towards the coordinator: the helpers' correlated noise is computed in float64 before "
            "it is rounded to the integers of the sums; its law is exact up to rounding (no proof)"
        )
    return tuple(sentences)
