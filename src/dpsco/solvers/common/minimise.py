"""Certified minimisation: a point within a stated distance of the exact minimiser, or nothing.

J is mu-strongly convex and C a closed convex set. For every w in C and every v in the normal cone
of C at w, mu ||w - w*|| <= ||grad J(w) + v||: add the two variational inequalities. Inside C take
v = 0. On the boundary take w = P(y), y = x - step grad J(x), for any x and step: y - w is in the
normal cone, so ||grad J(w) + (y - w)/step|| / mu bounds the distance. Both are computed here, the
rounding of gradients and projections included.

Newton's method is slow far from the minimum, so where there are many rows the first rounds are made
on a part of them, whose minimiser is about as near as the rows are alike, and of those the first on
half of the part. What a model saw of the part then serves for a few steps on all rows. All of that,
and the models after it, may be in single precision: the last steps and the certificate are not.

How much is computed must not tell anything of the rows, so the certificate is looked at after a
public number of rounds only, the *milestones*. A round is always the same work: one Hessian, its
factors, and `Effort.tries` gradients, each of which serves a step or the shortening of one. After
`Effort.rounds` Newton rounds without a certificate, accelerated projected gradients take over, with
milestones at `PARTS` of the number of steps that reaches every minimiser (Nesterov 2018, Thm
2.2.7): the last one cannot be missed. Which milestone ended a run is all that its work can tell,
`MILESTONE_BITS` at most; nearly always it is the first (see `effort`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import LedgerError
from ...geometry.domains import Domain, WholeSpace
from ...problem import is_ball, projects_exactly
from .glm_objective import Floats, Tilted
from .quadratic import Model, dense_model, product_model

LARGEST_DENSE = 1500  # weights up to which a Hessian is formed and factored


PART = 8  # all rows over those of the part on which the first rounds are made
PART_ROWS = 20  # rows per weight that a part has at least
FEWEST_ROWS = 4096  # of a table that is worth a part


@dataclass(frozen=True)
class Effort:
    """The public amount of work of Newton rounds."""

    tries: int  # gradients of a round
    rounds: tuple[int, ...]  # after so many rounds in all the certificate is looked at
    early: int = 0  # rounds on a part of the rows before these, of `TRIES` gradients each

    @property
    def hessians(self) -> tuple[int, ...]:
        """How many Hessians there have been at each milestone, those of the part included."""
        return tuple(self.early + rounds for rounds in self.rounds)


PARTS = (64, 16, 4, 1)  # of the accelerated gradients: milestones at a 64th of them, ...
TIMES = (1, 4, 16)  # of the usual number of rounds: their milestones
LATE_ROUNDS = 1  # the usual number after rounds on a part of the rows, at least
LATE_TIMES = (1, 16)  # of the usual number of rounds after those: the later milestones
TRIES = 5  # gradients of a round
HANDOVER = 6  # gradients on all rows with the last model of the part
MILESTONES = len(TIMES) + len(PARTS)
MILESTONE_BITS = math.log2(MILESTONES)
TRUSTED = (
    "nobody uses how long a run takes: the work of a minimisation ends at one of "
    f"{MILESTONES} public milestones, which can tell up to {MILESTONE_BITS:.1f} bits of the rows"
)
_RISING = 0.3  # of the fall at the start of a step: where J rises faster, the step was too long
_NEXT = 0.5  # of the last move: over how much the next curvature is taken
_AHEAD = 3.0  # steps as long as the one that is due: the same where it is less
_NARROWEST = 1e-7  # of the first spread: closer, differences of slopes lose their digits


def projection_error(domain: Domain) -> float:
    """Return how far a computed projection may be off, relative to the domain's largest norm."""
    if isinstance(domain, WholeSpace):
        return 0.0
    return 1e-14 if projects_exactly(domain) else 1e-11  # the others end an iteration


def certified_error(
    rounding: float, *, domain: Domain, size: int, strong_convexity: float, smoothness: float
) -> float:
    """Return the distance that rounding alone leaves uncertain, an upper bound."""
    max_norm = domain.max_norm(size)
    off = projection_error(domain) * max_norm if math.isfinite(max_norm) else 0.0
    return (rounding + 2 * smoothness * off) / strong_convexity + off


