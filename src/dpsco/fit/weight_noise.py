"""How much noise there is in the weights of a fit, as far as its plan knows.

Noise that is added to the weights themselves is known exactly, and so is that of a single step.
Noise that enters round by round moves the weights by more or less as the rows hold them: a weight
that no row speaks of keeps all of it. That much is found by carrying the plan out with noise alone
(sums of no rows), which needs the plan and nothing else; of weights that rows do speak of it is the
most, about. Noise that is added to what is minimised (objective perturbation) moves the weights by
as much as the rows' curvature lets it: from the plan nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..data.queries import Query
from ..errors import DpscoError
from ..privacy.ledger import Ledger
from ..privacy.mechanisms import (
    FixedSizeGaussianRelease,
    GaussianRelease,
    PoissonGaussianRelease,
    PrefixSumRelease,
    StableGammaRelease,
    StableGaussianRelease,
    WithReplacementRelease,
)
from ..privacy.randomness import Randomness
from ..privacy.release import flatten
from ..solvers import get
from ..solvers.base import BasePlan, Floats
from ..solvers.engine import Engine, Round, Schedule

_SUMS = (GaussianRelease, PoissonGaussianRelease, FixedSizeGaussianRelease, PrefixSumRelease)
_OUTPUTS = (StableGaussianRelease, WithReplacementRelease)
_NUMBERS = 200  # noisy weights from which the standard deviation is taken, if time allows: to 5 %
_MOST_ROUNDS = 2_500  # of all runs together: a fraction of a second
_MOST_NUMBERS = 1_000_000  # of noise, of a run: likewise
_MOST_ROWS = 2_000_000  # of which a sample is drawn, and of all samples together

_EXACT = "The noise was added to the weights themselves, so its size is exact."
_ROUNDS = (
    "The fit adds noise in every round. Each bar is the noise alone: the approximate standard "
    "deviation of a weight that no row informs. Weights that rows do inform are less noisy; how "
    "much less is private."
)
_MINIMISED = (
    "The noise was added to the objective. How far it moves a weight depends on the rows, so "
    "the plan cannot know it."
)
_UNKNOWN = "The plan cannot tell how far its noise moves a weight."


@dataclass(frozen=True)
class WeightNoise:
    """The noise in each weight of the problem that was minimised."""

    sigma: float | None  # standard deviation; None where the plan does not know it
    exact: bool  # whether it is that of every weight, or of those that no row speaks of
    sentence: str


def weight_noise(plan: BasePlan) -> WeightNoise:
    """Return what a plan knows of the noise in the weights that it will find.

    >>> import dpsco as dp
    >>> problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
    >>> task = dp.Task(problem, n=10_000, d=5, budget=dp.ApproxDP(1.0, 1e-8))
    >>> weight_noise(dp.plan(task, solver="approx_objective_perturbation")).sigma is None
    True
    >>> weight_noise(dp.plan(task, solver="noisy_gd")).sigma > 0
    True
    """
    try:
        return _remembered(plan)
    except TypeError:  # not hashable
        return _noise(plan)


def _noise(plan: BasePlan) -> WeightNoise:
    releases = flatten(plan.releases())
    if get(plan.solver).stepper is None:
        return _of_one_output(plan, releases)
    if not all(type(release) in _SUMS for release in releases):
        return WeightNoise(None, False, _UNKNOWN)
    if _takes_long(plan):
        return WeightNoise(None, False, _UNKNOWN)
    try:
        sigma = _alone(plan)
    except (DpscoError, ArithmeticError, AttributeError):  # a stepper that needs more than sums
        return WeightNoise(None, False, _UNKNOWN)
    single = plan.total_rounds == 1
    return WeightNoise(sigma, single, _EXACT if single else _ROUNDS)


_remembered = lru_cache(maxsize=16)(_noise)


def _takes_long(plan: BasePlan) -> bool:
    """Return whether a run on noise alone would take more than a fraction of a second."""
    schedule, rounds = Schedule(plan.releases()), plan.total_rounds
    if rounds > _MOST_ROUNDS or rounds * plan.task.n_weights > _MOST_NUMBERS:
        return True
    sampled = any(Round(release, release.rows).sampled for release in schedule.releases)
    return sampled and max(plan.n, schedule.expected_rows) > _MOST_ROWS


def _of_one_output(plan: BasePlan, releases: tuple[Any, ...]) -> WeightNoise:
    """Return the noise of plans whose weights leave at once."""
    if len(releases) != 1 or releases[0].count != 1:
        return WeightNoise(None, False, _UNKNOWN)
    release = releases[0]
    if isinstance(release, _OUTPUTS):
        return WeightNoise(release.sigma, True, _EXACT)
    if isinstance(release, StableGammaRelease):  # of length Gamma(p, sigma), in any direction
        return WeightNoise(release.scale * (plan.task.n_weights + 1.0) ** 0.5, True, _EXACT)
    return WeightNoise(None, False, _MINIMISED)


def _alone(plan: BasePlan) -> float:
    """Return the standard deviation of weights that noise alone has moved."""
    affordable = _MOST_ROUNDS // plan.total_rounds
    runs = max(1, min(-(-_NUMBERS // plan.task.n_weights), affordable))
    # All weights begin alike and have the same noise.
    return float(np.std([_noisy_weights(plan, seed) for seed in range(runs)]))


def _noisy_weights(plan: BasePlan, seed: int) -> Floats:
    """Return the weights of a run on sums of no rows, with noise of a public seed."""
    stepper = get(plan.solver).stepper
    assert stepper is not None
    ledger = Ledger(plan.releases(), plan.budget, randomness=Randomness.seeded(seed))
    engine = Engine(plan, stepper(plan), ledger)
    while not engine.finished:
        engine.step(_NoRows())
    return engine.output()


class _NoRows:
    """Sums of no rows."""

    def sum(self, query: Query, start: int, stop: int) -> Floats:
        return np.zeros(query.size)

    def sum_at(self, query: Query, indices: Any) -> Floats:
        return np.zeros(query.size)
