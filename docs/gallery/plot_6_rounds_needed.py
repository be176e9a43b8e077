"""
Rounds against rows
===================

More rows allow better weights, and better weights take more rounds to find. How fast does the
number of rounds grow that is worth having? Theory says: like the fourth root to the square root of
the number of rows, if steps are accelerated and gradients corrected from round to round
(``acc_srgd``); like the number of rows itself, if every step reads one row (``phased_sgd``, whose
steps wait for each other). Here it is measured. ``python -m benchmarks.rounds_needed`` in the
repository does the same with more tables, more step sizes and error bars: its figure is on the page
about training in few rounds.
"""

# %%
# Rows that vary unevenly
# -----------------------
# Where rows point in all directions alike, one long step finds the right direction, and rounds are
# no issue. Tables are not like that. These rows vary most in their first features, and the labels
# follow a logistic model whose weights are largest in the last. The excess risk is exact up to the
# 10,000 fresh rows that it is averaged over: the labels' probabilities are known.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

import dpsco as dp

D, RADIUS = 20, 20.0
ORDER = np.arange(1, D + 1)
TRUTH = np.where(ORDER % 2 == 1, 1.0, -1.0) * ORDER**0.25
TRUTH *= 0.8 * RADIUS / np.linalg.norm(TRUTH)
SIZES = (4096, 16384, 65536)
ROUNDS = (2, 4, 8, 16, 32, 64)
TABLES = 6

rng = np.random.default_rng(0)


def rows(count):
    """Return unit vectors that vary unevenly."""
    points = rng.standard_normal((count, D)) / np.sqrt(ORDER)
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def table(count):
    """Return rows and labels."""
    X = rows(count)
    return X, np.where(rng.random(count) < expit(X @ TRUTH), 1, -1)


fresh = rows(10_000)
true = fresh @ TRUTH


def excess(weights):
    """Return the excess risk."""
    margin = fresh @ weights
    gap = np.logaddexp(0.0, margin) - np.logaddexp(0.0, true)
    return np.mean(gap - expit(true) * (margin - true))


# %%
# Every solver at every number of rounds
# --------------------------------------
# The accelerated solvers run with their own step sizes, from public facts and from how smooth the
# mean loss is: a quarter of the variance along the first feature. SGD may choose the best of three
# long steps, by looking at the answer, which in earnest nobody can.

smoothness = 0.25 * np.mean(fresh[:, 0] ** 2)
COLOURS = {"acc_srgd": "C0", "acc_independent": "C1", "dp_sgd_single_epoch": "C2"}
SETTINGS = {
    "acc_srgd": [{"population_smoothness": smoothness}],
    "acc_independent": [{"population_smoothness": smoothness}],
    "dp_sgd_single_epoch": [{"step": step} for step in (32.0, 64.0, 128.0)],
}
problem = dp.Problem(
    loss=dp.losses.Logistic(),
    bounds=dp.Bounds(1.0, label="sign"),
    domain=dp.domains.L2Ball(RADIUS),
)
budget = dp.ApproxDP(epsilon=1.0, delta=1e-6)


def mean_excess(solver, options, tables):
    """Return the mean excess over the tables."""
    n = len(tables[0][0])
    plan = dp.plan(problem, n=n, d=D, budget=budget, solver=solver, options=options)
    return np.mean([excess(dp.run(plan, data).weights) for data in tables])


curves = {solver: {} for solver in SETTINGS}
for n in SIZES:
    tables = [table(n) for _ in range(TABLES)]
    for solver, settings in SETTINGS.items():
        curves[solver][n] = [
            min(mean_excess(solver, {"rounds": rounds, **given}, tables) for given in settings)
            for rounds in ROUNDS
        ]

figure, panels = plt.subplots(1, len(SIZES), sharey=True, figsize=(9.0, 3.6), layout="constrained")
for axes, n in zip(panels, SIZES, strict=True):
    for (solver, of), marker in zip(curves.items(), "os^", strict=True):
        axes.loglog(ROUNDS, of[n], marker=marker, color=COLOURS[solver], label=solver)
    axes.set_xticks(ROUNDS, labels=[str(rounds) for rounds in ROUNDS])
    axes.minorticks_off()
    axes.set_xlabel("rounds")
    axes.set_title(f"{n:,} rows")
panels[0].set_ylabel(f"excess risk (mean of {TABLES} tables)")
panels[0].legend(fontsize="small")
plt.show()

# %%
# Rounds needed
# -------------
# The fewest rounds that come within 10 % of a solver's own best, and that best. With six tables
# and rounds that double, an answer may be off by one step of the grid. ``phased_sgd`` has no rounds
# to choose: each of its steps reads one row and waits for the one before.


def needed(found):
    """Return the fewest rounds close to the best."""
    return next(
        rounds for rounds, risk in zip(ROUNDS, found, strict=True) if risk <= 1.1 * min(found)
    )


rounds_needed = {solver: [needed(of[n]) for n in SIZES] for solver, of in curves.items()}
rounds_needed["phased_sgd"] = [
    sum(dp.plan(problem, n=n, d=D, budget=budget, solver="phased_sgd").sizes) for n in SIZES
]

figure, axes = plt.subplots()
for (solver, of), marker in zip(rounds_needed.items(), "os^D", strict=True):
    rate = np.polyfit(np.log(SIZES), np.log(of), 1)[0]
    axes.loglog(SIZES, of, marker=marker, label=f"{solver}: slope {rate:.2f}")
axes.set_xticks(SIZES, labels=[f"{n:,}" for n in SIZES])
axes.minorticks_off()
axes.set_xlabel("rows")
axes.set_ylabel("sequential rounds")
axes.legend()
plt.show()

for solver, of in curves.items():
    print(solver)
    for n, rounds in zip(SIZES, rounds_needed[solver], strict=True):
        print(f"{n:>8,} rows: {rounds:>3} rounds, excess {min(of[n]):.5f}")

# %%
# Fresh gradients with independent noise stop gaining after a few rounds: every further batch is
# smaller, and noisier. Their best comes early, because it is not good. ``acc_srgd`` goes on gaining
# with a number of rounds that stays in the dozens, and ends with a fraction of their excess where
# there are many rows. SGD with the best of the three steps, which nobody knows beforehand, is ahead
# of it where rounds are very few. One row a step would be 65,536 rounds.
