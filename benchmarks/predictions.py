"""How far measured excess lies from each solver's formula, on made-up tables.

Prints the geometric mean of measured over predicted for every solver, for smooth and for nonsmooth
losses: the factors that a solver's entry declares as `measured`; how much noise each has beside
`noisy_gd` in the same cells, as `dpsco.fit.outlook` counts it; and how much worse the first choice
is than the best.

    python -m benchmarks.predictions [--tables 12] [--only KEY,KEY]
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Container
from typing import NamedTuple

import numpy as np

import dpsco as dp
from dpsco import solvers
from dpsco.fit import outlook

from . import made_up

EPSILONS = (0.1, 1.0, 8.0)
LOSSES = (
    (dp.losses.Logistic(), dp.losses.Hinge(), dp.losses.Logistic()),
    (dp.losses.Absolute(), dp.losses.Huber(0.2), dp.losses.Pinball(0.75)),
)


class Found(NamedTuple):
    """What one fit measured."""

    key: str
    epsilon: float
    predicted: float
    excess: float
    noise: float  # log of the noise at which the outlook expects such an excess


def measured(seed: int, keys: Container[str]) -> list[Found]:
    """Return what the fits of one made-up table measured."""
    classes = seed % 2 == 0
    rng = np.random.default_rng([seed, 7])
    loss = LOSSES[seed % 2][seed // 2 % 3]
    table = made_up.table(seed, classes=classes)
    bounds = dp.Bounds(1.0, label="sign" if classes else 1.0)
    radius = float(rng.choice([3.0, 10.0, 30.0]))
    domain = dp.domains.WholeSpace() if rng.random() < 0.5 else dp.domains.L2Ball(radius)
    problem = dp.Problem(loss=loss, bounds=bounds, domain=domain)
    best = table.best(loss, radius if domain.bounded else math.inf)
    n, d = table.X.shape
    found = []
    for epsilon in EPSILONS:
        adjacency = "zero_out" if rng.random() < 0.5 else "replace_one"
        budget = dp.ApproxDP(epsilon, 1.0 / n**2, adjacency=adjacency)
        task = dp.Task(problem, n, d, budget)
        for key, solver in solvers.registry().items():
            if key not in keys or solver.refusals(task):
                continue
            result = dp.solve(
                problem,
                (table.X, table.y),
                budget,
                solver=key,
                randomness=dp.Randomness.seeded(seed),
            )
            excess = max(table.excess(loss, result.weights, best), 1e-4)
            found.append(Found(key, epsilon, solver.risk(task), excess, noise(task, excess)))
    return found


def noise(task: dp.Task, excess: float) -> float:
    """Return log u of an excess, u as in the outlook's formula."""
    family, zero = outlook.family_of(task), task.constants.value_at_zero
    assert family is not None
    share = min(max(excess / zero, outlook.RESOLUTION), 0.98)
    return math.log(share / (1.0 - share)) / family.power + math.log(family.middle)


def main() -> None:
    """Print the factors, and how good the first choice is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=12)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="", help="keys, with commas; all by default")
    parser.add_argument("--skip", default="", help="keys to leave out, with commas")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    only, skip = (set(filter(None, text.split(","))) for text in (options.only, options.skip))
    keys = (only or set(solvers.registry())) - skip
    logs: dict[tuple[str, bool], list[float]] = defaultdict(list)
    shifts: dict[str, list[float]] = defaultdict(list)
    regrets = []
    for seed in range(options.first, options.first + options.tables):
        found = measured(seed, keys)
        nonsmooth = LOSSES[seed % 2][seed // 2 % 3].name in ("Hinge", "Absolute", "Pinball")
        usual = {each.epsilon: each.noise for each in found if each.key == "noisy_gd"}
        for key, epsilon, risk, excess, log_u in found:
            if epsilon in usual:
                shifts[key].append(log_u - usual[epsilon])
            logs[key, nonsmooth].append(math.log(excess / risk))
            if options.verbose:
                print(f"{seed:>4}{epsilon:>5} {key:<34}{risk:>9.3g}{excess:>9.3g}")
        for epsilon in EPSILONS:
            cell = [
                (risk * solvers.get(key).measured[nonsmooth], excess)
                for key, budget, risk, excess, _ in found
                if budget == epsilon and solvers.get(key).measured is not None
            ]
            if cell:
                regrets.append(min(cell)[1] / min(x for _, x in cell))
        print(f"table {seed} done", flush=True)
    for key in sorted({key for key, _ in logs}):
        means = [float(np.exp(np.mean(logs[key, kind] or [0.0]))) for kind in (False, True)]
        deviation = float(np.exp(np.std(logs[key, False] + logs[key, True])))
        print(f"{key}: measured=Measured({means[0]:.2g}, {means[1]:.2g}), range x{deviation:.2g}")
    for key, values in sorted(shifts.items()):
        print(f"{key}: {math.exp(np.median(values)):.2g} times the noise ({len(values)} cells)")
    middle, high = np.quantile(regrets, [0.5, 0.9])
    print(f"first choice over best: median {middle:.2f}, 90 % {high:.2f}")


if __name__ == "__main__":
    main()