def minimise(
    objective: Tilted, *, domain: Domain, start: Floats, distance: float, spread: float
) -> Floats:
    """Return a point of the domain within ``distance`` (l2) of the minimiser of J over it.

    Args:
        objective: J, with bounds on its curvature and on the rounding of its gradients.
        domain: C.
        start: a first guess, public or released.
        distance: what is to be certified; more than `certified_error`.
        spread: about how far the minimiser lies from the start, public. It costs or saves rounds.

    Raises:
        LedgerError: the last milestone was passed without a certificate, which only a wrong bound
            on curvature or rounding can cause. Nothing is returned then.
    """
    state = _State(objective, domain, distance)
    with np.errstate(all="ignore"):
        begun = domain.project(start)
        point = None
        if isinstance(domain, WholeSpace) or objective.size <= LARGEST_DENSE:
            point = _newton(state, begun, spread)
        if point is None:
            point = _accelerated(state, begun)
    return point


def divisible_rows(domain: Domain, rows: int) -> int:
    """Return the rows if a part of them may serve first, else 0: models of other domains are slow.

    Of 90 objectives of six tables (17,000 to 100,000 rows, five losses, the whole space and a ball)
    88 ended at the first milestone, and two hinges at the second.
    """
    return rows if is_ball(domain) else 0


def effort(size: int, condition: float, rows: int = 0) -> Effort:
    """Return the Newton rounds for so many weights and a bound on the condition number.

    ``rows`` is what `divisible_rows` says.

    Slopes that jump, and steep ones, take the more rounds the larger the condition number may be.
    Of 624 objectives 96 % ended at the first of these milestones, 4 % at the second, and three at
    the third (a sharp hinge on a few different rows, boxes in columns of unlike scales).
    """
    usual = 2 + math.ceil(math.log10(max(condition, 1.0)))
    many = size > LARGEST_DENSE  # conjugate gradients: more rounds, of one step each
    if not many and rows >= PART * PART_ROWS * size and rows >= FEWEST_ROWS:
        late = max(LATE_ROUNDS, usual - 5)
        later = (late + usual * times for times in LATE_TIMES)
        return Effort(TRIES, (late, *later), usual)
    tries, usual = (3, 2 * usual) if many else (TRIES, usual)
    return Effort(tries, tuple(usual * times for times in TIMES))


@dataclass(frozen=True)
class _State:
    """What all steps share."""

    objective: Tilted
    domain: Domain
    distance: float

    def certified(self, weights: Floats, gradient: Floats, normal: Floats | float = 0.0) -> bool:
        """Whether the point is near enough; ``normal`` is a vector of the normal cone at it."""
        residual = _length(gradient + normal) * (1 + 1e-9)
        mu = self.objective.strong_convexity
        off = projection_error(self.domain) * _length(weights)
        slack = self.objective.rounding(weights) + 2 * self.objective.smoothness * off
        return bool((residual + slack) / mu + off <= self.distance)

    def inside(self, weights: Floats) -> bool:
        """Whether the point is a member, as the projection sees it."""
        return bool(np.array_equal(self.domain.project(weights), weights))

    def on_boundary(
        self, weights: Floats, gradient: Floats, curvature: float
    ) -> tuple[Floats, Floats, bool]:
        """Take a projected gradient step; return it, its gradient, and whether it is certified."""
        moved = weights - gradient / curvature
        landed = self.domain.project(moved)
        slope, normal = self.objective.gradient(landed), (moved - landed) * curvature
        return landed, slope, self.certified(landed, slope, normal)

    def milestone(self, weights: Floats, gradient: Floats, curvature: float) -> Floats | None:
        """Return a certified point, if this one or a projected step from it is; else nothing.

        The work is the same either way.
        """
        here = self.inside(weights) and self.certified(weights, gradient)
        if isinstance(self.domain, WholeSpace):
            return weights if here else None
        landed, _, there = self.on_boundary(weights, gradient, curvature)
        return weights if here else landed if there else None


@dataclass
class _Place:
    """Where the rounds have come to."""

    weights: Floats
    gradient: Floats
    spread: float  # over how much of the weights' space the next model is to hold


def _newton(state: _State, begun: Floats, spread: float) -> Floats | None:
    """Return a certified point by Newton rounds; None if the last milestone has none."""
    objective, many = state.objective, state.objective.size > LARGEST_DENSE
    condition = objective.smoothness / objective.strong_convexity
    work = effort(objective.size, condition, divisible_rows(state.domain, objective.divisible))
    rough = objective.rough() if work.early else objective
    place, done = _first_place(state, rough, begun, spread, work), 0
    for level, milestone in enumerate(work.rounds):
        model: Any = None
        for _ in range(milestone - done):
            wide = max(place.spread, _NARROWEST * spread)
            if many:
                model = product_model(objective, place.weights, place.gradient, wide, level)
            else:
                model = dense_model(rough, state.domain, place.weights, wide, level)
            _round(objective, place, model, work.tries)
        done = milestone
        certified = state.milestone(place.weights, place.gradient, model.top)
        if certified is not None:
            return certified
    return None


