"""Quadratic models of an objective, and their minimisers over a domain, by a fixed amount of work.

    m(p) = <g, p> + 1/2 p' H p,   least over w + p in C

Whole space: one Cholesky factor. Euclidean ball: the eigenvalues, and the multiplier of the sphere
by Newton's method on 1/||w - c|| (More, Sorensen 1983), `_SECULAR` steps. Other domains: projected
gradients with momentum, a number of steps that the caller's effort decides, restarted where the
momentum points uphill (O'Donoghue, Candes 2015). Many weights: conjugate gradients, a fixed number
of products. Nothing ends early: how hard a model was tells nothing, and none has to be exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from ...geometry.domains import Domain, WholeSpace
from ...problem import is_ball
from .glm_objective import Floats, Tilted

MODEL_STEPS = 20  # projected gradients for one step, four times as many a level further
MODEL_PRODUCTS = 10  # Hessian products for one step, likewise
_SECULAR = 12  # Newton steps for the multiplier; more than it ever took for all digits


class Model(Protocol):
    """What Newton rounds ask of a model."""

    @property
    def top(self) -> float:
        """About the largest eigenvalue, or more."""

    def step(self, weights: Floats, gradient: Floats) -> Floats:
        """Return about the step that minimises the model over the domain."""

    def left(self, weights: Floats, gradient: Floats) -> float:
        """Return the length of the gradient mapping: 0 at the minimiser, nowhere else."""


def dense_model(
    objective: Tilted, domain: Domain, weights: Floats, spread: float, level: int
) -> Model:
    """Return a model with its Hessian in full; ``spread`` is how far it is to hold."""
    from scipy.linalg import cho_factor, cho_solve

    hessian = objective.hessian(weights, spread)
    if objective.single:  # its rounding may exceed the ridge
        values, basis = np.linalg.eigh(hessian)
        values = np.maximum(values, objective.strong_convexity)
        if isinstance(domain, WholeSpace):
            inverse = (basis / values) @ basis.T
            return _Free(inverse.dot, float(values[-1]))
        hessian = (basis * values) @ basis.T
    # Row sums bound the largest eigenvalue; the norm of the square is nearer to it.
    top = min(
        float(np.max(np.sum(np.abs(hessian), axis=1))),
        float(np.linalg.norm(hessian @ hessian)) ** 0.5,
    )
    if is_ball(domain) and not isinstance(domain, WholeSpace):
        values, basis = np.linalg.eigh(hessian)
        centre, radius = domain.centre(objective.size), domain.radius(objective.size)
        values = np.maximum(values, objective.strong_convexity)
        return _OnBall(centre, radius, values, basis, top)
    jitter = 1e-14 * top * np.eye(objective.size)  # rounding must not make it indefinite
    factor = cho_factor(hessian + jitter, check_finite=False)
    if isinstance(domain, WholeSpace):
        return _Free(partial(cho_solve, factor, check_finite=False), top)
    return _Projected(domain, hessian, factor, top, MODEL_STEPS * 4**level)


def product_model(
    objective: Tilted, weights: Floats, gradient: Floats, spread: float, level: int
) -> Model:
    """Return a model by products with the Hessian, for many weights on the whole space."""
    return _Products(objective, weights, gradient, spread, MODEL_PRODUCTS * 4**level)


@dataclass(frozen=True)
class _Free:
    """A model on the whole space."""

    solve: Callable[[Floats], Floats]  # multiplies by the inverse
    top: float

    def step(self, weights: Floats, gradient: Floats) -> Floats:
        """Return the Newton step."""
        return -self.solve(gradient)

    def left(self, weights: Floats, gradient: Floats) -> float:
        """Return the length of the gradient."""
        return float(np.linalg.norm(gradient))


@dataclass(frozen=True)
class _OnBall:
    """A model on a Euclidean ball."""

    centre: Floats
    radius: float
    values: Floats
    basis: Floats
    top: float

    def step(self, weights: Floats, gradient: Floats) -> Floats:
        """Return the exact step: (H + t) (w + p - c) = H (z - c), z least without the ball."""
        newton = weights - self.basis @ ((self.basis.T @ gradient) / self.values)
        along, t = self.values * (self.basis.T @ (newton - self.centre)), 0.0
        for _ in range(_SECULAR):
            shrunk = along / (self.values + t)
            square = max(float(shrunk @ shrunk), 1e-300)
            falls = max(float(shrunk @ (shrunk / (self.values + t))), 1e-300)
            t = max(t + (math.sqrt(square) / self.radius - 1.0) * square / falls, 0.0)
        goal = self.centre + self.basis @ (along / (self.values + t))
        return np.asarray(goal - weights)

    def left(self, weights: Floats, gradient: Floats) -> float:
        """Return the length of the gradient mapping."""
        moved = weights - gradient / self.top - self.centre
        length = float(np.linalg.norm(moved))
        landed = self.centre + min(1.0, self.radius / max(length, 1e-300)) * moved
        return self.top * float(np.linalg.norm(weights - landed))


@dataclass(frozen=True)
class _Projected:
    """A model on any other domain."""

    domain: Domain
    hessian: Floats
    factor: Any
    top: float
    steps: int

    def step(self, weights: Floats, gradient: Floats) -> Floats:
        """Return about the step, by accelerated projected gradients from the projected one.

        Or from no step, if the model is less there: near its minimum it is.
        """
        from scipy.linalg import cho_solve

        newton = weights - cho_solve(self.factor, gradient, check_finite=False)
        first = self.domain.project(newton) - weights
        lower = float(first @ (gradient + 0.5 * (self.hessian @ first))) < 0.0
        point = ahead = weights + first if lower else weights
        speed = 1.0
        for _ in range(self.steps):
            slope = gradient + self.hessian @ (ahead - weights)
            landed = self.domain.project(ahead - slope / self.top)
            if float((ahead - landed) @ (landed - point)) > 0.0:
                speed = 1.0
            faster = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * speed * speed))
            ahead = landed + (speed - 1.0) / faster * (landed - point)
            point, speed = landed, faster
        return np.asarray(point - weights)

    def left(self, weights: Floats, gradient: Floats) -> float:
        """Return the length of the gradient mapping."""
        moved = self.domain.project(weights - gradient / self.top)
        return self.top * float(np.linalg.norm(weights - moved))


class _Products:
    """A model by products with the Hessian: one step, from where it was made."""

    def __init__(
        self, objective: Tilted, weights: Floats, gradient: Floats, spread: float, products: int
    ) -> None:
        self.top = objective.smoothness
        self._weights = weights
        step, residual = np.zeros(len(gradient)), -gradient
        along, square = residual, float(residual @ residual)
        product = objective.hessian_product(weights, spread)
        for _ in range(products):  # conjugate gradients
            bent = product(along)
            curved = float(along @ bent)
            share = square / curved if curved > 0.0 else 0.0  # 0: it is least already
            step, residual = step + share * along, residual - share * bent
            before, square = square, float(residual @ residual)
            along = residual + (square / before if before > 0.0 else 0.0) * along
        self._step = step

    def step(self, weights: Floats, gradient: Floats) -> Floats:
        """Return about the Newton step; none from elsewhere."""
        return self._step if weights is self._weights else np.zeros_like(weights)

    def left(self, weights: Floats, gradient: Floats) -> float:
        """Return the length of the gradient."""
        return float(np.linalg.norm(gradient))


MODELS: tuple[type, ...] = (_Free, _OnBall, _Projected, _Products)
