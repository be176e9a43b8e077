"""One pass over disjoint batches: noisy SGD, and DP-FTRL on noisy prefix sums of the gradients.

Paper      Choquette-Choo, Ganesh, Thakurta 2025, Secs 2.1 and 2.2; Kairouz, McMahan, Song, Thakkar,
           Thakurta, Xu 2021 (arXiv:2103.00039) for DP-FTRL; Zamani, Glineur 2023 (arXiv:2307.11134)
           for the last iterate of linearly falling steps.
Guarantee  Every row enters one batch. dp_sgd_single_epoch: one Gaussian release per batch, mu =
           sensitivity / sigma by parallel composition. dp_ftrl: one prefix-sum release, mu =
           sensitivity column_norm / sigma. Clipping alone is relied upon: any loss, any step.
Rate       E[F(w) - F*] <= R G sqrt(1/T + d (T z/n)^2/T) and R G sqrt(2/T + 2 sqrt(d) e z/n), with
           z = sensitivity/(G mu) and e the largest prefix error; `risk` takes the best T.
Needs      rows bounded in l2, n public. Convexity for the rate only.
Symbols    T, B_t, gamma or 1/lambda, R, L -> rounds, batches(), step, distance, clip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .. import _validate
from ..data.queries import ClippedGradient
from ..errors import ParameterError
from ..privacy.mechanisms import gaussian_sigma, prefix_sum_sigma
from ..privacy.mechanisms.prefix_sum.mechanism import PrefixMechanism
from ..task import Task
from . import needs
from .base import Factors, Floats, Measured, SingleEpoch, Solver
from .common.batches import BatchPlan, check_rounds, chosen_mechanism, landau, largest_error
from .common.clips import descent_clip
from .engine import Stepper

SGD, FTRL = "dp_sgd_single_epoch", "dp_ftrl"
FEWEST, MOST = 6, 64  # batches of SGD by default: each one more adds noise
NOISE_SAFETY = 4.0  # how often noise counts when rounds are chosen: few are safer; measured
FTRL_ROUNDS = 128  # batches of DP-FTRL by default: more change little, its noise is correlated
FTRL_NEGLIGIBLE = 0.1  # of the loss at the start: DP-FTRL bears more noise before a cut pays
STEP_MULTIPLIER = {
    SGD: 1.0,
    FTRL: 3.0,
}  # times the theory's step for gradients of G/sqrt(d); measured


@dataclass(frozen=True, kw_only=True)
class Plan(BatchPlan):
    """All that a run needs, from public facts only."""

    step: float  # step size for a batch's mean gradient; dp_ftrl: 1/lambda; falling: their mean
    falling: bool  # dp_sgd_single_epoch: whether steps fall linearly towards 0
    tail: int  # how many of the last iterates are averaged

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        super().__post_init__()
        check_rounds(self.rounds, self.n)
        _validate.positive("step", self.step)
        _validate.store(self, "falling", _validate.flag("falling", self.falling))
        _tail(self.tail, self.rounds)

    def step_at(self, t: int) -> float:
        """Return the step of round t."""
        share = 2.0 * (self.rounds - t) / (self.rounds + 1) if self.falling else 1.0
        return self.step * share

    @property
    def risk(self) -> float:
        """The bound of the header at the best number of rounds."""
        return (_risk_sgd if self.mechanism is None else _risk_ftrl)(self.task)


def plan_sgd(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | None = None,
    step: float | None = None,
    falling: bool = True,
    tail: int = 1,
) -> Plan:
    """Return a plan of `dp_sgd_single_epoch`; ``falling`` steps have ``step`` as their mean."""
    bound = descent_clip(task, clip, subgradients=True)
    sigma = gaussian_sigma(task.budget, bound=bound, rows=(0, task.n))
    rounds = check_rounds(_best_rounds(task, bound, sigma) if rounds is None else rounds, task.n)
    scale = math.sqrt(float(_square(task, bound, sigma, rounds)))
    theory = task.initial_distance / (math.sqrt(rounds) * scale)
    if rounds < FEWEST:  # too few to come back from where the last step may lead
        last = 2 / (rounds + 1) if falling else 1.0
        theory = min(theory, task.initial_distance / (last * bound))
    return Plan(
        solver=SGD,
        task=task,
        rounds=rounds,
        clip=bound,
        sigma=sigma,
        step=_step(SGD, step, theory, task),
        falling=falling,
        tail=tail,
    )


def plan_ftrl(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | None = None,
    step: float | None = None,
    tail: int | None = None,
    noise: str | PrefixMechanism | None = None,
) -> Plan:
    """Return a plan of `dp_ftrl`; ``step`` is 1/lambda, ``noise`` names a prefix-sum mechanism."""
    bound = descent_clip(task, clip, prefix=True, negligible=FTRL_NEGLIGIBLE)
    if rounds is None:
        rounds = noise.rounds if isinstance(noise, PrefixMechanism) else min(FTRL_ROUNDS, task.n)
    stream = chosen_mechanism(noise, check_rounds(rounds, task.n), task)
    sigma = prefix_sum_sigma(task.budget, bound=bound, rows=(0, task.n), mechanism=stream)
    # A default clip cuts rows gone wrong and so noise, but hardly the mean of a batch.
    whole = task.lipschitz if clip is None and math.isfinite(task.lipschitz) else bound
    gradient = whole / math.sqrt(task.n_weights)
    error = largest_error(stream) / stream.column_norm
    worst = math.sqrt(task.n_weights) * sigma * error * rounds / task.n  # of batches' means
    theory = task.initial_distance / math.sqrt(2 * rounds * gradient * (gradient + worst))
    return Plan(
        solver=FTRL,
        task=task,
        rounds=rounds,
        clip=bound,
        sigma=sigma,
        step=_step(FTRL, step, theory, task),
        falling=False,
        tail=rounds - rounds // 2 if tail is None else tail,
        mechanism=stream,
    )


class _Averaging(Stepper):
    """Steps on one batch after the other; averages the last iterates."""

    vectors: ClassVar[tuple[str, ...]] = ("weights", "average")

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan, self.weights = plan, plan.task.start
        self.average = np.zeros(len(self.weights))

    def query(self) -> ClippedGradient:
        """Ask for the gradients at the weights."""
        return ClippedGradient(self.plan.problem.loss, self.weights, self.plan.clip)

    def output(self) -> Floats:
        """Return the average."""
        return self.plan.problem.domain.project(self.average)

    def _mean(self, total: Floats) -> Floats:
        """Return the noisy mean over the planned rows of the batch."""
        return total / self.plan.batch_size(self.round)

    def _within(self, moved: Floats, step: float) -> Floats:
        """Return the nearest weights of the domain, the penalty's step included."""
        problem = self.plan.problem
        return problem.domain.project(problem.penalty.prox(moved, step))

    def _note(self) -> None:
        if self.round >= self.plan.rounds - self.plan.tail:
            self.average = self.average + self.weights / self.plan.tail


