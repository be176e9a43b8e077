"""
Outliers: clips that are found, and bounds that hold all rows
=============================================================

Noise must hide the largest pull that any row may have. If that is bounded by the longest row that
can occur, a single possible outlier decides how much noise everybody gets. If a *moment* is bounded
instead, the longest row hardly matters: rows are clipped where most of them are, and the clip is
found privately. This example makes outliers larger and rarer, so that the second moment of the rows
stays the same, and estimates their mean.
"""

# %%
# Rows with the same moments and ever larger outliers
# ---------------------------------------------------
# A row is normal; with a chance that falls like 1/size² it is replaced by an outlier of that size.

import matplotlib.pyplot as plt
import numpy as np

import dpsco as dp

rng = np.random.default_rng(0)
n, d = 20_000, 10
BUDGET = dp.ApproxDP(epsilon=1.0, delta=1e-6)
SIZES = 10.0 ** np.arange(7)
REPEATS = 3


def made_up(size, share):
    """Return normal rows about 1, a share of them replaced by outliers of a size."""
    X = 1.0 + rng.standard_normal((n, d))
    outliers = rng.random(n) < share
    X[outliers] = size * rng.standard_normal((int(outliers.sum()), d))
    return X


def excess(solver, size, share=None, longest=None, **options):
    """Return the median excess risk of some fits; ``longest`` is what is declared of rows."""
    bounds = dp.Bounds(feature_norm=longest or 10.0 * size)
    problem = dp.Problem(loss=dp.losses.SquaredDistance(), bounds=bounds)
    errors = []
    for _ in range(REPEATS):
        X = made_up(size, 0.02 / size**2 if share is None else share)
        weights = dp.solve(problem, (X,), BUDGET, solver=solver, options=options).weights
        errors.append(0.5 * np.sum((weights - 1.0) ** 2))
    return np.median(errors)


METHODS = {
    "clip found": lambda size: ("l2_clip_mean_oracle", {"clip": "auto"}),
    "clip by the moment": lambda size: ("l2_clip_mean_oracle", {"moment": 6.0}),
    "one release, clip at the longest row": lambda size: (
        "l2_clip_mean_oracle",
        {"clip": 10.0 * size},
    ),
    "DP-SGD, clip at the longest row": lambda size: (
        "dp_sgd_poisson",
        {"clip": 10.0 * size, "step": 0.3, "epochs": 3, "rate": 0.2},
    ),
    "noisy_gd, bounds that hold all rows": lambda size: ("noisy_gd", {"rounds": 10}),
}
risks = {}
for name, method in METHODS.items():
    chosen = [method(size) for size in SIZES]
    risks[name] = [
        excess(solver, size, **options)
        for size, (solver, options) in zip(SIZES, chosen, strict=True)
    ]

# %%
# The figure
# ----------
# The risk of zero weights is 5. What is calibrated to the longest row that may occur blows up,
# although hardly any table has such a row; `noisy_gd` is as careful as its bounds tell it to be,
# and learns nothing. Clips that are found, or that follow from the moment, do not notice.

figure, axes = plt.subplots(figsize=(7.0, 4.2))
for (name, values), marker in zip(risks.items(), "os^vd", strict=True):
    axes.loglog(SIZES, values, marker=marker, label=name)
axes.axhline(d / 2, color="0.5", linestyle=":", label="zero weights")
axes.set_xlabel("size of outliers (the second moment stays the same)")
axes.set_ylabel("excess risk, median of 3 fits")
axes.set_title("Fixed moments, epsilon = 1")
axes.legend(fontsize="small")
plt.show()

# %%
# Half a percent of outliers, whatever their size
# -----------------------------------------------
# Here moments grow with the outliers and no theory helps; a clip still bounds what they can do.

for size in (1.0, 1e2, 1e4, 1e6):
    value = excess("l2_clip_mean_oracle", size, share=0.005, longest=1e9, clip="auto")
    print(f"outliers of size {size:>9,.0f}: excess risk {value:.4f}")

# %%
# A clip that is fixed
# --------------------
# A fixed clip of the right size does as well as one that is found; but the right size depends on
# the unit of the rows, which somebody has to know.

print("clip     fixed excess")
for clip in (0.1, 1.0, 10.0, 100.0, 1e4, 1e6):
    value = excess("l2_clip_mean_oracle", 100.0, longest=1e9, clip=clip)
    print(f"{clip:>9,.1f} {value:.4f}")
