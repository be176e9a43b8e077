"""How far measured excess lies from a forecast of rounds, and the factors of forecasts.

Runs every solver of one pass for 1 to 128 rounds on made-up problems, with and without a hint of
the population's smoothness, fits the factors that entries declare in `single_epoch`, and prints
predicted over measured: each problem is predicted with factors that were fitted without it. Takes
from ten to twenty minutes.

    python -m benchmarks.forecasts [--cases 45] [--repeats 3] [--verbose]
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

import dpsco as dp
from dpsco.fit.forecast import Terms, calibrated_solvers, terms
from dpsco.solvers import get
from dpsco.solvers.base import Factors
from dpsco.solvers.recursive_gradient.schedule import default_smoothing, public_scales

from . import made_up
from .rates.few_round_instances import x4
from .rates.instances import a, e1, e2, x2

SOLVERS = calibrated_solvers()
ROUNDS = tuple(2**power for power in range(8))
FLOOR = 1e-5  # below, a measured excess is rounding and luck
TOO_NOISY = 1.5  # times the zero model's loss: above, nobody would fit
FOLDS = 5
LIMITS = ((0.05, 1.0), (0.01, 10.0))  # of the share and of the sampling's factor
LOSSES = (
    (dp.losses.Logistic(), dp.losses.Hinge(), dp.losses.Logistic(), dp.losses.Hinge()),
    (dp.losses.Huber(0.2), dp.losses.Absolute(), dp.losses.Huber(0.2), dp.losses.Pinball(0.75)),
)


@dataclass(frozen=True)
class Case:
    """A made-up problem."""

    name: str
    problem: dp.Problem
    budget: dp.privacy.Budget
    draw: Callable[[int], tuple[np.ndarray, np.ndarray]]  # rows of a repeat
    excess: Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Measured:
    """The mean excess of a solver on a case."""

    case: int
    nonsmooth: bool
    solver: str
    hinted: bool
    rounds: int
    terms: Terms
    excess: float


def cases(count: int) -> Iterator[Case]:
    """Yield instances with known excess, and tables of categories and numbers, in turn."""
    instances = (
        *(x2(20), x4(20), e1("absolute", 20), x2(5), e2(10)),
        *(x4(50, radius=30.0), a(20), e1("huber", 20), e1("absolute", 5)),
    )
    for seed in range(count):
        rng = np.random.default_rng([seed, 99])
        epsilon = float(rng.choice([0.5, 1.0, 2.0, 4.0]))
        adjacency = str(rng.choice(["replace_one", "zero_out"]))
        if seed % 3 == 0:
            found, n = instances[seed // 3 % len(instances)], int(rng.choice([4096, 16384, 65536]))

            def draw(repeat: int, seed=seed, found=found, n=n) -> tuple[np.ndarray, np.ndarray]:
                return found.draw(np.random.default_rng([seed, repeat, 5]), n)

            budget = dp.ApproxDP(epsilon, 1.0 / n**2, adjacency=adjacency)
            yield Case(found.name, found.problem, budget, draw, found.excess)
            continue
        yield _table(seed, rng, epsilon, adjacency)


def _table(seed: int, rng: np.random.Generator, epsilon: float, adjacency: str) -> Case:
    classes = seed % 3 == 1
    loss = LOSSES[not classes][seed // 3 % 4]
    table = made_up.table(seed, classes=classes)
    radius = float(rng.choice([3.0, 10.0, 30.0, math.inf]))
    free = math.isinf(radius)
    problem = dp.Problem(
        loss=loss,
        bounds=dp.Bounds(1.0, label="sign" if classes else 1.0),
        domain=dp.domains.WholeSpace() if free else dp.domains.L2Ball(radius),
    )
    best = table.best(loss, radius)
    return Case(
        f"table {seed}, {loss.name}",
        problem,
        dp.ApproxDP(epsilon, 1.0 / len(table.y) ** 2, adjacency=adjacency),
        lambda repeat: (table.X, table.y),
        lambda weights: table.excess(loss, weights, best),
    )


def measure(number: int, case: Case, repeats: int) -> Iterator[Measured]:
    """Yield the excess of every solver for every number of rounds."""
    X, _ = case.draw(0)
    (n, d), problem = X.shape, case.problem
    task = dp.Task(problem, n, d, case.budget)
    tables = [dp.data.from_arrays(*case.draw(repeat)) for repeat in range(repeats)]
    scales = public_scales(task, None, None)
    nonsmooth = default_smoothing(task, scales.alpha) > 0.0
    hint = scales.smoothness * float(
        np.linalg.eigvalsh(X.T @ X / n)[-1]
    )  # made-up rows may be looked at
    for key in SOLVERS:
        takes = "population_smoothness" in get(key).options
        for hinted in (False, True) if takes else (False,):
            for rounds in ROUNDS:
                options = {"rounds": rounds} | ({"population_smoothness": hint} if hinted else {})
                plan = dp.plan(problem, n=n, d=d, budget=case.budget, solver=key, options=options)
                found = [
                    case.excess(
                        dp.run(
                            plan,
                            table,
                            order="given",
                            randomness=dp.Randomness.seeded(1000 * number + repeat),
                        ).weights
                    )
                    for repeat, table in enumerate(tables)
                ]
                mean = max(float(np.mean(found)), FLOOR)
                if mean <= TOO_NOISY * task.constants.value_at_zero:
                    yield Measured(number, nonsmooth, key, hinted, rounds, terms(plan), mean)


def residuals(parameters: np.ndarray, records: list[Measured]) -> np.ndarray:
    """Return log(predicted/measured); parameters are logarithms: two shared ones, two a solver."""
    share, sampling, *rest = np.exp(parameters)
    factors = {key: Factors(*rest[2 * i : 2 * i + 2]) for i, key in enumerate(SOLVERS)}
    predicted = [r.terms.excess(share, sampling, factors[r.solver]) for r in records]
    return np.log(predicted) - np.log([r.excess for r in records])


def fit(records: list[Measured], start: np.ndarray | None = None) -> np.ndarray:
    """Return the parameters that fit best; a few odd ones do not count much."""
    if start is None:
        start = np.log([0.3, 0.2] + [0.05, 0.5] * len(SOLVERS))
    bounds = np.log([*LIMITS, *[(1e-5, 1e3)] * (2 * len(SOLVERS))]).T
    found = least_squares(
        residuals, start, bounds=bounds, loss="soft_l1", max_nfev=100, args=(records,)
    )
    return np.asarray(found.x)


def report(records: list[Measured]) -> None:
    """Print the factors and how accurate they are on problems that they were not fitted on."""
    parameters = fit(records)
    share, sampling, *rest = np.exp(parameters)
    print(f"    share={share:.2g},\n    sampling={sampling:.2g},")
    for i, key in enumerate(SOLVERS):
        print(f"    {key}: Factors({rest[2 * i]:.2g}, {rest[2 * i + 1]:.2g}),")
    numbers = sorted({r.case for r in records})
    unseen: dict[tuple[int, str, bool, int], float] = {}
    for fold in range(FOLDS):
        out = set(numbers[fold::FOLDS])
        found = fit([r for r in records if r.case not in out], parameters)
        tested = [r for r in records if r.case in out]
        for record, error in zip(tested, residuals(found, tested), strict=True):
            unseen[record.case, record.solver, record.hinted, record.rounds] = float(error)
    for key in (*SOLVERS, None):
        _accuracy(key or "all", {k: v for k, v in unseen.items() if key in (None, k[1])})


def _accuracy(name: str, errors: dict[tuple[int, str, bool, int], float]) -> None:
    curves: dict[tuple[int, str, bool], dict[int, float]] = defaultdict(dict)
    for (case, solver, hinted, rounds), error in errors.items():
        curves[case, solver, hinted][rounds] = error
    ratios = [
        abs(curve[few] - curve[many])
        for curve in curves.values()
        for few in curve
        for many in curve
        if few < many <= 4 * few
    ]
    half, most = np.exp(np.quantile(np.abs(list(errors.values())), [0.5, 0.9]))
    ratio_half, ratio_most = np.exp(np.quantile(ratios, [0.5, 0.9]))
    print(
        f"    {name:<22} within x{half:.2f} (half), x{most:.2f} (90 %); "
        f"ratios of rounds x{ratio_half:.2f}, x{ratio_most:.2f}"
    )


def main() -> None:
    """Measure, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=45)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--verbose", action="store_true", help="print every measurement")
    options = parser.parse_args()
    records: list[Measured] = []
    for number, case in enumerate(cases(options.cases)):
        found = list(measure(number, case, options.repeats))
        records += found
        print(f"{number:>3} {case.name}, {case.budget}", flush=True)
        for record in found if options.verbose else ():
            hint = "hint" if record.hinted else ""
            print(f"    {record.solver:<22}{record.rounds:>4} {record.excess:.3g} {hint}")
    for kind in (False, True):
        print("nonsmooth losses" if kind else "smooth losses")
        report([record for record in records if record.nonsmooth == kind])


if __name__ == "__main__":
    main()
