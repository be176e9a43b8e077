"""Where Frank-Wolfe pays: against d and row density; last or random point, differences or none.

python -m benchmarks.frank_wolfe [--repeats 3] [--quick]

The first two tables compare selections on an l1 ball with Gaussian noise on the same ball: mean
test loss over that of zero weights, and where one overtakes the other. The third compares the
points that a run may return, with and without variance reduction, with noisy gradient descent.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

import numpy as np
from scipy import sparse

import dpsco as dp
from dpsco.geometry import L2, LINF

from .rates.frank_wolfe import instance_c, instance_d

BUDGET = dp.ApproxDP(1.0, 1e-6)
ACTIVE = 10  # columns that matter
FRESH = 10_000
Found = dict[str, float]


def dense_rows(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Return rows of independent signs."""
    return rng.choice([-1.0, 1.0], (n, d))


def sparse_rows(rng: np.random.Generator, n: int, d: int, entries: int) -> sparse.csr_array:
    """Return rows of so many signs: each active column in 3 of 10 rows, the others at random."""
    active = rng.random((n, ACTIVE)) < 0.3
    rest = rng.integers(ACTIVE, d, (n, entries))
    used = np.arange(entries) < (entries - active.sum(axis=1))[:, None]
    rows = np.concatenate([np.nonzero(active)[0], np.nonzero(used)[0]])
    columns = np.concatenate([np.nonzero(active)[1], rest[used]])
    values = rng.choice([-1.0, 1.0], len(rows))
    table = sparse.coo_array((values, (rows, columns)), shape=(n, d)).tocsr()
    table.data = np.clip(table.data, -1.0, 1.0)  # a column drawn twice counts once
    return table


def compared(n: int, d: int, entries: int, seed: int, rounds: int) -> Found:
    """Return the loss of each method over that of zero weights, on rows of so many entries."""
    rng = np.random.default_rng([n, d, entries, seed])
    whole = entries >= d

    def draw(count: int) -> tuple[np.ndarray | sparse.csr_array, np.ndarray]:
        X = dense_rows(rng, count, d) if whole else sparse_rows(rng, count, d, entries)
        chance = 1.0 / (1.0 + np.exp(-(X @ truth)))
        return X, np.where(rng.random(count) < chance, 1.0, -1.0)

    truth = np.zeros(d)
    truth[:ACTIVE] = rng.choice([-1.0, 1.0], ACTIVE) * (0.75 if whole else 2.0)
    (X, y), (fresh, labels) = draw(n), draw(FRESH)
    ball, length = dp.domains.L1Ball(float(np.abs(truth).sum())), float(np.sqrt(min(entries, d)))

    def loss(weights: np.ndarray) -> float:
        return float(np.logaddexp(0.0, -labels * (fresh @ weights)).mean() / np.log(2.0))

    def fitted(solver: str, norm: dp.geometry.Norm, bound: float, **options: object) -> float:
        bounds = dp.Bounds(bound, label="sign", norm=norm)
        problem = dp.Problem(loss=dp.losses.Logistic(), bounds=bounds, domain=ball)
        return loss(dp.solve(problem, (X, y), BUDGET, solver=solver, options=options).weights)

    return {
        "truth": loss(truth),
        "noisy_gd, ball": fitted("noisy_gd", L2, length),
        "noisy_fw_gll": fitted("noisy_fw_gll", LINF, 1.0, rounds=rounds),
        "poly_sfw": fitted("poly_sfw", LINF, 1.0),
    }


def show(title: str, settings: Iterable[tuple[str, tuple[int, int, int]]], repeats: int) -> None:
    """Print a table, a line a setting, and which method is ahead."""
    print(f"\n{title}")
    for name, (n, d, entries) in settings:
        begun = time.perf_counter()
        runs = [compared(n, d, entries, seed, rounds_for(n)) for seed in range(repeats)]
        means = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        ahead = min((key for key in means if key != "truth"), key=lambda key: means[key])
        cells = "  ".join(f"{key} {value:.3f}" for key, value in means.items())
        print(f"{name:<16}{cells}   ahead: {ahead}  ({time.perf_counter() - begun:.0f} s)")


def rounds_for(n: int) -> int:
    """Return how many selections are tried: of a coarse grid the best on these instances."""
    return 25 if n < 10_000 else 50


def points(sizes: Iterable[int], repeats: int) -> None:
    """Print gap and loss of each point that a run may return, and those of noisy_gd."""
    cases = {
        "C": (instance_c, "poly_sfw", ("last", "random")),
        "D": (instance_d, "noisy_sfw_lp", ("select", "last", "random")),
    }
    for name, (build, solver, outputs) in cases.items():
        gap, loss = build(), build(loss=True)
        euclidean = instance_c(norm=L2).problem if name == "C" else gap.problem
        print(
            f"\ninstance {name}: gap / loss (at the start {gap.trivial:.3f} / {loss.trivial:.3f})"
        )
        for n in sizes:
            cells = []
            for reduced in (True, False):
                for output in outputs:
                    options = {"output": output, "variance_reduction": reduced}
                    label = f"{output}{'' if reduced else ', plain'}"
                    cells.append((label, gap.problem, solver, options))
            cells.append(("noisy_gd", euclidean, "noisy_gd", {}))
            for label, problem, key, options in cells:
                excesses = []
                for seed in range(repeats):
                    X, y = gap.draw(np.random.default_rng([n, seed]), n)
                    weights = dp.solve(problem, (X, y), BUDGET, solver=key, options=options).weights
                    excesses.append((gap.excess(weights), loss.excess(weights)))
                mean = np.mean(excesses, axis=0)
                print(f"  n {n:<8}{label:<16}{mean[0]:.4f} / {mean[1]:.4f}")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    arguments = parser.parse_args()
    n = 5000
    dimensions = (30, 100, 300, 1000) if arguments.quick else (30, 100, 300, 1000, 3000)
    dense = [(f"d {d}", (n, d, d)) for d in dimensions]
    show(f"dense rows of signs, n {n}: loss over that of zero weights", dense, arguments.repeats)
    entries = (10, 20, 100, 1000)
    density = [(f"{s} of 1000", (20_000, 1000, s)) for s in entries]
    show("d 1000, n 20000: loss against the entries of a row", density, arguments.repeats)
    points((3000, 10_000) if arguments.quick else (3000, 10_000, 30_000), arguments.repeats)


if __name__ == "__main__":
    main()
