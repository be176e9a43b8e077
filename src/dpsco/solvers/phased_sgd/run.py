"""The plan of phased SGD, its sensitivities and noise, and its run.

Rows are read once, in phases of n/2, n/4, ... rows; a phase starts from the noisy average that the
phase before released, with a quarter of its step size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

from ...data.queries import ClippedGradient
from ...data.source import Source
from ...errors import ParameterError
from ...geometry.domains import Box, Domain, L1Ball, L2Ball, LpBall, Simplex, WholeSpace
from ...losses.base import Hoelder, MarginLoss
from ...privacy.accounting import stability
from ...privacy.accounting.calibration import calibrate
from ...privacy.ledger import Ledger
from ...privacy.mechanisms import StableGaussianRelease
from ...task import Task
from ..base import BasePlan, Floats, Progress, TraceLine
from ..common.glm_objective import SLOPE_ERROR, steepness
from ..common.passes import Pass, check_phases, require_stable, smoothness_beyond
from ..common.smoothing import smoothed

_CLOSED = (WholeSpace, Box, L1Ball, Simplex)  # projected onto in closed form
_PROJECTION_ERROR = 1e-12  # relative distance at which some domains take a point for a member
_ROOM = 50.0  # free weights stay within so many distances: rounding is relative to their size


@dataclass(frozen=True)
class Variant:
    """In what the three published forms of the loop differ."""

    output: str  # which average, as `stability.phase_sensitivity` names it
    fill: bool  # whether rows left over by the halving join the first phase
    shortest: int  # phases of fewer rows are left out
    share: float  # s of the header
    theorem: str


VARIANTS = {
    "phased_sgd": Variant(
        "average_before",
        False,
        2,  # of one row the average is the start: nothing to release
        1 / 6,
        "Feldman, Koren, Talwar 2020, phased SGD; Wang, Lei, Ying, Zhang 2022, behind Thm 7",
    ),
    "phased_sgd_gll": Variant(
        "last",  # b rather than b (1 - 1/T_k), as published: sigma_k / eta_k is one constant
        True,
        1,
        11 / 48,
        "Bassily, Guzman, Menart 2021, Alg 4: non-expansive steps on the Moreau envelope",
    ),
    "phased_dp_sgd_unconstrained": Variant(
        "average_both",
        False,
        1,
        1 / 6,
        "Su, Zhao, Wang 2023, Alg 6: non-expansive steps on a smooth loss",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Plan(BasePlan):
    """All that a run needs, from the public task only. Sensitivities follow from it."""

    clip: float  # l2 bound on a row's gradient, enforced
    sizes: tuple[int, ...]  # rows of each phase, one phase after the other from row 0
    steps: tuple[float, ...]  # step size of each phase, a quarter of the one before
    sigmas: tuple[float, ...]  # standard deviation of the noise on each average, per coordinate
    smoothing: float  # Moreau parameter of the loss that is stepped on; 0 is the loss itself
    dimension: int  # how many directions the noise counts in: weights, or the rows' rank

    def __post_init__(self) -> None:
        """Refuse lists that do not fit together: a file may hold any."""
        check_phases(self.sizes, self.n)
        lengths = (len(self.sizes), len(self.steps), len(self.sigmas))
        if lengths[0] != lengths[1] or lengths[2] not in (0, lengths[0]):  # 0: a draft
            raise ParameterError(
                f"{self.solver} has one size, one step and one sigma for each phase; got {lengths}."
            )

    @cached_property
    def loss(self) -> MarginLoss:
        """The loss that is stepped on."""
        loss = smoothed(self.task, self.smoothing)
        assert isinstance(loss, MarginLoss)  # needs.GLM
        return loss

    @cached_property
    def rows(self) -> tuple[tuple[int, int], ...]:
        """Each phase's range of rows."""
        return tuple(pairwise(accumulate(self.sizes, initial=0)))

    @cached_property
    def sensitivities(self) -> tuple[float, ...]:
        """How far neighbours move each phase's average, float64's rounding included."""
        return tuple(sum(_moves(self, k)) for k in range(len(self.sizes)))

    def releases(self) -> tuple[StableGaussianRelease, ...]:
        """Return the noisy averages, one per phase, on rows of their own."""
        require_stable(self.solver, self.task)
        adjacency, theorem = self.budget.adjacency.value, VARIANTS[self.solver].theorem
        return tuple(
            StableGaussianRelease(sensitivity, sigma, adjacency, theorem, rows=rows)
            for sensitivity, sigma, rows in zip(
                self.sensitivities, self.sigmas, self.rows, strict=True
            )
        )

    def schedule(self) -> Iterator[TraceLine]:
        """Yield the phases."""
        for k, rows in enumerate(self.rows):
            yield TraceLine(k + 1, rows, self.steps[k], self.sigmas[k])

    @property
    def enforced(self) -> tuple[str, ...]:
        """The bounds, the clip, and the step size."""
        query = ClippedGradient(self.problem.loss, self.task.start, self.clip)
        smooth = "steps on a row are non-expansive: step * smoothness <= 2, checked"
        checked = (smooth,) if math.isfinite(_smoothness(self)) else ()
        size = _home(self.task).max_norm(self.task.n_weights)
        within = f"weights have l2 norm at most {size:g}, by projection"
        return (*self.problem.bounds.enforced, *query.enforced, *checked, within)

    @property
    def trusted(self) -> tuple[str, ...]:
        """What the loss takes on trust, and projections that are found by iteration."""
        if isinstance(domain := self.problem.domain, _CLOSED) or _projection_error(domain) == 0.0:
            return self.problem.loss.trusted
        line = f"the projection onto {domain!r} is exact up to rounding"
        return (*self.problem.loss.trusted, line)

    @property
    def risk(self) -> float:
        """The bound of the header at this plan's step."""
        share = VARIANTS[self.solver].share
        return bound(self.task, self.clip, self.dimension, share, 4 * self.steps[0])


