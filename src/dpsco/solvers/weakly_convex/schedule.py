"""Plans of both solvers: stages of rows of their own, and the regulariser of each.

A stage minimises the mean loss of its rows plus

    strength_k/2 |w - last answer|_p^2 + base/2 |w - centre|_p^2

in T noisy rounds; its answer is where the next one is centred. The first term is the stage's own,
the second belongs to the problem: its ridge (about the origin) and a ``strength`` (about a centre)
added up.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from ... import _validate
from ...data.queries import weight_vector
from ...errors import AssumptionError, ParameterError
from ...files.limits import MOST_RELEASES, MOST_ROUNDS
from ...geometry.norms import Lp
from ...privacy.mechanisms import GaussianRelease, gaussian_sigma
from ...task import Task
from ..base import Floats
from ..common.lp_constants import (
    gradient_clip,
    likely_distance,
    lp_constants,
    predicted_clip,
)
from ..common.options import checked_p
from ..engine import EnginePlan
from ..needs import Need
from . import rates

STRONG, PROX = "strongly_convex_lp", "prox_guided_weakly_convex"
MODES = ("direct", "localized", "reduction")
SCHEDULES = ("tuned", "paper")
FLOPS = 1e10  # products that the rounds of a stage may take
LEAST_ROUNDS = 60  # whatever they cost
INNER = 4  # rounds of a proximal step: more are hardly better, and worse on small blocks


@dataclass(frozen=True, kw_only=True)
class Plan(EnginePlan):
    """All that a run needs, from public facts only."""

    p: float  # weights are measured in l_p, 1 < p <= 2
    clip: float  # l2 bound on a row's gradient, enforced
    sizes: tuple[int, ...]  # rows of each stage, one stage after the other
    rounds: tuple[int, ...]  # noisy sums of each stage, over all of its rows
    sigmas: tuple[float, ...]  # noise on a sum of each stage, per coordinate
    strengths: tuple[float, ...]  # of each stage's own regulariser, about the answer before it
    strength: float  # of the problem's: beside its ridge, about the centre
    weak_convexity: float  # rho of a row's loss, in l_p
    centre: tuple[float, ...] | None = None  # None: the domain's
    answer: int | None = None  # after how many stages the answer is taken; None: after all

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        if not (isinstance(self.task, Task) and all(map(_listed, self._lists))):
            return  # said when types are checked
        if len({len(values) for values in self._lists}) > 1 or not self.sizes:
            raise ParameterError(
                "a plan needs rows, rounds, noise and a strength for each of its stages."
            )
        _validate.integer("the number of stages", len(self.sizes), at_most=MOST_RELEASES)
        for size, rounds in zip(self.sizes, self.rounds, strict=True):
            _validate.integer("sizes", size)
            _validate.integer("rounds", rounds, at_most=MOST_ROUNDS)
        if sum(self.sizes) > self.n:
            raise ParameterError(f"the stages ask for {sum(self.sizes)} rows of {self.n}.")
        if self.answer is not None:
            _validate.integer("answer", self.answer, at_least=0, at_most=len(self.sizes))
        for k in range(len(self.sizes)):
            _validate.positive("the strength of a stage", self.strengths[k] + self.base)
        check_p(self.p)
        if self.p < 2.0 and any(self.strengths) and self.base > 0.0:
            raise _two_centres()
        if self.centre is not None:
            checked_centre(self.task, self.centre)

    @property
    def _lists(self) -> tuple[tuple[float, ...], ...]:
        return self.sizes, self.rounds, self.sigmas, self.strengths

    @property
    def base(self) -> float:
        """The strength of the problem's own regulariser, its ridge included."""
        return self.strength + self.task.ridge

    @cached_property
    def base_centre(self) -> Floats:
        """Where the problem's own regulariser is least: a ridge pulls to the origin."""
        start = self.task.start if self.centre is None else np.array(self.centre)
        return start if self.base == 0.0 else start * (self.strength / self.base)

    def releases(self) -> tuple[GaussianRelease, ...]:
        """Return the noisy sums of each stage, on rows of its own."""
        stops = tuple(accumulate(self.sizes))
        return tuple(
            GaussianRelease(self.clip, sigma, rows=(stop - size, stop), count=rounds)
            for size, rounds, sigma, stop in zip(
                self.sizes, self.rounds, self.sigmas, stops, strict=True
            )
        )

    def place(self, t: int) -> tuple[int, int]:
        """Return the stage of a round, and its number there, from 0."""
        ends = tuple(accumulate(self.rounds))
        stage = bisect_right(ends, t)
        return stage, t - (ends[stage] - self.rounds[stage])

    def curvature(self, stage: int) -> float:
        """Return by how much a stage's problem is at least convex, relative to |.|_p^2/2."""
        whole = self.strengths[stage] + self.base
        return max(whole - self.weak_convexity / (self.p - 1.0), 0.5 * whole)

    def step_at(self, t: int) -> float:
        """Return the step of round t."""
        stage, t = self.place(t)
        return 2.0 / (self.curvature(stage) * (t + 1))

    @property
    def risk(self) -> float:
        """What the theorem says of the default schedule."""
        return risk(self.task) if self.solver == STRONG else prox_risk(self.task)