def _first_place(
    state: _State, rough: Tilted, begun: Floats, spread: float, work: Effort
) -> _Place:
    """Return where the rounds on all rows begin: where those on a part of them have ended."""
    objective = state.objective
    if not work.early:
        return _Place(begun, objective.gradient(begun), spread)
    place = _Place(begun, begun, spread)
    model: Model | None = None
    half = work.early // 2  # of the rounds, on half of the part
    for divisor, rounds in ((2 * PART, half), (PART, work.early - half)):
        part = rough.part(rough.divisible // divisor)
        place.gradient = part.gradient(place.weights)
        for _ in range(rounds):
            wide = max(place.spread, _NARROWEST * spread)
            model = dense_model(part, state.domain, place.weights, wide, 0)
            _round(part, place, model, TRIES)
    assert model is not None
    place = _Place(place.weights, rough.gradient(place.weights), spread)
    _round(rough, place, model, HANDOVER)
    if rough is not objective:
        place.gradient = objective.gradient(place.weights)
    return place


def _round(objective: Tilted, place: _Place, model: Model, tries: int) -> None:
    """Go on from a place by a fixed number of gradients, each at the end of a step.

    A step is good if it halves what is left of the model's own minimisation. Else the derivative
    decides: along a line a convex function falls where it is negative. A step that is too long is
    shortened by the secant; after a good one the next is taken, with the same model.
    """
    weights, gradient, share = place.weights, place.gradient, 1.0
    step, left, tried = model.step(weights, gradient), model.left(weights, gradient), 0.0
    for _ in range(tries):
        point = weights + share * step  # a member but for rounding
        ahead = objective.gradient(point)
        falling, rising = -float(gradient @ step), float(ahead @ step)
        leaves = model.left(point, ahead)
        if leaves <= 0.5 * left or (falling > 0.0 and rising <= _RISING * falling):
            weights, gradient, left = point, ahead, leaves
            # A shortened step has not gone far, and the next one would be too long again.
            share, tried = (0.5 if tried else min(1.0, 2.0 * share)), 0.0
        else:
            tried = share * _length(step)
            share *= _secant(falling, rising)
        step = model.step(weights, gradient)
    due = share * _length(step)
    moved = max(_length(weights - place.weights), due)
    # Where a step was too long to the end, its model saw too little: the next one looks as far.
    place.spread = max(min(_NEXT * moved, _AHEAD * due), tried)
    place.weights, place.gradient = weights, gradient


def _secant(falling: float, rising: float) -> float:
    """Return the share of a step at whose end the derivative would vanish, on a straight line."""
    if not (falling > 0.0 and rising < math.inf):
        return 0.05
    return min(max(falling / (falling + rising), 0.05), 0.9)


def accelerated_steps(
    objective: Tilted, *, domain: Domain, start: Floats, distance: float
) -> tuple[int, ...]:
    """Return the milestones of accelerated gradients, the last one enough for every table.

    From a member at gradient g the minimiser is at most D = ||g||/mu away and at most ||g|| D
    below, so that K = sqrt(L/mu) log(2 (||g|| D + mu D^2/2) L/(mu^2 B^2)) steps reach what is asked
    in exact arithmetic. Twice as many are granted. ||g|| is bounded by what every row allows.
    """
    mu, top = objective.strong_convexity, objective.smoothness
    away = min(objective.steepest(start) / mu, domain.diameter(len(start)))
    away = max(away, distance)
    gap = 2 * (1.5 * mu * away**2) * top / (mu * distance) ** 2
    most = 2 * math.ceil(math.sqrt(top / mu) * math.log(max(gap, math.e))) + 20
    return tuple(math.ceil(most / part) for part in PARTS)


def _accelerated(state: _State, begun: Floats) -> Floats:
    """Return a certified point by accelerated projected gradients; their number is public."""
    objective, domain, top = state.objective, state.domain, state.objective.smoothness
    condition = math.sqrt(top / objective.strong_convexity)
    momentum = (condition - 1) / (condition + 1)
    point, ahead, done = begun, begun, 0
    for milestone in accelerated_steps(
        objective, domain=domain, start=begun, distance=state.distance
    ):
        for _ in range(milestone - done):
            landed = domain.project(ahead - objective.gradient(ahead) / top)
            ahead = landed + momentum * (landed - point)
            point = landed
        done = milestone
        certified = state.milestone(point, objective.gradient(point), top)
        if certified is not None:
            return certified
    raise LedgerError(
        "a minimiser could not be certified within its bound on the number of steps, so nothing is "
        "returned. Please report this with the plan: it holds public numbers only."
    )


def _length(vector: Floats) -> float:
    return float(np.linalg.norm(vector))
