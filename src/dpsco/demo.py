"""The smallest honest private fit: logistic regression by noisy gradient descent, made-up rows.

It shows the path of every fit: decide everything from public facts, let bounded sums leave through
the ledger only, hand back the weights with their certificate.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .privacy import (
    ApproxDP,
    Certificate,
    DiscreteGaussianRelease,
    GaussianRelease,
    Grid,
    Ledger,
    Randomness,
    Release,
    calibrate,
    sum_rows,
)

Array = NDArray[np.float64]

ROWS, FEATURES, ROUNDS = 20_000, 10, 60
BOUND = 1.0  # rows are clipped to this norm, and the slope of the logistic loss is at most 1
STEP = 4.0  # one over the smoothness 1/4 of the logistic loss on the unit ball


@dataclass(frozen=True)
class Outcome:
    """What the demonstration prints and writes."""

    weights: Array
    certificate: Certificate
    accuracy: dict[str, float]  # on fresh rows, by model
    seconds: float

    def __str__(self) -> str:
        lines = ["model                     accuracy on fresh rows"]
        lines += [f"{name:<26}{100 * value:.1f} %" for name, value in self.accuracy.items()]
        return "\n".join([*lines, f"private fit: {self.seconds:.2f} s", "", str(self.certificate)])

    def save(self, folder: Path) -> tuple[Path, Path]:
        """Write the weights and the certificate; return where they are."""
        folder.mkdir(parents=True, exist_ok=True)
        weights, certificate = folder / "weights.csv", folder / "certificate.json"
        np.savetxt(weights, self.weights)
        self.certificate.save(certificate)
        return weights, certificate


def run(*, epsilon: float = 1.0, numeric: str = "float64") -> Outcome:
    """Make a table, fit it with and without privacy, and compare on fresh rows."""
    X, y = _table(Randomness.seeded(2024), 2 * ROWS)
    train, fresh = (X[:ROWS], y[:ROWS]), (X[ROWS:], y[ROWS:])
    budget = ApproxDP(epsilon, 1.0 / ROWS**2)
    started = time.perf_counter()
    weights, certificate = _private_fit(*train, budget, numeric)
    seconds = time.perf_counter() - started
    models = {
        "always the larger class": np.zeros(FEATURES),
        f"private, epsilon {epsilon:g}": weights,
        "not private": _descend(lambda w: sum_rows(_gradients(w, *train))),
    }
    share = np.mean(fresh[1] == 1.0)
    accuracy = {
        name: float(np.mean(np.sign(fresh[0] @ w) == fresh[1])) for name, w in models.items()
    }
    accuracy["always the larger class"] = float(max(share, 1 - share))
    return Outcome(weights, certificate, accuracy, seconds)


def _private_fit(X: Array, y: Array, budget: ApproxDP, numeric: str) -> tuple[Array, Certificate]:
    """Plan from public numbers, then let only noisy sums of clipped gradients leave."""
    rows = (0, ROWS)
    grid = Grid.choose(BOUND, BOUND, FEATURES) if numeric == "grid" else None

    def planned(sigma: float) -> Release:
        if grid:
            return DiscreteGaussianRelease(BOUND, sigma, grid.step, rows=rows, count=ROUNDS)
        return GaussianRelease(BOUND, sigma, rows=rows, count=ROUNDS)

    sigma = calibrate(planned, budget)
    enforced = [f"each gradient is clipped to norm {BOUND}"]
    ledger = Ledger(planned(sigma), budget, enforced=enforced)

    def noisy_sum(weights: Array) -> Array:
        gradients = _gradients(weights, X, y)
        if grid:
            exact = grid.sum(grid.encode(gradients))
            return ledger.discrete_gaussian(
                exact, bound=BOUND, sigma=sigma, step=grid.step, rows=rows
            )
        return ledger.gaussian(sum_rows(gradients), bound=BOUND, sigma=sigma, rows=rows)

    return _descend(noisy_sum), ledger.close()


def _descend(gradient_sum: Callable[[Array], Array]) -> Array:
    """Run gradient descent and average the second half of the iterates."""
    weights, average = np.zeros(FEATURES), np.zeros(FEATURES)
    for t in range(ROUNDS):
        weights = weights - STEP * gradient_sum(weights) / ROWS
        if t >= ROUNDS // 2:
            average += weights / (ROUNDS - ROUNDS // 2)
    return average


def _gradients(weights: Array, X: Array, y: Array) -> Array:
    """Return the gradient of the logistic loss for every row, clipped to norm BOUND."""
    slopes = -y / (1.0 + np.exp(y * (X @ weights)))
    gradients = slopes[:, None] * X
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    shrink = np.minimum(1.0, BOUND / np.maximum(norms, 1e-300)) * (1 - 1e-12)
    return np.asarray(gradients * shrink)


def _table(randomness: Randomness, rows: int) -> tuple[Array, Array]:
    """Make rows in the unit ball with labels -1 and 1 from a logistic model."""
    X = randomness.child("features").normals((rows, FEATURES))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    truth = np.linspace(-6.0, 6.0, FEATURES)
    chance = 1.0 / (1.0 + np.exp(-(X @ truth)))
    y = np.where(randomness.child("labels").uniforms(rows) < chance, 1.0, -1.0)
    return X, y
