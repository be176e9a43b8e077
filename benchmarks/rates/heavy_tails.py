"""Heavy-tailed rows: solvers of moments on LS-t6, LAD-t3, RIDGE-LAD-t3, LASSO-t6 and Lomax means.

Bounds of rows are far beyond all rows, so that only the found clip, or that of moments, bounds a
gradient. Bands are those of the algorithms' specification, wider than three standard errors.
"""

from __future__ import annotations

import math

import numpy as np

import dpsco as dp

from .experiment import Experiment, Instance

BUDGET = dp.ApproxDP(1.0, 1e-6)
FAR = dp.Bounds(1e6, label=1e6)


def student(rng: np.random.Generator, degrees: float, shape: tuple[int, ...]) -> np.ndarray:
    """Return Student's t of variance 1."""
    return rng.standard_t(degrees, shape) * math.sqrt((degrees - 2.0) / degrees)


def ls_t6(d: int, condition: float = 1.0, radius: float = 2.0) -> Instance:
    """Return least squares: t_6 features, half a t_3 of noise; gradients have moments below 3."""
    scales = np.linspace(1.0, condition**-0.5, d)
    truth = np.full(d, 1.0 / math.sqrt(d))

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = student(rng, 6.0, (n, d)) * scales
        return X, X @ truth + 0.5 * student(rng, 3.0, (n,))

    def excess(weights: np.ndarray) -> float:
        return float(0.5 * np.sum(scales**2 * (weights - truth) ** 2))

    problem = dp.Problem(loss=dp.losses.Squared(), bounds=FAR, domain=dp.domains.L2Ball(radius))
    name = f"LS-t6, d = {d}, condition {condition:g}"
    return Instance(name, problem, draw, excess, excess(np.zeros(d)))


def lad_t3(d: int = 10, ridge: float = 0.0) -> Instance:
    """Return absolute regression: t_3 features and noise; F by 200,000 fresh rows."""
    truth = np.full(d, 1.0 / math.sqrt(d))

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = student(rng, 3.0, (n, d))
        return X, X @ truth + 0.5 * student(rng, 3.0, (n,))

    X, y = draw(np.random.default_rng(77), 200_000)

    def value(weights: np.ndarray) -> float:
        return float(np.mean(np.abs(X @ weights - y)) + 0.5 * ridge * weights @ weights)

    best = truth
    if ridge:  # along the truth, by symmetry
        lengths = np.linspace(0.0, 1.0, 201)
        best = truth * lengths[np.argmin([value(truth * length) for length in lengths])]
    least = value(best)
    penalty = dp.losses.L2Penalty(ridge) if ridge else dp.losses.NoPenalty()
    problem = dp.Problem(
        loss=dp.losses.Absolute(), bounds=FAR, domain=dp.domains.L2Ball(2.0), penalty=penalty
    )
    name = f"{'RIDGE-' if ridge else ''}LAD-t3, d = {d}"
    return Instance(name, problem, draw, lambda w: value(w) - least, value(np.zeros(d)) - least)


def lasso_t6(d: int = 50, strength: float = 0.02) -> Instance:
    """Return the lasso with identity covariance: F and its minimum are exact."""
    truth = np.zeros(d)
    truth[:5] = (0.6, -0.5, 0.4, -0.3, 0.2)
    best = np.sign(truth) * np.maximum(np.abs(truth) - strength, 0.0)

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        X = student(rng, 6.0, (n, d))
        return X, X @ truth + 0.5 * student(rng, 3.0, (n,))

    def value(weights: np.ndarray) -> float:
        return float(0.5 * np.sum((weights - truth) ** 2) + strength * np.sum(np.abs(weights)))

    problem = dp.Problem(
        loss=dp.losses.Squared(),
        bounds=FAR,
        domain=dp.domains.L2Ball(2.0),
        penalty=dp.losses.L1Penalty(strength),
    )
    least = value(best)
    trivial = value(np.zeros(d)) - least
    return Instance(f"LASSO-t6, d = {d}", problem, draw, lambda w: value(w) - least, trivial)