# -- strongly convex -------------------------------------------------------------------------------


def plan_strong(
    task: Task,
    *,
    mode: str = "direct",
    rounds: int | None = None,
    clip: float | None = None,
    p: float | None = None,
    strength: float | None = None,
    centre: Floats | None = None,
) -> Plan:
    """Return a plan of `strongly_convex_lp`.

    Args:
        mode: "direct": all rows in every round; "localized" and "reduction": the theory's.
        rounds: noisy sums, of each stage; by default as many as noise makes worthwhile.
        clip: l2 bound on a row's gradient.
        p: weights are measured in l_p, by default in l2; from 1 to 1 + 1/ln d p is raised to that.
        strength: of the regulariser strength/2 |w - centre|_p^2 that is added to the loss; by
            default none beside a ridge, and else what balances its bias against noise.
        centre: of that regulariser; by default the domain's.
    """
    _validate.choice("mode", mode, MODES)
    p = chosen_p(task, p)
    bound = gradient_clip(task, clip)
    middle = None if centre is None else checked_centre(task, centre)
    extra = _strength(task, p, bound) if strength is None else _validate.non_negative(
        "strength", strength
    )  # fmt: skip
    if not extra + task.ridge > 0.0:
        raise AssumptionError(
            "a strongly convex problem is needed: give strength above 0, or penalty=L2Penalty(...)."
        )
    fixed = None if rounds is None else _validate.integer("rounds", rounds)
    if mode != "direct" and p < 2.0:
        raise _two_centres()
    sizes, strengths = _stages(task, mode, bound, extra + task.ridge)
    return _noisy(
        STRONG,
        task,
        p=p,
        clip=bound,
        sizes=sizes,
        rounds=tuple(_rounds(task, size) if fixed is None else fixed for size in sizes),
        strengths=strengths,
        strength=extra,
        weak_convexity=lp_constants(task, p).weak_convexity,
        centre=middle,
    )