class SgdStepper(_Averaging):
    """Noisy gradient steps; the iterates after each step are averaged."""

    def step(self, answer: Floats) -> None:
        """Step down the noisy gradient."""
        step = self.plan.step_at(self.round)
        self.weights = self._within(self.weights - step * self._mean(answer), step)
        self._note()


class FtrlStepper(_Averaging):
    """Follows the regularised leader of the noisy prefix sums.

    The iterates before each step are averaged: the last batch has no say.
    """

    vectors: ClassVar[tuple[str, ...]] = ("weights", "average", "prefix")

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.prefix = np.zeros(len(self.weights))

    def step(self, answer: Floats) -> None:
        """Add to the prefix sum and go to its leader."""
        self._note()
        self.prefix = self.prefix + self._mean(answer)
        moved = self.plan.task.start - self.plan.step * self.prefix
        self.weights = self._within(moved, self.plan.step * (self.round + 1))


def _square(task: Task, bound: float, sigma: float, rounds: Any) -> Any:
    """Return the squared length of a noisy mean gradient: gradient, sampling, noise.

    Of the gradient G/sqrt(d) is left, as of rows that point in all directions.
    """
    noise = task.n_weights * (sigma * rounds / task.n) ** 2
    return bound**2 / task.n_weights + bound**2 * rounds / task.n + noise


