"""Untuned fits on public tables, beside the best tuned fit of other software: ``make bench-peers``.

Protocol: the preprocessing of `tables`, five random splits of 80 % and 20 %, delta = 1/n^2 for n
training rows, zero-out neighbours (those of the other software), replace-one beside them. `PEERS`
holds the best of default and tuned runs that was measured for any other package on the same splits:
accuracy in percent, or mean absolute error.

    python -m benchmarks.peers [--tables adult,bank] [--seeds 5] [--every] [--losses]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import dpsco as dp

from . import tables

PEERS = {  # best tuned other package by epsilon, its standard deviation over splits, and no privacy
    "adult": ({0.1: (83.0, 0.2), 0.5: (84.3, 0.3), 1.0: (84.5, 0.3), 8.0: (84.6, 0.3)}, 84.65),
    "bank": ({0.1: (88.8, 0.4), 1.0: (90.0, 0.3), 8.0: (90.1, 0.2)}, 90.1),
    "covtype": ({0.1: (71.8, 0.7), 1.0: (75.1, 0.3), 8.0: (75.4, 0.3)}, 75.6),
    "mnist14": ({0.1: (79.6, 0.9), 1.0: (88.7, 0.2), 8.0: (89.2, 0.3)}, 91.2),
    "california": ({0.1: (58700, 6700), 1.0: (50600, 570), 8.0: (50500, 490)}, 47500),
    "bike": ({0.1: (85.2, 3.9), 1.0: (72.1, 1.3), 8.0: (70.8, 1.5)}, 69),
    "insurance": ({0.1: (15600, 3100), 1.0: (3835, 110), 8.0: (3643, 120)}, 3500),
}


@dataclass(frozen=True)
class Outcome:
    """Scores over the splits."""

    solver: str
    scores: tuple[float, ...]
    seconds: float  # of one fit, the fastest

    def __str__(self) -> str:
        return f"{np.mean(self.scores):9.4g} +- {np.std(self.scores):<7.2g}"


def problem_of(name: str, loss: dp.losses.MarginLoss | None = None) -> dp.Problem:
    """Return the problem: logistic regression for classes, least absolute error for numbers."""
    classes = tables.classes(name)
    if classes > 2:
        bounds = dp.Bounds(1.0, label=dp.data.Classes(*range(classes)))
        return dp.Problem(loss=dp.losses.Softmax(classes), bounds=bounds)
    numeric = classes == 0
    chosen = loss or (dp.losses.Absolute() if numeric else dp.losses.Logistic())
    label = "sign" if chosen.labels == "sign" else 1.0
    return dp.Problem(loss=chosen, bounds=dp.Bounds(1.0, label=label))


def score(name: str, predicted: np.ndarray, truth: np.ndarray) -> float:
    """Return the accuracy in percent, or the mean absolute error in the label's own unit."""
    if tables.classes(name) > 2:
        return 100.0 * float(np.mean(np.argmax(predicted, axis=-1) == truth))
    spec = tables.SPECS[name]
    if spec.label_range is None:
        return 100.0 * float(np.mean((predicted > 0) == (truth > 0)))
    return float(np.mean(np.abs(np.clip(predicted, -1, 1) - truth))) * spec.unit


def measure(
    name: str,
    epsilon: float,
    seeds: int,
    *,
    adjacency: str = "zero_out",
    solver: str = "auto",
    loss: dp.losses.MarginLoss | None = None,
    metric: Callable[[str, np.ndarray, np.ndarray], float] = score,
) -> Outcome:
    """Fit on every split and score on its test rows."""
    problem, scores, times, used = problem_of(name, loss), [], [], solver
    for seed in range(seeds):
        X, y, X_test, y_test = tables.split(name, seed)
        budget = dp.ApproxDP(epsilon, 1.0 / len(X) ** 2, adjacency=adjacency)
        started = time.perf_counter()
        result = dp.solve(problem, (X, y), budget, solver=solver)
        times.append(time.perf_counter() - started)
        weights = result.weights
        if tables.classes(name) > 2:
            weights = weights.reshape(X.shape[1], -1)
        scores.append(metric(name, X_test @ weights, y_test))
        used = result.solver
    return Outcome(used, tuple(scores), min(times))


