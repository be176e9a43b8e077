"""The plan of mirror descent on reports in secret order: nobody sees a gradient without noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ... import _validate
from ...errors import AssumptionError
from ...geometry.mirror import Regularity
from ...privacy.budget import ApproxDP
from ...privacy.mechanisms import ShuffledSequenceRelease, gaussian_sigma
from ...privacy.mechanisms.shuffled_sequence import shuffled_sigma
from ...privacy.release import Release
from ...task import Task
from ..common.batches import check_rounds
from ..common.clips import cautious_clip
from ..needs import Need
from . import published
from .schedule import Plan, check_p, noise_unit, public_clip, spread

SHUFFLED = "shuffled_truncated_mirror_descent"
BATCHES = (4, 64)  # batches by default, fewest and most


def _delta(task: Task) -> str:
    if isinstance(task.budget, ApproxDP):
        return ""
    return "what a secret order hides is known as (epsilon, delta) alone: use ApproxDP"


APPROX = Need("(epsilon, delta) budget", _delta)


@dataclass(frozen=True, kw_only=True)
class ShuffledPlan(Plan):
    """A plan of batches in secret order; ``sigma`` is the noise of a single row's report."""

    secret_order: bool  # whether the order is counted on

    def __post_init__(self) -> None:
        """Refuse numbers that no schedule has: a file may hold any."""
        super().__post_init__()
        _validate.store(self, "secret_order", _validate.flag("secret_order", self.secret_order))

    def releases(self) -> tuple[Release, ...]:
        """Return the batches, one after the other."""
        rounds = check_rounds(self.rounds, self.n)
        return (ShuffledSequenceRelease(self.bound, self.sigma, rounds, rows=(0, self.n)),)

    @property
    def noise(self) -> float:
        """The l2 norm of the noise on the mean of all reports, in units of the longest gradient."""
        return math.sqrt(self.task.n_weights / self.n) * self.sigma / self.bound

    @property
    def risk(self) -> float:
        """The bound of the header."""
        return _bound(self.task, self.p, self.sigma / self.bound)


def plan_shuffled(
    task: Task,
    *,
    rounds: int | None = None,
    clip: float | None = None,
    moment: float | None = None,
    p: float | None = None,
    step: float | None = None,
    tail: int | None = None,
    schedule: str = "practical",
    population_smoothness: float | None = None,
    secret_order: bool = True,
) -> ShuffledPlan:
    """Return a plan of `shuffled_truncated_mirror_descent`.

    Args:
        rounds: batches, each row in one of them.
        clip: where gradients are truncated, in l2.
        moment: a public guess of sqrt(E ||gradient||_2^2), from which the clip follows.
        p: of the norm of the weights, for a domain that has none of its own.
        step: 1/gamma, the same in all rounds; by default it follows from the noisy answers.
        tail: how many of the last iterates are averaged.
        schedule: "practical" or "paper".
        population_smoothness: of the mean loss, for the paper's schedule, if less than rows have.
        secret_order: whether the secret order pays for a part of the privacy; without it every
            report has the noise that protects it by itself.

    Raises:
        AssumptionError: the secret order gains nothing.
    """
    _validate.choice("schedule", schedule, published.SCHEDULES)
    geometry = Regularity(check_p(task, p), task.n_weights)
    if schedule == "paper":
        paper = published.shuffled(task, geometry, moment, population_smoothness)
        rounds = paper.rounds if rounds is None else rounds
        if clip is None:
            clip, moment = paper.clip, None
        step = paper.step if step is None else step
        tail = rounds if tail is None else tail
    bound = _clip(task, clip, moment)
    secret_order = _validate.flag("secret_order", secret_order)
    least = shuffled_sigma if secret_order else gaussian_sigma
    sigma = least(task.budget, bound=bound, rows=(0, task.n))
    rounds = _batches(task, geometry, sigma / bound) if rounds is None else rounds
    rounds = check_rounds(rounds, task.n)
    return ShuffledPlan(
        solver=SHUFFLED,
        task=task,
        rounds=rounds,
        batches=True,
        clip=bound,
        search=None,
        row_range=(0, task.n),
        sigma=sigma,
        step=step,
        p=geometry.p,
        tail=(rounds + 1) // 2 if tail is None else tail,
        secret_order=secret_order,
    )


def _clip(task: Task, clip: float | None, moment: float | None) -> float:
    """Return the clip; refuse to find one."""
    if isinstance(clip, str):
        raise AssumptionError(
            f"{SHUFFLED} cannot find a clip: nobody sees the lengths of gradients. Give clip= or "
            "moment=."
        )
    return public_clip(task, clip, moment)


def _batches(task: Task, geometry: Regularity, multiplier: float) -> int:
    """Return how many batches: the clip over the noise on the mean of all reports.

    More only make steps shorter, since each has noise of its own.
    """
    fewest, most = BATCHES
    ratio = math.sqrt(task.n) / (multiplier * noise_unit(geometry))
    return min(math.ceil(min(max(ratio, fewest), most)), task.n)


def shuffled_risk(task: Task) -> float:
    """Return the bound of the header with the noise of reports that protect themselves."""
    sigma = gaussian_sigma(task.budget, bound=1.0, rows=(0, task.n))
    return _bound(task, check_p(task, None), sigma)


def _bound(task: Task, p: float, multiplier: float) -> float:
    geometry, bound = Regularity(p, task.n_weights), cautious_clip(task)
    noise = bound * multiplier * noise_unit(geometry)
    return 2.0 * math.sqrt(spread(task, geometry) / task.n) * (noise + bound)
