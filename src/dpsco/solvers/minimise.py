"""Certified minimisation: a point within a stated distance of the exact minimiser, or nothing.

J is mu-strongly convex and C a closed convex set. For every w in C and every v in the normal cone
of C at w, mu ||w - w*|| <= ||grad J(w) + v||: add the two variational inequalities. Inside C take
v = 0. On the boundary take w = P(y), y = x - step grad J(x), for any x and step: y - w is in the
normal cone, so ||grad J(w) + (y - w)/step|| / mu bounds the distance. Both are computed here, the
rounding of gradients and projections included.

Newton steps (each minimises the quadratic model over C) do the work; the Hessian is formed again
only when a step falls short. Should they fail, accelerated projected gradients take over, whose
number of steps is bounded in advance (Nesterov 2018, Thm 2.2.7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import LedgerError
from ..geometry.domains import Box, Domain, LpBall, Simplex, WholeSpace
from .glm_objective import Floats, Tilted

LARGEST_DENSE = 1500  # weights up to which a Hessian is formed and factored
_STEPS = 60  # Newton steps before accelerated gradients take over
_SLOW = 0.25  # a step that leaves more of the gradient than this asks for a new Hessian
_SEARCHES = 40  # shortenings of a step
_MODEL_STEPS = 20_000  # of accelerated gradients on the quadratic model
_PRODUCTS = 250  # Hessian products for one Newton step


def projection_error(domain: Domain) -> float:
    """Return how far a computed projection may be off, relative to the domain's reach."""
    if isinstance(domain, WholeSpace):
        return 0.0
    closed = isinstance(domain, (Box, Simplex)) or (
        isinstance(domain, LpBall) and domain.p in (1.0, 2.0, math.inf)
    )
    return 1e-14 if closed else 1e-11  # the others end an iteration


def certified_error(
    rounding: float, *, domain: Domain, size: int, strong_convexity: float, smoothness: float
) -> float:
    """Return the distance that rounding alone leaves uncertain, an upper bound."""
    reach = domain.reach(size)
    off = projection_error(domain) * reach if math.isfinite(reach) else 0.0
    return (rounding + 2 * smoothness * off) / strong_convexity + off


def minimise(objective: Tilted, *, domain: Domain, start: Floats, distance: float) -> Floats:
    """Return a point of the domain within ``distance`` (l2) of the minimiser of J over it.

    Args:
        objective: J, with bounds on its curvature and on the rounding of its gradients.
        domain: C.
        start: a first guess.
        distance: what is to be certified; more than `certified_error`.

    Raises:
        LedgerError: the bound on the number of steps was passed without a certificate, which only
            a wrong bound on curvature or rounding can cause. Nothing is returned then.
    """
    state = _State(objective, domain, distance)
    with np.errstate(all="ignore"):
        weights = domain.project(start)
        gradient = objective.gradient(weights)
        newton = _newton if isinstance(domain, WholeSpace) else _projected_newton
        found = newton(state, weights, gradient)
        if found is None:
            found = _accelerated(state, weights, gradient)
    return found


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
        found = self.objective.gradient(landed)
        normal = (moved - landed) * curvature
        return landed, found, self.certified(landed, found, normal)


def _newton(state: _State, weights: Floats, gradient: Floats) -> Floats | None:
    """Return a certified point of the whole space; None if Newton steps do not lead to one."""
    objective, model = state.objective, None
    for _ in range(_STEPS):
        if state.certified(weights, gradient):
            return weights
        if model is None:
            model = _model(objective, weights)
        before = _length(gradient)
        weights, gradient = _search(objective, weights, gradient, model.step(gradient))
        if not _length(gradient) <= _SLOW * before:
            model = None
    return None


def _projected_newton(state: _State, weights: Floats, gradient: Floats) -> Floats | None:
    """Return a certified point of the domain; None if Newton steps do not lead to one."""
    objective, domain, model = state.objective, state.domain, None
    if objective.size > LARGEST_DENSE:
        return None
    near = 10 * objective.strong_convexity * state.distance
    largest = 0.0
    for _ in range(_STEPS):
        if state.inside(weights) and state.certified(weights, gradient):
            return weights
        if model is None:
            model = _model(objective, weights)
        before = model.mapping(domain, weights, gradient)
        if before <= near:
            weights, gradient, done = state.on_boundary(weights, gradient, model.top)
            if done:
                return weights
            before = model.mapping(domain, weights, gradient)
        largest = max(largest, before)
        goal = model.minimise(domain, weights, gradient, min(0.1, before / largest) * before)
        found = objective.gradient(goal)
        after = model.mapping(domain, goal, found)
        if after <= 0.5 * before:
            weights, gradient = goal, found
        else:
            weights, gradient = _search(objective, weights, gradient, goal - weights)
        if not after <= _SLOW * before:
            model = None
    return None


