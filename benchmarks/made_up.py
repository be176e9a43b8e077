"""Made-up tables that look like real ones: categories, skewed numbers, rare values, a constant."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

import dpsco as dp

FRESH = 20_000  # test rows


@dataclass(frozen=True)
class Table:
    """Training rows and fresh rows of one law."""

    X: np.ndarray
    y: np.ndarray
    fresh_rows: np.ndarray
    fresh_labels: np.ndarray

    def excess(self, loss: dp.losses.MarginLoss, weights: np.ndarray, best: float) -> float:
        """Return the mean loss of the weights on fresh rows, less the best one."""
        return float(np.mean(loss.value(self.fresh_rows @ weights, self.fresh_labels))) - best

    def best(self, loss: dp.losses.MarginLoss, radius: float = np.inf) -> float:
        """Return the least mean loss on the fresh rows over the ball."""
        X, y = self.fresh_rows, self.fresh_labels

        def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
            margin = X @ w
            return float(np.mean(loss.value(margin, y))), X.T @ loss.slope(margin, y) / len(y)

        free = minimize(objective, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B").x
        if np.linalg.norm(free) <= radius:
            return objective(free)[0]
        w, least = free * radius / np.linalg.norm(free), math.inf
        for t in range(400):  # projected steps that shrink: slow, and good to three digits
            value, slope = objective(w)
            least = min(least, value)
            w = w - radius / (1 + t) ** 0.5 * slope / max(np.linalg.norm(slope), 1e-12)
            w *= min(1.0, radius / np.linalg.norm(w))
        return least


def features(rng: np.random.Generator, rows: int, wide: int) -> np.ndarray:
    """Return rows of l2 norm at most 1: one-hot categories, numbers in [0, 1], a constant."""
    columns = []
    for _ in range(rng.integers(1, 9)):
        count = int(rng.integers(2, wide))
        codes = rng.choice(count, size=rows, p=rng.dirichlet(np.ones(count)))
        columns.append(np.eye(count)[codes])
    for _ in range(rng.integers(2, 10)):
        values = rng.beta(*rng.uniform(0.5, 5.0, 2), size=rows)
        if rng.random() < 0.3:
            values *= rng.random(rows) < 0.15
        columns.append(values[:, None])
    X = np.hstack([*columns, np.ones((rows, 1))])
    return X / np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))


def table(seed: int, *, classes: bool) -> Table:
    """Return a table with labels -1 and 1, or numbers in [-1, 1], from a linear model."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([2_000, 8_000, 32_000]))
    X = features(rng, n + FRESH, int(rng.choice([4, 10, 30])))
    truth = rng.normal(size=X.shape[1]) * (rng.random(X.shape[1]) < rng.uniform(0.3, 1.0))
    signal = X @ truth
    signal = (signal - signal.mean()) / max(signal.std(), 1e-9)
    if classes:
        chance = expit(rng.uniform(1.0, 3.5) * signal + rng.uniform(-2.5, 0.5))
        y = np.where(rng.random(len(X)) < chance, 1.0, -1.0)
    else:
        signal *= rng.uniform(0.5, 1.0) / np.abs(signal).max()
        noise = rng.normal(size=len(X)) if rng.random() < 0.5 else rng.standard_t(3, size=len(X))
        y = np.clip(signal - rng.uniform(0.0, 0.4) + rng.uniform(0.05, 0.2) * noise, -1.0, 1.0)
    return Table(X[:n], y[:n], X[n:], y[n:])
