"""The terms that forecasts are made of, and the factors that were measured for them.

Two terms, each with a factor of its own, since theorems are differently loose in them:

* what is left to learn. T rounds of steps 1/beta go as far as gradient flow of the time h, which is
  T/beta for plain steps and T (T+1)/(4 beta) for accelerated ones (Choquette-Choo, Ganesh, Thakurta
  2025, Thms 10 and 15, bound the rest by R^2/(2 h)). Of what the zero model loses, a share
  1/(1 + (pace M h)^2) is left, M the smoothness of a row's loss.
* noise and sampling. An error of variance V^2 in the gradient costs V^2/(2 c) where the curvature
  is c, typically M/d. Recursive gradients and prefix sums have one such error for the whole run.
  With independent noise each of the T batches has its own, T times as large in variance.

Both forms describe what was measured (``python -m benchmarks.forecasts``); neither is a theorem.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..solvers.engine import BatchPlan
from ..solvers.recursive_gradient.plan import Plan as FewRounds
from ..solvers.recursive_gradient.plan import public_scales
from ..solvers.recursive_gradient.rates import largest_error
from ..solvers.single_epoch import Plan as SingleEpoch

ACCELERATED = ("acc_srgd", "acc_independent", "srg_online_to_batch")


@dataclass(frozen=True)
class Factors:
    """How far measurements lie from the terms, for one solver."""

    pace: float  # of M h: how fast the loss is learnt
    noise: float  # of the cost of noise and sampling


@dataclass(frozen=True)
class Calibration:
    """Everything that was measured, for losses of one kind."""

    share: float  # of the zero model's largest loss that there is to learn
    sampling: float  # of the variance of a row's gradient beside its bound
    factors: Mapping[str, Factors]
    half: float  # half of the measurements are within this ratio of the forecast
    most: float  # and nine of ten within this one
    ratio_half: float  # likewise for ratios of numbers of rounds, up to 4 times apart
    ratio_most: float


SMOOTH = Calibration(
    share=0.15,
    sampling=1.1,
    factors={
        "acc_srgd": Factors(0.048, 1.0),
        "acc_independent": Factors(0.047, 0.27),
        "srg_sgd": Factors(0.065, 1.0),
        "srg_online_to_batch": Factors(0.039, 1.1),
        "dp_sgd_single_epoch": Factors(0.061, 0.28),
        "dp_ftrl": Factors(0.047, 1.1),
    },
    half=2.0,
    most=6.3,
    ratio_half=1.4,
    ratio_most=3.6,
)
# Also of bends that are as sharp. Public task do not tell rows that point in all directions from
# tables that learn slowly: hence the spread.
NONSMOOTH = Calibration(
    share=0.15,
    sampling=10.0,
    factors={
        "acc_srgd": Factors(0.14, 0.63),
        "acc_independent": Factors(0.096, 0.2),
        "srg_sgd": Factors(0.16, 1.0),
        "srg_online_to_batch": Factors(0.085, 0.7),
        "dp_sgd_single_epoch": Factors(0.45, 0.19),
        "dp_ftrl": Factors(0.85, 0.92),
    },
    half=3.0,
    most=13.0,
    ratio_half=1.5,
    ratio_most=4.9,
)
SOLVERS = tuple(SMOOTH.factors)


@dataclass(frozen=True)
class Terms:
    """What a plan's public numbers say before any factor."""

    start: float  # the largest loss of the zero model
    progress: float  # M h: steps of full length that the rounds are worth
    noise: float  # V^2 of the noise over the curvature
    sampling: float  # V^2 of the sample over the curvature

    def excess(self, share: float, sampling: float, factors: Factors) -> float:
        """Return the excess risk to expect; noise alone costs no more than the zero model does."""
        left = share * self.start / (1.0 + (factors.pace * self.progress) ** 2)
        error = factors.noise * (self.noise + sampling * self.sampling)
        return left + error / (1.0 + error / self.start)


def terms(plan: BatchPlan) -> Terms:
    """Return what a plan's schedule says of its excess risk, before any factor."""
    task, batch = plan.task, plan.n / plan.rounds
    # a clip that cuts few rows changes the noise, which sigma tells, and hardly the sample
    whole = task.lipschitz if math.isfinite(task.lipschitz) else plan.clip
    scales = public_scales(task, whole, None)
    smoothness, gradient = scales.smoothness, scales.gradient
    if isinstance(plan, FewRounds):
        beta, time = plan.beta, plan.rounds / plan.beta
    else:  # steps of SGD beyond 2/M overshoot, and get no farther
        assert isinstance(plan, SingleEpoch)
        beta, time = 1.0 / plan.step, plan.rounds * min(plan.step, 2.0 / smoothness)
    if plan.solver in ACCELERATED:
        time *= (plan.rounds + 1) / 4
    if plan.mechanism is None:
        over = 1.0 / beta
        if plan.solver in ACCELERATED:  # momentum gathers the noise of many rounds
            over = math.sqrt(task.n_weights / (smoothness * beta))
        noise, rows = plan.sigma / batch, batch
    else:
        over = task.n_weights / smoothness
        noise = plan.sigma * largest_error(plan.mechanism) / plan.mechanism.column_norm / plan.n
        rows = plan.n
    start = task.constants.value_at_zero
    if not 0.0 < start < math.inf:
        start = gradient * task.initial_distance
    return Terms(
        start=start,
        progress=smoothness * time,
        noise=over * task.n_weights * noise * noise,
        sampling=over * gradient * gradient / rows,
    )
