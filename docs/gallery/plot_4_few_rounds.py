"""
Few rounds
==========

A round is one look at the rows: a pass over a table on disk, a message to every hospital. Rounds
are what distributed training pays for, and privacy makes each of them noisier. How many are worth
having?

Two families are compared at the same guarantee, epsilon 1. ``noisy_gd`` reads **all** rows in every
round, so its rounds share the budget. The others split the rows among the rounds: every row is read
once, in one pass. ``dp_sgd_single_epoch`` and ``dp_ftrl`` take plain steps; ``acc_srgd`` takes
accelerated ones, on gradients that it corrects from round to round instead of starting anew.
"""

# %%
# A made-up table
# ---------------
# 20,000 rows of 10 features, and labels that follow a logistic model. What is measured is the
# excess risk: how much larger the mean loss is than that of the best weights on the same rows.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import dpsco as dp

rng = np.random.default_rng(0)
n, d = 20_000, 10
X = rng.standard_normal((n, d))
X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
truth = np.linspace(-3.0, 3.0, d)
y = np.where(X @ truth + rng.logistic(size=n) > 0, 1, -1)

problem = dp.Problem(loss=dp.losses.Logistic(), bounds=dp.Bounds(1.0, label="sign"))
budget = dp.ApproxDP(epsilon=1.0, delta=1 / n**2)


def risk(weights):
    """Return the mean logistic loss, which only the holder of the rows can compute."""
    return np.logaddexp(0.0, -y * (X @ weights)).mean()


best = minimize(risk, np.zeros(d), method="BFGS").fun

# %%
# Excess risk against rounds
# --------------------------
# A plan is made for each number of rounds; the noise of a round follows from the budget. Each point
# is the mean of five runs with fresh noise. (``noisy_gd`` runs with a momentum of 0.5: its default,
# 0.9, is made for more rounds than these, and swings when there are few.)
#
# ``acc_srgd`` is told one more public fact. The smoother the **mean** loss, the longer its steps
# may be; and it is smoother than a row's loss where rows point in many directions: 1/(4 d) instead
# of 1/4 for rows that point everywhere alike. A wrong value costs accuracy, never privacy. Without
# it the plan takes 1/4, and three times as many rounds.

ROUNDS = (1, 2, 4, 8, 16, 32, 64, 128)
SOLVERS = {
    "noisy_gd": "all rows in every round",
    "dp_sgd_single_epoch": "one pass, independent noise",
    "dp_ftrl": "one pass, correlated noise",
    "acc_srgd": "one pass, correlated noise, accelerated",
}
OPTIONS = {"noisy_gd": {"momentum": 0.5}, "acc_srgd": {"population_smoothness": 1 / (4 * d)}}


def excess(solver, rounds, runs=5):
    """Return the mean excess risk of a solver with so many rounds."""
    options = {"rounds": rounds, **OPTIONS.get(solver, {})}
    plan = dp.plan(problem, n=n, d=d, budget=budget, solver=solver, options=options)
    return np.mean([risk(dp.run(plan, (X, y)).weights) - best for _ in range(runs)])


found = {solver: [excess(solver, rounds) for rounds in ROUNDS] for solver in SOLVERS}

figure, axes = plt.subplots()
for (solver, meaning), marker in zip(SOLVERS.items(), "os^D", strict=True):
    axes.loglog(ROUNDS, found[solver], marker=marker, label=f"{solver}: {meaning}")
axes.set_xticks(ROUNDS, labels=[str(rounds) for rounds in ROUNDS])
axes.minorticks_off()
axes.set_xlabel("rounds")
axes.set_ylabel("excess risk (mean of 5 runs)")
axes.set_title(f"What more rounds buy at epsilon 1 ({n:,} rows, {d} features)")
axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.15), ncols=1)
plt.show()

# %%
# The first rounds buy the most. With full passes the budget is split among the rounds, and the
# noise averages out as fast as it grows, so that more rounds do no harm: about 32 suffice here. But
# each reads the whole table again. The one-pass solvers read every row once. Plain steps get most
# of their quality within a few dozen rounds; accelerated ones on corrected gradients within eight,
# and are then close to 32 full passes. With many more rounds than it takes by itself ``acc_srgd``
# gets worse again: its batches become small, and its noise is made for few.

print("rounds " + "".join(f"{rounds:>7}" for rounds in ROUNDS))
for solver, risks in found.items():
    print(solver)
    print("       " + "".join(f"{risk:>7.4f}" for risk in risks))

# %%
# Left to themselves, the solvers choose the number of rounds from public facts:

for solver in SOLVERS:
    options = OPTIONS.get(solver, {})
    plan = dp.plan(problem, n=n, d=d, budget=budget, solver=solver, options=options)
    print(f"{solver:>20}: {plan.total_rounds} rounds")
