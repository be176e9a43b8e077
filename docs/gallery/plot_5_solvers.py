"""
Comparing solvers
=================

Before any row is read, ``dp.recommend`` ranks the solvers that apply to a problem by the excess
risk it predicts from public facts. This example puts the prediction beside the measurement, for
every solver that applies, and then changes the facts.
"""

# %%
# A problem
# ---------
# Logistic regression on 2,000 made-up rows. The bounds and the budget are all that a
# recommendation needs, besides the size of the table.

import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import dpsco as dp

rng = np.random.default_rng(0)
n, d = 2_000, 8
X = rng.standard_normal((n, d)) / np.sqrt(d)
X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
y = np.where(X @ np.linspace(-4.0, 4.0, d) + rng.logistic(size=n) > 0, 1, -1)

problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
budget = dp.ApproxDP(epsilon=2.0, delta=1 / n**2)
advice = dp.recommend(problem, n, d, budget)
print(advice)

# %%
# Prediction and measurement
# --------------------------
# Predictions rank; they do not promise. Each solver runs twice with its default settings, and the
# excess is measured on the very rows, which only their holder can do. (One baseline of the
# literature, whose many small steps take longer than all others together, is left out.)


def risk(weights):
    """Return the mean logistic loss."""
    return np.logaddexp(0.0, -y * (X @ weights)).mean()


best = minimize(risk, np.zeros(d), method="BFGS").fun

ranked = [candidate for candidate in advice.ranked if candidate.solver != "noisy_sgd_2020"]
measured, seconds = {}, {}
for candidate in ranked:
    plan = dp.plan(problem, n=n, d=d, budget=budget, solver=candidate.solver)
    start = time.perf_counter()
    runs = [risk(dp.run(plan, (X, y)).weights) - best for _ in range(2)]
    seconds[candidate.solver] = (time.perf_counter() - start) / 2
    measured[candidate.solver] = np.mean(runs)

keys = [candidate.solver for candidate in ranked][::-1]
predicted = [candidate.risk for candidate in ranked][::-1]
places = np.arange(len(keys))
nothing = np.log(2.0) - best  # what the zero weights lose, which cost no privacy at all

figure, axes = plt.subplots(figsize=(7.2, 1.6 + 0.24 * len(keys)))
axes.hlines(places, predicted, [measured[key] for key in keys], color="0.8", zorder=1)
axes.scatter(predicted, places, marker="D", label="predicted, before any row is read", zorder=2)
axes.scatter([measured[key] for key in keys], places, label="measured, mean of 2 runs", zorder=2)
axes.axvline(nothing, color="0.5", linestyle=":", label="weights of zero")
axes.set_xscale("log")
axes.set_yticks(places, labels=keys)
axes.set_xlabel("excess risk (smaller is better)")
axes.set_title(f"{len(keys)} solvers at epsilon 2 ({n:,} rows, {d} features)")
axes.legend(loc="upper center", bbox_to_anchor=(0.35, -0.09), ncols=3, columnspacing=1.0)
plt.show()

# %%
# They all give the same guarantee. What differs is what the guarantee rests on (clipping alone, or
# convexity too), how often rows are read, and time:

print(f"{'solver':<34}{'measured excess':>16}{'seconds':>10}")
for key in keys[::-1]:
    print(f"{key:<34}{measured[key]:>16.4f}{seconds[key]:>10.3f}")

# %%
# Other facts, other advice
# -------------------------
# The recommendation changes with the loss, the size of the table and the budget, and says why a
# solver does not apply.

hinge = dp.Problem(loss=dp.losses.Hinge(), bounds=dp.Bounds(1.0, label="sign"))
for name, what in (("logistic", problem), ("hinge", hinge)):
    for rows in (1_000, 100_000):
        for epsilon in (0.1, 1.0):
            found = dp.recommend(what, rows, d, dp.ApproxDP(epsilon, 1 / rows**2))
            print(f"{name:>9}, {rows:>7,} rows, epsilon {epsilon}: {found.best}")

print()
refused = dp.recommend(hinge, n, d, budget).refused
print("phased_sgd and the hinge loss:", "; ".join(refused["phased_sgd"]))
