"""How many rounds each solver needs to come within 10 % of its own best, against n.

Every number of rounds on a geometric grid is tried with the best of several step sizes, which are
tuned on tables of their own. The best excess of a solver at an n is the least over the grid; the
rounds it needs are the fewest whose mean excess is within 10 % of that. All numbers of rounds see
the same tables, and the tables are resampled (bootstrap) to show how certain the answer is: the
table prints its middle, and its 10 % and 90 % quantiles.

phased_sgd has no rounds to choose: it steps on one row after the other, and each step waits for the
one before. Its sequential rounds are its steps, about n (so Table 1 of Choquette-Choo, Ganesh,
Thakurta 2025 counts them); its releases are fewer, one a phase. It runs with its own step size:
longer and shorter ones did worse. Its slope is 1 by that definition, not by measurement.

    python -m benchmarks.rounds_needed [--output FILE.png] [--quick]

About four minutes on one core.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import dpsco as dp

from .rates.experiment import Instance, slope
from .rates.few_round_instances import x4, x4_smoothness

BUDGET = dp.ApproxDP(1.0, 1e-6)
D, RADIUS = 20, 20.0
SOLVERS = ("acc_srgd", "acc_independent", "dp_sgd_single_epoch", "phased_sgd")
SIZES = (4096, 8192, 16384, 32768, 65536, 131072)
ROUNDS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64)
WITHIN = 1.1  # times the best excess
RESAMPLED = 400
TUNING = 3  # tables on which step sizes are chosen
SHARES = (0.25, 0.5, 1.0)  # of the schedule's own beta
STEPS = tuple(4.0 * 2 ** (k / 2) for k in range(13))  # of SGD: to seven times the safe ones

Options = dict[str, object]
Table = tuple[np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class Needed:
    """What one solver needs at one n."""

    rounds: float  # the middle of the resampled answers
    low: float  # their 10 % quantile
    high: float  # and 90 %
    excess: float  # the best, over all numbers of rounds


def settings(solver: str, n: int, rounds: int) -> list[Options]:
    """Return the step sizes that a solver may choose from."""
    if solver == "dp_sgd_single_epoch":
        return [{"rounds": rounds, "step": step} for step in STEPS]
    hint: Options = {"rounds": rounds, "population_smoothness": x4_smoothness(D)}
    usual = _plan(solver, n, hint).beta
    return [{"rounds": rounds, "beta": share * usual} for share in SHARES]


def excesses(solver: str, options: Options, tables: Sequence[Table]) -> np.ndarray:
    """Return the excess on each table."""
    plan = _plan(solver, len(tables[0][0]), options)
    seeds = (dp.Randomness.seeded(k) for k in range(len(tables)))
    runs = (dp.run(plan, table, randomness=seed) for table, seed in zip(tables, seeds, strict=True))
    return np.array([_instance().excess(result.weights) for result in runs])


def needed(solver: str, tuning: Sequence[Table], tables: Sequence[Table]) -> Needed:
    """Return how many rounds a solver needs on these tables."""
    n = len(tables[0][0])
    if solver == "phased_sgd":
        found = excesses(solver, {}, tables)
        steps = float(sum(_plan(solver, n, {}).sizes))
        return Needed(steps, steps, steps, float(found.mean()))
    curves = []
    for rounds in ROUNDS:
        choices = settings(solver, n, rounds)
        means = [excesses(solver, options, tuning).mean() for options in choices]
        curves.append(excesses(solver, choices[int(np.argmin(means))], tables))
    found = np.array(curves)  # rounds x tables
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(tables), (RESAMPLED, len(tables)))
    answers = [fewest(found[:, pick].mean(axis=1)) for pick in picks]
    low, middle, high = np.quantile(answers, [0.1, 0.5, 0.9], method="nearest")
    return Needed(float(middle), float(low), float(high), float(found.mean(axis=1).min()))


def fewest(means: np.ndarray) -> int:
    """Return the smallest number of rounds whose mean excess is close to the least."""
    return ROUNDS[int(np.argmax(means <= WITHIN * means.min()))]


def _plan(solver: str, n: int, options: Options) -> Any:
    problem = _instance().problem
    return dp.plan(problem, n=n, d=D, budget=BUDGET, solver=solver, options=options)


@cache
def _instance() -> Instance:
    return x4(D, radius=RADIUS)


def measure(sizes: Sequence[int], repeats: int) -> dict[str, dict[int, Needed]]:
    """Print and return what every solver needs at every n."""
    found: dict[str, dict[int, Needed]] = {solver: {} for solver in SOLVERS}
    name, trivial = _instance().name, _instance().trivial
    print(f"{name}, epsilon {BUDGET.epsilon:g}; zero weights have {trivial:.3g}")
    print(f"{'solver':<22}{'n':>9}{'rounds':>9}{'10 %':>8}{'90 %':>8}{'best excess':>14}")
    for n in sizes:
        draws = (
            _instance().draw(np.random.default_rng([3, n, k]), n) for k in range(repeats + TUNING)
        )
        tables = list(draws)
        for solver in SOLVERS:
            start = time.perf_counter()
            this = found[solver][n] = needed(solver, tables[:TUNING], tables[TUNING:])
            print(
                f"{solver:<22}{n:>9,}{this.rounds:>9,.0f}{this.low:>8,.0f}{this.high:>8,.0f}"
                f"{this.excess:>14.2e}{time.perf_counter() - start:>8.0f} s",
                flush=True,
            )
    for solver, of in found.items():
        if len(of) > 1:
            print(f"{solver:<22}log-log slope {slope({n: of[n].rounds for n in of}):+.2f}")
    return found


def draw(found: dict[str, dict[int, Needed]], output: str) -> None:
    """Draw rounds needed against n."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, 4.6), layout="constrained")
    for (solver, of), marker in zip(found.items(), "os^D", strict=True):
        sizes = sorted(of)
        middle = np.array([of[n].rounds for n in sizes])
        bars = [middle - [of[n].low for n in sizes], [of[n].high for n in sizes] - middle]
        rate = slope({n: of[n].rounds for n in sizes}) if len(sizes) > 1 else math.nan
        left.errorbar(
            sizes, middle, yerr=bars, marker=marker, capsize=3, label=f"{solver}: slope {rate:+.2f}"
        )
        right.plot(sizes, [of[n].excess for n in sizes], marker=marker, label=solver)
    left.set(ylabel="sequential rounds", title="Rounds to come within 10 % of its best")
    right.set(ylabel="excess risk", title="The best itself")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="rows n")
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend()
    figure.savefig(output, dpi=120)


def main() -> None:
    """Print the table; draw the figure if asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", metavar="FILE.png", help="where to draw the figure")
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--quick", action="store_true", help="two small sizes, few repeats")
    options = parser.parse_args()
    sizes, repeats = (SIZES[:2], 4) if options.quick else (SIZES, options.repeats)
    found = measure(sizes, repeats)
    if options.output:
        draw(found, options.output)
        print(f"drawn to {options.output}")


if __name__ == "__main__":
    main()