def _stages(
    task: Task, mode: str, clip: float, curvature: float
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the rows of each stage, and the strength of its own regulariser."""
    if mode == "direct":
        return (task.n,), (0.0,)
    multiplier, d = task.n / task.signal, task.n_weights
    distance = rates.likely_distance(task, clip, curvature)
    if mode == "localized":
        return rates.localized(task.n, d, multiplier, distance, clip)
    return rates.reduction(task.n, d, multiplier, distance, clip, curvature)


def _strength(task: Task, p: float, clip: float) -> float:
    """Return the default strength: none beside a ridge, else where bias and noise are equal."""
    kappa = 1.0 / (p - 1.0)
    weak = 2.0 * kappa * lp_constants(task, p).weak_convexity
    if task.ridge > weak:
        return 0.0
    distance = likely_distance(task, p)
    balanced = 2.0 * clip / distance * rates.uncertainty(task.n, task.n_weights, task.signal)
    return max(balanced * math.sqrt(kappa), weak - task.ridge)


def _rounds(task: Task, rows: int) -> int:
    """Return T: as many as noise makes worthwhile, while they are affordable."""
    most = min(max(FLOPS / (task.n * task.n_weights), LEAST_ROUNDS), rates.MOST)
    return rates.worthwhile_rounds(rows, task.n_weights, task.signal * rows / task.n, round(most))


# -- weakly convex ---------------------------------------------------------------------------------


def plan_prox(
    task: Task,
    *,
    blocks: int | None = None,
    rounds: int = INNER,
    clip: float | None = None,
    p: float | None = None,
    prox_multiplier: float = 1.0,
    schedule: str = "tuned",
    answer: int | None = None,
) -> Plan:
    """Return a plan of `prox_guided_weakly_convex`.

    Args:
        blocks: proximal steps R, each on a block of rows of its own.
        rounds: noisy sums of each.
        clip: l2 bound on a row's gradient.
        p: weights are measured in l_p, by default in l2; from 1 to 1 + 1/ln d p is raised to that.
        prox_multiplier: of the proximal weight; below 1 steps are longer, and the theorem is void.
        schedule: "tuned" or "paper", for the number of steps.
        answer: after how many steps the answer is taken, by default after the last. The theorem
            speaks of one drawn from 0 to R - 1: draw it beforehand, it needs no rows.
    """
    _validate.choice("schedule", schedule, SCHEDULES)
    p = chosen_p(task, p)
    bound = gradient_clip(task, clip)
    weak, lipschitz, diameter = prox_constants(task, p, bound)
    kappa = 1.0 / (p - 1.0)
    if blocks is None:
        first = math.sqrt(task.n * diameter * weak / (kappa * lipschitz))
        second = diameter * weak / (task.n_weights * lipschitz)
        tuned = rates.tuned_rounds(first, second, task.signal)
        blocks = tuned if schedule == "tuned" else rates.published_rounds(task, p, first, second)
        blocks = max(1, min(blocks, task.n // 2))
    if 2 * _validate.integer("blocks", blocks) > task.n:
        raise ParameterError(
            f"blocks must be at most n/2 = {task.n // 2}, two rows for each; got {blocks}.",
            parameter="blocks",
        )
    size = task.n // blocks
    multiplier = _validate.positive("prox_multiplier", prox_multiplier)
    return _noisy(
        PROX,
        task,
        p=p,
        clip=bound,
        sizes=(*([size] * (blocks - 1)), task.n - size * (blocks - 1)),
        rounds=(_validate.integer("rounds", rounds),) * blocks,
        strengths=(2.0 * weak * kappa * multiplier,) * blocks,
        strength=0.0,
        weak_convexity=weak,
        answer=None if answer is None else _validate.integer(
            "answer", answer, at_least=0, at_most=blocks
        ),
    )  # fmt: skip


def prox_constants(task: Task, p: float, clip: float) -> tuple[float, float, float]:
    """Return rho, L0 and the diameter, in l_p.

    A convex loss is weakly convex with any rho; L0/D makes a proximal step as long as is useful.
    """
    constants, diameter = lp_constants(task, p), task.problem.domain.diameter(task.n_weights, Lp(p))
    lipschitz = min(constants.lipschitz, clip)  # the dual norm is at most the Euclidean one
    return constants.weak_convexity or lipschitz / diameter, lipschitz, diameter


# -- what both share -------------------------------------------------------------------------------


def _noisy(solver: str, task: Task, **fields: Any) -> Plan:
    """Return the plan with the least noise: every stage has rows of its own, and the whole budget.

    Stages of equally many rows and rounds share one calibration.
    """
    known: dict[tuple[int, int], float] = {}
    for size, rounds in zip(fields["sizes"], fields["rounds"], strict=True):
        if (size, rounds) not in known:
            known[size, rounds] = gaussian_sigma(
                task.budget, bound=fields["clip"], rows=(0, size), count=rounds
            )
    pairs = zip(fields["sizes"], fields["rounds"], strict=True)
    return Plan(solver=solver, task=task, sigmas=tuple(known[pair] for pair in pairs), **fields)


def chosen_p(task: Task, p: float | None) -> float:
    """Return p within (1, 2]: 2 unless asked, and no p below 1 + 1/ln d, where nothing is gained.

    Raises:
        ParameterError: p is outside of [1, 2], or there are too few weights for one below 2.
    """
    d = task.n_weights
    value = 2.0 if p is None else checked_p(p)
    if value == 2.0:
        return value
    if d <= 2:
        raise ParameterError(
            f"p must be 2 for {d} weights, got {value!r}: 1 + 1/ln d, the least that is of use, "
            "exceeds 2 there.",
            parameter="p",
        )
    return max(value, 1.0 + 1.0 / math.log(d))


def check_p(p: float) -> None:
    """Refuse a p that `chosen_p` never returns."""
    if not 1.0 < _validate.real("p", p) <= 2.0:
        raise ParameterError(f"p must be above 1 and at most 2, got {p!r}.", parameter="p")


def checked_centre(task: Task, centre: object) -> tuple[float, ...]:
    """Return a public centre as numbers."""
    vector = weight_vector("centre", centre)  # type: ignore[arg-type]  # it checks
    if len(vector) != task.n_weights:
        raise ParameterError(
            f"centre must have {task.n_weights} numbers, got {len(vector)}.", parameter="centre"
        )
    return tuple(vector.tolist())


def risk(task: Task) -> float:
    """Return the bias of the default strength, and (1/n + d/z^2) L^2 over the curvature."""
    p = chosen_p(task, None)
    clip = predicted_clip(task)
    strength = _strength(task, p, clip)
    spread = rates.uncertainty(task.n, task.n_weights, task.signal) ** 2
    return 2.0 * clip**2 * spread / (strength + task.ridge) + 0.5 * strength * likely_distance(
        task, p
    ) ** 2  # fmt: skip


def prox_risk(task: Task) -> float:
    """Return L0 D (n^(-1/4) + (d/z^2)^(1/6)): Theorem 16 for rho = L0/D."""
    p = chosen_p(task, None)
    _, lipschitz, diameter = prox_constants(task, p, predicted_clip(task))
    noise = math.pow(task.n_weights / task.signal**2, 1.0 / 6.0)
    return lipschitz * diameter * (math.pow(task.n, -0.25) + noise)


def gradients(task: Task) -> float:
    """Return how many gradients of a row `strongly_convex_lp` takes by default."""
    return float(task.n * _rounds(task, task.n))


def prox_gradients(task: Task) -> float:
    """Return the same of `prox_guided_weakly_convex`."""
    return float(task.n * INNER)


def _listed(values: object) -> bool:
    return isinstance(values, tuple)


def _two_centres() -> AssumptionError:
    return AssumptionError(
        "below p = 2 two regularisers about different centres have no exact step together. Pass "
        "p=2.0, or mode='direct' without a ridge."
    )


def _weak(task: Task) -> str:
    if math.isfinite(task.constants.weak_convexity):
        return ""
    return (
        f"it needs a loss with a weak convexity constant, and {task.problem.loss.name} states "
        "none (Tukey, GemanMcClure, Welsch, Sigmoid and PhaseRetrieval do)"
    )


WEAK = Need("weakly convex", _weak)