def run(plan: Plan, source: Source, ledger: Ledger, progress: Progress) -> Floats:
    """Step through each phase from the last noisy average; the rows leave through those alone."""
    both = VARIANTS[plan.solver].output == "average_both"
    home = _home(plan.task)
    one_pass = Pass(plan.loss, home, plan.clip, ridge=plan.task.ridge)
    weights = plan.task.start
    for k, release in enumerate(plan.releases()):
        start, stop = release.rows
        last, total = one_pass.run(source, weights, plan.steps[k], start=start, stop=stop)
        average = (total + last) / (stop - start + 1) if both else total / (stop - start)
        weights = home.project(ledger.stable(average, release))
        progress(k + 1, len(plan.sizes))
    return weights


# -- sensitivity -----------------------------------------------------------------------------------


def _moves(plan: Plan, k: int) -> tuple[float, float]:
    """Return how far neighbours move the average of phase k: exactly computed, and by rounding."""
    task, step, adjacency = plan.task, plan.steps[k], plan.budget.adjacency
    # Every vector met: weights, a step of at most step * clip (64 of them outweigh a slope that is
    # found by bisection only), and labels, whose rounding counts as the margin's does.
    radius = _home(task).max_norm(task.n_weights)
    radius += task.label_bound / task.feature_bound + 64 * step * plan.clip
    slack = 2 * stability.rounding(plan.sizes[k], task.columns, radius)
    slack += 2 * plan.sizes[k] * _projection_error(task.problem.domain) * radius
    # A slope found by bisection is off by a share of the loss's own bound, however small the clip.
    steep = steepness(plan.loss, feature=task.feature_bound, label=task.label_bound)
    slack += 2 * plan.sizes[k] * step * SLOPE_ERROR * steep
    if math.isfinite(smoothness := _smoothness(plan)):
        moved = stability.phase_sensitivity(
            gradient=plan.clip,
            step=step,
            steps=plan.sizes[k],
            smoothness=smoothness,
            adjacency=adjacency,
            output=VARIANTS[plan.solver].output,
        )
        return moved, slack
    view = _rough(task)
    longer = step / max(1 - step * task.ridge, 1e-9)  # a ridge that is too strong is refused below
    drift = stability.expansion(view.alpha, view.constant, longer, clip=plan.clip)
    off = stability.rounding_drift(longer, gradient=plan.clip, d=task.columns, radius=radius)
    moved = stability.sgd_sensitivity(
        n=plan.sizes[k],
        passes=1,
        step=step,
        gradient=plan.clip,
        drift=math.hypot(drift, off),
        adjacency=adjacency,
        ridge=task.ridge,
        output="last" if VARIANTS[plan.solver].output == "average_both" else "average",
    )
    return moved, slack


