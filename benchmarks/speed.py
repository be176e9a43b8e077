"""CPU time of default fits beside scikit-learn's, of regressions beside a classifier, of planning.

Default means ``solver="auto"`` at epsilon 1. scikit-learn's `LogisticRegression` runs with its own
defaults until it has converged, on the same rows. All times are CPU time with one thread for linear
algebra, measured side by side in one run. "first" is the first fit of its size, which calibrates
noise; "least" is the least of several, whose calibration is remembered.

    python -m benchmarks.speed [--large] [--solver noisy_gd]

Made-up rows always, with ``--large`` a million of them; the tables of `tables` if $DPSCO_DATA names
their folder.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import dpsco as dp

from . import tables

GOALS = {"adult": 0.5, "bank": 0.5, "covtype": 0.5, "mnist14": 1.0}  # of scikit-learn's time
OVERHEAD, EASY_GOAL = 0.02, 2.0  # seconds, and then of scikit-learn's time
REGRESSION_GOAL = 3.0  # of a logistic fit of the same rows
PLAN_GOAL = 0.02  # seconds
EASY_FEATURES = 20


@dataclass(frozen=True)
class Times:
    """CPU seconds of one thing."""

    first: float
    least: float


def cpu_times(action: Callable[[], object], repeats: int = 5, limit: float = 3.0) -> Times:
    """Repeat an action, at most so often and about so many seconds in all."""
    times: list[float] = []
    while len(times) < repeats and (not times or sum(times) < limit):
        started = time.process_time()
        action()
        times.append(time.process_time() - started)
    return Times(times[0], min(times))


def easy_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of length 1, classes 0 and 1 that a line nearly parts, and numbers."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, EASY_FEATURES))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    score = X @ rng.standard_normal(EASY_FEATURES) + 0.3 * rng.standard_normal(n)
    return X, (score > 0).astype(float), np.clip(score, -5.0, 5.0)


def private_fit(
    X: np.ndarray, y: np.ndarray, solver: str, classes: Sequence[float] = (0.0, 1.0)
) -> Any:
    """Return a default private classifier."""
    model = dp.PrivateLogisticRegression(
        feature_norm=1.0, epsilon=1.0, classes=classes, solver=solver
    )
    return model.fit(X, y)


def other_fit(X: np.ndarray, y: np.ndarray) -> Any:
    """Return scikit-learn's, converged."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=100_000).fit(X, y)


def classifiers(large: bool, solver: str) -> None:
    """Print fits beside scikit-learn's."""
    print(
        f"{'rows':<12}{'n x d':>14}  {'solver':<32}{'first':>8}{'least':>8}{'sklearn':>9}", end=""
    )
    print(f"{'ratio':>7}  goal")
    for n in (10_000, 100_000, *((1_000_000,) if large else ())):
        X, y, _ = easy_rows(n)
        _compare(f"easy {n:.0e}", X, y, solver)
    for name in GOALS if tables.available() else ():
        _compare(name, *tables.load(name), solver)


def _compare(name: str, X: np.ndarray, y: np.ndarray, solver: str) -> None:
    """Print one table."""
    classes = np.unique(y).tolist()  # declared: no part of a fit
    ours = cpu_times(lambda: private_fit(X, y, solver, classes))
    other = cpu_times(lambda: other_fit(X, y), repeats=3).least
    goal = GOALS.get(name)
    allowed = EASY_GOAL * other + OVERHEAD if goal is None else goal * other
    said = f"{EASY_GOAL:g} + {1e3 * OVERHEAD:g} ms" if goal is None else f"{goal:g}"
    used = private_fit(X, y, solver, classes).plan_.solver
    print(f"{name:<12}{f'{len(X)} x {X.shape[1]}':>14}  {used:<32}", end="")
    print(f"{ours.first:>8.3f}{ours.least:>8.3f}{other:>9.3f}{ours.least / other:>7.2f}  ", end="")
    print(f"{said}: {'met' if ours.least <= allowed else 'MISSED'}", flush=True)


def regressions(n: int = 100_000) -> None:
    """Print regressions beside a classifier of the same rows."""
    X, y, numbers = easy_rows(n)
    base = cpu_times(lambda: private_fit(X, y, "auto")).least
    same = cpu_times(lambda: private_fit(X, y, "noisy_gd")).least
    print(
        f"\nregressions, {n} x {EASY_FEATURES}: seconds, and beside a logistic fit ({base:.3f} s;"
    )
    print(f"{same:.3f} s by noisy_gd)")
    facts: dict[str, Any] = {"feature_norm": 1.0, "epsilon": 1.0, "label_range": (-5.0, 5.0)}
    models = {
        "absolute": dp.PrivateAbsoluteRegressor(**facts),
        "quantile": dp.PrivateQuantileRegressor(quantile=0.9, **facts),
        "huber": dp.PrivateHuberRegressor(**facts),
        "squared": dp.PrivateLinearRegression(**facts),
    }
    for name, model in models.items():
        least = cpu_times(partial(model.fit, X, numbers)).least
        plan = model.plan_
        used = f"{plan.solver}, {getattr(plan, 'rounds', 1)} rounds"
        print(
            f"  {name:<10}{used:<32}{least:>7.3f}{least / base:>8.2f}{least / same:>8.2f}  ", end=""
        )
        print(f"goal {REGRESSION_GOAL:g}: {'met' if least <= REGRESSION_GOAL * base else 'MISSED'}")


def planning() -> None:
    """Print what planning takes, with and without what earlier plans have left behind."""
    bounds = dp.Bounds(1.0, label="sign", intercept=0.3)
    problem = dp.Problem(loss=dp.losses.Logistic(), bounds=bounds)

    def task(k: int) -> dp.Task:
        return dp.Task(problem, n=50_000 + k, d=100, budget=dp.ApproxDP(1.0 + 0.01 * k, 1e-9))

    dp.recommend(task(0))  # imports
    dp.plan(task(0), solver="approx_objective_perturbation")
    print("\nplanning, milliseconds: a new task, the same again")
    actions: dict[str, Callable[[dp.Task], object]] = {
        "recommend": dp.recommend,
        "plan auto": dp.plan,
        "plan noisy_gd": lambda each: dp.plan(each, solver="noisy_gd"),
        "plan approx_objective_perturbation": lambda each: dp.plan(
            each, solver="approx_objective_perturbation"
        ),
    }
    for place, (name, action) in enumerate(actions.items()):
        _print_planning(name, action, [task(10 * place + k) for k in range(1, 6)])


def _print_planning(name: str, action: Callable[[dp.Task], object], fresh: list[dp.Task]) -> None:
    """Print what an action takes on tasks that nobody has planned before."""
    new = min(cpu_times(partial(action, each), repeats=1).first for each in fresh)
    again = cpu_times(partial(action, fresh[-1])).least
    verdict = "met" if new <= PLAN_GOAL else "MISSED"
    print(f"  {name:<36}{1e3 * new:>7.1f}{1e3 * again:>7.1f}  goal {1e3 * PLAN_GOAL:g}: {verdict}")


def main(large: bool = False, solver: str = "auto") -> None:
    """Print everything."""
    import sklearn.linear_model  # noqa: F401  the limit is for libraries that are loaded by then
    from threadpoolctl import threadpool_limits

    print("CPU time of default fits, seconds, one thread for linear algebra")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        private_fit(*easy_rows(2000)[:2], solver)  # imports
        classifiers(large, solver)
        regressions()
        planning()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="a million made-up rows too")
    parser.add_argument("--solver", default="auto", help="another solver for the classifiers")
    options = parser.parse_args()
    main(options.large, options.solver)