def _best_rounds(task: Task, bound: float, sigma: float) -> int:
    """Return the T of least R^2/(2 h) + step square/2, h = step T, noise `NOISE_SAFETY` times."""
    rounds = np.arange(min(FEWEST, task.n), min(MOST, task.n) + 1)
    square = _square(task, bound, NOISE_SAFETY * sigma, rounds)
    step = np.minimum(task.initial_distance / np.sqrt(rounds * square), _longest(task))
    error = task.initial_distance**2 / (2 * step * rounds) + step * square / 2
    return int(rounds[np.argmin(error)])


def _longest(task: Task) -> float:
    """Return 2/smoothness: beyond it descent on a smooth loss leaves the bowl."""
    return 2 / task.smoothness if 0 < task.smoothness < math.inf else math.inf


def _step(key: str, step: float | None, theory: float, task: Task) -> float:
    """Return the step: as asked for, else the theory's, made bolder, within 2/smoothness."""
    if step is not None:
        return _validate.positive("step", step)
    return min(STEP_MULTIPLIER[key] * theory, _longest(task))


def _tail(tail: int, rounds: int) -> None:
    if _validate.integer("tail", tail) > rounds:
        raise ParameterError(
            f"tail must be at most rounds = {rounds}, got {tail}.", parameter="tail"
        )


def _single(task: Task) -> tuple[float, float, float]:
    """Return R G, sqrt(d), and z/n: the noise of one release in units of G n."""
    bound = task.gradient_bound(None)
    noise = gaussian_sigma(task.budget, bound=bound, rows=(0, task.n)) / (bound * task.n)
    return task.initial_distance * bound, math.sqrt(task.n_weights), noise


def _risk_sgd(task: Task) -> float:
    """Return the header's bound at T = n/(z sqrt(d)), where both terms are equal, or at T = n."""
    scale, root, noise = _single(task)
    best = min(max(1 / (noise * root), 1.0), float(task.n))
    return scale * math.sqrt(1 / best + best * (noise * root) ** 2)


def _risk_ftrl(task: Task) -> float:
    """Return the header's bound at T = n, with e <= 1.0663 + log(T)/pi (Landau's constants)."""
    scale, root, noise = _single(task)
    return scale * math.sqrt(2 / task.n + 2 * root * landau(task.n) * noise)


_entry = partial(
    Solver,
    setting="any loss, any domain with a projection",
    needs=(needs.EUCLIDEAN, needs.FIXED_N, needs.GAUSSIAN),
    cost="n gradients",
    gradients=lambda task: float(task.n),
    plan_type=Plan,
)

SOLVERS = (
    _entry(
        key=SGD,
        summary="One pass of noisy SGD over disjoint batches; every batch has the whole budget.",
        paper="Choquette-Choo, Ganesh, Thakurta 2025",
        reference="Sec 2.1",
        rounds=f"T ({FEWEST} to {MOST} by default)",
        plan=plan_sgd,
        stepper=SgdStepper,
        risk=_risk_sgd,
        measured=Measured(0.052, 0.087),
        single_epoch=SingleEpoch(
            rank=5, smooth=Factors(0.061, 0.28), nonsmooth=Factors(0.45, 0.19)
        ),
    ),
    _entry(
        key=FTRL,
        summary="One pass over disjoint batches on prefix sums of gradients with correlated noise.",
        paper="Kairouz et al. 2021",
        reference="Choquette-Choo, Ganesh, Thakurta 2025, Sec 2.2",
        rounds=f"T (up to {FTRL_ROUNDS} by default)",
        plan=plan_ftrl,
        stepper=FtrlStepper,
        risk=_risk_ftrl,
        measured=Measured(0.018, 0.04),
        single_epoch=SingleEpoch(rank=3, smooth=Factors(0.047, 1.1), nonsmooth=Factors(0.85, 0.92)),
    ),
)
