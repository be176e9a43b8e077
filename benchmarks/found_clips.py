"""How close a clip that is found comes to the best fixed one in hindsight, in any unit.

``python -m benchmarks.found_clips`` fits least squares to made-up rows and, where DPSCO_DATA names
their folder, to public tables. Labels are multiplied by 1e-6, 1 and 1e6, and gradients with them.
The fixed clips are 2^-5 to 1 times the 99.9 % quantile of gradients at the start: a grid of factors
2 over 32, of which the best is chosen on fresh rows, as nobody can. A line says what the found clip
loses against it in root mean square.
"""

from __future__ import annotations

import argparse

import numpy as np

import dpsco as dp

from . import tables

SOLVER = "truncated_batched_mirror_descent"
UNITS = (1e-6, 1.0, 1e6)
PUBLIC = ("insurance", "bike", "california", "diamonds")
ROUNDS = 200
Rows = tuple[np.ndarray, np.ndarray]


def made_up(kind: str, seed: int) -> tuple[Rows, Rows]:
    """Return rows with noise of a kind, to train on and to test on."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(5, size=(28_000, 20))
    X *= (1.0 / np.maximum(1.0, np.linalg.norm(X, axis=1) / 8.0))[:, None] / 8.0
    noise = {
        "normal": lambda n: 0.3 * rng.standard_normal(n),
        "heavy": lambda n: 0.3 * rng.standard_t(2.5, n),
        "lopsided": lambda n: rng.lognormal(-1.5, 1.2, n) - np.exp(-1.5 + 0.72),
    }[kind](len(X))
    y = X @ np.linspace(3.0, -3.0, 20) + noise
    return (X[:8000], y[:8000]), (X[8000:], y[8000:])


def error(train: Rows, test: Rows, clip: float | str, unit: float, seed: int) -> float:
    """Return the root mean square of a fit on fresh rows, in units of the labels' unit."""
    (X, y), n = train, len(train[1])
    label = 2.0 * float(np.max(np.abs(y)))  # a loose bound
    problem = dp.Problem(
        loss=dp.losses.Squared(), bounds=dp.Bounds(1.0, label=label * unit), scale=5.0 * unit
    )
    budget = dp.ApproxDP(1.0, 1.0 / n**2, adjacency="zero_out")
    options = {"clip": clip if isinstance(clip, str) else clip * unit, "rounds": ROUNDS, "p": 2.0}
    plan = dp.plan(problem, n=n, d=X.shape[1], budget=budget, solver=SOLVER, options=options)
    weights = dp.run(plan, (X, y * unit), randomness=dp.Randomness.seeded(seed)).weights / unit
    return float(np.sqrt(np.mean((test[0] @ weights - test[1]) ** 2)))


def compare(name: str, splits: list[tuple[Rows, Rows]]) -> None:
    """Print what the found clip loses, for each unit."""
    longest = max(
        float(np.quantile(np.abs(y) * np.linalg.norm(X, axis=1), 0.999)) for (X, y), _ in splits
    )
    zero = np.mean([np.sqrt(np.mean(y**2)) for _, (_, y) in splits])
    for unit in UNITS:
        fixed = {
            clip: np.mean([error(*pair, clip, unit, seed) for seed, pair in enumerate(splits)])
            for clip in longest * 2.0 ** -np.arange(6)
        }
        best = min(fixed, key=fixed.__getitem__)
        searched = np.mean([error(*pair, "auto", unit, seed) for seed, pair in enumerate(splits)])
        at = f"{fixed[best]:.4f} at {best / longest:g} of the longest"
        loss = f"{searched / fixed[best] - 1:+.1%}"
        print(f"{name:11} x {unit:g}: zero {zero:.4f}, found {searched:.4f}, fixed {at}: {loss}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="names of tables")
    parser.add_argument("--splits", type=int, default=3)
    arguments = parser.parse_args()
    for name in arguments.only or ("normal", "heavy", "lopsided", *PUBLIC):
        if name not in PUBLIC:
            compare(name, [made_up(name, seed) for seed in range(arguments.splits)])
        elif tables.available():
            parts = [tables.split(name, seed) for seed in range(arguments.splits)]
            compare(name, [((a, b), (c, d)) for a, b, c, d in parts])


if __name__ == "__main__":
    main()