def compare(names: list[str], seeds: int) -> bool:
    """Print solver="auto" beside the best tuned peer; return whether all cells hold."""
    print(f"{'table':<11}{'eps':>5}  {'solver':<30}{'zero-out':>20}{'replace-one':>20}", end="")
    print(f"{'best peer':>11}{'no privacy':>11}{'s/fit':>7}  verdict")
    fine = True
    for name in names:
        targets, ceiling = PEERS[name]
        for epsilon, (target, spread) in targets.items():
            found = measure(name, epsilon, seeds)
            other = measure(name, epsilon, seeds, adjacency="replace_one")
            gain = np.mean(found.scores) - target
            if tables.classes(name) == 0:
                gain = -gain
            room = max(spread, float(np.std(found.scores)))
            fine &= bool(gain >= -room)
            verdict = "better" if gain >= 0 else "within one s.d." if gain >= -room else "WORSE"
            print(f"{name:<11}{epsilon:>5}  {found.solver:<30}{found!s:>20}{other!s:>20}", end="")
            print(f"{target:>11g}{ceiling:>11g}{found.seconds:>7.2f}  {verdict}", flush=True)
    return fine


def every_solver(names: list[str], seeds: int, epsilon: float = 1.0) -> None:
    """Print what every applicable solver reaches, in the order of the recommendation."""
    for name in names:
        X, y, _, _ = tables.split(name, 0)
        budget = dp.ApproxDP(epsilon, 1.0 / len(X) ** 2, adjacency="zero_out")
        advice = dp.recommend(problem_of(name), len(X), X.shape[1], budget)
        trivial = _trivial(name, y)
        print(f"{name}, epsilon {epsilon:g}, constant prediction {trivial:.4g}")
        for candidate in advice.ranked:
            found = measure(name, epsilon, seeds, solver=candidate.solver)
            print(f"  {candidate.solver:<36}predicted {candidate.risk:<9.3g}{found}", flush=True)


def _trivial(name: str, y: np.ndarray) -> float:
    """Return the score of the best constant prediction."""
    if tables.classes(name) > 2:
        return 100.0 * float(np.max(np.unique(y, return_counts=True)[1])) / len(y)
    return score(name, np.full(len(y), np.median(y)), y)


def losses_beat_trivial(seeds: int) -> bool:
    """Print hinge, absolute, quantile and Huber losses on real tables for every solver."""
    cases = [
        ("covtype", dp.losses.Hinge()),
        ("california", dp.losses.Absolute()),
        ("diamonds", dp.losses.Pinball(0.75)),
        ("diamonds", dp.losses.Huber(0.2)),
    ]
    fine = True
    for name, loss in cases:

        def mean_loss(_: str, margin: np.ndarray, label: np.ndarray) -> float:
            return float(np.mean(loss.value(margin, label)))  # noqa: B023

        X, _, _, y_test = tables.split(name, 0)
        constants = np.linspace(-1.0, 1.0, 401)
        trivial = min(mean_loss(name, np.full(len(y_test), c), y_test) for c in constants)
        budget = dp.ApproxDP(1.0, 1.0 / len(X) ** 2)
        advice = dp.recommend(problem_of(name, loss), len(X), X.shape[1], budget)
        print(f"{name}, {loss!r}: mean test loss of the best constant {trivial:.4g}")
        for candidate in advice.ranked:
            found = measure(
                name,
                1.0,
                seeds,
                adjacency="replace_one",
                solver=candidate.solver,
                loss=loss,
                metric=mean_loss,
            )
            better = np.mean(found.scores) < trivial
            fine &= bool(better)
            print(f"  {candidate.solver:<36}{found}{'' if better else '  NOT BETTER'}", flush=True)
    return fine


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", default=",".join(PEERS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--every", action="store_true", help="every applicable solver at epsilon 1")
    parser.add_argument("--losses", action="store_true", help="other losses, every solver")
    options = parser.parse_args()
    if not tables.available():
        print("Set DPSCO_DATA to the folder of the Parquet tables (see benchmarks/tables.py).")
        return 1
    names = options.tables.split(",")
    fine = True
    if options.every:
        every_solver(names, options.seeds)
    if options.losses:
        fine &= losses_beat_trivial(options.seeds)
    if not (options.every or options.losses):
        fine &= compare(names, options.seeds)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