def _smoothness(plan: Plan) -> float:
    """Return the smoothness of what is stepped on, the ridge included; infinite if it has none."""
    return smoothness_beyond(plan.task, plan.loss) + plan.task.ridge


def _home(task: Task) -> Domain:
    """Return the domain that every step is projected onto: a wide ball for free weights."""
    domain = task.problem.domain
    return domain if domain.bounded else L2Ball(_ROOM * task.initial_distance)


def _rough(task: Task) -> Hoelder:
    """Return the smoothest known view of a loss that is not smooth."""
    return max(task.hoelder, key=lambda view: view.alpha)


def _projection_error(domain: Domain) -> float:
    """Return how far, relative to its size, a projection may be off beyond rounding."""
    exact = isinstance(domain, (WholeSpace, Box)) or (
        isinstance(domain, LpBall) and domain.p in (2.0, math.inf)
    )
    return 0.0 if exact else _PROJECTION_ERROR


# -- schedules -------------------------------------------------------------------------------------


def phases(n: int, solver: str = "phased_sgd") -> tuple[int, ...]:
    """Return the rows of each phase: n/2, n/4, ... rounded down.

    >>> phases(1000), phases(10, "phased_sgd_gll")
    ((500, 250, 125, 62, 31, 15, 7, 3), (7, 2, 1))
    """
    variant = VARIANTS[solver]
    sizes = [n >> k for k in range(1, n.bit_length())] or [n]
    if variant.fill:
        sizes[0] += n - sum(sizes)
    return tuple(size for size in sizes if size >= variant.shortest)


def bound(task: Task, clip: float, dimension: int, share: float, step: float) -> float:
    """Return the header's bound on the excess risk at eta = ``step``."""
    z = task.budget.adjacency.sensitivity(1.0) / task.budget.mu_per_row()
    whole = clip + task.ridge * task.initial_distance  # the penalty's gradient has no noise
    noise = 4 * dimension * (z * clip) ** 2 / task.n
    return 4 * task.initial_distance**2 / (step * task.n) + step * (share * whole**2 + noise)


def best_step(task: Task, clip: float, dimension: int, share: float) -> float:
    """Return the eta of the least `bound`."""
    z = task.budget.adjacency.sensitivity(1.0) / task.budget.mu_per_row()
    whole = clip + task.ridge * task.initial_distance
    slow = math.hypot(math.sqrt(share * task.n) * whole, 2 * math.sqrt(dimension) * z * clip)
    return 2 * task.initial_distance / slow


def with_noise(draft: Plan, published: float | None = None) -> Plan:
    """Return the plan with its noise: sigma_k = Delta_k / mu.

    ``published``, a paper's sigma_k / (G eta_k), takes its place but for the part of Delta_k that
    is due to rounding, of which no paper speaks.
    """
    adjacency, theorem = draft.budget.adjacency.value, VARIANTS[draft.solver].theorem
    unit = calibrate(
        lambda s: StableGaussianRelease(1.0, s, adjacency, theorem, rows=(0, draft.n)),
        draft.budget,
    ) * (1 + 2.0**-48)
    sigmas = []
    for k, step in enumerate(draft.steps):
        moved, slack = _moves(draft, k)
        sigma = unit * moved if published is None else published * draft.clip * step
        sigmas.append(sigma + unit * slack)
    return replace(draft, sigmas=tuple(sigmas))
