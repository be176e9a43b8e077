"""A clip that a run finds: how the search is planned and paid for, and the stepper that uses it.

Paper      Lowy, Razaviyayn 2023 (arXiv:2209.07403) clip by a moment that somebody knows. Here:
           clipping at C costs at most E(|g| - C)_+ in bias, and noise of size C tau. The sum is
           least where a share tau of the gradients is above C: their (1 - tau)-quantile.
Guarantee  That of `dpsco.privacy.mechanisms.clip_quantile`, and of Gaussian noise in units of the
           clip (`dpsco.data.queries.InUnits`), whose sensitivity is public whatever the clip.

Two ways to pay. A **slice** of the rows is asked for the clip and for nothing else: the budget is
spent on either part in full, and the rounds have fewer rows. A **share** of the budget goes on all
rows. A slice of a tenth takes 11 % more noise, a tenth of mu^2 takes 6 % (5.4 % if the search were
Gaussian). `clip_search` takes what is predicted to cost less.

Gradients are measured at the start. Where labels are far from 0 they are longer there than at the
solution (1.7 to 4.6 times on real tables): centre labels first, or let the clip follow the
gradients (`TrackedClipStepper`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ... import _validate
from ...data.gradient_norms import GradientNorms, TrackedGradient
from ...data.queries import (
    ClippedCoordinates,
    ClippedDifference,
    ClippedGradient,
    InUnits,
    Loss,
    Query,
)
from ...data.row_norms import LARGEST_LIMIT, SMALLEST_LIMIT
from ...errors import AssumptionError
from ...privacy.accounting.calibration import calibrate
from ...privacy.budget import GDP, Budget, PureDP
from ...privacy.mechanisms import ClipQuantileRelease, GaussianRelease, gaussian_sigma
from ...privacy.mechanisms.clip_quantile import RANGE, least_rows
from ...privacy.release import Composition, Release
from ...task import Task
from ..engine import Schedule, Stepper
from .clips import Floats

WAYS = ("auto", "slice", "share")
RANK = 20.0  # ranks from the top, over epsilon, that the mechanism tells apart
LEAST_LEVEL = 0.25  # no clip is sought below this quantile
SLICE = (0.02, 0.10, 1 / 3)  # of the rows: at least, at most for a finer rank, at most at all
SHARE = (0.02, 0.25)  # of mu^2: at most for a finer rank, at most at all
OCTAVES = 60  # of the grid below the longest gradient that a row can have at the start
MOST_LEVEL = 0.98  # of the quantile that a clip follows
AWAY = 2.0  # standard deviations of a share that a quantile which is followed stays below 1
LATE = 0.25  # of the rounds: until a clip that started low is back at the usual one
FEW_TRACKED = 15  # rounds below which a clip that follows the gradients does not arrive

Releases = Release | Composition | Iterable[Release | Composition]


class ClipGrid(NamedTuple):
    """Which clips are candidates: ``per_octave`` for each factor of 2, over some octaves."""

    lowest: float = 2.0**-80
    octaves: int = 160
    per_octave: int = 4

    @property
    def candidates(self) -> int:
        """The number of clips."""
        return self.octaves * self.per_octave + 1


@dataclass(frozen=True)
class ClipSearch:
    """A planned search for a clip."""

    release: ClipQuantileRelease
    rows: tuple[int, int]  # what later rounds may read
    noise: float  # of later rounds, in units of the noise without a search: predicted

    @property
    def level(self) -> float:
        """The quantile that is sought."""
        return self.release.target / self.release.row_count


def noise_tail(task: Task, *, rows: int | None = None, averaged: float = 1.0) -> float:
    """Return tau = A sqrt(d)/(s mu sqrt(m)): the share of gradients that it pays to cut.

    Args:
        task: whose budget is spent on each row.
        rows: s, of a round; by default all.
        averaged: m, over how many rounds on different rows the noise averages out.
    """
    share = (task.n if rows is None else rows) / task.n
    return math.sqrt(task.n_weights) / (task.signal * share * math.sqrt(averaged))


def grid_of(task: Task) -> ClipGrid:
    """Return clips up to the longest gradient that a row can have at the start."""
    longest = task.start_gradient
    if not 0.0 < longest < math.inf:
        return ClipGrid()
    highest = min(max(math.ceil(math.log2(longest)), -80), 80)
    return ClipGrid(math.ldexp(1.0, highest - OCTAVES), OCTAVES)


def clip_search(
    task: Task,
    tail: float | None = None,
    *,
    way: str = "auto",
    grid: ClipGrid | None = None,
) -> ClipSearch:
    """Return the search for the clip that a share ``tail`` of the gradients exceeds.

    Args:
        task: whose rows are searched, and whose budget pays.
        tail: by default `noise_tail` of rounds on all rows.
        way: "slice" of the rows, "share" of the budget, or "auto", the one with less noise.
        grid: the candidates; by default `grid_of` the task.

    Raises:
        AssumptionError: the rows are too few, or the budget cannot pay for selections and noise.
    """
    way = _validate.choice("clip_way", way, set(WAYS))
    if isinstance(task.budget, PureDP):
        raise AssumptionError(
            f"a clip is found for Gaussian noise, which {task.budget} does not pay for. Use "
            "ApproxDP(epsilon, delta), ZCDP(rho) or GDP(mu)."
        )
    tail = noise_tail(task) if tail is None else _validate.positive("tail", tail)
    grid = grid_of(task) if grid is None else grid
    needed = rows_times_epsilon(tail, grid)
    ways = {"slice": _slice, "share": _share}
    chosen = [
        rule(task, tail, grid, needed) for name, rule in ways.items() if way in ("auto", name)
    ]
    possible = [each for each in chosen if isinstance(each, ClipSearch)]
    if not possible:
        enough = min(each for each in chosen if isinstance(each, int))
        raise AssumptionError(
            f"a clip cannot be found in {task.n:,} rows: at this budget it takes {enough:,}. Give "
            "clip=, a larger epsilon, or bounds such that gradients differ by fewer magnitudes."
        )
    return min(possible, key=lambda each: each.noise)


def rows_times_epsilon(tail: float, grid: ClipGrid) -> int:
    """Return the least product of rows and epsilon at which all clips of a grid can be found."""
    product = least_rows(1.0, level=1.0 - min(tail, 1.0 - LEAST_LEVEL), octaves=grid.octaves)
    while (more := least_rows(1.0, level=_level(tail, product), octaves=grid.octaves)) > product:
        product = more
    return product


def slice_rows(n: int, tail: float, epsilon: float, needed: float) -> int:
    """Return how many of n rows a slice has: enough to tell the rank that ``tail`` asks for.

    >>> slice_rows(16_000, 0.00472333458, 1.0, 150), slice_rows(2000, 0.0327242219, 1.0, 150)
    (1600, 200)
    """
    least, most, _ = SLICE
    useful = min(max(RANK / (epsilon * tail), least * n), most * n)
    return max(math.floor(useful), math.ceil(needed / epsilon))


def _slice(task: Task, tail: float, grid: ClipGrid, needed: int) -> ClipSearch | int:
    """Return a search in a slice, or how many rows it would take."""
    scale = calibrate(lambda s: _release(grid, s, 1, (0, 1)), task.budget)
    epsilon = RANGE / scale
    rows = slice_rows(task.n, tail, epsilon, needed)
    if rows > SLICE[2] * task.n:
        return math.ceil(math.ceil(needed / epsilon) / SLICE[2])
    target = round(_level(tail, epsilon * rows) * rows)
    release = _release(grid, scale, target, (0, rows))
    return ClipSearch(release, (rows, task.n), task.n / (task.n - rows))


def _share(task: Task, tail: float, grid: ClipGrid, needed: int) -> ClipSearch | int:
    """Return a search on all rows, or how many it would take."""
    mu = task.budget.mu_per_row()
    # e0^2/8 = share mu^2/2; the Gaussian parameter of e0-DP is e0 sqrt(pi/2) if that is small.
    each = math.sqrt(2.0 / math.pi) if isinstance(task.budget, GDP) else 2.0
    usual, most = (each * mu * math.sqrt(share) for share in SHARE)
    epsilon = max(needed / task.n, min(RANK / (tail * task.n), usual))
    if epsilon > most:
        return math.ceil(needed / most)
    target = round(_level(tail, epsilon * task.n) * task.n)
    release = _release(grid, RANGE / epsilon, target, (0, task.n))
    noise = beside_clip(task.budget, release, lambda s: _whole(task.n, s))
    alone = gaussian_sigma(task.budget, bound=1.0, rows=(0, task.n))
    return ClipSearch(release, (0, task.n), noise / alone)


def beside_clip(
    budget: Budget, search: ClipQuantileRelease | None, build: Callable[[float], Releases]
) -> float:
    """Return the least noise of the releases ``build(noise)``, if a clip is paid from the budget.

    In closed form where the clip was found in a slice that the releases do not touch.
    """

    def both(noise: float) -> Releases:
        assert search is not None
        return (search, *_listed(build(noise)))

    beside = search is not None and _overlaps(search, build(1.0))
    return calibrate(both if beside else build, budget)


def _overlaps(search: ClipQuantileRelease, releases: Releases) -> bool:
    """Return whether some release touches a row of the search."""
    for part in _listed(releases):
        if isinstance(part, Composition):
            if _overlaps(search, part.parts):
                return True
        elif part.rows[0] < search.rows[1] and search.rows[0] < part.rows[1]:
            return True
    return False


def _listed(releases: Releases) -> tuple[Release | Composition, ...]:
    return (releases,) if isinstance(releases, (Release, Composition)) else tuple(releases)


def _level(tail: float, product: float) -> float:
    """Return the quantile sought with so many rows times epsilon."""
    return 1.0 - min(1.0 - LEAST_LEVEL, max(tail, RANK / product))


def _release(
    grid: ClipGrid, scale: float, target: int, rows: tuple[int, int]
) -> ClipQuantileRelease:
    return ClipQuantileRelease(
        scale, target, grid.candidates, grid.lowest, grid.per_octave, rows=rows
    )


def _whole(n: int, sigma: float) -> GaussianRelease:
    return GaussianRelease(1.0, sigma, rows=(0, n))


# -- steppers --------------------------------------------------------------------------------------


class FoundClipStepper(Stepper):
    """A stepper whose clip is public, or found in the first round.

    Its plan has a ``clip``, None if it is found, and a ``search``, the release that finds it.
    A subclass names "unit" among its ``vectors`` and writes two methods in place of `query` and
    `step`: `gradient`, clipped to ``self.clip``, and `move`, which gets the noisy sum in the loss's
    own units whatever the clip. ``self.turn`` counts the rounds without the search.
    """

    def __init__(self, plan: Any, start: Floats, loss: Loss | None = None) -> None:
        super().__init__()
        self.plan = plan
        self.unit = np.array([1.0 if plan.clip is None else plan.clip])  # the clip, once known
        self._start, self._loss = start, plan.task.problem.loss if loss is None else loss

    @property
    def clip(self) -> float:
        """The clip of the rounds that follow; 1 before it is found."""
        return float(self.unit[0])

    @property
    def turn(self) -> int:
        """How many answers `move` has taken."""
        return self.round - (self.plan.search is not None)

    @abstractmethod
    def gradient(self) -> ClippedGradient | ClippedDifference | ClippedCoordinates:
        """Return what the next round asks of each row, clipped to ``self.clip``."""

    @abstractmethod
    def move(self, total: Floats) -> None:
        """Move on a noisy sum."""

    def query(self) -> Query:
        """Ask how long gradients are, then for their sums in units of the clip."""
        search = self.plan.search
        if search is None:
            return self.gradient()
        if self.turn < 0:
            return GradientNorms(self._loss, self._start, search.grid)
        return InUnits(self.gradient())

    def step(self, answer: Any) -> None:
        """Take the clip, or move."""
        if self.plan.search is None:
            self.move(answer)
        elif self.turn < 0:
            self.unit = np.array([float(answer)])
        else:
            self.move(answer * self.clip)


class TrackedClipStepper(FoundClipStepper):
    """A stepper whose clip follows the gradients from round to round, if the plan says so.

    Beside each sum the rows' indicators say, with noise, how many were within the clip, and the
    clip moves towards the ``level``-quantile. It may grow by e^level a round and shrink by
    e^(1 - level) only, so it should start low: at a low quantile that was found, or far below what
    is likely. The plan has, beside what `FoundClipStepper` reads, ``weight`` of the indicator and
    ``level``; its Gaussian releases have the bound ``tracked_bound(weight)``, and its public clip
    is where the clip starts. At a weight of 0 the clip stays what it is.
    """

    def query(self) -> Query:
        """Ask how long gradients are, then for their sums and how many are within the clip."""
        if not self._tracks:
            return super().query()
        gradient = self.gradient()
        assert not isinstance(gradient, ClippedCoordinates)  # they have no indicator of their own
        return TrackedGradient(gradient, self.plan.weight)

    def step(self, answer: Any) -> None:
        """Take the clip, or move and let the clip follow."""
        if not self._tracks:
            super().step(answer)
            return
        self.move(answer[:-1] * self.clip)
        rows = self._rounds[self.round].expected_rows
        share = float(answer[-1]) / self.plan.weight / rows
        self.unit = np.array([followed(self.clip, share, level=self.plan.level)])

    @property
    def _tracks(self) -> bool:
        """Whether the clip moves in this round: not in the one that finds it."""
        return self.turn >= 0 and self.plan.weight > 0.0

    @cached_property
    def _rounds(self) -> Schedule:
        return Schedule(self.plan.releases())


def followed(clip: float, share: float, *, level: float, rate: float = 1.0) -> float:
    """Return the next clip, given the noisy mean of indicators of -1/2 and 1/2.

    C exp(-rate (b - level)), b = 1/2 + ``share`` the noisy share of rows within the clip, taken to
    lie in [0, 1].

    >>> round(followed(1.0, 0.5, level=0.8), 6), round(followed(1.0, -0.5, level=0.8), 6)
    (0.818731, 2.225541)
    """
    within = min(max(0.5 + share, 0.0), 1.0) if math.isfinite(share) else level
    moved = clip * math.exp(-rate * (within - level))
    return min(max(moved, SMALLEST_LIMIT), LARGEST_LIMIT)


def tracked_level(tail: float, noise: float = 0.0) -> float:
    """Return the quantile that a clip follows: a share ``tail`` of the gradients is cut.

    A share counts as 1 at most, so noise of standard deviation ``noise`` pulls it below 1 even if
    no gradient is cut, and a clip that follows a higher quantile than that grows for ever. Two
    standard deviations keep away from it.

    >>> tracked_level(0.1), tracked_level(1e-6), tracked_level(3.0), tracked_level(0.01, 0.1)
    (0.9, 0.98, 0.25, 0.8)
    """
    return min(max(1.0 - max(tail, AWAY * noise), LEAST_LEVEL), MOST_LEVEL)


def low_start(usual: float, rounds: int, level: float) -> float:
    """Return a clip that takes a quarter of the rounds to grow to the usual one, if it must.

    But for `OCTAVES`, no further below it than a search would look.

    >>> low_start(1.0, 40, 0.8), low_start(1.0, 10_000, 0.8) == 2.0**-60
    (0.00033546262790251185, True)
    """
    below = max(math.exp(-LATE * rounds * level), 2.0**-OCTAVES)
    return max(usual * below, SMALLEST_LIMIT)


def tracking_warning(rounds: int) -> tuple[str, ...]:
    """Return why a clip that follows gradients may not arrive; nothing if it has the time."""
    if rounds >= FEW_TRACKED:
        return ()
    return (
        f"a clip that follows the gradients has {rounds} rounds to arrive, and fewer than "
        f"{FEW_TRACKED} seldom suffice. Let the clip be found before the first round, or give it",
    )
