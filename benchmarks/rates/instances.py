"""Synthetic problems whose excess risk is known: by formula, by quadrature, or on fixed rows.

| name            | rows                     | labels                  | loss and domain        |
|-----------------|--------------------------|-------------------------|------------------------|
| e1              | unit sphere              | linear + uniform noise  | absolute, power, Huber |
| e2              | unit sphere              | sign of x_1, flipped    | hinge, ball            |
| a               | unit sphere, or subspace | linear + normal noise   | absolute, ball or R^d  |
| u1              | corners of a cube        | logistic                | l1 or l2 ball          |
| u2              | few unit vectors         | none                    | squared distance       |
| logistic_sphere | corners of a cube        | logistic, dense weights | R^d                    |
| x2              | unit sphere              | logistic                | l2 ball                |

The excess of ``u1`` and ``logistic_sphere`` is relative to that of the zero weights, as the tables
that they are compared with have it; all others are absolute.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import expit, ndtr

import dpsco as dp

from .experiment import Instance

NODES = 1_500  # of each quadrature: errors below 1e-6
TEST_ROWS = 20_000  # for risks over the corners of a cube
NOISE = 0.3  # of E1, uniform on [-0.3, 0.3]

Floats = np.ndarray
Antiderivative = Callable[[Floats], Floats]


# -- expectations over the sphere ------------------------------------------------------------------


@lru_cache(maxsize=32)
def sphere_1d(d: int) -> tuple[Floats, Floats]:
    """Return nodes and weights for one coordinate of a uniform point on the sphere of R^d, d >= 2.

    t = cos(angle) with density ~ sin(angle)^(d - 2): the midpoint rule.
    """
    angle = (np.arange(NODES) + 0.5) * math.pi / NODES
    weights = np.sin(angle) ** (d - 2)
    return np.cos(angle), weights / weights.sum()


@lru_cache(maxsize=32)
def sphere_2d(d: int) -> tuple[Floats, Floats, Floats]:
    """Return nodes (first, second) and weights for two coordinates, d >= 4.

    The radius r has density ~ r (1 - r^2)^((d - 4)/2), the angle is uniform.
    """
    nodes, gauss = np.polynomial.legendre.leggauss(NODES // 10)
    radius = 0.5 * (nodes + 1.0)
    weights = gauss * radius * (1.0 - radius**2) ** ((d - 4) / 2)
    angle = (np.arange(NODES) + 0.5) * 2.0 * math.pi / NODES
    first, second = np.outer(radius, np.cos(angle)), np.outer(radius, np.sin(angle))
    return first, second, np.repeat(weights[:, None] / (weights.sum() * NODES), NODES, axis=1)


def on_sphere(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Return n uniform points on the unit sphere."""
    points = rng.standard_normal((n, d))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def on_cube(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Return n uniform corners of the cube that the unit sphere surrounds."""
    return (2.0 * rng.integers(0, 2, (n, d)) - 1.0) / math.sqrt(d)


def unit(d: int, length: float = 1.0) -> Floats:
    """Return a multiple of the first unit vector."""
    return np.concatenate([[length], np.zeros(d - 1)])


# -- E1: linear labels with uniform noise ----------------------------------------------------------


def _absolute(u: Floats) -> Floats:
    return 0.5 * u * np.abs(u)


def _power(u: Floats) -> Floats:
    return np.sign(u) * np.abs(u) ** 2.5 / 2.5


def _huber(u: Floats) -> Floats:
    size, h = np.abs(u), NOISE
    outside = h**3 / 6 + 0.5 * h * (size**2 - h**2) - 0.5 * h**2 * (size - h)
    return np.sign(u) * np.where(size <= h, size**3 / 6, outside)


# Losses of E1 with their antiderivatives, by which the average over the noise is exact.
_E1: dict[str, tuple[dp.losses.MarginLoss, Antiderivative]] = {
    "absolute": (dp.losses.Absolute(), _absolute),
    "power": (dp.losses.QPower(1.5), _power),
    "huber": (dp.losses.Huber(NOISE), _huber),
}


def e1(loss_name: str, d: int) -> Instance:
    """Return E1 (Wang, Lei, Ying, Zhang 2022): y = <w*, x> + noise, |w*| = 1, unit ball.

    ``loss_name`` is "absolute", "power" (|r|^1.5) or "huber" (threshold 0.3).
    """
    loss, antiderivative = _E1[loss_name]
    best, (t, weights) = unit(d), sphere_1d(d)

    def mean(shift: Floats) -> Floats:  # over the noise
        return (antiderivative(shift + NOISE) - antiderivative(shift - NOISE)) / (2 * NOISE)

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        X = on_sphere(rng, n, d)
        return X, X @ best + rng.uniform(-NOISE, NOISE, n)

    def excess(w: Floats) -> float:
        r = float(np.linalg.norm(w - best))
        return float(weights @ (mean(r * t) - mean(np.zeros(1))))

    problem = dp.Problem(
        loss=loss,
        bounds=dp.Bounds(1.0, label=1.0 + NOISE),
        domain=dp.domains.L2Ball(1.0),
    )
    return Instance(f"E1 {loss_name}, d = {d}", problem, draw, excess, excess(np.zeros(d)))


# -- E2: hinge, a sign with flips ------------------------------------------------------------------


def e2(d: int = 10, *, radius: float = 5.0, flips: float = 0.1) -> Instance:
    """Return E2 (Wang, Lei, Ying, Zhang 2022): the hinge loss, y = sign(x_1) flipped at times."""
    first, second, weights = sphere_2d(d)
    signs = np.sign(first)

    def risk(along: float, across: float) -> float:
        margin = signs * (along * first + across * second)
        right, wrong = np.maximum(0.0, 1.0 - margin), np.maximum(0.0, 1.0 + margin)
        return float(np.sum(weights * ((1.0 - flips) * right + flips * wrong)))

    t, line = sphere_1d(d)

    def along(length: float) -> float:  # the same on the axis, where one coordinate is enough
        right, wrong = (np.maximum(0.0, 1.0 - sign * length * np.abs(t)) for sign in (1.0, -1.0))
        return float(line @ ((1.0 - flips) * right + flips * wrong))

    least = _least(along, radius)

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        X = on_sphere(rng, n, d)
        return X, np.where(X[:, 0] >= 0, 1.0, -1.0) * np.where(rng.random(n) < flips, -1.0, 1.0)

    def excess(w: Floats) -> float:
        return risk(float(w[0]), float(np.linalg.norm(w[1:]))) - least

    problem = dp.Problem(
        loss=dp.losses.Hinge(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=dp.domains.L2Ball(radius),
    )
    return Instance(f"E2 hinge, d = {d}", problem, draw, excess, 1.0 - least)


def _least(risk: Callable[[float], float], radius: float) -> float:
    """Return the minimum of a convex function on [0, radius], by golden section."""
    low, high, ratio = 0.0, radius, (math.sqrt(5.0) - 1.0) / 2.0
    for _ in range(40):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if risk(left) < risk(right) else (left, high)
    return min(risk(0.5 * (low + high)), risk(radius))


# -- A: absolute loss, normal noise ----------------------------------------------------------------


def a(d: int, *, rank: int | None = None, noise: float = 0.1) -> Instance:
    """Return instance A (Bassily, Guzman, Menart 2021): least absolute deviations, |w*| = 0.8.

    With a ``rank`` the rows lie in a subspace of that dimension and the weights are free.
    """
    inner = d if rank is None else rank
    basis = np.eye(d)
    if rank is not None:  # a subspace that is no coordinate subspace, the same every time
        basis = np.linalg.qr(np.random.default_rng(7).standard_normal((d, rank)))[0]
    best, (t, weights) = basis[:, 0] * 0.8, sphere_1d(inner)

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        points = on_sphere(rng, n, inner)
        X = points if rank is None else points @ basis.T
        return X, 0.8 * points[:, 0] + noise * rng.standard_normal(n)

    def excess(w: Floats) -> float:  # E|s z + u| = s sqrt(2/pi) e^(-u^2/2s^2) + u (1 - 2 Phi(-u/s))
        off = w - best if rank is None else basis.T @ (w - best)
        u = np.abs(float(np.linalg.norm(off)) * t)
        normal = noise * math.sqrt(2.0 / math.pi)
        mean = normal * np.exp(-0.5 * (u / noise) ** 2) + u * (1.0 - 2.0 * ndtr(-u / noise))
        return float(weights @ mean) - normal

    problem = dp.Problem(
        loss=dp.losses.Absolute(),
        bounds=dp.Bounds(1.0, label=0.8 + 6.0 * noise),  # six standard deviations: no label is cut
        domain=dp.domains.L2Ball(1.0) if rank is None else dp.domains.WholeSpace(),
        scale=None if rank is None else 1.0,
    )
    name = f"A absolute, d = {d}" + ("" if rank is None else f", rank {rank}")
    return Instance(name, problem, draw, excess, excess(np.zeros(d)))


# -- logistic labels -------------------------------------------------------------------------------


def divergence(margins: Floats, true: Floats) -> Floats:
    """Return the expected logistic loss at ``margins`` minus that at ``true``, labels from true."""
    return np.logaddexp(0.0, margins) - np.logaddexp(0.0, true) - expit(true) * (margins - true)


def logistic_labels(rng: np.random.Generator, margins: Floats) -> Floats:
    """Return labels that follow the logistic model with these margins."""
    return np.where(rng.random(len(margins)) < expit(margins), 1.0, -1.0)


def _on_corners(
    name: str, best: Floats, domain: dp.domains.Domain, scale: float | None
) -> Instance:
    """Return logistic regression on corners of a cube; excess relative to the zero weights'."""
    d = len(best)
    test = on_cube(np.random.default_rng(11), TEST_ROWS, d)
    true = test @ best
    trivial = float(np.mean(divergence(np.zeros(TEST_ROWS), true)))

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        X = on_cube(rng, n, d)
        return X, logistic_labels(rng, X @ best)

    def excess(w: Floats) -> float:
        return float(np.mean(divergence(test @ w, true))) / trivial

    problem = dp.Problem(
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=domain,
        scale=scale,
    )
    return Instance(name, problem, draw, excess, 1.0)


def u1(d: int, ball: str = "l1") -> Instance:
    """Return U1 (Su, Zhao, Wang 2023): one weight of 9.99, an l1 or l2 ball of radius 10."""
    domain = {"l1": dp.domains.L1Ball, "l2": dp.domains.L2Ball}[ball](10.0)
    return _on_corners(f"U1 logistic, {ball} ball, d = {d}", unit(d, 9.99), domain, None)


def logistic_sphere(d: int, *, scale: float | None = 8.0) -> Instance:
    """Return the unconstrained instance of Su, Zhao, Wang 2023: dense weights of length 8."""
    signs = np.where(np.arange(d) % 2 == 0, 1.0, -1.0)
    best = signs * 8.0 / math.sqrt(d)
    return _on_corners(f"logistic, free, d = {d}", best, dp.domains.WholeSpace(), scale)


def x2(d: int = 20, *, radius: float = 10.0) -> Instance:
    """Return X2 (Choquette-Choo, Ganesh, Thakurta 2025): logistic on the sphere, |w*| = 8.

    A ``radius`` below 8 leaves w* outside of the ball (X5).
    """
    first, second, weights = sphere_2d(d)
    best = unit(d, 8.0)

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        X = on_sphere(rng, n, d)
        return X, logistic_labels(rng, X @ best)

    def risk(w: Floats) -> float:  # less that of w*
        margins = float(w[0]) * first + float(np.linalg.norm(w[1:])) * second
        return float(np.sum(weights * divergence(margins, 8.0 * first)))

    least = risk(unit(d, min(8.0, radius)))  # by symmetry the best weights are on the axis

    def excess(w: Floats) -> float:
        return risk(w) - least

    name = f"X2 logistic, d = {d}" if radius >= 8.0 else f"X5 logistic, d = {d}, R = {radius:g}"
    return Instance(name, logistic_in_ball(radius), draw, excess, excess(np.zeros(d)))


def logistic_in_ball(radius: float) -> dp.Problem:
    """Return logistic regression on rows of at most unit length, over an l2 ball."""
    return dp.Problem(
        loss=dp.losses.Logistic(),
        bounds=dp.Bounds(1.0, label="sign"),
        domain=dp.domains.L2Ball(radius),
    )


# -- U2: mean estimation ---------------------------------------------------------------------------


def u2(d: int, ball: str = "l1") -> Instance:
    """Return U2 (Su, Zhao, Wang 2023): rows are 5 of the d unit vectors; l1 ball, or "none"."""
    mean = np.zeros(d)
    mean[:5] = 0.2

    def draw(rng: np.random.Generator, n: int) -> tuple[Floats, None]:
        X = np.zeros((n, d))
        X[np.arange(n), rng.integers(0, 5, n)] = 1.0
        return X, None

    def excess(w: Floats) -> float:
        return 0.5 * float(np.sum((w - mean) ** 2))

    problem = dp.Problem(
        loss=dp.losses.SquaredDistance(),
        bounds=dp.Bounds(1.0),
        domain=dp.domains.L1Ball(1.0) if ball == "l1" else dp.domains.WholeSpace(),
    )
    return Instance(f"U2 mean, {ball}, d = {d}", problem, draw, excess, excess(np.zeros(d)))
