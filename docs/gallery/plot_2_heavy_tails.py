"""
Heavy tails, and bounds that nobody knows
=========================================

Repair costs, incomes, file sizes: most are small, a few are enormous. Least squares follows the
few. Under privacy that hurts twice, because the noise must hide the largest pull that any row may
have. This example compares three losses on such labels. It declares no bounds: the estimators spend
a tenth of the budget on estimating how large rows and labels are.
"""

# %%
# A made-up table
# ---------------
# Features in some unit (here: hundreds), labels in thousands, and residuals with a tail so heavy
# (Student's t with 1.5 degrees of freedom) that their variance does not exist.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np

import dpsco as dp

rng = np.random.default_rng(0)
n, d = 8_000, 5
TRUTH = np.array([12.0, -8.0, 5.0, 0.0, 0.0])


def made_up(rows):
    """Return rows and heavy-tailed labels."""
    X = rng.normal(0.0, 100.0, size=(rows, d))
    return X, 5_000.0 + X @ TRUTH + 400.0 * rng.standard_t(1.5, size=rows)


X, y = made_up(n)
X_test, y_test = made_up(4_000)

figure, axes = plt.subplots(figsize=(7.2, 3.0))
axes.hist(y - 5_000.0 - X @ TRUTH, bins=np.linspace(-10_000, 10_000, 160), log=True)
axes.set_xlabel("residual of the true line")
axes.set_ylabel("rows")
axes.set_title(f"Residuals (the largest is {np.abs(y - 5_000 - X @ TRUTH).max():,.0f})")
plt.show()

# %%
# Fits in units that are found
# ----------------------------
# Where nothing is declared the estimator releases noisy histograms over public powers of two, and
# then fits in the units that they suggest. One certificate covers both.

LOSSES = {
    "squares": dp.PrivateLinearRegression,
    "Huber": dp.PrivateHuberRegressor,
    "absolute": dp.PrivateAbsoluteRegressor,
}
model = dp.PrivateHuberRegressor(epsilon=1.0).fit(X, y)
print("coefficients", model.coef_.round(1), "truth", TRUTH)
print(model.certificate_)

# %%
# Three losses
# ------------
# We measure the error of the line itself, not that of single labels: the mean distance between the
# predicted and the true line on new rows, for three fits at each epsilon.

epsilons = (0.3, 1.0, 3.0)
line = 5_000.0 + X_test @ TRUTH


def error(kind, epsilon):
    """Fit with fresh noise, and return the mean error of the line."""
    model = kind(epsilon=epsilon).fit(X, y)
    return np.abs(model.predict(X_test) - line).mean()


errors = {
    name: np.array([[error(kind, epsilon) for _ in range(3)] for epsilon in epsilons])
    for name, kind in LOSSES.items()
}
trivial = np.abs(np.median(y) - line).mean()

figure, axes = plt.subplots()
for (name, values), marker in zip(errors.items(), "os^", strict=True):
    axes.fill_between(epsilons, values.min(axis=1), values.max(axis=1), alpha=0.15, linewidth=0)
    axes.loglog(epsilons, np.median(values, axis=1), marker=marker, label=name)
axes.axhline(trivial, color="0.5", linestyle=":", label="always the median")
axes.set_xticks(epsilons, labels=[f"{epsilon:g}" for epsilon in epsilons])
axes.minorticks_off()
axes.set_xlabel("epsilon (smaller is more private)")
axes.set_ylabel("mean error of the line")
axes.set_title("Median and range of 3 fits, bounds found privately")
axes.legend(loc="upper right", bbox_to_anchor=(1.0, 0.93))
plt.show()

# %%
# Huber and absolute loss limit how far one row can pull the fit. The few enormous labels then
# matter little, and less noise suffices: robust losses suit privacy.
#
# What declared bounds are worth
# ------------------------------
# If it is publicly known that features stay within 500 and labels between -5,000 and 15,000,
# nothing has to be spent on estimating these bounds:

declared = {"feature_norm": 500.0, "label_range": (-5_000.0, 15_000.0)}
for epsilon in epsilons:
    known = [
        np.abs(
            dp.PrivateHuberRegressor(epsilon=epsilon, **declared).fit(X, y).predict(X_test) - line
        ).mean()
        for _ in range(2)
    ]
    private = np.median(errors["Huber"][epsilons.index(epsilon)])
    print(f"epsilon {epsilon:>4}: declared {np.median(known):>6.1f}, private {private:>6.1f}")
