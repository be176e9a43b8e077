"""Instances on which few rounds are measured (Choquette-Choo, Ganesh, Thakurta 2025).

| name | rows                | labels                 | loss and domain   | it shows            |
|------|---------------------|------------------------|-------------------|---------------------|
| x3   | corners of a cube   | signs                  | linear, unit ball | the theorem's rate  |
| x4   | unit sphere, uneven | logistic               | l2 ball           | acceleration        |
| x6   | unit sphere         | linear + uniform noise | squared, ball     | unbounded gradients |
"""

from __future__ import annotations

import math

import numpy as np

import dpsco as dp

from .experiment import Instance
from .instances import (
    TEST_ROWS,
    Floats,
    divergence,
    logistic_in_ball,
    logistic_labels,
    on_sphere,
    unit,
)

# -- X3: a linear loss, hard at every n ------------------------------------------------------------

# A bound on the curvature must be positive; with this one the plan's M R/L is 1.
_LINEAR = dp.losses.CustomLoss(
    lambda u, y: -u * y,
    lambda u, y: -y + 0.0 * u,
    slope_bound=1.0,
    curvature_bound=1.0,
    convex=True,
    labels="sign",
    name="linear",
)


def x3(d: int, length: float) -> Instance:
    """Return X3 (Choquette-Choo, Ganesh, Thakurta 2025): f = -y <w, x> over the unit ball.

    y x has independent coordinates +-1/sqrt(d) with a mean of ``length``, in no special direction:
    a length of about alpha_n = 1/sqrt(n) + noise is the hardest for n rows.
    """
    mean = np.where(np.arange(d) % 2 == 0, 1.0, -1.0) * length / math.sqrt(d)

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        points = np.where(rng.random((n, d)) < 0.5 * (1.0 + mean * math.sqrt(d)), 1.0, -1.0)
        y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        return y[:, None] * points / math.sqrt(d), y

    def excess(w: Floats) -> float:
        return length - float(w @ mean)

    problem = dp.Problem(
        loss=_LINEAR, bounds=dp.Bounds(1.0, label="sign"), domain=dp.domains.L2Ball(1.0)
    )
    return Instance(f"X3 linear, d = {d}, mean {length:.2g}", problem, draw, excess, length)


# -- X6: least squares -----------------------------------------------------------------------------


def x6(d: int = 20) -> Instance:
    """Return X6 (Choquette-Choo, Ganesh, Thakurta 2025): least squares, |w*| = 1, a ball of 2."""
    best = unit(d)

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        X = on_sphere(rng, n, d)
        return X, X @ best + rng.uniform(-0.5, 0.5, n)

    def excess(w: Floats) -> float:
        return float(np.sum((w - best) ** 2)) / (2 * d)

    problem = dp.Problem(
        loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=1.5), domain=dp.domains.L2Ball(2.0)
    )
    return Instance(f"X6 least squares, d = {d}", problem, draw, excess, excess(np.zeros(d)))


# -- X4: rows that vary unevenly -------------------------------------------------------------------


def x4(d: int = 20, *, radius: float = 20.0) -> Instance:
    """Return X4 (Choquette-Choo, Ganesh, Thakurta 2025): rows vary most in the first coordinates.

    x is N(0, diag(1/i)) on the unit sphere, w*_i ~ +-i^(1/4) with |w*| = 0.8 R.
    """
    order = np.arange(1, d + 1)
    best = np.where(order % 2 == 1, 1.0, -1.0) * order**0.25
    best *= 0.8 * radius / np.linalg.norm(best)
    test = uneven(np.random.default_rng(13), TEST_ROWS, d)
    true = test @ best

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        X = uneven(rng, n, d)
        return X, logistic_labels(rng, X @ best)

    def excess(w: Floats) -> float:
        return float(np.mean(divergence(test @ w, true)))

    problem = logistic_in_ball(radius)
    name = f"X4 ill-conditioned logistic, d = {d}, R = {radius:g}"
    return Instance(name, problem, draw, excess, excess(np.zeros(d)))


def uneven(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Return n rows of X4: normal with variances 1, 1/2, ..., 1/d, then made unit vectors."""
    points = rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def x4_smoothness(d: int) -> float:
    """Return the smoothness of X4's population risk: a quarter of E[x_1^2]."""
    return 0.25 * float(np.mean(uneven(np.random.default_rng(17), 10 * TEST_ROWS, d)[:, 0] ** 2))