def lomax(alpha: float, d: int = 20) -> Instance:
    """Return the mean of independent Lomax coordinates; excess is the error's length."""
    mean = np.full(d, 1.0 / (alpha - 1.0))
    problem = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=dp.Bounds(1e9))
    return Instance(
        f"Lomax({alpha:g}) mean, d = {d}",
        problem,
        lambda rng, n: (rng.pareto(alpha, (n, d)), None),
        lambda w: float(np.linalg.norm(w - mean)),
        float(np.linalg.norm(mean)),
    )


FOUND = {"clip": "auto"}
KNOWN = {**FOUND, "population_smoothness": 1.0}


def _private(epsilon: float) -> dp.ApproxDP:
    return dp.ApproxDP(epsilon, 1e-6)


EXPERIMENTS = (
    Experiment(
        "mean oracle, k = 2, clip of the moment",
        lomax(2.2),
        "l2_clip_mean_oracle",
        BUDGET,
        (1000, 16_000, 256_000),
        options={"moment": 10.99},
        slope=(-0.60, -0.42),
    ),
    Experiment(
        "mean oracle, k = 4, clip of the moment",
        lomax(4.2),
        "l2_clip_mean_oracle",
        BUDGET,
        (1000, 16_000, 256_000),
        options={"moment": 3.39, "order": 4.0},
        slope=(-0.80, -0.55),
    ),
    Experiment(
        "sgd_sc, kappa = 1, clip found",
        ls_t6(10),
        "clipped_sgd_sc",
        BUDGET,
        (2000, 8000, 32_000),
        repeats=12,
        options={**KNOWN, "strong_convexity": 1.0},
        slope=(-1.8, -0.9),
        excess={32_000: (0.0, 0.004)},
    ),
    Experiment(
        "sgd_sc, kappa = 10, clip found",
        ls_t6(10, 10.0),
        "clipped_sgd_sc",
        BUDGET,
        (8000, 32_000),
        repeats=8,
        options={**KNOWN, "strong_convexity": 0.1},
        excess={32_000: (0.0, 0.035)},
    ),
    Experiment(
        "acsa, clip found",
        ls_t6(20),
        "clipped_acsa",
        BUDGET,
        (2000, 8000, 32_000),
        repeats=8,
        options=KNOWN,
        slope=(-1.3, -0.55),
        excess={32_000: (0.0, 0.05)},
    ),
    Experiment(
        "prox, lasso, clip found",
        lasso_t6(),
        "clipped_prox_sgd",
        BUDGET,
        (4000, 16_000, 64_000),
        options={**KNOWN, "strong_convexity": 1.0},
        slope=(-1.9, -1.0),
        excess={64_000: (0.0, 0.01)},
    ),
    Experiment(
        "localized, clip found",
        lad_t3(),
        "localized_clipped_subgradient",
        BUDGET,
        (2048, 8192),
        options=FOUND,
        slope=(-2.4, -0.8),
        excess={8192: (0.0, 0.0021)},
    ),
    Experiment(
        "localized on samples, clip found",
        lad_t3(),
        "localized_clipped_minibatch",
        BUDGET,
        (8192,),
        repeats=3,
        options=FOUND,
        excess={8192: (0.0, 0.006)},
    ),
    Experiment(
        "stages, clip found",
        lad_t3(ridge=0.5),
        "strongly_convex_localized",
        BUDGET,
        (4096, 16_384),
        repeats=3,
        options=FOUND,
        excess={16_384: (0.0, 0.003)},
    ),
    *(
        Experiment(
            f"sgd_sc, n = 16,000, epsilon = {epsilon:g}",
            ls_t6(10),
            "clipped_sgd_sc",
            _private(epsilon),
            (16_000,),
            repeats=8,
            options={**KNOWN, "strong_convexity": 1.0},
            excess={16_000: (0.0, limit)},
        )
        for epsilon, limit in ((0.25, 0.04), (4.0, 0.003))
    ),
)