def _search(
    objective: Tilted, weights: Floats, gradient: Floats, step: Floats
) -> tuple[Floats, Floats]:
    """Return a point along the step, and its gradient: where J hardly rises any more.

    Along a line a convex function falls where its derivative is negative, so the derivative alone
    says whether a step is too long. Shortenings follow the secant.
    """
    falling = -float(gradient @ step)
    point, found, share = weights, gradient, 1.0
    if not falling > 0.0:  # the model is least here already, to rounding
        return point, found
    for _ in range(_SEARCHES):
        point = weights + share * step
        found = objective.gradient(point)
        rising = float(found @ step)
        if rising <= 0.3 * falling:
            break
        secant = falling / (falling + rising) if math.isfinite(rising) else 0.0
        share *= min(max(secant, 0.05), 0.9)
    return point, found


@dataclass(frozen=True)
class _Dense:
    """A quadratic model of J with its Hessian in full."""

    hessian: Floats
    factor: Any  # Cholesky
    top: float  # at least the largest eigenvalue

    def step(self, gradient: Floats) -> Floats:
        """Return the Newton step."""
        from scipy.linalg import cho_solve

        return np.asarray(-cho_solve(self.factor, gradient, check_finite=False))

    def mapping(self, domain: Domain, weights: Floats, gradient: Floats) -> float:
        """Return the length of the gradient mapping: 0 at the minimiser."""
        return self.top * _length(weights - domain.project(weights - gradient / self.top))

    def minimise(
        self, domain: Domain, weights: Floats, gradient: Floats, tolerance: float
    ) -> Floats:
        """Return about where the model is least over the domain: gradients with momentum.

        Restarted when the momentum points uphill (O'Donoghue, Candes 2015).
        """
        newton = weights + self.step(gradient)
        point = domain.project(newton)
        if np.array_equal(point, newton):
            return point
        ahead, speed = point, 1.0
        tolerance = max(tolerance, 1e-15 * self.top * _length(weights))  # rounding
        for _ in range(_MODEL_STEPS):
            slope = gradient + self.hessian @ (ahead - weights)
            landed = domain.project(ahead - slope / self.top)
            if self.top * _length(landed - ahead) <= tolerance:
                return landed
            if float((ahead - landed) @ (landed - point)) > 0.0:
                speed = 1.0
            faster = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * speed * speed))
            ahead = landed + (speed - 1.0) / faster * (landed - point)
            point, speed = landed, faster
        return point


@dataclass(frozen=True)
class _Products:
    """A quadratic model of J by products with its Hessian, for many weights."""

    objective: Tilted
    weights: Floats

    def step(self, gradient: Floats) -> Floats:
        """Return about the Newton step, by conjugate gradients."""
        found, residual = np.zeros(len(gradient)), -gradient
        along, square = residual, float(residual @ residual)
        enough = (0.05 * math.sqrt(square)) ** 2
        for _ in range(_PRODUCTS):
            if square <= enough:
                break
            bent = self.objective.hessian_product(self.weights, along)
            share = square / float(along @ bent)
            found, residual = found + share * along, residual - share * bent
            before, square = square, float(residual @ residual)
            along = residual + square / before * along
        return found


def _model(objective: Tilted, weights: Floats) -> Any:
    """Return a quadratic model of J at a point."""
    if objective.size > LARGEST_DENSE:
        return _Products(objective, weights)
    from scipy.linalg import cho_factor

    hessian = objective.hessian(weights)
    # Row sums bound the largest eigenvalue; the norm of the square is nearer to it.
    top = min(
        float(np.max(np.sum(np.abs(hessian), axis=1))),
        float(np.linalg.norm(hessian @ hessian)) ** 0.5,
    )
    jitter = 1e-14 * top * np.eye(objective.size)  # rounding must not make it indefinite
    return _Dense(hessian, cho_factor(hessian + jitter, check_finite=False), top)


def _accelerated(state: _State, weights: Floats, gradient: Floats) -> Floats:
    """Return a certified point by accelerated projected gradients, their number bounded ahead.

    From a member at gradient g the minimiser is at most D = ||g||/mu away and at most ||g|| D
    below, so that K = sqrt(L/mu) log(2 (||g|| D + mu D^2/2) L/(mu^2 B^2)) steps reach what is asked
    in exact arithmetic. Twice as many are granted.
    """
    objective, domain = state.objective, state.domain
    mu, top = objective.strong_convexity, objective.smoothness
    away = max(_length(gradient) / mu, state.distance)
    condition = math.sqrt(top / mu)
    gap = 2 * (1.5 * mu * away**2) * top / (mu * state.distance) ** 2
    most = 2 * math.ceil(condition * math.log(max(gap, math.e))) + 20
    momentum = (condition - 1) / (condition + 1)
    point, ahead = weights, weights
    for _ in range(most):
        slope = objective.gradient(ahead)
        landed = domain.project(ahead - slope / top)
        if top * _length(ahead - landed) <= mu * state.distance:
            checked, _, done = state.on_boundary(ahead, slope, top)
            if done:
                return checked
        ahead = landed + momentum * (landed - point)
        point = landed
    raise LedgerError(
        "a minimiser could not be certified within its bound on the number of steps, so nothing is "
        "returned. Please report this with the plan: it holds public numbers only."
    )


def _length(vector: Floats) -> float:
    return float(np.linalg.norm(vector))
