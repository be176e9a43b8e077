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

from .data import Bounds, ClippedGradient, Source, from_arrays
from .kernels.clipping import coefficients
from .losses import Logistic
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
)

Array = NDArray[np.float64]

ROWS, FEATURES, ROUNDS = 20_000, 10, 60
LOSS, BOUNDS = Logistic(), Bounds(feature_norm=1.0, label="sign")
FACTS = LOSS.constants(feature=BOUNDS.row_norm)
CLIP, STEP = FACTS.lipschitz, 1.0 / FACTS.smoothness  # the clip never cuts: it proves the bound


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
    source = from_arrays(*train).bounded(BOUNDS)
    weights, certificate = _private_fit(source, budget, numeric)
    seconds = time.perf_counter() - started
    models = {
        "always the larger class": np.zeros(FEATURES),
        f"private, epsilon {epsilon:g}": weights,
        "not private": _descend(lambda w: source.sum(ClippedGradient(LOSS, w, CLIP))),
    }
    share = np.mean(fresh[1] == 1.0)
    accuracy = {
        name: float(np.mean(np.sign(fresh[0] @ w) == fresh[1])) for name, w in models.items()
    }
    accuracy["always the larger class"] = float(max(share, 1 - share))
    return Outcome(weights, certificate, accuracy, seconds)


def _private_fit(source: Source, budget: ApproxDP, numeric: str) -> tuple[Array, Certificate]:
    """Plan from public numbers, then let only noisy sums of clipped gradients leave."""
    rows = (0, ROWS)
    grid = Grid.choose(CLIP, CLIP, FEATURES) if numeric == "grid" else None

    def planned(sigma: float) -> Release:
        if grid:
            return DiscreteGaussianRelease(CLIP, sigma, grid.step, rows=rows, count=ROUNDS)
        return GaussianRelease(CLIP, sigma, rows=rows, count=ROUNDS)

    sigma = calibrate(planned, budget)
    enforced = [*BOUNDS.enforced, f"a row's gradient has norm at most {CLIP:g}, by clipping"]
    ledger = Ledger(planned(sigma), budget, enforced=enforced)

    def noisy_sum(weights: Array) -> Array:
        if grid:
            exact = grid.sum(grid.encode(_gradients(weights, source)))
            return ledger.discrete_gaussian(
                exact, bound=CLIP, sigma=sigma, step=grid.step, rows=rows
            )
        query = ClippedGradient(LOSS, weights, CLIP)
        return ledger.gaussian(source.sum(query), bound=query.bound, sigma=sigma, rows=rows)

    return _descend(noisy_sum), ledger.close()


def _descend(gradient_sum: Callable[[Array], Array]) -> Array:
    """Run gradient descent and average the second half of the iterates."""
    weights, average = np.zeros(FEATURES), np.zeros(FEATURES)
    for t in range(ROUNDS):
        weights = weights - STEP * gradient_sum(weights) / ROWS
        if t >= ROUNDS // 2:
            average += weights / (ROUNDS - ROUNDS // 2)
    return average


def _gradients(weights: Array, source: Source) -> Array:
    """Return each row's clipped gradient, which the exact grid needs one by one."""
    block = source.rows()
    X = np.asarray(block.rows)
    slopes = LOSS.slope(X @ weights, block.labels)
    return np.asarray(coefficients(slopes, block.norms, CLIP)[:, None] * X)


def _table(randomness: Randomness, rows: int) -> tuple[Array, Array]:
    """Make rows in the unit ball with labels -1 and 1 from a logistic model."""
    X = randomness.child("features").normals((rows, FEATURES))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    truth = np.linspace(-6.0, 6.0, FEATURES)
    chance = 1.0 / (1.0 + np.exp(-(X @ truth)))
    y = np.where(randomness.child("labels").uniforms(rows) < chance, 1.0, -1.0)
    return X, y
